"""``python -m paper verify``: the checks hold, a wrong bound is found out, and terminal and JSON say so."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret import certificates
from lowregret.engine import Engine
from lowregret.evaluate.adversaries import all_sequences
from lowregret.rules.regret_gap import GapWatch
from lowregret.rules.regret_rate import RateWatch
from paper import app, verify
from paper.statements import all_statements
from paper.statements.claims import Claim, Statement, against, at_least, at_most, equals
from paper.statements.exhaustive import chances
from paper.statements.section_5 import chance_of_a_switch

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


# A wrong statement fails


def test_a_bound_that_is_too_small_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lemma A.1 with its sharp constant is attained: a tenth less is broken, and the exit status says so."""
    true = certificates.quantal_loss
    monkeypatch.setattr(certificates, "quantal_loss", lambda n_actions: 0.9 * true(n_actions))
    done = CliRunner().invoke(app.app, ["verify", "--only", "Lemma A.1", "--jobs", "1", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "Lemma A.1: FAILED" in done.stdout
    assert "1 of the paper: failed 1." in done.stdout
    data = json.loads((tmp_path / "verify.json").read_text())
    assert (data["passed"], data["statements"][0]["verdict"]) == (False, "failed")
    assert data["statements"][0]["claims"][0]["tightness"] == pytest.approx(1 / 0.9, abs=1e-6)


BOUNDS, PRIOR = certificates.bounds, certificates.every_start.Prior
THEOREM_3_1, THRESHOLD_AT, URN = BOUNDS.theorem_3_1, GapWatch.threshold_at, BOUNDS.urn_anytime
GAP, C_4, LOG, WEIGHTS = BOUNDS.regret_gap_anytime, BOUNDS.theorem_c_4, BOUNDS.anytime_log, PRIOR.weights_K
MUTANTS = [
    ("Theorem 3.1, regret", BOUNDS, "theorem_3_1", lambda **a: {k: 0.9 * v for k, v in THEOREM_3_1(**a).items()}),
    ("Algorithm 1", GapWatch, "threshold_at", lambda watch, step: 1.05 * THRESHOLD_AT(watch, step)),
    ("5.2, the switching rule, strictly", RateWatch, "threshold", 0.0),
    ("Unknown horizon, bounds", certificates, "urn_anytime", lambda *a: 0.99 * URN(*a)),
    ("Unknown horizon, bounds", BOUNDS, "regret_gap_anytime", lambda **a: {**GAP(**a), "threshold": 0}),
    ("Unknown horizon, shares", BOUNDS, "anytime_log", lambda t, delta: LOG(t, 1.1 * delta)),
    ("Unknown horizon, shares", PRIOR, "weights_K", lambda self, start: WEIGHTS(self, start) * 1.01),
    ("C.4, the constants", BOUNDS, "theorem_c_4", lambda **a: {**C_4(**a), "test": 0.5 * C_4(**a)["test"]}),
    ("Excluded states", Engine, "alarm_times", lambda engine, probs, tokens: 1 + 0 * tokens[..., 0]),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "where", "part", "mutant"), MUTANTS)
def test_mutants_of_algorithms_and_bounds_fail(
    name: str, where: object, part: str, mutant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most were once invisible: a strict inequality, shares and bounds of an unknown horizon, a union, constants."""
    monkeypatch.setattr(where, part, mutant)
    assert verify.examine(named(name)).verdict == "failed"


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


def nothing_wrong() -> list[Claim]:
    return [at_most("x", 1, 2), against(at_most("x", 1, 2))]


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
    (made_up("Lemma 9.12", nothing_wrong, **OTHERWISE), "failed", "no counterexample after all: x: 1 <= 2"),
    (made_up("Lemma 9.13", wrong_as_printed, **{**OTHERWISE, "verdict": "step"}), "step", ""),
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
    assert [one["of_the_paper"] for one in data["statements"]] == [True] * 13 + [False] * 2


def test_what_is_beyond_the_paper_is_counted_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """On the terminal and in the JSON: what the library adds does not make the paper look better."""
    assert not verify.verify([statement for statement, _, _ in FAKES], tmp_path, jobs=1)
    counts = json.loads((tmp_path / "verify.json").read_text())["counts"]
    assert (sum(counts["of the paper"].values()), counts["beyond the paper"]) == (13, {"holds": 1, "failed": 1})
    words = (
        "15 statements. 13 of the paper: holds 1, holds with a constant named 1, vacuous as printed 1, a step of the "
        "proof fails 1, false as printed 1, failed 7, skipped 1. 2 beyond the paper: holds 1, failed 1."
    )
    terminal = capsys.readouterr().out
    assert words in terminal
    assert 'the paper: "it is <so>"\n       against it: x: 1 > 0 (not <=)\n       instead: It is otherwise.' in terminal
    assert "false as printed  (0.0 s)" in terminal
    assert "       x: 1 <= 2, 0.50 used\n" in terminal
    for statement, _, _ in FAKES:
        assert f"{statement.name}: " in terminal


# The command


def test_names_are_matched_from_their_beginning() -> None:
    assert [s.name for s in verify.selected(["lemma 2.1", "EQUATION (1), as"])] == [
        "Lemma 2.1",
        "Equation (1), as Hedge",
    ]
    assert verify.selected([]) == all_statements()
    done = CliRunner().invoke(app.app, ["verify", "--only", "Lemma 2", "--only", "Lemma 7"])
    assert done.exit_code == 2
    assert "got 'Lemma 7'" in done.output
    listed = CliRunner().invoke(app.app, ["verify", "--list", "--only", "Lemma"])
    assert [line[:9] for line in listed.stdout.splitlines()][:2] == ["Lemma 2.1", "Lemma 2.2"]


@pytest.mark.long
def test_two_processes_write_what_one_does(tmp_path: Path) -> None:
    only = ["--only", "Lemma A.1", "--only", "A.3", "--only", "Lemma 2.2"]
    for folder, jobs in (("one", "1"), ("two", "2")):
        done = paper("verify", *only, "--out", folder, "--jobs", jobs, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "3 statements. 3 of the paper: holds 2, a step of the proof fails 1." in done.stdout
    assert (tmp_path / "one/verify.json").read_bytes() == (tmp_path / "two/verify.json").read_bytes()


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
