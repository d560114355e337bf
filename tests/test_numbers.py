"""The table of exact numbers: five players on the paper's eight sources, within Monte-Carlo error."""

import math

import numpy as np
import pytest

import lowregret as lr

T, N = 1024, 3000
# Mean final regret of (Ber model, urn, RegretRate 1.5, RegretGap alpha 1, ExactTest delta 2/T without gate), and the
# median switch time of the last three (None: never, or not given); the standard error of each is at most 6e-4.
TABLE = {
    "a": ((0.1784, -0.0071, -0.0028, 0.1782, 0.0039), (9, None, 36)),
    "b": ((-0.1549, -0.0072, -0.1466, -0.1546, -0.1545), (None, None, None)),
    "c": ((0.1667, 0.0017, 0.0355, 0.1666, 0.0127), (620, None, 549)),
    "d": ((0.1667, 0.0017, 0.0059, 0.1671, 0.0126), (9, None, 36)),
    "sin2": ((0.1366, 0.0026, 0.0085, 0.1624, 0.0136), (33, 227, 51)),
    "sin5": ((0.1836, 0.0018, 0.0067, 0.1841, 0.0127), (21, None, 32)),
    "sin10": ((0.1366, 0.0015, 0.0056, 0.1365, 0.0117), (14, None, 23)),
    "sin20": ((0.1366, 0.0012, 0.0047, 0.1368, 0.0106), (9, None, 16)),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_eight_sources(name: str) -> None:
    coin, sources = lr.matching(), lr.sources.paper_sources(T)
    base = sources["b"]
    rules = [lr.RegretRate(coin, T), lr.RegretGap(coin, T), lr.ExactTest(coin, T, delta=2 / T, gate=0)]
    tokens = lr.sample(sources[name], T, N, seed=11)
    regrets, medians = TABLE[name]
    for player, expected in zip([base, lr.PolyaUrn(2), *(lr.Robust(base, r) for r in rules)], regrets, strict=True):
        regret = lr.external_regret(coin, lr.Respond(player, coin, 1 / 32), tokens)[:, -1]
        error = math.hypot(regret.std() / math.sqrt(N), 6e-4)
        assert abs(regret.mean() - expected) < 4 * error
    probs = base.predict_sequence(tokens)
    for rule, median in zip(rules, medians, strict=True):
        times = np.sort(rule.trip_times(probs, tokens))
        low, high = times[int(N / 2 - 2 * math.sqrt(N))], times[int(N / 2 + 2 * math.sqrt(N))]  # +- 4 standard errors
        assert low <= (T + 1 if median is None else median) <= high


def test_the_distance_of_the_urn_from_the_ber_model() -> None:
    """Mean next-token TV on the model's own sequences: .13076."""
    base = lr.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, 2000, seed=0)
    tv = np.abs(lr.PolyaUrn(2).predict_sequence(tokens) - base.predict_sequence(tokens)).sum(-1).mean(-1) / 2
    assert abs(tv.mean() - 0.13076) < 4 * tv.std() / math.sqrt(2000)
