"""The same log in every way it may come in: whatever its columns, types, zones, files and order, the same answer.

What is expected comes from a guard that is asked and told step by step.
"""

import datetime
import itertools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

import lowregret as lr
from lowregret.audits import audit, parts

CASES = int(os.environ.get("LOWREGRET_WAYS", "300"))
SHOP = np.array([[2.0, -1.0], [0.0, 0.5], [-3.0, 4.0]])
STALL = lr.problems.newsvendor_of_numbers([0, 10, 20, 30], price=5, cost=3)
LEVELS = (0.1, 0.5, 0.9)
PLACES = ("hall", "north", "z")


class Step(NamedTuple):
    """One row of a stream."""

    forecast: Any  # probabilities, or quantiles
    outcome: Any  # the position of a state, or a number; None: missing
    reference: Any
    place: str
    share: float
    factor: float  # of the payoffs
    late: int  # how many more steps were made before the outcome was known


class World(NamedTuple):
    """Streams, and what is known of each step."""

    problem: Any
    streams: list[list[Step]]
    lag: int
    delta: float
    roles: set[str]


def drawn(rng: np.random.Generator) -> World:
    states = [["dry", "wet"], ["0", "1"], ["False", "True"], ["a b", "ü"]][rng.integers(4)]
    problem: Any = lr.DecisionProblem.from_payoffs(SHOP, actions=["x", "y", "z"], states=states)
    roles = {role for role in ("context", "reference", "scale", "payoffs", "known_at") if rng.random() < 0.15}
    if rng.random() < 0.2:
        problem, roles = STALL, roles - {"payoffs"}
    streams = []
    for _ in range(rng.integers(1, 4)):
        T = int(rng.choice([1, 2, 3, 5, 9, 15, 24, 40]))
        breaks, gone, steps = rng.integers(0, T + 1), 0.1 * (rng.random() < 0.3), []
        for t in range(T):
            p, level = rng.integers(0, 101, 2), rng.uniform(4, 6, 2).round(2)
            outcome: Any = int(rng.random() < (p[0] / 100 if t < breaks else 1 - p[0] / 100))
            forecast, reference = (np.array([(100 - q) / 100, q / 100]) for q in p)
            if problem is STALL:
                forecast, reference = (np.array([3.2, 5.7, 9.3]) * value for value in level)
                outcome = round(float(rng.gamma(6, 5)) * (1 if t < breaks else 0.2), 2)
            more = str(rng.choice(PLACES)), rng.integers(1, 101) / 100, rng.integers(20, 101) / 100
            steps.append(Step(forecast, None if rng.random() < gone else outcome, reference, *more, rng.integers(0, 4)))
        if all(step.outcome is None for step in steps):
            steps[0] = steps[0]._replace(outcome=0)
        streams.append(steps)
    lag = 1 if "known_at" in roles else int(rng.choice([1, 1, 1, 2, 4]))
    return World(problem, streams, lag, float(rng.choice([0.05, 0.3])), roles)


def by_hand(world: World, b: int) -> dict[str, Any]:
    """One stream, step by step: what the model and the guard earn, and when the alarm is raised."""
    problem, steps, roles = world.problem, world.streams[b], world.roles
    last = max(t for t, step in enumerate(steps) if step.outcome is not None) + 1  # later outcomes are not known yet
    lags = [world.lag] * last
    if "known_at" in roles:
        lags = [1 if s.outcome is None else min(int(s.late), last - 1 - t) + 1 for t, s in enumerate(steps[:last])]
    places = sorted({step.place for stream in world.streams for step in stream}) if "context" in roles else None
    against: Any = lr.Actions(per=places)
    against = against + lr.References("desk") if "reference" in roles else against
    made = problem.changing() if "payoffs" in roles else problem
    guard = lr.Guard(made, against=against, test=lr.ExactTest(world.delta, last), lag=max(lags))

    def tell(s: int) -> None:
        outcome = steps[s].outcome
        if outcome is None:
            guard.skip(s + 1)
        else:
            guard.observe(outcome if problem is STALL else lr.problems.Positions(outcome), step=s + 1)

    money, waiting = dict.fromkeys(("model", "guard", "reference desk"), 0.0), list[int]()
    for t, step in enumerate(steps[:last]):
        for s in [s for s in waiting if s + lags[s] <= t]:
            waiting.remove(s)
            tell(s)
        share, payoffs = step.share if "scale" in roles else 1.0, SHOP * step.factor if "payoffs" in roles else SHOP
        given: dict[str, Any] = {"context": step.place, "scale": share, "payoffs": payoffs}
        given = {name: own for name, own in given.items() if name in roles}
        both = [step.forecast, step.reference]
        if problem is STALL:
            both = [lr.Quantiles(LEVELS, values) for values in both]
            means = [(STALL.utilities(law.points) * law.weights).sum(-1) for law in (own.law(STALL, 0) for own in both)]
        else:
            means = [payoffs @ values for values in both]
        given |= {"references": {"desk": both[1]}} if "reference" in roles else {}
        policy = guard.advise(both[0], step=t + 1, **given).policy
        waiting.append(t)
        if step.outcome is not None:
            paid = share * (STALL.payoffs(step.outcome) if problem is STALL else payoffs[:, step.outcome])
            best = [paid[np.argmax(mean > mean.max() - 1e-9)] for mean in means]  # the first, where they are alike
            earned = dict(zip(money, (best[0], policy @ paid, best[1]), strict=True))
            money = {name: money[name] + earned[name] for name in money}
    for s in waiting:
        tell(s)
    alarms = [event for event in guard.events if isinstance(event, lr.Alarm)]
    missing = sum(step.outcome is None for step in steps[:last])
    found = {**money, "alarm": alarms[0].known if alarms else None, "missing": missing, "lag": max(lags)}
    return found if "reference" in roles else {name: own for name, own in found.items() if name != "reference desk"}


def times(kind: str, zone: str, at: np.ndarray) -> list[Any]:
    """Steps as a log has them."""
    days = [datetime.datetime(2024, 3, 1) + datetime.timedelta(days=int(t)) for t in at]
    hours = [datetime.datetime(2024, 3, 28, tzinfo=datetime.UTC) + datetime.timedelta(hours=int(t)) for t in at]
    there = [hour.astimezone(ZoneInfo(zone)) for hour in hours]
    unix = {"unix s": 1, "unix ms": 1000, "unix us": 10**6, "unix ns": 10**9, "unix floats": 1.0}.get(kind, 1)
    found: dict[str, list[Any]] = {
        "numbers": at.tolist(),
        "texts of numbers": [str(t) for t in at],
        "dates": [day.date() for day in days],
        "weeks": [days[0].date() + datetime.timedelta(weeks=int(t)) for t in at],
        "months": [datetime.date(2024 + int(t) // 12, 1 + int(t) % 12, 1) for t in at],
        "datetimes": days,
        "zoned": there,
        "iso": [day.strftime("%Y-%m-%d") for day in days],
        "iso minutes": [hour.strftime("%Y-%m-%d %H:%M") for hour in hours],
        "offsets": [hour.isoformat() for hour in there],
    }
    return found.get(kind) or [int(hour.timestamp()) * unix for hour in hours]


DATED = ("dates", "weeks", "months", "datetimes", "zoned", "iso", "iso minutes", "offsets")
KINDS = (*DATED, "numbers", "texts of numbers", "unix s", "unix ms", "unix us", "unix ns", "unix floats", "rows")
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")


def way(rng: np.random.Generator, world: World, folder: Path) -> tuple[Any, dict[str, Any], list[str]]:
    """The log in one of its ways, what must be said of its columns, and the names of its streams."""
    names = [["shop", "b", "more"], ["10", "9", "x"], ["Zürich", "a/b", "=1+1"]][rng.integers(3)][: len(world.streams)]
    kind, zone = str(rng.choice(KINDS)), str(rng.choice(ZONES))
    kind = "numbers" if kind == "rows" and "known_at" in world.roles else kind
    named = ("unique_id", "shop", "series"), ("ds", "step", "delivery"), ("y", "Wetter")
    stream, order, state = (str(rng.choice(own)) for own in named)
    numbers = world.problem is STALL
    columns: dict[str, Any] = {} if state == "y" else {"state": state}
    if kind != "rows" and order == "delivery" and (kind not in DATED or "known_at" in world.roles):
        columns["order"] = order
    spelled = LEVELS if numbers else world.problem.states
    form = str(rng.choice(["both", "named"] if numbers else ["both", "one", "list", "percent", "named"]))
    if numbers:
        cells = [f"q{100 * a:.0f}" if form == "both" else f"low {a}" for a in LEVELS]
    else:
        cells = ["rest", "rain"] if form in ("named", "one") else [f"p_{s}" for s in spelled]
    rows: list[dict[str, Any]] = []
    for name, steps in zip(names, world.streams, strict=True):
        at = np.cumsum(rng.choice([1, 1, 1, 1, 2], len(steps) + 4)) + rng.integers(0, 5)
        shown = times(kind, zone, at)
        for t, step in enumerate(steps):
            row: dict[str, Any] = {stream: name, order: shown[t]}
            outcome = step.outcome if numbers or step.outcome is None else spelled[step.outcome]
            row |= {state: outcome, "published": None if outcome is None else shown[t + step.late]}
            values = [f"{100 * p:.0f} %" for p in step.forecast] if form == "percent" else step.forecast.tolist()
            row |= {"probs": values} if form == "list" else dict(zip(cells, values, strict=True))
            row |= {f"desk {s}": v for s, v in zip(spelled, step.reference, strict=True)}
            row |= {"where": step.place, "share": step.share}
            row |= {f"pay {a}{s}": SHOP[a, s] * step.factor for a in range(3) for s in range(2)} if not numbers else {}
            rows.append(row)
    if form in ("named", "one"):
        own = dict(zip(spelled, cells, strict=True))
        columns["quantiles" if numbers else "probs"] = own if form == "named" else {spelled[1]: "rain"}
    optional = {"context": "where", "scale": "share", "known_at": "published"}
    optional |= {"references": {"desk": {s: f"desk {s}" for s in spelled}}}
    optional |= {"payoffs": [f"pay {a}{s}" for a in range(3) for s in range(2)]}
    columns |= {role: own for role, own in optional.items() if role.replace("references", "reference") in world.roles}
    frame = pl.DataFrame(rows, infer_schema_length=None)
    unread = ["rest"] * (form == "one") + ["published"] * ("known_at" not in world.roles)
    frame = frame.drop(unread)
    frame = frame.drop(order) if kind == "rows" else frame[rng.permutation(len(frame))]
    if rng.random() < 0.5:  # what nobody reads
        n = len(frame)
        frame = frame.with_columns(
            note=pl.Series(rng.choice(["", "a", "late"], n)), wind=rng.normal(size=n), row=rng.integers(0, 9, n)
        )
    if stream == "shop" or 2 * frame.group_by(stream).len()["len"].eq(1).sum() > len(frame):
        columns["stream"] = stream
    if len(names) == 1 and rng.random() < 0.5:
        frame, names = frame.drop(stream), ["0"]
        columns.pop("stream", None)
    return written(rng, frame, kind, stream, folder), columns, names


def written(rng: np.random.Generator, frame: pl.DataFrame, kind: str, stream: str, folder: Path) -> Any:
    """The log in one of the forms that a log may have."""
    kinds = ["polars", "lazy", "pandas", "parquet", "feather"]
    kinds += ["ndjson"] * (kind not in ("dates", "weeks", "months", "datetimes", "zoned"))
    kinds += ["csv", "tsv", "semicolons"] * ("probs" not in frame.columns)
    how = str(rng.choice(kinds))
    if how in ("polars", "lazy"):
        return frame.lazy() if how == "lazy" else frame
    if how == "pandas":
        return frame.to_pandas().set_axis(rng.permutation(len(frame)))
    ending, parts = {"semicolons": "csv"}.get(how, how), {"": frame}
    if stream in frame.columns and rng.random() < 0.2 and how != "ndjson":
        parts = {f"{stream}={quote(name[0], safe='')}/": own.drop(stream) for name, own in frame.group_by(stream)}
    elif rng.random() < 0.3 and len(frame) > 3:
        cuts = sorted({0, *rng.integers(1, len(frame), 2).tolist(), len(frame)})
        parts = {f"{i}": frame[a:b] for i, (a, b) in enumerate(itertools.pairwise(cuts))}
    comma = how == "semicolons" and rng.random() < 0.5
    for place, part in parts.items():
        path = folder / f"{place}log.{ending}"
        path.parent.mkdir(exist_ok=True)
        if how == "parquet":
            part.write_parquet(path)
        elif how == "feather":
            part.write_ipc(path)
        elif how == "ndjson":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in part.to_dicts()))
        else:
            text = part.with_columns(pl.col(pl.Datetime).dt.to_string("iso:strict")) if kind == "zoned" else part
            text.write_csv(path, separator={"csv": ",", "tsv": "\t", "semicolons": ";"}[how], decimal_comma=comma)
    files = sorted(folder.rglob(f"*.{ending}"))
    return [folder, files, files if "=" in next(iter(parts)) else str(folder / f"*.{ending}")][rng.integers(3)]


@pytest.mark.parametrize("first", range(0, CASES, 10))
def test_every_way_in_gives_what_a_guard_does_step_by_step(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, min(first + 10, CASES)):
        rng = np.random.default_rng(seed)
        world, folder = drawn(rng), tmp_path / str(seed)
        folder.mkdir()
        log, columns, names = way(rng, world, folder)
        lag = None if "known_at" in world.roles else world.lag
        monkeypatch.setattr(parts, "_LARGE", 1 if rng.random() < 0.1 else 1 << 31)  # dealt out on the disk
        found = audit(log, world.problem, columns=columns, delta=world.delta, lag=lag).streams
        assert sorted(found["stream"]) == sorted(names), seed
        for row in found.to_dicts():
            wanted = by_hand(world, names.index(row["stream"]))
            assert {name: row[name] for name in wanted} == pytest.approx(wanted, abs=1e-9), seed
