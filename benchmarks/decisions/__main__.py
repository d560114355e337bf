"""``python -m benchmarks.decisions``: the whole benchmark; ``--quick``: a minute of it."""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .entrants import entries
from .report import Standing, dominating, figure, page_of, stored, table_of
from .run import ENGINES, Job, code_digest, done, made
from .scores import chosen, score
from .streams import sources

MOST, SAMPLE = 1000, 4  # steps of a stream; every so manieth stream of a half is one of the sample for slow entrants
QUICK_STEPS, QUICK_STREAMS = 200, 3


def main() -> None:
    told = _options()
    folder = told.out / code_digest() / (f"quick-{QUICK_STEPS}" if told.quick else f"at-most-{told.most}")
    (folder / "streams").mkdir(parents=True, exist_ok=True)
    names = _streams(told)
    with ENGINES[told.engine](told.jobs) as results, _progress() as bar:
        most = QUICK_STEPS if told.quick else told.most
        asked = names["training"] + names["scored"]
        for one in bar(results(made, [(name, folder, most) for name in asked]), "streams", len(asked)):
            if one.why_not:
                print(f"left out, {one.name}: {one.why_not}")
                names = {half: [name for name in each if name != one.name] for half, each in names.items()}
        if told.only_streams:
            return
        players = {name: entry for name, entry in entries().items() if _wanted(name, told.entrants)}
        training = [
            Job(stream, name, i)
            for name, entry in players.items()
            for stream in _sample(names["training"], entry.slow)
            for i in range(len(entry.settings))
        ]
        found: dict[str, Any] = {half: {} for half in names}
        for result in bar(results(done, [(job, folder) for job in training]), "training half", len(training)):
            found["training"].setdefault(result["stream"], {})[result["entrant"], result["setting"]] = result
        best = {name: chosen(found["training"], name, len(entry.settings)) for name, entry in players.items()}
        scored = [
            Job(stream, name, i)
            for name, entry in players.items()
            for stream in _sample(names["scored"], entry.slow)
            for i in sorted({0, best[name]})
        ]
        for result in bar(results(done, [(job, folder) for job in scored]), "scored half", len(scored)):
            found["scored"].setdefault(result["stream"], {})[result["entrant"], result["setting"]] = result
    standings = []
    for name, entry in players.items():
        for i in sorted({0, best[name]}):
            of_half = {half: score(_sorted(found[half]), (name, i)) for half in names}
            tuned = dict(entry.settings[i]) if i else None
            standings.append(Standing(name, tuned, entry.promise, of_half["training"], of_half["scored"]))
    about = {"cells": _cells(found), "streams": {half: sorted(each) for half, each in found.items()}}
    whole = stored(standings, about)
    (folder / "decisions.json").write_text(json.dumps(whole, indent=1))
    (folder / "decisions.md").write_text(page_of(whole), encoding="utf-8")
    figure(whole, folder / "decisions.png")
    print(table_of(whole))
    better = ", ".join(dominating(whole)) or "none"
    print(f"With a promise, and not worse than the guard in kept, saved and false alarms: {better}")
    print(f"{sum(about['cells'].values()):,} cells. Written to {folder}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/decisions"))
    parser.add_argument("--quick", action="store_true", help="few streams and few steps of them: a minute")
    parser.add_argument("--most", type=int, default=MOST, help="steps of a stream")
    parser.add_argument("--streams", nargs="*", default=[], help="those whose names contain one of these")
    parser.add_argument("--entrants", nargs="*", default=[], help="likewise; the two plain ones always play")
    parser.add_argument("--only-streams", action="store_true", help="make the streams, and end there")
    parser.add_argument("--engine", choices=list(ENGINES), default="local")
    parser.add_argument("--jobs", "-j", type=int, default=2)
    return parser.parse_args()


def _wanted(name: str, asked: list[str]) -> bool:
    return not asked or name in ("the model", "always fall back") or any(one in name for one in asked)


def _streams(told: argparse.Namespace) -> dict[str, list[str]]:
    """Names by half."""
    found = {
        half: [
            name
            for name, (source, _) in sources(install=not told.quick).items()
            if source.half == half
            and (not told.streams or any(one in name for one in told.streams))
            and not (told.quick and source.licence != "drawn")
        ]
        for half in ("training", "scored")
    }
    return {half: each[:: max(len(each) // QUICK_STREAMS, 1)] if told.quick else each for half, each in found.items()}


def _sample(names: list[str], slow: bool) -> list[str]:
    return names[::SAMPLE] if slow else names


def _sorted(results: dict[str, Any]) -> dict[str, Any]:
    """In an order that does not depend on who was ready first: sums are the same to the last digit."""
    return {name: results[name] for name in sorted(results)}


def _cells(found: dict[str, Any]) -> dict[str, int]:
    return {half: sum(len(each["the model", 0]["cells"]) for each in one.values()) for half, one in found.items()}


@contextmanager
def _progress() -> Iterator[Callable[..., Iterator[Any]]]:
    """A function that shows how far results have come."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns) as bar:
        yield lambda results, what, count: bar.track(results, total=count, description=what)


if __name__ == "__main__":
    main()
