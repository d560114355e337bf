"""Which column of a log is what: as the caller says, by its usual name, or of times by its type."""

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from .. import inputs
from ..problems import DecisionProblem, Payoff
from ..tables import printable
from .reading import TEXTS, Log, Refused
from .settings import Columns, level_of
from .times import ISO, Spelling, spelling

NO_STREAM = "none"  # in place of a column: all rows are one stream
_USUAL = {
    "stream": ("stream", "unique_id", "series", "series_id", "item_id", "id"),
    "order": ("step", "ds", "time", "timestamp", "date", "datetime", "t"),
    "state": ("state", "y", "outcome", "actual", "target"),
}
_CUTOFF = "cutoff"  # when a forecast was made, as Chronos and Nixtla call it; or a threshold
_DATE = re.compile(rf"{ISO}|^\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}\b", re.ASCII)  # day first, which is refused
_BEGIN = ("p_", "prob_", "p", "")  # of the names of columns of probabilities, before that of a state
_LISTS, _LISTED = ("probs", "probabilities", "p"), (pl.List, pl.Array)
_EVEN = 1e-6  # by how much of an interval its middle may be off a point forecast: files round
_DIGITS = r"(\d+(?:\.\d+)?)"
_LEVELS: tuple[tuple[str, Callable[[str], float]], ...] = (  # names of quantiles: the model, and what says the level
    (r"()(0?\.\d+)", float),  # Chronos
    (r"()[qQ]_?(?:0?\.)?(\d{2,}|(?<=\.)\d)", lambda digits: float(f"0.{digits}")),
    (rf"(.+)-q-{_DIGITS}", lambda percent: float(percent) / 100),  # Nixtla
    (rf"(.+)-lo-{_DIGITS}", lambda width: 0.5 - float(width) / 200),
    (rf"(.+)-hi-{_DIGITS}", lambda width: 0.5 + float(width) / 200),
    (r"(.+)_ql(0?\.\d+)", float),  # NeuralForecast
    (r"(.+)-(median)", lambda _: 0.5),
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
    spelled: Mapping[str, Spelling] = {}  # of columns of steps and times that are texts
    is_guess: bool = False  # whether the stream was not named by the caller
    notes: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """All that is read."""
        keys = (self.stream, self.order, self.state, self.known_at, self.cutoff, self.context, self.scale)
        lists = [self.values.there, *(values.there for _, values in self.references), self.payoffs]
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
    schema, notes = log.schema, ["numbers are read with decimal commas"] * log.has_commas
    there = list(schema)
    keys = usual_columns(there, columns)
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
    others = ("probs", "payoffs") if isinstance(problem, Payoff) else ("quantiles", "model")
    if any(getattr(columns, role) is not None for role in others):
        has = "outcomes that are numbers: quantiles" if isinstance(problem, Payoff) else "states: probs"
        raise ValueError(f"columns must name no {' or '.join(others)} where the problem has {has}")
    free = [name for name in there if name not in keys.values()]
    given, references = columns.references or {}, dict[str, Values]()
    if isinstance(problem, Payoff):
        values = _quantiles(log, free, columns, state)
        for name, own in given.items():
            if not isinstance(own, Mapping):
                raise ValueError(f"a reference must have columns by level, got {inputs.shown(own)} for {name}")
            references[name] = _there(_by_level({level_of(level): its for level, its in own.items()}), there, name)
    else:
        values = probability_columns(schema, free, problem, columns.probs)
        references = {name: probability_columns(schema, free, problem, own, name) for name, own in given.items()}
    payoffs = tuple(columns.payoffs or ())
    _there(Values(payoffs), there, "payoffs")
    n = problem.n_actions * getattr(problem, "n_states", 0)
    if payoffs and len(payoffs) != n and not (len(payoffs) == 1 and isinstance(schema[payoffs[0]], _LISTED)):
        raise ValueError(
            f"the columns of payoffs must be {problem.n_actions} x {n // problem.n_actions}, action by action, or one "
            f"that holds lists, got {listed(payoffs)}"
        )
    found = Found(
        **keys, values=values, references=tuple(references.items()), payoffs=payoffs, is_guess=columns.stream is None
    )
    cutoff = next((name for name in there if name.strip().casefold() == _CUTOFF and name not in found.needed), None)
    if order is None and (times := times_in(log, [name for name in there if name not in (*found.needed, cutoff)])):
        if len(times) > 1:
            raise ValueError(f"{listed(times)} hold times: --order NAME says which of them has the steps")
        found = found._replace(order=times[0])
        notes.append(f"rows are put in the order of {times[0]}, the only column of times")
    if found.order and cutoff and not schema[cutoff].is_float():
        texts = log.head([cutoff] if schema[cutoff] in TEXTS else [])
        if all(re.match(ISO, own) or own.lstrip("+-").isdigit() for own in texts.get(cutoff, ())):  # no threshold
            found = found._replace(cutoff=cutoff)
    clocks = [name for name in (found.order, found.known_at, found.cutoff) if name and schema[name] in TEXTS]
    if doubled := [name for name in found.needed if f"{name}_duplicated_0" in there]:  # so Polars calls the second
        raise ValueError(f"a column that matters must be there once, and {listed(doubled)} is there twice or more")
    if lack := [name for name in found.needed if name in log.lacking]:
        raise Refused(str(log.lacking[lack[0]]), None, f"it has no column {lack[0]}, and other files of the log have")
    spelled = {name: spelling(texts) for name, texts in log.head(clocks).items()}
    return found._replace(spelled=spelled, notes=tuple(notes))


def usual_columns(there: Sequence[str], columns: Columns) -> dict[str, Any]:
    """The columns of single roles, as the caller says or by their usual names."""
    folded = {name.strip().casefold(): name for name in reversed(there)} | {name: name for name in there}
    named, keys = set(_all_names(list(vars(columns).values()))), dict[str, Any]()
    for role in ("stream", "order", "state", "known_at", "context", "scale"):
        name = getattr(columns, role)
        if role == "stream" and name == NO_STREAM:
            keys[role] = None
            continue
        if name is not None and name not in there:
            raise ValueError(f"the column of {role} must be one of {listed(there)}, got {inputs.shown(name)}")
        usual = (folded[one] for one in _USUAL.get(role, ()) if one in folded and folded[one] not in named)
        keys[role] = name or next(usual, None)
    return keys


def _all_names(own: Any) -> list[str]:
    """All names of columns in what the caller says of them."""
    if isinstance(own, (Mapping, list, tuple)):
        return [name for one in (own.values() if isinstance(own, Mapping) else own) for name in _all_names(one)]
    return [own] if own else []


def times_in(log: Log, names: Sequence[str]) -> list[str]:
    """Which of these columns hold times: by their types, or as most of their first texts do."""
    schema = log.schema
    typed = [name for name in names if schema[name] == pl.Date or isinstance(schema[name], pl.Datetime)]
    seen = log.head([name for name in names if name in typed or schema[name] == pl.String])
    dates = {name: sum(bool(_DATE.match(value)) for value in own) for name, own in seen.items()}
    return [name for name, own in seen.items() if own and (name in typed or 2 * dates[name] > len(own))]


def _by_level(own: Mapping[float, str]) -> Values:
    own = dict(sorted(own.items()))
    return Values(tuple(own.values()), tuple(own))


def _there(values: Values, there: Collection[str], what: str) -> Values:
    if wrong := [name for name in values.there if name not in there]:
        raise ValueError(f"the columns of {what} must be among {listed(there)}, got {listed(wrong)}")
    return values


def probability_columns(
    schema: Mapping[str, Any], free: Sequence[str], problem: DecisionProblem, own: Any = None, what: str = "probs"
) -> Values:
    """The columns of probabilities: by state, in the order of the states, or one that holds lists."""
    states, names = problem.states, problem.state_names
    hint = f"--probs {states[0]}=COLUMN,... or columns={{'probs': {{{states[0]!r}: COLUMN, ...}}}}"
    hint += f"; of two states one is enough: --probs {states[1]}=COLUMN" if len(states) == 2 else ""
    if isinstance(own, Mapping):
        by_state = {names.position(state): name for state, name in own.items()}
        given = {*by_state} if len(states) == 2 and len(own) == 1 else {*range(len(states))}
        if {*by_state} != given or None in given or len({*by_state.values()}) < len(own):
            each = f"{listed(states)}{', or one for one of the two' if len(states) == 2 else ''}"
            raise ValueError(
                f"the columns of {what} must be a different one for each of {each}, got {inputs.shown(own)}"
            )
        return _there(Values(tuple(by_state.get(s) for s in range(len(states)))), schema, what)
    if own is not None:
        if len(own) not in (1, len(states)):
            raise ValueError(
                f"the columns of {what} must be {len(states)}, or one that holds lists, got {listed(own)}: {hint}"
            )
        values = _there(Values(tuple(own), is_list=len(own) == 1 < len(states)), schema, what)
        if not values.is_list:
            _refuse_swapped(own, states, what)
        return values
    for begin in _BEGIN:
        begun = [name for name in free if name.casefold().startswith(begin)]
        by_place = dict[int, str]()
        for name in begun:  # as values are matched: 0.0 is 0, and True is true
            if (at := names.position(name[len(begin) :])) is not None:
                by_place.setdefault(at, name)
        if len(by_place) == len(states):
            return Values(tuple(by_place[s] for s in range(len(states))))
    if lists := [name for name in _LISTS if name in free and isinstance(schema[name], _LISTED)]:
        return Values((lists[0],), is_list=True)
    raise ValueError(
        f"there must be a column of probabilities per state ({listed((f'p_{state}' for state in states), 3)}), or one "
        f"of lists (probs): say which of {listed(free)} they are, {hint}"
    )


def _refuse_swapped(own: Sequence[str], states: Sequence[str], what: str) -> None:
    """Refuse columns in the order of the states whose names end in the names of other states."""
    ends = {state: re.sub(r"[\W_]+", "_", f"_{state}_".casefold()) for state in states}
    for name, state in zip(own, states, strict=True):
        plain = re.sub(r"[\W_]+", "_", f"_{name}_".casefold())
        named = max((one for one in states if plain.endswith(ends[one])), key=len, default=state)
        if named != state:
            raise ValueError(
                f"the columns of {what} must be in the order of the states, {listed(states)}, and {name!r}, in the "
                f"place of {state}, names {named}: give each with its state, STATE=COLUMN"
            )


def quantile_columns(there: Sequence[str]) -> dict[str, dict[float, str]]:
    """The columns of quantiles by model ("" where no model is named) and level.

    >>> quantile_columns(["y", "ETS", "ETS-lo-90", "ETS-hi-90"])
    {'ETS': {0.05: 'ETS-lo-90', 0.95: 'ETS-hi-90'}}
    """
    found: dict[str, dict[float, str]] = {}
    for name, (pattern, level_in) in itertools.product(there, _LEVELS):
        match = re.fullmatch(pattern, name.strip(), re.ASCII | re.DOTALL)
        if match is None or not 0 < (level := round(level_in(match[2]), 9)) < 1:
            continue
        same = found.setdefault(match[1], {})
        if level in same:
            raise ValueError(f"columns {same[level]!r} and {name!r} are both the quantile at level {level:g}")
        same[level] = name
    several = {model: own for model, own in found.items() if not model or set(own) != {0.5}}  # a median alone is a name
    return several or found


def _quantiles(log: Log, free: Sequence[str], columns: Columns, state: str) -> Values:
    """The columns of quantiles; a forecast without a level is a median if it is in the middle of all intervals."""
    if columns.quantiles:
        if columns.model is not None:
            raise ValueError("columns must name a model or quantiles, not both")
        return _there(_by_level(columns.quantiles), [*free, state], "quantiles")
    models = quantile_columns(free)
    called = listed(name or f"the one of {next(iter(its.values()))}" for name, its in models.items())
    if not models:
        raise ValueError(
            "there must be columns of quantiles: q10, q50, q90, or 0.1, 0.5, 0.9, or MODEL-lo-90, MODEL-hi-90; "
            f"say which of {listed(free)} they are with --quantiles 0.1=NAME,..., or in Python "
            "columns={'quantiles': {0.1: NAME, ...}}"
        )
    if columns.model is None and len(models) > 1:
        raise ValueError(f"the log has the quantiles of {len(models)} models, {called}: columns={{'model': NAME}}")
    model = next(iter(models)) if columns.model is None else columns.model
    if model not in models:
        raise ValueError(f"the model must be one of those with quantiles, {called}, got {inputs.shown(model)}")
    if odd := [name for name in free if not model and re.fullmatch(r"[qQ]_?\d", name)]:
        raise ValueError(
            f"{odd[0]} may be the quantile at 0.0{odd[0][-1]} or at 0.{odd[0][-1]}: "
            "columns={'quantiles': {LEVEL: NAME, ...}} says which"
        )
    own = models[model]
    pairs = [(own[a], own[round(1 - a, 9)]) for a in own if a < 0.5 and round(1 - a, 9) in own]
    if pairs and model in free and 0.5 not in own:
        middle, near = log.number(model), list[pl.Expr]()
        for low, high in ((log.number(low), log.number(high)) for low, high in pairs):
            scale = pl.max_horizontal((high - low).abs(), middle.abs())
            near.append((low / 2 + high / 2 - middle).abs() <= _EVEN * scale + 1e-300)
        if log.collected(log.rows.select(pl.all_horizontal(near).all())).item():
            own = own | {0.5: model}
    return _by_level(own)
