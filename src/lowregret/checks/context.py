"""The law of bounded context (Section 4): after enough tokens, only the last few of them matter."""

import reprlib
from typing import Any

import numpy as np

from .. import inputs
from ..abilities import ability, looks_back
from ..arrays import to_numpy
from ..predictors import said_by, vouched
from .laws import LawBroken

LEAST, MOST = 64, 1024  # how far back it looks where the predictor says nothing, and at most unless asked for more


def check_context(
    predictor: Any,
    context_len: int,
    *,
    reach: int | None = None,
    streams: int = 32,
    seed: int = 0,
    tolerance: float = 1e-9,
) -> None:
    """Raise ``LawBroken`` unless what is predicted depends on the last ``context_len`` tokens and on nothing else.

    Pasts of several lengths, up to ``reach``, are put before the same last tokens: neither they nor the step may show.
    A dependence on tokens further back than that is not found. By default that is 64, or as far as the
    predictor says it looks back, or, where it does not say, as long as it lasts (its horizon or context): at most
    1024. A policy is taken as well. What happens before there are ``context_len`` tokens is free.

    >>> from lowregret import Markov, PolyaUrn
    >>> check_context(Markov([[0.9, 0.1], [0.5, 0.5]], context_len=1), context_len=1)
    >>> check_context(PolyaUrn(2), context_len=3)
    Traceback (most recent call last):
        ...
    lowregret.checks.laws.LawBroken: PolyaUrn looks back further than 3 tokens: after the same 3 it says ...
    """
    length, rng = inputs.whole(context_len, "context_len", least=0), inputs.generator(seed)
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
    rule, context = getattr(predictor, "rule", None), ability(predictor, "context")
    own = getattr(predictor, "horizon", None) or getattr(rule, "horizon", None)
    ends = [end - 1 for end in (own, context) if end is not None]
    return min(ends, default=None)
