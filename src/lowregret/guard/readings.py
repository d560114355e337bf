"""What can be read off a guard: how it went, how close it is to a switch, what is guaranteed."""

import math
from typing import Any

import numpy as np

from ..arrays import Array, namespace, to_numpy
from ..certificates import Certificate
from ..problems import DecisionProblem
from ..rules import Rule, RuleMemory
from .advice import acts_in, plain
from .episodes import certificate_of
from .ledger import Event, average, own_copy
from .memory import GuardMemory
from .saving import Kept


class Readings(Kept):
    """The properties of a guard: nothing here changes it."""

    rule: Rule
    problem: DecisionProblem | None
    _at: GuardMemory

    @property
    def episodes(self) -> Array:
        """How many episodes each stream has opened, ``[...]``."""
        return own_copy(self._at.ledger.episode)

    @property
    def regret(self) -> Array:
        """The average regret ``[...]`` of the mixed policy in this episode, against the best fixed action.

        With references against the best of them and the actions; with contexts, of an action for each. Without a
        problem: the largest V-regret of the advice, over the rule's tips.
        """
        ledger = self._at.ledger
        return average(self.rule, ledger.lead_A, ledger.rule.step)

    @property
    def realised_regret(self) -> Array:
        """The average regret ``[...]`` of the actions reported to ``observe``, over the steps that came with one.

        NaN where none was reported in this episode.
        """
        acts_in(self.rule, "realised_regret")
        steps = self._at.ledger.reported
        found = average(self.rule, self._at.ledger.realised_A, steps)
        if self.batch_shape == ():
            return found if int(steps) else math.nan
        return namespace(steps).where(steps > 0, found, math.nan)

    @property
    def switched(self) -> Array:
        """Which streams ``[...]`` have switched to the fallback in this episode."""
        late = self.rule.tripped(self._at.ledger.rule)
        return bool(late) if self.batch_shape == () else late

    @property
    def evidence(self) -> tuple[Array, Array]:
        """The rule's statistic and the threshold it must reach, now; infinite once an excluded state has come.

        Where the rule has a gate, both must be met at the same step: ``waiting_for`` says which is not.
        """
        return self.rule.evidence(self._at.ledger.rule)

    @property
    def conditions(self) -> dict[str, tuple[Array, Array]]:
        """All that an alarm waits for, by name ("evidence", "gate"): what it is now, and what it must reach."""
        return self.rule.conditions(self._at.ledger.rule)

    @property
    def waiting_for(self) -> Any:
        """Which conditions keep each stream ``[...]`` from a switch: "evidence", "gate", "evidence and gate".

        "switched" where it has switched, "never" where nothing is at stake.
        """
        return waiting_for(self.rule, self._at.ledger.rule)

    @property
    def share(self) -> Array:
        """How much of what is played next is the model's, ``[...]``: all of it until a switch; less after it, or none.

        With ``Recovery`` it can come back: ``events`` has a ``Return`` when the model has most of the weight again, and
        a ``Left`` each time it has less than a quarter after that.
        """
        return plain(self.rule.share(self._at.ledger.rule))

    @property
    def events(self) -> list[Event]:
        """Every switch so far, every return, and every time a model that had returned was left again."""
        return list(self._at.events)

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed over the episodes opened so far, for the stream of which least is.

        Where outcomes are numbers, a ``RealisedCertificate``: by what the bets were charged so far.
        """
        return certificate_of(self.rule, self._at.ledger)


# How close each stream is to a switch: every condition of the alarm, and which of them it waits for.


def waiting_for(rule: Rule, memory: RuleMemory) -> Any:
    """The names of the conditions that are not met, ``[...]``: a str for a single stream, else an array of them.

    "switched" where there is nothing to wait for any more, "never" where nothing is at stake.
    """
    tripped = to_numpy(rule.tripped(memory))
    missing = {
        name: to_numpy(reached) < to_numpy(needed) for name, (reached, needed) in rule.conditions(memory).items()
    }
    words = np.empty(tripped.shape, dtype=object)
    for at in np.ndindex(tripped.shape):
        if tripped[at] or rule.pointless:
            words[at] = "switched" if tripped[at] else "never"
            continue
        # At a tie a rule may ask for more than its threshold.
        words[at] = " and ".join(name for name, short in missing.items() if short[at]) or "evidence"
    return words.item() if tripped.shape == () else words.astype(str)
