"""The way back, in play: a mixture of laws that contains the base model, and safe play where its budget is spent.

Let R_c(t) be what comparator c (a fixed action, or a reference) has earned more than what was played since the alarm,
with R_c(0) = 0, J the span, b = budget J sqrt(T) (sqrt(t) where the horizon is unknown), and
D(t) = max_c [ R_c(t) - min_{s<=t} R_c(s) ].

* While the mixture is in force, D < b before each of its steps (D <= b/2 right after a return), and a step adds at most
  J to any R_c - min R_c: so D(t) < b + J while it is in force and at the step that ends it.
* It is left at the first t with D(t) >= b. Safe play begins there *afresh*: over its first n steps, whatever comes,
  R_c(t + n) - R_c(t) <= F(n) for every c. The mixture is in force again once D <= b/2.
* After n steps: if the mixture is in force, R_c <= R_c - min R_c < b + J. If safe play is, let t be its *last* entry:
  R_c(n) <= R_c(t) + F(n - t), and R_c(t) <= R_c(t) - min R_c < b + J, since min R_c <= R_c(0) = 0. What happened in
  earlier entries does not matter: D has seen all that was played in them.

Hence **R_c(n) <= b + J + F(n - ceil(b/J))** however often it returns: D needs b/J steps to reach b, F does not fall.
Where b grows with t, take that of step n: an entry after m < b/J steps leaves R_c(n) <= m J + F(n - m), which does not
fall as m grows, since safe play loses at most J a step.
Payoffs may change, as long as J is the span of all that may come, and the mixture may be answered in any way: the bound
holds for best responses (a temperature of 0) too. Safe play must then randomise, so it is not a law. The model may be
one more comparator: what is lost to it is then bounded, too.

With contexts each has urns, weights, a budget (of sqrt(T / C)) and safe play of its own. Their bounds add up: the sum
of C of them, each concave in its own n, is largest where all are equally long.

Where only fixed actions are compared with, under payoffs that stay the same, safe play is a law or a policy that is
given the states; else it is Hedge over all comparators, given what each was paid.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import (
    Array,
    astype,
    count_up,
    device,
    first,
    last,
    namespace,
    some,
    to_numpy,
    total,
)
from ..certificates.bounds import Bound
from ..certificates.switching import WayBack
from ..memory import where as choose
from ..predictors import PolyaUrn, Predictor, same_states
from ..problems import DecisionProblem, Scene, a_problem, leads, scene_of
from .budgets import Outcome, RegretBudget, trust_after, turned
from .contract import Policy
from .experts import ExpertHedge
from .shadow import Shadow, ShadowMemory

_CELLS = 1 << 20  # steps of recorded sequences at a time: few enough for memory, many enough to be worth a pass
_CELLS_ON_DEVICE = 1 << 26  # there a step takes as long for ten thousand rows as for one
_STEPS = 1 << 10  # of recorded sequences: below, compiling costs more than it saves


class Row(NamedTuple):
    """Where the budget stands."""

    account: Array  # [..., P], by comparator R_c above its lowest point
    is_safe: Array  # [...], whether the budget is spent: safe play is in force
    safe: Any  # its memory, without meaning where it is not in force


class RecoveryMemory(NamedTuple):
    step: Array  # [...], states seen
    shadow: ShadowMemory
    row: Row
    trusted: Array  # [...], whether the base has returned since the alarm, and not gone again
    turned_at: Array  # [...], states seen when that last changed, 0 for never


@dataclass(frozen=True)
class Recovering:
    """A ``Recovery`` for one rule: a fallback that is given the base model's law at each step. All is unchecked.

    Parameters
    ----------
    temperature
        Of the responses to ``safe``, where that is a law; None: ``problem.anytime_temperature``.
    safe
        A predictor or a policy; None: Hedge over all comparators.
    counts_model
        Whether the response to the model is a comparator, too: the last of them. For Hedge as safe play.
    """

    problem: DecisionProblem
    horizon: int | None
    temperature: float | None
    memories: tuple[float, ...]
    share: float
    budget: float
    safe: Predictor | Policy | None
    counts_model: bool = False

    def __post_init__(self) -> None:
        a_problem(self.problem)
        if self.safe is None:
            return
        name = type(self.safe).__name__
        if not self.acts and self.temperature == 0:
            raise ValueError(
                f"safe {name} is a law, and the best response to a law that learns may lose every step: take a policy, "
                "or none (Hedge over all comparators), or a temperature above 0"
            )
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
        """Whether it gives mixed actions but no laws, since its safe play is a policy."""
        return not hasattr(self.safe, "predict")

    @cached_property
    def hedge(self) -> ExpertHedge:
        """Hedge over the actions, then the model if it counts."""
        return ExpertHedge(self.problem.n_actions + self.counts_model, self.problem.span)

    @cached_property
    def _budget(self) -> RegretBudget:
        return RegretBudget(self.problem.span, self.hedge.experts, self.horizon, self.budget)

    @cached_property
    def _laws(self) -> Shadow:
        return Shadow(self.problem, self.memories, self.share)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RecoveryMemory:
        """The memory before the first state."""
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        step, no = xp.zeros(shape, dtype=xp.int64, device=where), xp.zeros(shape, dtype=xp.bool, device=where)
        laws = self._laws.start(shape, like)
        account = xp.zeros((*shape, self._budget.comparators), dtype=laws.weights.dtype, device=where)
        return RecoveryMemory(step, laws, Row(account, no, (self.safe or self.hedge).start(shape, like=like)), no, step)

    # A step at a time

    def scene(self, memory: RecoveryMemory, probs: Array) -> Scene:
        """The scene of a step for which the base model says ``probs`` and nothing else is known."""
        return scene_of(self.problem, probs, self._temperature(memory.step + 1))

    def law(self, memory: RecoveryMemory, scene: Scene) -> Array:
        """Its law ``[S, ...]``; while safe play that acts is in force, the mixture's law, which is not played."""
        return self._law(memory.row, self._laws.law(memory.shadow, scene))

    def policy(self, memory: RecoveryMemory, scene: Scene) -> Array:
        """What it plays, ``[A, ...]``."""
        return self._played(memory.row, scene, self._laws.law(memory.shadow, scene))

    def update(self, memory: RecoveryMemory, scene: Scene, state: Array, late: Array) -> RecoveryMemory:
        """The memory after ``state``; ``late``: the alarm had sounded before, so what it said was played."""
        xp = namespace(memory.step)
        if state.shape != memory.step.shape:
            state = xp.broadcast_to(state, memory.step.shape)
        laws, mixture_S = self._laws.advance(memory.shadow, scene, state)
        old = memory.row
        if not some(late):  # it only listens
            return memory._replace(step=memory.step + 1, shadow=laws)
        paid_P = scene.earned(state)
        played_A = self._played(old, scene, mixture_S)
        own = total(played_A * paid_P)
        if self.counts_model:
            paid_P = xp.concat([paid_P, total(scene.base_A * paid_P)[None]])
        came = Outcome(paid_P - own, late, memory.step + 1)
        account, is_safe = self._budget.after(first(old.account), old.is_safe, came)
        row = Row(last(account), is_safe, self._safe_after(old, is_safe, state, paid_P))
        after = memory._replace(step=memory.step + 1, shadow=laws, row=row)
        trusting: RecoveryMemory = trust_after(after, self.share_of_base(after), late, after.step)
        return trusting

    def share_of_base(self, memory: RecoveryMemory) -> Array:
        """How much of what it plays next is the base model's, ``[...]``: its weight in the mixture, 0 in safe play."""
        weight = memory.shadow.weights[..., 0]
        return namespace(weight).where(memory.row.is_safe, weight * 0, weight)

    def turned(self, memory: RecoveryMemory) -> Array:
        """Which streams ``[...]`` returned to the base with the last token (1), or left it again (-1)."""
        return turned(memory, memory.step)

    # Recorded sequences

    def laws_beside(self, probs: Array, tokens: Array, times: Array) -> Array:
        """Laws ``[..., T, S]``: the base's ``probs`` until the alarm at ``times`` ``[...]``, its own from then on."""
        xp, horizon = namespace(probs), tokens.shape[-1]
        times_N, tokens_NxT = xp.reshape(times, (-1,)), xp.reshape(tokens, (-1, horizon))
        probs_NxTxS = xp.reshape(probs, (-1, horizon, self.n_states))
        rows = np.flatnonzero(to_numpy(times_N) < horizon)  # what it says in the others is not used
        if len(rows) == 0:
            return probs
        parts, cells = [], _CELLS if str(device(probs) or "cpu") == "cpu" else _CELLS_ON_DEVICE
        for at in range(0, len(rows), step := max(1, cells // horizon)):
            where = xp.asarray(rows[at : at + step], device=device(probs))
            parts.append(
                self._recorded(*(xp.take(whole, where, axis=0) for whole in (probs_NxTxS, tokens_NxT, times_N)))
            )
        played_NxTxS = parts[0] if len(parts) == 1 else xp.concat(parts)
        place = np.zeros(tokens_NxT.shape[0], dtype=np.int64)
        place[rows] = np.arange(len(rows))
        played_NxTxS = xp.take(played_NxTxS, xp.asarray(place, device=device(probs)), axis=0)
        late_NxT = count_up(tokens, 0, horizon) >= times_N[:, None]
        return xp.reshape(xp.where(late_NxT[..., None], played_NxTxS, probs_NxTxS), probs.shape)

    def _recorded(self, probs_NxTxS: Array, tokens_NxT: Array, times_N: Array) -> Array:
        """Its laws at every step, those before the alarm included: the mixture's, but for stretches of safe play."""
        law_SxNxT = self._laws.recorded(probs_NxTxS, tokens_NxT)
        step_T = count_up(tokens_NxT, 1, tokens_NxT.shape[-1] + 1)
        lead_AxNxT = self._leads(tokens_NxT, law_SxNxT, step_T)
        xp, laws = namespace(law_SxNxT), []
        row = self.start(tuple(times_N.shape), like=probs_NxTxS).row
        begin, T = int(times_N.min()), tokens_NxT.shape[-1]
        if xp is np:  # up to some step there is no safe play to think of
            quiet, account_PxN = self._budget.until_spent(lead_AxNxT, times_N)
            begin, row = max(begin, quiet), row._replace(account=last(account_PxN))
        if begin == T:
            return astype(xp.moveaxis(law_SxNxT, 0, -1), probs_NxTxS.dtype)
        for t in range(begin, T):
            law_S, token = law_SxNxT[..., t], tokens_NxT[:, t]
            lead_A = lead_AxNxT[..., t]
            before = xp.zeros_like(token) + t
            if some(row.is_safe):
                law_S = self._law(row, law_S)
                lead_A = xp.where(row.is_safe, self._leads(token, law_S, before + 1), lead_A)
            laws.append(law_S)
            came = Outcome(lead_A, times_N <= t, before + 1)
            account, is_safe = self._budget.after(first(row.account), row.is_safe, came)
            row = Row(last(account), is_safe, self._safe_after(row, is_safe, token, None))
        late_SxNxT = xp.stack(laws, axis=-1)
        law_SxNxT = xp.concat([law_SxNxT[..., : -len(laws)], late_SxNxT], axis=-1)
        return astype(xp.moveaxis(law_SxNxT, 0, -1), probs_NxTxS.dtype)

    # What it may cost

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound | None:
        """The most that is lost after an alarm, by the steps that are left; None where no bound on ``safe`` is known.

        Computed at knots half a percent apart; between them the next larger value, since losses never fall with the
        steps.
        """
        if self.safe is None:
            return WayBack(self.problem.span, self.hedge.experts, self.horizon, self.budget).after(steps)
        if math.isinf(self._safe_bound(1, steps)):
            return None
        knots_M = np.unique(np.ceil(np.append(np.geomspace(1, steps, 1 + math.ceil(math.log(steps) * 200)), steps)))
        most: Any = lru_cache(maxsize=None)(lambda at: self.total_bound(int(knots_M[at]), until=steps))
        return lambda n: np.minimum([most(at) for at in np.searchsorted(knots_M, np.atleast_1d(n))], problem.span * n)

    def total_bound(self, steps: int, until: int | None = None) -> float:
        """The most that is lost to any one action, in all over the ``steps`` after an alarm, on any sequence.

        ``until``: the step at which they end, by default the horizon.
        """
        J, end = self.problem.span, self.horizon if until is None else until
        if end is None:
            raise ValueError("until must say at which step they end: the horizon is unknown")
        budget = self.budget * math.sqrt(end if self.horizon is None else self.horizon)
        safe = self._safe_bound(max(steps - math.ceil(budget), 0), end)
        return min(steps * J, budget * J + J + safe)

    def _safe_bound(self, steps: int, until: int) -> float:
        """F: the most that safe play begun afresh loses, in all over that many steps."""
        bound = ability(self.safe, "regret_bound")
        if steps == 0:
            return 0.0
        temperature = self.temperature
        if temperature is None and not self.acts:
            # The rate 1/(temperature_t (n + m)) of an urn begun late falls with n, so Lemma 2.3's proof goes through
            # with the temperature of the last step; of other laws under a schedule nothing is known.
            if not isinstance(self.safe, PolyaUrn) or self.safe.prior > 2:
                return math.inf
            temperature = float(self.problem.anytime_temperature(until))
        average = None if bound is None else bound(self.problem, steps, temperature)
        return math.inf if average is None else steps * average

    # Inside

    def _temperature(self, step: Array) -> Any:
        return self.problem.anytime_temperature(step) if self.temperature is None else self.temperature

    def _leads(self, token: Array, law_S: Array, step: Array) -> Array:
        """What every action earned more than the response to a law."""
        return leads(self.problem, token, self.problem.chances(law_S, self._temperature(step)))

    def _law(self, row: Row, law_S: Array) -> Array:
        """The mixture's law, or that of safe play where it is in force."""
        if not self.acts and some(row.is_safe):
            safe_S = first(astype(self.safe.predict(row.safe), law_S.dtype))  # type: ignore[union-attr]
            law_S = namespace(law_S).where(row.is_safe, safe_S, law_S)
        return law_S

    def _played(self, row: Row, scene: Scene, mixture_S: Array) -> Array:
        """What it plays, ``[A, ...]``."""
        mixed_A = scene.respond(self._law(row, mixture_S))
        if not self.acts or not some(row.is_safe):
            return mixed_A
        if self.safe is not None:
            safe_A = first(astype(self.safe.policy(row.safe), mixed_A.dtype))  # type: ignore[union-attr]
        else:
            weights_P, A = first(self.hedge.policy(row.safe)), self.problem.n_actions
            safe_A = weights_P[:A]
            if self.counts_model:
                safe_A = safe_A + weights_P[-1] * scene.base_A
        return namespace(mixed_A).where(row.is_safe, safe_A, mixed_A)

    def _safe_after(self, row: Row, is_safe: Array, state: Array, paid_P: Array | None) -> Any:
        """Safe play goes on where it was in force and stays so; elsewhere it begins afresh, if it is needed at all."""
        if not some(row.is_safe | is_safe):
            return row.safe
        safe = self.safe or self.hedge
        fresh = safe.start(tuple(is_safe.shape), like=row.account)
        if not some(row.is_safe):
            return fresh
        after = self.hedge.update(row.safe, last(paid_P)) if self.safe is None else self.safe.update(row.safe, state)
        return choose(row.is_safe & is_safe, after, fresh)
