"""Predictors, tests, problems and horizons that do not belong together are refused, and it is said what differs."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from .bad_inputs import EVEN, GAME, HORIZON, TESTS

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
            lambda p: lr.robustify(p, GAME, HORIZON),
            lambda p: lr.robustify(URN, GAME, HORIZON, fallback=p),
            lambda p: lr.Guard(GAME, response=lr.QuantalResponse(0.1), fallback=p),
            lambda p: lr.robustify(URN, GAME, test=TESTS["RegretGap"], fallback=p),
        ):
            with pytest.raises(ValueError, match=f"predictor .*same states: .* predicts {n} states, .* has 3"):
                call(stranger)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_tests_bring_their_horizon(test: Any) -> None:
    assert lr.robustify(URN, GAME, test=test).horizon == test.horizon
    with pytest.raises(ValueError, match=r"takes a horizon, or a test .*, and not both"):
        lr.robustify(URN, GAME, HORIZON, test=test)


def test_an_error_about_another_problem_says_what_differs() -> None:
    coin, urn = lr.matching(), lr.PolyaUrn(2)
    named = lr.DecisionProblem(coin.utility, states=["x", "y"])
    priced = lr.DecisionProblem.from_payoffs([[3.0, 1.0], [1.0, 3.0]])
    for other, words in {
        named: r"states are named \('0', '1'\) against \('x', 'y'\)",
        lr.DecisionProblem([[1, 0], [0, 0.5]]): r"utility\[1, 1\] is 1 against 0.5",
        lr.matching(3): "2 actions x 2 states.*against.*3 actions",
    }.items():
        with pytest.raises(ValueError, match=f"another problem: .*{words}"):
            lr.Guard(other, fallback=lr.policies.AdaHedge(coin))
    with pytest.raises(ValueError, match=r"another problem: .*states are named"):
        lr.robustify(urn, named, 9, fallback=lr.Recovery(safe=lr.predictors.ShrunkUrn(coin, 9)))
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
        (lambda p: lr.robustify(URN, p, HORIZON), NO_PROBLEM[1:], "problem must be a DecisionProblem, got {}"),
        (lr.Guard, NO_PROBLEM, "problem must be a DecisionProblem, got {}"),
        (lambda p: lr.robustify(p, GAME, HORIZON), NO_PREDICTOR, "predictor must be a Predictor, got {}"),
        (lambda p: lr.policies.Respond(p, GAME, 0.1), NO_PREDICTOR, "predictor must be a Predictor, got {}"),
        (lambda p: lr.FromFunction(p, 3), NO_PREDICTOR, "fn must be a function of the history"),
        (lambda t: lr.robustify(URN, GAME, test=t), ["word", lr.ExactTest, URN], "test must be "),
        (lambda r: lr.robustify(URN, GAME, HORIZON, response=r), [None, 0.1, lr.BestResponse()], "response must be "),
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
    with pytest.raises(ValueError, match=r"horizon=None .* needs delta, the chance of a false alarm"):
        lr.RegretGap(None)
    with pytest.raises(ValueError, match=r"takes a horizon, or a test such as ExactTest\(delta, horizon\)"):
        lr.robustify(URN, GAME, None)
    with pytest.raises(ValueError, match="delta goes with horizon=None"):
        lr.RegretGap(HORIZON, delta=0.1)


@pytest.mark.parametrize("test", list(TESTS.values())[:3], ids=list(TESTS)[:3])
def test_past_the_horizon_of_a_test(test: Any) -> None:
    safe, tokens = lr.robustify(URN, GAME, test=test), np.arange(HORIZON + 2) % 3
    for call in (safe.alarm_times, safe.predict_sequence):
        with pytest.raises(ValueError, match=f"longer than the horizon: {HORIZON + 2} steps"):
            call(tokens)
    memory, stream = safe.start(), lr.predictors.Stream(safe)
    for token in tokens[:HORIZON]:
        stream.update(token)
        memory = safe.update(memory, token)
    before = stream.state_dict()
    for call in (stream.update, lambda s: safe.update(memory, s)):
        with pytest.raises(ValueError, match=rf"horizon of {HORIZON} steps is over.*horizon=None"):
            call(0)
    assert stream.state_dict() == before
    with pytest.raises(ValueError, match=f"step must be at most the horizon {HORIZON}"):
        lr.robustify(URN, GAME, test=TESTS["RegretGap"]).certificate.at(HORIZON + 1)
