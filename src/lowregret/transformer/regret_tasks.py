"""Training on regret itself: as the loss, and as what picks the samples to imitate.

Neither knows Algorithm 1. Both see whole sequences, at home and in other worlds, and what each action would have
earned: the regret of the decoder's own responses is then a function of its laws.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import inputs
from ..predictors import same_states
from ..problems import DecisionProblem, a_problem
from . import data
from .data import Source
from .decoder import Decoder
from .recording import Recording
from .tasks import Batch, Laws, ResponseLoss, Scaled, a_source


def regrets(laws_NxTxS: Tensor, tokens_NxT: Tensor, stakes: Scaled) -> Tensor:
    """The average regret of the responses to the laws, in temperatures, ``[N]``: differentiable in the laws."""
    earns_NxTxA = stakes.utility_SxA[tokens_NxT]
    played_NxTxA = torch.softmax(laws_NxTxS @ stakes.utility_SxA, dim=-1)
    return earns_NxTxA.mean(-2).amax(-1) - (played_NxTxA * earns_NxTxA).sum(-1).mean(-1)


def _fits(source: Source, problem: Any, temperature: float) -> None:
    a_source(source)
    if isinstance(source, Recording):
        raise ValueError("source must be a Predictor: a recorded sequence may end before the horizon")
    same_states(source, a_problem(problem))
    inputs.positive(temperature, "temperature")


@dataclass(frozen=True, eq=False)
class RegretLoss:
    """Make the regret of the decoder's own responses small where it is largest (after arXiv 2403.16843).

    A batch is made of groups of ``worlds`` sequences, one from the source and the others from other worlds. The loss of
    a group is a weighted mean, sum_i f(R_i) h(R_i) / sum_i f(R_i), with f(R) = exp(c R) and h(R) = ln(1 + exp(R)). R is
    the average regret of a sequence divided by the temperature, c the ``sharpness``: as it grows, only the largest
    counts. That paper takes any such f and h, h not negative and smooth. A regret far below the others of its group is
    not made smaller by it: more of it would lower the mean.

    Parameters
    ----------
    temperature
        Of the responses that are scored; 1/sqrt(T) is the paper's.
    imitation
        How much -ln of the probability of the source's tokens counts beside it; 0: regret alone.
    """

    source: Source
    problem: DecisionProblem
    temperature: float
    worlds: int = 8
    sharpness: float = 1.0
    imitation: float = 0.0

    def __post_init__(self) -> None:
        _fits(self.source, self.problem, self.temperature)
        inputs.whole(self.worlds, "worlds", least=2)
        inputs.positive(self.sharpness, "sharpness")
        inputs.not_negative(self.imitation, "imitation")

    @property
    def n_states(self) -> int:
        return self.problem.n_states

    @property
    def stakes(self) -> ResponseLoss:
        return ResponseLoss(self.problem, self.temperature, self.imitation)

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        """Part after part, so that the rows of a process are whole groups."""
        groups = n // self.worlds
        if n % self.worlds or not len(range(groups)[rows]):
            raise ValueError(f"batch must be groups of {self.worlds} sequences, one a process at least, got {n}")
        home_GxT = data.sequences(self.source, groups, horizon, random)
        away_GxT = data.other_worlds(self.source, n - groups, horizon, random).split(groups)
        return Batch(torch.cat([part[rows] for part in (home_GxT, *away_GxT)]))

    def loss(self, decoder: Any, batch: Batch, types: tuple[torch.dtype, torch.dtype], stakes: Scaled) -> Tensor:
        """The loss summed over groups, and how many they are, ``[2]``."""
        log_law_BxTxS = F.log_softmax(decoder(batch.tokens_BxT, *types), dim=-1)
        regret_WxG = regrets(log_law_BxTxS.exp(), batch.tokens_BxT, stakes).view(self.worlds, -1)
        groups = regret_WxG.shape[1]
        loss_G = (torch.softmax(self.sharpness * regret_WxG, dim=0) * F.softplus(regret_WxG)).sum(0)
        if stakes.weight:
            home_GxTxS, tokens_GxT = log_law_BxTxS[:groups], batch.tokens_BxT[:groups]
            loss_G = loss_G - stakes.weight * home_GxTxS.gather(-1, tokens_GxT[..., None])[..., 0].mean(-1)
        return torch.stack([loss_G.sum(), torch.ones_like(loss_G).sum()])

    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        pass


@dataclass(eq=False)
class ImitateLeast:
    """Imitate the samples of oneself that had least regret, again and again (after arXiv 2511.04393).

    Every ``every`` steps the decoder predicts ``count`` fresh sequences, half from the source and half from other
    worlds. What it said of each is one sample, and ``samples`` - 1 others are the same laws with noise: the logits
    moved by a normal number a state, drawn anew at up to five random steps. The laws of the ``keep`` samples with least
    regret are what is learnt until the next time.

    Parameters
    ----------
    temperature
        Of the responses that are scored; 1/sqrt(T) is the paper's.
    noise
        The standard deviation of what moves a logit.
    """

    source: Source
    problem: DecisionProblem
    temperature: float
    samples: int = 16
    keep: int = 1
    noise: float = 0.5
    every: int = 10
    count: int = 256
    tokens_NxT: Tensor | None = field(default=None, init=False, repr=False)
    laws_NxTxS: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        _fits(self.source, self.problem, self.temperature)
        for name in ("samples", "keep", "every", "count"):
            inputs.whole(getattr(self, name), name)
        if self.keep > self.samples:
            raise ValueError(f"keep must be at most samples, {self.samples}, got {self.keep}")
        inputs.positive(self.noise, "noise")

    @property
    def n_states(self) -> int:
        return self.problem.n_states

    @property
    def stakes(self) -> None:
        return None

    @torch.no_grad()
    def before(self, step: int, decoder: Decoder, seed: int) -> None:
        if step % self.every:
            return
        random = data.generator(decoder.embedding.weight.device, seed, step, 1)
        horizon, home = decoder.size.context, self.count - self.count // 2
        parts = [data.sequences(self.source, home, horizon, random)]
        if self.count > home:
            parts.append(data.other_worlds(self.source, self.count - home, horizon, random))
        tokens_NxT = torch.cat(parts)
        sampled_LxNxTxS = noisy(decoder(tokens_NxT), self.samples, self.noise, random)
        scaled = Scaled.of(ResponseLoss(self.problem, self.temperature, 0.0), random.device)
        assert scaled is not None
        self.tokens_NxT, self.laws_NxTxS = least(sampled_LxNxTxS, tokens_NxT, scaled, self.keep)

    def batch(self, n: int, rows: slice, horizon: int, random: torch.Generator, base_laws: Laws | None) -> Batch:
        assert self.tokens_NxT is not None  # since ``before`` the first step
        assert self.laws_NxTxS is not None
        which_n = torch.randint(len(self.tokens_NxT), (n,), generator=random, device=random.device)[rows]
        return Batch(self.tokens_NxT[which_n].long(), self.laws_NxTxS[which_n])

    def state(self) -> dict[str, Tensor]:
        kept = {"tokens": self.tokens_NxT, "laws": self.laws_NxTxS}
        return {name: value for name, value in kept.items() if value is not None}

    def restore(self, state: dict[str, Tensor]) -> None:
        tokens, laws = state.get("tokens"), state.get("laws")
        if tokens is not None and laws is not None:
            shape = list(tokens.shape)
            if tokens.is_floating_point() or len(shape) != 2 or not tokens.numel():
                raise ValueError(f"tokens must be sequences of tokens, got {tokens.dtype}{shape}")
            if not 0 <= int(tokens.min()) <= int(tokens.max()) < self.n_states:
                raise ValueError(f"tokens must lie between 0 and {self.n_states - 1}, got {int(tokens.max())}")
            if list(laws.shape) != [*shape, self.n_states] or not laws.is_floating_point():
                raise ValueError(f"laws must be one for each of {shape} tokens, got {laws.dtype}{list(laws.shape)}")
        self.tokens_NxT, self.laws_NxTxS = tokens, laws


def noisy(logits_NxTxS: Tensor, samples: int, noise: float, random: torch.Generator, pieces: int = 6) -> Tensor:
    """Laws ``[L, N, T, S]``: the decoder's own, then those with logits moved, by the same over a stretch of steps."""
    (n, horizon, S), device = logits_NxTxS.shape, random.device
    moves_LxNxKxS = noise * torch.randn((samples - 1, n, pieces, S), generator=random, device=device)
    at_LxNxK = 1.5 * horizon * torch.rand((samples - 1, n, pieces - 1), generator=random, device=device)
    piece_LxNxT = (torch.arange(horizon, device=device)[:, None] >= at_LxNxK[..., None, :]).sum(-1)
    moved = moves_LxNxKxS.gather(2, piece_LxNxT[..., None].expand(-1, -1, -1, S))
    return torch.softmax(torch.cat([logits_NxTxS[None], logits_NxTxS + moved]), dim=-1)


def least(laws_LxNxTxS: Tensor, tokens_NxT: Tensor, stakes: Scaled, keep: int) -> tuple[Tensor, Tensor]:
    """Of L samples of each sequence the ``keep`` with least regret: tokens ``[keep N, T]`` and laws with them."""
    regret_LxN = torch.stack([regrets(laws_NxTxS, tokens_NxT, stakes) for laws_NxTxS in laws_LxNxTxS])
    best_KxN = regret_LxN.topk(keep, dim=0, largest=False).indices
    every_N = torch.arange(tokens_NxT.shape[0], device=tokens_NxT.device)
    return tokens_NxT.repeat(keep, 1), laws_LxNxTxS[best_KxN, every_N].flatten(0, 1)
