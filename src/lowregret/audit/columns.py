"""Which column of a table is what: by the names people give them, or as they are told."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import inputs
from ..problems import DecisionProblem

_USUAL = {
    "stream": ("stream", "unique_id", "series", "series_id", "id"),  # the second of each is Nixtla's
    "order": ("step", "ds", "time", "timestamp", "date", "t"),
    "state": ("state", "y", "outcome", "actual"),
    "probs": ("probs", "probabilities", "p"),
}
_SPELT = ("p_{}", "prob_{}", "p{}", "{}")  # one column a state


class Columns(NamedTuple):
    """The names of the columns that matter; None: there is one stream, or rows are in order as they stand."""

    stream: str | None
    order: str | None
    state: str
    probs: tuple[str, ...]  # one a state, or one that holds lists

    @property
    def needed(self) -> list[str]:
        return list(dict.fromkeys(name for name in (self.stream, self.order, self.state, *self.probs) if name))


def columns_of(there: Sequence[str], problem: DecisionProblem, told: Mapping[str, Any] | None = None) -> Columns:
    """The columns of a table that has those names; what is ``told`` goes before what is usual.

    >>> from lowregret import matching
    >>> columns_of(["unique_id", "ds", "y", "p_0", "p_1"], matching())
    Columns(stream='unique_id', order='ds', state='y', probs=('p_0', 'p_1'))
    """
    told = _told(told)
    doubled = [name for name in dict.fromkeys(there) if list(there).count(name) > 1]
    found: dict[str, str | None] = {}
    for role in ("stream", "order", "state"):
        name = told.get(role)
        if name is not None and (not isinstance(name, str) or name not in there):
            raise ValueError(f"the {role} column must be one of {_listed(there)}, got {inputs.shown(name)}")
        found[role] = name if name is not None else next((usual for usual in _USUAL[role] if usual in there), None)
    state = found["state"]
    if state is None:
        raise ValueError(
            f"there must be a column of states, such as {_listed(_USUAL['state'])}: say which of {_listed(there)} it is"
        )
    probs = _probs(there, problem, told.get("probs"), [name for name in found.values() if name])
    columns = Columns(found["stream"], found["order"], state, probs)
    for name in columns.needed:
        if name in doubled:
            raise ValueError(f"a column that matters must be there once, and {name!r} is there twice or more")
    return columns


def _told(told: Any) -> dict[str, Any]:
    if told is None:
        return {}
    if not isinstance(told, Mapping) or not set(told) <= set(_USUAL):
        raise ValueError(f"columns must say which is the {_listed(_USUAL)}, by these names, got {inputs.shown(told)}")
    return dict(told)


def _probs(there: Sequence[str], problem: DecisionProblem, told: Any, taken: list[str]) -> tuple[str, ...]:
    S = problem.n_states
    if told is not None:
        names = (told,) if isinstance(told, str) else tuple(told) if isinstance(told, (list, tuple)) else ()
        if len(names) not in (1, S) or not all(isinstance(name, str) and name in there for name in names):
            raise ValueError(
                f"the columns of probabilities must be {S}, one a state, or one that holds lists, of {_listed(there)}, "
                f"got {inputs.shown(told)}"
            )
        return names
    for spelt in _SPELT:
        names = tuple(spelt.format(state) for state in problem.states)
        if all(name in there and name not in taken for name in names):
            return names
    for name in _USUAL["probs"]:
        if name in there:
            return (name,)
    asked = tuple(_SPELT[0].format(state) for state in problem.states[:3])
    more = ", ..." if S > 3 else ""
    raise ValueError(
        f"there must be a column of probabilities a state ({', '.join(asked)}{more}), or one of lists (probs): say "
        f"which of {_listed(there)} they are"
    )


def _listed(names: Any) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")
