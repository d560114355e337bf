"""From the neutral settings of a golden case to the library's objects, and from its results to neutral names."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.decisions.streams import sources

import lowregret as lr
from benchmarks import recordings
from lowregret.predictors import Scheduled, ShrunkUrn
from lowregret.problems import payoffs_in
from paper import eight_sources as paper_table
from paper import verify

EVENTS = {"Alarm": "alarm", "Return": "return", "ModelDropped": "left"}
PARTS = ("step", "known", "action", "reference", "context", "since", "rate", "share")  # of an event


def problem_of(case: dict[str, Any]) -> Any:
    """A ``DecisionProblem``, or for numbers a shop: an order earns ``price`` for what is sold and costs ``cost``."""
    said = case["problem"]
    if "orders" in said:
        price, cost, orders = said["price"], said["cost"], [float(order) for order in said["orders"]]
        worst, best = -cost * orders[-1], (price - cost) * orders[-1]
        earned = lambda order, demand: price * np.minimum(order, demand) - cost * order  # noqa: E731
        return lr.Payoff(earned, orders, worst, best, knots=orders, outcomes=(0, math.inf))
    ranged = {"low": said["low"], "high": said["high"]} if "low" in said else {}
    return lr.DecisionProblem.from_payoffs(said["payoffs"], actions=said["actions"], states=said["states"], **ranged)


def fallback_of(case: dict[str, Any], problem: Any) -> Any:
    kind = case["fallback"]
    if kind == "urn":
        return lr.PolyaUrn(problem.n_states)
    if kind == "shrunk urn":
        return ShrunkUrn(problem, case["horizon"])
    if kind in ("AdaHedge", "Hedge", "FixedShare"):
        named = getattr(lr.policies, kind)
        return named(problem) if kind == "AdaHedge" else named(problem, case["horizon"])
    if isinstance(kind, dict) and "reference" in kind:
        return lr.UseReference(kind["reference"])
    if isinstance(kind, dict):
        safe = {} if "safe" not in kind else {"safe": fallback_of({**case, "fallback": kind["safe"]}, problem)}
        return lr.Recovery(**{**kind["recovery"], **safe})
    return None


def guard_of(case: dict[str, Any]) -> Any:
    problem, kind = problem_of(case), case["fallback"]
    fallback = fallback_of(case, problem) if not isinstance(kind, dict) or "reference" in kind else None
    if isinstance(kind, dict) and "recovery" in kind:
        fallback = lr.Recovery(**kind["recovery"], **({} if case["test"] else {"trust": 0.9}))
    if case["payoffs"] == "change":
        problem = problem.changing()
    against = [lr.Actions(per=case["contexts"])] if case["against actions"] else []
    against += [lr.References(*case["references"])] if case["references"] else []
    horizon, response = case["horizon"], case["response"]
    return lr.Guard(
        problem,
        against=sum(against[1:], start=against[0]),
        test=lr.ExactTest(case["delta"], horizon) if case["test"] else lr.NoTest(horizon),
        fallback=fallback,
        response=lr.BestResponse() if response == "best" else lr.QuantalResponse(response["temperature"]),
        lag=case["lag"],
        streams=case["streams"],
    )


def forecast_of(case: dict[str, Any], numbers: np.ndarray) -> Any:
    """``[..., S]`` probabilities, or what a model says of a number: quantiles, samples."""
    if case["form"] == "quantiles":
        return lr.Quantiles(case["levels"], numbers)
    return lr.Samples(numbers) if case["form"] == "samples" else numbers


def advise(guard: Any, case: dict[str, Any], step: int, inputs: dict[str, Any]) -> np.ndarray:
    """The mixed action ``[..., A]`` that is advised for a step."""
    more = {name: inputs[name] for name in ("context", "payoffs", "scale") if name in inputs}
    if "references" in inputs:
        each = np.moveaxis(inputs["references"], -2, 0)
        said = [forecast_of(case, one) for one in each]
        more["references"] = dict(zip(case["references"], said, strict=True))
    return np.asarray(guard.advise(forecast_of(case, inputs["forecast"]), step=step, **more).policy)


def replaced_first(guard: Any, name: str | None) -> None:
    """The first stream ends and another joins at the end."""
    guard.retire(guard.streams[0])
    guard.add(1 if name is None else [name])


def reloaded(guard: Any, case: dict[str, Any]) -> Any:
    """Another guard that goes on from what was saved."""
    fresh = guard_of(case)
    fresh.loads(guard.dumps())
    return fresh


def event(happened: Any) -> dict[str, Any]:
    kept = {"what": EVENTS[type(happened).__name__], "stream": happened.stream}
    for name in PARTS:
        value = getattr(happened, name, None)
        if value is not None:
            kept[name] = value.item() if isinstance(value, np.generic) else value
    return kept


def promised(certificate: Any) -> list[float]:
    """Regret and the chance of a false alarm (or TV) that are guaranteed; not a number where nothing is."""
    values = certificate.regret_bound, certificate.tv_bound
    return [math.nan if value is None else float(value) for value in values]


def certificate_of(case: dict[str, Any]) -> list[float]:
    """Of a case that is made and not run: a guard, a predictor, or Algorithm 2."""
    if case["kind"] == "guard":
        return promised(guard_of(case).certificate)
    return promised(predictor_of(case).certificate)


# Recordings


def backtested(case: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """What everyone earned per step and stream, alarms, regret, promises. ``inputs``: arrays ``[N, T, ...]``."""
    guard, given = guard_of({**case, "streams": None}), {}
    if "references" in inputs:
        each = np.moveaxis(inputs["references"], -2, 0)
        given["references"] = dict(zip(case["references"], [forecast_of(case, one) for one in each], strict=True))
    if "context" in inputs:
        given["contexts"] = inputs["context"]
    given |= {name: inputs[name] for name in ("payoffs", "scale") if name in inputs}
    forecasts, outcomes = forecast_of(case, inputs["forecast"]), inputs["outcome"]
    found = lr.backtest(guard, forecasts, outcomes, **given)
    return {
        "earned": {name: [one.earned[name] for one in found.streams] for name in found.streams[0].earned},
        "regret": [one.regret for one in found.streams],
        "share": [one.model_share for one in found.streams],
        "alarm": [one.switched_at or 0 for one in found.streams],
        "events": [event(one) for one in found.switches],
        "promised": promised(found.certificate),
    }


# Predictors


def base_of(case: dict[str, Any]) -> Any:
    said = case["base"]
    if "schedule" in said:
        return Scheduled(said["schedule"])
    return lr.Markov(np.array(said["markov"]), window=said["window"])


def test_of(case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The test of a predictor, and what else ``robustify`` is given."""
    said, T, more = dict(case["rule"]), case["horizon"], {}
    kind, problem = said.pop("kind"), None if case["rule"]["kind"] == "VRegret" else problem_of(case)
    if "fallback" in said:
        more["fallback"] = fallback_of({**case, "fallback": said.pop("fallback")}, problem)
    if "temperature" in said:
        more["response"] = lr.QuantalResponse(said.pop("temperature"))
    if kind == "ExactTest":
        return lr.ExactTest(said.pop("delta", 1 / max(T or 2, 2)), T), more
    return getattr(lr, kind)(T, **said), more


def predictor_of(case: dict[str, Any]) -> Any:
    if case["kind"] == "average restart":
        base, windows, more = base_of(case), (case["base"]["window"], case["extra window"]), {}
        if "rule" in case:
            more["test"], others = test_of({**case, "horizon": case["extra window"]})
            more |= others
        return lr.AverageRestart(base, problem_of(case), *windows, horizon=case["horizon"], **more)
    if case["rule"]["kind"] == "default":
        return lr.robustify(base_of(case), problem_of(case), case["horizon"])
    test, more = test_of(case)
    problem = None if case["rule"]["kind"] == "VRegret" else problem_of(case)
    return lr.robustify(base_of(case), problem, test=test, **more)


def predicted(case: dict[str, Any], tokens_NxT: np.ndarray) -> dict[str, Any]:
    """Laws ``[N, T, S]`` before each token, alarms (T + 1 for never; 0 for Algorithm 2), regret, what is promised."""
    safe = predictor_of(case)
    single = case["kind"] == "average restart"
    problem = problem_of(case) if case.get("problem") else lr.matching()
    known = single or case["rule"]["kind"] != "VRegret"
    policy = safe if single else safe.respond() if known else safe.respond(problem)
    laws = safe.predict_sequence(tokens_NxT) if not single or problem.n_actions == 2 else None
    return {
        "laws": np.zeros((0, 1, 1)) if laws is None else np.asarray(laws),
        "alarm": np.zeros(len(tokens_NxT)) if single else np.asarray(safe.alarm_times(tokens_NxT)),
        "regret": np.asarray(lr.external_regret(problem, policy, tokens_NxT))[:, -1],
        "promised": promised(safe.certificate),
    }


# The paper, and recordings


def verified(name: str) -> dict[str, Any]:
    """What the check of a statement found: ``[what, measured, bound, within]`` for each claim."""
    (statement,) = (one for one in verify.selected([]) if one.name == name)
    found = verify.examine(statement).to_dict()
    rows = {
        part: [[claim[key] for key in ("what", "measured", "bound", "within")] for claim in found[part]]
        for part in ("claims", "refuted")
    }
    return {"verdict": found["verdict"], **rows}


def eight_sources(horizon: int, n: int, seed: int) -> dict[str, dict[str, list[Any]]]:
    """Regret, share that switched and median switch by player and source; each player at its worst."""
    players, sources = paper_table.players(horizon), lr.evaluate.sources.paper_sources(horizon)
    cells = lr.compare(players, sources, lr.matching(), horizon, n, seed).cells
    worst = [paper_table.at_worst(name, player, horizon) for name, player in players.items()]
    return {
        "cells": {f"{one.predictor} on {one.source}": [one.regret.value, one.switched, one.switch] for one in cells},
        "adversary": {row.player: [row.worst.regret, row.worst.upper, row.regret_bound, row.tv_bound] for row in worst},
    }


def recorded(name: str, folder: Path) -> bool:
    """Writes the log and the payoffs of a recording; whether its data are there."""
    if recordings.RECORDINGS[name].stream not in sources(install=False):
        return False
    recordings.write(name, folder)
    return True


def audited(folder: Path, lag: int) -> dict[str, Any]:
    found = lr.audit(folder / "log.csv", payoffs_in(folder / "stakes.csv"), lag=lag)
    one, said = found.streams.row(0, named=True), json.loads(found.to_json())
    about = {"steps": one["steps"], "alarm": one["alarm"], "returns": one["returns"], "left": one["dropped"]}
    return {**about, "totals": said["totals"], "promised": [said["regret_bound"]]}
