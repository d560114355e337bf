"""ExactTest with its gate for two actions and two states, rounded so that the TV bound survives.

With z the logit of state 1, g(s) the gain in state s and D = g(1) - g(0), a step costs the bettor at rate lam

    psi(lam) - lam g(token) = softplus(z + lam D) - softplus(z) - lam D [token = 1].

The first softplus is replaced by chords above it, the second by tangents below it (``softplus``), so that the wealth
built is never larger than the wealth that is a martingale: the alarm comes with the rule's or later, TV <= delta stays.
Later by little: ln E falls short by at most ``shortfall`` a step. A token that the base had excluded sounds the alarm
at once, whatever was bet (``gadgets.excluded``).
"""

import math

import numpy as np

from ..rules import ExactTest
from . import gadgets, softplus
from .layers import Head, Perceptron
from .parts import Parts, Sharpness, Stage, answer_sizes
from .stream import FAR, Stream

KNOTS = 256
SHUT = 1024.0  # more than any logit: what registers pay so that no unit opens there


def shortfall(knots: int = KNOTS) -> float:
    """How much less ln E grows in a step than it should, at most: both softplus errors, found on a fine grid.

    >>> f"{shortfall():.1e}"
    '5.6e-05'
    """
    x = np.linspace(-40, 40, 80_001)
    exact = np.logaddexp(0, x)
    return float((softplus.above(knots)(x) - exact).max() + (exact - softplus.below(knots)(x)).max())


def exact_parts(rule: ExactTest, sharpness: Sharpness) -> Parts:
    """Trip where the mixture of wealths reaches 1/delta and the gap has risen, or at a token that was excluded."""
    problem, horizon = rule.problem, rule.horizon
    if (problem.n_actions, problem.n_states) != (2, 2):
        raise ValueError(
            "rule ExactTest has a compiled form for two actions and two states only: its problem has "
            f"{problem.n_actions} and {problem.n_states}"
        )
    assert horizon is not None
    assert rule.temperature is not None
    assert rule.delta is not None
    warmth, advantage_S, rates_K = rule.temperature, problem.advantage[0], rule.rates_K
    K, W = len(rates_K), 2.0 * horizon
    log_cost = math.log(K / rule.delta) + sharpness.slack
    place = np.arange(horizon, dtype=np.float64)
    rise_T = rule.gate * problem.span * np.sqrt(place) / W
    rise_T[0] = 2.0  # START never trips

    def stages(x: Stream) -> list[Stage]:
        ahead = x["urn answer"] - x["base answer"]  # by how much the urn's response plays action 1 more
        edge = (advantage_S[1] - advantage_S[0]) * ahead  # D
        fetches = [
            *(gadgets.fetch_sigmoid(x, law, advantage_S, warmth, f"{law} answer") for law in ("base", "urn")),
            gadgets.fetch(x, x["logits"] - x["logits"].mean(axis=0), "odds"),
        ]
        gains = [
            gadgets.of_token(x, advantage_S[:, None] * ahead, "gain"),
            gadgets.of_token(x, np.concatenate([0 * edge, edge]), "edge"),
            wagers(x, edge, rates_K),
            gadgets.excluded(x, x["odds"], "excluded"),
        ]
        level = softplus.above(KNOTS).level
        wealth_KxD = rates_K[:, None] * x["edge"] + x["wagered"] - level * x["is_token"]
        sums = gadgets.running_sum(x, np.concatenate([wealth_KxD, x["gain"]]), "sums")
        reached, rise = x["share"] - 0.5 * x["one"], x["sums"][K:] - x["low"] - x["rise"]
        if rule.gate:
            steps = gadgets.clamp(x, np.concatenate([reached, rise]), sharpness.step, "step")
            verdict = Stage([mixture(x, K, W, log_cost), lowest(x, x["sums"][K:], sharpness.key)], [steps])
        else:
            verdict = Stage([mixture(x, K, W, log_cost)], [gadgets.clamp(x, reached, sharpness.step, "step")])
        needed = x.sizes["step"]
        enough = np.concatenate([x["step"]] + [x["excluded"]] * needed)  # all steps, or a token that was excluded
        return [
            Stage(fetches, gains),
            Stage([sums], []),
            verdict,
            Stage([gadgets.any_of(x, enough, needed)], [gadgets.select(x)]),
        ]

    sizes = {
        **answer_sizes(rule, ["base", "urn"]),
        **{"odds": 2, "gain": 1, "edge": 1, "excluded": 1, "wagered": K, "rest": 1, "sums": K + 1, "share": 1},
        **({"low": 1, "rise": 1, "step": 2} if rule.gate else {"low": 0, "rise": 0, "step": 1}),
    }
    columns = {"rest": np.log(W - place), **({"rise": rise_T} if rule.gate else {})}
    return Parts(sizes, columns, {"rise": 2.0} if rule.gate else {}, K, stages)


def wagers(x: Stream, edge: np.ndarray, rates_K: np.ndarray) -> Perceptron:
    """softplus(z) from below minus softplus(z + lam D) from above, less its level, for every rate; 0 on registers.

    The errors of ``softplus`` add up to ``shortfall``, on the safe side. Registers pay SHUT in every unit: as their
    z + lam D is less than that (|z| < 1000, |lam D| <= 8), no unit opens there.
    """
    upper, lower, K = softplus.above(KNOTS), softplus.below(KNOTS), len(rates_K)
    odds = x["odds"][1:] - x["odds"][:1]
    shut = SHUT * x["register"].sum(axis=0)
    inner, outer = [], np.zeros((K, (K + 1) * KNOTS))
    for k, rate in enumerate(rates_K):
        inner.append(odds + rate * edge - upper.kink_F[:, None] * x["one"] - shut)
        outer[k, k * KNOTS : (k + 1) * KNOTS] = -upper.rise_F
    inner.append(odds - lower.kink_F[:, None] * x["one"] - shut)
    outer[:, K * KNOTS :] = lower.rise_F
    return Perceptron("wagers", np.concatenate(inner), outer, x.at("wagered"))


def mixture(x: Stream, n_rates: int, scale: float, log_cost: float) -> Head:
    """E against 1/delta: cell k scores the log wealth at rate k, START scores ln(K / delta).

    The cells' share is at least 1/2 if and only if sum_k exp(wealth_k) >= K / delta. All other rows score -FAR, below
    START's positive score: they take at most N e of the denominator, which lowers the share.
    """
    cells_KxD = x.cells[:n_rates]
    others = x["one"] - cells_KxD.sum(axis=0) - x.start
    query = np.concatenate([scale * x["sums"][:n_rates], x["one"]])
    key = np.concatenate([cells_KxD, log_cost * x.start - FAR * others])
    return Head("mixture", query, key, cells_KxD.sum(axis=0, keepdims=True), x.at("share"))


def lowest(x: Stream, gap: np.ndarray, sharpness: float) -> Head:
    """The lowest gap so far, START's 0 included: rows score -beta * gap.

    The mixture is at least the minimum and at most ln(N) / beta above it: the rise built is never larger than the true
    one. |gap| <= 1 (it is over W = 2T), so that hidden rows at -3 beta stay unseen.
    """
    return Head("lowest", x["one"], -sharpness * gap - 3 * sharpness * x.hidden, gap, x.at("low"))
