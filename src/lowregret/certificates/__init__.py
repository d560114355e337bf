"""What is promised: the bounds, one function a statement; the certificate made of them; exact worst cases by counts.

All bounds are on the *average* external regret of quantal responses, and hold for every sequence of states.
J is the problem's span, R its contrast, A and S the numbers of actions and states, eta the temperature.
"""

from .bounds import (
    Terms,
    ada_hedge,
    fixed_share,
    hedge,
    lambda_grid,
    lemma_2_1,
    lemma_2_3,
    n_rates,
    quantal_loss,
    regret_gap_anytime,
    shrunk_urn,
    smooth_cover_error,
    theorem_3_1,
    theorem_c_4,
    urn_anytime,
    v_exact,
    v_threshold,
    windows,
)
from .certificate import Certificate, Promise
from .switching import RecoveryBound

__all__ = [
    "Certificate",
    "Promise",
    "RecoveryBound",
    "Terms",
    "ada_hedge",
    "fixed_share",
    "hedge",
    "lambda_grid",
    "lemma_2_1",
    "lemma_2_3",
    "n_rates",
    "quantal_loss",
    "regret_gap_anytime",
    "shrunk_urn",
    "smooth_cover_error",
    "theorem_3_1",
    "theorem_c_4",
    "urn_anytime",
    "v_exact",
    "v_threshold",
    "windows",
]
