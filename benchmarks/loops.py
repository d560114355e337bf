"""What a user would write instead: Algorithm 1 for two actions and two states, as plain scalar loops."""

import math
from collections.abc import Sequence


def regret_gap_loop(chances: Sequence[float], tokens: Sequence[int], horizon: int, alpha: float = 1.0) -> int:
    """Theorem 3.1's rule on one sequence of bits; ``chances[t]`` is the model's probability of a 1."""
    exp, sqrt = math.exp, math.sqrt
    rate = sqrt(horizon)
    slope, root = math.log(2) / rate, sqrt(8 * (1 + alpha) * math.log(horizon))
    gap, ones = 0.0, 0
    for seen, (chance, token) in enumerate(zip(chances, tokens, strict=True), start=1):
        base = 1 / (1 + exp(-(2 * chance - 1) * rate))
        urn = 1 / (1 + exp(-(2 * (1 + ones) / (1 + seen) - 1) * rate))
        if token:
            gap += urn - base
            ones += 1
        else:
            gap += base - urn
        if gap >= slope * seen + root * sqrt(seen):
            return seen
    return len(tokens) + 1
