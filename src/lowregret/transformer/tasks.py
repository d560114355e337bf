"""What a decoder is trained to do (Section 5.2): imitate a source, or be its own robust version.

A task makes batches on the device. ``Imitate`` is BERNOULLI and POLYAURN. ``Masked`` is the paper's ROBUST: urn
sequences, kept where the test raises an alarm, with the loss masked up to that point. ``Distil`` learns the
probabilities of Algorithm 1 themselves, at every step, with any test.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor

from ..abilities import ability
from ..arrays import in_float64
from ..engine import Recovery
from ..predictors import PolyaUrn, Predictor
from ..robust import Robust
from . import data
from .data import Source
from .decoder import Decoder
from .predictor import Transformer
from .recording import Recording
from .settings import TrainingSettings

Forecast = Callable[[Tensor], Tensor]  # of the next token, [N, T] -> [N, T, S], unchecked


class Batch(NamedTuple):
    tokens_BxT: Tensor
    targets_BxTxS: Tensor | None = None  # probabilities to learn; None: the tokens themselves
    weights_BxT: Tensor | None = None  # which steps count; None: all


class Responses(NamedTuple):
    """Quantal responses that are to be learnt beside the probabilities."""

    utility_SxA: Tensor  # over the temperature
    weight: float

    @classmethod
    def of(cls, robust: Robust, weight: float, device: torch.device) -> "Responses":
        assert robust.problem is not None
        assert robust.temperature is not None
        scaled = robust.problem.utility.T / robust.temperature
        return cls(torch.tensor(scaled, dtype=torch.float32, device=device), weight)

    def divergence(self, probs_BxTxS: Tensor, targets_BxTxS: Tensor) -> Tensor:
        """How far the responses to the probabilities are from those to the targets, weighted, ``[B, T]``."""
        wanted_BxTxA = torch.softmax(targets_BxTxS @ self.utility_SxA, dim=-1)
        played_BxTxA = torch.log_softmax(probs_BxTxS @ self.utility_SxA, dim=-1)
        return self.weight * F.kl_div(played_BxTxA, wanted_BxTxA, reduction="none").sum(-1)


def loss_of(decoder: Any, batch: Batch, types: tuple[torch.dtype, torch.dtype], responses: Responses | None) -> Tensor:
    """The loss summed over the steps that count, and how many they are, ``[2]``.

    For tokens it is -ln of their probability. For targets it is the divergence of the decoder's probabilities from
    them, plus that of its response from theirs: near a tip the response turns a small error into a large one.
    """
    log_probs_BxTxS = F.log_softmax(decoder(batch.tokens_BxT, *types), dim=-1)
    if batch.targets_BxTxS is None:
        loss_BxT = -log_probs_BxTxS.gather(-1, batch.tokens_BxT[..., None])[..., 0]
    else:
        loss_BxT = F.kl_div(log_probs_BxTxS, batch.targets_BxTxS, reduction="none").sum(-1)
        if responses is not None:
            loss_BxT = loss_BxT + responses.divergence(log_probs_BxTxS.exp(), batch.targets_BxTxS)
    if batch.weights_BxT is None:
        return torch.stack([loss_BxT.sum(), torch.ones_like(loss_BxT).sum()])
    return torch.stack([(loss_BxT * batch.weights_BxT).sum(), batch.weights_BxT.sum()])


# What Algorithm 1 teaches.


def after_alarm(robust: Robust, probs_NxTxS: Tensor, tokens_NxT: Tensor) -> Tensor:
    """Which steps come after the alarm, ``[N, T]``, without a device having to wait.

    An alarm raised by token s changes the prediction of step s + 1.
    """
    with robust.streams.engine_for(probs_NxTxS) as engine:
        times_N = engine.alarm_times(in_float64(probs_NxTxS.detach()), tokens_NxT)
    return torch.arange(tokens_NxT.shape[-1], device=tokens_NxT.device) >= times_N[:, None]


def robust_probs(robust: Robust, probs_NxTxS: Tensor, tokens_NxT: Tensor) -> Tensor:
    """What Algorithm 1 predicts where its base predicts these, unchecked."""
    return robust.replaced(probs_NxTxS, tokens_NxT)[0].float()


def recovers(robust: Robust) -> bool:
    """Whether the base model can return after an alarm."""
    return isinstance(robust.setting.fallback, Recovery)


def forecast_of(predictor: Predictor) -> Forecast:
    """What a predictor predicts before each token, for tensors on any device, unchecked where it has such a way."""
    if isinstance(predictor, Transformer):
        return predictor.probs_on_device
    return ability(predictor, "laws", predictor.predict_sequence)


def fits(source: Source, robust: Robust) -> None:
    """Refuse a source and a robust model that do not go together."""
    if getattr(robust, "problem", None) is None or robust.horizon is None:
        raise ValueError(f"robust must be robustify(base, problem, horizon), for one problem, got {robust!r}")
    if source.n_states != robust.n_states:
        raise ValueError(f"source must have the problem's {robust.n_states} states, got {source.n_states}")


class Task(ABC):
    """What is learnt; a task of your own inherits from this."""

    source: Source

    @property
    def n_states(self) -> int:
        return self.source.n_states

    @abstractmethod
    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base: Forecast | None) -> Batch:
        """A batch of ``n``, or of each of its parts these ``rows``: drawn alike however many processes share it.

        ``base`` is the base model's forecast as training computes it; None: as the base model itself does.
        """

    def before(self, step: int, decoder: Decoder, settings: TrainingSettings) -> None:  # noqa: B027 - optional
        """Called before every step, with the decoder as it is then."""

    def responses(self, device: torch.device) -> Responses | None:
        """The responses that are to be learnt beside the probabilities; None: none."""
        return None

    @property
    def replayable(self) -> bool:
        """Whether each of its batches is made by the same operations on a device, so that a step can be replayed."""
        return False

    def state(self) -> dict[str, Tensor]:
        """What must be saved to continue later."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:  # noqa: B027 - optional
        """The reverse of ``state``; with nothing in it, as new."""


@final
@dataclass(frozen=True, eq=False)
class Imitate(Task):
    """Predict the next token of a source; with ``soft``, learn the source's probabilities.

    Of a ``Recording`` it learns windows as long as the context, each within one sequence; sequences that are shorter
    are learnt from as far as they go.

    >>> from lowregret import PolyaUrn
    >>> random = data.generator("cpu", 0)
    >>> Imitate(PolyaUrn(3)).batch(4, slice(None), 16, random, None).tokens_BxT.shape
    torch.Size([4, 16])
    """

    source: Source
    soft: bool = False

    def __post_init__(self) -> None:
        if self.soft and isinstance(self.source, Recording):
            raise ValueError("soft must be False: a recording has tokens, and not the probabilities behind them")

    @property
    def replayable(self) -> bool:
        return data.drawn_at_once(self.source)

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base: Forecast | None) -> Batch:
        if isinstance(self.source, Recording):
            tokens_BxT, own_BxT = (part[rows] for part in self.source.windows(n, horizon, random))
            return Batch(tokens_BxT, None, own_BxT)
        tokens_BxT = data.sequences(self.source, n, horizon, random)[rows]
        return Batch(tokens_BxT, forecast_of(self.source)(tokens_BxT).float() if self.soft else None)


@final
@dataclass(frozen=True, eq=False)
class Masked(Task):
    """The paper's ROBUST: half the batch from the source, half urn sequences that count from the alarm on.

    An urn sequence without an alarm counts nowhere. The base model runs on the urn half only.
    """

    source: Source
    robust: Robust

    def __post_init__(self) -> None:
        fits(self.source, self.robust)
        if recovers(self.robust):
            raise ValueError(
                "robust must fall back on what goes by the tokens alone, such as PolyaUrn: what Masked learns after "
                "the alarm are the tokens of an urn. Distil learns Recovery"
            )

    @property
    def replayable(self) -> bool:
        urn = isinstance(self.robust.setting.fallback, PolyaUrn)
        return urn and data.drawn_at_once(self.source) and isinstance(self.robust.base, Transformer)

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base: Forecast | None) -> Batch:
        half = n // 2
        home_BxT, own_BxT = (part[rows] for part in data.windows(self.source, n - half, horizon, random))
        away_BxT = data.sequences(PolyaUrn(self.n_states), half, horizon, random)[rows]
        weights_BxT = torch.cat([own_BxT, torch.ones((len(away_BxT), horizon), device=random.device)])
        if len(away_BxT):
            probs_BxTxS = (base or forecast_of(self.robust.base))(away_BxT)
            weights_BxT[len(home_BxT) :] = after_alarm(self.robust, probs_BxTxS, away_BxT)
        return Batch(torch.cat([home_BxT, away_BxT]), None, weights_BxT)


@final
@dataclass(eq=False)
class Distil(Task):
    """Learn Algorithm 1: the base model's forecast until the alarm, the fallback's from then on, at every step.

    Half the batch comes from the source, which may be a ``Recording``, or the base model itself where there is nothing
    else that is like what it learnt from; the rest are other worlds and, every ``play_every`` steps anew, what the
    greedy adversary plays against the student itself. Where the fallback is ``Recovery``, half of the other worlds end
    at home again.

    The teacher goes from token to token where the fallback is ``Recovery``, which takes as long for one sequence as for
    thousands: it is asked once for the batches of ``play_every`` steps.

    Parameters
    ----------
    response_weight
        How much the responses count beside the probabilities: they are where a small error of a forecast is a large one
        in regret.
    play_share
        How much of a batch comes from the pool of played sequences; 0: none are played.
    pool
        How many played sequences are kept, the latest.
    """

    source: Source
    robust: Robust
    response_weight: float = 0.1
    play_share: float = 0.25
    play_every: int = 100
    play_count: int = 256
    pool: int = 2048
    played_NxT: Tensor | None = field(default=None, init=False, repr=False)
    _now: tuple[int, TrainingSettings] | None = field(default=None, init=False, repr=False)  # the step that comes
    _lesson: tuple[tuple[Any, ...], list[Batch]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        fits(self.source, self.robust)
        if not 0 <= self.play_share <= 0.5:
            raise ValueError(f"play_share must lie between 0 and 0.5, got {self.play_share!r}")

    def responses(self, device: torch.device) -> Responses | None:
        return Responses.of(self.robust, self.response_weight, device) if self.response_weight else None

    def before(self, step: int, decoder: Decoder, settings: TrainingSettings) -> None:
        self._now = step, settings
        if not self.play_share or step % self.play_every:
            return
        assert self.robust.problem is not None
        assert self.robust.temperature is not None
        random, T = data.generator(decoder.embedding.weight.device, settings.seed, step, 1), settings.size.context
        home_NxT = data.sequences(self.source, self.play_count, T, random)
        greedy = data.greedy_choice(home_NxT, self.robust.problem.utility, self.robust.temperature, random)
        fresh_NxT = data.roll(decoder, self.play_count, T, greedy)
        kept = [] if self.played_NxT is None else [self.played_NxT]
        self.played_NxT = torch.cat([*kept, fresh_NxT])[-self.pool :]

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base: Forecast | None) -> Batch:
        if self._now is None:
            return self._taught([self._drawn(n, rows, horizon, random)], base)[0]
        step, settings = self._now
        first = step - step % self.play_every
        made_for = (first, settings, n, rows, horizon, random.device)
        if self._lesson is None or self._lesson[0] != made_for:
            self._lesson = None  # its memory is free for the next
            steps = range(first, min(first + self.play_every, settings.steps))
            randoms = (data.generator(random.device, settings.seed, at, 0) for at in steps)
            drawn = [self._drawn(n, rows, horizon, random) for random in randoms]
            self._lesson = made_for, self._taught(drawn, base)
        return self._lesson[1][step - first]

    def _drawn(self, n: int, rows: slice, horizon: int, random: torch.Generator) -> Batch:
        """A batch without targets yet."""
        half = n - n // 2
        from_pool = min(n - half, round(n * self.play_share)) if self.played_NxT is not None else 0
        home = data.windows(self.source, half, horizon, random)
        parts = [home.tokens_NxT]
        if others := n - half - from_pool:
            parts.append(data.other_worlds(self.source, others, horizon, random))
            if recovers(self.robust):
                again_NxT = data.sequences(self.source, others, horizon, random)
                parts[-1] = data.back_home(parts[-1], again_NxT, random)
        if from_pool:
            assert self.played_NxT is not None
            which = torch.randint(len(self.played_NxT), (from_pool,), generator=random, device=random.device)
            parts.append(self.played_NxT[which])
        tokens_BxT = torch.cat([part[rows] for part in parts])
        weights_BxT = None
        if isinstance(self.source, Recording):  # after the end of a recorded sequence nothing is known
            weights_BxT = torch.ones(tokens_BxT.shape, device=random.device)
            weights_BxT[: len(home.own_NxT[rows])] = home.own_NxT[rows]
        return Batch(tokens_BxT, None, weights_BxT)

    def _taught(self, drawn: list[Batch], base: Forecast | None) -> list[Batch]:
        """With targets; the base model is asked batch by batch, Algorithm 1 once."""
        ask, tokens_NxT = base or forecast_of(self.robust.base), torch.cat([batch.tokens_BxT for batch in drawn])
        probs_NxTxS = torch.cat([ask(batch.tokens_BxT) for batch in drawn])
        targets = robust_probs(self.robust, probs_NxTxS, tokens_NxT).split(len(drawn[0].tokens_BxT))
        return [batch._replace(targets_BxTxS=part) for batch, part in zip(drawn, targets, strict=True)]

    def state(self) -> dict[str, Tensor]:
        return {} if self.played_NxT is None else {"played": self.played_NxT}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.played_NxT, self._now, self._lesson = state.get("played"), None, None
