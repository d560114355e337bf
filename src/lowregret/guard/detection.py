"""How long a break goes undetected: what to know before deciding whether a guard is worth having.

A model gives the same forecast at every step; from some step on another distribution is true, and some action would
earn more than the model's advice. The delay of the alarm is simulated. The least edge is statement (ii), inverted: over
n steps without an alarm no action gains interval(n), whatever the outcomes, so one that gains more than interval(n) / n
per step must raise an alarm within n.
"""

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..engine import Actions, Inputs
from ..engine.loop import form_of
from ..problems import DecisionProblem
from .guard import Guard

_CELLS = 1 << 22  # chances at a time


@dataclass(frozen=True, eq=False)
class Delay:
    """How an assumed break is detected. Edges are payoffs per step; delays are in steps, infinite past the horizon."""

    problem: DecisionProblem
    delta: float
    forecast_S: np.ndarray  # the model's
    truth_S: np.ndarray  # what is true from the break on
    since: int  # the first step of the break
    steps: int  # how many there are
    edge: float  # what the best action earns more than what is played, from the break on
    median: float
    ninetieth: float  # nine breaks in ten are detected by then
    detected: float  # the share of breaks that are detected at all
    too_early: float  # the share of runs with an alarm before the break
    certificate: float  # what all steps together may cost at most, per step
    least_edge: float  # what costs less than this until the end may never be detected
    runs: int

    def lost(self, steps: float) -> float:
        """What the break costs on average in its first so many steps, or until the end, in your payoffs."""
        return self.edge * min(steps, self.steps - self.since + 1)

    def __str__(self) -> str:
        names, payoffs_AxS = self.problem.actions, self.problem.in_payoffs(self.problem.utility)
        best, other = int(self.problem.best_response(self.forecast_S)), int((payoffs_AxS @ self.truth_S).argmax())

        def chances(probs_S: np.ndarray) -> str:
            return ", ".join(f"{state} {p:.3g}" for state, p in zip(self.problem.states, probs_S, strict=True) if p > 0)

        def earns(action: int, probs_S: np.ndarray) -> str:
            return f"{payoffs_AxS[action] @ probs_S:.4g} per step"

        def waited(steps: float) -> str:
            lost = self.lost(steps)
            amount = f"{lost:,.0f}" if lost >= 1000 else f"{lost:.4g}"
            if math.isfinite(steps):
                return f"within {steps:,.0f} steps, at a cost of {amount}"
            return f"not within the {self.steps - self.since + 1:,} steps that are left, in which {amount} are lost"

        lines = [
            f"The model's forecast is {chances(self.forecast_S)}, so it plays {names[best]}, for "
            f"{earns(best, self.forecast_S)}.",
            f"From step {self.since:,} of {self.steps:,} on it is broken: {chances(self.truth_S)} is true. Then "
            f"{names[best]} earns {earns(best, self.truth_S)}",
            f"and {names[other]} {earns(other, self.truth_S)}: every step loses {self.edge:.4g}.",
            "",
        ]
        if self.edge <= 0:
            return "\n".join([*lines, "Nothing is lost by such a break: there is nothing to notice."])
        verdict = f"{self.detected:.0%} of such breaks raise it by the end."
        if self.detected < 0.9:
            verdict += " That is too small an edge for so few steps: do not count on a guard here."
        return "\n".join([
            *lines,
            "Bad luck or broken? Until the alarm it may be luck. The chance that luck alone ever raises it is at most "
            f"{self.delta:.3g}.",
            f"How long to wait: half of such breaks raise the alarm {waited(self.median)};",
            f"nine in ten {waited(self.ninetieth)}. {verdict}",
            f"({self.runs:,} runs; in {self.too_early:.1%} of them the alarm came before the break, and was false.)",
            "",
            f"Whatever comes, over all {self.steps:,} steps the guard earns at most {self.certificate:.4g} per step "
            "less than the best fixed action.",
            f"An alarm is certain only if the break costs more than {self.least_edge:.4g} per step until the end: no "
            "smaller edge is protected for sure.",
        ])  # fmt: skip


def delay(
    guard: Guard,
    edge: float | None = None,
    *,
    forecast: Any = None,
    truth: Any = None,
    since: int | None = None,
    steps: int | None = None,
    runs: int = 400,
    seed: int | np.random.Generator = 0,
) -> Delay:
    """How many steps an alarm of a guard takes after an assumed break.

    Parameters
    ----------
    guard
        How it is made; for a ``DecisionProblem``, against its actions.
    edge
        In your payoffs: how much more per step the model's advice earns than one other action before the break, and
        how much less after it, by forecasts on the two states that set a pair of actions furthest apart.
    forecast, truth
        In place of an edge: the model's forecast of every step, and what is true from the break on.
    since
        The first step of the break: by default in the middle.
    steps
        How many there are: by default the horizon of its test.

    >>> from lowregret import ExactTest, Guard, matching
    >>> found = delay(Guard(matching(), test=ExactTest(horizon=1000)), edge=0.6)  # says .8, and is .2
    >>> found.median < 40, round(found.detected, 2), round(found.least_edge, 2)
    (True, 1.0, 0.25)
    """
    problem, certificate = guard.problem, guard.certificate
    if not isinstance(problem, DecisionProblem) or guard.against != Actions():
        raise ValueError(f"delay is that of a DecisionProblem, against its actions, got {guard}")
    assert isinstance(certificate, Certificate)
    steps = inputs.whole(guard.test.horizon if steps is None else steps, "steps", most=guard.test.horizon)
    since = (steps + 2) // 2 if since is None else inputs.whole(since, "since", most=steps)
    runs, rng = inputs.whole(runs, "runs"), inputs.generator(seed)
    if (edge is None) == (forecast is None) or (forecast is None) != (truth is None):
        raise ValueError("give an edge, or a forecast and a truth in its place")
    if edge is not None:
        forecast, truth = _apart(problem, inputs.positive(edge, "edge"))
    given = (forecast, "forecast"), (truth, "truth")
    found = [inputs.probs_of(one, problem.n_states, name, shape=()) for one, name in given]
    forecast_S, truth_S = np.array(found, dtype=np.float64)
    played_A = guard.setting.respond(forecast_S[None], problem.utility, np.array([since - 1.0]))[1][0]
    gain_AxS = problem.utility - played_A @ problem.utility
    cost = float((gain_AxS @ truth_S).max())
    times_N = _simulated(guard, forecast_S, truth_S, since, steps, runs, rng)
    early = times_N < since
    late_N = np.where(times_N > steps, np.inf, times_N - since + 1.0)[~early]
    if not len(late_N):
        late_N = np.array([np.nan])  # no break was ever reached
    units = problem.regret_in_payoffs
    return Delay(
        problem,
        guard.test.delta,
        forecast_S,
        truth_S,
        since,
        steps,
        edge=float(units(cost)),
        median=float(np.quantile(late_N, 0.5, method="inverted_cdf")),
        ninetieth=float(np.quantile(late_N, 0.9, method="inverted_cdf")),
        detected=float(np.isfinite(late_N).mean()),
        too_early=float(early.mean()),
        certificate=float(units(certificate.at(steps).regret_bound)),
        least_edge=float(units(certificate.interval(since, steps) / (steps - since + 1))),
        runs=runs,
    )


def _apart(problem: DecisionProblem, edge: float) -> np.ndarray:
    """Two forecasts on two states: by one of them an action is best, by the other another, by this edge."""
    U, e = problem.utility, edge / max(float(problem.regret_in_payoffs(1.0)), 1e-300)
    widest, found = 0.0, None
    for b, c in permutations(range(len(U)), 2):
        x_S = U[c] - U[b]
        low, high = int(x_S.argmin()), int(x_S.argmax())
        reach = float(x_S[high] - x_S[low])
        if e > min(-x_S[low], x_S[high]) or reach <= widest:
            continue
        both_2xS = np.zeros((2, len(x_S)))
        both_2xS[:, high] = (np.array([-e, e]) - x_S[low]) / reach
        both_2xS[:, low] = 1 - both_2xS[:, high]
        lacks_2 = (both_2xS @ U.T).max(axis=1) - (both_2xS * U[[b, c]]).sum(axis=1)
        if lacks_2.max() <= 1e-12:
            widest, found = reach, both_2xS
    if found is None:
        raise ValueError(
            f"edge must be one that two actions of {problem} can have over each other, got {edge:g}: "
            "give forecast and truth"
        )
    return found


def _simulated(
    guard: Guard, before_S: np.ndarray, truth_S: np.ndarray, since: int, steps: int, runs: int, rng: np.random.Generator
) -> np.ndarray:
    """When the alarm sounds in each run, ``steps + 1`` for never."""
    S, times = len(before_S), []
    each = max(1, _CELLS // (steps * S))
    for at in range(0, runs, each):
        n = min(each, runs - at)
        before_NxT = rng.choice(S, (n, since - 1), p=before_S)
        states_NxT = np.hstack([before_NxT, rng.choice(S, (n, steps - since + 1), p=truth_S)])
        given = Inputs(np.broadcast_to(before_S, (n, steps, S)))
        alarm_NxT = form_of(guard.engine, runs * steps).run(guard.engine.start(n), given, states_NxT).alarm_NxT
        times.append(np.where(alarm_NxT.any(axis=1), alarm_NxT.argmax(axis=1) + 1, steps + 1))
    return np.concatenate(times)
