"""A guard whose streams come and go is a list of single guards; saved as a file it resumes bit for bit."""

import copy
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr

from ..guarded_runs import COIN, a_game
from .test_fuzz_interrupts import HOME, interrupted

TRADE = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
MAKES: dict[str, Callable[..., Any]] = {
    "default": lambda problem, **more: lr.Guard(problem, 30, **more),
    "urn": lambda problem, **more: lr.Guard(
        problem, 30, temperature=0.2, fallback=lr.PolyaUrn(problem.n_states), **more
    ),
    "policy": lambda problem, **more: lr.Guard(problem, 30, fallback=lr.policies.AdaHedge(problem), **more),
    "no horizon": lambda problem, **more: lr.Guard(problem, None, rule=lr.ExactTest(problem, None, delta=0.3), **more),
    "scaled": lambda problem, **more: lr.Guard(problem, 30, payoffs="scaled", contexts=3, **more),
    "any problem": lambda problem, **more: lr.Guard(None, 30, **more),
    "late": lambda problem, **more: lr.Guard(problem, 30, lag=2, **more),
}


def told(kind: str, rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"scale": rng.uniform(0.3, 1, n), "context": rng.integers(3, size=n)} if kind == "scaled" else {}


@pytest.mark.parametrize("kind", [*MAKES, "default, torch"])
def test_streams_that_come_and_go_are_single_guards(kind: str) -> None:
    arrays: Callable[..., Any] = torch.as_tensor if "torch" in kind else np.asarray
    kind = kind.removesuffix(", torch")
    rng = np.random.default_rng(list(MAKES).index(kind))
    problem = COIN if kind == "any problem" else a_game(rng)
    S, make = problem.n_states, MAKES[kind]
    fleet, alone = make(problem, batch_shape=(3,)), {number: make(problem) for number in range(3)}
    said, events, ever = {n: (rng.dirichlet(np.full(S, 0.3)), rng.integers(S)) for n in range(3)}, [], 3
    for t in range(30):
        if t in (4, 11, 12, 19):
            more = fleet.add(int(rng.integers(1, 4))).tolist()
            assert more == list(range(ever, ever + len(more)))
            ever += len(more)
            alone |= {number: make(problem) for number in more}
            said |= {number: (rng.dirichlet(np.full(S, 0.3)), rng.integers(S)) for number in more}
        if t in (7, 12, 21):
            gone = rng.choice(list(alone), 2, replace=False)
            mask = np.isin(fleet.streams, gone)
            assert fleet.retire(gone if t == 7 else mask).tolist() == sorted(gone.tolist())
            for number in gone.tolist():
                del alone[number]
        if t == 15:
            fleet.restart([list(alone)[1]])
            alone[list(alone)[1]].restart()
        assert fleet.streams.tolist() == list(alone)
        assert fleet.batch_shape == (len(alone),)
        laws = np.array([0.9 * said[n][0] + 0.1 / S for n in alone])
        states = np.where(rng.random(len(alone)) < 0.2, rng.integers(S, size=len(alone)), [said[n][1] for n in alone])
        more = told(kind, rng, len(alone))
        advice = fleet.advise(arrays(laws), **more).law
        for i, guard in enumerate(alone.values()):
            own = guard.advise(arrays(laws[i]), **{name: values[i] for name, values in more.items()}).law
            if own is not None:
                np.testing.assert_allclose(np.asarray(advice)[i], np.asarray(own), atol=1e-12)
            if kind != "any problem":
                np.testing.assert_allclose(np.asarray(fleet.policy())[i], np.asarray(guard.policy()), atol=1e-12)
            guard.observe(int(states[i]))
            if guard.events and guard.events[-1].step == guard.steps and guard.events[-1].episode == guard.episodes:
                events.append(guard.events[-1]._replace(stream=list(alone)[i]))
        fleet.observe(states)
        for what in ("regret", "switched", "share", "steps", "episodes"):
            own = [getattr(guard, what) for guard in alone.values()]
            np.testing.assert_allclose(np.asarray(getattr(fleet, what)), np.asarray(own), atol=1e-12, err_msg=what)
    assert [e.stream for e in fleet.events] == [e.stream for e in events]
    assert [e[1:2] for e in fleet.events] == [e[1:2] for e in events]
    if kind not in ("no horizon", "scaled", "any problem"):
        assert fleet.events
    if kind != "any problem":
        worst = max(guard.certificate.regret_bound for guard in alone.values())
        assert fleet.certificate.regret_bound == pytest.approx(worst, abs=1e-12)


def test_a_stream_has_its_own_horizon() -> None:
    guard = lr.Guard(COIN, 3, batch_shape=(2,))
    for _ in range(3):
        guard.advise([[0.5, 0.5]] * 2)
        guard.observe([0, 1])
    guard.add(1)
    with pytest.raises(ValueError, match="2 of 3 streams"):
        guard.advise([[0.5, 0.5]] * 3)
    assert guard.retire(np.asarray(guard.steps) == 3).tolist() == [0, 1]
    for _ in range(3):
        guard.advise([[0.5, 0.5]])
        guard.observe([0])


def a_fleet(kind: str) -> tuple[Callable[[], Any], Any]:
    """How it is made, and one on its way with advice to be observed."""
    rng = np.random.default_rng(3)

    def make() -> Any:
        return lr.Guard(TRADE, 30, batch_shape=(4,)) if kind == "outcomes" else MAKES[kind](COIN, batch_shape=(4,))

    guard = make()
    for t in range(12):
        if t == 5:
            guard.add(3)
            guard.retire([0, 2])
        step(guard, kind, rng)
    step(guard, kind, rng, observe=False)
    return make, guard


def step(guard: Any, kind: str, rng: np.random.Generator, observe: bool = True) -> None:
    n = guard.batch_shape[0]
    if kind == "outcomes":
        guard.advise(lr.Quantiles([0.1, 0.9], np.tile([0.1, 0.8], (n, 1))))
    else:
        guard.advise(np.tile([0.9, 0.1], (n, 1)), **told(kind, rng, n))
    if observe:
        guard.observe(rng.uniform(-1, 0.1, n) if kind == "outcomes" else rng.integers(2, size=n))


@pytest.mark.parametrize("kind", [*MAKES, "outcomes"])
def test_a_file_resumes_bit_for_bit(kind: str, tmp_path: Path) -> None:
    make, guard = a_fleet(kind)
    path, resumed = tmp_path / "fleet.safetensors", make()
    guard.save(path)
    resumed.load(path)
    assert resumed.streams.tolist() == [1, 3, 4, 5, 6]
    assert resumed.state_dict() == guard.state_dict()
    through_json = make()
    through_json.retire([0])
    through_json.add(2)
    through_json.load_state_dict(json.loads(json.dumps(guard.state_dict())))
    states = [0, 1, 1, 0, 1]
    if kind != "any problem":
        assert guard.act(seed=1).tolist() == resumed.act(seed=1).tolist() == through_json.act(seed=1).tolist()
    for one in (guard, resumed, through_json):
        one.observe([-0.5] * 5 if kind == "outcomes" else states)
        for seed in range(6):
            step(one, kind, np.random.default_rng(seed))
    assert resumed.state_dict() == guard.state_dict() == through_json.state_dict()
    assert resumed.events == guard.events
    assert resumed.add().tolist() == [7]


def test_tensors_and_single_streams_are_kept_too(tmp_path: Path) -> None:
    guard, resumed = lr.Guard(COIN, 30), lr.Guard(COIN, 30)
    for _ in range(9):
        guard.advise(torch.tensor([0.9, 0.1]))
        guard.observe(1)
    guard.save(tmp_path / "one.safetensors")
    resumed.load(tmp_path / "one.safetensors")
    assert resumed.state_dict() == guard.state_dict()
    assert isinstance(resumed.advise(torch.tensor([0.9, 0.1])).law, torch.Tensor)


def test_what_is_no_file_of_this_guard_is_refused(tmp_path: Path) -> None:
    make, guard = a_fleet("default")
    path, bad = tmp_path / "fleet.safetensors", tmp_path / "bad.safetensors"
    guard.save(path)
    data, fresh = path.read_bytes(), make()
    before = fresh.state_dict()
    for cut in range(0, len(data), 97):
        bad.write_bytes(data[:cut])
        with pytest.raises(ValueError, match=r"bad.safetensors was cut short"):
            fresh.load(bad)
    for place in range(9, len(data), 131):
        bad.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(ValueError, match=r"bad.safetensors"):
            fresh.load(bad)
    for other, what in (
        (lr.Guard(COIN, 31, batch_shape=(4,)), "horizon"),
        (lr.Guard(COIN, 30), "batch_shape"),
        (lr.Guard(COIN, 30, batch_shape=(4, 2)), "batch_shape"),
        (lr.Guard(COIN, 30, batch_shape=(4,), temperature=0.2, fallback=lr.PolyaUrn(2)), "fallback"),
    ):
        with pytest.raises(ValueError, match=rf"fleet.safetensors: its state was made by a guard .*{what}"):
            other.load(path)
    for name, what in ((tmp_path, "folder"), (tmp_path / "no.safetensors", "there is no"), (3, "path must be")):
        with pytest.raises(ValueError, match=what):
            fresh.load(name)
    with pytest.raises(ValueError, match=r"must end in \.safetensors"):
        fresh.save(tmp_path / "fleet.json")
    assert fresh.state_dict() == before


def test_what_is_no_state_is_not_written_over(tmp_path: Path) -> None:
    path, guard = tmp_path / "guard.safetensors", lr.Guard(COIN, 1000)
    guard.save(path)
    data = path.read_bytes()
    for content in (b"a letter", data[:40], b"\xff" * 64, data[:9] + b"?" + data[10:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"guard.safetensors is there, and is no file that save"):
            guard.save(path)
        assert path.read_bytes() == content
    path.write_bytes(b"")  # as tempfile leaves one: there is nothing to lose
    guard.save(path)


def test_a_save_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, guard = a_fleet("default")
    path = tmp_path / "fleet.safetensors"
    guard.save(path)
    data = path.read_bytes()
    guard.observe([0, 1, 1, 0, 1])
    for name in ("fsync", "replace"):

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, name, full)
            with pytest.raises(OSError, match="No space left"):
                guard.save(path)
        assert path.read_bytes() == data
        assert os.listdir(tmp_path) == [path.name]


def test_an_interrupted_call_was_made_or_was_not(tmp_path: Path) -> None:
    make, other = a_fleet("default")
    path = tmp_path / "fleet.safetensors"
    other.save(path)
    calls = {"add": lambda g: g.add(2), "retire": lambda g: g.retire([1]), "load": lambda g: g.load(path)}
    for name, call in calls.items():
        guard = make()
        step(guard, "default", np.random.default_rng(0))
        before, done = json.dumps(guard.state_dict()), copy.deepcopy(guard)
        call(done)
        after, n = json.dumps(done.state_dict()), 1
        while True:
            one = copy.deepcopy(guard)
            if not interrupted(partial(call, one), n, f"{HOME}/guard"):
                break
            assert json.dumps(one.state_dict()) in (before, after), (name, n)
            n += 1
        assert n > 5


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda g: g.add(-1), "n must be a whole number"),
        (lambda g: g.add(1.5), "n must be a whole number"),
        (lambda g: g.retire(None), "streams must be"),
        (lambda g: g.retire([0]), "streams.*0 has been retired"),
        (lambda g: g.retire([9]), "streams"),
        (lambda g: g.restart([0]), "streams.*0 has been retired"),
        (lambda g: g.retire([True, False]), "streams is a mask of shape"),
        (lambda g: lr.Guard(COIN, 3).add(1), "batch axis"),
        (lambda g: lr.Guard(COIN, 3).retire([0]), "batch axis"),
        (lambda g: lr.Guard(COIN, 3).streams, "batch axis"),
    ],
)
def test_refusals_change_nothing(call: Callable[[Any], Any], what: str) -> None:
    _, guard = a_fleet("default")
    before = guard.state_dict()
    with pytest.raises(ValueError, match=what):
        call(guard)
    assert guard.state_dict() == before


def test_streams_wait_for_late_outcomes_and_for_equal_ages() -> None:
    _, guard = a_fleet("late")
    for call in (guard.add, lambda: guard.retire([1])):
        with pytest.raises(ValueError, match=r"add\(\) and retire\(\) must wait for the outcomes of steps"):
            call()
    grows = lr.FromFunction(lambda history: [0.5, 0.5], 2)
    guard = lr.Guard(COIN, 9, rule=lr.rules.RegretRate(COIN, 9, alpha=0.5, fallback=grows), batch_shape=(2,))
    guard.advise([[0.5, 0.5]] * 2)
    guard.observe([0, 1])
    with pytest.raises(ValueError, match=r"add\(n\) needs .*different ages"):
        guard.add(1)
    guard.retire([0])
    guard.advise([[0.5, 0.5]])
    guard.observe([1])


def test_a_garbled_numbering_is_refused() -> None:
    _, guard = a_fleet("default")
    for held in ([1, 3, 4, 5], [1, 3, 4, 6, 5], [1, 3, 4, 5, 7], [-1, 3, 4, 5, 6], "abcde", [0.5] * 5, None):
        d = guard.state_dict() | {"streams": {"held": held, "given": 7}}
        with pytest.raises(ValueError, match="state_dict does not fit: streams"):
            guard.load_state_dict(d)


@pytest.mark.parametrize(("wrong", "says"), [
    ([0.5, np.nan], r"got NaN at index \(5, 1\) \(stream 8\)"),
    ([-0.5, 1.5], r"got -0.5 at index \(5, 0\).*\(stream 8\)"),
    ([0.5, 0.7], r"off by 0.2 at index \(5,\).*\(stream 8\)"),
])  # fmt: skip
@pytest.mark.parametrize("kind", [np.asarray, torch.asarray])
def test_a_law_that_is_refused_is_named_by_its_stream(wrong, says, kind):
    """By its number, which is not its place once others have gone; nothing has changed."""
    guard = lr.Guard(lr.matching(), 50, batch_shape=(4950,))
    guard.retire([0, 1, 2])
    laws = np.full((4947, 2), 0.5)
    laws[5] = wrong
    with pytest.raises(ValueError, match=says):
        guard.advise(kind(laws))
    assert (guard.steps == 0).all()


def test_whatever_is_refused_is_named_by_its_stream():
    N, problem = 40, lr.DecisionProblem.from_payoffs([[0, 1], [1, 0]], low=-5, high=5)
    guard = lr.Guard(problem, 50, batch_shape=(N,), references=["old"], contexts=3, payoffs="change")
    laws, right = np.full((N, 2), 0.5), {"references": np.full((N, 1, 2), 0.5), "context": np.zeros(N, int)}
    for name, entry, value in (
        ("references", (7, 0, 1), np.nan),
        ("context", (7,), 3),
        ("scale", (7,), np.nan),
        ("payoffs", (7, 1, 1), np.nan),
        ("payoffs", (7, 1, 0), 9.0),
    ):
        given = {"scale": np.ones(N), "payoffs": np.zeros((N, 2, 2)), **right}[name].copy()
        given[entry] = value
        with pytest.raises(ValueError, match=r"at index \(7,.*\(stream 7\)"):
            guard.advise(laws, **{**right, name: given})
    guard.advise(laws, **right)
    for given in ({"state": np.arange(N) // 39 * 2}, {"state": np.zeros(N, int), "action": -(np.arange(N) // 39)}):
        with pytest.raises(ValueError, match=r"at index \(39,\) \(stream 39\)"):
            guard.observe(**given)
    payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    numbers = lr.Guard(payoff, 50, batch_shape=(3, 2))
    numbers.advise(lr.Quantiles([0.1, 0.9], np.tile([0.1, 0.2], (3, 2, 1))))
    with pytest.raises(ValueError, match=r"at index \(2, 0\) \(stream \(2, 0\)\)"):
        numbers.observe([[0, 0], [0, 0], [np.nan, 0]])
    with pytest.raises(ValueError, match=r"got NaN at index \(1, 0, 1\)"):
        lr.Quantiles([0.1, 0.9], [[[0, 1], [0, 1]], [[0, np.nan], [0, 1]]])
    with pytest.raises(ValueError, match=r"got NaN at index \(1,\)$"):  # one stream needs no name
        lr.Guard(problem, 9).advise([0.5, np.nan])


@pytest.mark.parametrize("problem", [COIN, TRADE], ids=["states", "numbers"])
@pytest.mark.parametrize("lag", [1, 2])
def test_a_fleet_in_contexts_that_is_empty_goes_on(problem: Any, lag: int) -> None:
    guard = lr.Guard(problem, 30, batch_shape=(0,), contexts=2, references=["old"], lag=lag)
    for empty in (True, True, False):
        if not empty:
            guard.add(2)
        n = guard.batch_shape[0]
        law = lr.Quantiles([0.1, 0.9], np.zeros((n, 2))) if problem is TRADE else np.full((n, 2), 0.5)
        theirs = [law] if problem is TRADE else law[:, None]
        guard.advise(law, context=np.zeros(n, dtype=int), references=theirs)
        guard.observe(np.zeros(n, dtype=int))
    assert guard.steps.tolist() == [1, 1]


BAD_MASKS: dict[str, tuple[Any, list[bool], str]] = {
    "masked, and not named": (np.ma.array([1, 1, 0], mask=[1, 0, 0]), [False, True, False], "does not name"),
    "one for all": (1, [False, True, False], "shape"),
    "too few": ([1], [False, True, False], "shape"),
    "too many": ([1, 1, 0, 0], [False, True, False], "shape"),
}


@pytest.mark.parametrize("given", BAD_MASKS)
@pytest.mark.parametrize("problem", [COIN, TRADE], ids=["states", "numbers"])
def test_outcomes_that_do_not_fit_the_mask_are_refused(problem: Any, given: str) -> None:
    outcome, missing, reason = BAD_MASKS[given]
    guard = lr.Guard(problem, 30, batch_shape=(3,))
    guard.advise(lr.Quantiles([0.1, 0.9], np.zeros((3, 2))) if problem is TRADE else np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match=reason):
        guard.observe(outcome, missing=missing)
    assert guard.steps.tolist() == [0, 0, 0]
    guard.observe(np.ma.array([1, 1, 0], mask=missing), missing=missing)  # said twice, alike
    assert guard._at.ledger.missed.tolist() == [0, 1, 0]


def test_streams_have_names_after_a_pause_as_before_it(tmp_path: Path) -> None:
    make: Callable[..., Any] = partial(lr.Guard, COIN, 30)
    guard, again, third = make(streams=["a"]), make(streams=["a"]), make(streams=["b", "c"])
    guard.retire(["a"])
    guard.save(tmp_path / "none.safetensors")
    again.load(tmp_path / "none.safetensors")
    third.load(tmp_path / "none.safetensors")
    for one in (guard, again, third):
        assert one.add(["new"]).tolist() == one.streams.tolist() == ["new"]
    for named, other in ((make(streams=["a", "b"]), make(batch_shape=(2,))), (guard, make(batch_shape=(1,)))):
        with pytest.raises(ValueError, match="differs in: streams"):
            named.load_state_dict(other.state_dict())
        with pytest.raises(ValueError, match="streams"):
            other.load_state_dict(named.state_dict())
