"""A first look at a log: which column may be what, and the files to fill in before it is audited."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import files
from .cells import Refused, arrow, numbers_in, one_column
from .columns import NO_STREAM, keys_in, may_be_order, shared
from .laws import USUAL, column_names, listed, probs_in, state_named
from .outcome_frames import models_in
from .rows import plainly, streams_in_rows
from .settings import TAKEN
from .tables import Wanted, tables_at, words
from .times import order_in

_SEEN = 200_000  # rows that are looked at
_STATES = 50  # a column with more different values does not hold states
_CONTEXTS = 24
_OFF = 0.02  # how far off 1 sums of probabilities may be and still be proposed
_FILL = "?"
_KNOWN = ("known", "available", "reported", "published", "released")


class Proposal(NamedTuple):
    """The files to write beside a log, by name, and what to do next."""

    settings: str
    payoffs_name: str
    payoffs: str
    said: tuple[str, ...]


class Found(NamedTuple):
    """Which column may be what; None: it cannot be told."""

    stream: str | None
    order: str | None
    state: str | None
    states: tuple[str, ...]
    probs: dict[str, str] | str | None  # by state, or one that holds lists
    quantiles: dict[float, str]
    lag: int
    contexts: tuple[str, ...]
    scales: tuple[str, ...]
    references: dict[str, dict[str, str]]


def proposed(log: str | Path) -> Proposal:
    """What a look at a log proposes: the text of ``audit.toml``, and of a file of payoffs to fill in."""
    log = files.a_path(log)
    table = first_rows(log)
    if not table.num_rows:
        raise Refused(str(log), None, "it has no rows")
    found = looked(table, str(log))
    of_numbers = bool(found.quantiles)
    name = "payoffs.toml" if of_numbers else "payoffs.csv"
    outcomes_R = np.zeros(0)
    if of_numbers and found.state is not None:
        outcomes_R = numbers_in(one_column(table, found.state), found.state, "outcomes", str(log))
    payoffs = _stall(outcomes_R[np.isfinite(outcomes_R)]) if of_numbers else _table_of(found.states)
    unclear = ["state"] if found.state is None else []
    unclear += ["probs"] if found.probs is None and not of_numbers else []
    said = [f"fill in {name}: what every action earns"]
    if unclear:
        said.insert(0, f"say in audit.toml which columns are {' and '.join(unclear)}, in place of {_FILL}")
    return Proposal(_settings(log, name, table.num_rows, found), name, payoffs, tuple(said))


def first_rows(log: Path) -> Any:
    """The first rows of a log, or of the first file of a folder, with all their columns."""
    pa, table = arrow(), tables_at(log)[0]
    kept, rows = [], 0
    try:
        for part in table.parts():
            for batch in table.batches(part, Wanted(table.names(), [], [], None)):
                kept.append(pa.table(batch.slice(0, _SEEN - rows)))
                rows += kept[-1].num_rows
                if rows >= _SEEN:
                    return pa.concat_tables(kept)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Refused(table.where, None, words(error)) from error
    return pa.concat_tables(kept) if kept else pa.table({name: [] for name in table.names()})


def looked(table: Any, where: str) -> Found:
    """Which column of a table may be what."""
    there = table.column_names
    stream, guesses, order, state = keys_in(there, {})
    quantiles = _quantiles_of(there, [name for name in (stream, order, state) if name])
    if order is None:
        dated = [name for name in there if arrow().types.is_temporal(table.schema.field(name).type)]
        order = may_be_order(there, [stream, state, *quantiles.values()]) or next(iter(dated), None)
    taken = [name for name in (order, state, *quantiles.values()) if name]
    stream = _stream_of(table, [stream, *(guesses or ())], order, taken, where)
    taken += [stream] if stream else []
    values = {name: _values(table, name) for name in there if name not in taken or name == state}
    if state is None:
        state = _state_of(there, values, taken, bool(quantiles))
        taken += [state] if state else []
    states = () if quantiles or state is None else values[state][:_STATES]
    probs = _probs_of(table, there, states, state, taken, where) if states else None
    taken += [probs] if isinstance(probs, str) else list((probs or {}).values())
    free = [name for name in there if name not in taken]
    references = _references_of(free, states)
    free = [name for name in free if not any(name in own.values() for own in references.values())]
    return Found(
        *(stream, order, state, states, probs, quantiles),
        lag_in(table, stream, order, free, where),
        tuple(name for name in free if 1 < len(values.get(name, ())) <= _CONTEXTS),
        tuple(name for name in free if _within(table, name, where)),
        references,
    )


def lag_in(table: Any, stream: str | None, order: str | None, others: Sequence[str], where: str) -> int:
    """After how many steps outcomes were known, by a column of when forecasts were made, or of when outcomes were."""
    made = next((name for name in others if name.casefold() == "cutoff"), None)
    known = next((name for name in others if any(word in name.casefold() for word in _KNOWN)), None)
    column = made or known
    if order is None or column is None:
        return 1
    try:
        steps, other = order_in(table, order, where), order_in(table, column, where)
    except Refused:
        return 1
    if steps.kind != other.kind:
        return 1
    _, stream_R = streams_in_rows(table, stream, where)
    most = 1
    for k in range(int(stream_R.max()) + 1):
        place = np.flatnonzero(stream_R == k)
        place = place[np.argsort(steps.at_R[place], kind="stable")]
        at, then = steps.at_R[place], other.at_R[place]
        # Steps up to the one that a forecast was made after; or those that had begun when an outcome was known.
        late = np.arange(len(at)) - np.searchsorted(at, then, side="right") + 1
        if made is None:
            late = np.searchsorted(at, then, side="right") - np.arange(len(at))
        most = max(most, int(late.max()))
    return most


def _quantiles_of(there: Sequence[str], taken: Sequence[str]) -> dict[float, str]:
    """Of several models the first: which it is stands in the names."""
    try:
        models = models_in([name for name in there if name not in taken])
    except ValueError:
        return {}
    own = next((own for own in models.values() if len(own) > 1), {})
    return dict(sorted(own.items()))


def _stream_of(
    table: Any, usual: Sequence[str | None], order: str | None, taken: Sequence[str], where: str
) -> str | None:
    """One of the usual columns whose values repeat; else one that tells rows with the same time apart."""

    def coded(name: str) -> np.ndarray | None:
        try:
            return streams_in_rows(table, name, where)[1]
        except Refused:
            return None

    for name in usual:
        of_R = None if name is None else coded(name)
        if of_R is not None and shared(len(of_R), int((np.bincount(of_R) == 1).sum())):
            return name
    if order is None:
        return None
    try:
        at_R = order_in(table, order, where).at_R
    except Refused:
        return None
    if len(np.unique(at_R)) == len(at_R):
        return None
    for name in table.column_names:
        if name in taken or _is_float(table, name) or (of_R := coded(name)) is None:
            continue
        if len(np.unique(np.stack([of_R, at_R]), axis=1)[0]) == len(at_R) and 2 * (int(of_R.max()) + 1) <= len(at_R):
            return name
    return None


def _values(table: Any, name: str) -> tuple[str, ...]:
    """The different values of a column of names, whole numbers or bools, sorted; none for any other column."""
    kinds, kind = arrow().types, table.schema.field(name).type
    if kinds.is_floating(kind) or kinds.is_nested(kind) or kinds.is_temporal(kind) or kinds.is_binary(kind):
        return ()
    found = [value for value in one_column(table, name).unique().to_pylist() if value is not None]
    return tuple(map(plainly, sorted(found, key=lambda value: (str(type(value)), value))))


def _state_of(
    there: Sequence[str], values: dict[str, tuple[str, ...]], taken: Sequence[str], of_numbers: bool
) -> str | None:
    """A column whose values the columns of probabilities are named after; else the only one with few values."""
    if of_numbers:
        return None
    few = [name for name, own in values.items() if name not in taken and 1 < len(own) <= _STATES]
    named = next((name for name in few if column_names(there, values[name], [name])), None)
    return named or (few[0] if len(few) == 1 else None)


def _probs_of(
    table: Any, there: Sequence[str], states: Sequence[str], state: str | None, taken: Sequence[str], where: str
) -> dict[str, str] | str | None:
    """Columns named after the states; else numbers that sum to one; else one number, for two states."""
    try:
        names = probs_in(there, states, None, taken)
    except ValueError:
        names = ()
    if len(names) == 1 and names[0] in USUAL:
        return names[0]
    if names:
        return {own: str(name) for own, name in zip(states, names, strict=True)}
    columns = [name for name in there if name not in taken and _is_float(table, name)]
    numbers = {name: numbers_in(one_column(table, name), name, "probabilities", where) for name in columns}
    chances = {name: own for name, own in numbers.items() if ((own >= 0) & (own <= 1)).all()}
    by_state = {at: name for name in chances if (at := state_named(name, states)) is not None}
    for some in (list(by_state.values()), list(chances)):
        if len(some) == len(states) and (np.abs(sum(chances[name] for name in some) - 1) <= _OFF).all():
            placed = sorted(by_state) == list(range(len(states)))
            return {own: by_state[i] if placed else some[i] for i, own in enumerate(states)}
    if len(states) == 2 and len(chances) == 1 and state is not None:
        (name,) = chances
        came_R = np.array([plainly(value) == states[1] for value in one_column(table, state).to_pylist()])
        of = state_named(name, states)
        if of is None and came_R.any() and not came_R.all():
            of = int(chances[name][came_R].mean() > chances[name][~came_R].mean())
        return None if of is None else {states[of]: name}
    return None


def _is_float(table: Any, name: str) -> bool:
    return bool(arrow().types.is_floating(table.schema.field(name).type))


def _within(table: Any, name: str, where: str) -> bool:
    """Whether numbers are above 0 and at most 1, as a scale is, and not all equal."""
    if not _is_float(table, name):
        return False
    own = numbers_in(one_column(table, name), name, "scale", where)
    return bool(((own > 0) & (own <= 1)).all() and own.min() < own.max())


def _references_of(free: Sequence[str], states: Sequence[str]) -> dict[str, dict[str, str]]:
    """Columns NAME_STATE, one for every state: what else forecast it."""
    found: dict[str, dict[str, str]] = {}
    for state in states:
        for name in free:
            if name.endswith(f"_{state}"):
                found.setdefault(name.removesuffix(f"_{state}"), {})[state] = name
    return {name: own for name, own in found.items() if len(own) == len(states)}


# What is written.


def _settings(log: Path, payoffs: str, rows: int, found: Found) -> str:
    """The text of audit.toml."""
    seen = f"its first {rows:,} rows" if rows >= _SEEN else f"its {rows:,} rows"
    lines = [
        "# How `lowregret audit --config audit.toml` audits this log. Proposed by a look at " + seen + ":",
        f"# check every line, and fill in {payoffs}. Paths are relative to this file; options given on the",
        "# command line win. Lines that begin with # have no effect.",
        f"log = {_quoted(log.name)}",
        f"payoffs = {_quoted(payoffs)}",
        '# out = "results/audit"',
        "delta = 0.05  # the chance of ever having a false alarm, for each stream",
    ]
    if "lag" in TAKEN:
        sign = "" if found.lag > 1 else "# "  # the audit itself looks for a lag that is not given
        lines.append(f"{sign}lag = {found.lag}  # after how many steps an outcome is known; 1: before the next")
    lines += [
        "# test = false  # play the mixture from the first step on",
        "",
        "[columns]",
        f"stream = {_quoted(found.stream or NO_STREAM)}{'' if found.stream else '  # all rows are one'}",
    ]
    if found.order is None:
        lines.append('# order = "date"  # rows are taken in the order in which they stand')
    else:
        lines.append(f"order = {_quoted(found.order)}")
    lines.append(f"state = {_quoted(found.state or _FILL)}" + (f"  # {listed(found.states)}" if found.states else ""))
    if found.quantiles:
        lines.append(f"quantiles = {_inline({f'{level:g}': name for level, name in found.quantiles.items()})}")
    elif isinstance(found.probs, dict):
        lines.append(f"probs = {_inline(found.probs)}")
    else:
        lines.append(f"probs = {_quoted(found.probs or _FILL)}")
    lines += [f"# context = {_quoted(name)}  # compare with one action for each context" for name in found.contexts]
    lines += [f"# scale = {_quoted(name)}  # how much of the payoffs counts at a step" for name in found.scales]
    if found.references:
        lines += ["", "# Compare with what runs today:", "# [columns.references]"]
        lines += [f"# {_key(name)} = {_inline(own)}" for name, own in found.references.items()]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _quoted(text: str) -> str:
    """A text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(pairs: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{_key(key)} = {_quoted(value)}" for key, value in pairs.items()) + " }"


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text, re.ASCII) else _quoted(text)


def _table_of(states: Sequence[str]) -> str:
    """The text of payoffs.csv: names of actions and numbers are to be filled in."""
    named = list(states) or ["state 1", "state 2"]
    corner = "" if any(_numeric(state) for state in named) else "payoffs"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([corner, *named])
    for k in (1, 2):
        writer.writerow([f"action {k}", *[_FILL] * len(named)])
    return out.getvalue()


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _stall(outcomes_R: np.ndarray) -> str:
    """The text of payoffs.toml: a newsvendor's, or where outcomes may be negative, payoffs at a few outcomes."""
    ends = np.quantile(outcomes_R, [0.01, 0.99]) if len(outcomes_R) else np.array([0.0, 1.0])
    low = 0.0 if ends[0] >= 0 else float(ends[0])
    unit = 10.0 ** np.floor(np.log10(max(float(ends[1]) - low, 1e-9) / 4))
    step = next(unit * m for m in (1, 2, 5, 10) if (float(ends[1]) - low) / (unit * m) <= 10)
    at = [float(f"{value:.6g}") for value in np.arange(np.floor(low / step), np.ceil(ends[1] / step) + 1) * step]
    shown = ", ".join(f"{value:g}" for value in at)
    if low >= 0:
        return (
            "# What an order earns, where the demand is a number. Other payoffs: docs/reference/audit-settings.md.\n"
            'kind = "newsvendor"\n'
            f'price = "{_FILL}"  # for each one sold\n'
            f'cost = "{_FILL}"  # for each one ordered\n'
            "salvage = 0  # for each one left over\n"
            f"actions = [{shown}]  # what may be ordered\n"
        )
    cells = ", ".join([f'"{_FILL}"'] * len(at))
    return (
        "# What every action earns at these outcomes: straight lines between them, constant beyond.\n"
        f"knots = [{shown}]\n"
        'actions = ["action 1", "action 2"]\n'
        f"payoffs = [\n  [{cells}],\n  [{cells}],\n]\n"
    )
