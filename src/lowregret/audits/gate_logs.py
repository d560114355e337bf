"""The gate on logs: scores of two candidates on the same items, or forecasts of two models for the same steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from .. import inputs
from ..forecasts.contract import needs_knots
from ..guard import Guard
from ..problems import DecisionProblem, Payoff, a_problem
from .columns import Found, found_columns, listed, quantile_columns
from .gating import FAILED, Compared, Gate, Gates, judged, scores_compared
from .judging import responses, utilities
from .reading import ROW, Log, Refused, log_of
from .recording import NOTHING, Recording
from .settings import AuditSettings, Columns
from .table import table_of
from .times import ROWS, Clock, kind_of, moments_of, rhythms_of, spelling

_WORDS = {"true": "1", "false": "0", "pass": "1", "fail": "0"}  # as scores
_UNREAD = ("model", "context", "references", "payoffs")  # roles of columns that a gate does not know


def gate_scores(
    log: Any,
    new: str,
    current: str,
    *,
    low: float = 0.0,
    high: float = 1.0,
    alpha: float = 0.05,
    item: str | None = None,
    order: str | None = None,
    by: str | None = None,
) -> Gate | Gates:
    """``gate`` on a log of scores: whether the new candidate may take the place of the current one.

    Parameters
    ----------
    log
        As ``audit`` takes it.
    new, current
        The columns of their scores (numbers, bools, pass or fail).
    low, high, alpha
        As ``gate`` takes them.
    item
        The column that names the item. Several rows of one item (at one time) count as one, by their mean. None: each
        row is an item.
    order
        The column of the times or steps at which items were tried. Items of one time are judged by their mean, since
        they may move together. None: items are in the order of the log, each is judged by itself, and none is tried
        again later.
    by
        The column of slices, each of which is judged at alpha divided by their number.
    """
    alpha = inputs.probability(alpha, "alpha")
    inputs.names_of([new, current], "new and current")
    source, notes, scores = log_of(log), list[str](), {"new": new, "current": current}
    keys = {role: name for role, name in {"by": by, "item": item, "order": order}.items() if name is not None}
    named = scores | keys
    for role, name in named.items():
        if name not in source.schema:
            raise ValueError(f"the column of {role} must be one of {listed(source.schema)}, got {inputs.shown(name)}")
    rows = source.filled(list(source.schema))  # without blank lines
    table = source.collected(rows.select(ROW, **{role: pl.col(name) for role, name in named.items()}))
    if not len(table):
        raise Refused(source.source, None, "it has no rows")
    kind, zone = ROWS, None
    if order is not None:
        texts = source.head([order])[order] if table.schema["order"] == pl.String else ()
        moments = moments_of("order", table.schema["order"], spelling(texts))
        table, kind, zone = table.with_columns(order=moments.at), moments.kind, moments.zone
    for role in keys:
        _refuse(table, pl.col(role).is_null(), source, named[role], f"{named[role]} must name the {role} in every row")
    if order is not None:
        kind = kind_of(kind, *table.select(pl.min("order"), max=pl.max("order")).row(0))
    table = table.with_columns(_score(role, table.schema[role], source.has_commas) for role in scores)
    for role, name in scores.items():
        must = f"a score ({name}) must be in the range {low:g} to {high:g}, or pass or fail ({FAILED})"
        _refuse(table, ~pl.col(role).is_between(low, high).fill_null(False), source, name, must)
    if item is not None:
        table = table.group_by(list(keys), maintain_order=True).agg(pl.col("new", "current").mean())
    if order is not None and table.select([role for role in ("by", "order") if role in keys]).is_duplicated().any():
        notes.append(
            "items of one time are judged by their mean, as they may move together: without an order each counts by "
            "itself, and far fewer will do if they are independent"
        )
    parts = {("",): table} if by is None else dict(sorted(table.group_by("by", maintain_order=True)))
    found = dict[str, Gate]()
    for (name,), part in parts.items():
        at_R = np.arange(len(part)) if order is None else part["order"].to_numpy()
        about = {} if order is None else _span(Clock(at_R, kind, zone))
        both = scores_compared(part["new"].to_numpy(), part["current"].to_numpy(), low, high, at_R)
        about |= {"columns": named, "warnings": tuple(notes)}
        found[str(name)] = judged(both, (new, current), alpha / len(parts), **about)
    return found[""] if by is None else Gates(found, alpha)


def _score(role: str, kind: Any, has_commas: bool) -> pl.Expr:
    """A column of scores as numbers; null where a cell is none."""
    own = pl.col(role)
    if kind in (pl.String, pl.Categorical, pl.Enum):
        own = own.cast(pl.String).str.strip_chars().str.to_lowercase().replace(_WORDS)
        own = own.str.replace(",", ".", literal=True) if has_commas else own
    return own.cast(pl.Float64, strict=False)


def _refuse(table: pl.DataFrame, bad: pl.Expr, log: Log, name: str, reason: str) -> None:
    """Refuse the first bad row."""
    if len(wrong := table.filter(bad)):
        row = wrong.item(0, ROW)
        raise log.refused(row, f"{reason}, got {inputs.shown(log.cell(name, row))}")


def _span(clock: Clock) -> dict[str, Any]:
    """What a moment of all rows together is called, and what the log calls the first and the last."""
    moments = clock.part(np.unique(clock.at_R, return_index=True)[1])
    first, last = moments.texts([0, len(moments.at_R) - 1])
    return {"unit": rhythms_of(moments, np.zeros(len(moments.at_R))).unit, "first": first, "last": last}


def gate_forecasts(
    log: Any,
    problem: DecisionProblem | Payoff,
    new: str,
    current: str,
    *,
    alpha: float = 0.05,
    lag: int | None = None,
    tolerance: float = 1e-6,
    columns: Any = None,
) -> Gate:
    """Whether the new model may take the place of the current one, by what acting on the forecasts of each earned.

    Both are acted on by their best responses.

    Parameters
    ----------
    log, problem, lag, tolerance
        As ``audit`` takes them: forecasts are probabilities, or quantiles where the problem is a ``Payoff`` with knots.
    new, current
        The names of the models, with which the names of the columns of their forecasts begin (``new_p_wet``,
        ``new_q10``).
    alpha
        The chance of ever promoting a model that earns no more, and that of ever keeping out one that earns no less.
    columns
        As ``audit`` takes them; in the names of ``probs`` and ``quantiles`` {} is the name of the model:
        ``{"probs": {"wet": "rain_{}"}}``.

    >>> import pandas as pd
    >>> from lowregret import matching
    >>> days = pd.DataFrame({"y": [0, 1] * 20, "new_p_0": [0.9, 0.2] * 20, "current_p_0": 0.6})
    >>> days = days.assign(new_p_1=1 - days.new_p_0, current_p_1=1 - days.current_p_0)
    >>> gate_forecasts(days, matching(), "new", "current").verdict
    'promote'
    """
    alpha, named = inputs.probability(alpha, "alpha"), Columns() if columns is None else columns
    settings = AuditSettings(columns=named, lag=lag, tolerance=tolerance)
    inputs.names_of([new, current], "new and current")
    if isinstance(problem, Payoff):
        needs_knots(problem, "a gate")
    else:
        a_problem(problem)
    if given := [role for role in _UNREAD if getattr(settings.columns, role)]:
        raise ValueError(f"columns of a gate must name none of {listed(_UNREAD)}, got {listed(given)}")
    source, models, each = log_of(log), (new, current), list[Found]()
    for model in models:
        own = _columns_of(model, list(source.schema), problem, settings.columns)
        if not own:
            raise ValueError(
                f"there must be columns of the forecasts of {model}, {model}_p_STATE for every state or {model}_q10: "
                f"say which of {listed(source.schema)} they are, --probs STATE=COLUMN,... or --quantiles "
                "LEVEL=COLUMN,... with {} for the model"
            )
        each.append(found_columns(source, problem, replace(settings.columns, **own)))
    found = each[0]._replace(references=((current, each[1].values),))
    table = table_of(source, found, problem, settings.tolerance)
    recording, at_R, streams = table.recording, table.clock.at_R, len(table.recording.names)
    if table.found.order is None and streams > 1:
        reason = "a log of several streams must have a column of steps or times, to say which rows are of one moment"
        raise Refused(source.source, None, f"{reason}: --order NAME")
    notes = [note for note in table.notes if recording.missing_R is None or "outcomes inside" not in note]
    lag = recording.latest if settings.lag is None else settings.lag
    wait = _wait(np.repeat(np.arange(streams), recording.lengths_B), at_R, lag)
    if wait > lag:
        notes.append(
            f"streams have steps at different times, so outcomes are known only {wait} of all their steps later: more "
            "evidence is needed"
        )
    both = _payoffs_compared(problem, recording, at_R)
    if missing := int(both.missing_R.sum()):
        notes.append(f"{missing:,} outcomes are missing: each counts as the worst that it could be for either verdict")
    about = _span(table.clock) if table.clock.kind != ROWS else {"unit": "step"}
    about |= {"streams": streams, "columns": table.found.about, "warnings": tuple(notes)}
    return judged(both, models, alpha, lag, wait, **about)


def _payoffs_compared(problem: Any, recording: Recording, at_R: np.ndarray) -> Compared:
    """What acting on the forecast of each row pays, and acting on its reference."""
    setting, every = Guard(problem, against=recording.against).setting, np.arange(recording.n_steps)
    actions_2xR = np.zeros((2, len(every)), dtype=np.int64)
    for block in recording.blocks():
        best_NxT, (answer_NxTxA,) = responses(setting, block)
        both_2xNxT = np.stack([best_NxT, answer_NxTxA.argmax(axis=-1)])
        actions_2xR[:, recording.rows_of(block.index_N)] = both_2xNxT[:, block.recorded_NxT]
    pairs_2xP, pair_R = np.unique(actions_2xR, axis=1, return_inverse=True)
    utility_AxM = problem.knot_utilities if isinstance(problem, Payoff) else problem.utility
    gains_PxM = utility_AxM[pairs_2xP[0]] - utility_AxM[pairs_2xP[1]]  # between knots straight: extreme at one of them
    low_R, high_R = gains_PxM.min(axis=1)[pair_R], gains_PxM.max(axis=1)[pair_R]
    paid_2xR = utilities(problem, recording.outcomes_R, NOTHING)[actions_2xR, every]
    share_R = 1.0 if recording.side.scale is None else recording.side.scale
    new_R, current_R = problem.in_payoffs(paid_2xR) * share_R
    low_R, high_R = (problem.regret_in_payoffs(end_R) * share_R for end_R in (low_R, high_R))
    span, apart_R = float(problem.regret_in_payoffs(problem.span)), actions_2xR[0] != actions_2xR[1]
    return Compared("payoffs", new_R, current_R, low_R, high_R, span, at_R, apart_R, ~recording.there_R)


def _wait(stream_R: np.ndarray, at_R: np.ndarray, lag: int) -> int:
    """The lag counted in moments of all streams: how many of them pass while one stream makes ``lag`` of its own steps.

    The median within a stream, and of these the largest: a step that a stream leaves out now and then does not make
    outcomes later. Where streams have the same steps it is the lag itself. Rows are by stream and step.
    """
    place_R = np.unique(at_R, return_inverse=True)[1]
    same_R = stream_R[lag:] == stream_R[:-lag]
    apart_R, owner_R = (place_R[lag:] - place_R[:-lag])[same_R], stream_R[lag:][same_R]
    usual = (float(np.median(own)) for own in np.split(apart_R, np.flatnonzero(np.diff(owner_R)) + 1) if len(own))
    return max([lag, *map(math.ceil, usual)])


def _columns_of(model: str, there: Sequence[str], problem: Any, columns: Columns) -> dict[str, Any]:
    """The columns of a model's forecasts by its name in theirs, as ``Columns`` takes them; none where it is in none."""
    role = "quantiles" if isinstance(problem, Payoff) else "probs"
    if given := getattr(columns, role):
        is_named = isinstance(given, Mapping)
        names = [name.replace("{}", model) for name in (given.values() if is_named else given)]
        own: Any = dict(zip(given, names, strict=True)) if is_named else tuple(names)
        return {} if own == given else {role: own}
    if role == "probs":
        own = {state: f"{model}_p_{state}" for state in problem.states}
        own = own if set(own.values()) <= set(there) else None
    elif not (own := quantile_columns(there).get(model)):
        levels = quantile_columns([name.removeprefix(f"{model}_") for name in there if name.startswith(f"{model}_")])
        own = {level: f"{model}_{name}" for level, name in levels.get("", {}).items()}
    return {role: own} if own else {}
