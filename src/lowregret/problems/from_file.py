"""A decision problem from a file: payoffs in the user's own units, with names if it has any."""

import csv
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import files, inputs
from .decision import DecisionProblem
from .payoff import Payoff
from .presets import newsvendor_of_numbers

_NO_CURRENCY = {"action", "actions", "state", "states", "payoff", "payoffs", "utility", "name", "index", "unnamed: 0"}


def payoffs_in(path: str | Path) -> DecisionProblem | Payoff:
    """``DecisionProblem.from_payoffs`` of a .csv, .toml or .npy file: one row per action, one column per state.

    Names in the first row are those of the states, names in the first column those of the actions; either may be
    missing. A name is anything but a number, but if the first cell is empty the first row and column are names whatever
    they hold. A first row that could be numbers of states or an action's payoffs is refused.

    A .toml file has the arguments of ``from_payoffs`` and optionally a ``currency``; or, where outcomes are numbers,
    those of ``Payoff.from_knots``; or ``kind = "newsvendor"`` with ``price``, ``cost``, ``actions`` (the orders) and
    ``salvage``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file, stall = Path(folder) / "shop.csv", Path(folder) / "stall.toml"
    ...     _ = file.write_text("euros,dry,wet\\nopen,100,-20\\nshut,0,0\\n")
    ...     _ = stall.write_text('kind = "newsvendor"\\nprice = 5\\ncost = 3\\nactions = [0, 10, 20]\\n')
    ...     shop, orders, currency = payoffs_in(file), payoffs_in(stall), currency_in(file)
    >>> shop.states, shop.actions, shop.in_payoffs(shop.utility).tolist(), currency
    (('dry', 'wet'), ('open', 'shut'), [[100.0, -20.0], [0.0, 0.0]], 'euros')
    >>> orders
    Payoff(3 actions, -60 to 40, 3 knots)
    """
    given = _given_in(Path(path))
    given.pop("currency", None)
    make: Callable[..., DecisionProblem | Payoff] = DecisionProblem.from_payoffs
    if "kind" in given:
        inputs.choice(given.pop("kind"), "kind", ("newsvendor",))
        given["levels"] = given.pop("actions", ())
        make = newsvendor_of_numbers
    elif "knots" in given:
        make = Payoff.from_knots
    try:
        return make(**given)
    except TypeError as error:
        raise ValueError(f"payoffs in {path} lack something, or have too much: {error}") from error


def currency_in(path: str | Path) -> str | None:
    """The unit of the payoffs in a file: the corner of a .csv table, or ``currency`` of a .toml file."""
    given = _given_in(Path(path)).get("currency")
    return given if isinstance(given, str) else None


def _given_in(path: Path) -> dict[str, Any]:
    """What a file says, by the names of arguments."""
    if path.suffix.lower() == ".npy":
        return {"payoffs": np.load(path, allow_pickle=False)}
    if path.suffix.lower() != ".toml":
        return _table_in(path)
    try:
        return tomllib.loads(files.text_in(path, "payoffs"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"payoffs must be TOML, and {path} is not: {error}") from error


def _table_in(path: Path) -> dict[str, Any]:
    lines = csv.reader(files.text_in(path, "payoffs").splitlines(), skipinitialspace=True)
    rows = [[cell.strip() for cell in cells] for cells in lines if any(cells)]
    if not rows:
        raise ValueError(f"payoffs must have a row for each action, and {path} has nothing but empty cells")
    first, begins = rows[0], [_is_number(cells[0]) for cells in rows]
    framed = first[0] == ""
    has_states = (
        framed or not all(map(_is_number, first[1:])) or (not begins[0] and any(begins)) or len(first) < len(rows[-1])
    )
    has_actions = framed or not any(begins[has_states:])
    if not framed:
        _refuse_unclear(rows, has_states, has_actions, path)
    below = rows[has_states:]
    if not below:
        raise ValueError(f"payoffs must have a row for each action, and {path} has names only")
    states, actions, corner = first if has_states else None, None, ""
    if has_actions:
        actions, below = [cells[0] for cells in below], [cells[1:] for cells in below]
        if states is not None and len(states) == len(below[0]) + 1:
            corner, *states = states
    for cells in below:
        if len(cells) != len(below[0]) or not all(map(_is_number, cells)):
            raise ValueError(f"payoffs must be {len(below[0])} numbers in every row, and a row of {path} has {cells}")
    currency = corner if 0 < len(corner) <= 20 and corner.casefold() not in _NO_CURRENCY else None
    payoffs = [list(map(float, cells)) for cells in below]
    return {"payoffs": payoffs, "actions": actions, "states": states, "currency": currency}


def _refuse_unclear(rows: list[list[str]], has_states: bool, has_actions: bool, path: Path) -> None:
    """Refuse a first line or column that may be numbers of states or actions, or payoffs: each is another problem."""
    first, column = rows[0], [cells[0] for cells in rows[1:]]
    numbers = first[1:] if has_actions else first
    if (
        len(rows) > 2
        and not has_states
        and (len(set(map(float, numbers))) == len(numbers) if has_actions else _is_count(numbers))
    ):
        raise ValueError(
            f"payoffs must say what the first line of {path} is, {','.join(first)!r}: it may be the numbers of the "
            "states, or what an action is paid. If it is the states', leave its first cell empty, above a first column "
            "of actions; if not, put a line with names of the states above it"
        )
    as_a_frame = column == [str(i) for i in range(len(column))]  # writes its rows
    if has_states and not has_actions and len(column) > 1 and len(rows[-1]) == len(first) and as_a_frame:
        raise ValueError(
            f"payoffs must say what the first column of {path} is, {first[0]!r}: it may be the numbers of the actions, "
            "or payoffs. If it is the actions', leave the cell above it empty; if not, put a column with names of the "
            "actions before it"
        )


def _is_count(cells: list[str]) -> bool:
    """Whether these are 0, 1, 2, ... or 1, 2, 3, ..., in some order."""
    n = len(cells)
    return all(map(_is_number, cells)) and sorted(map(float, cells)) in ([*range(n)], [*range(1, n + 1)])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
