"""Training: draw a batch on the device, take one compiled step, write down how it went, save now and then.

Everything a step draws depends on the seed and its number alone, so a run that was killed goes on from its last save
and ends with the weights it would have had (bit for bit on a CPU). Under ``torchrun`` every process draws the whole
batch and takes its rows: the losses are those of one process with the same batch.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import inputs
from . import checkpoints, data
from .backends import ORDER, attention
from .decoder import Decoder, size_of
from .distributed import Team
from .optimiser import NANODO, Optimiser
from .predictor import Transformer
from .tasks import Batch, Laws, Stakes, Task, described


class Progress(NamedTuple):
    """How a run is going: what its metrics file has a line of, now and then."""

    step: int
    steps: int
    loss: float  # the mean since the last report
    rate: float
    tokens_per_second: float
    seconds: float  # of training so far, in all runs

    @property
    def seconds_left(self) -> float:
        return self.seconds * (self.steps - self.step) / max(1, self.step)


@dataclass(frozen=True)
class Settings:
    """What decides, with the task, which weights come out.

    Parameters
    ----------
    batch
        Sequences in a step, of all processes together.
    compute, stream
        The types of matrix products and of the stream between blocks; None: bfloat16 on a GPU, float32 on a CPU, and
        the stream as ``compute``.
    """

    size: Any = "paper"
    steps: int = 500
    batch: int = 128
    seed: int = 0
    optimiser: Optimiser = field(default=NANODO)
    compute: str | None = None
    stream: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of(self.size))
        inputs.whole(self.steps, "steps")
        inputs.whole(self.batch, "batch")
        inputs.whole(self.seed, "seed", least=0)
        for name in ("compute", "stream"):
            if getattr(self, name) not in (None, "float32", "bfloat16"):
                raise ValueError(f"{name} must be 'float32', 'bfloat16' or None, got {getattr(self, name)!r}")

    def types(self, device: torch.device) -> tuple[torch.dtype, torch.dtype]:
        compute = self.compute or ("bfloat16" if device.type == "cuda" else "float32")
        return getattr(torch, compute), getattr(torch, self.stream or compute)


def loss_of(decoder: Any, batch: Batch, types: tuple[torch.dtype, torch.dtype], stakes: "Scaled | None") -> Tensor:
    """The loss summed over the steps that count, and how many they are, ``[2]``.

    For tokens it is -ln of their probability. For laws it is the divergence of the decoder's law from them, plus that
    of its response from theirs, weighted: near a tip the response turns a small error of a law into a large one.
    """
    log_law_BxTxS = F.log_softmax(decoder(batch.tokens_BxT, *types), dim=-1)
    if batch.targets_BxTxS is None:
        loss_BxT = -log_law_BxTxS.gather(-1, batch.tokens_BxT[..., None])[..., 0]
    else:
        loss_BxT = F.kl_div(log_law_BxTxS, batch.targets_BxTxS, reduction="none").sum(-1)
        if stakes is not None:
            wanted_BxTxA = torch.softmax(batch.targets_BxTxS @ stakes.utility_SxA, dim=-1)
            played_BxTxA = torch.log_softmax(log_law_BxTxS.exp() @ stakes.utility_SxA, dim=-1)
            loss_BxT = loss_BxT + stakes.weight * F.kl_div(played_BxTxA, wanted_BxTxA, reduction="none").sum(-1)
    if batch.weights_BxT is None:
        return torch.stack([loss_BxT.sum(), torch.ones_like(loss_BxT).sum()])
    return torch.stack([(loss_BxT * batch.weights_BxT).sum(), batch.weights_BxT.sum()])


class Scaled(NamedTuple):
    """``Stakes`` on the device: utilities over the temperature."""

    utility_SxA: Tensor
    weight: float

    @classmethod
    def of(cls, stakes: Stakes | None, device: torch.device) -> "Scaled | None":
        if stakes is None:
            return None
        scaled = stakes.problem.utility.T / stakes.temperature
        return cls(torch.tensor(scaled, dtype=torch.float32, device=device), stakes.weight)


def train(
    task: Task,
    path: str | Path,
    settings: Settings | None = None,
    *,
    init: Transformer | None = None,
    device: str | None = None,
    state: str | Path | None = None,
    save_every: int = 100,
    report_every: int = 20,
    compiled: bool | None = None,
    on_report: Callable[[Progress], None] | None = None,
) -> Transformer:
    """Train a decoder and write it to ``path``; go on where an earlier run stopped, return at once if one finished.

    Parameters
    ----------
    task
        ``Imitate``, ``Masked`` or ``Distil``.
    init
        A model whose weights to start from; by default random ones, from the seed.
    state
        Folder for the run's state and its metrics (``metrics.jsonl``); ``training/<name>`` beside ``path`` by default.
    compiled
        Whether to compile the step; by default on a GPU.
    on_report
        Called every ``report_every`` steps.

    >>> import tempfile
    >>> from lowregret import PolyaUrn
    >>> from lowregret.transformer import Imitate
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     small = Settings(size=(8, 16, 2, 1, 32), steps=2, batch=4)
    ...     train(Imitate(PolyaUrn(2)), f"{folder}/urn.safetensors", small).context
    8
    """
    run = Run(task, Path(path), settings or Settings(), init, device, state, compiled)
    if run.finished is not None:
        return run.finished
    return run.to_the_end(inputs.whole(save_every, "save_every"), inputs.whole(report_every, "report_every"), on_report)


class Run:
    """One training run: the decoder, its optimiser, and where they are kept."""

    def __init__(
        self,
        task: Task,
        path: Path,
        settings: Settings,
        init: Transformer | None = None,
        device: str | None = None,
        state: str | Path | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.task, self.path, self.settings = task, path, settings
        self.team = Team.here()
        self.device = torch.device(device or self.team.device)
        self.folder = Path(state) if state else path.parent / "training" / path.stem
        self.about = {"task": described(task), "settings": asdict(settings), "init": described(init)}
        self.about = json.loads(json.dumps(self.about))  # as it will be read back
        self.finished = self._finished()
        if self.finished is not None:
            return
        _refuse_misfit(task, settings)
        decoder = Decoder(task.n_states, settings.size, settings.seed)
        if init is not None:
            source = checkpoints.Checkpoint(dict(init.decoder.state_dict()), checkpoints.described(init.decoder))
            checkpoints.fill(decoder, source, "init")
        self.decoder = decoder.to(self.device).train()
        self.optimiser = settings.optimiser.build(self.decoder.parameters())
        self.step, self.seconds = 0, 0.0
        self._resume()
        self.types = settings.types(self.device)
        self.compiled = self.device.type == "cuda" if compiled is None else compiled
        self.shared, self.stakes = self.team.shared(self.decoder), Scaled.of(task.stakes, self.device)
        self.loss: Callable[..., Tensor] = torch.compile(loss_of, dynamic=False) if self.compiled else loss_of
        self.base_laws = self._base_laws()
        self.attention_order = ORDER

    def to_the_end(
        self, save_every: int, report_every: int, on_report: Callable[[Progress], None] | None
    ) -> Transformer:
        steps, batch = self.settings.steps, self.settings.batch
        told, since, total = time.perf_counter(), 0, torch.zeros((), device=self.device)
        while self.step < steps:
            total += self.advance()
            since += 1
            if self.step % report_every == 0 or self.step == steps:
                loss = float(total) / since  # waits for the device
                now = time.perf_counter()
                self.seconds += now - told
                speed = since * batch * self.settings.size.context / max(now - told, 1e-9)
                rate = self.settings.optimiser.rate(self.step - 1, steps)
                self._report(Progress(self.step, steps, loss, rate, speed, self.seconds), on_report)
                told, since, total = time.perf_counter(), 0, torch.zeros((), device=self.device)
            if self.step % save_every == 0 and self.step < steps:
                self.save()
        self.decoder.eval()
        if self.team.first:
            about = {**self.about, "seconds": self.seconds, "metrics": self._metrics(), "finished": True}
            checkpoints.save(self.decoder, self.path, about)
            self._state_file.unlink(missing_ok=True)
            self._state_file.with_suffix(".json").unlink(missing_ok=True)
        self.team.wait()
        return Transformer(self.decoder)

    def advance(self) -> Tensor:
        """One step of the optimiser; the loss comes back without waiting for the device."""
        self.task.before(self.step, self.decoder, self.settings.seed)
        random = data.generator(self.device, self.settings.seed, self.step, 0)
        n, horizon = self.settings.batch, self.settings.size.context
        batch = self.task.batch(n, self.team.rows(n), horizon, random, self.base_laws)
        with attention(self.attention_order):
            mine = self.loss(self.shared, batch, self.types, self.stakes)
            everyone = self.team.sum(mine.detach().clone())
            # Gradients are averaged over processes, the loss is a mean over all their steps that count.
            (mine[0] * (self.team.size / everyone[1].clamp(min=1.0))).backward()
        if self.settings.optimiser.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), self.settings.optimiser.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.optimiser.rate(self.step, self.settings.steps)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return everyone[0] / everyone[1].clamp(min=1.0)

    def save(self) -> None:
        """Everything needed to go on."""
        if not self.team.first:
            return
        names = {id(p): name for name, p in self.decoder.named_parameters()}
        tensors = {f"model.{name}": value for name, value in self.decoder.state_dict().items()}
        for parameter, kept in self.optimiser.state.items():
            tensors |= {f"optimiser.{names[id(parameter)]}.{key}": value for key, value in kept.items()}
        tensors |= {f"task.{name}": value for name, value in self.task.state().items()}
        about = {**self.about, **checkpoints.described(self.decoder), "step": self.step, "seconds": self.seconds}
        checkpoints.write(self._state_file, tensors, about)

    @property
    def _state_file(self) -> Path:
        return self.folder / "state.safetensors"

    def _finished(self) -> Transformer | None:
        """The model, if an earlier run came to its end; one made otherwise is refused."""
        found = self.team.told(checkpoints.read(self.path) if self.team.first and self.path.exists() else None)
        if found is None:
            return None
        self._refuse_other(found, self.path)
        decoder = Decoder(*checkpoints.shape_of(found, self.path))
        checkpoints.fill(decoder, found, self.path)
        return Transformer(decoder.to(self.device).eval())

    def _resume(self) -> None:
        there = self.team.first and self._state_file.exists()
        found = self.team.told(checkpoints.read(self._state_file) if there else None)
        if found is None:
            if self.team.first:
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            return
        self._refuse_other(found, self._state_file)
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "task": {}}
        for name, value in found.tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = value
        checkpoints.fill(self.decoder, found._replace(tensors=parts["model"]), self._state_file)
        for name, parameter in self.decoder.named_parameters():
            state = {}
            for key in ("step", "exp_avg", "exp_avg_sq"):
                value = parts["optimiser"][f"{name}.{key}"]
                state[key] = value if key == "step" and self.device.type == "cpu" else value.to(self.device)
            self.optimiser.state[parameter] = state
        self.task.restore({name: value.to(self.device) for name, value in parts["task"].items()})
        self.step, self.seconds = found.about["step"], found.about["seconds"]
        if self.team.first:  # lines of steps that will be taken again
            kept = [json.dumps(line) + "\n" for line in self._metrics() if line["step"] <= self.step]
            checkpoints.replace(self.folder / "metrics.jsonl", "".join(kept).encode())

    def _refuse_other(self, found: checkpoints.Checkpoint, path: Path) -> None:
        for part, wanted in self.about.items():
            if found.about.get(part) != wanted:
                raise ValueError(
                    f"{path} is from a run with another {part}: {_difference(found.about.get(part), wanted)}; "
                    "remove it, or train to another path"
                )

    def _report(self, progress: Progress, on_report: Callable[[Progress], None] | None) -> None:
        if not self.team.first:
            return
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(progress._asdict()) + "\n")
        if on_report is not None:
            on_report(progress)

    def _metrics(self) -> list[dict[str, Any]]:
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []  # the last may have been cut short
        return [json.loads(line) for line in lines]

    def _base_laws(self) -> Laws | None:
        base = getattr(self.task, "base", None)
        if not isinstance(base, Transformer):
            return None
        base.decoder.to(self.device)
        laws = partial(base.laws, compute=self.types[0])
        return torch.compile(laws, dynamic=False) if self.compiled else laws


def _refuse_misfit(task: Task, settings: Settings) -> None:
    context, rule = settings.size.context, getattr(task, "rule", None)
    if rule is not None and rule.horizon < context:
        raise ValueError(f"rule is for {rule.horizon} steps, the decoder's context is {context}")
    lasts = getattr(getattr(task, "base", None), "context", context)
    if lasts < context:
        raise ValueError(f"base has a context of {lasts} tokens, the decoder's is {context}")


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in {**found, **wanted}:
            if found.get(key) != wanted.get(key):
                return f"{key}: {_difference(found.get(key), wanted.get(key))}"
    return f"{found!r} there, {wanted!r} here"
