"""ExactTest with its gate, for any number of actions and states, so exact that the TV bound survives.

A bettor at rate lam has the log wealth lam G_t - sum of psi(lam) over the steps so far, where psi belongs to the law
before the step. It is found in that law's own row (``tilt``), for the token that comes next: a row's wealth is the sum
over all rows so far, with its own psi added back. Responses may be rounded: a bet on anything known before the token is
fair as long as its psi is right. What psi and the sums are off by at most, ``slack`` a step, is asked for on top of
1/delta: the alarm comes with the rule's or later, TV <= delta stays. A token that the base had excluded sounds it at
once, whatever was bet (``gadgets.excluded``).
"""

import math

import numpy as np

from ..rules import ExactTest
from . import gadgets, tilt
from .layers import Head
from .parts import Parts, Sharpness, Stage
from .stream import FAR, Stream


def exact_parts(rule: ExactTest, sharpness: Sharpness) -> Parts:
    """Trip where the mixture of wealths reaches 1/delta and the gap has risen, or at a token that was excluded."""
    problem, horizon, warmth, laws = rule.problem, rule.horizon, rule.temperature, ("base", "urn")
    assert horizon is not None
    assert warmth is not None
    assert rule.delta is not None
    rates_K = rule.rates_K
    K, W = len(rates_K), 2.0 * horizon
    log_cost = math.log(K / rule.delta) + sharpness.slack * horizon
    place = np.arange(horizon, dtype=np.float64)
    rise_T = rule.gate * problem.span * np.sqrt(place) / W

    def stages(x: Stream) -> list[Stage]:
        gain_SxD = problem.utility.T @ (x["urn answer"] - x["base answer"])
        answers = [gadgets.respond(x, law, problem.utility, warmth, f"{law} answer") for law in laws]
        fetches = [
            gadgets.fetch(x, gain_SxD, "before"),
            gadgets.fetch(x, x["logits"] - x["logits"].mean(axis=0), "odds"),
            *tilt.tilts(x, gain_SxD, rates_K, sharpness.slack / (2 * K), "tilt"),
        ]
        gains = [gadgets.of_token(x, x["before"], "gain"), gadgets.excluded(x, x["odds"], "excluded")]
        psi_KxD = tilt.psi(x, "tilt")
        grown = np.concatenate([rates_K[:, None] * x["gain"] - psi_KxD, x["gain"]])
        bets = mixture(x, W * x["sums"][:K] + psi_KxD, log_cost)
        reached, gap = x["share"] - 0.5 * x["one"], x["sums"][K:]
        if rule.gate:
            excess = np.concatenate([reached, gap - x["low"] - x["rise"]])
            verdict = Stage([bets, lowest(x, gap, sharpness.key)], [gadgets.clamp(x, excess, sharpness.step, "step")])
        else:
            verdict = Stage([bets], [gadgets.clamp(x, reached, sharpness.step, "step")])
        needed = x.sizes["step"]
        enough = np.concatenate([x["step"]] + [x["excluded"]] * needed)  # all steps, or a token that was excluded
        return [
            Stage(answers, []),
            Stage(fetches, gains),
            Stage([gadgets.running_sum(x, grown, "sums")], []),
            verdict,
            Stage([gadgets.any_of(x, enough, needed)], [gadgets.select(x)]),
        ]

    A, S = problem.n_actions, problem.n_states
    sizes = {
        **{"base answer": A, "urn answer": A, "before": S, "odds": S, "tilt": K, "gain": 1, "excluded": 1},
        **{"rest": 1, "sums": K + 1, "share": 1},
        **({"low": 1, "rise": 1, "step": 2} if rule.gate else {"step": 1}),
    }
    columns = {"rest": np.log(W - place - 1), **({"rise": rise_T} if rule.gate else {})}
    return Parts(sizes, columns, {}, max(2 * S, A, K), stages)


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
