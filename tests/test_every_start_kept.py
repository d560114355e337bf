"""The every-start test in odd places: degenerate problems, states that are saved and read back, rules as values."""

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.problems import Positions
from lowregret.rules import FirstTest, kernels

from .guarded_runs import through_json
from .literal_theorem import told

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
    for starts in ("every", "first"):
        rule = lr.ExactTest(problem, horizon, delta=0.2, starts=starts)
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


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1 - 1e-12])
def test_deltas_at_the_ends(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In arrays, compiled, and a step at a time."""
    T = 420
    rule = lr.ExactTest(MATCHING, T, delta=delta)
    probs, tokens = np.tile([0.999, 0.001], (2, T, 1)), np.stack([np.ones(T, int), np.zeros(T, int)])
    wanted = [told(rule, p, y).trip for p, y in zip(probs, tokens, strict=True)]
    assert wanted[0] <= T < wanted[1]
    assert rule.trip_times(probs, tokens).tolist() == wanted
    monkeypatch.setattr(kernels, "_WORTH", 0)
    assert rule.trip_times(probs, tokens).tolist() == wanted
    memory = rule.start((2,))
    for t in range(T):
        memory = rule.update(memory, probs[:, t], tokens[:, t])
    assert memory.tripped_at.tolist() == [wanted[0], 0]


@pytest.mark.parametrize("temperature", [1e-300, 1e-6, 1e3, 1e300])
def test_temperatures_at_the_ends(temperature: float) -> None:
    for problem in (MATCHING, lr.rock_paper_scissors()):
        rule = lr.ExactTest(problem, 40, delta=0.1, temperature=temperature)
        assert np.isfinite(rule.rates_K).all()
        certificate = rule.certificate
        assert 0 < certificate.sharpen().regret_bound <= certificate.regret_bound <= problem.span
        probs = np.full((40, problem.n_states), 1e-3)
        probs[:, 0] = 1 - 1e-3 * (problem.n_states - 1)
        assert rule.trip_times(probs, np.ones(40, int)) == told(rule, probs, np.ones(40, int)).trip <= 40


def test_a_huge_gate_keeps_it_shut() -> None:
    rule = lr.ExactTest(MATCHING, 50, delta=0.1, gate=1e6)
    assert rule.trip_times(np.tile([0.99, 0.01], (50, 1)), np.ones(50, int)) == 51
    assert rule.trip_times(np.tile([1.0, 0.0], (50, 1)), np.ones(50, int)) == 1  # an excluded state needs no gate
    assert rule.certificate.regret_bound == 1


def test_limits_are_those_of_the_temperature() -> None:
    """A certificate's limit is what no rule at its temperature can go below; none for a schedule of temperatures."""
    cold, usual = (lr.ExactTest(MATCHING, 24, delta=2 / 24, temperature=eta).certificate for eta in (0.001, None))
    assert usual.limit == lr.certificates.limits.limit(MATCHING, 24, 2 / 24)
    assert cold.limit == lr.certificates.limits.limit(MATCHING, 24, 2 / 24, temperature=0.001)
    assert usual.limit < 0.7 * cold.limit < cold.regret_bound
    assert usual.at(6).limit == lr.certificates.limits.limit(MATCHING, 6, 2 / 24, temperature=24**-0.5)
    assert lr.ExactTest(MATCHING, None, delta=0.1).certificate.at(24).limit is None


def test_what_is_made_of_a_certificate_keeps_its_costs() -> None:
    """Sharper terms, intervals and limits are of the rule alone: not of copies, of a way back, of several episodes."""
    rule = lr.ExactTest(MATCHING, 64, fallback=lr.PolyaUrn(2))
    alone, base = rule.certificate, lr.Markov([0.6, 0.4], 0)
    back = lr.SwitchBack(lr.Robust(base, rule)).certificate
    cost = back.regret_bound - alone.regret_bound
    assert back.sharpen().regret_bound == pytest.approx(alone.sharpen().regret_bound + cost)
    copies = lr.AverageRestart(base, MATCHING, 0, 64, 1000, rule=rule).certificate
    share = copies.regret_bound / alone.regret_bound
    assert copies.sharpen().regret_bound == pytest.approx(share * alone.sharpen().regret_bound)
    assert copies.limit is None
    guard = lr.Guard(MATCHING, 64, rule=rule)
    guard.restart()
    assert guard.certificate.sharpen() == guard.certificate
    for certificate in (copies, guard.certificate):
        with pytest.raises(ValueError, match="speaks of whole episodes only"):
            certificate.interval(1, 10)


# Written down and read back

EARLY = json.loads(
    '{"format": 1, "made_for": {"horizon": 20, "temperature": 0.22360679774997896, "delta": 0.05, "gate": 0.5, "rule": '
    '"ExactTest", "utility": [[1.0, 0.0], [0.0, 1.0]], "fallback": ["PolyaUrn", {"n_states": 2, "prior": 1.0}], '
    '"batch_shape": []}, "arrays": ["numpy", "cpu"], "ledger": [[[[2.0, 3.0], 3], 3, 0, [0.1566346511553618, '
    "-0.4728197647383157, [1.4796986942120003, 1.5413550032316525, 0.9303488231611574, 0.4952507670458113, "
    "0.2539738098509094], false]], [-0.027180235261684227, 0.9728197647383157], [0.0, 1.0], 3, 1, 0, 0.0], "
    '"clock": 3, "events": [], "advised": null, "dtype": null}'
)  # what a guard with the first default wrote after the states 0, 1, 1 beside [0.9, 0.1]


def test_a_state_of_the_first_default_names_the_rule_that_loads_it() -> None:
    guard = lr.Guard(MATCHING, 20)
    before = through_json(guard)
    with pytest.raises(ValueError, match="differs in: ") as refused:
        guard.load_state_dict(EARLY)
    assert 'rule=ExactTest(..., gate=0.5, against="fallback", starts="first") loads it' in str(refused.value)
    assert through_json(guard) == before
    taken, run = (lr.Guard(MATCHING, 20, rule=FirstTest(MATCHING, 20)) for _ in range(2))
    taken.load_state_dict(EARLY)
    for state in (0, 1, 1):
        run.advise([0.9, 0.1])
        run.observe(Positions(state), action=run.act(seed=0))
    assert through_json(taken) == through_json(run)
    other = lr.Guard(MATCHING, 20, rule=FirstTest(MATCHING, 20, gate=0.25))
    with pytest.raises(ValueError, match=r"differs in: gate \(0\.5 against 0\.25\)$"):
        other.load_state_dict(EARLY)


def test_a_later_state_is_not_taken_for_an_early_one() -> None:
    """Settings that are missing are only supplied where the state is that old in all respects."""
    state = through_json(lr.Guard(MATCHING, 20, rule=FirstTest(MATCHING, 20)))
    for part in (["says"], ["against"], ["against", "starts"]):
        garbled = copy.deepcopy(state)
        for name in part:
            (garbled if name == "says" else garbled["made_for"]).pop(name)
        with pytest.raises(ValueError, match="state_dict"):
            lr.Guard(MATCHING, 20, rule=FirstTest(MATCHING, 20)).load_state_dict(garbled)


RULES: dict[str, Any] = {
    "default": lambda: lr.ExactTest(MATCHING, 30, delta=0.1),
    "gated": lambda: lr.ExactTest(MATCHING, 30, delta=0.1, gate=0.3, fallback=lr.Minimax(MATCHING, 30)),
    "first start": lambda: lr.ExactTest(MATCHING, 30, delta=0.1, starts="first", fallback=lr.PolyaUrn(2)),
    "unknown": lambda: lr.ExactTest(lr.rock_paper_scissors(), None, delta=0.1),
    "against the fallback": lambda: lr.ExactTest(MATCHING, 30, delta=0.1, against="fallback"),
}


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", RULES)
def test_a_guard_resumes_in_the_middle(name: str, kind: str) -> None:
    """From JSON and from a pickle, before and after its alarm: bit for bit."""
    rule, T = RULES[name](), 24
    rng, S = np.random.default_rng(1), rule.n_states
    tokens = np.where(rng.random((T, 3)) < np.where(np.arange(T) < 6, 0.9, 0.1)[:, None], 0, 1)
    law = np.full((3, S), 0.1 / (S - 1))
    law[:, 0] = 0.9
    probs: Any = law if kind == "numpy" else torch.tensor(law)
    guards = [lr.Guard(rule.problem, rule.horizon, rule=rule, batch_shape=(3,)) for _ in range(2)]
    for t in range(T):
        state = through_json(guards[0])
        resumed = lr.Guard(rule.problem, rule.horizon, rule=RULES[name](), batch_shape=(3,))
        resumed.load_state_dict(state)
        guards = [guards[0], resumed, pickle.loads(pickle.dumps(guards[1]))]
        for guard in guards:
            guard.advise(probs)
            guard.observe(Positions(tokens[t] if kind == "numpy" else torch.tensor(tokens[t])))
        states = [through_json(guard) for guard in guards]
        assert states[0] == states[1] == states[2]
    assert len(guards[0].events) >= 1
    assert guards[0].events == guards[1].events == guards[2].events


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
    assert lr.ExactTest(MATCHING, 30) == lr.ExactTest(MATCHING, 30, gate=0, starts="every", against="actions")
    assert lr.ExactTest(MATCHING, 30) != lr.ExactTest(MATCHING, 30, fallback=lr.Recovery(budget=0.4))
    assert FirstTest(MATCHING, 30) == lr.ExactTest(MATCHING, 30, gate=0.5, against="fallback", starts="first")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"against": "urn"}, "against must be .actions. or .fallback., got 'urn'"),
        ({"starts": "all"}, "starts must be .every. or .first., got 'all'"),
        ({"gate": -1}, "gate"),
        ({"delta": 1.0}, "delta"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": "certificate", "against": "fallback"}, "temperature=.certificate. needs"),
        ({"against": "fallback", "fallback": lr.Recovery()}, "bets on how the fallback differs"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        lr.ExactTest(MATCHING, 30, **settings)
