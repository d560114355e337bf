"""The every-start test in odd places: degenerate problems, settings at their ends, rules as values."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from ..literal_theorem import told

MATCHING = lr.matching()

ODD: dict[str, lr.DecisionProblem] = {
    "one action": lr.DecisionProblem([[0.3, 0.5]]),
    "one state": lr.DecisionProblem([[0.3], [0.5]]),
    "one of each": lr.DecisionProblem([[0.3]]),
    "equal actions": lr.DecisionProblem([[1, 0], [1, 0]]),
    "dominated everywhere": lr.DecisionProblem([[1, 1], [0, 0]]),
    "dominated": lr.DecisionProblem([[1, 0.5], [0, 0], [0.2, 0.4]]),
    "weakly dominated": lr.DecisionProblem([[1, 0], [0, 0]]),
    "an action twice": lr.DecisionProblem([[1, 0], [1, 0], [0, 1]]),
    "payoffs of 1e-9": lr.DecisionProblem(np.eye(2) * 1e-9),
    "payoffs of 1e-300": lr.DecisionProblem(np.eye(2) * 1e-300),
}


@pytest.mark.parametrize("horizon", [1, 2, 30, None])
@pytest.mark.parametrize("name", ODD)
def test_odd_problems(name: str, horizon: int | None) -> None:
    """Everything that can be asked, on every shape of batch, beside the theorem."""
    problem, T = ODD[name], horizon or 12
    rng, S = np.random.default_rng(0), problem.n_states
    rule = lr.rules.ExactTest(problem, horizon, delta=0.2)
    certificate = rule.certificate.at(T)
    assert 0 <= certificate.regret_bound <= problem.span
    assert 0 <= rule.certificate.interval(1, 1) <= problem.span
    assert rule.certificate.sharpen().at(T).regret_bound <= certificate.regret_bound
    assert str(rule.certificate)
    for shape in ((), (0,), (2, 3)):
        probs, tokens = rng.dirichlet(np.ones(S), (*shape, T)), rng.integers(S, size=(*shape, T))
        times, memory = rule.trip_times(probs, tokens), rule.start(shape)
        for t in range(T):
            assert rule.evidence(memory)[0].shape == shape
            memory = rule.update(memory, probs[..., t, :], tokens[..., t])
            suspicion = rule.suspicion(memory)
            assert suspicion is not None
            assert all(np.shape(part) == shape for part in suspicion)
        assert np.array_equal(np.where(memory.tripped_at == 0, T + 1, memory.tripped_at), times)
        if shape == ():
            assert times == told(rule, probs, tokens).trip


@pytest.mark.parametrize("delta", [1e-250, 1e-12, 1 - 1e-12])
def test_deltas_at_the_ends(delta: float) -> None:
    """Recorded, and a step at a time."""
    T = 420
    rule = lr.rules.ExactTest(MATCHING, T, delta=delta)
    probs, tokens = np.tile([0.999, 0.001], (2, T, 1)), np.stack([np.ones(T, int), np.zeros(T, int)])
    wanted = [told(rule, p, y).trip for p, y in zip(probs, tokens, strict=True)]
    assert wanted[0] <= T < wanted[1]
    assert rule.trip_times(probs, tokens).tolist() == wanted
    memory = rule.start((2,))
    for t in range(T):
        memory = rule.update(memory, probs[:, t], tokens[:, t])
    assert memory.tripped_at.tolist() == [wanted[0], 0]


@pytest.mark.parametrize("temperature", [1e-300, 1e-6, 1e3, 1e300])
def test_temperatures_at_the_ends(temperature: float) -> None:
    for problem in (MATCHING, lr.rock_paper_scissors()):
        rule = lr.rules.ExactTest(problem, 40, delta=0.1, temperature=temperature)
        assert np.isfinite(rule.rates_K).all()
        certificate = rule.certificate
        assert 0 < certificate.sharpen().regret_bound <= certificate.regret_bound <= problem.span
        probs = np.full((40, problem.n_states), 1e-3)
        probs[:, 0] = 1 - 1e-3 * (problem.n_states - 1)
        assert rule.trip_times(probs, np.ones(40, int)) == told(rule, probs, np.ones(40, int)).trip <= 40


def test_what_is_made_of_a_certificate_keeps_its_costs() -> None:
    """Sharper terms and intervals are of the rule alone: not of copies, nor of several episodes."""
    rule = lr.rules.ExactTest(MATCHING, 64, fallback=lr.PolyaUrn(2))
    alone, base = rule.certificate, lr.Markov([0.6, 0.4], 0)
    copies = lr.AverageRestart(base, MATCHING, 0, 64, 1000, rule=rule).certificate
    share = copies.regret_bound / alone.regret_bound
    assert copies.sharpen().regret_bound == pytest.approx(share * alone.sharpen().regret_bound)
    guard = lr.Guard(MATCHING, test=lr.ExactTest(0.1, 64))
    guard.restart()
    assert guard.certificate.sharpen() == guard.certificate
    for certificate in (copies, guard.certificate):
        with pytest.raises(ValueError, match="speaks of whole episodes only"):
            certificate.interval(1, 10)


RULES: dict[str, Any] = {
    "default": lambda: lr.rules.ExactTest(MATCHING, 30, delta=0.1),
    "urn": lambda: lr.rules.ExactTest(MATCHING, 30, delta=0.1, fallback=lr.PolyaUrn(2)),
    "unknown": lambda: lr.rules.ExactTest(lr.rock_paper_scissors(), None, delta=0.1),
}


def test_rules_are_values() -> None:
    """Equal where they were made alike, whatever has been asked of them; different in each setting; and hashable."""
    made = {name: make() for name, make in RULES.items()}
    for name, make in RULES.items():
        rule, again = made[name], make()
        assert rule.certificate.regret_bound == again.certificate.regret_bound  # what they work out is kept with them
        for other in (again, pickle.loads(pickle.dumps(rule)), copy.deepcopy(rule)):
            assert rule == other
            assert hash(rule) == hash(other)
            assert np.array_equal(rule.rates_K, other.rates_K)
    assert len(set(made.values())) == len(made)
    assert lr.rules.ExactTest(MATCHING, 30) != lr.rules.ExactTest(
        MATCHING, 30, fallback=lr.policies.Recovery(budget=0.4)
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"delta": 1.0}, "delta"),
        ({"delta": 1e-251}, "delta must be at least 1e-250, got 1e-251"),
        ({"temperature": "warm"}, "temperature"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        lr.rules.ExactTest(**{"problem": MATCHING, "horizon": 30, **settings})
