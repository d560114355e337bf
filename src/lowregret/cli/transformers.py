"""Commands about transformers: ``train``, ``evaluate``, ``reproduce``, ``construct`` (extras ``cli``, ``torch``)."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import files
from .options import (
    model_in,
    one_of,
    problem_named,
    refusals,
    resumable,
    rule_named,
    size_named,
    source_named,
    used_by,
)

Where = Annotated[str | None, typer.Option(help="cpu or cuda; a GPU if there is one.")]


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command()(reproduce)
    app.command()(train)
    app.command()(evaluate)
    app.command()(construct)


def reproduce(
    preset: Annotated[str, typer.Option(help="quick (two cores, minutes), paper (as printed) or best.")] = "quick",
    out: Annotated[Path | None, typer.Option(help="Folder for everything; results/PRESET by default.")] = None,
    collect: Annotated[Path | None, typer.Option(help="Folder for copies of the eight files that matter.")] = None,
    device: Where = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of every training, for a shorter try.")] = None,
    batch: Annotated[int | None, typer.Option(min=2, help="Sequences in a step.")] = None,
    samples: Annotated[int | None, typer.Option(min=2, help="Sequences from each source when measuring.")] = None,
    size: Annotated[str | None, typer.Option(help="Another size of decoder: quick or paper.")] = None,
    response_weight: Annotated[float | None, typer.Option(min=0, help="Weight of responses beside laws.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of weights, batches and measurements; on a GPU a run repeats only nearly."),
    ] = None,
) -> None:
    """Train BERNOULLI (two seeds), POLYAURN and ROBUST; draw the figure, print the tables beside the paper's.

    A run that was stopped goes on where it was.
    """
    with refusals(), resumable(lambda: "where it was"):
        from ..paper.reproduce import preset_named
        from ..paper.reproduce import reproduce as run

        changes = {
            "steps": steps,
            "batch": batch,
            "samples": samples,
            "size": size,
            "response_weight": response_weight,
            "seed": seed,
        }
        given = [f"--{name.replace('_', '-')} {value}" for name, value in changes.items() if value is not None]
        command = " ".join(["lowregret reproduce --preset", preset, *given])  # where it was written is nobody's matter
        chosen, folder = preset_named(preset).changed(**changes), out or Path("results") / preset
        if response_weight is not None and not chosen.distilled:
            raise ValueError(f"--response-weight means nothing to the preset {preset}, which learns no responses")
        run(chosen, folder, collect, device, command)


def train(
    task: Annotated[str, typer.Argument(help="bernoulli, polyaurn, robust (masked) or distilled.")],
    out: Annotated[Path, typer.Option(help="The checkpoint to write.")],
    base: Annotated[Path | None, typer.Option(help="Checkpoint of the base model (robust, distilled).")] = None,
    source: Annotated[
        str | None, typer.Option(help="Of the paper's sources: a b c d sin2 sin5 sin10 sin20; b by default.")
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(help="matching (by default), rock_paper_scissors, or a JSON matrix (polyaurn: its states count)."),
    ] = None,
    rule: Annotated[str | None, typer.Option(help="exact (by default), rate or gap (robust, distilled).")] = None,
    size: Annotated[str, typer.Option(help="quick, paper, or context,width,heads,layers,inner.")] = "quick",
    steps: Annotated[int, typer.Option(min=1)] = 500,
    batch: Annotated[int, typer.Option(min=1, help="Sequences in a step, of all processes together.")] = 32,
    seed: Annotated[
        int, typer.Option(min=0, help="On a CPU it decides every bit; on a GPU sums are taken in any order.")
    ] = 0,
    optimiser: Annotated[str, typer.Option(help="decaying, or nanodo (NanoDO's defaults).")] = "decaying",
    soft: Annotated[
        bool, typer.Option("--soft", help="Learn the source's laws rather than its tokens (bernoulli, polyaurn).")
    ] = False,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between saves.")] = 100,
    device: Where = None,
) -> None:
    """Train one transformer; go on where an earlier run stopped. Several GPUs: torchrun -m lowregret train ..."""
    with refusals():
        from rich.console import Console

        from .. import transformer
        from ..predictors import PolyaUrn
        from ..transformer.backends import device_named
        from ..transformer.held_out import compared
        from ..transformer.progress import shown
        from ..transformer.refusals import refuse_absurd
        from ..transformer.training import goes_on

        chosen = {"base": base, "source": source, "problem": problem, "rule": rule, "soft": soft or None}
        of_checkpoint = transformer.checkpoints.written
        files.apart(of_checkpoint("--out", transformer.checkpoints.to_write(out)), of_checkpoint("--base", base))
        wanted, tested_on = source or "b", problem or "matching"

        settings = transformer.Settings(
            size=size_named(size),
            steps=steps,
            batch=batch,
            seed=seed,
            optimiser=one_of("optimiser", optimiser, {"decaying": transformer.DECAYING, "nanodo": transformer.NANODO}),
        )
        horizon = settings.size.context
        refuse_absurd(2, settings, device_named(device or "cpu"))  # sources are as long as the context
        init: transformer.Transformer | None = None
        work: transformer.Task
        if task == "bernoulli":
            used_by(task, chosen, "source", "soft")
            work = transformer.Imitate(source_named(wanted, horizon), soft)
        elif task == "polyaurn":
            used_by(task, chosen, "problem", "soft")
            work = transformer.Imitate(PolyaUrn(problem_named(tested_on).n_states), soft)
        elif task in ("robust", "distilled"):
            used_by(task, chosen, "base", "source", "problem", "rule")
            if base is None:
                raise ValueError(f"{task} needs --base, the checkpoint of the model to make robust")
            model, tested = transformer.load(base), rule_named(rule or "exact", problem_named(tested_on), horizon)
            if task == "robust":
                work = transformer.Masked(source_named(wanted, horizon), model, tested)
            else:
                work, init = transformer.Distil(source_named(wanted, horizon), model, tested), model
        else:
            raise ValueError(f"task must be bernoulli, polyaurn, robust or distilled, got {task!r}")
        files.writable(out)
        console = Console()
        with resumable(lambda: goes_on(out)), shown(task, console) as report:
            found = transformer.train(
                work, out, settings, init=init, device=device, save_every=save_every, on_report=report
            )
        if init is not None and isinstance(work, transformer.Distil):
            typer.echo(str(compared(work, found, settings)))
        typer.echo(f"Written: {out}")


def evaluate(
    model: Annotated[Path, typer.Argument(help="Checkpoint or built model to measure.")],
    against: Annotated[Path | None, typer.Option(help="Another, to say how far apart they are.")] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=2, help="Sequences from each source.")] = 128,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the numbers here too, as JSON.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Regret on the paper's eight sources and against the greedy adversary; distances to another model.

    Checkpoints of trained models and files of built ones. A built model is measured with the problem it was built for,
    a trained one with matching.
    """
    with refusals():
        from .. import adversaries, transformer
        from ..comparison import compare
        from ..distances import next_token_tv, sequence_tv
        from ..predictors import sample
        from ..problems import matching
        from ..sources import paper_sources

        of_checkpoint = transformer.checkpoints.written
        if out is not None:  # what cannot be written is refused before the work
            if out.is_dir():
                raise ValueError(f"--out must be a file, and {out} is a folder")
            files.writable(files.to_write(out))
        files.apart({"--out": out}, {**of_checkpoint("the model", model), **of_checkpoint("--against", against)})
        ours = model_in(model, device)
        theirs = None if against is None else model_in(against, device)
        problem, T = getattr(ours, "problem", matching()), ours.context
        for path, read in ((model, ours), (against, theirs)):
            if read is not None and read.n_states != 2:
                raise ValueError(
                    f"{path} must predict two states, as the paper's sources do, and predicts {read.n_states}"
                )
        if theirs is not None and theirs.context < T:
            raise ValueError(
                f"--against must reach as far as {model}, {T} tokens, and {against} ends at {theirs.context}"
            )
        files.in_memory(16 * samples * T, f"--samples {samples} of {T} steps")
        found = compare({model.stem: ours}, paper_sources(T), problem, T, samples, seed)
        numbers: dict[str, Any] = json.loads(found.to_json())
        numbers["greedy"] = float(adversaries.greedy(ours, problem, T).regret)
        typer.echo(f"{found.table()}\n\nRegret against the greedy adversary: {numbers['greedy']:+.4f}")
        if against is not None and theirs is not None:
            tokens = sample(paper_sources(T)["b"], T, samples, seed)
            distances = {
                "next_token_tv": next_token_tv(ours, theirs, tokens),
                "sequence_tv": sequence_tv(ours, theirs, T, samples, seed),
            }
            for name, estimate in distances.items():
                typer.echo(f"{name} to {against.stem}: {estimate}")
            numbers |= {name: estimate._asdict() for name, estimate in distances.items()}
        if out is not None:
            files.replace(out, (json.dumps(numbers) + "\n").encode())


def construct(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of the decoder to make robust.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    rule: Annotated[str, typer.Option(help="exact (delta = 2/T), rate or gap.")] = "exact",
    problem: Annotated[str, typer.Option(help="matching, rock_paper_scissors, or a JSON matrix.")] = "matching",
    horizon: Annotated[int | None, typer.Option(min=1, help="Steps; the decoder's context by default.")] = None,
    dtype: Annotated[str, typer.Option(help="float64 or float32, of the appended layers.")] = "float64",
    shallow: Annotated[
        bool, typer.Option("--shallow", help="ExactTest, two actions and states: a layer less.")
    ] = False,
    onnx: Annotated[Path | None, typer.Option(help="Write it as ONNX too, for sequences (extra: onnx).")] = None,
    onnx_stream: Annotated[Path | None, typer.Option(help="As ONNX that takes a token at a time.")] = None,
) -> None:
    """Append the layers that are Algorithm 1 to a trained decoder; no training."""
    with refusals():
        from .. import transformer  # before torch itself: it says what to install
        from ..construct import build, export_onnx, save
        from ..construct.onnx import installed

        of_checkpoint = transformer.checkpoints.written
        graphs = {"--onnx": onnx, "--onnx-stream": onnx_stream}
        outputs = {**of_checkpoint("--out", transformer.checkpoints.to_write(out)), **graphs}
        files.apart(outputs, of_checkpoint("the checkpoint", checkpoint))
        for graph in graphs.values():
            if graph is not None:
                files.to_write(graph)
                installed()
        files.writable(*outputs.values())
        import torch

        base = transformer.load(checkpoint)
        chosen = rule_named(rule, problem_named(problem), base.context if horizon is None else horizon)
        kind = one_of("dtype", dtype, {"float64": torch.float64, "float32": torch.float32})
        model = build(base, chosen, dtype=kind, shallow=shallow)
        save(model, out)
        for path, streaming in ((onnx, False), (onnx_stream, True)):
            if path is not None:
                export_onnx(model, path, streaming)
        s, built = model.sizes, model.module.about
        trivial = " (no guarantee)" if built["regret_bound"] >= chosen.problem.span else ""
        typer.echo(
            f"{type(chosen).__name__} over {chosen.horizon} steps: regret at most {built['regret_bound']:.4f} a step "
            f"on every sequence{trivial}, TV at most {built['tv_bound']:.3g} from {checkpoint.stem}\n"
            f"{s.layers} layers more: {s.heads} heads, {s.width} wide, {s.hidden} hidden units, largest weight "
            f"{s.largest_weight:.3g}, {s.parameters} weights that are not zero\n"
            f"Written: {', '.join(str(path) for path in (out, onnx, onnx_stream) if path is not None)}"
        )
