"""Files that are written whole or not at all: under another name first, flushed to the disk, then renamed."""

import contextlib
import glob
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

_count = itertools.count()  # two threads may write the same file


def replace(path: Path, data: bytes) -> None:
    """The file with this content, or as it was."""
    replace_all({path: data})


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """The files with these contents, or all of them as they were.

    All are written beside their places before the first is renamed, so that a disk that fills up changes none. A link
    is followed and stays a link; what is no file (a pipe, a terminal) is written to as it is.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            with _named(path):
                target = Path(os.path.realpath(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.exists() and not target.is_file():
                    target.write_bytes(data)
                    continue
                drafts[target] = draft = _draft(target)
                with open(draft, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if target.exists():
                    shutil.copymode(target, draft)
        for target, draft in drafts.items():
            with _named(target):
                os.replace(draft, target)
    finally:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()


@contextlib.contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """A path for a program that writes files itself: what it leaves there takes its place if nothing goes wrong.

    Files that it puts beside that path come along.
    """
    with _named(path):
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        room = _draft(target)
        room.mkdir()
        try:
            yield room / target.name
            # The file itself comes last: what it refers to is there by then.
            for written in sorted(room.iterdir(), key=lambda file: file.name == target.name):
                with open(written, "rb+") as file:
                    os.fsync(file.fileno())
                os.replace(written, target.with_name(written.name))
        finally:
            shutil.rmtree(room, ignore_errors=True)


def sweep(*paths: Path) -> None:
    """Remove what a killed run left of its drafts of these files."""
    for path in (Path(os.path.realpath(path)) for path in paths):
        for draft in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            if draft.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}-{next(_count)}.part")


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system refuses, in a sentence that names the file."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise
        words = f"{path} could not be written: {error.strerror}. A file that was there is as it was"
        raise OSError(error.errno, words) from error
