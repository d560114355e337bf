"""The built every-start test: the rule's trips and laws, its wealth out of the stream, and what cannot be built."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.certificates import switching
from lowregret.construct import agreement, attention_patterns, build, draw, subspaces
from lowregret.construct.parts import sharpness_of
from lowregret.policies.shadow import Shadow
from lowregret.rules import FirstTest
from lowregret.transformer import Decoder, Size

from ..conftest import sweep
from .test_deciding import every_string, markov_and_others
from .test_exact import Cycle, switches


def with_urn(problem: lr.DecisionProblem, horizon: int, delta: float | None = None, **more: Any) -> lr.ExactTest:
    return lr.ExactTest(problem, horizon, delta=delta, fallback=lr.PolyaUrn(problem.n_states), **more)


def check(rule: lr.ExactTest, base: lr.Predictor, tokens: np.ndarray, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Laws and trips are those of Algorithm 1, in float32 but for a few near the threshold; the trips, at most T."""
    model, T = build(base, rule, dtype=dtype), tokens.shape[-1]
    found = agreement(model, rule, tokens)
    assert found.differ == 0
    assert found.undecided <= (0 if dtype == torch.float64 else 0.02 * found.positions)
    assert found.apart < (1e-6 if dtype == torch.float64 else 1e-5)
    return np.minimum(rule.trip_times(base.predict_sequence(tokens), tokens), T)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("length", sweep([1, 2, 10, 12], usual=3))
def test_all_binary_strings(length: int, dtype: torch.dtype) -> None:
    base, rule = lr.predictors.Scheduled([[0.85, 0.15]]), with_urn(lr.matching(), length, 0.2)
    times = check(rule, base, every_string(2, length), dtype)
    assert length < 10 or len(set(times)) > 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_all_strings_of_three_states(dtype: torch.dtype) -> None:
    base = lr.Markov([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9]], 1)
    for length in range(1, 7):
        times = check(with_urn(lr.rock_paper_scissors(), length, 0.2), base, every_string(3, length), dtype)
    assert len(set(times)) >= 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 5), (2, 3), (3, 2), (1, 2)])
def test_random_problems_and_models(shape: tuple[int, int], dtype: torch.dtype) -> None:
    rng, tripped = np.random.default_rng(2), 0
    for horizon in (32, 96):
        problem = lr.rock_paper_scissors() if shape == (3, 3) else lr.DecisionProblem(rng.uniform(-1, 1, shape))
        base, tokens = markov_and_others(shape[1], horizon, 64, rng)
        tripped += int((check(with_urn(problem, horizon, 0.05), base, tokens, dtype) < horizon).sum())
    assert (tripped > 0) == (shape != (1, 2))


def late_breaks(base: lr.Predictor, horizon: int, n: int) -> np.ndarray:
    """What the base expects, and from some time on the state that it expects least."""
    tokens = lr.sample(base, horizon, n, seed=7)
    for row, when in zip(tokens, np.linspace(horizon // 4, horizon - 8, n).astype(int), strict=True):
        for t in range(when, horizon):
            row[t] = base.predict_sequence(row)[t].argmin()
    return tokens


@pytest.mark.parametrize("horizon", sweep([384, 1024], usual=1))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_breaks_that_come_late(dtype: torch.dtype, horizon: int) -> None:
    """By then a bettor has lost e^-hundreds; the starts just before the break are found all the same."""
    base, rule = lr.Markov([[0.97, 0.03], [0.04, 0.96]], 1), with_urn(lr.matching(), horizon)
    tokens = late_breaks(base, horizon, 8)
    times = check(rule, base, tokens, dtype)
    assert (np.diff(times) >= 0).all()
    assert (times < horizon).sum() >= 6
    held = subspaces(build(base, rule, dtype=dtype), tokens[-1])
    assert (held["grown"] + held["growth"] + held["charge"]).min() < -0.5 * horizon


def along_the_threshold(rule: lr.ExactTest, base: lr.Predictor, n: int, seed: int) -> np.ndarray:
    """Sequences that keep E as near to 1/delta as can be without reaching it, now and then any other state."""
    rng, S, T = np.random.default_rng(seed), base.n_states, rule.horizon
    assert T is not None
    memory, trust, found = rule.start((n,)), base.start((n,), like=np.zeros(1)), []
    for t in range(T):
        law = base.predict(trust)
        after = [rule.update(memory, law, np.full(n, s)) for s in range(S)]
        near = np.stack([rule.evidence(one)[0] - rule.evidence(one)[1] for one in after])
        best = np.where(near < 0, near, -np.inf).argmax(axis=0)
        last = t > T // 2 and rng.random(n) < 0.02  # who is at the threshold goes over it
        token = np.where(last, near.argmax(axis=0), np.where(rng.random(n) < 0.2, rng.integers(0, S, n), best))
        memory, trust = rule.update(memory, law, token), base.update(trust, token)
        found.append(token)
    return np.stack(found, axis=-1)


@pytest.mark.parametrize("which", ["matching", "rock-paper-scissors"])
def test_sequences_along_the_threshold(which: str) -> None:
    rng, horizon = np.random.default_rng(4), 96
    problem = lr.matching() if which == "matching" else lr.rock_paper_scissors()
    base = lr.predictors.Scheduled(rng.dirichlet(np.ones(problem.n_states), horizon))  # no two steps are alike
    rule = with_urn(problem, horizon, 0.05)
    tokens = along_the_threshold(rule, base, 200, seed=1)
    log_e = rule.log_evidence(base.predict_sequence(tokens), tokens) + np.log(rule.delta)
    assert (np.abs(log_e).min(axis=-1) < 0.1).mean() > 0.5  # most come near it
    assert np.abs(log_e).min() < 1e-3  # some very near
    assert len(set(check(rule, base, tokens))) > 20


def test_what_adversaries_find() -> None:
    """Who searches for regret plays against the built model what they play against the algorithm."""
    base, rule = lr.predictors.Scheduled([[0.7, 0.3]]), with_urn(lr.matching(), 64, 0.1)
    robust = lr.robust.Robust(base, rule)
    prefixes = every_string(2, 6)
    found = lr.adversaries.greedy(robust, lr.matching(), 64, prefixes=prefixes)
    assert (check(rule, base, found.tokens) < 64).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_evidence_is_exact_to_rounding(dtype: torch.dtype) -> None:
    """E out of the stream, level and what is still to join, against the rule's own: its logarithm, while it counts."""
    rng, horizon, worst = np.random.default_rng(3), 384, 0.0
    for shape in ((2, 2), (4, 5)):
        problem = lr.DecisionProblem(rng.uniform(-1, 1, shape))
        base, tokens = markov_and_others(shape[1], horizon, 8, rng)
        rule = with_urn(problem, horizon)
        module = build(base, rule, dtype=dtype).module
        rows, x = module.run(torch.as_tensor(tokens))[-1].double().numpy(), module.stream
        level = rows[:, len(module.register_RxD) :, x.at("level")][..., 0]
        built = np.log(level / rule.delta + rule.prior.unspent(np.arange(2, horizon + 1)))
        exact = rule.log_evidence(base.predict_sequence(tokens), tokens)[:, :-1]
        counts = exact < 3 - np.log(rule.delta)
        assert counts.mean() > 0.5
        worst = max(worst, float(np.abs(built - exact)[counts].max()))
    print(f"{dtype}: ln E off by {worst:.1e} in {horizon} steps")
    assert worst < horizon * sharpness_of(dtype).slack / 4


@pytest.mark.parametrize(("dtype", "fused"), [(torch.float64, True), (torch.float64, False), (torch.float32, True)])
def test_the_slack_covers_what_rounding_adds(dtype: torch.dtype, fused: bool) -> None:
    """S at -3 T, and then a break: E as built is above the true one by less than is asked for, what TV rests on."""
    assert early(dtype, fused, 512) < 0.5


def test_where_rounding_adds_more() -> None:
    """In float32 a long sum that is not fused loses digits: the alarm may come where ln E is short by that."""
    assert early(torch.float32, False, 512) < 10


def early(dtype: torch.dtype, fused: bool, horizon: int) -> float:
    """By how much more than the true one ln E as built is at most, in units of what is asked for on top."""
    base, rule = lr.predictors.Scheduled([[0.62, 0.38]]), with_urn(lr.matching(), horizon)
    tokens = np.zeros((2, horizon), dtype=int)
    tokens[:, -40:] = np.random.default_rng(0).random((2, 40)) < [[0.5], [0.9]]
    model = build(base, rule, dtype=dtype, fused=fused)
    held = [subspaces(model, row) for row in tokens]
    assert min((one["grown"] + one["growth"] + one["charge"]).min() for one in held) < -2.5 * horizon
    level = np.stack([one["level"][1:, 0] for one in held]).astype(np.float64)
    built = np.log(level / rule.delta + rule.prior.unspent(np.arange(2, horizon + 1)))
    exact = rule.log_evidence(base.predict_sequence(tokens), tokens)[:, :-1]
    worst = (built - exact)[exact < 3 - np.log(rule.delta)].max()
    print(f"{dtype}, fused {fused}: ln E at most {worst:.1e} too large")
    return float(worst / (sharpness_of(dtype).slack * horizon))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_band_around_the_threshold(dtype: torch.dtype) -> None:
    """Asked for ln E less ``late``, the model alarms with the rule; for ever so little more than ln E, it does not."""
    base, problem, T = lr.predictors.Scheduled([[0.85, 0.15]]), lr.matching(), 64
    tokens, rule = np.ones((1, T), dtype=int), with_urn(lr.matching(), T, 0.02)
    rates_K = rule.rates_K

    def near(offset: float) -> np.ndarray:
        """With delta so that after the fifth token ln E is above the threshold by the offset."""
        delta = 0.02
        for _ in range(60):  # the main rate depends on delta: to a fixed point
            fifth = with_urn(problem, T, delta).log_evidence(base.predict_sequence(tokens), tokens)[0, 4]
            delta = float(np.exp(offset - fifth))
        asked = with_urn(problem, T, delta)
        assert len(asked.rates_K) == len(rates_K)
        left = asked.log_evidence(base.predict_sequence(tokens), tokens)[0, 4] + np.log(delta) - offset
        assert abs(left) < 1e-13
        return switches(build(base, asked, dtype=dtype), base, tokens)

    late = build(base, rule, dtype=dtype).module.about["late"]
    assert near(late).tolist() == [5]
    assert near(-1e-12).tolist() == [6]
    assert near(late / 8).tolist() == [6]  # slack: the rule alarms at five


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("law", [[0.6, 0.4], [0.7, 0.2, 0.1]])
def test_false_alarms_stay_within_delta(law: list[float], dtype: torch.dtype) -> None:
    """Exactly: the chance of a switch in distribution, over all sequences of 10 bits or of 6 of three states."""
    S, T = len(law), {2: 10, 3: 6}[len(law)]
    base, rule = lr.predictors.Scheduled([law]), with_urn(lr.matching(S), T, 0.1)
    tokens = every_string(S, T)
    switched = switches(build(base, rule, dtype=dtype), base, tokens) < T
    assert 0 < np.array(law)[tokens].prod(axis=-1)[switched].sum() <= 0.1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_token_that_was_excluded(dtype: torch.dtype) -> None:
    """The base says 0 of a 1 after a 0: the alarm comes with it, whatever the bets say."""
    base, rule, tokens = lr.Markov([[1, 0], [0.3, 0.7]], 1), with_urn(lr.matching(), 10, 0.001), every_string(2, 10)
    assert 0 < (check(rule, base, tokens, dtype) < 10).sum() < 1024


def test_logits_that_exclude() -> None:
    """A module that gives any logits: all strings of three states, whole and as streams."""
    rule, tokens = with_urn(lr.rock_paper_scissors(), 6, 0.05), every_string(3, 6)
    laws = torch.softmax(Cycle.logits_SxS, dim=-1).numpy()
    laws = np.where(laws < 1e-30, 0, laws)
    base = lr.FromFunction(lambda h: laws[h[-1] if len(h) else 0], 3)
    want = lr.robust.Robust(base, rule).predict_sequence(tokens)
    model = build(Cycle(), rule, gives="logits", n_states=3)
    np.testing.assert_allclose(model.predict_sequence(tokens), want, atol=1e-9)
    np.testing.assert_allclose(lr.predictors.unroll(model, tokens[::27]), want[::27], atol=1e-9)


@pytest.mark.parametrize("made", [with_urn, FirstTest])
@pytest.mark.parametrize("utility", [[[0.3, 0.3], [0.3, 0.3]], [[0.2, -0.7]]])
def test_where_nothing_is_at_stake_nothing_trips(utility: list[list[float]], made: Any) -> None:
    """Not even a token that was excluded."""
    base, rule = lr.Markov([[1, 0], [0.3, 0.7]], 1), made(lr.DecisionProblem(utility), 8, delta=0.2)
    tokens = every_string(2, 8)
    np.testing.assert_allclose(build(base, rule).predict_sequence(tokens), base.predict_sequence(tokens), atol=1e-9)


@pytest.mark.parametrize("fused", [True, False])
def test_it_obeys_the_laws_of_predictors(fused: bool) -> None:
    base = lr.Markov([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9]], 1)
    model = build(base, with_urn(lr.rock_paper_scissors(), 16, 0.2), fused=fused)
    assert lr.checks.check_predictor(model, horizon=16) is not None


def test_on_a_decoder_with_its_certificate() -> None:
    decoder = Decoder(2, size=Size(context=64, width=24, heads=3, layers=2, inner=48), seed=4)
    rule, tokens = with_urn(lr.matching(), 64), np.concatenate([lr.sample(lr.PolyaUrn(2), 64, 24, seed=0), [[0] * 64]])
    for dtype in (torch.float64, torch.float32):
        model = build(decoder, rule, dtype=dtype)
        found = agreement(model, rule, tokens)
        assert (found.differ, found.switched > 0) == (0, True)
        built, own, late = model.certificate, rule.certificate, model.module.about["late"]
        assert built.tv_bound == own.tv_bound == rule.delta
        # An alarm that is late is one at a smaller delta, with the same rates: B is no larger than what is added says.
        steps = np.arange(1, 65)
        soon, then = (
            switching.before(rule.problem, rule.prior, delta, rule.temperature, 1, False, 64)(steps)
            for delta in (rule.delta, rule.delta * np.exp(-late))
        )
        more = built.terms["later alarm"]
        assert 0 < (then - soon).max() <= 64 * more * (1 + 1e-3)
        assert built.regret_bound - own.regret_bound == pytest.approx(more, rel=1e-3)
    patterns = attention_patterns(model, tokens[-1])
    assert len(patterns) == model.sizes.heads  # each has a name of its own
    titles = [ax.get_title() for ax in draw(model, tokens[-1]).axes]
    count = 2 * len(rule.rates_K)
    assert f"layer 5: starts ({count} heads, the first)" in titles
    assert subspaces(model, tokens[-1])["level"].max() > 1


def test_sizes_are_what_the_docs_say() -> None:
    """For each action some heads that price bets at all rates, and one for each rate that adds up starts."""
    four_by_five = lr.DecisionProblem(np.random.default_rng(5).uniform(-1, 1, (4, 5)))
    for problem, heads in ((lr.matching(), (85, 51)), (lr.rock_paper_scissors(), (124, 73)), (four_by_five, (163, 99))):
        rule, (A, S) = with_urn(problem, 1024, 2 / 1024), problem.utility.shape
        found = [build(lr.PolyaUrn(S), rule, dtype=dtype).sizes for dtype in (torch.float64, torch.float32)]
        assert tuple(sizes.heads for sizes in found) == heads
        for sizes in found:
            assert (sizes.layers, sizes.hidden) == (6, 2 * S * (S + 1) + 21 * A * len(rule.rates_K))
            assert sizes.width == 50 + 8 * S + A + 4 * A * len(rule.rates_K) + max(2 * S, A)


# Why the second bettor is not built


def shadow_with(shared: int, odds_LxT: np.ndarray, share: float) -> float:
    """ln of what a mixture gives a sequence that shares out its weights at most so many times.

    ``odds_LxT`` is what each law gave what came. To know the weights after one more sharing takes the logarithm of what
    the mixture had before it: one more layer at least, for each.
    """
    log_mass, n_laws = np.full((shared + 1, len(odds_LxT)), -np.inf), len(odds_LxT)
    log_mass[0] = -np.log(n_laws)
    for odds_L in odds_LxT.T:
        told = log_mass + np.log(odds_L)
        dealt = np.logaddexp.reduce(told[:-1], axis=1, keepdims=True) + np.log(share / n_laws)
        log_mass = told + np.log1p(-share)
        log_mass[1:] = np.logaddexp(log_mass[1:], dealt)
    return float(np.logaddexp.reduce(log_mass, axis=None))


def test_where_the_second_bettor_breaks() -> None:
    """Built with d sharings it is right where the world turns less often than that, and has next to nothing if more."""
    problem, law, share = lr.matching(), np.array([0.9, 0.1]), 0.003
    for turns, few, enough in ((1, 0, 4), (3, 1, 8), (7, 4, 16)):
        states = np.repeat(np.arange(turns + 1) % 2, 100)  # as the base says, then the other way round, and so on
        laws_NxTxS = np.tile(law, (1, len(states), 1))
        mixture_SxNxT = Shadow(problem, (20, 200), share).recorded(laws_NxTxS, states[None])
        exact = np.log(mixture_SxNxT[states, 0, np.arange(len(states))]).sum()
        odds, counts = [law[states]], np.zeros((4, 2))  # the base always advises the same: two urns of each memory
        keep, urns = 1 - 1 / np.array([20, 200, 20, 200]), []
        for state in states:
            urns.append((counts[:, state] + 1) / (counts.sum(axis=1) + 2))
            counts *= keep[:, None]
            counts[:, state] += 1
        odds_LxT = np.concatenate([odds, np.array(urns).T])
        short = {d: exact - shadow_with(d, odds_LxT, share) for d in (0, 1, 2, 4, 8, 16, 32)}
        print(turns, {d: f"{off:.1e}" for d, off in short.items()})
        assert abs(short[32]) < 1e-9  # so many sharings: the shadow itself
        assert short[few] > (10 if turns > 1 else 0.5)
        assert short[enough] < 1e-3


@dataclass(frozen=True)
class Slower(lr.ExactTest):
    rates_K = np.array([0.1])


NUMBERS = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda: lr.ExactTest(lr.matching(), 8), "must fall back on a PolyaUrn, the only one built: got Recovery"),
        (lambda: with_urn(lr.matching(), None, 0.1), "must have a known horizon"),
        (lambda: lr.ExactTest(lr.matching(), 8, references=("today",)), r"must have references=\(\) to be built"),
        (lambda: lr.ExactTest(lr.matching(), 8, contexts=2), "must have contexts=None to be built"),
        (lambda: lr.ExactTest(lr.matching(), 8, payoffs="change"), "must have payoffs='fixed' to be built"),
        (lambda: lr.ExactTest(lr.matching(), 8, test=False), "must have test=True to be built"),
        (
            lambda: lr.ExactTest(lr.matching(), 8, likelihood=True, temperature=0),
            "must have likelihood=False to be built: the second bettor's mixture",
        ),
        (lambda: lr.ExactTest(NUMBERS, 8), "must be for a DecisionProblem, whose states are tokens: got Payoff"),
        (lambda: Slower(lr.matching(), 8, fallback=lr.PolyaUrn(2)), "Slower has rates_K of its own, and no compiled"),
    ],
)
def test_what_is_refused(rule: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build(lr.PolyaUrn(2), rule())


def test_what_is_refused_of_the_base_and_the_form() -> None:
    with pytest.raises(ValueError, match="gives must be logits for ExactTest, which bets"):
        build(lr.PolyaUrn(2), with_urn(lr.matching(), 8), gives="probabilities")
    with pytest.raises(ValueError, match="shallow is for a FirstTest only: ExactTest has one form"):
        build(lr.PolyaUrn(2), with_urn(lr.matching(), 8), shallow=True)
