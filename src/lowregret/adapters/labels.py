"""The labels of a classifier as the states of a problem: which label is which state, and forecasts in that order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import inputs
from ..guard import Guard
from ..problems import DecisionProblem, Names


class Labels:
    """The labels in the order of a problem's states; ``floor``: how much of the uniform forecast is mixed in."""

    def __init__(self, labels: Sequence[Any], floor: Any) -> None:
        self.labels, self.names = tuple(labels), Names(labels, "labels")
        self.floor = floor
        if not 0 <= floor < 1:
            raise ValueError(f"floor must lie in [0, 1), got {floor!r}")

    def states(self, labels: Sequence[Any], name: str = "y") -> np.ndarray:
        """The state ``[N]`` of each label; an unknown one is refused."""
        found: np.ndarray = self.names.positions(list(labels), name, shape=(len(labels),))
        return found

    def forecasts(self, probs_NxK: np.ndarray, labels: Sequence[Any], name: str) -> np.ndarray:
        """Probabilities of some labels as forecasts ``[N, S]``: 0 for the others."""
        probs_NxS = np.zeros((len(probs_NxK), len(self.labels)))
        probs_NxS[:, self.states(labels, f"a label of {name}")] = probs_NxK
        return np.asarray(inputs.probs_of(probs_NxS, len(self.labels), name))

    def floored(self, probs_NxS: np.ndarray) -> np.ndarray:
        """Forecasts that exclude no state; as they are without a floor."""
        return probs_NxS * (1 - self.floor) + self.floor / len(self.labels) if self.floor else probs_NxS

    def played(self, problem: DecisionProblem) -> tuple[Any, ...] | None:
        """The label that each action is, where actions are guesses of the label; None: they are something else."""
        places = [self.names.position(action) for action in problem.actions]
        return None if None in places else tuple(self.labels[place] for place in places if place is not None)


def guard_of(guard: Guard | None, labels: Sequence[Any] | None) -> Guard:
    """A fresh guard with the settings of the one given; None: one whose actions are guesses of the label."""
    if guard is None:
        if labels is None or len(labels) < 2:
            raise ValueError(
                f"classes must list the labels unless a guard is given, and one class is too few, got {labels!r}"
            )
        return Guard(DecisionProblem(np.eye(len(labels)), actions=labels, states=labels))
    if not isinstance(guard, Guard) or not isinstance(guard.problem, DecisionProblem) or guard.shape != ():
        raise ValueError(f"guard must be a Guard of a DecisionProblem with one stream, got {inputs.shown(guard)}")
    own = guard.fresh()
    own.on_event = guard.on_event
    return own


def labels_of(problem: DecisionProblem, labels: Sequence[Any] | None, stated: bool) -> list[Any]:
    """The labels in the order of the states; None: the states' own names, or their numbers.

    They are matched by name, and a state that is not among them keeps its own. Where names say nothing their order
    decides: if it is ``stated`` to be that of the states, or if no label is the number of another state.
    """
    if labels is None:
        return list(range(problem.n_states) if problem.state_names.unnamed else problem.states)
    places = [problem.state_names.position(label) for label in labels]
    if stated and len(set(labels)) != problem.n_states:
        raise ValueError(f"classes must name a label for each of the states {list(problem.states)}, got {labels}")
    if stated and problem.state_names.unnamed:
        return list(labels)
    if None not in places:
        found = dict(zip(places, labels, strict=True))
        kind = (lambda name: name) if isinstance(labels[0], str) else (lambda name: type(labels[0])(float(name)))
        return [found[s] if s in found else kind(name) for s, name in enumerate(problem.states)]
    in_order = stated or (problem.state_names.unnamed and all(at in (None, i) for i, at in enumerate(places)))
    if in_order and len(labels) == problem.n_states:
        return list(labels)
    raise ValueError(
        f"the labels are {list(labels)}, the states of the problem {list(problem.states)}: name the states as the "
        "labels are, DecisionProblem(..., states=[...])"
    )
