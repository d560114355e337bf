"""Pictures of a built model at work on one sequence: who looks at whom, and what flows through the subspaces."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import inputs
from .layers import Layer
from .predictor import Constructed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def attention_patterns(model: Constructed, tokens: Any) -> dict[str, np.ndarray]:
    """The attention of every head on one sequence ``[T]``, by "layer: head"; rows look at columns, registers first.

    >>> from lowregret import RegretGap, Scheduled, matching
    >>> from lowregret.construct import build
    >>> patterns = attention_patterns(build(Scheduled([[0.9, 0.1]]), RegretGap(matching(), 8)), [1] * 8)
    >>> list(patterns), patterns["1: urn"].shape
    (['1: urn', '2: fetch the response to base', '2: fetch the response to urn', '3: mean', '4: any'], (9, 9))
    """
    streams, layers = _run(model, tokens)
    found = {}
    for number, (layer, stream) in enumerate(zip(layers, streams[:-1], strict=True), start=1):
        for head, pattern in zip(layer.head_names, layer.attention(stream)[0], strict=True):
            found[f"{number}: {head}"] = pattern.cpu().numpy()
    return found


def subspaces(model: Constructed, tokens: Any) -> dict[str, np.ndarray]:
    """What every named subspace holds at the end, at START and after every token but the last: ``[T, size]`` each."""
    streams, _ = _run(model, tokens)
    module = model.module
    last = streams[-1][0, len(module.register_RxD) - 1 :].cpu().numpy()
    return {name: last[:, module.stream.at(name)] for name in module.stream.sizes}


def draw(model: Constructed, tokens: Any) -> "Figure":
    """Every head's attention, then what the subspaces hold over time, as one matplotlib figure (extra: ``cli``)."""
    from matplotlib.figure import Figure

    patterns, held = attention_patterns(model, tokens), subspaces(model, tokens)
    columns = 3
    rows = -(-len(patterns) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.1 * rows + 2.8), layout="constrained")
    grid = figure.add_gridspec(rows + 1, columns)
    for i, (name, pattern) in enumerate(patterns.items()):
        ax = figure.add_subplot(grid[i // columns, i % columns])
        # The fourth root shows what is faint too.
        ax.imshow(np.clip(pattern, 0, 1) ** 0.25, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(name, fontsize=9)
        ax.tick_params(labelsize=7)
    below = figure.add_subplot(grid[rows, :])
    for name in ("gain", "mean", "bar", "flag"):
        if name in held and held[name].shape[-1] == 1:
            values = held[name][:, 0].copy()
            values[0] = np.nan if name == "bar" else values[0]  # START has no threshold
            below.plot(values, label=name, linewidth=1.2)
    for name, style in {"base": ":", "urn": "--", "out": "-"}.items():
        below.plot(held[name][:, -1], style, label=f"{name}, last state", linewidth=1.2)
    below.set(xlabel="tokens seen", xlim=(0, len(held["out"]) - 1))
    below.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.28))
    return figure


def _run(model: Constructed, tokens: Any) -> tuple[list[torch.Tensor], list[Layer]]:
    sequence = inputs.sequences_of(tokens, model.n_states)
    if sequence.ndim != 1 or sequence.shape[-1] > model.horizon:
        raise ValueError(
            f"tokens must be one sequence of at most {model.horizon} tokens (the horizon built for), "
            f"got shape {tuple(sequence.shape)}"
        )
    streams = model.module.run(torch.as_tensor(np.array(sequence), device=model.device)[None])
    return streams, [model.module.beside, *(layer for layer in model.module.layers if isinstance(layer, Layer))]
