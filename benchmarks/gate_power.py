"""How often the gate and a t-test promote by luck, looked at after every item; how many items the gate needs.

python -m benchmarks.gate_power
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from lowregret.audits.gating import RATES, log_evidence

ALPHA, DAYS, EACH, FEWEST = 0.05, 60, 50, 10  # items each day; items, before which nobody looks
Draw = Callable[[np.random.Generator, int], np.ndarray]


def gains(rng: np.random.Generator, items: int, current: float = 0.7, edge: float = 0.0) -> np.ndarray:
    """By how much the new candidate did better on each item, both passing or failing independently."""
    return (rng.random(items) < current + edge).astype(float) - (rng.random(items) < current)


def drifting(rng: np.random.Generator, items: int) -> np.ndarray:
    """Both pass at one rate, which wanders between 5% and 95%."""
    rate = 0.5 + 0.45 * np.sin(np.arange(items) / 500 + rng.uniform(0, 2 * math.pi))
    return (rng.random(items) < rate).astype(float) - (rng.random(items) < rate)


def dependent(rng: np.random.Generator, items: int) -> np.ndarray:
    """Scores are a tenth as far apart while the new one is ahead: a fair game whose stakes depend on the past."""
    found, ahead = rng.choice([-1.0, 1.0], items), 0.0
    for t in range(items):
        found[t] *= 0.1 if ahead > 0 else 1.0
        ahead += found[t]
    return found


WORLDS: dict[str, Draw] = {"i.i.d.": gains, "drifting": drifting, "dependent": dependent}


def t_tests(sums: np.ndarray, squares: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Whether a one-sided t-test says so, by the sums of the first n items and of their squares."""
    deviation = np.sqrt(np.maximum(squares / n - (sums / n) ** 2, 1e-12) / np.maximum(n - 1, 1))
    enough: np.ndarray = sums / n / deviation > stats.t.ppf(1 - ALPHA, np.maximum(n - 1, 1))
    return enough


def promoted(draw: Draw, runs: int, items: int = DAYS * EACH) -> np.ndarray:
    """The shares of runs promoted: by the gate and the t-test after each item, by the t-test every day, and once."""
    rng, n, lows, found = np.random.default_rng(0), np.arange(1, items + 1), np.full(items, -1.0), np.zeros(4)
    for _ in range(runs):
        apart = draw(rng, items)
        tested = t_tests(np.cumsum(apart), np.cumsum(apart**2), n)
        gated = log_evidence(apart, lows, 1.0) >= math.log(1 / ALPHA)
        found += gated.any(), tested[FEWEST - 1 :].any(), tested[EACH - 1 :: EACH].any(), tested[-1]
    return found / runs


def promoted_exactly(items: int = DAYS * EACH) -> list[float]:
    """The same of fair coins, over all 2 ** items sequences: what is said after n depends on the wins among them."""
    stake, found = np.minimum(RATES, 0.5), []

    def gated(n: int, wins_W: np.ndarray) -> np.ndarray:
        growth_WxK = np.outer(wins_W, np.log1p(stake)) + np.outer(n - wins_W, np.log1p(-stake))
        return np.asarray(np.logaddexp.reduce(growth_WxK, axis=1) >= math.log(len(RATES) / ALPHA))

    def tested(n: int, wins_W: np.ndarray) -> np.ndarray:
        return t_tests(2 * wins_W - n, np.full(n + 1, float(n)), np.array(n))

    looks = range(1, items + 1), range(FEWEST, items + 1), range(EACH, items + 1, EACH), (items,)
    for rule, at in zip((gated, tested, tested, tested), looks, strict=True):
        chance_W = np.ones(1)  # of each number of wins, without a promotion so far
        for n in range(1, items + 1):
            chance_W = (np.append(chance_W, 0.0) + np.append(0.0, chance_W)) / 2
            if n in at:
                chance_W[rule(n, np.arange(n + 1.0))] = 0.0
        found.append(1 - float(chance_W.sum()))
    return found


def variance_of(current: float, edge: float) -> float:
    return current * (1 - current) + (current + edge) * (1 - current - edge)


def items_needed(current: float, edge: float, runs: int = 400) -> tuple[float, float]:
    """Items after which the gate has promoted half of the runs, and nine in ten."""
    rng, most = np.random.default_rng(0), int(30 * variance_of(current, edge) / edge**2)
    lows, found = np.full(most, -1.0), []
    for _ in range(runs):
        enough = log_evidence(gains(rng, most, current, edge), lows, 1.0) >= math.log(1 / ALPHA)
        found.append(enough.argmax() + 1 if enough.any() else np.inf)
    half, nine = np.quantile(np.array(found), [0.5, 0.9], method="higher")
    return half, nine


def fixed(current: float, edge: float, power: float) -> float:
    """Items that a one-sided z-test, asked once, needs: no test of a fixed number of items needs fewer."""
    reach = stats.norm.ppf(1 - ALPHA) + stats.norm.ppf(power)
    return float(reach**2 * variance_of(current, edge) / edge**2)


def main() -> None:
    print("| two that are equally good | gate, each item | t-test, each item | t-test, each day | t-test, once |")
    print("|---|---|---|---|---|")
    rows = {"fair coins, over all sequences": promoted_exactly()}
    rows |= {f"{name}, 1,000 runs": promoted(draw, 1000).tolist() for name, draw in WORLDS.items()}
    for name, shares in rows.items():
        print(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    print("\n| pass rates | gate, half | gate, nine in ten | fixed, half | fixed, nine in ten |\n|---|---|---|---|---|")
    for current in (0.5, 0.8):
        for edge in (0.02, 0.05, 0.1):
            counts = *items_needed(current, edge), *(fixed(current, edge, power) for power in (0.5, 0.9))
            cells = " | ".join(f"{float(f'{count:.2g}'):,.0f}" for count in counts)
            print(f"| {current:.2f} and {current + edge:.2f} | {cells} |")


if __name__ == "__main__":
    main()
