"""The built exact test alarms with the rule or later, and later only where the evidence is within the slack."""

import itertools

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import Constructed, attention_patterns, build
from lowregret.construct import exact as tilt
from lowregret.construct.parts import SHARPNESS
from lowregret.rules import FirstTest
from lowregret.sources import paper_sources
from lowregret.transformer import Decoder, Size, Transformer

from ..conftest import sweep


def switches(model: Constructed, base: lr.Predictor, tokens: np.ndarray) -> np.ndarray:
    """After how many tokens the model's law left the base's for good; T for never. It must be one of the two laws."""
    got, base_laws = model.predict_sequence(tokens), base.predict_sequence(tokens)
    urn_laws = lr.PolyaUrn(base.n_states).predict_sequence(tokens)
    accuracy = 1e-6 if model.module.dtype == torch.float64 else 1e-5
    like_base = np.abs(got - base_laws).max(axis=-1) < accuracy
    like_urn = np.abs(got - urn_laws).max(axis=-1) < accuracy
    assert (like_base | like_urn).all()
    T = tokens.shape[-1]
    times = np.array([np.append(np.flatnonzero(~row), T)[0] for row in like_base])
    assert (like_urn | (np.arange(T) < times[:, None])).all()  # no way back
    return times


def gains(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the urn's response gains over the base's in each state, and in the one that came."""
    laws, urn = base.predict_sequence(tokens), rule.fallback.predict_sequence(tokens)  # type: ignore[union-attr]
    answers = (rule.problem.quantal_response(law, rule.temperature) for law in (urn, laws))
    gain_S = np.subtract(*answers) @ rule.problem.utility
    return gain_S, np.take_along_axis(gain_S, tokens[..., None], axis=-1)[..., 0]


def wealth(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray) -> np.ndarray:
    """The log wealth of each bettor after each token, ``[..., T, K]``, written out from the definition."""
    gain_S, gain = gains(rule, base, tokens)
    laws = base.predict_sequence(tokens)
    psi = np.log((laws[..., None] * np.exp(rule.rates_K * gain_S[..., None])).sum(axis=-2))
    return (rule.rates_K * gain[..., None] - psi).cumsum(axis=-2)


def evidence(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln E_t, and the gap's rise less the gate's."""
    steps, gap = np.arange(1, tokens.shape[-1] + 1), gains(rule, base, tokens)[1].cumsum(axis=-1)
    rise = gap - np.minimum(np.minimum.accumulate(gap, axis=-1), 0)
    log_e = np.log(np.exp(wealth(rule, base, tokens)).mean(axis=-1))
    return log_e, rise - rule.gate * rule.problem.span * np.sqrt(steps)


def first_alarm(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray, late: float, short: float) -> np.ndarray:
    """When the alarm comes if ln E is less by ``late`` and the rise by ``short``; T for never in time."""
    log_e, rise = evidence(rule, base, tokens)
    assert rule.delta is not None
    T = tokens.shape[-1]
    alarm = (log_e - late >= -np.log(rule.delta)) & (rise >= short)
    return np.array([np.append(np.flatnonzero(row) + 1, T)[0] for row in alarm])


def check(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Never before the rule, and no later than slack and rounding explain; the switch times."""
    T = tokens.shape[-1]
    slack = SHARPNESS[str(dtype).removeprefix("torch.")].slack * T
    rounding, short = (1e-11, 2e-11 * T) if dtype == torch.float64 else (4e-6 * T, 5e-5 * T)
    times, soonest = switches(build(base, rule, dtype=dtype), base, tokens), first_alarm(rule, base, tokens, 0.0, 0.0)
    np.testing.assert_array_equal(soonest, np.minimum(rule.trip_times(base.predict_sequence(tokens), tokens), T))
    assert (times >= soonest).all()
    assert (times <= first_alarm(rule, base, tokens, slack + rounding, short)).all()
    assert dtype == torch.float32 or (times == soonest).all()  # no sequence in these tests comes so near
    return times


@pytest.mark.parametrize("gate", [0.5, 0.0])
@pytest.mark.parametrize("length", sweep([1, 2, 10, 12], usual=3))
def test_all_binary_strings(length: int, gate: float) -> None:
    base, rule = lr.predictors.Scheduled([[0.85, 0.15]]), FirstTest(lr.matching(), length, delta=0.2, gate=gate)
    times = check(rule, base, np.array(list(itertools.product([0, 1], repeat=length))))
    assert length < 10 or len(set(times)) > 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gate", [0.2, 0.0])
def test_all_strings_of_three_states(gate: float, dtype: torch.dtype) -> None:
    problem, base = lr.rock_paper_scissors(), lr.Markov([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9]], 1)
    for length in range(1, 7):
        rule = FirstTest(problem, length, delta=0.2, gate=gate)
        times = check(rule, base, np.array(list(itertools.product([0, 1, 2], repeat=length))), dtype)
    assert len(set(times)) > 3


@pytest.mark.parametrize("horizon", sweep([256, 1024], usual=1))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gate", [0.5, 0.0])
def test_the_eight_sources(gate: float, dtype: torch.dtype, horizon: int) -> None:
    sources = paper_sources(horizon)
    rule = FirstTest(lr.matching(), horizon, delta=2 / horizon, gate=gate)
    tokens = np.concatenate([lr.sample(source, horizon, 1, seed=5) for source in sources.values()])
    assert (check(rule, sources["b"], tokens, dtype) < horizon).any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(3, 3), (4, 5), (2, 3), (3, 2), (12, 2), (1, 2)])
def test_other_problems_and_models(shape: tuple[int, int], dtype: torch.dtype) -> None:
    rng, horizon, S, tripped = np.random.default_rng(2), 128, shape[1], 0
    for gate in (0.0, 0.2):
        problem = lr.rock_paper_scissors() if shape == (3, 3) else lr.DecisionProblem(rng.uniform(-1, 1, shape))
        base, other = (lr.Markov(rng.dirichlet(np.ones(S), S), 1) for _ in range(2))
        rule = FirstTest(problem, horizon, delta=0.05, gate=gate)
        tokens = np.concatenate([lr.sample(model, horizon, 4, seed=1) for model in (base, other, lr.PolyaUrn(S))])
        tripped += int((check(rule, base, tokens, dtype) < horizon).sum())
    assert (tripped > 0) == (shape != (1, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("law", [[0.6, 0.4], [0.7, 0.2, 0.1]])
def test_false_alarms_stay_within_delta(law: list[float], dtype: torch.dtype) -> None:
    """Exactly: the chance of a switch in distribution, over all sequences of 10 bits or of 6 of three states."""
    S, T = len(law), {2: 10, 3: 6}[len(law)]
    base, rule = lr.predictors.Scheduled([law]), FirstTest(lr.matching(S), T, delta=0.05, gate=0.0)
    tokens = np.array(list(itertools.product(range(S), repeat=T)))
    switched = switches(build(base, rule, dtype=dtype), base, tokens) < T
    assert 0 < np.array(law)[tokens].prod(axis=-1)[switched].sum() <= 0.05


@pytest.mark.parametrize("n", [2, 3])
def test_on_a_decoder(n: int) -> None:
    decoder = Decoder(n, size=Size(context=128, width=24, heads=3, layers=2, inner=48), seed=4)
    base, rule = Transformer(decoder), FirstTest(lr.matching(n), 128, gate=0.25)
    tokens = np.concatenate([lr.sample(lr.PolyaUrn(n), 128, 24, seed=0), *(np.full((1, 128), s) for s in range(n))])
    model = build(decoder, rule)
    times = switches(model, base, tokens)
    # The predictor's laws are rounded to float32, the decoder's logits less so: ln E may differ by that, either way.
    assert (times >= first_alarm(rule, base, tokens, -1e-6, -1e-6)).all()
    assert (times <= first_alarm(rule, base, tokens, 1e-6, 1e-5)).all()
    assert (times < 128).any()
    assert model.sizes.layers == 6
    assert len(attention_patterns(model, tokens[0])) == model.sizes.heads  # each has a name of its own


def test_the_worst_law_for_the_quadrature() -> None:
    """A base that is sure and wrong: psi is -4 at the fastest rate, the end of the range. Half the slack covers it."""
    horizon, base = 128, lr.predictors.Scheduled([[1 - 1e-12, 1e-12]])
    rule, tokens = FirstTest(lr.matching(), horizon, temperature=0.01), np.ones((1, horizon), dtype=int)
    exact = wealth(rule, base, tokens)[0, :-1]
    module = build(base, rule).module
    rows, x = module.run(torch.as_tensor(tokens))[-1].numpy()[0, len(module.register_RxD) :], module.stream
    cost = rows @ tilt.psi(x, "tilt").T
    assert np.abs(cost[:, 0] + 4).min() < 1e-5
    off = np.abs(2 * horizon * rows[:, x.at("sums")][:, :-1] + cost - exact)
    assert (off < np.arange(1, horizon)[:, None] * SHARPNESS["float64"].slack / 2).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_slack_covers_what_rounding_adds(dtype: torch.dtype) -> None:
    """The wealth built grows past that of a fair bet on the model's own responses by no more: what TV rests on."""
    horizon, S, worst = 256, 3, 0.0
    problem, rng = lr.rock_paper_scissors(), np.random.default_rng(4)
    for law in (rng.dirichlet(np.ones(S), S), np.array([[0.9, 0.1, 0], [0, 0.5, 0.5], [1e-4, 0, 1 - 1e-4]])):
        base, rule = lr.Markov(law, 1), FirstTest(problem, horizon)
        tokens = lr.sample(base, horizon, 1, seed=0)
        module = build(base, rule, dtype=dtype).module
        rows, x = module.run(torch.as_tensor(tokens))[-1].double().numpy()[0], module.stream
        rows = rows[len(module.register_RxD) - 1 :]  # from START on
        gain_S = (rows[:, x.at("urn answer")] - rows[:, x.at("base answer")]) @ problem.utility
        pay = base.predict_sequence(tokens)[0][..., None] * np.exp(rule.rates_K * gain_S[..., None])
        gain = np.take_along_axis(gain_S, tokens[0, :, None], axis=-1)
        fair = (rule.rates_K * gain - np.log(pay.sum(axis=1))).cumsum(axis=0)[:-1]
        built = 2 * horizon * rows[:, x.at("sums")][:, :-1] + rows @ tilt.psi(x, "tilt").T
        worst = max(worst, float(((built[1:] - fair) / np.arange(1, horizon)[:, None]).max()))
    slack = SHARPNESS[str(dtype).removeprefix("torch.")].slack
    print(f"{dtype}: at most {worst:.1e} a step, slack {slack:.0e}")
    assert worst < slack / 2


def test_the_evidence_is_exact_to_rounding() -> None:
    """The wealth of every bettor after every token, out of the stream, against its definition."""
    rng, horizon = np.random.default_rng(3), 512
    problem, base = lr.DecisionProblem(rng.uniform(-1, 1, (4, 5))), lr.Markov(rng.dirichlet(np.ones(5), 5), 1)
    rule, tokens = FirstTest(problem, horizon), lr.sample(lr.PolyaUrn(5), horizon, 2, seed=0)
    exact = wealth(rule, base, tokens)[:, :-1]
    for dtype, per_step in ((torch.float64, 1e-14), (torch.float32, 4e-6)):
        module = build(base, rule, dtype=dtype).module
        rows, x, K = module.run(torch.as_tensor(tokens))[-1].double().numpy(), module.stream, len(rule.rates_K)
        rows = rows[:, len(module.register_RxD) :]
        built = 2 * horizon * rows[..., x.at("sums")][..., :K] + rows @ tilt.psi(x, "tilt").T
        off = np.abs(built - exact) / np.maximum(1, np.abs(exact))
        print(f"{dtype}: ln E off by {off.max():.1e} in {horizon} steps")
        assert off.max() < per_step * horizon


@pytest.mark.parametrize("fused", [True, False])
def test_streams_and_whole_sequences_agree(fused: bool) -> None:
    rule = FirstTest(lr.rock_paper_scissors(), 16, delta=0.2, gate=0.1)
    base = lr.Markov([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9]], 1)
    assert lr.checks.check_predictor(build(base, rule, fused=fused), horizon=16) is not None


@pytest.mark.parametrize(("dtype", "band"), [(torch.float64, 1e-10), (torch.float32, 2e-3)])
def test_the_band_around_the_threshold(dtype: torch.dtype, band: float) -> None:
    """Asked for ln E less the band, the model alarms with the rule; for ever so little more than ln E, it does not."""
    base, problem, T = lr.predictors.Scheduled([[0.85, 0.15]]), lr.matching(), 64
    tokens = np.ones((1, T), dtype=int)
    rule = FirstTest(problem, T, delta=4e-4, gate=0.0)
    fifth = evidence(rule, base, tokens)[0][0, 4]
    late = SHARPNESS[str(dtype).removeprefix("torch.")].slack * T / 2
    for offset, at in ((-band, 5), (1e-12, 6), (-late, 6)):
        near = FirstTest(problem, T, delta=float(np.exp(-fifth - offset)), gate=0.0)
        assert len(near.rates_K) == len(rule.rates_K)
        assert switches(build(base, near, dtype=dtype), base, tokens).tolist() == [at], offset


class Cycle(torch.nn.Module):
    """Logits of three states, of which one is as good as excluded after each: by 75, by 200 and by 900."""

    logits_SxS = torch.tensor([[0.0, -1.0, -75.0], [-201.0, -1.0, 0.0], [0.5, -900.0, -0.5]], dtype=torch.float64)

    def forward(self, tokens_BxT: torch.Tensor) -> torch.Tensor:
        return self.logits_SxS[torch.nn.functional.pad(tokens_BxT, (1, 0))[:, :-1]]


@pytest.mark.parametrize("gate", [0.5, 0.0])
def test_logits_that_exclude(gate: float) -> None:
    """A module that gives any logits: all strings of three states, whole and as streams."""
    rule = FirstTest(lr.rock_paper_scissors(), 6, delta=0.05, gate=gate)
    tokens = np.array(list(itertools.product([0, 1, 2], repeat=6)))
    laws = torch.softmax(Cycle.logits_SxS, dim=-1).numpy()
    laws = np.where(laws < 1e-30, 0, laws)
    base = lr.FromFunction(lambda h: laws[h[-1] if len(h) else 0], 3)
    want = lr.robust.Robust(base, rule).predict_sequence(tokens)
    model = build(Cycle(), rule, gives="logits", n_states=3)
    np.testing.assert_allclose(model.predict_sequence(tokens), want, atol=1e-9)
    memory, some = model.start((27,), like=np.zeros(1)), slice(0, 729, 27)
    for t in range(6):
        np.testing.assert_allclose(model.predict(memory), want[some, t], atol=1e-9)
        memory = model.update(memory, tokens[some, t])


def test_one_state() -> None:
    rule = FirstTest(lr.DecisionProblem([[0.2], [0.7]]), 8)
    np.testing.assert_allclose(build(lr.PolyaUrn(1), rule).predict_sequence(np.zeros((2, 8), dtype=int)), 1)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="gives must be logits for FirstTest"):
        build(lr.PolyaUrn(2), FirstTest(lr.matching(), 8), gives="probabilities")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gate", [0.5, 0.0])
def test_a_token_that_was_excluded(gate: float, dtype: torch.dtype) -> None:
    """The base says 0 of a 1 after a 0: the alarm comes with it, as the rule's does, whatever the bets say."""
    base, rule = lr.Markov([[1, 0], [0.3, 0.7]], 1), FirstTest(lr.matching(), 10, delta=0.02, gate=gate)
    tokens = np.array(list(itertools.product([0, 1], repeat=10)))
    got, want = (
        build(base, rule, dtype=dtype).predict_sequence(tokens),
        lr.robust.Robust(base, rule).predict_sequence(tokens),
    )
    assert np.abs(got - want).max() < (1e-9 if dtype == torch.float64 else 1e-5)
    laws = base.predict_sequence(tokens)
    excluded = (np.take_along_axis(laws, tokens[..., None], axis=-1)[..., :-1, 0] == 0).any(axis=-1)
    assert 0 < excluded.sum() < 1024
    bare = first_alarm(rule, base, tokens, 0.0, 0.0)  # what the bets alone would do
    times = rule.trip_times(laws, tokens)
    assert (bare[excluded] > times[excluded]).any()
