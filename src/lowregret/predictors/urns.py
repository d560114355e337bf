"""Urns: that of Equation (1), and a shrunk one, which is Hedge as a forecast, without the log T of Lemma 2.3."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .. import certificates, inputs
from ..arrays import (
    Array,
    astype,
    constant,
    count_up,
    device,
    first,
    float_type,
    in_float64,
    last,
    mix,
    namespace,
    one_hot,
    running_sum,
    total,
)
from ..certificates import every_start
from ..problems import DecisionProblem, a_problem, belief_with_lead
from .contract import Predictor


class UrnMemory(NamedTuple):
    counts: Array  # [..., S], in floating point
    seen: Array  # [...], tokens so far


class Urn(Predictor):
    """What it predicts depends on how often each state came, and on nothing else."""

    @abstractmethod
    def _law(self, counts: Array, seen: Array) -> Array:
        """The distribution of the next token after these counts ``[..., S]`` of ``seen`` tokens ``[...]``."""

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> UrnMemory:
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        counts_S = xp.zeros((self.n_states, *shape), dtype=float_type(xp, where), device=where)
        return UrnMemory(last(counts_S), xp.zeros(shape, dtype=xp.int64, device=where))

    def predict(self, memory: UrnMemory) -> Array:
        return self._law(memory.counts, memory.seen)

    def update(self, memory: UrnMemory, token: Array) -> UrnMemory:
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.seen.shape), like=memory.seen)
        return UrnMemory(memory.counts + last(one_hot(token, self.n_states)), memory.seen + 1)

    def law_of_counts(self, counts: Array) -> Array:
        """The distribution of the next token after these counts of each state, ``[..., S] -> [..., S]``."""
        counts = in_float64(counts)
        return self._law(counts, namespace(counts).sum(counts, axis=-1))


@dataclass(frozen=True)
class PolyaUrn(Urn):
    """Equation (1): the next token is as likely as it was frequent, after ``prior`` sightings of every state.

    Quantal responses to it have low regret on every sequence (Lemma 2.3), which makes it ``robustify``'s safe play.

    >>> urn = PolyaUrn(2)
    >>> urn.predict_sequence([1, 1, 0])[:, 1].round(3).tolist()
    [0.5, 0.667, 0.75]
    """

    n_states: int
    prior: float = 1.0

    def __post_init__(self) -> None:
        n_states, prior = inputs.whole(self.n_states, "n_states"), inputs.positive(self.prior, "prior")
        inputs.keep(self, n_states=n_states, prior=prior)

    def _law(self, counts: Array, seen: Array) -> Array:
        return (counts + self.prior) / (seen + self.n_states * self.prior)[..., None]

    def laws(self, tokens: Array) -> Array:
        """``predict_sequence`` without its checks."""
        xp = namespace(tokens)
        dtype = float_type(xp, device(tokens))
        whole = xp.astype(count_up(tokens, 0, tokens.shape[-1]), dtype) + self.n_states * self.prior
        probs = []
        for count in counts_before(tokens, self.n_states):
            share = xp.astype(count, dtype)
            share += self.prior  # in place: these arrays are the size of the input
            share /= whole
            probs.append(share)
        return last(xp.stack(probs))

    def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> float | None:
        """What quantal responses to the urn lose at most: Lemma 2.3 with its constants (None: no bound is known)."""
        if temperature is None:
            return certificates.urn_anytime(problem, horizon) if self.prior == 1 else None
        return certificates.lemma_2_3(problem, horizon, temperature, self.prior)

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> Any:
        """What quantal responses to it lose at most after an alarm, by the steps that are left."""
        known = temperature is not None or self.prior == 1
        return partial(every_start.urn_after, problem, steps, temperature, self.prior) if known else None


def counts_before(tokens: Array, n_states: int) -> list[Array]:
    """How often each state came before each step, ``[..., T]`` each: as integers, which add up fastest."""
    xp, seen, counts = namespace(tokens), count_up(tokens, 0, tokens.shape[-1]), []
    for state in range(n_states - 1):
        hit = xp.astype(tokens == state, xp.int64)
        counts.append(running_sum(hit) - hit)
    # The last state has what is left.
    return [*counts, seen - total(counts) if counts else xp.broadcast_to(seen, tokens.shape)]


_EQUAL = 1e-11  # utilities under an equaliser differ at most by this


@dataclass(frozen=True)
class ShrunkUrn(Urn):
    """Counts shrunk towards an equaliser nu: mu_t = nu + (c/T) (n_{t-1} - (t-1) nu). Hedge, as a forecast.

    Under nu all actions are worth the same, so the quantal response at temperature eta is Hedge at rate c / (T eta),
    without the logarithm of Lemma 2.3. For c > 1 the formula leaves the simplex late in the game and is clipped, which
    is proved harmless for two actions and for matching; other problems take c <= 1.

    Parameters
    ----------
    problem
        Must have an equaliser (``equaliser(problem)``); without one there are sequences with linear regret.
    horizon
        How many steps it is for.
    c
        sqrt(8 ln A) / J by default, the best for temperature 1/sqrt(horizon), or 1 where it may not exceed 1.

    >>> from lowregret import matching
    >>> ShrunkUrn(matching(), horizon=4, c=1.0).predict_sequence([1, 1, 0])[:, 1].tolist()
    [0.5, 0.625, 0.75]
    """

    problem: DecisionProblem
    horizon: int
    c: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        a_problem(self.problem)
        inputs.keep(self, horizon=inputs.whole(self.horizon, "horizon"))
        nu = equaliser(self.problem)
        if nu is None:
            raise ValueError(
                "problem has no equaliser, a forecast under which all actions are worth the same: the shrunk urn would "
                "have linear regret on some sequence; use PolyaUrn, or a policy such as Hedge or AdaHedge"
            )
        A, J = self.problem.n_actions, self.problem.span
        clips = A == 2 or certificates.bounds.matching_scale(self.problem) is not None
        best = math.sqrt(8 * math.log(A)) / J if A > 1 and J > 0 else 1.0
        c = (best if clips else min(best, 1.0)) if self.c is None else inputs.positive(self.c, "c")
        if c > 1 and not clips:
            raise ValueError(
                f"c must be at most 1 for this problem, got {c:g}: beyond, the urn must be clipped, and no way to clip "
                "it is proved for more than two actions other than matching"
            )
        inputs.keep(self, c=c, _nu=nu)

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.problem.n_states

    def update(self, memory: UrnMemory, token: Array) -> UrnMemory:
        if memory.seen.size and bool((memory.seen >= self.horizon).any()):
            raise ValueError(f"the horizon of {self.horizon} steps is over: this shrunk urn was made for no more")
        return super().update(memory, token)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        if tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the urn's horizon: {tokens.shape[-1]} steps, {self.horizon}")
        xp = namespace(tokens)
        counts = xp.stack([in_float64(count) for count in counts_before(tokens, self.n_states)], axis=-1)
        return self._law(counts, count_up(tokens, 0, tokens.shape[-1]))

    def _law(self, counts: Array, seen: Array) -> Array:
        weight = self.c / self.horizon
        if self.c > 1 and self.problem.n_actions == 2:
            lead = mix(self.problem.advantage, first(counts))[0] * weight
            xp = namespace(lead)
            near = xp.full((self.n_states, *lead.shape), 1 / self.n_states, dtype=lead.dtype, device=device(lead))
            return last(belief_with_lead(self.problem.advantage[0], lead, near))
        nu = constant(self._nu, counts)  # type: ignore[attr-defined]
        probs = nu * (1 - weight * astype(seen, counts.dtype))[..., None] + counts * weight
        return on_simplex(probs) if self.c > 1 else probs

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float | None:
        """What quantal responses at this temperature lose at most; None for other problems, longer runs, schedules."""
        if temperature is None or horizon > self.horizon or problem != self.problem:
            return None
        return certificates.shrunk_urn(problem, horizon, temperature, self.c, self.horizon)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        """What quantal responses to it lose at most after an alarm: those of Hedge, and where it is clipped."""
        if temperature is None or steps > self.horizon or problem != self.problem:
            return None
        own = partial(every_start.hedge_after, problem, self.c / (self.horizon * temperature))
        if self.c <= 1:
            return own
        cost = certificates.bounds.clipping_loss(problem, temperature)
        clipped = max(0, steps - 1 - math.floor(self.horizon / self.c))
        return lambda left_N: own(left_N) + np.minimum(left_N, clipped) * cost


@lru_cache(maxsize=64)
def equaliser(problem: DecisionProblem) -> np.ndarray | None:
    """A forecast under which all actions are worth the same, as near as possible to uniform; None if there is none.

    >>> from lowregret import cost_loss, trading
    >>> equaliser(cost_loss(cost=1, loss=4)).tolist()
    [0.75, 0.25]
    >>> equaliser(trading([-1, 1], fee=0.5)) is None  # whatever comes, half the fees are wasted
    True
    """
    from scipy.optimize import linprog

    S = problem.n_states
    conditions = np.concatenate([problem.advantage, np.ones((1, S))])
    wanted = np.append(np.zeros(problem.n_actions - 1), 1.0)
    uniform = np.full(S, 1 / S)
    uniform.setflags(write=False)
    if np.abs(problem.advantage @ uniform).max(initial=0.0) <= 1e-15:
        return uniform
    # The least r such that some such forecast is within r of uniform, coordinate by coordinate.
    within = np.concatenate([np.eye(S), -np.eye(S)])
    found = linprog(
        np.append(np.zeros(S), 1.0),
        A_ub=np.append(within, -np.ones((2 * S, 1)), axis=1),
        b_ub=np.append(uniform, -uniform),
        A_eq=np.append(conditions, np.zeros((len(conditions), 1)), axis=1),
        b_eq=wanted,
        bounds=[(0, 1)] * S + [(0, 1)],
    )
    if not found.success:
        return None
    # The solver stops at 1e-7: finish on the states it kept, by least squares.
    nu_S = np.where(found.x[:S] > 1e-9, found.x[:S], 0.0)
    kept = nu_S > 0
    nu_S[kept] += np.linalg.lstsq(conditions[:, kept], wanted - conditions @ nu_S, rcond=None)[0]
    if nu_S.min() < -1e-12 or np.abs(conditions @ nu_S - wanted).max() > _EQUAL:
        return None
    nu_S = np.maximum(nu_S, 0.0)
    nu_S.setflags(write=False)
    return nu_S


def on_simplex(points: Array) -> Array:
    """The Euclidean projection of points ``[..., S]`` whose coordinates sum to one onto the probability simplex."""
    xp = namespace(points)
    falling = -xp.sort(-points, axis=-1)
    size = astype(count_up(points, 1, points.shape[-1] + 1), points.dtype)
    # Lower all coordinates by the amount that leaves a sum of one among the k largest, for the k that needs most.
    return xp.clip(points - xp.max((running_sum(falling) - 1) / size, axis=-1, keepdims=True), 0.0, None)
