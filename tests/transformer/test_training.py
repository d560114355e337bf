"""Training: one step by hand, and runs that are stopped, resumed and shared."""

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.transformer import (
    DECAYING,
    NANODO,
    Decoder,
    Distil,
    Imitate,
    Masked,
    Optimiser,
    Progress,
    Recording,
    Size,
    TrainingSettings,
    Transformer,
    checkpoints,
    data,
    load,
    train,
    training,
)
from lowregret.transformer.tasks import Batch, Task
from lowregret.transformer.training import Training, described

from .test_tasks import robust_with_urn, tasks

SMALL = Size(32, 16, 2, 1, 32)


def adamw_by_hand(weights: dict, gradients: list[dict], rates: list[float], o) -> dict:
    """Decoupled weight decay, bias-corrected moments: Loshchilov and Hutter, line by line, in float64."""
    m = {k: np.zeros_like(v) for k, v in weights.items()}
    v = {k: np.zeros_like(x) for k, x in weights.items()}
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradient.values()))
        scale = 1.0 if o.clip is None else min(1.0, o.clip / (norm + 1e-6))
        for k, g in gradient.items():
            g = g * scale
            m[k] = o.betas[0] * m[k] + (1 - o.betas[0]) * g
            v[k] = o.betas[1] * v[k] + (1 - o.betas[1]) * g**2
            step = m[k] / (1 - o.betas[0] ** t) / (np.sqrt(v[k] / (1 - o.betas[1] ** t)) + o.eps)
            weights[k] = weights[k] * (1 - rate * o.weight_decay) - rate * step
    return weights


@pytest.mark.parametrize("optimiser", [NANODO, DECAYING], ids=["nanodo", "decaying"])
def test_optimiser_steps_are_adamw(optimiser, tmp_path: Path) -> None:
    settings = TrainingSettings(size=SMALL, steps=10, batch=4, seed=3, optimiser=optimiser)
    source = lr.evaluate.sources.paper_sources(32)["b"]
    run = Training(Imitate(source), tmp_path / "m.safetensors", settings)
    weights = {k: p.detach().double().numpy().copy() for k, p in run.decoder.named_parameters()}
    gradients, rates = [], []
    for step in range(3):
        tokens = data.sequences(source, 4, 32, data.generator("cpu", 3, step, 0))
        logits = run.decoder(tokens)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 2), tokens.reshape(-1))
        found = torch.autograd.grad(loss, list(run.decoder.parameters()))
        names = [k for k, _ in run.decoder.named_parameters()]
        gradients.append({k: g.double().numpy() for k, g in zip(names, found, strict=True)})
        rates.append(optimiser.rate(step, 10))
        assert float(run.advance()) == pytest.approx(loss.item(), rel=1e-5)
    expected = adamw_by_hand(weights, gradients, rates, optimiser)
    for k, p in run.decoder.named_parameters():
        np.testing.assert_allclose(p.detach().numpy(), expected[k], atol=2e-6, err_msg=k)


def test_a_golden_step(tmp_path: Path) -> None:
    """Recorded once: initial weights, batch, loss and update together."""
    settings = TrainingSettings(size=SMALL, steps=100, batch=8, seed=0, optimiser=NANODO)
    run = Training(Imitate(lr.evaluate.sources.paper_sources(32)["b"]), tmp_path / "m.safetensors", settings)
    losses = [float(run.advance()) for _ in range(3)]
    total = sum(float(p.detach().double().abs().sum()) for p in run.decoder.parameters())
    assert losses == pytest.approx([0.764853, 0.748311, 0.749756], abs=2e-6)
    assert total == pytest.approx(563.0816, rel=1e-6)


def test_rates() -> None:
    assert NANODO.rate(0, 500) == 1.6e-4
    assert NANODO.rate(500, 500) == pytest.approx(8.8e-4)
    assert NANODO.rate(1000, 500) == NANODO.rate(10**6, 500) == 1.6e-3
    rates = [DECAYING.rate(step, 300) for step in range(300)]
    assert max(rates) == rates[DECAYING.warmup] == 1e-3
    assert all(a > b for a, b in pairwise(rates[49:]))
    assert rates[-1] < 1e-6


@pytest.mark.parametrize("kind", ["imitate", "masked"])
def test_replayed_steps_are_the_steps(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replay that computes: what is set before each step."""
    recorded: list[int] = []

    class Computes:
        def __init__(self, does: Any, stream: Any, random: Any) -> None:
            recorded.append(fast.step)
            self.does = does

        def __call__(self) -> torch.Tensor:
            return self.does()

    monkeypatch.setattr(training, "Replay", Computes)
    monkeypatch.setattr(training, "recording_stream", lambda stream: contextlib.nullcontext())
    settings = TrainingSettings(size=SMALL, steps=20, batch=4, optimiser=DECAYING)
    plain, fast = (Training(tasks(kind), tmp_path / f"{name}.safetensors", settings) for name in ("plain", "fast"))
    assert plain.stream is None
    fast.stream = object()  # type: ignore[assignment]
    assert [float(plain.advance()) for _ in range(6)] == [float(fast.advance()) for _ in range(6)]
    assert recorded == [4]
    for one, other in zip(plain.decoder.parameters(), fast.decoder.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_teacher_is_the_base_in_the_types_of_the_run(tmp_path: Path) -> None:
    tokens = torch.randint(2, (4, 32), generator=torch.Generator().manual_seed(0))
    for stream in ("float32", "bfloat16"):
        task = tasks("distil")
        settings = TrainingSettings(size=SMALL, steps=2, batch=4, compute="bfloat16", stream=stream)
        run = Training(task, tmp_path / f"{stream}.safetensors", settings)
        expected = task.robust.base.probs_on_device(tokens, torch.bfloat16, getattr(torch, stream))
        assert torch.equal(run.base(tokens), expected)
    assert not torch.equal(task.robust.base.probs_on_device(tokens, torch.bfloat16, torch.float32), expected)


def test_a_batch_in_which_nothing_counts_changes_no_weight_to_nan(tmp_path: Path) -> None:
    class Nothing(Task):
        source = lr.PolyaUrn(2)

        def batch(self, n: int, rows: slice, horizon: int, *_: object) -> Batch:
            return Batch(torch.zeros((n, horizon)).long(), None, torch.zeros((n, horizon)))

    run = Training(Nothing(), tmp_path / "m.safetensors", TrainingSettings(size=SMALL, steps=3, batch=2))
    assert float(run.advance()) == 0
    assert all(bool(p.isfinite().all()) for p in run.decoder.parameters())


class Stopped(Exception):
    pass


def stopped(task: Task, path: Path, settings: TrainingSettings, at: int, **options: Any) -> None:
    """A run that was stopped after a report."""

    def give_up(p: Progress) -> None:
        if p.step >= at:
            raise Stopped

    with pytest.raises(Stopped):
        train(task, path, settings, on_report=give_up, **options)


def metrics_of(path: Path) -> list[dict]:
    return checkpoints.read(path).about["metrics"]


EIGHT = TrainingSettings(size=SMALL, steps=8, batch=4, optimiser=DECAYING)


@pytest.mark.parametrize("kind", ["imitate", "recording", "masked", "distil", "returning"])
def test_a_run_that_stopped_anywhere_ends_the_same(kind: str, tmp_path: Path) -> None:
    whole_path, every = tmp_path / "whole.safetensors", {"save_every": 3, "report_every": 2}
    whole = train(tasks(kind), whole_path, EIGHT, **every)
    for stop in (2, 4, 6):
        path = tmp_path / f"{stop}.safetensors"
        stopped(tasks(kind), path, EIGHT, stop, **every)
        assert path.with_suffix(".state.safetensors").exists() == (stop > 2)  # saved after steps 3 and 6
        same(train(tasks(kind), path, EIGHT, **every), whole)
        lines = metrics_of(path)
        assert [p["step"] for p in lines] == [2, 4, 6, 8]
        assert [p["loss"] for p in lines] == [p["loss"] for p in metrics_of(whole_path)]
        for before, p in pairwise([{"seconds": 0.0}, *lines]):  # the clock goes on with the run
            took = p["seconds"] - before["seconds"]
            assert p["tokens_per_second"] * took == pytest.approx(2 * EIGHT.batch * SMALL.context, rel=1e-6)
        assert sorted(file.name for file in tmp_path.glob(f"{stop}*")) == [f"{stop}.json", f"{stop}.safetensors"]
    same(train(tasks(kind), whole_path, EIGHT), whole)  # finished: read, not trained


def test_a_task_that_served_another_run_starts_afresh(tmp_path: Path) -> None:
    task = tasks("distil")
    same(*(train(task, tmp_path / f"{i}.safetensors", replace(EIGHT, steps=4)) for i in range(2)))


def test_a_run_that_is_lost_says_so(tmp_path: Path) -> None:
    """Steps far too large: what was saved stays finite."""
    lost = replace(EIGHT, optimiser=Optimiser(1e30, 1e30, 0, False, (0.9, 0.95), 1e-8, 0.0, None))
    for name, save_every, report_every in (("a", 1, 1), ("b", 1, 10), ("c", 10, 2)):
        path = tmp_path / f"{name}.safetensors"
        with pytest.raises(ValueError, match=r"training was lost by step \d+: the loss or the weights"):
            train(tasks("imitate"), path, lost, save_every=save_every, report_every=report_every)
        assert not path.exists()
        for state in tmp_path.glob(f"{name}.state.safetensors"):
            assert all(bool(value.isfinite().all()) for value in checkpoints.read(state).tensors.values())
    run = Training(tasks("imitate"), tmp_path / "d.safetensors", EIGHT)
    run.decoder.position.weight.data[-1] = math.inf  # before any loss has seen it
    with pytest.raises(ValueError, match="training was lost by step 0"):
        run.refuse_lost()


def test_another_module_is_another_task(tmp_path: Path) -> None:
    first, same, other = (
        described(Imitate(lr.FromModule(Decoder(2, SMALL, seed=seed).eval(), [0, 1], bos=0))) for seed in (5, 5, 6)
    )
    assert first == same != other


def test_another_run_is_not_continued(tmp_path: Path) -> None:
    first, second = (Transformer(Decoder(2, SMALL, seed=seed)) for seed in (5, 6))
    stopped(tasks("imitate"), tmp_path / "m.safetensors", EIGHT, 6, init=first, save_every=3, report_every=2)
    train(tasks("imitate"), tmp_path / "done.safetensors", EIGHT, init=first)
    for change, words in (
        ({"init": second}, "another init"),
        ({"init": None}, "another init"),
        ({"settings": replace(EIGHT, seed=1)}, "another settings: .*'seed': 0.* there, .*'seed': 1.* here"),
        ({"task": Imitate(lr.PolyaUrn(2))}, "another task"),
    ):
        for name in ("m", "done"):
            given = {"task": tasks("imitate"), "settings": EIGHT, "init": first, **change}
            with pytest.raises(ValueError, match=f"from a run with {words}"):
                train(given["task"], tmp_path / f"{name}.safetensors", given["settings"], init=given["init"])
    state = tmp_path / "m.state.safetensors"
    tensors, about = checkpoints.read(state)
    checkpoints.write(state, tensors, {**about, "precision": "(torch.bfloat16, torch.bfloat16)"})
    with pytest.raises(ValueError, match="another precision"):
        train(tasks("imitate"), tmp_path / "m.safetensors", EIGHT, init=first)


def test_descriptions_differ_where_weights_do() -> None:
    heads = [Transformer(Decoder(2, SMALL._replace(heads=h))) for h in (2, 4)]
    tables = [lr.predictors.Scheduled([[p, 1 - p]]) for p in (0.4, 0.5)]
    recordings = [Recording.of([0, 1, 1, last], held_out=0) for last in (0, 1)]
    rates = [lr.robustify(tables[0], lr.matching(), test=lr.RegretRate(32, alpha)) for alpha in (1.0, 1.5)]
    for things in (heads, tables, recordings, rates):
        found = [json.dumps(described(Imitate(thing))) for thing in things]
        assert found[0] != found[1]
        assert found == [json.dumps(described(Imitate(thing))) for thing in things]
    assert json.dumps(described(lr.FromFunction(lambda history: [0.5, 0.5], 2)))


def same(one: Transformer, other: Transformer) -> None:
    for (name, a), (_, b) in zip(one.decoder.named_parameters(), other.decoder.named_parameters(), strict=True):
        assert torch.equal(a, b), name


TWO = """
import sys, torch
torch.set_num_threads(1)
from tests.transformer.test_training import *
for kind in KINDS:
    train(tasks(kind), f"{sys.argv[1]}/two-{kind}.safetensors", SHARED, report_every=1)
"""
KINDS = ("imitate", "masked", "distil", "returning")
# With so large an eps a step is proportional to the gradient: one that is off by a factor shows.
PLAIN = replace(DECAYING, peak=1.0, start=1.0, eps=1.0, clip=None)
SHARED = TrainingSettings(size=SMALL, steps=5, batch=8, optimiser=PLAIN)


@pytest.mark.long
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(s.getsockname()[1]), "WORLD_SIZE": "2"}
    places = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(Path(__file__).resolve().parents[2])]
    env = {**os.environ, **meeting, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-c", TWO, str(tmp_path)]
    for process in [subprocess.Popen(command, env={**env, "RANK": str(rank)}) for rank in range(2)]:
        assert process.wait(timeout=120) == 0
    for kind in KINDS:
        alone = train(tasks(kind), tmp_path / f"one-{kind}.safetensors", SHARED, report_every=1)
        losses = [[p["loss"] for p in metrics_of(tmp_path / f"{n}-{kind}.safetensors")] for n in ("one", "two")]
        assert losses[1] == pytest.approx(losses[0], rel=1e-4), kind
        theirs = load(tmp_path / f"two-{kind}.safetensors").decoder
        for a, b in zip(alone.decoder.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    settings, path = TrainingSettings(size=SMALL, steps=1, batch=2), tmp_path / "m.safetensors"
    source, coin = lr.evaluate.sources.paper_sources(32)["b"], lr.matching()
    short = Transformer(Decoder(2, SMALL._replace(context=16)))
    for wrong, words in (
        (
            lambda: train(Masked(source, lr.robustify(source, coin, test=lr.RegretRate(16))), path, settings),
            "robust is for 16 steps, the decoder's context is 32",
        ),
        (lambda: train(Imitate(short), path, settings), "source has a context of 16"),
        (
            lambda: train(Imitate(Recording.of([0, 1, 1] * 10, held_out=0)), path, settings),
            "at most the longest sequence to learn from, 30 tokens, got 32",
        ),
        (lambda: train(Imitate(source), path, settings, init=short), "init must be of the same size"),
        (lambda: train(Imitate(source), tmp_path / "m.json", settings), r"path must end in \.safetensors"),
        (lambda: Masked(source, source), r"robust must be robustify\(base, problem, horizon\)"),
        (lambda: Masked(source, lr.robustify(source, coin, test=lr.ExactTest())), "robust must be robustify"),
        (lambda: Masked(source, lr.robustify(source, None, 32)), "robust must be robustify"),
        (lambda: Masked(source, lr.robustify(source, coin, 32)), "what Masked learns after the alarm"),
        (lambda: Distil(source, robust_with_urn(source, coin, 32), play_share=0.7), "play_share must lie between"),
        (lambda: TrainingSettings(steps=0), "steps"),
        (lambda: TrainingSettings(batch=0), "batch"),
        (lambda: TrainingSettings(seed=-1), "seed"),
        (lambda: TrainingSettings(compute="half"), "compute"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    assert list(tmp_path.iterdir()) == []


def test_progress_is_a_line() -> None:
    words = "step 4/8  loss 0.125  4,000 tokens/s  8 s, 9 s left"
    assert str(Progress(4, 8, 0.125, 1e-3, 4000.0, 8.0, 9.0)) == words
