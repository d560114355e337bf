"""Doing nothing, and always falling back: what every score is between."""

import numpy as np

from ..cells import Scene, best_response
from . import Entry


class Model:
    """What people do: the best response to the model, whatever comes."""

    alarmed = None

    def __init__(self, scene: Scene) -> None:
        self.problem = scene.problem

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return best_response(self.problem, laws_RxS)

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        pass


class Urn:
    """Without the model: frequencies of what came, answered at random at a temperature of 1/sqrt(T)."""

    alarmed = None

    def __init__(self, scene: Scene, temperature: float | None = None) -> None:
        self.problem, self.counts_RxS = scene.problem, np.ones((scene.R, scene.problem.n_states))
        self.temperature = scene.T**-0.5 if temperature is None else temperature

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        laws = self.counts_RxS / self.counts_RxS.sum(axis=1, keepdims=True)
        return np.asarray(self.problem.respond(laws.T, self.temperature)).T

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        self.counts_RxS[np.arange(len(states_R)), states_R] += 1


ENTRANTS = {"the model": Entry(Model), "always fall back": Entry(Urn)}
