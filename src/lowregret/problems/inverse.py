"""Which belief is behind a mixed action: the quantal response of Section 2.3 the other way round, for two actions."""

import numpy as np

from .. import inputs
from ..arrays import Array, astype, constant, device, first, in_float64, last, namespace, softmax, to_numpy


def belief_behind(advantage: np.ndarray, policy: Array, temperature: float, near: Array | None) -> Array:
    """A belief whose quantal response is ``policy``; ``advantage[S]`` is what action 1 earns more than action 0."""
    n_states = len(advantage)
    policy = inputs.probs_of(policy, 2, "policy")
    temperature = inputs.positive(temperature, "temperature")
    if near is not None:
        near = inputs.probs_of(near, n_states, "near")
        if namespace(near) is not namespace(policy) or device(near) != device(policy):
            near = namespace(policy).asarray(to_numpy(near), device=device(policy))
        lead_shape = tuple(policy.shape[:-1])
        if near.ndim > policy.ndim or tuple(near.shape[:-1]) not in ((), lead_shape[policy.ndim - near.ndim :]):
            raise ValueError(f"near must have shape {(*lead_shape, n_states)}, got {tuple(near.shape)}")
    xp = namespace(policy)
    policy_A = in_float64(first(policy))
    # A saturated response (probability exactly 0) says only that the lead is at least the largest possible.
    edge = 2.0 * float(np.abs(advantage).max()) + 1.0
    tiny = float(xp.finfo(policy_A.dtype).smallest_normal)
    lead = temperature * (xp.log(xp.clip(policy_A[1], tiny, 1.0)) - xp.log(xp.clip(policy_A[0], tiny, 1.0)))
    lead = xp.where(policy_A[1] == 0, -edge, xp.where(policy_A[0] == 0, edge, lead))
    low, high = float(advantage.min()), float(advantage.max())
    saturated = (policy_A[0] == 0) | (policy_A[1] == 0)
    slack = 1e-9 + 1e-6 * temperature
    outside = ~saturated & ((lead < low - slack) | (lead > high + slack))
    if bool(xp.any(outside)):
        raise ValueError(
            f"policy is the quantal response to no belief at temperature {temperature:g}: in it action 1 leads by "
            f"{float(xp.min(lead)):.6g} to {float(xp.max(lead)):.6g}, under a belief by {low:.6g} to {high:.6g}"
        )
    if near is None:
        near = xp.full(n_states, 1.0 / n_states, dtype=policy_A.dtype, device=device(policy))
    near_S = xp.broadcast_to(
        xp.reshape(
            in_float64(first(near)),
            (n_states, *(1,) * (lead.ndim - near.ndim + 1), *near.shape[:-1]),
        ),
        (n_states, *lead.shape),
    )
    return astype(last(belief_with_lead(advantage, lead, near_S)), policy.dtype)


def belief_with_lead(advantage: np.ndarray, lead: Array, near_S: Array) -> Array:
    """The belief closest to ``near_S`` under which action 1 leads by ``lead``, short axis first, unchecked."""
    xp = namespace(lead)
    low, high = float(advantage.min()), float(advantage.max())
    if low == high:
        return near_S
    lead = xp.clip(lead, low, high)
    if len(advantage) == 2:
        second = (lead - advantage[0]) / (advantage[1] - advantage[0])
        return xp.stack([1 - second, second])
    advantage_S = xp.reshape(constant(advantage, lead), (-1, *(1,) * lead.ndim))
    log_near_S = xp.log(xp.clip(near_S, float(xp.finfo(near_S.dtype).smallest_normal), 1.0))
    # The lead of the tilted belief grows with the tilt; 1e5 / (high - low) is a point mass for all purposes.
    left = xp.zeros_like(lead) - 1e5 / (high - low)
    right = xp.zeros_like(lead) + 1e5 / (high - low)
    for _ in range(100):
        middle = (left + right) / 2
        belief_S = softmax(log_near_S + middle * advantage_S)
        above = xp.sum(belief_S * advantage_S, axis=0) > lead
        left, right = xp.where(above, left, middle), xp.where(above, middle, right)
    return softmax(log_near_S + (left + right) / 2 * advantage_S)
