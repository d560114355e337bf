"""Every entrant on every cell: in processes or on Ray, one file a stream and entrant, so that a run goes on later.

Files stand in a folder that is named by a digest of the code, ours and the library's: other code begins afresh.
"""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr
from lowregret import files

from .cells import Scene, Stream, play
from .entrants import entries
from .regimes import LATE, Regime, regimes
from .streams import sources


class Job(NamedTuple):
    """An entrant, with one of its settings, on all cells of a stream."""

    stream: str
    entrant: str
    setting: int

    def file(self, folder: Path) -> Path:
        return folder / f"{_digest(repr(tuple(self)))}.json"


class Made(NamedTuple):
    """A stream that was made, or why it could not be."""

    name: str
    why_not: str


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def code_digest() -> str:
    """Of all that a result depends on, but for the packages of others."""
    found = hashlib.blake2b(digest_size=6)
    for folder in (Path(lr.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            if path.name not in ("__main__.py", "scores.py", "report.py"):
                found.update(path.read_bytes())
    return found.hexdigest()


def _kept(folder: Path, name: str) -> Path:
    return folder / "streams" / f"{_digest(name)}.pickle"


def made(name: str, folder: Path, most: int) -> Made:
    """Make a stream, up to so many steps, and keep it in the folder, unless it is there."""
    if _kept(folder, name).exists():
        return Made(name, "")
    try:
        stream = sources(install=False)[name][1]()
    except (ImportError, FileNotFoundError) as error:
        return Made(name, str(error))
    stream = stream._replace(laws_TxS=stream.laws_TxS[:most], states_T=stream.states_T[:most])
    files.replace(_kept(folder, name), pickle.dumps(stream))
    return Made(name, "")


def of_stream(stream: Stream, name: str) -> dict[str, Regime]:
    """Its cells; each stream has draws of its own."""
    return regimes(stream, int(_digest(name)[:12], 16))


def done(job: Job, folder: Path) -> dict[str, Any]:
    """Play it, unless its file is there."""
    file = job.file(folder)
    if file.exists():
        return json.loads(file.read_text())
    stream: Stream = pickle.loads(_kept(folder, job.stream).read_bytes())
    cells, seconds, steps, refused = of_stream(stream, job.stream), 0.0, 1, ""
    entry = entries()[job.entrant]
    found: dict[str, Any] = {}
    for late in (False, True):
        part = {name: cell for name, cell in cells.items() if cell.late == late}
        laws_RxTxS = np.stack([cell.laws_TxS for cell in part.values()])
        states_RxT = np.stack([cell.states_T for cell in part.values()])
        adversary_R = np.array([cell.adversary for cell in part.values()])
        R, T = states_RxT.shape
        scene = Scene(stream.problem, R, T, max(LATE, stream.lag) if late else stream.lag)
        try:
            entrant = entry.make(scene, **entry.settings[job.setting])
        except ValueError as error:  # what it does not take, such as outcomes that come late
            refused = str(error)
            continue
        came = play(entrant, scene, laws_RxTxS, states_RxT, adversary_R)
        if not late:
            seconds, steps = came.seconds, R * T
        for r, (name, cell) in enumerate(part.items()):
            stretches = np.split(came.paid_RxT[r], cell.breaks)
            found[name] = {
                "kind": cell.kind,
                "late": late,
                "breaks": list(cell.breaks),
                "earned": [float(one.sum()) for one in stretches],
                "alarm": None if entrant.alarmed is None else int(came.alarm_R[r]),
            }
            if cell.adversary:
                found[name]["best_fixed"] = float(stream.problem.utility.T[came.states_RxT[r]].sum(axis=0).max())
    result = {
        **job._asdict(),
        "span": float(stream.problem.span),
        "steps": len(stream.states_T),
        "cells": found,
        "refused": refused,
        "microseconds": round(1e6 * seconds / steps, 3),
    }
    files.replace(file, json.dumps(result).encode())
    return result


@contextmanager
def _local(jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield lambda call, asked: (one.result() for one in as_completed([pool.submit(call, *each) for each in asked]))


@contextmanager
def _on_ray(jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Every machine must see the folder under the same path."""
    import ray

    own = not ray.is_initialized()
    if own:
        ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False)

    def results(call: Callable[..., Any], asked: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        waiting = [ray.remote(call).remote(*each) for each in asked]
        while waiting:
            (first,), waiting = ray.wait(waiting, num_returns=1)
            yield ray.get(first)

    try:
        yield results
    finally:
        if own:
            ray.shutdown()


ENGINES = {"local": _local, "ray": _on_ray}
