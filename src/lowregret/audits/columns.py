"""Which column of a log is what: as the caller says, by its usual name, or of times by its type."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .. import inputs
from ..problems import DecisionProblem, Names, Payoff
from ..tables import printable
from .reading import TEXTS, Log, Refused
from .settings import Columns, level_of
from .times import ISO, spelling

NO_STREAM = "none"  # in place of a column: all rows are one stream
_USUAL = {
    "stream": ("stream", "unique_id", "series", "series_id", "item_id", "id"),
    "order": ("step", "ds", "time", "timestamp", "date", "datetime", "t"),
    "state": ("state", "y", "outcome", "actual", "target"),
}
_CUTOFF = "cutoff"  # when a forecast was made, as Chronos and Nixtla call it; or a threshold
_DATE = re.compile(rf"{ISO}|^\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}\b", re.ASCII)  # day first, which is refused
_PATTERNS = ("p_{}", "prob_{}", "p{}", "{}")  # of one column per state
_LISTS, _LISTED = ("probs", "probabilities", "p"), (pl.List, pl.Array)
_EVEN = 1e-6  # by how much of an interval its middle may be off a point forecast: files round
_LEVELS = (  # columns of quantiles: Chronos and plain, Nixtla's intervals, NeuralForecast
    re.compile(r"(?P<level>0?\.\d+)", re.ASCII),
    re.compile(r"q_?(?:0?\.)?(?P<digits>\d{2,}|(?<=\.)\d)", re.ASCII | re.IGNORECASE),
    re.compile(r"(?P<model>.+)-q-(?P<percent>\d+(?:\.\d+)?)", re.ASCII | re.DOTALL),
    re.compile(r"(?P<model>.+)-(?P<side>lo|hi)-(?P<width>\d+(?:\.\d+)?)", re.ASCII | re.DOTALL),
    re.compile(r"(?P<model>.+)_ql(?P<level>0?\.\d+)", re.ASCII | re.DOTALL),
    re.compile(r"(?P<model>.+)-(?P<median>median)", re.DOTALL),
)


class Values(NamedTuple):
    """Columns of one forecast: a name for each state or level (None: 1 minus the other of two), or one of lists."""

    names: tuple[str | None, ...]
    levels: tuple[float, ...] = ()
    is_list: bool = False

    @property
    def there(self) -> list[str]:
        return [name for name in self.names if name]


class Found(NamedTuple):
    """The columns that matter, by name."""

    stream: str | None
    order: str | None
    state: str
    values: Values
    known_at: str | None = None
    cutoff: str | None = None
    context: str | None = None
    scale: str | None = None
    references: tuple[tuple[str, Values], ...] = ()
    payoffs: tuple[str, ...] = ()
    zoned: tuple[str, ...] = ()  # columns of times that are texts with offsets from UTC
    counted: tuple[str, ...] = ()  # columns of steps that are numbers, written as texts
    is_guess: bool = False  # whether the stream was not named by the caller
    rivals: tuple[str, ...] = ()  # columns of times, of which none was chosen
    notes: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """All that is read."""
        keys = (self.stream, self.order, self.state, self.known_at, self.cutoff, self.context, self.scale)
        lists = [self.values.there, *(values.there for _, values in self.references), self.payoffs, self.rivals]
        return list(dict.fromkeys([*filter(None, keys), *(name for names in lists for name in names)]))

    @property
    def about(self) -> dict[str, Any]:
        """Which column is read as what, in plain values."""
        found: dict[str, Any] = {"stream": self.stream, "order": self.order, "state": self.state}
        if self.values.levels:
            found["quantiles"] = {f"{a:g}": name for a, name in zip(self.values.levels, self.values.names, strict=True)}
        else:
            found["probs"] = list(self.values.names)
        found["references"] = {name: list(values.names) for name, values in self.references} or None
        found |= {role: getattr(self, role) for role in ("known_at", "context", "scale")}
        found["payoffs"] = list(self.payoffs) or None
        return {role: own for role, own in found.items() if own is not None or role in ("stream", "order", "state")}


def chosen(about: Mapping[str, Any]) -> str:
    """Which column is read as what, in words."""

    def words(own: Any) -> str:
        if isinstance(own, Mapping):
            return listed(f"{name}: {words(value)}" for name, value in own.items())
        if isinstance(own, (list, tuple)):
            return listed("the rest" if one is None else one for one in own)
        return NO_STREAM if own is None else str(own)

    return printable(f"read as {', '.join(f'{role} {words(own)}' for role, own in about.items())}", 400)


def listed(names: Any, most: int = 12) -> str:
    """Names with commas, the first of them where there are many."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def found_columns(log: Log, problem: DecisionProblem | Payoff, columns: Columns) -> Found:
    """The columns of a log for a problem."""
    schema, keys = log.schema, dict[str, Any]()
    there, notes = list(schema), ["numbers are read with decimal commas"] * log.has_commas
    folded = {name.strip().casefold(): name for name in reversed(there)} | {name: name for name in there}
    named = set(_all_names(list(vars(columns).values())))
    if columns.stream == NO_STREAM in there:
        raise ValueError(f"{NO_STREAM!r} says that there is no column of streams, and one has that name: rename it")
    for role in ("stream", "order", "state", "known_at", "context", "scale"):
        name = getattr(columns, role)
        if name is not None and name not in there and not (role == "stream" and name == NO_STREAM):
            raise ValueError(f"the column of {role} must be one of {listed(there)}, got {inputs.shown(name)}")
        usual = (folded[one] for one in _USUAL.get(role, ()) if one in folded and folded[one] not in named)
        keys[role] = name or next(usual, None)
    keys["stream"] = None if columns.stream == NO_STREAM else keys["stream"]
    stream, order, state = keys["stream"], keys["order"], keys["state"]
    if state is None:
        raise ValueError(
            f"there must be a column of outcomes, such as y, outcome or state: say which of {listed(there)} it is with "
            "--state NAME, or in Python columns={'state': NAME}"
        )
    if len({stream, order, state} - {None}) < 3 - (stream, order).count(None):
        raise ValueError(f"stream, order and state must be different columns, got {stream}, {order} and {state}")
    for name in (stream, state, keys["context"]):
        if name and (schema[name].is_nested() or schema[name] in (pl.Binary, pl.Object)):
            raise ValueError(f"the column {name} must hold names or numbers, got {schema[name]}")
    taken = [name for name in keys.values() if name]
    free = [name for name in there if name not in taken]
    references = dict[str, Values]()
    if isinstance(problem, Payoff):
        if columns.probs is not None or columns.payoffs is not None:
            raise ValueError("probs and payoffs are of states, and the outcomes of this problem are numbers: quantiles")
        values = _quantiles(log, free, columns, state)
        for name, own in (columns.references or {}).items():
            if not isinstance(own, Mapping):
                raise ValueError(f"a reference must have columns by level, got {inputs.shown(own)} for {name}")
            by_level = dict(sorted((level_of(level), theirs) for level, theirs in own.items()))
            references[name] = _there(Values(tuple(by_level.values()), tuple(by_level)), there, name)
    else:
        values = _probs(schema, free, problem, columns.probs)
        for name, own in (columns.references or {}).items():
            references[name] = _probs(schema, free, problem, own, name)
    payoffs = tuple(columns.payoffs or ())
    _there(Values(payoffs), there, "payoffs")
    n = problem.n_actions * getattr(problem, "n_states", 0)
    if payoffs and len(payoffs) != n and not (len(payoffs) == 1 and isinstance(schema[payoffs[0]], _LISTED)):
        raise ValueError(
            f"the columns of payoffs must be {problem.n_actions} x {n // problem.n_actions}, action by action, or one "
            f"that holds lists, got {listed(payoffs)}"
        )
    read = [*taken, *values.there, *payoffs, *(name for own in references.values() for name in own.there)]
    cutoff = folded.get(_CUTOFF)
    cutoff = None if cutoff is None or cutoff in read or schema[cutoff].is_float() else cutoff
    rivals = [] if order else _times(log, [name for name in there if name not in (*read, cutoff)])
    if len(rivals) == 1:
        keys["order"], rivals = rivals[0], []
        notes.append(f"rows are put in the order of {keys['order']}, the only column of times")
    cutoff = keys["order"] and cutoff
    clocks = [name for name in (keys["order"], keys["known_at"], cutoff, *rivals) if name and schema[name] in TEXTS]
    texts = log.head(clocks)
    spelled = {name: spelling(own) for name, own in texts.items()}
    made = texts.get(cutoff) or [""] if cutoff in texts else ["0"]  # else a threshold, such as 0.5
    is_time = any(re.match(ISO, own) for own in made) or all(own.lstrip("+-").isdigit() for own in made)
    found = Found(
        **keys,
        values=values,
        cutoff=cutoff if is_time else None,
        references=tuple(references.items()),
        payoffs=payoffs,
        zoned=tuple(name for name, own in spelled.items() if own.has_zones),
        counted=tuple(name for name, own in spelled.items() if own.is_counted),
        is_guess=columns.stream is None,
        rivals=tuple(rivals),
        notes=tuple(notes),
    )
    if doubled := [name for name in found.needed if f"{name}_duplicated_0" in there]:  # so Polars calls the second
        raise ValueError(f"a column that matters must be there once, and {listed(doubled)} is there twice or more")
    if lack := [name for name in found.needed if name in log.lacking]:
        raise Refused(str(log.lacking[lack[0]]), None, f"it has no column {lack[0]}, and other files of the log have")
    return found


def _all_names(own: Any) -> list[str]:
    """All names of columns in what the caller says of them."""
    if isinstance(own, (Mapping, list, tuple)):
        return [name for one in (own.values() if isinstance(own, Mapping) else own) for name in _all_names(one)]
    return [own] if own else []


def _times(log: Log, names: Sequence[str]) -> list[str]:
    """Which of these columns hold times: by their types, or as most of their first texts do."""
    schema = log.schema
    typed = [name for name in names if schema[name] == pl.Date or isinstance(schema[name], pl.Datetime)]
    seen = log.head([name for name in names if name in typed or schema[name] == pl.String])
    dates = {name: sum(bool(_DATE.match(value)) for value in own) for name, own in seen.items()}
    return [name for name, own in seen.items() if own and (name in typed or 2 * dates[name] > len(own))]


def _there(values: Values, there: Collection[str], what: str) -> Values:
    if wrong := [name for name in values.there if name not in there]:
        raise ValueError(f"the columns of {what} must be among {listed(there)}, got {listed(wrong)}")
    return values


def _probs(
    schema: Mapping[str, Any], free: Sequence[str], problem: DecisionProblem, own: Any, what: str = "probs"
) -> Values:
    """The columns of probabilities: by state, in the order of the states, or one that holds lists."""
    states, names = problem.states, problem.state_names
    hint = f"--probs {states[0]}=COLUMN,... or columns={{'probs': {{{states[0]!r}: COLUMN, ...}}}}"
    hint += f"; of two states one is enough: --probs {states[1]}=COLUMN" if len(states) == 2 else ""
    if isinstance(own, Mapping):
        by_state = {names.position(state): name for state, name in own.items()}
        enough = set(by_state) == set(range(len(states))) or (len(states) == 2 and len(by_state) == 1)
        if not enough or None in by_state or len(set(by_state.values())) < len(own):
            each = f"{listed(states)}{', or one for one of the two' if len(states) == 2 else ''}"
            raise ValueError(
                f"the columns of {what} must be a different one for each of {each}, got {inputs.shown(own)}"
            )
        return _there(Values(tuple(by_state.get(s) for s in range(len(states)))), schema, what)
    if own is not None:
        values = _there(Values(tuple(own), is_list=len(own) == 1 < len(states)), schema, what)
        if len(own) == len(states) > 1:
            _refuse_swapped(own, states, what)
        elif len(own) != 1:
            raise ValueError(
                f"the columns of {what} must be {len(states)}, or one that holds lists, got {listed(own)}: {hint}"
            )
        return values
    for pattern in _PATTERNS:
        found = tuple(pattern.format(state) for state in states)
        if all(name in free for name in found):
            return Values(found)
    for pattern in _PATTERNS:  # else as values are matched: 0.0 is 0, and True is true
        begin = pattern.removesuffix("{}")
        begun = [name for name in free if name.casefold().startswith(begin)]
        placed = [(Names(states).position(name[len(begin) :]), name) for name in begun]
        by_place = {at: name for at, name in placed if at is not None}
        if len(by_place) == len(states) == sum(at is not None for at, _ in placed):
            return Values(tuple(by_place[s] for s in range(len(states))))
    if lists := [name for name in _LISTS if name in free and isinstance(schema[name], _LISTED)]:
        return Values((lists[0],), is_list=True)
    raise ValueError(
        f"there must be a column of probabilities per state ({listed((f'p_{state}' for state in states), 3)}), or one "
        f"of lists (probs): say which of {listed(free)} they are, {hint}"
    )


def _refuse_swapped(own: Sequence[str], states: Sequence[str], what: str) -> None:
    """Refuse columns in the order of the states whose names end in the names of other states."""
    plain = [re.sub(r"[\W_]+", "_", f"_{name}_".casefold()) for name in own]
    ends = [re.sub(r"[\W_]+", "_", f"_{state}_".casefold()) for state in states]
    for i, name in enumerate(plain):
        others = [j for j, end in enumerate(ends) if name.endswith(end)]
        best = max(others, key=lambda j: len(ends[j]), default=i)
        if best != i and not name.endswith(ends[i]):
            raise ValueError(
                f"the columns of {what} must be in the order of the states, {listed(states)}, and {own[i]!r}, in the "
                f"place of {states[i]}, names {states[best]}: give each with its state, STATE=COLUMN"
            )


def quantile_columns(there: Sequence[str]) -> dict[str, dict[float, str]]:
    """The columns of quantiles by model ("" where no model is named) and level.

    >>> quantile_columns(["y", "ETS", "ETS-lo-90", "ETS-hi-90"])
    {'ETS': {0.05: 'ETS-lo-90', 0.95: 'ETS-hi-90'}}
    """
    found: dict[str, dict[float, str]] = {}
    for name in there:
        match = next((m for pattern in _LEVELS if (m := pattern.fullmatch(name.strip()))), None)
        own = {} if match is None else {part: text for part, text in match.groupdict().items() if text is not None}
        if "side" in own:
            level = 0.5 + float(own["width"]) / (200 if own["side"] == "hi" else -200)
        elif "digits" in own:
            level = float(f"0.{own['digits']}")
        elif "percent" in own:
            level = float(own["percent"]) / 100
        else:
            level = 0.5 if "median" in own else float(own.get("level", 0))
        if not 0 < (level := round(level, 9)) < 1:
            continue
        same = found.setdefault(own.get("model", ""), {})
        if level in same:
            raise ValueError(f"columns {same[level]!r} and {name!r} are both the quantile at level {level:g}")
        same[level] = name
    several = {model: own for model, own in found.items() if not model or set(own) != {0.5}}  # a median alone is a name
    return several or found


def _quantiles(log: Log, free: Sequence[str], columns: Columns, state: str) -> Values:
    """The columns of quantiles; a forecast without a level is a median if it is in the middle of all intervals."""
    own, point = dict(columns.quantiles or {}), None
    if own and columns.model is not None:
        raise ValueError("columns must name a model or quantiles, not both")
    if not own:
        models = quantile_columns(free)
        called = listed(name or f"the one of {next(iter(its.values()))}" for name, its in models.items())
        if columns.model is not None and columns.model not in models:
            raise ValueError(
                f"the model must be one of those with quantiles, {called}, got {inputs.shown(columns.model)}"
            )
        if columns.model is None and len(models) > 1:
            raise ValueError(f"the log has the quantiles of {len(models)} models, {called}: columns={{'model': NAME}}")
        if not models:
            raise ValueError(
                "there must be columns of quantiles: q10, q50, q90, or 0.1, 0.5, 0.9, or MODEL-lo-90, MODEL-hi-90; "
                f"say which of {listed(free)} they are with --quantiles 0.1=NAME,..., or in Python "
                "columns={'quantiles': {0.1: NAME, ...}}"
            )
        model = columns.model if columns.model is not None else next(iter(models))
        own, point = models[model], model if model in free and 0.5 not in models[model] else None
        if odd := [name for name in free if not model and re.fullmatch(r"[qQ]_?\d", name)]:
            raise ValueError(
                f"{odd[0]} may be the quantile at 0.0{odd[0][-1]} or at 0.{odd[0][-1]}: "
                "columns={'quantiles': {LEVEL: NAME, ...}} says which"
            )
    own = dict(sorted(own.items()))
    values = _there(Values(tuple(own.values()), tuple(own)), [*free, state], "quantiles")
    pairs = [(own[a], own[round(1 - a, 9)]) for a in own if a < 0.5 and round(1 - a, 9) in own]
    if point is None or not pairs:
        return values
    middle = log.number(point)
    ends = [(log.number(low), log.number(high)) for low, high in pairs]
    near = [
        (low / 2 + high / 2 - middle).abs() <= _EVEN * pl.max_horizontal((high - low).abs(), middle.abs()) + 1e-300
        for low, high in ends
    ]
    try:
        even = log.rows.select(pl.all_horizontal(near).all()).collect(engine="streaming").item()
    except pl.exceptions.PolarsError:  # a cell that is no number, which is refused later
        even = False
    if not even:
        return values
    at = int(np.searchsorted(values.levels, 0.5))
    names, levels = list(values.names), list(values.levels)
    return Values((*names[:at], point, *names[at:]), (*levels[:at], 0.5, *levels[at:]))
