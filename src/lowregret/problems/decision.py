"""What is at stake (Section 2.2): a decision problem is a utility matrix, with the responses it induces."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import (
    Array,
    astype,
    constant,
    device,
    first,
    in_float64,
    last,
    mix,
    namespace,
    one_hot,
    pick,
    softmax,
    to_numpy,
)
from .names import Names, labels_along
from .stakes import Stakes, scaled

_NOTHING = 1e-100  # a smaller utility is 0: differences of others are far from where floating point ends

TIE = 1e-12  # of utility


class DecisionProblem(Stakes):
    """A utility ``utility[a, s]`` in [-1, 1] for each of A actions and S states.

    Parameters
    ----------
    utility
        The matrix, one row per action, one column per state.
    actions, states
        Names, all different; numbers by default. Outcomes are matched to the states by name (see ``problems.Names``).

    >>> problem = DecisionProblem([[1, 0], [0, 1]], actions=["left", "right"])
    >>> int(problem.best_response([0.3, 0.7]))
    1
    """

    utility: np.ndarray
    actions: tuple[str, ...]
    states: tuple[str, ...]

    def __init__(self, utility: Any, actions: Sequence[Any] | None = None, states: Sequence[Any] | None = None) -> None:
        matrix = _matrix(utility, "utility")
        matrix[np.abs(matrix) < _NOTHING] = 0.0
        if np.abs(matrix).max() > 1:
            raise ValueError(
                f"utility must lie in [-1, 1], got values from {matrix.min():.6g} to {matrix.max():.6g}; "
                "DecisionProblem.from_payoffs takes any units"
            )
        matrix.setflags(write=False)
        self.utility = matrix
        self.actions = _names(actions, matrix.shape[0], "actions")
        self.states = _names(states, matrix.shape[1], "states")
        self._scale, self._shift, self._ahead = 1.0, 0.0, self.n_states - 1
        self.is_changing = False  # whether every step states its own payoffs

    @classmethod
    def from_payoffs(
        cls,
        payoffs: Any,
        actions: Sequence[Any] | None = None,
        states: Sequence[Any] | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
    ) -> "DecisionProblem":
        """The same problem from payoffs in your own units, mapped affinely onto [-1, 1].

        ``low`` and ``high`` declare a wider range than these payoffs have, for payoffs that change (``Guard``). The
        index and columns of a pandas frame name the actions and states, unless they are just numbered.

        >>> problem = DecisionProblem.from_payoffs([[0, 100], [50, 50]])
        >>> problem.utility.tolist(), problem.in_payoffs(0.5), problem.regret_in_payoffs(0.5)
        ([[-1.0, 1.0], [0.0, 0.0]], 75.0, 25.0)
        """
        if type(payoffs).__module__.split(".")[0] == "pandas" and getattr(payoffs, "ndim", 0) == 2:
            actions = _of_frame(payoffs.index, actions, "actions")
            states = _of_frame(payoffs.columns, states, "states")
        matrix = _matrix(payoffs, "payoffs")
        least, most = float(matrix.min()), float(matrix.max())
        low = least if low is None else inputs.finite(low, "low")
        high = most if high is None else inputs.finite(high, "high")
        if low > least or high < most:
            raise ValueError(f"low and high must enclose payoffs, from {least:.6g} to {most:.6g}, got {low} and {high}")
        # Halves first: the sum or difference of two huge payoffs may overflow.
        scale, shift = high / 2 - low / 2, high / 2 + low / 2
        if not 0 < scale < math.inf:
            scale = 0.0  # constant payoffs: nothing is at stake
        problem = cls(scaled(matrix, scale, shift), actions, states)
        problem._scale, problem._shift = scale, shift
        return problem

    def changing(self, low: float | None = None, high: float | None = None) -> "DecisionProblem":
        """A problem whose payoffs each step states, between ``low`` and ``high``: by default the range of these.

        ``guard.advise(payoffs=...)`` then takes a matrix in these units, and bounds hold for every such sequence.

        >>> DecisionProblem.from_payoffs([[0, 3], [2, 1]]).changing(0, 4).payoff_range.span
        2.0
        """
        payoffs = self.in_payoffs(self.utility)
        low = self._shift - self._scale if low is None else low
        high = self._shift + self._scale if high is None else high
        problem = type(self).from_payoffs(payoffs, self.actions, self.states, low=low, high=high)
        problem.is_changing = True
        return problem

    @cached_property
    def payoff_range(self) -> "DecisionProblem":
        """A problem with the largest span and contrast that payoffs within the range of this one can have.

        Charges and bounds depend on the number of actions, the span and the contrast alone: what holds of it holds of
        every sequence of payoffs in the range.
        """
        matrix = np.zeros_like(self.utility)
        if self.n_actions > 1 and self._scale:
            matrix[0], matrix[1] = -1.0, 1.0
            matrix[0, 0], matrix[1, 0] = 1.0, -1.0
        wide = DecisionProblem(matrix, self.actions, self.states)
        wide._scale, wide._shift = self._scale, self._shift
        return wide

    @property
    def n_states(self) -> int:
        return int(self.utility.shape[1])

    @property
    def table(self) -> np.ndarray:
        return self.utility

    @cached_property
    def advantage(self) -> np.ndarray:
        """What each action but the first gains over it, state by state: ``[A - 1, S]``."""
        advantage: np.ndarray = self.utility[1:] - self.utility[:1]
        advantage.setflags(write=False)
        return advantage

    def utility_of(self, payoffs: Any) -> np.ndarray:
        """Payoffs in this problem's units as utilities; those outside its declared range are refused.

        >>> DecisionProblem.from_payoffs([[0, 3], [2, 1]], low=0, high=4).utility_of([0, 2, 4]).tolist()
        [-1.0, 0.0, 1.0]
        """
        amounts = inputs.numbers_of(payoffs, "payoffs", "numbers")
        low, high = self._shift - self._scale, self._shift + self._scale
        slack = 1e-9 * self._scale
        within = (amounts >= low - slack) & (amounts <= high + slack)  # a NaN is neither
        if not within.all():
            raise inputs.misplaced(
                f"payoffs must lie in the range that the problem declares, {low:.6g} to {high:.6g}, got values from "
                f"{amounts.min():.6g} to {amounts.max():.6g}%s; DecisionProblem.from_payoffs(payoffs, low=, high=) "
                "declares a wider one",
                ~within,
            )
        return scaled(amounts, self._scale, self._shift)

    def best_response(self, beliefs: Array) -> Array:
        """The best action against each belief ``[..., S]``; the lowest index on ties."""
        beliefs = inputs.probs_of(beliefs, self.n_states, "beliefs")
        return _best_action(mix(self.utility, in_float64(first(beliefs))))

    def quantal_response(self, beliefs: Array, temperature: float) -> Array:
        """The mixed action ``[..., A]``, proportional to exp(utility / temperature), for each belief ``[..., S]``.

        >>> from lowregret import matching
        >>> matching(2).quantal_response([0.25, 0.75], temperature=0.25).round(3)
        array([0.119, 0.881])
        """
        beliefs = inputs.probs_of(beliefs, self.n_states, "beliefs")
        temperature = inputs.positive(temperature, "temperature")
        return astype(last(self.respond(in_float64(first(beliefs)), temperature)), beliefs.dtype)

    def respond(self, beliefs_S: Array, temperature: Any) -> Array:
        """The quantal response, short axis first, unchecked: ``[S, ...] -> [A, ...]``."""
        return softmax(mix(self.utility, beliefs_S) / temperature)

    def invert_quantal_response(self, policy: Array, temperature: float, near: Array | None = None) -> Array:
        """A belief ``[..., S]`` whose quantal response is ``policy`` ``[..., 2]``; for two actions.

        With two states it is unique. With more, it is the exponential tilt of ``near`` (uniform by default):
        the one closest to it in Kullback-Leibler divergence. Where the states never change which action is
        better, every belief has the same response and ``near`` is returned.

        >>> from lowregret import matching
        >>> coin = matching(2)
        >>> coin.invert_quantal_response(coin.quantal_response([0.4, 0.6], 0.1), 0.1).round(12)
        array([0.4, 0.6])
        """
        if self.n_actions != 2:
            raise ValueError(
                f"invert_quantal_response needs a problem with two actions, this one has {self.n_actions} "
                "(a mixture of responses to more actions need not be a response)"
            )
        advantage, n_states = self.advantage[0], self.n_states
        policy = inputs.probs_of(policy, 2, "policy")
        temperature = inputs.positive(temperature, "temperature")
        near = np.full(n_states, 1.0 / n_states) if near is None else inputs.probs_of(near, n_states, "near")
        near, xp = to_numpy(near), namespace(policy)
        policy_A = in_float64(first(policy))
        with np.errstate(divide="ignore"):  # a chance of exactly 0 says only that the lead is as large as it can be
            lead = temperature * (xp.log(policy_A[1]) - xp.log(policy_A[0]))
        low, high, slack = float(advantage.min()), float(advantage.max()), 1e-9 + 1e-6 * temperature
        outside = xp.isfinite(lead) & ((lead < low - slack) | (lead > high + slack))
        if bool(xp.any(outside)):
            raise ValueError(
                f"policy is the quantal response to no belief at temperature {temperature:g}: in it action 1 leads by "
                f"{float(xp.min(lead)):.6g} to {float(xp.max(lead)):.6g}, under a belief by {low:.6g} to {high:.6g}"
            )
        near = xp.asarray(near, dtype=policy_A.dtype, device=device(policy))
        near_S = first(xp.broadcast_to(near, (*lead.shape, n_states)))
        return astype(last(belief_with_lead(advantage, lead, near_S)), policy.dtype)

    @cached_property
    def state_names(self) -> Names:
        """Which state a value means."""
        return Names(self.states, "states")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecisionProblem) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        units = self._scale, self._shift, self.is_changing
        return self.utility.tobytes(), self.actions, self.states, *units

    def __repr__(self) -> str:
        return f"DecisionProblem({self.n_actions} actions x {self.n_states} states, span {self.span:.4g})"


def a_problem(value: Any) -> DecisionProblem:
    """The problem itself; anything else is refused."""
    if not isinstance(value, DecisionProblem):
        makes = "DecisionProblem.from_payoffs(matrix) makes one of payoffs, a row per action and a column per state"
        raise ValueError(f"problem must be a DecisionProblem, got {type(value).__name__}: {makes}")
    return value


def two_states(problem: DecisionProblem) -> DecisionProblem:
    """The problem itself, which must have two states."""
    if a_problem(problem).n_states != 2:
        raise ValueError(f"problem must have two states, got one with {problem.n_states}")
    return problem


def same_problem(what: str, made_for: Any, problem: DecisionProblem | None) -> None:
    """Refuse what was made for another problem, and say how the two differ."""
    if made_for == problem:
        return
    apart = []
    for part in ("actions", "states", "utility", "_scale", "_shift", "is_changing"):
        one, other = (np.asarray(getattr(each, part, None)).tolist() for each in (made_for, problem))
        if one != other:
            apart.append(f"{part.strip('_')} {one} against {other}")
    raise ValueError(f"{what}: {made_for} against {problem}, {', '.join(apart)}")


def _of_frame(axis: Any, given: Any, what: str) -> Any:
    """The labels of a frame, or the names given where it has none."""
    own = labels_along(axis)
    if own is not None and given is not None and list(map(str, own)) != list(map(str, given)):
        raise ValueError(f"{what} must be those of the frame, in its order: {own}, got {list(given)}")
    return given if own is None else own


def best_of(worth_A: Array) -> Array:
    """The best response ``[A, ...]`` to what actions are worth: all on the lowest index among the best.

    Actions worth the same to within ``TIE`` are tied, however the sums are rounded.
    """
    return astype(one_hot(_best_action(worth_A), len(worth_A)), worth_A.dtype)


def _best_action(worth_A: Array) -> Array:
    """The same as an index ``[...]``."""
    xp = namespace(worth_A)
    best_A = worth_A >= xp.max(worth_A, axis=0) - TIE
    return xp.argmax(best_A if xp is np else xp.astype(best_A, xp.uint8), axis=0)


def _matrix(values: Any, name: str) -> np.ndarray:
    matrix = inputs.numbers_of(values, name, "a matrix of numbers, one row per action") + 0.0  # no negative zeros
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must have shape [actions, states] with at least one of each, got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite, got {int((~np.isfinite(matrix)).sum())} entries that are not")
    return matrix


def _names(names: Sequence[Any] | None, n: int, name: str) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(n)))
    chosen = Names(names, name).names
    if len(chosen) != n:
        raise ValueError(f"{name} must name each of the {n} {name}, got {len(chosen)} names")
    return chosen


def belief_with_lead(advantage: np.ndarray, lead: Array, near_S: Array) -> Array:
    """The belief closest to ``near_S`` under which action 1 leads by ``lead``, short axis first, unchecked."""
    xp = namespace(lead)
    low, high = float(advantage.min()), float(advantage.max())
    if low == high:
        return near_S
    lead = xp.clip(lead, low, high)
    if len(advantage) == 2:
        second = (lead - advantage[0]) / (advantage[1] - advantage[0])
        return xp.stack([1 - second, second])
    advantage_S = xp.reshape(constant(advantage, lead), (-1, *(1,) * lead.ndim))
    log_near_S = xp.log(xp.clip(near_S, float(xp.finfo(near_S.dtype).smallest_normal), 1.0))
    # The lead of the tilted belief grows with the tilt; 1e5 / (high - low) is a point mass for all purposes.
    left = xp.zeros_like(lead) - 1e5 / (high - low)
    right = xp.zeros_like(lead) + 1e5 / (high - low)
    for _ in range(100):
        middle = (left + right) / 2
        belief_S = softmax(log_near_S + middle * advantage_S)
        above = xp.sum(belief_S * advantage_S, axis=0) > lead
        left, right = xp.where(above, left, middle), xp.where(above, middle, right)
    return softmax(log_near_S + (left + right) / 2 * advantage_S)


def action_utilities(problem: DecisionProblem, tokens: Array, like: Array) -> Array:
    """What each action earns against each token, ``[A, ...]``, unchecked."""
    xp = namespace(like)
    utility = constant(problem.utility, like)
    if tokens.ndim == 0:
        return utility[:, int(tokens)]
    columns = [xp.reshape(utility[:, s], (-1, *(1,) * tokens.ndim)) for s in range(problem.n_states)]
    earned = pick(columns, tokens)
    return xp.broadcast_to(earned, (problem.n_actions, *tokens.shape)) if problem.n_states == 1 else earned
