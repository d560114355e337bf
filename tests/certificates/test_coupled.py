"""The numbers of the every-start theorem: kappa against searches, certificates against known ones, bounds in play."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import lowregret as lr
from lowregret.certificates import coupled, every_start, switching

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


def within(
    problem: lr.DecisionProblem,
    start: int,
    end: int,
    warmth: float,
    prior: every_start.Prior,
    delta: float,
) -> float:
    return switching.interval(problem, prior, delta, warmth, 1, start, end)


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
    with pytest.raises(ValueError, match="rate must be finite"):
        coupled.kappa(RPS, -0.1, 1.0)


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
    whole = within(MATCHING, 1, 100, 0.1, prior, 0.02)
    charges, costs_K = coupled.charges(MATCHING, prior.rates_K, 100, 0.1), prior.log_costs_K(0.02)
    before = every_start.before_alarm(charges, prior.rates_K, costs_K, 1.0, np.arange(101))
    assert whole == pytest.approx(before[100], rel=1e-12)
    late = within(MATCHING, 50, 100, 0.1, prior, 0.02)
    assert within(MATCHING, 1, 51, 0.1, prior, 0.02) < late  # a late start had less of the prior
    assert within(MATCHING, 99, 100, 0.1, prior, 0.02) == 2  # no more than two steps can cost


def alarm_times(problem: lr.DecisionProblem, prior: every_start.Prior, delta: float, laws: np.ndarray,
                tokens: np.ndarray, warmth: float) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The theorem's rule, written out: the first alarm of each sequence, and each action's gains ``[N, T, A]``."""
    N, T = tokens.shape
    pi = problem.quantal_response(laws, warmth)
    x_NTAS = problem.utility - (pi @ problem.utility)[:, :, None, :]
    gain = np.take_along_axis(x_NTAS, tokens[:, :, None, None], axis=-1)[..., 0]
    wealth, spent = np.zeros((N, problem.n_actions, len(prior.rates_K))), 0.0
    first = np.full(N, T + 1)
    for t in range(T):
        new = prior.weights_K(t + 1)
        spent += new.sum() * problem.n_actions
        grown = np.exp(prior.rates_K[:, None] * x_NTAS[:, t, :, None, :])
        psi = np.log(np.einsum("naks,ns->nak", grown, laws[:, t]))
        wealth = (wealth + new) * np.exp(prior.rates_K * gain[:, t, :, None] - np.maximum(psi, 0))
        alarm = wealth.sum(axis=(1, 2)) + 1 - spent >= 1 / delta
        first = np.where((first > T) & alarm, t + 1, first)
    return first, gain


@pytest.mark.parametrize(
    "problem", [MATCHING, RPS, lr.DecisionProblem(np.random.default_rng(4).uniform(-1, 1, (3, 2)))]
)
def test_no_sequence_breaks_the_bounds_before_an_alarm(problem: lr.DecisionProblem) -> None:
    """Statements (ii) and (iv) on all sequences and adversarial ones, and (i) by the chances of those sequences."""
    T, delta, warmth = 40, 0.2, 0.15
    rng = np.random.default_rng(2)
    prior = every_start.joint_prior(problem, T, delta, warmth, top=4.0)
    bound = [within(problem, 1, t, warmth, prior, delta) for t in range(1, T + 1)]
    laws = rng.dirichlet(np.full(problem.n_states, 0.5), (600, T))
    laws[::2] = laws[::2, :1]  # half of the bases say the same all the time
    pi = problem.quantal_response(laws, warmth)
    hurt = (pi @ problem.utility).argmin(axis=-1)  # the state that hurts the response most
    tokens = np.where(rng.random((600, T)) < 0.8, hurt, rng.integers(problem.n_states, size=(600, T)))
    first, gain = alarm_times(problem, prior, delta, laws, tokens, warmth)
    assert (first <= T).any()
    quiet = np.arange(1, T + 1) < first[:, None]
    total = np.cumsum(gain, axis=1).max(axis=-1)
    assert np.where(quiet, total - bound, -1).max() < 0
    assert np.where(quiet, total / bound, 0).max() > 0.5  # the search gets near
    sums = np.concatenate([np.zeros((600, 1, problem.n_actions)), np.cumsum(gain, axis=1)], axis=1)
    for start in (2, 10, 30):
        limit = np.array([within(problem, start, t, warmth, prior, delta) for t in range(start, T + 1)])
        part = (sums[:, start:] - sums[:, start - 1 : start]).max(axis=-1)
        assert np.where(quiet[:, start - 1 :], part - limit, -1).max() < 0


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
