"""The price of robustness (Theorem 3.1, both halves): what is given up if the model is right, what is saved if not."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowregret import DecisionProblem, ExactTest, PolyaUrn, Predictor, certificates, external_regret, sample
from lowregret.evaluate.adversaries import greedy
from lowregret.evaluate.distances import Estimate, batches, bounded_mean
from lowregret.policies import Respond
from lowregret.robust.robustify import Robust, robustify
from lowregret.tables import Table


class Price(NamedTuple):
    """One setting of the exact test; utilities and regrets are averages per step."""

    delta: float  # the TV bound: the most switches there may be if the model is right
    given_up: Estimate  # utility of the base minus that of the robust predictor, on the base's own sequences
    switched: float  # the share of those sequences on which it switched
    certificate: float  # its regret is at most this, on every sequence
    regret: float  # the largest regret that an adversary inflicted on it
    removed: float  # the largest regret that an adversary inflicted on the base, minus that


class Frontier(NamedTuple):
    """What ``price_of_robustness`` found: one row for every delta."""

    horizon: int
    n: int
    base_regret: float  # the largest regret that an adversary inflicted on the base
    rows: tuple[Price, ...]

    def table(self) -> Table:
        """One line per setting: prints aligned."""
        lines = []
        for row in self.rows:
            interval = f"{row.given_up.value:.5f} ({row.given_up.low:.5f} to {row.given_up.high:.5f})"
            regrets = [f"{value:.4f}" for value in (row.certificate, row.regret, row.removed)]
            lines.append((f"{row.delta:g}", f"{row.switched:.4f}", interval, *regrets))
        title = f"Price of robustness, {self.horizon} steps, {self.n} sequences"
        header = ("delta", "switched", "utility given up (95%)", "certificate", "regret found", "removed")
        return Table(f"{title}; regret of the base {self.base_regret:.4f}", header, tuple(lines))


def price_of_robustness(
    predictor: Predictor,
    problem: DecisionProblem,
    horizon: int,
    n: int,
    seed: int,
    *,
    deltas: Sequence[float] = (0.5, 0.1, 0.02, 0.004),
    adversary: Callable[..., Any] = greedy,
) -> Frontier:
    """In-distribution utility given up against worst-case regret removed, over the ``delta`` of ExactTest with the urn.

    Utility is measured on ``n`` sequences of the predictor's own, the same for every setting, and each step counts
    with its expectation under the predictor's forecast: base and robust predictor differ only on sequences that switch.
    The interval allows for a switch that was not seen: no less than 3.7 spans / n; the theorem says delta * span.
    Regret is the largest on the sequences that an adversary made against this player and against the base, and on
    every constant sequence: a lower bound of the worst case, of which the certificate is an upper bound.

    Parameters
    ----------
    adversary
        ``adversaries.greedy`` by default; ``adversaries.beam`` finds more and takes longer.

    >>> from lowregret import matching
    >>> from lowregret.predictors import Scheduled
    >>> model = Scheduled([[0.4, 0.6]])
    >>> print(price_of_robustness(model, matching(), 64, n=500, seed=0, deltas=[0.1, 0.02]).table())
    Price of robustness, 64 steps, 500 sequences; regret of the base 0.8320
    delta  switched         utility given up (95%)  certificate  regret found  removed
    0.1      0.0280   0.00145 (0.00068 to 0.00887)       0.2583        0.0909   0.7412
    0.02     0.0040  0.00028 (-0.00011 to 0.00767)       0.2992        0.1181   0.7139
    """
    urn, eta = PolyaUrn(problem.n_states), horizon**-0.5
    robusts = [robustify(predictor, problem, test=ExactTest(delta, horizon), fallback=urn) for delta in deltas]
    given_RxN, switched_R = _given_up(predictor, problem, robusts, horizon, n, np.random.default_rng(seed))

    def hostile_1xT(player: Predictor) -> np.ndarray:
        return adversary(player, problem, horizon, temperature=eta).tokens.reshape(1, horizon)

    def most_regret(player: Predictor, tokens_CxT: np.ndarray) -> float:
        return float(external_regret(problem, Respond(player, problem, eta), tokens_CxT)[:, -1].max())

    constant_SxT = np.repeat(np.arange(problem.n_states)[:, None], horizon, axis=1)
    hostile_CxT = np.concatenate([constant_SxT, hostile_1xT(predictor)])
    base_regret = most_regret(predictor, hostile_CxT)
    # A quantal response is within eta W of the best one, so the other one cannot be better by more.
    least = -eta * certificates.quantal_loss(problem.n_actions)
    rows = []
    for i, (robust, delta) in enumerate(zip(robusts, deltas, strict=True)):
        regret = most_regret(robust, np.concatenate([hostile_CxT, hostile_1xT(robust)]))
        given_up, promised = bounded_mean(given_RxN[i], least, problem.span), robust.certificate.regret_bound
        rows.append(Price(delta, given_up, float(switched_R[i]), promised, regret, base_regret - regret))
    return Frontier(horizon, n, base_regret, tuple(rows))


def _given_up(
    predictor: Predictor,
    problem: DecisionProblem,
    robusts: list[Robust],
    horizon: int,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """For each setting: what each sequence of the predictor's own gives up ``[R, N]``, and the share that switched."""
    given_RxN, switched_R = np.zeros((len(robusts), n)), np.zeros(len(robusts))
    done = 0
    for rows in batches(n, horizon, predictor.n_states):
        tokens_NxT = sample(predictor, horizon, rows, rng)
        probs_NxTxS = predictor.predict_sequence(tokens_NxT)
        for i, robust in enumerate(robusts):
            safe_NxTxS, times_N = robust.replaced(probs_NxTxS, tokens_NxT)
            hit_N = times_N < horizon
            switched_R[i] += hit_N.sum() / n
            # What responding to the robust forecast gives up, in expectation under the predictor's own.
            mine, other = (problem.quantal_response(probs[hit_N], horizon**-0.5) for probs in (probs_NxTxS, safe_NxTxS))
            lost_NxTxA = (probs_NxTxS[hit_N] @ problem.utility.T) * (mine - other)
            given_RxN[i, done : done + rows][hit_N] = lost_NxTxA.sum(axis=-1).mean(axis=-1)
        done += rows
    return given_RxN, switched_R
