"""The second bettor, on the likelihood of the mixture in the shadow: a literal loop, false alarms, what it finds."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.problems import Positions
from lowregret.rules import second_bettor

from ..literal_theorem import some_game, some_laws


def literal(rule: lr.ExactTest, laws_TxS: np.ndarray, states_T: np.ndarray) -> tuple[int, int, list[float]]:
    """When all bettors sound the alarm, when those on actions alone do, and ln E: every bettor and start by itself.

    The mixture is asked of the fallback, which is told what came; all else is written out.
    """
    U, prior, back = rule.problem.utility, rule.prior, rule.in_play.fallback
    A, K, bound = len(U), len(prior.rates_K), 1 / rule.delta
    memory, late = back.start(), np.array(False)
    wealth: dict[tuple[int, int, int], float] = {}
    ratios: dict[int, float] = {}
    sums, trip, alone, levels = [0.0], 0, 0, list[float]()
    squares: list[float] = []
    for t, (p, s) in enumerate(zip(laws_TxS, states_T.tolist(), strict=True), 1):
        scene = rule.scene(p, None, np.array(t))
        mix = back.law(memory, scene)
        b, m = int(np.argmax(U @ p > (U @ p).max() - 1e-12)), int(np.argmax(U @ mix > (U @ mix).max() - 1e-12))
        for c, k in itertools.product(range(A), range(K)):
            lam, x_S = float(prior.rates_K[k]), U[c] - U[b]
            low, high = -x_S.min(), x_S.max()
            charge = 0.0
            if low > 0 and high > 0:
                charge = math.log((low * math.exp(lam * high) + high * math.exp(-lam * low)) / (low + high))
            wealth[c, k, t] = float(prior.weights_K(t)[k])
            for j in range(1, t + 1):
                wealth[c, k, j] *= math.exp(lam * x_S[s] - charge)
        ratios[t] = float(prior.second_weight(t))
        for j in ratios:
            ratios[j] *= mix[s] / p[s]
        d = float(U[m, s] - U[b, s])
        sums.append(sums[-1] + d)
        squares.append(d * d)
        lowest = max(i for i, total in enumerate(sums) if total <= min(sums) + 1e-15)
        rise, age = sums[-1] - sums[lowest], t - lowest
        actions = sum(wealth.values()) + prior.unspent(t)
        everyone = actions + sum(ratios.values()) + prior.second_unspent(t)
        heard = rise > 0 and rise**2 >= sum(squares[lowest:]) * (math.log(1 + t / max(age, 1)) + 2)
        levels.append(math.log(everyone if heard else actions))
        if actions >= bound and not alone:
            alone = t
        if (actions >= bound or (heard and everyone >= bound)) and not trip:
            trip = t
        memory = back.update(memory, scene, np.array(s), late)
    return trip, alone, levels


@pytest.mark.parametrize("horizon", [40, None], ids=["known", "unknown"])
def test_it_is_its_definition(horizon: int | None) -> None:
    trips, by_second, T = 0, 0, 40
    for seed in range(12):
        rng = np.random.default_rng([3, seed])
        problem = some_game(rng) if seed % 3 else lr.matching()
        laws = 0.95 * some_laws(rng, (T,), problem.n_states) + 0.05 / problem.n_states
        hurts = (problem.utility.T[..., (problem.utility @ laws.T).argmax(axis=0)]).argmin(axis=0)
        states = np.where(rng.random(T) < 0.7, hurts, rng.integers(problem.n_states, size=T))
        rule = lr.ExactTest(problem, horizon, 0.2, temperature=0, likelihood=True)
        trip, alone, levels = literal(rule, laws, states)
        guard = lr.Guard(problem, horizon, rule=rule)
        for t in range(T):
            guard.advise(laws[t])
            guard.observe(Positions(states[t]))
            assert float(guard.evidence[0]) == pytest.approx(levels[t], rel=1e-9, abs=1e-9)
        told = [event for event in guard.events if isinstance(event, lr.Switch)]
        assert [event.step for event in told] == [trip] * (trip > 0)
        if trip:
            assert (told[0].gain is not None) == (alone != trip)
            by_second += told[0].gain is not None
        trips += trip > 0
    assert trips > 6
    assert by_second > 0


def test_no_base_alarms_more_often_than_delta() -> None:
    """All sequences of six steps, under laws of a tree; bets on actions alone while the advice is right: delta/2."""
    T, delta, most, most_alone = 6, 0.5, 0.0, 0.0
    for seed in range(12):
        rng = np.random.default_rng([5, seed])
        problem = lr.matching() if seed % 2 else some_game(rng)
        S = problem.n_states
        tree = {
            path: rng.dirichlet(np.full(S, 0.6)) for n in range(T) for path in itertools.product(range(S), repeat=n)
        }
        paths = np.array(list(itertools.product(range(S), repeat=T)))
        laws = np.array([[tree[tuple(path[:t])] for t in range(T)] for path in paths])
        chance = np.take_along_axis(laws, paths[..., None], axis=-1)[..., 0].prod(axis=1)
        rule = lr.ExactTest(problem, T, delta, temperature=0, likelihood=True)
        most = max(most, float(chance[rule.trip_times(laws, paths) <= T].sum()))
        # The truth is another law to which the same action is best: half of the stated one, half of a sure state.
        best = (laws @ problem.utility.T).argmax(axis=-1)
        sure = np.eye(S)[problem.utility[best].argmax(axis=-1)]
        right = (
            problem.utility[best].max(axis=-1) >= problem.utility.max(axis=0)[problem.utility[best].argmax(-1)] - 1e-12
        )
        truth = np.where(right[..., None], 0.5 * laws + 0.5 * sure, laws)
        chance = np.take_along_axis(truth, paths[..., None], axis=-1)[..., 0].prod(axis=1)
        alone = [literal_alone(rule, law, path) for law, path in zip(laws, paths, strict=True)]
        most_alone = max(most_alone, float(chance[np.array(alone)].sum()))
    assert 0 < most <= delta
    assert 0 < most_alone <= delta / 2


def literal_alone(rule: lr.ExactTest, laws: np.ndarray, path: np.ndarray) -> bool:
    """Whether bets on actions alone reach 1/delta."""
    U, prior, wealth = rule.problem.utility, rule.prior, 0.0
    rates_K = prior.rates_K
    held = np.zeros((len(U), len(rates_K)))
    for t, (p, s) in enumerate(zip(laws, path.tolist(), strict=True), 1):
        x_AxS = U - U[int(np.argmax(U @ p))]
        low, high = -x_AxS.min(axis=1, keepdims=True), x_AxS.max(axis=1, keepdims=True)
        both = (low > 0) & (high > 0)
        wide = np.where(both, low + high, 1.0)
        mean = (low * np.exp(rates_K * high) + high * np.exp(-rates_K * low)) / wide
        held = (held + prior.weights_K(t)) * np.exp(rates_K * x_AxS[:, [s]]) / np.where(both, mean, 1.0)
        wealth = held.sum() + prior.unspent(t)
        if wealth >= 1 / rule.delta:
            return True
    return False


@pytest.mark.parametrize(("says", "true"), [(0.9, 0.7), (0.8, 0.65)])
def test_models_that_are_miscalibrated_but_useful_are_kept(says: float, true: float) -> None:
    """The notes have 1 to 5 in a hundred; at most a tenth is asked for."""
    T, N, rng = 1000, 300, np.random.default_rng(11)
    which = rng.integers(2, size=(N, T))
    laws = np.where(np.arange(2) == which[..., None], says, 1 - says)
    states = np.where(rng.random((N, T)) < true, which, 1 - which)
    rule = lr.ExactTest(lr.matching(), T, 0.05, temperature=0, likelihood=True)
    alarms = int((rule.trip_times(laws, states) <= T).sum())
    assert alarms <= stats.binom.ppf(1 - 1e-3, N, 0.1)


def test_two_of_three_states_taken_for_each_other_are_found() -> None:
    """Such a model is as good as any fixed action, and half as good as it was."""
    T, N, rng = 3000, 40, np.random.default_rng(2)
    which = rng.integers(3, size=(N, T))
    laws = np.where(np.arange(3) == which[..., None], 0.8, 0.1)
    true = np.where(rng.random((N, T)) < 0.7, which, rng.integers(3, size=(N, T)))
    states = np.where(np.arange(T) < T // 2, true, np.array([1, 0, 2])[true])
    found = lr.ExactTest(lr.matching(3), T, 0.05, temperature=0, likelihood=True).trip_times(laws, states)
    assert 0 < np.median(found) - T // 2 < 100
    assert (found > T // 2).all()
    assert (found <= T).all()


def test_what_it_needs() -> None:
    coin = lr.matching()
    payoff = lr.Payoff(lambda a, y: a * np.clip(y, -1, 1), [0.0, 1.0], -1, 1, knots=[-1, 1])
    wrong: list[Any] = [
        lambda: lr.ExactTest(coin, 20, likelihood=True),
        lambda: lr.ExactTest(coin, 20, likelihood=True, temperature=0, fallback=lr.policies.AdaHedge(coin)),
        lambda: lr.ExactTest(payoff, 20, likelihood=True, temperature=0),
    ]
    for make in wrong:
        with pytest.raises(ValueError, match="likelihood=True bets on the laws"):
            make()
    with pytest.raises(ValueError, match="the best response to a law that learns may lose every step"):
        lr.ExactTest(coin, 20, temperature=0, fallback=lr.PolyaUrn(2))
    with pytest.raises(ValueError, match="temperature must be above 0"):
        lr.robustify(lr.PolyaUrn(2), coin, 20, temperature=0)


# Without a test


@pytest.mark.parametrize("temperature", [None, 0.0], ids=["quantal", "best"])
def test_without_a_test_the_mixture_is_played_from_the_first_step_on(temperature: float | None) -> None:
    """As the fallback says, told that the alarm has sounded; nine tenths of the weight on the model at first."""
    T, rng = 60, np.random.default_rng(4)
    problem = some_game(rng)
    laws = 0.9 * some_laws(rng, (T,), problem.n_states) + 0.1 / problem.n_states
    states = rng.integers(problem.n_states, size=T)
    guard = lr.Guard(problem, T, temperature=temperature, test=False)
    back, late = guard.rule.in_play.fallback, np.array(True)
    memory = back.start()
    assert memory.shadow.weights[0].tolist() == pytest.approx([0.9, *[0.1 / 4] * 4])
    for t in range(T):
        advice = guard.advise(laws[t])
        scene = guard.rule.scene(laws[t], None, np.array(t + 1))
        np.testing.assert_allclose(advice.policy, back.policy(memory, scene), atol=1e-12)
        assert advice.share == pytest.approx(float(back.share_of_base(memory)))
        memory = back.update(memory, scene, np.array(states[t]), late)
        guard.observe(Positions(states[t]))
        if t == T // 2:
            again = lr.Guard(problem, T, temperature=temperature, test=False)
            again.load_state_dict(guard.state_dict())
            guard = again
    assert guard.events == []
    assert not np.isnan(guard.regret)
    found = lr.backtest(
        problem, laws, Positions(states), guard=lr.Guard(problem, T, temperature=temperature, test=False)
    )
    assert found.streams[0].regret == pytest.approx(guard.regret, abs=1e-9)
    assert found.streams[0].switched_at is None


@pytest.mark.parametrize("horizon", [9, None])
def test_no_sequence_breaks_the_certificate_without_a_test(horizon: int | None) -> None:
    """All sequences of nine steps, against a model that is sure of the wrong state."""
    T = 9
    paths = np.array(list(itertools.product(range(2), repeat=T)))
    rule = lr.ExactTest(lr.matching(), horizon, 0.5, temperature=0.0, test=False)
    guard = lr.Guard(lr.matching(), horizon, rule=rule, batch_shape=(len(paths),))
    for t in range(T):
        guard.advise(np.tile([[0.9, 0.1], [0.2, 0.8]][t % 2], (len(paths), 1)))
        guard.observe(paths[:, t])
    given = guard.certificate if horizon else guard.certificate.at(T)
    assert guard.regret.max() <= given.regret_bound
    assert given.tv_bound == 1.0
    assert given.against_model is not None


def test_what_cannot_go_without_a_test() -> None:
    coin = lr.matching()
    for more in ({"fallback": lr.PolyaUrn(2)}, {"likelihood": True, "temperature": 0}):
        with pytest.raises(ValueError, match="test=False plays a Recovery"):
            lr.Guard(coin, 20, test=False, **more)
    with pytest.raises(ValueError, match="lag must be 1 without a test"):
        lr.Guard(coin, 20, test=False, lag=2)


def test_a_test_is_there_or_not_and_numbers_are_certified_without_one_too() -> None:
    for given in ("no", None, 0):
        with pytest.raises(ValueError, match="test must be True or False"):
            lr.Guard(lr.matching(), 20, test=given)
    with pytest.raises(ValueError, match="delta is the chance of a false alarm: leave it out with test=False"):
        lr.Guard(lr.matching(), 20, test=False, delta=0.1)
    payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    guard = lr.Guard(payoff, 20, test=False)
    guard.advise(lr.Quantiles([0.1, 0.9], [0.1, 0.8]))
    guard.observe(0.3)
    assert "without a test" in str(guard.certificate)


@pytest.mark.parametrize("horizon", [None, 3000])
def test_the_compiled_recurrence_is_that_of_arrays(monkeypatch: pytest.MonkeyPatch, horizon: int | None) -> None:
    pytest.importorskip("numba")
    prior = lr.Guard(lr.matching(), horizon).rule.prior
    rng = np.random.default_rng(4)
    odds, gained = np.exp(rng.normal(0, 0.4, (12, 3000))), rng.choice([-0.5, 0.0, 0.5], (12, 3000), p=[0.3, 0.35, 0.35])
    actions = rng.random((12, 3000))
    had, level = second_bettor.recorded(prior, odds, gained, actions)
    monkeypatch.setattr(second_bettor, "worth", lambda array: False)
    monkeypatch.setattr(second_bettor, "is_compiled", lambda function: False)
    in_arrays, expected = second_bettor.recorded(prior, odds, gained, actions)
    assert 0.05 < (level > actions).mean() < 0.95  # heard at some steps
    np.testing.assert_allclose(level, expected, rtol=1e-12)
    np.testing.assert_allclose(had, in_arrays, rtol=1e-12, atol=1e-12)
