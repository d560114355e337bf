"""Actions of somebody's own in place of the best response: what is promised then, with its proof.

Until the alarm d_t is played, pure or mixed, known before the state: an expert's choice, a classifier's threshold, a
rule of the house. Bets are on what a comparator c gains over it, x = U(c) - U(d_t), and
g_t = max_a U(a, p_t) - U(d_t, p_t) >= 0, the *gap*, is what it is worth less by the stated law p_t itself. Under p_t
the mean of x is U(c, p_t) - U(d_t, p_t) <= g_t, and x has a range of at most R, the contrast: so it has for pure d_t,
and for a mixed one it is an average of those.

**What a bet is charged.** Alone: psi+, the logarithm of the mean of e^(lam x) under p_t, if that is above 0. Beside a
second bettor: the same of the law on the two ends of x that has its mean under p_t, or 0 if that is less.

**(i)** P(alarm) <= delta if p_t is the law of the state given all that is known before it, d_t included. Neither charge
is below psi: e^(lam x) lies below its chord, whose mean under p_t is that of the law on the ends, which rises with the
mean of x. So each bettor's wealth is a supermartingale under p_t, whatever is played. Who plays by what the law does
not know, and nobody has told the model, bets with inside information: then (i) says nothing.

**The half of delta** that bets on actions have beside a second bettor stays as it was, of what is *played*: if d_t is a
best response to the true law q_t, the mean of x under q_t is at most 0, and so the mean of e^(lam x) under q_t is at
most that of the law on the ends with mean 0, which is charged at least, however wrong p_t is. Psi+ alone, charged by
p_t, would not give that.

**(ii)** On steps j .. t without an alarm the regret of d to any comparator is below
sum g + min_k [ (t - j + 1) lam_k R^2 / 8 + ln(1 / (m delta)) ] / lam_k: by Hoeffding's lemma either charge is at most
lam max(0, mean of x) + lam^2 R^2 / 8 <= lam g_t + lam^2 R^2 / 8. The two-point form of ``best_response.kappa`` with
lam g_t added would not do: where x is skewed, a mean above 0 is charged more than that. Where every d_t is pure and
every g_t is 0 it is the best response's own play, and its own kappa stands; mixed best responses have ends of their
own, so they count as worth less by a trifle.

**(iv)** follows as it does without: what is lost before the alarm is (ii) from the first step on, and from the alarm on
the guard plays as it would anyway. There d_t stands where the model's response stood, as one of those that the budget
and safe play count, so "never much worse than the model" is said of what would have been played; the mixture holds the
model's law, and is answered by its best response. Only gaps of steps before the alarm add up. With a lag, contexts,
references and changing payoffs the sums are over all classes and contexts, R that of all that may come.
"""

from functools import partial
from typing import Any

import numpy as np

from ..problems import DecisionProblem
from .bounds import Bound
from .coupled import Charges
from .every_start import Prior, before_alarm


def kappa(problem: DecisionProblem, rate: Any) -> Any:
    """Hoeffding's lam^2 R^2 / 8: what a step is charged at most beyond lam g.

    >>> from lowregret import matching
    >>> float(kappa(matching(), 0.1).round(6))  # the best response is charged .004992 at most
    0.005
    """
    return (np.asarray(rate, dtype=np.float64) * problem.contrast) ** 2 / 8


def before(stakes: DecisionProblem, prior: Prior, delta: float, contexts: int, lag: int, steps: int) -> Bound:
    """Statement (ii) from the first step on without the gaps, for any number of steps: ``steps`` are not asked for.

    With outcomes that come late by the argument of ``late`` (ii), which never asks what the charges are.
    """
    costs_K = prior.log_costs_K(delta)
    costs_K = contexts * (costs_K if lag == 1 else lag * np.maximum(costs_K, 1.0))
    return partial(before_alarm, Charges(kappa(stakes, prior.rates_K)), prior.rates_K, costs_K, stakes.span)
