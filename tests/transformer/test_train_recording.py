"""Trained on a recording: what is learnt, what counts, runs that go on, and the command line from end to end."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import lowregret as lr
from lowregret.problems import payoffs_in
from lowregret.transformer import (
    DECAYING,
    Decoder,
    Distil,
    Imitate,
    Masked,
    Recording,
    Size,
    TrainingSettings,
    Transformer,
    checkpoints,
    data,
    load,
    train,
)
from lowregret.transformer.held_out import Compared, Measured, compared, measured
from lowregret.transformer.tasks import Batch, after_alarm, loss_of
from lowregret.transformer.training import Training
from paper.app import _app

from .test_training import robust_with_urn

SMALL = Size(8, 16, 2, 1, 16)
STICKY = np.array([[0.9, 0.1], [0.3, 0.7]])
FLOAT32 = (torch.float32, torch.float32)
RAGGED = [[0, 1, 1], [1, 0, 0, 1, 1, 0, 1, 0, 0, 1], [0, 1], [1] * 9 + [0]]


# What is learnt


def test_a_chain_is_learnt_from_its_recording(tmp_path: Path) -> None:
    """Held-out log-loss beside the chain's own, in closed form: H(pi) for the first step of a window, then h."""
    tokens = lr.sample(lr.Markov(STICKY, window=1), horizon=200, n=60, seed=3)
    task = Imitate.from_tokens(tokens, held_out=0.5)
    settings = TrainingSettings(size=SMALL, steps=150, batch=32, optimiser=DECAYING)
    model = train(task, tmp_path / "m.safetensors", settings)
    found = measured(task.source, model)
    pi = np.array([0.75, 0.25])
    first, rate = -(pi @ np.log(pi)), -(pi @ (STICKY * np.log(STICKY)).sum(1))
    exact = (first + 7 * rate) / 8
    held = tokens[30:].reshape(-1, 8)
    own = -(np.log(pi[held[:, 0]]) + np.log(STICKY[held[:, :-1], held[:, 1:]]).sum(1)) / 8
    # Means over 30 independent sequences, two-sided at 1e-6.
    spread = 4.9 * own.reshape(30, 25).mean(1).std(ddof=1) / math.sqrt(30)
    assert abs(own.mean() - exact) < spread
    assert abs(found.model - own.mean()) < 0.01  # on the same tokens: how far the law learnt is from the chain's
    assert abs(found.model - exact) < 0.01 + spread
    assert found.model < found.frequencies - 0.1
    assert found.tokens == 6000
    counts = np.bincount(tokens[:30].ravel()) + 1
    assert found.frequencies == pytest.approx(-np.log(counts / counts.sum())[tokens[30:]].mean(), rel=1e-12)
    urn = -np.log(np.take_along_axis(lr.PolyaUrn(2).predict_sequence(held), held[..., None], -1)).mean()
    assert found.urn == pytest.approx(urn, rel=1e-12)
    said = -np.log(np.take_along_axis(model.predict_sequence(held), held[..., None], -1).astype(float)).mean()
    assert found.model == pytest.approx(said, rel=1e-9)
    assert "Nothing was learnt" not in str(found)


def test_every_token_held_out_counts_once_whatever_the_lengths() -> None:
    """By a loop over windows of 8 steps, the last of a sequence as long as it is."""
    model = Transformer(Decoder(2, SMALL, seed=1))
    rows = [*RAGGED * 3, [1, 0, 0] * 7]  # 13, of which 0.25 are three: 2, 10 and 21 long
    found = measured(Recording.of(rows, held_out=0.25), model)
    windows = [row[begin : begin + 8] for row in rows[-3:] for begin in range(0, len(row), 8)]
    counts = np.bincount(np.concatenate(rows[:-3])) + 1
    for told, laws in (
        (found.model, model.predict_sequence),
        (found.urn, lr.PolyaUrn(2).predict_sequence),
        (found.frequencies, lambda window: np.tile(counts / counts.sum(), (len(window), 1))),
    ):
        lost = [-math.log(laws(window)[t, token]) for window in windows for t, token in enumerate(window)]
        assert len(lost) == found.tokens == 33
        assert told == pytest.approx(np.mean(lost), rel=1e-6)


def test_a_model_that_learnt_nothing_says_so() -> None:
    assert "Nothing was learnt" in str(Measured(0.7, 0.69, 0.71, 1000))
    assert "Nothing was learnt" in str(Measured(0.7, 0.71, 0.69, 1000))
    recording = Recording.of(np.random.default_rng(0).integers(0, 2, 400), held_out=0)
    with pytest.raises(ValueError, match="must hold something out"):
        measured(recording, Transformer(Decoder(2, SMALL)))
    with pytest.raises(ValueError, match="must have the model's 3 states, got 2"):
        measured(Recording.of([0, 1] * 50), Transformer(Decoder(3, SMALL)))


# What counts


def test_nothing_after_the_end_of_a_sequence_counts() -> None:
    """The loss is the mean over recorded steps, by a loop; what comes after an end changes nothing."""
    decoder = Decoder(2, SMALL, seed=1)
    batch = Imitate.from_tokens(RAGGED, held_out=0).batch(40, slice(None), 8, data.generator("cpu", 2), None)
    assert batch.weights_BxT is not None
    total, count = loss_of(decoder, batch, FLOAT32, None)
    laws = Transformer(decoder).predict_sequence(batch.tokens_BxT)
    lengths = batch.weights_BxT.sum(-1).long().tolist()
    assert set(lengths) == {2, 3, 8}
    by_hand = sum(-math.log(laws[b, t, batch.tokens_BxT[b, t]]) for b, n in enumerate(lengths) for t in range(n))
    assert (total.item(), count.item()) == (pytest.approx(by_hand, rel=1e-5), sum(lengths))
    other = torch.where(batch.weights_BxT > 0, batch.tokens_BxT, 1 - batch.tokens_BxT)
    again = loss_of(decoder, Batch(other, None, batch.weights_BxT), FLOAT32, None)
    assert again[0].item() == pytest.approx(total.item(), rel=1e-6)
    gradients = [torch.autograd.grad(loss, list(decoder.parameters())) for loss in (total, again[0])]
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [Masked, Distil])
def test_robust_tasks_take_recordings(kind: Any) -> None:
    """The first half of a batch are windows, as far as they go; what is to be learnt there is Algorithm 1's."""
    recording, base = Recording.of(RAGGED, held_out=0), Transformer(Decoder(2, SMALL, seed=1))
    robust = robust_with_urn(base, lr.matching(), 8, delta=0.9)
    batch = kind(recording, robust).batch(24, slice(None), 8, data.generator("cpu", 0), None)
    windows = recording.windows(12, 8, data.generator("cpu", 0))
    assert torch.equal(batch.tokens_BxT[:12], windows.tokens_NxT)
    assert torch.equal(batch.weights_BxT[:12], windows.own_NxT)
    assert not windows.own_NxT.bool().all()
    if kind is Distil:
        assert batch.weights_BxT[12:].bool().all()
        expected = robust.predict_sequence(batch.tokens_BxT)
        torch.testing.assert_close(batch.targets_BxTxS, expected, atol=1e-6, rtol=0)
    else:
        late = after_alarm(robust, base.predict_sequence(batch.tokens_BxT[12:]), batch.tokens_BxT[12:])
        assert torch.equal(batch.weights_BxT[12:], late.float())
    with pytest.raises(ValueError, match="source must have the problem's 3 states"):
        kind(recording, robust_with_urn(Transformer(Decoder(3, SMALL)), lr.matching(3), 8))


def test_a_student_is_compared_on_what_was_held_out() -> None:
    base = Transformer(Decoder(2, SMALL, seed=1))
    rows = np.zeros((20, 8), dtype=np.int64)
    rows[18:] = 1  # only what is held out has ones
    task = Distil(Recording.of(rows, n_states=2), robust_with_urn(base, lr.matching(), 8))
    seen: list[torch.Tensor] = []

    def laws(tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tokens)
        return Transformer.probs_on_device(base, tokens)

    spied = Transformer(base.decoder)
    object.__setattr__(spied, "probs_on_device", laws)
    object.__setattr__(task.robust, "base", spied)
    found = compared(task, base, TrainingSettings(size=SMALL, steps=2))
    assert isinstance(found, Compared)
    assert found.student == found.base
    assert seen[0][:32].bool().all()


# Runs


def test_a_run_on_a_recording_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = TrainingSettings(size=SMALL, steps=6, batch=4, optimiser=DECAYING)

    def task(last: int = 0) -> Imitate:
        return Imitate.from_tokens([*RAGGED, [0, 1, 1, last]], held_out=0)

    whole = train(task(), tmp_path / "whole.safetensors", settings)
    run = Training(task(), tmp_path / "m.safetensors", settings)
    for _ in range(3):
        run.advance()
    run.save()
    with pytest.raises(ValueError, match=r"another task.*Recording.*tokens"):
        train(task(last=1), tmp_path / "m.safetensors", settings)
    resumed = train(task(), tmp_path / "m.safetensors", settings)
    for one, two in zip(whole.decoder.parameters(), resumed.decoder.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_context_beyond_the_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"at most the longest sequence to learn from, 10 tokens, got 12.*10,16,2,1,16"
    ):
        train(
            Imitate.from_tokens(RAGGED, held_out=0),
            tmp_path / "m.safetensors",
            TrainingSettings(size=(12, 16, 2, 1, 16)),
        )
    assert not list(tmp_path.iterdir())


# Payoffs


EUROS, ACTIONS, STATES = [[100.0, -20.0, 3.5], [0.0, 0.0, -7.0]], ("open", "shut"), ("dry", "wet", "hot")


@pytest.mark.parametrize(
    ("text", "actions", "states"),
    [
        ("100,-20,3.5\n0,0,-7\n", None, None),
        ("dry,wet,hot\n100,-20,3.5\n0,0,-7\n", None, STATES),
        ("open,100,-20,3.5\nshut,0,0,-7\n", ACTIONS, None),
        (",dry,wet,hot\nopen,100,-20,3.5\nshut,0,0,-7\n", ACTIONS, STATES),
        ("euros, dry, wet, hot\nopen, 1e2, -20, 3.5\n\nshut, 0, 0, -7\n", ACTIONS, STATES),
        ("\ufeffdry,wet,hot\r\nopen,100,-20,3.5\r\nshut,0,0,-7\r\n", ACTIONS, STATES),
        (',"dry","wet","hot"\n"open",100,-20,3.5\n"shut",0,0,-7\n', ACTIONS, STATES),
    ],
)
def test_payoffs_of_a_file(text: str, actions: Any, states: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    found, wanted = payoffs_in(tmp_path / "p.csv"), lr.DecisionProblem.from_payoffs(EUROS, actions, states)
    assert found.utility.tolist() == wanted.utility.tolist()
    assert found.in_payoffs(0.25) == wanted.in_payoffs(0.25)
    assert (found.actions, found.states) == (wanted.actions, wanted.states)


def test_payoffs_of_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array(EUROS))
    assert payoffs_in(tmp_path / "p.npy").utility.tolist() == lr.DecisionProblem.from_payoffs(EUROS).utility.tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("dry,wet\n", "names only"),
        ("1,2\n3\n", "line 2 of .* has 1"),
        ("1,2\n3,x\n", "line 2 of .* has 'x'"),
        ("1,2\n3,\n", "line 2 of .* has ''"),
        ("1,nan\n3,4\n", "payoffs must be"),
        ("1,inf\n3,4\n", "payoffs must be"),
        ("dry,wet,hot,cold\n1,2\n3,4\n", "states must name each of the 2 states"),
    ],
)
def test_bad_payoffs_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        payoffs_in(tmp_path / "p.csv")


# The command line


def lowregret(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(_app(), arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


def weather(folder: Path) -> None:
    """Three states by name, in an order that is not the alphabet's, in sequences of different lengths."""
    chain = lr.Markov([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]], window=1)
    names = np.array(["storm", "rain", "calm"])[lr.sample(chain, 40, 20, seed=0)]
    lines = [" ".join(row[: 12 + i]) for i, row in enumerate(names)]
    (folder / "weather.txt").write_text("\n".join(lines) + "\n")
    (folder / "payoffs.csv").write_text("euros,storm,rain,calm\nsail,-200,-20,100\nwait,-40,30,60\nhome,0,0,0\n")


STEPS = ("--steps", "3", "--batch", "4")


def test_from_a_recording_to_a_robust_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weather(tmp_path)
    recorded = ("--tokens", "weather.txt", "--payoffs", "payoffs.csv")
    code, said = lowregret("train", *recorded, "--size", "8,16,2,1,16", "--out", "base.safetensors", *STEPS)
    assert code == 0, said
    assert "States, from 0 on: storm, rain, calm" in said
    assert "Log-loss a token on the 61 held out" in said  # of the last two of the 20 sequences, 30 and 31
    recording = Recording.of("weather.txt", states=["storm", "rain", "calm"])
    assert str(measured(recording, load("base.safetensors"))).split(". ")[0] in said
    code, said = lowregret("train", *recorded, "--base", "base.safetensors", "--out", "robust.safetensors", *STEPS)
    assert code == 0, said
    assert "Divergence from Algorithm 1 on fresh sequences" in said
    about = checkpoints.read("robust.safetensors").about
    problem = payoffs_in("payoffs.csv")
    assert about["size"] == SMALL._asdict()
    assert about["task"]["Distil"]["robust"]["Robust"]["problem"] == {"DecisionProblem": problem.utility.tolist()}
    assert about["task"]["Distil"]["source"]["Recording"]["states"] == ["storm", "rain", "calm"]
    code, said = lowregret(
        *("evaluate", "robust.safetensors", "--against", "base.safetensors", *recorded, "--held-out", "0.1"),
        *("-n", "4", "--out", "n.json"),
    )
    assert code == 0, said
    found, model = json.loads((tmp_path / "n.json").read_text()), load("robust.safetensors")
    player = lr.policies.Respond(model, problem, 8**-0.5)
    lost = steps = 0.0
    for length, start in zip(recording.kept.lengths, recording.kept.starts, strict=True):
        for begin in range(0, length, 8):
            window = recording.tokens[start + begin : start + min(begin + 8, length)]
            lost += len(window) * float(lr.external_regret(problem, player, window)[-1])
            steps += len(window)
    assert found["recording"]["regret"] == pytest.approx(lost / steps, abs=1e-6)
    assert found["recording"]["tokens"] == steps == 61
    assert found["greedy"] == pytest.approx(float(lr.evaluate.adversaries.greedy(model, problem, 8).regret))
    assert f"{problem.regret_in_payoffs(found['recording']['regret']):+.6g} in the payoffs' units" in said
    assert "next_token_tv to base" in said
    code, said = lowregret("evaluate", "base.safetensors", "--tokens", "weather.txt", "--out", "all.json")
    assert code == 0, said
    assert json.loads((tmp_path / "all.json").read_text())["recording"]["tokens"] == len(recording.tokens)
    # What the base model draws itself stands in for a recording; masked training takes one too.
    for task, more, kind in (
        ("distilled", (), "Transformer"),
        ("robust", ("--tokens", "weather.txt", "--rule", "rate"), "Recording"),
    ):
        arguments = ("--base", "base.safetensors", "--payoffs", "payoffs.csv", "--out", f"by_{task}.safetensors")
        code, said = lowregret("train", task, *arguments, *more, *STEPS)
        assert code == 0, said
        made = checkpoints.read(f"by_{task}.safetensors").about
        assert kind in next(iter(made["task"].values()))["source"]


def test_refusals_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weather(tmp_path)
    code, said = lowregret(
        *("train", "--tokens", "weather.txt", "--size", "8,16,2,1,16", "--out", "base.safetensors", *STEPS)
    )
    assert (code, "States, from 0 on: calm, rain, storm" in said) == (0, True)
    (tmp_path / "plain.csv").write_text("1,2,3\n3,2,1\n")
    (tmp_path / "two.csv").write_text("a,b\n1,2\n3,4\n")
    np.save(tmp_path / "numbers.npy", np.arange(300).reshape(10, 30) % 3)
    assert (
        lowregret("train", "--tokens", "numbers.npy", "--size", "8,16,2,1,16", "--out", "n.safetensors", *STEPS)[0] == 0
    )
    there = sorted(tmp_path.rglob("*"))
    base, tokens, payoffs = ("--base", "base.safetensors"), ("--tokens", "weather.txt"), ("--payoffs", "payoffs.csv")
    for arguments, words in (
        ((), "task must be one of bernoulli, polyaurn, imitate, robust, distilled, got nothing: name one, or give"),
        (("imitate",), "imitate needs --tokens"),
        (("imitate", *tokens, *base), "--base means nothing to imitate"),
        (("bernoulli", *tokens), "--tokens means nothing to bernoulli"),
        (("bernoulli", *payoffs), "--payoffs means nothing to bernoulli"),
        (("imitate", *tokens, "--soft"), "--soft means nothing to imitate"),
        (("bernoulli", "--held-out", "0.1"), "--held-out means nothing to bernoulli"),
        (("distilled", *tokens), "distilled needs --base"),
        (tokens, "size.context must be at most the longest sequence to learn from, 29 tokens"),
        ((*tokens, *base, "--source", "b"), "--tokens takes the place of --source"),
        ((*tokens, *base, *payoffs, "--problem", "matching"), "--payoffs takes the place of --problem"),
        ((*tokens, *base, "--size", "quick"), "--size is that of --base, 8,16,2,1,16: leave it out, got quick"),
        ((*tokens, *base, *payoffs), "learnt the states calm, rain, storm, and the problem has storm, rain, calm"),
        ((*tokens, *base, "--payoffs", "plain.csv"), "the problem's states have none: name them in the first row"),
        ((*base, "distilled", "--payoffs", "plain.csv"), "the problem's states have none: name them in the first row"),
        ((*tokens, "--payoffs", "plain.csv"), "the problem's states have none: name them in the first row"),
        (
            (*tokens, "--payoffs", "two.csv"),
            "must be one of the states 'a', 'b', got 'calm'",
        ),
        (("--base", "n.safetensors", *tokens), "and the model learnt numbers: name the states"),
        ((*tokens, "--payoffs", "none.csv"), "none.csv is not there"),
        (("--tokens", "none.npy"), "none.npy is not there"),
        ((*tokens, "--held-out", "0.7"), "less than or equal to 0.5"),
    ):
        code, said = lowregret("train", *arguments, "--out", "new.safetensors")
        assert code == 2, (arguments, said)
        assert words in said, (arguments, said)
    for arguments, words in (
        (("base.safetensors",), "--tokens measures it on a recording"),
        (("base.safetensors", "--held-out", "0.1"), "--held-out means nothing without --tokens"),
        (("base.safetensors", *tokens, *payoffs), "learnt the states calm, rain, storm"),
    ):
        code, said = lowregret("evaluate", *arguments)
        assert code == 2, (arguments, said)
        assert words in said, (arguments, said)
    code, said = lowregret("construct", "base.safetensors", *payoffs, "--out", "new.safetensors")
    assert (code, "learnt the states calm, rain, storm" in said) == (2, True)
    assert sorted(tmp_path.rglob("*")) == there
