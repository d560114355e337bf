"""What a decoder is to say where Algorithm 1 is its teacher, and what fits together for that."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import inputs
from ..abilities import ability
from ..predictors import Predictor, same_states
from ..robust import Robust
from ..rules import ResponseRule, spliced
from .data import Source
from .predictor import Transformer
from .recording import Recording

Laws = Callable[[Tensor], Tensor]  # of the next token, [N, T] -> [N, T, S], unchecked


def after_trip(rule: ResponseRule, laws_NxTxS: Tensor, tokens_NxT: Tensor) -> Tensor:
    """Which steps come after the rule tripped, ``[N, T]``: a trip at s changes the prediction of step s + 1."""
    times_N = rule.first_trips(laws_NxTxS, tokens_NxT)
    return torch.arange(tokens_NxT.shape[-1], device=tokens_NxT.device) >= times_N[:, None]


def robust_laws(rule: ResponseRule, laws_NxTxS: Tensor, tokens_NxT: Tensor) -> Tensor:
    """Algorithm 1's laws from the base model's, unchecked."""
    fallback: Any = rule.fallback
    late_NxT = after_trip(rule, laws_NxTxS, tokens_NxT)
    return spliced(late_NxT, laws_of(fallback)(tokens_NxT), laws_NxTxS).float()


def laws_of(predictor: Predictor) -> Laws:
    """What a predictor says before each token, for tensors on any device, unchecked where it has such a way."""
    if isinstance(predictor, Transformer):
        return predictor.laws_on_device
    return ability(predictor, "laws", predictor.predict_sequence)


def fits(source: Source, base: Predictor, rule: ResponseRule) -> None:
    """Refuse a source, a base model and a rule that do not go together."""
    if not isinstance(rule, ResponseRule):
        raise ValueError(f"rule must be a Rule such as ExactTest, got {type(rule).__name__}")
    a_source(source)
    _a_predictor(base, "base")
    if not isinstance(source, Recording):
        same_states(source, rule.problem)
    elif source.n_states != rule.problem.n_states:
        raise ValueError(f"source must have the problem's {rule.problem.n_states} states, got {source!r}")
    Robust(base, rule)  # refuses what does not fit
    if rule.in_play.follows:
        raise ValueError("rule must fall back on what goes by the tokens alone, such as PolyaUrn: Recovery does not")
    if rule.horizon is None:
        raise ValueError("rule must have a horizon: a decoder has a context of so many tokens")


def refuse_play(distil: Any) -> None:
    """Refuse settings of a distillation by which nothing could be played, or counted."""
    inputs.not_negative(distil.response_weight, "response_weight")
    if not 0 <= inputs.not_negative(distil.play_share, "play_share") <= 0.5:
        raise ValueError(f"play_share must lie between 0 and 0.5, got {distil.play_share!r}")
    for name in ("play_every", "play_count", "pool"):
        inputs.whole(getattr(distil, name), name)


def a_source(thing: Any) -> None:
    """Refuse what is neither a predictor nor a recording."""
    if not isinstance(thing, Recording):
        _a_predictor(thing, "source")


def _a_predictor(thing: Any, name: str) -> None:
    if not hasattr(thing, "predict_sequence"):
        raise ValueError(f"{name} must be a Predictor, got {thing!r}")
