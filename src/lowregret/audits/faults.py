"""What is wrong with a row of a log, in words: its file, its number, its value, and what to do."""

import re
from typing import Any

import numpy as np
import polars as pl

from .. import inputs
from ..problems import Payoff
from .columns import Found, listed
from .reading import ROW, Log, Refused, column
from .times import TIMES, Clock

UNKNOWN = -1  # in place of a state that is none
_TOLERATED = 0.1  # the largest tolerance
_ULPS = 1e-9  # of a tolerance: 0.51 + 0.5 is off by a little more than 0.01


class Pooled(Exception):
    """A stream has two rows of one time, and nobody said which column names the streams."""

    def __init__(self, refusal: Refused) -> None:
        self.refusal = refusal


def refuse_rows(rows: pl.DataFrame, log: Log, found: Found, problem: Any, tolerance: float) -> None:
    """What can be wrong with a row by itself, all in one pass; the first bad row is refused."""
    of_numbers = bool(found.values.levels)
    state = pl.col("state")
    checks: list[tuple[str, pl.Expr]] = [
        ("stream", pl.col("stream").is_null() | (pl.col("stream") == "")),
        ("order", pl.col("at").is_null()),
        ("state", state.is_nan() | ~state.is_between(*problem.outcomes) if of_numbers else state == UNKNOWN),
    ]
    if found.known_at is not None:
        checks.append(("known_at", pl.col("known_at").is_null() & state.is_not_null()))
    checks += [(role, pl.col(role).is_null()) for role in ("cutoff", "context") if getattr(found, role) is not None]
    for prefix in ("v", *(f"r{q}_" for q in range(len(found.references)))):
        each = [pl.col(name) for name in rows.columns if re.fullmatch(rf"{prefix}\d+", name)]
        bad = pl.any_horizontal([own.is_null() | ~own.is_finite() for own in each])
        if not of_numbers:
            bad = bad | pl.any_horizontal([own < 0 for own in each])
            bad = bad | ((pl.sum_horizontal(each) - 1).abs() > tolerance * (1 + _ULPS))
        checks.append((prefix, bad))
    if found.scale is not None:
        checks.append(("scale", ~((pl.col("scale") > 0) & (pl.col("scale") <= 1)).fill_null(False)))
    if found.payoffs:
        low, high = _range(problem)
        pays = [pl.col(name) for name in rows.columns if name.startswith("pay")]
        slack = 1e-9 * (high - low)
        checks.append(
            (
                "payoffs",
                ~pl.all_horizontal([own.is_between(low - slack, high + slack).fill_null(False) for own in pays]),
            )
        )
    first = {role: pl.col(ROW).filter(bad).min().alias(f"{role} first") for role, bad in checks}
    counts = {role: bad.sum().alias(f"{role} count") for role, bad in checks}
    of = rows.select(*first.values(), *counts.values()).row(0, named=True)
    if wrong := [(of[f"{role} first"], i) for i, (role, _) in enumerate(checks) if of[f"{role} count"]]:
        row, i = min(wrong)
        role = checks[i][0]
        more = of[f"{role} count"] - 1
        also = f"; {more:,} more rows have the same fault" if more > 1 else "; one more row has it" if more else ""
        numbers = next(rows.filter(pl.col(ROW) == row).select(pl.col(rf"^{role}\d+$")).iter_rows(), ())
        raise log.refused(row, _fault(role, row, numbers, log, found, problem, tolerance) + also)


def _range(problem: Any) -> tuple[float, float]:
    """The least and the most that one step can pay."""
    low, high = sorted((float(problem.in_payoffs(-1.0)), float(problem.in_payoffs(1.0))))
    return low, high


def _fault(
    role: str, row: int, numbers: tuple[Any, ...], log: Log, found: Found, problem: Any, tolerance: float
) -> str:
    """What is wrong with a row; ``numbers`` are those of its forecast."""

    def cell(name: str) -> Any:
        return log.as_text([name]).rows.filter(pl.col(ROW) == row).select(column(name)).collect().rows()[0][0]

    name = str(getattr(found, role, None))
    if role in ("stream", "context"):
        return f"the {role} ({name}) is missing"
    if role in ("order", "known_at", "cutoff"):
        return (
            f"the step ({name}) must be a whole number, or a time such as 2026-01-31 or 2026-01-31 12:00, all with a "
            f"zone or none, got {inputs.shown(cell(name))}"
        )
    if role == "state":
        if not isinstance(problem, Payoff):
            return f"the state ({name}) must be {problem.state_names.refusal(cell(name))}"
        low, high = problem.outcomes
        return f"the outcome ({name}) must be a number from {low:.6g} to {high:.6g}, got {inputs.shown(cell(name))}"
    if role == "scale":
        return f"the scale ({name}) must be above 0 and at most 1, got {inputs.shown(cell(name))}"
    if role == "payoffs":
        size, (low, high) = " x ".join(map(str, problem.utility.shape)), _range(problem)
        return (
            f"there must be {size} payoffs ({listed(found.payoffs)}), action by action, in the range of the problem, "
            f"{low:.6g} to {high:.6g}"
        )
    values = found.values if role == "v" else found.references[int(role[1:-1])][1]
    missing = [i for i, value in enumerate(numbers) if value is None or not np.isfinite(value)]
    if missing and values.is_list:
        name = values.there[0]
        return f"there must be {len(numbers)} probabilities ({name}), one per state, got {inputs.shown(cell(name))}"
    if missing:
        name = values.names[missing[0]] or values.there[0]
        kind = "a quantile" if values.levels else "a probability"
        return f"{kind} ({name}) is missing or not a number, got {inputs.shown(cell(name))}"
    return _no_probabilities(numbers, values.names, tolerance)


def _no_probabilities(numbers: tuple[float, ...], names: tuple[str | None, ...], tolerance: float) -> str:
    """Why these numbers are no probabilities."""
    shown = ", ".join(f"{value:.6g}" for value in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    total = sum(numbers)
    off = abs(total - 1)
    is_rounding = off <= _TOLERATED * (1 + _ULPS)
    how = "of logits take the softmax, of counts divide by their sum"
    if abs(total - 100) <= 100 * _TOLERATED and min(numbers) >= 0:
        return f"probabilities must sum to one, got {shown}; they look like percentages: divide them by 100"
    if beyond := [i for i, value in enumerate(numbers) if not 0 <= value <= 1 + tolerance]:
        at = next((i for i in beyond if i < len(names) and names[i]), beyond[0])  # of two the other may be computed
        which = f" ({names[at]})" if at < len(names) and names[at] else ""
        hint = "" if is_rounding else f"; {how}"
        return f"a probability{which} must lie in [0, 1], got {numbers[at]:.6g} among {shown}{hint}"
    reason = f"probabilities must sum to one, and sum to {total:.9g} (tolerance {tolerance:g}): {shown}"
    if not is_rounding:
        return f"{reason}; that is not rounding: {how}"
    enough = float(f"{off * 1.005:.2g}")
    enough = enough if enough >= off * (1 - _ULPS) else float(f"{off * 1.1:.2g}")
    return f"{reason}; if that is rounding, --tolerance {enough:g} divides them by their sum"


def refuse_rivals(rows: pl.DataFrame, log: Log, found: Found) -> None:
    """Where several columns hold times and rows are taken as they stand: refuse times that do not ascend."""
    each = [pl.col(f"t{i}").diff().over("stream") for i in range(len(found.rivals))]
    falls = rows.select((own < 0).any().alias(name) for name, own in zip(found.rivals, each, strict=True))
    does_not = [f"those of {name} do not ascend" for name in found.rivals if falls[name].item()]
    if each and not does_not and rows.select(pl.all_horizontal([own == 0 for own in each]).any()).item():
        does_not = ["rows of one stream have the same"]
    if does_not:
        raise Refused(
            log.source,
            None,
            f"{listed(found.rivals)} hold times, and {does_not[0]}: --order NAME says which of them has the steps",
        )


def refuse_doubled(rows: pl.DataFrame, clock: Clock, names: pl.Series, log: Log, found: Found) -> None:
    """Refuse two rows of one stream and step, where rows are by stream and step."""
    code_R = rows["stream"].to_numpy()
    wrong = np.flatnonzero((code_R[1:] == code_R[:-1]) & (clock.at_R[1:] == clock.at_R[:-1]))
    if not len(wrong):
        return
    at = int(wrong[0])
    (other, first), (file, row) = (log.place(own) for own in sorted(rows[ROW][at : at + 2]))
    of = "" if found.stream is None else f" of stream {inputs.shown(names[int(code_R[at])])}"
    also = f"row {first}" if other == file else f"{other}, row {first}"
    reason = f"{clock.texts([at])[0]}{of} is there twice, also in {also}"
    if found.cutoff is not None:
        reason += f": keep one forecast per step, that of the latest {found.cutoff}"
    if clock.kind == TIMES:
        moments = clock.at_R[wrong].astype("datetime64[ns]")
        days = moments.astype("datetime64[D]")
        is_night = (moments - days).astype("timedelta64[h]").astype(np.int64) <= 3
        is_sunday = (days.astype(np.int64) + 3) % 7 == 6
        if is_night.all() and is_sunday.all() and (moments > days).any():
            reason += "; clocks may have been set back then: write times with their zone, 2026-10-25T02:30:00+01:00"
    refusal = Refused(file, row, reason)
    if found.is_guess and found.order is not None:
        raise Pooled(refusal)
    raise refusal
