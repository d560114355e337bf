"""Algorithm 1 with Theorem 3.1's test, bounded from above: a dynamic programme over counts with two-sided gaps."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowregret.arrays import first, last, mix
from lowregret.certificates import by_counts
from lowregret.certificates.by_counts import Lattice, least
from lowregret.evaluate import external_regret
from lowregret.evaluate.adversaries import Worst
from lowregret.robust import Robust
from lowregret.rules.regret_gap import GapWatch

LARGEST_TABLE = 40_000_000  # counts over all steps: twenty bytes each, to find the way back
_ROUNDING = 1e-9  # a gap this close to the threshold may fall on either side of it


@dataclass
class _Level:
    """What is known of all pasts with given counts, one entry a point of the lattice (infinite: there are none)."""

    # Of those in which the rule has not tripped:
    gap_low: np.ndarray  # the least gap G_t
    gap_high: np.ndarray  # the greatest
    base: np.ndarray  # what the base's response has earned, at least
    fallback: np.ndarray  # what the fallback's would have, at least
    # Of those in which it has:
    own: np.ndarray  # what the player has earned, at least

    @property
    def base_at_least(self) -> np.ndarray:
        """The base has earned what the fallback would have, less the gap: that bounds it too."""
        return np.maximum(self.base, self.fallback - self.gap_high)


class _Trail(NamedTuple):
    """What is kept of a level: the gaps, and by which state each of its values was reached."""

    gap_low: np.ndarray
    gap_high: np.ndarray
    ways: dict[str, np.ndarray]


class _Responses:
    """What the two responses earn, by the counts on which they are made."""

    def __init__(self, robust: Robust) -> None:
        assert robust.problem is not None
        self.problem = robust.problem
        predictors = (robust.base, robust.setting.fallback)
        self._policies = [by_counts.policy_of_counts(p, self.problem, robust.temperature) for p in predictors]

    def earned(self, counts_SxN: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In every state ``[S, N]``, by the response to the base and by the one to the fallback."""
        base, fallback = (mix(self.problem.utility.T, first(p(last(counts_SxN)))) for p in self._policies)  # type: ignore[misc]
        return base, fallback


def worst_two_sided(robust: Robust, horizon: int) -> Worst:
    """A bad sequence for a predictor with a ``RegretGap`` test, and a bound from above on the average regret on all.

    The base and the fallback must depend on counts alone. The worst case is exact where the sequence attains the bound.

    Before the switch the player earns what the base's response earns, and the rule watches the gap G_t. For given
    counts the programme knows the least and the greatest gap and forgets which are attained in between, so it may
    think of pasts that do not exist: the value is a bound from above, the sequence behind it one from below.
    """
    if by_counts.table_size(robust.n_states, horizon) > LARGEST_TABLE:
        raise ValueError(f"horizon must be shorter: {horizon} steps take a table that is too large")
    stakes, actor = _Responses(robust), robust.respond()
    problem, lattice = stakes.problem, Lattice(robust.n_states, horizon)
    watch = robust.setting.watch
    assert isinstance(watch, GapWatch)
    zero, never = np.zeros(1), np.full(1, math.inf)
    level, thresholds = _Level(zero, zero, zero, zero, never), []
    trail = [_Trail(zero, zero, {})]
    for t in range(horizon):
        # A trip after the last token changes nothing, nor does one where nothing is at stake.
        watched = t + 1 < horizon and problem.span > 0
        thresholds.append(float(watch.threshold_at(np.float64(t + 1))) if watched else math.inf)
        level, ways = _advance(level, lattice, t, *stakes.earned(lattice.counts(t)), thresholds[-1])
        trail.append(_Trail(level.gap_low, level.gap_high, ways))
    best_N = mix(problem.utility, lattice.counts(horizon).astype(np.float64)).max(axis=0)
    kept_N, switched_N = best_N - level.base_at_least, best_N - level.own
    upper = float(max(kept_N.max(), switched_N.max())) / horizon
    tries = [_retrace(trail, lattice, stakes, thresholds, way, int(kept_N.argmax())) for way in ("gap_low", "base")]
    if np.isfinite(switched_N.max()):
        tries.append(_retrace(trail, lattice, stakes, thresholds, "own", int(switched_N.argmax())))
    tokens_NxT = np.stack(tries)
    regret_N = external_regret(problem, actor, tokens_NxT)[:, -1]
    worst = int(regret_N.argmax())
    exact = bool(regret_N[worst] >= upper - _ROUNDING)
    return Worst(tokens_NxT[worst], float(regret_N[worst]), exact, upper, "two-sided")


def _advance(
    level: _Level, lattice: Lattice, t: int, base_SxN: np.ndarray, fallback_SxN: np.ndarray, threshold: float
) -> tuple[_Level, dict[str, np.ndarray]]:
    """One more token: pasts stay below the threshold, or reach it and switch, or had switched before."""
    paths: dict[str, list[np.ndarray]] = {"gap_low": [], "gap_high": [], "base": [], "fallback": [], "own": []}
    switching = []
    for s, (base, fallback) in enumerate(zip(base_SxN, fallback_SxN, strict=True)):
        low, high = level.gap_low + (fallback - base), level.gap_high + (fallback - base)
        stays, trips = low < threshold + _ROUNDING, high >= threshold - _ROUNDING
        earned = level.base_at_least + base

        def moved(values: np.ndarray, allowed: Any = True, s: int = s) -> np.ndarray:
            return lattice.moved(np.where(allowed, values, math.inf), s, t, math.inf)

        paths["gap_low"].append(moved(low, stays))
        paths["gap_high"].append(moved(-np.minimum(high, threshold), stays))
        paths["base"].append(moved(earned, stays))
        paths["fallback"].append(moved(level.fallback + fallback, stays))
        paths["own"].append(moved(level.own + fallback))
        switching.append(moved(earned, trips))
    paths["own"] += switching  # choices S .. 2S - 1: it is this token that trips the rule
    found = {name: least(path) for name, path in paths.items()}
    values = {name: value for name, (value, _) in found.items()}
    values["gap_high"] = -values["gap_high"]
    return _Level(**values), {name: found[name][1] for name in ("gap_low", "base", "own")}


def _retrace(
    trail: list[_Trail], lattice: Lattice, stakes: _Responses, thresholds: list[float], way: str, index: int
) -> np.ndarray:
    """The tokens behind a value: back along its choices, and before the switch along gaps that lead up to it."""
    S, horizon, gap = lattice.n_states, len(thresholds), None
    tokens, counts_S = np.empty(horizon, dtype=np.int64), lattice.counts(horizon)[:, index].copy()
    for t in range(horizon - 1, -1, -1):
        before = [lattice.before(s, index) if counts_S[s] else 0 for s in range(S)]
        past_SxS = counts_S[:, None] - np.eye(S, dtype=np.int64)  # one column for each state that may have come last
        base_SxS, fallback_SxS = stakes.earned(np.maximum(past_SxS, 0))
        gain_S = np.diagonal(fallback_SxS - base_SxS)
        low_S, high_S = trail[t].gap_low[before], trail[t].gap_high[before]
        if gap is None:
            choice = int(trail[t + 1].ways[way][index])
            last_token = choice % S
            if choice >= S:  # here it switched: aim at the middle of the gaps that make it
                least_gap = max(low_S[last_token], thresholds[t] - gain_S[last_token])
                gap = (least_gap + high_S[last_token]) / 2
        else:  # the gap was well inside what these counts allow
            room_S = np.minimum(gap - gain_S - low_S, high_S - (gap - gain_S))
            last_token = int(np.where(counts_S > 0, room_S, -math.inf).argmax())
            gap -= float(gain_S[last_token])
        tokens[t], index = last_token, before[last_token]
        counts_S[last_token] -= 1
    return tokens
