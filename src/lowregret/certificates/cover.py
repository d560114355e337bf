"""What a grid of tips can miss of all V-shaped losses (Lemmas C.6 and C.7, for quantal responses)."""

import math

from .. import inputs


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
