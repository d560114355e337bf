"""Models with bounded context (Section 4) against the twins of Theorem 4.1: by closed forms, and by brute force."""

from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lowregret import inputs
from lowregret.arrays import to_numpy
from lowregret.evaluate import sources
from lowregret.evaluate.adversaries import all_sequences
from lowregret.evaluate.distances import batches, exact_sequence_tv, home
from lowregret.evaluate.regret import external_regret
from lowregret.policies import Respond
from lowregret.predictors import FromFunction, Markov, Predictor
from lowregret.problems import matching

from .bounds import expected_regret

LONGEST_ENUMERATED = 8
_AGREE = 1e-9
_CLOSE = 1e-12


class Bounded(NamedTuple):
    """A model with bounded context, in the order of the cycle, and where it stands in the trade-off."""

    follow_N: np.ndarray  # q_i: the chance it gives to the bit that follows context i
    initial_N: np.ndarray  # mu_i: the chance that it starts with context i
    tv: float  # from M0
    regret: float  # expected, to the half-half action, under M1

    def model(self) -> Predictor:
        """It as a predictor."""
        return bounded_model(self.follow_N, self.initial_N)


class Enumerated(NamedTuple):
    """The same by brute force, and more: regrets are averages a step."""

    tv: float
    regret: float  # to the half-half action, expected under M1
    external_regret: float  # to the best action in hindsight, expected under M1
    worst_regret: float  # the same, largest over all sequences


def measure(model: Predictor, window: int) -> Bounded:
    """Where a model stands: its distance from M0 and its expected regret under M1, by the closed forms of ``bounds``.

    Parameters
    ----------
    model
        Two states; what it says may depend on the last ``window`` tokens only. It is asked after every context at
        the first step where the context is full and, to see that it says the same, at the next and at the last step.

    >>> M0, M1 = sources.de_bruijn_pair(4)
    >>> for model in (M0, Markov([0.5, 0.5], window=0), M1):
    ...     found = measure(model, 4)
    ...     print(f"TV {found.tv:.4f}, regret {found.regret:+.4f}")
    TV 0.0000, regret +0.1904
    TV 0.9375, regret +0.0000
    TV 1.0000, regret -0.1904
    """
    length = inputs.whole(window, "window")
    words_N, following_N = sources.cycle_contexts(length)
    if getattr(model, "n_states", None) != 2 or not hasattr(model, "predict_sequence"):
        raise ValueError(
            f"model must be a Predictor with two states, got {type(model).__name__} with n_states "
            f"{getattr(model, 'n_states', None)}"
        )
    follow_N, initial_N, done = np.empty(2**length), np.empty(2**length), 0
    for rows in batches(2**length, 2 * length, 2):
        part = slice(done, done + rows)
        done += rows
        tokens_NxT = words_N[part, None] >> np.arange(length - 1, -1, -1) & 1
        tokens_NxT = np.concatenate([tokens_NxT, following_N[part, None]], axis=1)
        chance_NxT = _chances(model, tokens_NxT)
        follow_N[part], initial_N[part] = chance_NxT[:, -1], chance_NxT[:, :-1].prod(axis=1)
        for earlier, steps in product((0, 1), {1, max(1, length - 1)}):
            later_N = _chances(model, np.pad(tokens_NxT, ((0, 0), (steps, 0)), constant_values=earlier))[:, -1]
            if not np.allclose(later_N, follow_N[part], rtol=0, atol=_AGREE):
                raise ValueError(
                    f"model must depend on the last {length} tokens only, and {type(model).__name__} does not: after "
                    f"the same {length} tokens its laws differ by up to {abs(later_N - follow_N[part]).max():.3g}"
                )
    return stand(follow_N, initial_N)


def measure_by_enumeration(model: Predictor, window: int) -> Enumerated:
    """The same by trying all ``4**window`` sequences (a context of at most 8), and the worst of them.

    >>> M0, _ = sources.de_bruijn_pair(4)
    >>> print(*(f"{value:.4f}" for value in measure_by_enumeration(M0, 4)))
    0.0000 0.1904 0.3310 0.6904
    """
    length = inputs.whole(window, "window")
    if length > LONGEST_ENUMERATED:
        raise ValueError(
            f"window must be at most {LONGEST_ENUMERATED} (all 4**window sequences are tried), got {length}"
        )
    coin, (M0, M1) = matching(), sources.de_bruijn_pair(length)
    tokens_NxT = all_sequences(2, 2 * length)
    chance_N = _chances(M1, tokens_NxT).prod(axis=1)
    regret_N = to_numpy(external_regret(coin, Respond(model, coin, length**-0.5), tokens_NxT))[:, -1]
    halves_N = external_regret(coin, np.full((*tokens_NxT.shape, 2), 0.5), tokens_NxT)[:, -1]
    # Both are regrets to the same best action, so it cancels: the difference is the regret to the half-half action.
    return Enumerated(
        tv=exact_sequence_tv(M0, model, 2 * length),
        regret=float(chance_N @ (regret_N - halves_N)),
        external_regret=float(chance_N @ regret_N),
        worst_regret=float(regret_N.max()),
    )


def bounded_model(follow_N: Any, initial_N: Any = None) -> Predictor:
    """The model with these chances, in the order of the cycle (``sources.cycle_contexts``).

    Parameters
    ----------
    follow_N
        What it gives to the bit that follows each of the ``2**window`` contexts.
    initial_N
        How likely it is to start with each context; uniform by default.

    >>> found = measure(bounded_model([0.5, 1.0, 0.5, 0.0], [0.5, 0.5, 0.0, 0.0]), window=2)
    >>> found.tv, found.regret
    (0.5, 0.0)
    """
    follow_N = inputs.table_of(follow_N, "follow_N")
    length = max(1, follow_N.size.bit_length() - 1)
    if follow_N.shape != (2**length,):
        raise ValueError(f"follow_N must have shape [2**window], got {follow_N.shape}")
    if not ((follow_N >= 0) & (follow_N <= 1)).all():
        raise ValueError(f"follow_N must lie in [0, 1], got values from {follow_N.min():.6g} to {follow_N.max():.6g}")
    words_N, following_N = sources.cycle_contexts(length)
    law_NxS = np.empty((2**length, 2))
    law_NxS[words_N, following_N], law_NxS[words_N, 1 - following_N] = follow_N, 1 - follow_N
    if initial_N is None:
        return Markov(law_NxS.reshape((2,) * (length + 1)), length)
    start_N = np.empty(2**length)
    start_N[words_N] = to_numpy(inputs.probs_of(initial_N, 2**length, "initial_N", shape=()))
    return FromFunction(partial(_law, law_NxS, start_N, length), 2, batched=True)


def _law(law_NxS: np.ndarray, start_N: np.ndarray, length: int, history: Any) -> np.ndarray:
    """What follows each history ``[B, t]``: by its last ``length`` bits, or, before that many, by the likely starts."""
    tokens_BxT = to_numpy(history)
    seen = tokens_BxT.shape[1]
    word_B = tokens_BxT[:, -length:] @ (1 << np.arange(min(seen, length))[::-1])
    if seen >= length:
        return law_NxS[word_B]
    mass_BxS = start_N.reshape(2**seen, 2, -1).sum(axis=-1)[word_B]
    total_B = mass_BxS.sum(axis=-1, keepdims=True)
    return np.where(total_B > 0, mass_BxS / np.where(total_B > 0, total_B, 1), 0.5)  # 1/2 after the impossible


def best_initial(follow_N: np.ndarray) -> np.ndarray:
    """The initial law that brings a model closest to M0: uniform where that is as close as any. Unchecked.

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
    if (initial_N * product_N).sum() <= product_N.mean() + _CLOSE:
        return np.full(size, 1 / size)
    return initial_N + max(0.0, 1 - initial_N.sum()) / size


def _chances(model: Predictor, tokens_NxT: np.ndarray) -> np.ndarray:
    """What the model gave to each token that came, ``[N, T]``."""
    laws = to_numpy(model.predict_sequence(inputs.tokens_of(tokens_NxT, 2, like=home(model))))
    laws = inputs.probs_of(laws, 2, f"the probabilities of {type(model).__name__}", shape=tokens_NxT.shape)
    return np.take_along_axis(laws, tokens_NxT[..., None], axis=-1)[..., 0].astype(np.float64)


def stand(follow_N: np.ndarray, initial_N: np.ndarray) -> Bounded:
    """The closed forms, unchecked."""
    length = len(follow_N).bit_length() - 1
    kept_N = np.minimum(1.0, len(follow_N) * initial_N * products(follow_N))
    return Bounded(follow_N, initial_N, 1 - float(kept_N.mean()), float(expected_regret(follow_N, length).mean()))


def products(follow_N: np.ndarray) -> np.ndarray:
    """P_i: the chance of following the cycle for L steps from each context on."""
    product_N = follow_N.copy()
    for lag in range(1, len(follow_N).bit_length() - 1):
        product_N *= np.roll(follow_N, -lag)
    return product_N
