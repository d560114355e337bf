"""Algorithm 1 with Theorem 3.1's rule, from above: a dynamic programme over counts that carries two-sided gaps."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import first, last, mix
from ..policies import Policy, Respond
from ..regret import external_regret
from ..robust import Robust
from ..rules import RegretGap
from .counts import Lattice, least, policy_of_counts

LARGEST_TABLE = 2**26  # counts over all steps: four bytes each, to find the way back
_ROUNDING = 1e-9  # a gap this close to the threshold may fall on either side of it


def watched_by_gap(actor: Policy) -> Robust | None:
    """The robust predictor behind the player, if this programme bounds it; None if not."""
    robust = actor.predictor if isinstance(actor, Respond) else None
    if not isinstance(robust, Robust) or not isinstance(robust.rule, RegretGap):
        return None
    as_watched = actor.problem == robust.rule.problem and actor.temperature == robust.rule.temperature  # type: ignore[attr-defined]
    by_counts = all(hasattr(p, "law_of_counts") for p in (robust.base, robust.rule.fallback))
    return robust if as_watched and by_counts else None


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
    ways: dict[str, np.ndarray] = field(default_factory=dict)  # by which state each of these was reached

    @property
    def base_at_least(self) -> np.ndarray:
        """The base has earned what the fallback would have, less the gap: that bounds it too."""
        return np.maximum(self.base, self.fallback - self.gap_high)


def worst_two_sided(actor: Policy, robust: Robust, horizon: int) -> tuple[float, np.ndarray, float]:
    """An upper bound on the average regret over all sequences, and a bad sequence with its regret.

    Before the switch the player earns what the base's response earns, and the rule watches the gap G_t. For given
    counts the programme knows the least and the greatest gap and forgets which are attained in between, so it may
    think of pasts that do not exist: the value is a bound from above, the sequence behind it one from below.
    """
    problem, lattice = actor.problem, Lattice(actor.problem.n_states, horizon)
    responses = [
        policy_of_counts(Respond(p, problem, robust.rule.temperature)) for p in (robust.base, robust.rule.fallback)
    ]
    zero, never = np.zeros(1), np.full(1, math.inf)
    level, ways = _Level(zero, zero, zero, zero, never), []
    for t in range(horizon):
        counts = last(lattice.counts(t))
        base_SxN, fallback_SxN = (mix(problem.utility.T, first(response(counts))) for response in responses)  # type: ignore[misc]
        # A trip after the last token changes nothing, nor does one where nothing is at stake.
        watched = t + 1 < horizon and problem.span > 0
        threshold = float(robust.rule.threshold(np.float64(t + 1))) if watched else math.inf
        level = _advance(level, lattice, t, base_SxN, fallback_SxN, threshold)
        ways.append(level.ways)
    best_N = mix(problem.utility, lattice.counts(horizon).astype(np.float64)).max(axis=0)
    kept_N, switched_N = best_N - level.base_at_least, best_N - level.own
    upper = float(max(kept_N.max(), switched_N.max())) / horizon
    tries = [_retrace(lattice, ways, way, int(kept_N.argmax())) for way in ("gap_low", "base")]
    if np.isfinite(switched_N.max()):
        tries.append(_retrace(lattice, ways, "own", int(switched_N.argmax())))
    tokens_NxT = np.stack(tries)
    regret_N = external_regret(problem, actor, tokens_NxT)[:, -1]
    return upper, tokens_NxT[int(regret_N.argmax())], float(regret_N.max())


def _advance(
    level: _Level, lattice: Lattice, t: int, base_SxN: np.ndarray, fallback_SxN: np.ndarray, threshold: float
) -> _Level:
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
    return _Level(**values, ways={name: way for name, (_, way) in found.items() if name != "fallback"})


def _retrace(lattice: Lattice, ways: list[dict[str, np.ndarray]], way: str, index: int) -> np.ndarray:
    """The tokens behind a value. Before the switch, the past with the greatest gap: it is the one that trips."""
    tokens, S = np.empty(len(ways), dtype=np.int64), lattice.n_states
    for t in range(len(ways) - 1, -1, -1):
        choice = int(ways[t][way][index])
        tokens[t], way = choice % S, "gap_high" if choice >= S else way
        index = lattice.before(int(tokens[t]), index)
    return tokens
