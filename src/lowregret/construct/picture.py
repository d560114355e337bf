"""Pictures of a built model at work on one sequence: who looks at whom, and what flows through the subspaces."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import inputs
from ..plots import COLOURS, DASHES, plain
from .layers import Layer
from .predictor import Constructed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def attention_patterns(model: Constructed, tokens: Any) -> dict[str, np.ndarray]:
    """The attention of every head on one sequence ``[T]``, by "layer: head"; rows look at columns, registers first.

    >>> from lowregret import matching
    >>> from lowregret.predictors import Scheduled
    >>> from lowregret.rules import RegretGap
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


def traffic(model: Constructed) -> dict[str, dict[str, str]]:
    """Which subspaces each layer reads and writes: by layer, then by subspace, "r", "w" or "rw".

    >>> from lowregret import matching
    >>> from lowregret.predictors import Scheduled
    >>> from lowregret.rules import RegretGap
    >>> from lowregret.construct import build
    >>> traffic(build(Scheduled([[0.9, 0.1]]), RegretGap(matching(), 8)))["3"]
    {'one': 'r', 'register': 'r', 'gain': 'r', 'mean': 'w'}
    """
    module, found = model.module, {}
    for number, layer in enumerate(module.every_layer, start=1):
        reading = (layer.query_HxExD, layer.key_HxExD, layer.value_HxVxD, layer.inner_FxD)
        read_D = np.any([_used(weight, -1) for weight in reading], axis=0)
        written_D = _used(layer.out_HxDxV, -2) | _used(layer.outer_DxF, -2)
        marks = {}
        for name in module.stream.sizes:
            at = module.stream.at(name)
            marks[name] = "r" * bool(read_D[at].any()) + "w" * bool(written_D[at].any())
        found[str(number)] = {name: mark for name, mark in marks.items() if mark}
    return found


def draw(model: Constructed, tokens: Any) -> "Figure":
    """One matplotlib figure (extra: ``cli``): every head's attention, what layers read and write, and what flows.

    Parameters
    ----------
    tokens
        One sequence, at most as long as the horizon.
    """
    from matplotlib.figure import Figure

    patterns, held = _kinds(attention_patterns(model, tokens)), subspaces(model, tokens)
    columns = 3
    rows = -(-len(patterns) // columns)
    figure = Figure(figsize=(11, 2.9 * rows + 6.2), layout="constrained", facecolor="white")
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.9 * rows, 6.2])
    above, below = parts
    n_registers = len(model.module.register_RxD)
    for i, (name, pattern) in enumerate(patterns.items()):
        ax = above.add_subplot(rows, columns, i + 1)
        # The fourth root shows what is faint too.
        ax.imshow(np.clip(pattern, 0, 1) ** 0.25, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(f"layer {name}", fontsize=9)
        tens = range(n_registers + 9, len(pattern), 10)
        ax.set_xticks(tens, [str(row - n_registers + 1) for row in tens], fontsize=7)
        ax.set_yticks([n_registers - 1, *tens], ["START", *(str(row - n_registers + 1) for row in tens)], fontsize=7)
    left, right = below.subfigures(1, 2, width_ratios=[2, 3])
    _draw_traffic(left.add_subplot(), traffic(model))
    upper, lower = right.subplots(2, 1, sharex=True)
    _draw_lines(upper, {f"{name}: last state": held[name][:, -1] for name in ("base", "urn", "out")})
    _draw_lines(lower, _statistics(held))
    upper.set_title("laws", fontsize=9)
    lower.set_title("what decides", fontsize=9)
    lower.set(xlabel="tokens seen", xlim=(0, len(held["out"]) - 1))
    return figure


def _kinds(patterns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of heads that are alike but for a number after a comma the first, with how many they are."""
    alike: dict[str, list[str]] = {}
    for name in patterns:
        alike.setdefault(name.split(",")[0].rstrip(" 0123456789"), []).append(name)
    return {
        names[0] if len(names) == 1 else f"{kind} ({len(names)} heads, the first)": patterns[names[0]]
        for kind, names in alike.items()
    }


def _draw_traffic(ax: "Axes", marks: dict[str, dict[str, str]]) -> None:
    names = list(dict.fromkeys(name for layer in marks.values() for name in sorted(layer, key=layer.__getitem__)))
    for kind, face, label in (("r", "white", "reads"), ("w", COLOURS[1], "writes"), ("rw", COLOURS[0], "both")):
        spots = [
            (x, names.index(name))
            for x, layer in enumerate(marks.values())
            for name, mark in layer.items()
            if mark == kind
        ]
        across, down = np.array(spots).reshape(-1, 2).T
        ax.scatter(across, down, s=42, facecolor=face, edgecolor="#444444", label=label, zorder=2)
    ax.set_xticks(range(len(marks)), [f"layer {number}" for number in marks], fontsize=8)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.grid(color="#EEEEEE", linewidth=0.8)
    ax.spines[:].set_visible(False)
    ax.set_title("subspaces", fontsize=9)
    ax.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.05), frameon=False)


def _statistics(held: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The lines that show why it switches, whatever the rule; START has no threshold, and no line is above 2."""
    lines = {}
    for name in ("gain", "mean", "bar", "share", "level", "needed", "flag"):
        for k, values_T in enumerate(held.get(name, np.zeros((0, 0))).T):
            label = name if held[name].shape[-1] == 1 else f"{name} {k}"
            lines[label] = np.append(np.nan, values_T[1:]) if name in ("bar", "needed") else np.minimum(values_T, 2)
    return lines


def _draw_lines(ax: "Axes", lines: dict[str, np.ndarray]) -> None:
    for i, (name, values_T) in enumerate(lines.items()):
        ax.plot(values_T, color=COLOURS[i % len(COLOURS)], linestyle=DASHES[i % len(DASHES)], linewidth=1.4, label=name)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    plain(ax)


def _used(weight: torch.Tensor, axis: int) -> np.ndarray:
    """Which coordinates of the stream a weight touches, where they lie along this axis."""
    return (weight != 0).movedim(axis, 0).flatten(1).any(dim=1).cpu().numpy()


def _run(model: Constructed, tokens: Any) -> tuple[list[torch.Tensor], list[Layer]]:
    sequence = inputs.sequences_of(tokens, model.n_states)
    if sequence.ndim != 1 or sequence.shape[-1] > model.horizon:
        raise ValueError(
            f"tokens must be one sequence of at most {model.horizon} tokens (the horizon built for), "
            f"got shape {tuple(sequence.shape)}"
        )
    streams = model.module.run(torch.as_tensor(np.array(sequence), device=model.device)[None])
    return streams, model.module.every_layer
