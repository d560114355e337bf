"""What a guard promises beside its certificate: what it waits for, whose its states are, that its draws are fresh."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr

COIN = lr.matching()
WRONG = [0.9, 0.1]
KINDS: dict[str, Callable[[Any], Any]] = {"numpy": np.asarray, "torch": torch.as_tensor}


def play(guard: lr.Guard, probs: Any, states: Any, actions: Any = None) -> None:
    for t, law in enumerate(probs):
        guard.advise(law)
        guard.observe(states[t], None if actions is None else actions[t])


def through_json(guard: lr.Guard) -> dict[str, Any]:
    return json.loads(json.dumps(guard.state_dict(), allow_nan=False))


def test_a_switch_says_that_the_model_had_excluded_what_came() -> None:
    for rule in (lr.ExactTest(COIN, 20), lr.rules.VRegret(20)):
        guard = lr.Guard(rule.problem, 20, rule=rule)
        play(guard, [[1.0, 0.0]], [1])
        (event,) = guard.events
        assert event.excluded
        assert str(event) == (
            f"switched after 1 steps of episode 1: a state came to which the model had given probability 0 "
            f"({type(rule).__name__})"
        )
    for likelihood, words in ((False, "action 1 would have earned more"), (True, "recent frequencies predict better")):
        guard = lr.Guard(COIN, 20, likelihood=likelihood)
        play(guard, np.tile(WRONG, (12, 1)), np.ones(12, dtype=int))
        assert not guard.events[0].excluded
        assert words in str(guard.events[0])


# A state is of one guard


def last_or(chance: float) -> Callable[[Any], list[float]]:
    def law(history: Any) -> list[float]:
        return [1 - chance, chance] if len(history) == 0 or history[-1] else [0.5, 0.5]

    return law


def test_functions_are_told_apart_by_name_too() -> None:
    guard = lr.Guard(COIN, 12, temperature=0.3, fallback=lr.FromFunction(last_or(0.5), 2))
    with pytest.raises(ValueError, match="differs in: fallback"):
        lr.Guard(COIN, 12, temperature=0.3, fallback=lr.FromFunction(lambda history: [0.5, 0.5], 2)).load_state_dict(
            through_json(guard)
        )


# Draws


def test_actions_are_independent_of_a_world_with_the_same_seed() -> None:
    agree = 0
    for seed in range(400):
        guard = lr.Guard(COIN, 10, temperature=1.0)
        guard.advise([0.5, 0.5])
        agree += guard.act(seed) == int(np.random.default_rng(seed).random() >= 0.5)
    assert abs(agree - 200) < 4.5 * 10  # a fair coin's standard deviation is 10: 7e-6


def test_no_two_draws_share_their_seed() -> None:
    """Seeds, steps and guards made otherwise: all uniforms differ."""
    drawn = set()
    guards = [lr.Guard(lr.matching(n), T, batch_shape=shape) for n in (2, 3) for T in (5, 6) for shape in ((), (1,))]
    guards.append(lr.Guard(COIN, 5, rule=lr.rules.RegretGap(COIN, 5)))
    for guard in guards:
        for seed in (0, 1, 2, 2**32, 2**32 + 1, 2**64, 2**160):
            for clock in range(4):
                drawn.update(np.ravel(guard._draws.uniforms(seed, clock)).tolist())
    assert len(drawn) == len(guards) * 7 * 4


def test_a_resumed_guard_draws_what_it_would_have() -> None:
    guard = lr.Guard(COIN, 50, temperature=1.0)
    play(guard, np.tile([0.5, 0.5], (5, 1)), [0, 1, 0, 1, 0])
    other = lr.Guard(COIN, 50, temperature=1.0)
    other.load_state_dict(through_json(guard))
    for one in (guard, other):
        one.advise([0.5, 0.5])
    assert [guard.act(s) for s in range(40)] == [other.act(s) for s in range(40)]


def test_what_a_guard_hands_out_is_the_callers_own() -> None:
    for kind in KINDS:
        guard = lr.Guard(COIN, 30, batch_shape=(2,))
        play(guard, [KINDS[kind](np.tile(WRONG, (2, 1)))] * 5, [[1, 0]] * 5, [[0, 0]] * 5)
        guard.restart([0])
        guard.advise(KINDS[kind](np.tile(WRONG, (2, 1))))
        before, bound = json.dumps(guard.state_dict()), guard.certificate.regret_bound
        policy = np.asarray(guard.policy()).tolist()
        for handed in (
            guard.episodes, guard.regret, guard.realised_regret, guard.switched, guard.policy(), guard.act(0),
            *guard.evidence,
        ):  # fmt: skip
            handed[...] = 99
        for event in (events := guard.events):
            assert isinstance(event, tuple)
        events.clear()
        assert json.dumps(guard.state_dict()) == before
        assert guard.certificate.regret_bound == bound
        assert np.asarray(guard.policy()).tolist() == policy


@pytest.mark.parametrize("settings", [{}, {"lag": 3}, {"test": False}, {"references": ("today",)}])
def test_all_that_is_promised_adds_what_outcomes_that_never_came_may_have_cost(settings):
    guard, told = lr.Guard(lr.matching(), 200, **settings), {}
    if "references" in settings:
        told = {"references": [[0.5, 0.5]]}
    before = guard.certificate
    for _ in range(10):
        guard.advise([0.6, 0.4], **told)
        guard.skip()
    after, more = guard.certificate, 10 / 200
    readings = [
        lambda given: given.regret_bound,
        lambda given: given.sharpen().regret_bound,
        lambda given: given.realised(0.9).regret_bound,
        lambda given: given.sharpen().realised(0.9).regret_bound,
        lambda given: given.against_model,
        lambda given: 0 if given.between is None else given.interval(1, 200) / 200,
    ]
    found = [read(after) - read(before) for read in readings]
    wanted = [more] * 5 + [0 if "test" in settings else more]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
