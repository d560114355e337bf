"""The Bayesian mixture of predictors: close to the best of them in log loss, which bounds no regret at all."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import Array, astype, constant, in_float64, last, namespace, pick, running_sum, softmax, total
from .contract import Predictor, asked, asked_sequence, has_states

_EXCLUDED = -1e30  # the log weight of a predictor that excluded a token: finite, so that it can be written down


class MixtureMemory(NamedTuple):
    parts: tuple[Any, ...]  # the memory of each predictor
    probs: Array  # [..., N, S], what each predicts now: it is asked once a step
    log_weights: Array  # [..., N]


@dataclass(frozen=True)
class Mixture(Predictor):
    """The Bayesian mixture: each predictor's weight is its prior weight times how likely it made the tokens so far.

    Its log loss is never more than ln(1/weight) above that of any of the predictors, ln N for equal weights. If the
    world is as one of them says, its weight is also how close the mixture is: TV <= 1 - weight, without any test. Log
    loss is not what is at stake, however: a predictor that is a little wrong wherever it matters and right wherever it
    does not keeps all the weight, and the regret of responses to it grows with every step.

    Parameters
    ----------
    predictors
        Over the same states.
    weights
        Positive, with sum one; equal by default.

    A token that every predictor with any weight excluded leaves the weights as they were.

    >>> from lowregret import PolyaUrn
    >>> from lowregret.predictors import Scheduled
    >>> mixture = Mixture([Scheduled([[0.9, 0.1]]), PolyaUrn(2)], weights=[0.99, 0.01])
    >>> mixture.predict_sequence([1] * 30)[[0, 1, -1], 1].round(3).tolist()
    [0.104, 0.127, 0.968]
    """

    predictors: tuple[Predictor, ...]
    weights: tuple[float, ...] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        parts, N = tuple(self.predictors), len(self.predictors)
        if not N:
            raise ValueError("predictors must be a list of at least one Predictor, got none")
        for part in parts:
            has_states(part, parts[0].n_states, "first of the predictors")
        weights = np.full(N, 1 / N) if self.weights is None else inputs.numbers_of(self.weights, "weights", "numbers")
        if not (inputs.probs_of(weights, N, "weights", shape=()) > 0).all():
            raise ValueError(f"weights must be positive, got {weights.tolist()}: leave out what has none")
        inputs.keep(self, predictors=parts, weights=tuple(weights.tolist()))

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.predictors[0].n_states

    @property
    def context(self) -> int | None:
        """The shortest context of the predictors; None where none has one."""
        contexts = [ability(part, "context") for part in self.predictors]
        return min((n for n in contexts if n is not None), default=None)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> MixtureMemory:
        shape = inputs.batch_shape_of(batch_shape)
        parts = tuple(part.start(shape, like=like) for part in self.predictors)
        probs = self._asked(parts, shape)
        kin = next((each for each in probs if namespace(each) is not np), None)
        if like is None and kin is not None:  # a torch model answers in tensors: all of the mixture is made of them
            return self.start(shape, like=kin)
        probs = self._stacked(probs)
        none = in_float64(probs[..., 0]) * 0
        return MixtureMemory(parts, probs, none + constant(np.log(self.weights), probs))

    def predict(self, memory: MixtureMemory) -> Array:
        mixed = namespace(memory.probs).sum(in_float64(memory.probs) * self.shares(memory)[..., None], axis=-2)
        return astype(mixed, memory.probs.dtype)

    def update(self, memory: MixtureMemory, token: Array) -> MixtureMemory:
        shape, xp = tuple(memory.log_weights.shape[:-1]), namespace(memory.log_weights)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.log_weights)
        parts = tuple(p.update(m, token) for p, m in zip(self.predictors, memory.parts, strict=True))
        likely_N = pick(xp.moveaxis(in_float64(memory.probs), -1, 0), token[..., None])
        log_weights = _reweighted(memory.log_weights, likely_N)
        return MixtureMemory(parts, self._stacked(self._asked(parts, shape)), log_weights)

    def shares(self, memory: MixtureMemory) -> Array:
        """The weight of each predictor now, ``[..., N]``."""
        xp = namespace(memory.log_weights)
        return last(softmax(xp.moveaxis(memory.log_weights, -1, 0)))

    def delta_for(self, delta: float) -> float:
        """At which delta to guard the mixture so that each of its models keeps P(switch) <= ``delta``.

        The mixture's distribution is the average of theirs: P(switch) under model i is at most that under the mixture,
        divided by its weight w_i. So delta times the least weight, delta / N for equal ones.
        """
        return inputs.probability(delta, "delta") * min(self.weights)

    def of_models(self, tv_bound: float) -> str:
        """What a bound on the chance of a switch under the mixture implies for each of the models."""
        each = [min(1.0, tv_bound / weight) for weight in self.weights]
        if max(each) - min(each) <= 1e-12:
            return f"Where any one of the {len(each)} models is right, a switch has a chance of at most {each[0]:.3g}."
        most = ", ".join(f"{chance:.3g}" for chance in each)
        return f"Where one of the {len(each)} models is right, a switch has a chance of at most {most}, in their order."

    def laws(self, tokens: Array) -> Array:
        """``predict_sequence`` without its checks; what the predictors predict is checked."""
        probs_NxTxS = self._stacked([asked_sequence(part, tokens) for part in self.predictors])
        xp, mixed = namespace(probs_NxTxS), in_float64(probs_NxTxS)
        likely_N = xp.moveaxis(pick(xp.moveaxis(mixed, -1, 0), tokens[..., None]), -1, 0)  # [N, ..., T]
        weights_N = softmax(self._log_weights(likely_N))
        return astype(total(xp.moveaxis(mixed, -2, 0) * weights_N[..., None]), probs_NxTxS.dtype)

    def _log_weights(self, likely_N: Array) -> Array:
        """ln weights ``[N, ..., T]`` before each token, from how likely each predictor made each of them."""
        xp = namespace(likely_N)
        prior_N = xp.reshape(constant(np.log(self.weights), likely_N), (-1, *(1,) * (likely_N.ndim - 1)))
        if bool((likely_N > 0).all()):
            logs_N = xp.log(likely_N)
            return running_sum(logs_N) - logs_N + prior_N
        # Whether an exclusion counts depends on who was excluded before: step by step.
        weights, found = last(prior_N[..., 0] + 0 * likely_N[..., 0]), []
        for t in range(likely_N.shape[-1]):
            found.append(xp.moveaxis(weights, -1, 0))
            weights = _reweighted(weights, last(likely_N[..., t]))
        return xp.stack(found, axis=-1)

    def _asked(self, parts: tuple[Any, ...], shape: tuple[int, ...]) -> list[Array]:
        return [asked(part, memory, shape) for part, memory in zip(self.predictors, parts, strict=True)]

    @staticmethod
    def _stacked(probs: list[Array]) -> Array:
        """The forecasts side by side, ``[..., N, S]``, in the widest of their precisions."""
        xp = namespace(*probs)
        dtype = xp.result_type(*probs)
        return xp.stack([astype(each, dtype) for each in probs], axis=-2)


def _reweighted(log_weights: Array, likely_N: Array) -> Array:
    """Log weights ``[..., N]`` after a token, by how likely each predictor made it."""
    xp = namespace(likely_N)
    possible = likely_N > 0
    grown = log_weights + xp.log(xp.where(possible, likely_N, xp.ones_like(likely_N)))
    grown = xp.where(possible, grown, xp.zeros_like(grown) + _EXCLUDED)
    best = xp.max(grown, axis=-1, keepdims=True)
    weighed = xp.log(xp.sum(xp.exp(grown - best), axis=-1, keepdims=True)) + best
    after = xp.clip(grown - weighed, _EXCLUDED, None)
    return xp.where(best > _EXCLUDED / 2, after, log_weights)
