"""What a guard may be told before the state, besides the model's law: incumbents, a context, what is at stake."""

from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, float_type, in_float64, namespace, to_numpy
from ..problems import DecisionProblem, Known
from ..rules import Knows, Rule, names_of
from .ledger import own_copy

_DOUBLE = np.dtype(np.float64)
_DECLARE = {
    "references": "Guard(problem, horizon, references=names)",
    "context": "Guard(problem, horizon, contexts=how_many)",
    "payoffs": 'Guard(problem, horizon, payoffs="change") with DecisionProblem.from_payoffs(payoffs, low=, high=)',
    "scale": 'Guard(problem, horizon, payoffs="scaled")',
}


def knows_of(problem: DecisionProblem | None, references: Any, contexts: Any, payoffs: Any) -> Knows | None:
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


def declared_now(guard: Any, payoffs: Any, scale: Any) -> dict[str, Any] | None:
    """What a guard of the usual rule becomes if its first ``advise`` says that payoffs change; None: it cannot.

    Before the first state nothing has been promised yet.
    """
    at = guard._at
    untouched = at.clock == 0 and at.advised == 0 and at.numbers is None
    if guard._usual is None or not untouched or (payoffs is None and scale is None):
        return None
    names = ("problem", "horizon", "fallback", "temperature", "episode", "lag")
    kind = "scaled" if payoffs is None else "change"
    fresh = type(guard)(**dict(zip(names, guard._usual, strict=True)), batch_shape=guard.batch_shape, payoffs=kind)
    return {name: value for name, value in vars(fresh).items() if name not in ("_lock", "on_switch")}


def known_of(
    rule: Rule, shape: tuple[int, ...], probs: Array, references: Any, context: Any, payoffs: Any, scale: Any
) -> Known:
    """What ``advise`` was given beside the law, checked: arrays of the kind that ``probs`` is, each its own."""
    knows, problem = rule.knows, rule.problem
    if shape == () and knows is not None and knows.contexts is None and payoffs is None and scale is None:
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
    plays, laws = None, None
    if references is not None:
        said, are_laws = _said(rule, knows, shape, references)
        laws = _beside(said, probs) if are_laws else None
        plays = None if are_laws else _beside(said, probs)
    if context is not None:
        assert knows.contexts is not None
        context = inputs.tokens_of(context, knows.contexts, "context", shape=shape, like=probs)
    utility = None if payoffs is None else _beside(_utility(problem, shape, payoffs), probs)
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
    return Known(plays, laws, context, utility, scale)


def _alone(rule: Rule, knows: Knows, probs: Array, references: Any, context: Any) -> Known | None:
    """The usual case of one stream, a few laws in double precision: must cost nothing. None: look closer."""
    S, N = rule.n_states, len(knows.references)
    if context is not None or type(probs) is not np.ndarray or type(references) is not np.ndarray:
        return None
    if references.shape != (N, S):
        return None
    if references.dtype != _DOUBLE or knows.references_act or N * S > 64:
        return None
    for row in references.tolist():
        if not (min(row) >= 0 and abs(sum(row) - 1) <= inputs.SUM_TOLERANCE):
            return None
    return Known(None, references.copy())


def known_again(rule: Rule, shape: tuple[int, ...], probs: Array, values: Any) -> Known | None:
    """What was known when the state was saved, checked once more."""
    if rule.knows is None:
        return None
    try:
        plays, laws, context, utility, scale = [None] * 5 if values is None else values
        said = plays if laws is None else laws
        assert rule.problem is not None
        payoffs = None if utility is None else rule.problem.in_payoffs(np.asarray(utility, dtype=np.float64))
        given = None if said is None else np.asarray(said, dtype=np.float64)
        known = known_of(rule, shape, probs, given, None if context is None else np.asarray(context), payoffs, scale)
    except (TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: known: {error}") from error
    # As it was, bit for bit: from utility to payoffs and back may round.
    return known if utility is None else known._replace(utility=_beside(np.asarray(utility, dtype=np.float64), probs))


def _said(rule: Rule, knows: Knows, shape: tuple[int, ...], references: Any) -> tuple[Array, bool]:
    """What the references said, and whether these are laws."""
    if isinstance(references, dict):
        if set(references) != set(knows.references):
            raise ValueError(f"references must be what {', '.join(knows.references)} say, got {list(references)}")
        references = np.stack([to_numpy(inputs.array_of(references[n], "references")) for n in knows.references], -2)
    said, N = inputs.array_of(references, "references"), len(knows.references)
    problem = rule.problem
    assert problem is not None
    A, S = problem.n_actions, problem.n_states
    width = said.shape[-1] if said.ndim else 0
    are_laws = not knows.references_act and (width == S or width != A)
    fits = (*shape, N, S if are_laws else A)
    if tuple(said.shape) != fits:
        raise ValueError(
            f"references must have shape {(*shape, N, S)} (laws over the states)"
            + (f" or {(*shape, N, A)} (mixed actions)" if A != S else "")
            + f", a row for each of {', '.join(knows.references)}, got {tuple(said.shape)}"
        )
    if not are_laws and not rule.fallback_acts and not knows.references_act:
        raise ValueError(
            f"references must be laws, of shape {(*shape, N, S)}: this guard falls back on the law of one of them, got "
            "mixed actions; ExactTest(..., references_act=True) falls back on what it plays"
        )
    return inputs.probs_of(said, fits[-1], "references", shape=fits[:-1]), are_laws


def _utility(problem: DecisionProblem, shape: tuple[int, ...], payoffs: Any) -> np.ndarray:
    A, S = problem.utility.shape
    amounts = inputs.numbers_of(payoffs, "payoffs", "a matrix of numbers, one row an action")
    if amounts.shape not in ((A, S), (*shape, A, S)):
        raise ValueError(f"payoffs must have shape {(*shape, A, S)}, got {amounts.shape}")
    return np.broadcast_to(problem.utility_of(amounts), (*shape, A, S))


def _beside(values: Any, probs: Array) -> Array:
    """An array of its own in full precision, of the kind that ``probs`` is."""
    xp, where = namespace(probs), device(probs)
    if namespace(values) is xp and device(values) == where:
        return own_copy(in_float64(values))
    return astype(xp.asarray(to_numpy(values).copy(), device=where), float_type(xp, where))
