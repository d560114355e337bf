"""A decision problem from a file: payoffs in the user's own units, with names if it has any."""

import csv
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from .. import files, inputs
from .decision import DecisionProblem
from .payoff import Payoff
from .presets import newsvendor_of_numbers

_OF_STATES = {"payoffs", "actions", "states", "low", "high"}
_OF_NUMBERS = {"payoffs", "actions", "knots", "outcomes", "low", "high"}
_KINDS = {"newsvendor": newsvendor_of_numbers}


def payoffs_in(path: str | Path) -> DecisionProblem | Payoff:
    """``DecisionProblem.from_payoffs`` of a .csv, .toml or .npy file: one row per action, one column per state.

    Names in the first row are those of the states, names in the first column those of the actions; either may be
    missing. A name is anything but a number, but if the first cell is empty the first row and column are names whatever
    they hold. A first row that could be numbers of states or an action's payoffs is refused. A .toml file has
    ``payoffs``, a list of rows, and optionally ``actions``, ``states``, a ``currency``, and ``low`` and ``high``, the
    range of payoffs that change.

    Where outcomes are numbers, a .toml file for a ``Payoff``: ``payoffs`` at the outcomes ``knots``, with straight
    lines between them, and optionally ``actions``, ``outcomes`` (the least and the most possible), ``low`` and
    ``high``; or ``kind = "newsvendor"`` with ``price``, ``cost``, ``actions`` (the orders) and ``salvage``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file, stall = Path(folder) / "shop.csv", Path(folder) / "stall.toml"
    ...     _ = file.write_text("euros,dry,wet\\nopen,100,-20\\nshut,0,0\\n")
    ...     _ = stall.write_text('kind = "newsvendor"\\nprice = 5\\ncost = 3\\nactions = [0, 10, 20]\\n')
    ...     shop, orders = payoffs_in(file), payoffs_in(stall)
    >>> shop.states, shop.actions, shop.in_payoffs(shop.utility).tolist()
    (('dry', 'wet'), ('open', 'shut'), [[100.0, -20.0], [0.0, 0.0]])
    >>> orders
    Payoff(3 actions, -60 to 40, 3 knots)
    """
    path = Path(path)
    return _of_toml(path) if path.suffix.lower() == ".toml" else _of_states(path)


def _of_states(path: Path) -> DecisionProblem:
    if path.suffix.lower() == ".npy":
        return DecisionProblem.from_payoffs(np.load(path, allow_pickle=False))
    lines = csv.reader(files.text_in(path, "payoffs").splitlines(), skipinitialspace=True)
    rows = [(at, [cell.strip() for cell in cells]) for at, cells in enumerate(lines, start=1) if any(cells)]
    if not rows:
        raise ValueError(f"payoffs must have a row for each action, and {path} has nothing but empty cells")
    states = actions = None
    first, framed = rows[0][1], rows[0][1][0] == ""
    if not framed:
        _refuse_unclear(rows, path)
    lone = _number(first[0]) is None and not _is_odd(first[0]) and any(_number(c[0]) is not None for _, c in rows[1:])
    if framed or lone or _is_header(first) or len(first) < len(rows[-1][1]):
        states, rows = first, rows[1:]
    if not rows:
        raise ValueError(f"payoffs must have a row for each action, and {path} has names only")
    if states is not None and not framed:
        _refuse_counted(states, rows, path)
    if framed or all(_number(cells[0]) is None for _, cells in rows):
        actions, rows = [cells[0] for _, cells in rows], [(at, cells[1:]) for at, cells in rows]
    width = len(rows[0][1])
    if actions is not None and states is not None and len(states) == width + 1:
        states = states[1:]  # over the actions stands whatever the table is called
    return DecisionProblem.from_payoffs([_numbers(cells, width, at, path) for at, cells in rows], actions, states)


_NO_CURRENCY = {"action", "actions", "state", "states", "payoff", "payoffs", "utility", "name", "index", "unnamed: 0"}


def currency_in(path: str | Path) -> str | None:
    """The unit of the payoffs in a file: the corner of a .csv table, or ``currency`` of a .toml file; None: not given.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "shop.csv"
    ...     _ = file.write_text("euros,dry,wet\\nopen,100,-20\\nshut,0,0\\n")
    ...     currency_in(file)
    'euros'
    """
    path, problem = Path(path), payoffs_in(path)
    if path.suffix.lower() == ".toml":
        given = tomllib.loads(files.text_in(path, "payoffs")).get("currency")
        return given if isinstance(given, str) else None
    if path.suffix.lower() != ".csv":
        return None
    lines = csv.reader(files.text_in(path, "payoffs").splitlines(), skipinitialspace=True)
    corner, *states = next([cell.strip() for cell in cells] for cells in lines if any(cells))
    cornered = tuple(states) == getattr(problem, "states", None) and 0 < len(corner) <= 20
    return corner if cornered and corner.isprintable() and corner.casefold() not in _NO_CURRENCY else None


def _refuse_unclear(rows: list[tuple[int, list[str]]], path: Path) -> None:
    """Refuse a first line that may be numbers of states or an action's payoffs: each reading is another problem.

    It is an action's if otherwise two states had the same name, or no choice were left; and without names of actions,
    unless it counts the states from 0 as a frame without names does.
    """
    (at, first), acted = rows[0], all(_number(cells[0]) is None for _, cells in rows)
    numbered: list[Any] = [_number(cell) for cell in (first[1:] if acted else first)]
    if len(rows) < 3 or len(first) < len(rows[-1][1]) or None in numbered or len(set(numbered)) < len(numbered):
        return
    if acted or sorted(numbered) in (list(range(len(numbered))), list(range(1, len(numbered) + 1))):
        paid = f"what {first[0]!r} is paid" if acted else "what an action is paid"
        above = ",".join(["", *first[1:]] if acted else ["", *first])
        raise ValueError(
            f"payoffs must say what line {at} of {path} is, {','.join(first)!r}: it may be the numbers of the states, "
            f"or {paid}. If it is the states', leave its first cell empty, {above!r}"
            + ("" if acted else ", above a first column of actions")
            + "; if not, put a line with names of the states above it"
        )


def _of_toml(path: Path) -> DecisionProblem | Payoff:
    try:
        given = tomllib.loads(files.text_in(path, "payoffs"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"payoffs must be TOML, and {path} is not: {error}") from error
    given.pop("currency", None)
    if "kind" in given:
        return _of_kind(given, path)
    if "payoffs" in given and "knots" in given and set(given) <= _OF_NUMBERS:
        return Payoff.from_knots(**given)
    if "payoffs" not in given or not set(given) <= _OF_STATES:
        raise ValueError(
            "payoffs must have payoffs, and may have actions and states, or knots where outcomes are numbers, and low "
            f"and high: {path} has {', '.join(given)}"
        )
    return DecisionProblem.from_payoffs(**given)


def _of_kind(given: dict[str, Any], path: Path) -> Payoff:
    """A common problem by its name and numbers."""
    kind = inputs.choice(given.pop("kind"), "kind", tuple(_KINDS))
    needs, may = {"price", "cost", "actions"}, {"salvage"}
    if not needs <= set(given) <= needs | may:
        raise ValueError(
            f"a {kind} must have price, cost and actions, and may have salvage: {path} has {', '.join(given)}"
        )
    for name in ("price", "cost", "salvage"):
        if isinstance(given.get(name), str):
            raise ValueError(f"the {name} must be a number, and {path} has {given[name]!r}: fill it in")
    return _KINDS[kind](given.pop("actions"), **given)


def _numbers(cells: list[str], width: int, at: int, path: Path) -> list[float]:
    if len(cells) != width:
        raise ValueError(f"payoffs must have {width} numbers in every row, and line {at} of {path} has {len(cells)}")
    for cell in cells:
        if _number(cell) is None:
            raise ValueError(f"payoffs must be numbers, and line {at} of {path} has {cell!r}")
    return [float(cell) for cell in cells]


def _refuse_counted(names: list[str], rows: list[tuple[int, list[str]]], path: Path) -> None:
    """Refuse rows under names that begin with 0, 1, 2, ...: they may be numbers of the actions, or payoffs."""
    same = all(len(cells) == len(names) for _, cells in rows)
    if same and len(rows) > 1 and [_number(cells[0]) for _, cells in rows] == list(range(len(rows))):
        raise ValueError(
            f"payoffs must say what the first column of {path} is, {names[0]!r}: it counts the rows, so it may be the "
            f"numbers of the actions, or what each is paid in a state called so. If it is the actions', leave the cell "
            f"above it empty, {','.join(['', *names[1:]])!r}; if not, put a column with names of the actions before it"
        )


def _is_header(cells: list[str]) -> bool:
    """Whether a first line has names in it: nan and inf are names where nothing beside them is a number."""
    odd = [cell for cell in cells[1:] if _number(cell) is None]
    return any(not _is_odd(cell) for cell in odd) or (len(odd) == len(cells) - 1 > 0 and _number(cells[0]) is None)


def _is_odd(cell: str) -> bool:
    try:
        return not math.isfinite(float(cell))
    except ValueError:
        return False


def _number(cell: Any) -> float | None:
    """The number in a cell; None: it is a name, as nan and inf are."""
    try:
        return inputs.finite_or_none(float(cell))
    except ValueError:
        return None
