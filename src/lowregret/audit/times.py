"""Times of steps: how far apart they are, which are missing, and what a stream's own rhythm is."""

import re
from typing import Any, NamedTuple

import numpy as np

from .. import inputs

_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_CLOCKS_CHANGE = 3600  # seconds by which days may be longer or shorter
_NS = 10**9
_REGULAR = 0.5  # a stream has a rhythm where at least this share of its steps keeps it
UNITS = "a whole number of s, min, h, d, w, b (business days) or mo (months), such as 1h, 1d or 3mo"


class Every(NamedTuple):
    """How far apart the times of a stream must be."""

    number: int
    unit: str

    def __str__(self) -> str:
        return f"{self.number}{self.unit}"

    def kept(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Between which pairs of times, in nanoseconds, it is so."""
        if self.unit == "mo":
            return _months(after) - _months(before) == self.number
        if self.unit == "b":
            return _business_days(before, after) == self.number
        slack = _CLOCKS_CHANGE * _NS if self.unit in ("d", "w") else 0
        return np.abs(after - before - self.number * _SECONDS[self.unit] * _NS) <= slack


def every_of(text: Any) -> Every:
    """How far apart, as a user writes it.

    >>> every_of("15min"), str(every_of("1b"))
    (Every(number=15, unit='min'), '1b')
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})(s|min|h|d|w|b|mo)", text, re.ASCII) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"every must be {UNITS}, got {inputs.shown(text)}")
    return Every(int(found.group(1)), found.group(2))


def spelt(time: int) -> str:
    """A time as people write it, without what is zero at its end."""
    text = str(np.datetime64(int(time), "ns"))
    return text.rstrip("0").rstrip(".").removesuffix("T00:00:00") if "." in text else text


def irregular(stream_R: np.ndarray, time_R: np.ndarray) -> tuple[int, int]:
    """How many steps of sorted rows break the rhythm of their stream, and in how many streams.

    The rhythm is the most common distance; in business days where no time is on a weekend, or in months, if more steps
    keep that. A stream of which less than half of the steps keep any has none, and is not counted.
    """
    same = np.flatnonzero(stream_R[1:] == stream_R[:-1])
    if not len(same):
        return 0, 0
    before, after, owner = time_R[same], time_R[same + 1], stream_R[same]
    streams, owner = np.unique(owner, return_inverse=True)
    steps = np.bincount(owner)
    kept = _most_common(owner, after - before, len(streams))
    kept = np.maximum(kept, _most_common(owner, _months(after) - _months(before), len(streams), least=1))
    if not _on_weekends(time_R).all():
        weekdays = np.bincount(owner, _on_weekends(before) | _on_weekends(after), len(streams)) == 0
        business = _most_common(owner, _business_days(before, after), len(streams), least=1)
        kept = np.maximum(kept, np.where(weekdays, business, 0))
    broken = np.where(kept >= _REGULAR * steps, steps - kept, 0)
    return int(broken.sum()), int((broken > 0).sum())


def gaps_told(gaps: int, streams: int) -> tuple[str, ...]:
    """The same in words, if there is anything to tell."""
    if not gaps:
        return ()
    return (
        f"{gaps:,} times in {streams:,} streams are not as far from the one before as is usual in their stream: steps "
        "may be missing (--every 1d, or columns={'every': '1d'}, refuses that)",
    )


def _most_common(owner: np.ndarray, apart: np.ndarray, streams: int, least: int | None = None) -> np.ndarray:
    """How many steps of each stream have its most common distance, one of at least so much."""
    if least is not None:
        owner, apart = owner[apart >= least], apart[apart >= least]
    most = np.zeros(streams, dtype=np.int64)
    if len(owner):
        order = np.lexsort((apart, owner))
        owner, apart = owner[order], apart[order]
        first = np.flatnonzero(np.append(True, (np.diff(owner) != 0) | (np.diff(apart) != 0)))
        np.maximum.at(most, owner[first], np.diff(np.append(first, len(owner))))
    return most


def _days(time: np.ndarray) -> np.ndarray:
    return time.astype("datetime64[ns]").astype("datetime64[D]")


def _months(time: np.ndarray) -> np.ndarray:
    return time.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)


def _business_days(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.busday_count(_days(before), _days(after))


def _on_weekends(time: np.ndarray) -> np.ndarray:
    return ~np.is_busday(_days(time))
