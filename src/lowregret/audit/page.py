"""The page of an audit: one file that opens offline, holds all it needs, and never runs text from a log."""

import html
import json
import re
from pathlib import Path
from typing import Any

from ..problems import Payoff
from .answer import promised_to, step_of
from .report import Audit, Judgement
from .result import BEST
from .sketch import HIGHEST, LOWEST, POINTS, SPARKS, instead, payoff_scale, pictures, reliability
from .times import TIMES, ZONED, spelt

_LONGEST = 100  # letters of a name
_ROOM = 3_400_000  # bytes for the table of streams
_PAIRS = 12  # of actions
_LISTED = 40  # actions and states
_COLOURS = {
    "model": "#d55e00",
    "guard": "#0072b2",
    "fallback": "#009e73",
    "Hedge": "#cc79a7",
    "last outcome": "#56b4e9",
    BEST: "#777777",
}
_OTHER = "#999999"  # of a column that was added
_TEMPLATE = Path(__file__).with_name("page.html")


def plotly_js() -> str:
    """The drawing library, from its installed package."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the page needs plotly: pip install 'lowregret[audit]'", name="plotly") from error
    return get_plotlyjs()


def page(found: Audit) -> str:
    """The page of an audit, below 9 MB whatever the log: 5 of them are the drawing library."""
    files = ", ".join(name for name, _ in found.about["log"][:3])
    parts = {
        "@@TITLE@@": html.escape(f"Audit of {_name(files)}"),
        "@@DATA@@": _in_script(_data(found)),
        "@@PLOTLY@@": plotly_js().replace("</script", "<\\/script"),
    }
    # The template is cut once: what is put in is not looked through again.
    return "".join(parts.get(piece, piece) for piece in re.split("(@@[A-Z]+@@)", _TEMPLATE.read_text(encoding="utf-8")))


def _in_script(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings say."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(found: Audit) -> dict[str, Any]:
    about, problem, (bound, whom) = found.about, found.problem, promised_to(found)
    dated = about["steps"] in (TIMES, ZONED)
    told = pictures(found)
    said, would, rest = found.answer.partition("It would ")
    ranked = sorted(found.streams, key=lambda one: (one.switched_at is None, -one.log_e, one.stream))
    sparks = {name: spark for part in found.parts.values() for name, spark in part["sketch"]["sparks"].items()}
    axes: dict[str, int] = {}
    rows, room = [], _ROOM
    for one in ranked:
        row = _row(one, about["players"], sparks[one.stream], axes)
        room -= len(_in_script(row))
        if room < 0:
            break
        rows.append(row)
    place = {one.stream: n for n, one in enumerate(ranked[: len(rows)])}
    return {
        "log": [[_name(name), size] for name, size in about["log"][:20]],
        "answer": [said, would + rest],
        "unit": step_of(found),
        "steps": found.steps,
        "dated": dated,
        "read": found.read_as,
        "streams": about["streams"],
        "total": found.totals,
        "warnings": [warning[:400] for warning in found.warnings],
        "alarms": found.alarms,
        "allowed": _short(found.allowed),
        "survivors": len(found.survivors),
        "delta": about["delta"],
        "fdr": about["fdr"],
        "assumed": found.assumed,
        "currency": about["currency"] or "",
        "guarantee": _short(bound),
        "whom": whom,
        "payoffs": _payoffs(problem),
        "colours": {name: _COLOURS.get(name, _OTHER) for name in about["players"]},
        "players": about["players"],
        "all": _together(found, dated) | _measured(told),
        "deltas": [one | {"first": _place(one["first"], dated)} for one in told["deltas"]],
        "details": [
            _detail(found, one) | {"row": place[one["stream"]]} for one in found.details if one["stream"] in place
        ],
        "sparks": {"points": POINTS, "lines": SPARKS, "log_e": [LOWEST, HIGHEST], "axes": list(axes)},
        "rows": rows,
    }


def _payoffs(problem: Any) -> dict[str, Any] | None:
    """The payoffs, where outcomes are states; the first of them where there are many."""
    if isinstance(problem, Payoff):
        return None
    payoffs = problem.in_payoffs(problem.utility[:_LISTED, :_LISTED]).tolist()
    return {
        "actions": [_name(str(name)) for name in problem.actions[:_LISTED]],
        "states": [_name(str(name)) for name in problem.states[:_LISTED]],
        "table": [[_short(value) for value in row] for row in payoffs],
    }


def _together(found: Audit, dated: bool) -> dict[str, Any]:
    """The curves of all streams: over times where all have the same ones, else over steps."""
    grid, curves = found.curves()
    parts = [part["sketch"] for _, part in sorted(found.parts.items())]
    low, high = (
        [[part[end][g] for part in parts if part[end][g] is not None] for g in range(len(grid))] for end in _ENDS
    )
    same = all(own and min(own) == max(most) for own, most in zip(low, high, strict=True))
    return {
        "at": [min(own) for own in low] if same else grid.tolist(),
        "dated": dated and same,
        "money": {name: [_short(value) for value in line] for name, line in curves.items()},
        "left": [sum(part["left"][g] for part in parts) for g in range(len(grid))],
    }


_ENDS = ("from", "upto")


def _detail(found: Audit, one: dict[str, Any]) -> dict[str, Any]:
    """One stream with its curves in payoffs."""
    scale, shift = payoff_scale(found.problem)
    measured = {
        "reliability": reliability(found.problem, one["reliable"]),
        "instead": instead(found.problem, one["instead"], one["said"]),
    }
    return {
        "stream": _name(one["stream"]),
        "at": one["at"],
        "evidence": [_short(value) for value in one["evidence"]],
        "threshold": one["threshold"],
        "money": {
            name: [_short(value * scale + shift * n) for value, n in zip(line, one["steps"], strict=True)]
            for name, line in one["money"].items()
        },
        "marks": one["marks"],
        "excluded": one["excluded"],
    } | _measured(measured)


def _measured(told: dict[str, Any]) -> dict[str, Any]:
    """How reliable the forecasts were and what would have been better, in six digits."""
    return {
        "reliability": [
            {
                "state": _name(one["state"]),
                "bins": [[_short(each["said"]), _short(each["came"]), each["steps"]] for each in one["bins"]],
            }
            for one in told["reliability"][:_LISTED]
        ],
        "instead": [
            [_name(one["said"]), _name(one["better"]), one["steps"], _short(one["more"])]
            for one in told["instead"][:_PAIRS]
        ],
    }


def _row(one: Judgement, players: list[str], spark: list[Any], axes: dict[str, int]) -> list[Any]:
    """A row of the table of streams: its name, what happened, what each player earned in all, and its spark line."""
    low, high, axis, lines, threshold = spark
    happened = one.switched_at, _said(one.switched_time), one.since, _said(one.since_time), one.returns, one.left
    earned = [_short(one.earned[name] * one.steps) for name in players]
    drawn = [_short(low), _short(high), axes.setdefault(axis, len(axes)), lines, _short(threshold)]
    return [
        _name(one.stream),
        one.steps,
        *happened,
        one.survives,
        _short(one.log_e),
        earned,
        drawn,
        _name(one.best_action),
    ]


def _place(at: int | None, dated: bool) -> str | None:
    """A place on the axis of time as people write it."""
    return None if at is None else spelt(at * 10**6) if dated else str(at)


def _said(time: str | int | None) -> str | None:
    return None if time is None else str(time)


def _name(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _short(value: float) -> float:
    """A number in six digits: more cannot be seen, and the page stays small."""
    return float(f"{value:.6g}")
