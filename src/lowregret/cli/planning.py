"""``lowregret plan``: bad luck or broken, and how long to wait: whether a guard is worth having (extra: ``cli``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import PAYOFFS, named_in, refusals

if TYPE_CHECKING:
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
        from ..problems import a_problem, payoffs_in

        problem = a_problem(payoffs_in(payoffs))
        before, after = _chances_in("--forecast", forecast, problem), _chances_in("--truth", truth, problem)
        guard = Guard(problem, test=ExactTest(delta, horizon))
        typer.echo(str(delay(guard, edge, forecast=before, truth=after, since=since, runs=runs, seed=seed)))


def _chances_in(option: str, text: str | None, problem: "DecisionProblem") -> list[float] | None:
    """Probabilities by the names of the states, or in their order."""
    if (given := named_in(option, text)) is None:
        return None
    try:
        chances = [float(chance) for chance in (given if isinstance(given, list) else given.values())]
    except ValueError as error:
        raise ValueError(f"{option} must be STATE=CHANCE each, with commas, or chances, got {text!r}") from error
    if isinstance(given, list):
        return chances
    by_place = {problem.state_names.position(state): chance for state, chance in zip(given, chances, strict=True)}
    if set(by_place) != set(range(problem.n_states)):
        raise ValueError(f"{option} must name each of the states {', '.join(problem.states)} once, got {text!r}")
    return [by_place[place] for place in range(problem.n_states)]
