"""The parts of a row: how each is read from its columns, when it is bad, and how that is worded."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .. import inputs
from ..problems import Names
from .columns import Found, Values, listed
from .reading import MISSING, ROW, TEXTS, Log, Refused, column
from .times import ROWS, Moments, moments_of

UNKNOWN = -1  # in place of a state that is none
_TOLERATED = 0.1  # the largest tolerance
_ULPS = 1e-9  # of a tolerance: 0.51 + 0.5 is off by a little more than 0.01
_LISTED = (pl.List, pl.Array)


class Part(NamedTuple):
    """A part of each row, under plain names."""

    cells: dict[str, pl.Expr]  # of the columns of the log
    bad: pl.Expr  # of the plain names
    reason: Callable[[int, tuple[Any, ...]], str]  # what is wrong, by the number of a row and its cells


def plain(log: Log, found: Found, problem: Any, is_plain: bool = False) -> tuple[pl.LazyFrame, str]:
    """The columns that matter under plain names, and what steps are."""
    parts, kind = parts_of(log, found, problem, is_plain=is_plain)
    return log.filled(found.needed).select(ROW, **{k: v for part in parts for k, v in part.cells.items()}), kind


def refuse_rows(rows: pl.DataFrame, log: Log, parts: Sequence[Part]) -> None:
    """What can be wrong with a row by itself, all in one pass; the first bad row is refused."""
    of = {f"first {i}": pl.col(ROW).filter(part.bad).min() for i, part in enumerate(parts)}
    of |= {f"count {i}": part.bad.sum() for i, part in enumerate(parts)}
    counts = rows.select(**of).row(0, named=True)
    wrong = [(counts[f"first {i}"], i) for i in range(len(parts)) if counts[f"count {i}"]]
    if not wrong:
        return
    row, i = min(wrong)
    more = counts[f"count {i}"] - 1
    also = f"; {more:,} more rows have the same fault" if more > 1 else "; one more row has it" if more else ""
    cells = rows.filter(pl.col(ROW) == row).select(*parts[i].cells).row(0)
    raise log.refused(row, parts[i].reason(row, cells) + also)


def parts_of(
    log: Log, found: Found, problem: Any, tolerance: float = 0.0, is_plain: bool = False
) -> tuple[list[Part], str]:
    """The parts of each row, and what steps are; ``is_plain``: texts hold plain numbers, or reading them fails."""
    schema, state, kind = log.schema, pl.col("state"), ROWS

    def got(name: str | None, row: int) -> str:
        return inputs.shown(log.cell(str(name), row))

    def number(name: str, is_chance: bool = False) -> pl.Expr:
        return log.number(name, is_chance, is_plain)

    def step(name: str) -> Moments:
        if schema[name].is_nested() or schema[name] in (pl.Boolean, pl.Binary, pl.Object, pl.Null):
            raise Refused(log.source, None, f"the steps ({name}) must be whole numbers or times, got {schema[name]}")
        return moments_of(name, schema[name], name in found.zoned, name in found.counted)

    def no_step(name: str | None) -> Callable[[int, Any], str]:
        return lambda row, _: (
            f"the step ({name}) must be a whole number, or a time such as 2026-01-31 or 2026-01-31 12:00, all with a "
            f"zone or none, got {got(name, row)}"
        )

    stream, at = pl.col("stream"), {"at": pl.col(ROW).cast(pl.Int64)}
    name = stream_of(log, found.stream).cast(pl.Categorical)
    parts = [
        Part({"stream": name}, stream.is_null() | (stream == ""), lambda *_: f"the stream ({found.stream}) is missing")
    ]
    if found.order is not None:
        moments = step(found.order)
        kind, at = moments.kind, {"at": moments.at}
        at |= {} if moments.offset is None else {"offset": moments.offset.cast(pl.Int32)}
    parts.append(Part(at, pl.col("at").is_null(), no_step(found.order)))
    if found.values.levels:
        low, high = problem.outcomes
        is_bad = ~state.is_finite() | ~state.is_between(low, high)
        must = f"the outcome ({found.state}) must be a number from {low:.6g} to {high:.6g}"
        cell = _outcomes(log, found.state, is_plain)
        parts.append(Part({"state": cell}, is_bad, lambda row, _: f"{must}, got {got(found.state, row)}"))
    else:
        names: Names = problem.state_names
        parts.append(
            Part(
                {"state": _states(log, found.state, names)},
                state == UNKNOWN,
                lambda row, _: f"the state ({found.state}) must be {names.refusal(log.cell(found.state, row))}",
            )
        )
    for role, is_due in (("known_at", state.is_not_null()), ("cutoff", pl.lit(True))):
        if (own := getattr(found, role)) is not None:
            theirs = step(own)
            if theirs.kind != kind:
                reason = f"{own} must be given as the steps are, which are {kind}, got {theirs.kind}"
                raise Refused(log.source, None, reason)
            parts.append(Part({role: theirs.at}, pl.col(role).is_null() & is_due, no_step(own)))
    parts += [Part({f"t{i}": step(own).at}, pl.lit(False), no_step(own)) for i, own in enumerate(found.rivals)]
    if found.context is not None:
        is_missing = pl.col("context").is_null()
        says = f"the context ({found.context}) is missing"
        parts.append(Part({"context": column(found.context)}, is_missing, lambda *_: says))
    for prefix, values in (("v", found.values), *((f"r{q}_", own) for q, (_, own) in enumerate(found.references))):
        parts.append(_forecast(log, prefix, values, problem, tolerance, number, got))
    if found.scale is not None:
        is_right = ((pl.col("scale") > 0) & (pl.col("scale") <= 1)).fill_null(False)
        says = f"the scale ({found.scale}) must be above 0 and at most 1, got "
        parts.append(Part({"scale": number(found.scale)}, ~is_right, lambda row, _: says + got(found.scale, row)))
    if found.payoffs:
        parts.append(_payoffs(log, found.payoffs, problem, number))
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


def _outcomes(log: Log, name: str, is_plain: bool) -> pl.Expr:
    """The numbers that occurred; null where there is none, NaN where there is something else."""
    number = log.number(name, is_plain=is_plain).fill_nan(None)
    if not isinstance(log.schema[name], TEXTS):
        return number
    is_missing = column(name).cast(pl.String).str.strip_chars().is_in(MISSING).fill_null(True)
    return pl.when(number.is_null() & ~is_missing).then(float("nan")).otherwise(number)


def _forecast(
    log: Log, prefix: str, values: Values, problem: Any, tolerance: float, number: Any, got: Callable[..., str]
) -> Part:
    """The probability of each state, or the quantile at each level."""
    if values.is_list:
        (name,), S = values.there, problem.n_states
        if not isinstance(log.schema[name], _LISTED):
            raise Refused(log.source, None, f"the probabilities ({name}) must be lists of {S}, got {log.schema[name]}")
        cell = column(name).cast(pl.List(pl.Float64))
        whole = pl.when(cell.list.len() == S).then(cell)
        each = [whole.list.get(s, null_on_oob=True) for s in range(S)]
    else:
        numbers = {name: number(name, not values.levels) for name in values.there}
        (one, *_) = numbers.values()
        each = [1 - one if name is None else numbers[name] for name in values.names]  # of two states one is enough
    cells = {f"{prefix}{s}": cell for s, cell in enumerate(each)}
    own = [pl.col(name) for name in cells]
    bad = pl.any_horizontal([one.is_null() | ~one.is_finite() for one in own])
    if not values.levels:
        bad = bad | pl.any_horizontal([one < 0 for one in own])
        bad = bad | ((pl.sum_horizontal(own) - 1).abs() > tolerance * (1 + _ULPS))

    def reason(row: int, found: tuple[Any, ...]) -> str:
        missing = [i for i, value in enumerate(found) if value is None or not np.isfinite(value)]
        if missing and values.is_list:
            name = values.there[0]
            return f"there must be {len(found)} probabilities ({name}), one per state, got {got(name, row)}"
        if missing:
            name = values.names[missing[0]] or values.there[0]
            kind = "a quantile" if values.levels else "a probability"
            return f"{kind} ({name}) is missing or not a number, got {got(name, row)}"
        return _no_probabilities(found, values.names, tolerance)

    return Part(cells, bad, reason)


def _no_probabilities(numbers: tuple[float, ...], names: tuple[str | None, ...], tolerance: float) -> str:
    """Why these numbers are no probabilities."""
    shown = ", ".join(f"{value:.6g}" for value in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    off, how = abs(sum(numbers) - 1), "of logits take the softmax, of counts divide by their sum"
    is_rounding = off <= _TOLERATED * (1 + _ULPS)
    if abs(sum(numbers) - 100) <= 100 * _TOLERATED and min(numbers) >= 0:
        return f"probabilities must sum to one, got {shown}; they look like percentages: divide them by 100"
    if beyond := [i for i, value in enumerate(numbers) if not 0 <= value <= 1 + tolerance]:
        at = next((i for i in beyond if i < len(names) and names[i]), beyond[0])  # of two the other may be computed
        which = f" ({names[at]})" if at < len(names) and names[at] else ""
        hint = "" if is_rounding else f"; {how}"
        return f"a probability{which} must lie in [0, 1], got {numbers[at]:.6g} among {shown}{hint}"
    reason = f"probabilities must sum to one, and sum to {sum(numbers):.9g} (tolerance {tolerance:g}): {shown}"
    if not is_rounding:
        return f"{reason}; that is not rounding: {how}"
    enough = float(f"{off * 1.005:.2g}")
    enough = enough if enough >= off * (1 - _ULPS) else float(f"{off * 1.1:.2g}")
    return f"{reason}; if that is rounding, --tolerance {enough:g} divides them by their sum"


def _payoffs(log: Log, names: Sequence[str], problem: Any, number: Callable[[str], pl.Expr]) -> Part:
    """Payoffs of each row, action by action."""
    (A, S), kind = problem.utility.shape, log.schema[names[0]]
    each = [number(name) for name in names] if len(names) > 1 else []
    if not each:
        inner: Any = kind.inner  # type: ignore[attr-defined]
        own, is_nested = column(names[0]).cast(pl.List(inner)), isinstance(inner, _LISTED)
        rows = [own.list.get(a, null_on_oob=True) if is_nested else own.list.slice(a * S, S) for a in range(A)]
        rows = [row.cast(pl.List(pl.Float64)) for row in rows]
        is_right = pl.all_horizontal([row.list.len() == S for row in rows])
        is_right = is_right & (own.list.len() == (A if is_nested else A * S))
        each = [pl.when(is_right).then(row.list.get(s, null_on_oob=True)) for row in rows for s in range(S)]
    low, high = sorted((float(problem.in_payoffs(-1.0)), float(problem.in_payoffs(1.0))))
    slack = 1e-9 * (high - low)
    cells = {f"pay{i}": cell for i, cell in enumerate(each)}
    inside = [pl.col(name).is_between(low - slack, high + slack).fill_null(False) for name in cells]
    says = (
        f"there must be {A} x {S} payoffs ({listed(names)}), action by action, in the range of the problem, {low:.6g} "
        f"to {high:.6g}"
    )
    return Part(cells, ~pl.all_horizontal(inside), lambda *_: says)
