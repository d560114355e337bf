"""``lowregret init``: a log in, the settings of its audit and a table of payoffs to fill in out (extra: ``audit``)."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from .auditing import refused
from .options import refusals


def init(
    log: Annotated[Path, typer.Argument(help="A file, a folder of files of one kind, or a glob in quotes.")],
) -> None:
    """Propose which column of a log is what: writes audit.toml and payoffs to fill in beside it."""
    with refusals(), refused():
        from ..audits.proposing import proposed
        from ..tables import printable

        log = Path(os.path.abspath(log))  # "." has no name
        found, folder = proposed(log), log.parent
        for name, text in (("audit.toml", found.settings), (found.payoffs_name, found.payoffs)):
            if (folder / name).exists():
                typer.echo(f"{folder / name} is there already, and is left as it is")
            else:
                (folder / name).write_text(text, encoding="utf-8")
                typer.echo(f"Written: {folder / name}")
        for note in found.notes:
            typer.echo(printable(f"- {note}"))
        typer.echo(f"Then: {shlex.join(['lowregret', 'audit', '--config', str(folder / 'audit.toml')])}")
