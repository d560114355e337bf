"""The second bettor, on the mixture: useful models are kept, what no fixed action can show is found."""

import itertools

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.engine import Inputs

from ..literal_theorem import by_prefix, chance_of, some_forecasts, some_game


def alarm_steps(guard: lr.Guard, laws_NxTxS: np.ndarray, states_NxT: np.ndarray) -> np.ndarray:
    """``[N]``, one more than there are for none."""
    alarm_NxT = guard.engine.run(guard.engine.start(len(states_NxT)), Inputs(laws_NxTxS), states_NxT).alarm_NxT
    found: np.ndarray = np.where(alarm_NxT.any(axis=1), alarm_NxT.argmax(axis=1), alarm_NxT.shape[1]) + 1
    return found


@pytest.mark.parametrize(("says", "true"), [(0.9, 0.7), (0.8, 0.65)])
def test_models_that_are_miscalibrated_but_useful_are_kept(says: float, true: float) -> None:
    """The notes have 1 to 5 in a hundred; at most a tenth is asked for. Turned round, they are found."""
    T, N, rng = 400, 60, np.random.default_rng(11)
    which = rng.integers(2, size=(N, T))
    laws = np.where(np.arange(2) == which[..., None], says, 1 - says)
    states = np.where(rng.random((N, T)) < true, which, 1 - which)
    guard = lr.Guard(lr.matching(), test=lr.ExactTest(0.05, T))
    assert (alarm_steps(guard, laws, states) <= T).sum() <= stats.binom.ppf(1 - 1e-3, N, 0.1)
    assert (alarm_steps(guard, laws[:, :100], 1 - states[:, :100]) <= 100).all()


def test_two_of_three_states_taken_for_each_other_are_found() -> None:
    """Such a model is as good as any fixed action, and half as good as it was."""
    T, N, rng = 400, 30, np.random.default_rng(2)
    which = rng.integers(3, size=(N, T))
    laws = np.where(np.arange(3) == which[..., None], 0.8, 0.1)
    true = np.where(rng.random((N, T)) < 0.7, which, rng.integers(3, size=(N, T)))
    states = np.where(np.arange(T) < T // 2, true, np.array([1, 0, 2])[true])
    found = alarm_steps(lr.Guard(lr.matching(3), test=lr.ExactTest(0.05, T)), laws, states)
    assert (found > T // 2).all()
    assert np.median(found) - T // 2 < 100


@pytest.mark.parametrize("seed", range(6))
def test_bets_on_actions_alone_alarm_in_half_of_delta_while_the_advice_is_right(seed: int) -> None:
    """However wrong the probabilities: all sequences, under laws at which the advice is just still a best response."""
    rng, T, delta = np.random.default_rng(seed), 9, 0.8
    problem = lr.matching() if seed == 0 else some_game(rng, 3, 2)
    states = np.array(list(itertools.product(range(2), repeat=T)))
    stated = [some_forecasts(rng, (2**t,), 2, zeros=False) for t in range(T)]
    truth = [barely(problem, table, rng) for table in stated]
    guard = lr.Guard(problem, test=lr.ExactTest(delta, T if seed % 2 else None))
    engine, is_alone = guard.engine, np.zeros(len(states), dtype=bool)
    rows, laws = engine.start(len(states)), by_prefix(stated, states)
    for t in range(T):
        step = engine.advise(rows, t + 1, Inputs(laws[:, t]))
        rows, _ = engine.observe(rows, t + 1, step, states[:, t])
        is_alone |= engine.of_class(rows, 0).actors >= guard.setting.watch.threshold
    chance = float(chance_of(by_prefix(truth, states), states) @ is_alone)
    assert chance <= delta / 2 + 1e-12
    assert seed or chance > 0.4 * delta / 2


def barely(problem: lr.DecisionProblem, laws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A law next to one to which another action is best, if there is any."""
    p_G = np.linspace(0, 1, 2001)
    best_G = (np.stack([1 - p_G, p_G], axis=-1) @ problem.utility.T).argmax(axis=-1)
    ends = []
    for action in (laws @ problem.utility.T).argmax(axis=-1):
        both = p_G[best_G == action][[0, -1]]
        inner = both[(both > 0) & (both < 1)]
        ends.append(rng.choice(inner if len(inner) else both))
    return np.stack([1 - np.array(ends), ends], axis=-1)
