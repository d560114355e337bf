"""The ratios that ``make bench`` printed at each release, one file for each, and how a later run compares."""

import io
import json
import re
import sys
from pathlib import Path

HISTORY = Path(__file__).with_name("history")
_ROW = re.compile(r"  (\S.*?)\s+(?:[\d.]+\s+)*?([\d.]+)x")


class Heard(io.StringIO):
    """What is printed, kept, and shown as before."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return super().write(text)


def ratios(text: str) -> dict[str, float]:
    """The first figure of each row that ends in an x, by its table and its name."""
    found, table = {}, ""
    for line in text.splitlines():
        row = _ROW.match(line)
        if row:
            found[f"{table}: {row[1]}"] = float(row[2])
        elif not line.startswith(" "):
            table = re.split(r"\s{2,}|: ", line)[0]
    return found


def keep(found: dict[str, float], version: str, history: Path = HISTORY) -> None:
    history.mkdir(exist_ok=True)
    (history / f"{version}.json").write_text(json.dumps(found, indent=1) + "\n")


def compared(found: dict[str, float], version: str, history: Path = HISTORY) -> str:
    """The rows that moved by more than a quarter since the last release before this version."""
    releases = {_order(path.stem): path for path in history.glob("*.json")}
    earlier = [order for order in releases if order < _order(version)]
    if not earlier:
        return "No earlier release has its ratios kept."
    last = releases[max(earlier)]
    before = json.loads(last.read_text())
    both = [name for name in found if before.get(name)]
    moved = [name for name in both if not 0.8 <= found[name] / before[name] <= 1.25]
    rows = [f"  {name}: {before[name]:g}x, now {found[name]:g}x" for name in moved]
    return "\n".join([f"Since {last.stem}: {len(moved)} of {len(both)} ratios moved by more than a quarter", *rows])


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
