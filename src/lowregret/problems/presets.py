"""Problems that many people have: guessing, rock-paper-scissors, ordering, protecting, trading."""

from typing import Any

import numpy as np

from .. import inputs
from .decision import DecisionProblem
from .payoff import Payoff


def matching(n: int = 2) -> DecisionProblem:
    """Guess the state: utility 1 for a right guess, else 0 (the paper's adversarial online prediction)."""
    return DecisionProblem(np.eye(inputs.whole(n, "n")))


def rock_paper_scissors() -> DecisionProblem:
    """Rock, paper, scissors, in that order: +1 where the action beats the state, -1 where it loses.

    >>> int(rock_paper_scissors().best_response([1.0, 0.0, 0.0]))  # paper beats rock
    1
    """
    names = ["rock", "paper", "scissors"]
    return DecisionProblem([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], actions=names, states=names)


def newsvendor(levels: Any, price: float, cost: float, salvage: float = 0.0) -> DecisionProblem:
    """Order one of ``levels`` before the demand, one of ``levels`` too, is known; leftovers fetch ``salvage`` each.

    >>> shop = newsvendor([0, 10, 20], price=5, cost=3)
    >>> shop.in_payoffs(shop.utility).round(6).tolist()
    [[0.0, 0.0, 0.0], [-30.0, 20.0, 20.0], [-60.0, -10.0, 40.0]]
    """
    levels = _orders(levels)
    names = _printed(levels)
    payoffs = _profits(levels, levels, price, cost, salvage)
    return DecisionProblem.from_payoffs(payoffs, actions=names, states=names)


def newsvendor_of_numbers(levels: Any, price: float, cost: float, salvage: float = 0.0) -> Payoff:
    """The same where the demand may be any number from 0 on, as quantiles forecast it.

    >>> newsvendor_of_numbers([10, 20], price=5, cost=3).payoffs([0, 12.5]).tolist()
    [[-30.0, 20.0], [-60.0, 2.5]]
    """
    levels = _orders(levels)
    knots = np.union1d(levels, [0.0])
    actions = [int(level) if level.is_integer() else level for level in levels.tolist()]
    return Payoff.from_knots(_profits(levels, knots, price, cost, salvage), knots, actions, outcomes=(0, None))


def _orders(levels: Any) -> np.ndarray:
    orders = _vector(levels, "levels")
    if orders.min() < 0:
        raise ValueError(f"levels must not be negative, got {orders.min():.6g}")
    return orders


def _profits(orders: np.ndarray, demands: np.ndarray, price: float, cost: float, salvage: float) -> np.ndarray:
    """``[order, demand]``."""
    price, cost = inputs.not_negative(price, "price"), inputs.not_negative(cost, "cost")
    salvage = inputs.finite(salvage, "salvage")
    if cost > price:
        raise ValueError(f"cost must be at most the price {price:g}, got {cost:g}: every sale would lose")
    order, demand = orders[:, None], demands[None, :]
    sold = np.minimum(order, demand)
    payoffs: np.ndarray = price * sold + salvage * (order - sold) - cost * order
    return payoffs


def cost_loss(cost: float, loss: float) -> DecisionProblem:
    """Protect at ``cost`` or risk ``loss``: actions (wait, protect), states (calm, event).

    >>> int(cost_loss(cost=1, loss=4).best_response([0.7, 0.3]))  # protect: the event is likelier than cost / loss
    1
    """
    cost, loss = inputs.not_negative(cost, "cost"), inputs.not_negative(loss, "loss")
    payoffs = [[0.0, -loss], [-cost, -cost]]
    return DecisionProblem.from_payoffs(payoffs, actions=["wait", "protect"], states=["calm", "event"])


def trading(moves: Any, positions: Any = (-1, 0, 1), fee: float = 0.0) -> DecisionProblem:
    """Hold one of ``positions`` while the price makes one of ``moves``; ``fee`` per unit of position held, each step.

    >>> int(trading([-2, 0, 2], fee=0.5).best_response([0.1, 0.1, 0.8]))  # long
    2
    """
    moves, positions = _vector(moves, "moves"), _vector(positions, "positions")
    fee = inputs.not_negative(fee, "fee")
    payoffs = positions[:, None] * moves[None, :] - fee * np.abs(positions)[:, None]
    return DecisionProblem.from_payoffs(payoffs, actions=_printed(positions), states=_printed(moves))


def _vector(values: Any, name: str) -> np.ndarray:
    vector = inputs.numbers_of(values, name, "a list of numbers")
    if vector.ndim != 1 or vector.size == 0 or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be a non-empty list of finite numbers, got {inputs.shown(values)}")
    if len(set(_printed(vector))) < len(vector):
        raise ValueError(f"{name} must be different numbers, to twelve digits, got {inputs.shown(values)}")
    return vector


def _printed(values: np.ndarray) -> list[str]:
    return [str(int(v)) if v.is_integer() else f"{v:.12g}" for v in values.tolist()]  # 0.1 + 0.2 reads 0.3
