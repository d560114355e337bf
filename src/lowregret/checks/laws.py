"""The laws of predictors and policies: whatever is read from a memory that tokens update."""

import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability, looks_back
from ..arrays import Array, to_numpy
from ..memory import saved, take


class LawBroken(AssertionError):
    """A predictor or policy does not do what everything built on it relies on."""


class Subject(NamedTuple):
    """A predictor or a policy, seen alike, with tokens to try it on."""

    player: Any
    verb: str  # "predict" or "policy"
    n_states: int
    width: int  # of what is read: states, or actions
    tokens: np.ndarray  # [B, T]
    tolerance: float

    @property
    def name(self) -> str:
        return type(self.player).__name__

    def read(self, memory: Any) -> Array:
        return getattr(self.player, self.verb)(memory)

    def sequence(self, tokens: Array) -> Array:
        return getattr(self.player, f"{self.verb}_sequence")(tokens)

    def after(self, tokens_BxT: Array) -> Any:
        """The memory that has seen these tokens."""
        memory = self.player.start(tuple(tokens_BxT.shape[:1]))
        for t in range(tokens_BxT.shape[1]):
            memory = self.player.update(memory, tokens_BxT[:, t])
        return memory

    def agree(self, found: Array, expected: Array, law: str) -> None:
        """Refuse what differs, with the law that says that it must not."""
        found, expected = to_numpy(found), to_numpy(expected)
        if found.shape != expected.shape:
            raise LawBroken(f"{self.name}: {law} (of shape {found.shape} in place of {expected.shape})")
        off = float(np.abs(found - expected).max())
        if not off <= self.tolerance:
            raise LawBroken(f"{self.name}: {law} (off by {off:.3g})")


def tokens_for(n_states: int, horizon: int, streams: int, seed: int | np.random.Generator) -> np.ndarray:
    """Uniform tokens to try something on, ``[streams, horizon]``."""
    rng = inputs.generator(seed)
    return rng.integers(n_states, size=(inputs.whole(streams, "streams", 2), inputs.whole(horizon, "horizon", 5)))


def subject_of(player: Any, verb: str, horizon: int, streams: int, seed: int, tolerance: float) -> Subject:
    """A predictor (``verb="predict"``) or a policy (``"policy"``), ready for ``LAWS``."""
    has_states = "n_states" if verb == "predict" else "problem"
    missing = [m for m in ("start", verb, "update", f"{verb}_sequence", has_states) if not hasattr(player, m)]
    if missing:
        kind = "predictor" if verb == "predict" else "policy"
        raise LawBroken(f"{type(player).__name__} is not a {kind}: it has no {', '.join(missing)}")
    n = player.n_states if verb == "predict" else player.problem.n_states
    width = n if verb == "predict" else player.problem.n_actions
    return Subject(player, verb, n, width, tokens_for(n, horizon, streams, seed), tolerance)


def by_name(*laws: Callable[[Any], None]) -> dict[str, Callable[[Any], None]]:
    """Laws by what they say."""
    return {law.__name__.replace("_", " "): law for law in laws}


def probabilities_are_probabilities(s: Subject) -> None:
    B, T = s.tokens.shape
    inputs.probs_of(s.sequence(s.tokens), s.width, f"what {s.verb}_sequence(tokens[{B}, {T}]) gives", shape=(B, T))
    inputs.probs_of(s.read(s.player.start((B,))), s.width, f"what {s.verb}(start(({B},))) gives", shape=(B,))


def reading_is_pure(s: Subject) -> None:
    memory = s.after(s.tokens[:, :1])
    before = saved(memory)
    once, twice = to_numpy(s.read(memory)).copy(), to_numpy(s.read(memory))
    if not np.array_equal(once, twice):
        raise LawBroken(f"{s.name}: {s.verb}(memory) called twice gives two answers: it must not draw or remember")
    if saved(memory) != before:
        raise LawBroken(f"{s.name}: {s.verb}(memory) changed the memory: it may only read it")


def update_leaves_its_memory_alone(s: Subject) -> None:
    memory = s.after(s.tokens[:, :1])
    before = to_numpy(s.read(memory)).copy()
    s.player.update(memory, s.tokens[:, 1])
    if not np.array_equal(before, to_numpy(s.read(memory))):
        raise LawBroken(f"{s.name}: update changed the memory it was given: it must return a new one")


def sequence_equals_streaming(s: Subject) -> None:
    whole, memory = s.sequence(s.tokens), s.player.start(s.tokens.shape[:1])
    for t in range(s.tokens.shape[1]):
        law = f"entry {t} of {s.verb}_sequence must be what {s.verb} says after exactly {t} tokens: no later one counts"
        s.agree(s.read(memory), whole[:, t], law)
        memory = s.player.update(memory, s.tokens[:, t])


def forks_diverge(s: Subject) -> None:
    T, half = s.tokens.shape[1], s.tokens.shape[1] // 2
    memories = [s.after(s.tokens[:, :half])] * 2
    branches = [s.tokens, np.concatenate([s.tokens[:, :half], (s.tokens[:, half:] + 1) % s.n_states], axis=1)]
    for t in range(half, T - 1):  # in turns, so that shared buffers would show
        memories = [s.player.update(m, branch[:, t]) for m, branch in zip(memories, branches, strict=True)]
    for memory, branch in zip(memories, branches, strict=True):
        law = "two histories that fork disturb each other: update must not write into arrays that another memory holds"
        s.agree(s.read(memory), s.sequence(branch)[:, -1], law)


def streams_can_be_reordered(s: Subject) -> None:
    memory, order = s.after(s.tokens[:, :3]), np.array([len(s.tokens) - 1, 0, 0])
    picked = s.player.update(take(memory, order), s.tokens[order, 3])
    straight = to_numpy(s.read(s.player.update(memory, s.tokens[:, 3])))[order]
    law = "take(memory, index) does not select streams: every array of the memory must be led by the batch axes"
    s.agree(s.read(picked), straight, law)


def one_stream_is_a_batch_of_one(s: Subject) -> None:
    single, batch = s.player.start(()), s.player.start((1,))
    for t in range(s.tokens.shape[1]):
        s.agree(s.read(single), s.read(batch)[0], f"one stream and a batch of one differ at step {t}")
        single, batch = s.player.update(single, s.tokens[0, t]), s.player.update(batch, s.tokens[:1, t])
    law = f"{s.verb}_sequence differs for tokens[T] and tokens[1, T]"
    s.agree(s.sequence(s.tokens[0]), s.sequence(s.tokens[:1])[0], law)


def torch_equals_numpy(s: Subject) -> None:
    try:
        import torch
    except ImportError:
        return
    tokens, expected = torch.as_tensor(s.tokens), to_numpy(s.sequence(s.tokens))
    whole, memory = s.sequence(tokens), s.player.start(tuple(tokens.shape[:1]), like=tokens)
    for values, call in ((s.read(memory), f"{s.verb} after start(like=tensor)"), (whole, f"{s.verb}_sequence")):
        if not isinstance(values, torch.Tensor):
            raise LawBroken(
                f"{s.name}: {call} gives {type(values).__name__} for torch input: "
                "make arrays in the namespace and on the device of `like` or of the tokens"
            )
    law = "torch and NumPy tokens give different answers"
    s.agree(whole, expected, law)
    for t in range(tokens.shape[1]):
        s.agree(s.read(memory), expected[:, t], f"{law} at step {t}")
        memory = s.player.update(memory, tokens[:, t])


LAWS = by_name(
    probabilities_are_probabilities,
    reading_is_pure,
    update_leaves_its_memory_alone,
    sequence_equals_streaming,
    forks_diverge,
    streams_can_be_reordered,
    one_stream_is_a_batch_of_one,
    torch_equals_numpy,
)


# The law of bounded context (Section 4): after enough tokens, only the last few of them matter.


def check_window(
    predictor: Any,
    window: int,
    *,
    reach: int | None = None,
    streams: int = 32,
    seed: int = 0,
    tolerance: float = 1e-9,
) -> None:
    """Raise ``LawBroken`` unless what is predicted depends on the last ``window`` tokens and on nothing else.

    Pasts of several lengths, up to ``reach``, are put before the same last tokens: neither they nor the step may show.
    A dependence on tokens further back than that is not found. By default that is 64, or as far as the predictor says
    it looks back. A policy is taken as well. What happens before there are ``window`` tokens is free.

    >>> from lowregret import Markov, PolyaUrn
    >>> check_window(Markov([[0.9, 0.1], [0.5, 0.5]], window=1), window=1)
    >>> check_window(PolyaUrn(2), window=3)
    Traceback (most recent call last):
        ...
    lowregret.checks.laws.LawBroken: PolyaUrn looks back further than 3 tokens: after the same 3 it says ...
    """
    window, rng = inputs.whole(window, "window", least=0), inputs.generator(seed)
    tolerance = inputs.not_negative(tolerance, "tolerance")
    verb = "policy" if hasattr(predictor, "policy") else "predict"  # some policies predict nothing
    s = subject_of(predictor, verb, 5, streams, seed, tolerance)
    probabilities_are_probabilities(s)
    most = max(64, (looks_back(predictor) or 0) - window) if reach is None else inputs.whole(reach, "reach")
    for end in (getattr(predictor, "horizon", None), ability(predictor, "context")):  # with which it stops
        most = most if end is None else max(0, min(most, end - 1 - window))
    tokens = rng.integers(s.n_states, size=(streams, window))
    tokens[::2] = tokens[::2, :1]  # half of them monotonous: there a test of the past is least likely to be silent
    alone = to_numpy(s.read(s.after(tokens)))
    for extra in sorted({most, *(n for n in (1, 2, 3, 5, 8, 13, 21, 34) if n < most)}):
        past = rng.integers(s.n_states, size=(streams, extra))
        answer = to_numpy(s.read(s.after(np.concatenate([past, tokens], axis=1))))
        off = np.abs(answer - alone).max(axis=-1)
        if not off.max() <= tolerance:
            at = int(off.argmax())
            raise LawBroken(
                f"{s.name} looks back further than {window} tokens: after the same {window} it says "
                f"{alone[at].round(4).tolist()} where nothing came before and {answer[at].round(4).tolist()} where "
                f"{reprlib.repr(past[at].tolist())} did"
            )
