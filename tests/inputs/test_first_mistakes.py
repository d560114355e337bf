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


def advised():
    guard = lr.Guard(TRADE, horizon=3)
    guard.advise([0.5, 0.5])
    return guard


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: advised().observe("sideways"), "state must be one of the states 'down', 'up', got 'sideways'"),
        (
            lambda: advised().observe("up", "wide"),
            "action must be one of the actions 'short', 'flat', 'long', got 'wide'",
        ),
        (
            lambda: advised().observe(1),
            "states that have names are given by name, or as lowregret.problems.Positions(1)",
        ),
        (lambda: advised().observe(None), "got None: it is missing"),
        (
            lambda: advised().observe(np.bool_(True)),
            "a bool means states named True and False, and is not a number",
        ),
        (lambda: advised().observe(np.nan), "it is missing"),
        (lambda: advised().advise(0.7), "got shape (); for a chance p of state 1 give [1 - p, p]"),
        (
            lambda: advised().advise([[0.3, 0.7]]),
            "got (1, 2); predict_proba gives a row for each x: take row [0]",
        ),
        (
            lambda: lr.backtest(TRADE, np.full(4, 0.5), ["up", "down"] * 2),
            "got shape (4,); for a chance p of state 1 give",
        ),
        (lambda: lr.Guard(PAYOFFS, horizon=3), "got list: DecisionProblem.from_payoffs(matrix) makes one of payoffs"),
        (lambda: lr.ExactTest(TRADE, None), "needs an explicit delta, the chance of a false switch"),
        (lambda: lr.Guard(TRADE, contexts=3), "contexts need a horizon, for how many steps in all"),
        (lambda: lr.Guard(None), "horizon must be a whole number >= 1 for VRegret, got None"),
        (lambda: lr.Guard(TRADE, fallback=lr.PolyaUrn(2)), "or a temperature above 0 (temperature=horizon**-0.5"),
        (lambda: lr.Guard(TRADE, likelihood=True, temperature=0.1), "temperature=0 and Recovery() for a fallback"),
        (
            lambda: lr.Guard(TRADE, likelihood=True, fallback=lr.policies.AdaHedge(TRADE)),
            "and Recovery() for a fallback",
        ),
        (
            lambda: lr.robustify(LogisticRegression(), TRADE, horizon=3),
            "got LogisticRegression, a classifier of rows: GuardedClassifier(model, problem, horizon) guards it",
        ),
    ],
)
def test_the_refusal_says_what_to_do(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


def test_a_guard_takes_delta_for_the_rule_that_it_makes():
    acts = {"temperature": 0.0, "likelihood": True}
    assert lr.Guard(TRADE, 100, delta=0.01).rule == lr.ExactTest(TRADE, 100, 0.01, **acts)
    with pytest.raises(ValueError, match="only build the default rule"):
        lr.Guard(TRADE, 100, delta=0.01, rule=lr.ExactTest(TRADE, 100))


def test_a_guard_plays_what_people_play_unless_told_otherwise():
    """Best responses, one chance in twenty, no horizon, and a second bettor wherever there can be one."""
    assert lr.Guard(TRADE).rule == lr.ExactTest(TRADE, None, 0.05, temperature=0, likelihood=True)
    for settings, second in (
        ({"fallback": lr.Recovery(budget=1.0)}, True),
        ({"references": ["old"], "payoffs": "scaled"}, True),
        ({"horizon": 100, "contexts": 2}, True),
        ({"likelihood": False}, False),
        ({"temperature": 0.1}, False),
        ({"fallback": lr.policies.AdaHedge(TRADE)}, False),
        ({"references": ["old"], "fallback": lr.policies.Incumbent("old")}, False),
        ({"test": False}, False),
    ):
        rule = lr.Guard(TRADE, **settings).rule
        assert (rule.likelihood, rule.delta) == (second, 0.05)
        assert rule.temperature == settings.get("temperature", 0)
        assert rule.horizon == settings.get("horizon")
    number = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    assert lr.Guard(number).rule == lr.ExactTest(number, None, 0.05, temperature=0)
    with pytest.raises(ValueError, match="it needs a DecisionProblem"):
        lr.Guard(number, likelihood=True)
    assert lr.Guard(None, 100).rule.delta == 1 / 100
    own = lr.ExactTest(TRADE, 100)
    assert lr.Guard(TRADE, 100, rule=own).rule is own  # none of this counts as given
    for given in ({"delta": 0.05}, {"temperature": 0.0}, {"likelihood": False}):
        with pytest.raises(ValueError, match="only build the default rule"):
            lr.Guard(TRADE, 100, rule=own, **given)


@pytest.mark.parametrize(("horizon", "bound"), [(128, 0.3736), (1024, 0.1458), (10_000, 0.0515)])
def test_the_certificate_of_the_default(horizon, bound):
    assert lr.Guard(lr.matching(), horizon, delta=2 / horizon).certificate.regret_bound == pytest.approx(
        bound, rel=0.01
    )


def test_the_certificate_of_the_default_without_a_horizon():
    given = lr.Guard(lr.matching()).certificate
    assert [given.at(t).regret_bound for t in (1024, 10_000)] == pytest.approx([0.1467, 0.0502], rel=0.001)


def test_hints_are_given_only_where_they_fit():
    with pytest.raises(ValueError, match=r"got shape \(2,\)$"):  # three states: no chance of "state 1" to complete
        lr.Guard(lr.rock_paper_scissors(), horizon=3).advise([0.5, 0.5])
    with pytest.raises(ValueError, match=r"got \(2, 2\)$"):  # two rows: which one is not for us to say
        advised().advise([[0.3, 0.7], [0.3, 0.7]])


def test_a_trained_classifier_goes_in_frozen_as_the_refusal_says():
    X, y = np.linspace(-1, 1, 20)[:, None], np.repeat(["down", "up"], 10)
    trained = LogisticRegression().fit(X, y)
    with pytest.raises(NotFittedError, match=r"This GuardedClassifier .* sklearn\.frozen\.FrozenEstimator\(model\)"):
        lr.GuardedClassifier(trained, TRADE, horizon=9).predict_proba(X)
    ready = lr.GuardedClassifier(FrozenEstimator(trained), TRADE, horizon=9).fit(X[9:11], y[9:11])
    assert ready.predict_proba(X[:3]).tolist() == trained.predict_proba(X[:3]).tolist()
