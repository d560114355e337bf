"""A guard resumes bit for bit from JSON, and refuses the state of another guard by what differs."""

import copy
import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import MORE
from ..guarded_runs import COIN, KINDS, RULES, SHAPES, WRONG, a_game, a_run, play, rule_named, some, through_json


@pytest.mark.parametrize("name", RULES)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from(SHAPES),
    kind=st.sampled_from(list(KINDS)),
    impossible=st.booleans(),
)
@settings(some, max_examples=6 * MORE)
def test_a_guard_resumes_bit_for_bit(name: str, seed: int, shape: tuple[int, ...], kind: str, impossible: bool) -> None:
    rng, horizon = np.random.default_rng(seed), 9
    problem = a_game(rng)
    rule = rule_named(name, problem, horizon)

    def fresh() -> lr.Guard:
        return lr.Guard(problem, rule.horizon, rule=rule, batch_shape=shape)

    probs, states, actions = a_run(rng, problem, shape, horizon)
    if impossible:  # at the fourth step a state comes to which the model gave probability 0
        probs[..., 3, :] = 0
        probs[..., 3, 0] = 1
        states[..., 3] = 1
    guard, resumed = fresh(), fresh()
    for t in range(horizon):
        law = KINDS[kind](probs[..., t, :])
        resumed_before = fresh()
        resumed_before.load_state_dict(through_json(resumed))
        assert resumed_before.state_dict() == guard.state_dict()
        advice, again = guard.advise(law).law, resumed_before.advise(law).law
        assert np.array_equal(np.asarray(advice), np.asarray(again))
        assert type(advice) is type(again)
        resumed = fresh()  # with advice pending
        resumed.load_state_dict(through_json(resumed_before))
        assert resumed.state_dict() == guard.state_dict()
        assert type(resumed.policy()) is type(guard.policy())
        assert resumed.policy().dtype == guard.policy().dtype
        assert np.array_equal(np.asarray(resumed.policy()), np.asarray(guard.policy()))
        assert np.array_equal(np.asarray(resumed.act(3)), np.asarray(guard.act(3)))
        action = actions[..., t] if t % 3 else None
        for one in (guard, resumed):
            one.observe(states[..., t], action=action)
        assert resumed.state_dict() == guard.state_dict()
        assert resumed.events == guard.events
        for what in ("regret", "realised_regret", "episodes"):
            mine, theirs = getattr(guard, what), getattr(resumed, what)
            assert isinstance(mine, torch.Tensor) == isinstance(theirs, torch.Tensor)
            assert np.array_equal(np.asarray(mine), np.asarray(theirs), equal_nan=True)
        if t == 5 and name != "function":
            for one in (guard, resumed):
                one.restart([0] if shape else None)
    assert guard.certificate == resumed.certificate
    if impossible and "horizon" not in name and isinstance(rule, lr.ExactTest):
        assert guard.events


def test_a_saved_state_is_a_copy() -> None:
    guard = lr.Guard(COIN, 12, batch_shape=(2,))
    guard.advise([WRONG, WRONG])
    d = guard.state_dict()
    before = copy.deepcopy(d)
    guard.observe([1, 1])
    assert d == before
    other = lr.Guard(COIN, 12, batch_shape=(2,))
    other.load_state_dict(d)
    other.observe([1, 1])
    assert d == before
    assert other.state_dict() == guard.state_dict()


def test_a_used_guard_can_be_taken_back() -> None:
    guard = lr.Guard(COIN, 12)
    start = through_json(guard)
    play(guard, np.tile(WRONG, (6, 1)), np.ones(6, dtype=np.int64))
    assert guard.events
    middle = through_json(guard)
    guard.load_state_dict(start)
    assert guard.events == []
    assert guard.state_dict() == lr.Guard(COIN, 12).state_dict()
    assert guard.advise(WRONG).law.tolist() == WRONG
    guard.load_state_dict(middle)
    assert guard.advise(WRONG).law.tolist() != WRONG


def test_states_are_only_finite_json_after_an_impossible_state() -> None:
    guard = lr.Guard(COIN, 12, batch_shape=(2,))
    guard.advise([[1.0, 0.0], [0.0, 1.0]])
    guard.observe([1, 1])
    text = json.dumps(guard.state_dict(), allow_nan=False)
    other = lr.Guard(COIN, 12, batch_shape=(2,))
    other.load_state_dict(json.loads(text))
    assert other.events == guard.events
    assert other.events[0].statistic == math.inf


def test_settings_from_numpy_are_saved_too() -> None:
    guard = lr.Guard(COIN, np.int64(12), temperature=np.float32(0.5))
    d = through_json(guard)
    lr.Guard(COIN, 12, temperature=0.5).load_state_dict(d)
    with pytest.raises(ValueError, match=r"differs in: horizon \(12 against 13\)"):
        lr.Guard(COIN, 13, rule=lr.ExactTest(COIN, 13, delta=1 / 12, temperature=0.5)).load_state_dict(d)


OTHERS: dict[str, tuple[Callable[[], lr.Guard], tuple[str, ...]]] = {
    "horizon": (lambda: lr.Guard(COIN, 13), ("horizon (12 against 13)",)),
    "no horizon": (lambda: lr.Guard(COIN), ("horizon (12 against None)",)),
    "temperature": (
        lambda: lr.Guard(COIN, 12, temperature=0.5),
        ("temperature (0.0 against 0.5)", "likelihood (True against False)"),
    ),
    "likelihood": (lambda: lr.Guard(COIN, 12, likelihood=False), ("likelihood (True against False)",)),
    "delta": (lambda: lr.Guard(COIN, 12, delta=0.01), ("delta", "0.01")),
    "usual of ExactTest": (
        lambda: lr.Guard(COIN, 12, rule=lr.ExactTest(COIN, 12)),
        ("temperature", "delta", "likelihood"),
    ),
    "payoffs": (lambda: lr.Guard(COIN, 12, payoffs="scaled"), ("payoffs ('fixed' against 'scaled')",)),
    "rule": (
        lambda: lr.Guard(COIN, 12, rule=lr.rules.RegretRate(COIN, 12)),
        ("rule ('ExactTest' against 'RegretRate')",),
    ),
    "gap": (lambda: lr.Guard(COIN, 12, rule=lr.rules.RegretGap(COIN, 12)), ("rule", "alpha", "span_aware")),
    "utility": (lambda: lr.Guard(lr.DecisionProblem([[1, 0], [0, 0.5]]), 12), ("utility",)),
    "states": (lambda: lr.Guard(lr.matching(3), 12), ("utility",)),
    "batch": (lambda: lr.Guard(COIN, 12, batch_shape=(1,)), ("batch_shape ([] against [1])",)),
    "memories": (lambda: lr.Guard(COIN, 12, fallback=lr.Recovery(memories=(7,))), ("fallback", "7.0")),
    "fallback": (
        lambda: lr.Guard(COIN, 12, fallback=lr.policies.AdaHedge(COIN)),
        ("fallback", "AdaHedge", "likelihood"),
    ),
    "law": (
        lambda: lr.Guard(COIN, 12, temperature=0.3, fallback=lr.PolyaUrn(2, prior=0.5)),
        ("fallback", "0.5", "temperature", "likelihood"),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_state_of_another_guard_is_refused_by_what_differs(name: str) -> None:
    make, differs = OTHERS[name]
    guard = lr.Guard(COIN, 12)
    play(guard, np.tile(WRONG, (4, 1)), np.ones(4, dtype=np.int64))
    other = make()
    law = np.full((*other.batch_shape, other.problem.n_states), 1 / other.problem.n_states)
    other.advise(law)
    other.observe(np.zeros(other.batch_shape, dtype=np.int64))
    other.advise(law)
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ValueError, match="state_dict was made by a guard that differs in: ") as caught:
        other.load_state_dict(through_json(guard))
    for words in differs:
        assert words in str(caught.value)
    for setting in {"horizon", "temperature", "delta", "payoffs", "likelihood", "utility", "batch_shape"} - {
        w.split()[0] for w in differs
    }:
        assert f"{setting} (" not in str(caught.value) or name in ("rule", "gap", "first")
    assert other.state_dict() == before


def test_schedules_are_told_apart() -> None:
    fallbacks = [lr.predictors.Scheduled([[0.5, 0.5]]), lr.predictors.Scheduled([[0.4, 0.6]])]
    one, other = (lr.Guard(COIN, 12, temperature=0.3, fallback=f) for f in fallbacks)
    with pytest.raises(ValueError, match="differs in: fallback"):
        other.load_state_dict(through_json(one))
