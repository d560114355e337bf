"""The shallow form of the exact test: never before the rule's alarm, and later by no more than it says."""

import itertools

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import agreement, build, shallow
from lowregret.construct.shallow import shortfall
from lowregret.rules import FirstTest
from lowregret.sources import paper_sources
from lowregret.transformer import Decoder, Size

from ..conftest import sweep
from .test_exact import wealth

BITS = 10
STRINGS = np.array(list(itertools.product([0, 1], repeat=BITS)))


def test_softplus_is_bracketed() -> None:
    x = np.random.default_rng(0).uniform(-60, 60, 20_000)
    for n in (8, 64, 256):
        upper, lower = shallow.above(n), shallow.below(n)
        assert (upper.rise_F > 0).all()
        assert (lower.rise_F > 0).all()
        over, under = upper(x) - np.logaddexp(0, x), np.logaddexp(0, x) - lower(x)
        assert over.min() >= -1e-12
        assert under.min() >= -1e-12
        each = (np.pi / n) ** 2 / 8
        assert over.max() < 2 * each
        assert under.max() < 1.1 * each
        assert shortfall(n) < 3.1 * each


@pytest.mark.parametrize("gate", [0.5, 0.0])
def test_all_binary_strings(gate: float) -> None:
    base, rule = lr.predictors.Scheduled([[0.85, 0.15]]), FirstTest(lr.matching(), BITS, delta=0.2, gate=gate)
    model = build(base, rule, shallow=True)
    found = agreement(model, rule, STRINGS)
    assert found.differ == 0
    assert found.undecided < 0.01 * found.positions
    assert 0.05 < found.switched < 0.95
    assert model.module.about["late"] == pytest.approx(BITS * (shortfall() + 2e-12))


@pytest.mark.parametrize("horizon", sweep([256, 1024], usual=1))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_eight_sources(dtype: torch.dtype, horizon: int) -> None:
    sources = paper_sources(horizon)
    base, rule = sources["b"], FirstTest(lr.matching(), horizon, delta=2 / horizon)
    tokens = np.concatenate([lr.sample(source, horizon, 4, seed=5) for source in sources.values()])
    found = agreement(build(base, rule, dtype=dtype, shallow=True), rule, tokens)
    assert found.differ == 0
    assert found.undecided < 0.001 * found.positions
    assert 0 < found.switched < 1


def test_the_wealth_is_never_more_than_the_rules() -> None:
    """Of every bettor after every token, out of the stream: short of its definition, by no more than is said."""
    horizon, base = 128, lr.Markov([[0.7, 0.3], [0.05, 0.95]], 1)
    rule, tokens = FirstTest(lr.matching(), horizon), lr.sample(lr.PolyaUrn(2), horizon, 4, seed=0)
    module = build(base, rule, shallow=True).module
    rows = module.run(torch.as_tensor(tokens))[-1].numpy()[:, len(module.register_RxD) :]
    built = 2 * horizon * rows[..., module.stream.at("sums")][..., : len(rule.rates_K)]
    short = wealth(rule, base, tokens)[:, :-1] - built
    assert short.min() > -1e-11 * horizon
    assert (short.max(axis=(0, 2)) < np.arange(1, horizon) * (shortfall() + 1e-12)).all()
    assert short.max() > 0.1 * horizon * shortfall()  # so much is in fact lost


def test_other_problems_and_models() -> None:
    rng, horizon, switched = np.random.default_rng(2), 128, []
    for _ in range(4):
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (2, 2)))
        base, other = (lr.Markov(rng.dirichlet(np.ones(2), 2), 1) for _ in range(2))
        rule = FirstTest(problem, horizon, delta=0.05, gate=float(rng.choice([0.0, 0.2])))
        tokens = np.concatenate([lr.sample(model, horizon, 6, seed=1) for model in (base, other, lr.PolyaUrn(2))])
        found = agreement(build(base, rule, shallow=True), rule, tokens)
        assert found.differ == 0
        switched.append(found.switched)
    assert 0 < np.mean(switched) < 1


def test_false_alarms_stay_within_delta() -> None:
    """Exactly: the chance of a switch in distribution, over all sequences of 10 bits."""
    base, rule = lr.predictors.Scheduled([[0.6, 0.4]]), FirstTest(lr.matching(), BITS, delta=0.05, gate=0.0)
    laws = build(base, rule, shallow=True).predict_sequence(STRINGS)
    switched = (np.abs(laws - [0.6, 0.4]).max(axis=-1) > 1e-6).any(axis=-1)
    chance = np.where(STRINGS == 1, 0.4, 0.6).prod(axis=-1)
    assert 0 < chance[switched].sum() <= 0.05


def test_a_token_that_was_excluded() -> None:
    base, rule = lr.Markov([[0.5, 0.5], [1.0, 0.0]], 1), FirstTest(lr.matching(), BITS, delta=0.05)
    model, robust = build(base, rule, shallow=True), lr.robust.Robust(base, rule)
    np.testing.assert_allclose(model.predict_sequence(STRINGS), robust.predict_sequence(STRINGS), atol=1e-6)


def test_what_it_saves_and_what_it_promises() -> None:
    decoder, rule = Decoder(2, size=Size(128, 24, 3, 2, 48), seed=4), FirstTest(lr.matching(), 128)
    deep, shallow = build(decoder, rule), build(decoder, rule, shallow=True)
    assert (deep.sizes.layers, shallow.sizes.layers) == (6, 5)
    assert shallow.sizes.heads == 9 < deep.sizes.heads
    tokens = np.concatenate([lr.sample(lr.PolyaUrn(2), 128, 6, seed=0), np.ones((1, 128), dtype=int)])
    found = agreement(shallow, rule, tokens)
    assert (found.differ, found.switched > 0) == (0, True)
    streamed = lr.predictors.unroll(shallow, tokens[-2:])
    np.testing.assert_allclose(streamed, shallow.predict_sequence(tokens[-2:]), atol=1e-6)
    # A threshold that is exp(late) times as high: the bound of the exact test with the costs of that.
    late = shallow.module.about["late"]
    more = lr.certificates.exact_test(rule.problem, 128, rule.temperature, rule.rates_K, rule.log_costs_K + late, 0.5)
    less = lr.certificates.exact_test(rule.problem, 128, rule.temperature, rule.rates_K, rule.log_costs_K, 0.5)
    promised = rule.certificate.regret_bound + sum(more.values()) - sum(less.values())
    assert shallow.module.about["regret_bound"] == pytest.approx(promised, abs=1e-12)
    assert promised > rule.certificate.regret_bound + 1e-6
    assert deep.module.about["regret_bound"] == pytest.approx(rule.certificate.regret_bound, abs=1e-9)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="two actions and two states only: its problem has 3 and 3"):
        build(lr.PolyaUrn(3), FirstTest(lr.matching(3), 8), shallow=True)
    with pytest.raises(ValueError, match="shallow is for a FirstTest only: RegretGap has one form"):
        build(lr.PolyaUrn(2), lr.rules.RegretGap(lr.matching(), 8), shallow=True)
