"""Appendix A: omitted proofs."""

import math

import numpy as np

from lowregret import DecisionProblem, PolyaUrn, certificates
from lowregret.certificates.by_counts import worst_case as worst_case_by_counts

from .claims import Claim, against, at_least, at_most, statement
from .exhaustive import some_problem


@statement(
    "Lemma A.1",
    "A quantal response gives up at most eta ln A of the best response's expected utility.",
    sharper="At most eta w_A with w_A = W((A-1)/e), Lambert's function: .278, .463, .604 for 2, 3, 4 actions where "
    "ln A is .693, 1.099, 1.386. It is attained.",
)
def lemma_a_1() -> list[Claim]:
    """One action ahead of A - 1 equals, by every lead; 400 random games, 50 beliefs each, at random temperatures."""
    eta, leads = 0.05, np.linspace(0, 1, 20_001)
    loss = {A: given_up(_one_ahead(A), np.stack([1 - leads, leads], axis=-1), eta) / eta for A in (2, 3, 4, 8)}
    rng, used = np.random.default_rng(0), []
    for _ in range(400):
        problem, temperature = some_problem(rng, 6, 4), float(rng.choice([0.03, 0.3, 3.0]))
        beliefs = rng.dirichlet(np.full(problem.n_states, 0.5), 50)
        used.append(
            given_up(problem, beliefs, temperature).max() / (temperature * certificates.quantal_loss(problem.n_actions))
        )
    return [
        *(at_most(f"most given up / eta, {A} actions", loss[A].max(), certificates.quantal_loss(A)) for A in loss),
        at_least("the same / w_A: least", min(loss[A].max() / certificates.quantal_loss(A) for A in loss), 1, 1e-6),
        at_most("given up / (eta w_A), 400 random games: most", max(used), 1),
        at_most("most given up / eta, 2 actions, as printed", loss[2].max(), math.log(2)),
    ]


def _one_ahead(n_actions: int) -> DecisionProblem:
    """One action earns 1 in the second state, nothing else earns anything."""
    return DecisionProblem(np.eye(n_actions, 1) * np.array([[0.0, 1.0]]))


def given_up(problem: DecisionProblem, beliefs: np.ndarray, temperature: float) -> np.ndarray:
    """U(best response) - U(quantal response), in expectation under each belief."""
    utility = beliefs @ problem.utility.T
    return utility.max(axis=-1) - (problem.quantal_response(beliefs, temperature) * utility).sum(axis=-1)


@statement(
    "A.3, proof of Lemma 2.3",
    "For every sequence, T Regret <= ln A / lambda_T + (1/2) sum_t lambda_t with lambda_t = sqrt(T)/(S + t - 1).",
    verdict="step",
    quotes=[
        r"gives, for any adversarial sequence $\theta_{1:T}$, ... "
        r"\ge\ -\frac{\ln|A|}{\lambda_T}\;-\;\frac{1}{2}\sum_{t=1}^T \lambda_t,"
    ],
    corrected="The prior's head start C(a) = sum_s U(a, s) adds terms: F_T = (1/T) [ eta (T+S-1) ln A + (J^2/(8 eta)) "
    "sum_i 1/(S+i) + eta S ln mean_a exp(C(a)/(eta S)) - min C ]. The lemma stands.",
)
def the_proof_of_lemma_2_3() -> list[Claim]:
    """Five states, two actions, one of which is better in all states but one: the exact worst case over all sequences
    of 16, by dynamic programming over counts."""
    T, S = 16, 5
    better = np.append(np.ones(S - 1), -1.0)
    problem = DecisionProblem([better, -better])
    worst = worst_case_by_counts(PolyaUrn(S), problem, T, T**-0.5)
    rate = math.sqrt(T) / (S + np.arange(T))
    assert worst is not None
    return [
        at_most("worst regret, T = 16", worst, certificates.lemma_2_3(problem, T, T**-0.5)),
        against(at_most("worst regret, T = 16", worst, (math.log(2) / rate[-1] + rate.sum() / 2) / T)),
    ]
