"""Does a built model choose as the rule does? Checked position by position, outside a band around the threshold."""

import json
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import inputs
from ..arrays import to_numpy
from ..robust import Robust
from ..rules import RegretGap, RegretRate
from .plan import FAMILIES
from .predictor import Constructed, described

# How near its threshold a statistic leaves a flag undecided, in units of the span.
BAND = {torch.float64: 1e-9, torch.float32: 1e-4}
CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}  # how far apart laws may be where the choice is the same
_TOKENS_AT_ONCE = 1 << 16


class Agreement(NamedTuple):
    """What the comparison found; it went well if ``differ`` is 0."""

    positions: int
    undecided: int  # of those, where the statistic had come within the band of its threshold
    differ: int  # of the others, where the laws are further apart than rounding explains
    apart: float  # the largest distance between laws of the others
    switched: float  # the share of sequences in which the rule tripped


def agreement(model: Constructed, rule: Any, tokens: Any) -> Agreement:
    """Compare the built model with Algorithm 1 itself, around the same base, on sequences ``[..., T]``.

    >>> from lowregret import matching, sample
    >>> from lowregret.predictors import Scheduled
    >>> from lowregret.rules import RegretGap
    >>> from lowregret.construct import build
    >>> base, rule = Scheduled([[0.9, 0.1]]), RegretGap(matching(), 64, alpha=0.1, span_aware=True)
    >>> tokens = sample(Scheduled([[0.2, 0.8]]), 64, n=32, seed=0)
    >>> found = agreement(build(base, rule), rule, tokens)
    >>> found.positions, found.undecided, found.differ, found.switched
    (2048, 0, 0, 0.84375)
    """
    _refuse_another(model, rule)
    every_NxT = to_numpy(inputs.sequences_of(tokens, model.n_states))
    every_NxT = every_NxT.reshape(-1, every_NxT.shape[-1])
    robust, dtype = Robust(model.base, rule), model.module.dtype
    undecided, differ, apart, switched = 0, 0, 0.0, 0
    rows = max(1, _TOKENS_AT_ONCE // every_NxT.shape[-1])
    for i in range(0, len(every_NxT), rows):
        tokens_NxT = every_NxT[i : i + rows]
        may_NxT, must_NxT = alarms(model, rule, tokens_NxT)
        apart_NxT = np.abs(model.predict_sequence(tokens_NxT) - robust.predict_sequence(tokens_NxT)).max(axis=-1)
        # What is decided after a token holds for the law of the next one; the first law is always the base's.
        open_NxT = np.zeros(tokens_NxT.shape, dtype=bool)
        open_NxT[:, 1:] = (_since(may_NxT) & ~_since(must_NxT))[:, :-1]
        undecided += int(open_NxT.sum())
        apart_NxT[open_NxT] = 0
        differ += int((~(apart_NxT <= CLOSE[dtype])).sum())  # what is not a number differs
        apart = float(np.max(apart_NxT, initial=apart))
        switched += int(_since(may_NxT)[:, -1].sum())
    return Agreement(every_NxT.size, undecided, differ, apart, switched / max(1, len(every_NxT)))


def alarms(model: Constructed, rule: Any, tokens_NxT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """After which tokens the built model may sound the alarm and after which it must, from the rule's definition."""
    laws_NxTxS = to_numpy(model.base.predict_sequence(tokens_NxT)).astype(np.float64)
    step_T, band = np.arange(1, tokens_NxT.shape[-1] + 1.0), BAND[model.module.dtype]
    if rule.pointless:
        never = np.zeros(tokens_NxT.shape, dtype=bool)
        return never, never
    moment = rule.moments(laws_NxTxS, tokens_NxT)
    if isinstance(rule, RegretGap):
        excess_NxT = (rule.gains(moment)[1].cumsum(axis=-1) - rule.threshold(step_T)) / step_T
    else:
        assert isinstance(rule, RegretRate)
        regret_NxT = (rule.leads(moment.base_A1, moment.token).cumsum(axis=-1) / step_T).max(axis=0)
        excess_NxT = regret_NxT - rule.alpha / step_T**0.5
    excess_NxT = excess_NxT / rule.problem.span
    return excess_NxT > -band, excess_NxT > band


def _refuse_another(model: Constructed, rule: Any) -> None:
    about, asked = model.module.about, {"rule": type(rule).__name__}
    if isinstance(rule, FAMILIES):
        asked = described(rule)
    wrong = [name for name in asked if json.loads(json.dumps(asked[name])) != json.loads(json.dumps(about.get(name)))]
    if wrong:
        raise ValueError(
            f"rule must be the one that the model was built for: {wrong[0]} is {asked[wrong[0]]!r}, the model's is "
            f"{about.get(wrong[0])!r}"
        )


def _since(alarm_NxT: np.ndarray) -> np.ndarray:
    return np.logical_or.accumulate(alarm_NxT, axis=-1)
