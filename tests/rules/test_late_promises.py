"""What late outcomes promise: the factor a_d, false alarms by enumeration and simulation, no certificate broken."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

import lowregret as lr
from lowregret.adversaries import all_sequences
from lowregret.certificates import coupled, late
from lowregret.rules import Late, late_rule

from ..late_worlds import arrivals, chain, chain_laws, laws_of, play
from ..literal_theorem import some_game, some_laws

MATCHING = lr.matching()


# The factor


@pytest.mark.parametrize("lag", [2, 3, 5, 10, 20, 50])
def test_the_factor_is_that_of_harmonic_means(lag: int) -> None:
    """1/E is a p-value: by what a harmonic mean of d of them must be multiplied is known in another closed form."""
    root = 0.0
    if lag > 2:  # y^2 = d ((y+1) ln(y+1) - y), and a = (y+d)^2 / ((y+1) d)
        root = optimize.brentq(lambda y: y * y - lag * ((y + 1) * math.log1p(y) - y), 1e-3, 1e3 * lag)
    assert coupled.late_factor(lag) == pytest.approx((root + lag) ** 2 / ((root + 1) * lag), rel=1e-7)


@pytest.mark.parametrize(("lag", "points"), [(2, 40), (3, 16)])
def test_no_dependence_between_classes_beats_the_factor(lag: int, points: int) -> None:
    """The worst joint law of M_1 .. M_d with P(M_r >= x) <= 1/x, by linear programming over a grid."""
    level = 10.0  # the average that must be reached
    grid = np.append(1.0, np.linspace(0.3 * level, lag * level, points - 1))
    cells = np.array(list(itertools.product(range(points), repeat=lag)))
    reached = grid[cells].mean(axis=1) >= level * (1 - 1e-12)
    rows = [(cells[:, r] >= i).astype(float) for r in range(lag) for i in range(1, points)]
    limits = [1 / grid[i] for _ in range(lag) for i in range(1, points)]
    found = optimize.linprog(-1.0 * reached, A_ub=np.array(rows), b_ub=limits, A_eq=np.ones((1, len(cells))), b_eq=[1])
    assert 0.9 * coupled.late_factor(lag) < -found.fun * level <= coupled.late_factor(lag) * (1 + 1e-9)


def test_the_plain_average_alarms_too_often() -> None:
    """W_1 = 3 with chance 1/3 is seen first; W_2 = 4 with chance 1/4 comes only where W_1 = 0: 7/12 against 1/2."""
    worlds = [(1 / 3, 3.0, 0.0), (1 / 4, 0.0, 4.0), (5 / 12, 0.0, 0.0)]
    assert sum(p * first for p, first, _ in worlds) == sum(p * second for p, _, second in worlds) == pytest.approx(1)
    delta = 1 / 2

    def alarms(level: float) -> float:
        return sum(p for p, first, second in worlds if max((first + 1) / 2, (first + second) / 2) >= level)

    assert alarms(1 / delta) == pytest.approx(7 / 12)
    assert alarms(coupled.late_factor(2) / delta) == 0


# False alarms


def alarms_in_some_order(rule: Late, probs: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Which sequences alarm in *some* order of arrival: the last outcome of every class may have come, or not yet."""
    each, N = rule.each, len(tokens)
    memories, now, before = [each.start((N,))] * rule.lag, np.zeros((rule.lag, N)), np.zeros((rule.lag, N))
    found = np.zeros(N, dtype=bool)
    for t in range(tokens.shape[1]):
        r = t % rule.lag
        memories[r] = each.update(memories[r], probs[:, t], tokens[:, t])
        before[r], now[r] = now[r], each.evidence(memories[r])[0]
        average = np.logaddexp.reduce(np.maximum(now, before), axis=0) - math.log(rule.lag)
        found |= average >= math.log(coupled.late_factor(rule.lag) / rule.delta)
    return found


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_all_markov_laws_by_enumeration(lag: int) -> None:
    """Every chain on a grid, all sequences of 9 steps: the exact chance of an alarm under true late laws."""
    T, delta, joints, probs = 9, 0.3, [], []
    plain = lr.ExactTest(MATCHING, T, delta=delta, temperature=0.1, fallback=lr.PolyaUrn(2))
    tokens, grid = all_sequences(2, T), (0.02, 0.3, 0.6, 0.9, 0.98)
    for first, stay0, stay1 in itertools.product((0.5, 0.1), grid[:-1], grid[1:]):
        step = np.array([[stay0, 1 - stay0], [1 - stay1, stay1]])
        moves = step[tokens[:, :-1], tokens[:, 1:]].prod(axis=1)
        joints.append(np.where(tokens[:, 0] == 0, first, 1 - first) * moves)
        probs.append(laws_of(joints[-1], 2, T, lag))
    every, laws = np.tile(tokens, (len(joints), 1)), np.concatenate(probs)
    alarms = plain.trip_times(laws, every) <= T
    alarms = alarms_in_some_order(late_rule(plain, lag), laws, every) if lag > 1 else alarms
    chances = (np.concatenate(joints) * alarms).reshape(len(joints), -1).sum(axis=1)
    assert 0 < chances.max() <= delta


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_any_joint_law_by_enumeration(lag: int) -> None:
    """Hill-climbed joint laws of 7 states, however dependent, all sequences, outcomes in the worst of orders."""
    T, delta, rng = 7, 0.8, np.random.default_rng(lag)
    plain = lr.ExactTest(MATCHING, T, delta=delta, temperature=0.05, fallback=lr.PolyaUrn(2))
    tokens = all_sequences(2, T)

    def alarms(joint: np.ndarray) -> float:
        probs = laws_of(joint, 2, T, lag)
        if lag > 1:
            return float(joint[alarms_in_some_order(late_rule(plain, lag), probs, tokens)].sum())
        return float(joint[plain.trip_times(probs, tokens) <= T].sum())

    joint = np.where((tokens == 1).all(axis=1), 1.0, 1e-3)  # sure of one sequence, nearly
    joint = max((joint / joint.sum(), rng.dirichlet(np.full(len(tokens), 0.05))), key=alarms)
    best = alarms(joint)
    for _ in range(60):
        trial = joint * np.exp(rng.normal(0, 1.5, len(joint)) * (rng.random(len(joint)) < 0.2)) + 1e-6
        trial /= trial.sum()
        found = alarms(trial)
        if found >= best:
            best, joint = found, trial
    assert 0.02 < best <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("lag", "stay"), [(1, 0.9), (2, 0.9), (5, 0.9), (7, 0.95), (14, 0.97), (28, 0.98)])
def test_true_late_laws_do_not_alarm(lag: int, stay: float) -> None:
    """300 runs: the chance of a count this high at the promised rate would be below 1e-5; the plain product breaks."""
    T, N, delta = 196, 300, 0.01
    tokens = chain(stay, N, T, np.random.default_rng(lag))
    probs = chain_laws(tokens, stay, lag)
    plain = lr.ExactTest(MATCHING, T, delta=delta)
    rule = late_rule(plain, lag) if lag > 1 else plain
    assert stats.binom.sf(int((rule.trip_times(probs, tokens) <= T).sum()) - 1, N, delta) > 1e-5
    if lag > 2:  # as if each state were known before the next law
        assert stats.binom.sf(int((plain.trip_times(probs, tokens) <= T).sum()) - 1, N, delta) < 1e-9


def test_the_plain_product_at_a_lag_of_five() -> None:
    """It switches falsely in about two thirds of runs of 700 steps: 300 of them agree within an error of 1e-5."""
    tokens = chain(0.9, 300, 700, np.random.default_rng(5))
    alarms = lr.ExactTest(MATCHING, 700, delta=0.01).trip_times(chain_laws(tokens, 0.9, 5), tokens) <= 700
    assert stats.binomtest(int(alarms.sum()), 300, 0.66).pvalue > 1e-5


# Regret


@pytest.mark.parametrize("lag", [2, 3])
def test_no_sequence_breaks_the_certificate(lag: int) -> None:
    """All sequences of 9 steps against sharp laws, in orders of arrival from at once to as late as can be."""
    rng, T, used, switched = np.random.default_rng(lag), 9, [], 0
    tokens = all_sequences(2, T)
    for i in range(8):
        problem = MATCHING if i < 4 else some_game(rng, 3, 2)
        fallback = (None, lr.PolyaUrn(2), lr.policies.Hedge(problem, T))[i % 3]
        rule = lr.ExactTest(problem, T, delta=0.9, temperature=0.3, fallback=fallback)
        laws = some_laws(rng, (T,), problem.n_states, zeros=False)
        laws[:] = laws if i % 2 else [0.97, 0.03]
        guard = lr.Guard(problem, T, rule=rule, lag=lag, batch_shape=(len(tokens),))
        play(guard, np.repeat(laws[:, None], len(tokens), axis=1), tokens.T, arrivals(T, lag, rng, at_once=i % 4 > 1))
        used.append(float((guard.regret / sum(guard.certificate.terms.values())).max()))  # not capped at the span
        switched += int(guard.switched.sum())
    assert switched > 500
    assert 0.4 < max(used) <= 1


@pytest.mark.parametrize("lag", [2, 3])
def test_no_search_breaks_the_certificate(lag: int) -> None:
    """64 sequences of 24 steps and as many bases, changed at random towards more regret."""
    T, N, rng, best = 24, 64, np.random.default_rng(lag), np.zeros(64)
    rule = lr.ExactTest(MATCHING, T, delta=0.5)
    laws = np.where(rng.random((T, N, 1)) < 0.7, [0.97, 0.03], [0.6, 0.4])
    tokens = (rng.random((T, N)) < np.linspace(0.4, 1, N)).astype(np.int64)
    late_as_can_be = arrivals(T, lag, rng)
    for _ in range(8):
        some = rng.random((T, N)) < 0.08
        trial_tokens = np.where(some, 1 - tokens, tokens)
        trial_laws = np.where((rng.random((T, N)) < 0.05)[..., None], laws[..., ::-1], laws)
        guard = lr.Guard(MATCHING, T, rule=rule, lag=lag, batch_shape=(N,))
        play(guard, trial_laws, trial_tokens, late_as_can_be)
        better = guard.regret >= best
        best = np.where(better, guard.regret, best)
        tokens, laws = np.where(better, trial_tokens, tokens), np.where(better[:, None], trial_laws, laws)
    assert guard.switched.any()
    assert 0.4 < best.max() / guard.certificate.regret_bound <= 1


@pytest.mark.parametrize("lag", [2, 3])
def test_no_interval_before_an_alarm_is_bad(lag: int) -> None:
    """Every start and end before the alarm, over 300 sequences that hurt sharp laws."""
    rng, T, N = np.random.default_rng(lag), 30, 300
    rule = late_rule(lr.ExactTest(MATCHING, T, delta=0.5), lag)
    laws = some_laws(rng, (N, T), 2, zeros=False)
    pi = MATCHING.quantal_response(laws, rule.each.temperature)
    tokens = np.where(rng.random((N, T)) < 0.9, pi.argmin(axis=-1), rng.integers(2, size=(N, T)))
    trips = rule.trip_times(laws, tokens)
    gains = (np.arange(2) == tokens[..., None]) - np.take_along_axis(pi, tokens[..., None], -1)
    sums = np.concatenate([np.zeros((N, 1, 2)), np.cumsum(gains, axis=1)], axis=1)
    used = 0.0
    for start, end in itertools.combinations_with_replacement(range(1, T + 1), 2):
        quiet = trips > end
        if quiet.any():
            most = (sums[quiet, end] - sums[quiet, start - 1]).max()
            used = max(used, float(most) / rule.certificate.interval(start, end)) if end - start > 8 else used
            assert most <= rule.certificate.interval(start, end) * (1 + 1e-12)
    assert used > 0.5


def test_what_is_dealt_out_and_made_concave() -> None:
    each = np.array([0.0, 3.0, 4.0])
    assert late.dealt(each.__getitem__, 2, 2, np.arange(5)).tolist() == [0, 3, 6, 7, 8]
    for seed in range(20):
        values = np.random.default_rng(seed).uniform(0, 1, 12).cumsum()
        found = late.concave(values.__getitem__, 11)(np.arange(12))
        chords = [
            max(
                values[i] if i == j else values[i] + (values[j] - values[i]) * (n - i) / (j - i)
                for i in range(n + 1)
                for j in range(n, 12)
                if i < j or i == n
            )
            for n in range(12)
        ]
        np.testing.assert_allclose(found, chords, rtol=1e-12)


def test_the_certificate_is_the_notes_formula_or_sharper() -> None:
    """B_d(tau-1) + d J + d F(ceil((T-tau-d+1)/d)) at its worst, where the lag divides the horizon."""
    for T, lag in ((120, 2), (120, 5), (1200, 3)):
        rule = late_rule(lr.ExactTest(MATCHING, T, delta=0.01), lag)
        each = rule.each
        kappa_K = coupled.kappa(MATCHING, each.rates_K, each.temperature)
        after = each.in_play.fallback.regret_after(MATCHING, T // lag, each.temperature)(np.arange(T // lag + 1))
        costs_K = each.bets.prior.log_costs_K(0.01) + math.log(coupled.late_factor(lag))  # type: ignore[union-attr]
        totals = [
            min(tau - 1, float(np.min(((tau - 1) * kappa_K + lag * costs_K) / each.rates_K)))
            + lag
            + lag * after[-(-max(T - tau - lag + 1, 0) // lag)]
            for tau in range(1, T + 1)
        ]
        assert rule.certificate.regret_bound * T == pytest.approx(max(totals), rel=0.03)
        assert rule.certificate.tv_bound == pytest.approx(0.01, rel=1e-12)
