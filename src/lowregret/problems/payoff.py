"""What is at stake where outcomes are numbers: a bounded payoff of action and outcome, at the outcome itself."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import frozen
from .stakes import Stakes, scaled

_BEND = 1e-9  # by how much payoffs may miss a straight line, in units of high - low: rounding
_FAR = (1.0, 1e3, 1e9)  # how far beyond the outer knots a payoff is tried


@dataclass(frozen=True, eq=False)
class Payoff(Stakes):
    """A payoff ``fn(action, outcome)`` between ``low`` and ``high``, in your own units, for outcomes that are numbers.

    Parameters
    ----------
    fn
        Called with one of the actions and a NumPy array of outcomes; returns their payoffs.
    actions
        At least one, of any kind and all different: a list of order sizes, of positions, of names.
    low, high
        No payoff is below or above them; utilities are scaled by them.
    knots
        Outcomes between which every action's payoff is a straight line. Forecasts by quantiles need them:
        the largest gain within a range is then at its ends or at a knot. A payoff without bends has ``knots=()``.
    outcomes
        The least and the greatest possible outcome. Where it is infinite, payoffs are constant beyond the last knot.

    >>> def earned(order, demand):
    ...     return 5 * np.minimum(order, demand) - 3 * order
    >>> profit = Payoff(earned, [0, 10, 20], -60, 40, knots=[10, 20], outcomes=(0, np.inf))
    >>> profit.payoffs([4.0, 25.0]).tolist()
    [[0.0, 0.0], [-10.0, 20.0], [-40.0, 40.0]]
    >>> profit.regret_in_payoffs(profit.span)  # with no demand, 20 too many cost 60
    60.0
    """

    fn: Callable[[Any, np.ndarray], Any]
    actions: Sequence[Any]
    low: float
    high: float
    knots: Any = field(default=None, kw_only=True)
    outcomes: Any = field(default=(-math.inf, math.inf), kw_only=True)
    is_changing: bool = field(default=False, kw_only=True, repr=False)  # ``changing`` makes one

    def __post_init__(self) -> None:
        inputs.function(self.fn, "fn", "an action and an array of outcomes")
        low, high = inputs.finite(self.low, "low"), inputs.finite(self.high, "high")
        if not low < high or not high - low < math.inf:
            raise ValueError(f"low must be below high, got {low:.6g} and {high:.6g}")
        inputs.keep(self, low=low, high=high, actions=_listed(self.actions), outcomes=_range(self.outcomes))
        inputs.keep(self, _scale=high / 2 - low / 2, _shift=high / 2 + low / 2)
        _ = self.action_names  # all different
        if self.knots is not None:
            inputs.keep(self, knots=frozen(self._all_knots()))
            self._refuse_bends()

    @classmethod
    def from_knots(
        cls,
        payoffs: Any,
        knots: Any,
        actions: Sequence[Any] | None = None,
        *,
        outcomes: Any = (None, None),
        low: float | None = None,
        high: float | None = None,
    ) -> "Payoff":
        """Payoffs by numbers alone: one row per action, one column per knot, straight lines between, constant beyond.

        ``outcomes``: the least and the greatest possible, None where there is no limit; ``low`` and ``high``: by
        default those of the payoffs.

        >>> stall = Payoff.from_knots([[0, 0, 0], [-30, 20, 20]], [0, 10, 20], ["stay", "go"], outcomes=(0, None))
        >>> stall.payoffs([4.0, 25.0]).tolist(), stall.low, stall.high
        ([[0.0, 0.0], [-10.0, 20.0]], -30.0, 20.0)
        """
        rows_AxM = inputs.numbers_of(payoffs, "payoffs", "rows of numbers, one for each action")
        at_M = inputs.numbers_of(knots, "knots", "a list of numbers")
        if at_M.ndim != 1 or not len(at_M) or not np.isfinite(at_M).all() or (np.diff(at_M) <= 0).any():
            raise ValueError(f"knots must be a list of finite numbers that increase, got {inputs.shown(knots)}")
        if rows_AxM.ndim != 2 or rows_AxM.shape[1] != len(at_M) or not np.isfinite(rows_AxM).all():
            rows = f"rows of {len(at_M)} finite numbers, one for each of the knots"
            raise ValueError(f"payoffs must be {rows}, got {inputs.shown(payoffs)}")
        ends = [(math.inf if i else -math.inf) if end is None else end for i, end in enumerate(outcomes)]
        named = _listed(range(len(rows_AxM)) if actions is None else actions)
        if len(named) != len(rows_AxM):
            raise ValueError(f"actions must be {len(rows_AxM)}, one for each row of payoffs, got {len(named)}")
        lines = Lines(named, tuple(at_M.tolist()), tuple(map(tuple, rows_AxM.tolist())))
        least, most = float(rows_AxM.min()) if low is None else low, float(rows_AxM.max()) if high is None else high
        return cls(lines, named, least, most, knots=at_M, outcomes=ends)

    @property
    def table(self) -> np.ndarray | None:
        return None if self.knots is None else self.knot_utilities

    @cached_property
    def knot_utilities(self) -> np.ndarray:
        """Utilities ``[A, M]`` at the knots, which include the finite ends of the outcomes."""
        if self.knots is None:
            raise ValueError("this Payoff has no knots")
        return frozen(self._utilities(self.knots))

    def payoffs(self, outcomes: Any) -> np.ndarray:
        """What each action is paid at these outcomes ``[...]``: ``[A, ...]``, in your units."""
        return self._checked(self.outcomes_of(outcomes))

    def utilities(self, points: np.ndarray) -> np.ndarray:
        """The same mapped onto [-1, 1], ``[A, ...]``, at checked points; between knots by the straight lines."""
        if self.knots is None:
            return self._utilities(points)
        return np.stack([np.interp(points, self.knots, row) for row in self.knot_utilities])

    def paid(self, outcomes: np.ndarray) -> np.ndarray:
        """The same at outcomes that occurred, always by ``fn``; refused where it is off the lines between the knots."""
        found = self._utilities(outcomes)
        if self.knots is not None:
            off = np.argwhere(np.abs(found - self.utilities(outcomes)) > 16 * _BEND)
            if len(off):
                a, *at = off[0].tolist()
                raise ValueError(
                    f"knots must be all outcomes at which a payoff bends: that of action {self.actions[a]!r} is not on "
                    f"the line between its knots at outcome {outcomes[tuple(at)]:.6g}"
                )
        return found

    def _utilities(self, outcomes: np.ndarray) -> np.ndarray:
        return scaled(self._checked(outcomes), self._scale, self._shift)

    def changing(self, low: float | None = None, high: float | None = None) -> "Payoff":
        """A payoff that each step restates, as another ``Payoff`` between ``low`` and ``high``: by default its own."""
        low, high = self.low if low is None else low, self.high if high is None else high
        return replace(self, low=low, high=high, is_changing=True)

    def restated(self, other: Any) -> "Payoff":
        """Payoffs of one step, given as a ``Payoff`` with these actions, on the scale that this one declares."""
        if not isinstance(other, Payoff) or other.actions != self.actions or other.outcomes != self.outcomes:
            wants = "a Payoff with the actions and outcomes that were declared"
            raise ValueError(f"payoffs must be {wants}, got {inputs.shown(other)}")
        if other.low < self.low or other.high > self.high:
            within = f"the declared range, {self.low:.6g} to {self.high:.6g}"
            raise ValueError(f"payoffs must lie in {within}, got {other.low:.6g} to {other.high:.6g}")
        return replace(other, low=self.low, high=self.high, is_changing=False)

    @property
    def payoff_range(self) -> "Payoff":
        """One with the largest span and contrast that payoffs within the range of this one can have."""
        return replace(self, knots=None, is_changing=False)

    def outcomes_of(self, values: Any, name: str = "outcomes", shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Finite numbers within the range of outcomes, in NumPy and float64; of a shape, if one is given."""
        array = inputs.numbers_of(values, name, "a number or an array of numbers")
        if shape is not None and array.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
        if not (finite := np.isfinite(array)).all():
            raise inputs.misplaced(f"{name} must be finite, got {int((~finite).sum())} that are not%s", ~finite)
        least, most = self.outcomes
        outside = (array < least) | (array > most)
        if outside.any():
            raise inputs.misplaced(
                f"{name} must lie in the payoff's outcomes, {least:.6g} to {most:.6g}, "
                f"got {array.min():.6g} to {array.max():.6g}%s: clip them, or say outcomes=... in the Payoff",
                outside,
            )
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Payoff) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key[1:])

    @cached_property
    def _key(self) -> tuple[object, ...]:
        knots = None if self.knots is None else self.knots.tobytes()
        return self.actions, self.fn, self.low, self.high, knots, self.outcomes, self.is_changing

    def __repr__(self) -> str:
        bends = "no knots" if self.knots is None else f"{len(self.knots)} knots"
        return f"Payoff({self.n_actions} actions, {self.low:.4g} to {self.high:.4g}, {bends})"

    def _checked(self, outcomes: np.ndarray) -> np.ndarray:
        """What ``fn`` returns, ``[A, ...]``; refused where it is of another shape or out of bounds."""
        found = np.empty((self.n_actions, *outcomes.shape))
        for a, action in enumerate(self.actions):
            paid = np.asarray(self.fn(action, outcomes.copy()), dtype=np.float64)
            if paid.shape not in (outcomes.shape, ()):
                raise ValueError(
                    f"fn must return payoffs of the outcomes' shape {outcomes.shape}, got {paid.shape} for action "
                    f"{inputs.shown(action)}: write it for arrays, or wrap it in numpy.vectorize"
                )
            found[a] = paid
        slack = _BEND * (self.high - self.low)
        right = (found >= self.low - slack) & (found <= self.high + slack)  # a NaN is neither
        if not right.all():
            a, *at = np.argwhere(~right)[0].tolist()
            raise ValueError(
                f"fn must return payoffs from low = {self.low:.6g} to high = {self.high:.6g}, got "
                f"{found[(a, *at)]:.6g} for action {self.actions[a]!r} at outcome {outcomes[tuple(at)]:.6g} "
                f"(outcomes from {self.outcomes[0]:.6g} to {self.outcomes[1]:.6g} are possible)"
            )
        return found

    def _all_knots(self) -> np.ndarray:
        """The knots in order, with the finite ends of the outcomes."""
        given = inputs.numbers_of(self.knots, "knots", "a list of numbers")
        if given.ndim != 1 or not np.isfinite(given).all():
            raise ValueError(f"knots must be a list of finite numbers, got {inputs.shown(self.knots)}")
        inside = given[(given >= self.outcomes[0]) & (given <= self.outcomes[1])]
        found = np.unique(np.concatenate([inside, [end for end in self.outcomes if math.isfinite(end)]]))
        return found if len(found) else np.zeros(1)  # the same payoffs for every outcome

    def _refuse_bends(self) -> None:
        """Refuse payoffs that are visibly not straight between knots, or not constant beyond the last."""
        knots, slack = self.knots, 8 * _BEND * (self.high - self.low)
        for share in (0.5, 0.381966):
            self.paid(knots[:-1] + share * np.diff(knots))
        at_knots = self._checked(knots)
        for end, knot, sign in zip(self.outcomes, (knots[0], knots[-1]), (-1, 1), strict=True):
            if math.isfinite(end):
                continue
            beyond = self._checked(knot + sign * np.array(_FAR) * max(1.0, abs(knot)))
            changes = np.abs(beyond - at_knots[:, [0 if sign < 0 else -1]]) > slack
            if changes.any():
                raise ValueError(
                    f"outcomes must have {'a least' if sign < 0 else 'a most'} value: the payoff of action "
                    f"{self.actions[np.argwhere(changes)[0, 0]]!r} still changes beyond the last knot {knot:.6g}"
                )


@dataclass(frozen=True)
class Lines:
    """A payoff given by its values at some outcomes: straight lines between them, constant beyond."""

    actions: tuple[Any, ...]
    knots: tuple[float, ...]
    payoffs: tuple[tuple[float, ...], ...]  # by action, at the knots

    def __call__(self, action: Any, outcomes: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.interp(outcomes, self.knots, self.payoffs[self.actions.index(action)])
        return found


def as_lines(payoff: Payoff) -> Payoff:
    """The same payoff by numbers alone, which can be saved and sent to other processes; it needs knots."""
    if isinstance(payoff.fn, Lines) or payoff.knots is None:
        return payoff
    more = {"outcomes": payoff.outcomes, "low": payoff.low, "high": payoff.high}
    return Payoff.from_knots(payoff.payoffs(payoff.knots), payoff.knots, payoff.actions, **more)


def _listed(actions: Any) -> tuple[Any, ...]:
    given = tuple(actions.tolist() if isinstance(actions, np.ndarray) else actions)
    if not given or isinstance(actions, str):
        raise ValueError(f"actions must be a list of at least one action, got {inputs.shown(actions)}")
    return given


def _range(outcomes: Any) -> tuple[float, float]:
    ends = inputs.numbers_of(outcomes, "outcomes", "a pair (least, most)")
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"outcomes must be a pair (least, most) with least < most, got {inputs.shown(outcomes)}")
    return float(ends[0]), float(ends[1])


class Gains(NamedTuple):
    """What mixed actions that differ by ``over_NxExA`` gain at any outcomes."""

    payoff: Payoff
    over_NxExA: np.ndarray

    def at(self, points_NxM: np.ndarray) -> np.ndarray:
        """``[N, E, M]``."""
        found: np.ndarray = self.over_NxExA @ np.moveaxis(self.payoff.utilities(points_NxM), 0, 1)
        return found

    def at_knots(self) -> np.ndarray:
        """``[N, E, M]``, at the knots."""
        found: np.ndarray = self.over_NxExA @ self.payoff.knot_utilities
        return found
