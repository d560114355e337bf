"""Players from OpenSpiel: the 43 rock-paper-scissors programs of its tournament, and any other ``pyspiel.Bot``."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, rock_paper_scissors
from .contract import Player, Seat, opposite
from .players import named

try:
    import pyspiel
except ModuleNotFoundError as error:
    wants = f"OpenSpiel's players need {error.name}: pip install 'lowregret[games]'"
    raise ModuleNotFoundError(wants, name=error.name) from error

THROWS = 1000  # the programs keep tables of this length: they play exactly this many throws


def bots(half: str | None = None) -> tuple["OpenSpielBot", ...]:
    """The 43 tournament programs, in the order of their names.

    Parameters
    ----------
    half
        "A": the first, the third, and so on, to tune a player on; "B": the others, to test it on.

    >>> len(bots()), len(bots("A")), len(bots("B")), bots("A")[7].name
    (43, 22, 21, 'greenberg')
    """
    names = sorted(pyspiel.roshambo_bot_names())
    if half is not None:
        names = names["AB".index(inputs.choice(half, "half", ("A", "B"))) :: 2]
    return tuple(OpenSpielBot(name) for name in names)


@dataclass(frozen=True)
class OpenSpielBot(Player):
    """One of the tournament programs, by its name; it plays rock-paper-scissors, 1,000 throws.

    Its draws come from the C library. Each match seeds a generator of its own there, so a match is the same again
    with the same seed, whatever else is played in between.

    >>> from lowregret import rock_paper_scissors
    >>> from lowregret.games import play
    >>> play(rock_paper_scissors(), (OpenSpielBot("copybot"), OpenSpielBot("rotatebot")), 1000, seed=0)
    Match(copybot +1, rotatebot -1 after 1000 rounds)
    """

    name: str

    def __post_init__(self) -> None:
        known = pyspiel.roshambo_bot_names()
        if self.name not in known:
            raise ValueError(f"name must be one of {', '.join(sorted(known))}, got {inputs.shown(self.name)}")

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        if not np.array_equal(problem.utility, rock_paper_scissors().utility):
            raise ValueError(f"problem: {self.name} plays rock_paper_scissors() and nothing else, got {problem}")
        if rounds != THROWS:
            raise ValueError(f"rounds: {self.name} plays matches of exactly {THROWS} throws, got {rounds}")
        game = pyspiel.load_game("matrix_rps")
        draws = _CRandom(int(rng.integers(2**32)))
        with draws:
            bot = pyspiel.make_roshambo_bot(seat, self.name)
        return _BotSeat(bot, _repeated(game, rounds), seat, 3, draws)


@dataclass(frozen=True)
class SpielPlayer(Player):
    """Any ``pyspiel.Bot`` for repeated matrix games.

    Parameters
    ----------
    make
        ``make(game, seat, seed)``: a new bot for one match; ``game`` is OpenSpiel's ``repeated_game`` of the problem.

    A bot that can state its policy (``provides_policy``) is played by that; of another only the action it takes is
    known.

    >>> import pyspiel
    >>> from lowregret import matching
    >>> from lowregret.games import play
    >>> from lowregret.games import Fixed
    >>> monkey = SpielPlayer(lambda game, seat, seed: pyspiel.make_uniform_random_bot(seat, seed), "monkey")
    >>> match = play(matching(), (monkey, Fixed([0.5, 0.5])), rounds=10, seed=0)
    >>> match.mixed[0][0].tolist()
    [0.5, 0.5]
    """

    make: Callable[[Any, int, int], Any]
    name: str = "OpenSpiel"

    def __post_init__(self) -> None:
        inputs.function(self.make, "make", "a game, a seat and a seed")
        named(self.name, "OpenSpiel")

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        game = _repeated(_stage(problem, seat), rounds)
        seed = int(rng.integers(2**31))
        draws = _CRandom(seed)
        with draws:
            bot = self.make(game, seat, seed)
        if not isinstance(bot, pyspiel.Bot):
            raise ValueError(f"make must return a pyspiel.Bot, got {inputs.shown(bot)}")
        return _BotSeat(bot, game, seat, problem.n_actions, draws)


class _BotSeat(Seat):
    """A bot beside the state of a repeated game that it reads."""

    def __init__(self, bot: Any, game: Any, seat: int, n_actions: int, draws: "_CRandom") -> None:
        self.bot, self.seat, self.draws = bot, seat, draws
        self.state = game.new_initial_state()
        self.pure_AxA = np.eye(n_actions)
        self.tells = bool(bot.provides_policy())
        self.mixed_A: np.ndarray | None = None

    def policy(self) -> np.ndarray:
        if self.mixed_A is None:
            with self.draws:
                if self.tells:
                    self.mixed_A = np.zeros(len(self.pure_AxA))
                    for action, chance in self.bot.get_policy(self.state):
                        self.mixed_A[action] = chance
                else:
                    self.mixed_A = self.pure_AxA[self.bot.step(self.state)]
        return self.mixed_A

    def observe(self, own: int, other: int) -> None:
        both = [own, other] if self.seat == 0 else [other, own]
        self.bot.inform_actions(self.state, both)
        self.state.apply_actions(both)
        self.mixed_A = None


class _CRandom:
    """A generator of ``random()`` of the C library, in use within ``with``; other code is not disturbed."""

    def __init__(self, seed: int) -> None:
        # 128 bytes: the generator that the library has by default.
        self.room = ctypes.create_string_buffer(128)
        with _ONE_AT_A_TIME:
            before = _C.initstate(ctypes.c_uint(seed % 2**32), self.room, ctypes.c_size_t(128))
            _C.setstate(before)

    def __enter__(self) -> None:
        _ONE_AT_A_TIME.acquire()
        self.before = _C.setstate(self.room)

    def __exit__(self, *_: object) -> None:
        _C.setstate(self.before)
        _ONE_AT_A_TIME.release()


_ONE_AT_A_TIME = RLock()
_C = ctypes.CDLL(None)
_C.initstate.restype = _C.setstate.restype = ctypes.c_void_p
_C.setstate.argtypes = [ctypes.c_void_p]


def _repeated(stage: Any, rounds: int) -> Any:
    return pyspiel.create_repeated_game(stage, {"num_repetitions": rounds})


def _stage(problem: DecisionProblem, seat: int) -> Any:
    """The problem as OpenSpiel's matrix game; the other side's payoffs are not known here, zero-sum ones stand in."""
    row, column = (problem, opposite(problem)) if seat == 0 else (opposite(problem), problem)
    own_AxS, others_AxS = row.in_payoffs(row.utility), column.in_payoffs(column.utility).T
    return pyspiel.create_matrix_game("problem", "problem", list(row.actions), list(row.states), own_AxS, others_AxS)
