"""The price of robustness (Theorem 3.1, both halves): what is given up if the model is right, what is saved if not."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowregret import certificates, inputs
from lowregret.arrays import Array, beside, first, in_float64, mix, namespace, to_numpy, total
from lowregret.engine import ExactTest, QuantalResponse, Recovery
from lowregret.evaluate.adversaries import greedy
from lowregret.evaluate.distances import Estimate, batches, bounded_mean, home
from lowregret.evaluate.regret import external_regret
from lowregret.policies import Respond
from lowregret.predictors import PolyaUrn, Predictor, asked_sequence, same_states, sample
from lowregret.problems import DecisionProblem
from lowregret.robust.robustify import Robust, robustify
from lowregret.tables import Table

from . import plots


class Price(NamedTuple):
    """One setting of the exact test; utilities and regrets are averages a step."""

    delta: float  # the TV bound: the most switches there may be if the model is right
    given_up: Estimate  # utility of the base minus that of the robust predictor, on the base's own sequences
    switched: float  # the share of those sequences on which it switched
    certificate: float  # its regret is at most this, on every sequence
    regret: float  # the largest regret that an adversary inflicted on it
    removed: float  # the largest regret that an adversary inflicted on the base, minus that


@dataclass(frozen=True, eq=False)
class Frontier:
    """What ``price_of_robustness`` found: one row for every delta."""

    problem: DecisionProblem
    horizon: int
    n: int
    base_regret: float  # the largest regret that an adversary inflicted on the base
    rows: tuple[Price, ...]

    def table(self) -> Table:
        """One line a setting: prints aligned."""
        header = ("delta", "switched", "utility given up (95%)", "certificate", "regret found", "removed")
        lines = [
            (
                f"{row.delta:g}",
                f"{row.switched:.4f}",
                f"{row.given_up.value:.5f} ({row.given_up.low:.5f} to {row.given_up.high:.5f})",
                f"{row.certificate:.4f}",
                f"{row.regret:.4f}",
                f"{row.removed:.4f}",
            )
            for row in self.rows
        ]
        title = (
            f"Price of robustness, {self.horizon} steps, {self.n} sequences; regret of the base {self.base_regret:.4f}"
        )
        return Table(title, header, tuple(lines))

    def plot(self) -> Any:
        """Utility given up against regret removed (needs matplotlib)."""
        return plots.frontier(self)

    def to_json(self) -> str:
        """Everything as JSON."""
        rows = [{**row._asdict(), "given_up": row.given_up._asdict()} for row in self.rows]
        found = {"format": 1, "horizon": self.horizon, "n": self.n, "base_regret": self.base_regret, "rows": rows}
        return json.dumps({**found, "utility": self.problem.utility.tolist()}, allow_nan=False)


def price_of_robustness(
    predictor: Predictor,
    problem: DecisionProblem,
    horizon: int,
    n: int,
    seed: int | np.random.Generator,
    *,
    deltas: Sequence[float] = (0.5, 0.1, 0.02, 0.004),
    fallback: Predictor | Recovery | None = None,
    temperature: float | None = None,
    adversary: Callable[..., Any] | None = None,
) -> Frontier:
    """In-distribution utility given up against worst-case regret removed, over the ``delta`` of ExactTest.

    Utility is measured on ``n`` sequences of the predictor's own, the same for every setting, and each step counts
    with its expectation under the predictor's law: base and robust predictor differ only on sequences that switch.
    The interval allows for a switch that was not seen: no less than 3.7 spans / n; the theorem says delta * span.
    Regret is the largest on the sequences that an adversary made against this player and against the base, and on
    every constant sequence: a lower bound of the worst case, of which the certificate is an upper bound.

    Parameters
    ----------
    deltas
        The settings.
    fallback
        As in ``robustify``; the urn by default.
    temperature
        Of the quantal responses; 1/sqrt(horizon) by default.
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
    same_states(predictor, problem)
    horizon, n = inputs.whole(horizon, "horizon"), inputs.whole(n, "n")
    deltas = inputs.listed(deltas, "deltas", inputs.probability)
    replaces = PolyaUrn(problem.n_states) if fallback is None else fallback
    tests, response = [ExactTest(delta, horizon) for delta in deltas], QuantalResponse(temperature)
    robusts = [robustify(predictor, problem, test=test, fallback=replaces, response=response) for test in tests]
    given_RxN, switched_R = _given_up(predictor, robusts, horizon, n, inputs.generator(seed))
    eta = robusts[0].temperature or math.nan  # the horizon is known: so is the temperature
    attack = greedy if adversary is None else inputs.function(adversary, "adversary", "a player, a problem, a horizon")

    def hostile_1xT(player: Predictor) -> np.ndarray:
        return to_numpy(attack(player, problem, horizon, temperature=eta).tokens).reshape(1, horizon)

    constant_SxT = np.repeat(np.arange(problem.n_states)[:, None], horizon, axis=1)
    hostile_CxT = np.concatenate([constant_SxT, hostile_1xT(predictor)])
    base_regret = _most_regret(predictor, problem, eta, hostile_CxT)
    # A quantal response is within eta W of the best one, so the other one cannot be better by more.
    least = -eta * certificates.quantal_loss(problem.n_actions)
    rows = []
    for i, (robust, delta) in enumerate(zip(robusts, deltas, strict=True)):
        regret = _most_regret(robust, problem, eta, np.concatenate([hostile_CxT, hostile_1xT(robust)]))
        rows.append(
            Price(
                delta=delta,
                given_up=bounded_mean(given_RxN[i], least, problem.span),
                switched=float(switched_R[i]),
                certificate=robust.certificate.regret_bound,
                regret=regret,
                removed=base_regret - regret,
            )
        )
    return Frontier(problem, horizon, n, base_regret, tuple(rows))


def _given_up(
    predictor: Predictor, robusts: list[Robust], horizon: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each setting: what each sequence of the predictor's own gives up ``[R, N]``, and the share that switched."""
    given_RxN, switched_R = np.zeros((len(robusts), n)), np.zeros(len(robusts))
    done = 0
    for rows in batches(n, horizon, predictor.n_states):
        tokens_NxT = sample(predictor, horizon, rows, rng)
        probs = asked_sequence(predictor, tokens_NxT)
        for i, robust in enumerate(robusts):
            said, times_N = robust.replaced(probs, beside(tokens_NxT, probs))
            hit_N = times_N < horizon
            switched_R[i] += to_numpy(hit_N).sum()
            if bool(hit_N.any()):
                lost = _lost(robust, probs[hit_N], said[hit_N])
                given_RxN[i, done : done + rows][to_numpy(hit_N)] = to_numpy(lost)
        done += rows
    return given_RxN, switched_R / n


def _lost(robust: Robust, probs: Array, said: Array) -> Array:
    """What responding to ``said`` in place of the base's own forecasts gives up, a step, in expectation under these."""
    base_S, said_S = first(in_float64(probs)), first(in_float64(said))
    problem, temperature = robust.problem, robust.temperature
    assert problem is not None
    worth_A = mix(problem.utility, base_S)
    lost_NxT = total(worth_A * (problem.respond(base_S, temperature) - problem.respond(said_S, temperature)))
    return namespace(probs).mean(lost_NxT, axis=-1)


def _most_regret(player: Predictor, problem: DecisionProblem, temperature: float, tokens_CxT: np.ndarray) -> float:
    tokens = inputs.tokens_of(tokens_CxT, problem.n_states, like=home(player))
    return float(to_numpy(external_regret(problem, Respond(player, problem, temperature), tokens)[:, -1]).max())
