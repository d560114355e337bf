"""A log of events cut at any byte keeps every whole line, and is written by one at a time."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.guard.resume import event_from, event_in_json

from ..guarded_runs import COIN

EVENTS = [
    lr.Switch(3, 7, "ExactTest", 5.5, 4.25, 2, 1, 0.5, 6),
    lr.Switch((2, 1), 1, "ExactTest", np.inf, 4.0, 1),
    lr.Return((), 19, 0.625, 1),
    lr.Switch(0, 8, "ExactTest", 9.0, 4.0, 1, None, 0.25, 3, 'a\n"name"', 2),
]


def test_a_guard_writes_what_it_tells(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with lr.EventLog(path) as log:
        guard = lr.Guard(COIN, 60, batch_shape=(5,), on_event=log)
        for t in range(60):
            guard.advise([[0.9, 0.1]] * guard.batch_shape[0])
            guard.observe((np.arange(guard.batch_shape[0]) + t // 20) % 2)
            if t == 8:
                guard.retire([0])
        assert guard.events
        assert lr.EventLog.read(path) == guard.events  # while it is open
    with lr.EventLog(path) as log:
        log(EVENTS[0])
    assert lr.EventLog.read(path) == [*guard.events, EVENTS[0]]
    assert os.listdir(tmp_path) == [path.name]


def test_fields_that_are_younger_than_a_log_have_their_defaults() -> None:
    event = lr.Switch(3, 7, "ExactTest", 5.5, 4.25, 2, 1, 0.5, 6, whom="action 1")
    told = event_in_json(event)
    assert event_from(told) == event
    for name in ("whom", "gain", "known"):
        del told[name]
    assert event_from(told) == event._replace(whom=None)
    wrong_fields = told | {"elder": 1}, told | {"step": "seven"}
    for wrong in (*wrong_fields, {"event": "switch"}, {"event": "alarm"}, ["switch", 3]):
        with pytest.raises(ValueError, match="events hold"):
            event_from(wrong)


def test_threads_share_a_log(tmp_path: Path) -> None:
    path, often = tmp_path / "events.jsonl", sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with lr.EventLog(path, sync=False) as log:
            wrote = [[EVENTS[0]._replace(stream=1000 * k + i) for i in range(200)] for k in range(4)]
            threads = [Thread(target=lambda mine=mine: [log(event) for event in mine]) for mine in wrote]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(often)
    found = lr.EventLog.read(path)
    assert sorted(found) == sorted(event for mine in wrote for event in mine)
    for k, mine in enumerate(wrote):
        assert [event for event in found if event.stream // 1000 == k] == mine


def test_cut_at_every_byte_it_keeps_every_whole_line(tmp_path: Path) -> None:
    path, cut = tmp_path / "events.jsonl", tmp_path / "cut.jsonl"
    with lr.EventLog(path, sync=False) as log:
        log.extend(EVENTS[1:3])
    data = path.read_bytes()
    ends = np.cumsum([len(line) for line in data.splitlines(keepends=True)])
    for n in range(len(data) + 1):
        cut.write_bytes(data[:n])
        whole = max(0, int(np.sum(ends <= n + 1)) - 1)  # a line is whole without its end
        assert lr.EventLog.read(cut) == EVENTS[1 : 1 + whole], n
        with lr.EventLog(cut, sync=False) as log:
            log(EVENTS[2])
        assert lr.EventLog.read(cut) == [*EVENTS[1 : 1 + whole], EVENTS[2]], n


def test_damage_before_the_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with lr.EventLog(path, sync=False) as log:
        log.extend(EVENTS)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], lines[2].replace(b"1", b"2", 1), *lines[3:]])
    path.write_bytes(damaged)
    for call in (lr.EventLog.read, lr.EventLog):
        with pytest.raises(ValueError, match=r"events.jsonl, line 3 is damaged"):
            call(path)
    assert path.read_bytes() == damaged
    for other in (b"a letter\n", b'{"a":1}\n', b"\0" * 9):
        path.write_bytes(other)
        for call in (lr.EventLog.read, lr.EventLog):
            with pytest.raises(ValueError, match="path"):
                call(path)
        assert path.read_bytes() == other


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = lr.EventLog(path)
    with pytest.raises(ValueError, match=r"events.jsonl is written to by process"):
        lr.EventLog(path)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(log)
    log.close()
    with pytest.raises(ValueError, match="is closed"):
        log(EVENTS[0])
    lr.EventLog(path).close()


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "events.jsonl", os.write
    with lr.EventLog(path) as log:
        log(EVENTS[0])
        count = iter(range(9))

        def full(file: int, data: Any) -> int:
            if next(count):
                raise OSError(28, "No space left on device")
            return write(file, data[:-10])  # with whole lines before the one that is cut

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                log.extend(EVENTS)
        assert lr.EventLog.read(path) == EVENTS[:1]
        log.extend(EVENTS[1:])
    assert lr.EventLog.read(path) == EVENTS


@pytest.mark.parametrize("event", [3, None, ("a",), lr.Switch(1.5, 1, "ExactTest", 1.0, 1.0)], ids=str)
def test_what_is_no_event_is_refused(event: Any, tmp_path: Path) -> None:
    with lr.EventLog(tmp_path / "events.jsonl") as log:
        with pytest.raises(ValueError, match=r"event must be|events hold"):
            log(event)
        assert lr.EventLog.read(log.path) == []


FORKS = """
import os, sys, time
from pathlib import Path
import numpy as np
import lowregret as lr
from lowregret.files import Journal

path, kind, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
opened = {
    "events": lambda: lr.EventLog(path),
}[kind]
log = opened()
child = os.fork()
if not child:
    if how == "closes":
        log.close()
    elif how == "ends":
        del log
    else:
        os.closerange(0, 3)
        time.sleep(60)
    os._exit(0)
if how != "lives on":
    os.waitpid(child, 0)
    try:
        opened()
    except ValueError as error:
        print("refused", "is written to by process" in str(error), str(os.getpid()) in str(error))
    log.close()
print(child, flush=True)
os._exit(0)  # as after a kill: nothing is closed
"""


@pytest.mark.parametrize(
    ("kind", "how"),
    [("events", "closes"), ("events", "ends"), ("events", "lives on")],
)
def test_a_forked_process_has_no_lock_to_give_up_or_to_keep(kind: str, how: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    asked = [sys.executable, "-W", "ignore", "-c", FORKS, str(path), kind, how]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, child = done.stdout.splitlines()
    try:
        assert said == ([] if how == "lives on" else ["refused True True"])
        if kind == "events":
            lr.EventLog(path).close()  # whoever held it has ended, and its child has nothing of it
    finally:
        if how == "lives on":
            os.kill(int(child), signal.SIGKILL)


def test_one_file_has_one_writer_by_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    path, link = tmp_path / "far/events.jsonl", tmp_path / "events.jsonl"
    link.symlink_to(path)
    with lr.EventLog(link) as log:
        log(EVENTS[0])
        with pytest.raises(ValueError, match="process"):
            lr.EventLog(path)
    assert lr.EventLog.read(path) == EVENTS[:1]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"path must be a log of events, .* and .*pipe is neither"):
        lr.EventLog(pipe)
