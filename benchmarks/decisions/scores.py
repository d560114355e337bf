"""What an entrant's results come to.

Of a stretch between two breaks the *best* is the larger of what the model's best response and always falling back
earned, the *stake* how far these two are apart. Over the cells of a stream

* **money** is 1 - (best - earned) / stake: 0 for the worse of the two in every stretch, 1 for the better;
* **kept**, where nothing breaks: 1 - (model - earned) / stake;
* **saved**, where something does: (earned - model) / (best - model).

Draws of one regime count together as much as any other regime. Money is averaged over streams. For the other two, what
stands above and below the line is added up over streams, each divided by its whole stake, so that all count alike.
Cells that an adversary answers have a score of their own: regret to the best fixed action in spans times sqrt(T).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

MODEL, FALLBACK = ("the model", 0), ("always fall back", 0)

Results = Mapping[str, Mapping[tuple[str, int], Mapping[str, Any]]]  # by stream, then by entrant and setting


class Rate(NamedTuple):
    """How often, with a 95% interval (Wilson)."""

    count: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, which: Sequence[bool]) -> "Rate":
        found = stats.binomtest(sum(which), len(which)).proportion_ci(method="wilson")
        return cls(sum(which), len(which), float(found.low), float(found.high))

    @property
    def share(self) -> float:
        return self.count / self.of


class Score(NamedTuple):
    """Of one entrant, over streams."""

    streams: int
    money: float
    kept: float
    saved: float
    worst: float  # the lowest money of a stream
    worst_stream: str
    behind: float  # the furthest that it fell behind the model in a cell where nothing breaks, in spans times sqrt(T)
    false_alarms: Rate | None  # in cells where the model is right
    by_regime: dict[str, Rate]  # the same by regime; draws of one kind together
    heard: Rate | None  # of breaks for good that cost money, those with an alarm after them and none before
    delay: float | None  # the median number of steps that these took
    adversary: float  # mean regret where an adversary answers, in spans times sqrt(T)
    late: float | None  # money, of late cells alone
    microseconds: float  # a step of a cell


class _Cell(NamedTuple):
    earned: float
    model: float
    best: float
    stake: float


def _cell(name: str, *by: Mapping[str, Any], draws: int) -> _Cell:
    """Of an entrant, the model and the fallback; of so many draws each counts for its share."""
    mine, model, fallback = (np.array(each[name]["earned"]) / draws for each in by)
    best, stake = np.maximum(model, fallback).sum(), np.abs(model - fallback).sum()
    return _Cell(mine.sum(), model.sum(), best, stake)


def _kind(regime: str) -> str:
    """Without the number of a draw."""
    return regime.rstrip("0123456789").rstrip(", ")


def score(results: Results, entrant: tuple[str, int]) -> Score:
    """Over all streams on which it played."""
    money, late, above, below, behind, regrets, took = {}, {}, {}, {}, [0.0], [], []
    false_alarms: dict[str, list[bool]] = {}
    heard: list[bool] = []
    delays: list[int] = []
    for stream, each in results.items():
        if entrant not in each or not each[entrant]["cells"]:
            continue
        mine, J, T = each[entrant]["cells"], each[entrant]["span"], each[entrant]["steps"]
        model, fallback = each[MODEL]["cells"], each[FALLBACK]["cells"]
        draws = Counter(map(_kind, mine))
        scored = {
            name: _cell(name, mine, model, fallback, draws=draws[_kind(name)])
            for name, cell in mine.items()
            if cell["kind"] != "answered"
        }
        whole = sum(one.stake for one in scored.values())
        money[stream] = 1 - sum(one.best - one.earned for one in scored.values()) / whole
        after = [one for name, one in scored.items() if mine[name]["late"]]
        if after:
            late[stream] = 1 - sum(one.best - one.earned for one in after) / sum(one.stake for one in after)
        unbroken = [one for name, one in scored.items() if mine[name]["kind"] != "broken"]
        broken = [one for name, one in scored.items() if mine[name]["kind"] == "broken"]
        above[stream] = (
            sum(one.model - one.earned for one in unbroken) / whole,
            sum(one.earned - one.model for one in broken) / whole,
        )
        below[stream] = sum(one.stake for one in unbroken) / whole, sum(one.best - one.model for one in broken) / whole
        behind += [
            draws[_kind(name)] * (one.model - one.earned) / (J * T**0.5)
            for name, one in scored.items()
            if mine[name]["kind"] != "broken"
        ]
        took.append(each[entrant]["microseconds"])
        for name, cell in mine.items():
            if cell["kind"] == "answered":
                regrets.append((cell["best_fixed"] - sum(cell["earned"])) / (J * T**0.5))
            if cell["kind"] == "right" and cell["alarm"] is not None:
                false_alarms.setdefault(_kind(name), []).append(cell["alarm"] >= 0)
            for_good = cell["kind"] == "broken" and len(cell["breaks"]) == 1 and not name.startswith("broken up to")
            costs = for_good and model[name]["earned"][1] < fallback[name]["earned"][1]
            if costs and cell["alarm"] is not None and not 0 <= cell["alarm"] <= cell["breaks"][0]:
                heard.append(cell["alarm"] >= 0)
                delays += [cell["alarm"] - cell["breaks"][0]] if heard[-1] else []
    lost, gained = (sum(one[i] for one in above.values()) for i in (0, 1))
    at_stake, to_gain = (sum(one[i] for one in below.values()) for i in (0, 1))
    worst = min(money, key=lambda name: money[name])
    return Score(
        streams=len(money),
        money=float(np.mean(list(money.values()))),
        kept=float(1 - lost / at_stake),
        saved=float(gained / to_gain),
        worst=float(money[worst]),
        worst_stream=worst,
        behind=float(max(behind)),
        false_alarms=Rate.counted([one for each in false_alarms.values() for one in each]) if false_alarms else None,
        by_regime={name: Rate.counted(each) for name, each in false_alarms.items()},
        heard=Rate.counted(heard) if heard else None,
        delay=float(np.median(delays)) if delays else None,
        adversary=float(np.mean(regrets)) if regrets else float("nan"),
        late=float(np.mean(list(late.values()))) if late else None,
        microseconds=float(np.median(took)),
    )


def chosen(results: Results, entrant: str, settings: int) -> int:
    """The setting with which it earned most, the first of equals."""
    found = [score(results, (entrant, i)).money for i in range(settings)]
    return int(np.argmax(np.round(found, 12)))
