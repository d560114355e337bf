"""Training: one step by hand, the mask by hand, and runs that are killed, resumed and shared."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

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
    Progress,
    Settings,
    Size,
    Transformer,
    data,
    load,
    train,
)
from lowregret.transformer.loss import Scaled, loss_of
from lowregret.transformer.tasks import Batch, robust_laws
from lowregret.transformer.training import Run

SMALL = Size(32, 16, 2, 1, 32)
FLOAT32 = (torch.float32, torch.float32)


class Fixed:
    """A decoder that says what it is told to."""

    def __init__(self, probs: np.ndarray) -> None:
        self.logits = torch.log(torch.tensor(probs, dtype=torch.float32))

    def __call__(self, tokens: torch.Tensor, *types: torch.dtype) -> torch.Tensor:
        return self.logits


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
    settings = Settings(size=SMALL, steps=10, batch=4, seed=3, optimiser=optimiser)
    source = lr.sources.paper_sources(32)["b"]
    run = Run(Imitate(source), tmp_path / "m.safetensors", settings)
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
    settings = Settings(size=SMALL, steps=100, batch=8, seed=0, optimiser=NANODO)
    run = Run(Imitate(lr.sources.paper_sources(32)["b"]), tmp_path / "m.safetensors", settings)
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


def test_losses_by_hand() -> None:
    probs = np.array([[[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]])
    tokens = torch.tensor([[1, 0, 1]])
    loss, count = loss_of(Fixed(probs), Batch(tokens), FLOAT32, None)
    assert (float(loss), float(count)) == (pytest.approx(-math.log(0.75 * 0.5 * 0.1), rel=1e-6), 3)
    weights = torch.tensor([[0.0, 1.0, 1.0]])
    loss, count = loss_of(Fixed(probs), Batch(tokens, None, weights), FLOAT32, None)
    assert (float(loss), float(count)) == (pytest.approx(-math.log(0.5 * 0.1), rel=1e-6), 2)
    targets = np.array([[[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]])
    divergence = sum(p * math.log(p / q) for p, q in zip(targets.ravel(), probs.ravel(), strict=True) if p)
    batch = Batch(tokens, torch.tensor(targets, dtype=torch.float32))
    assert float(loss_of(Fixed(probs), batch, FLOAT32, None)[0]) == pytest.approx(divergence, rel=1e-5)
    coin, warmth = lr.matching(), 0.25
    responses = [coin.quantal_response(x.reshape(-1, 2), warmth) for x in (targets, probs)]
    extra = float((responses[0] * np.log(responses[0] / responses[1])).sum())
    stakes = Scaled(torch.tensor(coin.utility.T / warmth, dtype=torch.float32), 0.5)
    both = loss_of(Fixed(probs), batch, FLOAT32, stakes)[0]
    assert float(both) == pytest.approx(divergence + 0.5 * extra, rel=1e-5)


def test_the_mask_of_a_hand_made_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base: always 1/3. After t ones the response has regret .72, which first exceeds 1.5/sqrt(t) at t = 5."""
    T = 8
    base, rule = lr.Scheduled([[2 / 3, 1 / 3]]), lr.RegretRate(lr.matching(), T)
    urn_half = torch.tensor([[1] * T, [0] * T, [0, 0, 0, 1, 1, 1, 1, 1]])
    monkeypatch.setattr(data, "urns", lambda *_: urn_half)
    batch = Masked(base, base, rule).batch(6, slice(None), T, data.generator("cpu", 0), None)
    assert torch.equal(batch.tokens_BxT[3:], urn_half)
    expected = np.ones((6, T))
    for i, tokens in enumerate(urn_half.numpy()):  # step by step, as the paper says it
        policy = 1 / (1 + math.exp(-(1 / 3) / rule.temperature))  # chance of action 0
        earned, tripped = 0.0, None
        for t in range(1, T + 1):
            earned += policy if tokens[t - 1] == 0 else 1 - policy
            best = max((tokens[:t] == a).sum() for a in (0, 1))
            if tripped is None and (best - earned) / t > 1.5 / math.sqrt(t):
                tripped = t
        expected[3 + i] = 0 if tripped is None else np.arange(T) >= tripped
    np.testing.assert_array_equal(batch.weights_BxT.numpy(), expected)
    assert expected[3].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert expected[4].sum() == 0  # discarded: the base does well on it
    # Every third row of each part, as one of three processes would take them.
    part = Masked(base, base, rule).batch(6, slice(0, None, 3), T, data.generator("cpu", 0), None)
    np.testing.assert_array_equal(part.weights_BxT.numpy(), expected[[0, 3]])


@pytest.mark.parametrize("rule", [lr.ExactTest, lr.RegretGap, lr.RegretRate])
def test_distilled_targets_are_algorithm_1s(rule: type) -> None:
    T = 32
    base = Transformer(Decoder(3, SMALL, seed=0))
    tested = rule(lr.matching(3), T)
    tokens = torch.randint(3, (64, T), generator=torch.Generator().manual_seed(0))
    tokens[:32] = tokens[:32, :1]  # some that trip
    targets = robust_laws(tested, base.laws(tokens), tokens)
    expected = lr.Robust(base, tested).predict_sequence(tokens)
    torch.testing.assert_close(targets, expected, atol=1e-5, rtol=0)
    if rule is not lr.RegretGap:
        assert not torch.allclose(targets, base.laws(tokens), atol=1e-2)


def test_the_pool_holds_what_the_greedy_adversary_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    coin, source = lr.matching(), lr.sources.paper_sources(32)["b"]
    model = Transformer(Decoder(2, SMALL, seed=8))
    real = torch.rand
    # Uniforms of one: nobody follows the source, nothing is noise.
    monkeypatch.setattr(torch, "rand", lambda *a, **k: torch.ones_like(real(*a, **k)))
    played = data.greedy_play(model.decoder, source, coin.utility, 32**-0.5, 3, data.generator("cpu", 0))
    worst = lr.adversaries.greedy(model, coin, 32)
    assert played.tolist() == [worst.tokens.tolist()] * 3


@pytest.mark.parametrize("n_states", [2, 4])
def test_worlds_are_sequences_of_states(n_states: int) -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(n_states), 64)
    for source in (lr.Scheduled(table), lr.PolyaUrn(n_states), lr.Markov(np.full((n_states,) * 2, 1 / n_states), 1)):
        tokens = data.other_worlds(source, 50, 64, data.generator("cpu", 1))
        assert tokens.shape == (50, 64)
        assert set(tokens.unique().tolist()) == set(range(n_states))
        assert torch.equal(tokens, data.other_worlds(source, 50, 64, data.generator("cpu", 1)))
        assert not torch.equal(tokens, data.other_worlds(source, 50, 64, data.generator("cpu", 2)))


def test_sources_are_drawn_from_their_laws() -> None:
    """Chances within 5 standard errors (chance of failing below 1e-4 over all bits); the urn's sums are uniform."""
    n, T = 20_000, 16
    source = lr.sources.paper_sources(T)["sin2"]
    chance = np.asarray(source.probs_TxS if hasattr(source, "probs_TxS") else source.predict_sequence([0] * T))[:, 1]
    mean = data.sequences(source, n, T, data.generator("cpu", 0)).double().mean(0).numpy()
    assert (np.abs(mean - chance) <= 5 * np.sqrt(chance * (1 - chance) / n) + 1e-9).all()
    sums = data.sequences(lr.PolyaUrn(2), n, T, data.generator("cpu", 0)).sum(-1)
    counts = torch.bincount(sums, minlength=T + 1).double()
    expected = n / (T + 1)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    from scipy.stats import chi2

    assert statistic < chi2.ppf(1 - 1e-6, T)


def tasks(kind: str, T: int = 32):
    source, coin = lr.sources.paper_sources(T)["b"], lr.matching()
    base = Transformer(Decoder(2, SMALL, seed=9))
    if kind == "imitate":
        return Imitate(source)
    if kind == "masked":
        return Masked(source, base, lr.RegretRate(coin, T))
    return Distil(source, base, lr.ExactTest(coin, T), play_every=3, play_count=4, pool=6)


@pytest.mark.parametrize("kind", ["imitate", "masked", "distil"])
def test_a_run_that_stopped_anywhere_ends_the_same(kind: str, tmp_path: Path) -> None:
    settings = Settings(size=SMALL, steps=8, batch=4, optimiser=DECAYING)
    whole = train(tasks(kind), tmp_path / "whole.safetensors", settings, report_every=1)

    class Stopped(Exception):
        pass

    for stop in range(1, 8):
        path = tmp_path / f"{stop}.safetensors"

        def give_up(p: Progress, stop: int = stop) -> None:
            if p.step == stop:
                raise Stopped

        with pytest.raises(Stopped):
            train(tasks(kind), path, settings, save_every=3, report_every=1, on_report=give_up)
        resumed = train(tasks(kind), path, settings, save_every=3, report_every=1)
        same(resumed, whole)
        lines = [json.loads(line) for line in (tmp_path / f"training/{stop}/metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == list(range(1, 9))
        first = [json.loads(line) for line in (tmp_path / "training/whole/metrics.jsonl").read_text().splitlines()]
        assert [line["loss"] for line in lines] == [line["loss"] for line in first]
    same(train(tasks(kind), tmp_path / "whole.safetensors", settings), whole)  # finished: read, not trained


def same(one: Transformer, other: Transformer) -> None:
    for (name, a), (_, b) in zip(one.decoder.named_parameters(), other.decoder.named_parameters(), strict=True):
        assert torch.equal(a, b), name


KILLER = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from lowregret.transformer import checkpoints
from tests.test_training import *

path, state = Path(sys.argv[1]), Path(sys.argv[2])
chance, steps = random.Random(0), []
Run(tasks("distil"), path.with_name("warm.safetensors"), LONG).advance()  # what is imported late is there
while len(steps) < 10:
    begun = state.stat().st_mtime_ns if state.exists() else 0
    child = os.fork()
    if not child:
        train(tasks("distil"), path, LONG, save_every=1)
        os._exit(0)
    while not state.exists() or state.stat().st_mtime_ns == begun:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not path.exists(), "the run was over before it could be killed ten times"
    steps.append(checkpoints.read(state).about["step"])
print(steps)
"""
LONG = Settings(size=SMALL, steps=2000, batch=2, optimiser=DECAYING)


def script(tmp_path: Path, text: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A Python program beside the tests, in one thread."""
    path = tmp_path / "program.py"
    path.write_text(text)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[1]), **environment}
    command = [sys.executable, str(path), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_killed_ten_times_ends_the_same(tmp_path: Path) -> None:
    path, folder = tmp_path / "killed.safetensors", tmp_path / "training/killed"
    process = script(tmp_path, KILLER, path, folder / "state.safetensors")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    steps = json.loads(out)
    assert steps[0] >= 1
    assert all(a < b for a, b in pairwise(steps))
    # From here to the end, beside a run that nobody disturbed.
    ends = []
    for name in ("killed", "whole"):
        run = Run(tasks("distil"), tmp_path / f"{name}.safetensors", LONG)
        assert run.step == (steps[-1] if name == "killed" else 0)
        while run.step < steps[-1] + 5:
            run.advance()
        ends.append(Transformer(run.decoder))
    same(*ends)


TWO = """
import sys, torch
torch.set_num_threads(1)
from tests.test_training import *
for kind in KINDS:
    train(tasks(kind), f"{sys.argv[1]}/two-{kind}.safetensors", SHARED, report_every=1)
"""
KINDS = ("imitate", "masked", "distil")
# With so large an eps a step is proportional to the gradient: one that is off by a factor shows.
PLAIN = replace(DECAYING, peak=1.0, start=1.0, eps=1.0, clip=None)
SHARED = Settings(size=SMALL, steps=5, batch=8, optimiser=PLAIN)


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    port = str(free_port())
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    processes = [script(tmp_path, TWO, tmp_path, RANK=str(rank), **meeting) for rank in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    for kind in KINDS:
        alone = train(tasks(kind), tmp_path / f"one-{kind}.safetensors", SHARED, report_every=1)
        losses = [
            [
                json.loads(line)["loss"]
                for line in (tmp_path / f"training/{n}-{kind}/metrics.jsonl").read_text().split("\n")[:-1]
            ]
            for n in ("one", "two")
        ]
        assert losses[1] == pytest.approx(losses[0], rel=1e-4), kind
        theirs = load(tmp_path / f"two-{kind}.safetensors").decoder
        for a, b in zip(alone.decoder.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    settings = Settings(size=SMALL, steps=1, batch=2)
    path = tmp_path / "m.safetensors"
    source, coin = lr.sources.paper_sources(32)["b"], lr.matching()
    with pytest.raises(ValueError, match="rule is for 16 steps, the decoder's context is 32"):
        train(Masked(source, source, lr.RegretRate(coin, 16)), path, settings)
    short = Transformer(Decoder(2, SMALL._replace(context=16)))
    with pytest.raises(ValueError, match="base has a context of 16"):
        train(Masked(source, short, lr.RegretRate(coin, 32)), path, settings)
    with pytest.raises(ValueError, match="rule must have a horizon"):
        Masked(source, source, lr.ExactTest(coin, None, delta=0.1))
    with pytest.raises(ValueError, match=r"play_share must lie between 0 and 0\.5"):
        Distil(source, source, lr.ExactTest(coin, 32), play_share=0.7)
    with pytest.raises(ValueError, match="init is of another size"):
        train(Imitate(source), path, settings, init=short)
    train(Imitate(source), path, settings)
    with pytest.raises(ValueError, match=r"from a run with another settings: seed: 0 there, 1 here"):
        train(Imitate(source), path, Settings(size=SMALL, steps=1, batch=2, seed=1))
    with pytest.raises(ValueError, match=r"from a run with another task"):
        train(Imitate(lr.PolyaUrn(2)), path, settings)
    for wrong in ({"steps": 0}, {"batch": 0}, {"seed": -1}, {"compute": "half"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Settings(**wrong)


def test_learning_happens(tmp_path: Path) -> None:
    """A few seconds of training bring the laws of source b near; the two recipes agree on what is to be learnt."""
    source = lr.sources.paper_sources(32)["b"]
    settings = Settings(size=SMALL, steps=250, batch=16, optimiser=DECAYING)
    model = train(Imitate(source, soft=True), tmp_path / "b.safetensors", settings)
    tokens = lr.sample(source, 32, 128, 0)
    assert lr.next_token_tv(model, source, tokens).high < 0.05
    assert lr.next_token_tv(Transformer(Decoder(2, SMALL)), source, tokens).low > 0.1
