"""What two guards must share to exchange their states: settings by name, and how rule and fallback behave."""

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import Array, device, float_type, namespace, to_numpy
from ..rules import Rule
from .ledger import kind_of

_STEPS = 8  # on how many tokens rule and fallback are tried
_ROUNDING = 1e-6  # by how much the same model may answer differently on another machine


def made_for(rule: Rule, batch_shape: tuple[int, ...]) -> dict[str, Any]:
    """The settings: numbers, words and tables, as JSON values."""
    return {
        **_settings_of(rule),
        "rule": type(rule).__name__,
        **_problem_told(rule),
        "fallback": _described(rule.fallback),
        "batch_shape": list(batch_shape),
    }


def _problem_told(rule: Rule) -> dict[str, Any]:
    problem: Any = rule.problem
    if problem is None:
        return {"utility": None, "names": None}
    if not rule.of_numbers:
        return {"utility": problem.utility.tolist(), "names": [list(problem.actions), list(problem.states)]}
    return {
        "actions": [str(action) for action in problem.actions],
        "low": problem.low,
        "high": problem.high,
        "knots": None if problem.knots is None else problem.knots.tolist(),
        "outcomes": [inputs.finite_or_none(end) for end in problem.outcomes],
    }


class Behaviour:
    """What a fallback says, and what its rule makes of it, on a few fixed tokens; each kind of array is tried once.

    Not every setting is a number: a function or a network is known by what it says. A law is told by its mean of fixed
    weights, so that the alphabet may be large; a fallback that fails by the name of its error.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, like: Array) -> dict[str, Any]:
        kind = kind_of(like)
        if kind not in self._found:
            self._found[kind] = self._tried(like)
        return {part: value.copy() if isinstance(value, list) else value for part, value in self._found[kind].items()}

    def _tried(self, like: Array) -> dict[str, Any]:
        if self._rule.of_numbers:
            return {"fn": _payoffs_told(self._rule.problem)}
        rule, S, xp, where = self._rule, self._rule.n_states, namespace(like), device(like)
        uneven_S = np.arange(1, S + 1) / (S * (S + 1) / 2)
        base = xp.asarray(uneven_S, dtype=float_type(xp, where), device=where)
        said: list[float | None] = []
        found: list[float | None] = []
        try:
            memory = rule.start((), like=like)
            for t in range(min(_STEPS, rule.horizon or _STEPS, ability(rule.fallback, "context") or _STEPS)):
                answer = to_numpy(rule.fallback_answer(memory, base)).astype(np.float64)
                said.append(inputs.finite_or_none(float(answer @ np.cos(np.arange(len(answer))))))
                memory = rule.update(memory, base, t * (t + 1) // 2 % S)
                found += [inputs.finite_or_none(float(value)) for value in rule.evidence(memory)]
        except Exception as error:  # whatever someone else's predictor does
            return {"fails": type(error).__name__}
        return {"fallback": said, "rule": found}


def _payoffs_told(payoff: Any) -> list[float]:
    """What payoffs are, where they must be known."""
    ends = np.array([end for end in payoff.outcomes if math.isfinite(end)])
    return payoff.utilities(ends if payoff.knots is None else payoff.knots).ravel().tolist()


def alike(theirs: Any, mine: dict[str, Any]) -> list[str]:
    """In which of its parts a behaviour differs from another."""
    if not isinstance(theirs, dict) or theirs.keys() != mine.keys():
        return ["fallback"]
    return [part for part in mine if not _near(theirs[part], mine[part])]


def _near(theirs: Any, mine: Any) -> bool:
    if not isinstance(mine, list):
        return bool(theirs == mine)
    if not isinstance(theirs, list) or len(theirs) != len(mine):
        return False
    return all(
        x is y is None
        or (type(x) in (int, float) and type(y) is float and math.isclose(x, y, rel_tol=_ROUNDING, abs_tol=_ROUNDING))
        for x, y in zip(theirs, mine, strict=True)
    )


def _described(thing: Any) -> list[Any]:
    return [type(thing).__name__, _settings_of(thing)]


def _settings_of(thing: Any) -> dict[str, Any]:
    """The settings of a rule or a predictor that can be told in JSON; functions by their names, parts in turn."""
    names = [field.name for field in fields(thing) if field.name != "problem"] if is_dataclass(thing) else []
    values = {name: getattr(thing, name) for name in names}
    told = {name: _told(value) for name, value in values.items()}
    return {name: value for name, value in told.items() if value is not _UNTOLD}


_UNTOLD = object()


def _told(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, tuple):
        return [_told(part) for part in value]
    if is_dataclass(value):
        return _described(value)
    if isinstance(value, (int, float, str, list, type(None))):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__) if callable(value) else _UNTOLD
