"""Processes that work for another: ready before they are asked, and gone with who asked."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lowregret import files

SCRIPT = """
import time
from lowregret.files import processes
if __name__ == "__main__":
    with processes(1) as pool:
        print(pool.submit(__import__("os").getpid).result(), flush=True)
        time.sleep(600)
"""


def here(number: int) -> bool:
    """Whether the process runs, as far as the system knows: one that nobody has waited for has ended all the same."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(number: int) -> bool:
    """Whether it ends; a minute is for a machine that is busy."""
    end = time.monotonic() + 60
    while here(number) and time.monotonic() < end:
        time.sleep(0.05)
    return not here(number)


def interrupted() -> int:
    """The number of a process that sleeps for long when an interrupt comes."""
    number = 0
    with contextlib.suppress(KeyboardInterrupt), files.processes(1) as pool:
        number = pool.submit(os.getpid).result()
        pool.submit(time.sleep, 600)
        raise KeyboardInterrupt
    return number


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


def test_all_are_ready_deaf_and_of_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    heard, place = signal.getsignal(signal.SIGINT), os.getcwd()
    with files.processes(2, os.chdir, tmp_path) as pool:
        assert signal.getsignal(signal.SIGINT) is heard
        assert "MKL_NUM_THREADS" not in os.environ
        places = [pool.submit(os.getcwd) for _ in range(8)]
        assert {future.result() for future in places} == {str(tmp_path.resolve())}
        assert pool.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN
        assert pool.submit(os.getenv, "MKL_NUM_THREADS").result() == "1"
    assert os.getcwd() == place


@needs_proc
def test_an_error_ends_its_own_processes_whatever_they_do_and_no_others() -> None:
    with files.processes(1) as other:
        theirs = other.submit(os.getpid).result()
        mine = interrupted()
        assert gone(mine)
        assert here(theirs)
        assert other.submit(os.getpid).result() == theirs
    assert gone(theirs)


@needs_proc
def test_they_end_with_a_process_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    with subprocess.Popen([sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert here(child)
        parent.kill()
    assert gone(child)
