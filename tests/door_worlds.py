"""What the fuzzer of the doors draws: names, what is written for a state, times, streams, columns, tables and files.

``meant`` is the rule by which anything that is written stands for a state: by name; a number is a position only where
states have no names of their own. It says which state, and whether that is beyond doubt: what is not may be refused.
"""

import csv
import datetime as dt
import itertools
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

MUST, MAY, REFUSE = "must answer", "may refuse", "must refuse"
STREAMS = ("unique_id", "series", "stream", "series_id", "item_id")
ORDERS = ("step", "ds", "time", "timestamp", "date", "t")
STATES = ("state", "y", "outcome", "actual", "target")
LISTS = ("probs", "probabilities", "p")
USUAL = {*STREAMS, *ORDERS, *STATES, *LISTS, "id"}
LIBRARY = (
    *("step", "stream", "model", "guard", "context", "payoff", "payoffs", "actual", "None", "nan", "none", "null"),
    *(
        "fallback",
        "Hedge",
        "best fixed action",
        "state",
        "states",
        "id",
        "y",
        "t",
        "p",
        "probs",
        "date",
        "inf",
        "scale",
    ),
)
UNICODE = ("é", "e\u0301", "日本", "naïve", "İ", "ﬁ", "🙂", "ß", "SS", "a b", "x=y", "Ω", "٣", "№ 1", "<b>", "'q'", "&")
ODD = (
    "when",
    "came",
    "Größe",
    "the day",
    "None",
    "nan",
    "7",
    "model",
    "guard",
    "payoff",
    "context",
    "True",
    "日本",
    "x.y",
)
WORDS = ("dry", "wet", "fog", "up", "down", "flat", "calm", "storm", "Up", "UP")
ZONES = [ZoneInfo(name) for name in ("Asia/Tokyo", "America/Phoenix", "Asia/Kolkata", "UTC")]  # clocks never change


# Names, and what is written for them


def some_names(rng: np.random.Generator, n: int) -> list[Any] | None:
    """Names of states or actions as a user holds them; None where there are none."""

    def of(pool: Any) -> list[Any]:
        return [pool[i] for i in rng.permutation(len(pool))[:n]]

    first = dt.date(2026, 1, int(rng.integers(1, 20)))
    kinds: list[Any] = [
        lambda: None,
        lambda: of(WORDS),
        lambda: of(LIBRARY),
        lambda: of(UNICODE),
        lambda: of(range(n)),
        lambda: of([str(i) for i in range(n)]),
        lambda: of([0, 1, 2, 3, 10, -1]),
        lambda: of(["0", "1", "2", "10", "-1", "2.5"]),
        lambda: of([0.0, 1.0, 0.5, 2.0, -1.5]),
        lambda: of([first + dt.timedelta(days=i) for i in range(n)]),
        lambda: of([*WORDS, *LIBRARY, *UNICODE, "1", "0", "True", "2026-01-01"]),
        lambda: _twice(rng, of(WORDS)) if rng.random() < 0.3 else of(WORDS),
    ]
    if n == 2:
        truths: list[Any] = [[True, False], ["True", "False"], ["yes", "no"], ["true", "false"], ["TRUE", "FALSE"]]
        kinds += [lambda: of(truths[rng.integers(len(truths))])] * 4
    return kinds[rng.integers(len(kinds))]()


def _twice(rng: np.random.Generator, names: list[Any]) -> list[Any]:
    """One name twice, perhaps as something else that reads alike."""
    pair = [(names[0], names[0]), (1, "1"), (True, "True"), (0.5, "0.5")][rng.integers(4)]
    return [*names[2:], *pair]


def texts(names: list[Any] | None, n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n) if names is None else names))


def some_outcomes(rng: np.random.Generator, names: list[Any] | None, n: int) -> list[Any]:
    """What is written for each state, in any way that a user might."""
    own = list(range(n)) if names is None else list(names)
    kind = rng.choice(["own", "text", "position", "number", "truth"], p=[0.5, 0.2, 0.12, 0.1, 0.08])
    if kind == "text":
        return [str(name) for name in own]
    if kind == "position":
        return list(range(n))
    if kind == "number":
        whole = [value for value in map(_number, own) if value is not None]
        return whole if len(whole) == n else [float(i) for i in range(n)]
    if kind == "truth" and n == 2:
        return [False, True]
    return own


def _number(value: Any) -> float | None:
    """The number that it is, or is written as; None for all else, truths among it."""
    try:
        found = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return found if found is not None and np.isfinite(found) else None


def named(states: tuple[str, ...]) -> bool:
    """Whether they have names of their own."""
    return states != tuple(map(str, range(len(states))))


TRUE, FALSE = ("true", "yes"), ("false", "no")


def meant(states: tuple[str, ...], value: Any) -> tuple[int | None, bool]:
    """Which state is meant, None for none, and whether that is beyond doubt."""
    spelt = {str(value)}
    if isinstance(value, float) and value.is_integer():
        spelt |= {str(int(value))}
    exact = [i for i, state in enumerate(states) if state in spelt]
    if exact:
        own = states.index(str(value)) if str(value) in states else exact[0]
        return own, len(exact) == 1
    truth, number = str(value).casefold(), _number(value)
    if truth in (*TRUE, *FALSE):
        alike = TRUE if truth in TRUE else FALSE
        found = [i for i, state in enumerate(states) if state.casefold() in alike]
        if len(found) == 1:
            return found[0], False
        number = float(truth in TRUE) if truth in ("true", "false") else None
    if number is None:
        if isinstance(value, str) and len(value) == 19 and value.endswith(" 00:00:00"):  # midnight, for a day
            return (states.index(value[:10]) if value[:10] in states else None), False
        return None, True
    by_number = [i for i, state in enumerate(states) if _number(state) == number]
    if by_number:
        return (by_number[0] if len(by_number) == 1 else None), False
    if not number.is_integer() or not 0 <= number < len(states):
        return None, True
    if not named(states):  # a position; written in another way, perhaps
        return int(number), type(value) is int
    words = all(_number(state) is None and state.casefold() not in (*TRUE, *FALSE) for state in states)
    return (int(number) if words and truth not in (*TRUE, *FALSE) else None), False


def meant_of(states: tuple[str, ...], values: list[Any]) -> tuple[list[int] | None, str]:
    """The states of all that is written, and what a door must do with them."""
    found = [meant(states, value) for value in values]
    if any(state is None for state, _ in found):
        return None, REFUSE
    return [state for state, _ in found if state is not None], MUST if all(sure for _, sure in found) else MAY


def strictest(*each: str) -> str:
    """What a door must do where several things are said of it."""
    return REFUSE if REFUSE in each else MAY if MAY in each else MUST


def different(names: tuple[str, ...]) -> str:
    """What must be done about names: none may be there twice; whether two are one may be a matter of taste."""
    if len(set(names)) < len(names):
        return REFUSE
    same = {_number(name) if _number(name) is not None else unicodedata.normalize("NFC", name) for name in names}
    return MUST if len(same) == len(names) else MAY


# A world: what is at stake, what the model said and what came


class Stream(NamedTuple):
    name: Any
    written: list[int]  # [T], which of the values was written
    came: list[int]  # [T], which state that is
    laws_TxS: np.ndarray


class World(NamedTuple):
    payoffs_AxS: np.ndarray
    actions: list[Any] | None
    states: list[Any] | None
    values: list[Any]  # what is written for each state
    streams: list[Stream]
    names: str  # what must be done about the names
    read: str  # and about what is written

    @property
    def expected(self) -> str:
        return strictest(self.names, self.read)

    @property
    def state_names(self) -> tuple[str, ...]:
        return texts(self.states, self.payoffs_AxS.shape[1])

    @property
    def action_names(self) -> tuple[str, ...]:
        return texts(self.actions, len(self.payoffs_AxS))


def some_world(rng: np.random.Generator, most_streams: int = 3, most: int = 30, reading: Any = None) -> World:
    """``reading(states, values)``: how a door reads what is written, ``meant_of`` by default."""
    A, S = int(rng.choice([2, 3], p=[0.85, 0.15])), int(rng.choice([2, 3], p=[0.7, 0.3]))
    payoffs_AxS = rng.normal(0, 1, (A, S)) + 2.5 * np.eye(A, S)
    payoffs_AxS = np.round(payoffs_AxS * rng.choice([1, 30]) + rng.choice([0, 7]), 4)
    states, actions = some_names(rng, S), some_names(rng, A)
    values = some_outcomes(rng, states, S)
    B, read = int(rng.choice([1, 1, 2, 3])), MUST
    B = min(B, most_streams)
    names, streams = stream_names(rng, B), []
    for name in names:
        T = int(rng.integers(16, most + 1))
        written = rng.integers(0, S, T).tolist()
        written[:S] = range(S)  # each is there, so that what is expected does not depend on luck
        came, told = (reading or meant_of)(texts(states, S), [values[i] for i in written])
        read = strictest(read, told)
        streams.append(Stream(name, written, written if came is None else came, np.empty(0)))
    streams = [with_laws(rng, one, S) for one in streams]
    told = strictest(different(texts(actions, A)), different(texts(states, S)))
    return World(payoffs_AxS, actions, states, values, streams, told, read)


def with_laws(rng: np.random.Generator, stream: Stream, S: int) -> Stream:
    """What a model says that is mostly right, and from somewhere on, often, mostly wrong."""
    came = np.array(stream.came)
    T = len(came)
    turn = int(rng.integers(0, T // 2)) if rng.random() < 0.7 else T
    right_T = (rng.random(T) < 0.85) == (np.arange(T) < turn)
    guess_T = np.where(right_T, came, (came + 1) % S)
    laws_TxS = 0.75 * np.eye(S)[guess_T] + 0.25 * rng.dirichlet(np.ones(S), T)
    return stream._replace(laws_TxS=laws_TxS / laws_TxS.sum(axis=1, keepdims=True))


def stream_names(rng: np.random.Generator, n: int) -> list[Any]:
    day = dt.date(2025, 3, 1)
    pools: list[Any] = [
        ["Aa", "Bee", "Cee", "dé", "日本", "None", "nan", "step"],
        [7, 8, 9, 10, 0, 1],
        [1.0, 2.0, 0.5],
        ["007", "7", "1.0", "1"],
        [day + dt.timedelta(days=i) for i in range(3)],
    ]
    pool = pools[rng.integers(len(pools))]
    return [pool[i] for i in rng.permutation(len(pool))[:n]]


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
    kind = str(rng.choice(["csv", "csv", "csv", "toml"]))
    if world.states is None and world.actions is None and rng.random() < 0.5:
        np.save(folder / "payoffs.npy", world.payoffs_AxS)
        return folder / "payoffs.npy", "npy", MUST
    path = folder / f"payoffs.{kind}"
    if kind == "toml":
        lines = [f"payoffs = {rows}"]
        for name, own in (("actions", world.actions), ("states", world.states)):
            if own is not None:
                lines.append(f"{name} = [{', '.join(map(_toml, own))}]")
        path.write_text("\n".join(lines), encoding="utf-8")
        return path, kind, MUST
    numbers = [_number(state) is not None for state in states], [_number(action) is not None for action in actions]
    corner = str(rng.choice(["", "euros", "None", "action"]))
    short = rng.random() < 0.2
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        if world.states is not None:
            lines.writerow(states if short or world.actions is None else [corner, *states])
        for action, row in zip(actions, rows, strict=True):
            lines.writerow(row if world.actions is None else [action, *row])
    # Names that are numbers can be taken for payoffs, unless an empty corner or a row of its own length says no.
    clear = world.actions is not None and (short or corner == "")
    doubt = (world.states is not None and all(numbers[0]) and not clear) or (
        world.actions is not None and any(numbers[1])
    )
    doubt |= world.states is None and world.actions is not None
    shape = "short" if short else repr(corner)
    return path, f"csv corner {shape}, states {'numbers' if all(numbers[0]) else 'names'}", MAY if doubt else MUST


def _toml(name: Any) -> str:
    if isinstance(name, bool):
        return str(name).lower()
    if isinstance(name, (int, float)):
        return repr(name)
    return str(name) if isinstance(name, dt.date) else '"' + str(name).replace("\\", "\\\\").replace('"', '\\"') + '"'
