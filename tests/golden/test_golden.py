"""Golden runs: what the library said once, on settings of every kind, and must go on saying.

``data/`` never changes (``.ci/run`` checks its sums). A JSON file lists cases: neutral settings, the shapes of the
arrays that go in and of the numbers that came out, in the order in which they stand in the file of the same name with
``.npz``; events are in the JSON. Numbers that changed on purpose stand in ``changed.json``, each with its value and
reason. What a setting is in the library stands in ``api.py``.
"""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import api

pytestmark = pytest.mark.needs("pandas", "polars")  # for streams and audits

DATA = Path(__file__).parent / "data"
NEAR = 1e-12


@cache
def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of a kind, each with its arrays under ``in`` and its numbers under ``out``."""
    listed = json.loads((DATA / f"{kind}.json").read_text())
    with np.load(DATA / f"{kind}.npz") as arrays:
        given, found = arrays["given"].astype(np.int64), arrays["found"]
    at_given = at_found = 0
    for case in listed:
        case["in"], at_given = taken(given, at_given, case["given"])
        case["out"], at_found = taken(found, at_found, case["found"])
    return listed


def taken(numbers: np.ndarray, at: int, shapes: dict[str, list[int]]) -> tuple[dict[str, np.ndarray], int]:
    """The next arrays of these shapes, and where those after them begin."""
    arrays = {}
    for name, shape in shapes.items():
        size = math.prod(shape)
        arrays[name], at = numbers[at : at + size].reshape(shape), at + size
    return arrays, at


@cache
def changed() -> dict[str, Any]:
    """By case: the numbers that differ from the golden ones, and why."""
    return json.loads((Path(__file__).parent / "changed.json").read_text())


def expected(name: str, out: dict[str, Any], events: list[Any]) -> tuple[dict[str, Any], list[Any]]:
    """What came out, with what has changed since in its place."""
    now = changed().get(name, {})
    return {**out, **now.get("numbers", {})}, now.get("events", events)


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Which numbers are not those wanted."""
    off = [f"{name} is not there" for name in wanted.keys() ^ found.keys()]
    for name in wanted.keys() & found.keys():
        mine, theirs = (np.asarray(one[name], dtype=np.float64) for one in (found, wanted))
        if mine.shape != theirs.shape:
            off.append(f"{name}: shape {mine.shape}, was {theirs.shape}")
        elif not np.allclose(mine, theirs, rtol=NEAR, atol=NEAR, equal_nan=True):
            worst = int(np.nanargmax(np.abs(np.where(np.isfinite(mine - theirs), mine - theirs, 0)).ravel()))
            off.append(f"{name}: {mine.ravel()[worst]!r}, was {theirs.ravel()[worst]!r}")
    return off


def event_differences(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[str]:
    """Which events are not those wanted: all parts but rates and shares exactly."""
    off = [] if len(found) == len(wanted) else [f"{len(found)} events, were {len(wanted)}"]
    for mine, theirs in zip(found, wanted, strict=False):
        near = {part: pytest.approx(theirs[part], rel=NEAR) for part in ("rate", "share") if part in theirs}
        if mine != {**theirs, **near}:
            off.append(f"{mine}, was {theirs}")
    return off


# Guards


def in_units(case: dict[str, Any]) -> dict[str, np.ndarray]:
    """What goes in, out of whole numbers: weights become probabilities, tenths outcomes, hundredths scales."""
    inputs = dict(case["in"])
    if case["form"] == "states":
        for name in ("forecast", "references"):
            if name in inputs:
                inputs[name] = inputs[name] / inputs[name].sum(-1, keepdims=True)
    else:
        inputs |= {name: inputs[name] / 10 for name in ("forecast", "references", "outcome") if name in inputs}
    if "scale" in inputs:
        inputs["scale"] = inputs["scale"] / 100
    return inputs


def payoffs_at(case: dict[str, Any], inputs: dict[str, np.ndarray], t: int) -> np.ndarray:
    """What each action earned in a step, ``[..., A]``, in the problem's units."""
    said, outcome = case["problem"], inputs["outcome"][t]
    if "orders" in said:
        orders = np.array(said["orders"], dtype=np.float64)
        paid = said["price"] * np.minimum(orders, outcome[..., None]) - said["cost"] * orders
    elif "payoffs" in inputs:
        paid = np.take_along_axis(inputs["payoffs"][t], outcome[..., None, None], axis=-1)[..., 0]
    else:
        paid = np.array(said["payoffs"])[:, outcome]
        paid = np.moveaxis(paid, 0, -1)
    return paid * inputs["scale"][t][..., None] if "scale" in inputs else paid


def run_guard(case: dict[str, Any]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """The run of a case: ``arrivals`` are pairs (after which step's advice, of which step) in the order they came."""
    inputs, T = in_units(case), len(case["in"]["outcome"])
    guard, late = api.guard_of(case), case["lag"] > 1
    names = case["problem"].get("states")
    known = ("context", "payoffs", "scale", "references", "forecast")
    played, shares, evidence, regrets, money = [], [], [], [], 0.0
    arrivals = iter(case["in"]["arrivals"].tolist())
    nearest = next(arrivals, None)
    for t in range(1, T + 1):
        if t == case["restarted before"]:
            guard.restart()
        if t == case["replaced before"]:
            api.replaced_first(guard, None if isinstance(case["streams"], int) else "late comer")
        now = {name: inputs[name][t - 1] for name in known if name in inputs}
        played.append(api.advise(guard, case, t if late else None, now))
        shares.append(np.asarray(guard.share))
        while nearest is not None and nearest[0] == t:
            s = nearest[1]
            if case["in"]["given up"][s - 1]:
                guard.skip(s if late else None)
            else:
                outcome = inputs["outcome"][s - 1]
                came = np.array(names)[outcome].tolist() if names else outcome
                missing = inputs["missing"][s - 1].astype(bool) if "missing" in inputs else None
                guard.observe(came, inputs["action"][s - 1], step=s if late else None, missing=missing)
                there = 1.0 if missing is None else ~missing
                money = money + there * (played[s - 1] * payoffs_at(case, inputs, s - 1)).sum(-1)
            nearest = next(arrivals, None)
        if (t - 1) % max(1, T // 6) == 0:
            evidence.append(np.asarray(guard.evidence[0]))
        if t % max(1, T // 4) == 0:
            regrets.append(np.asarray(guard.regret, dtype=np.float64))
        if t == case["saved after"]:
            guard = api.reloaded(guard, case)
    wave_T = np.cos(np.arange(T))
    found = {
        "played": np.stack(played)[:: max(1, T // 8)],
        "all played": np.einsum("t,t...->...", wave_T, np.stack(played)) / T,
        "all shares": np.einsum("t,t...->...", wave_T, np.stack(shares)) / T,
        "evidence": np.stack(evidence),
        "regret": np.stack(regrets),
        "realised": np.asarray(guard.realised_regret, dtype=np.float64),
        "money": np.asarray(money) / T,
        "promised": np.array(api.promised(guard.certificate)),
    }
    return found, [api.event(one) for one in guard.events]


def check(kind: str, number: int, found: dict[str, Any], events: list[dict[str, Any]]) -> None:
    case = cases(kind)[number]
    wanted, were = expected(f"{kind} {number}", case["out"], case["events"])
    assert not (differences(found, wanted) + event_differences(json.loads(json.dumps(events)), were))


def numbered(kind: str, one_in: int) -> list[Any]:
    """All cases of a kind; one in so many of them in ``make test``."""
    total = len(json.loads((DATA / f"{kind}.json").read_text()))
    return [pytest.param(n, marks=() if n % one_in == 0 else pytest.mark.long) for n in range(total)]


@pytest.mark.parametrize("number", numbered("guards", 4))
def test_guards(number: int) -> None:
    check("guards", number, *run_guard(cases("guards")[number]))


# Recordings


def run_backtest(case: dict[str, Any]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    inputs = in_units(case)
    if names := case["problem"].get("states"):
        inputs["outcome"] = np.array(names, dtype=object)[inputs["outcome"]]
    found = api.backtested(case, inputs)
    numbers = {f"earned by {name}": np.array(values) for name, values in found["earned"].items()}
    numbers |= {name: np.array(found[name], dtype=np.float64) for name in ("regret", "share", "alarm", "promised")}
    return numbers, found["events"]


@pytest.mark.parametrize("number", numbered("backtests", 3))
def test_backtests(number: int) -> None:
    check("backtests", number, *run_backtest(cases("backtests")[number]))


# Predictors, Algorithm 2


def run_predictor(case: dict[str, Any]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    tokens, weights = case["in"]["tokens"], case["in"].get("forecasts")
    if weights is None:
        found = api.predicted(case, tokens)
    else:  # those of SmolLM2, as they were recorded: a model for each stream
        each = weights / weights.sum(-1, keepdims=True)
        bases = [{**case, "base": {"schedule": laws}} for laws in each]
        streams = [api.predicted(one, tokens[n : n + 1]) for n, one in enumerate(bases)]
        found = {name: np.concatenate([one[name] for one in streams]) for name in ("laws", "alarm", "regret")}
        found["promised"] = streams[0]["promised"]
    laws_NxTxS, T = found["laws"], case["in"]["tokens"].shape[1]
    numbers = {name: np.asarray(found[name], dtype=np.float64) for name in ("alarm", "regret", "promised")}
    if len(laws_NxTxS):
        numbers["laws"] = laws_NxTxS[:, :: max(1, T // 6)]
        numbers["all laws"] = np.einsum("t,nts->ns", np.cos(np.arange(T)), laws_NxTxS) / T
    return numbers, []


@pytest.mark.parametrize("number", numbered("predictors", 3))
def test_predictors(number: int) -> None:
    check("predictors", number, *run_predictor(cases("predictors")[number]))


# Certificates of what is made and not run


@pytest.mark.parametrize("number", numbered("certificates", 1))
def test_certificates(number: int) -> None:
    check("certificates", number, {"promised": np.array(api.certificate_of(cases("certificates")[number]))}, [])


# The paper's statements and its table of eight sources


@cache
def table(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"{name}.json").read_text())


# Where a search ends depends on how a processor rounds: such a number is near what it was.
SEARCHED = "best models found"
LEFT = changed().get("verify", {}).get("left", [])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in table("verify") if name not in LEFT])
def test_statements(name: str) -> None:
    wanted = {**table("verify")[name], **changed().get("verify", {}).get(name, {})}
    found = api.verified(name)
    assert found["verdict"] == wanted["verdict"]
    for part in ("claims", "refuted"):
        assert [claim[0] for claim in found[part]] == [claim[0] for claim in wanted[part]]
        exact, near = (
            {part: [claim[1:] for claim in one[part] if SEARCHED not in claim[0]]} for one in (found, wanted)
        )
        assert not differences(exact, near)
        for mine, theirs in zip(found[part], wanted[part], strict=True):
            assert SEARCHED not in mine[0] or mine[1] == pytest.approx(theirs[1], rel=0.02)


@pytest.mark.long
def test_the_table_of_eight_sources() -> None:
    wanted, now = table("eight_sources"), changed().get("eight_sources", {})
    found = api.eight_sources(wanted["horizon"], wanted["n"], wanted["seed"])
    for part in ("cells", "adversary"):
        assert not differences(found[part], {**wanted[part], **now.get(part, {})})


# Audits of eight recordings, where the packages that carry them are there


@pytest.mark.long
@pytest.mark.parametrize("name", table("recordings"))
def test_recordings(name: str, tmp_path: Path) -> None:
    wanted, recording = table("recordings")[name], name.partition(",")[0]
    if not api.recorded(recording, tmp_path):
        pytest.skip("the data are not there: python -m benchmarks.recordings")
    found = api.audited(tmp_path / recording, wanted["lag"])
    assert {part: found[part] for part in ("steps", "alarm", "returns", "left")} == {
        part: wanted[part] for part in ("steps", "alarm", "returns", "left")
    }
    assert not differences(found["totals"], wanted["totals"])
    assert found["promised"][0] == pytest.approx(wanted["promised"][0], rel=NEAR)


# Numbers of pages that take a language model or a GPU to make: as they are published


@pytest.mark.parametrize("name", ["smollm2", "hugging_face"])
def test_published_numbers(name: str) -> None:
    published = json.loads(
        (Path(__file__).parents[2] / "docs" / "results" / f"{name.replace('_', '-')}.json").read_text()
    )
    for entries in published.get("games", {}).values():
        for case in entries.values():
            if isinstance(case, dict):
                case.pop("regret summed, every 10 rounds", None)
    assert published == changed().get(name, {}).get("numbers", table(name))
