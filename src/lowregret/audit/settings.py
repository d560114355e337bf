"""The settings of an audit in a file, ``audit.toml``: what ``audit_log`` takes, by the same names."""

import inspect
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import files, inputs
from ..problems import DecisionProblem, Payoff, stakes_in
from .auditing import audit_log
from .laws import listed

_PATHS = ("log", "payoffs", "out")
_OTHERS = ("log", "problem", "told")  # arguments of ``audit_log`` that a file cannot give
TAKEN = tuple(name for name in inspect.signature(audit_log).parameters if name not in _OTHERS)


class AuditFile(NamedTuple):
    """The settings of an audit in a file: the log, the payoffs, where the answer goes, and the keyword arguments."""

    log: Path | None = None
    payoffs: Path | None = None
    out: Path | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012

    @property
    def problem(self) -> DecisionProblem | Payoff:
        """The problem in the file of payoffs."""
        if self.payoffs is None:
            raise ValueError("the settings must name a file of payoffs: payoffs = NAME")
        return stakes_in(self.payoffs)


def settings_in(path: str | Path) -> AuditFile:
    """The settings in a .toml file; its paths are relative to the file.

    ``audit_log(told.log, told.problem, **told.settings)`` is the audit that it describes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "audit.toml"
    ...     _ = file.write_text('log = "log.csv"\\ndelta = 0.01\\n[columns]\\nstream = "shop"\\n')
    ...     told = settings_in(file)
    >>> told.log.name, told.settings
    ('log.csv', {'delta': 0.01, 'columns': {'stream': 'shop'}})
    """
    path = files.handed_over(path, "settings", (".toml",))
    try:
        told = tomllib.loads(files.text_in(path, "settings"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"settings must be TOML, and {path} is not: {error}") from error
    if unknown := [name for name in told if name not in (*_PATHS, *TAKEN)]:
        raise ValueError(
            f"settings may have {listed((*_PATHS, *TAKEN))}, and {path} has {listed(unknown)}"
            + (": those of columns belong below [columns]" if "columns" not in unknown else "")
        )
    paths = {}
    for name in _PATHS:
        given = told.pop(name, None)
        if given is not None and not isinstance(given, str):
            raise ValueError(f"{name} must be a path in {path}, got {inputs.shown(given)}")
        paths[name] = None if given is None else path.parent / given
    columns = told.get("columns")
    if isinstance(columns, Mapping) and isinstance(columns.get("quantiles"), Mapping):
        told["columns"] = {**columns, "quantiles": {_level(level): own for level, own in columns["quantiles"].items()}}
    return AuditFile(**paths, settings=told)


def quantiles_in_words(text: str) -> dict[float, str]:
    """What ``--quantiles`` says: LEVEL=COLUMN each, with commas.

    >>> quantiles_in_words("0.1=low,0.9=high")
    {0.1: 'low', 0.9: 'high'}
    """
    pairs = [piece.partition("=") for piece in text.split(",")]
    if not all(name for _, _, name in pairs):
        raise ValueError(f"--quantiles must be LEVEL=COLUMN each, with commas, such as 0.1=low,0.9=high, got {text!r}")
    return {_level(level): name for level, _, name in pairs}


def _level(text: Any) -> float:
    """A level as the key of a table, which is a text."""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"a level of quantiles must be a number such as 0.1, got {text!r}") from error
