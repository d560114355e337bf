"""The every-start test where arrays are in the way: one stream, and fleets of them (extra: ``fast``)."""

import math
from typing import NamedTuple

import numpy as np

from ..arrays import compiler_installed
from ..certificates.every_start import Prior
from ..files import compiled
from ..problems import DecisionProblem
from .step_kernel import bet_all

_STEPS = 64  # of a stream: before, importing and compiling costs more than it saves
_BETTORS = 1 << 15  # of a fleet, likewise
_INTEGER = np.dtype(np.int64)
_NOTHING = -1e30  # the logarithm of no wealth at all, as a finite number


class Stepped(NamedTuple):
    """Bettors on actions after one more token."""

    log_wealth_CxK: np.ndarray
    log_most_CxK: np.ndarray
    since_CxK: np.ndarray
    gain_C: np.ndarray  # [..., C], what each action earned more than the response
    share: np.ndarray | None  # [...], all wealth in units of 1/delta, 0 where it is far from that; None: everywhere


class QuickBets:
    """What is the same at every step, and the step itself."""

    def __init__(self, problem: DecisionProblem, prior: Prior, delta: float, steps: list[tuple[int, bool]]) -> None:
        self.table_CxS = np.concatenate([np.zeros((1, problem.n_states)), problem.advantage])
        self.advantage, self.rates_K, K = problem.advantage, prior.rates_K, len(prior.rates_K)
        self.first_K = np.log(prior.weights_K(1))
        every = prior.starts == "every"
        self.later_K = np.log(prior.weights_K(2)) if every else np.full(K, _NOTHING)
        self.falls = every and prior.horizon is None
        self.log_delta = math.log(delta)
        # All bettors together reach 1/delta only if one has a fair part of what the capital that waits leaves.
        self.near = math.log((1 - delta) / (prior.comparators * K)) - 1e-9
        order = [k for k, _ in steps]
        doubles = [float(doubles) for _, doubles in steps]
        rows = [order, doubles, self.rates_K[order], self.first_K[order], self.later_K[order]]
        self.by_rate_5xK = np.array(rows, dtype=np.float64)
        self._numbers: dict[float, np.ndarray] = {}

    def joining_K(self, step: int) -> np.ndarray:
        """ln m(c, k, step) for one comparator."""
        if step == 1:
            return self.first_K
        return self.later_K + (math.log(6.0) - math.log(step * (step + 1.0))) if self.falls else self.later_K

    def fleet_pays(self, wealth: np.ndarray) -> bool:
        """Whether so many bettors are worth a compiled step."""
        return wealth.size >= _BETTORS and compiler_installed()

    def alone(
        self,
        probs_S: np.ndarray,
        token: int,
        step: int,
        wealth: np.ndarray,
        most: np.ndarray,
        since: np.ndarray,
        base_A1: np.ndarray | None,
        warmth: float,
    ) -> Stepped:
        """A step of one stream; without ``base_A1`` the response is taken at temperature ``warmth``."""
        if step > _STEPS and compiler_installed() and wealth.flags.c_contiguous:
            if base_A1 is None:
                base_A1 = np.empty(len(self.table_CxS) - 1)
            else:
                warmth = 0.0
            return self._compiled(probs_S, base_A1, np.array((token, step)), wealth, most, since, warmth)
        if base_A1 is None:
            base_A1 = self._response(probs_S, warmth)
        gain_CxS = self.table_CxS - base_A1 @ self.advantage
        gain_C = gain_CxS[:, token]
        excess_CxK = (probs_S / probs_S.sum()) @ np.expm1(gain_CxS[:, :, None] * self.rates_K)
        growth_CxK = gain_C[:, None] * self.rates_K - np.log1p(np.maximum(excess_CxK, 0.0))
        fresh_K = self.joining_K(step)
        after = np.logaddexp(wealth, fresh_K) + growth_CxK
        since = np.where(fresh_K > most, step, since)
        most = np.maximum(most, fresh_K) + growth_CxK
        share = None
        if after.max() + self.log_delta >= self.near:
            share = np.exp(np.minimum(after + self.log_delta, 0.0)).sum()
        return Stepped(after, most, since, gain_C, share)

    def fleet(
        self,
        probs_S: np.ndarray,
        base_A1: np.ndarray,
        token: np.ndarray,
        step: np.ndarray,
        wealth: np.ndarray,
        most: np.ndarray,
        since: np.ndarray,
    ) -> Stepped:
        """A step of many streams, given the response to each law."""
        when = np.stack([token.reshape(-1), step.reshape(-1)]).astype(np.int64, copy=False)
        probs_S, base_A1, wealth, most, since = map(np.ascontiguousarray, (probs_S, base_A1, wealth, most, since))
        return self._compiled(probs_S, base_A1, when, wealth, most, since, 0.0)

    def _compiled(
        self,
        probs_S: np.ndarray,
        base_A1: np.ndarray,
        when: np.ndarray,
        wealth: np.ndarray,
        most: np.ndarray,
        since: np.ndarray,
        warmth: float,
    ) -> Stepped:
        numbers = self._numbers.get(warmth)
        if numbers is None:
            numbers = np.array([warmth, self.falls, self.log_delta, self.near])
            if warmth == 0 or not self.falls:
                self._numbers[warmth] = numbers
        shape = wealth.shape
        after, richest, begun = np.empty(shape), np.empty(shape), np.empty(shape, _INTEGER)
        gain, share = np.empty(shape[:-1]), np.empty(when.size // 2)
        fixed = self.table_CxS, self.by_rate_5xK, numbers
        largest = compiled(bet_all)(
            probs_S, base_A1, when, wealth, most, since, *fixed, after, richest, begun, gain, share
        )
        return Stepped(after, richest, begun, gain, None if largest == 0 else share.reshape(shape[:-2]))

    def _response(self, probs_S: np.ndarray, warmth: float) -> np.ndarray:
        """The quantal response's chance of every action but the first."""
        lead_A1 = self.advantage @ probs_S
        if len(lead_A1) == 1:
            return np.array([0.5 * math.tanh(0.5 * float(lead_A1[0]) / warmth) + 0.5])
        lead_A1 /= warmth
        top = max(0.0, float(lead_A1.max(initial=0.0)))
        weight_A1 = np.exp(lead_A1 - top)
        return weight_A1 / (weight_A1.sum() + math.exp(-top))
