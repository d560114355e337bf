"""The mixture for repeated games against a loop that follows its description, and what it makes of known opponents."""

import math

import numpy as np
import pytest

import lowregret as lr
from lowregret.predictors import OpponentModel


def literal_laws(mixture: OpponentModel, theirs: list[list[float]], moves: list[tuple[int, int]]) -> list[list[float]]:
    """The law before each round and after the last, with cells in dictionaries and one number at a time."""
    S, A = len(theirs), len(theirs[0])
    kinds = [(0, 0)] + [pair for n in range(1, mixture.length + 1) for pair in ((n, n), (0, n), (n, 0))]
    cells: dict = {}
    tallies: dict = {}
    weights: dict = {}
    experts = [(side, kind, r) for side in ("other", "own") for kind in kinds for r in range(len(mixture.keeps))]
    first = mixture.weight / (2 * len(experts))
    laws: list[list[float]] = []

    def context(t: int, kind: tuple[int, int]) -> tuple:
        own, other = kind
        look = [moves[i] if i >= 0 else (None, None) for i in range(t - mixture.length, t)]
        return kind, tuple(m[0] for m in look[len(look) - own :]), tuple(m[1] for m in look[len(look) - other :])

    for t in range(len(moves) + 1):
        features: dict = {}
        ranks: dict = {}
        for side, kind, r in experts:
            others, owns = cells.get((context(t, kind), r), ([0.0] * S, [0.0] * A))
            visits = sum(others)
            law = [(count + 1.5 / S) / (visits + 1.5) for count in others]
            ours = [(count + 1.5 / A) / (visits + 1.5) for count in owns]
            worth = [sum(ours[a] * theirs[s][a] for a in range(A)) for s in range(S)]
            likes, sure = (law, max(law)) if side == "other" else (worth, max(ours))
            order = sorted(range(S), key=lambda s: -likes[s])
            level = sum(sure > edge for edge in (0.5, 0.8))
            tally = tallies.get((side, kind, r, level), [0.0] * S)
            ranked = [math.log(tally[order.index(s)] + 3 / S) if visits else 0.0 for s in range(S)]
            said = [math.log(p) for p in law] if side == "other" else worth
            for what, scores in (("ranked", ranked), ("said", said)):
                features[what, side, kind, r] = [score - sum(scores) / S for score in scores]
            if visits:
                ranks[side, kind, r] = (level, order)
        total = [sum(weights.get(e, first) * scores[s] for e, scores in features.items()) for s in range(S)]
        raised = [math.exp(value - max(total)) for value in total]
        laws.append([value / sum(raised) for value in raised])
        if t == len(moves):
            return laws
        own, other = moves[t]
        rate = mixture.rate * max((t + 1) ** -0.5, 1 / 3)
        for e, scores in features.items():
            mean = sum(p * score for p, score in zip(laws[-1], scores, strict=True))
            weights[e] = weights.get(e, first) + rate * (scores[other] - mean)
        for (side, kind, r), (level, order) in ranks.items():
            tally = [mixture.rank_keeps * count for count in tallies.get((side, kind, r, level), [0.0] * S)]
            tally[order.index(other)] += 1
            tallies[side, kind, r, level] = tally
        for kind in kinds:
            for r, keep in enumerate(mixture.keeps):
                others, owns = cells.get((context(t, kind), r), ([0.0] * S, [0.0] * A))
                others, owns = [keep * count for count in others], [keep * count for count in owns]
                others[other] += 1
                owns[own] += 1
                cells[context(t, kind), r] = (others, owns)
    return laws


@pytest.mark.parametrize(("A", "S", "length"), [(3, 3, 2), (2, 4, 1), (4, 2, 3), (3, 3, 0)])
def test_it_is_what_the_description_says(A: int, S: int, length: int) -> None:
    rng = np.random.default_rng(A * S)
    problem = lr.DecisionProblem(rng.uniform(-1, 1, (A, S)))
    mixture = OpponentModel(length=length, keeps=(1.0, 0.7), cells=2**20)
    theirs = rng.uniform(-1, 1, (S, A))
    moves = [(int(rng.integers(A)), int(rng.integers(S))) for _ in range(40)]
    moves += [(t % A, (t * t) % S) for t in range(40)]
    reader = mixture.begin(problem, theirs)
    found = [reader.predict()]
    for own, other in moves:
        reader.observe(own, other)
        found.append(reader.predict())
    np.testing.assert_allclose(found, literal_laws(mixture, theirs.tolist(), moves), atol=1e-9)


def test_without_their_payoffs_the_game_is_zero_sum() -> None:
    problem = lr.rock_paper_scissors()
    told, untold = OpponentModel().begin(problem, -problem.utility.T), OpponentModel().begin(problem)
    for t in range(30):
        told.observe(t % 2, t % 3)
        untold.observe(t % 2, t % 3)
    assert told.predict().tolist() == untold.predict().tolist()


def test_few_cells_still_give_laws() -> None:
    reader = OpponentModel(cells=3).begin(lr.matching(5))
    for t in range(50):
        reader.observe(t % 5, (t * t) % 5)
        assert abs(reader.predict().sum() - 1) < 1e-12
        assert reader.predict().min() > 0


def test_whoever_answers_our_last_move_is_found_out_though_its_moves_are_uniform() -> None:
    """Of its own history alone nothing can be learnt: it beats what we did last, and we throw dice."""
    reader = OpponentModel().begin(lr.rock_paper_scissors())
    throws = np.random.default_rng(0).integers(0, 3, 301)
    right = 0
    for last, now in zip(throws[:-1].tolist(), throws[1:].tolist(), strict=True):
        other = (last + 1) % 3
        right += int(reader.predict().argmax()) == other
        reader.observe(now, other)
    assert right > 260


def test_whoever_is_a_step_ahead_is_found_out_by_what_it_expects_of_us() -> None:
    """It beats the move that we made most after the same last move of ours: no count of its own moves says which."""
    rng = np.random.default_rng(1)
    reader = OpponentModel().begin(lr.rock_paper_scissors())
    after = np.zeros((3, 3))
    last, right = 0, []
    for _ in range(600):
        other = (int(after[last].argmax()) + 1) % 3
        right.append(int(reader.predict().argmax()) == other)
        own = int(rng.integers(3))
        after[last] *= 0.9
        after[last, own] += 1
        reader.observe(own, other)
        last = own
    assert np.mean(right[300:]) > 0.75  # 1/3 by chance


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"length": -1}, "length"),
        ({"length": 1.5}, "length"),
        ({"keeps": ()}, "keeps"),
        ({"keeps": (1.1,)}, "keeps"),
        ({"keeps": 0.5}, "keeps"),
        ({"rank_keeps": 0.0}, "rank_keeps"),
        ({"rate": float("nan")}, "rate"),
        ({"weight": -1.0}, "weight"),
        ({"cells": 0}, "cells"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(settings: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        OpponentModel(**settings)


def test_moves_that_are_none_are_refused_and_change_nothing() -> None:
    reader = OpponentModel().begin(lr.rock_paper_scissors())
    before = reader.predict()
    for own, other, named in [(3, 0, "own"), (0, 3, "other"), (-1, 0, "own"), (0, 1.5, "other"), (0, None, "other")]:
        with pytest.raises(ValueError, match=named):
            reader.observe(own, other)  # type: ignore[arg-type]
    assert reader.predict().tolist() == before.tolist()
    assert reader.steps == 0
    # Payoffs of millions would make laws of zeros and ones.
    for theirs in (np.zeros((2, 3)), -1e6 * np.eye(3), np.full((3, 3), np.nan), "rock", [[1], [2, 3]]):
        with pytest.raises(ValueError, match=r"theirs must be .*in \[-1, 1\], of shape \(3, 3\)"):
            OpponentModel().begin(lr.rock_paper_scissors(), theirs)
    with pytest.raises(ValueError, match=r"cells must leave .*: 1,099,511,627,776 cells with 3 \+ 3 moves"):
        OpponentModel(cells=2**40).begin(lr.rock_paper_scissors())
