"""What is promised: the bounds, one function a statement; the certificate made of them; exact worst cases by counts.

All bounds are on the *average* external regret of quantal responses, and hold for every sequence of states.
J is the problem's span, R its contrast, A and S the numbers of actions and states, eta the temperature.
"""

from . import best_response, coupled, every_start, promises, switching
from .bounds import (
    Terms,
    ada_hedge,
    anytime_log,
    clipping_loss,
    fixed_share,
    hedge,
    lambda_grid,
    lemma_2_1,
    lemma_2_3,
    matching_scale,
    n_rates,
    quantal_loss,
    regret_gap_anytime,
    shrunk_urn,
    smooth_cover_error,
    summed_temperature,
    theorem_3_1,
    theorem_c_4,
    urn_anytime,
    v_exact,
    v_threshold,
    windows,
)
from .certificate import Certificate, Promise
from .promises import AnyProblemCertificate
from .switching import RecoveryBound

__all__ = [
    "AnyProblemCertificate",
    "Certificate",
    "Promise",
    "RecoveryBound",
    "Terms",
    "ada_hedge",
    "anytime_log",
    "best_response",
    "clipping_loss",
    "coupled",
    "every_start",
    "fixed_share",
    "hedge",
    "lambda_grid",
    "lemma_2_1",
    "lemma_2_3",
    "matching_scale",
    "n_rates",
    "promises",
    "quantal_loss",
    "regret_gap_anytime",
    "shrunk_urn",
    "smooth_cover_error",
    "summed_temperature",
    "switching",
    "theorem_3_1",
    "theorem_c_4",
    "urn_anytime",
    "v_exact",
    "v_threshold",
    "windows",
]
