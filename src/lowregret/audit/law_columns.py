"""Which columns hold the probabilities of which states: as they are told, or by their names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .. import inputs
from ..problems import Names

USUAL = ("probs", "probabilities", "p")  # one that holds lists
_SPELT = ("p_{}", "prob_{}", "p{}", "{}")  # one column a state
_SHORTEST = 2  # letters of a state's name that may stand at an end of a word: pup is up, data is not a


def listed(names: Any) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


def probs_in(there: Sequence[str], states: Sequence[str], told: Any, taken: Sequence[str]) -> tuple[str | None, ...]:
    """The columns of probabilities, one a state in the order of the states, or one that holds lists.

    Of two states one may be None: what the other leaves.
    """
    if told is not None:
        return told_laws(there, states, told, "probabilities", "probs")
    for spelt in _SPELT:
        names = tuple(spelt.format(state) for state in states)
        if all(name in there and name not in taken for name in names):
            return names
    for name in USUAL:
        if name in there:
            return (name,)
    asked = tuple(_SPELT[0].format(state) for state in states[:3])
    more = ", ..." if len(states) > 3 else ""
    alone = next(
        (name for state in states for spelt in _SPELT if (name := spelt.format(state)) in there and name not in taken),
        None,
    )
    raise ValueError(
        f"there must be a column of probabilities a state ({', '.join(asked)}{more}), or one of lists (probs): say "
        f"which of {listed(there)} they are, {_how('probs', states)}{lone(alone, states) if alone else ''}"
    )


def told_laws(
    there: Sequence[str], states: Sequence[str], told: Any, what: str, role: str = ""
) -> tuple[str | None, ...]:
    """Columns of laws as the caller says: by state, or in the order of the states, or one that holds lists."""
    if isinstance(told, Mapping):
        return _by_state(there, states, told, what)
    names = several(there, told, len(states), what, f": {_how(role, states)}" if role else "")
    if len(names) == len(states) > 1:
        _refuse_swapped(names, states, what)
    return names


def several(there: Sequence[str], told: Any, n: int, what: str, how: str = "") -> tuple[str, ...]:
    """So many columns, or one that holds lists."""
    names = (told,) if isinstance(told, str) else tuple(told) if isinstance(told, (list, tuple)) else ()
    if len(names) not in (1, n) or not all(isinstance(name, str) and name in there for name in names):
        raise ValueError(
            f"the columns of {what} must be {n}, or one that holds lists, of {listed(there)}, got "
            f"{inputs.shown(told)}{how}"
        )
    return names


def told_in_words(text: str, states: Sequence[str]) -> list[str] | dict[str, str]:
    """What ``--probs`` says: columns with commas in the order of the states, or STATE=COLUMN each.

    >>> told_in_words("up=forecast_up,down=forecast_down", ("down", "up"))
    {'up': 'forecast_up', 'down': 'forecast_down'}
    """
    pieces = text.split(",")
    found: dict[str, str] = {}
    for piece in pieces:
        own = [state for state in states if piece.startswith(f"{state}=")]
        if own:
            state = max(own, key=len)
            if state in found:
                raise ValueError(f"--probs must name a column for each state once, and has two for {state}: {text!r}")
            found[state] = piece[len(state) + 1 :]
    if found and len(found) < len(pieces):
        raise ValueError(
            f"--probs must be columns in the order of the states ({listed(states)}), or STATE=COLUMN each, got {text!r}"
        )
    return found or pieces


def lone(name: str | None, states: Sequence[str]) -> str:
    """A hint for those who have one column for two states; nothing otherwise."""
    if name is None or len(states) != 2:
        return ""
    at = _named(name, states)
    state = "STATE" if at is None else states[at]
    return (
        f"; if {name} is the probability of {state} (of {listed(states)}), and the other's is 1 - {name}, say so: "
        f"--probs {state}={name} or columns={{'probs': {{{state!r}: {name!r}}}}}"
    )


def _by_state(
    there: Sequence[str], states: Sequence[str], told: Mapping[Any, Any], what: str
) -> tuple[str | None, ...]:
    names = Names(states)
    named = {states[at]: name for state, name in told.items() if (at := names.position(state)) is not None}
    enough = set(named) == set(states) or (len(states) == 2 and len(named) == 1 and set(named) <= set(states))
    right = all(isinstance(name, str) and name in there for name in named.values())
    if len(named) < len(told) or not enough or not right or len(set(named.values())) < len(named):
        other = ", or one for one of the two" if len(states) == 2 else ""
        raise ValueError(
            f"the columns of {what} by state must name a column of its own, of {listed(there)}, for each of "
            f"{listed(states)}{other}, got {inputs.shown(told)}"
        )
    return tuple(named.get(state) for state in states)


def _refuse_swapped(names: Sequence[str], states: Sequence[str], what: str) -> None:
    """Refuse columns in the order of the states whose names say that they are another state's.

    Numbers in names may mean something else, model_1_a and model_1_b: they must all be there to count.
    """
    said = [_named(name, states) for name in names]
    wrong = [i for i, state in enumerate(said) if state is not None and state != i]
    numbers = all(state.lstrip("-").isdecimal() for state in states)
    if not wrong or (numbers and sorted(s for s in said if s is not None) != list(range(len(states)))):
        return
    at, other = wrong[0], said[wrong[0]]
    assert other is not None
    pairs = [f"{state}={name}" for state, name in zip(states, names, strict=True)]
    raise ValueError(
        f"the columns of {what} must be in the order of the states, {listed(states)}, and {names[at]!r}, which has the "
        f"place of {states[at]}, names {states[other]}: give them in that order, or each with its state, "
        f"STATE=COLUMN (columns={{...: {{STATE: COLUMN}}}}); in the order given they would be {','.join(pairs[:12])}"
    )


def _named(column: str, states: Sequence[str]) -> int | None:
    """The one state that a column's name names: as a word of it, else at an end of a word; None: none, or several."""
    text, spelt = _plain(column), [_plain(state) for state in states]
    for inside in (_is_word, _is_affix):
        found = [i for i, state in enumerate(spelt) if state and inside(state, text)]
        # p_no_rain names "no rain", although "rain" is in it
        found = [i for i in found if not any(j != i and spelt[i] in spelt[j] for j in found)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


def _is_word(state: str, text: str) -> bool:
    return f"_{state}_" in f"_{text}_"


def _is_affix(state: str, text: str) -> bool:
    if state.isdecimal():
        return re.search(rf"(?<!\d){state}(_|$)", text) is not None or re.match(rf"{state}(?!\d)", text) is not None
    return len(state) >= _SHORTEST and (text.startswith(state) or text.endswith(state))


def _how(role: str, states: Sequence[str]) -> str:
    few = [f"{state}=COLUMN" for state in states[:3]] + ["..."] * (len(states) > 3)
    return f"--{role} {','.join(few)} or columns={{{role!r}: {{{states[0]!r}: COLUMN, ...}}}}"
