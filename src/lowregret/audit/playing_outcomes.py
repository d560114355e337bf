"""Who would have been paid what where forecasts are of a number: at the outcomes themselves (``OutcomeTest``)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arrays import softmax
from ..guard import Guard, OutcomeGuard, Switch
from ..problems import Payoff
from .outcomes import OutcomeBlock, Outcomes, beside
from .playing import Played


def play_outcomes(guard: OutcomeGuard, block: OutcomeBlock, fallback: bool = True) -> Played:
    """The players on a block; ``guard`` says how the guard is made, and is not touched."""
    problem, rule = guard.problem, guard.rule
    assert isinstance(problem, Payoff)
    N, T = block.outcomes_NxT.shape
    utility_AxNxT = problem.paid(block.outcomes_NxT)
    live, experts = made_like(guard, N), rule.fallback
    paid = {name: np.zeros((N, T)) for name in ("model", "guard", *(("fallback",) if fallback else ()))}
    share_NxT, alone = np.ones((N, T)), experts.start((N,))
    for t, forecast in enumerate(block.forecasts):
        live.advise(forecast)
        seen, utility_A = live._seen(live._at), utility_AxNxT[..., t]
        share_NxT[:, t] = live.share
        paid["model"][:, t] = own = (seen.response_A * utility_A).sum(axis=0)
        paid["guard"][:, t] = (seen.played_A * utility_A).sum(axis=0)
        if fallback:  # over the actions and the response to the forecast, as after an alarm
            each_N = np.concatenate([utility_A, own[None]]).T
            paid["fallback"][:, t] = (experts.policy(alone) * each_N).sum(axis=-1)
            alone = experts.update(alone, each_N)
        live.observe(block.outcomes_NxT[:, t])
    before_AxNxT = np.cumsum(utility_AxNxT, axis=-1) - utility_AxNxT
    paid["Hedge"] = (softmax(before_AxNxT / np.sqrt(T)) * utility_AxNxT).sum(axis=0)
    trips_N = np.zeros(N, dtype=np.int64)
    for event in live.events:
        if isinstance(event, Switch):
            trips_N[event.stream] = event.step
    events = tuple((event.stream, event) for event in live.events)
    return Played(paid, utility_AxNxT.sum(axis=-1).T, share_NxT, trips_N, events, live.certificate)


def made_like(guard: OutcomeGuard, n: int) -> Any:
    """A fresh guard of ``n`` streams with the settings of this one."""
    return Guard(guard.problem, guard.horizon, rule=guard.rule, batch_shape=(n,))  # type: ignore[arg-type]


def waits(guard: OutcomeGuard, recording: Outcomes, i: int) -> Iterator[dict[str, Any]]:
    """The conditions of an alarm after each step of a stream."""
    live = made_like(guard, 1)
    for t, outcome in enumerate(recording.states[i]):
        live.advise(beside([recording.forecasts[i]], t))
        live.observe(np.array([outcome]))
        yield {"evidence": live.evidence}
