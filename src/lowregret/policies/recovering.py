"""The way back, in play: a mixture of laws that contains the base model, and safe play where its budget is spent.

Let R_a(t) be the regret to action a of what was played since the alarm, with R_a(0) = 0, J the span, b = budget J
sqrt(T) (sqrt(t) where the horizon is unknown), and D(t) = max_a [ R_a(t) - min_{s<=t} R_a(s) ].

* While the mixture is in force, D < b before each of its steps (D <= b/2 right after a return), and a step adds at most
  J to any R_a - min R_a: so D(t) < b + J while it is in force and at the step that ends it.
* It is left at the first t with D(t) >= b. Safe play begins there *afresh*: over its first n steps, whatever comes,
  R_a(t + n) - R_a(t) <= F(n) for every a. The mixture is in force again once D <= b/2.
* After n steps: if the mixture is in force, R_a <= R_a - min R_a < b + J. If safe play is, let t be its *last* entry:
  R_a(n) <= R_a(t) + F(n - t), and R_a(t) <= R_a(t) - min R_a < b + J, since min R_a <= R_a(0) = 0. What happened in
  earlier entries does not matter: D has seen all that was played in them.

Hence **R_a(n) <= b + J + F(n - ceil(b/J))** however often it returns: D needs b/J steps to reach b, F does not fall.

Safe play that guarantees a payoff (``MaximinPlay``) has no such F: ``budgets`` has what is promised, and when, then.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability, guaranteed_by
from ..arrays import Array, astype, count_up, detached, device, first, in_float64, last, namespace, to_numpy
from ..memory import where as choose
from ..predictors import PolyaUrn, Predictor, same_states
from ..problems import DecisionProblem, a_problem, leads, with_first
from .budgets import Outcome, PayoffBudget, RegretBudget, budget_for
from .contract import Policy
from .shadow import Shadow, ShadowMemory
from .trust import trust_after, turned

_CELLS = 1 << 20  # steps of recorded sequences at a time: few enough for memory, many enough that a step is worth it


class RecoveryMemory(NamedTuple):
    step: Array  # [...], tokens seen
    shadow: ShadowMemory
    account: Array  # [..., K], what the budget keeps: by action R_a above its lowest point, or of the payoff
    is_safe: Array  # [...], whether the budget is spent: safe play is in force
    safe: Any  # its memory, without meaning where it is not in force
    trusted: Array  # [...], whether the base has returned since the alarm, and not gone again
    turned_at: Array  # [...], tokens seen when that last changed, 0 for never


@dataclass(frozen=True)
class Recovering:
    """A ``Recovery`` for one problem: a fallback that is told each step what the base model says. All is unchecked.

    ``temperature=None`` responds by ``problem.anytime_temperature``.
    """

    problem: DecisionProblem
    horizon: int | None
    temperature: float | None
    memories: tuple[float, ...]
    share: float
    budget: float
    safe: Predictor | Policy

    def __post_init__(self) -> None:
        a_problem(self.problem)
        name = type(self.safe).__name__
        if not self.acts:
            same_states(self.safe, self.problem)
        made_for, lasts = getattr(self.safe, "problem", self.problem), getattr(self.safe, "horizon", None)
        if made_for != self.problem:
            raise ValueError(f"safe {name} was made for another problem: {made_for} against {self.problem}")
        if lasts is not None and (self.horizon is None or self.horizon > lasts):
            steps = "an unknown number of" if self.horizon is None else self.horizon
            raise ValueError(f"safe {name} was made for {lasts} steps, the rule may run for {steps} steps")
        fresh = self.safe.start((1,))
        try:
            choose(np.array([True]), fresh, self.safe.update(fresh, np.zeros(1, dtype=np.int64)))
        except ValueError as error:
            raise ValueError(
                f"safe {name} keeps a memory that grows with the past: take one such as PolyaUrn"
            ) from error

    name = "Recovery"  # by which a certificate calls it

    @property
    def n_states(self) -> int:
        return self.problem.n_states

    @cached_property
    def acts(self) -> bool:
        """Whether it gives mixed actions and no laws, since its safe play is a policy."""
        return not hasattr(self.safe, "predict")

    @cached_property
    def _budget(self) -> RegretBudget | PayoffBudget:
        return budget_for(self.problem, self.horizon, self.budget, guaranteed_by(self.safe, self.temperature))

    @cached_property
    def _laws(self) -> Shadow:
        return Shadow(self.problem, self.memories, self.share)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RecoveryMemory:
        """The memory before the first token."""
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        step, no = xp.zeros(shape, dtype=xp.int64, device=where), xp.zeros(shape, dtype=xp.bool, device=where)
        laws = self._laws.start(shape, like)
        account = xp.zeros((self._budget.width, *shape), dtype=laws.weights.dtype, device=where)
        return RecoveryMemory(step, laws, last(account), no, self.safe.start(shape, like=like), no, step)

    # A step at a time

    def law_beside(self, memory: RecoveryMemory, probs: Array) -> Array:
        """Its law ``[..., S]`` for a step of which the base model says ``probs``."""
        return last(self._law(memory, self._laws.law(memory.shadow, self._full(memory, probs))))

    def policy_beside(self, memory: RecoveryMemory, probs: Array) -> Array:
        """Its mixed action ``[..., A]``, likewise."""
        return last(with_first(self._chances(memory, self._laws.law(memory.shadow, self._full(memory, probs)))))

    def update_beside(self, memory: RecoveryMemory, probs: Array, token: Array, late: Array) -> RecoveryMemory:
        """The memory after ``token``; ``late``: the alarm had sounded before, so what it said was played."""
        xp = namespace(memory.step)
        if token.shape != memory.step.shape:
            token = xp.broadcast_to(token, memory.step.shape)
        laws, mixture_S = self._laws.advance(memory.shadow, self._full(memory, probs), token, memory.step)
        after = memory._replace(step=memory.step + 1, shadow=laws)
        if not _some(late):
            return after
        lead_A = mixture_A = leads(self.problem, token, self._chances(memory, mixture_S))
        if isinstance(self._budget, PayoffBudget) and _some(memory.is_safe):
            mixture_A = leads(self.problem, token, self._respond(mixture_S, after.step))
        came = Outcome(token, lead_A, mixture_A, late, after.step)
        account, is_safe = self._budget.after(first(memory.account), memory.is_safe, came)
        after = after._replace(account=last(account), is_safe=is_safe, safe=self._safe_after(memory, token, is_safe))
        return trust_after(after, self.share_of_base(after), late, after.step)

    def updated_alone(
        self, memory: RecoveryMemory, probs_S: np.ndarray, token: int, at: int, step: Array
    ) -> RecoveryMemory:
        """``update_beside`` for one stream in NumPy, before the alarm; ``at``, also ``step``, counts the token."""
        _, (counts, weights), *rest = memory
        counts, weights, _ = self._laws.step_alone(counts, weights, probs_S, token, at - 1)
        return RecoveryMemory(step, ShadowMemory(counts, weights), *rest)

    def share_of_base(self, memory: RecoveryMemory) -> Array:
        """How much of what it plays next is the base model's, ``[...]``: its weight in the mixture, 0 in safe play."""
        weight = memory.shadow.weights[..., 0]
        return namespace(weight).where(memory.is_safe, namespace(weight).zeros_like(weight), weight)

    def turned(self, memory: RecoveryMemory) -> Array:
        """Which streams ``[...]`` returned to the base with the last token (1), or left it again (-1)."""
        return turned(memory, memory.step)

    # Recorded sequences

    def laws_beside(self, probs: Array, tokens: Array, times: Array) -> Array:
        """Laws ``[..., T, S]``: the base's ``probs`` until the alarm at ``times`` ``[...]``, its own from then on."""
        xp, horizon = namespace(probs), tokens.shape[-1]
        times_N, tokens_NxT = xp.reshape(times, (-1,)), xp.reshape(tokens, (-1, horizon))
        probs_NxTxS = xp.reshape(probs, (-1, horizon, self.n_states))
        rows = np.flatnonzero(to_numpy(times_N) < horizon)  # nobody asks what it says in the others
        if len(rows) == 0:
            return probs
        parts = []
        for at in range(0, len(rows), step := max(1, _CELLS // horizon)):
            where = xp.asarray(rows[at : at + step], device=device(probs))
            parts.append(self._played(*(xp.take(whole, where, axis=0) for whole in (probs_NxTxS, tokens_NxT, times_N))))
        played_NxTxS = parts[0] if len(parts) == 1 else xp.concat(parts)
        place = np.zeros(tokens_NxT.shape[0], dtype=np.int64)
        place[rows] = np.arange(len(rows))
        played_NxTxS = xp.take(played_NxTxS, xp.asarray(place, device=device(probs)), axis=0)
        late_NxT = count_up(tokens, 0, horizon) >= times_N[:, None]
        return xp.reshape(xp.where(late_NxT[..., None], played_NxTxS, probs_NxTxS), probs.shape)

    def _played(self, probs_NxTxS: Array, tokens_NxT: Array, times_N: Array) -> Array:
        """Its laws at every step, those before the alarm included: the mixture's, but for stretches of safe play."""
        law_SxNxT = self._laws.recorded(probs_NxTxS, tokens_NxT)
        step_T = count_up(tokens_NxT, 1, tokens_NxT.shape[-1] + 1)
        lead_AxNxT = leads(self.problem, tokens_NxT, self._respond(law_SxNxT, step_T))
        memory, laws = self.start(tuple(times_N.shape), like=probs_NxTxS), []
        account, xp = first(memory.account), namespace(law_SxNxT)
        for t in range(int(times_N.min()), tokens_NxT.shape[-1]):
            law_S, token = law_SxNxT[..., t], tokens_NxT[:, t]
            lead_A = mixture_A = lead_AxNxT[..., t]
            memory = memory._replace(step=xp.zeros_like(memory.step) + t)
            if _some(memory.is_safe):
                law_S = self._law(memory, law_S)
                safe_A = leads(self.problem, token, self._respond(law_S, memory.step + 1))
                lead_A = xp.where(memory.is_safe, safe_A, lead_A)
            laws.append(law_S)
            came = Outcome(token, lead_A, mixture_A, times_N <= t, memory.step + 1)
            account, is_safe = self._budget.after(account, memory.is_safe, came)
            memory = memory._replace(is_safe=is_safe, safe=self._safe_after(memory, token, is_safe))
        late_SxNxT = xp.stack(laws, axis=-1)
        law_SxNxT = xp.concat([law_SxNxT[..., : -len(laws)], late_SxNxT], axis=-1)
        return astype(xp.moveaxis(law_SxNxT, 0, -1), probs_NxTxS.dtype)

    # What it may cost

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        """What is lost at most after an alarm, by the steps that are left.

        Between knots half a percent apart, the next larger value: what may be lost never falls with the steps.
        """
        knots_M = np.unique(np.ceil(np.append(np.geomspace(1, steps, 1 + math.ceil(math.log(steps) * 200)), steps)))
        most = lru_cache(maxsize=None)(lambda at: self.total_bound(int(knots_M[at]), until=steps))
        return lambda n: np.minimum([most(at) for at in np.searchsorted(knots_M, np.atleast_1d(n))], problem.span * n)

    def total_bound(self, steps: int, until: int | None = None) -> float:
        """What is lost at most in all over the ``steps`` after an alarm, to any one action, on any sequence.

        ``until``: the step at which they end, by default the horizon. Play that goes by the steps left may stand worse
        before its end than at it.
        """
        J, end = self.problem.span, self.horizon if until is None else until
        if end is None:
            raise ValueError("until must say at which step they end: the horizon is unknown")
        if isinstance(self._budget, PayoffBudget):
            return steps * J
        budget = self.budget * math.sqrt(end if self.horizon is None else self.horizon)
        safe = self._safe_bound(max(steps - math.ceil(budget), 0), end)
        return min(steps * J, budget * J + J + safe)

    def payoff_guarantee(self, temperature: float | None = None) -> float | None:
        """What it earns at least a step after an alarm, but for its ``shortfall``; None: safe play has none."""
        return self._budget.guarantee if isinstance(self._budget, PayoffBudget) else None

    def shortfall(self, steps: int, until: int) -> float:
        """What it may earn less than that in all over ``steps`` steps after an alarm, the last of them ``until``."""
        return self._budget.shortfall(steps, until) if isinstance(self._budget, PayoffBudget) else math.inf

    def _safe_bound(self, steps: int, until: int) -> float:
        """F: what safe play begun afresh loses at most in all over that many steps."""
        whole, bound = ability(self.safe, "total_bound"), ability(self.safe, "regret_bound")
        if steps == 0:
            return 0.0
        if whole is not None:
            # Play that goes by the steps left risks what they are worth, however early one looks.
            left = 0 if ability(self.safe, "afresh") is None else getattr(self.safe, "horizon", until) - until
            return min(steps * self.problem.span, float(whole(steps + left)))
        warmth = self.temperature
        if warmth is None and not self.acts:
            # The rate 1/(temperature_t (n + m)) of an urn begun late falls with n, so Lemma 2.3's proof goes through
            # with the temperature of the last step; of other laws under a schedule nothing is known.
            if not isinstance(self.safe, PolyaUrn) or self.safe.prior > 2:
                return math.inf
            warmth = float(self.problem.anytime_temperature(until))
        average = None if bound is None else bound(self.problem, steps, warmth)
        return math.inf if average is None else steps * average

    # Inside

    def _full(self, memory: RecoveryMemory, probs: Array) -> Array:
        """The base's law in double precision, short axis first, one for each stream."""
        probs_S, shape = first(in_float64(detached(probs))), memory.step.shape
        if probs_S.shape[1:] == shape:
            return probs_S
        return namespace(probs_S).broadcast_to(probs_S, (self.n_states, *shape))

    def _law(self, memory: RecoveryMemory, law_S: Array) -> Array:
        """The mixture's law, or that of safe play where it is in force."""
        if not self.acts and _some(memory.is_safe):
            safe_S = first(astype(self.safe.predict(memory.safe), law_S.dtype))  # type: ignore[union-attr]
            law_S = namespace(law_S).where(memory.is_safe, safe_S, law_S)
        return law_S

    def _chances(self, memory: RecoveryMemory, mixture_S: Array) -> Array:
        """What it plays: the chances of every action but the first."""
        chances_A1 = self._respond(self._law(memory, mixture_S), memory.step + 1)
        if self.acts and _some(memory.is_safe):
            safe_A = first(astype(self.safe.policy(memory.safe), chances_A1.dtype))  # type: ignore[union-attr]
            chances_A1 = namespace(chances_A1).where(memory.is_safe, safe_A[1:], chances_A1)
        return chances_A1

    def _respond(self, law_S: Array, step: Array) -> Array:
        warmth = self.problem.anytime_temperature(step) if self.temperature is None else self.temperature
        return self.problem.chances(law_S, warmth)

    def _safe_after(self, memory: RecoveryMemory, token: Array, is_safe: Array) -> Any:
        """Safe play goes on where it was in force and stays so; elsewhere it begins afresh, if it is needed at all."""
        if not _some(memory.is_safe | is_safe):
            return memory.safe
        afresh = ability(self.safe, "afresh")
        if afresh is None:
            fresh = self.safe.start(tuple(memory.step.shape), like=memory.account)
        else:
            fresh = afresh(memory.step + 1)
        if not _some(memory.is_safe):
            return fresh
        return choose(memory.is_safe & is_safe, self.safe.update(memory.safe, token), fresh)


def _some(flags: Array) -> bool:
    """Whether any is set; where asking would make a device wait, it may be."""
    return bool(flags.any()) if isinstance(flags, (np.ndarray, np.generic)) else True
