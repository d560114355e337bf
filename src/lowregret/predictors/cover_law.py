"""Minimax play as a law over states (two actions): a fallback for predictors when the number of steps left is known."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from .. import inputs
from ..arrays import Array, astype, count_up, device, float_type, last, namespace, running_sum, to_numpy
from ..certificates.bounds import Bound
from ..certificates.games_of_chance import Trinomial, hinge, tail
from ..problems import DecisionProblem, a_problem, action_utilities, belief_with_lead
from .contract import Predictor

# What to fall back on when the steps left are known: play that is minimax in regret, Cover's for two actions.
#
# Two actions: let D(s) = U(1, s) - U(0, s), l the lead of action 1 so far, S_n the walk of n independent steps on {min
# D, max D} with mean zero. With n steps left the regret to come is at least g_n(l) = E (l + S_n)^+ (beyond what was
# lost so far to action 0), and the chance [ g_{n-1}(l + max D) - g_{n-1}(l + min D) ] / (max D - min D) of action 1
# keeps it at that. Three actions and states: with an equaliser nu (under which all actions are worth the same) the same
# holds for g_n(G) = E_nu max_a (G_a + utilities to come), where the mixed action that equalises all states exists.


_NEAR = 1024  # steps


class MinimaxMemory(NamedTuple):
    lead: Array  # [..., A - 1], what each action but the first has earned more than the first
    seen: Array  # [...], tokens so far


class Leads:
    """The memory that the policy and the law share."""

    problem: DecisionProblem
    horizon: int

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> MinimaxMemory:
        xp, where, shape = namespace(like), device(like), inputs.batch_shape_of(batch_shape)
        lead = xp.zeros((*shape, self.problem.n_actions - 1), dtype=float_type(xp, where), device=where)
        return MinimaxMemory(lead, xp.zeros(shape, dtype=xp.int64, device=where))

    def update(self, memory: MinimaxMemory, token: Array) -> MinimaxMemory:
        seen = memory.seen
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=tuple(seen.shape), like=seen)
        if 0 not in seen.shape and bool((seen >= self.horizon).any()):
            raise ValueError(f"the horizon of {self.horizon} steps is over: minimax play was made for no more")
        earned_A = action_utilities(self.problem, token, memory.lead)
        return MinimaxMemory(memory.lead + last(earned_A[1:] - earned_A[0]), seen + 1)

    def afresh(self, seen: Array) -> MinimaxMemory:
        """A fresh memory after ``seen`` steps of the horizon, all actions even: for a start at an alarm."""
        return self.start(tuple(seen.shape), like=seen)._replace(seen=seen)

    def leads_before(self, tokens: Array) -> tuple[Array, Array]:
        """The lead before every step, ``[..., T, A - 1]``, and the tokens seen by then."""
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        if tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the horizon: {tokens.shape[-1]} steps, {self.horizon}")
        earned_A = action_utilities(self.problem, tokens, tokens)
        lead_A1 = earned_A[1:] - earned_A[0]
        # Rounding is kept as in streaming: each sum has one term less, not one taken away.
        shifted_A1 = namespace(tokens).concat([lead_A1[..., :1] * 0, lead_A1[..., :-1]], axis=-1)
        return last(running_sum(shifted_A1)), count_up(tokens, 0, tokens.shape[-1])

    def leads_of(self, counts: Array) -> tuple[np.ndarray, np.ndarray]:
        counts = to_numpy(counts)
        return counts @ self.problem.advantage.T, counts.sum(axis=-1)


def ends(problem: DecisionProblem) -> tuple[float, float]:
    """The least and the largest lead that one step can give action 1."""
    return float(problem.advantage[0].min()), float(problem.advantage[0].max())


def value(problem: DecisionProblem, lead: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """g_n(l) = E (l + S_n)^+; where one action is never worse, what is left of its lead if it gains the least."""
    low, high = ends(problem)
    if low >= 0:
        return np.maximum(lead, -steps * low)
    if high <= 0:
        return np.maximum(lead + steps * high, 0.0)
    return hinge(high - low, lead + steps * low, steps, -low / (high - low))


def chance_of_second(problem: DecisionProblem, lead: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The chance of action 1 with ``left`` steps to go, this one included."""
    low, high = ends(problem)
    if low >= 0 or high <= 0:  # one action is never worse
        return np.full(lead.shape, 0.5 if low == high == 0 else float(low >= 0))
    # If this step is at min D and K of the later ones at max D, action 1 ends ahead by width * (K - behind). The slope
    # of the value is the chance that K >= behind, linear in the lead between whole numbers.
    width = high - low
    behind = -(lead + left * low) / width
    least = np.floor(behind) + 1
    over, at_least = tail(left - 1, least, -low / width), tail(left - 1, least - 1, -low / width)
    return over + (least - behind) * (at_least - over)


@lru_cache(maxsize=64)
def equalising(problem: DecisionProblem) -> "tuple[np.ndarray, np.ndarray, np.ndarray] | None":
    """Utilities that an equaliser nu makes worth 0, nu, and the map from what to earn in each state to a mixed action.

    None unless that mixed action exists at every lead in the last step. Before the last it is the mean of those over
    the futures under nu, so it then exists too. In the last step it is piecewise linear in the lead and bounded, so its
    chances are least where the lines of the leads at which two actions tie cross.
    """
    if problem.n_actions != 3 or problem.n_states != 3:
        return None
    shifted = problem.utility - problem.utility.mean(axis=0)
    system = np.concatenate([shifted[1:] - shifted[0], np.ones((1, 3))])
    if abs(np.linalg.det(system)) < 1e-9:
        return None
    nu = np.linalg.solve(system, [0.0, 0.0, 1.0])
    fair_AxS = shifted - shifted[0] @ nu
    conditions = np.concatenate([fair_AxS.T, np.ones((1, 3))])
    inverse_Ax4 = np.linalg.pinv(conditions)
    if nu.min() < 1e-9 or np.linalg.matrix_rank(conditions, tol=1e-9) < 3:
        return None
    tie = fair_AxS[0] - fair_AxS[1:]  # leads of actions 1 and 2 over 0 at which they tie with it, by state
    first_N, second_N, apart_N = tie[0], tie[1], tie[0] - tie[1]
    corners = [(x, y) for x in first_N for y in second_N]
    corners += [(x, x - d) for x in first_N for d in apart_N] + [(y + d, y) for y in second_N for d in apart_N]
    lead_Nx3 = np.array([(0.0, x, y) for x, y in corners])
    best_NxS = (lead_Nx3[:, :, None] + fair_AxS).max(axis=1)
    earn_NxS = best_NxS - (best_NxS @ nu)[:, None]
    wanted_Nx4 = np.append(earn_NxS, np.ones((len(corners), 1)), axis=1)
    policy_NxA = wanted_Nx4 @ inverse_Ax4.T
    if policy_NxA.min() < -1e-9 or np.abs(policy_NxA @ conditions.T - wanted_Nx4).max() > 1e-9:
        return None
    return fair_AxS, nu, inverse_Ax4


def equalised(problem: DecisionProblem, lead_A1: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The mixed action that earns g_{n-1}(G + U_s) - g_n(G) in every state s, ``[A, ...]``."""
    found = equalising(problem)
    assert found is not None
    fair_AxS, nu, inverse_Ax4 = found
    walk = Trinomial(fair_AxS, nu, int(left.max(initial=0)))
    lead_NxA = np.concatenate([np.zeros((1, left.size)), lead_A1.reshape(2, -1)]).T
    worth_NxS = np.empty((left.size, 3))
    flat = left.ravel()
    for n in np.unique(flat):  # one number of steps at a time: all streams of a step together
        at = flat == n
        ahead_NxSxA = lead_NxA[at][:, None, :] + fair_AxS.T
        worth_NxS[at] = walk.expected_max(ahead_NxSxA.reshape(-1, 3), int(n) - 1).reshape(-1, 3)
    earn_NxS = worth_NxS - (worth_NxS @ nu)[:, None]
    policy_NxA = np.append(earn_NxS, np.ones((left.size, 1)), axis=1) @ inverse_Ax4.T
    policy_NxA = np.maximum(policy_NxA, 0.0)
    return (policy_NxA / policy_NxA.sum(axis=1, keepdims=True)).T.reshape(3, *left.shape)


def fresh_value(problem: DecisionProblem, horizon: int, left_N: np.ndarray) -> np.ndarray:
    """F at these numbers of steps left of a horizon, for minimax play that starts with all actions even."""
    if problem.n_actions == 1:
        return np.zeros(left_N.shape)
    if problem.n_actions == 2:
        return np.asarray(value(problem, np.zeros(left_N.shape), left_N))
    # F never falls with the steps left: beyond a thousand, that of the next knot, half a percent apart.
    far = np.geomspace(_NEAR, max(horizon, _NEAR), 2 + math.ceil(math.log(max(horizon, _NEAR) / _NEAR) / 0.005))
    knots_M = np.minimum(np.ceil(far), horizon).astype(np.int64)
    at_N = np.where(left_N <= _NEAR, left_N, knots_M[np.searchsorted(knots_M, left_N)])
    steps, back_N = np.unique(at_N, return_inverse=True)
    return np.array([_even(problem, horizon, n) for n in steps.tolist()])[back_N].reshape(left_N.shape)


@lru_cache(maxsize=1 << 14)
def _even(problem: DecisionProblem, horizon: int, steps: int) -> float:
    """E max_a of what each of three actions earns in this many steps."""
    found = equalising(problem)
    assert found is not None
    walk = Trinomial(found[0], found[1], min(horizon, _NEAR))
    return float(walk.expected_max(np.zeros((1, 3)), steps)[0])


def after_alarm(value: Bound, horizon: int, steps: int, span: float) -> Bound | None:
    """What minimax play loses at most in the last n of ``steps``, by its ``value`` with n steps of its horizon left.

    Before the end of its horizon too: the value to come never falls below what is lost by then.
    """
    if steps > horizon:
        return None
    return lambda left_N: np.minimum(value(left_N + (horizon - steps)), span * left_N)


_LARGEST_TABLE = 2**24


@dataclass(frozen=True)
class CoverLaw(Leads, Predictor):
    """A law whose quantal response is minimax play, as near as a response can get: for two actions.

    A response at temperature eta is never surer than the lead min D or max D allows. With leads on a lattice the
    chances are kept within these bounds inside the dynamic programme, which is then minimax among all that respond;
    otherwise, and where the table would be too large, the unbounded play is clipped.

    Parameters
    ----------
    temperature
        Of the responses to it; 1/sqrt(horizon) by default.

    >>> from lowregret import matching
    >>> law = CoverLaw(matching(), horizon=100)
    >>> law.predict_sequence([1, 1, 1, 1])[:, 1].round(3).tolist()
    [0.5, 0.508, 0.516, 0.525]
    """

    problem: DecisionProblem
    horizon: int
    temperature: float | None = None

    def __post_init__(self) -> None:
        a_problem(self.problem)
        inputs.keep(self, horizon=inputs.whole(self.horizon, "horizon"))
        temperature = 1 / math.sqrt(self.horizon) if self.temperature is None else self.temperature
        object.__setattr__(self, "temperature", inputs.positive(temperature, "temperature"))
        low, high = ends(self.problem) if self.problem.n_actions == 2 else (0.0, 0.0)
        if not low < 0 < high:
            raise ValueError(
                f"problem must have two actions, each better in some state, for a law behind minimax play; got "
                f"{self.problem}: the policy CoverPlay may do"
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
        xp, table = namespace(lead), self._table
        if table is not None and array_api_compat.is_torch_array(lead):  # nothing leaves the device
            left = xp.clip(self.horizon - seen, 1, None)
            wanted = _wanted_on(self, xp, device(lead))[left - 1, table.places(lead[..., 0])]
            return astype(self._belief(wanted), lead.dtype)
        ahead = to_numpy(lead)[..., 0]
        left = np.broadcast_to(np.maximum(self.horizon - to_numpy(seen), 1), ahead.shape)
        chance = (
            chance_of_second(self.problem, ahead, left)
            if table is None
            else table.chance_TxL[left - 1, table.places(ahead)]
        )
        law = np.ascontiguousarray(self._belief(self._wanted(chance)))
        return law if xp is np else astype(xp.asarray(law, device=device(lead)), lead.dtype)

    def _wanted(self, chance: np.ndarray) -> np.ndarray:
        """The lead of action 1 in the belief whose response has this chance of it, as near as there is one."""
        low, high = ends(self.problem)
        assert self.temperature is not None
        with np.errstate(divide="ignore"):
            return np.clip(self.temperature * (np.log(chance) - np.log1p(-chance)), low, high)

    def _belief(self, wanted: Array) -> Array:
        """The law ``[..., S]``, the nearest to all states alike, under which action 1 leads by so much."""
        xp = namespace(wanted)
        even_S = xp.zeros((self.n_states, *wanted.shape), dtype=wanted.dtype, device=device(wanted)) + 1 / self.n_states
        return last(belief_with_lead(self.problem.advantage[0], wanted, even_S))

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

    def places(self, lead: Array) -> Array:
        """Where in the table these leads are."""
        xp = namespace(lead)
        return astype(xp.round(lead / self.unit), xp.int64) + self.zero


@lru_cache(maxsize=4)
def _wanted_on(law: CoverLaw, xp: Any, where: Any) -> Array:
    """``_wanted`` at every entry of the table, kept on a device."""
    table = law._table
    assert table is not None
    return xp.asarray(law._wanted(table.chance_TxL), dtype=float_type(xp, where), device=where)


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
