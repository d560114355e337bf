"""A guard inside an adapter beside one that is driven by hand."""

import numpy as np

from lowregret.guard import Guard


def assert_same(one: Guard, other: Guard) -> None:
    """Equal to the bit: what both remember, what waits, and what happened."""
    np.testing.assert_array_equal(one._state.rows_NxW, other._state.rows_NxW)
    assert one.waiting == other.waiting
    for step in one.waiting:
        assert one.policy(step=step).tolist() == other.policy(step=step).tolist()
    assert one.events == other.events
    assert one.certificate.regret_bound == other.certificate.regret_bound
