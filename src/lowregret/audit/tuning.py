"""How to set the guard: tried on an earlier part of the recording, judged on the rest."""

import itertools
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..guard import Guard
from ..policies import Recovery
from ..problems import DecisionProblem, Payoff
from ..tables import Table
from .backtesting import late_of, played_through, recorded
from .known import GIVEN
from .playing import guard_for
from .result import Backtest
from .streams import Streams


class Setting(NamedTuple):
    """One way to make the guard, and what it earned per step, in payoffs."""

    delta: float | None  # None: no test
    episode: int | None
    fallback: str
    earlier: float  # on the part that settings are chosen by
    switched: int  # streams that switched there


@dataclass(frozen=True, eq=False)
class Tuned:
    """What ``tune`` found: settings, best first on the earlier part; on the rest, the best of them beside the default.

    Only ``rest`` says what to expect: the best of many on the earlier part is there partly by luck.
    """

    settings: tuple[Setting, ...]
    best: Setting
    rest: Backtest
    usual: Backtest  # the default guard on the rest

    def table(self) -> Table:
        """The settings tried, and what the chosen one earned on the part that it was not chosen on."""
        rows = tuple(
            (_said(s.delta), str(s.episode or "-"), s.fallback, f"{s.earlier:.6g}", str(s.switched))
            for s in self.settings
        )
        said = f"On the rest: chosen {self.rest.earned['guard']:.6g}, default {self.usual.earned['guard']:.6g}, "
        title = f"Guards by what they earned a step on the earlier part\n{said}model {self.rest.earned['model']:.6g}"
        return Table(title, ("delta", "episode", "fallback", "earned", "switched"), rows)


def tune(
    problem: DecisionProblem | Payoff,
    probs: Any,
    states: Any = None,
    *,
    until: float | int = 0.5,
    deltas: Sequence[float | None] | None = None,
    episodes: Sequence[int | None] = (None,),
    fallbacks: Sequence[Any] | None = None,
    temperature: float | None = None,
    names: Sequence[Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    references: Mapping[str, Any] | None = None,
    contexts: Any = None,
    payoffs: Any = None,
    scale: Any = None,
    lag: int = 1,
) -> Tuned:
    """Try every combination of settings on the first part of each stream, and the best of them on the rest.

    Parameters
    ----------
    probs, states, names, columns, references, contexts, payoffs, scale, lag
        As ``backtest`` takes them.
    until
        Where the earlier part ends: a share of each stream, or a number of steps.
    deltas
        By default 0.1, 0.05, 0.01, 1/longest stream, and None: no test (``test=False``), which goes with ``Recovery``
        and outcomes that are not late.
    episodes, fallbacks
        As ``ExactTest`` and ``Guard`` take them; a fallback is any that ``ExactTest`` takes, ``Recovery()`` by default.
    temperature
        As ``Guard`` takes it: best responses by default. A predictor as a fallback needs one above 0.

    >>> from lowregret import matching
    >>> found = tune(matching(), np.tile([0.8, 0.2], (400, 1)), [0, 1, 0, 0] * 100, deltas=[0.1, 0.01])
    >>> len(found.settings), found.rest.steps
    (2, 200)
    """
    told = dict(zip(GIVEN, (references, contexts, payoffs, scale), strict=True))
    recording = recorded(problem, probs, states, names, columns, told)
    lag, steps_B = late_of(recording, lag), _earlier(recording, until)
    first, later = recording.cut(steps_B, rest=False), recording.cut(steps_B, rest=True)
    if not first.names or not later.names:
        raise ValueError(f"until must leave steps on both sides, got {inputs.shown(until)}")
    T = recording.longest
    episodes = _episodes_of(episodes)
    if fallbacks is not None and (not isinstance(fallbacks, (list, tuple)) or not fallbacks):
        raise ValueError(f"fallbacks must be a list of at least one, got {inputs.shown(fallbacks)}")
    fallbacks = [Recovery()] if fallbacks is None else list(fallbacks)
    tries = _deltas_of(deltas, T, lag == 1 and all(isinstance(fallback, Recovery) for fallback in fallbacks))
    kinds = [type(fallback).__name__ for fallback in fallbacks]
    called = kinds if len(set(kinds)) == len(kinds) else list(map(repr, fallbacks))  # two of a kind differ in settings
    tried: list[tuple[Setting, Any]] = []
    for delta, episode, which in itertools.product(tries, episodes, range(len(fallbacks))):
        made = delta, episode, fallbacks[which], temperature, lag
        found = played_through(problem, first, _guard(problem, first, *made), False)
        switched = sum(result.switched_at is not None for result in found.streams)
        setting = Setting(delta, episode, called[which], found.earned["guard"], switched)
        tried.append((setting, fallbacks[which]))
    tried.sort(key=lambda pair: -pair[0].earlier)
    best, fallback = tried[0]
    chosen = _guard(problem, later, best.delta, best.episode, fallback, temperature, lag)
    rest, usual = (played_through(problem, later, guard, True, lag) for guard in (chosen, None))
    return Tuned(tuple(setting for setting, _ in tried), best, rest, usual)


def _guard(
    problem: Any, recording: Streams, delta: Any, episode: int | None, fallback: Any, temperature: Any, lag: int
) -> Guard:
    """A guard with these settings; delta is for all episodes together, as by default."""
    horizon = recording.longest
    lasts = None if episode is None or episode >= horizon else episode
    settings = {"delta": delta, "test": delta is not None, "fallback": fallback, "temperature": temperature}
    return guard_for(problem, horizon, recording.tells, lag, episode=lasts, **settings)


def _deltas_of(deltas: Any, longest: int, mixes: bool) -> list[float | None]:
    """The deltas to try, each once; None for no test, where the mixture can be played from the first step on."""
    if deltas is None:
        return list(dict.fromkeys([0.1, 0.05, 0.01, 1 / max(longest, 2), *([None] if mixes else [])]))
    given = list(deltas) if isinstance(deltas, (list, tuple)) else deltas
    untested = isinstance(given, list) and None in given
    tested = [delta for delta in given if delta is not None] if untested else given
    found = [] if untested and not tested else inputs.listed(tested, "deltas", inputs.probability)
    return list(dict.fromkeys([*found, *([None] if untested else [])]))


def _said(delta: float | None) -> str:
    return "no test" if delta is None else f"{delta:.3g}"


def _episodes_of(episodes: Any) -> list[int | None]:
    if not isinstance(episodes, (list, tuple)) or not episodes:
        raise ValueError(f"episodes must be a list of lengths, or None for none, got {inputs.shown(episodes)}")
    return [None if length is None else inputs.whole(length, "episodes") for length in episodes]


def _earlier(recording: Streams, until: Any) -> np.ndarray:
    lengths_B = recording.lengths_B
    if isinstance(until, numbers.Integral):
        return np.minimum(inputs.whole(until, "until"), lengths_B)
    return (inputs.probability(until, "until") * lengths_B).astype(np.int64)
