"""The entrants of ``benchmarks.decisions`` play chances and know no future; cells side by side are cells alone."""

import numpy as np
import pytest
from benchmarks.decisions.cells import Entrant, Scene
from benchmarks.decisions.entrants import entries
from benchmarks.decisions.entrants.detectors import REFERENCE, Cusum, RollingThreshold
from benchmarks.decisions.monitored import Monitored, Recovers, UrnSince, losses

import lowregret as lr

pytestmark = pytest.mark.needs("river", "sklearn")

R, T, BREAK = 3, 260, 130
PROBLEM = lr.DecisionProblem([[0.9, -0.3, -0.8], [-0.2, 0.7, 0.1], [-0.7, -0.4, 1.0]])


def worlds(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Laws and states, of which the first cell's are right, and the others break: loudly, or from the first step on."""
    rng = np.random.default_rng(seed)
    laws_RxTxS = rng.dirichlet([0.3, 0.3, 0.3], (R, T)) * 0.97 + 0.01
    states_RxT = (laws_RxTxS.cumsum(axis=2) < rng.random((R, T, 1))).sum(axis=2)
    states_RxT[1, BREAK:] = 2 - states_RxT[1, BREAK:]
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


@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize("name", list(entries()))
def test_plays_chances_knows_no_future_and_cells_are_apart(name: str, lag: int) -> None:
    laws_RxTxS, states_RxT = worlds()
    played, alarms = plays(made(name, R, lag), laws_RxTxS, states_RxT, lag)
    assert played.shape == (R, T, 3)
    assert played.min() >= 0
    np.testing.assert_allclose(played.sum(axis=2), 1, atol=1e-9)
    if alarms is not None:
        assert (np.diff(alarms.astype(int), axis=1) >= 0).all()

    other_RxT, at = states_RxT.copy(), 170
    other_RxT[:, at:] = other_RxT[:, at:][:, ::-1]
    again, _ = plays(made(name, R, lag), laws_RxTxS, other_RxT, lag)
    np.testing.assert_array_equal(again[:, : at + lag], played[:, : at + lag])

    for r in range(R):
        alone, alarm = plays(made(name, 1, lag), laws_RxTxS[r : r + 1], states_RxT[r : r + 1], lag)
        np.testing.assert_allclose(alone[0], played[r], atol=1e-9)
        if alarms is not None and alarm is not None:
            np.testing.assert_array_equal(alarm[0], alarms[r])


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if len(entry.settings) > 1])
def test_all_settings_play_and_are_not_the_same(name: str) -> None:
    laws_RxTxS, states_RxT = worlds(1)
    found = set()
    for i in range(len(entries()[name].settings)):
        played, alarms = plays(made(name, R, 1, i), laws_RxTxS, states_RxT, 1)
        np.testing.assert_allclose(played.sum(axis=2), 1, atol=1e-9)
        found.add((played.tobytes(), None if alarms is None else alarms.tobytes()))
    assert len(found) > 1


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


def reference_of_half(chart: Cusum | RollingThreshold) -> None:
    """The usual: losses of 0 and 1 in turn, of mean 1/2 and standard deviation 1/2."""
    for t in range(REFERENCE):
        assert not chart.hears(np.full(2, float(t % 2)), np.empty(0), np.empty(0)).any()


def test_cusum_in_closed_form() -> None:
    chart = Cusum(Scene(PROBLEM, 2, T, 1), slack=0.25, limit=3.0)
    reference_of_half(chart)
    for step in range(1, 5):  # 1 is one sigma above, 0 one below: 3/4 a step, or nothing
        assert not chart.hears(np.array([1.0, 0.0]), np.empty(0), np.empty(0)).any()
        np.testing.assert_allclose(chart.sum_R, [0.75 * step, 0])
    assert chart.hears(np.array([1.0, 1.0]), np.empty(0), np.empty(0)).tolist() == [True, False]
    np.testing.assert_allclose(chart.sum_R, [0, 0.75])


def test_a_rolling_mean_alarms_once_when_it_gets_above() -> None:
    chart = RollingThreshold(Scene(PROBLEM, 2, T, 1), sigmas=2.0, window=4)  # above 1/2 + 2 * 1/2 / sqrt(4) = 1: never
    lower = RollingThreshold(Scene(PROBLEM, 2, T, 1), sigmas=1.8, window=4)  # above .95
    for one in (chart, lower):
        reference_of_half(one)
    heard = [
        (chart.hears(loss, np.empty(0), np.empty(0)).tolist(), lower.hears(loss, np.empty(0), np.empty(0)).tolist())
        for loss in [np.array([1.0, 0.0])] * 6
    ]
    assert [above for above, _ in heard] == [[False, False]] * 6
    # the last of the reference are 0 1 0 1: after three more ones, the last four are all 1
    assert [above for _, above in heard] == [[t == 2, False] for t in range(6)]


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
