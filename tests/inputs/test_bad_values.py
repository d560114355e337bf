"""Bad values: one table of who is called, with which argument, and what it may not be; and what a refusal says.

Each is refused by the name of the argument, in words that say what it must be, before anything has changed.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import lowregret as lr
from lowregret import inputs
from lowregret.checks import LawBroken, check_predictor
from lowregret.evaluate import adversaries, distances
from lowregret.predictors import Scheduled, Stream
from lowregret.problems import Names
from lowregret.rules import scoring, tips

COIN, URN, EYE, EVEN = lr.matching(), lr.PolyaUrn(2), [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5]
GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.0]])  # two actions, three states
STICKY = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
PAYOFFS = [[100, -100], [0, 0], [-100, 100]]
TRADE = lr.DecisionProblem.from_payoffs(PAYOFFS, actions=["short", "flat", "long"], states=["down", "up"])
NAN, INF, WARM = math.nan, math.inf, lr.QuantalResponse()

# What no argument of a kind may be
REAL = [NAN, INF, "0.5", None]
CHANCE = [*REAL, 0, 1, -0.5]
POSITIVE = [*REAL, 0, -1.0]
SIZE = [-INF, -1.0, None]  # a cost, say
COUNT = [0, -1, 1.5, "3", NAN]
LAW = [[0.3, 0.3], [2.0, -1.0], [NAN, NAN], ["a", "b"], [1.0], 0.5, np.ma.masked_array(EVEN, [True, False])]
TOKENS = [[0, 2], [-1, 0], [0.5, 1.0], ["x", "y"], np.ma.masked_array([0, 1], [True, False])]
MATRIX = [[], [[]], [0.5, 1.0], [[0.0, NAN]], [[-INF, 0]], [[0.0, 1.0], [0.0]], [["left", "right"]], None]
NAMES = [["one"], list("abc"), []]
PROBLEM = [None, EYE, "matching", lr.DecisionProblem]
PREDICTOR = [None, "model", EVEN, lr.PolyaUrn, COIN]
OBJECT = [None, "word", 0.5, URN]
SEED = [-1, 1.5, "3", None]


def traded(position: float, move: np.ndarray) -> np.ndarray:
    return position * np.clip(move, -1, 1)


def advised() -> lr.Guard:
    guard = lr.Guard(COIN)
    guard.advise([0.4, 0.6])
    return guard


# Who is called, with which good arguments, and with what in place of each.
TABLE: list[tuple[Callable[..., Any], dict[str, Any], dict[str, list[Any]]]] = [
    (lr.DecisionProblem, {"utility": EYE}, {"utility": [*MATRIX, [[0, 2.0]]], "actions": NAMES, "states": NAMES}),
    (lr.DecisionProblem.from_payoffs, {"payoffs": EYE}, {"payoffs": MATRIX, "low": [0.5, NAN], "high": [0.5, "1"]}),
    (COIN.best_response, {"beliefs": EVEN}, {"beliefs": LAW}),
    (COIN.quantal_response, {"beliefs": EVEN, "temperature": 1.0}, {"beliefs": LAW, "temperature": POSITIVE}),
    (COIN.invert_quantal_response, {"policy": EVEN, "temperature": 1.0}, {"policy": LAW}),
    (COIN.changing, {"low": -2.0, "high": 2.0}, {"low": [NAN, "1", 3.0], "high": [NAN, "1"]}),
    (lr.matching, {"n": 2}, {"n": COUNT}),
    (lr.newsvendor, {"levels": [0, 1], "price": 3, "cost": 1}, {
        "levels": [[], [NAN], "ab", [[1.0]], None, [-1, 1]], "price": SIZE, "cost": [*SIZE, 5], "salvage": ["1"],
    }),
    (lr.cost_loss, {"cost": 1, "loss": 4}, {"cost": SIZE, "loss": SIZE}),
    (lr.trading, {"moves": [-1.0, 1.0]}, {"moves": [[0.1, 0.1], [INF]], "fee": SIZE}),
    (lr.Payoff, {"fn": traded, "actions": [0, 1], "low": -1, "high": 1}, {
        "fn": [None, "f"], "low": [NAN, 2], "high": [NAN, -2], "knots": [[NAN], "ab"], "outcomes": [(1, 0), 3],
    }),
    (lr.Payoff.from_knots, {"payoffs": [[0, 1]], "knots": [0, 1]}, {"payoffs": [[[0]], None], "actions": NAMES[1:2]}),
    (lr.Quantiles, {"levels": [0.2, 0.5], "values": [0.1, 0.4]}, {
        "levels": [[0.5, 0.2], [0.0, 1.0], [NAN, 0.5]], "values": [[0.4, 0.1], [NAN, 1], [1.0], "ab"],
    }),
    (lr.Samples, {"values": [0.1, 0.4]}, {"values": [[0.1], [NAN, 1], "ab", []]}),
    (lr.PolyaUrn, {"n_states": 2}, {"n_states": COUNT, "prior": POSITIVE}),
    (lr.ShrunkUrn, {"problem": COIN, "horizon": 9}, {"problem": PROBLEM, "horizon": [0, 1.5, "x"]}),
    (lr.Markov, {"transition": STICKY.transition, "window": 1}, {
        "transition": [EVEN, [[0.3, 0.3], EVEN], [[NAN, 1], EVEN]], "window": [-1, 2, 1.5], "initial": LAW,
    }),
    (Scheduled, {"probs_TxS": [EVEN]}, {"probs_TxS": [EVEN, [[0.3, 0.3]], [[NAN, 1]], []]}),
    (lr.FromFunction, {"fn": lambda history: EVEN, "n_states": 2}, {"fn": [None, "f"], "n_states": COUNT}),
    (lr.Mixture, {"predictors": [URN, STICKY]}, {"predictors": [[], [URN, None], [URN, lr.PolyaUrn(3)]],
                                                 "weights": [*LAW[:4], [1.0, 0.0]]}),
    (URN.predict_sequence, {"tokens": [0, 1]}, {"tokens": [*TOKENS, 1, []]}),
    (URN.start, {"batch_shape": (2,)}, {"batch_shape": [-1, (2, -3), (1.5,), "ab", None]}),
    (lr.sample, {"predictor": URN, "horizon": 3, "n": 2, "seed": 0}, {
        "predictor": PREDICTOR, "horizon": COUNT, "n": [-1, 1.5], "seed": SEED,
    }),
    (lr.ExactTest, {"delta": 0.1}, {"delta": CHANCE, "horizon": COUNT}),
    (lr.RegretGap, {"horizon": 9}, {"horizon": COUNT, "alpha": POSITIVE}),
    (lr.RegretRate, {"horizon": 9}, {"horizon": COUNT, "alpha": POSITIVE}),
    (lr.VRegret, {"horizon": 9}, {"horizon": COUNT, "test": ["word", None]}),
    (lr.QuantalResponse, {"temperature": 1.0}, {"temperature": [0, -1, NAN, "x"]}),
    (lr.Recovery, {}, {"memories": [3, (), (1,), "ab"], "share": CHANCE, "budget": POSITIVE, "trust": [0, 1, "x"]}),
    (lr.Actions, {}, {"per": [0, -1, 1.5, "ab", [], ["a", "a"], [1]]}),
    (lr.Guard, {"problem": COIN}, {
        "problem": PROBLEM, "against": OBJECT, "test": OBJECT, "fallback": ["desk", 0.5, lr.Recovery], "lag": COUNT,
        "response": OBJECT, "streams": [-1, 1.5, "ab", [], ["a", "a"]], "on_event": [3, "print"],
    }),
    (lambda forecast: lr.Guard(COIN).advise(forecast), {"forecast": EVEN}, {"forecast": [*LAW, [EVEN, EVEN]]}),
    (lambda forecast, step, scale: lr.Guard(COIN).advise(forecast, step=step, scale=scale),
     {"forecast": EVEN, "step": 1, "scale": 1}, {"step": [*COUNT, 3], "scale": [0, 1.5, NAN, "x", [1, 1]]}),
    (lambda outcome, action: advised().observe(outcome, action), {"outcome": 1, "action": 0}, {
        "outcome": [2, -1, 0.5, "x", None, [0, 1]], "action": [2, -1, 0.5, "x", [0, 1]],
    }),
    (lambda seed: advised().act(seed), {"seed": 0}, {"seed": SEED}),
    (lambda streams: lr.Guard(GAME, streams=4).restart(streams), {"streams": [0, 3]}, {
        "streams": [[0, 4], -1, "all", [True, False]],
    }),
    (lr.robustify, {"predictor": URN, "problem": COIN, "horizon": 9}, {
        "predictor": PREDICTOR, "problem": PROBLEM[1:], "horizon": COUNT, "response": [*OBJECT, lr.BestResponse()],
        "fallback": [EVEN, "urn"], "test": ["word", URN, lr.ExactTest],
    }),
    (lr.AverageRestart, {"predictor": STICKY, "problem": COIN, "window": 1, "extra_window": 5, "horizon": 12}, {
        "predictor": PREDICTOR, "window": [-1, 0.5], "extra_window": COUNT, "horizon": COUNT,
    }),
    (lr.policies.Hedge, {"problem": COIN, "horizon": 9}, {"problem": PROBLEM, "horizon": COUNT, "rate": [0, NAN]}),
    (lr.policies.FixedShare, {"problem": COIN, "horizon": 9}, {"problem": PROBLEM, "horizon": COUNT}),
    (lr.policies.RestartHedge, {"problem": COIN, "window": 9}, {"problem": PROBLEM, "window": COUNT}),
    (lr.policies.Respond, {"predictor": URN, "problem": COIN, "temperature": 1.0}, {
        "predictor": PREDICTOR, "problem": PROBLEM, "temperature": [0, NAN],
    }),
    (lr.external_regret, {"problem": COIN, "policy": lr.policies.Hedge(COIN, 9), "tokens": [0, 1]}, {
        "problem": PROBLEM, "policy": [URN, [0.5]], "tokens": TOKENS,
    }),
    (lr.next_token_tv, {"p": URN, "q": STICKY, "tokens": [0, 1]}, {"p": PREDICTOR[:3], "q": PREDICTOR[:3],
                                                                   "tokens": TOKENS}),
    (lr.sequence_tv, {"p": URN, "q": STICKY, "horizon": 3, "n": 4, "seed": 0}, {
        "p": PREDICTOR[:3], "horizon": COUNT, "n": COUNT, "seed": SEED, "estimator": ["word", None],
    }),
    (distances.bounded_mean, {"values_N": [0.1, 0.5], "least": 0, "most": 1}, {"values_N": [[], [2.0], [NAN]]}),
    (adversaries.greedy, {"player": URN, "problem": COIN, "horizon": 3}, {"player": PREDICTOR, "horizon": COUNT}),
    (lr.compare, {"predictors": {"urn": URN}, "sources": {"sticky": STICKY}, "problem": COIN, "horizon": 3, "n": 2,
                  "seed": 0}, {
        "predictors": [None, {}, {"a": 3}], "sources": [None, {}, {"a": 3}], "problem": PROBLEM, "horizon": COUNT,
        "n": COUNT, "seed": SEED,
    }),
    (lr.backtest, {"guard": COIN, "forecasts": [EVEN] * 4, "outcomes": [0, 1, 1, 0]}, {
        "guard": PROBLEM, "forecasts": [[[0.3, 0.3]] * 4, np.full((4, 3), 1 / 3), None],
        "outcomes": [[0, 2, 1, 0], [0.5] * 4, [0, 1]], "scale": [[1, 2, 1, 1]],
    }),
    (lr.gate, {"new": [1, 0, 1], "current": [0, 0, 1], "low": 0, "high": 1}, {
        "new": [[0, 5, 1], "ab"], "current": [[NAN, 0, 1]], "low": [2, NAN], "alpha": CHANCE, "lag": COUNT,
    }),
    (scoring.problem_of, {"rule": scoring.brier(), "n_actions": 3}, {"n_actions": COUNT}),
    (tips.v_regret, {"p": [0.3, 0.6], "tokens": [1, 0], "tips": [0.5]}, {
        "p": [[2.0, 0.1], "ab"], "tokens": TOKENS, "tips": [[2.0], "x"],
    }),
    (check_predictor, {"predictor": URN, "streams": 2}, {"predictor": PREDICTOR, "streams": COUNT}),
]  # fmt: skip
CALLED = {  # what a refusal may call an argument in place of its name
    "outcome": "state|missing", "n": "streams|matching", "guard": "problem", "price": "payoffs", "salvage": "payoffs",
    "fee": "payoffs", "loss": "payoffs", "predictor": "robustify", "predictors": "predictor", "sources": "predictor",
    "outcomes": "state|knots", "window": "transition", "actions": "fn", "rule": "problem", "p": "predictor",
    "low": "high", "payoffs": "states|knots", "fallback": "predictor", "player": "predictor|policy",
    "levels": "payoffs", "scale": "shape", "policy": "probabilities", "forecasts": "forecast",
}  # fmt: skip
ROWS = [pytest.param(*row, id=getattr(row[0], "__qualname__", str(row[0]))) for row in TABLE]


@pytest.mark.parametrize(("call", "good", "bad"), ROWS)
def test_a_bad_value_is_refused_by_name(
    call: Callable[..., Any], good: dict[str, Any], bad: dict[str, list[Any]]
) -> None:
    call(**good)
    for argument, values in bad.items():
        for value in values:
            with pytest.raises(
                (ValueError, TypeError, LawBroken), match=f"{argument}|{CALLED.get(argument, argument)}"
            ):
                pytest.fail(f"{argument}={value!r} gave {call(**{**good, argument: value})!r}")


# What refusals say: what it must be, what it was, and what to do instead


def probs(shape: tuple[int, ...] | None = None) -> Callable[[Any], Any]:
    return lambda value: inputs.probs_of(value, 3, "mine", shape)


def tokens(shape: tuple[int, ...] | None = None) -> Callable[[Any], Any]:
    return lambda value: inputs.tokens_of(value, 3, "mine", shape)


def named(check: Callable[..., Any], **more: Any) -> Callable[[Any], Any]:
    return lambda value: check(value, "mine", **more)


def traded_guard(**given: Any) -> Callable[[Any], Any]:
    return lambda forecast: lr.Guard(TRADE).advise(forecast, **given)


def observed(outcome: Any) -> None:
    guard = lr.Guard(TRADE)
    guard.advise(EVEN)
    guard.observe(outcome, "long")


AT_NIGHT = lr.Guard(TRADE, against=lr.Actions(per=["day", "night"]), test=lr.ExactTest(horizon=9))
BIG, THIRDS = np.full((15, 3), 1 / 3), [1 / 3] * 3  # more entries than the short way takes
WORDS: list[tuple[Callable[[Any], Any], list[Any], str]] = [
    (probs(), [BIG * 0.99, [0.3, 0.3, 0.3]], "mine must sum to one within 1e-06"),
    (probs(), [[50.0, 25.0, 25.0]], "off by 99; if these are logits"),
    (probs(), [np.vstack([BIG, [[0.5, 0.25, 0.2500002]], [[0.3, 0.3, 0.402]]])], "at index (16,); if that is"),
    (probs(), [[2.0, -1.0, 0.0], torch.tensor([2.0, -1.0, 0.0])], "mine must not be negative, got -1 at index (1"),
    (probs(), [[NAN] * 3, BIG * NAN], "mine must be numbers that sum to one, got NaN at index (0"),
    (probs(), [np.ones(3) > 0.5, np.array(["1", "0", "0"])], "mine must be real floating-point numbers, got dtype"),
    (probs(), [1.0, np.ones(()), EVEN, np.ones((3, 2))], "mine must have a last axis of length 3, got shape"),
    (probs((2,)), [THIRDS, BIG], "mine must have shape (2, 3), got ("),
    (probs((15,)), [BIG[None]], "got (1, 15, 3); predict_proba gives a row for each x: take row [0]"),
    (tokens(), [3, -1, [0, 3], np.uint8([200]), torch.tensor([4])], "mine must lie in 0..2"),
    (tokens(()), [3, -1, np.int64(3)], "mine must lie in 0..2, got"),
    (tokens(), [[0, 3, -5]], "got values from -5 to 3 at index (1,)"),
    (tokens(), [1.0, [0.5], np.array([True]), np.array(["1"])], "mine must be integers in 0..2, got dtype"),
    (tokens((2,)), [0, [0], [[0, 1]]], "mine must have shape (2,), got"),
    (lambda v: inputs.sequences_of(v, 3), [0, np.zeros((2, 0), int)], "at least one time step, got shape"),
    (named(inputs.finite), [INF, "0.5", [0.5], 1j, None, NAN], "mine must be a finite number, got"),
    (named(inputs.positive), [0, -1.0, "1", None, NAN, INF], "mine must be a positive finite number, got"),
    (named(inputs.not_negative), [-1, -5e-324, "1", INF], "mine must be a finite number >= 0, got"),
    (named(inputs.probability), [0, 1, "0.5", NAN, None], "mine must lie strictly between 0 and 1, got"),
    (named(inputs.whole), [0, 1.0, np.float64(3), "3"], "mine must be a whole number >= 1, got"),
    (named(inputs.whole, most=3), [4, 0], "mine must be a whole number from 1 to 3, got"),
    (named(inputs.choice, options=("a", "b")), ["c", 0, None], 'mine must be "a" or "b", got'),
    (named(inputs.names_of), ["ab", [], ["a", "a"], [1], [""]], "mine must be names, at least one and each once"),
    (inputs.batch_shape_of, [-1, (2, -3), (1.5,), "ab", None], "batch_shape must be a"),
    (named(inputs.array_of), [[[1], [1, 2]]], "mine must be an array or a list with rows of one length, got"),
    (named(inputs.array_of), [np.ma.masked_array([1, 0], [True, False])], "mine must not be masked (fill it"),
    (Names, [["a", "a"], ["1", "1.0"], ["é", "e\u0301"]], "states must have different names, got"),
    (lr.DecisionProblem, [[[0, 2]]], "utility must lie in [-1, 1], got values from"),
    (lambda p: lr.matching(3).invert_quantal_response(p, 0.1), [EVEN], "two actions, this one has 3"),
    (lambda p: GAME.invert_quantal_response(p, 0.1), [[1e-30, 1 - 1e-30]], "policy is the quantal response to no"),
    (lr.References, ["", 3], "References"),
    (lr.Guard, [PAYOFFS], "got list: DecisionProblem.from_payoffs(matrix) makes one of payoffs"),
    (lambda p: lr.robustify(p, TRADE, 3), [LogisticRegression()], "GuardedClassifier(model, Guard(problem)) guards"),
    (lambda p: lr.external_regret(GAME, p, [0, 1]), [URN], "policy must act and PolyaUrn only predicts"),
    (lambda p: lr.external_regret(GAME, p, [0, 1]), [lr.Guard(GAME)], "read guard.regret"),
    (observed, ["sideways"], "state must be one of the states 'down', 'up', got 'sideways'"),
    (observed, [1], "given by name, or as lowregret.problems.Positions(1)"),
    (observed, [None], "got None: it is missing"),
    (observed, [np.bool_(True)], "a bool means states named True and False, and is not a number"),
    (lr.Guard(TRADE).observe, ["up"], "advise(forecast) must come first"),
    (traded_guard(), [0.7], "got shape (); for a chance p of state 1 give [1 - p, p]"),
    (traded_guard(), [[[0.3, 0.7]]], "got (1, 2); predict_proba gives a row for each x: take row [0]"),
    (traded_guard(context=1), [EVEN], "context was not declared: Guard(problem, against=Actions(per=..."),
    (traded_guard(references={"desk": EVEN}), [EVEN], "Guard(problem, against=Actions() + References("),
    (traded_guard(payoffs=PAYOFFS), [EVEN], "Guard(problem.changing(low, high))"),
    (lambda c: AT_NIGHT.advise(EVEN, context=c), ["noon", None], "one of day, night"),
    (lambda n: lr.Guard(TRADE, against=lr.Actions(per=n)), [3], "contexts need a horizon, ExactTest(horizon=...)"),
    (lambda f: lr.Guard(TRADE, fallback=f), [URN], "take response=QuantalResponse(), Recovery(), or a policy"),
    (lambda f: lr.Guard(TRADE, fallback=f), [lr.UseReference("desk")], "against=Actions() + References('desk')"),
    (lr.RegretGap, [None], "horizon=None (unknown) needs delta, the chance of a false alarm"),
    (lambda delta: lr.RegretGap(6, delta=delta), [0.1], "delta goes with horizon=None"),
    (lambda T: lr.robustify(URN, COIN, T), [None], "either a horizon or a test such as ExactTest(delta, horizon)"),
    (lambda test: lr.robustify(URN, COIN, 6, test=test), [lr.RegretGap(6)], "got both"),
    (lr.robustify(URN, COIN, 6).certificate.at, [7], "step must be at most the horizon 6"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "values", "says"), WORDS)
def test_it_says_what_to_do(call: Callable[[Any], Any], values: list[Any], says: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=re.escape(says)):
            call(value)


def test_hints_are_given_only_where_they_fit() -> None:
    with pytest.raises(ValueError, match=r"got shape \(2,\)$"):  # three states: no chance of "state 1" to complete
        lr.Guard(lr.rock_paper_scissors()).advise(EVEN)
    with pytest.raises(ValueError, match=r"got \(2, 2\)$"):  # two rows: which one is not for us to say
        lr.Guard(TRADE).advise([[0.3, 0.7], [0.3, 0.7]])


# What belongs to another problem


@pytest.mark.parametrize("n", [1, 2, 5])
def test_predictors_of_other_states(n: int) -> None:
    urn, safe = lr.PolyaUrn(3), lr.robustify(lr.PolyaUrn(n), lr.matching(n), 6)
    for stranger in (lr.PolyaUrn(n), lr.FromFunction(lambda history: THIRDS, n), safe):
        for call in (
            lambda p: lr.policies.Respond(p, GAME, 0.1),
            lambda p: lr.robustify(p, GAME, 6),
            lambda p: lr.robustify(urn, GAME, 6, fallback=p),
            lambda p: lr.Guard(GAME, response=lr.QuantalResponse(0.1), fallback=p),
        ):
            with pytest.raises(ValueError, match=f"predictor .*same states: .* predicts {n} states, .* has 3"):
                call(stranger)


def test_what_belongs_to_another_problem() -> None:
    named = lr.DecisionProblem(COIN.utility, states=["x", "y"])
    priced = lr.DecisionProblem.from_payoffs([[3.0, 1.0], [1.0, 3.0]])
    for other, words in {
        named: r"states \['0', '1'\] against \['x', 'y'\]",
        lr.matching(3): "2 actions x 2 states.*against.*3 actions",
        priced: "utility .*, shift 0.0 against 2.0",
    }.items():
        with pytest.raises(ValueError, match=f"another problem: .*{words}"):
            lr.Guard(other, fallback=lr.policies.AdaHedge(COIN))
    with pytest.raises(ValueError, match=r"another problem: .*states "):
        lr.robustify(URN, named, 9, fallback=lr.Recovery(safe=lr.ShrunkUrn(COIN, 9)))
    with pytest.raises(ValueError, match=r"predictors\['h'\].* acts in another problem: .*states"):
        lr.compare({"h": lr.policies.Hedge(named, 9)}, {"u": URN}, COIN, 3, 2, 0)


@pytest.mark.parametrize("test", [lr.RegretGap(6), lr.RegretRate(6), lr.ExactTest(1 / 6, 6)], ids=lambda t: str(t)[:9])
def test_past_the_horizon_of_a_test(test: Any) -> None:
    safe, states = lr.robustify(URN, COIN, test=test), np.arange(8) % 2
    for call in (safe.alarm_times, safe.predict_sequence):
        with pytest.raises(ValueError, match="longer than the horizon: 8 steps"):
            call(states)
    stream = Stream(safe)
    for state in states[:6]:
        stream.update(state)
    before = stream.state_dict()
    with pytest.raises(ValueError, match="horizon of 6 steps is over"):
        stream.update(0)
    assert stream.state_dict() == before


# What is refused changes nothing


@pytest.mark.parametrize("n", [None, 4])
def test_a_guard_and_its_generator_are_not_moved_by_what_is_refused(n: int | None) -> None:
    """At every step, before and after its advice, alone and in a fleet."""
    guard, rng, tempted = lr.Guard(GAME, streams=n), np.random.default_rng(0), np.random.default_rng(7)
    other = lr.Guard(GAME, test=lr.ExactTest(0.01), streams=n).dumps()
    even, bad = np.full((*guard.shape, 3), 1 / 3), np.full(guard.shape, 3)

    def refused(says: str, call: Callable[..., Any], *given: Any) -> None:
        before = guard.dumps()
        with pytest.raises(ValueError, match=says):
            call(*given)
        assert guard.dumps() == before

    for _ in range(6):
        state = rng.integers(3, size=guard.shape)
        for call, given in ((guard.observe, (state,)), (guard.act, (tempted,)), (guard.skip, ()), (guard.policy, ())):
            refused("advise", call, *given)
        refused("forecast", guard.advise, even * 2)
        refused("forecast", guard.advise, even[..., :2])
        guard.advise(even)
        refused("forecast", guard.advise, -even)
        refused("state", guard.observe, bad)
        refused("state", guard.observe, bad[..., None])
        refused("action", guard.observe, state, bad)
        refused("action", guard.observe, state, state + 0.5)
        refused("seed", guard.act, -1)
        refused("streams", guard.restart, [99])
        refused("delta", guard.loads, other)
        guard.observe(state)
    assert tempted.random() == np.random.default_rng(7).random()


# What someone else's predictor or policy says is checked before anything is made of it


class Liar(lr.Predictor):
    """Its forecasts are no distributions; as a policy, no more are its mixed actions."""

    n_states = 2

    def __init__(self, says: Any) -> None:
        self.says = says

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> Any:
        return (np.zeros(batch_shape, dtype=np.int64),)

    def predict(self, memory: Any) -> Any:
        return np.broadcast_to(self.says, (*memory[0].shape, len(self.says)))

    def update(self, memory: Any, token: Any) -> Any:
        return (memory[0] + 1,)


class LyingPolicy(lr.policies.Policy):
    problem, start, policy, update = COIN, Liar.start, Liar.predict, Liar.update

    def __init__(self, says: Any) -> None:
        self.says = says


def played(guard: lr.Guard) -> None:
    for _ in range(2):
        guard.advise([1.0, 0.0])
        guard.observe(1)


@pytest.mark.parametrize("says", [[NAN, NAN], [2.0, -1.0], [0.5]], ids=str)
def test_no_answer_is_made_of_what_is_no_distribution(says: Any) -> None:
    liar, policy, states = Liar(says), LyingPolicy(says), np.array([[0, 1, 1]])
    calls: list[Callable[[], Any]] = [
        lambda: liar.predict_sequence(states),
        lambda: Stream(liar).predict(),
        lambda: lr.sample(liar, 3, 2, 0),
        lambda: lr.Mixture([URN, liar]).predict_sequence(states),
        lambda: lr.robustify(liar, COIN, 9).predict_sequence(states),
        lambda: lr.robustify(URN, COIN, test=lr.RegretGap(9), fallback=liar).predict_sequence(states),
        lambda: lr.AverageRestart(liar, COIN, 1, 2, 9).predict_sequence(states),
        lambda: lr.policies.Respond(liar, COIN, 0.1).policy_sequence(states),
        lambda: lr.next_token_tv(liar, URN, states),
        lambda: lr.sequence_tv(liar, URN, 3, 2, 0),
        lambda: distances.exact_sequence_tv(URN, liar, 3),
        lambda: lr.compare({"liar": liar}, {"urn": URN}, COIN, 3, 2, 0),
        lambda: lr.compare({"urn": URN}, {"liar": liar}, COIN, 3, 2, 0),
        lambda: adversaries.greedy(liar, COIN, 3),
        lambda: adversaries.beam(liar, COIN, 3, width=2),
        lambda: check_predictor(liar),
        lambda: played(lr.Guard(COIN, response=lr.QuantalResponse(0.1), fallback=liar)),
        lambda: lr.external_regret(COIN, policy, states),
        lambda: policy.policy_sequence(states),
        lambda: lr.compare({"liar": policy}, {"urn": URN}, COIN, 3, 2, 0),
        lambda: adversaries.greedy(policy, COIN, 3),
        lambda: played(lr.Guard(COIN, fallback=policy)),
    ]
    for i, call in enumerate(calls):
        with pytest.raises((ValueError, LawBroken)):
            pytest.fail(f"call {i} gave {call()}")
