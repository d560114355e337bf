"""What can be read off a guard: how it went, how close it is to a switch, what is guaranteed."""

import math

from ..arrays import Array, namespace
from ..certificates import Certificate
from ..problems import DecisionProblem
from ..rules import Rule
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
        """The rule's statistic and the threshold it must reach, now; infinite once an excluded state has come."""
        return self.rule.evidence(self._at.ledger.rule)

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
