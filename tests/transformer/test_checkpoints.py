"""Checkpoints: what is saved is loaded; what is wrong with a bad one is said."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from lowregret.transformer import Decoder, Size, checkpoints, load, save

SMALL = Size(8, 8, 2, 1, 8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(Decoder(2, SMALL, seed=1), tmp_path / "m.safetensors", {"note": "hello"})
    return tmp_path / "m.safetensors"


def equal(one: Decoder, other: Decoder) -> bool:
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    same = all(a == b and p.dtype == q.dtype and torch.equal(p, q) for (a, p), (b, q) in pairs)
    return same and (one.n_states, one.size) == (other.n_states, other.size)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_saved_is_loaded(kind: torch.dtype, tmp_path: Path) -> None:
    decoder, path = Decoder(3, SMALL, seed=5).to(kind), tmp_path / "new" / "model.v2.safetensors"
    save(decoder, path, {"note": "hello"})
    assert equal(load(path).decoder, decoder)
    beside = json.loads(path.with_suffix(".json").read_text())
    assert beside == {"format": 2, "note": "hello", "n_states": 3, "size": SMALL._asdict()}
    assert {file.name for file in path.parent.iterdir()} == {"model.v2.safetensors", "model.v2.json"}
    assert set(safetensors.torch.load_file(path)) == {name for name, _ in decoder.named_parameters()}  # anyone's


def test_what_is_no_checkpoint_is_refused(path: Path) -> None:
    data, (tensors, about) = path.read_bytes(), checkpoints.read(path)
    text = json.dumps({**about, "format": 3})
    newer = {"lowregret": text, "lowregret.sha256": checkpoints.digest_of(text, tensors)}
    for content, words in (
        *((data[:keep], "truncated or not a safetensors file") for keep in (0, 4, 100, len(data) // 2, -1)),
        (safetensors.torch.save({"x": torch.zeros(2)}), "of another program"),
        (struct.pack("<Q", 2) + b"{}", "of another program"),
        (data[:-1] + bytes([data[-1] ^ 4]), "damaged: its digest is not that of what it holds"),
        (safetensors.torch.save(tensors, {"lowregret": json.dumps(about)}), "damaged: its digest"),
        (safetensors.torch.save(tensors, newer), "has format 3, this version of lowregret reads 2"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"checkpoint .*m\.safetensors .*{words}"):
            load(path)


def test_a_path_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path must end in \.safetensors, got .*model\.json"):
        save(Decoder(3, SMALL), tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def test_flipped_bits_are_refused_or_change_nothing(path: Path) -> None:
    """A refusal names the file; half of the flips are in the header."""
    rng, refused, data, whole = np.random.default_rng(0), 0, path.read_bytes(), load(path).decoder
    header = 8 + struct.unpack("<Q", data[:8])[0]
    for case in range(300):
        at = int(rng.integers(header if case % 2 else len(data)))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
        try:
            found = load(path).decoder
        except ValueError as error:
            refused += f"checkpoint {path} is " in str(error)
        else:
            assert equal(found, whole), f"case {case}: another model was read"
    assert refused > 0.9 * 300  # some bytes are spaces


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


def test_a_model_in_use_does_not_change_with_its_file(path: Path) -> None:
    model, tokens = load(path), [[1, 0, 1, 1, 1, 1]]
    before = model.predict_sequence(tokens)
    with open(path, "rb+") as file:  # in place, as a copy over it would be
        file.write(bytes(path.stat().st_size))
    np.testing.assert_array_equal(model.predict_sequence(tokens), before)
