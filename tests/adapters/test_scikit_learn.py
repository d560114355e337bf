"""``GuardedClassifier`` beside a ``Guard`` that is driven by hand, bit for bit, and under scikit-learn's own checks."""

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
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import lowregret as lr
from lowregret.engine import Actions, ExactTest, NoTest, QuantalResponse, References, UseReference
from lowregret.guard import Guard
from lowregret.problems import Positions

from .beside import assert_same

Guarded = lr.GuardedClassifier
STATES = ["sun", "cloud", "rain"]
PAYOFFS = [[30, -5, -20], [8, 10, 2], [-4, 0, 12]]
CROPS = lr.DecisionProblem.from_payoffs(PAYOFFS, actions=["sow", "wait", "cover"], states=STATES)
COIN = lr.matching()


def weather(n: int = 240, turn: int = 130, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in time order whose labels follow from the first column; from row ``turn`` on the outer labels are swapped.

    The others are a context of three, and how much the row counts.
    """
    rng = np.random.default_rng(seed)
    wind = rng.normal(size=n)
    y = np.where(wind > 0.4, "sun", np.where(wind < -0.4, "rain", "cloud"))
    late = np.where(y == "sun", "rain", np.where(y == "rain", "sun", y))
    X = np.stack([wind, rng.integers(3, size=n), rng.choice([0.5, 0.75, 1.0], size=n)], axis=1)
    return X, np.where(np.arange(n) < turn, y, late)


X0, Y0 = weather()
DESK = GaussianNB().fit(X0[130:], Y0[130:])  # knows what is to come


def observed(model: Guarded, X: Any, y: Any) -> Guarded:
    """Each row is asked, then its label comes."""
    for t in range(len(y)):
        model.policy(X[t : t + 1])
        model.observe(y[t : t + 1])
    return model


LINE = make_pipeline(StandardScaler(), GaussianNB())


@pytest.mark.parametrize("model", [Guarded(LogisticRegression()), Guarded(LINE, floor=0.01)], ids=["plain", "pipeline"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_s_own_checks(model: Guarded) -> None:
    done = check_estimator(model, on_skip=None)
    assert {check["check_name"] for check in done if check["status"] != "passed"} <= {"check_array_api_input"}
    assert len(done) > 40


def in_order(order: list[str], names: Any, probs_NxK: np.ndarray) -> np.ndarray:
    return probs_NxK[:, [list(names).index(label) for label in order]]


def side_of(guard: Guard, t: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is given beside row t, as a guard takes it and as the classifier does."""
    side: dict[str, Any] = {"context": int(X0[t, 1]), "scale": X0[t, 2]} if guard.against.contexts else {}
    if guard.problem.is_changing:
        side["payoffs"] = np.array(PAYOFFS) * (1 + t % 2) / 2
    rows = {name: [part] for name, part in side.items()}
    if guard.against.references:
        said_1xK = DESK.predict_proba(X0[t : t + 1])
        side["references"] = {"desk": in_order(STATES, DESK.classes_, said_1xK)[0]}
        rows["references"] = {"desk": said_1xK}
    return side, rows


H = ExactTest(horizon=300)
BLANK = lr.DecisionProblem(CROPS.utility)  # its states have no names: they are the labels in sorted order
GUARDS: dict[str, Any] = {
    "guessing": None,
    "default": Guard(CROPS),
    "quantal": Guard(CROPS, test=H, fallback=lr.PolyaUrn(3), response=QuantalResponse(0.1)),
    "untested": Guard(CROPS, test=NoTest()),
    "unnamed": Guard(BLANK, test=ExactTest(delta=0.3)),
    "champion": Guard(CROPS, against=References("desk"), fallback=UseReference("desk")),
    "everything": Guard(CROPS, against=Actions(per=3) + References("desk"), test=H, lag=2),
    "changing": Guard(CROPS.changing(-40, 60), lag=3),
}


@pytest.mark.parametrize("which", GUARDS)
def test_equals_a_guard_driven_by_hand(which: str) -> None:
    pattern, floor = GUARDS[which], 0.02 if which == "quantal" else 0.0
    order = sorted(STATES) if which in ("guessing", "unnamed") else STATES
    inner = LogisticRegression().fit(X0[:80], Y0[:80])
    guard = Guard(lr.DecisionProblem(np.eye(3), order, order)) if pattern is None else pattern.fresh()
    heard: list[Any] = []
    if pattern is not None:
        pattern.on_event = heard.append
    model = Guarded(LogisticRegression(), pattern, floor).fit(X0[:80], Y0[:80])
    for t in range(80, 240):
        row = X0[t : t + 1]
        probs = in_order(order, inner.classes_, inner.predict_proba(row))[0]
        side, beside = side_of(guard, t)
        advice = guard.advise(probs * (1 - floor) + floor / 3 if floor else probs, **side)
        said = {"id": f"day {t}" if guard.lag > 1 else None, **beside}  # asked three times, it is one step
        assert model.policy(row, **said).tolist() == [advice.policy.tolist()]
        probs_K = in_order(sorted(STATES), order, advice.forecast[None])[0]
        assert model.predict_proba(row, **said).tolist() == [probs_K.tolist()]
        guess = order[advice.action] if pattern is None else sorted(STATES)[probs_K.argmax()]
        assert model.predict(row, **said).tolist() == [guess]
        if t - 80 >= guard.lag - 1:
            label = Y0[t - guard.lag + 1]
            guard.observe(Positions(order.index(label)), action=t % 3)
            model.observe(label, action=guard.problem.actions[t % 3])  # in order
    assert_same(model.guard_, guard)
    assert model.guard_.events or which in ("untested", "unnamed")
    assert heard == (model.guard_.events if pattern is not None else [])
    assert pattern is None or (pattern.steps, pattern.events) == (0, [])  # it is a pattern


@pytest.mark.parametrize("until", [100, 220], ids=["before an alarm", "after it"])
def test_several_rows_are_looked_at_and_no_step_is_taken(until: int) -> None:
    model = observed(Guarded(LogisticRegression(), Guard(CROPS)).fit(X0[:80], Y0[:80]), X0[80:until], Y0[80:until])
    before = model.guard_.dumps()
    probs, mixed = model.predict_proba(X0[:7]), model.policy(X0[:7])
    assert model.guard_.dumps() == before
    for i in range(7):
        np.testing.assert_allclose(model.predict_proba(X0[i : i + 1]), probs[i : i + 1], atol=1e-15)
        np.testing.assert_allclose(model.policy(X0[i : i + 1]), mixed[i : i + 1], atol=1e-13)
    assert model.guard_.switched == (not np.allclose(probs, model.model_.predict_proba(X0[:7]), atol=1e-15))


def test_predict_is_the_action_where_actions_are_the_labels() -> None:
    y = np.where(Y0 == "sun", "sun", "rain")
    costs = lr.DecisionProblem.from_payoffs([[0, -9], [-1, 0]], actions=["sun", "rain"], states=["sun", "rain"])
    model = Guarded(LogisticRegression(), Guard(costs)).fit(X0[:130], y[:130])
    rain = model.predict_proba(X0)[:, 0]
    assert model.predict(X0).tolist() == np.where(rain >= 0.1, "rain", "sun").tolist()
    assert (model.predict(X0) != model.model_.predict(X0)).any()  # which takes the likelier one
    plain = Guarded(LogisticRegression()).fit(X0[:130], y[:130])
    assert plain.predict(X0).tolist() == model.model_.predict(X0).tolist()


def test_it_is_cloned_searched_and_ends_a_pipeline() -> None:
    heard: list[Any] = []
    model = Guarded(LogisticRegression(C=0.5), Guard(CROPS, on_event=heard.append), floor=0.01)
    fresh = clone(model.fit(X0[:80], Y0[:80]))
    assert (fresh.model.C, fresh.floor, fresh.guard.problem, hasattr(fresh, "guard_")) == (0.5, 0.01, CROPS, False)
    observed(fresh.fit(X0[:80], Y0[:80]), X0[80:], Y0[80:])
    assert heard == fresh.guard_.events != []
    search = GridSearchCV(Guarded(LogisticRegression()), {"model__C": [1e-6, 10.0]}, cv=2)
    assert search.fit(X0[:80], Y0[:80]).best_params_ == {"model__C": 10.0}
    line = make_pipeline(StandardScaler(), Guarded(LogisticRegression(), Guard(CROPS, lag=2))).fit(X0[:80], Y0[:80])
    line.predict(X0[80:82], id=["a", "b"])
    assert line[-1].observe(Y0[80:82][::-1], id=["b", "a"]).guard_.steps == 2


def test_states_by_name_labels_yet_to_come_and_frames() -> None:
    frame, y = pd.DataFrame(X0, columns=["wind", "field", "share"]), pd.Series(np.where(Y0 == "sun", 9.0, 10.0))
    framed = observed(Guarded(LogisticRegression()).fit(frame[:80], y[:80]), frame[80:], y[80:])
    assert framed.feature_names_in_.tolist() == ["wind", "field", "share"]
    assert set(framed.predict(frame)) == {9.0, 10.0}
    truth = Guarded(LogisticRegression(), Guard(COIN)).fit(X0, X0[:, 0] > 0)
    assert truth.predict([[2.0, 0, 0]]).tolist() == [True]
    assert truth.states_.tolist() == [0, 1]
    two = Y0[:80] != "cloud"
    model = Guarded(LogisticRegression(), Guard(CROPS)).fit(X0[:80][two], Y0[:80][two])
    assert model.classes_.tolist() == sorted(STATES)
    assert model.predict_proba(X0[:1])[0, 0] == 0  # of "cloud": no row had it
    assert model.observe("cloud").guard_.events[0].excluded
    ten = Guard(lr.DecisionProblem(np.eye(11)))
    many = Guarded(DummyClassifier(), ten).fit(np.zeros((22, 1)), [str(i % 11) for i in range(22)])
    assert many.states_.tolist() == [int(label) for label in many.classes_]  # by name, though "10" sorts before "2"
    some = Guarded(DummyClassifier(), ten).fit(np.zeros((22, 1)), [2 * (i % 5) for i in range(22)])
    assert some.classes_.tolist() == list(range(11))


def test_a_floor_forgives_models_that_are_sure_and_a_frozen_one_is_not_trained() -> None:
    X, y = weather(turn=240)
    sure = observed(Guarded(DecisionTreeClassifier(random_state=0), Guard(CROPS)).fit(X[:40], y[:40]), X[40:], y[40:])
    wrong = int((sure.model_.predict(X[40:]) != y[40:]).argmax())
    assert sure.guard_.events[0].step == wrong + 1
    assert sure.guard_.events[0].excluded
    calm = Guarded(DecisionTreeClassifier(random_state=0), Guard(CROPS), floor=0.05).fit(X[:40], y[:40])
    assert not observed(calm, X[40:], y[40:]).guard_.switched
    frozen = Guarded(FrozenEstimator(DESK), Guard(CROPS)).fit(X0[80:], Y0[80:])
    np.testing.assert_allclose(frozen.predict_proba(X0), DESK.predict_proba(X0), atol=1e-15)


@pytest.mark.parametrize(
    ("settings", "y", "says"),
    [
        ({"model": LinearSVC()}, Y0, "model must have predict_proba"),
        ({"guard": CROPS}, Y0, "guard must be a Guard of a DecisionProblem with one stream"),
        ({"guard": Guard(COIN)}, Y0, r"labels are \['cloud', 'rain', 'sun'\], the states of the problem \['0', '1'\]"),
        ({"guard": Guard(CROPS)}, np.where(Y0 == "sun", "fog", Y0), "name the states as the labels are"),
        ({"guard": Guard(COIN)}, np.where(Y0 == "sun", 1, 2), "name the states as the labels are"),
        ({"floor": 1.0}, Y0, r"floor must lie in \[0, 1\)"),
    ],
)
def test_what_fit_refuses(settings: dict, y: Any, says: str) -> None:
    model = Guarded(**{"model": LogisticRegression(), **settings})
    with pytest.raises(ValueError, match=says):
        model.fit(X0, y)
    assert not hasattr(model, "guard_")


def test_a_refusal_changes_nothing() -> None:
    model = Guarded(LogisticRegression(), Guard(CROPS, against=Actions(per=3), test=H, lag=3)).fit(X0[:80], Y0[:80])
    model.policy(X0[:1], id="a", context=1)
    before = model.guard_.dumps()
    for more, says in (
        ({}, "context must be given"),
        ({"context": [0, 3]}, "context must lie in 0..2"),
        ({"context": [0]}, "context must be one for each row, 2 of them"),
        ({"context": [0, 1], "scale": [1, 2]}, "scale must lie above 0 and be at most 1"),
        ({"context": [0, 1], "references": {"desk": [[0.2, 0.3, 5]] * 2}}, "references must sum to one"),
    ):
        for ids in (None, ["b", "c"]):
            with pytest.raises(ValueError, match=says):
                model.policy(X0[:2], ids, **more)
    with pytest.raises(TypeError, match="forecast is none of what may be given beside the rows: context"):
        model.policy(X0[:1], context=1, forecast=[[1, 0, 0]])
    for y, more, says in (
        (["sun", "fog"], {"id": ["a", "b"]}, "y must be one of the labels 'sun', 'cloud', 'rain', got 'fog'"),
        (["sun"], {"action": ["plough"]}, "action must be one of the actions"),
        (["sun"], {"action": [0, 1]}, "action must have shape"),
    ):
        with pytest.raises(ValueError, match=says):
            model.observe(y, **more)
    assert model.guard_.dumps() == before
