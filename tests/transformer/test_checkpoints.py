"""Checkpoints of every kind: what is saved is loaded; what is wrong with a bad one is said, and nothing is changed.

``LOWREGRET_FUZZ=50`` multiplies the number of cases of each fuzzer by fifty, for a run of minutes.
"""

import json
import os
import struct
from collections.abc import Callable
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
    Size,
    TrainingSettings,
    Transformer,
    checkpoints,
    load,
    save,
    train,
)
from lowregret.transformer.training import Training

from .test_tasks import robust_with_urn

TIMES = int(os.environ.get("LOWREGRET_FUZZ", "1"))
SMALL = Size(8, 8, 2, 1, 8)
KINDS = ("trained", "built", "state")
SETTINGS = TrainingSettings(size=SMALL, steps=6, batch=4, optimiser=DECAYING)


def run_at(path: Path) -> Training:
    robust = robust_with_urn(Transformer(Decoder(2, SMALL, seed=9)), lr.matching(), 8)
    task = Distil(lr.evaluate.sources.paper_sources(8)["b"], robust, play_every=2, play_count=3, pool=4)
    return Training(task, path, SETTINGS)


def written(kind: str, folder: Path) -> Path:
    """A file of each kind."""
    path = folder / "m.safetensors"
    if kind == "trained":
        save(Decoder(2, SMALL, seed=1), path, {"note": "hello"})
        return path
    if kind == "built":
        setting = lr.robust.algorithm_1(lr.cost_loss(1, 4), lr.RegretGap(6))
        construct.save(construct.build(Decoder(2, SMALL, seed=1), setting), path)
        return path
    run = run_at(path)
    for _ in range(4):
        run.total += run.advance()
    run.save()
    return run.state_path


def loaded(kind: str, path: Path) -> tuple[dict[str, torch.Tensor], Any]:
    """All that comes out of the file: tensors by name, and what else a user would act on."""
    if kind == "trained":
        decoder = load(path).decoder
        return dict(decoder.state_dict()), (decoder.n_states, decoder.size)
    if kind == "built":
        model = construct.load(path)
        return dict(model.module.state_dict()), (repr(model), model.problem, model.certificate)
    run = run_at(path.with_name("m.safetensors"))
    moments = {f"{i}.{k}": v for i, kept in enumerate(run.optimiser.state.values()) for k, v in kept.items()}
    tensors = {**run.decoder.state_dict(), **moments, **run.task.state(), "total": run.total}
    return tensors, (run.step, run.seconds, run.metrics)


def equal(one: tuple[dict[str, torch.Tensor], Any], other: tuple[dict[str, torch.Tensor], Any]) -> bool:
    (a, about), (b, also) = one, other
    same = a.keys() == b.keys() and about == also
    return same and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


def read_or_refused(kind: str, path: Path) -> tuple[dict[str, torch.Tensor], Any] | None:
    """What comes out, or None for a refusal that names the file; anything else is what the test is looking for."""
    try:
        return loaded(kind, path)
    except ValueError as error:
        words = str(error)
    assert path.name in words
    return None


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def rewritten(path: Path, tensors: dict[str, torch.Tensor], about: Any) -> None:
    """A file that says so, with the digest that belongs to it."""
    text = json.dumps(about)
    metadata = {"lowregret": text, "lowregret.sha256": checkpoints.digest_of(text, tensors)}
    path.write_bytes(safetensors.torch.save(tensors, metadata=metadata))


def headed(tensors: dict[str, torch.Tensor], text: str) -> bytes:
    return safetensors.torch.save(tensors, metadata={"lowregret": text})


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_saved_is_loaded(kind: torch.dtype, tmp_path: Path) -> None:
    decoder, path = Decoder(3, SMALL, seed=5).to(kind), tmp_path / "model.v2.safetensors"
    save(decoder, path, {"note": "hello"})
    read = load(path).decoder
    assert equal((dict(read.state_dict()), read.size), (dict(decoder.state_dict()), SMALL))
    beside = json.loads((tmp_path / "model.v2.json").read_text())
    assert beside == {"format": 2, "note": "hello", "n_states": 3, "size": SMALL._asdict()}
    assert set(files(tmp_path)) == {"model.v2.safetensors", "model.v2.json"}
    assert set(safetensors.torch.load_file(path)) == {name for name, _ in decoder.named_parameters()}  # anyone's


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = written("trained", tmp_path)
    data, (tensors, about) = path.read_bytes(), checkpoints.read(path)
    fewer = {name: tensor for name, tensor in tensors.items() if name != "out_norm.weight"}
    cut = "truncated or not a safetensors file"
    bad: list[tuple[bytes | Callable[[], None], str]] = [
        *((data[:keep], cut) for keep in (0, 4, 100, len(data) // 2, -1)),
        (safetensors.torch.save({"x": torch.zeros(2)}), "of another program"),
        (struct.pack("<Q", 2) + b"{}", "of another program"),
        (data[:-1] + bytes([data[-1] ^ 4]), "damaged: its digest is not that of what it holds"),
        (headed(tensors, json.dumps(about)), "damaged: its digest"),
        (lambda: rewritten(path, tensors, {**about, "format": 3}), "has format 3, this version reads 2"),
        (lambda: rewritten(path, fewer, about), r"Missing key.*out_norm\.weight"),
        *((lambda text=text: path.write_bytes(headed(tensors, text)), ".") for text in ("null", "{", "[" * 100_000)),
    ]
    for claim in ({"layers": 10**6}, {"context": 10**12}, {"width": 2 * 10**9}, {"inner": 10**15}):
        large = {**about, "size": {**about["size"], **claim}}
        bad.append((lambda large=large: rewritten(path, tensors, large), "does not hold the decoder that it says"))
    for content, words in bad:
        content() if callable(content) else path.write_bytes(content)
        before = files(tmp_path)
        with pytest.raises(ValueError, match=rf"(?s)checkpoint .*m\.safetensors .*{words}"):
            load(path)
        assert files(tmp_path) == before
    for wrong, words in (
        (tmp_path, "is a folder: name a file in it"),
        (tmp_path / "nowhere.safetensors", "there is no checkpoint"),
    ):
        with pytest.raises(ValueError, match=words):
            load(wrong)
    for device in ("cuda:9", "gpu", "meta", 3):
        with pytest.raises(ValueError, match=r"device must be one of cpu.* here, got"):
            load(path, device)


def test_a_path_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = written("trained", tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(ValueError, match=r"path must end in \.safetensors, got .*model\.json"):
        save(Decoder(3, SMALL), tmp_path / "model.json")
    with pytest.raises(ValueError, match="about must be JSON with finite numbers"):
        save(Decoder(3, SMALL), path, {"note": object()})
    with pytest.raises(ValueError, match="model must be a Transformer or a Decoder, got int"):
        save(5, path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


# Fuzzers


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
    data, whole, cases = path.read_bytes(), loaded(kind, path), 100 * TIMES
    for case in range(cases):
        path.write_bytes(changes(data, rng))
        found = read_or_refused(kind, path)
        refused += found is None
        assert found is None or equal(found, whole), f"case {case}: another model was read"
    assert refused > 0.9 * cases  # some bytes are spaces, or were put back as they were


@pytest.mark.parametrize("kind", ["trained", "built"])
def test_odd_tensors_are_refused_in_words(kind: str, tmp_path: Path) -> None:
    """Each tensor in turn of another shape or type, or gone, with a digest that fits."""
    path, rng = written(kind, tmp_path), np.random.default_rng(2)
    (tensors, about), whole = checkpoints.read(path), loaded(kind, path)
    odd: list[Callable[[torch.Tensor], torch.Tensor | None]] = [
        lambda t: None,
        lambda t: t[:0].clone(),
        lambda t: t.unsqueeze(0).clone(),
        lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]),
        lambda t: t.to(torch.int32),
        lambda t: t.to(torch.complex64),
        lambda t: t.to(torch.float8_e4m3fn),
    ]
    everywhere = [(name, change) for name in tensors for change in odd]
    for case in rng.permutation(len(everywhere))[: 100 * TIMES]:
        name, change = everywhere[case]
        other = change(tensors[name])
        kept = {k: v for k, v in tensors.items() if k != name}
        rewritten(path, kept if other is None else {**kept, name: other}, about)
        result = read_or_refused(kind, path)
        assert result is None or equal(result, whole), (name, other)


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
