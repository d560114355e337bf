"""The engine keeps its numbers: 200 random guards over all settings, beside what came of each (``engine_cases.py``).

One in four in ``make test``, all kinds among them; all of them in ``make test-all``.
"""

import json
import math
from functools import cache
from typing import Any

import pytest

from . import engine_cases

RATES = ("rate", "share")  # numbers among the parts of an event; all others are exactly those


@cache
def fixtures() -> list[dict[str, Any]]:
    found = json.loads(engine_cases.FILE.read_text())
    assert len(found) == engine_cases.CASES
    return found


def often(number: int) -> bool:
    """One in four, in turn from each kind: kinds go round by eight."""
    return (number + number // 8) % 4 == 0


NUMBERS = [
    pytest.param(number, marks=() if often(number) else pytest.mark.long, id=f"{number}-{kind}".replace(" ", "-"))
    for number in range(engine_cases.CASES)
    for kind in [engine_cases.a_case(number)["kind"]]
]


def close(mine: float | None, theirs: float | None) -> bool:
    """Within 1e-10 of each other, relative where they are large; not a number at the same places."""
    if mine is None or theirs is None:
        return mine is theirs
    return math.isclose(mine, theirs, rel_tol=1e-10, abs_tol=1e-10)


@pytest.mark.parametrize("number", NUMBERS)
def test_what_came_of_a_case_is_what_came_before(number: int) -> None:
    wanted, found = fixtures()[number], json.loads(json.dumps(engine_cases.found(number)))
    assert found.keys() == wanted.keys()
    events = [
        [{n: v for n, v in event.items() if n not in RATES} for event in one["events"]] for one in (found, wanted)
    ]
    assert events[0] == events[1]
    for mine, theirs in zip(found["events"], wanted["events"], strict=True):
        assert all(close(mine.get(name), theirs.get(name)) for name in RATES), (mine, theirs)
    for name in wanted.keys() - {"events"}:
        assert len(found[name]) == len(wanted[name]), name
        off = [(i, a, b) for i, (a, b) in enumerate(zip(found[name], wanted[name], strict=True)) if not close(a, b)]
        assert not off, f"{name}: {off[:3]} of {len(wanted[name])}"


def test_the_usual_cases_are_of_every_kind() -> None:
    cases = [engine_cases.a_case(number) for number in range(engine_cases.CASES) if often(number)]
    assert len(cases) == engine_cases.CASES // 4
    assert {case["kind"] for case in cases} == {"plain", "told", "late", "numbers", "late told", "episodes"}
    assert {case.get("form") for case in cases} == {None, "quantiles", "samples", "density"}
    assert any(one["events"] for one in fixtures())
