"""Language models as predictors: against the model itself, asked for every prefix on its own."""

import numpy as np
import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZE = 20
STATES, PROMPT, SEPARATOR = [6, 3, 5], [7, 1], [9, 2]
QUIET = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}


def gpt2(seed=0, room=64, **more):
    torch.manual_seed(seed)
    settings = {"n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6, **QUIET, **more}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=SIZE, n_positions=room, **settings)).eval()


def llama(seed=0, room=64, **more):
    torch.manual_seed(seed)
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    settings = {"hidden_size": 16, "intermediate_size": 32, "initializer_range": 0.6, **heads, **QUIET, **more}
    config = transformers.LlamaConfig(vocab_size=SIZE, max_position_embeddings=room, **settings)
    return transformers.LlamaForCausalLM(config).eval()


MODELS = {"gpt2": gpt2(), "llama": llama()}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@torch.no_grad()
def brute(model, ids):
    """The law over the whole vocabulary after these ids, by a pass of its own."""
    return torch.softmax(model(torch.tensor([ids])).logits[0, -1].double(), dim=-1).numpy()


def read(states, separator):
    return [token for state in states for token in (STATES[state], *separator)]


@pytest.mark.parametrize("separator", [[], SEPARATOR])
def test_laws_and_masses_are_the_models(model, separator):
    tokens = np.random.default_rng(1).integers(0, 3, (3, 8))
    predictor = lr.HFPredictor(model, STATES, prompt=PROMPT, separator=separator)
    if not separator:
        module = lr.FromModule(model, STATES, bos=PROMPT)
        np.testing.assert_allclose(module.masses(tokens), predictor.masses(tokens), atol=2e-6)
    laws, masses = predictor.predict_sequence(tokens), predictor.masses(tokens)
    stream = lr.predictors.Stream(predictor, (3,), like=tokens)
    for t in range(8):
        for row in range(3):
            whole = brute(model, PROMPT + read(tokens[row, :t], separator))[STATES]
            np.testing.assert_allclose(laws[row, t], whole / whole.sum(), atol=2e-6)
            np.testing.assert_allclose(masses[row, t], whole.sum(), atol=2e-6)
        np.testing.assert_allclose(stream.predict(), laws[:, t], atol=2e-6)
        np.testing.assert_allclose(predictor.mass(stream.memory), masses[:, t], atol=2e-6)
        stream.update(tokens[:, t])


@pytest.mark.parametrize("more", [{"prompt": PROMPT}, {"prompt": PROMPT, "separator": SEPARATOR}, {"bos": PROMPT}, {}])
def test_laws_of_predictors(model, more):
    kind = lr.HFPredictor if "prompt" in more else lr.FromModule
    lr.checks.check_predictor(kind(model, STATES, **more), tolerance=1e-5)


@pytest.mark.parametrize("bos", [None, 7, PROMPT])
def test_a_module_is_asked_once_for_a_recording(model, bos):
    tokens = np.random.default_rng(2).integers(0, 3, (2, 6))
    before = [] if bos is None else [bos] if isinstance(bos, int) else bos
    predictor = lr.FromModule(model, STATES, bos=bos, context=64)
    with CallsOf(model) as calls:
        laws = predictor.predict_sequence(torch.as_tensor(tokens))
    assert len(calls) == 1
    assert isinstance(laws, torch.Tensor)
    for t in range(6):
        for row in range(2):
            ids = before + read(tokens[row, :t], [])
            whole = brute(model, ids)[STATES] if ids else np.ones(3)
            np.testing.assert_allclose(laws[row, t], whole / whole.sum(), atol=2e-6)


class CallsOf:
    """The numbers of rows and tokens of every call of a model."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        self.calls = []
        self.hook = self.model.register_forward_pre_hook(self._count, with_kwargs=True)
        return self.calls

    def _count(self, module, args, kwargs):
        self.calls.append(tuple((args[0] if args else kwargs["input_ids"]).shape))

    def __exit__(self, *error):
        self.hook.remove()


def test_a_stream_feeds_each_token_once(model):
    """The cache is used: after the prompt the model reads one token at a time, for every stream."""
    predictor = lr.HFPredictor(model, STATES, prompt=PROMPT)
    with CallsOf(model) as calls:
        lr.sample(predictor, 10, 4, seed=0)
    assert calls == [(4, 2)] + [(4, 1)] * 9


def test_the_cache_follows_streams_that_are_reordered(model):
    predictor = lr.HFPredictor(model, STATES, prompt=PROMPT)
    tokens = np.array([[0, 1, 2, 2], [1, 0, 0, 2], [2, 2, 1, 0]])
    memory = predictor.start((3,), like=tokens)
    for t in range(3):
        memory = predictor.update(memory, tokens[:, t])
    with CallsOf(model) as calls:
        chosen = predictor.update(lr.take(memory, [2, 0, 2]), tokens[[2, 0, 2], 3])
        again = predictor.update(memory, tokens[:, 3])  # a fork: the cache has gone on without it
    assert calls == [(3, 1), (3, 6)]
    recorded = predictor.predict_sequence(np.concatenate([tokens, tokens[:, :1]], axis=1))[:, -1]
    np.testing.assert_allclose(chosen.probs, recorded[[2, 0, 2]], atol=2e-6)
    np.testing.assert_allclose(again.probs, recorded, atol=2e-6)


@pytest.mark.parametrize("counted", [True, False])
def test_a_cache_is_not_used_by_a_model_with_other_weights(counted):
    """Which torch counts when it writes to them, and not when ``weight.data = ...`` moves or casts them."""
    model = gpt2(5)
    predictor = lr.HFPredictor(model, STATES, prompt=PROMPT)
    memory = predictor.update(predictor.start(like=np.zeros(1)), 1)
    for weight in model.parameters():
        if counted:
            with torch.no_grad():
                weight.mul_(1.5)
        else:
            weight.data = weight.data * 1.5
    recorded = predictor.predict_sequence(np.array([1, 2, 0]))[-1]
    np.testing.assert_allclose(predictor.update(memory, 2).probs, recorded, atol=2e-6)


def test_states_follow_a_model_that_is_moved():
    model = gpt2()
    predictor, module = lr.HFPredictor(model, STATES, prompt=PROMPT), lr.FromModule(model, STATES, bos=1)
    model.to("meta")  # the one other device there is everywhere; it computes nothing
    assert predictor.states.device == module.states.device == torch.device("meta")
    assert {part.device.type for part in (predictor.states.token_ids, predictor.states.before)} == {"meta"}


def test_a_model_in_half_precision_gives_laws_in_single():
    half = llama().to(torch.bfloat16)
    predictor = lr.HFPredictor(half, STATES, prompt=PROMPT)
    laws = predictor.predict_sequence([[0, 1, 2]])
    assert laws.dtype == np.float32
    np.testing.assert_allclose(laws.sum(-1), 1, atol=1e-6)
    assert lr.robustify(predictor, lr.matching(3), horizon=10).predict_sequence([[0, 1, 2]]).shape == (1, 3, 3)


def test_the_whole_library_takes_one():
    predictor = lr.HFPredictor(MODELS["llama"], STATES, prompt=PROMPT)
    game = lr.rock_paper_scissors()
    safe = lr.robustify(predictor, game, horizon=20)
    worst = lr.evaluate.adversaries.greedy(safe, game, 20)
    assert worst.regret <= safe.certificate.regret_bound
    module = lr.FromModule(MODELS["llama"], STATES, bos=7)  # without a context nothing ends
    assert lr.robustify(module, game, horizon=200).predict_sequence([[0, 1, 2, 0]]).shape == (1, 4, 3)
    tokens = lr.sample(predictor, 20, 16, seed=0)
    assert lr.next_token_tv(safe, predictor, tokens).value <= safe.certificate.tv_bound + 0.2


# What is refused


class Words:
    """A tokenizer of four words and one that falls apart."""

    unk_token_id, bos_token_id = 19, 0

    def __call__(self, text, add_special_tokens=True):
        words = {"rock": [3], " rock": [4], "paper": [5], "scissors": [6, 8], " scissors": [10], "of": [11]}
        return {"input_ids": ([0] if add_special_tokens else []) + words.get(text, [19])}

    def decode(self, ids):
        return "+".join(map(str, ids))


def test_words_become_tokens():
    predictor = lr.HFPredictor(MODELS["gpt2"], ["rock", "paper"], Words(), prompt="of", separator="of")
    parts = predictor.states.token_ids, predictor.states.before, predictor.states.separator
    assert [part.tolist() for part in parts] == [[3, 5], [0, 11], [11]]
    bare = lr.HFPredictor(MODELS["gpt2"], ["rock", "paper"], Words())
    assert bare.states.before.tolist() == [0]  # BOS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rock", "scissors"], r"single tokens: 'scissors' is 2 of them, \['6', '8'\]; ' scissors' is one token"),
        (["rock", "lizard"], "tokens of the vocabulary: 'lizard' is unknown"),
        (["rock", "rock"], r"must be different tokens, got \['rock', 'rock'\]: tokens \[3, 3\]"),
        ([], "must be a list of at least 1 token ids"),
        ([3, 20], "fails on ids of shape .* up to 20"),
        ([3, 4.5], "whole number >= 0, got"),
    ],
)
def test_states_that_are_no_tokens_are_refused(words, says):
    with pytest.raises(ValueError, match=says):
        lr.HFPredictor(MODELS["gpt2"], words, Words())


def test_what_else_is_refused(model):
    with pytest.raises(ValueError, match="prompt is 65 tokens long, and the model's context 64"):
        lr.HFPredictor(model, STATES, prompt=[7] * 65)
    full = lr.HFPredictor(model, STATES, prompt=[7] * 64)
    assert full.context == 1
    with pytest.raises(ValueError, match="tokens must be at most 1 long"):
        full.predict_sequence([[0, 1]])
    memory = full.update(full.start(), 0)
    with pytest.raises(ValueError, match="the model's context is full"):
        full.update(memory, 0)
    with pytest.raises(ValueError, match="tokenizer must be given for prompt in words"):
        lr.HFPredictor(model, STATES, prompt="of")
    with pytest.raises(ValueError, match="FromModule takes any other module"):
        lr.HFPredictor(torch.nn.Linear(2, 2).eval(), STATES)
    with pytest.raises(ValueError, match="must be a torch module"):
        lr.HFPredictor("gpt2", STATES)
    with pytest.raises(ValueError, match="bos is 2 tokens long, and the model's context 1"):
        lr.FromModule(model, STATES, bos=PROMPT, context=1)
    short = lr.FromModule(model, STATES, bos=PROMPT, context=4)
    with pytest.raises(ValueError, match=r"tokens .* 3 long"):
        short.predict_sequence([[0, 1, 2, 0]])
    narrow = torch.nn.Sequential(torch.nn.Embedding(30, 4), torch.nn.Linear(4, 10)).eval()
    with pytest.raises(ValueError, match="gives 10 logits: token 12, one of the states, has none"):
        lr.FromModule(narrow, [3, 12])


def test_a_model_in_training_mode_is_refused():
    model = gpt2()
    made = lr.HFPredictor(model, STATES, prompt=PROMPT), lr.FromModule(model, STATES)
    model.train()
    for ask in (
        *(predictor.start for predictor in made),
        *(lambda predictor=predictor: predictor.predict_sequence([0, 1]) for predictor in made),
        *(lambda kind=kind: kind(model, STATES) for kind in (lr.HFPredictor, lr.FromModule)),
    ):
        with pytest.raises(ValueError, match=r"is in training mode.*\.eval\(\)"):
            ask()


def test_logits_that_make_no_law_are_refused():
    model = gpt2()
    predictor, module = lr.HFPredictor(model, STATES, prompt=PROMPT), lr.FromModule(model, STATES, bos=PROMPT)
    weight = model.transformer.wte.weight
    with torch.no_grad():
        weight[5] = float("nan")
    for ask in (lambda: predictor.predict_sequence([0, 1]), lambda: module.predict_sequence([0, 1]), predictor.start):
        with pytest.raises(ValueError, match="gave logits that make no forecast"):
            ask()


class Ahead(torch.nn.Module):
    """Says of every position what comes last."""

    def forward(self, ids):
        return torch.nn.functional.one_hot(ids[:, -1:].expand(ids.shape), SIZE).float()


class Flat(torch.nn.Module):
    def forward(self, ids):
        return ids.float()


@pytest.mark.parametrize(
    ("module", "says"), [(Ahead(), "looks ahead"), (Flat(), r"logits \[batch, length, vocabulary\]")]
)
def test_modules_that_are_no_next_token_models_are_refused(module, says):
    with pytest.raises(ValueError, match=says):
        lr.FromModule(module.eval(), STATES, bos=1)


def test_memories_are_written_down_and_forks_cost_no_truth(model):
    predictor = lr.HFPredictor(model, STATES, prompt=PROMPT)
    stream = lr.predictors.Stream(predictor, (2,), like=np.zeros(1))
    for t in range(4):
        stream.update([t % 3, 1])
    other = lr.predictors.Stream(predictor, (2,), like=np.zeros(1))
    other.load_state_dict(stream.state_dict())
    for token in ([0, 2], [1, 1]):
        stream.update(token)
        other.update(token)
    np.testing.assert_allclose(other.predict(), stream.predict(), atol=2e-6)
