"""The page of an audit: one static file of text, tables and drawings; it runs no script and fetches nothing."""

import html
import math
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..tables import Table, printable
from . import answer as words
from .judging import BEST

if TYPE_CHECKING:
    from .auditing import Audit

LISTED = 100  # streams
_CLOSE = 0.05  # a share is to its forecast, from here on
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(found: "Audit") -> str:
    """The page as HTML, of less than 100 KB; every text of the log is escaped."""
    verdict, title = found.verdict, f"Audit of {printable(found.source, 120)}"
    against = "".join(f"<li>{_safe(_capital(text))}.</li>" for text in words.warnings(found))
    made = [*words.made(found), ("Made by", f"lowregret {version('lowregret')}")]
    parts = [
        f'<p class="note">{_safe(title)}: {_safe(words.size(found))}</p>',
        f"<h1>{_safe(verdict.headline)}</h1>",
        f'<p class="do {verdict.kind}">{_safe(verdict.advice)}</p>',
        "<h2>What it earned</h2>",
        _table(words.table(found)._replace(title=""), wide=(1,)),
        *(f'<p class="note">{_safe(text)}</p>' for text in (words.GUARDED, words.today(found))),
        f'<ul class="warn">{against}</ul>' if against else "",
        "<h2>Money over time</h2>",
        _money(found),
        "<h2>Did outcomes occur as often as forecast?</h2>",
        _reliability(found),
        _streams(found) if found.streams.height > 1 else "",
        "<h2>How this was made</h2>",
        "<dl>" + "".join(f"<dt>{name}</dt><dd>{_safe(text)}</dd>" for name, text in made) + "</dl>",
        _table(words.payoffs(found)),
    ]
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return _FRAME.format(title=_safe(title), style=style, body="\n".join(filter(None, parts)))


def _safe(text: str) -> str:
    """Text that is nothing but text."""
    return html.escape(printable(text, 4000))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(shown: Table, wide: tuple[int, ...] = ()) -> str:
    """A table whose first column names the rows; a small screen is spared the ``wide`` columns."""
    kinds = [' class="wide"' if i in wide else "" for i in range(len(shown.header))]
    head = [f'<th scope="col"{kind}>{_safe(name)}</th>' for kind, name in zip(kinds, shown.header, strict=True)]
    rows = []
    for name, *cells in shown.rows:
        rest = "".join(f"<td{kind}>{_safe(cell)}</td>" for kind, cell in zip(kinds[1:], cells, strict=True))
        total = ' class="total"' if name == "in total" else ""
        rows.append(f'<tr{total}><th scope="row"><bdi>{_safe(name)}</bdi></th>{rest}</tr>')
    caption = f"<caption>{_safe(shown.title)}</caption>" if shown.title else ""
    body = "\n".join([f"<table>{caption}<thead><tr>{''.join(head)}</tr></thead><tbody>", *rows, "</tbody></table>"])
    return f'<div class="scroll">{body}</div>'


def _streams(found: "Audit") -> str:
    """A table of the streams, those with an alarm first; of very many, these alone."""
    word, ranked = words.stream_word(found), words.by_evidence(found)
    if ranked.height > LISTED:
        ranked = ranked.head(min(found.alarms, LISTED))
    decimals, rows = words.decimals_for([*ranked["model"], *ranked["guard"]]), []
    for row in ranked.iter_rows(named=True):
        since, alarm = (
            words.when(row[name], row[f"{name}_time"], month="%b") if row[name] else "-" for name in ("since", "alarm")
        )
        alarm += " ?" * (row["alarm"] is not None and not row["named"])
        earned = words.money(row["model"], None, decimals)
        more = words.money(row["guard"] - row["model"], None, decimals, signed=True)
        ends = "yes" if row["follows"] else "no"
        rows.append((printable(row["stream"], 60), f"{row['steps']:,}", earned, more, since, alarm, ends))
    others = "difference guarded", "wrong since about", "alarm", "followed at the end"
    header = word, words.plural(found.unit), words.COLUMNS[0], *others
    notes = ["? may be chance."] * any(row[5].endswith("?") for row in rows)
    if rest := found.streams.height - len(rows):
        quiet = "" if len(rows) < found.alarms else " without an alarm"
        notes.append(f"{rest:,} more{quiet} are in streams.parquet.")
    title = f'<h2 class="streams">{_safe(_capital(words.plural(word)))}</h2>'
    table = _table(Table("", header, tuple(rows)), wide=(1, 2, 4)) if rows else ""
    return f'{title}\n{table}<p class="note">{" ".join(notes)}</p>'


# Drawings.


class Plot(NamedTuple):
    """Where values stand in a drawing: ranges of x and y, and the box they are drawn in."""

    x: tuple[float, float]
    y: tuple[float, float]
    box: tuple[float, float, float, float]  # left, top, right, bottom

    def at(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Places of values."""
        left, top, right, bottom = self.box
        return (
            left + (np.asarray(x) - self.x[0]) / (self.x[1] - self.x[0]) * (right - left),
            bottom - (np.asarray(y) - self.y[0]) / (self.y[1] - self.y[0]) * (bottom - top),
        )

    def line(self, kind: str, x: Any, y: Any, shape: str = "polyline") -> str:
        """A line through values, or the area within it."""
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*self.at(x, y), strict=True))
        return f'<{shape} class="{kind}" points="{points}"/>'

    def grid(self, x_ticks: Iterable[tuple[float, str]], y_ticks: Iterable[tuple[float, str]]) -> str:
        """Lines across, with what they stand for."""
        left, _, _, bottom = self.box
        x_ticks, y_ticks = list(x_ticks), list(y_ticks)
        parts = [self.line("grid", [x, x], self.y) for x, _ in x_ticks]
        parts += [self.line("grid", self.x, [y, y]) for y, _ in y_ticks]
        parts += [_text(float(self.at(x, 0)[0]), bottom + 18, label, "middle") for x, label in x_ticks]
        parts += [_text(left - 7, float(self.at(0, y)[1]) + 4, label, "end") for y, label in y_ticks]
        return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_safe(text)}</text>'


def _svg(kind: str, width: int, height: int, title: str, parts: Iterable[str]) -> str:
    head = f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{_safe(title)}">'
    return f"{head}<title>{_safe(title)}</title>{''.join(parts)}</svg>"


def _amounts(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round amounts from low to high, about so many, with their labels."""
    ten = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(ten * m for m in (1, 2, 5, 10) if ten * m * most >= high - low)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    at = np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step
    return [(value, words.money(value, None, decimals)) for value in at.tolist()]


_TIMES = (  # a unit, every so many of it, and its labels
    *(("s", every, "{0:%H:%M:%S}") for every in (1, 5, 15, 30)),
    *(("m", every, "{0:%H:%M}") for every in (1, 5, 15, 30)),
    *(("h", every, "{0.day} {0:%b %H:%M}") for every in (1, 3, 6, 12)),
    *(("D", every, "{0.day} {0:%b}") for every in (1, 2, 7, 14)),
    *(("M", every, "{0:%b %Y}") for every in (1, 2, 3, 6)),
    *(("Y", every, "{0.year}") for every in (1, 2, 5, 10, 20, 50, 100)),
)


def _times(low: np.datetime64, high: np.datetime64, most: int) -> list[tuple[float, str]]:
    """Round times from low to high, at most so many or one more, with their labels."""
    for unit, every, label in _TIMES:
        first, last = (int(end.astype(f"datetime64[{unit}]").astype(np.int64)) // every for end in (low, high))
        if last - first <= most:
            at = (np.arange(first, last + 1) * every).astype(f"datetime64[{unit}]")
            return [(float(_place(time)), label.format(time.astype("datetime64[s]").item())) for time in at[at >= low]]
    return []


def _place(times: Any) -> np.ndarray:
    """Times, or numbers of steps, as numbers."""
    at: np.ndarray = np.asarray(times)
    return (at.astype("datetime64[ns]") if at.dtype.kind == "M" else at).astype(np.float64)


def _money(found: "Audit") -> str:
    """What was earned until each step; of several streams, how much more than by acting on their models."""
    many, currency, at_P = found.streams.height > 1, found.settings.currency, found.at_P
    names = {"best": BEST, "model": "model", "guard": "guard"}
    lines = {kind: found.curves[name] - (found.curves["model"] if many else 0.0) for kind, name in names.items()}
    keys = {"model": words.COLUMNS[0], "guard": words.COLUMNS[1], "best": BEST}
    ends = dict(zip(lines, words.amounts(found, *(line[-1] for line in lines.values())), strict=True))
    note = f"How much more than by acting on the {words.models(found)}, the flat line" if many else "Earned, added up"
    note += f", in {currency}." if currency else "."
    title = f"{note} In the end: {', '.join(f'{name} {ends[kind]}' for kind, name in keys.items())}."
    if np.ptp([0.0, *lines["best"]]) > 5 * np.ptp([0.0, *lines["model"], *lines["guard"]]) > 0:
        del lines["best"], keys["best"]  # beside it the others could not be seen
        note += f" The {BEST} is not drawn: it is at {ends['best']} in the end."
    x_P, values = _place(at_P), np.array([0.0, *np.concatenate(list(lines.values()))])
    pad = 0.04 * float(np.ptp(values)) or 1.0
    x = float(x_P[0]), float(x_P[-1]) if x_P[-1] > x_P[0] else float(x_P[0]) * 1.001 + 1
    y = float(values.min()) - pad, float(values.max()) + pad
    y_ticks = _amounts(*y, 6)
    left = 22 + 7.5 * max(len(label) for _, label in y_ticks)
    row = found.streams.row(0, named=True)
    marks = {kind: _step(found, row, kind) for kind in ("since", "alarm") if not many and row[kind] is not None}
    drawings = []
    for kind, width, height, most in (("plot wide", 900, 330, 8), ("plot narrow", 360, 270, 3)):
        plot = Plot(x, y, (left, 20, width - 28, height - 28))
        x_ticks = _times(at_P[0], at_P[-1], most) if at_P.dtype.kind == "M" else _amounts(*x, most)
        parts = [plot.grid(x_ticks, y_ticks)]
        if len(marks) == 2:
            since, alarm = marks.values()
            parts.append(plot.line("since", [since, since, alarm, alarm], [*y, *y[::-1]], "polygon"))
        both = [*lines["model"], *lines["guard"][::-1]]
        parts.append(plot.line("between", [*x_P, *x_P[::-1]], both, "polygon"))
        parts += [plot.line(name, x_P, line) for name, line in lines.items()]
        if "alarm" in marks:
            at = float(plot.at(marks["alarm"], 0)[0])
            label = f"alarm, {words.when(row['alarm'], row['alarm_time'], month='%b')}"
            parts.append(plot.line("alarm", [marks["alarm"]] * 2, y))
            parts.append(_text(at, 14, label, "start" if at < width / 2 else "end", "mark"))
        drawings.append(_svg(kind, width, height, title, parts))
    keys |= {"since": "wrong, and no alarm yet"} if len(marks) == 2 else {}
    legend = "".join(f'<span><i class="{kind}"></i>{name}</span>' for kind, name in keys.items())
    return f'<p class="note">{_safe(note)}</p><p class="note key">{legend}</p><figure>{"".join(drawings)}</figure>'


def _step(found: "Audit", row: dict[str, Any], kind: str) -> float:
    """Where the step of an event of the only stream is on the axis of money."""
    if found.at_P.dtype.kind != "M":
        return float(row[kind])
    return float(_place(np.datetime64(datetime.fromisoformat(row[f"{kind}_time"]).replace(tzinfo=None))))


def _reliability(found: "Audit") -> str:
    """How often outcomes were as the model said, up to the alarm and after it side by side."""
    names = ["Up to the alarm", "After it"] if found.alarms else [f"All {words.plural(found.unit)}"]
    s = found.reliability.shape[1] - 1
    if s > 1 and not found.levels:
        s = max(range(s + 1), key=lambda state: _worst(*_shares(found, len(names) - 1, state))[1])
    panels = "".join(_panel(found, name, part, s) for part, name in enumerate(names))
    note = f"Dashed: as often as forecast. Bars: 95% intervals, if {words.plural(found.unit)} are independent."
    return f'<div class="two">{panels}</div><p class="note">{_safe(note)}</p>'


def _shares(found: "Audit", part: int, s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many steps, the mean forecast, and how often that occurred: by tenth of a probability, or by level."""
    if found.levels:
        (n_K, count_K), forecast_K = found.reliability[part].T, np.array(found.levels)
    else:
        n_K, sum_K, count_K = found.reliability[part, s]
        forecast_K = sum_K / np.maximum(n_K, 1)
    there_K = n_K > 0
    return n_K[there_K], forecast_K[there_K], (count_K / np.maximum(n_K, 1))[there_K]


def _worst(n_K: np.ndarray, forecast_K: np.ndarray, share_K: np.ndarray) -> tuple[int, float]:
    """Where forecasts were furthest off, by how many standard errors; where they were close, only if nowhere else."""
    if not len(n_K):
        return 0, 0.0
    spread_K, apart_K = forecast_K * (1 - forecast_K), np.abs(share_K - forecast_K)
    spread_K = np.where(spread_K > 0, spread_K + 1 / n_K, 1e-9)  # none where it was certain
    off_K = apart_K * np.sqrt(n_K / spread_K)
    far_K = np.where(apart_K < _CLOSE, 0.0, off_K)
    k = int((far_K if far_K.max() >= 3 else off_K).argmax())
    return k, float(off_K[k])


def _panel(found: "Audit", name: str, part: int, s: int) -> str:
    """One drawing of reliability, with the worst of it in a sentence."""
    n_K, forecast_K, share_K = _shares(found, part, s)
    if not len(n_K):
        return f"<figure><h3>{_safe(name)}</h3><figcaption>Nothing is recorded.</figcaption></figure>"
    state = "" if found.levels else words.stakes(found.problem)[0][s]
    sentence = _diagnosis(found, n_K, forecast_K, share_K, printable(state, 30))
    axes = ("forecast", f"how often {printable(state, 16)} occurred")
    axes = ("level of the quantile", "how often at or below it") if found.levels else axes
    plot, kind = Plot((0, 1), (0, 1), (52, 26, 380, 266)), "model" if part else "guard"
    percents = [(share / 100, f"{share}%") for share in range(0, 101, 20)]
    parts = [plot.grid(percents, percents), plot.line("best", [0, 1], [0, 1])]
    parts += [_text(4, 13, axes[1]), _text(216, 302, axes[0], "middle"), plot.line(kind, forecast_K, share_K)]
    for n, p, q in zip(n_K, forecast_K, share_K, strict=True):
        z = 1.96  # Wilson's interval
        middle, half = q + z * z / 2 / n, z * math.sqrt(q * (1 - q) / n + (z / 2 / n) ** 2)
        ends = np.array([middle - half, middle + half]) / (1 + z * z / n)
        (x, y), size = plot.at(p, q), 3 + 4 * math.sqrt(n / n_K.max())
        says = f"{_percent(p)} forecast, {_percent(q)} occurred, {words.counted(int(n), found.unit)}"
        dot = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"><title>{_safe(says)}</title></circle>'
        parts += [plot.line(f"{kind} bar", [p, p], ends), dot]
    svg = _svg("panel", 400, 308, f"{name}. {sentence}", parts)
    return f"<figure><h3>{_safe(name)}</h3><figcaption>{_safe(sentence)}</figcaption>{svg}</figure>"


def _diagnosis(found: "Audit", n_K: np.ndarray, forecast_K: np.ndarray, share_K: np.ndarray, state: str) -> str:
    """The worst of a drawing of reliability: within chance, close, upside down, or otherwise off."""
    k, off = _worst(n_K, forecast_K, share_K)
    forecast, share, steps = _percent(forecast_K[k]), _percent(share_K[k]), words.counted(int(n_K[k]), found.unit)
    worst = f"where the forecast of {state} was about {forecast} ({steps}), {state} occurred in {share}."
    if found.levels:
        worst = f"{share} of outcomes ({steps}) were at or below the {forecast} quantile."
    if off < 3 or abs(forecast_K[k] - share_K[k]) < _CLOSE:
        return f"{'Within chance' if off < 3 else 'Close'}. At worst: {worst}"
    x_K, y_K = forecast_K - forecast_K.mean(), share_K - share_K.mean()
    falls = len(n_K) > 2 and x_K @ y_K < -0.5 * math.sqrt((x_K @ x_K) * (y_K @ y_K))
    return f"Upside down: {worst}" if falls else _capital(worst)


def _percent(share: float) -> str:
    """A share in whole percent, but never 0% or 100% for what is not."""
    return f"{share:.0%}" if share in (0, 1) or 0.005 < share < 0.995 else f"{share:.1%}"
