"""Payoffs and utilities that make no decision problem are refused by name."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import many
from .bad_inputs import EVEN, GAME, Bad, refused

MATRICES: dict[str, Bad] = {
    "no actions": Bad(np.zeros((0, 3)), ("[actions, states]", "(0, 3)")),
    "no states": Bad(np.zeros((3, 0)), ("[actions, states]", "(3, 0)")),
    "empty": Bad([], ("[actions, states]", "(0,)")),
    "empty row": Bad([[]], ("[actions, states]", "(1, 0)")),
    "vector": Bad([0.5, 1.0], ("[actions, states]", "(2,)")),
    "cube": Bad([[[0.5]]], ("[actions, states]", "(1, 1, 1)")),
    "number": Bad(0.5, ("[actions, states]", "()")),
    "NaN": Bad([[0.0, math.nan]], ("finite", "1 entries")),
    "infinity": Bad([[math.inf, -math.inf]], ("finite", "2 entries")),
    "words": Bad([["left", "right"]], ("matrix of numbers", "left")),
    "ragged": Bad([[0.0, 1.0], [0.0]], ("matrix of numbers", "[0.0]")),
}


@pytest.mark.parametrize("bad", MATRICES.values(), ids=MATRICES)
def test_matrices_that_are_none(bad: Bad) -> None:
    refused(lr.DecisionProblem, "utility", bad)
    refused(lr.DecisionProblem.from_payoffs, "payoffs", bad)


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    wrong=st.floats(1.0000001, 1e6),
    sign=st.sampled_from([-1, 1]),
)
@many
def test_utilities_outside_the_unit_interval(rows: int, columns: int, seed: int, wrong: float, sign: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (rows, columns))
    matrix[rng.integers(rows), rng.integers(columns)] = sign * wrong
    refused(lr.DecisionProblem, "utility", Bad(matrix, ("[-1, 1]", f"{sign * wrong:.6g}", "from_payoffs")))


@pytest.mark.parametrize("names", [["one"], ["one", "two", "three"], []])
def test_names_that_do_not_fit(names: list[str]) -> None:
    for make in (lr.DecisionProblem, lr.DecisionProblem.from_payoffs):
        with pytest.raises(ValueError, match=rf"actions must name each of the 2 .* got {len(names)}"):
            make(np.eye(2), actions=names)
        with pytest.raises(ValueError, match=rf"states must name each of the 2 .* got {len(names)}"):
            make(np.eye(2), states=names)


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, [1.0], True], ids=repr)
def test_prices_that_are_none(value: Any) -> None:
    for call, name in (
        (lambda v: lr.newsvendor([0, 1], price=v, cost=1), "price"),
        (lambda v: lr.newsvendor([0, 1], price=2, cost=v), "cost"),
        (lambda v: lr.newsvendor([0, 1], price=2, cost=1, salvage=v), "salvage"),
        (lambda v: lr.cost_loss(cost=v, loss=1), "cost"),
        (lambda v: lr.cost_loss(cost=1, loss=v), "loss"),
        (lambda v: lr.trading([-1, 1], fee=v), "fee"),
    ):
        refused(call, f"{name} must be a finite number", Bad(value, (repr(value),)))


@pytest.mark.parametrize("value", [[], [math.nan], [0, math.inf], "ab", ["a"], [[1.0]], 1.0, None], ids=repr)
def test_levels_that_are_none(value: Any) -> None:
    for call, name in (
        (lambda v: lr.newsvendor(v, price=2, cost=1), "levels"),
        (lr.trading, "moves"),
        (lambda v: lr.trading([-1, 1], positions=v), "positions"),
    ):
        refused(call, f"{name} must be a ", Bad(value, (repr(value),)))


def test_only_two_actions_can_be_inverted() -> None:
    with pytest.raises(ValueError, match="two actions, this one has 3"):
        lr.matching(3).invert_quantal_response(EVEN, 0.1)
    with pytest.raises(ValueError, match=r"policy is the quantal response to no belief at temperature 0\.1"):
        GAME.invert_quantal_response([1e-30, 1 - 1e-30], 0.1)
