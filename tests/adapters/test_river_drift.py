"""``GuardDriftDetector`` on errors: what it promises, exactly, and inside River's own classifiers."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from river import drift, forest, naive_bayes, tree

import lowregret as lr

Detector = lr.adapters.GuardDriftDetector


def largest_chance(hit_N: np.ndarray, rate: float) -> float:
    """The largest chance of a hit, over all worlds in which an error has at most this chance given what came before.

    ``hit_N``: by all sequences of errors, the first error the most significant bit.
    """
    value_N = hit_N.astype(float)
    while len(value_N) > 1:
        right, wrong = value_N[0::2], value_N[1::2]
        value_N = right + rate * np.maximum(wrong - right, 0)  # the world chooses between no chance and all of it
    return float(value_N[0])


def all_errors(T: int) -> np.ndarray:
    return (np.arange(2**T)[:, None] >> np.arange(T)[::-1]) & 1


@pytest.mark.parametrize(("rate", "delta"), [(0.05, 0.01), (0.2, 0.05), (0.3, 0.2), (0.6, 0.3)])
def test_no_world_with_so_few_errors_sounds_a_false_alarm_more_often_than_stated(rate: float, delta: float) -> None:
    T = 13
    detector, errors_NxT = Detector(horizon=T, error_rate=rate, delta=delta), all_errors(T)
    laws = np.broadcast_to([1 - rate, rate], (*errors_NxT.shape, 2))
    alarm_N = detector.guard.rule.trip_times(laws, errors_NxT) <= T
    warned_N = (detector.guard.rule.log_evidence(laws, errors_NxT) >= -math.log(delta) / 2).any(axis=1)
    assert delta / 100 < largest_chance(alarm_N, rate) <= delta
    assert largest_chance(alarm_N, rate) < largest_chance(warned_N, rate) <= math.sqrt(delta)
    assert largest_chance(alarm_N, 0.95) > delta  # errors come more often than stated
    assert not alarm_N[0]  # and never: to be better than stated is no drift

    rng = np.random.default_rng(0)
    for row in rng.integers(len(errors_NxT), size=20):
        one = Detector(horizon=T, error_rate=rate, delta=delta)
        found, warned = [], []
        for error in errors_NxT[row].tolist():
            one.update(error)
            found.append(one.drift_detected)
            warned.append(one.drift_detected or one.warning_detected)
            if one.drift_detected:
                break
        assert any(found) == alarm_N[row]
        assert any(warned) == warned_N[row]


def test_a_model_as_good_as_stated_over_a_year() -> None:
    T, N, rate, delta = 365, 4000, 0.2, 0.05
    rule = Detector(horizon=T, error_rate=rate, delta=delta).guard.rule
    rng, law = np.random.default_rng(1), np.array([1 - rate, rate])
    chance_T = np.where(np.arange(T) % 50 < 25, rate, rate / 2)  # now and then better
    for chances in (np.full(T, rate), chance_T, np.full(T, 0.05)):
        errors_NxT = (rng.random((N, T)) < chances).astype(int)
        alarms = int((rule.trip_times(np.broadcast_to(law, (N, T, 2)), errors_NxT) <= T).sum())
        assert alarms <= N * delta + 3 * math.sqrt(N * delta * (1 - delta))
    worse_NxT = (rng.random((200, T)) < np.where(np.arange(T) < 100, rate, 0.5)).astype(int)
    found = rule.trip_times(np.broadcast_to(law, (200, T, 2)), worse_NxT)
    assert (found <= T).mean() > 0.99
    assert 100 < np.median(found) < 160


@pytest.mark.parametrize(("horizon", "lag"), [(400, 1), (40, 1), (400, 3)])
def test_equals_a_guard_that_trusts_or_does_not(horizon: int, lag: int) -> None:
    rate, rng = 0.2, np.random.default_rng(2)
    detector = Detector(horizon=horizon, error_rate=rate, lag=lag)
    cost = rate + (1 - rate) / 1000
    choice = lr.DecisionProblem([[0, -1], [-cost, -cost]], actions=["trust", "do not"], states=["right", "wrong"])

    def fresh() -> lr.Guard:
        return lr.Guard(choice, horizon, temperature=(cost - rate) / 50, lag=lag)

    guard, since, drifts = fresh(), 0, []
    for t in range(600):
        if guard.switched or since == horizon:
            guard, since = fresh(), 0
        error = bool(rng.random() < (rate if t % 200 < 100 else 0.8))
        advice = guard.advise([1 - rate, rate])
        assert guard.switched or advice.policy.tolist() == pytest.approx([1, 0])
        guard.observe("wrong" if error else "right")
        since += 1
        detector.update(error if t % 2 else int(error))
        statistic, threshold = guard.evidence
        assert detector.drift_detected == guard.switched
        assert detector.warning_detected == (not guard.switched and statistic >= threshold / 2)
        assert detector.guard.regret == guard.regret
        drifts += [t] if guard.switched else []
        if t == 150:
            detector = pickle.loads(pickle.dumps(detector))
    assert 100 < drifts[0] < 150


@pytest.mark.parametrize("x", [0.3, 2, -1, None, "1", (1,), ({"a": 1.0}, "a"), float("nan"), np.array([1, 0])])
def test_what_is_no_error_is_refused_and_changes_nothing(x: Any) -> None:
    detector = Detector(horizon=50, error_rate=0.2)
    detector.update(1)
    before = detector.guard.state_dict()
    with pytest.raises(ValueError, match="x must be 1 for an error or 0 for none, got"):
        detector.update(x)
    assert detector.guard.state_dict() == before


def test_what_an_error_rate_does_not_go_with() -> None:
    for rate in (0, 1, 1.5, -0.1, "much", np.nan):
        with pytest.raises(ValueError, match="error_rate must"):
            Detector(horizon=50, error_rate=rate)
    for more in ({"problem": lr.matching()}, {"classes": (0, 1)}, {"temperature": 0.1}, {"fallback": lr.PolyaUrn(2)}):
        with pytest.raises(ValueError, match="error_rate takes the place of problem, classes"):
            Detector(horizon=50, error_rate=0.2, **more)
    with pytest.raises(ValueError, match="delta is that of the rule"):
        Detector(rule=lr.ExactTest(lr.matching(), 50), delta=0.1)
    assert Detector(lr.matching(), 50, delta=0.1).guard.rule.delta == 0.1
    with pytest.raises(ValueError, match="error_rate= says how often"):
        Detector(lr.matching(), 50).update(1)


def turning(n: int, turn: int, seed: int = 0) -> list[tuple[dict, bool]]:
    """Two features of which the first decides, and from row ``turn`` on its contrary does."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return [({"a": float(a), "b": float(b)}, bool((a > 0) == (t < turn))) for t, (a, b) in enumerate(X)]


@pytest.mark.parametrize("in_background", [True, False])
def test_inside_river_s_retraining_classifier(in_background: bool) -> None:
    detector = Detector(horizon=1000, error_rate=0.3)
    model = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), detector, train_in_background=in_background)
    first, drifts, warned = model.model, [], []
    for t, (x, y) in enumerate(turning(800, 500)):
        model.predict_one(x)
        model.learn_one(x, y)
        drifts += [t] if detector.drift_detected else []
        warned += [t] if detector.warning_detected else []
    assert len(drifts) == 1
    assert 500 < drifts[0] < 520
    assert 500 < warned[0] < drifts[0]
    assert model.model is not first
    late = [model.predict_one(x) == (not y) for x, y in turning(200, 200, seed=1)]  # the world as it is now
    assert np.mean(late) > 0.9
    assert detector.guard.events[0].since == pytest.approx(501, abs=3)


def test_inside_river_s_adaptive_random_forest() -> None:
    loud, quiet = Detector(horizon=1000, error_rate=0.35, delta=0.05), Detector(horizon=1000, error_rate=0.35)
    model = forest.ARFClassifier(n_models=3, seed=1, grace_period=25, warning_detector=loud, drift_detector=quiet)
    before = None
    for t, (x, y) in enumerate(turning(900, 600)):
        if t == 600:
            before = model.n_drifts_detected()
            old = list(model.data)
        model.predict_one(x)
        model.learn_one(x, y)
    assert before == 0
    drifted = [model.n_drifts_detected(i) > 0 for i in range(3)]
    assert sum(drifted) >= 2  # a tree that sees little of what turned need not have
    assert model.n_warnings_detected() >= 2
    assert [one is not other for one, other in zip(old, model.data, strict=True)] == drifted
    assert isinstance(model.data[0], tree.HoeffdingTreeClassifier)
    late = [model.predict_one(x) == (not y) for x, y in turning(200, 200, seed=1)]
    assert np.mean(late) > 0.8
