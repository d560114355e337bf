"""Compiled code on the disk that is damaged, in any byte, or that the disk refuses: compiled anew, and said so."""

import importlib.util
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowregret.files import compiled, to_read

numba = pytest.importorskip("numba")

SOURCE = """
def total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found
"""


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """In a module of its own, with nothing compiled yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    path = tmp_path / "module_of_total.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("module_of_total", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.total


def anew(function: Any) -> tuple[float, bool]:
    """What a new process gets, and whether it was on the disk."""
    made = compiled.__wrapped__(function)
    return made(np.arange(4.0)), sum(made.stats.cache_hits.values()) == 1


def kept(tmp_path: Path) -> dict[str, Path]:
    return {path.suffix: path for path in (tmp_path / "__pycache__").glob("*total*.nb*")}


def test_it_is_taken_from_the_disk(function: Any, tmp_path: Path) -> None:
    assert anew(function) == (14.0, False)
    assert sorted(kept(tmp_path)) == [".nbc", ".nbi"]
    assert anew(function) == (14.0, True)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["emptied", "cut", "a letter", "gone", "bits"])
def test_damage_is_mended(damage: str, suffix: str, function: Any, tmp_path: Path, caplog: Any) -> None:
    anew(function)
    path = kept(tmp_path)[suffix]
    data = path.read_bytes()
    whole = {one.name: one.read_bytes() for one in kept(tmp_path).values()}
    contents = {"emptied": [b""], "cut": [data[: len(data) // 2]], "a letter": [b"dear numba\n"], "gone": [None]}
    rng = np.random.default_rng(0)
    places = rng.integers(20, len(data) - 20, size=6)  # further out are a few bits that mean nothing
    bits = [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in places]
    for content in contents.get(damage, bits):
        for name, before in whole.items():
            path.with_name(name).write_bytes(before)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "lowregret"):
            found, hit = anew(function)
        assert found == 14.0
        told = "the compiled code of total is damaged" in caplog.text
        assert not (hit and told)
        if damage != "gone" and (damage, suffix) != ("bits", ".nbi"):  # what it does not list is merely missing
            assert told
        if suffix == ".nbc":
            assert not hit  # every bit of it is under the seal
        assert anew(function) == (14.0, True)  # it is whole again


def test_a_disk_that_refuses_is_told_of(
    function: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "lowregret"):
        patched.setattr(os, "replace", full)
        assert anew(function) == (14.0, False)
    assert "the compiled code of total could not be kept (No space left on device)" in caplog.text
    assert not kept(tmp_path)
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])  # no folder can be written to
    assert anew(function) == (14.0, False)


def test_arrays_to_read_are_of_one_kind() -> None:
    frozen = np.arange(6).reshape(2, 3)
    frozen.flags.writeable = False
    kinds = [np.int8, np.uint32, np.int64]
    for one in (frozen, frozen.T.copy().T, np.broadcast_to(frozen[:1], (2, 3)), *map(frozen.astype, kinds)):
        read = to_read(one, np.int64)
        assert numba.typeof(read) == numba.typeof(np.zeros((2, 3), dtype=np.int64))
        assert np.array_equal(read, one)
    whole = np.zeros((2, 3))
    assert to_read(whole) is whole
