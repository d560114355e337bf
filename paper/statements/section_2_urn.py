"""Section 2: the Polya urn."""

import math

import numpy as np

from lowregret import certificates
from lowregret.evaluate.adversaries import all_sequences, worst_case_by_counts
from lowregret.evaluate.regret import external_regret
from lowregret.policies import Hedge, Respond
from lowregret.predictors import PolyaUrn
from lowregret.problems import matching

from .claims import Claim, against, at_least, at_most, equals, statement
from .exhaustive import chances, some_problem

COIN, URN = matching(), PolyaUrn(2)
EXACT = 1e-12  # double precision, over a few dozen steps


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
    steps = [2**k for k in range(4, 14)]
    worst = {T: worst_case_by_counts(URN, COIN, T, T**-0.5) or math.nan for T in steps}
    bound = {T: certificates.lemma_2_3(COIN, T, T**-0.5) for T in steps}

    return [
        *(at_most(f"worst regret, T = {T}", worst[T], bound[T]) for T in (1024, 64, 8192)),
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
    steps = [2**k for k in range(8, 21, 2)]
    urn, hedge = (
        {T: math.sqrt(T) * float(external_regret(COIN, player(T), np.arange(T) % 2)[-1]) for T in steps}
        for player in (lambda T: Respond(URN, COIN, T**-0.5), lambda T: Hedge(COIN, T))
    )

    return [
        *(at_least(f"regret of 0101... times sqrt(T), T = {T}", urn[T], math.log(T) / 16) for T in (2**20, 256)),
        equals("its growth from T = 2^18 to 2^20", urn[2**20] - urn[2**18], math.log(4) / 16, within=1e-3),
        equals("Hedge's growth from T = 2^18 to 2^20", hedge[2**20] - hedge[2**18], 0, within=1e-3),
    ]
