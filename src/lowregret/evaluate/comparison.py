"""What a comparison of players on sources found (Section 5.2.1): tables, intervals, frames and JSON."""

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..problems import DecisionProblem
from ..tables import Table
from . import plots
from .distances import Estimate

_DIGITS = 7  # of the numbers in JSON


class Cell(NamedTuple):
    """One player on one source, at the horizon."""

    predictor: str
    source: str
    regret: Estimate  # mean over sequences, with its 95% interval; of one sequence that is the number itself
    error: float  # its standard error; 0 for one sequence
    switch: float | None  # the median switch time; None: no more than half switched, or it never can
    switched: float | None  # the share of sequences that switched in time to change a prediction; None: it never can
    n: int  # sequences


@dataclass(frozen=True, eq=False)
class Comparison:
    """What ``compare`` found: average regrets in utility, P players on W sources, after each of T steps."""

    predictors: tuple[str, ...]
    sources: tuple[str, ...]
    problem: DecisionProblem
    horizon: int
    regret_PxWxT: np.ndarray  # the mean over sequences, of every prefix
    error_PxWxT: np.ndarray  # its standard error
    final_WxPxN: tuple[np.ndarray, ...]  # regret at the horizon, of each sequence of a source
    times_WxPxN: tuple[np.ndarray, ...]  # switch times, T + 1 for never; 0 where the player cannot switch
    adaptive: tuple[str, ...] = ()  # the sources that met each player with sequences of its own
    seed: int | None = None  # None: a Generator was given, or nothing was sampled
    version: str | None = None  # of the package that made it

    def __post_init__(self) -> None:
        for array in (self.regret_PxWxT, self.error_PxWxT, *self.final_WxPxN, *self.times_WxPxN):
            array.flags.writeable = False

    @property
    def n_W(self) -> tuple[int, ...]:
        """How many sequences there were of each source."""
        return tuple(final_PxN.shape[1] for final_PxN in self.final_WxPxN)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Source by source, player by player."""
        found = []
        for source, final_PxN, times_PxN in zip(self.sources, self.final_WxPxN, self.times_WxPxN, strict=True):
            for predictor, final_N, times_N in zip(self.predictors, final_PxN, times_PxN, strict=True):
                switched = float(np.mean(times_N < self.horizon)) if times_N.all() else None
                switch = float(np.median(times_N)) if switched is not None and switched > 0.5 else None
                regret, error = _mean(final_N)
                found.append(Cell(predictor, source, regret, error, switch, switched, len(final_N)))
        return tuple(found)

    def regrets(self, predictor: str, source: str) -> np.ndarray:
        """The regret at the horizon of every sequence, ``[N]``: those of all players are in the same order."""
        i, w = self._place(predictor, source)
        return self.final_WxPxN[w][i]

    def switch_times(self, predictor: str, source: str) -> np.ndarray:
        """After how many steps each sequence switched, ``[N]``; T + 1 for never."""
        i, w = self._place(predictor, source)
        times_N = self.times_WxPxN[w][i]
        if not times_N.all():
            raise ValueError(f"predictor {predictor!r} cannot switch: only robust predictors do")
        return times_N

    def difference(self, predictor: str, other: str, source: str) -> Estimate:
        """By how much one player regrets more than another on the same sequences: the mean, with its 95% interval.

        The interval (Student's t) is of the paired differences: what is luck of the sequences for both is in neither.
        """
        apart_N = self.regrets(predictor, source) - self.regrets(other, source)
        if source in self.adaptive:
            raise ValueError(f"source {source!r} met each player with sequences of its own: there are no pairs")
        return _mean(apart_N)[0]

    def _place(self, predictor: str, source: str) -> tuple[int, int]:
        inputs.choice(predictor, "predictor", self.predictors)
        inputs.choice(source, "source", self.sources)
        return self.predictors.index(predictor), self.sources.index(source)

    def table(self) -> Table:
        """Mean final regret with its standard error, and the median switch time in brackets: prints aligned."""

        def text(cell: Cell) -> str:
            error = "" if cell.n == 1 else f" ±{cell.error:.4f}"
            return f"{cell.regret.value:+.4f}{error}" + ("" if cell.switch is None else f" ({cell.switch:.0f})")

        rows = tuple((source, *(text(c) for c in self.cells if c.source == source)) for source in self.sources)
        least, most = min(self.n_W), max(self.n_W)
        many = f"{most}" if least == most else f"{least} to {most}"
        title = f"Mean regret ± standard error after {self.horizon} steps, {many} sequences a source"
        return Table(f"{title} (median switch time)", ("source", *self.predictors), rows)

    def differences(self, to: str) -> Table:
        """How much more each player regrets than one of them, on the same sequences, with 95% intervals."""
        inputs.choice(to, "to", self.predictors)

        def text(apart: Estimate) -> str:
            interval = f" ({apart.low:+.4f} to {apart.high:+.4f})" if apart.low < apart.high else ""
            return f"{apart.value:+.4f}{interval}"

        others, sources = [p for p in self.predictors if p != to], [w for w in self.sources if w not in self.adaptive]
        rows = tuple((w, *(text(self.difference(p, to, w)) for p in others)) for w in sources)
        title = f"Regret less that of {to} on the same sequences after {self.horizon} steps: mean (95% interval)"
        return Table(title, ("source", *others), rows)

    def to_frame(self, by_sequence: bool = False) -> Any:
        """A pandas frame with one row per source and player, or one row per sequence of each (needs pandas).

        By player: what a ``Cell`` has. By sequence: its regret, and when it switched (T + 1 for never).
        """
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("to_frame needs pandas: pip install pandas", name="pandas") from error
        if not by_sequence:
            ends = ({"regret": c.regret.value, "low": c.regret.low, "high": c.regret.high} for c in self.cells)
            return pd.DataFrame([cell._asdict() | found for cell, found in zip(self.cells, ends, strict=True)])
        parts = []
        for cell in self.cells:
            i, w = self._place(cell.predictor, cell.source)
            times_N = np.where(self.times_WxPxN[w][i] > 0, self.times_WxPxN[w][i], np.nan)
            columns = {"sequence": range(cell.n), "regret": self.final_WxPxN[w][i], "switch": times_N}
            parts.append(pd.DataFrame({"source": cell.source, "predictor": cell.predictor, **columns}))
        return pd.concat(parts, ignore_index=True)

    def plot(self) -> Any:
        """The regret curves with their 95% bands (needs matplotlib)."""
        return plots.regret_curves(self)

    def to_json(self) -> str:
        """Everything as JSON, to seven digits: the cells, the curves ``[source][predictor][step]``, the sequences."""

        def by_name(curve_PxWxT: np.ndarray) -> dict[str, dict[str, list[float]]]:
            rounded = curve_PxWxT.round(_DIGITS).tolist()
            return {w: {p: rounded[i][j] for i, p in enumerate(self.predictors)} for j, w in enumerate(self.sources)}

        sequences = {}
        for source, final_PxN, times_PxN in zip(self.sources, self.final_WxPxN, self.times_WxPxN, strict=True):
            each = zip(self.predictors, final_PxN.round(_DIGITS).tolist(), times_PxN.tolist(), strict=True)
            sequences[source] = {p: {"regret": final_N, "switch": times_N} for p, final_N, times_N in each}
        written = {
            "format": 2,
            "version": self.version,
            "seed": self.seed,
            "horizon": self.horizon,
            "utility": self.problem.utility.tolist(),
            "actions": self.problem.actions,
            "states": self.problem.states,
            "cells": [{**cell._asdict(), "regret": cell.regret._asdict()} for cell in self.cells],
            "regret": by_name(self.regret_PxWxT),
            "standard_error": by_name(self.error_PxWxT),
            "sequences": sequences,
            "adaptive": self.adaptive,
        }
        return json.dumps(written, allow_nan=False)

    @classmethod
    def from_json(cls, written: str | dict[str, Any]) -> "Comparison":
        """The comparison that ``to_json`` wrote, from the text or from what ``json.loads`` made of it."""
        data = json.loads(written) if isinstance(written, str) else written
        sources, players = tuple(data["regret"]), tuple(next(iter(data["regret"].values())))

        def curves(name: str) -> np.ndarray:
            return np.array([[data[name][w][p] for w in sources] for p in players])

        def each(name: str) -> tuple[np.ndarray, ...]:
            return tuple(np.array([data["sequences"][w][p][name] for p in players]) for w in sources)

        return cls(
            predictors=players,
            sources=sources,
            problem=DecisionProblem(data["utility"], data["actions"], data["states"]),
            horizon=data["horizon"],
            regret_PxWxT=curves("regret"),
            error_PxWxT=curves("standard_error"),
            final_WxPxN=each("regret"),
            times_WxPxN=each("switch"),
            adaptive=tuple(data["adaptive"]),
            seed=data["seed"],
            version=data["version"],
        )


def _mean(values_N: np.ndarray) -> tuple[Estimate, float]:
    """The mean with its 95% interval (Student's t), and its standard error; of one value the value itself, and 0."""
    from scipy.special import stdtrit

    value, n = float(values_N.mean()), len(values_N)
    if n == 1:
        return Estimate(value, value, value), 0.0
    error = float(values_N.std(ddof=1)) / math.sqrt(n)
    half = error * float(stdtrit(n - 1, 0.975))
    return Estimate(value, value - half, value + half), error
