"""What is typed after a command about models, turned into what it means."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowregret.cli.options import PAYOFF_FILES

if TYPE_CHECKING:
    from lowregret.construct import Constructed
    from lowregret.predictors import Predictor
    from lowregret.problems import DecisionProblem
    from lowregret.robust import Robust
    from lowregret.transformer import Recording, Size, Transformer
    from lowregret.transformer.recording import Learnt

Where = Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")]
PAYOFFS = f"Payoffs in your own units, in place of --problem: {PAYOFF_FILES}"


@contextlib.contextmanager
def resumable(where: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, say that nothing is lost and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. The same command continues {where()}.", err=True)
        raise typer.Exit(130) from None


def one_of(name: str, value: str, choices: dict[str, Any]) -> Any:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return choices[value]


def used_by(task: str, given: dict[str, Any], *used: str) -> None:
    """Refuse an option that the task would ignore."""
    for name, value in given.items():
        if value is not None and name not in used:
            raise ValueError(f"--{name} means nothing to {task}: leave it out")


def model_in(path: Path, device: str) -> "Transformer | Constructed":
    """A trained model or a built one, as the file says."""
    from lowregret import construct, transformer

    if transformer.checkpoints.read(path).about.get("kind") == construct.files.KIND:
        return construct.load(path, device)
    return transformer.load(path, device)


def learnt_in(path: Path) -> "Learnt | None":
    """The recording that the model in a file learnt from, if it did."""
    from lowregret.transformer import checkpoints
    from lowregret.transformer.recording import learnt_from

    return learnt_from(checkpoints.read(path).about)


def size_named(text: str) -> "Size":
    from lowregret.transformer.decoder import size_of

    numbers = text.split(",")
    if len(numbers) > 1 and not all(n.strip().isdecimal() for n in numbers):
        raise ValueError(f"--size must be a name or whole numbers context,width,heads,layers,inner, got {text!r}")
    return size_of(tuple(map(int, numbers)) if len(numbers) > 1 else text)


def source_named(name: str, horizon: int) -> "Predictor":
    from lowregret.evaluate.sources import paper_sources

    return one_of("source", name, paper_sources(horizon))


def problem_named(text: str, n_states: int = 2) -> "DecisionProblem":
    from lowregret.problems import DecisionProblem, matching, rock_paper_scissors

    named = {"matching": lambda: matching(n_states), "rock_paper_scissors": rock_paper_scissors}
    if text in named:
        return named[text]()
    try:
        return DecisionProblem(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"--problem must be {', '.join(named)} or a JSON matrix of utilities, got {text!r}") from error


def problem_of(named: str | None, payoffs: Path | None, n_states: int = 2) -> "DecisionProblem":
    """The problem of --problem or --payoffs; guessing the state where neither is given."""
    from lowregret.problems import payoffs_in
    from lowregret.tables import printable

    if payoffs is None:
        return problem_named(named or "matching", n_states)
    if named is not None:
        raise ValueError("--payoffs takes the place of --problem: give one of them")
    problem = payoffs_in(payoffs)
    typer.echo(f"Payoffs, {printable(f'{problem.action_names}; {problem.state_names}')}")
    return problem


def names_of(problem: "DecisionProblem") -> tuple[str, ...] | None:
    """The names of its states, unless they are just numbers."""
    return None if problem.state_names.unnamed else problem.states


def agreed_names(problem: "DecisionProblem", recorded: "Learnt | None") -> tuple[str, ...] | None:
    """The names of the states, from the problem or as a model learnt them; None: they are just numbers."""
    names, learnt = names_of(problem), None if recorded is None else recorded.states
    if learnt is None or names == learnt:
        return names
    if names is not None:
        raise ValueError(f"the model learnt the states {', '.join(learnt)}, and the problem has {', '.join(names)}")
    _refuse_unnamed(problem, "the model learnt names", learnt)
    return learnt


def recording_in(
    tokens: Path, held_out: float, problem: "DecisionProblem | None", learnt: "Learnt | None", of_model: bool
) -> "Recording":
    """The recording in a file; its names stand for states in the order of the problem, or of what the model learnt.

    Without a problem and a model (``of_model``) they are in alphabetical order.
    """
    from lowregret.transformer import Recording

    known = None if problem is None else agreed_names(problem, learnt)
    n_states = None if problem is None else problem.n_states
    found = Recording.of(tokens, n_states=n_states, states=known, held_out=held_out)
    if found.states is not None and known is None:
        if of_model:
            raise ValueError(
                f"--tokens has names ({', '.join(found.states)}), and the model learnt numbers: name the states in the "
                "first row of --payoffs, in that order"
            )
        if problem is not None:
            _refuse_unnamed(problem, "--tokens has names", found.states)
    return found


def _refuse_unnamed(problem: "DecisionProblem", who: str, names: tuple[str, ...]) -> None:
    """Refuse names for states without names: their order is unknown. (In guessing the state it does not matter.)"""
    from lowregret.problems import matching

    if problem.utility.tolist() != matching(problem.n_states).utility.tolist():
        raise ValueError(
            f"{who} ({', '.join(names)}), and the problem's states have none: name them in the first row of --payoffs"
        )


def robust_named(rule: str, base: "Predictor", problem: "DecisionProblem", horizon: int) -> "Robust":
    """Algorithm 1 on a base model by the name of a test, with the urn after the alarm."""
    from lowregret.engine import ExactTest
    from lowregret.predictors import PolyaUrn
    from lowregret.robust.robustify import robustify
    from lowregret.rules import RegretGap, RegretRate

    tests = {"exact": lambda T: ExactTest(2 / T, T), "rate": RegretRate, "gap": RegretGap}
    test = one_of("rule", rule, tests)(horizon)
    return robustify(base, problem, test=test, fallback=PolyaUrn(problem.n_states))
