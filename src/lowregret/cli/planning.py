"""``lowregret plan``: bad luck or broken, and how long to wait: whether a guard is worth having (extra: ``cli``)."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from .options import PAYOFFS, refusals

if TYPE_CHECKING:
    from ..guard import Delay
    from ..problems import DecisionProblem

_FORECAST = "The model's forecast at every step: STATE=CHANCE each, with commas, or chances in the order of the states."
_EDGE = (
    "In place of --forecast and --truth, in your payoffs: how much more per step the model's advice earns than another "
    "action, and how much less once it is broken."
)


def plan(
    payoffs: Annotated[Path, typer.Argument(help=PAYOFFS)],
    forecast: Annotated[str | None, typer.Option(help=_FORECAST)] = None,
    truth: Annotated[str | None, typer.Option(help="What is true once the model is broken, in the same form.")] = None,
    edge: Annotated[float | None, typer.Option(help=_EDGE)] = None,
    delta: Annotated[float, typer.Option(help="The chance of ever leaving a model that is right.")] = 0.05,
    horizon: Annotated[int, typer.Option(min=2, help="How many steps there are.")] = 1000,
    since: Annotated[
        int | None, typer.Option(min=1, help="The first step of the break; by default in the middle.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="How many runs are drawn.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the runs.")] = 0,
) -> None:
    """Bad luck or broken, and how long to wait? How soon a guard notices a break, and what is lost until then."""
    with refusals():
        from ..engine import ExactTest
        from ..guard import Guard, delay
        from ..problems import payoffs_in

        problem = payoffs_in(payoffs)
        if (edge is None) == (forecast is None) or (forecast is None) != (truth is None):
            raise ValueError("plan needs --forecast and --truth, or --edge in their place")
        before, after = _chances_in(forecast, problem, "forecast"), _chances_in(truth, problem, "truth")
        guard = Guard(problem, test=ExactTest(delta, horizon))
        typer.echo(
            _in_words(delay(guard, edge, law=before, truth=after, since=since, runs=runs, seed=seed), problem, delta)
        )


def _in_words(found: "Delay", problem: "DecisionProblem", delta: float) -> str:
    left = found.steps - found.since + 1
    best, other = int(problem.best_response(found.law_S)), int((problem.utility @ found.truth_S).argmax())
    names = problem.actions

    def chances(probs_S: np.ndarray) -> str:
        return ", ".join(f"{state} {p:.3g}" for state, p in zip(problem.states, probs_S, strict=True) if p > 0)

    def earns(action: int, probs_S: np.ndarray) -> str:
        return f"{problem.in_payoffs(float(problem.utility[action] @ probs_S)):.4g} per step"

    def waited(steps: float) -> str:
        lost = found.lost(steps)
        amount = f"{lost:,.0f}" if lost >= 1000 else f"{lost:.4g}"
        if math.isfinite(steps):
            return f"within {steps:,.0f} steps, at a cost of {amount}"
        return f"not within the {left:,} steps that are left, in which {amount} are lost"

    lines = [
        f"The model's forecast is {chances(found.law_S)}, so it plays {names[best]}, for {earns(best, found.law_S)}.",
        f"From step {found.since:,} of {found.steps:,} on it is broken: {chances(found.truth_S)} is true. Then "
        f"{names[best]} earns {earns(best, found.truth_S)}",
        f"and {names[other]} {earns(other, found.truth_S)}: every step loses {found.edge:.4g}.",
        "",
    ]
    if found.edge <= 0:
        return "\n".join([*lines, "Nothing is lost by such a break: there is nothing to notice."])
    verdict = f"{found.heard:.0%} of such breaks raise it by the end."
    if found.heard < 0.9:
        verdict += " That is too small an edge for so few steps: do not count on a guard here."
    return "\n".join([
        *lines,
        "Bad luck or broken? Until the alarm it may be luck. The chance that luck alone ever raises it is at most "
        f"{delta:.3g}.",
        f"How long to wait: half of such breaks raise the alarm {waited(found.median)};",
        f"nine in ten {waited(found.ninetieth)}. {verdict}",
        f"({found.runs:,} runs; in {found.too_early:.1%} of them the alarm came before the break, and was false.)",
        "",
        f"Whatever comes, over all {found.steps:,} steps the guard earns at most {found.certificate:.4g} per step less "
        "than the best fixed action.",
        f"An alarm is certain only if the break costs more than {found.least_edge:.4g} per step until the end: no "
        "smaller edge is protected for sure.",
    ])  # fmt: skip


def _chances_in(text: str | None, problem: "DecisionProblem", name: str) -> list[float] | None:
    """Probabilities by the names of the states, or in their order."""
    if text is None:
        return None
    named = [part.strip().rpartition("=") for part in text.split(",")]
    try:
        chances = [float(chance) for *_, chance in named]
    except ValueError as error:
        raise ValueError(f"--{name} must be STATE=CHANCE each, with commas, or chances, got {text!r}") from error
    if not any(equals for _, equals, _ in named):
        return chances
    by_place = {problem.state_names.position(state.strip()): p for (state, _, _), p in zip(named, chances, strict=True)}
    if len(named) != problem.n_states or set(by_place) != set(range(problem.n_states)):
        raise ValueError(f"--{name} must name each of the states {', '.join(problem.states)} once, got {text!r}")
    return [by_place[place] for place in range(problem.n_states)]
