"""River's classifiers and detectors against a ``Guard`` driven by hand, bit for bit, and against River's own checks."""

import pickle
import sys
from typing import Any

import numpy as np
import pytest
from river import checks, datasets, dummy, evaluate, linear_model, metrics, naive_bayes, preprocessing, tree
from river.checks import common

import lowregret as lr

Guarded, Detector = lr.adapters.GuardedRiverClassifier, lr.adapters.GuardDriftDetector
SEA = lr.DecisionProblem.from_payoffs([[20, -60], [0, 0]], actions=["sail", "stay"], states=["calm", "storm"])
LABELS = ("calm", "storm")
SEGMENTS = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")


def model_of() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def bayes() -> Any:
    return naive_bayes.GaussianNB()


def days(n: int = 300, turn: int = 150, seed: int = 0) -> list[tuple[dict, str]]:
    """Wind brings storms; from day ``turn`` on, it keeps them away."""
    wind = np.random.default_rng(seed).normal(size=n)
    return [({"wind": float(w)}, LABELS[int((w > 0) == (day < turn))]) for day, w in enumerate(wind)]


def told(model: Any, x: dict, y: Any) -> None:
    """The row is asked, then its label comes."""
    model.policy_one(x)
    model.learn_one(x, y)


def test_river_s_own_checks() -> None:
    model = Guarded(**next(Guarded._unit_test_params()))
    assert model._unit_test_skips() == set()
    names = []
    for check in checks.yield_checks(model):
        check(model.clone())
        names.append(check.__name__)
    assert len(names) > 40
    assert {"check_predict_proba_one", "check_bounded_memory_growth", "check_wrapper_accepts_kwargs"} <= set(names)


def test_river_s_own_checks_with_many_labels() -> None:
    """What the number of labels can change, on its data with seven beside those with two; the rest was seen above."""
    touched = {"check_learn_one", "check_predict_proba_one", "check_classifier_tracks_seen_labels", "check_pickling"}
    model = Guarded(naive_bayes.GaussianNB(), horizon=10_000, classes=(False, True, *SEGMENTS))
    assert model._multiclass
    for check in checks.yield_checks(model):
        if check.__name__ in touched:
            check(model.clone())


def test_river_s_general_checks_of_the_detector() -> None:
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


TRUTHS = {"calm": False, "storm": True}  # River's models of two labels know these two alone
SETTINGS: list[dict[str, Any]] = [
    {"problem": SEA, "horizon": 400},
    {"problem": SEA, "horizon": 400, "classes": (False, True)},
    {"problem": SEA, "horizon": 400, "floor": 0.0, "fallback": lr.PolyaUrn(2), "temperature": 0.05},
    {"problem": SEA, "rule": lr.ExactTest(SEA, 400, delta=0.2, fallback=lr.PolyaUrn(2))},
    {"horizon": 400, "classes": LABELS},
    {"problem": lr.DecisionProblem(SEA.utility), "horizon": 400, "classes": ["calm", "storm"]},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_equals_a_guard_driven_by_hand(settings: dict) -> None:
    is_truth = settings.get("classes") == (False, True)
    made = model_of if is_truth else bayes
    model, inner = Guarded(made(), **settings), made()
    problem = settings.get("problem") or lr.DecisionProblem(np.eye(2), actions=LABELS, states=LABELS)
    if problem.states == ("0", "1"):
        problem = lr.DecisionProblem(problem.utility, states=LABELS)  # they have the names of the classes
    own = {name: settings.get(name) for name in ("rule", "fallback", "temperature")}
    guard, floor = lr.Guard(problem, 400, **own), settings.get("floor", 0.01)
    for x, label in days():
        y = TRUTHS[label] if is_truth else label
        said = inner.predict_proba_one(x)
        law = np.array([said.get(TRUTHS[name] if is_truth else name, 0.0) for name in LABELS])
        law = law * (1 - floor) + floor / 2 if said else np.array([0.5, 0.5])
        advice = guard.advise(law)
        assert list(model.predict_proba_one(x).values()) == advice.law.tolist()
        assert list(model.policy_one(x).values()) == guard.policy().tolist()
        guard.observe(lr.problems.Positions(LABELS.index(label)))
        inner.learn_one(x, y)
        model.learn_one(x, y)
    assert model.guard.state_dict() == guard.state_dict()
    assert model.events == guard.events
    assert model.events or is_truth  # that model learns the turn before it costs much
    assert model.certificate.regret_bound == guard.certificate.regret_bound


def test_predicting_is_pure_and_silence_is_even() -> None:
    silent = Guarded(dummy.NoChangeClassifier(), horizon=10, classes=LABELS)
    assert silent.predict_proba_one({}) == {"calm": 0.5, "storm": 0.5}
    model = Guarded(bayes(), SEA, 400)
    for x, y in days(200):
        before = pickle.dumps(model.guard.state_dict())
        law = model.predict_proba_one(x)
        assert model.predict_one(x) == max(law, key=lambda label: law[label])
        assert model.policy_one(x).keys() == {"sail", "stay"}
        assert pickle.dumps(model.guard.state_dict()) == before
        model.learn_one(x, y)
    assert model.switched == bool(model.events) is True


def test_it_pickles_and_clones() -> None:
    rows = days()
    model = Guarded(bayes(), SEA, 400)
    for x, y in rows[:180]:
        told(model, x, y)
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        for x, y in rows[180:]:
            told(each, x, y)
    assert other.guard.state_dict() == model.guard.state_dict()
    fresh = model.clone()
    assert fresh.guard.state_dict() == Guarded(bayes(), SEA, 400).guard.state_dict()
    assert fresh.problem == SEA
    assert not fresh.events


def test_river_evaluates_it() -> None:
    rows = datasets.Phishing().take(300)
    model = Guarded(tree.HoeffdingTreeClassifier(), horizon=1000, classes=(False, True))
    score = evaluate.progressive_val_score(rows, model, metrics.Accuracy())
    assert score.get() > 0.7


class Breaks(dummy.NoChangeClassifier):
    def learn_one(self, x: dict, y: Any) -> None:
        raise RuntimeError("full")


def test_a_refusal_changes_nothing() -> None:
    model = Guarded(naive_bayes.GaussianNB(), SEA, 5)
    rows = days()
    for x, y in rows[:4]:
        told(model, x, y)
    model.policy_one(rows[4][0])
    inner, guard = pickle.dumps(model.model), model.guard.state_dict()
    for label in ("fog", 1, None, ["calm"]):
        with pytest.raises(ValueError, match=r"y must be one of the labels 'calm', 'storm', got"):
            model.learn_one(rows[4][0], label)
    assert pickle.dumps(model.model) == inner
    assert model.guard.state_dict() == guard
    model.learn_one(*rows[4])
    inner = pickle.dumps(model.model)
    for call in (model.policy_one, model.predict_one, lambda x: model.policy_one(x, id=5)):
        with pytest.raises(ValueError, match="horizon"):
            call(rows[5][0])
    assert pickle.dumps(model.model) == inner
    broken = Guarded(Breaks(), SEA, 5)
    for name in (None, "day"):
        broken.policy_one({}, id=name)
        for _ in range(2):  # it is asked still
            with pytest.raises(RuntimeError, match="full"):
                broken.learn_one({}, "calm", id=name)
    assert broken.guard.regret == 0
    assert broken.guard.state_dict()["clock"] == 0
    acts = Guarded(Breaks(), SEA, 5, fallback=lr.policies.Hedge(SEA, 5))
    with pytest.raises(ValueError, match=r"Hedge acts: policy_one\(x\)"):
        acts.predict_proba_one({})
    assert sum(acts.policy_one({}).values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"horizon": 0}, "horizon must be a whole number >= 1"),
        ({"problem": None}, "classes must list the labels there are"),
        ({"problem": [[1, 0], [0, 1]]}, "problem must be a DecisionProblem, got list"),
        ({"classes": ["calm"]}, "classes must be a list of at least two different labels"),
        ({"classes": ["calm", "storm", "fog"]}, "a label for each of the 2 states"),
        ({"floor": 2}, r"floor must lie in \[0, 1\)"),
        ({"rule": 3}, "rule must be a Rule"),
        ({"rule": lr.ExactTest(SEA, 20)}, "another horizon: 20 against 100"),
    ],
)
@pytest.mark.parametrize("made", [Detector, lambda **settings: Guarded(model_of(), **settings)])
def test_what_is_refused(made: Any, settings: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(**{"problem": SEA, "horizon": 100, **settings})


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match="model must be a River classifier"):
        Guarded(linear_model.LinearRegression(), SEA, 100)
    numbered = Guarded(naive_bayes.GaussianNB(), lr.matching(), 10)  # states without names are 0, 1, ...
    numbered.learn_one({"wind": 1.0}, 1)
    assert set(numbered.predict_proba_one({"wind": 1.0})) == {0, 1}


@pytest.mark.parametrize(("horizon", "lag"), [(1000, 1), (30, 1), (1000, 3)])
def test_a_drift_is_a_switch_and_the_next_update_begins_anew(horizon: int, lag: int) -> None:
    rng = np.random.default_rng(1)
    detector, guard = Detector(SEA, horizon, lag=lag, floor=0.0), lr.Guard(SEA, horizon, lag=lag)
    drifts, since = [], 0
    for t in range(400):
        storm = float(rng.choice([0.1, 0.4]))
        label = int(rng.random() < (storm if t % 200 < 100 else 1 - storm))
        if guard.switched or since == horizon:
            guard, since = lr.Guard(SEA, horizon, lag=lag), 0
        guard.advise([1 - storm, storm])
        guard.observe(LABELS[label])
        since += 1
        detector.update(({"storm": storm, "calm": 1 - storm}, LABELS[label]))
        assert detector.drift_detected == guard.switched
        assert detector.guard.regret == guard.regret
        if guard.switched:
            drifts.append(t)
    assert 100 <= drifts[0] < 200
    assert sum(isinstance(event, lr.Switch) for event in detector.guard.events) == len(drifts)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (0.3, r"x must be a pair \(probabilities, label\)"),
        ((1, 2, 3), r"x must be a pair \(probabilities, label\)"),
        (([0.5, 0.5], "calm"), "probabilities must be a dict"),
        (({"fog": 1.0}, "calm"), "a label of the probabilities must be one of the labels"),
        (({"calm": 0.5, "storm": 0.1}, "calm"), "probabilities must sum to one"),
        (({"calm": "much"}, "calm"), "probabilities must be numbers"),
        (({"calm": None}, "calm"), "probabilities must be numbers"),
        (({"calm": np.nan, "storm": 0.5}, "calm"), "NaN"),
        (({"calm": 1.0}, "fog"), "y must be one of the labels"),
    ],
)
def test_a_bad_pair_changes_nothing(x: Any, says: str) -> None:
    detector = Detector(SEA, 100)
    for _ in range(40):
        detector.update(({"calm": 0.9, "storm": 0.1}, "storm"))
        if detector.drift_detected:
            break
    assert detector.drift_detected
    before = detector.guard.state_dict()
    with pytest.raises(ValueError, match=says):
        detector.update(x)
    assert detector.drift_detected
    assert detector.guard.state_dict() == before


def test_without_river_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lowregret.adapters.river_models")
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lowregret\[river\]'"):
        _ = lr.adapters.GuardDriftDetector
