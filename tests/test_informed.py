"""All that is known before the state: references, contexts, payoffs that change, beside loops as in the notes."""

import json
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.rules import Known

from .literal_informed import Step, told

T = 50
CASES = [
    dict(references=("a", "b")),
    dict(references=("a",), references_act=True),
    dict(contexts=3),
    dict(references=("a", "b"), contexts=2, payoffs="change"),
    dict(payoffs="change"),
    dict(references=("a",), horizon=None, delta=0.2),
    dict(references=("a", "b"), actions=False),
    dict(references=("a",), actions=False, fallback=lr.Incumbent("a")),
]


def made(case: dict[str, Any], rng: np.random.Generator, gives: str) -> tuple[lr.InformedTest, list[list[Step]]]:
    """A rule on a random problem, and streams of steps: one as the model says, two with a model that is wrong."""
    A, S = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    problem = lr.DecisionProblem(np.eye(A, S) + rng.uniform(-1, 0, (A, S)) * 0.3)
    settings = {"horizon": T, "delta": 0.4, "fallback": lr.Recovery(budget=0.1), **case}
    rule = lr.InformedTest(problem, settings.pop("horizon"), settings.pop("delta"), **settings)
    N, streams = len(rule.references), []
    for stream in range(3):
        steps = []
        for t in range(T):
            probs = rng.dirichlet(np.full(S, 0.4)) * 0.98 + 0.02 / S
            state, laws = int(rng.choice(S, p=probs / probs.sum())), rng.dirichlet(np.full(S, 0.5), N)
            if stream:  # sure of one state while another comes, and now and then the other way round
                sure = (t // 30) % 2
                probs, state = np.eye(S)[sure] * 0.7 + 0.3 * probs, 1 - sure
                laws = 0.5 * laws + 0.5 * np.eye(S)[state]
            noise = rng.uniform(-1, 1, (A, S))
            utility = 0.8 * problem.utility + 0.2 * noise if rule.payoffs == "change" else problem.utility
            scale = float(rng.uniform(0.5, 1)) if gives == "scale" else 1.0
            plays, context = rng.dirichlet(np.full(A, 0.5), N), int(rng.integers(rule.rows))
            acting = rule.references_act or not N
            steps.append(Step(probs, plays, None if acting else laws, context, utility, scale, state))
        streams.append(steps)
    return rule, streams


def guarded(rule: lr.InformedTest, shape: tuple[int, ...]) -> lr.Guard:
    return lr.Guard(rule.problem, rule.horizon, rule=rule, batch_shape=shape)


def advise(guard: lr.Guard, now: list[Step]) -> None:
    """Tell a guard of one stream, or of as many as there are steps, all that is known."""
    rule, problem = guard.rule, guard.problem
    assert isinstance(rule, lr.InformedTest)
    assert problem is not None

    def rows(values: list[Any]) -> Any:
        return np.stack([np.asarray(v) for v in values]) if guard.batch_shape else np.asarray(values[0])

    more: dict[str, Any] = {}
    if rule.references:
        more["references"] = rows([s.plays_NxA if s.laws_NxS is None else s.laws_NxS for s in now])
    if rule.contexts is not None:
        more["context"] = rows([s.context for s in now])
    if rule.payoffs == "change":
        more["payoffs"] = problem.in_payoffs(rows([s.utility for s in now]))
    if any(s.scale != 1 for s in now):
        more["scale"] = rows([s.scale for s in now])
    guard.advise(rows([s.probs for s in now]), **more)


@pytest.mark.parametrize("gives", ["plain", "scale"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_streaming_recorded_and_a_literal_loop_agree(case: dict[str, Any], gives: str) -> None:
    rng = np.random.default_rng([3, CASES.index(case)])
    rule, streams = made(case, rng, gives)
    literal = [told(rule, steps) for steps in streams]
    assert any(one.trip <= T - 10 for one in literal)
    fleet, alone = guarded(rule, (3,)), guarded(rule, ())
    for t in range(T):
        advise(fleet, [steps[t] for steps in streams])
        advise(alone, [streams[1][t]])
        mixed = fleet.policy()
        np.testing.assert_allclose(mixed, [one.played_TxA[t] for one in literal], atol=1e-10)
        fleet.observe(np.array([steps[t].state for steps in streams]))
        alone.observe(streams[1][t].state)
        np.testing.assert_allclose(fleet.evidence[0], [one.log_total_T[t] for one in literal], atol=1e-10)
        np.testing.assert_allclose(alone.evidence[0], literal[1].log_total_T[t], atol=1e-10)
        np.testing.assert_allclose(fleet.regret * (t + 1), [one.regret_T[t] for one in literal], atol=1e-10)
        np.testing.assert_allclose(alone.regret * (t + 1), literal[1].regret_T[t], atol=1e-10)
    switches = {e.stream: e.step for e in fleet.events if isinstance(e, lr.Switch)}
    assert [switches.get(n, T + 1) for n in range(3)] == [one.trip for one in literal]
    assert recorded(rule, streams).tolist() == [one.trip for one in literal]


def recorded(rule: lr.InformedTest, streams: list[list[Step]]) -> np.ndarray:
    def all_of(name: str) -> np.ndarray:
        return np.array([[getattr(step, name) for step in steps] for steps in streams])

    with_laws = bool(rule.references) and not rule.references_act
    known = Known(
        all_of("plays_NxA") if rule.references and not with_laws else None,
        all_of("laws_NxS") if with_laws else None,
        all_of("context") if rule.contexts is not None else None,
        all_of("utility") if rule.payoffs == "change" else None,
        all_of("scale"),
    )
    return rule.trip_times(all_of("probs"), all_of("state"), known)


@pytest.mark.parametrize("case", CASES, ids=str)
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
