"""What a rule remembers of histories that come in any row, order and company (Algorithm 1): found by their states."""

from collections import OrderedDict
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ..arrays import to_numpy
from ..memory import each, end_to_end, take
from ..predictors import Predictor
from ..rules import Rule, RuleMemory


class Block(NamedTuple):
    """Histories of one length, side by side."""

    memory: RuleMemory  # [N]
    law_NxS: np.ndarray | None  # what the model said next; None where it was not asked
    decided_N: np.ndarray  # of their states so far, how many the model itself decided


class Histories:
    """Looked up by the whole history, never by a row; one of which no beginning is known is read by the model again.

    Parameters
    ----------
    base
        Who reads it, in one pass.
    keep
        How many are remembered; the oldest go first.
    """

    def __init__(self, rule: Rule, base: Predictor, keep: int) -> None:
        self.rule, self.base, self.keep = rule, base, keep
        self.held: OrderedDict[bytes, tuple[Block, int]] = OrderedDict()
        self.rebuilt = 0

    def after(self, states_NxT: np.ndarray) -> Block:
        """What the rule remembers after the states: from what was said before the last one, else from the model."""
        N, T = states_NxT.shape
        if T == 0:
            return Block(self.rule.start((N,)), None, np.zeros(N))
        parents = [self._asked_after(row[:-1]) for row in states_NxT]
        # From what came before even where a history is known itself: the model may have been asked again since.
        begun = [i for i in range(N) if parents[i] is not None]
        parts = [self._advanced(self._gathered([parents[i] for i in begun]), states_NxT[begun, -1])] if begun else []
        if len(begun) == N:
            return parts[0]
        others = [i for i in range(N) if parents[i] is None]
        read: dict[bytes, Any] = {}  # the same history may stand in several rows
        for i in others:
            key = states_NxT[i].tobytes()
            known = self.held.get(key) or read.get(key)
            read[key] = (self._rebuilt(states_NxT[i]), 0) if known is None else known
            parts.append(self._gathered([read[key]]))
        return _chosen(_side_by_side(parts), np.argsort([*begun, *others]))

    def law(self, block: Block, law_NxS: np.ndarray) -> np.ndarray:
        """The law in force ``[N, S]``, where the model says ``law_NxS``."""
        if len(law_NxS) > 1:
            return to_numpy(self.rule.law(block.memory, law_NxS))
        return to_numpy(self.rule.law(each(block.memory, _first), law_NxS[0]))[None]

    def remember(self, states_NxT: np.ndarray, block: Block, law_NxS: np.ndarray | None = None) -> list[int]:
        """Keep them, with what the model says next; the rows that are seen for the first time to have switched."""
        block, T = block._replace(law_NxS=law_NxS), states_NxT.shape[1]
        tripped_N, news = block.memory.tripped_at, []
        for i, row in enumerate(states_NxT):
            key = row.tobytes()
            fresh = key not in self.held
            if fresh and tripped_N[i] and (tripped_N[i] == T or row[:-1].tobytes() not in self.held):
                news.append(i)
            if fresh or law_NxS is not None:
                self.held[key] = block, i
            self.held.move_to_end(key)
        while len(self.held) > self.keep:
            self.held.popitem(last=False)
        return news

    def wrote(self, states_T: np.ndarray) -> bool:
        """Whether the last of these states was asked for here; what was said of it then stays known a while longer."""
        if len(states_T) == 0 or self._asked_after(states_T[:-1]) is None:
            return False
        self.held.move_to_end(states_T[:-1].tobytes())
        return True

    def _asked_after(self, states_T: np.ndarray) -> tuple[Block, int] | None:
        """Where a history is held together with what the model said next."""
        found = self.held.get(states_T.tobytes())
        return None if found is None or found[0].law_NxS is None else found

    def _gathered(self, places: list[Any]) -> Block:
        """Histories from wherever they are held, in this order; nothing is copied where they are a block already."""
        runs = [list(run) for _, run in groupby(places, key=lambda place: id(place[0]))]
        return _side_by_side([_chosen(run[0][0], np.array([i for _, i in run])) for run in runs])

    def _advanced(self, block: Block, state_N: np.ndarray) -> Block:
        memory, law_NxS, rule = block.memory, block.law_NxS, self.rule
        assert law_NxS is not None
        own_N = rule.share(memory) if memory.tripped_at.any() else 1.0
        if len(state_N) > 1:
            after = rule.advance(memory, rule.look(memory, law_NxS), state_N)
        else:  # the batch of one is what is mostly asked for, and one stream alone is quicker
            alone, law_S = each(memory, _first), law_NxS[0]
            after = each(rule.advance(alone, rule.look(alone, law_S), state_N[0]), _as_batch)
        return Block(after, None, block.decided_N + own_N)

    def _rebuilt(self, states_T: np.ndarray) -> Block:
        """Everything again from the tokens: one pass of the model over all of them."""
        self.rebuilt += 1
        laws_TxS = np.asarray(to_numpy(self.base.predict_sequence(states_T)), dtype=np.float64)
        block = Block(self.rule.start((1,)), None, np.zeros(1))
        for state, law_S in zip(states_T, laws_TxS, strict=True):
            block = self._advanced(block._replace(law_NxS=law_S[None]), state[None])
        return block


def _first(leaf: Any) -> Any:
    return leaf[0]


def _as_batch(leaf: Any) -> np.ndarray:
    return np.asarray(leaf)[None]


def _chosen(block: Block, rows: np.ndarray) -> Block:
    if np.array_equal(rows, np.arange(len(block.decided_N))):
        return block
    law_NxS = None if block.law_NxS is None else block.law_NxS[rows]
    return Block(take(block.memory, rows), law_NxS, block.decided_N[rows])


def _side_by_side(blocks: list[Block]) -> Block:
    """One block of several; what the model said stays only where it is known of all."""
    if len(blocks) == 1:
        return blocks[0]
    laws = [block.law_NxS for block in blocks if block.law_NxS is not None]
    law_NxS = np.concatenate(laws) if len(laws) == len(blocks) else None
    memory = end_to_end([block.memory for block in blocks])
    return Block(memory, law_NxS, np.concatenate([block.decided_N for block in blocks]))
