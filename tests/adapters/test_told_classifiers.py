"""Classifiers told more than the model's law: incumbents, contexts, how much a row counts; beside a plain ``Guard``."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import base
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import lowregret as lr
from lowregret.problems import Positions

from ..late_worlds import switching_often

Guarded, Online = lr.GuardedClassifier, lr.adapters.GuardedRiverClassifier
CROPS = lr.DecisionProblem.from_payoffs(
    [[30, -5, -20], [8, 10, 2], [-4, 0, 12]], actions=["sow", "wait", "cover"], states=["sun", "cloud", "rain"]
)
STATES = ["sun", "cloud", "rain"]
COLUMNS = ["wind", "field", "share"]


def weather(n: int = 240, turn: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Wind, in which field the row is, how much of it counts; the label follows the wind until ``turn``."""
    rng = np.random.default_rng(seed)
    wind = rng.normal(size=n)
    y = np.where(wind > 0.4, "sun", np.where(wind < -0.4, "rain", "cloud"))
    late = np.where(y == "sun", "rain", np.where(y == "rain", "sun", y))
    X = np.stack([wind, rng.integers(3, size=n), rng.choice([0.5, 0.75, 1.0], size=n)], axis=1)
    return X, np.where(np.arange(n) < turn, y, late)


X0, Y0 = weather()
INCUMBENTS = {
    "bayes": GaussianNB().fit(X0[:80], Y0[:80]),
    "dry": LogisticRegression().fit(X0[:80][Y0[:80] != "rain"], Y0[:80][Y0[:80] != "rain"]),  # knows two of the labels
}
HOW: dict[str, dict[str, Any]] = {
    "columns": {"context": 1, "scale": 2},
    "functions": {"context": lambda row: int(row[1]), "scale": lambda row: float(row[2])},
    "beside": {},
}
CASES: dict[str, dict[str, Any]] = {
    "references": {"references": INCUMBENTS},
    "contexts": {"contexts": 3},
    "scaled": {"payoffs": "scaled"},
    "incumbent": {"references": INCUMBENTS, "fallback": lr.policies.Incumbent("bayes")},
    "all": {"references": INCUMBENTS, "contexts": 3, "payoffs": "scaled"},
}


def by_hand(case: str, lag: int, floor: float = 0.0, **more: Any) -> lr.Guard:
    settings = dict(CASES[case])
    if "references" in settings:
        settings["references"] = tuple(settings["references"])
    return lr.Guard(CROPS, 300, lag=lag, **settings, **more)


def law_by_name(model: Any, row: np.ndarray) -> np.ndarray:
    said = dict(zip(model.classes_.tolist(), model.predict_proba(row)[0].tolist(), strict=True))
    return np.array([said.get(state, 0.0) for state in STATES])


def told_of(case: str, row: np.ndarray) -> dict[str, Any]:
    """What ``advise`` is told of a row, literally."""
    settings, told = CASES[case], {}
    if "references" in settings:
        told["references"] = {name: law_by_name(model, row) for name, model in INCUMBENTS.items()}
    if "contexts" in settings:
        told["context"] = int(row[0, 1])
    if "payoffs" in settings:
        told["scale"] = float(row[0, 2])
    return told


def settings_of(case: str, how: str) -> dict[str, Any]:
    """Of the classifier: those of the case, and how a row says what it needs."""
    needs = {"context": "contexts", "scale": "payoffs"}
    return {**CASES[case], **{name: by for name, by in HOW[how].items() if needs[name] in CASES[case]}}


def beside(case: str, how: str, rows: np.ndarray) -> dict[str, Any]:
    if how != "beside":
        return {}
    given = {"contexts": ("context", rows[:, 1].astype(int)), "payoffs": ("scale", rows[:, 2])}
    return dict(pair for name, pair in given.items() if name in CASES[case])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("how", "lag"), [("columns", 1), ("functions", 2), ("beside", 1), ("beside", 2)])
def test_scikit_learn_equals_a_guard_told_by_hand(case: str, how: str, lag: int) -> None:
    heard: list[Any] = []
    model = Guarded(LogisticRegression(), CROPS, 300, lag=lag, on_event=heard.append, **settings_of(case, how))
    model.fit(X0[:80], Y0[:80])
    inner, guard = LogisticRegression().fit(X0[:80], Y0[:80]), by_hand(case, lag)
    for t in range(80, 240):
        row, name = X0[t : t + 1], t if lag > 1 or t % 2 else None
        more = beside(case, how, row)
        advice = guard.advise(law_by_name(inner, row), **told_of(case, row))
        law = model.predict_proba(row, name, **more)[0]
        assert law.tolist() == [advice.law[STATES.index(label)] for label in model.classes_]
        assert model.policy(row, name, **more)[0].tolist() == advice.policy.tolist()
        if t - 80 >= lag - 1:
            label = Y0[t - lag + 1 : t - lag + 2]
            guard.observe(str(label[0]))
            model.observe(label, id=t - lag + 1) if name is not None else model.observe(row, label)
    assert model.guard_.state_dict() == guard.state_dict()
    assert model.events_ == guard.events == heard
    assert heard
    assert model.certificate_.regret_bound == guard.certificate.regret_bound


@pytest.mark.parametrize("case", ["references", "all"])
@pytest.mark.parametrize("how", ["columns", "beside"])
def test_walking_forward_is_a_literal_loop(case: str, how: str) -> None:
    model = Guarded(LogisticRegression(), CROPS, 300, floor=0.01, **settings_of(case, how))
    found = model.walk_forward(X0, Y0, train=80, refit_every=50, **beside(case, how, X0))
    guard, earned = by_hand(case, 1), []
    inner: Any = None
    for t in range(80, 240):
        if (t - 80) % 50 == 0:
            inner = LogisticRegression().fit(X0[:t], Y0[:t])
        told = told_of(case, X0[t : t + 1])  # what incumbents say is theirs, and has no floor
        guard.advise(law_by_name(inner, X0[t : t + 1]) * 0.99 + 0.01 / 3, **told)
        paid = CROPS.in_payoffs(guard.policy() @ CROPS.utility[:, STATES.index(Y0[t])])
        earned.append(float(paid) * told.get("scale", 1.0))
        guard.observe(str(Y0[t]))
    np.testing.assert_allclose(found.payoffs, earned, atol=1e-9)
    assert model.guard_.regret == pytest.approx(guard.regret, abs=1e-12)
    assert [event.step for event in found.events] == [event.step for event in guard.events]
    table = lr.backtest(found.problem, found.model_probs_NxS, Positions(found.states), **found.told)
    assert [name for name in table.earned if name.startswith("reference")] == ["reference bayes", "reference dry"]


def test_frames_and_sparse_rows_say_it_too() -> None:
    frame, y = pd.DataFrame(X0, columns=COLUMNS).astype({"field": int}), Y0
    plain = Guarded(GaussianNB(), CROPS, 300, contexts=3, payoffs="scaled", context=1, scale=2).fit(X0[:80], y[:80])
    by_name = Guarded(GaussianNB(), CROPS, 300, contexts=3, payoffs="scaled", context="field", scale="share")
    by_name.fit(frame[:80], y[:80])
    by_row = Guarded(GaussianNB(), CROPS, 300, contexts=3, payoffs="scaled", scale=lambda row: row["share"])
    by_row.set_params(context=lambda row: int(row["field"])).fit(frame[:80], y[:80])
    for model in (by_name, by_row):
        for t in range(80, 110):
            plain.policy(X0[t : t + 1])
            model.policy(frame[t : t + 1])
            model.observe(frame[t : t + 1], y[t : t + 1])
        np.testing.assert_array_equal(model.policy(frame[110:120]).shape, (10, 3))
    assert by_name.guard_.state_dict() == by_row.guard_.state_dict()
    thin = Guarded(LogisticRegression(), CROPS, 300, contexts=3, context=1).fit(sparse.csr_matrix(X0[:80]), y[:80])
    full = Guarded(LogisticRegression(), CROPS, 300, contexts=3, context=1).fit(X0[:80], y[:80])
    np.testing.assert_allclose(thin.policy(sparse.csr_matrix(X0[80:90])), full.policy(X0[80:90]), atol=1e-3)


def test_it_is_cloned_and_pickled_with_its_references() -> None:
    model = Guarded(LogisticRegression(), CROPS, 300, references=INCUMBENTS, contexts=3, context=1, lag=3)
    model.fit(X0[:80], Y0[:80]).policy(X0[80:82], id=["a", "b"])
    again = pickle.loads(pickle.dumps(model))
    for each in (model, again):
        each.observe(Y0[80:82], id=["a", "b"])
    assert again.guard_.state_dict() == model.guard_.state_dict()
    fresh = clone(model).fit(X0[:80], Y0[:80])
    assert (
        fresh.policy(X0[80:81]).tolist()
        == Guarded(**model.get_params(deep=False)).fit(X0[:80], Y0[:80]).policy(X0[80:81]).tolist()
    )


def test_a_clone_tells_the_same_listener() -> None:
    heard: list[Any] = []
    tell = heard.append
    assert clone(Guarded(LogisticRegression(), CROPS, 300, on_event=tell)).on_event is tell


def test_what_is_refused_changes_nothing() -> None:
    for bad in (["bayes"], {"bayes": 3}, {1: GaussianNB()}, GaussianNB()):
        with pytest.raises(ValueError, match="references must be a dict of fitted models by name, each with predict_"):
            Guarded(LogisticRegression(), CROPS, 300, references=bad).fit(X0, Y0)
    with pytest.raises(ValueError, match=r'payoffs must be "scaled" here, got "change": lr\.Guard'):
        Guarded(LogisticRegression(), CROPS, 300, payoffs="change").fit(X0, Y0)
    other = GaussianNB().fit(X0[:3], ["sun", "rain", "fog"])
    lost = Guarded(LogisticRegression(), CROPS, 300, references={"lost": other}).fit(X0, Y0)
    with pytest.raises(ValueError, match=r"references\['lost'\].classes_ must be one of the labels.*got 'fog'"):
        lost.policy(X0[:1])
    model = Guarded(LogisticRegression(), CROPS, 300, contexts=3, payoffs="scaled", lag=3).fit(X0, Y0)
    model.policy(X0[:1], id="a", context=1, scale=0.5)
    before = pickle.dumps(model)
    for more, says in (
        ({}, "context must be given"),
        ({"context": 3}, r"context must lie in 0..2"),
        ({"context": 0.5}, "context must be integers"),
        ({"context": [0, 1]}, "context must be one for each row, 1 of them"),
        ({"context": 0, "scale": 2}, "scale must lie above 0 and be at most 1"),
        ({"context": "north"}, "context must be numbers"),
    ):
        for name in (None, "b"):
            with pytest.raises(ValueError, match=says):
                model.policy(X0[1:2], name, **more)
    with pytest.raises(ValueError, match="id 'a'"):
        model.policy(X0[:1], id="a", context=2, scale=0.5)
    for ask in (model.policy, model.predict_proba):
        with pytest.raises(ValueError, match="context"):
            ask(X0[1:4], context=[0, 1, 3])
    assert pickle.dumps(model) == before
    assert model.policy(X0[:1], id="a", context=1, scale=0.5).shape == (1, 3)
    plain = Guarded(LogisticRegression(), CROPS, 300).fit(X0, Y0)
    with pytest.raises(ValueError, match="context"):
        plain.policy(X0[:1], context=1)

    plain.policy(X0[:1])
    twice = Guarded(LogisticRegression(), CROPS, 300, contexts=3).fit(X0, Y0)
    for context in (0, 1):
        twice.policy(X0[:1], context=context)
    with pytest.raises(ValueError, match="more than once"):
        twice.observe(X0[:1], Y0[:1])


# River


class Frequencies(base.Classifier):
    """Says how often each label came by the strength of the wind, of the first 60; nothing before the first."""

    def __init__(self) -> None:
        self.counts: dict[int, dict[str, int]] = {-1: {}, 0: {}, 1: {}}

    def learn_one(self, x: dict, y: Any) -> None:
        own = self.counts[round(float(np.clip(x["wind"], -1, 1)))]
        if sum(sum(each.values()) for each in self.counts.values()) < 60:
            own[y] = own.get(y, 0) + 1

    def predict_proba_one(self, x: dict) -> dict:
        own = self.counts[round(float(np.clip(x["wind"], -1, 1)))]
        return {label: count / sum(own.values()) for label, count in own.items()}


def as_dicts(X: np.ndarray) -> list[dict]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in X.tolist()]


ONLINE: dict[str, dict[str, Any]] = {
    "columns": {"context": "field", "scale": "share"},
    "functions": {"context": lambda x: int(x["field"]), "scale": lambda x: x["share"]},
    "beside": {},
}


@pytest.mark.parametrize("case", ["references", "contexts", "all"])
@pytest.mark.parametrize(("how", "lag"), [("columns", 1), ("functions", 2), ("beside", 2)])
def test_river_equals_a_guard_told_by_hand(case: str, how: str, lag: int) -> None:
    rows, heard = as_dicts(X0), []
    old = Frequencies()
    for x, y in zip(rows[:40], Y0[:40].tolist(), strict=True):
        old.learn_one(x, y)
    settings = {
        **CASES[case],
        **({"references": {"old": old, "new": Frequencies()}} if "ref" in case or "all" in case else {}),
    }
    names = {"contexts": "context", "payoffs": "scale"}
    own = {name: ONLINE[how][name] for key, name in names.items() if key in settings and name in ONLINE[how]}
    model = Online(Frequencies(), CROPS, 300, lag=lag, floor=0.02, on_event=heard.append, **settings, **own)
    guard = lr.Guard(CROPS, 300, lag=lag, **{**settings, "references": tuple(settings.get("references", ()))})
    inner, floor = Frequencies(), 0.02

    def law_of(said: dict, floor: float) -> np.ndarray:
        law = np.array([said.get(state, 0.0) for state in STATES]) if said else np.full(3, 1 / 3)
        return law * (1 - floor) + floor / 3 if said else law

    for t, x in enumerate(rows):
        told: dict[str, Any] = {}
        if "references" in settings:
            told["references"] = [law_of(old.predict_proba_one(x), 0.0), np.full(3, 1 / 3)]
        if "contexts" in settings:
            told["context"] = int(x["field"])
        if "payoffs" in settings:
            told["scale"] = x["share"]
        advice = guard.advise(law_of(inner.predict_proba_one(x), floor), **told)
        more = {name: value for name, value in told.items() if name in ("context", "scale")} if how == "beside" else {}
        played = model.policy_one(x, id=t, **more)
        assert list(model.predict_proba_one(x, id=t, **more).values()) == advice.law.tolist()
        assert list(played.values()) == advice.policy.tolist()
        if t >= lag - 1:
            guard.observe(str(Y0[t - lag + 1]))
            inner.learn_one(rows[t - lag + 1], str(Y0[t - lag + 1]))
            model.learn_one(rows[t - lag + 1], str(Y0[t - lag + 1]), id=t - lag + 1)
    assert model.guard.state_dict() == guard.state_dict()
    assert model.events == guard.events == heard
    assert heard
    copied = model.clone()
    assert copied.guard.steps == 0
    assert list(copied.policy_one(rows[0], **more).values()) == pytest.approx(
        list(
            Online(Frequencies(), CROPS, 300, lag=lag, floor=0.02, **settings, **own)
            .policy_one(rows[0], **more)
            .values()
        )
    )


def test_river_refuses_a_feature_that_is_not_there() -> None:
    model = Online(Frequencies(), CROPS, 300, contexts=3, context="soil")
    with pytest.raises(ValueError, match="context must be a feature of the row, or given beside it, got 'soil'"):
        model.policy_one(as_dicts(X0[:1])[0])
    with pytest.raises(ValueError, match="each with predict_proba_one"):
        Online(Frequencies(), CROPS, 300, references={"tree": DecisionTreeClassifier()})


class Alone(Frequencies):
    """Tells whether somebody asks it while it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.learns, self.disturbed = False, 0

    def learn_one(self, x: dict, y: Any) -> None:
        self.disturbed += self.learns
        self.learns = True
        for _ in range(200):
            super().learn_one(x, y)
        self.learns = False

    def predict_proba_one(self, x: dict) -> dict:
        self.disturbed += self.learns
        return super().predict_proba_one(x)


@pytest.mark.parametrize("asked", [True, False])
def test_a_model_learns_while_nobody_asks_it(asked: bool) -> None:
    rows, model = as_dicts(X0[:200]), Online(Alone(), CROPS, 300, lag=200, rows_change=False)

    def work(t: int) -> None:
        if asked:
            model.policy_one(rows[t], id=t)
        model.learn_one(rows[t], str(Y0[t]), id=t if asked else None)

    with switching_often(), ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert model.model.disturbed == 0
    assert (model.guard.steps, model.unasked) == ((200, 0) if asked else (0, 200))
