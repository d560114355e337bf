"""Frames of quantile forecasts and outcomes, as Chronos and Nixtla write them (extra: ``data``)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import inputs
from ..forecasts import Forecast, Quantiles
from ..forecasts.contract import needs_knots
from ..problems import DecisionProblem, Payoff
from .cells import Refused, numbers_in, one_column
from .columns import TOLD, Columns, every_in, keys_in, named, refuse_doubled, roles_told
from .frames import FRAME, in_streams, needed_of, table_of, told_in
from .known import NOTHING, in_stream, of_stream
from .laws import listed
from .rows import Rows, rows_of, streams_in_rows
from .streams import Source, Streams, names_of
from .times import Steps, order_in

# Which columns of a table are quantiles, as Chronos and Nixtla write them, and of which model.


_ROLES = ("stream", "order", "state", "every", "model", "quantiles", "median", "cutoff", *TOLD)
_CHRONOS = re.compile(r"0?\.\d+", re.ASCII)
_NIXTLA = re.compile(r"(.+)-(lo|hi)-(\d+(?:\.\d+)?)", re.ASCII | re.DOTALL)
_NEURAL = re.compile(r"(.+)_ql(0?\.\d+)", re.ASCII | re.DOTALL)
_PERCENT = re.compile(r"(.+)-q-(\d+(?:\.\d+)?)", re.ASCII | re.DOTALL)
_PLAIN = re.compile(r"q_?(?:0?\.)?(\d{2,}|(?<=\.)\d)", re.ASCII | re.IGNORECASE)  # q1, q2, q3 may be quartiles
_MEDIAN = "-median"


def quantile_columns(there: Sequence[str], told: Mapping[str, Any] | None = None) -> Columns:
    """The columns of a table that has those names; what the caller ``told`` goes before the usual names.

    >>> found = quantile_columns(["unique_id", "ds", "y", "ETS", "ETS-lo-90", "ETS-hi-90"])
    >>> found.levels, found.probs, found.point
    ((0.05, 0.95), ('ETS-lo-90', 'ETS-hi-90'), 'ETS')
    """
    told = roles_told(told, _ROLES)
    stream, guesses, order, state = keys_in(there, told)
    cutoff, point = named(there, told, ("cutoff", "median"))
    if state is None:
        raise ValueError(
            f"there must be a column of outcomes, such as y or target: say which of {listed(there)} it is, "
            "columns={'state': NAME}"
        )
    if told.get("quantiles") is not None:
        if told.get("model") is not None:
            raise ValueError("columns must name a model or quantiles, not both")
        own = _told_levels(there, told["quantiles"])
    else:
        taken = {stream, order, state}
        own, usual = _of_model(models_in([name for name in there if name not in taken]), told.get("model"), there)
        if told.get("median") is None:
            point = usual if usual in there and 0.5 not in own and usual not in taken else None
    if told.get("median") is not None:
        own, point = {**own, 0.5: str(point)}, None
    cutoff = cutoff or ("cutoff" if "cutoff" in there else None)
    if told.get("payoffs") is not None:
        raise ValueError(
            "payoffs of each step are functions where outcomes are numbers: a Guard takes them, advise(payoffs=...), "
            "and a recording how much of the problem's counts, columns={'scale': NAME}"
        )
    levels, (context, scale) = tuple(sorted(own)), named(there, told, ("context", "scale"))
    if told.get("references"):
        raise ValueError(
            "references go with arrays where outcomes are numbers, references={name: Quantiles(...)}, got "
            f"{inputs.shown(told['references'])}"
        )
    columns = Columns(
        *(stream, order, state, tuple(own[level] for level in levels), every_in(told, order), context),
        *((), (), scale, None, guesses),
        levels=levels,
        point=point,
        cutoff=cutoff,
    )
    refuse_doubled(there, columns.needed)
    return columns


def models_in(there: Sequence[str]) -> dict[str, dict[float, str]]:
    """The columns of quantiles by model ("" where no model is named) and level."""
    found: dict[str, dict[float, str]] = {}
    for name in dict.fromkeys(there):
        level, model = None, ""
        if _CHRONOS.fullmatch(name):
            level = float(name)
        elif match := _PLAIN.fullmatch(name):
            level = float(f"0.{match.group(1)}")
        elif match := _PERCENT.fullmatch(name):
            model, level = match.group(1), round(float(match.group(2)) / 100, 9)
        elif match := _NIXTLA.fullmatch(name):
            model, side, width = match.groups()
            level = round(0.5 + (float(width) if side == "hi" else -float(width)) / 200, 9)
        elif match := _NEURAL.fullmatch(name):
            model, level = match.group(1), float(match.group(2))
        elif name.endswith(_MEDIAN) and name != _MEDIAN:
            model, level = name.removesuffix(_MEDIAN), 0.5
        if level is None or not 0 < level < 1:
            continue
        own = found.setdefault(model, {})
        if level in own:
            raise ValueError(f"columns {own[level]!r} and {name!r} are both the quantile at level {level:g}")
        own[level] = name
    # NHITS-median and no interval is a name like any other
    return {model: own for model, own in found.items() if not model or set(own) != {0.5}} or found


def _of_model(models: dict[str, dict[float, str]], asked: Any, there: Sequence[str]) -> tuple[dict[float, str], str]:
    """The quantiles of the model asked for, or of the only one, and its name."""
    if asked is None and len(models) == 1:
        model, own = next(iter(models.items()))
        return own, model
    if asked is not None:
        if isinstance(asked, str) and asked in models:
            return models[asked], asked
        held = listed(model for model in models if model) or "none"
        raise ValueError(f"the model must be one of those with quantiles, {held}, got {inputs.shown(asked)}")
    if models:
        told = listed(model or f"the one of {next(iter(own.values()))}, ..." for model, own in models.items())
        raise ValueError(f"the frame has the quantiles of {len(models)} models, {told}: columns={{'model': ...}}")
    raise ValueError(
        "there must be columns of quantiles: q10, q50, q90, or 0.1, 0.5, 0.9 (Chronos), or MODEL-lo-90, MODEL-hi-90 "
        "(Nixtla), or "
        f"columns={{'quantiles': {{0.1: name, ...}}}} says which of {listed(there)} they are"
    )


def _told_levels(there: Sequence[str], told: Any) -> dict[float, str]:
    if not isinstance(told, Mapping) or not told:
        raise ValueError(f"quantiles must be a dict of columns by level, got {inputs.shown(told)}")
    found = {}
    for level, name in told.items():
        level = inputs.probability(level, "a level of quantiles")
        if not isinstance(name, str) or name not in there:
            raise ValueError(f"the quantile at {level:g} must be one of {listed(there)}, got {inputs.shown(name)}")
        found[level] = name
    return found


_EVEN = 1e-6  # by how much of an interval its middle may be off the point forecast: files round


def outcomes_in(problem: Payoff, frame: Any, state: Any = None, columns: Any = None) -> Streams:
    """The streams of a frame, by name, each in order of its steps; rows may come in any order."""
    table = table_of(frame)
    if state is not None:
        columns = {**(columns if isinstance(columns, Mapping) else {}), "state": state}
    found = quantile_columns(table.column_names, columns)
    needs_knots(problem, "Quantiles")
    if not table.num_rows:
        raise ValueError("the frame must have one row per step, got no rows")
    table, found = needed_of(table, frame, found)
    names, stream_R = streams_in_rows(table, found.stream, FRAME)
    steps = order_in(table, found.order, FRAME, every=found.every)
    outcomes_R = outcomes_in_rows(table, found.state, problem, FRAME)
    found = with_median(found, [table], FRAME)
    values_RxQ, crossed, beyond = quantiles_in(table, found, problem, FRAME)
    notes = mended_told(crossed, beyond)
    told, tells = told_in(table, found, problem, inputs.SUM_TOLERANCE, FRAME)
    if found.cutoff is not None:
        _refuse_several(table, found, stream_R, steps.at_R)
    each = in_streams(names, stream_R, steps, found)
    notes += each.notes + _made_early(table, found, steps, each.rows)
    return Streams(
        each.names,
        [Quantiles(found.levels, values_RxQ[place]) for place in each.rows],
        [outcomes_R[place] for place in each.rows],
        each.rows,
        Source(frame, tuple(name for name in (found.stream, found.order) if name is not None), found.about),
        None if tells == NOTHING else [told.part(place) for place in each.rows],
        tells,
        notes,
    )


def outcomes_in_rows(table: Any, name: str, problem: Payoff, where: str, before: int = 0) -> np.ndarray:
    """The numbers that came, ``[R]``."""
    outcomes_R = numbers_in(one_column(table, name), name, "outcomes", where)
    low, high = problem.outcomes
    wrong = ~((outcomes_R >= low) & (outcomes_R <= high) & np.isfinite(outcomes_R))  # a NaN is neither
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        reason = f"the outcome ({name}) must be a number from {low:.6g} to {high:.6g}, got {outcomes_R[row]:.6g}"
        raise Refused(where, before + row + 1, reason)
    return outcomes_R


def with_median(found: Columns, tables: Iterable[Any], where: str) -> Columns:
    """The columns, with the forecast without a level as the median if it is in the middle of all intervals.

    ``tables`` hold all rows between them.
    """
    if found.point is None:
        return found
    point = found.point
    for table in tables:
        values_RxQ = _values(table, found.probs, where)
        if not _in_the_middle(
            found.levels, values_RxQ, numbers_in(one_column(table, point), point, "forecasts", where)
        ):
            return found._replace(point=None)
    at = int(np.searchsorted(found.levels, 0.5))
    levels = (*found.levels[:at], 0.5, *found.levels[at:])
    return found._replace(levels=levels, probs=(*found.probs[:at], point, *found.probs[at:]), point=None)


def quantiles_in(
    table: Any, found: Columns, problem: Payoff, where: str, before: int = 0
) -> tuple[np.ndarray, int, int]:
    """Values ``[R, Q]`` that neither cross nor leave the outcomes, and in how many rows each had to be mended."""
    values_RxQ = _values(table, found.probs, where)
    if not np.isfinite(values_RxQ).all():
        row, k = np.argwhere(~np.isfinite(values_RxQ))[0].tolist()
        raise Refused(where, before + row + 1, f"a quantile ({found.probs[k]}) is missing or not a finite number")
    crossed_R = (np.diff(values_RxQ, axis=1) < 0).any(axis=1)
    values_RxQ = np.sort(values_RxQ, axis=1)
    low, high = problem.outcomes
    beyond_R = (values_RxQ[:, 0] < low) | (values_RxQ[:, -1] > high)
    return np.clip(values_RxQ, low, high), int(crossed_R.sum()), int(beyond_R.sum())


def rows_in(
    table: Any, columns: Columns, problem: DecisionProblem | Payoff, tolerance: float, where: str, before: int = 0
) -> Rows:
    """``rows_of``, also for numbers: they take the place of states, and quantiles that of probabilities."""
    if isinstance(problem, DecisionProblem):
        return rows_of(table, columns, problem, tolerance, where, before)
    names, stream_R = streams_in_rows(table, columns.stream, where, before)
    steps = order_in(table, columns.order, where, before, columns.every)
    outcomes_R = outcomes_in_rows(table, columns.state, problem, where, before)
    values_RxQ, crossed, beyond = quantiles_in(table, columns, problem, where, before)
    return Rows(names, stream_R, steps, outcomes_R, values_RxQ, crossed + beyond, None)


def mended_told(crossed: int, beyond: int) -> tuple[str, ...]:
    """What was done to the quantiles, and in how many rows."""
    notes = (f"{crossed:,} rows had quantiles that cross, and were sorted",) if crossed else ()
    clipped = (f"{beyond:,} rows had quantiles outside the possible outcomes, and were clipped",) if beyond else ()
    return (*notes, *clipped)


def _values(table: Any, names: Sequence[Any], where: str) -> np.ndarray:
    return np.stack([numbers_in(one_column(table, name), name, "quantiles", where) for name in names], axis=1)


def _in_the_middle(levels: Sequence[float], values_RxQ: np.ndarray, point_R: np.ndarray) -> bool:
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


def _refuse_several(table: Any, found: Columns, stream_R: np.ndarray, order_R: np.ndarray) -> None:
    """Refuse several forecasts of one step, made at different times: the caller must choose one."""
    place = np.lexsort((order_R, stream_R))
    same = (np.diff(stream_R[place]) == 0) & (np.diff(order_R[place]) == 0)
    if same.any():
        at = int(np.flatnonzero(same)[0])
        first, second = sorted(place[at : at + 2].tolist())
        raise Refused(
            FRAME,
            second + 1,
            f"this step was forecast before, in row {first + 1}, at another {found.cutoff}: keep one forecast per "
            f"step, the latest by frame.sort_values({found.cutoff!r}).drop_duplicates({[found.stream, found.order]}, "
            "keep='last')",
        )


def _made_early(table: Any, found: Columns, steps: Steps, each: list[np.ndarray]) -> tuple[str, ...]:
    """How many forecasts were made before the previous outcome was known: delta is not promised for them."""
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
        f"{early:,} forecasts were made before the previous outcome was known ({found.cutoff}): the bound on regret "
        "still holds, that on the chance of a false alarm does not",
    )


# Recordings of forecasts of a number, in any of their forms, and of the outcomes that came.


def outcomes_of(problem: Payoff, forecasts: Any, outcomes: Any, names: Any = None) -> Streams:
    """One stream of forecasts of shape ``[T]``, several ``[B, T]``, or a list of streams: checked."""
    if isinstance(forecasts, Forecast) and len(forecasts.batch_shape) == 2:
        streams = [forecasts.at(b) for b in range(forecasts.batch_shape[0])]
        came = list(inputs.numbers_of(outcomes, "outcomes", "numbers, one for each forecast"))
    elif isinstance(forecasts, (list, tuple)):
        streams, came = list(forecasts), list(outcomes) if hasattr(outcomes, "__len__") else []
    else:
        streams, came = [forecasts], [outcomes]
    if not streams or len(streams) != len(came):
        raise ValueError(f"outcomes must be {len(streams)} streams, as forecasts are, got {len(came)}")
    listed, found = names_of(names, len(streams)), []
    for i, (forecast, values) in enumerate(zip(streams, came, strict=True)):
        if not isinstance(forecast, Forecast):
            raise ValueError(
                f"forecasts must be of numbers where the problem is a Payoff: Quantiles or Samples of "
                f"shape [T], a list of them, or a frame; got {inputs.shown(forecast)}"
            )
        said = "outcomes" if len(streams) == 1 else of_stream("outcomes", listed[i])
        numbers_T = in_stream(problem.outcomes_of, values, said)
        if len(forecast.batch_shape) != 1 or forecast.batch_shape != numbers_T.shape or not numbers_T.size:
            raise ValueError(
                f"forecasts must be one for each outcome of stream {i}, got shape {forecast.batch_shape} "
                f"for outcomes of shape {numbers_T.shape}"
            )
        forecast.refuse_misfit(problem)
        found.append(numbers_T)
    return Streams(listed, streams, found)
