"""The built exact test alarms with the rule or later, and no later than its roundings explain."""

import itertools

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import Constructed, build, softplus
from lowregret.construct.exact import shortfall
from lowregret.sources import paper_sources
from lowregret.transformer import Decoder, Size, Transformer


def switches(model: Constructed, base: lr.Predictor, tokens: np.ndarray) -> np.ndarray:
    """After how many tokens the model's law left the base's for good; T for never. It must be one of the two laws."""
    got, base_laws = model.predict_sequence(tokens), base.predict_sequence(tokens)
    urn_laws = lr.PolyaUrn(2).predict_sequence(tokens)
    accuracy = 1e-6 if model.module.dtype == torch.float64 else 1e-5
    like_base = np.abs(got - base_laws).max(axis=-1) < accuracy
    like_urn = np.abs(got - urn_laws).max(axis=-1) < accuracy
    assert (like_base | like_urn).all()
    T = tokens.shape[-1]
    times = np.array([np.append(np.flatnonzero(~row), T)[0] for row in like_base])
    assert (like_urn | (np.arange(T) < times[:, None])).all()  # no way back
    return times


def evidence(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln E_t and the gap's rise in units of the gate's, written out from the definition."""
    problem, rates, steps = rule.problem, rule.rates_K, np.arange(1, tokens.shape[-1] + 1)
    laws = base.predict_sequence(tokens)
    urn = rule.fallback.predict_sequence(tokens)  # type: ignore[union-attr]
    gain_S = (problem.quantal_response(urn, rule.temperature) - problem.quantal_response(laws, rule.temperature)) @ (
        problem.utility
    )
    gain = np.take_along_axis(gain_S, tokens[..., None], axis=-1)[..., 0]
    psi = np.log((laws[..., None] * np.exp(rates * gain_S[..., None])).sum(axis=-2))
    wealth = (rates * gain[..., None] - psi).cumsum(axis=-2)
    gap = gain.cumsum(axis=-1)
    rise = gap - np.minimum(np.minimum.accumulate(gap, axis=-1), 0)
    return np.log(np.exp(wealth).mean(axis=-1)), rise - rule.gate * problem.span * np.sqrt(steps)


def first_alarm(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray, late: float, short: float) -> np.ndarray:
    """When the alarm comes if ln E is less by ``late`` a step and the rise by ``short``; T for never in time."""
    log_e, rise = evidence(rule, base, tokens)
    assert rule.delta is not None
    T = tokens.shape[-1]
    alarm = (log_e - late * np.arange(1, T + 1) >= -np.log(rule.delta)) & (rise >= short)
    return np.array([np.append(np.flatnonzero(row) + 1, T)[0] for row in alarm])


def test_softplus_is_bracketed() -> None:
    x = np.random.default_rng(0).uniform(-60, 60, 20_000)
    for n in (8, 64, 256):
        upper, lower = softplus.above(n), softplus.below(n)
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
@pytest.mark.parametrize("length", [2, 12])
def test_all_binary_strings(length: int, gate: float) -> None:
    base, rule = lr.Scheduled([[0.85, 0.15]]), lr.ExactTest(lr.matching(), length, delta=0.2, gate=gate)
    tokens = np.array(list(itertools.product([0, 1], repeat=length)))
    times = switches(build(base, rule), base, tokens)
    soonest = first_alarm(rule, base, tokens, 0.0, 0.0)
    assert (times >= soonest).all()
    assert (times <= first_alarm(rule, base, tokens, shortfall() + 1e-9, 1e-9)).all()
    assert (times == soonest).mean() > 0.99
    assert length == 2 or len(set(times)) > 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gate", [0.5, 0.0])
def test_the_eight_sources(gate: float, dtype: torch.dtype) -> None:
    horizon, sources = 1024, paper_sources(1024)
    base, rule = sources["b"], lr.ExactTest(lr.matching(), horizon, delta=2 / horizon, gate=gate)
    tokens = np.concatenate([lr.sample(source, horizon, 3, seed=5) for source in sources.values()])
    times = switches(build(base, rule, dtype=dtype), base, tokens)
    rounding, short = (0.0, 1e-5) if dtype == torch.float64 else (1e-4, 0.05)
    soonest = first_alarm(rule, base, tokens, 0.0, 0.0)
    np.testing.assert_array_equal(soonest, np.minimum(rule.trip_times(base.predict_sequence(tokens), tokens), horizon))
    assert (times >= soonest).all()
    assert (times <= first_alarm(rule, base, tokens, shortfall() + 1e-9 + rounding, short)).all()
    print(f"{dtype}, gate {gate}: {(times == soonest).sum()} of {len(times)} switch times equal the rule's")


def test_other_problems_and_models() -> None:
    rng, horizon = np.random.default_rng(2), 256
    for _ in range(4):
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (2, 2)))
        base, other = (lr.Markov(rng.dirichlet(np.ones(2), 2), 1) for _ in range(2))
        rule = lr.ExactTest(problem, horizon, delta=0.05, gate=float(rng.choice([0.0, 0.2])))
        tokens = np.concatenate([lr.sample(model, horizon, 6, seed=1) for model in (base, other, lr.PolyaUrn(2))])
        times = switches(build(base, rule), base, tokens)
        assert (times >= first_alarm(rule, base, tokens, 0.0, 0.0)).all()
        assert (times <= first_alarm(rule, base, tokens, shortfall() + 1e-9, 1e-5)).all()


def test_false_alarms_stay_within_delta() -> None:
    """Exactly: the chance of a switch in distribution, over all sequences of 12 bits."""
    base, rule = lr.Scheduled([[0.6, 0.4]]), lr.ExactTest(lr.matching(), 12, delta=0.05, gate=0.0)
    tokens = np.array(list(itertools.product([0, 1], repeat=12)))
    chance = np.where(tokens == 1, 0.4, 0.6).prod(axis=-1)
    switched = switches(build(base, rule), base, tokens) < 12
    assert 0 < chance[switched].sum() <= 0.05


def test_on_a_decoder() -> None:
    decoder = Decoder(2, size=Size(context=128, width=24, heads=3, layers=2, inner=48), seed=4)
    base, rule = Transformer(decoder), lr.ExactTest(lr.matching(), 128, gate=0.25)
    tokens = np.concatenate(
        [lr.sample(lr.PolyaUrn(2), 128, 24, seed=0), np.zeros((1, 128), int), np.ones((1, 128), int)]
    )
    model = build(decoder, rule)
    times = switches(model, base, tokens)
    # The predictor's laws are rounded to float32, the decoder's logits less so: ln E may differ by that, either way.
    assert (times >= first_alarm(rule, base, tokens, -1e-6, -1e-6)).all()
    assert (times <= first_alarm(rule, base, tokens, shortfall() + 1e-6, 1e-5)).all()
    assert (times < 128).any()
    assert (model.sizes.layers, model.sizes.heads) == (5, 9)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="two actions and two states only: its problem has 3 and 3"):
        build(lr.PolyaUrn(3), lr.ExactTest(lr.matching(3), 8))
    with pytest.raises(ValueError, match="gives must be logits for an ExactTest"):
        build(lr.PolyaUrn(2), lr.ExactTest(lr.matching(), 8), gives="probabilities")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gate", [0.5, 0.0])
def test_a_token_that_was_excluded(gate: float, dtype: torch.dtype) -> None:
    """The base says 0 of a 1 after a 0: the alarm comes with it, as the rule's does, whatever the bets say."""
    base, rule = lr.Markov([[1, 0], [0.3, 0.7]], 1), lr.ExactTest(lr.matching(), 12, delta=0.02, gate=gate)
    tokens = np.array(list(itertools.product([0, 1], repeat=12)))
    got, want = build(base, rule, dtype=dtype).predict_sequence(tokens), lr.Robust(base, rule).predict_sequence(tokens)
    assert np.abs(got - want).max() < (1e-9 if dtype == torch.float64 else 1e-5)
    laws = base.predict_sequence(tokens)
    excluded = (np.take_along_axis(laws, tokens[..., None], axis=-1)[..., :-1, 0] == 0).any(axis=-1)
    assert 0 < excluded.sum() < 4096
    bare = first_alarm(rule, base, tokens, 0.0, 0.0)  # what the bets alone would do
    times = rule.trip_times(laws, tokens)
    assert (bare[excluded] > times[excluded]).any()
