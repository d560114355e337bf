"""The audit of a log: pass one deals its rows out by stream, pass two judges the streams, then results are added up."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from .. import files, inputs
from ..engine.loop import warm_up
from ..forecasts.contract import needs_knots
from ..problems import DecisionProblem, Payoff, a_problem, as_lines
from .cells import Refused
from .columns import alone_told, passed_on, passed_told, shared
from .frames import is_frame
from .judging import AuditSettings, guard_of, judged
from .laws import tolerance_of
from .logs import Log, log_at, record_of
from .playing import PLAYERS, YARDSTICKS
from .report import Audit, problem_told
from .result import BEST, BEST_OF_ALL
from .spool import HELD, Counted, Spool
from .tables import Table
from .times import unix_told

_FLOATS = 15  # numbers per state and action that judging a step takes, and more
_SMALL = 1_000_000  # rows: up to here the fallback plays alone as well, by default
Told = Callable[[str, int, int], None]  # what is being done, and how many rows of how many


def audit_log(
    log: Any,
    problem: DecisionProblem | Payoff,
    *,
    delta: float = 0.05,
    temperature: float = 0.0,
    horizon: int | None = None,
    family_delta: bool = False,
    fdr: float = 0.1,
    tolerance: float = inputs.SUM_TOLERANCE,
    columns: Mapping[str, Any] | None = None,
    fallback: bool | None = None,
    events: bool | None = None,
    test: bool = True,
    lag: int | None = None,
    currency: str | None = None,
    jobs: int = 2,
    engine: str = "local",
    told: Told | None = None,
) -> Audit:
    """The backtest of every stream of a log on a disk, in memory that does not grow with it.

    Parameters
    ----------
    log
        A file (text, Parquet, Feather, a workbook) or a folder of one kind; or a frame, a relation of DuckDB, or
        anything else that hands over its columns by Arrow. Rows in any order.
    problem
        What is at stake; a ``Payoff`` with knots where the log has quantiles of a number.
    delta, temperature
        As ``Guard`` takes them; ``family_delta`` divides delta by the number of streams.
    horizon
        The longest stream by default.
    fdr
        The largest share of ``Audit.survivors`` that may be named wrongly, on average.
    tolerance
        How far probabilities may be from summing to one, 0.1 at most; those further off than 1e-6 are renormalised and
        counted.
    columns
        As ``backtest`` takes them, with what else was known before the state (``docs/reference/audit-settings.md``).
    fallback
        Whether to play the fallback alone too; by default on logs of up to a million rows.
    events
        Whether to say since when the model of a stream that switched was wrong, and how often it returned; by default
        likewise.
    test
        As ``Guard`` takes it: without a test the mixture is played from the first step on.
    lag
        How late outcomes were known, in steps: 1 is before the next step. None: the same, but where the model's errors
        look as if they were known later, ``Audit.warnings`` says so, and what the guard would then have earned.
        ``columns={"known_at": NAME}`` instead says when each outcome was known: the guard of a stream then has the lag
        of its latest one.
    currency
        The unit of the payoffs, for the answer in words: "euros", "$", "USD".
    jobs, engine
        How many processes; "ray" takes those of a Ray cluster (extra: ``ray``).
    told
        Called with the stage, how many rows are done, and of how many.
    """
    if isinstance(problem, Payoff):
        needs_knots(problem, "Quantiles")
        problem = as_lines(problem)
    else:
        a_problem(problem)
    test, tolerance = inputs.flag(test, "test"), tolerance_of(tolerance)
    fdr, jobs = inputs.probability(fdr, "fdr"), inputs.whole(jobs, "jobs")
    delta, temperature = inputs.probability(delta, "delta"), inputs.not_negative(temperature, "temperature")
    inputs.choice(engine, "engine", ("local", "ray"))
    lag, currency = None if lag is None else inputs.whole(lag, "lag"), _currency_of(currency)
    if lag is not None and isinstance(columns, Mapping) and columns.get("known_at") is not None:
        raise ValueError(
            f"lag or known_at says how late outcomes were, not both, got {lag} and {columns['known_at']!r}"
        )
    source = log if isinstance(log, Table) or is_frame(log) else files.a_path(log)
    found = log_at(source, problem, dict(columns) if isinstance(columns, Mapping) else columns)
    if found.contexts != ():
        guard_of(problem, 2, delta, temperature, lag or 1, found.tells, test)  # what goes with what
    told = told or (lambda *_: None)

    def settled(counted: Counted) -> tuple[AuditSettings, dict[str, Any]]:
        if found.columns.stream and found.columns.guesses is not None and not shared(counted.rows, counted.single):
            raise _Unshared
        _refuse_long(found, problem, counted.longest)
        whole = inputs.horizon_or_none(horizon) or counted.longest
        if whole < counted.longest:
            raise ValueError(f"horizon must last for the longest stream, {counted.longest} steps, got {whole}")
        each = delta / counted.streams if family_delta else delta
        plays = counted.rows <= _SMALL if fallback is None else inputs.flag(fallback, "fallback")
        tells = counted.rows <= _SMALL if events is None else inputs.flag(events, "events")
        level = max(1 / each, counted.streams / fdr)
        settings = AuditSettings(
            *(problem, whole, each, temperature, level, plays, tells),
            *(counted.steps, found.columns.every, alone_told(found.columns), lag, _beyond(counted.streams)),
            *(found.columns, found.tells, test),
        )
        about = {
            "log": [[Path(table.where).name, table.size] for table in found.tables],
            "columns": found.columns.about,
            "notes": [
                *passed_told(found.columns),
                *found.notes,
                *unix_told(found.columns.order, counted.steps),
                *_made_told(found.columns.cutoff),
            ],
            **counted._asdict(),
            "horizon": whole,
            "delta": each,
            "temperature": temperature,
            "family_delta": family_delta,
            "lag": lag,
            "currency": currency,
            "fdr": fdr,
            "tolerance": tolerance,
            "events": tells,
            "tells": found.tells._asdict(),
            "test": test,
            "players": [
                *(name for name in PLAYERS if plays or name != "fallback"),
                *(*YARDSTICKS, *found.tells.players(), BEST),
                *([BEST_OF_ALL] if found.tells.references or found.tells.contexts else []),
            ],
            "grid": settings.grid.tolist(),
            "problem": problem_told(problem),
        }
        return settings, about

    while True:
        if found.exact and found.columns.stream is None:
            _refuse_long(found, problem, found.rows)
        try:
            if engine == "local":
                return _here(found, problem, tolerance, jobs, settled, told)
            from .cluster import on_ray

            return Audit(*on_ray(found, problem, tolerance, jobs, settled, told))
        except _Unshared:
            found = found._replace(columns=passed_on(found.columns))


def _made_told(cutoff: str | None) -> tuple[str, ...]:
    if cutoff is None:
        return ()
    return (
        f"when forecasts were made ({cutoff}) is not used: forecasts made more than one step ahead did not "
        "know the outcome of the step before, so the chance of a false alarm may be larger than stated",
    )


def _currency_of(currency: Any) -> str | None:
    if currency is None or (isinstance(currency, str) and not currency.strip()):
        return None
    if not isinstance(currency, str) or len(currency) > 20 or not currency.isprintable():
        raise ValueError(f"currency must be a short text such as euros, $ or USD, got {inputs.shown(currency)}")
    return currency.strip()


def _beyond(streams: int) -> float:
    """How many standard errors count as beyond chance: without late outcomes, one audit in a thousand warns of them."""
    return NormalDist().inv_cdf(1 - 0.001 / streams)


class _Unshared(Exception):
    """The column that was taken for the stream hardly repeats."""


def _refuse_long(log: Log, problem: DecisionProblem | Payoff, steps: int) -> None:
    """Refuse a stream that cannot be judged: all of it is held at once."""
    n_bytes = _FLOATS * float(record_of(problem, log.columns).itemsize + 8 * problem.n_actions) * steps
    _room(log, lambda: files.in_memory(n_bytes, f"a stream of {steps:,} steps"))


def _room(log: Log, asked: Callable[[], None]) -> None:
    try:
        asked()
    except ValueError as error:
        raise Refused(log.paths[0], None, str(error)) from error


def _here(
    log: Log,
    problem: DecisionProblem | Payoff,
    tolerance: float,
    jobs: int,
    settled: Callable[[Counted], tuple[AuditSettings, dict[str, Any]]],
    told: Told,
) -> Audit:
    """The audit by threads or processes of this machine."""
    warm_up()  # as other processes do: the last bit depends on what is compiled
    large = jobs > 1 and log.rows * record_of(problem, log.columns).itemsize > HELD  # it will go to the disk
    with tempfile.TemporaryDirectory(prefix="lowregret-audit-") as folder, _started(jobs if large else 0) as pool:
        spool, read = Spool(log, problem, Path(folder)), 0
        if log.exact and (n_bytes := spool.on_disk_at_most):
            _room(log, lambda: files.on_disk(n_bytes, f"a copy of {log.rows:,} rows", Path(folder)))

        def heard(rows: int) -> None:
            nonlocal read
            read += rows
            told("reading", read, max(log.rows, read))

        counted = spool.fill(tolerance, jobs, heard)
        settings, about = settled(counted)
        parts, done = {}, 0
        for p, result in _judged(log, spool, settings, jobs, pool):
            parts[p] = result
            done += int(spool.rows_P[p])
            told("judging", done, counted.rows)
    return Audit(about, {p: parts[p] for p in sorted(parts)})


def _started(jobs: int) -> AbstractContextManager[ProcessPoolExecutor | None]:
    """Processes that import what they need while the log is read; none for no jobs."""
    return files.processes(jobs, _ready) if jobs else nullcontext()


def _ready() -> None:
    """Running it imports this file and compiles what is compiled."""
    warm_up()


def _judged(
    log: Log, spool: Spool, settings: AuditSettings, jobs: int, pool: ProcessPoolExecutor | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The partitions one by one; a log that went to the disk by several processes."""
    if jobs == 1 or not spool.on_disk:
        with ThreadPoolExecutor(jobs) as threads:  # what takes time lets others run beside it
            work = [
                threads.submit(lambda p: judged(settings, spool.names_of(p), spool.taken(p), log.where), p)
                for p in range(log.partitions)
            ]
            try:
                yield from ((p, one.result()) for p, one in zip(range(log.partitions), work, strict=True))
            finally:
                threads.shutdown(cancel_futures=True)
        return
    spool.to_disk()
    with nullcontext(pool) if pool is not None else _started(jobs) as workers:
        assert workers is not None
        told = log._replace(tables=tuple(Table(path) for path in log.paths))  # rows in memory stay here
        asked = {
            p: workers.submit(judge_file, settings, spool.names_of(p), spool.file(p), told)
            for p in range(log.partitions)
        }
        for p in range(log.partitions):
            yield p, asked.pop(p).result()


def judge_file(settings: AuditSettings, names: dict[int, str], path: Path, log: Log) -> dict[str, Any]:
    """``judged`` of the rows in a file."""
    record = record_of(settings.problem, log.columns)
    records = np.fromfile(path, dtype=record) if path.exists() else np.zeros(0, dtype=record)
    return judged(settings, names, records, log.where)
