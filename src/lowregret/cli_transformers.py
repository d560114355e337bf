"""Commands about transformers: ``train``, ``evaluate``, ``reproduce``, ``construct`` (extras ``cli``, ``torch``)."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from .predictors import Predictor
    from .problems import DecisionProblem
    from .rules import ResponseRule
    from .transformer import Size

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
    seed: Annotated[int | None, typer.Option(min=0, help="Of weights, batches and measurements.")] = None,
) -> None:
    """Train BERNOULLI (two seeds), POLYAURN and ROBUST; draw the figure, print the tables beside the paper's.

    A run that was stopped goes on where it was.
    """
    with _refusals():
        from .paper.reproduce import preset_named
        from .paper.reproduce import reproduce as run

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
        run(preset_named(preset).changed(**changes), out or Path("results") / preset, collect, device, command)


def train(
    task: Annotated[str, typer.Argument(help="bernoulli, polyaurn, robust (masked) or distilled.")],
    out: Annotated[Path, typer.Option(help="The checkpoint to write.")],
    base: Annotated[Path | None, typer.Option(help="Checkpoint of the base model (robust, distilled).")] = None,
    source: Annotated[str, typer.Option(help="Of the paper's sources: a b c d sin2 sin5 sin10 sin20.")] = "b",
    problem: Annotated[str, typer.Option(help="matching, rock_paper_scissors, or a JSON matrix.")] = "matching",
    rule: Annotated[str, typer.Option(help="exact, rate or gap.")] = "exact",
    size: Annotated[str, typer.Option(help="quick, paper, or context,width,heads,layers,inner.")] = "quick",
    steps: Annotated[int, typer.Option(min=1)] = 500,
    batch: Annotated[int, typer.Option(min=1, help="Sequences in a step, of all processes together.")] = 32,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    optimiser: Annotated[str, typer.Option(help="decaying, or nanodo (NanoDO's defaults).")] = "decaying",
    soft: Annotated[bool, typer.Option(help="Learn the source's laws rather than its tokens.")] = False,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between saves.")] = 100,
    device: Where = None,
) -> None:
    """Train one transformer; go on where an earlier run stopped. Several GPUs: torchrun -m lowregret train ..."""
    with _refusals():
        from rich.console import Console

        from . import transformer
        from .predictors import PolyaUrn
        from .transformer.progress import shown

        settings = transformer.Settings(
            size=_size(size),
            steps=steps,
            batch=batch,
            seed=seed,
            optimiser=_one_of("optimiser", optimiser, {"decaying": transformer.DECAYING, "nanodo": transformer.NANODO}),
        )
        horizon = settings.size.context
        init: transformer.Transformer | None = None
        work: transformer.Task
        if task == "bernoulli":
            work = transformer.Imitate(_source(source, horizon), soft)
        elif task == "polyaurn":
            work = transformer.Imitate(PolyaUrn(_problem(problem).n_states), soft)
        elif task in ("robust", "distilled"):
            if base is None:
                raise ValueError(f"{task} needs --base, the checkpoint of the model to make robust")
            model, tested = transformer.load(base), _rule(rule, _problem(problem), horizon)
            if task == "robust":
                work = transformer.Masked(_source(source, horizon), model, tested)
            else:
                work, init = transformer.Distil(_source(source, horizon), model, tested), model
        else:
            raise ValueError(f"task must be bernoulli, polyaurn, robust or distilled, got {task!r}")
        console = Console()
        with shown(task, console) as report:
            transformer.train(work, out, settings, init=init, device=device, save_every=save_every, on_report=report)
        console.print(f"Written: {out}", highlight=False)


def evaluate(
    model: Annotated[Path, typer.Argument(help="Checkpoint to measure.")],
    against: Annotated[Path | None, typer.Option(help="Another, to say how far apart they are.")] = None,
    samples: Annotated[int, typer.Option("--samples", "-n", min=2, help="Sequences from each source.")] = 128,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the numbers here too, as JSON.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Regret on the paper's eight sources and against the greedy adversary; distances to another model."""
    with _refusals():
        from . import adversaries, transformer
        from .compare import compare
        from .distances import next_token_tv, sequence_tv
        from .problems import matching
        from .sampling import sample
        from .sources import paper_sources

        if out is not None:  # what cannot be written is refused before the work
            if out.is_dir():
                raise ValueError(f"--out must be a file, and {out} is a folder")
            transformer.checkpoints.in_folder(out.parent).mkdir(parents=True, exist_ok=True)
        ours = transformer.load(model, device)
        coin, T = matching(), ours.context
        found = compare({model.stem: ours}, paper_sources(T), coin, T, samples, seed)
        numbers: dict[str, Any] = json.loads(found.to_json())
        numbers["greedy"] = float(adversaries.greedy(ours, coin, T).regret)
        typer.echo(f"{found.table()}\n\nRegret against the greedy adversary: {numbers['greedy']:+.4f}")
        if against is not None:
            theirs = transformer.load(against, device)
            tokens = sample(paper_sources(T)["b"], T, samples, seed)
            distances = {
                "next_token_tv": next_token_tv(ours, theirs, tokens),
                "sequence_tv": sequence_tv(ours, theirs, T, samples, seed),
            }
            for name, estimate in distances.items():
                typer.echo(f"{name} to {against.stem}: {estimate}")
            numbers |= {name: estimate._asdict() for name, estimate in distances.items()}
        if out is not None:
            out.write_text(json.dumps(numbers) + "\n")


def construct(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of the decoder to make robust.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    rule: Annotated[str, typer.Option(help="gap, rate or exact.")] = "gap",
    problem: Annotated[str, typer.Option(help="matching, rock_paper_scissors, or a JSON matrix.")] = "matching",
    horizon: Annotated[int | None, typer.Option(min=1, help="Steps; the decoder's context by default.")] = None,
    dtype: Annotated[str, typer.Option(help="float64 or float32, of the appended layers.")] = "float64",
    onnx: Annotated[Path | None, typer.Option(help="Write it as ONNX too, for sequences (extra: onnx).")] = None,
    onnx_stream: Annotated[Path | None, typer.Option(help="As ONNX that takes a token at a time.")] = None,
) -> None:
    """Append the layers that are Algorithm 1 to a trained decoder; no training."""
    with _refusals():
        import torch

        from . import transformer
        from .construct import build, export_onnx, save

        base = transformer.load(checkpoint)
        chosen = _rule(rule, _problem(problem), base.context if horizon is None else horizon)
        kind = _one_of("dtype", dtype, {"float64": torch.float64, "float32": torch.float32})
        model = build(base, chosen, dtype=kind)
        save(model, out)
        for path, streaming in ((onnx, False), (onnx_stream, True)):
            if path is not None:
                export_onnx(model, path, streaming)
        s = model.sizes
        typer.echo(
            f"{s.layers} layers more: {s.heads} heads, {s.width} wide, {s.hidden} hidden units, largest weight "
            f"{s.largest_weight:.3g}, {s.parameters} weights that are not zero\nWritten: {out}"
        )


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What the library refuses is said in a sentence, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "safetensors", "onnx", "onnxscript"):
            raise
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _one_of(name: str, value: str, choices: dict[str, Any]) -> Any:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return choices[value]


def _size(text: str) -> "Size":
    from .transformer.decoder import size_of

    numbers = text.split(",")
    if len(numbers) > 1 and not all(n.strip().isdecimal() for n in numbers):
        raise ValueError(f"--size must be a name or whole numbers context,width,heads,layers,inner, got {text!r}")
    return size_of(tuple(map(int, numbers)) if len(numbers) > 1 else text)


def _source(name: str, horizon: int) -> "Predictor":
    from .sources import paper_sources

    return _one_of("source", name, paper_sources(horizon))


def _problem(text: str) -> "DecisionProblem":
    from .problems import DecisionProblem, matching, rock_paper_scissors

    named = {"matching": matching, "rock_paper_scissors": rock_paper_scissors}
    if text in named:
        return named[text]()
    try:
        return DecisionProblem(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"--problem must be {', '.join(named)} or a JSON matrix of utilities, got {text!r}") from error


def _rule(name: str, problem: "DecisionProblem", horizon: int) -> "ResponseRule":
    from .rules import ExactTest, RegretGap, RegretRate

    kind = _one_of("rule", name, {"exact": ExactTest, "rate": RegretRate, "gap": RegretGap})
    return kind(problem, horizon, delta=2 / horizon) if kind is ExactTest else kind(problem, horizon)
