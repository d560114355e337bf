"""A module over its own vocabulary as one over the states (Section 2.1), and what is refused of it."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import inputs

_LOGITS_AT_ONCE = 1 << 26  # numbers in one pass: a vocabulary times positions


class StateLogits(nn.Module):
    """``tokens[B, T] -> logits[B, T, S]`` over the states; entry t saw ``tokens[:, :t]``, after what comes before.

    The module reads ``before``, then the states by their ``token_ids``, each followed by the ``separator``.
    """

    token_ids: Tensor
    before: Tensor
    separator: Tensor

    def __init__(
        self, module: nn.Module, token_ids: Sequence[int], before: Sequence[int] = (), separator: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.module, self.n_states = module, len(token_ids)
        for name, ids in (("token_ids", token_ids), ("before", before), ("separator", separator)):
            self.register_buffer(name, torch.tensor(list(ids), dtype=torch.int64, device=device_of(module)), False)
        self.keeps = "logits_to_keep" in inspect.signature(module.forward).parameters
        self.vocabulary = 0  # how many tokens it has, once it was tried out

    @property
    def device(self) -> torch.device:
        """The device of the module; what belongs to it follows if it was moved."""
        where = device_of(self.module)
        if self.token_ids.device != where:
            for name in ("token_ids", "before", "separator"):
                setattr(self, name, getattr(self, name).to(where))
        return where

    def forward(self, tokens_BxT: Tensor) -> Tensor:
        return self.over_all(tokens_BxT)[..., self.token_ids].contiguous()

    def over_all(self, tokens_BxT: Tensor) -> Tensor:
        """Logits ``[B, T, V]`` over the whole vocabulary."""
        B, T = tokens_BxT.shape
        ids_BxL, step = self.ids(tokens_BxT[:, :-1]), 1 + len(self.separator)
        first = len(self.before) - 1  # where the first state is predicted
        if first < 0 and T == 1:
            return torch.zeros((B, 1, self.vocabulary), device=ids_BxL.device)
        where_T = torch.arange(first if first >= 0 else step - 1, ids_BxL.shape[1], step, device=ids_BxL.device)
        if self.keeps:
            logits_BxTxV = logits_of(self.module(ids_BxL, logits_to_keep=where_T))
        else:
            logits_BxTxV = logits_of(self.module(ids_BxL))[:, where_T]
        if first < 0:
            logits_BxTxV = torch.cat([torch.zeros_like(logits_BxTxV[:, :1]), logits_BxTxV], dim=1)
        return logits_BxTxV

    def ids(self, tokens_BxT: Tensor) -> Tensor:
        """The tokens as the module reads them, with what comes before and between."""
        B, T = tokens_BxT.shape
        states_BxTx1 = self.token_ids[tokens_BxT][..., None]
        chunks = torch.cat([states_BxTx1, self.separator.expand(B, T, -1)], dim=-1).reshape(B, -1)
        return torch.cat([self.before.expand(B, -1), chunks], dim=1)

    def rows_at_once(self, steps: int) -> int:
        """How many sequences go through in one pass, so that their logits fit in memory."""
        positions = steps if self.keeps else len(self.before) + steps * (1 + len(self.separator))
        return max(1, _LOGITS_AT_ONCE // (positions * self.vocabulary))


def logits_of(output: Any) -> Tensor:
    """The logits in whatever a module returns."""
    output = getattr(output, "logits", output)
    output = output[0] if isinstance(output, (tuple, list)) and output else output
    if not isinstance(output, Tensor):
        raise ValueError(f"the module must return logits as a tensor, a tuple or .logits, got {type(output).__name__}")
    return output


def device_of(module: nn.Module) -> torch.device:
    """The device of the weights."""
    return next((weight.device for weight in module.parameters()), torch.device("cpu"))


def a_module(module: Any, name: str) -> nn.Module:
    if not isinstance(module, nn.Module):
        raise ValueError(f"{name} must be a torch module that gives logits, got {type(module).__name__}")
    not_training(module, name)
    return module


def not_training(module: nn.Module, name: str) -> None:
    if module.training:
        raise ValueError(f"{name} is in training mode, where dropout makes its logits random: call {name}.eval() first")


def ids_of(values: Any, name: str, least: int) -> tuple[int, ...]:
    """Indices into a vocabulary; a tensor or array of them counts as a list."""
    ids = tuple(inputs.whole(value, name, least=0) for value in np.atleast_1d(values).tolist())
    if len(ids) < least:
        raise ValueError(f"{name} must be a list of at least {least} token ids, got {inputs.shown(values)}")
    return ids


def steps_in(room: int | None, before: Sequence[int], separator: Sequence[int], name: str) -> int | None:
    """For how many states there is room in a context, the last of which is predicted and not read."""
    if room is None:
        return None
    if len(before) > room:
        raise ValueError(f"{name} is {len(before)} tokens long, and the model's context {room}: make it shorter")
    return (room - len(before)) // (1 + len(separator)) + 1


def different(ids: tuple[int, ...], name: str, given: Sequence[Any]) -> None:
    """Refuse two states that are the same token."""
    if len(set(ids)) < len(ids):
        raise ValueError(f"{name} must be different tokens, got {inputs.shown(given)}: tokens {list(ids)}")


def forecasts_of(logits: Tensor) -> Tensor:
    """Probabilities from logits over the states, in their precision (float32 at least); NaN is refused."""
    probs = torch.softmax(logits.double(), dim=-1)
    if bool(probs.isnan().any()):
        raise ValueError("the model gave logits that make no forecast: NaN, infinity, or -infinity for every state")
    return probs.to(torch.promote_types(logits.dtype, torch.float32))


def log_mass_of(logits_V: Tensor, token_ids: Tensor) -> Tensor:
    """The logarithm of the probability that logits over the whole vocabulary give to the states."""
    wide = logits_V.float()
    return torch.logsumexp(wide[..., token_ids], dim=-1) - torch.logsumexp(wide, dim=-1)


def try_out(states: StateLogits, name: str, steps: int) -> None:
    """Try it once on a few tokens: the logits must have the right shape, and none may depend on what comes later."""
    fed = min(steps - 1, 3) if len(states.before) else 3
    tokens_BxT = torch.arange(fed, device=states.token_ids.device).repeat(2, 1) % states.n_states
    tokens_BxT[1, -1:] = (tokens_BxT[1, -1:] + 1) % states.n_states
    ids_BxL = states.ids(tokens_BxT)
    try:
        with torch.no_grad():
            logits = logits_of(states.module(ids_BxL))
    except (IndexError, RuntimeError, TypeError) as error:
        tried = f"ids of shape {tuple(ids_BxL.shape)} up to {int(ids_BxL.max())}"
        raise ValueError(f"{name} must take token ids [batch, length]: it fails on {tried} ({error})") from error
    if logits.ndim != 3 or logits.shape[:2] != ids_BxL.shape:
        raise ValueError(f"{name} must give logits [batch, length, vocabulary], got shape {tuple(logits.shape)}")
    highest = int(states.token_ids.max())
    if logits.shape[-1] <= highest:
        raise ValueError(f"{name} gives {logits.shape[-1]} logits: token {highest}, one of the states, has none")
    states.vocabulary = logits.shape[-1]
    alike = (ids_BxL[0] == ids_BxL[1]).long().cumprod(dim=0).bool()  # up to where the two rows part
    one, other = (torch.nan_to_num(row[alike].double()) for row in logits)
    tolerance = torch.finfo(logits.dtype).eps ** 0.5
    if not torch.allclose(one, other, rtol=tolerance, atol=tolerance):
        raise ValueError(
            f"{name} looks ahead: its logits at a position change with the tokens after it, so it predicts nothing. "
            "Entry i must be the logits of what follows the ids up to i"
        )
