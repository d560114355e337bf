"""What a refusal says: the argument's name, what it must be, what it was, and what to do instead."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import lowregret as lr
from lowregret import inputs
from lowregret.problems import Names

COIN, URN = lr.matching(), lr.PolyaUrn(3)
GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.0]])  # two actions, three states
PAYOFFS = [[100, -100], [0, 0], [-100, 100]]
TRADE = lr.DecisionProblem.from_payoffs(PAYOFFS, actions=["short", "flat", "long"], states=["down", "up"])
EVEN, THIRDS = [0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]


def probs(shape: tuple[int, ...] | None = None) -> Callable[[Any], Any]:
    return lambda value: inputs.probs_of(value, 3, "mine", shape)


def tokens(shape: tuple[int, ...] | None = None) -> Callable[[Any], Any]:
    return lambda value: inputs.tokens_of(value, 3, "mine", shape)


def named(check: Callable[..., Any], **more: Any) -> Callable[[Any], Any]:
    return lambda value: check(value, "mine", **more)


BIG = np.full((5, 3), 1 / 3)  # more entries than the short way takes
HALVES = torch.full((4, 3), 1 / 3).to(torch.bfloat16)
NOT_REAL = [np.ones(3) > 0.5, np.ones(3, complex), np.array(["1", "0", "0"]), np.ones(3, object)]


@pytest.mark.parametrize(
    ("check", "values", "says"),
    [
        (probs(), [BIG * 0.99, [0.3, 0.3, 0.3]], "mine must sum to one within 1e-06"),
        (probs(), [[50.0, 25.0, 25.0]], "off by 99; if these are logits"),
        (probs(), [np.vstack([BIG, [[0.5, 0.25, 0.2500002]], [[0.3, 0.3, 0.402]]])], "at index (6,); if that is"),
        (probs(), [[2.0, -1.0, 0.0], torch.tensor([2.0, -1.0, 0.0])], "mine must not be negative, got -1 at index (1"),
        (probs(), [[math.nan] * 3, BIG * math.nan], "mine must be numbers that sum to one, got NaN at index (0"),
        (probs(), [[math.inf, 0, 0], np.array([1e37, 0, 0])], "mine must sum to one within 1e-06, got a sum off by"),
        (probs(), [HALVES, np.float16([1, 0, 0])], "mine come in half precision"),
        (probs(), NOT_REAL, "mine must be real floating-point numbers, got dtype"),
        (probs(), [1.0, np.ones(()), EVEN, np.ones((3, 2))], "mine must have a last axis of length 3, got shape"),
        (probs((2,)), [THIRDS, BIG], "mine must have shape (2, 3), got ("),
        (probs((5,)), [BIG[None]], "got (1, 5, 3); predict_proba gives a row for each x: take row [0]"),
        (tokens(), [3, -1, [0, 3], np.uint8([200]), np.uint64([2**63]), torch.tensor([4])], "mine must lie in 0..2"),
        (tokens(()), [3, -1, np.int64(3)], "mine must lie in 0..2, got"),
        (tokens(), [[0, 3, -5]], "got values from -5 to 3 at index (1,)"),
        (tokens(), [1.0, [0.5], np.array([True]), np.array(["1"])], "mine must be integers in 0..2, got dtype"),
        (tokens((2,)), [0, [0], [[0, 1]]], "mine must have shape (2,), got"),
        (lambda v: inputs.sequences_of(v, 3), [0, np.zeros((2, 0), int)], "at least one time step, got shape"),
        (named(inputs.finite), [math.inf, "0.5", [0.5], True, 1j, {}, None, math.nan, 10**400], "a finite number, got"),
        (named(inputs.positive), [0, -1.0, "1", None, math.nan], "mine must be a positive finite number, got"),
        (named(inputs.positive), [1e-320, 5e-324, 1e301], "positive finite number, from 1e-300 to 1e"),
        (named(inputs.not_negative), [-1, "1", Fraction(-1)], "mine must be a finite number >= 0, got"),
        (named(inputs.not_negative), [1e-320], "mine must be a finite number >= 0 (0 or from 1e-300 to 1e+300), got"),
        (named(inputs.probability), [0, 1, "0.5", True, math.nan, None], "mine must lie strictly between 0 and 1, got"),
        (named(inputs.probability), [5e-324], "mine must lie strictly between 0 and 1, at least 1e-300, got"),
        (named(inputs.whole), [0, 1.0, np.float64(3), "3", True, -(10**5000)], "mine must be a whole number >= 1, got"),
        (named(inputs.whole), [2**54, 10**5000], "mine must be a whole number from 1 to 9007199254740992, got"),
        (named(inputs.flag), ["no", 0, None, [True], 1.0], "mine must be True or False, got"),
        (named(inputs.choice, options=("a", "b")), ["c", 0, None], 'mine must be "a" or "b", got'),
        (named(inputs.listed, each=inputs.positive), ["12", [], None, 1.0, {1: 2}], "with at least one value, got"),
        (named(inputs.names_of), ["ab", [], ["a", "a"], [1], [""]], "mine must be names, at least one and each once"),
        (inputs.batch_shape_of, [-1, (2, -3), (1.5,), "ab", None, (True,), {2}], "batch_shape must be a"),
        (inputs.generator, [-1, 1.0, True, "3", None], "seed must be a whole number >= 0, got"),
        (named(inputs.array_of), [[[1], [1, 2]]], "mine must be an array or a list with rows of one length, got"),
        (named(inputs.array_of), [np.ma.masked_array([1, 0], [True, False])], "mine must not be masked (fill it"),
        (Names, [["a", "a"], ["1", "1.0"], ["é", "e\u0301"]], "states must have different names, got"),
    ],
)  # fmt: skip
def test_every_kind_of_argument(check: Callable[[Any], Any], values: list[Any], says: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=re.escape(says)):
            check(value)


MATRICES = [np.zeros((0, 3)), np.zeros((3, 0)), [], [[]], [0.5, 1.0], [[[0.5]]], 0.5]


@pytest.mark.parametrize(
    ("make", "values", "says"),
    [
        (lr.DecisionProblem, MATRICES, "utility must have shape [actions, states] with at least one of each, got ("),
        (lr.DecisionProblem.from_payoffs, MATRICES, "payoffs must have shape [actions, states] with at least"),
        (lr.DecisionProblem, [[[0.0, math.nan]], [[-math.inf, 0]]], "utility must be finite"),
        (lr.DecisionProblem, [[["left", "right"]], [[0.0, 1.0], [0.0]]], "utility must be a matrix of numbers"),
        (lr.DecisionProblem, [[[0, 2]], [[-1.0000001, 0]]], "utility must lie in [-1, 1], got values from"),
        (lambda v: lr.DecisionProblem(np.eye(2), actions=v), [["one"], list("abc"), []], "actions must name each of"),
        (lambda v: lr.DecisionProblem(np.eye(2), states=v), [["one"], list("abc"), []], "states must name each of"),
        (lambda v: lr.newsvendor([0, 1], price=v, cost=1), [math.nan, "1", -5], "price must be a finite number >= 0"),
        (lambda v: lr.newsvendor([0, 1], price=3, cost=v), [5], "cost must be at most the price 3, got 5"),
        (lambda v: lr.newsvendor(v, 2, 1), [[], [math.nan], "ab", [[1.0]], 1.0, None], "levels must be a"),
        (lambda v: lr.newsvendor(v, 2, 1), [[-1, 1]], "levels must not be negative, got -1"),
        (lambda v: lr.cost_loss(v, 1), [-1, None], "cost must be a finite number >= 0"),
        (lambda v: lr.trading([-1, 1], fee=v), [-1, True], "fee must be a finite number >= 0"),
        (lr.trading, [[0.1, 0.1], [math.inf]], "moves must be "),
        (lambda p: lr.matching(3).invert_quantal_response(p, 0.1), [EVEN], "two actions, this one has 3"),
        (lambda p: GAME.invert_quantal_response(p, 0.1), [[1e-30, 1 - 1e-30]], "policy is the quantal response to no"),
        (lambda v: lr.Recovery(memories=v), [3, (), (1,), "ab"], "memories must be a tuple of numbers"),
        (lambda v: lr.Actions(per=v), [0, -1, 1.5, "ab", [], ["a", "a"], [1], True], "per must be"),
        (lambda v: lr.References(*v), [(), ("a", "a"), (3,), ("",)], "References"),
        (lambda v: lr.Guard(GAME, streams=v), [-1, 1.5, "ab", [], ["a", "a"]], "streams must be"),
        (lambda v: lr.Guard(GAME, on_event=v), [3, "print"], "on_event must be a function of an event"),
        (lambda v: lr.Payoff.from_knots([[0, 1]], [0, 1], v), [["a", "b"]], "actions must be 1, one"),
        (lambda v: lr.backtest(COIN, [EVEN] * 2, [0, 1], scale=v), [np.array([1j, 2])], "scale at step 1 must be"),
        (lambda v: lr.gate(v, [0, 1], low=0, high=0.4), [torch.tensor([0.5, 0.5], requires_grad=True)], "new must be"),
        (lr.Guard(GAME, streams=4).restart, [[0, 4], -1, "all", [True, False]], "streams"),
    ],
)  # fmt: skip
def test_problems_and_settings(make: Callable[[Any], Any], values: list[Any], says: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=re.escape(says)):
            make(value)


NO_PROBLEM, NO_PREDICTOR = [None, np.eye(3), "matching"], [None, "model", EVEN]


@pytest.mark.parametrize(
    ("call", "values", "says"),
    [
        (lambda p: lr.policies.Respond(URN, p, 0.1), NO_PROBLEM, "problem must be a DecisionProblem, got {}"),
        (lambda p: lr.robustify(URN, p, 6), NO_PROBLEM[1:], "problem must be a DecisionProblem, got {}"),
        (lr.Guard, NO_PROBLEM, "problem must be a DecisionProblem, got {}"),
        (lambda p: lr.robustify(p, GAME, 6), NO_PREDICTOR, "predictor must be a Predictor, got {}"),
        (lambda p: lr.FromFunction(p, 3), NO_PREDICTOR, "fn must be a function of the history"),
        (lambda t: lr.robustify(URN, GAME, test=t), ["word", lr.ExactTest, URN], "test must be "),
        (lambda r: lr.robustify(URN, GAME, 6, response=r), [None, 0.1, lr.BestResponse()], "response must be "),
        (lambda p: lr.external_regret(GAME, p, [0, 1]), [URN], "policy must act and PolyaUrn only predicts"),
        (lambda g: lr.external_regret(GAME, g, [0, 1]), [lr.Guard(GAME)], "read guard.regret"),
        (lambda c: lr.Guard(GAME, against=c), [None, "desk", lr.Actions], "against must be "),
        (lambda t: lr.Guard(GAME, test=t), [None, False, 0.05, lr.ExactTest], "test must be "),
        (lambda f: lr.Guard(GAME, fallback=f), ["desk", lr.Recovery, 0.5], "fallback must be "),
        (lambda r: lr.Guard(GAME, response=r), [None, 0.1, lr.BestResponse], "response must be "),
    ],
)
def test_what_is_of_another_kind(call: Callable[[Any], Any], values: list[Any], says: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=re.escape(says.format(type(value).__name__))):
            call(value)


def advised() -> lr.Guard:
    guard = lr.Guard(TRADE)
    guard.advise(EVEN)
    return guard


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: advised().observe("sideways"), "state must be one of the states 'down', 'up', got 'sideways'"),
        (lambda: advised().observe("up", "wide"), "one of the actions 'short', 'flat', 'long', got 'wide'"),
        (lambda: advised().observe(1), "given by name, or as lowregret.problems.Positions(1)"),
        (lambda: advised().observe(None), "got None: it is missing"),
        (lambda: advised().observe(np.bool_(True)), "a bool means states named True and False, and is not a number"),
        (lambda: lr.Guard(TRADE).observe("up"), "advise(forecast) must come first"),
        (lambda: advised().advise(0.7), "got shape (); for a chance p of state 1 give [1 - p, p]"),
        (lambda: advised().advise([[0.3, 0.7]]), "got (1, 2); predict_proba gives a row for each x: take row [0]"),
        (lambda: advised().advise(EVEN, context=1), "context was not declared: Guard(problem, against=Actions(per=..."),
        (lambda: advised().advise(EVEN, references={"desk": EVEN}), "Guard(problem, against=Actions() + References("),
        (lambda: advised().advise(EVEN, payoffs=PAYOFFS), "Guard(problem.changing(low, high))"),
        (lambda: lr.backtest(TRADE, np.full(4, 0.5), ["up", "down"] * 2), "got shape (4,); for a chance p of state 1"),
        (lambda: lr.Guard(PAYOFFS), "got list: DecisionProblem.from_payoffs(matrix) makes one of payoffs"),
        (lambda: lr.Guard(TRADE, against=lr.Actions(per=3)), "contexts need a horizon, ExactTest(horizon=...)"),
        (lambda: lr.Guard(TRADE, fallback=lr.PolyaUrn(2)), "take response=QuantalResponse(), Recovery(), or a policy"),
        (lambda: lr.Guard(TRADE, fallback=lr.UseReference("desk")), "against=Actions() + References('desk')"),
        (lambda: lr.robustify(LogisticRegression(), TRADE, 3), "got LogisticRegression, a classifier of rows: Guarded"),
        (lambda: lr.RegretGap(None), "horizon=None (unknown) needs delta, the chance of a false alarm"),
        (lambda: lr.RegretGap(6, delta=0.1), "delta goes with horizon=None"),
        (
            lambda: lr.robustify(URN, GAME, None),
            "takes either a horizon or a test such as ExactTest(delta, horizon), got neither",
        ),
        (lambda: lr.robustify(URN, GAME, 6, test=lr.RegretGap(6)), "got both"),
        (lambda: lr.robustify(URN, GAME, 6).certificate.at(7), "step must be at most the horizon 6"),
    ],
)
def test_it_says_what_to_do(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


def test_hints_are_given_only_where_they_fit() -> None:
    with pytest.raises(ValueError, match=r"got shape \(2,\)$"):  # three states: no chance of "state 1" to complete
        lr.Guard(lr.rock_paper_scissors()).advise(EVEN)
    with pytest.raises(ValueError, match=r"got \(2, 2\)$"):  # two rows: which one is not for us to say
        advised().advise([[0.3, 0.7], [0.3, 0.7]])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_predictors_of_other_states(n: int) -> None:
    function = lr.FromFunction(lambda history: THIRDS, n)
    safe = lr.robustify(lr.PolyaUrn(n), lr.matching(n), 6)
    for stranger in (lr.PolyaUrn(n), lr.predictors.Scheduled(np.eye(n)), lr.Markov(np.eye(n), 1), function, safe):
        for call in (
            lambda p: lr.policies.Respond(p, GAME, 0.1),
            lambda p: lr.robustify(p, GAME, 6),
            lambda p: lr.robustify(URN, GAME, 6, fallback=p),
            lambda p: lr.Guard(GAME, response=lr.QuantalResponse(0.1), fallback=p),
        ):
            with pytest.raises(ValueError, match=f"predictor .*same states: .* predicts {n} states, .* has 3"):
                call(stranger)


def test_what_belongs_to_another_problem() -> None:
    named, urn = lr.DecisionProblem(COIN.utility, states=["x", "y"]), lr.PolyaUrn(2)
    priced = lr.DecisionProblem.from_payoffs([[3.0, 1.0], [1.0, 3.0]])
    for other, words in {
        named: r"states \['0', '1'\] against \['x', 'y'\]",
        lr.matching(3): "2 actions x 2 states.*against.*3 actions",
        priced: "utility .*, shift 0.0 against 2.0",
    }.items():
        with pytest.raises(ValueError, match=f"another problem: .*{words}"):
            lr.Guard(other, fallback=lr.policies.AdaHedge(COIN))
    with pytest.raises(ValueError, match=r"another problem: .*states "):
        lr.robustify(urn, named, 9, fallback=lr.Recovery(safe=lr.predictors.ShrunkUrn(COIN, 9)))
    with pytest.raises(ValueError, match=r"predictors\['h'\].* acts in another problem: .*states"):
        lr.compare({"h": lr.policies.Hedge(named, 9)}, {"u": urn}, COIN, 3, 2, 0)


@pytest.mark.parametrize("test", [lr.RegretGap(6), lr.RegretRate(6), lr.ExactTest(1 / 6, 6)], ids=lambda t: str(t)[:9])
def test_past_the_horizon_of_a_test(test: Any) -> None:
    safe, states = lr.robustify(URN, GAME, test=test), np.arange(8) % 3
    for call in (safe.alarm_times, safe.predict_sequence):
        with pytest.raises(ValueError, match="longer than the horizon: 8 steps"):
            call(states)
    stream = lr.predictors.Stream(safe)
    for state in states[:6]:
        stream.update(state)
    before = stream.state_dict()
    with pytest.raises(ValueError, match=r"horizon of 6 steps is over.*horizon=None"):
        stream.update(0)
    assert stream.state_dict() == before


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
