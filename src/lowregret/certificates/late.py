"""Late outcomes: what is promised where the outcome of a step is known only ``lag`` steps later, with its proof.

Let d be the lag: p_t is stated knowing theta_{t-d}, and maybe some of the outcomes after it. Steps that are d apart
make a *class*; in each of the d classes p_t is stated knowing the class's whole past, so the every-start test of a
class is a supermartingale E_r from 1, whatever the classes have to do with each other and in whichever order outcomes
come within the lag. Let M_r be the largest value that E_r ever takes: P(M_r >= x) <= 1/x, by Ville.

**(i)** The alarm sounds when the *average* of the d values reaches a_d / delta, a_d = ``coupled.late_factor``.
P(alarm) <= delta: at an alarm the sum of the M_r is at least s = d a_d / delta. For 0 < u < s/d let
g(x) = min(1, (x - u)^+ / (s - d u)). Where x_1 + .. + x_d >= s, g(x_1) + .. + g(x_d) >= 1: either some x_r is at
least s - (d-1) u, and its g is 1; or the sum is at least (x_1 + .. + x_d - d u) / (s - d u) >= 1. And E g(M_r) is at
most the integral of 1/x over u .. s - (d-1) u, over s - d u. With u = b s and the best b, d times that is
d a_d / s = delta.

**(ii)** After n outcomes without an alarm let R_r be the regret in class r to its own best action, if that is positive,
else 0. E_r >= m exp(lam R_r - charges_r) where R_r > 0; over the p classes where it is, the average of their E_r is
below (d/p) a_d / delta, so by Jensen lam sum R_r < charges + p ln((d/p) a_d / (m delta)), which grows with p up to d
(where a_d / (m delta) >= e). Hence, and so for any one comparator over all classes,
**sum_r R_r <= B_d(n) = min_k [ charges_k + d ln(a_d / (m_k delta)) ] / lam_k.**

**(iv)** When the alarm sounds, after n + 1 outcomes, some o <= d - 1 advices wait for theirs: (1 + o) J. From then on
each class plays a fallback of its own, which loses at most F(q) in the q steps that it may still have, by its count of
H = T / d rounded up: the q_r have the sum d H - n - 1 - o, and with F concave (else its least concave majorant) no
split is worse than the most equal one. **T Reg_T <= max{ B_d(d H), max_{n,o} B_d(n) + (1 + o) J + sum_r F(q_r) }.**
An outcome that never comes adds J, and nothing to any E_r if that was decided before the state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..abilities import ability, guaranteed_by, shortfall_of
from ..problems import DecisionProblem
from .bounds import Terms
from .certificate import Certificate, assumptions_of
from .coupled import kappa, late_factor, summed_kappa
from .every_start import Prior, before_alarm, fixed_charges
from .exact_charge import exact_kappa
from .switching import MOST_STEPS


def dealt(each_H: np.ndarray, lag: int) -> np.ndarray:
    """What n = 0 .. d H steps dealt out evenly to d classes come to, given each class's 0 .. H: ``[d H + 1, ...]``."""
    steps = np.arange(lag * (len(each_H) - 1) + 1)
    whole, more = steps // lag, steps % lag
    next_one = np.minimum(whole + 1, len(each_H) - 1)
    more = more.reshape(-1, *(1,) * (each_H.ndim - 1))
    return (lag - more) * each_H[whole] + more * each_H[next_one]


def concave(values_H: np.ndarray) -> np.ndarray:
    """The least concave sequence that is nowhere below."""
    if np.all(np.diff(values_H, 2) <= 0):
        return values_H
    corners: list[int] = []
    values = values_H.tolist()
    for n, value in enumerate(values):  # the upper hull: drop what lies on or below a chord
        while len(corners) > 1:
            left, middle = corners[-2:]
            rise = (value - values[left]) * (middle - left)
            if (values[middle] - values[left]) * (n - left) > rise:
                break
            corners.pop()
        corners.append(n)
    return np.maximum(values_H, np.interp(np.arange(len(values)), corners, values_H[corners]))


class Bettors(NamedTuple):
    """The test of one class: what it is made of, and how many contexts each class has to tell apart."""

    stakes: DecisionProblem
    prior: Prior
    delta: float  # of the class: that of the whole over a_d
    temperature: float | None
    contexts: int = 1

    def before(self, lag: int, exactly: bool, rounds: int) -> np.ndarray:
        """Statement (ii): B_d(0) .. B_d(d H), over all classes; H = ``rounds``.

        Over C contexts C B_d(n / C), as in ``over_contexts``. ``exactly``: by exact charges in place of kappa.
        """
        rates_K, stakes = self.prior.rates_K, self.stakes
        if self.temperature is None:
            warmth_T = stakes.anytime_temperature(np.arange(1, rounds + 1.0))
            # Classes may have seen different numbers of outcomes: a concave sum is largest dealt out evenly.
            charges_HxK = np.stack([concave(sums) for sums in summed_kappa(stakes, rates_K, warmth_T).T], axis=-1)
        else:
            most = exact_kappa if exactly else kappa
            charges_HxK = fixed_charges(most(stakes, rates_K, self.temperature), rounds)
        # Not below 1, for p ln((d/p) M) to be largest at p = d: so it is anyway but for one comparator at a high delta.
        costs_K = self.contexts * lag * np.maximum(self.prior.log_costs_K(self.delta), 1.0)
        return before_alarm(dealt(charges_HxK, lag), rates_K, costs_K, stakes.span)

    def interval(self, lag: int, start: int, end: int) -> float:
        """Statement (ii) from any start: the regret of steps start .. end, where no alarm sounded by their outcomes.

        In every class the bettors that join at its first step from ``start`` on; those of later ones have less.
        """
        rates_K, stakes, steps = self.prior.rates_K, self.stakes, end - start + 1
        costs_K = lag * np.maximum(self.prior.log_costs_K(self.delta, 1 if start == 1 else 2), 1.0)
        charges_K = steps * kappa(stakes, rates_K, self.temperature)
        return min(stakes.span * steps, float(np.min((charges_K + costs_K) / rates_K)))


def late_switching(before_T: np.ndarray, after_H: np.ndarray, span: float, lag: int) -> tuple[float, float, float]:
    """Statement (iv) in total: its part before the alarm, that of the d or fewer steps around it, the fallback's.

    >>> import numpy as np
    >>> late_switching(np.array([0.0, 1.0, 1.5]), np.array([0.0, 0.5, 0.75]), span=1.0, lag=1)
    (1.0, 1.0, 0.0)
    """
    after_T, end = dealt(concave(after_H), lag), len(before_T) - 1
    worst = (float(before_T[-1]), 0.0, 0.0)
    for waiting in range(min(lag, end)):
        totals = before_T[: end - waiting] + (1 + waiting) * span + after_T[end - 1 - waiting :: -1]
        n = int(totals.argmax())
        if totals[n] > sum(worst):
            worst = float(before_T[n]), (1 + waiting) * span, float(after_T[end - 1 - waiting - n])
    return worst


class SwitchesLate(NamedTuple):
    """What passes before the alarm, around it and after it, at every number of steps."""

    problem: DecisionProblem
    temperature: float | None
    fallback: Any  # of one class
    lag: int
    before: Callable[[int], np.ndarray]  # H -> B_d(0) .. B_d(d H)

    def after(self, rounds: int) -> np.ndarray | None:
        """F(0) .. F(H): the most that the fallback of one class loses in the last of its steps; None: not known."""
        says = ability(self.fallback, "regret_after")
        return None if says is None else says(self.problem, rounds, self.temperature)

    def terms_at(self, steps: int) -> Terms:
        if steps > MOST_STEPS:
            raise ValueError(
                f"a certificate over every step of an alarm is made for at most {MOST_STEPS:,}, got {steps:,}"
            )
        rounds, span = -(-steps // self.lag), self.problem.span
        after = self.after(rounds)
        if after is None:
            after = np.arange(rounds + 1.0) * span
        parts = late_switching(self.before(rounds), np.asarray(after), span, self.lag)
        names = "before the alarm", "steps that wait at the alarm", "fallback"
        return {name: part / steps for name, part in zip(names, parts, strict=True) if part or name == names[0]}

    def let_pass(self, steps: int) -> float:
        """What any comparator may lead by when the fallbacks take over, a step: the most over all alarms.

        With what those that guarantee a payoff may fall short of it afterwards.
        """
        rounds = -(-steps // self.lag)
        own = self.lag * shortfall_of(self.fallback, self.temperature, rounds)
        return (float(self.before(rounds)[-1] + self.lag * self.problem.span) + own) / steps

    def sharpened(self, before: Callable[[int], np.ndarray], steps: int) -> Terms:
        """The terms with a sharper bound before the alarm."""
        return self._replace(before=before).terms_at(steps)


def certify_late(
    made: SwitchesLate,
    horizon: int | None,
    tv_bound: float,
    theorem: str,
    sharper: Callable[[int], Terms] | None = None,
    interval: Callable[[int, int], float] | None = None,
) -> Certificate:
    """The certificate for outcomes that are late, and what that costs in words."""
    name, lag = getattr(made.fallback, "name", type(made.fallback).__name__), made.lag
    acted, _, true = assumptions_of(made.temperature, made.fallback)
    statement = (
        f"Steps {lag} apart make a class with a test and a fallback ({name}) of its own; one alarm, at "
        f"{late_factor(lag):.3g} times the evidence, switches all of them. Before it no action leads by more, "
        f"at most {lag} steps wait for their outcomes when it sounds, and the fallbacks lose no more after it."
    )
    if made.after(1) is None:
        statement += f" What {name} may lose after an alarm is not known: it enters as the span."
    draft = Certificate(
        regret_bound=made.problem.span,
        tv_bound=tv_bound,
        statement=statement,
        assumptions=(
            acted,
            f"the outcome of step t is seen before the model speaks of step t + {lag}, whatever was done, and does not "
            "depend on the action drawn",
            f"{true}; a law is right if it is so given the outcomes that are {lag} or more steps old",
            "an outcome that never comes was given up before anyone could know it",
        ),
        theorem=theorem,
        problem=made.problem,
        horizon=horizon,
        terms={},
        guaranteed_payoff=guaranteed_by(made.fallback, made.temperature),
        terms_at=made.terms_at,
        let_pass=made.let_pass,
        between=interval,
        temperature=made.temperature,
        sharper=sharper,
    )
    return draft if horizon is None else draft.with_terms(made.terms_at(horizon), horizon)
