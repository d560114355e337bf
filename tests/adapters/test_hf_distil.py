"""Algorithm 1 into a language model's weights: batches, loss and play against slow loops; Trainer, at a tiny size."""

import copy

import numpy as np
import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from .test_language_models import SEPARATOR, llama  # noqa: E402

T, STATES, PROMPT = 12, [3, 6], [7, 1]
COIN, TEST, URN = lr.matching(), lr.ExactTest(0.3, T), lr.PolyaUrn(2)
RETURNS = lr.ExactTest(0.5, T), lr.Recovery(memories=(3, 6), share=0.02, budget=0.3)


def recipe(separator=SEPARATOR, test=TEST, fallback=URN, **settings):
    base = lr.HFPredictor(llama(initializer_range=0.3), STATES, prompt=PROMPT, separator=separator)
    return lr.adapters.HFDistil(lr.robustify(base, COIN, test=test, fallback=fallback), **settings)


def states_of(input_ids, separator=SEPARATOR):
    """What was written, by hand: all but the last state, which nobody reads."""
    rest = input_ids[:, len(PROMPT) :]
    return np.array([[STATES.index(i) for i in row[:: 1 + len(separator)].tolist()] for row in rest])


@pytest.mark.parametrize(
    ("separator", "test", "fallback"), [([], TEST, URN), (SEPARATOR, TEST, URN), (SEPARATOR, *RETURNS)]
)
def test_targets_are_the_laws_of_algorithm_1(separator, test, fallback):
    distil, rng = recipe(separator, test, fallback), np.random.default_rng(0)
    recordings = rng.integers(0, 2, (16, T))
    distil.collate(recordings.tolist())
    distil.play(copy.deepcopy(distil.base.model))
    for examples in (recordings.tolist(), [{"states": row} for row in recordings]):
        batch = distil.collate(examples)
        read = states_of(batch["input_ids"], separator)
        assert batch["labels"].shape == (16, T, 2)
        np.testing.assert_array_equal(read[:8], recordings[:8, :-1])  # half stays as it is
        assert (read[8:] != recordings[8:, :-1]).any()
        tokens = np.concatenate([read, np.zeros((16, 1), dtype=np.int64)], axis=1)
        np.testing.assert_allclose(batch["labels"], distil.robust.predict_sequence(tokens), atol=1e-6)
        assert (np.asarray(distil.robust.alarm_times(tokens)) <= T).any()


def by_hand(logits, labels, weight):
    """The loss of one batch, a step and a state at a time."""
    utility, warmth, losses = COIN.utility, T**-0.5, []
    for row, targets in zip(logits[:, len(PROMPT) - 1 :: 1 + len(SEPARATOR)], labels, strict=True):
        for said, target in zip(row, targets, strict=True):
            whole = np.exp(said - said.max()) / np.exp(said - said.max()).sum()
            own = whole[STATES]
            loss = sum(p * np.log(p / q) for p, q in zip(target, own, strict=True) if p > 0)
            wanted, played = (np.exp(utility @ law / warmth) for law in (target, own / own.sum()))
            wanted, played = wanted / wanted.sum(), played / played.sum()
            losses.append(loss + weight * sum(p * np.log(p / q) for p, q in zip(wanted, played, strict=True)))
    return losses


def test_the_loss_is_what_it_says():
    distil, rng = recipe(response_weight=0.4), np.random.default_rng(1)
    batch = distil.collate(rng.integers(0, 2, (6, T)))
    with torch.no_grad():
        outputs = llama(5)(batch["input_ids"])
    losses = by_hand(outputs.logits.double().numpy(), batch["labels"].double().numpy(), 0.4)
    assert float(distil.loss(outputs, batch["labels"])) == pytest.approx(np.mean(losses), rel=1e-4)
    # As Trainer calls it, with the numbers in the labels of all batches that are accumulated.
    shared = distil.loss(outputs, batch["labels"], num_items_in_batch=torch.tensor(2 * batch["labels"].numel()))
    assert float(shared) == pytest.approx(np.mean(losses) / 2, rel=1e-4)


def test_play_is_against_the_model_as_it_is():
    """Without noise and from the first step on, what is played is what the greedy adversary plays."""
    distil = recipe(play_count=200, pool=300)
    student = llama(3, initializer_range=0.3)
    student.train()
    played = distil.play(student)
    assert student.training
    assert played.shape == (200, T)
    student.eval()
    opponent = lr.HFPredictor(student, STATES, prompt=PROMPT, separator=SEPARATOR)
    worst = lr.evaluate.adversaries.greedy(opponent, COIN, T, temperature=T**-0.5).tokens
    exact = (played.numpy() == np.asarray(worst).ravel()).all(axis=1).mean()
    assert exact > 0.1  # an eighth have neither noise nor a beginning at home, and some of the others agree
    distil.play(student)
    assert distil.played_NxT.shape == (300, T)


def test_trainer_takes_it(tmp_path):
    """A model that expects the wrong state learns to leave it: tiny, so only the way there is checked."""
    distil = recipe([], play_every=10, play_count=8)
    student, recordings = copy.deepcopy(distil.base.model), np.random.default_rng(3).integers(0, 2, (64, T))
    quiet = {"save_strategy": "no", "logging_strategy": "no", "report_to": [], "disable_tqdm": True, "use_cpu": True}
    training = {"max_steps": 40, "per_device_train_batch_size": 16, "learning_rate": 3e-3}
    args = transformers.TrainingArguments(str(tmp_path), remove_unused_columns=False, **training, **quiet)
    ours = {"data_collator": distil.collate, "compute_loss_func": distil.loss, "callbacks": [distil.player()]}
    trainer = transformers.Trainer(student, args, train_dataset=recordings.tolist(), **ours)
    held_out = distil.collate(np.random.default_rng(4).integers(0, 2, (64, T)))

    @torch.no_grad()
    def held_out_loss():
        return float(distil.loss(student.eval()(held_out["input_ids"]), held_out["labels"]))

    before = held_out_loss()
    trainer.train()
    assert len(distil.played_NxT) == 32  # at steps 0, 10, 20, 30
    assert held_out_loss() < 0.7 * before


def test_what_is_refused(monkeypatch):
    distil, base = recipe(), recipe().base
    with pytest.raises(ValueError, match=r"examples must have the horizon's 12 states, got 5"):
        distil.collate([[0, 1, 0, 1, 0]])
    with monkeypatch.context() as worker:
        worker.setattr(torch.utils.data, "get_worker_info", object)  # as in a process of a DataLoader
        with pytest.raises(ValueError, match="dataloader_num_workers must be 0"):
            distil.collate([[0] * T])
    lr.adapters.HFDistil(lr.robustify(base, lr.matching(), T))  # the default fallback is not
    with pytest.raises(ValueError, match="robust must be for one problem, with a horizon"):
        lr.adapters.HFDistil(lr.robustify(base, COIN, test=lr.ExactTest()))


# Algorithm 1 as a few more layers of a language model


def test_built_on_a_language_model():
    from lowregret import construct

    for name in ("hf", "module"):
        model = llama(initializer_range=0.3)
        base = (
            lr.HFPredictor(model, STATES, prompt=PROMPT, separator=SEPARATOR)
            if name == "hf"
            else lr.FromModule(model, STATES, bos=PROMPT)
        )
        tokens = np.random.default_rng(0).integers(0, 2, (64, T))
        algorithm = lr.robustify(base, COIN, test=lr.RegretRate(T, alpha=0.9))
        built = construct.build(base, algorithm.setting)
        np.testing.assert_allclose(built.predict_sequence(tokens), algorithm.predict_sequence(tokens), atol=1e-6)
        assert (np.asarray(algorithm.alarm_times(tokens)) <= T).any()
        with pytest.raises(ValueError, match="gives"):
            construct.build(base, algorithm.setting, gives="probabilities")
