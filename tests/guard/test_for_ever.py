"""A guard that runs for ever: beside the loop, one false alarm in N steps, every interval, second failures."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.arrays import compiler_installed, to_numpy
from lowregret.certificates import ForEver
from lowregret.policies import Incumbent
from lowregret.problems import Positions
from lowregret.rules import bets, rearming

from ..certificates.literal_for_ever import Stream, hurting, matching_or_rps
from ..literal_theorem import by_prefix, chance_of, some_game, some_laws

COIN = lr.matching()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs of the fallback, and head starts, of other sizes."""

    def sized(hold: int, head_start: float = 0.01) -> None:
        monkeypatch.setattr(rearming, "HOLD", hold)
        monkeypatch.setattr(rearming, "HEAD_START", head_start)

    return sized


def made(guard: lr.Guard) -> ForEver:
    given: Any = guard.certificate
    assert isinstance(given, ForEver)
    return given


def right_and_wrong(rng: np.random.Generator, problem: lr.DecisionProblem, T: int, each: int) -> tuple[Any, Any]:
    """Laws ``[T, S]``, and states from them, in turns, and from those turned round."""
    laws = rng.dirichlet(np.ones(problem.n_states), T)
    laws[rng.random(T) < 0.004] = np.eye(problem.n_states)[0]  # some states are excluded
    truth = np.where((np.arange(T) // each % 2 == 1)[:, None], laws[:, ::-1], laws)
    return laws, np.array([rng.choice(problem.n_states, p=p) for p in truth])


def played(guard: lr.Guard, laws_TxS: Any, states_T: Any) -> np.ndarray:
    """What a guard plays at each step, time first."""
    found = []
    for t in range(len(states_T)):
        advice = guard.advise(laws_TxS[t])
        found.append(np.array(to_numpy(advice.policy)))
        guard.observe(Positions(states_T[t]))
    return np.array(found)


def told(event: Any) -> tuple[Any, ...]:
    """What two runs that differ in rounding must have in common."""
    return type(event), event.step, event.known, getattr(event, "since", None), getattr(event, "whom", None)


def switches(guard: lr.Guard, stream: Any = None) -> list[lr.Switch]:
    return [e for e in guard.events if isinstance(e, lr.Switch) and stream in (None, e.stream)]


# Beside the loop


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_guard_is_the_loop(seed: int, compiled: bool, short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is played, the evidence, the alarms with whom they blame and since when, and when it is armed again."""
    if compiled and not compiler_installed():
        pytest.skip("the compiler is an extra")
    monkeypatch.setattr(bets, "_STEPS", 0 if compiled else 1 << 60)
    monkeypatch.setattr(bets, "is_compiled", lambda kernel: compiled)
    rng, T = np.random.default_rng(seed), 260
    short(int(rng.integers(2, 40)), float(rng.choice([0.01, 0.3])))
    problem = some_game(rng, int(rng.integers(2, 4)), int(rng.integers(2, 4))) if seed else COIN
    settings: dict[str, Any] = {}
    known: dict[str, Any] = {}
    if seed >= 2:
        settings = {"references": ("one", "other"), "payoffs": "scaled", "references_act": True}
        known = {"references": rng.dirichlet(np.ones(problem.n_actions), (T, 2)), "scale": rng.uniform(0.5, 1, T)}
    laws, states = right_and_wrong(rng, problem, T, 60)
    guard = lr.Guard(problem, rule=lr.ExactTest(problem, None, false_alarm_every=30, **settings))
    stream, alarms, back = Stream(made(guard)), [], []
    for t in range(T):
        now = {name: part[t] for name, part in known.items()}
        advice = guard.advise(laws[t], **now)
        beside = now.get("references")
        np.testing.assert_allclose(advice.policy, stream.plays(laws[t], beside), atol=1e-12)
        held = stream.held
        assert advice.trusted == (held == 0)
        assert advice.share == (held == 0)
        alarm, _ = stream.step(laws[t], int(states[t]), beside, now.get("scale", 1.0))
        guard.observe(Positions(states[t]))
        if alarm:
            excluded = laws[t, states[t]] == 0
            alarms.append((t + 1, *((None, None) if excluded else stream.suspect)))
        elif not held and not np.isinf(guard.evidence[0]):
            assert guard.evidence[0] == pytest.approx(stream.evidence, abs=1e-9)
        if held == 1:
            back.append(t + 1)
    found = [(e.step, None if e.since is None else _whom(problem, e), e.since) for e in switches(guard)]
    assert found == alarms
    assert [e.step for e in guard.events if isinstance(e, lr.Return)] == back
    assert len(alarms) >= (3, 1, 1, 0)[seed]


def _whom(problem: lr.DecisionProblem, event: lr.Switch) -> int:
    if event.reference is None:
        assert event.action is not None
        return event.action
    return problem.n_actions + ("one", "other").index(event.reference)


def test_the_second_bettor_is_its_loop(short: Any) -> None:
    """What it has, and when it is heard, by the steps since it was armed; every other part is a bettor on actions."""
    short(20, 0.05)
    T, U, rng = 300, COIN.utility, np.random.default_rng(4)
    laws, states = right_and_wrong(rng, COIN, T, 50)
    guard = settled("two bettors", COIN)
    rule: Any = guard.rule
    stream, alarms = Stream(replace(made(guard), hold=rearming.HOLD), pairs=True), []
    begun = 0.05 * 60 / 2, 0.0, 0.0, 0, 0
    backed, rise, spread, age, clock = begun
    for t in range(T):
        p, s, memory, held = laws[t], int(states[t]), guard._at.ledger.rule, stream.held
        mixture = rule._fallback_after(memory, rule.look(memory, p), np.asarray(s))[1].mixture_S
        guard.advise(p)
        guard.observe(Positions(s))
        alarm, _ = stream.step(p, s)
        if held:
            backed, rise, spread, age, clock = begun if held == 1 else (backed, rise, spread, age, clock)
            continue
        gained = U[np.argmax(U @ mixture), s] - U[np.argmax(U @ p), s]
        backed, clock = (backed + 0.5) * mixture[s] / (p[s] or 1.0), clock + 1
        rise, spread, age = (rise + gained, spread + gained**2, age + 1) if rise + gained > 0 else (0.0, 0.0, 0)
        heard = rise > 0 and rise**2 >= spread * (np.log(1 + clock / age) + 2)
        level = stream.wealth + backed * heard
        if p[s] > 0:
            assert guard.evidence[0] == pytest.approx(np.log(level), abs=1e-9)
        if level >= 60 and not alarm:
            alarm, stream.held = True, rearming.HOLD
        alarms += [t + 1] if alarm else []
    assert [e.step for e in switches(guard)] == alarms
    assert sum(e.gain is not None for e in switches(guard)) >= 2


# Ways in


@pytest.mark.parametrize("back", ["fixed share", "way back", "two bettors"])
def test_a_fleet_is_its_streams(back: str, short: Any) -> None:
    """Each is armed again at its own time; outcomes that never come and streams that join are among them."""
    short(25)
    rng, T, B = np.random.default_rng(5), 320, 3
    runs = [right_and_wrong(rng, COIN, T, 40 + 15 * b) for b in range(B)]
    laws, states = (np.stack(part, axis=1) for part in zip(*runs, strict=True))
    missing = rng.random((T, B)) < 0.03
    fleet, alone = settled(back, COIN, (B,)), [settled(back, COIN) for _ in range(B)]
    for t in range(T):
        together = fleet.advise(laws[t]).policy
        fleet.observe(Positions(states[t]), missing=missing[t])
        for b, guard in enumerate(alone):
            np.testing.assert_allclose(guard.advise(laws[t, b]).policy, together[b], atol=1e-12)
            guard.skip() if missing[t, b] else guard.observe(Positions(states[t, b]))
    for b, guard in enumerate(alone):
        mine = [e for e in fleet.events if e.stream == b]
        assert [told(e) for e in mine] == [told(e) for e in guard.events]
        assert sum(isinstance(e, lr.Switch) for e in mine) >= 2
    assert made(fleet).missing == int(missing.sum(axis=0).max())
    assert fleet.add(2).tolist() == [3, 4]
    assert fleet.evidence[0][3] == pytest.approx(np.log(0.01 * 60 * made(fleet).share))


def settled(back: str, problem: lr.DecisionProblem, shape: tuple[int, ...] = (), every: int = 60) -> lr.Guard:
    more: dict[str, Any] = {"fixed share": {}, "way back": {"fallback": lr.Recovery(), "likelihood": False}}.get(
        back, {"fallback": lr.Recovery(), "likelihood": True}
    )
    return lr.Guard(problem, false_alarm_every=every, batch_shape=shape, **more)


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("back", ["fixed share", "way back", "two bettors"])
def test_it_resumes_bit_for_bit(back: str, shape: tuple[int, ...], short: Any, tmp_path: Path) -> None:
    short(30)
    rng, T = np.random.default_rng(1), 240
    runs = [right_and_wrong(rng, COIN, T, 50) for _ in range(3)]
    laws, states = (np.stack(part, axis=1) for part in zip(*runs, strict=True))
    laws, states = (laws, states) if shape else (laws[:, 0], states[:, 0])
    whole, parts = settled(back, COIN, shape), settled(back, COIN, shape)
    in_hold = armed_again = False
    for t in range(T):
        if t % 20 == 10:
            parts, before = settled(back, COIN, shape), parts
            if t % 40 == 10:
                parts.load_state_dict(json.loads(json.dumps(before.state_dict())))
            else:
                before.save(tmp_path / f"{t}.safetensors")
                parts.load(tmp_path / f"{t}.safetensors")
            in_hold |= bool(np.any(parts.switched))
            armed_again |= bool(parts.events) and not np.all(parts.switched)
        np.testing.assert_array_equal(played(whole, laws[[t]], states[[t]]), played(parts, laws[[t]], states[[t]]))
    assert in_hold
    assert armed_again
    assert parts.events == whole.events
    assert parts.state_dict() == whole.state_dict()
    assert parts.certificate == whole.certificate
    with pytest.raises(ValueError, match="differs in: delta"):
        settled(back, COIN, shape, every=61).load_state_dict(whole.state_dict())


@pytest.mark.parametrize("back", ["fixed share", "way back", "two bettors"])
def test_a_recording_is_the_live_run(back: str, short: Any) -> None:
    short(40)
    rng, T = np.random.default_rng(2), 250
    laws, states = right_and_wrong(rng, COIN, T, 60)
    live = settled(back, COIN)
    policy = played(live, laws, states)
    found = lr.backtest(COIN, laws, Positions(states), guard=settled(back, COIN))
    assert [(type(e), e.step) for e in found.switches] == [(type(e), e.step) for e in live.events]
    assert len(switches(live)) >= 2
    paid = (policy * COIN.utility.T[states]).sum(axis=1)
    np.testing.assert_allclose(found.paid["guard"][0], paid, atol=1e-12)
    assert found.certificate.horizon == T
    assert found.certificate.tv_bound == pytest.approx(1.0)
    times = live.rule.trip_times(laws, states)
    assert int(times) == switches(live)[0].step
    assert int(live.rule.trip_times(laws[:5], states[:5])) == 6
    assert "guarantee" in str(found.table())


def test_tensors_do_what_arrays_do(short: Any) -> None:
    torch = pytest.importorskip("torch")
    short(20)
    laws, states = right_and_wrong(np.random.default_rng(3), COIN, 200, 50)
    arrays, tensors = lr.Guard(COIN, false_alarm_every=40), lr.Guard(COIN, false_alarm_every=40)
    wanted = played(arrays, laws, states)
    np.testing.assert_allclose(played(tensors, torch.as_tensor(laws), states), wanted, atol=1e-12)
    assert [(type(e), e.step) for e in tensors.events] == [(type(e), e.step) for e in arrays.events]
    assert len(switches(tensors)) >= 2


# How rare alarms are


@pytest.mark.parametrize("back", ["fixed share", "way back", "two bettors"])
def test_alarms_are_as_rare_as_they_say_by_all_sequences(back: str, short: Any) -> None:
    """All sequences side by side, each with its chance under the model, which says something else after each past."""
    short(2, 0.2)
    rng, nearest = np.random.default_rng(6), 0.0
    for i in range(4):
        problem = some_game(rng, 3, 2) if i else COIN
        T, every = 9, int(rng.integers(2, 5))
        states = np.array(list(product(range(2), repeat=T)))
        tables = [some_laws(rng, (2**t,), 2) if i else np.full((2**t, 2), 0.5) for t in range(T)]
        laws = by_prefix(tables, states)
        chance_N = chance_of(laws, states)
        guard = settled(back, problem, (len(states),), every)
        played(guard, laws.swapaxes(0, 1), states.T)
        counts_NxT = np.zeros(states.shape)
        for event in switches(guard):
            counts_NxT[event.stream, event.step - 1 :] += 1
        for t in range(1, T + 1):
            mean = float(chance_N @ counts_NxT[:, t - 1])
            assert mean <= made(guard).expected_alarms(t) + 1e-12
            assert chance_N @ (counts_NxT[:, t - 1] > 0) <= made(guard).chance_within(t) + 1e-12
            nearest = max(nearest, mean / made(guard).expected_alarms(t))
    assert nearest > 0.1


@pytest.mark.parametrize("back", ["fixed share", "two bettors"])
@pytest.mark.parametrize("chance", [0.6, 0.8])
def test_alarms_are_as_rare_as_they_say_on_true_laws(chance: float, back: str) -> None:
    """The first within N/4, N/2 and N steps at binomial confidence, and how many on average."""
    every, T, B = 200, 400, 900
    rng = np.random.default_rng(int(10 * chance))
    states = (rng.random((T, B)) < chance).astype(int)
    guard = settled(back, COIN, (B,), every)
    played(guard, np.broadcast_to([1 - chance, chance], (T, B, 2)), states)
    firsts = np.full(B, T + 1)
    for event in reversed(switches(guard)):
        firsts[event.stream] = event.step
    for n in (every // 4, every // 2, every):
        assert stats.binom.sf((firsts <= n).sum() - 1, B, made(guard).chance_within(n)) > 1e-5
    counts_B = np.bincount([e.stream for e in switches(guard)], minlength=B)
    error = counts_B.std() / np.sqrt(B)
    assert counts_B.mean() - 4 * error <= made(guard).expected_alarms(T)
    assert counts_B.sum() > (10 if back == "fixed share" else -1)  # pairs are charged more, and the coin of .8 none


# Every interval


def worst_of(guard: lr.Guard, problem: lr.DecisionProblem, policy_TxNxA: Any, states_TxN: Any) -> float:
    """The largest part of its promise that any interval of any run used; no more than all of it."""
    (T, N), U, used, given = states_TxN.shape, problem.utility, 0.0, made(guard)
    paid_TxNxA = U.T[states_TxN]
    lead_TxNxA = paid_TxNxA - (policy_TxNxA * paid_TxNxA).sum(axis=-1, keepdims=True)
    total_TxNxA = np.concatenate([np.zeros((1, N, len(U))), lead_TxNxA.cumsum(axis=0)])
    alarms_TxN = np.zeros((T + 1, N), dtype=int)
    for event in switches(guard):
        alarms_TxN[event.step :, event.stream or 0] += 1
    for length in range(1, T + 1):
        alarms = alarms_TxN[length:] - alarms_TxN[:-length]
        bound_M = np.array([given.within(length, alarms=n) for n in range(alarms.max() + 1)])
        lost = (total_TxNxA[length:] - total_TxNxA[:-length]).max(axis=-1)
        assert (lost <= bound_M[alarms] + 1e-9).all()
        used = max(used, float((lost / bound_M[alarms]).max()))
    assert total_TxNxA[-1].max() <= T * given.at(T).regret_bound + 1e-9
    return used


@pytest.mark.parametrize("which", [0, 1])
def test_no_interval_loses_more_against_an_adversary(which: int, short: Any) -> None:
    """Who lets no alarm sound for a while, then does, and hurts fixed share as he can."""
    short(40)
    problem, T = matching_or_rps(which), 700
    guard = lr.Guard(problem, false_alarm_every=400)
    by_hand, states = hurting(made(guard), T, np.random.default_rng(which))
    S = problem.n_states
    policy = played(guard, np.full((T, S), 1 / S), states)
    assert [e.step for e in switches(guard)] == by_hand.alarms
    assert len(by_hand.alarms) >= 3
    assert (
        worst_of(guard, problem, policy[:, None], states[:, None]) > 0.9
    )  # intervals of a few steps lose all there is


def test_no_interval_loses_more_by_all_sequences(short: Any) -> None:
    short(2)
    rng = np.random.default_rng(8)
    for i in range(3):
        problem = some_game(rng, 3, 2) if i else COIN
        T = 8
        states = np.array(list(product(range(2), repeat=T)))
        tables = [some_laws(rng, (2**t,), 2) for t in range(T)]
        laws = by_prefix(tables, states)
        guard = lr.Guard(problem, false_alarm_every=2, batch_shape=(len(states),))
        policy = played(guard, laws.swapaxes(0, 1), states.T)
        assert len(switches(guard)) > (0 if i else len(states) / 2)
        worst_of(guard, problem, policy, states.T)


@pytest.mark.parametrize("back", ["fixed share", "way back", "two bettors"])
def test_nobody_stakes_on_what_is_played(back: str) -> None:
    """Where a model is right at every step, stakes on its own action would sound an alarm every 2 N steps."""
    guard = settled(back, COIN, every=50)
    played(guard, np.tile([0.1, 0.9], (600, 1)), np.ones(600, dtype=np.int64))
    assert guard.events == []
    assert guard.evidence[0] < np.log(2)


# What it is for


@pytest.mark.parametrize("back", ["fixed share", "way back", "two bettors"])
def test_a_second_failure_is_an_alarm_again(back: str) -> None:
    """Right, wrong, right, wrong: each failure is dated, and told in words; in between the model is trusted."""
    T, rng = 2400, np.random.default_rng(0)
    wrong = np.arange(T) // 600 % 2 == 1
    states = (rng.random(T) < np.where(wrong, 0.2, 0.8)).astype(int)
    guard = settled(back, COIN, every=10_000)
    played(guard, np.tile([0.2, 0.8], (T, 1)), states)
    heard = switches(guard)
    for begin in (600, 1800):
        first = next(e for e in heard if e.step > begin)
        assert first.step - begin < 80
        assert first.since is not None
        assert abs(first.since - begin) < 40
        assert "since about step" in first.because
        assert "action 0 would have earned more" in first.because or "recent frequencies" in first.because
    assert not any(e.step <= 600 or 1200 + 80 < e.step <= 1800 for e in heard)
    assert all(any(e.step == one.step + 256 for e in guard.events) for one in heard if one.step + 256 < T)
    assert isinstance(guard.events[-1], lr.Switch | lr.Return)


def test_what_the_certificate_says(short: Any) -> None:
    guard = lr.Guard(COIN, false_alarm_every=1000)
    assert made(guard) == ForEver(COIN, 1000)
    assert "1.02 in 1000 steps" in str(guard.certificate)
    assert "assuming every step is acted on by the best response, and by fixed share" in str(guard.certificate)
    at = made(guard).at(500)
    assert at.tv_bound == pytest.approx(0.51)
    assert at.regret_bound == max(made(guard).within(500, alarms=n) for n in range(3)) / 500 < 1
    assert made(guard).at(10**6).regret_bound < 0.3
    way_back = settled("way back", COIN, every=1000)
    assert made(way_back) == ForEver(COIN, 1000, hold=None)
    assert "of those with one nothing is said" in str(way_back.certificate)
    assert made(way_back).at(500).regret_bound == 1
    assert made(settled("two bettors", COIN, every=1000)).share == 0.5
    for _ in range(2):
        guard.advise([0.5, 0.5])
        guard.skip()
    assert made(guard).within(1000) == pytest.approx(ForEver(COIN, 1000).within(1000) + 2)
    guard.restart()
    assert made(guard).missing == 0
    assert made(guard).expected_alarms(1000) == pytest.approx(1.02 / 0.99)
    informed = lr.Guard(COIN, false_alarm_every=1000, references=("a", "b"), payoffs="change")
    assert made(informed).comparators == 4
    assert made(informed).problem.span == 2


def test_what_does_not_go_with_it() -> None:
    every: dict[str, Any] = {"false_alarm_every": 100}
    payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("in place of a horizon", lambda: lr.Guard(COIN, 200, **every)),
        ("in place of a horizon", lambda: lr.Guard(COIN, delta=0.05, **every)),
        ("episode goes with a horizon", lambda: lr.Guard(COIN, episode=20, **every)),
        ("needs best responses", lambda: lr.Guard(COIN, temperature=0.1, **every)),
        ("needs best responses", lambda: lr.Guard(COIN, temperature="certificate", **every)),  # type: ignore[arg-type]
        ("needs a DecisionProblem", lambda: lr.Guard(payoff, **every)),
        ("needs a problem", lambda: lr.Guard(None, **every)),
        ("needs a test", lambda: lr.Guard(COIN, test=False, **every)),
        ("needs a test", lambda: lr.ExactTest(COIN, None, references=("a",), actions=False, **every)),
        ("contexts need a horizon", lambda: lr.Guard(COIN, contexts=2, **every)),
        ("lag must be 1 with false_alarm_every", lambda: lr.Guard(COIN, lag=2, **every)),
        ("fallback must be Recovery", lambda: lr.Guard(COIN, fallback=lr.policies.AdaHedge(COIN), **every)),
        ("is a law", lambda: lr.Guard(COIN, fallback=lr.PolyaUrn(2), **every)),
        ("fallback must be Recovery", lambda: lr.Guard(COIN, references=("a",), fallback=Incumbent("a"), **every)),
        (
            "fallback must be Recovery",
            lambda: lr.Guard(COIN, references=("a",), fallback=lr.Recovery(safe=lr.policies.AdaHedge(COIN)), **every),
        ),
        ("likelihood=True bets on the laws", lambda: lr.Guard(COIN, likelihood=True, **every)),
        ("false_alarm_every must", lambda: lr.Guard(COIN, false_alarm_every=1)),
        ("only build the default rule", lambda: lr.Guard(COIN, 9, rule=lr.ExactTest(COIN, 9), **every)),
        ("trips once", lambda: lr.ExactTest(COIN, None, **every).log_evidence([[[0.5, 0.5]]], [[0]])),
        ("trips once", lambda: lr.ExactTest(COIN, None, **every).replaced(np.full((1, 1, 2), 0.5), np.zeros((1, 1)))),
        (
            "temperature must be above 0",
            lambda: lr.robustify(lr.PolyaUrn(2), COIN, None, rule=lr.Guard(COIN, **every).rule),
        ),
    ]
    for why, call in refused:
        with pytest.raises(ValueError, match=why):
            call()
    nothing = lr.Guard(lr.DecisionProblem([[0.5, 0.5], [0.5, 0.5]]), **every)
    played(nothing, np.tile([1.0, 0.0], (50, 1)), np.ones(50, dtype=int))
    assert nothing.events == []
