"""A gate between two models: does acting on the new one earn more than acting on the current one, beyond luck?

Both models have forecast the same days, and each is acted on by its best response. Let D_t be how much more the new one
earned on day t; with several streams, the mean of that over the streams of the day. Given the two actions it lies in
[low_t, high_t], the least and the most over all states: both are known before the outcome.

**Null.** E[D_t | F_t] <= 0 on every day, F_t being all that was known when the two actions of day t were chosen: the
new model earns no more than the current one, on average given the past. Nothing else is assumed: days may depend on
each other and differ from each other, the models may be retrained at any time, and the streams of one day may move
together in any way.

**Evidence.** A bettor at rate lam begins with 1 and stakes on every day

    W_t = W_{t-1} (1 + lam_t D_t),    lam_t = min(lam, 1 / (2 |low_t|)),

no more than half of what it has. As lam_t >= 0 is known before the outcome, E[1 + lam_t D_t | F_t] <= 1 under the null,
and no factor is negative: W is a nonnegative supermartingale from 1, and so is E, the mean of the bettors at the
``RATES``. By Ville's inequality P(E_t >= 1/alpha on some day t) <= alpha. So the gate may be asked every day, and one
may stop whenever one likes. The other way round -D_t in [-high_t, -low_t] is bet on, at alpha again: each of the two
wrong verdicts has a chance of at most alpha of ever being given.

The engine's bettors (``engine/bets.py``) know a law, the model's, and are charged by it. Here there is none, only
a range; a bet that is linear in D_t is then fair without any charge. For each of their bets there is one that never
wins less: by convexity exp(lam x) lies below its chord over [low, high], and its height at 0 is what they would be
charged. Where D_t is a mean over many streams, far smaller than its range, that is most of the evidence.

**Late outcomes.** With a lag of d the actions of day t are chosen when the outcomes up to day t - d are known, and a
stretch of luck counts in d days at once: the product above is no supermartingale any more. Days that are d apart make a
class, in which it is; the average over the d classes counts, and a_d / alpha is needed, as proved in
``certificates/late.py`` (i).

**Verdict.** By the evidence at the end of the log: promote where E reached what is needed and the new model earned more
in all; keep where the other E did and it earned less; else there is not enough yet. Asking for the money too can only
lower the chance of either.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import files, inputs
from ..certificates.coupled import late_factor
from ..problems import DecisionProblem, a_problem
from .cells import Refused, arrow, one_column, printable
from .columns import Columns, alone_told, chosen_told, columns_of, passed_on, passed_told, shared
from .frames import FRAME, is_frame, table_of
from .laws import laws_in, listed, told_laws, tolerance_of
from .logs import StreamNumbers, log_at, pieces_in
from .rows import Rows, plainly, rows_of, sorted_rows, streams_in_rows
from .times import ROWS, Steps, irregular, with_own_clocks

PROMOTE, KEEP, WAIT = "promote", "keep", "not enough yet"
RATES = 2.0 ** np.arange(8, -12, -1)  # over the span: the high ones for means over many streams, the low for tiny edges
_STAKED = 0.5  # of what a bettor has, at most
_MOST = 690.0  # of ln E, so that E is a float
_FAR = 1e9  # days: as good as never
_DAY = 86_400 * 10**9
_UNKNOWN = -1  # in place of a state
_MODELS = ("model", "model_name", "model_id", "model_version")  # as a column of models is called
_SPELT = (  # one column per state and model; or - . and a space in place of _
    *("{model}_p_{state}", "{model}_prob_{state}", "{model}_p{state}", "{model}_{state}"),
    *("p_{state}_{model}", "prob_{state}_{model}", "p{state}_{model}", "{state}_{model}"),
    *("p_{model}_{state}", "prob_{model}_{state}"),
)
_LISTS = ("{model}", "{model}_p", "{model}_probs", "p_{model}", "probs_{model}")  # one that holds lists


@dataclass(frozen=True)
class Gate:
    """The gate's verdict on two models, with the evidence both ways; money is in the units of the payoffs."""

    verdict: str  # promote, keep, not enough yet
    model: str
    against: str
    earned: dict[str, float]  # by both, in all
    difference: float  # what the new one earned more, in all
    difference_a_step: float  # on average, of a stream
    e_better: float  # evidence that the new one earns more
    e_worse: float  # evidence that it earns less
    needed: float  # of either
    more_steps: int | None  # until there is enough, if they are like those so far; None: never, or there is already
    steps: int
    days: bool  # whether steps are days
    first: str | int | None  # what the log calls the first step and the last
    last: str | int | None
    streams: int
    rows: int
    apart: int  # rows in which the two acted differently
    alpha: float
    lag: int
    columns: dict[str, Any]
    warnings: tuple[str, ...]

    def to_json(self) -> str:
        return json.dumps({"kind": "lowregret gate", **asdict(self)}, indent=1)

    def __str__(self) -> str:
        new, old, word = printable(self.model, 80), printable(self.against, 80), self._steps(self.steps)
        much = f"{abs(self.difference):,.6g} {'less' if self.difference < 0 else 'more'}"
        money = f"earned {much} than {old} in {word} ({self.difference_a_step:+,.4g} a {self._steps(1)[2:]}"
        money += ")" if self.streams == 1 else f" and stream, {self.streams:,} streams)"
        if self.verdict == PROMOTE:
            answer = f"Promote {new}: it {money}."
        elif self.verdict == KEEP:
            answer = f"Keep {old}: {new} {money}."
        elif self.more_steps is None:
            answer = f"Not enough yet about {new}: it {money}. At this difference there would never be enough."
        else:
            more = self._steps(self.more_steps)
            answer = f"Not enough yet about {new}: it {money}. At this difference about {more} more would do."
        span = "" if self.first is None else f" from {self.first} to {self.last}"
        wait = "" if self.lag == 1 else f", for outcomes that are known {self.lag} steps later"
        return "\n".join([
            answer,
            f"Evidence that it earns more: {self.e_better:,.4g}; that it earns less: {self.e_worse:,.4g}. "
            f"Needed: {self.needed:,.4g}{wait}.",
            f"If it earns no more, the chance that it is ever promoted is at most {self.alpha:g}; if it earns no less, "
            f"the chance that it is ever kept out is at most {self.alpha:g}.",
            f"They acted differently in {self.apart:,} of {self.rows:,} rows{span}. Earned in all: "
            + ", ".join(f"{printable(name, 80)} {amount:,.6g}" for name, amount in self.earned.items()) + ".",
            chosen_told(self.columns),
            *(f"! {words}" for words in self.warnings),
        ])  # fmt: skip

    def _steps(self, number: int) -> str:
        return f"{number:,} {'day' if self.days else 'step'}{'' if number == 1 else 's'}"


def gate(
    log: Any,
    problem: DecisionProblem,
    *,
    model: str,
    against: str,
    alpha: float = 0.05,
    lag: int = 1,
    tolerance: float = inputs.SUM_TOLERANCE,
    columns: Mapping[str, Any] | None = None,
) -> Gate:
    """Whether the new ``model`` may take the place of the current one, by what acting on each earned.

    Parameters
    ----------
    log
        A file or folder as ``audit_log`` takes it, or a frame of any package that speaks Arrow.
    model, against
        The names of the new model and the current one: as they stand in the log's column of models, or in the names of
        the columns of their probabilities (``new_p_wet``, ``p_wet_new``).
    alpha
        The chance of ever promoting a model that earns no more, and that of ever keeping out one that earns no less.
    lag
        How many steps later an outcome is known: 1, before the next step. Rows of the last ``lag`` steps may be without
        an outcome, and are left out.
    tolerance
        As ``audit_log`` takes it.
    columns
        As ``audit_log`` takes them, with ``model`` for the column of models; in the columns of ``probs``, {} is the
        name of the model: ``{"probs": {"wet": "rain_{}"}}``.

    >>> import pandas as pd
    >>> from lowregret import matching
    >>> days = pd.DataFrame({"y": [0, 1] * 20, "new_0": [0.9, 0.2] * 20, "current_0": 0.6})
    >>> days = days.assign(new_1=1 - days.new_0, current_1=1 - days.current_0)
    >>> gate(days, matching(), model="new", against="current").verdict
    'promote'
    """
    a_problem(problem)
    alpha, lag, tolerance = inputs.probability(alpha, "alpha"), inputs.whole(lag, "lag"), tolerance_of(tolerance)
    for name, value in {"model": model, "against": against}.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} must be the name of a model, got {inputs.shown(value)}")
    if model == against:
        raise ValueError(f"model and against must be two models, and both are {model!r}")
    both = _paired(log, problem, (model, against), lag, tolerance, columns)
    new_R, old_R = (problem.best_response(laws_RxS) for laws_RxS in both.laws)
    gains_RxS = problem.utility[new_R] - problem.utility[old_R]
    gain_R = np.take_along_axis(gains_RxS, both.states_R[:, None], axis=1)[:, 0]
    at_T, step_R, streams_T = np.unique(both.steps.at_R, return_inverse=True, return_counts=True)
    gain_T, low_T, high_T = (
        np.bincount(step_R, value_R) / streams_T for value_R in (gain_R, gains_RxS.min(axis=1), gains_RxS.max(axis=1))
    )
    needed, wait = late_factor(both.wait) / alpha, both.wait
    ways = {PROMOTE: _Bettors(gain_T, low_T, problem.span, wait), KEEP: _Bettors(-gain_T, -high_T, problem.span, wait)}
    log_e = {way: float(bettors.log_evidence_T[-1]) for way, bettors in ways.items()}
    total = float(gain_R.sum())
    leading = PROMOTE if total > 0 else KEEP
    enough = total != 0 and log_e[leading] >= math.log(needed)
    paid = {
        name: float(problem.in_payoffs(problem.utility[own_R, both.states_R]).sum())
        for name, own_R in ((model, new_R), (against, old_R))
    }
    order = np.argsort(both.steps.at_R, kind="stable")
    times: list[str | int | None] = [None, None]
    if both.steps.kind != ROWS:
        counted, ends = both.steps.counted, (int(order[0]), int(order[-1]))
        times = [int(both.steps.at_R[row]) if counted else both.steps.spelt(row) for row in ends]
    difference = float(problem.regret_in_payoffs(total))
    return Gate(
        verdict=leading if enough else WAIT,
        model=model,
        against=against,
        earned=paid,
        difference=difference,
        difference_a_step=difference / len(gain_R),
        e_better=math.exp(min(log_e[PROMOTE], _MOST)),
        e_worse=math.exp(min(log_e[KEEP], _MOST)),
        needed=needed,
        more_steps=None if enough or total == 0 else ways[leading].more_steps(needed),
        steps=len(at_T),
        days=both.steps.dated and _daily(np.diff(np.unique(both.steps.clock_R))),
        first=times[0],
        last=times[1],
        streams=both.streams,
        rows=len(gain_R),
        apart=int((new_R != old_R).sum()),
        alpha=alpha,
        lag=lag,
        columns=both.about,
        warnings=both.notes,
    )


def log_evidence(gain_T: np.ndarray, low_T: np.ndarray, span: float, lag: int = 1) -> np.ndarray:
    """ln E after every day, ``[T]``, for differences known to be at least ``low_T`` and at most ``span`` in size.

    >>> log_evidence(np.array([1.0, 0.0, 1.0, 1.0]), np.array([-1.0, 0.0, -1.0, -1.0]), span=1.0).round(2).tolist()
    [0.24, 0.24, 0.52, 0.82]
    """
    return _Bettors(gain_T, low_T, span, lag).log_evidence_T


class _Bettors:
    """Bettors on a positive mean difference, each at its own rate, over the days."""

    def __init__(self, gain_T: np.ndarray, low_T: np.ndarray, span: float, lag: int) -> None:
        with np.errstate(divide="ignore"):
            rates_KxT = np.minimum(RATES[:, None] / (span or 1.0), _STAKED / np.maximum(-low_T, 0.0))
        self.growth_KxT = np.log1p(rates_KxT * gain_T)
        self.lag, self.class_T = lag, np.arange(len(gain_T)) % lag

    @property
    def log_evidence_T(self) -> np.ndarray:
        """ln E after every day: the average over bettors and classes of days."""
        found = np.full(len(self.class_T), -np.inf)
        for r in range(self.lag):
            wealth_KxT = np.cumsum(self.growth_KxT * (self.class_T == r), axis=1)
            found = np.logaddexp(found, np.logaddexp.reduce(wealth_KxT, axis=0))
        return found - math.log(self.lag * len(RATES))

    def more_steps(self, needed: float) -> int | None:
        """How many more days until E reaches a level, if every bettor goes on growing at its average; None: never."""
        wealth_DxK = np.stack([(self.growth_KxT * (self.class_T == r)).sum(axis=1) for r in range(self.lag)])
        a_day_K = self.growth_KxT.mean(axis=1) / self.lag

        def short(days: float) -> bool:
            whole = np.logaddexp.reduce((wealth_DxK + days * a_day_K).ravel())
            return bool(whole - math.log(wealth_DxK.size) < math.log(needed))

        if short(_FAR):
            return None
        low, high = 0, int(_FAR)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if short(middle) else (low, middle)
        return low


# What both models forecast for the same steps.


class _Paired(NamedTuple):
    """Rows that both models forecast."""

    laws: tuple[np.ndarray, np.ndarray]  # [R, S] each, of the new model and of the current one
    states_R: np.ndarray
    steps: Steps
    streams: int
    wait: int  # after how many of all streams' steps together an outcome is known
    about: dict[str, Any]
    notes: tuple[str, ...]


class _Read(NamedTuple):
    """The rows of a log as they stand; ``where`` says which row each is."""

    streams: list[str]
    stream_R: np.ndarray
    steps: Steps
    states_R: np.ndarray
    laws_RxS: np.ndarray
    others_RxS: np.ndarray | None  # the current model's, where both stand in one row
    models: list[str]  # where each has rows of its own
    model_R: np.ndarray | None
    row_R: np.ndarray
    where: Callable[[int], tuple[str, int]]
    renormalised: int

    def of(self, place: np.ndarray) -> "_Read":
        parts = {name: value[place] for name, value in self._asdict().items() if isinstance(value, np.ndarray)}
        return self._replace(steps=self.steps.of(place), **parts)


def _paired(
    log: Any, problem: DecisionProblem, models: tuple[str, str], lag: int, tolerance: float, told: Any
) -> _Paired:
    """The rows that both models forecast and whose outcomes are known, by stream and step; others are noted."""
    columns, read = _opened(log, problem, models, told)
    while True:
        rows = read(columns, tolerance)
        mine = rows if rows.model_R is None else rows.of(_rows_of(models[0], rows))
        single = int((np.bincount(mine.stream_R, minlength=1) == 1).sum())
        if columns.stream is None or columns.guesses is None or shared(len(mine.row_R), single):
            break
        columns = passed_on(columns)
    place = np.unique(rows.stream_R)
    if columns.order is None and (len(place) > 1 or rows.model_R is not None):
        what = "a column of models" if rows.model_R is not None else "several streams"
        reason = f"a log with {what} must have one of steps or times too, to say which rows are of one day"
        raise Refused(rows.where(int(rows.row_R[0]))[0], None, f"{reason}: --order NAME or columns={{'order': NAME}}")
    mine, waiting = _in_order(mine, columns, lag)
    notes = [*passed_told(columns), *irregular(mine.stream_R, mine.steps).told]
    if rows.renormalised:
        notes.append(f"{rows.renormalised:,} laws were made to sum to one")
    if rows.others_RxS is not None:
        assert mine.others_RxS is not None
        theirs = mine._replace(laws_RxS=mine.others_RxS)
    else:
        theirs, also_waiting = _in_order(rows.of(_rows_of(models[1], rows)), columns, lag)
        waiting += also_waiting
        mine, theirs, left_out = _matched(mine, theirs)
        if left_out:
            notes.append(
                f"{left_out:,} rows of one model alone are left out: the other has no forecast for these steps"
            )
    if waiting:
        notes.append(f"{waiting:,} rows whose outcomes are not known yet are left out")
    streams, wait = len(np.unique(mine.stream_R)), _wait(mine, lag)
    if wait > lag:
        notes.append(
            f"streams have steps at different times, so outcomes are known only {wait} of all their steps later: "
            "more evidence is asked for"
        )
    about = _about(columns, models)
    return _Paired((mine.laws_RxS, theirs.laws_RxS), mine.states_R, mine.steps, streams, wait, about, tuple(notes))


def _wait(rows: _Read, lag: int) -> int:
    """The lag counted in steps of all streams: how many of them pass while one stream makes ``lag`` of its own.

    The median within a stream, and of these the largest: a step that a stream leaves out now and then does not make
    outcomes later. Where streams have the same steps it is the lag itself. Rows are by stream and step.
    """
    place_R = np.unique(rows.steps.at_R, return_inverse=True)[1]
    same_R = rows.stream_R[lag:] == rows.stream_R[:-lag]
    apart_R, stream_R = (place_R[lag:] - place_R[:-lag])[same_R], rows.stream_R[lag:][same_R]
    usual = (float(np.median(own)) for own in np.split(apart_R, np.flatnonzero(np.diff(stream_R)) + 1) if len(own))
    return max([lag, *map(math.ceil, usual)])


def _daily(apart: np.ndarray) -> bool:
    """Whether steps this far apart, in nanoseconds, are days, apart from some that are left out."""
    return not (apart % _DAY).any() and (len(apart) == 0 or float(np.median(apart)) == _DAY)


def _rows_of(model: str, rows: _Read) -> np.ndarray:
    if model not in rows.models:
        raise ValueError(
            f"the models of this log are {listed(sorted(rows.models))}, and {inputs.shown(model)} is not one of them"
        )
    assert rows.model_R is not None
    return np.flatnonzero(rows.model_R == rows.models.index(model))


def _in_order(rows: _Read, columns: Columns, lag: int) -> tuple[_Read, int]:
    """The rows whose outcomes are known, by stream and step, and how many others there are.

    Only those of the last ``lag`` steps of a stream may be unknown: leaving out others would be choosing among days.
    """
    alone = alone_told(columns)
    place_R = sorted_rows(rows.streams, rows.stream_R, rows.steps, rows.row_R, rows.where, columns.every, alone)
    rows = rows.of(place_R)
    after_R = np.searchsorted(rows.stream_R, rows.stream_R, side="right") - 1 - np.arange(len(rows.stream_R))
    unknown_R = rows.states_R == _UNKNOWN
    if len(bad := np.flatnonzero(unknown_R & (after_R >= lag))):
        file, row = rows.where(int(rows.row_R[bad].min()))
        reason = f"the outcome ({columns.state}) is missing, and with a lag of {lag} it must be known by the last step"
        raise Refused(file, row, reason)
    if unknown_R.all():
        raise Refused(rows.where(int(rows.row_R[0]))[0], None, "no outcome is known yet")
    return rows.of(np.flatnonzero(~unknown_R)), int(unknown_R.sum())


def _matched(mine: _Read, theirs: _Read) -> tuple[_Read, _Read, int]:
    """Pairs of rows of the two models for the same stream and step, and how many rows have no partner."""
    at_T = np.unique(np.concatenate([mine.steps.at_R, theirs.steps.at_R]))

    def keys(rows: _Read) -> np.ndarray:
        return rows.stream_R.astype(np.int64) * len(at_T) + np.searchsorted(at_T, rows.steps.at_R)

    _, here, there = np.intersect1d(keys(mine), keys(theirs), assume_unique=True, return_indices=True)
    if not len(here):
        raise Refused(mine.where(int(mine.row_R[0]))[0], None, "the two models have no step of a stream in common")
    left_out = len(mine.row_R) + len(theirs.row_R) - 2 * len(here)
    mine, theirs = mine.of(here), theirs.of(there)
    if len(bad := np.flatnonzero(mine.states_R != theirs.states_R)):
        file, row = theirs.where(int(theirs.row_R[bad[0]]))
        other, its_row = mine.where(int(mine.row_R[bad[0]]))
        also = f"row {its_row}" if other == file else f"{other}, row {its_row}"
        raise Refused(file, row, f"the outcome of a step must be the same for both models, and it differs in {also}")
    return mine, theirs, left_out


def _about(columns: Columns, models: tuple[str, str]) -> dict[str, Any]:
    """Which column was read as what."""
    about = {role: own for role, own in columns.about.items() if role not in ("references", "context", "probs")}
    if columns.context is not None:
        return about | {"model": columns.context, "probs": list(columns.probs)}
    return about | {"probs": {models[0]: list(columns.probs), models[1]: list(columns.references[0][1])}}


# Where it stands in a log: one column of models, or columns of probabilities that have the model in their names.


def _opened(
    log: Any, problem: DecisionProblem, models: tuple[str, str], told: Any
) -> tuple[Columns, Callable[[Columns, float], _Read]]:
    """The columns of a log, and a function that reads it."""

    def found_in(there: Any, problem: DecisionProblem, told: Any) -> Columns:
        return _columns(there, problem, models, told)

    if is_frame(log):
        table = table_of(log)
        columns = found_in(table.column_names, problem, told)
        if not table.num_rows:
            raise ValueError("the frame must have one row per step, got no rows")

        def of_frame(columns: Columns, tolerance: float) -> _Read:
            some = with_own_clocks(table.select(columns.needed), log, columns.order)
            piece = _piece(columns, problem, tolerance)(some, FRAME, 0)
            return _joined([(piece, np.arange(table.num_rows))], columns, lambda row: (FRAME, row + 1))

        return columns, of_frame
    own = log_at(files.a_path(log), problem, told, found_in)

    def of_file(columns: Columns, tolerance: float) -> _Read:
        here = own._replace(columns=columns)
        pieces = list(pieces_in(here, _piece(columns, problem, tolerance)))
        if not pieces:
            raise Refused(own.paths[0], None, "it has no rows")
        return _joined(pieces, columns, here.where)

    return own.columns, of_file


def _columns(there: Any, problem: DecisionProblem, models: tuple[str, str], told: Any) -> Columns:
    """The columns that matter: the current model's laws as ``references``, or the column of models as ``context``."""
    if told is not None and not isinstance(told, Mapping):
        raise ValueError(f"columns must be a dict of columns by what they are, got {inputs.shown(told)}")
    rest, states = dict(told or {}), problem.states
    named = rest.pop("model", None)
    if named is None:
        mine, theirs = (_laws_of(there, states, model, rest.get("probs")) for model in models)
        if mine is not None and theirs is not None:
            columns = columns_of(there, problem, rest | {"probs": mine})
            laws = told_laws(there, states, theirs, f"probabilities of {models[1]}")
            return columns._replace(references=((models[1], laws),))
        named = next((name for name in there if name.strip().casefold() in _MODELS), None)
        if named is None:
            missing = models[0] if mine is None else models[1]
            raise ValueError(
                f"there must be one column of probabilities per state for {missing} ({missing}_p_{states[0]} or "
                f"p_{states[0]}_{missing}, ...), or a column of models: say which of {listed(there)} they are, --probs "
                "STATE=COLUMN,... with {} for the model or columns={'probs': {STATE: COLUMN}}; --model-column NAME or "
                "columns={'model': NAME}"
            )
    if named not in there:
        raise ValueError(f"the column of models must be one of {listed(there)}, got {inputs.shown(named)}")
    return columns_of(there, problem, rest)._replace(context=named)


def _laws_of(there: Any, states: tuple[str, ...], model: str, told: Any) -> Any:
    """The columns of a model's laws by state, or one of lists, as ``columns_of`` takes them; None: there are none."""
    if told is not None:
        own = _with_name(told, model)
        return None if own == told else own
    for gap in ("_", "-", ".", " "):
        for spelt in _SPELT:
            names = {state: spelt.replace("_", gap).format(model=model, state=state) for state in states}
            if all(name in there for name in names.values()):
                return names
        for spelt in _LISTS:
            if (name := spelt.replace("_", gap).format(model=model)) in there:
                return name
    return None


def _with_name(told: Any, model: str) -> Any:
    """What the caller says of columns, with the model's name in place of {}."""
    if isinstance(told, Mapping):
        return {state: _with_name(name, model) for state, name in told.items()}
    if isinstance(told, (list, tuple)):
        return [_with_name(name, model) for name in told]
    return told.replace("{}", model) if isinstance(told, str) else told


# Reading.


class _Piece(NamedTuple):
    """Some rows of a log."""

    rows: Rows
    others_RxS: np.ndarray | None
    models: list[Any]
    model_R: np.ndarray
    renormalised: int


def _piece(columns: Columns, problem: DecisionProblem, tolerance: float) -> Callable[[Any, str, int], _Piece]:
    """A function that reads a table, given how many rows come before it."""

    def read(table: Any, where: str, before: int) -> _Piece:
        table, unknown_R = _with_outcomes(table, columns.state, problem)
        rows, others, off = rows_of(table, columns, problem, tolerance, where, before), None, 0
        rows = rows._replace(states_R=np.where(unknown_R, _UNKNOWN, rows.states_R))
        for _, names in columns.references:
            others, off = laws_in(table, names, problem.states, tolerance, where, before)
        models, model_R = streams_in_rows(table, columns.context, where, before)
        return _Piece(rows, others, models, model_R, rows.renormalised + off)

    return read


def _with_outcomes(table: Any, name: str, problem: DecisionProblem) -> tuple[Any, np.ndarray]:
    """The table with some outcome in every row, and which rows truly have none."""
    pa, column = arrow(), one_column(table, name)
    column = column.dictionary_decode() if hasattr(column, "dictionary") else column
    unknown = column.is_null(nan_is_null=True)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):  # as CSV has what is missing
        unknown = pa.compute.or_(unknown, pa.compute.fill_null(pa.compute.equal(column, ""), True))
    unknown_R = unknown.to_numpy(zero_copy_only=False)
    if not unknown_R.any():
        return table, unknown_R
    known = column.filter(pa.compute.invert(unknown))
    some = known[0] if len(known) else pa.scalar(problem.states[0])
    filled = pa.compute.if_else(unknown, some, column) if len(known) else pa.repeat(some, len(column))
    return table.set_column(table.schema.get_field_index(name), name, filled), unknown_R


def _joined(
    pieces: list[tuple[_Piece, np.ndarray]], columns: Columns, where: Callable[[int], tuple[str, int]]
) -> _Read:
    """All pieces of a log, with which rows they are."""
    kinds = {piece.rows.steps.kind: int(row_R[0]) for piece, row_R in reversed(pieces)}
    if len(kinds) > 1:
        (kind, row), (other, its_row) = sorted(kinds.items(), key=lambda pair: -pair[1])[:2]
        reason = f"the steps are {kind}, and {other} in {where(its_row)[0]}: they must be of one kind"
        raise Refused(where(row)[0], None, reason)
    streams, models = StreamNumbers(), StreamNumbers()
    stream_R = [streams.of(list(map(plainly, one.rows.names)))[one.rows.stream_R] for one, _ in pieces]
    model_R = [models.of(list(map(plainly, one.models)))[one.model_R] for one, _ in pieces]
    row_R = np.concatenate([row_R for _, row_R in pieces])
    at_R = row_R if columns.order is None else np.concatenate([one.rows.steps.at_R for one, _ in pieces])
    offset_R, (kind,) = np.concatenate([one.rows.steps.offset_R for one, _ in pieces]), kinds
    laws = [one.others_RxS for one, _ in pieces if one.others_RxS is not None]
    return _Read(
        list(streams.numbers),
        np.concatenate(stream_R),
        Steps(at_R, offset_R, kind),
        np.concatenate([one.rows.states_R for one, _ in pieces]).astype(np.int64),
        np.concatenate([one.rows.probs_RxS for one, _ in pieces]),
        np.concatenate(laws) if laws else None,
        list(models.numbers),
        None if columns.context is None else np.concatenate(model_R),
        row_R,
        where,
        sum(one.renormalised for one, _ in pieces),
    )
