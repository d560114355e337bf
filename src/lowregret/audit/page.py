"""One page that answers the question: opens offline, holds all it needs, and runs nothing that stands in a log."""

import html
import json
import math
import re
from pathlib import Path
from typing import Any

from .report import Audit, Judgement

_ROWS = 400  # streams in the table
_LONGEST = 100  # letters of a name
_COLOURS = {
    "model": "#d55e00",
    "guard": "#0072b2",
    "fallback": "#009e73",
    "Hedge": "#cc79a7",
    "last outcome": "#56b4e9",
    "best fixed action": "#555555",
}
_OTHER = "#999999"  # of a column that was added
_TEMPLATE = Path(__file__).with_name("page.html")


def plotly_js() -> str:
    """The drawing library, out of its installed package."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the page needs plotly: pip install 'lowregret[audit]'", name="plotly") from error
    return get_plotlyjs()


def page(found: Audit) -> str:
    """The page of an audit, below 8 MB whatever the log: most of it is the drawing library."""
    parts = {
        "@@TITLE@@": html.escape(f"Audit of {found.about['streams']:,} streams, {found.steps:,} steps"),
        "@@DATA@@": _in_script(_data(found)),
        "@@PLOTLY@@": plotly_js().replace("</script", "<\\/script"),
    }
    # The template is cut once: what is put in is not looked through again.
    return "".join(parts.get(piece, piece) for piece in re.split("(@@[A-Z]+@@)", _TEMPLATE.read_text(encoding="utf-8")))


def _in_script(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever its strings say."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(found: Audit) -> dict[str, Any]:
    about, certificate = found.about, found.certificate
    episodes = 1 if about["episode"] is None else -(-about["horizon"] // about["episode"])
    grid, curves = found.curves()
    scale, shift = float(found.problem.regret_in_payoffs(1.0)), float(found.problem.in_payoffs(0.0))
    ranked = sorted(found.streams, key=lambda one: (one.switched_at is None, -one.log_e, one.stream))
    timed = [one for one in found.suspects if one.switched_time is not None]
    when = {one.stream: f", switched at {_name(str(one.switched_time))}" for one in timed}
    return {
        "steps": found.steps,
        "read": found.read_as,
        "streams": about["streams"],
        "named": found.named,
        "earned": {name: _short(value) for name, value in found.earned.items()},
        "warnings": [warning[:400] for warning in found.warnings],
        "alarms": found.alarms,
        "allowed": _short(found.allowed),
        "survivors": len(found.survivors),
        "fdr": about["fdr"],
        "delta": _short(about["delta"]),
        "horizon": about["horizon"],
        "guarantee": _short(certificate.regret_bound_in_payoffs),
        "threshold": _short(-math.log(about["delta"] / episodes)),
        "colours": {name: _COLOURS.get(name, _OTHER) for name in about["players"]},
        "grid": grid.tolist(),
        "curves": {name: [_short(value) for value in line] for name, line in curves.items()},
        "details": [
            {
                "stream": _name(one["stream"]),
                "when": when.get(one["stream"], ""),
                "steps": one["steps"],
                "evidence": [_short(value) for value in one["evidence"]],
                "money": {
                    name: [_short(value * scale + shift * n) for value, n in zip(line, one["steps"], strict=True)]
                    for name, line in one["money"].items()
                },
            }
            for one in found.details
        ],
        "players": about["players"],
        "head": ["stream", *_head(bool(timed)), "survives", "ln E", *about["players"]],
        "rows": [_row(one, about["players"], bool(timed)) for one in ranked[:_ROWS]],
    }


def _head(timed: bool) -> list[str]:
    if not timed:
        return ["steps", "switched at", "wrong since", "returns", "left again"]
    return ["steps", "switched at step", "which is", "wrong since step", "which is", "returns", "left again"]


def _row(one: Judgement, players: list[str], timed: bool) -> list[Any]:
    earned = [_short(one.earned[name]) for name in players]
    happened: list[Any] = [one.switched_at, one.since, one.returns, one.left]
    if timed:
        dated = one.switched_at, _when(one.switched_time), one.since, _when(one.since_time)
        happened = [*dated, one.returns, one.left]
    return [_name(one.stream), one.steps, *happened, one.survives, _short(one.log_e), *earned]


def _when(time: str | int | None) -> str | None:
    return None if time is None else str(time)


def _name(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _short(value: float) -> float:
    """Six digits: nobody sees more, and the page stays small."""
    return float(f"{value:.6g}")
