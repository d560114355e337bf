"""The table of exact numbers: six players on the paper's eight sources, within Monte-Carlo error."""

import math

import numpy as np
import pytest

import lowregret as lr
from paper.eight_sources import players
from paper.statements.section_5 import TABLE

from ..conftest import sweep

T = 1024


@pytest.mark.needs("numba")  # in arrays it takes long
@pytest.mark.parametrize("N", sweep([600, 3000], usual=1))
@pytest.mark.parametrize("name", TABLE)
def test_the_eight_sources(name: str, N: int) -> None:
    coin, sources, everyone = lr.matching(), lr.evaluate.sources.paper_sources(T), players(T)
    tokens = lr.sample(sources[name], T, N, seed=11)
    regrets, medians = TABLE[name]
    for (who, player), expected in zip(everyone.items(), regrets, strict=True):
        some = tokens[:300] if who == "Recovery" else tokens  # what returns is asked step by step
        regret = lr.external_regret(coin, lr.policies.Respond(player, coin, 1 / 32), some)[:, -1]
        error = math.hypot(regret.std() / math.sqrt(len(some)), 6e-4)
        assert abs(regret.mean() - expected) < 4 * error, who
    robust = {who: player for who, player in everyone.items() if isinstance(player, lr.robust.Robust)}
    for (who, player), median in zip(robust.items(), medians, strict=True):
        times = np.sort(player.alarm_times(tokens))
        low, high = times[int(N / 2 - 2 * math.sqrt(N))], times[int(N / 2 + 2 * math.sqrt(N))]  # +- 4 standard errors
        assert low <= (T + 1 if median is None else median) <= high, who


def test_the_distance_of_the_urn_from_the_ber_model() -> None:
    """Mean next-token TV on the model's own sequences: .13076."""
    base = lr.evaluate.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, 2000, seed=0)
    tv = np.abs(lr.PolyaUrn(2).predict_sequence(tokens) - base.predict_sequence(tokens)).sum(-1).mean(-1) / 2
    assert abs(tv.mean() - 0.13076) < 4 * tv.std() / math.sqrt(2000)
