"""The parts of an audit: a log in one table, or dealt out by stream on the disk; streams judged side by side."""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..engine import ExactTest
from ..engine.loop import form_of
from ..guard import Guard
from .cells import plain
from .columns import Found
from .judging import after_alarm, in_payoffs, judge
from .reading import Log, Refused
from .recording import Block
from .settings import AuditSettings
from .table import Shared, Table, checked, table_of
from .times import ROWS, ZONED, Clock, Rhythms, kind_of, local

BINS, POINTS = 10, 240  # of probabilities; of a curve
_CELLS = 1 << 18  # steps times states and actions of a block: small enough for the cache
_ALONE = 8  # a step of a few streams takes as long as one of so many more
_SMALL = 1_000_000  # rows: up to here the fallback is played alone as well
_LARGE, _PART = 1 << 31, 1 << 26  # bytes of rows: more are dealt out, in parts of about so many
_THREADS = 2


class Whole(NamedTuple):
    """What is known of all streams before any of them is judged."""

    rows: int  # up to the last known outcome of each stream
    streams: int
    longest: int
    first: int  # where curves begin and end: moments by the clock of the log, or steps
    last: int
    is_dated: bool


def dealt(log: Log, found: Found, problem: Any, how: AuditSettings, folder: Path) -> tuple[Whole, Iterator[Table]]:
    """The tables of a log: one in memory, or several from the disk, one after the other."""
    if log.kind == "text":
        n = sum(path.stat().st_size for path in log.paths) // (6 * len(log.schema))  # about so many
    else:
        n = int(log.rows.select(pl.len()).collect().item())
    size = 8 * n * (len(found.needed) + 4)
    if found.stream is None or size <= _LARGE:
        table = table_of(log, found, problem, how.tolerance)
        recording, clock = table.recording, table.clock
        ends = (int(clock.local_R.min()), int(clock.local_R.max())) if clock.is_dated else (1, recording.longest)
        return Whole(recording.n_steps, len(recording.names), recording.longest, *ends, clock.is_dated), iter([table])

    rows, kind = plain(log, found, problem)
    key = {"part": part_of(math.ceil(size / _PART))}
    each = pl.PartitionBy(folder, key=key, include_key=False, approximate_bytes_per_file=1 << 40)
    with log.reading():
        rows.sink_parquet(each, compression="lz4", engine="streaming", mkdir=True, maintain_order=False)
    rows = pl.scan_parquet(folder / "*" / "*.parquet", hive_partitioning=False)
    found, whole, shared = whole_of(rows, kind, log, found)
    tables = (pl.read_parquet(part / "*.parquet", hive_partitioning=False) for part in sorted(folder.iterdir()))
    return whole, (checked(rows, kind, log, found, problem, how.tolerance, shared) for rows in tables)


def part_of(n: int) -> pl.Expr:
    """In which of n parts the stream of a row is."""
    return pl.col("stream").cast(pl.String).hash(0) % n


def whole_of(rows: pl.LazyFrame, kind: str, log: Log, found: Found) -> tuple[Found, Whole, Shared]:
    """What is known of the streams of rows that are not held, and what the parts of these rows have in common."""
    at, is_known = pl.col("at"), pl.col("state").is_not_null()
    ends = {"low": at.min(), "high": at.max(), "last": pl.when(is_known).then(at).max()}
    streams = rows.group_by("stream").agg(pl.len(), **ends).collect(engine="streaming")
    if found.is_guess and 2 * int((streams["len"] == 1).sum()) > int(streams["len"].sum()):
        raise ValueError(f"the values of {found.stream} hardly repeat: --stream says which column names the streams")
    contexts = None
    if found.context is not None:
        contexts = rows.select(pl.col("context").unique()).collect(engine="streaming").to_series().sort()
    low, high = (int(streams.select(end).item() or 0) for end in (pl.min("low"), pl.max("high")))
    kind = kind_of(kind, low, high)
    zone = getattr(log.schema[str(found.order)], "time_zone", None) if found.order else None
    offset = pl.col("offset") if "offset" in rows.collect_schema() else pl.lit(0)
    here = at if kind != ZONED else local(at, offset, zone)
    kept = rows.join(streams.lazy().select("stream", "last"), on="stream").filter(at <= pl.col("last"))
    each = kept.group_by("stream").agg(pl.len(), low=here.min(), high=here.max()).collect(engine="streaming")
    if not len(each):
        raise Refused(log.source, None, "no outcome is known yet")
    n, longest, first, last = each.select(
        pl.sum("len"), pl.max("len").alias("longest"), pl.min("low"), pl.max("high")
    ).row(0)
    is_dated = Clock(np.zeros(0, np.int64), kind).is_dated
    whole = Whole(n, len(each), longest, first if is_dated else 1, last if is_dated else longest, is_dated)
    return found._replace(is_guess=False), whole, Shared(low, high, contexts)


# Streams side by side.


class Summary(NamedTuple):
    """The streams of a part of a log, judged; without outcomes there are none."""

    rows: int
    found: Found
    rhythms: Rhythms
    counts: Counter[str]
    streams: pl.DataFrame
    reliability: Any
    money: dict[str, np.ndarray]  # by player [POINTS]: payoffs between one point and the next
    certificates: Sequence[Any]  # of the longest streams
    ends: Sequence[tuple[int, str]]  # the first and the last time: the moment, and as the log has it


def judged_table(
    table: Table, problem: Any, how: AuditSettings, whole: Whole, tell: Callable[[int], object] = lambda _: None
) -> Summary:
    """The streams of a table, judged side by side: those with one lag and one horizon have one guard.

    ``tell`` is called with how many rows more are done.
    """
    recording, clock = table.recording, table.clock
    read = recording.n_steps, table.found, table.rhythms, table.counts
    if not recording.names:
        return Summary(*read, pl.DataFrame(), 0, {}, (), ())
    log_level = math.log(max(1 / how.delta, whole.streams / how.fdr))
    beyond = NormalDist().inv_cdf(1 - 0.001 / whole.streams)  # without late outcomes one audit in a thousand warns
    is_given = how.lag is not None or recording.lags_R is not None

    def one(guard: Guard, block: Block) -> tuple[Any, ...]:
        columns, played = judge(guard, block, whole.rows <= _SMALL, log_level, None if is_given else beyond)
        point_NxT, there_NxT, scale_NxT = _points(table, block, whole), block.there_NxT, block.side.scale
        money = {}
        for name, own_NxT in played.paid.items():  # one player after the other: each takes memory
            paid_NxT = in_payoffs(problem, own_NxT, scale_NxT) * there_NxT
            money[name] = np.bincount(point_NxT.ravel(), paid_NxT.ravel(), POINTS)
        is_longest_N = block.lengths_N == whole.longest
        promised = [guard.certificate_of(played.guard.rows[is_longest_N])] if is_longest_N.any() else []
        return block.index_N, columns, _reliability(block, columns["alarm"]), money, promised

    found, waiting, jobs = [], deque[Future[Any]](), _jobs(table, problem, how)
    with ThreadPoolExecutor(_THREADS) as pool:
        while (job := next(jobs, None)) or waiting:
            waiting += [pool.submit(one, *job)] if job else []
            if not job or len(waiting) > _THREADS:  # few blocks at a time
                found.append(waiting.popleft().result())
                tell(int(recording.lengths_B[found[-1][0]].sum()))
    index, columns, reliability, money, promised = zip(*found, strict=True)
    ends = [int(clock.at_R.argmin()), int(clock.at_R.argmax())] if clock.is_dated else []
    return Summary(
        *read,
        streams=_frame(table, np.concatenate(index), columns),
        reliability=sum(reliability),
        money={name: sum(own[name] for own in money) for name in money[0]},
        certificates=[one for own in promised for one in own],
        ends=[(int(clock.at_R[row]), text) for row, text in zip(ends, clock.texts(ends), strict=True)],
    )


def _jobs(table: Table, problem: Any, how: AuditSettings) -> Iterator[tuple[Guard, Block]]:
    """Blocks of streams, each with its guard."""
    recording = table.recording
    lags_B = np.full(len(recording.names), how.lag or 1)
    if recording.lags_R is not None:
        lags_B = np.maximum.reduceat(recording.lags_R, recording.start_B)
    horizons_B = recording.lengths_B if how.horizon is None else np.full(len(lags_B), how.horizon)
    cells = max(1, _CELLS // (problem.n_actions + recording.width))
    groups, which_B = np.unique(np.stack([lags_B, horizons_B], axis=1), axis=0, return_inverse=True)
    work = recording.n_steps + _ALONE * int(groups[:, 1].sum())
    for g, (lag, horizon) in enumerate(groups.tolist()):
        test = ExactTest(how.delta, horizon)
        guard = Guard(recording.stakes(problem), against=recording.against, test=test, lag=lag)
        form_of(guard.engine, work)  # compiled before the first block, where that is worth it
        for block in recording.blocks(cells, index_B=np.flatnonzero(which_B.ravel() == g)):
            yield guard, block


def _points(table: Table, block: Block, whole: Whole) -> np.ndarray:
    """Between which points of the curves each step of a block is, ``[N, T]``."""
    step_NxT = np.minimum(np.arange(block.outcomes_NxT.shape[1]), block.lengths_N[:, None] - 1)
    at_NxT = step_NxT + 1
    if whole.is_dated:
        rows_NxT = table.recording.start_B[block.index_N][:, None] + step_NxT
        at_NxT = table.clock.part(rows_NxT.ravel()).local_R.reshape(rows_NxT.shape)
    share_NxT = (at_NxT - whole.first) / max(1, whole.last - whole.first)
    point_NxT: np.ndarray = np.clip(share_NxT * POINTS, 0, POINTS - 1).astype(np.int64)
    return point_NxT


def _frame(table: Table, index_B: np.ndarray, columns: Sequence[dict[str, np.ndarray]]) -> pl.DataFrame:
    """A row per stream, in the order of the recording; with the times of alarms and breaks, as the log has them."""
    recording, clock, order_B = table.recording, table.clock, np.argsort(index_B)
    found: dict[str, Any] = {"stream": pl.Series(recording.names, dtype=pl.String)}
    for name in columns[0]:
        own_B = np.concatenate([own[name] for own in columns])[order_B]
        found[name] = pl.Series(own_B.tolist(), dtype=pl.String) if own_B.dtype.kind in "OU" else own_B
        if name in ("alarm", "since"):
            rows = (recording.start_B + own_B - 1)[own_B > 0]
            texts = iter(clock.texts(rows) if clock.kind != ROWS else [None] * len(rows))
            times = [next(texts) if at else None for at in own_B.tolist()]
            found[f"{name}_time"] = pl.Series(times, dtype=pl.String)
    absent = pl.col("alarm", "since", "seems_lag").replace(0, None), pl.col("guard_then").fill_nan(None)
    return pl.DataFrame(found).with_columns(*absent)


def _reliability(block: Block, alarm_N: np.ndarray) -> np.ndarray:
    """Up to the alarm and after it: of states [2, S, 3, BINS], of quantiles [2, L, 2]."""
    there_NxT = block.there_NxT
    after_NxT = after_alarm(alarm_N, there_NxT.shape[1])
    found = []
    for part_NxT in (there_NxT & ~after_NxT, there_NxT & after_NxT):
        outcomes_R = block.outcomes_NxT[part_NxT]
        if isinstance(block.forecasts, np.ndarray):
            probs_RxS, counts = block.forecasts[part_NxT], []
            for s in range(probs_RxS.shape[1]):
                bin_R = np.minimum((probs_RxS[:, s] * BINS).astype(np.int64), BINS - 1)
                weights = (None, probs_RxS[:, s], outcomes_R == s)
                counts.append([np.bincount(bin_R, weight, BINS) for weight in weights])
            found.append(np.array(counts, dtype=np.float64))
        else:
            below_RxL = outcomes_R[:, None] <= block.forecasts.values[part_NxT]
            found.append(np.stack([np.full(below_RxL.shape[1], len(outcomes_R)), below_RxL.sum(axis=0)], axis=1) * 1.0)
    return np.stack(found)
