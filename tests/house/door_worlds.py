"""Worlds for the fuzzer of the doors: names of states and actions, what is written for a state, laws and outcomes.

``meant`` is the rule by which anything that is written stands for a state: by name; a number is a position only where
states have no names of their own. It says which state, and whether that is beyond doubt: what is not may be refused.
"""

import datetime as dt
import unicodedata
from typing import Any, NamedTuple

import numpy as np

MUST, MAY, REFUSE = "must answer", "may refuse", "must refuse"
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
WORDS = ("dry", "wet", "fog", "up", "down", "flat", "calm", "storm", "Up", "UP")


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
        whole = [value for value in map(as_number, own) if value is not None]
        return whole if len(whole) == n else [float(i) for i in range(n)]
    if kind == "truth" and n == 2:
        return [False, True]
    return own


def as_number(value: Any) -> float | None:
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
    truth, number = str(value).casefold(), as_number(value)
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
    by_number = [i for i, state in enumerate(states) if as_number(state) == number]
    if by_number:
        return (by_number[0] if len(by_number) == 1 else None), False
    if not number.is_integer() or not 0 <= number < len(states):
        return None, True
    if not named(states):  # a position; written in another way, perhaps
        return int(number), type(value) is int
    words = all(as_number(state) is None and state.casefold() not in (*TRUE, *FALSE) for state in states)
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
    same = {as_number(name) if as_number(name) is not None else unicodedata.normalize("NFC", name) for name in names}
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
