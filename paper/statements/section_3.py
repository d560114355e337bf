"""Section 3: unbounded context, Algorithm 1."""

import math
from typing import Any

import numpy as np

from lowregret.engine import Setting
from lowregret.evaluate.adversaries import all_sequences, exact_worst_case
from lowregret.evaluate.regret import external_regret
from lowregret.policies import Respond
from lowregret.predictors import Markov, PolyaUrn, Predictor, Scheduled, sample
from lowregret.problems import DecisionProblem, matching, rock_paper_scissors
from lowregret.robust.robustify import robustify
from lowregret.rules import RegretGap

from .claims import Claim, against, at_least, equals, statement

COIN = matching()
# Guessing bits for +1 and -1: with utilities that fill [-1, 1] the printed threshold can be reached within 12 steps.
PLUS_MINUS = DecisionProblem([[1, -1], [-1, 1]])
THIRD = Scheduled([[2 / 3, 1 / 3]])  # says 1 with probability 1/3


@statement(
    "3, the example",
    "A model that says 1 with probability 1/3 never predicts right on the sequence of all zeros.",
    verdict="false",
    quotes=[
        r"if the adversary selects the all-zero sequence of states $\state_t = 0$, this model will never predict "
        r"the next "
        "state correctly"
    ],
    corrected="It is right on all zeros; the sequence that it never predicts right is all ones. What the example is "
    "for stands: the model has regret of order 1 on some sequence.",
)
def the_example() -> list[Claim]:
    """Quantal responses at T = 1024, and the exact worst case over all sequences."""
    T, player = 1024, Respond(THIRD, COIN, 1 / 32)
    right = {bit: player.policy_sequence(np.full(T, bit))[:, bit].mean() for bit in (0, 1)}
    worst = exact_worst_case(THIRD, COIN, T)
    ones = external_regret(COIN, player, np.ones(T, dtype=int))[-1]
    return [
        at_least("regret of all ones", ones, 0.5),
        equals("regret of all ones, against the worst of all sequences", ones, worst.regret, 1e-12),
        equals("ones in the worst sequence", int(worst.tokens.sum()), T, 0),
        against(equals("share of right guesses on all zeros", right[0], 0, within=0.01)),
    ]


@statement("Algorithm 1", "The model as it is until its regret leads the urn's by the threshold; the urn from then on.")
def algorithm_1() -> list[Claim]:
    """The pseudo-code line by line, regrets and their maxima and all, against Robust with RegretGap: all sequences of
    12 bits, and 300 sequences of 60 steps each from sources that the models do not expect, in two games whose
    utilities fill [-1, 1] (so that the threshold is within reach)."""
    T, rps, rng = 60, rock_paper_scissors(), np.random.default_rng(0)
    turn = Markov(np.full((3, 3), 0.1) + 0.7 * np.roll(np.eye(3), 1, axis=1), 1)
    tries: list[tuple[DecisionProblem, Predictor, np.ndarray]] = [
        (PLUS_MINUS, Scheduled([[0.9, 0.1]]), all_sequences(2, 12)),
        (PLUS_MINUS, Scheduled([[0.7, 0.3]]), sample(Scheduled([[0.1, 0.9]]), T, 300, rng)),
        (rps, turn, sample(PolyaUrn(3, 0.1), T, 300, rng)),
    ]
    apart, switched = [], []
    for problem, model, tokens in tries:
        test, probs = RegretGap(tokens.shape[1], alpha=0.01), model.predict_sequence(tokens)
        literal = [as_printed(p, x, problem, len(x), test.alpha) for p, x in zip(probs, tokens, strict=True)]
        robust = robustify(model, problem, test=test)
        apart.append(np.abs(robust.predict_sequence(tokens) - np.stack(literal)).max())
        switched.append((robust.alarm_times(tokens) < tokens.shape[1]).mean())
    return [
        equals("predictions, against the pseudo-code: largest distance", max(apart), 0, 1e-12),
        at_least("share that switches: all sequences of 12 bits", switched[0], 1 / 4096),
        at_least("share that switches: 60 bits", switched[1], 0.1),
        at_least("share that switches: 60 rounds of rock, paper, scissors", switched[2], 0.1),
    ]


def as_printed(
    probs_TxS: np.ndarray, tokens_T: np.ndarray, problem: DecisionProblem, horizon: int, alpha: float
) -> np.ndarray:
    """Algorithm 1, literally: what it returns at t = 1 .. T on one sequence, ``[T, S]``; natural logarithms."""
    eta, U, (A, S) = 1 / math.sqrt(horizon), problem.utility, problem.utility.shape
    urn = [(1 + np.bincount(tokens_T[:s], minlength=S)) / (S + s) for s in range(len(tokens_T))]
    earned, earned_hedge, fixed, out, returned = 0.0, 0.0, np.zeros(A), [], False
    for t in range(1, len(tokens_T) + 1):
        out.append(urn[t - 1] if returned else probs_TxS[t - 1])
        token = tokens_T[t - 1]
        earned += quantal(U @ probs_TxS[t - 1], eta) @ U[:, token]
        earned_hedge += quantal(U @ urn[t - 1], eta) @ U[:, token]
        fixed += U[:, token]
        regret, regret_hedge = max(fixed - earned) / t, max(fixed - earned_hedge) / t
        threshold = eta * math.log(A) + math.sqrt(8 * (1 + alpha) * math.log(horizon) / t)
        returned = returned or regret >= regret_hedge + threshold
    return np.stack(out)


def threshold_at(setting: Setting, steps: Any) -> Any:
    """What the gap of ``RegretGap``, a sum over the steps, must reach."""
    watch: Any = setting.watch
    return watch.threshold_at(steps)


def quantal(utility_A: np.ndarray, eta: float) -> np.ndarray:
    """The quantal response by its definition."""
    weight = np.exp((utility_A - utility_A.max()) / eta)
    return weight / weight.sum()
