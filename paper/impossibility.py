"""What cannot be done (Theorem 4.1): with the context length of its base, no model is both close to it and low-regret.

Guessing bits, L = ``window``, 2L steps, temperature 1/sqrt(L); M0 and M1 are ``de_bruijn_pair(L)``. Every
model with context L is N = 2**L chances and a law: q_i, what it gives to the bit that follows the i-th context of the
cycle, and mu_i, how likely it is to start with that context. With P_i = q_i q_{i+1} ... q_{i+L-1} (around the cycle),

    regret = mean_i f(q_i),    f(q) = [sigma(sqrt(L) (2q - 1)) - 1/2] / 2 = tanh(sqrt(L) (q - 1/2)) / 4,
    TV     = 1 - mean_i m_i,   m_i = min(1, N mu_i P_i),

where regret is the expected regret to the half-half action under M1, and TV the distance from M0. With F = f(1), the
regret of M0 itself, and k = max_q [F - f(q)] / ln(1/q), every model has

    regret >= F (1 - 2 TV) - (k/L) (1 - TV) ln(1/(1 - TV)),    TV + regret >= F,

and the first is tight up to 2F (L - 1) / N at TV = 1 - q, where q is the maximiser in k. The proofs are in
docs/how-to/bounded-context.md.
"""

import math
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lowregret import FromFunction, Markov, Predictor, external_regret, matching
from lowregret.evaluate.adversaries import all_sequences
from lowregret.evaluate.distances import exact_sequence_tv
from lowregret.policies import Respond

from .de_bruijn import cycle_contexts, de_bruijn_pair

PRINTED = 1 / 12  # what the paper's proof has in place of F


# What no model can do


def expected_regret(follow: Any, window: int) -> Any:
    """f: what a context costs under M1 where the model gives this chance to the bit that follows."""
    return np.tanh(math.sqrt(window) * (follow - 0.5)) / 4


def expected_regret_slope(follow: Any, window: int) -> Any:
    """The derivative of f."""
    return math.sqrt(window) / 4 * (1 - np.tanh(math.sqrt(window) * (follow - 0.5)) ** 2)


def response(follow: Any, window: int) -> Any:
    """The chance that the quantal response plays a bit to which the model gives the chance ``follow``.

    The paper's proof needs it to be at least 2/3 where ``follow`` is ("amplified"), which takes a context of 5:

    >>> [round(float(response(2 / 3, length)), 3) for length in (3, 4, 5, 6)]
    [0.64, 0.661, 0.678, 0.693]
    """
    return 0.5 + 2 * expected_regret(follow, window)


def regret_bound(window: int, tv: float) -> float:
    """No model with this context at this distance from M0, or closer, has less expected regret under M1.

    >>> [round(regret_bound(4, tv), 4) for tv in (0.0, 0.1, 0.5, 1.0)]
    [0.1904, 0.1458, -0.024, -0.1904]
    """
    full, slack = _constants(window)
    kept = 1 - tv
    return max(-full, full * (2 * kept - 1) + slack * kept * math.log(kept)) if kept > 0 else -full


def sum_bound(window: int, weight: float = 1.0) -> float:
    """No model with this context has a smaller TV + ``weight`` * regret: the least of TV + weight * regret_bound.

    >>> [round(sum_bound(length), 3) for length in (2, 3, 4, 5, 6)]
    [0.152, 0.175, 0.19, 0.202, 0.21]
    """
    full, slack = _constants(window)
    # In kept = 1 - TV the sum is convex where the bound is above -F, and falls below that place.
    log_kept = min(0.0, max((1 / weight - 2 * full) / slack - 1, -2 * full / slack))
    kept = math.exp(log_kept)
    return 1 - kept + weight * (full * (2 * kept - 1) + slack * kept * log_kept)


def dichotomy(window: int) -> float:
    """For every model with this context, TV or the regret on some sequence is at least this (the paper: 1/24).

    >>> [round(dichotomy(length), 3) for length in (2, 4, 8, 16, 1000)]
    [0.108, 0.132, 0.15, 0.16, 0.167]
    """
    from scipy.optimize import brentq

    return float(brentq(lambda c: regret_bound(window, c) - c, 0.0, 0.5))


@cache
def _constants(window: int) -> tuple[float, float]:
    """F and k / L of the bound."""
    from scipy.optimize import minimize_scalar

    full = float(expected_regret(1.0, window))
    # As a function of ln(1/q), f is concave, then convex: its chord from q = 1 is steepest at one place (L = 1: there).
    steepest = minimize_scalar(
        lambda q: (full - expected_regret(q, window)) / math.log(q), bounds=(1e-9, 1 - 1e-6), options={"xatol": 1e-12}
    )
    return full, max(-float(steepest.fun), float(expected_regret_slope(1.0, window))) / window


# Where a model stands


class Bounded(NamedTuple):
    """A model with bounded context, in the order of the cycle, and where it stands in the trade-off."""

    follow_N: np.ndarray  # q_i: the chance it gives to the bit that follows context i
    initial_N: np.ndarray  # mu_i: the chance that it starts with context i
    tv: float  # from M0
    regret: float  # expected, to the half-half action, under M1


class Enumerated(NamedTuple):
    """The same by brute force, and more: regrets are averages per step."""

    tv: float
    regret: float  # to the half-half action, expected under M1
    worst_regret: float  # to the best action in hindsight, largest over all sequences


def measure(model: Predictor, window: int) -> Bounded:
    """Where a model stands: its distance from M0 and its expected regret under M1, by the closed forms above.

    What it says may depend on the last ``window`` tokens only. It is asked after every context at the first step where
    the context is full and, to see that it says the same, at the next and at the last step.

    >>> M0, M1 = de_bruijn_pair(4)
    >>> for model in (M0, Markov([0.5, 0.5], window=0), M1):
    ...     found = measure(model, 4)
    ...     print(f"TV {found.tv:.4f}, regret {found.regret:+.4f}")
    TV 0.0000, regret +0.1904
    TV 0.9375, regret +0.0000
    TV 1.0000, regret -0.1904
    """
    words_N, following_N = cycle_contexts(window)
    tokens_NxT = words_N[:, None] >> np.arange(window - 1, -1, -1) & 1
    tokens_NxT = np.concatenate([tokens_NxT, following_N[:, None]], axis=1)
    chance_NxT = _chances(model, tokens_NxT)
    follow_N, initial_N = chance_NxT[:, -1], chance_NxT[:, :-1].prod(axis=1)
    for earlier, steps in product((0, 1), {1, max(1, window - 1)}):
        later_N = _chances(model, np.pad(tokens_NxT, ((0, 0), (steps, 0)), constant_values=earlier))[:, -1]
        if not np.allclose(later_N, follow_N, rtol=0, atol=1e-9):
            raise ValueError(
                f"model must depend on the last {window} tokens only, and {type(model).__name__} does not: after "
                f"the same {window} tokens its laws differ by up to {abs(later_N - follow_N).max():.3g}"
            )
    return stand(follow_N, initial_N)


def _chances(model: Predictor, tokens_NxT: np.ndarray) -> np.ndarray:
    """What the model gave to each token, ``[N, T]``."""
    probs_NxTxS = model.predict_sequence(tokens_NxT)
    return np.take_along_axis(probs_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0]


def stand(follow_N: np.ndarray, initial_N: np.ndarray) -> Bounded:
    """The closed forms."""
    window = len(follow_N).bit_length() - 1
    kept_N = np.minimum(1.0, len(follow_N) * initial_N * products(follow_N))
    return Bounded(follow_N, initial_N, 1 - float(kept_N.mean()), float(expected_regret(follow_N, window).mean()))


def products(follow_N: np.ndarray) -> np.ndarray:
    """P_i: the chance of following the cycle for L steps from each context on."""
    product_N = follow_N.copy()
    for lag in range(1, len(follow_N).bit_length() - 1):
        product_N *= np.roll(follow_N, -lag)
    return product_N


def measure_by_enumeration(model: Predictor, window: int) -> Enumerated:
    """The same by trying all ``4**window`` sequences, and the worst of them.

    >>> M0, _ = de_bruijn_pair(4)
    >>> print(*(f"{value:.4f}" for value in measure_by_enumeration(M0, 4)))
    0.0000 0.1904 0.6904
    """
    coin, (M0, M1) = matching(), de_bruijn_pair(window)
    tokens_NxT = all_sequences(2, 2 * window)
    chance_N = _chances(M1, tokens_NxT).prod(axis=1)
    regret_N = external_regret(coin, Respond(model, coin, window**-0.5), tokens_NxT)[:, -1]
    halves_N = external_regret(coin, np.full((*tokens_NxT.shape, 2), 0.5), tokens_NxT)[:, -1]
    # Both are regrets to the same best action, so it cancels: the difference is the regret to the half-half action.
    return Enumerated(
        tv=exact_sequence_tv(M0, model, 2 * window),
        regret=float(chance_N @ (regret_N - halves_N)),
        worst_regret=float(regret_N.max()),
    )


def bounded_model(follow_N: np.ndarray, initial_N: np.ndarray | None = None) -> Predictor:
    """The model with these chances, in the order of the cycle (``cycle_contexts``).

    Parameters
    ----------
    follow_N
        What it gives to the bit that follows each of the ``2**window`` contexts.
    initial_N
        How likely it is to start with each context; uniform by default.

    >>> found = measure(bounded_model(np.array([0.5, 1.0, 0.5, 0.0]), np.array([0.5, 0.5, 0.0, 0.0])), window=2)
    >>> found.tv, found.regret
    (0.5, 0.0)
    """
    window = len(follow_N).bit_length() - 1
    words_N, following_N = cycle_contexts(window)
    probs_NxS = np.empty((2**window, 2))
    probs_NxS[words_N, following_N], probs_NxS[words_N, 1 - following_N] = follow_N, 1 - follow_N
    if initial_N is None:
        return Markov(probs_NxS.reshape((2,) * (window + 1)), window)
    start_N = np.empty(2**window)
    start_N[words_N] = initial_N

    def after(tokens_BxT: np.ndarray) -> np.ndarray:
        """By the last ``window`` bits, or, before that many, by the likely starts."""
        seen = tokens_BxT.shape[1]
        word_B = tokens_BxT[:, -window:] @ (1 << np.arange(min(seen, window))[::-1])
        if seen >= window:
            return probs_NxS[word_B]
        mass_BxS = start_N.reshape(2**seen, 2, -1).sum(axis=-1)[word_B]
        total_B = mass_BxS.sum(axis=-1, keepdims=True)
        return np.where(total_B > 0, mass_BxS / np.where(total_B > 0, total_B, 1), 0.5)  # 1/2 after the impossible

    return FromFunction(after, 2, batched=True)


def best_initial(follow_N: np.ndarray) -> np.ndarray:
    """The initial law that brings a model closest to M0: uniform where that is as close as any.

    More than 1 / (N P_i) on a start is wasted and less is worth P_i, so the likeliest starts are filled first.

    >>> best_initial(np.array([0.5, 1.0, 0.5, 0.0])).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    product_N = products(follow_N)
    size = len(product_N)
    order = np.argsort(-product_N, kind="stable")
    with np.errstate(divide="ignore", over="ignore"):
        enough_N = 1 / (size * product_N[order])
    left_N = 1 - np.concatenate([[0.0], np.cumsum(enough_N)[:-1]])
    filled_N = np.where(product_N[order] > 0, np.clip(left_N, 0, enough_N), 0.0)
    initial_N = np.empty(size)
    initial_N[order] = filled_N
    if (initial_N * product_N).sum() <= product_N.mean() + 1e-12:
        return np.full(size, 1 / size)
    return initial_N + max(0.0, 1 - initial_N.sum()) / size
