"""What became of a statement of the paper when it was checked."""

import math
from dataclasses import dataclass
from typing import Any

from .statements import Claim, Statement

VERDICTS = {
    "holds": "true as printed",
    "corrected": "false as printed and true as corrected",
    "failed": "failed",
    "skipped": "skipped",
}


@dataclass(frozen=True)
class Outcome:
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
    def headline(self) -> Claim | None:
        """The claim that decides: one that does not hold if there is any, else the first."""
        return min(self.claims, key=lambda claim: claim.holds, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the picture and the time it took, as plain JSON values."""
        said = self.statement
        return {
            "name": said.name,
            "section": said.section,
            "verdict": self.verdict,
            "says": said.says,
            "corrected": said.corrected or None,
            "sharper": said.sharper or None,
            "how": said.how,
            "claims": [_as_json(claim) for claim in self.claims],
            "refuted": [_as_json(claim) for claim in self.refuted],
            "note": self.note or None,
        }


def _as_json(claim: Claim) -> dict[str, Any]:
    numbers = {"measured": claim.measured, "bound": claim.bound, "within": claim.within, "tightness": claim.tightness}
    finite = {name: value if value is None or math.isfinite(value) else None for name, value in numbers.items()}
    return {"what": claim.what, "relation": claim.relation, **finite, "holds": claim.holds}
