"""Predictors x sources (Section 5.2.1): regret of every prefix, and when the robust ones switched."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import inputs, plots
from .arrays import Array, count_up, frozen, namespace, row_blocks, to_numpy
from .distances import Estimate, batches, home
from .policies import Policy, Respond
from .predictors import Predictor, asked_sequence, same_states, sample, within_window
from .problems import DecisionProblem, a_problem, same_problem
from .regret import external_regret
from .robust import Robust
from .tables import Table

_TOGETHER = 1024  # sequences: what is asked step by step takes hardly longer on so many than on one


class Cell(NamedTuple):
    """One player on one source, at the horizon."""

    predictor: str
    source: str
    regret: Estimate  # mean over sequences
    error: float  # its standard error
    switch: float | None  # the median switch time; None: no more than half switched, or it never can
    switched: float | None  # the share of sequences that switched in time to change a prediction; None: it never can


@dataclass(frozen=True, eq=False)
class Comparison:
    """What ``compare`` found: average regrets in utility, P players on W sources, after each of T steps."""

    predictors: tuple[str, ...]
    sources: tuple[str, ...]
    problem: DecisionProblem
    horizon: int
    n: int
    regret_PxWxT: np.ndarray  # the mean over sequences, of every prefix
    error_PxWxT: np.ndarray  # its standard error
    low_PxW: np.ndarray  # the 95% interval (Student's t) of the mean at the horizon
    high_PxW: np.ndarray
    switch_PxW: np.ndarray  # median switch time, T + 1 for never; NaN where the player cannot switch
    switched_PxW: np.ndarray  # share of sequences switched before the horizon; NaN likewise

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                frozen(array)

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
                found.append(Cell(predictor, source, regret, error, switch, inputs.finite_or_none(share)))
        return tuple(found)

    def table(self) -> Table:
        """Mean final regret with its standard error, and the median switch time in brackets: prints aligned."""
        grid = {(cell.source, cell.predictor): cell for cell in self.cells}
        rows = [(w, *(_text(grid[w, p]) for p in self.predictors)) for w in self.sources]
        title = f"Mean regret ± standard error after {self.horizon} steps, {self.n} sequences a source"
        return Table(f"{title} (median switch time)", ("source", *self.predictors), tuple(rows))

    def plot(self) -> Any:
        """The regret curves with their 95% bands (needs matplotlib)."""
        return plots.regret_curves(self)

    def to_json(self) -> str:
        """Everything as JSON: the final numbers by cell, and the curves ``[source][predictor][step]``."""

        def curves(values_PxWxT: np.ndarray) -> dict[str, dict[str, list[float]]]:
            return {
                w: {p: values_PxWxT[i, j].round(7).tolist() for i, p in enumerate(self.predictors)}
                for j, w in enumerate(self.sources)
            }

        # `switch` is None for a player who cannot switch and for one who seldom did; `median` tells them apart.
        medians = [inputs.finite_or_none(float(median)) for median in self.switch_PxW.T.ravel()]
        cells = [{**cell._asdict(), "regret": cell.regret._asdict()} for cell in self.cells]
        cells = [{**cell, "median": median} for cell, median in zip(cells, medians, strict=True)]
        return json.dumps(
            {
                "format": 1,
                "horizon": self.horizon,
                "n": self.n,
                "utility": self.problem.utility.tolist(),
                "actions": self.problem.actions,
                "states": self.problem.states,
                "cells": cells,
                "regret": curves(self.regret_PxWxT),
                "standard_error": curves(self.error_PxWxT),
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
        )


def compare(
    predictors: Mapping[str, Predictor | Policy],
    sources: Mapping[str, Predictor],
    problem: DecisionProblem,
    horizon: int,
    n: int,
    seed: int | np.random.Generator,
    *,
    progress: Callable[[float, str, str], None] | None = None,
) -> Comparison:
    """Play every predictor on ``n`` sequences from every source: regret curves, final regret, switch times.

    The table has standard errors; ``Cell.regret`` has the 95% interval (Student's t), and the plot 95% bands.

    Parameters
    ----------
    predictors
        By name. A policy plays as it is; a predictor is responded to, at its rule's temperature if it is robust and at
        1/sqrt(horizon) if not.
    sources
        By name; each is sampled with the same seed, and all players see the same sequences.
    progress
        Called now and then with the share of the work done and the names of the player and the source at work.

    >>> from lowregret import PolyaUrn, matching, robustify
    >>> from lowregret.predictors import Scheduled
    >>> heads, tails = Scheduled([[0.2, 0.8]]), Scheduled([[0.8, 0.2]])
    >>> players = {"model": heads, "robust": robustify(heads, matching(), 200), "urn": PolyaUrn(2)}
    >>> print(compare(players, {"as told": heads, "not": tails}, matching(), horizon=200, n=100, seed=0).table())
    Mean regret ± standard error after 200 steps, 100 sequences a source (median switch time)
    source             model                robust              urn
    as told  +0.0001 ±0.0000       +0.0001 ±0.0000  +0.0056 ±0.0004
    not      +0.5977 ±0.0058  +0.0404 ±0.0005 (12)  +0.0050 ±0.0003
    """
    a_problem(problem)
    if progress is not None:
        inputs.function(progress, "progress", "a share and two names")
    horizon, n = inputs.whole(horizon, "horizon"), inputs.whole(n, "n", least=2)
    players = {name: _player(name, player, problem, horizon) for name, player in _named(predictors, "predictors")}
    homes = {name: home(player) for name, player in players.items()}
    shape = (len(players), len(_named(sources, "sources")))
    mean, spread = np.zeros((*shape, horizon)), np.zeros((*shape, horizon))
    times = np.full((*shape, n), -1)
    for w, (source, law) in enumerate(sources.items()):
        _same_states(f"sources[{source!r}]", law, problem)
        rng, done = inputs.generator(seed), 0
        for batch in batches(n, horizon, problem.n_states):
            tokens_NxT = sample(law, horizon, batch, rng)
            for begin in range(0, batch, _TOGETHER):
                some_NxT = tokens_NxT[begin : begin + _TOGETHER]
                parts = list(row_blocks(len(some_NxT), horizon * problem.n_states, some_NxT))
                said: dict[tuple[int, int], Array] = {}  # by who said it, and by the first row of the part
                for i, (name, player) in enumerate(players.items()):
                    if progress is not None:
                        progress((w + (done + i / len(players)) / n) / len(sources), name, source)
                    for together in [parts] if _is_asked_step_by_step(player) else [[part] for part in parts]:
                        rows = slice(together[0].start, together[-1].stop)
                        tokens = inputs.tokens_of(some_NxT[rows], problem.n_states, like=homes[name])
                        regret_NxT, tripped = _play(player, problem, tokens, together, said)
                        if tripped is not None:
                            times[i, w, done + rows.start : done + rows.stop] = tripped
                        _merge(mean[i, w], spread[i, w], done + rows.start, regret_NxT)
                done += len(some_NxT)
    error = np.sqrt(spread / (n - 1) / n)
    half = _student(n) * error[..., -1]
    can = times[..., 0] >= 0
    return Comparison(
        predictors=tuple(players),
        sources=tuple(sources),
        problem=problem,
        horizon=horizon,
        n=n,
        regret_PxWxT=mean,
        error_PxWxT=error,
        low_PxW=mean[..., -1] - half,
        high_PxW=mean[..., -1] + half,
        switch_PxW=np.where(can, np.median(times, axis=-1), np.nan),
        switched_PxW=np.where(can, (times < horizon).mean(axis=-1), np.nan),
    )


def _is_asked_step_by_step(player: Policy) -> bool:
    """It then plays all rows at once; in a pass over all steps few at a time are quicker."""
    if not isinstance(player, Respond):
        return True
    return isinstance(player.predictor, Robust) and player.predictor.rule.in_play.follows


def _merge(mean_T: np.ndarray, spread_T: np.ndarray, done: int, values_NxT: np.ndarray) -> None:
    """Take more rows into a mean over ``done`` rows and the sum of squares about it, in place."""
    rows, own_T = len(values_NxT), values_NxT.mean(axis=0)
    drift_T = own_T - mean_T
    spread_T += ((values_NxT - own_T) ** 2).sum(axis=0) + drift_T**2 * (done * rows / (done + rows))
    mean_T += drift_T * (rows / (done + rows))


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
        probs, times = predictor.rule.replaced(laws(predictor.base), tokens)
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
    if player.rule.problem is not None:
        same_problem(f"{where} is robust for another problem", player.rule.problem, problem)
    if player.rule.horizon is not None and player.rule.horizon < horizon:
        raise ValueError(f"{where} is robust for {player.rule.horizon} steps, horizon is {horizon}")
    return Respond(player, problem, player.rule.temperature)


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
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975))


def _text(cell: Cell) -> str:
    switch = "" if cell.switch is None else f" ({cell.switch:.0f})"
    return f"{cell.regret.value:+.4f} ±{cell.error:.4f}{switch}"
