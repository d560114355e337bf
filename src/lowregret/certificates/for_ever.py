"""A guard that runs for ever: one false alarm in N steps, and what any stretch of steps may lose.

Bettors at rates lam_k on comparators c have wealth M <- (M + m) exp(lam_k x_c - charge): a fresh stake m every step,
all stakes of a step at most 1 together, and alpha N m at each start. At N in all the alarm sounds; H steps are then
played by fixed share, and the bettors start again. The player answers by best responses (a quantal response gives up
something in each step for ever).

**Alarms while the model is right.** In n steps from a start the wealth is alpha N + n on average at most, since no bet
grows: N P(alarm) <= alpha N + n. Over T steps with a starts, a <= 1 + alarms, the same summed up is
N E[alarms] <= alpha N (1 + E[alarms]) + T, so

    P(alarm within n steps of a start) <= n / N + alpha,        E[alarms by T] <= (T / N + alpha) / (1 - alpha).

**Every sequence.** While the bettors run, the stake of any step j has m exp(lam_k sum x - charges) < N at every later
one: over l steps no comparator gains B(l) = min_k [ l kappa(lam_k) + ln(N / m) ] / lam_k. An interval of I steps with n
alarms in it has at most n + 1 stretches between them, n steps at which they sound, and n + 1 runs of fixed share:

    sum_i B(l_i) + n J + (n + 1) Phi  <=  (n + 1) B(I / (n + 1)) + n J + (n + 1) Phi

since B is concave; Phi = J sqrt(H (ln(A H) + 1) / 2) bounds every part of a run of fixed share at the rate that
balances it. With another fallback, such as a ``Recovery``, alarms are counted the same way, and nothing is
promised of intervals that have one in them.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import frozen
from ..problems import DecisionProblem
from . import best_response
from .coupled import Charges
from .every_start import before_alarm


@dataclass(frozen=True)
class ForEver:
    """What is promised of a guard that gives one false alarm in ``every`` steps, and of how its bettors share a stake.

    Parameters
    ----------
    every
        N: so many steps for one false alarm.
    hold
        H: how long fixed share is played after an alarm; None: another fallback is, and intervals are not promised.
    head_start
        alpha: what all bettors have at a start, in units of N.
    top
        No rate is above top / J.
    share
        Of each stake, what bets on comparators; a second bettor may have the rest.

    >>> from lowregret import matching
    >>> found = ForEver(matching(), every=10_000)
    >>> round(found.expected_alarms(100_000), 2)
    10.11
    >>> round(found.interval(2000), 1), round(found.interval(2000, alarms=1), 1)
    (249.9, 376.1)
    """

    problem: DecisionProblem
    every: int
    hold: int | None = 256
    head_start: float = 0.01
    comparators: int | None = None  # the actions, unless given
    top: float = 2.0
    share: float = 1.0

    def __post_init__(self) -> None:
        inputs.keep(
            self,
            every=inputs.whole(self.every, "every", least=2),
            hold=None if self.hold is None else inputs.whole(self.hold, "hold", least=2),
            head_start=inputs.probability(self.head_start, "head_start"),
            comparators=self.problem.n_actions if self.comparators is None else self.comparators,
        )

    @cached_property
    def rates_K(self) -> np.ndarray:
        """The betting rates, each half of the one before, down to what suits N steps: longer ones end in an alarm."""
        assert self.comparators is not None
        highest = self.top / max(self.problem.span or 1.0, 1e-300)
        slowest = best_response.main_rate(self.problem, self.every, math.log(self.every * self.comparators))
        halvings = max(0, math.ceil(math.log2(highest / slowest))) if math.isfinite(slowest) else 0
        return frozen(highest * 2.0 ** -np.arange(halvings + 1))

    @property
    def weight(self) -> float:
        """m: what one bettor stakes each step."""
        assert self.comparators is not None
        return self.share / (self.comparators * len(self.rates_K))

    @property
    def log_cost(self) -> float:
        """ln(N / m): what a stake must grow to for the alarm to sound on its own."""
        return math.log(self.every / self.weight)

    @property
    def hold_rate(self) -> float:
        """The rate of fixed share, shared 1/H each step, for which Phi is its bound."""
        if self.hold is None:
            raise ValueError("hold_rate is that of fixed share, and another fallback is played here")
        return math.sqrt(8 * self._hold_cost / self.hold) / (self.problem.span or 1.0)

    @property
    def _hold_cost(self) -> float:
        assert self.hold is not None
        return math.log(self.problem.n_actions * self.hold) + 1

    def expected_alarms(self, steps: int) -> float:
        """How many alarms there are at most in so many steps, on average, while the model is right."""
        return (inputs.whole(steps, "steps", least=0) / self.every + self.head_start) / (1 - self.head_start)

    def chance_within(self, steps: int) -> float:
        """How likely an alarm is at most within so many steps of a start, while the model is right."""
        return min(1.0, inputs.whole(steps, "steps", least=0) / self.every + self.head_start)

    def monitored(self, steps_N: np.ndarray) -> np.ndarray:
        """B: the most regret to any comparator over so many steps in a row, where no alarm sounds in them."""
        costs_K = np.full(len(self.rates_K), self.log_cost)
        charged = Charges(best_response.kappa(self.problem, self.rates_K))
        return before_alarm(charged, self.rates_K, costs_K, self.problem.span, np.asarray(steps_N))

    def interval(self, length: int, alarms: int = 0) -> float:
        """The most *total* regret to any one comparator over any ``length`` steps with so many alarms in them.

        Without fixed share after an alarm (``hold=None``) of steps at which the bettors run, and no others.
        """
        length, alarms = inputs.whole(length, "length"), inputs.whole(alarms, "alarms", least=0)
        if self.hold is None and alarms:
            raise ValueError("intervals with alarms in them are promised where fixed share is played after an alarm")
        J, parts = self.problem.span, alarms + 1
        most = parts * (float(self.monitored(np.array([length / parts]))[0]) + self._held()) + alarms * J
        return min(J * length, most)

    def _held(self) -> float:
        return 0.0 if self.hold is None else self.problem.span * math.sqrt(self.hold * self._hold_cost / 2)

    def in_closed_form(self, length: int, alarms: int = 0) -> float:
        """1.061 R sqrt((n+1) I c / 2) + n J + (n+1) Phi, c = ln(N / m), for lengths that the rates suit."""
        parts, J = alarms + 1, self.problem.span
        bets = 1.061 * self.problem.contrast * math.sqrt(parts * length * self.log_cost / 2)
        return bets + alarms * J + parts * self._held()

    def to_dict(self) -> dict[str, Any]:
        """Everything it says, as plain JSON values."""
        return {
            "false_alarm_every": self.every,
            "hold": self.hold,
            "head_start": self.head_start,
            "chance_within_a_tenth": self.chance_within(self.every // 10),
            "interval_of_that_length": self.interval(self.every),
            "statement": self.statement,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @property
    def statement(self) -> str:
        """What is promised, in words."""
        alarms = (
            f"While the model is right, at most (t / {self.every} + {self.head_start:g}) / {1 - self.head_start:g} "
            "alarms in t steps on average. There is no bound on the chance of ever leaving it: that takes a horizon."
        )
        if self.hold is None:
            return alarms + " On every sequence, no stretch without an alarm is bad; of those with one nothing is said."
        return (
            alarms + " On every sequence, no stretch of steps loses more than interval(length, alarms) to any action."
        )

    def __str__(self) -> str:
        units = self.problem.regret_in_payoffs
        lines = [f"Certificate (for ever), one false alarm in {self.every} steps"]
        for length in (self.every // 100, self.every // 10, self.every):
            if length >= 1:
                most = self.interval(length) / length
                lines.append(
                    f"  regret  <= {most:.4f} a step over {length} without an alarm ({units(most):.4g} in payoffs)"
                )
        return "\n".join([*lines, f"  {self.statement}"])
