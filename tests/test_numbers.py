"""The table of exact numbers: five players on the paper's eight sources, within Monte-Carlo error."""

import math

import numpy as np
import pytest

import lowregret as lr
from lowregret.paper.statements.section_5 import TABLE
from lowregret.rules import first_test

T, N = 1024, 3000


@pytest.mark.parametrize("name", TABLE)
def test_the_eight_sources(name: str) -> None:
    coin, sources = lr.matching(), lr.sources.paper_sources(T)
    base = sources["b"]
    rules = [lr.RegretRate(coin, T), lr.RegretGap(coin, T), first_test(coin, T, delta=2 / T, gate=0)]
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
