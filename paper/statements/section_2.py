"""Section 2: model and preliminaries."""

import math

import numpy as np

from lowregret import DecisionProblem, ExactTest, certificates, external_regret, matching
from lowregret.certificates.by_counts import worst_case as worst_case_by_counts
from lowregret.evaluate.adversaries import all_sequences, exact_worst_case, greedy
from lowregret.policies import Hedge, Respond
from lowregret.predictors import Markov, PolyaUrn, Scheduled
from lowregret.robust import algorithm_1

from .claims import Claim, against, at_least, at_most, equals, statement
from .exhaustive import chances, some_model, some_problem

COIN, URN = matching(), PolyaUrn(2)
EXACT = 1e-12  # double precision, over a few dozen steps


@statement("2.1, models and distributions", "Models and distributions of full support correspond one to one.")
def models_and_distributions() -> list[Claim]:
    """Ten random models over three states, all sequences of 7: dividing the chances of prefixes gives the model."""
    rng, T, tokens = np.random.default_rng(0), 7, all_sequences(3, 7)
    apart, mass = [], []
    for model in (some_model(rng, 3) for _ in range(10)):
        chance = chances(model, tokens)[:, -1].reshape((3,) * T)
        probs = model.predict_sequence(tokens).reshape((3,) * T + (T, 3))
        mass.append(abs(chance.sum() - 1))
        for t in range(T):
            prefix = chance.sum(axis=tuple(range(t + 1, T)))  # over all that can follow
            law = prefix / prefix.sum(axis=-1, keepdims=True)
            apart.append(np.abs(law - probs[(slice(None),) * t + (0,) * (T - t) + (t,)]).max())
    return [
        equals("law from the chances of prefixes, against the model: largest distance", max(apart), 0, EXACT),
        equals("chances of all sequences, against 1: largest distance", max(mass), 0, EXACT),
    ]


@statement("2.2, Hedge", "Hedge at rate 1/sqrt(T) has regret O(ln A / sqrt(T)) on every sequence.", verdict="constant")
def hedge() -> list[Claim]:
    """Guessing bits: the exact worst case over all sequences, by dynamic programming over counts. Fifteen random
    games at random rates: all sequences. The bound is ln A / (rate T) + rate J^2 / 8."""
    rng, used = np.random.default_rng(0), []
    for _ in range(15):
        problem, rate = some_problem(rng), float(rng.choice([0.1, 0.5, 2.0]))
        T = 10 if problem.n_states == 2 else 7
        tokens = all_sequences(problem.n_states, T)
        worst = external_regret(problem, Hedge(problem, T, rate), tokens)[:, -1].max()
        used.append(worst / certificates.hedge(problem, T, rate))
    worst = {T: worst_case_by_counts(Hedge(COIN, T), COIN, T, None) or math.nan for T in (1024, 64)}
    return [
        *(at_most(f"worst regret, T = {T}", worst[T], certificates.hedge(COIN, T, T**-0.5)) for T in worst),
        at_most("worst regret / bound, 15 random games", max(used), 1),
    ]


@statement(
    "2.3, quantal response",
    "The quantal response tends to the best response as eta falls and to the uniform one as eta grows; with two "
    "actions, averages of responses are responses (Section 4).",
)
def quantal_response() -> list[Claim]:
    """Fifty random games, twenty beliefs each. With three actions the one belief that an average of two responses
    would need has a negative entry: the restriction to two actions is not for convenience."""
    rng = np.random.default_rng(0)
    given_up, uneven, missed = [], [], []
    for _ in range(50):
        problem = some_problem(rng)
        beliefs = rng.dirichlet(np.ones(problem.n_states), 20)
        utility = beliefs @ problem.utility.T
        cold = problem.quantal_response(beliefs, 1e-9)
        given_up.append((utility.max(-1) - (cold * utility).sum(-1)).max())
        uneven.append(np.abs(problem.quantal_response(beliefs, 1e9) - 1 / problem.n_actions).max())
        pair = DecisionProblem(rng.uniform(-1, 1, (2, problem.n_states)))
        average = pair.quantal_response(beliefs, 0.2).reshape(10, 2, 2).mean(1)
        again = pair.quantal_response(pair.invert_quantal_response(average, 0.2), 0.2)
        missed.append(np.abs(again - average).max())
    # Guessing one of three: mu_a = eta ln pi_a + constant, so a response has one belief at most.
    average = matching(3).quantal_response(np.eye(3)[:2], 0.25).mean(0)
    needed = 0.25 * np.log(average)
    needed += (1 - needed.sum()) / 3
    return [
        equals("average of responses, two actions, inverted: largest miss", max(missed), 0, 1e-9),
        at_most("utility given up at eta = 1e-9", max(given_up), 1e-9 * certificates.quantal_loss(4)),
        equals("distance from uniform at eta = 1e9", max(uneven), 0, 1e-8),
        at_most("three actions: least entry of the belief an average needs", needed.min(), 0),
    ]


@statement(
    "Lemma 2.1",
    "Best responses to the true law have expected regret at most 0.",
    verdict="false",
    quotes=["the expected regret of the decision maker on sequences sampled from $\\dist$ is at most zero"],
    corrected="Against each fixed action at most 0; against the best one in hindsight at most J sqrt(ln A / (2T)), "
    "plus eta w_A for quantal responses. The expectation of a maximum is not the maximum of expectations.",
)
def lemma_2_1() -> list[Claim]:
    """The counterexample is a fair coin, exactly, from the binomial law; for three strategies by all sequences of 14
    bits. The corrected bounds: ten random games of three actions, with Markov models, all sequences of 7."""
    T, bits, fair = 14, all_sequences(2, 14), Scheduled([[0.5, 0.5]])
    strategies = (np.zeros_like(bits), Respond(fair, COIN, 0.1), Respond(PolyaUrn(2), COIN, 0.1))
    means = [external_regret(COIN, strategy, bits)[:, -1].mean() for strategy in strategies]
    rng, tokens = np.random.default_rng(0), all_sequences(3, 7)
    to_fixed, to_best, warm = [], [], []
    for _ in range(10):
        problem, model = DecisionProblem(rng.uniform(-1, 1, (3, 3))), some_model(rng, 3)
        chance, best = chances(model, tokens)[:, -1], problem.best_response(model.predict_sequence(tokens))
        earned = problem.utility[best, tokens].mean(-1)
        to_fixed += [chance @ (problem.utility[a, tokens].mean(-1) - earned) for a in range(3)]
        mean = chance @ external_regret(problem, best, tokens)[:, -1]
        to_best.append(mean / certificates.lemma_2_1(problem, 7))
        mean = chance @ external_regret(problem, Respond(model, problem, 0.3), tokens)[:, -1]
        warm.append(mean / certificates.lemma_2_1(problem, 7, 0.3))
    regret = expected_regret_of_a_fair_coin(1024)
    return [
        at_most("expected regret of a fair coin, T = 1024", regret, certificates.lemma_2_1(COIN, 1024)),
        at_most("largest expected regret to a fixed action, 10 games", max(to_fixed), 0),
        at_most("best responses: expected regret / bound, 10 games", max(to_best), 1),
        at_most("quantal responses: expected regret / bound, 10 games", max(warm), 1),
        equals("three strategies, all sequences: most", max(means), expected_regret_of_a_fair_coin(T), EXACT),
        equals("three strategies, all sequences: least", min(means), expected_regret_of_a_fair_coin(T), EXACT),
        equals("the coin's regret times sqrt(2 pi T), T = 1024", regret * math.sqrt(2 * math.pi * 1024), 1, 0.01),
        against(at_most("expected regret of a fair coin, T = 1024, whatever is played", regret, 0)),
    ]


def expected_regret_of_a_fair_coin(horizon: int) -> float:
    """E|heads - T/2| / T: whatever is played earns T/2 on average, and the better side more."""
    from scipy.stats import binom

    heads = np.arange(horizon + 1)
    return float((binom.pmf(heads, horizon, 0.5) * np.abs(heads - horizon / 2)).sum() / horizon)


@statement("Lemma 2.2", "Against best responses to any model some sequence has regret of order 1: at least 1/2.")
def lemma_2_2() -> list[Claim]:
    """Every deterministic strategy of 4 steps (all 32,768) against all sequences; three models of 400 steps against
    the adversary of the proof, which also meets quantal responses to the urn."""
    T, models = 400, (PolyaUrn(2), Scheduled([[2 / 3, 1 / 3]]), Markov([[0.2, 0.8], [0.6, 0.4]], 1))
    found = [greedy(model, COIN, T, respond="best") for model in models]
    player = Respond(PolyaUrn(2), COIN, T**-0.5)
    calm = external_regret(COIN, player, found[0].tokens)
    return [
        at_least("least worst regret of all strategies of 4 steps", least_worst_of_all_strategies(4), 0.5),
        at_least("least regret of three models, T = 400", min(f.regret for f in found), 0.5),
        at_most("quantal responses to the urn, same sequence", calm[-1], certificates.lemma_2_3(COIN, T, T**-0.5)),
    ]


def least_worst_of_all_strategies(horizon: int) -> float:
    """Over all maps from histories to bits, the least of the largest regrets over all sequences."""
    tokens = all_sequences(2, horizon)
    strategy = np.arange(2 ** (2**horizon - 1))[:, None]  # one binary digit for each history
    earned = np.zeros((len(strategy), len(tokens)))
    for t in range(horizon):
        history = 2**t - 1 + tokens[:, :t] @ 2 ** np.arange(t)
        earned += (strategy >> history) % 2 == tokens[:, t]
    ones = tokens.sum(-1)
    return float((np.maximum(ones, horizon - ones) - earned).max(-1).min() / horizon)


@statement(
    "Definition 2.4",
    "A model is low-regret if quantal responses to it at temperature 1/sqrt(T) have regret o(1) on every sequence.",
)
def definition_2_4() -> list[Claim]:
    """Guessing bits, exact worst cases over all sequences by dynamic programming over counts: the urn is low-regret, a
    model that says 1 with chance 1/3 is not, and with the urn behind an exact test its bound falls again. The
    temperature belongs to the definition: at a fixed one, and without any, the urn is not low-regret either."""
    steps = [2**k for k in range(4, 12)]
    third, urn = Scheduled([[2 / 3, 1 / 3]]), PolyaUrn(2)
    temperature = {"1/sqrt(T)": [T**-0.5 for T in steps], "fixed": [0.5] * len(steps), "none": [1e-6] * len(steps)}
    worst = {
        name: [worst_case_by_counts(urn, COIN, T, eta) or math.nan for T, eta in zip(steps, etas, strict=True)]
        for name, etas in temperature.items()
    }
    w_2 = certificates.quantal_loss(2)
    model = [exact_worst_case(third, COIN, T).regret for T in steps]
    bound = [algorithm_1(COIN, ExactTest(1 / T, T), urn).certificate.regret_bound for T in steps]
    rate = np.sqrt(steps) / np.log(steps)
    falls = {name: np.array(values) * rate for name, values in {"urn": worst["1/sqrt(T)"], "test": bound}.items()}
    growth = {name: float((values[1:] / values[:-1]).max()) for name, values in falls.items()}
    return [
        at_most("urn, T = 2048", worst["1/sqrt(T)"][-1], certificates.lemma_2_3(COIN, 2048, 2048**-0.5)),
        at_most("urn, times sqrt(T) / ln T: T to 2T, largest factor", growth["urn"], 1),
        at_most("Ber(1/3) with the exact test, bound times sqrt(T) / ln T: the same", growth["test"], 1),
        at_least("Ber(1/3), every T: least", min(model), 0.5),
        at_least("urn, best responses (ties mixed), every T: least", min(worst["none"]), 0.25),
        at_least("urn, eta = 1/2, every T: least, against w_2 / 2", min(worst["fixed"]), 0.5 * w_2),
    ]


@statement("Equation (1)", "The Polya urn is defined from the first step on, and its distribution has full support.")
def equation_1() -> list[Claim]:
    """All sequences of 8 over three states against Dirichlet's formula 2! n_0! n_1! n_2! / 10!, which is positive and
    blind to order. All sequences of 12 bits against tosses of a coin whose bias was drawn uniformly, integrated."""
    tokens, bits = all_sequences(3, 8), all_sequences(2, 12)
    counts = (tokens[..., None] == np.arange(3)).sum(axis=1)
    factorial = np.array([math.factorial(n) for n in range(11)], dtype=float)
    formula = factorial[2] * factorial[counts].prod(axis=-1) / factorial[10]
    node, weight = np.polynomial.legendre.leggauss(8)  # exact up to degree 15
    bias, ones = (node + 1) / 2, bits.sum(axis=-1)[:, None]
    mixture = (weight / 2 * bias**ones * (1 - bias) ** (12 - ones)).sum(axis=-1)
    by_formula = np.abs(chances(PolyaUrn(3), tokens)[:, -1] / formula - 1)
    by_mixture = np.abs(chances(URN, bits)[:, -1] / mixture - 1)
    return [
        equals("chance / Dirichlet's formula: largest distance from 1", by_formula.max(), 0, EXACT),
        equals("chance / coin of uniform bias: largest distance from 1", by_mixture.max(), 0, EXACT),
    ]


@statement(
    "Equation (1), as Hedge",
    "Quantal responses to the urn at temperature 1/sqrt(T) play the same strategy as Hedge (Section 5.2).",
    verdict="false",
    quotes=[r"\texttt{POLYAURN} plays the same strategy as the Hedge algorithm"],
    corrected="They are exponential weights at the falling rate sqrt(T)/(S + t - 1), with a head start from the prior: "
    "close to following the leader at first, and Hedge's rate 1/sqrt(T) only at the end. The proof of Lemma 2.3 (A.3) "
    "says just this, and the introduction that they closely simulate Hedge.",
)
def the_urn_as_hedge() -> list[Claim]:
    """Twenty random games, all sequences of up to 8: the response against exponential weights written out. The
    counterexample: guessing 1024 bits, after a single one."""
    rng, apart = np.random.default_rng(0), []
    for _ in range(20):
        problem, T = some_problem(rng), 8
        S, tokens = problem.n_states, all_sequences(problem.n_states, 7)
        policy = Respond(PolyaUrn(S), problem, T**-0.5).policy_sequence(tokens)
        for t in range(1, 8):
            earned = problem.utility[:, tokens[:, : t - 1]].sum(axis=-1) + problem.utility.sum(axis=-1)[:, None]
            weight = np.exp(math.sqrt(T) / (S + t - 1) * earned)
            apart.append(np.abs(policy[:, t - 1] - (weight / weight.sum(axis=0)).T).max())
    urn, hedge = (player.policy_sequence([1, 1])[1, 1] for player in (Respond(URN, COIN, 1 / 32), Hedge(COIN, 1024)))
    return [
        equals("chances, against exponential weights: largest distance", max(apart), 0, EXACT),
        against(equals("chance of guessing 1 after a one: the urn's, against Hedge's", urn, hedge, 0.01)),
    ]


@statement(
    "Lemma 2.3",
    "Quantal responses to the urn have regret O((ln T + ln A) / sqrt(T)) on every sequence.",
    verdict="constant",
)
def lemma_2_3() -> list[Claim]:
    """Guessing bits: the exact worst case over all sequences, by dynamic programming over counts, against the bound
    with its constants, F_T. Forty random games, temperatures and priors: all sequences."""
    rng, used = np.random.default_rng(0), []
    for _ in range(40):
        problem = some_problem(rng)
        S, T = problem.n_states, int(rng.integers(1, 13 if problem.n_states == 2 else 9))
        eta, prior = float(rng.choice([0.05, 0.3, T**-0.5, 2.0])), float(rng.choice([0.25, 1.0, 3.0]))
        regret = external_regret(problem, Respond(PolyaUrn(S, prior), problem, eta), all_sequences(S, T))[:, -1]
        used.append(regret.max() / certificates.lemma_2_3(problem, T, eta, prior))
    worst = {T: worst_case_by_counts(URN, COIN, T, T**-0.5) or math.nan for T in (1024, 64, 8192)}
    return [
        *(at_most(f"worst regret, T = {T}", worst[T], certificates.lemma_2_3(COIN, T, T**-0.5)) for T in worst),
        at_most("worst regret / bound, 40 random games", max(used), 1),
        at_most("as printed with the constant 1, T = 1024", worst[1024], math.log(2 * 1024) / 32),
    ]


@statement(
    "Lemma 2.3, the log T",
    "Beyond the paper: the ln T of Lemma 2.3 is needed. Where Hedge has none, the urn's regret grows with it.",
    verdict="beyond",
)
def the_logarithm_is_real() -> list[Claim]:
    """The alternating sequence 0101... alone costs the urn (ln T) / (16 sqrt(T)): at every other step it has just
    come to lean the wrong way, by tanh(sqrt(T)/(2(t+2)))/2."""
    steps = 2**20, 2**18, 256
    urn, hedge = (
        {T: math.sqrt(T) * float(external_regret(COIN, player(T), np.arange(T) % 2)[-1]) for T in steps}
        for player in (lambda T: Respond(URN, COIN, T**-0.5), lambda T: Hedge(COIN, T))
    )
    return [
        *(at_least(f"regret of 0101... times sqrt(T), T = {T}", urn[T], math.log(T) / 16) for T in (2**20, 256)),
        equals("its growth from T = 2^18 to 2^20", urn[2**20] - urn[2**18], math.log(4) / 16, within=1e-3),
        equals("Hedge's growth from T = 2^18 to 2^20", hedge[2**20] - hedge[2**18], 0, within=1e-3),
    ]
