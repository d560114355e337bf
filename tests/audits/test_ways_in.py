"""The same log in every way it may come in: whatever its columns, types, zones, files and order, the same answer.

What is expected comes from a guard that is asked and told step by step.
"""

import datetime
import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

import lowregret as lr
from lowregret.audits import audit

CASES = int(os.environ.get("LOWREGRET_WAYS", "300"))
SHOP = [[2.0, -1.0], [0.0, 0.5], [-3.0, 4.0]]


class World(NamedTuple):
    """Streams of forecasts and outcomes, and how late outcomes are known."""

    problem: lr.DecisionProblem
    probs: list[np.ndarray]
    outcomes: list[np.ndarray]  # -1: missing
    lag: int
    delta: float


def drawn(rng: np.random.Generator) -> World:
    states = [["dry", "wet"], ["0", "1"], ["False", "True"], ["a b", "ü"]][rng.integers(4)]
    problem = lr.DecisionProblem.from_payoffs(SHOP, actions=["x", "y", "z"], states=states)
    streams, lag = int(rng.integers(1, 4)), int(rng.choice([1, 1, 1, 2, 4]))
    probs, outcomes = [], []
    for _ in range(streams):
        T = int(rng.integers(3, 60))
        hundredths = rng.integers(0, 101, T)
        said = hundredths / 100
        mirrored = np.arange(T) >= rng.integers(0, T + 1)
        came = (rng.random(T) < np.where(mirrored, 1 - said, said)).astype(np.int64)
        if rng.random() < 0.3:
            came[rng.random(T) < 0.1] = -1
        if (came == -1).all():
            came[0] = 0
        probs.append(np.stack([(100 - hundredths) / 100, said], axis=1))
        outcomes.append(came)
    return World(problem, probs, outcomes, lag, float(rng.choice([0.05, 0.3])))


def by_hand(world: World, b: int) -> dict[str, Any]:
    """One stream, step by step: what the model and the guard earn, and when the alarm is raised."""
    outcomes = world.outcomes[b]
    last = int(np.flatnonzero(outcomes >= 0)[-1]) + 1  # later outcomes are not known yet
    guard = lr.Guard(world.problem, test=lr.ExactTest(world.delta, last), lag=world.lag)
    payoffs, money, played = np.array(SHOP), {"model": 0.0, "guard": 0.0}, []
    for t in range(last):
        forecast = world.probs[b][t]
        played.append(guard.advise(forecast, step=t + 1).policy)
        for s in (t - world.lag + 1,) if t < last - 1 else range(max(0, t - world.lag + 1), last):
            if s >= 0 and outcomes[s] >= 0:
                guard.observe(lr.problems.Positions(outcomes[s]), step=s + 1)
            elif s >= 0:
                guard.skip(s + 1)
        if outcomes[t] >= 0:
            money["model"] += payoffs[world.problem.best_response(forecast), outcomes[t]]
            money["guard"] += played[t] @ payoffs[:, outcomes[t]]
    alarms = [event for event in guard.events if isinstance(event, lr.Alarm)]
    return {**money, "alarm": alarms[0].known if alarms else None, "missing": int((outcomes[:last] < 0).sum())}


def times(rng: np.random.Generator, kind: str, T: int, first: int) -> list[Any]:
    """Steps of a stream as a log has them, ascending."""
    days = [datetime.datetime(2024, 3, 1) + datetime.timedelta(days=first + t) for t in range(T)]
    begin = datetime.datetime(2024, 3, 28, tzinfo=datetime.UTC)
    hours = [begin + datetime.timedelta(hours=first + t) for t in range(T)]
    berlin = [hour.astimezone(ZoneInfo("Europe/Berlin")) for hour in hours]
    if kind == "numbers":
        return [first + t * int(1 + (t > T // 2)) for t in range(T)]
    if kind == "dates":
        return [day.date() for day in days]
    if kind == "datetimes":
        return days
    if kind == "zoned":
        return berlin
    if kind == "iso":
        return [day.strftime("%Y-%m-%d") for day in days]
    if kind == "offsets":
        return [hour.isoformat() for hour in berlin]
    return [int(hour.timestamp()) * {"unix s": 1, "unix ms": 1000}[kind] for hour in hours]


def way(rng: np.random.Generator, world: World, folder: Path) -> tuple[Any, dict[str, Any], list[str]]:
    """The log in one of its ways, what must be said of its columns, and the names of its streams."""
    names = [["shop", "b"], ["10", "9", "x"], ["Zürich", "a/b", "=1+1"]][rng.integers(3)]
    names = [*names, "more"][: len(world.probs)]
    kind = str(rng.choice(["numbers", "dates", "datetimes", "zoned", "iso", "offsets", "unix s", "unix ms", "rows"]))
    columns: dict[str, Any] = {}
    stream = str(rng.choice(["unique_id", "shop", "series"]))
    order = str(rng.choice(["ds", "step", "delivery", "Datum"]))
    state = str(rng.choice(["y", "outcome", "Wetter"]))
    if stream == "shop":
        columns["stream"] = stream
    if state == "Wetter":
        columns["state"] = state
    if order in ("delivery", "Datum") and kind in ("numbers", "unix s", "unix ms"):
        columns["order"] = order
    spelled = [world.problem.states[0], world.problem.states[1]]
    rows: list[dict[str, Any]] = []
    for b, (probs, outcomes) in enumerate(zip(world.probs, world.outcomes, strict=True)):
        at = times(rng, kind, len(outcomes), int(rng.integers(1, 5))) if kind != "rows" else [None] * len(outcomes)
        for t, outcome in enumerate(outcomes):
            row = {stream: names[b], order: at[t], state: None if outcome < 0 else spelled[outcome]}
            rows.append(row | {f"p_{spelled[s]}": probs[t, s] for s in (0, 1)})
    form = rng.choice(["both", "one", "list", "percent", "named"])
    for row in rows:
        pair = [row.pop(f"p_{name}") for name in spelled]
        if form in ("both", "named"):
            both = [f"p_{name}" for name in spelled] if form == "both" else ["rest", "rain"]
            row |= dict(zip(both, pair, strict=True))
        elif form == "one":
            row["rain"] = pair[1]
        elif form == "list":
            row["probs"] = pair
        else:
            row |= {f"p_{name}": f"{100 * p:.0f} %" for name, p in zip(spelled, pair, strict=True)}
    if form in ("named", "one"):
        columns["probs"] = {spelled[1]: "rain"} | ({spelled[0]: "rest"} if form == "named" else {})
    if kind == "rows":
        for row in rows:
            del row[order]
    else:
        rows = [rows[i] for i in rng.permutation(len(rows))]
    if len(world.probs) == 1 and rng.random() < 0.5 and len({row[stream] for row in rows}) == 1:
        for row in rows:
            del row[stream]
        columns.pop("stream", None)
        names = ["0"]
    kinds = ["polars", "lazy", "pandas", "parquet", "ndjson", "feather"]
    kinds += ["csv", "tsv", "semicolons"] if form != "list" else []
    if kind in ("dates", "datetimes", "zoned"):
        kinds.remove("ndjson")
    return written(rng, rows, str(rng.choice(kinds)), kind, folder), columns, names


def written(rng: np.random.Generator, rows: list[dict[str, Any]], how: str, kind: str, folder: Path) -> Any:
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if how in ("polars", "lazy"):
        return frame.lazy() if how == "lazy" else frame
    if how == "pandas":
        return pd.DataFrame(rows, index=rng.permutation(len(rows)))
    several = rng.random() < 0.3 and len(rows) > 2
    cut = int(rng.integers(1, len(rows))) if several else len(rows)
    ending = {"semicolons": "csv"}.get(how, how)
    for i, part in enumerate([frame[:cut], frame[cut:]][: 1 + several]):
        path = folder / f"{i}.{ending}"
        if how == "parquet":
            part.write_parquet(path)
        elif how == "feather":
            part.write_ipc(path)
        elif how == "ndjson":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in part.to_dicts()))
        else:
            text = part.with_columns(pl.col(pl.Datetime).dt.to_string("iso:strict")) if kind == "zoned" else part
            comma = how == "semicolons" and rng.random() < 0.5
            text.write_csv(path, separator={"csv": ",", "tsv": "\t", "semicolons": ";"}[how], decimal_comma=comma)
    return [folder, str(folder / f"*.{ending}"), sorted(folder.iterdir())][rng.integers(3)]


@pytest.mark.parametrize("first", range(0, CASES, 10))
def test_every_way_in_gives_what_a_guard_does_step_by_step(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + 10, CASES)):
        rng = np.random.default_rng(seed)
        world, folder = drawn(rng), tmp_path / str(seed)
        folder.mkdir()
        log, columns, names = way(rng, world, folder)
        found = audit(log, world.problem, columns=columns, delta=world.delta, lag=world.lag).streams
        assert sorted(found["stream"]) == sorted(names)
        for row in found.to_dicts():
            wanted = by_hand(world, names.index(row["stream"]))
            for player in ("model", "guard"):
                assert row[player] == pytest.approx(wanted[player], abs=1e-9), (seed, player)
            assert (row["alarm"], row["missing"]) == (wanted["alarm"], wanted["missing"]), seed
