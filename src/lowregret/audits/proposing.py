"""What the first rows of a log propose: the settings of its audit, and a file of payoffs to fill in."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..problems import DecisionProblem
from .columns import NO_STREAM, listed, probability_columns, quantile_columns, times_in, usual_columns
from .reading import MISSING, TEXTS, Log, Refused, log_of, numbers_in
from .settings import Columns

_SEEN = 200_000  # rows
_STATES = 50  # a column with more different values does not hold states
_FILL = "?"  # which no audit accepts


class Proposal(NamedTuple):
    """The text of audit.toml, that of a file of payoffs, and what is to be filled in."""

    settings: str
    payoffs_name: str
    payoffs: str
    notes: tuple[str, ...]


def proposed(path: str | Path) -> Proposal:
    """The settings that the first rows of a log propose; of what they leave open the alternatives stand in comments."""
    rows = _typed(log_of(path))
    log = log_of(rows)
    keys = usual_columns(rows.columns, Columns())
    times = times_in(log, rows.columns)
    order = [keys["order"]] if keys["order"] else times
    quantiles = {model: own for model, own in quantile_columns(rows.columns).items() if len(own) > 1}
    taken = [*filter(None, keys.values()), *order[:1], *(name for own in quantiles.values() for name in own.values())]
    states, models = list[str](), dict[str, Any]()
    if quantiles:
        role, payoffs_name = "quantiles", "payoffs.toml"
        models = {model: {f"{a:g}": own[a] for a in sorted(own)} for model, own in quantiles.items()}
        numbers = [name for name in rows.select(pl.selectors.numeric()).columns if name not in taken]
        state = [keys["state"]] if keys["state"] else numbers
        payoffs = _of_numbers(rows[state[0]].cast(pl.Float64, strict=False).drop_nulls() if state else pl.Series([0.0]))
    else:
        role, payoffs_name = "probs", "payoffs.csv"
        found = {name: own for name in rows.columns if (own := _models(rows, name))}
        state = [keys["state"]] if keys["state"] else [name for name, (_, own) in found.items() if own]
        states, models = found.get(state[0], (states, models)) if len(state) == 1 else (states, models)
        payoffs = _table(states or ["state 1", "state 2"])
    free = rows.select(~pl.selectors.nested() & ~pl.selectors.binary() & ~pl.selectors.float()).columns
    free = [name for name in free if name not in [*taken, *state]]
    later = [name for name in times if name not in taken] if len(order) == 1 else []
    chosen = "" if "" in models else next(iter(models)) if len(models) == 1 else None
    lines = [
        "# How `lowregret audit --config audit.toml` audits this log, by its first rows: check every line, and fill in",
        f"# {payoffs_name} and every {_FILL}. Paths are relative to this file. What else may stand here:",
        "# docs/reference/command-line.md",
        f"log = {_quoted(Path(path).name)}",
        f"payoffs = {_quoted(payoffs_name)}",
        "",
        "[columns]",
        _line("stream", _streams(rows, keys["stream"], order, free)),
        _line("order", order) if order else '# order = "date"  # rows are in the order in which they stand',
        _line("state", state) + (f"  # {', '.join(map(_quoted, states))}" if states else ""),
        *(f"# known_at = {_quoted(name)}  # if it says when the outcome was known" for name in later),
        *([f"{role} = {_inline(models[chosen])}"] if chosen is not None else [] if models else [_line(role, [])]),
        *(f"# {role} = {_inline(own)}  # {_quoted(model)}" for model, own in models.items() if model != chosen),
    ]
    notes = [f"fill in {payoffs_name}: what every action earns"]
    if models and chosen is None:
        notes.append(
            f"{len(models)} models found: {listed(models)}. Take the line of one, without its #, in audit.toml"
        )
    if any(f' = "{_FILL}"' in line for line in lines):
        notes.append(f"in audit.toml say which columns stand for each {_FILL}")
    return Proposal("\n".join(lines) + "\n", payoffs_name, payoffs, tuple(notes))


def _typed(log: Log) -> pl.DataFrame:
    """Its first rows: texts that are all numbers as numbers, floats that are all whole as integers."""
    rows, found = log.collected(log.rows.select(name for name in log.schema if name).head(_SEEN)), []
    if not len(rows):
        raise Refused(log.source, None, "it has no rows")
    for own in rows:
        if own.dtype in TEXTS:
            text = own.cast(pl.String).str.strip_chars()
            own = text.set(text.is_in(MISSING), None)
            number = numbers_in(own, has_commas=True)
            own = number if number.null_count() == own.null_count() < len(own) else own
        if own.dtype.is_float():  # as pandas writes whole numbers of which some are missing
            own = own.fill_nan(None)
            is_whole = own.count() > 0 and (own == own.floor()).all() and own.is_between(-1e18, 1e18).all()
            own = own.cast(pl.Int64) if is_whole else own
        found.append(own)
    return pl.DataFrame(found)


def _models(rows: pl.DataFrame, state: str) -> tuple[list[str], dict[str, Any]] | None:
    """The states that a column holds, and the columns of probabilities by model, "" where none is named."""
    own = rows[state]
    if not (own.dtype in TEXTS or own.dtype.is_integer() or own.dtype == pl.Boolean):
        return None
    states = [str(value) for value in own.drop_nulls().unique().sort().head(_STATES + 1)]
    if not 1 < len(states) <= _STATES:
        return None
    models, others = _by_model(rows.drop(state), states), [name for name in rows.columns if name != state]
    with suppress(ValueError):  # True and true; or there are none
        problem = DecisionProblem(np.eye(len(states)), states=states)
        values = probability_columns(rows.schema, others, problem)
        models[""] = values.there[0] if values.is_list else dict(zip(states, values.names, strict=True))
    return states, models


def _by_model(rows: pl.DataFrame, states: Sequence[str]) -> dict[str, Any]:
    """Columns of numbers named after a model and each state (of two one is enough); "": after the states alone.

    >>> rows = pl.DataFrame({"a_p_dry": [0.4], "a_p_wet": [0.6], "p_wet_b": [0.6], "p_wet": [0.6], "humidity": [0.9]})
    >>> _by_model(rows, ["dry", "wet"])
    {'a': {'dry': 'a_p_dry', 'wet': 'a_p_wet'}, 'b': {'wet': 'p_wet_b'}, '': {'wet': 'p_wet'}}
    """
    found: dict[str, Any] = {}
    for state in states:
        own, p = re.escape(state), "(?:p|prob)"
        pattern = re.compile(rf"{p}_{own}(?:[_-](?P<after>.+))?|(?P<before>.+?)[_-](?:{p}_)?{own}", re.DOTALL)
        for match in filter(None, map(pattern.fullmatch, rows.select(pl.selectors.numeric()).columns)):
            found.setdefault(match["before"] or match["after"] or "", {}).setdefault(state, match[0])
    taken = set(found.get("", {}).values())  # p_very_wet is not what a model p_very says of wet
    found = {model: own for model, own in found.items() if not model or taken.isdisjoint(own.values())}
    return {model: own for model, own in found.items() if len(own) >= len(states) - (len(states) == 2)}


def _streams(rows: pl.DataFrame, usual: str | None, order: Sequence[str], free: Sequence[str]) -> list[str]:
    """What may name the streams: the usual column, or those that tell equal times apart."""
    if usual and 2 * rows[usual].n_unique() <= len(rows):
        return [usual]
    if len(order) != 1 or rows[order[0]].n_unique() == len(rows):
        return [NO_STREAM]
    shared = [name for name in free if 2 * rows[name].n_unique() <= len(rows)]
    return [name for name in shared if not pl.DataFrame([rows[name], rows[order[0]]]).is_duplicated().any()]


def _line(role: str, names: Sequence[str]) -> str:
    """A role with its column, or with a question mark and the alternatives."""
    if len(names) == 1:
        return f"{role} = {_quoted(names[0])}"
    return f'{role} = "{_FILL}"' + (f"  # {' or '.join(map(_quoted, names))}" if names else "")


def _quoted(text: str) -> str:
    """A text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(own: Any) -> str:
    """A column, or columns by name, as a value of TOML."""
    if not isinstance(own, Mapping):
        return _quoted(own)
    pairs = ((k if re.fullmatch(r"[A-Za-z0-9_-]+", k, re.ASCII) else _quoted(k), v) for k, v in own.items() if v)
    return "{ " + ", ".join(f"{key} = {_inline(value)}" for key, value in pairs) + " }"


def _table(states: Sequence[str]) -> str:
    """The text of payoffs.csv; its corner is empty where states are numbers."""
    out, corner = io.StringIO(), "" if any(re.fullmatch(r"[-+.\d]+", state) for state in states) else "payoffs"
    rows = [[corner, *states], *([f"action {k}", *[_FILL] * len(states)] for k in (1, 2))]
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _of_numbers(outcomes: pl.Series) -> str:
    """The text of payoffs.toml: a newsvendor's, or where outcomes may be negative, payoffs at a few outcomes."""
    low = min(0.0, outcomes.quantile(0.01, "lower") or 0.0)
    high = outcomes.quantile(0.99, "higher") or 0.0
    unit = 10.0 ** np.floor(np.log10(max(high - low, 1e-9) / 4))
    step = next(unit * m for m in (1, 2, 5, 10) if (high - low) / (unit * m) <= 10)
    ends = np.arange(np.floor(low / step), np.ceil(high / step) + 1) * step
    shown, fill = ", ".join(f"{value:.6g}" for value in ends), f'"{_FILL}"'
    if ends[0] == 0:
        return (
            "# What an order earns, where the demand is a number. Other payoffs: docs/reference/command-line.md\n"
            f'kind = "newsvendor"\nprice = {fill}  # for each one sold\ncost = {fill}  # for each one ordered\n'
            f"salvage = 0  # for each one left over\nactions = [{shown}]  # what may be ordered\n"
        )
    row = f"  [{', '.join([fill] * len(ends))}],\n"
    return (
        "# What every action earns at these outcomes: straight lines between them, constant beyond.\n"
        f'knots = [{shown}]\nactions = ["action 1", "action 2"]\npayoffs = [\n{row * 2}]\n'
    )
