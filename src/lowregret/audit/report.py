"""What an audit found, for each stream and over all of them: the same sums however the work was divided."""

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..certificates import Certificate
from ..certificates.realised import RealisedCertificate
from ..problems import DecisionProblem, Payoff, lines_told
from ..tables import Table
from . import answer
from .cells import printable
from .columns import chosen_told
from .judging import LISTED, StreamFound, guard_of
from .known import Tells
from .result import BEST, BEST_OF_ALL, warnings_of
from .sketch import pictures
from .times import Rhythms, spelt

KIND = "lowregret audit"


class Judgement(NamedTuple):
    """One stream of an audit: payoffs per step by player, and what the guard did."""

    stream: str
    steps: int
    earned: dict[str, float]
    best_action: str
    regret: float  # of the guard, a step, in utility
    switched_at: int | None  # the last step for which the model was trusted
    log_e: float  # the evidence against its model, where it was stopped
    survives: bool  # whether its alarm is one of those that e-BH names
    since: int | None  # from about which step on its model was wrong, at the first switch; None: not looked for
    returns: int | None  # how often its model came back; None: not looked for
    left: int | None  # how often it was left again after that; likewise
    lost_to: str | None  # which action, or what else, did better than its model from then on
    switched_time: str | int | None  # what the log calls step ``switched_at``: a time, or a number
    since_time: str | int | None  # likewise ``since``
    lag: int  # after how many steps its outcomes were known, at most
    excluded: int  # outcomes to which its model had given probability 0
    seems: int | None  # the lag that its residuals look like, where none was given
    then: float | None  # what the guard would have earned a step at that lag


@dataclass(frozen=True, eq=False)
class Audit:
    """The backtest of every stream of a log. ``about`` says how it was made; ``parts`` holds numbers by partition."""

    about: dict[str, Any]
    parts: dict[int, dict[str, Any]]

    @cached_property
    def problem(self) -> DecisionProblem | Payoff:
        return problem_in(self.about["problem"])

    @property
    def named(self) -> str:
        """The actions and states that the payoffs were read to have."""
        outcomes = getattr(self.problem, "state_names", "outcomes are numbers")
        return printable(f"{self.problem.action_names}; {outcomes}")

    @property
    def certificate(self) -> Certificate | RealisedCertificate:
        """What is guaranteed of every stream: the certificate at the longest lag."""
        a, latest = self.about, max((row.lag for row in self.rows), default=1)
        references, contexts, *more = a["tells"].values()
        tells = Tells(tuple(references), None if contexts is None else tuple(contexts), *more)
        made = a["horizon"], a["delta"], a["temperature"], latest, tells, a["test"]
        found = guard_of(self.problem, *made).certificate
        seen = [part["regret_bound"] for part in self.parts.values() if part["regret_bound"] is not None]
        return replace(found, regret_bound=max(seen)) if seen else found

    @cached_property
    def streams(self) -> list[Judgement]:
        """The streams by name."""
        survivors, problem = set(self.survivors), self.problem
        scale, shift = float(problem.regret_in_payoffs(1.0)), float(problem.in_payoffs(0.0))
        found, players = [], self.about["players"]
        guard, best = players.index("guard"), players.index(BEST_OF_ALL if BEST_OF_ALL in players else BEST)
        for row in self.rows:
            mean = {player: value / row.steps for player, value in zip(players, row.totals, strict=True)}
            told = {name: value for name, value in row._asdict().items() if name in Judgement._fields}
            told |= {
                "earned": {player: value * scale + shift for player, value in mean.items()},
                "best_action": str(problem.actions[row.best]),
                "regret": (row.totals[best] - row.totals[guard]) / row.steps,
                "survives": row.stream in survivors,
                "then": None if row.then is None else row.then / row.steps * scale + shift,
            }
            found.append(Judgement(**told))
        return found

    @cached_property
    def rows(self) -> list[StreamFound]:
        """The streams by name, in utility."""
        every = (StreamFound(*row) for p in sorted(self.parts) for row in self.parts[p]["streams"])
        return sorted(every, key=lambda row: row.stream)

    @property
    def steps(self) -> int:
        return sum(row.steps for row in self.rows)

    @cached_property
    def totals(self) -> dict[str, float]:
        """Payoff in all by player, over all streams."""
        return {player: value * self.steps for player, value in self.earned.items()}

    @cached_property
    def earned(self) -> dict[str, float]:
        """Payoff a step by player, over all streams; each sum is the exact one, rounded once."""
        players, steps = self.about["players"], self.steps
        return {
            player: float(self.problem.in_payoffs(math.fsum(row.totals[k] for row in self.rows) / steps))
            for k, player in enumerate(players)
        }

    @cached_property
    def alarms(self) -> int:
        """How many streams switched."""
        return sum(row.switched_at is not None for row in self.rows)

    @property
    def allowed(self) -> float:
        """The most streams that switch on average if every model is right."""
        return self.about["delta"] * self.about["streams"] if self.about["test"] else 0.0

    @cached_property
    def survivors(self) -> tuple[str, ...]:
        """Streams whose alarm survives e-BH: on average at most a share ``fdr`` of them is named wrongly."""
        alarmed = [(row.log_e, row.stream) for row in self.rows if row.switched_at]
        return e_bh(alarmed, self.about["streams"], self.about["fdr"])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on the answer, in plain words."""
        found = [
            *warnings_of(self.problem, self.earned, self.certificate, len(self.rows), answer.step_of(self)),
            *answer.warnings(self),
        ]
        if self.about["renormalised"]:
            done = "did not sum to one and were renormalised"
            if isinstance(self.problem, Payoff):
                done = "had quantiles that cross or lie outside the possible outcomes, and were sorted and clipped"
            found.append(f"{self.about['renormalised']:,} rows {done}")
        return (*found, *self.about["notes"], *self.rhythms.told)

    @property
    def answer(self) -> str:
        """What acting on the model earned, what the guard would have earned, and when it would have left the model."""
        return answer.answer(self)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the audit assumed, whether or not the user said so."""
        return answer.assumed(self)

    @property
    def first(self) -> str | None:
        """The first time in the log, where steps are dates."""
        return self._end(min, 0)

    @property
    def last(self) -> str | None:
        """The last time in the log, where steps are dates."""
        return self._end(max, 1)

    def _end(self, which: Any, at: int) -> str | None:
        ends = [part["span"][at] for part in self.parts.values() if part["span"]]
        if not ends:
            return None
        time, offset = which(ends)
        return spelt(time, offset, self.about["steps"])

    @property
    def gaps(self) -> tuple[int, int]:
        """How many times break the rhythm of their stream (steps may be missing), and in how many streams."""
        return self.rhythms.gaps, self.rhythms.streams

    @cached_property
    def rhythms(self) -> Rhythms:
        return Rhythms.together(Rhythms(*part["rhythms"]) for part in self.parts.values())

    @property
    def read_as(self) -> str:
        """Which column was read as what."""
        return chosen_told(self.about["columns"])

    def table(self) -> Table:
        """The answer, the warnings, and what each player earned, in all and per step."""
        return answer.table(self)

    def report(self) -> str:
        """All that the command prints: the table, the promise, the payoffs, what was assumed and read."""
        return answer.report(self)

    @cached_property
    def suspects(self) -> list[Judgement]:
        """Streams that switched, most evidence first."""
        return sorted((one for one in self.streams if one.switched_at), key=lambda one: (-one.log_e, one.stream))

    def curves(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Steps, and payoffs added up over all streams until each of them, by player."""
        scale, shift = float(self.problem.regret_in_payoffs(1.0)), float(self.problem.in_payoffs(0.0))
        ordered = [self.parts[p] for p in sorted(self.parts) if self.parts[p]["curves"]]
        steps = np.sum([part["curve_steps"] for part in ordered], axis=0)
        found = {}
        for name in self.about["players"]:
            total = np.zeros(len(steps))
            for part in ordered:  # one after the other: the same sum to the last bit
                total += np.array(part["curves"][name])
            found[name] = total * scale + steps * shift
        return np.array(self.about["grid"]), found

    @property
    def details(self) -> list[dict[str, Any]]:
        """The curves of the streams with the most evidence against their models."""
        found = [one for part in self.parts.values() for one in part["details"]]
        return sorted(found, key=lambda one: (-one["log_e"], one["stream"]))[:LISTED]

    def to_json(self) -> str:
        """Everything but the curves."""
        a, certificate = self.about, self.certificate
        found = {
            "kind": KIND,
            "about": {name: a[name] for name in a if name != "grid"},
            "actions": self.problem.actions,
            "states": None if isinstance(self.problem, Payoff) else self.problem.states,
            "answer": self.answer,
            "assumed": self.assumed,
            "unit": answer.step_of(self),
            "first": self.first,
            "last": self.last,
            "totals": self.totals,
            "earned": self.earned,
            "warnings": self.warnings,
            "regret_bound": certificate.regret_bound,
            "regret_bound_in_payoffs": certificate.regret_bound_in_payoffs,
            "alarms": self.alarms,
            "allowed": self.allowed,
            "survivors": self.survivors,
            "gaps": self.gaps[0],
            **pictures(self),
            "streams": [one._asdict() for one in self.streams],
        }
        return json.dumps(found, indent=1)


def e_bh(alarmed: list[tuple[float, str]], streams: int, level: float) -> tuple[str, ...]:
    """Names by e-Benjamini-Hochberg, from pairs of ln e and name, among ``streams`` in all (the others count as 0).

    The k with the largest e-values, for the largest k of which all are at least streams / (level k); whatever the
    dependence between streams, an expected share of at most ``level`` of those named is named wrongly.

    >>> e_bh([(7.0, "a"), (3.5, "b"), (1.0, "c")], streams=3, level=0.1)
    ('a', 'b')
    """
    ordered = sorted(alarmed, key=lambda pair: (-pair[0], pair[1]))
    most = 0
    for k, (log_e, _) in enumerate(ordered, start=1):
        if log_e >= math.log(streams / (level * k)):
            most = k
    return tuple(name for _, name in ordered[:most])


def problem_told(problem: DecisionProblem | Payoff) -> dict[str, Any]:
    """A problem as plain numbers, to the last bit."""
    if isinstance(problem, Payoff):
        return lines_told(problem)
    return {
        "utility": problem.utility.tolist(),
        "scale": problem._scale,
        "shift": problem._shift,
        "actions": list(problem.actions),
        "states": list(problem.states),
    }


def problem_in(told: dict[str, Any]) -> DecisionProblem | Payoff:
    """The problem that ``problem_told`` wrote."""
    if "knots" in told:
        return Payoff.from_knots(**told)
    problem = DecisionProblem(told["utility"], told["actions"], told["states"])
    problem._scale, problem._shift = told["scale"], told["shift"]
    return problem
