"""``construct.agreement`` sees what is wrong, and leaves out what the band makes undecided."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import agreement, build

from .test_deciding import Early, every_string


def test_agreement_sees_what_is_wrong() -> None:
    base, rule, other = lr.Scheduled([[0.8, 0.2]]), Early(lr.matching(), 12), lr.RegretRate(lr.matching(), 12)
    tokens, model = every_string(2, 12), build(base, other)
    robust, mine = (lr.Robust(base, one).predict_sequence(tokens) for one in (other, rule))
    model.module.about = build(base, rule).module.about  # it claims to be another
    found, apart = agreement(model, rule, tokens), np.abs(robust - mine).max(axis=-1)
    assert (found.differ, found.undecided) == ((apart > 1e-6).sum(), 0)
    assert found.apart == apart.max()
    model.module.layers[-1].outer_DxF[:] = np.nan
    found = agreement(model, rule, tokens)
    assert (found.differ, bool(np.isnan(found.apart))) == (tokens.size, True)
    with pytest.raises(ValueError, match="built for: rule is 'Early', the model's is 'RegretRate'"):
        agreement(build(base, other), rule, tokens)
    with pytest.raises(ValueError, match="horizon is 13"):
        agreement(build(base, other), lr.RegretRate(lr.matching(), 13, temperature=other.temperature), tokens)
    with pytest.raises(ValueError, match="built for: rule is 'VRegret'"):
        agreement(build(base, other), lr.VRegret(12), tokens)


def test_agreement_leaves_the_band_out() -> None:
    @dataclass(frozen=True)
    class Touched(lr.RegretGap):
        """A threshold that 1, 1, 1 reaches to within a hair."""

        def threshold(self, step: Any) -> Any:
            return np.where(step == 3, touched, 100.0)

    base, ones, touched = lr.Scheduled([[0.8, 0.2]]), np.ones((1, 8), dtype=int), 0.0
    plain = Early(lr.matching(), 8)
    gap = float(plain.gains(plain.moments(base.predict_sequence(ones), ones))[1].cumsum(axis=-1)[0, 2])
    for distance, undecided in ((1e-10, 5), (-1e-10, 5), (1e-8, 0), (-1e-8, 0)):
        touched = gap + distance * 3
        rule = Touched(lr.matching(), 8)
        found = agreement(build(base, rule), rule, ones)
        assert (found.undecided, found.differ) == (undecided, 0)  # laws of steps 4 to 8
    assert agreement(build(base, rule, dtype=torch.float32), rule, ones).undecided == 5
