"""What a decoder is trained to do (Section 5.2): imitate a source, or be its own robust version.

A task makes batches on the device. ``Imitate`` is BERNOULLI and POLYAURN. ``Masked`` is the paper's ROBUST: urn
sequences, kept where the test raises an alarm, with the loss masked up to that point. ``Distil`` learns the laws of
Algorithm 1 themselves, at every step, with any test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import inputs
from ..abilities import ability
from ..arrays import in_float64
from ..engine import Recovery
from ..predictors import PolyaUrn, Predictor, Scheduled, same_states
from ..problems import DecisionProblem
from ..robust import Robust
from . import data
from .data import Source
from .decoder import Decoder
from .predictor import Transformer
from .recording import Recording

# What a decoder is to say where Algorithm 1 is its teacher, and what fits together for that.


Laws = Callable[[Tensor], Tensor]  # of the next token, [N, T] -> [N, T, S], unchecked


def after_alarm(robust: Robust, laws_NxTxS: Tensor, tokens_NxT: Tensor) -> Tensor:
    """Which steps come after the alarm, ``[N, T]``: one raised by token s changes the prediction of step s + 1."""
    with robust.streams.engine_for(laws_NxTxS) as engine:
        times_N = engine.alarm_times(in_float64(laws_NxTxS.detach()), tokens_NxT)
    return torch.arange(tokens_NxT.shape[-1], device=tokens_NxT.device) >= times_N[:, None]


def robust_laws(robust: Robust, laws_NxTxS: Tensor, tokens_NxT: Tensor) -> Tensor:
    """Algorithm 1's laws from the base model's, unchecked; unless that recovers, no device has to wait for it."""
    if recovers(robust):
        return robust.replaced(laws_NxTxS, tokens_NxT)[0].float()
    fallback: Any = robust.setting.fallback
    late_NxT = after_alarm(robust, laws_NxTxS, tokens_NxT)
    return torch.where(late_NxT[..., None], laws_of(fallback)(tokens_NxT), laws_NxTxS).float()


def recovers(robust: Robust) -> bool:
    """Whether the base model can return after an alarm."""
    return isinstance(robust.setting.fallback, Recovery)


def laws_of(predictor: Predictor) -> Laws:
    """What a predictor says before each token, for tensors on any device, unchecked where it has such a way."""
    if isinstance(predictor, Transformer):
        return predictor.laws_on_device
    return ability(predictor, "laws", predictor.predict_sequence)


def fits(source: Source, robust: Robust) -> None:
    """Refuse a source and a robust model that do not go together."""
    if not isinstance(robust, Robust) or robust.problem is None or robust.horizon is None:
        raise ValueError(f"robust must be robustify(base, problem, horizon), for one problem, got {robust!r}")
    a_source(source)
    if not isinstance(source, Recording):
        same_states(source, robust.problem)
    elif source.n_states != robust.n_states:
        raise ValueError(f"source must have the problem's {robust.n_states} states, got {source!r}")


def refuse_play(distil: Any) -> None:
    """Refuse settings of a distillation by which nothing could be played, or counted."""
    inputs.not_negative(distil.response_weight, "response_weight")
    if not 0 <= inputs.not_negative(distil.play_share, "play_share") <= 0.5:
        raise ValueError(f"play_share must lie between 0 and 0.5, got {distil.play_share!r}")
    for name in ("play_every", "play_count", "pool"):
        inputs.whole(getattr(distil, name), name)


def a_source(thing: Any) -> None:
    """Refuse what is neither a predictor nor a recording."""
    if not isinstance(thing, Recording) and not hasattr(thing, "predict_sequence"):
        raise ValueError(f"source must be a Predictor, got {thing!r}")


class Batch(NamedTuple):
    tokens_BxT: Tensor
    targets_BxTxS: Tensor | None = None  # laws to learn; None: the tokens themselves
    weights_BxT: Tensor | None = None  # which steps count; None: all


class ResponseLoss(NamedTuple):
    problem: DecisionProblem
    temperature: float
    weight: float  # beside the loss of the laws

    @classmethod
    def of(cls, robust: Robust, weight: float) -> "ResponseLoss":
        assert robust.problem is not None
        assert robust.temperature is not None
        return cls(robust.problem, robust.temperature, weight)


@runtime_checkable
class Task(Protocol):
    """What training asks of a task."""

    @property
    def n_states(self) -> int: ...

    @property
    def stakes(self) -> "ResponseLoss | None":
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


class _Stateless:
    """A task that remembers nothing and plays nothing."""

    stakes: ResponseLoss | None = None

    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        pass


@dataclass(frozen=True, eq=False)
class Imitate(_Stateless):
    """Predict the next token of a source, or of a recording; with ``soft``, learn the laws it draws them from.

    >>> from lowregret import PolyaUrn
    >>> random = data.generator("cpu", 0)
    >>> Imitate(PolyaUrn(3)).batch(4, slice(None), 16, random, None).tokens_BxT.shape
    torch.Size([4, 16])
    """

    source: Source
    soft: bool = False

    def __post_init__(self) -> None:
        a_source(self.source)
        if self.soft and isinstance(self.source, Recording):
            raise ValueError("soft must be False: a recording has tokens, and not the laws behind them")

    @classmethod
    def from_tokens(
        cls,
        tokens: Any,
        *,
        n_states: int | None = None,
        states: Sequence[str] | None = None,
        held_out: float = 0.1,
    ) -> "Imitate":
        """Learn from sequences of your own, of any lengths: random windows as long as the decoder's context.

        A window lies within one sequence. Sequences shorter than the context are learnt from as far as they go.

        Parameters
        ----------
        tokens
            An array ``[N, T]`` or ``[T]``, a list of sequences, or a file: .npy with such an array; .csv or .txt with a
            sequence a line, whole numbers or names with commas, semicolons or blanks between them (if every line has
            one token, they are one sequence).
        n_states
            How many states there are; as many as there are names, or by the largest number, if not given.
        states
            Their names, in order, by which tokens are then given (``problems.Names``); those of the file in the order
            of the alphabet, if not given.
        held_out
            The share of the recording to keep for ``measured``: the last sequences, or of a few sequences the
            last steps of each. 0: none.

        >>> Imitate.from_tokens([[0, 1, 1, 0, 1] * 20] * 3).source
        Recording(3 sequences, 300 tokens, 2 states)
        """
        return cls(Recording.of(tokens, n_states=n_states, states=states, held_out=held_out))

    @property
    def n_states(self) -> int:
        return self.source.n_states

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        if isinstance(self.source, Recording):
            tokens_BxT, own_BxT = (part[rows] for part in self.source.windows(n, horizon, random))
            return Batch(tokens_BxT, None, own_BxT)
        tokens_BxT = data.sequences(self.source, n, horizon, random)[rows]
        return Batch(tokens_BxT, laws_of(self.source)(tokens_BxT).float() if self.soft else None)


@dataclass(frozen=True, eq=False)
class Masked(_Stateless):
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
    def n_states(self) -> int:
        return self.source.n_states

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        half = n // 2
        home_BxT, own_BxT = (part[rows] for part in data.at_home(self.source, n - half, horizon, random))
        away_BxT = data.sequences(PolyaUrn(self.n_states), half, horizon, random)[rows]
        weights_BxT = torch.cat([own_BxT, torch.ones((len(away_BxT), horizon), device=random.device)])
        if len(away_BxT):
            laws_BxTxS = (base_laws or laws_of(self.robust.base))(away_BxT)
            weights_BxT[len(home_BxT) :] = after_alarm(self.robust, laws_BxTxS, away_BxT)
        return Batch(torch.cat([home_BxT, away_BxT]), None, weights_BxT)


class Drawn(NamedTuple):
    """A batch whose teacher has not spoken yet."""

    tokens_BxT: Tensor
    weights_BxT: Tensor | None


class Lesson(NamedTuple):
    """The batches of steps one after the other, each as its step alone would draw it."""

    made_for: tuple[Any, ...]  # the first of the steps, and all else that decides what is drawn
    batches: list[Batch]


@dataclass(eq=False)
class Distil:
    """Learn Algorithm 1: the base model's law until the alarm, the fallback's from then on, at every step.

    Half the batch comes from the source, which may be a ``Recording``, or the base model itself where there is nothing
    else that is like what it learnt from; the rest are other worlds and, every ``play_every`` steps anew, what the
    greedy adversary plays against the student itself. Where the fallback is ``Recovery``, half of the other worlds end
    at home again.

    ``Recovery`` goes from token to token, which takes as long for one sequence as for thousands: training has it speak
    for the batches of ``play_every`` steps at once.

    Parameters
    ----------
    response_weight
        How much the responses count beside the laws: they are where a small error in a law is a large one in regret.
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

    def __post_init__(self) -> None:
        fits(self.source, self.robust)
        refuse_play(self)
        self._now: tuple[int, int] | None = None  # the step and the seed of the run that it serves
        self._lesson: Lesson | None = None

    @property
    def n_states(self) -> int:
        return self.source.n_states

    @property
    def stakes(self) -> ResponseLoss | None:
        return ResponseLoss.of(self.robust, self.response_weight) if self.response_weight else None

    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        self._now = step, seed
        if not self.play_share or step % self.play_every:
            return
        random = data.generator(decoder.embedding.weight.device, seed, step, 1)
        problem, temperature, _ = ResponseLoss.of(self.robust, 0.0)
        fresh_NxT = data.greedy_play(decoder, self.source, problem.utility, temperature, self.play_count, random).to(
            torch.uint8 if self.n_states <= 256 else torch.int64
        )
        kept = [] if self.played_NxT is None else [self.played_NxT]
        played_NxT = torch.cat([*kept, fresh_NxT])[-self.pool :]
        if self.played_NxT is not None and self.played_NxT.shape == played_NxT.shape:
            self.played_NxT.copy_(played_NxT)  # where a step that was recorded reads it
        else:
            self.played_NxT = played_NxT

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        if not recovers(self.robust) or self._now is None:
            return self._taught([self._drawn(n, rows, horizon, random)], base_laws)[0]
        step, seed = self._now
        first = step - step % self.play_every
        made_for = (first, seed, n, rows, horizon, random.device)
        if self._lesson is None or self._lesson.made_for != made_for:
            self._lesson = None  # its memory is free for the next
            steps = range(first, first + self.play_every)
            drawn = [self._drawn(n, rows, horizon, data.of_step(random.device, seed, at)) for at in steps]
            self._lesson = Lesson(made_for, self._taught(drawn, base_laws))
        return self._lesson.batches[step - first]

    def _drawn(self, n: int, rows: slice, horizon: int, random: torch.Generator) -> Drawn:
        half = n - n // 2
        from_pool = min(n - half, round(n * self.play_share)) if self.played_NxT is not None else 0
        home = data.at_home(self.source, half, horizon, random)
        parts = [home.tokens_NxT]
        if others := n - half - from_pool:
            parts.append(data.other_worlds(self.source, others, horizon, random))
            if recovers(self.robust):
                again_NxT = data.sequences(self.source, others, horizon, random)
                parts[-1] = data.back_home(parts[-1], again_NxT, random)
        if from_pool:
            assert self.played_NxT is not None
            if self.played_NxT.shape[1] != horizon:
                raise ValueError(f"played must be sequences of {horizon} tokens, got {self.played_NxT.shape[1]}")
            which = torch.randint(len(self.played_NxT), (from_pool,), generator=random, device=random.device)
            parts.append(self.played_NxT[which].long())
        tokens_BxT = torch.cat([part[rows] for part in parts])
        weights_BxT = None
        if isinstance(self.source, Recording):  # after the end of a recorded sequence nothing is known
            weights_BxT = torch.ones(tokens_BxT.shape, device=random.device)
            weights_BxT[: len(home.own_NxT[rows])] = home.own_NxT[rows]
        return Drawn(tokens_BxT, weights_BxT)

    def _taught(self, drawn: list[Drawn], base_laws: Laws | None) -> list[Batch]:
        """What the teacher says in these batches; the base model is asked batch by batch."""
        tokens_NxT, asked = torch.cat([part.tokens_BxT for part in drawn]), base_laws or laws_of(self.robust.base)
        laws_NxTxS = torch.cat([asked(part.tokens_BxT) for part in drawn])
        taught = robust_laws(self.robust, laws_NxTxS, tokens_NxT).split(len(drawn[0].tokens_BxT))
        return [Batch(part.tokens_BxT, laws, part.weights_BxT) for part, laws in zip(drawn, taught, strict=True)]

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
        self.played_NxT = None if played is None else played.clone()  # to be written over
        self._now, self._lesson = None, None


def repeats(task: Any) -> bool:
    """Whether each of its batches is made by the same operations on a device, so that a step can be replayed."""
    if type(task) not in (Imitate, Masked, Distil):
        return False
    source, robust = task.source, getattr(task, "robust", None)
    drawn = isinstance(source, Scheduled) or (isinstance(source, PolyaUrn) and source.prior == 1)
    if robust is None or not drawn:
        return drawn
    return isinstance(robust.base, Transformer) and isinstance(robust.setting.fallback, PolyaUrn)


# What a decoder is punished for: wrong tokens, wrong laws, and responses that a wrong law leads to.


def loss_of(decoder: Any, batch: Batch, types: tuple[torch.dtype, torch.dtype], stakes: "Scaled | None") -> Tensor:
    """The loss summed over the steps that count, and how many they are, ``[2]``.

    For tokens it is -ln of their probability. For laws it is the divergence of the decoder's law from them, plus that
    of its response from theirs, weighted: near a tip the response turns a small error of a law into a large one.
    """
    log_law_BxTxS = F.log_softmax(decoder(batch.tokens_BxT, *types), dim=-1)
    if batch.targets_BxTxS is None:
        loss_BxT = -log_law_BxTxS.gather(-1, batch.tokens_BxT[..., None])[..., 0]
    else:
        loss_BxT = F.kl_div(log_law_BxTxS, batch.targets_BxTxS, reduction="none").sum(-1)
        if stakes is not None:
            loss_BxT = loss_BxT + of_responses(log_law_BxTxS.exp(), batch.targets_BxTxS, stakes)
    if batch.weights_BxT is None:
        return torch.stack([loss_BxT.sum(), torch.ones_like(loss_BxT).sum()])
    return torch.stack([(loss_BxT * batch.weights_BxT).sum(), batch.weights_BxT.sum()])


def of_responses(laws_BxTxS: Tensor, targets_BxTxS: Tensor, stakes: "Scaled") -> Tensor:
    """How far the responses to the laws are from those to the targets, weighted, ``[B, T]``."""
    wanted_BxTxA = torch.softmax(targets_BxTxS @ stakes.utility_SxA, dim=-1)
    played_BxTxA = torch.log_softmax(laws_BxTxS @ stakes.utility_SxA, dim=-1)
    return stakes.weight * F.kl_div(played_BxTxA, wanted_BxTxA, reduction="none").sum(-1)


class Scaled(NamedTuple):
    """``ResponseLoss`` on the device: utilities over the temperature."""

    utility_SxA: Tensor
    weight: float

    @classmethod
    def of(cls, stakes: ResponseLoss | None, device: torch.device) -> "Scaled | None":
        if stakes is None:
            return None
        scaled = stakes.problem.utility.T / stakes.temperature
        return cls(torch.tensor(scaled, dtype=torch.float32, device=device), stakes.weight)
