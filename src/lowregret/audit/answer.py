"""What an audit found, in words: what acting on the model earned, what the guard would have, and what was assumed."""

import math
import re
import unicodedata
from collections.abc import Iterable
from datetime import date
from typing import Any

from ..problems import Payoff
from ..tables import Table
from .cells import printable
from .result import BEST, BEST_OF_ALL
from .times import ROWS

_WORDS = {"1s": "second", "1min": "minute", "1h": "hour", "1d": "day", "1w": "week", "1b": "business day"}
_WORDS |= {"1mo": "month", "3mo": "quarter", "12mo": "year"}  # what a step is called where all streams keep that rhythm
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NO_SECONDS = re.compile(r"(?<=\d\d:\d\d):00(?![.\d])")
_SHOWN = 12  # actions and states of a table of payoffs that are shown


def decimals_for(values: Iterable[float]) -> int:
    """How many decimals to show: four digits of the largest amount; none for whole numbers, two or none above 1.

    >>> decimals_for([-12_345.6, 3.0]), decimals_for([432.17]), decimals_for([0.0321]), decimals_for([120, -40])
    (0, 2, 5, 0)
    """
    listed = list(values)
    largest = max(map(abs, listed), default=0.0)
    if largest == 0 or all(round(value, 6) == round(value) for value in listed):
        return 0
    if largest >= 1:
        return 2 if largest < 1000 else 0
    return 3 - math.floor(math.log10(largest))


def money(value: float, currency: str | None = None, decimals: int = 0, signed: bool = False) -> str:
    """An amount with its currency: a symbol goes before it, a word or a code after it.

    >>> money(-12_300, "$"), money(353.2, "euros", 2, signed=True), money(7)
    ('-$12,300', '+353.20 euros', '7')
    """
    shown = f"{abs(value):,.{decimals}f}"
    zero = not shown.strip("0.,")
    sign = "" if zero else "-" if value < 0 else "+" if signed else ""
    if not currency:
        return sign + shown
    before = unicodedata.category(currency[-1]) == "Sc" and currency[:-1].upper() == currency[:-1]
    return f"{sign}{currency}{shown}" if before else f"{sign}{shown} {currency}"


def counted(n: int, word: str) -> str:
    """A count with its noun, in the plural where it needs one.

    >>> counted(1, "day"), counted(1200, "stream")
    ('1 day', '1,200 streams')
    """
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def chance(delta: float) -> str:
    """A probability as people say it.

    >>> chance(0.05), chance(0.3)
    ('1 in 20', '0.3')
    """
    often = 1 / delta
    if often > 1e9:
        return f"{delta:.2g}"
    return f"1 in {round(often):,}" if abs(often - round(often)) < 1e-6 * often else f"{delta:.2g}"


def when(step: int, time: str | int | None, kind: str) -> str:
    """Which step, by the log's own date or number where it has one.

    >>> when(63, "2026-03-04", "times"), when(63, "2026-03-04T09:00:00", "times"), when(63, None, "rows")
    ('on 4 March 2026', 'on 4 March 2026, 09:00', 'at step 63')
    """
    if time is None or kind == ROWS:
        return f"at step {step:,}"
    if isinstance(time, int):
        return f"at step {step:,}" if time == step else f"at step {time} of the log"
    return f"on {day(time)}" if _DAY.match(time) else f"at {time}"


def day(time: str) -> str:
    """A date as people write it, with the time of day if it has one; anything else stays as it is.

    >>> day("2026-03-04"), day("2026-03-04T12:00:00"), day("2026-03-04T12:00:07+01:00"), day("0:05:00")
    ('4 March 2026', '4 March 2026, 12:00', '4 March 2026, 12:00:07+01:00', '0:05:00')
    """
    on, _, clock = time.partition("T")
    if not _DAY.fullmatch(on):
        return time
    found = date.fromisoformat(on)
    return f"{found.day} {found:%B %Y}" + (f", {_NO_SECONDS.sub('', clock)}" if clock else "")


def step_of(found: Any) -> str:
    """What a step is called: by the rhythm that all streams keep, without a gap."""
    rhythms = found.rhythms
    only = next(iter(rhythms.kept)) if len(rhythms.kept) == 1 and not rhythms.gaps else ""
    return _WORDS.get(only, "step")


def answer(found: Any) -> str:
    """The answer to the audit's question, in a few sentences."""
    about, totals, n, unit = found.about, found.totals, len(found.rows), step_of(found)
    model, guard = totals["model"], totals["guard"]
    currency, decimals = about["currency"], decimals_for((model, guard))
    span = counted(found.steps, unit) + ("" if n == 1 else f" of {counted(n, 'stream')}")
    if found.first and found.last:
        span += f", {day(found.first)} to {day(found.last)}"
    said = f"Acting on the model as you do: {money(model, currency, decimals)} in {span}."
    false = _false(about, n)
    gain = money(guard - model, currency, decimals, signed=True)
    if guard == model:
        said += " Guarded: the same."
    else:
        said += f" Guarded: {money(guard, currency, decimals)} ({gain})."
    if not about["test"]:
        return f"{said} That is a mixture played from the first step on: there is no test, and no alarm."
    if not found.alarms:
        return f"{said} It would not have left the model{'' if n == 1 else ' in any stream'}; {false}."
    one = found.suspects[0]
    which = "" if n == 1 else f" in {found.alarms:,} of {counted(n, 'stream')}, most clearly in {_name(one.stream)}"
    comma = "," if which else ""
    return f"{said} It would have left the model{which}{comma} {_left(found, one, unit)}; {false}.{_at_the_end(found)}"


def _at_the_end(found: Any) -> str:
    """Whether the model was followed again at the end of the log: of one stream that was left once."""
    if len(found.rows) > 1 or found.rows[0].returns is None:
        return ""
    back = found.rows[0].returns > found.rows[0].left
    return f" At the end of the log it {'followed the model again' if back else 'did not follow the model'}."


def _left(found: Any, one: Any, unit: str) -> str:
    """When a stream was left, and how long after it had begun to lose."""
    at = when(one.switched_at, one.switched_time, found.about["steps"])
    if one.since is None:
        sure = one.excluded and found.about["events"]  # without events it is not known why
        return f"{at}, when something came that it had given probability 0" if sure else at
    whom, began = printable(one.lost_to, 80), when(one.since, one.since_time, found.about["steps"])
    return f"{at}, {counted(one.switched_at - one.since, unit)} after it began to lose to {whom} ({began})"


def _false(about: dict[str, Any], n: int) -> str:
    """The chance of a false alarm."""
    if about["family_delta"] and n > 1:
        return f"chance of any false alarm {chance(about['delta'] * about['streams'])}"
    return f"chance of a false alarm {chance(about['delta'])}" + ("" if n == 1 else " in each stream")


def _name(stream: str) -> str:
    return printable(repr(stream), 80)


def table(found: Any) -> Table:
    """The answer, the warnings, and what each player earned, in all and per step."""
    totals, earned, currency = found.totals, found.earned, found.about["currency"]
    whole, each = decimals_for(totals.values()), decimals_for(earned.values())
    rows = tuple((name, money(totals[name], None, whole), money(earned[name], None, each)) for name in totals)
    title = [answer(found), *(f"! {warning}" for warning in found.warnings), ""]
    return Table("\n".join(title), ("", f"{currency or 'payoff'}, in all", f"a {step_of(found)}"), rows)


def report(found: Any) -> str:
    """All that is printed: the answer, the table, the promise, the alarms, the payoffs, the assumptions and the log."""
    about, unit = found.about, step_of(found)
    bound, whom = promised_to(found)
    promised = money(bound, about["currency"], decimals_for([bound]))
    lines = [str(table(found)), ""]
    of = "" if len(found.rows) == 1 else " of its stream"
    lines += [f"Promised: the guard earns at most {promised} a {unit} less than the {whom}{of}."]
    lines += [_alarms(found), *(_switched(found, one) for one in found.suspects[:_SUSPECTS] if found.alarms > 1)]
    if found.alarms > _SUSPECTS:
        lines += [f"... and {found.alarms - _SUSPECTS:,} more, in the JSON"]
    lines += ["", str(payoffs(found)), "", f"Assumed: {'; '.join(found.assumed)}."]
    files = ", ".join(name for name, _ in about["log"][:4]) + (", ..." if len(about["log"]) > 4 else "")
    return "\n".join([*lines, printable(f"Log: {files}, {counted(about['rows'], 'row')}, {found.read_as}")])


def promised_to(found: Any) -> tuple[float, str]:
    """The most that can be lost per step, and to whom."""
    best = BEST_OF_ALL if BEST_OF_ALL in found.about["players"] else BEST
    return found.certificate.regret_bound_in_payoffs, best


_SUSPECTS = 5  # streams whose alarm is printed


def _alarms(found: Any) -> str:
    about, n = found.about, len(found.rows)
    if not about["test"]:
        return "Alarms: none, since there is no test."
    said = f"Alarms: {found.alarms:,}" + ("" if n == 1 else f" of {n:,} streams")
    if n > 1:
        said += f"; at most {found.allowed:.4g} on average if every model is right"
    if found.rows and found.rows[0].returns is not None:
        back, left = (sum(getattr(row, name) for row in found.rows) for name in ("returns", "left"))
        said += f"; {counted(back, 'return')} to the model" + (f", left again {left:,} times" if left else "")
    if n > 1:
        named = ", ".join(map(_name, found.survivors[:8])) + (", ..." if len(found.survivors) > 8 else "")
        said += f".\nNamed by e-BH, on average at most {about['fdr']:.0%} of them wrongly: "
        said += named or "none"
    return f"{said}."


def _switched(found: Any, one: Any) -> str:
    return f"- {_name(one.stream)} was left {_left(found, one, step_of(found))}"


def payoffs(found: Any) -> Table:
    """The payoffs: one row per action, one column per state."""
    problem, currency = found.problem, found.about["currency"]
    of_numbers = isinstance(problem, Payoff)
    states = [f"{knot:g}" for knot in problem.knots] if of_numbers else problem.states
    values_AxS = problem.in_payoffs(problem.knot_utilities if of_numbers else problem.utility)[:_SHOWN, :_SHOWN]
    decimals = decimals_for(values_AxS.round(9).ravel().tolist())
    rows = tuple(
        (printable(str(name), 40), *(money(value, None, decimals) for value in line))
        for name, line in zip(problem.actions, values_AxS, strict=False)
    )
    header = ("", *(printable(str(name), 40) for name in states[:_SHOWN]))
    more = max(problem.n_actions, len(states)) > _SHOWN
    told = f" (the first of {problem.n_actions} actions and {len(states)} states)" if more else ""
    return Table(f"At stake, in {currency or 'payoffs'}, by action and what came{told}:", header, rows)


def assumed(found: Any) -> tuple[str, ...]:
    """What the audit assumed, whether or not the user said so."""
    about, columns = found.about, found.about["columns"]
    lags = sorted({row.lag for row in found.rows})
    if columns.get("known_at"):
        late = f"up to {lags[-1]} steps late" if lags[-1] > 1 else "before the next step"
        known = f"outcomes known when {columns['known_at']} says, {late}: used only by steps after that time"
    elif about["lag"] is None:
        known = "lag 1, each outcome known before the next step (--lag, --known-at)"
    else:
        known = f"lag {about['lag']}, as given"
    stream = f"streams by {columns['stream']}" if columns["stream"] else "all rows one stream (--stream)"
    order = f"in order of {columns['order']}" if columns["order"] else "rows in order as they stand (--order)"
    warm = about["temperature"]
    acting = "temperature 0, the best action is taken" if not warm else f"the guard plays at temperature {warm:g}"
    return (known, stream, order, acting, f"delta {about['delta']:g}" if about["test"] else "no test")


# What speaks against the answer, stream by stream.


_SHORT = 4  # steps per stream, below which they are hardly streams


def warnings(found: Any) -> list[str]:
    """Lags that were not given, outcomes ruled out or known too early, and streams that are hardly streams."""
    about, rows, told = found.about, found.rows, list[str]()
    late = [one for one in found.streams if one.seems is not None]
    if late:
        told.append(_late(found, late))
    excluded = [row.excluded for row in rows if row.excluded]
    if excluded:
        of = "" if len(rows) == 1 else f" of {counted(len(excluded), 'stream')}"
        told.append(
            f"the model had given probability 0 to {counted(sum(excluded), 'outcome')}{of} that came all the same: one "
            "is enough for the guard to leave it"
        )
    early = sum(row.early for row in rows)
    if early:
        told.append(
            f"by {about['columns']['known_at']} the outcomes of {counted(early, 'step')} were known before the step "
            "itself: a forecast must come before its outcome"
        )
    stream, streams = about["columns"]["stream"], about["streams"]
    if stream and streams > 1 and about["rows"] < _SHORT * streams:
        told.append(
            f"{streams:,} streams of {about['rows'] / streams:.2g} steps each on average: if {stream} only "
            "numbers the rows, use --stream none"
        )
    return told


def _late(found: Any, late: list[Any]) -> str:
    """The model's errors are alike: up to how far apart, and what a guard with that lag would have earned."""
    about, lags, step = found.about, sorted({one.seems for one in late}), step_of(found)
    of = "" if len(found.rows) == 1 else f" in {counted(len(late), 'stream')}"
    said = f"the model's errors{of} are alike up to {counted(lags[-1] - 1, step)} apart, more than chance explains."
    said += " Perhaps outcomes are known later than the next step"
    lag = f"a lag of {lags[0]}" if len(lags) == 1 else f"lags of {lags[0]} to {lags[-1]}"
    if any(one.then is None for one in late):
        return f"{said}: with {lag} the result may be another (--lag, --known-at; --lag 1 if they are not)"
    more = math.fsum(one.steps * (one.then - one.earned["guard"]) for one in late)
    both = found.totals["guard"] + more, found.totals["guard"]
    each = [value / found.steps for value in both]
    whole, few = decimals_for(both), decimals_for(each)
    then, now = (
        f"{money(value, about['currency'], whole)} ({money(a_step, None, few)} a {step})"
        for value, a_step in zip(both, each, strict=True)
    )
    return (
        f"{said}: with {lag} the guard would have earned {then}, not {now} (--lag, --known-at; --lag 1 if they are not)"
    )
