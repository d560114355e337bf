"""Probabilities that are none are refused by name, wherever they may be given."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import some
from .bad_inputs import EVEN, GAME, HORIZON, RULES, VALUES, Bad, Entry, bad_laws, beside, over, refused


class Says(lr.Predictor):
    """A model that gives one law at the first step and another from then on, or one table for a whole sequence."""

    n_states = 3

    def __init__(self, law: Any, first: Any = None, sequence: Any = None) -> None:
        self.law, self.first, self.sequence = law, law if first is None else first, sequence

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> int:
        return 0

    def predict(self, memory: int) -> Any:
        return self.law if memory else self.first

    def update(self, memory: int, token: Any) -> int:
        return memory + 1

    def predict_sequence(self, tokens: Any) -> Any:
        return self.sequence


def robust(law: Any, first: Any = None, sequence: Any = None) -> lr.robust.Robust:
    return lr.robust.Robust(Says(law, first, sequence), RULES["ExactTest"])


def updated(law: Any) -> Any:
    safe = robust(law, first=EVEN)
    return safe.update(safe.start(), 0)


def advise(law: Any) -> Any:
    return lr.Guard(GAME, HORIZON, batch_shape=(2, 2)).advise(law)


def law_entries() -> dict[str, Entry]:
    entries = {
        "best_response": Entry(GAME.best_response, "beliefs"),
        "quantal_response": Entry(lambda p: GAME.quantal_response(p, 0.1), "beliefs"),
        "invert, policy": Entry(lambda p: GAME.invert_quantal_response(p, 0.1), "policy", n=2),
        "invert, near": Entry(lambda p: GAME.invert_quantal_response([0.5, 0.5], 0.1, near=p), "near"),
        "FromFunction": Entry(lambda p: one_law(p, False, ()), "what fn returned", shape=()),
        "FromFunction, batched": Entry(lambda p: one_law(p, True, (4,)), "what fn returned", shape=(4,)),
        "external_regret": Entry(
            lambda p: lr.external_regret(GAME, p, beside(p, [0, 1, 2])), "policy", n=2, shape=(3,)
        ),
        "Robust.start": Entry(lambda p: robust(p).start(), "the probabilities of Says", shape=()),
        "Robust.start, batch": Entry(lambda p: robust(p).start((4,)), "the probabilities of Says", shape=(4,)),
        "Robust.update": Entry(updated, "the probabilities of Says", shape=()),
        "Robust.trip_times": Entry(
            lambda p: robust(p, sequence=p).trip_times(beside(p, [0, 1])), "the probabilities of", shape=(2,)
        ),
        "Robust.predict_sequence": Entry(
            lambda p: robust(p, sequence=p).predict_sequence(beside(p, [0])), "the probabilities of", shape=(1,)
        ),
        "Guard.advise": Entry(lambda p: lr.Guard(GAME, HORIZON).advise(p), "probs", shape=()),
        "Guard.advise, batch": Entry(advise, "probs", shape=(2, 2)),
    }
    for name, rule in RULES.items():
        entries[f"{name}.update"] = Entry(lambda p, r=rule: r.update(r.start(), p, 0), "probs", shape=())
        entries[f"{name}.update, batch"] = Entry(
            lambda p, r=rule: r.update(r.start((2,)), p, [0, 1]), "probs", shape=(2,)
        )
        entries[f"{name}.trip_times"] = Entry(
            lambda p, r=rule: r.trip_times(p, beside(p, [[0, 1, 2], [2, 1, 0]])), "probs", shape=(2, 3)
        )
    return entries


def one_law(law: Any, batched: bool, shape: tuple[int, ...]) -> Any:
    predictor = lr.FromFunction(lambda history: law, 3, batched=batched)
    return predictor.predict(predictor.start(shape))


@over(law_entries())
@given(data=st.data())
@some
def test_probabilities_that_are_none(entry: Entry, data: st.DataObject) -> None:
    refused(entry.call, entry.name, data.draw(bad_laws(entry.n, entry.shape)))


TABLES = {
    "Scheduled": Entry(lr.predictors.Scheduled, "probs_TxS", shape=(3,)),
    "Markov, transition": Entry(lambda p: lr.Markov(p, window=1), "transition", shape=(3,)),
    "Markov, initial": Entry(lambda p: lr.Markov(np.eye(3), 1, initial=p), "initial", shape=()),
}


@over(TABLES)
@given(data=st.data())
@some
def test_tables_of_laws_that_are_none(entry: Entry, data: st.DataObject) -> None:
    refused(entry.call, entry.name, data.draw(bad_laws(entry.n, entry.shape, VALUES, "numpy")))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "bool", "complex", "str", "object"])
@over(TABLES)
def test_tables_of_another_type(entry: Entry, kind: str) -> None:
    assert entry.shape is not None
    certain = np.zeros((*entry.shape, 3))
    certain[..., 0] = 1
    value = torch.tensor(certain).to(torch.bfloat16) if kind == "bfloat16" else certain.astype(kind)
    refused(entry.call, entry.name, Bad(value, (kind.replace("str", "<U"),)))


@over(TABLES)
def test_tables_from_torch(entry: Entry) -> None:
    assert entry.shape is not None
    entry.call(torch.full((*entry.shape, 3), 1 / 3, dtype=torch.float64))


@pytest.mark.parametrize(
    "bad", [[], [[]], [0.5, 0.5], [[[0.5, 0.5]]], np.zeros((0, 2)), np.zeros((2, 0)), 1.0, None], ids=repr
)
def test_schedules_without_steps_or_states(bad: Any) -> None:
    with pytest.raises(ValueError, match="probs_TxS must"):
        lr.predictors.Scheduled(bad)


@pytest.mark.parametrize(
    ("transition", "length"),
    [([], 0), ([[]], 1), (np.eye(2), 0), (np.eye(2), 2), (np.eye(2)[:1], 1), (np.eye(3)[:2], 1), (1.0, 0), (None, 1)],
    ids=repr,
)
def test_transitions_of_another_shape(transition: Any, length: int) -> None:
    with pytest.raises(ValueError, match="transition must"):
        lr.Markov(transition, length)


@pytest.mark.parametrize("initial", [[1.0], [0.5, 0.5, 0.0], [[0.5, 0.5]], 1.0])
def test_initial_laws_of_another_shape(initial: Any) -> None:
    with pytest.raises(ValueError, match="initial must"):
        lr.Markov(np.eye(2), 1, initial=initial)


@over(law_entries())
def test_laws_of_different_lengths(entry: Entry) -> None:
    refused(entry.call, entry.name, Bad([[1.0, 0.0, 0.0], [1.0]], ("rows of one length", "[1.0]")))
