"""Rows of a log as a recording: checked, sorted by stream and step; nothing in a log is taken on trust."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from ..forecasts import Quantiles
from ..forecasts.contract import needs_knots
from ..problems import DecisionProblem, Names, Payoff
from .columns import NO_STREAM, Found, Values, found_columns, listed
from .faults import UNKNOWN, Pooled, refuse_doubled, refuse_rivals, refuse_rows
from .reading import MISSING, ROW, TEXTS, Log, Refused, column, log_of
from .recording import Recording, SideInformation
from .settings import Columns
from .times import NUMBERS, ROWS, Clock, Moments, Rhythms, moments_of, nanoseconds, numbered, rhythms_of

T = TypeVar("T")
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
    *_, gaps, streams, _ = rhythms.best
    of = f" in {streams:,} streams" if streams > 1 else ""
    counts = {f"steps{of} are not as far from the one before as is usual: some may be missing": gaps, **counts}
    return *found.notes, *(f"{n:,} {what}" for what, n in counts.items() if n)


# Columns, whatever their types, under plain names.


def plain(log: Log, found: Found, problem: Any, as_text: bool = False) -> tuple[pl.LazyFrame, str]:
    """The columns that matter under plain names, and what steps are; ``as_text``: numbers are parsed as written."""
    schema, rows = log.schema, log
    if log.kind == "text":
        amounts = [*found.values.there, *(name for _, values in found.references for name in values.there)]
        amounts += [*found.payoffs, *filter(None, [found.scale, found.state if found.values.levels else None])]
        written = found.needed if as_text else [name for name in found.needed if schema[name] == pl.String]
        names = [name for name in (found.stream, found.context, found.state) if name and name not in amounts]
        rows = log.as_text([*written, *names])
        steps = [name for name in written if name not in (*amounts, *names) and schema[name] != pl.String]
        numbers = [column(name).cast(schema[name], strict=False) for name in steps]
        rows = rows._replace(rows=rows.rows.with_columns(numbers))
        schema = schema | dict.fromkeys([*(name for name in written if name not in steps), *names], pl.String())
    if found.counted:  # steps that are numbers, written as texts
        counts = (
            column(*found.counted).cast(pl.String).str.strip_chars().str.strip_suffix(",0").cast(pl.Int64, strict=False)
        )
        rows = rows._replace(rows=rows.rows.with_columns(counts))
        schema = schema | dict.fromkeys(found.counted, pl.Int64())
    own = _Cells(log, schema)
    parts: dict[str, pl.Expr] = {"stream": own.name(found.stream).cast(pl.Categorical)}
    kind, parts["at"] = ROWS, pl.col(ROW).cast(pl.Int64)
    if found.order is not None:
        moments = own.moments(found.order, found.has_zones)
        kind, parts["at"] = moments.kind, moments.at
        if moments.offset is not None:
            parts["offset"] = moments.offset.cast(pl.Int32)
    for role in ("known_at", "cutoff"):
        if (name := getattr(found, role)) is not None:
            theirs = own.moments(name, found.has_zones)
            if theirs.kind != kind:
                reason = f"{name} must be given as the steps are, which are {kind}, got {theirs.kind}"
                raise Refused(log.source, None, reason)
            parts[role] = theirs.at
    parts |= {f"t{i}": own.moments(name, False).at for i, name in enumerate(found.rivals)}
    parts["state"] = own.outcomes(found.state) if found.values.levels else own.states(found.state, problem.state_names)
    for prefix, values in (("v", found.values), *((f"r{q}_", ref) for q, (_, ref) in enumerate(found.references))):
        parts |= {f"{prefix}{s}": cell for s, cell in enumerate(own.forecast(values, problem))}
    if found.context is not None:
        parts["context"] = column(found.context)
    if found.scale is not None:
        parts["scale"] = log.number(found.scale, schema[found.scale])
    if found.payoffs:
        parts |= {f"pay{i}": cell for i, cell in enumerate(own.payoffs(found.payoffs, *problem.utility.shape))}
    return rows.filled(found.needed).select(ROW, **parts), kind


class _Cells(NamedTuple):
    """The cells of columns as Polars expressions, by their types; null where a cell is not what it must be."""

    log: Log
    schema: dict[str, Any]

    def name(self, name: str | None) -> pl.Expr:
        """The stream of a row as a text: 1.0 is 1."""
        if name is None:
            return pl.lit("0")
        own, kind = column(name), self.schema[name]
        if kind.is_float() or kind.is_decimal():
            value = own.fill_nan(None) if kind.is_float() else own
            whole = (value == value.floor()) & (value.abs() < 1 << 53 if kind.is_float() else True)
            own = (
                pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(value.cast(pl.String))
            )
        elif kind == pl.Boolean:
            own = own.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
        return own.cast(pl.String)

    def moments(self, name: str, has_zones: bool) -> Moments:
        """The steps, or times that go with them."""
        kind = self.schema[name]
        if kind.is_numeric() or isinstance(kind, (pl.Date, pl.Datetime, pl.Duration, pl.Time, *TEXTS)):
            return moments_of(name, kind, has_zones)
        raise Refused(self.log.source, None, f"the steps ({name}) must be whole numbers or times, got {kind}")

    def states(self, name: str, names: Names) -> pl.Expr:
        """What occurred, as it is written; null where nothing has yet."""
        own = column(name)
        if not isinstance(self.schema[name], TEXTS):
            return own.fill_nan(None) if self.schema[name].is_float() else own
        missing = [word for word in MISSING if names.position(word) is None]
        text = own.cast(pl.String)
        return pl.when(~text.str.strip_chars().is_in(missing)).then(text).cast(pl.Categorical)

    def outcomes(self, name: str) -> pl.Expr:
        """The numbers that occurred; null where there is none, NaN where there is something else."""
        number = self.log.number(name, self.schema[name]).fill_nan(None)
        if not isinstance(self.schema[name], TEXTS):
            return number
        is_missing = column(name).cast(pl.String).str.strip_chars().is_in(MISSING).fill_null(True)
        return pl.when(number.is_null() & ~is_missing).then(float("nan")).otherwise(number)

    def forecast(self, values: Values, problem: Any) -> list[pl.Expr]:
        """The probability of each state, or the quantile at each level."""
        if values.is_list:
            (name,), S = values.there, problem.n_states
            if not isinstance(self.schema[name], (pl.List, pl.Array)):
                reason = f"the probabilities ({name}) must be lists of {S}, got {self.schema[name]}"
                raise Refused(self.log.source, None, reason)
            cell = column(name).cast(pl.List(pl.Float64))
            whole = pl.when(cell.list.len() == S).then(cell)
            return [whole.list.get(s, null_on_oob=True) for s in range(S)]
        numbers = {name: self.log.number(name, self.schema[name], not values.levels) for name in values.there}
        (one, *_) = numbers.values()
        return [1 - one if name is None else numbers[name] for name in values.names]  # of two states one is enough

    def payoffs(self, names: Sequence[str], A: int, S: int) -> list[pl.Expr]:
        """Payoffs of each row, action by action."""
        if len(names) > 1 or not isinstance(self.schema[names[0]], (pl.List, pl.Array)):
            return [self.log.number(name, self.schema[name]) for name in names]
        inner = self.schema[names[0]].inner
        own, is_nested = column(names[0]).cast(pl.List(inner)), isinstance(inner, (pl.List, pl.Array))
        rows = [own.list.get(a, null_on_oob=True) if is_nested else own.list.slice(a * S, S) for a in range(A)]
        rows = [row.cast(pl.List(pl.Float64)) for row in rows]
        is_right = pl.all_horizontal([row.list.len() == S for row in rows])
        is_right = is_right & (own.list.len() == (A if is_nested else A * S))
        return [pl.when(is_right).then(row.list.get(s, null_on_oob=True)) for row in rows for s in range(S)]


def first_of(log: Log, ways: Sequence[Callable[[], T]]) -> T:
    """What the first of these ways to read a log gives that can read it."""
    for way in ways:
        try:
            return way()
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = error
    raise log.unreadable(problem) from problem


def collected(log: Log, *queries: pl.LazyFrame) -> pl.DataFrame:
    """The first of these queries that can be answered, in memory."""
    (rows,) = first_of(log, [partial(pl.collect_all, [query], engine="streaming") for query in queries])
    return rows


def of_plain(log: Log, found: Found, problem: Any, use: Callable[[pl.LazyFrame, str], T]) -> T:
    """What is made of the plain columns and the kind of steps; of texts if a cell is no number, so that it is found."""

    def way(as_text: bool) -> T:
        return use(*plain(log, found, problem, as_text))

    return first_of(log, [partial(way, False), partial(way, True)])


def table_of(log: Log, found: Found, problem: Any, tolerance: float = _ROUNDED) -> Table:
    """The whole log as a recording; where times are equal, the only column that tells them apart names the streams."""

    def read(found: Found) -> Table:
        rows, kind = of_plain(log, found, problem, lambda rows, kind: (rows.collect(engine="streaming"), kind))
        table = checked(rows, kind, log, found, problem, tolerance)
        if not table.recording.names:
            raise Refused(log.source, None, "no outcome is known yet")
        return table

    try:
        return read(found)
    except Pooled as pooled:
        apart, refusal = _apart(log, found), pooled.refusal
        if len(apart) != 1:
            which = f"; {listed(apart)} tell such rows apart, and --stream NAME says which of them" if apart else ""
            raise Refused(refusal.where, refusal.row, f"{refusal.reason}{which}") from None
        note = f"streams are those of {apart[0]}, the only column that tells equal times apart"
        return read(found._replace(stream=apart[0], is_guess=False, notes=(*found.notes, note)))


def _apart(log: Log, found: Found) -> list[str]:
    """Columns that are not read, whose values repeat, and of which each time has every value once."""
    assert found.order is not None
    schema = log.schema
    free = [name for name in schema if name not in found.needed or name == found.stream]
    free = [name for name in free if isinstance(schema[name], (*TEXTS, pl.Boolean)) or schema[name].is_integer()]
    frame = log.rows.select(column(*free), column(found.order).alias(ROW)).collect() if free else pl.DataFrame()
    n = len(frame)
    free = [name for name in free if frame[name].n_unique() <= n / 2]
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
    text = own.select(_Cells(log, log.schema).name(table.found.stream)).to_series().to_list()
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


def shared_by(rows: pl.DataFrame) -> Shared:
    """What the parts of these rows have in common."""
    contexts = rows["context"].unique().sort() if "context" in rows.columns else None
    return Shared(int(rows["at"].to_numpy().min()), int(rows["at"].to_numpy().max()), contexts)


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
    refuse_rows(rows, log, found, problem, tolerance)
    shared = shared or shared_by(rows)
    rows, names, found = _by_stream(rows, found)
    refuse_rivals(rows, log, found)
    own_kind = numbered(shared.low, shared.high)[1] if kind == NUMBERS else kind
    if own_kind != kind:
        times = [name for name in ("at", "known_at", "cutoff") if name in rows.columns]
        rows = rows.with_columns(nanoseconds(pl.col(name)) for name in times)
        found = found._replace(notes=(*found.notes, f"the steps ({found.order}) are read as Unix times"))
    zone = None if found.order is None else getattr(log.schema[found.order], "time_zone", None)
    offset_R = rows["offset"].to_numpy() if "offset" in rows.columns else None
    clock = Clock(rows["at"].to_numpy(), own_kind, zone, offset_R)
    refuse_doubled(rows, clock, names, log, found)
    rhythms, counts = rhythms_of(clock, rows["stream"].to_numpy()), Counter[str]()

    kept_R = _until_known(rows, counts)
    if not kept_R.all():
        rows, clock = rows.filter(kept_R), clock.part(kept_R)
    known_R = rows["state"].is_not_null().to_numpy()
    forecasts, mended = _forecasts(rows, "v", found.values, problem)
    references = [_forecasts(rows, f"r{q}_", own, problem)[0] for q, (_, own) in enumerate(found.references)]
    counts[_SORTED if found.values.levels else _DIVIDED] += mended
    lags_R = None if found.known_at is None else _lags(rows, known_R, found, counts)
    _count_ahead(rows, found, counts)
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


def _until_known(rows: pl.DataFrame, counts: Counter[str]) -> np.ndarray:
    """The rows up to the last known outcome of their streams."""
    code_R, known_R = rows["stream"].to_numpy(), rows["state"].is_not_null().to_numpy()
    last_B = np.full(int(code_R[-1]) + 1, -1)
    last_B[code_R[known_R]] = np.flatnonzero(known_R)  # where an index comes twice, its last value stays
    kept_R: np.ndarray = np.arange(len(code_R)) <= last_B[code_R]
    counts[_WAITING] += int((~kept_R).sum())
    counts[_MISSING] += int((kept_R & ~known_R).sum())
    return kept_R


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


def _count_ahead(rows: pl.DataFrame, found: Found, counts: Counter[str]) -> None:
    """Forecasts that were made too early to know the outcome before theirs."""
    if found.cutoff is not None:
        code_R, at_R, made_R = (rows[name].to_numpy() for name in ("stream", "at", "cutoff"))
        is_ahead_R = (code_R[1:] == code_R[:-1]) & (made_R[1:] < at_R[:-1])
        counts[_AHEAD.format(found.cutoff)] += int(is_ahead_R.sum())
