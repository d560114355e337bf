"""Frames of pandas, polars and pyarrow beside the arrays that they were made of; rows that are refused by number."""

import datetime

import numpy as np
import pytest

import lowregret as lr
from lowregret.problems import Positions

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

SHOP = lr.DecisionProblem.from_payoffs(
    [[30, -40, 0], [-50, 60, 5]], actions=["sell", "buy"], states=["up", "down", "flat"]
)
LENGTHS = {"a": 40, "b": 25, "c": 40}


def recorded(seed=3):
    rng = np.random.default_rng(seed)
    probs = {name: rng.dirichlet([0.6] * 3, T) for name, T in LENGTHS.items()}
    states = {name: (rng.random(T)[:, None] >= probs[name].cumsum(-1)[:, :-1]).sum(-1) for name, T in LENGTHS.items()}
    states["c"][10:] = probs["c"][10:].argmin(-1)
    return probs, states


def rows(lists=False, times=False):
    probs, states = recorded()
    found = []
    for name, law in probs.items():
        for t, (p, s) in enumerate(zip(law.tolist(), states[name].tolist(), strict=True)):
            step = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=t * t) if times else t + 5
            laws = {"probs": p} if lists else dict(zip(("p_up", "p_down", "p_flat"), p, strict=True))
            found.append({"unique_id": name, "ds": step, "y": SHOP.states[s], **laws})
    return [found[i] for i in np.random.default_rng(1).permutation(len(found))]


FRAMES = {
    "pandas": lambda **given: pd.DataFrame(rows(**given)),
    "polars": lambda **given: pl.DataFrame(rows(**given)),
    "pyarrow": lambda **given: pa.Table.from_pylist(rows(**given)),
}


@pytest.mark.parametrize("given", [{}, {"lists": True}, {"times": True}], ids=str)
@pytest.mark.parametrize("kind", FRAMES)
def test_shuffled_frames_are_their_arrays(kind, given):
    probs, states = recorded()
    asked = lr.backtest(SHOP, list(probs.values()), Positions(list(states.values())), names=list(LENGTHS))
    found = lr.backtest(SHOP, FRAMES[kind](**given))
    assert found.streams == asked.streams
    assert found.switches == asked.switches
    assert any(result.switched_at for result in found.streams)


def test_what_comes_back_has_the_same_index():
    frame = pd.DataFrame(rows())
    frame.index = [f"row {i}" for i in range(len(frame))]
    found = lr.backtest(SHOP, frame)
    back = found.to_frame()
    assert list(back.index) == list(frame.index)
    assert (back["unique_id"] == frame["unique_id"]).all()
    assert (back["ds"] == frame["ds"]).all()
    for i, result in enumerate(found.streams):
        own = back[back["unique_id"] == result.stream].sort_values("ds")
        np.testing.assert_array_equal(own["used_fallback"], found.share[i] < 1)
        assert own["step"].tolist() == list(range(1, result.steps + 1))
        for player in ("model", "guard", "hedge", "fallback"):
            name = {"hedge": "Hedge"}.get(player, player)
            assert own[f"payoff_{player}"].mean() == pytest.approx(result.earned[name], abs=1e-12)
    assert back["used_fallback"].any()
    table = lr.backtest(SHOP, pl.DataFrame(rows())).to_frame()
    assert table.column("used_fallback").to_pylist() == back["used_fallback"].tolist()
    probs, states = ([*part.values()] for part in recorded())
    arrays = lr.backtest(SHOP, probs, Positions(states), names=list(LENGTHS)).to_frame()
    assert arrays.column_names[:3] == ["stream", "step", "used_fallback"]
    assert arrays.num_rows == sum(LENGTHS.values())


def test_columns_by_other_names():
    frame = pd.DataFrame(rows()).rename(columns={"unique_id": "shop", "ds": "day", "y": "came", "p_up": "rise"})
    columns = {"stream": "shop", "order": "day", "probs": ["rise", "p_down", "p_flat"]}
    assert lr.backtest(SHOP, frame, "came", columns=columns).streams == lr.backtest(SHOP, pd.DataFrame(rows())).streams
    alone = pd.DataFrame({"up": [0.2, 0.3], "down": [0.3, 0.3], "flat": [0.5, 0.4], "state": ["up", "flat"]})
    assert [(r.stream, r.steps) for r in lr.backtest(SHOP, alone).streams] == [(0, 2)]


GOOD = {"stream": ["a", "a", "b"], "step": [1, 2, 1], "state": ["up", "flat", "up"], "probs": [[0.2, 0.3, 0.5]] * 3}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"step": [1, 3, 1]}, "row 2: step 2 of stream 'a' is missing: 1 is followed by 3"),
        ({"step": [2, 2, 1]}, "row 2: step 2 of stream 'a' is there twice, also in row 1"),
        ({"step": [1, None, 1]}, r"row 2: the step \(step\) is missing"),
        ({"step": [1.0, 1.5, 1.0]}, r"row 2: the step \(step\) must be a whole number or a time, got 1.5"),
        (
            {"step": ["one", "two", "one"]},
            r"row 1: .* must be a whole number, or a time such as .*pd.to_datetime",
        ),
        ({"stream": ["a", None, "b"]}, r"row 2: the stream \(stream\) is missing"),
        (
            {"state": ["up", "sideways", "up"]},
            "row 2: .* must be one of the states 'up', 'down', 'flat', got 'sideways'",
        ),
        ({"state": [0, 3, 1]}, r"row 1: .* 'flat', got 0: states that have names are given by name.* position of 'up'"),
        ({"state": ["up", None, "up"]}, r"row 2: the state \(state\) is missing"),
        ({"probs": [[0.2, 0.3, 0.5], [0.2, float("nan"), 0.5], [0, 0, 1]]}, "row 2: a probability is missing or not a"),
        ({"probs": [[0.2, 0.3, 0.5], [0.2, None, 0.5], [0, 0, 1]]}, "row 2: a probability is missing or not a number"),
        ({"probs": [[0.2, 0.3, 0.5], [0.2, 0.3, 0.6], [0, 0, 1]]}, r"row 2: .* sum to 1.1 \(tolerance 1e-06\)"),
        ({"probs": [[0.2, 0.3, 0.5], [-0.2, 0.7, 0.5], [0, 0, 1]]}, r"row 2: probabilities must lie in \[0, 1\]"),
        ({"probs": [[0.2, 0.3, 0.5], [0.5, 0.5], [0, 0, 1]]}, "row 2: there must be 3 probabilities .*, got 2"),
        ({"probs": None}, "row 1: the list of probabilities .* is missing"),
        ({"probs": ["much"] * 3}, "must be lists of 3, got string"),
    ],
)
def test_rows_are_refused_by_number(change, says):
    given = GOOD | change
    given["probs"] = given["probs"] or pa.array([None] * 3, pa.list_(pa.float64()))
    with pytest.raises(ValueError, match=says):
        lr.backtest(SHOP, pa.table(given))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lr.backtest(SHOP, pa.table({"state": [1]})), "there must be one column of probabilities per state"),
        (lambda: lr.backtest(SHOP, pa.table({"probs": [[1, 0, 0]]})), "there must be a column of states"),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"when": "step"}), "columns must say which is the stream"),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"order": "day"}), "the order column must be one of"),
        (
            lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"probs": ["step", "probs"]}),
            "columns of probabilities must",
        ),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), names=["a"]), "names are in the frame's own column"),
        (lambda: lr.backtest(SHOP, pa.table({k: v[:0] for k, v in GOOD.items()})), "one row per step, got no rows"),
        (lambda: lr.backtest(SHOP, [[1, 0, 0]], [0], columns={}), "columns go with a frame"),
        (lambda: lr.backtest(SHOP, [[1, 0, 0]]), "outcomes must be given"),
        (lambda: lr.backtest(SHOP, pa.table([[1], [1], [[[1, 0, 0]]]], ["state", "state", "probs"])), "there twice"),
    ],
)
def test_frames_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
