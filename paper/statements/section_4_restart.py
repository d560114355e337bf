"""Section 4: bounded context, restarted copies."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowregret.checks import LawBroken, check_window
from lowregret.engine import ExactTest
from lowregret.evaluate.adversaries import all_sequences, beam, exact_worst_case, worst_case_by_counts
from lowregret.evaluate.distances import exact_sequence_tv
from lowregret.evaluate.regret import external_regret
from lowregret.policies import Hedge, Respond, RestartHedge
from lowregret.predictors import FromFunction, Markov, PolyaUrn, Predictor, sample
from lowregret.problems import DecisionProblem, matching, rock_paper_scissors
from lowregret.robust import AverageRestart
from lowregret.robust.average_restart import theorem_4_2

from .claims import Claim, against, at_least, at_most, equals, statement
from .exhaustive import some_problem
from .section_3 import PLUS_MINUS, quantal

COIN = matching()
ALTERNATOR = Markov([[0.2, 0.8], [0.8, 0.2]], 1)


@statement(
    "4, bounded recall",
    "Hedge started anew every D steps, and the average of its copies started at each of the last D steps, have regret "
    "O(1/sqrt(D)) on every sequence.",
    verdict="constant",
)
def bounded_recall() -> list[Claim]:
    """Guessing bits: one copy started anew, exactly, since its worst block repeated is its worst sequence; the average
    by runs of ones and zeros of several lengths over 6 D steps, and a beam. Twelve random games, all sequences of 11,
    both, at every step."""
    lengths, rng, used = [4, 16, 64, 256], np.random.default_rng(0), []
    for _ in range(12):
        problem, averaged = some_problem(rng, most_states=2), bool(rng.integers(2))
        player = RestartHedge(problem, int(rng.integers(2, 8)), averaged)
        regret = external_regret(problem, player, all_sequences(2, 11)).max(axis=0)
        used.append(max(regret / [player.regret_bound(problem, t, None) for t in range(1, 12)]))
    one = {D: RestartHedge(COIN, D, averaged=False) for D in lengths}
    block = {D: exact_worst_case(Hedge(COIN, D), COIN, D) for D in lengths}
    repeated = {D: external_regret(COIN, one[D], np.tile(block[D].tokens, 10))[-1] for D in lengths}
    apart = max(abs(repeated[D] - (worst_case_by_counts(Hedge(COIN, D), COIN, D, None) or math.nan)) for D in lengths)
    every = {D: RestartHedge(COIN, D) for D in lengths}
    found = {D: external_regret(COIN, every[D], runs(D, 6 * D))[:, -1].max() for D in lengths}
    hunted = beam(every[16], COIN, 96, width=64).regret

    return [
        at_most("one copy, exact worst regret, D = 256", repeated[256], one[256].regret_bound(COIN, 2560, None)),
        at_most("average, regret found, D = 256", found[256], every[256].regret_bound(COIN, 6 * 256, None)),
        at_most("average, regret that a beam finds, D = 16", hunted, every[16].regret_bound(COIN, 96, None)),
        at_most("regret / bound, 12 random games, all sequences, every step: largest", max(used), 1),
        equals("worst block repeated, against its regret once: largest distance", apart, 0, 1e-9),
        equals("tokens that the average of 6 copies looks back", looks_back(RestartHedge(COIN, 6), 8), 5, 0),
    ]


def runs(copies: int, steps: int) -> np.ndarray:
    """Sequences of ones and zeros in turn, of every two lengths from a quarter of ``copies`` up, ``[25, steps]``.

    >>> runs(4, 8)[1].tolist()
    [1, 0, 0, 1, 0, 0, 1, 0]
    """
    lengths = [copies // 4 * quarters for quarters in (1, 2, 3, 4, 24)]
    cycles = [np.repeat([1, 0], [ones, zeros]) for ones in lengths for zeros in lengths]
    return np.stack([np.resize(cycle, steps) for cycle in cycles])


def looks_back(predictor: Any, most: int) -> int:
    """The least number of last tokens after which no earlier one matters, if it is at most ``most``.

    >>> looks_back(ALTERNATOR, 3)
    1
    """
    for length in range(most, -1, -1):
        try:
            check_window(predictor, length)
        except LawBroken:
            return length + 1
    return 0


@statement(
    "Algorithm 2",
    "With L' = L + D tokens in sight, copies m = L+1 .. L' of Algorithm 1 run on the tokens m .. L (in the algorithm; "
    "m .. L' in its notation) and answer on average; the output is a law with that response, within D^-alpha of the "
    "model (Theorem 4.2).",
    verdict="false",
    quotes=[
        r"$\mu_m\gets \model_{\Delta}(\vtoken^{m:L'})$",
        r"the output of $\model_{\Delta}$ on the sequence $\token_{m}, \token_{m+1}, \dots, \token_{L}$",
    ],
    corrected="Within every copy the model must see its own L last tokens: only the urn, the two regrets and the test "
    "restart. The text above the algorithm says so (L of the L' tokens are for prediction), its lines do not. Copies "
    "that show it the tokens m .. L' alone are far from the model although none switches; from m to L "
    "there are no tokens at all. With copies that have seen 0 to D-1 tokens the whole looks back L + D - 1.",
)
def algorithm_2() -> list[Claim]:
    """Three games of two and three actions, D = 40, a model that expects the next state against sequences that mostly
    stay: every copy run by itself, against AverageRestart. A model that is sure of what came three steps ago, D = 4,
    T = 12, where no copy can switch: distances by all sequences, for the algorithm as printed in its two readings."""
    T, D, rng = 90, 40, np.random.default_rng(0)
    apart, back, late = [], [], []
    for problem in (PLUS_MINUS, DecisionProblem([[1, -1, 0.5], [-1, 1, -0.5]]), rock_paper_scissors()):
        S = problem.n_states
        model = Markov(np.full((S, S), 0.02 / S) + 0.98 * np.roll(np.eye(S), 1, axis=1), 1)
        safe = AverageRestart(model, problem, 1, D, T, test=theorem_4_2(T, D, 0.1))
        tokens = sample(Markov(np.full((S, S), 0.06 / S) + 0.94 * np.eye(S), 1), T, 1, rng)[0]
        literal = each_by_itself(model.predict_sequence(tokens), tokens, problem, D, T, 0.1)
        apart.append(np.abs(safe.policy_sequence(tokens) - literal).max())
        own = Respond(model, problem, safe.temperature).policy_sequence(tokens)
        late.append((np.abs(literal - own).max(axis=-1) > 1e-9).mean())
        if problem.n_actions == 2:
            law = safe.predict_sequence(tokens)
            back.append(np.abs(problem.quantal_response(law, safe.temperature) - literal).max())
    quiet, moved, length = 0, np.zeros(20, dtype=bool), 3
    exact = AverageRestart(ALTERNATOR, COIN, 1, 32, 200, test=ExactTest(0.01, 32), fallback=PolyaUrn(2))
    tokens = sample(ALTERNATOR, 200, 20, rng)
    tokens[10:, 100:] = 1
    memory, base = exact.start((20,)), ALTERNATOR.predict_sequence(tokens)
    for t in range(200):
        same = (exact.predict(memory) == base[:, t]).all(axis=-1)
        quiet += int((~same & ~exact.switched(memory)).sum())
        moved |= ~same
        memory = exact.update(memory, tokens[:, t])
    echo = np.full((2,) * (length + 1), 0.1)
    echo[0, ..., 0], echo[1, ..., 1] = 0.9, 0.9
    model = Markov(echo, length)
    tv = {
        name: exact_sequence_tv(model, other, 12)
        for name, other in {
            "m .. L'": as_printed(model, COIN, length, 4, [1, 2, 3, 4]),
            "m .. L": as_printed(model, COIN, length, 4, [0, 0, 0, 0]),
            "corrected": AverageRestart(model, COIN, length, 4, 12),
        }.items()
    }
    short = AverageRestart(ALTERNATOR, COIN, 1, 6, 60, test=ExactTest(0.5, 6), fallback=PolyaUrn(2))
    return [
        equals("average response, against each copy by itself: largest distance", max(apart), 0, 1e-9),
        equals("response to the predicted law, against it: largest distance", max(back), 0, 1e-9),
        at_least("share of those steps at which a copy has switched: least", min(late), 0.1),
        equals("predictions that are not the model's, bit for bit, while none has", quiet, 0, 0),
        at_least("sequences on which some are not in the end, of 20", moved.sum(), 10),
        equals("tokens it looks back, L = 1, D = 6", looks_back(short, 8), 1 + 6 - 1, 0),
        equals("TV where no copy can switch, corrected", tv["corrected"], 0, 0),
        against(at_most("TV where no copy can switch, tokens m .. L', against 1/D", tv["m .. L'"], 1 / 4)),
        against(at_most("TV where no copy can switch, tokens m .. L, against 1/D", tv["m .. L"], 1 / 4)),
    ]


def each_by_itself(
    laws_TxS: np.ndarray, tokens_T: np.ndarray, problem: DecisionProblem, copies: int, horizon: int, alpha: float
) -> np.ndarray:
    """Algorithm 2, corrected, written out: the average response at every step, ``[T, A]``; the model's laws are given.

    A copy from each step on, for as many steps as there are copies; the first stands in for those not yet started.
    """
    eta, U, (A, S) = 1 / math.sqrt(copies), problem.utility, problem.utility.shape
    noise = 8 * math.log(horizon) + 8 * (alpha + 1) * math.log(copies)
    played: list[list[np.ndarray]] = [[] for _ in tokens_T]
    for begin in range(len(tokens_T)):
        counts, gap, switched = np.ones(S), 0.0, False
        for seen, t in enumerate(range(begin, min(begin + copies, len(tokens_T))), start=1):
            urn, own = quantal(U @ counts / counts.sum(), eta), quantal(U @ laws_TxS[t], eta)
            played[t].append(urn if switched else own)
            gap += (urn - own) @ U[:, tokens_T[t]]
            counts[tokens_T[t]] += 1
            switched = switched or gap >= seen * eta * math.log(A) + math.sqrt(noise * seen)
    return np.stack([(np.sum(each, axis=0) + (copies - len(each)) * each[0]) / copies for each in played])


def as_printed(
    model: Predictor, problem: DecisionProblem, length: int, copies: int, shown: Sequence[int]
) -> FromFunction:
    """Algorithm 2 with copies that show the model so many last tokens and no more, where none of them switches."""

    def after(tokens_BxT: np.ndarray) -> np.ndarray:
        return model.predict_sequence(np.pad(tokens_BxT, ((0, 0), (0, 1))))[:, -1]

    def law(tokens_BxT: np.ndarray) -> np.ndarray:
        seen, eta = tokens_BxT.shape[1], 1 / math.sqrt(copies)
        if seen < length + copies:  # it is silent on these
            return after(tokens_BxT)
        responses = [problem.quantal_response(after(tokens_BxT[:, seen - last :]), eta) for last in shown]
        return problem.invert_quantal_response(np.mean(responses, axis=0), eta)

    return FromFunction(law, problem.n_states, batched=True)
