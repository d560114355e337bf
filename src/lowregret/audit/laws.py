"""Laws in the rows of a table: probabilities a state, each law checked."""

import math
from typing import Any

import numpy as np

from .. import inputs
from .cells import Refused, also, arrow, numbers_in, one_column, without_nulls
from .law_columns import lone

_TOLERATED = 0.1  # at most, of what probabilities sum to
_ROUNDED = 1e-3  # that much is rounding, by single or half precision if not by decimals
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
            reason = f"there must be {S} probabilities ({name}), one a state, got {int(lengths[bad[0]])}"
            raise Refused(where, before + int(bad[0]) + 1, reason)
        return numbers_in(column.flatten(), name, "probabilities", where).reshape(-1, S)
    probs_RxS = np.empty((table.num_rows, S))
    for s, name in enumerate(names):
        if name is not None:
            probs_RxS[:, s] = numbers_in(one_column(table, name), name, "probabilities", where)
    if None in names:  # of two states the other's
        probs_RxS[:, names.index(None)] = 1 - probs_RxS[:, 1 - names.index(None)]
    return probs_RxS


def _normal(probs_RxS: np.ndarray, tolerance: float, where: str, before: int) -> tuple[np.ndarray, int]:
    """The laws, made to sum to one where they are off by more than floating point explains and no more than may be."""
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
    """What to do about these laws: the first sums to ``total``, all are off by ``most`` at most."""
    if abs(total - 100) <= 100 * _TOLERATED:
        return "; they look like percentages: divide them by 100"
    if not most <= _TOLERATED * (1 + _ULPS):
        return "; that is no rounding: if these are logits, take the softmax; if they are counts, divide by the sum"
    enough = _rounded_up(most)
    if most <= max(_ROUNDED, _by_decimals(probs_RxS)) * (1 + _ULPS):
        how = f"; if that is rounding, --tolerance {enough:g} renormalises them, audit_log(tolerance={enough:g})"
        return f"{how}; in a frame for backtest divide each row by its sum"
    return (
        "; that is no rounding: see whether they are probabilities, and of all states; "
        f"--tolerance {enough:g} would renormalise them all the same"
    )


def _rounded_up(off: float) -> float:
    """The least number of two digits that a sum may be off by, so that this one may.

    >>> _rounded_up(0.51 + 0.5 - 1), _rounded_up(0.00412)
    (0.01, 0.0042)
    """
    unit = 10.0 ** (math.floor(math.log10(off)) - 1)
    return float(f"{math.ceil(off / unit * (1 - _ULPS)) * unit:.2g}")


def _by_decimals(probs_RxS: np.ndarray) -> float:
    """By how much sums may be off if these numbers were rounded to as many decimals as they have; 0 for many."""
    for decimals in range(1, 7):
        if (np.abs(probs_RxS - np.round(probs_RxS, decimals)) < 1e-9).all():
            return float(probs_RxS.shape[1] / 2 * 10.0**-decimals)
    return 0.0


def tolerance_of(value: Any) -> float:
    """How far from one probabilities may sum: so little that it can be rounding."""
    tolerance = inputs.positive(value, "tolerance")
    if tolerance > _TOLERATED:
        raise ValueError(
            f"tolerance must be above 0 and at most {_TOLERATED:g}, it is for rounding, got {value!r}: percentages are "
            "to be divided by 100"
        )
    return tolerance
