"""The audit on a Ray cluster (extra: ``ray``): each task reads the rows of its own streams, and judges them."""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .cells import plain
from .columns import Found
from .parts import Summary, Whole, judged_table, part_of, whole_of
from .reading import Log, Refused, scanned
from .settings import AuditSettings
from .table import checked

_RETRIES = 5  # of a task whose worker was lost
_TASKS = 4  # per core


def on_ray(
    log: Log, found: Found, problem: Any, how: AuditSettings, tell: Callable[[int], object]
) -> tuple[Whole, Iterator[Summary]]:
    """All streams, and the parts of the audit. Every machine must see the log under the same path."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("cluster=True needs Ray: pip install 'lowregret[ray]'", name="ray") from error
    if not log.paths or found.stream is None:
        raise ValueError("cluster=True needs a log in files that all machines see, with a column of streams")
    if not ray.is_initialized():
        here = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        ray.init(log_to_driver=False, **here)
    with log.reading():
        found, whole, shared = whole_of(*plain(log, found, problem), log, found)
    judge = ray.remote(judged_part).options(max_retries=_RETRIES)
    given, n = ray.put((found, problem, how, whole, shared)), _TASKS * int(ray.cluster_resources().get("CPU", 1))

    def parts() -> Iterator[Summary]:
        for task in [judge.remote(log.paths, given, part, n) for part in range(n)]:
            part = ray.get(task)
            if isinstance(part, Refused):
                raise part
            if part is not None:
                tell(part.rows)
                yield part

    return whole, parts()


def judged_part(paths: Sequence[Path], given: tuple[Any, ...], part: int, n: int) -> Summary | Refused | None:
    """The streams whose names fall into this part; None: there are none."""
    found, problem, how, whole, shared = given
    try:
        log = scanned(paths)
        query, kind = plain(log, found, problem)
        rows = log.collected(query.filter(part_of(n) == part))
        if not len(rows):
            return None
        return judged_table(checked(rows, kind, log, found, problem, how.tolerance, shared), problem, how, whole)
    except Refused as error:
        return error
