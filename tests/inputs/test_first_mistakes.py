"""What one does wrong on the first day is refused with what to do instead."""

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import lowregret as lr

PAYOFFS = [[100, -100], [0, 0], [-100, 100]]
TRADE = lr.DecisionProblem.from_payoffs(PAYOFFS, actions=["short", "flat", "long"], states=["down", "up"])
EVEN = [0.5, 0.5]


def advised():
    guard = lr.Guard(TRADE)
    guard.advise(EVEN)
    return guard


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: advised().observe("sideways"), "state must be one of the states 'down', 'up', got 'sideways'"),
        (
            lambda: advised().observe("up", "wide"),
            "one of the actions 'short', 'flat', 'long', got 'wide'",
        ),
        (lambda: advised().observe(1), "given by name, or as lowregret.problems.Positions(1)"),
        (lambda: advised().observe(None), "got None: it is missing"),
        (lambda: advised().observe(np.bool_(True)), "a bool means states named True and False, and is not a number"),
        (lambda: advised().observe(np.nan), "it is missing"),
        (lambda: lr.Guard(TRADE).observe("up"), "advise(forecast) must come before this"),
        (lambda: advised().advise(0.7), "got shape (); for a chance p of state 1 give [1 - p, p]"),
        (lambda: advised().advise([[0.3, 0.7]]), "got (1, 2); predict_proba gives a row for each x: take row [0]"),
        (lambda: advised().advise(EVEN, context=1), "context was not declared: Guard(problem, against=Actions(per=..."),
        (lambda: advised().advise(EVEN, references={"desk": EVEN}), "Guard(problem, against=Actions() + References("),
        (lambda: advised().advise(EVEN, payoffs=PAYOFFS), "Guard(problem.changing(low, high))"),
        (lambda: lr.backtest(TRADE, np.full(4, 0.5), ["up", "down"] * 2), "got shape (4,); for a chance p of state 1"),
        (lambda: lr.Guard(PAYOFFS), "got list: DecisionProblem.from_payoffs(matrix) makes one of payoffs"),
        (lambda: lr.Guard(TRADE, against=lr.Actions(per=3)), "contexts need a horizon, ExactTest(horizon=...)"),
        (lambda: lr.Guard(TRADE, fallback=lr.PolyaUrn(2)), "take response=QuantalResponse(), Recovery(), or a policy"),
        (lambda: lr.Guard(TRADE, fallback=lr.UseReference("desk")), "against=Actions() + References('desk')"),
        (
            lambda: lr.robustify(LogisticRegression(), TRADE, horizon=3),
            "got LogisticRegression, a classifier of rows: GuardedClassifier(model, Guard(problem)) guards it",
        ),
    ],
)
def test_the_refusal_says_what_to_do(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


def test_hints_are_given_only_where_they_fit():
    with pytest.raises(ValueError, match=r"got shape \(2,\)$"):  # three states: no chance of "state 1" to complete
        lr.Guard(lr.rock_paper_scissors()).advise(EVEN)
    with pytest.raises(ValueError, match=r"got \(2, 2\)$"):  # two rows: which one is not for us to say
        advised().advise([[0.3, 0.7], [0.3, 0.7]])


@pytest.mark.parametrize(
    ("settings", "second"),
    [
        ({}, True),
        ({"test": lr.ExactTest(delta=0.01)}, True),  # changes nothing else
        ({"fallback": lr.Recovery(budget=1.0)}, True),
        ({"against": lr.Actions() + lr.References("old")}, True),
        ({"against": lr.Actions(per=2), "test": lr.ExactTest(horizon=100)}, True),
        ({"response": lr.QuantalResponse(0.1)}, False),
        ({"fallback": lr.policies.AdaHedge(TRADE)}, False),
        ({"against": lr.References("old"), "fallback": lr.UseReference("old")}, False),
        ({"test": lr.NoTest()}, False),
    ],
)
def test_the_second_bettor_runs_wherever_there_can_be_one(settings, second):
    assert lr.Guard(TRADE, **settings).setting.has_second_bettor == second


@pytest.mark.parametrize(("horizon", "bound"), [(128, 0.3736), (1024, 0.1458), (10_000, 0.0515)])
def test_the_certificate_of_the_default(horizon, bound):
    given = lr.Guard(lr.matching(), test=lr.ExactTest(delta=2 / horizon, horizon=horizon)).certificate
    assert given.regret_bound == pytest.approx(bound, rel=0.01)


def test_the_certificate_of_the_default_without_a_horizon():
    given = lr.Guard(lr.matching()).certificate
    assert [given.at(t).regret_bound for t in (1024, 10_000)] == pytest.approx([0.1467, 0.0502], rel=0.001)


def test_a_trained_classifier_goes_in_frozen_as_the_refusal_says():
    X, y = np.linspace(-1, 1, 20)[:, None], np.repeat(["down", "up"], 10)
    trained = LogisticRegression().fit(X, y)
    with pytest.raises(NotFittedError, match=r"This GuardedClassifier .* sklearn\.frozen\.FrozenEstimator\(model\)"):
        lr.GuardedClassifier(trained, lr.Guard(TRADE)).predict_proba(X)
    ready = lr.GuardedClassifier(FrozenEstimator(trained), lr.Guard(TRADE)).fit(X[9:11], y[9:11])
    assert ready.predict_proba(X[:3]).tolist() == trained.predict_proba(X[:3]).tolist()
