"""Decision problems against direct arithmetic."""

import math

import numpy as np
import pytest

import lowregret as lr

from ..conftest import extra, random_problem

torch = extra("torch")


@pytest.mark.parametrize("seed", range(10))
def test_responses_against_direct_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    beliefs = rng.dirichlet(np.ones(problem.n_states), (3, 4))
    for temperature in (0.05, 1.0, 20.0):
        response = problem.quantal_response(beliefs, temperature)
        assert response.shape == (3, 4, problem.n_actions)
        for i in np.ndindex(3, 4):
            expected_utility = [sum(u * p for u, p in zip(row, beliefs[i], strict=True)) for row in problem.utility]
            weights = [math.exp(v / temperature) for v in expected_utility]
            np.testing.assert_allclose(response[i], np.array(weights) / sum(weights), rtol=1e-10)
            assert problem.best_response(beliefs)[i] == int(np.argmax(np.array(expected_utility).round(14)))
        fast = np.moveaxis(problem.respond(np.moveaxis(beliefs, -1, 0), temperature), 0, -1)
        np.testing.assert_allclose(fast, response, atol=1e-15)


def test_a_cold_response_does_not_overflow_and_is_the_best_response() -> None:
    for problem in (lr.matching(), lr.rock_paper_scissors()):
        beliefs = np.random.default_rng(0).dirichlet(np.ones(problem.n_states), 100)
        response = problem.quantal_response(beliefs, 1e-6)
        np.testing.assert_array_equal(response.argmax(-1), problem.best_response(beliefs))
        np.testing.assert_allclose(response.max(-1), 1)
        assert np.isfinite(problem.quantal_response(beliefs, 1e-300)).all()


def test_ties_go_to_the_lowest_index() -> None:
    assert lr.matching(3).best_response([1 / 3, 1 / 3, 1 / 3]) == 0


@pytest.mark.parametrize("seed", range(20))
def test_span_and_contrast_by_brute_force(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed))
    U, A, S = problem.utility, range(problem.n_actions), range(problem.n_states)
    assert problem.span == max(max(U[a, s] for a in A) - min(U[a, s] for a in A) for s in S)
    contrast = max(max(U[a, s] - U[b, s] for s in S) - min(U[a, s] - U[b, s] for s in S) for a in A for b in A)
    assert problem.contrast == pytest.approx(contrast, abs=1e-15)
    assert problem.contrast <= 2 * problem.span + 1e-15


def test_names_of_states_read_well() -> None:
    assert lr.newsvendor([0.1 + 0.2, 72.60499999999999, 100], 5, 3).states == ("0.3", "72.605", "100")
    assert lr.trading([-0.005, 1e-7]).states == ("-0.005", "1e-07")


def test_payoffs_come_back_in_their_units() -> None:
    payoffs = np.array([[120.0, -30.0, 7.0], [0.0, 55.0, 18.0]])
    problem = lr.DecisionProblem.from_payoffs(payoffs)
    assert problem.utility.min() == -1
    assert problem.utility.max() == 1
    np.testing.assert_allclose(problem.in_payoffs(problem.utility), payoffs, atol=1e-12)
    differences = problem.regret_in_payoffs(problem.utility[0] - problem.utility[1])
    np.testing.assert_allclose(differences, payoffs[0] - payoffs[1], atol=1e-12)


def test_constant_payoffs_put_nothing_at_stake() -> None:
    problem = lr.DecisionProblem.from_payoffs([[7.0, 7.0], [7.0, 7.0]])
    assert problem.span == 0
    assert problem.in_payoffs(0.0) == 7
    for test in (lr.RegretGap(8), lr.RegretRate(8), lr.ExactTest(1 / 8, 8)):
        safe = lr.robustify(lr.predictors.Scheduled([[1.0, 0.0]]), problem, test=test)
        assert (safe.alarm_times([[1] * 8]) == 9).all()
        memory = safe.start()
        for _ in range(8):
            memory = safe.update(memory, 1)
        assert not safe.switched(memory)


def test_presets_pay_what_they_say() -> None:
    shop = lr.newsvendor([0, 10, 30], price=5, cost=3, salvage=1)
    for i, order in enumerate((0, 10, 30)):
        for j, demand in enumerate((0, 10, 30)):
            sold = min(order, demand)
            pay = 5 * sold + 1 * (order - sold) - 3 * order
            assert shop.in_payoffs(shop.utility[i, j]) == pytest.approx(pay, abs=1e-9)
    umbrella = lr.cost_loss(cost=2, loss=10)
    np.testing.assert_allclose(umbrella.in_payoffs(umbrella.utility), [[0, -10], [-2, -2]], atol=1e-12)
    assert [int(umbrella.best_response([1 - p, p])) for p in (0.19, 0.21)] == [0, 1]
    desk = lr.trading([-2, 1], positions=(-1, 0, 2), fee=0.25)
    np.testing.assert_allclose(desk.in_payoffs(desk.utility), [[1.75, -1.25], [0, 0], [-4.5, 1.5]], atol=1e-12)
    rps = lr.rock_paper_scissors()
    beats = {("rock", "scissors"), ("paper", "rock"), ("scissors", "paper")}
    for i, a in enumerate(rps.actions):
        for j, s in enumerate(rps.states):
            assert rps.utility[i, j] == ((a, s) in beats) - ((s, a) in beats)


@pytest.mark.parametrize("n_states", [2, 3, 6])
@pytest.mark.parametrize("temperature", [0.03, 0.5])
def test_the_inverse_undoes_the_response(n_states: int, temperature: float) -> None:
    rng = np.random.default_rng(n_states)
    problem = lr.DecisionProblem(rng.uniform(-1, 1, (2, n_states)))
    beliefs = rng.dirichlet(np.ones(n_states), 50)
    policy = problem.quantal_response(beliefs, temperature)
    belief = problem.invert_quantal_response(policy, temperature)
    np.testing.assert_allclose(problem.quantal_response(belief, temperature), policy, rtol=1e-6, atol=1e-12)
    assert belief.min() >= 0
    if n_states == 2:
        np.testing.assert_allclose(belief, beliefs, atol=1e-9)
    # An average of responses is a response too, and tilting a belief that already has it changes nothing.
    mean = policy.mean(0)
    back = problem.quantal_response(problem.invert_quantal_response(mean, temperature), temperature)
    np.testing.assert_allclose(back, mean, rtol=1e-6)
    np.testing.assert_allclose(problem.invert_quantal_response(policy, temperature, near=beliefs), beliefs, atol=1e-6)


def test_the_inverse_for_matching_is_the_closed_form() -> None:
    q = np.array([0.02, 0.4, 0.93])
    belief = lr.matching().invert_quantal_response(np.stack([1 - q, q], -1), 0.1)
    np.testing.assert_allclose(belief[:, 1], 0.5 + 0.05 * np.log(q / (1 - q)), atol=1e-12)


def test_the_inverse_says_when_there_is_none() -> None:
    coin = lr.matching()
    with pytest.raises(ValueError, match="policy"):
        coin.invert_quantal_response([0.999, 0.001], 1.0)
    with pytest.raises(ValueError, match="two actions"):
        lr.rock_paper_scissors().invert_quantal_response([0.2, 0.3, 0.5], 1.0)
    sure = coin.quantal_response([0.0, 1.0], 1e-4)  # saturated: the first chance is exactly 0
    np.testing.assert_allclose(coin.invert_quantal_response(sure, 1e-4), [0, 1])
    little = lr.DecisionProblem(0.01 * coin.utility)  # saturated however little is at stake
    np.testing.assert_allclose(little.invert_quantal_response(sure, 1e-6), [0, 1])
    flat = lr.DecisionProblem([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]])
    near = [0.1, 0.2, 0.7]
    back = flat.invert_quantal_response(flat.quantal_response(near, 0.3), 0.3, near=near)
    np.testing.assert_array_equal(back, near)


def test_torch_in_torch_out() -> None:
    problem = lr.rock_paper_scissors()
    beliefs = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    for dtype in (torch.float32, torch.float64):
        response = problem.quantal_response(torch.as_tensor(beliefs, dtype=dtype), 0.1)
        assert response.dtype == dtype
        np.testing.assert_allclose(response.numpy(), problem.quantal_response(beliefs, 0.1), atol=1e-5)
    shift = lr.DecisionProblem([[0.2, -0.4, 1.0], [0.0, 0.5, -1.0]])
    policy = shift.quantal_response(beliefs, 0.1)
    back = shift.invert_quantal_response(torch.as_tensor(policy), 0.1)
    np.testing.assert_allclose(back.numpy(), shift.invert_quantal_response(policy, 0.1), atol=1e-12)


def test_equal_problems_are_equal() -> None:
    assert lr.matching() == lr.matching()
    assert hash(lr.matching()) == hash(lr.matching())
    assert lr.matching() != lr.matching(3)
    assert lr.DecisionProblem.from_payoffs([[0, 1], [1, 0]]) != lr.DecisionProblem([[-1, 1], [1, -1]])


def test_the_loss_of_a_quantal_response_has_the_lambert_maximum() -> None:
    from lowregret.certificates import quantal_loss

    for n, expected in ((2, 0.2785), (3, 0.463), (4, 0.604)):
        assert quantal_loss(n) == pytest.approx(expected, abs=5e-4)
        gaps = np.linspace(0, 10, 100_001)  # one action ahead of n - 1 equal ones by gap, in units of temperature
        weight = (n - 1) * np.exp(-gaps) / (1 + (n - 1) * np.exp(-gaps))
        assert (gaps * weight).max() == pytest.approx(quantal_loss(n), abs=1e-8)
