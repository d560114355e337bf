"""The numbers of the every-start theorem: kappa against searches, certificates against known ones, bounds in play."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import lowregret as lr
from lowregret.certificates import coupled, every_start, switching
from lowregret.evaluate.adversaries import all_sequences

from ..literal_theorem import by_prefix, chance_of, some_forecasts, some_game

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
RNG = np.random.default_rng(0)
GAMES = [
    MATCHING,
    RPS,
    lr.matching(4),
    lr.cost_loss(1, 4),
    lr.newsvendor([0, 1, 2, 3], 5, 3),
    *(lr.DecisionProblem(RNG.uniform(-1, 1, shape)) for shape in ((2, 5), (3, 2), (4, 3), (5, 5))),
]


def charge(problem: lr.DecisionProblem, law_S: np.ndarray, rate: float, temperature: float) -> float:
    """max over actions of ln E_p exp(rate (U(a) - U(pi))), pi the quantal response to p: the definition."""
    pi = problem.quantal_response(law_S, temperature)
    x_AxS = problem.utility - pi @ problem.utility
    return float(np.log(np.exp(rate * x_AxS) @ law_S).max())


def climbed(problem: lr.DecisionProblem, rate: float, temperature: float, rng: np.random.Generator) -> float:
    """The largest charge that random search, and then ever smaller steps, find."""
    laws = rng.dirichlet(np.full(problem.n_states, 0.7), 200)
    laws = np.concatenate([laws, np.eye(problem.n_states)])
    values = [charge(problem, law, rate, temperature) for law in laws]
    law, best = laws[int(np.argmax(values))], max(values)
    size = 0.5
    for i in range(400):
        other = np.abs(law + size * rng.normal(size=len(law)) * rng.choice([law, np.ones(len(law))]))
        other /= other.sum()
        value = charge(problem, other, rate, temperature)
        if value > best:
            law, best = other, value
        elif i % 8 == 7:
            size *= 0.75
    return best


def test_kappa_is_the_maximum_it_is_defined_as() -> None:
    share = np.concatenate([np.geomspace(1e-9, 0.5, 200_000), 1 - np.geomspace(1e-12, 0.5, 200_000)])
    for problem in (MATCHING, RPS, lr.matching(7)):
        A, R = problem.n_actions, problem.contrast
        for rate, warmth in ((0.01, 0.5), (0.2, 1 / 32), (2.0, 1 / 32), (4.0, 1e-3), (1e-6, 1.0), (1e3, 1e-2)):
            g = share * (np.log1p(-share) - np.log(share) + math.log(A - 1)) + rate * R**2 / (8 * warmth) * share**2
            found = rate * warmth * g.max()
            bound = float(coupled.kappa(problem, rate, warmth))
            assert found * (1 - 1e-13) <= bound <= found * (1 + 1e-8)


def test_no_law_of_any_problem_is_charged_more_than_kappa() -> None:
    rng = np.random.default_rng(1)
    closest = 1.0
    for i in range(27):
        problem = GAMES[i % len(GAMES)]
        rate, warmth = math.exp(rng.uniform(-3, 1)) / problem.span, math.exp(rng.uniform(-4, 0))
        bound = float(coupled.kappa(problem, rate, warmth))
        found = climbed(problem, rate, warmth, rng)
        assert found <= bound
        closest = min(closest, bound - found)
    assert closest < 1e-4


def test_kappa_of_arrays_and_of_nothing_at_stake() -> None:
    rates, warmth = np.array([0.1, 0.5]), np.array([[0.1], [0.2], [0.3]])
    table = coupled.kappa(RPS, rates, warmth)
    assert table.shape == (3, 2)
    assert table[2, 1] == coupled.kappa(RPS, 0.5, 0.3)
    assert coupled.kappa(lr.DecisionProblem([[0.2, 0.7]]), 0.5, 0.3) == 0
    assert coupled.kappa(lr.DecisionProblem([[0.2, 0.7], [0.2, 0.7]]), 0.5, 0.3) == 0
    apart = lr.DecisionProblem([[0.2, 0.7], [0.1, 0.6]])  # no randomness in the gain, only the quantal loss
    assert climbed(apart, 2.0, 0.1, np.random.default_rng(0)) <= coupled.kappa(apart, 2.0, 0.1)
    assert coupled.free_rate_bound(apart, 10, 0.1, 5.0) == pytest.approx(10 * 0.1 * 0.2784645, rel=1e-6)
    with pytest.raises(ValueError, match="temperature must be positive"):
        coupled.kappa(RPS, 0.1, -1.0)
    with pytest.raises(ValueError, match="or 0 at every step"):
        coupled.kappa(RPS, 0.1, [0.0, 0.1])  # some steps by best response, some not


@pytest.mark.parametrize("problem", GAMES)
def test_the_free_rate_is_the_best_one(problem: lr.DecisionProblem) -> None:
    for steps, warmth, cost in ((24, 0.2, 4.0), (1024, 1 / 32, 7.2), (1024, 1e-3, 7.2), (10, 2.0, 1.0)):

        def bound(x: float, steps: int = steps, warmth: float = warmth, cost: float = cost) -> float:
            return float((steps * coupled.kappa(problem, math.exp(x), warmth) + cost) / math.exp(x))

        best = minimize_scalar(bound, bounds=(-15, 15), method="bounded", options={"xatol": 1e-10})
        assert float(coupled.free_rate_bound(problem, steps, warmth, cost)) == pytest.approx(best.fun, rel=1e-9)
        rate = coupled.main_rate(problem, steps, warmth, cost)
        assert bound(math.log(rate)) == pytest.approx(best.fun, rel=1e-9)
    # Where the exponential of Lambert's argument is far beyond any float.
    cold = float(coupled.free_rate_bound(problem, 1000, 1e-5, 10.0))
    assert problem.contrast * math.sqrt(5000) * 0.99 < cold < problem.contrast * math.sqrt(5000)


@pytest.mark.parametrize("problem", [MATCHING, RPS, lr.matching(700)])
def test_charges_of_a_schedule_are_summed_from_above_wherever_it_ends(problem: lr.DecisionProblem) -> None:
    rates, steps = np.array([1.5, 0.01]), np.arange(1, 60_001)
    warmth = problem.anytime_temperature(steps)
    exact = np.cumsum(coupled.kappa(problem, rates, warmth[:, None]), axis=0)
    # The kappa of the mean temperature is no bound: convexity goes the other way.
    assert (1000 * coupled.kappa(problem, rates, warmth[:1000].mean()) < exact[999]).all()
    for T in (1, 2, 511, 512, 513, 7000, 60_000):
        at = np.unique(np.geomspace(1, T, 40).astype(int))
        assert (coupled.charges(problem, rates, T, None)(np.array([0])) == 0).all()
        found = coupled.charges(problem, rates, T, None)(at)
        assert (found >= exact[at - 1] * (1 - 1e-12)).all()
        assert (found <= exact[at - 1] * (1 + 1e-5)).all()


def test_roots_are_summed_to_all_digits() -> None:
    exact = np.cumsum(np.arange(1, 100_001.0).astype(np.longdouble) ** -0.5)
    at = np.array([1, 2, 511, 512, 513, 5000, 100_000])
    np.testing.assert_allclose(coupled.summed_roots(at), exact[at - 1].astype(np.float64), rtol=1e-15)


def test_the_sharp_threshold_on_the_gap() -> None:
    T, warmth = 1024, 1 / 32
    urn = lr.PolyaUrn(2).regret_bound(MATCHING, T, warmth)
    assert urn is not None
    rates = lr.certificates.lambda_grid(1.0, lr.certificates.n_rates(T, 1 / T))
    mixture = float(coupled.gap_threshold_mixture(MATCHING, T, T, warmth, 1.0, rates))
    assert mixture / T == pytest.approx(0.0786, abs=1e-4)
    assert urn + (mixture + 1) / T == pytest.approx(0.1266, abs=1.1e-4)
    wealth = np.log(np.mean(np.exp(rates * mixture - T * coupled.kappa(MATCHING, rates, warmth))))
    assert math.log(T) <= wealth < math.log(T) + 1e-6
    many = coupled.gap_threshold_mixture(MATCHING, T, np.arange(1, T + 1), warmth, 1.0, rates)
    assert many[-1] == mixture
    assert (np.diff(many) > 0).all()


def test_what_intervals_are_charged() -> None:
    prior = every_start.joint_prior(MATCHING, 100, delta=0.02)
    within = partial(switching.interval, MATCHING, prior, 0.02, 0.1, 1)
    whole = within(1, 100)
    charges, costs_K = coupled.charges(MATCHING, prior.rates_K, 100, 0.1), prior.log_costs_K(0.02)
    before = every_start.before_alarm(charges, prior.rates_K, costs_K, 1.0, np.arange(101))
    assert whole == pytest.approx(before[100], rel=1e-12)
    assert within(1, 51) < within(50, 100)  # a late start had less of the prior
    assert within(99, 100) == 2  # no more than two steps can cost


class Literal(NamedTuple):
    """The theorem's rule, written out, on N sequences."""

    alarm_N: np.ndarray  # the step of the first alarm, T + 1 for never
    sums_NxTxA: np.ndarray  # what each action has gained before the first step, after it, and so on


def literal(problem: lr.DecisionProblem, prior: every_start.Prior, delta: float, laws_NxTxS: np.ndarray,
            states_NxT: np.ndarray, warmth: float) -> Literal:  # fmt: skip
    """Bets on every action against the response, charged psi+; at a temperature of 0 the best response."""
    (N, T), U, K = states_NxT.shape, problem.utility, len(prior.rates_K)
    plays = problem.quantal_response(laws_NxTxS, warmth) if warmth else np.eye(len(U))[(laws_NxTxS @ U.T).argmax(-1)]
    x_NxTxAxS = U - (plays @ U)[:, :, None, :]
    gain_NxTxA = np.take_along_axis(x_NxTxAxS, states_NxT[:, :, None, None], axis=-1)[..., 0]
    chance_NxT = np.take_along_axis(laws_NxTxS, states_NxT[..., None], axis=-1)[..., 0]
    wealth, unspent, alarm_N = np.zeros((N, len(U), K)), 1.0, np.full(N, T + 1)
    for t in range(T):
        fresh_K = prior.weights_K(t + 1)
        unspent -= fresh_K.sum() * len(U)
        psi = np.log(
            np.einsum("naks,ns->nak", np.exp(prior.rates_K[:, None] * x_NxTxAxS[:, t, :, None]), laws_NxTxS[:, t])
        )
        wealth = (wealth + fresh_K) * np.exp(prior.rates_K * gain_NxTxA[:, t, :, None] - np.maximum(psi, 0))
        has_alarm_N = (wealth.sum(axis=(1, 2)) + unspent >= 1 / delta) | (chance_NxT[:, t] == 0)
        alarm_N = np.where((alarm_N > T) & has_alarm_N, t + 1, alarm_N)
    return Literal(alarm_N, np.pad(gain_NxTxA.cumsum(axis=1), ((0, 0), (1, 0), (0, 0))))


def share_used(run: Literal, bound_of: Callable[[int, int], float], starts: Iterable[int]) -> float:
    """Statement (ii): of what is promised over any steps before an alarm, the largest share that was used."""
    used, T = 0.0, run.sums_NxTxA.shape[1] - 1
    for start in starts:
        for end in range(start, T + 1):
            gained = run.sums_NxTxA[run.alarm_N > end]
            most, bound = (gained[:, end] - gained[:, start - 1]).max(initial=-1e300), bound_of(start, end)
            assert most <= bound + 1e-12
            used = max(used, most / bound)
    return used


@pytest.mark.parametrize(("warmth", "least"), [(0.0, 0.9), (0.3, 0.5)])
def test_every_sequence_of_small_problems_is_within_the_bounds(warmth: float, least: float) -> None:
    """A base with a law for every prefix: chance of an alarm, every interval before it, both by all sequences."""
    rng, used, alarms = np.random.default_rng([5, 0]), 0.0, 0.0
    for i in range(6):
        problem = some_game(rng, 3, 2 + i % 2) if i > 1 else MATCHING
        S, T, delta = problem.n_states, 7 if problem.n_states == 2 else 5, float(rng.choice([0.2, 0.6, 0.9]))
        prior = every_start.joint_prior(problem, T, delta, warmth)
        tables = [some_forecasts(rng, (S**t,), S) for t in range(T)]
        if i == 0:
            tables = [np.full((S**t, S), 0.5) for t in range(T)]  # ties throughout
        states = all_sequences(S, T)
        laws = by_prefix(tables, states)
        run = literal(problem, prior, delta, laws, states, warmth)
        chance = float(chance_of(laws, states) @ (run.alarm_N <= T))
        assert chance <= delta + 1e-12
        alarms = max(alarms, chance / delta)
        test = problem, prior, delta, warmth, 1
        used = max(used, share_used(run, partial(switching.interval, *test), range(1, T + 1)))
    assert used > least
    assert alarms > 0.1


@pytest.mark.parametrize(
    "problem", [MATCHING, RPS, lr.DecisionProblem(np.random.default_rng(4).uniform(-1, 1, (3, 2)))]
)
def test_no_long_sequence_breaks_the_bounds_before_an_alarm(problem: lr.DecisionProblem) -> None:
    """Those that hurt the response."""
    T, delta, warmth = 40, 0.2, 0.15
    rng = np.random.default_rng(2)
    prior = every_start.joint_prior(problem, T, delta, warmth, top=4.0)
    laws = rng.dirichlet(np.full(problem.n_states, 0.5), (600, T))
    laws[::2] = laws[::2, :1]  # half of the bases say the same all the time
    hurt = (problem.quantal_response(laws, warmth) @ problem.utility).argmin(axis=-1)
    states = np.where(rng.random((600, T)) < 0.8, hurt, rng.integers(problem.n_states, size=(600, T)))
    run = literal(problem, prior, delta, laws, states, warmth)
    assert (run.alarm_N <= T).any()
    bound_of = partial(switching.interval, problem, prior, delta, warmth, 1)
    assert share_used(run, bound_of, [1]) > 0.5  # the search gets near
    share_used(run, bound_of, (2, 10, 30))


def test_what_a_fallback_with_its_history_may_cost() -> None:
    """Hedge and the urn with the whole history, after a first part against a base that is always wrong: no more."""
    T, tau, warmth, rate = 60, 21, 60**-0.5, 0.3
    tokens = np.stack([np.random.default_rng(s).integers(2, size=T) for s in range(200)])
    tokens[::2, :tau] = 1
    tokens[::4, tau:] = 0
    base = MATCHING.quantal_response(np.array([0.9, 0.1]), warmth)
    urn = lr.PolyaUrn(2)
    urn_total = urn.regret_bound(MATCHING, T, warmth)
    assert urn_total is not None
    for play, after in (
        (lr.policies.Hedge(MATCHING, T, rate), every_start.hedge_after(MATCHING, rate, T - tau)),
        (lr.policies.Respond(urn, MATCHING, warmth), every_start.urn_after(MATCHING, T, warmth, 1.0, T - tau)),
    ):
        played = np.array(play.policy_sequence(tokens))
        played[:, :tau] = base
        earned = np.take_along_axis(played, tokens[..., None], axis=-1)[..., 0]
        counts = np.stack([(tokens == a).cumsum(axis=1) for a in (0, 1)], axis=-1)
        before = (counts[:, tau - 1] - earned[:, :tau].sum(axis=1, keepdims=True)).max(axis=1)
        total = (counts[:, -1] - earned.sum(axis=1, keepdims=True)).max(axis=1)
        assert (total <= np.maximum(before, 0) + after).all()
