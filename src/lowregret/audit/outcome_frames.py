"""Frames of quantile forecasts and outcomes, as Chronos and Nixtla write them (extra: ``data``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..forecasts import Quantiles
from ..forecasts.contract import needs_knots
from ..problems import Payoff
from .cells import Refused, numbers_in, one_column
from .frames import FRAME, in_streams, needed_of, table_of
from .order import order_in
from .quantile_columns import QuantileColumns, quantile_columns
from .rows import streams_in_rows
from .streams import Source, Streams
from .times import Steps

_EVEN = 1e-6  # by how much of an interval its middle may be off the point forecast: files round


def outcomes_in(problem: Payoff, frame: Any, state: Any = None, columns: Any = None) -> Streams:
    """The streams of a frame, by name, each in order of its steps; rows may come in any order."""
    table = table_of(frame)
    if state is not None:
        columns = {**(columns if isinstance(columns, Mapping) else {}), "state": state}
    found = quantile_columns(table.column_names, columns)
    needs_knots(problem, "Quantiles")
    if not table.num_rows:
        raise ValueError("the frame must have a row a step, got none")
    table, found = needed_of(table, frame, found)
    names, stream_R = streams_in_rows(table, found.stream, FRAME)
    steps = order_in(table, found.order, FRAME, every=found.every)
    outcomes_R = _outcomes(table, found.state, problem)
    levels, values_RxQ, notes = _quantiles(table, found, problem)
    if found.cutoff is not None:
        _refuse_several(table, found, stream_R, steps.at_R)
    each = in_streams(names, stream_R, steps, found)
    notes += each.notes + _made_early(table, found, steps, each.rows)
    return Streams(
        each.names,
        [Quantiles(levels, values_RxQ[place]) for place in each.rows],
        [outcomes_R[place] for place in each.rows],
        each.rows,
        Source(frame, tuple(name for name in (found.stream, found.order) if name is not None), found.about),
        notes=notes,
    )


def _outcomes(table: Any, name: str, problem: Payoff) -> np.ndarray:
    outcomes_R = numbers_in(one_column(table, name), name, "outcomes", FRAME)
    low, high = problem.outcomes
    wrong = ~((outcomes_R >= low) & (outcomes_R <= high) & np.isfinite(outcomes_R))  # a NaN is neither
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        reason = f"the outcome ({name}) must be a number from {low:.6g} to {high:.6g}, got {outcomes_R[row]:.6g}"
        raise Refused(FRAME, row + 1, reason)
    return outcomes_R


def _quantiles(table: Any, found: QuantileColumns, problem: Payoff) -> tuple[list[float], np.ndarray, tuple[str, ...]]:
    """Levels, and values ``[R, Q]`` that neither cross nor leave the outcomes; what was changed for that is told."""
    levels, columns = list(found.levels), list(found.values)
    values_RxQ = np.stack([numbers_in(one_column(table, name), name, "quantiles", FRAME) for name in columns], axis=1)
    if found.point is not None:
        point_R = numbers_in(one_column(table, found.point), found.point, "forecasts", FRAME)
        if _in_the_middle(levels, values_RxQ, point_R):
            at = int(np.searchsorted(levels, 0.5))
            levels.insert(at, 0.5)
            columns.insert(at, found.point)
            values_RxQ = np.insert(values_RxQ, at, point_R, axis=1)
    if not np.isfinite(values_RxQ).all():
        row, k = np.argwhere(~np.isfinite(values_RxQ))[0].tolist()
        raise Refused(FRAME, row + 1, f"a quantile ({columns[k]}) is missing or not a finite number")
    notes: tuple[str, ...] = ()
    crossed = (np.diff(values_RxQ, axis=1) < 0).any(axis=1)
    if crossed.any():
        values_RxQ = np.sort(values_RxQ, axis=1)
        notes += (f"{int(crossed.sum()):,} rows had quantiles that cross, and were sorted",)
    low, high = problem.outcomes
    beyond = (values_RxQ[:, 0] < low) | (values_RxQ[:, -1] > high)
    if beyond.any():
        values_RxQ = np.clip(values_RxQ, low, high)
        notes += (f"{int(beyond.sum()):,} rows had quantiles beyond what can come, and were clipped to it",)
    return levels, values_RxQ, notes


def _in_the_middle(levels: list[float], values_RxQ: np.ndarray, point_R: np.ndarray) -> bool:
    """Whether forecasts without a level are in the middle of all their intervals: then they are medians, not means."""
    place = {level: k for k, level in enumerate(levels)}
    pairs = [
        (k, place[round(1 - level, 9)]) for level, k in place.items() if level < 0.5 and round(1 - level, 9) in place
    ]
    for low, high in pairs:
        width = values_RxQ[:, high] - values_RxQ[:, low]
        off = np.abs(values_RxQ[:, high] / 2 + values_RxQ[:, low] / 2 - point_R)
        if not (off <= _EVEN * np.maximum(np.abs(width), np.abs(point_R)) + 1e-300).all():
            return False
    return bool(pairs)


def _refuse_several(table: Any, found: QuantileColumns, stream_R: np.ndarray, order_R: np.ndarray) -> None:
    """Refuse several forecasts of one step, made at different times: who acts on them must say on which."""
    place = np.lexsort((order_R, stream_R))
    same = (np.diff(stream_R[place]) == 0) & (np.diff(order_R[place]) == 0)
    if same.any():
        at = int(np.flatnonzero(same)[0])
        first, second = sorted(place[at : at + 2].tolist())
        raise Refused(
            FRAME,
            second + 1,
            f"this step was forecast before, in row {first + 1}, at another {found.cutoff}: keep one forecast a step, "
            f"the latest by frame.sort_values({found.cutoff!r}).drop_duplicates({[found.stream, found.order]}, "
            "keep='last')",
        )


def _made_early(table: Any, found: QuantileColumns, steps: Steps, each: list[np.ndarray]) -> tuple[str, ...]:
    """Forecasts that were made before the outcome of the step before was known: delta is not promised of them."""
    if found.cutoff is None or found.order is None:
        return ()
    made = order_in(table, found.cutoff, FRAME)
    if made.dated and steps.dated and made.kind != steps.kind:
        raise Refused(FRAME, None, f"{found.cutoff} has {made.kind}, and {found.order} has {steps.kind}")
    if made.kind != steps.kind:
        return ()
    early = sum(int((made.at_R[place][1:] < steps.at_R[place][:-1]).sum()) for place in each)
    if not early:
        return ()
    return (
        f"{early:,} forecasts were made before the outcome of the step before was known ({found.cutoff}): regret is "
        "bounded as ever, but the chance of a false switch is not: they say nothing of what came since",
    )
