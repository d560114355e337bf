"""Everything public can be sent to another process and back, and copied: the same answers, the same certificates."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowregret as lr

COIN, HANDS = lr.matching(), lr.rock_paper_scissors()
STICKY = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
TOKENS = np.random.default_rng(0).integers(0, 2, (3, 20))


def last_token(history: np.ndarray) -> list[float]:
    return [0.5, 0.5] if len(history) == 0 else [0.9 - 0.8 * history[-1], 0.1 + 0.8 * history[-1]]


TESTS = {
    "ExactTest": lr.ExactTest(0.05, 20),
    "ExactTest, unknown horizon": lr.ExactTest(0.1),
    "RegretGap": lr.RegretGap(20),
    "RegretGap, unknown horizon": lr.RegretGap(None, delta=0.1),
    "RegretRate": lr.RegretRate(20),
    "VRegret": lr.VRegret(20),
    "VRegret, threshold": lr.VRegret(20, test="threshold"),
}
ROBUST = {
    f"Robust, {name}": lr.robustify(STICKY, None if isinstance(test, lr.VRegret) else COIN, test=test)
    for name, test in TESTS.items()
}
PREDICTORS = {
    "PolyaUrn": lr.PolyaUrn(2),
    "ShrunkUrn": lr.predictors.ShrunkUrn(COIN, 20),
    "Scheduled": lr.predictors.Scheduled([[0.9, 0.1], [0.2, 0.8]]),
    "Markov": STICKY,
    "FromFunction": lr.FromFunction(last_token, n_states=2),
    **ROBUST,
    "AverageRestart": lr.AverageRestart(STICKY, COIN, 1, 5, 20),
}
POLICIES = {
    "Respond": lr.policies.Respond(STICKY, COIN, 0.1),
    "Hedge": lr.policies.Hedge(COIN, 20),
    "AdaHedge": lr.policies.AdaHedge(COIN),
    "FixedShare": lr.policies.FixedShare(COIN, 20),
    "RestartHedge": lr.policies.RestartHedge(COIN, 5),
}
CERTIFIED = {**ROBUST, "AverageRestart": PREDICTORS["AverageRestart"], **POLICIES}
CERTIFICATES = {name: thing.certificate for name, thing in CERTIFIED.items() if hasattr(thing, "certificate")}


def stepped(thing: Any) -> Any:
    """The memory of a predictor or policy after the tokens."""
    memory = thing.start((3,))
    for t in range(10):
        memory = thing.update(memory, TOKENS[:, t])
    return memory


def leaves(value: Any) -> list[Any]:
    """The arrays and numbers of which a value is made, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    if isinstance(value, dict):
        return leaves([*value.items()])
    return [value]


def same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def certified(c: lr.Certificate) -> Any:
    return [c.to_dict(), str(c), c.at(7).to_dict(), c.sharpen().to_dict(), c.at(7).sharpen().to_dict()]


GUARDS = {
    "usual": {},
    "horizon": {"test": lr.ExactTest(horizon=20)},
    "no test": {"test": lr.NoTest()},
    "contexts and references": {
        "test": lr.ExactTest(horizon=20),
        "against": lr.Actions(per=1) + lr.References("desk"),
        "fallback": lr.UseReference("desk"),
    },
    "quantal": {"response": lr.QuantalResponse(0.1), "fallback": lr.policies.AdaHedge(COIN)},
    "lag": {"lag": 3},
}


def guard_after(settings: dict[str, Any]) -> lr.Guard:
    guard = lr.Guard(COIN, **settings, streams=3)
    for t in range(10):
        _step(guard, t)
    guard.restart([1])
    return guard


def _step(guard: lr.Guard, t: int) -> None:
    desk = {"references": {"desk": np.full((3, 2), 0.5)}, "context": [0] * 3} if guard.against.references else {}
    guard.advise(np.tile([0.95, 0.05], (3, 1)), **desk)
    guard.observe(TOKENS[:, t])


def guarded(guard: lr.Guard) -> Any:
    guard = copy.deepcopy(guard)  # asking twice must not go twice as far
    said = [guard.dumps(), repr(guard), [str(e) for e in guard.events], guard.certificate.to_dict()]
    _step(guard, 10)
    return [*said, guard.dumps(), guard.regret]


def problem_says(problem: lr.DecisionProblem) -> Any:
    law = np.full(problem.n_states, 1 / problem.n_states)
    return (
        [problem.utility, problem.actions, problem.states, problem.span, problem.contrast, hash(problem)],
        [problem.in_payoffs(0.3), problem.quantal_response(law, 0.1)],
    )


CASES: list[Any] = [
    pytest.param(thing, says, id=f"{kind}: {name}")
    for kind, things, says in (
        ("problem", {"coin": COIN, "hands": HANDS}, problem_says),
        ("test", TESTS, repr),
        ("predictor", PREDICTORS, lambda p: (p.predict_sequence(TOKENS), leaves(stepped(p)))),
        ("policy", POLICIES, lambda p: (p.policy_sequence(TOKENS), leaves(stepped(p)))),
        ("certificate", CERTIFICATES, certified),
        ("guard", {name: guard_after(settings) for name, settings in GUARDS.items()}, guarded),
    )
    for name, thing in things.items()
]


@pytest.mark.parametrize(("thing", "says"), CASES)
def test_what_comes_back_is_what_was_sent(thing: Any, says: Callable[[Any], Any]) -> None:
    said = says(thing)
    for again in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)):
        assert type(again) is type(thing)
        same(says(again), said)
    same(says(thing), said)  # and the one that stayed is as it was


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (COIN, "utility"),
        (PREDICTORS["Scheduled"], "probs_TxS"),
        (STICKY, "transition"),
        (STICKY, "initial"),
    ],
)
def test_copies_are_as_read_only_as_the_original(thing: Any, name: str) -> None:
    for one in (thing, pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing), copy.copy(thing)):
        with pytest.raises(ValueError, match="read-only"):
            getattr(one, name)[...] = 0.5


def test_a_certificate_travels_light() -> None:
    """What comes back from another process is the guarantee, not the base model it was given for."""
    table = np.full((2,) * 17, 0.5)  # a megabyte
    heavy = lr.Markov(table, window=16)
    for player in (
        lr.robustify(heavy, COIN, 100),
        lr.AverageRestart(heavy, COIN, 16, 20, 100),
    ):
        assert len(pickle.dumps(player.certificate)) < 10_000 < len(pickle.dumps(player))
