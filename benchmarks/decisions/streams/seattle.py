"""Weather in Seattle, 2012 to 2015, by day: rain, what a kiosk sells, and how warm it gets."""

from collections.abc import Callable
from functools import partial

import numpy as np
from examples.real_data import before, seattle

from benchmarks.real_streams import weather

from ..cells import Source, Stream
from ..models import logistic, walk
from ..stakes import supply
from . import of_recording, ranges

SEATTLE = Source(
    "weather in Seattle",
    "scored",
    "MIT (vega_datasets); NOAA's data, public",
    "vega_datasets, seattle-weather.csv",
    "vega_datasets",
)
BEGIN = 365


def recorded(which: str) -> Stream:
    recording = weather()[which]
    return of_recording(recording.problem, recording.probs_TxS, recording.states)


def warmth() -> Stream:
    """Drinks to order by how warm it gets, in eight ranges."""
    table = seattle()
    warm_T, turn_T = table["temp_max"].to_numpy(), np.arange(len(table)) * 2 * np.pi / 365.25
    known = [np.sin(turn_T), np.cos(turn_T), *(before(warm_T, by) for by in (1, 2, 3))]
    known += [before(table[name].to_numpy()) for name in ("temp_min", "wind", "precipitation")]
    bins, steps = ranges(warm_T[:BEGIN], 8), range(BEGIN, len(warm_T))
    states_T, levels = bins.states(warm_T), bins.representatives
    laws_TxS = walk(logistic(8), np.stack(known, axis=1), states_T, steps)
    return Stream(supply(levels, levels, short=2, spare=1), laws_TxS, states_T[steps])


STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    SEATTLE: {
        "cover before rain, a table": partial(recorded, "rain"),
        "a kiosk, a table": partial(recorded, "kiosk"),
        "drinks, logistic": warmth,
    }
}
