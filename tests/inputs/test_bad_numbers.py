"""Temperatures, chances, horizons, counts and shapes that are none are refused by name."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import some
from .bad_inputs import EVEN, GAME, HORIZON, PREDICTORS, RULES, Bad, advised, over, refused

NOT_NUMBERS: list[Any] = ["0.5", [0.5], True, False, 1j, np.array([0.5]), {}]
NOT_POSITIVE = st.one_of(
    st.floats(max_value=0),
    st.sampled_from([math.nan, math.inf, -math.inf, 0, -1, *NOT_NUMBERS]),
    st.integers(max_value=0),
)
NOT_A_CHANCE = st.one_of(
    st.floats(max_value=0), st.floats(min_value=1), st.integers(), st.sampled_from([math.nan, *NOT_NUMBERS])
)
NOT_A_COUNT = st.one_of(
    st.integers(max_value=0), st.floats(), st.sampled_from([1.5, 1.0, np.float64(3), math.nan, *NOT_NUMBERS])
)


def sink(history: Any) -> Any:
    return EVEN


POSITIVE = {
    "quantal_response": (lambda v: GAME.quantal_response(EVEN, v), "temperature", False),
    "invert_quantal_response": (lambda v: GAME.invert_quantal_response([0.5, 0.5], v), "temperature", False),
    "Respond": (lambda v: lr.policies.Respond(lr.PolyaUrn(3), GAME, v), "temperature", True),
    "RegretGap": (lambda v: lr.rules.RegretGap(GAME, HORIZON, temperature=v), "temperature", True),
    "RegretRate": (lambda v: lr.rules.RegretRate(GAME, HORIZON, temperature=v), "temperature", True),
    "Hedge, rate": (lambda v: lr.policies.Hedge(GAME, HORIZON, rate=v), "rate", True),
    "PolyaUrn, prior": (lambda v: lr.PolyaUrn(3, prior=v), "prior", False),
    "RegretGap, alpha": (lambda v: lr.rules.RegretGap(GAME, HORIZON, alpha=v), "alpha", False),
    "RegretRate, alpha": (lambda v: lr.rules.RegretRate(GAME, HORIZON, alpha=v), "alpha", False),
}
CHANCES = {
    "ExactTest": (lambda v: lr.ExactTest(GAME, HORIZON, delta=v), "delta", True),
    "ExactTest, unknown horizon": (lambda v: lr.ExactTest(GAME, None, delta=v), "delta", False),
    "RegretGap, unknown horizon": (lambda v: lr.rules.RegretGap(GAME, None, delta=v), "delta", False),
}
COUNTS = {
    "RegretGap": (lambda v: lr.rules.RegretGap(GAME, v), "horizon", True),
    "RegretRate": (lambda v: lr.rules.RegretRate(GAME, v), "horizon", True),
    "ExactTest": (lambda v: lr.ExactTest(GAME, v), "horizon", True),
    "robustify": (lambda v: lr.robustify(lr.PolyaUrn(3), GAME, v), "horizon", True),
    "Guard": (lambda v: lr.Guard(GAME, v), "horizon", True),
    "Hedge": (lambda v: lr.policies.Hedge(GAME, v), "horizon", False),
    "sample": (lambda v: lr.sample(lr.PolyaUrn(3), v, 1, 0), "horizon", False),
    "paper_sources": (lr.sources.paper_sources, "horizon", False),
    "PolyaUrn": (lr.PolyaUrn, "n_states", False),
    "FromFunction": (lambda v: lr.FromFunction(sink, v), "n_states", False),
    "matching": (lr.matching, "n", False),
    "Certificate.at": (lambda v: RULES["ExactTest"].certificate.at(v), "step", False),
}


def number_refused(entry: Any, data: st.DataObject, values: st.SearchStrategy, may_be: str) -> None:
    call, name, none_is_fine = entry
    value = data.draw(values if none_is_fine else st.one_of(values, st.none()))
    refused(call, name, Bad(value, (() if value is None else (may_be, repr(value)))))


@over(POSITIVE)
@given(data=st.data())
@some
def test_numbers_that_must_be_positive(entry: Any, data: st.DataObject) -> None:
    number_refused(entry, data, NOT_POSITIVE, "positive finite number")


@over(CHANCES)
@given(data=st.data())
@some
def test_delta_outside_the_unit_interval(entry: Any, data: st.DataObject) -> None:
    number_refused(entry, data, NOT_A_CHANCE, "strictly between 0 and 1")


@over(COUNTS)
@given(data=st.data())
@some
def test_counts_that_are_none(entry: Any, data: st.DataObject) -> None:
    number_refused(entry, data, NOT_A_COUNT, "whole number >= 1")


@pytest.mark.parametrize("value", [-1, 1.0, math.nan, True, "3", None, [3]], ids=repr)
def test_counts_that_may_be_zero(value: Any) -> None:
    for call, name in (
        (lambda v: lr.sample(lr.PolyaUrn(3), 2, v, 0), "n"),
        (lambda v: lr.sample(lr.PolyaUrn(3), 2, 1, v), "seed"),
        (lambda v: advised(()).act(v), "seed"),
        (lambda v: advised((2,)).act(v), "seed"),
        (lambda v: lr.Markov(np.eye(2), v), "window"),
    ):
        refused(call, f"{name} must be a whole number >= 0", Bad(value, (repr(value),)))


BATCHES: list[Any] = [-1, (-1,), (2, -3), (1.5,), 1.5, "ab", None, (True,), ((2,),), {2}]


@pytest.mark.parametrize("shape", BATCHES, ids=repr)
def test_batch_shapes_that_are_none(shape: Any) -> None:
    starts = [p.start for p in PREDICTORS.values()] + [r.start for r in RULES.values()]
    starts += [lr.policies.Hedge(GAME, HORIZON).start, lr.policies.Respond(lr.PolyaUrn(3), GAME, 0.1).start]

    def guarded(shape: Any) -> Any:
        return lr.Guard(GAME, HORIZON, batch_shape=shape)

    starts += [guarded, lambda s: lr.predictors.Stream(lr.PolyaUrn(3), s)]
    for start in starts:
        if shape is None and start is guarded:  # nothing was said of it
            continue
        with pytest.raises(ValueError, match=r"batch_shape must be .*whole number.*, got"):
            start(shape)
