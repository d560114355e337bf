"""Recordings in arrays of every layout, cut into blocks; what is wrong is named with its stream and its step."""

from dataclasses import replace

import numpy as np
import pytest

import lowregret as lr
from lowregret.audits.recording import Recording, SideInformation, recording_of
from lowregret.problems import Positions

from ..conftest import extra

GAME = lr.DecisionProblem.from_payoffs([[30, -40, 0], [-50, 60, 5]], states=["up", "down", "flat"], low=-90, high=90)
STALL = lr.Payoff(lambda order, sold: np.minimum(order, sold) - 1.0 * order, [0, 9], -9, 9, knots=[9], outcomes=(0, 99))


def drawn(B=3, T=4):
    """Forecasts, states and side information, all with axes of streams and steps."""
    rng = np.random.default_rng(0)
    return {
        "forecasts": rng.dirichlet([1, 1, 1], (B, T)),
        "outcomes": rng.integers(0, 3, (B, T)),
        "references": {"old": rng.dirichlet([1, 1, 1], (B, T))},
        "contexts": rng.choice(["b", "a"], (B, T)),
        "payoffs": rng.uniform(-90, 90, (B, T, 2, 3)),
        "scale": rng.uniform(0.1, 1, (B, T)),
    }


def in_layout(given, change):
    """The same with every array changed."""
    found = {name: change(part) for name, part in given.items() if name != "references"}
    return found | {"references": {name: change(part) for name, part in given["references"].items()}}


LAYOUTS = {
    "array": lambda part: part,
    "list of arrays": list,
    "lists": lambda part: part.tolist(),
    "arrays of different kinds": lambda part: [part[0], *part[1:].tolist()],
    "single precision": lambda part: part.astype(np.float32) if part.dtype == np.float64 else part,
    "torch": lambda part: part if part.dtype.kind == "U" else extra("torch").asarray(part.copy()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("states", ["positions", "names"])
def test_every_layout_is_the_same_recording(layout, states):
    given = drawn()
    if states == "names":
        given["outcomes"] = np.array(GAME.states)[given["outcomes"]]
    laid = in_layout(given, LAYOUTS[layout])
    if states == "positions":
        laid["outcomes"] = Positions(laid["outcomes"])
    found, near = recording_of(GAME, **laid), 1e-7 if layout == "single precision" else 0
    flat = drawn()
    assert found.lengths_B.tolist() == [4, 4, 4]
    assert found.outcomes_R.tolist() == flat["outcomes"].ravel().tolist()
    np.testing.assert_allclose(found.forecasts, flat["forecasts"].reshape(12, 3), rtol=near)
    np.testing.assert_allclose(found.side.references[:, 0], flat["references"]["old"].reshape(12, 3), rtol=near)
    np.testing.assert_allclose(found.side.payoffs, flat["payoffs"].reshape(12, 2, 3), rtol=near)
    np.testing.assert_allclose(found.side.scale, flat["scale"].ravel(), rtol=near)
    assert [found.contexts[c] for c in found.side.context] == flat["contexts"].ravel().tolist()
    assert (found.contexts, found.references) == (("a", "b"), ("old",))
    assert found.forecasts.dtype == np.float64
    one = in_layout(laid | {"outcomes": flat["outcomes"]}, lambda part: part[1])
    alone = recording_of(GAME, **one | {"outcomes": Positions(one["outcomes"])})
    np.testing.assert_allclose(alone.forecasts, found.part([1]).forecasts)
    assert alone.outcomes_R.tolist() == found.part([1]).outcomes_R.tolist()


@pytest.mark.parametrize("make", [lambda values: lr.Quantiles([0.1, 0.5, 0.9], values), lr.Samples])
def test_forecasts_of_numbers_go_one_after_the_other(make):
    values = np.sort(np.random.default_rng(0).uniform(0, 99, (3, 4, 3)))
    sold = values[..., 0] / 2
    both = recording_of(STALL, make(values), sold, references={"old": make(values / 2)})
    listed = recording_of(STALL, list(map(make, values)), list(sold), references={"old": list(map(make, values / 2))})
    for found in (both, listed):
        assert (found.forecasts.values == values.reshape(12, 3)).all()
        assert (found.side.references[0].values == values.reshape(12, 3) / 2).all()
        assert found.outcomes_R.tolist() == sold.ravel().tolist()
        assert (found.width, found.n_steps) == (3, 12)
    with pytest.raises(ValueError, match="forecasts must be of one form: Quantiles at the same levels, or as many"):
        recording_of(STALL, [make(values[0]), lr.Samples(np.ones((4, 5)))], list(sold[:2]))


@pytest.mark.parametrize("cells", [1, 700, 1 << 20])
def test_blocks_hold_every_stream_once(cells):
    rng = np.random.default_rng(1)
    lengths_B = rng.integers(1, 300, 200)
    outcomes_R = rng.integers(0, 3, lengths_B.sum())
    side = SideInformation(context=outcomes_R + 1, scale=outcomes_R / 2)
    missing_R, lags_R = outcomes_R == 2, outcomes_R + 2
    forecasts_RxS, names = np.eye(3)[outcomes_R], tuple(range(200))
    whole = Recording(names, lengths_B, forecasts_RxS, outcomes_R, side, (), None, missing_R, lags_R)
    seen = []
    for block in whole.blocks(cells, slack=1.5):
        N, T = block.outcomes_NxT.shape
        assert N == 1 or cells >= N * T
        assert N * T <= 1 << 13 or 1.5 * block.lengths_N.min() >= T
        seen += block.index_N.tolist()
        for n, i in enumerate(block.index_N.tolist()):
            begin, length = lengths_B[:i].sum(), lengths_B[i]
            own = np.append(outcomes_R[begin : begin + length], [outcomes_R[begin + length - 1]] * (T - length))
            assert block.lengths_N[n] == length
            assert (block.forecasts[n].argmax(-1) == own).all()
            assert (block.outcomes_NxT[n] == np.where(own == 2, 0, own)).all()  # one that is possible
            assert (block.side.context[n] == own + 1).all()
            assert (block.lags_NxT[n] == own + 2).all()
            assert (block.there_NxT[n] == (own != 2) & (np.arange(T) < length)).all()
        assert (block.part(np.array([N - 1])).side.scale == block.side.scale[-1:]).all()
    assert sorted(seen) == list(range(200))
    some = whole.part([7, 3])
    assert (some.names, some.longest, some.latest) == ((7, 3), max(lengths_B[[7, 3]]), 4)
    assert some.lags_R.tolist() == np.concatenate([np.split(lags_R, np.cumsum(lengths_B))[i] for i in (7, 3)]).tolist()


def test_arrays_that_are_filled_anew_leave_a_recording_as_it_was():
    given = drawn()
    found = recording_of(GAME, **given | {"outcomes": Positions(given["outcomes"])})
    for part in (given["forecasts"], given["outcomes"], given["payoffs"], given["scale"], given["references"]["old"]):
        part[:] = 0
    again = drawn()
    asked = recording_of(GAME, **again | {"outcomes": Positions(again["outcomes"])})
    for one, other in ((found, asked), (found.side, asked.side)):
        for name, part in (one._asdict() if isinstance(one, tuple) else vars(one)).items():
            if isinstance(part, np.ndarray):
                np.testing.assert_array_equal(part, getattr(other, name))


@pytest.mark.parametrize(
    ("given", "labels"),
    [([2, 11, 2, 3], (2, 3, 11)), (["x", 1, "x", 1], ("x", 1)), ([True, False, True, True], (False, True))],
)
def test_contexts_are_in_their_order_where_they_have_one(given, labels):
    found = recording_of(GAME, np.full((4, 3), 1 / 3), Positions([0, 1, 2, 0]), contexts=given)
    assert found.contexts == labels
    assert [labels[c] for c in found.side.context] == given


@pytest.mark.parametrize("names", [np.arange(5, 7), np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")], ids=str)
def test_streams_are_found_by_name(names):
    given = drawn(2)
    found = recording_of(GAME, given["forecasts"], Positions(given["outcomes"]), names=names)
    assert found.place(names[1]) == 1
    with pytest.raises(ValueError, match="stream must be the name of one of 2 streams, got 'x'"):
        found.place("x")


def spoilt(name, at, value):
    def change(given):
        part = given["references"]["old"] if name == "references" else given[name]
        part[at] = value

    return change


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (spoilt("forecasts", (2, 3, 1), np.nan), "forecasts of stream 'c' at step 4 must be numbers that sum to one"),
        (spoilt("forecasts", (1, 0, 0), 2), "forecasts of stream 'b' at step 1 must sum to one within"),
        (spoilt("forecasts", (0, 2), [1.5, -0.5, 0]), "forecasts of stream 'a' at step 3 must not be negative"),
        (spoilt("outcomes", (2, 3), 7), r"outcomes of stream 'c' at step 4 must (lie|be integers) in 0\.\.2, "),
        (spoilt("references", (1, 2, 0), np.nan), r"references\['old'\] of stream 'b' at step 3 must be numbers that"),
        (
            spoilt("payoffs", (1, 2, 0, 0), 999),
            "payoffs of stream 'b' at step 3 must lie in the range that the problem",
        ),
        (spoilt("scale", (1, 2), 0), "scale of stream 'b' at step 3 must be one number per step, above 0 and at most"),
    ],
)
def test_the_first_bad_step_is_named(change, says, listed):
    given = drawn()
    change(given)
    plain = lr.DecisionProblem.from_payoffs(np.eye(3)[:2], low=-90, high=90)
    given = in_layout(given, list) if listed else given
    with pytest.raises(ValueError, match=says):
        recording_of(plain, **given, names="abc")
    alone = in_layout(given, lambda part: part["abc".index(says.split("stream '")[1][0])])
    with pytest.raises(ValueError, match=says.replace(says[says.index(" of stream") : says.index(" at step")], "")):
        recording_of(plain, **alone)


PROBS, MEDIAN = [[0.2, 0.3, 0.5]] * 3, lr.Quantiles([0.5], [[3.0]])
NUMBERS = {"problem": STALL, "forecasts": MEDIAN, "outcomes": [3.0]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"outcomes": []}, "outcomes must have at least one step, got"),
        ({"outcomes": [["up"], []], "forecasts": [PROBS[:1], []]}, "outcomes of stream 1 must have at least one step"),
        (
            {"outcomes": Positions(np.zeros((1, 3, 1), int)), "forecasts": [PROBS]},
            r"outcomes must be \[T\] for each",
        ),
        (
            {"outcomes": ["up", None, "up"]},
            "outcomes at step 2 must be one of the states 'up'.*, got None: it is missing",
        ),
        ({"outcomes": [0, 1, 2]}, "outcomes at step 1 must be one of .*given by name, or as lowregret.problems.Positi"),
        ({"outcomes": ["up"]}, "forecasts must be as long as outcomes, 1 steps, got 3$"),
        ({"outcomes": [["up"], ["up"]]}, "forecasts must be as long as outcomes, 2 streams, got"),
        ({"forecasts": [0.2, 0.8], "outcomes": ["up"] * 2}, "forecasts at step 1 must have a last axis of length 3"),
        (
            {"forecasts": np.full((3, 1, 3), 1 / 3)},
            r"forecasts must be \[T, S\] for each stream, got shape \(3, 1, 3\)",
        ),
        ({"names": ["a", "b"]}, "names must be 1 different ones, one per stream"),
        ({"references": [PROBS]}, "references must be a dict of forecasts by name"),
        ({"references": {"old": PROBS[:2]}}, r"references\['old'\] must be as long as outcomes, 3 steps"),
        ({"contexts": ["a", None, "b"]}, "contexts at step 2 must be given for every step, and one is missing"),
        ({"contexts": [[1], [2], [3]]}, "contexts must be names or numbers, one per step"),
        ({"contexts": 3}, "contexts must be as long as outcomes"),
        ({"payoffs": [[1, 2, 3]] * 3}, r"payoffs at step 1 must be 2 x 3 per step, got shape \(3,\)"),
        ({"scale": [[1], [1], [1]]}, r"scale must be \[T\] for each stream, got shape \(3, 1\)"),
        ({"problem": None}, "problem must be a DecisionProblem"),
        (NUMBERS | {"forecasts": [[0.5, 0.5]]}, "forecasts must be of numbers where the problem is a Payoff"),
        (NUMBERS | {"forecasts": lr.Quantiles([0.5], [[3.0]] * 2)}, "forecasts must be as long as outcomes, 1 steps"),
        (NUMBERS | {"payoffs": [1]}, "payoffs of each step are functions where outcomes are numbers"),
        (NUMBERS | {"outcomes": [[3.0], [np.nan]], "forecasts": [MEDIAN] * 2}, "of stream 1 at step 1 must"),
        (NUMBERS | {"forecasts": lr.Quantiles([0.5], [[100.0]])}, "values of Quantiles must lie in the payoff's outco"),
    ],
)
def test_what_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        recording_of(**{"problem": GAME, "forecasts": PROBS, "outcomes": ["up", "up", "flat"]} | change)


def test_numbers_that_are_missing_become_possible_ones():
    found = recording_of(STALL, lr.Samples(np.ones((3, 4))), [1.0, 2.0, 3.0])
    gone = replace(found, outcomes_R=np.array([np.nan, 2.0, 3.0]), missing_R=np.array([True, False, False]))
    assert gone.outcomes_R.tolist() == [2.0, 2.0, 3.0]
    assert gone.there_R.tolist() == [False, True, True]
    assert replace(found, missing_R=np.zeros(3, dtype=bool)).missing_R is None
