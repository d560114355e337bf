"""What a player earns against many opponents (Lanctot et al., 2023): the mean, the worst, and their sum."""

import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import inputs
from ..plots import COLOURS, plain, pyplot
from ..tables import Table

# The picture of an arena: what was earned against each opponent, one colour per player.


if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = "osD^vP*"


def picture(arenas: Sequence[Any]) -> "Figure":
    """Every opponent's mean with twice its standard error, in the order of the first player's; dashes: populations."""
    plt = pyplot()
    first = arenas[0]
    names = sorted(first.opponents, key=lambda name: first.by_opponent[name].value)
    figure, ax = plt.subplots(figsize=(7, 1.6 + 0.19 * len(names)), layout="constrained")
    figure.set_facecolor("white")
    ax.axvline(0, color="#999999", linewidth=0.8, zorder=0)
    for i, arena in enumerate(arenas):
        colour = COLOURS[i % len(COLOURS)]
        there = [(y, arena.by_opponent[name]) for y, name in enumerate(names) if name in arena.by_opponent]
        shift = 0.6 * ((i + 0.5) / len(arenas) - 0.5)
        ax.errorbar(
            [score.value for _, score in there],
            [y + shift for y, _ in there],
            xerr=[2 * score.error for _, score in there],
            fmt=_MARKS[i % len(_MARKS)],
            color=colour,
            markersize=3.5,
            elinewidth=1,
            label=f"{arena.player}: {arena.population.value:.0f} {arena.worst.value:+.0f}",
        )
        ax.axvline(arena.population.value, color=colour, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_xlabel(f"payoff of a match of {first.rounds} rounds (bars: two standard errors)")
    figure.legend(loc="outside upper center", ncols=min(len(arenas), 4), frameon=False, fontsize=9)
    plain(ax)
    return figure


class MatchScore(NamedTuple):
    """One match of an arena, as numbers; payoffs are totals of the match, regret is average and in utility."""

    opponent: str
    seat: int  # where our player sat
    match: int  # which of those in this seat, from 0
    payoff: float  # of the moves that were drawn
    theirs: float  # the opponent's
    expected: float  # of our mixed actions against the opponent's moves
    regret: float  # of our mixed actions
    bound: float | None  # the certificate's, where our player is guarded
    held: bool | None  # whether it was kept, with what it says of payoffs
    alarms: int
    returns: int
    ms: float  # per throw of our player, on average: the one number that differs from run to run


class Score(NamedTuple):
    """A mean with its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ±{self.error:.2f}"


@dataclass(frozen=True, eq=False)
class Arena:
    """What ``arena`` found: matches of one player against each of several opponents, half of them in each seat.

    Errors are standard errors over matches, for these opponents: with other seeds matches would end differently. As
    many are played in either seat, so an advantage of one seat is not chance and is no part of the error (with a single
    match per seat the two cannot be told apart, and it is).
    """

    player: str
    rounds: int
    matches: int
    seed: int
    played: tuple[MatchScore, ...]

    @cached_property
    def opponents(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.opponent for p in self.played))

    @cached_property
    def by_opponent(self) -> dict[str, Score]:
        """The mean payoff of a match with each opponent."""
        return {name: _mean(self._of(name)) for name in self.opponents}

    @property
    def population(self) -> Score:
        """The mean over opponents."""
        scores = self.by_opponent.values()
        return Score(
            math.fsum(s.value for s in scores) / len(scores), math.hypot(*(s.error for s in scores)) / len(scores)
        )

    @property
    def worst_opponent(self) -> str:
        return min(self.opponents, key=lambda name: self.by_opponent[name].value)

    @property
    def worst(self) -> Score:
        """The least of the opponents' means, as the benchmark defines it.

        The least of noisy means errs low: on average it is below the least of the true ones. ``worst_split`` errs high.
        """
        return self.by_opponent[self.worst_opponent]

    @property
    def worst_split(self) -> Score | None:
        """The worst without picking it by its own luck: found on half the matches, measured on the other half.

        Done both ways and averaged. Each half measures the opponent that the other half picked without bias, and that
        one's true mean is no less than the least: so on average it is above the true worst, as ``worst`` is below it,
        and the truth is between the two. None with fewer than 4 matches.
        """
        if self.matches < 4:
            return None
        halves = [
            {name: _mean([p for p in self._of(name) if p.match % 2 == half]) for name in self.opponents}
            for half in (0, 1)
        ]
        picked = [min(half, key=lambda name: half[name].value) for half in halves]
        found = (halves[1][picked[0]], halves[0][picked[1]])
        return Score((found[0].value + found[1].value) / 2, math.hypot(found[0].error, found[1].error) / 2)

    @property
    def aggregate(self) -> Score:
        """``population`` plus ``worst``; it errs low, as ``worst`` does."""
        n, worst = len(self.opponents), self.worst_opponent
        # The worst opponent's matches are in both terms.
        error = math.hypot(*(s.error * (1 / n + (name == worst)) for name, s in self.by_opponent.items()))
        return Score(self.population.value + self.worst.value, error)

    @property
    def held(self) -> bool | None:
        """Whether the certificate held in every match. None where there is none."""
        found = [p.held for p in self.played]
        return None if None in found else all(found)

    @property
    def alarms(self) -> int:
        """How many alarms there were in all matches."""
        return sum(p.alarms for p in self.played)

    @property
    def returns(self) -> int:
        """How often a guard went back to its model, in all matches."""
        return sum(p.returns for p in self.played)

    @property
    def ms(self) -> float:
        """Milliseconds of processor time that a throw took the player, on average."""
        return math.fsum(p.ms for p in self.played) / len(self.played)

    def only(self, opponents: Collection[str]) -> "Arena":
        """The same for some of the opponents: say, the half that nothing was tuned on."""
        known = f"opponents must be a list of names among {', '.join(self.opponents)}"
        if not isinstance(opponents, (list, tuple, set, frozenset)):
            raise ValueError(f"{known}, got {inputs.shown(opponents)}")
        chosen = list(opponents)
        for name in chosen:
            if not isinstance(name, str) or name not in self.by_opponent:
                raise ValueError(f"{known}, got {inputs.shown(name)}")
        if not chosen:
            raise ValueError(f"{known}, got none")
        return Arena(
            self.player, self.rounds, self.matches, self.seed, tuple(p for p in self.played if p.opponent in chosen)
        )

    def table(self) -> Table:
        """Opponents from the best for us to the worst, then the three scores: prints aligned."""
        rows = []
        for name in sorted(self.opponents, key=lambda name: -self.by_opponent[name].value):
            of = self._of(name)
            sides = (f"{np.mean([p.payoff for p in of if p.seat == seat]):+.1f}" for seat in (0, 1))
            rows.append((name, str(self.by_opponent[name]), *sides, str(sum(p.alarms for p in of))))
        rows += [
            ("population", str(self.population), *self._seats(np.mean), str(self.alarms)),
            ("worst", str(self.worst), *self._seats(np.min), ""),
        ]
        if self.worst_split is not None:
            rows.append(("worst, split", str(self.worst_split), "", "", ""))
        rows.append(("aggregate", str(self.aggregate), "", "", ""))
        what = f"payoff of a match of {self.rounds} rounds ± standard error"
        return Table(
            f"{self.player}: {what}, {self.matches} matches per opponent",
            ("opponent", "payoff", "seat 0", "seat 1", "alarms"),
            tuple(rows),
        )

    def plot(self) -> Any:
        """The mean of every opponent with twice its standard error (needs matplotlib)."""
        return picture([self]).axes[0]

    def to_json(self) -> str:
        """The scores and every match as JSON."""
        return json.dumps(
            {"format": 1, **self.summary(), "played": [p._asdict() for p in self.played]}, allow_nan=False
        )

    def summary(self) -> dict[str, Any]:
        """The scores alone, as ``to_json`` writes them."""
        split = self.worst_split
        return {
            "player": self.player,
            "rounds": self.rounds,
            "matches": self.matches,
            "seed": self.seed,
            "population": self.population._asdict(),
            "worst": {"opponent": self.worst_opponent, **self.worst._asdict()},
            "worst_split": None if split is None else split._asdict(),
            "aggregate": self.aggregate._asdict(),
            "by_opponent": {name: score._asdict() for name, score in self.by_opponent.items()},
            "held": self.held,
            "alarms": self.alarms,
            "returns": self.returns,
            "ms": self.ms,
        }

    @classmethod
    def from_json(cls, written: str | dict[str, Any]) -> "Arena":
        """The arena that ``to_json`` wrote, from the text or from what ``json.loads`` made of it."""
        data = json.loads(written) if isinstance(written, str) else written
        played = tuple(MatchScore(**p) for p in data["played"])
        return cls(data["player"], data["rounds"], data["matches"], data["seed"], played)

    def __repr__(self) -> str:
        scores = f"population {self.population}, worst {self.worst}, aggregate {self.aggregate}"
        return f"Arena({self.player} against {len(self.opponents)}: {scores})"

    def _of(self, opponent: str) -> list[MatchScore]:
        return self._matches[opponent]

    @cached_property
    def _matches(self) -> dict[str, list[MatchScore]]:
        found: dict[str, list[MatchScore]] = {}
        for p in self.played:
            found.setdefault(p.opponent, []).append(p)
        return found

    def _seats(self, over: Callable[[Any], Any]) -> tuple[str, str]:
        """A statistic over the opponents' means in each seat."""
        first, second = (
            f"{over([np.mean([p.payoff for p in self._of(name) if p.seat == seat]) for name in self.opponents]):+.1f}"
            for seat in (0, 1)
        )
        return first, second


def _mean(matches: Sequence[MatchScore]) -> Score:
    """The mean payoff, and its error by the spread within each seat."""
    n, seats = len(matches), [[p.payoff for p in matches if p.seat == seat] for seat in (0, 1)]
    if min(map(len, seats)) < 2:
        seats = [[p.payoff for p in matches]]
    variance = math.fsum((len(one) / n) ** 2 * _spread(one) / len(one) for one in seats)
    return Score(math.fsum(p.payoff for p in matches) / n, math.sqrt(variance))


def _spread(values: list[float]) -> float:
    """The variance of one value."""
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
