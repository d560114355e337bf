"""What is promised where more is known before the state: false alarms by enumeration and simulation, and regret."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import lowregret as lr
from lowregret.arrays import last
from lowregret.certificates import switching
from lowregret.policies import Recovering
from lowregret.problems import Known

SETTINGS: list[dict[str, Any]] = [
    dict(references=("a", "b")),
    dict(contexts=3),
    dict(references=("a",), contexts=2, payoffs="change"),
    dict(references=("a",), actions=False),
    dict(payoffs="change"),
]


def worlds(rule: lr.ExactTest, T: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, Known]:
    """All sequences, their chances under a base whose laws go by the past, as do references, contexts and payoffs."""
    (A, S), N = rule.problem.utility.shape, len(rule.references)
    tokens = np.array(list(itertools.product(range(S), repeat=T)))
    code = np.zeros(len(tokens), dtype=int)
    parts: list[list[np.ndarray]] = [[], [], [], [], []]
    for t in range(T):
        size = S**t
        laws = rng.dirichlet(np.full(S, rng.choice([0.3, 2.0])), size)
        theirs, places = rng.dirichlet(np.full(S, 0.2), (size, N)), rng.integers(rule.n_contexts, size=size)
        payoffs, scales = rng.choice([-1.0, 1.0], (size, A, S)), rng.choice([0.5, 1.0], size)
        for part, table in zip(parts, (laws, theirs, places, payoffs, scales), strict=True):
            part.append(table[code])
        code = code * S + tokens[:, t]
    probs, theirs, places, payoffs, scales = (np.stack(part, axis=1) for part in parts)
    chances = np.take_along_axis(probs, tokens[..., None], axis=-1)[..., 0].prod(axis=1)
    known = Known(
        theirs if N else None,
        places if rule.contexts is not None else None,
        payoffs if rule.payoffs == "change" else None,
        scales,
    )
    return tokens, chances, probs, known


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_false_alarms_stay_within_delta_by_enumeration(settings: dict[str, Any]) -> None:
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(16):
        S = int(rng.integers(2, 4))
        delta, T = float(rng.choice([0.5, 0.9])), 9 if S == 2 else 5
        problem = lr.DecisionProblem(rng.choice([-1.0, 1.0], (int(rng.integers(2, 4)), S)))
        rule = lr.ExactTest(problem, T, delta, temperature=float(rng.choice([0.05, 1.0])), **settings)
        tokens, chances, probs, known = worlds(rule, T, rng)
        alarm = float(chances[rule.trip_times(probs, tokens, known) <= T].sum())
        assert alarm <= delta + 1e-12
        most = max(most, alarm / delta)
    assert most > 0.1, "a search that finds no alarms shows little"


def streams_of(rule: lr.ExactTest, n: int, T: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Known]:
    """Streams from the base itself; references are bold, and change their minds by what came last."""
    S, N = rule.problem.n_states, len(rule.references)
    probs = rng.dirichlet(np.full(S, 400.0), (n, T))  # hardly anything to choose: bets are charged what they win
    tokens = (rng.random((n, T, 1)) > probs.cumsum(axis=-1)[..., :-1]).sum(axis=-1)
    theirs = np.eye(S)[rng.integers(S, size=(n, T, N))]
    theirs[:, 1:, : N // 2] = np.eye(S)[tokens[:, :-1]][:, :, None]
    places = rng.integers(rule.n_contexts, size=(n, T)) if rule.contexts is not None else None
    return probs, tokens, Known(theirs if N else None, places, None, np.ones((n, T)))


@pytest.mark.parametrize(
    ("settings", "n", "T", "delta"),
    [
        (dict(contexts=50), 200, 800, 0.5),
        (dict(references=tuple("abcdefghij")), 500, 150, 0.1),
        (dict(references=tuple("abcdefghij"), actions=False), 500, 150, 0.1),
    ],
    ids=["50 contexts", "10 references", "10 references alone"],
)
def test_false_alarms_stay_within_delta_on_true_laws(settings: dict[str, Any], n: int, T: int, delta: float) -> None:
    """Judged by the binomial interval whose error probability is 1e-6."""
    rule = lr.ExactTest(lr.matching(), T, delta, **settings)
    probs, tokens, known = streams_of(rule, n, T, np.random.default_rng(1))
    alarms = int((rule.trip_times(probs, tokens, known) <= T).sum())
    assert 0 < alarms <= binom.ppf(1 - 1e-6, n, delta)


def played(rule: lr.ExactTest, tokens: np.ndarray, probs: np.ndarray, known: Known) -> np.ndarray:
    """Total regret after every step, ``[N, T]``."""
    memory, lead, found = rule.start(tokens.shape[:1]), np.zeros((len(tokens), rule.n_comparators)), []
    for t in range(tokens.shape[1]):
        now = Known(*(None if part is None else part[:, t] for part in known))
        moment = rule.look(memory, probs[:, t], now)
        lead = lead + last(rule.leads(rule.answer(memory, moment), tokens[:, t], moment.known))
        memory = rule.advance(memory, moment, tokens[:, t])
        found.append(rule.worst_lead(lead))
    return np.stack(found, axis=1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_certificate_is_broken_on_any_sequence(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(4):
        problem = lr.DecisionProblem(np.eye(2) * 0.5 + rng.choice([-0.5, 0.0, 0.5], (2, 2)))
        rule = lr.ExactTest(problem, 8, 0.5, **settings)
        tokens, _, probs, known = worlds(rule, 8, rng)
        regret = played(rule, tokens, probs, known)
        assert regret[:, -1].max() <= 8 * rule.certificate.regret_bound + 1e-9
        bounds = [t * rule.certificate.at(t).regret_bound for t in range(1, 9)]
        assert (regret.max(axis=0) <= np.array(bounds) + 1e-9).all()


def beam(rule: lr.ExactTest, T: int, width: int, rng: np.random.Generator) -> float:
    """The most regret found where laws, references, contexts and states are chosen against the rule.

    Until the alarm wealth counts against a stream at 1 / rate: what is left are the charges, which let regret pass.
    """
    price = 1 / rule.rates_K[0]
    S, N = rule.problem.n_states, len(rule.references)
    memory, lead, most = rule.start((1,)), np.zeros((1, rule.n_comparators)), 0.0
    chances = 0.5 + np.array([-0.4, -0.1, -0.06, -0.03, 0.0, 0.03, 0.06, 0.1, 0.4])
    for t in range(T):
        each = len(chances) * 2
        parents = np.repeat(np.arange(len(lead)), each)
        p, state = np.tile(np.repeat(chances, 2), len(lead)), np.tile([0, 1], len(lead) * len(chances))
        probs = np.stack([1 - p, p], axis=-1)
        shape = len(parents)
        theirs = np.eye(S)[np.where(rng.random((shape, N)) < 0.9, state[:, None], 0)] if N else None
        place = np.full(shape, t % rule.n_contexts) if rule.contexts is not None else None
        utility = np.tile(np.eye(2) * 2 - 1, (shape, 1, 1)) if rule.payoffs == "change" else None
        known = Known(theirs, place, utility, None)
        memory, lead = lr.take(memory, parents), lead[parents]
        moment = rule.look(memory, probs, known)
        lead = lead + last(rule.leads(rule.answer(memory, moment), state, moment.known))
        memory = rule.advance(memory, moment, state)
        regret = rule.worst_lead(lead)
        score = regret - price * np.where(rule.tripped(memory), 0.0, rule.evidence(memory)[0])
        best = np.argsort(-score - 1e-9 * rng.random(shape))[:width]
        memory, lead, most = lr.take(memory, best), lead[best], max(most, float(regret.max()))
    return most


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        (dict(references=("a", "b")), 0.4),
        (dict(contexts=4), 0.2),
        (dict(payoffs="change", references=("a",)), 0.4),
        (dict(references=("a",), actions=False, fallback=lr.policies.Incumbent("a")), 0.8),
    ],
    ids=str,
)
def test_no_certificate_is_broken_by_a_beam_search(settings: dict[str, Any], share: float) -> None:
    T = 250
    rule = lr.ExactTest(lr.matching(), T, 0.05, **settings)
    found, bound = beam(rule, T, 6, np.random.default_rng(3)), T * rule.certificate.regret_bound
    assert share * bound < found <= bound, f"{found} of {bound}"


def test_what_contexts_may_lose_is_largest_where_they_are_equal() -> None:
    """Sums of a context's own bounds, over every way to share out the steps, beside the certificate's."""
    rule = lr.ExactTest(lr.matching(), 40, 0.2, contexts=2)
    made = rule.stakes, rule.bets.prior, rule.delta, rule.temperature
    one, both = (switching.before(*made, C, False, 40)(np.arange(41)) for C in (1, 2))
    for total in range(41):
        assert max(one[n] + one[total - n] for n in range(total + 1)) <= both[total] + 1e-12
    fallback = rule.in_play.fallback
    assert isinstance(fallback, Recovering)
    after = fallback.regret_after(rule.stakes, 40, None)(np.arange(41))
    limit = fallback.budget * np.sqrt(40 / 2)
    own = [min(n, limit + 1 + fallback.hedge.total_bound(n)) for n in range(41)]
    for total in range(41):
        assert max(own[n] + own[total - n] for n in range(total + 1)) <= after[total] + 1e-12


def test_a_context_pays_for_itself_from_where_its_bound_is_below_the_gain() -> None:
    rule = lr.ExactTest(lr.matching(), 20_000, contexts=10)
    found = [rule.pays_from(gain) for gain in (0.1, 0.2, 0.4)]
    assert all(n is not None for n in found)
    assert sorted(found, reverse=True) == found  # type: ignore[type-var]
    assert f"from {rule.pays_from(0.25)} steps" in rule.certificate.statement
    assert rule.pays_from(1e-6) is None


def test_a_guard_falls_back_on_the_incumbents_law() -> None:
    coin = lr.matching()
    rule = lr.ExactTest(coin, 100, 0.05, references=("old",), actions=False, fallback=lr.policies.Incumbent("old"))
    guard, advice = lr.Guard(coin, 100, rule=rule), []
    for _ in range(12):
        advice.append(guard.advise([0.9, 0.1], references=[[0.3, 0.7]]).law)
        guard.observe(1)
    step = guard.events[0].step
    np.testing.assert_array_equal(advice, [[0.9, 0.1]] * step + [[0.3, 0.7]] * (12 - step))
    assert guard.share == 0
    with pytest.raises(ValueError, match="rule must be a rule such as ExactTest"):
        lr.AverageRestart(lr.Markov([[0.5, 0.5]] * 2, 1), coin, 1, 5, 12, rule=lr.ExactTest(coin, 5, payoffs="scaled"))
    with pytest.raises(ValueError, match="is told more than a law before each state"):
        lr.robust.Robust(lr.PolyaUrn(2), rule)


def test_an_alarm_names_who_spoke_and_where() -> None:
    coin = lr.matching()
    rng = np.random.default_rng(4)
    states, told = rng.integers(2, size=300), ("today's model", "naive")
    for likelihood in (False, True):
        guard = lr.Guard(coin, 500, references=told, likelihood=likelihood)
        for state in states:
            guard.advise([0.6, 0.4], references=np.array([np.eye(2)[state] * 0.8 + 0.1, [0.5, 0.5]]))
            guard.observe(int(state))
        first = guard.events[0]
        assert isinstance(first, lr.Switch)
        if likelihood:  # who bets on the mixture, in which they are, was first
            assert first.because.startswith("a mixture of recent frequencies and today's model, naive predicts better")
            continue
        assert (first.reference, first.action, first.context) == ("today's model", None, None)
        assert "today's model would have earned more since about step" in str(first)
    by_place = lr.Guard(coin, 500, contexts=5, likelihood=False)
    for t in range(400):
        by_place.advise([0.8, 0.2], context=t % 5)
        by_place.observe(int(t % 5 == 3 or rng.random() < 0.2))
    first = by_place.events[0]
    assert isinstance(first, lr.Switch)
    assert (first.reference, first.action, first.context) == (None, 1, 3)
