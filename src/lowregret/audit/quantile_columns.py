"""Which columns of a table are quantiles, as Chronos and Nixtla write them, and of which model."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import inputs
from .columns import every_in, keys_in, named, refuse_doubled, roles_told
from .law_columns import listed
from .times import Every

_ROLES = ("stream", "order", "state", "every", "model", "quantiles", "median", "cutoff")
_CHRONOS = re.compile(r"0?\.\d+", re.ASCII)
_NIXTLA = re.compile(r"(.+)-(lo|hi)-(\d+(?:\.\d+)?)", re.ASCII | re.DOTALL)
_NEURAL = re.compile(r"(.+)_ql(0?\.\d+)", re.ASCII | re.DOTALL)
_MEDIAN = "-median"


class QuantileColumns(NamedTuple):
    """The names of the columns that matter; None: there is one stream, or rows are in order as they stand."""

    stream: str | None
    order: str | None
    state: str  # the outcome
    every: Every | None
    levels: tuple[float, ...]
    values: tuple[str, ...]  # one a level
    point: str | None  # a model's forecast without a level: its median where the intervals lie evenly around it
    cutoff: str | None  # when the forecast was made
    guesses: tuple[str, ...] | None = None  # what else may be the stream if its values hardly repeat; None: it is told
    passed: tuple[str, ...] = ()  # columns that were not taken for it, since theirs do

    @property
    def needed(self) -> list[str]:
        every = (self.stream, self.order, self.state, *self.values, self.point, self.cutoff)
        return list(dict.fromkeys(name for name in every if name))

    @property
    def about(self) -> dict[str, Any]:
        """Which column is read as what, in plain values."""
        quantiles = {f"{level:g}": name for level, name in zip(self.levels, self.values, strict=True)}
        keys = {"stream": self.stream, "order": self.order, "state": self.state, "quantiles": quantiles}
        every = None if self.every is None else str(self.every)
        return keys | {"forecast": self.point, "cutoff": self.cutoff, "every": every}


def quantile_columns(there: Sequence[str], told: Mapping[str, Any] | None = None) -> QuantileColumns:
    """The columns of a table that has those names; what is ``told`` goes before what is usual.

    >>> found = quantile_columns(["unique_id", "ds", "y", "ETS", "ETS-lo-90", "ETS-hi-90"])
    >>> found.levels, found.values, found.point
    ((0.05, 0.95), ('ETS-lo-90', 'ETS-hi-90'), 'ETS')
    """
    told = roles_told(told, _ROLES)
    stream, guesses, order, state = keys_in(there, told)
    cutoff, point = named(there, told, ("cutoff", "median"))
    if state is None:
        raise ValueError(
            f"there must be a column of outcomes, such as y or target: say which of {listed(there)} it is, "
            "columns={'state': NAME}"
        )
    if told.get("quantiles") is not None:
        if told.get("model") is not None:
            raise ValueError("columns must name a model or quantiles, not both")
        own = _told_levels(there, told["quantiles"])
    else:
        taken = {stream, order, state}
        own, usual = _of_model(_models([name for name in there if name not in taken]), told.get("model"), there)
        if told.get("median") is None:
            point = usual if usual in there and 0.5 not in own and usual not in taken else None
    if told.get("median") is not None:
        own, point = {**own, 0.5: str(point)}, None
    cutoff = cutoff or ("cutoff" if "cutoff" in there else None)
    levels = tuple(sorted(own))
    columns = QuantileColumns(
        *(stream, order, state, every_in(told, order), levels, tuple(own[level] for level in levels), point, cutoff),
        guesses,
    )
    refuse_doubled(there, columns.needed)
    return columns


def _models(there: Sequence[str]) -> dict[str, dict[float, str]]:
    """The columns of quantiles by model ("" where no model is named) and level."""
    found: dict[str, dict[float, str]] = {}
    for name in dict.fromkeys(there):
        level, model = None, ""
        if _CHRONOS.fullmatch(name):
            level = float(name)
        elif match := _NIXTLA.fullmatch(name):
            model, side, width = match.groups()
            level = round(0.5 + (float(width) if side == "hi" else -float(width)) / 200, 9)
        elif match := _NEURAL.fullmatch(name):
            model, level = match.group(1), float(match.group(2))
        elif name.endswith(_MEDIAN) and name != _MEDIAN:
            model, level = name.removesuffix(_MEDIAN), 0.5
        if level is None or not 0 < level < 1:
            continue
        own = found.setdefault(model, {})
        if level in own:
            raise ValueError(f"columns {own[level]!r} and {name!r} are both the quantile at level {level:g}")
        own[level] = name
    # NHITS-median and no interval is a name like any other
    return {model: own for model, own in found.items() if not model or set(own) != {0.5}} or found


def _of_model(models: dict[str, dict[float, str]], asked: Any, there: Sequence[str]) -> tuple[dict[float, str], str]:
    """The quantiles of the model that is asked for, or of the only one, and its name."""
    if asked is None and len(models) == 1:
        model, own = next(iter(models.items()))
        return own, model
    if asked is not None:
        if isinstance(asked, str) and asked in models:
            return models[asked], asked
        held = listed(model for model in models if model) or "none"
        raise ValueError(f"the model must be one of those with quantiles, {held}, got {inputs.shown(asked)}")
    if models:
        told = listed(model or f"the one of {next(iter(own.values()))}, ..." for model, own in models.items())
        raise ValueError(f"the frame has the quantiles of {len(models)} models, {told}: columns={{'model': ...}}")
    raise ValueError(
        "there must be columns of quantiles: 0.1, 0.5, 0.9 (Chronos) or MODEL-lo-90, MODEL-hi-90 (Nixtla), or "
        f"columns={{'quantiles': {{0.1: name, ...}}}} says which of {listed(there)} they are"
    )


def _told_levels(there: Sequence[str], told: Any) -> dict[float, str]:
    if not isinstance(told, Mapping) or not told:
        raise ValueError(f"quantiles must be a dict of columns by level, got {inputs.shown(told)}")
    found = {}
    for level, name in told.items():
        level = inputs.probability(level, "a level of quantiles")
        if not isinstance(name, str) or name not in there:
            raise ValueError(f"the quantile at {level:g} must be one of {listed(there)}, got {inputs.shown(name)}")
        found[level] = name
    return found
