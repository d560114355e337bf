"""Models that learn as they go: no law has seen the state that it is of, nor any that was not known by then."""

from collections.abc import Callable
from typing import Any

import numpy as np
from examples.real_data import walk_forward

import lowregret as lr

from .bins import Bins

SMALL: dict[str, Any] = {"max_iter": 30, "max_leaf_nodes": 8, "early_stopping": False, "random_state": 0}  # boosting
UNIFORM = 0.01  # its part in every law: nothing that may come has probability 0

Says = Callable[[np.ndarray], np.ndarray]  # of what is known of N steps ``[N, F]``: a row a step
Fit = Callable[[np.ndarray, np.ndarray], Says]  # of what was known and what came


def softened(laws: np.ndarray) -> np.ndarray:
    """With a part of the uniform law, along the last axis."""
    return (1 - UNIFORM) * laws / laws.sum(axis=-1, keepdims=True) + UNIFORM / laws.shape[-1]


def frequency(states_T: np.ndarray, S: int, memory: float = 1000) -> np.ndarray:
    """How often each state came, by recent steps more than by others."""
    return by_table(states_T, np.zeros_like(states_T), S, memory)


def by_table(states_T: np.ndarray, context_T: np.ndarray, S: int, memory: float = 1000) -> np.ndarray:
    """How often each state came in steps like this one: a Markov model, where that is told by the states before."""
    return softened(walk_forward(states_T, context_T, context_T, S, memory))


def walk(
    fit: Fit, known_TxF: np.ndarray, came_T: np.ndarray, steps: range, lag: int = 1, every: int = 100
) -> np.ndarray:
    """What a model says of these steps, fitted anew every so often to the last 2,000 outcomes that are known by then.

    ``lag`` as of ``Stream``. What is known of a step must be known before it; of outcomes, those so many steps old.
    """
    said = []
    for at in range(steps.start, steps.stop, every):
        past = slice(max(0, at - lag + 1 - 2000), at - lag + 1)
        said.append(fit(known_TxF[past], came_T[past])(known_TxF[at : min(at + every, steps.stop)]))
    return np.concatenate(said)


def logistic(S: int) -> Fit:
    """Of states: laws by multinomial logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return _laws(lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=1000)), S)


def boosting(S: int) -> Fit:
    """Of states: laws by gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return _laws(lambda: HistGradientBoostingClassifier(learning_rate=0.1, **SMALL), S)


def quantiles(bins: Bins) -> Fit:
    """Of numbers: laws of ranges by nine quantiles, each a gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    levels = np.linspace(0.1, 0.9, 9)
    settings: dict[str, Any] = {"loss": "quantile", "learning_rate": 0.2, **SMALL}

    def fit(known_NxF: np.ndarray, came_N: np.ndarray) -> Says:
        models = [HistGradientBoostingRegressor(quantile=level, **settings) for level in levels]
        for model in models:
            model.fit(known_NxF, came_N)

        def says(now_MxF: np.ndarray) -> np.ndarray:
            said_MxL = np.sort(np.stack([model.predict(now_MxF) for model in models], axis=1), axis=1)
            return softened(bins.probs(lr.Quantiles(levels, said_MxL)))

        return says

    return fit


def _laws(make: Callable[[], Any], S: int) -> Fit:
    """By a classifier; what it has not seen has the part of the uniform law alone."""

    def fit(known_NxF: np.ndarray, came_N: np.ndarray) -> Says:
        seen = np.unique(came_N)
        model = make().fit(known_NxF, came_N) if len(seen) > 1 else None

        def says(now_MxF: np.ndarray) -> np.ndarray:
            laws_MxS = np.zeros((len(now_MxF), S))
            laws_MxS[:, seen] = 1.0 if model is None else model.predict_proba(now_MxF)
            return softened(laws_MxS)

        return says

    return fit
