"""What is written: whole or not at all, through links."""

import os
from pathlib import Path
from typing import Any

import pytest

from lowregret import files


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed_and_stays(is_there: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "far/target", tmp_path / "link"
    target.parent.mkdir()
    if is_there:
        target.write_text("old")
    link.symlink_to(target)
    files.replace(link, b"new")
    assert link.is_symlink()
    assert everything(target.parent) == {"target": b"new"}


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, b"new")
    assert everything(tmp_path) == {"file": b"old"}
