"""One false alarm in N steps, and every interval: by all sequences, and by an adversary that hurts."""

import json
import math
from itertools import product

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import ForEver, best_response

from ..literal_theorem import by_prefix, chance_of, some_game, some_laws
from .literal_for_ever import hurting, matching_or_rps, run

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_alarms_are_as_rare_as_they_say_by_all_sequences(seed: int, pairs: bool) -> None:
    """Small N, so that alarms come, and come again: how many on average, and how likely the first is by each step."""
    rng, nearest = np.random.default_rng(seed), 0.0
    for i in range(3):
        problem = some_game(rng, 3, 2) if i else MATCHING
        T, every = 9, int(rng.integers(2, 6))
        made = ForEver(problem, every, hold=2, head_start=float(rng.choice([0.01, 0.3])))
        states = np.array(list(product(range(2), repeat=T)))
        tables = [some_laws(rng, (2**t,), 2) if i else np.full((2**t, 2), 0.5) for t in range(T)]
        laws = by_prefix(tables, states)
        chance = chance_of(laws, states)
        runs = [run(made, laws[n], states[n], pairs) for n in range(len(states))]
        for t in range(1, T + 1):
            mean = sum(p * sum(a <= t for a in r.alarms) for p, r in zip(chance, runs, strict=True))
            first = sum(p for p, r in zip(chance, runs, strict=True) if r.alarms and r.alarms[0] <= t)
            assert mean <= made.expected_alarms(t) + 1e-12
            assert first <= made.chance_within(t) + 1e-12
            nearest = max(nearest, mean / made.expected_alarms(t))
    assert nearest > 0.1


@pytest.mark.parametrize("which", [0, 1])
def test_no_interval_loses_more_whatever_alarms_are_in_it(which: int) -> None:
    problem, T = matching_or_rps(which), 900
    made = ForEver(problem, 400, hold=40)
    found, _ = hurting(made, T, np.random.default_rng(which))
    assert len(found.alarms) >= 3
    total_TxA = np.concatenate([np.zeros((1, problem.n_actions)), found.lead_TxC.cumsum(axis=0)])
    alarms_T = np.cumsum([0] + [t in found.alarms for t in range(1, T + 1)])
    used = 0.0
    for length in (1, 5, 20, 50, 100, 200, 400, 900):
        for start in range(T - length + 1):
            lost = (total_TxA[start + length] - total_TxA[start]).max()
            bound = made.within(length, alarms=int(alarms_T[start + length] - alarms_T[start]))
            assert lost <= bound + 1e-9
            used = max(used, lost / bound if length >= 100 else 0)
    assert used > 0.35


def test_a_stretch_without_an_alarm_is_bounded_from_its_own_start() -> None:
    """While the bettors run: B of every length, and an adversary that goes right up to the alarm comes near."""
    made = ForEver(MATCHING, 1000, hold=2)
    laws, states = np.full((120, 2), 0.5), np.ones(120, dtype=int)
    for t in range(120):  # the other state where one more would alarm
        if run(made, laws[: t + 1], states[: t + 1]).alarms:
            states[t] = 0
    found = run(made, laws, states)
    assert not found.alarms
    lead = np.append(0.0, found.lead_TxC[:, 1].cumsum())
    for i, j in product(range(len(lead)), repeat=2):
        if i < j:
            assert lead[j] - lead[i] <= made.monitored(np.array([j - i]))[0] + 1e-9
    assert lead.max() > 0.6 * made.monitored(np.array([int(lead.argmax())]))[0]


def test_the_bound_is_its_formula() -> None:
    made = ForEver(RPS, 5000, hold=64, share=0.5)
    K, J = len(made.rates_K), RPS.span
    m = 0.5 / (3 * K)
    np.testing.assert_allclose(made.rates_K[1:] * 2, made.rates_K[:-1])
    kappa_K = best_response.kappa(RPS, made.rates_K)
    phi = J * math.sqrt(64 * (math.log(3 * 64) + 1) / 2)
    for length, alarms in ((10, 0), (700, 0), (4000, 3), (2000, 1)):
        left = length - alarms - max(alarms - 1, 0) * 64  # for the stretches
        each = min(left / (alarms + 1) * J, *((left / (alarms + 1) * kappa_K + math.log(5000 / m)) / made.rates_K))
        wanted = min(length * J, (alarms + 1) * (each + phi) + alarms * J)
        assert made.within(length, alarms=alarms) == pytest.approx(wanted)
        # No way to share the steps among the stretches is worse than the even one.
        cuts = np.random.default_rng(0).dirichlet(np.ones(alarms + 1), 200) * left
        most = made.monitored(cuts.ravel()).reshape(cuts.shape).sum(axis=1).max()
        assert most <= (alarms + 1) * each + 1e-9
    for length, alarms in ((700, 0), (4000, 3), (2000, 1)):
        assert made.within(length, alarms=alarms) <= made.in_closed_form(length, alarms)
    assert made.expected_alarms(50_000) == pytest.approx(10.01 / 0.99)
    assert made.chance_within(500) == pytest.approx(0.11)
    assert made.chance_within(10**6) == 1


def test_fixed_share_keeps_every_part_of_its_run() -> None:
    """Phi bounds what fixed share loses over any part of its H steps, against states that hurt at each."""
    for problem in (MATCHING, RPS):
        made = ForEver(problem, 100, hold=60)
        U, weights = problem.utility, np.ones(problem.n_actions) / problem.n_actions
        rng, leads = np.random.default_rng(1), []
        for t in range(60):
            state = int(np.argmax(U.max(axis=0) - weights @ U)) if t % 7 else int(rng.integers(problem.n_states))
            leads.append(U[:, state] - weights @ U[:, state])
            grown = weights * np.exp(made.hold_rate * U[:, state])
            weights = (1 - 1 / 60) * grown / grown.sum() + 1 / 60 / problem.n_actions
        total = np.concatenate([np.zeros((1, problem.n_actions)), np.cumsum(leads, axis=0)])
        worst = max((total[j] - total[i]).max() for i in range(60) for j in range(i + 1, 61))
        phi = problem.span * math.sqrt(60 * (math.log(60 * problem.n_actions) + 1) / 2)
        assert 0.2 * phi < worst <= phi


def test_what_it_says() -> None:
    made = ForEver(MATCHING, 10_000)
    assert "one false alarm in 10000 steps" in str(made)
    assert "no stretch of steps loses more than within(steps, alarms=...)" in str(made)
    assert json.loads(made.to_json())["false_alarm_every"] == 10_000
    other = ForEver(MATCHING, 10_000, hold=None)
    assert "of those with one nothing is said" in str(other)
    assert other.within(500) == other.monitored(np.array([500]))[0] < made.within(500)
    with pytest.raises(ValueError, match="where fixed share is played"):
        other.within(500, alarms=1)
    with pytest.raises(ValueError, match="hold_rate"):
        _ = other.hold_rate
    with pytest.raises(ValueError, match="every"):
        ForEver(MATCHING, 1)
    nothing = ForEver(lr.DecisionProblem([[0.5, 0.5], [0.5, 0.5]]), 100)
    assert nothing.within(1000) == 0
