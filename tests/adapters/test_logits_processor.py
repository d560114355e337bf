"""Robust states inside ``generate``: every row of every call against ``Robust`` over ``HFPredictor``."""

import numpy as np
import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from .test_language_models import MODELS, PROMPT, SEPARATOR, STATES, CallsOf, gpt2, llama, read  # noqa: E402

HORIZON = 14
IN_DOUBLE = {
    "gpt2": gpt2().double(),
    "llama": llama().double(),
}  # what differs is then that `generate` hands over scores in single precision
GAME = lr.rock_paper_scissors()


def guarded(predictor):  # so large a delta that alarms are frequent
    return lr.robustify(predictor, GAME, test=lr.ExactTest(0.3, HORIZON))


@pytest.fixture(params=[(name, separator) for name in IN_DOUBLE for separator in ((), SEPARATOR)], ids=str)
def robust(request):
    name, separator = request.param
    predictor = lr.HFPredictor(IN_DOUBLE[name], STATES, prompt=PROMPT, separator=list(separator))
    return guarded(predictor)


class Watched(lr.RobustLogitsProcessor):
    """Keeps what it was given and what it returned."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.seen = []

    def __call__(self, input_ids, scores):
        out = super().__call__(input_ids, scores)
        self.seen.append((input_ids.clone(), scores.clone(), out.clone()))
        return out


def history(robust, row):
    """The states in a row, and what is left of a chunk: by hand."""
    ids, step = row.tolist(), 1 + len(robust.base.states.separator)
    while ids[: len(PROMPT)] != PROMPT:
        assert ids[0] == 0
        ids = ids[1:]
    rest = ids[len(PROMPT) :]
    return [STATES.index(token) for token in rest[::step]], len(rest) % step


def expected(robust, row, size, known):
    """The logarithm of the robust law after the row, asked as a recorded sequence; or the separator that is due."""
    states, within = history(robust, row)
    logs = np.full(size, -np.inf)
    if within:
        logs[robust.base.states.separator[within - 1].item()] = 0.0
        return logs, False
    if tuple(states) not in known:
        tokens = np.array([[*states, 0]])
        law = np.asarray(robust.predict_sequence(tokens))[0, -1]
        known[tuple(states)] = law, int(robust.alarm_times(tokens)[0]) <= len(states)
    law, switched = known[tuple(states)]
    with np.errstate(divide="ignore"):
        logs[STATES] = np.log(law)
    return logs, switched


def agrees(robust, seen, tolerance=2e-6):
    """Every row of every call; how many there were, and how many of them came after a switch."""
    rows, late, known = 0, 0, {}
    for input_ids, _, out in seen:
        for row, scores in zip(input_ids, out.numpy(), strict=True):
            logs, switched = expected(robust, row, scores.shape[-1], known)
            np.testing.assert_array_equal(np.isneginf(scores), np.isneginf(logs))
            there = np.isfinite(logs)
            np.testing.assert_allclose(scores[there], logs[there], rtol=tolerance, atol=tolerance)
            rows, late = rows + 1, late + switched
    return rows, late


def written(robust, prompts, watched=None, **settings):
    watched = Watched(robust) if watched is None else watched
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    step = 1 + len(robust.base.states.separator)
    settings = {"max_new_tokens": 8 * step, "do_sample": False, "num_beams": 1, **settings}
    torch.manual_seed(3)
    out = robust.base.model.generate(ids, attention_mask=mask, logits_processor=[watched], **settings)
    return out, watched


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(
    "settings",
    [{}, {"do_sample": True, "temperature": 3.0}, {"num_beams": 3}, {"num_beams": 4, "num_return_sequences": 2}],
    ids=["greedy", "sampled", "beams", "beams returned"],
)
def test_scores_are_the_robust_law(robust, settings, batch):
    out, watched = written(robust, [PROMPT] * batch, **settings)
    rows, _ = agrees(robust, watched.seen)
    assert rows == len(watched.seen) * batch * settings.get("num_beams", 1)
    assert watched.rebuilt == 0
    for row, (steps, share, at) in zip(out, watched.decided(out), strict=True):
        states, _ = history(robust, row)
        alarm = int(robust.alarm_times(np.array(states)))
        assert steps == len(states) == 8
        assert at == (alarm if alarm <= 8 else None)
        assert share == 1.0 if at is None or at == 8 else share < 1.0


@pytest.mark.parametrize("batch", [1, 8])
def test_greedy_tokens_are_those_of_the_robust_predictor(robust, batch):
    out, _ = written(robust, [PROMPT] * batch)
    memory, states = robust.start(), []
    for _ in range(8):
        states.append(int(robust.predict(memory).argmax()))
        memory = robust.update(memory, torch.tensor(states[-1]))
    for row in out:
        assert history(robust, row)[0] == states


def test_left_padding_and_histories_of_many_lengths(robust):
    """Rows that go on from recorded states, the model's worst among them: read once by the model, then never again."""
    rng = np.random.default_rng(0)
    worst = lr.evaluate.adversaries.greedy(robust.base, GAME, 6, temperature=0.1).tokens
    recorded = [[], [2], *(rng.integers(0, 3, n).tolist() for n in (3, 5, 6)), np.asarray(worst).ravel().tolist()]
    prompts = [PROMPT + read(states, robust.base.states.separator.tolist()) for states in recorded]
    for settings in ({}, {"do_sample": True}, {"num_beams": 2}):
        _, watched = written(robust, prompts, **settings)
        rows, switched = agrees(robust, watched.seen)
        assert rows
        assert switched
        assert watched.rebuilt == 4  # of [2] the beginning is there: it is the first row


def test_the_model_is_called_as_often_as_without(robust):
    model, step = robust.base.model, 1 + len(robust.base.states.separator)
    ids = torch.tensor([PROMPT] * 3)
    for settings in ({"do_sample": False}, {"do_sample": False, "num_beams": 3}):
        counts = []
        for processors in ([], [lr.RobustLogitsProcessor(robust)]):
            with CallsOf(model) as calls:
                model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=8 * step,
                    logits_processor=processors,
                    **settings,
                )
            counts.append(calls)
        assert counts[0] == counts[1]


def test_states_that_the_world_writes(robust):
    """One state a call, the model's cache kept, the world's answer in place of what was written: nothing is rebuilt."""
    model, watched, separator = robust.base.model, Watched(robust), robust.base.states.separator.tolist()
    worst = lr.evaluate.adversaries.greedy(robust.base, GAME, 10, temperature=0.1).tokens
    came = np.stack([np.random.default_rng(5).integers(0, 3, 10), np.asarray(worst).ravel()])
    ids, cache = torch.tensor([PROMPT] * 2), transformers.DynamicCache(config=model.config)
    for t in range(10):
        with CallsOf(model) as calls:
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                max_new_tokens=1,
                logits_processor=[watched],
                do_sample=False,
            )
        assert len(calls) == 1
        chunk = torch.tensor([read([state], separator) for state in came[:, t]])
        ids = torch.cat([ids, chunk], dim=1)
    rows, switched = agrees(robust, watched.seen)
    assert rows == 20
    assert switched
    assert watched.rebuilt == 0


@pytest.mark.parametrize("keep", [4096, 7])
def test_rows_come_in_any_order(robust, keep):
    """Servers reorder, drop, repeat and verify: random nodes of a tree of histories, in random company."""
    rng, watched = np.random.default_rng(1), Watched(robust, keep=keep)
    model, separator = robust.base.model, robust.base.states.separator.tolist()
    tree = [[]]
    for _ in range(40):
        chosen = [tree[i] for i in rng.integers(0, len(tree), 3)]
        chosen = [row for row in chosen if len(row) == len(chosen[0])]
        ids = torch.tensor([PROMPT + read(row, separator) for row in chosen])
        with torch.no_grad():
            watched(ids, model(ids).logits[:, -1])
        tree += [[*row, int(rng.integers(0, 3))] for row in chosen if len(row) < 10]
    rows, switched = agrees(robust, watched.seen)
    assert rows >= 40
    assert switched
    assert (watched.rebuilt > 0) == (keep == 7)
    assert len(watched._histories.held) <= keep


def test_in_single_precision():
    """As models mostly are: what differs is how the model itself rounds, in one pass and with a cache."""
    robust = guarded(lr.HFPredictor(llama(initializer_range=0.2), STATES, prompt=PROMPT, separator=SEPARATOR))
    for settings in ({}, {"num_beams": 3}):
        _, watched = written(robust, [PROMPT] * 3, **settings)
        agrees(robust, watched.seen, tolerance=1e-5)


def test_drafts_of_another_model_leave_no_trace():
    """Assisted writing hands the draft model's scores over first; what the main model says then counts."""
    main, draft = llama(0).double(), llama(7).double()
    robust = guarded(lr.HFPredictor(main, STATES, prompt=PROMPT))
    _, watched = written(robust, [PROMPT], assistant_model=draft, max_new_tokens=10)
    own = []
    for input_ids, scores, out in watched.seen:
        with torch.no_grad():
            said = main(input_ids).logits[:, -1]
        if torch.allclose(said.softmax(-1).float(), scores.softmax(-1), atol=1e-6):
            own.append((input_ids, scores, out))
    assert len(own) < len(watched.seen)
    rows, _ = agrees(robust, own)
    assert rows >= 10
    plain, _ = written(robust, [PROMPT], max_new_tokens=10)
    again, _ = written(robust, [PROMPT], assistant_model=draft, max_new_tokens=10)
    assert plain.tolist() == again.tolist()


def test_switches_are_told_once_for_each_history():
    told = []
    robust = guarded(lr.HFPredictor(MODELS["gpt2"], STATES, prompt=PROMPT))
    worst = np.asarray(lr.evaluate.adversaries.greedy(robust.base, GAME, HORIZON, temperature=0.1).tokens).ravel()
    watched = lr.RobustLogitsProcessor(robust, on_event=told.append)
    for t in range(HORIZON):
        ids = torch.tensor([PROMPT + read(worst[:t], [])] * 3)
        for _ in range(2):
            watched(ids, robust.base.model(ids).logits[:, -1].detach())
    alarm = int(robust.alarm_times(worst))
    assert alarm <= HORIZON - 1
    assert [(event.stream, event.step, event.known) for event in told] == [(0, alarm, alarm)]
    assert told[0].evidence >= told[0].threshold


def test_states_in_any_order_of_their_ids():
    ids, model = [6, 3, 5], IN_DOUBLE["llama"]
    robust = guarded(lr.HFPredictor(model, ids, prompt=PROMPT))
    worst = np.asarray(lr.evaluate.adversaries.greedy(robust.base, GAME, HORIZON, temperature=0.1).tokens).ravel()
    assert robust.alarm_times(worst) < HORIZON - 1
    processor, laws_TxS = lr.RobustLogitsProcessor(robust), robust.predict_sequence(worst)
    for t, law_S in enumerate(laws_TxS):
        row = torch.tensor([PROMPT + [ids[state] for state in worst[:t]]])
        out = processor(row, model(row).logits[:, -1].detach())
        np.testing.assert_allclose(out[0, ids].exp().numpy(), law_S, atol=1e-9)


def test_what_is_refused(robust):
    processor = lr.RobustLogitsProcessor(robust)
    separator, scores = robust.base.states.separator.tolist(), torch.zeros((1, 20))
    whole = PROMPT + read([0, 1, 2], separator)

    def ask(ids, scores=scores):
        return processor(torch.tensor([ids]), scores)

    ask(whole)
    before = dict(processor._histories.held)
    for ids, says in [
        (whole[1:], "row 0 do not begin with the prompt of 2 tokens: the history was cut"),
        ([0, 0, *whole[1:]], "do not begin with the prompt of 2 tokens after 2 of padding"),
        ([4, *whole], "do not begin with the prompt"),
        ([7], "do not begin with the prompt"),
        ([*PROMPT, 11], "have token 11 at 2, where one of the states belongs"),
        ([*PROMPT, 0], "have token 0 at 2"),
        (PROMPT + read([0] * HORIZON, separator), "the horizon of 14 steps is over"),
    ]:
        with pytest.raises(ValueError, match=says):
            ask(ids)
    if separator:
        with pytest.raises(ValueError, match=r"lack the separator \[9, 2\] between two states"):
            ask([*PROMPT, 3, 9, 9, 3])
        with pytest.raises(ValueError, match="separator"):
            ask([*PROMPT, 3, 2])
    with pytest.raises(ValueError, match="NaN"):
        ask(whole, scores * float("nan"))
    with pytest.raises(ValueError, match="scores must be one row for each of 1"):
        ask(whole, torch.zeros((2, 20)))
    assert processor._histories.held.keys() == before.keys()
    for wrong in (robust.base, lr.robustify(lr.PolyaUrn(3), lr.matching(3), 5), None):
        with pytest.raises(ValueError, match=r"robust must be robustify\(HFPredictor"):
            lr.RobustLogitsProcessor(wrong)
    with pytest.raises(ValueError, match="pad_token_id 5 is one of the states"):
        lr.RobustLogitsProcessor(robust, pad_token_id=5)


def test_a_prompt_that_begins_with_padding():
    """GPT-2 pads with the token it begins with: the last place where the prompt fits is where it is."""
    model = gpt2()
    robust = guarded(lr.HFPredictor(model, STATES, prompt=[0]))
    processor = lr.RobustLogitsProcessor(robust, pad_token_id=0)
    rows = torch.tensor([[0, 0, 0, 3], [0, 3, 5, 6]])
    out = processor(rows, model(rows).logits[:, -1].detach())
    assert torch.isfinite(out[:, STATES]).all()
    assert [who.steps for who in processor.decided(rows)] == [1, 3]


@pytest.mark.parametrize("keep", [4096, 15])
def test_rows_that_end_early_are_padded_and_leave_the_others_as_they_are(robust, keep):
    ends, steps = STATES[1], 12 * (1 + len(robust.base.states.separator))
    settings = {"do_sample": True, "temperature": 3.0, "eos_token_id": ends, "pad_token_id": 0, "max_new_tokens": steps}
    watched = Watched(robust, pad_token_id=0, keep=keep)
    out, _ = written(robust, [PROMPT] * 6, watched, **settings)
    lengths = [row.tolist().index(ends) + 1 if ends in row else len(row) for row in out]
    assert len(set(lengths)) > 1
    assert max(lengths) == out.shape[1]
    seen = []
    for input_ids, scores, after in watched.seen:
        going = torch.tensor([input_ids.shape[1] <= length for length in lengths])
        seen.append((input_ids[going], scores[going], after[going]))
        assert (after[~going].argmax(-1) == 0).all()
        assert torch.isfinite(after[~going]).sum() == (~going).sum()
    assert agrees(robust, seen)[0] > 4
    for row, length, decided in zip(out, lengths, watched.decided(out), strict=True):
        states, _ = history(robust, row[:length])
        alarm = int(robust.alarm_times(np.array(states)))
        assert (decided.steps, decided.switched_at) == (len(states), alarm if alarm <= len(states) else None)


def test_padding_on_the_right_is_no_row_that_ended(robust):
    writes = lr.RobustLogitsProcessor(robust, pad_token_id=0)
    for states in ([], [1, 2]):
        row = [*PROMPT, *read(states, robust.base.states.separator.tolist()), 0, 0]
        with pytest.raises(ValueError, match="padding belongs on the left"):
            writes(torch.tensor([row]), torch.zeros((1, 20)))


def test_a_model_that_is_trained_meanwhile_is_refused():
    model = llama()
    robust = guarded(lr.HFPredictor(model, STATES, prompt=PROMPT))
    writes = lr.RobustLogitsProcessor(robust)
    model.train()
    with pytest.raises(ValueError, match="model"):
        writes(torch.tensor([PROMPT]), torch.zeros((1, 20)))


def test_every_switch_is_told_whatever_comes_of_the_others():
    robust = guarded(lr.HFPredictor(llama(), STATES, prompt=PROMPT))
    told = []

    def fails(switch):
        told.append(switch.stream)
        raise RuntimeError("the pager is down")

    worst = np.asarray(lr.evaluate.adversaries.greedy(robust.base, GAME, 10, temperature=0.1).tokens).ravel().tolist()
    assert int(robust.alarm_times(np.array(worst))) <= 10
    rows = [[*PROMPT, *read(worst, [])], [*PROMPT, *read([*worst[:-1], (worst[-1] + 1) % 3], [])]]
    writes = lr.RobustLogitsProcessor(robust, on_event=fails)
    writes(torch.tensor(rows), torch.zeros((2, 20)))
    assert told == [0, 1]
