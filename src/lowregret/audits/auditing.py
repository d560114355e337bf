"""The audit of a log: read, checked, judged stream by stream, and added up."""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..forecasts.contract import needs_knots
from ..problems import DecisionProblem, Payoff, a_problem, as_lines
from ..tables import Table as Printed
from . import answer as words
from .cluster import on_ray
from .columns import found_columns
from .parts import POINTS, Summary, Whole, dealt, judged_table
from .reading import Log, log_of
from .settings import AuditSettings
from .table import notes_of
from .times import together

Progress = Callable[[str, int, int], object]  # what is being done, how many rows are done, and of how many


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found: a row per stream in ``streams``, and what is drawn of all of them."""

    settings: AuditSettings
    problem: DecisionProblem | Payoff
    source: str
    columns: dict[str, Any]
    streams: pl.DataFrame
    players: tuple[str, ...]
    reliability: np.ndarray
    levels: tuple[float, ...]
    curves: dict[str, np.ndarray]
    at_P: np.ndarray
    certificate: Any
    unit: str
    first: str | None
    last: str | None
    notes: tuple[str, ...]

    @cached_property
    def totals(self) -> dict[str, float]:
        """Payoff in total by player, over all streams; each sum is the exact one, rounded once."""
        return {player: math.fsum(self.streams[player]) for player in self.players}

    @cached_property
    def steps(self) -> int:
        """Steps with an outcome, of all streams together."""
        return int(self.streams["steps"].sum())

    @property
    def earned(self) -> dict[str, float]:
        """Payoff per step by player."""
        return {player: total / self.steps for player, total in self.totals.items()}

    @property
    def alarms(self) -> int:
        """How many streams had an alarm."""
        return int(self.streams["alarm"].count())

    @property
    def allowed(self) -> float:
        """The most streams that have an alarm on average if every model is right."""
        return self.settings.delta * len(self.streams)

    @property
    def named(self) -> tuple[str, ...]:
        """Streams whose alarm survives e-BH: on average at most a share ``fdr`` of them is named wrongly."""
        return tuple(self.streams.filter("named").sort("log_e", "stream", descending=[True, False])["stream"])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on the answer."""
        return (*words.warnings(self), *self.notes)

    @cached_property
    def verdict(self) -> words.Verdict:
        """Whether the models are still right, what that cost, and what to do."""
        return words.verdict(self)

    @property
    def answer(self) -> str:
        """The verdict in a few sentences."""
        return f"{self.verdict.headline} {self.verdict.advice}"

    def table(self) -> Printed:
        """The answer, the warnings, and what each player earned."""
        return words.table(self)

    def report(self) -> str:
        """All that the command prints."""
        return words.report(self)

    def to_json(self) -> str:
        """Everything but the curves."""
        told = ("answer", "warnings", "unit", "first", "last", "totals", "earned", "alarms", "allowed", "named")
        found = {
            "kind": "lowregret audit",
            "log": self.source,
            "columns": self.columns,
            "settings": {name: value for name, value in vars(self.settings).items() if name != "columns"},
            **{name: getattr(self, name) for name in told},
            "regret_bound": self.certificate.regret_bound,
            "regret_bound_in_payoffs": self.certificate.regret_bound_in_payoffs,
            "streams": self.streams.to_dicts(),
        }
        return json.dumps(found, indent=1)


def audit(
    log: Any, problem: DecisionProblem | Payoff, *, progress: Progress = lambda *_: None, **settings: Any
) -> Audit:
    """What acting on the model of every stream of a log earned, guarded and not.

    The guard of each stream is made for its own length, so that its alarm does not depend on other streams; or for the
    ``horizon`` that is asked for.

    Parameters
    ----------
    log
        A file (text, Parquet, NDJSON, Feather), a glob, a folder, several paths; or a frame. Rows in any order.
    problem
        What is at stake; a ``Payoff`` with knots where the log has quantiles of a number.
    progress
        Called with the stage, how many rows are done, and of how many.
    settings
        Fields of ``AuditSettings``.
    """
    how = AuditSettings(**settings)
    if isinstance(problem, Payoff):
        needs_knots(problem, "Quantiles")
        problem = as_lines(problem)
    else:
        a_problem(problem)
    source = log_of(log)
    found = found_columns(source, problem, how.columns)
    progress("reading", 0, 0)
    done = 0

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        progress("judging", done, whole.rows)

    with tempfile.TemporaryDirectory(prefix="lowregret-audit-") as folder:
        if how.cluster:
            whole, parts = on_ray(source, found, problem, how, tell)
        else:
            whole, tables = dealt(source, found, problem, how, Path(folder))
            parts = (judged_table(table, problem, how, whole, tell) for table in tables)
        if how.horizon is not None and how.horizon < whole.longest:
            raise ValueError(f"horizon must last for the longest stream, {whole.longest} steps, got {how.horizon}")
        tell(0)
        return _together(source, problem, how, whole, list(parts))


def survivors(streams: pl.DataFrame, fdr: float) -> pl.Series:
    """Which alarms survive e-BH: on average at most a share ``fdr`` of these streams have a model that is right."""
    ranked = streams.filter(pl.col("alarm").is_not_null()).sort("log_e", "stream", descending=[True, False])
    enough = np.log(len(streams) / (fdr * np.arange(1, len(ranked) + 1)))
    last = int(np.flatnonzero(np.append(True, ranked["log_e"].to_numpy() >= enough))[-1])
    return streams["stream"].is_in(ranked["stream"].head(last).implode())


def _together(log: Log, problem: Any, how: AuditSettings, whole: Whole, parts: Sequence[Summary]) -> Audit:
    """The parts of an audit, added up."""
    rhythms, counts = together([part.rhythms for part in parts]), Counter[str]()
    for part in parts:
        counts.update(part.counts)
    found, parts = parts[0].found, [part for part in parts if part.money]
    streams = pl.concat([part.streams for part in parts]).sort("stream")
    place = streams.columns.index("log_e") + 1
    streams = streams.insert_column(place, survivors(streams, how.fdr).alias("named"))
    notes = [*notes_of(found, rhythms, counts)]
    if share := float((streams["missing"] / (streams["steps"] + streams["missing"])).to_numpy().max()):
        risk = share * float(problem.regret_in_payoffs(problem.span))
        notes.append(f"missing outcomes add up to {risk:.4g} per step to what is guaranteed of a stream")
    if how.horizon is not None:
        notes.append(f"every guard is made for {how.horizon:,} steps, as requested")
    ends = [end for part in parts for end in part.ends]
    scale = np.linspace(whole.first, whole.last, POINTS + 1)[1:]
    return Audit(
        settings=how,
        problem=problem,
        source=log.files,
        columns=found.about,
        streams=streams,
        players=tuple(parts[0].money),
        reliability=np.sum([part.reliability for part in parts], axis=0),
        levels=found.values.levels,
        curves={name: np.cumsum(sum(part.money[name] for part in parts)) for name in parts[0].money},
        at_P=scale.astype(np.int64).astype("datetime64[ns]") if whole.is_dated else scale,
        certificate=max((own for part in parts for own in part.certificates), key=lambda own: own.regret_bound),
        unit=rhythms.unit,
        first=min(ends)[1] if ends else None,
        last=max(ends)[1] if ends else None,
        notes=tuple(notes),
    )
