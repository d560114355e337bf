"""Where training sequences come from: a source, and other worlds. All are drawn on the device."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..arrays import to_numpy
from ..predictors import PolyaUrn, Predictor, Scheduled, sample
from .decoder import Decoder
from .predictor import Extending, Transformer
from .recording import Recording, Windows

Source = Predictor | Recording


def generator(device: torch.device | str, *numbers: int) -> torch.Generator:
    """A generator on the device that depends on these numbers only: step 70 draws the same after any restart."""
    return reseeded(torch.Generator(device), *numbers)


def reseeded(random: torch.Generator, *numbers: int) -> torch.Generator:
    """The same generator, as if it were new."""
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return random.manual_seed(int(state) >> 1)


def draw(probs_xTxS: Tensor, n: int, random: torch.Generator) -> Tensor:
    """Independent tokens ``[n, T]`` with probabilities ``[T, S]`` or ``[n, T, S]``."""
    uniforms_NxT = torch.rand((n, probs_xTxS.shape[-2]), generator=random, device=random.device)
    if probs_xTxS.shape[-1] == 2:  # many times quicker on a GPU than a sum over one
        return (uniforms_NxT >= probs_xTxS[..., 0]).long()
    return (uniforms_NxT[..., None] >= probs_xTxS[..., :-1].cumsum(-1)).sum(-1)


def dirichlet(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Distributions drawn uniformly from the simplex; the last axis of ``shape`` is the states'."""
    weights = torch.empty(shape, device=random.device).exponential_(generator=random)
    return weights / weights.sum(-1, keepdim=True)


def windows(source: Source, n: int, horizon: int, random: torch.Generator) -> Windows:
    """``n`` sequences of the source, and which of their steps are its own: all, but after the end of a recorded one."""
    if isinstance(source, Recording):
        return source.windows(n, horizon, random)
    tokens_NxT = sequences(source, n, horizon, random)
    return Windows(tokens_NxT, torch.ones(tokens_NxT.shape, device=tokens_NxT.device))


def sequences(source: Source, n: int, horizon: int, random: torch.Generator) -> Tensor:
    """``n`` sequences of the source, ``[n, horizon]``: at once where its tokens are independent, else step by step.

    An urn is a coin of unknown bias: draw the bias once, then the tokens are independent. A recorded sequence that ends
    before the horizon is begun again.
    """
    if isinstance(source, Recording):
        return source.windows(n, horizon, random).tokens_NxT
    if isinstance(source, Scheduled):
        return draw(_scheduled(source, horizon, random.device), n, random)
    if isinstance(source, PolyaUrn) and source.prior == 1:
        return urns(n, horizon, source.n_states, random)
    if isinstance(source, Transformer):
        return roll(source.decoder, n, horizon, lambda probs_NxS, t: draw(probs_NxS[:, None], n, random)[:, 0])
    seed = int(torch.randint(1 << 62, (1,), generator=random, device=random.device))
    return torch.as_tensor(to_numpy(sample(source, horizon, n, seed)), device=random.device)


def drawn_at_once(source: Source) -> bool:
    """Whether its sequences are drawn by the same operations on the device every time."""
    return isinstance(source, Scheduled) or (isinstance(source, PolyaUrn) and source.prior == 1)


@lru_cache(maxsize=16)
def _scheduled(source: Scheduled, horizon: int, device: torch.device) -> Tensor:
    """The probabilities of a schedule, sent to the device once."""
    probs_TxS = source.predict_sequence(np.zeros(horizon, dtype=np.int64))
    return torch.tensor(probs_TxS, dtype=torch.float32, device=device)


@torch.no_grad()
def roll(decoder: Decoder, n: int, horizon: int, choose: Callable[[Tensor, int], Tensor]) -> Tensor:
    """``n`` sequences that a decoder sees grow, with the cache: ``choose(probs[n, S], t)`` is what comes next."""
    cache, tokens, extend = decoder.empty_cache(n), [], Extending(decoder)
    last_N = torch.full((n,), decoder.n_states, device=cache.device)
    for t in range(horizon):
        logits_NxS = extend(last_N, cache, torch.full_like(last_N, t), t)
        last_N = choose(torch.softmax(logits_NxS, -1), t)
        tokens.append(last_N)
    return torch.stack(tokens, dim=-1)


# Worlds that are not the source: each gives tokens [n, T].


def urns(n: int, horizon: int, n_states: int, random: torch.Generator) -> Tensor:
    """One distribution for the whole sequence."""
    return draw(dirichlet((n, 1, n_states), random).expand(-1, horizon, -1), n, random)


def drifts(n: int, horizon: int, n_states: int, random: torch.Generator) -> Tensor:
    """Between two distributions and back, as the paper's: |sin| of random period (T/40 to 2 T) and phase."""
    device = random.device
    ends_Nx2xS = dirichlet((n, 2, n_states), random)
    states_N = torch.randint(n_states, (n,), generator=random, device=device)
    others_N = (states_N + torch.randint(1, max(n_states, 2), (n,), generator=random, device=device)) % n_states
    pure_Nx2xS = torch.nn.functional.one_hot(torch.stack([states_N, others_N], -1), n_states).float()
    half = torch.rand((n, 1, 1), generator=random, device=device) < 0.5
    ends_Nx2xS = torch.where(half, pure_Nx2xS, ends_Nx2xS)
    low, high = math.log(horizon / 40), math.log(2 * horizon)
    period_N = torch.exp(low + (high - low) * torch.rand((n, 1), generator=random, device=device))
    phase_N = math.pi * torch.rand((n, 1), generator=random, device=device)
    share_NxT = torch.sin(phase_N + torch.arange(1, horizon + 1, device=device) * math.pi / period_N).abs()
    probs_NxTxS = ends_Nx2xS[:, :1] + share_NxT[..., None] * (ends_Nx2xS[:, 1:] - ends_Nx2xS[:, :1])
    return draw(probs_NxTxS, n, random)


def changes(n: int, horizon: int, n_states: int, random: torch.Generator, most: int = 6) -> Tensor:
    """Up to ``most`` distributions, one after the other."""
    probs_NxKxS = dirichlet((n, most, n_states), random)
    at_NxK = torch.rand((n, most - 1), generator=random, device=random.device) * 1.5 * horizon  # a third never comes
    part_NxT = (torch.arange(horizon, device=random.device)[:, None] >= at_NxK[:, None]).sum(-1)
    return draw(probs_NxKxS.gather(1, part_NxT[..., None].expand(-1, -1, n_states)), n, random)


def turned(tokens_NxT: Tensor, n_states: int, random: torch.Generator) -> Tensor:
    """The source with its states renamed: each sequence by a permutation of its own."""
    ranks_NxS = torch.rand((len(tokens_NxT), n_states), generator=random, device=random.device)
    names_NxS = ranks_NxS.argsort(-1)
    unchanged_N = (names_NxS == torch.arange(n_states, device=random.device)).all(-1, True)
    names_NxS = torch.where(unchanged_N, names_NxS.flip(-1), names_NxS)
    return names_NxS.gather(1, tokens_NxT)


def stuck(tokens_NxT: Tensor, at_N: Tensor, random: torch.Generator) -> Tensor:
    """The source halted: tokens that it had around step ``at_N``, over and over."""
    n, horizon = tokens_NxT.shape
    reach = max(1, horizon // 32)
    near_NxT = torch.randint(-reach, reach + 1, (n, horizon), generator=random, device=random.device)
    return tokens_NxT.gather(1, (at_N[:, None] + near_NxT).clamp(0, horizon - 1))


def other_worlds(source: Source, n: int, horizon: int, random: torch.Generator) -> Tensor:
    """``n`` sequences out of distribution: urns, drifts, change points, the source renamed or halted.

    Half of them follow the source at first and break off at a random step.
    """
    home_NxT = sequences(source, n, horizon, random)
    return away_from(home_NxT, lambda: sequences(source, n, horizon, random), source.n_states, random)


def away_from(home_NxT: Tensor, more: Callable[[], Tensor], n_states: int, random: torch.Generator) -> Tensor:
    """``other_worlds`` made of sequences at home, ``[N, T]``; ``more`` gives as many others."""
    (n, horizon), S, device = home_NxT.shape, n_states, random.device
    cut_N = torch.randint(horizon, (n,), generator=random, device=device)
    kind_N = torch.randint(5, (n, 1), generator=random, device=device)
    away_NxT = urns(n, horizon, S, random)
    others = (
        drifts(n, horizon, S, random),
        changes(n, horizon, S, random),
        turned(home_NxT, S, random),
        stuck(more(), cut_N, random),
    )
    for k, tokens_NxT in enumerate(others):
        away_NxT = torch.where(kind_N == k, tokens_NxT, away_NxT)
    breaks_N = torch.rand((n, 1), generator=random, device=device) < 0.5
    follows_NxT = breaks_N & (torch.arange(horizon, device=device) < cut_N[:, None])
    return torch.where(follows_NxT, home_NxT, away_NxT)


def back_home(away_NxT: Tensor, home_NxT: Tensor, random: torch.Generator) -> Tensor:
    """Half of the sequences are at home again from a random step on, sooner late than early: for what can return."""
    n, horizon = away_NxT.shape
    back_N = torch.randint(horizon, (2, n), generator=random, device=random.device).amax(0)
    returns_N = torch.rand((n, 1), generator=random, device=random.device) < 0.5
    at_home_NxT = returns_N & (torch.arange(horizon, device=random.device) >= back_N[:, None])
    return torch.where(at_home_NxT, home_NxT, away_NxT)


def greedy_choice(
    home_NxT: Tensor, utility_AxS: np.ndarray, temperature: float, random: torch.Generator
) -> Callable[[Tensor, int], Tensor]:
    """The greedy adversary of a student: from its forecast ``[N, S]`` at step t, the token ``[N]`` that comes.

    Half of the sequences follow the source (``home_NxT``) up to a random step first; three quarters of them are played
    with up to 30% of noise, so that what is seen is a neighbourhood of the adversary's path and not one line.
    """
    (n, horizon), S, device = home_NxT.shape, utility_AxS.shape[1], random.device
    utility = torch.tensor(utility_AxS, dtype=torch.float32, device=device)
    follow_N = torch.randint(horizon, (n,), generator=random, device=device)
    follow_N = torch.where(torch.rand(n, generator=random, device=device) < 0.5, follow_N, 0)
    noise_N = 0.3 * torch.rand(n, generator=random, device=device)
    noise_N = torch.where(torch.rand(n, generator=random, device=device) < 0.75, noise_N, 0.0)
    noisy_TxN = torch.rand((horizon, n), generator=random, device=device) < noise_N
    random_TxN = torch.randint(S, (horizon, n), generator=random, device=device)
    lowest_S = 1e-7 * torch.arange(S, device=device)  # of equals the first

    def choose(probs_NxS: Tensor, t: int) -> Tensor:
        policy_NxA = torch.softmax(probs_NxS @ utility.T / temperature, -1)
        least_N = (policy_NxA @ utility + lowest_S).argmin(-1)
        least_N = torch.where(noisy_TxN[t], random_TxN[t], least_N)
        return torch.where(t < follow_N, home_NxT[:, t], least_N)

    return choose
