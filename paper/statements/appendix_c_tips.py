"""Appendix C: unknown decision problem, V-shaped losses."""

import math

import numpy as np

from lowregret import DecisionProblem, external_regret
from lowregret.certificates import smooth_cover_error
from lowregret.rules.tips import blind_spot, tips_of, v_regret, worst_tip

from .appendix_c import both_states, two_state_problems
from .claims import Claim, against, at_most, equals, statement


@statement(
    "Lemma C.5",
    "A bounded proper scoring rule (differentiable Bayes risk) is affine in p plus a mixture of V-shaped losses, with "
    "weights that add up to at most 2.",
    sharper="What a best response loses is a finite such sum: the tips are where the best action changes, weighted by "
    "half the change of slope, together at most R/2, with R the range over actions of U(a, 1) - U(a, 0). The affine "
    "part does not depend on p, and best-response regret is the same mixture of V-regrets.",
)
def lemma_c_5() -> list[Claim]:
    """Three hundred random games: the sum of V-shaped losses against the loss, on random forecasts and between tips;
    regret on random sequences. The Brier score: all tips with equal weight, by quadrature."""
    rng, apart, used, total, mixed, affine = np.random.default_rng(0), [], [], [], [], []
    for problem in two_state_problems(300, 3):
        tips, weights, _, offset = tips_of(problem)
        p = np.concatenate([rng.random(20), (tips[1:] + tips[:-1]) / 2])
        lost = -problem.utility[problem.best_response(both_states(p))]
        for y in (0, 1):
            apart.append(np.abs(offset[y] + np.sign(tips - p[:, None]) * (y - tips) @ weights - lost[:, y]).max())
        total.append(weights.sum())
        affine.append(np.abs(offset).max())
        used.append(weights.sum() / (problem.contrast / 2) if problem.contrast else 0)
        p, tokens = rng.random((3, 25)), rng.integers(2, size=(3, 25))
        regret = external_regret(problem, problem.best_response(both_states(p)), tokens)[:, -1]
        mixed.append(np.abs(v_regret(p, tokens, tips) @ weights - regret).max())
    v, p = (np.arange(4000) + 0.5) / 4000, np.linspace(0, 1, 41)
    brier = [np.sign(v - p[:, None]) * (y - v) for y in (0, 1)]
    quadrature = max(np.abs(brier[y].mean(axis=1) + 1 / 2 - (y - p) ** 2).max() for y in (0, 1))
    return [
        equals("sum of V-shaped losses, against the loss: largest distance", max(apart), 0, 1e-12),
        at_most("sum of weights / (R/2): largest", max(used), 1),
        at_most("sum of weights, as printed: largest", max(total), 2),
        at_most("affine part: largest", max(affine), 1),
        equals("regret, against the mixture of V-regrets: largest distance", max(mixed), 0, 1e-12),
        equals("Brier score, against all tips alike, less 1/2: largest distance", quadrature, 0, 1e-6),
    ]


@statement(
    "Lemma C.6",
    "With the weights w moved to the nearest of tips every epsilon, a bounded proper scoring rule changes by at most 2 "
    "epsilon, at every forecast and outcome.",
    verdict="false",
    quotes=[
        r"Then for all $p\in[0,1]$ and $y\in\{0,1\}$, ... \big|\ell(p,y)-\ell^{(\varepsilon)}(p,y)\big| \;\le\; "
        r"2\varepsilon"
    ]
    * 2,
    corrected="A V-shaped loss jumps at its tip: there it changes by about 1 however fine the grid. What holds: the "
    "change at p is at most epsilon W/2 + 2 w(the bin of p), W the sum of weights. What a quantal response loses, less "
    "its entropy, has no jumps: its change is at most epsilon (R/4 + R^2/(4 eta)), R as in Lemma C.5.",
)
def lemma_c_6() -> list[Claim]:
    """The V-shaped loss whose tip lies between two of the grid; and, since its Bayes risk has a kink, tips spread
    evenly over a tenth of a cell there, whose Bayes risk is differentiable. Two hundred sums of 1 to 6 V-shaped losses
    at random, forecasts beside all tips; sixty random games with quantal responses, 2001 forecasts, weights of bins in
    closed form."""
    rng, n, used, smooth = np.random.default_rng(0), 1000, [], []
    tip, spread = (n // 2 + 0.25) / n, np.linspace(-0.05, 0.05, 101) / n
    near = np.array([tip - 0.1 / n, tip + 0.1 / n])
    jump, even = (max(moved(tip + at, np.full(len(at), 1 / len(at)), n, near)[0]) for at in (np.zeros(1), spread))
    for _ in range(200):
        n, tips, weights = int(rng.integers(2, 50)), rng.random(rng.integers(1, 7)), rng.random(6)
        p = np.clip(np.concatenate([tips - 1e-9, tips + 1e-9, tips, rng.random(20)]), 0, 1)
        change, in_bin = moved(tips, weights[: len(tips)], n, p)
        used.append(max(change / (weights[: len(tips)].sum() / (2 * n) + 2 * in_bin)))
    for problem in two_state_problems(60, 4):
        n, eta = int(rng.integers(2, 60)), float(rng.choice([0.03, 0.2, 1.0]))
        bound = (problem.contrast / 4 + problem.contrast**2 / (4 * eta)) / n
        smooth.append(moved_smooth(problem, eta, n) / bound if bound else 0)
    return [
        at_most("change / (epsilon W/2 + 2 w(bin)), 200 sums: largest", max(used), 1),
        at_most("quantal responses: change / (epsilon (R/4 + R^2/(4 eta))), 60 games", max(smooth), 1),
        against(at_most("V-shaped loss, epsilon = 1/1000: change", jump, 2 / 1000)),
        against(at_most("the same with a differentiable Bayes risk", even, 2 / 1000)),
    ]


def moved(tips: np.ndarray, weights: np.ndarray, n: int, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much a sum of V-shaped losses changes with its tips on a grid of 1/n; the weight in each forecast's bin."""
    home = np.floor(tips * n + 0.5) / n

    def loss(at: np.ndarray, y: int) -> np.ndarray:
        return np.sign(at - p[:, None]) * (y - at) @ weights

    change = np.maximum(*(np.abs(loss(tips, y) - loss(home, y)) for y in (0, 1)))
    return change, (np.floor(p[:, None] * n + 0.5) / n == home) @ weights


def moved_smooth(problem: DecisionProblem, eta: float, n: int) -> float:
    """The same for what quantal responses lose less their entropy: -F(p) - (y - p) F'(p), weights F''/2."""
    p, grid = np.linspace(0, 1, 2001), np.arange(n + 1) / n
    F, slope = soft_maximum(problem, eta, p)
    ends, at = soft_maximum(problem, eta, np.array([0.0, 1.0]))
    edges = np.clip(np.concatenate([[0], (grid[1:] + grid[:-1]) / 2, [1]]), 0, 1)
    weights = np.diff(soft_maximum(problem, eta, edges)[1]) / 2
    change = 0.0
    for y in (0, 1):
        # At p = 0 every tip is above: there the mixture is y W less the mean of the tips times W.
        affine = -ends[0] - y * at[0] - (y * (at[1] - at[0]) - at[1] + ends[1] - ends[0]) / 2
        cover = affine + np.sign(grid - p[:, None]) * (y - grid) @ weights
        change = max(change, float(np.abs(-F - (y - p) * slope - cover).max()))
    return change


def soft_maximum(problem: DecisionProblem, eta: float, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F(p) = eta ln sum_a exp(u_a(p)/eta), what a forecast is worth to quantal responses, and its slope."""
    utility = both_states(p) @ problem.utility.T
    top = utility.max(axis=-1)
    F = top + eta * np.log(np.exp((utility - top[..., None]) / eta).sum(axis=-1))
    return F, problem.quantal_response(both_states(p), eta) @ (problem.utility[:, 1] - problem.utility[:, 0])


@statement(
    "Lemma C.7",
    "The regret of every proper scoring rule in [-1, 1] is at most twice the largest V-regret on tips every epsilon, "
    "plus 4 epsilon.",
    verdict="false",
    quotes=[
        r"For any bounded proper scoring rule $\ell\in [-1, 1]$ and any forecast sequence $p_{1:T}$, ... "
        r"\extreg_T(\ell;p_{1:T}) \;\le\; 2\widehat{\Delta}_{t, \varepsilon} \;+\; 4\varepsilon."
    ]
    * 2,
    corrected="Best responses: at most (R/2) b + R (1+epsilon)^2/4, b the largest V-regret on the grid (or 0): R/4 "
    "stays however fine the grid. Quantal responses: at most (R/2) b + epsilon kappa R^2/(4 eta) + eta ln A, with "
    "kappa = .276 + .586 epsilon + O(epsilon^2).",
)
def lemma_c_7() -> list[Claim]:
    """Forecasts that alternate around a tip between two of the grid, wrong each time; and around tips spread evenly
    over a tenth of a cell, whose Bayes risk is differentiable. Four hundred hostile sequences for games that bend where
    it hurts and random ones, at temperatures from .001 to 3. The worst known: ones at the left end of the cell around
    1/2, zeros at its right end."""
    rng, warm, cold, everywhere = np.random.default_rng(0), [], [], []
    for i in range(400):
        tips = np.arange(1, n := int(rng.integers(2, 40))) / n if i % 2 else np.sort(rng.random(rng.integers(1, 40)))
        edges = np.concatenate([[0.0], tips, [1.0]])
        p, tokens = hostile(rng, edges, int(rng.integers(1, 60)))
        v = float(rng.choice(p) + rng.choice([0, 1e-3, -1e-3, 0.02]))
        bends = np.array([[v, v - 1], [-v, 1 - v]]) / 1.1
        problem = DecisionProblem(bends if i % 3 else rng.uniform(-1, 1, (rng.integers(2, 5), 2)))
        eta, epsilon, R = float(10 ** rng.uniform(-3, 0.5)), float(np.diff(edges).max()), problem.contrast
        b = max(0.0, float(v_regret(p, tokens, tips).max()))
        regret = external_regret(problem, problem.quantal_response(both_states(p), eta), tokens)[-1]
        bound = R / 2 * b + smooth_cover_error(R, epsilon, eta) + eta * math.log(problem.n_actions)
        warm.append(regret / bound)
        regret = external_regret(problem, problem.best_response(both_states(p)), tokens)[-1]
        cold.append(regret / (R / 2 * b + smooth_cover_error(R, epsilon, 0)))
        everywhere.append(float(worst_tip(p, tokens).regret) / (b + (1 + epsilon) ** 2 / 2))
    finest = blind_spot(np.arange(1001) / 1000, 100)
    seen = v_regret(finest.p, finest.tokens, np.arange(1001) / 1000).max()
    # Of a mixture of V-shaped losses the regret is that of V-regrets: one constant forecast is the best for all tips.
    missed, even = (
        v_regret(finest.p, finest.tokens, finest.tip + at).mean() for at in (np.zeros(1), np.linspace(-5e-5, 5e-5, 101))
    )
    tokens, problem = np.repeat([1, 0], [1020, 980]), DecisionProblem([[0.505, -0.495], [-0.505, 0.495]])
    p = np.where(tokens == 1, 0.5 + 1e-9, 0.51 - 1e-9)
    F, slope = soft_maximum(problem, 0.05, p)
    score = float(soft_maximum(problem, 0.05, np.array(0.51))[0]) - (F + (tokens - p) * slope).mean()
    best = external_regret(problem, problem.best_response(both_states(p)), tokens)[-1]
    cover = {eta: smooth_cover_error(problem.contrast, 0.01, eta) for eta in (0.05, 0.0)}
    return [
        at_most("quantal responses: regret / bound, 400 hostile sequences: largest", max(warm), 1),
        at_most("best responses: regret / bound, the same: largest", max(cold), 1),
        at_most("V-regret at any tip / (b + (1+epsilon)^2/2), the same: largest", max(everywhere), 1),
        at_most("missed in a cell around 1/2, epsilon = .01, quantal (eta = .05)", score, cover[0.05]),
        at_most("missed in the same cell, best response", best, cover[0.0]),
        against(at_most("V-regret at a tip between, epsilon = 1/1000", missed, 2 * seen + 4 / 1000)),
        against(at_most("the same with a differentiable Bayes risk", even, 2 * seen + 4 / 1000)),
    ]


def hostile(rng: np.random.Generator, edges: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts inside a few cells, near the left end when 1 comes and near the right when 0 does, amid honest ones."""
    cell = rng.choice(rng.choice(len(edges) - 1, size=rng.integers(1, 4)), steps)
    low, high = edges[cell], edges[cell + 1]
    tokens = (rng.random(steps) < (low + high) / 2 + rng.choice([0, 0, 0.1, -0.1])).astype(int)
    near = rng.choice([0.0, 1e-6, 0.1, 0.4])
    p = low + np.where(tokens == 1, near, 1 - near) * (high - low)
    honest, other = rng.random(steps), rng.random(steps) < rng.choice([0, 0.3])
    return np.where(other, honest, p), np.where(other, (rng.random(steps) < honest).astype(int), tokens)
