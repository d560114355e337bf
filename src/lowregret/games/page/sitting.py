"""A person against the machine: rounds are sealed, played and recorded, and can be played again from the file."""

import datetime
import hashlib
import json
import secrets
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple

import numpy as np

from ... import inputs
from ...files import Journal, lines_in
from ...guard import Event
from ...predictors import draw
from ...problems import DecisionProblem, Positions
from .opponent import GAMES, guard_for, model, promised

# Commit and reveal: the machine seals its move before yours is sent, and opens the seal after it.


_DICE = SystemRandom()  # the moves so far do not give the next one away


class Seal(NamedTuple):
    """What the machine has decided for a round: a text, shown after the move, and its digest, shown before."""

    text: str
    mixed_A: np.ndarray
    own: int

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def sealed(problem: DecisionProblem, game: str, number: int, mixed_A: np.ndarray) -> Seal:
    """A move drawn from the mixed action, and both in one text; the nonce keeps the text from being guessed.

    >>> from lowregret import rock_paper_scissors
    >>> seal = sealed(rock_paper_scissors(), "one", 1, np.array([0.0, 1.0, 0.0]))
    >>> opened(rock_paper_scissors(), "one", 1, seal.text).own == seal.own == 1
    True
    """
    own = int(draw(mixed_A, np.asarray(_DICE.random())))
    said = {
        "game": game,
        "round": number,
        "move": problem.actions[own],
        "mixed": mixed_A.tolist(),
        "nonce": secrets.token_hex(16),
    }
    return Seal(json.dumps(said, separators=(",", ":")), mixed_A, own)


def opened(problem: DecisionProblem, game: str, number: int, text: str) -> Seal:
    """The seal with this text, which must be for this round."""
    said = json.loads(text)
    if (said["game"], said["round"]) != (game, number):
        raise ValueError(f"a seal of game {said['game']}, round {said['round']} stands in game {game}, round {number}")
    return Seal(text, np.array(said["mixed"], dtype=np.float64), problem.actions.index(said["move"]))


# How the games before went, from their lines alone.


def yours_of(problem: DecisionProblem, own: int) -> list[int]:
    """What each of your moves earns you against the machine's: its loss, in points."""
    return [-round(float(utility)) for utility in problem.utility[own]]


def results_in(problem: DecisionProblem, lines: list[dict[str, Any]]) -> list[dict[str, int]]:
    """For each episode that was played: how many rounds, your score, and that of your best fixed move.

    >>> from lowregret import rock_paper_scissors
    >>> seal = {"seal": 1, "text": '{"move":"rock"}'}
    >>> results_in(rock_paper_scissors(), [{"game": "one"}, seal, {"round": 1, "move": "scissors"}])
    [{'rounds': 1, 'score': -1, 'best': 1}]
    """
    found, own = [], 0
    for line in lines:
        if "game" in line or "episode" in line:
            found.append((0, 0, [0] * problem.n_states))
        elif "seal" in line:
            own = problem.actions.index(json.loads(line["text"])["move"])
        elif "round" in line:
            rounds, score, fixed_S = found[-1]
            yours_S = yours_of(problem, own)
            more = yours_S[problem.states.index(line["move"])]
            found[-1] = (rounds + 1, score + more, [a + b for a, b in zip(fixed_S, yours_S, strict=True)])
    return [{"rounds": rounds, "score": score, "best": max(fixed_S)} for rounds, score, fixed_S in found if rounds]


ROUNDS = 300  # of an episode: about what a person will play
_FILE = "play", "a record of games"


class Sitting:
    """The games of one person, kept in one file: opening it again continues where it ends.

    A round is two lines: the seal of the machine's move, which is on the disk before its digest is shown, and your
    move, which is on the disk before it counts. So a crash at any byte loses no round that was answered, and shows no
    second seal for one round.

    Parameters
    ----------
    path
        The file; one that is not there yet begins with a new game.
    plays
        The name of the game.
    rounds
        How many an episode of a new game has. A game that the file has already begun keeps its own.
    anew
        Begin a new game, whatever the file says of the last one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Sitting(Path(folder) / "rounds.jsonl") as sitting:
    ...     answer = sitting.move(sitting.game, 1, "rock")
    ...     answer["round"], len(answer["played"]), answer["stale"]
    (2, 1, False)
    """

    def __init__(
        self, path: Path, plays: str = "rock-paper-scissors", rounds: int = ROUNDS, *, anew: bool = False
    ) -> None:
        inputs.choice(plays, "game", tuple(GAMES))
        self.new_rounds = inputs.whole(rounds, "rounds", least=2, most=10_000)
        self.plays, self.problem = plays, GAMES[plays].problem
        self._journal = Journal(path, *_FILE)
        try:
            lines = lines_in(path, *_FILE)
            begun = [at for at, line in enumerate(lines) if "game" in line]
            for at in begun:
                if lines[at]["plays"] != plays:
                    raise ValueError(f"{path} is a record of {lines[at]['plays']}, and the game is {plays}")
            last = begun[-1] if begun and not anew else len(lines)
            self.before = results_in(self.problem, lines[:last])
            if lines[last:]:
                self._again(path, lines[last:])
            else:
                self._new_game()
            self._seal()
        except BaseException:
            self._journal.close()
            raise

    # What the page asks for

    def state(self, since: int = 0) -> dict[str, Any]:
        """All that the page shows, of the sealed move only the digest; ``since``: rounds from this one on."""
        self._seal()
        game = GAMES[self.plays]
        first = self.number - len(self.played)  # rounds of the episodes before
        return {
            "title": game.title,
            "rule": game.rule,
            "moves": list(self.problem.states),
            "game": self.game,
            "episode": self.episode,
            "rounds": self.rounds,
            "first": first + 1,
            "round": self.number + 1,
            "sealed": None if self.pending is None else self.pending.digest,
            "over": self.over,
            "threshold": inputs.finite_or_none(float(self.guard.conditions["evidence"][1])),
            "certificate": self.promised,
            "before": self.before[-12:],
            "played": self.played[max(0, since - 1 - first) :],
        }

    def move(self, game: str, number: int, move: str) -> dict[str, Any]:
        """Play this round; one that is not due (a second click, another tab) changes nothing and gets the state."""
        other = self.problem.states.index(inputs.choice(move, "move", self.problem.states))
        self._seal()
        fresh = (game, number) == (self.game, self.number + 1) and not self.over
        if fresh:
            self._journal.append([{"round": number, "move": move}])
            self._moved(other)
        return {**self.state(number if game == self.game else 0), "stale": not fresh}

    def anew(self, game: str, number: int, what: str) -> dict[str, Any]:
        """A new "game", in which the machine knows nothing of you, or once one is over an "episode", where it does."""
        inputs.choice(what, "what", ("game", "episode"))
        fresh = (game, number) == (self.game, self.number + 1) and (what == "game" or self.over)
        if fresh and what == "episode":
            self._journal.append([{"episode": self.episode + 1}])
            self._new_episode()
        elif fresh:
            ended = [_summary(self.played)] if self.played else []
            self._new_game()
            self.before += ended
        return {**self.state(), "stale": not fresh}

    @property
    def over(self) -> bool:
        return len(self.played) == self.rounds

    def close(self) -> None:
        """Let go of the file."""
        self._journal.close()

    def __enter__(self) -> "Sitting":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What happens

    def _new_game(self) -> None:
        line = {
            "game": secrets.token_hex(8),
            "plays": self.plays,
            "rounds": self.new_rounds,
            "model": type(model()).__name__,
            "began": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        self._journal.append([line])
        self._begin(line)

    def _begin(self, line: dict[str, Any]) -> None:
        self.game, self.rounds, self.number, self.episode = line["game"], line["rounds"], 0, 1
        self.played: list[dict[str, Any]] = []  # of this episode
        self.pending: Seal | None = None
        player = model()
        self.reader, self.guard = player.begin(self.problem), guard_for(self.problem, self.rounds)
        self.promised = promised(self.plays, self.rounds)

    def _new_episode(self) -> None:
        self.guard.restart()
        self.before.append(_summary(self.played))
        self.episode, self.played = self.episode + 1, []

    def _advised(self) -> np.ndarray:
        self.law_S = self.reader.predict()
        self.guard.advise(self.law_S)
        return np.asarray(self.guard.policy())

    def _seal(self) -> None:
        """Decide on the next move and write it down, unless that is done or the episode is over."""
        if self.pending is None and not self.over:
            seal = sealed(self.problem, self.game, self.number + 1, self._advised())
            self._journal.append([{"seal": self.number + 1, "text": seal.text}])
            self.pending = seal

    def _moved(self, other: int) -> None:
        seal, told = self.pending, len(self.guard.events)
        assert seal is not None
        foreseen = float(self.law_S[other])
        self.guard.observe(Positions(other), action=seal.own)
        self.reader.observe(seal.own, other)
        self.pending, self.number = None, self.number + 1
        last: dict[str, Any] = self.played[-1] if self.played else {"score": 0, "fixed": [0] * self.problem.n_states}
        yours_S = yours_of(self.problem, seal.own)
        statistic, threshold = self.guard.conditions["evidence"]
        regret = float(self.guard.regret)
        events = self.guard.events[told:]
        self.played.append(
            {
                "round": self.number,
                "own": self.problem.actions[seal.own],
                "other": self.problem.states[other],
                "opened": seal.text,
                "foreseen": foreseen,
                "points": yours_S[other],
                "score": last["score"] + yours_S[other],
                "fixed": [sum(pair) for pair in zip(last["fixed"], yours_S, strict=True)],
                "regret": regret,
                "behind": regret * (len(self.played) + 1),
                "evidence": inputs.finite_or_none(float(statistic)),
                "threshold": inputs.finite_or_none(float(threshold)),
                "share": float(self.guard.share),
                "event": next((_kind(event) for event in events), None),
            }
        )

    def _again(self, path: Path, lines: list[dict[str, Any]]) -> None:
        """Play a game again from its lines."""
        self._begin(lines[0])
        for line in lines[1:]:
            if "seal" in line:
                mixed_A = self._advised()
                self.pending = opened(self.problem, self.game, self.number + 1, line["text"])
                if np.abs(mixed_A - self.pending.mixed_A).max() > 1e-9:
                    raise ValueError(
                        f"{path}: the machine would not play round {self.number + 1} as it did: it was "
                        "played with another model or version. --new begins a new game, and leaves this one in the file"
                    )
            elif "round" in line:
                self._moved(self.problem.states.index(line["move"]))
            elif "episode" in line:
                self._new_episode()


def _summary(played: list[dict[str, Any]]) -> dict[str, Any]:
    return {"rounds": len(played), "score": played[-1]["score"], "best": max(played[-1]["fixed"])}


def _kind(event: Event) -> dict[str, Any]:
    return {"kind": type(event).__name__.lower(), "says": str(event)}
