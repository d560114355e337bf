"""Episodes of a guard: restarts of all or some streams, and what the certificate charges for them."""

import logging
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr

from ..guarded_runs import COIN, KINDS, RULES, WRONG, a_game, a_run, last_state, play, rule_named


def test_the_horizon_is_a_promise() -> None:
    guard = lr.Guard(COIN, 3)
    play(guard, np.tile(WRONG, (3, 1)), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match=r"horizon of 3 steps is over.*restart\(\).*horizon=None"):
        guard.advise(WRONG)
    guard.restart()
    play(guard, np.tile(WRONG, (3, 1)), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match=r"restart\(\)"):
        guard.advise(WRONG)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", RULES)
def test_a_new_episode_is_a_new_guard(name: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    problem = a_game(rng)
    rule = rule_named(name, problem, 24)
    guard = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(4,))
    for episode in range(1, 4):
        fresh = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(4,))
        probs, states, actions = a_run(rng, problem, (4,), 24)
        before = len(guard.events)
        for one, other in zip(
            play(guard, KINDS[kind](probs), states, actions),
            play(fresh, KINDS[kind](probs), states, actions),
            strict=True,
        ):
            assert np.array_equal(one, other)
        assert np.array_equal(np.asarray(guard.regret), np.asarray(fresh.regret))
        assert np.array_equal(np.asarray(guard.realised_regret), np.asarray(fresh.realised_regret), equal_nan=True)
        assert guard.events[before:] == [e._replace(episode=episode) for e in fresh.events]
        assert np.asarray(guard.episodes).tolist() == [episode] * 4
        guard.restart()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(
    "streams",
    [[0, 3], (3, 0), np.array([0, 3]), [True, False, False, True], np.array([True, False, False, True]), [3, 0, 3]],
    ids=["list", "tuple", "array", "list mask", "mask", "repeats"],
)
def test_some_streams_start_again(streams: Any, kind: str) -> None:
    rng = np.random.default_rng(6)
    rule = lr.rules.RegretRate(COIN, 12, alpha=0.3)
    guard = lr.Guard(COIN, 12, rule=rule, batch_shape=(4,))
    probs, states, actions = a_run(rng, COIN, (4,), 12)
    play(guard, KINDS[kind](probs[:, :6]), states[:, :6], actions[:, :6])
    guard.restart(streams)
    assert np.asarray(guard.episodes).tolist() == [2, 1, 1, 2]
    advice = play(guard, KINDS[kind](probs[:, 6:]), states[:, 6:], actions[:, 6:])
    for i in range(4):
        lone = lr.Guard(COIN, 12, rule=rule)
        whole = i in (1, 2)
        begin = 0 if whole else 6
        alone = play(lone, KINDS[kind](probs[i, begin:]), states[i, begin:], actions[i, begin:])
        assert np.allclose(np.stack(alone[-6:]), np.stack(advice)[:, i], atol=1e-12)
        assert float(guard.regret[i]) == pytest.approx(lone.regret, abs=1e-12)
        assert float(guard.realised_regret[i]) == pytest.approx(lone.realised_regret, abs=1e-12, nan_ok=True)
    with pytest.raises(ValueError, match="horizon of 12"):  # streams 1 and 2 have had theirs
        guard.advise(KINDS[kind](probs[:, 0]))
    guard.restart([1, 2])
    guard.advise(KINDS[kind](probs[:, 0]))
    assert np.asarray(guard.episodes).tolist() == [2, 2, 2, 2]


def test_streams_are_chosen_along_the_first_axis() -> None:
    guard = lr.Guard(COIN, 12, batch_shape=(2, 3))
    guard.advise(np.full((2, 3, 2), 0.5))
    guard.observe(np.zeros((2, 3), dtype=np.int64))
    guard.restart(1)
    assert guard.episodes.tolist() == [[1, 1, 1], [2, 2, 2]]
    guard.restart([])
    assert guard.episodes.tolist() == [[1, 1, 1], [2, 2, 2]]
    guard.restart(torch.tensor([0]))
    assert guard.episodes.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_a_fallback_that_grows_starts_again_as_one() -> None:
    """Its memory has one length for all streams: some of them cannot start again, all of them can."""
    for steps in (1, 2, 3):
        guard = lr.Guard(COIN, 12, temperature=0.3, fallback=last_state(2), batch_shape=(2,))
        play(guard, np.full((2, steps, 2), 0.5), np.zeros((2, steps), dtype=np.int64))
        before = guard.state_dict()
        with pytest.raises(ValueError, match="different ages"):
            guard.restart([0])
        assert guard.state_dict() == before
        guard.restart([0, 1])
        assert guard.episodes.tolist() == [2, 2]
        play(guard, np.full((2, 12, 2), 0.5), np.zeros((2, 12), dtype=np.int64))


def test_episodes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    guard = lr.Guard(COIN, 12, batch_shape=(4,))
    with caplog.at_level(logging.INFO, logger="lowregret"):
        guard.restart([1, 2])
        guard.restart()
    assert [r.getMessage() for r in caplog.records] == [
        "new episode for 2 of 4 streams",
        "new episode for 4 of 4 streams",
    ]


@pytest.mark.parametrize("delta", [0.001, 0.3])
def test_the_certificate_adds_episodes(delta: float) -> None:
    guard = lr.Guard(COIN, 12, rule=lr.ExactTest(COIN, 12, delta=delta, fallback=lr.PolyaUrn(2)), batch_shape=(3,))
    one = guard.certificate
    assert (one.episodes, one.tv_bound) == (1, delta)
    for opened in range(2, 6):
        guard.restart([opened % 3])
        guard.restart([0])
        many_ = guard.certificate
        assert many_.episodes == int(guard.episodes.max())
        assert many_.tv_bound == pytest.approx(min(1.0, delta * many_.episodes))
        assert many_.regret_bound == pytest.approx(one.regret_bound, rel=1e-14)
    assert guard.certificate.episodes > 4
    assert guard.certificate.tv_bound <= 1


def test_episodes_cut_short_are_charged_what_they_may_cost() -> None:
    """A bound for full episodes says little of short ones: each is charged the bound of its own length."""
    coin = lr.matching()
    guard, lost = lr.Guard(coin, horizon=300), 0.0
    lengths = [1, 1, 5, 40, 300]
    for i, length in enumerate(lengths):
        for _ in range(length):
            guard.advise([0.99, 0.01])
            guard.observe(1)
        lost += length * guard.regret
        if i + 1 < len(lengths):
            guard.restart()
    given = guard.certificate
    one = lr.Guard(coin, horizon=300).certificate
    charged = sum(t * one.at(t).regret_bound for t in lengths) / sum(lengths)
    assert given.regret_bound == pytest.approx(charged)
    assert lost / sum(lengths) <= given.regret_bound
    assert given.regret_bound > one.regret_bound
    assert given.tv_bound == pytest.approx(5 * one.tv_bound)
    assert "5 episodes" in str(given)
