"""Appendix C: unknown decision problem, false alarms."""

import math

import numpy as np

from ...adversaries import all_sequences
from ...distances import bounded_mean
from ...predictors import sample
from ...robust import Robust
from ...rules import VRegret
from .appendix_c import laws
from .claims import Finding, at_most, equals, statement
from .exhaustive import chances, some_model

TESTS = ("exact", "threshold")


@statement(
    "Lemma C.8",
    "In distribution, with chance at least 1 - delta, the largest V-regret on N tips stays below "
    "O(sqrt(ln(N t^2/delta) / t)) at all t.",
    verdict="constant",
    sharper="Below sqrt(2 ln(pi^2 N t^2/(3 delta)) / t), every constant included. As a bet against the model on every "
    "tip and side, the evidence is a martingale from 1: it ever reaches 1/delta with chance at most delta; before that "
    "V-regret is at most 1.5 sqrt(ln(2 N K/delta) / t), with K betting rates.",
)
def lemma_c_8() -> Finding:
    """Six random models, all sequences of 12, three deltas: the chance of an alarm by bets and by threshold, the mean
    of the evidence. Two models of 256 steps, 1000 sequences each: the upper end of a 95% interval. V-regret before the
    alarm, 200 sequences of 200 steps, many of them not from the forecasts."""
    rng, T, tokens = np.random.default_rng(0), 12, all_sequences(2, 12)
    used: dict[str, list[float]] = {test: [] for test in TESTS}
    off, tips = [], np.arange(11) / 10
    for _ in range(6):
        model = some_model(rng, 2)
        probs, chance = model.predict_sequence(tokens), chances(model, tokens)[:, -1]
        for test, delta in ((test, delta) for test in TESTS for delta in (0.05, 0.5, 0.9)):
            alarm = VRegret(T, delta, tips, test).trip_times(probs, tokens) <= T
            used[test].append(chance[alarm].sum() / delta)
        rule = VRegret(T, 0.1, [0, 0.1, 0.5, 0.7, 1])
        memory = rule.start((len(tokens),))
        for t in range(T):
            memory = rule.update(memory, probs[:, t], tokens[:, t])
        off.append(abs(chance @ np.exp(rule.evidence(memory)[0]) - 1))
    seen = {}
    for test in TESTS:
        model = some_model(rng, 2)
        safe = Robust(model, VRegret(256, 0.1, np.arange(65) / 64, test))
        seen[test] = bounded_mean(safe.trip_times(sample(model, 256, 1000, seed=rng)) <= 256, 0, 1).high
    p = 0.5 + rng.uniform(-0.1, 0.1, (200, 200))
    y = (rng.random((200, 200)) < np.clip(p + rng.normal(0, 0.3, (200, 1)), 0, 1)).astype(int)
    before = {test: v_regret_before(VRegret(200, 0.1, np.arange(21) / 20, test), p, y) for test in TESTS}
    return Finding(
        [
            at_most("chance of an alarm / delta, by bets, all sequences: largest", max(used["exact"]), 1),
            at_most("chance of an alarm / delta, by threshold, all sequences: largest", max(used["threshold"]), 1),
            equals("mean of the evidence, against 1: largest distance", max(off), 0, 1e-9),
            at_most("chance at T = 256, delta = .1, by bets, sampled: upper end", seen["exact"], 0.1),
            at_most("chance at T = 256, delta = .1, by threshold, sampled: upper end", seen["threshold"], 0.1),
            at_most("V-regret before the alarm / 1.5 sqrt(ln(2 N K/delta) / t): largest", before["exact"], 1),
            at_most("V-regret before the alarm / threshold: largest", before["threshold"], 1),
        ]
    )


def v_regret_before(rule: VRegret, p_NxT: np.ndarray, tokens_NxT: np.ndarray) -> float:
    """The largest V-regret of any sequence at any step before its alarm, as a share of what the lemma allows."""
    memory, most = rule.start((len(p_NxT),)), []
    for t, (p, token) in enumerate(zip(p_NxT.T, tokens_NxT.T, strict=True), start=1):
        memory = rule.update(memory, laws(p), token)
        found = rule.v_regrets(memory).max(axis=-1)[~rule.tripped(memory)].max(initial=0)
        allowed = 1.5 * math.sqrt(rule.log_cost / t) if rule.test == "exact" else rule.threshold(np.array(float(t))) / t
        if allowed < 2:  # no V-regret is more
            most.append(found / allowed)
    return float(max(most))
