"""The state of a guard: one value, which as bytes fits into a row of any database.

The bytes are a line that says what they are, a digest, and safetensors: the rows of all streams and the inputs of the
steps that wait as tensors; settings, events and counters as JSON in its header.
"""

import json
import re
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..engine import Engine, Inputs, Setting
from ..engine.loop import Loop
from ..forecasts import Forecast, Quantiles, Samples
from ..problems import DecisionProblem, Payoff
from .events import KINDS, Event, OutcomeGivenUp, OutcomeIgnored

FIRST_LINE = b"lowregret guard 1\n"
_DIGEST = 16  # bytes
LOST, MOST_LOST = (OutcomeGivenUp, OutcomeIgnored), 100  # of these the last are kept
_FORMS: dict[str, type[Forecast]] = {"Quantiles": Quantiles, "Samples": Samples}


class PendingStep(NamedTuple):
    """A step that waits for its outcome."""

    number: int
    inputs: Inputs
    dropped_N: np.ndarray  # streams in which it no longer counts: they were restarted since, or added since
    step: Any  # a Step, or what waits in the compiled loop


class State(NamedTuple):
    """Everything a guard remembers. A change makes a new one, and one assignment takes it."""

    rows_NxW: np.ndarray
    streams: tuple[str | int, ...]  # what each is called
    given: int  # how many streams there have ever been
    advised: int = 0  # the number of the last step that was advised
    waiting: tuple[PendingStep, ...] = ()
    events: tuple[Event, ...] = ()
    changes: int = 0  # how many there have been
    note: Any = None  # whatever JSON its owner wants kept with it

    def but(self, pending: PendingStep) -> tuple[PendingStep, ...]:
        """The steps that wait but for this one."""
        return tuple(one for one in self.waiting if one is not pending)

    def changed(self, fresh: tuple[Event, ...] = (), **parts: Any) -> "State":
        """With these parts and events. Of outcomes that were lost the last are kept: a feed of labels may break."""
        events = self.events + fresh
        if fresh and len(lost := [event for event in events if isinstance(event, LOST)]) > MOST_LOST:
            gone = set(map(id, lost[:-MOST_LOST]))
            events = tuple(event for event in events if id(event) not in gone)
        return self._replace(**parts, events=events, changes=self.changes + 1)


def advised_again(form: Engine | Loop, rows_NxW: np.ndarray, number: int, given: Inputs, was: Any, policy: Any) -> Any:
    """The step, rebuilt as it was when first advised: ``was`` it in force (the fallback), and which ``policy``."""
    then_NxW = rows_NxW.copy()
    form.head.open(then_NxW).alarm[:] = was
    step = form.advise(then_NxW, number, given)
    step.policy_NxA[...] = policy  # in streams that were restarted since, too
    return step


def regrouped(form: Engine | Loop, old: State, index_N: np.ndarray, streams: Sequence[str | int], given: int) -> State:
    """The state of the streams at these places, -1 for a new one, in which the steps that wait do not count."""
    rows, fresh_N = form.start(len(index_N)), index_N < 0
    rows[~fresh_N] = old.rows_NxW[index_N[~fresh_N]]
    form.head.open(rows).begun[fresh_N] = old.advised
    waiting, at_N = [], np.where(fresh_N, 0, index_N)
    for pending in old.waiting if len(old.rows_NxW) else ():  # where there were no streams, nothing was given
        own = pending.inputs.at((at_N,))
        was = pending.step.in_force_N[at_N], pending.step.policy_NxA[at_N]
        step = advised_again(form, rows, pending.number, own, *was)
        waiting.append(PendingStep(pending.number, own, pending.dropped_N[at_N] | fresh_N, step))
    return old.changed(rows_NxW=rows, streams=tuple(streams), given=given, waiting=tuple(waiting))


# Settings, by name: a state is taken up only by a guard that has the same.


def settings_of(setting: Setting, streams: str) -> dict[str, Any]:
    """What a guard is made of, as JSON values; ``streams``: whether it has one, numbered or named ones."""
    parts = {name: getattr(setting, name) for name in ("against", "test", "fallback", "response")}
    shown = {name: re.sub(r" at 0x[0-9a-f]+", "", f"{type(part).__name__}: {part!r}") for name, part in parts.items()}
    return {"problem": _problem(setting.problem), **shown, "lag": setting.lag, "streams": streams}


def _problem(problem: DecisionProblem | Payoff) -> dict[str, Any]:
    known = {"actions": list(map(str, problem.actions)), "is_changing": problem.is_changing}
    if isinstance(problem, DecisionProblem):
        low, high = (float(problem.in_payoffs(end)) for end in (-1.0, 1.0))
        return {**known, "states": list(problem.states), "utility": problem.utility.tolist(), "range": [low, high]}
    knots = [] if problem.knots is None else problem.knots.tolist()
    points = np.clip([*knots, -1.0, -0.1, 0.0, 0.1, 1.0, *np.clip(problem.outcomes, -1e9, 1e9)], *problem.outcomes)
    payoffs = problem.utilities(points)  # by which the function itself is known
    ends = [problem.low, problem.high, *problem.outcomes]
    return {**known, "range": ends, "knots": knots, "payoffs": np.round(payoffs, 6).tolist()}


# As bytes


def dumps(state: State, settings: dict[str, Any]) -> bytes:
    """A state as bytes."""
    import safetensors.numpy  # late: few save

    tensors, waiting = {"rows": state.rows_NxW}, []
    for i, pending in enumerate(state.waiting):
        held = {"in_force": pending.step.in_force_N, "dropped": pending.dropped_N, "policy": pending.step.policy_NxA}
        tensors |= {f"{i}.{name}": part for name, part in held.items()}
        given = {name: _into(part, f"{i}.{name}", tensors) for name, part in pending.inputs._asdict().items()}
        waiting.append({"number": pending.number, "said": given})
    kept = {name: getattr(state, name) for name in ("streams", "given", "advised", "changes", "note")}
    events = [{"kind": type(event).__name__, **event._asdict()} for event in state.events]
    about = {"settings": settings, **kept, "waiting": waiting, "events": events}
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    payload = safetensors.numpy.save(arrays, metadata={"guard": json.dumps(about)})
    return FIRST_LINE + blake2b(payload, digest_size=_DIGEST).digest() + payload


def loads(data: bytes, form: Engine | Loop, settings: dict[str, Any]) -> State:
    """The state that ``dumps`` gave of a guard with these settings; anything else is refused."""
    import safetensors.numpy  # late: few load

    about, payload = _opened(data)
    for name, mine in settings.items():
        theirs = about["settings"].get(name)
        if theirs != json.loads(json.dumps(mine)):
            raise ValueError(f"these bytes are of a guard with another {name}: {theirs!r}, and this one has {mine!r}")
    tensors = safetensors.numpy.load(payload)
    rows, waiting = tensors["rows"], []
    for i, held in enumerate(about["waiting"]):
        given = Inputs(**{name: _out_of(part, tensors) for name, part in held["said"].items()})
        step = advised_again(form, rows, held["number"], given, tensors[f"{i}.in_force"], tensors[f"{i}.policy"])
        waiting.append(PendingStep(held["number"], given, tensors[f"{i}.dropped"], step))
    events = tuple(KINDS[event.pop("kind")](**event) for event in about["events"])
    counts = about["given"], about["advised"]
    return State(rows, tuple(about["streams"]), *counts, tuple(waiting), events, about["changes"], about["note"])


def _opened(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON of a state, and the safetensors that hold it."""
    data, begin = bytes(data), len(FIRST_LINE) + _DIGEST  # databases give a memoryview, some of them
    payload = data[begin:]
    if not data.startswith(FIRST_LINE):
        raise ValueError(f"these bytes are not of a guard: they begin with {data[:20]!r}")
    if blake2b(payload, digest_size=_DIGEST).digest() != data[len(FIRST_LINE) : begin]:
        raise ValueError("these bytes of a guard were cut short or changed: their digest is not that of what they hold")
    (length,) = struct.unpack("<Q", payload[:8])
    return json.loads(json.loads(payload[8 : 8 + length])["__metadata__"]["guard"]), payload


def _into(part: Any, name: str, tensors: dict[str, np.ndarray]) -> Any:
    """What stands for a part of the inputs of a step, whose arrays go into ``tensors``."""
    if part is None:
        return None
    if isinstance(part, tuple):
        return [_into(one, f"{name}.{i}", tensors) for i, one in enumerate(part)]
    if isinstance(part, np.ndarray):
        tensors[name] = part
        return name
    form = type(part).__name__
    if form not in _FORMS:
        raise ValueError(
            f"a step that waits cannot be saved, since its {form} is no array: observe it first, or skip()"
        )
    parts = {field: np.asarray(values, dtype=np.float64) for field, values in part.to_dict().items()}
    tensors |= {f"{name}.{field}": values for field, values in parts.items()}
    return {"form": form, **{field: f"{name}.{field}" for field in parts}}


def _out_of(held: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(held, list):
        return tuple(_out_of(one, tensors) for one in held)
    if isinstance(held, dict):
        return _FORMS[held["form"]](**{field: tensors[name] for field, name in held.items() if field != "form"})
    return None if held is None else tensors[held]


def digest_of(data: bytes) -> bytes:
    """By which bytes of a guard are known."""
    return bytes(data[len(FIRST_LINE) : len(FIRST_LINE) + _DIGEST])
