"""What the every-start test promises: (i) false alarms, (ii) every interval, (iv) regret; by enumeration and search."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.adversaries import all_sequences

from ..conftest import random_markov, random_problem, sweep
from ..literal_theorem import by_prefix, chance_of, played_leads, regrets, some_game, some_laws, told, weights

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
LOPSIDED = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])


# (i)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("problem", "T"), [(MATCHING, 8), (LOPSIDED, 8), (RPS, 4)], ids=["matching", "lopsided", "rps"]
)
def test_no_base_raises_more_false_alarms_than_delta(problem: lr.DecisionProblem, T: int, known: bool) -> None:
    """A hill-climbed law for every prefix, all sequences: the exact chance of an alarm under the base's own law."""
    rng, S, delta = np.random.default_rng(0), problem.n_states, 0.3 if known else 0.6
    rule = lr.rules.ExactTest(problem, T if known else None, delta=delta, fallback=lr.PolyaUrn(S), temperature=0.1)
    tokens = all_sequences(S, T)

    def alarms(tables: list[np.ndarray]) -> float:
        probs = by_prefix(tables, tokens)
        return float(chance_of(probs, tokens)[rule.trip_times(probs, tokens) <= T].sum())

    grid = np.concatenate([rng.dirichlet(np.ones(S), 30), np.eye(S) * 0.94 + 0.06 / S, np.full((1, S), 1 / S)])
    steady = [[np.tile(law, (S**t, 1)) for t in range(T)] for law in grid]
    tables = max(steady, key=alarms)
    best = alarms(tables)
    for _ in range(160):
        t = int(rng.integers(T))
        trial = [table.copy() for table in tables]
        nodes = rng.random(S**t) < (1.0 if rng.random() < 0.3 else 0.3)
        step = rng.normal(0, rng.choice([0.02, 0.1, 0.3]), (S**t, S))
        moved = np.clip(trial[t] + np.where(nodes[:, None], step, 0.0), 1e-4, None)
        trial[t] = moved / moved.sum(-1, keepdims=True)
        found = alarms(trial)
        if found >= best:
            best, tables = found, trial
    assert best <= delta * (1 + 1e-12)
    assert best > 0.25 * delta  # a search that finds no alarms would show nothing


@pytest.mark.parametrize("seed", sweep(range(24), usual=6))
def test_false_alarms_of_sampled_sequences(seed: int) -> None:
    """4,000 sequences of a random game and model: the chance of a count this high would be below 1e-5."""
    rng, T, N = np.random.default_rng(100 + seed), 40, 4000
    problem = random_problem(rng, 4, 4)
    base = random_markov(rng, problem.n_states)
    delta = float(rng.choice([0.02, 0.1, 0.3]))
    tokens = lr.sample(base, T, N, seed=seed)
    probs = base.predict_sequence(tokens)
    for horizon in (T, None):
        rule = lr.rules.ExactTest(problem, horizon, delta=delta, fallback=lr.PolyaUrn(problem.n_states))
        count = int((rule.trip_times(probs, tokens) <= T).sum())
        assert stats.binom.sf(count - 1, N, delta) > 1e-5


# (ii)


@pytest.mark.parametrize("known", [True, False])
def test_no_interval_before_an_alarm_is_bad(known: bool) -> None:
    """Every start and end before the alarm, on sequences against sharp laws: the bound paid, and the certificate's."""
    rng, T, used = np.random.default_rng(5), 10, []
    for _ in range(8):
        problem = some_game(rng)
        rule = lr.rules.ExactTest(problem, T if known else None, delta=0.9, fallback=lr.PolyaUrn(problem.n_states))
        bound = np.full((T + 1, T + 1), math.inf)
        for end in range(1, T + 1):
            for start in range(1, end + 1):
                bound[start, end] = rule.certificate.interval(start, end)
        for _ in range(8):
            probs, tokens = some_laws(rng, (T,), problem.n_states), rng.integers(problem.n_states, size=T)
            one = told(rule, probs, tokens)
            for end in range(1, min(one.trip, T + 1)):
                for start in range(1, end + 1):
                    regret = one.gain_TxC[start - 1 : end].sum(axis=0).max()
                    paid_CxK = one.charge_TxCxK[start - 1 : end].sum(axis=0)
                    cost_K = -np.log(weights(rule, start) * rule.delta)
                    mine = ((paid_CxK + cost_K) / rule.rates_K).min(axis=1).max()
                    assert regret < mine + 1e-9
                    assert regret <= bound[start, end] + 1e-9
                    used.append(regret / bound[start, end])
    assert max(used) > 0.5


# (iv)

Fallback = Callable[[lr.DecisionProblem, int, float], Any]
FALLBACKS: dict[str, Fallback] = {
    "urn": lambda problem, T, eta: lr.PolyaUrn(problem.n_states),
    "urn, small prior": lambda problem, T, eta: lr.PolyaUrn(problem.n_states, prior=0.3),
    "urn, large prior": lambda problem, T, eta: lr.PolyaUrn(problem.n_states, prior=3.0),
    "Hedge": lambda problem, T, eta: lr.policies.Hedge(problem, T),
    "shrunk urn": lambda problem, T, eta: lr.predictors.ShrunkUrn(problem, T),
    "AdaHedge": lambda problem, T, eta: lr.policies.AdaHedge(problem),
    "fixed share": lambda problem, T, eta: lr.policies.FixedShare(problem, T),
    "recovery": lambda problem, T, eta: lr.policies.Recovery(memories=(3, 9), budget=0.3),
    "recovery, urn": lambda problem, T, eta: lr.policies.Recovery(budget=0.2, safe=lr.PolyaUrn(problem.n_states)),
    "recovery, AdaHedge": lambda problem, T, eta: lr.policies.Recovery(budget=0.2, safe=lr.policies.AdaHedge(problem)),
}


def may_fail(make: Fallback, problem: lr.DecisionProblem, T: int, eta: float) -> Any:
    """A fallback that is not for every problem; None there."""
    try:
        made = make(problem, T, eta)
        lr.rules.ExactTest(problem, T, fallback=made, temperature=eta)
    except ValueError:
        return None
    return made


@pytest.mark.parametrize("name", FALLBACKS)
def test_no_sequence_breaks_a_certificate(name: str) -> None:
    """All sequences beside laws of every prefix, at every step: the certificate there, and the sharp one at the end."""
    rng, tried, used = np.random.default_rng(7), 0, []
    games = [MATCHING, LOPSIDED, RPS, *(some_game(rng, 3) for _ in range(5))]
    for problem in games:
        S = problem.n_states
        T = int(rng.integers(7, 11)) if S == 2 else 5
        eta = float(rng.choice([0.05, 1 / math.sqrt(T), 0.8]))
        fallback = may_fail(FALLBACKS[name], problem, T, eta)
        if fallback is None:
            continue
        tried += 1
        rule = lr.rules.ExactTest(problem, T, delta=0.95, fallback=fallback, temperature=eta)
        bound_T = np.array([t * rule.certificate.at(t).regret_bound for t in range(1, T + 1)])
        sharp = rule.certificate.sharpen() if S == 2 else rule.certificate
        tokens = all_sequences(S, T)
        for _ in range(3):
            probs = by_prefix([some_laws(rng, (S**t,), S) for t in range(T)], tokens)
            regret_NxT, _ = regrets(rule, probs, tokens)
            assert (regret_NxT <= bound_T + 1e-9).all()
            assert regret_NxT[:, -1].max() <= T * sharp.regret_bound + 1e-9
            used.append((regret_NxT / bound_T).max())
    assert tried >= 2
    assert max(used) > 0.4


@pytest.mark.parametrize("name", ["urn", "AdaHedge", "recovery, urn", "recovery, AdaHedge"])
def test_nor_one_for_an_unknown_horizon(name: str) -> None:
    rng = np.random.default_rng(8)
    for problem, T in ((MATCHING, 10), (LOPSIDED, 9), (some_game(rng, 3, 2), 9), (RPS, 5)):
        rule = lr.rules.ExactTest(problem, None, delta=0.95, fallback=FALLBACKS[name](problem, T, 0.0))
        bound_T = np.array([t * rule.certificate.at(t).regret_bound for t in range(1, T + 1)])
        tokens, S = all_sequences(problem.n_states, T), problem.n_states
        probs = by_prefix([some_laws(rng, (S**t,), S) for t in range(T)], tokens)
        assert (regrets(rule, probs, tokens)[0] <= bound_T + 1e-9).all()


@pytest.mark.parametrize(
    ("problem", "name", "T"),
    [
        (MATCHING, "urn", 1000),
        (MATCHING, "recovery", 1000),
        (LOPSIDED, "recovery, AdaHedge", 300),
        (RPS, "AdaHedge", 300),
        (RPS, "recovery, urn", 200),
    ],
)
def test_nor_does_one_that_an_enemy_finds(problem: lr.DecisionProblem, name: str, T: int) -> None:
    """A beam over laws and tokens that would like all regrets to be large at once, or waits with the alarm."""
    S, width, eta = problem.n_states, 6, 1 / math.sqrt(T)
    rule = lr.rules.ExactTest(problem, T, delta=2 / T, fallback=FALLBACKS[name](problem, T, eta))
    J, U = problem.span, problem.utility
    sharp, even = np.eye(S) * 0.97 + 0.03 / S, np.full((1, S), 1 / S)
    laws = np.concatenate([sharp, even, 0.9 * even + 0.1 * sharp, 0.97 * even + 0.03 * sharp])
    choices = len(laws) * S
    probs, tokens = np.tile(np.repeat(laws, S, axis=0), (width, 1)), np.tile(np.arange(S), width * len(laws))
    memory, lead_NxA, bound = rule.start((width,)), np.zeros((width, len(U))), rule.certificate.regret_bound
    looks = {T // 3: rule.certificate.at(T // 3).regret_bound, T: bound}
    for t in range(1, T + 1):
        memory = lr.take(memory, np.repeat(np.arange(width), choices))
        moment = rule.look(memory, probs)
        lead_NxA = np.repeat(lead_NxA, choices, axis=0) + played_leads(rule, memory, moment, tokens, U)
        memory = rule.advance(memory, moment, tokens)
        if t in looks:
            assert lead_NxA.max() <= t * looks[t] + 1e-9
        spread = 0.6 * J * math.sqrt(T - t + 1)
        top = lead_NxA.max(axis=1)
        promise = top + spread * np.log(np.exp((lead_NxA - top[:, None]) / spread).mean(axis=1))
        # Half of the beam likes streams that have not tripped, which could still lose what the test lets pass.
        waiting = promise + J * math.sqrt(T) * (memory.tripped_at == 0)
        kept = np.concatenate([np.argsort(-promise)[: width // 2], np.argsort(-waiting)[: width - width // 2]])
        memory, lead_NxA = lr.take(memory, kept), lead_NxA[kept]
    assert lead_NxA.max() > 0.15 * T * bound


# The numbers


def test_the_way_back_is_certified() -> None:
    T = 1024
    assert lr.rules.ExactTest(MATCHING, T, delta=2 / T).certificate.regret_bound <= 0.095
