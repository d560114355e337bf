"""The labels of a classifier as the states of a problem (Section 2.2): which label is which state, and the guard."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from .. import inputs
from ..guard import Guard
from ..problems import DecisionProblem, Names, a_problem
from ..rules import Rule


def stakes(
    problem: Any, rule: Any, classes: Any, fallback: Any, seen: Sequence[Any] | None = None
) -> tuple[DecisionProblem, tuple[Any, ...]]:
    """The problem, and the label of each of its states in order; ``seen`` are the sorted labels of some data.

    Without a problem (and a rule, which has one) the problem is to guess the label. Labels are matched to states by
    name where the names agree, by order where the states have no names, else by ``classes``. States without names get
    the names of the labels, unless a rule or a fallback was already made for the problem.
    """
    if problem is None and rule is not None:
        problem = getattr(rule, "problem", None)
        if problem is None:
            raise ValueError(f"rule must be a Rule for a problem, such as ExactTest(problem, horizon), got {rule!r}")
    elif problem is not None:
        a_problem(problem)
    if classes is not None:
        labels = _different(classes)
        known = Names(labels, "labels")
        extra = [] if seen is None else [label for label in seen if known.position(label) is None]
        if extra:
            raise ValueError(f"y has labels {extra} that are not among classes {list(labels)}")
        places = [] if problem is None or problem.state_names.unnamed else _places(problem, labels)
        if sorted(places) == list(range(len(labels))) != places:
            raise ValueError(
                f"classes must be in the order of the problem's states, {list(problem.states)}, which have the same "
                f"names, got {list(labels)}: leave them out, or give them in that order"
            )
    elif seen is not None:
        labels = _in_order(problem, seen)
    elif problem is None:
        raise ValueError("classes must list the labels there are, in the order of the states, got None")
    else:
        labels = tuple(range(problem.n_states)) if problem.state_names.unnamed else problem.states
    if problem is None:
        problem = DecisionProblem(np.eye(len(labels)), actions=labels, states=labels)
    if len(labels) != problem.n_states:
        raise ValueError(
            f"classes must name a label for each of the {problem.n_states} states {list(problem.states)}, "
            f"got {list(labels)}"
        )
    if problem.state_names.unnamed and rule is None and getattr(fallback, "problem", None) is None:
        problem = _called(problem, labels)
    return problem, labels


def _called(problem: DecisionProblem, labels: Sequence[Any]) -> DecisionProblem:
    """The same problem, its states named after the labels."""
    found = DecisionProblem(problem.utility, problem.actions, labels)
    found._scale, found._shift = problem._scale, problem._shift
    return found


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


def _places(problem: DecisionProblem, labels: Sequence[Any]) -> list[int]:
    """The states that have these labels as names; -1: none has."""
    return [-1 if at is None else at for at in map(problem.state_names.position, labels)]


def _in_order(problem: DecisionProblem | None, seen: Sequence[Any]) -> tuple[Any, ...]:
    """The labels that were seen in the order of the states, if it is clear which is which."""
    if len(seen) < 2:
        raise ValueError(f"y has one class, {list(seen)}, where two are needed; classes=[...] names those to come")
    if problem is None:
        return tuple(seen)
    places = _places(problem, seen)
    if sorted(places) == list(range(problem.n_states)):
        return tuple(label for _, label in sorted(zip(places, seen, strict=True), key=lambda pair: pair[0]))
    fit = all(at in (-1, i) for i, at in enumerate(places))  # labels 1 and 2 are not states 0 and 1
    if problem.state_names.unnamed and len(seen) == problem.n_states and fit:
        return tuple(seen)
    raise ValueError(
        f"y has the labels {list(seen)}, the problem the states {list(problem.states)}: classes=[...] says which label "
        "is which state, in the order of the states"
    )


def guard_of(problem: DecisionProblem, horizon: Any, rule: Rule | None, **settings: Any) -> Guard:
    """The guard of a classifier; the rule's horizon counts if none is given."""
    if horizon is None and rule is not None:
        horizon = rule.horizon
    return Guard(problem, horizon, rule=rule, **settings)


def references_of(references: Any, asks: str) -> dict[str, Any]:
    """The incumbents' models by name, each of which must have the method that ``asks`` names; {} for None."""
    if references is None:
        return {}
    named = isinstance(references, dict) and all(isinstance(name, str) for name in references)
    if not named or not all(hasattr(model, asks) for model in references.values()):
        raise ValueError(
            f"references must be a dict of fitted models by name, each with {asks}, got {inputs.shown(references)}"
        )
    return references


def only_scaled(payoffs: Any) -> Any:
    """How payoffs may change from row to row where a classifier is guarded."""
    if payoffs == "change":
        raise ValueError('payoffs must be "scaled" here, got "change": lr.Guard(problem, horizon, payoffs="change")')
    return payoffs


def refuse_lawless(guard: Guard, asked: str, instead: str) -> None:
    """A fallback that acts by itself has no probabilities to give out."""
    own = guard.rule.each.in_play
    if own.acts and not own.follows:
        raise ValueError(
            f"{asked} needs a fallback that predicts, and {type(guard.rule.fallback).__name__} acts: {instead} has "
            "what to play"
        )


def of_a_classifier(ask: Callable[[], Any]) -> Any:
    """What the guard answers; when its horizon is over, the refusal says how to continue with a classifier."""
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


def states_of(labels: Any, names: Names, name: str = "y") -> np.ndarray:
    """The state ``[N]`` of each label; an unknown one is refused."""
    return names.positions(np.fromiter(labels, dtype=object), name)


# Rows as classifiers get them, each with a key of its content, by which a label finds what was said of its row.


def keys_of(X: Any, last: int) -> list[bytes]:
    """The keys of the last rows of an array, a frame, a sparse matrix, or a list of anything."""
    if hasattr(X, "tocsr"):
        rows = X.tocsr()[-last:]
        rows.sort_indices()
        parts = zip(np.split(rows.indices, rows.indptr[1:-1]), np.split(rows.data, rows.indptr[1:-1]), strict=True)
        return [_digest(at.astype(np.int64).tobytes() + _numbers(values).tobytes()) for at, values in parts]
    try:
        table = np.asarray(X)[-last:]
    except ValueError:  # rows of different lengths
        return [key_of(row) for row in list(X)[-last:]]
    if table.dtype.kind in "biuf":
        return [_digest(row.tobytes()) for row in _numbers(table)]
    return [key_of(row) for row in table.tolist()]


def key_of(row: Any) -> bytes:
    """The key of one row, by how it prints; for a dict the order of its names does not matter."""
    return _digest(repr(sorted(row.items(), key=repr) if isinstance(row, dict) else row).encode())


def one_each(given: Any, n: int, name: str) -> np.ndarray:
    """One number for each of n rows, ``[N]``, or the number itself where there is one row; whole ones as such."""
    values = inputs.numbers_of(given, name, "numbers, one for each row").reshape(-1 if n == 1 else np.shape(given))
    if values.shape != (n,):
        raise ValueError(f"{name} must be one for each row, {n} of them, got shape {np.shape(given)}")
    return values.astype(np.int64) if name == "context" and (values == np.round(values)).all() else values


def refuse_unordered(X: Any) -> None:
    """Refuse rows that are visibly not in time order."""
    index: Any = getattr(X, "index", None)
    if "datetime" in str(getattr(index, "dtype", "")) and not index.is_monotonic_increasing:
        raise ValueError("X must have its rows in time order, got an index of times that go back: X.sort_index()")


def _numbers(values: np.ndarray) -> np.ndarray:
    """As one type: a row is the same whether its numbers are stored as int or float."""
    return np.ascontiguousarray(values, dtype=np.float64)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
