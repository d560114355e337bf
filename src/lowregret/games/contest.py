"""One player against many: matches in both seats, over several processes, resumed where they were stopped."""

import pickle
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from .. import files, inputs
from ..files import Journal, lines_in
from ..guard import Return, Switch
from ..problems import DecisionProblem, rock_paper_scissors
from .contract import Player, Sides, sides_of
from .playing import Match, a_player, play
from .scores import Arena, MatchScore

# Finished matches on the disk: an append-only file from which a stopped run continues.


_KIND = ("arena", "a record of matches")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

Key = tuple[str, int, int]  # opponent, seat, match


class Finished(NamedTuple):
    """A match with a checksum of its mixed actions, to see whether playing it again gives the same."""

    played: MatchScore
    said: tuple[float, float]  # one number for the mixed actions of each seat


class Record:
    """The matches of an arena at ``path``, or in memory alone where there is none.

    Parameters
    ----------
    settings
        What a match depends on, beside its opponent, seat and number: a file with other settings is refused.
    opponents
        What tells each from another of the same name.
    """

    def __init__(self, path: str | Path | None, settings: dict[str, Any], opponents: dict[str, str]) -> None:
        self.found: dict[Key, MatchScore] = {}
        self.said: dict[Key, list[float]] = {}  # of those on the disk, where it was kept
        self._opponents = opponents
        self._journal = None if path is None else Journal(path, *_KIND)
        if self._journal is None:
            return
        try:
            lines = lines_in(self._journal.path, *_KIND)
            if lines:
                self._read(settings, lines)
            else:
                self._journal.append([settings])
        except BaseException:
            self.close()
            raise

    def add(self, finished: Finished) -> None:
        """Keep one more match."""
        played, said = finished
        self.found[played[:3]] = played
        if self._journal is not None:
            who = self._opponents[played.opponent]
            self._journal.append([{**played._asdict(), "who": who, "said": list(said)}])

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _read(self, settings: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        assert self._journal is not None
        before, *matches = lines
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"path: the matches of {self._journal.path} were played with {name} {before.get(name)}, "
                    f"these have {value}: take another path, or the same {name}"
                )
        for line in matches:
            who, said = line.pop("who"), line.pop("said", None)
            played = MatchScore(**line)
            now = self._opponents.get(played.opponent, who)
            if now != who:
                raise ValueError(
                    f"path: in {self._journal.path} the opponent {played.opponent} was {who}, now it is {now}: "
                    "take another path, or another name"
                )
            self.found[played[:3]] = played
            if said is not None:
                self.said[played[:3]] = said


def described(player: Any) -> str:
    """What tells a player from another of the same name: its settings as they print."""
    return f"{player.name}: {_ADDRESS.sub('', repr(player))}"


class _Seating(NamedTuple):
    """All that a match depends on but for who sits where and its number."""

    player: Player
    opponents: dict[str, Player]
    problem: Sides
    rounds: int
    seed: int

    def played(self, key: Key) -> Finished:
        """One match: the same in any process and at any time."""
        opponent, seat, number = key
        ours, theirs = self.player, self.opponents[opponent]
        name = list(opponent.encode())
        seeds = np.random.SeedSequence([self.seed, seat, number, len(name), *name])
        players = (ours, theirs) if seat == 0 else (theirs, ours)
        match = play(self.problem, players, self.rounds, np.random.default_rng(seeds))
        certificate, events = match.certificates[seat], match.events[seat]
        returns, alarms = (sum(isinstance(event, kind) for event in events) for kind in (Return, Switch))
        found = MatchScore(
            *key,
            payoff=match.totals[seat],
            theirs=match.totals[1 - seat],
            expected=float(match.expected[seat].sum()),
            regret=match.regret[seat],
            bound=None if certificate is None else float(certificate.regret_bound),
            held=match.held[seat],
            alarms=alarms,
            returns=returns,
            ms=1000 * match.seconds[seat] / self.rounds,
        )
        return Finished(found, _stated(match))


def arena(
    player: Player,
    opponents: Sequence[Player] | Mapping[str, Player],
    rounds: int,
    matches: int,
    seed: int | np.random.Generator,
    *,
    problem: DecisionProblem | Sequence[DecisionProblem] | None = None,
    path: str | Path | None = None,
    jobs: int = 1,
    progress: Callable[[float, str], None] | None = None,
) -> Arena:
    """Play matches against each opponent, half of them in each seat.

    A match depends on ``seed``, the opponent's name, the seat and its number, and on nothing else: more opponents, more
    matches or more processes change none of those that were there.

    Parameters
    ----------
    opponents
        Players with different names, or a dict by name.
    matches
        How many with each opponent; an even number, for there are as many in seat 0 as in seat 1.
    problem
        As ``play`` takes it; rock-paper-scissors by default. The row player is the one in seat 0.
    path
        A file for the matches that are finished (lines of JSON). A stopped run continues from there, to the same
        numbers; one with other settings is refused. So is one that has changed in ways that its settings do not show
        (another version, a function with another body): the first match with each opponent in either seat is played
        again, and must be the same.
    jobs
        How many processes to use. With more than one, players must be picklable, and a script needs the usual ``if
        __name__ == "__main__":``.
    progress
        Called after each match with the share of matches done and the opponent's name.

    >>> from lowregret import PolyaUrn
    >>> from lowregret.games import Fixed, Plain
    >>> biased = [Fixed([0.6, 0.2, 0.2], "rocky"), Fixed([0.2, 0.2, 0.6], "scissory"), Fixed([1 / 3] * 3, "even")]
    >>> print(arena(Plain(PolyaUrn(3), name="urn"), biased, rounds=200, matches=20, seed=0).table())
    urn: payoff of a match of 200 rounds ± standard error, 20 matches per opponent
    opponent            payoff  seat 0  seat 1  alarms
    scissory      +78.20 ±2.65   +80.9   +75.5       0
    rocky         +76.00 ±3.15   +74.7   +77.3       0
    even           +2.90 ±2.44    +0.2    +5.6       0
    population    +52.37 ±1.60   +51.9   +52.8       0
    worst          +2.90 ±2.44    +0.2    +5.6
    worst, split   +2.90 ±2.47
    aggregate     +55.27 ±3.53
    """
    player = a_player(player, "player")
    table = _Seating(
        player=player,
        opponents=_named(opponents),
        problem=sides_of(rock_paper_scissors() if problem is None else problem),
        rounds=inputs.whole(rounds, "rounds"),
        seed=_whole_seed(seed),
    )
    matches, jobs = inputs.whole(matches, "matches", least=2), inputs.whole(jobs, "jobs")
    if matches % 2:
        raise ValueError(f"matches must be an even number, half of them in each seat, got {matches}")
    if progress is not None:
        inputs.function(progress, "progress", "a share and a name")
    _try_seats(table)
    settings = {
        "player": described(player),
        "rounds": table.rounds,
        "seed": table.seed,
        "problem": [_stakes(side) for side in table.problem],
    }
    keys = [(name, seat, number) for name in table.opponents for number in range(matches // 2) for seat in (0, 1)]
    with Record(path, settings, {name: described(who) for name, who in table.opponents.items()}) as record:
        missing = [key for key in keys if key not in record.found]
        _check_kept(table, record, [key for key in keys if key in record.found], jobs, path)
        done = len(keys) - len(missing)
        for finished in _by(jobs, table, missing):
            record.add(finished)
            done += 1
            if progress is not None:
                progress(done / len(keys), finished.played.opponent)
        return Arena(player.name, table.rounds, matches, table.seed, tuple(record.found[key] for key in keys))


def _check_kept(table: _Seating, record: Record, kept: list[Key], jobs: int, path: str | Path | None) -> None:
    """Refuse kept matches that would be played differently now: the first with each opponent in each seat is tried."""
    first = {key[:2]: key for key in reversed(kept)}
    for now, said_now in _by(jobs, table, [*reversed(first.values())]):
        was, said = record.found[now[:3]], record.said.get(now[:3])
        numbers = [(now.expected, was.expected), *(zip(said_now, said, strict=True) if said else [])]
        if now.payoff != was.payoff or any(abs(n - w) > 1e-6 * max(1.0, abs(w)) for n, w in numbers):
            raise ValueError(
                f"path: in {path} match {was.match} with {was.opponent} in seat {was.seat} earned {was.payoff:+g} "
                f"({was.expected:+.6f} expected), and now earns {now.payoff:+g} ({now.expected:+.6f}) or is "
                "played differently: a player or the program has changed, so take another path"
            )


def _stated(match: Match) -> tuple[float, float]:
    """A checksum of the mixed actions of each seat: it changes with any of them, even if no move does."""
    weights = np.random.default_rng(0)
    first, second = (float((mixed_TxA * weights.random(mixed_TxA.shape)).sum()) for mixed_TxA in match.mixed)
    return first, second


def _by(jobs: int, table: _Seating, keys: list[Key]) -> Iterator[Finished]:
    return _in_turn(table, keys) if jobs == 1 or len(keys) < 2 else _spread(table, keys, jobs)


def _in_turn(table: _Seating, keys: list[Key]) -> Iterator[Finished]:
    if keys:
        _warm(table)
    yield from map(table.played, keys)


def _spread(table: _Seating, keys: list[Key], jobs: int) -> Iterator[Finished]:
    """The matches, played by several processes, as they end."""
    try:
        sent = pickle.dumps(table)
    except Exception as error:
        raise ValueError(
            f"jobs: with {jobs} processes players are sent to them, and one cannot be pickled: {error}; take jobs=1, "
            "or functions that have a name"
        ) from error
    try:
        with files.processes(min(jobs, len(keys)), _sit_down, sent) as pool:
            for future in as_completed([pool.submit(_match, key) for key in keys]):
                yield future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            f"jobs: one of {jobs} processes ended before its matches did: it was killed, or it could not "
            "import the class of a player (one defined in a notebook): take jobs=1, or put the class into a module"
        ) from error


def _warm(table: _Seating) -> None:
    """Play rounds that do not count: code compiled in the first hundred is compiled before throws are timed."""
    mine = table.problem[0]
    seat = table.player.sit(mine, table.rounds, np.random.default_rng(0), 0)
    if not hasattr(seat, "policy_against"):
        for t in range(min(table.rounds, 100)):
            seat.observe(int(np.argmax(seat.policy())), t % mine.n_states)


_HERE: list[_Seating] = []  # in a process of the pool: its table


def _sit_down(sent: bytes) -> None:
    _HERE[:] = [pickle.loads(sent)]
    _warm(_HERE[0])


def _match(key: Key) -> Finished:
    return _HERE[0].played(key)


def _named(opponents: Any) -> dict[str, Player]:
    """Opponents by name."""
    if isinstance(opponents, Mapping):
        named = list(opponents.items())
    elif isinstance(opponents, (list, tuple)):
        named = [(a_player(one, f"opponents[{i}]").name, one) for i, one in enumerate(opponents)]
    else:
        raise ValueError(f"opponents must be a list of players or a dict by name, got {inputs.shown(opponents)}")
    found: dict[str, Player] = {}
    for name, one in named:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ValueError(f"opponents must have names that are text, got {inputs.shown(name)}")
        if name in found:
            raise ValueError(f"opponents must have different names, got two called {name}")
        found[name] = a_player(one, f"opponents[{name!r}]")
    if not found:
        raise ValueError("opponents must be at least one, got none")
    return found


def _try_seats(table: _Seating) -> None:
    """Let every player take either seat once: one that refuses does so before the first match."""
    everyone = [*table.opponents.items(), ("", table.player)]
    sees = [name for name, who in everyone if _sat(table, who)]
    if len(sees) > 1 and sees[-1] == "":
        raise ValueError(f"opponents: {sees[0]} sees through the other, and so does {table.player.name}: not both can")


def _sat(table: _Seating, who: Player) -> bool:
    """Whether a player who has taken a seat sees through the other."""
    at = [who.sit(table.problem[seat], table.rounds, np.random.default_rng(0), seat) for seat in (0, 1)]
    return any(hasattr(seat, "policy_against") for seat in at)


def _whole_seed(seed: Any) -> int:
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return inputs.whole(seed, "seed", least=0, most=None)


def _stakes(side: DecisionProblem) -> str:
    """A short text that identifies a problem."""
    said = repr((side.utility.tolist(), float(side.in_payoffs(-1.0)), float(side.in_payoffs(1.0))))
    return f"{side.n_actions}x{side.n_states} {zlib.crc32(said.encode()):08x}"
