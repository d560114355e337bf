"""``GuardedClassifier`` against a ``Guard`` driven by hand, bit for bit, and against scikit-learn's own checks."""

import pickle
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import lowregret as lr

Guarded = lr.GuardedClassifier
CROPS = lr.DecisionProblem.from_payoffs(
    [[30, -5, -20], [8, 10, 2], [-4, 0, 12]], actions=["sow", "wait", "cover"], states=["sun", "cloud", "rain"]
)
COIN = lr.matching()


def weather(n: int = 240, turn: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in time order whose labels follow from them; from row ``turn`` on the outer labels are swapped."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] > 0.4, "sun", np.where(X[:, 0] < -0.4, "rain", "cloud"))
    late = np.where(y == "sun", "rain", np.where(y == "rain", "sun", y))
    return X, np.where(np.arange(n) < turn, y, late)


def told(model: Guarded, X: Any, y: Any, action: Any = None) -> Guarded:
    """Each row is asked, then its label comes."""
    for t in range(len(y)):
        model.policy(X[t : t + 1])
        model.observe(X[t : t + 1], y[t : t + 1], None if action is None else action[t : t + 1])
    return model


@pytest.mark.parametrize(
    "model",
    [
        Guarded(LogisticRegression(), horizon=1000),
        Guarded(make_pipeline(StandardScaler(), GaussianNB()), horizon=50, floor=0.01),
        Guarded(DecisionTreeClassifier(random_state=0), horizon=1000, floor=0.05, temperature=0.1),
    ],
    ids=["logistic", "pipeline", "tree"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_s_own_checks(model: Guarded) -> None:
    done = check_estimator(model, on_skip=None)
    assert {check["check_name"] for check in done if check["status"] != "passed"} <= {"check_array_api_input"}
    assert len(done) > 40


SETTINGS: list[dict[str, Any]] = [
    {"problem": CROPS},
    {"problem": CROPS, "floor": 0.02, "fallback": lr.PolyaUrn(3), "temperature": 0.1},
    {"problem": CROPS, "rule": lr.rules.RegretRate(CROPS, 300, alpha=0.1), "horizon": None},
    {"problem": None},
    {"problem": lr.DecisionProblem(CROPS.utility)},  # its states have no names: the labels in sorted order
    {"problem": lr.DecisionProblem(CROPS.utility), "classes": ["sun", "cloud", "rain"]},
]
ORDER = [["sun", "cloud", "rain"]] * 3 + [["cloud", "rain", "sun"]] * 2 + [["sun", "cloud", "rain"]]


@pytest.mark.parametrize("which", range(len(SETTINGS)))
def test_equals_a_guard_driven_by_hand(which: int) -> None:
    settings, order = {"horizon": 300, **SETTINGS[which]}, ORDER[which]
    X, y = weather()
    model = Guarded(LogisticRegression(), **settings).fit(X[:80], y[:80])

    inner = LogisticRegression().fit(X[:80], y[:80])
    problem = settings["problem"] or lr.DecisionProblem(np.eye(3), actions=order, states=order)
    if problem.states == ("0", "1", "2"):
        problem = lr.DecisionProblem(problem.utility, states=order)  # they have the names of the classes
    own = {name: settings.get(name) for name in ("rule", "fallback", "temperature")}
    guard = lr.Guard(problem, 300, **own)
    columns, floor = [inner.classes_.tolist().index(label) for label in order], settings.get("floor", 0.0)
    for t in range(80, 240):
        law = inner.predict_proba(X[t : t + 1])[0, columns]
        if floor:
            law = law * (1 - floor) + floor / 3
        advice = guard.advise(law).law
        assert model.predict_proba(X[t : t + 1])[0].tolist() == [advice[order.index(label)] for label in model.classes_]
        assert model.policy(X[t : t + 1])[0].tolist() == guard.policy().tolist()
        guard.observe(lr.problems.Positions(order.index(y[t])))
        model.observe(X[t : t + 1], y[t : t + 1])
    assert model.guard_.state_dict() == guard.state_dict()
    assert model.events_ == guard.events
    assert model.events_ or which == 4  # where the payoffs are those of other labels
    assert model.certificate_.regret_bound == guard.certificate.regret_bound

    again = told(Guarded(LogisticRegression(), **settings).fit(X[:80], y[:80]), X[80:], y[80:])
    assert again.guard_.state_dict() == guard.state_dict()


def test_states_without_names_are_called_as_the_classes_are() -> None:
    X, y = weather()
    shop = lr.DecisionProblem.from_payoffs([[30, -5, -20], [8, 10, 2], [-4, 0, 12]])
    model = Guarded(LogisticRegression(), shop, 300).fit(X[:80], y[:80])
    assert model.problem_.states == ("cloud", "rain", "sun")
    assert model.problem_.in_payoffs(0.5) == shop.in_payoffs(0.5)
    model.guard_.advise({"rain": 0.2, "sun": 0.7, "cloud": 0.1})
    model.guard_.observe("rain")
    model.guard_.advise([0.1, 0.2, 0.7])
    with pytest.raises(ValueError, match="state must be one of"):
        model.guard_.observe(1)
    for bound in (
        {"fallback": lr.policies.Hedge(shop, 300)},
        {"rule": lr.ExactTest(shop, 300)},
    ):  # made for it as it is
        assert Guarded(LogisticRegression(), shop, 300, **bound).fit(X[:80], y[:80]).problem_ == shop


def test_predicting_is_pure_and_a_row_does_not_see_the_others() -> None:
    X, y = weather()
    for until in (100, 220):  # before a switch and after it
        model = told(Guarded(LogisticRegression(), CROPS, 300).fit(X[:80], y[:80]), X[80:until], y[80:until])
        assert model.switched_ == (until > 160)
        before = model.guard_.state_dict()
        laws, mixed, guesses = model.predict_proba(X[:7]), model.policy(X[:7]), model.predict(X[:7])
        assert model.guard_.state_dict() == before
        for i in range(7):
            np.testing.assert_allclose(model.predict_proba(X[i : i + 1]), laws[i : i + 1], atol=1e-15)
            np.testing.assert_allclose(model.policy(X[i : i + 1]), mixed[i : i + 1], atol=1e-13)
        assert guesses.tolist() == model.classes_[laws.argmax(axis=1)].tolist()
        if until == 100:
            assert laws.tolist() == model.estimator_.predict_proba(X[:7]).tolist()


@pytest.mark.parametrize(("every", "window"), [(None, None), (25, None), (40, 60)])
def test_walking_forward_equals_a_literal_loop(every: int | None, window: int | None) -> None:
    X, y = weather()
    model = Guarded(LogisticRegression(), CROPS)
    found = model.walk_forward(X, y, train=80, refit_every=every, window=window)
    guard, order = lr.Guard(CROPS, 160), ["sun", "cloud", "rain"]
    inner: Any = None
    fitted, said, earned = [], [], []
    for t in range(80, 240):
        if inner is None or (every is not None and (t - 80) % every == 0):
            since = 0 if window is None else max(0, t - window)
            inner = LogisticRegression().fit(X[since:t], y[since:t])
            fitted.append(t)
            block = inner.predict_proba(X[t : t + (every or 160)])  # a block, as a product of matrices rounds
            start = t
        said.append(block[t - start][[inner.classes_.tolist().index(label) for label in order]])
        guard.advise(said[-1])
        earned.append(float(CROPS.in_payoffs(guard.policy() @ CROPS.utility[:, order.index(y[t])])))
        guard.observe(lr.problems.Positions(order.index(y[t])))
    assert found.events
    assert found.refits == tuple(fitted)
    assert found.model_probs_NxS.tolist() == [law.tolist() for law in said]
    assert found.events == tuple(guard.events)
    assert [order[s] for s in found.states] == y[80:].tolist()
    np.testing.assert_allclose(found.payoffs, earned, rtol=1e-12)
    assert model.guard_.state_dict() == guard.state_dict()

    replayed = lr.backtest(CROPS, found.model_probs_NxS, lr.problems.Positions(found.states))
    np.testing.assert_allclose(found.payoffs.mean(), replayed.earned["guard"], rtol=1e-12)
    np.testing.assert_allclose(found.share, replayed.share[0], atol=1e-12)
    assert found.used_fallback.any() == bool(found.events)


def test_a_walk_leaves_a_classifier_that_goes_on() -> None:
    X, y = weather()
    on, whole = (Guarded(LogisticRegression(), CROPS, 160) for _ in range(2))
    on.walk_forward(X[:200], y[:200], train=80)
    told(on, X[200:], y[200:])
    whole.walk_forward(X, y, train=80)
    assert on.events_ == whole.events_
    with pytest.raises(ValueError, match="horizon"):
        whole.predict_proba(X[:1])


def test_it_pickles_and_clones() -> None:
    X, y = weather()
    model = Guarded(LogisticRegression(C=0.5), CROPS, 300, floor=0.01).fit(X[:80], y[:80])
    told(model, X[80:170], y[80:170])
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        told(each, X[170:], y[170:])
    assert other.guard_.state_dict() == model.guard_.state_dict()
    fresh = clone(model)
    assert not hasattr(fresh, "guard_")
    assert fresh.get_params()["estimator__C"] == 0.5
    assert fresh.problem == CROPS
    again = fresh.fit(X[:80], y[:80])
    assert again.predict_proba(X).tolist() == model.fit(X[:80], y[:80]).predict_proba(X).tolist()


def test_a_search_goes_through_it() -> None:
    X, y = weather()
    search = GridSearchCV(Guarded(LogisticRegression(), horizon=10), {"estimator__C": [1e-6, 10.0]}, cv=2)
    assert search.fit(X[:80], y[:80]).best_params_ == {"estimator__C": 10.0}


@pytest.mark.parametrize(
    "labels",
    [[3, 5, 9], ["b", "a", "c"], [0.0, 1.0, 2.0], pd.Categorical(["x", "y", "z"]).tolist(), [10, 2, 1]],
)
def test_labels_of_every_kind_and_frames(labels: list) -> None:
    X, y = weather()
    named = pd.Series(np.array(labels)[np.unique(y, return_inverse=True)[1]])
    frame = pd.DataFrame(X, columns=["wind", "sea", "sky"])
    model = Guarded(LogisticRegression(), horizon=160).fit(frame[:80], named[:80])
    assert model.feature_names_in_.tolist() == ["wind", "sea", "sky"]
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(frame)) <= set(labels)
    told(model, frame[80:], named[80:])
    found = Guarded(LogisticRegression()).walk_forward(frame, named, train=80)
    assert [event.step for event in found.events] == [event.step for event in model.events_]


def test_two_truths_and_labels_yet_to_come() -> None:
    X, y = weather()
    truth = Guarded(LogisticRegression(), COIN, 300).fit(X[:80], X[:80, 0] > 0)
    assert truth.predict([[2.0, 0, 0]]).tolist() == [True]
    assert truth.states_.tolist() == [0, 1]
    two = y[:80] != "cloud"
    model = Guarded(LogisticRegression(), CROPS, 300, classes=["sun", "cloud", "rain"]).fit(X[:80][two], y[:80][two])
    assert model.predict_proba(X[:1])[0, 0] == 0  # of "cloud", the first in sorted order: none was seen
    assert model.observe(X[:1], ["cloud"]).events_[0].excluded
    ten = lr.DecisionProblem(np.eye(11))
    many = Guarded(DummyClassifier(), ten, 5).fit(np.zeros((22, 1)), [str(i % 11) for i in range(22)])
    assert many.states_.tolist() == [int(label) for label in many.classes_]  # by name, though "10" sorts before "2"


def test_a_floor_forgives_models_that_are_sure() -> None:
    X, y = weather(turn=240)
    sure = told(Guarded(DecisionTreeClassifier(random_state=0), CROPS, 300).fit(X[:40], y[:40]), X[40:], y[40:])
    wrong = int((sure.estimator_.predict(X[40:]) != y[40:]).argmax())
    assert sure.events_[0].step == wrong + 1
    assert sure.events_[0].excluded
    calm = Guarded(DecisionTreeClassifier(random_state=0), CROPS, 300, floor=0.05).fit(X[:40], y[:40])
    assert not told(calm, X[40:], y[40:]).switched_


class Bare:
    """A model from nowhere: no ``fit``, no ``classes_``, no parameters."""

    def predict_proba(self, X: Any) -> list:
        return [[0.2, 0.3, 0.5]] * len(X)


def test_any_object_that_predicts() -> None:
    X, y = weather()
    bare = Guarded(Bare(), CROPS, 300).fit(X, y)
    assert bare.classes_.tolist() == ["cloud", "rain", "sun"]
    assert bare.predict(X[:2]).tolist() == ["sun", "sun"]
    assert told(bare, X[:3], y[:3]).guard_.regret >= 0
    ready = LogisticRegression().fit(X[:80], y[:80])
    frozen = Guarded(FrozenEstimator(ready), CROPS, 300).fit(X[80:], y[80:])
    assert frozen.predict_proba(X).tolist() == ready.predict_proba(X).tolist()


X0, Y0 = weather()


@pytest.mark.parametrize(
    ("settings", "y", "says"),
    [
        ({"horizon": 0}, Y0, "horizon must be a whole number"),
        ({"problem": "crops"}, Y0, "problem must be a DecisionProblem, got str"),
        ({"problem": COIN}, Y0, r"labels \['cloud', 'rain', 'sun'\], the problem the states \['0', '1'\]"),
        ({"problem": CROPS}, np.where(Y0 == "sun", "fog", Y0), r"classes=\[...\] says which label is which state"),
        ({"classes": ["sun", "rain"]}, Y0, r"y has labels \['cloud'\] that are not among classes"),
        ({"classes": "sun"}, Y0, "classes must be a list of at least two different labels"),
        ({"classes": ["sun", "sun", "rain"]}, Y0, "classes must be a list of at least two different labels"),
        ({"classes": 3}, Y0, "classes must be a list of at least two different labels"),
        (
            {"problem": CROPS, "classes": ["rain", "cloud", "sun"]},
            Y0,
            "classes must be in the order of the problem's states",
        ),
        ({"problem": COIN, "classes": ["sun", "rain", "cloud"]}, Y0, "a label for each of the 2 states"),
        ({"floor": 1.0}, Y0, r"floor must lie in \[0, 1\)"),
        ({"floor": -0.1}, Y0, "floor must be a finite number >= 0"),
        ({"rule": lr.rules.VRegret(300)}, Y0, "rule must be a Rule for a problem"),
        ({"rule": lr.ExactTest(CROPS, 20), "horizon": 300}, Y0, "another horizon: 20 against 300"),
        ({}, np.full(len(Y0), "sun"), "one class"),
        ({}, np.linspace(0, 1, len(Y0)), "Unknown label type"),
        ({}, None, "requires y to be passed"),
    ],
)
def test_what_fit_refuses(settings: dict, y: Any, says: str) -> None:
    model = Guarded(LogisticRegression(), **{"horizon": 300, **settings})
    with pytest.raises(ValueError, match=says):
        model.fit(X0, y)
    assert not hasattr(model, "guard_")


def test_actions_that_were_taken_and_a_horizon_that_is_over() -> None:
    X, y = weather()
    shop = lr.DecisionProblem.from_payoffs([[60, -20, 90], [0, 0, 0]], ["open", "shut"], sorted(set(y.tolist())))
    model = Guarded(LogisticRegression(), shop, horizon=60).fit(X[:100], y[:100])
    taken = np.random.default_rng(0).integers(0, 2, 60)
    named = clone(model).fit(X[:100], y[:100])
    told(model, X[100:140], y[100:140], taken[:40])
    unsaid = told(clone(model).fit(X[:100], y[:100]), X[100:140], y[100:140])
    assert np.isnan(unsaid.guard_.realised_regret)
    states = np.array([shop.states.index(label) for label in y[100:140]])
    earned = shop.utility[:, states].sum(axis=1)
    asked = (earned.max() - shop.utility[taken[:40], states].sum()) / 40
    assert model.guard_.realised_regret == pytest.approx(asked, abs=1e-12)
    told(named, X[100:140], y[100:140], [shop.actions[a] for a in taken[:40]])
    assert named.guard_.realised_regret == model.guard_.realised_regret
    before = pickle.dumps(model)
    for bad in (taken[:3], [2] * 20, ["ajar"] * 20, [0.5] * 20, [True] * 20, [-1] * 20, "open", 0, [[0]] * 20):
        with pytest.raises(
            ValueError, match=r"action must (have shape \(20,\)|be integers in|lie in 0..1|be one of the actions)"
        ):
            model.observe(X[140:160], y[140:160], action=bad)
    assert pickle.dumps(model) == before
    told(model, X[140:160], y[140:160])
    for call in (model.predict_proba, model.policy, lambda rows: model.policy(rows, id="next")):
        with pytest.raises(ValueError, match=r"horizon of 60 steps is over: start anew \(guard_.restart\(\) opens"):
            call(X[160:161])
    model.guard_.restart()
    assert told(model, X[160:161], y[160:161]).guard_.steps == 1


def test_what_cannot_predict_is_refused() -> None:
    class Short(Bare):
        def predict_proba(self, X: Any) -> list:
            return [[0.5, 0.5]] * len(X)

    class Lost(Bare):
        classes_ = np.array(["sun", "fog", "rain"])

    class Logits(Bare):
        def predict_proba(self, X: Any) -> list:
            return [[2.0, -1.0, 0.0]] * len(X)

    with pytest.raises(ValueError, match="estimator must have predict_proba"):
        Guarded(StandardScaler(), horizon=300).fit(X0, Y0)
    for model, says in ((Short(), r"shape \(240, 3\)"), (Lost(), "got 'fog'"), (Logits(), "if these are logits")):
        with pytest.raises(ValueError, match=says):
            Guarded(model, horizon=300).fit(X0, Y0).predict_proba(X0)
    acts = Guarded(LogisticRegression(), CROPS, 300, fallback=lr.policies.Hedge(CROPS, 300)).fit(X0, Y0)
    with pytest.raises(ValueError, match=r"Hedge acts: policy\(X\)"):
        acts.predict_proba(X0)
    assert acts.policy(X0).shape == (240, 3)
    found = acts.set_params(horizon=240).walk_forward(X0, Y0, train=80)
    assert found.probs_NxS.tolist() == found.model_probs_NxS.tolist()  # for information: Hedge goes by no law


def test_a_refusal_changes_nothing() -> None:
    model = told(Guarded(LogisticRegression(), CROPS, 100).fit(X0[:80], Y0[:80]), X0[80:90], Y0[80:90])
    before, guard = model.guard_.state_dict(), model.guard_
    model.policy(X0[:91])
    times = pd.DataFrame(X0[:4], index=pd.to_datetime(["2024-01-03", "2024-01-01", "2024-01-02", "2024-01-04"]))
    bad: list[tuple[Any, Any, str]] = [
        (X0[:4], [*Y0[:3], "fog"], r"y must be one of the labels 'sun', 'cloud', 'rain', got 'fog'"),
        (X0[:91], Y0[:91], "X must be one row, .* got 91: .* walk_forward"),
        (X0[:0], Y0[:0], "0 sample|X must be one row, .* got 0: "),
        (X0[91:92], Y0[91:92], "X must be one row, which predict_proba, .* got a row that was not: "),
        (X0[:4], Y0[:3], "inconsistent"),
        (X0[:1, :2], Y0[:1], "got a row that was not"),
        (times, Y0[:4], "in time order"),
    ]
    for X, y, says in bad:
        with pytest.raises(ValueError, match=says):
            model.observe(X, y)
        assert model.guard_.state_dict() == before
    for settings, says in (({"train": 240}, "train"), ({"train": 8, "refit_every": 0}, "refit_every")):
        with pytest.raises(ValueError, match=says):
            model.walk_forward(X0, Y0, **settings)
    with pytest.raises(ValueError, match="horizon"):  # at its last row
        model.walk_forward(X0[:181], Y0[:181], train=80)
    assert model.guard_.state_dict() == before
    assert model.guard_ is guard
    assert model.observe(X0[:1], Y0[:1]).guard_.steps == 11  # which was asked, and still is


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lowregret.adapters.scikit_learn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lowregret\[sklearn\]'"):
        _ = lr.GuardedClassifier
