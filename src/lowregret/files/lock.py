"""One process at a time: a lock file that names its holder, and that need not be removed by hand after a kill.

The system holds the lock for as long as the process lives (``flock``). Where it cannot, the text in the file decides:
the holder's process number and when it started, since numbers are reused.

The name of a lock file can be guessed, so whatever else stands there (a link, a file with other content) is refused and
stays as it is. A process that was forked off a holder holds nothing.
"""

import contextlib
import datetime
import errno
import json
import os
import platform
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ModuleNotFoundError:  # not on every system
    fcntl = None  # type: ignore[assignment]

_HELD: set[int] = set()  # lock files that this process holds


def lock_of(path: Path) -> Path:
    """The lock file of a file: the same for every name the file has.

    >>> lock_of(Path("/nowhere/there/../a.jsonl")).as_posix()
    '/nowhere/.a.jsonl.lock'
    """
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.lock")


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file ``path`` within the block; if another process holds it, refuse with ``busy`` and its name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / ".lock", "this folder is in use"):
    ...     sorted(os.listdir(folder))
    ['.lock']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file, holder = _taken(path, busy), os.getpid()
    _HELD.add(file)
    try:
        yield
    finally:
        if os.getpid() == holder:
            _HELD.discard(file)
            with contextlib.suppress(OSError):
                if still(path, file):
                    path.unlink()  # before it is released: a process that waits finds a new file
            os.close(file)


def _let_go() -> None:
    """In a process that was just forked, forget the locks: only its parent holds them."""
    while _HELD:
        with contextlib.suppress(OSError):
            os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _taken(path: Path, busy: str) -> int:
    """The lock file, open and held."""
    while True:
        file = _opened(path)
        try:
            found = hold(file)
            if found is False or (found is None and alive(_said(file))):
                raise ValueError(f"{busy} by {_who(_said(file))} (lock {path})")
            if not still(path, file):  # its holder has just removed it
                os.close(file)
                continue
            _refuse_unless_lock(path, file)
            _say(path, file)
            return file
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(file)
            raise


def _opened(path: Path) -> int:
    """The file of this very name; a link is not followed."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) or os.path.islink(path):
            raise ValueError(f"{path} must be a lock file, and it is a link to something else: remove it") from None
        raise _cannot(path, error) from error


def _refuse_unless_lock(path: Path, file: int) -> None:
    """A lock file is written over: nothing else may be."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        raise ValueError(f"{path} must be a lock file, and it is something else, or has a second name: remove it")
    said = os.pread(file, 10_000, 0).strip(b"\0")  # a power cut may leave zeros
    if said and not said.startswith(b'{"pid"'):
        raise ValueError(f"{path} must be a lock file, and it holds something else: give it another name")


def _say(path: Path, file: int) -> None:
    """Write the holder into the file."""
    me = {"pid": os.getpid(), "started": started(os.getpid()), "host": platform.node(), "since": _now()}
    said = json.dumps(me).encode()
    try:
        os.ftruncate(file, 0)
        at = 0
        while at < len(said):
            at += os.pwrite(file, said[at:], at)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _cannot(path, error) from error


def _cannot(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, f"the lock {path} cannot be taken: {error.strerror}")


def hold(file: int) -> bool | None:
    """Whether this process now holds the lock on an open file; None: the system cannot say."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return None


def alive(holder: dict[str, Any]) -> bool:
    """Whether the process that a lock file names is still there; one on another machine is taken to be."""
    pid, then = holder.get("pid"), holder.get("started")
    if not isinstance(pid, int) or pid < 1:
        return False  # it was cut short: its holder has never begun
    if holder.get("host") != platform.node():
        return True
    return started(pid) is not None and started(pid) == then


def started(pid: int) -> str | None:
    """When a process started, as a text that no other process shares; None if there is no such process.

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


def still(path: Path, file: int) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file))
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
