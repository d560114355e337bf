"""What is public can be sent to another process and back, and copied: the same answers, the same certificates.

Copies of guards are in ``tests/guard/test_steps.py``.
"""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowregret as lr

COIN = lr.matching()
STICKY = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
TOKENS = np.random.default_rng(0).integers(0, 2, (3, 20))
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
    "ShrunkUrn": lr.predictors.ShrunkUrn(COIN, 20),
    "Scheduled": lr.predictors.Scheduled([[0.9, 0.1], [0.2, 0.8]]),
    "Markov": STICKY,
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
CERTIFICATES = {name: thing.certificate for name, thing in PREDICTORS.items() if hasattr(thing, "certificate")}


def promised(certificate: lr.Certificate) -> list[Any]:
    return [str(one) for one in (certificate, certificate.at(7), certificate.sharpen(), certificate.at(7).sharpen())]


def in_payoffs(problem: lr.DecisionProblem) -> list[Any]:
    return [problem.utility, problem.actions, problem.states, problem.contrast, hash(problem), problem.in_payoffs(0.3)]


CASES: list[Any] = [
    pytest.param(thing, says, id=f"{kind}: {name}")
    for kind, things, says in (
        ("problem", {"coin": COIN, "hands": lr.rock_paper_scissors()}, in_payoffs),
        ("test", TESTS, lambda test: [repr(test)]),
        ("predictor", PREDICTORS, lambda p: [p.predict_sequence(TOKENS)]),
        ("policy", POLICIES, lambda p: [p.policy_sequence(TOKENS)]),
        ("certificate", CERTIFICATES, promised),
    )
    for name, thing in things.items()
]


@pytest.mark.parametrize(("thing", "says"), CASES)
def test_what_comes_back_is_what_was_sent(thing: Any, says: Callable[[Any], list[Any]]) -> None:
    for again in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)):
        assert type(again) is type(thing)
        for mine, theirs in zip(says(again), says(thing), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_certificate_travels_light() -> None:
    """What comes back from another process is the guarantee, not the base model it was given for."""
    heavy = lr.Markov(np.full((2,) * 17, 0.5), window=16)  # a megabyte
    for player in (lr.robustify(heavy, COIN, 100), lr.AverageRestart(heavy, COIN, 16, 20, 100)):
        assert len(pickle.dumps(player.certificate)) < 10_000 < len(pickle.dumps(player))
