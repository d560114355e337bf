"""The audit on a Ray cluster (extra: ``ray``): the same two passes as tasks, the same numbers to the last bit.

Tasks of pass one read a fragment of the log each and deal its rows out by stream; tasks of pass two gather a partition
and judge it. Ray runs again what was lost with a worker, and results go by partition: none is lost or counted twice.
"""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ..engine.loop import warm_up
from ..problems import DecisionProblem, Payoff
from .cells import Refused
from .judging import AuditSettings, judged
from .logs import Fragment, Log, StreamNumbers, partition_of, record_of, records_in
from .spool import Counted, Tally

_RETRIES = 5

Piece = tuple[dict[int, str], np.ndarray]  # the names of streams by number, and their rows


def on_ray(
    log: Log,
    problem: DecisionProblem | Payoff,
    tolerance: float,
    jobs: int,
    settled: Callable[[Counted], tuple[AuditSettings, dict[str, Any]]],
    told: Callable[[str, int, int], None],
) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """What the audit is about, and its numbers by partition. Every machine must see the log under the same path."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("--engine ray needs Ray: pip install 'lowregret[ray]'", name="ray") from error
    own = not ray.is_initialized()
    if own:
        here = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs, "include_dashboard": False}
        ray.init(log_to_driver=False, **here)
    try:
        deal = ray.remote(deal_fragment).options(num_returns=1 + log.partitions, max_retries=_RETRIES)
        judge = ray.remote(judge_pieces).options(max_retries=_RETRIES)
        about_log, about_problem = ray.put(log), ray.put(problem)
        dealt = [deal.remote(f, about_log, about_problem, tolerance) for f in log.fragments]
        lengths: dict[str, int] = {}
        tally = Tally()
        for fragment, (summary, *_) in zip(
            log.fragments, dealt, strict=True
        ):  # in the order of the log: the first to be refused is its first
            found = ray.get(summary)
            if isinstance(found, Refused):
                raise found
            tally.add(fragment.path, *found[1:])
            for name, rows in found[0].items():
                lengths[name] = lengths.get(name, 0) + rows
            told("reading", sum(lengths.values()), max(log.rows, 1))
        whole = sum(lengths.values())
        settings, about = settled(tally.counted(np.array(list(lengths.values()), dtype=np.int64), log))
        asked = {
            judge.remote(ray.put(settings), about_log, *(pieces[1 + p] for pieces in dealt)): p
            for p in range(log.partitions)
        }
        parts, waiting = {}, list(asked)
        while waiting:
            (done,), waiting = ray.wait(waiting, num_returns=1)
            found = ray.get(done)
            if isinstance(found, Refused):
                raise found
            parts[asked[done]] = found
            told("judging", len(parts) * whole // len(asked), whole)
        return about, {p: parts[p] for p in sorted(parts)}
    finally:
        if own:
            ray.shutdown()


def deal_fragment(fragment: Fragment, log: Log, problem: DecisionProblem | Payoff, tolerance: float) -> Any:
    """Pass one of a fragment: rows by stream, and what a ``Tally`` counts; then a piece for each partition."""
    names, renormalised = StreamNumbers(), 0
    found: list[np.ndarray] = []
    kinds: set[str] = set()
    try:
        for records, kind, off in records_in(fragment, log, problem, tolerance, names):
            found.append(records)
            kinds.add(kind)
            renormalised += off
    except Refused as error:
        return (error, *(None for _ in range(log.partitions)))
    whole = np.concatenate(found) if found else np.zeros(0, dtype=record_of(problem, log.columns))
    listed = list(names.numbers)
    place = np.array([partition_of(name, log.partitions) for name in listed], dtype=np.int64)
    rows = np.bincount(whole["stream"], minlength=len(listed))
    summary = {name: int(n) for name, n in zip(listed, rows, strict=True)}, kinds, renormalised
    place_R = place[whole["stream"]]
    pieces: list[Piece] = []
    for p in range(log.partitions):
        pieces.append(({int(i): listed[i] for i in np.flatnonzero(place == p)}, whole[place_R == p]))
    return (summary, *pieces)


def judge_pieces(settings: AuditSettings, log: Log, *pieces: Piece) -> Any:
    """Pass two of a partition, from the pieces of every fragment."""
    warm_up()  # as the processes of one machine do: the last bit depends on what is compiled
    numbers = StreamNumbers()
    found = [np.zeros(0, dtype=record_of(settings.problem, log.columns))]
    for names, records in pieces:
        new = np.zeros(max(names, default=0) + 1, dtype=np.int32)
        new[list(names)] = numbers.of(list(names.values()))
        records = records.copy()  # what Ray hands over is not to be written to
        records["stream"] = new[records["stream"]]
        found.append(records)
    try:
        return judged(settings, {i: name for name, i in numbers.numbers.items()}, np.concatenate(found), log.where)
    except Refused as error:
        return error
