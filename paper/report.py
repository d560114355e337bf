"""What was found, for people: tables on the terminal, the 2 x 4 figure, and one page that needs no other file."""

import html
import io
from typing import TYPE_CHECKING, Any

from lowregret.evaluate import Comparison
from lowregret.evaluate.distances import Estimate
from lowregret.tables import Table

from .eight_sources import TITLES
from .page import CSS
from .presets import PAIRS, PAPER_NEXT_TOKEN_TV, PAPER_SEQUENCE_TV, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
div, figure { overflow-x: auto; } figure { margin: 1rem 0; max-width: none; } figure svg { min-width: 640px; }
table { width: auto; } th { white-space: nowrap; } h3 { margin: 2rem 0 0; }
pre { background: var(--card); padding: .8rem; overflow-x: auto; }
"""
_CAPTION = "Mean regret after t steps with its 95% band, by source; a dot marks the median switch of Algorithm 1."
_SALT: Any = {"svg.hashsalt": "lowregret"}  # the same numbers give the same file


def tables(results: Results) -> list[Table]:
    """All that there is to say in numbers; parts that are not there yet are left out."""
    found = []
    if "summary" in results:
        spec = {name: "+.4f" if "regret" in name else "#.3g" for name in results["summary"]}
        rows = tuple((name, f"{value:{spec[name]}}") for name, value in results["summary"].items())
        found.append(Table("In short", ("what", "measured"), rows))
    if "comparison" in results:
        found.append(_regrets(results["comparison"]))
    if "greedy" in results:
        rows = tuple((name, f"{regret:+.4f}") for name, regret in results["greedy"].items())
        found.append(
            Table("Regret against the greedy adversary (the paper did not try it)", ("player", "regret"), rows)
        )
    if "next_token_tv" in results:
        found.append(_next_token(results["next_token_tv"]))
    if "sequence_tv" in results:
        found.append(_sequence(results["sequence_tv"]))
    if "training" in results:
        found.append(_training(results["training"]))
    return found


def figure(results: Results) -> "Figure":
    """Regret on the eight sources, 2 x 4, with 95% bands."""
    from lowregret.evaluate import plots

    return plots.regret_curves(Comparison.from_json(results["comparison"]), titles=TITLES)[0, 0].figure


def svg(drawn: "Figure") -> str:
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(_SALT):
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def page(results: Results, drawn: "Figure | None") -> str:
    """One HTML page, everything inside."""
    preset = results["preset"]
    aim = "Algorithm 1, in which BERNOULLI can return after an alarm" if preset["distilled"] else "both"
    parts = [
        f"<h1>Low-regret transformers: preset {preset['name']}</h1>",
        "<p>Section 5.2 of <i>Next-Token Prediction and Regret Minimization</i>: guess the next bit, "
        f"{preset['size']['context']} steps, quantal responses at temperature 1/sqrt(T), {preset['samples']} sequences "
        f"a source. BERNOULLI was trained on source b, POLYAURN on urns, ROBUST to be {aim}; "
        "Algorithm 1 is computed, with the trained BERNOULLI as its base. Intervals are 95%.</p>",
    ]
    if drawn is not None:
        inline = svg(drawn)
        parts.append(f"<figure>{inline[inline.index('<svg') :]}<figcaption>{_CAPTION}</figcaption></figure>")
    parts += [_html(table) for table in tables(results)]
    parts.append("<h2>How it was made</h2>")
    made = [
        f"{key}: {value}" for key, value in {**results["environment"], **preset, "seconds": results["seconds"]}.items()
    ]
    parts.append(f"<pre>{html.escape(results['command'])}\n\n{html.escape(chr(10).join(made))}</pre>")
    title = f"python -m paper reproduce, preset {preset['name']}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><style>{CSS}{_STYLE}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _regrets(data: Results) -> Table:
    table = Comparison.from_json(data).table()
    return table._replace(rows=tuple((TITLES.get(row[0], row[0]), *row[1:]) for row in table.rows))


def _next_token(found: Results) -> Table:
    rows = []
    for p, q in PAIRS:
        value, half = PAPER_NEXT_TOKEN_TV[p, q]
        rows.append((f"{p} to {q}", _estimate(found[f"{p} to {q}"]), _printed(value, half)))
    return Table("Next-token TV (Table 2)", ("models", "here", "paper, ± as printed"), tuple(rows))


def _sequence(found: Results) -> Table:
    rows = []
    for p, q in PAIRS:
        here = found[f"{p} to {q}"]
        ways = (_estimate(here[way]) for way in ("from_first", "from_second", "symmetric"))
        rows.append((f"{p} to {q}", *ways, _printed(*PAPER_SEQUENCE_TV[p, q])))
    header = ("models", "sampling the first", "sampling the second", "symmetric", "paper, ± 95%")
    return Table("Sequence TV (Table 1)", header, tuple(rows))


def _training(found: Results) -> Table:
    rows = tuple(
        (
            name,
            str(run["steps"]),
            str(run["batch"]),
            f"{run['loss'][-1][1]:.3g}",
            f"{run['seconds']:.0f}",
            f"{run['median_tokens_per_second']:,}",
        )
        for name, run in found.items()
    )
    return Table("Training", ("model", "steps", "batch", "last loss", "seconds", "median tokens/s"), rows)


def _estimate(found: Results) -> str:
    return format(Estimate(**found))


def _printed(value: float, half: float | None) -> str:
    return f"{value:.4f}" if half is None else f"{value:.4f} ±{half:.4f}"


def _html(table: Table) -> str:
    def line(kind: str, cells: tuple[str, ...]) -> str:
        first, *rest = (html.escape(cell) for cell in cells)
        return f"<tr><{kind}>{first}</{kind}>" + "".join(f'<{kind} class="n">{x}</{kind}>' for x in rest) + "</tr>"

    head, rows = line("th", table.header), "".join(line("td", row) for row in table.rows)
    return f"<h3>{html.escape(table.title)}</h3><div><table>{head}{rows}</table></div>"
