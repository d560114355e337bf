"""FirstTest with its gate, for any number of actions and states, so exact that the TV bound survives.

A bettor at rate lam has the log wealth lam G_t - sum of psi(lam) over the steps so far, where psi belongs to the law
before the step. It is found in that law's own row (``tilt``), for the token that comes next: a row's wealth is the sum
over all rows so far, with its own psi added back. Responses may be rounded: a bet on anything known before the token is
fair as long as its psi is right. What psi and the sums are off by at most, ``slack`` a step, is asked for on top of
1/delta: the alarm comes with the rule's or later, TV <= delta stays. A token that the base had excluded sounds it at
once, whatever was bet (``gadgets.excluded``).
"""

import math

import numpy as np

from .. import certificates
from ..rules import FirstTest, ResponseRule
from . import gadgets, tilt
from .layers import Head
from .parts import Parts, Sharpness, Stage, utility_in_units
from .residual import FAR, Stream


def exact_parts(rule: FirstTest, sharpness: Sharpness) -> Parts:
    """Trip where the mixture of wealths reaches 1/delta and the gap has risen, or at a token that was excluded."""
    problem, warmth, rates_K, K = rule.problem, rule.temperature, rates_in_units(rule), len(rule.rates_K)
    assert warmth is not None

    def stages(x: Stream) -> list[Stage]:
        gain_SxD = utility_in_units(problem).T @ (x["urn answer"] - x["base answer"])
        answers = [gadgets.respond(x, law, problem.utility, warmth, f"{law} answer") for law in ("base", "urn")]
        fetches = [
            gadgets.fetch(x, gain_SxD, "before"),
            gadgets.fetch(x, x["logits"] - x["logits"].mean(axis=0), "odds"),
            *tilt.tilts(x, gain_SxD, rates_K, sharpness.slack / (2 * K), "tilt"),
        ]
        gains = [gadgets.of_token(x, x["before"], "gain"), gadgets.excluded(x, x["odds"], "excluded")]
        psi_KxD = tilt.psi(x, "tilt")
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


def slack_of(rule: FirstTest, sharpness: Sharpness) -> float:
    """What is asked for on top of ln(1/delta), and once more for what psi and the sums may be off the other way."""
    assert rule.horizon is not None
    return 2 * sharpness.slack * rule.horizon


def later(rule: ResponseRule, late: float) -> float:
    """How much more regret a step an alarm may cost that needs ``late`` more of ln E."""
    if not isinstance(rule, FirstTest):
        return 0.0
    assert rule.horizon is not None
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


def scale(rule: FirstTest) -> float:
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


def verdict(x: Stream, rule: FirstTest, wealth_KxD: np.ndarray, sharpness: Sharpness) -> list[Stage]:
    """The last two layers: has enough been won and has the gap risen, or was a token excluded; ever?"""
    assert rule.delta is not None
    log_cost = math.log(len(wealth_KxD) / rule.delta) + slack_of(rule, sharpness) / 2
    bets, excess, gap = [mixture(x, wealth_KxD, log_cost)], x["share"] - 0.5 * x["one"], x["sums"][-1:]
    if rule.gate:
        bets.append(lowest(x, gap, sharpness.key))
        excess = np.concatenate([excess, gap - x["low"] - x["rise"]])
    needed = x.sizes["step"]
    enough = np.concatenate([x["step"]] + [x["excluded"]] * needed)  # all steps, or a token that was excluded
    return [
        Stage(bets, [gadgets.clamp(x, excess, sharpness.step, "step")]),
        Stage([gadgets.any_of(x, enough, needed)], [gadgets.select(x)]),
    ]


def mixture(x: Stream, wealth_KxD: np.ndarray, log_cost: float) -> Head:
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


def lowest(x: Stream, gap: np.ndarray, sharpness: float) -> Head:
    """The lowest gap so far, START's 0 included: rows score -beta * gap.

    The mixture is at least the minimum and at most ln(N) / beta above it: the rise built is never larger than the true
    one. |gap| <= 1 (it is over W = 2T), so that hidden rows at -3 beta stay unseen.
    """
    return Head("lowest", x["one"], -sharpness * gap - 3 * sharpness * x.hidden, gap, x.at("low"))
