"""All that is known before the state: references, contexts, payoffs that change, beside loops as in the notes."""

import json
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.policies import shadow
from lowregret.policies.experts import ExpertHedge
from lowregret.problems import Known, Positions
from lowregret.rules import bets

from .. import literal_engine as literal

T = 40
CASES = [
    dict(references=("a", "b")),
    dict(contexts=3),
    dict(references=("a", "b"), contexts=2, payoffs="change"),
    dict(payoffs="change"),
    dict(references=("a",), horizon=None, delta=0.2),
    dict(references=("a", "b"), actions=False),
    dict(references=("a",), actions=False, fallback=lr.policies.Incumbent("a")),
]


class Step(NamedTuple):
    """All of one step."""

    probs: np.ndarray
    laws_NxS: np.ndarray  # of the references
    context: int
    utility: np.ndarray
    scale: float
    state: int

    def told(self) -> literal.Told:
        said, utility = tuple(self.laws_NxS), self.utility
        return literal.Told(self.probs, said, self.context, lambda at: utility[:, at], (), self.scale, self.state)


class ByHand:
    """One stream through the literal loop, played until its end."""

    def __init__(self, rule: lr.ExactTest, steps: list[Step]) -> None:
        stream = literal.Stream(literal.settings_of(rule))
        self.log_total_T, self.regret_T = [], []  # of all bettors; in all
        for t, step in enumerate(steps, 1):
            stream.advise(t, step.told())
            stream.observe(t)
            self.log_total_T.append(math.log(stream.classes[0].total()))
            self.regret_T.append(stream.worst(stream.leads))
        self.played_TxA = stream.played
        self.trip = stream.alarm or len(steps) + 1


def made(case: dict[str, Any], rng: np.random.Generator, gives: str) -> tuple[lr.ExactTest, list[list[Step]]]:
    """A rule on a random problem, and streams of steps: one as the model says, two with a model that is wrong."""
    A, S = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    problem = lr.DecisionProblem(np.eye(A, S) + rng.uniform(-1, 0, (A, S)) * 0.3)
    settings = {"horizon": T, "delta": 0.4, "fallback": lr.Recovery(budget=0.1), **case}
    rule = lr.ExactTest(problem, settings.pop("horizon"), settings.pop("delta"), **settings)
    N, streams = len(rule.references), []
    for stream in range(3):
        steps = []
        for t in range(T):
            probs = rng.dirichlet(np.full(S, 0.4)) * 0.98 + 0.02 / S
            state, laws = int(rng.choice(S, p=probs / probs.sum())), rng.dirichlet(np.full(S, 0.5), N)
            if stream:  # sure of one state while another comes, and now and then the other way round
                sure = (t // 28) % 2
                probs, state = np.eye(S)[sure] * 0.7 + 0.3 * probs, 1 - sure
                laws = 0.5 * laws + 0.5 * np.eye(S)[state]
            noise = rng.uniform(-1, 1, (A, S))
            utility = 0.8 * problem.utility + 0.2 * noise if rule.payoffs == "change" else problem.utility
            scale = float(rng.uniform(0.5, 1)) if gives == "scale" else 1.0
            context = int(rng.integers(rule.n_contexts))
            steps.append(Step(probs, laws, context, utility, scale, state))
        streams.append(steps)
    return rule, streams


def guarded(rule: lr.ExactTest, shape: tuple[int, ...]) -> lr.Guard:
    return lr.Guard(rule.problem, rule.horizon, rule=rule, batch_shape=shape)


def advise(guard: lr.Guard, now: list[Step]) -> None:
    """Tell a guard of one stream, or of as many as there are steps, all that is known."""
    rule, problem = guard.rule, guard.problem
    assert isinstance(rule, lr.ExactTest)
    assert problem is not None

    def rows(values: list[Any]) -> Any:
        return np.stack([np.asarray(v) for v in values]) if guard.batch_shape else np.asarray(values[0])

    more: dict[str, Any] = {}
    if rule.references:
        more["references"] = rows([s.laws_NxS for s in now])
    if rule.contexts is not None:
        more["context"] = rows([s.context for s in now])
    if rule.payoffs == "change":
        more["payoffs"] = problem.in_payoffs(rows([s.utility for s in now]))
    if any(s.scale != 1 for s in now):
        more["scale"] = rows([s.scale for s in now])
    guard.advise(rows([s.probs for s in now]), **more)


@pytest.mark.parametrize(("case", "gives"), [(CASES[0], "plain"), *((case, "scale") for case in CASES)], ids=str)
def test_streaming_recorded_and_a_literal_loop_agree(
    case: dict[str, Any], gives: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fleet in arrays; the single stream compiled, where there is a compiler."""
    for module in (bets, shadow):
        monkeypatch.setattr(module, "_STEPS", 0)
    rng = np.random.default_rng([3, CASES.index(case)])
    rule, streams = made(case, rng, gives)
    by_hand = [ByHand(rule, steps) for steps in streams]
    assert any(one.trip <= T - 5 for one in by_hand)
    fleet, alone = guarded(rule, (3,)), guarded(rule, ())
    for t in range(T):
        advise(fleet, [steps[t] for steps in streams])
        advise(alone, [streams[1][t]])
        mixed = fleet.policy()
        np.testing.assert_allclose(mixed, [one.played_TxA[t] for one in by_hand], atol=1e-10)
        fleet.observe(Positions(np.array([steps[t].state for steps in streams])))
        alone.observe(Positions(streams[1][t].state))
        np.testing.assert_allclose(fleet.evidence[0], [one.log_total_T[t] for one in by_hand], atol=1e-10)
        np.testing.assert_allclose(alone.evidence[0], by_hand[1].log_total_T[t], atol=1e-10)
        np.testing.assert_allclose(fleet.regret * (t + 1), [one.regret_T[t] for one in by_hand], atol=1e-10)
        np.testing.assert_allclose(alone.regret * (t + 1), by_hand[1].regret_T[t], atol=1e-10)
    switches = {e.stream: e.step for e in fleet.events if isinstance(e, lr.Switch)}
    assert [switches.get(n, T + 1) for n in range(3)] == [one.trip for one in by_hand]
    assert recorded(rule, streams).tolist() == [one.trip for one in by_hand]


def recorded(rule: lr.ExactTest, streams: list[list[Step]]) -> np.ndarray:
    def all_of(name: str) -> np.ndarray:
        return np.array([[getattr(step, name) for step in steps] for steps in streams])

    known = Known(
        all_of("laws_NxS") if rule.references else None,
        all_of("context") if rule.contexts is not None else None,
        all_of("utility") if rule.payoffs == "change" else None,
        all_of("scale"),
    )
    return rule.trip_times(all_of("probs"), all_of("state"), known)


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[6]], ids=str)
def test_a_guard_resumes_bit_for_bit(case: dict[str, Any]) -> None:
    rule, streams = made(case, np.random.default_rng(5), "scale")
    one = guarded(rule, (3,))
    for t in range(T):
        advise(one, [steps[t] for steps in streams])
        if t % 7 == 3:  # between advise and observe
            state = json.loads(json.dumps(one.state_dict()))
            other = guarded(rule, (3,))
            other.load_state_dict(state)
            assert json.dumps(other.state_dict()) == json.dumps(state)
            assert np.array_equal(other.policy(), one.policy())
            one = other
        one.observe(np.array([steps[t].state for steps in streams]), action=np.zeros(3, dtype=int))
    whole = guarded(rule, (3,))
    for t in range(T):
        advise(whole, [steps[t] for steps in streams])
        whole.observe(np.array([steps[t].state for steps in streams]), action=np.zeros(3, dtype=int))
    assert json.dumps(whole.state_dict()) == json.dumps(one.state_dict())
    assert whole.events == one.events


LAW = [0.5, 0.5]
TWO = {"references": [LAW, LAW], "context": 1, "payoffs": [[1.0, 0.0], [0.0, 1.0]], "scale": 0.5}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"references": [[0.2, 0.3, 0.5]] * 2}, r"references must have shape \(2, 2\) \(laws over the states\)"),
        ({"references": [LAW]}, "a row for each of old, naive, got"),
        ({"references": [[0.7, 0.7], LAW]}, "references must sum to one"),
        ({"references": None}, "references must be given: what old, naive say"),
        ({"context": 3}, r"context must lie in 0..2, got 3"),
        ({"context": -1}, r"context must lie in 0..2"),
        ({"context": 1.5}, "context must be integers"),
        ({"context": None}, "context must be given"),
        ({"payoffs": [[5.0, 0.0], [0.0, 1.0]]}, "payoffs must lie in the range that the problem declares, 0 to 4"),
        ({"payoffs": [[np.nan, 0.0], [0.0, 1.0]]}, "payoffs must lie in the range"),
        ({"payoffs": [[1.0, 0.0]]}, r"payoffs must have shape \(2, 2\)"),
        ({"scale": 0.0}, "scale must lie above 0"),
        ({"scale": 1.5}, "scale must lie above 0"),
        ({"scale": [1.0, 1.0]}, "scale must have shape"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_by_name_and_nothing_changes(changed: dict[str, Any], says: str) -> None:
    problem = lr.DecisionProblem.from_payoffs([[3.0, 0.0], [0.0, 1.0]], low=0, high=4)
    guard = lr.Guard(problem, 20, references=("old", "naive"), contexts=3, payoffs="change")
    guard.advise(LAW, **TWO)
    guard.observe(1)
    guard.advise(LAW, **TWO)
    before = json.dumps(guard.state_dict())
    with pytest.raises(ValueError, match=says):
        guard.advise(LAW, **{**TWO, **changed})
    assert json.dumps(guard.state_dict()) == before
    guard.observe(0)


def test_an_incumbent_loses_nothing_where_it_is_all_that_is_compared_with() -> None:
    for names, actions, known in ((("a",), False, True), (("a",), True, False), (("a", "b"), False, False)):
        back = lr.policies.Incumbent("a")
        given = lr.ExactTest(lr.matching(), 2000, references=names, actions=actions, fallback=back).certificate
        assert (given.regret_bound < 0.1) == known
        assert known or given.regret_bound == lr.matching().span  # of actions, or another, nothing is known


def test_laws_of_references_are_looked_at_in_the_usual_case_too() -> None:
    """One stream, a few laws in double precision: the quick way."""
    guard = lr.Guard(lr.matching(), 20, references=("old",))
    for wrong, says in (([[1.5, -0.5]], "references"), ([[0.7, 0.7]], "references must sum to one")):
        with pytest.raises(ValueError, match=says):
            guard.advise(np.array(LAW), references=np.array(wrong))
    assert guard.advise(np.array(LAW), references=np.array([[1.0, 0.0]])) is not None


@pytest.mark.parametrize("name", TWO)
def test_what_was_not_declared_is_refused(name: str) -> None:
    guard = lr.Guard(lr.matching(), 20)
    guard.advise(LAW)
    guard.observe(0)
    before = json.dumps(guard.state_dict())
    with pytest.raises(ValueError, match=f"{name} was not declared when the guard was made: Guard"):
        guard.advise(LAW, **{name: TWO[name]})
    assert json.dumps(guard.state_dict()) == before


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"references": "naive"}, "references must be a tuple of names"),
        ({"references": ("a", "a")}, "references must be names, each once"),
        ({"contexts": 0}, "contexts must be a whole number >= 1"),
        ({"payoffs": "move"}, 'payoffs must be "scaled" or "change"'),
        ({"lag": 0}, "lag must be a whole number >= 1"),
        ({"contexts": 2, "rule": lr.ExactTest(lr.matching(), 20)}, "only build the default rule"),
        ({"contexts": 2, "fallback": lr.policies.AdaHedge(lr.matching())}, "fallback must be a Recovery"),
        ({"contexts": 2, "fallback": lr.PolyaUrn(2), "temperature": 0.2}, "fallback must be a Recovery"),
        ({"contexts": 2, "fallback": lr.policies.Incumbent("x")}, "fallback must be one of the references"),
    ],
    ids=str,
)
def test_a_guard_is_not_made_of_nonsense(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        lr.Guard(lr.matching(), 20, **settings)


def test_payoffs_with_a_range_of_their_own_and_a_scale_are_one_thing() -> None:
    """Half of what the problem says is at stake, said as a scale or as payoffs: the same play, half the gains."""
    problem = lr.DecisionProblem.from_payoffs([[1.0, -1.0], [-1.0, 1.0]])
    scaled, whole = lr.Guard(problem, 50, payoffs="scaled"), lr.Guard(problem, 50, payoffs="scaled")
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, state = rng.uniform(0.2, 0.8), int(rng.integers(2))
        scaled.advise([p, 1 - p], scale=0.5)
        whole.advise([p, 1 - p])
        np.testing.assert_allclose(scaled.policy(), whole.policy(), atol=1e-15)
        scaled.observe(state)
        whole.observe(state)
    np.testing.assert_allclose(scaled.regret, 0.5 * whole.regret, atol=1e-15)


def test_without_anything_more_to_know_it_is_the_plain_test() -> None:
    """The same alarms where nothing else is told; and the torch form agrees with NumPy's."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    problem = lr.rock_paper_scissors()
    plain, told_more = lr.ExactTest(problem, 100, 0.3), lr.ExactTest(problem, 100, 0.3, payoffs="scaled")
    probs, tokens = rng.dirichlet(np.full(3, 0.5), (40, 100)), rng.integers(3, size=(40, 100))
    np.testing.assert_allclose(told_more.rates_K, plain.rates_K, rtol=1e-12)
    assert told_more.trip_times(probs, tokens).tolist() == plain.trip_times(probs, tokens).tolist()
    rule = lr.ExactTest(problem, 100, 0.3, references=("a",), contexts=4)
    guards = [lr.Guard(problem, 100, rule=rule, batch_shape=(40,)) for _ in range(2)]
    laws, places = rng.dirichlet(np.ones(3), (40, 100, 1)), rng.integers(4, size=(40, 100))
    for t in range(60):
        for guard, kind in zip(guards, (np.asarray, torch.asarray), strict=True):
            guard.advise(kind(probs[:, t]), references=kind(laws[:, t]), context=kind(places[:, t]))
            guard.observe(Positions(kind(tokens[:, t])))
    assert any(isinstance(event, lr.Switch) for event in guards[0].events)
    np.testing.assert_allclose(guards[0].regret, guards[1].regret.numpy(), atol=1e-12)
    assert [e[:2] for e in guards[0].events] == [e[:2] for e in guards[1].events]


def test_realised_regret_is_that_of_the_actions_reported() -> None:
    guard = lr.Guard(lr.matching(), 20, references=("old",), contexts=2)
    states, actions, places = [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]
    for state, action, place in zip(states, actions, places, strict=True):
        guard.advise(LAW, references=[[0.5, 0.5]], context=place)
        guard.observe(state, action=action)
    # In context 0 either action earns 1 of 2, as does what was taken; in context 1 likewise; the reference half.
    assert guard.realised_regret == 0.0
    assert guard.regret == 0.0


def test_memory_grows_with_contexts_as_their_counts_do() -> None:
    """So many numbers for each context, whatever their number: bets, urns, weights, a budget, safe play."""

    def kept(contexts: int) -> int:
        rule = lr.ExactTest(lr.rock_paper_scissors(), 100_000, contexts=contexts)
        return sum(leaf.size for leaf in leaves(rule.start()))

    rule = lr.ExactTest(lr.rock_paper_scissors(), 100_000, contexts=1000)
    A, S, M, K = 3, 3, 2, len(rule.rates_K)
    each = 3 * A * K + 1 + (1 + A) * M * S + (1 + 2 * M) + 2 * A + 3
    assert kept(1000) - kept(500) == 500 * each


def leaves(memory: Any) -> list[Any]:
    return [leaf for part in memory for leaf in leaves(part)] if isinstance(memory, tuple) else [memory]


def test_what_was_not_declared_is_refused_and_changes_nothing() -> None:
    """Not even the first advise may declare it: what is promised would change in silence."""
    shop = lr.DecisionProblem.from_payoffs([[0, 3], [2, 1]], low=0, high=4)
    for more in ({"payoffs": [[0, 4], [1, 1]]}, {"scale": 0.5}, {"scale": 1.0}):
        guard = lr.Guard(shop, 20)
        before = guard.state_dict()
        with pytest.raises(ValueError, match="not declared"):
            guard.advise([0.3, 0.7], **more)
        assert guard.state_dict() == before
    with pytest.raises(ValueError, match="payoffs must lie in the range"):
        lr.Guard(shop, 20, payoffs="change").advise([0.3, 0.7], payoffs=[[0, 5], [1, 1]])


def test_payments_too_small_for_a_rate_leave_safe_play_a_policy() -> None:
    hedge = ExpertHedge(experts=2, span=1.0)
    memory = hedge.start()
    for paid in [[1e-310, 0.0], [5e-324, 0.0], [0.0, 1e-310]]:
        memory = hedge.update(memory, paid)
        assert hedge.policy(memory).sum() == pytest.approx(1.0)
    memory = hedge.update(memory, [1.0, 0.0])
    assert hedge.policy(memory)[0] > 0.5


def test_references_by_name() -> None:
    laws = {"new": [0.2, 0.8], "old": [0.6, 0.4]}
    listed, named = (lr.Guard(lr.matching(), 20, references=("old", "new")) for _ in range(2))
    for state in (0, 1, 1):
        listed.advise([0.3, 0.7], references=[laws["old"], laws["new"]])
        named.advise([0.3, 0.7], references=laws)
        listed.observe(state)
        named.observe(state)
    assert listed.state_dict() == named.state_dict()
    with pytest.raises(ValueError, match="references must be what old, new say, got"):
        named.advise([0.3, 0.7], references={"old": [0.5, 0.5]})
    with pytest.raises(ValueError, match=r"shape \(2, 2\) \(laws over the states\), a row for each"):
        named.advise([0.3, 0.7], references=[0.5, 0.5])
    for make in (lr.Guard, lr.ExactTest):
        with pytest.raises(ValueError, match=r"told what it says: Guard\(\.\.\., references=\('a',\)"):
            make(lr.matching(), 20, fallback=lr.policies.Incumbent("a"))


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_laws_and_references_may_be_of_different_kinds(kind: str, shape: tuple[int, ...]) -> None:
    """Torch laws with NumPy references, or the other way round, as NumPy alone."""
    torch, rng = pytest.importorskip("torch"), np.random.default_rng(0)
    laws, old = rng.dirichlet([1, 1], (40, *shape)), rng.dirichlet([5, 1], (40, *shape, 1))
    laws, old = laws.astype(kind), old.astype(kind)
    guards = [lr.Guard(lr.matching(), 40, references=["old"], batch_shape=shape) for _ in range(3)]
    for law, reference in zip(laws, old, strict=True):
        guards[0].advise(law, references=reference)
        guards[1].advise(torch.asarray(law), references=reference)
        guards[2].advise(law, references=torch.asarray(reference))
        for guard in guards:
            guard.observe(np.ones(shape, dtype=int))
    for guard in guards[1:]:
        np.testing.assert_allclose(np.asarray(guard.regret), guards[0].regret, rtol=1e-6)
        assert [event.step for event in guard.events] == [event.step for event in guards[0].events]


def test_what_has_names_is_gone_by_its_names() -> None:
    pd = pytest.importorskip("pandas")
    payoffs, names = [[1.0, -1.0], [0.0, 0.5], [-1.0, 1.0]], {"states": ["dry", "rain"], "actions": ["a", "b", "c"]}
    problem = lr.DecisionProblem.from_payoffs(payoffs, low=-2, high=2, **names)
    law, plain = {"rain": 0.9, "dry": 0.1}, [0.1, 0.9]
    frame = pd.DataFrame(payoffs, index=names["actions"], columns=names["states"])

    def known(references: Any, stakes: Any) -> list[Any]:
        guard = lr.Guard(problem, 10, references=["old", "new"], payoffs="change")
        guard.advise([0.5, 0.5], references=references, payoffs=stakes)
        told = guard._at.waiting[0].known
        assert told is not None
        return [told.laws_NxS.tolist(), told.utility.tolist()]

    right = known(np.array([plain, plain]), payoffs)
    assert right == known({"old": law, "new": pd.Series(law)}, frame[["rain", "dry"]])
    assert right == known([law, pd.Series(law)], frame.loc[["c", "a", "b"]])
    assert right == known(pd.DataFrame([law, law]), {name: frame[name] for name in ("rain", "dry")})
    with pytest.raises(ValueError, match=r"references must be given alike.*\(2,\), \(3,\)"):
        known({"old": plain, "new": [1.0, 0.0, 0.0]}, payoffs)
    with pytest.raises(ValueError, match="payoffs"):
        known({"old": plain, "new": plain}, frame.rename(columns={"dry": "snow"}))


def test_a_recorded_reference_with_names_is_gone_by_them() -> None:
    pd = pytest.importorskip("pandas")
    problem = lr.DecisionProblem.from_payoffs([[1, -1], [-1, 1]], states=["dry", "rain"])
    said = np.tile([0.2, 0.8], (5, 1))
    frame = pd.DataFrame({"rain": said[:, 1], "dry": said[:, 0]})
    for theirs in (said, frame, [frame.iloc[t] for t in range(5)]):
        found = lr.backtest(problem, said, ["rain"] * 5, references={"old": theirs})
        assert found.earned["reference old"] == found.earned["model"]
