"""Commands about transformers: ``reproduce``, ``evaluate``, ``construct`` (extras ``cli``, ``torch``)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from lowregret import files
from lowregret.cli.options import refusals

from .options import PAYOFFS, Where, agreed_names, learnt_in, model_in, one_of, problem_of, recording_in, resumable
from .training import train

# What ``evaluate --tokens`` says: a model on a recording, window by window.


if TYPE_CHECKING:
    from lowregret.construct import Constructed
    from lowregret.problems import DecisionProblem
    from lowregret.transformer import Recording, Transformer


def on_recording(
    recording: "Recording", model: "Transformer | Constructed", problem: "DecisionProblem"
) -> tuple[dict[str, Any], np.ndarray]:
    """The numbers, which are also printed, and the windows ``[N, T]`` that are complete.

    On the part held out, where there is one.
    """
    from lowregret.evaluate.regret import external_regret
    from lowregret.policies import Respond
    from lowregret.predictors import PolyaUrn
    from lowregret.transformer.held_out import log_losses

    frequencies_S, T = recording.frequencies(), model.context
    if recording.held_out:
        recording = recording.unseen()
    tokens_NxT, own_NxT = (part.numpy() for part in recording.in_order(T))
    lengths_N = own_NxT.sum(axis=-1).astype(np.int64)

    def regret(player: Any) -> float:
        regret_NxT = np.asarray(external_regret(problem, Respond(player, problem, T**-0.5), tokens_NxT))
        ends_N = np.take_along_axis(regret_NxT, lengths_N[:, None] - 1, axis=-1)[:, 0]
        return float(np.average(ends_N, weights=lengths_N))

    losses = log_losses(recording, model, T, frequencies_S)
    found = {"regret": regret(model), "urn": regret(PolyaUrn(model.n_states))}
    in_units = problem.regret_in_payoffs(found["regret"])
    units = "" if in_units == found["regret"] else f" ({in_units:+.6g} in the payoffs' units)"
    typer.echo(losses.on(f"{losses.tokens:,} recorded ones"))
    typer.echo(
        f"Mean regret a step on {len(tokens_NxT)} windows of up to {T} steps: {found['regret']:+.4f}{units}; "
        f"of an urn {found['urn']:+.4f}"
    )
    return {"recording": {**losses._asdict(), **found}}, tokens_NxT[lengths_N == T]


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command()(reproduce)
    app.command()(train)
    app.command()(evaluate)
    app.command()(construct)


def reproduce(
    preset: Annotated[
        str, typer.Option(help="quick (two cores, minutes), paper (as printed) or recovering.")
    ] = "quick",
    out: Annotated[Path | None, typer.Option(help="Folder for everything; results/PRESET by default.")] = None,
    collect: Annotated[Path | None, typer.Option(help="Folder for copies of the eight files that matter.")] = None,
    device: Where = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of every training, for a shorter try.")] = None,
    batch: Annotated[int | None, typer.Option(min=2, help="Sequences per step.")] = None,
    samples: Annotated[int | None, typer.Option(min=2, help="Sequences from each source when measuring.")] = None,
    size: Annotated[str | None, typer.Option(help="Another size of decoder: quick or paper.")] = None,
    response_weight: Annotated[float | None, typer.Option(min=0, help="Weight of responses beside laws.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of weights, batches and measurements; on a GPU a run repeats only nearly."),
    ] = None,
    repeatable: Annotated[
        bool, typer.Option("--deterministic", help="The same models for the same seed on a GPU, too; slower.")
    ] = False,
) -> None:
    """Train BERNOULLI (two seeds), POLYAURN and ROBUST; draw the figure, print the tables beside the paper's.

    A run that was stopped continues where it was.
    """
    with refusals(), resumable(lambda: "where it was"):
        from lowregret.transformer.backends import deterministic

        from .reproduce import preset_named
        from .reproduce import reproduce as run

        changes = {
            "steps": steps,
            "batch": batch,
            "samples": samples,
            "size": size,
            "response_weight": response_weight,
            "seed": seed,
        }
        given = [f"--{name.replace('_', '-')} {value}" for name, value in changes.items() if value is not None]
        given += ["--deterministic"] if repeatable else []
        command = " ".join(["python -m paper reproduce --preset", preset, *given])  # the folder does not matter
        chosen, folder = preset_named(preset).changed(**changes), out or Path("results") / preset
        if response_weight is not None and not chosen.distilled:
            raise ValueError(f"--response-weight means nothing to the preset {preset}, which learns no responses")
        with deterministic(repeatable):
            run(chosen, folder, collect, device, command)


def evaluate(
    model: Annotated[Path, typer.Argument(help="Checkpoint or built model to measure.")],
    against: Annotated[Path | None, typer.Option(help="Another model, to measure how far apart they are.")] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="A recording, as train takes it, in place of the paper's sources.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            min=0,
            max=0.5,
            help="Only that share of the recording, its last part: what train held out (0.1 by default there).",
        ),
    ] = None,
    problem: Annotated[
        str | None, typer.Option(help="For a trained model: matching, rock_paper_scissors, or a JSON matrix.")
    ] = None,
    payoffs: Annotated[Path | None, typer.Option(help=PAYOFFS)] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=2, help="Sequences from each source.")] = 128,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the numbers here too, as JSON.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Regret on the paper's eight sources or a recording, and against the greedy adversary; distances to another model.

    Checkpoints of trained models and files of built ones. A built model is measured with the problem it was built for,
    a trained one with matching if no other is named.
    """
    with refusals():
        from lowregret import transformer
        from lowregret.evaluate import adversaries, compare
        from lowregret.evaluate.distances import next_token_tv, sequence_tv
        from lowregret.evaluate.sources import paper_sources
        from lowregret.predictors import sample

        of_checkpoint = transformer.checkpoints.written
        if out is not None:  # what cannot be written is refused before the work
            if out.is_dir():
                raise ValueError(f"--out must be a file, and {out} is a folder")
            files.writable(files.to_write(out))
        given = {"--tokens": tokens, "--payoffs": payoffs}
        files.apart(
            {"--out": out}, {**of_checkpoint("the model", model), **of_checkpoint("--against", against), **given}
        )
        ours = model_in(model, device)
        theirs = None if against is None else model_in(against, device)
        T, built_for = ours.context, getattr(ours, "problem", None)
        if built_for is not None and (problem is not None or payoffs is not None):
            raise ValueError(f"{model} was built for a problem of its own: leave --problem and --payoffs out")
        at_stake = built_for or problem_of(problem, payoffs, ours.n_states)
        agreed_names(at_stake, learnt_in(model))
        if held_out is not None and tokens is None:
            raise ValueError("--held-out means nothing without --tokens: leave it out")
        for path, read in ((model, ours), (against, theirs)):
            if tokens is None and read is not None and read.n_states != 2:
                raise ValueError(
                    f"{path} must predict two states, as the paper's sources do, and predicts {read.n_states}: "
                    "--tokens measures it on a recording"
                )
        if theirs is not None and theirs.context < T:
            raise ValueError(
                f"--against must reach as far as {model}, {T} tokens, and {against} ends at {theirs.context}"
            )
        files.in_memory(16 * samples * T, f"--samples {samples} of {T} steps")
        if tokens is not None:
            recording = recording_in(tokens, held_out or 0.0, at_stake, learnt_in(model), of_model=True)
            numbers, windows_NxT = on_recording(recording, ours, at_stake)
        else:
            found = compare({model.stem: ours}, paper_sources(T), at_stake, T, samples, seed)
            numbers, windows_NxT = json.loads(found.to_json()), None
            typer.echo(f"{found.table()}\n")
        numbers["greedy"] = float(adversaries.greedy(ours, at_stake, T).regret)
        typer.echo(f"Regret against the greedy adversary: {numbers['greedy']:+.4f}")
        if against is not None and theirs is not None:
            if windows_NxT is None or not len(windows_NxT):
                windows_NxT = sample(ours if tokens is not None else paper_sources(T)["b"], T, samples, seed)
            distances = {
                "next_token_tv": next_token_tv(ours, theirs, windows_NxT),
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
    rule: Annotated[str, typer.Option(help="gap or rate.")] = "gap",
    problem: Annotated[
        str | None, typer.Option(help="matching (by default), rock_paper_scissors, or a JSON matrix.")
    ] = None,
    payoffs: Annotated[Path | None, typer.Option(help=PAYOFFS)] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Steps; the decoder's context by default.")] = None,
    dtype: Annotated[str, typer.Option(help="float64 or float32, of the appended layers.")] = "float64",
) -> None:
    """Append the layers that are Algorithm 1 to a trained decoder; no training."""
    with refusals():
        from lowregret import transformer  # before torch itself: it says what to install
        from lowregret.construct import build, save
        from lowregret.robust import algorithm_1
        from lowregret.rules import RegretGap, RegretRate

        of_checkpoint = transformer.checkpoints.written
        outputs = of_checkpoint("--out", transformer.checkpoints.to_write(out))
        files.apart(outputs, {**of_checkpoint("the checkpoint", checkpoint), "--payoffs": payoffs})
        files.writable(*outputs.values())
        import torch

        base = transformer.load(checkpoint)
        at_stake = problem_of(problem, payoffs, base.n_states)
        agreed_names(at_stake, learnt_in(checkpoint))
        test = one_of("rule", rule, {"rate": RegretRate, "gap": RegretGap})(horizon or base.context)
        kind = one_of("dtype", dtype, {"float64": torch.float64, "float32": torch.float32})
        model = build(base, algorithm_1(at_stake, test), dtype=kind)
        save(model, out)
        s, built = model.sizes, model.module.about
        trivial = " (no guarantee)" if built["regret_bound"] >= at_stake.span else ""
        typer.echo(
            f"{type(test).__name__} over {test.horizon} steps: regret at most {built['regret_bound']:.4f} a step "
            f"on every sequence{trivial}, TV at most {built['tv_bound']:.3g} from {checkpoint.stem}\n"
            f"{s.layers} layers more: {s.heads} heads, {s.width} wide, {s.hidden} hidden units, largest weight "
            f"{s.largest_weight:.3g}, {s.parameters} weights that are not zero\n"
            f"Written: {out}"
        )
