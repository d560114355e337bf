"""Tokens, actions and streams that are not there are refused by name, wherever they may be given."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import many, some
from .bad_inputs import (
    ACTED_WAYS,
    EVEN,
    GAME,
    HORIZON,
    NAMED_WAYS,
    PREDICTORS,
    RANGES,
    RULES,
    Bad,
    Entry,
    advised,
    bad_tokens,
    beside,
    over,
    refused,
)


def token_entries() -> dict[str, Entry]:
    entries = {
        "Hedge.update": step_entry(lr.policies.Hedge(GAME, HORIZON), ()),
        "Hedge.update, batch": step_entry(lr.policies.Hedge(GAME, HORIZON), (4,)),
        "Hedge.policy_sequence": Entry(lr.policies.Hedge(GAME, HORIZON).policy_sequence, "tokens"),
        "external_regret, tokens": Entry(lambda s: lr.external_regret(GAME, lr.policies.Hedge(GAME, 3), s), "tokens"),
        # What is written out is a name there: tests/house/test_names.py has what is none.
        "Guard.observe": Entry(lambda s: advised(()).observe(s), "state", 3, (), NAMED_WAYS),
        "Guard.observe, batch": Entry(lambda s: advised((2, 2)).observe(s), "state", 3, (2, 2), NAMED_WAYS),
        "Guard.observe, action": Entry(lambda a: advised(()).observe(0, action=a), "action", 2, (), ACTED_WAYS),
        "Guard.observe, batched action": Entry(
            lambda a: advised((4,)).observe([0, 1, 2, 0], action=a), "action", 2, (4,), ACTED_WAYS
        ),
    }
    for name, predictor in PREDICTORS.items():
        act = lr.policies.Respond(predictor, GAME, temperature=0.1)
        entries |= {
            f"{name}.update": step_entry(predictor, ()),
            f"{name}.update, batch": step_entry(predictor, (2, 2)),
            f"{name}.predict_sequence": Entry(predictor.predict_sequence, "tokens"),
            f"Stream({name}).update": Entry(
                lambda s, p=predictor: lr.predictors.Stream(p).update(s), "token", shape=()
            ),
            f"Respond({name}).update": step_entry(act, (4,)),
            f"Respond({name}).policy_sequence": Entry(act.policy_sequence, "tokens"),
        }
    entries["Robust.trip_times"] = Entry(PREDICTORS["Robust"].trip_times, "tokens")
    for name, rule in RULES.items():
        entries[f"{name}.update"] = Entry(lambda s, r=rule: r.update(r.start(), EVEN, s), "token", shape=())
        entries[f"{name}.update, batch"] = Entry(
            lambda s, r=rule: r.update(r.start((4,)), [EVEN] * 4, s), "token", shape=(4,)
        )
        entries[f"{name}.trip_times"] = Entry(lambda s, r=rule: r.trip_times(laws_for(s), s), "tokens")
    return entries


def laws_for(tokens: Any) -> Any:
    ragged = isinstance(tokens, list) and tokens == [[0, 1], [0]]
    shape = (2, 2) if ragged else np.shape(tokens)
    even = np.full((*shape, 3), 1 / 3)
    return torch.tensor(even) if isinstance(tokens, torch.Tensor) else even


def step_entry(player: Any, shape: tuple[int, ...]) -> Entry:
    memory = player.start(shape)
    return Entry(lambda token: player.update(memory, token), "token", shape=shape)


@over(token_entries())
@given(data=st.data())
@some
def test_tokens_that_are_none(entry: Entry, data: st.DataObject) -> None:
    refused(entry.call, entry.name, data.draw(bad_tokens(entry.n, entry.shape, entry.ways)))


@over(token_entries())
def test_tokens_of_different_lengths(entry: Entry) -> None:
    refused(entry.call, entry.name, Bad([[0, 1], [0]], ("rows of one length", "[0]")))


@given(data=st.data())
@many
def test_actions_that_are_none(data: st.DataObject) -> None:
    bad = data.draw(bad_tokens(2, (4,), RANGES))
    refused(lambda actions: lr.external_regret(GAME, actions, beside(actions, [0, 1, 2, 0])), "policy", bad)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(
    ("probs", "tokens"), [([EVEN] * 3, [0, 1]), ([EVEN], [[0], [1]]), (EVEN, [0]), ([[EVEN] * 2], [0, 1])]
)
def test_probabilities_and_tokens_of_different_lengths(rule: lr.rules.Rule, probs: Any, tokens: Any) -> None:
    with pytest.raises(ValueError, match=r"probs must have shape .* got"):
        rule.trip_times(probs, tokens)


STREAMS = {
    "high": Bad([0, 4], ("0..3", "4")),
    "negative": Bad(-1, ("0..3", "-1")),
    "float": Bad([0.0], ("0..3", "float64")),
    "short mask": Bad([True, False], ("(2,)", "4")),
    "deep mask": Bad(np.ones((4, 3), dtype=bool), ("(4, 3)", "4")),
    "words": Bad("all", ("0..3", "dtype")),
    "deep": Bad([[0, 1]], ("(1, 2)",)),
    "ragged": Bad([[0, 1], [0]], ("rows of one length", "[0]")),
}


@pytest.mark.parametrize("bad", STREAMS.values(), ids=STREAMS)
def test_streams_that_are_not_there(bad: Bad) -> None:
    guard = lr.Guard(GAME, HORIZON, batch_shape=(4, 3))
    before = guard.state_dict()
    refused(guard.restart, "streams", bad)
    assert guard.state_dict() == before


def test_one_stream_has_no_streams_to_restart() -> None:
    with pytest.raises(ValueError, match="streams needs a guard with a batch axis"):
        lr.Guard(GAME, HORIZON).restart([0])
