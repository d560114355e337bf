"""The way back: the mixture is what its definition says, and no sequence makes it lose more than its bound."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks
from lowregret.policies import Recovering

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
LOPSIDED = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])
GAMES = {"matching": MATCHING, "rps": RPS, "lopsided": LOPSIDED, "newsvendor": lr.newsvendor([0, 1, 2, 3], 5, 3)}


def slow(back: Recovering, probs_TxS: np.ndarray, tokens: list[int], alarm: int) -> dict[str, list]:
    """One stream, line by line as the definition has it: everything is computed anew from the whole past."""
    problem = back.problem
    U, (A, S), J = problem.utility, problem.utility.shape, problem.span
    advice = [int(np.argmax(U @ p)) for p in probs_TxS]
    heard: dict[str, list] = {"law": [], "share": [], "safe": [], "rise": [], "returned": []}
    K = 1 + 2 * len(back.memories)
    weights, regret_A, lowest_A, in_safe, begun, trusted = [1 / K] * K, np.zeros(A), np.zeros(A), False, 0, False
    for t, (p, token) in enumerate(zip(probs_TxS, tokens, strict=True)):
        laws = [p]
        for own in (False, True):
            for m in back.memories:
                counts = np.zeros(S)
                for s in range(t):
                    if not own or advice[s] == advice[t]:
                        counts *= 1 - 1 / m
                        counts[tokens[s]] += 1
                laws.append((counts + 1) / (counts.sum() + S))
        law = sum(w * q for w, q in zip(weights, laws, strict=True))
        eta = problem.anytime_temperature(t + 1) if back.temperature is None else back.temperature
        if in_safe:
            safe: Any = back.safe
            memory = safe.start()
            for s in range(begun, t):
                memory = safe.update(memory, tokens[s])
            law = None if back.acts else safe.predict(memory)
        played = safe.policy(memory) if in_safe and back.acts else problem.quantal_response(law, eta)
        heard["law"].append(played if back.acts else law)
        heard["share"].append(0.0 if in_safe else weights[0])
        heard["safe"].append(in_safe)
        chance = [w * q[token] for w, q in zip(weights, laws, strict=True)]
        weights = [(1 - back.share) * c / sum(chance) + back.share / K for c in chance]
        if t >= alarm:  # it was in force
            regret_A = regret_A + U[:, token] - played @ U[:, token]
            lowest_A = np.minimum(lowest_A, regret_A)
            worst = (regret_A - lowest_A).max()
            limit = back.budget * J * math.sqrt(back.horizon or t + 1)
            if in_safe and worst <= limit / 2:
                in_safe = False
            elif not in_safe and worst >= limit:
                in_safe, begun = True, t + 1
            share = 0.0 if in_safe else weights[0]
            was, trusted = trusted, share > 0.5 or (trusted and share > 0.25)
            heard["returned"].append(trusted and not was)
        else:
            heard["returned"].append(False)
        heard["rise"].append((regret_A - lowest_A).max())
    return heard


def example(back: Recovering, T: int, alarms: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws ``[N, T, S]`` and tokens ``[N, T]``: the odd streams have a break that passes, the even ones an enemy first.

    The break spends the budget, and the old best action wins it back; against the enemy it is spent for good.
    """
    rng, S, N = np.random.default_rng(seed), back.n_states, len(alarms)
    probs = rng.dirichlet(np.full(S, 0.6), (N, T)) * 0.98 + 0.02 / S
    probs[1::2] = 0.02 / (S - 1)
    probs[1::2, :, -1] = 0.98
    tokens, memory = np.zeros((N, T), dtype=np.int64), back.start((N,))
    for t in range(T):
        right = (rng.random((N, 1)) > probs[:, t].cumsum(-1)[:, :-1]).sum(-1)
        worst = np.argmin(back.policy_beside(memory, probs[:, t]) @ back.problem.utility, axis=-1)
        broken = np.where(np.arange(N) % 2 == 1, 0 <= t - T // 3 < 3, t < T // 3)
        tokens[:, t] = np.where(broken, np.where(np.arange(N) % 2 == 1, 0, worst), right)
        memory = back.update_beside(memory, probs[:, t], tokens[:, t], np.array(alarms) <= t)
    return probs, tokens


SAFE = {
    "default": lambda problem, T: None,
    "urn": lambda problem, T: lr.PolyaUrn(problem.n_states, 0.5),
    "AdaHedge": lambda problem, T: lr.AdaHedge(problem),
    "Hedge": lambda problem, T: None if T is None else lr.Hedge(problem, T),
}


def made(problem: lr.DecisionProblem, T: int | None, safe: str, **settings: Any) -> Recovering:
    recipe = lr.Recovery(safe=SAFE[safe](problem, T), **settings)
    return recipe.made_for(problem, T, None if T is None else 1 / math.sqrt(T))


@pytest.mark.parametrize(
    ("game", "safe", "known"),
    [
        ("matching", "default", True),
        ("matching", "AdaHedge", True),
        ("matching", "urn", False),
        ("rps", "default", True),
        ("rps", "Hedge", True),
        ("lopsided", "AdaHedge", False),
        ("newsvendor", "urn", True),
    ],
)
def test_streaming_is_the_definition(game: str, safe: str, known: bool) -> None:
    problem, T, alarms = GAMES[game], 96, [0, 30, 5, 96]
    back = made(problem, T if known else None, safe, memories=(8, 30), share=0.01, budget=0.25)
    probs, tokens = example(back, T, alarms, seed=7)
    wanted = [slow(back, p, y.tolist(), alarm) for p, y, alarm in zip(probs, tokens, alarms, strict=True)]
    says, memory = back.policy_beside if back.acts else back.law_beside, back.start((len(alarms),))
    entered = left = returns = 0
    for t in range(T):
        np.testing.assert_allclose(says(memory, probs[:, t]), [w["law"][t] for w in wanted], atol=1e-12)
        np.testing.assert_allclose(back.share_of_base(memory), [w["share"][t] for w in wanted], atol=1e-12)
        was = memory.is_safe
        assert was.tolist() == [w["safe"][t] for w in wanted]
        memory = back.update_beside(memory, probs[:, t], tokens[:, t], np.array(alarms) <= t)
        np.testing.assert_allclose(memory.rise_A.max(axis=-1), [w["rise"][t] for w in wanted], atol=1e-12)
        assert back.returned(memory).tolist() == [w["returned"][t] for w in wanted]
        entered, left = entered + (memory.is_safe & ~was).sum(), left + (was & ~memory.is_safe).sum()
        returns += back.returned(memory).sum()
    assert entered, "an example in which the budget is never spent shows little"
    assert left or game != "matching" or safe != "AdaHedge"
    assert returns or problem.n_states == 2


@dataclass(frozen=True)
class AtStep(lr.ResponseRule):
    """A rule that trips at a step of its own choosing: what comes after the alarm is what is tested here."""

    at: int = 10

    @property
    def compares(self) -> bool:
        return False

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> None:
        return None

    def judge(self, statistics: None, step: Any, moment: Any) -> tuple[None, Any]:
        return None, step == self.at + moment.token  # the time differs from stream to stream

    def evidence(self, memory: Any) -> tuple[Any, Any]:
        return memory.step * 0.0, memory.step * 0.0


def ruled(game: str, T: int | None, safe: str = "default", **settings: Any) -> AtStep:
    return AtStep(GAMES[game], T, at=6, fallback=lr.Recovery(safe=SAFE[safe](GAMES[game], T), **settings))


@pytest.mark.parametrize("game", GAMES)
def test_a_rule_with_it_keeps_the_laws(game: str) -> None:
    """Recorded is streaming, NumPy is torch, forks and reordered streams do not disturb each other."""
    S = GAMES[game].n_states
    base = lr.Markov(np.random.default_rng(0).dirichlet(np.full(S, 0.5), S) * 0.9 + 0.1 / S, 1)
    kept = checks.check_rule(ruled(game, 40, memories=(5, 30), budget=0.2), base, horizon=40, tolerance=1e-12)
    assert len(kept) == len(checks.RULE_LAWS) + len(checks.PREDICTOR_LAWS)
    checks.check_rule(ruled(game, None, memories=(5,), budget=0.2), base, horizon=40, tolerance=1e-12)


def test_recorded_is_streaming_where_budgets_are_spent_and_won_back() -> None:
    back = made(MATCHING, 96, "urn", memories=(8, 30), budget=0.25)
    alarms = [0, 30, 5, 96, 95, 97]
    probs, tokens = example(back, 96, alarms, seed=7)
    laws, memory, spent = [], back.start((6,)), 0
    for t in range(96):
        late = np.array(alarms) <= t
        laws.append(np.where(late[:, None], back.law_beside(memory, probs[:, t]), probs[:, t]))
        memory = back.update_beside(memory, probs[:, t], tokens[:, t], late)
        spent += memory.is_safe.sum()
    assert spent
    recorded = back.laws_beside(probs.reshape(2, 3, 96, 2), tokens.reshape(2, 3, 96), np.reshape(alarms, (2, 3)))
    np.testing.assert_allclose(recorded.reshape(6, 96, 2), np.stack(laws, axis=1), atol=1e-12)
    np.testing.assert_array_equal(recorded[1, 0], probs[3])  # no alarm before the end: the base's own law
