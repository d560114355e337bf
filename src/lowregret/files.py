"""Files: written whole or not at all; text that is read, or refused in words."""

import os
import secrets
import shutil
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write this content to the file, or leave it as it was: a process that is killed leaves no half of one."""
    path = path.resolve()  # a link stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        draft.write_bytes(data)
        if path.exists():
            shutil.copymode(path, draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def text_in(path: str | Path, name: str) -> str:
    """The text of a file, UTF-8; a byte order mark, as spreadsheets write one, is left out."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{name} must be a file: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} must be text in UTF-8, and {path} is not: {error}") from None
    if not text.strip():
        raise ValueError(f"{name} must hold something, and {path} is empty")
    return text
