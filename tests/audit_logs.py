"""Logs for the tests of audits: small, some of their models broken half way."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import lowregret as lr

SHOP = lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], ["open", "shut"], ["dry", "wet"])
PAYOFFS = "euros,dry,wet\nopen,100,-20\nshut,0,0\n"


def table_of(lengths: dict[str, int], seed: int = 0, broken: int = 3) -> pa.Table:
    """Every so many-th stream turns its model's probabilities round half way."""
    rng, parts = np.random.default_rng(seed), []
    for k, (name, T) in enumerate(lengths.items()):
        wet = rng.beta(1, 1.2, T)
        came = rng.random(T) < wet
        if k % broken == 1:
            came[T // 2 :] = rng.random(T - T // 2) < 1 - wet[T // 2 :]
        states = np.array(SHOP.states)[came.astype(int)]
        columns = {"stream": [name] * T, "step": np.arange(3, T + 3), "state": states, "p_dry": 1 - wet, "p_wet": wet}
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def broken(T: int) -> pa.Table:
    """One stream, "a", whose model is turned round half way."""
    return table_of({"first": 1, "a": T}, broken=2).slice(1)


def written(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path, row_group_size=700)
    return path


def shuffled(table: pa.Table, seed: int = 1) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))
