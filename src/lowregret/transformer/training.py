"""Training: draw a batch on the device, take one compiled step, write down how it went, save now and then.

Everything a step draws depends on the seed and its number alone, so a run that was killed goes on from its last save
and ends with the weights it would have had (bit for bit on a CPU). Under ``torchrun`` every process draws the whole
batch and takes its rows: the losses are those of one process with the same batch.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import inputs
from . import checkpoints, data
from .backends import ORDER, attention
from .decoder import Decoder
from .distributed import Team
from .loss import Scaled, loss_of
from .predictor import Transformer
from .settings import Settings
from .tasks import Laws, Task, described


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
