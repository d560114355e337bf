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

_LAW = "What the model says at every step: STATE=CHANCE each, with commas, or the chances in the order of the states."
_EDGE = (
    "In place of --law and --truth, in your payoffs: how much more per step the model's advice earns than another "
    "action, and how much less once it is broken."
)


def plan(
    payoffs: Annotated[Path, typer.Argument(help=PAYOFFS)],
    law: Annotated[str | None, typer.Option(help=_LAW)] = None,
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
        guard = Guard(problem, test=ExactTest(delta, horizon))
        said, true = _law_in(law, problem, "law"), _law_in(truth, problem, "truth")
        found = delay(guard, edge, law=said, truth=true, since=since, runs=runs, seed=seed)
        typer.echo(told(found, problem, delta))


def told(found: "Delay", problem: "DecisionProblem", delta: float) -> str:
    """What was found, in words."""
    left = found.steps - found.since + 1
    best, other = int(problem.best_response(found.law_S)), int((problem.utility @ found.truth_S).argmax())
    names = problem.actions

    def law(law_S: np.ndarray) -> str:
        chances = zip(problem.states, law_S, strict=True)
        return ", ".join(f"{state} {chance:.3g}" for state, chance in chances if chance > 0)

    def earns(action: int, law_S: np.ndarray) -> str:
        return f"{problem.in_payoffs(float(problem.utility[action] @ law_S)):.4g} a step"

    def waited(steps: float) -> str:
        lost = found.lost(steps)
        amount = f"{lost:,.0f}" if lost >= 1000 else f"{lost:.4g}"
        if math.isfinite(steps):
            return f"within {steps:,.0f} steps, at a cost of {amount}"
        return f"not within the {left:,} steps that are left, in which {amount} are lost"

    lines = [
        f"The model says {law(found.law_S)}, so it plays {names[best]}, for {earns(best, found.law_S)}.",
        f"From step {found.since:,} of {found.steps:,} on it is broken: {law(found.truth_S)} is true. Then "
        f"{names[best]} earns {earns(best, found.truth_S)}",
        f"and {names[other]} {earns(other, found.truth_S)}: every step loses {found.edge:.4g}.",
        "",
    ]
    if found.edge <= 0:
        return "\n".join([*lines[:3], "", "Nothing is lost by such a break: there is nothing to notice."])
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
        f"Whatever comes, over all {found.steps:,} steps the guard earns at most {found.certificate:.4g} a step less "
        "than the best fixed action.",
        f"An alarm is certain only if the break costs more than {found.least_edge:.4g} a step until the end: no "
        "smaller edge is protected for sure.",
    ])  # fmt: skip


def _law_in(text: str | None, problem: "DecisionProblem", name: str) -> list[float] | None:
    """A law as it was typed: by the names of the states, or in their order."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    named = [part.rpartition("=") for part in parts]
    try:
        chances = [float(chance) for *_, chance in named]
    except ValueError as error:
        raise ValueError(f"--{name} must be STATE=CHANCE each, with commas, or chances, got {text!r}") from error
    if not any(equals for _, equals, _ in named):
        return chances
    places = [problem.state_names.position(state.strip()) for state, _, _ in named]
    if None in places or sorted(places) != list(range(problem.n_states)):  # type: ignore[type-var]
        raise ValueError(f"--{name} must name each of the states {', '.join(problem.states)} once, got {text!r}")
    by_place = dict(zip(places, chances, strict=True))
    return [by_place[place] for place in range(problem.n_states)]
