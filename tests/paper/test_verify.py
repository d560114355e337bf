"""``python -m paper verify``: the checks hold, a wrong bound is found out, and terminal, JSON and report say so."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret import certificates
from lowregret.engine import Engine
from lowregret.evaluate.adversaries import all_sequences
from lowregret.rules.regret_gap import GapWatch
from lowregret.rules.regret_rate import RateWatch
from paper import app, eight_sources, verify
from paper.statements import Claim, Statement, against, all_statements, at_least, at_most, equals, section_2
from paper.statements.exhaustive import chances, chances_of_counts
from paper.statements.section_5 import TABLE, chance_of_a_switch, mean_regret_of_the_model

from .conftest import ENVIRONMENT, paper

SLOW = (  # the golden runs have them, in test-all
    *("Algorithm", "Theorem 4.1", "Theorem 4.2, regret", "Theorem 4.2, TV", "Theorem C.4", "Theorem 3.1, TV"),
    *("Theorem 3.1, at", "Theorem 3.1, regret", "4, bounded", "5.2, the eight", "5.2.2", "Definition 2.4"),
    *("Lemma 2.3", "Lemma C.2", "Lemma C.8", "Every start, (iv)"),
)
QUICK = [
    statement
    for statement in all_statements()
    if not statement.name.startswith(SLOW) and statement.name != "5.2, the switching rule"
]


def named(name: str) -> Statement:
    return next(statement for statement in all_statements() if statement.name == name)


# The statements


@pytest.mark.parametrize("statement", QUICK, ids=lambda statement: statement.name)
def test_the_quick_statements_hold(statement: Statement) -> None:
    outcome = verify.examine(statement)
    assert not outcome.note
    assert outcome.verdict == statement.verdict


def test_the_table_of_the_eight_sources_has_every_player_of_the_demo() -> None:
    everyone = eight_sources.players(16)  # the statement itself is slow: no other test would see a column missing
    for regrets, medians in TABLE.values():
        assert len(regrets) == len(everyone)
        assert len(medians) == sum(isinstance(player, lr.robust.Robust) for player in everyone.values())


def test_every_statement_says_what_it_is() -> None:
    statements = all_statements()
    assert len({statement.name for statement in statements}) == len(statements) >= 25
    for statement in statements:
        assert statement.says.endswith(".")
        assert statement.how.endswith(".")
        assert statement.section.startswith(("Section", "Beyond", "Appendix"))
        assert not (statement.corrected and statement.sharper)
    sections = [statement.section for statement in statements]
    assert sections[0].startswith("Section 2")
    assert sections == sorted(sections, key=sections.index)  # each in one piece


def test_the_chance_of_a_switch_by_enumeration() -> None:
    """The dynamic programme behind .0522, against all sequences of 12 through the test itself."""
    tokens = all_sequences(2, 12)
    for a, b in ((0.6, 0.6), (0.55, 0.8), (0.4, 0.3)):
        model = lr.predictors.Scheduled([[1 - a, a]] * 6 + [[1 - b, b]] * 6)
        switched = lr.robustify(model, lr.matching(), test=lr.RegretRate(12)).alarm_times(tokens) < 12
        exact = chances(model, tokens)[switched, -1].sum()
        assert exact > 1e-3
        assert chance_of_a_switch(((a, 6), (b, 6)), 12**-0.5, last_step=11) == pytest.approx(exact, abs=1e-12)
    assert chance_of_a_switch(((0.6, 12),), 12**-0.5, 11) == chance_of_a_switch(((0.6, 6), (0.6, 6)), 12**-0.5, 11)


def test_the_models_exact_regret_against_samples() -> None:
    source, T = lr.evaluate.sources.paper_sources(1024)["sin5"], 1024
    model = lr.policies.Respond(lr.evaluate.sources.paper_sources(T)["b"], lr.matching(), 1 / 32)
    regret = lr.external_regret(lr.matching(), model, lr.sample(source, T, 400, seed=0))[:, -1]
    assert abs(regret.mean() - mean_regret_of_the_model(source)) < 4 * regret.std() / 20
    np.testing.assert_allclose(chances_of_counts(np.full(9, 0.3))[-1] @ np.arange(10), 2.7, atol=1e-12)


# A wrong statement fails


def test_a_bound_that_is_too_small_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lemma A.1 with its sharp constant is attained: a tenth less is broken, and the exit status says so."""
    true = certificates.quantal_loss
    monkeypatch.setattr(certificates, "quantal_loss", lambda n_actions: 0.9 * true(n_actions))
    done = CliRunner().invoke(app._app(), ["verify", "--only", "Lemma A.1", "--jobs", "1", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "Lemma A.1: FAILED" in done.stdout
    assert "1 of the paper: failed 1." in done.stdout
    data = json.loads((tmp_path / "verify.json").read_text())
    assert data["passed"] is False
    (found,) = data["statements"]
    assert found["verdict"] == "failed"
    assert found["claims"][0]["tightness"] == pytest.approx(1 / 0.9, abs=1e-6)
    assert "### Lemma A.1: failed" in (tmp_path / "report.md").read_text()


@pytest.mark.long
def test_theorem_3_1_without_a_tenth_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    true = certificates.bounds.theorem_3_1
    monkeypatch.setattr(certificates.bounds, "theorem_3_1", lambda **a: {k: 0.9 * v for k, v in true(**a).items()})
    outcome = verify.examine(named("Theorem 3.1, regret"))
    assert outcome.verdict == "failed"
    assert "T = 1024" in outcome.note


@pytest.mark.long
def test_a_broken_algorithm_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    true = GapWatch.threshold_at
    monkeypatch.setattr(GapWatch, "threshold_at", lambda watch, step: 1.05 * true(watch, step))
    outcome = verify.examine(named("Algorithm 1"))
    assert outcome.verdict == "failed"
    assert "pseudo-code" in outcome.note


@pytest.mark.long
def test_mutants_of_tests_and_bounds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was once invisible: a strict inequality, shares and bounds of an unknown horizon, a union, constants."""

    def fails(name: str, where: object, part: str, mutant: object) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(where, part, mutant)
            assert verify.examine(named(name)).verdict == "failed", (name, part)

    bounds, prior = certificates.bounds, certificates.every_start.Prior
    urn, most, c_4 = bounds.urn_anytime, bounds.regret_gap_anytime, bounds.theorem_c_4
    log, weights = bounds.anytime_log, prior.weights_K
    fails("5.2, the switching rule, strictly", RateWatch, "threshold", 0.0)
    fails("Unknown horizon, bounds", certificates, "urn_anytime", lambda *a: 0.99 * urn(*a))
    fails("Unknown horizon, bounds", bounds, "regret_gap_anytime", lambda **a: {**most(**a), "threshold": 0})
    fails("Unknown horizon, shares", certificates, "anytime_log", lambda t, delta: log(t, 1.1 * delta))
    fails("Unknown horizon, shares", prior, "weights_K", lambda self, start: weights(self, start) * 1.01)
    fails("C.4, the constants", bounds, "theorem_c_4", lambda **a: {**c_4(**a), "test": 0.5 * c_4(**a)["test"]})
    fails("Excluded states", Engine, "alarm_times", lambda engine, probs, tokens: 1 + 0 * tokens[..., 0])


def test_a_counterexample_that_refutes_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_2, "expected_regret_of_a_fair_coin", lambda horizon: 0.0)
    outcome = verify.examine(named("Lemma 2.1"))
    assert outcome.verdict == "failed"
    assert "no counterexample after all" in outcome.note


# Claims


def test_claims_hold_up_to_their_bound() -> None:
    assert at_most("x", 1, 1).holds
    assert at_least("x", 1, 1).holds
    assert not at_most("x", 1 + 1e-9, 1).holds
    assert not at_least("x", 1 - 1e-9, 1).holds
    assert equals("x", 1.01, 1, within=0.02).holds
    assert not equals("x", 1.03, 1, within=0.02).holds
    for claim in (at_most("x", math.nan, 1), at_least("x", math.nan, 1), equals("x", math.nan, 1, 1)):
        assert not claim.holds
    assert at_most("x", 2, 1).tightness == 2
    assert at_least("x", 2, 1).tightness == 0.5
    assert at_most("x", -1, 1).tightness is at_least("x", 1, 0).tightness is equals("x", 1, 1, 0).tightness is None
    assert at_most("x", 0.25, 0).numbers == ("0.25", ">", "0")
    assert equals("x", 0.130762, 0.13076, 5e-6).numbers == ("0.130762", "=", "0.130760")
    assert str(at_least("x", 1, 2)) == "x: 1 < 2 (not >=)"


# The runner, on statements made up for it


def good() -> list[Claim]:
    """Nothing to see."""
    return [at_most("a & b <= c", 0.5, 1)]


def bad() -> list[Claim]:
    return [at_most("fine", 0.5, 1), at_most("not fine", 2, 1)]


def wrong_as_printed() -> list[Claim]:
    return [at_most("x", 1, 2), against(at_most("x", 1, 0))]


def breaks() -> list[Claim]:
    raise RuntimeError("no such thing")


def made_up(name: str, check: object, **more: object) -> Statement:
    return Statement(name, "It is so.", check, **more)  # type: ignore[arg-type]


OTHERWISE = {"verdict": "false", "quotes": ("it is <so>",), "corrected": "It is otherwise."}
# Each with the verdict that is to be found, and what the note says.
FAKES = [
    (made_up("Lemma 9.1", good), "holds", ""),
    (made_up("Lemma 9.2", bad), "failed", "not fine: 2 > 1 (not <=)"),
    (made_up("Lemma 9.3", wrong_as_printed, **OTHERWISE), "false", ""),
    (made_up("Lemma 9.4", breaks), "failed", "RuntimeError: no such thing"),
    (made_up("Lemma 9.5", good, needs="a_module_that_is_not_there"), "skipped", "pip install a_module_that"),
    (made_up("Lemma 9.6", wrong_as_printed), "failed", "holds needs 0 counterexamples, one a quotation: 1"),
    (made_up("Lemma 9.7", good, **OTHERWISE), "failed", "false needs 1 counterexamples, one a quotation: 0"),
    (made_up("Lemma 9.8", lambda: []), "failed", "nothing was claimed"),
    (
        made_up("Lemma 9.9", lambda: [at_most("x", 0, 1), against(at_most("x", math.nan, 1))], **OTHERWISE),
        "failed",
        "not a number",
    ),
    (made_up("Lemma 9.10", good, verdict="constant"), "constant", ""),
    (made_up("Lemma 9.11", good, **{**OTHERWISE, "verdict": "vacuous"}), "vacuous", ""),
    (made_up("Lemma 9.12", wrong_as_printed, **{**OTHERWISE, "verdict": "vacuous"}), "failed", "needs 0 counterex"),
    (made_up("Lemma 9.13", wrong_as_printed, **{**OTHERWISE, "verdict": "step"}), "step", ""),
    (
        made_up("Lemma 9.14", wrong_as_printed, **{**OTHERWISE, "quotes": ("it is <so>", "twice")}),
        "failed",
        "needs 2 counterexamples, one a quotation: 1",
    ),
    (made_up("Ours, good", good, verdict="beyond"), "beyond", ""),
    (made_up("Ours, bad", bad, verdict="beyond"), "failed", "not fine"),
]


def test_verdicts() -> None:
    outcomes = list(verify.run([statement for statement, _, _ in FAKES], jobs=1))
    for outcome, (statement, verdict, note) in zip(outcomes, FAKES, strict=True):
        assert (outcome.statement, outcome.verdict) == (statement, verdict)
        assert note in outcome.note if note else outcome.note == ""
    data = json.loads(json.dumps(verify.as_json(outcomes), allow_nan=False))
    assert data["statements"][8]["refuted"][0]["measured"] is None
    assert data["statements"][12]["refuted"][0]["quote"] == "it is <so>"
    assert [one["of_the_paper"] for one in data["statements"]] == [True] * 14 + [False] * 2


def test_what_is_beyond_the_paper_is_counted_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """On the terminal, in the report and in the JSON: what the library adds does not make the paper look better."""
    assert not verify.verify([statement for statement, _, _ in FAKES], tmp_path, jobs=1)
    counts = {
        "of the paper": {
            "holds": 1,
            "holds with a constant named": 1,
            "vacuous as printed": 1,
            "a step of the proof fails": 1,
            "false as printed": 1,
            "failed": 8,
            "skipped": 1,
        },
        "beyond the paper": {"holds": 1, "failed": 1},
    }
    assert json.loads((tmp_path / "verify.json").read_text())["counts"] == counts
    words = (
        "16 statements. 14 of the paper: holds 1, holds with a constant named 1, vacuous as printed 1, a step of the "
        "proof fails 1, false as printed 1, failed 8, skipped 1. 2 beyond the paper: holds 1, failed 1."
    )
    terminal, text = capsys.readouterr().out, (tmp_path / "report.md").read_text()
    assert words in terminal
    assert words in text
    assert 'the paper: "it is <so>"\n       against it: x: 1 > 0 (not <=)' in terminal
    for statement, _, _ in FAKES:
        assert f"{statement.name}: " in terminal
        assert f"### {statement.name}: " in text
    assert "| against the paper: x | 1 > 0 |  |\n| x | 1 <= 2 | 0.50 |" in text


def test_what_is_refuted_is_quoted_and_nothing_else_is() -> None:
    for verdict in ("step", "false", "vacuous"):
        for missing in ("quotes", "corrected"):
            with pytest.raises(ValueError, match="quotes and corrected go with"):
                made_up("Lemma 9.1", good, **{**OTHERWISE, "verdict": verdict, missing: ()})
    for verdict in ("holds", "constant", "beyond"):
        with pytest.raises(ValueError, match="corrected"):
            made_up("Lemma 9.1", good, **{**OTHERWISE, "verdict": verdict})
    with pytest.raises(ValueError, match=r"verdict must be one of holds, .*, beyond, got 'true'"):
        made_up("Lemma 9.1", good, verdict="true")


# The command


def test_names_are_matched_from_their_beginning() -> None:
    assert [s.name for s in verify.selected(["lemma 2.1", "EQUATION (1), as"])] == [
        "Lemma 2.1",
        "Equation (1), as Hedge",
    ]
    assert verify.selected([]) == all_statements()
    done = CliRunner().invoke(app._app(), ["verify", "--only", "Lemma 2", "--only", "Lemma 7"])
    assert done.exit_code == 2
    assert "got 'Lemma 7'" in done.output
    listed = CliRunner().invoke(app._app(), ["verify", "--list", "--only", "Lemma"])
    assert listed.exit_code == 0
    assert [line[:9] for line in listed.stdout.splitlines()][:2] == ["Lemma 2.1", "Lemma 2.2"]


@pytest.mark.long
def test_two_processes_write_what_one_does(tmp_path: Path) -> None:
    only = ["--only", "Lemma A.1", "--only", "A.3", "--only", "Lemma 2.2"]
    for folder, jobs in (("one", "1"), ("two", "2")):
        done = paper("verify", *only, "--out", folder, "--jobs", jobs, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "3 statements. 3 of the paper: holds 2, a step of the proof fails 1." in done.stdout
    for name in ("report.md", "verify.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("everyone", [False, True], ids=["the command alone", "the whole group"])
def test_a_line_as_each_is_done_and_an_end_at_ctrl_c(everyone: bool, tmp_path: Path) -> None:
    """The log grows long before the end; an interrupt ends it and all its processes within moments."""
    command = [sys.executable, "-m", "paper", "verify", "--jobs", "2", "--out", str(tmp_path / "v")]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background it would be ignored
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(" 1/")
        begin = time.monotonic()
        (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=40)  # all that have its pipes are over
    finally:
        process.kill()
    assert time.monotonic() - begin < 20
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not (tmp_path / "v/verify.json").exists()
