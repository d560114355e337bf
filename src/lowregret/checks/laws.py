"""The laws of predictors and policies: whatever is read from a memory that tokens update."""

import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability, looks_back
from ..arrays import Array, to_numpy
from ..memory import saved, take
from ..predictors import said_by, vouched


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
        off = float(np.abs(to_numpy(found) - to_numpy(expected)).max())
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


def probabilities_are_probabilities(s: Subject) -> None:
    (B, T), verb = s.tokens.shape, s.verb
    for values, shape, call in (
        (s.sequence(s.tokens), (B, T, s.width), f"{verb}_sequence(tokens[{B}, {T}])"),
        (s.read(s.player.start((B,))), (B, s.width), f"{verb}(start(({B},)))"),
    ):
        if tuple(values.shape) != shape:
            raise LawBroken(f"{s.name}: {call} has shape {tuple(values.shape)}, it must be {shape}")
        try:
            inputs.probs_of(values, s.width, f"{s.name}: the numbers from {call}")
        except ValueError as error:
            raise LawBroken(str(error)) from error


def reading_is_pure(s: Subject) -> None:
    memory = s.after(s.tokens[:, :1])
    before = saved(memory)
    once, twice = to_numpy(s.read(memory)).copy(), to_numpy(s.read(memory))
    if not np.array_equal(once, twice):
        raise LawBroken(f"{s.name}: {s.verb}(memory) called twice gives two answers: it must not draw or remember")
    if saved(memory) != before:
        raise LawBroken(f"{s.name}: {s.verb}(memory) changed the memory: it may only read it")


def update_leaves_its_memory(s: Subject) -> None:
    memory = s.after(s.tokens[:, :1])
    before = to_numpy(s.read(memory)).copy()
    s.player.update(memory, s.tokens[:, 1])
    if not np.array_equal(before, to_numpy(s.read(memory))):
        raise LawBroken(f"{s.name}: update changed the memory it was given: it must return a new one")


def sequence_equals_streaming(s: Subject) -> None:
    whole, memory = s.sequence(s.tokens), s.player.start(s.tokens.shape[:1])
    for t in range(s.tokens.shape[1]):
        law = f"entry {t} of {s.verb}_sequence must be what {s.verb} says after exactly the first t tokens, t = {t}"
        s.agree(s.read(memory), whole[:, t], law)
        memory = s.player.update(memory, s.tokens[:, t])


def the_future_is_unseen(s: Subject) -> None:
    T, whole = s.tokens.shape[1], to_numpy(s.sequence(s.tokens))
    for t in {1, T // 2, T - 1}:
        other = s.tokens.copy()
        other[:, t:] = (other[:, t:] + 1) % s.n_states
        law = f"{s.verb}_sequence looks ahead: changing tokens[{t}:] moved entries up to {t}"
        s.agree(to_numpy(s.sequence(other))[:, : t + 1], whole[:, : t + 1], law)


def forks_diverge(s: Subject) -> None:
    T, half = s.tokens.shape[1], s.tokens.shape[1] // 2
    memories = [s.after(s.tokens[:, :half])] * 2
    branches = [s.tokens, np.concatenate([s.tokens[:, :half], (s.tokens[:, half:] + 1) % s.n_states], axis=1)]
    for t in range(half, T - 1):  # in turns, so that shared buffers would show
        memories = [s.player.update(m, branch[:, t]) for m, branch in zip(memories, branches, strict=True)]
    law = "two histories that fork from one memory disturb each other: update must not write into arrays that another "
    for memory, branch in zip(memories, branches, strict=True):
        s.agree(s.read(memory), to_numpy(s.sequence(branch))[:, -1], law + "memory holds")


def streams_can_be_reordered(s: Subject) -> None:
    memory, order = s.after(s.tokens[:, :3]), np.array([len(s.tokens) - 1, 0, 0])
    picked = s.player.update(take(memory, order), s.tokens[order, 3])
    straight = to_numpy(s.read(s.player.update(memory, s.tokens[:, 3])))[order]
    law = "take(memory, index) does not select streams: every array of the memory must be led by the batch axes"
    s.agree(s.read(picked), straight, law)


def one_stream_is_a_batch_of_one(s: Subject) -> None:
    single, batch = s.player.start(()), s.player.start((1,))
    for t in range(s.tokens.shape[1]):
        one, many = to_numpy(s.read(single)), to_numpy(s.read(batch))
        if one.shape != (s.width,) or many.shape != (1, s.width):
            raise LawBroken(
                f"{s.name}: {s.verb} gives shapes {one.shape} without a batch and {many.shape} with a batch of one, "
                f"they must be {(s.width,)} and {(1, s.width)}"
            )
        s.agree(one, many[0], f"one stream and a batch of one differ at step {t}")
        single, batch = s.player.update(single, s.tokens[0, t]), s.player.update(batch, s.tokens[:1, t])
    alone, law = to_numpy(s.sequence(s.tokens[0])), f"{s.verb}_sequence differs for tokens[T] and tokens[1, T]"
    if alone.shape != (s.tokens.shape[1], s.width):
        raise LawBroken(f"{s.name}: {law}: shape {alone.shape}")
    s.agree(alone, to_numpy(s.sequence(s.tokens[:1]))[0], law)


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
    for t in range(tokens.shape[1]):
        for values in (s.read(memory), whole[:, t]):
            s.agree(values, expected[:, t], f"torch and NumPy tokens give different answers at step {t}")
        memory = s.player.update(memory, tokens[:, t])


LAWS: dict[str, Callable[[Subject], None]] = {
    "probabilities are probabilities": probabilities_are_probabilities,
    "reading is pure": reading_is_pure,
    "update leaves its memory alone": update_leaves_its_memory,
    "sequence equals streaming": sequence_equals_streaming,
    "the future is unseen": the_future_is_unseen,
    "forks diverge": forks_diverge,
    "streams can be reordered": streams_can_be_reordered,
    "one stream is a batch of one": one_stream_is_a_batch_of_one,
    "torch equals NumPy": torch_equals_numpy,
}


# The law of bounded context (Section 4): after enough tokens, only the last few of them matter.

LEAST, MOST = 64, 1024  # how far back it looks where the predictor says nothing, and at most unless asked for more


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
    it looks back, or, where it does not say, as long as it lasts (its horizon or context): at most 1024. A policy is
    taken as well. What happens before there are ``window`` tokens is free.

    >>> from lowregret import Markov, PolyaUrn
    >>> check_window(Markov([[0.9, 0.1], [0.5, 0.5]], window=1), window=1)
    >>> check_window(PolyaUrn(2), window=3)
    Traceback (most recent call last):
        ...
    lowregret.checks.laws.LawBroken: PolyaUrn looks back further than 3 tokens: after the same 3 it says ...
    """
    length, rng = inputs.whole(window, "window", least=0), inputs.generator(seed)
    tolerance, streams = inputs.not_negative(tolerance, "tolerance"), inputs.whole(streams, "streams")
    read = getattr(predictor, "policy", None) or getattr(predictor, "predict", None)  # some policies predict nothing
    if read is None or not hasattr(predictor, "start") or isinstance(predictor, type):
        raise ValueError(f"predictor must be a predictor or a policy, got {type(predictor).__name__}")
    n_states = predictor.n_states if hasattr(predictor, "n_states") else predictor.problem.n_states
    ends = [end - 1 for end in (getattr(predictor, "horizon", None), ability(predictor, "context")) if end is not None]
    lasts, says = min(ends, default=None), looks_back(predictor)
    if reach is None:
        most = min(MOST, max(LEAST, (says if says is not None else lasts or 0) - length))
    else:
        most = inputs.whole(reach, "reach")
    most = most if lasts is None else max(0, min(most, lasts - length))
    tokens = rng.integers(n_states, size=(streams, length))
    tokens[::2] = tokens[::2, :1]  # half of them monotonous: there a test of the past is least likely to be silent
    first = None
    for extra in sorted({0, most, *(n for n in (1, 2, 3, 5, 8, 13, 21, 34) if n < most)}):
        past = rng.integers(n_states, size=(streams, extra))
        memory = predictor.start((streams,))
        for token in np.concatenate([past, tokens], axis=1).T:
            memory = predictor.update(memory, token)
        said = read(memory)
        if not vouched(predictor):
            said = said_by(predictor, said, said.shape[-1] if hasattr(said, "shape") else 0, (streams,))
        answer = to_numpy(said)
        first = answer if first is None else first
        off = np.abs(answer - first).max(axis=-1)
        if not off.max() <= tolerance:
            at = int(off.argmax())
            raise LawBroken(
                f"{type(predictor).__name__} looks back further than {length} tokens: after the same {length} it "
                f"says {first[at].round(4).tolist()} where nothing came before and {answer[at].round(4).tolist()} "
                f"where {reprlib.repr(past[at].tolist())} did"
            )
