"""Payoffs in files: what is read, and what is refused by what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.problems import payoffs_in

EUROS, ACTIONS, STATES = [[100.0, -20.0, 3.5], [0.0, 0.0, -7.0]], ("open", "shut"), ("dry", "wet", "hot")


@pytest.mark.parametrize(
    ("text", "actions", "states"),
    [
        ("100,-20,3.5\n0,0,-7\n", None, None),
        ("dry,wet,hot\n100,-20,3.5\n0,0,-7\n", None, STATES),
        ("open,100,-20,3.5\nshut,0,0,-7\n", ACTIONS, None),
        (",dry,wet,hot\nopen,100,-20,3.5\nshut,0,0,-7\n", ACTIONS, STATES),
        ("euros, dry, wet, hot\nopen, 1e2, -20, 3.5\n\nshut, 0, 0, -7\n", ACTIONS, STATES),
        ("\ufeffdry,wet,hot\r\nopen,100,-20,3.5\r\nshut,0,0,-7\r\n", ACTIONS, STATES),
        (',"dry","wet","hot"\n"open",100,-20,3.5\n"shut",0,0,-7\n', ACTIONS, STATES),
    ],
)
def test_payoffs_of_a_file(text: str, actions: Any, states: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    found, wanted = payoffs_in(tmp_path / "p.csv"), lr.DecisionProblem.from_payoffs(EUROS, actions, states)
    assert found.utility.tolist() == wanted.utility.tolist()
    assert found.in_payoffs(0.25) == wanted.in_payoffs(0.25)
    assert (found.actions, found.states) == (wanted.actions, wanted.states)


def test_payoffs_that_are_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("dry,wet\n1,0\n0,1\n")
    assert payoffs_in(tmp_path / "p.csv").utility.tolist() == [[1, -1], [-1, 1]]


def test_payoffs_of_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array(EUROS))
    assert payoffs_in(tmp_path / "p.npy").utility.tolist() == lr.DecisionProblem.from_payoffs(EUROS).utility.tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("dry,wet\n", "names only"),
        ("1,2\n3\n", r"2 numbers in every row, and a row of .* has \['3'\]"),
        ("1,2\n3,x\n", r"a row of .* has \['3', 'x'\]"),
        ("1,2\n0,-40\n-10,-10\n", "must say what the first line of"),
        ("dollars,dry,wet\n0,0,-40\n1,-10,-10\n", "must say what the first column of"),
        (",,\n,,\n", "nothing but empty cells"),
        ("1,nan\n3,4\n", "payoffs must be"),
        ("1,inf\n3,4\n", "payoffs must be"),
        ("dry,wet,hot,cold\n1,2\n3,4\n", "states must name each of the 2 states"),
    ],
)
def test_bad_payoffs_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        payoffs_in(tmp_path / "p.csv")
