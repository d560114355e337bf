"""The every-start test's prior, and what it promises as numbers: one function a statement.

The statements, to which the other files point by number:

(i)   If the model is right, an alarm has a chance of at most delta, however long one waits.
(ii)  Before an alarm no comparator leads by more than B over any steps start .. end: no interval is bad.
(iii) What a bet is charged per step is at most kappa, a number that is known beforehand (``coupled.kappa``).
(iv)  With a fallback that loses at most F(n) in n steps: T Reg <= max{ B(T), max_n B(n) + J + F(T - n - 1) }.
(v)   A fallback that has run since the first step, and is not begun afresh, has an F of its own.

All bounds are on *total* regret (a sum over steps, not an average) and hold for every sequence of states. J is the
problem's span, A the number of actions, eta a temperature, lam_k the betting rates, delta the chance of a false alarm.
A prior m(c, k, j) shares the bets among comparators c, rates k and starts j.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, frozen
from ..problems import DecisionProblem
from .bounds import Bound
from .coupled import main_rate, summed_roots


@dataclass(frozen=True, eq=False)
class Prior:
    """How the bets of the every-start test are shared: ``weights_K(start)`` is m(c, k, start), alike for all c.

    With a known horizon 3/4 goes to (main rate, start 1) and 1/4 evenly to all rates, half of that at start 1 and half
    spread over all starts. With an unknown one rate k has 1/((k+1)(k+2)), and start j has 1/(j(j+1)) of what is not
    the first's own.

    ``share`` is the part of all capital that these bets have. The rest is that of a second bettor, who bets on a
    mixture and joins in the same way: half at the first step and half spread over all, or by 1/(j(j+1)).
    """

    rates_K: np.ndarray  # the main rate first, where there is one
    comparators: int
    horizon: int | None
    main_weight: float = 0.75  # of (main rate, start 1); with an unknown horizon of start 1
    share: float = 1.0

    def when(self, start: int) -> float:
        """How much of what is not the main bet's joins at this start (from 1)."""
        opening = float(start == 1)
        if self.horizon is None:
            return self.main_weight * opening + (1 - self.main_weight) / (start * (start + 1))
        return 0.5 * opening + 0.5 / self.horizon

    def weights_K(self, start: int) -> np.ndarray:
        """The weight of each rate at this start, for one comparator."""
        K = len(self.rates_K)
        if self.horizon is None:
            k = np.arange(K)
            return self.share * self.when(start) / ((k + 1.0) * (k + 2) * self.comparators)
        weights_K = np.full(K, (1 - self.main_weight) / K * self.when(start))
        weights_K[0] += self.main_weight * (start == 1)
        return self.share * weights_K / self.comparators

    def unspent(self, step: Array) -> Array:
        """The weight of all starts after ``step``: ``share`` before the first."""
        K, main = len(self.rates_K), self.main_weight
        if self.horizon is None:
            spent = K / (K + 1) * (main + (1 - main) * (step / (step + 1)))
        else:
            spent = main + (1 - main) * (0.5 + 0.5 * step / self.horizon)
        return self.share * (1 - spent * (step >= 1))

    def second_weight(self, start: int) -> float:
        """What the second bettor stakes at this start."""
        return (1 - self.share) * self.when(start)

    def log_costs_K(self, delta: float, start: int = 1) -> np.ndarray:
        """ln(1 / (m(c, k, start) delta))."""
        return frozen(-np.log(self.weights_K(start)) - math.log(delta))


def joint_prior(
    problem: DecisionProblem,
    horizon: int | None,
    delta: float,
    temperature: float | None = None,
    top: float = 2.0,
    comparators: int | None = None,
    share: float = 1.0,
    opening: float = 0.0,
) -> Prior:
    """The prior of the every-start test, for so many comparators (the actions by default).

    The main rate depends on the temperature, 1/sqrt(horizon) by default. No rate is above ``top`` / J: larger ones
    alarm on models that are miscalibrated but useful. With an unknown horizon there are 40 rates, (top / J) 2^-k, and
    ``opening`` of their capital goes to the first start alone: 1/2 gives that 3/4 of all, and later ones half of what
    they would have. ``share`` of all capital bets on comparators; a second bettor has the rest.

    >>> from lowregret import matching
    >>> joint_prior(matching(), 1024, delta=2 / 1024).rates_K.round(3).tolist()
    [0.176, 2.0, 1.0, 0.5, 0.25]
    """
    count = problem.n_actions if comparators is None else comparators
    highest = top / max(problem.span or 1.0, 1e-300)  # a finite rate, however little is at stake
    if horizon is None:
        return Prior(frozen(highest * 2.0 ** -np.arange(40)), count, None, opening, share)
    eta = 1 / math.sqrt(horizon) if temperature is None else temperature
    chosen = min(highest, main_rate(problem, horizon, eta, math.log(count / (0.75 * delta * share))))
    halvings = math.ceil(math.log2(highest / chosen) - 1e-9)
    return Prior(frozen(np.append(chosen, highest * 2.0 ** -np.arange(halvings))), count, horizon, share=share)


def before_alarm(
    charges: Bound, rates_K: np.ndarray, log_costs_K: np.ndarray, span: float, steps_N: np.ndarray
) -> np.ndarray:
    """Statements (ii) and (iv): B(t) = min_k [ charges + ln(1/(m delta)) ] / lam_k, ``[N]``.

    What the regret to any comparator is below while there is no alarm; never more than t J, and it never falls.

    Parameters
    ----------
    charges
        What each rate is charged in the first t steps at most, ``[N] -> [N, K]``: ``coupled.charges``.
    log_costs_K
        ``[K]``, or ``[C, K]`` where comparators differ: the largest of their bounds is returned.
    """
    charges_NxK, t = charges(steps_N), np.asarray(steps_N, dtype=np.float64)
    each = [np.min((charges_NxK + costs_K) / rates_K, axis=1) for costs_K in np.atleast_2d(log_costs_K)]
    bound_N: np.ndarray = np.minimum(t * span, np.max(each, axis=0))
    return bound_N


def falling_rates_after(
    problem: DecisionProblem, last_rate: float, spent: np.ndarray, left_N: np.ndarray, spread: float = 0.0
) -> np.ndarray:
    """Statement (v): Hedge at rates that never rise, with the whole history, by steps left, ``[N]``.

    F(n) = ln A / rho_T + (J^2 / 8) (rho_{T-n+1} + .. + rho_T) + spread, F(0) = 0; never more than n J. ``spent`` are
    these sums of rates.

    *Proof.* Let R_a be the regrets of what was really played, C_a a head start (``spread`` = max C - min C), and
    Z_t(rho) = (1/rho) ln mean_a exp(rho (C_a + R_a)): Hedge's weights are proportional to these exponentials, since
    what was played is the same for all a. A step of Hedge raises Z_t(rho_t) by at most rho_t J^2 / 8 (Hoeffding), a
    lower rate never raises it (power means). At the alarm Z <= max C + max_a R_a, and at the
    end max_a (C_a + R_a) <= Z_T + ln A / rho_T.
    """
    most = math.log(problem.n_actions) / last_rate + spent * problem.span**2 / 8 + spread
    return np.minimum(most, problem.span * left_N)


def hedge_after(problem: DecisionProblem, rate: float, left_N: np.ndarray) -> np.ndarray:
    """Hedge at a fixed rate, fresh or with the whole history: ln A / rate + n rate J^2 / 8."""
    return falling_rates_after(problem, rate, left_N * rate, left_N)


def urn_after(
    problem: DecisionProblem, steps: int, temperature: float | None, prior: float, left_N: np.ndarray
) -> np.ndarray:
    """The urn with the whole history: Hedge at the falling rates 1 / (eta_t (m + t - 1)), m = prior S, from C(a)/m up.

    ``temperature=None`` is the schedule for an unknown horizon (with a prior of 1).

    >>> from lowregret import matching
    >>> (urn_after(matching(), 1024, 1 / 32, 1.0, np.array([1, 512, 1024])) / 1024).round(4).tolist()
    [0.001, 0.0244, 0.0471]
    """
    mass, begun_N = prior * problem.n_states, steps - np.asarray(left_N, dtype=np.float64)
    if temperature is None:  # eta_t (S + t - 1) = eta_T sqrt((S + T - 1) (S + t - 1))
        end = mass + steps - 1
        root = float(problem.anytime_temperature(steps)) * math.sqrt(end)
        last_rate, spent = 1 / (root * math.sqrt(end)), (summed_roots(end) - summed_roots(mass + begun_N - 1)) / root
    else:
        from scipy.special import digamma

        last_rate = 1 / (temperature * (mass + steps - 1))
        spent = (digamma(mass + steps) - digamma(mass + begun_N)) / temperature
    sums_A = prior * problem.utility.sum(axis=1)
    return falling_rates_after(problem, last_rate, spent, left_N, float(sums_A.max() - sums_A.min()))


def fixed_share_after(problem: DecisionProblem, rate: float, share: float, left_N: np.ndarray) -> np.ndarray:
    """Fixed share with the whole history: no weight is ever below share / A, so every start is like the first."""
    A, n = problem.n_actions, np.asarray(left_N, dtype=np.float64)
    stay = -math.log1p(-share * (A - 1) / A)
    most = (math.log(A / share) + np.maximum(n - 1, 0) * stay) / rate + n * rate * problem.span**2 / 8
    return np.minimum(most, problem.span * n)
