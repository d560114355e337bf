"""What a guard was asked, kept until the label comes: a label judges what was said and played, or it is refused.

Rows are known by a key (their content). With an id a row is a *step* of the guard from then on, and as many as its lag
may wait for their labels, which come in any order. A *question* has no id and binds nobody: it is asked of the next
step, which is advised anew when the label comes, and counts if the guard has not moved since.
"""

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..problems import Positions
from .advice import Advice
from .guard import Guard
from .memory import Due, GuardMemory

MOST = 1000  # questions that are kept
_LATE = "labels that come late need lag= and ids, the same when the row is asked and when its label comes"
_AS_GIVEN = ("context", "scale")  # what does not change while a model learns


class AskedRows(NamedTuple):
    """What is known of N rows before their labels: what the model says of each, and what else ``advise`` is told."""

    laws_NxS: np.ndarray
    told: dict[str, np.ndarray]  # by the arguments of ``advise``, each with a first axis of N

    def said(self, row: int) -> dict[str, Any]:
        """The arguments of ``advise`` for one of them."""
        return {"forecast": self.laws_NxS[row].copy(), **{name: part[row] for name, part in self.told.items()}}


class Question(NamedTuple):
    """What was asked of the next step."""

    at: GuardMemory  # where the guard stood
    said: dict[str, Any]  # as ``advise`` takes it
    is_alone: bool  # not among other rows, which cannot all be played next


class Held(NamedTuple):
    """A question that waits for its label, as it was asked last."""

    last: Question
    alone: bool  # whether it was so when it was first asked: then whatever it was answered may have been played
    alike: bool = True  # whether it was given the same answer each time


class Step(NamedTuple):
    """What was asked with an id, and the answer."""

    key: bytes
    said: dict[str, Any]  # as ``advise`` takes it
    due: Due  # as it waits in the guard
    advice: Advice


class Asked:
    """The questions and steps of one guard that wait for their labels. Threads may share it as they share the guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._questions: dict[bytes, Held] = {}
        self._steps: dict[Hashable, Step] = {}  # in the order of their numbers
        self._has_dropped = False

    # Asking

    def laws(self, keys: Sequence[bytes], rows: AskedRows, ids: Sequence[Hashable] | None = None) -> np.ndarray:
        """The laws ``[N, S]`` to act on; without ids each row is asked of the next step.

        ``keys`` are those of the last rows at least.
        """
        return self._answers(keys, rows, ids, "law")

    def policies(self, keys: Sequence[bytes], rows: AskedRows, ids: Sequence[Hashable] | None = None) -> np.ndarray:
        """The mixed actions ``[N, A]`` that are played, likewise."""
        return self._answers(keys, rows, ids, "policy")

    def _answers(self, keys: Sequence[bytes], rows: AskedRows, ids: Sequence[Hashable] | None, part: str) -> np.ndarray:
        """That part of every advice."""
        n, problem = len(rows.laws_NxS), self._guard.problem
        if ids is not None:
            found = [getattr(step.advice, part) for step in self._opened(keys, rows, ids)]
        else:
            ahead = copy(self._guard)
            # Before a switch the laws to act on are the model's: the first row tells whether there is a next step.
            as_said = part == "law" and not ahead.switched and ahead.rule.knows is None
            at, asked = ahead._at, range(min(n, 1) if as_said else n)
            found = [getattr(_answer(ahead, at, rows.said(row)), part) for row in asked]
            self._note(at, keys, rows)
            if as_said:
                return rows.laws_NxS
        assert problem is not None
        return np.array(found).reshape(n, problem.n_states if part == "law" else problem.n_actions)

    def _note(self, at: GuardMemory, keys: Sequence[bytes], rows: AskedRows) -> None:
        """Questions that were answered while the guard stood there."""
        keys, n = keys[-MOST:], len(rows.laws_NxS)
        with self._guard._lock:
            for row, key in enumerate(keys, start=n - len(keys)):
                now = Question(at, rows.said(row), n == 1)
                held = self._questions.pop(key, None)
                if held is None or not held.alone:
                    self._questions[key] = Held(now, now.is_alone)
                else:
                    self._questions[key] = Held(now, True, held.alike and self._alike(held.last, now))
            for key in list(self._questions)[: max(0, len(self._questions) - MOST)]:
                del self._questions[key]
                self._has_dropped = True

    def _opened(self, keys: Sequence[bytes], rows: AskedRows, ids: Sequence[Hashable]) -> list[Step]:
        """Steps with these ids, all of them or none; one that waits has the answer that it was given."""
        found: list[Step] = []
        with self._guard._as_one() as ahead:
            self._forget_dead()
            steps = dict(self._steps)
            for row, (key, one) in enumerate(zip(keys, ids, strict=True)):
                step, said = steps.get(one), rows.said(row)
                if step is None:
                    first = _first_due(ahead, steps)
                    if first is not None:
                        raise ValueError(
                            f"id {one!r} cannot be asked yet: with lag={ahead.lag} the label of id {first!r} must come "
                            "before, or skip(id=...) gives it up; a larger lag lets more of them wait"
                        )
                    advice = ahead.advise(**said)
                    step = steps[one] = Step(key, said, ahead._at.waiting[-1], advice)
                elif step.key != key or any(said.get(name) != step.said.get(name) for name in _AS_GIVEN):
                    raise ValueError(f"id {one!r} waits for the label of another row: each step has an id of its own")
                found.append(step)
            self._steps = steps
        return found

    # The label

    def label(
        self, key: bytes, what: str, state: int, action: Any = None, done: Callable[[], object] | None = None
    ) -> bool:
        """Take the step of the question that was asked of this row; False, and nothing is done: none was.

        ``done`` is called before the step counts, which it does unless that fails.
        """
        with self._guard._as_one() as ahead:
            found = self._questions.get(key)
            if found is None:
                return False
            self._refuse_other_play(ahead, found, what)
            ahead.advise(**found.last.said)
            ahead.observe(Positions(state), action, step=ahead._at.waiting[-1].step)
            if done is not None:
                done()
            del self._questions[key]
        return True

    def only(self, what: str) -> bytes | None:
        """The key of the one question since the last label, for the label of a row that was not asked as it is."""
        with self._guard._lock:
            now = [key for key, held in self._questions.items() if _same(held.last.at, self._guard._at)]
            if len(now) > 1 or (not now and self._has_dropped):
                many = f"{len(now)} others wait for their labels" if now else f"over {MOST} others never had a label"
                raise ValueError(f"{what} was not asked, and {many}: {_LATE}; skip() forgets those that get none")
            return now[0] if now else None

    def _refuse_other_play(self, ahead: Guard, held: Held, what: str) -> None:
        """Where the step would not be what was said and played."""
        last = held.last
        self._forget_dead()
        one = _first_due(ahead, self._steps)
        if one is not None:
            raise ValueError(f"id {one!r} waits for its label, which must come before that of {what}")
        if not _same(last.at, ahead._at):
            since = f"asked when {last.at.clock} labels had come, which are {ahead._at.clock} now"
            if last.at.clock == ahead._at.clock:
                since = "asked before the guard was restarted, or before other steps were"
            raise ValueError(f"{what} was {since}, and what was played then is not what would be judged: {_LATE}")
        if not held.alike:
            raise ValueError(
                f"{what} was asked more than once and answered differently; which of it was played cannot be told: "
                f"{_LATE}; skip() forgets questions that get no label"
            )

    def label_steps(
        self,
        ids: Sequence[Hashable],
        states: Sequence[int],
        actions: Sequence[Any],
        keys: Sequence[bytes] | None = None,
        done: Callable[[], object] | None = None,
    ) -> None:
        """The labels of the steps with these ids, all of them or none; ``keys``: the rows they are said to be of."""
        with self._guard._as_one() as ahead:
            for i, (one, state, action) in enumerate(zip(ids, states, actions, strict=True)):
                step = self._step(one)
                if keys is not None and keys[i] != step.key:
                    raise ValueError(f"id {one!r} was asked of another row than the one that came with its label")
                ahead.observe(Positions(state), action, step=step.due.step)
            if done is not None:
                done()
            for one in ids:
                del self._steps[one]

    # Without a label

    def skip(self, ids: Sequence[Hashable] | None = None) -> None:
        """Give up the labels of these steps; None: forget all questions."""
        with self._guard._as_one() as ahead:
            if ids is None:
                self._questions.clear()
                self._has_dropped = False
                return
            for step in [self._step(one) for one in ids]:
                ahead.skip(step.due.step)
            for one in ids:
                del self._steps[one]

    # Inside

    def _step(self, one: Hashable) -> Step:
        step = self._steps.get(one)
        if step is None:
            known = f"those that do: {inputs.shown(list(self._steps))}" if self._steps else "none does"
            raise ValueError(f"id {one!r} waits for no label, it was not asked or has had its label; {known}")
        if not self._lives(step):
            raise ValueError(f"id {one!r} was asked before the guard was restarted, loaded or moved on by hand")
        return step

    def _lives(self, step: Step) -> bool:
        return any(due.forecast is step.due.forecast for due in self._guard._at.waiting)

    def _forget_dead(self) -> None:
        self._steps = {one: step for one, step in self._steps.items() if self._lives(step)}

    def _alike(self, first: Question, last: Question) -> bool:
        """Whether both were given the same answer, so that it does not matter which was acted on."""
        if not all(_close(first.said[name], part) for name, part in last.said.items()):
            return False
        if _same(first.at, last.at):
            return True
        ahead = copy(self._guard)
        return _close(*(_answer(ahead, question.at, question.said).policy for question in (first, last)))


def _same(one: GuardMemory, other: GuardMemory) -> bool:
    """Whether the next step is the same to both."""
    return one.ledger is other.ledger and one.advised == other.advised


def _close(one: Any, other: Any) -> bool:
    return np.allclose(one, other, rtol=0, atol=1e-12)


def _first_due(ahead: Guard, steps: dict[Hashable, Step]) -> Hashable | None:
    """The first id whose label must come before the next step is taken."""
    last = ahead._at.advised + 1 - ahead.lag
    return next((one for one, step in steps.items() if step.due.step <= last), None)


def _answer(ahead: Guard, at: GuardMemory, said: dict[str, Any]) -> Advice:
    """The advice of a guard that stands there, a copy, for its next step.

    Where that has to wait for a label, for the step that waits for it, anew: as much is known of both.
    """
    ahead._at = at
    is_full = bool(at.waiting) and at.waiting[0].step <= at.advised + 1 - ahead.lag
    return ahead.advise(**said, step=at.waiting[0].step if is_full else None)


def ids_of(given: Any, n: int) -> list[Hashable]:
    """One id for each of n rows: a list of them, or the id itself where there is one row."""
    listed = given.tolist() if hasattr(given, "tolist") else list(given) if isinstance(given, range) else given
    ids = listed if isinstance(listed, list) else [listed]
    try:
        right = len(ids) == n == len(set(ids)) and all(one is not None and one == one for one in ids)
    except TypeError:  # one has no hash
        right = False
    if not right:
        raise ValueError(f"id must be one for each row, {n} of them and all different, got {inputs.shown(given)}")
    return ids
