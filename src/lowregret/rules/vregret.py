"""Algorithm 3: the decision problem is unknown and the states are two. Watch every V-shaped loss on a grid of tips.

A V-shaped loss with tip v is sign(v - p) (y - v): it asks only whether the forecast p is above or below v. Regret in
any two-state problem is a mixture of such regrets, so a forecast that has little of each is safe to act on in all.
The V-regret after t steps has a closed form, with n1 the number of ones,

    (1/t) [ sum_s sign(v - p_s) (y_s - v) + |n1 - t v| ] = (1/t) max_side sum_s (sign(v - p_s) + side) (y_s - v).
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import certificates, inputs
from ..arrays import (
    Array,
    astype,
    constant,
    detached,
    first,
    frozen,
    in_float64,
    namespace,
    pick,
    read_only,
    total,
)
from ..certificates import AnyProblemCertificate, certify_any_problem
from ..predictors import PolyaUrn
from ..tips import unit_numbers
from . import kernels
from .contract import Moment, Rule, RuleMemory, steps_so_far, zeros

TESTS = ("exact", "threshold")


class VStatistics(NamedTuple):
    score_N: Array  # [..., N], sum of sign(v - p_s) (y_s - v) for every tip v
    ones: Array  # [...], how often state 1 came
    log_wealth_2xKxN: (
        Array | None
    )  # [..., 2, K, N], ln of the wealth at each rate and tip, sides +1 and -1 (exact only)
    impossible: Array  # a token came to which the base gave probability 0


@dataclass(frozen=True, eq=False)
class VRegret(Rule):
    """Algorithm 3, for two states: trip once some V-shaped loss on the grid shows that the base model is wrong.

    Parameters
    ----------
    delta
        The TV bound; 1/horizon by default.
    tips
        Where the losses bend, numbers in [0, 1]; every 1/horizon by default. The closer, the better the certificate
        for quantal responses; a step costs as much as there are tips.
    test
        "exact": a bet against the base model on every tip, side and rate, as in ``ExactTest``. "threshold": the
        largest V-regret against sqrt(2 ln(pi^2 N t^2 / (3 delta)) / t), a union bound over N tips and all t.

    >>> rule = VRegret(horizon=1024)
    >>> from lowregret import matching
    >>> print(f"{rule.certificate.for_problem(matching()).regret_bound:.4f} {rule.certificate.tv_bound:.6f}")
    0.2684 0.000977
    """

    horizon: int
    delta: float = field(default=None)  # type: ignore[assignment]
    tips: Any = None
    test: str = "exact"
    fallback: PolyaUrn = field(default=None, kw_only=True)  # type: ignore[assignment]

    problem = None

    def __post_init__(self) -> None:
        if self.horizon is None:
            raise ValueError(
                "horizon must be a whole number >= 1 for VRegret, got None: its tips and the temperature it certifies "
                "follow it"
            )
        horizon = inputs.whole(self.horizon, "horizon")
        delta = inputs.probability(1 / max(horizon, 2) if self.delta is None else self.delta, "delta")
        test = inputs.choice(self.test, "test", TESTS)
        if self.fallback is None:
            inputs.keep(self, fallback=PolyaUrn(2))
        if not isinstance(self.fallback, PolyaUrn) or self.fallback.n_states != 2:
            raise ValueError(
                f"fallback must be a PolyaUrn over two states for VRegret, got {inputs.shown(self.fallback)}: of no "
                "other is it proved that it is safe in every problem at once"
            )
        inputs.keep(self, horizon=horizon, delta=delta, test=test, tips=_grid(self.tips, horizon))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(read_only(state))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VRegret) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.horizon, self.delta, self.tips.tobytes(), self.test, self.fallback

    @property
    def n_states(self) -> int:
        return 2

    @property
    def cells(self) -> int:
        return len(self.tips) * (1 + 2 * len(self.rates_K))

    @property
    def compares(self) -> bool:
        return False

    @property
    def pointless(self) -> bool:
        return False

    @property
    def temperature(self) -> float:  # type: ignore[override]
        """At which the certificate speaks unless it is told another: 1/sqrt(horizon)."""
        return 1 / math.sqrt(self.horizon)

    @property
    def n_comparators(self) -> int:
        return 2 * len(self.tips)

    def leads(self, answer_A1: Array, token: Array) -> Array:
        """The V-regret of one forecast, not divided by steps, on every tip for sides +1 and then -1: ``[2 N, ...]``."""
        xp, tips_N = namespace(answer_A1), self._column(answer_A1)
        centred_N = astype(token, answer_A1.dtype) - tips_N
        score_N = xp.sign(tips_N - answer_A1) * centred_N
        return xp.concat([score_N + centred_N, score_N - centred_N])

    @cached_property
    def rates_K(self) -> np.ndarray:
        """The betting rates of the exact test, 4 2^-k; none without it."""
        exact = self.test == "exact"
        return frozen(certificates.lambda_grid(1.0, certificates.n_rates(self.horizon, self.delta) if exact else 0))

    @property
    def log_cost(self) -> float:
        """ln(2 N K / delta): what one bet's log wealth must reach for the alarm to sound on its own."""
        return math.log(2 * len(self.tips) * len(self.rates_K) / self.delta)

    def threshold(self, step: Array) -> Array:
        """What the largest V-regret, times t, must reach after t tokens."""
        return certificates.v_threshold(step, len(self.tips), self.delta) * step

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> VStatistics:
        N, K = len(self.tips), len(self.rates_K)
        wealth = zeros((*shape, 2, K, N), xp, where) if self.test == "exact" else None
        never = xp.zeros(shape, dtype=xp.bool, device=where)
        return VStatistics(zeros((*shape, N), xp, where), zeros(shape, xp, where), wealth, never)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        probs_S = first(in_float64(detached(probs)))
        fallback_A1 = None if answer is None else first(astype(detached(answer), probs_S.dtype))[1:]
        return Moment((probs_S[1] / total(probs_S))[None], fallback_A1, probs_S, token)

    def judge(self, statistics: VStatistics, step: Array, moment: Moment) -> tuple[VStatistics, Array]:
        p, xp = moment.base_A1[0], namespace(moment.base_A1)
        token = astype(moment.token, p.dtype)
        tips_N = constant(self.tips, p)
        side_N = xp.sign(tips_N - p[..., None])
        score_N = statistics.score_N + side_N * (token[..., None] - tips_N)
        ones = statistics.ones + token
        impossible = pick(moment.probs_S, moment.token) == 0
        wealth = statistics.log_wealth_2xKxN
        if wealth is not None:
            wealth = wealth + self._log_growth(p, token, side_N)
            alarm = self._reached(wealth) | impossible
        else:
            alarm = self._largest(score_N, ones, step) >= self.threshold(astype(step, p.dtype))
        return VStatistics(score_N, ones, wealth, statistics.impossible | impossible), alarm

    def _log_growth(self, p: Array, token: Array, side_N: Array) -> Array:
        """What each bet's log wealth gains in one step, ``[..., 2, K, N]``.

        A bet on (tip v, side) stakes c = sign(v - p) + side on y - v; what it gains, against what it expected to,
        is -ln( P(y) + P(1-y) exp(lambda c (1 - 2y)) ): nothing where c = 0, and else the same for every tip.
        """
        xp = namespace(p)
        other = token * (1 - p) + (1 - token) * p  # the chance of what did not come
        away = 1 - 2 * token
        grown = []
        for side in (1.0, -1.0):
            whole_K, half_K = (
                -xp.log1p(other[..., None] * xp.expm1(constant(self.rates_K, p) * (away * c)[..., None]))
                for c in (2 * side, side)
            )
            on_tip = xp.where((side_N == 0)[..., None, :], half_K[..., None], xp.zeros_like(half_K)[..., None])
            grown.append(xp.where((side_N == side)[..., None, :], whole_K[..., None], on_tip))
        return xp.stack(grown, axis=-3)

    def _reached(self, log_wealth_2xKxN: Array) -> Array:
        """Whether the average wealth is 1/delta; it cannot be while none is."""
        xp = namespace(log_wealth_2xKxN)
        peak = xp.max(log_wealth_2xKxN, axis=(-3, -2, -1))
        close = peak >= -math.log(self.delta)
        if xp is np and not close.any():
            return close
        return self._log_mean(log_wealth_2xKxN, peak) >= -math.log(self.delta)

    def _log_mean(self, log_wealth_2xKxN: Array, peak: Array) -> Array:
        """ln E_t, from the log wealths and the largest of them."""
        xp = namespace(peak)
        mass = xp.sum(xp.exp(log_wealth_2xKxN - peak[..., None, None, None]), axis=(-3, -2, -1))
        return peak + xp.log(mass) - math.log(2 * len(self.tips) * len(self.rates_K))

    def _largest(self, score_N: Array, ones: Array, step: Array) -> Array:
        """The largest V-regret over the tips, times t."""
        return namespace(score_N).max(self._totals(score_N, ones, step), axis=-1)

    def _totals(self, score_N: Array, ones: Array, step: Array) -> Array:
        """The V-regret on every tip, times t."""
        fixed_N = ones[..., None] - astype(step, score_N.dtype)[..., None] * constant(self.tips, score_N)
        return score_N + namespace(score_N).abs(fixed_N)

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        p_NxT = moment.base_A1[0]
        if kernels.worth(p_NxT, each=len(self.tips)):
            if self.test == "threshold":
                return kernels.first_v_crossing(p_NxT, moment.token, self.tips, self.threshold(step_T.astype(float)))
            sure = pick(moment.probs_S, moment.token)
            return kernels.first_v_alarm(p_NxT, moment.token, sure, self.tips, self.rates_K, self.delta)
        return super().recorded(step_T, moment)  # as many tips as steps: a table of all of them would be too large

    def v_regrets(self, memory: RuleMemory) -> Array:
        """The base model's V-regret on every tip so far, ``[..., N]``."""
        step = steps_so_far(memory)
        return self._totals(memory.statistics.score_N, memory.statistics.ones, step) / step[..., None]

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """The exact test: ln E_t and ln(1 / delta). Else the largest V-regret and its threshold."""
        xp, statistics = namespace(memory.step), memory.statistics
        if self.test == "threshold":
            step = steps_so_far(memory)
            return self._largest(statistics.score_N, statistics.ones, memory.step) / step, self.threshold(step) / step
        wealth = statistics.log_wealth_2xKxN
        log_mean = self._log_mean(wealth, xp.max(wealth, axis=(-3, -2, -1)))
        statistic = xp.where(statistics.impossible, xp.zeros_like(log_mean) + math.inf, log_mean)
        return statistic, xp.zeros_like(statistic) - math.log(self.delta)

    @property
    def spacing(self) -> float:
        """How far apart neighbouring tips are at most, 0 and 1 counted among them."""
        return float(np.diff(self.tips, prepend=0.0, append=1.0).max())

    @property
    def certificate(self) -> AnyProblemCertificate:
        """What it guarantees in any problem with two states: ``certificate.for_problem(problem, temperature)``."""
        name = "Algorithm 3" + (", the exact test" if self.test == "exact" else "")
        return certify_any_problem(self.horizon, self.fallback, self._most, self.spacing, self.delta, name)

    def _most(self, steps: int) -> float:
        """What a V-regret, times t, can reach before the alarm."""
        if self.test == "threshold":
            return steps * float(certificates.v_threshold(steps, len(self.tips), self.delta))
        return certificates.v_exact(steps, self.rates_K, self.log_cost)

    def _column(self, like: Array) -> Array:
        """The tips as a leading axis beside ``like`` ``[1, ...]``."""
        return namespace(like).reshape(constant(self.tips, like), (-1, *(1,) * (like.ndim - 1)))


def _grid(tips: Any, horizon: int) -> np.ndarray:
    if tips is None:
        grid = np.arange(horizon + 1) / horizon
    else:
        grid = np.unique(unit_numbers(tips, "tips"))
        if not grid.size:
            raise ValueError(f"tips must be a list of numbers in [0, 1] with at least one, got {inputs.shown(tips)}")
    grid.setflags(write=False)
    return grid
