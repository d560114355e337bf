"""The page of ``python -m paper verify``: one HTML file with its pictures, for light and dark screens of any width."""

import html
import io
import re
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lowregret.evaluate import plots

from .outcome import Verdict, groups
from .statements import AMENDS, VERDICTS

if TYPE_CHECKING:
    from .statements import Claim

INK = "#101010"  # stands for the page's own text colour in pictures
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lowregret",  # the same run gives the same file
    "font.size": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#eeeeee",
    "grid.linewidth": 0.8,
}
MARKS = {**dict.fromkeys(AMENDS, "† "), "failed": "✗ ", "skipped": ""}  # before a verdict; else a tick


def drawn(picture: Callable[[Any], Any], name: str, caption: str) -> str:
    """A picture as SVG to put into a page: its colours are the page's, its texts are text.

    >>> drawn(lambda ax: ax.plot([0, 1], [0, 1], label="a line"), "Lemma 9.9", "a line")[:29]
    '<svg role="img" aria-label="a'
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    lines = cycler(color=plots.COLOURS) + cycler(linestyle=plots.DASHES)
    style: Any = {**STYLE, "axes.prop_cycle": lines}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(4.3, 2.7), layout="constrained")
        ax = figure.subplots()
        picture(ax)
        ax.minorticks_off()
        if ax.get_legend() is None and ax.get_legend_handles_labels()[0]:
            ax.legend()
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_a_page(file.getvalue(), re.sub(r"\W+", "-", name.lower()), caption)


def _for_a_page(svg: str, slug: str, caption: str) -> str:
    """Only what a page needs: no size, no style sheet, names of its own, and colours that follow the page's."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<(metadata|style)[^>]*>.*?</\1>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{slug}-", body)
    body = re.sub(r"(font: [\d.]+px) [^;\"]+", r"\1 var(--sans)", body)
    body = re.sub(r"font-family: [^;\"]+", "font-family: var(--sans)", body)
    for colour, name in COLOURS.items():
        body = body.replace(colour, name)
    width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0]
    label = html.escape(caption, quote=True)
    body = re.sub(r"\n\s*", "\n", body).strip()
    return f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}">\n{body}'


def page(outcomes: "list[Verdict]", summary: str) -> str:
    """The whole page: what was found in brief, then every statement in the paper's order."""
    brief = "".join(f"<h2>Statements {name}</h2>\n{_brief(group)}" for name, group in groups(outcomes).items() if group)
    cards = []
    for section, members in groupby(outcomes, key=lambda outcome: outcome.statement.section):
        cards.append(f"<h2>{html.escape(section)}</h2>")
        cards += [_card(outcome) for outcome in members]
    failed = any(outcome.verdict == "failed" for outcome in outcomes)
    head = "number of steps T, actions A, states S, temperature eta, span J: the most that one step can matter"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{"✗" if failed else "✓"} Next-token prediction and regret, checked</title>
<style>{CSS}</style>
</head>
<body>
<main>
<h1>Next-Token Prediction and Regret Minimization, checked</h1>
<p class="lead">{html.escape(summary)}</p>
<p>Each statement of the paper was computed, exactly where that is possible and else from seeded samples, and set
beside its bound. <em>Used</em> says how much of the bound is: 1 is attained, more would be broken. A sentence of the
paper that is refuted (†) is quoted as it stands in its source, beside the counterexample that was computed and what
holds instead; where only a step of a proof fails, what it proves may well hold, and the page says so. A bound is
vacuous where it exceeds what any sequence can cost: that refutes nothing. Notation: {typeset(head)}; logarithms
are natural. Written by <code>python -m paper verify</code>.</p>
{brief}
{"".join(cards)}
</main>
</body>
</html>
"""


def _brief(outcomes: "list[Verdict]") -> str:
    head = '<th>statement</th><th>verdict</th><th class="wide">computed</th><th class="n wide">found, bound</th>'
    rows = "".join(_row(outcome) for outcome in outcomes)
    return f'<table class="brief"><thead><tr>{head}<th>used</th></tr></thead>\n<tbody>{rows}</tbody></table>\n'


def _verdict(outcome: "Verdict") -> str:
    return MARKS.get(outcome.verdict, "✓ ") + outcome.in_words


def _row(outcome: "Verdict") -> str:
    name, verdict = html.escape(outcome.statement.name), outcome.verdict
    what, measured, sign, bound, used = _cells(outcome.headline) if outcome.headline else ("",) * 5
    return (
        f'<tr><td><a href="#{_anchor(outcome)}">{name}</a></td><td class="{verdict}">{_verdict(outcome)}</td>'
        f'<td class="wide">{what}</td><td class="n wide">{measured} {sign} {bound}</td>'
        f'<td class="used">{used}</td></tr>\n'
    )


def _card(outcome: "Verdict") -> str:
    said, parts = outcome.statement, []
    parts.append(f"<p>{typeset(said.says)}</p>")
    if not outcome.refuted:
        parts += [f"<p>In the paper&rsquo;s words: <q>{html.escape(quote)}</q></p>" for quote in said.quotes]
    if said.corrected:
        words = VERDICTS[said.verdict].capitalize()
        parts.append(f'<p><b class="{said.verdict}">{words}.</b> {typeset(said.corrected)}</p>')
    if said.sharper:
        parts.append(f"<p><b>Sharper.</b> {typeset(said.sharper)}</p>")
    if outcome.note:
        parts.append(f'<p class="{outcome.verdict}"><b>{_verdict(outcome)}</b>: {html.escape(outcome.note)}</p>')
    if said.how:
        parts.append(f'<p class="how">{typeset(said.how)}</p>')
    if outcome.claims:
        claims = [_claim(claim, said.verdict, quote) for quote, claim in outcome.against]
        claims += [_claim(claim) for claim in outcome.claims]
        head = '<tr><th>computed</th><th class="n">found</th><th></th><th class="n">bound</th><th>used</th></tr>'
        parts.append(f"<table><thead>{head}</thead><tbody>{''.join(claims)}</tbody></table>")
    words = f'<div class="words">{"".join(parts)}</div>'
    figure = f"<figure>{outcome.svg}<figcaption>{typeset(outcome.caption)}</figcaption></figure>" if outcome.svg else ""
    title = f'{html.escape(said.name)} <span class="{outcome.verdict}">{_verdict(outcome)}</span>'
    return f'<section id="{_anchor(outcome)}"><h3>{title}</h3><div class="card">{words}{figure}</div></section>\n'


def _claim(claim: "Claim", verdict: str = "", quote: str = "") -> str:
    what, measured, sign, bound, used = _cells(claim)
    if quote:
        what, used = f'<q>{html.escape(quote)}</q><br><b class="{verdict}">Against it:</b> {what}', ""
    row = "" if claim.holds or quote else ' class="failed"'
    return (
        f'<tr{row}><td>{what}</td><td class="n">{measured}</td><td>{sign}</td><td class="n">{bound}</td>'
        f'<td class="used">{used}</td></tr>\n'
    )


def _cells(claim: "Claim") -> tuple[str, str, str, str, str]:
    """What was computed, what was found, how it stands to the bound, the bound, and how much of it is used."""
    measured, relation, bound = claim.numbers
    sign = {"<=": "&le;", ">=": "&ge;", "!=": "&ne;"}.get(relation, html.escape(relation))
    if claim.relation == "=" and claim.within:
        bound += f" <small>&plusmn; {claim.within:.1g}</small>"
    used = ""
    if claim.tightness is not None:
        used = f'<meter min="0" max="1" value="{min(claim.tightness, 1):.4f}"></meter> {claim.used}'
    return typeset(claim.what), measured, sign, bound, used


def _anchor(outcome: "Verdict") -> str:
    return "at-" + re.sub(r"\W+", "-", outcome.statement.name.lower()).strip("-")


def typeset(text: str) -> str:
    """Plain text as HTML, with the signs, indices and powers that the terminal has to spell out.

    >>> typeset("Regret <= eta ln A + sqrt(T^-alpha) w_A")
    'Regret &le; &eta; ln A + &radic;(T<sup>&minus;&alpha;</sup>) w<sub>A</sub>'
    """
    text = re.sub(r"sqrt\((\w)\)", r"&radic;\1", html.escape(text))
    for plain, sign in (("&lt;=", "&le;"), ("&gt;=", "&ge;"), ("-&gt;", "&rarr;"), ("sqrt(", "&radic;(")):
        text = text.replace(plain, sign)
    text = re.sub(r"\b(Regret|mean|sum|lambda|[A-Zwn])_([A-Za-z0-9]+(?:,t)?)", r"\1<sub>\2</sub>", text)
    text = re.sub(r"\^-?(\w+)", lambda power: f"<sup>{'&minus;' * ('-' in power[0])}{power[1]}</sup>", text)
    return re.sub(r"\b(eta|alpha|delta|kappa|lambda|pi|epsilon|sum(?=<))(?![a-z])", r"&\1;", text)


COLOURS = {
    INK: "currentColor",
    "#eeeeee": "var(--grid)",
    "#999999": "var(--faint)",
    "#555555": "var(--faint)",
    "#ffffff": "var(--paper)",
    **{colour.lower(): f"var(--line{i})" for i, colour in enumerate(plots.COLOURS)},
}
CSS = """
:root { color-scheme: light dark; --sans: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  --paper: #ffffff; --ink: #1d2126; --faint: #5c6670; --rule: #d9dee3; --grid: #e8ebee; --card: #f6f8fa;
  --good: #12733a; --fixed: #8a5300; --bad: #b3122c; --link: #0a58a8;
  --line0: #0072b2; --line1: #d55e00; --line2: #00835f; --line3: #b8558f; --line4: #b07800; --line5: #2b8fc7;
  --line6: #1d2126; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --ink: #e4e7ea; --faint: #a3adb7; --rule: #343b43; --grid: #2a3037; --card: #1b2026;
  --good: #5bd08a; --fixed: #f0b54a; --bad: #ff7c8b; --link: #7cb9ff;
  --line0: #4fb0ea; --line1: #ff8f4a; --line2: #35c99c; --line3: #e79cc4; --line4: #efb02e; --line5: #8fd0f7;
  --line6: #e4e7ea; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 var(--sans); }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 8px 0; }
h2 { font-size: 1.25rem; margin: 48px 0 8px; padding-bottom: 4px; border-bottom: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 0 0 8px; }
h3 span { font-size: .85rem; font-weight: 600; margin-left: 8px; white-space: nowrap; }
p { margin: 0 0 10px; max-width: 70ch; }
.lead { font-size: 1.15rem; font-weight: 600; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.holds, .constant, .beyond { color: var(--good); } .vacuous, .step, .false { color: var(--fixed); }
.failed { color: var(--bad); } q { font: .88em/1.4 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.skipped, .how, small, figcaption { color: var(--faint); } .how, figcaption { font-size: .9rem; }
section { margin: 16px 0; padding: 16px 18px; border: 1px solid var(--rule); border-radius: 10px;
  background: var(--card); scroll-margin-top: 12px; }
section:target { border-color: var(--link); }
.card { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 400px); gap: 24px; align-items: start; }
.words:only-child { grid-column: 1 / -1; }
figure { margin: 0; } svg { display: block; width: 100%; height: auto; overflow: visible; }
svg * { stroke-linejoin: round; }
sub, sup { line-height: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: .8rem; }
th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.n { text-align: right; white-space: nowrap; } .used { white-space: nowrap; }
.brief { margin: 20px 0; } .brief td:first-child, .brief td:nth-child(2) { white-space: nowrap; }
.words:only-child table { max-width: 760px; }
meter { width: 44px; height: 9px; vertical-align: middle; }
@media (max-width: 900px) { .card { grid-template-columns: minmax(0, 1fr); } figure { max-width: 520px; }
  .wide { display: none; } }
@media (max-width: 560px) { main { padding: 12px 10px 40px; } section { padding: 12px; }
  section thead { display: none; } section tr { display: grid; grid-template-columns: auto auto auto 1fr; }
  section td { border: 0; padding: 1px 8px 1px 0; } section td:first-child { grid-column: 1 / -1; }
  section .used { text-align: right; } section tr + tr { border-top: 1px solid var(--rule); padding-top: 4px; }
  section tr { padding-bottom: 4px; } .brief td:first-child { white-space: normal; } }
@media print { section { break-inside: avoid; } }
"""
