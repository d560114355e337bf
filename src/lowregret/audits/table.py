"""Rows of a log as a recording: checked, sorted by stream and step; nothing in a log is taken on trust."""

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .. import inputs
from ..forecasts import Quantiles
from ..forecasts.contract import needs_knots
from ..problems import DecisionProblem, Names, Payoff
from .cells import UNKNOWN, parts_of, plain, refuse_rows, stream_of
from .columns import NO_STREAM, Found, Values, found_columns, listed
from .reading import ROW, TEXTS, Log, Refused, column, log_of
from .recording import Recording, SideInformation
from .settings import Columns
from .times import TIMES, Clock, Rhythms, kind_of, rhythms_of

_WAITING = "rows at the end of their streams have no outcome yet, and are left out"
_MISSING = (
    "outcomes inside their streams are missing: these steps are skipped, and each adds what one step can cost to what "
    "is guaranteed"
)
_DIVIDED = "rows did not sum to one, and were divided by their sum"
_SORTED = "rows had quantiles that cross or lie outside the possible outcomes, and were sorted and clipped"
_EARLY = "outcomes were known before their own step, by {}: a forecast must be made before its outcome is known"
_AHEAD = (
    "forecasts were made before the outcome before theirs was known ({}): the bound on regret still holds, that on the "
    "chance of a false alarm does not"
)
_ROUNDED = 1e-6  # by how much sums of probabilities may be off before they are divided by their sum


class Doubled(Refused):
    """A stream has two rows of one time."""


class Table(NamedTuple):
    """A recording out of a log, and where its rows stand there."""

    recording: Recording
    clock: Clock
    row_R: np.ndarray
    found: Found
    rhythms: Rhythms
    counts: Counter[str]  # of what was mended or left out, in words

    @property
    def notes(self) -> tuple[str, ...]:
        """What was mended, left out, or taken for granted."""
        return notes_of(self.found, self.rhythms, self.counts)


def notes_of(found: Found, rhythms: Rhythms, counts: dict[str, int]) -> tuple[str, ...]:
    """How a log was read, in sentences."""
    gaps, streams = rhythms.gaps
    of = f" in {streams:,} streams" if streams > 1 else ""
    counts = {f"steps{of} are not as far from the one before as is usual: some may be missing": gaps, **counts}
    return *found.notes, *(f"{n:,} {what}" for what, n in counts.items() if n)


def table_of(log: Log, found: Found, problem: Any, tolerance: float = _ROUNDED) -> Table:
    """The whole log as a recording; where times are equal, the only column that tells them apart names the streams."""

    def read(found: Found) -> Table:
        query, kind = plain(log, found, problem)
        held = [log.collected(query)]
        table = checked(held.pop(), kind, log, found, problem, tolerance)  # so that only `checked` holds the rows
        if not table.recording.names:
            raise Refused(log.source, None, "no outcome is known yet")
        return table

    try:
        return read(found)
    except Doubled as doubled:
        if not found.is_guess or found.order is None:
            raise
        apart = _apart(log, found)
        if len(apart) != 1:
            which = f"; {listed(apart)} tell such rows apart, and --stream NAME says which of them" if apart else ""
            raise Refused(doubled.where, doubled.row, f"{doubled.reason}{which}") from None
        note = f"streams are those of {apart[0]}, the only column that tells equal times apart"
        return read(found._replace(stream=apart[0], is_guess=False, notes=(*found.notes, note)))


def _apart(log: Log, found: Found) -> list[str]:
    """Columns that are not read, whose values repeat, and of which each time has every value once."""
    assert found.order is not None
    schema = log.schema
    free = [name for name in schema if name not in found.needed or name == found.stream]
    free = [name for name in free if isinstance(schema[name], (*TEXTS, pl.Boolean)) or schema[name].is_integer()]
    frame = log.rows.select(column(*free), column(found.order).alias(ROW)).collect() if free else pl.DataFrame()
    n, read = len(frame), [name for name in free if isinstance(schema[name], TEXTS)]
    numbers = frame.select(log.number(name).alias(name) for name in read)
    measured = [name for name in read if (numbers[name] != numbers[name].floor()).any()]  # which names no stream
    free = [name for name in free if name not in measured and frame[name].n_unique() <= n / 2]
    return [name for name in free if frame.select(pl.struct(column(name, ROW)).n_unique()).item() == n]


def recording_in_frame(frame: Any, problem: Any, columns: Any = None) -> tuple[Recording, Table]:
    """The recording in a frame, with the names of streams as they stand there, in their order."""
    columns = columns if isinstance(columns, Columns) else Columns(**(columns or {}))
    if isinstance(problem, Payoff):
        needs_knots(problem, "Quantiles")
    log = log_of(frame)
    table = table_of(log, found_columns(log, problem, columns), problem)
    if table.found.stream is None:
        return replace(table.recording, names=(0,)), table
    own = log.rows.select(table.found.stream).unique().collect()
    text = own.select(stream_of(log, table.found.stream)).to_series().to_list()
    by_name = dict(zip(text, own.to_series().to_list(), strict=True))
    names = [by_name[name] for name in table.recording.names]
    try:
        order_B = np.array(sorted(range(len(names)), key=names.__getitem__))
    except TypeError:  # of several kinds: as texts
        order_B = np.arange(len(names))
    rows_R = table.recording.rows_of(order_B)
    recording = replace(table.recording, names=tuple(names)).part(order_B)
    return recording, table._replace(recording=recording, clock=table.clock.part(rows_R), row_R=table.row_R[rows_R])


# Rows that are checked, sorted, and mended.


class Shared(NamedTuple):
    """What the parts of a log have in common."""

    low: int  # the first and the last step
    high: int
    contexts: pl.Series | None


def checked(
    rows: pl.DataFrame, kind: str, log: Log, found: Found, problem: Any, tolerance: float, shared: Shared | None = None
) -> Table:
    """Rows under plain names, checked and sorted; the first that is bad is refused. Without outcomes no stream is left.

    ``shared``: of all rows of the log, where these are a part of them.
    """
    if not len(rows):
        raise Refused(log.source, None, "it has no rows")
    of_states = isinstance(problem, DecisionProblem)
    if of_states:
        rows = rows.with_columns(_positions(rows["state"], problem.state_names))
    refuse_rows(rows, log, parts_of(log, found, problem, tolerance)[0])
    if shared is None:
        contexts = rows["context"].unique().sort() if found.context is not None else None
        low, high = rows.select(low=pl.min("at"), high=pl.max("at")).row(0)
        shared = Shared(low, high, contexts)
    rows, names, found = _by_stream(rows, found)
    if (own_kind := kind_of(kind, shared.low, shared.high)) != kind:
        found = found._replace(notes=(*found.notes, f"the steps ({found.order}) are read as Unix times"))
    zone = None if found.order is None else getattr(log.schema[found.order], "time_zone", None)
    offset_R = rows["offset"].to_numpy() if "offset" in rows.columns else None
    clock = Clock(rows["at"].to_numpy(), own_kind, zone, offset_R)
    _refuse_doubled(rows, clock, names, log, found)
    rhythms, counts = rhythms_of(clock, rows["stream"].to_numpy()), Counter[str]()

    # The rows up to the last known outcome of their streams.
    state, is_ahead = pl.col("state"), pl.col("cutoff") < pl.col("at").shift().over("stream")
    kept_R = rows.select(state.is_not_null().cum_sum(reverse=True).over("stream") > 0).to_series().to_numpy()
    counts[_WAITING] += int((~kept_R).sum())
    if not kept_R.all():
        rows, clock = rows.filter(kept_R), clock.part(kept_R)
    known_R = rows["state"].is_not_null().to_numpy()
    counts[_MISSING] += int((~known_R).sum())
    if found.cutoff is not None:  # too early to know the outcome before theirs
        counts[_AHEAD.format(found.cutoff)] += int(rows.select(is_ahead.sum()).item())
    forecasts, mended = _forecasts(rows, "v", found.values, problem)
    references = [_forecasts(rows, f"r{q}_", own, problem)[0] for q, (_, own) in enumerate(found.references)]
    counts[_SORTED if found.values.levels else _DIVIDED] += mended
    lags_R = None if found.known_at is None else _lags(rows, known_R, found, counts)
    context_R = None
    if shared.contexts is not None:
        places = pl.Series(np.arange(len(shared.contexts)))
        context_R = rows["context"].replace_strict(shared.contexts, places, return_dtype=pl.Int64).to_numpy()
    pays = [name for name in rows.columns if name.startswith("pay")]
    there, lengths_B = np.unique(rows["stream"].to_numpy(), return_counts=True)
    recording = Recording(
        names=tuple(names.gather(there).to_list()),
        lengths_B=lengths_B,
        forecasts=forecasts,
        outcomes_R=rows["state"].fill_null(0).to_numpy().astype(np.int64 if of_states else np.float64),
        side=SideInformation(
            references=None if not references else np.stack(references, axis=1) if of_states else tuple(references),
            context=context_R,
            payoffs=rows.select(pays).to_numpy().reshape(-1, *problem.utility.shape) if pays else None,
            scale=rows["scale"].to_numpy() if found.scale is not None else None,
        ),
        references=tuple(name for name, _ in found.references),
        contexts=None if shared.contexts is None else tuple(shared.contexts.to_list()),
        missing_R=None if known_R.all() else ~known_R,
        lags_R=lags_R,
    )
    return Table(recording, clock, rows[ROW].to_numpy(), found, rhythms, counts)


def _positions(states: pl.Series, names: Names) -> pl.Series:
    """States by position: ``UNKNOWN`` for what is none of them."""
    distinct = states.drop_nulls().unique()
    values = distinct.to_numpy() if distinct.dtype.is_float() else distinct.to_list()  # floats in their own precision
    places = [names.position(value) for value in values]
    at = pl.Series([UNKNOWN if place is None else place for place in places], dtype=pl.Int32)
    return states.replace_strict(distinct, at, default=None, return_dtype=pl.Int32).alias("state")


def _by_stream(rows: pl.DataFrame, found: Found) -> tuple[pl.DataFrame, pl.Series, Found]:
    """Rows in the order of the names of streams and of their steps, with numbers for names, and the names."""
    names = rows["stream"].unique().cast(pl.String).sort()
    code = rows["stream"].cast(pl.Enum(names)).to_physical().cast(pl.Int32)
    single = int((np.bincount(code.to_numpy()) == 1).sum())
    if found.is_guess and found.stream and len(rows) > 1 and 2 * single > len(rows):
        note = (
            f"the values of {found.stream} hardly repeat, so all rows are taken to be one stream: "
            f"--stream {found.stream} makes streams of them, --stream {NO_STREAM} says that there is one"
        )
        names, code = pl.Series(["0"]), code * 0
        found = found._replace(stream=None, notes=(*found.notes, note))
    rows = rows.with_columns(code.alias("stream"))
    apart_R, later_R = np.diff(code.to_numpy()), np.diff(rows["at"].to_numpy())
    if not ((apart_R > 0) | ((apart_R == 0) & (later_R >= 0))).all():
        rows = rows.sort("stream", "at", maintain_order=True)
    return rows, names, found


def _forecasts(rows: pl.DataFrame, prefix: str, values: Values, problem: Any) -> tuple[Any, int]:
    """Forecasts that are what they must be, and in how many rows they were not."""
    n = problem.n_states if values.is_list else len(values.names)
    values_RxV = rows.select(f"{prefix}{s}" for s in range(n)).to_numpy(order="c")
    if values.levels:
        sorted_RxV = np.clip(np.sort(values_RxV, axis=1), *problem.outcomes)
        return Quantiles(values.levels, sorted_RxV), int((sorted_RxV != values_RxV).any(axis=1).sum())
    sums_R = values_RxV.sum(axis=1)
    off_R = np.abs(sums_R - 1) > _ROUNDED
    if off_R.any():
        values_RxV = np.where(off_R[:, None], values_RxV / sums_R[:, None], values_RxV)
    return values_RxV, int(off_R.sum())


def _lags(rows: pl.DataFrame, known_R: np.ndarray, found: Found, counts: Counter[str]) -> np.ndarray:
    """After how many steps each outcome was known: the first step after that time knows it. Near the end of a stream,
    how many steps did not know it.
    """
    at_R, code_R = rows["at"].to_numpy(), rows["stream"].to_numpy().astype(np.int64)
    then_R = np.where(known_R, rows["known_at"].fill_null(0).to_numpy(), at_R)
    counts[_EARLY.format(found.known_at)] += int((then_R < at_R).sum())
    moments = np.unique(np.concatenate([at_R, then_R]))
    step_R, known_R = (code_R * len(moments) + np.searchsorted(moments, own) for own in (at_R, then_R))
    lags_R: np.ndarray = np.maximum(np.searchsorted(step_R, known_R, side="right") - np.arange(len(at_R)), 1)
    return lags_R


def _refuse_doubled(rows: pl.DataFrame, clock: Clock, names: pl.Series, log: Log, found: Found) -> None:
    """Refuse two rows of one stream and step, where rows are by stream and step."""
    code_R = rows["stream"].to_numpy()
    wrong = np.flatnonzero((code_R[1:] == code_R[:-1]) & (clock.at_R[1:] == clock.at_R[:-1]))
    if not len(wrong):
        return
    at = int(wrong[0])
    (other, first), (file, row) = (log.place(own) for own in sorted(rows[ROW][at : at + 2]))
    of = "" if found.stream is None else f" of stream {inputs.shown(names[int(code_R[at])])}"
    step, also = clock.texts([at])[0], f"row {first}" if other == file else f"{other}, row {first}"
    reason = f"{step}{of} is there twice, also in {also}"
    if found.cutoff is not None:
        reason += f": keep one forecast per step, that of the latest {found.cutoff}"
    if clock.kind == TIMES and "T" in step:
        reason += "; if clocks were set back then, write times with their zone, 2026-10-25T02:30:00+01:00"
    raise Doubled(file, row, reason)
