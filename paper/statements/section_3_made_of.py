"""Beyond Section 3: what the tests and their bounds are made of."""

import math

import numpy as np

from lowregret import certificates
from lowregret.certificates.coupled import kappa
from lowregret.engine import Engine, ExactTest, Inputs, prior_of
from lowregret.evaluate.adversaries import all_sequences
from lowregret.evaluate.regret import external_regret
from lowregret.policies import Respond
from lowregret.predictors import PolyaUrn
from lowregret.problems import DecisionProblem, matching
from lowregret.robust import algorithm_1
from lowregret.rules import RegretGap

from .claims import Claim, at_least, at_most, equals, statement
from .exhaustive import some_laws_of_prefixes, some_problem
from .section_3 import threshold_at

COIN = matching()


@statement(
    "Unknown horizon, shares",
    "Beyond the paper: with an unknown horizon the chances of failure delta 6/(pi t)^2 of all steps add up to delta, "
    "the weights of all rates and starts, 1/((k+1)(k+2)) times 1/(j(j+1)), to 1: TV <= delta for ever.",
    verdict="beyond",
)
def shares_of_an_unknown_horizon() -> list[Claim]:
    """The sums over 10^6 steps, 40 rates and 1,000 starts with what is left; the chance of an alarm under models with a
    law for every prefix, all sequences of 8, the exact test and the threshold."""
    t = np.arange(1.0, 1e6 + 1)
    failures = float(np.exp(-certificates.anytime_log(t, 0.3)).sum()) / (0.3 * (1 - 6 / math.pi**2 / (1e6 + 0.5)))
    prior = prior_of(algorithm_1(COIN, ExactTest(0.3)))
    starts = sum(prior.weights_K(j).sum() * 2 for j in range(1, 1001)) + prior.unspent(1000)
    rng, used, T = np.random.default_rng(0), [], 8
    tokens = all_sequences(2, T)
    for _ in range(5):
        problem = some_problem(rng, 3, 2)
        probs = some_laws_of_prefixes(rng, tokens, 2)
        chance_NxT = np.take_along_axis(probs, tokens[..., None], -1)[..., 0].cumprod(-1)
        for test in (ExactTest(0.4), RegretGap(None, delta=0.4, span_aware=True)):
            alarm_N = Engine(algorithm_1(problem, test, PolyaUrn(2))).alarm_times(probs, tokens)
            used.append(chance_NxT[alarm_N <= T, -1].sum() / 0.4)
    return [
        equals("chances of failure of 10^6 steps / delta, and those to come", failures, 1, 1e-9),
        equals("weights of all rates and 1,000 starts, and those to come", float(starts), 1, 1e-12),
        at_most("chance of an alarm / delta, all sequences: largest", max(used), 1),
    ]


@statement(
    "Unknown horizon, bounds",
    "Beyond the paper: at the temperature c/sqrt(t+S-1), c = J/(2 sqrt(ln A)), the urn has regret at most (J sqrt(ln A "
    "(t+S-1)) + max C - min C)/t at every t, and each rule what it lets pass before an alarm on top.",
    verdict="beyond",
)
def bounds_for_an_unknown_horizon() -> list[Claim]:
    """Ten random games, all sequences, every step, the urn alone and with both rules; every bound beside its formula
    written out, at t = 1000."""
    rng, urn_used, used = np.random.default_rng(1), [], []
    for _ in range(10):
        problem = some_problem(rng, 3)
        S = problem.n_states
        T, tokens = (9, all_sequences(2, 9)) if S == 2 else (6, all_sequences(3, 6))
        regret = external_regret(problem, Respond(PolyaUrn(S), problem, None), tokens).max(axis=0)
        urn_used.append((regret / [certificates.urn_anytime(problem, t) for t in range(1, T + 1)]).max())
        probs = some_laws_of_prefixes(rng, tokens, S)
        for test in (ExactTest(0.9), RegretGap(None, delta=0.9, span_aware=True)):
            setting = algorithm_1(problem, test, PolyaUrn(S))
            engine = Engine(setting)
            law = engine.laws(probs, tokens, engine.alarm_times(probs, tokens))
            warmth_T = problem.anytime_temperature(np.arange(1, T + 1))
            played = np.stack([problem.quantal_response(law[:, t], warmth_T[t]) for t in range(T)], axis=1)
            regret = external_regret(problem, played, tokens).max(axis=0)
            used.append((regret / [setting.certificate.at(t).regret_bound for t in range(1, T + 1)]).max())
    return [
        at_most("regret of the urn / bound, all sequences, every step: largest", max(urn_used), 1),
        at_most("regret / bound, both rules, all sequences, every step: largest", max(used), 1),
        at_least("the same, so that something was tried", max(used), 0.5),
        *written_out(1000, 0.01),
    ]


def written_out(t: int, delta: float) -> list[Claim]:
    """The bounds of guessing bits after t steps of an unknown horizon, each beside its formula."""
    log, warmth_T = math.log(2), 1 / (2 * math.sqrt(math.log(2))) / np.sqrt(np.arange(1, t + 1) + 1)
    urn = math.sqrt(log * (t + 1)) / t
    every, gap = (algorithm_1(COIN, test, PolyaUrn(2)) for test in (ExactTest(delta), RegretGap(None, delta=delta)))
    passed = math.inf
    for k in range(40):
        rate = 2.0 / 2**k
        charge = float(kappa(COIN, rate, warmth_T[:-1]).sum())
        passed = min(passed, (charge + math.log(4 * (k + 1) * (k + 2) / delta)) / rate)
    noise = math.sqrt(8 * math.log(math.pi**2 * t**2 / (6 * delta)) / t)
    drift = certificates.summed_temperature(COIN, t, None)
    needed = float(threshold_at(gap, float(t))) / t
    return [
        equals("the threshold itself, t = 1000", needed, drift * log / t + noise, 1e-12),
        equals("the urn's, t = 1000", certificates.urn_anytime(COIN, t), urn, 1e-12),
        equals("summed temperatures, t = 1000, from above", drift / warmth_T.sum(), 1, 0.02),
        at_least("the same", drift / warmth_T.sum(), 1),
        equals(
            "what the exact test lets pass, t = 1000",
            (every.certificate.interval(1, t - 1) + 1) / t,
            (passed + 1) / t,
            1e-6,
        ),
        equals(
            "the threshold's, t = 1000", gap.certificate.at(t).regret_bound, urn + drift * log / t + noise + 1 / t, 1e-9
        ),
    ]


@statement(
    "Excluded states",
    "Beyond the paper: a state that the model had given probability 0 is an alarm at once: this costs nothing in "
    "distribution.",
    verdict="beyond",
)
def excluded_states_are_alarms() -> list[Claim]:
    """A model that is right until a state comes to which it had given nothing, at each of 40 steps: recorded sequences
    at once, and a step at a time; known and unknown horizons."""
    T, wrong, tried = 900, 0, 0
    for rows in (40, 2):
        when_N = np.linspace(1, T, rows).astype(int)
        tokens = (np.arange(1, T + 1) == when_N[:, None]).astype(int)
        probs = np.tile([0.999, 0.001], (rows, T, 1))
        probs[np.arange(rows), when_N - 1] = [1.0, 0.0]
        for problem in (COIN, DecisionProblem([[1.0, 0.9], [0.8, 0.9]])):
            for horizon in (T, None):
                engine = Engine(algorithm_1(problem, ExactTest(1e-6, horizon), PolyaUrn(2)))
                wrong += int((engine.alarm_times(probs, tokens) != when_N).sum())
                tried += rows
                if rows == 2 and horizon is not None:
                    trace = engine.run(engine.start(1), Inputs(probs[:1, :3]), tokens[:1, :3])
                    wrong += int(engine.head.open(trace.rows).alarm[0] != 1)
    return [
        equals(f"alarms at another step, of {tried}", wrong, 0, 0),
    ]
