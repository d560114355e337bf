"""Any torch module that gives logits, as a predictor (Section 2.1): one pass for a recorded sequence."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, namespace

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor
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
    forecasts_of,
    ids_of,
    log_mass_of,
    not_training,
    steps_in,
    try_out,
)


class TokenMemory(NamedTuple):
    history: Array  # [..., t]
    probs: Array  # [..., S], the forecast of the next state
    mass: Array  # [...], the probability that it gave to the states, before they were renormalised
    seen: Array  # [...], tokens so far


class TokenPredictor(Predictor):
    """A predictor over some tokens of a torch module. It remembers the history; a recording takes one pass."""

    states: StateLogits
    context: int | None  # for how many states there is room, the last of which is predicted and not read

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.states.n_states

    @property
    def as_module(self) -> StateLogits:
        """As a torch module over the states: what ``construct.build`` appends Algorithm 1 to."""
        return self.states

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> TokenMemory:
        kind = torch.zeros(0, device=self.states.device) if like is None else like
        past = no_history(batch_shape, kind)
        return TokenMemory(past.history, *self._now(past.history, kind), past.seen)

    def predict(self, memory: TokenMemory) -> Array:
        return memory.probs

    def mass(self, memory: TokenMemory) -> Array:
        """The probability ``[...]`` that the module gives to the states now, among all its tokens."""
        return memory.mass

    def update(self, memory: TokenMemory, token: Array) -> TokenMemory:
        past = with_token(memory, token, self.n_states)
        if self.context is not None and memory.history.shape[-1] >= self.context:
            raise ValueError(f"the model's context is full: it has room for {self.context} states")
        return TokenMemory(past.history, *self._now(past.history, memory.probs), past.seen)

    def predict_sequence(self, tokens: Array) -> Array:
        return self._recorded(tokens)[0]

    def masses(self, tokens: Array) -> Array:
        """``mass`` before each of the tokens ``[..., T]``."""
        return self._recorded(tokens)[1]

    @torch.no_grad()
    def _now(self, history: Array, like: Array) -> tuple[Array, Array]:
        """The forecast after the history, and its mass; uniform and 0 where no state fits, or there is no stream."""
        shape, t = tuple(history.shape[:-1]), history.shape[-1]
        if (self.context is not None and t >= self.context) or 0 in shape:
            xp, where = namespace(like), device(like)
            return xp.zeros((*shape, self.n_states), device=where) + 1 / self.n_states, xp.zeros(shape, device=where)
        not_training(self.states.module, "model")
        logits_NxV = self._next_logits(as_tensor(history, self.states.device).reshape(int(np.prod(shape)), t))
        probs, mass = self._read(logits_NxV)
        return as_kind(probs.reshape(*shape, self.n_states), like), as_kind(mass.reshape(shape), like)

    @abstractmethod
    def _next_logits(self, tokens_NxT: Tensor) -> Tensor:
        """Logits ``[N, V]`` of what follows the tokens."""

    @torch.no_grad()
    def _recorded(self, tokens: Array) -> tuple[Array, Array]:
        """Forecasts ``[..., T, S]`` and masses ``[..., T]`` of recorded sequences."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        shape, T, room = tuple(tokens.shape), tokens.shape[-1], self.context
        if room is not None and room < T:
            raise ValueError(f"tokens must be at most {room} long, for which the model has room, got {T}")
        not_training(self.states.module, "model")
        flat_NxT = as_tensor(tokens, self.states.device).reshape(int(np.prod(shape[:-1])), T)
        rows = self.states.rows_at_once(T)
        parts = [self._read(self.states.over_all(flat_NxT[i : i + rows])) for i in range(0, len(flat_NxT), rows)]
        probs, masses = map(torch.cat, zip(*parts, strict=True)) if parts else (torch.zeros(0), torch.zeros(0))
        return as_kind(probs.reshape(*shape, self.n_states), tokens), as_kind(masses.reshape(shape), tokens)

    def _read(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        ids = self.states.token_ids
        return forecasts_of(logits[..., ids]), torch.exp(log_mass_of(logits, ids))


@dataclass(frozen=True, eq=False)
class FromModule(TokenPredictor):
    """A torch module ``ids[B, L] -> logits[B, L, V]`` as a predictor; entry i is for what follows ``ids[:, :i + 1]``.

    A recorded sequence takes one pass. A stream sends its whole history through the module at each step: only
    ``HFPredictor`` keeps a cache. Tensors in give tensors out, arrays give arrays.

    Parameters
    ----------
    module
        Not in training mode. It may also return a tuple whose first is the logits, or something with ``.logits``.
    token_ids
        Which of the module's vocabulary are the states, in order; probabilities are renormalised over them.
    bos
        The id, or ids, that come before the first state. Without any the forecast of the first state is uniform.
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
        before = () if self.bos is None else ids_of(self.bos, "bos", 1)
        room = None if self.context is None else inputs.whole(self.context, "context")
        steps = steps_in(room, before, (), "bos")
        inputs.keep(self, token_ids=ids, context=steps, states=StateLogits(module, ids, before))
        try_out(self.states, "module", steps or 4)

    def __repr__(self) -> str:
        return f"FromModule({type(self.module).__name__} over tokens {list(self.token_ids)}, bos {self.bos})"

    def _next_logits(self, tokens_NxT: Tensor) -> Tensor:
        unread_NxT, rows = F.pad(tokens_NxT, (0, 1)), self.states.rows_at_once(tokens_NxT.shape[1] + 1)
        parts = [self.states.over_all(part)[:, -1] for part in unread_NxT.split(rows)]
        return torch.cat(parts)
