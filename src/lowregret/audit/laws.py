"""Laws in the rows of a table: one probability per state, each law checked."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import inputs
from ..problems import Names
from .cells import Refused, also, arrow, numbers_in, one_column, without_nulls

_TOLERATED = 0.1  # at most, of what probabilities sum to
_ROUNDED = 1e-3  # this much is rounding, by single or half precision if not by decimals
_ULPS = 1e-9  # of a tolerance: 0.51 + 0.5 is off by a little more than 0.01


def laws_in(
    table: Any, names: tuple[str | None, ...], states: tuple[str, ...], tolerance: float, where: str, before: int = 0
) -> tuple[np.ndarray, int]:
    """Laws ``[R, S]``, and how many were made to sum to one."""
    return _normal(_laws(table, names, states, where, before), tolerance, where, before)


def _laws(table: Any, names: tuple[str | None, ...], states: tuple[str, ...], where: str, before: int) -> np.ndarray:
    """Probabilities ``[R, S]``, NaN where there are none."""
    pa, S, name = arrow(), len(states), names[0]
    if len(names) == 1 and name is not None and (S != 1 or pa.types.is_nested(table.schema.field(name).type)):
        column = one_column(table, name)
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)) and not (
            pa.types.is_fixed_size_list(column.type)
        ):
            reason = f"the probabilities ({name}) must be lists of {S}, got {column.type}{lone(name, states)}"
            raise Refused(where, None, reason)
        without_nulls(column, f"the list of probabilities ({name})", where, before)
        lengths = np.asarray(pa.compute.list_value_length(column)) if len(column) else np.zeros(0)
        if len(bad := np.flatnonzero(lengths != S)):
            reason = f"there must be {S} probabilities ({name}), one per state, got {int(lengths[bad[0]])}"
            raise Refused(where, before + int(bad[0]) + 1, reason)
        return numbers_in(column.flatten(), name, "probabilities", where).reshape(-1, S)
    probs_RxS = np.empty((table.num_rows, S))
    for s, name in enumerate(names):
        if name is not None:
            probs_RxS[:, s] = numbers_in(one_column(table, name), name, "probabilities", where, before)
    if None in names:  # of two states the other's
        probs_RxS[:, names.index(None)] = 1 - probs_RxS[:, 1 - names.index(None)]
    return probs_RxS


def _normal(probs_RxS: np.ndarray, tolerance: float, where: str, before: int) -> tuple[np.ndarray, int]:
    """The laws, made to sum to one where they are off by more than floating point explains, within the tolerance."""
    if not len(probs_RxS):
        return probs_RxS, 0
    sums_R = probs_RxS[:, 0].copy()
    with np.errstate(over="ignore"):
        for s in range(1, probs_RxS.shape[1]):
            sums_R += probs_RxS[:, s]
    off = np.abs(sums_R - 1)
    if probs_RxS.min() >= 0 and off.max() <= inputs.SUM_TOLERANCE:  # a NaN is neither
        return probs_RxS, 0
    bad_R = ~(off <= tolerance * (1 + _ULPS)) | ~(probs_RxS >= 0).all(axis=1)
    if bad_R.any():
        bad = np.flatnonzero(bad_R)
        at = int(bad[0])
        law = probs_RxS[at]
        shown = ", ".join(f"{p:.6g}" for p in law[:8]) + (", ..." if len(law) > 8 else "")
        if np.isnan(law).any():
            reason = f"a probability is missing or not a number: {shown}"
        elif not (np.isfinite(law).all() and (law >= 0).all()):
            reason = f"probabilities must lie in [0, 1], got {shown}"
        else:
            reason = f"probabilities must sum to one, and sum to {sums_R[at]:.9g} (tolerance {tolerance:g}): {shown}"
            likewise = bad_R & np.isfinite(sums_R) & (probs_RxS >= 0).all(axis=1)
            reason += _how_to_sum(float(sums_R[at]), float(off[likewise].max(initial=off[at])), probs_RxS[likewise])
        raise Refused(where, before + at + 1, reason + also(bad, before))
    off_R = off > inputs.SUM_TOLERANCE
    probs_RxS = probs_RxS.copy()
    probs_RxS[off_R] /= sums_R[off_R, None]
    return probs_RxS, int(off_R.sum())


def _how_to_sum(total: float, most: float, probs_RxS: np.ndarray) -> str:
    """What to do about these laws, of which the first sums to ``total`` and all are off by at most ``most``."""
    if abs(total - 100) <= 100 * _TOLERATED:
        return "; they look like percentages: divide them by 100"
    if not most <= _TOLERATED * (1 + _ULPS):
        return "; that is not rounding: if these are logits, take the softmax; if they are counts, divide by the sum"
    enough = _rounded_up(most)
    if most <= max(_ROUNDED, _by_decimals(probs_RxS)) * (1 + _ULPS):
        how = f"; if that is rounding, --tolerance {enough:g} renormalises them, audit_log(tolerance={enough:g})"
        return f"{how}; in a frame for backtest divide each row by its sum"
    return (
        "; that is not rounding: check that they are probabilities, and of all states; "
        f"--tolerance {enough:g} would renormalise them all the same"
    )


def _rounded_up(off: float) -> float:
    """The smallest tolerance with two digits that lets this sum pass.

    >>> _rounded_up(0.51 + 0.5 - 1), _rounded_up(0.00412)
    (0.01, 0.0042)
    """
    unit = 10.0 ** (math.floor(math.log10(off)) - 1)
    return float(f"{math.ceil(off / unit * (1 - _ULPS)) * unit:.2g}")


def _by_decimals(probs_RxS: np.ndarray) -> float:
    """How far sums may be off if these numbers were rounded to the decimals they show; 0 for many decimals."""
    for decimals in range(1, 7):
        if (np.abs(probs_RxS - np.round(probs_RxS, decimals)) < 1e-9).all():
            return float(probs_RxS.shape[1] / 2 * 10.0**-decimals)
    return 0.0


def tolerance_of(value: Any) -> float:
    """How far from one probabilities may sum: no more than rounding explains."""
    tolerance = inputs.positive(value, "tolerance")
    if tolerance > _TOLERATED:
        raise ValueError(
            f"tolerance must be above 0 and at most {_TOLERATED:g}, it is for rounding, got {value!r}: "
            "divide percentages by 100"
        )
    return tolerance


# Which columns hold the probabilities of which states: as the caller says, or by their names.


USUAL = ("probs", "probabilities", "p")  # one that holds lists
_SPELT = ("p_{}", "prob_{}", "p{}", "{}")  # one column per state
_SHORTEST = 2  # letters of a state's name that may stand at an end of a word: pup is up, data is not a


def listed(names: Any) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def probs_in(there: Sequence[str], states: Sequence[str], told: Any, taken: Sequence[str]) -> tuple[str | None, ...]:
    """The columns of probabilities, one per state in the order of the states, or one that holds lists.

    Of two states one may be None: 1 minus the other.
    """
    if told is not None:
        return told_laws(there, states, told, "probabilities", "probs")
    if names := column_names(there, states, taken):
        return names
    for name in USUAL:
        if name in there:
            return (name,)
    asked = tuple(_SPELT[0].format(state) for state in states[:3])
    more = ", ..." if len(states) > 3 else ""
    alone = next(
        (name for state in states for spelt in _SPELT if (name := spelt.format(state)) in there and name not in taken),
        None,
    )
    raise ValueError(
        f"there must be one column of probabilities per state ({', '.join(asked)}{more}), or one of lists (probs): say "
        f"which of {listed(there)} they are, {_how('probs', states)}{lone(alone, states) if alone else ''}"
    )


def column_names(there: Sequence[str], states: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """Columns named after the states, one for each; empty if any is missing."""
    each = [tuple(spelt.format(state) for state in states) for spelt in _SPELT]
    found = [names for names in each if all(name in there and name not in taken for name in names)]
    # else as a value would be matched: 0.0 is 0, and True is true
    alike = (_alike(there, states, spelt, taken) for spelt in _SPELT)
    return found[0] if found else next((names for names in alike if names is not None), ())


def _alike(there: Sequence[str], states: Sequence[str], spelt: str, taken: Sequence[str]) -> tuple[str, ...] | None:
    """The columns whose names mean the states in this spelling, one each."""
    names, begin = Names(states), spelt.removesuffix("{}")
    free = [name for name in there if name.startswith(begin) and name not in taken]
    placed = [(names.position(name[len(begin) :]), name) for name in free]
    found = {at: name for at, name in placed if at is not None}
    once = len(found) == len(states) == sum(at is not None for at, _ in placed)
    return tuple(found[at] for at in range(len(states))) if once else None


def told_laws(
    there: Sequence[str], states: Sequence[str], told: Any, what: str, role: str = ""
) -> tuple[str | None, ...]:
    """Columns of laws as the caller says: by state, or in the order of the states, or one that holds lists."""
    if isinstance(told, Mapping):
        return _by_state(there, states, told, what)
    names = several(there, told, len(states), what, f": {_how(role, states)}" if role else "")
    if len(names) == len(states) > 1:
        _refuse_swapped(names, states, what)
    return names


def several(there: Sequence[str], told: Any, n: int, what: str, how: str = "") -> tuple[str, ...]:
    """The given number of columns, or one that holds lists."""
    names = (told,) if isinstance(told, str) else tuple(told) if isinstance(told, (list, tuple)) else ()
    if len(names) not in (1, n) or not all(isinstance(name, str) and name in there for name in names):
        raise ValueError(
            f"the columns of {what} must be {n}, or one that holds lists, of {listed(there)}, got "
            f"{inputs.shown(told)}{how}"
        )
    return names


def told_in_words(text: str, states: Sequence[str]) -> list[str] | dict[str, str]:
    """What ``--probs`` says: columns with commas in the order of the states, or STATE=COLUMN each.

    >>> told_in_words("up=forecast_up,down=forecast_down", ("down", "up"))
    {'up': 'forecast_up', 'down': 'forecast_down'}
    """
    pieces = text.split(",")
    found: dict[str, str] = {}
    for piece in pieces:
        own = [state for state in states if piece.startswith(f"{state}=")]
        if own:
            state = max(own, key=len)
            if state in found:
                raise ValueError(f"--probs must name a column for each state once, and has two for {state}: {text!r}")
            found[state] = piece[len(state) + 1 :]
    if found and len(found) < len(pieces):
        raise ValueError(
            f"--probs must be columns in the order of the states ({listed(states)}), or STATE=COLUMN each, got {text!r}"
        )
    return found or pieces


def lone(name: str | None, states: Sequence[str]) -> str:
    """A hint for a table with one column for two states; empty otherwise."""
    if name is None or len(states) != 2:
        return ""
    at = state_named(name, states)
    state = "STATE" if at is None else states[at]
    return (
        f"; if {name} is the probability of {state} (of {listed(states)}), and the other's is 1 - {name}, say so: "
        f"--probs {state}={name} or columns={{'probs': {{{state!r}: {name!r}}}}}"
    )


def _by_state(
    there: Sequence[str], states: Sequence[str], told: Mapping[Any, Any], what: str
) -> tuple[str | None, ...]:
    names = Names(states)
    named = {states[at]: name for state, name in told.items() if (at := names.position(state)) is not None}
    enough = set(named) == set(states) or (len(states) == 2 and len(named) == 1 and set(named) <= set(states))
    right = all(isinstance(name, str) and name in there for name in named.values())
    if len(named) < len(told) or not enough or not right or len(set(named.values())) < len(named):
        other = ", or one for one of the two" if len(states) == 2 else ""
        raise ValueError(
            f"the columns of {what} by state must name a different column, of {listed(there)}, for each of "
            f"{listed(states)}{other}, got {inputs.shown(told)}"
        )
    return tuple(named.get(state) for state in states)


def _refuse_swapped(names: Sequence[str], states: Sequence[str], what: str) -> None:
    """Refuse columns in the order of the states whose names say that they belong to other states.

    Numbers in names may mean something else, model_1_a and model_1_b: they count only if all are there.
    """
    said = [state_named(name, states) for name in names]
    wrong = [i for i, state in enumerate(said) if state is not None and state != i]
    numbers = all(state.lstrip("-").isdecimal() for state in states)
    if not wrong or (numbers and sorted(s for s in said if s is not None) != list(range(len(states)))):
        return
    at, other = wrong[0], said[wrong[0]]
    assert other is not None
    pairs = [f"{state}={name}" for state, name in zip(states, names, strict=True)]
    raise ValueError(
        f"the columns of {what} must be in the order of the states, {listed(states)}, and {names[at]!r}, which has the "
        f"place of {states[at]}, names {states[other]}: give them in that order, or each with its state, "
        f"STATE=COLUMN (columns={{...: {{STATE: COLUMN}}}}); in the order given they would be {','.join(pairs[:12])}"
    )


def state_named(column: str, states: Sequence[str]) -> int | None:
    """The one state that a column's name names: as a word of it, else at an end of a word; None: none, or several."""
    text, spelt = _plain(column), [_plain(state) for state in states]
    for inside in (_is_word, _is_affix):
        found = [i for i, state in enumerate(spelt) if state and inside(state, text)]
        # p_no_rain names "no rain", although "rain" is in it
        found = [i for i in found if not any(j != i and spelt[i] in spelt[j] for j in found)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


def _is_word(state: str, text: str) -> bool:
    return f"_{state}_" in f"_{text}_"


def _is_affix(state: str, text: str) -> bool:
    if state.isdecimal():
        return re.search(rf"(?<!\d){state}(_|$)", text) is not None or re.match(rf"{state}(?!\d)", text) is not None
    return len(state) >= _SHORTEST and (text.startswith(state) or text.endswith(state))


def _how(role: str, states: Sequence[str]) -> str:
    few = [f"{state}=COLUMN" for state in states[:3]] + ["..."] * (len(states) > 3)
    return f"--{role} {','.join(few)} or columns={{{role!r}: {{{states[0]!r}: COLUMN, ...}}}}"
