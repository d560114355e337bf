"""(A,B)-Prod against a literal loop, and its two bounds on every sequence."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks
from lowregret.policies.prod import loss_to_safe

from ..conftest import extra, random_markov, random_problem

torch = extra("torch")

COIN, RPS = lr.matching(), lr.rock_paper_scissors()
ALTERNATOR = lr.Markov([[0.1, 0.9], [0.9, 0.1]], 1)
STICKY = lr.Markov(np.eye(3) * 0.97 + 0.01, 1)


def literal(player: lr.policies.Prod, tokens: np.ndarray) -> np.ndarray:
    """One sequence, with products in place of logarithms."""
    U, J, T = player.problem.utility, player.problem.span, len(tokens)
    r = min(math.sqrt(math.log(player.horizon) / player.horizon) / 2, 0.5)
    hedge_rate = math.sqrt(8 * math.log(len(U)) / player.horizon) / J
    weight, earned, played = r, np.zeros(len(U)), []
    laws = player.predictor.predict_sequence(tokens)
    for t in range(T):
        scores = np.exp(U @ laws[t] * math.sqrt(player.horizon))
        model = scores / scores.sum()
        scores = np.exp(hedge_rate * earned)
        safe = scores / scores.sum()
        s = weight / (weight + 1 - r)
        played.append(s * safe + (1 - s) * model)
        gain = safe @ U[:, tokens[t]] - model @ U[:, tokens[t]]
        weight *= 1 + r * gain / J
        earned = earned + U[:, tokens[t]]
    return np.array(played)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_the_definition_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = [COIN, RPS][seed] if seed < 2 else random_problem(rng)
    player = lr.policies.Prod(random_markov(rng, problem.n_states), problem, 60)
    tokens = rng.integers(problem.n_states, size=60)
    np.testing.assert_allclose(player.policy_sequence(tokens), literal(player, tokens), atol=1e-11)


def hostile(player: Any, problem: lr.DecisionProblem, horizon: int) -> np.ndarray:
    """The state worst for the player at every step."""
    memory, states = player.start(), []
    for _ in range(horizon):
        states.append(int((player.policy(memory) @ problem.utility).argmin()))
        memory = player.update(memory, states[-1])
    return np.array(states)


def totals(player: lr.policies.Prod, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """After each step: the loss to the response to the model, to safe play, and to the best action."""
    problem, safe = player.problem, player.safe
    assert safe is not None
    assert player.temperature is not None
    earned_A = np.moveaxis(problem.utility[:, tokens], 0, -1)

    def earned(policy: lr.policies.Policy) -> np.ndarray:
        return (policy.policy_sequence(tokens) * earned_A).sum(-1).cumsum(-1)

    own = earned(player)
    model = earned(lr.policies.Respond(player.predictor, problem, player.temperature))
    return model - own, earned(safe) - own, earned_A.cumsum(-2).max(-1) - own


def check_bounds(player: lr.policies.Prod, tokens: np.ndarray) -> None:
    problem, T = player.problem, tokens.shape[-1]
    to_model, to_safe, regret = totals(player, tokens)
    assert to_model.max() <= player.loss_to_model + 1e-9
    assert player.rate is not None
    for t in range(1, T + 1):
        assert to_safe[..., t - 1].max() <= loss_to_safe(problem.span, t, player.rate) + 1e-9
        bound = player.regret_bound(problem, t, None)
        assert bound is not None
        assert regret[..., t - 1].max() <= bound * t + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_its_bounds_hold_on_every_sequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 4, 3)
    T = 9 if problem.n_states == 2 else 6
    tokens = np.array(list(itertools.product(range(problem.n_states), repeat=T)))
    rate = None if seed % 2 else float(rng.uniform(0.01, 0.5))
    check_bounds(lr.policies.Prod(random_markov(rng, problem.n_states), problem, T, rate=rate), tokens)


@pytest.mark.parametrize("seed", range(6))
def test_its_bounds_hold_against_an_enemy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = [COIN, RPS][seed] if seed < 2 else random_problem(rng)
    player = lr.policies.Prod(random_markov(rng, problem.n_states), problem, 400)
    check_bounds(player, hostile(player, problem, 400))
    check_bounds(player, hostile(lr.policies.Respond(player.predictor, problem, 0.05), problem, 400))


def test_the_bounds_are_not_idle() -> None:
    """With one adviser right in every step and the other never, both come close to what the other may cost."""
    wrong, right, T = lr.predictors.Scheduled([[1.0, 0.0]]), lr.predictors.Scheduled([[0.0, 1.0]]), 400
    sure = lr.policies.Respond(right, COIN, 1e-3)
    tokens = np.ones(T, dtype=int)
    left = lr.policies.Prod(wrong, COIN, T, temperature=1e-3, safe=sure)
    assert left.rate is not None
    assert totals(left, tokens)[1][-1] >= 0.8 * loss_to_safe(COIN.span, T, left.rate) - left.rate * T
    kept = lr.policies.Prod(right, COIN, T, temperature=1e-3, rate=0.5, safe=lr.policies.Respond(wrong, COIN, 1e-3))
    assert totals(kept, tokens)[0][-1] >= 0.7 * kept.loss_to_model


def test_no_term_of_the_loss_to_safe_play_is_idle() -> None:
    """Safe play gains just so much that its weight stays where it was: nearly all it gains is lost."""
    rate, T = 0.05, 40_000
    share = math.log1p(-rate) / (math.log1p(-rate) - math.log1p(rate))  # (1 + r)^share (1 - r)^(1 - share) = 1
    tokens = np.diff(np.floor(share * np.arange(T + 1))).astype(int)
    zero, one = lr.predictors.Scheduled([[1.0, 0.0]]), lr.predictors.Scheduled([[0.0, 1.0]])
    player = lr.policies.Prod(zero, COIN, T, temperature=1e-3, rate=rate, safe=lr.policies.Respond(one, COIN, 1e-3))
    bound = loss_to_safe(COIN.span, T, rate)
    assert 0.85 * bound <= totals(player, tokens)[1][-1] <= bound


KINDS = {
    "coin": lr.policies.Prod(lr.predictors.Scheduled([[0.9, 0.1]]), COIN, 12),
    "rps": lr.policies.Prod(STICKY, RPS, 12, rate=0.5),
    "another safe": lr.policies.Prod(ALTERNATOR, COIN, 12, temperature=0.2, safe=lr.policies.AdaHedge(COIN)),
    "one action": lr.policies.Prod(lr.PolyaUrn(2), lr.DecisionProblem([[0.3, -0.2]]), 12),
    "nothing at stake": lr.policies.Prod(lr.PolyaUrn(2), lr.DecisionProblem([[0.3, -0.2]] * 2), 12),
}


@pytest.mark.parametrize("name", KINDS)
def test_it_keeps_the_laws(name: str) -> None:
    assert len(checks.check_policy(KINDS[name], tolerance=1e-12)) == len(checks.POLICY_LAWS)


def test_weights_beyond_all_floats() -> None:
    player = lr.policies.Prod(lr.predictors.Scheduled([[1.0, 0.0]]), COIN, 8000, rate=0.5)
    played = player.policy_sequence([1] * 6000 + [0] * 2000)
    assert np.isfinite(played).all()
    assert played[5999, 1] > 1 - 1e-12
    regret = lr.external_regret(COIN, played, [1] * 6000 + [0] * 2000)[-1]
    bound = player.regret_bound(COIN, 8000, None)
    assert bound is not None
    assert regret <= bound


def test_it_leaves_a_model_that_is_right_a_little_from_the_first_step_on() -> None:
    """No TV: the response to a model that states the exact law is not what is played."""
    model = lr.predictors.Scheduled([[0.45, 0.55]])
    player = lr.policies.Prod(model, COIN, 400)
    tokens = lr.sample(model, 400, 50, seed=0)
    response = lr.policies.Respond(model, COIN, 0.05).policy_sequence(tokens)
    apart = np.abs(player.policy_sequence(tokens) - response).sum(-1) / 2
    first = math.sqrt(math.log(400) / 400) / 2 * abs(response[0, 0, 0] - 0.5)  # Hedge starts with all alike
    np.testing.assert_allclose(apart[:, 0], first)
    assert (apart > 0).all()


def test_it_plays_in_comparisons_and_with_torch_models() -> None:
    players = {"model": ALTERNATOR, "prod": lr.policies.Prod(ALTERNATOR, COIN, 100)}
    found = lr.compare(players, {"home": ALTERNATOR}, COIN, horizon=100, n=20, seed=0)
    assert found.regret_PxWxT[1, 0, -1] <= found.regret_PxWxT[0, 0, -1] + 2 * math.log(2) / 100
    tokens = torch.as_tensor(np.random.default_rng(0).integers(2, size=(2, 30)))
    assert isinstance(players["prod"].policy_sequence(tokens), torch.Tensor)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"rate": 0.6}, "rate must be at most 1/2, got 0.6"),
        ({"rate": 0.0}, "rate must be a positive"),
        ({"temperature": -1.0}, "temperature must be a positive"),
        ({"safe": lr.PolyaUrn(2)}, "safe must be a Policy such as Hedge, got PolyaUrn"),
        ({"safe": lr.policies.Hedge(RPS, 10)}, "safe was made for another problem"),
        ({"problem": RPS}, "must have the same states"),
        ({"problem": 3}, "problem must be a DecisionProblem"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lr.policies.Prod(**{"predictor": ALTERNATOR, "problem": COIN, "horizon": 10} | arguments)  # type: ignore[arg-type]
