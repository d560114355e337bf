"""Does a built model choose as Algorithm 1 does? Checked position by position, outside a band around the threshold."""

from typing import Any, NamedTuple, cast

import numpy as np
import torch

from .. import inputs
from ..arrays import to_numpy
from ..engine import Engine
from ..robust import Robust
from ..rules import RegretGap
from .predictor import Constructed

# How near its threshold a statistic leaves a flag undecided, in units of the span.
BAND = {torch.float64: 1e-9, torch.float32: 1e-4}
CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}  # how far apart forecasts may be where the choice is the same
_TOKENS_AT_ONCE = 1 << 16


class Agreement(NamedTuple):
    """What the comparison found; it went well if ``differ`` is 0."""

    positions: int
    undecided: int  # of those, where the statistic had come within the band of its threshold
    differ: int  # of the others, where the forecasts are further apart than rounding explains
    apart: float  # the largest distance between forecasts of the others
    switched: float  # the share of sequences with an alarm


def agreement(model: Constructed, tokens: Any) -> Agreement:
    """Compare the built model with Algorithm 1 itself, around the same base, on sequences ``[..., T]``.

    >>> import lowregret as lr
    >>> setting = lr.robust.algorithm_1(lr.matching(), lr.RegretGap(64, alpha=0.1, span_aware=True))
    >>> tokens = lr.sample(lr.predictors.Scheduled([[0.2, 0.8]]), 64, n=32, seed=0)
    >>> model = lr.construct.build(lr.predictors.Scheduled([[0.9, 0.1]]), setting)
    >>> found = agreement(model, tokens)
    >>> found.positions, found.undecided, found.differ, found.switched
    (2048, 0, 0, 0.84375)
    """
    setting = model.setting
    every_NxT = to_numpy(inputs.sequences_of(tokens, model.n_states))
    every_NxT = every_NxT.reshape(-1, every_NxT.shape[-1])
    robust, dtype = Robust(model.base, setting, setting.payoff_range), model.module.dtype
    undecided, differ, apart, switched = 0, 0, 0.0, 0
    rows = max(1, _TOKENS_AT_ONCE // every_NxT.shape[-1])
    for i in range(0, len(every_NxT), rows):
        tokens_NxT = every_NxT[i : i + rows]
        may_NxT, must_NxT = alarms(model, tokens_NxT)
        apart_NxT = np.abs(model.predict_sequence(tokens_NxT) - robust.predict_sequence(tokens_NxT)).max(axis=-1)
        # What is decided after a token holds for the forecast of the next one; the first is always the base's.
        open_NxT = np.zeros(tokens_NxT.shape, dtype=bool)
        open_NxT[:, 1:] = (_since(may_NxT) & ~_since(must_NxT))[:, :-1]
        undecided += int(open_NxT.sum())
        apart_NxT[open_NxT] = 0
        differ += int((~(apart_NxT <= CLOSE[dtype])).sum())  # what is not a number differs
        apart = float(np.max(apart_NxT, initial=apart))
        switched += int(_since(may_NxT)[:, -1].sum())
    return Agreement(every_NxT.size, undecided, differ, apart, switched / max(1, len(every_NxT)))


def alarms(model: Constructed, tokens_NxT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """After which tokens the built model may raise the alarm and after which it must, from the test's definition."""
    probs_NxTxS = to_numpy(model.base.predict_sequence(tokens_NxT)).astype(np.float64)
    setting, band = model.setting, BAND[model.module.dtype]
    engine, watch = Engine(setting), cast(Any, setting.watch)
    played = engine.played_at_once(setting.outcomes.whole(probs_NxTxS), tokens_NxT)
    excess_NxT = watch.levels(played) / (setting.problem.span or 1.0)
    if isinstance(setting.test, RegretGap):  # a sum; that of RegretRate is an average
        excess_NxT = excess_NxT / played.step_T
    return engine.can_alarm & (excess_NxT > -band), engine.can_alarm & (excess_NxT > band)


def _since(alarm_NxT: np.ndarray) -> np.ndarray:
    return np.logical_or.accumulate(alarm_NxT, axis=-1)
