"""The way back: the mixture is what its definition says, and no sequence makes it lose more than its bound."""

import importlib.util
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks
from lowregret.policies import Recovering, recovering, shadow
from lowregret.policies.budgets import Outcome, RegretBudget
from lowregret.problems import Scene

FAST = importlib.util.find_spec("numba") is not None
MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
LOPSIDED = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])
GAMES = {"matching": MATCHING, "rps": RPS, "lopsided": LOPSIDED, "newsvendor": lr.newsvendor([0, 1, 2, 3], 5, 3)}


def slow(back: Recovering, probs_TxS: np.ndarray, tokens: list[int], alarm: int) -> dict[str, list]:
    """One stream, line by line as the definition has it: everything is computed anew from the whole past."""
    problem = back.problem
    U, (A, S), J = problem.utility, problem.utility.shape, problem.span
    advice = [int(np.argmax(U @ p)) for p in probs_TxS]
    heard: dict[str, list] = {"law": [], "share": [], "safe": [], "rise": [], "turned": []}
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
            heard["turned"].append(int(trusted) - int(was))
        else:
            heard["turned"].append(0)
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
        scene = back.scene(memory, probs[:, t])
        worst = np.argmin(back.policy(memory, scene).T @ back.problem.utility, axis=-1)
        broken = np.where(np.arange(N) % 2 == 1, 0 <= t - T // 3 < 3, t < T // 3)
        tokens[:, t] = np.where(broken, np.where(np.arange(N) % 2 == 1, 0, worst), right)
        memory = back.update(memory, scene, tokens[:, t], np.array(alarms) <= t)
    return probs, tokens


SAFE = {
    "default": lambda problem, T: None,
    "urn": lambda problem, T: lr.PolyaUrn(problem.n_states, 0.5),
    "AdaHedge": lambda problem, T: lr.policies.AdaHedge(problem),
    "Hedge": lambda problem, T: None if T is None else lr.policies.Hedge(problem, T),
}


def made(problem: lr.DecisionProblem, T: int | None, safe: str, **settings: Any) -> Recovering:
    recipe = lr.policies.Recovery(safe=SAFE[safe](problem, T), **settings)
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
    says, memory = back.policy if back.acts else back.law, back.start((len(alarms),))
    entered = left = returns = 0
    for t in range(T):
        scene = back.scene(memory, probs[:, t])
        np.testing.assert_allclose(says(memory, scene).T, [w["law"][t] for w in wanted], atol=1e-12)
        np.testing.assert_allclose(back.share_of_base(memory), [w["share"][t] for w in wanted], atol=1e-12)
        was = memory.row.is_safe
        assert was.tolist() == [w["safe"][t] for w in wanted]
        memory = back.update(memory, scene, tokens[:, t], np.array(alarms) <= t)
        np.testing.assert_allclose(memory.row.account.max(axis=-1), [w["rise"][t] for w in wanted], atol=1e-12)
        assert back.turned(memory).tolist() == [w["turned"][t] for w in wanted]
        now = memory.row.is_safe
        entered, left = entered + (now & ~was).sum(), left + (was & ~now).sum()
        returns += (back.turned(memory) > 0).sum()
    assert entered, "an example in which the budget is never spent shows little"
    assert left or game != "matching" or safe != "AdaHedge"
    assert returns or problem.n_states == 2


@dataclass(frozen=True)
class AtStep(lr.rules.ExactTest):
    """A rule that trips at a step of its own choosing: what comes after the alarm is what is tested here."""

    at: int = 10

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Any:
        return None

    def judge(self, statistics: None, step: Any, moment: Any) -> tuple[Any, Any]:
        return None, step == self.at + moment.token  # the time differs from stream to stream

    def recorded(self, step_T: Any, moment: Any) -> Any:
        return lr.rules.ResponseRule.recorded(self, step_T, moment)

    def suspicion(self, memory: Any) -> Any:
        return None

    def evidence(self, memory: Any) -> tuple[Any, Any]:
        return memory.step * 0.0, memory.step * 0.0

    @property
    def certificate(self) -> lr.Certificate:
        """Nothing: it leaves models that are right, and keeps some that are not."""
        return lr.certificates.certify(self.problem, self.horizon, self.temperature, self.fallback, None, 1.0, "none")


def ruled(game: str, T: int | None, safe: str = "default", **settings: Any) -> AtStep:
    return AtStep(GAMES[game], T, 0.1, at=6, fallback=lr.policies.Recovery(safe=SAFE[safe](GAMES[game], T), **settings))


@pytest.mark.parametrize("game", ["matching", "newsvendor"])
def test_a_rule_with_it_keeps_the_laws(game: str) -> None:
    """Recorded is streaming, NumPy is torch, forks and reordered streams do not disturb each other."""
    S = GAMES[game].n_states
    base = lr.Markov(np.random.default_rng(0).dirichlet(np.full(S, 0.5), S) * 0.9 + 0.1 / S, 1)
    kept = checks.check_rule(ruled(game, 40, memories=(5, 30), budget=0.2), base, horizon=40, tolerance=1e-12)
    assert len(kept) == len(checks.RULE_LAWS) + len(checks.PREDICTOR_LAWS)
    checks.check_rule(ruled(game, None, memories=(5,), budget=0.2), base, horizon=40, tolerance=1e-12)


@pytest.mark.parametrize("at_once", [1, 10**6])
def test_recorded_is_streaming_where_budgets_are_spent_and_won_back(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "_CELLS", at_once)
    back = made(MATCHING, 96, "urn", memories=(8, 30), budget=0.25)
    alarms = [0, 30, 5, 96, 95, 97]
    probs, tokens = example(back, 96, alarms, seed=7)
    laws, memory, spent = [], back.start((6,)), 0
    for t in range(96):
        late = np.array(alarms) <= t
        scene = back.scene(memory, probs[:, t])
        laws.append(np.where(late[:, None], back.law(memory, scene).T, probs[:, t]))
        memory = back.update(memory, scene, tokens[:, t], late)
        spent += memory.row.is_safe.sum()
    assert spent
    recorded = back.laws_beside(probs.reshape(2, 3, 96, 2), tokens.reshape(2, 3, 96), np.reshape(alarms, (2, 3)))
    np.testing.assert_allclose(recorded.reshape(6, 96, 2), np.stack(laws, axis=1), atol=1e-12)
    np.testing.assert_array_equal(recorded[1, 0], probs[3])  # no alarm before the end: the base's own law


def belief_without_advice(problem: lr.DecisionProblem) -> np.ndarray:
    """A law under which the first two actions are worth the same, up to rounding, where there is one; else uniform."""
    S, gain_S = problem.n_states, problem.advantage[0]
    i, j = int(np.argmin(gain_S)), int(np.argmax(gain_S))
    law = np.zeros(S)
    law[i], law[j] = gain_S[j] / (gain_S[j] - gain_S[i]), -gain_S[i] / (gain_S[j] - gain_S[i])
    return law


@pytest.mark.parametrize("game", GAMES)
def test_every_way_to_step_the_laws_is_the_same(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side and each stream alone, a step at a time; recorded in arrays, and compiled."""
    problem, rng, N, T = GAMES[game], np.random.default_rng(5), 24, 50
    laws = shadow.Shadow(problem, (4, 30.5), 0.01)
    probs = rng.dirichlet(np.ones(problem.n_states), (T, N))
    probs[::5] = 1 / problem.n_states
    probs[1::5] = belief_without_advice(problem)
    tokens = rng.integers(problem.n_states, size=(T, N))

    def scene_of(probs: np.ndarray) -> Scene:
        return Scene(problem, probs.T, None, None)

    memory, alone, said = laws.start((N,), None), [laws.start((), None)] * N, []
    for p, y in zip(probs, tokens, strict=True):
        law = laws.law(memory, scene_of(p))
        np.testing.assert_allclose(law.sum(axis=0), 1, atol=1e-12)
        memory, law_S = laws.advance(memory, scene_of(p), y)
        np.testing.assert_allclose(law_S, law, atol=1e-13)
        alone = [laws.advance(one, scene_of(p[n]), y[n])[0] for n, one in enumerate(alone)]
        for part, others in zip(memory, zip(*alone, strict=True), strict=True):
            np.testing.assert_allclose(part, np.stack(others), rtol=1e-12, atol=1e-15)
        said.append(law_S)
    monkeypatch.setattr(shadow, "_STEPS", 0)
    for is_compiled in (False, True)[: 1 + FAST]:
        monkeypatch.setattr(shadow, "compiler_installed", lambda now=is_compiled: now)
        for some in (slice(None), slice(1)):
            found = laws.recorded(np.swapaxes(probs, 0, 1)[some], tokens.T[some])
            np.testing.assert_allclose(found, np.stack(said, axis=-1)[:, some], atol=1e-13)


def test_the_share_is_all_until_the_alarm() -> None:
    rule = ruled("matching", 40)
    memory = rule.start((2,))
    shares = []
    for _ in range(10):
        shares.append(rule.share(memory).tolist())
        memory = rule.update(memory, np.tile([0.3, 0.7], (2, 1)), np.array([0, 1]))
    assert shares[:6] == [[1.0, 1.0]] * 6
    assert shares[6][0] < 1 == shares[6][1]  # the streams trip after 6 and after 7 tokens
    assert shares[7][1] < 1
    assert lr.rules.ExactTest(MATCHING, 40).share(lr.rules.ExactTest(MATCHING, 40).start((2,))).tolist() == [1.0, 1.0]


def test_copies_of_algorithm_2_hold_it() -> None:
    """Each copy is a rule of its own from the step at which it began: here one by one."""
    rule, base, D, T = ruled("matching", 16, memories=(4,), budget=0.2), lr.Markov([[0.2, 0.8], [0.7, 0.3]], 1), 16, 60
    safe = lr.AverageRestart(base, MATCHING, 1, D, T, rule=rule)
    tokens = np.random.default_rng(2).integers(2, size=T)
    probs = base.predict_sequence(tokens)
    played = safe.policy_sequence(tokens)
    for t in (3, 20, 45, 59):
        answers = []
        for slot in range(D):
            begun = max((s for s in range(t + 1) if s % D == slot), default=0)  # the first stands in for the missing
            memory = rule.start()
            for s in range(begun, t):
                memory = rule.update(memory, probs[s], tokens[s])
            answers.append(MATCHING.quantal_response(rule.law(memory, probs[t]), rule.temperature))
        np.testing.assert_allclose(played[t], np.mean(answers, axis=0), atol=1e-12)


@pytest.mark.parametrize(("horizon", "needs", "pays"), [(100, 3, 2), (102, 4, 3), (None, 4, 3)])
def test_the_budget_is_spent_when_it_is_reached_and_not_before(horizon: int | None, needs: int, pays: int) -> None:
    """All but pure play that is wrong loses 1 a step: 0.3 sqrt(100) = 3 of them, and 0.3 sqrt(125) = 3.35."""
    back = lr.policies.Recovery(budget=0.3, safe=lr.PolyaUrn(2)).made_for(MATCHING, horizon, 1e-9)
    memory, steps = back.start(), 0

    def after(state: int) -> Any:
        scene = back.scene(memory, np.array([0.01, 0.99]))
        return back.update(memory, scene, np.asarray(state), np.asarray(True))

    for _ in range(121):
        memory = after(1)
    while not memory.row.is_safe:
        memory = after(0)
        steps += 1
    assert steps == needs
    while memory.row.is_safe:  # half a step is won back at once, by the first even response, and then a whole one each
        memory = after(1)
        steps += 1
    assert steps == needs + pays


def worst_of_all(back: Recovering, laws: np.ndarray, steps: int) -> list[float]:
    """The most regret to any action after each number of steps, over all tokens and all laws from a list."""
    S, U = back.n_states, back.problem.utility
    memory, regret_NxA, worst = back.start((1,)), np.zeros((1, len(U))), []
    for _ in range(steps):
        N, choices = len(regret_NxA), len(laws) * S
        memory = lr.take(memory, np.repeat(np.arange(N), choices))
        probs, token = np.tile(np.repeat(laws, S, axis=0), (N, 1)), np.tile(np.arange(S), N * len(laws))
        earned_NxA = U[:, token].T
        scene = back.scene(memory, probs)
        own_N = (back.policy(memory, scene).T * earned_NxA).sum(axis=1, keepdims=True)
        regret_NxA = np.repeat(regret_NxA, choices, axis=0) + earned_NxA - own_N
        memory = back.update(memory, scene, token, np.full(len(token), True))
        worst.append(float(regret_NxA.max()))
    return worst


@pytest.mark.parametrize("safe", ["default", "urn", "AdaHedge"])
@pytest.mark.parametrize(("game", "steps"), [("matching", 7), ("lopsided", 6), ("rps", 4)])
def test_no_sequence_breaks_the_bound(game: str, steps: int, safe: str) -> None:
    """All tokens beside all sharp laws; the true bound of safe play is checked where it is alone, elsewhere."""
    problem, S = GAMES[game], GAMES[game].n_states
    sharp = np.full((S, S), 0.02 / (S - 1)) + (0.98 - 0.02 / (S - 1)) * np.eye(S)
    for horizon in (steps, None):
        for budget in (0.05, 0.3, 0.6):
            back = made(problem, horizon, safe, memories=(2, 6), share=0.05, budget=budget)
            worst = worst_of_all(back, sharp, steps)
            bound = [back.total_bound(n, until=n) for n in range(1, steps + 1)]
            assert (np.array(worst) <= np.array(bound) + 1e-12).all()
            assert max(np.array(worst) / bound) > 0.5  # a search that finds no regret would show nothing


@pytest.mark.parametrize(("game", "safe"), [("matching", "default"), ("matching", "AdaHedge"), ("rps", "default")])
def test_an_enemy_who_looks_ahead_does_not_break_the_bound(game: str, safe: str) -> None:
    """A beam over laws and tokens that likes regret to every action at once: without a budget it gets much further."""
    problem, S, T, width = GAMES[game], GAMES[game].n_states, 400, 8
    J, U = problem.span, problem.utility
    laws = np.concatenate(
        [np.full((S, S), 0.01 / (S - 1)) + (0.99 - 0.01 / (S - 1)) * np.eye(S), np.full((1, S), 1 / S)]
    )
    probs, token = np.tile(np.repeat(laws, S, axis=0), (width, 1)), np.tile(np.arange(S), width * len(laws))
    earned_NxA, late = U[:, token].T, np.full(len(token), True)
    lost = {}
    for budget in (0.1, 10.0):
        back = made(problem, T, safe, budget=budget)
        memory, regret_NxA = back.start((width,)), np.zeros((width, len(U)))
        for t in range(T):
            memory = lr.take(memory, np.repeat(np.arange(width), len(laws) * S))
            scene = back.scene(memory, probs)
            own_N = (back.policy(memory, scene).T * earned_NxA).sum(axis=1, keepdims=True)
            regret_NxA = np.repeat(regret_NxA, len(laws) * S, axis=0) + earned_NxA - own_N
            memory = back.update(memory, scene, token, late)
            assert regret_NxA.max() <= back.total_bound(t + 1, until=t + 1) + 1e-9
            spread = 0.6 * J * math.sqrt(T - t)
            promise = regret_NxA.max(1) + spread * np.log(
                np.exp((regret_NxA - regret_NxA.max(1, keepdims=True)) / spread).mean(1)
            )
            best = np.argsort(-promise)[:width]
            memory, regret_NxA = lr.take(memory, best), regret_NxA[best]
        lost[budget] = regret_NxA.max()
    assert lost[10.0] > 1.2 * lost[0.1], "the budget makes no difference to this enemy"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="memories must be a tuple of numbers above 1"):
        lr.policies.Recovery(memories=())
    with pytest.raises(ValueError, match="memories"):
        lr.policies.Recovery(memories=(20, 1))
    with pytest.raises(ValueError, match="share"):
        lr.policies.Recovery(share=0)
    with pytest.raises(ValueError, match="budget"):
        lr.policies.Recovery(budget=0)
    with pytest.raises(ValueError, match="safe must be a Predictor or a Policy, got int"):
        lr.policies.Recovery(safe=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="another problem"):
        AtStep(MATCHING, 10, fallback=lr.policies.Recovery(safe=lr.policies.AdaHedge(RPS)))
    with pytest.raises(ValueError, match="predicts 3 states"):
        AtStep(MATCHING, 10, fallback=lr.policies.Recovery(safe=lr.PolyaUrn(3)))
    with pytest.raises(ValueError, match="made for 5 steps, the rule may run for 10"):
        AtStep(MATCHING, 10, fallback=lr.policies.Recovery(safe=lr.policies.Hedge(MATCHING, 5)))
    with pytest.raises(ValueError, match="unknown"):
        AtStep(MATCHING, None, 0.1, fallback=lr.policies.Recovery(safe=lr.policies.Hedge(MATCHING, 5)))
    with pytest.raises(ValueError, match="grows with the past"):
        AtStep(MATCHING, 10, fallback=lr.policies.Recovery(safe=lr.FromFunction(lambda h: [0.5, 0.5], 2)))
    with pytest.raises(ValueError, match="bets on how the fallback differs"):
        lr.rules.RegretGap(MATCHING, 10, fallback=lr.policies.Recovery())
    with pytest.raises(ValueError, match="no laws"):
        lr.robust.Robust(lr.PolyaUrn(2), ruled("matching", 40, "AdaHedge"))
    with pytest.raises(ValueError, match="until must say"):
        made(MATCHING, None, "urn").total_bound(10)


def test_safe_play_of_which_nothing_is_known_is_said_to_be_unknown() -> None:
    class Uniform(lr.policies.Policy):
        problem = lr.matching()

        def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> np.ndarray:
            return np.zeros(batch_shape)

        def policy(self, memory: np.ndarray) -> np.ndarray:
            return np.full((*memory.shape, 2), 0.5)

        def update(self, memory: np.ndarray, token: Any) -> np.ndarray:
            return memory

    class Says(Uniform):
        def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> float:
            return 0.5

    unknown, known = (
        lr.rules.ExactTest(MATCHING, 400, 0.05, fallback=lr.policies.Recovery(safe=safe())).certificate
        for safe in (Uniform, Says)
    )
    assert "What Recovery may lose after an alarm is not known: it enters as the span." in unknown.statement
    assert unknown.regret_bound == 1
    assert "is not known" not in known.statement
    assert known.regret_bound < 0.65


@pytest.mark.parametrize("horizon", [None, 6])
def test_where_nothing_can_be_lost_no_budget_is_ever_spent(horizon: int | None) -> None:
    budget, still = RegretBudget(0.0, 2, horizon, 0.5), np.zeros((2, 3))
    late, step = np.ones(3, dtype=bool), np.full(3, 4)
    _, is_safe = budget.after(still, late, Outcome(still, late, step))
    assert not is_safe.any()  # step by step, even where it was
    assert budget.until_spent(np.zeros((2, 3, 6)), np.zeros(3, dtype=np.int64))[0] == 6  # and recorded
    assert (budget.limits(6) > 0).all()
