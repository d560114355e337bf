"""Predictors, rules, problems and horizons that do not belong together are refused, and it is said what differs."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from .bad_inputs import EVEN, GAME, HORIZON, RULES

URN = lr.PolyaUrn(3)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_predictors_of_another_alphabet(n: int) -> None:
    strangers: list[lr.Predictor] = [
        lr.PolyaUrn(n),
        lr.predictors.Scheduled(np.eye(n)),
        lr.Markov(np.eye(n), 1),
        lr.FromFunction(lambda history: EVEN, n),
        lr.robustify(lr.PolyaUrn(n), lr.matching(n), HORIZON),
    ]
    for stranger in strangers:
        for call in (
            lambda p: lr.policies.Respond(p, GAME, 0.1),
            lambda p: lr.robust.Robust(p, RULES["ExactTest"]),
            lambda p: lr.robustify(p, GAME, HORIZON),
            lambda p: lr.robustify(URN, GAME, HORIZON, fallback=p),
            lambda p: lr.Guard(GAME, response=lr.QuantalResponse(0.1), fallback=p),
            lambda p: lr.rules.RegretGap(GAME, HORIZON, fallback=p),
            lambda p: lr.rules.ExactTest(GAME, HORIZON, fallback=p),
        ):
            with pytest.raises(ValueError, match=f"predictor .*same states: .* predicts {n} states, .* has 3"):
                call(stranger)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_bring_their_horizon_and_all_else(rule: lr.rules.Rule) -> None:
    lr.robustify(URN, GAME, rule.horizon, rule=rule)
    for more in ({"fallback": URN}, {"temperature": 0.1}):
        with pytest.raises(ValueError, match="default rule"):
            lr.robustify(URN, GAME, rule.horizon, rule=rule, **more)
    with pytest.raises(ValueError, match=f"another horizon: {rule.horizon} against 5"):
        lr.robustify(URN, GAME, 5, rule=rule)


def test_an_error_about_another_problem_says_what_differs() -> None:
    coin, urn = lr.matching(), lr.PolyaUrn(2)
    named = lr.DecisionProblem(coin.utility, states=["x", "y"])
    priced = lr.DecisionProblem.from_payoffs([[3.0, 1.0], [1.0, 3.0]])
    for other, words in {
        named: r"states are named \('0', '1'\) against \('x', 'y'\)",
        lr.DecisionProblem([[1, 0], [0, 0.5]]): r"utility\[1, 1\] is 1 against 0.5",
        lr.matching(3): "2 actions x 2 states.*against.*3 actions",
    }.items():
        for call in (
            lambda p=other: lr.robustify(lr.PolyaUrn(p.n_states), p, 9, rule=lr.rules.ExactTest(coin, 9)),
            lambda p=other: lr.AverageRestart(lr.PolyaUrn(p.n_states), p, 0, 5, 9, rule=lr.rules.ExactTest(coin, 5)),
            lambda p=other: lr.Guard(p, fallback=lr.policies.AdaHedge(coin)),
        ):
            with pytest.raises(ValueError, match=f"another problem: .*{words}"):
                call()
    scaled = lr.DecisionProblem.from_payoffs([[1.0, -1.0], [-1.0, 1.0]])
    with pytest.raises(ValueError, match=r"payoffs are 1 x utility \+ 0 against 1 x utility \+ 2"):
        lr.external_regret(priced, lr.policies.Hedge(scaled, 9), [0, 1])
    with pytest.raises(ValueError, match=r"predictors\['h'\] acts in another problem: .*named"):
        lr.compare({"h": lr.policies.Hedge(named, 9)}, {"u": urn}, coin, 3, 2, 0)


NO_PROBLEM, NO_PREDICTOR = [None, np.eye(3), "matching"], [None, "model", [0.5, 0.5]]


@pytest.mark.parametrize(
    ("call", "values", "says"),
    [
        (lambda p: lr.policies.Respond(URN, p, 0.1), NO_PROBLEM, "problem must be a DecisionProblem, got {}"),
        (lambda p: lr.rules.RegretGap(p, HORIZON), NO_PROBLEM, "problem must be a DecisionProblem, got {}"),
        (lambda p: lr.robustify(URN, p, HORIZON), NO_PROBLEM[1:], "problem must be a DecisionProblem, got {}"),
        (lr.Guard, NO_PROBLEM, "problem must be a DecisionProblem, got {}"),
        (lambda p: lr.robust.Robust(p, RULES["ExactTest"]), NO_PREDICTOR, "predictor must be a Predictor, got {}"),
        (lambda p: lr.policies.Respond(p, GAME, 0.1), NO_PREDICTOR, "predictor must be a Predictor, got {}"),
        (lambda p: lr.FromFunction(p, 3), NO_PREDICTOR, "fn must be a function of the history"),
        (lambda r: lr.robustify(URN, GAME, HORIZON, rule=r), ["word", lr.rules.ExactTest, URN], "rule must be a Rule"),
        (lambda p: lr.external_regret(GAME, p, [0, 1]), [URN], "policy must act and PolyaUrn only predicts"),
        (lambda g: lr.external_regret(GAME, g, [0, 1]), [lr.Guard(GAME)], "read guard.regret"),
        (lambda p: lr.external_regret(p, [0, 1, 2], [0, 1, 2]), NO_PROBLEM, "problem"),
        (lambda p: lr.policies.Hedge(p, 3), NO_PROBLEM, "problem"),
        (lambda c: lr.Guard(GAME, against=c), [None, "desk", lr.Actions], "against must be "),
        (lambda t: lr.Guard(GAME, test=t), [None, False, 0.05, lr.ExactTest], "test must be "),
        (lambda f: lr.Guard(GAME, fallback=f), ["desk", lr.Recovery, 0.5], "fallback must be "),
        (lambda r: lr.Guard(GAME, response=r), [None, 0.1, lr.BestResponse], "response must be "),
    ],
)
def test_what_is_of_another_kind(call: Callable[[Any], Any], values: list[Any], says: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=re.escape(says.format(type(value).__name__))):
            call(value)


@pytest.mark.parametrize("shape", [(2,), (1, 4), (4, 1)])
def test_near_must_fit_the_policy(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="near must"):
        GAME.invert_quantal_response([[0.5, 0.5]] * 3, 0.1, near=np.full((*shape, 3), 1 / 3))


def test_an_unknown_horizon_needs_a_delta() -> None:
    for make in (lambda: lr.rules.ExactTest(GAME, None), lambda: lr.robustify(URN, GAME, None)):
        with pytest.raises(ValueError, match=r"horizon=None .* needs an explicit delta, the chance of a false switch"):
            make()
    with pytest.raises(ValueError, match="delta goes with horizon=None"):
        lr.rules.RegretGap(GAME, HORIZON, delta=0.1)


@pytest.mark.parametrize("rule", list(RULES.values())[:3], ids=list(RULES)[:3])
def test_past_the_horizon_of_a_rule(rule: lr.rules.Rule) -> None:
    safe, tokens = lr.robust.Robust(URN, rule), np.arange(HORIZON + 2) % 3
    longer = f"longer than the rule's horizon: {HORIZON + 2} steps"
    for call in (safe.trip_times, safe.predict_sequence, lambda s: rule.trip_times([EVEN] * len(s), s)):
        with pytest.raises(ValueError, match=longer):
            call(tokens)
    watched, memory, stream = rule.start(), safe.start(), lr.predictors.Stream(safe)
    for token in tokens[:HORIZON]:
        stream.update(token)
        watched, memory = rule.update(watched, EVEN, token), safe.update(memory, token)
    before = stream.state_dict()
    for call in (stream.update, lambda s: rule.update(watched, EVEN, s), lambda s: safe.update(memory, s)):
        with pytest.raises(ValueError, match=rf"horizon of {HORIZON} steps is over.*horizon=None"):
            call(0)
    assert stream.state_dict() == before
    with pytest.raises(ValueError, match=f"step must be at most the horizon {HORIZON}"):
        lr.rules.RegretGap(GAME, HORIZON).certificate.at(HORIZON + 1)
