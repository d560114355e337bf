"""``python -m benchmarks.audit [streams [steps]]``: an audit beside a pandas groupby loop, as CSV and out of memory.

``1 1000000`` is one stream of a million rows. Memory is what the process grew by, beside the columns that are read.
The loop is what one would write by hand: for every stream of a frame, payoffs of the model, of a guard and of Hedge. It
runs on at most a thousand streams.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import lowregret as lr
from lowregret.audits import parts
from lowregret.audits.page import page


def main() -> None:
    streams, steps = (int(n) for n in (*sys.argv[1:], *("10000", "1000")[len(sys.argv) - 1 :]))
    rows = streams * steps
    with tempfile.TemporaryDirectory() as folder:
        log, small = Path(folder) / "log.parquet", Path(folder) / "small.parquet"
        write(small, 50, 1000)
        audited(small)  # compiles, and imports what there is to import
        write(log, streams, steps)
        columns = pl.read_parquet(log).with_columns(pl.col("stream").cast(pl.Categorical)).estimated_size("mb")
        before = resource.getrusage(0).ru_maxrss / 2**10
        wall, used, found = audited(log)
        more = resource.getrusage(0).ru_maxrss / 2**10 - before
        begin = time.perf_counter()
        size = len(page(found).encode())
        drawn = time.perf_counter() - begin
        print(f"{rows:,} rows of {streams:,} streams ({log.stat().st_size / 2**20:.0f} MiB), {found.alarms} alarms")
        print(f"audit     {wall:.1f} s wall, {used:.1f} s CPU: {rows / used:,.0f} rows per second and core")
        print(f"memory    {more:.0f} MiB more than before; the columns have {columns:.0f}: {more / columns:.1f} times")
        print(f"page      {size / 1e3:.0f} kB, {drawn:.1f} s")
        by_hand = seconds_per_row(log, min(streams, 1000), steps) * rows
        print(f"pandas    {by_hand:.1f} s CPU for as many rows: {by_hand / used:.2f} times the audit's")
        table = log.with_suffix(".csv")
        pl.scan_parquet(log).sink_csv(table)
        wall, its, again = audited(table)
        assert again.alarms == found.alarms
        print(f"CSV       {wall:.1f} s wall, {its:.1f} s CPU: {its / used:.2f} times Parquet")
        if streams > 1:
            parts._LARGE = 0  # as where memory is short
            wall, its, again = audited(log)
            assert again.totals == found.totals
            print(f"on disk   {wall:.1f} s wall, {its:.1f} s CPU: {its / used:.2f} times in memory")


def audited(log: Path) -> tuple[float, float, Any]:
    """Wall and CPU seconds of an audit, and what it found."""
    begin, used = time.perf_counter(), time.process_time()
    found = lr.audit(log, lr.matching(), lag=1)
    return time.perf_counter() - begin, time.process_time() - used, found


def write(path: Path, streams: int, steps: int) -> None:
    """A log of forecasts that are right, but in one stream of fifty no longer from half way on."""
    rng, parts = np.random.default_rng(0), []
    for first in range(0, streams, 250):
        n = min(250, streams - first)
        chance = rng.beta(2, 2, (n, steps)).round(6)
        states = rng.random((n, steps)) < chance
        broken = rng.random(n) < 0.02
        states[broken, steps // 2 :] = rng.random((int(broken.sum()), steps - steps // 2)) < 0.5
        names = pl.Series([f"stream-{i:06}" for i in range(first, first + n)])
        columns = {
            "stream": names.gather(np.repeat(np.arange(n), steps)),
            "step": np.tile(np.arange(1, steps + 1, dtype=np.int32), n),
            "p_0": (1 - chance).ravel(),
            "p_1": chance.ravel(),
            "state": states.ravel().astype(np.int8),
        }
        parts.append(pl.DataFrame(columns))
    pl.concat(parts).write_parquet(path)


def seconds_per_row(log: Path, streams: int, steps: int) -> float:
    """CPU seconds of the loop by hand."""
    frame = pl.scan_parquet(log).head(streams * steps).collect().to_pandas()
    begin, problem, earned = time.process_time(), lr.matching(), []
    for _, own in frame.groupby("stream"):
        own = own.sort_values("step")
        probs, states = own[["p_0", "p_1"]].to_numpy(), own["state"].to_numpy().astype(np.int64)
        guard, paid = lr.Guard(problem), problem.utility[:, states].T
        earned.append(paid[np.arange(steps), problem.best_response(probs)].sum())
        for forecast, state, each in zip(probs, states.tolist(), paid, strict=True):
            earned.append(guard.advise(forecast).policy @ each)
            guard.observe(state)
        earned.append((lr.policies.Hedge(problem, steps).policy_sequence(states) * paid).sum())
    return (time.process_time() - begin) / len(frame)


if __name__ == "__main__":
    main()
