"""Late outcomes beside references, contexts and payoffs that change: each class is an ordinary guard of its own."""

import json
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.adversaries import all_sequences
from lowregret.certificates import switching
from lowregret.certificates.coupled import late_factor
from lowregret.rules import late_rule

from ..late_worlds import arrivals
from ..literal_theorem import some_laws

PRICES = lr.DecisionProblem.from_payoffs([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]], low=0.0, high=4.0)


def world(T: int, rng: np.random.Generator, **told: Any) -> list[dict[str, Any]]:
    """What ``advise`` is told of every step beside the law."""
    steps = []
    for _ in range(T):
        step: dict[str, Any] = {}
        if "references" in told:
            step["references"] = some_laws(rng, (2,), 2, zeros=False)
        if "contexts" in told:
            step["context"] = int(rng.integers(told["contexts"]))
        if told.get("payoffs") == "change":
            step["payoffs"] = rng.uniform(0, 4, (3, 2))
        steps.append(step)
    return steps


@pytest.mark.parametrize(
    "told", [{"references": ("a", "b")}, {"contexts": 3}, {"references": ("a", "b"), "payoffs": "change"}]
)
def test_each_class_is_an_ordinary_guard(told: dict[str, Any]) -> None:
    """Its evidence and its leads; the average of the classes gives the alarm; saved with advices that wait."""
    T, lag, rng = 36, 3, np.random.default_rng(len(told))
    laws, states, known = some_laws(rng, (T,), 2, zeros=False), rng.integers(2, size=T), world(T, rng, **told)
    guard = lr.Guard(PRICES, T, rule=lr.ExactTest(PRICES, T, **told), lag=lag)
    each = guard.rule.each  # type: ignore[attr-defined]
    assert each.delta == pytest.approx(1 / T / late_factor(lag))
    alone = [lr.Guard(PRICES, T // lag, rule=each) for _ in range(lag)]
    for what, step in arrivals(T, lag, rng, at_once=True):
        one = alone[(step - 1) % lag]
        if what == "advise":
            guard.advise(laws[step - 1], **known[step - 1])
        else:
            guard.observe(states[step - 1], step=step)
            one.advise(laws[step - 1], **known[step - 1])
            one.observe(states[step - 1])
            levels = [float(one.evidence[0]) for one in alone]
            assert guard.evidence[0] == pytest.approx(np.logaddexp.reduce(levels) - math.log(lag), rel=1e-9, abs=1e-9)
        if step % 7 == 0:
            written = json.dumps(guard.state_dict())
            guard = lr.Guard(PRICES, T, rule=lr.ExactTest(PRICES, T, **told), lag=lag)
            guard.load_state_dict(json.loads(written))
            assert json.dumps(guard.state_dict()) == written
    if not guard.switched and not any(one.switched for one in alone):
        sums = sum(one._at.ledger.lead_A for one in alone)
        assert guard.regret == pytest.approx(float(guard.rule.worst_lead(sums)) / T, abs=1e-9)


@pytest.mark.parametrize("told", [{"references": ("a", "b")}, {"contexts": 2}])
def test_no_sequence_breaks_the_certificate(told: dict[str, Any]) -> None:
    """All sequences of 8 steps against a sure model, to references that are right, or an action a context."""
    T, lag, rng, coin = 8, 2, np.random.default_rng(0), lr.matching()
    tokens = all_sequences(2, T)
    N = len(tokens)
    rule = lr.ExactTest(coin, T, delta=0.9, **told)
    guard = lr.Guard(coin, T, rule=rule, lag=lag, batch_shape=(N,))
    for what, step in arrivals(T, lag, rng):
        if what == "observe":
            guard.observe(tokens[:, step - 1], step=step)
            continue
        right = np.eye(2)[tokens[:, step - 1]] * 0.98 + 0.01
        more = {"references": np.stack([right, right[:, ::-1]], axis=1)} if "references" in told else {}
        more = more or {"context": np.full(N, step % 2)}
        guard.advise(np.tile([0.97, 0.03], (N, 1)), **more)
    assert guard.switched.any()
    assert guard.regret.max() <= sum(guard.certificate.terms.values())


def test_classes_and_contexts_count_alike_before_the_alarm() -> None:
    """Where every step is charged the same, d classes with C contexts each are as d C contexts."""
    rule = late_rule(lr.ExactTest(lr.matching(), 60, delta=0.01, contexts=4), 3)
    each = rule.each
    made = rule.certificate.terms_at.__self__  # type: ignore[union-attr]
    expected = switching.before(each.problem, each.bets.prior, each.delta, each.temperature, 12, False, 60)  # type: ignore[arg-type]
    steps = np.arange(61)
    np.testing.assert_allclose(made.before(20)(steps), expected(steps), rtol=1e-12)
    after = each.in_play.fallback.regret_after(each.problem, 20, each.temperature)
    np.testing.assert_allclose(made.after(20)(steps[:21]), after(steps[:21]))


def test_a_late_certificate_names_all_that_it_compares_with() -> None:
    for told, whom in (
        ({"references": ["old"]}, "every action or old"),
        ({"contexts": 3}, "an action for each of 3 contexts"),
    ):
        late, prompt = (lr.Guard(lr.matching(), 300, lag=lag, **told).certificate for lag in (3, 1))  # type: ignore[arg-type]
        assert f"the exact test on {whom}, outcomes 3 steps late" == late.theorem
        assert f"the exact test on {whom}" == prompt.theorem
        assert f"regret is to {whom}" in late.statement
