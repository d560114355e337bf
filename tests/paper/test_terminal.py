"""What a user meets on the terminal: widths, interrupts, sizes beyond all memory, extras that are missing."""

import io
import logging
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import lowregret as lr
from lowregret import files
from lowregret.tables import print_table
from lowregret.transformer import Decoder, Distil, Progress, Size, TrainingSettings, Transformer, load, save, train
from lowregret.transformer.held_out import Compared, compared
from paper import eight_sources, verify
from paper.app import _app

from .conftest import ENVIRONMENT

SIZE = "8,8,2,1,8"


def paper(*arguments: str, **environment: str) -> Any:
    return CliRunner().invoke(_app(), arguments, env=environment)


def said(done: Any) -> str:
    return " ".join(done.output.replace("│", " ").split())


# Widths


def printed(width: int, show: Callable[[Console], None]) -> list[str]:
    """The numbers that are on a screen so wide, all of them whole."""
    screen = io.StringIO()
    show(Console(file=screen, width=width))
    assert "…" not in screen.getvalue(), width
    return sorted(re.findall(r"[+-]?\d+\.\d{2,}", screen.getvalue()))


def test_numbers_are_never_cut() -> None:
    """At every width all the numbers of a wide screen are there."""
    coin, T = lr.matching(), 32
    everyone = eight_sources.players(T)
    found = lr.compare(everyone, lr.evaluate.sources.paper_sources(T), coin, T, 4, 0)
    worst = [eight_sources.at_worst(name, player, T, width=2) for name, player in everyone.items()]
    outcomes = [verify.examine(statement) for statement in verify.selected(["Lemma 2.1", "Lemma A.1", "A.3"])]
    for least, show in (
        (30, lambda console: print_table(console, *eight_sources._regret_table(found))),
        (10, lambda console: print_table(console, *eight_sources._worst_table(found, worst))),
        (8, lambda console: verify._print(outcomes, console)),
    ):
        wide = printed(200, show)
        assert len(wide) > least
        for width in (100, 80, 70, 60, 50, 40, 30):
            assert printed(width, show) == wide


@pytest.mark.parametrize("command", [("demo", "--horizon", "8", "-n", "2"), ("verify", "--only", "Lemma A.1")], ids=str)
def test_a_narrow_terminal(command: tuple[str, ...], tmp_path: Path) -> None:
    done = paper(*command, "--out", str(tmp_path / "out"), COLUMNS="40")
    assert done.exit_code == 0, done.output
    assert "…" not in done.output


# Interrupts


def test_verify_ends_at_ctrl_c(tmp_path: Path) -> None:
    """An interrupt of the command alone, as of the whole group, ends it and all its processes within moments.

    Unhindered the statements that are asked for take longer than the test waits in all.
    """
    for everyone in (False, True):
        command = [sys.executable, "-m", "paper", "verify", "--jobs", "2", "--out", str(tmp_path / "v")]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            start_new_session=True,
            preexec_fn=listens,
        )
        try:
            waited = time.monotonic() + 60
            while len(group(process.pid)) < 3 and time.monotonic() < waited:  # the command and its two
                time.sleep(0.05)
            assert len(group(process.pid)) >= 3
            time.sleep(1.0)
            (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=40)
        finally:
            for pid in group(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        assert process.returncode == 130
        assert "Traceback" not in errors
        assert not (tmp_path / "v/verify.json").exists()


def listens() -> None:
    """A test run in the background of a shell ignores interrupts, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def group(leader: int) -> list[int]:
    """The processes of a session, but for the ones that are over."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == leader and state != "Z" and b"resource_tracker" not in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


# Sizes


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "bernoulli", "--size", "1000000000,64,2,2,1000000000"),
        ("train", "bernoulli", "--size", "8,1000000000,2,2,8"),
        ("train", "bernoulli", "--size", "8,8,2,1000000000000,8"),
        ("train", "bernoulli", "--size", SIZE, "--batch", "100000000000"),
        ("demo", "--horizon", "1000000000000"),
        ("demo", "--samples", "1000000000000"),
        ("evaluate", "m.safetensors", "--samples", "1000000000000"),
        ("reproduce", "--batch", "1000000000000", "--steps", "1"),
    ],
    ids=str,
)
def test_what_no_memory_holds_is_refused_first(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(Decoder(2, Size(8, 8, 2, 1, 8)), "m.safetensors")
    out = "o.safetensors" if arguments[0] == "train" else "o"
    done = paper(*arguments, "--out", out)
    assert done.exit_code == 2, (done.output, done.exception)
    assert "more than the memory of this machine" in said(done)


def test_room() -> None:
    with pytest.raises(ValueError, match=r"Size\(context=8, width=1000000000.*takes .* GiB, more than the memory"):
        Decoder(2, (8, 10**9, 2, 1, 8))
    files.in_memory(1000, "a thing")
    files.in_memory(1e15, "a thing", have=1e16)
    with pytest.raises(ValueError, match="a thing takes 2 GiB, more than the memory"):
        files.in_memory(2**31, "a thing", have=2**30)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), MemoryError("Unable to allocate 9 TiB"), RuntimeError("[enforce fail] can't allocate memory: 9")],
    ids=repr,
)
def test_memory_that_runs_out_all_the_same(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def beyond(*_: Any) -> None:
        raise error

    monkeypatch.setattr("paper.eight_sources.players", beyond)
    done = paper("demo", "--out", str(tmp_path / "o"))
    assert done.exit_code == 1
    assert re.match(r"there is not enough memory for this: \S", done.stderr)
    assert len(done.stderr.splitlines()) == 1


# What is missing


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        (("construct", "m.safetensors", "--out", "o.safetensors"), "torch", "torch"),
        (("construct", "m.safetensors", "--out", "o.safetensors"), "safetensors", "torch"),
        (("evaluate", "m.safetensors"), "torch", "torch"),
        (("train", "bernoulli", "--out", "o.safetensors"), "torch", "torch"),
        (("reproduce",), "torch", "torch"),
        (("demo", "--horizon", "8", "-n", "2"), "matplotlib", "cli"),
    ],
    ids=str,
)
def test_an_extra_that_is_missing_is_named_before_the_work(
    command: tuple[str, ...], missing: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / f"{missing}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{missing}'\", name='{missing}')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "paper", *command],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert f"pip install 'lowregret[{extra}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout.strip()


# Options that would be ignored


@pytest.mark.parametrize(
    ("task", "option", "value"),
    [
        ("bernoulli", "--problem", "rock_paper_scissors"),
        ("bernoulli", "--problem", "matching"),
        ("bernoulli", "--rule", "gap"),
        ("bernoulli", "--base", "m.safetensors"),
        ("polyaurn", "--source", "c"),
        ("polyaurn", "--rule", "exact"),
        ("polyaurn", "--base", "m.safetensors"),
        ("robust", "--soft", None),
        ("distilled", "--soft", None),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    task: str, option: str, value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = paper("train", task, "--out", "o.safetensors", option, *([] if value is None else [value]))
    assert done.exit_code == 2
    assert f"{option} means nothing to {task}: leave it out" in said(done)
    assert not list(tmp_path.iterdir())


def test_weights_of_responses_that_nobody_learns_are_refused(tmp_path: Path) -> None:
    done = paper("reproduce", "--preset", "paper", "--response-weight", "1", "--out", str(tmp_path / "o"))
    assert done.exit_code == 2
    assert "--response-weight means nothing to the preset paper" in said(done)


# Distilled, and worse for it


def test_a_student_that_is_worse_than_its_base_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps at a rate that destroys what was known; and with a rate of nothing student and base are one."""
    monkeypatch.chdir(tmp_path)
    save(Decoder(2, Size(16, 16, 2, 1, 16), seed=1), "base.safetensors")
    worse = ("train", "distilled", "--base", "base.safetensors", "--size", "16,16,2,1,16", "--batch", "2")
    monkeypatch.setattr(
        "lowregret.transformer.DECAYING", lr.transformer.Optimiser(3.0, 3.0, 0, False, (0.9, 0.95), 1e-8, 0.0, None)
    )
    done = paper(*worse, "--steps", "2", "--out", "s.safetensors")
    assert done.exit_code == 0, done.output
    assert "It is worse than its base: train it for more steps" in done.output
    base, source = load("base.safetensors"), lr.evaluate.sources.paper_sources(16)["b"]
    task = Distil(source, lr.robustify(base, lr.matching(), test=lr.ExactTest(1 / 16, 16), fallback=lr.PolyaUrn(2)))
    settings = TrainingSettings(size=(16, 16, 2, 1, 16), steps=2, batch=2)
    found = compared(task, load("s.safetensors"), settings)
    assert found.student > found.base > 0
    same = compared(task, base, settings)
    assert same.student == same.base == found.base
    assert "worse" not in str(Compared(0.1, 0.2))


def test_divergences_are_from_algorithm_1(tmp_path: Path) -> None:
    """By hand: the mean divergence of the base's laws and responses from the robust ones, on the same sequences."""
    import numpy as np

    from lowregret.transformer import data

    coin, T = lr.matching(), 16
    base = Transformer(Decoder(2, Size(16, 16, 2, 1, 16), seed=1))
    safe = lr.robustify(base, coin, test=lr.ExactTest(0.5, T), fallback=lr.PolyaUrn(2))
    task = Distil(lr.evaluate.sources.paper_sources(T)["b"], safe, response_weight=0.5)
    settings = TrainingSettings(size=(16, 16, 2, 1, 16), steps=2, batch=2)
    tokens = task.batch(64, slice(None), T, data.generator("cpu", 0, 2, 2), base.probs_on_device).tokens_BxT.numpy()
    laws, robust = base.predict_sequence(tokens), safe.predict_sequence(tokens)

    def divergence(p: Any, q: Any) -> float:
        return float((p * np.log(p / q)).sum(-1).mean())

    played, wanted = (coin.quantal_response(law.astype(float), safe.temperature) for law in (laws, robust))
    expected = divergence(robust, laws) + 0.5 * divergence(wanted, played)
    assert expected > 1e-3
    assert compared(task, base, settings).base == pytest.approx(expected, rel=1e-3)


# How long it takes


def test_time_left_does_not_count_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step takes an hour, the others a second each, by a clock of our own."""
    from lowregret.transformer import training

    clock, advance, heard = [0.0], training.Training.advance, []

    def slow(self: training.Training) -> Any:
        clock[0] += 1.0 if self.step else 3600.0
        return advance(self)

    monkeypatch.setattr(training.Training, "advance", slow)
    monkeypatch.setattr(training.time, "perf_counter", lambda: clock[0])

    def report(progress: Progress) -> None:
        heard.append((progress.step, progress.seconds, progress.seconds_left))

    settings = TrainingSettings(size=(8, 8, 2, 1, 8), steps=5, batch=2)
    train(
        lr.transformer.Imitate(lr.PolyaUrn(2)), tmp_path / "m.safetensors", settings, report_every=1, on_report=report
    )
    assert heard == [(1, 3600, None), (2, 3601, 3), (3, 3602, 2), (4, 3603, 1), (5, 3604, 0)]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_compiler_keeps_its_remarks_to_itself(terminal: bool) -> None:
    """Its warnings and its log, while progress is shown; those of others are heard, and afterwards all are."""
    from lowregret.transformer.progress import shown

    logger, heard = logging.getLogger("torch._inductor.utils"), []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with shown("m", Console(file=io.StringIO(), force_terminal=terminal)):
            warnings.warn_explicit("a remark", UserWarning, "f.py", 1, module="torch._inductor.compile_fx")
            logger.warning("not enough of something")
            with pytest.raises(UserWarning, match="of a user"):
                warnings.warn_explicit("of a user", UserWarning, "f.py", 1, module="torch._inductors")
            assert not heard
        logger.warning("again")
        assert len(heard) == 1
        with pytest.raises(UserWarning, match="a remark"):
            warnings.warn_explicit("a remark", UserWarning, "f.py", 1, module="torch._inductor.compile_fx")
    finally:
        logger.removeHandler(handler)
