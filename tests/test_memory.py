"""Memories are selected from, written down and read back without a difference (``lowregret.checks`` has their laws)."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.memory import saved, where
from lowregret.predictors import Stream

GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.0]])
HORIZON, N = 12, 5
LIKE = {"numpy": None, "torch": torch.zeros(1)}


def noisy_law(history: Any) -> Any:
    """A law that depends on all of the history."""
    weights = 1.0 + np.bincount(np.asarray(history), weights=np.arange(1, len(history) + 1) % 7, minlength=3)
    return weights / weights.sum()


def laws(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(3), size=shape)


PREDICTORS: dict[str, lr.Predictor] = {
    "PolyaUrn": lr.PolyaUrn(3, prior=0.5),
    "Scheduled": lr.predictors.Scheduled(laws(1, 8)),
    "Markov, order 2": lr.Markov(laws(3, 3, 3), window=2, initial=laws(4)),
    "FromFunction": lr.FromFunction(noisy_law, 3),
    "Robust": lr.robustify(lr.predictors.Scheduled([[0.9, 0.05, 0.05]]), GAME, HORIZON),
    "Robust, gap": lr.robustify(lr.Markov(laws(3, 3, 3), window=2), GAME, test=lr.RegretGap(None, delta=0.4)),
    "Robust, rate": lr.robustify(lr.PolyaUrn(3), GAME, test=lr.RegretRate(HORIZON, alpha=0.1)),
}
CASES = [(name, like) for name in PREDICTORS for like in LIKE]


def tokens_for(seed: int, shape: tuple[int, ...], steps: int, like: str) -> Any:
    tokens = np.random.default_rng(seed).integers(3, size=(*shape, steps))
    return torch.tensor(tokens) if like == "torch" else tokens


def fed(predictor: lr.Predictor, tokens: Any, like: str) -> Any:
    memory = predictor.start(tuple(tokens.shape[:-1]), like=LIKE[like])
    for t in range(tokens.shape[-1]):
        memory = predictor.update(memory, tokens[..., t])
    return memory


def leaves(memory: Any, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], Any]:
    """The arrays of a memory, by where they are."""
    if isinstance(memory, tuple):
        return {at: leaf for i, part in enumerate(memory) for at, leaf in leaves(part, (*path, i)).items()}
    return {} if memory is None else {path: memory}  # of what it has no use for


# take


INDEX: dict[str, Any] = {
    "reorder": [4, 2, 0, 1, 3],
    "repeat": [1, 1, 3, 1, 0, 0, 4],
    "negative": [-1, 0, -5, -2],
    "none": [],
    "mask": [True, False, True, True, False],
    "slice": slice(1, 4),
    "backwards by two": slice(3, None, -2),
}


@pytest.mark.parametrize("which", INDEX)
@pytest.mark.parametrize(("name", "like"), CASES)
def test_take_is_indexing_by_streams(name: str, like: str, which: str) -> None:
    predictor, index = PREDICTORS[name], INDEX[which]
    rows = [] if index == [] else np.arange(N)[index].tolist()
    tokens = tokens_for(1, (N,), 6, like)
    memory = fed(predictor, tokens[:, :4], like)
    before = copy.deepcopy(saved(memory))
    taken = lr.take(memory, index)
    assert type(taken) is type(memory)
    assert saved(memory) == before
    for at, part in leaves(taken).items():
        whole = leaves(memory)[at]
        assert (type(part), part.dtype) == (type(whole), whole.dtype)
        np.testing.assert_array_equal(part, np.asarray(whole)[rows])
    for t in (4, 5) if rows else ():  # and the streams go on as they would have
        taken = predictor.update(taken, tokens[rows, t])
        expected = leaves(fed(predictor, tokens[rows, : t + 1], like))
        for at, part in leaves(taken).items():
            np.testing.assert_allclose(part, expected[at], atol=1e-12)  # rounding depends on the width


@pytest.mark.parametrize("name", ["PolyaUrn", "FromFunction", "Robust"])
@pytest.mark.parametrize("like", LIKE)
def test_streams_that_are_not_there(name: str, like: str) -> None:
    memory = fed(PREDICTORS[name], tokens_for(1, (N,), 2, like), like)
    for bad in ([0, 5], [-6], [0.0], 3, [[0, 1]], [[0, 1], [0]], "all", None, [True, False], np.ones((5, 1), bool)):
        with pytest.raises(ValueError, match="index must"):
            lr.take(memory, bad)
    with pytest.raises(ValueError, match="take needs a memory with a batch axis"):
        lr.take(PREDICTORS[name].start(), [0])


@pytest.mark.parametrize("like", LIKE)
def test_where_chooses_by_stream(like: str) -> None:
    one, other = (fed(lr.PolyaUrn(3), tokens_for(seed, (2, 3), 5, like), like) for seed in (1, 2))
    mask = np.array([[True, False, True], [False, False, True]])
    mixed = where(torch.tensor(mask) if like == "torch" else mask, one, other)
    for a, b, c in zip(mixed, one, other, strict=True):
        for at in np.ndindex(2, 3):
            assert np.array_equal(np.asarray(a)[at], np.asarray(b if mask[at] else c)[at])


# Stream


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize(("name", "like"), CASES)
def test_a_stream_is_its_predictor_and_resumes_bit_for_bit(name: str, like: str, shape: tuple[int, ...]) -> None:
    predictor, tokens = PREDICTORS[name], tokens_for(8, shape, HORIZON, like)
    whole, stream = np.asarray(predictor.predict_sequence(tokens)), Stream(predictor, shape, like=LIKE[like])
    for t in range(HORIZON):
        np.testing.assert_allclose(np.asarray(stream.predict()), whole[..., t, :], atol=1e-12)
        d = stream.state_dict()
        text = json.dumps(d, allow_nan=False)
        resumed = Stream(predictor, shape, like=LIKE[like])
        resumed.load_state_dict(json.loads(text))
        assert np.array_equal(np.asarray(resumed.predict()), np.asarray(stream.predict()))
        resumed.update(tokens[..., t])
        stream.update(tokens[..., t])
        assert resumed.state_dict() == stream.state_dict()
        assert json.dumps(d, allow_nan=False) == text  # a copy: what came later is not in it
    for age in (0, 3, HORIZON):  # into a stream that has lived, of the same age or of another
        used = Stream(predictor, shape, like=LIKE[like])
        for t in range(age):
            used.update(tokens[..., t])
        used.load_state_dict(json.loads(text))
        used.update(tokens[..., -1])
        assert used.state_dict() == stream.state_dict()


@pytest.mark.parametrize("name", PREDICTORS)
def test_numpy_and_torch_exchange_their_states(name: str) -> None:
    streams = {kind: Stream(PREDICTORS[name], (4,), like=like) for kind, like in LIKE.items()}
    for kind, stream in streams.items():
        tokens = tokens_for(9, (4,), 5, kind)
        for t in range(5):
            stream.update(tokens[:, t])
    other = Stream(PREDICTORS[name], (4,), like=LIKE["torch"])
    other.load_state_dict(streams["numpy"].state_dict())
    assert isinstance(other.predict(), torch.Tensor)
    assert np.allclose(np.asarray(other.predict()), np.asarray(streams["torch"].predict()), atol=1e-12)


# States that do not fit


def spoilt(d: Any, path: tuple[int, ...], spoil: Callable[[Any], Any]) -> Any:
    if not path:
        return spoil(d)
    d = list(d)
    d[path[0]] = spoilt(d[path[0]], path[1:], spoil)
    return d


SPOILS: dict[str, Callable[[Any], Any]] = {
    "shorter batch": lambda x: x[:-1],
    "longer batch": lambda x: x + x[:1],
    "one axis more": lambda x: [x],
    "words": lambda x: ["x"] * len(x),
    "nothing": lambda x: None,
    "ragged": lambda x: [[1], [1, 2]],
}


@pytest.mark.parametrize("how", SPOILS)
@pytest.mark.parametrize(("name", "like"), CASES)
def test_no_array_of_a_memory_may_be_garbled(name: str, like: str, how: str) -> None:
    stream = Stream(PREDICTORS[name], (N,), like=LIKE[like])
    for token in (0, 1, 2):
        stream.update(np.full(N, token))
    before = stream.memory
    for path in leaves(before):
        bad = spoilt(saved(before), path, SPOILS[how])
        with pytest.raises(ValueError, match="state_dict does not fit"):
            stream.load_state_dict({"format": 1, "memory": bad})
        assert stream.memory is before


@pytest.mark.parametrize("d", [None, "x", {}, {"format": 2, "memory": []}, {"memory": []}], ids=repr)
def test_what_is_no_state_at_all(d: Any) -> None:
    with pytest.raises(ValueError, match=r"state_dict must be what Stream\.state_dict returned"):
        Stream(lr.PolyaUrn(3), (2,)).load_state_dict(d)


def test_states_of_other_kinds_of_predictors() -> None:
    kinds = ("PolyaUrn", "Scheduled", "FromFunction", "Robust", "Robust, gap")
    streams = {name: Stream(PREDICTORS[name], (2,)) for name in kinds}
    for mine, stream in streams.items():
        for theirs in streams.keys() - {mine}:
            other = Stream(PREDICTORS[theirs], (2,))
            other.update([0, 1])
            before = stream.memory
            with pytest.raises(ValueError, match="state_dict"):
                stream.load_state_dict(other.state_dict())
            assert stream.memory is before
