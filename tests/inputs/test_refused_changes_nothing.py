"""What is refused changes nothing: not the guard, the stream or the memory."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr
from lowregret.memory import saved

from ..drawn import many, some
from .bad_inputs import GAME, HORIZON, PREDICTORS, RANGES, TESTS, Bad, bad_laws, bad_tokens, laws, refused


@given(n=st.sampled_from([None, 4]), data=st.data())
@some
def test_a_guard_is_not_moved_by_what_it_refuses(n: int | None, data: st.DataObject) -> None:
    guard, twin = (lr.Guard(GAME, streams=n) for _ in range(2))
    rng, tempted = np.random.default_rng(data.draw(st.integers(0, 2**32))), np.random.default_rng(7)
    shape, other = guard.shape, lr.Guard(GAME, test=lr.ExactTest(0.01), streams=n).dumps()

    def attempt(call: Callable[[Any], Any], name: str, bad: Bad) -> None:
        before = guard.dumps()
        refused(call, name, bad)
        assert guard.dumps() == before

    for _ in range(HORIZON):
        for call in (guard.observe, guard.act, lambda _: guard.skip(), lambda _: guard.policy()):
            attempt(call, "advise(forecast) must come before this", Bad(tempted, ()))
        attempt(guard.advise, "forecast", data.draw(bad_laws(shape)))
        law, state, action = laws(rng, shape, 3), rng.integers(3, size=shape), rng.integers(2, size=shape)
        assert np.array_equal(guard.advise(law).policy, twin.advise(law).policy)
        attempt(guard.advise, "forecast", data.draw(bad_laws(shape)))
        attempt(guard.observe, "state", data.draw(bad_tokens(3, shape, (*RANGES, "shape"))))
        acted = data.draw(bad_tokens(2, shape, (*RANGES, "float", "shape")))
        attempt(lambda a, s=state: guard.observe(s, action=a), "action", acted)
        attempt(guard.act, "seed", Bad(-1, ("-1",)))
        attempt(guard.restart, "streams", Bad([99], ()))
        attempt(guard.loads, "delta", Bad(other, ()))
        guard.observe(state, action=action)
        twin.observe(state, action=action)
    assert tempted.random() == np.random.default_rng(7).random()
    assert guard.dumps() == twin.dumps()


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


@given(name=st.sampled_from(list(TESTS)), shape=st.sampled_from([(), (4,)]), data=st.data())
@some
def test_a_memory_is_not_moved_by_what_is_refused(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    safe, hedge = lr.robustify(lr.PolyaUrn(3), GAME, test=TESTS[name]), lr.policies.Hedge(GAME, HORIZON)
    watched, weights = safe.start(shape), hedge.start(shape)
    for _ in range(3):
        before = copy.deepcopy((saved(watched), saved(weights)))
        refused(lambda s, m=watched: safe.update(m, s), "token", data.draw(bad_tokens(3, shape)))
        refused(lambda s, m=weights: hedge.update(m, s), "token", data.draw(bad_tokens(3, shape)))
        assert (saved(watched), saved(weights)) == before
        watched, weights = safe.update(watched, np.ones(shape, int)), hedge.update(weights, np.ones(shape, int))
