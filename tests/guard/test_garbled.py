"""Saved states of a guard that are garbled, or that no run leads to, are refused and change nothing."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowregret as lr
from lowregret.inputs import probs_of

from ..guarded_runs import COIN, KINDS, WRONG, a_run, last_state, play, some, through_json


def paths(node: Any, path: tuple = ()) -> list[tuple]:
    """Every place in nested dicts and lists."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(p for key, child in children for p in paths(child, (*path, key)))]


def place(node: Any, path: tuple) -> Any:
    for key in path:
        node = node[key]
    return node


def garbled_guards() -> list[tuple[lr.Guard, lr.Guard]]:
    """Guards in the middle of a run, and others like them at another point of another run, to load into."""
    rng = np.random.default_rng(8)
    pairs = []
    for shape, kind, rule in (
        ((), "numpy", lr.ExactTest(COIN, 12, fallback=lr.PolyaUrn(2))),
        ((3,), "torch", lr.ExactTest(COIN, None, delta=0.1, fallback=lr.PolyaUrn(2))),
        ((2, 2), "numpy, float32", lr.rules.RegretRate(COIN, 12, alpha=0.3)),
        ((2,), "numpy", lr.rules.RegretGap(COIN, 12, fallback=last_state(2))),
    ):
        guard, other = (lr.Guard(COIN, rule.horizon, rule=rule, batch_shape=shape) for _ in range(2))
        for one, steps in ((guard, 6), (other, 2)):
            probs, states, _ = a_run(rng, COIN, shape, steps)
            states[...] = probs.argmin(-1)
            play(one, KINDS[kind](probs), states)
            one.advise(KINDS[kind](probs[..., 0, :]))
        pairs.append((guard, other))
    return pairs


GARBLED = garbled_guards()
RUBBISH: list[Any] = [
    "x",
    None,
    [],
    {},
    [[]],
    math.nan,
    math.inf,
    1e400,
    10**30,
    -1,
    0.5,
    True,
    [1, "x"],
    "float16",
    2**62,
]


@given(which=st.sampled_from(range(len(GARBLED))), data=st.data())
@settings(some, max_examples=1500)
def test_garbled_states_are_refused_or_right(which: int, data: st.DataObject) -> None:
    """Anything that is loaded is a state from which the run can go on; anything else is a ValueError, and no change."""
    saved_by, guard = GARBLED[which]
    whole, before = through_json(saved_by), through_json(guard)
    d = copy.deepcopy(whole)
    path = data.draw(st.sampled_from([p for p in paths(d) if p]))
    parent, key = place(d, path[:-1]), path[-1]
    way = data.draw(st.sampled_from(["drop", "replace", "repeat", "wrap"]))
    if way == "drop" or (way == "repeat" and isinstance(parent, dict)):
        del parent[key]
    elif way == "replace":
        parent[key] = data.draw(st.sampled_from(RUBBISH))
    elif way == "repeat":
        parent.insert(key, copy.deepcopy(parent[key]))
    else:
        parent[key] = [parent[key]]
    if d == whole:
        return
    refusal = None
    try:
        guard.load_state_dict(d)
    except ValueError as error:
        refusal = str(error)
    if refusal is not None:
        assert "state_dict" in refusal or str(path[0]) in refusal, refusal
        assert through_json(guard) == before
        return
    try:  # what was taken must be numbers in the right places, not nonsense
        assert through_json(guard)["made_for"] == before["made_for"]
        assert path[0] in ("ledger", "clock", "events", "advised", "waiting", "arrays") or path == ("made_for",)
        law = np.full((*guard.batch_shape, 2), 0.5)
        if guard.state_dict()["arrays"][0] == "torch":
            law = torch.tensor(law)
        probs_of(guard.advise(law).law, 2, shape=guard.batch_shape)
        guard.observe(np.zeros(guard.batch_shape, dtype=np.int64))
        assert np.isfinite(np.asarray(guard.regret)).all()
        through_json(guard)
    finally:
        guard.load_state_dict(before)


WHOLES: list[Any] = [None, "state", [], 3, {}, {"format": 1}, {"format": 2}, {"format": "1"}]


@pytest.mark.parametrize("d", WHOLES, ids=repr)
def test_what_is_no_state_at_all(d: Any) -> None:
    guard = GARBLED[0][1]
    before = through_json(guard)
    with pytest.raises(ValueError, match="state_dict"):
        guard.load_state_dict(d)
    assert through_json(guard) == before


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("ledger", 0, 1), 13),  # steps past the horizon
        (("ledger", 0, 1), -1),
        (("ledger", 0, 2), 7),  # switched after more steps than there were
        (("ledger", 0, 2), -1),
        (("ledger", 3), 7),  # more reports than steps
        (("ledger", 4), -1),  # fewer than no outcomes that never came
        (("ledger", 6), 0),  # no episode
        (("ledger", 7), -1),  # less than nothing before this episode
        (("ledger", 8), -0.5),
        (("ledger", 0, 0, 0), [5.0, -3.0]),  # counts of the urn that are no counts
        (("ledger", 0, 0, 0), [50.0, 3.0]),
        (("advised",), 5),  # fewer than have an outcome
        (("advised",), 9),  # more than wait
        (("waiting", 0, 0), 3),
        (("waiting", 0, 1, "law"), [0.6, 0.6]),
        (("waiting", 0, 1, "law"), [0.5, 0.25, 0.25]),
        (("waiting", 0, 1, "law"), [["a"], 0.5]),
        (("waiting", 0, 1, "dtype"), "float16"),
        (("waiting", 0, 1, "dtype"), None),
        (("clock",), -1),
        (("clock",), 1.5),
        (("arrays",), ["torch", "no such device"]),
        (("arrays",), ["os", "cpu"]),
        (("events",), [[[], 3, "ExactTest"]]),
        (("events",), "none"),
        (("events",), [7]),
    ],
    ids=str,
)
def test_states_no_run_leads_to(at: tuple, value: Any) -> None:
    guard = lr.Guard(COIN, 12)
    play(guard, np.tile(WRONG, (6, 1)), np.ones(6, dtype=np.int64), np.ones(6, dtype=np.int64))
    guard.advise(WRONG)
    d = through_json(guard)
    place(d, at[:-1])[at[-1]] = value
    other = lr.Guard(COIN, 12)
    with pytest.raises(ValueError, match=r"state_dict|advised|clock|fallback"):
        other.load_state_dict(d)
    assert other.state_dict() == lr.Guard(COIN, 12).state_dict()


def test_advice_past_the_horizon_is_not_taken_up() -> None:
    guard = lr.Guard(COIN, 3)
    play(guard, np.tile(WRONG, (3, 1)), np.zeros(3, dtype=np.int64))
    d = through_json(guard) | {"advised": 4, "waiting": [[4, {"law": WRONG, "dtype": "float64"}, None]]}
    other = lr.Guard(COIN, 3)
    with pytest.raises(ValueError, match="no run of this guard can have led"):
        other.load_state_dict(d)
    assert other.state_dict() == lr.Guard(COIN, 3).state_dict()
