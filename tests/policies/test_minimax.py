"""Minimax play: its value against enumeration, its worst case against its value, its laws."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks
from lowregret.certificates.games_of_chance import Trinomial, binomial_tails, hinge
from lowregret.policies import CoverPlay
from lowregret.predictors import CoverLaw

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
UNEVEN = lr.cost_loss(cost=1, loss=4)
THREE_STATES = lr.DecisionProblem([[1, 0, 0.3], [0, 0.7, 0.5]])
NO_LATTICE = lr.DecisionProblem([[math.sqrt(0.5), 0, 0.3], [0, math.log(2), 0.5]])
SKEWED = lr.DecisionProblem([[0, -0.5, 0.6], [0.5, 0, -0.7], [-0.6, 0.7, 0]])
TWO_ACTIONS = {"matching": MATCHING, "uneven": UNEVEN, "three states": THREE_STATES, "no lattice": NO_LATTICE}


def all_sequences(n_states: int, horizon: int) -> np.ndarray:
    return np.array(list(itertools.product(range(n_states), repeat=horizon))).reshape(-1, horizon)


def value_against_chance(problem: lr.DecisionProblem, horizon: int, law_S: np.ndarray) -> float:
    """What nature gains with independent states of one law, by enumeration: every play earns the law's value."""
    sequences = all_sequences(problem.n_states, horizon)
    weight = law_S[sequences].prod(axis=1)
    best = problem.utility[:, sequences].sum(axis=-1).max(axis=0)
    return float(weight @ best) - horizon * float(problem.utility[0] @ law_S)


def equaliser(problem: lr.DecisionProblem) -> np.ndarray:
    """On the two extreme states, or on all three."""
    law_S = np.zeros(problem.n_states)
    if problem.n_actions == 2:
        D = problem.advantage[0]
        law_S[[D.argmin(), D.argmax()]] = D.max(), -D.min()
        return law_S / law_S.sum()
    return np.linalg.solve(np.concatenate([problem.advantage, np.ones((1, 3))]), [0, 0, 1])


@pytest.mark.parametrize("problem", [*TWO_ACTIONS.values(), RPS, SKEWED])
@pytest.mark.parametrize("horizon", [1, 2, 5, 8])
def test_the_value_is_what_nature_gains_and_the_worst_case_is_no_more(
    problem: lr.DecisionProblem, horizon: int
) -> None:
    play = CoverPlay(problem, horizon)
    value = float(play.after_T()[-1])
    # No policy can be below this against the equaliser, and this one is never above: both together are minimax.
    assert value == pytest.approx(value_against_chance(problem, horizon, equaliser(problem)), abs=1e-12)
    regret = lr.external_regret(problem, play, all_sequences(problem.n_states, horizon))[:, -1]
    assert float(regret.max()) * horizon == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("problem", [*TWO_ACTIONS.values(), RPS])
def test_each_number_of_steps_left_has_its_own_value(problem: lr.DecisionProblem) -> None:
    values = [0.0] + [float(CoverPlay(problem, n).after_T()[-1]) for n in range(1, 7)]
    np.testing.assert_allclose(CoverPlay(problem, 6).after_T(), values, rtol=0, atol=1e-14)


@pytest.mark.parametrize("lead", [-2.0, -0.4, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("name", TWO_ACTIONS)
def test_from_the_current_lead(name: str, lead: float) -> None:
    problem, left = TWO_ACTIONS[name], 6
    law_S, sequences = equaliser(problem), all_sequences(problem.n_states, left)
    ahead = lead + problem.advantage[0][sequences].sum(axis=1)
    expected = float(law_S[sequences].prod(axis=1) @ np.maximum(ahead, 0))
    value = float(CoverPlay(problem, 20).from_lead(lead, left))
    assert value == pytest.approx(expected, abs=1e-12)
    assert value <= max(lead, 0) + CoverPlay(problem, left).after_T()[-1] + 1e-12  # never worse than afresh


def test_afresh_forgets_the_lead_and_keeps_the_steps() -> None:
    play, tokens = CoverPlay(MATCHING, 12), np.array([1, 1, 1, 0, 1, 0, 0, 0])
    memory = play.start()
    for token in tokens[:4]:
        memory = play.update(memory, token)
    memory = play.afresh(memory.seen)
    short = CoverPlay(MATCHING, 8).policy_sequence(tokens)
    for t, token in enumerate(tokens):
        np.testing.assert_allclose(play.policy(memory), short[t], rtol=0, atol=1e-15)
        memory = play.update(memory, token)


@pytest.mark.parametrize("problem", [MATCHING, UNEVEN, THREE_STATES])
@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
def test_the_law_is_minimax_among_responses(problem: lr.DecisionProblem, temperature: float) -> None:
    horizon = 7
    law = CoverLaw(problem, horizon, temperature)
    worst = lr.adversaries.exact_worst_case(law, problem, horizon, temperature)
    assert worst.regret * horizon == pytest.approx(law.after_T()[-1], abs=1e-10)
    assert worst.regret * horizon == pytest.approx(_least_by_recursion(problem, horizon, temperature), abs=1e-6)


def _least_by_recursion(problem: lr.DecisionProblem, horizon: int, temperature: float) -> float:
    """The same game without lattice, convexity or equalising: the best chance by trisection, over all states."""
    D = problem.advantage[0]
    least, most = (1 / (1 + math.exp(-d / temperature)) for d in (D.min(), D.max()))
    known: dict[tuple[int, float], float] = {}

    def value(left: int, lead: float) -> float:
        if left == 0:
            return max(lead, 0.0)
        key = (left, round(lead, 9))
        if key not in known:
            after = [value(left - 1, lead + d) for d in D]
            low, high = least, most
            for _ in range(60):
                third = (high - low) / 3
                at = [max(v - q * d for v, d in zip(after, D, strict=True)) for q in (low + third, high - third)]
                low, high = (low, high - third) if at[0] <= at[1] else (low + third, high)
            known[key] = max(v - (low + high) / 2 * d for v, d in zip(after, D, strict=True))
        return known[key]

    return value(horizon, 0.0)


def test_a_law_without_a_lattice_is_clipped_and_says_what_that_costs() -> None:
    law = CoverLaw(NO_LATTICE, 9)
    sequences = all_sequences(3, 9)
    regret = lr.external_regret(NO_LATTICE, lr.policies.Respond(law, NO_LATTICE, 1 / 3), sequences)[:, -1] * 9
    exact = float(CoverPlay(NO_LATTICE, 9).after_T()[-1])
    assert exact + 1e-3 < regret.max() <= law.after_T()[-1]


def test_known_worst_cases() -> None:
    for player in (CoverPlay(MATCHING, 1024), CoverLaw(MATCHING, 1024)):
        worst = lr.adversaries.exact_worst_case(player, MATCHING, 1024)
        assert worst.regret == pytest.approx(0.012464, abs=1e-6)
        assert worst.regret <= player.after_T()[-1] / 1024 + 1e-14
    assert CoverLaw(MATCHING, 24).after_T()[-1] - CoverPlay(MATCHING, 24).after_T()[-1] == pytest.approx(
        0.032, abs=1e-3
    )
    steps = np.arange(1025)
    assert (CoverPlay(MATCHING, 1024).after_T()[1:] <= np.sqrt((steps[1:] + 1) / (2 * np.pi))).all()
    play = CoverPlay(RPS, 30)
    worst = lr.adversaries.exact_worst_case(play, RPS, 30)
    assert worst.regret * 30 == pytest.approx(play.after_T()[-1], abs=1e-12)


def test_rock_paper_scissors_costs_what_three_normals_do() -> None:
    values = CoverPlay(RPS, 2000).after_T()
    steps = np.arange(1, 2001)
    assert values[-1] / math.sqrt(2000) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-3)  # E max of three normals
    assert (np.diff(values) >= 0).all()
    exact = [
        float(Trinomial(RPS.utility, np.full(3, 1 / 3)).expected_max(np.zeros((1, 3)), n)[0]) for n in (1500, 1999)
    ]
    assert (values[[1500, 1999]] >= exact).all()
    assert (values[[1500, 1999]] <= np.array(exact) * 1.003).all()
    assert (values[100:1025] <= 0.8482 * np.sqrt(steps[99:1024])).all()  # and up to 1 times sqrt(n) below that


@pytest.mark.parametrize("law_S", [[1 / 3, 1 / 3, 1 / 3], [0.2, 0.5, 0.3]])
@pytest.mark.parametrize("table", [0, 8])
def test_expected_maxima_by_enumeration(law_S: list[float], table: int) -> None:
    rng = np.random.default_rng(3)
    sequences = all_sequences(3, 6)
    weight = np.array(law_S)[sequences].prod(axis=1)
    games = [RPS.utility, np.eye(3), *rng.uniform(-1, 1, (4, 3, 3)), *np.round(rng.uniform(-1, 1, (4, 3, 3)))]
    for utility in games:
        ahead_NxA = np.concatenate([rng.normal(size=(5, 3)), rng.integers(-2, 3, (5, 3)).astype(float)])
        final = ahead_NxA[:, :, None] + utility[:, sequences].sum(axis=-1)
        got = Trinomial(utility, np.array(law_S), table).expected_max(ahead_NxA, 6)
        np.testing.assert_allclose(got, final.max(axis=1) @ weight, rtol=0, atol=1e-13)


def test_hinges_with_and_without_a_table() -> None:
    rng = np.random.default_rng(0)
    tails = binomial_tails(40, 0.3)
    slope, offset, trials = rng.uniform(0, 2, 300), rng.normal(size=300) * 10, rng.integers(0, 41, 300)
    got, other = hinge(slope, offset, trials, 0.3), hinge(slope, offset, trials, 0.3, tails)
    for i in range(300):
        k = np.arange(trials[i] + 1)
        pmf = np.array([math.comb(int(trials[i]), int(j)) for j in k]) * 0.3**k * 0.7 ** (trials[i] - k)
        assert got[i] == pytest.approx(float(pmf @ np.maximum(offset[i] + slope[i] * k, 0)), abs=1e-11)
    np.testing.assert_allclose(got, other, rtol=0, atol=1e-11)


PLAYERS = {
    "two actions": CoverPlay(MATCHING, 12),
    "three states": CoverPlay(THREE_STATES, 15),
    "equaliser": CoverPlay(RPS, 13),
    "one action": CoverPlay(lr.DecisionProblem([[0.3, -0.2]]), 12),
    "one action is better": CoverPlay(lr.DecisionProblem([[0.3, -0.2], [0.1, -0.5]]), 12),
}


@pytest.mark.parametrize("name", PLAYERS)
def test_the_policy_keeps_the_laws(name: str) -> None:
    assert checks.check_policy(PLAYERS[name], tolerance=1e-12)


@pytest.mark.parametrize("problem", [MATCHING, THREE_STATES, NO_LATTICE])
def test_the_law_keeps_the_laws(problem: lr.DecisionProblem) -> None:
    assert checks.check_predictor(CoverLaw(problem, 12), tolerance=1e-9)


def test_where_one_action_is_never_worse_nothing_is_lost() -> None:
    for utility in ([[0.3, -0.2], [0.1, -0.5]], [[0.1, -0.5], [0.3, -0.5]], [[0.2, 0.1], [0.2, 0.1]]):
        problem = lr.DecisionProblem(utility)
        play = CoverPlay(problem, 6)
        assert play.after_T().tolist() == [0.0] * 7
        assert lr.external_regret(problem, play, all_sequences(2, 6)).max() <= 1e-15
        for lead in (-1.0, -0.1, 0.2):
            D = problem.advantage[0]
            own = D.max() > 0 or D.min() >= 0  # plays action 1
            after = max(max(0.0, lead + total) - own * total for total in D[all_sequences(2, 6)].sum(axis=1))
            assert float(play.from_lead(lead, 6)) == pytest.approx(after, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CoverPlay(lr.matching(3), 10), "use Hedge or AdaHedge"),
        (lambda: CoverPlay(lr.newsvendor([0, 1, 2, 3], 5, 3), 10), "use Hedge or AdaHedge"),
        (lambda: CoverPlay(MATCHING, 0), "horizon must be a whole number"),
        (lambda: CoverLaw(RPS, 10), "the policy CoverPlay may do"),
        (lambda: CoverLaw(lr.DecisionProblem([[0.3, 0.2], [0.1, 0.0]]), 10), "each better in some state"),
        (lambda: CoverLaw(MATCHING, 10, temperature=0.0), "temperature must be a positive finite number"),
        (lambda: CoverPlay(MATCHING, 3).policy_sequence([0, 1, 1, 0]), "longer than the horizon"),
        (lambda: CoverPlay(RPS, 3).from_lead(0.0, 2), "from_lead is for two actions"),
    ],
)
def test_refusals(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_the_horizon_is_the_end() -> None:
    play = CoverPlay(MATCHING, 2)
    memory = play.update(play.update(play.start(), 1), 1)
    assert play.policy(memory).shape == (2,)
    with pytest.raises(ValueError, match="is over"):
        play.update(memory, 0)


def test_matching_with_three_states_has_no_equalising_play() -> None:
    """At the leads (5, 5, 0) with one step left the equalising chances would be 2/3, 2/3 and -1/3."""
    best = (np.array([5.0, 5.0, 0.0])[:, None] + np.eye(3)).max(axis=0)
    np.testing.assert_allclose(best - best.mean() + 1 / 3, [2 / 3, 2 / 3, -1 / 3])


def test_bounds_are_for_the_problem_at_hand() -> None:
    play, law = CoverPlay(MATCHING, 100), CoverLaw(MATCHING, 100)
    assert play.regret_bound(MATCHING, 100, None) == pytest.approx(play.after_T()[-1] / 100)
    assert play.regret_bound(RPS, 100, None) is None
    assert play.regret_bound(MATCHING, 101, None) is None
    assert law.regret_bound(MATCHING, 100, 0.1) == pytest.approx(law.after_T()[-1] / 100)
    assert law.regret_bound(MATCHING, 100, 0.2) is None
    # A prefix has no more in total than the whole may have.
    worst = lr.external_regret(MATCHING, CoverPlay(MATCHING, 8), all_sequences(2, 8)).max(axis=0)
    assert (worst <= [CoverPlay(MATCHING, 8).regret_bound(MATCHING, t, None) for t in range(1, 9)]).all()


@pytest.mark.parametrize("name", TWO_ACTIONS)
def test_laws_on_tensors_are_those_on_arrays(name: str) -> None:
    torch = pytest.importorskip("torch")
    law, rng = CoverLaw(TWO_ACTIONS[name], 20), np.random.default_rng(0)
    tokens = rng.integers(law.n_states, size=(6, 20))
    expected = law.predict_sequence(tokens)
    np.testing.assert_allclose(law.predict_sequence(torch.tensor(tokens)), expected, atol=1e-12)
    assert np.ptp(expected[:, 10:, 0]) > 0.05
