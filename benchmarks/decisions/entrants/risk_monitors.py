"""Monitors with a promise of their own: of a risk, of exchangeability, of calibration; then our ``Recovery``.

All are for outcomes that come at once; each is at a level of .05 for the whole run, under what it takes for granted.
"""

import zlib
from functools import cache, partial
from typing import Any

import numpy as np

from ..cells import Scene
from ..monitored import LEAST, Recovers, monitored
from . import Entry

REFERENCE = 100  # outcomes at first from which the risk monitor learns what is usual
LEVEL = 0.05
MOST = 1e300
JUMPERS = np.array([-1.0, 0.0, 1.0])  # what each of its bettors takes to be the slope of p-values' density


def seeds_of(laws_RxS: np.ndarray, states_R: np.ndarray) -> list[int]:
    """A seed for each cell, of its first law and state: whatever is played beside it, its draws are the same."""
    return [zlib.crc32(law_S.tobytes() + bytes([state])) for law_S, state in zip(laws_RxS, states_R, strict=True)]


def scrambled(number_R: np.ndarray) -> np.ndarray:
    """Another 64-bit number for each (SplitMix64: Steele, Lea and Flood 2014)."""
    number_R = number_R + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number_R = (number_R ^ (number_R >> np.uint64(shift))) * np.uint64(factor)
    return number_R ^ (number_R >> np.uint64(31))


def uniform(number_R: np.ndarray) -> np.ndarray:
    return (scrambled(number_R) >> np.uint64(11)) * 2.0**-53


class RiskMonitor:
    """MAPIE's ``RiskMonitoring``: an alarm where a lower bound of the risk is above an upper bound of what it was.

    The risk is whether anything was lost (the library takes no other numbers than 0 and 1), the reference the first
    outcomes. It goes over all outcomes again with each new one; here its own bound is read off a curve through 400
    points of it.
    """

    def __init__(self, scene: Scene, tolerance: float = 0.05) -> None:
        from mapie.exchangeability_testing.bounds import hoeffding_bound

        self.level, self.tolerance = LEVEL / 2, tolerance
        self.upper: Any = hoeffding_bound
        self.boundary = boundary(self.level, scene.T)
        self.seen, self.first_RxT = 0, np.zeros((scene.R, REFERENCE))
        self.total_R, self.mean_R, self.variance_R = np.zeros(scene.R), np.full(scene.R, 0.5), np.zeros(scene.R)
        self.lower_R, self.threshold_R = np.zeros(scene.R), np.full(scene.R, np.inf)

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        risk_R = (loss_R > LEAST).astype(float)
        self.seen += 1
        if self.seen <= REFERENCE:
            self.first_RxT[:, self.seen - 1] = risk_R
            if self.seen == REFERENCE:
                usual = [self.upper(one_T, self.level) for one_T in self.first_RxT]
                self.threshold_R = np.array(usual) + self.tolerance
            return np.zeros(len(loss_R), dtype=bool)
        n, was_R = self.seen - REFERENCE, self.lower_R > self.threshold_R
        self.total_R += risk_R
        self.variance_R += (risk_R - self.mean_R) ** 2
        self.mean_R = self.total_R / n
        self.lower_R = np.maximum(self.lower_R, self.mean_R - self.boundary(np.sqrt(self.variance_R)) / n)
        return (self.lower_R > self.threshold_R) & ~was_R


@cache
def boundary(level: float, T: int) -> Any:
    """MAPIE's gamma-exponential mixture bound, of the root of the variance summed so far."""
    from mapie.exchangeability_testing.bounds import GammaExponentialMixtureBound
    from scipy.interpolate import CubicSpline

    bound, roots = GammaExponentialMixtureBound(v_opt=1, c=1, alpha_opt=level / 2), np.linspace(0, T**0.5, 400)
    return CubicSpline(roots, [bound(v=root**2, alpha=level / 2) for root in roots])


class ExchangeabilityMartingale:
    """MAPIE's ``OnlineMartingaleTest`` as it is by default, in all cells at once: the simple jumper of Vovk.

    Conformity scores are 1 - p(state), its own for classifiers, or the loss: those of a model that is right are
    exchangeable only where its laws are. It says nothing before ``burn_in`` outcomes.
    """

    def __init__(self, scene: Scene, jump_size: float = 0.01, loss: bool = False, burn_in: int = 100) -> None:
        self.jump, self.loss, self.burn_in, self.T = jump_size, loss, burn_in, scene.T
        self.seen, self.above_R = 0, np.zeros(scene.R, dtype=bool)
        self.past_RxT, self.wealth_Rx3 = np.empty((scene.R, scene.T)), np.full((scene.R, 3), 1 / 3)

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        score_R = loss_R if self.loss else 1 - laws_RxS[np.arange(len(states_R)), states_R]
        if self.seen == 0:  # the library draws two numbers for the first outcome, of which it uses the second
            rngs = map(np.random.default_rng, seeds_of(laws_RxS, states_R))
            self.draws_RxT = np.stack([rng.random(self.T + 1)[1:] for rng in rngs])
        past_RxT, score_Rx1 = self.past_RxT[:, : self.seen], score_R[:, None]
        ties_R = 1 + (past_RxT == score_Rx1).sum(axis=1)
        p_R = ((past_RxT > score_Rx1).sum(axis=1) + self.draws_RxT[:, self.seen] * ties_R) / (self.seen + 1.0)
        self.past_RxT[:, self.seen] = score_R
        self.seen += 1
        mixed_Rx3 = (1 - self.jump) * self.wealth_Rx3 + self.jump / 3 * self.wealth_Rx3.sum(axis=1, keepdims=True)
        self.wealth_Rx3 = np.minimum(mixed_Rx3 * (1 + JUMPERS * (p_R[:, None] - 0.5)), MOST)
        self.above_R = self.above_R | (self.wealth_Rx3.sum(axis=1) > 1 / LEVEL)
        return self.above_R & (self.seen >= self.burn_in)


class PitMonitor:
    """PITMonitor of Farran (arXiv 2603.13156), from its paper: whether probability integral transforms change.

    Each transform's rank among all so far, made uniform by a draw, is bet on by a histogram of those before, begun with
    one in every bin: e = B c_b / sum(c). The mixture over starts s at weights 1 / (s (s+1)) is M <- e (M + w); the
    alarm sounds at M >= 20. Stable transforms are never unusual to it, however wrong the model is.

    Ours: the transform of a discrete state is randomised, F(s - 1) + V p(s), and draws are by cell. ``ranks=False``
    bets on the transforms themselves, so against the model's being right, and hears it when it was never so.
    """

    def __init__(self, scene: Scene, bins: int = 100, ranks: bool = True) -> None:
        self.ranks, self.seen, self.wealth_R = ranks, 0, np.zeros(scene.R)
        self.counts_RxB, self.past_RxT = np.ones((scene.R, bins)), np.empty((scene.R, scene.T))
        self.digest_R = np.zeros(scene.R, dtype=np.uint64)  # of all that came before

    def draws(self) -> tuple[np.ndarray, np.ndarray]:
        """Two numbers in [0, 1) for each cell, by what came in it before: cells have draws of their own."""
        return uniform(self.digest_R), uniform(~self.digest_R)

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        if self.seen == 0:
            self.digest_R = np.array(seeds_of(laws_RxS, 0 * states_R), dtype=np.uint64)
        (V_R, W_R), cells, B = self.draws(), np.arange(len(states_R)), self.counts_RxB.shape[1]
        self.digest_R = scrambled(self.digest_R + states_R.astype(np.uint64))
        own_R = laws_RxS[cells, states_R]
        pit_R = laws_RxS.cumsum(axis=1)[cells, states_R] - own_R * (1 - V_R)
        below_R = (self.past_RxT[:, : self.seen] < pit_R[:, None]).sum(axis=1)
        self.past_RxT[:, self.seen] = pit_R
        self.seen += 1
        p_R = (below_R + W_R) / self.seen if self.ranks else pit_R
        bin_R = np.minimum((p_R * B).astype(int), B - 1)
        e_R = self.counts_RxB[cells, bin_R] * B / (B + self.seen - 1)
        self.wealth_R = np.minimum(e_R * (self.wealth_R + 1 / (self.seen * (self.seen + 1))), MOST)
        self.counts_RxB[cells, bin_R] += 1
        return self.wealth_R >= 1 / LEVEL


BINS: tuple[dict[str, Any], ...] = ({}, {"bins": 20}, {"bins": 10}, {"bins": 5})
ALARM = "P(false alarm) <= .05"

ENTRANTS = {
    "MAPIE risk monitor, then Recovery": Entry(
        partial(monitored, RiskMonitor, Recovers),
        ({}, {"tolerance": 0.02}, {"tolerance": 0.0}),
        promise=f"{ALARM} where the risk is no higher than in the first {REFERENCE} steps",
        needs="mapie",
    ),
    "MAPIE exchangeability martingale, then Recovery": Entry(
        partial(monitored, ExchangeabilityMartingale, Recovers),
        ({}, {"jump_size": 0.001}, {"jump_size": 0.1}, {"loss": True}),
        promise=f"{ALARM} where scores are exchangeable",
    ),
    "PIT monitor (after arXiv 2603.13156), then Recovery": Entry(
        partial(monitored, PitMonitor, Recovers), BINS, promise=ALARM
    ),
    "PIT monitor against uniform, then Recovery": Entry(
        partial(monitored, partial(PitMonitor, ranks=False), Recovers), BINS, promise=ALARM
    ),
}
