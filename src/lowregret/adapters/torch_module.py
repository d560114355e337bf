"""Any torch module that gives logits, as a predictor (Section 2.1): one pass for a recorded sequence."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, namespace

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"FromModule needs {error.name}: pip install 'lowregret[torch]'", name=error.name
    ) from error

from ..predictors import Predictor
from ..predictors.function import no_history, with_token
from ..transformer.backends import as_kind, as_tensor
from .state_logits import (
    StateLogits,
    a_module,
    different,
    ids_of,
    laws_of,
    not_training,
    prefix_of,
    rows_at_once,
    try_out,
)


class ModuleMemory(NamedTuple):
    history: Array  # [..., t]
    law: Array  # [..., S], what the module says now
    seen: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class FromModule(Predictor):
    """A torch module ``ids[B, L] -> logits[B, L, V]`` as a predictor; entry i is for what follows ``ids[:, :i + 1]``.

    A recorded sequence takes one pass. A stream sends its whole history through the module at each step, since it knows
    of no cache; ``HFPredictor`` keeps one. Tensors in give tensors out, arrays give arrays.

    Parameters
    ----------
    module
        Not in training mode. It may also return a tuple whose first is the logits, or something with ``.logits``.
    token_ids
        Which of the module's vocabulary are the states, in order; probabilities are renormalised over them.
    bos
        The id, or ids, that come before the first state. Without any the module says nothing about the first state:
        its law is uniform.
    context
        The most ids that the module can take, ``bos`` among them; None for any number.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Embedding(4, 8), torch.nn.Linear(8, 4)).eval()
    >>> FromModule(net, token_ids=[0, 1, 2], bos=3).predict_sequence([[0, 1, 1, 2]]).shape
    (1, 4, 3)
    """

    module: Any
    token_ids: tuple[int, ...]
    bos: Any = None
    context: int | None = None
    states: StateLogits = field(init=False, repr=False)

    def __post_init__(self) -> None:
        module, ids = a_module(self.module, "module"), ids_of(self.token_ids, "token_ids", 1)
        different(ids, "token_ids", ids)
        before = prefix_of(self.bos)
        room = None if self.context is None else inputs.whole(self.context, "context")
        if room is not None and len(before) > room:
            raise ValueError(f"bos is {len(before)} tokens long, and the context {room}: nothing could be predicted")
        steps = None if room is None else room - len(before) + 1  # the last one is predicted, not read
        states = StateLogits(module, ids, before)
        inputs.keep(self, token_ids=ids, context=steps, states=states)
        try_out(states, "module", steps or 4)

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return len(self.token_ids)

    @property
    def as_module(self) -> StateLogits:
        """The module as a torch module over the states: what ``construct.build`` appends Algorithm 1 to."""
        return self.states

    def __repr__(self) -> str:
        return f"FromModule({type(self.module).__name__} over tokens {list(self.token_ids)}, bos {self.bos})"

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> ModuleMemory:
        kind = torch.zeros(0, device=self.states.device) if like is None else like
        past = no_history(batch_shape, kind)
        return ModuleMemory(past.history, self._now(past.history, kind), past.seen)

    def predict(self, memory: ModuleMemory) -> Array:
        return memory.law

    def update(self, memory: ModuleMemory, token: Array) -> ModuleMemory:
        past = with_token(memory, token, self.n_states)
        if self.context is not None and memory.history.shape[-1] >= self.context:
            raise ValueError(f"the context is full: the module has room for {self.context} states and no more")
        return ModuleMemory(past.history, self._now(past.history, memory.law), past.seen)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        if self.context is not None and tokens.shape[-1] > self.context:
            raise ValueError(
                f"tokens must be at most {self.context} long, for which the module has room, got {tokens.shape[-1]}"
            )
        return as_kind(self._laws(tokens), tokens)

    def _now(self, history: Array, like: Array) -> Array:
        """The law after the history; uniform where no more tokens can follow."""
        xp = namespace(history)
        if self.context is not None and history.shape[-1] >= self.context:
            return namespace(like).zeros((*history.shape[:-1], self.n_states), device=device(like)) + 1 / self.n_states
        unread = xp.zeros((*history.shape[:-1], 1), dtype=xp.int64, device=device(history))
        return as_kind(self._laws(xp.concat([history, unread], axis=-1))[..., -1, :], like)

    @torch.no_grad()
    def _laws(self, tokens: Array) -> Any:
        not_training(self.module, "module")
        T = tokens.shape[-1]
        flat_NxT = as_tensor(tokens, self.states.device).reshape(int(np.prod(tokens.shape[:-1])), T)
        rows = rows_at_once(self.states, max(self.token_ids) + 1, T)
        parts = [self.states(flat_NxT[i : i + rows]) for i in range(0, len(flat_NxT), rows)]
        if not parts:
            return torch.zeros((*tokens.shape, self.n_states))
        return laws_of(torch.cat(parts), "the module").reshape(*tokens.shape, self.n_states)
