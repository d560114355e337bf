"""Robust states inside ``generate``: every row of every call against ``Robust`` over ``HFPredictor``."""

import numpy as np
import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from .test_language_models import MODELS, PROMPT, SEPARATOR, STATES, CallsOf, gpt2, llama, read  # noqa: E402

HORIZON = 14
# In double precision: what differs is then that `generate` hands over scores in single precision.
IN_DOUBLE = {"gpt2": gpt2().double(), "llama": llama().double()}
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


def written(robust, recorded, watched=None, **settings):
    """What ``generate`` wrote after these states, one row each, and the processor that watched."""
    watched = Watched(robust, pad_token_id=0) if watched is None else watched
    rows = [row_of(robust, states) for states in recorded]
    width, pad, step = max(map(len, rows)), watched.pad_token_id, 1 + len(robust.base.states.separator)
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    settings = {"max_new_tokens": 8 * step, "do_sample": False, "num_beams": 1, "pad_token_id": pad, **settings}
    torch.manual_seed(3)
    return robust.base.model.generate(ids, attention_mask=mask, logits_processor=[watched], **settings), watched


def row_of(robust, states):
    return robust.base.states.ids(torch.tensor([states], dtype=torch.int64))[0].tolist()


def history(robust, row):
    """The states in a row, and what is there already of a chunk: by hand."""
    states, ids = robust.base.states, row.tolist()
    before, step = states.before.tolist(), 1 + len(states.separator)
    place = next(p for p in range(len(ids)) if ids[p : p + len(before)] == before)
    rest = ids[place + len(before) :]
    return [states.token_ids.tolist().index(token) for token in rest[::step]], len(rest) % step


def robust_laws(robust, histories):
    """The robust law after each history, and whether it had an alarm: the longest ones as recordings, in one pass."""
    asked = {tuple(states) for states in histories}
    begun = {states[:t] for states in asked for t in range(len(states))}
    longest, T = sorted(asked - begun), max(map(len, asked)) + 1
    tokens_NxT = np.array([[*states, *[0] * (T - len(states))] for states in longest])
    laws_NxTxS, times_N = robust.predict_sequence(tokens_NxT), robust.alarm_times(tokens_NxT)
    found = {}
    for states, law_TxS, time in zip(longest, laws_NxTxS, times_N, strict=True):
        found |= {states[:t]: (law_TxS[t], time <= t) for t in range(len(states) + 1)}
    return found


def agrees(robust, seen, tolerance=2e-6):
    """Every row of every call; how many there were, and how many of them came after an alarm."""
    read = [[history(robust, row) for row in input_ids] for input_ids, _, _ in seen]
    laws = robust_laws(robust, [states for rows in read for states, within in rows if not within])
    ids, late, count = robust.base.states.token_ids.tolist(), 0, 0
    for rows, (_, _, out) in zip(read, seen, strict=True):
        for (states, within), scores in zip(rows, out.numpy(), strict=True):
            count += 1
            there = np.flatnonzero(np.isfinite(scores)).tolist()
            if within:  # the separator is due
                assert there == [robust.base.states.separator[within - 1].item()]
                assert scores[there] == 0
                continue
            law_S, has_alarm = laws[tuple(states)]
            assert set(there) == set(ids)
            np.testing.assert_allclose(scores[ids], np.log(law_S), rtol=tolerance, atol=tolerance)
            late += bool(has_alarm)
    return count, late


def worst_states(robust, T):
    """What earns the model least, which raises an alarm."""
    tokens = lr.evaluate.adversaries.greedy(robust.base, robust.problem, T, temperature=0.1).tokens
    return np.asarray(tokens).ravel().tolist()


def greedy_states(robust, T):
    """The likeliest state at each step, a step at a time."""
    memory, states = robust.start(), []
    for _ in range(T):
        states.append(int(robust.predict(memory).argmax()))
        memory = robust.update(memory, torch.tensor(states[-1]))
    return states


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(
    "settings",
    [{}, {"do_sample": True, "temperature": 3.0}, {"num_beams": 3}, {"num_beams": 4, "num_return_sequences": 2}],
    ids=["greedy", "sampled", "beams", "beams returned"],
)
def test_scores_are_the_robust_law(robust, settings, batch):
    out, watched = written(robust, [[]] * batch, **settings)
    rows, _ = agrees(robust, watched.seen)
    assert rows == len(watched.seen) * batch * settings.get("num_beams", 1)
    assert watched.rebuilt == 0
    for row, (steps, share, at) in zip(out, watched.decided(out), strict=True):
        states, _ = history(robust, row)
        alarm = int(robust.alarm_times(np.array(states)))
        assert steps == len(states) == 8
        assert at == (alarm if alarm <= 8 else None)
        assert share == 1.0 if at is None or at == 8 else share < 1.0
    if not settings:
        assert [history(robust, row)[0] for row in out] == [greedy_states(robust, 8)] * batch


def test_left_padding_and_histories_of_many_lengths(robust):
    """Rows that go on from recorded states, the model's worst among them: read once by the model, then never again."""
    rng = np.random.default_rng(0)
    recorded = [[], [2], *(rng.integers(0, 3, n).tolist() for n in (3, 5, 6)), worst_states(robust, 6)]
    for settings in ({"do_sample": True}, {"num_beams": 2}):
        _, watched = written(robust, recorded, **settings)
        rows, late = agrees(robust, watched.seen)
        assert rows
        assert late
        begun = {tuple(states[:-1]) for states in recorded if states} - {()}  # of [2] the beginning is the first row
        assert watched.rebuilt == len(begun - set(map(tuple, recorded)))


@pytest.mark.parametrize("beams", [1, 3])
def test_the_model_is_called_as_often_as_without(robust, beams):
    model, step, ids = robust.base.model, 1 + len(robust.base.states.separator), torch.tensor([PROMPT] * 3)
    counts = []
    for processors in ([], [lr.RobustLogitsProcessor(robust)]):
        with CallsOf(model) as calls:
            settings = {"max_new_tokens": 8 * step, "do_sample": False, "num_beams": beams}
            model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=processors, **settings)
        counts.append(calls)
    assert counts[0] == counts[1]


def test_states_that_the_world_writes(robust):
    """One state a call, the model's cache kept, the world's state in place of what was written: nothing is rebuilt."""
    model, watched, separator = robust.base.model, Watched(robust), robust.base.states.separator.tolist()
    world_NxT = np.stack([np.random.default_rng(5).integers(0, 3, 10), worst_states(robust, 10)])
    ids, cache = torch.tensor([PROMPT] * 2), transformers.DynamicCache(config=model.config)
    for t in range(10):
        settings = {"past_key_values": cache, "max_new_tokens": 1, "do_sample": False}
        with CallsOf(model) as calls:
            model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[watched], **settings)
        assert len(calls) == 1
        ids = torch.cat([ids, torch.tensor([read([state], separator) for state in world_NxT[:, t]])], dim=1)
    rows, late = agrees(robust, watched.seen)
    assert rows == 20
    assert late
    assert watched.rebuilt == 0


@pytest.mark.parametrize("keep", [4096, 7])
def test_rows_come_in_any_order(robust, keep):
    """Servers reorder, drop, repeat and verify: random nodes of a tree of histories, in random company."""
    rng, watched = np.random.default_rng(1), Watched(robust, keep=keep)
    model, tree = robust.base.model, [[]]
    for _ in range(40):
        chosen = [tree[i] for i in rng.integers(0, len(tree), 3)]
        chosen = [row for row in chosen if len(row) == len(chosen[0])]
        ids = torch.tensor([row_of(robust, row) for row in chosen])
        with torch.no_grad():
            watched(ids, model(ids).logits[:, -1])
        tree += [[*row, int(rng.integers(0, 3))] for row in chosen if len(row) < 10]
    rows, switched = agrees(robust, watched.seen)
    assert rows >= 40
    assert switched
    assert (watched.rebuilt > 0) == (keep == 7)
    assert len(watched._histories.held) <= keep


def test_drafts_of_another_model_leave_no_trace():
    """Assisted writing hands the draft model's scores over first; what the main model says then counts."""
    main, draft = llama(0).double(), llama(7).double()
    robust = guarded(lr.HFPredictor(main, STATES, prompt=PROMPT))
    _, watched = written(robust, [[]], assistant_model=draft, max_new_tokens=10)
    own = []
    for input_ids, scores, out in watched.seen:
        with torch.no_grad():
            said = main(input_ids).logits[:, -1]
        if torch.allclose(said.softmax(-1).float(), scores.softmax(-1), atol=1e-6):
            own.append((input_ids, scores, out))
    assert len(own) < len(watched.seen)
    rows, _ = agrees(robust, own)
    assert rows >= 10
    plain, _ = written(robust, [[]], max_new_tokens=10)
    again, _ = written(robust, [[]], assistant_model=draft, max_new_tokens=10)
    assert plain.tolist() == again.tolist()


def test_an_alarm_is_an_event_once_for_each_history():
    heard = []

    def fails(event):
        heard.append(event)
        raise RuntimeError("the pager is down")

    robust = guarded(lr.HFPredictor(MODELS["gpt2"], STATES, prompt=PROMPT))
    worst = worst_states(robust, HORIZON)
    alarm = int(robust.alarm_times(np.array(worst)))
    assert alarm < HORIZON
    watched = lr.RobustLogitsProcessor(robust, on_event=fails)
    for t in range(HORIZON):
        other = [*worst[: alarm - 2], (worst[alarm - 2] + 1) % 3, *worst[alarm - 1 : t]]  # no alarm by then
        ids = torch.tensor([row_of(robust, states) for states in (worst[:t], other[:t], worst[:t])])
        for _ in range(2):
            watched(ids, robust.base.model(ids).logits[:, -1].detach())
    assert [(event.stream, event.step, event.known) for event in heard if event.stream == 0] == [(0, alarm, alarm)]
    assert len(heard) == 1 + (robust.alarm_times(np.array(other)) < HORIZON)
    assert all(event.evidence >= event.threshold for event in heard)


def test_what_is_refused(robust):
    processor = lr.RobustLogitsProcessor(robust, pad_token_id=0)
    separator, scores = robust.base.states.separator.tolist(), torch.zeros((1, 20))
    whole = row_of(robust, [0, 1, 2])

    def ask(ids, scores=scores):
        return processor(torch.tensor([ids]), scores)

    ask(whole)
    before = dict(processor._histories.held)
    for ids, says in [
        (whole[1:], "row 0 do not begin with the prompt of 2 tokens, after 0 of padding: the history was cut"),
        ([0, 0, *whole[1:]], "do not begin with the prompt of 2 tokens, after 2 of padding"),
        ([*PROMPT, 11], "have token 11 at 2, where a state belongs"),
        ([*PROMPT, 0], "have token 0 at 2.*padding belongs on the left"),
        (row_of(robust, [0] * HORIZON), "the horizon of 14 steps is over"),
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
    robust.base.model.train()
    with pytest.raises(ValueError, match="model is in training mode"):
        ask(whole)
    robust.base.model.eval()
    assert processor._histories.held.keys() == before.keys()
    for wrong in (robust.base, lr.robustify(lr.PolyaUrn(3), lr.matching(3), 5)):
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
    settings = {"do_sample": True, "temperature": 3.0, "eos_token_id": ends, "max_new_tokens": steps}
    watched = Watched(robust, pad_token_id=0, keep=keep)
    out, _ = written(robust, [[]] * 6, watched, **settings)
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
