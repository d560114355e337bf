"""Every way in beside one literal loop: guards, backtests, audits, adapters and the command line, on drawn worlds.

A case is drawn from its door, its number and a seed. It passes if the door gives the loop's numbers, or refuses what
can be read in more than one way and says why; what can be read in one way only must be answered, and what means
nothing refused. ``python -m tests.house.test_doors 50000 --seed 1 --jobs 2`` tries so many and counts what came of
them; ``python -m tests.house.test_doors --door frame --case 17 --seed 1`` shows one.
"""

import argparse
import contextlib
import datetime as dt
import io
import json
import math
import re
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.cli.app import _app
from lowregret.problems import payoffs_in

from .. import literal_engine as by_hand
from .door_logs import Table, cells_in, frame_of, payoff_file, some_files, some_table
from .door_worlds import (
    MAY,
    MUST,
    REFUSE,
    Stream,
    World,
    as_number,
    meant,
    meant_of,
    named,
    some_world,
    strictest,
)

# The literal loop


class Seen(NamedTuple):
    """One stream, as a door or the loop tells of it; None: nothing is said."""

    steps: int
    regret: float | None = None  # of the guard, a step, in utility
    model: float | None = None  # payoffs a step
    guard: float | None = None
    best: float | None = None
    action: str | None = None
    switched_at: int | None = None
    more: tuple[tuple[str, float], ...] = ()


def softmax(values_A: np.ndarray) -> np.ndarray:
    weights_A = np.exp(values_A - values_A.max())
    return weights_A / weights_A.sum()


def literal(world: World, horizon: int | None = None) -> dict[Any, Seen]:
    """Every stream by hand: states are places in a matrix, and nothing has a name.

    The model's response, the best action and the bets are written out; what the guard plays after an alarm is asked of
    one that is told places and lists of numbers, whose alarm must be that of the bets.
    """
    payoffs_AxS, found = world.payoffs_AxS, {}
    low, high = payoffs_AxS.min(), payoffs_AxS.max()
    U = (payoffs_AxS - (high + low) / 2) / ((high - low) / 2)
    horizon = horizon or max(len(one.came) for one in world.streams)
    problem = lr.DecisionProblem.from_payoffs(payoffs_AxS)
    for one in world.streams:
        guard = lr.Guard(problem, horizon)
        rule, T = guard.rule, len(one.came)
        model = played = 0.0
        trip = None
        bets, laws_1xTxS, came_1xT = Bets(rule), np.asarray(one.laws_TxS)[None], np.asarray(one.came)[None]
        mixtures_SxT = rule.in_play.fallback.mixtures(laws_1xTxS, came_1xT)[:, 0]
        for t, (law_S, state) in enumerate(zip(one.laws_TxS, one.came, strict=True)):
            model += payoffs_AxS[int(np.argmax(U @ law_S)), state]
            if bets.reach(U, law_S, mixtures_SxT[:, t], state) and trip is None:
                trip = t + 1
            guard.advise(law_S.tolist())
            played += guard.policy() @ payoffs_AxS[:, state]
            guard.observe(state)
        asked = [event.step for event in guard.events if isinstance(event, lr.Switch)]
        if (asked[:1] or [None]) != [trip]:
            raise RuntimeError(f"the guard switched at {asked}, the bets at {trip}")
        earned_A = payoffs_AxS[:, one.came].sum(axis=1)
        best, action = earned_A.max(), world.action_names[int(earned_A.argmax())]
        regret = (best - played) / T / ((high - low) / 2)
        found[one.name] = Seen(T, regret, model / T, played / T, best / T, action, trip)
    return found


class Bets:
    """The wealth of all bettors of the usual test: those on actions, charged by pairs, and the one on the mixture."""

    def __init__(self, rule: lr.ExactTest) -> None:
        self.rule, self.t = rule, 0
        self.wealth_AxK = np.zeros((rule.problem.n_actions, len(rule.rates_K)))
        self.ratio = self.rise = self.spread = self.age = 0.0
        self.unspent = np.array([0.5, 0.5])

    def reach(self, U: np.ndarray, law_S: np.ndarray, mix_S: np.ndarray, state: int) -> bool:
        """One step: whether there is enough of it."""
        self.t += 1
        A, K = self.wealth_AxK.shape
        even = 0.5 / self.rule.horizon + 0.5 * (self.t == 1)
        joins_K = np.full(K, 0.125 / K * even)
        joins_K[0] += 0.375 * (self.t == 1)
        self.unspent -= [joins_K.sum(), 0.5 * even]
        b = int(np.argmax(U @ law_S))
        gain_AxS, rates_K = U - U[b], self.rule.rates_K
        low, high = -gain_AxS.min(axis=1, keepdims=True), gain_AxS.max(axis=1, keepdims=True)
        both = (low > 0) & (high > 0)
        mean = (low * np.exp(rates_K * high) + high * np.exp(-rates_K * low)) / np.where(both, low + high, 1.0)
        won_AxK = np.exp(rates_K * gain_AxS[:, [state]]) / np.where(both, mean, 1.0)
        self.wealth_AxK = (self.wealth_AxK + joins_K / A) * won_AxK
        actions = self.wealth_AxK.sum() + self.unspent[0]
        if law_S[state] == 0:
            return True
        self.ratio = (self.ratio + 0.5 * even) * mix_S[state] / law_S[state]
        gained = gain_AxS[int(np.argmax(U @ mix_S)), state]
        self.rise, self.spread, self.age = self.rise + gained, self.spread + gained**2, self.age + 1
        if self.rise <= 0:
            self.rise = self.spread = self.age = 0.0
        heard = self.rise > 0 and self.rise**2 >= self.spread * (np.log(1 + self.t / self.age) + 2)
        return bool(actions + heard * (self.ratio + self.unspent[1]) >= 1 / self.rule.delta)


# What a door found, beside it


class Different(Exception):
    """A door that gives other numbers than the loop."""


def compare(asked: dict[str, Seen], found: dict[str, Seen]) -> None:
    if sorted(asked) != sorted(found):
        raise Different(f"streams {sorted(found)[:4]} ({len(found)}) in place of {sorted(asked)[:4]} ({len(asked)})")
    for name, one in asked.items():
        for what, value in one._asdict().items():
            other = getattr(found[name], what)
            if other is None and what != "switched_at":
                continue
            if what == "more":
                same = all(close(told, dict(value).get(player)) for player, told in other)
            else:
                same = close(other, value) if isinstance(value, float) else other == value
            if not same:
                raise Different(f"{what} of {name!r} is {other}, by hand {value}")


def close(one: float, other: float | None) -> bool:
    return other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-8)


def plain(name: Any) -> str:
    """A stream's name as text: 1.0 is 1, and a day at midnight a day."""
    if isinstance(name, (float, np.floating)) and float(name).is_integer():
        name = int(name)
    return str(name).removesuffix(" 00:00:00")


def same_time(said: Any, cell: Any) -> bool:
    """Whether a switch is dated by what the log says: the number, the wall's time, or the instant with its zone."""
    if isinstance(cell, (int, float)):
        return said == int(cell)
    if not isinstance(said, str):
        return False
    if type(cell) is dt.date:
        cell = dt.datetime(cell.year, cell.month, cell.day)
    cell = dt.datetime.fromisoformat(cell) if isinstance(cell, str) else cell
    try:
        told = dt.datetime.fromisoformat(said.replace(" UTC", "+00:00").split("[")[0].strip())
    except ValueError:
        return False
    return (told.tzinfo is None) == (cell.tzinfo is None) and told == cell


# The doors: each draws a case and returns what it must do with it, what was drawn, and how to try it


class Case(NamedTuple):
    expected: str
    words: str
    attempt: Callable[[], Any]  # the door: raises Different, or a ValueError where it refuses
    switched: bool = False  # whether a stream of it switches, by hand


def problem_of(world: World, **more: Any) -> lr.DecisionProblem:
    return lr.DecisionProblem.from_payoffs(world.payoffs_AxS, world.actions, world.states, **more)


def named_seen(world: World, seen: dict[Any, Seen], alone: bool = False) -> dict[str, Seen]:
    return {"0" if alone else plain(name): one for name, one in seen.items()}


def any_switch(seen: dict[Any, Seen]) -> bool:
    return any(one.switched_at for one in seen.values())


def as_array(rng: np.random.Generator, values: list[Any]) -> Any:
    """A list, or an array of a type that holds it."""
    kinds = {type(value) for value in values}
    if len(kinds) > 1 or rng.random() < 0.3:
        return values
    kind = kinds.pop()
    if kind is int:
        return np.array(values, dtype=rng.choice(["int64", "int8", "int32"]))
    return np.array(values, dtype=object if kind not in (bool, float, str) or rng.random() < 0.2 else None)


def some_actions(rng: np.random.Generator, world: World, n: int) -> tuple[list[int], list[Any] | None]:
    """Actions that were taken, and how they are reported: by their places, as ``act`` gives them, by name, or not."""
    taken = rng.integers(0, len(world.payoffs_AxS), n).tolist()
    kind = rng.random()
    return taken, None if kind < 0.4 else taken if kind < 0.7 else [world.action_names[a] for a in taken]


def check_realised(world: World, one: Stream, taken: list[int], found: float) -> None:
    """Regret of the actions that were reported, by hand."""
    payoffs_AxS, T = world.payoffs_AxS, len(one.came)
    earned = sum(payoffs_AxS[action, state] for action, state in zip(taken, one.came, strict=True))
    regret = (payoffs_AxS[:, one.came].sum(axis=1).max() - earned) / T / (np.ptp(payoffs_AxS) / 2)
    if not close(float(found), regret):
        raise Different(f"realised regret is {found}, by hand {regret}")


def guard_door(rng: np.random.Generator, folder: Path) -> Case:
    """``Guard`` step by step: one stream, or several side by side."""
    world = some_world(rng, 2)
    side = len(world.streams) > 1
    if side:
        T = min(len(one.came) for one in world.streams)
        cut = [
            one._replace(written=one.written[:T], came=one.came[:T], laws_TxS=one.laws_TxS[:T]) for one in world.streams
        ]
        world = world._replace(streams=cut)
    seen, T = literal(world), len(world.streams[0].came)
    taken, told = some_actions(rng, world, T)

    def attempt() -> None:
        guard = lr.Guard(problem_of(world), T, batch_shape=(len(world.streams),) if side else ())
        for t in range(T):
            guard.advise(np.array([one.laws_TxS[t] for one in world.streams]) if side else world.streams[0].laws_TxS[t])
            now = [world.values[one.written[t]] for one in world.streams]
            if side:
                guard.observe(as_array(rng, now))
            else:
                guard.observe(now[0], None if told is None else told[t])
        for i, one in enumerate(world.streams):
            steps = [e.step for e in guard.events if isinstance(e, lr.Switch) and (not side or e.stream == i)]
            found = Seen(T, float(np.ravel(guard.regret)[i]), switched_at=steps[0] if steps else None)
            compare({"": seen[one.name]}, {"": found})
        if told is not None and not side:
            check_realised(world, world.streams[0], taken, guard.realised_regret)

    return Case(world.expected, _outcomes(world), attempt, any_switch(seen))


def _outcomes(world: World) -> str:
    kinds = sorted({type(value).__name__ for value in world.values})
    return f"outcomes {'/'.join(kinds)}, states {_kind(world.states)}"


def _kind(names: list[Any] | None) -> str:
    if names is None:
        return "unnamed"
    return "/".join(
        sorted({"number text" if isinstance(n, str) and as_number(n) is not None else type(n).__name__ for n in names})
    )


def arrays_door(rng: np.random.Generator, folder: Path) -> Case:
    """``lr.backtest`` of arrays: one stream, several of one length, or a list of any lengths."""
    world = some_world(rng)
    seen = literal(world)

    def attempt() -> None:
        problem = problem_of(world)
        states = [as_array(rng, [world.values[i] for i in one.written]) for one in world.streams]
        laws = [one.laws_TxS for one in world.streams]
        if len(laws) == 1:
            found = lr.backtest(problem, laws[0], states[0], fallback=False)
            compare(named_seen(world, seen, alone=True), in_backtest(found))
        else:
            names = [one.name for one in world.streams]
            found = lr.backtest(problem, laws, states, names=names, fallback=False)
            compare(named_seen(world, seen), in_backtest(found))

    return Case(world.expected, _outcomes(world), attempt, any_switch(seen))


def in_backtest(found: Any, *more: str) -> dict[str, Seen]:
    def seen(one: Any) -> Seen:
        told = tuple((name, one.earned[name]) for name in more)
        earned = one.earned["model"], one.earned["guard"], one.earned["best fixed action"]
        return Seen(one.steps, one.regret, *earned, one.best_action, one.switched_at, told)

    return {plain(one.stream): seen(one) for one in found.streams}


def check_gaps(table: Table, warned: bool) -> None:
    if table.gaps is not None and table.gaps != warned:
        raise Different(f"gaps: the warning is {'there' if warned else 'missing'}")


def frame_door(rng: np.random.Generator, folder: Path) -> Case:
    """``lr.backtest`` of a frame of pandas, polars or Arrow."""
    world = some_world(rng)
    table = some_table(rng, world, text=False)
    frame, kind = frame_of(rng, table)
    seen = literal(world)

    def attempt() -> None:
        told = dict(table.told)
        state = told.pop("state", None) if rng.random() < 0.5 else None
        found = lr.backtest(problem_of(world), frame, state, columns=told or None, fallback=False)
        compare(named_seen(world, seen, not _has_streams(table)), in_backtest(found))
        check_gaps(table, any("not as far" in note for note in found.warnings))

    expected = strictest(world.expected, table.expected)
    return Case(expected, f"{table.words}, states {_kind(world.states)}, {kind}", attempt, any_switch(seen))


def _has_streams(table: Table) -> bool:
    return table.roles["stream"] is not None and not table.no_streams and "stream unique" not in table.words


def some_log(
    rng: np.random.Generator, folder: Path, command: bool
) -> tuple[World, Table, Path, str, str, dict[str, Seen]]:
    """A world as a log on the disk, with what must be done about it, and the loop's numbers by name."""
    world, text = some_world(rng), bool(rng.random() < 0.5)
    table = some_table(rng, world, text, command, files=True)
    path, kind = some_files(rng, table, folder, text)
    if text:
        world, table = as_written(world, table, path)
    seen = named_seen(world, literal(world), not _has_streams(table))
    return world, table, path, strictest(world.expected, table.expected), kind, seen


def as_written(world: World, table: Table, path: Path) -> tuple[World, Table]:
    """What a CSV says is what stands in it: its writer chose how a truth or a number is spelt."""
    cells = dict(zip(table.rows, cells_in(path, str(table.roles["state"])), strict=True))
    read, streams = MUST, []
    for b, one in enumerate(world.streams):
        came, told = meant_of(world.state_names, [cells[b, t] for t in range(len(one.came))])
        read = strictest(read, told)
        streams.append(one._replace(came=one.came if came is None else came))
    if _has_streams(table):
        names = dict(zip(table.rows, cells_in(path, str(table.roles["stream"])), strict=True))
        streams = [one._replace(name=names[b, 0]) for b, one in enumerate(streams)]
    return world._replace(streams=streams, read=read), table


def check_log(table: Table, asked: dict[str, Seen], actions: tuple[str, ...], told: dict[str, Any]) -> None:
    """An audit as ``Audit.to_json`` has it."""
    found = {}
    for one in told["streams"]:
        earned = one["earned"]["model"], one["earned"]["guard"], one["earned"]["best fixed action"]
        found[one["stream"]] = Seen(one["steps"], one["regret"], *earned, one["best_action"], one["switched_at"])
    compare(asked, {name.removesuffix(" 00:00:00"): one for name, one in found.items()})
    if tuple(told["about"]["problem"]["actions"]) != actions:
        raise Different(f"actions {told['about']['problem']['actions']} in place of {actions}")
    names = {name: b for b, name in enumerate(asked)}
    for one in told["streams"]:
        if one["switched_at"] and table.cells is not None:
            cell = table.cells[names[one["stream"].removesuffix(" 00:00:00")]][one["switched_at"] - 1]
            if not same_time(one["switched_time"], cell):
                raise Different(f"switched_time is {one['switched_time']!r}, the log has {cell!r}")
    check_gaps(table, any("not as far" in note for note in told["warnings"]))


def audit_door(rng: np.random.Generator, folder: Path) -> Case:
    """``audit_log`` of a file or a folder."""
    world, table, path, expected, kind, seen = some_log(rng, folder, command=False)

    def attempt() -> None:
        events = bool(rng.random() < 0.3)
        found = audit_log(path, problem_of(world), columns=table.told or None, fallback=False, events=events, jobs=1)
        check_log(table, seen, world.action_names, json.loads(found.to_json()))

    return Case(expected, f"{table.words}, states {_kind(world.states)}, {kind}", attempt, any_switch(seen))


class Stopped(Exception):
    """A command that ended with a traceback."""


@cache
def command() -> Any:
    return _app()


def run(*arguments: Any) -> str:
    """What the command prints; a ValueError where it refuses."""
    done = CliRunner().invoke(command(), ["audit", *map(str, arguments)])
    if done.exit_code in (2, 4):
        raise ValueError(" ".join(done.output.split()))
    if done.exit_code not in (0, 3):
        trace = done.exc_info[2] if done.exc_info else None
        raise Stopped(f"exit {done.exit_code}: {done.exception!r} {done.output[-200:]}").with_traceback(trace)
    return done.output


def command_door(rng: np.random.Generator, folder: Path) -> Case:
    """``lowregret audit`` as a user types it."""
    world, table, path, expected, kind, seen = some_log(rng, folder, command=True)
    payoffs, how, clear = payoff_file(rng, world, folder)

    def attempt() -> None:
        told = {f"--{role}": name for role, name in table.told.items()}
        if table.no_streams:
            told["--stream"] = "none"
        if isinstance(told.get("--probs"), dict):
            told["--probs"] = ",".join(f"{state}={column}" for state, column in told["--probs"].items())
        elif "--probs" in told:
            told["--probs"] = ",".join(told["--probs"])
        options = [word for pair in told.items() for word in pair]
        said = run(
            path, "--payoffs", payoffs, "--out", folder / "out", "--no-fallback", "--no-events", "-j", "1", *options
        )
        check_log(table, seen, world.action_names, json.loads((folder / "out" / "audit.json").read_text()))
        for name in world.action_names:
            if name not in said:
                raise Different(f"the action {name!r} is not printed")
        if _has_streams(table) and str(table.roles["stream"]) not in said:
            raise Different(f"the column of streams, {table.roles['stream']!r}, is not printed")

    words = f"{table.words}, states {_kind(world.states)}, {kind}, payoffs {how}"
    return Case(strictest(expected, clear), words, attempt, any_switch(seen))


def payoffs_door(rng: np.random.Generator, folder: Path) -> Case:
    """The file that says what is at stake."""
    world = some_world(rng, 1, 20)
    path, how, clear = payoff_file(rng, world, folder)

    def attempt() -> None:
        found = payoffs_in(path)
        if found.actions != world.action_names or found.states != world.state_names:
            raise Different(
                f"actions {found.actions}, states {found.states}, of {world.action_names, world.state_names}"
            )
        if not np.allclose(found.in_payoffs(found.utility), world.payoffs_AxS, rtol=1e-12, atol=1e-9):
            raise Different(f"payoffs are {found.in_payoffs(found.utility).tolist()}")

    words = f"payoffs {how}, states {_kind(world.states)}, actions {_kind(world.actions)}"
    return Case(strictest(world.names, clear), words, attempt)


# Adapters


def of_classes(states: tuple[str, ...], labels: list[Any]) -> tuple[list[int] | None, str]:
    """How scikit-learn's labels are read: by name, or in their sorted order where states have no names."""
    if any(type(label) is not type(labels[0]) for label in labels):
        return None, MAY
    found, expected = meant_of(states, labels)
    if named(states) or found is not None:
        return found, strictest(
            expected, MUST if expected == REFUSE or {str(x) for x in labels} == set(states) else MAY
        )
    order = sorted(set(labels))
    return [order.index(label) for label in labels], MAY


class Model:
    """A model that knows its laws by heart: x is the number of a step."""

    def __init__(self, laws_TxS: np.ndarray, state_of: dict[Any, int]) -> None:
        self.laws_TxS, self.state_of = laws_TxS, state_of

    def fit(self, X: Any, y: Any) -> "Model":
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        places = [self.state_of[label] for label in self.classes_.tolist()]
        return self.laws_TxS[np.asarray(X)[:, 0].astype(int)][:, places]

    def predict_proba_one(self, x: dict[str, int]) -> dict[Any, float]:
        return {label: float(self.laws_TxS[x["t"], place]) for label, place in self.state_of.items()}

    def learn_one(self, x: Any, y: Any) -> None:
        pass


def by_classes(rng: np.random.Generator, reading: Any) -> tuple[World, list[Any] | None, list[Any]]:
    """A world of one stream for a classifier, the classes if they are told, and the labels as they come."""
    told = rng.random() < 0.3
    world = some_world(rng, 1, 26, (lambda states, values: (None, MUST)) if told else reading)
    stream = world.streams[0]
    labels = [world.values[i] for i in stream.written]
    if not told:
        return world, None, labels
    S = world.payoffs_AxS.shape[1]
    order = [world.values[i] for i in range(S)]  # in the order of the states: what is written for each
    came = [order.index(label) for label in labels]
    found = [meant(world.state_names, value) for value in order]
    places = [-1 if place is None else place for place, _ in found]
    turned = named(world.state_names) and sorted(places) == list(range(S)) != places  # their own names, out of order
    fine = MUST if not turned else REFUSE if all(sure for _, sure in found) else MAY
    if len(set(order)) < S or len({type(value) for value in order}) > 1:
        fine = MAY
    return world._replace(streams=[stream._replace(came=came)], read=fine), order, labels


def sklearn_door(rng: np.random.Generator, folder: Path) -> Case:
    """``GuardedClassifier``: a row at a time, or recorded rows in one go."""
    from lowregret.adapters.scikit_learn import GuardedClassifier

    world, classes, labels = by_classes(rng, of_classes)
    stream, seen = world.streams[0], literal(world)
    state_of = {label: place for label, place in zip(labels, stream.came, strict=True)}
    T, S, X = len(labels), world.payoffs_AxS.shape[1], np.arange(len(labels))[:, None]
    live, (taken, told) = rng.random() < 0.5, some_actions(rng, world, T)
    odd = any(isinstance(label, dt.date) or (isinstance(label, float) and not label.is_integer()) for label in labels)

    def attempt() -> None:
        model = GuardedClassifier(Model(stream.laws_TxS, state_of), problem_of(world), T, classes=classes)
        kind = None if type(labels[0]) in (bool, int, float, str) else object
        y, earned = np.array(labels, dtype=kind), None
        if live:
            model.fit(X[:S], y[:S])
            for t in range(T):
                for label, said in zip(model.classes_.tolist(), model.predict_proba(X[t : t + 1])[0], strict=True):
                    if not t and not close(said, stream.laws_TxS[0, state_of[label]]):
                        raise Different(f"predict_proba of {label!r} is {said}, by hand {stream.laws_TxS[0]}")
                model.observe(X[t : t + 1], y[t : t + 1], None if told is None else told[t : t + 1])
        else:  # after some rows to train on
            recorded = model.walk_forward(np.concatenate([X[:S], X]), np.concatenate([y[:S], y]), train=S)
            earned = float(recorded.payoffs.mean())
        steps = [event.step for event in model.events_ if isinstance(event, lr.Switch)]
        found = Seen(T, float(model.guard_.regret), guard=earned, switched_at=(steps or [None])[0])
        compare({"": seen[stream.name]}, {"": found})
        if told is not None and live:
            check_realised(world, stream, taken, model.guard_.realised_regret)

    expected = strictest(world.expected, MAY if odd else MUST)
    return Case(expected, f"{_outcomes(world)}, classes {'told' if classes else 'by name'}", attempt, any_switch(seen))


def river_door(rng: np.random.Generator, folder: Path) -> Case:
    """``GuardedRiverClassifier``, label by label."""
    from lowregret.adapters.river_models import GuardedRiverClassifier

    world, classes, labels = by_classes(rng, meant_of)
    stream, seen = world.streams[0], literal(world)
    state_of = {label: place for label, place in zip(labels, stream.came, strict=True)}

    def attempt() -> None:
        model = Model(stream.laws_TxS, state_of)
        guarded = GuardedRiverClassifier(model, problem_of(world), len(labels), classes=classes, floor=0.0)
        for t, label in enumerate(labels):
            law = guarded.predict_proba_one({"t": t})
            said = next((p for key, p in law.items() if meant((plain(key),), label)[0] == 0), -1.0)
            if not t and not close(said, stream.laws_TxS[0, stream.came[0]]):
                raise Different(f"predict_proba_one is {law}, by hand {stream.laws_TxS[0]}")
            guarded.learn_one({"t": t}, label)
        steps = [event.step for event in guarded.events if isinstance(event, lr.Switch)]
        found = Seen(len(labels), float(guarded.guard.regret), switched_at=(steps or [None])[0])
        compare({"": seen[stream.name]}, {"": found})

    return Case(
        world.expected, f"{_outcomes(world)}, classes {'told' if classes else 'by name'}", attempt, any_switch(seen)
    )


# What else was known before the state


class Known(NamedTuple):
    """Of every stream, by step."""

    contexts: list[list[Any]] | None
    references: dict[str, list[np.ndarray]]
    payoffs: list[np.ndarray] | None  # [T, A, S]
    scale: list[np.ndarray] | None


CONTEXTS: tuple[list[Any], ...] = (
    ["Mon", "Tue"], [3, 1, 2], [True, False], [1, True], ["1", 1], [0.5, 2.0], ["step", "None", "日本"],
    [dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
)  # fmt: skip


def some_known(rng: np.random.Generator, world: World) -> Known:
    S, lengths = world.payoffs_AxS.shape[1], [len(one.came) for one in world.streams]
    kinds = [name for name in ("contexts", "references", "payoffs", "scale") if rng.random() < 0.45] or ["contexts"]
    contexts = payoffs = scale = None
    if "contexts" in kinds:
        pool = CONTEXTS[rng.integers(len(CONTEXTS))]
        contexts = [[pool[i] for i in rng.integers(0, len(pool), T)] for T in lengths]
    names = [str(name) for name in rng.permutation(["today", "model", "guard", "None", "日本"])[: rng.integers(1, 3)]]
    references = {name: [rng.dirichlet(np.ones(S), T) for T in lengths] for name in names if "references" in kinds}
    if "payoffs" in kinds:
        payoffs = [world.payoffs_AxS * rng.uniform(0.3, 1, (T, 1, 1)) for T in lengths]
    if "scale" in kinds:
        scale = [rng.uniform(0.2, 1, T) for T in lengths]
    return Known(contexts, references, payoffs, scale)


def all_contexts(contexts: list[list[Any]]) -> list[Any]:
    """The contexts there are: a truth is no number."""
    found: dict[Any, Any] = {}
    for value in (value for part in contexts for value in part):
        found.setdefault((isinstance(value, bool), value), value)
    return list(found.values())


def literal_told(world: World, known: Known, guard: Any, problem: lr.DecisionProblem) -> dict[Any, Seen]:
    """The same as ``literal`` where more was known: the test, the way back and the fallback alone, by hand."""
    rule, found = guard.rule, {}
    shift, scale = float(problem.in_payoffs(0.0)), float(problem.regret_in_payoffs(1.0))
    labels = [(isinstance(v, bool), v) for v in all_contexts(known.contexts)] if known.contexts else []
    for b, one in enumerate(world.streams):
        T = len(one.came)
        steps, money = [], []
        for t in range(T):
            matrix = world.payoffs_AxS if known.payoffs is None else known.payoffs[b][t]
            share = 1.0 if known.scale is None else float(known.scale[b][t])
            context = known.contexts[b][t] if known.contexts else None
            place = labels.index((isinstance(context, bool), context)) if known.contexts else 0
            laws = tuple(theirs[b][t] for theirs in known.references.values())
            utility = partial(np.take, (matrix - shift) / scale, axis=1)
            steps.append(by_hand.Told(one.laws_TxS[t], laws, place, utility, (), share, one.came[t]))
            money.append(share * matrix[:, one.came[t]])
        others = [f"reference {name}" for name in known.references]
        totals = dict.fromkeys(("model", "guard", "fallback", *others), 0.0)
        told, alone = (by_hand.Stream(by_hand.settings_of(rule), at_once) for at_once in (False, True))
        for t, step in enumerate(steps):
            for stream in (told, alone):
                stream.advise(t + 1, step)
                stream.observe(t + 1)
            law_S, worth_AxS = step[0], step.utility(range(len(step[0])))
            best_A = np.eye(len(worth_AxS))[int(np.argmax(worth_AxS @ law_S))]  # the model, as people act on it
            plays = best_A, told.played[t], alone.played[t], *told.theirs[t]
            for name, own in zip(totals, plays, strict=True):
                totals[name] += own @ money[t]
        trip = told.alarm or None
        money_TxA = np.array(money)
        own = [
            money_TxA[[step.context == c for step in steps]].sum(axis=0).max() for c in {step.context for step in steps}
        ]
        best = max(sum(own), *(totals[name] for name in others), -np.inf)
        fixed = money_TxA.sum(axis=0)
        more = [("fallback", totals["fallback"] / T)]
        more += [(name, totals[name] / T) for name in others]
        if known.references or known.contexts:
            more.append(("best comparator", best / T))
        regret = (best if known.references or known.contexts else fixed.max()) - totals["guard"]
        action = world.action_names[int(fixed.argmax())]
        earned = totals["model"] / T, totals["guard"] / T, fixed.max() / T
        found[one.name] = Seen(T, regret / T / scale, *earned, action, trip, tuple(more))
    return found


def told_door(rng: np.random.Generator, folder: Path) -> Case:
    """``lr.backtest`` that is told contexts, references, payoffs and scales, as arrays or as columns."""
    arrays = bool(rng.random() < 0.5)
    world = some_world(rng, 2)
    known = some_known(rng, world)
    doubt = known.contexts is not None and len({type(v) for v in all_contexts(known.contexts)}) > 1
    if doubt and not arrays:  # a column has one type
        known = known._replace(contexts=[[str(value) for value in part] for part in known.contexts or []])
    low, high = world.payoffs_AxS.min(), world.payoffs_AxS.max()
    wide = {"low": min(low, 0.0), "high": max(high, 0.0)}
    unnamed = lr.DecisionProblem.from_payoffs(world.payoffs_AxS, **wide)
    kind = "change" if known.payoffs is not None else "scaled" if known.scale is not None else None
    contexts = len(all_contexts(known.contexts)) if known.contexts else None
    longest = max(len(one.came) for one in world.streams)
    settings = {"references": tuple(known.references), "contexts": contexts, "payoffs": kind}
    settings |= {"delta": 1 / max(longest, 2), "temperature": longest**-0.5}  # as literal_informed plays
    seen = literal_told(world, known, lr.Guard(unnamed, longest, **settings), unnamed)
    more = [name for name, _ in next(iter(seen.values())).more]
    table = None if arrays else some_table(rng, world, text=False)
    if table is not None:
        table = with_known(rng, table, known, world)
    frame, package = (None, "arrays") if table is None else frame_of(rng, table)

    def attempt() -> None:
        problem = problem_of(world, **wide)
        guard = lr.Guard(problem, longest, **settings)
        if table is None:
            given = {name: value for name, value in known._asdict().items() if value}
            states = [as_array(rng, [world.values[i] for i in one.written]) for one in world.streams]
            names = [one.name for one in world.streams]
            found = lr.backtest(
                problem, [one.laws_TxS for one in world.streams], states, names=names, guard=guard, **given
            )
            compare(named_seen(world, seen), in_backtest(found, *more))
        else:
            found = lr.backtest(problem, frame, columns=table.told, guard=guard)
            compare(named_seen(world, seen, not _has_streams(table)), in_backtest(found, *more))

    expected = strictest(world.expected, MUST if table is None else table.expected, MAY if doubt else MUST)
    which = "+".join(name for name, value in known._asdict().items() if value)
    words = f"{which}, {_outcomes(world)}, {package}"
    if doubt:
        words += ", contexts of several kinds"
    return Case(expected, words, attempt, any_switch(seen))


def with_known(rng: np.random.Generator, table: Table, known: Known, world: World) -> Table:
    """The same as columns of a table."""
    columns, told, rows = dict(table.columns), dict(table.told), table.rows
    if known.contexts is not None:
        columns["in which"] = [known.contexts[b][t] for b, t in rows]
        told["context"] = "in which"
    if known.scale is not None:
        columns["how much"] = [float(known.scale[b][t]) for b, t in rows]
        told["scale"] = "how much"
    if known.payoffs is not None:
        columns["prices"] = [known.payoffs[b][t].ravel().tolist() for b, t in rows]
        told["payoffs"] = "prices"
    for k, (name, laws) in enumerate(known.references.items()):
        own = [f"their {k} {word}" for word in ("alpha", "beta", "gamma")[: len(world.state_names)]]
        columns |= {column: [float(laws[b][t][s]) for b, t in rows] for s, column in enumerate(own)}
        by_state = dict(zip(world.state_names, own, strict=True)) if rng.random() < 0.5 else own
        told["references"] = {**told.get("references", {}), name: by_state}
    return table._replace(columns=columns, told=told)


DOORS: dict[str, Callable[[np.random.Generator, Path], Case]] = {
    "guard": guard_door,
    "arrays": arrays_door,
    "frame": frame_door,
    "audit": audit_door,
    "command": command_door,
    "payoffs": payoffs_door,
    "sklearn": sklearn_door,
    "river": river_door,
    "told": told_door,
}
CASES = {  # in a short run: 270 in all
    **{"guard": 25, "arrays": 25, "frame": 45, "audit": 35, "command": 35, "payoffs": 30},
    **{"sklearn": 20, "river": 25, "told": 30},
}


class Verdict(NamedTuple):
    door: str
    number: int
    expected: str
    words: str
    came: str  # "same", "refused", "different", "error"
    reason: str
    switched: bool

    @property
    def right(self) -> bool:
        return self.came == ("refused" if self.expected == REFUSE else "same") or (
            self.came == "refused" and self.expected == MAY
        )


def tried(door: str, number: int, seed: int) -> Verdict:
    """One case: drawn, tried and judged."""
    rng = np.random.default_rng([seed, number, *door.encode()])
    with tempfile.TemporaryDirectory(prefix="lowregret-doors-") as folder:
        case = DOORS[door](rng, Path(folder))
        came, reason = "same", ""
        try:
            case.attempt()
        except Different as error:
            came, reason = "different", str(error)
        except (pa.ArrowException, UnicodeError) as error:  # both are ValueErrors, and no answer to a user
            came, reason = "error", "".join(traceback.format_exception(error))
        except ValueError as error:
            came, reason = ("refused", str(error)) if str(error) else ("error", "a refusal without a reason")
        except Exception as error:
            came, reason = "error", "".join(traceback.format_exception(error))
    return Verdict(door, number, case.expected, case.words, came, reason, case.switched)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_numbers_of_the_literal_loop(door: str) -> None:
    found = [tried(door, number, seed=0) for number in range(CASES[door])]
    wrong = [
        f"--door {v.door} --case {v.number}: {v.expected}, {v.came}: {v.reason[-400:]} [{v.words}]"
        for v in found
        if not v.right
    ]
    assert not wrong, "\n".join(wrong)
    answered = sum(v.came == "same" for v in found)
    assert answered > len(found) / 5
    if door != "payoffs":
        assert sum(v.switched for v in found) > answered / 4  # what is refused cannot switch


@pytest.mark.parametrize(
    ("states", "value", "state", "sure"),
    [
        (("True", "False"), True, 0, True),
        (("true", "false"), False, 1, False),
        (("yes", "no"), True, 0, False),
        (("yes", "no"), 1, None, False),
        (("up", "down"), True, None, False),
        (("up", "down"), 1, 1, False),
        (("up", "down"), "down", 1, True),
        (("up", "down"), "Down", None, True),
        (("0", "1"), 1, 1, True),
        (("0", "1"), 1.0, 1, True),
        (("0", "1"), True, 1, False),
        (("0", "1"), 2, None, True),
        (("1", "0"), 1, 0, True),
        (("1.0", "0.0"), 1, 0, False),
        (("1.0", "0.0"), 1.0, 0, True),
        (("1", "1.0"), 1.0, 1, False),
        (("2", "1"), 0, None, False),
        (("2026-01-02", "2026-01-01"), dt.date(2026, 1, 1), 1, True),
        (("nan", "None"), "nan", 0, True),
    ],
)
def test_what_is_meant(states: tuple[str, ...], value: Any, state: int | None, sure: bool) -> None:
    assert meant(states, value) == (state, sure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=int, default=sum(CASES.values()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--door", choices=DOORS)
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    if given.case is not None:
        print(tried(given.door, given.case, given.seed))
        return
    doors = [given.door] if given.door else list(DOORS)
    todo = [(doors[i % len(doors)], i // len(doors), given.seed) for i in range(given.cases)]
    counts, reasons, wrong = Counter(), Counter(), {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(_tried, todo, chunksize=20):
            counts[found.door, found.expected, found.came] += 1
            if found.came == "refused":
                reasons[found.door, found.expected, gist(found.reason)] += 1
            if not found.right:
                wrong.setdefault((found.door, found.expected, found.came, gist(found.reason)), []).append(found)
    for title, kinds in (("what came of them", counts), ("why they were refused", reasons)):
        print(f"{title}:")
        for key, n in sorted(kinds.items()):
            print(f"{n:7,}  {': '.join(key)}")
    print(f"wrong: {sum(map(len, wrong.values())):,} of {len(todo):,}")
    for key, each in sorted(wrong.items()):
        print(f"{len(each):7,}  {': '.join(key)}")
        for one in each[:3]:
            print(f"         --door {one.door} --case {one.number} --seed {given.seed} [{one.words}]")
            print(f"           {one.reason[-300:]!r}")


def gist(reason: str) -> str:
    """A refusal without what is of one case alone."""
    last = reason.strip().splitlines()[-1] if reason.strip() else ""
    return re.sub(r"/\S+|'[^']*'|\"[^\"]*\"|\([^)]*\)|-?\d[\d.e:+-]*", "~", last)[:90]


def _tried(case: tuple[str, int, int]) -> Verdict:
    with contextlib.redirect_stdout(io.StringIO()):
        return tried(*case)


if __name__ == "__main__":
    main()
