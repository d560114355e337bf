"""Switches, realised regret and drawn actions of a guard."""

import logging
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import lowregret as lr

from ..guarded_runs import COIN, KINDS, RULES, SHAPES, WRONG, a_game, a_run, many, play, rule_named, some

# Switches


@pytest.mark.parametrize("horizon", [20, None])
def test_an_impossible_state_sounds_the_alarm_at_once(horizon: int | None) -> None:
    rule = lr.ExactTest(COIN, horizon, delta=0.01, fallback=lr.PolyaUrn(2))
    guard = lr.Guard(COIN, horizon, rule=rule, batch_shape=(3,))
    guard.advise([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    guard.observe([0, 1, 1])
    (event,) = guard.events
    assert (event.stream, event.step, event.rule) == (1, 1, "ExactTest")
    assert event.statistic == math.inf
    assert event.threshold == pytest.approx(math.log(100))
    assert guard.advise([[1.0, 0.0]] * 3).law.tolist() == [[1.0, 0.0], [1 / 3, 2 / 3], [1.0, 0.0]]
    guard.observe([1, 1, 0])
    assert [(e.stream, e.step) for e in guard.events] == [(1, 1), (0, 2)]


@given(seed=st.integers(0, 2**32), n_states=st.integers(1, 4), n_actions=st.integers(1, 4))
@some
def test_nothing_at_stake_never_switches(seed: int, n_states: int, n_actions: int) -> None:
    rng = np.random.default_rng(seed)
    problem = lr.DecisionProblem(np.tile(rng.uniform(-1, 1, n_states), (n_actions, 1)))
    assert problem.span == 0
    for rule in (
        lr.ExactTest(problem, 12, fallback=lr.PolyaUrn(n_states)),
        lr.rules.RegretGap(problem, 12),
        lr.rules.RegretRate(problem, 12, alpha=1e-9),
    ):
        guard = lr.Guard(problem, 12, rule=rule, batch_shape=(3,))
        for _ in range(12):
            guard.advise(np.eye(n_states)[rng.integers(n_states, size=3)])
            guard.observe(rng.integers(n_states, size=3))
        assert guard.events == []
        assert np.abs(guard.regret).max() < 1e-12


def test_each_switch_is_told_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[lr.Switch] = []
    guard = lr.Guard(COIN, 40, batch_shape=(2, 3), on_event=heard.append)
    wrong_in = np.array([[0, 1, 0], [0, 0, 1]])  # the streams whose model is wrong
    with caplog.at_level(logging.INFO, logger="lowregret"):
        for _ in range(20):
            guard.advise(np.broadcast_to(WRONG, (2, 3, 2)))
            guard.observe(wrong_in)
    assert [(e.stream, e.step) for e in guard.events] == [((0, 1), 4), ((1, 2), 4)]
    assert heard == guard.events
    assert [r.getMessage() for r in caplog.records] == [str(e) for e in heard]
    assert str(heard[0]).startswith("stream (0, 1): switched after 4 steps of episode 1: recent frequencies predict ")
    guard.events.clear()  # a copy: what happened stays
    assert len(guard.events) == 2


def test_a_single_stream_has_no_index() -> None:
    guard = lr.Guard(COIN, 40)
    play(guard, np.tile(WRONG, (10, 1)), np.ones(10, dtype=np.int64))
    (event,) = guard.events
    assert event.stream == ()
    assert str(event).startswith("switched after 4 steps")
    rule = lr.ExactTest(COIN, 40, 0.05, temperature=0, likelihood=True)
    memory = rule.start()
    for _ in range(4):
        memory = rule.update(memory, WRONG, 1)
    assert (event.statistic, event.threshold) == pytest.approx(tuple(map(float, rule.evidence(memory))), rel=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_the_margin_of_an_event_is_the_rules_evidence(name: str) -> None:
    rng = np.random.default_rng(11)
    switched = 0
    while switched < 3:
        problem = a_game(rng)
        rule = rule_named(name, problem, 24)
        probs, states, _ = a_run(rng, problem, (24,), 24)
        guard = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(24,))
        memory, told = rule.start((24,)), 0
        for t in range(24):
            memory = rule.update(memory, probs[:, t], states[:, t])
            guard.advise(probs[:, t])
            guard.observe(states[:, t])
            statistic, threshold = rule.evidence(memory)
            for event in guard.events[told:]:
                at = event.stream
                assert event.step == t + 1
                assert (event.statistic, event.threshold) == pytest.approx((statistic[at], threshold[at]), rel=1e-12)
                told += 1
        switched += told


# Regret


@given(seed=st.integers(0, 2**32), shape=st.sampled_from(SHAPES), kind=st.sampled_from(["numpy", "torch"]))
@many
def test_realised_regret_of_the_steps_that_reported(seed: int, shape: tuple[int, ...], kind: str) -> None:
    rng, horizon = np.random.default_rng(seed), 10
    problem = a_game(rng)
    probs, states, actions = a_run(rng, problem, shape, horizon)
    reported = rng.random(horizon) < 0.6
    guard = lr.Guard(problem, horizon, batch_shape=shape)
    assert np.isnan(np.asarray(guard.realised_regret)).all()
    U = problem.utility
    for t in range(horizon):
        guard.advise(KINDS[kind](probs[..., t, :]))
        guard.observe(states[..., t], action=actions[..., t] if reported[t] else None)
        seen = np.flatnonzero(reported[: t + 1])
        by_hand = np.zeros(shape)
        for at in np.ndindex(shape):
            fixed = [sum(U[a, states[at][i]] for i in seen) for a in range(problem.n_actions)]
            own = sum(U[actions[at][i], states[at][i]] for i in seen)
            by_hand[at] = (max(fixed) - own) / len(seen) if len(seen) else np.nan
        assert np.allclose(np.asarray(guard.realised_regret), by_hand, atol=1e-12, equal_nan=True)


# act


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_acts_the_same(shape: tuple[int, ...], kind: str) -> None:
    def run(seed: int, fresh_generator: bool = False) -> np.ndarray:
        guard = lr.Guard(COIN, 24, temperature=1.0, batch_shape=shape)
        rng, played = np.random.default_rng(seed), []
        for _ in range(24):
            guard.advise(KINDS[kind](np.full((*shape, 2), 0.5)))
            action = guard.act(rng if fresh_generator else seed)
            assert isinstance(action, int) if shape == () else tuple(action.shape) == shape
            played.append(np.asarray(action))
            guard.observe(np.zeros(shape, dtype=np.int64), action=action)
        return np.stack(played)

    for generator in (False, True):
        assert np.array_equal(run(5, generator), run(5, generator))
        assert not np.array_equal(run(5, generator), run(6, generator))
    steps = run(5)
    assert 0 < steps.mean() < 1  # a fresh draw each step, not one coin for all
    assert (steps[1:] != steps[:-1]).any()
    numpy_guard = lr.Guard(COIN, 24, temperature=1.0, batch_shape=shape)
    numpy_guard.advise(np.full((*shape, 2), 0.5))
    assert np.array_equal(steps[0], np.asarray(numpy_guard.act(5)))  # and torch draws what NumPy does


def test_asking_twice_in_one_step_gives_one_answer() -> None:
    guard = lr.Guard(COIN, 100, temperature=0.1, batch_shape=(50,))
    guard.advise(np.full((50, 2), 0.5))
    assert np.array_equal(guard.act(1), guard.act(1))
    assert not np.array_equal(guard.act(1), guard.act(2))


@pytest.mark.parametrize("seed", [0, 1, np.random.default_rng(2)], ids=["0", "1", "generator"])
def test_actions_have_the_law_of_the_policy(seed: Any) -> None:
    n = 20_000
    problem = lr.DecisionProblem([[0.3, -0.4], [0.1, 0.5], [-1.0, 0.6], [0.2, 0.0]])
    guard = lr.Guard(problem, 10, temperature=0.8, batch_shape=(n,))
    guard.advise(np.tile([0.4, 0.6], (n, 1)))
    counts = np.bincount(guard.act(seed), minlength=4)
    assert chisquare(counts, n * problem.quantal_response([0.4, 0.6], 0.8)).pvalue > 1e-3
    # And along one stream, where each step draws anew from one seed.
    alone, drawn = lr.Guard(problem, 1000, temperature=0.8), []
    for _ in range(1000):
        alone.advise([0.4, 0.6])
        drawn.append(alone.act(seed))
        alone.observe(0)
    if not alone.events:
        counts = np.bincount(drawn, minlength=4)
        assert chisquare(counts, 1000 * problem.quantal_response([0.4, 0.6], 0.8)).pvalue > 1e-3
