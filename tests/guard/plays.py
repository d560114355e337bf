"""Guards of several kinds, and a world for them: what is said of each step, and what comes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import lowregret as lr

COIN, GAME = lr.matching(), lr.matching(3)
WRONG = [0.9, 0.1]  # a model that is sure of state 0
PRICES = lr.DecisionProblem.from_payoffs([[3.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 2.0]], low=0.0, high=4.0)
TRADE = lr.Payoff(lambda held, move: held * np.clip(move, -1, 1), [-1.0, 0.0, 1.0], -1, 1, knots=[-1, 1])
DESK = lr.Actions() + lr.References("desk")
KINDS: dict[str, Callable[..., lr.Guard]] = {
    "default": partial(lr.Guard, GAME),
    "quantal": partial(lr.Guard, GAME, response=lr.QuantalResponse(), test=lr.ExactTest(0.2, 60)),
    "urn": partial(lr.Guard, GAME, response=lr.QuantalResponse(0.2), fallback=lr.PolyaUrn(3, prior=0.5)),
    "policy": partial(lr.Guard, GAME, fallback=lr.policies.AdaHedge(GAME)),
    "no test": partial(lr.Guard, GAME, against=DESK, test=lr.NoTest(), lag=2),
    "reference": partial(lr.Guard, GAME, against=lr.References("desk"), fallback=lr.UseReference("desk")),
    "late": partial(lr.Guard, GAME, test=lr.ExactTest(0.3), lag=3),
    "changing, scaled, late": partial(
        lr.Guard,
        PRICES.changing(0, 4),
        against=lr.Actions(per=["day", "night"]) + lr.References("desk"),
        test=lr.ExactTest(0.2, 60),
        lag=2,
    ),
    "quantiles": partial(lr.Guard, TRADE, test=lr.ExactTest(0.3)),
    "samples, late": partial(lr.Guard, TRADE, against=DESK, test=lr.ExactTest(0.9, 60), lag=2),
}


def step_of(guard: lr.Guard, rng: np.random.Generator, t: int, n: int) -> tuple[dict[str, Any], np.ndarray]:
    """What is said of step t in n streams, and what comes: the model is right for 6 steps, wrong for 18, and so on."""
    is_wrong, told = t % 24 > 6, dict[str, Any]()
    expected, odd = rng.choice(3, n, p=[0.8, 0.1, 0.1]), rng.random(n) < 0.1
    came = np.where(odd, rng.integers(3, size=n), (expected + is_wrong) % 3)
    if isinstance(guard.problem, lr.Payoff):
        outcome = came - 1 + rng.uniform(-0.2, 0.2, n)
        centre = (expected - 1.0)[:, None]
        said = lr.Quantiles([0.1, 0.9], centre + np.array([-0.2, 0.2]))
        if guard.lag > 1:
            said = lr.Samples(centre + rng.uniform(-0.2, 0.2, (n, 5)))
        desk: Any = lr.Quantiles([0.5], outcome[:, None])
    else:
        said, outcome = 0.9 * np.eye(3)[expected] + 0.1 * rng.dirichlet(np.ones(3), n), came
        said, desk = said * (1 + rng.uniform(-4e-7, 4e-7, (n, 1))), 0.1 + 0.7 * np.eye(3)[came]  # as sums are
    if guard.against.references:
        told["references"] = {"desk": desk}
    if guard.against.contexts:
        told["context"] = rng.integers(2, size=n)
    if guard.problem.is_changing:
        told |= {"payoffs": rng.uniform(0, 1, (n, 3, 3)) + 3 * np.eye(3), "scale": rng.uniform(0.7, 1, n)}
    return {"forecast": said, **told}, outcome


def of_stream(said: Any, i: int) -> Any:
    """What is said of one stream."""
    if isinstance(said, dict):
        return {name: of_stream(part, i) for name, part in said.items()}
    return said.at((i,)) if isinstance(said, lr.forecasts.Forecast) else said[i]


def arrivals(steps: int, lag: int, rng: np.random.Generator) -> Iterator[tuple[str, int]]:
    """A random order of ("advise", step) and ("observe", step) within the lag."""
    waiting: list[int] = []
    for step in range(1, steps + 1):
        while waiting and (waiting[0] <= step - lag or rng.random() < 0.4):
            due = waiting[0] if waiting[0] <= step - lag else int(rng.choice(waiting))
            waiting.remove(due)
            yield "observe", due
        yield "advise", step
        waiting.append(step)


def wrong_for(guard: lr.Guard, steps: int, state: int = 1) -> None:
    """So many steps of ``matching()`` in which the model is sure of state 0, in all streams alike."""
    for _ in range(steps):
        guard.advise(np.tile(WRONG, (*guard.shape, 1)))
        guard.observe(state if guard.shape == () else np.full(guard.shape, state))
