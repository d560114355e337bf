"""A guard that is interrupted, anywhere, has taken the step or has not: never half of it, and its certificate holds.

A trace function raises KeyboardInterrupt at the n-th line that the package runs inside a call, for every n; here of the
guard's own files, and with ``LOWREGRET_FUZZ=200000`` of all, until that many interrupts were tried.
"""

import copy
import itertools
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr

from ..conftest import sweep

CASES = int(os.environ.get("LOWREGRET_FUZZ", "0"))
HOME = str(Path(lr.__file__).parent)
COIN = lr.matching()
HORIZON = 12
KINDS = ("one", "fleet", "policy", "any problem")


class Interrupted:
    """Raise KeyboardInterrupt at the n-th line of the package's own that a call runs."""

    def __init__(self, n: int, where: str) -> None:
        self.left, self.where = n, where

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None  # NumPy's lines are not ours, and nothing of ours is called from there
        if event == "line" and frame.f_code.co_filename.startswith(self.where):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted(call: Callable[[], Any], n: int, where: str) -> bool:
    """Whether the call was cut short at its n-th line under ``where``; False if it has fewer."""
    before = sys.gettrace()
    sys.settrace(Interrupted(n, where))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def state(guard: lr.Guard) -> str:
    return json.dumps(guard.state_dict())


class Play(NamedTuple):
    """A guard, what its model says, what comes, and how far to play before the call that is interrupted."""

    make: Callable[[], lr.Guard]
    probs: np.ndarray
    states: np.ndarray
    at: int

    def advise(self, guard: lr.Guard, t: int) -> Any:
        return guard.advise(self.probs[t]).law

    def observe(self, guard: lr.Guard, t: int) -> None:
        guard.observe(self.states[t], action=guard.act(seed=t) if guard.problem else None)

    def on(self, guard: lr.Guard, begin: int, end: int) -> None:
        for t in range(begin, end):
            self.advise(guard, t)
            self.observe(guard, t)


def a_play(seed: int, kind: str) -> Play:
    """A model that is sure of the wrong state, so that some streams switch at the step that is interrupted."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    shape = {"one": (), "fleet": (3,), "policy": (2,), "any problem": ()}[kind]
    n_states = 2 if kind == "any problem" else int(rng.integers(2, 4))
    problem, horizon = lr.matching(n_states), HORIZON
    wrong = rng.integers(0, n_states, shape)
    probs = np.full((horizon, *shape, n_states), 0.02 / max(n_states - 1, 1))
    np.put_along_axis(probs, np.broadcast_to(wrong, (horizon, *shape))[..., None], 0.98, axis=-1)
    states = (np.broadcast_to(wrong, (horizon, *shape)) + rng.integers(0, n_states, (horizon, *shape))) % n_states
    states[1:5] = (wrong + 1) % n_states  # it is wrong four times in a row: enough for an alarm

    def make() -> lr.Guard:
        if kind == "any problem":
            return lr.Guard(None, horizon)
        fallback: Any = lr.policies.AdaHedge(problem) if kind == "policy" else None
        return lr.Guard(
            problem,
            horizon,
            rule=lr.ExactTest(problem, horizon, delta=0.3, fallback=fallback),
            batch_shape=shape,
        )

    play, tried = Play(make, probs, states, 0), make()
    play.on(tried, 0, 6)
    first = min(event.step for event in tried.events)
    return play._replace(at=first - 1 if seed % 2 == 0 else int(rng.integers(1, 6)))


def the_calls(play: Play, other: dict[str, Any]) -> dict[str, tuple[Callable, Callable]]:
    """Each call that changes a guard: how to get ready for it, and the call."""
    t = play.at
    return {
        "advise": (lambda g: None, lambda g: play.advise(g, t)),
        "observe": (lambda g: play.advise(g, t), lambda g: play.observe(g, t)),
        "restart": (lambda g: None, lambda g: g.restart()),
        "restart some": (lambda g: None, lambda g: g.restart([0] if g.batch_shape else None)),
        "load_state_dict": (lambda g: None, lambda g: g.load_state_dict(other)),
    }


class Ready(NamedTuple):
    """A guard before a call, and after it; and where each of them ends up if play goes on."""

    guard: lr.Guard
    call: Callable[[lr.Guard], Any]
    ends: dict[str, str]  # from the state before or after the call to the state at the end
    wholes: set[bytes]  # all that the guard before the call is made of, and all after it


def ready_for(play: Play, what: str) -> Ready:
    donor = play.make()
    play.on(donor, 0, 6)
    prepare, call = the_calls(play, donor.state_dict())[what]
    guard = play.make()
    play.on(guard, 0, play.at)
    prepare(guard)
    before, done = copy.deepcopy(guard), copy.deepcopy(guard)
    call(done)
    states = {state(g): g for g in (before, done)}  # what is found out only once has now been found out
    wholes = {pickle.dumps(g) for g in (before, done)}
    return Ready(guard, call, {now: gone_on(play, g) for now, g in states.items()}, wholes)


def gone_on(play: Play, guard: lr.Guard) -> str:
    """The state at the end of the horizon, with what was advised and played on the way."""
    seen = []
    for t in range(HORIZON - int(np.max(guard.state_dict()["ledger"][0][1]))):
        advice = play.advise(guard, t)
        seen.append(None if advice is None else np.asarray(advice).tolist())
        seen.append(None if guard.problem is None else np.asarray(guard.policy()).tolist())
        play.observe(guard, t)
    assert (np.asarray(guard.regret) <= guard.certificate.regret_bound + 1e-9).all()
    with pytest.raises(ValueError, match="horizon of 12"):
        play.advise(guard, 0)
    return json.dumps([seen, guard.state_dict()])


def check_interrupt(play: Play, what: str, ready: Ready, n: int, where: str) -> bool:
    """One interrupt; False where the call was over before its n-th line.

    A guard that is byte for byte one of those before and after goes on as they did: of these every tenth is played on.
    """
    guard = copy.deepcopy(ready.guard)
    if not interrupted(lambda: ready.call(guard), n, where):
        return False
    now = state(guard)
    assert now in ready.ends, f"{what}, line {n}: neither before the step nor after it"
    told = {(event.stream, event.episode) for event in guard.events}
    for index in map(tuple, np.argwhere(np.asarray(guard.switched)).tolist()):
        stream = index[0] if len(index) == 1 else index
        assert (stream, int(guard.episodes[index])) in told, f"{what}, line {n}: a switch without its event"
    if n % 10 == 1 or pickle.dumps(guard) not in ready.wholes:
        assert gone_on(play, guard) == ready.ends[now], f"{what}, line {n}: it goes on otherwise"
    return True


def every_line(seed: int, kind: str, where: str, every: int) -> int:
    """How many lines there were, one of so many."""
    play, tried = a_play(seed, kind), 0
    for what in the_calls(play, {}):
        ready = ready_for(play, what)
        for n in itertools.count(1, every):
            if not check_interrupt(play, what, ready, n, where):
                assert n > 3, f"{what} of {kind} ran no lines"
                break
            tried += 1
    return tried


@pytest.mark.parametrize("every", sweep([4, 1], usual=1))
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_at_any_line_leaves_a_whole_step_or_none(kind: str, every: int) -> None:
    tried = 0
    for seed in itertools.count() if CASES else range(1):
        tried += every_line(seed, kind, HOME if CASES else f"{HOME}/guard", every)
        if CASES and tried >= CASES / len(KINDS):
            break
    print(f"{tried} interrupts")
    assert tried > 150 // every


def wrong_for_long(guard: lr.Guard) -> None:
    for _ in range(20):
        guard.advise(np.broadcast_to([0.98, 0.02], (*guard.batch_shape, 2)))
        guard.observe(np.ones(guard.batch_shape, dtype=int))


@pytest.mark.parametrize("wrong", [RuntimeError, OSError])
def test_a_callback_that_raises_silences_no_other_stream(wrong: type[Exception]) -> None:
    heard: list[lr.Switch] = []

    def tell(event: lr.Switch) -> None:
        heard.append(event)
        if event.stream != 1:
            raise wrong(f"stream {event.stream} cannot be told")

    guard = lr.Guard(COIN, 50, batch_shape=(3,), on_event=tell)
    with pytest.raises(wrong, match="stream 0 cannot be told") as caught:
        wrong_for_long(guard)
    assert [event.stream for event in heard] == [0, 1, 2]
    assert heard == guard.events
    others = caught.value.__cause__
    assert isinstance(others, ExceptionGroup)
    assert [str(error) for error in others.exceptions] == ["stream 2 cannot be told"]
    step = heard[0].step
    assert guard.state_dict()["clock"] == step  # the step counts: what it led to is what is advised now
    advice = guard.advise(np.tile([0.98, 0.02], (3, 1))).law
    assert advice is not None
    assert (advice[:, 1] > 0.5).all()


def test_a_single_error_of_a_callback_comes_out_as_it_is() -> None:
    def tell(event: lr.Switch) -> None:
        raise OSError("no line")

    guard = lr.Guard(COIN, 50, on_event=tell)
    with pytest.raises(OSError, match="no line") as caught:
        wrong_for_long(guard)
    assert caught.value.__cause__ is None
    assert len(guard.events) == 1


def test_a_callback_may_restart_the_guard_it_hears_from() -> None:
    guard = lr.Guard(COIN, 50, on_event=lambda event: guard.restart())
    wrong_for_long(guard)
    assert int(guard.episodes) == len(guard.events) + 1 > 2
    assert [event.episode for event in guard.events] == list(range(1, len(guard.events) + 1))


def test_threads_that_share_a_guard_lose_no_step() -> None:
    guard, done, rounds = lr.Guard(COIN, 10**6), [0] * 4, 150
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(i: int) -> None:
        for t in range(rounds):
            guard.advise([0.5, 0.5])
            try:
                guard.observe(t % 2, action=guard.act(seed=i))
            except ValueError:  # another thread has observed what this one advised
                continue
            done[i] += 1

    threads = [Thread(target=work, args=(i,)) for i in range(len(done))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    saved = guard.state_dict()
    assert saved["clock"] == sum(done) == saved["ledger"][0][1] >= rounds
    assert saved["ledger"][3] == sum(done)  # actions reported


def test_a_guard_with_a_lock_is_copied_and_goes_on() -> None:
    guard = lr.Guard(COIN, 50)
    guard.advise([0.9, 0.1])
    for twin in (copy.copy(guard), copy.deepcopy(guard), pickle.loads(pickle.dumps(guard))):
        twin.observe(1)
        assert state(twin) != state(guard)
