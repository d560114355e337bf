"""What a comparison of players on sources found (Section 5.2.1): tables, intervals, frames, LaTeX and JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import frozen
from ..problems import DecisionProblem
from ..tables import Table
from . import plots
from .distances import Estimate

_SHOWN = (0.05, 0.5, 0.95)  # quantiles in a frame
_DIGITS = 7  # of the numbers in JSON
_TEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"})


class Cell(NamedTuple):
    """One player on one source, at the horizon."""

    predictor: str
    source: str
    regret: Estimate  # mean over sequences; of one sequence the interval is the number itself
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
    n: int | None  # sequences of each source that was sampled; None: none was
    regret_PxWxT: np.ndarray  # the mean over sequences, of every prefix
    error_PxWxT: np.ndarray  # its standard error
    low_PxW: np.ndarray  # the 95% interval (Student's t) of the mean at the horizon
    high_PxW: np.ndarray
    switch_PxW: np.ndarray  # median switch time, T + 1 for never; NaN where the player cannot switch
    switched_PxW: np.ndarray  # share of sequences switched before the horizon; NaN where it cannot
    # Of each sequence of a source, [P, N]; a file may have been written without them.
    final_WxPxN: tuple[np.ndarray, ...] = ()  # regret at the horizon
    times_WxPxN: tuple[np.ndarray, ...] = ()  # switch times, T + 1 for never; 0 where the player cannot switch
    adaptive: tuple[str, ...] = ()  # the sources that met each player with sequences of its own
    seed: int | None = None  # None: a Generator was given, or nothing was sampled
    version: str | None = None  # of the package that made it

    def __post_init__(self) -> None:
        for value in vars(self).values():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    frozen(array)

    @property
    def n_W(self) -> tuple[int, ...]:
        """How many sequences there were of each source."""
        if not self.final_WxPxN:
            return (self.n or 0,) * len(self.sources)
        return tuple(final_PxN.shape[1] for final_PxN in self.final_WxPxN)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Source by source, player by player."""
        found = []
        for w, source in enumerate(self.sources):
            for i, predictor in enumerate(self.predictors):
                ends = (self.regret_PxWxT[i, w, -1], self.low_PxW[i, w], self.high_PxW[i, w])
                error, share = float(self.error_PxWxT[i, w, -1]), float(self.switched_PxW[i, w])
                switch = float(self.switch_PxW[i, w]) if share > 0.5 else None
                regret = Estimate(*map(float, ends))
                found.append(Cell(predictor, source, regret, error, switch, inputs.finite_or_none(share), self.n_W[w]))
        return tuple(found)

    def regrets(self, predictor: str, source: str) -> np.ndarray:
        """The regret at the horizon of every sequence, ``[N]``: those of all players are in the same order."""
        i, w = self._place(predictor, source)
        return self.final_WxPxN[w][i]

    def quantiles(self, predictor: str, source: str, levels: Sequence[float] = _SHOWN) -> np.ndarray:
        """Below which regret these shares of the sequences stay, ``[len(levels)]``."""
        levels = [inputs.probability(level, "levels") for level in levels]
        return np.quantile(self.regrets(predictor, source), levels)

    def difference(self, predictor: str, other: str, source: str) -> Estimate:
        """By how much one player regrets more than another on the same sequences: the mean, with its 95% interval.

        The interval (Student's t) is of the paired differences: what is luck of the sequences for both is in neither.
        """
        apart_N = self.regrets(predictor, source) - self.regrets(inputs.choice(other, "other", self.predictors), source)
        if source in self.adaptive:
            raise ValueError(f"source {source!r} met each player with sequences of its own: there are no pairs")
        mean, n = float(apart_N.mean()), len(apart_N)
        half = student(n) * float(apart_N.std(ddof=n > 1)) / math.sqrt(n)
        return Estimate(mean, mean - half, mean + half)

    def switch_times(self, predictor: str, source: str) -> np.ndarray:
        """After how many steps each sequence switched, ``[N]``; T + 1 for never."""
        i, w = self._place(predictor, source)
        times_N = self.times_WxPxN[w][i]
        if not times_N.all():
            raise ValueError(f"predictor {predictor!r} cannot switch: only robust predictors do")
        return times_N

    def switched_by(self, predictor: str, source: str) -> np.ndarray:
        """The share of sequences that had switched after 0 .. T steps, ``[T + 1]``."""
        times_N = self.switch_times(predictor, source)
        return np.bincount(times_N, minlength=self.horizon + 2)[:-1].cumsum() / len(times_N)

    def _place(self, predictor: str, source: str) -> tuple[int, int]:
        inputs.choice(predictor, "predictor", self.predictors)
        inputs.choice(source, "source", self.sources)
        if not self.final_WxPxN:
            raise ValueError("this comparison was read from a file without its sequences: compare anew")
        return self.predictors.index(predictor), self.sources.index(source)

    def table(self) -> Table:
        """Mean final regret with its standard error, and the median switch time in brackets: prints aligned."""

        def text(cell: Cell) -> str:
            error = "" if cell.n == 1 else f" ±{cell.error:.4f}"
            return f"{cell.regret.value:+.4f}{error}" + ("" if cell.switch is None else f" ({cell.switch:.0f})")

        rows = _rows(self.sources, self.cells, [text(cell) for cell in self.cells])
        least, most = min(self.n_W), max(self.n_W)
        many = f"{most}" if least == most else f"{least} to {most}"
        title = f"Mean regret ± standard error after {self.horizon} steps, {many} sequences a source"
        return Table(f"{title} (median switch time)", ("source", *self.predictors), rows)

    def differences(self, to: str) -> Table:
        """How much more each player regrets than one of them, on the same sequences, with 95% intervals."""
        inputs.choice(to, "to", self.predictors)

        def text(apart: Estimate) -> str:
            return f"{apart.value:+.4f}" + (
                f" ({apart.low:+.4f} to {apart.high:+.4f})" if apart.low < apart.high else ""
            )

        others, sources = [p for p in self.predictors if p != to], [w for w in self.sources if w not in self.adaptive]
        rows = [(w, *(text(self.difference(p, to, w)) for p in others)) for w in sources]
        title = f"Regret less that of {to} on the same sequences after {self.horizon} steps: mean (95% interval)"
        return Table(title, ("source", *others), tuple(rows))

    def to_frame(self, by_sequence: bool = False) -> Any:
        """A pandas frame with one row per source and player, or one row per sequence of each (needs pandas).

        By player: mean regret, its standard error and 95% interval, quantiles, the share that switched and the median
        switch time. By sequence: its regret, and when it switched (T + 1 for never).
        """
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("to_frame needs pandas: pip install pandas", name="pandas") from error
        rows, sequences = [], []
        for cell in self.cells:
            about, regret_N = {"source": cell.source, "predictor": cell.predictor}, self.regrets(*cell[:2])
            if by_sequence:
                times = np.nan if cell.switched is None else self.switch_times(*cell[:2])
                sequences.append(pd.DataFrame(about | {"sequence": range(cell.n), "regret": regret_N, "switch": times}))
                continue
            mean = {"n": cell.n, "regret": cell.regret.value, "error": cell.error}
            ends = {"low": cell.regret.low, "high": cell.regret.high}
            shares = {f"q{100 * level:02.0f}": float(np.quantile(regret_N, level)) for level in _SHOWN}
            switch = {"switched": cell.switched, "switch": cell.switch}
            rows.append({**about, **mean, **ends, **shares, **switch})
        return pd.concat(sequences, ignore_index=True) if by_sequence else pd.DataFrame(rows)

    def to_latex(self) -> str:
        """A table as the paper sets its own: one row per player, one column per source, mean and standard error.

        >>> from lowregret import PolyaUrn, compare, matching
        >>> from lowregret.predictors import Scheduled
        >>> sources = {"a coin": Scheduled([[0.5, 0.5]]), "ones": [1] * 20}
        >>> print(compare({"urn": PolyaUrn(2)}, sources, matching(), horizon=20, n=9, seed=0).to_latex())
        \\begin{tabular}{c|c|c}
             & a coin & ones \\\\
             \\hline
             \\texttt{urn} & $0.0902\\pm 0.0134$ & $0.0622$ \\\\
             \\hline
        \\end{tabular}
        """

        def text(cell: Cell) -> str:
            error = "" if cell.n == 1 else rf"\pm {cell.error:.4f}"
            return f"${cell.regret.value:.4f}{error}$"

        by_player = sorted(self.cells, key=lambda cell: self.predictors.index(cell.predictor))
        names = [rf"\texttt{{{p.translate(_TEX)}}}" for p in self.predictors]
        rows = (("", *(w.translate(_TEX) for w in self.sources)), *_rows(names, by_player, [*map(text, by_player)]))
        head, *lines = [f"     {' & '.join(row).strip()} \\\\" for row in rows]
        begin, rule = rf"\begin{{tabular}}{{{'|'.join('c' * len(rows[0]))}}}", r"     \hline"
        return "\n".join([begin, head, rule, *lines, rule, r"\end{tabular}"])

    def plot(self) -> Any:
        """The regret curves with their 95% bands (needs matplotlib)."""
        return plots.regret_curves(self)

    def to_json(self) -> str:
        """Everything as JSON, to seven digits: the cells, the curves ``[source][predictor][step]``, the sequences."""

        def by_name(values_PxWxT: np.ndarray) -> dict[str, dict[str, list[float]]]:
            rounded = values_PxWxT.round(_DIGITS).tolist()
            return {w: {p: rounded[i][j] for i, p in enumerate(self.predictors)} for j, w in enumerate(self.sources)}

        cells = []
        for cell, median in zip(self.cells, self.switch_PxW.T.ravel().tolist(), strict=True):
            regret = {end: round(value, _DIGITS) for end, value in cell.regret._asdict().items()}
            # `switch` is None for a player who cannot switch and for one who seldom did; `median` tells them apart.
            own = {"regret": regret, "error": round(cell.error, _DIGITS), "median": inputs.finite_or_none(median)}
            cells.append({**cell._asdict(), **own})
        sequences = {}
        for source, final_PxN, times_PxN in zip(self.sources, self.final_WxPxN, self.times_WxPxN, strict=False):
            each = zip(self.predictors, final_PxN, times_PxN, strict=True)
            sequences[source] = {
                p: {"regret": final_N.round(_DIGITS).tolist(), "switch": times_N.tolist() if times_N.all() else None}
                for p, final_N, times_N in each
            }
        written = {
            "format": 1,
            "version": self.version,
            "seed": self.seed,
            "horizon": self.horizon,
            "n": self.n,
            "utility": self.problem.utility.tolist(),
            "actions": self.problem.actions,
            "states": self.problem.states,
            "cells": cells,
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
        cells = {(c["predictor"], c["source"]): c for c in data["cells"]}

        def grid(value: Any) -> np.ndarray:  # None is NaN
            return np.array([[value(cells[p, w]) for w in sources] for p in players], dtype=np.float64)

        def curves(name: str) -> np.ndarray:
            return np.array([[data[name][w][p] for w in sources] for p in players])

        final, times = [], []
        for each in data.get("sequences", {}).values():
            final.append(np.array([each[p]["regret"] for p in players]))
            cannot = [0] * final[-1].shape[1]
            times.append(np.array([each[p]["switch"] or cannot for p in players]))
        return cls(
            predictors=players,
            sources=sources,
            problem=DecisionProblem(data["utility"], data.get("actions"), data.get("states")),
            horizon=data["horizon"],
            n=data["n"],
            regret_PxWxT=curves("regret"),
            error_PxWxT=curves("standard_error"),
            low_PxW=grid(lambda c: c["regret"]["low"]),
            high_PxW=grid(lambda c: c["regret"]["high"]),
            switch_PxW=grid(lambda c: c["median"]),
            switched_PxW=grid(lambda c: c["switched"]),
            final_WxPxN=tuple(final),
            times_WxPxN=tuple(times),
            adaptive=tuple(data.get("adaptive", ())),
            seed=data.get("seed"),
            version=data.get("version"),
        )


def student(n: int) -> float:
    """How many standard errors the 95% interval of a mean of ``n`` reaches to either side; 0 for one."""
    from scipy.special import stdtrit

    return 0.0 if n == 1 else float(stdtrit(n - 1, 0.975))


def _rows(names: Sequence[str], cells: Sequence[Cell], texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The texts of cells, as many to a row as there are names for rows."""
    width = len(cells) // len(names)
    return tuple((name, *texts[width * i : width * (i + 1)]) for i, name in enumerate(names))
