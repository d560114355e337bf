"""The guard is Algorithm 1 for probabilities from anywhere: the same advice, switches and regret."""

import copy
import json
import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import lowregret as lr
from lowregret.inputs import probs_of

torch.set_num_threads(1)

SEEDED = settings(derandomize=True, deadline=None, database=None, phases=[Phase.generate, Phase.shrink])
some = settings(SEEDED, max_examples=60)
many = settings(SEEDED, max_examples=300)

COIN = lr.matching(2)
WRONG = [0.9, 0.1]  # a model that is sure of state 0
SHAPES: list[tuple[int, ...]] = [(), (5,), (2, 3)]
KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "numpy, float32": lambda x: x.astype(np.float32),
    "torch": lambda x: torch.tensor(x),
    "torch, float32": lambda x: torch.tensor(x, dtype=torch.float32),
}


def rule_named(name: str, problem: lr.DecisionProblem, horizon: int) -> lr.Rule:
    fallback = lr.PolyaUrn(problem.n_states, prior=0.5)
    return {
        "default": lambda: lr.ExactTest(problem, horizon),
        "ungated": lambda: lr.ExactTest(problem, horizon, delta=0.2, gate=0, fallback=fallback, temperature=0.3),
        "unknown horizon": lambda: lr.ExactTest(problem, None, delta=0.3, gate=0),
        "gap": lambda: lr.RegretGap(problem, horizon, span_aware=True),
        "gap, unknown horizon": lambda: lr.RegretGap(problem, None, delta=0.5, span_aware=True),
        "rate": lambda: lr.RegretRate(problem, horizon, alpha=0.5),
        "function": lambda: lr.RegretRate(problem, horizon, alpha=0.5, fallback=last_state(problem.n_states)),
    }[name]()


RULES = ["default", "ungated", "unknown horizon", "gap", "gap, unknown horizon", "rate", "function"]


def last_state(n: int) -> lr.FromFunction:
    """A fallback whose memory grows: mostly the last state again."""

    def law(history: Any) -> Any:
        even = np.full(n, 1 / n)
        return even if len(history) == 0 else 0.5 * even + 0.5 * np.eye(n)[int(history[-1])]

    return lr.FromFunction(law, n)


class Recorded(lr.Predictor):
    """The laws of a recorded run ``[..., T, S]``, as a predictor."""

    def __init__(self, probs: Any) -> None:
        self.probs, self.n_states = probs, probs.shape[-1]

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> int:
        return 0

    def predict(self, memory: int) -> Any:
        return self.probs[..., min(memory, self.probs.shape[-2] - 1), :]

    def update(self, memory: int, token: Any) -> int:
        return memory + 1

    def predict_sequence(self, tokens: Any) -> Any:
        return self.probs


def a_game(rng: np.random.Generator) -> lr.DecisionProblem:
    return lr.DecisionProblem(rng.uniform(-1, 1, (rng.integers(2, 6), rng.integers(2, 6))))


def a_run(
    rng: np.random.Generator, problem: lr.DecisionProblem, shape: tuple[int, ...], horizon: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Laws around one law a stream, states around one state, so that some models are right and some wrong; actions."""
    n = problem.n_states
    centre = rng.dirichlet(np.full(n, 0.3), size=(*shape, 1))
    probs = 0.9 * centre + 0.1 * rng.dirichlet(np.full(n, 0.4), size=(*shape, horizon))
    odd = rng.random((*shape, horizon)) < 0.2
    states = np.where(odd, rng.integers(n, size=odd.shape), rng.integers(n, size=(*shape, 1)))
    probs = probs * (1 - 1e-3) + 1e-3 / n
    return probs / probs.sum(-1, keepdims=True), states, rng.integers(problem.n_actions, size=odd.shape)


def play(guard: lr.Guard, probs: Any, states: Any, actions: Any = None) -> list[Any]:
    """The advice of every step of a recorded run."""
    advice = []
    for t in range(states.shape[-1]):
        advice.append(np.asarray(guard.advise(probs[..., t, :])).copy())
        guard.observe(states[..., t], action=None if actions is None else actions[..., t])
    return advice


def events_of(times: np.ndarray, horizon: int) -> set[tuple[Any, int]]:
    """What trip times say the events must be: (stream, step)."""
    tripped = {at: int(t) for at, t in np.ndenumerate(times) if t <= horizon}
    return {(at[0] if len(at) == 1 else at, t) for at, t in tripped.items()}


# The same as Robust and external_regret


@pytest.mark.parametrize("name", RULES)
@given(seed=st.integers(0, 2**32), shape=st.sampled_from(SHAPES), kind=st.sampled_from(list(KINDS)))
@some
def test_guard_is_algorithm_1(name: str, seed: int, shape: tuple[int, ...], kind: str) -> None:
    rng, horizon = np.random.default_rng(seed), 24
    problem = a_game(rng)
    rule = rule_named(name, problem, horizon)
    probs, states, actions = a_run(rng, problem, shape, horizon)
    probs, states, actions = KINDS[kind](probs), torch_if(kind, states), torch_if(kind, actions)
    guard = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=shape)
    heard: list[lr.Switch] = []
    guard.on_switch = heard.append
    advice = play(guard, probs, states, actions)

    safe = lr.Robust(Recorded(probs), rule)
    expected = safe.predict_sequence(states)
    assert advice[0].dtype == np.asarray(probs).dtype
    assert np.allclose(np.stack(advice, axis=-2), np.asarray(expected), atol=1e-12 if "32" not in kind else 1e-7)
    times = np.asarray(safe.trip_times(states))
    assert {(e.stream, e.step) for e in guard.events} == events_of(times, horizon)
    assert heard == guard.events
    regret = lr.external_regret(problem, lr.Respond(safe, problem, rule.temperature), states)[..., -1]
    assert np.allclose(np.asarray(guard.regret), np.asarray(regret), atol=1e-12 if "32" not in kind else 1e-6)
    realised = lr.external_regret(problem, actions, states)[..., -1]
    assert np.allclose(np.asarray(guard.realised_regret), np.asarray(realised), atol=1e-12)
    for event in guard.events:
        assert event.rule == type(rule).__name__
        assert event.episode == 1
        assert event.statistic >= event.threshold * (1 - 1e-12)
        assert str(event.step) in str(event)


def torch_if(kind: str, values: np.ndarray) -> Any:
    return torch.tensor(values) if "torch" in kind else values


def test_the_random_runs_switch_or_do_not() -> None:
    """Otherwise the test above would say little."""
    rng = np.random.default_rng(0)
    for name in RULES:
        fates = set()
        for _ in range(60):
            problem = a_game(rng)
            probs, states, _ = a_run(rng, problem, (6,), 24)
            times = rule_named(name, problem, 24).trip_times(probs, states)
            fates |= set(np.where(times > 24, "never", np.where(times < 12, "early", "late")).tolist())
        assert fates >= {"late", "never"}, name


@given(seed=st.integers(0, 2**32), shape=st.sampled_from(SHAPES), kind=st.sampled_from(list(KINDS)))
@many
def test_the_policy_is_the_quantal_response_to_the_advice(seed: int, shape: tuple[int, ...], kind: str) -> None:
    rng, horizon = np.random.default_rng(seed), 8
    problem = a_game(rng)
    rule = lr.RegretRate(problem, horizon, alpha=0.3)
    guard = lr.Guard(problem, horizon, rule=rule, batch_shape=shape)
    probs, states, _ = a_run(rng, problem, shape, horizon)
    for t in range(horizon):
        advice = guard.advise(KINDS[kind](probs[..., t, :]))
        policy = guard.policy()
        assert policy.dtype == advice.dtype
        probs_of(policy, problem.n_actions, "policy", shape=shape)
        expected = problem.quantal_response(advice, rule.temperature)
        assert np.allclose(np.asarray(policy), np.asarray(expected), atol=1e-12 if "32" not in kind else 1e-5)
        guard.observe(states[..., t])


def test_no_chance_is_negative_when_cold() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (6, 3)))
        guard = lr.Guard(problem, 100, temperature=0.01)
        guard.advise(rng.dirichlet(np.ones(3)))
        probs_of(guard.policy(), 6, "policy")


def test_an_unknown_horizon_cools_down() -> None:
    guard = lr.Guard(COIN, None, rule=lr.ExactTest(COIN, None, delta=0.01))
    for step in range(1, 200):
        guard.advise([0.4, 0.6])
        expected = COIN.quantal_response([0.4, 0.6], COIN.anytime_temperature(step))
        assert np.allclose(guard.policy(), expected, atol=1e-15)
        guard.observe(step % 2)
    assert guard.horizon is None
    assert guard.certificate.tv_bound == 0.01
    assert guard.certificate.at(199).regret_bound < 1


# advise and observe


def test_advice_before_the_switch_is_the_model_and_after_it_the_fallback() -> None:
    guard, urn = lr.Guard(COIN, 100), lr.Stream(lr.PolyaUrn(2))
    for step in range(30):
        advice = guard.advise(WRONG)
        late = bool(guard.events)
        assert late == (step >= 3)
        assert np.array_equal(advice, urn.predict() if late else WRONG)
        guard.observe(1)
        urn.update(1)
    assert [e.step for e in guard.events] == [3]


@given(seed=st.integers(0, 2**32), shape=st.sampled_from(SHAPES))
@some
def test_the_last_advice_counts(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    guard, twin = (lr.Guard(COIN, 10, batch_shape=shape) for _ in range(2))
    probs, states, _ = a_run(rng, COIN, shape, 10)
    for t in range(10):
        for _ in range(rng.integers(3)):
            guard.advise(rng.dirichlet([1, 1], size=shape))
            guard.policy()
        assert np.array_equal(guard.advise(probs[..., t, :]), twin.advise(probs[..., t, :]))
        assert np.array_equal(guard.policy(), twin.policy())
        guard.observe(states[..., t])
        twin.observe(states[..., t])
    assert guard.state_dict() == twin.state_dict()


def test_each_observation_needs_its_advice() -> None:
    guard = lr.Guard(COIN, 10)
    needed = r"advise\(probs\) must come before this"
    for call in (lambda: guard.observe(0), guard.policy, lambda: guard.act(0)):
        with pytest.raises(ValueError, match=needed):
            call()
    guard.advise(WRONG)
    guard.observe(0)
    for call in (lambda: guard.observe(0), guard.policy, lambda: guard.act(0)):
        with pytest.raises(ValueError, match=needed):
            call()
    guard.advise(WRONG)
    guard.restart()
    with pytest.raises(ValueError, match=needed):
        guard.observe(0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_may_be_filled_again(kind: str) -> None:
    """Neither the array given to advise nor the one it gave back may reach into the guard."""
    guard, twin = lr.Guard(COIN, 10), lr.Guard(COIN, 10)
    law = KINDS[kind](np.array(WRONG))
    for state in (0, 1, 1, 1, 1):
        law[0], law[1] = 0.9, 0.1
        twin.advise(KINDS[kind](np.array(WRONG)))
        given_back = guard.advise(law)
        given_back[0], given_back[1] = 0.0, 7.0
        law[0], law[1] = 3.0, -2.0
        guard.observe(state)
        twin.observe(state)
    assert guard.state_dict() == twin.state_dict()


def test_gradients_are_left_outside() -> None:
    guard, twin = lr.Guard(COIN, 10), lr.Guard(COIN, 10)
    for state in (1, 1, 1, 1, 0):
        law = torch.tensor([0.9, 0.1], dtype=torch.float64, requires_grad=True)
        assert guard.advise(law * 1.0).requires_grad or guard.events
        twin.advise(law.detach())
        assert not guard.policy().requires_grad
        guard.observe(state, action=guard.act(0))
        twin.observe(state, action=twin.act(0))
    assert guard.events
    assert guard.state_dict() == twin.state_dict()


@pytest.mark.parametrize("shape", SHAPES)
def test_states_and_actions_of_any_kind(shape: tuple[int, ...]) -> None:
    """The library and type of states need not be those of the probabilities."""
    rng = np.random.default_rng(3)
    probs, states, actions = a_run(rng, COIN, shape, 8)
    carriers: list[Callable[[np.ndarray], Any]] = [
        lambda s: s,
        lambda s: s.tolist(),
        lambda s: s.astype(np.uint8),
        lambda s: s.astype(np.uint64),
        lambda s: torch.tensor(s),
        lambda s: torch.tensor(s, dtype=torch.uint8),
    ]
    for of_probs in ("numpy", "torch"):
        dicts = []
        for carry in carriers:
            guard = lr.Guard(COIN, 8, batch_shape=shape, rule=lr.RegretRate(COIN, 8, alpha=0.5))
            for t in range(8):
                guard.advise(KINDS[of_probs](probs[..., t, :]))
                guard.observe(carry(states[..., t]), action=carry(actions[..., t]))
            assert isinstance(guard.episodes, torch.Tensor) == (of_probs == "torch")
            dicts.append(guard.state_dict())
        assert all(d == dicts[0] for d in dicts)


def test_probabilities_stay_the_kind_they_were() -> None:
    guard = lr.Guard(COIN, 10)
    guard.advise(WRONG)
    guard.restart()
    guard.advise(torch.tensor(WRONG))  # before the first state it may still change
    assert isinstance(guard.episodes, torch.Tensor)
    assert int(guard.episodes) == 2
    guard.observe(1)
    before = guard.state_dict()
    with pytest.raises(ValueError, match="probs must stay the kind of array they were, torch on cpu, got numpy on cpu"):
        guard.advise(WRONG)
    assert guard.state_dict() == before


# Switches


@pytest.mark.parametrize("gate", [0, 0.5, 50.0])
@pytest.mark.parametrize("horizon", [20, None])
def test_an_impossible_state_sounds_the_alarm_at_once(gate: float, horizon: int | None) -> None:
    rule = lr.ExactTest(COIN, horizon, delta=0.01, gate=gate)
    guard = lr.Guard(COIN, horizon, rule=rule, batch_shape=(3,))
    guard.advise([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    guard.observe([0, 1, 1])
    (event,) = guard.events
    assert (event.stream, event.step, event.rule) == (1, 1, "ExactTest")
    assert event.statistic == math.inf
    assert event.threshold == pytest.approx(math.log(100))
    assert guard.advise([[1.0, 0.0]] * 3).tolist() == [[1.0, 0.0], [1 / 3, 2 / 3], [1.0, 0.0]]
    guard.observe([1, 1, 0])
    assert [(e.stream, e.step) for e in guard.events] == [(1, 1), (0, 2)]


@given(seed=st.integers(0, 2**32), n_states=st.integers(1, 4), n_actions=st.integers(1, 4))
@some
def test_nothing_at_stake_never_switches(seed: int, n_states: int, n_actions: int) -> None:
    rng = np.random.default_rng(seed)
    problem = lr.DecisionProblem(np.tile(rng.uniform(-1, 1, n_states), (n_actions, 1)))
    assert problem.span == 0
    for rule in (
        lr.ExactTest(problem, 12),
        lr.ExactTest(problem, 12, gate=0),
        lr.RegretGap(problem, 12),
        lr.RegretRate(problem, 12, alpha=1e-9),
    ):
        guard = lr.Guard(problem, 12, rule=rule, batch_shape=(3,))
        for _ in range(12):
            guard.advise(np.eye(n_states)[rng.integers(n_states, size=3)])
            guard.observe(rng.integers(n_states, size=3))
        assert guard.events == []
        assert np.abs(guard.regret).max() < 1e-12


def test_each_switch_is_told_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[lr.Switch] = []
    guard = lr.Guard(COIN, 40, batch_shape=(2, 3), on_switch=heard.append)
    wrong_in = np.array([[0, 1, 0], [0, 0, 1]])  # the streams whose model is wrong
    with caplog.at_level(logging.INFO, logger="lowregret"):
        for _ in range(20):
            guard.advise(np.broadcast_to(WRONG, (2, 3, 2)))
            guard.observe(wrong_in)
    assert [(e.stream, e.step) for e in guard.events] == [((0, 1), 3), ((1, 2), 3)]
    assert heard == guard.events
    assert [r.getMessage() for r in caplog.records] == [str(e) for e in heard]
    assert str(heard[0]).startswith("stream (0, 1): switched after 3 steps of episode 1: evidence of ExactTest ")
    guard.events.clear()  # a copy: what happened stays
    assert len(guard.events) == 2


def test_a_single_stream_has_no_index() -> None:
    guard = lr.Guard(COIN, 40)
    play(guard, np.tile(WRONG, (10, 1)), np.ones(10, dtype=np.int64))
    (event,) = guard.events
    assert event.stream == ()
    assert str(event).startswith("switched after 3 steps")


@pytest.mark.parametrize("name", RULES)
def test_the_margin_of_an_event_is_the_rules_evidence(name: str) -> None:
    rng = np.random.default_rng(11)
    switched = 0
    while switched < 3:
        problem = a_game(rng)
        rule = rule_named(name, problem, 24)
        probs, states, _ = a_run(rng, problem, (), 24)
        guard = lr.Guard(problem, rule.horizon, rule=rule)
        memory = rule.start()
        for t in range(24):
            memory = rule.update(memory, probs[t], states[t])
            guard.advise(probs[t])
            guard.observe(states[t])
            for event in guard.events:
                if event.step == t + 1:
                    statistic, threshold = map(float, rule.evidence(memory))
                    assert (event.statistic, event.threshold) == pytest.approx((statistic, threshold), rel=1e-12)
                    switched += 1


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
        guard = lr.Guard(COIN, 60, temperature=1.0, batch_shape=shape)
        rng, played = np.random.default_rng(seed), []
        for _ in range(60):
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
    numpy_guard = lr.Guard(COIN, 60, temperature=1.0, batch_shape=shape)
    numpy_guard.advise(np.full((*shape, 2), 0.5))
    assert np.array_equal(steps[0], np.asarray(numpy_guard.act(5)))  # and torch draws what NumPy does


def test_asking_twice_in_one_step_gives_one_answer() -> None:
    guard = lr.Guard(COIN, 100, batch_shape=(50,))
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
    alone, drawn = lr.Guard(problem, 4000, temperature=0.8), []
    for _ in range(4000):
        alone.advise([0.4, 0.6])
        drawn.append(alone.act(seed))
        alone.observe(0)
    if not alone.events:
        counts = np.bincount(drawn, minlength=4)
        assert chisquare(counts, 4000 * problem.quantal_response([0.4, 0.6], 0.8)).pvalue > 1e-3


# Episodes


def test_the_horizon_is_a_promise() -> None:
    guard = lr.Guard(COIN, 3)
    play(guard, np.tile(WRONG, (3, 1)), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match=r"horizon of 3 steps is over.*restart\(\).*horizon=None"):
        guard.advise(WRONG)
    guard.restart()
    play(guard, np.tile(WRONG, (3, 1)), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match=r"restart\(\)"):
        guard.advise(WRONG)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", RULES)
def test_a_new_episode_is_a_new_guard(name: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    problem = a_game(rng)
    rule = rule_named(name, problem, 24)
    guard = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(4,))
    for episode in range(1, 4):
        fresh = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(4,))
        probs, states, actions = a_run(rng, problem, (4,), 24)
        before = len(guard.events)
        for one, other in zip(
            play(guard, KINDS[kind](probs), states, actions),
            play(fresh, KINDS[kind](probs), states, actions),
            strict=True,
        ):
            assert np.array_equal(one, other)
        assert np.array_equal(np.asarray(guard.regret), np.asarray(fresh.regret))
        assert np.array_equal(np.asarray(guard.realised_regret), np.asarray(fresh.realised_regret), equal_nan=True)
        assert guard.events[before:] == [e._replace(episode=episode) for e in fresh.events]
        assert np.asarray(guard.episodes).tolist() == [episode] * 4
        guard.restart()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(
    "streams",
    [[0, 3], (3, 0), np.array([0, 3]), [True, False, False, True], np.array([True, False, False, True]), [3, 0, 3]],
    ids=["list", "tuple", "array", "list mask", "mask", "repeats"],
)
def test_some_streams_start_again(streams: Any, kind: str) -> None:
    rng = np.random.default_rng(6)
    rule = lr.RegretRate(COIN, 12, alpha=0.3)
    guard = lr.Guard(COIN, 12, rule=rule, batch_shape=(4,))
    probs, states, actions = a_run(rng, COIN, (4,), 12)
    play(guard, KINDS[kind](probs[:, :6]), states[:, :6], actions[:, :6])
    guard.restart(streams)
    assert np.asarray(guard.episodes).tolist() == [2, 1, 1, 2]
    advice = play(guard, KINDS[kind](probs[:, 6:]), states[:, 6:], actions[:, 6:])
    for i in range(4):
        lone = lr.Guard(COIN, 12, rule=rule)
        whole = i in (1, 2)
        begin = 0 if whole else 6
        alone = play(lone, KINDS[kind](probs[i, begin:]), states[i, begin:], actions[i, begin:])
        assert np.allclose(np.stack(alone[-6:]), np.stack(advice)[:, i], atol=1e-12)
        assert float(guard.regret[i]) == pytest.approx(lone.regret, abs=1e-12)
        assert float(guard.realised_regret[i]) == pytest.approx(lone.realised_regret, abs=1e-12, nan_ok=True)
    with pytest.raises(ValueError, match="horizon of 12 steps is over"):  # streams 1 and 2 have had theirs
        guard.advise(KINDS[kind](probs[:, 0]))
    guard.restart([1, 2])
    guard.advise(KINDS[kind](probs[:, 0]))
    assert np.asarray(guard.episodes).tolist() == [2, 2, 2, 2]


def test_streams_are_chosen_along_the_first_axis() -> None:
    guard = lr.Guard(COIN, 12, batch_shape=(2, 3))
    guard.advise(np.full((2, 3, 2), 0.5))
    guard.observe(np.zeros((2, 3), dtype=np.int64))
    guard.restart(1)
    assert guard.episodes.tolist() == [[1, 1, 1], [2, 2, 2]]
    guard.restart([])
    assert guard.episodes.tolist() == [[1, 1, 1], [2, 2, 2]]
    guard.restart(torch.tensor([0]))
    assert guard.episodes.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_a_fallback_that_grows_starts_again_as_one() -> None:
    """Its memory has one length for all streams: some of them cannot start again, all of them can."""
    for steps in (1, 2, 3):
        guard = lr.Guard(COIN, 12, fallback=last_state(2), batch_shape=(2,))
        play(guard, np.full((2, steps, 2), 0.5), np.zeros((2, steps), dtype=np.int64))
        before = guard.state_dict()
        with pytest.raises(ValueError, match="streams of different ages cannot share this memory"):
            guard.restart([0])
        assert guard.state_dict() == before
        guard.restart([0, 1])
        assert guard.episodes.tolist() == [2, 2]
        play(guard, np.full((2, 12, 2), 0.5), np.zeros((2, 12), dtype=np.int64))


def test_episodes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    guard = lr.Guard(COIN, 12, batch_shape=(4,))
    with caplog.at_level(logging.INFO, logger="lowregret"):
        guard.restart([1, 2])
        guard.restart()
    assert [r.getMessage() for r in caplog.records] == [
        "new episode for 2 of 4 streams",
        "new episode for 4 of 4 streams",
    ]


@pytest.mark.parametrize("delta", [0.001, 0.3])
def test_the_certificate_adds_episodes(delta: float) -> None:
    guard = lr.Guard(COIN, 12, rule=lr.ExactTest(COIN, 12, delta=delta), batch_shape=(3,))
    one = guard.certificate
    assert (one.episodes, one.tv_bound) == (1, delta)
    for opened in range(2, 6):
        guard.restart([opened % 3])
        guard.restart([0])
        many_ = guard.certificate
        assert many_.episodes == int(guard.episodes.max())
        assert many_.tv_bound == pytest.approx(min(1.0, delta * many_.episodes))
        assert many_.regret_bound == one.regret_bound
    assert guard.certificate.episodes > 4
    assert guard.certificate.tv_bound <= 1


# Resuming


def through_json(guard: lr.Guard) -> dict[str, Any]:
    return json.loads(json.dumps(guard.state_dict(), allow_nan=False))


@pytest.mark.parametrize("name", RULES)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from(SHAPES),
    kind=st.sampled_from(list(KINDS)),
    impossible=st.booleans(),
)
@settings(some, max_examples=15)
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
        advice, again = guard.advise(law), resumed_before.advise(law)
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
    assert guard.advise(WRONG).tolist() == WRONG
    guard.load_state_dict(middle)
    assert guard.advise(WRONG).tolist() != WRONG


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
    "horizon": (lambda: lr.Guard(COIN, 13), ("horizon (12 against 13)", "temperature", "delta")),
    "temperature": (lambda: lr.Guard(COIN, 12, temperature=0.5), ("temperature",)),
    "delta": (lambda: lr.Guard(COIN, 12, rule=lr.ExactTest(COIN, 12, delta=0.01)), ("delta", "0.01")),
    "gate": (lambda: lr.Guard(COIN, 12, rule=lr.ExactTest(COIN, 12, gate=0)), ("gate (0.5 against 0.0)",)),
    "rule": (lambda: lr.Guard(COIN, 12, rule=lr.RegretRate(COIN, 12)), ("rule ('ExactTest' against 'RegretRate')",)),
    "gap": (lambda: lr.Guard(COIN, 12, rule=lr.RegretGap(COIN, 12)), ("rule", "alpha", "span_aware")),
    "utility": (lambda: lr.Guard(lr.DecisionProblem([[1, 0], [0, 0.5]]), 12), ("utility",)),
    "states": (lambda: lr.Guard(lr.matching(3), 12), ("utility", "fallback")),
    "batch": (lambda: lr.Guard(COIN, 12, batch_shape=(1,)), ("batch_shape ([] against [1])",)),
    "prior": (lambda: lr.Guard(COIN, 12, fallback=lr.PolyaUrn(2, prior=0.5)), ("fallback", "0.5")),
    "fallback": (lambda: lr.Guard(COIN, 12, fallback=lr.Scheduled([[0.5, 0.5]])), ("fallback", "Scheduled")),
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
    for setting in {"horizon", "temperature", "delta", "gate", "utility", "batch_shape"} - {
        w.split()[0] for w in differs
    }:
        assert f"{setting} (" not in str(caught.value) or name in ("rule", "gap")
    assert other.state_dict() == before


def test_schedules_are_told_apart() -> None:
    fallbacks = [lr.Scheduled([[0.5, 0.5]]), lr.Scheduled([[0.4, 0.6]])]
    one, other = (lr.Guard(COIN, 12, fallback=f) for f in fallbacks)
    with pytest.raises(ValueError, match="differs in: fallback"):
        other.load_state_dict(through_json(one))


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
        ((), "numpy", lr.ExactTest(COIN, 12)),
        ((3,), "torch", lr.ExactTest(COIN, None, delta=0.1)),
        ((2, 2), "numpy, float32", lr.RegretRate(COIN, 12, alpha=0.3)),
        ((2,), "numpy", lr.RegretGap(COIN, 12, fallback=last_state(2))),
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
        assert path[0] in ("ledger", "clock", "events", "advised", "dtype", "arrays") or path == ("made_for",)
        law = np.full((*guard.batch_shape, 2), 0.5)
        if guard.state_dict()["arrays"][0] == "torch":
            law = torch.tensor(law)
        probs_of(guard.advise(law), 2, shape=guard.batch_shape)
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
        (("ledger", 4), 0),  # no episode
        (("ledger", 5), -1),  # less than nothing before this episode
        (("ledger", 6), -0.5),
        (("ledger", 0, 0, 0), [5.0, -3.0]),  # counts of the urn that are no counts
        (("ledger", 0, 0, 0), [50.0, 3.0]),
        (("advised",), [0.6, 0.6]),
        (("advised",), [0.5, 0.25, 0.25]),
        (("advised",), [["a"], 0.5]),
        (("dtype",), "float16"),
        (("dtype",), None),
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
    d = through_json(guard) | {"advised": WRONG, "dtype": "float64"}
    other = lr.Guard(COIN, 3)
    with pytest.raises(ValueError, match="horizon of 3 steps is over"):
        other.load_state_dict(d)
    assert other.state_dict() == lr.Guard(COIN, 3).state_dict()


def test_episodes_cut_short_are_charged_what_they_may_cost() -> None:
    """A bound for full episodes says little of short ones: each is charged the bound of its own length."""
    coin = lr.matching()
    guard, lost = lr.Guard(coin, horizon=300), 0.0
    lengths = [1, 1, 5, 40, 300]
    for i, length in enumerate(lengths):
        for _ in range(length):
            guard.advise([0.99, 0.01])
            guard.observe(1)
        lost += length * guard.regret
        if i + 1 < len(lengths):
            guard.restart()
    given = guard.certificate
    one = lr.Guard(coin, horizon=300).certificate
    charged = sum(t * one.at(t).regret_bound for t in lengths) / sum(lengths)
    assert given.regret_bound == pytest.approx(charged)
    assert lost / sum(lengths) <= given.regret_bound
    assert given.regret_bound > one.regret_bound
    assert given.tv_bound == pytest.approx(5 * one.tv_bound)
    assert "5 episodes" in str(given)
