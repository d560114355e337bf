"""``python -m benchmarks.audit [streams [steps]]``: an audit beside a pandas groupby loop, as CSV, and on Ray.

``1 1000000`` is one stream of a million rows. Memory is what the process grew by, beside the columns that are read.
The loop is what one would write by hand: for every stream of a frame, payoffs of the model, of a guard and of
Hedge. It runs on at most a thousand streams, in one process. Up to two million rows, the same log is read
as CSV too, and audited by two workers of a local Ray with a home of its own, where Ray is installed.
"""

import importlib
import importlib.util
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import lowregret as lr
from lowregret.audit.page import page


def main() -> None:
    streams, steps = (int(n) for n in (*sys.argv[1:], *("10000", "1000")[len(sys.argv) - 1 :]))
    rows = streams * steps
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        _write(log, streams, steps)
        size = log.stat().st_size
        _warm(log.with_name("small.parquet"), 50)  # compiles, and imports what there is to import
        before, columns = resource.getrusage(0).ru_maxrss / 2**10, _columns(log) / 2**20
        wall, cpu, found = _timed(log)
        more = resource.getrusage(0).ru_maxrss / 2**10 - before
        own, each = (resource.getrusage(who).ru_maxrss / 2**20 for who in (0, resource.RUSAGE_CHILDREN))
        start = time.perf_counter()
        text = len(page(found).encode())
        drawn = time.perf_counter() - start
        print(f"{rows:,} rows of {streams:,} streams ({size / 2**20:.0f} MiB of Parquet), {found.alarms} switched")
        print(f"audit     {wall:.1f} s wall, {cpu:.1f} s CPU: {rows / wall:,.0f} rows/s, {rows / cpu:,.0f} a core")
        print(f"memory    at most {own + 2 * each:.2f} GiB: {own:.2f} and twice {each:.2f}")
        print(f"          {more:.0f} MiB more than before; the columns have {columns:.0f}: {more / columns:.1f} times")
        print(f"page      {text / 1e6:.2f} MB, {drawn:.1f} s")
        loop = _by_hand(log, min(streams, 1000), steps)
        print(f"pandas    {loop * rows:.1f} s CPU for as many rows: {loop * rows / cpu:.2f} times the audit's")
        if rows > 2_000_000:
            return
        told, its_cpu, _ = _timed(log, events=True)
        print(f"events    {told:.1f} s wall, {its_cpu:.1f} s CPU with events: {its_cpu / cpu:.2f} times without")
        table = log.with_name("log.csv")
        _as_csv(log, table)
        read, its_cpu, again = _timed(table)
        assert again.alarms == found.alarms
        print(f"CSV       {read:.1f} s wall, {its_cpu:.1f} s CPU ({table.stat().st_size / 2**20:.0f} MiB): ", end="")
        print(f"{its_cpu / cpu:.2f} times Parquet; pandas {loop * rows / its_cpu:.2f} times CSV")
        if importlib.util.find_spec("ray"):
            _on_ray(log, found, wall, loop * rows)


def _timed(log: Path, **settings: Any) -> tuple[float, float, Any]:
    """Wall and CPU seconds of an audit, and what it found."""
    begin, used = time.perf_counter(), _cpu()
    found = lr.audit.audit_log(log, lr.matching(), **{"fallback": False, "events": False, **settings})
    return time.perf_counter() - begin, _cpu() - used, found


def _columns(log: Path) -> float:
    """Bytes of the columns in memory, names by number."""
    import pyarrow.parquet

    return float(pyarrow.parquet.read_table(log, read_dictionary=["stream"]).nbytes)


def _as_csv(log: Path, path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.csv.write_csv(pyarrow.parquet.read_table(log), path)


def _on_ray(log: Path, found: Any, wall: float, by_hand: float) -> None:
    """The second audit on two workers: at the first they import what they need."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, RAY_USAGE_STATS_ENABLED="0")
        os.environ.pop("RAY_ADDRESS", None)
        ray: Any = importlib.import_module("ray")
        begin = time.perf_counter()
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        started = time.perf_counter() - begin
        first, _, _ = _timed(log, engine="ray")
        second, _, again = _timed(log, engine="ray")
        assert again.parts == found.parts
        print(f"ray       {second:.1f} s wall with two workers, the same numbers: {second / wall:.2f} times ", end="")
        print(f"the audit, pandas {by_hand / second:.2f} times it; ", end="")
        print(f"{started:.1f} s to start Ray, {first:.1f} s the first time")
        ray.shutdown()


def _write(path: Path, streams: int, steps: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(0), None
    for first in range(0, streams, 250):
        n = min(250, streams - first)
        p = rng.beta(2, 2, (n, steps)).round(6)
        states = rng.random((n, steps)) < p
        broken = rng.random(n) < 0.02
        states[broken, steps // 2 :] = rng.random((int(broken.sum()), steps - steps // 2)) < 0.5
        names = pa.array([f"stream-{i:06}" for i in range(first, first + n)])
        table = pa.table(
            {
                "stream": names.take(pa.array(np.repeat(np.arange(n), steps))),
                "step": np.tile(np.arange(1, steps + 1, dtype=np.int32), n),
                "p_0": (1 - p).ravel(),
                "p_1": p.ravel(),
                "state": states.ravel().astype(np.int8),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _warm(path: Path, streams: int) -> None:
    _write(path, streams, 1000)
    lr.audit.audit_log(path, lr.matching(), jobs=1)


def _by_hand(log: Path, streams: int, steps: int) -> float:
    """CPU seconds a row."""
    import pandas as pd

    begin = _cpu()
    frame = pd.read_parquet(log, filters=[("stream", "<", f"stream-{streams:06}")])
    problem, earned = lr.matching(), []
    for _, own in frame.groupby("stream"):
        own = own.sort_values("step")
        probs, states = own[["p_0", "p_1"]].to_numpy(), own["state"].to_numpy().astype(np.int64)
        guard, paid = lr.Guard(problem), problem.utility[:, states].T
        earned.append(paid[np.arange(steps), problem.best_response(probs)].sum())
        for law, state, each in zip(probs, states.tolist(), paid, strict=True):
            earned.append(guard.advise(law).policy @ each)
            guard.observe(state)
        earned.append((lr.policies.Hedge(problem, steps).policy_sequence(states) * paid).sum())
    return (_cpu() - begin) / len(frame)


def _cpu() -> float:
    """CPU seconds of this process and of those that it started and that are done."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
