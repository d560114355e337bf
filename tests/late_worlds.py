"""Shared by the tests of late outcomes: worlds whose laws are right given what is ``lag`` old, and playing them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import lowregret as lr


def chain(stay: float, count: int, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Sequences ``[N, T]`` of a chain on two states that stays with this chance."""
    moves = rng.random((count, steps)) > stay
    moves[:, 0] = rng.random(count) < 0.5
    return np.cumsum(moves, axis=1) % 2


def chain_laws(tokens_NxT: np.ndarray, stay: float, lag: int) -> np.ndarray:
    """Its true laws ``[N, T, 2]`` given outcomes that are ``lag`` old."""
    again = (1 + (2 * stay - 1) ** lag) / 2
    laws = np.full((*tokens_NxT.shape, 2), 0.5)
    same = tokens_NxT[:, : max(tokens_NxT.shape[1] - lag, 0), None] == np.arange(2)
    laws[:, lag:] = np.where(same, again, 1 - again)
    return laws


def laws_of(joint: np.ndarray, S: int, T: int, lag: int) -> np.ndarray:
    """``[S^T, T, S]``: the true laws of any joint law over all sequences, given outcomes that are ``lag`` old."""
    table = joint.reshape((S,) * T)
    found = np.empty((S,) * T + (T, S))
    for t in range(T):
        seen = max(t - lag + 1, 0)
        both = table.sum(axis=tuple(i for i in range(seen, T) if i != t))  # what was seen, then step t
        whole = both.sum(axis=-1, keepdims=True)
        law = np.where(whole > 0, both / np.where(whole > 0, whole, 1.0), 1 / S)
        found[..., t, :] = law.reshape((S,) * seen + (1,) * (T - seen) + (S,))
    return found.reshape(-1, T, S)


def arrivals(steps: int, lag: int, rng: np.random.Generator, at_once: bool = False) -> list[tuple[str, int]]:
    """A random order of ("advise", step) and ("observe", step) within the lag; the longest wait unless ``at_once``."""
    order: list[tuple[str, int]] = []
    waiting: list[int] = []
    for step in range(1, steps + 1):
        while waiting and (waiting[0] <= step - lag or (at_once and rng.random() < 0.5)):
            some = waiting[0] if waiting[0] <= step - lag else int(rng.choice(waiting))
            waiting.remove(some)
            order.append(("observe", some))
        order.append(("advise", step))
        waiting.append(step)
    rng.shuffle(waiting)
    return order + [("observe", step) for step in waiting]


def play(guard: lr.Guard, probs_TxS: Any, states_T: Any, order: list[tuple[str, int]]) -> None:
    """Time is the first axis of both."""
    for what, step in order:
        if what == "advise":
            guard.advise(probs_TxS[step - 1])
        else:
            guard.observe(states_T[step - 1], step=step)


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads change over in the middle of everything."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
