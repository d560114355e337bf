"""Players x sources (Section 5.2.1): regret of every prefix and of every sequence, and when the robust ones switched.

A source is a predictor to sample from, sequences as they are, or an adversary that answers each player.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, count_up, to_numpy
from ..policies import Policy, Respond
from ..predictors import Predictor, asked_sequence, same_states, sample
from ..problems import DecisionProblem, a_problem
from ..robust import Robust
from .comparison import Comparison
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
    horizon = inputs.whole(horizon, "horizon")
    players, origins = {}, {}
    for name, player in _named(predictors, "predictors"):
        with _about(f"predictors[{name!r}]: "):
            players[name] = acting(player, problem, horizon)
    for name, source in _named(sources, "sources"):
        origins[name] = _source(f"sources[{name!r}]", source, problem, horizon)
    if any(_is_sampled(origin) for origin in origins.values()):
        n = inputs.whole(n, "n, the number of sequences from each source,", least=2)
        inputs.generator(seed)
    homes = {name: home(player) for name, player in players.items()}
    kept = {source: {name: _Kept(horizon) for name in players} for source in origins}
    for source, origin in origins.items():
        for name, tokens_NxT, said in _met(source, origin, players, problem, horizon, n or 0, seed):
            tokens = inputs.tokens_of(tokens_NxT, problem.n_states, like=homes[name])
            kept[source][name].enter(*_play(players[name], problem, tokens, said))
    return Comparison(
        predictors=tuple(players),
        sources=tuple(origins),
        problem=problem,
        horizon=horizon,
        regret_PxWxT=np.array([[kept[source][name].mean_T for source in origins] for name in players]),
        error_PxWxT=np.array([[kept[source][name].error_T for source in origins] for name in players]),
        final_WxPxN=tuple(np.stack([np.concatenate(one.final) for one in each.values()]) for each in kept.values()),
        times_WxPxN=tuple(np.stack([np.concatenate(one.times) for one in each.values()]) for each in kept.values()),
        adaptive=tuple(source for source, origin in origins.items() if _adapts(origin)),
        seed=None if seed is None or isinstance(seed, np.random.Generator) else int(seed),
        version=import_module(__package__.partition(".")[0]).__version__,  # imported later than this file
    )


class _Kept:
    """What is kept of one player on one source: mean and spread of every prefix, and what each sequence came to."""

    def __init__(self, horizon: int) -> None:
        self.n, self.mean_T, self.spread_T = 0, np.zeros(horizon), np.zeros(horizon)
        self.final: list[np.ndarray] = []
        self.times: list[np.ndarray] = []  # 0 where the player cannot switch

    def enter(self, regret_NxT: np.ndarray, times_N: np.ndarray | None) -> None:
        """Take in more sequences; ``spread`` is the sum of squares about the mean."""
        rows, own_T = len(regret_NxT), regret_NxT.mean(axis=0)
        drift_T = own_T - self.mean_T
        self.spread_T += ((regret_NxT - own_T) ** 2).sum(axis=0) + drift_T**2 * (self.n * rows / (self.n + rows))
        self.mean_T += drift_T * (rows / (self.n + rows))
        self.n += rows
        self.final.append(regret_NxT[:, -1].astype(np.float64))
        self.times.append(np.zeros(rows, dtype=np.int64) if times_N is None else times_N)

    @property
    def error_T(self) -> np.ndarray:
        """The standard error of the mean; 0 for one sequence."""
        return np.sqrt(self.spread_T / max(self.n - 1, 1) / self.n)


def _met(
    source: str, origin: Any, players: dict[str, Policy], problem: DecisionProblem, horizon: int, n: int, seed: Any
) -> Iterator[tuple[str, Array, dict[int, Array]]]:
    """Who meets which sequences ``[N, T]``, a batch at a time, with what base models said of them so far."""
    if _adapts(origin):
        for name, player in players.items():
            found = origin(player, problem, horizon)
            where = f"what sources[{source!r}] found"
            yield name, _sequences(where, getattr(found, "tokens", found), problem, horizon), {}
        return
    rng, done = inputs.generator(seed) if _is_sampled(origin) else None, 0
    for rows in batches(n if rng else len(origin), horizon, problem.n_states, most=_TOGETHER):
        tokens_NxT = sample(origin, horizon, rows, rng) if rng else origin[done : done + rows]
        done += rows
        said: dict[int, Array] = {}
        for name in players:
            yield name, tokens_NxT, said


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


@contextmanager
def _about(where: str) -> Iterator[None]:
    """What is refused inside names the entry it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None


def _is_sampled(source: Any) -> bool:
    return hasattr(source, "predict_sequence")


def _adapts(source: Any) -> bool:
    return callable(source) and not _is_sampled(source)


def _source(where: str, source: Any, problem: DecisionProblem, horizon: int) -> Any:
    """A predictor to sample, sequences ``[N, T]``, or an adversary; anything else is refused."""
    if _is_sampled(source):
        with _about(f"{where}: "):
            same_states(source, problem)
        return source
    if isinstance(source, (list, tuple)) or hasattr(source, "shape"):
        return _sequences(where, source, problem, horizon)
    if not callable(source):
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
