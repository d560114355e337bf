"""``GuardDriftDetector``: what it promises of errors, exactly; beside a ``Guard``; inside River's own classifiers."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from river import drift, forest, naive_bayes
from river.checks import common

import lowregret as lr
from lowregret.engine import ExactTest, Inputs, QuantalResponse
from lowregret.guard import Alarm, Guard

Detector = lr.adapters.GuardDriftDetector
LABELS = ["calm", "storm"]
SEA = lr.DecisionProblem.from_payoffs([[20, -60], [0, 0]], actions=["sail", "stay"], states=LABELS)


def test_river_s_general_checks() -> None:
    """What River asks of everything that is not a model; its other checks feed ``learn_one``."""
    general = [
        common.check_repr, common.check_str, common.check_clone_same_class, common.check_clone_is_idempotent,
        common.check_init_has_default_params_for_tests, common.check_init_default_params_are_not_mutable,
        common.check_doc, common.check_clone_changes_memory_addresses, common.check_mutate_can_be_idempotent,
        common.check_pickling_supports_roundtrip, common.check_repr_roundtrips_clone,
        common.check_clone_with_new_params_applies, common.check_get_params_matches_signature,
    ]  # fmt: skip
    for params in Detector._unit_test_params():
        for check in general:
            check(Detector(**params))


def largest_chance(hit_N: np.ndarray, rate: float) -> float:
    """The largest chance of a hit, over all worlds in which an error has at most this chance given what came before.

    ``hit_N``: by all sequences of errors, the first error the most significant bit.
    """
    value_N = hit_N.astype(float)
    while len(value_N) > 1:
        right, wrong = value_N[0::2], value_N[1::2]
        value_N = right + rate * np.maximum(wrong - right, 0)  # the world chooses between no chance and all of it
    return float(value_N[0])


@pytest.mark.parametrize(("rate", "delta"), [(0.05, 0.01), (0.2, 0.05), (0.3, 0.2), (0.6, 0.3)])
def test_no_world_with_so_few_errors_sounds_a_false_alarm_more_often_than_stated(rate: float, delta: float) -> None:
    T, test = 13, ExactTest(delta, horizon=13)
    errors_NxT = (np.arange(2**T)[:, None] >> np.arange(T)[::-1]) & 1
    engine = Detector.of_errors(rate, test).guard.engine
    said = Inputs(np.broadcast_to([1 - rate, rate], (*errors_NxT.shape, 2)))
    trace = engine.run(engine.start(len(errors_NxT)), said, errors_NxT)
    alarm_N = trace.alarm_NxT.any(axis=1)
    warned_N = (trace.evidence_NxT >= -math.log(delta) / 2).any(axis=1)
    assert delta / 100 < largest_chance(alarm_N, rate) <= delta
    assert largest_chance(alarm_N, rate) < largest_chance(warned_N, rate) <= math.sqrt(delta)
    assert largest_chance(alarm_N, 0.95) > delta  # errors come more often than stated
    assert not alarm_N[0]  # and never: to be better than stated is no drift

    for row in np.random.default_rng(0).integers(len(errors_NxT), size=10):
        one, warned = Detector.of_errors(rate, test), False
        for error in errors_NxT[row].tolist():
            one.update(error)
            warned |= one.drift_detected or one.warning_detected
            if one.drift_detected:
                break
        assert (one.drift_detected, warned) == (alarm_N[row], warned_N[row])


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("of_errors", [False, True])
def test_a_drift_is_an_alarm_and_the_next_update_begins_anew(of_errors: bool, lag: int) -> None:
    rng, rate, cost = np.random.default_rng(1), 0.2, 0.2008
    if of_errors:
        choice = lr.DecisionProblem([[0, -1], [-cost, -cost]], actions=["trust", "do not"])
        pattern = Guard(choice, test=ExactTest(), response=QuantalResponse((cost - rate) / 50), lag=lag)
        by_hand = Detector(pattern, forecast=(1 - rate, rate), floor=0.0)
        detector = Detector.of_errors(rate) if lag == 1 else by_hand
    else:
        pattern = Guard(SEA, lag=lag)
        detector = Detector(pattern, floor=0.0)
    guard, drifts = pattern.fresh(), []
    for t in range(400):
        storm = rate if of_errors else float(rng.choice([0.1, 0.4]))
        label = int(rng.random() < (storm if t % 200 < 100 else 1 - storm))
        if guard.switched:
            guard = pattern.fresh()
        guard.advise([1 - storm, storm])
        guard.observe(label if of_errors else LABELS[label])
        if of_errors:
            detector.update(bool(label) if t % 2 else label)
        else:
            detector.update(({"storm": storm, "calm": 1 - storm}, LABELS[label]))
        evidence, threshold = guard.evidence
        assert detector.drift_detected == guard.switched
        assert detector.warning_detected == (not guard.switched and evidence >= threshold / 2)
        assert detector.guard.regret == pytest.approx(guard.regret, abs=1e-12)
        drifts += [t] if guard.switched else []
        if t == 150:
            detector = pickle.loads(pickle.dumps(detector))
    assert 100 <= drifts[0] < 200
    assert sum(isinstance(event, Alarm) for event in detector.guard.events) == len(drifts)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (1, r"x must be a pair \(dict of probabilities, label\), got 1: for errors"),
        (([0.5, 0.5], "calm"), "x must be a pair"),
        (({"fog": 1.0}, "calm"), "a label of probabilities must be one of the labels"),
        (({"calm": 0.5, "storm": 0.1}, "calm"), "probabilities must sum to one"),
        (({"calm": 1.0}, "fog"), "the label must be one of the labels"),
    ],
)
def test_a_bad_pair_changes_nothing(x: Any, says: str) -> None:
    detector = Detector(Guard(SEA))
    while not detector.drift_detected:
        detector.update(({"calm": 0.9, "storm": 0.1}, "storm"))
    before = detector.guard.dumps()
    with pytest.raises(ValueError, match=says):
        detector.update(x)
    assert detector.drift_detected
    assert detector.guard.dumps() == before


def test_what_is_no_error_is_refused_and_changes_nothing() -> None:
    detector = Detector.of_errors(0.2)
    before = detector.guard.dumps()
    for x in (0.3, 2, -1, None):
        with pytest.raises(ValueError, match=r"the label must be integers in 0..1"):
            detector.update(x)
    assert detector.guard.dumps() == before


def turning(n: int, turn: int, seed: int = 0) -> list[tuple[dict, bool]]:
    """Two features of which the first decides, and from row ``turn`` on its contrary does."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return [({"a": float(a), "b": float(b)}, bool((a > 0) == (t < turn))) for t, (a, b) in enumerate(X)]


@pytest.mark.parametrize("in_background", [True, False])
def test_inside_river_s_retraining_classifier(in_background: bool) -> None:
    detector = Detector.of_errors(0.3)
    model = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), detector, train_in_background=in_background)
    first, drifts, warned = model.model, [], []
    for t, (x, y) in enumerate(turning(600, 300)):
        model.learn_one(x, y)
        drifts += [t] if detector.drift_detected else []
        warned += [t] if detector.warning_detected else []
    assert len(drifts) == 1
    assert 300 < warned[0] < drifts[0] < 320
    assert model.model is not first
    late = [model.predict_one(x) == (not y) for x, y in turning(200, 200, seed=1)]  # the world as it is now
    assert np.mean(late) > 0.9
    assert detector.guard.events[0].since == pytest.approx(301, abs=3)


def test_inside_river_s_adaptive_random_forest() -> None:
    year = ExactTest(horizon=1000)  # without a horizon more is bet at first, when untrained trees are worse than stated
    own = {name: Detector.of_errors(0.35, year) for name in ("drift_detector", "warning_detector")}
    model = forest.ARFClassifier(n_models=3, seed=1, grace_period=25, **own)
    for t, (x, y) in enumerate(turning(500, 300)):
        assert t != 300 or model.n_drifts_detected() == 0
        model.learn_one(x, y)
    assert model.n_warnings_detected() >= model.n_drifts_detected() >= 2
