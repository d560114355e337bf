"""The way back by one law for several problems: a plain loop, every sequence, adversaries, and what it earns."""

import math
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import adversaries
from lowregret.certificates import switching
from lowregret.rules import JointTest

from .. import literal_engine as literal
from ..conftest import random_markov, sweep
from .test_joint import DULL, READERS, TWO, prefix_laws

EAGER = lr.Recovery(memories=(3, 9), share=0.02, budget=0.2)  # its budget is spent within a few steps


class OneLaw:
    """The law after the alarm in plain loops: the literal mixture, a regret for each action of each problem, an urn."""

    def __init__(self, rule: JointTest) -> None:
        self.rule, recipe = rule, rule.fallback
        self.widest = max(rule.problems.values(), key=lambda problem: problem.span)
        made = self.widest.n_actions, rule.n_states, 1.0, rule.horizon, 0.1, np.ones(1), 1, 0, 0, 1, False, "Recovery"
        own = {name: getattr(recipe, name) for name in ("memories", "share")}
        self.mixture = literal.Mixture(literal.Settings(*made, **own))
        self.regret = {(n, a): 0.0 for n, p in rule.problems.items() for a in range(p.n_actions)}
        self.low, self.count, self.entries, self.exits = dict(self.regret), None, 0, 0

    def step(self, law: np.ndarray, state: int, late: bool, step: int) -> np.ndarray:
        """What it says before the state."""
        told = SimpleNamespace(forecast=law, references=None, acting=False, outcome=state)
        told.utility = lambda at: self.widest.utility[:, at]
        now = SimpleNamespace(told=told, late=False)  # the mixture only listens: the budget is kept here
        said = self.mixture.law(now) if self.count is None else self.count / self.count.sum()
        self.mixture.see(now, np.zeros(0))
        if not late:
            return said
        spent, won_back, T = False, True, step if self.rule.horizon is None else self.rule.horizon
        for name, problem in self.rule.problems.items():
            eta = self.rule.temperature_in(name)
            eta = float(problem.anytime_temperature(step)) if eta is None else eta
            own = literal.softmax(problem.utility @ said / eta) @ problem.utility[:, state]
            for a in range(problem.n_actions):
                self.regret[name, a] += problem.utility[a, state] - own
                self.low[name, a] = min(self.low[name, a], self.regret[name, a])
            if problem.span:
                rise = max(self.regret[name, a] - self.low[name, a] for a in range(problem.n_actions))
                limit = self.rule.fallback.budget * problem.span * np.sqrt(T)  # type: ignore[union-attr]
                spent, won_back = spent or rise >= limit, won_back and rise <= limit / 2
        if self.count is None and spent:
            self.count, self.entries = np.ones(self.rule.n_states), self.entries + 1
        elif self.count is not None and won_back:
            self.count, self.exits = None, self.exits + 1
        elif self.count is not None:
            self.count[state] += 1
        return said


def turning(rng: np.random.Generator, S: int, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws and states: right, then wrong, then right, then wrong."""
    laws = rng.dirichlet(np.full(S, 0.5), T)
    right = (np.arange(T) // 40) % 2 == 0
    states = [rng.choice(S, p=law) if ok else int(law.argmin()) for law, ok in zip(laws, right, strict=True)]
    return laws, np.array(states)


@pytest.mark.parametrize("recipe", [lr.Recovery(), EAGER], ids=["usual", "eager"])
@pytest.mark.parametrize("problems", [TWO, {**READERS, "dull": DULL}], ids=["two", "three"])
@pytest.mark.parametrize("horizon", [200, None])
def test_it_says_what_a_plain_loop_says(horizon: int | None, problems: Any, recipe: lr.Recovery) -> None:
    rule = JointTest(problems, horizon, delta=0.2, fallback=recipe)
    entries = exits = 0
    for seed in (0, 2, 4):
        laws, states = turning(np.random.default_rng(seed), rule.n_states, 200)
        said, (time,) = rule.replaced(laws[None], states[None])
        loop, memory = OneLaw(rule), rule.start()
        assert time < 100
        for t, (law, state) in enumerate(zip(laws, states.tolist(), strict=True)):
            want = loop.step(law, state, t >= time, t + 1)
            want = want if t >= time else law
            np.testing.assert_allclose(said[0, t], want, atol=1e-9)
            np.testing.assert_allclose(rule.law(memory, law), want, atol=1e-9)
            memory = rule.update(memory, law, np.array(state))
        share = 0.0 if loop.count is not None else loop.mixture.weights[0]
        assert rule.share(memory) == pytest.approx(share)
        entries, exits = entries + loop.entries, exits + loop.exits
    assert recipe is not EAGER or entries > 1
    assert (recipe, problems, horizon) != (EAGER, TWO, 200) or exits > 1


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize(("S", "T"), [(2, 8), (3, 5)])
def test_no_sequence_breaks_a_certificate(S: int, T: int, seed: int) -> None:
    """All S^T sequences, laws of their own for every prefix, budgets that are spent at once and later."""
    rng = np.random.default_rng((seed, S))
    tokens_NxT, used = np.array(list(product(range(S), repeat=T))), 0.0
    for budget in (0.05, 0.5):
        shapes = [(int(rng.integers(2, 4)), S) for _ in range(int(rng.integers(1, 3)))]
        problems = {str(i): lr.DecisionProblem(rng.choice([-1, 0, 0.3, 1], shape)) for i, shape in enumerate(shapes)}
        problems |= {"guess": lr.matching(S), "small": lr.DecisionProblem(lr.matching(S).utility / 30)}
        horizon = T if rng.random() < 0.7 else None
        back = lr.Recovery(memories=(2,), share=0.1, budget=budget)
        rule = JointTest(problems, horizon, delta=0.5, fallback=back)
        laws_NxTxS = prefix_laws(rng, S, T)
        said_NxTxS, times_N = rule.replaced(laws_NxTxS, tokens_NxT)
        assert (times_N <= T).any()
        for name, problem in problems.items():
            eta: Any = rule.temperature_in(name)
            eta = problem.anytime_temperature(np.arange(1, T + 1))[:, None] if eta is None else eta
            worth_NxTxA = said_NxTxS @ problem.utility.T / eta
            played_NxTxA = np.exp(worth_NxTxA - worth_NxTxA.max(axis=-1, keepdims=True))
            played_NxTxA /= played_NxTxA.sum(axis=-1, keepdims=True)
            paid_NxTxA = problem.utility.T[tokens_NxT]
            lead_NxTxA = paid_NxTxA - (played_NxTxA * paid_NxTxA).sum(axis=-1, keepdims=True)
            worst_T = np.cumsum(lead_NxTxA, axis=1).max(axis=(0, 2))
            for t in range(T):
                bound = (t + 1) * rule.certificate.for_problem(name).at(t + 1).regret_bound
                assert worst_T[t] <= bound + 1e-12
                used = max(used, worst_T[t] / bound if bound else 0.0)
    assert used > 0.3


@pytest.mark.parametrize("temperature", [None, 0.0], ids=["one law", "each"])
@pytest.mark.parametrize("seed", sweep(range(40), 4))
def test_no_sequence_after_an_alarm_loses_more_than_the_way_back_may(seed: int, temperature: float | None) -> None:
    """An alarm at the first step, by a state that was excluded; then all sequences, by the bound of what follows."""
    rng, T, used = np.random.default_rng(seed), 10, 0.0
    tokens_NxT = np.array([(1, *rest) for rest in product(range(2), repeat=T - 1)])
    laws_NxTxS = prefix_laws(rng, 2, T)[len(tokens_NxT) :]
    laws_NxTxS[:, 0] = [1.0, 0.0]
    for budget in (0.02, 0.3):
        back = lr.Recovery(memories=(2,), share=0.1, budget=budget)
        rule = JointTest(
            {**TWO, "dull": lr.DecisionProblem([[0.1, 0.2]] * 2)}, T, temperature=temperature, fallback=back
        )
        memory = rule.update(rule.start((len(tokens_NxT),)), laws_NxTxS[:, 0], tokens_NxT[:, 0])
        assert rule.tripped(memory).all()
        lead_NxP = np.zeros((len(tokens_NxT), rule.n_comparators))
        for t in range(1, T):
            moment = rule.look(memory, laws_NxTxS[:, t])
            lead_NxP += rule.leads(rule.answer(memory, moment), tokens_NxT[:, t]).T
            memory = rule.update(memory, laws_NxTxS[:, t], tokens_NxT[:, t])
            for name, rows in rule.rows.items():
                problem, eta = rule.problems[name], rule.temperature_in(name)
                bound = float(np.ravel(rule._recovers[name].regret_after(problem, T, eta)(np.array([t])))[0])
                worst = float(lead_NxP[:, rows].max())
                assert worst <= bound + 1e-12
                used = max(used, worst / bound if bound else 0.0)
    assert used > 0.4


@pytest.mark.parametrize("temperature", [None, 0.0])
@pytest.mark.parametrize("T", [60, 1000])
def test_each_certificate_is_its_formula(T: int, temperature: float | None) -> None:
    """T Reg <= max over alarms of B(tau - 1) + J + c J sqrt(T) + J + F(T - tau - ceil(c sqrt(T))), in each problem."""
    rule, tau_N = JointTest(TWO, T, delta=0.05, temperature=temperature), np.arange(1, T)
    budget = 0.5 * np.sqrt(T)
    for name, problem in TWO.items():
        J, eta = problem.span, rule.temperature_in(name)
        before = switching.before(problem, rule.priors[name], rule.delta, eta, 1, False, T)
        after_N = np.zeros(T - 1)
        for i, n in enumerate((T - tau_N).tolist()):
            safe_steps = max(n - math.ceil(budget), 0)
            if temperature is None:
                safe = safe_steps * lr.PolyaUrn(2).regret_bound(problem, safe_steps, eta) if safe_steps else 0.0
            else:  # Hedge over the actions and the model
                safe = J * min(safe_steps, 1 + math.sqrt(1 + safe_steps * math.log(problem.n_actions + 1)))
            after_N[i] = min(n * J, budget * J + J + safe)
        worst = max(before(np.array([T]))[0], (before(tau_N - 1) + J + after_N).max())
        given = rule.certificate.for_problem(name)
        assert worst <= given.regret_bound * T + 1e-9
        assert given.regret_bound * T <= 1.005 * worst  # knots half a percent apart


@pytest.mark.parametrize("seed", sweep(range(8), 1))
def test_no_adversary_breaks_a_certificate(seed: int) -> None:
    rng, T, used = np.random.default_rng(seed), 300, 0.0
    base = random_markov(rng, 2, 1)
    for budget in (0.05, 0.5):
        safe = lr.robustify(base, problems=TWO, horizon=T, fallback=lr.Recovery(budget=budget))  # type: ignore[call-overload]
        for name, problem in TWO.items():
            player, bound = safe.respond(name), safe.certificate.for_problem(name).regret_bound
            for found in (adversaries.greedy(player, problem, T), adversaries.beam(player, problem, T, width=8)):
                assert found.regret <= bound < problem.span
                used = max(used, found.regret / bound)
    assert used > 0.3


def test_a_model_that_comes_back_earns_more_than_the_urn() -> None:
    T, found = 600, {}
    for what, back in (("way back", lr.Recovery()), ("urn", lr.PolyaUrn(2))):
        rule = JointTest(TWO, T, fallback=back)  # type: ignore[arg-type]
        rng = np.random.default_rng(0)
        laws = np.where(rng.random((20, T))[..., None] < 0.5, [0.9, 0.1], [0.3, 0.7])
        wrong = (np.arange(T) >= 100) & (np.arange(T) < 250)
        came = (rng.random((20, T)) < np.where(wrong, laws[..., 0], laws[..., 1])).astype(int)
        said = rule.replaced(laws, came)[0]
        for name, problem in TWO.items():
            played = problem.quantal_response(said, rule.temperature_in(name))
            found[name, what] = float((played * problem.utility.T[came]).sum(axis=-1).mean() / problem.span)
    print("earned a step, in spans:", {key: round(value, 3) for key, value in found.items()})
    for name in TWO:
        assert found[name, "way back"] > found[name, "urn"] + 0.02


def test_a_guard_that_answers_laws_goes_by_the_same_one() -> None:
    laws, states = turning(np.random.default_rng(0), 2, 200)
    guard = lr.Guard(problems=TWO, horizon=200, temperature=0.1)
    said, (time,) = guard.rule.replaced(laws[None], states[None])
    for t, (law, state) in enumerate(zip(laws, states.tolist(), strict=True)):
        advice = guard.advise(law)
        np.testing.assert_allclose(advice.law, said[0, t], atol=1e-12)
        for name, problem in TWO.items():
            want = problem.quantal_response(said[0, t], 0.1 * problem.span)
            np.testing.assert_allclose(advice.policies[name], want, atol=1e-9)
        guard.observe(["calm", "event"][state])
    assert guard.events[0].step == time
    assert any(isinstance(event, lr.Return) and event.problem is None for event in guard.events)
    assert set(guard.shares.values()) == {guard.share}


def test_what_cannot_be_played_safe_by_is_refused() -> None:
    coin = lr.matching()
    with pytest.raises(ValueError, match="was made for another problem"):
        JointTest(TWO, 40, fallback=lr.Recovery(safe=lr.predictors.CoverLaw(coin, 40)))
    for problems in ({"guess": coin}, {"guess": coin, "again": coin}):  # what is played is the answer to a law
        for safe in (lr.policies.AdaHedge(coin), lr.policies.SecurityPlay(coin)):
            with pytest.raises(ValueError, match="must be a law that is left by regret"):
                JointTest(problems, 40, fallback=lr.Recovery(safe=safe))
            JointTest(problems, 40, delta=0.05, temperature=0.0, fallback=lr.Recovery(safe=safe))
    other = JointTest(TWO, 40, fallback=lr.Recovery(safe=lr.predictors.Scheduled([[0.5, 0.5]])))
    assert "is not known" in other.certificate.for_problem("guess").statement
