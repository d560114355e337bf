"""Classifiers whose labels come late, or from several threads: what is judged is what was said and played, or nothing.

The oracle of every number here is kept outside: the mixed actions that the classifier gave out, and the labels.
"""

import logging
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import base, drift, ensemble, evaluate, metrics, naive_bayes, preprocessing
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import lowregret as lr
from lowregret.guard.asked import MOST

from ..late_worlds import switching_often

Guarded, Online = lr.GuardedClassifier, lr.adapters.GuardedRiverClassifier
COIN = lr.DecisionProblem(np.eye(2), actions=["heads", "tails"], states=["heads", "tails"])
SIDES = ("heads", "tails")


class Sure:
    """Says of a row what is written in it."""

    def predict_proba(self, X: Any) -> np.ndarray:
        chance = np.asarray(X, dtype=np.float64)[:, 0]
        return np.stack([chance, 1 - chance], axis=1)


class Learner(base.Classifier):
    """Says what is written in a row, the more surely the more it has learned."""

    def __init__(self) -> None:
        self.learned = 0

    def learn_one(self, x: dict, y: Any) -> None:
        self.learned += 1

    def predict_proba_one(self, x: dict) -> dict:
        chance = 0.5 + (x["chance"] - 0.5) * self.learned / (self.learned + 3)
        return {"heads": chance, "tails": 1 - chance}


def world(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Chances that are right at first and the wrong way round from a third on; no two are equal."""
    rng = np.random.default_rng(seed)
    chance = rng.permutation(np.linspace(0.55, 0.95, n))
    is_heads = rng.random(n) < np.where(np.arange(n) < n // 3, chance, 1 - chance)
    return chance[:, None], np.where(is_heads, "heads", "tails")


def classifier(horizon: int = 200, **settings: Any) -> Guarded:
    X, y = world()
    return Guarded(Sure(), COIN, horizon, **settings).fit(X, y)


def regret_of(played: list[np.ndarray], y: Any) -> float:
    """A literal sum over what was played."""
    states = [SIDES.index(label) for label in y]
    earned = [sum(COIN.utility[a, s] for s in states) for a in range(2)]
    own = sum(float(mixed_A @ COIN.utility[:, s]) for mixed_A, s in zip(played, states, strict=True))
    return (max(earned) - own) / len(states)


def in_turn(n: int, late: int) -> Iterator[tuple[str, int]]:
    """Row t is asked, and the label of row t - late comes after that."""
    for t in range(n + late):
        if t < n:
            yield "asked", t
        if t >= late:
            yield "came", t - late


# Labels that come late, without an id


@pytest.mark.parametrize("late", [1, 5, 119])
@pytest.mark.parametrize("river", [False, True])
def test_labels_that_come_late_are_not_judged_by_play_that_never_happened(late: int, river: bool) -> None:
    X, y = world()
    model: Any = Online(Learner(), COIN, 200) if river else classifier()
    played, judged, refused = {}, [], 0
    for what, t in in_turn(120, late):
        x, row = {"chance": float(X[t, 0])}, X[t : t + 1]
        if what == "asked":
            played[t] = np.array(list(model.policy_one(x).values())) if river else model.policy(row)[0]
            continue
        try:
            model.learn_one(x, str(y[t])) if river else model.observe(row, y[t : t + 1])
            judged.append(t)
        except ValueError as error:
            refused += "was asked when" in str(error) and "lag=" in str(error)
    assert len(judged) + refused == 120
    assert 1 <= len(judged) <= 120 / late + 1  # those before whose question every other that counts had come
    guard = model.guard if river else model.guard_
    assert guard.steps == len(judged)
    assert guard.regret == pytest.approx(regret_of([played[t] for t in judged], y[judged]))
    assert not river or (model.model.learned, model.unasked) == (len(judged), 0)


def test_what_was_asked_twice_and_answered_differently_is_refused() -> None:
    model = Online(Learner(), COIN, 200)
    x, other = {"chance": 0.9}, {"chance": 0.7}
    model.policy_one(x)
    model.policy_one(x)  # the same answer: it does not matter which was played
    model.learn_one(x, "heads")
    model.policy_one(x)
    model.policy_one(other)
    model.learn_one(other, "heads")
    model.policy_one(x)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"asked more than once and answered differently.*skip\(\) forgets"):
        model.learn_one(x, "heads")
    assert pickle.dumps(model) == before
    model.skip()
    model.policy_one(x)
    model.learn_one(x, "heads")
    assert (model.guard.steps, model.model.learned) == (3, 3)

    static, X, y = classifier(), *world()
    static.policy(X)  # to look at all of them is to play none, and one that did not change is the same whenever asked
    for t in range(3):
        static.policy(X[t : t + 1])
    for t in range(3):
        static.policy(X[t : t + 1])
        static.observe(X[t : t + 1], y[t : t + 1])
    assert static.guard_.steps == 3


def test_questions_are_kept_up_to_a_number() -> None:
    model, X = classifier(), np.linspace(0.1, 0.9, MOST + 1)[:, None]
    model.predict(X)
    with pytest.raises(ValueError, match="got a row that was not"):
        model.observe(X[:1], ["heads"])
    assert model.observe(X[1:2], ["heads"]).guard_.steps == 1
    online = Online(Learner(), COIN, 9)
    online.learn_one({"chance": 0.5}, "heads")  # nobody asked, nothing was played
    assert (online.guard.steps, online.unasked, online.model.learned) == (0, 1, 1)
    for row in X:
        online.predict_one({"chance": float(row[0])})
    for x in ({"chance": float(X[0, 0])}, {"chance": 0.5001}):
        with pytest.raises(ValueError, match=f"x was not asked, and {MOST} others wait for their labels.*lag="):
            online.learn_one(x, "heads")
    online.learn_one({"chance": float(X[5, 0])}, "heads")
    with pytest.raises(ValueError, match=f"x was not asked, and over {MOST} others never had a label"):
        online.learn_one({"chance": 0.5001}, "heads")
    online.skip()
    online.learn_one({"chance": 0.5001}, "heads")
    assert (online.guard.steps, online.unasked, online.model.learned) == (1, 2, 3)


@pytest.mark.parametrize("river", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_asked_and_told_what_counts_was_really_played(seed: int, river: bool) -> None:
    """Few rows that come again and again, asked or not, with labels or without, in any order."""
    rng = np.random.default_rng(seed)
    chances = [0.55, 0.7, 0.8, 0.95]
    model: Any = Online(Learner(), COIN, 2000) if river else classifier(2000)
    answers: dict[int, list[np.ndarray]] = {i: [] for i in range(4)}  # to each row since its last label
    played, came, refused = [], [], 0
    for _ in range(400):
        i, label = int(rng.integers(4)), SIDES[int(rng.random() < 0.7)]
        x, row = {"chance": chances[i]}, [[chances[i]]]
        if rng.random() < 0.5:
            answers[i].append(np.array(list(model.policy_one(x).values())) if river else model.policy(row)[0])
            continue
        if rng.random() < 0.05:
            model.skip()
            answers = {i: [] for i in range(4)}
        if river and not answers[i]:
            continue  # that there is a question which its label is not for: see the pipelines below
        try:
            model.learn_one(x, label) if river else model.observe(row, [label])
        except ValueError:
            refused += 1
            continue
        assert answers[i]
        np.testing.assert_allclose(answers[i], [answers[i][-1]] * len(answers[i]), atol=1e-9)
        played.append(answers[i][-1])
        came.append(label)
        answers[i] = []
    guard = model.guard if river else model.guard_
    assert guard.steps == len(played) > 20
    assert refused > 20
    assert guard.regret == pytest.approx(regret_of(played, came))


# With an id, and a lag


def orders(n: int, lag: int, seed: int) -> Iterator[tuple[str, int]]:
    """Rows are asked in order, labels come in any within the lag."""
    rng, waiting, t = np.random.default_rng(seed), [], 0
    while t < n or waiting:
        full = bool(waiting) and waiting[0] <= t - lag
        if t < n and not full and (not waiting or rng.random() < 0.6):
            waiting.append(t)
            yield "asked", t
            t += 1
        else:
            yield "came", waiting.pop(0 if full else int(rng.integers(len(waiting))))


@pytest.mark.parametrize("lag", [1, 2, 7, 120])
@pytest.mark.parametrize("river", [False, True])
def test_labels_in_any_order_judge_what_was_said_and_played(lag: int, river: bool) -> None:
    X, y = world()
    guard, inner = lr.Guard(COIN, 200, lag=lag), Learner()
    model: Any = Online(Learner(), COIN, 200, lag=lag, floor=0.0) if river else classifier(lag=lag)
    played, came, step_of = {}, [], {}
    for what, t in orders(120, lag, seed=lag):
        x, row, name = {"chance": float(X[t, 0])}, X[t : t + 1], ("row", t)
        by = {"step": step_of.setdefault(t, len(step_of) + 1)}
        if what == "asked":
            law = list(inner.predict_proba_one(x).values()) if river else Sure().predict_proba(row)[0]
            advice = guard.advise(np.array(law)).law
            played[t] = np.array(list(model.policy_one(x, id=name).values())) if river else model.policy(row, name)[0]
            said = list(model.predict_proba_one(x, id=name).values()) if river else model.predict_proba(row, name)[0]
            assert list(said) == advice.tolist()
            assert played[t].tolist() == guard.policy(**by).tolist()
        else:
            guard.observe(str(y[t]), **by)
            inner.learn_one(x, y[t])
            came.append(t)
            if river:
                model.learn_one(x, str(y[t]), id=name)
            else:
                model.observe(str(y[t]) if t % 2 else y[t : t + 1], id=name)
    live = model.guard if river else model.guard_
    assert live.state_dict() == guard.state_dict()
    assert live.regret == pytest.approx(regret_of([played[t] for t in came], y[came]))
    assert live.certificate.regret_bound == guard.certificate.regret_bound
    assert live.events or lag > 2
    assert lag < 3 or came != sorted(came)


def test_an_id_keeps_its_answer() -> None:
    model, row = classifier(lag=3), [[0.9]]
    first = model.policy(row, id="kept"), model.predict_proba(row, id="kept")
    model.policy([[1.0]], id="sure")
    assert model.observe("tails", id="sure").switched_
    assert model.policy(row, id="kept").tolist() == first[0].tolist()
    assert model.predict_proba(row, id="kept").tolist() == first[1].tolist() == [[0.9, 1 - 0.9]]
    assert model.predict_proba(row)[0, 0] < 0.9
    many = np.linspace(0.1, 0.9, 9)[:, None]  # questions, each of the next step: more of them than may wait
    for ask in (model.policy, model.predict_proba):
        np.testing.assert_array_equal(ask(many), np.concatenate([ask(many[i : i + 1]) for i in range(9)]))
    model.observe("heads", id="kept")
    sure = classifier(lag=3).policy([[1.0]])[0]
    assert model.guard_.regret == pytest.approx(regret_of([sure, first[0][0]], ["tails", "heads"]))

    online, x = Online(Learner(), COIN, 200, lag=3), {"chance": 0.9}
    first = online.policy_one(x, id="kept"), online.predict_proba_one(x, id="kept")
    for day in range(2):
        online.policy_one(x, id=day)
        online.learn_one(x, "heads", id=day)
    assert (online.policy_one(x, id="kept"), online.predict_proba_one(x, id="kept")) == first
    assert online.model.predict_proba_one(x) != first[1]  # it has learned


def test_as_many_as_the_lag_may_wait() -> None:
    X, y = world()
    for lag in (1, 3):
        model = classifier(lag=lag)
        model.policy(X[:lag], id=list(range(lag)))
        before = pickle.dumps(model)
        says = rf"id 'more' cannot be asked yet: with lag={lag} the label of id 0 must come before, or skip\(id=...\)"
        for rows, names in ((X[5:6], "more"), (X[5:7], ["more", "and"]), (X[[0, 5]], [0, "more"])):
            with pytest.raises(ValueError, match=says):
                model.policy(rows, id=names)
        assert pickle.dumps(model) == before
        assert model.predict_proba(X[5:7]).tolist() == Sure().predict_proba(X[5:7]).tolist()  # to look is no step
        model.policy(X[5:6])
        with pytest.raises(ValueError, match=r"id 0 .* X"):
            model.observe(X[5:6], y[5:6])
        model.skip()
        model.skip(id=0)
        assert model.policy(X[5:6], id="more").shape == (1, 2)
        lost = model.certificate_.terms.get("outcomes that never came", 0)
        assert lost == COIN.span / 200
        model.observe([*y[1:lag], y[5]], id=[*range(1, lag), "more"])
        assert model.guard_.steps == lag + 1  # what was given up was a step, too
    online = Online(Learner(), COIN, 200, lag=2)
    for day in range(2):
        online.policy_one({"chance": 0.6}, id=day)
    with pytest.raises(ValueError, match="id 2 cannot be asked yet: with lag=2 the label of id 0 must come before"):
        online.policy_one({"chance": 0.6}, id=2)
    online.skip(id=0)
    online.policy_one({"chance": 0.6}, id=2)
    assert online.guard.steps == 1  # the one that was given up


def test_what_an_id_cannot_be() -> None:
    X, y = world()
    model = classifier(lag=5)
    model.policy(X[:3], id=["a", "b", ("c", 1)])
    assert model.problem_.action_names.names == model.problem_.state_names.names  # from here on they are known
    assert model.guard_.rule.each._pairs  # and so are what bets on actions are charged
    before = pickle.dumps(model)
    for bad in (["d"], ["d", "d"], [["d"], "e"], [None, "d"], [np.nan, "d"], "de", {"d": 1, "e": 2}):
        with pytest.raises(ValueError, match="id must be one for each row, 2 of them and all different, got"):
            model.policy(X[5:7], id=bad)
    with pytest.raises(ValueError, match="id 'a' waits for the label of another row"):
        model.policy(X[5:6], id="a")
    with pytest.raises(ValueError, match=r"id 'd' waits for no label.*those that do: \['a', 'b', \('c', 1\)\]"):
        model.observe(["heads", "heads"], id=["a", "d"])
    with pytest.raises(ValueError, match="id 'a' was asked of another row than the one that came"):
        model.observe(X[[1, 0]], y[[1, 0]], id=["b", "a"][::-1])
    with pytest.raises(ValueError, match=r"^y "):
        model.observe(["heads", "edge"], id=["a", "b"])
    with pytest.raises(ValueError, match=r"action must have shape \(2,\)"):
        model.observe(["heads", "heads"], id=["a", "b"], action=[0])
    with pytest.raises(ValueError, match="id 'd'"):
        model.skip(id=["a", "d"])
    with pytest.raises(ValueError, match="inconsistent"):
        model.observe(X[:1], y[:2], id=["a", "b"])
    assert pickle.dumps(model) == before
    model.observe(X[:2][::-1], y[:2][::-1], id=np.array(["b", "a"]), action=["heads", "tails"])
    taken = [np.eye(2)[1], np.eye(2)[0]]
    assert model.guard_.realised_regret == pytest.approx(regret_of(taken, y[:2]))
    with pytest.raises(ValueError, match="id 'b'"):
        model.observe("heads", id="b")
    model.observe(pd.Series(["heads"], index=pd.to_datetime(["2024-01-01"])), id=[("c", 1)])
    assert model.guard_.steps == 3


def test_a_step_that_waits_is_not_passed_over() -> None:
    X, y = world()
    model = classifier()
    model.policy(X[:1], id="a")
    model.policy(X[1:2])
    with pytest.raises(ValueError, match="id 'a' waits for its label, which must come before that of X"):
        model.observe(X[1:2], y[1:2])
    model.guard_.restart()  # by hand: what was played before it is not what would be judged
    model.guard_.advise(Sure().predict_proba(X[:1])[0])  # the same, and not what was asked
    with pytest.raises(ValueError, match="id 'a' was asked before the guard was restarted"):
        model.observe(y[:1], id="a")
    with pytest.raises(ValueError, match="X was"):
        model.observe(X[1:2], y[1:2])
    model.policy(X[:1], id="b")
    assert model.observe(y[:1], id="b").guard_.steps == 1
    late = classifier(lag=2)
    late.policy(X[:1])
    late.policy(X[1:2], id="a")
    with pytest.raises(ValueError, match="before other steps were"):
        late.observe(X[:1], y[:1])
    late.policy(X[2:3])
    assert late.observe(X[2:3], y[2:3]).guard_.steps == 1  # at once, while another waits
    with pytest.raises(ValueError, match="horizon of 2 steps"):
        classifier(2, lag=3).policy(X[:3], id=[1, 2, 3])


# Threads


def test_no_outcome_is_lost_between_threads() -> None:
    X, y = world(200)
    model = classifier(400)

    def told(t: int) -> int:
        model.policy(X[t : t + 1])
        try:
            model.observe(X[t : t + 1], y[t : t + 1])
        except ValueError as error:  # another's label came in between: it is said, and not lost in silence
            return -("lag=" not in str(error))
        return 1

    with switching_often(), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(told, range(200)))
    assert set(found) <= {0, 1}
    assert model.guard_.steps == sum(found) > 0


@pytest.mark.parametrize("river", [False, True])
def test_threads_with_ids_count_every_label(river: bool) -> None:
    X, y = world(200)
    model: Any = Online(Learner(), COIN, 400, lag=200) if river else classifier(400, lag=200)

    def asked(t: int) -> np.ndarray:
        if river:
            return np.array(list(model.policy_one({"chance": float(X[t, 0])}, id=t).values()))
        return model.policy(X[t : t + 1], id=t)[0]

    def told(t: int) -> None:
        if river:
            model.learn_one({"chance": float(X[t, 0])}, str(y[t]), id=t)
        else:
            model.observe(y[t : t + 1], id=t)

    with switching_often(), ThreadPoolExecutor(8) as pool:
        played = list(pool.map(asked, range(200)))
        list(pool.map(told, range(200)))
    guard = model.guard if river else model.guard_
    assert guard.steps == 200
    assert guard.regret == pytest.approx(regret_of(played, y))
    assert not river or model.model.learned == 200


def test_a_guard_that_is_kept_stays_the_live_one(tmp_path: Path) -> None:
    X, y = world()
    model = classifier()
    kept = model.guard_
    for t in range(60):
        model.policy(X[t : t + 1])
        model.observe(X[t : t + 1], y[t : t + 1])
    assert kept is model.guard_
    assert kept.steps == 60
    kept.save(tmp_path / "kept.safetensors")
    again = lr.Guard(COIN, 200)
    again.load(tmp_path / "kept.safetensors")
    assert again.steps == 60
    assert again.regret == model.guard_.regret


def test_a_switch_is_told_once_and_after_it_counts(caplog: pytest.LogCaptureFixture) -> None:
    X, _ = world()
    model, seen = classifier(lag=30), []

    def tell(event: Any) -> None:
        seen.append((event, model.guard_.steps))
        raise RuntimeError("no line to the office")

    model.guard_.on_event = tell
    model.policy(np.append(X[:29], [[1.0]], axis=0), id=list(range(30)))  # the last excludes what comes
    with caplog.at_level(logging.INFO, "lowregret"), pytest.raises(RuntimeError, match="no line"):
        model.observe(["tails"] * 30, id=list(range(30)))
    assert [(event, 30) for event in model.events_] == seen
    assert len(seen) == 1
    assert [line.message for line in caplog.records] == [str(seen[0][0])]
    with pytest.raises(ValueError, match="no label"):
        model.observe("tails", id=0)


# What a row is


ROWS: dict[str, Any] = {
    "frame": pd.DataFrame({"chance": [0.6, 0.7, 0.8], "n": [1, 2, 3]}),
    "mixed frame": pd.DataFrame({"chance": [0.6, 0.7, 0.8], "name": ["a", "b", None]}),
    "whole numbers": [[0], [1], [2]],
    "sparse": sparse.csr_matrix([[0.6, 0.0], [0.0, 0.7], [0.8, 0.1]]),
    "sparse by columns": sparse.csc_array([[0.6, 0.0], [0.0, 0.7], [0.8, 0.1]]),
    "texts": ["heads it is", "tails it is", "who knows"],
    "lists of different lengths": [["a"], ["a", "b"], []],
}


class Even:
    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((X.shape[0] if hasattr(X, "shape") else len(X), 2), 0.5)


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_every_kind_are_known_again(kind: str) -> None:
    X = ROWS[kind]
    model = Guarded(Even(), COIN, 10, classes=SIDES).fit(X, ["heads", "tails", "heads"])
    for t in range(3):
        model.predict(X[t : t + 1])
        with pytest.raises(ValueError, match="a row"):
            model.observe(X[(t + 1) % 3 : (t + 1) % 3 + 1], ["heads"])
        model.observe(deepcopy(X[t : t + 1]), ["heads"])
    assert model.guard_.steps == 3


def test_a_pipeline_of_texts_and_numbers_of_any_type() -> None:
    said = np.array(["heads up", "tails down", "heads", "tails"])
    texts = make_pipeline(CountVectorizer(), LogisticRegression())
    model = Guarded(texts, COIN, 10).fit(said, ["heads", "tails", "heads", "tails"])
    model.predict(["heads down"])
    assert model.observe(["heads down"], ["heads"]).guard_.steps == 1
    whole = classifier()
    whole.policy(np.array([[1]], dtype=np.int32))
    assert whole.observe([[1.0]], ["heads"]).guard_.steps == 1


def test_what_waits_is_pickled_with_it() -> None:
    X, y = world()
    model = classifier(lag=3)
    model.policy(X[:2], id=["a", "b"])
    model.predict(X[2:3])
    online = Online(Learner(), COIN, 200, lag=3)
    online.policy_one({"chance": 0.6}, id="a")
    online.policy_one({"chance": 0.7})
    for again in (pickle.loads(pickle.dumps(model)), deepcopy(model), model):
        again.observe(X[2:3], y[2:3])
        again.observe(y[:2], id=["a", "b"])
        assert again.guard_.steps == 3
        assert again.guard_.regret == pytest.approx(regret_of(list(classifier(lag=3).policy(X[:3])), y[:3]))
    for other in (pickle.loads(pickle.dumps(online)), deepcopy(online), online):
        other.learn_one({"chance": 0.7}, "heads")
        other.learn_one({"chance": 0.6}, "heads", id="a")
        assert (other.guard.steps, other.unasked) == (2, 0)


# In other people's loops


def test_river_evaluates_with_a_delay() -> None:
    X, y = world()
    rows = [({"chance": float(c)}, str(label)) for c, label in zip(X[:, 0], y, strict=True)]
    on_time = Online(Learner(), COIN, 200)
    evaluate.progressive_val_score(rows, on_time, metrics.Accuracy())
    assert (on_time.guard.steps, on_time.unasked) == (120, 0)
    with pytest.raises(ValueError, match="lag="):
        evaluate.progressive_val_score(rows, Online(Learner(), COIN, 200), metrics.Accuracy(), delay=5)

    named = [(x, label, {"id": i}) for i, (x, label) in enumerate(rows)]
    late = Online(Learner(), COIN, 200, lag=5, floor=0.0)
    evaluate.progressive_val_score(named, late, metrics.Accuracy(), delay=5)
    guard, inner = lr.Guard(COIN, 200, lag=5), Learner()
    for t in range(125):  # River tells the label of row t - 5 before it asks of row t
        if t >= 5:
            guard.observe(str(y[t - 5]))
            inner.learn_one({}, None)
        if t < 120:
            guard.advise(np.array(list(inner.predict_proba_one(rows[t][0]).values())))
    assert late.guard.state_dict() == guard.state_dict()


def test_river_s_wrappers_around_it() -> None:
    X, y = world()
    rows = [({"chance": float(c)}, str(label)) for c, label in zip(X[:, 0], y, strict=True)]
    wrapped = drift.DriftRetrainingClassifier(Online(Learner(), COIN, 200), train_in_background=False)
    evaluate.progressive_val_score(rows[:60], wrapped, metrics.Accuracy())
    assert (wrapped.model.guard.steps, wrapped.model.unasked) == (60, 0)
    with pytest.raises(ValueError, match="lag="):  # it asks again as the label comes, of what was played before
        evaluate.progressive_val_score(rows[60:], wrapped.clone(), metrics.Accuracy(), delay=3)
    bagged = ensemble.BaggingClassifier(Online(Learner(), COIN, 200), n_models=2, seed=1)
    for x, label in rows:
        bagged.predict_one(x)
        bagged.learn_one(x, label)  # each learns it so many times, and has played it once
    for each in bagged.models:
        assert each.guard.steps + each.unasked == each.model.learned
        assert 60 < each.guard.steps < 100  # 1 - 1/e of 120 is 76
        assert each.unasked > 20


def test_a_scaler_that_learns_before_it_does_not_blind_the_guard() -> None:
    """River's pipelines learn to scale as the label comes: the row is then no longer the one that was asked."""
    X, y = world()
    line = preprocessing.StandardScaler() | Online(naive_bayes.GaussianNB(), COIN, 200, floor=0.0)
    guard, scaler, inner = lr.Guard(COIN, 200), preprocessing.StandardScaler(), naive_bayes.GaussianNB()
    for chance, label in zip(X[:, 0].tolist(), y.tolist(), strict=True):
        x = {"chance": chance}
        said = inner.predict_proba_one(scaler.transform_one(x))
        law = np.array([said.get(side, 0.0) for side in SIDES]) if said else np.full(2, 0.5)
        guard.advise(law)
        guard.observe(str(label))
        scaler.learn_one(x)
        inner.learn_one(scaler.transform_one(x), label)
        line.predict_proba_one(x)
        line.learn_one(x, label)
    guarded = line["GuardedRiverClassifier"]
    assert guarded.guard.state_dict() == guard.state_dict()
    assert guarded.unasked == 0
    line.predict_one({"chance": 0.2})
    line.predict_one({"chance": 0.3})
    with pytest.raises(ValueError, match="x was not asked, and 2 others wait"):
        line.learn_one({"chance": 0.2}, "heads")


def test_a_row_that_nobody_asked_takes_no_label_of_another() -> None:
    """Rows of an archive are learned while one waits for its label: what is judged is what was played."""
    X, y = world()
    model, played = Online(Learner(), COIN, 200, rows_change=False), []
    for chance, label in zip(X[:60, 0].tolist(), y[:60].tolist(), strict=True):
        played.append(np.array(list(model.policy_one({"chance": chance}).values())))
        model.learn_one({"chance": chance / 2}, "heads")
        model.learn_one({"chance": chance}, label)
    assert (model.unasked, model.guard.steps) == (60, 60)
    assert model.guard.regret == pytest.approx(regret_of(played, y[:60]))


@pytest.mark.parametrize("lag", [2, 7, 100])
def test_walking_forward_with_a_lag_is_a_literal_loop(lag: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 1))
    y = np.where((X[:, 0] > 0) == (np.arange(200) < 130), "heads", "tails")
    model = Guarded(LogisticRegression(), COIN, lag=lag)
    found = model.walk_forward(X, y, train=110, refit_every=30)
    guard, played = lr.Guard(COIN, 90, lag=lag), []
    inner: Any = None
    for t in range(110, 200 + lag - 1):
        if t < 200 and (t - 110) % 30 == 0:
            known = t - (lag - 1)  # whose labels have come
            inner, start = LogisticRegression().fit(X[:known], y[:known]), t
            block = inner.predict_proba(X[t : t + 30])
        if t < 200:
            guard.advise(block[t - start])
            played.append(guard.policy())
        if t - 110 >= lag - 1:
            guard.observe(str(y[t - lag + 1]))
    np.testing.assert_array_equal(found.policy_NxA, played)
    assert model.guard_.state_dict() == guard.state_dict()
    assert model.guard_.regret == pytest.approx(regret_of(played, y[110:]))
    with pytest.raises(ValueError, match="train"):
        model.walk_forward(X, y, train=lag - 1)
