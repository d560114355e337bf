"""Labels that come late, in any order, twice or never, from threads and through saved bytes: in both adapters.

The oracle is a ``Guard`` that is driven by hand, and what was really played and came, kept outside.
"""

import importlib
import pickle
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import base
from sklearn.base import BaseEstimator, ClassifierMixin

import lowregret as lr
from lowregret.adapters.steps import KEPT
from lowregret.guard import Guard, OutcomeGivenUp, OutcomeIgnored

from .beside import assert_same

SIDES = ["heads", "tails"]
COIN = lr.DecisionProblem(np.eye(2), actions=SIDES, states=SIDES)


class Says(ClassifierMixin, BaseEstimator):
    """Says of a row what is written in it."""

    def fit(self, X: Any, y: Any) -> "Says":
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        chance = np.asarray(X, dtype=np.float64)[:, 0]
        return np.stack([chance, 1 - chance], axis=1)


class Learner(base.Classifier):
    """Says what is written in a row; counts what it learns, and who asks while it does."""

    def __init__(self) -> None:
        self.learned, self.disturbed, self.is_busy = 0, 0, False

    def learn_one(self, x: dict, y: Any) -> None:
        self.disturbed += self.is_busy
        self.is_busy = True
        time.sleep(1e-5)  # another thread goes on, unless it has to wait
        self.is_busy = False
        self.learned += 1

    def predict_proba_one(self, x: dict) -> dict:
        self.disturbed += self.is_busy
        return {"heads": x["chance"], "tails": 1 - x["chance"]}


class Served:
    """Either adapter, by rows that are numbers."""

    def __init__(self, river: bool, **settings: Any) -> None:
        guard, self.river = Guard(COIN, **settings), river
        if river:
            self.model: Any = lr.adapters.GuardedRiverClassifier(Learner(), guard, floor=0.0)
        else:
            self.model = lr.GuardedClassifier(Says(), guard).fit([[0.0], [1.0]], SIDES)

    @property
    def guard(self) -> Guard:
        return self.model.guard if self.river else self.model.guard_

    def policy(self, chance: float, id: Any = None) -> list[float]:
        if self.river:
            return list(self.model.policy_one({"chance": chance}, id=id).values())
        return self.model.policy([[chance]], id)[0].tolist()

    def label(self, y: str, id: Any = None) -> None:
        if self.river:
            self.model.learn_one({"chance": 0.5}, str(y), id=id)
        else:
            self.model.observe(y, id=id)


both = pytest.mark.parametrize("river", [False, True], ids=["scikit-learn", "River"])


def world(n: int = 120, seed: int = 0) -> tuple[list[float], list[str]]:
    """Chances that are right at first and the wrong way round from a third on."""
    rng = np.random.default_rng(seed)
    chance = rng.permutation(np.linspace(0.55, 0.95, n))
    is_heads = rng.random(n) < np.where(np.arange(n) < n // 3, chance, 1 - chance)
    return chance.tolist(), np.where(is_heads, "heads", "tails").tolist()


def orders(n: int, lag: int, seed: int) -> Iterator[tuple[str, int]]:
    """Rows are asked in order, labels come in any within the lag."""
    rng, waiting, t = np.random.default_rng(seed), [], 0
    while t < n or waiting:
        is_full = bool(waiting) and waiting[0] <= t - lag
        if t < n and not is_full and (not waiting or rng.random() < 0.6):
            waiting.append(t)
            yield "asked", t
            t += 1
        else:
            yield "came", waiting.pop(0 if is_full else int(rng.integers(len(waiting))))


@both
@pytest.mark.parametrize("lag", [1, 2, 7, 120])
def test_labels_in_any_order_saved_half_way(river: bool, lag: int) -> None:
    chances, y = world()
    served, guard = Served(river, lag=lag), Guard(COIN, lag=lag)
    other = Served(river, lag=lag)
    came = []
    for i, (what, t) in enumerate(orders(120, lag, seed=lag)):
        name = f"order {t}" if t % 2 else t
        if what == "asked":
            policy = guard.advise([chances[t], 1 - chances[t]]).policy.tolist()
            assert served.policy(chances[t], name) == served.policy(0.5, name) == policy  # it keeps its answer
        else:
            guard.observe(y[t], step=t + 1)
            served.label(y[t], name)
            came.append(t)
        if i % 40 == 7:  # another process goes on
            other.guard.loads(served.guard.dumps())
            served, other = other, served
        elif i % 40 == 27:
            served.model = pickle.loads(pickle.dumps(served.model))
    assert_same(served.guard, guard)
    assert served.guard.steps == 120
    assert served.guard.events or lag > 2
    assert lag < 3 or came != sorted(came)


@both
@pytest.mark.parametrize("lag", [2, 5])
def test_labels_in_order_need_no_ids(river: bool, lag: int) -> None:
    chances, y = world()
    served, guard = Served(river, lag=lag), Guard(COIN, lag=lag)
    for t in range(120 + lag - 1):
        if t < 120:
            assert served.policy(chances[t]) == guard.advise([chances[t], 1 - chances[t]]).policy.tolist()
        if t >= lag - 1:
            guard.observe(y[t - lag + 1])
            served.label(y[t - lag + 1])
    assert_same(served.guard, guard)


@both
@pytest.mark.parametrize("lag", [1, 3])
def test_what_comes_too_late_or_twice_is_ignored_and_said(river: bool, lag: int) -> None:
    chances, y = world()
    served, guard = Served(river, lag=lag), Guard(COIN, lag=lag)
    for t in range(60):
        served.policy(chances[t], t)
        guard.advise([chances[t], 1 - chances[t]], step=t + 1)
        if t % 4 == 0 and t >= lag:
            served.label(y[t - lag], t - lag)  # its place was needed for row t
            guard.observe(y[t - lag], step=t - lag + 1)
        for _ in range(1 + t % 2):  # some are delivered twice
            served.label(y[t], t) if t % 3 else None
            guard.observe(y[t], step=t + 1) if t % 3 else None
    assert_same(served.guard, guard)
    kinds = [type(event) for event in served.guard.events]
    assert OutcomeGivenUp in kinds
    assert OutcomeIgnored in kinds
    for t in range(KEPT + lag):
        served.policy(0.5, f"later {t}")
    learned = served.model.model.learned if river else 0
    assert (learned > 0) == river  # River's learn what comes too late for the guard, too
    with pytest.raises(ValueError, match=r"id 1 is unknown, or too old; those that wait: \['later"):
        served.label("heads", 1)
    assert not river or served.model.model.learned == learned


@both
def test_while_rows_wait_by_their_ids_others_are_looked_at(river: bool) -> None:
    for lag in (1, 3):
        served = Served(river, lag=lag)
        first = served.policy(0.9, "kept")
        before = served.guard.dumps()
        assert served.policy(0.1) == [0.0, 1.0]
        assert served.guard.dumps() == before
        served.label("tails")  # in order: that of the id
        assert (first, served.guard.steps, served.guard.waiting) == ([1.0, 0.0], 1, [])
        served.policy(0.9)
        assert served.policy(0.2) == [0.0, 1.0]
        assert len(served.guard.waiting) == min(lag, 2)  # without ids and a lag, the same step is advised anew


@both
@pytest.mark.parametrize("lag", [1, 3])
def test_skipped_and_restarted(river: bool, lag: int) -> None:
    served = Served(river, lag=lag)
    for name in "abc"[:lag]:
        served.policy(0.7, name)
    if lag == 3:
        served.model.skip(id="b")
        served.model.skip()  # the oldest
        assert (served.guard.waiting, served.guard.steps) == ([3], 2)
        with pytest.raises(ValueError, match="waits for no outcome"):
            served.model.skip(id="b")
    served.guard.restart()
    served.policy(0.7)
    for name in (None, "d"):
        served.label("heads", "abc"[lag - 1])  # of the episode before
        assert (len(served.guard.waiting), served.guard.steps) == (1, int(name is not None))
        served.label("heads", name)
        served.policy(0.7, "d")
    assert served.guard.steps == 2


def test_what_an_id_cannot_be() -> None:
    model = Served(river=False, lag=2).model
    model.policy([[0.6]], "a")
    before = model.guard_.dumps()
    for bad in (["d"], ["d", "d"], [["d"], "e"], [None, "d"], [0.5, "d"], "de", {"d": 1, "e": 2}):
        with pytest.raises(ValueError, match="id must be a text or a whole number for each row, 2 of them"):
            model.policy([[0.6], [0.7]], bad)
    with pytest.raises(ValueError, match="3 rows cannot wait for their labels at once where lag is 2"):
        model.policy([[0.6], [0.7], [0.8]], [1, 2, 3])
    with pytest.raises(ValueError, match=r"id 'd' is unknown, or too old; those that wait: \['a'\]"):
        model.observe(["heads", "heads"], id=["a", "d"])
    with pytest.raises(ValueError, match="2 labels were given, and 1 rows wait for one"):
        model.observe(["heads", "heads"])
    assert model.guard_.dumps() == before
    model.policy([[0.6], [0.7]], pd.Series(["b", "a"]))
    assert model.observe(["heads", "tails"], id=("a", "b")).guard_.steps == 2
    model.policy([[0.6]], np.int64(7))
    assert model.observe("heads", id=[7]).guard_.steps == 3


@both
def test_threads_lose_nothing(river: bool) -> None:
    chances, y = world(200)
    served, played = Served(river, lag=200), {}

    def work(t: int) -> None:
        played[t] = served.policy(chances[t], t)
        served.label(y[t], t)

    in_order = Served(river, lag=200)
    for chance in chances:
        in_order.policy(chance)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
        list(pool.map(in_order.label, y))
    assert (in_order.guard.steps, in_order.guard.waiting) == (200, [])
    states = [SIDES.index(label) for label in y]
    own = sum(played[t][state] for t, state in enumerate(states))
    assert served.guard.steps == 200
    assert served.guard.regret == pytest.approx((max(states.count(0), states.count(1)) - own) / 200)
    if river:
        assert (served.model.model.learned, served.model.model.disturbed) == (200, 0)


@pytest.mark.parametrize(
    ("file", "module", "extra"), [("river_models", "river", "river"), ("scikit_learn", "sklearn.base", "sklearn")]
)
def test_without_its_package_an_adapter_says_what_to_install(
    file: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"lowregret.adapters.{file}")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'lowregret\[{extra}\]'"):
        importlib.import_module(f"lowregret.adapters.{file}")
