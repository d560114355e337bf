"""The built model decides as Algorithm 1 does, wherever that is not within rounding of its threshold."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import Constructed, agreement, build
from lowregret.evaluate.sources import paper_sources
from lowregret.transformer import Decoder, Size

from ..conftest import sweep


def gap(problem: lr.DecisionProblem, horizon: int | None = 9, **settings: Any) -> Any:
    return lr.robust.algorithm_1(problem, lr.RegretGap(horizon, **settings))


def rate(problem: lr.DecisionProblem, horizon: int = 9, alpha: float = 1.5) -> Any:
    return lr.robust.algorithm_1(problem, lr.RegretRate(horizon, alpha))


def early(problem: lr.DecisionProblem, horizon: int) -> Any:
    """A threshold so low that short sequences reach it."""
    test = lr.RegretGap(horizon, alpha=0.001, sharp=True)
    return lr.robust.algorithm_1(problem, test, response=lr.QuantalResponse(0.1))


def robust(base: lr.Predictor, setting: Any) -> lr.robust.Robust:
    return lr.robust.Robust(base, setting, setting.problem)


def some_settings(problem: lr.DecisionProblem, horizon: int) -> list[Any]:
    return [gap(problem, horizon, alpha=0.02, span_aware=True), early(problem, horizon), rate(problem, horizon)]


CHAINS = {  # by the number of states: the problem, a model, the longest strings, and alpha of the rate
    2: (lr.matching(), [[0.8, 0.2], [0.4, 0.6]], 12, 0.9),
    3: (lr.rock_paper_scissors(), [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.4, 0.4, 0.2]], 8, 1.5),
}


@pytest.mark.parametrize("test", ["gap", "rate"])
@pytest.mark.parametrize("n_states", CHAINS)
def test_all_strings(n_states: int, test: str) -> None:
    problem, table, longest, alpha = CHAINS[n_states]
    for length in range(1, longest + 1):
        setting = early(problem, length) if test == "gap" else rate(problem, length, alpha)
        found = agreement(build(lr.Markov(table, 1), setting), every_string(n_states, length))
        assert (found.undecided, found.differ, found.positions) == (0, 0, length * n_states**length)
        assert found.apart < 1e-6
        assert length < 7 or 0 < found.switched < 1


# Undecided are, in float32, the positions between the first time that the statistic is within 1e-4 of its threshold
# and the time that it is clear of it: few sequences, but then many positions.
FEW = {torch.float64: 0.0, torch.float32: 0.02}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("horizon", sweep([256, 1024], usual=1))
def test_the_eight_sources(horizon: int, which: int, dtype: torch.dtype) -> None:
    sources = paper_sources(horizon)
    tokens = np.concatenate([lr.sample(source, horizon, 4, seed=3) for source in sources.values()])
    setting = some_settings(lr.matching(), horizon)[which]
    found = agreement(build(sources["b"], setting, dtype=dtype), tokens)
    assert found.differ == 0
    assert found.undecided <= FEW[dtype] * found.positions
    assert 0 < found.switched < 1


def random_build(seed: int) -> tuple[Constructed, np.ndarray]:
    """Any number of states and actions up to four, any test, on probabilities or on a decoder's logits."""
    rng = np.random.default_rng(seed)
    S, A, T = int(rng.integers(2, 5)), int(rng.integers(1, 5)), int(rng.integers(8, 129))
    problem = lr.DecisionProblem(rng.uniform(-1, 1, (A, S)))
    markov, tokens = markov_and_others(S, T, 32, rng)
    setting = some_settings(problem, T)[int(rng.integers(3))]
    decoder = Decoder(S, Size(128, 16, 2, 1, 16), seed=seed)
    decoder.embedding.weight.data *= 3
    dtype = torch.float64 if rng.random() < 0.5 else torch.float32
    return build(decoder if rng.random() < 0.5 else markov, setting, dtype=dtype), tokens


@pytest.mark.parametrize("seed", sweep(list(range(100)), usual=8))
def test_random_builds(seed: int) -> None:
    model, tokens = random_build(seed)
    found = agreement(model, tokens)
    assert found.differ == 0
    assert found.undecided <= FEW[model.module.dtype] * found.positions


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("utility", [[[1, -1, 0.5], [-0.5, 1, -1]], [[0.2, -0.7]], [[0.3, 0.3], [0.3, 0.3]]])
def test_unequal_and_pointless_problems(utility: list[list[float]], dtype: torch.dtype) -> None:
    rng, horizon, problem = np.random.default_rng(5), 256, lr.DecisionProblem(utility)
    base, tokens = markov_and_others(problem.n_states, horizon, 16, rng)
    switched = []
    for setting in some_settings(problem, horizon):
        found = agreement(build(base, setting, dtype=dtype), tokens)
        assert found.differ == 0
        assert found.undecided <= FEW[dtype] * found.positions
        switched.append(found.switched)
    assert any(switched) == (problem.span > 0)


def markov_and_others(S: int, horizon: int, n: int, rng: np.random.Generator) -> tuple[lr.Markov, np.ndarray]:
    """A Markov model, and sequences from it, from another one and from the urn."""
    base, other = (lr.Markov(rng.dirichlet(np.ones(S), S), 1) for _ in range(2))
    kinds = {base: n // 2, other: n // 4, lr.PolyaUrn(S): n // 4}
    return base, np.concatenate([lr.sample(model, horizon, count, seed=1) for model, count in kinds.items()])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("span", [1e-6, 1e-3])
def test_how_little_is_at_stake_does_not_matter(span: float, dtype: torch.dtype) -> None:
    """The same problem in other units and on another level gives the same model."""
    whole, T = lr.matching(), 128
    tiny = lr.DecisionProblem(0.9 * (1 - span) + span * whole.utility)
    base = lr.predictors.Scheduled([[0.6, 0.4]])
    tokens = np.concatenate([lr.sample(m, T, 16, seed=1) for m in (base, lr.PolyaUrn(2))])
    test, response = lr.RegretRate(T, alpha=1.5 * span), lr.QuantalResponse(span * T**-0.5)
    setting = lr.robust.algorithm_1(tiny, test, response=response)
    found = agreement(build(base, setting, dtype=dtype), tokens)
    assert found.differ == 0
    assert found.undecided <= 0.1 * found.positions
    assert 0 < found.switched < 1
    laws = [build(base, one, dtype=dtype).predict_sequence(tokens) for one in (setting, rate(whole, T))]
    assert (np.abs(laws[0] - laws[1]).max(axis=(1, 2)) > 1e-3).mean() < 0.05  # units round otherwise


def every_string(S: int, length: int) -> np.ndarray:
    return np.array(list(itertools.product(range(S), repeat=length)))


def test_the_urn_may_have_any_prior() -> None:
    base, horizon = lr.predictors.Scheduled([[0.7, 0.3]]), 64
    tokens = lr.sample(lr.predictors.Scheduled([[0.1, 0.9]]), horizon, 8, seed=0)
    for prior in (1e-3, 0.5, 20.0):
        setting = lr.robust.algorithm_1(lr.matching(), lr.RegretRate(horizon), lr.PolyaUrn(2, prior))
        assert agreement(build(base, setting), tokens).differ == 0


def test_it_obeys_the_laws_of_predictors() -> None:
    base, setting = lr.Markov([[0.8, 0.2], [0.4, 0.6]], 1), early(lr.matching(), 16)
    assert lr.checks.check_predictor(build(base, setting), horizon=16) is not None
    decoder = Decoder(2, size=Size(context=16, width=16, heads=2, layers=1, inner=16))
    assert lr.checks.check_predictor(build(decoder, setting), horizon=16, tolerance=1e-5) is not None


def test_sizes_grow_as_the_docs_say() -> None:
    def sizes(problem: lr.DecisionProblem, horizon: int) -> Any:
        return build(lr.PolyaUrn(problem.n_states), gap(problem, horizon)).sizes

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
        (lambda: build(Decoder(2, size="quick"), gap(lr.matching(), 257)), "context of 256 tokens, got 257"),
        (lambda: build(lr.PolyaUrn(2), lr.robust.algorithm_1(None, lr.VRegret(64))), "VRegret has no compiled form"),
        (lambda: build(lr.PolyaUrn(3), gap(lr.matching())), "PolyaUrn predicts 3 states, the setting's problem has 2"),
        (lambda: build(lr.PolyaUrn(2), gap(lr.matching(), None, delta=0.1)), "must have a known horizon"),
        (
            lambda: build(
                lr.PolyaUrn(2),
                lr.robust.algorithm_1(lr.matching(), lr.RegretGap(9), lr.predictors.Scheduled([[0.5, 0.5]])),
            ),
            "fallback must be a PolyaUrn, the only one built: got Scheduled",
        ),
        (lambda: build(lr.PolyaUrn(2), gap(lr.matching()), dtype=torch.float16), "dtype must be"),
        (lambda: build(torch.nn.Linear(2, 2), gap(lr.matching())), "gives must be probabilities or logits"),
        (lambda: build(Decoder(2, "quick"), gap(lr.matching()), gives="probabilities"), "gives must be logits for a"),
        (lambda: build("model", gap(lr.matching())), "must be a Predictor, got str"),
        (lambda: build(lr.PolyaUrn(2), gap(lr.matching(), 4)).predict_sequence([0] * 5), "at most 4 long"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_past_the_horizon() -> None:
    model = build(lr.PolyaUrn(2), gap(lr.matching(), 2))
    memory = model.update(model.update(model.start(like=np.zeros(1)), 0), 1)
    assert model.predict(memory).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="horizon of 2 steps is over"):
        model.update(memory, 0)


# ``agreement`` sees what is wrong, and leaves out what the band makes undecided


def test_agreement_sees_what_is_wrong() -> None:
    base, setting, other = lr.predictors.Scheduled([[0.8, 0.2]]), early(lr.matching(), 12), rate(lr.matching(), 12)
    tokens, model = every_string(2, 12), build(base, other)
    theirs, mine = (robust(base, one).predict_sequence(tokens) for one in (other, setting))
    model.setting = setting  # it claims to be another
    found, apart = agreement(model, tokens), np.abs(theirs - mine).max(axis=-1)
    assert (found.differ, found.undecided) == ((apart > 1e-6).sum(), 0)
    assert found.apart == apart.max()
    model.module.layers[-1].outer_DxF[:] = np.nan
    found = agreement(model, tokens)
    assert (found.differ, bool(np.isnan(found.apart))) == (tokens.size, True)


def test_agreement_leaves_the_band_out() -> None:
    """A threshold that 1, 1, 1 reaches to within a hair; after that the model is right again."""
    base, tokens = lr.predictors.Scheduled([[0.8, 0.2]]), np.array([[1, 1, 1, 0, 0, 0, 0, 0]])
    regret = lr.external_regret(lr.matching(), lr.policies.Respond(base, lr.matching(), 8**-0.5), tokens)[0, 2]
    for distance, undecided in ((1e-10, 5), (-1e-10, 5), (1e-8, 0), (-1e-8, 0)):
        setting = rate(lr.matching(), 8, (regret + distance) * 3**0.5)
        found = agreement(build(base, setting), tokens)
        assert (found.undecided, found.differ) == (undecided, 0)  # laws of steps 4 to 8
    assert agreement(build(base, setting, dtype=torch.float32), tokens).undecided == 5
