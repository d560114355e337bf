"""A call that is cut short anywhere was made or was not, never half of it; threads may share a guard."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from ..conftest import sweep
from .plays import COIN, KINDS, arrivals, of_stream, step_of

pytestmark = pytest.mark.usefixtures("form")
HOME = str(Path(lr.__file__).parent)


class Interrupted:
    """Raises at the n-th line of the package that a call runs."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None  # NumPy's lines are not ours
        self.left -= event == "line"
        if self.left == 0:
            raise KeyboardInterrupt
        return self


def cut_short(call: Callable[[], Any], n: int) -> bool:
    """Whether the call was cut short at its n-th line; False if it has fewer."""
    before = sys.gettrace()
    sys.settrace(Interrupted(n))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def before_an_alarm(make: Callable[[], lr.Guard]) -> tuple[bytes, dict[str, Any], Any, dict[str, int]]:
    """A guard before an outcome that raises an alarm; what is said next, that outcome, and of which step it is."""
    guard, rng, outcomes = make(), np.random.default_rng(0), {}
    when: Callable[[int], dict[str, int]] = lambda t: {"step": t} if guard.lag > 1 else {}  # noqa: E731
    for what, t in arrivals(60, guard.lag, rng):
        data = guard.dumps()
        if what == "advise":
            said, came = step_of(guard, rng, t, 3)
            said, outcomes[t] = (said, came) if guard.shape else (of_stream(said, 0), came.tolist()[0])
            guard.advise(**said)
        else:
            guard.observe(outcomes[t], **when(t))
        if guard.events:
            return data, said, outcomes[t], when(t)
    raise AssertionError("no alarm")


@pytest.mark.parametrize("every", sweep([47, 1], usual=1))
@pytest.mark.parametrize(("kind", "n"), [("default", None), ("changing, scaled, late", 3), ("quantiles", 3)])
def test_an_interrupt_at_any_line_leaves_a_whole_step_or_none(kind: str, n: int | None, every: int) -> None:
    make = partial(KINDS[kind], streams=n)
    data, said, outcome, when = before_an_alarm(make)
    guard, done, fresh = make(), make(), make().dumps()
    calls: dict[str, Callable[[lr.Guard], Any]] = {
        "observe": lambda g: g.observe(outcome, g.act(1, **when), **when),
        "observe another": lambda g: g.observe(0, **when) if n is None else g.skip(),
        "advise anew": lambda g: g.advise(**said, **when),
        "advise the next": lambda g: g.advise(**said, step=g.waiting[-1] + 1),
        "restart": lambda g: g.restart([0]),
        "loads": lambda g: g.loads(fresh),
    }
    calls |= {} if n is None else {"add": lambda g: g.add(2), "retire": lambda g: g.retire([0])}
    for name, call in calls.items():
        done.loads(data)
        call(done)
        assert name != "observe" or isinstance(done.events[-1], lr.Alarm)
        before_or_after, line = {data, done.dumps()}, 1
        while True:
            guard.loads(data)
            if not cut_short(partial(call, guard), line):
                break
            assert guard.dumps() in before_or_after, f"{name}, line {line}: neither before the call nor after it"
            line += every
        assert line > 5, name


def test_threads_that_share_a_guard_lose_no_step() -> None:
    guard, done, rounds = lr.Guard(COIN, test=lr.ExactTest(1e-9)), [0] * 4, 100
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(i: int) -> None:
        for t in range(rounds):
            guard.advise(np.array([0.5, 0.5]))
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
        sys.setswitchinterval(usual)
    assert guard.steps == guard._head("reported")[0] == sum(done) >= rounds
    assert guard._state.advised == sum(done) + len(guard.waiting)
