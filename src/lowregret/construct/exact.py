"""FirstTest with its gate, for any number of actions and states, so exact that the TV bound survives.

A bettor at rate lam has the log wealth lam G_t - sum of psi(lam) over the steps so far, where psi belongs to the law
before the step. It is found in that law's own row (``tilts``), for the token that comes next: a row's wealth is the sum
over all rows so far, with its own psi added back. Responses may be rounded: a bet on anything known before the token is
fair as long as its psi is right. What psi and the sums are off by at most, ``slack`` a step, is asked for on top of
1/delta: the alarm comes with the rule's or later, TV <= delta stays. A token that the base had excluded sounds it at
once, whatever was bet (``gadgets.excluded``).
"""

import math

import numpy as np

from .. import certificates
from ..rules import ExactTest, FirstTest, ResponseRule
from . import gadgets
from .layers import Head
from .parts import Parts, Sharpness, Stage, utility_in_units
from .residual import FAR, Residual

# The exact test's psi(lam) = ln sum_s p(s) exp(lam x(s)) out of attention alone: a Gauss quadrature of the logarithm.
#
# Let w be the ratio of two sums of exponentials, here those of psi at a rate and at the next slower one. Then
#
#     ln w = integral over s in (0, 1) of (w - 1) / (1 - s + s w) = sum over nodes s of weight (A / s - B / (1 - s)),
#
# where A = s w / (1 - s + s w) and B = 1 - A are shares of a softmax: cells that score the logarithms of the terms of
# the numerator plus ln s, and as many for the denominator plus ln(1 - s). A head for each node, no knots, no ReLU. The
# sum is the diagonal Pade approximant of the logarithm; its error falls geometrically with the number of nodes.


def nodes(largest: float, error: float) -> tuple[np.ndarray, np.ndarray]:
    """The fewest nodes in (0, 1), and their weights, that give every |ln w| <= ``largest`` within ``error``.

    With z = coth(ln w / 2) the error is 2 Q(z) / P(z), P and Q the Legendre functions of the two kinds. As the
    derivative of Q / P is -1 / ((z^2 - 1) P^2), it is largest at the end of the range, where it is tried.

    >>> [len(nodes(largest, 1e-13)[0]) for largest in (2, 1, 0.5, 0.03)]
    [21, 11, 8, 3]
    """
    n, found = 0, np.inf
    while abs(found - largest) > error:
        n += 1
        point_M, weight_M = np.polynomial.legendre.leggauss(n)
        node_M, weight_M = (1 + point_M) / 2, weight_M / 2
        found = float(weight_M @ (np.expm1(largest) / (1 + node_M * np.expm1(largest))))
    return node_M, weight_M


def tilts(x: Residual, gain_SxD: np.ndarray, rates_K: np.ndarray, error: float, into: str) -> list[Head]:
    """psi at each rate less psi at the next, the slowest less 0, for the row's own law; ``psi`` adds them up.

    Rates come from the fastest down and at most halve, and |d psi / d lam| <= max |x| <= 1, so that with lam <= 4 the
    first difference is at most 2, each further one half of that: few nodes. Of 2S cells the best scores at least
    -ln 2 - 4 (logits are centred: their maximum is at least 0); all other rows score -FAR - 8 and hold nothing: they
    take at most N e of each share. As A / s and B / (1 - s) are at most e^2, each difference is off by at most
    ``error`` + 16 N e.
    """
    n_states = len(gain_SxD)
    cells_2SxD = x.cells[: 2 * n_states]
    centred_SxD = x["logits"] - x["logits"].mean(axis=0)
    key = np.concatenate([cells_2SxD, -(FAR + 8) * (x["one"] - cells_2SxD.sum(axis=0))])
    heads = []
    for k, (rate, slower) in enumerate(zip(rates_K, [*rates_K[1:], 0.0], strict=True)):
        at = slice(x.at(into).start + k, x.at(into).start + k + 1)
        for node, weight in zip(*nodes(rate - slower, error), strict=True):
            faster_SxD = centred_SxD + rate * gain_SxD + np.log(node) * x["one"]
            slower_SxD = centred_SxD + slower * gain_SxD + np.log1p(-node) * x["one"]
            value_2S = weight * np.repeat([1 / node, -1 / (1 - node)], n_states)
            query = np.concatenate([faster_SxD, slower_SxD, x["one"]])
            heads.append(Head(f"{into} {k}, node {node:.4g}", query, key, value_2S[None] @ cells_2SxD, at))
    return heads


def psi(x: Residual, name: str) -> np.ndarray:
    """psi at each rate, ``[K, D]``: the differences from the slowest rate up."""
    n_rates = x.sizes[name]
    return np.triu(np.ones((n_rates, n_rates))) @ x[name]


def exact_parts(rule: FirstTest, sharpness: Sharpness) -> Parts:
    """Trip where the mixture of wealths reaches 1/delta and the gap has risen, or at a token that was excluded."""
    problem, temperature, rates_K, K = rule.problem, rule.temperature, rates_in_units(rule), len(rule.rates_K)
    assert temperature is not None

    def stages(x: Residual) -> list[Stage]:
        gain_SxD = utility_in_units(problem).T @ (x["urn answer"] - x["base answer"])
        answers = [gadgets.respond(x, law, problem.utility, temperature, f"{law} answer") for law in ("base", "urn")]
        fetches = [
            gadgets.fetch(x, gain_SxD, "before"),
            gadgets.fetch(x, x["logits"] - x["logits"].mean(axis=0), "odds"),
            *tilts(x, gain_SxD, rates_K, sharpness.slack / (2 * K), "tilt"),
        ]
        gains = [gadgets.of_token(x, x["before"], "gain"), gadgets.excluded(x, x["odds"], "excluded")]
        psi_KxD = psi(x, "tilt")
        grown = np.concatenate([rates_K[:, None] * x["gain"] - psi_KxD, x["gain"]])
        return [
            Stage(answers, []),
            Stage(fetches, gains),
            Stage([gadgets.running_sum(x, grown, "sums")], []),
            *verdict(x, rule, scale(rule) * x["sums"][:K] + psi_KxD, sharpness),
        ]

    A, S = problem.n_actions, problem.n_states
    sizes = {"base answer": A, "urn answer": A, "before": S, "odds": S, "tilt": K, "gain": 1, "excluded": 1}
    return Parts(
        {**sizes, **verdict_sizes(rule)}, verdict_columns(rule), {}, max(2 * S, A, K), stages, slack_of(rule, sharpness)
    )


def slack_of(rule: ResponseRule, sharpness: Sharpness) -> float:
    """What is asked for on top of ln(1/delta), and once more for what psi and the sums may be off the other way."""
    assert rule.horizon is not None
    return 2 * sharpness.slack * rule.horizon


def later(rule: ResponseRule, late: float) -> float:
    """How much more regret a step an alarm may cost that needs ``late`` more of ln E."""
    if not isinstance(rule, FirstTest | ExactTest):
        return 0.0
    assert rule.horizon is not None
    if isinstance(rule, ExactTest):  # statement (iv): B is a minimum of [charges + ln(1 / (m delta))] / rate
        return late / (float(rule.rates_K.min()) * rule.horizon)
    exact, rounded = (
        certificates.exact_test(
            rule.problem, rule.horizon, rule.temperature, rule.rates_K, rule.log_costs_K + more, rule.gate
        )
        for more in (0.0, late)
    )
    return sum(rounded.values()) - sum(exact.values())


def rates_in_units(rule: FirstTest) -> np.ndarray:
    """The rates for gains in units of the span, as all are here: 4, 2, 1, ..., whatever the problem."""
    return rule.rates_K * (rule.problem.span or 1.0)


def scale(rule: ResponseRule) -> float:
    """What sums are divided by: W = 2T."""
    assert rule.horizon is not None
    return 2.0 * rule.horizon


def verdict_sizes(rule: FirstTest) -> dict[str, int]:
    """The subspaces that ``verdict`` and the sums before it need."""
    return {
        **{"rest": 1, "sums": len(rule.rates_K) + 1, "share": 1},
        **({"low": 1, "rise": 1, "step": 2} if rule.gate else {"step": 1}),
    }


def verdict_columns(rule: FirstTest) -> dict[str, np.ndarray]:
    """What they know of each position: how much is left of W, and how far the gap must have risen."""
    place, W = np.arange(rule.horizon or 0, dtype=np.float64), scale(rule)
    rise_T = np.minimum(rule.gate * np.sqrt(place) / W, 2.0)
    return {"rest": np.log(W - place - 1), **({"rise": rise_T} if rule.gate else {})}


def verdict(x: Residual, rule: FirstTest, wealth_KxD: np.ndarray, sharpness: Sharpness) -> list[Stage]:
    """The last two layers: has enough been won and has the gap risen, or was a token excluded; ever?"""
    assert rule.delta is not None
    log_cost = math.log(len(wealth_KxD) / rule.delta) + slack_of(rule, sharpness) / 2
    bets, excess, gap = [mixture(x, wealth_KxD, log_cost)], x["share"] - 0.5 * x["one"], x["sums"][-1:]
    if rule.gate:
        bets.append(lowest(x, gap, sharpness.key))
        excess = np.concatenate([excess, gap - x["low"] - x["rise"]])
    needed = x.sizes["step"]
    alone = 0 if rule.pointless else needed
    enough = np.concatenate([x["step"]] + [x["excluded"]] * alone)  # all steps, or a token that was excluded
    return [
        Stage(bets, [gadgets.clamp(x, excess, sharpness.step, "step")]),
        Stage([gadgets.any_of(x, enough, needed)], [gadgets.select(x)]),
    ]


def mixture(x: Residual, wealth_KxD: np.ndarray, log_cost: float) -> Head:
    """E against 1/delta: cell k scores the log wealth at rate k, START scores ln(K / delta).

    The cells' share is at least 1/2 if and only if sum_k exp(wealth_k) >= K / delta. All other rows score -FAR, below
    START's positive score: they take at most N e of the denominator, which lowers the share. At START the wealth is 0:
    nothing is reached.
    """
    cells_KxD = x.cells[: len(wealth_KxD)]
    others = x["one"] - cells_KxD.sum(axis=0) - x.start
    query = np.concatenate([wealth_KxD, x["one"]])
    key = np.concatenate([cells_KxD, log_cost * x.start - FAR * others])
    return Head("mixture", query, key, cells_KxD.sum(axis=0, keepdims=True), x.at("share"))


def lowest(x: Residual, gap: np.ndarray, sharpness: float) -> Head:
    """The lowest gap so far, START's 0 included: rows score -beta * gap.

    The mixture is at least the minimum and at most ln(N) / beta above it: the rise built is never larger than the true
    one. |gap| <= 1 (it is over W = 2T), so that hidden rows at -3 beta stay unseen.
    """
    return Head("lowest", x["one"], -sharpness * gap - 3 * sharpness * x.hidden, gap, x.at("low"))
