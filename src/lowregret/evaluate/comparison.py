"""Players x sources (Section 5.2.1): regret of every prefix and of every sequence, and when the robust ones switched.

A source is a predictor to sample from, sequences as they are, or an adversary that answers each player.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, count_up, frozen, namespace, row_blocks, to_numpy
from ..engine import Recovery
from ..policies import Policy, Respond
from ..predictors import Predictor, asked_sequence, same_states, sample, within_window
from ..problems import DecisionProblem, a_problem, same_problem
from ..robust import Robust
from ..tables import Table
from . import plots
from .distances import Estimate, batches, home
from .regret import external_regret

_TOGETHER = 1024  # sequences: what is asked step by step takes hardly longer on so many than on one
_SHOWN = (0.05, 0.5, 0.95)  # quantiles in a frame
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
    switched_PxW: np.ndarray  # share of sequences switched before the horizon; NaN likewise
    # By source: what each sequence came to, [P, N]. Files that were written without have none.
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
                share = float(self.switched_PxW[i, w])
                regret = Estimate(*(float(x[i, w]) for x in (self.regret_PxWxT[..., -1], self.low_PxW, self.high_PxW)))
                switch = float(self.switch_PxW[i, w]) if share > 0.5 else None
                error = float(self.error_PxWxT[i, w, -1])
                switched = inputs.finite_or_none(share)
                found.append(Cell(predictor, source, regret, error, switch, switched, self.n_W[w]))
        return tuple(found)

    def regrets(self, predictor: str, source: str) -> np.ndarray:
        """The regret at the horizon of every sequence, ``[N]``: those of all players are in the same order."""
        i, w = self._place(predictor, source)
        return self.final_WxPxN[w][i]

    def quantiles(self, predictor: str, source: str, levels: Sequence[float] = _SHOWN) -> np.ndarray:
        """Below which regret these shares of the sequences stay, ``[len(levels)]``."""
        levels = inputs.listed(levels, "levels", inputs.probability)
        return np.quantile(self.regrets(predictor, source), levels)

    def difference(self, predictor: str, other: str, source: str) -> Estimate:
        """By how much one player regrets more than another on the same sequences: the mean, with its 95% interval.

        The interval (Student's t) is of the paired differences: what is luck of the sequences for both is in neither.
        """
        apart_N = self.regrets(predictor, source) - self.regrets(inputs.choice(other, "other", self.predictors), source)
        if source in self.adaptive:
            raise ValueError(f"source {source!r} met each player with sequences of its own: there are no pairs")
        mean, n = float(apart_N.mean()), len(apart_N)
        half = _student(n) * float(apart_N.std(ddof=n > 1)) / math.sqrt(n)
        return Estimate(mean, mean - half, mean + half)

    def switch_times(self, predictor: str, source: str) -> np.ndarray:
        """After how many steps each sequence switched, ``[N]``; T + 1 for never."""
        i, w = self._place(predictor, source)
        times_N = self.times_WxPxN[w][i]
        if not times_N.all():
            raise ValueError(f"predictor {predictor!r} cannot switch: only robust predictors do")
        return times_N

    def switched_by(self, predictor: str, source: str) -> np.ndarray:
        """The law of the switch time: the share of sequences that had switched after 0 .. T steps, ``[T + 1]``."""
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
        grid = {(cell.source, cell.predictor): cell for cell in self.cells}
        rows = [(w, *(_text(grid[w, p]) for p in self.predictors)) for w in self.sources]
        least, most = min(self.n_W), max(self.n_W)
        many = f"{most}" if least == most else f"{least} to {most}"
        title = f"Mean regret ± standard error after {self.horizon} steps, {many} sequences a source"
        return Table(f"{title} (median switch time)", ("source", *self.predictors), tuple(rows))

    def differences(self, to: str) -> Table:
        """How much more each player regrets than one of them, on the same sequences, with 95% intervals."""
        inputs.choice(to, "to", self.predictors)
        others, sources = [p for p in self.predictors if p != to], [w for w in self.sources if w not in self.adaptive]
        rows = [(w, *(_signed(self.difference(p, to, w)) for p in others)) for w in sources]
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
        by_sequence = inputs.flag(by_sequence, "by_sequence")
        rows: list[dict[str, Any]] = []
        for cell in self.cells:
            about, regret_N = {"source": cell.source, "predictor": cell.predictor}, self.regrets(*cell[:2])
            if by_sequence:
                times = [None] * cell.n if cell.switched is None else self.switch_times(*cell[:2]).tolist()
                each = enumerate(zip(regret_N.tolist(), times, strict=True))
                rows += [{**about, "sequence": n, "regret": one, "switch": at} for n, (one, at) in each]
                continue
            mean = {"n": cell.n, "regret": cell.regret.value, "error": cell.error}
            ends = {"low": cell.regret.low, "high": cell.regret.high}
            shares = {f"q{100 * level:02.0f}": float(np.quantile(regret_N, level)) for level in _SHOWN}
            rows.append({**about, **mean, **ends, **shares, "switched": cell.switched, "switch": cell.switch})
        return pd.DataFrame(rows)

    def to_latex(self) -> str:
        """A table as the paper sets its own: one row per player, one column per source, mean and standard error.

        >>> from lowregret import PolyaUrn, matching
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
        grid = {(cell.predictor, cell.source): cell for cell in self.cells}
        rows = [["", *(w.translate(_TEX) for w in self.sources)]]
        for p in self.predictors:
            rows.append([rf"\texttt{{{p.translate(_TEX)}}}", *(_tex(grid[p, w]) for w in self.sources)])
        head, *lines = [f"     {' & '.join(row).strip()} \\\\" for row in rows]
        columns = "|".join("c" * len(rows[0]))
        rule = r"     \hline"
        return "\n".join([rf"\begin{{tabular}}{{{columns}}}", head, rule, *lines, rule, r"\end{tabular}"])

    def plot(self) -> Any:
        """The regret curves with their 95% bands (needs matplotlib)."""
        return plots.regret_curves(self)

    def to_json(self) -> str:
        """Everything as JSON: the final numbers by cell, the curves ``[source][predictor][step]``, and the sequences.

        Curves and sequences are rounded to seven digits.
        """

        def curves(values_PxWxT: np.ndarray) -> dict[str, dict[str, list[float]]]:
            return {
                w: {p: values_PxWxT[i, j].round(7).tolist() for i, p in enumerate(self.predictors)}
                for j, w in enumerate(self.sources)
            }

        # `switch` is None for a player who cannot switch and for one who seldom did; `median` tells them apart.
        medians = [inputs.finite_or_none(float(median)) for median in self.switch_PxW.T.ravel()]
        cells = [{**cell._asdict(), "regret": cell.regret._asdict()} for cell in self.cells]
        cells = [{**cell, "median": median} for cell, median in zip(cells, medians, strict=True)]
        sequences = {}
        for source, final_PxN, times_PxN in zip(self.sources, self.final_WxPxN, self.times_WxPxN, strict=False):
            each = zip(self.predictors, final_PxN, times_PxN, strict=True)
            sequences[source] = {
                p: {"regret": final_N.round(7).tolist(), "switch": times_N.tolist() if times_N.all() else None}
                for p, final_N, times_N in each
            }
        return json.dumps(
            {
                "format": 1,
                "version": self.version,
                "seed": self.seed,
                "horizon": self.horizon,
                "n": self.n,
                "utility": self.problem.utility.tolist(),
                "actions": self.problem.actions,
                "states": self.problem.states,
                "cells": cells,
                "regret": curves(self.regret_PxWxT),
                "standard_error": curves(self.error_PxWxT),
                "sequences": sequences,
                "adaptive": self.adaptive,
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, written: str | dict[str, Any]) -> "Comparison":
        """The comparison that ``to_json`` wrote, from the text or from what ``json.loads`` made of it."""
        data = json.loads(written) if isinstance(written, str) else written
        sources, players = tuple(data["regret"]), tuple(next(iter(data["regret"].values())))
        cells = {(c["predictor"], c["source"]): c for c in data["cells"]}

        def grid(value: Any) -> np.ndarray:
            return np.array([[value(cells[p, w]) for w in sources] for p in players], dtype=np.float64)

        def curves(name: str, last: Any) -> np.ndarray:  # these are rounded, the last step's numbers are not
            values_PxWxT = np.array([[data[name][w][p] for w in sources] for p in players])
            return np.concatenate([values_PxWxT[..., :-1], grid(last)[..., None]], axis=-1)

        def median(cell: dict[str, Any]) -> float:
            if cell["switched"] is None:
                return math.nan
            # Files written before have `switch` alone: None if no more than half switched.
            return next((float(cell[key]) for key in ("median", "switch") if cell.get(key) is not None), never)

        never = data["horizon"] + 1

        def by_sequence(name: str, missing: float, dtype: Any) -> tuple[np.ndarray, ...]:
            found = []
            for each in data.get("sequences", {}).values():
                size = len(next(iter(each.values()))["regret"])
                of_P = [[missing] * size if each[p][name] is None else each[p][name] for p in players]
                found.append(np.array(of_P, dtype=dtype))
            return tuple(found)

        return cls(
            predictors=players,
            sources=sources,
            problem=DecisionProblem(data["utility"], data.get("actions"), data.get("states")),
            horizon=data["horizon"],
            n=data["n"],
            regret_PxWxT=curves("regret", lambda c: c["regret"]["value"]),
            error_PxWxT=curves("standard_error", lambda c: c["error"]),
            low_PxW=grid(lambda c: c["regret"]["low"]),
            high_PxW=grid(lambda c: c["regret"]["high"]),
            switch_PxW=grid(median),
            switched_PxW=grid(lambda c: np.nan if c["switched"] is None else c["switched"]),
            final_WxPxN=by_sequence("regret", math.nan, np.float64),
            times_WxPxN=by_sequence("switch", 0, np.int64),
            adaptive=tuple(data.get("adaptive", ())),
            seed=data.get("seed"),
            version=data.get("version"),
        )


def compare(
    predictors: Mapping[str, Predictor | Policy],
    sources: Mapping[str, Any],
    problem: DecisionProblem,
    horizon: int,
    n: int | None = None,
    seed: int | np.random.Generator | None = None,
    *,
    progress: Callable[[float, str, str], None] | None = None,
) -> Comparison:
    """Play every predictor on the sequences of every source: regret curves, final regrets, switch times.

    The table has standard errors; ``Cell.regret`` has the 95% interval (Student's t), and the plot 95% bands.

    Parameters
    ----------
    predictors
        By name. A policy plays as it is; a predictor is responded to, at its rule's temperature if it is robust and at
        1/sqrt(horizon) if not.
    sources
        By name. A predictor is sampled, each with the same seed, and all players see the same sequences. Sequences of
        states ``[T]`` or ``[N, T]`` are played as they are. An adversary such as ``adversaries.greedy``, a function of
        a player, the problem and the horizon, is asked for each player's own: it returns them, or has them as
        ``tokens``.
    n, seed
        How many sequences of each source to sample, and from which seed; not needed where no source is sampled.
    progress
        Called now and then with the share of the work done and the names of the player and the source at work.

    >>> from lowregret import PolyaUrn, matching, robustify
    >>> from lowregret.evaluate import adversaries
    >>> from lowregret.predictors import Scheduled
    >>> heads, tails = Scheduled([[0.2, 0.8]]), Scheduled([[0.8, 0.2]])
    >>> players = {"model": heads, "robust": robustify(heads, matching(), 200), "urn": PolyaUrn(2)}
    >>> sources = {"as told": heads, "not": tails, "zeros": [0] * 200, "greedy": adversaries.greedy}
    >>> print(compare(players, sources, matching(), horizon=200, n=100, seed=0).table())
    Mean regret ± standard error after 200 steps, 1 to 100 sequences a source (median switch time)
    source             model                robust              urn
    as told  +0.0001 ±0.0000       +0.0001 ±0.0000  +0.0056 ±0.0004
    not      +0.5977 ±0.0058  +0.0404 ±0.0005 (12)  +0.0050 ±0.0003
    zeros            +0.9998           +0.0350 (7)          +0.0026
    greedy           +0.9998           +0.0615 (7)          +0.0341
    """
    a_problem(problem)
    if progress is not None:
        inputs.function(progress, "progress", "a share and two names")
    horizon = inputs.whole(horizon, "horizon")
    players = {name: _player(name, player, problem, horizon) for name, player in _named(predictors, "predictors")}
    homes = {name: home(player) for name, player in players.items()}
    laws = {name: _source(name, law, problem, horizon) for name, law in _named(sources, "sources")}
    sampled = any(_is_sampled(law) for law in laws.values())
    if sampled or n is not None:
        n = inputs.whole(n, "n", least=2)
    if sampled or seed is not None:
        inputs.generator(seed)
    kept = {source: {name: _Kept(horizon) for name in players} for source in laws}
    for w, (source, law) in enumerate(laws.items()):
        of_player = kept[source]
        if _adapts(law):
            for i, (name, player) in enumerate(players.items()):
                if progress is not None:
                    progress((w + i / len(players)) / len(laws), name, source)
                own_NxT = _found(source, law, player, problem, horizon)
                tokens = inputs.tokens_of(own_NxT, problem.n_states, like=homes[name])
                of_player[name].enter(*_play(player, problem, tokens, [slice(0, len(own_NxT))], {}))
            counts = {name: of_player[name].n for name in players}
            if len(set(counts.values())) > 1:
                raise ValueError(
                    f"sources[{source!r}] must find as many sequences for every player, got {inputs.shown(counts)}"
                )
            continue
        size, done = len(law) if isinstance(law, np.ndarray) else n or 0, 0
        for tokens_NxT in _batches(law, horizon, size, problem.n_states, seed):
            for begin in range(0, len(tokens_NxT), _TOGETHER):
                some_NxT = tokens_NxT[begin : begin + _TOGETHER]
                parts = list(row_blocks(len(some_NxT), horizon * problem.n_states, some_NxT))
                said: dict[tuple[int, int], Array] = {}  # by who said it, and by the first row of the part
                for i, (name, player) in enumerate(players.items()):
                    if progress is not None:
                        progress((w + (done + i / len(players)) / size) / len(laws), name, source)
                    for together in [parts] if _is_asked_step_by_step(player) else [[part] for part in parts]:
                        rows = slice(together[0].start, together[-1].stop)
                        tokens = inputs.tokens_of(some_NxT[rows], problem.n_states, like=homes[name])
                        of_player[name].enter(*_play(player, problem, tokens, together, said))
                done += len(some_NxT)
    return _compared(kept, problem, horizon, n, seed, laws)


class _Kept:
    """What is kept of one player on one source: mean and spread of every prefix, and what each sequence came to."""

    def __init__(self, horizon: int) -> None:
        self.n, self.mean_T, self.spread_T = 0, np.zeros(horizon), np.zeros(horizon)
        self._final: list[np.ndarray] = []
        self._times: list[np.ndarray] = []

    def enter(self, regret_NxT: np.ndarray, times_N: np.ndarray | None) -> None:
        """Take in more sequences; ``spread`` is the sum of squares about the mean."""
        rows, own_T = len(regret_NxT), regret_NxT.mean(axis=0)
        drift_T = own_T - self.mean_T
        self.spread_T += ((regret_NxT - own_T) ** 2).sum(axis=0) + drift_T**2 * (self.n * rows / (self.n + rows))
        self.mean_T += drift_T * (rows / (self.n + rows))
        self.n += rows
        self._final.append(regret_NxT[:, -1].astype(np.float64))
        self._times.append(np.zeros(rows, dtype=np.int64) if times_N is None else times_N)

    @property
    def error_T(self) -> np.ndarray:
        """The standard error of the mean; 0 for one sequence."""
        return np.sqrt(self.spread_T / max(self.n - 1, 1) / self.n)

    @property
    def final_N(self) -> np.ndarray:
        return np.concatenate(self._final)

    @property
    def times_N(self) -> np.ndarray:
        """0 where the player cannot switch."""
        return np.concatenate(self._times)


def _compared(
    kept: dict[str, dict[str, _Kept]], problem: DecisionProblem, horizon: int, n: Any, seed: Any, laws: dict[str, Any]
) -> Comparison:
    """What was kept, player by player, as one value."""
    players = tuple(next(iter(kept.values())))
    each = [[kept[source][name] for source in kept] for name in players]
    regret_PxWxT = np.array([[one.mean_T for one in row] for row in each])
    error_PxWxT = np.array([[one.error_T for one in row] for row in each])
    half_PxW = error_PxWxT[..., -1] * [_student(one.n) for one in each[0]]
    times_WxPxN = tuple(np.stack([of_player[name].times_N for name in players]) for of_player in kept.values())
    can_PxW = np.stack([times_PxN.all(axis=1) for times_PxN in times_WxPxN], axis=-1)
    median_PxW = np.stack([np.median(times_PxN, axis=1) for times_PxN in times_WxPxN], axis=-1)
    share_PxW = np.stack([(times_PxN < horizon).mean(axis=1) for times_PxN in times_WxPxN], axis=-1)
    return Comparison(
        predictors=players,
        sources=tuple(kept),
        problem=problem,
        horizon=horizon,
        n=n,
        regret_PxWxT=regret_PxWxT,
        error_PxWxT=error_PxWxT,
        low_PxW=regret_PxWxT[..., -1] - half_PxW,
        high_PxW=regret_PxWxT[..., -1] + half_PxW,
        switch_PxW=np.where(can_PxW, median_PxW, np.nan),
        switched_PxW=np.where(can_PxW, share_PxW, np.nan),
        final_WxPxN=tuple(np.stack([of_player[name].final_N for name in players]) for of_player in kept.values()),
        times_WxPxN=times_WxPxN,
        adaptive=tuple(source for source, law in laws.items() if _adapts(law)),
        seed=None if seed is None or isinstance(seed, np.random.Generator) else int(seed),
        version=import_module(__package__.partition(".")[0]).__version__,  # imported later than this file
    )


def _is_sampled(law: Any) -> bool:
    return hasattr(law, "predict_sequence")


def _adapts(law: Any) -> bool:
    return callable(law) and not _is_sampled(law)


def _source(name: str, law: Any, problem: DecisionProblem, horizon: int) -> Any:
    """A predictor to sample, sequences ``[N, T]``, or an adversary; anything else is refused."""
    where = f"sources[{name!r}]"
    if _is_sampled(law):
        _same_states(where, law, problem)
        return law
    if isinstance(law, (list, tuple)) or hasattr(law, "shape"):
        return _sequences(where, law, problem, horizon)
    if not callable(law) or isinstance(law, type):
        raise ValueError(
            f"{where} must be a Predictor, sequences of states, or an adversary such as adversaries.greedy, "
            f"got {type(law).__name__}"
        )
    return law


def _sequences(where: str, tokens: Any, problem: DecisionProblem, horizon: int) -> np.ndarray:
    tokens = to_numpy(inputs.sequences_of(tokens, problem.n_states, where))
    if tokens.ndim > 2 or tokens.shape[-1] != horizon or not tokens.size:
        raise ValueError(f"{where} must be sequences of {horizon} states, [T] or [N, T], got shape {tokens.shape}")
    return tokens.reshape(-1, horizon)


def _found(source: str, adversary: Any, player: Policy, problem: DecisionProblem, horizon: int) -> np.ndarray:
    """The sequences with which an adversary meets this player, ``[N, T]``."""
    found = adversary(player, problem, horizon)
    return _sequences(f"what sources[{source!r}] found", getattr(found, "tokens", found), problem, horizon)


def _batches(law: Any, horizon: int, n: int, n_states: int, seed: Any) -> Iterator[Array]:
    """The sequences of a source that all players meet, a batch at a time."""
    if isinstance(law, np.ndarray):
        yield law
        return
    rng = inputs.generator(seed)
    for rows in batches(n, horizon, n_states):
        yield sample(law, horizon, rows, rng)


def _is_asked_step_by_step(player: Policy) -> bool:
    """It then plays all rows at once; in a pass over all steps few at a time are quicker."""
    if not isinstance(player, Respond):
        return True
    return isinstance(player.predictor, Robust) and isinstance(player.predictor.setting.fallback, Recovery)


def _play(
    player: Policy,
    problem: DecisionProblem,
    tokens: Array,
    parts: Sequence[slice],
    said: dict[tuple[int, int], Array],
) -> tuple[np.ndarray, np.ndarray | None]:
    """The regret of every prefix and the switch times (None: it never switches); a base model is asked once."""
    if not isinstance(player, Respond):
        return to_numpy(external_regret(problem, player, tokens)), None

    def laws(predictor: Predictor) -> Array:
        for part in parts:
            if (id(predictor), part.start) not in said:
                rows = slice(part.start - parts[0].start, part.stop - parts[0].start)
                said[id(predictor), part.start] = asked_sequence(predictor, tokens[rows])
        found = [said[id(predictor), part.start] for part in parts]
        return found[0] if len(found) == 1 else namespace(tokens).concat(found)

    predictor, times = player.predictor, None
    if isinstance(predictor, Robust):
        probs, times = predictor.replaced(laws(predictor.base), tokens)
    else:
        probs = laws(predictor)
    regret = external_regret(problem, player.respond_to(probs, count_up(tokens, 1, tokens.shape[-1] + 1)), tokens)
    return to_numpy(regret), None if times is None else to_numpy(times)


def _player(name: str, player: Any, problem: DecisionProblem, horizon: int) -> Policy:
    where = f"predictors[{name!r}]"
    within_window(getattr(player, "predictor", player), horizon, where)
    if hasattr(player, "policy_sequence"):
        same_problem(f"{where} acts in another problem", player.problem, problem)
        return player
    _same_states(where, player, problem)
    if not isinstance(player, Robust):
        return Respond(player, problem, 1 / math.sqrt(horizon))
    if player.problem is not None:
        same_problem(f"{where} is robust for another problem", player.problem, problem)
    if player.horizon is not None and player.horizon < horizon:
        raise ValueError(f"{where} is robust for {player.horizon} steps, horizon is {horizon}")
    if player.problem is not None:
        return Respond(player, problem, player.temperature)
    try:
        return player.respond(problem)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _same_states(where: str, predictor: Any, problem: DecisionProblem) -> None:
    if not hasattr(predictor, "predict_sequence"):
        raise ValueError(f"{where} must be a Predictor, got {type(predictor).__name__}")
    try:
        same_states(predictor, problem)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _named(things: Any, name: str) -> Sequence[tuple[str, Any]]:
    if not isinstance(things, Mapping) or not things:
        raise ValueError(
            f"{name} must be a dict from names to what they name, with at least one, got {inputs.shown(things)}"
        )
    return list(things.items())


def _student(n: int) -> float:
    """How many standard errors the 95% interval of a mean of ``n`` reaches to either side; 0 for one."""
    from scipy.special import stdtrit

    return 0.0 if n == 1 else float(stdtrit(n - 1, 0.975))


def _text(cell: Cell) -> str:
    error = "" if cell.n == 1 else f" ±{cell.error:.4f}"
    switch = "" if cell.switch is None else f" ({cell.switch:.0f})"
    return f"{cell.regret.value:+.4f}{error}{switch}"


def _signed(apart: Estimate) -> str:
    interval = "" if apart.low == apart.high else f" ({apart.low:+.4f} to {apart.high:+.4f})"
    return f"{apart.value:+.4f}{interval}"


def _tex(cell: Cell) -> str:
    error = "" if cell.n == 1 else rf"\pm {cell.error:.4f}"
    return f"${cell.regret.value:.4f}{error}$"
