"""What wrapped classifiers predict by themselves is what is judged: against a guard that is told so by hand."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.adapters.labels import labels_played, own_plays
from lowregret.problems import Positions

pytestmark = pytest.mark.needs("sklearn", "river")

FRAUD = lr.DecisionProblem.from_payoffs([[0, -30], [-70, 0]], actions=["no", "yes"], states=["no", "yes"])


def payments(n: int = 260, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(1.0 - 2 * X[:, 0])), "yes", "no")


def threshold(at: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import FixedThresholdClassifier

    return FixedThresholdClassifier(LogisticRegression(), threshold=at, pos_label="yes")


@pytest.mark.parametrize("problem", [None, FRAUD], ids=["guess", "costs"])
@pytest.mark.parametrize("lag", [1, 3])
def test_a_threshold_is_what_is_judged(problem: lr.DecisionProblem | None, lag: int) -> None:
    """Bit for bit a guard that is told the label where it is not the likeliest, else the best response."""
    X, y = payments()
    model = lr.GuardedClassifier(threshold(0.3), problem, horizon=160, temperature=0, lag=lag)
    model.fit(X[:100], y[:100])
    stakes = model.problem_
    guard = lr.Guard(stakes, 160, temperature=0, lag=lag)
    inner, own, others = model.estimator_, 0, 0
    for t in range(100, 260):
        row = X[t : t + 1]
        law, says = inner.predict_proba(row)[0], str(inner.predict(row)[0])
        likeliest = inner.classes_[law.argmax()]
        best = stakes.actions[int(stakes.best_response(law))]
        plays = best if says == likeliest else says
        own += plays != best
        others += says == likeliest and says != best
        advice = guard.advise(law, plays=plays)
        ids = {} if lag == 1 else {"id": t}
        np.testing.assert_array_equal(model.policy(row, **ids)[0], advice.policy)
        if not guard.switched:
            assert advice.policy[stakes.actions.index(plays)] == 1
            predicted = model.predict(row, **ids)[0]
            assert predicted == (says if plays != best else likeliest)
        if lag == 1:
            guard.observe(y[t])
            model.observe(row, y[t : t + 1])
        elif t - 100 >= lag - 1:
            guard.observe(y[t - lag + 1])
            model.observe(y[t - lag + 1 : t - lag + 2], id=t - lag + 1)
    assert own > 5
    assert (others > 5) == (problem is not None)  # likeliest, and yet another is best: left to what is at stake
    assert model.guard_.evidence[0] == guard.evidence[0]
    assert model.certificate_ == guard.certificate
    assert model.certificate_.terms["worth less by what was stated"] > 0


def test_a_walk_forward_plays_the_threshold() -> None:
    X, y = payments()
    model = lr.GuardedClassifier(threshold(0.3), temperature=0)
    found = model.walk_forward(X, y, train=100)
    says = model.estimator_.predict(X[100:])
    untouched = ~found.used_fallback
    assert untouched.all()
    assert (np.array(model.problem_.actions)[found.policy_NxA.argmax(axis=1)] == says).all()
    assert (says != model.classes_[found.model_probs_NxS.argmax(axis=1)]).sum() > 5
    assert "plays" not in found.told
    lr.backtest(found.problem, found.model_probs_NxS, Positions(found.states), **found.told)


def test_a_threshold_that_has_gone_wrong_is_left_where_the_law_is_right() -> None:
    """The probabilities are right and the threshold is turned round: only who looks at what is played can tell."""
    X, y = payments(900)
    model = lr.GuardedClassifier(threshold(0.98), horizon=800, temperature=0)  # says no whatever comes
    found = model.fit(X[:100], y[:100])
    for t in range(100, 900):
        found.policy(X[t : t + 1])
        found.observe(X[t : t + 1], y[t : t + 1])
    gap = found.certificate_.terms["worth less by what was stated"]
    assert gap > 0.05  # it declared itself how much worse it plays than it knows
    assert found.certificate_.regret_bound > gap


def test_who_says_the_likeliest_label_is_played_as_ever() -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = payments()
    for temperature in (0, None):
        model = lr.GuardedClassifier(LogisticRegression(), FRAUD, horizon=160, temperature=temperature)
        model.fit(X[:100], y[:100])
        guard = lr.Guard(FRAUD, 160, temperature=temperature)
        for t in range(100, 260):
            law = model.estimator_.predict_proba(X[t : t + 1])[0]
            np.testing.assert_array_equal(model.policy(X[t : t + 1])[0], guard.advise(law).policy)
            assert model.predict(X[t : t + 1])[0] == model.classes_[law.argmax()]
            guard.observe(y[t])
            model.observe(X[t : t + 1], y[t : t + 1])
        assert model.guard_.evidence[0] == guard.evidence[0]
        assert model.certificate_ == guard.certificate


def test_river_s_own_decisions_are_judged() -> None:
    from river import base, linear_model

    class Cautious(base.Classifier):
        """A logistic regression that says storm from a third on."""

        def __init__(self) -> None:
            self.inner = linear_model.LogisticRegression()

        def learn_one(self, x: dict, y: bool) -> None:
            self.inner.learn_one(x, y)

        def predict_proba_one(self, x: dict) -> dict:
            return self.inner.predict_proba_one(x)

        def predict_one(self, x: dict) -> bool:
            return self.predict_proba_one(x)[True] > 1 / 3

    rng, own = np.random.default_rng(3), 0
    model = lr.adapters.GuardedRiverClassifier(Cautious(), horizon=200, classes=[False, True], temperature=0, floor=0.0)
    guard = lr.Guard(model.guard.problem, 200, temperature=0)
    for _ in range(200):
        x = {"wind": float(rng.normal())}
        came = bool(rng.random() < 1 / (1 + np.exp(1 - 2 * x["wind"])))
        chance, says = model.model.predict_proba_one(x)[True], model.model.predict_one(x)
        own += says != (chance > 0.5)
        advice = guard.advise([1 - chance, chance], plays=int(says))
        assert list(model.policy_one(x).values()) == advice.policy.tolist()
        assert guard.switched or model.predict_one(x) is says
        model.learn_one(x, came)
        guard.observe(Positions(int(came)))
    assert own > 10
    assert model.guard.evidence[0] == guard.evidence[0]
    assert model.certificate == guard.certificate


def test_which_actions_are_labels() -> None:
    def said(problem: lr.DecisionProblem, labels: list, temperature: float | None = 0) -> Any:
        return labels_played(lr.Guard(problem, 20, temperature=temperature), labels)

    assert said(FRAUD, ["no", "yes"]).tolist() == [0, 1]
    assert said(FRAUD, ["yes", "no"]) is None  # the label of the first state would be said by the second action
    turned = lr.DecisionProblem([[0, 1], [1, 0]], actions=["b", "a"], states=["a", "b"])
    assert said(turned, ["a", "b"]).tolist() == [1, 0]
    assert said(lr.cost_loss(1, 4), ["calm", "event"]) is None
    assert said(FRAUD, ["no", "yes"], 0.1) is None
    assert said(lr.DecisionProblem([[0, 1], [1, 0]]), [0, 1]) is None  # action 0 is not to say 0
    guard = lr.Guard(turned, 20, temperature=0)
    laws = np.array([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6]])
    assert own_plays(guard, np.array([1, 0]), laws, np.array([0, 1, 0])).tolist() == [1, 0, 1]
