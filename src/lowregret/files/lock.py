"""One process at a time: a lock file that names its holder, and that nobody has to remove after a kill.

The system holds the lock for as long as the process lives (``flock``). Where it has no such thing, the file's own words
decide: the holder's number and when it started, since numbers are given out again.
"""

import contextlib
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ModuleNotFoundError:  # not on every system
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file ``path`` meanwhile; if another process does, refuse with ``busy`` and who that is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / ".lock", "this folder is in use"):
    ...     sorted(os.listdir(folder))
    ['.lock']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _taken(path, busy)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # before it is let go: who waits for the name finds a new file
        os.close(file)


def _taken(path: Path, busy: str) -> int:
    """The lock file, open and held."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _held(file):
                raise ValueError(f"{busy} by {_who(_said(file))} (lock {path})")
            if not _still(path, file):  # its holder has just removed it
                os.close(file)
                continue
            me = {"pid": os.getpid(), "started": started(os.getpid()), "host": platform.node(), "since": _now()}
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(me).encode(), 0)
            return file
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(file)
            raise


def _held(file: int) -> bool:
    """Whether the lock is ours now."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return not alive(_said(file))


def alive(holder: dict[str, Any]) -> bool:
    """Whether the process that a lock file names is still there; of another machine's it is not known: yes."""
    pid, then = holder.get("pid"), holder.get("started")
    if not isinstance(pid, int) or pid < 1:
        return False  # it was cut short: its holder has never begun
    if holder.get("host") != platform.node():
        return True
    return started(pid) is not None and started(pid) == then


def started(pid: int) -> str | None:
    """When a process started, in words that no other process shares; None if there is none.

    >>> started(os.getpid()) is not None
    True
    """
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {int(fields[19])}"
        except (OSError, IndexError, ValueError):
            return None
    with contextlib.suppress(OSError):
        asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return asked.stdout.strip() or None
    return "unknown"  # better held for too long than by two


def _still(path: Path, file: int) -> bool:
    try:
        return os.stat(path).st_ino == os.fstat(file).st_ino
    except FileNotFoundError:
        return False


def _said(file: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(file, 10_000, 0))
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _who(holder: dict[str, Any]) -> str:
    where = "" if holder.get("host") == platform.node() else f" on {holder.get('host')}"
    return f"process {holder.get('pid', 'unknown')}{where}, since {holder.get('since', 'just now')}"


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
