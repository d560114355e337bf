"""Shared by the tests of refusals: a game, values with one thing wrong, and what is said of them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import lowregret as lr

HORIZON = 6
GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.0]])  # two actions, three states
TESTS = {
    "RegretGap": lr.RegretGap(HORIZON),
    "RegretRate": lr.RegretRate(HORIZON),
    "ExactTest": lr.ExactTest(1 / HORIZON, HORIZON),
    "ExactTest, unknown horizon": lr.ExactTest(0.1),
}
EVEN = [1 / 3, 1 / 3, 1 / 3]
PREDICTORS: dict[str, lr.Predictor] = {
    "PolyaUrn": lr.PolyaUrn(3),
    "Scheduled": lr.predictors.Scheduled([EVEN]),
    "Markov": lr.Markov(np.full((3, 3, 3), 1 / 3), window=2),
    "FromFunction": lr.FromFunction(lambda history: EVEN, 3),
    "FromFunction, batched": lr.FromFunction(lambda history: np.full((len(history), 3), 1 / 3), 3, batched=True),
    "Robust": lr.robustify(lr.PolyaUrn(3), GAME, HORIZON),
}


class Bad(NamedTuple):
    value: Any
    says: tuple[str, ...]  # what the message must say of it


def refused(call: Callable[[Any], Any], name: str, bad: Bad) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is looked at below
        call(bad.value)
    message = str(caught.value)
    for words in (name, *bad.says):
        assert words in message, f"{words!r} is not said of {bad.value!r} in: {message}"


def advised(n: int | None = None) -> lr.Guard:
    guard = lr.Guard(GAME, streams=n)
    guard.advise(np.full((*guard.shape, 3), 1 / 3))
    return guard


def laws(rng: np.random.Generator, shape: tuple[int, ...], n: int) -> np.ndarray:
    return rng.dirichlet(np.ones(n), size=shape)


CARRIERS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "numpy, float32": lambda x: x.astype(np.float32),
    "list": lambda x: x.tolist(),
    "torch": lambda x: torch.tensor(x),
    "torch, float32": lambda x: torch.tensor(x, dtype=torch.float32),
}
NOT_REAL: dict[str, Callable[[np.ndarray], Any]] = {
    "bool": lambda x: x > 0.5,
    "complex": lambda x: x.astype(complex),
    "<U": lambda x: x.astype(str),
    "object": lambda x: x.astype(object),
}


@st.composite
def bad_laws(draw: st.DrawFn, shape: tuple[int, ...]) -> Bad:
    """Laws of three states with one thing wrong, and what is to be said of it."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32))), 3
    way = draw(st.sampled_from(["negative", "sum", "nan", "infinite", "half", "kind", "width", "scalar", "shape"]))
    good, carry = laws(rng, shape, n), CARRIERS[draw(st.sampled_from(list(CARRIERS)))]
    rows = good.reshape(-1, n)
    row, at = rows[draw(st.integers(0, len(rows) - 1))], draw(st.integers(0, n - 1))
    if way == "negative":
        row[at - 1] += row[at] + (deficit := draw(st.floats(1e-6, 0.9)))
        row[at] = -deficit
        value = carry(good)
        return Bad(value, ("must not be negative", f"{float(np.asarray(value).min()):.6g}"))
    if way == "sum":
        row *= 1 + draw(st.sampled_from([-1, 1])) * draw(st.floats(3e-6, 0.9))
        return Bad(carry(good), ("must sum to one within 1e-06", "off by"))
    if way == "nan":
        row[at] = math.nan
        return Bad(carry(good), ("sum to one", "NaN"))
    if way == "infinite":
        row[at] = draw(st.sampled_from([math.inf, -math.inf, 1e37, -1e37]))
        return Bad(carry(good), (f"{float(np.float32(row[at])):.1g}"[:2],))
    if way == "half":
        dtype = draw(st.sampled_from([np.float16, torch.float16, torch.bfloat16, torch.float8_e5m2]))
        even = np.full_like(good, 1 / n)
        value = even.astype(dtype) if dtype is np.float16 else torch.tensor(even).to(dtype)
        return Bad(value, ("half precision", str(value.dtype), "float32 or float64"))
    if way == "kind":
        kind = draw(st.sampled_from(list(NOT_REAL)))
        return Bad(NOT_REAL[kind](good), ("real floating-point numbers", f"got dtype {kind}"))
    if way == "scalar":
        return Bad(draw(st.sampled_from([1.0, 1, np.float64(1), np.ones(())])), ("must have", f"{n}", "()"))
    if way == "width":
        value = carry(laws(rng, shape, draw(st.sampled_from([1, 2, 4, 7]))))
        return Bad(value, ("must have", f"{n}", str(tuple(np.shape(value)))))
    wrong = draw(st.sampled_from([s for s in ((), (1,), (5,), (*shape, 1), (1, *shape)) if s != shape]))
    return Bad(carry(laws(rng, wrong, n)), (str((*shape, n)), str((*wrong, n))))


RANGES = ("high", "low", "huge")
TOKEN_CARRIERS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda x: x,
    lambda x: x.astype(np.int8),
    lambda x: x.tolist(),
    lambda x: torch.tensor(x),
    lambda x: torch.tensor(x, dtype=torch.int16),
)


@st.composite
def bad_tokens(
    draw: st.DrawFn, n: int, shape: tuple[int, ...] | None, ways: tuple[str, ...] = (*RANGES, "float", "kind", "shape")
) -> Bad:
    """Tokens with one thing wrong; ``shape=None`` asks for sequences, which need a time step."""
    rng, way = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.sampled_from(ways))
    fit = draw(st.sampled_from([(1,), (4,), (2, 3)])) if shape is None else shape
    good, at = rng.integers(n, size=fit), tuple(draw(st.integers(0, m - 1)) for m in fit)
    carry = draw(st.sampled_from(TOKEN_CARRIERS))
    if way in ("high", "low"):
        good[at] = wrong = draw(st.integers(n, 120) if way == "high" else st.integers(-120, -1))
        return Bad(carry(good), (f"0..{n - 1}", str(wrong)))
    if way == "huge":
        wrong = draw(st.sampled_from([2**31, 2**62, 2**63, 2**64 - 1]))
        values = good.astype(np.uint64)
        values[at] = wrong
        return Bad(values, (f"0..{n - 1}", str(wrong)))
    if way == "float":
        value = CARRIERS[draw(st.sampled_from(list(CARRIERS)))](good.astype(np.float64))
        return Bad(value, ("integers", f"0..{n - 1}", "float"))
    if way == "kind":
        kind = draw(st.sampled_from(["bool", "<U", "object"]))
        value = good > 0 if kind == "bool" else good.astype(str if kind == "<U" else object)
        return Bad(value, ("integers", f"0..{n - 1}", f"got dtype {kind}"))
    wrong_shapes = [(), (0,), (3, 0)] if shape is None else [s for s in ((), (1,), (5,), (*fit, 1)) if s != fit]
    zeros = np.zeros(draw(st.sampled_from(wrong_shapes)), dtype=np.int64)
    value = zeros if zeros.size == 0 else carry(zeros)  # an empty list has no dtype of its own
    return Bad(value, ("time step" if shape is None else f"shape {fit}", str(zeros.shape)))
