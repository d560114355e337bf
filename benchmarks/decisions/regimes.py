"""How a stream breaks, or does not: every stream is played under each of these."""

from typing import NamedTuple

import numpy as np

from .cells import Stream

LATE = 5  # the lag of the late ones, where the stream's own is shorter
OWN = 8  # draws of states from the model's own laws


class Regime(NamedTuple):
    """A stream as it is under one."""

    laws_TxS: np.ndarray
    states_T: np.ndarray
    breaks: tuple[int, ...] = ()  # where a stretch ends and another begins
    kind: str = "broken"  # "unbroken", "right" (unbroken, and states are drawn from the laws), "broken", "answered"
    late: bool = False
    adversary: int = 0  # which one, as of ``play``; the states are then its own


def regimes(stream: Stream, seed: int) -> dict[str, Regime]:
    """A stream under each of them, drawn by a seed of its own.

    Broken states are mirrored (s -> S-1-s): from 10%, 50% or 80% of the steps on, between 40 and 50%, in the first
    20%, or with a chance that grows from 0 at 20% to 1 at the end. Stale laws are three steps old, or stuck, from half
    time on. Half the edge is lost where half of the states are those of other days, from 10% or 50% on.
    """
    laws, came, rng = stream.laws_TxS, stream.states_T, np.random.default_rng(seed)
    T, S = laws.shape
    at = np.arange(T)
    half = T // 2

    def mirrored(where: np.ndarray) -> np.ndarray:
        return np.where(where, S - 1 - came, came)

    def powered(power: float) -> np.ndarray:
        sharp = np.maximum(laws, 1e-12) ** power
        return sharp / sharp.sum(axis=1, keepdims=True)

    def shuffled(begin: float) -> np.ndarray:
        return np.where((at >= begin * T) & (rng.random(T) < 0.5), came[rng.permutation(T)], came)

    def drawn() -> np.ndarray:
        return (laws.cumsum(axis=1) < rng.random((T, 1))).sum(axis=1).clip(0, S - 1)

    as_it_is = "right" if stream.right else "unbroken"
    found = {"unbroken": Regime(laws, came, kind=as_it_is)}
    for share in (0.1, 0.5, 0.8):
        found[f"broken from {share:.0%}"] = Regime(laws, mirrored(at >= share * T), (int(share * T),))
    found["broken from 40 to 50%"] = Regime(laws, mirrored((at >= 0.4 * T) & (at < 0.5 * T)), (int(0.4 * T), half))
    found["broken up to 20%"] = Regime(laws, mirrored(at < 0.2 * T), (int(0.2 * T),))
    three_old = laws[np.where(at >= half, np.maximum(at - 3, 0), at)]
    found["three steps old from 50%"] = Regime(three_old, came, (half,))
    found["stuck from 50%"] = Regime(laws[np.minimum(at, half)], came, (half,))
    drift = rng.random(T) < np.clip((at / T - 0.2) / 0.8, 0, 1)
    found["slow drift"] = Regime(laws, mirrored(drift), tuple(int(T * tenth / 10) for tenth in range(1, 10)))
    found["sharpened"] = Regime(powered(2.0), came, kind="unbroken")
    found["flattened"] = Regime(powered(0.5), came, kind="unbroken")
    for share in (0.1, 0.5):
        found[f"half the edge from {share:.0%}"] = Regime(laws, shuffled(share), (int(share * T),))
    for i in range(OWN):
        found[f"the model's own, {i + 1}"] = Regime(laws, drawn(), kind="right")
    found["answered by a greedy adversary"] = Regime(laws, came, kind="answered", adversary=1)
    found["answered by a hostile adversary"] = Regime(laws, came, kind="answered", adversary=2)
    found["late, unbroken"] = Regime(laws, came, kind=as_it_is, late=True)
    found["late, the model's own"] = Regime(laws, drawn(), kind="right", late=True)
    found["late, broken from 50%"] = Regime(laws, mirrored(at >= half), (half,), late=True)
    return found
