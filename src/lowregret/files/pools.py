"""Worker processes, one thread each: they ignore Ctrl-C, end with the work or with the process that started them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def processes(jobs: int, ready: Callable[..., None] | None = None, *given: Any) -> Iterator[ProcessPoolExecutor]:
    """A pool of this many processes, started now, each of which calls ``ready`` with what is ``given`` first.

    They end with the block. On an error or an interrupt in it they are ended at once, whatever they are doing.
    """
    where = _Spawning()
    pool = ProcessPoolExecutor(jobs, mp_context=where, initializer=_begin, initargs=(ready, given))
    try:
        with _deaf(), _one_thread_each():
            for _ in range(jobs):
                pool.submit(_nothing)
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in where.started:
            if process.is_alive():
                process.kill()
        raise
    finally:
        pool.shutdown()


class _Spawning(SpawnContext):
    """Starts new processes, and knows which it started."""

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **settings: Any) -> SpawnProcess:  # type: ignore[override]
        self.started.append(SpawnProcess(*args, **settings))
        return self.started[-1]


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started within the block ignore Ctrl-C: the process that started them ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # they ignore it a moment later
        return
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started within the block use one thread each: the parallelism is across them."""
    names = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)


def _begin(ready: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if ready is not None:
        ready(*given)


def _end_with_parent() -> None:
    """End this process when the one that started it is killed: nothing else would."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _nothing() -> None:
    """Do nothing: a process that returns from it has been started."""
