"""The net of the learned exploiter at a table: what it is shown, what it remembers, what it plays. In NumPy."""

from dataclasses import dataclass

import numpy as np

from ..predictors import draw

SHARPNESS = 10.0  # how much of a best response the answer to what it expects of the other is, over the span


@dataclass(frozen=True)
class Settings:
    """How an exploiter is made and taught.

    ``window``: how many rounds it is shown at once, beside what it remembers; ``unroll``: over how many rounds it
    learns at a time.
    """

    hidden: int = 96
    window: int = 3
    unroll: int = 25
    rate: float = 3e-3


def drawn(mixed_NxA: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A move from each of the mixed actions."""
    return draw(mixed_NxA, rng.random(len(mixed_NxA)))


def answers(utility_AxB: np.ndarray) -> np.ndarray:
    """By how much each own move is to be preferred for each of the other's, ``[A, B]``."""
    span = float((utility_AxB.max(axis=0) - utility_AxB.min(axis=0)).max())
    return (utility_AxB * (SHARPNESS / span if span > 0 else 0.0)).astype(np.float32)


class View:
    """What is shown before each round: the last moves of both, newest first, and how far the match is."""

    def __init__(self, actions: int, others: int, window: int, rounds: int, tables: int) -> None:
        self.actions, self.width, self.rounds, self.seen = actions, actions + others, rounds, 0
        self.shown = np.zeros((tables, window * self.width + 1), dtype=np.float32)
        self.each = np.arange(tables)

    def after(self, own_N: np.ndarray, other_N: np.ndarray) -> None:
        self.seen += 1
        shown = np.zeros_like(self.shown)
        shown[:, self.width : -1] = self.shown[:, : -1 - self.width]
        shown[self.each, own_N], shown[self.each, self.actions + other_N] = 1, 1
        shown[:, -1] = self.seen / self.rounds
        self.shown = shown


class Trained:
    """A trained net at some tables."""

    def __init__(
        self, weights: dict[str, np.ndarray], utility_AxB: np.ndarray, window: int, rounds: int, tables: int
    ) -> None:
        self.weights, self.answers_AxB = weights, answers(utility_AxB)
        self.view = View(utility_AxB.shape[0], utility_AxB.shape[1], window, rounds, tables)
        self.memory = np.zeros((tables, weights["cell.weight_hh"].shape[1]), dtype=np.float32)
        self._think()

    def observe(self, own_N: np.ndarray, other_N: np.ndarray) -> None:
        """What both did; ``mixed_NxA`` is then what to play next."""
        self.view.after(own_N, other_N)
        self._think()

    def _think(self) -> None:
        """A step of the GRU, and the softmax of what the heads say."""
        H = self.memory.shape[1]
        x, h = self._linear("cell", self.view.shown, "_ih"), self._linear("cell", self.memory, "_hh")
        gates = 1 / (1 + np.exp(-(x[:, : 2 * H] + h[:, : 2 * H])))
        new = np.tanh(x[:, 2 * H :] + gates[:, :H] * h[:, 2 * H :])
        self.memory = new + gates[:, H:] * (self.memory - new)
        expected = softmax_of(self._linear("second", self.memory))
        scores = self._linear("policy", self.memory) + expected @ self.answers_AxB.T
        self.mixed_NxA = softmax_of(scores.astype(np.float64))

    def _linear(self, name: str, inputs_NxK: np.ndarray, part: str = "") -> np.ndarray:
        return inputs_NxK @ self.weights[f"{name}.weight{part}"].T + self.weights[f"{name}.bias{part}"]


def softmax_of(scores_NxA: np.ndarray) -> np.ndarray:
    grown = np.exp(scores_NxA - scores_NxA.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True)
