"""Sequences drawn from predictors, and predictors that carry their memory along."""

from typing import Any

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import Array, beside, device, first, float_type, namespace, running_sum, total
from ..memory import restored, saved
from .contract import Predictor, a_predictor, asked


def draw(probs: Array, uniforms: Array) -> Array:
    """Tokens ``[...]`` drawn from ``probs[..., S]`` through their running sums; probability 0 is never drawn."""
    xp = namespace(probs)
    cdf_S = first(running_sum(probs))
    scaled = uniforms * cdf_S[-1]
    if len(cdf_S) == 1:
        return xp.zeros_like(scaled, dtype=xp.int64)
    return total([xp.astype(scaled >= edge, xp.int64) for edge in cdf_S[:-1]])


def drawn(probs: list[float], uniform: Any) -> int:
    """``draw`` for one distribution in plain Python numbers: a short array takes ten times as long."""
    scaled, below, state = float(uniform) * sum(probs), 0.0, 0
    for chance in probs[:-1]:
        below += chance
        state += scaled >= below
    return state


def within_window(predictor: Any, horizon: int, name: str = "predictor") -> None:
    """Refuse more steps than the predictor has a context for; one without a context goes on for ever."""
    context = ability(predictor, "context")
    if context is not None and horizon > context:
        raise ValueError(f"{name} has a context of {context} tokens: horizon must be at most that, got {horizon}")


def sample(
    predictor: Predictor, horizon: int, n: int, seed: int | np.random.Generator, *, like: Array | None = None
) -> Array:
    """``n`` sequences of length ``horizon`` from the predictor's own distribution: ``tokens[n, horizon]``.

    The uniforms behind the tokens come from NumPy, so NumPy and torch predictors draw the same sequences.

    Parameters
    ----------
    like
        An array: the sequences are drawn as its kind and on its device. Without one the predictor answers in its own.

    >>> from lowregret.predictors import Scheduled
    >>> sample(Scheduled([[0.0, 1.0], [1.0, 0.0]]), horizon=3, n=2, seed=0).tolist()
    [[1, 0, 0], [1, 0, 0]]
    """
    a_predictor(predictor)
    horizon, n = inputs.whole(horizon, "horizon"), inputs.whole(n, "n", least=0)
    within_window(predictor, horizon)
    uniforms_Txn = inputs.generator(seed).random((n, horizon)).T
    memory, grown = predictor.start((n,), like=like), ability(predictor, "advance", predictor.update)
    probs = asked(predictor, memory, (n,))
    xp, where = namespace(probs), device(probs)
    dtype = float_type(xp, where)
    uniforms_Txn = xp.asarray(np.ascontiguousarray(uniforms_Txn), dtype=dtype, device=where)
    states = [draw(xp.astype(probs, dtype), uniforms_Txn[0])]
    for t in range(1, horizon):
        memory = grown(memory, states[-1])
        states.append(draw(xp.astype(asked(predictor, memory, (n,)), dtype), uniforms_Txn[t]))
    return beside(xp.stack(states, axis=-1), like)


class Stream:
    """A predictor together with its memory, for one live sequence (or one batch of them).

    >>> from lowregret import PolyaUrn
    >>> stream = Stream(PolyaUrn(2))
    >>> stream.update(1)
    >>> stream.predict().round(3).tolist()
    [0.333, 0.667]
    """

    def __init__(self, predictor: Predictor, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> None:
        self.predictor = a_predictor(predictor)
        self._shape = inputs.batch_shape_of(batch_shape)
        self._fresh = self._memory = predictor.start(self._shape, like=like)

    @property
    def memory(self) -> Any:
        """What it remembers now: a value, never to be changed in place."""
        return self._memory

    def predict(self) -> Array:
        """The distribution of the next token."""
        return asked(self.predictor, self._memory, self._shape)

    def update(self, token: Array) -> None:
        """Take in one token."""
        self._memory = self.predictor.update(self._memory, token)

    @property
    def shares(self) -> Array:
        """How much of each model is in the current prediction, ``[..., N]``: for a mixture, or one made robust."""
        shares = ability(self.predictor, "shares")
        if shares is None:
            name = type(self.predictor).__name__
            raise ValueError(f"shares needs a predictor made of models, such as Mixture, got {name}")
        return shares(self._memory)

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as finite JSON numbers."""
        return {"format": 1, "memory": saved(self._memory)}

    def load_state_dict(self, d: dict[str, Any]) -> None:
        """Continue where ``state_dict`` left off."""
        if not isinstance(d, dict) or d.get("format") != 1 or "memory" not in d:
            raise ValueError("state_dict must be what Stream.state_dict returned (format 1)")
        self._memory = restored(self._fresh, d["memory"], fresh=True)
