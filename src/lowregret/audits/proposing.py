"""What the first rows of a log propose: the settings of its audit, and a file of payoffs to fill in."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..problems import DecisionProblem, newsvendor_of_numbers
from .columns import NO_STREAM, Found, Values, found_columns, listed, quantile_columns
from .reading import MISSING, Log, Refused, log_of
from .settings import Columns
from .table import collected
from .times import moments_of

_SEEN = 200_000  # rows
_STATES = 50  # a column with more different values does not hold states
_FILL = "?"  # which no audit accepts
_KNOWN = ("known", "available", "reported", "published", "released")  # in the name of a column of times


class Proposal(NamedTuple):
    """The text of audit.toml, that of a file of payoffs, and what is to be filled in."""

    settings: str
    payoffs_name: str
    payoffs: str
    notes: tuple[str, ...]


def proposed(path: str | Path) -> Proposal:
    """The settings that the first rows of a log propose; of what they leave open the alternatives stand in comments."""
    log = log_of(path)
    rows = collected(log, log.rows.head(_SEEN), log.as_text(list(log.schema)).rows.head(_SEEN))
    rows = rows.select(name for name in log.schema if name)
    if not len(rows):
        raise Refused(log.source, None, "it has no rows")
    quantiles = {model: own for model, own in quantile_columns(rows.columns).items() if len(own) > 1}
    states: Sequence[str] = ()
    references: dict[str, Any] = {}
    if quantiles:
        role, payoffs_name = "quantiles", "payoffs.toml"
        models: dict[str, Any] = {m: {f"{a:g}": own[a] for a in sorted(own)} for m, own in quantiles.items()}
        stall = newsvendor_of_numbers([0, 1], price=2, cost=1)
        found = _found(log, stall, Columns(quantiles=next(iter(quantiles.values()))))
        state = [] if found is None else [found.state]
        outcomes = rows[state[0]].cast(pl.Float64, strict=False) if state else pl.Series([0.0])
        payoffs = _stall(outcomes.filter(outcomes.is_finite()).to_numpy())
    else:
        role, payoffs_name = "probs", "payoffs.csv"
        candidates = _of_states(log, rows)
        state = [own.state for own, _ in candidates]
        found, states = candidates[0] if len(candidates) == 1 else (None, ())
        models = _by_model(rows, states)
        if found is not None and found.values.there != state:  # which are the model's is clear
            names = found.values.names
            models[""] = names[0] if found.values.is_list else dict(zip(states, names, strict=True))
        if "" in models:
            references, models = models, {"": models.pop("")}
        payoffs = _table(states or ("state 1", "state 2"))
    keys = found
    if keys is None:  # streams and steps are found with any column in place of the probabilities, or of the outcomes
        any_column = [*rows.select(pl.selectors.float()).columns, rows.columns[-1]][0]
        coin, alone = DecisionProblem(np.eye(2)), Columns(probs=(any_column,))
        if (keys := _found(log, coin, alone)) is not None:
            state = state or [keys.state]
        else:
            keys = _found(log, coin, replace(alone, state=any_column))
        if keys is None:
            raise Refused(log.source, None, f"no audit could read its columns: {listed(rows.columns)}")
        keys = keys._replace(state="".join(state[:1]), values=Values(()))
    stream, known_at, lag = _keys(rows, log, keys)
    order = [keys.order] if keys.order else [name for name in keys.rivals if not _says_known(name)]
    lines = [
        "# How `lowregret audit --config audit.toml` audits this log, by its first rows: check every line, and fill in",
        f"# {payoffs_name} and every {_FILL}. Paths are relative to this file. What else may stand here:",
        "# docs/reference/command-line.md",
        f"log = {_quoted(Path(path).name)}",
        f"payoffs = {_quoted(payoffs_name)}",
    ]
    lines += [f"lag = {lag}  # forecasts were made up to so many steps ahead"] if lag > 1 and not known_at else []
    lines += ["", "[columns]", _line("stream", stream)]
    lines += [_line("order", order)] if order else ['# order = "date"  # rows are in the order in which they stand']
    lines += [_line("state", state) + (f"  # {', '.join(map(_quoted, states))}" if states else "")]
    lines += [_line("known_at", known_at)] if known_at else []
    lines += [f"{role} = {_inline(own)}" for own in models.values()] if len(models) == 1 else []
    lines += [] if models else [_line(role, [])]
    lines += [f"# {role} = {_inline(own)}  # {_quoted(model)}" for model, own in models.items() if len(models) > 1]
    lines += ["", f"# references = {_inline(references)}  # to compare with"] if references else []
    notes = [f"fill in {payoffs_name}: what every action earns"]
    if len(models) > 1:
        notes.append(
            f"{len(models)} models found: {listed(models)}. Take the line of one, without its #, in audit.toml"
        )
    if any(f' = "{_FILL}"' in line for line in lines):
        notes.append(f"in audit.toml say which columns stand for each {_FILL}")
    return Proposal("\n".join(lines) + "\n", payoffs_name, payoffs, tuple(notes))


def _found(log: Log, problem: Any, columns: Columns) -> Found | None:
    """The columns of a log, None where some are missing; times at which outcomes were known are not its order."""
    try:
        found = found_columns(log, problem, columns)
        times = [name for name in found.rivals if not _says_known(name)]
        return found_columns(log, problem, replace(columns, order=times[0])) if len(times) == 1 else found
    except Refused:
        raise
    except ValueError:
        return None


def _says_known(name: str) -> bool:
    return any(word in name.casefold() for word in _KNOWN)


def _of_states(log: Log, rows: pl.DataFrame) -> list[tuple[Found, Sequence[str]]]:
    """The column of outcomes, with its states: that with a usual name, or whose states name those of probabilities."""
    ranked: dict[int, list[tuple[Found, Sequence[str]]]] = {}
    for name in rows.columns:
        states = _values(rows[name])
        if not 1 < len(states) <= _STATES:
            continue
        try:
            problem = DecisionProblem(np.eye(len(states)), states=states)
        except ValueError:  # True and true
            continue
        attempts = [Columns(), Columns(state=name), Columns(probs=(name,))]
        attempts += [Columns(state=name, probs=(name,))] if _by_model(rows, states) else []
        for rank, columns in enumerate(attempts):
            found = _found(log, problem, columns)
            if found is not None and found.state == name:
                ranked.setdefault(rank, []).append((found, states))
                break
    return ranked[min(ranked)] if ranked else []


def _values(column: pl.Series) -> list[str]:
    """The different values of a column of names, bools or whole numbers, sorted; what stands for none is left out."""
    kind = column.dtype
    if kind in (pl.String, pl.Categorical, pl.Enum):
        column = column.cast(pl.String).str.strip_chars()
        column = column.filter(~column.is_in(MISSING))
    elif kind.is_float():  # as pandas writes whole numbers of which some are missing
        column = column.drop_nans().drop_nulls()
        is_whole = column.is_finite().all() and (column == column.floor()).all()
        column = column.cast(pl.Int64) if is_whole else column.head(0)
    elif not (kind.is_integer() or kind == pl.Boolean):
        return []
    return [str(value) for value in column.drop_nulls().unique().sort().head(_STATES + 1)]


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
        for match in filter(None, map(pattern.fullmatch, rows.select(pl.selectors.float()).columns)):
            found.setdefault(match["before"] or match["after"] or "", {}).setdefault(state, match[0])
    taken = set(found.get("", {}).values())  # p_very_wet is not what a model p_very says of wet
    found = {model: own for model, own in found.items() if not model or taken.isdisjoint(own.values())}
    return {model: own for model, own in found.items() if len(own) >= len(states) - (len(states) == 2)}


def _keys(rows: pl.DataFrame, log: Log, found: Found) -> tuple[list[str], list[str], int]:
    """What may name the streams, what may say when outcomes were known, and how far ahead forecasts were made."""
    n = len(rows)
    stream = found.stream if found.stream and 2 * rows[found.stream].n_unique() <= n else None
    streams = [stream or NO_STREAM]
    if found.order is None:
        return streams, [], 1

    def moments(name: str) -> tuple[pl.Series, str]:
        own = moments_of(name, log.schema[name], found.has_zones)
        return rows.select(own.at.alias("at"))["at"], own.kind

    at, kind = moments(found.order)
    free = rows.drop(found.needed).select(~pl.selectors.nested() & ~pl.selectors.binary() & ~pl.selectors.float())
    if stream is None and at.n_unique() < n:
        shared = [column.name for column in free if 2 * column.n_unique() <= n]
        streams = [name for name in shared if rows.select(pl.struct(name, at).n_unique()).item() == n]
    known = []
    for name in free.columns:
        if _says_known(name):
            then, theirs = moments(name)
            known += [name] if theirs == kind and then.count() and (then >= at).all() else []
    lag = 1
    if found.cutoff is not None and moments(found.cutoff)[1] == kind:
        owner = pl.lit(0) if len(streams) != 1 or streams[0] == NO_STREAM else pl.col(streams[0])
        made = (
            rows.select(owner.alias("stream"), at=at, made=moments(found.cutoff)[0]).drop_nulls().sort("stream", "at")
        )
        ahead = pl.int_range(pl.len()) - pl.col("at").search_sorted(pl.col("made"), side="right") + 1
        lags = made.group_by("stream").agg(ahead.max().alias("lag"))["lag"].to_numpy()
        lag = int(lags.max(initial=1))
    return streams, known, lag


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


def _table(states: Iterable[str]) -> str:
    """The text of payoffs.csv; its corner is empty where states are numbers."""
    states, out = list(states), io.StringIO()
    corner = "" if any(re.fullmatch(r"[-+.\d]+", state) for state in states) else "payoffs"
    rows = [[corner, *states], *([f"action {k}", *[_FILL] * len(states)] for k in (1, 2))]
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _stall(outcomes: np.ndarray) -> str:
    """The text of payoffs.toml: a newsvendor's, or where outcomes may be negative, payoffs at a few outcomes."""
    ends = np.quantile(outcomes, [0.01, 0.99]) if len(outcomes) else np.array([0.0, 1.0])
    low = min(0.0, float(ends[0]))
    unit = 10.0 ** np.floor(np.log10(max(float(ends[1]) - low, 1e-9) / 4))
    step = next(unit * m for m in (1, 2, 5, 10) if (float(ends[1]) - low) / (unit * m) <= 10)
    places = np.arange(np.floor(low / step), np.ceil(ends[1] / step) + 1) * step
    shown, fill = ", ".join(f"{float(f'{at:.6g}'):g}" for at in places), f'"{_FILL}"'
    if low == 0:
        return (
            "# What an order earns, where the demand is a number. Other payoffs: docs/reference/command-line.md\n"
            f'kind = "newsvendor"\nprice = {fill}  # for each one sold\ncost = {fill}  # for each one ordered\n'
            f"salvage = 0  # for each one left over\nactions = [{shown}]  # what may be ordered\n"
        )
    row = f"  [{', '.join([fill] * len(places))}],\n"
    return (
        "# What every action earns at these outcomes: straight lines between them, constant beyond.\n"
        f'knots = [{shown}]\nactions = ["action 1", "action 2"]\npayoffs = [\n{row * 2}]\n'
    )
