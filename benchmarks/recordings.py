"""Eight recordings as logs: what a model said, what came and what is at stake, in files that ``lowregret audit`` reads.

``python -m benchmarks.recordings`` writes a folder each, with ``log.csv`` and ``stakes.csv``, out of data
that packages carry: read from there, as ``benchmarks.decisions`` does, and not kept.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from examples.real_data import seattle

from .decisions.cells import Source, Stream
from .decisions.streams import calls, flights, nannyml, rain, sources, stores
from .real_streams import WARM_UP

RANGES = tuple(f"range{s + 1}" for s in range(8))


class Recording(NamedTuple):
    """A stream of the benchmark with what its files call things."""

    stream: str
    money: str  # of the payoffs
    actions: tuple[str, ...]
    states: tuple[str, ...]
    times: Callable[[int], pd.Series | pd.DatetimeIndex | None]  # of so many steps; None: the log has none

    def made(self) -> tuple[Source, Stream]:
        source, make = sources()[self.stream]
        return source, make()


def _hours_of_flights(T: int) -> pd.Series:
    hours = flights.late("JFK").index.to_frame(index=False).iloc[flights.STEPS.start : flights.STEPS.start + T]
    return pd.to_datetime(hours.assign(year=2013))


def _quarters_of_calls(T: int) -> pd.Series:
    table = calls.packages.table(calls.PACKAGE, calls.FILE)
    every = pd.to_datetime(table["DateTime"]).dt.tz_localize(None).to_numpy().reshape(-1, calls.OPEN + 1)
    quarters = every[:, : calls.OPEN : 3].ravel()
    return pd.Series(quarters[calls.DAYS * calls.OPEN // 3 :][:T])


RECORDINGS = {
    "rain": Recording(
        "rain in Innsbruck: cover or not, as issued",
        *("euros", ("open", "cover"), ("dry", "wet")),
        lambda T: rain.packages.table(rain.PACKAGE, rain.FILE)["rownames"].iloc[rain.STEPS.start :][:T],
    ),
    "houses": Recording(
        "California housing: three months in use, buy or not",
        *("dollars", ("leave", "buy"), ("cheap", "dear")),
        lambda T: nannyml.housing("after")["timestamp"].iloc[2000 : 2000 + T],
    ),
    "employment": Recording(
        "employment in Massachusetts: 2018, insure",
        *("dollars", ("wait", "prepare"), ("jobless", "employed")),
        lambda T: None,
    ),
    "calls": Recording(
        "calls to a bank: a second line or not, logistic",
        *("dollars", ("one", "two"), ("few", "many")),
        _quarters_of_calls,
    ),
    "electricity": Recording(
        "electricity, 2014: a day ahead, orders of 8 ranges, boosting",
        *("dollars", tuple(f"order{a + 1}" for a in range(8)), RANGES),
        lambda T: pd.date_range("2014-03-02", periods=T, freq="4h"),
    ),
    "departures": Recording(
        "departures from New York: JFK, a bad hour or not, logistic",
        *("dollars", ("wait", "rebook"), ("good", "bad")),
        _hours_of_flights,
    ),
    "store": Recording(
        "Rossmann's stores: store 562, help or not, logistic",
        *("euros", ("alone", "help"), ("calm", "busy")),
        lambda T: stores.days(562)["Date"].iloc[stores.BEGIN :][:T],
    ),
    "seattle": Recording(
        "weather in Seattle: cover before rain, a table",
        *("dollars", ("open", "cover"), ("dry", "wet")),
        lambda T: seattle().index[int(WARM_UP * len(seattle())) :][:T],
    ),
}


def write(name: str, folder: Path) -> Source:
    """The log of a recording and what is at stake in it, into a folder of its own."""
    recording = RECORDINGS[name]
    source, stream = recording.made()
    T, problem = len(stream.states_T), stream.problem
    log, times = pd.DataFrame(), recording.times(T)
    if times is not None:
        log["time"] = np.asarray(times)
    for s, state in enumerate(recording.states):
        log[f"p_{state}"] = stream.laws_TxS[:, s]
    log["actual"] = np.array(recording.states)[stream.states_T]
    own = folder / name
    own.mkdir(parents=True, exist_ok=True)
    log.to_csv(own / "log.csv", index=False)
    with open(own / "stakes.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([recording.money, *recording.states])
        for action, row in zip(recording.actions, problem.in_payoffs(problem.utility), strict=True):
            table.writerow([action, *(f"{amount:.6g}" for amount in row)])
    return source


def main(folder: Path) -> None:
    found = sources()
    for name, recording in RECORDINGS.items():
        if recording.stream in found:
            source = write(name, folder)
            print(f"{folder / name}: {source.where}; licence {source.licence}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/recordings"))
