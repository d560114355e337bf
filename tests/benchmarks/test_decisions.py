"""The benchmark of guards: its cells, how they are played and scored, and that a run can be repeated and resumed."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.decisions import __main__ as command
from benchmarks.decisions.cells import Scene, Stream, best_response, play
from benchmarks.decisions.entrants import entries
from benchmarks.decisions.regimes import regimes
from benchmarks.decisions.report import KEPT, in_pages
from benchmarks.decisions.run import code_digest
from benchmarks.decisions.scores import score

import lowregret as lr

T = 60


def coin(T: int = T) -> Stream:
    rng = np.random.default_rng(3)
    heads = np.where(rng.random(T) < 0.5, 0.8, 0.3)
    laws_TxS = np.stack([heads, 1 - heads], axis=1)
    return Stream(lr.matching(), laws_TxS, (rng.random(T) > heads).astype(int), right=True)


def test_a_regime_changes_what_it_says_and_nothing_before_it() -> None:
    stream = coin()
    for name, cell in regimes(stream, 1).items():
        begin = 0 if cell.kind != "broken" or "up to" in name else cell.breaks[0]
        np.testing.assert_array_equal(cell.laws_TxS[:begin], stream.laws_TxS[:begin], err_msg=name)
        np.testing.assert_array_equal(cell.states_T[:begin], stream.states_T[:begin], err_msg=name)
        np.testing.assert_allclose(cell.laws_TxS.sum(axis=1), 1)
        changed = (cell.laws_TxS != stream.laws_TxS).any() or (cell.states_T != stream.states_T).any()
        assert changed == (name not in ("unbroken", "late, unbroken") and cell.kind != "answered"), name
    again = regimes(stream, 1)
    assert all(np.array_equal(again[name].states_T, cell.states_T) for name, cell in regimes(stream, 1).items())


def test_adversaries_take_the_state_that_hurts_most() -> None:
    problem = lr.cost_loss(cost=1, loss=3)
    utility_AxS, rng = problem.utility, np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(2), size=(2, T))
    scene = Scene(problem, 2, T, 1)
    came = play(entries()["always fall back"].make(scene), scene, laws, np.zeros((2, T), int), np.array([1, 2]))
    urn = entries()["always fall back"].make(scene)
    earned = np.zeros(problem.n_actions)
    for t in range(T):
        play_A = urn.advise(laws[:, t])
        leads = [(earned + utility_AxS[:, s]).max() - play_A[0] @ utility_AxS[:, s] for s in (0, 1)]
        behind = [utility_AxS[:, s].mean() - play_A[1] @ utility_AxS[:, s] for s in (0, 1)]
        assert came.states_RxT[:, t].tolist() == [int(np.argmax(leads)), int(np.argmax(behind))]
        earned += utility_AxS[:, came.states_RxT[0, t]]
        urn.observe(laws[:, t], came.states_RxT[:, t])


def test_outcomes_come_as_late_as_is_said() -> None:
    class Told:
        alarmed = None
        heard: list[tuple[int, int]] = []  # noqa: RUF012
        asked = 0

        def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
            self.asked += 1
            return best_response(lr.matching(), laws_RxS)

        def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
            self.heard.append((self.asked, int(states_R[0])))
            assert laws_RxS[0, 0] == stream.laws_TxS[len(self.heard) - 1, 0]

    stream = coin()
    play(Told(), Scene(stream.problem, 1, T, 5), stream.laws_TxS[None], stream.states_T[None], np.zeros(1, int))
    assert Told.heard == [(t + 5, int(state)) for t, state in enumerate(stream.states_T[: T - 4])]


def _result(earned: dict[str, list[float]], alarm: int | None = None) -> dict[str, Any]:
    kinds = {"unbroken": "unbroken", "broken from 50%": "broken", "the model's own, 1": "right"}
    cells = {
        name: {"kind": kinds[name], "late": False, "breaks": [5] * (len(paid) - 1), "earned": paid, "alarm": alarm}
        for name, paid in earned.items()
    }
    return {"cells": cells, "span": 2.0, "steps": 16, "microseconds": 1.0}


def test_scores_by_hand() -> None:
    results = {
        "one": {
            ("the model", 0): _result({"unbroken": [10.0], "broken from 50%": [5.0, -4.0]}),
            ("always fall back", 0): _result({"unbroken": [2.0], "broken from 50%": [1.0, 2.0]}),
            ("someone", 0): _result({"unbroken": [8.0], "broken from 50%": [4.0, 1.0]}, alarm=7),
        }
    }
    found = score(results, ("someone", 0))
    # best: 10; 5 + 2. Stake: 8; 4 + 6. Someone is 2 behind in the first cell and 1 + 1 in the second.
    assert found.money == pytest.approx(1 - 4 / 18)
    assert found.kept == pytest.approx(1 - 2 / 8)
    assert found.saved == pytest.approx((5 - 1) / (7 - 1))
    assert found.behind == pytest.approx(2 / (2 * 4))
    assert (found.heard.count, found.heard.of, found.delay) == (1, 1, 2)  # type: ignore[union-attr]
    assert score(results, ("the model", 0)).saved == 0
    assert score(results, ("the model", 0)).kept == 1


def test_draws_of_one_regime_count_once() -> None:
    def by(own: float, unbroken: float, broken: list[float]) -> dict[str, Any]:
        return _result({"the model's own, 1": [own], "unbroken": [unbroken], "broken from 50%": broken})

    results = {
        "one": {
            ("the model", 0): by(10, 4, [1, 0]),
            ("always fall back", 0): by(0, 0, [0, 1]),
            ("someone", 0): by(10, 0, [1, 1]),
        }
    }
    before = score(results, ("someone", 0))
    for each in results["one"].values():
        for i in range(2, 5):
            each["cells"][f"the model's own, {i}"] = each["cells"]["the model's own, 1"]
    assert score(results, ("someone", 0))[:5] == pytest.approx(before[:5])


def quick(monkeypatch: pytest.MonkeyPatch, out: Path, *more: str) -> Path:
    monkeypatch.setattr(command, "QUICK_STEPS", T)
    monkeypatch.setattr(command, "QUICK_STREAMS", 1)
    asked = ["decisions", "--quick", "--out", str(out), "--entrants", "guard", "CUSUM", "--jobs", "2", *more]
    monkeypatch.setattr(sys, "argv", asked)
    command.main()
    return out / code_digest() / f"quick-{T}"


@pytest.mark.long
def test_a_run_is_the_same_twice_and_goes_on_where_it_was_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = quick(monkeypatch, tmp_path / "one")
    second = quick(monkeypatch, tmp_path / "two")
    one, two = (json.loads((folder / "decisions.json").read_text()) for folder in (first, second))
    assert one.pop("microseconds").keys() == two.pop("microseconds").keys()
    assert one == two
    files = sorted(path for path in first.glob("*.json") if path.name != "decisions.json")
    kept = {path: path.stat().st_mtime_ns for path in files[1::2]}
    for path in files[::2]:
        path.unlink()
    quick(monkeypatch, tmp_path / "one")
    again = json.loads((first / "decisions.json").read_text())
    again.pop("microseconds")
    assert again == one
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert "cells" in capsys.readouterr().out


@pytest.mark.ray
def test_on_ray_it_is_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for engine in ("local", "ray"):
        folder = quick(monkeypatch, tmp_path / engine, "--engine", engine)
        found.append(json.loads((folder / "decisions.json").read_text()))
        found[-1].pop("microseconds")
    assert found[0] == found[1]


def test_the_pages_have_the_tables_of_the_run_that_is_kept() -> None:
    pages = in_pages(json.loads(KEPT.read_text()))
    assert len(pages) == 2
    for path, text in pages.items():
        assert path.read_text() == text, f"python -m benchmarks.decisions.report writes {path.name}"
        assert "| guard" in text or "`lr.Guard(problem)` 1." in text
