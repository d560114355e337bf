"""Laws, tokens and numbers that are none: what is wrong is said once, and everywhere with the argument's name."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr
from lowregret import inputs

from ..drawn import many, some
from .bad_inputs import EVEN, GAME, HORIZON, PREDICTORS, RANGES, TESTS, Bad, advised, bad_laws, bad_tokens, refused

# What is said of them


@given(shape=st.sampled_from([(), (4,), (2, 3)]), data=st.data())
@many
def test_laws_that_are_none(shape: tuple[int, ...], data: st.DataObject) -> None:
    bad = data.draw(bad_laws(shape))
    before = repr(bad.value)
    refused(lambda p: inputs.probs_of(p, 3, "mine", shape), "mine", bad)
    if len(shape) < 2:
        refused(lr.Guard(GAME, streams=shape[0] if shape else None).advise, "forecast", bad)
    assert repr(bad.value) == before


@given(shape=st.sampled_from([None, (), (4,), (2, 3)]), data=st.data())
@many
def test_tokens_that_are_none(shape: tuple[int, ...] | None, data: st.DataObject) -> None:
    check = inputs.sequences_of if shape is None else lambda s, n, name: inputs.tokens_of(s, n, name, shape)
    refused(lambda s: check(s, 3, "mine"), "mine", data.draw(bad_tokens(3, shape)))
    if shape in ((), (4,)):  # where states have names, what is written out is one: project/test_names.py
        guard = advised(shape[0] if shape else None)
        refused(guard.observe, "state", data.draw(bad_tokens(3, shape, (*RANGES, "shape"))))
        action = data.draw(bad_tokens(2, shape, (*RANGES, "float", "shape")))
        refused(lambda a: guard.observe(np.zeros(shape, dtype=int), action=a), "action", action)


NOT_NUMBERS: list[Any] = ["0.5", [0.5], True, 1j, np.array([0.5]), {}, None, math.nan]
NOT_POSITIVE = st.one_of(st.floats(max_value=0), st.sampled_from([math.inf, *NOT_NUMBERS]), st.integers(max_value=0))
NOT_A_CHANCE = st.one_of(
    st.floats(max_value=0), st.floats(min_value=1), st.integers(), st.sampled_from([math.nan, *NOT_NUMBERS])
)
NOT_A_COUNT = st.one_of(st.integers(max_value=0), st.floats(), st.sampled_from([1.0, np.float64(3), *NOT_NUMBERS]))


@pytest.mark.parametrize(
    ("check", "values", "wanted"),
    [
        (inputs.positive, NOT_POSITIVE, "positive finite number"),
        (inputs.probability, NOT_A_CHANCE, "strictly between 0 and 1"),
        (inputs.whole, NOT_A_COUNT, "whole number >= 1"),
        (lambda v, name: inputs.whole(v, name, least=0), NOT_A_COUNT.filter(lambda v: v != 0), "whole number >= 0"),
        (inputs.finite, st.sampled_from([math.inf, *NOT_NUMBERS]), "finite number"),
        (inputs.flag, st.sampled_from(["no", 0, None, [True], 1.0]), "True or False"),
    ],
    ids=["positive", "probability", "whole", "from 0", "finite", "flag"],
)
@given(data=st.data())
@some
def test_numbers_that_are_none(check: Any, values: st.SearchStrategy, wanted: str, data: st.DataObject) -> None:
    value = data.draw(values)
    refused(lambda v: check(v, "mine"), "mine must", Bad(value, (wanted, repr(value))))


@pytest.mark.parametrize("value", [-1, (-1,), (2, -3), (1.5,), 1.5, "ab", None, (True,), ((2,),), {2}], ids=repr)
def test_shapes_that_are_none(value: Any) -> None:
    for start in (
        PREDICTORS["PolyaUrn"].start,
        PREDICTORS["Robust"].start,
        lambda s: lr.predictors.Stream(lr.PolyaUrn(3), s),
    ):
        refused(start, "batch_shape must be ", Bad(value, ("whole number",)))


# Where they may be given


class Place(NamedTuple):
    call: Callable[[Any], Any]  # everything else is right
    name: str  # what the message must call it
    bad: tuple[Any, ...]


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


def robust(law: Any, first: Any = None, test: str = "ExactTest") -> lr.robust.Robust:
    return lr.robustify(Says(law, first, law), GAME, test=TESTS[test])


def one_law(law: Any, batched: bool, shape: tuple[int, ...]) -> Any:
    predictor = lr.FromFunction(lambda history: law, 3, batched=batched)
    return predictor.predict(predictor.start(shape))


def no_laws(*shape: int, n: int = 3) -> tuple[Any, ...]:
    certain = np.zeros((*shape, n))
    certain[..., 0] = 1
    return certain * math.nan, certain * 2, certain.astype(complex), torch.tensor(certain).to(torch.bfloat16), [[1], []]


def law_places() -> dict[str, Place]:
    start = robust(EVEN).start()
    found = {
        "best_response": Place(GAME.best_response, "beliefs", no_laws()),
        "quantal_response": Place(lambda p: GAME.quantal_response(p, 0.1), "beliefs", no_laws(4)),
        "invert, policy": Place(lambda p: GAME.invert_quantal_response(p, 0.1), "policy", no_laws(n=2)),
        "invert, near": Place(lambda p: GAME.invert_quantal_response([0.5, 0.5], 0.1, near=p), "near", no_laws()),
        "FromFunction": Place(lambda p: one_law(p, False, ()), "what fn returned", no_laws()),
        "FromFunction, batched": Place(lambda p: one_law(p, True, (4,)), "what fn returned", no_laws(4)),
        "external_regret": Place(lambda p: lr.external_regret(GAME, p, [0, 1]), "policy", no_laws(2, n=2)[:3]),
        "Robust.start": Place(lambda p: robust(p).start((4,)), "the probabilities of Says", no_laws(4)),
        "Robust.update": Place(lambda p: robust(p, EVEN).update(start, 0), "the probabilities of Says", no_laws()),
        "Robust.predict_sequence": Place(lambda p: robust(p).predict_sequence([0]), "probabilities of", no_laws(1)),
        "Scheduled": Place(lr.predictors.Scheduled, "probs_TxS", (*no_laws(3), [], [0.5, 0.5], np.zeros((2, 0)), 1.0)),
        "Markov": Place(lambda p: lr.Markov(p, 1), "transition", (*no_laws(3), [], np.eye(3)[:2], 1.0, None)),
        "Markov, deep": Place(lambda p: lr.Markov(p, 2), "transition", (np.eye(3),)),
        "Markov, initial": Place(lambda p: lr.Markov(np.eye(3), 1, initial=p), "initial", (*no_laws(), [1.0], 1.0)),
    }
    for test in TESTS:
        found[f"{test}, alarm_times"] = Place(
            lambda p, t=test: robust(p, test=t).alarm_times([0, 1]), "the probabilities of", (*no_laws(2), EVEN)
        )
    return found


def no_tokens(*shape: int, n: int = 3) -> tuple[Any, ...]:
    zeros = np.zeros(shape, dtype=np.int64)
    return zeros + n, zeros - 1, zeros * 1.0, zeros.astype(str), [[0, 1], [0]]


def step_place(player: Any, shape: tuple[int, ...]) -> Place:
    memory = player.start(shape)
    return Place(lambda token: player.update(memory, token), "token", (*no_tokens(*shape), np.zeros((*shape, 1), int)))


def token_places() -> dict[str, Place]:
    hedge = lr.policies.Hedge(GAME, HORIZON)
    found = {
        "Hedge.update": step_place(hedge, (4,)),
        "Hedge.policy_sequence": Place(hedge.policy_sequence, "tokens", no_tokens(4)),
        "external_regret": Place(lambda s: lr.external_regret(GAME, hedge, s), "tokens", no_tokens(4)),
        "external_regret, actions": Place(
            lambda a: lr.external_regret(GAME, a, [0, 1, 2, 0]), "policy", no_tokens(4, n=2)[:2]
        ),
        "Robust.alarm_times": Place(PREDICTORS["Robust"].alarm_times, "tokens", no_tokens(4)),
    }
    for name, player in PREDICTORS.items():
        act = lr.policies.Respond(player, GAME, temperature=0.1)
        found |= {
            f"{name}.update": step_place(player, (2, 2)),
            f"{name}.predict_sequence": Place(player.predict_sequence, "tokens", (*no_tokens(4), [])),
            f"Stream({name})": Place(lambda s, p=player: lr.predictors.Stream(p).update(s), "token", no_tokens()),
            f"Respond({name}).update": step_place(act, ()),
            f"Respond({name}).policy_sequence": Place(act.policy_sequence, "tokens", no_tokens(4)),
        }
    return found


NO_COUNT, NO_NUMBER, NO_CHANCE = (0, 1.5, "3", True), (0, -1.0, math.nan, "1", True), (0, 1, math.nan, "0.5", True)


def number_places() -> dict[str, Place]:
    policies = lr.policies
    return {
        "quantal_response": Place(lambda v: GAME.quantal_response(EVEN, v), "temperature", NO_NUMBER),
        "invert": Place(lambda v: GAME.invert_quantal_response([0.5, 0.5], v), "temperature", NO_NUMBER),
        "Respond": Place(lambda v: policies.Respond(lr.PolyaUrn(3), GAME, v), "temperature", NO_NUMBER),
        "QuantalResponse": Place(lr.QuantalResponse, "temperature", NO_NUMBER),
        "Hedge, rate": Place(lambda v: policies.Hedge(GAME, HORIZON, rate=v), "rate", NO_NUMBER),
        "PolyaUrn, prior": Place(lambda v: lr.PolyaUrn(3, prior=v), "prior", NO_NUMBER),
        "RegretRate, alpha": Place(lambda v: lr.RegretRate(HORIZON, alpha=v), "alpha", NO_NUMBER),
        "ExactTest": Place(lr.ExactTest, "delta", NO_CHANCE),
        "ExactTest, horizon": Place(lambda v: lr.ExactTest(horizon=v), "horizon", NO_COUNT),
        "NoTest": Place(lr.NoTest, "horizon", NO_COUNT),
        "Recovery, budget": Place(lambda v: lr.Recovery(budget=v), "budget", NO_NUMBER),
        "Recovery, share": Place(lambda v: lr.Recovery(share=v), "share", NO_CHANCE),
        "Recovery, memories": Place(lr.Recovery, "memories", (3, (), (1,), (math.nan,), "ab")),
        "Actions": Place(lambda v: lr.Actions(per=v), "per", (0, -1, 1.5, "ab", [], ["a", "a"], [1], True)),
        "References": Place(lambda v: lr.References(*v), "References", ((), ("a", "a"), (3,), ("",))),
        "Guard, lag": Place(lambda v: lr.Guard(GAME, lag=v), "lag", NO_COUNT),
        "Guard, streams": Place(lambda v: lr.Guard(GAME, streams=v), "streams", (-1, 1.5, "ab", [], ["a", "a"])),
        "RegretGap, delta": Place(lambda v: lr.RegretGap(None, delta=v), "delta", NO_CHANCE),
        "RegretGap": Place(lr.RegretGap, "horizon", NO_COUNT),
        "robustify": Place(lambda v: lr.robustify(lr.PolyaUrn(3), GAME, v), "horizon", NO_COUNT),
        "Hedge": Place(lambda v: policies.Hedge(GAME, v), "horizon", (*NO_COUNT, None)),
        "paper_sources": Place(lr.evaluate.sources.paper_sources, "horizon", (*NO_COUNT, None)),
        "PolyaUrn": Place(lr.PolyaUrn, "n_states", (*NO_COUNT, None)),
        "FromFunction": Place(lambda v: lr.FromFunction(lambda h: EVEN, v), "n_states", (*NO_COUNT, None)),
        "matching": Place(lr.matching, "n", (*NO_COUNT, None)),
        "Certificate.at": Place(lambda v: lr.Guard(GAME).certificate.at(v), "step", (*NO_COUNT, None)),
        "sample": Place(lambda v: lr.sample(lr.PolyaUrn(3), v, 1, 0), "horizon", (*NO_COUNT, None)),
        "sample, n": Place(lambda v: lr.sample(lr.PolyaUrn(3), 2, v, 0), "n", (-1, 1.0, True, "3", None)),
        "sample, seed": Place(lambda v: lr.sample(lr.PolyaUrn(3), 2, 1, v), "seed", (-1, 1.0, True, "3", None)),
        "Guard.act": Place(lambda v: advised().act(v), "seed", (-1, 1.0, True, "3", None)),
        "Guard.act, fleet": Place(lambda v: advised(2).act(v), "seed", (-1, 1.0, True, "3", None)),
        "Guard.advise, step": Place(lambda v: advised().advise(EVEN, step=v), "step", (0, 3, 1.0, "1", True)),
        "Markov": Place(lambda v: lr.Markov(np.eye(2), v), "window", (-1, 1.0, True, "3", None)),
        "Guard.restart": Place(
            advised(4).restart, "streams", ([0, 4], -1, "all", [True, False], np.ones((4, 3), dtype=bool))
        ),
    }


PLACES = law_places() | token_places() | number_places()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_everywhere_it_is_called_by_its_name(place: Place) -> None:
    for bad in place.bad:
        with pytest.raises(ValueError, match=rf"(?<!\w){re.escape(place.name)}(?!\w)"):
            place.call(bad)
