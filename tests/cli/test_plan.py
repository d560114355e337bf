"""``lowregret plan`` as a user meets it: what it says is what the delays are, and what cannot be planned is refused."""

import re
from pathlib import Path
from typing import Any

import pytest

import lowregret as lr
from lowregret.guard import delay

pytestmark = pytest.mark.needs("typer")

PAYOFFS = "dollars,down,up\nshort,100,-100\nflat,0,0\nlong,-100,100\n"


def run(*arguments: Any) -> Any:
    from typer.testing import CliRunner

    from lowregret.cli.app import _app

    return CliRunner().invoke(_app(), ["plan", *map(str, arguments)])


@pytest.fixture
def payoffs(tmp_path: Path) -> Path:
    (tmp_path / "payoffs.csv").write_text(PAYOFFS)
    return tmp_path / "payoffs.csv"


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"-?\d[\d,]*\.?\d*", text)]


def test_it_says_what_the_delays_are(payoffs: Path) -> None:
    done = run(
        payoffs, "--forecast", "up=.65, down=.35", "--truth", ".6,.4", "--horizon", 400, "--runs", 100, "--seed", 4
    )
    assert done.exit_code == 0, done.output
    problem = lr.problems.payoffs_in(payoffs)
    guard = lr.Guard(problem, test=lr.ExactTest(0.05, 400))
    found = delay(guard, forecast=[0.35, 0.65], truth=[0.6, 0.4], runs=100, seed=4)
    says = done.output.splitlines()
    assert says[0] == "The model's forecast is down 0.35, up 0.65, so it plays long, for 30 per step."
    assert "From step 201 of 400 on it is broken: down 0.6, up 0.4 is true. Then long earns -20 per step" in says[1]
    assert says[2] == "and short 20 per step: every step loses 40."
    assert numbers(says[5]) == [found.median, 40 * found.median]
    assert numbers(says[6])[:2] == [found.ninetieth, 40 * found.ninetieth]
    assert f"at most {found.certificate:.4g} per step" in done.output
    assert f"more than {found.least_edge:.4g} per step" in done.output
    assert found.certificate == pytest.approx(guard.certificate.regret_bound_in_payoffs)
    assert "too small an edge" not in done.output


def test_an_edge_that_is_too_small_is_said_to_be(payoffs: Path) -> None:
    done = run(payoffs, "--edge", 5, "--horizon", 100, "--runs", 60)
    assert done.exit_code == 0, done.output
    assert "every step loses 5." in done.output
    assert "not within the 50 steps that are left, in which 250 are lost" in done.output
    assert "do not count on a guard here" in done.output


def test_a_break_that_costs_nothing_is_said_to_be(payoffs: Path) -> None:
    done = run(payoffs, "--forecast", ".1,.9", "--truth", ".4,.6", "--horizon", 100, "--runs", 5)
    assert done.exit_code == 0, done.output
    assert "Nothing is lost by such a break" in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give an edge, or a forecast and a truth"),
        (["--edge", "500"], "edge must be one that two actions"),
        (["--forecast", "up=.5,sideways=.5", "--truth", ".5,.5"], "must name each of the states down, up once"),
        (["--forecast", "up=.5,down=x", "--truth", ".5,.5"], "must be STATE=CHANCE each"),
        (["--forecast", "down=.2,up=.5,up=.3", "--truth", ".5,.5"], "must be NAME=VALUE once for each name"),
    ],
)
def test_what_cannot_be_planned_is_refused(payoffs: Path, arguments: list[str], says: str) -> None:
    done = run(payoffs, *arguments)
    assert done.exit_code == 2
    assert says in re.sub(r"[\s│]+", " ", done.output)


def test_what_is_lost_until_a_break_is_noticed() -> None:
    guard = lr.Guard(lr.matching(), test=lr.ExactTest(0.05, 1000))
    found = delay(guard, forecast=[0.8, 0.2], truth=[0.2, 0.8], runs=100)
    assert found.lost(10) == pytest.approx(6.0)
    assert found.lost(10_000) == pytest.approx(0.6 * 500)
