"""Appendix C: the constants of Theorem C.4."""

import math

import numpy as np

from ... import certificates
from ...adversaries import all_sequences
from ...predictors import PolyaUrn
from ...problems import cost_loss, matching
from ...rules import VRegret
from ...tips import smooth_cover_error
from .claims import Finding, at_least, at_most, equals, statement


@statement(
    "C.4, the constants",
    "Beyond the paper: Theorem C.4 with its constants. Regret <= F_T + (R/2) b + epsilon kappa R^2/(4 eta) + eta ln A "
    "+ J/T with b(t) = sqrt(2 ln(pi^2 N t^2/(3 delta)) / t), kappa = max over s in [0, 1] of s (1 + epsilon - s) + "
    "s^3/6; with bets, b t = min_k lambda_k t/2 + ln(2 N K/delta)/lambda_k.",
    verdict="beyond",
)
def the_constants_of_theorem_c_4() -> Finding:
    """Each term beside its formula written out, in two games, at two temperatures, for both tests. R/2 is needed: a
    forecast that is wrong for t steps has V-regret 2 t at the tip between, and in guessing bits regret t."""
    off, near = [], []
    T, delta, tips = 500, 0.02, np.arange(51) / 50
    for problem in (matching(), cost_loss(1, 4)):
        U = problem.utility
        R, J, A = float(np.ptp(U[:, None, :] - U[None, :, :], axis=-1).max()), problem.span, problem.n_actions
        for eta in (T**-0.5, 0.3):
            for test in ("threshold", "exact"):
                rule = VRegret(T, delta, tips, test)
                given = rule.certificate.for_problem(problem, eta)
                passed = math.sqrt(2 * T * math.log(math.pi**2 * 51 * T**2 / (3 * delta)))
                if test == "exact":
                    costs = math.log(2 * 51 * len(rule.rates_K) / delta)
                    passed = min(rate * T / 2 + costs / rate for rate in rule.rates_K)
                s = np.linspace(0, 1, 200_001)
                kappa = float((s * (1 + 0.02 - s) + s**3 / 6).max())
                wanted = {
                    "quantal response": eta * math.log(A),
                    "test": R / 2 * passed / T,
                    "crossing step": J / T,
                    "fallback": certificates.lemma_2_3(problem, T, eta),
                }
                off += [abs(given.terms[name] / value - 1) for name, value in wanted.items()]
                missed = min(R**2 * 0.02 * kappa / (4 * eta), R * 1.02**2 / 4)
                near.append(given.terms["tips"] / missed)
    # Forecasts of 0 and ones: at the tip v the V-regret is sum (y - v) + |sum (y - v)|.
    v_half = 12 * (1 - 0.5) + abs(12 - 12 * 0.5)
    lost = 12 - float(matching().quantal_response(np.tile([1.0, 0.0], (12, 1)), 1e-3)[:, 1].sum())
    urn = PolyaUrn(2)
    tokens = all_sequences(2, 9)
    probs = urn.predict_sequence(tokens)
    weight = np.take_along_axis(probs, tokens[..., None], -1)[..., 0].prod(-1)
    false = [
        weight[VRegret(9, 0.5, np.arange(5) / 4, test).trip_times(probs, tokens) <= 9].sum() / 0.5
        for test in ("threshold", "exact")
    ]
    return Finding(
        [
            equals("terms against their formulas, relative: largest distance", max(off), 0, 1e-12),
            equals("what the tips miss against its formula: largest", max(near), 1, 1e-9),
            equals("the same: least", min(near), 1, 1e-9),
            at_most("chance of a switch / delta, all sequences: largest", max(false), 1),
            at_least("guessing wrongly 12 times: regret, against (R/2) V-regret at the tip 1/2", lost, v_half, 1e-9),
            equals(
                "what a grid can miss, R = 2, epsilon = .02, eta = .1", smooth_cover_error(2.0, 0.02, 0.1), 0.0576, 2e-4
            ),
        ]
    )
