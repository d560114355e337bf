"""A guard for several named problems: beside its rule and the urn, against each certificate, saved and resumed."""

import json
from typing import Any

import numpy as np
import pytest

import lowregret as lr

PROTECT = lr.cost_loss(cost=1, loss=4)
PROBLEMS = {
    "protect": PROTECT,
    "walk": lr.DecisionProblem.from_payoffs([[3, -2], [1, 1], [0, 2]], actions=["walk", "bus", "stay"]),
}
T = 120
FAIR = np.random.default_rng(5).random(T) < 0.5
LAWS = np.where(FAIR[:, None], [0.9, 0.1], [0.7, 0.3])  # calm, event
CAME = np.where(np.arange(T) < 30, np.random.default_rng(6).random(T) < 0.2, 1).astype(int)


def run(guard: lr.Guard, begin: int = 0, end: int = T) -> list[dict[str, np.ndarray]]:
    played = []
    for t in range(begin, end):
        played.append(guard.advise(LAWS[t]).policies)
        guard.observe("event" if CAME[t] else "calm")
    return played


@pytest.mark.parametrize("settings", [{"horizon": T}, {}, {"horizon": T, "temperature": 0.1}], ids=str)
def test_it_plays_the_response_until_the_alarm_and_the_urn_after_it(settings: dict[str, Any]) -> None:
    guard = lr.Guard(problems=PROBLEMS, fallback=lr.PolyaUrn(2), **settings)
    played = run(guard)
    (event,) = guard.events
    rule: Any = guard.rule
    assert event.step == rule.trip_times(LAWS[None], CAME[None])[0]
    assert 30 < event.step < 60
    assert event.whom in ("action protect of protect", "action stay of walk", "action bus of walk")
    assert "would have earned more since about step" in str(event)
    urn, lead = lr.PolyaUrn(2).predict_sequence(CAME), {name: 0.0 for name in PROBLEMS}
    for t, policies in enumerate(played):
        for name, problem in PROBLEMS.items():
            law = LAWS[t] if t < event.step else urn[t]
            eta = settings.get("temperature", 0.0 if t < event.step else T**-0.5 if settings else None)
            eta = eta and eta * problem.span
            if eta == 0:
                want = np.eye(problem.n_actions)[problem.best_response(law)]
            else:
                want = problem.quantal_response(law, eta or float(problem.anytime_temperature(t + 1)))
            np.testing.assert_allclose(policies[name], want, atol=1e-12)
            lead[name] = lead[name] + problem.utility[:, CAME[t]] - want @ problem.utility[:, CAME[t]]
    for name, problem in PROBLEMS.items():
        assert guard.regrets[name] == pytest.approx(np.max(lead[name]) / T)
        given = guard.certificate.at(T).for_problem(name)  # type: ignore[attr-defined]
        assert guard.regrets[name] <= given.regret_bound <= problem.span
        assert given.tv_bound == guard.certificate.tv_bound == 0.05
    assert guard.regret == max(guard.regrets.values())


@pytest.mark.parametrize("half", [20, 100])
def test_saved_and_resumed_it_goes_on_as_if_nothing_had_been(half: int) -> None:
    whole, first, second = (lr.Guard(problems=PROBLEMS, horizon=T) for _ in range(3))
    want = run(whole)
    run(first, 0, half)
    first.advise(LAWS[half])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.observe("event" if CAME[half] else "calm")
    got = run(second, half + 1)
    for one, other in zip(want[half + 1 :], got, strict=True):
        for name in PROBLEMS:
            np.testing.assert_array_equal(one[name], other[name])
    assert second.events == whole.events
    assert second.regrets == whole.regrets
    other = lr.Guard(problems={**PROBLEMS, "walk": lr.matching()}, horizon=T)
    with pytest.raises(ValueError, match=r"differs in: .*problems"):
        other.load_state_dict(first.state_dict())


def test_streams_side_by_side_and_an_outcome_that_never_comes() -> None:
    several, alone = lr.Guard(problems=PROBLEMS, horizon=T, batch_shape=(2,)), lr.Guard(problems=PROBLEMS, horizon=T)
    played = run(alone)
    for t in range(T):
        advice = several.advise(np.stack([LAWS[t], [0.99, 0.01]]))
        for name in PROBLEMS:
            np.testing.assert_allclose(advice.policies[name][0], played[t][name], atol=1e-12)
        several.observe(np.array(["calm", "event"])[[CAME[t], 0]])
    assert [event.stream for event in several.events] == [0]
    np.testing.assert_allclose(several.regrets["walk"][0], alone.regrets["walk"], atol=1e-12)
    guard = lr.Guard(problems=PROBLEMS, horizon=T)
    before: Any = guard.certificate
    guard.advise({"calm": 0.9, "event": 0.1})
    guard.skip()
    after: Any = guard.certificate
    for name, problem in PROBLEMS.items():
        more = after.for_problem(name).regret_bound - before.for_problem(name).regret_bound
        assert more == pytest.approx(problem.span / T)


def test_episodes_add_up() -> None:
    guard = lr.Guard(problems=PROBLEMS, horizon=T, episode=T // 2)
    run(guard)
    assert guard.episodes == 2
    assert guard.certificate.tv_bound == pytest.approx(0.05)
    with pytest.raises(ValueError, match="for_problem speaks of one episode"):
        guard.certificate.for_problem("walk")  # type: ignore[attr-defined]


def test_what_does_not_go_with_several_problems_is_refused_by_name() -> None:
    for more in (
        {"problem": PROTECT},
        {"references": ["today"]},
        {"contexts": 2},
        {"payoffs": "scaled"},
        {"internal": True},
        {"likelihood": True},
        {"test": False},
        {"false_alarm_every": 1000},
        {"rule": lr.ExactTest(PROTECT, T)},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(more))} does not go with problems"):
            lr.Guard(problems=PROBLEMS, horizon=T, **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lag must be 1"):
        lr.Guard(problems=PROBLEMS, horizon=T, lag=2)
    with pytest.raises(ValueError, match="fallback must be a Recovery or a PolyaUrn"):
        lr.Guard(problems=PROBLEMS, horizon=T, fallback=lr.policies.AdaHedge(PROTECT))
    guard = lr.Guard(problems=PROBLEMS, horizon=T)
    advice = guard.advise([0.9, 0.1])
    for ask in (lambda: advice.policy, guard.policy):
        with pytest.raises(ValueError, match=r"this guard is for protect, walk: .*advise\(probs\).policies"):
            ask()
    one = lr.Guard(PROTECT, T)
    with pytest.raises(ValueError, match="policies needs a guard for several problems"):
        _ = one.advise([0.9, 0.1]).policies
    with pytest.raises(ValueError, match="regrets needs a guard for several problems"):
        _ = one.regrets
    assert advice.actions == {"protect": 0, "walk": 0}
    assert "protect, walk" in repr(guard)
