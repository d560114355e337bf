"""Frames as people have them: one row a step, from any package that speaks Arrow (extra: ``data``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import inputs
from ..problems import DecisionProblem
from .columns import columns_of
from .rows import arrow, rows_of, sorted_rows
from .streams import Source, Streams


def is_frame(value: Any) -> bool:
    """Whether it hands over its columns by the Arrow PyCapsule interface: pandas, polars, pyarrow and others do."""
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
        raise ValueError("the frame must have a row a step, got none")
    rows = rows_of(table.select(found.needed), found, problem, tolerance, "the frame")
    names, stream_R = _by_name(rows.names, rows.stream_R)
    place_R = sorted_rows(
        names, stream_R, rows.order_R, rows.counted, np.arange(table.num_rows), lambda row: ("the frame", row + 1)
    )
    cuts = np.flatnonzero(np.diff(stream_R[place_R])) + 1
    present = stream_R[place_R][np.append(0, cuts)]
    each = np.split(place_R, cuts)
    return Streams(
        tuple(names[i] for i in present),
        [rows.probs_RxS[place] for place in each],
        [rows.states_R[place].astype(np.int64) for place in each],
        each,
        Source(frame, tuple(name for name in (found.stream, found.order) if name is not None)),
    )


def result_frame(found: Any) -> Any:
    """What ``Backtest.to_frame`` gives: a row a step, as those of the frame that was tested where there was one."""
    pa, recording, problem = arrow(), found.recording, found.problem
    each, source = recording.rows, recording.source
    lengths_B = recording.lengths_B
    if each is None:
        ends = np.cumsum(lengths_B)
        each = [np.arange(end - T, end) for T, end in zip(lengths_B, ends, strict=True)]
    place_R = np.concatenate(each)

    def told(values: Any) -> np.ndarray:
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
    data.setdefault("step", pa.array(told(steps)))
    data["used_fallback"] = pa.array(told(share < 1 for share in found.share))
    data["model_share"] = pa.array(told(found.share))
    for player, paid in found.paid.items():
        data[f"payoff_{player.lower()}"] = pa.array(told(problem.in_payoffs(one) for one in paid))
    made = pa.table(data)
    if source is None or type(source.frame).__module__.split(".")[0] != "pandas":
        return made
    answer = made.to_pandas()
    answer.index = source.frame.index
    return answer


def _by_name(names: list[Any], stream_R: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Streams in the order of their names, where these have one, else as they first come."""
    try:
        order = sorted(range(len(names)), key=names.__getitem__)
    except TypeError:
        return names, stream_R
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return [names[i] for i in order], rank[stream_R]
