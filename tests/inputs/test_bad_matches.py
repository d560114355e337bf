"""Predictors, rules, problems and horizons that do not belong together are refused by name."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import many, some
from .bad_inputs import EVEN, GAME, HORIZON, OTHER_GAME, RULES, Bad, refused


@given(n=st.integers(1, 6).filter(lambda n: n != 3), data=st.data())
@many
def test_predictors_of_another_alphabet(n: int, data: st.DataObject) -> None:
    stranger: lr.Predictor = data.draw(
        st.sampled_from(
            [
                lr.PolyaUrn(n),
                lr.predictors.Scheduled(np.eye(n)),
                lr.Markov(np.eye(n), 1),
                lr.FromFunction(lambda history: EVEN, n),
                lr.robustify(lr.PolyaUrn(n), lr.matching(n), HORIZON),
            ]
        )
    )
    call = data.draw(
        st.sampled_from(
            [
                lambda p: lr.policies.Respond(p, GAME, 0.1),
                lambda p: lr.robust.Robust(p, RULES["ExactTest"]),
                lambda p: lr.robustify(p, GAME, HORIZON),
                lambda p: lr.robustify(lr.PolyaUrn(3), GAME, HORIZON, fallback=p),
                lambda p: lr.Guard(GAME, HORIZON, temperature=0.1, fallback=p),
                lambda p: lr.rules.RegretGap(GAME, HORIZON, fallback=p),
                lambda p: lr.rules.RegretRate(GAME, HORIZON, fallback=p),
                lambda p: lr.ExactTest(GAME, HORIZON, fallback=p),
            ]
        )
    )
    refused(call, "predictor", Bad(stranger, ("same states", f"predicts {n} states", "has 3")))


def by_rule(predictor: lr.Predictor) -> list[Callable[..., Any]]:
    return [lambda *a, **k: lr.robustify(predictor, *a, **k), lr.Guard]


@given(
    rule=st.sampled_from(list(RULES.values())),
    given_=st.fixed_dictionaries(
        {}, optional={"fallback": st.just(lr.PolyaUrn(3)), "temperature": st.floats(0.01, 1.0)}
    ).filter(bool),
)
@some
def test_a_rule_brings_its_own_fallback_and_temperature(rule: lr.rules.Rule, given_: dict[str, Any]) -> None:
    for make in by_rule(lr.PolyaUrn(3)):
        with pytest.raises(ValueError, match="default rule"):
            make(GAME, rule.horizon, rule=rule, **given_)


@given(horizon=st.integers(1, 99) | st.none(), rule=st.sampled_from(list(RULES.values())))
@many
def test_rules_for_another_horizon(horizon: int | None, rule: lr.rules.Rule) -> None:
    for make in by_rule(lr.PolyaUrn(3)):
        if horizon == rule.horizon:
            make(GAME, horizon, rule=rule)
        else:
            with pytest.raises(ValueError, match=f"another horizon: {rule.horizon} against {horizon}"):
                make(GAME, horizon, rule=rule)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_for_another_problem(rule: lr.rules.Rule) -> None:
    for make in by_rule(lr.PolyaUrn(3)):
        for problem in (OTHER_GAME, lr.matching(3), lr.matching(2), None):
            with pytest.raises(ValueError, match="rule was made for another problem"):
                make(problem, rule.horizon, rule=rule)


@pytest.mark.parametrize("rule", ["ExactTest", lr.ExactTest, 0.5, lr.PolyaUrn(3)], ids=repr)
def test_rules_that_are_none(rule: Any) -> None:
    for make in (*by_rule(lr.PolyaUrn(3)), lambda problem, horizon, rule: lr.robust.Robust(lr.PolyaUrn(3), rule)):
        with pytest.raises(ValueError, match=f"rule must be a Rule such as ExactTest, got {type(rule).__name__}"):
            make(GAME, HORIZON, rule=rule)


@pytest.mark.parametrize("problem", [None, np.eye(3), "matching"], ids=["None", "matrix", "word"])
def test_problems_that_are_none(problem: Any) -> None:
    unknown = (lambda p: lr.Guard(p, HORIZON), lambda p: lr.robustify(lr.PolyaUrn(3), p, HORIZON))
    for make in (
        *(() if problem is None else unknown),  # None is a problem nobody knows, with two states: VRegret
        lambda p: lr.policies.Respond(lr.PolyaUrn(3), p, 0.1),
        lambda p: lr.rules.RegretGap(p, HORIZON),
        lambda p: lr.rules.RegretRate(p, HORIZON),
    ):
        with pytest.raises(ValueError, match=f"problem must be a DecisionProblem, got {type(problem).__name__}"):
            make(problem)


@pytest.mark.parametrize("predictor", [None, "model", [0.5, 0.5]], ids=repr)
def test_predictors_that_are_none(predictor: Any) -> None:
    for make in (
        lambda p: lr.robust.Robust(p, RULES["ExactTest"]),
        lambda p: lr.robustify(p, GAME, HORIZON),
        lambda p: lr.policies.Respond(p, GAME, 0.1),
    ):
        with pytest.raises(
            ValueError, match=f"predictor must be a Predictor, got {type(predictor).__name__}: wrap a function"
        ):
            make(predictor)
    with pytest.raises(ValueError, match="fn must be a function of the history"):
        lr.FromFunction(predictor, 3)


def test_a_predictor_is_no_policy() -> None:
    with pytest.raises(ValueError, match="policy must act and PolyaUrn only predicts"):
        lr.external_regret(GAME, lr.PolyaUrn(3), [0, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: lr.external_regret(GAME, lr.policies.Hedge(OTHER_GAME, 3), [0, 1, 2]),
        lambda: lr.external_regret(GAME, lr.policies.Hedge(lr.matching(3), 3), [0, 1, 2]),
        lambda: lr.external_regret(np.eye(3), [0, 1, 2], [0, 1, 2]),
        lambda: lr.policies.Hedge(np.eye(3), 3),
    ],
    ids=["another policy", "other actions", "matrix", "Hedge"],
)
def test_regret_and_hedge_look_at_their_problem(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="problem"):
        call()


@pytest.mark.parametrize("shape", [(2,), (1, 4), (4, 1)])
def test_near_must_fit_the_policy(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="near must"):
        GAME.invert_quantal_response([[0.5, 0.5]] * 3, 0.1, near=np.full((*shape, 3), 1 / 3))


def test_an_unknown_horizon_needs_a_delta() -> None:
    for make in (
        lambda: lr.ExactTest(GAME, None),
        lambda: lr.rules.RegretGap(GAME, None),
        lambda: lr.robustify(lr.PolyaUrn(3), GAME, None),
    ):
        with pytest.raises(ValueError, match=r"horizon=None .* needs an explicit delta"):
            make()
    with pytest.raises(ValueError, match="delta goes with horizon=None"):
        lr.rules.RegretGap(GAME, HORIZON, delta=0.1)


@given(horizon=st.integers(1, 8), extra=st.integers(1, 5), kind=st.sampled_from(["gap", "rate", "exact"]))
@many
def test_past_the_horizon(horizon: int, extra: int, kind: str) -> None:
    rule = {"gap": lr.rules.RegretGap, "rate": lr.rules.RegretRate, "exact": lr.ExactTest}[kind](GAME, horizon)
    safe, guard = lr.robust.Robust(lr.PolyaUrn(3), rule), lr.Guard(GAME, horizon, rule=rule)
    tokens = np.arange(horizon + extra) % 3
    with pytest.raises(ValueError, match=f"longer than the rule's horizon: {horizon + extra} steps"):
        rule.trip_times([EVEN] * len(tokens), tokens)
    for call in (safe.trip_times, safe.predict_sequence):
        with pytest.raises(ValueError, match=f"longer than the rule's horizon: {horizon + extra} steps"):
            call(tokens)
    watched, memory, stream = rule.start(), safe.start(), lr.predictors.Stream(safe)
    for token in tokens[:horizon]:
        guard.advise(EVEN)
        guard.observe(token)
        stream.update(token)
        watched, memory = rule.update(watched, EVEN, token), safe.update(memory, token)
    before = copy.deepcopy((guard.state_dict(), stream.state_dict()))
    over_ = rf"horizon of {horizon} steps is over.*restart\(\).*horizon=None"
    for call in (
        lambda: guard.advise(EVEN),
        lambda: stream.update(0),
        lambda: rule.update(watched, EVEN, 0),
        lambda: safe.update(memory, 0),
    ):
        with pytest.raises(ValueError, match=over_):
            call()
    assert (guard.state_dict(), stream.state_dict()) == before
    with pytest.raises(ValueError, match=f"step must be at most the horizon {horizon}"):
        lr.rules.RegretGap(GAME, horizon).certificate.at(horizon + extra)
