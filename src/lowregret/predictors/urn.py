"""The Polya urn of Equation (1), whose quantal responses have low regret on every sequence (Lemma 2.3)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .. import certificates, inputs
from ..arrays import Array, came, count_up, device, float_type, in_float64, last, namespace, running_sum, total
from ..certificates import every_start
from .contract import Predictor


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
        n_states, prior = inputs.whole(self.n_states, "n_states"), inputs.positive(self.prior, "prior")
        inputs.keep(self, n_states=n_states, prior=prior)

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
        counts = in_float64(counts)
        seen = namespace(counts).sum(counts, axis=-1)
        return (counts + self.prior) / (seen + self.n_states * self.prior)[..., None]

    def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> float | None:
        """What quantal responses to the urn lose at most: Lemma 2.3 with its constants (None: nothing is known)."""
        if temperature is None:
            return certificates.urn_anytime(problem, horizon) if self.prior == 1 else None
        return certificates.lemma_2_3(problem, horizon, temperature, self.prior)

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> Any:
        """What quantal responses to it lose at most after an alarm, by the steps that are left."""
        if temperature is None and self.prior != 1:
            return None
        return partial(every_start.urn_after, problem, steps, temperature, self.prior)


def counts_before(tokens: Array, n_states: int) -> list[Array]:
    """How often each state came before each step, ``[..., T]`` each: as integers, which add up fastest."""
    xp, seen, counts = namespace(tokens), count_up(tokens, 0, tokens.shape[-1]), []
    for state in range(n_states - 1):
        hit = xp.astype(tokens == state, xp.int64)
        counts.append(running_sum(hit) - hit)
    # The last state has what the others leave.
    return [*counts, seen - total(counts) if counts else xp.broadcast_to(seen, tokens.shape)]
