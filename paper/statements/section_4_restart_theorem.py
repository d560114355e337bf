"""Section 4: bounded context, Theorem 4.2."""

import math
from typing import Any

import numpy as np

from lowregret.engine import ExactTest, QuantalResponse
from lowregret.evaluate.adversaries import all_sequences, beam, exact_worst_case
from lowregret.evaluate.distances import bounded_mean, exact_sequence_tv
from lowregret.evaluate.regret import external_regret
from lowregret.predictors import Markov, PolyaUrn, Scheduled, sample
from lowregret.problems import matching
from lowregret.robust import AverageRestart
from lowregret.robust.average_restart import theorem_4_2
from lowregret.robust.robustify import robustify

from .claims import Claim, against, at_least, at_most, equals, statement
from .exhaustive import chances, some_model, some_problem
from .section_3 import PLUS_MINUS
from .section_4_restart import ALTERNATOR

COIN = matching()
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
    worst = exact_worst_case(copy, COIN, 1024).regret
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
    """What Theorem 4.2 says that one copy loses, alpha = 1.

    >>> round(bracket(1024, 10_000), 4)
    0.4269
    """
    noise = (8 * math.log(horizon) + 16 * math.log(copies)) / copies
    return (math.sqrt(2) + 1) / copies + math.sqrt(noise)


def one_life(copies: int, horizon: int) -> float:
    """The average regret of one copy on all ones, from its first step to its last, where no 1 is ever expected.

    >>> round(one_life(256, 10_000), 4)
    0.6992
    """
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
    """Whether any copy has switched before some step, ``[N]``.

    >>> safe = AverageRestart(NEVER, COIN, 0, 8, 40, test=ExactTest(0.5, 8), fallback=PolyaUrn(2))
    >>> ever_switched(safe, np.array([[0, 0, 0], [1, 1, 1]])).tolist()
    [False, True]
    """
    memory, ever = safe.start((len(tokens_NxT),)), np.zeros(len(tokens_NxT), dtype=bool)
    for token in tokens_NxT.T:
        ever |= safe.switched(memory)
        memory = safe.update(memory, token)
    return ever


# Section 4: bounded context, how far Algorithm 2 is from the model.


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
    printed = AverageRestart(coin, COIN, 0, 64, 1000)
    return [
        at_most("chance of a switch / bound, T = 4 .. 11, all sequences: largest", max(used), 1),
        equals("the bound / delta, less T - 1: largest", max(abs(np.array(factor) - np.arange(3, 11))), 0, 1e-12),
        at_least("chance of a switch at T = 11, against one copy's own: the union is needed", ever[-1], 3 * one),
        at_most("one copy's own chance of a switch", one, 0.09),
        equals(
            "the printed rule's bound, D = 64, T = 1000",
            printed.certificate.tv_bound,
            999 * 64 ** -theorem_4_2(1000, 64).alpha,
            1e-12,
        ),
    ]
