"""Where a guard's actions are drawn from: numbers of its own for every seed, every step and every guard."""

from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from ..rules import Rule


class Draws:
    """The draws of one guard, set apart from those of guards made otherwise.

    Numbers that are only put side by side as a seed can collide, with the next step's or with ``default_rng(seed)``
    itself, from which a world may have been drawn: these are digests of all that they depend on.
    """

    def __init__(self, rule: Rule, batch_shape: tuple[int, ...]) -> None:
        self._rule, self.batch_shape = rule, batch_shape

    @cached_property
    def _salt(self) -> str:
        rule, problem = self._rule, self._rule.problem
        if rule.of_numbers:
            utility = repr((problem.actions, problem.low, problem.high)).encode()  # type: ignore[union-attr]
        else:
            utility = b"" if problem is None else problem.utility.tobytes()
        made = (type(rule).__name__, rule.horizon, rule.n_states, self.batch_shape)
        return blake2b(utility + repr(made).encode(), digest_size=16).hexdigest()

    def uniforms(self, seed: int, clock: int) -> Any:
        """Those of all streams for the step after ``clock`` observations, ``[...]``."""
        return uniforms_of(self._salt, seed, clock, self.batch_shape)


def uniforms_of(salt: str, seed: int, clock: int, shape: tuple[int, ...]) -> Any:
    """Numbers of their own for each of these, from 0 up to 1."""
    words = f"lowregret.Guard.act {salt} {seed:x} {clock:x}"
    digest = blake2b(words.encode(), digest_size=16).digest()
    if shape == ():
        return (int.from_bytes(digest[:8]) >> 11) / (1 << 53)  # a generator would take longer than all the rest
    return np.random.default_rng(int.from_bytes(digest)).random(shape)
