"""Pass one of an audit: rows dealt out by stream, so that each stream lies in one place, in memory or on the disk."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..problems import DecisionProblem, Payoff
from .cells import Refused
from .logs import Fragment, Log, StreamNumbers, partition_of, record_of, records_in

HELD = 192 << 20  # bytes of rows in memory; what is more goes to the disk


class Counted(NamedTuple):
    """What pass one knows of the whole log, whichever process keeps the rows."""

    rows: int
    streams: int
    longest: int
    single: int  # streams of one row
    steps: str  # what they are, as ``Steps`` has it
    renormalised: int


class Tally:
    """A count over the fragments of a log, one after the other in its order, whichever process reads them."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}  # of steps, and the file where they were met
        self._renormalised = 0

    def add(self, path: str, kinds: Iterable[str], renormalised: int) -> None:
        for kind in sorted(kinds):
            for other, where in self._kinds.items():
                if other != kind:
                    raise Refused(path, None, f"the steps are {kind}, and {other} in {where}: they must be of one kind")
            self._kinds.setdefault(kind, path)
        self._renormalised += renormalised

    def counted(self, lengths: np.ndarray, log: Log) -> Counted:
        """With the lengths of all streams."""
        if not lengths.sum():
            raise Refused(log.paths[0], None, "it has no rows")
        single, (kind,) = int((lengths == 1).sum()), self._kinds
        rows, longest = int(lengths.sum()), int(lengths.max())
        return Counted(rows, len(lengths), longest, single, kind, self._renormalised)


class Spool:
    """The rows of a log by partition."""

    def __init__(self, log: Log, problem: DecisionProblem | Payoff, folder: Path) -> None:
        self.log, self.problem, self.folder = log, problem, folder
        self.record, self.names = record_of(problem, log.columns), StreamNumbers()
        self.rows_P = np.zeros(log.partitions, dtype=np.int64)
        self._pieces: dict[int, list[np.ndarray]] = {p: [] for p in range(log.partitions)}
        self._held, self._lock = 0, threading.Lock()
        self._place = np.zeros(0, dtype=np.int64)  # the partition of each stream
        self._lengths = np.zeros(0, dtype=np.int64)

    def fill(self, tolerance: float, jobs: int, told: Callable[[int], None]) -> Counted:
        """Read the log, by this many threads; ``told`` is called with the rows read so far."""
        tally = Tally()

        def read(fragment: Fragment) -> tuple[str, set[str], int]:
            kinds, changed = set(), 0
            for records, kind, off in records_in(fragment, self.log, self.problem, tolerance, self.names):
                self._deal(records)
                kinds.add(kind)
                changed += off
                told(len(records))
            return fragment.path, kinds, changed

        with ThreadPoolExecutor(jobs) as pool:
            for done in _in_turn(pool, read, self.log.fragments, ahead=jobs + 1):
                tally.add(*done.result())
        return tally.counted(self._lengths, self.log)

    def _deal(self, records: np.ndarray) -> None:
        with self._lock:  # the streams of these rows are known by now
            known = list(self.names.numbers)[len(self._place) :]
            new = [partition_of(name, self.log.partitions) for name in known]
            self._place = np.append(self._place, np.array(new, dtype=np.int64))
            self._lengths = np.append(self._lengths, np.zeros(len(new), dtype=np.int64))
            here = np.bincount(records["stream"], minlength=len(self._place))
            self._lengths += here
            place_R = self._place[records["stream"]].astype(np.uint16)
        counts_P = np.bincount(place_R, minlength=self.log.partitions)
        if counts_P.max() < len(records):
            records = records[np.argsort(place_R, kind="stable")]
        ends_P = np.cumsum(counts_P)
        with self._lock:
            self.rows_P += counts_P
            for p, pieces in self._pieces.items():
                if counts_P[p]:
                    pieces.append(records[ends_P[p] - counts_P[p] : ends_P[p]])
            self._held += records.nbytes
            if self._held > HELD:
                self.to_disk()

    def to_disk(self) -> None:
        """Move everything held in memory to the disk."""
        for p, pieces in self._pieces.items():
            if pieces:
                with open(self.file(p), "ab") as file:
                    for piece in pieces:
                        piece.tofile(file)
                pieces.clear()
        self._held = 0

    @property
    def on_disk_at_most(self) -> int:
        """Bytes that the rows take on the disk, if the log has as many as it says; 0 where they stay in memory."""
        n_bytes = self.log.rows * self.record.itemsize
        return n_bytes if n_bytes > HELD else 0

    @property
    def on_disk(self) -> bool:
        return any(self.file(p).exists() for p in range(self.log.partitions))

    def file(self, p: int) -> Path:
        return self.folder / f"rows-{p}"

    def names_of(self, p: int) -> dict[int, str]:
        """The streams of a partition by their numbers."""
        numbers = np.flatnonzero(self._place == p)
        names = list(self.names.numbers)
        return {int(i): names[i] for i in numbers}

    def taken(self, p: int) -> np.ndarray:
        """The rows of a partition, in no order; afterwards they are gone."""
        pieces = self._pieces.pop(p)
        if self.file(p).exists():
            pieces = [np.fromfile(self.file(p), dtype=self.record), *pieces]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=self.record)


def _in_turn(pool: ThreadPoolExecutor, work: Callable, items: tuple[Fragment, ...], ahead: int) -> Iterator[Future]:
    """Results in the order of the items, few under way at a time: the first refusal is the first of the log."""
    waiting: deque[Future] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for future in waiting:
            future.cancel()
