"""Logs for the tests of audits: shops with a forecast of rain, some of which break half way."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

import lowregret as lr

SHOP = lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], ["open", "shut"], ["dry", "wet"])
STALL = lr.problems.newsvendor_of_numbers([0, 10, 20, 30, 40], price=5, cost=3)
LENGTHS = {"calm": 100, "Bee": 100, "Cee": 60, "Dee": 1, "Eff": 100}


def shops(lengths: Mapping[str, int] = LENGTHS, broken: int = 3, seed: int = 0) -> pl.DataFrame:
    """A row per stream and step, in order; in every so many-th stream forecasts are upside down from half way on."""
    rng, parts = np.random.default_rng(seed), []
    for k, (name, T) in enumerate(lengths.items()):
        wet = rng.beta(1, 1.2, T)
        is_wet = rng.random(T) < np.where((np.arange(T) >= T // 2) & (k % broken == 1), 1 - wet, wet)
        level, sold = rng.uniform(4, 6, T), rng.gamma(6, 5, T) * np.where((np.arange(T) > T // 2) & (k == 1), 0.2, 1)
        parts.append(
            pl.DataFrame({"unique_id": [name] * T, "step": np.arange(3, T + 3), "y": np.where(is_wet, "wet", "dry")})
            .with_columns(p_dry=1 - wet, p_wet=wet, sold=sold)
            .with_columns(pl.Series(f"q{q}", level * value) for q, value in ((10, 3.2), (50, 5.7), (90, 9.3)))
        )
    return pl.concat(parts)


def one(T: int = 150, **columns: Any) -> pl.DataFrame:
    """A single stream that breaks half way, its column of steps in place of others."""
    rows = shops({"first": 1, "a": T}, broken=2).filter(unique_id="a").drop("unique_id", "step", "sold", "^q.*$")
    return rows.with_columns(**{name: pl.Series(values) for name, values in columns.items()})


def shuffled(rows: pl.DataFrame, seed: int = 1) -> pl.DataFrame:
    """The same rows in another order."""
    return rows.sample(fraction=1.0, shuffle=True, seed=seed)


def gained(found: Any) -> list[tuple[Any, ...]]:
    """What an audit found in its streams."""
    return found.streams.select("stream", "steps", "model", "guard", "alarm", "log_e").rows()
