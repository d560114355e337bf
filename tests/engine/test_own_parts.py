"""Parts of one's own, written outside the package: they run everywhere, and promise nothing that was not proved."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Comparators, Inputs, Response
from lowregret.engine.comparators import Awake, Named
from lowregret.engine.fallbacks import Hedge

COIN = lr.matching()


@dataclass(frozen=True)
class EpsilonGreedy(Response):
    """The best response, or now and then any action."""

    often: float = 0.3

    def temperature_for(self, rounds: int | None) -> float | None:
        return 0.0

    def plays(self, xp: Any, worth_NxA: Any, best_N: Any, temperature: Any) -> Any:
        A = worth_NxA.shape[1]
        return (1 - self.often) * xp.eye(A)[best_N] + self.often / A


@pytest.mark.parametrize("scale", [None, 0.999])
def test_a_response_keeps_delta_and_promises_no_regret(scale: float | None) -> None:
    N, T = 400, 200
    guard = lr.Guard(COIN, response=EpsilonGreedy(), streams=N)
    states_NxT = (np.random.default_rng(0).random((N, T)) < 0.05).astype(int)
    said = Inputs(np.broadcast_to([0.95, 0.05], (N, T, 2)), scale_N=None if scale is None else np.full((N, T), scale))
    trace = guard.engine.run(guard.engine.start(N), said, states_NxT)
    assert trace.alarm_NxT.any(axis=1).mean() <= 0.05 + 3 * (0.05 * 0.95 / N) ** 0.5
    np.testing.assert_allclose(trace.policy_NxTxA[0, 0], [0.85, 0.15])
    assert guard.certificate.at(T).regret_bound == COIN.span


class Coin(Comparators):
    """Half of each of two actions."""

    def count(self, n_actions: int) -> int:
        return 1

    def awake(self, xp: Any, model_NxA: Any, references_NxQxA: Any, context_N: Any) -> Awake:
        return Awake(0 * model_NxA[:, None] + 0.5, None)

    def regret(self, xp: Any, lead_NxP: Any, n_actions: int) -> Any:
        return lead_NxP[:, 0]

    def named(self, place: int, n_actions: int) -> Named:
        return Named(reference="a coin")


def test_a_comparator_that_mixes_is_bet_on_as_it_plays() -> None:
    """At its own gains, charged at the ends of these: by hand, for the richest rate of those that double."""
    guard = lr.Guard(COIN, against=Coin(), fallback=lr.Recovery())
    for _ in range(3):
        guard.advise([0.9, 0.1])
        guard.observe(1)
    watched = guard.engine.of_class(guard._state.rows_NxW, 0)
    bets = guard.setting.watch
    rate, gain = bets.rates_K, 0.5  # it gains or loses half
    wealth, factor = 0.0, np.exp(rate * gain) / np.cosh(rate * gain)
    for t in range(1, 4):
        wealth = (wealth + (bets.first_K if t == 1 else bets.later_K * 6 / (t * (t + 1)))) * factor
    np.testing.assert_allclose(watched.wealth_PxK[0, 0], wealth)


@dataclass(frozen=True)
class HalfTheModel:
    """Half the model and half Hedge; the model alone after 20 steps in which following it lost nothing."""

    def play(self, setting: Any) -> "HalfTheModelAtWork":
        return HalfTheModelAtWork(setting)


class HalfTheModelAtWork:
    name, mixes, takes_scale, counts_model = "half the model", False, True, False

    def __init__(self, setting: Any) -> None:
        self.xp, self.hedge = setting.xp, Hedge(setting)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self.hedge.shapes() | {"calm": (), "trusted": ()}

    def start(self, memory: Any) -> None: ...

    def prepare(self, memory: Any, step: Any) -> Any:
        share = self.share(memory, None)[:, None]
        return step._replace(policy_NxA=share * step.model_NxA + (1 - share) * self.hedge.plays(memory, step))

    def update(self, memory: Any, step: Any, outcome: Any, seen_NxC: Any) -> None:
        late_N, lost_N = step.in_force_N, outcome.gained_NxE.max(axis=-1) > 1e-9
        memory.calm[:] = np.where(late_N & ~lost_N, memory.calm + 1, 0)
        memory.trusted[:] = late_N & (memory.calm >= 20)
        self.hedge.update(memory, step, outcome, self.hedge.paid(outcome), late_N)

    def share(self, memory: Any, seen_NxC: Any) -> Any:
        return 0.5 + 0.5 * (memory.trusted > 0)

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> None:
        return None


def test_a_fallback_that_hears_the_model() -> None:
    guard = lr.Guard(COIN, fallback=HalfTheModel())
    for t in range(160):
        guard.advise([0.9, 0.1])
        guard.observe(int(20 <= t < 60 or t == 120))
        data, guard = guard.dumps(), guard.fresh()
        guard.loads(data)
    assert [(type(event), event.step) for event in guard.events[1:]] == [
        (lr.Return, 80),
        (lr.ModelDropped, 121),
        (lr.Return, 141),
    ]
    assert "not known" in guard.certificate.statement


class EarlyGap:
    """Theorem 3.1's test with another threshold: its certificate is not this one's."""

    delta, horizon = 0.1, 60

    def watch(self, setting: Any) -> Any:
        watch = lr.RegretGap(self.horizon, span_aware=True).watch(setting)
        watch.threshold = -2.0  # two below that of the theorem
        return watch

    def usual_fallback(self, problem: Any) -> lr.PolyaUrn:
        return lr.PolyaUrn(problem.n_states)


class Modest(EarlyGap):
    def certify(self, setting: Any, steps: int | None) -> None:
        return None


class Proved(EarlyGap):
    """Somebody proved something of it."""

    def certify(self, setting: Any, steps: int | None) -> lr.Certificate:
        return lr.robust.algorithm_1(COIN, lr.ExactTest(0.3, self.horizon)).certificate


def ways(test: Any) -> list[Any]:
    """A robust predictor and a guard with this test."""
    base = lr.predictors.Scheduled([[0.9, 0.1]])
    return [lr.robustify(base, COIN, test=test), lr.Guard(COIN, test=test, response=lr.QuantalResponse())]


@pytest.mark.parametrize("test", [EarlyGap(), Modest()])
def test_what_is_made_of_a_proved_test_inherits_no_promise(test: Any) -> None:
    safe, guard = ways(test)
    own, alarm = (one.alarm_times([1] * 60) for one in (ways(lr.RegretGap(60, span_aware=True))[0], safe))
    assert alarm < own  # it is another test
    for step in range(int(alarm)):
        assert not guard.switched, step
        guard.advise([0.9, 0.1])
        guard.observe(1)
    assert guard.switched
    for given in (safe.certificate, guard.certificate):
        assert (given.regret_bound, given.tv_bound) == (COIN.span, 1.0)
        assert "nothing was proved" in str(given)


def test_what_it_says_itself_is_passed_on() -> None:
    wanted = Proved().certify(None, 60)
    assert wanted.regret_bound < COIN.span
    for made in ways(Proved()):
        given = made.certificate
        assert (given.regret_bound, given.tv_bound, given.terms) == (wanted.regret_bound, 0.3, wanted.terms)
        assert given.at(30).regret_bound == wanted.at(30).regret_bound
        assert given.statement == wanted.statement
