"""Recorded streams of any lengths, laid side by side in blocks of about the same length."""

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..engine import Said
from ..forecasts import Forecast
from ..problems import DecisionProblem, Payoff, Positions, by_name
from .known import NOTHING, Tells, Told, beside, in_stream, located, of_stream, part_of

CELLS = 1 << 20  # steps in a block: few enough for memory, many enough to be worth a pass
_WIDEST = 1 << 12  # streams in a block: what they remember should stay in the cache
_SLACK = 1.25  # how much longer the longest stream of a block may be than the shortest
_SMALL = 1 << 13  # steps of a block in which it may be longer: a step costs about as much with few streams as with one


class Block(NamedTuple):
    """Some streams side by side; what comes after the end of one is filler, which nothing reads."""

    index_N: np.ndarray  # which streams they are
    lengths_N: np.ndarray
    forecasts: Any  # laws [N, T, S], or forecasts of a number of shape [N, T]
    came_NxT: np.ndarray  # states, or numbers
    told: Told | None = None  # [N, T, ...]
    lags_NxT: np.ndarray | None = None  # after how many steps each outcome was known; None: the guard's lag says

    @property
    def there_NxT(self) -> np.ndarray:
        """Which steps are recorded ones."""
        return np.arange(self.came_NxT.shape[1]) < self.lengths_N[:, None]

    def said(self, problem: Any) -> Said:
        """All that was known of every step before its outcome."""
        laws, context, payoffs, scale = self.told or Told()
        utility = None if payoffs is None else problem.utility_of(payoffs)
        return Said(self.forecasts, () if laws is None else laws, context, scale, utility)

    def rows(self, rows: np.ndarray) -> "Block":
        """Some of the streams."""
        told = None if self.told is None else self.told.part(rows)
        lags_NxT = None if self.lags_NxT is None else self.lags_NxT[rows]
        forecasts = part_of(self.forecasts, rows)
        return Block(self.index_N[rows], self.lengths_N[rows], forecasts, self.came_NxT[rows], told, lags_NxT)


def utilities(problem: Any, came: np.ndarray, told: Told | None) -> np.ndarray:
    """What each action was paid for what came ``[...]``: ``[A, ...]``."""
    if isinstance(problem, Payoff):
        paid: np.ndarray = problem.paid(came)
    elif told is None or told.payoffs is None:
        paid = problem.utility[:, came]
    else:
        own = np.take_along_axis(told.payoffs, came[..., None, None], axis=-1)[..., 0]
        paid = np.moveaxis(problem.utility_of(own), -1, 0)
    return paid if told is None or told.scale is None else paid * told.scale


class Source(NamedTuple):
    """The frame that streams come from, the columns that name its rows, and which was read as what."""

    frame: Any
    columns: tuple[str, ...]
    about: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Streams:
    """What was forecast and what came, stream by stream."""

    names: tuple[Any, ...]
    forecasts: Sequence[Any]  # laws [T, S] each, or forecasts of a number of shape [T]
    states: Sequence[np.ndarray]  # [T] each; or the numbers
    rows: Sequence[np.ndarray] | None = None  # [T] each: which rows of the frame they are
    source: Source | None = None
    told: Sequence[Told] | None = None  # what else was known before each state
    tells: Tells = NOTHING
    notes: tuple[str, ...] = ()  # what a reader of the answer should know of it
    lags: Sequence[np.ndarray] | None = None  # [T] each: after how many steps each outcome was known; None: not said

    @property
    def lengths_B(self) -> np.ndarray:
        return np.array([len(states) for states in self.states], dtype=np.int64)

    @property
    def longest(self) -> int:
        return int(self.lengths_B.max())

    @property
    def latest(self) -> int:
        """After how many steps the latest outcome was known."""
        return max((int(lags_T.max()) for lags_T in self.lags or ()), default=1)

    def place(self, stream: Any) -> int:
        """Where the stream of that name is."""
        for i, name in enumerate(self.names):
            if isinstance(stream, (str, numbers.Real, tuple, type(name))) and bool(stream == name):
                return i
        raise ValueError(f"stream must be the name of one of {len(self.names)} streams, got {inputs.shown(stream)}")

    def utility(self, problem: Any, i: int) -> np.ndarray:
        """What each action was paid in a stream, ``[A, T]``."""
        return utilities(problem, self.states[i], None if self.told is None else self.told[i])

    def sure(self, problem: Any, i: int) -> Any:
        """What utility 0 is in payoffs: a number, or ``[T]`` where steps count more or less."""
        shift = float(problem.in_payoffs(0.0))
        scale = None if self.told is None else self.told[i].scale
        return shift if scale is None else shift * scale

    def best_T(self, problem: Any, i: int) -> np.ndarray:
        """What the best action of each prefix earned in it, ``[T]``; with contexts, the best for each of them."""
        utility_AxT = self.utility(problem, i)
        context = None if self.told is None else self.told[i].context
        if context is None:
            return np.cumsum(utility_AxT, axis=1).max(axis=0)
        own = [np.cumsum(utility_AxT * (context == c), axis=1).max(axis=0) for c in np.unique(context)]
        return np.sum(own, axis=0)

    def some(self, index: Sequence[int]) -> "Streams":
        """The streams at these places, without their rows."""
        names, forecasts, states = ([part[i] for i in index] for part in (self.names, self.forecasts, self.states))
        told: Any = None if self.told is None else [self.told[i] for i in index]
        lags = None if self.lags is None else [self.lags[i] for i in index]
        return Streams(tuple(names), forecasts, states, told=told, tells=self.tells, lags=lags)

    def blocks(self, cells: int = CELLS) -> Iterator[Block]:
        """All streams, those of one form and about the same length together, of about ``cells`` steps in all."""
        lengths_B, forms = self.lengths_B, dict[Any, list[int]]()
        for i in np.argsort(lengths_B, kind="stable").tolist():
            own, told = self.forecasts[i], None if self.told is None else self.told[i]
            form = own.form if isinstance(own, Forecast) else (), () if told is None else told.forms
            forms.setdefault(form, []).append(i)
        for alike in forms.values():
            some: list[int] = []
            for i in alike:
                whole = lengths_B[i] * (len(some) + 1)
                uneven = some and lengths_B[i] > _SLACK * lengths_B[some[0]] and whole > _SMALL
                if some and (uneven or whole > cells or len(some) == _WIDEST):
                    yield self._block(some, lengths_B[some])
                    some = []
                some.append(i)
            yield self._block(some, lengths_B[some])

    def _block(self, some: list[int], lengths_N: np.ndarray) -> Block:
        places = [np.minimum(np.arange(lengths_N.max()), T - 1) for T in lengths_N]  # at the end the last step again

        def together(parts: Sequence[Any] | None) -> Any:
            return None if parts is None else beside([parts[i] for i in some], places)

        both = together(self.forecasts), together(self.states)
        return Block(np.array(some), lengths_N, *both, together(self.told), together(self.lags))


def streams_of(problem: DecisionProblem, probs: Any, states: Any, names: Any = None) -> Streams:
    """One stream ``[T, S]``, several ``[B, T, S]``, or a list of streams of any lengths: checked."""
    S, placed = problem.n_states, isinstance(states, Positions)
    states = states.at if placed else states
    if isinstance(states, (list, tuple)) and states and _is_stream(states[0]):
        if not isinstance(probs, (list, tuple)) and getattr(probs, "ndim", 0) != 3:
            raise ValueError(f"forecasts must be {len(states)} streams, as outcomes are, got {inputs.shown(probs)}")
        if len(probs) != len(states):
            raise ValueError(f"forecasts must be {len(states)} streams, as outcomes are, got {len(probs)} of them")
        listed = names_of(names, len(states))
        pairs = [
            _one(p, Positions(s) if placed else s, problem, name)
            for p, s, name in zip(probs, states, listed, strict=True)
        ]
    else:

        def called(n: int) -> tuple[Any, ...]:
            return names_of(names, n)

        def positions(given: Any, of: str) -> Any:
            return problem.state_names.positions(Positions(given) if placed else given, of)

        tokens = to_numpy(located(positions, states, "outcomes", 1, called))
        inputs.sequences_of(tokens, S, "outcomes")
        if tokens.ndim > 2:
            raise ValueError(f"outcomes must be one stream [T] or several [B, T], got shape {tokens.shape}")
        said = by_name(problem.state_names, probs)
        laws = located(lambda given, of: inputs.probs_of(given, S, of), said, "forecasts", 2, called)
        if tuple(laws.shape[:-1]) != tuple(tokens.shape):
            raise ValueError(
                f"forecasts and outcomes must be as long, got shapes {tuple(laws.shape)} and {tuple(tokens.shape)}"
            )
        laws = to_numpy(laws)
        if tokens.ndim == 1:
            laws, tokens = laws[None], tokens[None]
        pairs = list(zip(laws, tokens, strict=True))
    if not pairs:
        raise ValueError("outcomes must have at least one stream, got none")
    laws, came = zip(*pairs, strict=True)
    wide = [law.astype(np.float64) for law in laws]  # a copy: the caller may fill the same arrays again
    return Streams(names_of(names, len(pairs)), wide, [states.astype(np.int64) for states in came])


def _is_stream(states: Any) -> bool:
    """Whether that is a whole sequence of states, not a single one."""
    return isinstance(states, (list, tuple)) or getattr(states, "ndim", 0) > 0


def names_of(names: Any, n: int) -> tuple[Any, ...]:
    if names is None:
        return tuple(range(n))
    try:
        listed = tuple(names.tolist() if isinstance(names, np.ndarray) else names)
        if len(listed) == len(set(listed)) == n and all(bool(name == name) for name in listed):  # NaN is not
            return listed
    except TypeError:  # not a list, or what it holds cannot be told apart
        pass
    raise ValueError(f"names must be {n} different ones, one per stream, got {inputs.shown(names)}")


def _one(probs: Any, states: Any, problem: DecisionProblem, name: Any) -> tuple[np.ndarray, np.ndarray]:
    came, said, S = of_stream("outcomes", name), of_stream("forecasts", name), problem.n_states
    placed, given = isinstance(states, Positions), states.at if isinstance(states, Positions) else states

    def positions(part: Any, of: str) -> Any:
        return problem.state_names.positions(Positions(part) if placed else part, of)

    tokens = to_numpy(in_stream(positions, given, came))
    if inputs.sequences_of(tokens, S, came).ndim != 1:
        raise ValueError(f"{came} must be one sequence, got shape {tokens.shape}")
    probs = by_name(problem.state_names, probs, said)
    laws = in_stream(lambda part, of: inputs.probs_of(part, S, of), probs, said)
    return to_numpy(inputs.probs_of(laws, S, said, shape=tuple(tokens.shape))), tokens
