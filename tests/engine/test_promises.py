"""No sequence loses more than its certificate says: all short ones, and long ones that were chosen to hurt.

What was lost is counted here, from the policies alone. A *share* is what was lost over what is promised: that the
largest found is not small shows that the promise was put to the test.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Inputs, Step
from lowregret.guard.state import advised_again

COIN = lr.matching()
SKEW = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3], [-1.0, 1.0]])
MOVE = lr.Payoff(lambda held, move: held * np.clip(move, -1, 1), [-1.0, 0.0, 1.0], -1, 1, knots=[-1, 1])
ROUNDING = 1e-9
SAID = 0.05, 0.44, 0.49, 0.51, 0.56, 0.95  # what the model may say of the second state

AGAINST: dict[str, Any] = {
    "actions": lr.Actions(),
    "actions in contexts": lr.Actions(per=2),
    "a reference": lr.References("desk"),
    "actions and references": lr.Actions() + lr.References("desk", "naive"),
    "actions in contexts and a reference": lr.Actions(per=2) + lr.References("desk"),
}
FORMS = "states", "changing payoffs", "quantiles", "samples"
RESPONSES = {"best": lr.BestResponse(), "quantal": lr.QuantalResponse(), "quantal at .3": lr.QuantalResponse(0.3)}
TESTS = "for a horizon", "for ever", "none, for a horizon", "none, for ever"
FALLBACKS = "Recovery", "a small budget", "UseReference", "AdaHedge", "Hedge", "PolyaUrn"


class Composition(NamedTuple):
    """One of each, by name."""

    against: str
    form: str
    response: str
    test: str
    fallback: str
    lag: int

    def guard(self, T: int, delta: float, game: lr.DecisionProblem = COIN) -> lr.Guard:
        """``ValueError``: it cannot be (the tests of compositions say why not)."""
        problem: Any = MOVE if self.form in ("quantiles", "samples") else game
        fallbacks: dict[str, Any] = {
            "Recovery": None,
            "a small budget": lr.Recovery(budget=0.05),
            "UseReference": lr.UseReference("desk"),
            "AdaHedge": lr.policies.AdaHedge(game),
            "Hedge": lr.policies.Hedge(game, T),
            "PolyaUrn": lr.PolyaUrn(2),
        }
        horizon = T if "horizon" in self.test else None
        return lr.Guard(
            problem.changing(-1, 1) if self.form == "changing payoffs" else problem,
            against=AGAINST[self.against],
            response=RESPONSES[self.response],
            test=lr.NoTest(horizon) if "none" in self.test else lr.ExactTest(delta, horizon),
            fallback=fallbacks[self.fallback],
            lag=self.lag,
        )


def written(against: str, form: str, every: int = 1) -> list[Composition]:
    """All that can be, or so few of them."""
    parts = itertools.product(RESPONSES, TESTS, FALLBACKS, (1, 2, 3))
    return [
        c for c in itertools.islice((Composition(against, form, *one) for one in parts), 0, None, every) if can_be(c)
    ]


def can_be(c: Composition) -> bool:
    try:
        c.guard(8, 0.5)
    except ValueError:
        return False
    return c.fallback != "a small budget" or c.form == "states"


class Match:
    """Streams of one guard, whose forecasts and outcomes somebody chooses; outcomes are as late as they may be."""

    def __init__(self, guard: lr.Guard, n: int) -> None:
        self.guard, self.rows, self.t = guard, guard.engine.start(n), 0
        self.waiting: list[tuple[int, Inputs, Step, np.ndarray | None]] = []  # their outcomes; None never come
        self.alarm_N = np.zeros(n, dtype=int)  # the step whose outcome sounded it, 0 for never
        # What each comparator, and last the model, has earned more: before the first step, after it, and so on.
        self.lead_NxTxP = np.zeros((n, 1, guard.setting.n_comparators + 1))

    def play(self, said: Inputs, outcome_N: np.ndarray, is_missing: bool = False) -> None:
        self.t += 1
        step = self.guard.engine.advise(self.rows, self.t, said)
        lead_NxP = self.lead_NxTxP[:, -1] + gained(self.guard, said, step, outcome_N)
        self.lead_NxTxP = np.concatenate([self.lead_NxTxP, lead_NxP[:, None]], axis=1)
        self.waiting.append((self.t, said, step, None if is_missing else outcome_N))
        if len(self.waiting) == self.guard.lag:
            number, _, step, came_N = self.waiting.pop(0)
            self.rows = self.seen(self.rows, number, step, came_N)
            is_new_N = (self.guard.engine.head.open(self.rows).alarm > 0) & (self.alarm_N == 0)
            self.alarm_N = np.where(is_new_N, number, self.alarm_N)

    def seen(self, rows: np.ndarray, number: int, step: Step, outcome_N: np.ndarray | None) -> np.ndarray:
        engine = self.guard.engine
        found: np.ndarray = engine.skip(rows) if outcome_N is None else engine.observe(rows, number, step, outcome_N)[0]
        return found

    def ahead(self) -> np.ndarray:
        """The rows once all outcomes are seen."""
        rows: np.ndarray = self.rows
        for number, _, step, outcome_N in self.waiting:
            rows = self.seen(rows, number, step, outcome_N)
        return rows

    def take(self, at_N: np.ndarray) -> "Match":
        """Some of the streams, as often as they are named."""
        new = Match(self.guard, 0)
        new.rows, new.t, new.alarm_N = self.rows[at_N], self.t, self.alarm_N[at_N]
        new.lead_NxTxP = self.lead_NxTxP[at_N]
        for number, said, step, came_N in self.waiting:
            said = said.at((at_N,))
            was = step.in_force_N[at_N], step.policy_NxA[at_N]
            step = advised_again(self.guard.engine, new.rows, number, said, *was)
            new.waiting.append((number, said, step, None if came_N is None else came_N[at_N]))
        return new


def gained(guard: lr.Guard, said: Inputs, step: Step, outcome_N: np.ndarray) -> np.ndarray:
    """What each comparator, and last the model, earned more than what was played in a step: ``[N, P]``."""
    problem, n = guard.problem, len(outcome_N)
    if isinstance(problem, lr.DecisionProblem):
        utility_NxAxS = np.broadcast_to(
            problem.utility if said.payoffs is None else said.payoffs, (n, *problem.utility.shape)
        )
        paid_NxA = utility_NxAxS[np.arange(n), :, outcome_N]
    else:
        paid_NxA = problem.utilities(outcome_N).T
    paid_NxA = paid_NxA * (1.0 if said.scale_N is None else said.scale_N[:, None])
    over_NxA = paid_NxA - (step.policy_NxA * paid_NxA).sum(axis=-1, keepdims=True)
    both = np.concatenate([step.answers_NxQxA, step.model_NxA[:, None]], axis=1)
    others_NxQ = (both @ over_NxA[..., None])[..., 0]
    if own_rows(guard) == 0:
        return others_NxQ
    at_N = np.zeros(n, dtype=int) if said.context_N is None else said.context_N
    own_NxCxA = (at_N[:, None] == np.arange(guard.against.n_contexts))[..., None] * over_NxA[:, None]
    return np.concatenate([own_NxCxA.reshape(n, -1), others_NxQ], axis=1)


def own_rows(guard: lr.Guard) -> int:
    """How many comparators are actions, in contexts."""
    return guard.setting.n_comparators - len(guard.against.references)


def regret_of(guard: lr.Guard, lead_P: np.ndarray) -> np.ndarray:
    """In total, to the best comparator."""
    own = own_rows(guard)
    found: np.ndarray = lead_P[..., own:-1].max(axis=-1, initial=-math.inf)
    if own:
        by_context = lead_P[..., :own].reshape(*lead_P.shape[:-1], guard.against.n_contexts, -1)
        found = np.maximum(found, by_context.max(axis=-1).sum(axis=-1))
    return found


def speaks_of_intervals(given: lr.Certificate) -> bool:
    try:
        return given.interval(1, 1) >= 0
    except ValueError:
        return False


def shares(match: Match, ends: list[int]) -> dict[str, float]:
    """The largest share of each promise that was used; none may be more than all of it."""
    guard, span, found = match.guard, match.guard.setting.payoff_range.span, dict[str, float]()
    lead_NxTxP, rows = match.lead_NxTxP, match.ahead()
    regret_NxT = regret_of(guard, lead_NxTxP)

    def entered(what: str, lost: float, bound: float, steps: int) -> None:
        assert lost <= bound + ROUNDING, (what, lost, bound)
        if bound < 0.95 * steps * span:  # else little is promised
            found[what] = max(found.get(what, 0.0), lost / max(bound, ROUNDING))

    given = guard.certificate_of(rows)
    if not isinstance(given, lr.Certificate):
        for n in np.argsort(-regret_NxT[:, -1])[:8].tolist():
            one, lost = guard.certificate_of(rows[n : n + 1]), float(regret_NxT[n, -1])
            entered("regret", lost, match.t * one.bound_so_far, match.t)
            entered("in the end", lost, match.t * one.regret_bound, match.t)
        return found
    for end in ends:
        then = given.at(end)
        entered("regret", regret_NxT[:, end].max(), end * then.regret_bound, end)
        if then.against_model is not None:
            entered("model", lead_NxTxP[:, end, -1].max(), end * then.against_model, end)
    if speaks_of_intervals(given):
        for start, end in itertools.combinations_with_replacement(ends, 2):
            quiet_N = (match.alarm_N == 0) | (match.alarm_N > end)
            if quiet_N.any():
                within_NxP = lead_NxTxP[quiet_N, end, :-1] - lead_NxTxP[quiet_N, start - 1, :-1]
                entered("interval", within_NxP.max(), given.interval(start, end), end - start + 1)
    return found


# All sequences


def all_sequences(c: Composition, T: int, seed: int, horizon: int | None = None) -> dict[str, float]:
    """What is said goes by the past, and is sharp."""
    horizon = T if horizon is None else horizon
    rng, guard = np.random.default_rng(seed), c.guard(horizon, 0.8, SKEW if seed % 2 else COIN)
    outcomes_K = np.arange(2) if guard.setting.outcomes.n_states else np.array([-1.0, 0.3, 1.0])
    paths_NxT = np.array(list(itertools.product(range(len(outcomes_K)), repeat=T)))
    match, past_N = Match(guard, len(paths_NxT)), np.zeros(len(paths_NxT), dtype=int)
    for t in range(T):
        match.play(anything(guard, c.form, past_N, rng), outcomes_K[paths_NxT[:, t]])
        past_N = past_N * len(outcomes_K) + paths_NxT[:, t]
    return shares(match, list(range(1, horizon + 1)))


def anything(guard: lr.Guard, form: str, past_N: np.ndarray, rng: np.random.Generator) -> Inputs:
    """Something, the same where the past is the same."""
    size, Q, C = past_N.max() + 1, len(guard.against.references), guard.against.n_contexts
    context_N = rng.integers(C, size=size)[past_N] if C > 1 else None
    scale_N = rng.choice([0.5, 1.0, 1.0, 1.0], size=size)[past_N] if guard.setting.play.takes_scale else None
    if not guard.setting.outcomes.n_states:
        each = [made(form, np.sort(rng.uniform(-1.5, 1.5, (size, 4)), axis=-1)[past_N]) for _ in range(1 + Q)]
        return Inputs(each[0], tuple(each[1:]), context_N, scale_N)
    sharp = 0.95 * np.eye(2)[rng.integers(2, size=(size, 1 + Q))] + 0.05 * rng.dirichlet([1, 1], (size, 1 + Q))
    probs, payoffs = sharp[past_N], None
    if guard.problem.is_changing:
        payoffs = rng.choice([-1.0, 1.0], (size, *guard.problem.utility.shape))[past_N]
    return Inputs(probs[:, 0], probs[:, 1:] if Q else (), context_N, scale_N, payoffs)


def made(form: str, values_NxM: np.ndarray) -> Any:
    return lr.Samples(values_NxM) if form == "samples" else lr.Quantiles([0.1, 0.4, 0.6, 0.9], values_NxM)


def largest(found: list[dict[str, float]]) -> dict[str, float]:
    return {what: max(one.get(what, 0.0) for one in found) for what in set().union(*found)}


def short(form: str) -> int:
    """How many steps all sequences have: of two states, or of three numbers."""
    return 8 if form in ("states", "changing payoffs") else 5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("against", AGAINST)
def test_no_short_sequence_loses_more_than_is_promised(against: str, form: str) -> None:
    used = largest([all_sequences(c, short(form), seed=0) for c in written(against, form, every=7)])
    assert "contexts" in against or used["regret"] > 0.3, used  # with contexts, nothing is promised so soon


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("against", AGAINST)
def test_no_short_sequence_does_in_any_composition(against: str, form: str) -> None:
    made = [(c, seed) for c in written(against, form) for seed in (0, 1)]
    used = largest([all_sequences(c, short(form) + seed, seed) for c, seed in made])
    assert "contexts" in against or used["regret"] > 0.35, used


@pytest.mark.parametrize("lag", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_past_its_horizon_it_goes_on(form: str, lag: int) -> None:
    """What was promised up to there has held; of numbers, all steps so far are spoken of."""
    for response, fallback in itertools.product(("best", "quantal"), ("Recovery", "UseReference")):
        c = Composition("a reference", form, response, "for a horizon", fallback, lag)
        all_sequences(c, short(form), seed=0, horizon=short(form) - 3)


@pytest.mark.parametrize("lag", [1, 2])
@pytest.mark.parametrize("form", ["states", "quantiles"])
def test_episodes_add_up(form: str, lag: int) -> None:
    """One that is cut short, one that goes past its horizon, and one that is complete; most outcomes hurt."""
    T, N, ends, rng = 30, 40, (20, 60), np.random.default_rng(0)
    guard = Composition("actions", form, "best", "for a horizon", "Recovery", lag).guard(T, 0.5).fresh(N)
    table_AxK = COIN.utility if form == "states" else MOVE.utilities(np.array([-1.0, 1.0]))
    lost_N, lead_NxA = np.zeros(N), np.zeros((N, len(table_AxK)))
    for t in range(ends[-1] + T):
        if t in ends:
            guard.restart()
            lost_N, lead_NxA = lost_N + np.maximum(lead_NxA.max(axis=-1), 0), lead_NxA * 0
        p_N = rng.choice(SAID, N)
        values_NxM = 2 * p_N[:, None] - 1 + np.linspace(-0.3, 0.3, 4)
        advice = guard.advise(np.stack([1 - p_N, p_N], axis=-1) if form == "states" else made(form, values_NxM))
        earned_NxK = advice.policy @ table_AxK
        came_N = np.where(rng.random(N) < 0.9, earned_NxK.argmin(axis=-1), rng.integers(2, size=N))
        lead_NxA += table_AxK[:, came_N].T - earned_NxK[np.arange(N), came_N, None]
        guard.observe(came_N if form == "states" else 2.0 * came_N - 1)
    lost_N, bound = lost_N + np.maximum(lead_NxA.max(axis=-1), 0), (ends[-1] + T) * guard.certificate.regret_bound
    assert guard.certificate.episodes == 3
    assert 0.4 < lost_N.max() / bound <= 1


# Sequences that were chosen to hurt


def hostile(c: Composition, T: int, width: int, seed: int, missing: frozenset[int] = frozenset()) -> dict[str, float]:
    """So many adversaries, each of which tries all that can be said and come in the next step, and takes the worst.

    Until the alarm, what is lost counts, and evidence is what it costs: so they stay below the threshold for as long as
    they want to. After it they hurt what is played; some of them let safe play win back what it may, to hurt it again.
    Some want the earliest alarm, and then to be far behind the model; some let the model be right for half of the time.
    Outcomes of the steps in ``missing`` never come.
    """
    delta, late = 0.05, T // 2
    guard = c.guard(T, delta)
    rng, match, engine, who_N = np.random.default_rng(seed), Match(guard, width), guard.engine, np.arange(width)
    wants_N = np.array(["regret", "winning back", "a late break", "model"])[who_N % 4]
    hold_N = np.where(wants_N == "model", 0, np.where(wants_N == "a late break", T, T * (who_N // 4 % 4) / 4))
    price_N = rng.uniform(0.4, 1.1, width) * guard.setting.payoff_range.span * math.sqrt(T / (2 * math.log(8 / delta)))
    outcomes_K = np.arange(2) if guard.setting.outcomes.n_states else np.array([-1.0, 0.3, 1.0])
    said_M, came_M = map(np.ravel, np.meshgrid(np.array(SAID), np.arange(len(outcomes_K))))
    M = len(said_M)
    for t in range(1, T + 1):
        wants, hold, price = (np.repeat(part_N, M) for part_N in (wants_N, hold_N, price_N))
        trial, came_N = match.take(np.repeat(who_N, M)), np.tile(came_M, width)
        said = chosen(guard, c.form, np.tile(said_M, width), came_N, t, rng)
        trial.play(said, outcomes_K[came_N], t in missing)
        rows, lead_NxP = trial.ahead(), trial.lead_NxTxP[:, -1]
        lost_N = np.where(wants == "model", lead_NxP[:, -1], regret_of(guard, lead_NxP)) + 0.1 * lead_NxP.mean(axis=-1)
        is_late_N, capital_N = (engine.head.open(rows).alarm > 0) | (not guard.setting.tests), all_capital(guard, rows)
        score_N = lost_N - np.where(is_late_N, 1e6 * (t < hold), price * capital_N)
        score_N = np.where((wants == "model") & ~is_late_N, capital_N - 1e6, score_N)
        if "is_safe_C" in engine.block.places:
            is_safe_N = np.repeat(engine.of_class(match.rows, (t - 1) % guard.lag).is_safe_C.max(axis=-1) > 0, M)
            account_NxCxX = engine.of_class(rows, (t - 1) % guard.lag).account_CxX
            hurt_N = lead_NxP[:, :-1].mean(axis=-1) - 0.1 * lead_NxP[:, -1]  # far ahead, the model would be in the way
            then_N = np.where(is_safe_N, -(account_NxCxX**2).sum(axis=(-2, -1)), hurt_N)
            score_N = np.where((wants == "winning back") & is_late_N & (t > hold), then_N, score_N)
        score_N = np.where((wants == "a late break") & (t <= late), -lost_N, score_N)
        best_N = (score_N + ROUNDING * rng.random(len(score_N))).reshape(width, M).argmax(axis=-1)
        match = trial.take(who_N * M + best_N)
    return shares(match, sorted({*np.linspace(1, T, 9).astype(int).tolist(), late + 1}))


def all_capital(guard: lr.Guard, rows: np.ndarray) -> np.ndarray:
    """ln of what all bettors have, whether they are heard or not."""
    if not guard.setting.tests:
        return np.zeros(len(rows))
    each = [guard.engine.of_class(rows, k) for k in range(guard.lag)]
    capital_N = np.mean([one.actors + (one.second if guard.setting.has_second_bettor else 0) for one in each], axis=0)
    return np.log(np.minimum(capital_N, 1e9))


def chosen(guard: lr.Guard, form: str, said_N: Any, came_N: Any, t: int, rng: np.random.Generator) -> Inputs:
    """The model says this, and references know what is to come, mostly."""
    n, Q, C = len(said_N), len(guard.against.references), guard.against.n_contexts
    context_N = np.full(n, t % C) if C > 1 else None
    is_right_QxN = rng.random((Q, n)) < 0.9
    if not guard.setting.outcomes.n_states:
        centres = [2 * said_N - 1, *np.where(is_right_QxN, came_N - 1.0, 1.0 - came_N)]
        each = [made(form, one[:, None] + np.linspace(-0.3, 0.3, 4)) for one in centres]
        return Inputs(each[0], tuple(each[1:]), context_N)
    theirs = np.moveaxis(np.eye(2)[np.where(is_right_QxN, came_N, 1 - came_N)], 0, 1)
    payoffs = np.broadcast_to(np.eye(2) * 2 - 1, (n, 2, 2)) if guard.problem.is_changing else None
    return Inputs(np.stack([1 - said_N, said_N], axis=-1), theirs if Q else (), context_N, None, payoffs)


HOSTILE = {  # and the least shares of what is promised that they come to
    ("actions", "states", "best", "for a horizon", "Recovery", 1): {"regret": 0.75, "model": 0.55, "interval": 0.9},
    ("actions", "states", "best", "for ever", "Recovery", 2): {"regret": 0.75, "model": 0.5},
    ("actions", "states", "quantal", "for a horizon", "PolyaUrn", 1): {"regret": 0.65, "interval": 0.85},
    ("actions", "states", "best", "none, for a horizon", "Recovery", 1): {"regret": 0.65, "model": 0.65},
    ("actions", "states", "best", "none, for a horizon", "a small budget", 1): {"regret": 0.3, "model": 0.3},
    ("actions in contexts", "states", "best", "none, for a horizon", "Recovery", 1): {"regret": 0.5, "model": 0.4},
    ("actions", "states", "best", "none, for ever", "Recovery", 2): {"regret": 0.3},
    ("actions", "changing payoffs", "quantal", "for ever", "Recovery", 1): {"regret": 0.55, "interval": 0.75},
    ("actions in contexts", "states", "best", "for a horizon", "Recovery", 1): {"regret": 0.6, "model": 0.55},
    ("actions and references", "states", "best", "for a horizon", "Recovery", 3): {"regret": 0.6, "interval": 0.8},
    ("a reference", "states", "best", "for a horizon", "UseReference", 1): {"regret": 0.8, "interval": 0.8},
    ("a reference", "samples", "best", "for ever", "UseReference", 1): {"regret": 0.9},
    ("actions", "quantiles", "best", "for a horizon", "Recovery", 2): {"regret": 0.85},
}


@pytest.mark.parametrize("c", HOSTILE, ids=str)
def test_no_adversary_gets_more_than_is_promised(c: tuple[Any, ...]) -> None:
    used = hostile(Composition(*c), 200 if "none" in c[3] else 80, 16, seed=0)
    assert all(used[what] > share for what, share in HOSTILE[c].items()), used


@pytest.mark.parametrize("form", ["states", "samples"])
@pytest.mark.parametrize("lag", [1, 2])
def test_outcomes_that_never_come_count_at_their_worst(form: str, lag: int) -> None:
    c = Composition("a reference", form, "best", "for a horizon", "UseReference", lag)
    used = hostile(c, 80, 16, seed=0, missing=frozenset(range(2, 80, 4)))
    assert used["regret"] > 0.6, used


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("against", AGAINST)
def test_no_adversary_of_any_kind_of_guard_does(against: str, form: str) -> None:
    used = largest([hostile(c, 60, 12, seed=1) for c in written(against, form, every=5)])
    assert used["regret"] > 0.5, used
