"""What is refused changes nothing: not the guard, the stream or the memory, nor what was given."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr
from lowregret.memory import saved

from ..drawn import few, many, some
from .bad_inputs import (
    ACTED_WAYS,
    GAME,
    HORIZON,
    NAMED_WAYS,
    PREDICTORS,
    RULES,
    Bad,
    bad_laws,
    bad_tokens,
    laws,
    refused,
)


def law_of(rng: np.random.Generator, shape: tuple[int, ...], like: str) -> Any:
    values = laws(rng, shape, 3)
    return torch.tensor(values) if like == "torch" else values


@st.composite
def guards(draw: st.DrawFn) -> Callable[[], lr.Guard]:
    rule = draw(st.sampled_from(list(RULES.values())))
    shape = draw(st.sampled_from([(), (4,), (2, 2)]))
    return lambda: lr.Guard(GAME, rule.horizon, rule=rule, batch_shape=shape)


@given(make=guards(), like=st.sampled_from(["numpy", "torch"]), seed=st.integers(0, 2**32), data=st.data())
@some
def test_a_guard_is_not_moved_by_what_it_refuses(
    make: Callable[[], lr.Guard], like: str, seed: int, data: st.DataObject
) -> None:
    guard, twin, rng = make(), make(), np.random.default_rng(seed)
    shape = guard.batch_shape
    tempted = np.random.default_rng(7)

    def attempt(call: Callable[[Any], Any], name: str, bad: Bad) -> None:
        before = copy.deepcopy(guard.state_dict())
        refused(call, name, bad)
        assert guard.state_dict() == before

    for _ in range(HORIZON):
        attempt(guard.observe, "advise(forecast) must come before this", Bad(np.zeros(shape, dtype=int), ()))
        attempt(guard.act, "advise(forecast) must come before this", Bad(tempted, ()))
        attempt(guard.advise, "probs", data.draw(bad_laws(3, shape)))
        law = law_of(rng, shape, like)
        first, second = guard.advise(law).law, twin.advise(law).law
        assert np.array_equal(first, second)
        attempt(guard.advise, "probs", data.draw(bad_laws(3, shape)))
        attempt(guard.observe, "state", data.draw(bad_tokens(3, shape, NAMED_WAYS)))
        good = np.zeros(shape, dtype=np.int64)
        acted = data.draw(bad_tokens(2, shape, ACTED_WAYS))
        attempt(lambda action, s=good: guard.observe(s, action=action), "action", acted)
        attempt(guard.act, "seed", Bad(-1, ("-1",)))
        attempt(guard.restart, "streams", Bad([99] if shape else [0], ()))
        attempt(guard.load_state_dict, "state_dict", Bad({"format": 2}, ("format 1",)))
        state, action = rng.integers(3, size=shape), rng.integers(2, size=shape)
        guard.observe(state, action=action)
        twin.observe(state, action=action)
    assert guard.state_dict() == twin.state_dict()
    assert tempted.random() == np.random.default_rng(7).random()
    assert np.array_equal(guard.regret, twin.regret)
    assert np.array_equal(guard.realised_regret, twin.realised_regret, equal_nan=True)
    assert guard.events == twin.events


@given(name=st.sampled_from(list(PREDICTORS)), shape=st.sampled_from([(), (4,), (2, 2)]), data=st.data())
@many
def test_a_stream_is_not_moved_by_what_it_refuses(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    stream, twin = (lr.predictors.Stream(PREDICTORS[name], shape) for _ in range(2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for _ in range(HORIZON):
        before, memory = copy.deepcopy(stream.state_dict()), stream.memory
        refused(stream.update, "token", data.draw(bad_tokens(3, shape)))
        with pytest.raises(ValueError, match="state_dict"):
            stream.load_state_dict(
                data.draw(st.sampled_from([{}, None, {"format": 1}, {"format": 1, "memory": [0, 0, 0, 0]}]))
            )
        assert stream.memory is memory
        assert stream.state_dict() == before
        token = rng.integers(3, size=shape)
        stream.update(token)
        twin.update(token)
    assert stream.state_dict() == twin.state_dict()
    assert np.array_equal(stream.predict(), twin.predict())


@given(name=st.sampled_from(list(RULES)), shape=st.sampled_from([(), (4,)]), data=st.data())
@many
def test_a_memory_is_not_moved_by_what_is_refused(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    rule, hedge = RULES[name], lr.policies.Hedge(GAME, HORIZON)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    watched, weights = rule.start(shape), hedge.start(shape)
    for _ in range(3):
        law, token = laws(rng, shape, 3), rng.integers(3, size=shape)
        before = copy.deepcopy((saved(watched), saved(weights)))
        refused(lambda p, m=watched, s=token: rule.update(m, p, s), "probs", data.draw(bad_laws(3, shape)))
        refused(lambda s, m=watched, p=law: rule.update(m, p, s), "token", data.draw(bad_tokens(3, shape)))
        refused(lambda s, m=weights: hedge.update(m, s), "token", data.draw(bad_tokens(3, shape)))
        assert (saved(watched), saved(weights)) == before
        watched, weights = rule.update(watched, law, token), hedge.update(weights, token)


@given(data=st.data())
@few
def test_what_is_refused_is_not_changed_either(data: st.DataObject) -> None:
    bad = data.draw(bad_laws(3, ()))
    before = repr(bad.value)
    refused(lr.Guard(GAME, HORIZON).advise, "probs", bad)
    assert repr(bad.value) == before
