"""What the three real-data examples print and draw: model, mixture and guard in money, by the day of a break."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.dates import ConciseDateFormatter

from lowregret.audits import Backtest
from lowregret.evaluate.plots import COLOURS
from lowregret.tables import Table

LOOKS = {"model": (COLOURS[1], "-", 1.4), "mixture": (COLOURS[2], "--", 1.2), "guard": (COLOURS[0], "-", 2.0)}


class Run(NamedTuple):
    """The recording once, with a break or without."""

    broken: str  # what breaks; empty: nothing
    step: int  # how many steps come before the break
    earned: dict[str, np.ndarray]  # by player, [T], in money
    alarm: int | None  # how many steps the guard had seen at its alarm

    @property
    def saved(self) -> float:
        """What the guard earned more than the model alone, in all."""
        return float(self.earned["guard"].sum() - self.earned["model"].sum())

    @property
    def delay(self) -> str:
        if self.alarm is None:
            return "none"
        if not self.broken:
            return f"at step {self.alarm:,}"
        return f"{self.alarm - self.step:,}" if self.alarm > self.step else "before it"


def staged(said: np.ndarray, wrong: dict[str, np.ndarray], steps: Sequence[int]) -> tuple[list, np.ndarray]:
    """What breaks with its step, and what is then said, ``[N, T, ...]``: nothing first, then each at every step."""
    cases = [("", 0), *((name, step) for name in wrong for step in steps)]
    return cases, np.stack(
        [np.concatenate([said[:step], wrong[name][step:]]) if name else said for name, step in cases]
    )


def runs_of(found: Backtest, untested: Backtest, cases: list) -> list[Run]:
    """The streams of a backtest of such cases, and of one with a guard that plays the mixture from the first step."""
    paid = {"model": found.paid["model"], "mixture": untested.paid["guard"], "guard": found.paid["guard"]}
    money = {name: [found.problem.in_payoffs(paid_T) for paid_T in own] for name, own in paid.items()}
    return [
        Run(*case, {name: own[i] for name, own in money.items()}, found.streams[i].switched_at)
        for i, case in enumerate(cases)
    ]


def money_table(runs: list[Run], when: Any, title: str, form: str, unit: str) -> Table:
    """In all, by break; and how long the alarm took."""
    rows = []
    for run in runs:
        totals = (f"{run.earned[name].sum():,.0f}" for name in LOOKS)
        case = f"{run.broken} from {when[run.step].strftime(form)}" if run.broken else "no break staged"
        rows.append((case, *totals, f"{run.saved:+,.0f}", run.delay))
    return Table(title, ("", *LOOKS, "guard - model", f"alarm after, {unit}"), tuple(rows))


def yardsticks(found: Backtest) -> str:
    """What hears no model: the same whatever breaks in what a model says."""
    one = found.streams[0]
    last, best = (one.earned[name] * one.steps for name in ("last outcome", "best fixed action"))
    return f"what was best in the step before: {last:,.0f}; the best fixed action, {one.best_action}: {best:,.0f}"


def figure(runs: list[Run], when: Any, shown: int, form: str, money: str, unit: str) -> Any:
    """Left: one break from day to day. Right: what the guard saved or cost, and its delay, by the day of the break."""
    drawn, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained", width_ratios=[1.25, 1])
    drawn.set_facecolor("white")
    run = runs[shown]
    left.plot(when, np.cumsum(runs[0].earned["model"]), color="#bbbbbb", lw=1.2, label="model, no break")
    for name, (colour, dash, width) in LOOKS.items():
        left.plot(when, np.cumsum(run.earned[name]), color=colour, ls=dash, lw=width, label=name)
    left.axvline(when[run.step], color="black", lw=0.8, ls=":", label="break")
    if run.alarm is not None:
        left.axvline(when[run.alarm - 1], color=COLOURS[0], lw=0.8, label="alarm")
    left.set_title(f"{run.broken} from {when[run.step].strftime(form)}", fontsize=10)
    left.set_ylabel(f"earned since the start, {money}")
    left.legend(frameon=False, fontsize=8)
    left.xaxis.set_major_formatter(ConciseDateFormatter(left.xaxis.get_major_locator()))
    _bars(runs, when, form, unit, right)
    right.set_xlabel(f"guard - model, {money}")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return drawn


def _bars(runs: list[Run], when: Any, form: str, unit: str, axes: Any) -> None:
    kinds = list(dict.fromkeys(run.broken for run in runs[1:]))
    steps = list(dict.fromkeys(run.step for run in runs[1:]))
    for k, kind in enumerate(kinds):
        own = [run for run in runs[1:] if run.broken == kind]
        places = np.arange(len(own)) + (k - (len(kinds) - 1) / 2) * 0.38
        axes.barh(places, [run.saved for run in own], height=0.34, color=(COLOURS[0], COLOURS[4])[k], label=kind)
        for place, run in zip(places, own, strict=True):
            told = {"none": "no alarm", "before it": "alarm before it"}.get(run.delay, f"{run.delay} {unit}")
            axes.annotate(
                told, (max(run.saved, 0), place), xytext=(3, 0), textcoords="offset points", va="center", size=8
            )
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(steps)), [when[step].strftime(form) for step in steps])
    axes.invert_yaxis()
    axes.margins(x=0.22)
    axes.set_title("what the guard saved, and how long its alarm took", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)


def keep(drawn: Any, name: str) -> None:
    """With a folder as its argument a script writes its picture there."""
    for folder in map(Path, sys.argv[1:2]):
        drawn.savefig(folder / f"{name}.png", dpi=110)
