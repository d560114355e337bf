"""A guard that runs for ever: one false alarm in N steps, and what any stretch of steps may lose.

Bettors at rates lam_k on comparators c have wealth M <- (M + m) exp(lam_k x_c - charge): a fresh stake m every step,
all stakes of a step at most 1 together, none on a comparator that gains nothing in the step whatever comes (that is how
the action played is compared with itself), and alpha N m at each start. At N in all the alarm sounds; H steps are then
played by fixed share, and the bettors start again. The player answers by best responses (a quantal response gives up
something in each step for ever).

**Alarms while the model is right.** In n steps from a start the wealth is alpha N + n on average at most, since no bet
grows: N P(alarm) <= alpha N + n. Over T steps with a starts, a <= 1 + alarms, the same summed up is
N E[alarms] <= alpha N (1 + E[alarms]) + T, so

    P(alarm within n steps of a start) <= n / N + alpha,        E[alarms by T] <= (T / N + alpha) / (1 - alpha).

**Every sequence.** While the bettors run, the stake of any step j has m exp(lam_k sum x - charges) < N at every later
one: over l steps no comparator gains B(l) = min_k [ l kappa(lam_k) + ln(N / m) ] / lam_k. An interval of I steps with n
alarms in it has at most n + 1 stretches between them, n steps at which they sound, and n + 1 runs of fixed share:

    sum_i B(l_i) + n J + (n + 1) Phi  <=  (n + 1) B(L / (n + 1)) + n J + (n + 1) Phi,    L = I - n - (n - 1) H

since B is concave, and L steps are left for the stretches where n - 1 runs lie between alarms; Phi =
J sqrt(H (ln(C H) + 1) / 2) bounds every part of a run of fixed share over C comparators at the rate that balances it.
With another fallback, such as a ``Recovery``, alarms are counted the same way, and nothing is promised of intervals
that have one in them.

An outcome that never comes costs J at most. A guard that is restarted by hand has one more start, and one more alpha N.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, frozen
from ..problems import DecisionProblem
from . import best_response
from .bounds import Terms
from .certificate import Certificate
from .coupled import Charges
from .every_start import Prior, before_alarm


@dataclass(frozen=True, eq=False)
class Steady(Prior):
    """The same stake at every step, for ever: nothing is put aside, and every start has a head start.

    What joins does not fall with the start: ``horizon`` is N, for which the rates are made, and no end.
    """

    head_start: float = 0.0  # what all have at a start

    def weights_K(self, start: int) -> np.ndarray:
        return np.full(len(self.rates_K), self.share / (self.comparators * len(self.rates_K)))

    def unspent(self, step: Array) -> Array:
        return step * 0.0

    def second_weight(self, start: Array) -> Array:
        return start * 0.0 + (1 - self.share)

    def second_unspent(self, step: Array) -> Array:
        return step * 0.0


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
    starts, missing
        How often it was begun by hand, and how many outcomes never came.

    >>> from lowregret import matching
    >>> found = ForEver(matching(), every=10_000)
    >>> round(found.expected_alarms(100_000), 2)
    10.11
    >>> round(found.within(2000), 1), round(found.within(2000, alarms=1), 1)
    (249.9, 376.1)
    """

    problem: DecisionProblem
    every: int
    hold: int | None = 256
    head_start: float = 0.01
    comparators: int | None = None  # the actions, unless given
    top: float = 2.0
    share: float = 1.0
    starts: int = 1
    missing: int = 0

    horizon = None  # it has none, and no bound for all time but the trivial ones
    tv_bound = 1.0
    theorem = "the exact test, for ever"
    # Nothing is promised against the model or of the next token's law, and no limit is known.
    against_model = limit = next_token_tv = None

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

    @cached_property
    def prior(self) -> Steady:
        """How stakes are shared."""
        assert self.comparators is not None
        head_start = self.head_start * self.every
        return Steady(self.rates_K, self.comparators, self.every, share=self.share, head_start=head_start)

    @property
    def weight(self) -> float:
        """m: what one bettor stakes each step."""
        return float(self.prior.weights_K(1)[0])

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
        assert self.comparators is not None
        return math.log(self.comparators * self.hold) + 1

    def expected_alarms(self, steps: int) -> float:
        """How many alarms there are at most in so many steps, on average, while the model is right."""
        begun = self.starts * self.head_start
        return (inputs.whole(steps, "steps", least=0) / self.every + begun) / (1 - self.head_start)

    def chance_within(self, steps: int) -> float:
        """How likely an alarm is at most within so many steps of a start, while the model is right."""
        return min(1.0, inputs.whole(steps, "steps", least=0) / self.every + self.head_start)

    def monitored(self, steps_N: np.ndarray) -> np.ndarray:
        """B: the most regret to any comparator over so many steps in a row, where no alarm sounds in them."""
        costs_K = np.full(len(self.rates_K), self.log_cost)
        charged = Charges(best_response.kappa(self.problem, self.rates_K))
        return before_alarm(charged, self.rates_K, costs_K, self.problem.span, np.asarray(steps_N))

    def within(self, steps: int, *, alarms: int = 0) -> float:
        """The most *total* regret to any one comparator over any so many steps in a row with so many alarms in them.

        Without fixed share after an alarm (``hold=None``) of steps at which the bettors run, and no others.
        """
        steps, alarms = inputs.whole(steps, "steps"), inputs.whole(alarms, "alarms", least=0)
        if self.hold is None and alarms:
            raise ValueError("intervals with alarms in them are promised where fixed share is played after an alarm")
        return float(self._within(steps, np.array([alarms]))[0])

    def _within(self, length: int, alarms_N: np.ndarray) -> np.ndarray:
        """The same for several numbers of alarms."""
        J, parts_N, steps_N = self.problem.span, alarms_N + 1, np.full(alarms_N.shape, float(length))
        if self.hold is not None:
            steps_N = np.maximum(length - alarms_N - np.maximum(alarms_N - 1, 0) * self.hold, 0.0)
        most_N = parts_N * (self.monitored(steps_N / parts_N) + self._held()) + alarms_N * J
        return np.minimum(J * length, most_N + self.missing * J)

    def _held(self) -> float:
        return 0.0 if self.hold is None else self.problem.span * math.sqrt(self.hold * self._hold_cost / 2)

    def in_closed_form(self, length: int, alarms: int = 0) -> float:
        """1.061 R sqrt((n+1) I c / 2) + n J + (n+1) Phi, c = ln(N / m), for lengths that the rates suit."""
        parts, J = alarms + 1, self.problem.span
        bets = 1.061 * self.problem.contrast * math.sqrt(parts * length * self.log_cost / 2)
        return bets + alarms * J + parts * self._held()

    def terms_at(self, steps: int) -> Terms:
        """What the regret a step over the first so many is made of: the worst there is, however many alarms come."""
        steps = inputs.whole(steps, "steps")
        if self.hold is None:
            return {"of which nothing is known": self.problem.span}
        most = (steps + self.hold) // (self.hold + 1)  # each alarm but the last has a run of fixed share after it
        return {"however many alarms come": float(self._within(steps, np.arange(most + 1)).max()) / steps}

    def at(self, steps: int) -> Certificate:
        """What is promised of the first so many steps, as a certificate that knows how many there are."""
        terms = self.terms_at(steps)
        return Certificate(
            regret_bound=min(self.problem.span, sum(terms.values())),
            tv_bound=self.chance_within(steps),
            statement=self.statement,
            assumptions=self.assumptions,
            theorem=self.theorem,
            problem=self.problem,
            horizon=steps,
            terms=terms,
        )

    @property
    def regret_bound(self) -> float:
        """Over any number of steps, one included: the span. ``at`` and ``within`` say more."""
        return self.problem.span

    @property
    def regret_bound_in_payoffs(self) -> float:
        """The same in the units the problem was made from."""
        return float(self.problem.regret_in_payoffs(self.regret_bound))

    def to_dict(self) -> dict[str, Any]:
        """Everything it says, as plain JSON values."""
        return {
            "theorem": self.theorem,
            "false_alarm_every": self.every,
            "hold": self.hold,
            "head_start": self.head_start,
            "alarms_in_that_many_steps": self.expected_alarms(self.every),
            "chance_within_a_tenth": self.chance_within(self.every // 10),
            "interval_of_that_length": self.within(self.every),
            "statement": self.statement,
            "assumptions": list(self.assumptions),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @property
    def statement(self) -> str:
        """What is promised, in words."""
        begun = f"{self.starts * self.head_start:g}"
        alarms = (
            f"While the model is right, at most (t / {self.every} + {begun}) / {1 - self.head_start:g} "
            "alarms in t steps on average. There is no bound on the chance of ever leaving it: that takes a horizon."
        )
        if self.hold is None:
            return alarms + " On every sequence, no stretch without an alarm is bad; of those with one nothing is said."
        since = "" if self.starts == 1 else " since it was last begun"
        whom = "action" if self.comparators == self.problem.n_actions else "action or reference"
        lost = f"no stretch of steps{since} loses more than within(steps, alarms=...) to any {whom}"
        return f"{alarms} On every sequence, {lost}."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it assumes."""
        after = "as the fallback says" if self.hold is None else "by fixed share"
        return (
            f"every step is acted on by the best response, and {after} for some steps after an alarm",
            "the state is seen after every step, whatever was done, and does not depend on the action drawn",
            "(for the alarms only) states come from the model's own laws",
        )

    def __str__(self) -> str:
        short, long = max(self.every // 100, 1), 10 * self.every
        lines = [
            f"Certificate (for ever), one false alarm in {self.every} steps",
            f"  alarms  <= {self.expected_alarms(self.every):.3g} in {self.every} steps and "
            f"{self.expected_alarms(long):.3g} in {long}, on average, while the model is right",
            f"  chance  <= {self.chance_within(short):.3g} of one within {short} steps of a start, likewise",
        ]
        for length in (self.every // 100, self.every // 10, self.every):
            if length == self.every or (length >= 1 and self.within(length) < self.problem.span * length):
                lines.append(f"  regret  <= {self._told(length, 0)} a step over {length} without an alarm")
                if self.hold is not None and length > self.hold:
                    lines[-1] += f", {self._told(length, 1)} with one"
        return "\n".join([*lines, f"  {self.statement}", *(f"  assuming {each}" for each in self.assumptions)])

    def _told(self, length: int, alarms: int) -> str:
        most = self.within(length, alarms=alarms) / length
        paid = float(self.problem.regret_in_payoffs(most))
        return f"{most:.4f}" if paid == most else f"{most:.4f} ({paid:.4g} in payoffs)"
