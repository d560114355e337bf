"""Every file we write, with bytes changed or its description replaced: refused with a sentence, or read as it was.

``LOWREGRET_FUZZ=50`` multiplies the number of cases of each fuzzer by fifty, for a run of minutes.
"""

import copy
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import lowregret as lr
from lowregret import construct
from lowregret.transformer import (
    DECAYING,
    Decoder,
    Distil,
    Imitate,
    Progress,
    Size,
    TrainingSettings,
    Transformer,
    checkpoints,
    load,
    save,
)
from lowregret.transformer import run_folder as state
from lowregret.transformer.training import Training, train

from .test_training import robust_with_urn

TIMES = int(os.environ.get("LOWREGRET_FUZZ", "1"))
SMALL = Size(8, 8, 2, 1, 8)
SETTINGS = TrainingSettings(size=SMALL, steps=6, batch=4, optimiser=DECAYING)
KINDS = ("trained", "built", "state")


class Stopped(Exception):
    pass


def task() -> Distil:
    robust = robust_with_urn(Transformer(Decoder(2, SMALL, seed=9)), lr.matching(), 8)
    return Distil(lr.evaluate.sources.paper_sources(8)["b"], robust, play_every=2, play_count=3, pool=4)


def give_up(progress: Progress) -> None:
    if progress.step == 4:
        raise Stopped


def written(kind: str, folder: Path) -> Path:
    """A file of each format."""
    if kind == "trained":
        save(Decoder(2, SMALL, seed=1), folder / "m.safetensors", {"note": "hello"})
        return folder / "m.safetensors"
    if kind == "built":
        model = construct.build(Decoder(2, SMALL, seed=1), lr.robust.algorithm_1(lr.cost_loss(1, 4), lr.RegretGap(6)))
        construct.save(model, folder / "m.safetensors")
        return folder / "m.safetensors"
    with pytest.raises(Stopped):
        train(task(), folder / "m.safetensors", SETTINGS, save_every=2, report_every=1, on_report=give_up)
    return folder / "training/m/state.safetensors"


def loaded(kind: str, path: Path) -> tuple[dict[str, torch.Tensor], Any]:
    """All that came out of the file: tensors by name, and what else a user would act on."""
    if kind == "trained":
        decoder = load(path).decoder
        return dict(decoder.state_dict()), (decoder.n_states, decoder.size)
    if kind == "built":
        model = construct.load(path)
        made = model.module
        names = [(layer.head_names, layer.perceptron_names) for layer in made.every_layer]
        return dict(made.state_dict()), (repr(model), model.problem, made.about, names, made.stream.sizes, made.gives)
    run = Training(task(), path.parent.parent.parent / "m.safetensors", SETTINGS)
    tensors = state.packed(run.decoder, run.optimiser, run.task) | {"total": run.total}
    return tensors, (run.step, run.seconds, run.since, run.reported)


def equal(one: tuple[dict[str, torch.Tensor], Any], other: tuple[dict[str, torch.Tensor], Any]) -> bool:
    (a, said), (b, also) = one, other
    same = a.keys() == b.keys() and said == also
    return same and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


def read_or_refused(kind: str, path: Path) -> tuple[dict[str, torch.Tensor], Any] | None:
    """What comes out, or None for a refusal that names the file; anything else is what the test is looking for."""
    try:
        return loaded(kind, path)
    except ValueError as error:
        words = str(error)
    assert path.name in words
    return None


def changes(data: bytes, rng: np.random.Generator) -> bytes:
    """One bit, a few bytes, a cut, a piece put in or taken out, two pieces swapped; half of it in the header."""
    changed, header = bytearray(data), 8 + struct.unpack("<Q", data[:8])[0]
    at = int(rng.integers(header if rng.random() < 0.5 else len(data)))
    n = int(rng.integers(1, 9))
    match rng.integers(6):
        case 0 | 1:
            changed[at] ^= 1 << int(rng.integers(8))
        case 2:
            changed[at : at + n] = rng.bytes(len(changed[at : at + n]))
        case 3:
            del changed[at : at + n]
        case 4:
            changed[at:at] = rng.bytes(n)
        case _:
            other = int(rng.integers(len(data) - n))
            changed[at : at + n] = data[other : other + len(changed[at : at + n])]
    return bytes(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_bytes_are_refused_or_change_nothing(kind: str, tmp_path: Path) -> None:
    path, rng, refused = written(kind, tmp_path), np.random.default_rng(0), 0
    data, whole = path.read_bytes(), loaded(kind, path)
    cases = {"trained": 400, "built": 150, "state": 150}[kind] * TIMES
    for case in range(cases):
        changed = changes(data, rng)
        path.write_bytes(changed)
        found = read_or_refused(kind, path)
        refused += found is None
        assert found is None or equal(found, whole), f"case {case}: another model was read"
        assert path.read_bytes() == changed
    assert refused > 0.9 * cases  # some bytes are spaces, or were put back as they were


@pytest.mark.parametrize("kind", KINDS)
def test_every_bit_of_a_weight_counts(kind: str, tmp_path: Path) -> None:
    """All 32 bits of one weight of each tensor: not one is read as another model."""
    path = written(kind, tmp_path)
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    for name, entry in header.items():
        if name == "__metadata__" or entry["data_offsets"][0] == entry["data_offsets"][1]:
            continue
        for bit in range(0, 8 * min(4, entry["data_offsets"][1] - entry["data_offsets"][0]), 5):
            changed = bytearray(data)
            changed[start + entry["data_offsets"][0] + bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with pytest.raises(ValueError, match="damaged"):
                loaded(kind, path)


ODD: list[Callable[[], Any]] = [
    lambda: None,
    lambda: [],
    lambda: {},
    lambda: True,
    lambda: -1,
    lambda: 0,
    lambda: 10**6,
    lambda: 10**30,
    lambda: 2.5,
    lambda: 1e308,
    lambda: "",
    lambda: "word",
    lambda: [None],
    lambda: [[]],
    lambda: {"a": None},
    lambda: [1, 2, 3],
    lambda: [[0.5, 2.0], [1.0]],
]


def places(value: Any, here: tuple = ()) -> Iterator[tuple]:
    """Every place in a description."""
    yield here
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*here, key))


def put(value: Any, place: tuple, what: Any) -> Any:
    """The description with something else there."""
    if not place:
        return what
    value = copy.deepcopy(value)
    inside = value
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = what
    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_", [1, 2])
def test_odd_descriptions_are_refused_in_words(kind: str, format_: int, tmp_path: Path) -> None:
    """Each place in the description in turn holds something odd, in a file that is otherwise whole.

    What says nothing about the model (a note, the machine) may be anything.
    """
    path, rng = written(kind, tmp_path), np.random.default_rng(1)
    found = checkpoints.read(path)
    everywhere = [(place, odd) for place in places(found.about) for odd in ODD]
    chosen = rng.permutation(len(everywhere))[: 250 * TIMES]
    for case in chosen:
        place, odd = everywhere[case]
        said = put(found.about, place, odd())
        rewritten(path, found.tensors, said, format_)
        read_or_refused(kind, path)
    for text in ("null", "[]", "Infinity", "NaN", "{", "", "1" * 5000, "[" * 100_000, '{"format": 2, "size": NaN}'):
        path.write_bytes(safetensors.torch.save(found.tensors, metadata={"lowregret": text}))
        assert read_or_refused(kind, path) is None


def rewritten(path: Path, tensors: dict[str, torch.Tensor], said: Any, format_: int) -> None:
    """A file that says so, with the digest that belongs to it or, in the first format, without any."""
    text = json.dumps({**said, "format": format_} if isinstance(said, dict) and "format" in said else said)
    digest = {"lowregret.sha256": checkpoints.digest_of(text, tensors)} if format_ == 2 else {}
    path.write_bytes(safetensors.torch.save(tensors, metadata={"lowregret": text, **digest}))


@pytest.mark.parametrize("kind", KINDS)
def test_odd_tensors_are_refused_in_words(kind: str, tmp_path: Path) -> None:
    """Each tensor in turn of another shape or type, or gone, with a digest that fits."""
    path, rng = written(kind, tmp_path), np.random.default_rng(2)
    found, whole = checkpoints.read(path), loaded(kind, path)
    odd: list[Callable[[torch.Tensor], torch.Tensor | None]] = [
        lambda t: None,
        lambda t: t[:0].clone(),
        lambda t: t.unsqueeze(0).clone(),
        lambda t: t.reshape(-1)[:1].reshape(()).clone(),
        lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]),
        lambda t: t.to(torch.int32),
        lambda t: t.to(torch.bool),
        lambda t: t.to(torch.complex64),
        lambda t: t.to(torch.float8_e4m3fn),
    ]
    everywhere = [(name, change) for name in found.tensors for change in odd]
    for case in rng.permutation(len(everywhere))[: 150 * TIMES]:
        name, change = everywhere[case]
        try:
            other = change(found.tensors[name])
        except (IndexError, RuntimeError):
            continue  # a number has no rows, and nothing has no first
        kept = {k: v for k, v in found.tensors.items() if k != name}
        rewritten(path, kept if other is None else {**kept, name: other}, found.about, 2)
        result = read_or_refused(kind, path)
        assert result is None or equal(result, whole), (name, other)


def test_a_small_file_cannot_claim_a_large_model(tmp_path: Path) -> None:
    path = written("trained", tmp_path)
    found = checkpoints.read(path)
    for claim in ({"layers": 10**6}, {"context": 10**12}, {"width": 2 * 10**9}, {"inner": 10**15}):
        about = {**found.about, "size": {**found.about["size"], **claim}}
        checkpoints.write(path, found.tensors, about)
        with pytest.raises(ValueError, match=r"m\.safetensors (says that it has 1000000 layers|lacks)"):
            load(path)
    checkpoints.write(path, found.tensors, {**found.about, "n_states": 10**12})
    with pytest.raises(ValueError, match=r"lacks embedding\.weight or has them in another shape"):
        load(path)
    built = written("built", tmp_path)
    whole = checkpoints.read(built)
    for name in ("one", "register", "out"):
        checkpoints.write(built, whole.tensors, {**whole.about, "stream": {**whole.about["stream"], name: 10**9}})
        with pytest.raises(ValueError, match=r"token_SxD must be torch\.float64\[2, 1000"):
            construct.load(built)


def test_files_without_a_digest_are_read_only_if_their_format_had_none(tmp_path: Path) -> None:
    path = written("trained", tmp_path)
    found, whole = checkpoints.read(path), loaded("trained", path)
    rewritten(path, found.tensors, found.about, 1)
    assert equal(loaded("trained", path), whole)
    text = json.dumps(found.about)
    path.write_bytes(safetensors.torch.save(found.tensors, metadata={"lowregret": text}))
    with pytest.raises(ValueError, match="damaged: its digest is not that of what it holds"):
        load(path)
    one = json.dumps({**found.about, "format": 1})  # a digest that is there counts, whatever the format
    path.write_bytes(safetensors.torch.save(found.tensors, metadata={"lowregret": one, "lowregret.sha256": "0" * 64}))
    with pytest.raises(ValueError, match="damaged"):
        load(path)


def test_the_digest_is_of_everything_and_of_no_order() -> None:
    tensors = {"a": torch.arange(4.0), "b": torch.zeros((2, 3)), "one": torch.tensor(1.5), "none": torch.zeros((0, 2))}
    digest = checkpoints.digest_of("text", tensors)
    assert digest == checkpoints.digest_of("text", dict(reversed(tensors.items())))
    assert digest != checkpoints.digest_of("texts", tensors)
    for other in (
        {**tensors, "b": torch.zeros((3, 2))},
        {**tensors, "b": torch.zeros((2, 3), dtype=torch.int32)},
        {("c" if name == "b" else name): tensor for name, tensor in tensors.items()},
        {name: tensor for name, tensor in tensors.items() if name != "none"},
        {**tensors, "a": -tensors["a"]},
    ):
        assert checkpoints.digest_of("text", other) != digest


@pytest.mark.parametrize("shape", [(2, SMALL), (5, Size(16, 12, 3, 4, 7))])
def test_shapes_are_known_before_there_are_weights(shape: tuple[int, Size]) -> None:
    from lowregret.transformer.decoder import weight_shapes

    assert weight_shapes(*shape) == {name: tuple(p.shape) for name, p in Decoder(*shape).state_dict().items()}


def test_a_model_in_use_does_not_change_with_its_file(tmp_path: Path) -> None:
    path = written("built", tmp_path)
    model, tokens = construct.load(path), [[1, 0, 1, 1, 1, 1]]
    before = model.predict_sequence(tokens)
    size = path.stat().st_size
    with open(path, "rb+") as file:  # in place, as a copy over it would be
        file.write(bytes(size))
    np.testing.assert_array_equal(model.predict_sequence(tokens), before)


def test_a_damaged_model_is_not_trained_on(tmp_path: Path) -> None:
    """A finished model with one bit flipped is refused, not returned."""
    small = TrainingSettings(size=SMALL, steps=2, batch=2)
    train(Imitate(lr.PolyaUrn(2)), tmp_path / "m.safetensors", small)
    data = bytearray((tmp_path / "m.safetensors").read_bytes())
    data[-1] ^= 4
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match="digest"):
        train(Imitate(lr.PolyaUrn(2)), tmp_path / "m.safetensors", small)
