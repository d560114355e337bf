"""ExactTest with the urn: every start of a bettor is a row, and one head adds them up.

With S_t the sum of lam x - max(psi, 0) over the first t steps, a bettor on one action at one rate has after token t

    W_t = sum over starts j <= t of m_j exp(S_t - S_{j-1}).

Start j is row j - 1, which holds S_{j-1}. Row t looks at itself too, where m_{t+1} waits for the next token: the sum is
then W_t + m_{t+1}, and E_t is the sum of these over all bettors and the capital that is to join later still. Nothing of
this depends on how large a wealth is: only differences of logarithms are ever scores. But S itself may be at -3 T when
a model breaks, so it must be right to many digits: it is a mean, whose weights are exact whatever the exponential is
worth, times the position, bit by bit. As in ``exact.py`` what psi and S may be off by is asked for on top of 1/delta:
the alarm comes with the rule's or later.
"""

import math

import numpy as np

from ..rules import ExactTest
from . import gadgets
from .exact import psi, slack_of, tilts
from .layers import Head, Perceptron
from .parts import OUT_OF_REACH, Parts, Sharpness, Stage, utility_in_units
from .residual import FAR, Residual

ROOM = 2.0**40  # by how much SINK outweighs a wealth of 1/delta: shares are then wealth itself, but for 1/ROOM of it
CLEAR = 32.0  # e^-32 of a flag is none
# What cannot be built, and why. Most of it needs ``Recovery``, which is refused too.
NOT_BUILT = {
    "references": "what references say is no token",
    "contexts": "contexts are no tokens",
    "payoffs": "payoffs are weights",
    "actions": "actions are what is bet on",
    "likelihood": "the second bettor's mixture shares out its weights anew each step: that is as deep as it is long",
    "test": "the mixture of Recovery would have to be built",
}


def refuse_settings(rule: ExactTest) -> None:
    """Refuse, by name, the settings of an ``ExactTest`` that have no layers."""
    if rule.of_numbers:
        raise ValueError(
            f"rule must be for a DecisionProblem, whose states are tokens: got {type(rule.problem).__name__}"
        )
    for name, why in NOT_BUILT.items():
        usual, given = getattr(ExactTest, name), getattr(rule, name)
        if given != usual:
            raise ValueError(f"rule must have {name}={usual!r} to be built: {why}, got {given!r}")


def every_start_parts(rule: ExactTest, sharpness: Sharpness) -> Parts:
    """Trip where all bettors together have 1/delta, or at a token that was excluded."""
    problem, temperature, utility_AxS = rule.problem, rule.temperature, utility_in_units(rule.problem)
    assert temperature is not None
    order_K = np.argsort(-rule.rates_K)  # from the fastest down, as ``tilts`` takes them
    rates_K = rule.rates_K[order_K] * (problem.span or 1.0)
    first_K, later_K = (rule.prior.weights_K(start)[order_K] for start in (1, 2))
    (A, S), K = utility_AxS.shape, len(rates_K)
    error, needed_T = sharpness.slack / (2 * K), needed(rule, sharpness)

    def stages(x: Residual) -> list[Stage]:
        mean_SxD = utility_AxS.T @ x["base answer"]  # what the response earns in each state
        prices, psi_PxD = [], []
        for a in range(A):
            prices += tilts(x, utility_AxS[a][:, None] * x["one"] - mean_SxD, rates_K, error, f"tilt {a}")
            psi_PxD.append(psi(x, f"tilt {a}"))
        fetches = [
            gadgets.fetch(x, mean_SxD, "before"),
            gadgets.fetch(x, x["logits"] - x["logits"].mean(axis=0), "odds"),
        ]
        found = [
            gadgets.of_token(x, x["before"], "gain"),
            gadgets.excluded(x, x["odds"], "excluded"),
            charges(x, np.concatenate(psi_PxD)),
        ]
        lead_AxD = utility_AxS @ x["token"] - x["gain"]
        won_PxD = np.kron(lead_AxD, rates_K[:, None])  # action by action, rate by rate
        log_PxD = x["grown"] + x["growth"] + x["charge"]  # S: what the next step is charged is not paid yet
        most, bettors = rates_K[0] * needed_T.size, [(a, k) for a in range(A) for k in range(K)]
        heads = [
            starts(x, f"starts {a}, rate {k}", row[None], first_K[k], later_K[k], rule.delta, most)
            for (a, k), row in zip(bettors, log_PxD, strict=True)
        ]
        enough = 0.0 if rule.pointless else 2 * needed_T.max()
        excess = x["level"] - x["needed"] + enough * x["excluded"]
        return [
            Stage([gadgets.respond(x, "base", problem.utility, temperature, "base answer")], []),
            Stage(fetches + prices, found),
            Stage([gadgets.running_mean(x, won_PxD - x["charge"], "growth")], [times_position(x, "growth", "grown")]),
            Stage(heads, []),
            Stage([gadgets.any_above_zero(x, excess, sharpness.key)], [gadgets.select(x)]),
        ]

    sizes = {"base answer": A, "before": S, "odds": S, **{f"tilt {a}": K for a in range(A)}, "charge": A * K}
    sizes |= {"gain": 1, "excluded": 1, "growth": A * K, "grown": A * K, "level": 1, "needed": 1}
    late = slack_of(rule, sharpness) + 2 * CLEAR / sharpness.key
    return Parts(sizes, {"needed": needed_T}, {"needed": OUT_OF_REACH}, max(2 * S, A), stages, late)


def needed(rule: ExactTest, sharpness: Sharpness) -> np.ndarray:
    """What all wealth must reach after i tokens, in units of 1/delta, with what is to join by the next, ``[T]``.

    START has what joins first, and must have no excess. Slack and what a flag needs to be decided are asked for on top.
    """
    assert rule.horizon is not None
    row_T = np.arange(rule.horizon)
    needed_T = (
        math.exp(slack_of(rule, sharpness) / 2) + CLEAR / sharpness.key - rule.delta * rule.prior.unspent(row_T + 1)
    )
    needed_T[0] = rule.delta * rule.n_comparators * rule.prior.weights_K(1).sum()
    return needed_T


def charges(x: Residual, psi_PxD: np.ndarray) -> Perceptron:
    """max(psi, 0), what a bet on the next token is charged: no error but that of psi. Nothing on hidden rows.

    Cells do not see all cells, so their psi is none; but it is far below SHUT.
    """
    return Perceptron("charge", psi_PxD - gadgets.SHUT * x.hidden, np.eye(len(psi_PxD)), x.at("charge"))


def times_position(x: Residual, name: str, into: str) -> Perceptron:
    """i times what row i holds: the sum over the bits b of i of 2^b times it, where that bit is set.

    As in ``gadgets.of_token`` relu(v - 4 o) - relu(-v - 4 o), with o = 0 where the bit is set and else 1, is v or
    exactly 0, as |v| <= 4: no error but rounding. On hidden rows v must be 0.
    """
    value_PxD, unset_BxD = x[name], np.split(x["here"], 2)[1]
    inner, outer, P = [], [], len(value_PxD)
    for b, shut in enumerate(gadgets.GATE * unset_BxD):
        inner += [value_PxD - shut, -value_PxD - shut]
        outer += [2.0**b * np.eye(P), -(2.0**b) * np.eye(P)]
    return Perceptron("times the position", np.concatenate(inner), np.concatenate(outer, axis=1), x.at(into))


def starts(
    x: Residual, name: str, log_wealth: np.ndarray, first: float, later: float, delta: float, most: float
) -> Head:
    """What one bettor has from all starts, in units of 1/delta: a row scores ln m - S of its own, SINK ln R - S_t.

    With V = sum over rows r <= t of m_{r+1} exp(S_t - S_r) the rows have the share V / (V + R) of the weight. As
    R = ROOM / delta, ROOM times it is delta V (1 - V / (V + R)): never more than delta V, and less by 1/ROOM of it
    where it matters; beyond, it grows up to ROOM. S is at most ``most``, so cells, which score -most - FAR, are FAR
    below SINK: they hold nothing, and take at most N e of the denominator.
    """
    cells = x.cells.sum(axis=0, keepdims=True)
    joined = math.log(later) * x["is_token"] + math.log(first) * x.start
    query = np.concatenate([x["one"], math.log(ROOM / delta) * x["one"] - log_wealth])
    key = np.concatenate([joined - log_wealth - (most + FAR) * cells, x.sink])
    return Head(name, query, key, ROOM * (x["is_token"] + x.start), x.at("level"))
