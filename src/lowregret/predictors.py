"""Who predicts (Section 2.1): three functions over a memory that is a plain value, and the urn of Equation (1)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from . import inputs
from .arrays import (
    Array,
    astype,
    came,
    constant,
    count_up,
    device,
    float_type,
    last,
    namespace,
    read_only,
    running_sum,
    total,
)


@runtime_checkable
class Predictor(Protocol):
    """What every predictor can do. Inherit from it to get the teacher-forced form for free.

    ``memory`` is a NamedTuple of arrays led by the batch axes; it is never changed in place.
    """

    n_states: int

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> Any:
        """The memory before the first token; ``like`` gives the kind of array and its device."""
        ...

    def predict(self, memory: Any) -> Array:
        """The law of the next token, ``[..., S]``."""
        ...

    def update(self, memory: Any, token: Array) -> Any:
        """The memory after one more token ``[...]``."""
        ...

    def predict_sequence(self, tokens: Array) -> Array:
        """``probs[..., T, S]`` for ``tokens[..., T]``; ``probs[..., t, :]`` has seen only ``tokens[..., :t]``."""
        return unroll(self, tokens)


def unroll(predictor: Predictor, tokens: Array) -> Array:
    """The teacher-forced form of any predictor, step by step."""
    tokens = inputs.sequences_of(tokens, predictor.n_states)
    xp = namespace(tokens)
    memory = predictor.start(tuple(tokens.shape[:-1]), like=tokens)
    laws = []
    for t in range(tokens.shape[-1]):
        laws.append(predictor.predict(memory))
        if t + 1 < tokens.shape[-1]:
            memory = predictor.update(memory, tokens[..., t])
    return xp.stack(laws, axis=-2)


class UrnMemory(NamedTuple):
    counts: Array  # [..., S], in floating point
    seen: Array  # [...], tokens so far


@dataclass(frozen=True)
class PolyaUrn(Predictor):
    """Equation (1): the next token is as likely as it was frequent, after ``prior`` sightings of every state.

    Quantal responses to it have low regret on every sequence (Lemma 2.3), which makes it the default fallback.

    >>> urn = PolyaUrn(2)
    >>> urn.predict_sequence([1, 1, 0])[:, 1].round(3).tolist()
    [0.5, 0.667, 0.75]
    """

    n_states: int
    prior: float = 1.0

    def __post_init__(self) -> None:
        inputs.whole(self.n_states, "n_states")
        inputs.positive(self.prior, "prior")

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> UrnMemory:
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        counts_S = xp.full((self.n_states, *shape), float(self.prior), dtype=float_type(xp, where), device=where)
        return UrnMemory(last(counts_S), xp.zeros(shape, dtype=xp.int64, device=where))

    def predict(self, memory: UrnMemory) -> Array:
        return memory.counts / (memory.seen + self.n_states * self.prior)[..., None]

    def update(self, memory: UrnMemory, token: Array) -> UrnMemory:
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.seen.shape), like=memory.seen)
        return UrnMemory(memory.counts + last(came(token, self.n_states)), memory.seen + 1)

    def predict_sequence(self, tokens: Array) -> Array:
        return self.laws(inputs.sequences_of(tokens, self.n_states))

    def laws(self, tokens: Array) -> Array:
        """``predict_sequence`` without its checks."""
        xp = namespace(tokens)
        dtype = float_type(xp, device(tokens))
        whole = xp.astype(count_up(tokens, 0, tokens.shape[-1]), dtype) + self.n_states * self.prior
        laws = []
        for count in counts_before(tokens, self.n_states):
            law = xp.astype(count, dtype)
            law += self.prior  # in place: these arrays are the size of the input
            law /= whole
            laws.append(law)
        return last(xp.stack(laws))

    def law_of_counts(self, counts: Array) -> Array:
        """The law of the next token after these counts of each state, ``[..., S] -> [..., S]``."""
        counts = astype(counts, float_type(namespace(counts), device(counts)))
        seen = namespace(counts).sum(counts, axis=-1)
        return (counts + self.prior) / (seen + self.n_states * self.prior)[..., None]

    def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> float | None:
        """What quantal responses to the urn lose at most: Lemma 2.3 with its constants (None: nothing is known)."""
        from . import certificates

        if temperature is None:
            return certificates.urn_anytime(problem, horizon) if self.prior == 1 else None
        return certificates.lemma_2_3(problem, horizon, temperature, self.prior)


def counts_before(tokens: Array, n_states: int) -> list[Array]:
    """How often each state came before each step, ``[..., T]`` each: as integers, which add up fastest."""
    xp, seen, counts = namespace(tokens), count_up(tokens, 0, tokens.shape[-1]), []
    for state in range(n_states - 1):
        hit = xp.astype(tokens == state, xp.int64)
        counts.append(running_sum(hit) - hit)
    # The last state has what the others leave.
    return [*counts, seen - total(counts) if counts else xp.broadcast_to(seen, tokens.shape)]


class StepMemory(NamedTuple):
    step: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class Scheduled(Predictor):
    """Independent tokens with a law for each step, ``probs_TxS``; the last law holds for ever after.

    >>> Scheduled([[0.9, 0.1], [0.2, 0.8]]).predict_sequence([0, 0, 0])[:, 1].tolist()
    [0.1, 0.8, 0.8]
    """

    probs_TxS: Any
    n_states: int = field(init=False)

    def __post_init__(self) -> None:
        table = inputs.table_of(self.probs_TxS, "probs_TxS")
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"probs_TxS must have shape [steps, states] with at least one of each, got {table.shape}")
        table = inputs.probs_of(table, table.shape[1], "probs_TxS")
        table.setflags(write=False)
        object.__setattr__(self, "probs_TxS", table)
        object.__setattr__(self, "n_states", int(table.shape[1]))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(read_only(state))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> StepMemory:
        xp = namespace(like)
        return StepMemory(xp.zeros(inputs.batch_shape_of(batch_shape), dtype=xp.int64, device=device(like)))

    def predict(self, memory: StepMemory) -> Array:
        xp = namespace(memory.step)
        return rows(constant(self.probs_TxS, memory.step), xp.clip(memory.step, 0, len(self.probs_TxS) - 1))

    def update(self, memory: StepMemory, token: Array) -> StepMemory:
        inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.step.shape))
        return StepMemory(memory.step + 1)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        xp = namespace(tokens)
        at = xp.clip(count_up(tokens, 0, tokens.shape[-1]), 0, len(self.probs_TxS) - 1)
        law_TxS = rows(constant(self.probs_TxS, tokens), at)
        return xp.broadcast_to(law_TxS, (*tokens.shape, self.n_states))

    def law_of_counts(self, counts: Array) -> Array:
        """The law of the next token after these counts of each state: their sum is the step, nothing else matters."""
        return self.predict(StepMemory(namespace(counts).sum(counts, axis=-1)))


class HistoryMemory(NamedTuple):
    history: Array  # [..., t]
    seen: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class FromFunction(Predictor):
    """Any function of the history: ``fn(history[t]) -> [S]``, or with ``batched`` ``fn(history[B, t]) -> [B, S]``.

    ``history`` is an array of the tokens so far, oldest first, empty at the first step: ask ``len(history)``.

    >>> echo = FromFunction(lambda history: [0.5, 0.5] if len(history) == 0 else np.eye(2)[history[-1]], n_states=2)
    >>> echo.predict_sequence([1, 0, 0])[:, 1].tolist()
    [0.5, 1.0, 0.0]
    """

    fn: Callable[[Any], Any]
    n_states: int
    batched: bool = False

    def __post_init__(self) -> None:
        inputs.whole(self.n_states, "n_states")
        if not callable(self.fn):
            raise ValueError(f"fn must be a function of the history, got {self.fn!r}")

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> HistoryMemory:
        xp = namespace(like)
        shape, where = inputs.batch_shape_of(batch_shape), device(like)
        history = xp.zeros((*shape, 0), dtype=xp.int64, device=where)
        return HistoryMemory(history, xp.zeros(shape, dtype=xp.int64, device=where))

    def predict(self, memory: HistoryMemory) -> Array:
        history = memory.history
        xp, shape = namespace(history), tuple(history.shape[:-1])
        flat = xp.reshape(history, (int(np.prod(shape, dtype=np.int64)), history.shape[-1]))
        if self.batched:
            laws = self._array(self.fn(flat), history)
            laws = inputs.probs_of(laws, self.n_states, "what fn returned", shape=(flat.shape[0],))
        elif flat.shape[0] == 0:
            laws = xp.zeros((0, self.n_states), dtype=float_type(xp, device(history)), device=device(history))
        else:
            each = [self._array(self.fn(flat[i]), history) for i in range(flat.shape[0])]
            laws = xp.stack([inputs.probs_of(law, self.n_states, "what fn returned", shape=()) for law in each])
        return xp.reshape(laws, (*shape, self.n_states))

    def update(self, memory: HistoryMemory, token: Array) -> HistoryMemory:
        xp, seen = namespace(memory.history), memory.seen
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(seen.shape), like=seen)
        return HistoryMemory(xp.concat([memory.history, xp.astype(token, xp.int64)[..., None]], axis=-1), seen + 1)

    @staticmethod
    def _array(law: Any, like: Array) -> Array:
        xp = namespace(like)
        if xp is np or namespace(law) is not np:
            return law
        return xp.asarray(np.asarray(law, dtype=np.float64), device=device(like))


def rows(table_RxS: Array, index: Array) -> Array:
    """``table[index]``: a row of the table for every entry of the index, of any shape."""
    xp = namespace(table_RxS)
    if xp is np:
        return table_RxS[index]
    flat = xp.take(table_RxS, xp.reshape(index, (-1,)), axis=0)
    return xp.reshape(flat, (*index.shape, table_RxS.shape[-1]))
