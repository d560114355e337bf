"""``lowregret arena``, and bots of others at any matrix game."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pyspiel
import pytest
from typer.testing import CliRunner, Result

import lowregret as lr
from lowregret.cli.app import _app
from lowregret.cli.games import _player
from lowregret.games import Fixed
from lowregret.games.open_spiel import SpielPlayer

from ..table_talk import Says


def lowregret(*arguments: str) -> Result:
    return CliRunner().invoke(_app(), ["arena", "--jobs", "1", *arguments], terminal_width=200)


def test_players_are_scored_side_by_side_and_a_run_goes_on(tmp_path: Path) -> None:
    asked = ("--player", "urn", "--player", "copybot", "--opponents", "rockbot,uniform", "--out", str(tmp_path))
    done = lowregret(*asked, "-n", "2")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "2 opponents, 2 matches each of 1000 rounds: payoff of a match ± standard error"
    assert [line.split()[0] for line in lines[2:4]] == ["urn", "copybot"]
    found = json.loads((tmp_path / "arena.json").read_text())
    urn, copybot = (lr.games.Arena.from_json(player) for player in found["players"])
    assert copybot.by_opponent["rockbot"].value > 990
    again = lr.games.arena(
        lr.games.Plain(lr.PolyaUrn(3), name="urn"), [lr.games.OpenSpielBot("rockbot"), Fixed([1 / 3] * 3, "uniform")],
        1000, 2, 0,
    )  # fmt: skip
    assert [p._replace(ms=0) for p in urn.played] == [p._replace(ms=0) for p in again.played]
    assert (tmp_path / "arena.png").read_bytes().startswith(b"\x89PNG")
    first = (tmp_path / "urn.jsonl").read_bytes()
    assert lowregret(*asked[:2], *asked[4:], "-n", "4").exit_code == 0
    assert (tmp_path / "urn.jsonl").read_bytes().startswith(first)
    refused = lowregret(*asked, "--seed", "1")
    assert refused.exit_code == 2
    assert "played with seed 0" in " ".join(refused.output.replace("│", " ").split())


@pytest.mark.parametrize("name", ["mixture", "guarded", "guarded-maximin", "guarded-urn", "uniform"])
def test_every_player_of_ours_can_be_sent_and_plays(name: str) -> None:
    player = pickle.loads(pickle.dumps(_player(name)))
    match = lr.games.play(lr.rock_paper_scissors(), (player, Fixed([0, 0, 1])), 30, 0)
    assert player.name == name == match.names[0]
    assert (match.certificates[0] is None) == (not name.startswith("guarded"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--player", "deepblue"), "a player is one of mixture, guarded, guarded-maximin"),
        (("--player", "urn", "--player", "urn"), "--player must name different players, got urn twice"),
        (("--player", "urn", "--half", "C"), 'half must be "A" or "B"'),
        (("--player", "urn", "--opponents", "rockbot", "--half", "A"), "--half is of the 43 programs"),
        (("--player", "urn", "--rounds", "999", "--opponents", "rockbot"), "rockbot plays matches of exactly 1000"),
        (("--player", "urn", "--opponents", "uniform", "-n", "3"), "matches must be an even number"),
        (("--player", "urn", "--player", "boom", "--opponents", "uniform", "--rounds", "9", "-n", "2"), "boom plays"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = lowregret(*arguments, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert words in " ".join(done.output.replace("│", " ").split())
    assert not list(tmp_path.rglob("*.jsonl"))  # before anyone has played


def test_without_open_spiel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, "lowregret.games.open_spiel")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lowregret\[games\]'"):
        lr.games.bots()
    done = lowregret("--player", "greenberg", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "pip install 'lowregret[games]'" in done.output


class Copies(pyspiel.Bot):
    """Repeats what the other did, and notes what it was told."""

    def __init__(self, seat: int) -> None:
        pyspiel.Bot.__init__(self)
        self.seat, self.told = seat, []

    def step(self, state: "pyspiel.State") -> int:
        history = state.history()
        return history[-1 - self.seat] if history else 0

    def inform_actions(self, state: "pyspiel.State", actions: list[int]) -> None:
        self.told.append(tuple(actions))

    def provides_policy(self) -> bool:
        return False


@pytest.mark.parametrize("seat", [0, 1])
def test_any_bot_may_play_any_matrix_game(seat: int) -> None:
    made: list[Copies] = []

    def make(game: "pyspiel.Game", where: int, seed: int) -> Copies:
        assert game.num_distinct_actions() == 3
        made.append(Copies(where))
        return made[-1]

    problem = lr.DecisionProblem([[0.5, -1, 0], [0, 0.25, 1], [1, 0, 0]])
    bot, us = SpielPlayer(make, "copies"), Says(lambda own, other: np.eye(3)[len(own) ** 2 % 3], "us")
    match = lr.games.play(problem, (bot, us) if seat == 0 else (us, bot), 9, 0)
    assert match.moves[seat].tolist() == [0, *match.moves[1 - seat][:-1].tolist()]
    assert made[-1].told == list(zip(*(moves.tolist() for moves in match.moves), strict=True))
    with pytest.raises(ValueError, match=r"make must return a pyspiel\.Bot, got 3"):
        lr.games.play(problem, (SpielPlayer(lambda *_: 3), us), 9, 0)
    with pytest.raises(ValueError, match="make must be a function"):
        SpielPlayer(3)  # type: ignore[arg-type]
