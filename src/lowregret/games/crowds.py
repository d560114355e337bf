"""One player at many tables at once, for whoever learns by playing it: in a batch where it can be, else by seats."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

from ..predictors import Predictor, asked, has_states
from ..problems import DecisionProblem, Positions
from .contract import Player
from .players import Guarded, Plain, guard_of, warmth_of


class Crowd(ABC):
    """A player at N tables that go on in step; matches begin together and end together."""

    @abstractmethod
    def begin(self) -> np.ndarray:
        """New matches at all tables; its mixed actions ``[N, A]`` of the first round."""

    @abstractmethod
    def step(self, own_N: np.ndarray, other_N: np.ndarray, last: bool) -> np.ndarray | None:
        """What both did at every table; its mixed actions of the next round, None after the last."""


class ModelCrowd(Crowd):
    """A ``Plain`` or ``Guarded`` player around a ``Predictor``: all tables in one batch."""

    def __init__(self, player: Plain | Guarded, problem: DecisionProblem, rounds: int, tables: int) -> None:
        has_states(player.model, problem.n_states, "problem")
        self.player, self.problem, self.rounds, self.tables = player, problem, rounds, tables

    def begin(self) -> np.ndarray:
        player, shape = self.player, (self.tables,)
        self.memory, self.guard = player.model.start(shape), None
        if isinstance(player, Guarded):
            self.guard = guard_of(player, self.problem, self.rounds, shape)
        return self._mixed()

    def step(self, own_N: np.ndarray, other_N: np.ndarray, last: bool) -> np.ndarray | None:
        self.memory = self.player.model.update(self.memory, other_N)
        if self.guard is not None:
            self.guard.observe(Positions(other_N), action=own_N)
        return None if last else self._mixed()

    def _mixed(self) -> np.ndarray:
        law_NxS = np.asarray(asked(self.player.model, self.memory, (self.tables,)), dtype=np.float64)
        if self.guard is not None:
            self.guard.advise(law_NxS)
            return np.asarray(self.guard.policy())
        assert isinstance(self.player, Plain)
        return self.problem.respond(law_NxS.T, warmth_of(self.player, self.rounds)).T


class SeatCrowd(Crowd):
    """Any player: a seat at each table."""

    def __init__(self, player: Player, problem: DecisionProblem, rounds: int, tables: int, seed: Any) -> None:
        self.player, self.problem, self.rounds = player, problem, rounds
        self.rngs = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(tables)]

    def begin(self) -> np.ndarray:
        self.seats = [self.player.sit(self.problem, self.rounds, rng, 0) for rng in self.rngs]
        return np.stack([seat.policy() for seat in self.seats])

    def step(self, own_N: np.ndarray, other_N: np.ndarray, last: bool) -> np.ndarray | None:
        for seat, own, other in zip(self.seats, own_N.tolist(), other_N.tolist(), strict=True):
            seat.observe(own, other)
        return None if last else np.stack([seat.policy() for seat in self.seats])


class Elsewhere(Crowd):
    """Seats in processes of their own, an equal part of the tables in each."""

    def __init__(self, pipes: list[Any]) -> None:
        self.pipes = pipes

    def begin(self) -> np.ndarray:
        for pipe in self.pipes:
            pipe.send(None)
        return self._heard()

    def step(self, own_N: np.ndarray, other_N: np.ndarray, last: bool) -> np.ndarray | None:
        parts = (np.array_split(moves, len(self.pipes)) for moves in (own_N, other_N))
        for pipe, own, other in zip(self.pipes, *parts, strict=True):
            pipe.send((own, other, last))
        return self._heard()

    def _heard(self) -> Any:
        heard = [pipe.recv() for pipe in self.pipes]
        for part in heard:
            if isinstance(part, Exception):
                raise part
        return None if heard[0] is None else np.concatenate(heard)


def _serve(pipe: Any, player: Player, problem: DecisionProblem, rounds: int, tables: int, seed: Any) -> None:
    """In a process of its own: seats that answer until the pipe is closed."""
    crowd = SeatCrowd(player, problem, rounds, tables, seed)
    while True:
        try:
            told = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(crowd.begin() if told is None else crowd.step(*told))
        except Exception as error:  # it is raised where it can be read
            pipe.send(error)


@contextmanager
def crowd_of(
    player: Player, problem: DecisionProblem, rounds: int, tables: int, seed: int, processes: int = 1
) -> Iterator[Crowd]:
    """The player at so many tables: in one batch if it can be, else in so many processes."""
    if isinstance(player, (Plain, Guarded)) and isinstance(player.model, Predictor):
        yield ModelCrowd(player, problem, rounds, tables)
        return
    if processes == 1:
        yield SeatCrowd(player, problem, rounds, tables, seed)
        return
    context, pipes, workers = get_context("spawn"), [], []
    sizes = [len(part) for part in np.array_split(np.arange(tables), min(processes, tables))]
    try:
        for worker, size in enumerate(sizes):
            mine, theirs = context.Pipe()
            served = (theirs, player, problem, rounds, size, (seed, worker))
            workers.append(context.Process(target=_serve, args=served, daemon=True))
            workers[-1].start()
            theirs.close()
            pipes.append(mine)
        yield Elsewhere(pipes)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in workers:
            process.join()
