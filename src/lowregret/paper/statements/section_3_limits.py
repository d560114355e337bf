"""Beyond Section 3: what no rule that switches once can promise."""

import math
from typing import Any

import numpy as np

from ...certificates.limits import limit
from ...policies import Minimax
from ...problems import matching
from ...rules import ExactTest
from .claims import Finding, at_most, equals, statement

COIN = matching()


@statement(
    "The limit of switching once",
    "Beyond the paper: no rule that switches once, falsely with chance at most delta, promises less than a limit, by a "
    "dynamic programme: .218 for guessing bits at T = 24 and delta = 2/T (.260 for models that adapt), certified .324.",
    verdict="beyond",
)
def the_limit_brackets_the_certificates() -> Finding:
    """The programme beside a recursion over all histories of seven bits, for laws 1/200 apart; the bracket at T = 24
    and 128, for both kinds of models, at the usual temperature and at the one that suits the certificate."""
    brute, table = limit_by_histories(7, 2 / 7), limit(COIN, 7, 2 / 7)
    claims = [equals("the limit, T = 7, against all histories", table, brute, 0.01 * brute)]
    temperatures: list[Any] = [None, "certificate"]
    for T in (24, 128):
        for warmth in temperatures:
            rule = ExactTest(COIN, T, delta=2 / T, temperature=warmth, fallback=Minimax(COIN, T))
            found = rule.certificate.limit
            assert found is not None
            named = f"T = {T}" + ("" if warmth is None else ", at the certificate's temperature")
            claims.append(at_most(f"limit and certificate, {named}", found, rule.certificate.regret_bound))
    adaptive = limit(COIN, 24, 2 / 24, base="adaptive")
    bound = ExactTest(COIN, 24, delta=2 / 24, fallback=Minimax(COIN, 24)).certificate.regret_bound
    claims += [
        equals("the limit, T = 24", limit(COIN, 24, 2 / 24), 0.218, 5e-4),
        at_most("the limit for one law and for models that adapt, T = 24", limit(COIN, 24, 2 / 24), adaptive),
        at_most("the limit for models that adapt and the certificate, T = 24", adaptive, bound),
    ]
    return Finding(claims)


def limit_by_histories(T: int, delta: float) -> float:
    """The least regret that a stopping time of chance delta can keep, for the worst of 199 laws: by all histories.

    >>> round(limit_by_histories(3, 0.5), 3)
    0.496
    """
    law_P = np.linspace(0.0, 1.0, 201)[1:-1]
    eta = T**-0.5
    q_P = 1 / (1 + np.exp(-(2 * law_P - 1) / eta))
    low_P, high_P = np.zeros(len(law_P)), np.full(len(law_P), float(T))
    for _ in range(30):
        total_P = (low_P + high_P) / 2
        kept = cost_of(0, 0, np.zeros(len(law_P)), T, law_P, q_P, total_P) <= delta
        low_P, high_P = np.where(kept, low_P, total_P), np.where(kept, total_P, high_P)
    return float(high_P.max()) / T


def cost_of(
    t: int, lead: int, lost_P: np.ndarray, T: int, law_P: np.ndarray, q_P: np.ndarray, total_P: np.ndarray
) -> np.ndarray:
    """The least chance of a stop that keeps the regret at ``total`` from this history on, for each law.

    ``lost``: the regret to action 0; ``lead``: what action 1 has earned more; stopped, minimax play owes E (lead +
    S_n)^+ more.
    """
    n = T - t
    walk = lead + n - 2 * np.arange(n + 1)
    owed = sum(math.comb(n, k) * max(float(walk[k]), 0.0) for k in range(n + 1)) / 2**n
    broken = lost_P + owed > total_P
    if t == T:
        return np.where(broken, np.inf, 0.0)
    # A 1 earns action 0 nothing and the response q; a 0 earns action 0 one and the response 1 - q.
    one = cost_of(t + 1, lead + 1, lost_P - q_P, T, law_P, q_P, total_P)
    zero = cost_of(t + 1, lead - 1, lost_P + q_P, T, law_P, q_P, total_P)
    with np.errstate(invalid="ignore"):
        on = law_P * one + (1 - law_P) * zero
    return np.where(broken, np.inf, np.minimum(1.0, on))
