"""What a guard may be told before the state, besides the model's law: incumbents, a context, what is at stake."""

from functools import partial
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, float_type, in_float64, namespace, to_numpy
from ..forecasts import Forecast
from ..problems import DecisionProblem, Known, Payoff, by_name
from ..rules import Knows, Rule, names_of
from .ledger import own_copy

_DOUBLE = np.dtype(np.float64)
_DECLARE = {
    "references": "Guard(problem, horizon, references=names)",
    "context": "Guard(problem, horizon, contexts=how_many)",
    "payoffs": 'Guard(problem, horizon, payoffs="change") with DecisionProblem.from_payoffs(payoffs, low=, high=)',
    "scale": 'Guard(problem, horizon, payoffs="scaled")',
}


def knows_of(problem: DecisionProblem | Payoff | None, references: Any, contexts: Any, payoffs: Any) -> Knows | None:
    """What a guard made with these is told before the state; None: the law alone."""
    names = names_of(references)
    if contexts is not None:
        contexts = inputs.whole(contexts, "contexts")
    if payoffs is not None:
        payoffs = inputs.choice(payoffs, "payoffs", ("scaled", "change"))
    if not names and contexts is None and payoffs is None:
        return None
    if problem is None:
        raise ValueError("references, contexts and payoffs need a problem, got None: nobody acts")
    return Knows(names, contexts, payoffs or "scaled")


def known_of(
    rule: Rule, shape: tuple[int, ...], forecast: Any, references: Any, context: Any, payoffs: Any, scale: Any
) -> Known:
    """What ``advise`` was given beside the forecast, checked: arrays of the kind that a law is, each its own."""
    knows, problem = rule.knows, rule.problem
    probs = rule_arrays(rule, forecast)
    if (
        shape == ()
        and not rule.of_numbers
        and knows is not None
        and knows.contexts is None
        and payoffs is None
        and scale is None
    ):
        quick = _alone(rule, knows, probs, references, context)
        if quick is not None:
            return quick
    given = {"references": references, "context": context, "payoffs": payoffs, "scale": scale}
    wants = {
        "references": knows is not None and bool(knows.references),
        "context": knows is not None and knows.contexts is not None,
        "payoffs": knows is not None and knows.payoffs == "change",
        "scale": knows is not None,
    }
    for name, value in given.items():
        if value is not None and not wants[name]:
            raise ValueError(f"{name} was not declared when the guard was made: {_DECLARE[name]}")
    assert knows is not None
    assert problem is not None
    if references is None and knows.references:
        raise ValueError(f"references must be given: what {', '.join(knows.references)} say of this step")
    if context is None and knows.contexts is not None:
        raise ValueError(f"context must be given: a whole number from 0 to {knows.contexts - 1}")
    laws: Any = None
    if references is not None:
        if rule.of_numbers:
            laws = _said_of_numbers(rule, knows, shape, references)
        else:
            laws = _beside(_said(rule, knows, shape, references), probs)
    if context is not None:
        assert knows.contexts is not None
        context = inputs.tokens_of(context, knows.contexts, "context", shape=shape, like=probs)
    utility: Any = None
    if payoffs is not None:
        if isinstance(problem, Payoff):
            utility = problem.restated(payoffs)
            for said in (forecast, *(laws or ())):
                said.refuse_misfit(utility)
        else:
            utility = _beside(_utility(problem, shape, payoffs), probs)
    if scale is not None:
        amount = inputs.numbers_of(scale, "scale", "numbers above 0, at most 1")
        if amount.shape not in ((), shape):
            raise ValueError(f"scale must have shape {shape}, got {amount.shape}")
        if not ((amount > 0) & (amount <= 1)).all():
            bad = ~((amount > 0) & (amount <= 1))
            got = f"{amount[bad][0]:g}%s" if amount.shape else inputs.shown(scale)
            what = f"scale must lie above 0 and be at most 1, of what the problem declares, got {got}"
            raise inputs.misplaced(what, bad)
        scale = _beside(np.broadcast_to(amount, shape), probs)
    return Known(laws, context, utility, scale)


def rule_arrays(rule: Rule, probs: Any) -> Array:
    """An array of the kind that a rule keeps beside this forecast."""
    return np.zeros(()) if rule.of_numbers else probs


def _alone(rule: Rule, knows: Knows, probs: Array, references: Any, context: Any) -> Known | None:
    """The usual case of one stream, a few laws in double precision: must cost nothing. None: look closer."""
    S, N = rule.n_states, len(knows.references)
    if rule.of_numbers or context is not None or type(probs) is not np.ndarray or type(references) is not np.ndarray:
        return None
    if references.shape != (N, S):
        return None
    if references.dtype != _DOUBLE or N * S > 64:
        return None
    for row in references.tolist():
        if not (min(row) >= 0 and abs(sum(row) - 1) <= inputs.SUM_TOLERANCE):
            return None
    return Known(references.copy())


def known_told(known: Known | None, told: Any) -> Any:
    """What was known of a step that waits, as part of a guard's state."""
    if known is None or (not isinstance(known.laws_NxS, tuple) and not isinstance(known.utility, Payoff)):
        return None if known is None else told(known)
    if known.utility is not None:
        raise ValueError("a step waits whose payoffs are a function, which cannot be saved: observe its outcome first")
    said = [forecast_told(each, told) for each in known.laws_NxS]
    return [said, *(told(part) for part in known[1:])]


def known_again(rule: Rule, shape: tuple[int, ...], probs: Any, values: Any) -> Known | None:
    """What was known when the state was saved, checked once more."""
    if rule.knows is None:
        return None
    try:
        laws, context, utility, scale = [None] * 4 if values is None else values
        if rule.of_numbers and laws is not None:
            given: Any = [forecast_again(rule, shape, each) for each in laws]
        else:
            given = None if laws is None else np.asarray(laws, dtype=np.float64)
        assert rule.problem is not None
        payoffs = None if utility is None else rule.problem.in_payoffs(np.asarray(utility, dtype=np.float64))
        known = known_of(rule, shape, probs, given, None if context is None else np.asarray(context), payoffs, scale)
    except (TypeError, ValueError) as error:
        raise ValueError(f"known: {error}") from error
    # As it was, bit for bit: from utility to payoffs and back may round.
    return known if utility is None else known._replace(utility=_beside(np.asarray(utility, dtype=np.float64), probs))


def forecast_told(forecast: Any, told: Any) -> Any:
    """A forecast as part of a guard's state: of numbers by its form and parts, of states by its law and precision."""
    if isinstance(forecast, Forecast):
        return {"form": type(forecast).__name__, **forecast.told()}
    return {"law": told(forecast), "dtype": str(forecast.dtype).removeprefix("torch.")}


def forecast_again(rule: Any, shape: tuple[int, ...], values: Any, like: Any = None) -> Any:
    """What ``forecast_told`` told, checked once more."""
    if not isinstance(values, dict):
        raise ValueError(f"a forecast was expected, got {inputs.shown(values)}")
    if not rule.of_numbers:
        if values.get("dtype") not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {values.get('dtype')!r}")
        probs, xp = inputs.probs_of(values.get("law"), rule.n_states, "its law", shape=shape), namespace(like)
        return xp.asarray(probs, dtype=getattr(xp, values["dtype"]), device=device(like))
    forms: dict[str, Any] = {form.__name__: form for form in Forecast.__subclasses__()}  # those from elsewhere too
    form = forms.get(values.get("form", ""))
    if form is None:
        raise ValueError(f"a forecast was expected, got {inputs.shown(values)}")
    try:
        forecast = form(**{name: value for name, value in values.items() if name != "form"})
    except TypeError as error:
        raise ValueError(f"it does not have what {form.__name__} is made of") from error
    return rule.each.fits(forecast, shape)


def _said(rule: Rule, knows: Knows, shape: tuple[int, ...], references: Any) -> Array:
    """The laws that the references said."""
    one_by_one, references = isinstance(references, dict), _in_order(knows, references)
    problem = rule.problem
    assert isinstance(problem, DecisionProblem)
    in_order = partial(by_name, problem.state_names, what="references")
    references = list(map(in_order, references)) if isinstance(references, (list, tuple)) else in_order(references)
    said, N = inputs.array_of(_stacked(references) if one_by_one else references, "references"), len(knows.references)
    fits = (*shape, N, problem.n_states)
    if tuple(said.shape) != fits:
        raise ValueError(
            f"references must have shape {fits} (laws over the states), a row for each of "
            f"{', '.join(knows.references)}, got {tuple(said.shape)}"
        )
    return inputs.probs_of(said, fits[-1], "references", shape=fits[:-1])


def _said_of_numbers(rule: Any, knows: Knows, shape: tuple[int, ...], references: Any) -> tuple[Forecast, ...]:
    """What the references forecast of a number."""
    given = _in_order(knows, references)
    if not isinstance(given, (list, tuple)) or len(given) != len(knows.references):
        raise ValueError(
            f"references must be forecasts, one for each of {', '.join(knows.references)}, got "
            f"{inputs.shown(references)}"
        )
    return tuple(rule.each.fits(each, shape) for each in given)


def _in_order(knows: Knows, references: Any) -> Any:
    """What the references said; where it is given by name, as a list in the order of their names."""
    if not isinstance(references, dict):
        return references
    if set(references) != set(knows.references):
        raise ValueError(f"references must be what {', '.join(knows.references)} say, got {list(references)}")
    return [references[name] for name in knows.references]


def _stacked(each: list[Any]) -> np.ndarray:
    """What references said one by one, side by side."""
    said = [to_numpy(inputs.array_of(one, "references")) for one in each]
    shapes = sorted({one.shape for one in said})
    if len(shapes) > 1 or shapes == [()]:
        raise ValueError(f"references must be given alike, one row a stream, got shapes {shapes}")
    return np.stack(said, -2)


def _utility(problem: DecisionProblem, shape: tuple[int, ...], payoffs: Any) -> np.ndarray:
    A, S = problem.utility.shape
    payoffs = by_name(problem.state_names, payoffs, "payoffs")
    if hasattr(payoffs, "iloc"):  # its rows may have names too
        payoffs = by_name(problem.action_names, payoffs.T, "payoffs").T
    amounts = inputs.numbers_of(payoffs, "payoffs", "a matrix of numbers, one row per action")
    if amounts.shape not in ((A, S), (*shape, A, S)):
        raise ValueError(f"payoffs must have shape {(*shape, A, S)}, got {amounts.shape}")
    return np.broadcast_to(problem.utility_of(amounts), (*shape, A, S))


def _beside(values: Any, probs: Array) -> Array:
    """An array of its own in full precision, of the kind that ``probs`` is."""
    xp, where = namespace(probs), device(probs)
    if namespace(values) is xp and device(values) == where:
        return own_copy(in_float64(values))
    return astype(xp.asarray(to_numpy(values).copy(), device=where), float_type(xp, where))
