"""``python -m benchmarks.breaks``: how long a break takes to be found by the day it comes, and what an alarm costs.

Three tables, all seeds fixed. The first: a model that is right until a day and wrong from then on, T = 5000, the median
number of steps from the break to the alarm: of the first test and of bets on actions alone (quantal responses, delta
1/T), and of a ``Guard`` as it is (best responses, two kinds of bettors, delta .05). The second: models that are
miscalibrated all along and useful all the same, how often each test calls an alarm, and what that costs (a right guess
earns 1; at rock-paper-scissors a win 1, a loss -1). The third: the same alarms of bets on actions at other top rates.
"""

import argparse
from typing import NamedTuple

import numpy as np

import lowregret as lr
from lowregret.rules import FirstTest, exact
from lowregret.tables import Table

T = 5000
WHEN = (0.1, 0.5, 0.8)
TESTS = ("first", "new", "guard")


class Case(NamedTuple):
    problem: lr.DecisionProblem
    model: lr.Predictor
    truth: lr.Predictor  # from the break on, or all along


def coin(chance: float) -> lr.Predictor:
    return lr.predictors.Scheduled([[1 - chance, chance]])


def stays(chance: float) -> lr.Predictor:
    """A two-state chain that stays where it is with this chance."""
    return lr.Markov([[chance, 1 - chance], [1 - chance, chance]], 1)


def law(*probs: float) -> lr.Predictor:
    return lr.predictors.Scheduled([probs])


MATCHING, THREE, RPS = lr.matching(), lr.matching(3), lr.rock_paper_scissors()
BREAKS = {
    "matching, .6 -> .4": Case(MATCHING, coin(0.6), coin(0.4)),
    "matching, .9 -> .4": Case(MATCHING, coin(0.9), coin(0.4)),
    "matching, three states": Case(THREE, law(0.5, 0.3, 0.2), law(0.2, 0.3, 0.5)),
    "rock-paper-scissors": Case(RPS, law(0.5, 0.3, 0.2), law(0.2, 0.3, 0.5)),
    "Markov, stays .8 -> .35": Case(MATCHING, stays(0.8), stays(0.35)),
}
USEFUL = {
    "matching, says .9, is .7": Case(MATCHING, coin(0.9), coin(0.7)),
    "matching, says .9, is .55": Case(MATCHING, coin(0.9), coin(0.55)),
    "Markov, says .95, is .75": Case(MATCHING, stays(0.95), stays(0.75)),
    "rock-paper-scissors, says .8, is .5": Case(RPS, law(0.8, 0.1, 0.1), law(0.5, 0.25, 0.25)),
}


def broken(case: Case, at: int, n: int, seed: int) -> np.ndarray:
    """States ``[n, T]``: from the model before step ``at``, from the truth from then on, which knows the whole past."""
    rng = np.random.default_rng(seed)
    before = lr.sample(case.model, T, n, rng)
    memory, after, uniforms_nxT = case.truth.start((n,)), [], rng.random((n, T))
    for t in range(T):
        drawn = (case.truth.predict(memory).cumsum(-1)[:, :-1] <= uniforms_nxT[:, t, None]).sum(-1)
        after.append(before[:, t] if t < at else drawn)
        memory = case.truth.update(memory, after[-1])
    return np.stack(after, axis=-1)


def delays(case: Case, at: int, n: int, seed: int) -> dict[str, tuple[float, float]]:
    """For each test the median delay (infinite: half of the breaks or more are not found) and the share found."""
    tokens = broken(case, at, n, seed)
    probs, found = case.model.predict_sequence(tokens), {}
    for name, rule in tests(case.problem).items():
        trips = rule.trip_times(probs, tokens)
        trips = trips[trips > at]  # the others were false alarms, of which there are delta n
        late = np.where(trips > T, np.inf, trips - at)
        found[name] = float(np.median(late)), float(np.isfinite(late).mean())
    return found


def tests(problem: lr.DecisionProblem) -> dict[str, lr.ExactTest]:
    guard: lr.ExactTest = lr.Guard(problem, T).rule  # type: ignore[assignment]
    return {"first": FirstTest(problem, T, 1 / T), "new": lr.ExactTest(problem, T, 1 / T), "guard": guard}


def cost_of_alarms(case: Case, n: int, seed: int) -> dict[str, tuple[float, float]]:
    """For each player: how often it switched, and what it earned a step."""
    tokens = lr.sample(case.truth, T, n, seed)
    probs = case.model.predict_sequence(tokens)
    new = lr.ExactTest(case.problem, T, 1 / T)
    one_way = lr.ExactTest(case.problem, T, 1 / T, fallback=lr.PolyaUrn(case.problem.n_states))
    rules = {"first": FirstTest(case.problem, T, 1 / T), "new": new, "one-way": one_way}
    earned = {"model": (0.0, earnings(case.problem, probs, tokens))}
    for name, rule in rules.items():
        laws, trips = rule.replaced(probs, tokens)
        earned[name] = float((trips <= T).mean()), earnings(case.problem, laws, tokens)
    return earned


def earnings(problem: lr.DecisionProblem, laws: np.ndarray, tokens: np.ndarray) -> float:
    played = problem.quantal_response(laws, T**-0.5)
    return float((played * np.moveaxis(problem.utility[:, tokens], 0, -1)).sum(-1).mean())


def delay_table(n: int) -> Table:
    rows = []
    for name, case in BREAKS.items():
        cells = []
        for share in WHEN:
            found = delays(case, int(share * T), n, seed=int(share * 100))
            cells += [_delay(*found[test]) for test in TESTS]
        rows.append((name, *cells))
    header = ("break", *(f"{test}, {share:.0%}" for share in WHEN for test in TESTS))
    title = f"Median steps from the break to the alarm (found), T = {T}, {n} sequences each"
    return Table(title, header, tuple(rows))


def _delay(median: float, found: float) -> str:
    return ("never" if np.isinf(median) else f"{median:.0f}") + ("" if found == 1 else f" ({found:.0%})")


def useful_table(n: int) -> Table:
    rows = []
    for seed, (name, case) in enumerate(USEFUL.items()):
        found = cost_of_alarms(case, n, seed)
        alarms = (f"{found[test][0]:.2f}" for test in ("first", "new"))
        rows.append((name, *alarms, *(f"{found[player][1]:.4f}" for player in ("model", "first", "new", "one-way"))))
    header = ("model", "P(alarm) first", "new", "earns model", "first", "new", "new, one-way urn")
    title = f"Miscalibrated but useful: alarms within {T} steps, delta = 1/T, and what is earned a step, {n} sequences"
    return Table(title, header, tuple(rows))


def top_rate_table(n: int) -> Table:
    """How often the new test alarms on these models if it bets at rates up to 1/J, 2/J and 4/J."""
    rows, usual = [], exact.TOP
    for name, case in USEFUL.items():
        tokens = lr.sample(case.truth, T, n, seed=11)
        probs, shares = case.model.predict_sequence(tokens), []
        for exact.TOP in (1.0, 2.0, 4.0):
            shares.append(float((lr.ExactTest(case.problem, T, 1 / T).trip_times(probs, tokens) <= T).mean()))
        exact.TOP = usual
        rows.append((name, *(f"{share:.2f}" for share in shares)))
    return Table(f"P(alarm) by top rate, {n} sequences", ("model", "1/J", "2/J", "4/J"), tuple(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--useful", type=int, default=100, help="sequences of the second table")
    asked = parser.parse_args()
    print(delay_table(asked.sequences), end="\n\n")
    print(useful_table(asked.useful), end="\n\n")
    print(top_rate_table(asked.sequences))
