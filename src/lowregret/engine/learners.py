"""Predictors and policies as fallbacks, and ``Recovery`` with a predictor as safe play, for robust predictors."""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..abilities import ability
from ..certificates.bounds import Bound
from ..certificates.promises import After
from ..policies.contract import Policy
from ..predictors import PolyaUrn, Predictor, asked_sequence, said_by, same_states, vouched
from ..problems import DecisionProblem, same_problem
from .fallbacks import Play, Recovering, Recovery, unknown
from .layout import Shapes, Views
from .step import Outcome, Step


class Learner:
    """A predictor or policy whose memory is kept in the rows, as parts ``leaf_0``, ``leaf_1``, ..."""

    def __init__(self, made: Policy | Predictor, setting: Any, role: str) -> None:
        self.made, self.setting, self.xp, self.name = made, setting, setting.xp, type(made).__name__
        self.acts = not hasattr(made, "predict") and isinstance(made, Policy)
        if not setting.has_fixed_payoffs:
            raise ValueError(
                f"{role} {self.name} learns from states under fixed payoffs, and here payoffs change or outcomes are "
                "numbers: Recovery() fits these"
            )
        if not self.acts:
            same_states(made, setting.problem)
            if setting.plays_best:
                raise ValueError(
                    f"{role} {self.name} is a distribution that learns, and the best response to it may lose every "
                    "step: take response=QuantalResponse(), Recovery(), or a policy such as AdaHedge"
                )
        made_for, lasts = getattr(made, "problem", setting.problem), getattr(made, "horizon", None)
        same_problem(f"{role} {self.name} was made for another problem", made_for, setting.problem)
        if lasts is not None and (setting.rounds is None or setting.rounds > lasts):
            steps = "an unknown number of" if setting.rounds is None else setting.rounds
            raise ValueError(f"{role} {self.name} was made for {lasts} steps, the test may run for {steps} steps")
        self.width = setting.outcomes.n_actions if self.acts else setting.outcomes.n_states
        fresh = made.start((1,))
        self.shape_of = [leaf.shape[1:] for leaf in leaves_of(fresh)]
        after = made.update(fresh, np.zeros(1, dtype=np.int64))
        if [leaf.shape[1:] for leaf in leaves_of(after)] != self.shape_of:
            raise ValueError(f"{role} {self.name} keeps a memory that grows with the past: take one such as PolyaUrn")

    def shapes(self) -> Shapes:
        return {f"leaf_{i}": shape for i, shape in enumerate(self.shape_of)}

    def fresh(self, memory: Views) -> Any:
        return self.made.start((memory.leaf_0.shape[0],), like=memory.leaf_0)

    def start(self, memory: Views) -> None:
        self.write(memory, self.fresh(memory))

    def output(self, memory: Views) -> Any:
        """What it predicts ``[N, S]``, or plays ``[N, A]``."""
        held = self.read(memory)
        found = self.made.policy(held) if self.acts else self.made.predict(held)  # type: ignore[union-attr]
        if not vouched(self.made):
            found = said_by(self.made, found, self.width, (memory.leaf_0.shape[0],))
        return self.xp.astype(self.xp.asarray(found), memory.leaf_0.dtype)

    def recorded(self, state_NxT: Any) -> Any:
        """What it predicts or plays at every step of recordings, ``[N, T, S]`` or ``[N, T, A]``."""
        if not self.acts:
            return asked_sequence(self.made, state_NxT)  # type: ignore[arg-type]
        found = self.made.policy_sequence(state_NxT)  # type: ignore[union-attr]
        return found if vouched(self.made) else said_by(self.made, found, self.width, tuple(state_NxT.shape))

    def after(self, memory: Views, state_N: Any) -> Any:
        return self.made.update(self.read(memory), state_N)

    def read(self, memory: Views) -> Any:
        fresh = self.fresh(memory)
        held = [self.xp.astype(getattr(memory, f"leaf_{i}"), leaf.dtype) for i, leaf in enumerate(leaves_of(fresh))]
        return with_leaves(fresh, held)

    def write(self, memory: Views, held: Any, where_N: Any = None) -> None:
        """Keeps what it remembers, of all streams or of some."""
        for i, leaf in enumerate(leaves_of(held)):
            kept = getattr(memory, f"leaf_{i}")
            if where_N is not None:
                leaf = self.xp.where(where_N.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, kept)
            kept[...] = leaf


class FollowLearner(Learner, Play):
    """A policy, or a predictor with a quantal response, that has learned from all states since the first step."""

    takes_scale = False

    def __init__(self, made: Policy | Predictor, setting: Any) -> None:
        super().__init__(made, setting, "fallback")
        # Its own bound is on regret to every action; what is lost to references, or in contexts, is not known.
        plain = not setting.references and setting.n_contexts == 1
        self.regret_after = getattr(made, "regret_after", unknown) if plain else unknown

    def prepare(self, memory: Views, step: Step) -> Step:
        found = self.output(memory)
        if self.acts:
            return step._replace(policy_NxA=found, mixed_NxA=found, mixture_NxS=step.forecast)
        _, played_NxA = self.setting.respond(found, step.payoffs, step.clock_N)
        return step._replace(mixture_NxS=found, mixed_NxA=played_NxA, policy_NxA=played_NxA)

    def update(self, memory: Views, step: Step, outcome: Outcome, seen_NxC: Any) -> None:
        self.write(memory, self.after(memory, outcome.state_N))


class SafePredictor(Learner):
    """A predictor as what ``Recovery`` plays safe.

    All that it plays is the quantal response to a distribution, so that what it states is a predictor again.
    """

    counts_model = False

    def __init__(self, made: Predictor, setting: Any) -> None:
        super().__init__(made, setting, "safe")
        self.experts = setting.outcomes.n_actions
        if self.acts or setting.references or setting.n_contexts > 1:
            raise ValueError(
                f"safe {self.name} must be a predictor, without references and contexts: Recovery() alone "
                "plays safe by Hedge over all comparators"
            )

    def instead(self, memory: Views, step: Step, is_safe_N: Any, mixture_NxS: Any, mixed_NxA: Any) -> tuple[Any, ...]:
        believed_NxS = self.xp.where(is_safe_N[:, None], self.output(memory), mixture_NxS)
        _, answer_NxA = self.setting.respond(believed_NxS, step.payoffs, step.clock_N)
        return believed_NxS, answer_NxA, answer_NxA

    def paid(self, outcome: Outcome) -> Any:
        return outcome.paid_NxA

    def update(self, memory: Views, step: Step, outcome: Outcome, paid_NxX: Any, goes_on_N: Any) -> None:
        after = self.after(memory, outcome.state_N)
        self.start(memory)
        self.write(memory, after, goes_on_N)

    def regret_after(self, made: Recovery, setting: Any) -> After:
        return PredictorRecoveryBound(setting.rounds, setting.temperature, made.budget, made.safe).after


class PredictorRecoveryBound(NamedTuple):
    """What recovery with a predictor as safe play may lose (the proof is that of ``fallbacks.py``)."""

    horizon: int | None
    temperature: float | None
    budget: float
    safe: Any

    def after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound | None:
        """The most that is lost in the last n of ``steps``; None where no bound on ``safe`` is known.

        At knots half a percent apart; between them the next larger value, since losses never fall with the steps.
        """
        if math.isinf(self.safe_bound(problem, 1, steps)):
            return None
        J = problem.span
        budget = self.budget * math.sqrt(steps if self.horizon is None else self.horizon)
        knots_M = np.unique(np.ceil(np.append(np.geomspace(1, steps, 1 + math.ceil(math.log(steps) * 200)), steps)))

        @cache
        def most(at: int) -> float:
            n = int(knots_M[at])
            return min(n * J, budget * J + J + self.safe_bound(problem, max(n - math.ceil(budget), 0), steps))

        return lambda n: np.minimum([most(int(at)) for at in np.searchsorted(knots_M, np.atleast_1d(n))], J * n)

    def safe_bound(self, problem: DecisionProblem, steps: int, until: int) -> float:
        """F: the most that safe play begun afresh loses in so many steps, the last of which is ``until``."""
        if steps == 0:
            return 0.0
        temperature = self.temperature
        if temperature is None:
            # The rate 1/(temperature_t (n + m)) of an urn begun late falls with n, so Lemma 2.3's proof goes through
            # with the temperature of the last step; of other predictors under a schedule nothing is known.
            if not isinstance(self.safe, PolyaUrn) or self.safe.prior > 2:
                return math.inf
            temperature = float(problem.anytime_temperature(until))
        bound = ability(self.safe, "regret_bound")
        average = None if bound is None else bound(problem, steps, temperature)
        return math.inf if average is None else float(steps * average)


def play_of(fallback: Any, setting: Any) -> Play:
    """A fallback at work in a setting."""
    if isinstance(fallback, (Policy, Predictor)):
        return FollowLearner(fallback, setting)
    if isinstance(fallback, Recovery) and fallback.safe is not None:
        return Recovering(fallback, setting, SafePredictor(fallback.safe, setting))
    found: Play = fallback.play(setting)
    return found


def leaves_of(memory: Any) -> list[Any]:
    """The arrays of a memory, in their order."""
    return [leaf for part in memory for leaf in leaves_of(part)] if isinstance(memory, tuple) else [memory]


def with_leaves(memory: Any, leaves: list[Any]) -> Any:
    """A memory of the same form with these arrays; they are taken from the list."""
    if not isinstance(memory, tuple):
        return leaves.pop(0)
    parts = [with_leaves(part, leaves) for part in memory]
    return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)
