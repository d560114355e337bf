"""A user's own sequences as a source: windows of them to learn from, and a part kept to see what was learnt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import files, inputs
from ..arrays import to_numpy
from ..problems import Names

_SHORTEST = 2  # tokens: of one alone nothing can be learnt but how often it comes
_WHOLE, _BETWEEN = re.compile(r"[+-]?\d{1,15}"), re.compile(r"[\s,;]+")


class Read(NamedTuple):
    """Sequences as they were found."""

    rows: Sequence[np.ndarray]  # int64
    states: tuple[str, ...] | None  # their names, where they have any


def read(tokens: Any, states: Sequence[str] | None = None) -> Read:
    """The sequences of a file, an array or a list, as ``Recording.of`` takes them."""
    names = None if states is None else Names(states)
    if isinstance(tokens, (str, Path)):
        path = Path(tokens)
        if path.suffix.lower() != ".npy":
            return _read_text(path, names)
        tokens = np.load(path, allow_pickle=False)
    if isinstance(tokens, (list, tuple)) and tokens and all(np.ndim(row) == 1 for row in tokens):
        rows = [_integers(row, f"tokens[{i}]", names) for i, row in enumerate(tokens)]
    else:
        found = _integers(tokens, "tokens", names)
        if found.ndim not in (1, 2) or not found.size:
            raise ValueError(f"tokens must have shape [sequences, steps] or [steps], got {found.shape}")
        rows = [found] if found.ndim == 1 else list(found)
    return Read(rows, None if names is None else names.names)


def _integers(values: Any, name: str, names: Names | None) -> np.ndarray:
    if names is not None and not names.unnamed:
        return to_numpy(names.positions(values, name))
    array = to_numpy(inputs.array_of(values, name))
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers from 0 on, one for each state, got dtype {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > inputs.MOST:
        raise ValueError(f"{name} must be whole numbers from 0 on, one for each state, got {array.max()}")
    return array.astype(np.int64)


def _read_text(path: Path, names: Names | None) -> Read:
    """A sequence a line; if every line has one token, they are one sequence."""
    lines = [[word for word in _BETWEEN.split(line) if word] for line in files.text_in(path, "tokens").splitlines()]
    words = sorted({word for line in lines for word in line})
    if not words:
        raise ValueError(f"tokens must hold something, and {path} has separators only")
    whole = [word for word in words if _WHOLE.fullmatch(word)]
    if names is None and len(whole) == len(words):
        numbers: dict[str, int | None] = {word: inputs.whole(int(word), "tokens", least=0) for word in words}
    elif names is None:
        for at, word in ((at, word) for at, line in enumerate(lines, start=1) for word in line):
            if _is_fraction(word):
                raise ValueError(
                    f"tokens must be whole numbers or names, and line {at} of {path} has {inputs.shown(word)}"
                )
        if whole:
            name = next(word for word in words if word not in whole)
            raise ValueError(f"tokens must be all whole numbers or all names, and {path} has {whole[0]} and {name!r}")
        numbers, names = {name: i for i, name in enumerate(words)}, Names(words)  # in the order of the alphabet
    else:
        numbers = {word: names.position(word) for word in words}
        if unknown := [word for word, number in numbers.items() if number is None]:
            raise ValueError(f"tokens in {path} must be {names.refusal(unknown[0])}")
    rows = [np.array([numbers[word] for word in line], dtype=np.int64) for line in lines if line]
    rows = [np.concatenate(rows)] if all(len(row) == 1 for row in rows) else rows
    return Read(rows, None if names is None else names.names)


def _is_fraction(word: str) -> bool:
    """Whether a word is a number and not a whole one; NaN is such a number."""
    try:
        float(word)
    except ValueError:
        return False
    return not _WHOLE.fullmatch(word)


class Windows(NamedTuple):
    """Rows of one length; a sequence that ends before its row does is begun again, and no longer counts."""

    tokens_NxT: Tensor
    own_NxT: Tensor  # 1.0 where the tokens are the recording's, 0.0 after its end


class Spans(NamedTuple):
    """Stretches of the recorded tokens."""

    starts: np.ndarray
    lengths: np.ndarray

    @property
    def steps(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, eq=False)
class Recording:
    """Sequences that were recorded, of any lengths, with their last part held out from training.

    Parameters
    ----------
    tokens
        All of them, one sequence after the other.
    lengths
        How long each is.
    n_states
        How many states there are.
    states
        Their names, where they have any.
    held_out
        The share that is held out: the last of the sequences, or where these are too few to be shared, the last steps
        of each. 0: none.

    >>> recording = Recording.of([[0, 1, 1, 0], [1, 1, 0]], held_out=0)
    >>> recording
    Recording(2 sequences, 7 tokens, 2 states)
    """

    tokens: np.ndarray
    lengths: np.ndarray
    n_states: int
    states: tuple[str, ...] | None = None
    held_out: float = 0.1
    _there: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        tokens: Any,
        *,
        n_states: int | None = None,
        states: Sequence[str] | None = None,
        held_out: float = 0.1,
    ) -> "Recording":
        """Sequences of your own, of any lengths.

        Parameters
        ----------
        tokens
            An array ``[N, T]`` or ``[T]``, a list of sequences, or a file: .npy with such an array; .csv or .txt with a
            sequence a line, whole numbers or names with commas, semicolons or blanks between them (if every line has
            one token, they are one sequence).
        n_states
            How many states there are; as many as there are names, or by the largest number, if not given.
        states
            Their names, in order, by which tokens are then given (``problems.Names``); those of the file in the order
            of the alphabet, if not given.
        held_out
            The share to keep for ``measured``.

        >>> Recording.of(np.arange(600).reshape(20, 30) % 3)
        Recording(20 sequences, 600 tokens, 3 states)
        """
        rows, names = read(tokens, states)
        whole = np.concatenate(rows)
        if n_states is None:
            n_states = len(names) if names else 1 + int(whole.max(initial=0))
        return cls(whole, np.array(list(map(len, rows))), n_states, names, held_out)

    def __post_init__(self) -> None:
        n_states = inputs.whole(self.n_states, "n_states")
        tokens = np.array(inputs.tokens_of(self.tokens, n_states), dtype=np.int64)
        tokens.setflags(write=False)
        if n_states < 2:
            raise ValueError("tokens must be of at least two states, got one: there is nothing to predict")
        lengths = np.array(inputs.tokens_of(self.lengths, 1 + tokens.size, "lengths"), dtype=np.int64)
        lengths.setflags(write=False)
        if tokens.ndim != 1 or lengths.ndim != 1 or lengths.sum() != len(tokens):
            raise ValueError(f"lengths must add up to the {tokens.size} tokens, got {lengths.sum()}")
        if not len(lengths):
            raise ValueError("tokens must be at least one sequence, got none")
        if lengths.min() < _SHORTEST:
            which = f"the {np.argmin(lengths) + 1}. of {len(lengths)}"
            raise ValueError(f"tokens must be sequences of at least {_SHORTEST}, got {lengths.min()} in {which}")
        if self.states is not None and len(self.states) != n_states:
            raise ValueError(f"states must name each of the {n_states} states, got {len(self.states)} names")
        held_out = inputs.not_negative(self.held_out, "held_out")
        if held_out > 0.5:
            raise ValueError(f"held_out must lie between 0 and 0.5, got {held_out:g}")
        inputs.keep(self, tokens=tokens, lengths=lengths, n_states=n_states, held_out=held_out)
        if held_out and not self.kept.steps:
            raise ValueError(
                f"held_out must leave a sequence of {_SHORTEST} tokens to measure on, and {held_out:g} of "
                f"{len(lengths)} sequences of at most {lengths.max()} does not: record more, or hold out more (or 0)"
            )

    def __repr__(self) -> str:
        return f"Recording({len(self.lengths)} sequences, {len(self.tokens)} tokens, {self.n_states} states)"

    # What is learnt from, and what is kept

    @cached_property
    def _parts(self) -> tuple[Spans, Spans]:
        lengths = self.lengths
        starts = np.cumsum(lengths) - lengths
        last = int(self.held_out * len(lengths))  # whole sequences
        if last or not self.held_out:
            cut = len(lengths) - last
            return Spans(starts[:cut], lengths[:cut]), Spans(starts[cut:], lengths[cut:])
        tails = (self.held_out * lengths).astype(np.int64)
        tails[tails < _SHORTEST] = 0
        mine, some = lengths - tails, tails > 0
        return Spans(starts, mine), Spans((starts + mine)[some], tails[some])

    @property
    def learnt(self) -> Spans:
        """What training sees."""
        return self._parts[0]

    @property
    def kept(self) -> Spans:
        """What it does not see."""
        return self._parts[1]

    @property
    def longest(self) -> int:
        """The longest sequence that training sees: of longer contexts it would see no end."""
        return int(self.learnt.lengths.max())

    def frequencies(self) -> np.ndarray:
        """How often each state comes in what training sees, each counted once more: ``[S]``."""
        counts_S = np.bincount(self.tokens, minlength=self.n_states) + 1.0
        for start, length in zip(*self.kept, strict=True):
            counts_S -= np.bincount(self.tokens[start : start + length], minlength=self.n_states)
        return counts_S / counts_S.sum()

    def unseen(self) -> "Recording":
        """What was held out, as a recording of its own."""
        parts = [self.tokens[start : start + length] for start, length in zip(*self.kept, strict=True)]
        return Recording(np.concatenate(parts), self.kept.lengths, self.n_states, self.states, held_out=0)

    # Windows

    def windows(self, n: int, horizon: int, random: torch.Generator) -> Windows:
        """``n`` windows of ``horizon`` steps, drawn from what training sees, each within one sequence.

        A sequence is drawn as often as it has windows to be covered by, and at least as one: every recorded token then
        counts about as often as another. Of a sequence that is longer every window is as likely.
        """
        device = random.device
        _, starts, lengths = self._on(device)
        covers = (lengths.double() / horizon).clamp(min=1.0).cumsum(0)
        drawn_N = torch.rand(n, generator=random, device=device, dtype=torch.float64)
        which_N = torch.searchsorted(covers, drawn_N * covers[-1], right=True).clamp(max=len(lengths) - 1)
        places_N = (lengths[which_N] - horizon + 1).clamp(min=1)
        into_N = (torch.rand(n, generator=random, device=device, dtype=torch.float64) * places_N).long()
        into_N = torch.minimum(into_N, places_N - 1)
        return self._rows(starts[which_N] + into_N, lengths[which_N] - into_N, horizon)

    def in_order(self, horizon: int) -> Windows:
        """All of what there is to learn from, cut into windows one after the other; what is left at an end is one."""
        starts, lengths = self.learnt
        begins = [np.arange(0, length, horizon) for length in lengths]
        left = [length - begin for length, begin in zip(lengths, begins, strict=True)]
        at = [start + begin for start, begin in zip(starts, begins, strict=True)]
        first_N, left_N = (torch.tensor(np.concatenate(part)) for part in (at, left))
        return self._rows(first_N, left_N, horizon)

    def _rows(self, first_N: Tensor, left_N: Tensor, horizon: int) -> Windows:
        """Rows from these tokens on, with so many left in their sequences."""
        tokens, _, _ = self._on(first_N.device)
        steps = torch.arange(horizon, device=first_N.device)
        tokens_NxT = tokens[first_N[:, None] + steps % left_N[:, None]]
        return Windows(tokens_NxT, (steps < left_N[:, None]).float())

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens, and where the sequences to learn from start and how long they are: sent to the device once."""
        if device not in self._there:
            tokens, starts, lengths = (torch.tensor(part, device=device) for part in (self.tokens, *self.learnt))
            self._there[device] = (tokens, starts, lengths)
        return self._there[device]
