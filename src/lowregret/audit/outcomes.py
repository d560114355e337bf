"""Recordings of forecasts of a number, in any of their forms, and of the outcomes that came."""

from typing import Any

from .. import inputs
from ..forecasts import Forecast
from ..problems import Payoff
from .located import in_stream, of_stream
from .streams import Streams, names_of


def outcomes_of(problem: Payoff, forecasts: Any, outcomes: Any, names: Any = None) -> Streams:
    """One stream of forecasts of shape ``[T]``, several ``[B, T]``, or a list of streams: checked."""
    if isinstance(forecasts, Forecast) and len(forecasts.batch_shape) == 2:
        streams = [forecasts.at(b) for b in range(forecasts.batch_shape[0])]
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
    return Streams(listed, streams, found)
