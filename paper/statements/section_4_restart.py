"""Section 4: bounded context, restarted copies."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowregret import DecisionProblem, ExactTest, QuantalResponse, external_regret, matching, rock_paper_scissors
from lowregret.certificates.by_counts import worst_case as worst_case_by_counts
from lowregret.checks import LawBroken, check_window
from lowregret.evaluate.adversaries import all_sequences, beam, exact_worst_case
from lowregret.evaluate.distances import bounded_mean, exact_sequence_tv
from lowregret.policies import Hedge, Respond, RestartHedge
from lowregret.predictors import FromFunction, Markov, PolyaUrn, Predictor, Scheduled, sample
from lowregret.robust import AverageRestart
from lowregret.robust.average_restart import theorem_4_2
from lowregret.robust.robustify import robustify

from ..two_sided import worst_two_sided
from .claims import Claim, against, at_least, at_most, equals, statement
from .exhaustive import chances, some_model, some_problem
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
    every = {D: RestartHedge(COIN, D) for D in (16, 256)}
    found = external_regret(COIN, every[256], runs(256, 6 * 256))[:, -1].max()
    hunted = beam(every[16], COIN, 96, width=64).regret
    return [
        at_most("one copy, exact worst regret, D = 256", repeated[256], one[256].regret_bound(COIN, 2560, None)),
        at_most("average, regret found, D = 256", found, every[256].regret_bound(COIN, 6 * 256, None)),
        at_most("average, regret that a beam finds, D = 16", hunted, every[16].regret_bound(COIN, 96, None)),
        at_most("regret / bound, 12 random games, all sequences, every step: largest", max(used), 1),
        equals("worst block repeated, against its regret once: largest distance", apart, 0, 1e-9),
        equals("tokens that the average of 6 copies looks back", looks_back(RestartHedge(COIN, 6), 8), 5, 0),
    ]


def runs(copies: int, steps: int) -> np.ndarray:
    """Sequences of ones and zeros in turn, of every two lengths from a quarter of ``copies`` up, ``[25, steps]``."""
    lengths = [copies // 4 * quarters for quarters in (1, 2, 3, 4, 24)]
    cycles = [np.repeat([1, 0], [ones, zeros]) for ones in lengths for zeros in lengths]
    return np.stack([np.resize(cycle, steps) for cycle in cycles])


def looks_back(predictor: Any, most: int) -> int:
    """The least number of last tokens after which no earlier one matters, if it is at most ``most``."""
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


NEVER = Scheduled([[1.0, 0.0]])  # says that 1 never comes


@statement(
    "Theorem 4.2, regret",
    "With D more tokens, Algorithm 2 has regret at most (1 + D/T) [ (sqrt(2)+1)/D + sqrt((8 ln T + 8 (alpha+1) "
    "ln D)/D) ]: the bracket is what one copy loses in D steps. The proof puts 8 ln T + 8 (alpha+1) ln D into the "
    "copies' threshold, so that TV <= D^-alpha.",
    verdict="false",
    quotes=[
        r"with worst-case regret $\left(1+\frac{\Delta}{T}\right)\left[\frac{\sqrt{2}+1}{\Delta} + "
        r"\sqrt{\frac{8\log T + 8(\alpha + 1)\log \Delta}{\Delta}}\right]$",
        r"inherits the regret of \Cref{alg: robustification} ... which is bounded by $\frac{\sqrt{2}+1}{\Delta} + "
        r"\sqrt{\frac{8\log T + 8(\alpha + 1)\log \Delta}{\Delta}}$",
    ],
    corrected="Regret <= ((T+D-1)/T) [ F_D + ln A / sqrt(D) + sqrt((8 ln T + 8 (alpha+1) ln D)/D) + J/D ], F_D the "
    "urn's bound of Lemma 2.3 for D steps: the printed one leaves out the urn's own regret, and ln A / sqrt(D).",
)
def theorem_4_2_regret() -> list[Claim]:
    """Guessing bits, alpha = 1, T = 10^4, a model that never expects a 1. On all ones, from step D on, the average is
    what one copy does in its life; 3 D steps were run. One copy: its exact worst case. Eight random games with the
    exact test in the copies, all sequences, every step; a beam; the alternator on all ones for 2048 steps."""
    T, rng, used = 10_000, np.random.default_rng(0), []
    for i in range(8):
        problem = some_problem(rng, most_states=2 if i < 5 else 3)
        S, D = problem.n_states, int(rng.integers(2, 8))
        steps = 13 if S == 2 else 8
        test = ExactTest(float(rng.choice([0.4, 0.9])), D)
        safe = AverageRestart(some_model(rng, S), problem, 1, D, steps, test=test, fallback=PolyaUrn(S))
        regret, sharp = external_regret(problem, safe, all_sequences(S, steps)).max(axis=0), safe.certificate.sharpen()
        used.append(max(regret / [sum(sharp.at(t).terms.values()) for t in range(1, steps + 1)]))
    whole = AverageRestart(NEVER, COIN, 0, 176, T)
    ones = external_regret(COIN, whole, np.ones(3 * 176, dtype=int))[-1]
    copy = AverageRestart(NEVER, COIN, 0, 1024, T).copy
    worst = worst_two_sided(copy, 1024).regret
    safe = AverageRestart(ALTERNATOR, COIN, 1, 48, 160, test=ExactTest(0.5, 48), fallback=PolyaUrn(2))
    hunted = beam(safe, COIN, 160, width=64).regret
    alternating, names = [], ("the printed rule", "the exact test")
    for D, name, known in zip((128, 128, 256, 256), names * 2, (0.998, 0.091, 0.673, 0.052), strict=True):
        copies: Any = ExactTest(1 / D / 2048, D) if name == "the exact test" else theorem_4_2(2048, D)
        player = AverageRestart(ALTERNATOR, COIN, 1, D, 2048, test=copies, fallback=PolyaUrn(2))
        regret = external_regret(COIN, player, np.ones(2048, dtype=int))[-1]
        alternating.append(equals(f"alternator on all ones, D = {D}, {name}", regret, known, 1e-3))
    return [
        at_most("one copy, D = 1024: exact worst regret", worst, copy.certificate.sharpen().regret_bound),
        at_most("all ones, D = 176", ones, sum(whole.certificate.sharpen().terms.values())),
        equals("the same, against one copy's life", ones, one_life(176, T), 1e-9),
        at_most("regret / bound, 8 random games, all sequences, every step: largest", max(used), 1),
        at_most("regret found, exact test, D = 48, T = 160", hunted, safe.certificate.sharpen().regret_bound),
        *alternating,
        against(at_most("all ones, D = 176, against the theorem", ones, bracket(176, T) * (1 + 176 / T))),
        against(at_most("one copy, D = 1024: exact worst regret, against the bracket", worst, bracket(1024, T))),
    ]


def bracket(copies: int, horizon: int) -> float:
    """What Theorem 4.2 says that one copy loses, alpha = 1."""
    noise = (8 * math.log(horizon) + 16 * math.log(copies)) / copies
    return (math.sqrt(2) + 1) / copies + math.sqrt(noise)


def one_life(copies: int, horizon: int) -> float:
    """The average regret of one copy on all ones, from its first step to its last, where no 1 is ever expected."""
    copy = AverageRestart(NEVER, COIN, 0, copies, horizon).copy
    return float(external_regret(COIN, copy.respond(), np.ones(copies, dtype=int))[-1])


@statement(
    "Theorem 4.2, TV",
    "Algorithm 2 (as corrected, with the threshold that the proof uses) stays within D^-alpha of the model: a union "
    "over the copies, at most T.",
)
def theorem_4_2_tv() -> list[Claim]:
    """Ten random games with the exact test in the copies, which switch: the distance itself and the chance of a
    switch, by all sequences of 11. The printed rule for +1 and -1, D = 48, T = 150, and the exact test, D = 32,
    T = 128: the chance that any copy ever switches, the upper end of a 95% interval."""
    rng, T, used, over = np.random.default_rng(0), 11, [], []
    for _ in range(10):
        problem, D, delta = some_problem(rng, 2, 2), int(rng.integers(3, 8)), float(rng.choice([0.2, 0.5, 0.9]))
        model, tokens = some_model(rng, 2), all_sequences(2, T)
        safe = AverageRestart(model, problem, 1, D, T, test=ExactTest(delta / (T - 1), D), fallback=PolyaUrn(2))
        tv, switch = exact_sequence_tv(model, safe, T), chances(model, tokens)[ever_switched(safe, tokens), -1].sum()
        used.append(tv / safe.certificate.tv_bound)
        over.append(tv - switch)
    printed = AverageRestart(ALTERNATOR, PLUS_MINUS, 1, 48, 150, test=theorem_4_2(150, 48, 0.5))
    exact = AverageRestart(ALTERNATOR, COIN, 1, 32, 128, test=ExactTest(0.2 / 127, 32), fallback=PolyaUrn(2))
    seen = {
        safe: bounded_mean(ever_switched(safe, sample(ALTERNATOR, safe.horizon, n, seed=1)), 0, 1)
        for safe, n in ((printed, 500), (exact, 1500))
    }
    return [
        at_most("TV / delta, 10 random games, all sequences: largest", max(used), 1),
        at_most("TV less the chance that a copy switches: largest", max(over), 0),
        at_most("chance of a switch, printed rule, alpha = 1/2, sampled: upper end", seen[printed].high, 48**-0.5),
        at_most("chance of a switch, exact test, delta = .2, sampled: upper end", seen[exact].high, 0.2),
    ]


def ever_switched(safe: AverageRestart, tokens_NxT: np.ndarray) -> np.ndarray:
    """Whether any copy has switched before some step, ``[N]``."""
    memory, ever = safe.start((len(tokens_NxT),)), np.zeros(len(tokens_NxT), dtype=bool)
    for token in tokens_NxT.T:
        ever |= safe.switched(memory)
        memory = safe.update(memory, token)
    return ever


@statement(
    "Theorem 4.2, the factor T - 1",
    "Algorithm 2 stays within D^-alpha of the model by a union over its copies: each may switch falsely, and there are "
    "T - 1 of them that do so before the last step.",
)
def the_union_over_copies() -> list[Claim]:
    """A coin that the model knows, D = 4, T = 4 .. 11, all sequences: the chance that any copy switches before the last
    step, beside T - 1 times that of one copy, and beside that of one copy alone."""
    coin, COIN, D = Markov([0.2, 0.8], 0), matching(), 4
    parts: dict[str, Any] = {"test": ExactTest(0.09, D), "fallback": PolyaUrn(2), "response": QuantalResponse(0.05)}
    alone, copy = all_sequences(2, D), robustify(coin, COIN, **parts)
    one = float(chances(coin, alone)[copy.alarm_times(alone) <= D, -1].sum())
    used, factor, ever = [], [], []
    for T in range(4, 12):
        safe = AverageRestart(coin, COIN, 0, D, T, **parts)
        tokens = all_sequences(2, T)
        chance = float(chances(coin, tokens)[ever_switched(safe, tokens), -1].sum())
        ever.append(chance)
        used.append(chance / safe.certificate.tv_bound)
        factor.append(safe.certificate.tv_bound / 0.09)
    printed, known = AverageRestart(coin, COIN, 0, 64, 1000).certificate, 999 * 64 ** -theorem_4_2(1000, 64).alpha
    return [
        at_most("chance of a switch / bound, T = 4 .. 11, all sequences: largest", max(used), 1),
        equals("the bound / delta, less T - 1: largest", max(abs(np.array(factor) - np.arange(3, 11))), 0, 1e-12),
        at_least("chance of a switch at T = 11, against one copy's own: the union is needed", ever[-1], 3 * one),
        at_most("one copy's own chance of a switch", one, 0.09),
        equals("the printed rule's bound, D = 64, T = 1000", printed.tv_bound, known, 1e-12),
    ]
