"""Columns of what else was known before each state: incumbents' laws, a context, what was at stake."""

from typing import Any

import numpy as np

from ..problems import DecisionProblem
from .cells import Refused, arrow, numbers_in, one_column, without_nulls
from .columns import Columns
from .laws import laws_in
from .told import Tells, Told, labelled


def told_in(table: Any, columns: Columns, problem: DecisionProblem, tolerance: float, where: str) -> tuple[Told, Tells]:
    """What a table tells of every row, as arrays with an axis of rows, and of what kind that is."""
    laws = [laws_in(table, own, problem.states, tolerance, where)[0] for _, own in columns.references]
    labels, context = None, None
    if columns.context is not None:
        column = one_column(table, columns.context)
        without_nulls(column, f"the context ({columns.context})", where, 0)
        labels, (context,) = labelled([column.to_pylist()], f"the context ({columns.context})")
    payoffs = _payoffs(table, columns.payoffs, problem, where) if columns.payoffs else None
    scale = None
    if columns.scale is not None:
        scale = numbers_in(one_column(table, columns.scale), columns.scale, "scale", where)
        if len(bad := np.flatnonzero(~((scale > 0) & (scale <= 1)))):
            reason = f"the scale ({columns.scale}) must be above 0 and at most 1, got {scale[bad[0]]:.6g}"
            raise Refused(where, int(bad[0]) + 1, reason)
    kind = "change" if payoffs is not None else "scaled" if scale is not None else None
    told = Told(np.stack(laws, axis=1) if laws else None, context, payoffs, scale)
    return told, Tells(tuple(name for name, _ in columns.references), labels, kind)


def _payoffs(table: Any, names: tuple[str, ...], problem: DecisionProblem, where: str) -> np.ndarray:
    """``[R, A, S]``, in the problem's units."""
    (A, S), pa = problem.utility.shape, arrow()
    if len(names) == A * S and not pa.types.is_nested(table.schema.field(names[0]).type):
        each = [numbers_in(one_column(table, name), name, "payoffs", where) for name in names]
        found_RxAxS = np.stack(each, axis=1).reshape(-1, A, S)
    else:
        column, name = one_column(table, names[0]), names[0]
        without_nulls(column, f"the list of payoffs ({name})", where, 0)
        for row, value in enumerate(column.to_pylist()):
            if np.shape(_flat(value)) not in ((A, S), (A * S,)):
                reason = f"there must be {A} x {S} payoffs ({name}), action by action, got {str(value)[:80]}"
                raise Refused(where, row + 1, reason)
        while pa.types.is_nested(column.type):
            column = column.flatten()
        found_RxAxS = numbers_in(column, name, "payoffs", where).reshape(-1, A, S)
    low, high = sorted((float(problem.in_payoffs(-1.0)), float(problem.in_payoffs(1.0))))
    slack = 1e-9 * (high - low)
    right_R = ((found_RxAxS >= low - slack) & (found_RxAxS <= high + slack)).all(axis=(1, 2))  # a NaN is neither
    if not right_R.all():
        row = int(np.flatnonzero(~right_R)[0])
        shown = ", ".join(f"{value:.6g}" for value in found_RxAxS[row].ravel()[:8])
        reason = f"payoffs must lie in the range that the problem declares, {low:.6g} to {high:.6g}, got {shown}"
        raise Refused(where, row + 1, reason)
    return found_RxAxS


def _flat(value: Any) -> Any:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
