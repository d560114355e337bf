"""Section 4: bounded context, how far Algorithm 2 is from the model."""

import numpy as np

from ...adversaries import all_sequences
from ...predictors import Markov
from ...problems import matching
from ...robust import AverageRestart
from ...rules import FirstTest, RegretGap
from .claims import Finding, at_least, at_most, equals, statement
from .exhaustive import chances
from .section_4_restart_theorem import ever_switched


@statement(
    "Theorem 4.2, the factor T - 1",
    "Algorithm 2 stays within D^-alpha of the model by a union over its copies: each may switch falsely, and there are "
    "T - 1 of them that do so before the last step.",
)
def the_union_over_copies() -> Finding:
    """A coin that the model knows, D = 4, T = 4 .. 11, all sequences: the chance that any copy switches before the last
    step, beside T - 1 times that of one copy, and beside that of one copy alone."""
    coin, COIN, D = Markov([0.2, 0.8], 0), matching(), 4
    rule = FirstTest(COIN, D, delta=0.09, gate=0, temperature=0.05)
    alone = all_sequences(2, D)
    probs = coin.predict_sequence(alone)
    one = float(chances(coin, alone)[rule.trip_times(probs, alone) <= D, -1].sum())
    used, factor, ever = [], [], []
    for T in range(4, 12):
        safe = AverageRestart(coin, COIN, 0, D, T, rule=rule)
        tokens = all_sequences(2, T)
        chance = float(chances(coin, tokens)[ever_switched(safe, tokens), -1].sum())
        ever.append(chance)
        used.append(chance / safe.certificate.tv_bound)
        factor.append(safe.certificate.tv_bound / rule.delta)
    printed = AverageRestart(coin, COIN, 0, 64, 1000)
    assert isinstance(printed.rule, RegretGap)
    return Finding(
        [
            at_most("chance of a switch / bound, T = 4 .. 11, all sequences: largest", max(used), 1),
            equals("the bound / delta, less T - 1: largest", max(abs(np.array(factor) - np.arange(3, 11))), 0, 1e-12),
            at_least("chance of a switch at T = 11, against one copy's delta: the union is needed", ever[-1], 3 * 0.09),
            at_most("one copy's own chance of a switch", one, 0.09),
            equals(
                "the printed rule's bound, D = 64, T = 1000",
                printed.certificate.tv_bound,
                999 * 64**-printed.rule.alpha,
                1e-12,
            ),
        ]
    )
