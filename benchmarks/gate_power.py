"""How many items the gate needs, beside a fixed-sample test; how often a t-test asked every day promotes by luck.

python -m benchmarks.gate_power
"""

import math

import numpy as np
from scipy import stats

from lowregret.audits.gating import log_evidence

ALPHA, RUNS = 0.05, 200
LOOKS = {"once, at the end": 60, "every week": 7, "every day": 1}  # days from one to the next


def gains(rng: np.random.Generator, current: float, edge: float, items: int) -> np.ndarray:
    """By how much the new candidate did better on each item, both passing or failing independently."""
    return (rng.random(items) < current + edge).astype(float) - (rng.random(items) < current)


def items_needed(current: float, edge: float) -> tuple[float, float]:
    """Items after which half of the runs are promoted, and nine in ten."""
    rng, variance = np.random.default_rng(0), variance_of(current, edge)
    most = int(30 * variance / edge**2)
    lows, found = np.full(most, -1.0), []
    for _ in range(RUNS):
        enough = log_evidence(gains(rng, current, edge, most), lows, 1.0) >= math.log(1 / ALPHA)
        found.append(enough.argmax() + 1 if enough.any() else np.inf)
    half, nine = np.quantile(np.array(found), [0.5, 0.9], method="higher")
    return half, nine


def variance_of(current: float, edge: float) -> float:
    return current * (1 - current) + (current + edge) * (1 - current - edge)


def fixed(current: float, edge: float, power: float) -> float:
    """Items that a one-sided z-test, asked once, needs: no test of a fixed number of items needs fewer."""
    reach = stats.norm.ppf(1 - ALPHA) + stats.norm.ppf(power)
    return reach**2 * variance_of(current, edge) / edge**2


def promoted_by_luck(days: int, each: int, runs: int = 1000) -> dict[str, tuple[float, float]]:
    """How often two equal candidates are told apart within so many days, by the gate and by a t-test."""
    rng, last = np.random.default_rng(0), np.arange(1, days + 1) * each
    lows, found = np.full(last[-1], -1.0), {when: np.zeros(2) for when in LOOKS}
    for _ in range(runs):
        apart = gains(rng, 0.7, 0.0, last[-1])
        mean = np.cumsum(apart)[last - 1] / last
        deviation = np.sqrt((np.cumsum(apart**2)[last - 1] / last - mean**2) / (last - 1))
        tested = mean / deviation > stats.t.ppf(1 - ALPHA, last - 1)
        gated = log_evidence(apart, lows, 1.0)[last - 1] >= math.log(1 / ALPHA)
        for when, apart_by in LOOKS.items():
            found[when] += [decided[::-1][::apart_by].any() for decided in (gated, tested)]
    return {when: tuple(counts / runs) for when, counts in found.items()}


def main() -> None:
    print("| pass rates | gate, half | gate, nine in ten | fixed, half | fixed, nine in ten |")
    print("|---|---|---|---|---|")
    for current in (0.5, 0.8):
        for edge in (0.02, 0.05, 0.1):
            counts = *items_needed(current, edge), *(fixed(current, edge, power) for power in (0.5, 0.9))
            cells = " | ".join(f"{float(f'{count:.2g}'):,.0f}" for count in counts)
            print(f"| {current:.2f} and {current + edge:.2f} | {cells} |")
    print("\n| asked | gate | t-test |\n|---|---|---|")
    for when, (gated, tested) in promoted_by_luck(days=60, each=50).items():
        print(f"| {when} | {gated:.1%} | {tested:.1%} |")


if __name__ == "__main__":
    main()
