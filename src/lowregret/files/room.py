"""Whether there is room for what is asked, in memory and on the disk: a refusal beats a kill in the middle."""

import os
import shutil
from pathlib import Path


def in_memory(n_bytes: float, what: str, have: float | None = None) -> None:
    """Refuse what takes more than all the memory there is (or than ``have``).

    >>> in_memory(1e18, "size")
    Traceback (most recent call last):
    ValueError: size takes 931322575 GiB, more than the memory of this machine
    """
    if n_bytes > (memory() if have is None else have):
        raise ValueError(f"{what} takes {n_bytes / 2**30:.0f} GiB, more than the memory of this machine")


def on_disk(n_bytes: float, what: str, folder: Path) -> None:
    """Refuse what takes more than is free where it is to be written."""
    there = next((part for part in (folder, *folder.resolve().parents) if part.is_dir()), Path("."))
    free = shutil.disk_usage(there).free
    if n_bytes > free:
        raise ValueError(f"{what} takes {n_bytes / 2**20:.0f} MiB, and {there} has {free / 2**20:.0f} MiB left")


def memory() -> float:
    """Of this machine in bytes, or of the part of it that we may use; without end where that is not known."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    try:
        all_of_it = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        all_of_it = 0
    return min(float(all_of_it or "inf"), float(limit) if limit.isdecimal() else float("inf"))
