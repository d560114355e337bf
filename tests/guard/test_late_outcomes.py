"""A guard whose outcomes come late: streaming against a literal loop, saved and resumed."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.certificates.coupled import late_factor
from lowregret.rules import late_rule

from ..late_worlds import arrivals, play
from ..literal_theorem import answer, some_game, some_laws, told

MATCHING = lr.matching()


def literal(
    problem: lr.DecisionProblem, rule: lr.ExactTest, lag: int, laws: np.ndarray, states: np.ndarray, order: Any
) -> tuple[int, float, np.ndarray]:
    """A class at a time by the theorem as it is written: after how many outcomes it alarms (0: never), ln of the last
    average, and each action's lead; in every class an urn of its own takes over, or the way back."""
    T, U = len(states), problem.utility
    eta = 1 / math.sqrt(-(-T // lag))
    each = lr.ExactTest(
        problem, -(-T // lag), delta=rule.delta / late_factor(lag), temperature=eta, fallback=rule.fallback
    )
    back = None if isinstance(rule.fallback, lr.PolyaUrn) else each.in_play.fallback
    shadows = [None if back is None else back.start() for _ in range(lag)]
    level = [told(each, laws[r::lag], states[r::lag]).log_total_T for r in range(lag)]
    seen, now, counts = [0] * lag, np.zeros(lag), np.ones((lag, len(U[0])))
    alarm, outcomes, lead_A, switched = 0, 0, np.zeros(len(U)), {}
    for what, step in order:
        r, state = (step - 1) % lag, int(states[step - 1])
        if what == "advise":
            switched[step] = alarm > 0
            continue
        law = said = laws[step - 1]
        scene = None if back is None else back.scene(shadows[r], said)
        if switched[step]:
            law = counts[r] / counts[r].sum() if back is None else back.law(shadows[r], scene)
        if back is not None:
            shadows[r] = back.update(shadows[r], scene, np.asarray(state), np.asarray(switched[step]))
        lead_A += U[:, state] - answer(U, law, eta) @ U[:, state]
        counts[r, state] += 1
        now[r] = math.inf if laws[step - 1][state] == 0 else level[r][seen[r]] if now[r] < math.inf else now[r]
        seen[r] += 1
        outcomes += 1
        if not alarm and np.exp(np.minimum(now, 700)).mean() >= late_factor(lag) / rule.delta:
            alarm = outcomes
    return alarm, float(np.log(np.exp(np.minimum(now, 700)).mean())), lead_A


@pytest.mark.parametrize("lag", [2, 3, 5, 7])
def test_streaming_is_a_literal_loop(lag: int) -> None:
    """Random games, laws and orders of arrival; the recorded form where they come in the order of their steps."""
    alarms = recorded = 0
    for seed in range(6):
        rng, T = np.random.default_rng(100 * lag + seed), 12 * lag + seed
        problem = some_game(rng) if seed % 2 else MATCHING
        laws = some_laws(rng, (T,), problem.n_states, zeros=seed == 0)
        hurts = (problem.quantal_response(laws, 0.1) @ problem.utility).argmin(axis=-1)
        states = np.where(rng.random(T) < 0.9, hurts, rng.integers(problem.n_states, size=T))
        rule = lr.ExactTest(problem, T, delta=0.5, fallback=lr.PolyaUrn(problem.n_states) if seed < 4 else None)
        in_order = [(what, t) for t in range(1, T + 1) for what in ("advise", "observe")]
        order = in_order if seed in (1, 4) else arrivals(T, lag, rng, at_once=seed % 2 == 0)
        guard = lr.Guard(problem, T, rule=rule, lag=lag)
        play(guard, laws, states, order)
        alarm, average, lead_A = literal(problem, rule, lag, laws, states, order)
        seen = [i for i, (what, _) in enumerate(order) if what == "observe"]
        at = seen[alarm - 1]
        dated = [(order[at][1], sum(what == "advise" for what, _ in order[:at]))] * (alarm > 0)
        assert [(event.step, event.known) for event in guard.events] == dated
        assert guard.regret == pytest.approx(lead_A.max() / T, abs=1e-9)
        if average < 600:
            assert guard.evidence[0] == pytest.approx(average, rel=1e-9, abs=1e-9)
        assert guard.evidence[1] == pytest.approx(math.log(late_factor(lag) / 0.5))
        if order is in_order:
            assert late_rule(rule, lag).trip_times(laws, states) == (alarm or T + 1)
            recorded += alarm > 0
        alarms += alarm > 0
    assert alarms >= 3
    assert recorded


@pytest.mark.parametrize("kind", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_streams_side_by_side_are_streams_alone(kind: Any) -> None:
    T, lag, rng = 30, 3, np.random.default_rng(0)
    laws, states = some_laws(rng, (T, 2, 2), 2), rng.integers(2, size=(T, 2, 2))
    states[:, 0, 0], laws[:, 0, 0] = 1, [0.9, 0.1]
    order = arrivals(T, lag, rng, at_once=True)
    whole = lr.Guard(MATCHING, T, lag=lag, batch_shape=(2, 2))
    play(whole, kind(laws), kind(states), order)
    for at in np.ndindex(2, 2):
        alone = lr.Guard(MATCHING, T, lag=lag)
        play(alone, laws[(slice(None), *at)], states[(slice(None), *at)], order)
        assert float(whole.regret[at]) == pytest.approx(alone.regret, abs=1e-9)
        assert bool(whole.switched[at]) == alone.switched
        assert float(whole.evidence[0][at]) == pytest.approx(float(alone.evidence[0]), rel=1e-9)
        assert float(whole.share[at]) == pytest.approx(alone.share, abs=1e-9)
        assert [e.step for e in whole.events if e.stream == at] == [e.step for e in alone.events]
    assert whole.switched[0, 0]


def test_advice_after_the_alarm_is_the_fallbacks_and_before_it_the_models() -> None:
    guard = lr.Guard(MATCHING, 100, rule=lr.ExactTest(MATCHING, 100, delta=0.1), lag=3)
    advised = {}
    for step in range(1, 31):
        advised[step] = guard.advise([0.9, 0.1]).law
        if step >= 3:
            guard.observe(1)
    (event,) = guard.events
    assert event.rule == "ExactTest"
    assert event.action == 1
    after = event.step + 3  # the first step that is advised with the outcome that gave the alarm
    assert all(law.tolist() == [0.9, 0.1] for step, law in advised.items() if step < after)
    assert all(law[1] > 0.3 for step, law in advised.items() if step >= after + 3)


def test_each_step_that_waits_has_its_own_action() -> None:
    guard, laws = lr.Guard(MATCHING, 75, rule=lr.ExactTest(MATCHING, 75), lag=3), [[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]]
    for law in laws:
        guard.advise(law)
    for step, law in enumerate(laws, 1):
        expected = MATCHING.quantal_response(np.array(law), 1 / math.sqrt(25))
        np.testing.assert_allclose(guard.policy(step=step), expected, rtol=1e-12)
    assert guard.policy().tolist() == guard.policy(step=3).tolist()
    assert guard.act(seed=5) == guard.act(seed=5, step=3)
    draws = [[guard.act(seed=seed, step=step) for seed in range(20)] for step in (1, 2, 3)]
    assert len({tuple(each) for each in draws}) == 3
    guard.advise([0.1, 0.9], step=2)  # anew: it replaces what was said
    assert guard.policy(step=2)[1] > 0.9


def test_a_model_can_return() -> None:
    """It is wrong for a while, then right: once most classes trust it again, that is told, and only once."""
    told_of: list[Any] = []
    trusting: list[int] = []

    def heard(event: Any) -> None:
        told_of.append(event)
        classes = guard._at.ledger.rule.statistics.classes
        trusting.append(sum(bool(part.fallback.trusted) for part in classes))

    guard, states = lr.Guard(MATCHING, 400, lag=3, on_event=heard), np.random.default_rng(0).integers(2, size=400)
    for step in range(1, 221):
        right = [0.95, 0.05] if states[step - 1] == 0 else [0.05, 0.95]
        guard.advise(right[::-1] if 20 < step < 90 else right)
        if step > 2:
            guard.observe(states[step - 3])
    assert [type(event).__name__ for event in guard.events] == ["Switch", "Return"]
    assert told_of == guard.events
    assert trusting == [0, 2]
    assert guard.share > 0.5


def test_an_excluded_state_alarms_at_once() -> None:
    guard = lr.Guard(MATCHING, 50, lag=4)
    for _ in range(3):
        guard.advise([1.0, 0.0])
    guard.observe(0, step=2)
    assert not guard.switched
    guard.observe(1, step=3)
    assert guard.switched
    assert guard.events[0].excluded
    assert guard.evidence[0] == math.inf


@pytest.mark.parametrize(("shape", "kind"), [((), np.asarray), ((3,), np.asarray), ((2,), torch.asarray)])
def test_resumed_bit_for_bit_with_outcomes_outstanding(shape: tuple[int, ...], kind: Any) -> None:
    T, lag, rng = 30, 4, np.random.default_rng(3)
    laws, states = some_laws(rng, (T, *shape), 2, zeros=False), rng.integers(2, size=(T, *shape))
    laws[:12], states[:12] = [0.95, 0.05], 1  # a switch, so that the fallbacks have something to remember
    order = arrivals(T, lag, rng, at_once=True)
    rule = lr.ExactTest(MATCHING, T, delta=0.2)

    def guard() -> lr.Guard:
        return lr.Guard(MATCHING, T, rule=rule, lag=lag, batch_shape=shape)

    straight, broken = guard(), guard()
    for i, (what, step) in enumerate(order):
        for one in (straight, broken):
            if what == "advise":
                one.advise(kind(laws[step - 1]))
            elif step == 17:
                one.skip(step=17)
            else:
                one.observe(kind(states[step - 1]), step=step)
        if i % 9 == 4:
            written = json.dumps(broken.state_dict())
            broken = guard()
            broken.load_state_dict(json.loads(written))
            assert json.dumps(broken.state_dict()) == written
    assert json.dumps(straight.state_dict()) == json.dumps(broken.state_dict())
    assert np.asarray(straight.switched).any()


def test_outcomes_that_never_come_and_episodes() -> None:
    """J for each in the certificate; regret counts what was seen; a new episode once nothing waits."""
    guard = lr.Guard(MATCHING, 20, lag=2, batch_shape=(2,))
    promised = guard.certificate
    for step in range(1, 21):
        guard.advise([[0.6, 0.4], [0.6, 0.4]])
        guard.skip() if step in (3, 8) else guard.observe([0, 1])
    assert guard.certificate.terms["outcomes that never came"] == pytest.approx(2 / 20)
    assert sum(guard.certificate.terms.values()) == pytest.approx(sum(promised.terms.values()) + 0.1)
    with pytest.raises(ValueError, match="horizon of 20"):
        guard.advise([[0.6, 0.4], [0.6, 0.4]])
    guard.restart([1])
    assert guard.episodes.tolist() == [1, 2]
    with pytest.raises(ValueError, match="1 of 2 streams"):
        guard.advise([[0.6, 0.4], [0.6, 0.4]])
    guard.restart([0])
    guard.advise([[0.6, 0.4], [0.6, 0.4]], step=21)
    guard.observe([0, 1], [0, 0], step=21)
    assert guard.realised_regret.tolist() == [0.0, 1.0]
    assert guard.certificate.tv_bound == pytest.approx(2 / 20)


def test_an_unknown_horizon() -> None:
    rule = lr.ExactTest(MATCHING, None, delta=0.05)
    guard = lr.Guard(MATCHING, None, rule=rule, lag=3)
    for step in range(1, 200):
        guard.advise([0.9, 0.1])
        if step >= 3:
            guard.observe(1)
    assert guard.switched
    assert guard.regret <= guard.certificate.at(197).regret_bound < 1
    before = guard.certificate.at(1000).regret_bound
    guard.skip()
    assert guard.certificate.at(1000).regret_bound == pytest.approx(before + MATCHING.span / 1000)


def test_the_ordinary_guard_is_unchanged_by_a_lag_of_one() -> None:
    one, same = lr.Guard(MATCHING, 20), lr.Guard(MATCHING, 20, lag=1)
    for guard in (one, same):
        for state in (0, *[1] * 17):
            guard.advise([0.9, 0.1])
            guard.observe(state)
    assert one.switched
    assert one.events == same.events
    assert one.state_dict() == same.state_dict()
    assert one.state_dict()["waiting"] == []
