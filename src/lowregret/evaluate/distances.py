"""How far apart two predictors are (Section 5.2, TV-distance): of whole sequences, and of the next token."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, first, in_float64, namespace, to_numpy, total
from ..predictors import Predictor, sample
from .sources import numbered_sequences

_LAWS_AT_ONCE = 1 << 21  # numbers in the probabilities of one batch of sequences
_MOST_SEQUENCES = 1 << 20
_TAIL = 1.959963984540054  # a standard normal exceeds it with chance 2.5%


class Estimate(NamedTuple):
    """A number with its 95% interval.

    >>> print(Estimate(0.13076, 0.13012, 0.13141))
    0.1308 (95%: 0.1301 to 0.1314)
    """

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        width = self.high - self.low
        spec = spec or f".{min(max(1 - math.floor(math.log10(width)), 2), 15) if width > 0 else 4}f"
        return f"{self.value:{spec}} (95%: {self.low:{spec}} to {self.high:{spec}})"

    def __str__(self) -> str:
        return format(self)


def sequence_tv(
    p: Predictor, q: Predictor, horizon: int, n: int, seed: int | np.random.Generator, estimator: str = "symmetric"
) -> Estimate:
    """The total variation distance between the sequences that ``p`` and ``q`` generate, from ``n`` of them.

    The interval is ``bounded_mean`` over [0, 1]: the terms of both estimators pile up at 0 or 1 with rare exceptions
    (a robust predictor and its base differ only on sequences that switch), where a normal interval covers next to
    nothing. That the symmetric estimator is stratified can only make its interval too wide.

    Parameters
    ----------
    n
        How many sequences; the symmetric estimator takes half from each, rounded up.
    estimator
        "symmetric": the mean of abs(tanh((ln P - ln Q) / 2)) over sequences from both. "one-sided": the mean of
        max(0, 1 - Q / P) over sequences from ``p``. Both are unbiased; neither always has the smaller variance.

    >>> from lowregret.predictors import Scheduled
    >>> print(sequence_tv(Scheduled([[0.7, 0.3]]), Scheduled([[0.5, 0.5]]), horizon=10, n=1000, seed=0))
    0.470 (95%: 0.451 to 0.489)
    """
    same_alphabet(p, q)
    horizon, n = inputs.whole(horizon, "horizon"), inputs.whole(n, "n")
    inputs.choice(estimator, "estimator", ("symmetric", "one-sided"))
    rng = inputs.generator(seed)
    if estimator == "one-sided":
        lead_N = _log_leads(p, q, horizon, n, rng, "p")
        return bounded_mean(-np.expm1(np.minimum(-lead_N, 0.0)), 0.0, 1.0)
    half = (n + 1) // 2
    lead_N = np.concatenate([_log_leads(p, q, horizon, half, rng, "p"), _log_leads(q, p, horizon, half, rng, "q")])
    return bounded_mean(np.abs(np.tanh(lead_N / 2)), 0.0, 1.0)


def exact_sequence_tv(p: Predictor, q: Predictor, horizon: int) -> float:
    """The same exactly, by adding up all S**horizon sequences; for those that are at most about a million.

    >>> from lowregret.predictors import Scheduled
    >>> round(exact_sequence_tv(Scheduled([[0.7, 0.3]]), Scheduled([[0.5, 0.5]]), horizon=10), 4)
    0.4777
    """
    n_states = same_alphabet(p, q)
    horizon = inputs.whole(horizon, "horizon")
    if horizon * math.log2(n_states) > math.log2(_MOST_SEQUENCES):
        most = math.floor(math.log2(_MOST_SEQUENCES) / math.log2(n_states))
        raise ValueError(
            f"horizon must be at most {most} with {n_states} states (all sequences are enumerated), got {horizon}; "
            "sequence_tv estimates longer ones"
        )
    apart, done = [], 0
    for rows in batches(n_states**horizon, horizon, n_states):
        tokens_NxT = numbered_sequences(n_states, horizon, done, done + rows)
        done += rows
        apart.append(np.abs(np.exp(log_probs(p, tokens_NxT, "p")) - np.exp(log_probs(q, tokens_NxT, "q"))).sum())
    return min(1.0, math.fsum(apart) / 2)


def next_token_tv(p: Predictor, q: Predictor, tokens: Array) -> Estimate:
    """The distance between the next-token distributions, averaged over prefixes 0 .. T-1 of sequences ``[..., T]``.

    The paper draws them from the model that both are compared with. The interval is over sequences. Each value is
    itself a mean over steps, so ``bounded_mean`` over [0, 1] would be needlessly wide: the unseen value lies beyond the
    furthest seen one by as much as that is from the median, and at 0 and 1 only where all values are the same.

    >>> from lowregret import PolyaUrn, sample
    >>> from lowregret.predictors import Scheduled
    >>> fair = Scheduled([[0.5, 0.5]])
    >>> print(next_token_tv(PolyaUrn(2), fair, sample(fair, horizon=100, n=1000, seed=0)))
    0.0650 (95%: 0.0630 to 0.0672)
    """
    n_states = same_alphabet(p, q)
    tokens = inputs.sequences_of(tokens, n_states)
    tokens_NxT = namespace(tokens).reshape(tokens, (-1, tokens.shape[-1]))
    apart, done = [], 0
    for rows in batches(tokens_NxT.shape[0], tokens_NxT.shape[1], n_states):
        batch = tokens_NxT[done : done + rows]
        done += rows
        p_S, q_S = first(_probs(p, batch, "p")), first(_probs(q, batch, "q"))
        if namespace(p_S) is not namespace(q_S) or device(p_S) != device(q_S):
            p_S, q_S = to_numpy(p_S), to_numpy(q_S)
        step_NxT = total([abs(a - b) for a, b in zip(p_S, q_S, strict=True)]) / 2
        apart.append(to_numpy(namespace(step_NxT).mean(step_NxT, axis=-1)))
    tv_N = np.concatenate(apart).astype(np.float64)
    least, middle, most = float(tv_N.min()), float(np.median(tv_N)), float(tv_N.max())
    if most - least <= inputs.SUM_TOLERANCE:
        return bounded_mean(tv_N, 0.0, 1.0)
    return bounded_mean(tv_N, max(0.0, least - (middle - least)), min(1.0, most + (most - middle)))


def bounded_mean(values_N: Any, least: float, most: float) -> Estimate:
    """The mean of independent values that lie between ``least`` and ``most``, with a 95% interval.

    The interval of Gaffke (2005; Learned-Miller and Thomas 2019): the upper end is the 97.5% quantile of the mean
    under random weights, Dirichlet(1, ..., 1), over the values and one more at ``most``, and the lower end
    one more at ``least``. For values 0 and 1 it is Clopper and Pearson's, for n equal ones the rule of three (3.7 / n
    on either side), and for many it is the normal one. No case is known where it covers too seldom.

    >>> print(bounded_mean([0.0] * 100, 0, 1))
    0.000 (95%: 0.000 to 0.036)
    """
    least, most, values_N = float(least), float(most), np.asarray(values_N, dtype=np.float64)
    if values_N.ndim != 1 or not values_N.size or not ((values_N >= least) & (values_N <= most)).all():
        raise ValueError(f"values_N must be numbers from {least:g} to {most:g}, got {inputs.shown(values_N)}")
    value = float(values_N.mean())
    low, high = -_upper_end(-values_N, -least), _upper_end(values_N, most)
    return Estimate(value, min(low, value), max(high, value))


def _upper_end(values_N: np.ndarray, most: float) -> float:
    """The 97.5% quantile of sum_i D_i x_i, D uniform on the simplex and ``most`` among the x, by a saddlepoint.

    With E_i exponential, P(sum_i D_i x_i > c) = P(sum_i E_i (x_i - c) > 0). The saddlepoint is 1 / (b - c) for some
    b > max x with c = sum_i w_i x_i, w_i ~ 1 / (b - x_i), so b is all there is to search for. The tail is Barndorff-
    Nielsen's r*; against Clopper and Pearson it is off by at most half a per cent of the interval.
    """
    x = np.append(values_N, most)
    top, spread = float(x.max()), float(x.max() - x.min())
    if spread == 0:
        return top

    def tail_and_end(log_reach: float) -> tuple[float, float]:
        reach = spread * math.exp(log_reach)  # b - max x
        distance = (top - x) + reach
        slope = float((1 / distance).mean())  # 1 / (b - c)
        scaled = slope * distance
        deviance = 2 * float(np.log(scaled).sum())
        end = top + reach - 1 / slope
        if deviance < 0.01:
            return 0.0, end
        r = math.sqrt(deviance)
        return r + math.log(math.sqrt(float(((1 / scaled - 1) ** 2).sum())) / r) / r, end

    near, far = -40.0, 20.0
    for _ in range(60):
        middle = (near + far) / 2
        near, far = (middle, far) if tail_and_end(middle)[0] > _TAIL else (near, middle)
    return min(top, tail_and_end(near)[1])


def same_alphabet(p: Predictor, q: Predictor) -> int:
    """The number of states that both predict; another number each is refused."""
    for name, predictor in (("p", p), ("q", q)):
        if not hasattr(predictor, "predict_sequence") or isinstance(predictor, type):
            raise ValueError(f"{name} must be a Predictor, got {type(predictor).__name__}")
    if p.n_states != q.n_states:
        raise ValueError(
            f"p and q must predict the same states: {type(p).__name__} (p) has {p.n_states}, "
            f"{type(q).__name__} (q) has {q.n_states}"
        )
    return int(p.n_states)


def batches(n: int, horizon: int, n_states: int, most: int = _MOST_SEQUENCES) -> Iterator[int]:
    """``n`` sequences in batches of few enough that their forecasts fit in a little memory: how many in each.

    The uniforms of a Generator come row by row, so ``sample`` draws the same sequences in batches as at once.
    """
    step = max(1, min(most, _LAWS_AT_ONCE // (horizon * n_states)))
    for begin in range(0, n, step):
        yield min(step, n - begin)


def home(player: Any) -> Array:
    """An array of the kind that the predictor or policy answers in by itself: tokens are brought to it."""
    memory = player.start((1,))
    return player.policy(memory) if hasattr(player, "policy_sequence") else player.predict(memory)


def _probs(predictor: Predictor, tokens_NxT: Array, name: str) -> Array:
    """What the predictor predicts before each token, ``[N, T, S]`` in double precision, summing to one."""
    tokens_NxT = inputs.tokens_of(tokens_NxT, predictor.n_states, like=home(predictor))
    said = predictor.predict_sequence(tokens_NxT)
    about = f"the probabilities of {type(predictor).__name__} ({name})"
    probs = in_float64(inputs.probs_of(said, predictor.n_states, about, shape=tuple(tokens_NxT.shape)))
    return probs / total(first(probs))[..., None]


def log_probs(predictor: Predictor, tokens_NxT: Array, name: str) -> np.ndarray:
    """The log-probability of each sequence, ``[N]``; -inf where it is impossible."""
    probs = _probs(predictor, tokens_NxT, name)
    tokens = inputs.tokens_of(tokens_NxT, predictor.n_states, like=probs)
    chances_NxT = to_numpy(namespace(probs).take_along_axis(probs, tokens[..., None], axis=-1)[..., 0])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances_NxT).sum(axis=-1), dtype=np.float64)


def _log_leads(
    drawn: Predictor, other: Predictor, horizon: int, n: int, rng: np.random.Generator, name: str
) -> np.ndarray:
    """ln drawn(x) - ln other(x) for ``n`` sequences x from ``drawn``; +inf where the other excludes x."""
    leads = []
    for rows in batches(n, horizon, drawn.n_states):
        tokens_NxT = sample(drawn, horizon, rows, rng)
        log_drawn_N = log_probs(drawn, tokens_NxT, name)
        if np.isneginf(log_drawn_N).any():
            raise ValueError(f"{name} drew a sequence to which it then gave probability 0: predict_sequence disagrees")
        leads.append(log_drawn_N - log_probs(other, tokens_NxT, {"p": "q", "q": "p"}[name]))
    return np.concatenate(leads)
