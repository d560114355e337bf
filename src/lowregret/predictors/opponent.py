"""A predictor for repeated games: what the other side does next, out of both histories, for any two alphabets.

Three ideas, one after the other:

* *Cells.* For each context (the last n moves of both, of the other, of one's own, n up to ``length``) a cell holds
  decayed counts of what **both** did next, at several rates of forgetting. The counts of the other's moves say what
  it will do. The counts of one's own say what it may expect of us, and its payoffs what it would then do.
* *Ranks.* Either is an expert who ranks the other's moves. How often did its k-th favourite come, when it was as sure
  as it is now? These frequencies are taken as its forecast. They make a useful expert of one that is always wrong in
  the same way: an opponent who thinks one step ahead, or two, shows up as another rank.
* *Mixing.* The law is a softmax of the weighted log-probabilities of all experts, whose weights follow the gradient of
  the log-loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import inputs
from ..arrays import Array
from ..problems import DecisionProblem, a_problem

_MOST = 1 << 30  # numbers in all cells: 8 GiB, once every one has been visited
_SURE = np.array([0.5, 0.8])  # an expert is unsure, fairly sure or sure of its favourite


@dataclass(frozen=True)
class OpponentModel:
    """Predicts the other's next move from both histories; ``begin`` opens a match.

    Parameters
    ----------
    length
        Of the longest contexts, in moves.
    keeps
        What is left of the counts in a cell at its next visit, one rate of forgetting each; 1 forgets nothing.
    rank_keeps
        The same for how often each rank was right.
    rate
        Of the gradient steps: it falls with the square root of the moves seen, to no less than a third.
    weight
        The sum of all experts' weights at the beginning.
    cells
        How many contexts have their own cell, all lengths together; beyond that some share one.

    >>> from lowregret import rock_paper_scissors
    >>> reader = OpponentModel().begin(rock_paper_scissors())
    >>> for t in range(60):
    ...     reader.observe(own=t * t % 3, other=t % 3)  # the other goes round
    >>> int(reader.predict().argmax()), bool(reader.predict().max() > 0.9)
    (0, True)
    """

    length: int = 5
    keeps: tuple[float, ...] = (1.0, 0.9, 0.6)
    rank_keeps: float = 0.98
    rate: float = 0.03
    weight: float = 4.0
    cells: int = 2**16

    def __post_init__(self) -> None:
        keeps = tuple(self.keeps) if isinstance(self.keeps, Sequence) and not isinstance(self.keeps, str) else ()
        if not keeps:
            raise ValueError(f"keeps must be a tuple of numbers in (0, 1], got {inputs.shown(self.keeps)}")
        inputs.keep(
            self,
            length=inputs.whole(self.length, "length", least=0, most=64),
            keeps=tuple(_kept(value, "keeps") for value in keeps),
            rank_keeps=_kept(self.rank_keeps, "rank_keeps"),
            rate=inputs.positive(self.rate, "rate"),
            weight=inputs.positive(self.weight, "weight"),
            cells=inputs.whole(self.cells, "cells"),
        )

    def begin(self, problem: DecisionProblem, theirs: Array | None = None) -> "Reader":
        """A reader for one match; ``theirs``: the other's utility ``[S, A]``, by default the opposite of ours."""
        a_problem(problem)
        shape = (problem.n_states, problem.n_actions)
        if theirs is None:
            theirs_SxA = -problem.utility.T
        else:
            theirs_SxA = inputs.numbers_of(theirs, "theirs", f"numbers in [-1, 1], of shape {shape}")
            if theirs_SxA.shape != shape or not (np.abs(theirs_SxA) <= 1).all():
                raise ValueError(f"theirs must be in [-1, 1], of shape {shape}, got {inputs.shown(theirs)}")
        kept = self.cells * len(self.keeps) * sum(shape)
        if kept > _MOST:
            raise ValueError(
                f"cells must leave a match at most {_MOST:,} numbers to keep: {self.cells:,} cells with "
                f"{shape[1]} + {shape[0]} moves and {len(self.keeps)} rates of forgetting need {kept:,}"
            )
        return Reader(self, theirs_SxA)


class Reader:
    """One match, as it is read: ``predict`` the other's next move, then ``observe`` what both did."""

    def __init__(self, mixture: OpponentModel, theirs_SxA: np.ndarray) -> None:
        self.mixture, self._theirs_SxA = mixture, theirs_SxA
        S, A = theirs_SxA.shape
        self.n_states, self.n_actions = S, A
        self._keeps_Rx1, self._prior_S, self._prior_A = np.array(mixture.keeps)[:, None], 1.5 / S, 1.5 / A
        n = mixture.length
        lengths = [(0, 0)] + [pair for k in range(1, n + 1) for pair in ((k, k), (0, k), (k, 0))]
        hashing = np.random.default_rng(0)
        self._factors_Cx2L = hashing.integers(1, 2**62, (len(lengths), 2 * n)).astype(np.uint64) | np.uint64(1)
        for factors, (own, other) in zip(self._factors_Cx2L, lengths, strict=True):
            factors[own:n] = 0
            factors[n + other :] = 0
        self._salt_C = hashing.integers(1, 2**62, len(lengths)).astype(np.uint64)
        R, experts = len(mixture.keeps), 2 * len(lengths) * len(mixture.keeps)
        self._counts_HxRxSA = np.zeros((mixture.cells, R, S + A))
        self._ranks_ExBxS = np.zeros((experts, len(_SURE) + 1, S))
        self._weights_F = np.full(2 * experts, mixture.weight / (2 * experts))
        self._recent_2L = np.zeros(2 * n, dtype=np.uint64)  # the latest first, 0 for none; ours, then the other's
        self._expert_E, self.steps = np.arange(experts), 0
        self._look()

    def predict(self) -> np.ndarray:
        """The law ``[S]`` of the other's next move."""
        return self._law_S.copy()

    def observe(self, own: int, other: int) -> None:
        """What both did."""
        own = inputs.whole(own, "own", least=0, most=self.n_actions - 1)
        other = inputs.whole(other, "other", least=0, most=self.n_states - 1)
        self.steps += 1
        rate = self.mixture.rate * max(self.steps**-0.5, 1 / 3)
        self._weights_F += rate * (self._scores_FxS[:, other] - self._scores_FxS @ self._law_S)
        experts, sure = self._expert_E[self._seen_E], self._sure_E[self._seen_E]
        self._ranks_ExBxS[experts, sure] *= self.mixture.rank_keeps
        self._ranks_ExBxS[experts, sure, self._rank_ExS[self._seen_E, other]] += 1
        counts_CxRxSA = self._counts_HxRxSA[self._cell_C] * self._keeps_Rx1
        counts_CxRxSA[:, :, other] += 1
        counts_CxRxSA[:, :, self.n_states + own] += 1
        self._counts_HxRxSA[self._cell_C] = counts_CxRxSA
        n = self.mixture.length
        if n:
            self._recent_2L[1:] = self._recent_2L[:-1]
            self._recent_2L[0], self._recent_2L[n] = own + 1, other + 1
        self._look()

    def _look(self) -> None:
        """What the cells of the current contexts say about the next move."""
        S = self.n_states
        hashed_C = self._salt_C + self._factors_Cx2L @ self._recent_2L
        hashed_C ^= hashed_C >> np.uint64(29)
        hashed_C *= np.uint64(0xBF58476D1CE4E5B9)
        hashed_C ^= hashed_C >> np.uint64(32)
        self._cell_C = (hashed_C % np.uint64(self.mixture.cells)).astype(np.int64)
        counts_CRxSA = self._counts_HxRxSA[self._cell_C].reshape(-1, S + self.n_actions)
        visits_CRx1 = counts_CRxSA[:, :S].sum(axis=1, keepdims=True)
        law_CRxS = (counts_CRxSA[:, :S] + self._prior_S) / (visits_CRx1 + 1.5)
        ours_CRxA = (counts_CRxSA[:, S:] + self._prior_A) / (visits_CRx1 + 1.5)
        worth_CRxS = ours_CRxA @ self._theirs_SxA.T  # what each of its moves earns it if we do as expected
        likes_ExS = np.concatenate([law_CRxS, worth_CRxS])
        favourite_E = np.concatenate([law_CRxS.max(axis=1), ours_CRxA.max(axis=1)])
        self._seen_E = np.tile(visits_CRx1[:, 0] > 0, 2)
        self._sure_E = np.searchsorted(_SURE, favourite_E)
        self._rank_ExS = np.argsort(np.argsort(-likes_ExS, axis=1, kind="stable"), axis=1)
        came_ExS = self._ranks_ExBxS[self._expert_E, self._sure_E] + 3 / S
        ranked_ExS = np.log(np.take_along_axis(came_ExS, self._rank_ExS, axis=1))
        ranked_ExS[~self._seen_E] = 0.0
        scores_FxS = np.concatenate([ranked_ExS, np.log(law_CRxS), worth_CRxS])
        self._scores_FxS = scores_FxS - scores_FxS.mean(axis=1, keepdims=True)
        total_S = self._weights_F @ self._scores_FxS
        share_S = np.exp(total_S - total_S.max())
        self._law_S = share_S / share_S.sum()


def _kept(value: float, name: str) -> float:
    kept = inputs.positive(value, name)
    if kept > 1:
        raise ValueError(f"{name} must be at most 1, got {inputs.shown(value)}")
    return kept
