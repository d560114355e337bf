"""Beyond Section 3: the every-start test, what it loses before and after an alarm."""

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adversaries import all_sequences
from ...certificates.limits import limit
from ...policies import AdaHedge, Hedge, Minimax, Recovery
from ...predictors import PolyaUrn
from ...problems import DecisionProblem, matching
from ...rules import ExactTest
from .claims import Finding, at_least, at_most, statement
from .exhaustive import some_laws_of_prefixes, some_problem
from .section_3_every_start import steps_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COIN = matching()


@statement(
    "Every start, (iv) regret",
    "Beyond the paper: T Regret <= max{ B(T), max over alarms tau of B(tau-1) + J + F(T-tau) }, F what the fallback "
    "loses: .0672 at T = 1024 for guessing bits with delta = 2/T and minimax play, .0905 with the way back, where the "
    "first exact test has .1259 and Theorem 3.1 .3988.",
    verdict="beyond",
)
def regret_is_bounded() -> Finding:
    """Nine random games and guessing bits, a law for every prefix, all sequences, every step; five fallbacks."""
    rng, used = np.random.default_rng(3), []
    for i in range(10):
        problem = COIN if i < 2 else some_problem(rng, 3)
        S, A = problem.n_states, problem.n_actions
        T, tokens = steps_for(S), all_sequences(S, steps_for(S))
        probs = some_laws_of_prefixes(rng, tokens, S)
        plays: list[Any] = [PolyaUrn(S), Hedge(problem, T), AdaHedge(problem), Recovery(budget=0.2)]
        for fallback in plays + ([Minimax(problem, T)] if A == 2 else []):
            rule = ExactTest(problem, T, delta=0.95, fallback=fallback)
            bound_T = np.array([t * rule.certificate.at(t).regret_bound for t in range(1, T + 1)])
            used.append((total_regrets(rule, probs, tokens) / bound_T).max())
    T = 1024
    kinds: dict[str, Any] = {"minimax": Minimax(COIN, T), "the way back": Recovery(), "the urn": PolyaUrn(2)}
    bound = {name: ExactTest(COIN, T, delta=2 / T, fallback=play).certificate for name, play in kinds.items()}

    def picture(ax: "Axes") -> None:
        steps = [24, 64, 128, 256, 512, 1024, 4096, 10_000]
        plays: dict[str, Any] = {"minimax fallback": Minimax, "the way back": lambda *_: Recovery()}
        for name, play in plays.items():
            rules = [ExactTest(COIN, n, delta=2 / n, fallback=play(COIN, n)) for n in steps]
            ax.loglog(steps, [rule.certificate.regret_bound for rule in rules], label=name)
        ax.loglog(steps[:4], [limit(COIN, n, 2 / n) for n in steps[:4]], label="limit")
        ax.set(xlabel="T", ylabel="regret")

    return Finding(
        [
            at_most("regret / bound, 10 games, all sequences, every step: largest", max(used), 1),
            at_least("the same, so that something was tried", max(used), 0.5),
            at_most("the bound with minimax play, T = 1024", bound["minimax"].regret_bound, 0.0672 * 1.015),
            at_most("the bound with the way back, T = 1024", bound["the way back"].regret_bound, 0.095),
            at_most("the bound with the urn, T = 1024", bound["the urn"].regret_bound, 0.1259),
        ],
        picture=picture,
        caption="Guessing bits, delta = 2/T: what is promised, and what no rule that switches once can go below.",
    )


def total_regrets(rule: ExactTest, probs_NxTxS: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The total regret of what is played, after every step, ``[N, T]``."""
    memory, lead_AxN, found = rule.start((len(tokens),)), np.zeros((rule.problem.n_actions, len(tokens))), []
    for t in range(tokens.shape[1]):
        moment = rule.look(memory, probs_NxTxS[:, t])
        lead_AxN = lead_AxN + rule.leads(rule.answer(memory, moment), tokens[:, t])
        memory = rule.advance(memory, moment, tokens[:, t])
        found.append(lead_AxN.max(axis=0))
    return np.stack(found, axis=1)


@statement(
    "Every start, (v) the whole history",
    "Beyond the paper: a fallback that has run from the first step on loses after the alarm no more than F(n) = ln A / "
    "rho + n rho J^2/8 (Hedge at the rate rho), and the urn, Hedge at falling rates, no more than with these summed; "
    "minimax play from the current lead no more than E max of n fair steps, however much was lost before.",
    verdict="beyond",
)
def fallbacks_with_a_history() -> Finding:
    """Guessing bits and a lopsided game of two actions, all sequences of 10, an alarm at every step, and every end:
    before it either action all the time, the worse or the better one of each step, after it the fallback."""
    used: dict[str, list[float]] = {"Hedge": [], "the urn": [], "minimax": []}
    T, eta = 10, 10**-0.5
    for problem in (COIN, DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])):
        U, tokens = problem.utility, all_sequences(2, T)
        earned = U[:, tokens]  # [A, N, T]
        urn, hedge, minimax = PolyaUrn(2), Hedge(problem, T), Minimax(problem, T)
        plays: dict[str, tuple[Any, np.ndarray]] = {
            "Hedge": (hedge, hedge.policy_sequence(tokens)),
            "the urn": (urn, problem.quantal_response(urn.predict_sequence(tokens), eta)),
            "minimax": (minimax, minimax.policy_sequence(tokens)),
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
    return Finding(
        [
            *(at_most(f"loss after the alarm / F, {name}: largest", max(found), 1) for name, found in used.items()),
            at_least("minimax play, so that something was tried", max(used["minimax"]), 0.999),
        ]
    )
