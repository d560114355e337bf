"""The settings of an audit: one dataclass, the same in Python, in a file such as ``audit.toml``, and in options."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from .. import files, inputs

_MOST = 0.1  # of a tolerance
_ONE = ("stream", "order", "state", "known_at", "context", "scale", "model")  # roles of a single column


@dataclass(frozen=True)
class Columns:
    """Names of columns; None: that with a usual name, or from ``context`` on, which changes what is promised, none.

    Several columns are given by state (or by level, of quantiles), or in their order; one alone holds lists.
    """

    stream: str | None = None  # "none": all rows are one stream
    order: str | None = None
    state: str | None = None
    known_at: str | None = None
    model: str | None = None  # whose quantiles, where the log has those of several
    probs: Mapping[Any, str] | Sequence[str] | None = None
    quantiles: Mapping[float, str] | None = None
    context: str | None = None
    scale: str | None = None
    references: Mapping[str, Any] | None = None  # by the name of the reference, each as probs or quantiles
    payoffs: Sequence[str] | None = None  # action by action

    def __post_init__(self) -> None:
        for role in _ONE:
            if (name := getattr(self, role)) is not None:
                _column(name, role)
        if self.quantiles is not None:
            quantiles = inputs.of_kind(self.quantiles, Mapping, "quantiles", "names of columns by level")
            by_level = {level_of(level): _column(name, "quantiles") for level, name in quantiles.items()}
            if len(by_level) < len(quantiles):
                raise ValueError(f"quantiles must have each level once, got {inputs.shown(quantiles)}")
            inputs.keep(self, quantiles=dict(sorted(by_level.items())))
        references = inputs.of_kind(self.references or {}, Mapping, "references", "columns by the name of a reference")
        inputs.keep(
            self,
            probs=None if self.probs is None else _several(self.probs, "probs"),
            payoffs=None if self.payoffs is None else _several(self.payoffs, "payoffs"),
            references={_column(name, "references"): _several(own, name) for name, own in references.items()},
        )


@dataclass(frozen=True)
class AuditSettings:
    """What an audit takes beside a log and a problem.

    Parameters
    ----------
    columns
        Which column is what, where they do not have the usual names: ``Columns``, or a dict of the same names.
    lag
        After how many steps an outcome is known; by default before the next, or as ``columns.known_at`` has it.
    delta
        Chance that a stream whose model is right ever has an alarm.
    fdr
        The largest share of the streams named (by e-BH) that may be named wrongly, on average.
    tolerance
        How far probabilities may be from summing to one, 0.1 at most; they are then divided by their sum.
    horizon
        Steps that the guard of each stream is made for; by default those that the stream has.
    currency
        Of the payoffs.
    cluster
        Whether to judge on a Ray cluster.

    >>> AuditSettings(columns={"stream": "shop"}, delta=0.01).columns.stream
    'shop'
    """

    columns: Columns = Columns()
    lag: int | None = None
    delta: float = 0.05
    fdr: float = 0.1
    tolerance: float = 1e-6
    horizon: int | None = None
    currency: str | None = None
    cluster: bool = False

    def __post_init__(self) -> None:
        columns = self.columns
        if isinstance(columns, Mapping):
            columns = Columns(**_known(columns, "columns", [field.name for field in fields(Columns)]))
        tolerance = inputs.positive(self.tolerance, "tolerance")
        if tolerance > _MOST:
            raise ValueError(f"tolerance is for rounding, and must be at most {_MOST:g}, got {self.tolerance!r}")
        inputs.keep(
            self,
            columns=inputs.of_kind(columns, Columns, "columns", "Columns, or a dict of names of columns"),
            lag=None if self.lag is None else inputs.whole(self.lag, "lag"),
            delta=inputs.probability(self.delta, "delta"),
            fdr=inputs.probability(self.fdr, "fdr"),
            tolerance=tolerance,
            horizon=inputs.horizon_or_none(self.horizon),
        )
        if self.lag is not None and self.columns.known_at is not None:
            raise ValueError(
                f"lag or known_at says when outcomes were known, got both: {self.lag} and {columns.known_at!r}"
            )


class AuditFile(NamedTuple):
    """An audit as a file describes it: ``audit(file.log, payoffs_in(file.payoffs), **vars(file.settings))``."""

    log: tuple[Path, ...] = ()
    payoffs: Path | None = None
    out: Path | None = None
    settings: AuditSettings = AuditSettings()


def settings_in(path: str | Path) -> AuditFile:
    """The audit in a .toml file: ``log`` (a path or several), ``payoffs``, ``out``, and fields of ``AuditSettings``.

    Its paths are relative to the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "audit.toml"
    ...     _ = file.write_text('log = "log.csv"\\ndelta = 0.01\\n[columns]\\nstream = "shop"\\n')
    ...     found = settings_in(file)
    >>> found.log[0].name, found.settings.delta, found.settings.columns.stream
    ('log.csv', 0.01, 'shop')
    """
    path = Path(path)
    try:
        given = tomllib.loads(files.text_in(path, "settings"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"settings must be TOML, and {path} is not: {error}") from error
    _known(given, str(path), ["log", "payoffs", "out", *(field.name for field in fields(AuditSettings))])
    logs = given.pop("log", [])
    logs = tuple(path.parent / log for log in (logs if isinstance(logs, list) else [logs]))
    paths: dict[str, Any] = {name: path.parent / given.pop(name) for name in ("payoffs", "out") if name in given}
    return AuditFile(logs, **paths, settings=AuditSettings(**given))


def level_of(level: Any) -> float:
    """A level of quantiles: a number, or a text as the keys of a TOML table are.

    >>> level_of("0.1")
    0.1
    """
    try:
        return inputs.probability(float(level), "a level")
    except (TypeError, ValueError) as error:
        raise ValueError(f"a level of quantiles must be a number such as 0.1, got {inputs.shown(level)}") from error


def _known(given: Mapping[str, Any], what: str, names: Sequence[str]) -> Mapping[str, Any]:
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"{what} may have {', '.join(names)}, got {', '.join(map(str, unknown))}")
    return given


def _column(name: Any, role: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{role} must be the name of a column, got {inputs.shown(name)}")
    return name


def _several(own: Any, role: str) -> dict[str, str] | tuple[str, ...]:
    """Columns by state or level as texts, or in order; a single name is that of a column that holds lists."""
    if isinstance(own, Mapping):
        return {str(key): _column(name, role) for key, name in own.items()}
    return tuple(_column(name, role) for name in (own if isinstance(own, (list, tuple)) else [own]))
