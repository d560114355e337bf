"""A break late in a long run is found within days, whatever the model did before it; useful models are mostly kept."""

import numpy as np
import pytest
from scipy.stats import binom

import lowregret as lr
from lowregret.rules import FirstTest

T, N, BREAK = 5000, 60, 4000
COIN, THREE, RPS = lr.matching(), lr.matching(3), lr.rock_paper_scissors()


def laws(*probs: float) -> lr.predictors.Scheduled:
    return lr.predictors.Scheduled([probs])


def broken(model: lr.Predictor, truth: lr.Predictor) -> np.ndarray:
    """Right for four fifths of the time; both are of independent tokens."""
    before, after = lr.sample(model, BREAK, N, seed=1), lr.sample(truth, T - BREAK, N, seed=2)
    return np.concatenate([before, after], axis=-1)


@pytest.mark.parametrize(
    ("problem", "model", "truth", "within"),
    [
        (COIN, laws(0.4, 0.6), laws(0.6, 0.4), 300),
        (COIN, laws(0.1, 0.9), laws(0.6, 0.4), 80),
        (THREE, laws(0.5, 0.3, 0.2), laws(0.2, 0.3, 0.5), 100),
        (RPS, laws(0.5, 0.3, 0.2), laws(0.2, 0.3, 0.5), 100),
    ],
)
def test_a_break_at_four_fifths_is_found(
    problem: lr.DecisionProblem, model: lr.Predictor, truth: lr.Predictor, within: int
) -> None:
    """The median delay is at most ``within``: else this count would come once in ten thousand times."""
    tokens = broken(model, truth)
    probs = model.predict_sequence(tokens)
    trips = lr.ExactTest(problem, T).trip_times(probs, tokens)
    found = int(((trips > BREAK) & (trips <= BREAK + within)).sum())
    assert binom.sf(found - 1, N, 0.5) < 1e-4, f"{found} of {N}"
    assert (FirstTest(problem, T).trip_times(probs, tokens) > T).all(), "the first version finds none of these"


def test_a_miscalibrated_model_that_is_useful_is_mostly_kept() -> None:
    """Says .9 where .7 is right: an alarm in at most .15 of the runs, else so many would come once in a thousand."""
    model, truth = laws(0.1, 0.9), laws(0.3, 0.7)
    tokens = lr.sample(truth, T, 200, seed=3)
    trips = lr.ExactTest(COIN, T).trip_times(model.predict_sequence(tokens), tokens)
    alarms = int((trips <= T).sum())
    assert binom.sf(alarms - 1, 200, 0.15) > 1e-3, f"{alarms} of 200"
