"""A guarantee for each of several named problems at once: ask it by name."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from .. import inputs
from .certificate import Certificate


@dataclass(frozen=True)
class NamedCertificate(Certificate):
    """A guarantee for each of several problems: ``for_problem(name)`` is that of one.

    Its own numbers are those of the problem in which most may be lost, in utility.
    """

    each: dict[str, Certificate] = field(kw_only=True, repr=False, compare=False)

    def for_problem(self, name: str) -> Certificate:
        """The guarantee for whoever acts in the problem of this name."""
        if name not in self.each:
            raise ValueError(f"name must be that of a problem, one of {', '.join(self.each)}, got {inputs.shown(name)}")
        if self.episodes > 1:
            raise ValueError(
                f"for_problem speaks of one episode, and this certificate is for {self.episodes}: ask the certificate "
                "of the guard's rule; the chances of a switch add up over episodes"
            )
        return self.each[name]

    @property
    def against_model(self) -> float | None:
        """The most over all problems."""
        if self.behind_model is None or self.horizon is None:
            return super().against_model  # None, or why not
        return max(given.against_model or 0.0 for given in self.each.values())

    def changed(self, change: Callable[[Certificate], Certificate]) -> "NamedCertificate":
        """The same with this done to the certificate of each problem."""
        return certify_named({name: change(given) for name, given in self.each.items()})

    def at(self, step: int) -> Certificate:
        if self.terms_at is None:
            return super().at(step)
        made = self.changed(partial(Certificate.at, step=step))
        return made.over_episodes(self.episodes, made.regret_bound)

    def sharpen(self) -> Certificate:
        return self if self.episodes > 1 else self.changed(Certificate.sharpen)

    def realised(self, confidence: float) -> Certificate:
        if self.episodes > 1:
            return super().realised(confidence)  # which refuses them
        told = inputs.probability(confidence, "confidence")
        each = 1 - (1 - told) / len(self.each)  # so that all hold at once
        made = self.changed(lambda given: given.realised(each))
        return replace(made, statement=f"All at once with a chance of at least {told:g}. {made.statement}")

    def interval(self, start: int, end: int) -> float:
        if self.between is None:
            return super().interval(start, end)  # which says why not
        return max(given.interval(start, end) for given in self.each.values())

    def to_dict(self) -> dict[str, Any]:
        told = {
            name: {"regret_bound": given.regret_bound, "regret_bound_in_payoffs": given.regret_bound_in_payoffs}
            for name, given in self.each.items()
        }
        return {**super().to_dict(), **({"problems": told} if self.episodes == 1 else {})}

    def __str__(self) -> str:
        if self.episodes > 1:
            return super().__str__()
        if self.horizon is None:
            return super().__str__() + "\n  for_problem(name) gives the guarantee of each problem"
        told = ", ".join(f"{given.regret_bound:.4f} in {name}" for name, given in self.each.items())
        return f"{super().__str__()}\n  regret by problem: {told}"


def certify_named(each: dict[str, Certificate]) -> NamedCertificate:
    """These certificates of problems by name as one; they share a switch, and so its chance."""
    worst = max(each.values(), key=lambda given: given.regret_bound)
    own = {f.name: getattr(worst, f.name) for f in fields(Certificate)}
    own["statement"] = f"In each of {', '.join(each)}; the number is where most may be lost. {worst.statement}"
    return NamedCertificate(**own, each=each)
