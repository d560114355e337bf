"""The laws of rules: when they trip, by what evidence, and that one form equals the other."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .. import inputs
from ..arrays import astype, first, mix, namespace, to_numpy
from ..predictors import Predictor, asked, has_states
from ..rules import ResponseRule, Rule
from .laws import LawBroken, tokens_for


class Trial(NamedTuple):
    """A rule that watches a base predictor, with tokens to try it on."""

    rule: Rule
    base: Predictor
    tokens: np.ndarray  # [B, T]
    tolerance: float

    @property
    def name(self) -> str:
        return type(self.rule).__name__


def rule_trial(rule: Rule, base: Predictor, horizon: int, streams: int, seed: int, tolerance: float) -> Trial:
    """A rule, ready for ``RULE_LAWS``: half the tokens are uniform, half mostly what hurts the base model most."""
    if not isinstance(rule, Rule):
        raise ValueError(f"rule must be a Rule such as ExactTest, got {type(rule).__name__}")
    has_states(base, rule.n_states, "rule")
    rng, horizon = inputs.generator(seed), inputs.whole(horizon, "horizon")
    tokens = tokens_for(rule.n_states, min(horizon, rule.horizon or horizon), streams, rng)
    hostile = np.arange(streams) % 2 == 1
    noise = rng.random(tokens.shape) < 0.1
    memory = base.start((streams,))
    for t in range(tokens.shape[1]):
        probs_S = first(astype(to_numpy(asked(base, memory, (streams,))), np.float64))
        if isinstance(rule, ResponseRule):
            response_A = rule.problem.respond(probs_S, rule.temperature_at(t + 1))
            worst = np.argmin(mix(rule.problem.utility.T, response_A), axis=0)
        else:
            worst = np.argmin(probs_S, axis=0)
        tokens[:, t] = np.where(hostile & ~noise[:, t], worst, tokens[:, t])
        memory = base.update(memory, tokens[:, t])
    return Trial(rule, base, tokens, tolerance)


def trip_times_equal_streaming(t: Trial) -> None:
    """Also: a trip is one-way, and comes with evidence that reached its threshold."""
    probs = t.base.predict_sequence(t.tokens)
    times = to_numpy(t.rule.trip_times(probs, t.tokens))
    memory = t.rule.start(t.tokens.shape[:1], like=probs)
    horizon = t.tokens.shape[1]
    found = np.full(len(t.tokens), horizon + 1)
    tripped = np.zeros(len(t.tokens), dtype=bool)
    for s in range(horizon):
        memory = t.rule.update(memory, probs[:, s], t.tokens[:, s])
        now = to_numpy(t.rule.tripped(memory))
        if (tripped & ~now).any():
            raise LawBroken(f"{t.name}: a stream that had tripped is trusted again at step {s + 1}: a trip is one-way")
        statistic, threshold = map(to_numpy, t.rule.evidence(memory))
        fresh = now & ~tripped
        if not (statistic[fresh] >= threshold[fresh] - t.tolerance * (1 + np.abs(threshold[fresh]))).all():
            raise LawBroken(f"{t.name}: it tripped at step {s + 1} while evidence says statistic < threshold")
        found[fresh], tripped = s + 1, now
    if not np.array_equal(found, times):
        stream = int(np.flatnonzero(found != times)[0])
        raise LawBroken(
            f"{t.name}: stream {stream} trips after {times[stream]} tokens by trip_times and {found[stream]} by update "
            f"({horizon + 1} is never)"
        )


def trips_ignore_the_future(t: Trial) -> None:
    probs = t.base.predict_sequence(t.tokens)
    times = to_numpy(t.rule.trip_times(probs, t.tokens))
    cut = t.tokens.shape[1] // 2
    short = to_numpy(t.rule.trip_times(probs[:, :cut], t.tokens[:, :cut]))
    if not np.array_equal(np.minimum(times, cut + 1), short):
        raise LawBroken(f"{t.name}: whether it trips within {cut} steps depends on later tokens")


def rules_in_torch_equal_numpy(t: Trial) -> None:
    try:
        import torch
    except ImportError:
        return
    probs = np.array(t.base.predict_sequence(t.tokens))
    times = t.rule.trip_times(probs, t.tokens)
    other = t.rule.trip_times(torch.as_tensor(probs), torch.as_tensor(t.tokens))
    if namespace(other) is np or not np.array_equal(to_numpy(times), to_numpy(other)):
        raise LawBroken(f"{t.name}: torch tensors give other trip times than NumPy arrays")


RULE_LAWS: dict[str, Callable[[Trial], None]] = {
    "trip times equal streaming": trip_times_equal_streaming,
    "trips ignore the future": trips_ignore_the_future,
    "trip times in torch equal NumPy": rules_in_torch_equal_numpy,
}
