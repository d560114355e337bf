"""What to fall back on (beside Lemma 2.3's urn): every fallback and baseline on the eight sources and at its worst."""

import math
from typing import NamedTuple

from lowregret.abilities import ability
from lowregret.evaluate import adversaries, compare
from lowregret.evaluate.adversaries import Worst
from lowregret.evaluate.sources import paper_sources
from lowregret.policies import AdaHedge, FixedShare, Hedge, Policy
from lowregret.predictors import PolyaUrn, Predictor, ShrunkUrn
from lowregret.problems import matching
from lowregret.tables import Table


class PlayerRegrets(NamedTuple):
    """One player: its regrets in utility, a step."""

    player: str
    on_source: dict[str, float]  # mean over sequences, at the horizon
    error: float  # the largest standard error among them
    worst: Worst  # the worst sequence found
    regret_bound: float


def players(horizon: int) -> dict[str, Predictor | Policy]:
    """The fallbacks, which are predictors, and the baselines, which are policies; all for guessing the next bit."""
    coin = matching()
    return {
        "urn": PolyaUrn(2),
        "shrunk urn, c = 1": ShrunkUrn(coin, horizon, c=1.0),
        "shrunk urn": ShrunkUrn(coin, horizon),
        "Hedge, 1/sqrt(T)": Hedge(coin, horizon),
        "Hedge, sqrt(8 ln 2/T)": Hedge(coin, horizon, rate=math.sqrt(8 * math.log(2) / horizon)),
        "AdaHedge": AdaHedge(coin),
        "fixed share": FixedShare(coin, horizon),
    }


def fallback_rows(horizon: int = 1024, n: int = 1000, seed: int = 0, width: int = 256) -> list[PlayerRegrets]:
    """Each player on ``n`` sequences a source, and its worst case: exact by counts, else by a beam of ``width``."""
    coin, everyone = matching(), players(horizon)
    cells = compare(everyone, paper_sources(horizon), coin, horizon, n, seed).cells
    rows = []
    for name, player in everyone.items():
        own = [cell for cell in cells if cell.predictor == name]
        rows.append(
            PlayerRegrets(
                name,
                {cell.source: cell.regret.value for cell in own},
                max(cell.error for cell in own),
                at_worst(player, horizon, width),
                player.regret_bound(coin, horizon, 1 / math.sqrt(horizon)),  # type: ignore[union-attr]
            )
        )
    return rows


def at_worst(player: Predictor | Policy, horizon: int, width: int) -> Worst:
    """The worst case over all sequences where counts decide what is played, else the worst that a beam finds."""
    if ability(player, "law_of_counts") or ability(player, "policy_of_counts"):
        return adversaries.exact_worst_case(player, matching(), horizon)
    return adversaries.beam(player, matching(), horizon, width=width)


def fallback_table(rows: list[PlayerRegrets], horizon: int) -> Table:
    """The rows as text: regrets, the worst case and its bound times sqrt(T), and how the worst case was found.

    >>> for line in fallback_table(fallback_rows(horizon=64, n=20, width=16), horizon=64).rows[:3]:
    ...     print(line[0], *line[-3:], sep=" | ")
    urn | 0.934 | 1.174 | counts
    shrunk urn, c = 1 | 0.768 | 0.818 | counts
    shrunk urn | 0.550 | 0.590 | counts
    """
    root, sources = math.sqrt(horizon), tuple(rows[0].on_source)
    error = max(row.error for row in rows)
    text = [
        (
            row.player,
            *(f"{row.on_source[source]:+.4f}" for source in sources),
            f"{row.worst.regret * root:.3f}",
            f"{row.regret_bound * root:.3f}",
            row.worst.found_by,
        )
        for row in rows
    ]
    header = ("player", *sources, "worst*sqrt(T)", "bound*sqrt(T)", "found by")
    title = (
        f"Guessing the next bit, {horizon} steps: mean regret by source (standard errors up to {error:.4f}), and worst"
    )
    return Table(title, header, tuple(text))


if __name__ == "__main__":
    print(fallback_table(fallback_rows(), horizon=1024))
