"""What became of a statement of the paper when it was checked."""

from dataclasses import dataclass
from typing import Any

from lowregret import inputs

from . import statements
from .statements import Claim, Statement

VERDICTS = {**statements.VERDICTS, "failed": "failed", "skipped": "skipped"}


@dataclass(frozen=True)
class Verdict:
    """A statement with what its check found."""

    statement: Statement
    verdict: str  # one of VERDICTS
    claims: tuple[Claim, ...] = ()
    refuted: tuple[Claim, ...] = ()
    svg: str = ""
    caption: str = ""
    note: str = ""  # why it failed, or was skipped
    seconds: float = 0.0  # on the terminal only: files are the same in every run

    @property
    def in_words(self) -> str:
        """The verdict. What is beyond the paper and did not fail holds, and is counted apart."""
        return "holds" if self.verdict == "beyond" else VERDICTS[self.verdict]

    @property
    def against(self) -> list[tuple[str, Claim]]:
        """Each sentence that is refuted, with what was computed against it."""
        return list(zip(self.statement.quotes, self.refuted, strict=False))

    @property
    def headline(self) -> Claim | None:
        """The claim that decides: one that does not hold if there is any, else the first."""
        return min(self.claims, key=lambda claim: claim.holds, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the picture and the time it took, as plain JSON values."""
        said = self.statement
        return {
            "name": said.name,
            "section": said.section,
            "of_the_paper": said.of_the_paper,
            "verdict": self.verdict,
            "says": said.says,
            "quotes": list(said.quotes),
            "corrected": said.corrected or None,
            "sharper": said.sharper or None,
            "how": said.how,
            "claims": [_as_json(claim) for claim in self.claims],
            "refuted": [{"quote": quote, **_as_json(claim)} for quote, claim in self.against],
            "note": self.note or None,
        }


def groups(outcomes: list[Verdict]) -> dict[str, list[Verdict]]:
    """What the paper says, and what is beyond it: they are counted apart."""
    return {
        "of the paper": [outcome for outcome in outcomes if outcome.statement.of_the_paper],
        "beyond the paper": [outcome for outcome in outcomes if not outcome.statement.of_the_paper],
    }


def counted(outcomes: list[Verdict]) -> dict[str, int]:
    """How many have each verdict, in words; those that nothing has are left out."""
    said = [outcome.in_words for outcome in outcomes]
    return {words: said.count(words) for words in VERDICTS.values() if words in said}


def _as_json(claim: Claim) -> dict[str, Any]:
    numbers = {"measured": claim.measured, "bound": claim.bound, "within": claim.within, "tightness": claim.tightness}
    finite = {name: None if value is None else inputs.finite_or_none(value) for name, value in numbers.items()}
    return {"what": claim.what, "relation": claim.relation, **finite, "holds": claim.holds}
