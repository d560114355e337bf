"""The laws of rules: when they trip, by what evidence, that one form equals the other, and what they promise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability
from ..adversaries import all_sequences, beam, exact_worst_case, greedy
from ..arrays import Array, astype, first, last, mix, namespace, to_numpy
from ..certificates import Certificate
from ..policies import Policy
from ..predictors import Predictor, Scheduled, asked, has_states
from ..problems import DecisionProblem, with_first
from ..robust import Robust
from ..rules import ResponseRule, Rule, RuleMemory
from .laws import LawBroken, tokens_for

_MOST_SEQUENCES = 2**12  # tried one and all
_LONGEST = 128  # steps of a search that tries some
_WIDTH = 32  # of its beam


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


# What a certificate promises is true of every sequence, and of every base model: a search may find one where it is not.


class GuardedMemory(NamedTuple):
    base: Any
    probs: Array  # [..., S], what the base model predicts now
    rule: RuleMemory


class Guarded(Policy):
    """What is played under a rule: the answer to the base model until the trip, the fallback's from then on."""

    def __init__(self, base: Predictor, rule: ResponseRule) -> None:
        self.base, self.rule, self.problem = base, rule, rule.problem

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> GuardedMemory:
        shape = inputs.batch_shape_of(batch_shape)
        base = self.base.start(shape, like=like)
        probs = asked(self.base, base, shape)
        return GuardedMemory(base, probs, self.rule.start(shape, like=probs))

    def policy(self, memory: GuardedMemory) -> Array:
        moment = self.rule.look(memory.rule, memory.probs)
        return last(with_first(self.rule.answer(memory.rule, moment)))

    def update(self, memory: GuardedMemory, token: Array) -> GuardedMemory:
        rule, base = self.rule.update(memory.rule, memory.probs, token), self.base.update(memory.base, token)
        return GuardedMemory(base, asked(self.base, base, tuple(rule.step.shape)), rule)


def regret_is_as_promised(t: Trial) -> None:
    """All sequences of a few steps, and those that a greedy adversary and a beam find in more."""
    certificate = t.rule.certificate
    if not isinstance(certificate, Certificate):
        return
    problem = certificate.problem
    player = Guarded(t.base, t.rule) if isinstance(t.rule, ResponseRule) else _answered(t, problem)
    for steps in sorted({_few(t), _within(t, _LONGEST)}):
        if certificate.terms_at is None and steps != certificate.horizon:
            continue  # nothing is promised there
        bound = certificate.at(steps).regret_bound
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
    """Exactly, over all sequences of a few steps: of the base model, and of independent states with various laws."""
    certificate = t.rule.certificate
    if not isinstance(certificate, Certificate) or certificate.tv_bound >= 1:
        return
    S, steps = t.rule.n_states, _few(t)
    tokens_NxT = all_sequences(S, steps)
    in_time = steps if t.rule.horizon is None or steps < t.rule.horizon else steps - 1  # to change a prediction
    for base in (t.base, *_some_laws(S)):
        probs_NxTxS = np.array(to_numpy(base.predict_sequence(tokens_NxT)), dtype=np.float64)
        chance_N = np.take_along_axis(probs_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0].prod(axis=-1)
        alarm = float(chance_N[to_numpy(t.rule.trip_times(probs_NxTxS, tokens_NxT)) <= in_time].sum())
        if not alarm <= certificate.tv_bound + t.tolerance:
            law = "" if base is t.base else f" with the law {base.probs_TxS[0].tolist()}"
            raise LawBroken(
                f"{t.name}: its certificate ({certificate.theorem}) promises a false alarm with a chance of at most "
                f"{certificate.tv_bound:.4g}, and under {type(base).__name__}{law} it is {alarm:.4g} in {steps} steps"
            )


def _few(t: Trial) -> int:
    """As many steps as have few enough sequences to try them all."""
    return _within(t, max(1, int(np.log(_MOST_SEQUENCES) / np.log(max(t.rule.n_states, 2)) + 1e-9)))


def _within(t: Trial, steps: int) -> int:
    """No more steps than the rule and the base model have."""
    return min(steps, t.rule.horizon or steps, ability(t.base, "context") or steps)


def _answered(t: Trial, problem: DecisionProblem) -> Policy:
    """Where the rule knows no problem: the responses in the one that its certificate speaks of."""
    return Robust(t.base, t.rule).respond(problem)


def _some_laws(n_states: int) -> list[Any]:
    """Independent states: all alike, or one of them likelier than the rest together."""
    laws = [np.full(n_states, 1 / n_states)]
    for share in (0.6, 0.75, 0.9):
        laws += list(share * np.eye(n_states) + (1 - share) / max(n_states - 1, 1) * (1 - np.eye(n_states)))
    return [Scheduled(law[None]) for law in laws if abs(law.sum() - 1) < inputs.SUM_TOLERANCE]


RULE_LAWS: dict[str, Callable[[Trial], None]] = {
    "trip times equal streaming": trip_times_equal_streaming,
    "trips ignore the future": trips_ignore_the_future,
    "trip times in torch equal NumPy": rules_in_torch_equal_numpy,
    "regret is as promised": regret_is_as_promised,
    "false alarms are as promised": false_alarms_are_as_promised,
}
