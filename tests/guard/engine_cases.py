"""Random problems over all settings of the guard, and what came of each: the numbers that the engine must keep.

``python tests/guard/engine_cases.py`` writes them anew to ``tests/guard/fixtures/engine.json``: only where
one of them was wrong.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import lowregret as lr
from lowregret.problems import Positions

FILE = Path(__file__).parent / "fixtures" / "engine.json"
CASES = 200
SUPPORT = 7  # of a density


def a_case(number: int) -> dict[str, Any]:
    """The settings of a case: how its guard is made and what it is told."""
    rng = np.random.default_rng((23, number))
    kind = ("plain", "told", "late", "numbers", "plain", "told", "late told", "episodes")[number % 8]
    T = int(rng.integers(120, 260))
    unknown = rng.random() < 0.3 and kind not in ("episodes", "told", "late told")
    settings: dict[str, Any] = {
        "kind": kind,
        "steps": T,
        "horizon": None if unknown else T,
        "delta": float(rng.choice([0.02, 0.1, 0.4])),
        "temperature": None if unknown else (None, 0.05, 0.2, "certificate")[rng.integers(4)],
        "shape": () if rng.random() < 0.6 else (int(rng.integers(2, 4)),),
        "lag": int(rng.integers(2, 6)) if "late" in kind else 1,
        "episode": int(rng.integers(40, 80)) if kind == "episodes" else None,
        "recovery": {} if rng.random() < 0.6 else {"memories": (5.0, 50.0), "share": 0.01, "budget": 0.2},
        "fallback": "urn" if kind in ("plain", "late") and rng.random() < 0.3 else "recovery",
        "references": int(rng.integers(0, 3)) if "told" in kind else 0,
        "contexts": None,
        "payoffs": "fixed",
    }
    if "told" in kind:
        settings["contexts"] = int(rng.integers(2, 4)) if rng.random() < 0.4 else None
        settings["payoffs"] = str(rng.choice(["scaled", "change"]))
    if kind == "numbers":
        settings["form"] = ("quantiles", "samples", "density")[number // 8 % 3]
        settings["temperature"] = None if settings["temperature"] == "certificate" else settings["temperature"]
    return settings


def a_problem(number: int) -> lr.DecisionProblem:
    rng = np.random.default_rng((24, number))
    if number % 5 == 0:
        return (lr.matching(2), lr.rock_paper_scissors(), lr.newsvendor([0, 1, 2, 3], 5, 3), lr.cost_loss(1, 4))[
            number // 5 % 4
        ]
    shape = rng.integers(2, 5), rng.integers(2, 5)
    payoffs = np.round(rng.uniform(-50, 90, shape)) if rng.random() < 0.6 else rng.choice([-1.0, 0.0, 1.0], shape)
    return lr.DecisionProblem.from_payoffs(payoffs, low=-60, high=100)


def shop(orders: int = 4) -> lr.Payoff:
    levels = tuple(10.0 * i for i in range(orders))
    return lr.Payoff(_earned, levels, -30 * (orders - 1), 20 * (orders - 1), knots=levels, outcomes=(0, math.inf))


def _earned(order: float, demand: np.ndarray) -> np.ndarray:
    return 5 * np.minimum(order, demand) - 3 * order


def a_run(number: int, case: dict[str, Any], problem: lr.DecisionProblem) -> dict[str, Any]:
    """Laws, states that leave them half-way, and all else that is told before each."""
    rng, T, shape, S = np.random.default_rng((25, number)), case["steps"], case["shape"], problem.n_states
    N, full = case["references"], (*case["shape"], case["steps"])
    centre = rng.dirichlet(np.full(S, 0.5), size=(*shape, 1))
    probs = 0.8 * centre + 0.2 * rng.dirichlet(np.full(S, 0.6), size=full)
    probs = (0.999 * probs + 0.001 / S) / (0.999 * probs + 0.001 / S).sum(-1, keepdims=True)
    right = (probs.cumsum(-1) < rng.random((*full, 1))).sum(-1).clip(0, S - 1)
    advised = problem.best_response(probs)
    worst = (problem.utility.max(axis=0) - problem.utility[advised]).argmax(-1)  # where the advice loses most
    turned = np.where(rng.random(full) < 0.9, worst, right)
    begins = rng.integers(T // 8, T // 2, size=(*shape, 1))
    ends = begins + rng.integers(T // 4, T, size=(*shape, 1))
    at = np.arange(T)
    run: dict[str, Any] = {"probs": probs, "states": np.where((at >= begins) & (at < ends), turned, right)}
    if N:
        run["references"] = rng.dirichlet(np.ones(S), size=(*full, N))
    if case["contexts"]:
        run["context"] = rng.integers(case["contexts"], size=full)
    if case["payoffs"] == "scaled" and rng.random() < 0.7:
        run["scale"] = rng.uniform(0.2, 1.0, size=full)
    if case["payoffs"] == "change":
        A = problem.n_actions
        low, high = problem.in_payoffs(-1.0), problem.in_payoffs(1.0)
        run["payoffs"] = np.round(rng.uniform(low, high, size=(*full, A, S)), 3).clip(low, high)
    run["actions"] = rng.integers(problem.n_actions, size=full)
    return run


def forecasts(number: int, case: dict[str, Any]) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """A forecast a step in the case's form, and outcomes that leave it half-way."""
    rng, T, shape = np.random.default_rng((26, number)), case["steps"], case["shape"]
    middle = rng.uniform(5, 25, size=(*shape, 1)) + rng.normal(0, 2, size=(*shape, T))
    came = np.where(np.arange(T) < T // 2, middle + rng.normal(0, 4, middle.shape), 30 - middle).clip(0.0, 40.0)
    each: list[Any] = []
    for t in range(T):
        centre = middle[..., t, None]
        if case["form"] == "quantiles":
            each.append(lr.Quantiles([0.1, 0.3, 0.5, 0.7, 0.9], (centre + np.array([-6, -2, 0, 2, 6])).clip(0, None)))
        elif case["form"] == "samples":
            each.append(lr.Samples((centre + rng.normal(0, 4, (*shape, 20))).clip(0, None)))
        else:
            grid = np.linspace(0, 40, SUPPORT)
            each.append(lr.Density(grid, np.exp(-(((grid - centre) / 6) ** 2)) + 1e-3))
    return each, came, rng.integers(4, size=came.shape)


def fallback_of(case: dict[str, Any], problem: lr.DecisionProblem) -> Any:
    return lr.PolyaUrn(problem.n_states) if case["fallback"] == "urn" else lr.Recovery(**case["recovery"])


def names_of(case: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"reference {n}" for n in range(case["references"]))


def guard_of(case: dict[str, Any], problem: Any) -> Any:
    """The guard of a case."""
    T, back = case["horizon"], {"temperature": case["temperature"]}
    if case["kind"] == "numbers":
        return lr.Guard(problem, T, rule=lr.ExactTest(problem, T, case["delta"], **back), batch_shape=case["shape"])
    back["fallback"] = fallback_of(case, problem)
    made = {"batch_shape": case["shape"], "lag": case["lag"]}
    if "told" in case["kind"]:
        told = {"references": names_of(case), "contexts": case["contexts"], "payoffs": case["payoffs"]}
        return lr.Guard(problem, T, rule=lr.ExactTest(problem, T, case["delta"], **told, **back), **made)
    if case["episode"]:
        one = lr.ExactTest(problem, case["episode"], case["delta"], **back)
        return lr.Guard(problem, T, rule=one, episode=case["episode"], **made)
    return lr.Guard(problem, T, rule=lr.ExactTest(problem, T, case["delta"], **back), **made)


def found(number: int) -> dict[str, Any]:
    """What came of a case: events, regret, money, evidence, what was played at some steps, what is promised."""
    case = a_case(number)
    problem: Any = shop() if case["kind"] == "numbers" else a_problem(number)
    guard, lag, T = guard_of(case, problem), case["lag"], case["steps"]
    placed: Any = Positions
    if case["kind"] == "numbers":
        each, came, actions = forecasts(number, case)
        placed = np.asarray
        told: list[dict[str, Any]] = [{} for _ in each]
    else:
        run = a_run(number, case, problem)
        each = [run["probs"][..., t, :] for t in range(T)]
        came, actions = run["states"], run["actions"]
        keys = [key for key in ("references", "context", "payoffs", "scale") if key in run]
        axis = len(case["shape"])
        told = [{key: run[key][(slice(None),) * axis + (t,)] for key in keys} for t in range(T)]
    played, shares, evidence = [], [], []
    for t in range(T + lag - 1):
        if t < T:
            guard.advise(each[t], **told[t])
            played.append(np.asarray(guard.policy()))
            shares.append(np.asarray(guard.share))
        if t >= lag - 1:
            guard.observe(placed(came[..., t - lag + 1]), actions[..., t - lag + 1])
            evidence.append(np.asarray(guard.evidence[0]))
        if t == T // 2:
            saved = json.loads(json.dumps(guard.state_dict(), allow_nan=False))
            guard = guard_of(case, problem)
            guard.load_state_dict(saved)
    certificate = guard.certificate
    return {
        "events": [_event(event) for event in guard.events],
        "regret": _numbers(guard.regret),
        "realised": _numbers(guard.realised_regret),
        "share": _numbers(np.mean(shares, axis=0)),
        "evidence": _numbers(np.stack(evidence)[:: max(1, T // 5)]),
        "played": _numbers(np.stack(played)[:: max(1, T // 7)]),
        "all played": _numbers(np.mean([mixed * np.cos(t) for t, mixed in enumerate(played)], axis=0)),
        "promised": [float(certificate.regret_bound), float(certificate.tv_bound)],
    }


def _event(event: Any) -> dict[str, Any]:
    kept = ("stream", "step", "episode", "action", "rate", "since", "reference", "context", "share", "known")
    told = {name: getattr(event, name) for name in kept if getattr(event, name, None) is not None}
    stream = told.pop("stream", ())
    return {"what": type(event).__name__, "stream": list(stream) if isinstance(stream, tuple) else stream, **told}


def _numbers(values: Any) -> list[float | None]:
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [value if math.isfinite(value) else None for value in flat]


if __name__ == "__main__":
    FILE.write_text("[\n" + ",\n".join(json.dumps(found(number)) for number in range(CASES)) + "\n]\n")
