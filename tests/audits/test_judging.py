"""What is judged of every stream beside literal loops: money after alarms, evidence, lags that residuals look like."""

import math
from dataclasses import replace

import numpy as np
import pytest

import lowregret as lr
from lowregret.audits.backtesting import replayed
from lowregret.audits.judging import judge, seeming_lag
from lowregret.audits.recording import recording_of
from lowregret.guard.events import ModelDropped
from lowregret.problems import Positions

GAME = lr.DecisionProblem.from_payoffs([[30, -40], [-5, 6]], actions=["beach", "museum"], low=-60, high=40)
LENGTHS = (200, 240, 250, 31, 1, 250)


def games(extras=()):
    """Models that are wrong for a while, so that some return; a few outcomes are missing."""
    rng, found = np.random.default_rng(4), []
    for i, T in enumerate(LENGTHS):
        wet = rng.beta(0.4, 0.4, T)
        came = rng.random(T) < wet
        for broken in (slice(20, 70), slice(200, T)) if i % 2 else (slice(160, T if i == 2 else 160),):
            came[broken] = rng.random(len(came[broken])) >= wet[broken]
        found.append((np.stack([1 - wet, wet], -1), came.astype(int)))
    forecasts, outcomes = zip(*found, strict=True)
    given = {
        "scale": [rng.uniform(0.3, 1, T) for T in LENGTHS],
        "contexts": [rng.choice(list("ab"), T) for T in LENGTHS],
    }
    given["references"] = {"old": [rng.dirichlet([1, 1], T) for T in LENGTHS]}
    recording = recording_of(GAME, forecasts, Positions(outcomes), "uvwxyz", **{name: given[name] for name in extras})
    return replace(recording, missing_R=rng.random(recording.n_steps) < 0.02)


def guard_for(recording, lag=1, delta=0.05):
    return lr.Guard(GAME, against=recording.against, test=lr.ExactTest(delta, 250), lag=lag)


@pytest.mark.parametrize("extras", [(), ("scale",), ("contexts", "references", "scale")])
def test_money_before_and_after_alarms_by_a_loop(extras):
    recording = games(extras)
    guard = guard_for(recording)
    found, payoffs = replayed(guard, recording), GAME.in_payoffs(GAME.utility)
    happened = set()
    for block in recording.blocks():
        judged, played = judge(guard, block)
        assert list(judged)[: len(played.paid) + 1] == ["steps", *played.paid]
        for n, i in enumerate(block.index_N.tolist()):
            one, events = recording.part([i]), [e for e in found.switches if e.stream == recording.names[i]]
            scale = np.ones(LENGTHS[i]) if one.side.scale is None else one.side.scale
            alarm = next((event.known for event in events if isinstance(event, lr.Alarm)), 0)
            model, guarded, steps, each = [0.0, 0.0], [0.0, 0.0], 0, {}
            for t in range(LENGTHS[i]):
                if one.there_R[t]:
                    paid_A = scale[t] * payoffs[:, one.outcomes_R[t]]
                    is_after = bool(alarm) and t >= alarm
                    steps += is_after
                    model[is_after] += paid_A[np.argmax(payoffs @ one.forecasts[t])]
                    guarded[is_after] += 50 * found.paid["guard"][i][t] - 10 * scale[t]
                    day = one.side.context[t] if extras[:1] == ("contexts",) else 0
                    each[day] = each.get(day, 0.0) + paid_A
            assert judged["model"][n] == pytest.approx(sum(model), abs=1e-9)
            assert judged["guard"][n] == pytest.approx(sum(guarded), abs=1e-9)
            assert judged["steps_after"][n] == steps
            assert judged["model_after"][n] == pytest.approx(model[1], abs=1e-9)
            assert judged["guard_after"][n] == pytest.approx(guarded[1], abs=1e-9)
            assert judged["best fixed action"][n] == pytest.approx(sum(each.values()).max(), abs=1e-9)
            assert judged["best_action"][n] == GAME.actions[sum(each.values()).argmax()]
            if "contexts" in extras:
                best = max(sum(day_A.max() for day_A in each.values()), judged["reference old"][n])
                assert judged["best comparator"][n] == pytest.approx(best, abs=1e-9)
            assert judged["missing"][n] == (~one.there_R).sum() == LENGTHS[i] - judged["steps"][n]
            assert judged["alarm"][n] == alarm
            turns = [event for event in events if not isinstance(event, lr.Alarm)]
            assert judged["returns"][n] == sum(isinstance(event, lr.Return) for event in turns)
            assert judged["dropped"][n] == len(turns) - judged["returns"][n]
            assert judged["follows"][n] == (not events or isinstance(events[-1], lr.Return))
            assert judged["since"][n] == (events[0].since if events else 0)
            happened |= {type(event) for event in events} | {judged["lost_to"][n]}
    assert {lr.Alarm, lr.Return, ModelDropped} <= happened


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("log_level", [math.log(20), math.log(5), math.inf])
def test_the_evidence_is_stopped_at_a_level(lag, log_level):
    recording = games()
    recording = replace(recording, forecasts=recording.forecasts[:, ::-1])  # which is wrong most of the time
    guard = guard_for(recording, lag)
    for block in recording.blocks():
        judged, played = judge(guard, block, log_level=log_level)
        for n, T in enumerate(block.lengths_N.tolist()):
            classes = []
            for k in range(lag):
                log_e = [math.log(level) for level in played.guard.level_NxT[n, k:T:lag]]
                reached = [e for e in log_e if e >= log_level + math.log(lag)]
                fresh = guard.evidence[0]
                classes.append(min(690.0, reached[0] if reached else log_e[-1] if log_e else fresh))
            assert judged["log_e"][n] == pytest.approx(np.logaddexp.reduce(classes) - math.log(lag), abs=1e-12)
            if lag == 1 and log_level == math.log(20):  # the default level is that of the alarm
                assert (judged["log_e"][n] >= log_level) == (judged["alarm"][n] > 0)


def test_outcomes_of_no_chance_are_counted():
    states = [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0]]
    recording = recording_of(GAME, [np.tile([0.0, 1.0], (len(own), 1)) for own in states], Positions(states))
    (block,) = replace(recording, missing_R=np.arange(11) == 7).blocks()
    assert block.index_N.tolist() == [2, 0, 1]
    judged, _ = judge(lr.Guard(GAME), block)
    assert judged["excluded"].tolist() == [3, 0, 1]
    assert judged["lost_to"].tolist() == [None] * 3
    assert judged["since"].tolist() == [0] * 3
    assert (judged["log_e"] == 690.0).tolist() == [True, False, True]


def lag_by_a_loop(probs_TxS, states_T, beyond, there_T):
    """One stream: how many steps apart residuals are alike, at most, and one more."""
    T, S = probs_TxS.shape
    K = min(30, T // 8)
    off = [(np.eye(S)[states_T[t]] - probs_TxS[t]) * there_T[t] for t in range(T)]
    for lag in range(1, K + 2):
        products = []
        for t in range(2 * K, T):
            further = sum(off[t - 2 * K : t - K]) / K
            products.append(off[t] @ (off[t - lag] - further))
        needed = (beyond if lag == 1 else 2.0) * math.sqrt(sum(product**2 for product in products))
        if K < 5 or lag > K or not sum(products) > needed:
            return lag if lag > 1 else 0
    return 0


@pytest.mark.parametrize("n_states", [2, 3])
def test_seeming_lags_by_a_loop(n_states):
    rng, T = np.random.default_rng(0), 200
    lengths_N, probs, states = np.array([45, 200, 160, 90, 39, 200]), np.full((6, T, n_states), 1 / n_states), []
    for n, ahead in enumerate([8, 1, 4, 2, 6, 8]):
        hidden = np.repeat(rng.integers(0, n_states, T), ahead)[:T]  # what comes stays for a while
        noise = rng.random(T) < 0.1 * bool(n)
        states.append(np.where(noise, rng.integers(0, n_states, T), hidden))
        probs[n] = rng.dirichlet([20] * n_states, T) if n else probs[n]
    there = rng.random((6, T)) > 0.2 * (np.arange(6) > 0)[:, None]
    found = seeming_lag(probs, np.array(states), lengths_N, 2.0, there)
    asked = [lag_by_a_loop(probs[n, :L], states[n][:L], 2.0, there[n]) for n, L in enumerate(lengths_N)]
    assert found.tolist() == asked
    assert asked[0] == 6  # as many as were tried, and one
    assert len(set(asked)) > 3


def test_the_guard_at_the_lag_that_is_seen():
    rng, T = np.random.default_rng(0), 150
    hidden = np.repeat(rng.random((4, T // 5)) < 0.5, 5, axis=1)
    states = np.where(rng.random((4, T)) < 0.95, hidden, 1 - hidden).astype(int)
    recording = recording_of(GAME, np.full((4, T, 2), 0.5), Positions(states))
    recording = replace(recording, missing_R=rng.random(4 * T) < 0.05)
    guard = guard_for(recording)
    (block,) = recording.blocks()
    judged, _ = judge(guard, block, beyond=3.0)
    assert (judged["seems_lag"] > 1).all()
    for n, lag in enumerate(judged["seems_lag"].tolist()):
        (result,) = replayed(guard_for(recording, lag), recording.part([n])).streams
        then = result.earned["guard"] * result.steps
        assert judged["guard_then"][n] == pytest.approx(then, abs=1e-9)
    unasked, _ = judge(guard, block)
    assert (unasked["seems_lag"] == 0).all()
    assert np.isnan(unasked["guard_then"]).all()
