"""A gate between two candidates: does the new one score or earn more than the current one, beyond luck?

Both were tried on the same items: two prompts or agents by their scores, two models by what acting on their forecasts
pays. Let D_t be by how much the new one did better at moment t; where a moment has several items, or several streams,
the mean over them. It is known to lie in [low_t, high_t] before the outcome: of scores, in minus or plus their range;
of two actions, from the least to the most that their payoffs can differ by.

**Null hypothesis.** E[D_t | F_t] <= 0 at every moment, F_t being all that was known when the candidates were put to the
items of moment t. Nothing else is assumed: moments may depend on each other, candidates may be changed at any time, and
the items of one moment may move together in any way.

**Evidence.** A bettor at rate lam begins with 1 and stakes at every moment

    W_t = W_{t-1} (1 + lam_t D_t),    lam_t = min(lam, 1 / (2 |low_t|)),

at most half of what it has. As lam_t >= 0 is known before the outcome, E[1 + lam_t D_t | F_t] <= 1 under the null
hypothesis, and no factor is negative: W is a nonnegative supermartingale from 1, and so is E, the mean of the bettors
at the ``RATES``. By Ville's inequality P(E_t >= 1/alpha at some moment t) <= alpha: the gate may be asked every day,
and one may stop whenever one likes. In the other direction -D_t in [-high_t, -low_t] is bet on, at alpha again.

(The engine's bettors, ``engine/bets.py``, are charged by the model's forecast. Here there is none, and a bet that is
linear in D_t is fair without a charge; by convexity exp(lam x) lies below its chord over [low, high], so for each of
their bets there is one here that never wins less.)

**Late outcomes.** With a lag of d the candidates of moment t are chosen when the outcomes up to moment t - d are known:
the product above is no supermartingale any more. Moments that are d apart make a class, in which it is; the average
over the d classes counts, and a_d / alpha is needed, as proved in ``certificates/switching.py`` (i).

**Missing outcomes.** One that never came counts as the least possible for either direction, low_t for D_t and -high_t
for -D_t, so both statements hold whatever it was.

**Verdict.** By the evidence at the end of the log: promote where E reached what is needed and the new candidate did
better in total; keep where the other E did and it did worse; else there is not enough yet. Asking for the total too can
only lower the chance of either. Of n metrics or slices each is judged at alpha / n: by the union bound the chance that
any of them is ever promoted wrongly is at most alpha, and so is the chance that any is ever kept wrongly.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..certificates.coupled import late_factor
from ..tables import Table, printable

PROMOTE, KEEP, WAIT = "promote", "keep", "not enough yet"
RATES = 2.0 ** np.arange(8, -12, -1)  # over the span: the high ones for means over many streams, the low for tiny edges
FAILED = "an item that a candidate failed has its lowest score"
_STAKED = 0.5  # of what a bettor has, at most
_MOST = 690.0  # of ln E, so that E is a float
_AHEAD, _FEWEST = 10, 10  # a forecast of how long it takes goes so many times beyond the log, and needs so many moments
_PATHS, _POINTS = 400, 200  # of that forecast


@dataclass(frozen=True)
class Gate:
    """The verdict on two candidates, with the evidence in both directions."""

    verdict: str  # promote, keep, not enough yet
    new: str
    current: str
    amounts: str  # scores, or payoffs in the units of the problem
    totals: dict[str, float]  # of both
    difference: float  # by how much the total of the new one is larger
    difference_per_step: float  # on average, of an item or of a step of a stream
    e_better: float  # evidence that the new one does better
    e_worse: float  # evidence that it does worse
    needed: float  # of either
    more_steps: int | None  # that it may take until there is enough; None: over ten times this log, or there is already
    more_range: tuple[int | None, int | None]  # 90% of what it may take
    steps: int  # moments
    rows: int
    apart: int  # rows in which the two differ
    alpha: float
    lag: int
    unit: str = "item"  # what a moment is called
    first: str | None = None  # what the log calls the first moment and the last
    last: str | None = None
    streams: int = 1
    columns: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def to_json(self) -> str:
        return json.dumps({"kind": "lowregret gate", **asdict(self)}, indent=1)

    def __str__(self) -> str:
        scored, score = ("scored", "scores") if self.amounts == "scores" else ("earned", "earns")
        each = "item" if self.amounts == "scores" else self.unit + (" and stream" if self.streams > 1 else "")
        fact = (
            f"{scored} {abs(self.difference):,.6g} {'less' if self.difference < 0 else 'more'} than {self.current} in "
            f"{_counted(self.steps, self.unit)} ({self.difference_per_step:+,.4g} per {each})"
        )
        answer = {PROMOTE: f"Promote {self.new}: it {fact}.", KEEP: f"Keep {self.current}: {self.new} {fact}."}
        answer[WAIT] = f"Not enough yet about {self.new}: it {fact}. {self._ahead}"
        wait = "" if self.lag == 1 else f", for outcomes that are known {self.lag} steps later"
        span = "" if self.first is None else f" from {self.first} to {self.last}"
        totals = ", ".join(f"{name} {amount:,.6g}" for name, amount in self.totals.items())
        return "\n".join(
            [
                answer[self.verdict],
                f"Evidence that it {score} more: {self.e_better:,.4g}; that it {score} less: {self.e_worse:,.4g}. "
                f"Needed: {self.needed:,.4g}{wait}.",
                f"If it {score} no more, the chance that it is ever promoted is at most {self.alpha:.4g}; if it "
                f"{score} no less, the chance that it is ever kept out is at most {self.alpha:.4g}.",
                f"They differ in {self.apart:,} of {_counted(self.rows, 'row')}{span}. In total: {totals}.",
                *_notes(self.columns, self.warnings),
            ]
        )

    @property
    def _ahead(self) -> str:
        """How long it may still take, in words."""
        if not self.apart:
            return "The two never differ."
        if self.steps < _FEWEST:
            return "It is too early to say how many more."
        limit = f"more than {_AHEAD} times this log"
        if self.more_steps is None:
            return f"At this rate it takes {limit}."
        low, high = (limit if end is None else f"{end:,}" for end in self.more_range)
        return f"At this rate about {_counted(self.more_steps, f'more {self.unit}')} will do (90%: {low} to {high})."


@dataclass(frozen=True)
class Gates:
    """The verdicts on two candidates by several metrics or slices, each at alpha divided by their number."""

    parts: dict[str, Gate]
    alpha: float

    @property
    def verdict(self) -> str:
        """Keep if that is the verdict of any part, promote if it is that of all; else not enough yet."""
        verdicts = {part.verdict for part in self.parts.values()}
        return KEEP if KEEP in verdicts else PROMOTE if verdicts == {PROMOTE} else WAIT

    def to_json(self) -> str:
        parts = {name: json.loads(part.to_json()) for name, part in self.parts.items()}
        about = {"kind": "lowregret gates", "verdict": self.verdict, "alpha": self.alpha, "parts": parts}
        return json.dumps(about, indent=1)

    def __str__(self) -> str:
        one, verdicts = next(iter(self.parts.values())), [part.verdict for part in self.parts.values()]
        answer = {PROMOTE: f"Promote {one.new}", KEEP: f"Keep {one.current}", WAIT: f"Not enough yet about {one.new}"}
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in answer if verdict in verdicts)
        header = "part", "verdict", "rows", f"{one.new} - {one.current}", "E better", "E worse", f"more {one.unit}s"
        rows = []
        for name, part in self.parts.items():
            more = "-"
            if part.verdict == WAIT and part.apart and part.steps >= _FEWEST:
                more = f"over {_AHEAD * part.steps:,}" if part.more_steps is None else f"{part.more_steps:,}"
            numbers = [f"{value:,.4g}" for value in (part.difference_per_step, part.e_better, part.e_worse)]
            rows.append((printable(name, 80), part.verdict, f"{part.rows:,}", *numbers, more))
        table = Table(f"{answer[self.verdict]}. Of {len(rows)} parts: {counts}.", header, tuple(rows))
        promise = (
            f"Needed: {one.needed:,.4g}. The chance that any part in which {one.new} is no better is ever promoted is "
            f"at most {self.alpha:.4g}; so is the chance that any in which it is no worse is ever kept."
        )
        return "\n".join([str(table), promise, *_notes(one.columns, one.warnings)])  # which are of the whole log


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _notes(columns: Mapping[str, Any], warnings: Sequence[str]) -> list[str]:
    """How a log was read, and what to know of it."""
    notes = [f"! {warning}" for warning in warnings]
    if columns:
        from .columns import chosen  # it needs Polars, as logs do

        notes.insert(0, chosen(dict(columns)))
    return notes


def gate(
    new: Any,
    current: Any,
    *,
    low: float = 0.0,
    high: float = 1.0,
    alpha: float = 0.05,
    lag: int = 1,
    names: tuple[str, str] = ("new", "current"),
) -> Gate | Gates:
    """Whether the new candidate may take the place of the current one, by the scores of both on the same items.

    Parameters
    ----------
    new, current
        Scores, or True for pass and False for fail: one per item, for the same items in the order in which they were
        tried. Or two dicts of such arrays by the name of a metric or slice.
    low, high
        No score is below or above them.
    alpha
        The chance of ever promoting a candidate that is no better, and that of ever keeping out one that is no worse.
        Of n metrics or slices each is judged at alpha / n.
    lag
        After how many items the score of an item is known, where what is known may change the candidates: 1, before
        the next.
    names
        Of the two.

    >>> gate([True, True, True, True] * 10, [True, False, True, False] * 10).verdict
    'promote'
    """
    alpha, lag = inputs.probability(alpha, "alpha"), inputs.whole(lag, "lag")
    inputs.names_of(list(names), "names")
    several, parts = isinstance(new, Mapping) or isinstance(current, Mapping), {"": (new, current)}
    if several:
        if not (isinstance(new, Mapping) and isinstance(current, Mapping) and new and new.keys() == current.keys()):
            got = f"got {inputs.shown(new)} and {inputs.shown(current)}"
            raise ValueError(f"new and current must be scores, or dicts of them with the same names, {got}")
        parts = {str(part): (new[part], current[part]) for part in new}
    found = dict[str, Gate]()
    for part, both in parts.items():
        of = f"[{part!r}]" if several else ""
        new_R, current_R = (_scores(own, low, high, f"{name}{of}") for own, name in zip(both, names, strict=True))
        if len(new_R) != len(current_R):
            raise ValueError(f"both{of} must be of the same items, got {len(new_R)} and {len(current_R)}")
        compared = scores_compared(new_R, current_R, low, high, np.arange(len(new_R)))
        found[part] = judged(compared, names, alpha / len(parts), lag)
    return Gates(found, alpha) if several else found[""]


def _scores(values: Any, low: float, high: float, name: str) -> np.ndarray:
    """Scores as numbers; True is 1."""
    array = to_numpy(inputs.array_of(values, name))
    array = inputs.numbers_of(array.astype(np.int8) if array.dtype == bool else array, name, "scores or bools")
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} must be one score per item, at least one, got shape {array.shape}")
    if (bad := ~((array >= low) & (array <= high))).any():  # a NaN is bad
        got = f"got {array[bad][0]:.6g}%s: {FAILED}"
        raise inputs.misplaced(f"{name} must be scores from low = {low:g} to high = {high:g}, {got}", bad)
    return array


# One path from here on.


class Compared(NamedTuple):
    """What both candidates had in each row, with the least and the most that they could have differed by."""

    amounts: str  # scores or payoffs
    new_R: np.ndarray
    current_R: np.ndarray
    low_R: np.ndarray
    high_R: np.ndarray
    span: float  # the most that a row can matter
    at_R: np.ndarray  # the moment of each row
    apart_R: np.ndarray  # whether they differ
    missing_R: np.ndarray  # whether its outcome never came


def scores_compared(new_R: np.ndarray, current_R: np.ndarray, low: float, high: float, at_R: np.ndarray) -> Compared:
    """Scores within a range."""
    if not 0 < high - low < math.inf:
        raise ValueError(f"low must be below high, got {low:g} and {high:g}")
    wide_R, apart_R = np.full(len(new_R), high - low), new_R != current_R
    return Compared("scores", new_R, current_R, -wide_R, wide_R, high - low, at_R, apart_R, np.zeros_like(apart_R))


def judged(
    both: Compared, names: Sequence[str], alpha: float, lag: int = 1, wait: int | None = None, **about: Any
) -> Gate:
    """The verdict; ``wait`` is the lag in moments of all streams together, ``about`` has what else stands in a Gate."""
    step_R, wait, missing_R = np.unique(both.at_R, return_inverse=True)[1], wait or lag, both.missing_R
    gain_R, rows_T = np.where(missing_R, 0.0, both.new_R - both.current_R), np.bincount(step_R)
    bets, log_e = {}, {}
    for way, own_R, low_R in ((PROMOTE, gain_R, both.low_R), (KEEP, -gain_R, -both.high_R)):
        gain_T = np.bincount(step_R, np.where(missing_R, low_R, own_R)) / rows_T
        bets[way] = gain_T, np.bincount(step_R, low_R) / rows_T, both.span
        log_e[way] = float(np.logaddexp.reduce([_log_wealth(growth_T, wait) for growth_T in _growths(*bets[way])]))
        log_e[way] -= math.log(wait * len(RATES))
    needed, total, apart = late_factor(wait) / alpha, float(gain_R.sum()), int(both.apart_R.sum())
    leading = PROMOTE if total > 0 else KEEP
    enough = total != 0 and log_e[leading] >= math.log(needed)
    median, least, most = (None,) * 3 if enough or not apart else more_steps(*bets[leading], wait, needed)
    return Gate(
        verdict=leading if enough else WAIT,
        new=names[0],
        current=names[1],
        amounts=both.amounts,
        totals={name: float(own_R[~missing_R].sum()) for name, own_R in zip(names, both[1:3], strict=True)},
        difference=total,
        difference_per_step=total / int((~missing_R).sum()),
        e_better=math.exp(min(log_e[PROMOTE], _MOST)),
        e_worse=math.exp(min(log_e[KEEP], _MOST)),
        needed=needed,
        more_steps=median,
        more_range=(least, most),
        steps=len(rows_T),
        rows=len(gain_R),
        apart=apart,
        alpha=alpha,
        lag=lag,
        **about,
    )


def log_evidence(gain_T: np.ndarray, low_T: np.ndarray, span: float, lag: int = 1) -> np.ndarray:
    """ln E after every moment, ``[T]``, for differences known to be at least ``low_T`` and at most ``span`` in size.

    >>> log_evidence(np.array([1.0, 0.0, 1.0, 1.0]), np.array([-1.0, 0.0, -1.0, -1.0]), span=1.0).round(2).tolist()
    [0.24, 0.24, 0.52, 0.82]
    """
    class_T = np.arange(len(gain_T)) % lag
    found = np.full(len(gain_T), -np.inf)
    for growth_T in _growths(gain_T, low_T, span):
        for r in range(lag):
            found = np.logaddexp(found, np.cumsum(np.where(class_T == r, growth_T, 0.0)))
    return found - math.log(lag * len(RATES))


def _growths(gain_T: np.ndarray, low_T: np.ndarray, span: float) -> Iterator[np.ndarray]:
    """By how much the logarithm of what each bettor has grows, rate by rate."""
    with np.errstate(divide="ignore"):
        most_T = _STAKED / np.maximum(-low_T, 0.0)
    for rate in RATES / (span or 1.0):
        yield np.log1p(np.minimum(rate, most_T) * gain_T)


def _log_wealth(growth_T: np.ndarray, lag: int) -> float:
    """The logarithm of what a bettor has after all moments, in total over the classes."""
    return float(np.logaddexp.reduce(np.bincount(np.arange(len(growth_T)) % lag, growth_T, minlength=lag)))


def more_steps(
    gain_T: np.ndarray, low_T: np.ndarray, span: float, lag: int, needed: float
) -> tuple[int | None, int | None, int | None]:
    """How many more moments until E reaches ``needed``: the median and a range of 90%; None: over ten times as many.

    The logarithm of what a bettor has is taken to go on as a random walk with the mean and the deviation of its growth
    so far: that of all bettors along the same paths, each path with a mean of its own, drawn from around that of the
    log, which is uncertain. The deviation is that of sums over blocks, as moments may depend on those shortly before.
    """
    T = len(gain_T)
    if T < _FEWEST:
        return None, None, None
    block = math.ceil(T ** (1 / 3))
    ahead_N = np.unique(np.ceil(np.geomspace(1, _AHEAD * T, _POINTS)))
    own_N, rng = ahead_N / lag, np.random.default_rng(0)  # steps of one class
    walks_PxN = np.cumsum(rng.standard_normal((_PATHS, len(own_N))) * np.sqrt(np.diff(own_N, prepend=0.0)), axis=1)
    walks_PxN += own_N / math.sqrt(T) * rng.standard_normal((_PATHS, 1))
    log_e_PxN = np.full(walks_PxN.shape, -np.inf)
    for growth_T in _growths(gain_T, low_T, span):
        deviation = growth_T[: T // block * block].reshape(-1, block).sum(axis=1).std(ddof=1) / math.sqrt(block)
        now = _log_wealth(growth_T, lag) - math.log(lag * len(RATES))
        log_e_PxN = np.logaddexp(log_e_PxN, now + own_N * growth_T.mean() + deviation * walks_PxN)
    enough_PxN = log_e_PxN >= math.log(needed)
    first_P = np.where(enough_PxN.any(axis=1), ahead_N[enough_PxN.argmax(axis=1)], np.inf)
    found = np.quantile(first_P, (0.5, 0.05, 0.95), method="higher")
    median, least, most = (round(float(f"{steps:.2g}")) if np.isfinite(steps) else None for steps in found)
    return median, least, most
