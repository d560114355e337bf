"""Recordings of forecasts of a number, in any of their forms, and of the outcomes that came."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..forecasts import Forecast
from ..problems import Payoff
from .located import in_stream, of_stream
from .streams import CELLS, Recording, Source, names_of
from .told import NOTHING, Tells


class OutcomeBlock(NamedTuple):
    """Streams of the same length side by side."""

    index_N: np.ndarray  # which streams they are
    lengths_N: np.ndarray
    forecasts: list[Forecast]  # of each step, for all of them
    outcomes_NxT: np.ndarray


@dataclass(frozen=True, eq=False)
class Outcomes(Recording):
    """What was forecast and what came, stream by stream."""

    names: tuple[Any, ...]
    forecasts: Sequence[Forecast]  # of shape [T] each
    states: Sequence[np.ndarray]  # [T] each, the outcomes
    rows: Sequence[np.ndarray] | None = None  # [T] each: which rows of the frame they are
    source: Source | None = None
    notes: tuple[str, ...] = ()  # what a reader of the answer should know of it
    tells: Tells = NOTHING  # nothing else

    def utility(self, problem: Payoff, i: int) -> np.ndarray:
        """What each action was paid in a stream, ``[A, T]``."""
        return problem.paid(self.states[i])

    def sure(self, problem: Payoff, i: int) -> float:
        """What utility 0 is in payoffs."""
        return float(problem.in_payoffs(0.0))

    def best_T(self, problem: Payoff, i: int) -> np.ndarray:
        """What the best action of each prefix earned in it, ``[T]``."""
        return np.cumsum(self.utility(problem, i), axis=1).max(axis=0)

    def blocks(self) -> Iterator[OutcomeBlock]:
        """All streams, those of one length and form together: what a bet was charged depends on every step."""
        alike: dict[Any, list[int]] = {}
        for i, forecast in enumerate(self.forecasts):
            alike.setdefault((len(self.states[i]), *_form(forecast)), []).append(i)
        for (T, *_), index in alike.items():
            most = max(1, CELLS // max(1, T))
            for at in range(0, len(index), most):
                some = index[at : at + most]
                forecasts = [beside([self.forecasts[i] for i in some], t) for t in range(T)]
                outcomes_NxT = np.stack([self.states[i] for i in some])
                yield OutcomeBlock(np.array(some), np.full(len(some), T), forecasts, outcomes_NxT)


def beside(forecasts: Sequence[Forecast], step: int) -> Forecast:
    """What forecasts of shape ``[T]`` and the same form say of one step, side by side: of shape ``[N]``."""
    shared = set(_form(forecasts[0])[1])
    parts = {
        field.name: np.stack([getattr(forecast, field.name)[step] for forecast in forecasts])
        for field in fields(forecasts[0])  # type: ignore[arg-type]
        if field.name not in shared
    }
    return replace(forecasts[0], **parts)  # type: ignore[type-var]


def _form(forecast: Forecast) -> tuple[type, dict[str, bytes] | tuple, tuple]:
    """What forecasts must have in common to stand side by side: the form, what is one for all steps, the widths."""
    parts = {field.name: getattr(forecast, field.name) for field in fields(forecast)}  # type: ignore[arg-type]
    shared = tuple(name for name, part in parts.items() if part.ndim == 1)
    return type(forecast), shared, tuple(p.tobytes() if n in shared else p.shape[-1] for n, p in parts.items())


def outcomes_of(problem: Payoff, forecasts: Any, outcomes: Any, names: Any = None) -> Outcomes:
    """One stream of forecasts of shape ``[T]``, several ``[B, T]``, or a list of streams: checked."""
    if isinstance(forecasts, Forecast) and len(forecasts.batch_shape) == 2:
        streams = [_row(forecasts, b) for b in range(forecasts.batch_shape[0])]
        came = list(inputs.numbers_of(outcomes, "states", "numbers, one for each forecast"))
    elif isinstance(forecasts, (list, tuple)):
        streams, came = list(forecasts), list(outcomes) if hasattr(outcomes, "__len__") else []
    else:
        streams, came = [forecasts], [outcomes]
    if not streams or len(streams) != len(came):
        raise ValueError(f"states must be the outcomes of {len(streams)} streams, as forecasts are, got {len(came)}")
    listed, found = names_of(names, len(streams)), []
    for i, (forecast, values) in enumerate(zip(streams, came, strict=True)):
        if not isinstance(forecast, Forecast):
            raise ValueError(
                f"probs must be forecasts of the outcomes where the problem is a Payoff: Quantiles, Samples or a "
                f"Density of shape [T], a list of them, or a frame; got {inputs.shown(forecast)}"
            )
        said = "states" if len(streams) == 1 else of_stream("states", listed[i])
        numbers_T = in_stream(problem.outcomes_of, values, said)
        if len(forecast.batch_shape) != 1 or forecast.batch_shape != numbers_T.shape or not numbers_T.size:
            raise ValueError(
                f"probs must be one forecast for each outcome of stream {i}, got shape {forecast.batch_shape} "
                f"for outcomes of shape {numbers_T.shape}"
            )
        forecast.refuse_misfit(problem)
        found.append(numbers_T)
    return Outcomes(listed, streams, found)


def _row(forecasts: Forecast, b: int) -> Forecast:
    parts = {field.name: getattr(forecasts, field.name) for field in fields(forecasts)}  # type: ignore[arg-type]
    return replace(forecasts, **{n: part if part.ndim == 1 else part[b] for n, part in parts.items()})  # type: ignore[type-var]
