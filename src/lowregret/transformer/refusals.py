"""What a training refuses before it begins: sizes beyond all memory, and tasks that do not fit."""

import torch

from .. import files
from ..predictors import within_context
from .backends import memory
from .decoder import n_weights
from .predictor import Transformer
from .recording import Recording
from .settings import Settings
from .tasks import Task


def refuse_absurd(n_states: int, settings: Settings, device: torch.device, processes: int = 1) -> None:
    """What must be held at the least, against all the memory there is: a refusal rather than a kill after minutes."""
    size, batch, there = settings.size, settings.batch, memory(device)
    weights = n_weights(n_states, size)
    files.in_memory(16 * weights, f"training {weights:.3g} weights with gradients and moments", there)
    stream = 4 * batch * size.context * size.width * size.layers / processes
    files.in_memory(stream, f"a batch of {batch} sequences of {size.context} tokens, {size.width} wide,", there)


def refuse_misfit(task: Task, settings: Settings, init: Transformer | None) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"task must be an Imitate, a Masked or a Distil, got {task!r}")
    if not isinstance(settings, Settings):
        raise ValueError(f"settings must be a Settings, got {settings!r}")
    if init is not None and not isinstance(init, Transformer):
        raise ValueError(f"init must be a Transformer, got {type(init).__name__}")
    context, rule = settings.size.context, getattr(task, "rule", None)
    if rule is not None and rule.horizon < context:
        raise ValueError(f"rule is for {rule.horizon} steps, the decoder's context is {context}")
    source = getattr(task, "source", None)
    if isinstance(source, Recording) and source.longest < context:
        raise ValueError(
            f"size.context must be at most the longest sequence to learn from, {source.longest} tokens, got {context}: "
            f"no step after that would ever be learnt (a size is context,width,heads,layers,inner, "
            f"so {','.join(map(str, settings.size._replace(context=source.longest)))})"
        )
    for name in ("source", "base"):
        within_context(getattr(task, name, None), context, name)
