"""What a guard was asked, kept until the label comes: a label judges what was said and played, or it is refused.

Rows are known by a key (their content). A *question* is asked of the next step and binds nobody: its label counts if
the guard has not moved since, so that what was said is still what the step plays. A *step* has an id: it is the
guard's from then on, and as many as the guard's lag may wait for their labels, which come in any order.
"""

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..problems import Positions
from .guard import Guard
from .standing import Standing

MOST = 1000  # questions that are kept
_LATE = "labels that come late need lag= and ids, the same when the row is asked and when its label comes"


class Question(NamedTuple):
    """What was asked of the next step."""

    at: Standing  # where the guard stood
    law_S: np.ndarray  # what the model said
    is_alone: bool  # not among other rows, which cannot all be played next


class Step(NamedTuple):
    """What was asked with an id, and the answer."""

    key: bytes
    at: Standing  # where the guard stood then
    number: int | None  # among the guard's steps, where it has a lag
    law_S: np.ndarray  # what the model said
    advice_S: np.ndarray | None  # what to act on
    mixed_A: np.ndarray  # what is played


class Asked:
    """The questions and steps of one guard that wait for their labels. Threads may share it as they share the guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._questions: dict[bytes, tuple[Question, Question]] = {}  # as it was asked first, and last
        self._steps: dict[Hashable, Step] = {}
        self._has_dropped = False

    # Asking

    def laws(self, keys: Sequence[bytes], laws_NxS: np.ndarray, ids: Sequence[Hashable] | None = None) -> np.ndarray:
        """The laws ``[N, S]`` to act on, where the model says these; without ids each is for the next step.

        ``keys`` are those of the last rows at least.
        """
        if ids is not None:
            return np.array([step.advice_S for step in self._opened(keys, laws_NxS, ids)]).reshape(laws_NxS.shape)
        ahead, said_NxS = copy(self._guard), laws_NxS
        at = ahead._at
        if len(laws_NxS):
            ahead.advise(laws_NxS[0])  # it may open an episode, or be refused
        if ahead.switched:
            said_NxS = np.array([_ahead(ahead, at, law_S) for law_S in laws_NxS])
        self._note(at, keys, laws_NxS)
        return said_NxS

    def policies(
        self, keys: Sequence[bytes], laws_NxS: np.ndarray, ids: Sequence[Hashable] | None = None
    ) -> np.ndarray:
        """The mixed actions ``[N, A]`` that are played, likewise."""
        assert self._guard.problem is not None
        mixed_NxA = np.empty((len(laws_NxS), self._guard.problem.n_actions))
        if ids is not None:
            for row, step in enumerate(self._opened(keys, laws_NxS, ids)):
                mixed_NxA[row] = step.mixed_A
            return mixed_NxA
        ahead = copy(self._guard)
        at = ahead._at
        for row, law_S in enumerate(laws_NxS):
            _ahead(ahead, at, law_S)
            mixed_NxA[row] = ahead.policy()
        self._note(at, keys, laws_NxS)
        return mixed_NxA

    def _note(self, at: Standing, keys: Sequence[bytes], laws_NxS: np.ndarray) -> None:
        """Questions that were answered while the guard stood there."""
        keys = keys[-MOST:]
        with self._guard._lock:
            for key, law_S in zip(keys, laws_NxS[len(laws_NxS) - len(keys) :], strict=True):
                now = Question(at, law_S.copy(), len(laws_NxS) == 1)
                first, _ = self._questions.pop(key, (now, now))
                self._questions[key] = first if first.is_alone else now, now
            for key in list(self._questions)[: max(0, len(self._questions) - MOST)]:
                del self._questions[key]
                self._has_dropped = True

    def _opened(self, keys: Sequence[bytes], laws_NxS: np.ndarray, ids: Sequence[Hashable]) -> list[Step]:
        """Steps with these ids, all of them or none; one that waits has the answer that it was given."""
        found: list[Step] = []
        with self._guard._as_one() as ahead:
            self._forget_dead()
            fresh: dict[Hashable, Step] = {}
            for key, law_S, one in zip(keys, laws_NxS, ids, strict=True):
                step = self._steps.get(one)
                if step is None:
                    self._refuse_full(ahead, one, fresh)
                    advice_S = ahead.advise(law_S).law
                    number = ahead._at.advised if ahead.lag > 1 else None
                    step = fresh[one] = Step(key, ahead._at, number, law_S.copy(), advice_S, ahead.policy(step=number))
                elif step.key != key:
                    raise ValueError(f"id {one!r} waits for the label of another row: each step has an id of its own")
                found.append(step)
            self._steps.update(fresh)
        return found

    def _refuse_full(self, ahead: Guard, new: Hashable, fresh: dict[Hashable, Step]) -> None:
        waiting = {**self._steps, **fresh}
        oldest = min(waiting, key=lambda one: waiting[one].number or 0, default=None)
        if not waiting or (ahead.lag > 1 and (waiting[oldest].number or 0) > ahead._at.advised + 1 - ahead.lag):
            return
        raise ValueError(
            f"id {new!r} cannot be asked yet: with lag={ahead.lag} the label of id {oldest!r} must come before, or "
            "skip(id=...) gives it up; a larger lag lets more of them wait"
        )

    # The label

    def label(
        self, key: bytes, what: str, state: int, action: Any = None, done: Callable[[], Any] | None = None
    ) -> bool:
        """Take the step of the question that was asked of this row; False, and nothing is done: none was.

        ``done`` is called before the step counts, which it does unless that fails.
        """
        with self._guard._as_one() as ahead:
            found = self._questions.get(key)
            if found is None:
                return False
            self._refuse_other_play(ahead, *found, what)
            ahead.advise(found[1].law_S)
            ahead.observe(Positions(state), action, step=ahead._at.advised if ahead.lag > 1 else None)
            if done is not None:
                done()
            del self._questions[key]
        return True

    def only(self, what: str) -> bytes | None:
        """The key of the one question since the last label, for the label of a row that was not asked as it is."""
        with self._guard._lock:
            now = [key for key, (_, last) in self._questions.items() if self._same(last.at, self._guard._at)]
            if len(now) > 1 or (not now and self._has_dropped):
                many = f"{len(now)} others wait for their labels" if now else f"over {MOST} others never had a label"
                raise ValueError(f"{what} was not asked, and {many}: {_LATE}; skip() forgets those that get none")
            return now[0] if now else None

    def _refuse_other_play(self, ahead: Guard, first: Question, last: Question, what: str) -> None:
        """Where the step would not be what was said and played."""
        if ahead.lag == 1:
            self._forget_dead()
            for one in self._steps:
                raise ValueError(f"id {one!r} waits for its label, which must come before that of {what}")
        if not self._same(last.at, ahead._at):
            since = f"asked when {last.at.clock} labels had come, which are {ahead._at.clock} now"
            if last.at.clock == ahead._at.clock:
                since = "asked before the guard was restarted, or before other steps were"
            raise ValueError(f"{what} was {since}, and what was played then is not what would be judged: {_LATE}")
        if first is not last and not self._alike(first, last):
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
        done: Callable[[], Any] | None = None,
    ) -> None:
        """The labels of the steps with these ids, all of them or none; ``keys``: the rows they are said to be of."""
        with self._guard._as_one() as ahead:
            for i, (one, state, action) in enumerate(zip(ids, states, actions, strict=True)):
                step = self._step(one)
                if keys is not None and keys[i] != step.key:
                    raise ValueError(f"id {one!r} was asked of another row than the one that came with its label")
                if step.number is None:
                    ahead.advise(step.law_S)
                ahead.observe(Positions(state), action, step=step.number)
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
            steps = {one: self._step(one) for one in ids}
            for step in steps.values():
                if step.number is not None:
                    ahead.skip(step.number)
            for one in steps:
                del self._steps[one]

    # Inside

    def _same(self, one: Standing, other: Standing) -> bool:
        """Whether the next step is the same to both; with a lag of 1, one that waits is advised anew."""
        return one.ledger is other.ledger and (self._guard.lag == 1 or one.advised == other.advised)

    def _step(self, one: Hashable) -> Step:
        step = self._steps.get(one)
        if step is None:
            known = f"those that do: {inputs.shown(list(self._steps))}" if self._steps else "none does"
            raise ValueError(f"id {one!r} waits for no label, it was not asked or has had its label; {known}")
        if not self._lives(step):
            raise ValueError(f"id {one!r} was asked before the guard was restarted, loaded or moved on by hand")
        return step

    def _lives(self, step: Step) -> bool:
        at = self._guard._at
        if step.number is None:
            return at.ledger is step.at.ledger
        return any(due.step == step.number and np.array_equal(to_numpy(due.forecast), step.law_S) for due in at.waiting)

    def _forget_dead(self) -> None:
        self._steps = {one: step for one, step in self._steps.items() if self._lives(step)}

    def _alike(self, first: Question, last: Question) -> bool:
        """Whether both were given the same answer, so that it does not matter which was acted on."""
        if not np.allclose(first.law_S, last.law_S, rtol=0, atol=1e-12):
            return False
        if self._same(first.at, last.at):
            return True
        answers = []
        for question in (first, last):
            ahead = copy(self._guard)
            _ahead(ahead, question.at, question.law_S)
            answers.append(ahead.policy())
        return np.allclose(answers[0], answers[1], rtol=0, atol=1e-12)


def _ahead(ahead: Guard, at: Standing, law_S: np.ndarray) -> Any:
    """The advice for the next step of a guard that stands there, a copy."""
    ahead._at = at
    return ahead.advise(law_S).law


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
