"""What is played after an alarm: recovery, which can return to the model; a reference; or any policy.

**Recovery.** Let R_c(t) be what comparator c (the model's response is one too) has earned more than what was played
since the alarm, J the span, b = budget J sqrt(T), or budget J sqrt(t) where the horizon is unknown, and
D(t) = max_c [ R_c(t) - min_{s<=t} R_c(s) ].

* While the mixture is played, D < b before each of its steps (D <= b/2 right after a return), and a step adds at most J
  to any R_c - min R_c: so D(t) < b + J then, and at the step that ends it.
* It is left at the first t with D(t) >= b. Safe play begins there *afresh*: over its first n steps, whatever comes,
  R_c(t + n) - R_c(t) <= F(n) for every c. The mixture is played again once D <= b/2.
* After n steps: if the mixture is played, R_c <= R_c - min R_c < b + J. If safe play is, let t be its *last* entry:
  R_c(n) <= R_c(t) + F(n - t), and R_c(t) <= R_c(t) - min R_c < b + J, since min R_c <= R_c(0) = 0. What happened in
  earlier entries does not matter: D has seen all that was played in them.

Hence **R_c(n) <= b + J + F(n - ceil(b/J))** however often it returns: D needs b/J steps to reach b, F does not fall.
Where b grows with t, take that of step n. With contexts each has urns, weights, a budget (of sqrt(T / C)) and safe play
of its own; their bounds add up, and the sum of C concave bounds is largest where all are equally long.

For numbers there are no states for urns to count, so no mixture: ``Recovery`` is Hedge over the comparators and the
model from the alarm on, in which the model returns as far as it earns more.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from .. import inputs
from ..arrays import some
from ..certificates.bounds import Bound
from ..certificates.promises import After
from ..certificates.switching import RecoveryBound, hedging
from ..predictors import Predictor
from .layout import Shapes, Views
from .mixture import Mixture
from .step import Outcome, Step

TIE = 1e-9  # of the budget: sums that reach it but for rounding have reached it
LEAST = 1e-12  # of utility: a smaller gap is rounding, and the rate it implies would amplify that
HOME, GONE = 0.5, 0.25  # the model's share above which it has returned, and below which it is dropped again


class Play(Protocol):
    """A fallback at work in one setting; ``memory`` has views of what it remembers, ``[N, ...]``.

    If it remembers a part ``trusted``, that says whether the model has returned: its changes are events.
    """

    name: str  # by which a certificate calls it
    takes_scale: bool = True  # it learns from what was earned, not from the states
    mixes: bool = False  # its forecast is a mixture that contains the model's, on which a test may bet
    counts_model: bool = False  # it bounds what is lost to the model, too
    regret_after: After

    def shapes(self) -> Shapes:
        return {}

    def start(self, memory: Views) -> None:
        """Writes what is remembered at first, where that is not 0."""
        return

    def prepare(self, memory: Views, step: Step) -> Step:
        """The step with what the fallback plays in ``policy_NxA``, and what it believes."""
        raise NotImplementedError

    def update(self, memory: Views, step: Step, outcome: Outcome, seen_NxC: Any) -> None:
        """Learns from an outcome; ``seen``: how often each context has occurred."""
        return

    def share(self, memory: Views, seen_NxC: Any) -> Any:
        """How much of what it plays next is the model's, ``[N]``."""
        return seen_NxC[:, 0] * 0.0


@runtime_checkable
class Fallback(Protocol):
    """What to play after an alarm."""

    def play(self, setting: Any) -> Play: ...


@final
@dataclass(frozen=True)
class Recovery:
    """Plays a mixture of forecasts that includes the model's within a budget of regret, and Hedge beyond it.

    Other forecasts run beside the model's from the first step: urns that forget, urns for each action that the model
    advises, references. After an alarm the response to their mixture is played; once it has lost more than the budget,
    Hedge over the comparators and the model takes over until half of the budget is won back.

    Parameters
    ----------
    memories
        Of the urns: about how many states each remembers.
    share
        The share of all weight that is spread evenly each step, so that the mixture can follow changes.
    budget
        What the mixture may lose to any one comparator, in units of span * sqrt(horizon).
    trust
        The model's weight in the mixture at first; by default that of every other forecast.
    safe
        A predictor in place of Hedge, for ``robustify``: with quantal responses, against actions alone.
    """

    memories: tuple[float, ...] = (20, 200)
    share: float = 0.003
    budget: float = 0.5
    trust: float | None = None
    safe: Predictor | None = None

    def __post_init__(self) -> None:
        memories = tuple(self.memories) if isinstance(self.memories, (tuple, list)) else ()
        if not memories or any(inputs.positive(m, "memories") <= 1 for m in memories):
            raise ValueError(f"memories must be a tuple of numbers above 1, got {inputs.shown(self.memories)}")
        inputs.keep(
            self,
            memories=tuple(inputs.positive(m, "memories") for m in memories),
            share=inputs.probability(self.share, "share"),
            budget=inputs.positive(self.budget, "budget"),
            trust=None if self.trust is None else inputs.probability(self.trust, "trust"),
        )
        if self.safe is not None and not isinstance(self.safe, Predictor):
            raise ValueError(f"safe must be a Predictor such as PolyaUrn, got {type(self.safe).__name__}")

    def play(self, setting: Any) -> Play:
        hedge = Hedge(setting)
        return Recovering(self, setting, hedge) if setting.outcomes.n_states else HedgeAlone(setting, hedge)


class Hedge:
    """AdaHedge over the comparators that are awake and the model, for each context: a rate that its gaps set.

    What ``Recovery`` plays once its budget is spent; another has the same verbs, ``engine/learners.py``.
    """

    counts_model = True  # it bounds what is lost to the model, too

    def __init__(self, setting: Any) -> None:
        self.xp, self.n_contexts, self.experts = setting.xp, setting.n_contexts, setting.n_awake + 1
        self.log_experts = math.log(self.experts)

    def shapes(self) -> Shapes:
        return {"lead_CxX": (self.n_contexts, self.experts), "gap_C": (self.n_contexts,)}

    def start(self, memory: Views) -> None: ...

    def _rate(self, gap_N: Any) -> Any:
        """ln X / gap; any rate will do while there is no gap, since all experts were paid the same."""
        return self.log_experts / self.xp.where(gap_N > LEAST, gap_N, 1.0)

    def weights(self, lead_NxX: Any, gap_N: Any) -> Any:
        scores = self.xp.exp(lead_NxX * self._rate(gap_N)[:, None])  # the best of them leads by nothing
        return scores / scores.sum(-1, keepdims=True)

    def plays(self, memory: Views, step: Step) -> Any:
        weights_NxX = self.weights(memory.lead_CxX[step.here], memory.gap_C[step.here])
        return (weights_NxX[:, None, :-1] @ step.plays_NxExA)[:, 0] + weights_NxX[:, -1:] * step.model_NxA

    def instead(self, memory: Views, step: Step, is_safe_N: Any, mixture_NxS: Any, mixed_NxA: Any) -> tuple[Any, ...]:
        """What is believed, the response to that, and what is played: the mixture's, or this where ``is_safe``."""
        return mixture_NxS, mixed_NxA, self.xp.where(is_safe_N[:, None], self.plays(memory, step), mixed_NxA)

    def paid(self, outcome: Outcome) -> Any:
        """What each expert earned, ``[N, X]``."""
        model_Nx1 = outcome.model_N[:, None]
        return self.xp.concat([outcome.gained_NxE + model_Nx1, model_Nx1], axis=1)

    def update(self, memory: Views, step: Step, outcome: Outcome, paid_NxX: Any, goes_on_N: Any) -> None:
        """After an outcome: it goes on, or begins afresh."""
        lead_NxX, gap_N = memory.lead_CxX[step.here], memory.gap_C[step.here]
        ahead_NxX = lead_NxX + paid_NxX
        mixed_N = (self.weights(lead_NxX, gap_N) * paid_NxX).sum(-1)
        opened_N = self._soft_max(ahead_NxX, gap_N) - self._soft_max(lead_NxX, gap_N) - mixed_N
        memory.lead_CxX[step.here] = (ahead_NxX - self.xp.max(ahead_NxX, axis=-1)[:, None]) * goes_on_N[:, None]
        memory.gap_C[step.here] = (gap_N + opened_N * (opened_N > 0)) * goes_on_N

    def _soft_max(self, lead_NxX: Any, gap_N: Any) -> Any:
        xp, rate_N = self.xp, self._rate(gap_N)
        best_N = xp.max(lead_NxX, axis=-1)
        below_N = xp.log(xp.mean(xp.exp((lead_NxX - best_N[:, None]) * rate_N[:, None]), axis=-1)) / rate_N
        return xp.where(gap_N > LEAST, best_N + below_N, best_N)

    def regret_after(self, made: Recovery, setting: Any) -> After:
        """What is lost behind a budget."""
        return RecoveryBound(self.experts, setting.rounds, made.budget, self.n_contexts).after


def averaged(share_NxC: Any, seen_NxC: Any) -> Any:
    """The mean over contexts, weighted by how often they occurred."""
    often_NxC = seen_NxC + 1e-9
    return (share_NxC * often_NxC).sum(-1) / often_NxC.sum(-1)


def trusts(memory: Views, share_N: Any, in_force_N: Any) -> None:
    """Whether the model has returned since the alarm, and was not dropped again."""
    memory.trusted[:] = in_force_N & ((share_N > HOME) | ((memory.trusted > 0) & (share_N > GONE)))


class Recovering(Play):
    """``Recovery`` for states: the mixture, and for each context a budget of what it may lose to each of X experts."""

    name, mixes = "Recovery", True

    def __init__(self, made: Recovery, setting: Any, safe: Any) -> None:
        self.xp, self.setting, self.safe = setting.xp, setting, safe
        self.mixture = Mixture(setting, made.memories, made.share, made.trust)
        self.takes_scale = self.counts_model = safe.counts_model
        self.regret_after = safe.regret_after(made, setting)
        span, self.rounds = setting.payoff_range.span, setting.rounds
        self.limit = math.inf if span == 0 else made.budget * span
        if self.rounds is not None:
            self.limit *= math.sqrt(self.rounds / setting.n_contexts)

    def shapes(self) -> Shapes:
        C = self.setting.n_contexts
        budget = {"account_CxX": (C, self.safe.experts), "is_safe_C": (C,), "trusted": ()}
        return {**self.mixture.shapes(), **self.safe.shapes(), **budget}

    def start(self, memory: Views) -> None:
        self.mixture.start(memory)
        self.safe.start(memory)

    def prepare(self, memory: Views, step: Step) -> Step:
        mixture_NxS, parts_NxLxS = self.mixture.forecasts(memory, step)
        _, mixed_NxA = self.setting.respond(mixture_NxS, step.payoffs, step.clock_N)
        believed, is_safe_N = (mixture_NxS, mixed_NxA, mixed_NxA), memory.is_safe_C[step.here] > 0
        if some(is_safe_N):
            believed = self.safe.instead(memory, step, is_safe_N, mixture_NxS, mixed_NxA)
        mixture_NxS, mixed_NxA, policy_NxA = believed
        return step._replace(
            mixture_NxS=mixture_NxS, parts_NxLxS=parts_NxLxS, mixed_NxA=mixed_NxA, policy_NxA=policy_NxA
        )

    def update(self, memory: Views, step: Step, outcome: Outcome, seen_NxC: Any) -> None:
        self.mixture.update(memory, step, outcome)
        late_N = step.in_force_N
        if not some(late_N):
            return
        paid_NxX, own_N = self.safe.paid(outcome), (step.policy_NxA * outcome.paid_NxA).sum(-1)
        account_NxX = memory.account_CxX[step.here] + paid_NxX - own_N[:, None]
        account_NxX = account_NxX * (account_NxX > 0) * late_N[:, None]
        memory.account_CxX[step.here] = account_NxX
        worst_N, was_N = self.xp.max(account_NxX, axis=-1), memory.is_safe_C[step.here] > 0
        limit = self.limit if self.rounds is not None else self.limit * seen_NxC[step.here] ** 0.5
        is_spent_N = self.xp.where(was_N, worst_N > limit * ((1 + TIE) / 2), worst_N >= limit * (1 - TIE))
        if some(was_N):
            self.safe.update(memory, step, outcome, paid_NxX, was_N & is_spent_N)
        memory.is_safe_C[step.here] = self.xp.astype(late_N & is_spent_N, account_NxX.dtype)
        trusts(memory, self.share(memory, seen_NxC), late_N)

    def share(self, memory: Views, seen_NxC: Any) -> Any:
        """The model's share of the mixture, and none of safe play."""
        return averaged(memory.weights_CxL[..., 0] * (memory.is_safe_C == 0), seen_NxC)


class HedgeAlone(Play):
    """``Recovery`` for numbers: Hedge from the alarm on."""

    name, counts_model = "Hedge over all of them and the model", True

    def __init__(self, setting: Any, hedge: Hedge) -> None:
        self.hedge = hedge
        self.regret_after = partial(_hedging, hedge.experts, setting.n_contexts)

    def shapes(self) -> Shapes:
        return self.hedge.shapes() | {"trusted": ()}

    def prepare(self, memory: Views, step: Step) -> Step:
        return step._replace(policy_NxA=self.hedge.plays(memory, step))

    def update(self, memory: Views, step: Step, outcome: Outcome, seen_NxC: Any) -> None:
        if some(step.in_force_N):
            self.hedge.update(memory, step, outcome, self.hedge.paid(outcome), step.in_force_N)
            trusts(memory, self.share(memory, seen_NxC), step.in_force_N)

    def share(self, memory: Views, seen_NxC: Any) -> Any:
        n, C, X = memory.lead_CxX.shape
        weights = self.hedge.weights(memory.lead_CxX.reshape(n * C, X), memory.gap_C.reshape(n * C))
        return averaged(weights[:, -1].reshape(n, C), seen_NxC)


@final
@dataclass(frozen=True)
class UseReference:
    """After an alarm, act on the forecasts of this reference for good."""

    name: str

    def __post_init__(self) -> None:
        inputs.names_of([self.name], "name")

    def play(self, setting: Any) -> Play:
        if self.name not in setting.references:
            raise ValueError(
                f"UseReference({self.name!r}) needs that reference: against=Actions() + References({self.name!r}), "
                f"got references {setting.references}"
            )
        return FollowReference(self.name, setting)


class FollowReference(Play):
    """``UseReference`` at work."""

    def __init__(self, name: str, setting: Any) -> None:
        self.name, self.setting, self.at = name, setting, setting.references.index(name)
        # Nothing is lost to itself; what is lost to others is not known.
        self.regret_after = nothing if setting.n_comparators == 1 else unknown

    def prepare(self, memory: Views, step: Step) -> Step:
        followed = step.references_NxQxS[:, self.at] if self.setting.outcomes.n_states else None
        return step._replace(policy_NxA=step.answers_NxQxA[:, self.at], mixture_NxS=followed)


def unknown(problem: Any, steps: int, temperature: float | None) -> None:
    """What is lost, where nobody knows."""


def nothing(problem: Any, steps: int, temperature: float | None) -> Bound:
    return partial(np.multiply, 0.0)


def _hedging(experts: int, contexts: int, problem: Any, steps: int, temperature: float | None) -> Bound:
    return partial(hedging, problem.span, experts, contexts)
