"""What is written: whole or not at all, through links, never over an input, by one process at a time."""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowregret as lr
from lowregret import files
from lowregret.files import lock
from lowregret.transformer import Imitate, Progress, TrainingSettings, train

SMALL = TrainingSettings(size=(8, 8, 2, 1, 8), steps=4, batch=2)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def little_room() -> Iterator[Any]:
    """A limit on the size of files is a full disk as far as writing goes."""
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(n_bytes: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
    signal.signal(signal.SIGXFSZ, handler)


# One file after another


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for there in (True, False):
        target, link = tmp_path / f"far/{there}.txt", tmp_path / f"{there}.txt"
        if there:
            target.write_text("old")
        link.symlink_to(target)
        files.replace(link, b"new")
        assert link.is_symlink()
        assert target.read_bytes() == b"new"
    assert {p.name for p in (tmp_path / "far").iterdir()} == {"True.txt", "False.txt"}


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    files.writable(pipe)
    files.replace(pipe, b"through")
    reader.join()
    assert got == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("fails", ["os.fsync", "os.replace"])
def test_all_files_or_none(fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two that cannot be written leaves the first as it was; once renaming began, each is whole."""
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.write_text("old")
    before, calls = everything(tmp_path), []

    def full(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == (2 if fails == "os.fsync" else 1):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fails, full)
    with pytest.raises(OSError, match=r"(one|two) could not be written: No space left on device\. A file that was"):
        files.replace_all({one: b"new", two: b"new"})
    assert everything(tmp_path) == before


def test_what_a_program_writes_itself_is_whole_too(tmp_path: Path) -> None:
    path = tmp_path / "deep/graph"
    with files.drafted(path) as draft:
        draft.write_text("graph")
        draft.with_name("graph.data").write_text("data")
    assert everything(tmp_path) == {"deep/graph": b"graph", "deep/graph.data": b"data"}
    with pytest.raises(KeyError), files.drafted(path) as draft:
        raise KeyError(draft.write_text("half"))
    assert everything(tmp_path) == {"deep/graph": b"graph", "deep/graph.data": b"data"}
    with pytest.raises(OSError, match=r"graph .* No space left"), files.drafted(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert sorted(os.listdir(tmp_path / "deep")) == ["graph", "graph.data"]


KILLED = """
import os, signal, sys
from pathlib import Path
from lowregret import files

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "replace":
    os.replace = killed
    files.replace(Path(sys.argv[1]), b"new")
with files.drafted(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    killed()
"""


@pytest.mark.parametrize("way", ["replace", "drafted"])
def test_drafts_that_a_kill_left_go_and_those_of_others_stay(way: str, tmp_path: Path) -> None:
    """The next process that writes the file sweeps, whatever a live one has there."""
    path, other = tmp_path / "m.npz", tmp_path / "m"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", KILLED, str(path), way], check=False).returncode == -signal.SIGKILL
    [left] = os.listdir(tmp_path)  # the second has swept the first one's
    assert left.endswith(".part")
    with files.drafted(path) as one, files.drafted(other) as two:
        assert not (tmp_path / left).exists()
        for draft in (one, two):
            draft.write_text("mine")
        bait = tmp_path / ".m.npz.AAAAAAAA.part"
        bait.symlink_to(tmp_path / "kept")
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept/letter").write_text("dear")
        for way_in in ("import sys; from pathlib import Path; from lowregret import files; files.sweep", None):
            code = "*map(Path, sys.argv[1:])"
            if way_in is None:
                files.sweep(path, other)
            else:
                subprocess.run([sys.executable, "-c", f"{way_in}({code})", str(path), str(other)], check=True)
        assert one.exists()
        assert two.exists()
    bait.unlink()
    assert everything(tmp_path) == {"kept/letter": b"dear", "m": b"mine", "m.npz": b"mine"}
    (tmp_path / ".m.npz.7-0.part").mkdir()  # as drafts were once called
    files.sweep(other)
    assert (tmp_path / ".m.npz.7-0.part").exists()  # it is of another file
    files.sweep(path)
    assert not list(tmp_path.glob(".*"))


def test_nothing_is_written_through_a_name_that_was_laid_out(tmp_path: Path) -> None:
    """Someone who may write in the folder puts links where drafts and locks will be: what they lead to stays."""
    victim, path = tmp_path / "victim", tmp_path / "a.jsonl"
    victim.write_text("precious")
    for n in range(3000):  # as drafts were once called
        (tmp_path / f".a.json.{os.getpid()}-{n}.part").symlink_to(victim)
    files.replace(tmp_path / "a.json", b"new")
    with files.drafted(tmp_path / "a.json") as draft:
        draft.write_text("newer")
    assert (tmp_path / "a.json").read_text() == "newer"
    assert not (tmp_path / "a.json").is_symlink()
    lock_file = tmp_path / ".a.jsonl.lock"
    for lay in (lock_file.symlink_to, lock_file.hardlink_to, lambda it: it.rename(lock_file), None):
        if lay is None:
            os.mkfifo(lock_file)
        else:
            lay(victim)
        busy = files.locked(files.lock_of(path), "busy")
        with pytest.raises(ValueError, match=r"\.a\.jsonl\.lock must be a lock file, and it"), busy:
            pass
        if not victim.exists():
            lock_file.rename(victim)
        lock_file.unlink(missing_ok=True)
        assert victim.read_text() == "precious"
    for left in (b"", b"\0" * 40, b'{"pid": 12'):  # what a crash may leave of a lock
        lock_file.write_bytes(left)
        with files.locked(files.lock_of(path), "busy"):
            pass
        assert not lock_file.exists()


def test_permissions_stay(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    for write in (lambda: files.replace(secret, b"new"), lambda: _drafted(secret)):
        secret.write_text("old")
        secret.chmod(0o600)
        write()
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def _drafted(path: Path) -> None:
    with files.drafted(path) as draft:
        draft.write_text("new")


def test_trying_leaves_nothing(tmp_path: Path) -> None:
    files.writable(tmp_path / "a/b/c.txt", None)
    files.writable(tmp_path / "x/y", folder=True)
    assert not list(tmp_path.iterdir())
    for wrong in (Path("/proc/none/x"), tmp_path / ("n" * 300)):
        with pytest.raises(OSError, match="cannot be written: "):
            files.writable(wrong)
    with pytest.raises(ValueError, match="path must be the name of a file, got 'a"):
        files.a_path("a\0b")


def test_two_names_of_one_file(tmp_path: Path) -> None:
    one, hard, soft, new = (tmp_path / name for name in ("one", "hard", "soft", "new"))
    one.write_text("x")
    hard.hardlink_to(one)
    soft.symlink_to(new)
    for outputs, inputs in (
        ({"a": one}, {"b": hard}),
        ({"a": soft}, {"b": new}),
        ({"a": tmp_path / "x/../new", "b": new}, {}),
        ({"a": new, "b": soft}, {"c": None}),
    ):
        with pytest.raises(ValueError, match="must be another path than"):
            files.apart(outputs, inputs)
    files.apart({"a": one, "b": new, "c": None}, {"d": tmp_path / "other"})


# A full disk


def test_a_guard_on_a_full_disk_keeps_its_file_and_says_which(tmp_path: Path, little_room: Any) -> None:
    guard, path = lr.Guard(lr.matching(), streams=300), tmp_path / "state.guard"
    guard.save(path)
    before = everything(tmp_path)
    little_room(8000)
    with pytest.raises(OSError, match=r"state\.guard could not be written: File too large") as error:
        guard.save(path)
    little_room(resource.RLIM_INFINITY)
    assert error.value.errno == errno.EFBIG
    assert everything(tmp_path) == before
    guard.save(path)


def test_training_on_a_full_disk_keeps_the_last_save(tmp_path: Path, little_room: Any) -> None:
    def room_for_no_more(*_: Any) -> None:
        little_room(500)

    def trained() -> Any:
        return train(Imitate(lr.PolyaUrn(2)), tmp_path / "t.safetensors", SMALL, save_every=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowregret.transformer.training.Training._refuse_lost", room_for_no_more)
        with pytest.raises(OSError, match="could not be written: File too large"):
            trained()
    little_room(resource.RLIM_INFINITY)
    assert trained().context == 8  # the lock is gone, and it goes on


# One at a time

HOLDER = """
import sys, time
from pathlib import Path
from lowregret import files
with files.locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / ".lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("by", ["the system", "the words in the file"])
def test_a_lock_names_its_holder_and_ends_with_it(
    by: str, holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by != "the system":
        monkeypatch.setattr(lock, "fcntl", None)
    path = tmp_path / ".lock"
    words = rf"busy by process {holder.pid}, since 20\d\d-.* \(lock .*\.lock\)"
    for _ in range(2):
        with pytest.raises(ValueError, match=words), files.locked(path, "busy"):
            pass
    holder.kill()
    holder.wait()
    assert json.loads(path.read_text())["pid"] == holder.pid  # it is left behind, and means nothing
    with files.locked(path, "busy"):
        assert json.loads(path.read_text())["pid"] == os.getpid()
        with pytest.raises(ValueError, match=f"busy by process {os.getpid()}"), files.locked(path, "busy"):
            pass
    assert not path.exists()


def test_whether_a_holder_is_alive() -> None:
    me = {"pid": os.getpid(), "started": lock.started(os.getpid()), "host": lock.platform.node()}
    assert lock.alive(me)
    assert not lock.alive({**me, "started": "another time"})  # the number was given out again
    assert not lock.alive({**me, "pid": 2**22 + 1, "started": None})
    assert not lock.alive({})  # cut short
    assert lock.alive({**me, "host": "elsewhere", "pid": 1})  # nobody can tell


def test_locks_are_taken_by_one_of_many(tmp_path: Path) -> None:
    """Eight threads, fifty times each: never two inside."""
    inside, most, got = 0, 0, 0
    counted = threading.Lock()

    def work() -> None:
        nonlocal inside, most, got
        for _ in range(50):
            try:
                with files.locked(tmp_path / ".lock", "busy"):
                    with counted:
                        inside, got = inside + 1, got + 1
                        most = max(most, inside)
                    time.sleep(0)
                    with counted:
                        inside -= 1
            except ValueError:
                time.sleep(0.0002)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert got > 8


def test_two_trainings_into_one_path(tmp_path: Path) -> None:
    """The second is refused while the first runs, and changes nothing of it."""
    path, other, tried = tmp_path / "m.safetensors", tmp_path / "n.safetensors", []
    task = Imitate(lr.PolyaUrn(2))

    def meanwhile(progress: Progress) -> None:
        before = everything(tmp_path)
        for where, state, words in (
            (path, None, r"m\.safetensors is being written by a training by process \d+, since"),
            (tmp_path / "x/../m.safetensors", tmp_path / "elsewhere", r"m\.safetensors is being written"),
            (other, tmp_path / "training/m", r"training/m is being written by a training"),
        ):
            with pytest.raises(ValueError, match=words):
                train(task, where, SMALL, state=state)
            tried.append(words)
        assert everything(tmp_path) == before

    train(task, path, SMALL, report_every=1, save_every=1, on_report=meanwhile)
    assert len(tried) == 12
    lines = (tmp_path / "training/m/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]
    assert not list(tmp_path.rglob("*lock"))
    train(task, path, SMALL)  # finished: it is read
    path.chmod(0o444)
