"""Maximin play: its value against supports enumerated, and no sequence earns less than what certificates promise."""

import itertools
import math

import numpy as np
import pytest

import lowregret as lr
from lowregret.adversaries import all_sequences
from lowregret.policies import Recovering
from lowregret.policies.budgets import PayoffBudget
from lowregret.problems import Positions, solved

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
LOPSIDED = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])
WIDE = lr.DecisionProblem([[0.1, -0.9, 0.4], [0.8, 0.2, -1.0]])


def by_supports(U: np.ndarray) -> float:
    return float(U.min()) + float(np.ptp(U)) * scaled_by_supports(U)


def scaled_by_supports(U: np.ndarray) -> float:
    """On a scale from 0 to 1, by Shapley and Snow: in some square block equalising strategies are optimal."""
    (A, S), reach = U.shape, float(np.ptp(U))
    if reach > 0:
        U = (U - U.min()) / reach
    for k in range(1, min(A, S) + 1):
        for rows in itertools.combinations(range(A), k):
            for columns in itertools.combinations(range(S), k):
                block = np.block([[U[np.ix_(rows, columns)].T, -np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
                other = np.block([[U[np.ix_(rows, columns)], -np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
                if min(abs(np.linalg.det(block)), abs(np.linalg.det(other))) < 1e-12:
                    continue
                target = np.append(np.zeros(k), 1.0)
                x, y = np.linalg.solve(block, target), np.linalg.solve(other, target)
                if min(x[:k].min(), y[:k].min()) < -1e-12:
                    continue
                mixed, law = np.zeros(A), np.zeros(S)
                mixed[list(rows)], law[list(columns)] = x[:k], y[:k]
                if (U @ law).max() - (mixed @ U).min() < 1e-11:
                    return float((mixed @ U).min())
    raise AssertionError("every game has such a block")


def some_game(rng: np.random.Generator, kind: int) -> np.ndarray:
    U = rng.uniform(-1, 1, tuple(rng.integers(1, 5, 2)))
    if kind == 1:  # ties everywhere
        U = np.round(U * 2) / 2
    if kind == 2:  # a dominated action, a copy of one, and a copy of a state
        U = np.concatenate([U, U[:1] - 0.1 * (U[:1] > -0.9), U[-1:]])
        U = np.concatenate([U, U[:, :1]], axis=1)
    if kind == 3:  # hardly anything at stake
        U = 0.5 + 1e-7 * U
    return U


@pytest.mark.parametrize("kind", range(4))
def test_the_value_is_that_of_some_support(kind: int) -> None:
    rng = np.random.default_rng(kind)
    for _ in range(60):
        problem = lr.DecisionProblem(some_game(rng, kind))
        play, U = lr.policies.SecurityPlay(problem), problem.utility
        assert play.value == pytest.approx(by_supports(U), abs=1e-11)
        assert play.value == (play.mixed_A @ U).min()
        assert (U @ play.law_S).max() <= play.value + play.gap
        assert play.gap <= 1e-12 * max(1e-3, float(np.ptp(U))) + 1e-15
        assert play.mixed_A.sum() == pytest.approx(1)
        assert play.law_S.sum() == pytest.approx(1)


def test_known_values() -> None:
    np.testing.assert_allclose(lr.policies.SecurityPlay(RPS).mixed_A, [1 / 3] * 3, atol=1e-12)
    assert lr.policies.SecurityPlay(MATCHING).value == pytest.approx(0.5)
    skewed = lr.policies.SecurityPlay(lr.DecisionProblem([[1 / 3, 0.0], [0.0, 1.0]]))
    assert skewed.value == pytest.approx(1 / 4)
    assert lr.policies.SecurityPlay(lr.DecisionProblem([[0.25, 0.25]])).regret_bound(RPS, 9, None) is None
    nothing = lr.policies.SecurityPlay(lr.DecisionProblem(np.zeros((2, 3))))
    assert (nothing.value, nothing.gap) == (0, 0)
    for n in (30, 80):  # a large game: the dual is the proof
        game = solved(lr.DecisionProblem(np.random.default_rng(n).uniform(-1, 1, (n, n + 7))))
        assert game.gap < 1e-12
    # Where nature stays is where maximin play loses most to a fixed action.
    play = lr.policies.SecurityPlay(WIDE)
    worst = lr.adversaries.exact_worst_case(play, WIDE, 12)
    assert worst.regret == pytest.approx(play.regret_bound(WIDE, 12, None))


def test_every_regret_bound_bounds_the_payoff() -> None:
    for problem in (MATCHING, LOPSIDED, RPS):
        given = lr.ExactTest(problem, 200).certificate
        assert given.payoff_bound is None
        assert given.payoff_floor == pytest.approx(by_supports(problem.utility) - given.regret_bound)
        safe = lr.ExactTest(problem, 200, fallback=lr.policies.SecurityPlay(problem)).certificate
        assert given.payoff_floor < safe.payoff_floor == safe.payoff_bound
        back = lr.ExactTest(problem, 200, fallback=lr.Recovery(safe=lr.policies.SecurityPlay(problem))).certificate
        assert back.payoff_bound == pytest.approx(safe.payoff_bound - 0.5 * problem.span / math.sqrt(200))
        assert "utility >= " in str(back)
    with pytest.raises(ValueError, match=r"at\(step\)\.payoff_floor"):
        _ = lr.ExactTest(RPS, None, delta=0.1).certificate.payoff_floor
    late = lr.Guard(RPS, 200, lag=2, fallback=lr.Recovery(safe=lr.policies.SecurityPlay(RPS))).certificate
    assert late.payoff_bound is not None
    assert late.payoff_bound < back.payoff_bound


def paid_by(guard: lr.Guard, laws_TxNxS: np.ndarray, tokens_NxT: np.ndarray) -> np.ndarray:
    """What was earned after every step, on average, ``[N, T]``."""
    assert guard.problem is not None
    earned = []
    for law_NxS, token_N in zip(laws_TxNxS, tokens_NxT.T, strict=True):
        guard.advise(law_NxS)
        earned.append((guard.policy() * guard.problem.utility.T[token_N]).sum(-1))
        guard.observe(Positions(token_N))
    return np.cumsum(np.stack(earned, axis=-1), axis=-1) / np.arange(1, len(earned) + 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("known", [True, False])
def test_no_sequence_earns_less_than_promised(seed: int, known: bool) -> None:
    """All sequences, a law for every prefix; with alarms on one in ten of them at least."""
    rng = np.random.default_rng(seed)
    problem = [RPS, LOPSIDED, WIDE, lr.DecisionProblem([[0.9, -0.4], [-0.7, 0.6], [0.2, 0.25]])][seed % 4]
    S, T = problem.n_states, 6 if problem.n_states == 3 else 9
    tokens = all_sequences(S, T)
    tables = [rng.dirichlet(np.full(S, 0.15), S**t) * 0.99 + 0.01 / S for t in range(T)]
    laws = np.stack([np.repeat(table, S ** (T - t), axis=0) for t, table in enumerate(tables)])
    play, warmth = lr.policies.SecurityPlay(problem), 0.05 if known else None
    fallbacks = [play, lr.Recovery(safe=play, budget=0.6)]
    if known:
        fallbacks.append(lr.Recovery(safe=lr.predictors.SecurityLaw(problem, temperature=warmth), budget=0.6))
    for fallback in fallbacks:
        rule = lr.ExactTest(problem, T if known else None, delta=0.95, fallback=fallback, temperature=warmth)
        guard = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(len(tokens),))
        paid = paid_by(guard, laws, tokens)
        assert len(guard.events) > len(tokens) / 10
        for t in range(1, T + 1):
            at = rule.certificate.at(t)
            assert paid[:, t - 1].min() >= at.payoff_bound - 1e-12
            assert paid[:, t - 1].min() >= at.payoff_floor - 1e-12


def literal(back: Recovering, probs_TxS: np.ndarray, tokens: list[int]) -> tuple[list[bool], list[float]]:
    """In safe play or not, and the shortfall, after every step of one stream with the alarm before its first."""
    problem, mixed = back.problem, lr.policies.SecurityPlay(back.problem)
    U, v = problem.utility, mixed.value
    mixture = Recovering(problem, back.horizon, back.temperature, back.memories, back.share, 1e9, mixed)
    memory, never = mixture.start(), np.array(False)
    safe, Y, low, hope, states, shortfalls = False, 0.0, 0.0, 0.0, [], []
    for t, (p, token) in enumerate(zip(probs_TxS, tokens, strict=True), 1):
        scene = mixture.scene(memory, p)
        tried = mixture.policy(memory, scene)
        memory = mixture.update(memory, scene, np.asarray(token), never)
        Y += v - (mixed.mixed_A if safe else tried) @ U[:, token]
        b = back.budget * problem.span * math.sqrt(t)
        if safe:
            hope = max(0.0, hope + (tried - mixed.mixed_A) @ U[:, token])
            stake = min(b - (v - U.min()) - Y, b) / 4
            if stake > 0 and hope >= 2 * stake:
                safe, low = False, Y
        else:
            low = min(low, Y)
            stake = min(b - (v - U.min()) - low, b) / 4
            if stake <= 0 or Y - low >= stake:
                safe, hope = True, 0.0
        states.append(safe)
        shortfalls.append(Y)
    return states, shortfalls


@pytest.mark.parametrize("problem", [RPS, LOPSIDED, WIDE], ids=["rps", "lopsided", "wide"])
def test_the_way_back_is_its_definition_and_keeps_its_budget(problem: lr.DecisionProblem) -> None:
    """Against an opponent who hides while safe play is in force and strikes when it is not, and against others."""
    rng, T, N = np.random.default_rng(3), 500, 6
    S, mood = problem.n_states, np.arange(N) % 3
    back = lr.Recovery(safe=lr.policies.SecurityPlay(problem), memories=(8, 30), budget=0.4).made_for(
        problem, None, 0.05
    )
    memory, always = back.start((N,)), np.ones(N, dtype=bool)
    tokens, probs, safe, short, bound = [], [], [], np.zeros(N), []
    for t in range(1, T + 1):
        law_NxS = rng.dirichlet(np.full(S, 0.3), N) * 0.98 + 0.02 / S
        scene = back.scene(memory, law_NxS)
        played = back.policy(memory, scene).T
        strikes = (played @ problem.utility).argmin(axis=-1)
        hides = np.where(mood == 1, 0, law_NxS.argmax(axis=-1))
        token = np.where((mood == 2) | ~memory.rows.is_safe[:, 0], strikes, hides)
        token = np.where((mood == 0) & (t > T // 2), 0, token)
        short = short + lr.policies.SecurityPlay(problem).value - (played * problem.utility.T[token]).sum(-1)
        memory = back.update(memory, scene, token, always)
        tokens.append(token), probs.append(law_NxS), safe.append(memory.rows.is_safe[:, 0])
        np.testing.assert_allclose(memory.rows.account[:, 0, 0], short, atol=1e-9)
        bound.append((short / back.shortfall(t, t)).max())
    assert max(bound) <= 1 + 1e-12
    assert max(bound) > 0.75, "a search that leaves the budget alone shows little"
    for n in range(N):
        states, shortfalls = literal(back, np.stack(probs)[:, n], np.stack(tokens)[:, n].tolist())
        assert states == np.stack(safe)[:, n].tolist()
        assert shortfalls[-1] == pytest.approx(short[n], abs=1e-9)
    entered = np.diff(np.stack(safe).astype(int), axis=0)
    assert (entered == 1).sum() > N
    assert (entered == -1).sum() > N // 2
    calm = (mood == 0) & (problem is RPS)
    assert not np.stack(safe)[-1][calm].any(), "who stays in one state is exploited again"


def test_recorded_is_streaming_with_a_law_that_guarantees_a_payoff() -> None:
    """Safe play by the quantal response to a maximin law: the same budget, and laws all along."""
    rng, T, N = np.random.default_rng(5), 120, 5
    safe = lr.predictors.SecurityLaw(RPS, temperature=0.05)
    back = lr.Recovery(safe=safe, budget=0.3).made_for(RPS, T, 0.05)
    assert isinstance(back._budget, PayoffBudget)
    assert not back.acts
    probs = rng.dirichlet([0.2] * 3, (N, T)) * 0.97 + 0.01
    tokens, times = rng.integers(0, 3, (N, T)), np.array([0, 3, 30, 60, T + 1])
    tokens[:3, T // 2 :] = 1
    recorded, memory, were_safe = back.laws_beside(probs, tokens, times), back.start((N,)), np.zeros(N, dtype=int)
    for t in range(T):
        late = times <= t
        scene = back.scene(memory, probs[:, t])
        says = np.where(late[:, None], back.law(memory, scene).T, probs[:, t])
        np.testing.assert_allclose(recorded[:, t], says, atol=1e-12)
        memory = back.update(memory, scene, tokens[:, t], late)
        were_safe += memory.rows.is_safe[:, 0]
    assert (were_safe[:3] > 0).all()
    assert (were_safe[:3] < T - times[:3]).all()


@pytest.mark.parametrize("problem", [RPS, LOPSIDED, WIDE], ids=["rps", "lopsided", "wide"])
def test_adversaries_find_no_payoff_below_the_promise(problem: lr.DecisionProblem) -> None:
    """Greedy takes the state in which the player earns least, step by step; a beam looks ahead for regret."""
    T, S = 120, problem.n_states
    base = lr.Markov(np.eye(S) * 0.9 + 0.1 / S, 1)
    rule = lr.ExactTest(
        problem, T, delta=0.5, fallback=lr.Recovery(safe=lr.predictors.SecurityLaw(problem, horizon=T), budget=0.3)
    )
    player, promised = lr.robust.Robust(base, rule).respond(), rule.certificate.payoff_bound
    for found in (lr.adversaries.greedy(player, problem, T), lr.adversaries.beam(player, problem, T, width=24)):
        played = player.policy_sequence(found.tokens)
        assert (played * problem.utility.T[found.tokens]).sum(-1).mean() >= promised
        assert rule.trip_times(base.predict_sequence(found.tokens), found.tokens) <= T


@pytest.mark.parametrize("budget", [0.05, 0.5])
def test_a_nemesis_takes_no_more_than_promised(budget: float) -> None:
    """Best responses to the very mixed action that is played, against counts of pairs taken for certain."""
    T, play = 300, lr.policies.SecurityPlay(RPS)
    guard = lr.Guard(RPS, T, fallback=lr.Recovery(safe=play, budget=budget))
    counts, last, total, after = np.full((3, 3), 0.1), 0, 0.0, 0.0
    for _ in range(T):
        guard.advise(counts[last] / counts[last].sum())
        earned = guard.policy() @ RPS.utility
        token = int(earned.argmin())
        total += earned[token]
        after += earned[token] if guard.events else 0.0
        guard.observe(Positions(token))
        counts[last, token] += 1
        last = token
    assert guard.events
    assert total >= T * guard.certificate.payoff_bound
    assert after >= -max(1, budget * RPS.span * math.sqrt(T)) - 1e-12


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="problem"):
        lr.policies.SecurityPlay("rock")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="another problem"):
        lr.Guard(RPS, 9, fallback=lr.policies.SecurityPlay(MATCHING))
    with pytest.raises(ValueError, match="another problem"):
        lr.Guard(RPS, 9, fallback=lr.Recovery(safe=lr.policies.SecurityPlay(MATCHING)))
