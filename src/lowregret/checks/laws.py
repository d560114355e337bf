"""The laws of predictors and policies: whatever is read from a memory that tokens update."""

import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..abilities import ability, looks_back
from ..arrays import Array, to_numpy
from ..memory import saved, take
from ..policies import Policy
from ..predictors import Predictor, said_by, vouched


class LawBroken(AssertionError):
    """A predictor or policy does not do what everything built on it relies on."""


class Subject(NamedTuple):
    """A predictor or a policy, seen alike, with tokens to try it on."""

    name: str
    start: Callable[..., Any]
    read: Callable[[Any], Array]  # predict or policy
    update: Callable[[Any, Array], Any]
    sequence: Callable[[Array], Array]  # predict_sequence or policy_sequence
    verb: str
    n_states: int
    width: int  # length of what is read: states, or actions
    tokens: np.ndarray  # [B, T]
    tolerance: float


Law = Callable[[Subject], None]


def tokens_for(n_states: int, horizon: int, streams: int, seed: int | np.random.Generator) -> np.ndarray:
    """Uniform tokens to try something on, ``[streams, horizon]``."""
    rng = inputs.generator(seed)
    return rng.integers(n_states, size=(inputs.whole(streams, "streams", 2), inputs.whole(horizon, "horizon", 5)))


def predictor_subject(predictor: Predictor, horizon: int, streams: int, seed: int, tolerance: float) -> Subject:
    """A predictor, ready for ``PREDICTOR_LAWS``."""
    missing = [m for m in ("start", "predict", "update", "predict_sequence", "n_states") if not hasattr(predictor, m)]
    name = type(predictor).__name__
    if missing:
        raise LawBroken(f"{name} is not a predictor: it has no {', '.join(missing)}")
    n = predictor.n_states
    return Subject(
        name,
        predictor.start,
        predictor.predict,
        predictor.update,
        predictor.predict_sequence,
        "predict",
        n,
        n,
        tokens_for(n, horizon, streams, seed),
        tolerance,
    )


def policy_subject(policy: Policy, horizon: int, streams: int, seed: int, tolerance: float) -> Subject:
    """A policy, ready for ``POLICY_LAWS``."""
    missing = [m for m in ("start", "policy", "update", "policy_sequence", "problem") if not hasattr(policy, m)]
    name = type(policy).__name__
    if missing:
        raise LawBroken(f"{name} is not a policy: it has no {', '.join(missing)}")
    n = policy.problem.n_states
    return Subject(
        name,
        policy.start,
        policy.policy,
        policy.update,
        policy.policy_sequence,
        "policy",
        n,
        policy.problem.n_actions,
        tokens_for(n, horizon, streams, seed),
        tolerance,
    )


def probabilities_are_probabilities(s: Subject) -> None:
    shape = s.tokens.shape
    read = s.sequence(s.tokens)
    first = s.read(s.start(shape[:1]))
    for values, expected, call in (
        (read, (*shape, s.width), f"{s.verb}_sequence(tokens{list(shape)})"),
        (first, (shape[0], s.width), f"{s.verb}(start({shape[:1]}))"),
    ):
        if tuple(values.shape) != expected:
            raise LawBroken(f"{s.name}: {call} has shape {tuple(values.shape)}, it must be {expected}")
        try:
            inputs.probs_of(values, s.width, f"{s.name}: the numbers from {call}")
        except ValueError as error:
            raise LawBroken(str(error)) from error


def reading_is_pure(s: Subject) -> None:
    memory = s.update(s.start(s.tokens.shape[:1]), s.tokens[:, 0])
    before = saved(memory)
    once, twice = to_numpy(s.read(memory)).copy(), to_numpy(s.read(memory))
    if not np.array_equal(once, twice):
        raise LawBroken(f"{s.name}: {s.verb}(memory) called twice gives two answers: it must not draw or remember")
    if saved(memory) != before:
        raise LawBroken(f"{s.name}: {s.verb}(memory) changed the memory: it may only read it")


def update_leaves_its_memory(s: Subject) -> None:
    memory = s.update(s.start(s.tokens.shape[:1]), s.tokens[:, 0])
    before = to_numpy(s.read(memory)).copy()
    s.update(memory, s.tokens[:, 1])
    if not np.array_equal(before, to_numpy(s.read(memory))):
        raise LawBroken(f"{s.name}: update changed the memory it was given: it must return a new one")


def sequence_equals_streaming(s: Subject) -> None:
    whole = to_numpy(s.sequence(s.tokens))
    memory = s.start(s.tokens.shape[:1])
    for t in range(s.tokens.shape[1]):
        step = to_numpy(s.read(memory))
        off = float(np.abs(step - whole[:, t]).max())
        if not off <= s.tolerance:
            raise LawBroken(
                f"{s.name}: {s.verb}_sequence and {s.verb} differ by {off:.3g} at step {t} (from 0): entry t of the "
                f"sequence form must be what {s.verb} says after exactly the first t tokens"
            )
        memory = s.update(memory, s.tokens[:, t])


def the_future_is_unseen(s: Subject) -> None:
    horizon = s.tokens.shape[1]
    whole = to_numpy(s.sequence(s.tokens))
    for t in {1, horizon // 2, horizon - 1}:
        other = s.tokens.copy()
        other[:, t:] = (other[:, t:] + 1) % s.n_states
        off = float(np.abs(to_numpy(s.sequence(other))[:, : t + 1] - whole[:, : t + 1]).max())
        if not off <= s.tolerance:
            raise LawBroken(
                f"{s.name}: {s.verb}_sequence looks ahead: changing tokens[{t}:] moved entries up to {t} by {off:.3g}"
            )


def forks_diverge(s: Subject) -> None:
    half = s.tokens.shape[1] // 2
    memory = s.start(s.tokens.shape[:1])
    for t in range(half):
        memory = s.update(memory, s.tokens[:, t])
    branches = [s.tokens, np.concatenate([s.tokens[:, :half], (s.tokens[:, half:] + 1) % s.n_states], axis=1)]
    memories = [memory, memory]
    for t in range(half, s.tokens.shape[1] - 1):  # in turns, so that shared buffers would show
        memories = [s.update(m, b[:, t]) for m, b in zip(memories, branches, strict=True)]
    for m, branch in zip(memories, branches, strict=True):
        expected = to_numpy(s.sequence(branch))[:, -1]
        off = float(np.abs(to_numpy(s.read(m)) - expected).max())
        if not off <= s.tolerance:
            raise LawBroken(
                f"{s.name}: two histories that fork from one memory disturb each other (off by {off:.3g}): "
                "update must not write into arrays that another memory holds"
            )


def streams_can_be_reordered(s: Subject) -> None:
    memory = s.start(s.tokens.shape[:1])
    for t in range(3):
        memory = s.update(memory, s.tokens[:, t])
    order = np.array([len(s.tokens) - 1, 0, 0])
    picked = s.update(take(memory, order), s.tokens[order, 3])
    straight = to_numpy(s.read(s.update(memory, s.tokens[:, 3])))[order]
    off = float(np.abs(to_numpy(s.read(picked)) - straight).max())
    if not off <= s.tolerance:
        raise LawBroken(
            f"{s.name}: take(memory, index) does not select streams (off by {off:.3g}): every array of the memory "
            "must be led by the batch axes"
        )


def one_stream_is_a_batch_of_one(s: Subject) -> None:
    single, batch = s.start(()), s.start((1,))
    for t in range(s.tokens.shape[1]):
        one, many = to_numpy(s.read(single)), to_numpy(s.read(batch))
        if one.shape != (s.width,) or many.shape != (1, s.width):
            raise LawBroken(
                f"{s.name}: {s.verb} gives shapes {one.shape} without a batch and {many.shape} with a batch of one, "
                f"they must be {(s.width,)} and {(1, s.width)}"
            )
        if not np.abs(one - many[0]).max() <= s.tolerance:
            raise LawBroken(f"{s.name}: one stream and a batch of one differ at step {t}")
        single, batch = s.update(single, s.tokens[0, t]), s.update(batch, s.tokens[:1, t])
    flat, alone = to_numpy(s.sequence(s.tokens[:1])), to_numpy(s.sequence(s.tokens[0]))
    if alone.shape != flat.shape[1:] or not np.abs(alone - flat[0]).max() <= s.tolerance:
        raise LawBroken(f"{s.name}: {s.verb}_sequence(tokens[T]) and {s.verb}_sequence(tokens[1, T]) differ")


def torch_equals_numpy(s: Subject) -> None:
    try:
        import torch
    except ImportError:
        return
    tokens = torch.as_tensor(s.tokens)
    expected = to_numpy(s.sequence(s.tokens))
    whole = s.sequence(tokens)
    memory = s.start(tuple(tokens.shape[:1]), like=tokens)
    for t in range(tokens.shape[1]):
        step = s.read(memory)
        for values, got in ((step, f"{s.verb} after start(like=a torch tensor)"), (whole, f"{s.verb}_sequence")):
            if not isinstance(values, torch.Tensor):
                raise LawBroken(
                    f"{s.name}: {got} gives {type(values).__name__} for torch input: "
                    "make arrays in the namespace and on the device of `like` or of the tokens"
                )
        off = float(np.abs(step.numpy() - expected[:, t]).max())
        if not off <= s.tolerance or not np.abs(whole[:, t].numpy() - expected[:, t]).max() <= s.tolerance:
            raise LawBroken(f"{s.name}: torch and NumPy tokens give different answers at step {t} (off by {off:.3g})")
        memory = s.update(memory, tokens[:, t])


_SHARED_LAWS: dict[str, Law] = {
    "update leaves its memory alone": update_leaves_its_memory,
    "sequence equals streaming": sequence_equals_streaming,
    "the future is unseen": the_future_is_unseen,
    "forks diverge": forks_diverge,
    "streams can be reordered": streams_can_be_reordered,
    "one stream is a batch of one": one_stream_is_a_batch_of_one,
    "torch equals NumPy": torch_equals_numpy,
}
PREDICTOR_LAWS: dict[str, Law] = {
    "probabilities are probabilities": probabilities_are_probabilities,
    "predict is pure": reading_is_pure,
    **_SHARED_LAWS,
}
POLICY_LAWS: dict[str, Law] = {
    "mixed actions are probabilities": probabilities_are_probabilities,
    "policy is pure": reading_is_pure,
    **_SHARED_LAWS,
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
    A dependence on tokens further back than that is not found. By default that is 64, or as far as the
    predictor says it looks back, or, where it does not say, as long as it lasts (its horizon or context): at most
    1024. A policy is taken as well. What happens before there are ``window`` tokens is free.

    >>> from lowregret import Markov, PolyaUrn
    >>> check_window(Markov([[0.9, 0.1], [0.5, 0.5]], window=1), window=1)
    >>> check_window(PolyaUrn(2), window=3)
    Traceback (most recent call last):
        ...
    lowregret.checks.laws.LawBroken: PolyaUrn looks back further than 3 tokens: after the same 3 it says ...
    """
    length, rng = inputs.whole(window, "window", least=0), inputs.generator(seed)
    tolerance = inputs.not_negative(tolerance, "tolerance")
    read = getattr(predictor, "policy", None) or getattr(predictor, "predict", None)  # an actor may have no law
    if read is None or not hasattr(predictor, "start") or isinstance(predictor, type):
        raise ValueError(f"predictor must be a predictor or a policy, got {type(predictor).__name__}")
    n_states = predictor.n_states if hasattr(predictor, "n_states") else predictor.problem.n_states
    most = _reach(predictor, length) if reach is None else inputs.whole(reach, "reach")
    lasts = _lasts(predictor)
    most = most if lasts is None else max(0, min(most, lasts - length))
    lengths = sorted({0, most, *(n for n in (1, 2, 3, 5, 8, 13, 21, 34) if n < most)})
    streams = inputs.whole(streams, "streams")
    tokens = rng.integers(n_states, size=(streams, length))
    tokens[::2] = tokens[::2, :1]  # half of them monotonous: there a test of the past is least likely to be silent
    answers = []
    for extra in lengths:
        past = rng.integers(n_states, size=(streams, extra))
        memory = predictor.start((streams,))
        for token in np.concatenate([past, tokens], axis=1).T:
            memory = predictor.update(memory, token)
        said = read(memory)
        if not vouched(predictor):
            said = said_by(predictor, said, said.shape[-1] if hasattr(said, "shape") else 0, (streams,))
        answers.append(to_numpy(said))
        off = np.abs(answers[-1] - answers[0]).max(axis=-1)
        if not off.max() <= tolerance:
            at = int(off.argmax())
            raise LawBroken(
                f"{type(predictor).__name__} looks back further than {length} tokens: after the same {length} it "
                f"says {answers[0][at].round(4).tolist()} where nothing came before and "
                f"{answers[-1][at].round(4).tolist()} where {reprlib.repr(past[at].tolist())} did"
            )


def _reach(predictor: Any, length: int) -> int:
    """How far beyond ``length`` tokens to look, by what the predictor says of itself."""
    says = looks_back(predictor)
    far = says if says is not None else _lasts(predictor) or 0
    return min(MOST, max(LEAST, far - length))


def _lasts(predictor: Any) -> int | None:
    """How many tokens it can be told before it is asked for the last time; None where there is no end."""
    own, context = getattr(predictor, "horizon", None), ability(predictor, "context")
    ends = [end - 1 for end in (own, context) if end is not None]
    return min(ends, default=None)
