"""What a recording may hold beside laws and states: incumbents' laws, contexts, the payoffs of each step."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..engine import Actions, Comparators, References
from ..forecasts import Forecast, side_by_side
from ..problems import DecisionProblem, Payoff, Positions, by_name
from .cells import Refused
from .times import Steps, order_in

GIVEN = ("references", "contexts", "payoffs", "scale")  # as arguments of a backtest


class Tells(NamedTuple):
    """What kinds of such things there are, over all streams."""

    references: tuple[str, ...] = ()  # the names of the incumbents
    contexts: tuple[Any, ...] | None = None  # the names of the contexts, in the order of their numbers
    payoffs: str | None = None  # "change": those of each step; "scaled": how much of the problem's

    @property
    def against(self) -> Comparators:
        """Whom regret is then measured against."""
        actions = Actions(per=None if self.contexts is None else [str(name) for name in self.contexts])
        return actions + References(*self.references) if self.references else actions

    def stakes(self, problem: Any) -> Any:
        """The problem with what is then at stake."""
        return problem.changing() if self.payoffs == "change" and not problem.is_changing else problem

    def players(self) -> tuple[str, ...]:
        """The incumbents as those who are paid."""
        return tuple(f"reference {name}" for name in self.references)


NOTHING = Tells()


class Told(NamedTuple):
    """What was known before each state of a stream, with axes of time first, or of streams and time; None: nothing."""

    laws: Any = None  # [T, N, S], of the references; of numbers, a forecast for each
    context: np.ndarray | None = None  # [T]
    payoffs: np.ndarray | None = None  # [T, A, S], in the problem's units
    scale: np.ndarray | None = None  # [T], above 0 and at most 1

    def part(self, index: Any) -> "Told":
        """Some of the steps."""
        return Told(*(None if part is None else part_of(part, index) for part in self))

    @property
    def forms(self) -> tuple[Any, ...]:
        """Of the references, where they forecast numbers."""
        return tuple(each.form for each in self.laws) if isinstance(self.laws, tuple) else ()


def part_of(part: Any, index: Any) -> Any:
    """Some steps of what was said: of an array, a forecast, or of each of several."""
    if isinstance(part, tuple):
        return tuple(each.at(index) for each in part)
    return part.at(index) if isinstance(part, Forecast) else part[index]


def beside(parts: Sequence[Any], places: Sequence[np.ndarray]) -> Any:
    """Streams side by side, ``[N, T, ...]``, each at its own places; None where there is nothing."""
    if parts[0] is None:
        return None
    if isinstance(parts[0], Told):
        return Told(*(beside(own, places) for own in zip(*parts, strict=True)))
    if isinstance(parts[0], tuple):
        return tuple(beside(own, places) for own in zip(*parts, strict=True))
    each = [part_of(part, place) for part, place in zip(parts, places, strict=True)]
    return side_by_side(each) if isinstance(each[0], Forecast) else np.stack(each)


def labelled(each: Sequence[Any], name: str) -> tuple[tuple[Any, ...], list[np.ndarray]]:
    """The different values of all streams, in order where they have one, and which of them each step has."""
    listed = [part.tolist() if isinstance(part, np.ndarray) else list(part) for part in each]
    try:  # with their types: True is not 1
        labels = [value for _, value in dict.fromkeys((_kind(value), value) for part in listed for value in part)]
    except TypeError as error:
        raise ValueError(f"{name} must be names or numbers, one per step, got {inputs.shown(each[0])}") from error
    if any(value is None or value != value for value in labels):
        raise ValueError(f"{name} must be given for every step, and one is missing")
    with contextlib.suppress(TypeError):  # of several kinds: as they come
        labels = sorted(labels)
    place = {(_kind(value), value): i for i, value in enumerate(labels)}
    return tuple(labels), [np.array([place[_kind(value), value] for value in part], dtype=np.int64) for part in listed]


def _kind(value: Any) -> bool:
    """Whether it is a bool: any other values that are equal are one label."""
    return isinstance(value, (bool, np.bool_))


def told_of(
    problem: DecisionProblem | Payoff,
    states: Any,
    lengths_B: np.ndarray,
    streams: Sequence[Any],
    references: Any = None,
    contexts: Any = None,
    payoffs: Any = None,
    scale: Any = None,
) -> tuple[list[Told] | None, Tells]:
    """What the arrays say of every stream, checked; laid out as ``states`` are. ``streams`` are their names."""
    if references is None and contexts is None and payoffs is None and scale is None:
        return None, NOTHING
    states, numbers = states.at if isinstance(states, Positions) else states, isinstance(problem, Payoff)
    if numbers and payoffs is not None:
        raise ValueError(
            "payoffs of each step are functions where outcomes are numbers: a Guard takes them, advise(payoffs=...), "
            "and a backtest how much of the problem's counts, scale=..."
        )
    nested = isinstance(states, (list, tuple)) and len(states) > 0 and not np.isscalar(states[0])
    alone = not nested and inputs.array_of(states, "outcomes").ndim == 1
    lengths = lengths_B.tolist()
    A, S = (0, 0) if isinstance(problem, Payoff) else problem.utility.shape
    names: tuple[str, ...] = ()
    nothing: list[Any] = [None] * len(lengths)
    laws = context = amounts = share = nothing
    if references is not None:
        if not isinstance(references, Mapping) or not references or not all(isinstance(n, str) for n in references):
            raise ValueError(f"references must be a dict of laws by name, got {inputs.shown(references)}")
        names, said = tuple(references), list[Any]()
        for name, value in references.items():
            of = f"references[{name!r}]"
            if isinstance(problem, Payoff):
                said.append(_forecasts(problem, value, lengths, of))
                continue
            in_order = partial(by_name, problem.state_names, what=of)
            value = list(map(in_order, value)) if isinstance(value, (list, tuple)) else in_order(value)
            parts = _each(value, lengths, alone, of)
            for part, stream in zip(parts, streams, strict=True):
                in_stream(_laws(S), part, of if alone else of_stream(of, stream))
            said.append([_laws(S)(p, of, shape=(T,)) for p, T in zip(parts, lengths, strict=True)])
        laws = [own if numbers else np.stack(own, axis=1).astype(np.float64) for own in zip(*said, strict=True)]
    labels = None
    if contexts is not None:
        labels, context = labelled(_each(contexts, lengths, alone, "contexts"), "contexts")
    if payoffs is not None:
        amounts = [inputs.numbers_of(part, "payoffs", "numbers") for part in _each(payoffs, lengths, alone, "payoffs")]
        for part, T in zip(amounts, lengths, strict=True):
            if part.shape != (T, A, S):
                raise ValueError(f"payoffs must have shape {(T, A, S)}, one matrix per step, got {part.shape}")
            problem.utility_of(part)  # type: ignore[union-attr]
    if scale is not None:
        share = [inputs.numbers_of(part, "scale", "numbers") for part in _each(scale, lengths, alone, "scale")]
        for part in share:
            if part.ndim != 1 or not ((part > 0) & (part <= 1)).all():
                raise ValueError(f"scale must be one number per step, above 0 and at most 1, got {inputs.shown(part)}")
    kind = "change" if payoffs is not None else "scaled" if scale is not None else None
    return [Told(*own) for own in zip(laws, context, amounts, share, strict=True)], Tells(names, labels, kind)


def _laws(width: int) -> Any:
    """A check that takes laws of this width."""
    return lambda given, of, shape=None: to_numpy(inputs.probs_of(given, width, of, shape=shape))


def _forecasts(problem: Payoff, value: Any, lengths: list[int], of: str) -> list[Forecast]:
    """What one reference forecast of the numbers of each stream."""
    if isinstance(value, Forecast):
        shape = value.batch_shape
        given = [value] if len(shape) == 1 else [value.at(b) for b in range(shape[0])]
    else:
        given = list(value) if isinstance(value, (list, tuple)) else []
    right = len(given) == len(lengths) and all(isinstance(each, Forecast) for each in given)
    if not right or [each.batch_shape for each in given] != [(T,) for T in lengths]:
        raise ValueError(f"{of} must be forecasts of the outcomes, one per step, got {inputs.shown(value)}")
    for each in given:
        each.refuse_misfit(problem)
    return given


def _each(values: Any, lengths: list[int], alone: bool, name: str) -> list[Any]:
    """The parts of the streams."""
    parts = [values] if alone else values
    try:
        steps = [len(part) for part in parts]
    except TypeError:
        steps = []
    if steps != lengths:
        shown = f"{len(lengths)} streams" if len(lengths) > 1 else f"{lengths[0]} steps"
        raise ValueError(f"{name} must be as long as outcomes, {shown}, got {inputs.shown(values)}")
    return list(parts)


# When outcomes were known, where a column says so.


def known_in(table: Any, name: str, steps: Steps, where: str, before: int = 0) -> np.ndarray:
    """When the outcome of each row was known, on the same clock as its steps."""
    known = order_in(table, name, where, before)
    if known.kind != steps.kind:
        reason = f"when outcomes were known ({name}) must be given as steps are, which are {steps.kind}"
        raise Refused(where, None, f"{reason}, got {known.kind}")
    return known.at_R


def lags_of(at_T: np.ndarray, known_T: np.ndarray) -> np.ndarray:
    """After how many steps each outcome of a stream was known: the first step after that time knows it.

    Near the end of a stream, how many steps did not know it.

    >>> lags_of(np.array([1, 2, 3, 4, 5]), np.array([1, 3, 3, 9, 9])).tolist()
    [1, 2, 1, 2, 1]
    """
    return np.maximum(np.searchsorted(at_T, known_T, side="right") - np.arange(len(at_T)), 1)


# What is wrong with a recording in arrays: in which stream, and at which step.


Check = Callable[[Any, str], Any]  # of values and what they are called


def located(check: Check, values: Any, what: str, axes: int, name_of: Callable[[int], Sequence[Any]]) -> Any:
    """``check(values, what)`` of one stream, which has ``axes`` axes, or of several; ``name_of(n)`` are their names.

    What is refused of all is asked of each stream, and of each of its steps: the first that is wrong is named.
    """
    try:
        return check(values, what)
    except ValueError:
        array = _sound_but_for_values(check, values, what)
        if array is None or array.ndim not in (axes, axes + 1):
            raise
        if array.ndim == axes:
            in_stream(check, array, what)
        else:
            for name, part in zip(name_of(len(array)), array, strict=True):
                in_stream(check, part, of_stream(what, name))
        raise


def in_stream(check: Check, values: Any, what: str) -> Any:
    """``check(values, what)`` of one stream; what is refused is asked of each of its steps."""
    try:
        return check(values, what)
    except ValueError:
        array = _sound_but_for_values(check, values, what)
        for t, one in enumerate(() if array is None or not array.ndim else array):
            check(one, f"{what} at step {t + 1}")
        raise


def of_stream(what: str, name: Any) -> str:
    return f"{what} of stream {inputs.shown(name)}"


def _sound_but_for_values(check: Check, values: Any, what: str) -> Any:
    """As an array, if it is one of the right kind and width; None otherwise: then no step is to blame."""
    try:
        array = to_numpy(inputs.array_of(values, what))
        check(array[:0], what)
    except (ValueError, TypeError, IndexError):
        return None
    return array
