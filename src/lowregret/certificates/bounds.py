"""What is guaranteed, as numbers: one function a bound, named after its statement, with every constant explicit.

All bounds are on the *average* external regret of quantal responses, and hold for every sequence of states.
J is the problem's span, R its contrast, A and S the numbers of actions and states, eta the temperature.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import namespace
from ..problems import DecisionProblem

Terms = dict[str, float]


def lambda_grid(span: float, n_rates: int) -> np.ndarray:
    """The betting rates of tests with a mixture of rates: (4 / J) 2^-k."""
    return (4.0 / span) * 2.0 ** -np.arange(n_rates)


def n_rates(horizon: int, delta: float) -> int:
    """How many rates tests with a mixture of rates have: down to the one that suits the whole horizon."""
    return max(1, math.ceil(math.log2(4 / math.sqrt(2 * math.log(1 / delta) / horizon))) + 2)


def quantal_loss(n_actions: int) -> float:
    """What a quantal response gives up at most, in units of temperature: W((A - 1) / e), where Lemma A.1 has ln A."""
    from scipy.special import lambertw

    return float(lambertw((n_actions - 1) / math.e).real)


def lemma_2_1(problem: DecisionProblem, horizon: int, temperature: float = 0.0) -> float:
    """In distribution, the *expected* regret of responding to the true distribution: J sqrt(ln A / 2T) + eta W.

    The printed lemma says 0, which holds for each fixed action but not for the best one in hindsight.
    """
    return problem.span * math.sqrt(math.log(problem.n_actions) / (2 * horizon)) + temperature * quantal_loss(
        problem.n_actions
    )


def lemma_2_3(problem: DecisionProblem, horizon: int, temperature: float, prior: float = 1.0) -> float:
    """The Polya urn at a fixed temperature.

    (1/T) [ eta (T+m-1) ln A + J^2/(8 eta) sum_{i<T} 1/(m+i) + eta m ln mean_a exp(C(a)/(eta m)) - min C ]
    with m = prior * S and C(a) = prior * sum_s U(a, s).

    >>> from lowregret import matching
    >>> round(lemma_2_3(matching(), 1024, 1 / 32), 4)
    0.0471
    """
    mass = prior * problem.n_states
    head_start_A = prior * problem.utility.sum(axis=1)
    scores_A = problem.utility.mean(axis=1) / temperature  # C(a) / (eta m)
    log_mean = float(scores_A.max() + np.log(np.mean(np.exp(scores_A - scores_A.max()))))
    from scipy.special import digamma

    stability = problem.span**2 / (8 * temperature) * float(digamma(mass + horizon) - digamma(mass))
    mixing = temperature * (horizon + mass - 1) * math.log(problem.n_actions)
    return (mixing + stability + temperature * mass * log_mean - float(head_start_A.min())) / horizon


def urn_anytime(problem: DecisionProblem, horizon: int) -> float:
    """The urn with the unknown-horizon temperature: (J sqrt(ln A (t+S-1)) + max C - min C) / t, at every t."""
    head_start_A = problem.utility.sum(axis=1)
    spread = float(head_start_A.max() - head_start_A.min())
    root = math.sqrt(math.log(problem.n_actions) * (horizon + problem.n_states - 1))
    return (problem.span * root + spread) / horizon


def hedge(problem: DecisionProblem, horizon: int, rate: float) -> float:
    """Hedge at a fixed rate: ln A / (rate T) + rate J^2 / 8."""
    return math.log(problem.n_actions) / (rate * horizon) + rate * problem.span**2 / 8


def matching_scale(problem: DecisionProblem) -> float | None:
    """What a right guess is worth, if the problem is to guess the state (up to a constant per state); else None."""
    U, S = problem.utility, problem.n_states
    if problem.n_actions != S or S == 1:
        return None
    worth = U.diagonal() - U[(np.arange(S) + 1) % S, np.arange(S)]
    guessing = np.allclose(U - U.diagonal(), worth[0] * (np.eye(S) - 1), rtol=0, atol=1e-12)
    return float(worth[0]) if guessing and worth[0] > 0 else None


def shrunk_urn(problem: DecisionProblem, steps: int, temperature: float, c: float, horizon: int) -> float:
    """The shrunk urn: Hedge at rate c / (T eta), plus ``clipping_loss`` at the steps after T / c, where c > 1 clips.

    At temperature 1/sqrt(T) and c <= 1: (ln A / c + c J^2 / 8) / sqrt(T).

    >>> from lowregret import matching
    >>> round(shrunk_urn(matching(), 1024, 1 / 32, c=1.0, horizon=1024) * 32, 4)
    0.8181
    """
    clipped = max(0, steps - 1 - math.floor(horizon / c)) / steps if c > 1 else 0.0
    late = clipped * clipping_loss(problem, temperature) if clipped else 0.0
    return hedge(problem, steps, c / (horizon * temperature)) + late


def clipping_loss(problem: DecisionProblem, temperature: float) -> float:
    """What a step of Hedge loses at most when its belief is clipped to a distribution.

    Two actions: where the lead is cut to d, the largest it can be, the better action keeps all but a share
    1 / (1 + e^(d/eta)), which loses d at most; where the other action was right, clipping gains. Matching: the
    projection leaves k < S states above 0; Hedge's weights of the others are raised to e^0 each, against
    k e^(1/(k eta)) together, at least, of those k.
    """
    if problem.n_actions == 2:
        sides: tuple[float, float] = problem.advantage[0].max(), -problem.advantage[0].min()
        return max(d * _falling(d / temperature) for d in sides if d >= 0)
    worth = matching_scale(problem)
    if worth is None:
        raise ValueError(f"problem must have two actions or be matching for a clipped urn, got {problem}")
    S = problem.n_states
    return worth * max(_falling(worth / (k * temperature) + math.log(k / (S - k))) for k in range(1, S))


def _falling(x: float) -> float:
    """1 / (1 + e^x), for any x."""
    return 1 / (1 + math.exp(min(x, 700.0)))


def ada_hedge(problem: DecisionProblem, steps: int) -> float:
    """AdaHedge at every t: J (1 + sqrt(1 + t ln A)) / t.

    The regret is at most twice the summed mixability gaps D. One gap is at most J, and at most J^2/8 times the rate
    ln A / D, so D^2 grows by at most ln A J^2 / 4 plus the squared gap per step: D^2 <= t ln A J^2 / 4 + J D.

    >>> from lowregret import matching
    >>> round(ada_hedge(matching(), 1024), 4)
    0.027
    """
    return problem.span * (1 + math.sqrt(1 + steps * math.log(problem.n_actions))) / steps


def fixed_share(problem: DecisionProblem, steps: int, rate: float, share: float, switches: int = 0) -> float:
    """Fixed share against the best action, or the best sequence of actions that changes ``switches`` times.

    [ ln A + k ln(A / share) + (t-1-k) ln(1 / (1 - share (A-1)/A)) ] / (rate t) + rate J^2 / 8.
    """
    A = problem.n_actions
    stay = -math.log1p(-share * (A - 1) / A)
    path = math.log(A) + switches * math.log(A / share) + (steps - 1 - switches) * stay
    return path / (rate * steps) + rate * problem.span**2 / 8


def summed_temperature(problem: DecisionProblem, steps: Any, temperature: float | None) -> Any:
    """The temperatures of the first ``steps`` steps, added up; of the schedule from above, by its integral."""
    if temperature is not None:
        return steps * temperature
    S = problem.n_states
    c = problem.anytime_temperature(1) * math.sqrt(S)
    return 2 * c * ((steps + (S - 1)) ** 0.5 - math.sqrt(S - 1))


def theorem_3_1(
    problem: DecisionProblem,
    horizon: int,
    temperature: float,
    alpha: float,
    variance: float = 8.0,
    steps: int | None = None,
) -> Terms:
    """Algorithm 1 as printed, over its fallback: eta ln A + sqrt(8 (1+alpha) ln T / t) + J / t, at t = T by default.

    ``variance`` is the constant under the root: 8, or R^2 / 2 where the problem's own contrast is used.
    """
    steps = horizon if steps is None else steps
    return {
        "quantal response": temperature * math.log(problem.n_actions),
        "threshold": math.sqrt(variance * (1 + alpha) * math.log(horizon) / steps),
        "crossing step": problem.span / steps,
    }


def regret_gap_anytime(
    problem: DecisionProblem, steps: int, temperature: float | None, delta: float, variance: float
) -> Terms:
    """The threshold on the gap with a union over all t, over its fallback, at every t = ``steps``."""
    drift = summed_temperature(problem, steps, temperature) * math.log(problem.n_actions)
    return {
        "quantal response": drift / steps,
        "threshold": math.sqrt(variance * anytime_log(steps, delta) / steps),
        "crossing step": problem.span / steps,
    }


def anytime_log(steps: Any, delta: float) -> Any:
    """ln(pi^2 t^2 / (6 delta)): failure probabilities delta * 6 / (pi t)^2 add up to delta over all t."""
    log = math.log(steps) if isinstance(steps, (int, float)) else namespace(steps).log(steps)
    return 2 * log + math.log(math.pi**2 / (6 * delta))


def windows(steps: int, length: int) -> float:
    """Algorithm 2 on t steps: how often a copy's window is paid for, (t + D - 1) / max(t, D).

    With copies that live D steps, t + D - 1 windows meet the first t steps, each for at most min(t, D) of them, and
    every step is met D times. A copy's total regret is bounded by what it may be on its longest window.
    """
    return (steps + length - 1) / max(steps, length)


def v_threshold(steps: Any, n_tips: int, delta: float) -> Any:
    """Algorithm 3's threshold on the largest V-regret: b(t) = sqrt(2 ln(pi^2 N t^2 / (3 delta)) / t).

    The increments of a V-regret have range 2 and, under the base model, mean at most 0: by Hoeffding's inequality each
    of 2 N sums reaches t b(t) with chance 3 delta / (pi^2 N t^2), and these add up to delta over all t.
    """
    return (2 * anytime_log(steps, delta / (2 * n_tips)) / steps) ** 0.5


def v_exact(steps: int, rates_K: np.ndarray, log_cost: float) -> float:
    """What a V-regret, times t, can reach before the exact test's alarm.

    min_k [ lambda_k t / 2 + ln(2NK/delta) / lambda_k ]. Where t >= ln(2NK/delta) / 8 it is at most
    1.5 sqrt(t ln(2NK/delta)): the best rate, sqrt(2 ln(2NK/delta) / t) <= 4, is within a factor sqrt(2) of one of them.
    """
    return float(np.min(rates_K * steps / 2 + log_cost / rates_K))


def smooth_cover_error(beta: float, epsilon: float, temperature: float) -> float:
    """What a grid of tips can miss (Lemmas C.6 and C.7, for quantal responses): beta^2 epsilon kappa / (4 temperature).

    Let b >= 0 bound the V-regret of forecasts p_1 .. p_t on tips whose neighbours are at most epsilon apart, 0 and 1
    counted among them. In a two-state problem of contrast beta with A actions, quantal responses at temperature eta
    then have

        regret  <=  (beta/2) b + smooth_cover_error(beta, epsilon, eta) + eta ln A,

    and so has their regret minus that of the Polya urn. kappa = max_s [ s (1 + epsilon - s) + s^3 / 6 ], s in [0, 1],
    is .2762 + .5858 epsilon + O(epsilon^2). Exact best responses (temperature 0) have regret at most (beta/2) b +
    beta (1 + epsilon)^2 / 4, which bounds the error at every temperature, and which no grid brings below beta / 4.

    *Proof.* Let u_a(p) = U(a, 0) + p d_a and F(p) = eta ln sum_a exp(u_a(p) / eta). F' is the mean of d under the
    response pi(p), eta F'' its variance: 0 <= F'' <= M = beta^2 / (4 eta), and F'' integrates to at most beta. Now
    U(pi(p), y) = F(p) + (y - p) F'(p) - eta H(pi(p)), a proper score minus an entropy, and F is affine plus the
    integral of |p - v| F''(v) / 2. With V(v) the V-regret at tip v, and q the share of ones, the best constant
    forecast for every tip,

        regret = integral F''(v) V(v) / 2 dv + eta mean_s H(pi(p_s)) - (F(q) - max_a u_a(q)).

    The last bracket is >= 0, and cancels in a difference of regrets, of which the urn's integral is >= 0, since it
    follows the leader. As shares of all t steps, let P(v) add up y - v over the forecasts below v and Q(v) add up
    v - y over those above, halves on ties: P - Q = q - v and V = 2 max(P, Q). For v between neighbouring tips a, a + h

        P(v) <= v P(a) + (1 - v) P(a+h) + (1 - v) (a + h) m + [h (1 - v) - (v - a)] n,

    forecast by forecast, with m the share of forecasts between the two tips and n of those below; Q mirrors it. And
    P(a), P(a+h) <= b/2. A forecast in the cell [a, a+h], s = 1 - a, adds to the integral at most M h s (1 - s + h)
    there and M h_j^2 (1 - a_j)^2 / 2 in each cell above: M epsilon kappa in all. At temperature 0: the bracket is at
    most (1 - v) (a + h), and m + n <= 1, so that P(v) <= b/2 + (1 - a) (a + h) <= b/2 + (1 + epsilon)^2 / 4.

    >>> round(smooth_cover_error(beta=2, epsilon=1 / 1024, temperature=1 / 32), 5)
    0.00865
    """
    beta, temperature = inputs.not_negative(beta, "beta"), inputs.not_negative(temperature, "temperature")
    epsilon = inputs.positive(epsilon, "epsilon")
    if epsilon > 1:
        raise ValueError(f"epsilon must be at most 1, got {epsilon!r}")
    s = min(1.0, 2 - math.sqrt(2 - 2 * epsilon))
    kappa = s * (1 + epsilon - s) + s**3 / 6
    exact = beta * (1 + epsilon) ** 2 / 4
    return min(exact, beta / temperature * beta * epsilon * kappa / 4) if temperature else exact


def theorem_c_4(
    problem: DecisionProblem, steps: int, temperature: float, v_regret: Callable[[int], float], spacing: float
) -> Terms:
    """Algorithm 3 in a two-state problem, over its urn, where no V-regret on the tips exceeds ``v_regret(t)`` in total.

    (R/2) v_regret(t) / t + smooth_cover_error(R, spacing, eta) + eta ln A + J / t, at t = ``steps``.
    """
    return {
        "quantal response": temperature * math.log(problem.n_actions),
        "test": problem.contrast / 2 * v_regret(steps) / steps,
        "tips": smooth_cover_error(problem.contrast, spacing, temperature),
        "crossing step": problem.span / steps,
    }


# When an alarm is worst (statement (iv) of ``every_start``): the most of B(n) + F(N - n) over n = 0 .. N, without a
# look at every n.
#
# Neither B nor F falls. So in a block a <= n <= b no sum is above B(b) + F(N - a): a block for which this is not above
# the largest sum found so far is left out, every other is halved, down to blocks that have ends only. What is found is
# the maximum, the same number that all n would give: rounding keeps what does not fall from falling. Where the sums are
# flat over so many n that blocks become too many, the largest of their bounds is given instead, which is never too
# small.


Bound = Callable[[np.ndarray], np.ndarray]  # by numbers of steps ``[N]``, in total; it never falls

_MOST_BLOCKS = 1 << 17


def worst_alarm(before: Bound, after: Bound, last: int, most_blocks: int = _MOST_BLOCKS) -> tuple[float, float]:
    """The two parts of the largest before(n) + after(last - n), n = 0 .. last.

    >>> import numpy as np
    >>> worst_alarm(np.sqrt, lambda left: 0.5 * np.sqrt(left), 100)
    (8.94427190999916, 2.23606797749979)
    """
    n = np.unique(np.linspace(0, last, 65).astype(np.int64))
    passed, lost = before(n), after(last - n)
    top = int((passed + lost).argmax())
    worst = float(passed[top]), float(lost[top])
    low, high, reach, risk = n[:-1], n[1:], passed[1:], lost[:-1]  # a block's ends, and the two parts of its bound
    while True:
        going = (high - low > 1) & (reach + risk > sum(worst))
        low, high, reach, risk = low[going], high[going], reach[going], risk[going]
        if not len(low):
            return worst
        if len(low) > most_blocks:
            top = int((reach + risk).argmax())
            return float(reach[top]), float(risk[top])
        n = (low + high) // 2
        passed, lost = before(n), after(last - n)
        top = int((passed + lost).argmax())
        worst = max(worst, (float(passed[top]), float(lost[top])), key=sum)
        low, high = np.concatenate([low, n]), np.concatenate([n, high])
        reach, risk = np.concatenate([passed, reach]), np.concatenate([risk, lost])
