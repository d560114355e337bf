"""What a decoder is trained to do (Section 5.2): imitate a source, or be its own robust version.

A task makes batches on the device. ``Imitate`` is BERNOULLI and POLYAURN. ``Masked`` is the paper's ROBUST: urn
sequences, kept where the base model's regret exceeds the rule, with the loss masked up to that point. ``Distil`` learns
the laws of Algorithm 1 themselves, at every step, with any rule.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from .. import inputs
from ..abilities import ability
from ..predictors import PolyaUrn, Predictor, same_states
from ..problems import DecisionProblem
from ..robust import Robust
from ..rules import ResponseRule, spliced
from . import data
from .decoder import Decoder
from .predictor import Transformer

Laws = Callable[[Tensor], Tensor]  # of the next token, [N, T] -> [N, T, S], unchecked


class Batch(NamedTuple):
    tokens_BxT: Tensor
    targets_BxTxS: Tensor | None = None  # laws to learn; None: the tokens themselves
    weights_BxT: Tensor | None = None  # which steps count; None: all


class Stakes(NamedTuple):
    problem: DecisionProblem
    temperature: float
    weight: float  # beside the loss of the laws


@runtime_checkable
class Task(Protocol):
    """What training asks of a task."""

    @property
    def n_states(self) -> int: ...

    @property
    def stakes(self) -> "Stakes | None":
        """The responses that are to be learnt beside the laws; None: laws only."""
        ...

    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        """Called before every step, with the decoder as it is then."""
        ...

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        """A batch of ``n``, or of each of its parts these ``rows``: drawn alike however many processes share it."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What must be saved to go on later."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None: ...


class _Plain:
    """A task that remembers nothing and plays nothing."""

    stakes: Stakes | None = None

    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        pass


@dataclass(frozen=True, eq=False)
class Imitate(_Plain):
    """Predict the next token of a source; with ``soft``, learn the laws it draws them from.

    >>> from lowregret import PolyaUrn
    >>> random = data.generator("cpu", 0)
    >>> Imitate(PolyaUrn(3)).batch(4, slice(None), 16, random, None).tokens_BxT.shape
    torch.Size([4, 16])
    """

    source: Predictor
    soft: bool = False

    def __post_init__(self) -> None:
        _a_predictor(self.source, "source")

    @property
    def n_states(self) -> int:
        return self.source.n_states

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        tokens_BxT = data.sequences(self.source, n, horizon, random)[rows]
        return Batch(tokens_BxT, laws_of(self.source)(tokens_BxT).float() if self.soft else None)


@dataclass(frozen=True, eq=False)
class Masked(_Plain):
    """The paper's ROBUST: half the batch from the source, half urn sequences that count from the trip of the rule on.

    An urn sequence on which the rule never trips counts nowhere. The base model runs on the urn half only.
    """

    source: Predictor
    base: Predictor
    rule: ResponseRule

    def __post_init__(self) -> None:
        _fits(self.source, self.base, self.rule)

    @property
    def n_states(self) -> int:
        return self.source.n_states

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        half = n // 2
        home_BxT = data.sequences(self.source, n - half, horizon, random)[rows]
        away_BxT = data.sequences(PolyaUrn(self.n_states), half, horizon, random)[rows]
        weights_BxT = torch.ones((len(home_BxT) + len(away_BxT), horizon), device=random.device)
        if len(away_BxT):
            laws_BxTxS = (base_laws or laws_of(self.base))(away_BxT)
            weights_BxT[len(home_BxT) :] = after_trip(self.rule, laws_BxTxS, away_BxT)
        return Batch(torch.cat([home_BxT, away_BxT]), None, weights_BxT)


@dataclass(eq=False)
class Distil:
    """Learn Algorithm 1: the base model's law until the rule trips, the fallback's from then on, at every step.

    Half the batch comes from the source; the rest are other worlds and, every ``play_every`` steps anew, what the
    greedy adversary plays against the student itself.

    Parameters
    ----------
    response_weight
        How much the responses count beside the laws: they are where a small error in a law is a large one in regret.
    play_share
        How much of a batch comes from the pool of played sequences; 0: none are played.
    pool
        How many played sequences are kept, the latest.
    """

    source: Predictor
    base: Predictor
    rule: ResponseRule
    response_weight: float = 0.1
    play_share: float = 0.25
    play_every: int = 100
    play_count: int = 256
    pool: int = 2048
    played_NxT: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        _fits(self.source, self.base, self.rule)
        inputs.not_negative(self.response_weight, "response_weight")
        if not 0 <= inputs.not_negative(self.play_share, "play_share") <= 0.5:
            raise ValueError(f"play_share must lie between 0 and 0.5, got {self.play_share!r}")
        for name in ("play_every", "play_count", "pool"):
            inputs.whole(getattr(self, name), name)

    @property
    def n_states(self) -> int:
        return self.source.n_states

    @property
    def stakes(self) -> Stakes | None:
        return Stakes(self.rule.problem, self._temperature, self.response_weight) if self.response_weight else None

    @property
    def _temperature(self) -> float:
        assert self.rule.temperature is not None
        return self.rule.temperature

    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        if not self.play_share or step % self.play_every:
            return
        random = data.generator(decoder.embedding.weight.device, seed, step, 1)
        fresh_NxT = data.greedy_play(
            decoder, self.source, self.rule.problem.utility, self._temperature, self.play_count, random
        ).to(torch.uint8 if self.n_states <= 256 else torch.int64)
        kept = [] if self.played_NxT is None else [self.played_NxT]
        self.played_NxT = torch.cat([*kept, fresh_NxT])[-self.pool :]

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        half = n - n // 2
        from_pool = min(n - half, round(n * self.play_share)) if self.played_NxT is not None else 0
        parts = [data.sequences(self.source, half, horizon, random)]
        if n - half - from_pool:
            parts.append(data.other_worlds(self.source, n - half - from_pool, horizon, random))
        if from_pool:
            assert self.played_NxT is not None
            if self.played_NxT.shape[1] != horizon:
                raise ValueError(f"played must be sequences of {horizon} tokens, got {self.played_NxT.shape[1]}")
            which = torch.randint(len(self.played_NxT), (from_pool,), generator=random, device=random.device)
            parts.append(self.played_NxT[which].long())
        tokens_BxT = torch.cat([part[rows] for part in parts])
        return Batch(tokens_BxT, robust_laws(self.rule, (base_laws or laws_of(self.base))(tokens_BxT), tokens_BxT))

    def state(self) -> dict[str, Tensor]:
        return {} if self.played_NxT is None else {"played": self.played_NxT}

    def restore(self, state: dict[str, Tensor]) -> None:
        played = state.get("played")
        if played is not None:
            kind, shape = played.dtype, list(played.shape)
            if kind not in (torch.uint8, torch.int64) or len(shape) != 2 or not played.numel():
                raise ValueError(f"played must be sequences of tokens, got {kind}{shape}")
            if not 0 <= int(played.min()) <= int(played.max()) < self.n_states:
                raise ValueError(f"played must hold tokens from 0 to {self.n_states - 1}, got {int(played.max())}")
        self.played_NxT = played


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


def _fits(source: Predictor, base: Predictor, rule: ResponseRule) -> None:
    if not isinstance(rule, ResponseRule):
        raise ValueError(f"rule must be a Rule such as ExactTest, got {type(rule).__name__}")
    _a_predictor(source, "source")
    _a_predictor(base, "base")
    same_states(source, rule.problem)
    Robust(base, rule)  # refuses what does not fit
    if rule.in_play.follows:
        raise ValueError("rule must fall back on what goes by the tokens alone, such as PolyaUrn: Recovery does not")
    if rule.horizon is None:
        raise ValueError("rule must have a horizon: a decoder has a context of so many tokens")


def _a_predictor(thing: Any, name: str) -> None:
    if not hasattr(thing, "predict_sequence"):
        raise ValueError(f"{name} must be a Predictor, got {thing!r}")
