"""The built model decides as the rule does, wherever the rule itself is not within rounding of its threshold."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import Constructed, attention_patterns, build, draw, subspaces
from lowregret.sources import paper_sources
from lowregret.transformer import Decoder, Size, Transformer

BAND = {torch.float64: 1e-9, torch.float32: 1e-4}
CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}


@dataclass(frozen=True)
class Early(lr.RegretGap):
    """A threshold of one's own, so low that short sequences reach it."""

    def threshold(self, step: Any) -> Any:
        return 0.3 + 0.1 * step**0.5


def excess(base: lr.Predictor, rule: Any, tokens: np.ndarray) -> np.ndarray:
    """By how much the rule's statistic, an average over steps, exceeds its threshold after each token."""
    moment, step = rule.moments(base.predict_sequence(tokens), tokens), np.arange(1, tokens.shape[-1] + 1.0)
    if rule.pointless:  # it never trips, whatever its threshold is
        return np.full(tokens.shape, -1.0)
    if isinstance(rule, lr.RegretGap):
        return (rule.gains(moment)[1].cumsum(axis=-1) - rule.threshold(step)) / step
    return (rule.leads(moment.base_A1, moment.token).cumsum(axis=-1) / step).max(axis=0) - rule.alpha / step**0.5


def disagreement(base: lr.Predictor, rule: Any, tokens: np.ndarray, model: Constructed) -> tuple[float, int, float]:
    """The largest difference of laws where the rule is decided, how often it is not, and the share that tripped."""
    over, band = excess(base, rule, tokens), BAND[model.module.dtype]
    # What is decided after a token holds for the law of the next one.
    sure = np.logical_or.accumulate(over > band, axis=-1)[..., :-1]
    clear = np.logical_and.accumulate(over < -band, axis=-1)[..., :-1]
    robust = lr.Robust(base, rule)
    off = np.abs(model.predict_sequence(tokens) - robust.predict_sequence(tokens)).max(axis=-1)
    assert off[..., 0].max() < 1e-6
    undecided = ~(sure | clear)
    return float(off[..., 1:][~undecided].max()), int(undecided.sum()), float(sure[..., -1].mean())


def some_rules(problem: lr.DecisionProblem, horizon: int) -> list[Any]:
    return [
        lr.RegretGap(problem, horizon, alpha=0.02, span_aware=True),
        Early(problem, horizon),
        lr.RegretRate(problem, horizon),
    ]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("rule", [Early, lr.RegretRate])
def test_all_binary_strings(rule: Any, length: int) -> None:
    base, made = lr.Markov([[0.8, 0.2], [0.4, 0.6]], 1), rule(lr.matching(), length, alpha=0.9)
    tokens = np.array(list(itertools.product([0, 1], repeat=length)))
    if length == 1:
        np.testing.assert_allclose(build(base, made).predict_sequence(tokens), base.predict_sequence(tokens))
        return
    off, undecided, tripped = disagreement(base, made, tokens, build(base, made))
    assert off < 1e-6
    assert undecided == 0
    assert length < 7 or 0 < tripped < 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_eight_sources(dtype: torch.dtype) -> None:
    horizon, sources = 1024, paper_sources(1024)
    each = 4 if dtype == torch.float64 else 1
    every = np.concatenate([lr.sample(source, horizon, 8 * each, seed=3) for source in sources.values()])
    for rule in some_rules(lr.matching(), horizon):
        tokens = every if isinstance(rule, lr.RegretRate) else every[::8]
        model = build(sources["b"], rule, dtype=dtype)
        off, undecided, tripped = disagreement(sources["b"], rule, tokens, model)
        print(f"{type(rule).__name__}, {dtype}: off by {off:.1e}, {undecided} of {tokens.size} positions undecided")
        assert off < CLOSE[dtype]
        assert undecided < (1 if dtype == torch.float64 else tokens.size / 4)
        assert tripped > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("which", ["rock-paper-scissors", "4 x 5", "2 x 3", "1 x 2"])
def test_other_problems(which: str, dtype: torch.dtype) -> None:
    rng, horizon = np.random.default_rng(5), 512
    problem = {
        "rock-paper-scissors": lr.rock_paper_scissors(),
        "4 x 5": lr.DecisionProblem(rng.uniform(-1, 1, (4, 5))),
        "2 x 3": lr.DecisionProblem([[1, -1, 0.5], [-0.5, 1, -1]]),
        "1 x 2": lr.DecisionProblem([[0.2, -0.7]]),
    }[which]
    S = problem.n_states
    base, other = (lr.Markov(rng.dirichlet(np.ones(S), S), 1) for _ in range(2))
    tokens = np.concatenate([lr.sample(model, horizon, 8, seed=1) for model in (base, other)])
    seen = []
    for rule in some_rules(problem, horizon):
        off, undecided, tripped = disagreement(base, rule, tokens, build(base, rule, dtype=dtype))
        assert off < CLOSE[dtype]
        assert undecided < (1 if dtype == torch.float64 else tokens.size / 4)
        seen.append(0 < tripped < 1)
    assert any(seen) == (which != "1 x 2")


def test_the_urn_may_have_any_prior() -> None:
    base, horizon = lr.Scheduled([[0.7, 0.3]]), 64
    tokens = lr.sample(lr.Scheduled([[0.1, 0.9]]), horizon, 8, seed=0)
    for prior in (1e-3, 0.5, 20.0):
        rule = lr.RegretRate(lr.matching(), horizon, fallback=lr.PolyaUrn(2, prior))
        assert disagreement(base, rule, tokens, build(base, rule))[0] < 1e-6


@pytest.mark.parametrize("fused", [True, False])
def test_on_a_decoder_that_gives_logits(fused: bool) -> None:
    decoder = Decoder(3, size=Size(context=64, width=24, heads=3, layers=2, inner=48), seed=4)
    problem, base = lr.rock_paper_scissors(), Transformer(decoder)
    tokens = np.concatenate([np.full((1, 64), s) for s in range(3)] + [lr.sample(lr.PolyaUrn(3), 64, 8, seed=0)])
    for rule in (Early(problem, 64), lr.RegretRate(problem, 64)):
        model = build(base, rule, fused=fused)
        off, _, tripped = disagreement(base, rule, tokens, model)
        assert off < 1e-6
        assert tripped > 0
        assert model.sizes.layers == 5


def test_any_torch_module_will_do() -> None:
    rule = Early(lr.matching(), 12)
    tokens = np.array(list(itertools.product([0, 1], repeat=12)))[::7]
    model = build(Counting(), rule, gives="logits", n_states=2)
    laws = torch.softmax(Counting()(torch.as_tensor(tokens)), dim=-1).numpy()
    recorded = lr.FromFunction(lambda h: [1, np.exp(0.25 - 0.5 * h.sum())] / (1 + np.exp(0.25 - 0.5 * h.sum())), 2)
    np.testing.assert_allclose(recorded.predict_sequence(tokens), laws, atol=1e-12)
    off, undecided, tripped = disagreement(recorded, rule, tokens, model)
    assert (off < 1e-6, undecided, 0 < tripped < 1) == (True, 0, True)


class Counting(torch.nn.Module):
    """Logits that fall with the number of ones."""

    def forward(self, tokens_BxT: torch.Tensor) -> torch.Tensor:
        ones = torch.nn.functional.pad(tokens_BxT.double().cumsum(-1), (1, 0))[:, :-1]
        return torch.stack([torch.zeros_like(ones), 0.25 - 0.5 * ones], dim=-1)


@pytest.mark.parametrize("fused", [True, False])
def test_it_obeys_the_laws_of_predictors(fused: bool) -> None:
    base, rule = lr.Markov([[0.8, 0.2], [0.4, 0.6]], 1), Early(lr.matching(), 16)
    assert lr.checks.check_predictor(build(base, rule, fused=fused), horizon=16) is not None
    counting = build(Counting(), rule, gives="logits", n_states=2, fused=fused)
    assert lr.checks.check_predictor(counting, horizon=16) is not None
    decoder = Decoder(2, size=Size(context=16, width=16, heads=2, layers=1, inner=16))
    assert lr.checks.check_predictor(build(decoder, rule, fused=fused), horizon=16, tolerance=1e-5) is not None


def test_sizes_grow_as_the_docs_say() -> None:
    def sizes(problem: lr.DecisionProblem, horizon: int) -> Any:
        return build(lr.PolyaUrn(problem.n_states), lr.RegretGap(problem, horizon)).sizes

    small, long = sizes(lr.matching(), 64), sizes(lr.matching(), 4096)
    assert (small.layers, small.heads, small.hidden) == (long.layers, long.heads, long.hidden) == (3, 5, 8)
    assert long.width - small.width == 4 * 6  # four numbers a bit of the position
    for n in (3, 6, 9):
        many = sizes(lr.matching(n), 64)
        assert (many.layers, many.heads, many.hidden) == (4, 6, 4 * n)
        assert many.width == sizes(lr.matching(3), 64).width + 9 * (n - 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build(Decoder(2, size="quick"), lr.RegretGap(lr.matching(), 257)), "context of 256 tokens, got 257"),
        (lambda: build(lr.PolyaUrn(2), lr.VRegret(64)), "VRegret has no compiled form"),
        (
            lambda: build(lr.PolyaUrn(3), lr.RegretGap(lr.matching(), 64)),
            "PolyaUrn predicts 3, the rule's problem has 2",
        ),
        (lambda: build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), None, delta=0.1)), "must have a known horizon"),
        (
            lambda: build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 9, fallback=lr.Scheduled([[0.5, 0.5]]))),
            "must fall back on a PolyaUrn, the only one built: got Scheduled",
        ),
        (lambda: build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 9), dtype=torch.float16), "dtype must be"),
        (lambda: build(torch.nn.Linear(2, 2), lr.RegretGap(lr.matching(), 9)), "gives must be one of"),
        (
            lambda: build(torch.nn.Linear(2, 2), lr.RegretGap(lr.matching(), 9), gives="logits"),
            "n_states must be given",
        ),
        (lambda: build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 9), gives="odds"), "got 'odds'"),
        (lambda: build("model", lr.RegretGap(lr.matching(), 9)), "base must be a Predictor or a torch module, got str"),
        (lambda: build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 4)).predict_sequence([0] * 5), "at most 4 long"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_past_the_horizon() -> None:
    model = build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 2))
    memory = model.update(model.update(model.start(like=np.zeros(1)), 0), 1)
    assert model.predict(memory).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="horizon of 2 steps is over"):
        model.update(memory, 0)


def test_pictures_show_the_switch() -> None:
    tokens, rule = np.ones(16, dtype=int), Early(lr.matching(), 16)
    base = lr.Scheduled([[0.8, 0.2]])
    model = build(base, rule)
    switch = int(rule.trip_times(base.predict_sequence(tokens), tokens))
    last = attention_patterns(model, tokens)["4: any"]  # rows: SINK, START, tokens
    np.testing.assert_allclose(last[1 : switch + 1, 1], 1, atol=1e-6)  # START, until
    np.testing.assert_allclose(last[switch + 1 :, switch + 1 :].sum(axis=-1), 1, atol=1e-6)  # a row that passed
    held = subspaces(model, tokens)
    np.testing.assert_array_equal(held["out"], model.predict_sequence(tokens))
    assert len(draw(model, tokens).axes) == 6
    with pytest.raises(ValueError, match="one sequence of at most 16 tokens"):
        draw(model, np.ones((2, 16), dtype=int))
