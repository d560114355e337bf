"""A person against the machine: sealed moves, rounds that count once, files cut anywhere."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import lowregret as lr
from lowregret.games.page import Sitting
from lowregret.games.page import sitting as seals
from lowregret.games.page.opponent import GAMES, guard_for, model, promised
from lowregret.games.page.server import application

HERE = "http://127.0.0.1:8000"
RPS = "rock-paper-scissors"
MOVES = {"rock-paper-scissors": ("rock", "paper", "scissors"), "matching-pennies": ("heads", "tails")}


@pytest.fixture
def sitting(tmp_path: Path) -> Iterator[Sitting]:
    with Sitting(tmp_path / "rounds.jsonl", RPS, rounds=12) as made:
        yield made


@pytest.fixture
def browser(sitting: Sitting) -> TestClient:
    return TestClient(application(sitting), base_url=HERE, headers={"origin": HERE})


def lines(path: Path) -> list[dict[str, Any]]:
    """The file as anyone reads it: JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()][1:]


def by_the_book(path: Path, plays: str, rounds: int) -> tuple[lr.Guard, list[list[float]], list[int], list[int]]:
    """A model and a guard led through what the file says, in a loop: its guard, mixed actions, both sides' moves."""
    problem, moves = GAMES[plays].problem, MOVES[plays]
    reader, guard = model().begin(problem), guard_for(problem, rounds)
    mixed_TxA, own_T, other_T = [], [], []
    for line in lines(path):
        if "seal" in line:
            said = json.loads(line["text"])
            guard.advise(reader.predict())
            mixed_TxA.append(guard.policy().tolist())
            assert said["mixed"] == mixed_TxA[-1]  # to the last bit
            own = moves.index(said["move"])
        elif "round" in line:
            other = moves.index(line["move"])
            guard.observe(lr.problems.Positions(other), action=own)
            reader.observe(own, other)
            own_T.append(own)
            other_T.append(other)
    return guard, mixed_TxA[: len(other_T)], own_T, other_T


@pytest.mark.parametrize("plays", MOVES)
def test_what_is_shown_is_what_the_file_says(plays: str, tmp_path: Path) -> None:
    """Regret by its definition, scores by adding up, and the guard's own state, from the file alone."""
    path, rng = tmp_path / "rounds.jsonl", np.random.default_rng(1)
    with Sitting(path, plays, rounds=60) as sitting:
        for number in range(1, 61):
            sitting.move(sitting.game, number, str(rng.choice(MOVES[plays])))
        shown = sitting.state()["played"]
        assert sitting.over
        kept = sitting.guard.state_dict()
    guard, mixed_TxA, own_T, other_T = by_the_book(path, plays, 60)
    assert guard.state_dict() == kept
    problem = GAMES[plays].problem
    regret_T = lr.external_regret(problem, np.array(mixed_TxA), np.array(other_T))
    np.testing.assert_allclose([one["regret"] for one in shown], regret_T, atol=1e-12)
    np.testing.assert_allclose([one["behind"] for one in shown], regret_T * np.arange(1, 61), atol=1e-11)
    points = [-problem.utility[a, s] for a, s in zip(own_T, other_T, strict=True)]
    assert [one["score"] for one in shown] == np.cumsum(points).tolist()
    for s in range(problem.n_states):
        assert [one["fixed"][s] for one in shown] == np.cumsum([-problem.utility[a, s] for a in own_T]).tolist()
    assert (shown[-1]["evidence"], shown[-1]["threshold"]) == tuple(map(float, guard.conditions["evidence"]))


def test_cut_at_any_byte_it_goes_on_from_every_whole_round(tmp_path: Path) -> None:
    """As a kill leaves it; played on to the end, the guard is what it is when nothing was cut."""
    path, cut, plays, moves = tmp_path / "rounds.jsonl", tmp_path / "cut.jsonl", "matching-pennies", ["heads", "tails"]
    with Sitting(path, plays, rounds=4) as sitting:
        game = sitting.game
        for number, move in enumerate(moves, 1):
            sitting.move(game, number, move)
        sealed = sitting.state()["sealed"]
    data = path.read_bytes()
    ends = np.cumsum([len(line) for line in data.splitlines(keepends=True)])
    near = {int(end) + k for end in ends for k in (-2, -1, 0, 1)}  # the ends of lines, and bytes all over
    for n in sorted({0, *near, *range(0, len(data), 23)} & set(range(len(data) + 1))):
        cut.write_bytes(data[:n])
        whole = int(np.sum(ends <= n + 1))  # a line is whole without its end
        with Sitting(cut, plays, rounds=4) as again:
            assert (again.game == game) == (whole > 1), n
            assert again.number == sum("round" in line for line in lines(path)[: max(0, whole - 1)]), n
            if n == len(data):
                assert again.state()["sealed"] == sealed  # the same move under the same seal
            for number in range(again.number + 1, 3):
                again.move(again.game, number, moves[number - 1])
            kept = again.guard.state_dict()
        assert by_the_book(cut, plays, 4)[0].state_dict() == kept, n


def test_a_move_is_sealed_before_yours_and_opened_after_it(browser: TestClient, sitting: Sitting) -> None:
    state = browser.get("/state").json()
    for _ in range(12):
        last = [line for line in lines(sitting._journal.path) if "seal" in line][-1]  # on the disk before it is shown
        assert state["sealed"] == hashlib.sha256(last["text"].encode()).hexdigest()
        nonce = json.loads(last["text"])["nonce"]
        assert len(nonce) == 32
        assert nonce not in json.dumps(state)
        sealed, said = state["sealed"], {"game": state["game"], "round": state["round"], "move": "paper"}
        state = browser.post("/move", json=said).json()
        opened = state["played"][-1]
        assert hashlib.sha256(opened["opened"].encode()).hexdigest() == sealed
        told = json.loads(opened["opened"])
        assert (told["game"], told["round"], told["move"]) == (state["game"], said["round"], opened["own"])
    assert state["over"]
    assert state["sealed"] is None


def test_moves_are_drawn_from_the_mixed_action(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(seals._DICE, SystemRandom)  # nobody who saw its numbers can tell the next
    mixed_A = np.array([0.2, 0.0, 0.8])
    for uniform, own in {0.0: 0, 0.19: 0, 0.21: 2, 0.999: 2}.items():
        with monkeypatch.context() as patched:
            patched.setattr(seals._DICE, "random", lambda uniform=uniform: uniform)
            seal = seals.sealed(GAMES[RPS].problem, "one", 7, mixed_A)
        assert seal.own == own
        assert json.loads(seal.text)["move"] == MOVES[RPS][own]


def test_a_round_counts_once(browser: TestClient, sitting: Sitting) -> None:
    """A second click, another tab, an answer that was lost: what is late is told how things stand."""
    first = {"game": sitting.game, "round": 1, "move": "rock"}
    assert browser.post("/move", json=first).json()["stale"] is False
    before = sitting.guard.state_dict()
    for late in (first, {**first, "move": "paper"}, {**first, "round": 3}, {**first, "game": "another", "round": 2}):
        answer = browser.post("/move", json=late)
        assert (answer.status_code, answer.json()["stale"], answer.json()["round"]) == (200, True, 2)
    assert [one["other"] for one in browser.post("/move", json=first).json()["played"]] == ["rock"]
    for late in ({"round": 1}, {"game": "another"}, {"what": "episode"}):  # an episode ends when it is over
        asked = {"game": sitting.game, "round": 2, "what": "game"} | late
        assert browser.post("/new", json=asked).json()["stale"] is True
    assert (sitting.number, sitting.guard.state_dict()) == (1, before)


def test_what_comes_after_the_last_round(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    with Sitting(path, RPS, rounds=3) as sitting:
        game = sitting.game
        for number in (1, 2, 3):
            sitting.move(game, number, "rock")
        assert sitting.move(game, 4, "rock")["stale"] is True
        score = sitting.played[-1]["score"]
        assert sitting.anew(game, 4, "episode")["stale"] is False
        assert sitting.anew(game, 4, "episode")["stale"] is True  # a second click
        state = sitting.move(game, 4, "rock")
        assert (state["first"], state["round"], state["episode"], len(state["played"])) == (4, 5, 2, 1)
        assert sitting.guard.certificate.episodes == 2
        kept, whole = sitting.guard.state_dict(), sitting.state()
    with Sitting(path, RPS, rounds=99) as sitting:  # a game keeps its length
        assert sitting.guard.state_dict() == kept
        assert sitting.state() == whole
        assert sitting.anew(game, 5, "game")["stale"] is False
        assert sitting.anew(game, 5, "game")["stale"] is True
        assert (sitting.rounds, sitting.number, len(sitting.before)) == (99, 0, 2)
        assert sitting.before[0] == {"rounds": 3, "score": score, "best": sitting.before[0]["best"]}
        before, second = sitting.before, sitting.game
    with Sitting(path, RPS) as sitting:
        assert (sitting.before, sitting.game) == (before, second)
    with Sitting(path, RPS, anew=True) as sitting:
        assert (sitting.before, sitting.game != second) == (before, True)


def test_the_switch_is_shown_and_the_certificate_holds(tmp_path: Path) -> None:
    """Who knows the mixed action makes the machine lose, until the guard stops it."""
    with Sitting(tmp_path / "rounds.jsonl", "matching-pennies", rounds=300) as sitting:
        while not (sitting.over or any(one["event"] for one in sitting.played)):
            assert sitting.pending is not None
            move = MOVES["matching-pennies"][int(np.argmin(sitting.pending.mixed_A))]
            sitting.move(sitting.game, sitting.number + 1, move)
        state = sitting.state()
        last = state["played"][-1]
        assert last["event"]["kind"] == "switch"
        assert last["event"]["says"] == str(sitting.guard.events[0])
        assert last["evidence"] >= last["threshold"] == state["threshold"]
        limits = dict(map(tuple, state["certificate"]["behind"]))
        assert limits[300] == pytest.approx(300 * sitting.guard.certificate.regret_bound)
        assert all(one["behind"] <= limits.get(one["round"], np.inf) for one in state["played"])


@pytest.mark.parametrize("rounds", [2, 77, 2000])
def test_the_certificate_shown_is_no_less_than_the_guard_s(rounds: int) -> None:
    """Between two numbers of rounds the page says the later one's, and draws a line that is no pixel below it."""
    shown = promised("rock-paper-scissors", rounds)["behind"]
    certificate = lr.ExactTest(lr.rock_paper_scissors(), rounds).certificate
    for t in sorted({*range(1, min(rounds, 90), 7), *range(90, rounds, 211), rounds}):
        exact = t * certificate.at(t).regret_bound
        assert exact <= next(behind for at, behind in shown if at >= t) + 1e-9
        assert exact <= np.interp(t, *np.transpose(shown)) * 1.01


def test_files_that_are_not_of_this_game_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    with pytest.raises(ValueError, match=r'game must be "rock-paper-scissors" or "matching-pennies", got \'chess\''):
        Sitting(path, "chess")
    with pytest.raises(ValueError, match="rounds"):
        Sitting(path, RPS, 1)
    assert not path.exists()
    lr.EventLog(path).close()
    with pytest.raises(ValueError, match="path must be a record of games"):
        Sitting(path)
    path.unlink()
    with Sitting(path) as sitting:
        sitting.move(sitting.game, 1, "rock")
        with pytest.raises(ValueError, match="process"):
            Sitting(path)
    kept = path.read_bytes()
    with pytest.raises(ValueError, match="is a record of rock-paper-scissors, and the game is matching-pennies"):
        Sitting(path, "matching-pennies")
    with pytest.raises(ValueError, match="rock-paper-scissors"):
        Sitting(path, "matching-pennies", anew=True)
    with pytest.MonkeyPatch.context() as patched:  # another version of the predictor
        patched.setattr("lowregret.games.page.sitting.model", lambda: Other())
        with pytest.raises(ValueError, match=r"would not play round 1 as it did.*--new begins a new game"):
            Sitting(path)
    assert path.read_bytes() == kept


class Other:
    """A predictor that is sure."""

    def begin(self, problem: lr.DecisionProblem) -> Any:
        return self

    def predict(self) -> np.ndarray:
        return np.array([0.9, 0.05, 0.05])

    def observe(self, own: int, other: int) -> None:
        pass
