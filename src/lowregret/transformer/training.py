"""Training: draw a batch on the device, take one step, save now and then.

Everything a step draws depends on the seed and its number alone, so a run that was killed continues from its last save
and ends with the weights it would have had (bit for bit on a CPU). Under ``torchrun`` every process draws the whole
batch and takes its rows: the losses are those of one process with the same batch.
"""

import atexit
import copy
import json
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..engine import Setting
from ..predictors import within_window
from ..problems import DecisionProblem
from . import checkpoints, data
from .backends import Replay, attention, machine, recording_stream
from .decoder import Decoder
from .predictor import Transformer
from .recording import Recording
from .settings import TrainingSettings
from .tasks import Forecast, Task, loss_of

WARM_STEPS = 3  # before a step is recorded: by then all is compiled


class Progress(NamedTuple):
    """How a run is going."""

    step: int
    steps: int
    loss: float  # the mean since the last report
    rate: float
    tokens_per_second: float  # since the last report, whatever else was done meanwhile: compiling, an adversary's play
    seconds: float  # of training so far, in all runs
    seconds_left: float  # at the speed since the last report

    def __str__(self) -> str:
        done, speed = f"step {self.step}/{self.steps}  loss {self.loss:.3g}", f"{self.tokens_per_second:,.0f} tokens/s"
        return f"{done}  {speed}  {self.seconds:.0f} s, {self.seconds_left:.0f} s left"


def train(
    task: Task,
    path: str | Path,
    settings: TrainingSettings | None = None,
    *,
    init: Transformer | None = None,
    device: str | None = None,
    save_every: int = 100,
    report_every: int = 20,
    compiled: bool | None = None,
    on_report: Callable[[Progress], None] | None = None,
) -> Transformer:
    """Train a decoder and write it to ``path``; continue where an earlier run stopped, return at once if one finished.

    While it runs, ``NAME.state.safetensors`` beside the path has all that is needed to continue.

    Parameters
    ----------
    task
        ``Imitate``, ``Masked`` or ``Distil``.
    init
        A model whose weights to start from; by default random ones, from the seed.
    compiled
        Whether to compile the step; by default on a GPU.
    on_report
        Called every ``report_every`` steps; ``print`` shows a line each time.

    >>> import tempfile
    >>> from lowregret import PolyaUrn
    >>> from lowregret.transformer import Imitate
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     small = TrainingSettings(size=(8, 16, 2, 1, 32), steps=2, batch=4)
    ...     train(Imitate(PolyaUrn(2)), f"{folder}/urn.safetensors", small).context
    8
    """
    run = Training(task, path, settings or TrainingSettings(), init, device, compiled)
    if run.finished is not None:
        return run.finished
    steps, begun = run.settings.steps, time.perf_counter() - run.seconds
    while run.step < steps:
        run.total += run.advance()
        reports = run.step % report_every == 0 or run.step == steps
        saves = run.step % save_every == 0 and run.step < steps
        if reports or saves:
            run.refuse_lost()  # waits for the device
            run.seconds = time.perf_counter() - begun
        if reports:
            progress = run.report()
            if on_report is not None and run.rank == 0:
                on_report(progress)
        if saves:
            run.save()
    return run.finish()


class Training:
    """One training run: the decoder, its optimiser, and where they are kept."""

    def __init__(
        self,
        task: Task,
        path: str | Path,
        settings: TrainingSettings,
        init: Transformer | None = None,
        device: str | None = None,
        compiled: bool | None = None,
    ) -> None:
        refuse_misfit(task, settings, init)
        self.rank, self.n_processes, here = processes()
        if settings.batch < self.n_processes:
            raise ValueError(f"batch must be at least the number of processes, {self.n_processes}")
        self.task, self.settings, self.path = task, settings, checkpoints.to_write(path)
        self.state_path = self.path.with_suffix(".state.safetensors")
        self.device = torch.device(device or here)
        self.types = settings.types(self.device)
        self.about = {"task": described(task), "settings": asdict(settings), "init": described(init)}
        self.about = json.loads(json.dumps(self.about))  # as it will be read back
        self.finished: Transformer | None = None
        if self.path.exists():  # an earlier run came to its end
            found = checkpoints.read(self.path)
            refuse_other(found.about, self.about, self.path)
            self.finished = Transformer(checkpoints.decoder_of(found).to(self.device).eval())
            return
        decoder = Decoder(task.n_states, settings.size, settings.seed)
        if init is not None:
            decoder.load_state_dict(init.decoder.state_dict())
        self.decoder = decoder.to(self.device).train()
        self.optimiser = settings.optimiser.build(self.decoder.parameters())
        self.step, self.seconds, self.metrics = 0, 0.0, list[dict[str, Any]]()
        self.total = torch.zeros((), device=self.device)  # of the losses since the last report
        self._resume()
        on_gpu, self.random = self.device.type == "cuda", torch.Generator(self.device)
        self.compiled = on_gpu if compiled is None else compiled
        self.responses, self.base = task.responses(self.device), self._base()
        self.loss = torch.compile(loss_of, dynamic=False) if self.compiled else loss_of
        one = self.n_processes == 1
        self.module = self.decoder if one else nn.parallel.DistributedDataParallel(self.decoder)
        self.replay: Replay | None = None
        self.warm_steps = WARM_STEPS
        replays = self.compiled and on_gpu and one and task.replayable
        self.stream = torch.cuda.Stream(self.device) if replays else None  # where a step is recorded

    def advance(self) -> Tensor:
        """One step of the optimiser; the loss comes back without waiting for the device."""
        self.task.before(self.step, self.decoder, self.settings)
        data.reseeded(self.random, self.settings.seed, self.step, 0)
        rate = self.settings.optimiser.rate(self.step, self.settings.steps)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self.step += 1
        if self.stream is None:
            return self._take()
        if self.warm_steps:
            self.warm_steps -= 1
            with recording_stream(self.stream):
                return self._take()
        if self.replay is None:
            torch.cuda.empty_cache()  # of steps that were taken one by one
            self.replay = Replay(self._take, self.stream, self.random)
        return self.replay()

    def _take(self) -> Tensor:
        """The step itself, with the seed and the rate that are set."""
        n, horizon, rows = self.settings.batch, self.settings.size.context, slice(self.rank, None, self.n_processes)
        with attention():
            batch = self.task.batch(n, rows, horizon, self.random, self.base)
            mine = self.loss(self.module, batch, self.types, self.responses)
            everyone = mine.detach().clone()
            if self.n_processes > 1:
                dist.all_reduce(everyone)
            # Gradients are averaged over processes, the loss is a mean over all their steps that count.
            (mine[0] * (self.n_processes / everyone[1].clamp(min=1.0))).backward()
        if self.settings.optimiser.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), self.settings.optimiser.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return everyone[0] / everyone[1].clamp(min=1.0)

    def report(self) -> Progress:
        """How it went since the last report."""
        last = self.metrics[-1] if self.metrics else {"step": 0, "seconds": 0.0}
        taken, took = self.step - last["step"], max(self.seconds - last["seconds"], 1e-9)
        steps, left = self.settings.steps, (self.settings.steps - self.step) * took / taken
        loss, rate = float(self.total) / taken, self.settings.optimiser.rate(self.step - 1, steps)
        speed = taken * self.settings.batch * self.settings.size.context / took
        progress = Progress(self.step, steps, loss, rate, speed, self.seconds, left)
        self.metrics.append(progress._asdict())
        self.total = torch.zeros_like(self.total)
        return progress

    def refuse_lost(self) -> None:
        """Weights that are not finite are not kept: the last save is what there was before."""
        weights = torch.stack([p.isfinite().all() for p in self.decoder.parameters()])
        if not math.isfinite(float(self.total)) or not bool(weights.all()):
            raise ValueError(
                f"training was lost by step {self.step}: the loss or the weights are not finite; what was saved last "
                f"is in {self.state_path}. Try a lower learning rate"
            )

    def save(self) -> None:
        """All that is needed to continue."""
        if self.rank:
            return
        tensors = {"total": self.total} | {f"model.{k}": v for k, v in self.decoder.state_dict().items()}
        for name, parameter in self.decoder.named_parameters():
            kept = self.optimiser.state[parameter]
            tensors |= {f"optimiser.{name}.{key}": value for key, value in kept.items()}
        tensors |= {f"task.{name}": value for name, value in self.task.state().items()}
        went = {"step": self.step, "seconds": self.seconds, "metrics": self.metrics}
        checkpoints.write(self.state_path, tensors, {**self.about, "precision": str(self.types), **went})

    def _resume(self) -> None:
        """From the last save, if there is one."""
        if not self.state_path.exists():
            self.task.restore({})  # it may have served another run
            return
        tensors, about = checkpoints.read(self.state_path)
        refuse_other(about, {**self.about, "precision": str(self.types)}, self.state_path)
        self.step, self.seconds, self.metrics = about["step"], about["seconds"], about["metrics"]

        def part(name: str) -> dict[str, Tensor]:
            found = {k.removeprefix(f"{name}."): v for k, v in tensors.items() if k.startswith(f"{name}.")}
            return {k: v.to(self.device) for k, v in found.items()}

        self.total, kept = tensors["total"].to(self.device), part("optimiser")
        self.decoder.load_state_dict(part("model"))
        for name, parameter in self.decoder.named_parameters():
            self.optimiser.state[parameter] = {key: kept[f"{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        self.task.restore(part("task"))

    def finish(self) -> Transformer:
        """Write the model; what was kept to continue is removed."""
        self.decoder.eval()
        if self.rank == 0:
            compute, stream = (str(kind).removeprefix("torch.") for kind in self.types)
            made = {**machine(self.device), "compute": compute, "stream": stream}
            about = {**self.about, "made": made, "seconds": self.seconds, "metrics": self.metrics}
            checkpoints.save(self.decoder, self.path, about)
            for file in (self.state_path, self.state_path.with_suffix(".json")):
                file.unlink(missing_ok=True)
        if self.n_processes > 1:
            dist.barrier()
        return Transformer(self.decoder)

    def _base(self) -> Forecast | None:
        """The base model's forecast in the types of the run, where the base is a decoder."""
        base = getattr(getattr(self.task, "robust", None), "base", None)
        if not isinstance(base, Transformer):
            return None
        here = base if base.device == self.device else Transformer(copy.deepcopy(base.decoder).to(self.device))
        forecast = partial(here.probs_on_device, compute=self.types[0], stream=self.types[1])
        return torch.compile(forecast, dynamic=False) if self.compiled else forecast


def processes() -> tuple[int, int, str]:
    """My rank, how many of us train together and my device, as torchrun's environment says; one without it."""
    cuda = torch.cuda.is_available()
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return 0, 1, "cuda" if cuda else "cpu"
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if cuda else "cpu"
    if not dist.is_initialized():
        if cuda:
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if cuda else "gloo")
        atexit.register(dist.destroy_process_group)  # a process that leaves without it may take the others down
    return dist.get_rank(), dist.get_world_size(), device


def described(thing: Any) -> Any:
    """A task, or any part of one, as JSON: arrays and weights by a digest, functions by their names.

    >>> from lowregret import PolyaUrn
    >>> from lowregret.transformer import Imitate
    >>> described(Imitate(PolyaUrn(2), soft=True))
    {'Imitate': {'source': {'PolyaUrn': {'n_states': 2, 'prior': 1.0}}, 'soft': True}}
    """
    if isinstance(thing, nn.Module):
        return checkpoints.digest_of(str(thing), thing.state_dict())[:16]
    if isinstance(thing, (np.ndarray, Tensor)):
        return checkpoints.digest_of("", {"": torch.as_tensor(np.array(thing))})[:16]
    if isinstance(thing, DecisionProblem):
        return {"DecisionProblem": thing.utility.tolist()}
    if isinstance(thing, Setting):  # its problem is described beside it
        return {name: described(getattr(thing, name)) for name in ("test", "fallback", "response")}
    if is_dataclass(thing):
        return {type(thing).__name__: {f.name: described(getattr(thing, f.name)) for f in fields(thing) if f.repr}}
    if isinstance(thing, (list, tuple)):
        return [described(part) for part in thing]
    if thing is None or isinstance(thing, (str, int, float)):
        return thing
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def refuse_other(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    """A file of a run with another task, other settings or other first weights is not continued."""
    for part, mine in wanted.items():
        if found.get(part) != mine:
            raise ValueError(
                f"{path} is from a run with another {part}: {found.get(part)} there, {mine} here; remove it, or train "
                "to another path"
            )


def refuse_misfit(task: Task, settings: TrainingSettings, init: Transformer | None) -> None:
    """Refuse what does not go together."""
    size, source, robust = settings.size, task.source, getattr(task, "robust", None)
    if init is not None and init.decoder.size != size:
        raise ValueError(f"init must be of the same size: it has {init.decoder.size}, the run {size}")
    if robust is not None and robust.horizon < size.context:
        raise ValueError(f"robust is for {robust.horizon} steps, the decoder's context is {size.context}")
    if isinstance(source, Recording) and source.longest < size.context:
        raise ValueError(
            f"size.context must be at most the longest sequence to learn from, {source.longest} tokens, got "
            f"{size.context}: no step after that would ever be learnt"
        )
    within_window(source, size.context, "source")
