"""The key-value cache of a language model, kept for whoever asks next and made anew where it does not fit."""

import threading
from typing import Any

import torch
from torch import Tensor, nn

from .state_logits import logits_of


class KeyValues:
    """What the model last computed, and for which rows of tokens.

    Nobody's answer depends on it: it is used only where its rows are the beginnings of the rows asked for, in whatever
    order they come, and else the model reads everything again.
    """

    def __init__(self, model: nn.Module, keeps: bool) -> None:
        self.model, self.keeps = model, keeps
        self._rows_BxL: Tensor | None = None
        self._past: Any = None
        self._made_by: tuple[Any, ...] | None = None
        self._lock = threading.Lock()

    def last_logits(self, ids_BxL: Tensor) -> Tensor:
        """Logits ``[B, V]`` of what follows each row; call it without gradients."""
        with self._lock:
            made_by = self._weights()
            past, length = self._fitting(ids_BxL) if made_by == self._made_by else (None, 0)
            self._rows_BxL = self._past = None  # an interrupt leaves nothing half done
            fresh = {"logits_to_keep": 1} if self.keeps else {}
            said = self.model(ids_BxL[:, length:], past_key_values=past, use_cache=True, **fresh)
            self._past = getattr(said, "past_key_values", None)
            self._rows_BxL, self._made_by = None if self._past is None else ids_BxL.clone(), made_by
            return logits_of(said)[:, -1]

    def _fitting(self, ids_BxL: Tensor) -> tuple[Any, int]:
        """The cache for the beginnings of these rows, and how long they are."""
        rows, past = self._rows_BxL, self._past
        if rows is None or rows.shape[1] >= ids_BxL.shape[1] or not len(ids_BxL):
            return None, 0
        length = rows.shape[1]
        begun = ids_BxL[:, :length]
        if rows.shape == begun.shape and torch.equal(rows, begun):
            return past, length
        if not hasattr(past, "batch_select_indices"):
            return None, 0
        places = {tuple(row): i for i, row in enumerate(rows.tolist())}
        index = [places.get(tuple(row)) for row in begun.tolist()]
        if None in index:
            return None, 0
        try:
            past.batch_select_indices(torch.tensor(index, device=ids_BxL.device))
        except (AttributeError, NotImplementedError):  # not every layer can
            return None, 0
        return past, length

    def _weights(self) -> tuple[Any, ...]:
        """Where the weights are and how often each was written to: a cache made by others must not be used."""
        return tuple(
            (weight.data_ptr(), weight.dtype, None if weight.is_inference() else weight._version)
            for weight in self.model.parameters()
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "keeps": self.keeps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
