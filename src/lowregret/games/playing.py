"""One match: two players at a matrix game, round by round, each seeing both histories."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import frozen
from ..certificates import Certificate
from ..guard import Event
from ..problems import DecisionProblem
from ..regret import external_regret, internal_regret
from .contract import Player, Seat, Sides, sides_of


@dataclass(frozen=True, eq=False)
class Match:
    """What happened in a match of T rounds. Of every pair, the first is seat 0's: the row player.

    Payoffs are of the moves that were drawn; ``expected`` and ``regret`` are of the mixed actions against the other's
    moves, which certificates are about.
    """

    names: tuple[str, str]
    problems: Sides
    moves: tuple[np.ndarray, np.ndarray]  # int [T]
    mixed: tuple[np.ndarray, np.ndarray]  # [T, A]
    payoffs: tuple[np.ndarray, np.ndarray]  # [T], in the units of each problem
    expected: tuple[np.ndarray, np.ndarray]  # [T], of the mixed action against the other's move
    events: tuple[tuple[Event, ...], tuple[Event, ...]]  # of the guards, where there are some
    certificates: tuple[Certificate | None, Certificate | None]
    seconds: tuple[float, float]  # that each took in all

    def __post_init__(self) -> None:
        for pair in (self.moves, self.mixed, self.payoffs, self.expected):
            for array in pair:
                frozen(array)

    @property
    def rounds(self) -> int:
        return len(self.moves[0])

    @property
    def totals(self) -> tuple[float, float]:
        """What each earned in all."""
        return float(self.payoffs[0].sum()), float(self.payoffs[1].sum())

    @property
    def regrets(self) -> tuple[np.ndarray, np.ndarray]:
        """The average external regret of each one's mixed actions after every round, ``[T]``, in utility."""
        first, second = (
            external_regret(problem, self.mixed[i], self.moves[1 - i]) for i, problem in enumerate(self.problems)
        )
        return first, second

    @property
    def regret(self) -> tuple[float, float]:
        """The same at the end of the match."""
        first, second = self.regrets
        return float(first[-1]), float(second[-1])

    @property
    def held(self) -> tuple[bool | None, bool | None]:
        """Whether the certificate was kept: by the regret, and by the payoff where it has one. None: no certificate."""
        first, second = (
            None if promised is None else kept(promised, self._promised(i), self.problems[i], self.expected[i])
            for i, promised in enumerate(self.certificates)
        )
        return first, second

    def _promised(self, i: int) -> float:
        """The regret that a player's certificate speaks of."""
        if not getattr(self.certificates[i], "internal", False):
            return self.regret[i]
        return float(internal_regret(self.problems[i], self.mixed[i], self.moves[1 - i])[-1])

    def __repr__(self) -> str:
        (one, other), (ours, theirs) = self.names, self.totals
        return f"Match({one} {ours:+g}, {other} {theirs:+g} after {self.rounds} rounds)"


def play(
    problem: DecisionProblem | Sequence[DecisionProblem],
    players: Sequence[Player],
    rounds: int,
    seed: int | np.random.Generator,
) -> Match:
    """Let two players meet: each round both state mixed actions, moves are drawn from them, and both see both moves.

    Parameters
    ----------
    problem
        What is at stake for the row player, who sits in seat 0; the column player's payoffs are minus that. Or a pair
        of problems, row and column, of a game that is not zero-sum.
    players
        Two of them. One may see through the other (``lr.games.Nemesis``): it is told the other's mixed action, not the
        move.
    seed
        The same one gives the same match.

    >>> from lowregret import PolyaUrn, rock_paper_scissors
    >>> from lowregret.games import Fixed, Plain
    >>> match = play(rock_paper_scissors(), (Plain(PolyaUrn(3)), Fixed([0.6, 0.2, 0.2], "rocky")), 1000, seed=0)
    >>> match
    Match(PolyaUrn +404, rocky -404 after 1000 rounds)
    >>> match.regret[0] < 0.02
    True
    """
    sides = sides_of(problem)
    rounds = inputs.whole(rounds, "rounds")
    one, other = two(players)
    draws, *own = (np.random.default_rng(s) for s in _entropy(inputs.generator(seed)).spawn(3))
    seats = (one.sit(sides[0], rounds, own[0], 0), other.sit(sides[1], rounds, own[1], 1))
    return _played((one.name, other.name), sides, seats, rounds, draws)


def two(players: Any) -> tuple[Player, Player]:
    """Two players; anything else is refused."""
    if not isinstance(players, (tuple, list)) or len(players) != 2:
        raise ValueError(f"players must be two, the one in seat 0 and the one in seat 1, got {inputs.shown(players)}")
    return a_player(players[0], "players[0]"), a_player(players[1], "players[1]")


def a_player(player: Any, where: str) -> Player:
    """The player itself; anything else is refused, with how to make a player of it."""
    if isinstance(player, type) or not callable(getattr(player, "sit", None)) or not hasattr(player, "name"):
        raise ValueError(
            f"{where} must be a Player, got {inputs.shown(player)}: lr.games.Plain(model) makes one of a predictor, "
            "lr.games.Guarded(model) one with a guard"
        )
    return player


def _entropy(rng: np.random.Generator) -> np.random.SeedSequence:
    return np.random.SeedSequence(rng.integers(2**32, size=4).tolist())


def _played(
    names: tuple[str, str], sides: Sides, seats: tuple[Seat, Seat], rounds: int, draws: np.random.Generator
) -> Match:
    """The rounds themselves."""
    sees = [hasattr(seat, "policy_against") for seat in seats]
    if all(sees):
        raise ValueError(f"players: {names[0]} and {names[1]} both see through the other, one of them must go first")
    order = (1, 0) if sees[0] else (0, 1)  # who sees through the other states his action second
    widths = [side.n_actions for side in sides]
    says = [f"the mixed action of {name}" for name in names]
    mixed = tuple(np.zeros((rounds, width)) for width in widths)
    moves = tuple(np.zeros(rounds, dtype=np.int64) for _ in seats)
    uniforms = draws.random((rounds, 2)).tolist()
    seconds = [0.0, 0.0]
    stated: list[Any] = [None, None]
    for t in range(rounds):
        for i in order:
            began = thread_time()
            said = seats[i].policy_against(stated[1 - i]) if sees[i] else seats[i].policy()  # type: ignore[attr-defined]
            seconds[i] += thread_time() - began
            stated[i] = inputs.probs_of(said, widths[i], says[i], shape=())
            mixed[i][t] = stated[i]
        drawn = [_drawn(stated[i].tolist(), uniforms[t][i]) for i in (0, 1)]
        for i in (0, 1):
            moves[i][t] = drawn[i]
            began = thread_time()
            seats[i].observe(drawn[i], drawn[1 - i])
            seconds[i] += thread_time() - began
    guards = [getattr(seat, "guard", None) for seat in seats]
    payoffs_AxS = [np.asarray(side.in_payoffs(side.utility)) for side in sides]
    return Match(
        names=names,
        problems=sides,
        moves=moves,  # type: ignore[arg-type]
        mixed=mixed,  # type: ignore[arg-type]
        payoffs=tuple(payoffs_AxS[i][moves[i], moves[1 - i]] for i in (0, 1)),  # type: ignore[arg-type]
        expected=tuple((mixed[i] * payoffs_AxS[i][:, moves[1 - i]].T).sum(axis=1) for i in (0, 1)),
        events=tuple(() if guard is None else tuple(guard.events) for guard in guards),  # type: ignore[arg-type]
        certificates=tuple(None if guard is None else guard.certificate for guard in guards),  # type: ignore[arg-type]
        seconds=(seconds[0], seconds[1]),
    )


def kept(promised: Certificate, regret: float, problem: DecisionProblem, expected_T: np.ndarray) -> bool:
    """Whether a match kept the certificate, up to rounding."""
    least = promised.payoff_bound  # in utility, a round
    paid = least is None or float(np.mean(expected_T)) >= problem.in_payoffs(least - 1e-9)
    return paid and regret <= promised.regret_bound + 1e-9


def _drawn(mixed_A: list[float], uniform: float) -> int:
    """A move through the cumulative law; probability 0 is never drawn."""
    left = uniform * sum(mixed_A)
    last = 0
    for action, chance in enumerate(mixed_A):
        if chance > 0:
            last = action
            left -= chance
            if left < 0:
                break
    return last
