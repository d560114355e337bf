"""No state is written over by a guard that does not go on from it: two workers, copies, forks, backups, old files."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.guard import saving as lineage
from lowregret.guard.saving import read_from, write_to

from ..guarded_runs import COIN

RISE = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
GUARDS: dict[str, Callable[[], Any]] = {
    "one stream": lambda: lr.Guard(COIN, 1000),
    "a fleet": lambda: lr.Guard(COIN, 1000, batch_shape=(3,)),
    "late": lambda: lr.Guard(COIN, 1000, lag=3),
    "outcomes": lambda: lr.Guard(RISE, 1000),
}


def step(guard: Any) -> None:
    if guard.rule.of_numbers:
        guard.advise(lr.Quantiles([0.1, 0.9], [0.1, 0.8]))
        guard.observe(0.3)
        return
    guard.advise(np.broadcast_to([0.7, 0.3], (*guard.batch_shape, 2)))
    guard.observe(np.zeros(guard.batch_shape, dtype=int))


@pytest.mark.parametrize("kind", GUARDS)
def test_the_second_of_two_workers_is_refused(kind: str, tmp_path: Path) -> None:
    path, make = tmp_path / "guard.safetensors", GUARDS[kind]
    make().save(path)
    one, other = make(), make()
    for worker in (one, other):
        worker.load(path)
        step(worker)
    step(one)
    one.save(path)
    data, before = path.read_bytes(), other.state_dict()
    with pytest.raises(
        ValueError, match=r"guard.safetensors holds a state \(2 observations\) .* \(1 observations\).*another has saved"
    ):
        other.save(path)
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == [path.name]
    assert other.state_dict() == before
    other.save(tmp_path / "other.safetensors")  # both are kept
    other.load(path)
    step(other)
    other.save(path)
    with pytest.raises(ValueError, match="another has saved"):
        one.save(path)
    with pytest.raises(ValueError, match="this guard was not loaded from it"):
        make().save(path)
    path.unlink()
    one.save(path)


def test_saving_is_allowed_where_nothing_is_lost_and_nowhere_else(tmp_path: Path) -> None:
    """Guards that step, save, load, are copied and pickled, against lists of all that led to a state."""
    rng, paths = np.random.default_rng(0), [tmp_path / f"{i}.safetensors" for i in range(3)]
    guards, known = [lr.Guard(COIN, 1000) for _ in range(4)], [set[int]() for _ in range(4)]
    held: dict[Path, tuple[int, set[int]]] = {}  # the number of the state in a file, and of all that it goes on from
    counts = {"saved": 0, "refused": 0}
    for number in range(700):
        i, path = int(rng.integers(4)), paths[rng.integers(3)]
        what = rng.choice(["save", "save", "save", "load", "copy", "pickle", "step"])
        if what == "save":
            allowed = path not in held or held[path][0] in known[i]
            try:
                guards[i].save(path)
                saved = True
            except ValueError:
                saved = False
            assert saved == allowed, number
            counts["saved" if saved else "refused"] += 1
            if saved:
                known[i].add(number)
                held[path] = number, set(known[i])
        elif what == "load" and path in held:
            guards[i].load(path)
            known[i] = set(held[path][1])
        elif what in ("copy", "pickle"):
            j = int(rng.integers(4))
            guards[i] = copy.deepcopy(guards[j]) if what == "copy" else pickle.loads(pickle.dumps(guards[j]))
            known[i] = set(known[j])
        else:
            step(guards[i])
    assert min(counts.values()) > 50


WORKER = """
import sys, time
import lowregret as lr
path, done = sys.argv[1], 0
print("ready", flush=True)
sys.stdin.readline()
guard = lr.Guard(lr.matching(), 1000)
while done < 8:
    try:
        guard.load(path)
        guard.advise([0.7, 0.3])
        guard.observe(0)
        guard.save(path)
        done += 1
    except ValueError as error:
        assert "does not go on from" in str(error) or "is being saved by process" in str(error), error
        time.sleep(0.003)
"""


def test_workers_at_one_file_lose_no_step(tmp_path: Path) -> None:
    """Two processes, eight steps each, each from the file and into it."""
    path, guard = tmp_path / "guard.safetensors", lr.Guard(lr.matching(), 1000)
    guard.save(path)
    asked = [sys.executable, "-c", WORKER, str(path)]
    workers = [subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    guard.load(path)
    assert guard.steps == 16
    assert os.listdir(tmp_path) == [path.name]


FORK = """
import os, sys
import lowregret as lr
guard = lr.Guard(lr.matching(), 1000)
guard.save(sys.argv[1])
reader, writer = os.pipe()
child = os.fork()
guard.advise([0.7, 0.3])
guard.observe(0)
if child:
    guard.save(sys.argv[1])
    os.write(writer, b"!")
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    guard.save(sys.argv[1])
else:
    os.read(reader, 1)
    try:
        guard.save(sys.argv[1])
    except ValueError as error:
        os._exit("another has saved there since" in str(error))
    os._exit(2)
"""


def test_a_forked_process_does_not_know_what_its_parent_saves(tmp_path: Path) -> None:
    asked = [sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path / "guard.safetensors")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("child 1\n", 0), done.stderr


def test_what_is_no_state_is_not_written_over(tmp_path: Path) -> None:
    path, guard = tmp_path / "guard.safetensors", lr.Guard(COIN, 1000)
    guard.save(path)
    data, odd = path.read_bytes(), lr.Guard(COIN, 1000)
    for content in (b"a letter", data[:40], b"\xff" * 64, data[:9] + b"?" + data[10:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"guard.safetensors is there, and is no file that save"):
            guard.save(path)
        assert path.read_bytes() == content
    for bad in ([], "x", [["a"]], [["a", 0]], [[1, 1]], [["a", True]], {"a": 1}):
        path.unlink()
        write_to(path, {**odd._written(odd._at, lambda memory: memory), "lineage": bad})
        for call, words in ((guard.save, "is there, and is no file that save"), (odd.load, "lineage must have")):
            with pytest.raises(ValueError, match=rf"guard.safetensors .*{words}"):
                call(path)
    path.write_bytes(b"")  # as tempfile leaves one: there is nothing to lose
    guard.save(path)


def test_a_lineage_is_short_however_often_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_KEPT", 3)
    path = tmp_path / "guard.safetensors"
    lr.Guard(COIN, 1000).save(path)
    for _ in range(5):
        guard = lr.Guard(COIN, 1000)
        guard.load(path)
        guard.save(path)
        guard.save(path)
    lives = read_from(path)["lineage"].lives
    assert [saves for _, saves in lives] == [2, 2, 2]


def test_a_state_that_was_put_back_is_not_written_over_a_later_one(tmp_path: Path) -> None:
    file = tmp_path / "guard.safetensors"
    guard = lr.Guard(lr.matching(), 100)
    before = guard.state_dict()
    guard.advise([0.5, 0.5])
    guard.observe(1)
    guard.save(file)
    guard.load_state_dict(before)
    with pytest.raises(ValueError, match=r"guard\.safetensors"):
        guard.save(file)
    again = lr.Guard(lr.matching(), 100)
    again.load(file)
    assert again.steps == 1
