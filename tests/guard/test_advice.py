"""The guard is Algorithm 1 for probabilities from anywhere: the same advice, switches and regret."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr
from lowregret.inputs import probs_of

from ..guarded_runs import COIN, KINDS, RULES, SHAPES, WRONG, a_game, a_run, many, play, rule_named, some


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
    guard.on_event = heard.append
    advice = play(guard, probs, states, actions)

    safe = lr.robust.Robust(Recorded(probs), rule)
    expected = safe.predict_sequence(states)
    assert advice[0].dtype == np.asarray(probs).dtype
    assert np.allclose(np.stack(advice, axis=-2), np.asarray(expected), atol=1e-12 if "32" not in kind else 1e-7)
    times = np.asarray(safe.trip_times(states))
    assert {(e.stream, e.step) for e in guard.events} == events_of(times, horizon)
    assert heard == guard.events
    regret = lr.external_regret(problem, lr.policies.Respond(safe, problem, rule.temperature), states)[..., -1]
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
    rule = lr.rules.RegretRate(problem, horizon, alpha=0.3)
    guard = lr.Guard(problem, horizon, rule=rule, batch_shape=shape)
    probs, states, _ = a_run(rng, problem, shape, horizon)
    for t in range(horizon):
        advice = guard.advise(KINDS[kind](probs[..., t, :])).law
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
    guard = lr.Guard(COIN, None, rule=lr.ExactTest(COIN, None, delta=0.01, fallback=lr.PolyaUrn(2)))
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
    guard, urn = (
        lr.Guard(COIN, 100, rule=lr.ExactTest(COIN, 100, fallback=lr.PolyaUrn(2))),
        lr.predictors.Stream(lr.PolyaUrn(2)),
    )
    for step in range(30):
        advice = guard.advise(WRONG).law
        late = bool(guard.events)
        assert late == (step >= 5)
        assert np.array_equal(advice, urn.predict() if late else WRONG)
        guard.observe(1)
        urn.update(1)
    assert [e.step for e in guard.events] == [5]


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
        assert np.array_equal(guard.advise(probs[..., t, :]).law, twin.advise(probs[..., t, :]).law)
        assert np.array_equal(guard.policy(), twin.policy())
        guard.observe(states[..., t])
        twin.observe(states[..., t])
    assert guard.state_dict() == twin.state_dict()


def test_each_observation_needs_its_advice() -> None:
    guard = lr.Guard(COIN, 10)
    needed = r"advise\(forecast\) must come before this"
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
        given_back = guard.advise(law).law
        given_back[0], given_back[1] = 0.0, 7.0
        law[0], law[1] = 3.0, -2.0
        guard.observe(state)
        twin.observe(state)
    assert guard.state_dict() == twin.state_dict()


def test_gradients_are_left_outside() -> None:
    guard, twin = lr.Guard(COIN, 10), lr.Guard(COIN, 10)
    for state in (1, 1, 1, 1, 0):
        law = torch.tensor([0.9, 0.1], dtype=torch.float64, requires_grad=True)
        assert not guard.advise(law * 1.0).law.requires_grad
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
            guard = lr.Guard(COIN, 8, batch_shape=shape, rule=lr.rules.RegretRate(COIN, 8, alpha=0.5))
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
