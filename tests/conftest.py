"""Shared by all tests: one torch thread each (the suite runs in parallel), and the games they are tried on."""

import gc
import importlib.util
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import lowregret as lr

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)

# What takes longest comes first: processes that share the tests then end together.
LONGEST = (
    *("engine/test_compiled", "paper/test_reproduce", "paper/test_demo", "paper/test_verify", "project/test_readme"),
    *("audits/test_auditing", "audits/test_backtest", "golden/test_golden", "rules/test_promises"),
    *("transformer/test_training", "transformer/test_checkpoints", "adapters/test_logits_processor"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: i for i, name in enumerate(LONGEST)}
    # A stable order: all else stays in its own.
    items.sort(key=lambda item: place.get(f"{item.path.parent.name}/{item.path.stem}", len(place)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """What is made until all tests are found stays: nobody need look through it for what can go, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class Absent:
    """An extra that is not installed: a test that uses it is skipped."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, wanted: str) -> Any:
        if wanted.startswith("_"):  # pytest looks at all that a file has
            raise AttributeError(wanted)
        raise ModuleNotFoundError(f"{self._name} is not installed", name=self._name)


def extra(name: str) -> Any:
    """A package that some tests of a file use, and the others do without."""
    return Absent(name) if importlib.util.find_spec(name) is None else importlib.import_module(name)


def sweep(values: Iterable[Any], usual: int) -> list[Any]:
    """Parameters of a test: the first so many in ``make test``, the others too in ``make test-all``."""
    return [pytest.param(one, marks=() if i < usual else pytest.mark.long) for i, one in enumerate(values)]


def random_problem(rng: np.random.Generator, most_actions: int = 5, most_states: int = 5) -> lr.DecisionProblem:
    """A game with uniform utilities, or with utilities at the corners."""
    shape = rng.integers(2, most_actions + 1), rng.integers(2, most_states + 1)
    utility = rng.uniform(-1, 1, shape) if rng.random() < 0.5 else rng.choice([-1.0, 0.0, 1.0], shape)
    return lr.DecisionProblem(utility)


def turning_game(rng: np.random.Generator, lost: float) -> tuple[lr.DecisionProblem, lr.Markov, int]:
    """A random game, a model, and a state that, come to stay, costs responses to the model ``lost`` a step or more."""
    while True:
        problem = random_problem(rng, 4, 4)
        base = random_markov(rng, problem.n_states)
        for state in range(problem.n_states):
            law = base.predict_sequence(np.full(4, state))[-1]
            earned = problem.quantal_response(law, 0.1) @ problem.utility[:, state]
            if problem.utility[:, state].max() - earned >= lost:
                return problem, base, state


def turned_tokens(rng: np.random.Generator, base: lr.Predictor, state: int, n: int, horizon: int) -> np.ndarray:
    """Sequences of the model that turn, at some step of the first half or never, to one state nearly all the time."""
    tokens = lr.sample(base, horizon, n, seed=rng)
    starts = np.where(np.arange(n) % 4 == 3, horizon, rng.integers(horizon // 2, size=n))
    turned = (np.arange(horizon) >= starts[:, None]) & (rng.random(tokens.shape) < 0.95)
    return np.where(turned, state, tokens)


def random_markov(rng: np.random.Generator, n_states: int, window: int | None = None) -> lr.Markov:
    """A Markov model, anything from nearly uniform to nearly deterministic, with full support."""
    order = int(rng.integers(0, 3)) if window is None else window
    concentration = float(rng.choice([0.1, 0.5, 3.0]))
    table = rng.dirichlet(np.full(n_states, concentration), (n_states,) * order) * 0.999 + 0.001 / n_states
    return lr.Markov(table / table.sum(-1, keepdims=True), order)


def with_urn(
    problem: lr.DecisionProblem, horizon: int | None, delta: float | None = None, temperature: float | None = None
) -> Any:
    """The exact test that plays the urn for good after its alarm."""
    test = lr.ExactTest(1 / max(horizon or 2, 2) if delta is None else delta, horizon)
    return lr.robust.algorithm_1(problem, test, lr.PolyaUrn(problem.n_states), lr.QuantalResponse(temperature))
