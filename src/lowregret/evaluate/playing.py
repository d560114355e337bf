"""Players x sources (Section 5.2.1): regret of every prefix and of every sequence, and when the robust ones switched.

A source is a predictor to sample from, sequences as they are, or an adversary that answers each player.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, count_up, to_numpy
from ..policies import Policy, Respond
from ..predictors import Predictor, asked_sequence, same_states, sample
from ..problems import DecisionProblem, a_problem
from ..robust import Robust
from .comparison import Comparison, student
from .distances import batches, home
from .players import acting
from .regret import external_regret

_TOGETHER = 1024  # sequences: what is asked step by step takes hardly longer on so many than on one


def compare(
    predictors: Mapping[str, Predictor | Policy],
    sources: Mapping[str, Any],
    problem: DecisionProblem,
    horizon: int,
    n: int | None = None,
    seed: int | np.random.Generator | None = None,
    *,
    progress: Callable[[float, str, str], None] | None = None,
) -> Comparison:
    """Play every predictor on the sequences of every source: regret curves, final regrets, switch times.

    The table has standard errors; ``Cell.regret`` has the 95% interval (Student's t), and the plot 95% bands.

    Parameters
    ----------
    predictors
        By name. A policy plays as it is; a predictor is responded to, at its test's temperature if it is robust and at
        1/sqrt(horizon) if not.
    sources
        By name. A predictor is sampled, each with the same seed, and all players see the same sequences. Sequences of
        states ``[T]`` or ``[N, T]`` are played as they are. An adversary such as ``adversaries.greedy``, a function of
        a player, the problem and the horizon, is asked for each player's own: it returns them, or has them as
        ``tokens``.
    n, seed
        How many sequences of each source to sample, and from which seed; not needed where no source is sampled.
    progress
        Called now and then with the share of the work done and the names of the player and the source at work.

    >>> from lowregret import PolyaUrn, matching, robustify
    >>> from lowregret.evaluate import adversaries
    >>> from lowregret.predictors import Scheduled
    >>> heads, tails = Scheduled([[0.2, 0.8]]), Scheduled([[0.8, 0.2]])
    >>> players = {"model": heads, "robust": robustify(heads, matching(), 200), "urn": PolyaUrn(2)}
    >>> sources = {"its own": heads, "not": tails, "zeros": [0] * 200, "greedy": adversaries.greedy}
    >>> print(compare(players, sources, matching(), horizon=200, n=100, seed=0).table())
    Mean regret ± standard error after 200 steps, 1 to 100 sequences a source (median switch time)
    source             model                robust              urn
    its own  +0.0001 ±0.0000       +0.0001 ±0.0000  +0.0056 ±0.0004
    not      +0.5977 ±0.0058  +0.0404 ±0.0005 (12)  +0.0050 ±0.0003
    zeros            +0.9998           +0.0350 (7)          +0.0026
    greedy           +0.9998           +0.0615 (7)          +0.0341
    """
    a_problem(problem)
    if progress is not None:
        inputs.function(progress, "progress", "a share and two names")
    horizon = inputs.whole(horizon, "horizon")
    players = {name: _player(name, player, problem, horizon) for name, player in _named(predictors, "predictors")}
    homes = {name: home(player) for name, player in players.items()}
    given = {name: _source(name, source, problem, horizon) for name, source in _named(sources, "sources")}
    sampled = any(map(_is_sampled, given.values()))
    if sampled or n is not None:
        n = inputs.whole(n, "n, the number of sequences from each source,", least=2)
    if sampled or seed is not None:
        inputs.generator(seed)
    kept = {source: {name: _Kept(horizon) for name in players} for source in given}
    for w, (source, origin) in enumerate(given.items()):

        def play(name: str, tokens_NxT: Array, said: dict[int, Array], source: str = source) -> None:
            tokens = inputs.tokens_of(tokens_NxT, problem.n_states, like=homes[name])
            kept[source][name].enter(*_play(players[name], problem, tokens, said))

        def tell(name: str, share: float, w: int = w, source: str = source) -> None:
            if progress is not None:
                progress((w + share) / len(given), name, source)

        if _adapts(origin):
            for i, (name, player) in enumerate(players.items()):
                tell(name, i / len(players))
                play(name, _found(source, origin, player, problem, horizon), {})
            counts = {name: one.n for name, one in kept[source].items()}
            if len(set(counts.values())) > 1:
                raise ValueError(
                    f"sources[{source!r}] must find as many sequences for every player, got {inputs.shown(counts)}"
                )
            continue
        size, done = len(origin) if isinstance(origin, np.ndarray) else n or 0, 0
        for tokens_NxT in _batches(origin, horizon, size, problem.n_states, seed):
            said: dict[int, Array] = {}  # what base models said: robust players ask for the same
            for i, name in enumerate(players):
                tell(name, (done + len(tokens_NxT) * i / len(players)) / size)
                play(name, tokens_NxT, said)
            done += len(tokens_NxT)
    adaptive = tuple(source for source, origin in given.items() if _adapts(origin))
    return _compared(kept, problem, horizon, n, seed, adaptive)


class _Kept:
    """What is kept of one player on one source: mean and spread of every prefix, and what each sequence came to."""

    def __init__(self, horizon: int) -> None:
        self.n, self.mean_T, self.spread_T = 0, np.zeros(horizon), np.zeros(horizon)
        self._final: list[np.ndarray] = []
        self._times: list[np.ndarray] = []

    def enter(self, regret_NxT: np.ndarray, times_N: np.ndarray | None) -> None:
        """Take in more sequences; ``spread`` is the sum of squares about the mean."""
        rows, own_T = len(regret_NxT), regret_NxT.mean(axis=0)
        drift_T = own_T - self.mean_T
        self.spread_T += ((regret_NxT - own_T) ** 2).sum(axis=0) + drift_T**2 * (self.n * rows / (self.n + rows))
        self.mean_T += drift_T * (rows / (self.n + rows))
        self.n += rows
        self._final.append(regret_NxT[:, -1].astype(np.float64))
        self._times.append(np.zeros(rows, dtype=np.int64) if times_N is None else times_N)

    @property
    def error_T(self) -> np.ndarray:
        """The standard error of the mean; 0 for one sequence."""
        return np.sqrt(self.spread_T / max(self.n - 1, 1) / self.n)

    @property
    def final_N(self) -> np.ndarray:
        return np.concatenate(self._final)

    @property
    def times_N(self) -> np.ndarray:
        """0 where the player cannot switch."""
        return np.concatenate(self._times)


def _compared(
    kept: dict[str, dict[str, _Kept]],
    problem: DecisionProblem,
    horizon: int,
    n: int | None,
    seed: Any,
    adaptive: tuple[str, ...],
) -> Comparison:
    """What was kept, player by player, as one value."""
    players = tuple(next(iter(kept.values())))
    each = [[kept[source][name] for source in kept] for name in players]
    regret_PxWxT = np.array([[one.mean_T for one in row] for row in each])
    error_PxWxT = np.array([[one.error_T for one in row] for row in each])
    half_PxW = error_PxWxT[..., -1] * [student(one.n) for one in each[0]]
    times_WxPxN = tuple(np.stack([one.times_N for one in of_player.values()]) for of_player in kept.values())
    can_PxW = np.stack([times_PxN.all(axis=1) for times_PxN in times_WxPxN], axis=-1)
    median_PxW = np.stack([np.median(times_PxN, axis=1) for times_PxN in times_WxPxN], axis=-1)
    share_PxW = np.stack([(times_PxN < horizon).mean(axis=1) for times_PxN in times_WxPxN], axis=-1)
    return Comparison(
        predictors=players,
        sources=tuple(kept),
        problem=problem,
        horizon=horizon,
        n=n,
        regret_PxWxT=regret_PxWxT,
        error_PxWxT=error_PxWxT,
        low_PxW=regret_PxWxT[..., -1] - half_PxW,
        high_PxW=regret_PxWxT[..., -1] + half_PxW,
        switch_PxW=np.where(can_PxW, median_PxW, np.nan),
        switched_PxW=np.where(can_PxW, share_PxW, np.nan),
        final_WxPxN=tuple(np.stack([one.final_N for one in of_player.values()]) for of_player in kept.values()),
        times_WxPxN=times_WxPxN,
        adaptive=adaptive,
        seed=None if seed is None or isinstance(seed, np.random.Generator) else int(seed),
        version=import_module(__package__.partition(".")[0]).__version__,  # imported later than this file
    )


def _play(
    player: Policy, problem: DecisionProblem, tokens: Array, said: dict[int, Array]
) -> tuple[np.ndarray, np.ndarray | None]:
    """The regret of every prefix and the switch times (None: it never switches); a base model is asked once."""
    if not isinstance(player, Respond):
        return to_numpy(external_regret(problem, player, tokens)), None
    predictor, times = player.predictor, None
    base = predictor.base if isinstance(predictor, Robust) else predictor
    if id(base) not in said:
        said[id(base)] = asked_sequence(base, tokens)
    probs = said[id(base)]
    if isinstance(predictor, Robust):
        probs, times = predictor.replaced(probs, tokens)
    regret = external_regret(problem, player.respond_to(probs, count_up(tokens, 1, tokens.shape[-1] + 1)), tokens)
    return to_numpy(regret), None if times is None else to_numpy(times)


def _named(things: Any, name: str) -> list[tuple[str, Any]]:
    if not isinstance(things, Mapping) or not things:
        raise ValueError(f"{name} must be a dict of at least one, by name, got {inputs.shown(things)}")
    return list(things.items())


def _player(name: str, player: Any, problem: DecisionProblem, horizon: int) -> Policy:
    try:
        return acting(player, problem, horizon)
    except ValueError as error:
        raise ValueError(f"predictors[{name!r}]: {error}") from None


def _is_sampled(source: Any) -> bool:
    return hasattr(source, "predict_sequence")


def _adapts(source: Any) -> bool:
    return callable(source) and not _is_sampled(source)


def _source(name: str, source: Any, problem: DecisionProblem, horizon: int) -> Any:
    """A predictor to sample, sequences ``[N, T]``, or an adversary; anything else is refused."""
    where = f"sources[{name!r}]"
    if _is_sampled(source):
        try:
            same_states(source, problem)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return source
    if isinstance(source, (list, tuple)) or hasattr(source, "shape"):
        return _sequences(where, source, problem, horizon)
    if not callable(source) or isinstance(source, type):
        raise ValueError(
            f"{where} must be a Predictor, sequences of states, or an adversary such as adversaries.greedy, "
            f"got {type(source).__name__}"
        )
    return source


def _sequences(where: str, tokens: Any, problem: DecisionProblem, horizon: int) -> np.ndarray:
    tokens = to_numpy(inputs.sequences_of(tokens, problem.n_states, where))
    if tokens.ndim > 2 or tokens.shape[-1] != horizon or not tokens.size:
        raise ValueError(f"{where} must be sequences of {horizon} states, [T] or [N, T], got shape {tokens.shape}")
    return tokens.reshape(-1, horizon)


def _found(source: str, adversary: Any, player: Policy, problem: DecisionProblem, horizon: int) -> np.ndarray:
    """The sequences with which an adversary meets this player, ``[N, T]``."""
    found = adversary(player, problem, horizon)
    return _sequences(f"what sources[{source!r}] found", getattr(found, "tokens", found), problem, horizon)


def _batches(source: Any, horizon: int, n: int, n_states: int, seed: Any) -> Iterator[Array]:
    """The sequences of a source that all players meet, a batch at a time."""
    rng, done = None if isinstance(source, np.ndarray) else inputs.generator(seed), 0
    for rows in batches(n, horizon, n_states, most=_TOGETHER):
        yield source[done : done + rows] if rng is None else sample(source, horizon, rows, rng)
        done += rows
