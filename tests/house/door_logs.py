"""Logs for the fuzzer of the doors: times, tables and frames of every type, files and folders of them, payoffs."""

import csv
import datetime as dt
import itertools
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from .door_worlds import MAY, MUST, REFUSE, World, as_number, strictest

STREAMS = ("unique_id", "series", "stream", "series_id", "item_id")
ORDERS = ("step", "ds", "time", "timestamp", "date", "t")
STATES = ("state", "y", "outcome", "actual", "target")
LISTS = ("probs", "probabilities", "p")
USUAL = {*STREAMS, *ORDERS, *STATES, *LISTS, "id"}
ODD = (
    *("when", "came", "Größe", "the day", "None", "nan", "7"),
    *("model", "guard", "payoff", "context", "True", "日本", "x.y"),
)
ZONES = [ZoneInfo(name) for name in ("Asia/Tokyo", "America/Phoenix", "Asia/Kolkata", "UTC")]  # clocks never change


# Times


class Order(NamedTuple):
    """Where steps stand: what a table holds for each, the instants, and whether there are gaps (None: who knows)."""

    kind: str
    cells: list[list[Any]]  # by stream
    gaps: bool | None
    expected: str = MUST


def some_order(rng: np.random.Generator, lengths: list[int], typed: bool, files: bool) -> Order:
    """``typed``: whether the table may hold values of any type, or text alone; ``files``: whether it may be several."""
    kinds = ["number", "number", "float", "date", "naive", "zoned", "text", "zoned text", "mixed text", "two clocks"]
    kinds += ["half zoned", *(["mixed"] if typed else []), *(["half the files"] if files else [])]
    kind = str(rng.choice(kinds))
    if kind in ("number", "float"):
        return _numbers(rng, lengths, kind)
    gap = bool(rng.random() < 0.3)
    each = (
        dt.timedelta(days=1) if kind in ("date", "two clocks") else dt.timedelta(hours=int(rng.choice([1, 1, 24, 6])))
    )
    begin = dt.datetime(2026, 1, int(rng.integers(1, 28)), 0 if kind == "date" else int(rng.integers(0, 24)))
    zone, cells = ZONES[rng.integers(len(ZONES))], []
    for T in lengths:
        steps = np.arange(T) + (int(rng.integers(1, 4)) * (np.arange(T) >= T // 2) if gap else 0)
        utc = [(begin + int(n) * each).replace(tzinfo=dt.UTC) for n in steps]
        cells.append(_spelt(rng, kind, utc, zone))
    return Order(kind, cells, gap, REFUSE if "half" in kind else MUST)


def _numbers(rng: np.random.Generator, lengths: list[int], kind: str) -> Order:
    first, make = int(rng.integers(-3, 1000)), float if kind == "float" else int
    cells, wrong = [[make(first + t) for t in range(T)] for T in lengths], rng.random()
    if wrong < 0.03:  # a step that is missing
        cells[0][-1] += 1
    elif wrong < 0.06:  # or there twice
        cells[0][-1] -= 1
    return Order(kind, cells, False, REFUSE if wrong < 0.06 else MUST)


def _spelt(rng: np.random.Generator, kind: str, utc: list[dt.datetime], zone: ZoneInfo) -> list[Any]:
    if kind == "date":
        return [time.date() for time in utc]
    if kind in ("naive", "text"):
        plain = [time.replace(tzinfo=None) for time in utc]
        return plain if kind == "naive" else [time.isoformat(sep=" ") for time in plain]
    if kind == "two clocks":  # midnight here, midnight there
        own = [ZONES[i] for i in rng.permutation(len(ZONES))[:2]]
        return [time.replace(tzinfo=own[t % 2], hour=0).isoformat() for t, time in enumerate(utc)]
    if kind == "half zoned":
        half = [time.replace(tzinfo=None) if t % 2 else time for t, time in enumerate(utc)]
        return [time.isoformat() for time in half]
    zones = [ZONES[i] for i in rng.integers(0, len(ZONES), len(utc))] if "mixed" in kind else [zone] * len(utc)
    local = [time.astimezone(own) for time, own in zip(utc, zones, strict=True)]
    return [time.isoformat() for time in local] if "text" in kind else local


# Tables


class Table(NamedTuple):
    """A log as columns, a row a step, with what is told of it."""

    columns: dict[str, list[Any]]
    told: dict[str, Any]  # columns={...}
    roles: dict[str, str | None]  # which column is which, told or not
    rows: list[tuple[int, int]]  # the stream and step of each
    cells: list[list[Any]] | None  # what the order says of each step, by stream
    gaps: bool | None
    expected: str  # of all but names and what is written
    words: str  # what was drawn
    no_streams: bool = False  # for --stream none
    half: bool = False  # some files have times without a zone


def some_table(rng: np.random.Generator, world: World, text: bool, command: bool = False, files: bool = False) -> Table:
    """``text``: for a CSV, in which there are no lists; ``command``: all that is told fits on a command line."""
    told: dict[str, Any] = {}
    expected, free = MUST, [name for name in ODD if not command or "," not in name]
    free = [free[i] for i in rng.permutation(len(free))]
    keyed, stream, words = _stream_kind(rng, world, command)
    if keyed == "told":
        stream = told["stream"] = free.pop()
    order = some_order(rng, [len(one.came) for one in world.streams], typed=not text, files=files)
    ordered = keyed == "id stream" or rng.random() < 0.85
    by_key = keyed == "id" and rng.random() < 0.3  # --order id
    when = str(rng.choice(ORDERS))
    if not ordered and not by_key:
        when, order = "", Order("none", [], None)
    elif by_key:
        when = told["order"] = "id"
        order = Order("key", [list(range(100, 100 + len(world.streams[0].came)))], None)
    elif rng.random() < 0.3:
        when = told["order"] = free.pop()
    state = str(rng.choice(STATES))
    if rng.random() < 0.3:
        state = told["state"] = free.pop()
    expected = strictest(expected, order.expected, MAY if keyed == "id stream" else MUST)

    rows = [(b, t) for b, one in enumerate(world.streams) for t in range(len(one.came))]
    if when:
        rows = [rows[i] for i in rng.permutation(len(rows))]
    columns: dict[str, list[Any]] = {}
    if keyed in ("usual", "told", "id stream"):
        columns[stream] = [world.streams[b].name for b, _ in rows]
    elif keyed == "unique":
        columns[stream] = [f"row {i}" for i in rng.permutation(len(rows))]
    elif keyed == "none":
        columns[stream] = [["a", "b", "c"][i] for i in rng.integers(0, 3, len(rows))]
    if keyed == "id" or (keyed == "usual" and rng.random() < 0.3):
        key = (
            list(range(100, 100 + len(rows)))
            if rng.random() < 0.7 or by_key
            else [f"k{i:04}" for i in range(len(rows))]
        )
        columns["id"] = key
    if when and not by_key:
        columns[when] = [order.cells[b][t] for b, t in rows]
    elif by_key:
        columns["id"] = [order.cells[b][t] for b, t in rows]
    columns[state] = [world.values[world.streams[b].written[t]] for b, t in rows]
    laws = np.array([world.streams[b].laws_TxS[t] for b, t in rows])
    style, fine = _with_laws(rng, columns, laws, world.state_names, told, text, command, free)
    expected = strictest(expected, fine)
    _with_others(rng, columns, told, when, world.state_names, free)
    if rng.random() < 0.5:
        shuffled = list(columns)
        columns = {shuffled[i]: columns[shuffled[i]] for i in rng.permutation(len(shuffled))}
    values = sorted({type(value).__name__ for value in world.values})
    words = f"stream {keyed}, order {order.kind}, laws {style}, outcomes {'/'.join(values)}"
    roles = {"stream": stream or None, "order": when or None, "state": state}
    cells = order.cells if when else None
    return Table(
        columns, told, roles, rows, cells, order.gaps, expected, words, keyed == "none", order.kind == "half the files"
    )


def _stream_kind(rng: np.random.Generator, world: World, command: bool) -> tuple[str, str, str]:
    usual = str(rng.choice(STREAMS))
    if len(world.streams) > 1:
        kind = str(rng.choice(["usual", "told", "id stream"], p=[0.6, 0.3, 0.1]))
        return kind, "id" if kind == "id stream" else usual, kind
    kinds = ["alone", "usual", "told", "id", "id", "unique", *(["none"] if command else [])]
    kind = str(rng.choice(kinds))
    return kind, "" if kind in ("alone", "id") else usual, kind


def _with_laws(
    rng: np.random.Generator,
    columns: dict[str, list[Any]],
    laws_RxS: np.ndarray,
    states: tuple[str, ...],
    told: dict[str, Any],
    text: bool,
    command: bool,
    free: list[str],
) -> tuple[str, str]:
    """Columns of probabilities in one of the ways there are; how, and whether that is beyond doubt."""
    S = len(states)
    style = str(rng.choice(["p_{}", "p_{}", "prob_{}", "p{}", "{}", "by state", "in order", "lists", "one"]))
    plain = not any(sign in state for state in states for sign in ",=")
    if (style == "lists" and text) or (style == "one" and S != 2) or (style == "by state" and command and not plain):
        style = "p_{}"
    spelt = [style.format(state) for state in states]
    if "{" in style and (set(spelt) & set(columns) or len(set(spelt)) < S):
        style = "p_{}"
        spelt = [style.format(state) for state in states]
    if style == "lists":
        columns[name := str(rng.choice(LISTS))] = laws_RxS.tolist()
        doubt = any(pattern.format(state) == name for state in states for pattern in ("p{}", "{}"))
        return style, MAY if doubt else MUST
    if style in ("by state", "in order", "one"):
        chosen = ["alpha", "beta", "gamma"][:S]
        if style == "one":
            own = int(rng.integers(2))
            told["probs"] = {states[own]: chosen[own]}
            columns[chosen[own]] = laws_RxS[:, own].tolist()
            return style, MAY if command and not plain else MUST
        told["probs"] = dict(zip(states, chosen, strict=True)) if style == "by state" else chosen
        spelt = chosen
    order = rng.permutation(S)
    columns |= {spelt[s]: laws_RxS[:, s].tolist() for s in order}
    return style, MAY if style in ("{}", "p{}") and set(spelt) & USUAL else MUST


def _with_others(
    rng: np.random.Generator,
    columns: dict[str, list[Any]],
    told: dict[str, Any],
    when: str,
    states: tuple[str, ...],
    free: list[str],
) -> None:
    """Columns that mean nothing, and some that would if nothing else were told."""
    n = len(next(iter(columns.values())))
    names = [name for name in free[:2] if rng.random() < 0.3]
    if "stream" in told and rng.random() < 0.4:
        names.append(str(rng.choice(STREAMS)))
    if "order" in told and rng.random() < 0.4:
        names.append(str(rng.choice(ORDERS)))
    if "state" in told and rng.random() < 0.4:
        names.append(str(rng.choice(STATES)))
    spelt = {pattern.format(state) for state in states for pattern in ("p_{}", "prob_{}", "p{}", "{}")}
    for name in names:
        if name not in columns and name not in spelt:
            columns[name] = rng.integers(0, 3, n).tolist() if rng.random() < 0.5 else [f"v{i % 5}" for i in range(n)]


def arrow_of(rng: np.random.Generator, table: Table) -> tuple[pa.Table, str]:
    """The table in Arrow's types, any that hold what is in it; and which the states have."""
    arrays, kind = {}, ""
    for name, values in table.columns.items():
        array = _array(values)
        if name in (table.roles["stream"], table.roles["state"]):
            array = _retyped(rng, array, name == table.roles["stream"])
        if name == table.roles["state"]:
            kind = str(array.type)
        arrays[name] = array
    return pa.table(arrays), kind


def _array(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values}
    if len(kinds) > 1:  # of several kinds: as they read
        values = [str(value) for value in values]
    if isinstance(values[0], dt.datetime) and values[0].tzinfo is not None:
        zones = {value.utcoffset() for value in values}
        if len(zones) > 1:  # as pandas keeps them; Arrow has one zone a column
            return pa.array([value.isoformat() for value in values])
        return pa.array(values, pa.timestamp("us", str(values[0].tzinfo)))
    return pa.array(values)


def _retyped(rng: np.random.Generator, array: pa.Array, names: bool) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        choice = rng.random()
        if choice < 0.3:  # a dictionary, with values that never come
            coded = array.dictionary_encode()
            more = pa.array([*coded.dictionary.to_pylist(), *(["never"] if pa.types.is_string(kind) else [98])], kind)
            index = coded.indices.cast(pa.int8() if rng.random() < 0.5 else pa.int32())
            if rng.random() < 0.5 and len(more) > 1:  # and another order than that in which they come
                turn = list(range(len(more)))[::-1]
                index = pa.array([len(more) - 1 - i for i in index.to_pylist()], index.type)
                more = more.take(pa.array(turn))
            return pa.DictionaryArray.from_arrays(index, more)
        if choice < 0.5:
            return array.cast(pa.large_string() if pa.types.is_string(kind) else pa.int16())
    if pa.types.is_floating(kind) and rng.random() < 0.3:
        return array.cast(pa.float32())
    return array


def frame_of(rng: np.random.Generator, table: Table) -> tuple[Any, str]:
    """The same as a frame of pandas, polars or Arrow."""
    made, kind = arrow_of(rng, table)
    package = str(rng.choice(["pandas", "polars", "arrow"]))
    if package == "arrow":
        return made, f"arrow {kind}"
    if package == "polars":
        return pl.from_arrow(made), f"polars {kind}"
    frame, state, when = made.to_pandas(), table.roles["state"], table.roles["order"]
    values = table.columns[state]
    if {type(value) for value in values} == {bool} and rng.random() < 0.5:
        frame[state] = frame[state].astype(rng.choice(["boolean", "category"]))
    elif {type(value) for value in values} == {int} and rng.random() < 0.3 and "dictionary" not in kind:
        frame[state] = frame[state].astype("Int64")
    times = table.columns[when] if when else [0]
    if isinstance(times[0], dt.datetime) and times[0].tzinfo and len({time.utcoffset() for time in times}) > 1:
        frame[when] = pd.Series(times, dtype=object)
    frame.index = rng.permutation(len(frame))
    return frame, f"pandas {frame[state].dtype}"


# Files


def some_files(rng: np.random.Generator, table: Table, folder: Path, text: bool) -> tuple[Path, str]:
    """A log on the disk: one file, or a folder of several."""
    made, kind = arrow_of(rng, table)
    several = rng.random() < 0.3 or table.half
    suffix = "csv" if text else "parquet"
    writer = str(rng.choice(["arrow", "pandas", "polars", *(["python"] if text else [])]))
    if several:
        (folder / "log").mkdir()
        cuts = sorted({0, *rng.integers(1, made.num_rows, 2).tolist(), made.num_rows})
        pieces = [(folder / "log" / f"{i}.{suffix}", slice(*ends)) for i, ends in enumerate(itertools.pairwise(cuts))]
    else:
        pieces = [(folder / f"log.{suffix}", slice(0, made.num_rows))]
    for path, rows in pieces:
        piece = made.slice(rows.start, rows.stop - rows.start)
        if table.half and rows.start == 0:
            at = made.column_names.index(table.roles["order"])
            walls = [time.replace(tzinfo=None) for time in piece.column(at).to_pylist()]
            piece = piece.set_column(at, table.roles["order"], pa.array(walls, pa.timestamp("us")))
        _write(piece, table, rows, path, "arrow" if table.half else writer)
    return (folder / "log" if several else pieces[0][0]), f"{suffix} by {writer} {kind}" + (
        " folder" if several else ""
    )


def _write(made: pa.Table, table: Table, rows: slice, path: Path, writer: str) -> None:
    if path.suffix == ".parquet":
        if writer == "polars":
            pl.from_arrow(made).write_parquet(path)
        elif writer == "pandas":
            made.to_pandas().to_parquet(path)
        else:
            pa.parquet.write_table(made, path)
    elif writer == "python":
        with open(path, "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(table.columns)
            lines.writerows(list(zip(*table.columns.values(), strict=True))[rows])
    elif writer == "pandas":
        made.to_pandas().to_csv(path, index=False)
    elif writer == "polars":
        pl.from_arrow(made).write_csv(path)
    else:
        plain = {
            name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(made.column_names, made.columns, strict=True)
        }
        pa.csv.write_csv(pa.table(plain), path)


def cells_in(path: Path, column: str) -> list[str]:
    """What stands in a column of a CSV, or of a folder of them."""
    found = []
    for file in sorted(path.glob("*.csv")) if path.is_dir() else [path]:
        with open(file, newline="", encoding="utf-8") as lines:
            found += [row[column] for row in csv.DictReader(lines)]
    return found


def payoff_file(rng: np.random.Generator, world: World, folder: Path) -> tuple[Path, str, str]:
    """What is at stake in a file; how it was written, and whether that can be read in one way only."""
    states, actions, rows = world.state_names, world.action_names, world.payoffs_AxS.tolist()
    numbers, counted = [[as_number(name) is not None for name in names] for names in (states, actions)]
    with_states, with_actions = world.states is not None, world.actions is not None
    kind = str(rng.choice(["csv", "csv", "csv", "toml"]))
    if not with_states and not with_actions:
        kind = str(rng.choice(["csv", "npy"]))
    elif (all(numbers) or not with_states) and (all(counted) or not with_actions):
        kind = "toml"  # in a CSV all would be payoffs
    path = folder / f"payoffs.{kind}"
    if kind == "npy":
        np.save(path, world.payoffs_AxS)
        return path, kind, MUST
    if kind == "toml":
        text = [f"payoffs = {rows}"]
        for name, own in (("actions", world.actions), ("states", world.states)):
            text += [] if own is None else [f"{name} = [{', '.join(map(_toml, own))}]"]
        path.write_text("\n".join(text), encoding="utf-8")
        return path, kind, MUST
    corner, short = str(rng.choice(["", "euros", "None", "action"])), bool(rng.random() < 0.2)
    if with_actions and all(counted):
        corner = ""  # with a word there they would be one more column of payoffs, for all that one can see
    if all(numbers) and len(set(map(float, states))) < len(states):
        corner = ""  # nor can numbers that are the same be states: with a word there the line is an action's
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        if with_states:
            lines.writerow([corner, *states] if with_actions and not short else states)
        for action, row in zip(actions, rows, strict=True):
            lines.writerow([action, *row] if with_actions else row)
    # Names that are numbers may be taken for payoffs, unless an empty corner or a row of its own length says no; and
    # a first row of payoffs for a row of names.
    doubt = with_actions and (any(counted) or not with_states or (all(numbers) and corner != "" and not short))
    words = f"csv corner {'short' if short else repr(corner)}, states {'numbers' if all(numbers) else 'names'}"
    return path, words, MAY if doubt else MUST


def _toml(name: Any) -> str:
    if isinstance(name, bool):
        return str(name).lower()
    if isinstance(name, (int, float)):
        return repr(name)
    return str(name) if isinstance(name, dt.date) else '"' + str(name).replace("\\", "\\\\").replace('"', '\\"') + '"'
