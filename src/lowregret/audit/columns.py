"""Which column of a table is what: by its usual name, or as the caller says."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import inputs
from ..problems import DecisionProblem
from .cells import printable
from .laws import listed, probs_in, several, told_laws
from .times import Every, every_of

_USUAL = {
    "stream": ("stream", "unique_id", "series", "series_id", "item_id", "id"),  # the second of each is Nixtla's
    "order": ("step", "ds", "time", "timestamp", "date", "datetime", "t"),
    "state": ("state", "y", "outcome", "actual", "target"),
}
_DATED = ("day", "ts", "hour", "week", "month", "year", "when", "period")  # which may be times, or something else
TOLD = ("context", "references", "payoffs", "scale")  # only where they are named: they change what is promised


class Columns(NamedTuple):
    """The names of the columns that matter; None: there is one stream, or the rows are in order already."""

    stream: str | None
    order: str | None
    state: str
    probs: tuple[str | None, ...]  # one per state, or one that holds lists; None: 1 minus the other of two
    every: Every | None = None  # how far apart times must be
    context: str | None = None
    references: tuple[tuple[str, tuple[str | None, ...]], ...] = ()  # names, and columns as those of probs
    payoffs: tuple[str, ...] = ()  # action by action, one per state; or one that holds lists
    scale: str | None = None
    known_at: str | None = None  # when the outcome of the step was known
    guesses: tuple[str, ...] | None = (
        None  # what else may be the stream if its values hardly repeat; None: the caller named it
    )
    passed: tuple[str, ...] = ()  # columns that were not taken for it, since theirs do
    untaken: str | None = None  # a column that may have times in it, where none or another was taken for the order
    levels: tuple[float, ...] = ()  # where outcomes are numbers: those of the quantiles that stand in ``probs``
    point: str | None = None  # a model's forecast without a level: its median where the intervals lie evenly around it
    cutoff: str | None = None  # when the forecast was made

    @property
    def needed(self) -> list[str]:
        every = (self.stream, self.order, *self.named, *self.numbers, self.cutoff, self.known_at)
        return list(dict.fromkeys(name for name in every if name))

    @property
    def named(self) -> list[str]:
        """Columns that hold names: of states and contexts."""
        every = (None if self.levels else self.state, self.context)
        return [name for name in every if name]

    @property
    def numbers(self) -> list[str]:
        """Columns that hold numbers, or lists of them."""
        theirs = [name for _, names in self.references for name in names]
        outcome = self.state if self.levels else None
        every = (outcome, *self.probs, self.point, self.scale, *theirs, *self.payoffs)
        return [name for name in every if name]

    @property
    def about(self) -> dict[str, Any]:
        """Which column is read as what, in plain values."""
        said: dict[str, Any] = {"probs": list(self.probs)}
        if self.levels:
            quantiles = {f"{level:g}": name for level, name in zip(self.levels, self.probs, strict=True)}
            said = {"quantiles": quantiles, "forecast": self.point, "cutoff": self.cutoff}
        keys = {"stream": self.stream, "order": self.order, "state": self.state, **said}
        more = {"context": self.context, "references": dict(self.references), "payoffs": self.payoffs}
        every = {"every": None if self.every is None else str(self.every)}
        return (
            keys
            | every
            | {role: own for role, own in (more | {"scale": self.scale, "known_at": self.known_at}).items() if own}
        )


def columns_of(there: Sequence[str], problem: DecisionProblem, told: Mapping[str, Any] | None = None) -> Columns:
    """The columns of a table that has those names; what the caller ``told`` goes before the usual names.

    >>> from lowregret import matching
    >>> columns_of(["unique_id", "ds", "y", "p_0", "p_1"], matching())[:4]
    ('unique_id', 'ds', 'y', ('p_0', 'p_1'))
    """
    told = roles_told(told, (*_USUAL, "probs", "every", "known_at", *TOLD))
    stream, guesses, order, state = keys_in(there, told)
    if state is None:
        raise ValueError(
            f"there must be a column of states, such as {listed(_USUAL['state'])}: say which of {listed(there)} it is, "
            "--state NAME or columns={'state': NAME}"
        )
    S, A = problem.n_states, problem.n_actions
    taken = [name for name in (stream, order, state) if name]
    probs = probs_in(there, problem.states, told.get("probs"), taken)
    context, scale, known_at = named(there, told, ("context", "scale", "known_at"))
    if known_at is not None and order is None:
        raise ValueError(
            f"known_at={known_at!r} needs a column of steps or times, such as {listed(_USUAL['order'])}: say which it "
            "is, --order NAME or columns={'order': NAME}"
        )
    laws = references_in(told, lambda own, what: told_laws(there, problem.states, own, what))
    payoffs = () if told.get("payoffs") is None else several(there, told["payoffs"], A * S, "payoffs")
    columns = Columns(
        *(stream, order, state, probs, every_in(told, order), context, laws, payoffs, scale, known_at, guesses)
    )
    refuse_doubled(there, columns.needed)
    return columns if told.get("order") is not None else columns._replace(untaken=may_be_order(there, columns.needed))


def references_in(
    told: Mapping[str, Any], laws: Callable[[Any, str], Any]
) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """The columns of incumbents by name."""
    references = told.get("references") or {}
    if not isinstance(references, Mapping) or not all(isinstance(name, str) for name in references):
        raise ValueError(f"references must be a dict of columns by name, got {inputs.shown(references)}")
    return tuple((name, laws(own, f"reference {name!r}")) for name, own in references.items())


def named(there: Sequence[str], told: Mapping[str, Any], roles: Sequence[str]) -> list[str | None]:
    """The columns of these roles: as the caller says, else those with the usual names, if they are there."""
    found: list[str | None] = []
    for role in roles:
        name = told.get(role)
        if name is not None and (not isinstance(name, str) or name not in there):
            how = f"columns={{{role!r}: NAME}}"
            how = f"--{role} NAME or {how}" if role in _USUAL else how
            raise ValueError(f"the {role} column must be one of {listed(there)}, got {inputs.shown(name)}: {how}")
        others = [told.get(other) for other in _USUAL]  # what has another part is not taken for this one
        usual = (usual for usual in usual_in(there, role) if usual not in others)
        found.append(name if name is not None else next(usual, None))
    return found


def usual_in(there: Sequence[str], role: str) -> list[str]:
    """Columns with a usual name of this role, in other case where none has it exactly."""
    others = {name.strip().casefold(): name for name in reversed(there)}
    found = (name if name in there else others.get(name) for name in _USUAL.get(role, ()))
    return [name for name in found if name is not None]


def may_be_order(there: Sequence[str], taken: Sequence[str | None]) -> str | None:
    """A column without a role whose name suggests that it holds times."""
    free = [name for name in there if name not in taken]
    dated = [
        name for name in free if name.strip().casefold() in (*_DATED, *_USUAL["order"]) or "date" in name.casefold()
    ]
    return next(iter(dated), None)


def keys_in(
    there: Sequence[str], told: Mapping[str, Any]
) -> tuple[str | None, tuple[str, ...] | None, str | None, str | None]:
    """The column of streams, what else it may be (None: the caller said), that of steps and that of states."""
    order, state = named(there, told, ("order", "state"))
    guesses: tuple[str, ...] | None = None
    if told.get("stream") is not None:
        stream = None if told["stream"] == NO_STREAM else named(there, told, ("stream",))[0]
        if stream is None and NO_STREAM in there:
            raise ValueError(f"{NO_STREAM!r} says that there is no column of streams, and one has that name: rename it")
    else:
        usual = [name for name in usual_in(there, "stream") if name not in (order, state)]
        stream, guesses = (usual[0] if usual else None), tuple(usual[1:])
    keys = [name for name in (stream, order, state) if name is not None]
    if len(set(keys)) < len(keys):
        raise ValueError(f"stream, order and state must be three different columns, got {listed(keys)}")
    return stream, guesses, order, state


def roles_told(told: Any, roles: Sequence[str]) -> dict[str, Any]:
    """What the caller says of columns, each by the name of its role."""
    if told is None:
        return {}
    if not isinstance(told, Mapping) or not set(told) <= set(roles):
        raise ValueError(f"columns must say which is the {listed(roles)}, by these names, got {inputs.shown(told)}")
    return dict(told)


def every_in(told: Mapping[str, Any], order: str | None) -> Every | None:
    """How far apart times must be, if the caller says so."""
    if told.get("every") is None:
        return None
    if order is None:
        raise ValueError(
            f"every={told['every']!r} needs a column of times, such as {listed(_USUAL['order'])}: "
            "say which it is, --order NAME or columns={'order': NAME}"
        )
    return every_of(told["every"])


def refuse_doubled(there: Sequence[str], needed: Sequence[str]) -> None:
    """Refuse a table in which two columns have the same name, if it matters."""
    often = Counter(there)
    for name in needed:
        if often[name] > 1:
            raise ValueError(f"a column that matters must be there once, and {name!r} is there twice or more")


# Which column names the streams where the caller does not say: one whose values repeat; and all choices in words.


NO_STREAM = "none"  # said in place of a column: all rows are one stream


def repeating(found: Any, repeats: Callable[[str], bool]) -> Any:
    """The columns ``found``, with the first guess for the stream for which ``repeats`` holds."""
    while not (found.stream is None or found.guesses is None or repeats(found.stream)):
        found = passed_on(found)
    return found


def passed_on(found: Any) -> Any:
    """The same columns with the next guess for the stream, or none."""
    stream, *others = found.guesses or (None,)
    return found._replace(stream=stream, guesses=tuple(others), passed=(*found.passed, found.stream))


def shared(rows: int, single: int) -> bool:
    """Whether streams repeat: at most half of the rows are alone in their stream (with a key, almost all)."""
    return rows == 1 or 2 * single <= rows


def alone_told(found: Any) -> str:
    """Why all rows are one stream, for a refusal; nothing where a column names the streams."""
    if found.stream is not None:
        return ""
    if found.guesses is None:
        return "; all rows are one stream, as requested"
    if found.passed:
        return f"; {_unstreamed(found)[0]}"
    return (
        "; no column of streams was found, so all rows are taken to be one: if there are several series, name it, "
        "--stream NAME or columns={'stream': NAME}"
    )


def passed_told(found: Any) -> tuple[str, ...]:
    """What a reader should know of columns that were not taken for the order or the stream."""
    return (*_unordered(found), *_unstreamed(found))


def _unordered(found: Any) -> tuple[str, ...]:
    name = getattr(found, "untaken", None)
    if name is None:
        return ()
    if found.order is not None:
        return (
            f"rows are put in the order of {found.order}, and {name} may have steps or times too: --order NAME, or "
            "columns={'order': NAME}, says which it is",
        )
    return (
        f"no column of steps or times was found, so rows are taken in the order in which they stand: if {name} has "
        f"them, say so, --order {name} or columns={{'order': {name!r}}}",
    )


def _unstreamed(found: Any) -> tuple[str, ...]:
    if found.stream is not None or not found.passed:
        return ()
    name = found.passed[0]
    return (
        f"the values of {listed(found.passed)} hardly repeat, so all rows are taken to be one stream: --stream {name}, "
        f"or columns={{'stream': {name!r}}}, makes streams of them; {NO_STREAM} in its place says that there is one",
    )


def chosen_told(about: Mapping[str, Any]) -> str:
    """Which column is read as what, in words for a terminal; ``about`` as columns have it."""
    keys = ("stream", "order", "state")
    parts = [f"{role} {_spelt(own)}" for role, own in about.items() if role in keys or own is not None]
    return printable(f"read as {', '.join(parts)}", 400)


def _spelt(value: Any) -> str:
    if isinstance(value, Mapping):
        return listed(f"{name}: {_spelt(own)}" for name, own in value.items())
    if isinstance(value, (list, tuple)):
        return listed("the rest" if own is None else _spelt(own) for own in value)
    return NO_STREAM if value is None else str(value)
