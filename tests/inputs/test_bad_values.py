"""Bad values into every parameter of every public callable: each is refused by name, or there is an answer.

The table is made by walking ``lr.__all__``: whoever adds a callable with a parameter that has no good argument here is
told which. What is refused changes nothing: not the guard, the stream or the memory it was asked of.
"""

import copy
import dataclasses
import inspect
import json
import math
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.checks import LawBroken
from lowregret.inputs import shown
from lowregret.memory import saved

EACH = 40  # calls of each callable
COIN, URN = lr.matching(), lr.PolyaUrn(2)
STICKY = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
TOKENS = [[0, 1, 1, 0], [1, 1, 1, 0]]


def traded(position: float, move: np.ndarray) -> np.ndarray:
    return position * np.clip(move, -1, 1)


TRADE = lr.Payoff(traded, [0.0, 1.0], -1, 1, knots=[-1, 1])

# What is left out, and why.
RESULTS = {  # made by the package for its callers to read
    "Advice", "Backtest", "Certificate", "Comparison", "certificates.AnyProblemCertificate", "checks.Subject",
    "checks.Trial", "scoring.Approximation",
}  # fmt: skip
FORMULAS = ("certificates.", "plots.", "checks.Subject", "checks.subject_of", "checks.robust_trial")
ABSTRACT = {"Policy", "Predictor", "References"}
INSIDE = {  # hooks, and what searches share: called by the package with what it has checked
    "evidence", "engine_for", "law", "within_horizon", "replaced", "over_episodes", "regret_bound", "law_of_counts",
    "policy_of_counts", "laws", "from_json", "batches", "home", "log_probs", "same_alphabet", "envelope",
    "unit_numbers", "in_unit", "chances", "respond", "regret_after", "share", "refuse_misfit",
    "outcomes_of", "of_models", "shares", "utilities", "paid", "trusted", "promise", "at", "restated",
    "certificate_of", "cells",
}  # fmt: skip
ELSEWHERE = {"Guard.save", "Guard.load", "Guard.loads", "warm_up"}  # they have their own tests
ENGINE = {
    "Actions", "BestResponse", "ExactTest", "NoTest", "QuantalResponse", "Recovery", "References", "RegretGap",
    "RegretRate", "UseReference", "VRegret",
}  # fmt: skip
MEMORIES = {"memory", "path", "names", "is_changing"}  # nobody writes these by hand

GOOD: dict[str, Any] = {
    "problem": COIN, "horizon": 12, "window": 1, "extra_window": 5, "alpha": 1.0, "fallback": None,
    "temperature": 0.25, "batch_shape": (), "like": None, "predictor": URN, "base": URN, "delta": 0.1,
    "rate": 0.5, "share": 0.1, "fn": lambda history: [0.5, 0.5], "n_states": 2, "batched": False, "seed": 0,
    "prior": 1.0, "probs_TxS": [[0.5, 0.5], [0.2, 0.8]], "transition": [[0.8, 0.2], [0.3, 0.7]], "initial": [0.5, 0.5],
    "c": 1.0, "tokens": TOKENS, "token": 1, "action": 0, "streams": None, "d": None,
    "on_event": None, "span_aware": False, "averaged": True,
    "tips": [0.25, 0.5], "test": lr.ExactTest(), "against": lr.Actions(), "response": lr.BestResponse(),
    "utility": [[1.0, 0.0], [0.0, 1.0]], "actions": ["a", "b"],
    "confidence": 0.9, "trust": 0.5, "per": 2, "missing": None, "outcome": 1,
    "low": None, "high": None, "references": None, "contexts": None, "lag": 1, "context": None, "scale": None,
    "states": ["x", "y"], "payoffs": [[3.0, 0.0], [0.0, 1.0]], "beliefs": [0.3, 0.7], "policy": [0.4, 0.6],
    "near": None, "step": 3, "regret": 0.5, "player": URN, "respond": "quantal", "width": 4, "prefixes": None, "n": 3,
    "reach": 3, "tolerance": 1e-9, "tv": 0.1, "cost": 1.0, "loss": 4.0, "p": URN, "q": STICKY,
    "estimator": "symmetric", "values_N": [0.1, 0.5], "least": 0.0, "most": 1.0,
    "levels": [0, 1, 2], "price": 5.0, "salvage": 0.0,
    "name": "mine", "floor": 0.1, "tip": 0.3, "n_actions": 3, "forecasts": None, "order": 3, "epsilon": 0.1,
    "index": [0], "beta": 1.0, "moves": [-1.0, 1.0], "positions": (-1, 0, 1), "fee": 0.1, "progress": None,
    "predictors": {"urn": URN}, "sources": {"sticky": STICKY}, "start": 2, "end": 5,
    "memories": (20, 200), "budget": 0.5, "safe": None, "weights": None, "sharp": False,
    "values": [0.1, 0.4, 0.8], "knots": [-1.0, 1.0], "outcomes": [0.5, 1.5],
    "forecast": lr.Samples([0.1, 0.2, 0.3]),
}  # fmt: skip


def brier(p: Any, y: Any) -> Any:
    return (y - p) ** 2


FOR: dict[str, dict[str, Any]] = {  # where a name means something else
    "AverageRestart": {"predictor": STICKY, "test": None, "response": lr.QuantalResponse()},
    "algorithm_1": {"response": lr.QuantalResponse()},
    "robustify": {"test": None, "response": lr.QuantalResponse()},
    "Payoff": {"fn": traded, "actions": [0.0, 1.0], "outcomes": (-2.0, 2.0), "low": -1.0, "high": 1.0},
    "Payoff.in_payoffs": {"utility": 0.5},
    "Payoff.changing": {"low": -2.0, "high": 2.0},
    "DecisionProblem.changing": {"low": -2.0, "high": 2.0},
    "Quantiles": {"levels": [0.2, 0.5, 0.7]},
    "Guard.advise": {"forecast": [0.2, 0.8], "payoffs": None, "step": None},
    "Guard.observe": {"step": None},
    "Guard.add": {"streams": 2},
    "Guard.retire": {"streams": [0, 2]},
    "DecisionProblem.utility_of": {"payoffs": [[0.5, 0.0], [0.0, 1.0]]},
    "VRegret": {"test": "exact"},
    "Mixture": {"predictors": [URN, STICKY]},
    "Robust": {"setting": lr.robust.algorithm_1(COIN, lr.ExactTest(0.1, 12))},
    "Stream.load_state_dict": {"d": lr.predictors.Stream(URN).state_dict()},
    "RegretGap": {"delta": None},
    "scoring.ScoringRule": {"loss": brier},
    "scoring.ScoringRule.bayes_risk": {"p": [0.3, 0.6]},
    "scoring.ScoringRule.regret": {"p": [0.3, 0.6, 0.2], "tokens": [1, 0, 1]},
    "scoring.problem_of": {"rule": lr.rules.scoring.brier()},
    "tips.v_regret": {"p": [0.3, 0.6, 0.2], "tokens": [1, 0, 1]},
    "tips.worst_tip": {"p": [0.3, 0.6, 0.2], "tokens": [1, 0, 1]},
    "tips.sequences_of": {"p": [0.3, 0.6, 0.2], "tokens": [1, 0, 1]},
    "external_regret": {"policy": [[0, 1, 1, 0], [1, 1, 1, 0]]},
    "internal_regret": {"policy": [[0, 1, 1, 0], [1, 1, 1, 0]]},
    "checks.check_window": {"predictor": STICKY, "streams": 2},
    "checks.check_policy": {"policy": lr.policies.Hedge(COIN, 12), "streams": 2},
    "checks.check_predictor": {"streams": 2},
    "checks.check_robust": {"robust": lr.robustify(URN, COIN, 12), "streams": 4},
    "window_needed": {"regret": 0.9, "tv": 0.1, "horizon": 2000},
    "adversaries.all_sequences": {"horizon": 3},
    "adversaries.exact_worst_case": {"horizon": 5},
    "distances.exact_sequence_tv": {"horizon": 4},
    "Comparison.to_frame": {"by_sequence": False},
    "Comparison.differences": {"to": "urn"},
    "Comparison.difference": {"predictor": "urn", "other": "sticky", "source": "sticky"},
    "Comparison.quantiles": {"predictor": "urn", "source": "sticky", "levels": [0.1, 0.9]},
    "Comparison.regrets": {"predictor": "urn", "source": "sticky"},
    "Comparison.switch_times": {"predictor": "robust", "source": "sticky"},
    "Comparison.switched_by": {"predictor": "robust", "source": "sticky"},
    "DecisionProblem.in_payoffs": {"utility": 0.5},
    "Backtest.plot": {"stream": 0},
    "gate": {"new": [1, 0, 1, 1], "current": [0, 0, 1, 0], "low": 0, "high": 1, "alpha": 0.05, "lag": 1},
    "Backtest.regret": {"player": "guard"},
    "backtest": {
        "guard": COIN, "forecasts": [[0.2, 0.8]] * 8, "outcomes": [0, 1, 1, 0, 1, 0, 0, 1], "names": None,
        "columns": None, "fallback": True, "references": {"today": [[0.5, 0.5]] * 8}, "contexts": [0, 1] * 4,
        "scale": [1.0, 0.5] * 4, "payoffs": None,
    },
}  # fmt: skip


def advised() -> lr.Guard:
    guard = lr.Guard(COIN)
    guard.advise([0.4, 0.6])
    return guard


def waiting() -> lr.Guard:
    guard = lr.Guard(COIN, lag=3)
    for law in ([0.4, 0.6], [0.7, 0.3], [0.5, 0.5]):
        guard.advise(law)
    return guard


def fleet() -> lr.Guard:
    return lr.Guard(COIN, streams=3)


SUBJECTS: dict[str, Callable[[], Any]] = {  # on whom methods are called, one of them or all
    "AdaHedge": lambda: lr.policies.AdaHedge(COIN),
    "AverageRestart": lambda: lr.AverageRestart(STICKY, COIN, 1, 5, 12),
    "Backtest": lambda: lr.backtest(COIN, [[0.2, 0.8]] * 3, [0, 1, 1]),
    "Certificate": lambda: lr.Guard(COIN, test=lr.ExactTest(horizon=12)).certificate,
    "Comparison": lambda: lr.compare(
        {"urn": URN, "sticky": STICKY, "robust": lr.robustify(URN, COIN, 6)}, {"sticky": STICKY}, COIN, 6, 4, 0
    ),
    "DecisionProblem": lambda: COIN,
    "FixedShare": lambda: lr.policies.FixedShare(COIN, 12),
    "FromFunction": lambda: lr.FromFunction(lambda history: [0.5, 0.5], 2),
    "Guard": advised,
    "Guard.act": waiting,
    "Guard.policy": waiting,
    "Guard.skip": waiting,
    "Guard.advice": waiting,
    "Guard.add": fleet,
    "Guard.retire": fleet,
    "Hedge": lambda: lr.policies.Hedge(COIN, 12),
    "Markov": lambda: STICKY,
    "Payoff": lambda: TRADE,
    "PolyaUrn": lambda: URN,
    "Respond": lambda: lr.policies.Respond(URN, COIN, 0.3),
    "RestartHedge": lambda: lr.policies.RestartHedge(COIN, 5),
    "Robust": lambda: lr.robustify(URN, COIN, 12),
    "Scheduled": lambda: lr.predictors.Scheduled([[0.5, 0.5]]),
    "ShrunkUrn": lambda: lr.predictors.ShrunkUrn(COIN, 12),
    "Stream": lambda: lr.predictors.Stream(URN),
    "Mixture": lambda: lr.Mixture([URN, STICKY]),
    "certificates.AnyProblemCertificate": lambda: lr.robustify(URN, None, 12).certificate,
    "scoring.ScoringRule": lr.rules.scoring.brier,
}
CALLED = {  # what a message may call a parameter in place of its name
    "d": ("state_dict",), "outcome": ("state", "missing"), "n": ("streams",), "streams": ("add(",),
    "guard": ("problem",), "rule": ("problem",), "window": ("transition",),
    "utility": ("states must name",), "actions": ("fn must",),
    "payoffs": ("states must name",),
    **dict.fromkeys(("price", "cost", "salvage", "levels", "moves", "positions", "fee", "loss"), ("payoffs",)),
    **dict.fromkeys(
        ("base", "predictor", "player", "fallback", "predictors", "sources", "p", "q", "model", "policy"),
        ("predictor", "policy", "what fn returned", "the probabilities of"),
    ),
}  # fmt: skip
FUNCTIONS = {"adversary", "fn", "loss", "on_event", "progress"}  # what these raise is their own affair
UNREAD = {"like", "actions", "states", "name", "outcome"}  # where a mask is as good as none, or an outcome is missing
PASSED_ON = {  # NaN for NaN
    "DecisionProblem.in_payoffs", "DecisionProblem.regret_in_payoffs", "Payoff.in_payoffs", "Payoff.regret_in_payoffs",
}  # fmt: skip


# Finding them


class Entry(NamedTuple):
    name: str
    call: Callable[[], Callable[..., Any]]  # a fresh one each time: guards and streams remember
    parameters: tuple[str, ...]


IN_FOLDERS = {  # what is tried of folders with more in them than is for everyone
    "arrays": "",
    "audits": "Backtest",
    "evaluate": "Comparison",
    "forecasts": "",
    "engine": "",
    "guard": "",
    "inputs": "",
    "policies": "AdaHedge FixedShare Hedge Policy Respond RestartHedge",
    "predictors": "Scheduled ShrunkUrn Stream",
    "problems": "",
    "robust": "Robust algorithm_1 window_needed",
    "rules": "",
}


def public_names(module: types.ModuleType) -> list[str]:
    own = [
        n for n, v in vars(module).items() if not n.startswith("_") and getattr(v, "__module__", "") == module.__name__
    ]
    return getattr(module, "__all__", own)


def found() -> Iterator[tuple[str, Any]]:
    """Every public function and class, under the shortest name."""
    seen = set()
    named = {name: getattr(getattr(lr, room), name) for room, names in IN_FOLDERS.items() for name in names.split()}
    named |= {name: getattr(lr, name) for name in lr.__all__ if name not in lr._LAZY}
    for module in (
        lr.evaluate.adversaries,
        lr.evaluate.distances,
        lr.evaluate.sources,
        lr.rules.scoring,
        lr.rules.tips,
    ):
        named[module.__name__.split(".")[-1]] = module
    for name, thing in sorted(named.items()):
        if name in IN_FOLDERS:
            continue
        inner = [(f"{name}.{n}", getattr(thing, n)) for n in public_names(thing)] if inspect.ismodule(thing) else []
        for full, each in inner or [(name, thing)]:
            if callable(each) and id(each) not in seen and not inspect.ismodule(each):
                seen.add(id(each))
                yield full, each


def left_out(name: str, thing: Any) -> bool:
    doc = (inspect.getdoc(thing) or "").lower()
    return (
        name.startswith(FORMULAS)
        or name in ELSEWHERE
        or name.split(".")[-1] in INSIDE
        or "unchecked" in doc
        or "without its checks" in doc
        or (isinstance(thing, type) and (issubclass(thing, (tuple, BaseException)) or name in RESULTS | ABSTRACT))
    )


def parameters_of(thing: Any) -> tuple[str, ...]:
    return tuple(p for p in inspect.signature(thing).parameters if p not in MEMORIES | {"self"})


def entries() -> Iterator[Entry]:
    for name, thing in found():
        if not left_out(name, thing):
            yield Entry(name, lambda thing=thing: taken if thing is lr.take else thing, parameters_of(thing))
        if not isinstance(thing, type) or name in ABSTRACT | ENGINE:
            continue
        for method, function in inspect.getmembers(thing):
            full = f"{name}.{method}"
            own = getattr(function, "__module__", None) or ""
            if method.startswith("_") or not inspect.isroutine(function) or not own.startswith("lowregret"):
                continue
            if (name.startswith(FORMULAS) and name not in SUBJECTS) or left_out(full, function):
                continue
            if not parameters_of(function):
                continue
            if inspect.ismethod(function):  # of the class itself
                yield Entry(full, lambda thing=thing, m=method: getattr(thing, m), parameters_of(function))
            else:
                yield Entry(full, lambda n=name, m=method: bound(n, m), parameters_of(function))


def bound(name: str, method: str) -> Callable[..., Any]:
    assert name in SUBJECTS, f"SUBJECTS needs an example of {name}, to call {method} on"
    subject = SUBJECTS.get(f"{name}.{method}", SUBJECTS[name])()
    call = getattr(subject, method)
    return partial(call, subject.start()) if "memory" in inspect.signature(call).parameters else call


def taken(index: Any) -> Any:
    return lr.take(URN.start((2,)), index)


ENTRIES = {entry.name: entry for entry in entries()}


def good_arguments(entry: Entry) -> dict[str, Any]:
    own = FOR.get(entry.name, {})
    missing = [p for p in entry.parameters if p not in own and p not in GOOD]
    assert not missing, f"GOOD (or FOR[{entry.name!r}]) needs a good argument for: {', '.join(missing)}"
    return {p: copy.copy(own.get(p, GOOD.get(p))) for p in entry.parameters}


# Bad values


def bad_values() -> list[Any]:
    """Values that no parameter, or hardly any, is meant to be."""
    return [
        None, math.nan, math.inf, -math.inf, -1, 0, -0.5, 10**400, -(10**400), 10**5000, 2**70, True, False, "x", "",
        "nan", b"x", [], {}, (), set(), object(), lambda: 0, type, int, slice(None), ..., range(2), 1 + 2j,
        Decimal("0.5"), Fraction(1, 3), Fraction(1, 10**400), 1e-320, 5e-324, 1e308, -1e308, np.float32(0.3),
        np.uint8(7), np.int8(-3), np.float16(0.5), np.longdouble(0.5), np.bool_(True), np.complex128(1j),
        np.array([]), np.array(3), np.array(0.5), np.zeros((0, 2)), np.zeros((2, 0)),
        np.ma.masked, np.ma.masked_array([1, 0], mask=[True, False]), [np.ma.masked, 1],
        np.array([None, 1], dtype=object), np.array(["a", "b"]), np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([1 + 1j, 2]), [[1], [1, 2]], [None], ["0", "1"], [0.5, math.nan], {"a": 1}, {"a": URN},
        torch.tensor(0.5, requires_grad=True), torch.tensor([0.5, 0.5], requires_grad=True), torch.tensor([0, 1]),
        torch.zeros(2, dtype=torch.float16), torch.nn.Identity(), torch.nn.Linear(2, 2), np.random.default_rng(0),
        lr.PolyaUrn, URN, lr.PolyaUrn(3), COIN, lr.matching(3), lr.policies.Hedge(COIN, 5),
        lr.ExactTest(), lr.RegretGap(5),
        advised(), lr.FromFunction(lambda history: [math.nan, math.nan], 2),
        lr.FromFunction(lambda history: [2.0, -1.0], 2),
        lr.FromFunction(lambda history: None, 2), Liar([math.nan, math.nan]), Liar([2.0, -1.0]), Liar(None),
        Liar([0.5]), json, NotImplemented, np.rec.array([(1, 2)]),
    ]  # fmt: skip


class Liar(lr.Predictor):
    """Someone else's predictor, whose forecasts are no distributions."""

    n_states = 2

    def __init__(self, says: Any) -> None:
        self.says = says

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> Any:
        return (np.zeros(batch_shape, dtype=np.int64),)

    def predict(self, memory: Any) -> Any:
        if self.says is None:
            return None
        return np.broadcast_to(np.asarray(self.says), (*memory[0].shape, len(self.says)))

    def update(self, memory: Any, token: Any) -> Any:
        return (memory[0] + 1,)


def spoilt(good: Any) -> list[Any]:
    """A good array made bad: masked, of another type, of another shape, with an entry that is none."""
    try:
        array = np.asarray(good)
    except ValueError:
        return []
    if isinstance(good, str) or array.dtype.kind not in "fiu" or not array.size:
        return []
    first = np.zeros(array.shape, dtype=bool)
    first.flat[0] = True
    nan = array.astype(float)
    nan.flat[0] = math.nan
    bad = [
        array.astype(str), array.astype(object), array.astype(complex), array.astype(np.float16), array[None], nan,
        array.astype(np.longdouble), torch.tensor(array.astype(float), requires_grad=True), array.astype(float) + 0.5,
        array - 1, array.astype(np.uint8), np.asfortranarray(array), array.tolist(), torch.tensor(array),
    ]  # fmt: skip
    if array.ndim:
        bad += [
            np.ma.masked_array(array, mask=first),
            [np.ma.masked_array(array, mask=first)],
            np.stack([array, array]),
        ]
        bad += [array[:0], array[..., :0], array[..., :1], array * 0 + 10**9, [Fraction(str(x)) for x in array.flat]]
    return bad


# What must hold


def no_nan(result: Any) -> None:
    """No NaN among the numbers of an answer."""
    if isinstance(result, tuple):
        for part in result:
            no_nan(part)
    elif isinstance(result, float):
        assert not math.isnan(result), "the answer is NaN"
    elif isinstance(result, torch.Tensor):
        no_nan(result.detach().numpy() if result.is_floating_point() else None)
    elif isinstance(result, np.ndarray) and result.dtype.kind == "f":
        assert not np.isnan(result).any(), "the answer has NaN in it"


def settled(thing: Any) -> None:
    """Every number of a made object is a plain int, float or bool; every array is one of numbers, read-only."""
    if not dataclasses.is_dataclass(thing):
        return
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        plain = type(value) in (int, float, bool, str, type(None))
        assert plain or not isinstance(value, (int, float, np.generic, Fraction)), f"{field.name} is kept as {value!r}"
        if isinstance(value, np.ndarray):
            assert value.dtype.kind in "fiub", f"{field.name} is kept as an array of {value.dtype}"
            assert not value.flags.writeable, f"{field.name} can be written to"


def memory_of(call: Any) -> Any:
    """What a guard, a stream or a memory remembers, as text."""
    subject = getattr(call, "__self__", None)
    if isinstance(call, partial):
        return json.dumps(saved(call.args[0]), default=str)
    if isinstance(subject, lr.Guard):
        return subject.dumps()
    return json.dumps(subject.state_dict()) if isinstance(subject, lr.predictors.Stream) else None


def is_masked(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def check(entry: Entry, arguments: dict[str, Any], bad: str | None) -> None:
    """The call, with one of its arguments bad: an answer without a NaN, or a refusal that names what is bad."""
    call, given, refusal = entry.call(), None if bad is None else arguments[bad], None
    before, asked = memory_of(call), f"{entry.name}({bad}={shown(given)})"
    try:
        with np.errstate(all="warn", under="ignore"):
            result = call(**arguments)
    except Exception as error:
        refusal = error
    if (bad in FUNCTIONS and callable(given)) or (entry.name, bad) == ("Payoff", "actions"):  # a caller's own code
        return
    if refusal is None:
        if entry.name not in PASSED_ON:
            no_nan(result)
        settled(result)
        assert bad in UNREAD or not is_masked(given), f"{asked} took a masked array"
        return
    assert isinstance(refusal, (ValueError, TypeError, LawBroken)), f"{asked} raised {refusal!r}"
    words = [bad, *CALLED.get(bad, ())] if bad else []
    named = isinstance(refusal, (LawBroken, TypeError)) or any(word in str(refusal) for word in words)
    assert named, f"{asked} is refused without a name: {refusal!r}"
    assert memory_of(call) == before, f"{asked} was refused, and changed what it remembers"


def pool(entry: Entry, parameter: str) -> list[Any]:
    return bad_values() + spoilt(good_arguments(entry)[parameter])


@pytest.mark.parametrize("name", ENTRIES)
def test_bad_values_are_refused_by_name(name: str) -> None:
    entry, rng = ENTRIES[name], np.random.default_rng(sum(map(ord, name)))
    check(entry, good_arguments(entry), None)
    table = [(p, i) for p in entry.parameters for i in range(len(pool(entry, p)))]
    rng.shuffle(table)
    for p, i in table[:EACH]:
        check(entry, good_arguments(entry) | {str(p): pool(entry, p)[int(i)]}, str(p))


# What someone else's predictor says is checked before anything is made of it


def in_place_of(good: Any, liar: Liar) -> Any:
    """The liar where a good argument has a predictor; None where it has none."""
    if isinstance(good, lr.Predictor):
        return liar
    if isinstance(good, dict) and any(isinstance(each, lr.Predictor) for each in good.values()):
        return {**good, next(iter(good)): liar}
    if isinstance(good, list) and any(isinstance(each, lr.Predictor) for each in good):
        return [liar, *good[1:]]
    return None


def put_to_use(made: Any) -> Any:
    """What the answer would tell its user: one that was only made has asked nobody yet."""
    if isinstance(made, lr.predictors.Stream):
        return made.predict()
    if not isinstance(made, (lr.Predictor, lr.policies.Policy)):
        return made
    forms = {"predict_sequence": TOKENS[0], "policy_sequence": TOKENS[0], "predict": made.start()}
    return [getattr(made, form)(given) for form, given in forms.items() if hasattr(made, form)]


@pytest.mark.parametrize("says", [[math.nan, math.nan], [2.0, -1.0], None, [0.5]], ids=str)
def test_no_answer_is_made_of_what_is_no_distribution(says: Any) -> None:
    tried = 0
    for entry in ENTRIES.values():
        for p in entry.parameters:
            arguments = good_arguments(entry)
            arguments[p] = in_place_of(arguments[p], Liar(says))
            if arguments[p] is None:
                continue
            tried += 1
            try:
                answer = put_to_use(entry.call()(**arguments))
            except (ValueError, LawBroken):
                continue
            assert answer is None, f"{entry.name} made {shown(answer)} of a {p} that says {says}"
    assert tried >= 20
