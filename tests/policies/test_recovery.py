"""The way back of robust predictors: it is what its definition says, and no sequence makes it lose more than it may."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Engine, Inputs
from lowregret.robust import Robust, algorithm_1

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
LOPSIDED = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])
GAMES = {"matching": MATCHING, "rps": RPS, "lopsided": LOPSIDED, "newsvendor": lr.newsvendor([0, 1, 2, 3], 5, 3)}
NEVER = 1e-200  # a delta at which there is no alarm: where these tests want one, they say so themselves


def made(problem: lr.DecisionProblem, T: int | None, urn: float | None = None, **settings: Any) -> Engine:
    """The mixture, and the default safe play or an urn with this prior."""
    safe = None if urn is None else lr.PolyaUrn(problem.n_states, urn)
    return Engine(algorithm_1(problem, lr.ExactTest(NEVER, T), lr.Recovery(safe=safe, **settings)))


def advised(engine: Engine, rows: Any, t: int, probs: Any, is_late_N: Any) -> Any:
    """The step after t others; the fallback is in force where it says so."""
    engine.head.open(rows).alarm[:] = np.asarray(is_late_N)
    return engine.advise(rows, t + 1, Inputs(probs))


def remembered(engine: Engine, rows: Any) -> Any:
    """What the fallback remembers."""
    return engine.of_class(rows, 0)


def slow(engine: Engine, probs_TxS: np.ndarray, tokens: list[int], alarm: int) -> dict[str, list]:
    """One stream, line by line as the definition has it: everything is computed anew from the whole past."""
    setting, back = engine.setting, engine.setting.fallback
    problem, T = setting.problem, setting.test.horizon
    U, (A, S), J = problem.utility, problem.utility.shape, problem.span
    advice = [int(np.argmax(U @ p)) for p in probs_TxS]
    heard: dict[str, list] = {"law": [], "share": [], "safe": [], "rise": [], "trusted": []}
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
        eta = problem.anytime_temperature(t + 1) if setting.temperature is None else setting.temperature
        if in_safe:
            memory = back.safe.start()
            for s in range(begun, t):
                memory = back.safe.update(memory, tokens[s])
            law = back.safe.predict(memory)
        played = problem.quantal_response(law, eta)
        heard["law"].append(law if t >= alarm else p)
        heard["share"].append(0.0 if in_safe else weights[0])
        heard["safe"].append(in_safe)
        chance = [w * q[token] for w, q in zip(weights, laws, strict=True)]
        weights = [(1 - back.share) * c / sum(chance) + back.share / K for c in chance]
        if t >= alarm:  # it was in force
            regret_A = regret_A + U[:, token] - played @ U[:, token]
            lowest_A = np.minimum(lowest_A, regret_A)
            worst = (regret_A - lowest_A).max()
            limit = back.budget * J * math.sqrt(T or t + 1)
            if in_safe and worst <= limit / 2:
                in_safe = False
            elif not in_safe and worst >= limit:
                in_safe, begun = True, t + 1
            share = 0.0 if in_safe else weights[0]
            trusted = share > 0.5 or (trusted and share > 0.25)
        heard["rise"].append((regret_A - lowest_A).max())
        heard["trusted"].append(trusted)
    return heard


def example(engine: Engine, T: int, alarms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts and tokens: the odd streams have a break that passes, the even ones an enemy first.

    The break spends the budget, and the old best action wins it back; against the enemy it is spent for good.
    """
    rng, S, N = np.random.default_rng(7), engine.setting.problem.n_states, len(alarms)
    probs = rng.dirichlet(np.full(S, 0.6), (N, T)) * 0.98 + 0.02 / S
    probs[1::2] = 0.02 / (S - 1)
    probs[1::2, :, -1] = 0.98
    tokens, rows, odd = np.zeros((N, T), dtype=np.int64), engine.start(N), np.arange(N) % 2 == 1
    for t in range(T):
        right = (rng.random((N, 1)) > probs[:, t].cumsum(-1)[:, :-1]).sum(-1)
        step = advised(engine, rows, t, probs[:, t], alarms <= t)
        worst = np.argmin(step.mixed_NxA @ engine.setting.problem.utility, axis=-1)
        broken = np.where(odd, 0 <= t - T // 3 < 3, t < T // 3)
        tokens[:, t] = np.where(broken, np.where(odd, 0, worst), right)
        rows, _ = engine.observe(rows, t + 1, step, tokens[:, t])
    return probs, tokens


@pytest.mark.parametrize(
    ("game", "urn", "known"),
    [
        ("matching", None, True),
        ("matching", 0.5, True),
        ("matching", 0.5, False),
        ("rps", None, True),
        ("lopsided", None, False),
        ("newsvendor", 0.5, True),
    ],
)
def test_it_is_its_definition(game: str, urn: float | None, known: bool) -> None:
    """Streams, and recordings at once."""
    T, alarms = 72, np.array([0, 22, 5, 72])
    engine = made(GAMES[game], T if known else None, urn, memories=(8, 30), share=0.01, budget=0.25)
    probs, tokens = example(engine, T, alarms)
    wanted = [slow(engine, p, y.tolist(), alarm) for p, y, alarm in zip(probs, tokens, alarms, strict=True)]
    rows, entered = engine.start(4), 0
    for t in range(T):
        step = advised(engine, rows, t, probs[:, t], alarms <= t)
        said = np.where((alarms <= t)[:, None], step.mixture_NxS, probs[:, t])
        np.testing.assert_allclose(said, [w["law"][t] for w in wanted], atol=1e-12)
        held = remembered(engine, rows)
        share = np.where(alarms <= t, [w["share"][t] for w in wanted], 1.0)
        np.testing.assert_allclose(engine.share(rows), share, atol=1e-12)
        was = held.is_safe_C[:, 0] > 0
        assert was.tolist() == [w["safe"][t] for w in wanted]
        rows, _ = engine.observe(rows, t + 1, step, tokens[:, t])
        held = remembered(engine, rows)
        np.testing.assert_allclose(held.account_CxX[:, 0].max(axis=-1), [w["rise"][t] for w in wanted], atol=1e-12)
        assert (held.trusted > 0).tolist() == [w["trusted"][t] for w in wanted]
        entered += ((held.is_safe_C[:, 0] > 0) & ~was).sum()
    assert entered, "an example in which the budget is never spent shows little"
    found = engine.predictions(probs, tokens, alarms)
    np.testing.assert_allclose(found, [w["law"] for w in wanted], atol=1e-12)
    np.testing.assert_array_equal(found[3], probs[3])  # no alarm before the end: the model's own


@dataclass(frozen=True)
class AtStep:
    """A test with an alarm at a step of its own choosing: what comes after the alarm is what is tested here."""

    horizon: int | None
    at: int = 6
    delta = 1.0

    def watch(self, setting: Any) -> "AtStep":
        return self

    def usual_fallback(self, problem: Any) -> lr.Recovery:
        return lr.Recovery()

    threshold, fresh_level, in_logs, compares = 1.0, 0.0, False, False

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def start(self, memory: Any) -> None: ...

    def update(self, memory: Any, step: Any, outcome: Any, number_N: Any, alarmed: Any) -> Any:
        return (step.clock_N + 1 == self.at + outcome.state_N) * 1.0  # the time differs from stream to stream


def robust(game: str, T: int | None, base: lr.Predictor, **settings: Any) -> Robust:
    return lr.robustify(base, GAMES[game], test=AtStep(T), fallback=lr.Recovery(**settings))


def test_the_share_is_all_until_the_alarm() -> None:
    safe = robust("matching", 40, lr.predictors.Scheduled([[0.3, 0.7]]))
    memory, shares = safe.start((2,)), []
    for _ in range(10):
        shares.append(safe.shares(memory)[:, 0].tolist())
        memory = safe.update(memory, np.array([0, 1]))
    assert shares[:6] == [[1.0, 1.0]] * 6
    assert shares[6][0] < 1 == shares[6][1]  # the alarms come after 6 and after 7 tokens
    assert shares[7][1] < 1


def test_copies_of_algorithm_2_hold_it() -> None:
    """Each copy is a robust predictor of its own from the step at which it began: here one by one."""
    base, D, T = lr.Markov([[0.2, 0.8], [0.7, 0.3]], 1), 16, 60
    back = lr.Recovery(memories=(4,), budget=0.2)
    safe = lr.AverageRestart(base, MATCHING, 1, D, T, test=AtStep(D), fallback=back)
    tokens = np.random.default_rng(2).integers(2, size=T)
    probs, played, engine = base.predict_sequence(tokens), safe.policy_sequence(tokens), Engine(safe.copy.setting)
    for t in (3, 20, 45, 59):
        answers = []
        for slot in range(D):
            begun = max((s for s in range(t + 1) if s % D == slot), default=0)  # the first stands in for the missing
            rows = engine.start(1)
            for s in range(begun, t):
                step = engine.advise(rows, 1, Inputs(probs[s][None]))
                rows, _ = engine.observe(rows, s - begun + 1, step, tokens[s : s + 1])
            answers.append(engine.advise(rows, 1, Inputs(probs[t][None])).policy_NxA[0])
        np.testing.assert_allclose(played[t], np.mean(answers, axis=0), atol=1e-12)


@pytest.mark.parametrize(("horizon", "needs", "pays"), [(100, 3, 2), (102, 4, 3), (None, 4, 3)])
def test_the_budget_is_spent_when_it_is_reached_and_not_before(horizon: int | None, needs: int, pays: int) -> None:
    """All but pure play that is wrong loses 1 a step: 0.3 sqrt(100) = 3 of them, and 0.3 sqrt(125) = 3.35."""
    back = lr.Recovery(budget=0.3, safe=lr.PolyaUrn(2))
    test = lr.ExactTest(NEVER, horizon)
    engine, steps, t = Engine(algorithm_1(MATCHING, test, back, lr.QuantalResponse(1e-9))), 0, 0
    rows = engine.start(1)

    def after(state: int) -> Any:
        nonlocal t
        t += 1
        step = advised(engine, rows, t, np.array([[0.01, 0.99]]), [True])
        return engine.observe(rows, t + 1, step, np.array([state]))[0]

    def is_safe() -> bool:
        return bool(remembered(engine, rows).is_safe_C[0, 0])

    for _ in range(121):
        rows = after(1)
    while not is_safe():
        rows = after(0)
        steps += 1
    assert steps == needs
    while is_safe():  # half a step is won back at once, by the first even response, and then a whole one each
        rows = after(1)
        steps += 1
    assert steps == needs + pays


def most(engine: Engine, steps: int) -> float:
    """What its own bound lets it lose in all, in force from the first step on."""
    setting = engine.setting
    bound = setting.play.regret_after(setting.problem, steps, setting.temperature)
    assert bound is not None
    return float(np.atleast_1d(bound(np.array([steps])))[0])


@pytest.mark.parametrize("urn", [None, 0.5])
@pytest.mark.parametrize(("game", "steps"), [("matching", 6), ("lopsided", 6), ("rps", 4)])
def test_no_sequence_breaks_the_bound(game: str, steps: int, urn: float | None) -> None:
    """All tokens beside all sharp forecasts."""
    S = GAMES[game].n_states
    sharp = np.full((S, S), 0.02 / (S - 1)) + (0.98 - 0.02 / (S - 1)) * np.eye(S)
    for horizon, budget in ((steps, 0.05), (steps, 0.6), (None, 0.3)):
        engine = made(GAMES[game], horizon, urn, memories=(2, 6), share=0.05, budget=budget)
        rows, used = engine.start(1), []
        for t in range(steps):
            rows, n = np.repeat(rows, S * S, axis=0), len(rows)
            step = advised(engine, rows, t, np.tile(np.repeat(sharp, S, axis=0), (n, 1)), True)
            rows, _ = engine.observe(rows, t + 1, step, np.tile(np.arange(S), n * S))
            worst, bound = engine.head.open(rows).lead_P.max(), most(engine, t + 1)
            assert worst <= bound + 1e-12
            used.append(worst / bound)
        assert max(used) > 0.5  # a search that finds no regret would show nothing


@pytest.mark.parametrize("game", ["matching", "rps"])
def test_an_enemy_who_looks_ahead_does_not_break_the_bound(game: str) -> None:
    """A beam over forecasts and tokens that likes regret to every action at once: without a budget it gets further."""
    problem, S, T, width = GAMES[game], GAMES[game].n_states, 200, 8
    sharp = np.full((S, S), 0.01 / (S - 1)) + (0.99 - 0.01 / (S - 1)) * np.eye(S)
    laws = np.concatenate([sharp, np.full((1, S), 1 / S)])
    probs, token = np.tile(np.repeat(laws, S, axis=0), (width, 1)), np.tile(np.arange(S), width * len(laws))
    lost = {}
    for budget in (0.1, 10.0):
        engine = made(problem, T, budget=budget)
        rows = engine.start(width)
        for t in range(T):
            rows = np.repeat(rows, len(laws) * S, axis=0)
            step = advised(engine, rows, t, probs, True)
            rows, _ = engine.observe(rows, t + 1, step, token)
            lead_NxA = engine.head.open(rows).lead_P
            if t % 20 == 19:
                assert lead_NxA.max() <= most(engine, t + 1) + 1e-9
            spread, top = 0.6 * problem.span * math.sqrt(T - t), lead_NxA.max(axis=1, keepdims=True)
            hopes = top[:, 0] + spread * np.log(np.exp((lead_NxA - top) / spread).mean(axis=1))
            rows = rows[np.argsort(-hopes)[:width]]
        lost[budget] = engine.head.open(rows).lead_P.max()
    assert lost[10.0] > 1.2 * lost[0.1], "the budget makes no difference to this enemy"


def test_what_does_not_fit_is_refused() -> None:
    for settings, message in (
        ({"safe": 3}, "safe must be a Predictor such as PolyaUrn, got int"),
        ({"safe": lr.policies.AdaHedge(MATCHING)}, "safe must be a Predictor such as PolyaUrn, got AdaHedge"),
        ({"safe": lr.predictors.ShrunkUrn(LOPSIDED, 10)}, "another problem"),
        ({"safe": lr.PolyaUrn(3)}, "predicts 3 states"),
        (
            {"safe": lr.predictors.ShrunkUrn(MATCHING, 5)},
            "safe ShrunkUrn was made for 5 steps, the test may run for 10",
        ),
        ({"safe": lr.FromFunction(lambda h: [0.5, 0.5], 2)}, "grows with the past"),
    ):
        with pytest.raises(ValueError, match=message):
            algorithm_1(MATCHING, lr.ExactTest(0.1, 10), lr.Recovery(**settings))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown"):
        algorithm_1(MATCHING, lr.ExactTest(), lr.Recovery(safe=lr.predictors.ShrunkUrn(MATCHING, 5)))
    with pytest.raises(ValueError, match="RegretGap needs a fallback that goes by the states alone"):
        algorithm_1(MATCHING, lr.RegretGap(10), lr.Recovery())


class Says(lr.PolyaUrn):
    def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> float | None:
        return 0.5


def test_safe_play_of_which_nothing_is_known_is_said_to_be_unknown() -> None:
    uniform = lr.predictors.Scheduled([[0.5, 0.5]])
    unknown, known = (
        algorithm_1(MATCHING, lr.ExactTest(0.05, 400), lr.Recovery(safe=safe)).certificate
        for safe in (uniform, Says(2))
    )
    assert "What Recovery may lose after an alarm is not known: it enters as the span." in unknown.statement
    assert unknown.regret_bound == 1
    assert "is not known" not in known.statement
    assert known.regret_bound < 0.65


@pytest.mark.parametrize("horizon", [None, 6])
def test_where_nothing_can_be_lost_no_budget_is_ever_spent(horizon: int | None) -> None:
    engine = made(lr.DecisionProblem([[1, 0], [1, 0]]), horizon)
    rows = engine.start(3)
    for t in range(4):
        step = advised(engine, rows, t, np.full((3, 2), 0.5), True)
        rows, _ = engine.observe(rows, t + 1, step, np.array([0, 1, t % 2]))
        assert not remembered(engine, rows).is_safe_C.any()
