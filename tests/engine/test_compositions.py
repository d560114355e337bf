"""Every composition of comparators, response, test, fallback, lag, forecast and streams that can be written.

Each is played step by step, as a recording, saved half-way and taken up again, and compiled where it can be.
"""

import itertools
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import (
    Actions,
    BestResponse,
    ExactTest,
    Inputs,
    NoTest,
    QuantalResponse,
    Recovery,
    References,
    UseReference,
    loop,
)
from lowregret.guard import Event, Guard
from lowregret.guard.events import events_of_trace

N, T, S = 3, 25, 3
GAME = lr.DecisionProblem([[0.9, -0.6, 0.1], [-0.4, 0.8, -0.2], [-0.5, -0.3, 0.7]])
ORDER = lr.Payoff(lambda q, y: np.minimum(q, y) - 0.4 * q, [2, 5, 8], low=-4, high=5, knots=range(11), outcomes=(0, 10))

AGAINST = {
    "actions": Actions(),
    "actions in contexts": Actions(per=2),
    "a reference": References("desk"),
    "actions and a reference": Actions() + References("desk"),
    "actions in contexts and a reference": Actions(per=2) + References("desk"),
}
RESPONSES = {"best": BestResponse(), "quantal": QuantalResponse(), "quantal at .1": QuantalResponse(0.1)}
TESTS = {
    "for a horizon": ExactTest(0.3, T),
    "for ever": ExactTest(0.3),
    "none, for a horizon": NoTest(T),
    "none, for ever": NoTest(),
}
FALLBACKS = {
    "Recovery": Recovery(),
    "UseReference": UseReference("desk"),
    "AdaHedge": lr.policies.AdaHedge(GAME),
    "Hedge": lr.policies.Hedge(GAME, T),
    "PolyaUrn": lr.PolyaUrn(S),
}
Telling = tuple[str, int, int, int, int | None]  # kind, stream, step, known, since
FORMS = ("states", "changing payoffs", "scale", "quantiles", "samples")


class Composition(NamedTuple):
    """One of each, by name."""

    against: str
    form: str
    response: str
    test: str
    fallback: str
    lag: int
    streams: int | None

    def guard(self) -> Guard:
        problem = ORDER if self.form in ("quantiles", "samples") else GAME
        return Guard(
            problem.changing(-1, 1) if self.form == "changing payoffs" else problem,
            against=AGAINST[self.against],
            response=RESPONSES[self.response],
            test=TESTS[self.test],
            fallback=FALLBACKS[self.fallback],
            lag=self.lag,
            streams=self.streams,
        )


ALL = [Composition(*one) for one in itertools.product(AGAINST, FORMS, RESPONSES, TESTS, FALLBACKS, (1, 3), (None, N))]


def why_not(c: Composition) -> str | None:
    """The reason why it cannot be; each is mathematics."""
    learns = c.fallback in ("AdaHedge", "Hedge", "PolyaUrn")
    if "contexts" in c.against and "ever" in c.test:
        return "contexts need a horizon"
    if c.fallback == "UseReference" and "reference" not in c.against:
        return "needs that reference"
    if learns and c.form in ("changing payoffs", "quantiles", "samples"):
        return "learns from states under fixed payoffs"
    if c.fallback == "PolyaUrn" and c.response == "best":
        return "the best response to it may lose every step"
    if c.fallback == "Hedge" and "ever" in c.test:
        return "was made for 25 steps"
    if learns and c.form == "scale":
        return "learns from the states alone"
    return None


@cache
def recorded(form: str) -> tuple[Inputs, np.ndarray]:
    """Three streams in which the model is wrong, right after a while, and wrong again."""
    rng = np.random.default_rng(FORMS.index(form))
    is_wrong_T = np.arange(T) % 20 < 12
    states = rng.integers(S, size=(N, T))
    if form in ("quantiles", "samples"):
        outcomes = np.array([1.0, 5.0, 9.0])[states] + rng.uniform(-1, 1, (N, T))
        centre = np.where(is_wrong_T, 10 - outcomes, outcomes)[..., None]
        spread = np.linspace(-1, 1, 4) if form == "quantiles" else rng.uniform(-1, 1, (N, T, 6))
        values, theirs = np.clip(centre + spread, 0, 10), np.clip(outcomes[..., None] + 3 * spread, 0, 10)
        made = (lambda v: lr.Quantiles([0.1, 0.4, 0.6, 0.9], v)) if form == "quantiles" else lr.Samples
        return Inputs(made(values), (made(theirs),), rng.integers(2, size=(N, T))), outcomes
    said = np.where(is_wrong_T, (states + 1) % S, states)
    probs = 0.8 * np.eye(S)[said] + 0.2 * rng.dirichlet(np.ones(S), (N, T))
    theirs = 0.4 * np.eye(S)[states] + 0.6 * rng.dirichlet(np.ones(S), (N, T))
    return Inputs(
        probs,
        theirs[:, :, None],
        rng.integers(2, size=(N, T)),
        rng.uniform(0.5, 1, (N, T)) if form == "scale" else None,
        GAME.utility + rng.uniform(-0.1, 0.1, (N, T, 3, S)) if form == "changing payoffs" else None,
    ), states


def of_composition(c: Composition) -> tuple[Inputs, np.ndarray]:
    """What of a recording is said to it."""
    said, outcomes = recorded(c.form)
    if "reference" not in c.against:
        said = said._replace(references=())
    return said._replace(context_N=said.context_N if "contexts" in c.against else None), outcomes


def advise(guard: Guard, said: Inputs, t: int) -> np.ndarray:
    """The next step, as a caller would ask for it; ``[N, A]``, or [1, A] of a single stream."""
    now = said.at((slice(None), t))
    streams = 0 if guard.is_alone else slice(None)

    def of(part: Any) -> Any:
        return part.at((streams,)) if hasattr(part, "at") else part[streams]

    theirs = now.references if isinstance(now.references, tuple) else (now.references[:, 0],)
    told = {"context": now.context_N, "scale": now.scale_N, "payoffs": now.payoffs}
    more = {name: of(part) for name, part in told.items() if part is not None}
    advice = guard.advise(of(now.forecast), references={"desk": of(theirs[0])} if theirs else None, **more)
    return np.atleast_2d(advice.policy)


def played(c: Composition, halves: bool) -> tuple[Guard, np.ndarray]:
    """Step by step, each outcome as late as it may come; with ``halves``, others take over half-way and after an event.

    Steps wait for their outcomes then: half-way the one just advised, after an alarm those advised before it.
    """
    guard, (said, outcomes) = c.guard(), of_composition(c)
    policies, due, saves = [], iter(outcomes[0] if guard.is_alone else outcomes.T), [T // 2] * halves
    for t in range(T):
        policies.append(advise(guard, said, t))
        if t in saves:
            guard = taken_over(c, guard)
        if t >= c.lag - 1:
            guard.observe(next(due))
        if halves and len(saves) == 1 and guard.events:
            guard = taken_over(c, guard)
            saves.append(T)
    for outcome in due:
        guard.observe(outcome)
    return guard, np.stack(policies, axis=1)


def taken_over(c: Composition, guard: Guard) -> Guard:
    other = c.guard()
    other.loads(guard.dumps())
    return other


def told(events: Iterable[Event]) -> list[Telling]:
    return [(type(e).__name__, e.stream or 0, e.step, e.known, getattr(e, "since", None)) for e in events]


class Run(NamedTuple):
    """How a composition went."""

    policy_NxTxA: np.ndarray
    evidence_N: np.ndarray  # in the end
    told: list[Telling]


def alike_in_all_ways(c: Composition) -> Run:
    """Step by step, taken up half-way, and recorded: the same, in the form that there is; saved to the last bit."""
    (guard, policy_NxTxA), (again, policy_again_NxTxA) = played(c, halves=False), played(c, halves=True)
    run = Run(policy_NxTxA, np.atleast_1d(guard.evidence[0]), told(guard.events))
    near(c, Run(policy_again_NxTxA, np.atleast_1d(again.evidence[0]), told(again.events)), run)
    (said, outcomes_NxT), n = of_composition(c), 1 if c.streams is None else c.streams
    form, some = loop.form_of(guard.engine), said.at((np.arange(n),))
    assert again.dumps() == guard.dumps() or isinstance(form, loop.Loop), c  # compiled, sums have no order
    trace = form.run(guard.engine.start(n), some, outcomes_NxT[:n])
    events = told(event for _, event in events_of_trace(guard.engine, trace))
    near(c, Run(trace.policy_NxTxA, trace.evidence_NxT[:, -1], events), run)
    return run


def near(c: Composition, found: Run, asked: Run) -> None:
    np.testing.assert_allclose(found.policy_NxTxA, asked.policy_NxTxA, rtol=0, atol=1e-12, err_msg=str(c))
    np.testing.assert_allclose(found.evidence_N, asked.evidence_N, rtol=1e-9, atol=1e-9, err_msg=str(c))
    assert found.told == asked.told, c


def in_arrays(c: Composition, patch: pytest.MonkeyPatch) -> Run:
    """As if nothing were compiled."""
    with patch.context() as here:
        here.setattr(loop, "is_ready", lambda: False)
        return alike_in_all_ways(c)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("against", ["actions", "actions in contexts"])
def test_regret_is_to_the_best_actions_in_hindsight(against: str, form: str) -> None:
    c = Composition(against, form, "best", "for a horizon", "Recovery", 3, N)
    guard, policy_NxTxA = played(c, halves=False)
    said, outcomes_NxT = of_composition(c)
    if form in ("quantiles", "samples"):
        paid_NxTxA = np.moveaxis(ORDER.paid(outcomes_NxT), 0, -1)
    elif form == "changing payoffs":
        paid_NxTxA = np.take_along_axis(said.payoffs, outcomes_NxT[..., None, None], axis=-1)[..., 0]
    else:
        paid_NxTxA = GAME.utility.T[outcomes_NxT] * (1.0 if said.scale_N is None else said.scale_N[..., None])
    lead_NxTxA = paid_NxTxA - (policy_NxTxA * paid_NxTxA).sum(axis=-1, keepdims=True)
    contexts_NxT = np.zeros((N, T)) if said.context_N is None else said.context_N
    apart = [(lead_NxTxA * (contexts_NxT == x)[..., None]).sum(axis=1).max(axis=-1) for x in np.unique(contexts_NxT)]
    np.testing.assert_allclose(guard.regret, sum(apart) / T, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_refused_and_why(form: str) -> None:
    for c in ALL:
        if c.form == form and c.lag == 1 and c.streams is None and (reason := why_not(c)) is not None:
            with pytest.raises(ValueError, match=reason):
                advise(c.guard(), of_composition(c)[0], 0)


def written(against: str, form: str) -> list[Composition]:
    return [c for c in ALL if c.against == against and c.form == form and why_not(c) is None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("against", AGAINST)
def test_some_compositions(against: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Composition(against, form, "best", "for a horizon", "Recovery", 3, N)
    runs = [in_arrays(c, monkeypatch) for c in (late, *written(against, form)[::29])]
    assert any(run.told for run in runs)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("against", AGAINST)
def test_every_composition(against: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_compiled = loop.warm_up()
    for c in written(against, form):
        run = in_arrays(c, monkeypatch)
        if is_compiled and c.fallback == "Recovery" and form in ("states", "changing payoffs", "scale"):
            assert isinstance(loop.form_of(c.guard().engine), loop.Loop)
            near(c, alike_in_all_ways(c), run)
