"""Where a guard's actions are drawn from: a generator of its own for every seed, every step and every guard."""

from functools import cached_property
from hashlib import blake2b

import numpy as np

from ..rules import Rule


class Draws:
    """The generators of one guard, set apart from those of guards made otherwise.

    Numbers that are only put side by side as a seed can collide, with the next step's or with ``default_rng(seed)``
    itself, from which a world may have been drawn: these are digests of all that they depend on.
    """

    def __init__(self, rule: Rule, batch_shape: tuple[int, ...]) -> None:
        self._rule, self.batch_shape = rule, batch_shape

    @cached_property
    def _salt(self) -> str:
        rule, utility = self._rule, b"" if self._rule.problem is None else self._rule.problem.utility.tobytes()
        made = (type(rule).__name__, rule.horizon, rule.n_states, self.batch_shape)
        return blake2b(utility + repr(made).encode(), digest_size=16).hexdigest()

    def generator(self, seed: int, clock: int) -> np.random.Generator:
        """For the step after ``clock`` observations."""
        return generator_of(self._salt, seed, clock)


def salt_of(made_for: str) -> str:
    """What sets apart the generators of guards made otherwise."""
    return blake2b(made_for.encode(), digest_size=16).hexdigest()


def generator_of(salt: str, seed: int, clock: int) -> np.random.Generator:
    """A generator of its own for each of these."""
    words = f"lowregret.Guard.act {salt} {seed:x} {clock:x}"
    return np.random.default_rng(int.from_bytes(blake2b(words.encode(), digest_size=16).digest()))
