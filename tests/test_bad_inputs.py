"""Every bad input of the design is refused by name, wherever it may be given, and nothing is changed by the attempt."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import lowregret as lr
from lowregret.memory import saved

torch.set_num_threads(1)

SEEDED = settings(derandomize=True, deadline=None, database=None, phases=[Phase.generate, Phase.shrink])
few = settings(SEEDED, max_examples=12)
some = settings(SEEDED, max_examples=40)
many = settings(SEEDED, max_examples=200)

HORIZON = 6
GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.0]])  # two actions, three states
OTHER_GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.5]])
RULES = {
    "RegretGap": lr.RegretGap(GAME, HORIZON),
    "RegretRate": lr.RegretRate(GAME, HORIZON),
    "ExactTest": lr.ExactTest(GAME, HORIZON),
    "ExactTest, unknown horizon": lr.ExactTest(GAME, None, delta=0.1),
}
EVEN = [1 / 3, 1 / 3, 1 / 3]
PREDICTORS: dict[str, lr.Predictor] = {
    "PolyaUrn": lr.PolyaUrn(3),
    "Scheduled": lr.Scheduled([EVEN]),
    "Markov": lr.Markov(np.full((3, 3, 3), 1 / 3), context_len=2),
    "FromFunction": lr.FromFunction(lambda history: EVEN, 3),
    "FromFunction, batched": lr.FromFunction(lambda history: np.full((len(history), 3), 1 / 3), 3, batched=True),
    "Robust": lr.robustify(lr.PolyaUrn(3), GAME, HORIZON),
}


class Entry(NamedTuple):
    """A place where an argument is given: ``call(value)`` has everything else right."""

    call: Callable[[Any], Any]
    name: str  # what the message must call the argument
    n: int = 3  # the length of the last axis, or of the alphabet
    shape: tuple[int, ...] | None = None  # the axes it must have (before the last, for probabilities); None: any


class Bad(NamedTuple):
    value: Any
    says: tuple[str, ...]  # what the message must say of it


def refused(call: Callable[[Any], Any], name: str, bad: Bad) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is looked at below
        call(bad.value)
    message = str(caught.value)
    for words in (name, *bad.says):
        assert words in message, f"{words!r} is not said of {bad.value!r} in: {message}"


def over(entries: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", list(entries.values()), ids=list(entries))


# Probabilities


class Says(lr.Predictor):
    """A model that gives one law at the first step and another from then on, or one table for a whole sequence."""

    n_states = 3

    def __init__(self, law: Any, first: Any = None, sequence: Any = None) -> None:
        self.law, self.first, self.sequence = law, law if first is None else first, sequence

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> int:
        return 0

    def predict(self, memory: int) -> Any:
        return self.law if memory else self.first

    def update(self, memory: int, token: Any) -> int:
        return memory + 1

    def predict_sequence(self, tokens: Any) -> Any:
        return self.sequence


def robust(law: Any, first: Any = None, sequence: Any = None) -> lr.Robust:
    return lr.Robust(Says(law, first, sequence), RULES["ExactTest"])


def updated(law: Any) -> Any:
    safe = robust(law, first=EVEN)
    return safe.update(safe.start(), 0)


def advise(law: Any) -> Any:
    return lr.Guard(GAME, HORIZON, batch_shape=(2, 2)).advise(law)


def law_entries() -> dict[str, Entry]:
    entries = {
        "best_response": Entry(GAME.best_response, "beliefs"),
        "quantal_response": Entry(lambda p: GAME.quantal_response(p, 0.1), "beliefs"),
        "invert, policy": Entry(lambda p: GAME.invert_quantal_response(p, 0.1), "policy", n=2),
        "invert, near": Entry(lambda p: GAME.invert_quantal_response([0.5, 0.5], 0.1, near=p), "near"),
        "FromFunction": Entry(lambda p: one_law(p, False, ()), "what fn returned", shape=()),
        "FromFunction, batched": Entry(lambda p: one_law(p, True, (4,)), "what fn returned", shape=(4,)),
        "external_regret": Entry(
            lambda p: lr.external_regret(GAME, p, beside(p, [0, 1, 2])), "policy", n=2, shape=(3,)
        ),
        "Robust.start": Entry(lambda p: robust(p).start(), "the probabilities of Says", shape=()),
        "Robust.start, batch": Entry(lambda p: robust(p).start((4,)), "the probabilities of Says", shape=(4,)),
        "Robust.update": Entry(updated, "the probabilities of Says", shape=()),
        "Robust.trip_times": Entry(
            lambda p: robust(p, sequence=p).trip_times(beside(p, [0, 1])), "the probabilities of Says", shape=(2,)
        ),
        "Robust.predict_sequence": Entry(
            lambda p: robust(p, sequence=p).predict_sequence(beside(p, [0])), "the probabilities of Says", shape=(1,)
        ),
        "Guard.advise": Entry(lambda p: lr.Guard(GAME, HORIZON).advise(p), "probs", shape=()),
        "Guard.advise, batch": Entry(advise, "probs", shape=(2, 2)),
    }
    for name, rule in RULES.items():
        entries[f"{name}.update"] = Entry(lambda p, r=rule: r.update(r.start(), p, 0), "probs", shape=())
        entries[f"{name}.update, batch"] = Entry(
            lambda p, r=rule: r.update(r.start((2,)), p, [0, 1]), "probs", shape=(2,)
        )
        entries[f"{name}.trip_times"] = Entry(
            lambda p, r=rule: r.trip_times(p, beside(p, [[0, 1, 2], [2, 1, 0]])), "probs", shape=(2, 3)
        )
    return entries


def beside(law: Any, tokens: list) -> Any:
    return torch.tensor(tokens) if isinstance(law, torch.Tensor) else tokens


def one_law(law: Any, batched: bool, shape: tuple[int, ...]) -> Any:
    predictor = lr.FromFunction(lambda history: law, 3, batched=batched)
    return predictor.predict(predictor.start(shape))


CARRIERS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "numpy, float32": lambda x: x.astype(np.float32),
    "list": lambda x: x.tolist(),
    "torch": lambda x: torch.tensor(x),
    "torch, float32": lambda x: torch.tensor(x, dtype=torch.float32),
}
HALF = [np.float16, torch.float16, torch.bfloat16, torch.float8_e5m2]
NOT_REAL: dict[str, Callable[[np.ndarray], Any]] = {
    "bool": lambda x: x > 0.5,
    "complex": lambda x: x.astype(complex),
    "<U": lambda x: x.astype(str),
    "object": lambda x: x.astype(object),
}


VALUES = ("negative", "sum", "nan", "infinite")
TYPES = ("half", "kind")


def laws(rng: np.random.Generator, shape: tuple[int, ...], n: int) -> np.ndarray:
    return rng.dirichlet(np.ones(n), size=shape)


@st.composite
def bad_laws(draw: st.DrawFn, n: int, shape: tuple[int, ...] | None, ways: tuple[str, ...] = (), like: str = "") -> Bad:
    """A table of laws with one thing wrong, and what is to be said of it; ``shape=None``: it may have any."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lead = draw(st.sampled_from([(), (4,), (2, 3)])) if shape is None else shape
    way = draw(st.sampled_from(ways or (*VALUES, *TYPES, "width", "scalar", *(() if shape is None else ("shape",)))))
    good = laws(rng, lead, n)
    carry = CARRIERS[draw(st.sampled_from([name for name in CARRIERS if like in name]))]
    rows = good.reshape(-1, n)
    row, at = rows[draw(st.integers(0, len(rows) - 1))], draw(st.integers(0, n - 1))
    if way == "negative":
        row[at - 1] += row[at] + (deficit := draw(st.floats(1e-6, 0.9)))
        row[at] = -deficit
        value = carry(good)
        return Bad(value, ("must not be negative", f"{float(np.asarray(value).min()):.6g}"))
    if way == "sum":
        row *= 1 + draw(st.sampled_from([-1, 1])) * draw(st.floats(3e-6, 0.9))
        return Bad(carry(good), ("must sum to one within 1e-06", "off by"))
    if way == "nan":
        row[at] = math.nan
        return Bad(carry(good), ("sum to one", "NaN"))
    if way == "infinite":
        row[at] = draw(st.sampled_from([math.inf, -math.inf, 1e37, -1e37]))
        return Bad(carry(good), (f"{float(np.float32(row[at])):.1g}"[:2],))
    if way == "half":
        dtype = draw(st.sampled_from(HALF))
        even = np.full_like(good, 1 / n)
        value = even.astype(dtype) if dtype is np.float16 else torch.tensor(even).to(dtype)
        return Bad(value, ("half precision", str(value.dtype), "float32 or float64"))
    if way == "kind":
        kind = draw(st.sampled_from(list(NOT_REAL)))
        return Bad(NOT_REAL[kind](good), ("real floating-point numbers", f"got dtype {kind}"))
    if way == "width":
        value = carry(laws(rng, lead, draw(st.sampled_from([m for m in (1, 2, 3, 4, 7) if m != n]))))
        return Bad(value, ("must have", f"{n}", str(tuple(np.shape(value)))))
    if way == "scalar":
        return Bad(draw(st.sampled_from([1.0, 1, np.float64(1), np.ones(())])), ("must have", f"{n}", "()"))
    wrong = draw(st.sampled_from([s for s in ((), (1,), (5,), (*lead, 1), (1, *lead)) if s != lead]))
    value = carry(laws(rng, wrong, n))
    return Bad(value, (str((*lead, n)), str((*wrong, n))))


@over(law_entries())
@given(data=st.data())
@some
def test_probabilities_that_are_none(entry: Entry, data: st.DataObject) -> None:
    refused(entry.call, entry.name, data.draw(bad_laws(entry.n, entry.shape)))


TABLES = {
    "Scheduled": Entry(lr.Scheduled, "probs_TxS", shape=(3,)),
    "Markov, transition": Entry(lambda p: lr.Markov(p, context_len=1), "transition", shape=(3,)),
    "Markov, initial": Entry(lambda p: lr.Markov(np.eye(3), 1, initial=p), "initial", shape=()),
}


@over(TABLES)
@given(data=st.data())
@some
def test_tables_of_laws_that_are_none(entry: Entry, data: st.DataObject) -> None:
    refused(entry.call, entry.name, data.draw(bad_laws(entry.n, entry.shape, VALUES, "numpy")))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "bool", "complex", "str", "object"])
@over(TABLES)
def test_tables_of_another_type(entry: Entry, kind: str) -> None:
    assert entry.shape is not None
    certain = np.zeros((*entry.shape, 3))
    certain[..., 0] = 1
    value = torch.tensor(certain).to(torch.bfloat16) if kind == "bfloat16" else certain.astype(kind)
    refused(entry.call, entry.name, Bad(value, (kind.replace("str", "<U"),)))


@over(TABLES)
def test_tables_from_torch(entry: Entry) -> None:
    assert entry.shape is not None
    entry.call(torch.full((*entry.shape, 3), 1 / 3, dtype=torch.float64))


@pytest.mark.parametrize(
    "bad", [[], [[]], [0.5, 0.5], [[[0.5, 0.5]]], np.zeros((0, 2)), np.zeros((2, 0)), 1.0, None], ids=repr
)
def test_schedules_without_steps_or_states(bad: Any) -> None:
    with pytest.raises(ValueError, match="probs_TxS must"):
        lr.Scheduled(bad)


@pytest.mark.parametrize(
    ("transition", "length"),
    [([], 0), ([[]], 1), (np.eye(2), 0), (np.eye(2), 2), (np.eye(2)[:1], 1), (np.eye(3)[:2], 1), (1.0, 0), (None, 1)],
    ids=repr,
)
def test_transitions_of_another_shape(transition: Any, length: int) -> None:
    with pytest.raises(ValueError, match="transition must"):
        lr.Markov(transition, length)


@pytest.mark.parametrize("initial", [[1.0], [0.5, 0.5, 0.0], [[0.5, 0.5]], 1.0])
def test_initial_laws_of_another_shape(initial: Any) -> None:
    with pytest.raises(ValueError, match="initial must"):
        lr.Markov(np.eye(2), 1, initial=initial)


# Tokens, actions, streams


def token_entries() -> dict[str, Entry]:
    entries = {
        "Hedge.update": step_entry(lr.Hedge(GAME, HORIZON), ()),
        "Hedge.update, batch": step_entry(lr.Hedge(GAME, HORIZON), (4,)),
        "Hedge.policy_sequence": Entry(lr.Hedge(GAME, HORIZON).policy_sequence, "tokens"),
        "external_regret, tokens": Entry(lambda s: lr.external_regret(GAME, lr.Hedge(GAME, 3), s), "tokens"),
        "Guard.observe": Entry(lambda s: advised(()).observe(s), "state", shape=()),
        "Guard.observe, batch": Entry(lambda s: advised((2, 2)).observe(s), "state", shape=(2, 2)),
        "Guard.observe, action": Entry(lambda a: advised(()).observe(0, action=a), "action", 2, ()),
        "Guard.observe, batched action": Entry(
            lambda a: advised((4,)).observe([0, 1, 2, 0], action=a), "action", 2, (4,)
        ),
    }
    for name, predictor in PREDICTORS.items():
        act = lr.Respond(predictor, GAME, temperature=0.1)
        entries |= {
            f"{name}.update": step_entry(predictor, ()),
            f"{name}.update, batch": step_entry(predictor, (2, 2)),
            f"{name}.predict_sequence": Entry(predictor.predict_sequence, "tokens"),
            f"Stream({name}).update": Entry(lambda s, p=predictor: lr.Stream(p).update(s), "token", shape=()),
            f"Respond({name}).update": step_entry(act, (4,)),
            f"Respond({name}).policy_sequence": Entry(act.policy_sequence, "tokens"),
        }
    entries["Robust.trip_times"] = Entry(PREDICTORS["Robust"].trip_times, "tokens")
    for name, rule in RULES.items():
        entries[f"{name}.update"] = Entry(lambda s, r=rule: r.update(r.start(), EVEN, s), "token", shape=())
        entries[f"{name}.update, batch"] = Entry(
            lambda s, r=rule: r.update(r.start((4,)), [EVEN] * 4, s), "token", shape=(4,)
        )
        entries[f"{name}.trip_times"] = Entry(lambda s, r=rule: r.trip_times(laws_for(s), s), "tokens")
    return entries


def laws_for(tokens: Any) -> Any:
    ragged = isinstance(tokens, list) and tokens == [[0, 1], [0]]
    shape = (2, 2) if ragged else np.shape(tokens)
    even = np.full((*shape, 3), 1 / 3)
    return torch.tensor(even) if isinstance(tokens, torch.Tensor) else even


def step_entry(player: Any, shape: tuple[int, ...]) -> Entry:
    memory = player.start(shape)
    return Entry(lambda token: player.update(memory, token), "token", shape=shape)


def advised(shape: tuple[int, ...]) -> lr.Guard:
    guard = lr.Guard(GAME, HORIZON, batch_shape=shape)
    guard.advise(np.full((*shape, 3), 1 / 3))
    return guard


TOKEN_CARRIERS: dict[str, Callable[[np.ndarray], Any]] = {
    "int64": lambda x: x,
    "int8": lambda x: x.astype(np.int8),
    "list": lambda x: x.tolist(),
    "torch": lambda x: torch.tensor(x),
    "torch, int16": lambda x: torch.tensor(x, dtype=torch.int16),
}


RANGES = ("high", "low", "huge")


@st.composite
def bad_tokens(
    draw: st.DrawFn, n: int, shape: tuple[int, ...] | None, ways: tuple[str, ...] = (*RANGES, "float", "kind", "shape")
) -> Bad:
    """Tokens with one thing wrong; ``shape=None`` asks for sequences, which need a time step."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    fit = draw(st.sampled_from([(1,), (4,), (2, 3)])) if shape is None else shape
    way = draw(st.sampled_from(ways))
    good = rng.integers(n, size=fit)
    at = tuple(draw(st.integers(0, m - 1)) for m in fit)
    carry = TOKEN_CARRIERS[draw(st.sampled_from(list(TOKEN_CARRIERS)))]
    if way in ("high", "low"):
        good[at] = wrong = draw(st.integers(n, 120) if way == "high" else st.integers(-120, -1))
        return Bad(carry(good), (f"0..{n - 1}", str(wrong)))
    if way == "huge":
        wrong = draw(st.sampled_from([2**31, 2**62, 2**63, 2**64 - 1]))
        values = good.astype(np.uint64)
        values[at] = wrong
        return Bad(values, (f"0..{n - 1}", str(wrong)))
    if way == "float":
        value = CARRIERS[draw(st.sampled_from(list(CARRIERS)))](good.astype(np.float64))
        return Bad(value, ("integers", f"0..{n - 1}", "float"))
    if way == "kind":
        kind = draw(st.sampled_from(["bool", "<U", "object"]))
        value = good > 0 if kind == "bool" else good.astype(str if kind == "<U" else object)
        return Bad(value, ("integers", f"0..{n - 1}", f"got dtype {kind}"))
    wrong_shapes = [(), (0,), (3, 0)] if shape is None else [s for s in ((), (1,), (5,), (*fit, 1)) if s != fit]
    zeros = np.zeros(draw(st.sampled_from(wrong_shapes)), dtype=np.int64)
    value = zeros if zeros.size == 0 else carry(zeros)  # an empty list has no dtype of its own
    return Bad(value, ("time step" if shape is None else f"shape {fit}", str(zeros.shape)))


@over(token_entries())
@given(data=st.data())
@some
def test_tokens_that_are_none(entry: Entry, data: st.DataObject) -> None:
    refused(entry.call, entry.name, data.draw(bad_tokens(entry.n, entry.shape)))


@over(law_entries())
def test_laws_of_different_lengths(entry: Entry) -> None:
    refused(entry.call, entry.name, Bad([[1.0, 0.0, 0.0], [1.0]], ("rows of one length", "[1.0]")))


@over(token_entries())
def test_tokens_of_different_lengths(entry: Entry) -> None:
    refused(entry.call, entry.name, Bad([[0, 1], [0]], ("rows of one length", "[0]")))


@given(data=st.data())
@many
def test_actions_that_are_none(data: st.DataObject) -> None:
    bad = data.draw(bad_tokens(2, (4,), RANGES))
    refused(lambda actions: lr.external_regret(GAME, actions, beside(actions, [0, 1, 2, 0])), "policy", bad)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(
    ("probs", "tokens"), [([EVEN] * 3, [0, 1]), ([EVEN], [[0], [1]]), (EVEN, [0]), ([[EVEN] * 2], [0, 1])]
)
def test_probabilities_and_tokens_of_different_lengths(rule: lr.Rule, probs: Any, tokens: Any) -> None:
    with pytest.raises(ValueError, match=r"probs must have shape .* got"):
        rule.trip_times(probs, tokens)


STREAMS = {
    "high": Bad([0, 4], ("0..3", "4")),
    "negative": Bad(-1, ("0..3", "-1")),
    "float": Bad([0.0], ("0..3", "float64")),
    "short mask": Bad([True, False], ("(2,)", "4")),
    "deep mask": Bad(np.ones((4, 3), dtype=bool), ("(4, 3)", "4")),
    "words": Bad("all", ("0..3", "dtype")),
    "deep": Bad([[0, 1]], ("(1, 2)",)),
    "ragged": Bad([[0, 1], [0]], ("rows of one length", "[0]")),
}


@pytest.mark.parametrize("bad", STREAMS.values(), ids=STREAMS)
def test_streams_that_are_not_there(bad: Bad) -> None:
    guard = lr.Guard(GAME, HORIZON, batch_shape=(4, 3))
    before = guard.state_dict()
    refused(guard.restart, "streams", bad)
    assert guard.state_dict() == before


def test_one_stream_has_no_streams_to_restart() -> None:
    with pytest.raises(ValueError, match="streams needs a guard with a batch axis"):
        lr.Guard(GAME, HORIZON).restart([0])


# Numbers


NOT_NUMBERS: list[Any] = ["0.5", [0.5], True, False, 1j, np.array([0.5]), {}]
NOT_POSITIVE = st.one_of(
    st.floats(max_value=0),
    st.sampled_from([math.nan, math.inf, -math.inf, 0, -1, *NOT_NUMBERS]),
    st.integers(max_value=0),
)
NOT_A_CHANCE = st.one_of(
    st.floats(max_value=0), st.floats(min_value=1), st.integers(), st.sampled_from([math.nan, *NOT_NUMBERS])
)
NEGATIVE = st.one_of(
    st.floats(max_value=0, exclude_max=True), st.sampled_from([math.nan, math.inf, None, -1, *NOT_NUMBERS])
)
NOT_A_COUNT = st.one_of(
    st.integers(max_value=0), st.floats(), st.sampled_from([1.5, 1.0, np.float64(3), math.nan, *NOT_NUMBERS])
)


def sink(history: Any) -> Any:
    return EVEN


POSITIVE = {
    "quantal_response": (lambda v: GAME.quantal_response(EVEN, v), "temperature", False),
    "invert_quantal_response": (lambda v: GAME.invert_quantal_response([0.5, 0.5], v), "temperature", False),
    "Respond": (lambda v: lr.Respond(lr.PolyaUrn(3), GAME, v), "temperature", True),
    "RegretGap": (lambda v: lr.RegretGap(GAME, HORIZON, temperature=v), "temperature", True),
    "RegretRate": (lambda v: lr.RegretRate(GAME, HORIZON, temperature=v), "temperature", True),
    "ExactTest": (lambda v: lr.ExactTest(GAME, HORIZON, temperature=v), "temperature", True),
    "robustify": (lambda v: lr.robustify(lr.PolyaUrn(3), GAME, HORIZON, temperature=v), "temperature", True),
    "Guard": (lambda v: lr.Guard(GAME, HORIZON, temperature=v), "temperature", True),
    "Hedge, rate": (lambda v: lr.Hedge(GAME, HORIZON, rate=v), "rate", True),
    "PolyaUrn, prior": (lambda v: lr.PolyaUrn(3, prior=v), "prior", False),
    "RegretGap, alpha": (lambda v: lr.RegretGap(GAME, HORIZON, alpha=v), "alpha", False),
    "RegretRate, alpha": (lambda v: lr.RegretRate(GAME, HORIZON, alpha=v), "alpha", False),
}
CHANCES = {
    "ExactTest": (lambda v: lr.ExactTest(GAME, HORIZON, delta=v), "delta", True),
    "ExactTest, unknown horizon": (lambda v: lr.ExactTest(GAME, None, delta=v), "delta", False),
    "RegretGap, unknown horizon": (lambda v: lr.RegretGap(GAME, None, delta=v), "delta", False),
}
COUNTS = {
    "RegretGap": (lambda v: lr.RegretGap(GAME, v), "horizon", True),
    "RegretRate": (lambda v: lr.RegretRate(GAME, v), "horizon", True),
    "ExactTest": (lambda v: lr.ExactTest(GAME, v), "horizon", True),
    "robustify": (lambda v: lr.robustify(lr.PolyaUrn(3), GAME, v), "horizon", True),
    "Guard": (lambda v: lr.Guard(GAME, v), "horizon", True),
    "Hedge": (lambda v: lr.Hedge(GAME, v), "horizon", False),
    "sample": (lambda v: lr.sample(lr.PolyaUrn(3), v, 1, 0), "horizon", False),
    "paper_sources": (lr.sources.paper_sources, "horizon", False),
    "PolyaUrn": (lr.PolyaUrn, "n_states", False),
    "FromFunction": (lambda v: lr.FromFunction(sink, v), "n_states", False),
    "matching": (lr.matching, "n", False),
    "Certificate.at": (lambda v: RULES["ExactTest"].certificate.at(v), "step", False),
}


def number_refused(entry: Any, data: st.DataObject, values: st.SearchStrategy, may_be: str) -> None:
    call, name, none_is_fine = entry
    value = data.draw(values if none_is_fine else st.one_of(values, st.none()))
    refused(call, name, Bad(value, (() if value is None else (may_be, repr(value)))))


@over(POSITIVE)
@given(data=st.data())
@some
def test_numbers_that_must_be_positive(entry: Any, data: st.DataObject) -> None:
    number_refused(entry, data, NOT_POSITIVE, "positive finite number")


@over(CHANCES)
@given(data=st.data())
@some
def test_delta_outside_the_unit_interval(entry: Any, data: st.DataObject) -> None:
    number_refused(entry, data, NOT_A_CHANCE, "strictly between 0 and 1")


@given(data=st.data())
@many
def test_negative_gates(data: st.DataObject) -> None:
    entry = (lambda v: lr.ExactTest(GAME, HORIZON, gate=v)), "gate", True
    number_refused(entry, data, NEGATIVE.filter(lambda v: v is not None), ">= 0")


@over(COUNTS)
@given(data=st.data())
@some
def test_counts_that_are_none(entry: Any, data: st.DataObject) -> None:
    number_refused(entry, data, NOT_A_COUNT, "whole number >= 1")


@pytest.mark.parametrize("value", [-1, 1.0, math.nan, True, "3", None, [3]], ids=repr)
def test_counts_that_may_be_zero(value: Any) -> None:
    for call, name in (
        (lambda v: lr.sample(lr.PolyaUrn(3), 2, v, 0), "n"),
        (lambda v: lr.sample(lr.PolyaUrn(3), 2, 1, v), "seed"),
        (lambda v: advised(()).act(v), "seed"),
        (lambda v: advised((2,)).act(v), "seed"),
        (lambda v: lr.Markov(np.eye(2), v), "context_len"),
    ):
        refused(call, f"{name} must be a whole number >= 0", Bad(value, (repr(value),)))


BATCHES: list[Any] = [-1, (-1,), (2, -3), (1.5,), 1.5, "ab", None, (True,), ((2,),), {2}]


@pytest.mark.parametrize("shape", BATCHES, ids=repr)
def test_batch_shapes_that_are_none(shape: Any) -> None:
    starts = [p.start for p in PREDICTORS.values()] + [r.start for r in RULES.values()]
    starts += [lr.Hedge(GAME, HORIZON).start, lr.Respond(lr.PolyaUrn(3), GAME, 0.1).start]
    starts += [lambda s: lr.Guard(GAME, HORIZON, batch_shape=s), lambda s: lr.Stream(lr.PolyaUrn(3), s)]
    for start in starts:
        with pytest.raises(ValueError, match=r"batch_shape must be .*whole number.*, got"):
            start(shape)


# What is at stake


MATRICES: dict[str, Bad] = {
    "no actions": Bad(np.zeros((0, 3)), ("[actions, states]", "(0, 3)")),
    "no states": Bad(np.zeros((3, 0)), ("[actions, states]", "(3, 0)")),
    "empty": Bad([], ("[actions, states]", "(0,)")),
    "empty row": Bad([[]], ("[actions, states]", "(1, 0)")),
    "vector": Bad([0.5, 1.0], ("[actions, states]", "(2,)")),
    "cube": Bad([[[0.5]]], ("[actions, states]", "(1, 1, 1)")),
    "number": Bad(0.5, ("[actions, states]", "()")),
    "NaN": Bad([[0.0, math.nan]], ("finite", "1 entries")),
    "infinity": Bad([[math.inf, -math.inf]], ("finite", "2 entries")),
    "words": Bad([["left", "right"]], ("matrix of numbers", "left")),
    "ragged": Bad([[0.0, 1.0], [0.0]], ("matrix of numbers", "[0.0]")),
}


@pytest.mark.parametrize("bad", MATRICES.values(), ids=MATRICES)
def test_matrices_that_are_none(bad: Bad) -> None:
    refused(lr.DecisionProblem, "utility", bad)
    refused(lr.DecisionProblem.from_payoffs, "payoffs", bad)


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    wrong=st.floats(1.0000001, 1e6),
    sign=st.sampled_from([-1, 1]),
)
@many
def test_utilities_outside_the_unit_interval(rows: int, columns: int, seed: int, wrong: float, sign: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (rows, columns))
    matrix[rng.integers(rows), rng.integers(columns)] = sign * wrong
    refused(lr.DecisionProblem, "utility", Bad(matrix, ("[-1, 1]", f"{sign * wrong:.6g}", "from_payoffs")))


@pytest.mark.parametrize("names", [["one"], ["one", "two", "three"], []])
def test_names_that_do_not_fit(names: list[str]) -> None:
    for make in (lr.DecisionProblem, lr.DecisionProblem.from_payoffs):
        with pytest.raises(ValueError, match=rf"actions must name each of the 2 .* got {len(names)}"):
            make(np.eye(2), actions=names)
        with pytest.raises(ValueError, match=rf"states must name each of the 2 .* got {len(names)}"):
            make(np.eye(2), states=names)


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, [1.0], True], ids=repr)
def test_prices_that_are_none(value: Any) -> None:
    for call, name in (
        (lambda v: lr.newsvendor([0, 1], price=v, cost=1), "price"),
        (lambda v: lr.newsvendor([0, 1], price=2, cost=v), "cost"),
        (lambda v: lr.newsvendor([0, 1], price=2, cost=1, salvage=v), "salvage"),
        (lambda v: lr.cost_loss(cost=v, loss=1), "cost"),
        (lambda v: lr.cost_loss(cost=1, loss=v), "loss"),
        (lambda v: lr.trading([-1, 1], fee=v), "fee"),
    ):
        refused(call, f"{name} must be a finite number", Bad(value, (repr(value),)))


@pytest.mark.parametrize("value", [[], [math.nan], [0, math.inf], "ab", ["a"], [[1.0]], 1.0, None], ids=repr)
def test_levels_that_are_none(value: Any) -> None:
    for call, name in (
        (lambda v: lr.newsvendor(v, price=2, cost=1), "levels"),
        (lr.trading, "moves"),
        (lambda v: lr.trading([-1, 1], positions=v), "positions"),
    ):
        refused(call, f"{name} must be a ", Bad(value, (repr(value),)))


def test_only_two_actions_can_be_inverted() -> None:
    with pytest.raises(ValueError, match="two actions, this one has 3"):
        lr.matching(3).invert_quantal_response(EVEN, 0.1)
    with pytest.raises(ValueError, match=r"policy is the quantal response to no belief at temperature 0\.1"):
        GAME.invert_quantal_response([1e-30, 1 - 1e-30], 0.1)


# What does not fit together


@given(n=st.integers(1, 6).filter(lambda n: n != 3), data=st.data())
@many
def test_predictors_of_another_alphabet(n: int, data: st.DataObject) -> None:
    stranger: lr.Predictor = data.draw(
        st.sampled_from(
            [
                lr.PolyaUrn(n),
                lr.Scheduled(np.eye(n)),
                lr.Markov(np.eye(n), 1),
                lr.FromFunction(sink, n),
                lr.robustify(lr.PolyaUrn(n), lr.matching(n), HORIZON),
            ]
        )
    )
    call = data.draw(
        st.sampled_from(
            [
                lambda p: lr.Respond(p, GAME, 0.1),
                lambda p: lr.Robust(p, RULES["ExactTest"]),
                lambda p: lr.robustify(p, GAME, HORIZON),
                lambda p: lr.robustify(lr.PolyaUrn(3), GAME, HORIZON, fallback=p),
                lambda p: lr.Guard(GAME, HORIZON, fallback=p),
                lambda p: lr.RegretGap(GAME, HORIZON, fallback=p),
                lambda p: lr.RegretRate(GAME, HORIZON, fallback=p),
                lambda p: lr.ExactTest(GAME, HORIZON, fallback=p),
            ]
        )
    )
    refused(call, "predictor", Bad(stranger, ("same states", f"predicts {n} states", "has 3")))


def by_rule(predictor: lr.Predictor) -> list[Callable[..., Any]]:
    return [lambda *a, **k: lr.robustify(predictor, *a, **k), lr.Guard]


@given(
    rule=st.sampled_from(list(RULES.values())),
    given_=st.fixed_dictionaries(
        {}, optional={"fallback": st.just(lr.PolyaUrn(3)), "temperature": st.floats(0.01, 1.0)}
    ).filter(bool),
)
@some
def test_a_rule_brings_its_own_fallback_and_temperature(rule: lr.Rule, given_: dict[str, Any]) -> None:
    for make in by_rule(lr.PolyaUrn(3)):
        with pytest.raises(ValueError, match="fallback and temperature only build the default rule"):
            make(GAME, rule.horizon, rule=rule, **given_)


@given(horizon=st.integers(1, 99) | st.none(), rule=st.sampled_from(list(RULES.values())))
@many
def test_rules_for_another_horizon(horizon: int | None, rule: lr.Rule) -> None:
    for make in by_rule(lr.PolyaUrn(3)):
        if horizon == rule.horizon:
            make(GAME, horizon, rule=rule)
        else:
            with pytest.raises(ValueError, match=f"another horizon: {rule.horizon} against {horizon}"):
                make(GAME, horizon, rule=rule)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_for_another_problem(rule: lr.Rule) -> None:
    for make in by_rule(lr.PolyaUrn(3)):
        for problem in (OTHER_GAME, lr.matching(3), lr.matching(2), None):
            with pytest.raises(ValueError, match="rule was made for another problem"):
                make(problem, rule.horizon, rule=rule)


@pytest.mark.parametrize("rule", ["ExactTest", lr.ExactTest, 0.5, lr.PolyaUrn(3)], ids=repr)
def test_rules_that_are_none(rule: Any) -> None:
    for make in (*by_rule(lr.PolyaUrn(3)), lambda problem, horizon, rule: lr.Robust(lr.PolyaUrn(3), rule)):
        with pytest.raises(ValueError, match=f"rule must be a Rule such as ExactTest, got {type(rule).__name__}"):
            make(GAME, HORIZON, rule=rule)


@pytest.mark.parametrize("problem", [None, np.eye(3), "matching"], ids=["None", "matrix", "word"])
def test_problems_that_are_none(problem: Any) -> None:
    unknown = (lambda p: lr.Guard(p, HORIZON), lambda p: lr.robustify(lr.PolyaUrn(3), p, HORIZON))
    for make in (
        *(() if problem is None else unknown),  # None is a problem nobody knows, with two states: VRegret
        lambda p: lr.Respond(lr.PolyaUrn(3), p, 0.1),
        lambda p: lr.RegretGap(p, HORIZON),
        lambda p: lr.RegretRate(p, HORIZON),
        lambda p: lr.ExactTest(p, HORIZON),
    ):
        with pytest.raises(ValueError, match=f"problem must be a DecisionProblem, got {type(problem).__name__}"):
            make(problem)


@pytest.mark.parametrize("predictor", [None, "model", [0.5, 0.5]], ids=repr)
def test_predictors_that_are_none(predictor: Any) -> None:
    for make in (
        lambda p: lr.Robust(p, RULES["ExactTest"]),
        lambda p: lr.robustify(p, GAME, HORIZON),
        lambda p: lr.Respond(p, GAME, 0.1),
    ):
        with pytest.raises(
            ValueError, match=f"predictor must be a Predictor, got {type(predictor).__name__}: wrap a function"
        ):
            make(predictor)
    with pytest.raises(ValueError, match="fn must be a function of the history"):
        lr.FromFunction(predictor, 3)


def test_a_predictor_is_no_policy() -> None:
    with pytest.raises(ValueError, match="policy must act and PolyaUrn only predicts"):
        lr.external_regret(GAME, lr.PolyaUrn(3), [0, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: lr.external_regret(GAME, lr.Hedge(OTHER_GAME, 3), [0, 1, 2]),
        lambda: lr.external_regret(GAME, lr.Hedge(lr.matching(3), 3), [0, 1, 2]),
        lambda: lr.external_regret(np.eye(3), [0, 1, 2], [0, 1, 2]),
        lambda: lr.Hedge(np.eye(3), 3),
    ],
    ids=["another policy", "other actions", "matrix", "Hedge"],
)
def test_regret_and_hedge_look_at_their_problem(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="problem"):
        call()


@pytest.mark.parametrize("shape", [(2,), (1, 4), (4, 1)])
def test_near_must_fit_the_policy(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="near must"):
        GAME.invert_quantal_response([[0.5, 0.5]] * 3, 0.1, near=np.full((*shape, 3), 1 / 3))


def test_an_unknown_horizon_needs_a_delta() -> None:
    for make in (
        lambda: lr.ExactTest(GAME, None),
        lambda: lr.RegretGap(GAME, None),
        lambda: lr.Guard(GAME, None),
        lambda: lr.robustify(lr.PolyaUrn(3), GAME, None),
    ):
        with pytest.raises(ValueError, match=r"horizon=None .* needs an explicit delta"):
            make()
    with pytest.raises(ValueError, match="delta goes with horizon=None"):
        lr.RegretGap(GAME, HORIZON, delta=0.1)


@given(horizon=st.integers(1, 8), extra=st.integers(1, 5), kind=st.sampled_from(["gap", "rate", "exact"]))
@many
def test_past_the_horizon(horizon: int, extra: int, kind: str) -> None:
    rule = {"gap": lr.RegretGap, "rate": lr.RegretRate, "exact": lr.ExactTest}[kind](GAME, horizon)
    safe, guard = lr.Robust(lr.PolyaUrn(3), rule), lr.Guard(GAME, horizon, rule=rule)
    tokens = np.arange(horizon + extra) % 3
    with pytest.raises(ValueError, match=f"longer than the rule's horizon: {horizon + extra} steps"):
        rule.trip_times([EVEN] * len(tokens), tokens)
    for call in (safe.trip_times, safe.predict_sequence):
        with pytest.raises(ValueError, match=f"longer than the rule's horizon: {horizon + extra} steps"):
            call(tokens)
    watched, memory, stream = rule.start(), safe.start(), lr.Stream(safe)
    for token in tokens[:horizon]:
        guard.advise(EVEN)
        guard.observe(token)
        stream.update(token)
        watched, memory = rule.update(watched, EVEN, token), safe.update(memory, token)
    before = copy.deepcopy((guard.state_dict(), stream.state_dict()))
    over_ = rf"horizon of {horizon} steps is over.*restart\(\).*horizon=None"
    for call in (
        lambda: guard.advise(EVEN),
        lambda: stream.update(0),
        lambda: rule.update(watched, EVEN, 0),
        lambda: safe.update(memory, 0),
    ):
        with pytest.raises(ValueError, match=over_):
            call()
    assert (guard.state_dict(), stream.state_dict()) == before
    with pytest.raises(ValueError, match=f"step must be at most the horizon {horizon}"):
        lr.ExactTest(GAME, horizon).certificate.at(horizon + extra)


# Nothing is changed by the attempt


def law_of(rng: np.random.Generator, shape: tuple[int, ...], like: str) -> Any:
    values = laws(rng, shape, 3)
    return torch.tensor(values) if like == "torch" else values


@st.composite
def guards(draw: st.DrawFn) -> Callable[[], lr.Guard]:
    rule = draw(st.sampled_from(list(RULES.values())))
    shape = draw(st.sampled_from([(), (4,), (2, 2)]))
    return lambda: lr.Guard(GAME, rule.horizon, rule=rule, batch_shape=shape)


@given(make=guards(), like=st.sampled_from(["numpy", "torch"]), seed=st.integers(0, 2**32), data=st.data())
@settings(many, max_examples=100)
def test_a_guard_is_not_moved_by_what_it_refuses(
    make: Callable[[], lr.Guard], like: str, seed: int, data: st.DataObject
) -> None:
    guard, twin, rng = make(), make(), np.random.default_rng(seed)
    shape = guard.batch_shape
    tempted = np.random.default_rng(7)

    def attempt(call: Callable[[Any], Any], name: str, bad: Bad) -> None:
        before = copy.deepcopy(guard.state_dict())
        refused(call, name, bad)
        assert guard.state_dict() == before

    for _ in range(HORIZON):
        attempt(guard.observe, "advise(probs) must come before this", Bad(np.zeros(shape, dtype=int), ()))
        attempt(guard.act, "advise(probs) must come before this", Bad(tempted, ()))
        attempt(guard.advise, "probs", data.draw(bad_laws(3, shape)))
        law = law_of(rng, shape, like)
        first, second = guard.advise(law), twin.advise(law)
        assert np.array_equal(first, second)
        attempt(guard.advise, "probs", data.draw(bad_laws(3, shape)))
        attempt(guard.observe, "state", data.draw(bad_tokens(3, shape)))
        good = np.zeros(shape, dtype=np.int64)
        attempt(lambda action, s=good: guard.observe(s, action=action), "action", data.draw(bad_tokens(2, shape)))
        attempt(guard.act, "seed", Bad(-1, ("-1",)))
        attempt(guard.restart, "streams", Bad([99] if shape else [0], ()))
        attempt(guard.load_state_dict, "state_dict", Bad({"format": 2}, ("format 1",)))
        state, action = rng.integers(3, size=shape), rng.integers(2, size=shape)
        guard.observe(state, action=action)
        twin.observe(state, action=action)
    assert guard.state_dict() == twin.state_dict()
    assert tempted.random() == np.random.default_rng(7).random()
    assert np.array_equal(guard.regret, twin.regret)
    assert np.array_equal(guard.realised_regret, twin.realised_regret, equal_nan=True)
    assert guard.events == twin.events


@given(name=st.sampled_from(list(PREDICTORS)), shape=st.sampled_from([(), (4,), (2, 2)]), data=st.data())
@many
def test_a_stream_is_not_moved_by_what_it_refuses(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    stream, twin = (lr.Stream(PREDICTORS[name], shape) for _ in range(2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for _ in range(HORIZON):
        before, memory = copy.deepcopy(stream.state_dict()), stream.memory
        refused(stream.update, "token", data.draw(bad_tokens(3, shape)))
        with pytest.raises(ValueError, match="state_dict"):
            stream.load_state_dict(
                data.draw(st.sampled_from([{}, None, {"format": 1}, {"format": 1, "memory": [0, 0, 0, 0]}]))
            )
        assert stream.memory is memory
        assert stream.state_dict() == before
        token = rng.integers(3, size=shape)
        stream.update(token)
        twin.update(token)
    assert stream.state_dict() == twin.state_dict()
    assert np.array_equal(stream.predict(), twin.predict())


@given(name=st.sampled_from(list(RULES)), shape=st.sampled_from([(), (4,)]), data=st.data())
@many
def test_a_memory_is_not_moved_by_what_is_refused(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    rule, hedge = RULES[name], lr.Hedge(GAME, HORIZON)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    watched, weights = rule.start(shape), hedge.start(shape)
    for _ in range(3):
        law, token = laws(rng, shape, 3), rng.integers(3, size=shape)
        before = copy.deepcopy((saved(watched), saved(weights)))
        refused(lambda p, m=watched, s=token: rule.update(m, p, s), "probs", data.draw(bad_laws(3, shape)))
        refused(lambda s, m=watched, p=law: rule.update(m, p, s), "token", data.draw(bad_tokens(3, shape)))
        refused(lambda s, m=weights: hedge.update(m, s), "token", data.draw(bad_tokens(3, shape)))
        assert (saved(watched), saved(weights)) == before
        watched, weights = rule.update(watched, law, token), hedge.update(weights, token)


@given(data=st.data())
@few
def test_what_is_refused_is_not_changed_either(data: st.DataObject) -> None:
    bad = data.draw(bad_laws(3, ()))
    before = repr(bad.value)
    refused(lr.Guard(GAME, HORIZON).advise, "probs", bad)
    assert repr(bad.value) == before


# What is unusual and right


@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(), (4,), (2, 3)]),
    off=st.floats(-9e-7, 9e-7),
    carrier=st.sampled_from(["numpy", "list", "torch"]),
)
@many
def test_sums_off_by_less_than_a_millionth(seed: int, shape: tuple[int, ...], off: float, carrier: str) -> None:
    law = CARRIERS[carrier](laws(np.random.default_rng(seed), shape, 3) * (1 + off))
    token = np.zeros(shape, dtype=np.int64)
    guard = lr.Guard(GAME, HORIZON, batch_shape=shape)
    assert np.array_equal(guard.advise(law), np.asarray(law))
    guard.observe(token)
    assert np.isfinite(np.asarray(guard.regret)).all()
    assert np.shape(GAME.best_response(law)) == shape
    assert np.allclose(np.asarray(GAME.quantal_response(law, 0.1)).sum(-1), 1)
    if carrier != "torch":
        rule = RULES["ExactTest"]
        rule.update(rule.start(shape), law, token)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 400), like=st.sampled_from(["numpy, float32", "torch, float32"]))
@some
def test_single_precision_comes_back_as_it_came(seed: int, n: int, like: str) -> None:
    law = CARRIERS[like](laws(np.random.default_rng(seed), (2,), n))
    problem = lr.DecisionProblem(np.linspace(-1, 1, 2 * n).reshape(2, n))
    guard = lr.Guard(problem, HORIZON, batch_shape=(2,))
    assert guard.advise(law).dtype == law.dtype
    assert guard.policy().dtype == law.dtype
    assert problem.quantal_response(law, 0.1).dtype == law.dtype


def test_sums_do_not_depend_on_how_they_are_added() -> None:
    n = 50_000
    law = np.full((n, 2), 1 / n, dtype=np.float32).T  # states first in memory: NumPy adds them one after the other
    assert abs(float(law[0].sum(dtype=np.float64)) - 1) < 1e-7  # although adding in float32 is off by more than 1e-6
    assert abs(float(np.cumsum(law[0])[-1]) - 1) > 1e-6
    problem = lr.DecisionProblem(np.zeros((1, n)))
    assert problem.best_response(law).tolist() == [0, 0]


@pytest.mark.parametrize(
    "carry",
    [list, tuple, np.array, lambda p: np.array(p, dtype=np.uint8), torch.tensor],
    ids=["list", "tuple", "array", "uint8", "torch"],
)
def test_certain_laws_may_be_integers(carry: Any) -> None:
    law = carry([0, 1, 0])
    guard = lr.Guard(GAME, HORIZON)
    assert np.asarray(guard.advise(law)).tolist() == [0.0, 1.0, 0.0]
    guard.observe(1)
    assert guard.events == []
    assert int(GAME.best_response(law)) == 1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("name", PREDICTORS)
def test_tokens_of_any_integer_type(name: str, dtype: Any) -> None:
    predictor = PREDICTORS[name]
    tokens = np.array([[2, 0, 1, 1], [0, 2, 2, 1]])
    expected = predictor.predict_sequence(tokens)
    assert np.array_equal(predictor.predict_sequence(tokens.astype(dtype)), expected)
    memory = predictor.start((2,))
    for t in range(3):
        memory = predictor.update(memory, tokens[:, t].astype(dtype))
    assert np.allclose(predictor.predict(memory), expected[:, 3], atol=1e-12)
    assert np.array_equal(
        lr.external_regret(GAME, lr.Hedge(GAME, 4), tokens.astype(dtype)),
        lr.external_regret(GAME, lr.Hedge(GAME, 4), tokens),
    )
    one = lr.Stream(predictor)
    for token in tokens[0, :3].astype(dtype):  # NumPy scalars
        one.update(token)
    assert np.allclose(one.predict(), expected[0, 3], atol=1e-12)


@pytest.mark.parametrize("kind", ["gap", "rate", "exact"])
def test_one_state_or_one_action_is_a_problem(kind: str) -> None:
    for shape in ((1, 1), (1, 3), (3, 1)):
        problem = lr.DecisionProblem(np.linspace(-1, 1, shape[0] * shape[1]).reshape(shape))
        rule = {"gap": lr.RegretGap, "rate": lr.RegretRate, "exact": lr.ExactTest}[kind](problem, HORIZON)
        for batch in ((), (2,)):
            guard = lr.Guard(problem, HORIZON, rule=rule, batch_shape=batch)
            for _ in range(HORIZON):
                guard.advise(np.full((*batch, shape[1]), 1 / shape[1]))
                guard.observe(np.zeros(batch, dtype=np.int64), action=guard.act(0))
            assert np.isfinite(guard.regret).all()
        safe = lr.Robust(lr.PolyaUrn(shape[1]), rule)
        tokens = np.zeros((2, HORIZON), dtype=np.int64)
        assert safe.predict_sequence(tokens).shape == (2, HORIZON, shape[1])
        assert safe.trip_times(tokens).shape == (2,)
        assert problem.quantal_response(np.full(shape[1], 1 / shape[1]), 0.1).shape == (shape[0],)


@pytest.mark.parametrize("number", [1e-6, 1, np.float32(0.5), np.int64(2), 1e6], ids=repr)
def test_temperatures_of_any_type(number: Any) -> None:
    response = GAME.quantal_response([0.2, 0.3, 0.5], number)
    assert np.isfinite(response).all()
    assert response.sum() == pytest.approx(1)
    lr.Guard(GAME, np.int64(HORIZON), temperature=number).advise(EVEN)


def test_fleets_of_no_streams() -> None:
    guard = lr.Guard(GAME, HORIZON, batch_shape=(0,))
    assert guard.advise(np.zeros((0, 3))).shape == (0, 3)
    guard.observe(np.zeros(0, dtype=np.int64))
    assert guard.regret.shape == (0,)
    guard.restart([])
    assert lr.sample(lr.PolyaUrn(3), 4, 0, 0).shape == (0, 4)
    assert RULES["ExactTest"].trip_times(np.zeros((0, 4, 3)), np.zeros((0, 4), dtype=np.int64)).shape == (0,)
