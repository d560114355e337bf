"""The parts of a row: how each is read from its columns, when it is bad, and how that is worded."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl

from .. import inputs
from ..problems import Names
from .columns import Found, Values, listed
from .reading import MISSING, ROW, TEXTS, Log, Refused, column
from .times import PLAIN, ROWS, moments_of

UNKNOWN = -1  # in place of a state that is none
_TOLERATED = 0.1  # the largest tolerance
_ULPS = 1e-9  # of a tolerance: 0.51 + 0.5 is off by a little more than 0.01
_LISTED = (pl.List, pl.Array)


class Part(NamedTuple):
    """A part of each row, under plain names."""

    cells: dict[str, pl.Expr]  # of the columns of the log
    bad: pl.Expr  # of the plain names
    reason: Callable[[int, tuple[Any, ...]], str]  # what is wrong, by the number of a row and its cells


def plain(log: Log, found: Found, problem: Any) -> tuple[pl.LazyFrame, str]:
    """The columns that matter under plain names, and what steps are."""
    parts, kind = parts_of(log, found, problem)
    return log.filled(found.needed).select(ROW, **{k: v for part in parts for k, v in part.cells.items()}), kind


def refuse_rows(rows: pl.DataFrame, log: Log, parts: Sequence[Part]) -> None:
    """What can be wrong with a row by itself, all in one pass; the first bad row is refused."""
    firsts = {f"first {i}": pl.col(ROW).filter(part.bad).min() for i, part in enumerate(parts)}
    counts = {f"count {i}": part.bad.sum() for i, part in enumerate(parts)}
    found = rows.select(**firsts, **counts).row(0, named=True)
    wrong = [(found[f"first {i}"], i) for i in range(len(parts)) if found[f"count {i}"]]
    if not wrong:
        return
    row, i = min(wrong)
    more = found[f"count {i}"] - 1
    also = f"; {more:,} more rows have the same fault" if more > 1 else "; one more row has it" if more else ""
    cells = rows.filter(pl.col(ROW) == row).select(*parts[i].cells).row(0) if parts[i].cells else ()
    raise log.refused(row, parts[i].reason(row, cells) + also)


def parts_of(log: Log, found: Found, problem: Any, tolerance: float = 0.0) -> tuple[list[Part], str]:
    """The parts of each row, and what steps are."""
    stream, state, kind = pl.col("stream"), pl.col("state"), ROWS

    def got(says: str, name: str | None) -> Callable[[int, Any], str]:
        return lambda row, _: f"{says}, got {inputs.shown(log.cell(str(name), row))}"

    name = stream_of(log, found.stream).cast(pl.Categorical)
    is_missing = stream.is_null() | (stream == "")
    parts = [Part({"stream": name}, is_missing, got(f"the stream ({found.stream}) is missing", found.stream))]
    if found.values.levels:
        low, high = problem.outcomes
        says = got(f"the outcome ({found.state}) must be a number from {low:.6g} to {high:.6g}", found.state)
        is_bad = ~state.is_finite() | ~state.is_between(low, high)
        parts.append(Part({"state": _outcomes(log, found.state)}, is_bad, says))
    else:
        names: Names = problem.state_names
        parts.append(
            Part(
                {"state": _states(log, found.state, names)},
                state == UNKNOWN,
                lambda row, _: f"the state ({found.state}) must be {names.refusal(log.cell(found.state, row))}",
            )
        )
    if found.order is None:
        parts.append(Part({"at": pl.col(ROW).cast(pl.Int64)}, pl.lit(False), got("", None)))
    clocks = {"at": found.order, "known_at": found.known_at, "cutoff": found.cutoff}
    for role, own in ((role, own) for role, own in clocks.items() if own is not None):
        moments = moments_of(own, log.schema[own], found.spelled.get(own, PLAIN))
        kind = moments.kind if role == "at" else kind
        if moments.kind != kind:
            reason = f"{own} must be given as the steps are, which are {kind}, got {moments.kind}"
            raise Refused(log.source, None, reason)
        must = "must be a whole number, or a time such as 2026-01-31 or 2026-01-31 12:00, all with a zone or none"
        is_bad = pl.col(role).is_null() & (state.is_not_null() if role == "known_at" else pl.lit(True))
        cells = {role: moments.at}
        if role == "at" and moments.offset is not None:
            cells["offset"] = moments.offset.cast(pl.Int32)
        parts.append(Part(cells, is_bad, got(f"the step ({own}) {must}", own)))
    if (context := found.context) is not None:
        says = got(f"the context ({context}) is missing", context)
        parts.append(Part({"context": column(context)}, pl.col("context").is_null(), says))
    for prefix, values in (("v", found.values), *((f"r{q}_", own) for q, (_, own) in enumerate(found.references))):
        parts += _forecast(log, prefix, values, problem, tolerance, got)
    if (scale := found.scale) is not None:
        is_right = ((pl.col("scale") > 0) & (pl.col("scale") <= 1)).fill_null(False)
        says = got(f"the scale ({scale}) must be above 0 and at most 1", scale)
        parts.append(Part({"scale": log.number(scale)}, ~is_right, says))
    if found.payoffs:
        parts.append(_payoffs(log, found.payoffs, problem))
    return parts, kind


def stream_of(log: Log, name: str | None) -> pl.Expr:
    """The stream of a row as a text: 1.0 is 1."""
    if name is None:
        return pl.lit("0")
    own, kind = column(name), log.schema[name]
    if kind.is_float() or kind.is_decimal():
        value = own.fill_nan(None) if kind.is_float() else own
        whole = pl.when(value == value.floor()).then(value.cast(pl.Int64, strict=False))
        return pl.coalesce(whole.cast(pl.String), value.cast(pl.String))
    if kind == pl.Boolean:
        return own.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
    return own.cast(pl.String)


def _states(log: Log, name: str, names: Names) -> pl.Expr:
    """What occurred, as it is written; null where nothing has yet."""
    own = column(name)
    if not isinstance(log.schema[name], TEXTS):
        return own.fill_nan(None) if log.schema[name].is_float() else own
    missing = [word for word in MISSING if names.position(word) is None]
    text = own.cast(pl.String)
    return pl.when(~text.str.strip_chars().is_in(missing)).then(text).cast(pl.Categorical)


def _outcomes(log: Log, name: str) -> pl.Expr:
    """The numbers that occurred; null where there is none, NaN where there is something else."""
    number = log.number(name).fill_nan(None)
    if not isinstance(log.schema[name], TEXTS):
        return number
    is_missing = column(name).cast(pl.String).str.strip_chars().is_in(MISSING).fill_null(True)
    return pl.when(number.is_null() & ~is_missing).then(float("nan")).otherwise(number)


def _forecast(
    log: Log, prefix: str, values: Values, problem: Any, tolerance: float, got: Callable[..., Any]
) -> list[Part]:
    """The probability of each state, or the quantile at each level: a part for each column, and one for their sum."""
    (first, *_), S = values.there, problem.n_states if values.is_list else len(values.names)
    plain = [f"{prefix}{s}" for s in range(S)]
    if values.is_list:
        if not isinstance(kind := log.schema[first], _LISTED):
            raise Refused(log.source, None, f"the probabilities ({first}) must be lists of {S}, got {kind}")
        cells = dict(zip(plain, _in_list(column(first), S), strict=True))
        says = got(f"there must be {S} probabilities ({first}), one per state", first)
        parts = [Part(cells, pl.any_horizontal(map(_is_none, plain)), says)]
    else:
        named = dict(zip(plain, values.names, strict=True))
        what = "a quantile" if values.levels else "a probability"
        parts = []
        for cell, name in named.items():
            number = log.number(name or first, not values.levels)  # of two states one is enough
            says = got(f"{what} ({name or first}) is missing or not a number", name or first)
            parts.append(Part({cell: number if name else 1 - number}, _is_none(cell), says))
    if values.levels:
        return parts
    names = values.names if not values.is_list else (first,) * S
    bad = pl.any_horizontal(pl.col(plain) < 0) | ((pl.sum_horizontal(plain) - 1).abs() > tolerance * (1 + _ULPS))
    together = {cell: own for part in parts for cell, own in part.cells.items()}
    return [*parts, Part(together, bad, lambda _, found: _no_probabilities(found, names, tolerance))]


def _is_none(name: str) -> pl.Expr:
    return pl.col(name).is_null() | ~pl.col(name).is_finite()


def _in_list(own: pl.Expr, n: int) -> list[pl.Expr]:
    """The numbers in a list; none where there are more or fewer of them."""
    own = own.cast(pl.List(pl.Float64))
    whole = pl.when(own.list.len() == n).then(own)
    return [whole.list.get(i, null_on_oob=True) for i in range(n)]


def _no_probabilities(numbers: tuple[float, ...], names: tuple[str | None, ...], tolerance: float) -> str:
    """Why these numbers are no probabilities."""
    shown = ", ".join(f"{value:.6g}" for value in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    off, how = abs(sum(numbers) - 1), "of logits take the softmax, of counts divide by their sum"
    if abs(sum(numbers) - 100) <= 100 * _TOLERATED and min(numbers) >= 0:
        return f"probabilities must sum to one, got {shown}; they look like percentages: divide them by 100"
    if beyond := [i for i, value in enumerate(numbers) if not 0 <= value <= 1 + tolerance]:
        at = next((i for i in beyond if names[i]), beyond[0])  # of two the other may be computed
        which = f" ({names[at]})" if names[at] else ""
        return f"a probability{which} must lie in [0, 1], got {numbers[at]:.6g} among {shown}; {how}"
    reason = f"probabilities must sum to one, and sum to {sum(numbers):.9g} (tolerance {tolerance:g}): {shown}"
    if off > _TOLERATED * (1 + _ULPS):
        return f"{reason}; that is not rounding: {how}"
    unit = 10.0 ** (math.floor(math.log10(off)) - 1)
    enough = math.ceil(off / unit * (1 - _ULPS)) * unit
    return f"{reason}; if that is rounding, --tolerance {enough:g} divides them by their sum"


def _payoffs(log: Log, names: Sequence[str], problem: Any) -> Part:
    """Payoffs of each row, action by action."""
    (A, S), own = problem.utility.shape, column(names[0])
    if len(names) > 1:
        each = [log.number(name) for name in names]
    elif isinstance(log.schema[names[0]].inner, _LISTED):  # type: ignore[attr-defined]
        rows = own.cast(pl.List(pl.List(pl.Float64)))
        rows = pl.when(rows.list.len() == A).then(rows)
        each = [cell for a in range(A) for cell in _in_list(rows.list.get(a, null_on_oob=True), S)]
    else:
        each = _in_list(own, A * S)
    low, high = sorted((float(problem.in_payoffs(-1.0)), float(problem.in_payoffs(1.0))))
    slack = 1e-9 * (high - low)
    cells = {f"pay{i}": cell for i, cell in enumerate(each)}
    inside = [pl.col(name).is_between(low - slack, high + slack).fill_null(False) for name in cells]
    says = (
        f"there must be {A} x {S} payoffs ({listed(names)}), action by action, in the range of the problem, {low:.6g} "
        f"to {high:.6g}"
    )
    return Part(cells, ~pl.all_horizontal(inside), lambda *_: says)
