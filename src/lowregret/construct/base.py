"""The model underneath: any that gives probabilities or logits for every prefix, as one torch module."""

from typing import Any

import torch
from torch import Tensor, nn

from ..arrays import to_numpy
from ..predictors import FromFunction, Predictor
from ..transformer import Decoder, Transformer

GIVES = ("probabilities", "logits")
LEAST = 1e-30  # probability: a base that excludes a token has a finite logit all the same; see gadgets.excluded


class Asked(nn.Module):
    """A predictor as a module: ``tokens[B, T] -> [B, T, S]``, laws or their logarithms; entry t saw ``tokens[:, :t]``.

    >>> from lowregret import Scheduled
    >>> Asked(Scheduled([[0.9, 0.1]]))(torch.tensor([[1, 1]]))[0, :, 1].tolist()
    [0.1, 0.1]
    """

    def __init__(self, predictor: Predictor, gives: str = "probabilities") -> None:
        super().__init__()
        self.predictor, self.gives = predictor, gives

    def forward(self, tokens_BxT: Tensor) -> Tensor:
        laws = torch.tensor(to_numpy(self.predictor.predict_sequence(to_numpy(tokens_BxT))), device=tokens_BxT.device)
        return laws if self.gives == "probabilities" else torch.log(laws.clamp_min(LEAST))


def base_of(
    base: Any, gives: str | None, n_states: int | None, needs_logits: bool
) -> tuple[nn.Module, str, int | None, int | None]:
    """The base as a module, what it gives, its number of states and its context (None where it does not say)."""
    if gives not in (None, *GIVES):
        raise ValueError(f"gives must be one of {', '.join(GIVES)}, got {gives!r}")
    if gives == "probabilities" and needs_logits:
        raise ValueError("gives must be logits for an ExactTest, which bets on them, got 'probabilities'")
    if isinstance(base, Transformer):
        base = base.decoder
    if isinstance(base, Decoder):
        if gives == "probabilities":
            raise ValueError("gives must be logits for a Decoder, got 'probabilities'")
        return base, "logits", base.n_states, base.size.context
    if isinstance(base, nn.Module):
        if gives is None:
            raise ValueError(f"gives must be one of {', '.join(GIVES)} for a module such as {type(base).__name__}")
        return base, gives, getattr(base, "n_states", n_states), getattr(base, "context", None)
    if not hasattr(base, "predict_sequence"):
        raise ValueError(f"base must be a Predictor or a torch module, got {type(base).__name__}")
    gives = gives or ("logits" if needs_logits else "probabilities")
    return Asked(base, gives), gives, base.n_states, getattr(base, "context", None)


def streaming(base: nn.Module, gives: str, n_states: int) -> Predictor:
    """The base as a predictor for streams; a module of which nothing else is known sees the whole history each time."""
    if isinstance(base, Asked):
        return base.predictor
    if isinstance(base, Decoder):
        return Transformer(base)

    def law(history: Any) -> Any:
        tokens_BxT = torch.nn.functional.pad(torch.as_tensor(history), (0, 1))  # what comes next is not looked at
        with torch.no_grad():
            last_BxS = base(tokens_BxT)[:, -1]
        laws_BxS = torch.softmax(last_BxS.double(), dim=-1) if gives == "logits" else last_BxS.double()
        return laws_BxS if isinstance(history, Tensor) else laws_BxS.cpu().numpy()

    return FromFunction(law, n_states, batched=True)
