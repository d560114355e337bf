"""The quick steps of the every-start test: one stream and fleets, compiled or not, give what the array step gives."""

import importlib.util

import numpy as np
import pytest

import lowregret as lr
from lowregret.policies import shadow
from lowregret.rules import quick_bets

FAST = importlib.util.find_spec("numba") is not None
WAYS = {"arrays": (1 << 60, False), "plain": (1 << 60, False), "compiled": (0, True)}


def _games():
    rng = np.random.default_rng(5)
    for case in range(8):
        A, S = rng.integers(2, 5, size=2)
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (A, S)))
        horizon = None if case in (2, 5) else 90
        yield problem, horizon, (0.0, 0.3)[case % 2], ("every", "first")[case // 4]


def _choose(monkeypatch, way):
    steps, has_compiler = WAYS[way]
    for module in (quick_bets, shadow):
        monkeypatch.setattr(module, "_STEPS", steps)
        monkeypatch.setattr(module, "compiler_installed", lambda: has_compiler)
    monkeypatch.setattr(quick_bets, "_BETTORS", 0)


def _rule(problem, horizon, gate, starts, way):
    rule = lr.ExactTest(problem, horizon, delta=0.02, gate=gate, starts=starts)
    if way == "arrays":
        rule.bets.quick = None
    return rule


@pytest.mark.parametrize("case", range(8))
def test_every_way_to_step_one_stream_is_the_same(case, monkeypatch):
    """Half-way the states stop following the model's law and hurt it instead, so that every run trips."""
    game = list(_games())[case]
    S, rng = game[0].n_states, np.random.default_rng(case)
    probs = rng.dirichlet(np.ones(S), 90)
    utility = game[0].utility
    lost_SxS = utility.max(axis=0) - utility[utility.argmax(axis=0)]  # by what is expected and what comes
    expected_state, state_that_comes = np.unravel_index(lost_SxS.argmax(), lost_SxS.shape)
    probs[45:] = 0.1 * probs[45:] + 0.9 * np.eye(S)[expected_state]
    states = [int(rng.choice(S, p=p)) if t < 45 else int(state_that_comes) for t, p in enumerate(probs)]
    seen = {}
    for way in WAYS if FAST else ("arrays", "plain"):
        _choose(monkeypatch, way)
        guard, seen[way] = lr.Guard(game[0], game[1], rule=_rule(*game, way)), []
        for p, state in zip(probs, states, strict=True):
            guard.advise(p)
            guard.observe(state)
            at = guard._at.ledger
            seen[way].append((at.rule.statistics, at.rule.fallback.shadow, at.lead_A, int(at.rule.tripped_at)))
    assert 45 < seen["arrays"][-1][3] < 90 or case == 6  # one action is always the best there
    for way in seen:
        for (bets, laws, lead_A, tripped_at), expected in zip(seen[way], seen["arrays"], strict=True):
            assert type(bets) is type(expected[0])
            assert tripped_at == expected[3]
            np.testing.assert_allclose(bets.log_wealth_CxK, expected[0].log_wealth_CxK, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(bets.log_most_CxK, expected[0].log_most_CxK, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(bets.since_CxK, expected[0].since_CxK)
            np.testing.assert_allclose(lead_A, expected[2], rtol=0, atol=1e-12)
            for mine, theirs in zip((*laws, bets.gap_C, bets.low_C), (*expected[1], *expected[0][3:5]), strict=True):
                assert (mine is None) == (theirs is None)
                if mine is not None:
                    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.skipif(not FAST, reason="needs the extra fast")
@pytest.mark.parametrize("case", range(8))
def test_a_compiled_fleet_is_one_in_arrays(case, monkeypatch):
    _choose(monkeypatch, "compiled")
    game = list(_games())[case]
    quick, arrays = _rule(*game, "compiled"), _rule(*game, "arrays")
    S, shape, rng = game[0].n_states, (3, 20), np.random.default_rng(case)
    memory = beside = quick.start(shape)
    for t in range(60):
        probs = rng.dirichlet(np.ones(S), shape)
        if t == 30:
            probs[0, :5] = np.eye(S)[0]  # some states that come are impossible
        token = rng.integers(S, size=shape)
        memory, beside = quick.update(memory, probs, token), arrays.update(beside, probs, token)
        np.testing.assert_array_equal(memory.tripped_at, beside.tripped_at)
        for mine, theirs in zip(memory.statistics, beside.statistics, strict=True):
            if theirs is not None:
                assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
                np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    assert (memory.tripped_at > 0).any()


def test_the_step_after_an_excluded_state_trips(monkeypatch):
    for way in WAYS if FAST else ("plain",):
        _choose(monkeypatch, way)
        guard = lr.Guard(lr.matching(), 100, rule=_rule(lr.matching(), 100, 0.0, "every", way))
        guard.advise([1.0, 0.0])
        guard.observe(1)
        assert (guard.events[0].excluded, guard.events[0].step) == (True, 1)
