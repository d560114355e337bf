"""Minimax play as a law over states (two actions): what a predictor may fall back on when the steps left are known."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, namespace, to_numpy
from ..problems import DecisionProblem, a_problem, belief_with_lead
from .contract import Predictor
from .minimax_play import Leads, MinimaxMemory, after_alarm, chance_of_second, ends, fresh_value

_LARGEST_TABLE = 2**24


@dataclass(frozen=True)
class MinimaxLaw(Leads, Predictor):
    """A law whose quantal response is minimax play, as near as a response can get: for two actions.

    A response at temperature eta is never surer than the lead min D or max D allows. With leads on a lattice the
    chances are kept within these bounds inside the dynamic programme, which is then minimax among all that respond;
    otherwise, and where the table would be too large, the unbounded play is clipped.

    Parameters
    ----------
    temperature
        1/sqrt(horizon) by default: what it will be responded to with.

    >>> from lowregret import matching
    >>> law = MinimaxLaw(matching(), horizon=100)
    >>> law.predict_sequence([1, 1, 1, 1])[:, 1].round(3).tolist()
    [0.5, 0.508, 0.516, 0.525]
    """

    problem: DecisionProblem
    horizon: int
    temperature: float | None = None

    def __post_init__(self) -> None:
        a_problem(self.problem)
        inputs.keep(self, horizon=inputs.whole(self.horizon, "horizon"))
        warmth = 1 / math.sqrt(self.horizon) if self.temperature is None else self.temperature
        object.__setattr__(self, "temperature", inputs.positive(warmth, "temperature"))
        low, high = ends(self.problem) if self.problem.n_actions == 2 else (0.0, 0.0)
        if not low < 0 < high:
            raise ValueError(
                f"problem must have two actions, each better in some state, for a law behind minimax play; got "
                f"{self.problem}: the policy Minimax may do"
            )

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.problem.n_states

    def predict(self, memory: MinimaxMemory) -> Array:
        return self._law(memory.lead, memory.seen)

    def predict_sequence(self, tokens: Array) -> Array:
        return self._law(*self.leads_before(tokens))

    def law_of_counts(self, counts: Array) -> np.ndarray:
        """The law of the next token after these counts of each state, ``[..., S] -> [..., S]``."""
        return self._law(*self.leads_of(counts))

    def _law(self, lead: Array, seen: Array) -> Array:
        ahead = to_numpy(lead)[..., 0]
        left = np.broadcast_to(np.maximum(self.horizon - to_numpy(seen), 1), ahead.shape)
        table = self._table
        if table is None:
            chance = chance_of_second(self.problem, ahead, left)
        else:
            chance = table.chance_TxL[left - 1, np.rint(ahead / table.unit).astype(np.int64) + table.zero]
        low, high = ends(self.problem)
        assert self.temperature is not None
        with np.errstate(divide="ignore"):
            wanted = np.clip(self.temperature * (np.log(chance) - np.log1p(-chance)), low, high)
        near_S = np.full((self.n_states, *wanted.shape), 1 / self.n_states)
        law = np.ascontiguousarray(np.moveaxis(belief_with_lead(self.problem.advantage[0], wanted, near_S), 0, -1))
        xp = namespace(lead)
        return law if xp is np else astype(xp.asarray(law, device=device(lead)), lead.dtype)

    @property
    def _table(self) -> "_LeadTable | None":
        assert self.temperature is not None
        return _clipped_game(self.problem, self.horizon, self.temperature)

    def after_T(self) -> np.ndarray:
        """F(0) .. F(T): what responses to it lose at most in total with that many steps left, afresh or not.

        From the table exactly; without one, the unbounded play's value and what a step loses at most by clipping.
        """
        return self._lost(np.arange(self.horizon + 1))

    def _lost(self, left_N: np.ndarray) -> np.ndarray:
        if self._table is not None:
            return self._table.value_T[left_N]
        assert self.temperature is not None
        # Where the lead is cut to d, the other action keeps a chance of 1 / (1 + e^(d / eta)), which loses d at most.
        lost = max(abs(d) / (1 + math.exp(min(abs(d) / self.temperature, 700.0))) for d in ends(self.problem))
        return fresh_value(self.problem, self.horizon, left_N) + lost * left_N

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float | None:
        """What quantal responses lose at most a step; None for other problems, longer runs, other temperatures."""
        if problem != self.problem or horizon > self.horizon or temperature != self.temperature:
            return None
        return min(problem.span, self.total_bound(self.horizon) / horizon)

    def total_bound(self, steps: int) -> float:
        """What responses to it lose at most in all over ``steps`` steps begun afresh."""
        return float(self._lost(np.array([steps]))[0])

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        """What responses to it lose at most after an alarm, by the steps left; None for what it was not made for."""
        if problem != self.problem or temperature != self.temperature:
            return None
        return after_alarm(self._lost, self.horizon, steps, problem.span)


class _LeadTable(NamedTuple):
    chance_TxL: np.ndarray  # the chance of action 1 with 1 .. T steps left, at each lead
    value_T: np.ndarray
    unit: float
    zero: int  # where the lead is zero


@lru_cache(maxsize=4)
def _clipped_game(problem: DecisionProblem, horizon: int, temperature: float) -> _LeadTable | None:
    """The dynamic programme among chances that are responses; None where leads fill no lattice or too large a table.

    The value is convex in the lead with slopes between 0 and 1, so only the extreme states matter, and a lead is worth
    no more than itself and the value at zero.
    """
    low, high = ends(problem)
    unit = _lattice(problem.advantage[0])
    if unit is None:
        return None
    down, up = round(low / unit), round(high / unit)
    width = horizon * (up - down) + 1
    if horizon * width > _LARGEST_TABLE:
        return None
    least, most = (1 / (1 + math.exp(min(-d / temperature, 700.0))) for d in (low, high))
    zero = -horizon * down
    value_L = np.maximum((np.arange(width) - zero) * unit, 0.0)
    chance_TxL, value_T = np.zeros((horizon, width)), np.zeros(horizon + 1)
    for n in range(1, horizon + 1):
        # Leads that n steps cannot take off the table: from there on each step looks at the two next values.
        rise, fall = value_L[up - down :], value_L[: down - up]
        chance = np.clip((rise - fall) / (high - low), least, most)
        value_L = np.maximum(rise - chance * high, fall - chance * low)
        begin = -n * down
        chance_TxL[n - 1, begin : begin + len(chance)] = chance
        value_T[n] = value_L[zero - begin]
    chance_TxL.setflags(write=False)
    value_T.setflags(write=False)
    return _LeadTable(chance_TxL, value_T, unit, zero)


def _lattice(steps_S: np.ndarray) -> float | None:
    """The largest unit of which all steps are whole multiples, up to 64 of them; None if there is none."""
    largest = float(np.abs(steps_S).max())
    for parts in range(1, 65):
        multiples = steps_S * (parts / largest)
        if np.abs(multiples - np.rint(multiples)).max() < 1e-12:
            return largest / parts
    return None
