"""Checkpoints: whole or not at all, and what is wrong with a bad one is said."""

import errno
import json
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch

from lowregret.transformer import Decoder, Size, checkpoints, load, save

SMALL = Size(8, 16, 2, 1, 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(Decoder(3, SMALL, seed=5), tmp_path / "model.safetensors", {"note": "hello"})
    return tmp_path / "model.safetensors"


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_what_is_saved_is_loaded(path: Path) -> None:
    model, original = load(path), Decoder(3, SMALL, seed=5)
    assert model.decoder.size == SMALL
    for (name, ours), (_, theirs) in zip(model.decoder.named_parameters(), original.named_parameters(), strict=True):
        assert torch.equal(ours, theirs), name
    beside = json.loads(path.with_suffix(".json").read_text())
    assert beside == {"format": 2, "note": "hello", "n_states": 3, "size": SMALL._asdict()}
    assert set(files(path.parent)) == {"model.safetensors", "model.json"}  # no drafts are left
    assert set(safetensors.torch.load_file(path)) == {name for name, _ in original.named_parameters()}  # anyone's


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_weights_keep_their_precision(kind: torch.dtype, tmp_path: Path) -> None:
    decoder = Decoder(3, SMALL, seed=5).to(kind)
    save(decoder, tmp_path / "model.safetensors")
    read = load(tmp_path / "model.safetensors").decoder
    for ours, theirs in zip(read.parameters(), decoder.parameters(), strict=True):
        assert ours.dtype == kind
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("keep", [0, 4, 100, 2000, -1])
def test_a_truncated_file_is_refused(path: Path, keep: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    before = files(path.parent)
    with pytest.raises(ValueError, match="truncated or not a safetensors file"):
        load(path)
    assert files(path.parent) == before


def test_another_size_is_refused(path: Path) -> None:
    before = files(path.parent)
    other = Decoder(3, SMALL._replace(width=32), seed=1)
    weights = [p.clone() for p in other.parameters()]
    with pytest.raises(ValueError, match=r"of another size: 3 states and Size\(context=8, width=16"):
        checkpoints.fill(other, checkpoints.read(path), path)
    assert all(torch.equal(a, b) for a, b in zip(weights, other.parameters(), strict=True))
    assert files(path.parent) == before


def test_a_newer_format_is_refused(path: Path) -> None:
    found = checkpoints.read(path)
    text = json.dumps({**found.about, "format": 3})
    path.write_bytes(safetensors.torch.save(found.tensors, metadata={"lowregret": text}))
    before = files(path.parent)
    with pytest.raises(ValueError, match=r"has format 3, this version reads 1 to 2: it is from a newer lowregret"):
        load(path)
    assert files(path.parent) == before


def test_files_of_others_are_refused(path: Path, tmp_path: Path) -> None:
    safetensors.torch.save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="of another program"):
        load(path)
    path.write_bytes(struct.pack("<Q", 2) + b"{}")
    with pytest.raises(ValueError, match="another program"):
        load(path)
    with pytest.raises(ValueError, match="there is no checkpoint"):
        load(tmp_path / "nowhere.safetensors")


def test_missing_weights_are_refused(path: Path) -> None:
    found = checkpoints.read(path)
    found.tensors.pop("out_norm.weight")
    checkpoints.write(path, found.tensors, found.about)
    with pytest.raises(ValueError, match=r"lacks out_norm\.weight"):
        load(path)


def test_a_path_is_refused_before_anything_is_written(path: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for wrong, words in (
        (tmp_path / "model.json", r"path must end in \.safetensors, got .*model\.json"),
        (tmp_path / "model", r"path must end in \.safetensors"),
        (tmp_path, r"path must end in \.safetensors"),
        (tmp_path / "folder.safetensors", "is a folder"),
        (path / "deeper" / "m.safetensors", r"model\.safetensors is a file: there can be no folder"),
        (5, "path must be the name of a file, got 5"),
    ):
        with pytest.raises(ValueError, match=words):
            save(Decoder(3, SMALL), wrong)
    with pytest.raises(ValueError, match="about must be JSON with finite numbers"):
        save(Decoder(3, SMALL), path, {"note": object()})
    with pytest.raises(ValueError, match="model must be a Transformer or a Decoder, got int"):
        save(5, path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    for wrong, words in ((5, "path must be"), (tmp_path, "is a folder: name a file in it")):
        with pytest.raises(ValueError, match=words):
            load(wrong)
    for device in ("cuda:9", "gpu", "meta", 3):
        with pytest.raises(ValueError, match=r"device must be one of cpu.* here, got"):
            load(path, device)


def test_versions_do_not_share_what_is_beside_them(tmp_path: Path) -> None:
    for version in (1, 2):
        save(Decoder(3, SMALL), tmp_path / f"m.v{version}.safetensors", {"note": version})
    assert json.loads((tmp_path / "m.v1.json").read_text())["note"] == 1


def test_a_full_disk_keeps_the_last_good_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(path.parent)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(Decoder(3, SMALL, seed=6), path)
    assert files(path.parent) == before


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A limit on file size is a full disk as far as writing goes."""
    import resource
    import signal

    path = tmp_path / "model.safetensors"
    save(Decoder(3, SMALL, seed=5), path)
    before = files(tmp_path)
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
        with pytest.raises(OSError, match="too large"):
            save(Decoder(3, SMALL, seed=6), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert files(tmp_path) == before
