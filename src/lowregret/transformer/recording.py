"""A user's own sequences as a source: windows of them to learn from, and a part kept to see what was learnt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import files, inputs
from ..arrays import to_numpy
from ..problems import Names

_SHORTEST = 2  # tokens: of one alone nothing can be learnt but how often it comes
_WORD = re.compile(r"[^\s,;]+")


def rows_of(tokens: Any) -> list[np.ndarray]:
    """The sequences of a file, an array or a list, as ``Recording.of`` takes them: numbers or texts."""
    if isinstance(tokens, (str, Path)):
        suffix = Path(tokens).suffix.lower()
        if suffix in (".csv", ".txt"):
            lines = map(_WORD.findall, files.text_in(Path(tokens), "tokens").splitlines())
            rows = [np.array(words) for words in lines if words]
            return [np.concatenate(rows)] if all(len(row) == 1 for row in rows) else rows
        if suffix != ".npy":
            raise ValueError(f"tokens must be a file that ends in .npy, .csv or .txt, got {str(tokens)!r}")
        tokens = np.load(tokens)
    if isinstance(tokens, (list, tuple)) and tokens and all(np.ndim(row) == 1 for row in tokens):
        return [to_numpy(inputs.array_of(row, f"tokens[{i}]")) for i, row in enumerate(tokens)]
    array = to_numpy(inputs.array_of(tokens, "tokens"))
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"tokens must have shape [sequences, steps] or [steps], got {array.shape}")
    return [array] if array.ndim == 1 else list(array)


def _numbers_or_names(words: np.ndarray) -> tuple[np.ndarray, Names | None]:
    """Texts as the whole numbers that they are; or as the positions of names, in the order of the alphabet."""
    if not any(map(_is_number, np.unique(words))):
        names = Names(np.unique(words))
        return names.positions(words, "tokens"), names
    try:
        return words.astype(np.int64), None
    except ValueError as error:
        raise ValueError(f"tokens must be all whole numbers or all names: {error}") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


class Windows(NamedTuple):
    """Rows of one length; a sequence that ends before its row does is begun again, and no longer counts."""

    tokens_NxT: Tensor
    own_NxT: Tensor  # 1.0 where the tokens are the recording's, 0.0 after its end


@dataclass(frozen=True, eq=False)
class Recording:
    """Sequences that were recorded, of any lengths, with their last part held out from training.

    >>> Recording.of([[0, 1, 1, 0], [1, 1, 0]], held_out=0)
    Recording(2 sequences, 7 tokens, 2 states)
    """

    tokens: np.ndarray  # one sequence after the other
    lengths: np.ndarray
    n_states: int
    states: tuple[str, ...] | None = None  # their names
    held_out: float = 0.1
    learnt: list[np.ndarray] = field(init=False, repr=False)  # what training sees
    kept: list[np.ndarray] = field(init=False, repr=False)  # what it does not see
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
            Their names, in order, by which tokens are then given (``problems.Names``); names are in the order of the
            alphabet if it is not given.
        held_out
            The share to keep for ``measured``: the last of the sequences, or where these are too few to be shared, the
            last steps of each.
        """
        rows = rows_of(tokens)
        whole, names = np.concatenate(rows), None
        if states is not None:
            names = Names(states)
            whole = to_numpy(names.positions(whole, "tokens"))
        elif whole.dtype.kind == "U":
            whole, names = _numbers_or_names(whole)
        if n_states is None:
            n_states = len(names.names) if names else 1 + int(whole.max(initial=0))
        lengths = np.array([len(row) for row in rows])
        return cls(whole, lengths, n_states, names.names if names else None, held_out)

    def __post_init__(self) -> None:
        tokens, lengths = np.array(inputs.tokens_of(self.tokens, self.n_states), dtype=np.int64), self.lengths
        if self.n_states < 2:
            raise ValueError("tokens must be of at least two states, got one: there is nothing to predict")
        if lengths.min() < _SHORTEST:
            which = f"the {np.argmin(lengths) + 1}. of {len(lengths)}"
            raise ValueError(f"tokens must be sequences of at least {_SHORTEST}, got {lengths.min()} in {which}")
        if self.states is not None and len(self.states) != self.n_states:
            raise ValueError(f"states must name each of the {self.n_states} states, got {len(self.states)} names")
        if not 0 <= self.held_out <= 0.5:
            raise ValueError(f"held_out must lie between 0 and 0.5, got {self.held_out!r}")
        learnt, kept = np.split(tokens, np.cumsum(lengths)[:-1]), list[np.ndarray]()
        if last := int(self.held_out * len(learnt)):  # whole sequences
            learnt, kept = learnt[:-last], learnt[-last:]
        elif self.held_out:
            tails = [int(self.held_out * length) for length in lengths]
            tails = [tail if tail >= _SHORTEST else 0 for tail in tails]
            kept = [row[-tail:] for row, tail in zip(learnt, tails, strict=True) if tail]
            learnt = [row[: len(row) - tail] for row, tail in zip(learnt, tails, strict=True)]
            if not kept:
                raise ValueError(
                    f"held_out must leave {_SHORTEST} tokens of a sequence to measure on, and {self.held_out:g} of at "
                    f"most {lengths.max()} does not: record more, or hold out more (or 0)"
                )
        inputs.keep(self, tokens=tokens, learnt=learnt, kept=kept)

    def __repr__(self) -> str:
        return f"Recording({len(self.lengths)} sequences, {len(self.tokens)} tokens, {self.n_states} states)"

    @property
    def longest(self) -> int:
        """The longest sequence that training sees: of longer contexts it would see no end."""
        return max(map(len, self.learnt))

    def unseen(self) -> "Recording":
        """What was held out, as a recording of its own."""
        lengths = np.array([len(row) for row in self.kept])
        return Recording(np.concatenate(self.kept), lengths, self.n_states, self.states, held_out=0)

    def windows(self, n: int, horizon: int, random: torch.Generator) -> Windows:
        """``n`` windows of ``horizon`` steps, drawn from what training sees, each within one sequence.

        A sequence is drawn as often as it has windows to be covered by, and at least as one: every recorded token then
        counts about as often as another. Of a sequence that is longer every window is as likely.
        """
        device = random.device
        if device not in self._there:  # sent to the device once
            lengths = torch.tensor([len(row) for row in self.learnt], device=device)
            tokens = torch.tensor(np.concatenate(self.learnt), device=device)
            self._there[device] = tokens, lengths.cumsum(0) - lengths, lengths
        tokens, starts, lengths = self._there[device]
        covers = (lengths.double() / horizon).clamp(min=1.0).cumsum(0)
        drawn_N = torch.rand(n, generator=random, device=device, dtype=torch.float64)
        which_N = torch.searchsorted(covers, drawn_N * covers[-1], right=True).clamp(max=len(lengths) - 1)
        places_N = (lengths[which_N] - horizon + 1).clamp(min=1)
        into_N = (torch.rand(n, generator=random, device=device, dtype=torch.float64) * places_N).long()
        into_N = torch.minimum(into_N, places_N - 1)
        first_N, left_N = starts[which_N] + into_N, lengths[which_N] - into_N
        steps = torch.arange(horizon, device=device)
        tokens_NxT = tokens[first_N[:, None] + steps % left_N[:, None]]
        return Windows(tokens_NxT, (steps < left_N[:, None]).float())
