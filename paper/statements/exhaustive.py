"""What exact checks are made of: random games and models, the chance of every sequence."""

import numpy as np

from lowregret import DecisionProblem, Markov, Predictor
from lowregret.arrays import to_numpy


def some_problem(rng: np.random.Generator, most_actions: int = 4, most_states: int = 3) -> DecisionProblem:
    """A game with uniform utilities, or with utilities at the corners."""
    shape = rng.integers(2, most_actions + 1), rng.integers(2, most_states + 1)
    return DecisionProblem(rng.uniform(-1, 1, shape) if rng.random() < 0.5 else rng.choice([-1.0, 0.0, 1.0], shape))


def some_model(rng: np.random.Generator, n_states: int) -> Markov:
    """A Markov model, anything from nearly uniform to nearly deterministic, with full support."""
    table = rng.dirichlet(np.full(n_states, rng.choice([0.1, 0.5, 3.0])), n_states) * 0.999 + 0.001 / n_states
    return Markov(table / table.sum(-1, keepdims=True), 1)


def chances(predictor: Predictor, tokens_NxT: np.ndarray) -> np.ndarray:
    """The chance of every prefix of each sequence in the model's own distribution, ``[N, T]`` (Section 2.1).

    >>> from lowregret import PolyaUrn
    >>> chances(PolyaUrn(2), np.array([[1, 1, 0]])).round(4).tolist()
    [[0.5, 0.3333, 0.0833]]
    """
    probs = to_numpy(predictor.predict_sequence(tokens_NxT))
    return np.take_along_axis(probs, tokens_NxT[..., None], -1)[..., 0].cumprod(-1)


def chances_of_counts(one_T: np.ndarray) -> list[np.ndarray]:
    """How many ones the first t independent bits have, ``[t + 1]`` for t = 0 .. T, from each bit's chance.

    >>> [chance.tolist() for chance in chances_of_counts(np.array([0.5, 0.5]))]
    [[1.0], [0.5, 0.5], [0.25, 0.5, 0.25]]
    """
    found = [np.ones(1)]
    for one in one_T:
        found.append(np.append(found[-1] * (1 - one), 0) + np.append(0, found[-1] * one))
    return found


def some_forecasts(rng: np.random.Generator, tokens_NxT: np.ndarray, n_states: int) -> np.ndarray:
    """Forecasts ``[N, T, S]`` of a model that has one of its own for every prefix: sharp ones, even ones, anything."""
    place, found = np.zeros(len(tokens_NxT), dtype=np.int64), []
    for t in range(tokens_NxT.shape[1]):
        nodes = n_states**t
        sharp = np.eye(n_states)[rng.integers(n_states, size=nodes)] * 0.96 + 0.04 / n_states
        kind = rng.random((nodes, 1))
        table = np.where(kind < 0.6, sharp, np.where(kind < 0.7, 1 / n_states, rng.dirichlet(np.ones(n_states), nodes)))
        found.append(table[place])
        place = place * n_states + tokens_NxT[:, t]
    return np.stack(found, axis=1)
