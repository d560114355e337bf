"""Training: draw a batch on the device, take one compiled step, write down how it went, save now and then.

Everything a step draws depends on the seed and its number alone, so a run that was killed goes on from its last save
and ends with the weights it would have had (bit for bit on a CPU). Under ``torchrun`` every process draws the whole
batch and takes its rows: the losses are those of one process with the same batch.
"""

import contextlib
import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import files, inputs
from ..predictors import within_window
from . import checkpoints, data
from . import run_folder as state
from .backends import ORDER, Replay, Team, attention, device_named, machine, memory, recording_stream
from .decoder import Decoder, n_weights
from .predictor import Transformer
from .recording import Recording
from .run_folder import Progress, described
from .settings import TrainingSettings
from .tasks import Laws, Scaled, Task, loss_of, repeats

# What a training refuses before it begins: sizes beyond all memory, and tasks that do not fit.


def refuse_absurd(n_states: int, settings: TrainingSettings, device: torch.device, processes: int = 1) -> None:
    """What must be held at the least, against all the memory there is: a refusal rather than a kill after minutes."""
    size, batch, there = settings.size, settings.batch, memory(device)
    weights = n_weights(n_states, size)
    files.in_memory(16 * weights, f"training {weights:.3g} weights with gradients and moments", there)
    stream = 4 * batch * size.context * size.width * size.layers / processes
    files.in_memory(stream, f"a batch of {batch} sequences of {size.context} tokens, {size.width} wide,", there)


def refuse_misfit(task: Task, settings: TrainingSettings, init: Transformer | None) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"task must be an Imitate, a Masked or a Distil, got {task!r}")
    if not isinstance(settings, TrainingSettings):
        raise ValueError(f"settings must be a TrainingSettings, got {settings!r}")
    if init is not None and not isinstance(init, Transformer):
        raise ValueError(f"init must be a Transformer, got {type(init).__name__}")
    context, source, robust = settings.size.context, getattr(task, "source", None), getattr(task, "robust", None)
    if robust is not None and robust.horizon < context:
        raise ValueError(f"robust is for {robust.horizon} steps, the decoder's context is {context}")
    if isinstance(source, Recording) and source.longest < context:
        raise ValueError(
            f"size.context must be at most the longest sequence to learn from, {source.longest} tokens, got {context}: "
            f"no step after that would ever be learnt (a size is context,width,heads,layers,inner, "
            f"so {','.join(map(str, settings.size._replace(context=source.longest)))})"
        )
    within_window(source, context, "source")


def train(
    task: Task,
    path: str | Path,
    settings: TrainingSettings | None = None,
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
    ...     small = TrainingSettings(size=(8, 16, 2, 1, 32), steps=2, batch=4)
    ...     train(Imitate(PolyaUrn(2)), f"{folder}/urn.safetensors", small).context
    8
    """
    save_every, report_every = inputs.whole(save_every, "save_every"), inputs.whole(report_every, "report_every")
    with contextlib.ExitStack() as alone:
        run = Training(
            task, path, TrainingSettings() if settings is None else settings, init, device, state, compiled, alone
        )
        if run.finished is not None:
            return run.finished
        return run.to_the_end(save_every, report_every, on_report)


def goes_on(path: Path) -> str:
    """From where ``train`` would go on to ``path``, in words."""
    try:
        step = checkpoints.read(path.parent / "training" / path.stem / "state.safetensors").about["step"]
    except (KeyError, ValueError):
        return "from the beginning: nothing was saved yet"
    return f"from step {step}, the last that was saved"


_COUNTED: dict[str, Callable[[Any, str], Any]] = {
    "step": inputs.whole,
    "seconds": inputs.not_negative,
    "since": partial(inputs.whole, least=0),
    "reported": inputs.not_negative,
}


class Training:
    """One training run: the decoder, its optimiser, and where they are kept."""

    def __init__(
        self,
        task: Task,
        path: str | Path,
        settings: TrainingSettings,
        init: Transformer | None = None,
        device: str | None = None,
        folder: str | Path | None = None,
        compiled: bool | None = None,
        alone: contextlib.ExitStack | None = None,
    ) -> None:
        refuse_misfit(task, settings, init)
        self.task, self.path, self.settings = task, checkpoints.to_write(path), settings
        self.team = Team.here()
        self.device = device_named(device or self.team.device)
        self.folder = files.a_path(folder) if folder else self.path.parent / "training" / self.path.stem
        files.in_folder(self.folder)
        self.about = {"task": described(task), "settings": asdict(settings), "init": described(init)}
        self.about = json.loads(json.dumps(self.about))  # as it will be read back
        self.types = settings.types(self.device)
        compute, stream = (str(kind).removeprefix("torch.") for kind in self.types)
        self.made = {**machine(self.device), "compute": compute, "stream": stream}
        self.finished = self._finished()
        if self.finished is None and alone is not None:
            if self.team.first:
                self._lock(alone)
            self.finished = self._finished()  # by whoever held the lock until now
        if self.finished is not None:
            return
        refuse_absurd(task.n_states, settings, self.device, self.team.size)
        decoder = Decoder(task.n_states, settings.size, settings.seed)
        if init is not None:
            source = checkpoints.Checkpoint(dict(init.decoder.state_dict()), checkpoints.described(init.decoder))
            checkpoints.fill(decoder, source, "init")
        self.decoder = decoder.to(self.device).train()
        self.optimiser = settings.optimiser.build(self.decoder.parameters())
        self.step, self.seconds = 0, 0.0
        self.total, self.since, self.reported = torch.zeros((), device=self.device), 0, 0.0  # since the last report
        self._resume()
        self.compiled = self.device.type == "cuda" if compiled is None else compiled
        self.shared, self.stakes = self.team.shared(self.decoder), Scaled.of(task.stakes, self.device)
        self.loss = torch.compile(loss_of, dynamic=False) if self.compiled else loss_of
        self.base_laws = self._base_laws()
        self.attention_order = ORDER
        self.random = torch.Generator(self.device)
        replays = self.compiled and self.device.type == "cuda" and self.team.size == 1 and repeats(task)
        self.stream = torch.cuda.Stream(self.device) if replays else None  # where a step is recorded
        self.replay: Replay | None = None
        self.reads: list[Any] = []  # where the replay finds what the task remembers
        self.warm_steps = 3  # until all is compiled

    def to_the_end(
        self, save_every: int, report_every: int, on_report: Callable[[Progress], None] | None
    ) -> Transformer:
        steps, batch = self.settings.steps, self.settings.batch
        begun, first, warm = time.perf_counter() - self.seconds, self.step + 1, 0.0
        while self.step < steps:
            self.total += self.advance()
            self.since += 1
            if self.step == first:
                float(self.total)  # waits for the device: what comes from here on is compiled
                warm = time.perf_counter()
            reports = self.step % report_every == 0 or self.step == steps
            saves = self.step % save_every == 0 or self.step == steps
            if not reports and not saves:
                continue
            loss = float(self.total) / self.since  # waits for the device
            self.seconds = time.perf_counter() - begun
            self._refuse_lost(loss)
            if reports:
                speed = self.since * batch * self.settings.size.context / max(self.seconds - self.reported, 1e-9)
                rate = self.settings.optimiser.rate(self.step - 1, steps)
                self.total, self.since, self.reported = torch.zeros_like(self.total), 0, self.seconds
                pace = (time.perf_counter() - warm) / (self.step - first) if self.step > first else None
                self._report(Progress(self.step, steps, loss, rate, speed, self.seconds, pace), on_report)
            if saves and self.step < steps:
                self.save()
        self.decoder.eval()
        if self.team.first:
            result = {"seconds": self.seconds, "metrics": state.lines(self.folder), "finished": True}
            checkpoints.save(self.decoder, self.path, {**self.about, "made": self.made, **result})
            self._state_file.unlink(missing_ok=True)
            self._state_file.with_suffix(".json").unlink(missing_ok=True)
        self.team.wait()
        return Transformer(self.decoder)

    def advance(self) -> Tensor:
        """One step of the optimiser; the loss comes back without waiting for the device."""
        self.task.before(self.step, self.decoder, self.settings.seed)
        data.reseeded(self.random, self.settings.seed, self.step, 0)
        rate = self.settings.optimiser.rate(self.step, self.settings.steps)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        loss = self._take() if self.stream is None else self._replayed(self.stream)
        self.step += 1
        return loss

    def _replayed(self, stream: torch.cuda.Stream) -> Tensor:
        """A step on a GPU: the first ones of a run as they come, then recorded and replayed.

        What the task remembers may move between steps; then the step is recorded anew.
        """
        reads = [(part.data_ptr(), part.shape) for part in self.task.state().values()]
        if self.replay is None and self.warm_steps > 0:
            self.warm_steps -= 1
            with recording_stream(stream):
                return self._take()
        if self.replay is None or reads != self.reads:
            self.replay = None
            torch.cuda.empty_cache()  # of the replay before, and of steps that were taken one by one
            self.replay, self.reads = Replay(self._take, stream, self.random), reads
        return self.replay()

    def _take(self) -> Tensor:
        """The step itself, with the seed and the rate that are set."""
        n, horizon = self.settings.batch, self.settings.size.context
        with attention(self.attention_order):
            batch = self.task.batch(n, self.team.rows(n), horizon, self.random, self.base_laws)
            mine = self.loss(self.shared, batch, self.types, self.stakes)
            everyone = self.team.sum(mine.detach().clone())
            # Gradients are averaged over processes, the loss is a mean over all their steps that count.
            (mine[0] * (self.team.size / everyone[1].clamp(min=1.0))).backward()
        if self.settings.optimiser.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), self.settings.optimiser.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return everyone[0] / everyone[1].clamp(min=1.0)

    def save(self) -> None:
        """Everything needed to go on."""
        if not self.team.first:
            return
        tensors = state.packed(self.decoder, self.optimiser, self.task) | {"report.total": self.total}
        counted = {name: getattr(self, name) for name in _COUNTED}
        about = {**self.about, **checkpoints.described(self.decoder), "made": self.made, **counted}
        about["holds"] = sorted(tensors)  # so that one that is gone is missed
        checkpoints.write(self._state_file, tensors, about)

    def _lock(self, alone: contextlib.ExitStack) -> None:
        """Neither the model nor the folder may be another run's at the same time."""
        path = self.path.resolve()
        for lock, thing in ((path.with_name(f".{path.name}.lock"), self.path), (self.folder / ".lock", self.folder)):
            alone.enter_context(files.locked(lock, f"{thing} is being written by a training"))

    @property
    def _state_file(self) -> Path:
        return self.folder / "state.safetensors"

    def _finished(self) -> Transformer | None:
        """The model, if an earlier run came to its end; one made otherwise is refused."""
        found = self.team.told(checkpoints.read(self.path) if self.team.first and self.path.exists() else None)
        if found is None:
            return None
        state.refuse_other(found, self.about, self.path)
        return Transformer(checkpoints.decoder_of(found, self.path).to(self.device).eval())

    def _resume(self) -> None:
        there = self.team.first and self._state_file.exists()
        found = self.team.told(checkpoints.read(self._state_file) if there else None)
        if found is None:
            if self.team.first:
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            self.task.restore({})  # it may have served another run
            return
        state.refuse_other(found, self.about, self._state_file)
        for name in ("compute", "stream"):
            then = found.about["made"].get(name) if isinstance(found.about.get("made"), dict) else None
            if then != self.made[name]:
                raise ValueError(f"{self._state_file} was computed in {then} ({name}), here it is {self.made[name]}")
        try:
            for name, number in _COUNTED.items():
                setattr(self, name, number(found.about[name], name))
            if not 0 < self.step < self.settings.steps:
                raise ValueError(f"{self._state_file} is damaged: it is of step {self.step} of {self.settings.steps}")
            self.total = state.number(found.tensors["report.total"], "report.total").to(self.device)
            state.unpack(found, self._state_file, self.decoder, self.optimiser, self.task)
            if found.about.get("holds", sorted(found.tensors)) != sorted(found.tensors):
                raise ValueError(f"{self._state_file} is damaged: it does not hold what it says")
        except ValueError as error:
            if str(self._state_file) in str(error):
                raise
            raise ValueError(f"{self._state_file} is damaged: {error}; remove it to begin anew") from error
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self._state_file} is damaged: {error!r}; remove it to begin anew") from error
        if self.team.first:  # lines of steps that will be taken again
            kept = [json.dumps(line) + "\n" for line in state.lines(self.folder) if line["step"] <= self.step]
            files.replace(self.folder / "metrics.jsonl", "".join(kept).encode())

    def _refuse_lost(self, loss: float) -> None:
        """Weights that are not finite are not kept: the last save is what there was before."""
        weights = torch.stack([p.isfinite().all() for p in self.decoder.parameters()])
        if not math.isfinite(loss) or not bool(weights.all()):
            raise ValueError(
                f"training was lost by step {self.step}: loss {loss}, or weights that are not finite; "
                f"what was saved last is in {self.folder}. Try a lower learning rate"
            )

    def _report(self, progress: Progress, on_report: Callable[[Progress], None] | None) -> None:
        if not self.team.first:
            return
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(progress._asdict()) + "\n")
        if on_report is not None:
            on_report(progress)

    def _base_laws(self) -> Laws | None:
        base = getattr(getattr(self.task, "robust", None), "base", None)
        if not isinstance(base, Transformer):
            return None
        here = base if base.device == self.device else Transformer(copy.deepcopy(base.decoder).to(self.device))
        laws = partial(here.laws_on_device, compute=self.types[0], stream=self.types[1])
        return torch.compile(laws, dynamic=False) if self.compiled else laws
