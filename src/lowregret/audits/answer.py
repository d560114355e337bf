"""What an ``Audit`` found, in words: whether the models are still right, what that cost, and what to do now."""

import contextlib
import math
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..engine import ExactTest
from ..guard import Guard, delay
from ..problems import DecisionProblem, Payoff
from ..tables import Table, printable
from .columns import chosen
from .judging import BEST, BEST_OF_ALL, RECENT

_NO_WORD = ("stream", "unique_id", "series", "series_id", "item_id", "id")  # columns that do not say what a stream is
_WORD = re.compile(r"[A-Za-z]{2,20}([ _][A-Za-z]{2,20})?")
COLUMNS = ("acting on the model", "guarded", "difference")
GUARDED = (
    "Guarded: as the model advises until the alarm; after it by what occurred recently, until the model is right again."
)
_LISTED, _SHOWN = 8, 12  # streams in a sentence; actions and states of a table
_RUNS, _FAR = 99, 1024  # of the simulation of a break: runs, and steps at most
_FEW = 4  # steps per stream, below which they are hardly streams


def decimals_for(values: Collection[float]) -> int:
    """How many decimals to show: none for whole numbers, two or none above 1; below it up to four digits.

    >>> decimals_for([-12_345.6, 3.0]), decimals_for([432.17]), decimals_for([0.45]), decimals_for([0.03217])
    (0, 2, 2, 5)
    """
    largest = max(map(abs, values), default=0.0)
    if largest >= 1000 or all(round(value, 6) == round(value) for value in values):
        return 0
    most = 2 if largest >= 1 else 3 - math.floor(math.log10(largest))
    return next(n for n in range(2, most + 1) if n == most or all(math.isclose(round(v, n), v) for v in values))


def money(value: float, currency: str | None = None, decimals: int = 0, signed: bool = False) -> str:
    """An amount with its currency: a symbol goes before it, a word or a code after it.

    >>> money(-12_300, "$"), money(353.2, "euros", 2, signed=True), money(7)
    ('-$12,300', '+353.20 euros', '7')
    """
    shown = f"{abs(value):,.{decimals}f}"
    sign = "-" if value < 0 else "+" if signed else ""
    sign = sign if shown.strip("0.,") else ""
    if not currency:
        return sign + shown
    return f"{sign}{shown} {currency}" if currency[-1].isalpha() else f"{sign}{currency}{shown}"


def counted(n: int, word: str) -> str:
    """A count with its noun, in the plural where it needs one.

    >>> counted(1, "day"), counted(1200, "city"), counted(2, "series")
    ('1 day', '1,200 cities', '2 series')
    """
    return f"{n:,} {word if n == 1 else plural(word)}"


def plural(word: str) -> str:
    """The plural of an English noun that follows the rules."""
    if word.endswith("series"):
        return word
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def day(time: str, month: str = "%B") -> str:
    """A date as people write it, with the time of day if it has one; anything else stays as it is.

    >>> day("2026-03-04"), day("2026-03-04T00:00:00Z"), day("2026-03-04T12:00:07+01:00"), day("0:05:00")
    ('4 March 2026', '4 March 2026', '4 March 2026, 12:00:07+01:00', '0:05:00')
    """
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return printable(time, 40)
    clock = at.timetz().isoformat("auto" if at.second or at.microsecond else "minutes").replace("+00:00", " UTC")
    return f"{at.day} {at:{month} %Y}" + f", {clock}" * (at.time() != datetime.min.time())


def when(step: int, time: str | None, month: str = "%B") -> str:
    """Which step, by the log's own date or number where it has one.

    >>> when(63, "2026-03-04"), when(63, "70"), when(1063, None)
    ('4 March 2026', 'step 70 of the log', 'step 1,063')
    """
    if time is None or time == str(step):
        return f"step {step:,}"
    return f"step {time} of the log" if re.fullmatch(r"-?\d+", time) else day(time, month)


def stream_word(found: Any) -> str:
    """What a stream is called: by the column of the log, where that is a word."""
    column = str(found.columns.get("stream") or "").strip()
    if column.casefold() in _NO_WORD or not _WORD.fullmatch(column):
        return "series"
    word = re.sub(r"[_ ](id|name|code|key)$", "", column, flags=re.IGNORECASE).replace("_", " ")
    word = word if word.isupper() else word.lower()
    return word[:-1] if re.search(r"[^aious]s$", word) and not word.endswith("series") else word


def amounts(found: Any, *values: float) -> list[str]:
    """Amounts in the currency of the audit, with as many decimals as each other."""
    return [money(value, found.settings.currency, decimals_for(values)) for value in values]


# The verdict: a headline, and what to do.


class Verdict(NamedTuple):
    """What was found, what to do now, and whether that is ``good``, ``bad`` or ``unclear``."""

    headline: str
    advice: str
    kind: str


def verdict(found: Any) -> Verdict:
    """Whether the models are still right, what a guard would have earned, and what to do."""
    n, named = found.streams.height, by_evidence(found).filter("named")
    if found.alarms and n == 1:
        return _of_one(found)
    expected, unsure = found.settings.delta * n, found.alarms - named.height
    more = f"{counted(unsure, 'more alarm' if named.height else 'alarm')} may be chance"
    more += "." if named.height else f": even if every model is right, up to {expected:,.4g} are expected."
    if not named.height and found.alarms <= expected:
        quiet = _without_alarm(found)
        return quiet._replace(advice=f"{quiet.advice} {more}") if unsure else quiet
    gain, stopped = _gain(found), named.filter(~pl.col("follows"))["stream"].to_list()
    which = ("this one", "it is") if len(stopped) == 1 else ("these", "they are")
    advice = [f"{_stop(*which, gain)}: {listed_names(stopped)}."] if stopped else []
    if back := named.height - len(stopped):
        again = f"{back:,} {'has' if back == 1 else 'have'}" if stopped else "All of them have"
        advice.append(f"{again} been right again since.")
    stopping = f"{named.height:,} of {models(found)}" if named.height else f"None of {models(found)} has surely"
    headline = f"{stopping} stopped being right. Guarded, they would have earned {_more(found, gain, 'the same')}."
    return Verdict(headline, " ".join(advice + [more] * (unsure > 0)), "bad" if stopped else "unclear")


def _of_one(found: Any) -> Verdict:
    """The verdict on a single stream that had an alarm."""
    row, gain = found.streams.row(0, named=True), _gain(found)
    at, began = when(row["alarm"], row["alarm_time"]), when(row["since"] or 0, row["since_time"])
    if row["since"] is not None:
        what = f"was not right from {began} on" if row["since"] == 1 else f"stopped being right about {began}"
    else:
        what = "gave no chance at all to what then occurred" if row["excluded"] else "stopped being right"
    headline = f"The model {what} (alarm {'at' if at.startswith('step') else 'on'} {at})."
    headline += f" Guarded, it would have earned {_more(found, gain, 'the same')}."
    if row["follows"]:
        return Verdict(headline, "It has been right again since, and can be acted on.", "unclear")
    advice, better = f"{_stop('it', 'it is', gain)}.", printable(row["lost_to"] or "", 80)
    if better and gain >= 0:
        is_action = row["lost_to"].split(" in context ")[0] in map(str, found.problem.actions)
        better = "going by what occurred recently" if better == RECENT else f"{'always playing ' * is_action}{better}"
        advice += f" Better since then: {better}."
    return Verdict(headline, advice, "bad")


def _gain(found: Any) -> float:
    """How much more the guard earned than the model."""
    return float(found.totals["guard"] - found.totals["model"])


def _stop(which: str, they_are: str, gain: float) -> str:
    """What to do about models that stopped being right; it is not said to stop where that would have earned less."""
    if gain < 0:
        return f"What the guard played instead earned less, so find the cause before you stop acting on {which}"
    return f"Stop acting on {which} until {they_are} mended"


def _without_alarm(found: Any) -> Verdict:
    """The verdict where there was no alarm beyond chance: a good sign, if there was time for one."""
    model, best, one = found.totals["model"], found.totals[BEST], found.streams.height == 1
    which, longest = "this model" if one else f"these {models(found)}", int(found.streams["steps"].to_numpy().max())
    guarded = _more(found, _gain(found), "the same")
    earned = f"Acting on {'it' if one else 'them'} earned {amounts(found, model)[0]}; guarded, {guarded}."
    cost, steps = steps_to_find(found)
    lost = f"a break that costs {amounts(found, cost)[0]} per {found.unit}"
    time = f"about {counted(int(steps), found.unit)}" if steps <= _FAR else f"more than {counted(_FAR, found.unit)}"
    if cost and steps > longest:
        headline = f"Too short to tell: {lost} takes {time} to find, and the log has {counted(longest, found.unit)}."
        return Verdict(headline, f"So far nothing speaks against {which}. {earned}", "unclear")
    if best >= model:
        action = f"always playing {printable(found.streams['best_action'][0], 80)}" if one else f"the {BEST} of each"
        earned += f" In hindsight {action} would have earned {_more(found, best - model, 'as much')}."
    if cost:
        earned += f" {lost[0].upper()}{lost[1:]} would be found after {time}."
    return Verdict(f"Nothing speaks against {which}.", earned, "good" if model > best else "unclear")


def _more(found: Any, gain: float, same: str) -> str:
    """How much more, or less."""
    (amount,) = amounts(found, abs(gain))
    return f"{amount} {'more' if gain > 0 else 'less'}" if re.search("[1-9]", amount) else same


def models(found: Any) -> str:
    """Whose models they are: 40 models, 40 shops' models."""
    word, n = stream_word(found), found.streams.height
    return counted(n, word) if word == "model" else f"{counted(n, word)}' models"


def listed_names(streams: Sequence[str]) -> str:
    """The first streams, and how many more there are."""
    more = f" and {len(streams) - _LISTED:,} more" if len(streams) > _LISTED else ""
    return ", ".join(printable(name, 60) for name in streams[:_LISTED]) + more


def by_evidence(found: Any) -> pl.DataFrame:
    """The streams: those with an alarm first, most evidence first; the others by name."""
    is_quiet = pl.col("alarm").is_null()
    return found.streams.sort(is_quiet, pl.when(~is_quiet).then(-pl.col("log_e")), "stream")


def steps_to_find(found: Any) -> tuple[float, float]:
    """What a break of middling size costs per step, and after how many steps half of such breaks raise an alarm.

    An edge is the largest where one of two actions can earn so much more than the other, and then so much less; the
    break has half the largest edge, as in ``lowregret plan --edge``, and is there from the first step on. A guard
    with the largest lag of the log is simulated for as many steps as the log has, and for 1,024 where these are too
    few; with contexts or references it takes longer. A cost of 0 says that nothing can be lost by a break.
    """
    payoffs_AxS = stakes(found.problem)[1]
    steps, lag = (min(int(found.streams[name].to_numpy().max()), _FAR) for name in ("steps", "lag"))
    lead_AxAxS = payoffs_AxS[None] - payoffs_AxS[:, None]
    largest = float(np.minimum(-lead_AxAxS.min(axis=2), lead_AxAxS.max(axis=2)).max())
    problem = DecisionProblem.from_payoffs(payoffs_AxS)
    for edge in (largest / 2, largest / 4, largest / 8) if largest > 0 else ():
        with contextlib.suppress(ValueError):  # a third action is better than the two, unless they differ by less
            median = math.inf
            for horizon in (max(steps, 2), _FAR):
                if math.isinf(median):
                    guard = Guard(problem, test=ExactTest(found.settings.delta, horizon), lag=lag)
                    median = delay(guard, edge, since=1, runs=_RUNS).median
            return edge, float(f"{median:.2g}")
    return 0.0, math.inf


# The figures, and what speaks against relying on them.


def table(found: Any) -> Table:
    """The verdict, and what the model and the guard earned up to the alarm, after it, and in total."""
    total = np.array([found.steps, found.totals["model"], found.totals["guard"]])
    after = np.array([found.streams[f"{name}_after"].sum() for name in ("steps", "model", "guard")])
    lines = {"up to the alarm": total - after, "after it": after, "in total": total}
    lines = lines if found.alarms else {"in total": total}
    decimals, currency = decimals_for([value for line in lines.values() for value in line[1:]]), found.settings.currency
    rows = []
    for name, (steps, model, guard) in lines.items():
        shown = *(money(value, None, decimals) for value in (model, guard)), money(guard - model, None, decimals, True)
        rows.append((name, f"{steps:,.0f}", *shown))
    header = f"in {currency}" if currency else "", plural(found.unit), *COLUMNS
    return Table(f"{found.answer}\n", header, tuple(rows))


_OTHERS = {
    "fallback": "what the guard plays after an alarm, from the start",
    "Hedge": "learning which action is best (Hedge)",
    "last outcome": "what would have been best the last time",
    BEST: f"the {BEST} in hindsight",
}


def others(found: Any) -> str:
    """What else would have earned, for comparison, the most first."""
    totals = {name: found.totals[name] for name in found.players if name not in ("model", "guard")}
    names = sorted(totals, key=lambda name: -totals[name])
    shown = zip(names, amounts(found, *(totals[name] for name in names)), strict=True)
    return "in total, " + "; ".join(f"{_OTHERS.get(name) or printable(name, 80)}: {amount}" for name, amount in shown)


def today(found: Any) -> str:
    """Which models the guard follows at the end."""
    at = f"At the end{f', on {day(found.last)}' if found.last else ''}"
    n, kept = found.streams.height, int(found.streams["follows"].sum())
    if n == 1:
        return f"{at}, the guard {'follows' if kept else 'does not follow'} the model."
    return f"{at}, the guard follows {'all ' if kept == n else f'{kept:,} of '}{models(found)}."


def warnings(found: Any) -> tuple[str, ...]:
    """What speaks against relying on the figures."""
    streams, unit, word, lines = found.streams, found.unit, stream_word(found), list[str]()

    def those(some: pl.DataFrame) -> str:
        return f"the models of {counted(some.height, word)}" if streams.height > 1 else "the model"

    if (behind := found.totals["last outcome"] - found.totals["model"]) > 0:
        extra = _more(found, behind, "as much")
        lines.append(f"doing what would have been best the last time would have earned {extra} than the model")
    bound = found.certificate.regret_bound_in_payoffs
    if bound >= float(found.problem.regret_in_payoffs(found.problem.span)) > 0:
        lines.append(
            f"for so short a log the promise says nothing: no {unit} can cost more than {amounts(found, bound)[0]}"
        )
    if (late := streams.filter(pl.col("seems_lag").is_not_null())).height:
        lag, more = int(late["seems_lag"].to_numpy().max()), math.fsum(late["guard_then"] - late["guard"])
        then, now = amounts(found, found.totals["guard"] + more, found.totals["guard"])
        instead = f"{then}, not {now}" if then != now else "the same"
        lines.append(
            f"the errors of {those(late)} are alike up to {counted(lag - 1, unit)} apart, more than chance explains. "
            f"Perhaps outcomes are known later than the next {unit}: with a lag of {lag} the guard would have earned "
            f"{instead} (--lag, --known-at; --lag 1 if they are not)"
        )
    if (excluded := streams.filter(pl.col("excluded") > 0)).height:
        surprises = counted(sum(excluded["excluded"]), "outcome")
        lines.append(
            f"{those(excluded)} gave no chance at all to {surprises} that occurred: one raises the alarm by itself, so "
            "if probabilities are rounded to 0, log more digits"
        )
    if streams.height > 1 and found.steps < _FEW * streams.height:
        each = f"{counted(streams.height, word)} of {found.steps / streams.height:.2g} steps each on average"
        lines.append(f"{each}: if {printable(found.columns['stream'], 80)} only numbers the rows, use --stream none")
    return tuple(lines)


# How it was made.


def stakes(problem: DecisionProblem | Payoff) -> tuple[Sequence[str], np.ndarray]:
    """The names of outcomes, and the payoffs ``[A, S]``; of outcomes that are numbers, those at the knots."""
    if isinstance(problem, Payoff):
        return [f"{knot:g}" for knot in problem.knots], problem.in_payoffs(problem.knot_utilities)
    return problem.states, problem.in_payoffs(problem.utility)


def payoffs(found: Any) -> Table:
    """The payoffs: a row per action, a column per outcome."""
    (states, values_AxS), actions = stakes(found.problem), found.problem.actions
    some_AxS, currency = values_AxS[:_SHOWN, :_SHOWN], found.settings.currency
    decimals = decimals_for(some_AxS.round(9).ravel().tolist())
    rows = tuple(
        (printable(str(name), 40), *(money(value, None, decimals) for value in line))
        for name, line in zip(actions, some_AxS.tolist(), strict=False)
    )
    title = f"Payoffs{f' in {currency}' if currency else ''} by action and outcome"
    title += f" (the first of {len(actions)} and {len(states)})" if values_AxS.size > some_AxS.size else ""
    return Table(title, ("", *(printable(str(name), 40) for name in states[:_SHOWN])), rows)


def size(found: Any) -> str:
    """How many steps and streams, and from when to when."""
    streams = f" of {counted(found.streams.height, stream_word(found))}" if found.streams.height > 1 else ""
    ends = f", from {day(found.first)} to {day(found.last)}" if found.first and found.last else ""
    return f"{counted(found.steps, found.unit)}{streams}{ends}"


def made(found: Any) -> list[tuple[str, str]]:
    """How the audit was made, and what is promised: a name and a sentence each."""
    n, word, unit = found.streams.height, stream_word(found), found.unit
    of_word, each, wrongly = "", "", ""
    if n > 1:
        of_word, each = f" of its {word}", f" for each {word}"
        wrongly = f"; of the models named as broken, on average at most {100 * found.settings.fdr:.3g}% are right"
    lag, best = int(found.streams["lag"].to_numpy().max()), BEST_OF_ALL if BEST_OF_ALL in found.players else BEST
    rarely = "while a model is right, the chance that it ever has an alarm is at most"
    (bound,) = amounts(found, found.certificate.regret_bound_in_payoffs)
    return [
        ("Log", f"{printable(found.source, 200)}: {size(found)}"),
        ("Columns", chosen(found.columns)),
        ("Outcomes", f"known before the next {unit}" if lag == 1 else f"known up to {counted(lag, unit)} later"),
        ("False alarms", f"{rarely} {100 * found.settings.delta:.3g}%{each}{wrongly}"),
        ("For comparison", others(found)),
        ("Promise", f"whatever happens, the guard earns at most {bound} per {unit} less than the {best}{of_word}"),
        *(("Note", printable(note, 400)) for note in found.notes),
    ]


def report(found: Any) -> str:
    """All that the command prints."""
    lines = [str(table(found)), "", GUARDED, today(found), *(f"! {warning}" for warning in warnings(found))]
    return "\n".join([*lines, "", str(payoffs(found)), "", *(f"{name}: {text}" for name, text in made(found))])
