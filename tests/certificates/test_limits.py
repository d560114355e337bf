"""The limits of rules that switch once: known values, brute force over trees, and certificates that stay above."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import coupled, every_start
from lowregret.certificates.limits import limit, owed
from lowregret.policies import CoverPlay

MATCHING = lr.matching()
UNEVEN = lr.cost_loss(cost=1, loss=4)


@cache
def game_value(problem: lr.DecisionProblem, lead: float, left: int) -> float:
    """What play still owes to action 0 with action 1 ahead by ``lead``: by the best chance at every node."""
    if left == 0:
        return max(lead, 0.0)
    after = {d: game_value(problem, lead + d, left - 1) for d in problem.advantage[0]}
    low, high = 0.0, 1.0
    for _ in range(50):
        third = (high - low) / 3
        at = [max(v - q * d for d, v in after.items()) for q in (low + third, high - third)]
        low, high = (low, high - third) if at[0] <= at[1] else (low + third, high)
    return max(v - low * d for d, v in after.items())


def response(problem: lr.DecisionProblem, p: float, warmth: float) -> float:
    return float(problem.quantal_response(np.array([1 - p, p]), warmth)[1])


def cost_iid(
    problem: lr.DecisionProblem, T: int, r: float, p: float, warmth: float, past: tuple[int, ...] = ()
) -> float:
    """The recursion over whole histories, with regrets counted from scratch at every node."""
    q, U = response(problem, p, warmth), problem.utility
    to_first = sum(U[0, s] - (1 - q) * U[0, s] - q * U[1, s] for s in past)
    lead = sum(problem.advantage[0][s] for s in past)
    if to_first + game_value(problem, float(lead), T - len(past)) > r * T + 1e-12:
        return math.inf
    if len(past) == T:
        return 0.0
    go_on = sum(chance * cost_iid(problem, T, r, p, warmth, (*past, s)) for s, chance in ((0, 1 - p), (1, p)))
    return min(1.0, go_on)


@pytest.mark.parametrize(("problem", "T", "delta"), [(MATCHING, 4, 0.3), (MATCHING, 5, 0.1), (UNEVEN, 4, 0.3)])
def test_one_law_by_brute_force(problem: lr.DecisionProblem, T: int, delta: float) -> None:
    warmth = 0.6
    found = limit(problem, T, delta, temperature=warmth)
    # No law does better than the limit says at a little more, and some law needs nearly as much.
    laws = np.linspace(0.02, 0.98, 25)
    assert all(cost_iid(problem, T, found + 0.03, p, warmth) <= delta for p in laws)
    assert any(cost_iid(problem, T, found - 0.03, p, warmth) > delta for p in laws)


def cost_adaptive(problem: lr.DecisionProblem, left: int, lead: float, slack: np.ndarray, laws: np.ndarray,
                  warmth: float) -> np.ndarray:  # fmt: skip
    """The same for bases that adapt, their laws on a grid; ``slack`` is r T less the regret to action 0, an array."""
    short = slack < game_value(problem, lead, left) - 1e-12
    if left == 0:
        return np.where(short, np.inf, 0.0)
    q = np.array([response(problem, p, warmth) for p in laws])
    D = problem.advantage[0]
    down, up = (
        cost_adaptive(problem, left - 1, lead + D[s], (slack[..., None] + q * D[s]).ravel(), laws, warmth)
        for s in (0, 1)
    )
    shape = (*slack.shape, len(laws))
    worst = ((1 - laws) * down.reshape(shape) + laws * up.reshape(shape)).max(axis=-1)
    return np.where(short, np.inf, np.minimum(1.0, worst))


@pytest.mark.parametrize(("problem", "T", "delta"), [(MATCHING, 2, 0.3), (MATCHING, 3, 0.2), (UNEVEN, 3, 0.25)])
def test_any_law_by_brute_force(problem: lr.DecisionProblem, T: int, delta: float) -> None:
    warmth, laws = 0.5, np.linspace(0.005, 0.995, 31 if T == 3 else 101)
    low = problem.advantage[0].argmin()
    assert low == 0  # state 1 suits action 1
    r = np.linspace(0.05, 0.95, 91)
    brute = r[np.argmax(cost_adaptive(problem, T, 0.0, r * T, laws, warmth) <= delta)]
    found = limit(problem, T, delta, base="adaptive", temperature=warmth, resolution=200)
    assert abs(found - brute) < 0.025  # r in steps of 0.01, the laws of both on grids of their own
    assert found >= limit(problem, T, delta, temperature=warmth) - 0.01


def test_what_is_owed_is_minimax() -> None:
    table = owed(-0.5, 1.5, 6)
    play = CoverPlay(lr.DecisionProblem([[0.5, -0.75], [0, 0.75]]), 6)
    for t, up in itertools.product(range(7), range(7)):
        if up <= t:
            lead = up * 1.5 - (t - up) * 0.5
            assert table[t][up] == pytest.approx(float(play.from_lead(lead, 6 - t)), abs=1e-12)


@pytest.mark.parametrize(("T", "iid", "adaptive"), [(24, 0.2167, 0.260), (128, 0.1181, 0.134), (1024, 0.05205, 0.0571)])
def test_known_limits(T: int, iid: float, adaptive: float) -> None:
    """Known from coarser grids of laws: what is found here is at least about that, and little more."""
    found = limit(MATCHING, T, 2 / T)
    assert iid * 0.998 <= found <= iid * 1.03
    resolution = {24: None, 128: 16, 1024: 4}[T]
    other = limit(MATCHING, T, 2 / T, base="adaptive", resolution=resolution)
    assert adaptive * 0.985 <= other <= adaptive * 1.02
    assert found < other


@pytest.mark.parametrize("problem", [MATCHING, UNEVEN, lr.DecisionProblem([[0.5, 0, 0.1], [0, 0.5, 0.2]])])
@pytest.mark.parametrize("warmth", [0.05, 0.2])
def test_certificates_stay_above_their_limits(problem: lr.DecisionProblem, warmth: float) -> None:
    T, delta = 60, 1 / 30
    prior = every_start.joint_prior(problem, T, delta, warmth)
    charges, costs_K = coupled.charges(problem, prior.rates_K, T, warmth), prior.log_costs_K(delta)
    before = every_start.before_alarm(charges, prior.rates_K, costs_K, problem.span, np.arange(T + 1))
    promised = every_start.switching_once(before, CoverPlay(problem, T).after_T(), problem.span) / T
    iid = limit(problem, T, delta, temperature=warmth)
    adaptive = limit(problem, T, delta, base="adaptive", temperature=warmth, resolution=16)
    assert CoverPlay(problem, T).after_T()[-1] / T < iid <= adaptive < promised


def test_finer_bases_only_raise_the_limit() -> None:
    values = [limit(MATCHING, 40, 0.05, base="adaptive", resolution=n) for n in (4, 8, 16, 32)]
    assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(values))


def test_nothing_at_all_is_below_the_value_of_the_game() -> None:
    for base in ("iid", "adaptive"):
        assert limit(MATCHING, 1, 0.9, base=base) >= 0.5
        assert limit(MATCHING, 30, 0.999, base=base) >= CoverPlay(MATCHING, 30).after_T()[-1] / 30 - 1e-12


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((lr.rock_paper_scissors(), 10, 0.1), "two actions"),
        ((lr.DecisionProblem([[0.1, 0.2], [0.2, 0.3]]), 10, 0.1), "each better in some state"),
        ((MATCHING, 10, 1.0), "delta must lie strictly"),
        ((MATCHING, 10, 0.1, "any"), 'base must be "iid" or "adaptive"'),
        ((MATCHING, 10, 0.1, "iid", None, 4), "resolution goes with"),
        ((lr.DecisionProblem([[math.sqrt(0.5), 0], [0, math.log(2)]]), 10, 0.1, "adaptive"), "ratio of whole numbers"),
    ],
)
def test_refusals(arguments: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        limit(*arguments)
