"""The labels of a classifier as the states of a problem (Section 2.2): which label is which state, and the guard."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import inputs
from ..guard import Guard
from ..problems import DecisionProblem, a_problem
from ..rules import Rule


def stakes(
    problem: Any, rule: Any, classes: Any, seen: Sequence[Any] | None = None
) -> tuple[DecisionProblem, tuple[Any, ...]]:
    """The problem, and the label of each of its states in order; ``seen`` are the sorted labels of some data.

    Without a problem (and a rule, which has one) what is at stake is to guess the label. Labels are matched to states
    by name where they are the same names, by order where the states have no names of their own, else as ``classes``.
    """
    if problem is None and rule is not None:
        problem = getattr(rule, "problem", None)
        if problem is None:
            raise ValueError(f"rule must be a Rule for a problem, such as ExactTest(problem, horizon), got {rule!r}")
    elif problem is not None:
        a_problem(problem)
    if classes is not None:
        labels = _different(classes)
        extra = [] if seen is None else [label for label in seen if label not in labels]
        if extra:
            raise ValueError(f"y has labels {extra} that are not among classes {list(labels)}")
        named = () if problem is None or _is_unnamed(problem) else problem.states
        if set(named) == set(map(str, labels)) and named != tuple(map(str, labels)):
            raise ValueError(
                f"classes must be in the order of the problem's states, {list(named)}, which have the same names, got "
                f"{list(labels)}: leave them out, or give them in that order"
            )
    elif seen is not None:
        labels = _in_order(problem, seen)
    elif problem is None:
        raise ValueError("classes must list the labels there are, in the order of the states, got None")
    else:
        labels = tuple(range(problem.n_states)) if _is_unnamed(problem) else problem.states
    if problem is None:
        problem = DecisionProblem(np.eye(len(labels)), actions=labels, states=labels)
    if len(labels) != problem.n_states:
        raise ValueError(
            f"classes must name a label for each of the {problem.n_states} states {list(problem.states)}, "
            f"got {list(labels)}"
        )
    return problem, labels


def _different(classes: Any) -> tuple[Any, ...]:
    wrong = f"classes must be a list of at least two different labels, got {inputs.shown(classes)}"
    if isinstance(classes, (str, bytes, dict, set)):
        raise ValueError(wrong)
    try:
        labels = tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)
        if len(labels) < 2 or len(set(labels)) < len(labels) or any(label != label for label in labels):
            raise ValueError(wrong)
    except TypeError as error:
        raise ValueError(wrong) from error
    return labels


def _is_unnamed(problem: DecisionProblem) -> bool:
    return problem.states == tuple(map(str, range(problem.n_states)))


def _in_order(problem: DecisionProblem | None, seen: Sequence[Any]) -> tuple[Any, ...]:
    """The labels that were seen in the order of the states, if it is clear which is which."""
    if len(seen) < 2:
        raise ValueError(f"y has one class, {list(seen)}, where two are needed; classes=[...] names those to come")
    if problem is None:
        return tuple(seen)
    by_name = {str(label): label for label in seen}
    if len(by_name) == len(seen) == problem.n_states and set(by_name) == set(problem.states):
        return tuple(by_name[state] for state in problem.states)
    if _is_unnamed(problem) and len(seen) == problem.n_states:
        return tuple(seen)
    raise ValueError(
        f"y has the labels {list(seen)}, the problem the states {list(problem.states)}: classes=[...] says which label "
        "is which state, in the order of the states"
    )


def guard_of(
    problem: DecisionProblem,
    horizon: Any,
    rule: Rule | None,
    fallback: Any,
    temperature: Any,
    episode: Any,
    lag: Any = 1,
) -> Guard:
    """The guard of a classifier; a rule says the horizon if nobody else does."""
    if horizon is None and episode is None and rule is not None:
        horizon = rule.horizon
    elif horizon is None and rule is None:
        raise ValueError("horizon must be how many predictions will be acted on, a whole number >= 1, got None")
    return Guard(problem, horizon, rule=rule, fallback=fallback, temperature=temperature, episode=episode, lag=lag)


def of_a_classifier(ask: Callable[[], Any]) -> Any:
    """What the guard answers; where its horizon is over, the refusal says how a classifier goes on."""
    try:
        return ask()
    except ValueError as error:
        said = str(error).replace("a Guard with restart()", "guard_.restart() opens a new episode")
        raise ValueError(said) from error


def floor_of(floor: Any) -> float:
    """The share of the uniform law in every law: 0 or more, below 1."""
    share = inputs.not_negative(floor, "floor")
    if share >= 1:
        raise ValueError(f"floor must lie in [0, 1), got {floor!r}")
    return share


def floored(laws: np.ndarray, floor: float) -> np.ndarray:
    """Laws ``[..., S]`` that exclude no state; as they are where ``floor`` is 0."""
    return laws * (1 - floor) + floor / laws.shape[-1] if floor else laws


def states_of(labels: Any, state_of: dict[Any, int], name: str = "y") -> np.ndarray:
    """The state ``[N]`` of each label; one that is not known is refused by name."""
    try:
        return np.array([state_of[label] for label in labels], dtype=np.int64)
    except (KeyError, TypeError) as error:
        strange = next(label for label in labels if not _is_known(label, state_of))
        raise ValueError(f"{name} must be one of the labels {list(state_of)}, got {inputs.shown(strange)}") from error


def actions_of(action: Any, problem: DecisionProblem, n: int) -> list[int]:
    """The actions that were taken, one a row: places as they are, names by the problem's."""
    place = {name: i for i, name in enumerate(problem.actions)}
    taken = np.atleast_1d(np.asarray(action))
    known = taken.dtype.kind in "UOiu" and all(isinstance(a, (str, int)) for a in taken.tolist())
    found = [place.get(a, -1) if isinstance(a, str) else a for a in taken.tolist()] if known else []
    if taken.shape != (n,) or not all(type(a) is int and 0 <= a < len(place) for a in found) or len(found) != n:
        raise ValueError(
            f"action must be one a row, {n} of them: a place from 0 to {len(place) - 1} or a name of "
            f"{list(problem.actions)[:12]}, got {inputs.shown(action)}"
        )
    return found


def _is_known(label: Any, state_of: dict[Any, int]) -> bool:
    try:
        return label in state_of
    except TypeError:  # it has no hash
        return False
