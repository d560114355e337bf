"""``GuardedRiverClassifier`` beside a ``Guard`` that is driven by hand, bit for bit, and under River's own checks."""

import pickle
from typing import Any

import numpy as np
import pytest
from river import checks, drift, dummy, ensemble, evaluate, linear_model, metrics, naive_bayes, preprocessing

import lowregret as lr
from lowregret.engine import Actions, ExactTest, QuantalResponse, References
from lowregret.guard import Guard
from lowregret.problems import Positions

from .beside import assert_same

Guarded = lr.adapters.GuardedRiverClassifier
LABELS = ("calm", "storm")
SEA = lr.DecisionProblem.from_payoffs([[20, -60], [0, 0]], actions=["sail", "stay"], states=LABELS)


def days(n: int = 300, turn: int = 150, seed: int = 0) -> list[tuple[dict, str]]:
    """Wind brings storms; from day ``turn`` on, it keeps them away."""
    wind = np.random.default_rng(seed).normal(size=n)
    return [({"wind": float(w)}, LABELS[int((w > 0) == (day < turn))]) for day, w in enumerate(wind)]


def test_river_s_own_checks() -> None:
    model = Guarded(**next(Guarded._unit_test_params()))
    assert model._unit_test_skips() == set()
    names = []
    for check in checks.yield_checks(model):
        check(model.clone())
        names.append(check.__name__)
    assert len(names) > 40
    assert {"check_predict_proba_one", "check_bounded_memory_growth", "check_wrapper_accepts_kwargs"} <= set(names)


TRUTHS = {"calm": False, "storm": True}  # River's models of two labels know these two alone
BOOLEAN = preprocessing.StandardScaler() | linear_model.LogisticRegression()
SETTINGS: dict[str, dict[str, Any]] = {
    "guessing": {"classes": LABELS},
    "booleans": {"guard": Guard(SEA), "classes": (False, True)},
    "quantal": {"guard": Guard(SEA, fallback=lr.PolyaUrn(2), response=QuantalResponse(0.05)), "floor": 0.0},
    "unnamed": {"guard": Guard(lr.DecisionProblem(SEA.utility)), "classes": list(LABELS)},
    "everything": {"guard": Guard(SEA, against=Actions(per=2) + References("desk"), test=ExactTest(horizon=300))},
}


@pytest.mark.parametrize("which", SETTINGS)
def test_equals_a_guard_driven_by_hand(which: str) -> None:
    settings, floor = SETTINGS[which], SETTINGS[which].get("floor", 0.01)
    inner = BOOLEAN.clone() if which == "booleans" else naive_bayes.GaussianNB()
    model = Guarded(inner.clone(), **settings)
    guard = settings["guard"].fresh() if "guard" in settings else Guard(lr.DecisionProblem(np.eye(2), LABELS, LABELS))
    for t, (x, label) in enumerate(days()):
        y = TRUTHS[label] if which == "booleans" else label
        labels = tuple(TRUTHS.values()) if which == "booleans" else LABELS
        said = inner.predict_proba_one(x)
        probs = np.array([said.get(name, 0.0) for name in labels])
        probs = probs * (1 - floor) + floor / 2 if said else np.full(2, 0.5)
        side: dict[str, Any] = {}
        if which == "everything":
            side = {"context": t % 2, "scale": 1 - t % 3 / 4, "references": {"desk": {"storm": 0.3, "calm": 0.7}}}
        advice = guard.advise(probs, **side)
        assert list(model.policy_one(x, **side).values()) == advice.policy.tolist()
        assert model.predict_proba_one(x, **side) == dict(zip(labels, advice.forecast.tolist(), strict=True))
        guess = advice.action if which == "guessing" else advice.forecast.argmax()
        assert model.predict_one(x, **side) == labels[guess]
        guard.observe(Positions(LABELS.index(label)))
        inner.learn_one(x, y)
        model.learn_one(x, y, **side)
    assert_same(model.guard, guard)
    assert model.guard.events or which == "booleans"  # that model learns the turn before it costs much


def test_clones_are_fresh_and_tell_the_same_listener() -> None:
    heard: list[Any] = []
    model = Guarded(naive_bayes.GaussianNB(), Guard(SEA, on_event=heard.append))
    for x, y in days(180):
        model.policy_one(x)
        model.learn_one(x, y)
    assert heard == model.guard.events != []
    fresh = model.clone()
    assert (fresh.guard.steps, fresh.guard.problem, fresh.guard.on_event) == (0, SEA, heard.append)


def by_hand(rows: list[tuple[dict, str]], inner: Any) -> Guard:
    """The label of row t - 5 comes before row t is asked, as in River."""
    guard = Guard(SEA, lag=5)
    for t in range(len(rows) + 5):
        if t >= 5:
            guard.observe(rows[t - 5][1])
            inner.learn_one(*rows[t - 5])
        if t < len(rows):
            said = inner.predict_proba_one(rows[t][0])
            guard.advise([said.get(label, 0.0) for label in LABELS] if said else [0.5, 0.5])
    return guard


def test_river_evaluates_it_with_a_delay() -> None:
    rows = days()
    on_time = Guarded(naive_bayes.GaussianNB(), Guard(SEA))
    assert evaluate.progressive_val_score(rows[:150], on_time, metrics.Accuracy()).get() > 0.9
    assert on_time.guard.steps == 150
    guard = by_hand(rows, naive_bayes.GaussianNB())
    named = [(x, y, {"id": f"row {i}"}) for i, (x, y) in enumerate(rows)]
    for stream in (rows, named):
        late = Guarded(naive_bayes.GaussianNB(), Guard(SEA, lag=5), floor=0.0)
        evaluate.progressive_val_score(stream, late, metrics.Accuracy(), delay=5)
        assert_same(late.guard, guard)


def test_river_s_wrappers_and_pipelines_around_it() -> None:
    rows, turned = days(120), days()
    wrapped = drift.DriftRetrainingClassifier(Guarded(naive_bayes.GaussianNB(), Guard(SEA)), train_in_background=False)
    evaluate.progressive_val_score(rows, wrapped, metrics.Accuracy())  # it asks again as the label comes
    assert wrapped.model.guard.steps == 120
    detector = lr.adapters.GuardDriftDetector.of_errors(0.2)
    retrained = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), detector, train_in_background=False)
    late, inner = Guarded(retrained, Guard(SEA, lag=5), floor=0.0), retrained.clone()
    for t in range(305):  # labels come after five more rows, by their ids
        if t >= 5:
            late.learn_one(*turned[t - 5], id=t - 5)
        if t < 300:
            late.policy_one(turned[t][0], id=t)
    assert_same(late.guard, by_hand(turned, inner))
    assert inner.drift_detector.guard.switched or inner.drift_detector.guard.episodes > 1
    bagged = ensemble.BaggingClassifier(Guarded(naive_bayes.GaussianNB(), Guard(SEA)), n_models=2, seed=1)
    for x, y in rows:
        bagged.predict_one(x)
        bagged.learn_one(x, y)  # each learns it several times, and has played it once
    assert all(60 < each.guard.steps < 100 for each in bagged.models)  # 1 - 1/e of 120 is 76

    line = preprocessing.StandardScaler() | Guarded(naive_bayes.GaussianNB(), Guard(SEA), floor=0.0)
    guard, scaler, inner = Guard(SEA), preprocessing.StandardScaler(), naive_bayes.GaussianNB()
    for x, y in rows:  # the scaler learns as the label comes: the row is no longer what was asked
        said = inner.predict_proba_one(scaler.transform_one(x))
        guard.advise([said.get(label, 0.0) for label in LABELS] if said else [0.5, 0.5])
        guard.observe(y)
        scaler.learn_one(x)
        inner.learn_one(scaler.transform_one(x), y)
        line.predict_one(x)
        line.learn_one(x, y)
    assert_same(line["GuardedRiverClassifier"].guard, guard)


class Breaks(dummy.NoChangeClassifier):
    def learn_one(self, x: dict, y: Any) -> None:
        raise RuntimeError("full")


def test_a_refusal_changes_nothing() -> None:
    model = Guarded(naive_bayes.GaussianNB(), Guard(SEA))
    model.learn_one({"wind": 1.0}, "storm")  # nobody asked: the model learns it alone
    assert model.guard.steps == 0
    model.policy_one({"wind": 1.0})
    inner, before = pickle.dumps(model.model), model.guard.dumps()
    for label in ("fog", 1, None):
        with pytest.raises(ValueError, match=r"y must be one of the labels 'calm', 'storm', got"):
            model.learn_one({"wind": 1.0}, label)
    with pytest.raises(ValueError, match="context was not declared"):
        model.policy_one({"wind": 1.0}, context=1)
    with pytest.raises(ValueError, match="a label of probabilities must be one of the labels"):
        model.policy_one({"wind": 1.0}, references={"desk": {"fog": 1.0}})
    assert (pickle.dumps(model.model), model.guard.dumps()) == (inner, before)
    broken = Guarded(Breaks(), Guard(SEA))
    for name in (None, "day"):
        broken.policy_one({}, id=name)
        for _ in range(2):  # it waits still
            with pytest.raises(RuntimeError, match="full"):
                broken.learn_one({}, "calm", id=name)
        assert (broken.guard.steps, len(broken.guard.waiting)) == (0, 1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "classes must list the labels unless a guard is given"),
        ({"classes": ["calm", "calm"]}, "must have different names"),
        (
            {"guard": Guard(SEA), "classes": ["fog", "calm", "storm"]},
            "a label for each of the states",
        ),
        ({"guard": Guard(SEA), "floor": 2}, r"floor must lie in \[0, 1\)"),
    ],
)
def test_what_is_refused(settings: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Guarded(**{"model": naive_bayes.GaussianNB(), **settings})


def test_labels_are_in_the_order_that_is_stated() -> None:
    """Where states have no names; those that have are matched by name."""
    model, payoffs = naive_bayes.GaussianNB(), [[0, 10], [1, 0]]
    guard = lr.Guard(lr.DecisionProblem.from_payoffs(payoffs))
    assert Guarded(model, guard, classes=[1, 0])._labels.labels == (1, 0)
    with pytest.raises(ValueError, match="a label for each of the states"):
        Guarded(model, guard, classes=[0])
