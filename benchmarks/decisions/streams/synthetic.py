"""Drawn streams: what a step's law is, is known, and models are the truth, nearly the truth, or learn it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

import lowregret as lr
from lowregret.evaluate.sources import paper_sources

from ..cells import Source, Stream
from ..models import by_table, frequency, softened
from . import seed_of

T = 1000


class Drawn(NamedTuple):
    """What came, by which laws, and what a model can see of these before each step."""

    laws_TxS: np.ndarray
    states_T: np.ndarray
    context_T: np.ndarray


Draw = Callable[[int, np.random.Generator], Drawn]  # of the number of states
Problem = Callable[[np.random.Generator], lr.DecisionProblem]
Model = Callable[[Drawn, np.random.Generator], np.ndarray]


def drawn(laws_TxS: np.ndarray, rng: np.random.Generator, context_T: np.ndarray | None = None) -> Drawn:
    """States from these laws, step by step."""
    laws, steps = softened(laws_TxS), len(laws_TxS)
    states = (laws.cumsum(axis=1) < rng.random((steps, 1))).sum(axis=1).clip(0, laws.shape[1] - 1)
    return Drawn(laws, states, np.zeros(steps, dtype=int) if context_T is None else context_T)


def paper(which: str) -> Draw:
    """One of the paper's eight, as long as there."""
    laws_TxS = paper_sources(1024)[which].predict_sequence(np.zeros(1024, dtype=int))
    return lambda S, rng: drawn(laws_TxS, rng)


def chain(order: int) -> Draw:
    """A Markov chain, its laws drawn; a model sees the last ``order`` states."""

    def draw(S: int, rng: np.random.Generator) -> Drawn:
        laws_CxS = softened(rng.dirichlet(np.full(S, 0.7), size=S**order))
        context_T, states_T, context = np.zeros(T, dtype=int), np.zeros(T, dtype=int), 0
        for t, at in enumerate(rng.random(T)):
            context_T[t] = context
            states_T[t] = min(int((laws_CxS[context].cumsum() < at).sum()), S - 1)
            context = (context * S + states_T[t]) % S**order
        return Drawn(laws_CxS[context_T], states_T, context_T)

    return draw


def drifting(S: int, rng: np.random.Generator) -> Drawn:
    """Chances whose logarithms walk about, and back in some 200 steps."""
    walk_TxS = np.zeros((T, S))
    for t, step_S in enumerate(rng.normal(0, 0.15, (T, S))):
        walk_TxS[t] = 0.995 * walk_TxS[max(t - 1, 0)] + step_S
    return drawn(np.exp(walk_TxS), rng)


def season(period: int) -> Draw:
    """A law for each step of a period, drawn once; a model sees which step of it this is."""

    def draw(S: int, rng: np.random.Generator) -> Drawn:
        phase_T = np.arange(T) % period
        return drawn(rng.dirichlet(np.full(S, 0.5), size=period)[phase_T], rng, phase_T)

    return draw


def cases(S: int, rng: np.random.Generator) -> Drawn:
    """Twelve kinds of steps, each with a law; which it is, is drawn, and a model sees it."""
    kind_T = rng.integers(12, size=T)
    return drawn(rng.dirichlet(np.full(S, 0.3), size=12)[kind_T], rng, kind_T)


def demand(S: int, rng: np.random.Generator) -> Drawn:
    """Poisson, its mean by the day of the week and a slow drift, cut off at the most."""
    day_T = np.arange(T) % 7
    mean_T = S / 2 * np.exp(rng.normal(0, 0.4, 7)[day_T] + 0.3 * np.sin(np.arange(T) / 60))
    log_1xS = np.cumsum(np.log(np.maximum(np.arange(S), 1)))
    return drawn(np.exp(np.arange(S) * np.log(mean_T)[:, None] - log_1xS), rng, day_T)


def the_truth(of: Drawn, rng: np.random.Generator) -> np.ndarray:
    return of.laws_TxS


def biased(of: Drawn, rng: np.random.Generator) -> np.ndarray:
    """The odds of each state are off by a factor of its own, some 1.5 or 1/1.5."""
    return softened(of.laws_TxS * np.exp(rng.normal(0, 0.4, of.laws_TxS.shape[1])))


def learned(of: Drawn, rng: np.random.Generator) -> np.ndarray:
    """Frequencies by what is seen."""
    return by_table(of.states_T, of.context_T, of.laws_TxS.shape[1])


def recent(of: Drawn, rng: np.random.Generator) -> np.ndarray:
    """Frequencies of the last few dozen steps."""
    return frequency(of.states_T, of.laws_TxS.shape[1], memory=40)


def ten_steps_late(of: Drawn, rng: np.random.Generator) -> np.ndarray:
    return of.laws_TxS[np.maximum(np.arange(len(of.laws_TxS)) - 10, 0)]


def of_the_start(of: Drawn, rng: np.random.Generator) -> np.ndarray:
    """What was true in the first hundred steps, on average."""
    return np.broadcast_to(of.laws_TxS[:100].mean(axis=0), of.laws_TxS.shape).copy()


def random_problem(A: int, S: int) -> Problem:
    return lambda rng: lr.DecisionProblem.from_payoffs(rng.uniform(-1, 1, (A, S)))


def always(problem: lr.DecisionProblem) -> Problem:
    return lambda rng: problem


def worth_knowing(problem: lr.DecisionProblem, laws_TxS: np.ndarray) -> float:
    """What the best responses to the laws earn a step, by these, above the best fixed action; in spans."""
    worth_TxA = laws_TxS @ problem.utility.T
    return float(worth_TxA.max(axis=1).mean() - worth_TxA.mean(axis=0).max()) / problem.span


def made(name: str, draw: Draw, problem: Problem, model: Model) -> Stream:
    """Drawn anew, up to twenty times, while the truth is not worth knowing (of the paper's c and d it never is)."""
    rng = np.random.default_rng(seed_of(name))
    for _ in range(20):
        at_stake = problem(rng)
        of = draw(at_stake.n_states, rng)
        if worth_knowing(at_stake, of.laws_TxS) > 0.05:
            break
    return Stream(at_stake, model(of, rng), of.states_T, right=model is the_truth)


def matching(n: int) -> Problem:
    return always(lr.matching(n))


NEWSVENDOR = always(lr.newsvendor(range(10), price=10, cost=6, salvage=1))
CARELESS, CAREFUL = always(lr.cost_loss(cost=60, loss=100)), always(lr.cost_loss(cost=20, loss=100))
TRADING = always(lr.trading([-3, -1, 0, 1, 3], positions=(-2, -1, 0, 1, 2), fee=0.2))

ROWS: dict[tuple[str, str, str], dict[str, tuple[Draw, Problem, Model]]] = {
    ("the paper's a to d", "training", "paper_sources(1024)"): {
        "a, recent": (paper("a"), matching(2), recent),
        "b, the truth": (paper("b"), matching(2), the_truth),
        "c, the truth": (paper("c"), matching(2), the_truth),
        "d, biased": (paper("d"), matching(2), biased),
    },
    ("the paper's waves", "scored", "paper_sources(1024)"): {
        "sin2, recent": (paper("sin2"), matching(2), recent),
        "sin5, the truth": (paper("sin5"), matching(2), the_truth),
        "sin10, biased": (paper("sin10"), matching(2), biased),
        "sin20, the truth": (paper("sin20"), matching(2), the_truth),
    },
    ("chains of order 1", "scored", "laws drawn from Dirichlet(.7)"): {
        "2 states, the truth": (chain(1), CAREFUL, the_truth),
        "3 states, learned": (chain(1), always(lr.rock_paper_scissors()), learned),
        "5 states, biased": (chain(1), matching(5), biased),
    },
    ("chains of order 2", "training", "laws drawn from Dirichlet(.7)"): {
        "2 states, learned": (chain(2), matching(2), learned),
        "3 states, the truth": (chain(2), always(lr.rock_paper_scissors()), the_truth),
        "5 states, learned": (chain(2), matching(5), learned),
    },
    ("two drifting chances", "training", "logarithms walk at .15 a step"): {
        "recent": (drifting, matching(2), recent),
        "of the start": (drifting, matching(2), of_the_start),
    },
    ("four drifting chances", "scored", "logarithms walk at .15 a step"): {
        "ten steps late": (drifting, matching(4), ten_steps_late),
        "of the start": (drifting, matching(4), of_the_start),
    },
    ("seasons of 7", "training", "laws drawn from Dirichlet(.5)"): {
        "3 states, biased": (season(7), random_problem(3, 3), biased),
        "6 states, learned": (season(7), matching(6), learned),
    },
    ("seasons of 24", "scored", "laws drawn from Dirichlet(.5)"): {
        "2 states, learned": (season(24), CAREFUL, learned),
        "6 states, the truth": (season(24), random_problem(5, 6), the_truth),
    },
    ("random problems, 3 x 4", "scored", "uniform payoffs, twelve kinds of steps"): {
        "the truth": (cases, random_problem(3, 4), the_truth),
    },
    ("random problems, 5 x 5", "training", "uniform payoffs, twelve kinds of steps"): {
        "biased": (cases, random_problem(5, 5), biased),
        "learned": (cases, random_problem(5, 5), learned),
    },
    ("random problems, 10 x 8", "training", "uniform payoffs, twelve kinds of steps"): {
        "the truth": (cases, random_problem(10, 8), the_truth),
        "learned": (cases, random_problem(10, 8), learned),
    },
    ("random problems, 20 x 20", "scored", "uniform payoffs, twelve kinds of steps"): {
        "biased": (cases, random_problem(20, 20), biased),
        "learned": (cases, random_problem(20, 20), learned),
    },
    ("newsvendor", "scored", "Poisson by the day of the week, drifting"): {
        "the truth": (demand, NEWSVENDOR, the_truth),
        "learned": (demand, NEWSVENDOR, learned),
    },
    ("cost and loss", "training", "twelve kinds of steps"): {
        "the truth": (cases, CAREFUL, the_truth),
        "learned": (cases, CARELESS, learned),
    },
    ("trading", "training", "chains of order 1, laws drawn from Dirichlet(.7)"): {
        "learned": (chain(1), TRADING, learned),
    },
}

STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    Source(name, half, "drawn", where): {one: partial(made, f"{name}: {one}", *row) for one, row in rows.items()}
    for (name, half, where), rows in ROWS.items()
}
