"""Algorithm 3's test: the decision problem is unknown and the states are two. It watches every V-shaped loss on a grid.

    for t = 1, 2, ...:   the model's forecast, or the urn's once the largest V-regret (over the tips v of the grid) of
                         the model has exceeded b(t) = sqrt(2 ln(pi^2 N t^2 / (3 delta)) / t)

A V-shaped loss with tip v is sign(v - p) (y - v): it asks only whether the forecast p is above or below v. Regret in
any two-state problem is a mixture of such regrets, so a forecast that has little of each is safe to act on in all.
The V-regret after t steps has a closed form, with n1 the number of ones,

    (1/t) [ sum_s sign(v - p_s) (y_s - v) + |n1 - t v| ] = (1/t) max_side sum_s (sign(v - p_s) + side) (y_s - v).
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from .. import certificates, inputs
from ..arrays import frozen, some
from ..certificates import Certificate
from ..certificates.promises import WIDEST
from ..engine import Actions
from ..engine.bets import Alarmed
from ..engine.layout import Shapes, Views
from ..engine.step import Outcome, Step
from ..predictors import PolyaUrn
from .quantal_test import QuantalTest, QuantalWatch
from .tips import unit_numbers


@final
@dataclass(frozen=True)
class VRegret(QuantalTest):
    """An alarm once some V-shaped loss on the grid shows that the model is wrong.

    Parameters
    ----------
    delta
        The TV bound; 1/horizon by default.
    tips
        Where the losses bend, numbers in [0, 1]; every 1/horizon by default. The closer, the better the certificate
        for quantal responses; a step costs as much as there are tips.
    test
        "exact": a bet against the model on every tip, side and rate, as in ``ExactTest``. "threshold": the largest
        V-regret against sqrt(2 ln(pi^2 N t^2 / (3 delta)) / t), a union bound over N tips and all t.

    >>> import lowregret as lr
    >>> given = lr.robust.algorithm_1(None, VRegret(horizon=1024)).certificate
    >>> print(f"{given.for_problem(lr.matching()).regret_bound:.4f} {given.tv_bound:.6f}")
    0.2684 0.000977
    """

    horizon: int
    delta: float = None  # type: ignore[assignment]
    tips: Any = None  # kept as a tuple
    test: str = "exact"

    def __post_init__(self) -> None:
        horizon = inputs.whole(self.horizon, "horizon")
        delta = inputs.probability(1 / max(horizon, 2) if self.delta is None else self.delta, "delta")
        test = inputs.choice(self.test, "test", ("exact", "threshold"))
        inputs.keep(self, horizon=horizon, delta=delta, test=test, tips=_grid(self.tips, horizon))

    @property
    def rates_K(self) -> np.ndarray:
        """The betting rates of the exact test, 4 2^-k; none without it."""
        n = certificates.n_rates(self.horizon, self.delta) if self.test == "exact" else 0
        return frozen(certificates.lambda_grid(1.0, n))

    def threshold(self, steps: Any) -> Any:
        """What the largest V-regret, a sum over the steps (not an average), must reach."""
        return certificates.v_threshold(steps, len(self.tips), self.delta) * steps

    def watch(self, setting: Any) -> "VWatch":
        return VWatch(self, setting)

    def certify(self, setting: Any, steps: int | None) -> Certificate | None:
        """What is promised in any problem with two states: ``certificate.for_problem(problem, temperature)``."""
        if setting.against != Actions():
            return None  # proved for fixed actions alone
        theorem, v_regret = "Algorithm 3", self.threshold
        if self.test == "exact":
            log_cost = math.log(2 * len(self.tips) * len(self.rates_K) / self.delta)  # at which one bet alone is enough
            theorem = "Algorithm 3, the exact test"
            v_regret = partial(certificates.v_exact, rates_K=self.rates_K, log_cost=log_cost)
        spacing = float(np.diff(self.tips, prepend=0.0, append=1.0).max())  # 0 and 1 counted among the tips
        passes = partial(certificates.bounds.theorem_c_4, v_regret=v_regret, spacing=spacing)
        promise = self.promise(setting, theorem, passes)
        return replace(promise, for_any_problem=setting.problem == WIDEST).certificate(steps)


class VWatch(QuantalWatch):
    """``VRegret`` at work: the level is ln E_t - ln(1 / delta), or the largest V-regret less its threshold."""

    fresh_level = -1.0

    def __init__(self, test: VRegret, setting: Any) -> None:
        if not isinstance(setting.fallback, PolyaUrn) or setting.outcomes.n_states != 2:
            raise ValueError(
                f"fallback must be a PolyaUrn over two states for VRegret, got {inputs.shown(setting.fallback)}: of no "
                "other is it proved that it is safe in every problem at once"
            )
        super().__init__(test, setting)
        self.test, self.xp = test, setting.xp
        self.tips_V, self.side_2x1 = self.xp.asarray(np.array(test.tips)), self.xp.asarray(np.array([[1.0], [-1.0]]))
        self.sided_2xK = self.side_2x1 * self.xp.asarray(np.array(test.rates_K))

    def shapes(self) -> Shapes:
        V, K = len(self.test.tips), len(self.test.rates_K)
        return {"log_wealth_2xKxV": (2, K, V)} if K else {"score_V": (V,), "ones": ()}

    def update(self, memory: Views, step: Step, outcome: Outcome, number_N: Any, alarmed: Alarmed) -> Any:
        p_N, y_N = step.forecast[:, 1], outcome.state_N * 1.0
        side_NxV = self.xp.sign(self.tips_V - p_N[:, None])  # sign(v - p)
        if self.test.test == "threshold":
            return self._largest_v_regret(memory, side_NxV, y_N, step.clock_N + 1)
        log_wealth_N = self._bet(memory, side_NxV, p_N, y_N)
        return self.xp.where(outcome.chance_N > 0, log_wealth_N + math.log(self.test.delta), math.inf)

    def _largest_v_regret(self, memory: Views, side_NxV: Any, y_N: Any, t_N: Any) -> Any:
        """The largest V-regret, less what it must reach."""
        xp = self.xp
        memory.score_V[...] += side_NxV * (y_N[:, None] - self.tips_V)
        memory.ones[:] += y_N
        v_regret_NxV = memory.score_V + xp.abs(memory.ones[:, None] - t_N[:, None] * self.tips_V)
        return xp.max(v_regret_NxV, axis=-1) - self.test.threshold(t_N)

    def _bet(self, memory: Views, side_NxV: Any, p_N: Any, y_N: Any) -> Any:
        """ln E_t, E_t the mean wealth of all bets.

        A bet on (tip v, side) stakes c = sign(v - p) + side on y - v. What it gains, against what it expected to, is
        -ln( P(y) + P(1-y) exp(lambda c (1 - 2y)) ): nothing where c = 0, and else the same for every tip.
        """
        xp = self.xp
        other_N = y_N * (1 - p_N) + (1 - y_N) * p_N  # the chance of what did not come
        away_Nx2xK = (1 - 2 * y_N)[:, None, None] * self.sided_2xK
        for c, which_NxV in ((2.0, side_NxV != 0), (1.0, side_NxV == 0)):  # away from the tip, and on it
            if not some(which_NxV):
                continue
            gain_Nx2xK = -xp.log1p(other_N[:, None, None] * xp.expm1(away_Nx2xK * c))
            stakes_Nx2xV = (side_NxV[:, None] + self.side_2x1 == c * self.side_2x1) * 1.0
            memory.log_wealth_2xKxV[...] += gain_Nx2xK[..., None] * stakes_Nx2xV[:, :, None]
        flat_NxB = memory.log_wealth_2xKxV.reshape(len(p_N), 2 * self.sided_2xK.shape[1] * len(self.tips_V))
        peak_N = xp.max(flat_NxB, axis=-1)
        return peak_N + xp.log(xp.mean(xp.exp(flat_NxB - peak_N[:, None]), axis=-1))


def _grid(tips: Any, horizon: int) -> tuple[float, ...]:
    grid = np.arange(horizon + 1) / horizon if tips is None else np.unique(unit_numbers(tips, "tips"))
    if not grid.size:
        raise ValueError("tips must have at least one")
    return tuple(grid.tolist())
