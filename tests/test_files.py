"""What is written: whole or not at all, through links, never over an input, by one process at a time."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lowregret import files


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed_and_stays(is_there: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "far/target", tmp_path / "link"
    target.parent.mkdir()
    if is_there:
        target.write_text("old")
    link.symlink_to(target)
    files.replace(link, b"new")
    assert link.is_symlink()
    assert everything(target.parent) == {"target": b"new"}


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


def test_permissions_stay(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old")
    secret.chmod(0o600)
    files.replace(secret, b"new")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_trying_leaves_nothing(tmp_path: Path) -> None:
    files.writable(tmp_path / "a/b/c.txt")
    assert not list(tmp_path.iterdir())
    for wrong in (Path("/proc/none/x"), tmp_path / ("n" * 300)):
        with pytest.raises(OSError, match="cannot be written: "):
            files.writable(wrong)


def test_two_names_of_one_file(tmp_path: Path) -> None:
    one, hard, soft, new = (tmp_path / name for name in ("one", "hard", "soft", "new"))
    one.write_text("x")
    hard.hardlink_to(one)
    soft.symlink_to(new)
    for outputs, inputs in (
        ({"a": one}, {"b": hard}),
        ({"a": soft}, {"b": new}),
        ({"a": tmp_path / "x/../new", "b": new}, {}),
    ):
        with pytest.raises(ValueError, match="must be another path than"):
            files.apart(outputs, inputs)
    files.apart({"a": one, "b": new, "c": None}, {"d": tmp_path / "other", "e": None})


HOLDER = """
import sys, time
from pathlib import Path
from lowregret import files
with files.locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=r"busy by another process"), files.locked(path, "busy"):
            pass
        holder.send_signal(signal.SIGKILL)
    assert path.exists()  # it is left behind, and means nothing
    with files.locked(path, "busy"), pytest.raises(ValueError, match="busy"), files.locked(path, "busy"):
        pass
    assert not path.exists()


def test_a_lock_whose_file_was_just_removed_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last holder removed the name between opening and locking: another process may make and lock a new file."""
    path, flock = tmp_path / ".lock", files.fcntl.flock

    def late(*arguments: Any) -> None:
        path.unlink()
        flock(*arguments)

    monkeypatch.setattr(files.fcntl, "flock", late)
    with pytest.raises(ValueError, match="busy"), files.locked(path, "busy"):
        pass
