"""Does a built model choose as the rule does? Checked position by position, outside a band around the threshold."""

import json
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import inputs
from ..arrays import to_numpy
from ..robust import Robust
from ..rules import ExactTest, FirstTest, RegretGap, RegretRate
from .base_model import LEAST
from .exact import scale
from .parts import sharpness_of
from .plan import FAMILIES, parts_of
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
    if isinstance(rule, ExactTest):
        return every_start_alarms(rule, laws_NxTxS, tokens_NxT, model.module.about["late"])
    if isinstance(rule, FirstTest):
        sharpness = sharpness_of(model.module.dtype)
        late = parts_of(rule, sharpness, model.module.about["shallow"]).late
        return exact_alarms(rule, laws_NxTxS, tokens_NxT, band, late, scale(rule) / sharpness.step)
    moment = rule.moments(laws_NxTxS, tokens_NxT)
    if isinstance(rule, RegretGap):
        excess_NxT = (rule.gains(moment)[1].cumsum(axis=-1) - rule.threshold(step_T)) / step_T
    else:
        assert isinstance(rule, RegretRate)
        regret_NxT = (rule.leads(moment.base_A1, moment.token).cumsum(axis=-1) / step_T).max(axis=0)
        excess_NxT = regret_NxT - rule.alpha / step_T**0.5
    excess_NxT = excess_NxT / rule.problem.span
    return excess_NxT > -band, excess_NxT > band


def exact_alarms(
    rule: FirstTest, laws_NxTxS: np.ndarray, tokens_NxT: np.ndarray, band: float, late: float, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same for the exact test, whose evidence the layers round down: with the rule, or later by that little.

    Parameters
    ----------
    late
        By how much ln E may have to exceed its threshold.
    width
        Over how much of the gap's rise the gate opens: W over the steepness of a step.
    """
    assert rule.delta is not None
    assert rule.temperature is not None
    problem, temperature, rates_K = rule.problem, rule.temperature, rule.rates_K
    step_T = np.arange(1, tokens_NxT.shape[-1] + 1.0)
    urn_NxTxS = rule.fallback.predict_sequence(tokens_NxT)  # type: ignore[union-attr]
    ahead_NxTxA = problem.quantal_response(urn_NxTxS, temperature) - problem.quantal_response(laws_NxTxS, temperature)
    gain_NxTxS = ahead_NxTxA @ problem.utility
    gain_NxT = np.take_along_axis(gain_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0]
    wealth = [
        (rate * gain_NxT - np.log((laws_NxTxS * np.exp(rate * gain_NxTxS)).sum(axis=-1))).cumsum(axis=-1)
        for rate in rates_K
    ]
    evidence_NxT = np.logaddexp.reduce(wealth, axis=0) - np.log(len(rates_K)) + np.log(rule.delta)
    gap_NxT = gain_NxT.cumsum(axis=-1)
    rise_NxT = gap_NxT - np.minimum(np.minimum.accumulate(gap_NxT, axis=-1), 0)
    short_NxT = rise_NxT / problem.span - rule.gate * np.sqrt(step_T)
    # Evidence is a sum of logarithms that the layers round down: the alarm never comes before the rule's.
    may = (evidence_NxT > -1e-9) & (short_NxT > -band * step_T)
    must = (evidence_NxT > late) & (short_NxT > width + band * step_T)
    return _or_excluded(may, must, laws_NxTxS, tokens_NxT)


def every_start_alarms(
    rule: ExactTest, laws_NxTxS: np.ndarray, tokens_NxT: np.ndarray, late: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same for the test with every start: it has no gate."""
    evidence_NxT = rule.log_evidence(laws_NxTxS, tokens_NxT) + np.log(rule.delta)
    return _or_excluded(evidence_NxT > -1e-9, evidence_NxT > late, laws_NxTxS, tokens_NxT)


def _or_excluded(
    may_NxT: np.ndarray, must_NxT: np.ndarray, laws_NxTxS: np.ndarray, tokens_NxT: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A token that was all but excluded may sound the alarm (``gadgets.excluded``), one that was does."""
    came_NxT = np.take_along_axis(laws_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0]
    return may_NxT | (came_NxT < 10 * laws_NxTxS.shape[-1] * LEAST), must_NxT | (came_NxT == 0)


def _refuse_another(model: Constructed, rule: Any) -> None:
    about, asked = model.module.about, {"rule": type(rule).__name__}
    if isinstance(rule, FAMILIES):
        asked = described(rule, about["late"], about["shallow"])
    wrong = [name for name in asked if json.loads(json.dumps(asked[name])) != json.loads(json.dumps(about.get(name)))]
    if wrong:
        raise ValueError(
            f"rule must be the one that the model was built for: {wrong[0]} is {asked[wrong[0]]!r}, the model's is "
            f"{about.get(wrong[0])!r}"
        )


def _since(alarm_NxT: np.ndarray) -> np.ndarray:
    return np.logical_or.accumulate(alarm_NxT, axis=-1)
