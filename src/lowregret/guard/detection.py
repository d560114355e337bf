"""How long a break goes undetected: what to know before deciding whether a guard is worth having.

A model gives the same forecast at every step; from some step on another distribution is true, and some action would
earn more than the model's advice. The delay of the alarm is simulated, and given in closed form twice. *About*: the
bettors on action c at rate lam_k that join at the break grow by g = lam_k E x_c - charge per step, if the break is as
assumed. With those that join after it they are worth m + m' / (e^g - 1) at the break and must grow to 1 / delta: the
least over c and k of ln(1 / delta / worth) / g, as in Wald's identity. *Promised*: statement (ii), inverted. Over n
steps without an alarm no action gains interval(n), whatever the outcomes: one that gains more than interval(n) / n per
step must raise an alarm within n.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import inputs
from ..certificates import Certificate, best_response
from ..engine import Actions, Inputs, prior_of
from ..engine.loop import form_of
from ..engine.responses import best_actions
from ..problems import DecisionProblem
from .guard import Guard

_CELLS = 1 << 22  # chances at a time


@dataclass(frozen=True, eq=False)
class Delay:
    """How an assumed break is heard. Edges are in your payoffs, a step; delays in steps, infinite past the horizon."""

    law_S: np.ndarray  # what the model says
    truth_S: np.ndarray  # what is true from the break on
    since: int  # the first step of the break
    steps: int  # in all
    edge: float  # what the best action earns more than what is played, from the break on
    median: float
    ninetieth: float  # nine breaks in ten are heard by then
    heard: float  # the share of breaks that are heard at all
    too_early: float  # the share of runs in which an alarm sounded before the break
    about: float  # in closed form
    promised: float  # by then it is heard for certain, if it costs its edge in every step
    certificate: float  # what all steps together may cost at most, a step
    least_edge: float  # what costs less than this until the end may never be heard
    runs: int

    def lost(self, steps: float) -> float:
        """What the break costs on average in its first so many steps, or until the end, in your payoffs."""
        return self.edge * min(steps, self.steps - self.since + 1)

    def __str__(self) -> str:
        def shown(steps: float) -> str:
            return f"{steps:.0f} steps" if math.isfinite(steps) else "more steps than there are"

        return "\n".join([
            f"A break from step {self.since} of {self.steps} on, that costs {self.edge:.4g} a step",
            f"  heard after {shown(self.median)} in half of {self.runs} runs, {shown(self.ninetieth)} in nine of ten",
            f"  about {shown(self.about)} by the bettor that suits it best, {shown(self.promised)} by what is promised",
            f"  {self.heard:.0%} are heard by the end; {self.too_early:.1%} of runs had an alarm before the break",
            f"  certificate: {self.certificate:.4g} a step at most, over all {self.steps} steps, whatever comes",
            f"  what costs less than {self.least_edge:.4g} a step from there to the end may never be heard",
        ])  # fmt: skip


def delay(
    guard: Guard,
    edge: float | None = None,
    *,
    law: Any = None,
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
    law, truth
        In place of an edge: what the model says at every step, and what is true from the break on.
    since
        The first step of the break: by default in the middle.
    steps
        How many there are, where the horizon of its test is unknown.

    >>> from lowregret import ExactTest, Guard, matching
    >>> found = delay(Guard(matching(), test=ExactTest(horizon=1000)), edge=0.6)  # says .8, and is .2
    >>> found.median < 40, round(found.heard, 2), round(found.least_edge, 2)
    (True, 1.0, 0.25)
    """
    problem, certificate = guard.problem, guard.certificate
    if not isinstance(problem, DecisionProblem) or guard.against != Actions() or guard.lag > 1:
        raise ValueError(f"delay is that of a DecisionProblem, against its actions and without a lag, got {guard}")
    assert isinstance(certificate, Certificate)
    steps = _steps(guard.test.horizon, steps)
    since = (steps + 2) // 2 if since is None else inputs.whole(since, "since", most=steps)
    runs, rng = inputs.whole(runs, "runs"), inputs.generator(seed)
    if (edge is None) == (law is None) or (law is None) != (truth is None):
        raise ValueError("delay needs an edge, or a law and a truth in its place")
    if edge is not None:
        law, truth = _apart(problem, inputs.positive(edge, "edge"))
    law_S, truth_S = (_one_law(given, problem, name) for given, name in ((law, "law"), (truth, "truth")))
    setting = guard.setting
    temperature = setting.temperature_at(np.array([since - 1.0]))
    worth_1xA = (problem.utility @ law_S)[None]
    played_A = setting.response.plays(np, worth_1xA, best_actions(np, worth_1xA), temperature)[0]
    gain_AxS = problem.utility - played_A @ problem.utility
    cost = float((gain_AxS @ truth_S).max())
    times_N = _simulated(guard, law_S, truth_S, since, steps, runs, rng)
    early = times_N < since
    late_N = np.where(times_N > steps, np.inf, times_N - since + 1.0)[~early]
    if not len(late_N):
        late_N = np.array([np.nan])  # no break was ever reached
    interval, units = certificate.interval, problem.regret_in_payoffs
    return Delay(
        law_S,
        truth_S,
        since,
        steps,
        edge=float(units(cost)),
        median=float(np.quantile(late_N, 0.5, method="inverted_cdf")),
        ninetieth=float(np.quantile(late_N, 0.9, method="inverted_cdf")),
        heard=float(np.isfinite(late_N).mean()),
        too_early=float(early.mean()),
        about=_about(guard, gain_AxS, law_S, truth_S, since),
        promised=_promised(interval, cost, since, steps),
        certificate=float(units(certificate.at(steps).regret_bound)),
        least_edge=float(units(interval(since, steps) / (steps - since + 1))),
        runs=runs,
    )


def _steps(horizon: int | None, steps: int | None) -> int:
    if horizon is None:
        if steps is None:
            raise ValueError("steps must say how many there are: the horizon of the test is unknown")
        return inputs.whole(steps, "steps")
    if steps is not None and steps != horizon:
        raise ValueError(f"steps are those of the test's horizon, {horizon}, got {inputs.shown(steps)}")
    return horizon


def _one_law(law: Any, problem: DecisionProblem, name: str) -> np.ndarray:
    return np.asarray(inputs.probs_of(law, problem.n_states, name, shape=()), dtype=np.float64)


def _apart(problem: DecisionProblem, edge: float) -> tuple[np.ndarray, np.ndarray]:
    """Two laws on two states: of two actions the first is best in one and the second in the other, by this edge."""
    U, e = problem.utility, edge / max(float(problem.regret_in_payoffs(1.0)), 1e-300)
    found: tuple[float, np.ndarray, np.ndarray] | None = None
    for b in range(len(U)):
        for c in range(len(U)):
            x_S = U[c] - U[b]
            low, high = int(x_S.argmin()), int(x_S.argmax())
            reach = float(x_S[high] - x_S[low])
            if e > min(-x_S[low], x_S[high]) or (found is not None and reach <= found[0]):
                continue
            law_S, truth_S = np.zeros(len(x_S)), np.zeros(len(x_S))
            for to_S, mean in ((law_S, -e), (truth_S, e)):
                to_S[high] = (mean - x_S[low]) / reach
                to_S[low] = 1 - to_S[high]
            if _best(U, law_S, b) and _best(U, truth_S, c):
                found = reach, law_S, truth_S
    if found is None:
        raise ValueError(
            f"edge must be one that two actions of {problem} can have over each other, got {edge:g}: say law and truth"
        )
    return found[1], found[2]


def _best(utility: np.ndarray, law_S: np.ndarray, action: int) -> bool:
    worth_A = utility @ law_S
    return bool(worth_A[action] >= worth_A.max() - 1e-12)


def _simulated(
    guard: Guard, law_S: np.ndarray, truth_S: np.ndarray, since: int, steps: int, runs: int, rng: np.random.Generator
) -> np.ndarray:
    """When the alarm sounds in each run, ``steps + 1`` for never."""
    times, each = [], max(1, _CELLS // (steps * len(law_S)))
    for at in range(0, runs, each):
        n = min(each, runs - at)
        states_NxT = np.concatenate(
            [
                rng.choice(len(law_S), (n, count), p=p)
                for p, count in ((law_S, since - 1), (truth_S, steps - since + 1))
            ],
            axis=1,
        )
        given = Inputs(np.broadcast_to(law_S, (n, steps, len(law_S))))
        alarm_NxT = form_of(guard.engine, runs * steps).run(guard.engine.start(n), given, states_NxT).alarm_NxT
        times.append(np.where(alarm_NxT.any(axis=1), alarm_NxT.argmax(axis=1) + 1, steps + 1))
    return np.concatenate(times)


def _about(guard: Guard, gain_AxS: np.ndarray, law_S: np.ndarray, truth_S: np.ndarray, since: int) -> float:
    """What is needed over the growth of a step, for the action and the rate with which that is least."""
    prior = prior_of(guard.setting)
    rates_K = prior.rates_K
    charge_AxK = np.log(np.exp(rates_K[:, None] * gain_AxS[:, None]) @ law_S)
    if prior.share < 1:  # beside a second bettor, of which this knows nothing: charged by pairs
        low_A, high_A = -gain_AxS.min(axis=1), gain_AxS.max(axis=1)
        charge_AxK = best_response.two_point(rates_K, low_A[:, None], high_A[:, None])
    growth_AxK = rates_K * (gain_AxS @ truth_S)[:, None] - np.maximum(charge_AxK, 0.0)
    grows = growth_AxK > 0
    growth_AxK = np.where(grows, growth_AxK, 1.0)
    stake_AxK = prior.weights_K(since) + prior.weights_K(since + 1) / np.expm1(growth_AxK)
    return float(np.where(grows, -np.log(stake_AxK * guard.test.delta) / growth_AxK, np.inf).min())


def _promised(interval: Any, cost: float, since: int, steps: int) -> float:
    """The first n with n cost >= interval(n), by halving: interval(n) / n does not rise."""
    if interval(since, steps) > cost * (steps - since + 1):
        return math.inf
    short, enough = 0, steps - since + 1
    while enough - short > 1:
        n = (short + enough) // 2
        short, enough = (short, n) if interval(since, since + n - 1) <= cost * n else (n, enough)
    return float(enough)
