"""A guard whose outcomes come late: bad input and garbled states are refused by name, and nothing has changed."""

import json
from typing import Any

import pytest
import torch

import lowregret as lr

MATCHING = lr.matching()


def test_bad_input_by_name_changes_nothing() -> None:
    guard = lr.Guard(MATCHING, 9, lag=3)
    for step in range(1, 5):
        guard.advise([0.6, 0.4])
        if step == 2:
            guard.observe(0, step=2)
        if step == 3:
            guard.skip(step=1)
    guard.advise([0.6, 0.4])  # steps 3, 4 and 5 wait
    before = json.dumps(guard.state_dict())
    for refused, message in (
        (lambda: guard.observe(0, step=1), "step 1 is over: with a lag of 3 .* before step 4 was advised"),
        (lambda: guard.observe(0, step=2), "step 2 is over"),
        (lambda: guard.observe(0, step=6), "step 6 has not been advised: the last was 5; those that wait: 3, 4, 5"),
        (lambda: guard.observe(2, step=3), "state must lie in 0..1, got 2"),
        (lambda: guard.observe(0, 5, step=3), "action must lie in 0..1, got 5"),
        (lambda: guard.observe(0, step=0), "step must be a whole number >= 1, got 0"),
        (lambda: guard.observe(0, step=1.5), "step must be a whole number"),  # type: ignore[arg-type]
        (lambda: guard.advise([0.5, 0.5]), "the outcome of step 3 is missing: with a lag of 3 .* before step 6"),
        (lambda: guard.advise([0.5, 0.5], step=8), "step must be the next, 6, or one that waits .*3, 4, 5.*, got 8"),
        (lambda: guard.advise([0.5, 0.6], step=4), "probs must sum to one"),
        (lambda: guard.advise(torch.tensor([0.5, 0.5]), step=4), "probs must stay the kind of array they were"),
        (lambda: guard.skip(step=2), "step 2 is over"),
        (lambda: guard.policy(step=9), "step 9 has not been advised"),
        (lambda: guard.act(seed=0, step=2), "step 2 is over"),
        (lambda: guard.restart(), "must wait for the outcomes of steps 3, 4, 5"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
        assert json.dumps(guard.state_dict()) == before
    guard.observe(1, step=4)
    with pytest.raises(ValueError, match="the outcome of step 4 has been seen already"):
        guard.observe(1, step=4)
    for refused, message in (
        (lambda: lr.Guard(MATCHING, 9, lag=0), "lag must be a whole number >= 1"),
        (lambda: lr.Guard(None, 9, lag=2), "lag must be 1 with this rule, got 2"),
        (lambda: lr.Guard(MATCHING, 9, lag=2, rule=lr.rules.RegretGap(MATCHING, 9)), "not by RegretGap"),
        (lambda: lr.Guard(MATCHING, 9).skip(), "no step waits for its outcome"),
        (lambda: lr.Guard(MATCHING, 9).advise([0.5, 0.5], step=2), "step must be the next, 1, got 2"),
        (lambda: lr.Guard(MATCHING, 9, lag=2).observe(0), "advise.forecast. must come before this"),
        (
            lambda: lr.Guard(MATCHING, 9, lag=2).load_state_dict(guard.state_dict()),
            "classes .3 against 2",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("waiting",), None),
        (("advised",), 0),
        (("waiting", 0, 0), 5),
        (("waiting", 0, 1, "dtype"), "int8"),
        (("waiting", 0), [1]),
        (("ledger", 0, 3, 2), -1),  # outcomes that never came
        (("ledger", 0, 3, 0, 0, 1), 7),  # steps of a class
        (("ledger", 0, 3, 0, 0, 1), 3),  # within its horizon, and more than were seen
    ],
)
def test_garbled_states_are_refused(path: tuple[Any, ...], value: Any) -> None:
    guard = lr.Guard(MATCHING, 9, lag=2)
    guard.advise([0.6, 0.4])
    state = guard.state_dict()
    at: Any = state
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(ValueError, match="state_dict"):
        lr.Guard(MATCHING, 9, lag=2).load_state_dict(json.loads(json.dumps(state)))
