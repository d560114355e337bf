"""Beyond Section 3: the exact test of every start, the library's default, and what it is made of."""

import math
from itertools import product
from typing import Any

import numpy as np

from lowregret import DecisionProblem, PolyaUrn, RegretGap, certificates, external_regret, matching, rock_paper_scissors
from lowregret.certificates.coupled import free_rate_bound, kappa
from lowregret.engine import Actions, Engine, ExactTest, Inputs, QuantalResponse, Recovery, Setting, prior_of
from lowregret.evaluate.adversaries import all_sequences
from lowregret.policies import AdaHedge, Hedge, Respond
from lowregret.robust import algorithm_1

from .claims import Claim, at_least, at_most, equals, statement
from .exhaustive import some_forecasts, some_problem
from .section_3 import threshold_at

COIN, GAME = matching(), rock_paper_scissors()


@statement(
    "Unknown horizon, shares",
    "Beyond the paper: with an unknown horizon the chances of failure delta 6/(pi t)^2 of all steps add up to delta, "
    "the weights of all rates and starts, 1/((k+1)(k+2)) times 1/(j(j+1)), to 1: TV <= delta for ever.",
    verdict="beyond",
)
def shares_of_an_unknown_horizon() -> list[Claim]:
    """The sums over 10^6 steps, 40 rates and 1,000 starts with what is left; the chance of an alarm under models with a
    forecast for every prefix, all sequences of 8, the exact test and the threshold."""
    t = np.arange(1.0, 1e6 + 1)
    failures = float(np.exp(-certificates.bounds.anytime_log(t, 0.3)).sum()) / (
        0.3 * (1 - 6 / math.pi**2 / (1e6 + 0.5))
    )
    prior = prior_of(algorithm_1(COIN, ExactTest(0.3)))
    starts = sum(prior.weights_K(j).sum() * 2 for j in range(1, 1001)) + prior.unspent(1000)
    rng, used, T = np.random.default_rng(0), [], 8
    tokens = all_sequences(2, T)
    for _ in range(5):
        problem = some_problem(rng, 3, 2)
        probs = some_forecasts(rng, tokens, 2)
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
        probs = some_forecasts(rng, tokens, S)
        for test in (ExactTest(0.9), RegretGap(None, delta=0.9, span_aware=True)):
            setting = algorithm_1(problem, test, PolyaUrn(S))
            engine = Engine(setting)
            law = engine.predictions(probs, tokens, engine.alarm_times(probs, tokens))
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
    drift = certificates.bounds.summed_temperature(COIN, t, None)
    needed = float(threshold_at(gap, float(t))) / t
    let_pass, threshold = (every.certificate.interval(1, t - 1) + 1) / t, gap.certificate.at(t).regret_bound
    return [
        equals("the threshold itself, t = 1000", needed, drift * log / t + noise, 1e-12),
        equals("the urn's, t = 1000", certificates.urn_anytime(COIN, t), urn, 1e-12),
        equals("summed temperatures, t = 1000, from above", drift / warmth_T.sum(), 1, 0.02),
        at_least("the same", drift / warmth_T.sum(), 1),
        equals("what the exact test lets pass, t = 1000", let_pass, (passed + 1) / t, 1e-6),
        equals("the threshold's, t = 1000", threshold, urn + drift * log / t + noise + 1 / t, 1e-9),
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
    return [equals(f"alarms at another step, of {tried}", wrong, 0, 0)]


def steps_for(n_states: int) -> int:
    """How long sequences may be for all of them to be tried."""
    return 8 if n_states == 2 else 5


@statement(
    "Every start, (i) false alarms",
    "Beyond the paper: bets on every action, at every rate, that join at every step and are charged at least 1 and at "
    "least E exp(lambda x), have a wealth E_t that is a supermartingale from 1 under the model: P(alarm) <= delta.",
    verdict="beyond",
)
def false_alarms_are_rare() -> list[Claim]:
    """Twelve random games, a forecast for every prefix, all sequences: the mean of E_t at every t, and the chance of an
    alarm, for a known and an unknown horizon; E_t and the alarms beside the definition.
    Guessing bits with one law: the largest chance."""
    rng, means, used, off, wrong = np.random.default_rng(0), [], [], [], 0
    for i in range(12):
        problem = some_problem(rng, 3)
        S = problem.n_states
        T, tokens = steps_for(S), all_sequences(S, steps_for(S))
        probs = some_forecasts(rng, tokens, S)
        chance_NxT = np.take_along_axis(probs, tokens[..., None], -1)[..., 0].cumprod(-1)
        for horizon in (T, None):
            setting = algorithm_1(problem, ExactTest(0.3, horizon), PolyaUrn(S))
            engine = Engine(setting)
            alarm_N = engine.alarm_times(probs, tokens)
            used.append(chance_NxT[alarm_N <= T, -1].sum() / 0.3)
            if i >= 6:
                continue
            wealth_NxT = total_wealth(setting, probs, tokens)
            reached = wealth_NxT >= 1 / 0.3 - 1e-12
            wrong += int((alarm_N != np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, T + 1)).sum())
            level_NxT = engine.run(engine.start(len(tokens)), Inputs(probs), tokens).level_NxT
            means += [level_NxT[:, t] @ chance_NxT[:, t] / S ** (T - 1 - t) for t in range(T)]
            off.append(abs(level_NxT / wealth_NxT - 1).max())
    T, tokens = 10, all_sequences(2, 10)
    engine = Engine(algorithm_1(COIN, ExactTest(0.3, T), PolyaUrn(2), QuantalResponse(0.05)))
    for one in np.linspace(0.05, 0.5, 19):
        probs = np.broadcast_to([1 - one, one], (*tokens.shape, 2))
        chance_N = (one**tokens * (1 - one) ** (1 - tokens)).prod(axis=1)
        used.append(chance_N[engine.alarm_times(probs, tokens) <= T].sum() / 0.3)
    return [
        at_most("chance of an alarm / delta, all sequences: largest", max(used), 1),
        at_least("the same, so that something was tried", max(used), 0.25),
        at_most("mean of E_t under the model: largest", max(means), 1, 1e-9),
        equals("E_t against its definition, relative: largest distance", max(off), 0, 1e-9),
        equals("alarms of recorded sequences at another step than by the definition", wrong, 0, 0),
    ]


@statement(
    "Every start, (ii) intervals",
    "Beyond the paper: before an alarm no interval is bad. From any start j to any t the regret to any action is below "
    "min_k [ charges + ln(1/(m(k,j) delta)) ] / lambda_k, m the weight that joins at j.",
    verdict="beyond",
)
def no_interval_is_bad() -> list[Claim]:
    """Eight random games, a forecast for every prefix, all sequences, all intervals that end before the alarm: beside
    the bound from what was charged, in the words of the theorem, and beside the certificate's."""
    rng, used, promised = np.random.default_rng(1), [], []
    for i in range(8):
        problem = some_problem(rng, 3)
        S = problem.n_states
        T, tokens = steps_for(S), all_sequences(S, steps_for(S))
        setting = algorithm_1(problem, ExactTest(0.9, (T, None, T)[i % 3]), PolyaUrn(S))
        probs = some_forecasts(rng, tokens, S)
        alarm_N = Engine(setting).alarm_times(probs, tokens)
        gain, charge = gains_and_charges(setting, probs, tokens)
        for end in range(1, T + 1):
            quiet = alarm_N > end
            for start in range(1, end + 1):
                regret_NxA = gain[quiet, start - 1 : end].sum(axis=1)
                paid_NxAxK = charge[quiet, start - 1 : end].sum(axis=1)
                costs_K = -np.log(joining(setting, start) * 0.9)
                bound_NxA = ((paid_NxAxK + costs_K) / rates_of(setting)).min(axis=-1)
                used.append(np.max(regret_NxA / bound_NxA, initial=0.0))
                promised.append(np.max(regret_NxA, initial=0.0) / setting.certificate.interval(start, end))
    return [
        at_most("regret of an interval / bound, all sequences: largest", max(used), 1),
        at_most("regret of an interval / certificate's bound: largest", max(promised), 1),
        at_least("the same, so that something was tried", max(promised), 0.5),
    ]


def rates_of(setting: Setting) -> np.ndarray:
    """The rates of the exact test, the main one first."""
    watch: Any = setting.watch
    rates_K: np.ndarray = watch.prior.rates_K
    return rates_K


def joining(setting: Setting, start: int) -> np.ndarray:
    """m(k, start) for one action: 3/4 to (main rate, 1), the rest to all rates, half at 1 and half at any start.

    >>> setting = algorithm_1(COIN, ExactTest(0.5, 4))
    >>> [2 * joining(setting, start).sum().item() for start in (1, 2)]
    [0.90625, 0.03125]
    """
    K, A, horizon = len(rates_of(setting)), setting.problem.n_actions, setting.test.horizon
    if horizon is None:
        return np.array([1 / ((k + 1) * (k + 2) * start * (start + 1) * A) for k in range(K)])
    each = 0.25 / K * (0.5 * (start == 1) + 0.5 / horizon)
    return (np.full(K, each) + 0.75 * (start == 1) * (np.arange(K) == 0)) / A


def total_wealth(setting: Setting, probs_NxTxS: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """E_t by its definition, ``[N, T]``: each start on its own, and what has not joined yet."""
    gain, charge = gains_and_charges(setting, probs_NxTxS, tokens)
    growth = np.exp(gain[..., None] * rates_of(setting) - charge)  # [N, T, A, K]
    found = []
    for t in range(1, tokens.shape[1] + 1):
        bets = sum((joining(setting, j) * growth[:, j - 1 : t].prod(axis=1)).sum(axis=(1, 2)) for j in range(1, t + 1))
        joined = sum(joining(setting, j).sum() * setting.problem.n_actions for j in range(1, t + 1))
        found.append(bets + 1 - joined)
    return np.stack(found, axis=1)


def gains_and_charges(setting: Setting, probs_NxTxS: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each action gained over the response, ``[N, T, A]``, and what each bet was charged, ``[N, T, A, K]``."""
    problem: Any = setting.problem
    U, T, gain, charge = problem.utility, tokens.shape[1], [], []
    for t in range(T):
        eta, law_NxS = setting.temperature or float(problem.anytime_temperature(t + 1)), probs_NxTxS[:, t]
        pi_NxA = problem.quantal_response(law_NxS, eta)
        x_NxAxS = U - (pi_NxA @ U)[:, None, :]
        growth = np.exp(x_NxAxS[..., None] * rates_of(setting))
        charge.append(np.maximum(np.log(np.einsum("ns,nask->nak", law_NxS, growth)), 0.0))
        gain.append(np.take_along_axis(x_NxAxS, tokens[:, t, None, None], -1)[..., 0])
    return np.stack(gain, axis=1), np.stack(charge, axis=1)


@statement(
    "Every start, (iii) the charge",
    "Beyond the paper: no law is charged more than kappa = lambda eta g(lambda R^2/(8 eta)), g(z) = max_r r ln((1-r)/r)"
    " + r ln(A-1) + z r^2; and min over lambda of [ t kappa + c ] / lambda is t eta W((A-1) e^(m-1)), m = (R/eta) "
    "sqrt(c/(2t)).",
    verdict="beyond",
)
def the_charge_is_bounded() -> list[Claim]:
    """kappa in closed form beside the maximum itself on a grid of 200,000; 3,000 laws of random games beside it; the
    least over 20,000 rates beside Lambert's function."""
    rng, share = np.random.default_rng(2), np.geomspace(1e-9, 1, 200_001)[:-1]
    share = np.append(share, 1 - share[share < 0.5])
    off, charged, closed = [], [], []
    for problem in (COIN, GAME, matching(5)):
        A, R = problem.n_actions, problem.contrast
        for lam, eta in ((0.02, 0.5), (0.176, 1 / 32), (2.0, 1 / 32), (1.0, 1e-3)):
            g = share * (np.log1p(-share) - np.log(share) + math.log(A - 1)) + lam * R**2 / (8 * eta) * share**2
            off.append(abs(float(kappa(problem, lam, eta)) / (lam * eta * g.max()) - 1))
            rates = np.geomspace(1e-4, 20, 20_000)
            least = ((400 * kappa(problem, rates, eta) + 7.0) / rates).min()
            closed.append(abs(float(free_rate_bound(problem, 400, eta, 7.0)) / least - 1))
    for i in range(10):
        problem = GAME if i == 0 else some_problem(rng, 4)
        lam, eta = math.exp(rng.uniform(-2, 0.5)) / problem.span, float(rng.choice([0.03, 0.1, 0.4]))
        laws = rng.dirichlet(np.full(problem.n_states, rng.choice([0.5, 1.0, 20.0])), 300)
        x_NxAxS = problem.utility - (problem.quantal_response(laws, eta) @ problem.utility)[:, None, :]
        largest = np.log(np.einsum("ns,nas->na", laws, np.exp(lam * x_NxAxS))).max()
        charged.append(largest / float(kappa(problem, lam, eta)))
    return [
        at_most("charge / kappa, random games and laws: largest", max(charged), 1),
        equals("kappa against the maximum, relative: largest distance", max(off), 0, 1e-6),
        equals("least bound over rates against Lambert's, relative: largest distance", max(closed), 0, 1e-6),
    ]


@statement(
    "Every start, (iv) regret",
    "Beyond the paper: T Regret <= max{ B(T), max over alarms tau of B(tau-1) + J + F(T-tau) }, F what the fallback "
    "loses: .0908 at T = 1024 for guessing bits with delta = 2/T and the way back, where the threshold of Theorem 3.1 "
    "has .3988.",
    verdict="beyond",
)
def regret_is_bounded() -> list[Claim]:
    """Nine random games and guessing bits, a forecast for every prefix, all sequences, every step; four fallbacks."""
    rng, used = np.random.default_rng(3), []
    for i in range(10):
        problem = COIN if i < 2 else some_problem(rng, 3)
        S = problem.n_states
        T, tokens = steps_for(S), all_sequences(S, steps_for(S))
        probs = some_forecasts(rng, tokens, S)
        test = ExactTest(0.95, T)
        predicted = [algorithm_1(problem, test, play) for play in (PolyaUrn(S), Recovery(budget=0.2))]
        policies = [Hedge(problem, T), AdaHedge(problem)]
        played = [Setting(problem, Actions(), test, play, QuantalResponse()) for play in policies]
        for setting in predicted + played:
            engine = Engine(setting)
            policy = engine.run(engine.start(len(tokens)), Inputs(probs), tokens).policy_NxTxA
            bound_T = np.array([setting.certificate.at(t).regret_bound for t in range(1, T + 1)])
            used.append((external_regret(problem, policy, tokens) / bound_T).max())
    T = 1024
    kinds: dict[str, Any] = {"the way back": Recovery(), "the urn": PolyaUrn(2)}
    bound = {name: algorithm_1(COIN, ExactTest(2 / T, T), play).certificate for name, play in kinds.items()}
    return [
        at_most("regret / bound, 10 games, all sequences, every step: largest", max(used), 1),
        at_least("the same, so that something was tried", max(used), 0.5),
        at_most("the bound with the way back, T = 1024", bound["the way back"].regret_bound, 0.095),
        at_most("the bound with the urn, T = 1024", bound["the urn"].regret_bound, 0.1259),
    ]


@statement(
    "Every start, (v) the whole history",
    "Beyond the paper: a fallback that has run from the first step on loses after the alarm no more than F(n) = ln A / "
    "rho + n rho J^2/8 (Hedge at the rate rho), and the urn, Hedge at falling rates, no more than with these summed.",
    verdict="beyond",
)
def fallbacks_with_a_history() -> list[Claim]:
    """Guessing bits and a lopsided game of two actions, all sequences of 10, an alarm at every step, and every end:
    before it either action all the time, the worse or the better one of each step, after it the fallback."""
    used: dict[str, list[float]] = {"Hedge": [], "the urn": []}
    T, eta = 10, 10**-0.5
    for problem in (COIN, DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])):
        U, tokens = problem.utility, all_sequences(2, T)
        earned = U[:, tokens]  # [A, N, T]
        urn, hedge = PolyaUrn(2), Hedge(problem, T)
        plays: dict[str, tuple[Any, np.ndarray]] = {
            "Hedge": (hedge, hedge.policy_sequence(tokens)),
            "the urn": (urn, problem.quantal_response(urn.predict_sequence(tokens), eta)),
        }
        befores = [earned[0], earned[1], earned.min(axis=0), earned.max(axis=0)]
        for name, (play, policy_NxTxA) in plays.items():
            own = np.einsum("nta,ant->nt", policy_NxTxA, earned)
            most = {end: play.regret_after(problem, end, eta)(np.arange(end + 1)) for end in range(1, T + 1)}
            for alarm, before in product(range(T), befores):
                played = np.concatenate([before[:, :alarm], own[:, alarm:]], axis=1)
                lead_NxT = np.cumsum(earned - played, axis=-1).max(axis=0)
                at = lead_NxT[:, alarm - 1] if alarm else 0.0
                for end in range(alarm + 1, T + 1):
                    used[name].append((lead_NxT[:, end - 1] - at).max() / most[end][end - alarm])
    return [at_most(f"loss after the alarm / F, {name}: largest", max(found), 1) for name, found in used.items()]
