"""The entrants of ``benchmarks.decisions`` play chances and know no future; cells side by side are cells alone."""

import importlib.util
import itertools
import math

import numpy as np
import pytest
from benchmarks.decisions.cells import Entrant, Scene, best_response
from benchmarks.decisions.entrants import entries
from benchmarks.decisions.entrants.detectors import REFERENCE, Cusum, River
from benchmarks.decisions.entrants.mixtures import Bayes, FixedShare, Prod
from benchmarks.decisions.entrants.recalibration import RIDGE, Isotonic, Logistic
from benchmarks.decisions.entrants.risk_monitors import ExchangeabilityMartingale, PitMonitor, seeds_of
from benchmarks.decisions.monitored import Monitored, Recovers, UrnSince, losses
from scipy.optimize import minimize

import lowregret as lr

pytestmark = pytest.mark.needs("river", "sklearn")

R, T, BREAK = 3, 200, 105
PROBLEM = lr.DecisionProblem([[0.9, -0.3, -0.8], [-0.2, 0.7, 0.1], [-0.7, -0.4, 1.0]])


def worlds(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Laws and states: the first cell is right, the second until one state alone comes, the third never."""
    rng = np.random.default_rng(seed)
    laws_RxTxS = rng.dirichlet([0.1, 0.1, 0.1], (R, T)) * 0.97 + 0.01
    states_RxT = (laws_RxTxS.cumsum(axis=2) < rng.random((R, T, 1))).sum(axis=2)
    states_RxT[1, BREAK:] = 0
    states_RxT[2] = laws_RxTxS[2].argmin(axis=1)
    return laws_RxTxS, states_RxT


def made(name: str, cells: int, lag: int, setting: int = 0) -> Entrant:
    entry = entries()[name]
    try:
        return entry.make(Scene(PROBLEM, cells, T, lag), **entry.settings[setting])
    except ValueError as error:
        if lag == 1:
            raise
        pytest.skip(f"it takes no late outcomes: {error}")


def plays(
    entrant: Entrant, laws_RxTxS: np.ndarray, states_RxT: np.ndarray, lag: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """What it plays, ``[R, T, A]``, and which cells have had an alarm, ``[R, T]``."""
    played, alarms = [], []
    for t in range(states_RxT.shape[1]):
        played.append(np.array(entrant.advise(laws_RxTxS[:, t])))
        if t >= lag - 1:
            entrant.observe(laws_RxTxS[:, t - lag + 1], states_RxT[:, t - lag + 1])
        alarms.append(None if entrant.alarmed is None else np.array(entrant.alarmed))
    return np.stack(played, axis=1), None if alarms[0] is None else np.stack(alarms, axis=1)


EVERY = [
    pytest.param(name, lag, marks=() if i % 5 == 0 else pytest.mark.long)
    for i, (name, lag) in enumerate(itertools.product(entries(), (1, 4)))
]


@pytest.mark.parametrize(("name", "lag"), EVERY)
def test_plays_chances_knows_no_future_and_cells_are_apart(name: str, lag: int) -> None:
    laws_RxTxS, states_RxT = worlds()
    played, alarms = plays(made(name, R, lag), laws_RxTxS, states_RxT, lag)
    assert played.shape == (R, T, 3)
    assert played.min() >= 0
    np.testing.assert_allclose(played.sum(axis=2), 1, atol=1e-9)
    if alarms is not None:
        assert (np.diff(alarms.astype(int), axis=1) >= 0).all()

    other_RxT, at = states_RxT.copy(), 150
    other_RxT[:, at:] = other_RxT[:, at:][:, ::-1]
    again, _ = plays(made(name, R, lag), laws_RxTxS, other_RxT, lag)
    np.testing.assert_array_equal(again[:, : at + lag], played[:, : at + lag])

    for r in range(R):
        alone, alarm = plays(made(name, 1, lag), laws_RxTxS[r : r + 1], states_RxT[r : r + 1], lag)
        np.testing.assert_allclose(alone[0], played[r], atol=1e-9)
        if alarms is not None and alarm is not None:
            np.testing.assert_array_equal(alarm[0], alarms[r])


@pytest.mark.parametrize("lag", [1, 3])
def test_the_guard_is_the_guard(lag: int) -> None:
    laws_RxTxS, states_RxT = worlds()
    played, alarms = plays(made("guard", R, lag), laws_RxTxS, states_RxT, lag)
    assert alarms is not None
    for r in range(R):
        guard = lr.Guard(PROBLEM, lag=lag)
        for t in range(T):
            np.testing.assert_allclose(guard.advise(laws_RxTxS[r, t]).policy, played[r, t], atol=1e-9)
            if t >= lag - 1:
                guard.observe(int(states_RxT[r, t - lag + 1]))
            assert bool(guard.switched) == alarms[r, t]
    assert alarms[:, -1].tolist() == [False, True, True]


# Detectors


def test_losses_are_what_the_best_action_in_hindsight_earned_more() -> None:
    laws_RxS, states_R = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]), np.array([1, 2])
    np.testing.assert_allclose(losses(Scene(PROBLEM, 2, 1, 1), laws_RxS, states_R), [1.0 / PROBLEM.span, 0])
    one_action = Scene(lr.DecisionProblem([[0.5, 0.5]]), 2, 1, 1)
    assert losses(one_action, laws_RxS[:, :2], np.array([0, 1])).tolist() == [0, 0]


def test_cusum_in_closed_form() -> None:
    chart = Cusum(Scene(PROBLEM, 2, T, 1), slack=0.25, limit=3.0)
    for t in range(REFERENCE):  # losses of 0 and 1 in turn, of mean 1/2 and standard deviation 1/2
        assert not chart.hears(np.full(2, float(t % 2)), np.empty(0), np.empty(0)).any()
    for step in range(1, 5):  # 1 is one sigma above, 0 one below: 3/4 a step, or nothing
        assert not chart.hears(np.array([1.0, 0.0]), np.empty(0), np.empty(0)).any()
        np.testing.assert_allclose(chart.sum_R, [0.75 * step, 0])
    assert chart.hears(np.array([1.0, 1.0]), np.empty(0), np.empty(0)).tolist() == [True, False]
    np.testing.assert_allclose(chart.sum_R, [0, 0.75])


class AlarmsAt:
    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        self.seen += 1
        return np.array([self.seen == self.at, False, self.seen == self.at + 5])


@pytest.mark.parametrize("lag", [1, 3])
def test_from_the_alarm_on_an_urn_that_begins_there(lag: int) -> None:
    laws_RxTxS, states_RxT = worlds()
    scene, at = Scene(PROBLEM, R, T, lag), 40
    played, _ = plays(Monitored(scene, AlarmsAt(at), UrnSince(scene)), laws_RxTxS, states_RxT, lag)
    model, _ = plays(made("the model", R, lag), laws_RxTxS, states_RxT, lag)
    first = at + lag - 1  # the step before which the alarm has come
    np.testing.assert_array_equal(played[1], model[1])
    np.testing.assert_array_equal(played[0, :first], model[0, :first])
    np.testing.assert_array_equal(played[2, : first + 5], model[2, : first + 5])
    urn, _ = plays(UrnSince(Scene(PROBLEM, 1, T, lag)), laws_RxTxS[:1, at:], states_RxT[:1, at:], lag)
    np.testing.assert_allclose(played[0, first:], urn[0, lag - 1 :], atol=1e-12)


def first_alarm(monitor: River, losses_T: list[float]) -> int | None:
    heard = [bool(monitor.hears(np.array([loss]), np.empty(0), np.empty(0))[0]) for loss in losses_T]
    return heard.index(True) if any(heard) else None


def test_river_hears_rises_and_falls_unless_told_otherwise() -> None:
    rise, fall, one = [0.1] * 200 + [0.9] * 100, [0.9] * 200 + [0.1] * 100, Scene(PROBLEM, 1, 300, 1)
    for losses_T, rising in ((rise, True), (fall, False)):
        assert first_alarm(River(one, "ADWIN"), losses_T) is not None
        assert (first_alarm(River(one, "ADWIN", rises=True), losses_T) is not None) == rising


def test_recovery_after_the_alarm_of_the_guard_is_what_the_guard_plays() -> None:
    laws_RxTxS, states_RxT = worlds()
    guard, alarms = plays(made("guard", R, 1), laws_RxTxS, states_RxT, 1)
    assert alarms is not None

    class AsTheGuard:
        seen = 0

        def hears(self, *heard: np.ndarray) -> np.ndarray:
            self.seen += 1
            return alarms[:, self.seen - 1]

    scene = Scene(PROBLEM, R, T, 1)
    played, _ = plays(Monitored(scene, AsTheGuard(), Recovers(scene)), laws_RxTxS, states_RxT, 1)
    np.testing.assert_allclose(played, guard, atol=1e-9)


# Mixtures

TWO = lr.matching()


def test_prod_in_closed_form() -> None:
    """The model says 0 and 1 comes: A, the uniform play of Hedge at first, earns half of the span more than B."""
    scene = Scene(TWO, 1, 100, 1)
    player = Prod(scene)
    law, came, span = np.array([[0.9, 0.1]]), np.array([1]), TWO.span
    r = math.sqrt(math.log(100) / 100) / 2
    hedge = math.sqrt(8 * math.log(2) / 100) / span
    weight, lead = r, 0.0
    for _ in range(5):
        other = 1 / (1 + math.exp(-hedge * lead))  # the chance with which A plays 1
        follow = weight / (weight + 1 - r)
        np.testing.assert_allclose(player.advise(law), [[1 - follow * other, follow * other]], atol=1e-12)
        player.observe(law, came)
        earned = TWO.utility[1, 1] - TWO.utility[0, 1]
        weight, lead = weight * (1 + r * other * earned / span), lead + earned


def test_bayes_weights_are_posterior() -> None:
    player = Bayes(Scene(TWO, 1, 10, 1))
    for came in (1, 1, 0):
        player.observe(np.array([[0.7, 0.3]]), np.array([came]))
    model, urn = 0.3 * 0.3 * 0.7, 1 / 2 * 2 / 3 * 1 / 4
    np.testing.assert_allclose(player.weights_2xR[:, 0], np.array([model, urn]) / (model + urn))
    mixture = (model * np.array([0.45, 0.55]) + urn * np.array([2, 3]) / 5) / (model + urn)
    np.testing.assert_array_equal(player.advise(np.array([[0.45, 0.55]])), best_response(TWO, mixture[None]))


def test_fixed_share_over_the_model_and_actions_step_by_step() -> None:
    laws_RxTxS, states_RxT = worlds()
    player = FixedShare(Scene(PROBLEM, 1, T, 1), mixture=False)
    four = lr.DecisionProblem(np.concatenate([PROBLEM.utility, PROBLEM.utility[:1]]))  # as many experts
    known = lr.policies.FixedShare(four, T)
    assert (player.rate, player.share) == (pytest.approx(known.rate), known.share)
    weights_N = np.full(4, 0.25)
    for t in range(50):
        model_A = best_response(PROBLEM, laws_RxTxS[:1, t])[0]
        np.testing.assert_allclose(player.advise(laws_RxTxS[:1, t])[0], weights_N[0] * model_A + weights_N[1:])
        player.observe(laws_RxTxS[:1, t], states_RxT[:1, t])
        earned_A = PROBLEM.utility[:, states_RxT[0, t]]
        weights_N = weights_N * np.exp(player.rate * np.append(model_A @ earned_A, earned_A))
        weights_N = weights_N / weights_N.sum() * (1 - player.share) + player.share / 4


# Monitors with a promise


def test_the_pit_monitor_is_a_martingale_under_the_truth() -> None:
    """All outcomes of six steps, exactly: laws of quarters, so that each of four bins is as likely as another."""
    steps, quarters = 6, list(itertools.product(range(4), repeat=6))
    first_T = np.array([0.25, 0.5, 0.75, 0.5, 0.25, 0.75])  # the model's chance of state 0
    monitor = PitMonitor(Scene(TWO, len(quarters), steps, 1), bins=4, ranks=False)
    u_RxT = (np.array(quarters) + 0.5) / 4
    states_RxT = (u_RxT > first_T).astype(int)
    draws_RxT = np.where(states_RxT == 0, u_RxT / first_T, (u_RxT - first_T) / (1 - first_T))
    monitor.draws = lambda: (draws_RxT[:, monitor.seen],) * 2  # type: ignore[method-assign]
    for t in range(steps):
        laws = np.tile([first_T[t], 1 - first_T[t]], (len(quarters), 1))
        monitor.hears(np.zeros(len(quarters)), laws, states_RxT[:, t])
        assert monitor.wealth_R.mean() == pytest.approx(1 - 1 / (t + 2), abs=1e-12)  # and starts to come have the rest
    assert monitor.wealth_R.std() > 0.1


def test_the_pit_monitor_of_ranks_is_a_martingale_of_whatever_is_stable() -> None:
    """All orders of five transforms and all halves of their jitter, exactly, with two bins."""
    steps = 5
    both = list(itertools.product(itertools.permutations(range(steps)), itertools.product((0.25, 0.75), repeat=steps)))
    order_RxT, jitter_RxT = (np.array([one[i] for one in both]) for i in range(2))
    monitor = PitMonitor(Scene(TWO, len(both), steps, 1), bins=2)
    u_RxT = (order_RxT + 0.5) / steps
    monitor.draws = lambda: (u_RxT[:, monitor.seen], jitter_RxT[:, monitor.seen])  # type: ignore[method-assign]
    for t in range(steps):
        laws, none = np.tile([1.0, 0.0], (len(both), 1)), np.zeros(len(both), dtype=int)  # so the draw is the transform
        monitor.hears(none * 0.0, laws, none)
        assert monitor.wealth_R.mean() == pytest.approx(1 - 1 / (t + 2), abs=1e-12)
    assert monitor.wealth_R.std() > 0.1


mapie = pytest.mark.skipif(not importlib.util.find_spec("mapie"), reason="mapie is not installed, nor in .data")


@mapie
def test_the_martingale_is_mapies() -> None:
    from mapie.classification import SplitConformalClassifier
    from mapie.exchangeability_testing import OnlineMartingaleTest
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Says(ClassifierMixin, BaseEstimator):
        classes_, n_features_in_ = np.arange(3), 3

        def fit(self, X: np.ndarray, y: np.ndarray) -> "Says":
            return self

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return X

        def predict(self, X: np.ndarray) -> np.ndarray:
            return X.argmax(axis=1)

    laws_RxTxS, states_RxT = worlds()
    monitor, alarms = ExchangeabilityMartingale(Scene(PROBLEM, R, T, 1)), []
    wealth_RxT = np.empty((R, T))
    for t in range(T):
        alarms.append(monitor.hears(np.zeros(R), laws_RxTxS[:, t], states_RxT[:, t]))
        wealth_RxT[:, t] = monitor.wealth_Rx3.sum(axis=1)
    seeds = seeds_of(laws_RxTxS[:, 0], states_RxT[:, 0])
    for r in range(R):
        said = SplitConformalClassifier(Says(), prefit=True)
        theirs = OnlineMartingaleTest(said, task="classification", warn=False, random_state=seeds[r])
        theirs.update(laws_RxTxS[r], states_RxT[r])
        np.testing.assert_allclose(wealth_RxT[r], theirs.martingale_value_history)
        assert theirs.is_exchangeable is not alarms[-1][r]
    assert alarms[-1].tolist() == [False, True, False]  # what was never right is stable


# Recalibration


def test_logistic_recalibration_is_the_maximum() -> None:
    laws_RxTxS, states_RxT = worlds()
    player = Logistic(Scene(PROBLEM, R, T, 1))
    player.fit(laws_RxTxS, states_RxT)
    for r in range(R):

        def cost(theta: np.ndarray, r: int = r) -> float:
            score = theta[0] * np.log(laws_RxTxS[r]) + theta[1:]
            likely = score[np.arange(T), states_RxT[r]] - np.log(np.exp(score).sum(axis=1))
            return -likely.sum() + RIDGE / 2 * ((theta[0] - 1) ** 2 + (theta[1:] ** 2).sum())

        best = minimize(cost, np.array([1.0, 0, 0, 0]), tol=1e-10)
        np.testing.assert_allclose(player.fitted_RxD[r], best.x, atol=1e-4)
    assert abs(player.fitted_RxD[0, 0] - 1) < 0.3  # right as it is
    assert player.fitted_RxD[2, 0] < -0.5  # the least likely came


def test_isotonic_recalibration_is_that_of_scikit_learn() -> None:
    from sklearn.isotonic import IsotonicRegression

    laws_RxTxS, states_RxT = worlds()
    laws_RxTxS = (laws_RxTxS * 20).round() / 20 + 0.01  # with ties
    player, law = Isotonic(Scene(PROBLEM, R, T, 1)), np.array([0.33, 0.4, 0.27])
    player.fit(laws_RxTxS, states_RxT)
    found = player.mapped(np.tile(law, (R, 1)))
    for r in range(R):
        curves = [
            IsotonicRegression(out_of_bounds="clip").fit(laws_RxTxS[r, :, s], states_RxT[r] == s) for s in range(3)
        ]
        said = np.array([curve.predict([p])[0] for curve, p in zip(curves, law, strict=True)])
        np.testing.assert_allclose(found[r], said / said.sum() if said.sum() else law, atol=1e-6)
