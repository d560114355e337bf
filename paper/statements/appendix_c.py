"""Appendix C: unknown decision problem, scoring rules."""

import math

import numpy as np

from lowregret import DecisionProblem, VRegret, external_regret, sample
from lowregret.engine import Engine
from lowregret.evaluate.adversaries import all_sequences
from lowregret.evaluate.distances import bounded_mean
from lowregret.robust.robustify import algorithm_1, robustify
from lowregret.rules.scoring import ScoringRule, brier, log_loss, problem_of, scoring_rule_of, spherical, v_shaped
from lowregret.rules.tips import tips_of, v_regret

from .claims import Claim, against, at_least, at_most, equals, statement
from .exhaustive import chances, some_model


def both_states(p: np.ndarray) -> np.ndarray:
    """Forecasts of state 1 as probabilities of both states, ``[..., 2]``."""
    return np.stack([1 - p, p], axis=-1)


def two_state_problems(n: int, seed: int) -> list[DecisionProblem]:
    """Random games with two states: utilities anywhere, on a coarse lattice (many ties), and at the corners."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        shape = rng.integers(1, 8), 2
        utility = (rng.uniform(-1, 1, shape), rng.integers(-4, 5, shape) / 4, rng.choice([-1.0, 0, 1], shape))[i % 3]
        found.append(DecisionProblem(utility))
    return found


@statement(
    "Definition C.1",
    "A scoring rule is proper if, whatever the truth q, no forecast costs less in expectation than q; strictly, if "
    "every other costs more.",
)
def definition_c_1() -> list[Claim]:
    """The Brier, spherical, logarithmic and V-shaped losses and what best responses lose in 60 random games: all
    pairs of a truth and a forecast from a grid of 401. The absolute error, which is not proper, shows it."""
    q = np.linspace(0, 1, 401)

    def saved(rule: ScoringRule) -> np.ndarray:
        """How much less than the truth each forecast costs, ``[truth, forecast]``."""
        cost = both_states(q) @ np.stack([np.broadcast_to(rule.loss(q, y), q.shape) for y in (0, 1)])
        return cost.diagonal()[:, None] - cost

    rules = [brier(), spherical(), log_loss(0.02), v_shaped(0.35), *map(scoring_rule_of, two_state_problems(60, 0))]
    absolute = both_states(q) @ np.abs(q - np.array([[0.0], [1.0]]))
    apart = np.abs(saved(brier()) + (q[:, None] - q) ** 2).max()
    return [
        equals("what a forecast saves on the truth, 64 rules: most", max(saved(r).max() for r in rules), 0, 1e-12),
        equals("Brier, strictly: extra cost of p, against (p - q)^2: largest distance", apart, 0, 1e-12),
        at_least("absolute error: most saved", (absolute.diagonal()[:, None] - absolute).max(), 1 / 8),
    ]


@statement(
    "Lemma C.2",
    "For every utility there is a proper scoring rule whose regret is that of best responses, on all forecasts and "
    "outcomes; and for every bounded proper scoring rule a utility over finitely many actions.",
    verdict="false",
    quotes=[
        r"Conversely, for every bounded proper scoring rule $\ell:[0,1]\times\{0,1\}\to\R$, there exists a bounded "
        r"utility function $U_\ell:\actsp\times\{0,1\}\to[-1,1]$ over some finite action set $\actsp$"
    ],
    corrected="The first holds, ties included. The second holds if and only if the Bayes risk is piecewise linear, as "
    "with finitely many actions it is. The Brier score's, p (1 - p), is missed by 1/(4 n^2) at least with n actions, "
    "by 1/(4 (n-1)^2) if they are spaced equally from 0 to 1; with the best n the regrets differ by up to 1/n.",
)
def lemma_c_2() -> list[Claim]:
    """Ninety random games, all sequences of 6, forecasts on tips among them. The converse: problem_of, which finds the
    best actions; constant forecasts for the regrets. Forty games come back from their own rules."""
    rng, tokens, apart, missed = np.random.default_rng(0), all_sequences(2, 6), [], []
    for problem in two_state_problems(90, 1):
        p = rng.choice(np.concatenate([tips_of(problem).tips, [0, 1, 0.5], rng.random(3)]), tokens.shape)
        best = external_regret(problem, problem.best_response(both_states(p)), tokens)
        apart.append(np.abs(scoring_rule_of(problem).regret(p, tokens) - best).max())
    for problem in two_state_problems(40, 2):
        missed.append(problem_of(scoring_rule_of(problem), n_actions=9).error)
    found = {n: problem_of(brier(), n) for n in (2, 33)}
    even = problem_of(brier(), forecasts=np.linspace(0, 1, 33)).error
    p, differ = np.linspace(0, 1, 201), {}  # constant forecasts, and shares of ones among the outcomes
    for n, (problem, _, _) in found.items():
        payoffs = problem.in_payoffs(problem.utility)
        worth = both_states(p) @ payoffs.T  # [share, action]
        regret = worth.max(axis=1)[:, None] - worth[:, problem.best_response(both_states(p))]
        differ[n] = float(np.abs(regret - (p - p[:, None]) ** 2).max())
    return [
        equals("regret of the rule, against best responses: largest distance", max(apart), 0, 1e-12),
        equals("a game's own rule missed by 9 actions: most", max(missed), 0, 1e-12),
        *(equals(f"Brier missed by {n} actions, times 4 n^2", found[n].error * 4 * n**2, 1, 1e-6) for n in (2, 33)),
        equals("33 equally spaced, times 4 (n-1)^2", even * 4 * 32**2, 1, 1e-6),
        equals("regrets, Brier's against the best 33 actions', times n: largest distance", differ[33] * 33, 1, 1e-6),
        against(equals("regrets, Brier's against the best 33 actions': largest distance", differ[33], 0, 1e-12)),
    ]


@statement(
    "Definition C.3",
    "The V-shaped loss with tip v is -|p - v| - p g for outcome 0 and -|p - v| + (1 - p) g for outcome 1, with g = "
    "sign(v - p); V-regret is its regret to the best constant forecast.",
    sharper="The loss is sign(v - p) (y - v). With n_1 ones in t steps, V-regret is (1/t) times the sum of these "
    "plus |n_1 - t v|: a running sum.",
)
def definition_c_3() -> list[Claim]:
    """The two forms of the loss, 41 forecasts and nine tips; the closed form against the best of 400 constant
    forecasts, on and beside the tip among them: random sequences of 1 to 30 steps with forecasts on tips."""
    rng, p, apart, brute = np.random.default_rng(0), np.linspace(0, 1, 41), [], []
    tips = np.array([0, 0.1, 0.25, 0.3, 0.5, 0.65, 0.8, 0.975, 1])
    for v in tips:
        g, rule = np.sign(v - p), v_shaped(float(v))
        apart.append(np.abs(rule.loss(p, 0) - (-np.abs(p - v) - p * g)).max())
        apart.append(np.abs(rule.loss(p, 1) - (-np.abs(p - v) + (1 - p) * g)).max())
    constants = np.concatenate([tips, np.linspace(0, 1, 391)])
    for steps in range(1, 31):
        p = rng.choice(np.concatenate([tips, rng.random(6)]), steps)
        y = rng.integers(2, size=steps)
        for v, found in zip(tips, v_regret(p, y, tips), strict=True):
            best = (np.sign(v - constants)[:, None] * (y - v)).mean(axis=1).min()
            brute.append(abs((np.sign(v - p) * (y - v)).mean() - best - found))
    return [
        equals("V-regret in closed form, against the definition: largest distance", max(brute), 0, 1e-12),
        equals("sign(v - p) (y - v), against the loss as printed: largest distance", max(apart), 0, 1e-12),
    ]


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
def lemma_c_8() -> list[Claim]:
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
            alarm = alarm_times(VRegret(T, delta, tips, test), probs, tokens) <= T
            used[test].append(chance[alarm].sum() / delta)
        safe = robustify(model, None, test=VRegret(T, 0.1, [0, 0.1, 0.5, 0.7, 1]))
        memory = safe.start((len(tokens),))
        for token in tokens.T:
            memory = safe.update(memory, token)
        evidence, needed = safe.evidence(memory)
        off.append(abs(chance @ np.exp(evidence - needed) / 0.1 - 1))
    seen = {}
    for test in TESTS:
        model = some_model(rng, 2)
        safe = robustify(model, None, test=VRegret(256, 0.1, np.arange(65) / 64, test))
        seen[test] = bounded_mean(safe.alarm_times(sample(model, 256, 1000, seed=rng)) <= 256, 0, 1).high
    p = 0.5 + rng.uniform(-0.1, 0.1, (200, 200))
    y = (rng.random((200, 200)) < np.clip(p + rng.normal(0, 0.3, (200, 1)), 0, 1)).astype(int)
    before = {test: v_regret_before(VRegret(200, 0.1, np.arange(21) / 20, test), p, y) for test in TESTS}
    return [
        at_most("chance of an alarm / delta, by bets, all sequences: largest", max(used["exact"]), 1),
        at_most("chance of an alarm / delta, by threshold, all sequences: largest", max(used["threshold"]), 1),
        equals("mean of the evidence, against 1: largest distance", max(off), 0, 1e-9),
        at_most("chance at T = 256, delta = .1, by bets, sampled: upper end", seen["exact"], 0.1),
        at_most("chance at T = 256, delta = .1, by threshold, sampled: upper end", seen["threshold"], 0.1),
        at_most("V-regret before the alarm / 1.5 sqrt(ln(2 N K/delta) / t): largest", before["exact"], 1),
        at_most("V-regret before the alarm / threshold: largest", before["threshold"], 1),
    ]


def alarm_times(test: VRegret, probs_NxTx2: np.ndarray, tokens_NxT: np.ndarray) -> np.ndarray:
    """The number of tokens seen when Algorithm 3 raises its alarm on each sequence; T + 1 for never."""
    times: np.ndarray = Engine(algorithm_1(None, test)).alarm_times(probs_NxTx2, tokens_NxT)
    return times


def v_regret_before(test: VRegret, p_NxT: np.ndarray, tokens_NxT: np.ndarray) -> float:
    """The largest V-regret of any sequence at any step before its alarm, as a share of what the lemma allows."""
    times_N, most = alarm_times(test, both_states(p_NxT), tokens_NxT), []
    log_cost = math.log(2 * len(test.tips) * max(len(test.rates_K), 1) / test.delta)
    for t in range(1, p_NxT.shape[1] + 1):
        found = v_regret(p_NxT[:, :t], tokens_NxT[:, :t], test.tips).max(axis=-1)[times_N > t].max(initial=0)
        allowed = 1.5 * math.sqrt(log_cost / t) if test.test == "exact" else float(test.threshold(float(t))) / t
        if allowed < 2:  # no V-regret is more
            most.append(found / allowed)
    return float(max(most))
