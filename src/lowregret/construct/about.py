"""What a built model says about itself: the rule it was built from, its problem with names and units, what is promised.

Plain JSON values, so that a model read from a file says the same as one that was just built.
"""

from dataclasses import fields
from typing import Any

from .. import inputs
from ..certificates import Certificate
from ..problems import DecisionProblem
from ..rules import ResponseRule
from .exact import later
from .plan import FAMILIES, changed

_UNPROVED = "The threshold of this rule is its own, and no proof is known for it: the bounds are trivial."


def described(rule: ResponseRule, late: float, shallow: bool) -> dict[str, Any]:
    """What the rule was, for people who find the weights; what is promised is of an alarm that is ``late``.

    A threshold of one's own has no proof behind it unless it brings a certificate: then nothing is promised.
    """
    settings = {f.name: getattr(rule, f.name) for f in fields(rule) if f.name not in ("problem", "fallback")}
    promise, own = rule.certificate, changed(rule, next(kind for kind in FAMILIES if isinstance(rule, kind)))
    unproved, problem, more = "threshold" in own and "certificate" not in own, rule.problem, later(rule, late)
    terms = {**promise.terms, "later alarm": more} if promise.terms and more else dict(promise.terms)
    return {
        "rule": type(rule).__name__,
        **settings,
        "utility": problem.utility.tolist(),
        "actions": list(problem.actions),
        "states": list(problem.states),
        "units": {"scale": float(problem.regret_in_payoffs(1.0)), "shift": float(problem.in_payoffs(0.0))},
        "shallow": shallow,
        "late": late,
        "regret_bound": problem.span if unproved else min(problem.span, promise.regret_bound + more),
        "tv_bound": 1.0 if unproved else promise.tv_bound,
        "certificate": {
            "theorem": promise.theorem,
            "statement": _UNPROVED if unproved else promise.statement,
            "assumptions": list(promise.assumptions),
            "terms": {} if unproved else terms,
        },
    }


def problem_of(built: dict[str, Any]) -> DecisionProblem:
    """The rule's problem; files of format 1 had neither names nor units."""
    problem = DecisionProblem(built["utility"], built.get("actions"), built.get("states"))
    if "units" in built:
        units = built["units"]
        problem._scale = inputs.not_negative(units["scale"], "scale")
        problem._shift = inputs.finite(units["shift"], "shift")
    return problem


def certificate_of(built: dict[str, Any]) -> Certificate:
    """What is promised, of the built layers themselves: an alarm that may come later costs a little."""
    words = built.get("certificate", {})
    return Certificate(
        regret_bound=built["regret_bound"],
        tv_bound=built["tv_bound"],
        statement=words.get("statement", ""),
        assumptions=tuple(words.get("assumptions", ())),
        theorem=words.get("theorem", built["rule"]),
        problem=problem_of(built),
        horizon=built["horizon"],
        terms=dict(words.get("terms", {})),
        temperature=built["temperature"],
    )


def checked(built: Any, n_states: int, horizon: int) -> dict[str, Any]:
    """The same, if it is what ``described`` gives for so many states and steps; else a refusal that names the part."""
    if not isinstance(built, dict):
        raise ValueError(f"built must be an object, got {built!r}")
    for name in ("rule", "temperature", "utility", "regret_bound", "tv_bound", "horizon"):
        if name not in built:
            raise ValueError(f"built has no {name}")
    if not isinstance(built["rule"], str):
        raise ValueError(f"rule must be a name, got {built['rule']!r}")
    inputs.positive(built["temperature"], "temperature")
    for name in ("regret_bound", "tv_bound"):
        inputs.not_negative(built[name], name)
    if inputs.whole(built["horizon"], "horizon") != horizon:
        raise ValueError(f"horizon must be that of the weights, {horizon}, got {built['horizon']}")
    for name in ("actions", "states"):
        _words(built.get(name, []), name)
    units = built.get("units", {"scale": 1.0, "shift": 0.0})
    if not isinstance(units, dict) or set(units) != {"scale", "shift"}:
        raise ValueError(f"units must have scale and shift, got {units!r}")
    problem = problem_of(built)
    if problem.n_states != n_states:
        raise ValueError(f"utility must be of {n_states} states, got {problem.n_states}")
    words = built.get("certificate", {})
    if not isinstance(words, dict):
        raise ValueError(f"certificate must be an object, got {words!r}")
    for name in ("theorem", "statement"):
        _words([words.get(name, "")], name)
    _words(words.get("assumptions", []), "assumptions")
    terms = words.get("terms", {})
    if not isinstance(terms, dict):
        raise ValueError(f"terms must be an object, got {terms!r}")
    for name, value in terms.items():
        inputs.finite(value, name)
    return built


def _words(values: Any, name: str) -> None:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} must be words, got {values!r}")
