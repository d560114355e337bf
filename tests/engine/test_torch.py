"""The same source on torch tensors: what is played, raised and remembered is what NumPy gives."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Engine, Inputs, Setting

pytestmark = pytest.mark.needs("torch")
BOTH = lr.Actions(per=2) + lr.References("desk")


@pytest.mark.parametrize(
    "parts",
    [{}, {"response": lr.QuantalResponse()}, {"test": lr.NoTest()}, {"against": BOTH, "test": lr.ExactTest(0.05, 80)}],
    ids=["default", "quantal", "no test", "informed"],
)
@pytest.mark.parametrize("lag", [1, 3])
def test_tensors_go_the_way_of_arrays(parts: dict[str, Any], lag: int) -> None:
    import array_api_compat.torch as xt
    import torch

    rng, (n, T) = np.random.default_rng(0), (6, 60)
    usual = {"against": lr.Actions(), "test": lr.ExactTest(), "fallback": lr.Recovery(), "response": lr.BestResponse()}
    made = {**usual, **parts, "lag": lag}
    plain, tensors = (Engine(Setting(lr.matching(3), **made, xp=xp)) for xp in (np, xt))
    told = [rng.dirichlet(np.ones(3), (n, T)), (), None]
    if made["against"] is BOTH:
        told = [told[0], rng.dirichlet(np.ones(3), (n, T, 1)), rng.integers(2, size=(n, T))]
    states = rng.integers(3, size=(n, T))
    mine, theirs = plain.start(n), tensors.start(n)
    for t in range(T):
        said = [part if part is None or isinstance(part, tuple) else part[:, t] for part in told]
        as_tensors = [torch.as_tensor(part) if isinstance(part, np.ndarray) else part for part in said]
        one, other = (
            plain.advise(mine, t + 1, Inputs(*said)),
            tensors.advise(theirs, t + 1, Inputs(*as_tensors)),
        )
        np.testing.assert_allclose(other.policy_NxA.numpy(), one.policy_NxA, atol=1e-12)
        mine, _ = plain.observe(mine, t + 1, one, states[:, t])
        theirs, _ = tensors.observe(theirs, t + 1, other, torch.as_tensor(states[:, t]))
    np.testing.assert_allclose(theirs.numpy(), mine, rtol=1e-9, atol=1e-12)
    assert (plain.head.open(mine).alarm > 0).any() == plain.setting.tests
