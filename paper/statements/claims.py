"""What a statement is: words from the paper, a function that checks them, and claims that hold or do not."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

ROUNDING = 1e-12  # what floating point may add to a bound that is attained
# What can be found of a statement, and in words.
VERDICTS = {
    "holds": "holds",
    "constant": "holds with a constant named",
    "vacuous": "vacuous as printed",
    "step": "a step of the proof fails",
    "false": "false as printed",
    "beyond": "beyond the paper",
}
REFUTES = ("step", "false")  # those that come with a counterexample
AMENDS = ("vacuous", *REFUTES)  # those that quote the paper and say what holds instead


@dataclass(frozen=True)
class Claim:
    """One number that was computed, beside what it must be: made by ``at_most``, ``at_least`` and ``equals``."""

    what: str
    measured: float
    relation: str  # "<=", ">=" or "="
    bound: float
    within: float  # how far on the wrong side it may lie
    refuted: bool = False  # it is what a quoted sentence says, and must not hold

    @property
    def holds(self) -> bool:
        over = self.measured - self.bound
        if self.relation == "=":
            return abs(over) <= self.within
        return (over if self.relation == "<=" else -over) <= self.within

    @property
    def tightness(self) -> float | None:
        """How much of the bound is used: 1 is attained, above 1 is broken; None where that says nothing."""
        if self.relation == "=" or self.bound <= 0 or self.measured < 0:
            return None
        if self.relation == "<=":
            return self.measured / self.bound
        return self.bound / self.measured if self.measured else math.inf

    @property
    def used(self) -> str:
        """The tightness in words: two digits, and where these would be 0.00 its size.

        >>> at_most("TV", 1.5e-5, 1).used, at_most("TV", 0.5, 1).used, equals("TV", 1, 1, 0).used
        ('1.5e-05', '0.50', '')
        """
        if self.tightness is None:
            return ""
        return f"{self.tightness:.2g}" if 0 < self.tightness < 0.005 else f"{self.tightness:.2f}"

    @property
    def numbers(self) -> tuple[str, str, str]:
        """What was measured, how it stands to what it must be, and that: with the digits that decide."""
        sign = self.relation if self.holds else {"<=": ">", ">=": "<", "=": "!="}[self.relation]
        if self.relation != "=" or not 1e-9 < self.within < min(0.1, max(abs(self.measured), abs(self.bound))):
            return number(self.measured), sign, number(self.bound)
        digits = -math.floor(math.log10(self.within))
        return f"{self.measured:.{digits}f}", sign, f"{self.bound:.{digits}f}"

    def __str__(self) -> str:
        slack = f" within {number(self.within)}" if self.relation == "=" and self.within else ""
        return f"{self.what}: {' '.join(self.numbers)}{slack}" + ("" if self.holds else f" (not {self.relation})")


def at_most(what: str, measured: float, bound: float, within: float = ROUNDING) -> Claim:
    """The claim that a number stays below a bound."""
    return Claim(what, float(measured), "<=", float(bound), within)


def at_least(what: str, measured: float, bound: float, within: float = ROUNDING) -> Claim:
    """The claim that a number stays above a bound."""
    return Claim(what, float(measured), ">=", float(bound), within)


def equals(what: str, measured: float, expected: float, within: float) -> Claim:
    """The claim that a number is another, up to rounding, printed digits or sampling error: say which in ``within``."""
    return Claim(what, float(measured), "=", float(expected), within)


def against(claim: Claim) -> Claim:
    """A claim that must not hold: what a quoted sentence says, on the counterexample that was computed."""
    return replace(claim, refuted=True)


@dataclass(frozen=True)
class Statement:
    """A statement of the paper and the function that checks it: made by ``statement``.

    Parameters
    ----------
    name
        As in the paper: "Lemma 2.1"; with what it is about where a statement takes several checks: "Theorem 3.1, TV".
    says
        What the paper says, in a sentence or two.
    verdict
        What the check is to bear out, one of ``VERDICTS``: "holds"; "constant", where the paper leaves a constant open
        and the check names it; "vacuous", where the printed bound exceeds the trivial one; "step", where a step of a
        proof fails; "false"; "beyond" for what the paper does not say.
    quotes
        For "vacuous": the paper's own words, as they stand in its source. For "step" and "false": the words that are
        refuted, one quotation for each claim that is made with ``against``, in their order.
    corrected
        With quotes: what holds instead.
    sharper
        If it is true as printed and more is: what.
    needs
        A module that is not always installed: without it the statement is skipped.
    """

    name: str
    says: str
    check: Callable[[], list[Claim]]
    verdict: str = "holds"
    quotes: Sequence[str] = ()
    corrected: str = ""
    sharper: str = ""
    needs: str = ""

    @property
    def of_the_paper(self) -> bool:
        """Whether the paper says it: what is beyond the paper is counted apart."""
        return self.verdict != "beyond"

    @property
    def section(self) -> str:
        """The heading it stands under: the first docstring line of its file."""
        return (sys.modules[self.check.__module__].__doc__ or "").strip().split("\n")[0].rstrip(".")

    @property
    def how(self) -> str:
        """How it is checked: the function's docstring."""
        return " ".join((self.check.__doc__ or "").split())


def statement(name: str, says: str, **about: Any) -> Callable[[Any], Any]:
    """Make a function without arguments, which returns claims, the check of a ``Statement``."""

    def make(check: Callable[[], list[Claim]]) -> Callable[[], list[Claim]]:
        check.statement = Statement(name, says, check, **about)  # type: ignore[attr-defined]
        return check

    return make


def number(value: float) -> str:
    """A number for people: four digits that count, and no more than needed.

    >>> [number(x) for x in (0.18417, 0.5, 0, 1024, 3.2e-16, 0.000977)]
    ['0.1842', '0.5', '0', '1024', '3e-16', '0.00098']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-3:
        return f"{value:.2g}" if abs(value) >= 1e-9 else f"{value:.0e}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.5g}"
