"""The laws of robust predictors: when their test raises an alarm, that one form equals the other, what is promised."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import to_numpy
from ..evaluate.adversaries import all_sequences, beam, exact_worst_case, greedy
from ..predictors import Scheduled, asked
from ..robust import Robust
from .laws import LawBroken, by_name, tokens_for

_MOST_SEQUENCES = 2**12  # tried one by one
_LONGEST = 128  # steps of a search that tries some
_WIDTH = 32  # of its beam


class Trial(NamedTuple):
    """A robust predictor, with tokens to try it on."""

    robust: Robust
    tokens: np.ndarray  # [B, T]
    tolerance: float

    @property
    def name(self) -> str:
        return type(self.robust.setting.test).__name__


def robust_trial(robust: Robust, horizon: int, streams: int, seed: int, tolerance: float) -> Trial:
    """Ready for ``ROBUST_LAWS``: half the tokens are uniform, half mostly what hurts the response to the base most."""
    inputs.of_kind(robust, Robust, "robust", "robustify(predictor, problem, horizon)")
    rng, horizon, base = inputs.generator(seed), inputs.whole(horizon, "horizon"), robust.base
    tokens = tokens_for(robust.n_states, min(horizon, robust.horizon or horizon), streams, rng)
    hostile = np.arange(streams) % 2 == 1
    noise = rng.random(tokens.shape) < 0.1
    memory, setting = base.start((streams,)), robust.setting
    utility_AxS = np.asarray(setting.outcomes.payoffs)
    for t in range(tokens.shape[1]):
        probs_NxS = np.array(to_numpy(asked(base, memory, (streams,))), dtype=np.float64)
        _, played_NxA = setting.respond(probs_NxS, setting.outcomes.payoffs, np.full(streams, float(t)))
        worst_N = np.argmin(played_NxA @ utility_AxS, axis=-1)
        tokens[:, t] = np.where(hostile & ~noise[:, t], worst_N, tokens[:, t])
        memory = base.update(memory, tokens[:, t])
    return Trial(robust, tokens, tolerance)


def alarm_times_equal_streaming(t: Trial) -> None:
    """Also: an alarm is for good, comes with evidence that reached its threshold, and depends on no later token."""
    N, T = t.tokens.shape
    memory, found_N = t.robust.start((N,)), np.full(N, T + 1)
    for s in range(1, T + 1):
        memory = t.robust.update(memory, t.tokens[:, s - 1])
        now_N = to_numpy(t.robust.switched(memory))
        if (~now_N & (found_N <= T)).any():
            raise LawBroken(f"{t.name}: a stream that had an alarm is trusted again at step {s}: alarms are for good")
        evidence_N, needed = t.robust.evidence(memory)
        fresh_N = now_N & (found_N > T)
        if not (to_numpy(evidence_N)[fresh_N] >= needed - t.tolerance * (1 + abs(needed))).all():
            raise LawBroken(f"{t.name}: an alarm at step {s}, while the evidence is below its threshold")
        found_N[fresh_N] = s
    for steps in (T, T // 2):
        times_N, wanted_N = to_numpy(t.robust.alarm_times(t.tokens[:, :steps])), np.minimum(found_N, steps + 1)
        if (apart := np.flatnonzero(times_N != wanted_N)).size:
            at = apart[0]
            raise LawBroken(
                f"{t.name}: of {steps} tokens, stream {at} has its alarm after {times_N[at]} by alarm_times and "
                f"{wanted_N[at]} by update ({steps + 1} is never)"
            )


# What a certificate promises is true of every sequence, and of every base model: a search may find one where it is not.


def regret_is_as_promised(t: Trial) -> None:
    """All sequences of a few steps, and those that a greedy adversary and a beam find in more."""
    certificate = t.robust.certificate
    problem, player = certificate.problem, t.robust.respond(t.robust.problem or certificate.problem)
    for steps in sorted({_few(t), _within(t, _LONGEST)}):
        try:
            bound = certificate.at(steps).regret_bound
        except ValueError:
            continue  # nothing is promised there
        if bound >= problem.span:
            continue
        if problem.n_states**steps <= _MOST_SEQUENCES:
            found = exact_worst_case(player, problem, steps)
        else:
            searched = greedy(player, problem, steps), beam(player, problem, steps, width=_WIDTH)
            found = max(searched, key=lambda worst: worst.regret)
        if not found.regret <= bound + t.tolerance:
            raise LawBroken(
                f"{t.name}: its certificate ({certificate.theorem}) promises a regret of at most {bound:.4g} after "
                f"{steps} steps, and on {inputs.shown(found.tokens.tolist())} it is {found.regret:.4g}"
            )


def false_alarms_are_as_promised(t: Trial) -> None:
    """Exactly, over all sequences of a few steps: of the base model, and of independent states with various chances."""
    certificate = t.robust.certificate
    if certificate.tv_bound >= 1:
        return
    S, steps = t.robust.n_states, _few(t)
    tokens_NxT = all_sequences(S, steps)
    in_time = steps if t.robust.horizon is None or steps < t.robust.horizon else steps - 1  # to change a prediction
    for base in (t.robust.base, *_independent(S)):
        probs_NxTxS = np.array(to_numpy(base.predict_sequence(tokens_NxT)), dtype=np.float64)
        chance_N = np.take_along_axis(probs_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0].prod(axis=-1)
        times_N = to_numpy(replace(t.robust, base=base).alarm_times(tokens_NxT))
        alarm = float(chance_N[times_N <= in_time].sum())
        if not alarm <= certificate.tv_bound + t.tolerance:
            probs = "" if base is t.robust.base else f" with probabilities {base.probs_TxS[0].tolist()}"
            raise LawBroken(
                f"{t.name}: its certificate ({certificate.theorem}) promises a false alarm with a chance of at most "
                f"{certificate.tv_bound:.4g}, and under {type(base).__name__}{probs} it is {alarm:.4g} in {steps} steps"
            )


def _few(t: Trial) -> int:
    """As many steps as have few enough sequences to try them all."""
    return _within(t, max(1, int(math.log(_MOST_SEQUENCES, max(t.robust.n_states, 2)) + 1e-9)))


def _within(t: Trial, steps: int) -> int:
    """No more steps than the test and the base model have."""
    return min(steps, t.robust.horizon or steps, ability(t.robust.base, "context") or steps)


def _independent(n_states: int) -> list[Any]:
    """Models of independent states: all alike, or one of them likelier than the rest together."""
    one_S, shares = np.eye(n_states), (0.6, 0.75, 0.9) if n_states > 1 else ()
    leaning = [row for share in shares for row in share * one_S + (1 - share) * (1 - one_S) / (n_states - 1)]
    return [Scheduled(probs_S[None]) for probs_S in (np.full(n_states, 1 / n_states), *leaning)]


ROBUST_LAWS = by_name(alarm_times_equal_streaming, regret_is_as_promised, false_alarms_are_as_promised)
