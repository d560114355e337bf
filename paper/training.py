"""The command that trains: ``python -m paper train`` (extras ``cli``, ``torch``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lowregret import files
from lowregret.cli.options import refusals

from .options import (
    PAYOFFS,
    Where,
    agreed_names,
    learnt_in,
    one_of,
    problem_of,
    recording_in,
    resumable,
    robust_named,
    size_named,
    source_named,
    used_by,
)

if TYPE_CHECKING:
    from lowregret.transformer import Size, Task, Transformer
    from lowregret.transformer.recording import Learnt

TASKS = {  # and the options that mean something to each
    "bernoulli": ("source", "soft"),
    "polyaurn": ("problem", "payoffs", "soft"),
    "imitate": ("tokens", "held-out", "problem", "payoffs"),
    "robust": ("base", "tokens", "held-out", "source", "problem", "payoffs", "rule"),
    "distilled": ("base", "tokens", "held-out", "source", "problem", "payoffs", "rule"),
}


def train(
    out: Annotated[Path, typer.Option(help="The checkpoint to write.")],
    task: Annotated[
        str | None,
        typer.Argument(
            help="bernoulli, polyaurn, imitate (a recording), robust (masked) or distilled. "
            "If left out: with --tokens imitate, with --tokens and --base distilled.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[Path | None, typer.Option(help="Checkpoint of the base model (robust, distilled).")] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="Your own recording (imitate, robust, distilled): .npy with whole numbers, one sequence or "
            "one per row; .csv or .txt with one sequence per line, whole numbers or names."
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            min=0,
            max=0.5,
            help="The share of the recording, its last part, to measure on; 0.1 by default.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Of the paper's sources: a b c d sin2 sin5 sin10 sin20; b by default. Or base: what the base model "
            "itself draws, the default where that learnt from a recording (robust, distilled)."
        ),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(help="matching (by default), rock_paper_scissors, or a JSON matrix (polyaurn: its states count)."),
    ] = None,
    payoffs: Annotated[Path | None, typer.Option(help=PAYOFFS)] = None,
    rule: Annotated[str | None, typer.Option(help="exact (by default), rate or gap (robust, distilled).")] = None,
    size: Annotated[
        str | None,
        typer.Option(help="quick, paper, or context,width,heads,layers,inner; that of --base, or quick, by default."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1)] = 500,
    batch: Annotated[int, typer.Option(min=1, help="Sequences per step, over all processes together.")] = 32,
    seed: Annotated[
        int, typer.Option(min=0, help="On a CPU the same seed gives the same model; on a GPU only nearly.")
    ] = 0,
    optimiser: Annotated[str, typer.Option(help="decaying, or nanodo (NanoDO's defaults).")] = "decaying",
    soft: Annotated[
        bool, typer.Option("--soft", help="Learn the source's laws rather than its tokens (bernoulli, polyaurn).")
    ] = False,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between saves.")] = 100,
    device: Where = None,
) -> None:
    """Train one transformer; continue where an earlier run stopped. Several GPUs: torchrun -m paper train ..."""
    with refusals():
        from rich.console import Console

        from lowregret import transformer
        from lowregret.transformer.backends import device_named
        from lowregret.transformer.held_out import compared, measured
        from lowregret.transformer.progress import shown
        from lowregret.transformer.training import goes_on, refuse_absurd

        task = _task_named(task, tokens, base)
        used = {"base": base, "tokens": tokens, "held-out": held_out, "source": source, "problem": problem}
        used_by(task, {**used, "payoffs": payoffs, "rule": rule, "soft": soft or None}, *TASKS[task])
        of_checkpoint = transformer.checkpoints.written
        given = {**of_checkpoint("--base", base), "--tokens": tokens, "--payoffs": payoffs}
        files.apart(of_checkpoint("--out", transformer.checkpoints.to_write(out)), given)
        model = _base(task, base)
        settings = transformer.TrainingSettings(
            size=_size(size, model),
            steps=steps,
            batch=batch,
            seed=seed,
            optimiser=one_of("optimiser", optimiser, {"decaying": transformer.DECAYING, "nanodo": transformer.NANODO}),
        )
        refuse_absurd(2, settings, device_named(device or "cpu"))  # sources are as long as the context
        share = 0.1 if held_out is None else held_out
        asked = TaskOptions(
            task, settings.size.context, model, tokens, share, source, problem, payoffs, rule or "exact", soft
        )
        work = _work(asked)
        init = model.model if model is not None and task == "distilled" else None
        files.writable(out)
        console = Console()
        with resumable(lambda: goes_on(out)), shown(task, console) as report:
            found = transformer.train(
                work, out, settings, init=init, device=device, save_every=save_every, on_report=report
            )
        if init is not None and isinstance(work, transformer.Distil):
            typer.echo(str(compared(work, found, settings)))
        recording = getattr(work, "source", None)
        if isinstance(recording, transformer.Recording):
            if recording.states is not None:
                typer.echo(f"States, from 0 on: {', '.join(recording.states)}")
            if share:
                typer.echo(str(measured(recording, found)))
        typer.echo(f"Written: {out}")


class Base(NamedTuple):
    """The model to make robust, and the recording that it learnt from, if it did."""

    model: "Transformer"
    learnt: "Learnt | None"


class TaskOptions(NamedTuple):
    """What decides the task."""

    task: str
    horizon: int
    base: Base | None
    tokens: Path | None
    held_out: float
    source: str | None
    problem: str | None
    payoffs: Path | None
    rule: str
    soft: bool


def _task_named(task: str | None, tokens: Path | None, base: Path | None) -> str:
    if task is None and tokens is not None:
        return "imitate" if base is None else "distilled"
    if task not in TASKS:
        advice = "" if task is not None else "nothing: name one, or give --tokens"
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {advice or repr(task)}")
    return task


def _base(task: str, path: Path | None) -> Base | None:
    from lowregret import transformer

    if "base" not in TASKS[task]:
        return None
    if path is None:
        raise ValueError(f"{task} needs --base, the checkpoint of the model to make robust")
    return Base(transformer.load(path), learnt_in(path))


def _size(size: str | None, base: Base | None) -> "Size":
    """The size asked for, which is the base model's where there is one."""
    if base is None:
        return size_named(size or "quick")
    theirs = base.model.decoder.size
    if size is not None and size_named(size) != theirs:
        raise ValueError(f"--size is that of --base, {','.join(map(str, theirs))}: leave it out, got {size}")
    return theirs


def _work(asked: TaskOptions) -> "Task":
    from lowregret import transformer
    from lowregret.predictors import PolyaUrn

    base = asked.base
    if asked.task == "bernoulli":
        return transformer.Imitate(source_named(asked.source or "b", asked.horizon), asked.soft)
    if asked.task == "polyaurn":
        return transformer.Imitate(PolyaUrn(problem_of(asked.problem, asked.payoffs).n_states), asked.soft)
    if base is None:
        if asked.tokens is None:
            raise ValueError("imitate needs --tokens, the recording to learn from")
        told = asked.problem is not None or asked.payoffs is not None
        problem = problem_of(asked.problem, asked.payoffs) if told else None
        return transformer.Imitate(recording_in(asked.tokens, asked.held_out, problem, None, of_model=False))
    problem = problem_of(asked.problem, asked.payoffs, base.model.n_states)
    agreed_names(problem, base.learnt)
    source: Any
    if asked.tokens is not None:
        if asked.source is not None:
            raise ValueError("--tokens takes the place of --source: give one of them")
        source = recording_in(asked.tokens, asked.held_out, problem, base.learnt, of_model=True)
    elif (asked.source or ("b" if base.learnt is None else "base")) == "base":
        source = base.model
    else:
        source = source_named(asked.source or "b", asked.horizon)
    kind = transformer.Masked if asked.task == "robust" else transformer.Distil
    return kind(source, robust_named(asked.rule, base.model, problem, asked.horizon))
