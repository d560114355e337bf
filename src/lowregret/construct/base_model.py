"""The model underneath: any that gives probabilities or logits for every prefix, as one torch module."""

import contextlib
import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import inputs
from ..abilities import ability
from ..arrays import to_numpy
from ..predictors import FromFunction, Predictor
from ..transformer import Decoder, Transformer

GIVES = ("probabilities", "logits")
LEAST = 1e-30  # probability: a base that excludes a token has a finite logit all the same


class PredictorModule(nn.Module):
    """A predictor as a module: ``tokens[B, T] -> [B, T, S]`` probabilities; entry t has seen ``tokens[:, :t]``.

    >>> from lowregret.predictors import Scheduled
    >>> PredictorModule(Scheduled([[0.9, 0.1]]))(torch.tensor([[1, 1]]))[0, :, 1].tolist()
    [0.1, 0.1]
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, tokens_BxT: Tensor) -> Tensor:
        found = to_numpy(self.predictor.predict_sequence(to_numpy(tokens_BxT)))
        return torch.tensor(found, device=tokens_BxT.device)


def base_of(base: Any, gives: str | None) -> tuple[nn.Module, str]:
    """A predictor or a module as a module, and what it gives."""
    if isinstance(base, nn.Module):
        if gives not in GIVES:
            raise ValueError(f"gives must be {' or '.join(GIVES)} for a {type(base).__name__}, got {gives!r}")
        return base, gives
    module, own = ability(base, "as_module"), "logits"
    if module is None:
        module, own = PredictorModule(base), "probabilities"
    if gives not in (None, own):
        raise ValueError(f"gives must be {own} for a {type(base).__name__}, got {gives!r}")
    return module, own


def streaming(base: nn.Module, gives: str, n_states: int) -> Predictor:
    """The base as a predictor for streams; a module of which nothing else is known sees the whole history each time."""
    if isinstance(base, PredictorModule):
        return base.predictor
    if isinstance(base, Decoder):
        return Transformer(base)
    return FromFunction(partial(_last, base, gives), n_states, batched=True)


def _last(base: nn.Module, gives: str, history: Any) -> Any:
    tokens_BxT = torch.nn.functional.pad(torch.as_tensor(history), (0, 1))  # what comes next is not looked at
    last_BxS = ask(base, tokens_BxT)[:, -1].to(tokens_BxT.device, torch.float64)
    probs_BxS = torch.softmax(last_BxS, dim=-1) if gives == "logits" else last_BxS
    return probs_BxS if isinstance(history, Tensor) else probs_BxS.numpy()


@torch.no_grad()
def ask(base: nn.Module, tokens_BxT: Tensor) -> Tensor:
    """What the base gives, where its weights are and without dropout."""
    with in_use(base):
        return base(tokens_BxT.to(device_of(base) or tokens_BxT.device))


def taken(logits: Tensor) -> Tensor:
    """Logits as the layers take them: the largest is 0, none is below ln LEAST, however they were masked or shifted."""
    return (logits - logits.amax(dim=-1, keepdim=True)).clamp_min(math.log(LEAST))


@contextlib.contextmanager
def in_use(module: nn.Module) -> Iterator[None]:
    """Inside, nothing is being trained; afterwards what was, is again."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def device_of(module: nn.Module) -> torch.device | None:
    """Where the weights are; None without any."""
    weight = next(itertools.chain(module.parameters(), module.buffers()), None)
    return None if weight is None else weight.device


def refuse_misfit(base: nn.Module, gives: str, n_states: int, horizon: int) -> None:
    """Try a module of which nothing is known on a few tokens: what it gives, and that it looks at the past alone."""
    name, T = type(base).__name__, min(horizon, 8)
    later_TxT = torch.eye(T, dtype=torch.int64)  # row t: token t is another
    tokens_BxT = (torch.arange(T) + torch.cat([0 * later_TxT[:1], later_TxT])) % n_states
    given = ask(base, tokens_BxT)
    if given.shape != (*tokens_BxT.shape, n_states):
        raise ValueError(
            f"base must give {(*tokens_BxT.shape, n_states)} for tokens {tuple(tokens_BxT.shape)}: a number for each "
            f"of {n_states} states; {name} gives {tuple(given.shape)}"
        )
    if given.isnan().any():
        raise ValueError(f"base must give numbers: {name} gives NaN")
    if gives == "probabilities":
        inputs.probs_of(given.double().cpu().numpy(), n_states, f"what {name} gives, by gives='probabilities',")
    tolerance = torch.finfo(given.dtype).eps ** 0.5
    same = partial(torch.allclose, rtol=tolerance, atol=tolerance)
    if not same(ask(base, tokens_BxT), given):
        raise ValueError(f"base must say the same when asked twice: {name} does not, even in eval mode")
    ahead = [t for t in range(T) if not same(given[t + 1, : t + 1], given[0, : t + 1])]
    if ahead:
        raise ValueError(
            f"base must not look ahead: entry {ahead[0]} of {name} changes with token {ahead[0]}, and may depend on "
            "the tokens before it only. If it gives at entry t the forecast of token t + 1, let it see BOS and all "
            "tokens but the last: pad(tokens[:, :-1], (1, 0), value=bos)"
        )
    if not same(ask(base, tokens_BxT[:, :1]), given[:, :1]):
        raise ValueError(f"base must not look ahead: entry 0 of {name} changes with the number of tokens")
