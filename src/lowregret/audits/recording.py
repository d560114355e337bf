"""Recorded streams: forecasts, outcomes and what else was known, one stream after the other; side by side in blocks."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import first_true, to_numpy
from ..engine import Actions, Comparators, Inputs, References
from ..forecasts import Forecast
from ..problems import DecisionProblem, Payoff, Positions, a_problem, by_name

Read = Callable[[Any, str], Any]  # of values and what they are called

CELLS = 1 << 20  # steps in a block: few enough for memory, many enough to be worth a pass
_WIDEST = 1 << 12  # streams in a block: what they remember should stay in the cache
_SMALL = 1 << 13  # steps of a block whose streams may differ more: few streams take as long as one


class SideInformation(NamedTuple):
    """What was known before each outcome beside the model's forecast, an entry a row; None: nothing."""

    references: Any = None  # [R, Q, S] probabilities; of numbers, a tuple of Q forecasts of shape [R]
    context: np.ndarray | None = None  # [R] which of the contexts
    payoffs: np.ndarray | None = None  # [R, A, S] in the problem's units
    scale: np.ndarray | None = None  # [R] in (0, 1]


NOTHING = SideInformation()


class Block(NamedTuple):
    """Some streams side by side; after the end of one its last step is repeated as filler, which nothing reads."""

    index_N: np.ndarray  # which streams they are
    lengths_N: np.ndarray
    forecasts: Any  # probabilities [N, T, S], or forecasts of a number of shape [N, T]
    outcomes_NxT: np.ndarray  # states, or numbers
    side: SideInformation = NOTHING  # [N, T, ...]
    lags_NxT: np.ndarray | None = None  # after how many steps each outcome was known; None: the guard's lag says
    missing_NxT: np.ndarray | None = None  # which outcomes are missing; None: all are there

    @property
    def recorded_NxT(self) -> np.ndarray:
        """Which steps are no filler."""
        return np.arange(self.outcomes_NxT.shape[1]) < self.lengths_N[:, None]

    @property
    def there_NxT(self) -> np.ndarray:
        """Which steps are recorded, with their outcomes."""
        return self.recorded_NxT if self.missing_NxT is None else self.recorded_NxT & ~self.missing_NxT

    def known(self, problem: Any) -> Inputs:
        """All that was known of every step before its outcome."""
        references, context, payoffs, scale = self.side
        utility = None if payoffs is None else problem.utility_of(payoffs)
        return Inputs(self.forecasts, () if references is None else references, context, scale, utility)

    def part(self, rows: np.ndarray) -> "Block":
        """Some of its streams."""
        found: Block = _at(self, rows)
        return found


@dataclass(frozen=True, eq=False)
class Recording:
    """Streams one after the other, each in the order of its steps."""

    names: tuple[Any, ...]
    lengths_B: np.ndarray
    forecasts: Any  # [R, S] probabilities, or a Forecast of shape [R]
    outcomes_R: np.ndarray  # positions of states, or numbers; any value where missing
    side: SideInformation = NOTHING
    references: tuple[str, ...] = ()  # their names
    contexts: tuple[Any, ...] | None = None  # their names, in the order of their numbers
    missing_R: np.ndarray | None = None  # missing outcomes, inside a stream; None: all are there
    lags_R: np.ndarray | None = None  # after how many steps each outcome was known; None: the guard's lag says

    def __post_init__(self) -> None:
        if self.missing_R is None or not self.missing_R.any():
            object.__setattr__(self, "missing_R", None)
            return
        # Nothing depends on these values, but they must be possible ones.
        known = self.outcomes_R[~self.missing_R]
        possible = 0 if isinstance(self.forecasts, np.ndarray) else known[0] if len(known) else self.outcomes_R
        object.__setattr__(self, "outcomes_R", np.where(self.missing_R, possible, self.outcomes_R))

    @cached_property
    def start_B(self) -> np.ndarray:
        """The row with which each stream begins."""
        found: np.ndarray = np.cumsum(self.lengths_B) - self.lengths_B
        return found

    @property
    def n_steps(self) -> int:
        """Of all streams together."""
        return len(self.outcomes_R)

    @property
    def there_R(self) -> np.ndarray:
        """Which steps have an outcome."""
        return np.ones(self.n_steps, dtype=bool) if self.missing_R is None else ~self.missing_R

    @property
    def width(self) -> int:
        """How many numbers a forecast has: probabilities, quantiles or samples."""
        return int(getattr(self.forecasts, "values", self.forecasts).shape[-1])

    @property
    def longest(self) -> int:
        return int(self.lengths_B.max(initial=0))

    @property
    def latest(self) -> int:
        """After how many steps the latest outcome was known."""
        return 1 if self.lags_R is None else int(self.lags_R.max(initial=1))

    @property
    def against(self) -> Comparators:
        """Whom regret is then measured against."""
        actions = Actions(per=None if self.contexts is None else [str(name) for name in self.contexts])
        return actions + References(*self.references) if self.references else actions

    def stakes(self, problem: Any) -> Any:
        """The problem, with payoffs that change where the recording has those of each step."""
        return problem.changing() if self.side.payoffs is not None and not problem.is_changing else problem

    def place(self, stream: Any) -> int:
        """Where the stream of that name is."""
        if stream not in self.names:
            raise ValueError(f"stream must be the name of one of {len(self.names)} streams, got {inputs.shown(stream)}")
        return self.names.index(stream)

    def rows_of(self, index_B: Any) -> np.ndarray:
        """The rows of these streams, one stream after the other."""
        lengths_B, start_B = self.lengths_B[index_B], self.start_B[index_B]
        within = np.cumsum(lengths_B) - lengths_B  # where each begins among them
        found: np.ndarray = np.repeat(start_B - within, lengths_B) + np.arange(int(lengths_B.sum()))
        return found

    def part(self, index_B: Any) -> "Recording":
        """Some of the streams."""
        index_B = np.asarray(index_B, dtype=np.int64)
        names, rows_R = tuple(self.names[i] for i in index_B.tolist()), self.rows_of(index_B)
        by_row = ("forecasts", "outcomes_R", "side", "missing_R", "lags_R")
        each = {name: _at(getattr(self, name), rows_R) for name in by_row}
        return replace(self, names=names, lengths_B=self.lengths_B[index_B], **each)

    def blocks(self, cells: int = CELLS, slack: float = 1.25, index_B: np.ndarray | None = None) -> Iterator[Block]:
        """All streams, or these, those of about the same length side by side, about ``cells`` steps to a block.

        ``slack``: how much longer the longest stream of a block may be than the shortest.
        """
        index_B = np.arange(len(self.names)) if index_B is None else index_B
        order_B, begin = index_B[np.argsort(self.lengths_B[index_B], kind="stable")], 0
        while begin < len(order_B):
            lengths_N = self.lengths_B[order_B[begin : begin + _WIDEST]]
            steps_N = lengths_N * np.arange(1, len(lengths_N) + 1)  # of a block that ends here
            full_N = (steps_N > cells) | ((lengths_N > slack * lengths_N[0]) & (steps_N > _SMALL))
            full_N[0] = False
            end = begin + int(first_true(full_N))
            yield self._block(order_B[begin:end])
            begin = end

    def _block(self, index_N: np.ndarray) -> Block:
        lengths_N = self.lengths_B[index_N]
        step_NxT = np.minimum(np.arange(lengths_N.max()), lengths_N[:, None] - 1)
        each = self.forecasts, self.outcomes_R, self.side, self.lags_R, self.missing_R
        return Block(index_N, lengths_N, *_at(each, self.start_B[index_N][:, None] + step_NxT))


def _at(part: Any, index: Any) -> Any:
    """Some rows of an array, of a forecast, or of each of several; of nothing, nothing."""
    if part is None:
        return None
    if isinstance(part, tuple):
        each = [_at(one, index) for one in part]
        return type(part)(*each) if hasattr(part, "_fields") else tuple(each)
    return part.at(index) if isinstance(part, Forecast) else part[index]


# A recording in arrays: what is refused is named with its stream and its step.


def recording_of(
    problem: DecisionProblem | Payoff,
    forecasts: Any,
    outcomes: Any,
    names: Any = None,
    references: Any = None,
    contexts: Any = None,
    payoffs: Any = None,
    scale: Any = None,
) -> Recording:
    """One stream ``[T, S]`` and ``[T]``, several ``[B, T, S]`` and ``[B, T]``, or lists of streams of any lengths.

    Forecasts of a number are of shape ``[T]`` or ``[B, T]``, or a list of them; all else is laid out as ``outcomes``.
    """
    named = isinstance(references, Mapping) and references and all(isinstance(name, str) for name in references)
    if references is not None and not named:
        raise ValueError(f"references must be a dict of forecasts by name, got {inputs.shown(references)}")
    theirs = {f"references[{name!r}]": value for name, value in (references or {}).items()}
    given = outcomes.at if isinstance(outcomes, Positions) else outcomes
    layout, amounts_R = _layout_of(given, names), None
    if isinstance(problem, Payoff):
        if payoffs is not None:
            raise ValueError(
                "payoffs of each step are functions where outcomes are numbers: a Guard takes them, "
                "advise(payoffs=...), and a backtest how much of the problem's counts, scale=..."
            )
        outcomes_R = layout.rows(given, "outcomes", problem.outcomes_of)
        stated: Any = layout.numbers(forecasts, problem, "forecasts")
        each: Any = tuple(layout.numbers(value, problem, what) for what, value in theirs.items())
    else:
        state_names, shape = a_problem(problem).state_names, problem.utility.shape

        def positions(values: Any, what: str) -> np.ndarray:
            values = values if given is outcomes else Positions(values)
            return to_numpy(state_names.positions(values, what)).astype(np.int64)

        def probs(values: Any, what: str) -> np.ndarray:
            return to_numpy(inputs.probs_of(values, shape[1], what)).astype(np.float64)

        def in_order(values: Any, what: str) -> np.ndarray:
            return to_numpy(inputs.array_of(by_name(state_names, values, what), what))

        def amounts(values: Any, what: str) -> np.ndarray:
            found = inputs.numbers_of(values, what, "numbers")
            if found.size and found.shape[-2:] != shape:
                raise ValueError(f"{what} must be {shape[0]} x {shape[1]} per step, got shape {found.shape}")
            try:
                problem.utility_of(found)
            except ValueError as error:
                raise ValueError(str(error).replace("payoffs", what, 1)) from None
            return found

        outcomes_R = layout.rows(given, "outcomes", positions)
        stated = layout.rows(forecasts, "forecasts", probs, 2, in_order)
        each = [layout.rows(value, what, probs, 2, in_order) for what, value in theirs.items()]
        each = np.stack(each, axis=1) if each else ()
        amounts_R = None if payoffs is None else layout.rows(payoffs, "payoffs", amounts, 3)
    labels, context_R = (None, None) if contexts is None else layout.rows(contexts, "contexts", _labelled)
    scale_R = None if scale is None else layout.rows(scale, "scale", _shares)
    side = SideInformation(each if len(each) else None, context_R, amounts_R, scale_R)
    return Recording(layout.names, layout.lengths_B, stated, outcomes_R, side, tuple(references or ()), labels)


def _shares(values: Any, what: str) -> np.ndarray:
    found = inputs.numbers_of(values, what, "numbers")
    if not ((found > 0) & (found <= 1)).all():
        raise ValueError(f"{what} must be one number per step, above 0 and at most 1, got {inputs.shown(values)}")
    return found


def _labelled(values: Any, what: str) -> tuple[tuple[Any, ...], np.ndarray]:
    """The different values, in order where they have one, and which of them each row has."""
    listed = values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    try:
        labels = list(dict.fromkeys(listed))
    except TypeError as error:
        raise ValueError(f"{what} must be names or numbers, one per step, got {inputs.shown(values)}") from error
    if any(value is None or value != value for value in labels):
        raise ValueError(f"{what} must be given for every step, and one is missing")
    with suppress(TypeError):  # of several kinds: in the order in which they are found
        labels = sorted(labels)
    place = {value: i for i, value in enumerate(labels)}
    return tuple(labels), np.array([place[one] for one in listed], dtype=np.int64)


def _as_given(values: Any, what: str) -> Any:
    """Lists as they are, since NumPy would make 1 of True; all else as an array."""
    return values if isinstance(values, (list, tuple)) else to_numpy(inputs.array_of(values, what))


def _length(values: Any) -> int:
    return len(values) if isinstance(values, (list, tuple)) or values.ndim else 0


class _Layout(NamedTuple):
    """How outcomes are laid out: whatever goes with them is laid out in the same way."""

    names: tuple[Any, ...]
    lengths_B: np.ndarray
    is_alone: bool  # one stream, without an axis of streams

    def rows(self, values: Any, what: str, check: Read, axes: int = 1, read: Read = _as_given) -> Any:
        """``check(values, what)`` of all streams one after the other, each of which ``read`` makes a list or an array.

        What is refused of all is asked of each stream, and of each of its steps: the first that is wrong is named.
        """
        parts = [values] if self.is_alone else values if isinstance(values, (list, tuple)) else read(values, what)
        if len(self.names) != _length(parts):
            raise self._not_as_long(values, what)
        each = [read(part, self.called(what, i)) for i, part in enumerate(parts)]
        if (lengths := [_length(part) for part in each]) != self.lengths_B.tolist():
            raise self._not_as_long((lengths[0] or values) if self.is_alone else values, what)
        are_arrays = all(isinstance(part, np.ndarray) for part in each)
        try:
            found = check(np.concatenate(each) if are_arrays else list(itertools.chain.from_iterable(each)), what)
        except ValueError:
            for i, part in enumerate(each):
                for t, one in enumerate(part):
                    check(one, f"{self.called(what, i)} at step {t + 1}")
            raise
        if getattr(found, "ndim", axes) != axes:
            raise ValueError(f"{what} must be {_SHAPES[axes]} for each stream, got shape {found.shape} over all")
        return found

    def numbers(self, values: Any, problem: Payoff, what: str) -> Forecast:
        """Forecasts of numbers, one for each outcome, all of one form."""
        given = list(values) if isinstance(values, (list, tuple)) else [values]
        if not given or not all(isinstance(one, Forecast) for one in given):
            raise ValueError(
                f"{what} must be of numbers where the problem is a Payoff: Quantiles or Samples of shape [T] or [B, T],"
                f" a list of them, or a frame; got {inputs.shown(values)}"
            )
        shapes, shape = [one.batch_shape for one in given], given[0].batch_shape
        if len(given) == 1 and len(shape) == 2 and not self.is_alone:
            shapes = [shape[1:]] * shape[0]
            given = [given[0].at(np.unravel_index(np.arange(shape[0] * shape[1]), shape))]
        if shapes != [(T,) for T in self.lengths_B.tolist()]:
            raise self._not_as_long(values, what)
        if any(one.form != given[0].form for one in given):
            raise ValueError(f"{what} must be of one form: Quantiles at the same levels, or as many Samples everywhere")
        own = [part.name for part in fields(given[0]) if part.name not in given[0].shared]
        parts = {name: np.concatenate([getattr(one, name) for one in given]) for name in own}
        found: Forecast = replace(given[0], **parts)
        found.refuse_misfit(problem)
        return found

    def called(self, what: str, i: int) -> str:
        return what if self.is_alone else f"{what} of stream {inputs.shown(self.names[i])}"

    def _not_as_long(self, values: Any, what: str) -> ValueError:
        wanted = f"{self.lengths_B[0]} steps" if self.is_alone else f"{len(self.names)} streams"
        return ValueError(f"{what} must be as long as outcomes, {wanted}, got {inputs.shown(values)}")


_SHAPES = {1: "[T]", 2: "[T, S]", 3: "[T, A, S]"}


def _layout_of(outcomes: Any, names: Any) -> _Layout:
    parts, is_alone = _as_given(outcomes, "outcomes"), False
    if not _length(parts) or not (isinstance(parts[0], (list, tuple)) or getattr(parts[0], "ndim", False)):
        parts, is_alone = [parts], True
    lengths_B = np.array([_length(_as_given(part, "outcomes")) for part in parts])
    names = range(len(lengths_B)) if names is None else names
    called = tuple(names.tolist() if isinstance(names, np.ndarray) else names)
    if not len(called) == len(set(called)) == len(lengths_B):
        raise ValueError(f"names must be {len(lengths_B)} different ones, one per stream, got {inputs.shown(names)}")
    layout = _Layout(called, lengths_B, is_alone)
    if not lengths_B.all():
        i = int(lengths_B.argmin())
        raise ValueError(f"{layout.called('outcomes', i)} must have at least one step, got {inputs.shown(parts[i])}")
    return layout
