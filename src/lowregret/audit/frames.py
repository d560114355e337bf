"""Frames: one row per step, from any package that speaks Arrow (extra: ``data``)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, Payoff
from .cells import Refused, arrow, numbers_in, one_column, without_nulls
from .columns import Columns, alone_told, columns_of, passed_told, repeating, shared
from .known import NOTHING, Tells, Told, labelled, lags_of
from .laws import laws_in
from .rows import encoded, rows_of, sorted_rows, streams_in_rows
from .streams import Source, Streams
from .times import Steps, irregular, unix_told, with_own_clocks

FRAME = "the frame"


def is_frame(value: Any) -> bool:
    """Whether a value has columns by the Arrow PyCapsule interface, as those of pandas, polars and pyarrow do."""
    return hasattr(value, "__arrow_c_stream__") and not hasattr(value, "__array_namespace__")


def table_of(frame: Any) -> Any:
    """The frame as an Arrow table."""
    pa = arrow()
    try:
        table = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"the frame must have columns that Arrow knows: {words}") from error
    return table


def streams_in(
    problem: DecisionProblem,
    frame: Any,
    state: Any = None,
    columns: Any = None,
    tolerance: float = inputs.SUM_TOLERANCE,
) -> Streams:
    """The streams of a frame, by name, each in order of its steps; rows may come in any order."""
    table = table_of(frame)
    if state is not None:
        columns = {**(columns if isinstance(columns, Mapping) else {}), "state": state}
    found = columns_of(table.column_names, problem, columns)
    if not table.num_rows:
        raise ValueError("the frame must have one row per step, got no rows")
    table, found = needed_of(table, frame, found)
    rows = rows_of(table, found, problem, tolerance, FRAME)
    told, tells = told_in(table, found, problem, tolerance, FRAME)
    listed = in_streams(rows.names, rows.stream_R, rows.steps, found)
    known = [Told(*(None if part is None else part[place] for part in told)) for place in listed.rows]
    return Streams(
        listed.names,
        [rows.probs_RxS[place] for place in listed.rows],
        [rows.states_R[place].astype(np.int64) for place in listed.rows],
        listed.rows,
        Source(frame, tuple(name for name in (found.stream, found.order) if name is not None), found.about),
        None if tells == NOTHING else known,
        tells,
        listed.notes,
        None if rows.known_R is None else [lags_of(rows.steps.at_R[at], rows.known_R[at]) for at in listed.rows],
    )


def needed_of(table: Any, frame: Any, found: Any) -> tuple[Any, Any]:
    """The columns of a frame's table that matter, and which is what: the stream is one that repeats, or as given."""

    def repeats(name: str) -> bool:
        names, stream_R = streams_in_rows(table, name, FRAME)
        return shared(len(stream_R), int((np.bincount(stream_R, minlength=len(names)) == 1).sum()))

    found = repeating(found, repeats)
    return with_own_clocks(table.select(found.needed), frame, found.order), found


class Listed(NamedTuple):
    """The streams of a frame by name, and which rows each has, in order."""

    names: tuple[Any, ...]
    rows: list[np.ndarray]
    notes: tuple[str, ...]


def in_streams(names: list[Any], stream_R: np.ndarray, steps: Steps, found: Any) -> Listed:
    """The rows of a frame by stream and step; steps that its times show to be missing are noted.

    ``found`` are its columns.
    """
    names, stream_R = _by_name(names, stream_R)
    rows, alone = np.arange(len(stream_R)), alone_told(found)
    place_R = sorted_rows(names, stream_R, steps, rows, lambda row: (FRAME, row + 1), found.every, alone)
    cuts = np.flatnonzero(np.diff(stream_R[place_R])) + 1
    present = stream_R[place_R][np.append(0, cuts)]
    notes = (
        *passed_told(found),
        *unix_told(found.order, steps.kind),
        *irregular(stream_R[place_R], steps.of(place_R)).told,
    )
    return Listed(tuple(names[i] for i in present), np.split(place_R, cuts), notes)


def result_frame(found: Any) -> Any:
    """What ``Backtest.to_frame`` gives: one row per step, in the rows of the frame that was tested if there was one."""
    pa, recording, problem = arrow(), found.recording, found.problem
    places, source = recording.rows, recording.source
    lengths_B = recording.lengths_B
    if places is None:
        ends = np.cumsum(lengths_B)
        places = [np.arange(end - T, end) for T, end in zip(lengths_B, ends, strict=True)]
    place_R = np.concatenate(places)

    def in_place(values: Any) -> np.ndarray:
        flat = np.concatenate([np.asarray(part) for part in values])
        out = np.empty(len(flat), dtype=flat.dtype)
        out[place_R] = flat
        return out

    steps = [np.arange(1, T + 1) for T in lengths_B]
    data: dict[str, Any] = {}
    if source is None:
        codes = pa.array(np.repeat(np.arange(len(lengths_B)), lengths_B).astype(np.int32))
        names = pa.array([name if isinstance(name, (str, int, float)) else str(name) for name in recording.names])
        data["stream"] = names.take(codes)
    else:
        table = table_of(source.frame)
        data |= {name: table.column(name) for name in source.columns}
    data.setdefault("step", pa.array(in_place(steps)))
    data["used_fallback"] = pa.array(in_place(share < 1 for share in found.share))
    data["model_share"] = pa.array(in_place(found.share))
    for player, paid in found.paid.items():
        each = (problem.regret_in_payoffs(one) + recording.sure(problem, i) for i, one in enumerate(paid))
        data[f"payoff_{player.lower()}"] = pa.array(in_place(each))
    made = pa.table(data)
    if source is None or type(source.frame).__module__.split(".")[0] != "pandas":
        return made
    answer = made.to_pandas()
    answer.index = source.frame.index
    return answer


def _by_name(names: list[Any], stream_R: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Streams sorted by name where names can be sorted, else as they first come."""
    try:
        order = sorted(range(len(names)), key=names.__getitem__)
    except TypeError:
        return names, stream_R
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return [names[i] for i in order], rank[stream_R]


# Columns of what else was known before each state: incumbents' laws, a context, the payoffs.


def told_in(
    table: Any,
    columns: Columns,
    problem: DecisionProblem | Payoff,
    tolerance: float,
    where: str,
    before: int = 0,
    labels: tuple[Any, ...] | None = None,
) -> tuple[Told, Tells]:
    """What else a table says of every row, as arrays with an axis of rows, and what kinds of things these are.

    ``labels``: all contexts, where other rows may have some that these do not.
    """
    said = [_said(table, own, problem, tolerance, where, before) for _, own in columns.references]
    context = None
    if columns.context is not None:
        column = one_column(table, columns.context)
        without_nulls(column, f"the context ({columns.context})", where, before)
        column = encoded(column, f"the contexts ({columns.context})", where)
        each = [*([] if labels is None else [labels]), column.dictionary.to_pylist()]
        labels, (*_, place) = labelled(each, f"the context ({columns.context})")
        context = place[np.asarray(column.indices)]
    payoffs = None
    if columns.payoffs:
        assert isinstance(problem, DecisionProblem)
        payoffs = _payoffs(table, columns.payoffs, problem, where, before)
    scale = None
    if columns.scale is not None:
        scale = numbers_in(one_column(table, columns.scale), columns.scale, "scale", where)
        if len(bad := np.flatnonzero(~((scale > 0) & (scale <= 1)))):
            reason = f"the scale ({columns.scale}) must be above 0 and at most 1, got {scale[bad[0]]:.6g}"
            raise Refused(where, before + int(bad[0]) + 1, reason)
    kind = "change" if payoffs is not None else "scaled" if scale is not None else None
    told = Told(np.stack(said, axis=1) if said else None, context, payoffs, scale)
    return told, Tells(tuple(name for name, _ in columns.references), labels, kind)


def _said(table: Any, names: Any, problem: Any, tolerance: float, where: str, before: int) -> np.ndarray:
    """What an incumbent forecast, ``[R, S]``."""
    return laws_in(table, names, problem.states, tolerance, where, before)[0]


def _payoffs(table: Any, names: tuple[str, ...], problem: DecisionProblem, where: str, before: int) -> np.ndarray:
    """``[R, A, S]``, in the problem's units."""
    (A, S), pa = problem.utility.shape, arrow()
    if len(names) == A * S and not pa.types.is_nested(table.schema.field(names[0]).type):
        each = [numbers_in(one_column(table, name), name, "payoffs", where) for name in names]
        found_RxAxS = np.stack(each, axis=1).reshape(-1, A, S)
    else:
        column, name = one_column(table, names[0]), names[0]
        without_nulls(column, f"the list of payoffs ({name})", where, before)
        for row, value in enumerate(column.to_pylist()):
            if np.shape(_flat(value)) not in ((A, S), (A * S,)):
                reason = f"there must be {A} x {S} payoffs ({name}), action by action, got {str(value)[:80]}"
                raise Refused(where, before + row + 1, reason)
        while pa.types.is_nested(column.type):
            column = column.flatten()
        found_RxAxS = numbers_in(column, name, "payoffs", where).reshape(-1, A, S)
    low, high = sorted((float(problem.in_payoffs(-1.0)), float(problem.in_payoffs(1.0))))
    slack = 1e-9 * (high - low)
    right_R = ((found_RxAxS >= low - slack) & (found_RxAxS <= high + slack)).all(axis=(1, 2))  # a NaN is neither
    if not right_R.all():
        row = int(np.flatnonzero(~right_R)[0])
        shown = ", ".join(f"{value:.6g}" for value in found_RxAxS[row].ravel()[:8])
        reason = f"payoffs must lie in the range that the problem declares, {low:.6g} to {high:.6g}, got {shown}"
        raise Refused(where, before + row + 1, reason)
    return found_RxAxS


def _flat(value: Any) -> Any:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
