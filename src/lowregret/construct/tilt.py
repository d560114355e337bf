"""The exact test's psi(lam) = ln sum_s p(s) exp(lam x(s)) out of attention alone: a Gauss quadrature of the logarithm.

Let w be the ratio of two sums of exponentials, here those of psi at a rate and at the next slower one. Then

    ln w = integral over s in (0, 1) of (w - 1) / (1 - s + s w) = sum over nodes s of weight (A / s - B / (1 - s)),

where A = s w / (1 - s + s w) and B = 1 - A are shares of a softmax: cells that score the logarithms of the terms of the
numerator plus ln s, and as many for the denominator plus ln(1 - s). A head for each node, no knots, no ReLU. The sum is
the diagonal Pade approximant of the logarithm; its error falls geometrically with the number of nodes.
"""

import numpy as np

from .layers import Head
from .residual import FAR, Stream


def nodes(largest: float, error: float) -> tuple[np.ndarray, np.ndarray]:
    """The fewest nodes in (0, 1), and their weights, that give every |ln w| <= ``largest`` within ``error``.

    With z = coth(ln w / 2) the error is 2 Q(z) / P(z), P and Q the Legendre functions of the two kinds. As the
    derivative of Q / P is -1 / ((z^2 - 1) P^2), it is largest at the end of the range, where it is tried.

    >>> [len(nodes(largest, 1e-13)[0]) for largest in (2, 1, 0.5, 0.03)]
    [21, 11, 8, 3]
    """
    n, found = 0, np.inf
    while abs(found - largest) > error:
        n += 1
        point_M, weight_M = np.polynomial.legendre.leggauss(n)
        node_M, weight_M = (1 + point_M) / 2, weight_M / 2
        found = float(weight_M @ (np.expm1(largest) / (1 + node_M * np.expm1(largest))))
    return node_M, weight_M


def tilts(x: Stream, gain_SxD: np.ndarray, rates_K: np.ndarray, error: float, into: str) -> list[Head]:
    """psi at each rate less psi at the next, the slowest less 0, for the row's own law; ``psi`` adds them up.

    Rates halve, and |d psi / d lam| <= max |x|, so that with lam |x| <= 4 the first difference is at most 2, each
    further one half of that: few nodes. Of 2S cells the best scores at least -ln 2 - 4 (logits are centred: their
    maximum is at least 0); all other rows score -FAR - 8 and hold nothing: they take at most N e of each share. As
    A / s and B / (1 - s) are at most e^2, each difference is off by at most ``error`` + 16 N e.
    """
    n_states = len(gain_SxD)
    cells_2SxD = x.cells[: 2 * n_states]
    centred_SxD = x["logits"] - x["logits"].mean(axis=0)
    key = np.concatenate([cells_2SxD, -(FAR + 8) * (x["one"] - cells_2SxD.sum(axis=0))])
    heads = []
    for k, (rate, slower) in enumerate(zip(rates_K, [*rates_K[1:], 0.0], strict=True)):
        at = slice(x.at(into).start + k, x.at(into).start + k + 1)
        for node, weight in zip(*nodes(4 * (rate - slower) / rates_K[0], error), strict=True):
            faster_SxD = centred_SxD + rate * gain_SxD + np.log(node) * x["one"]
            slower_SxD = centred_SxD + slower * gain_SxD + np.log1p(-node) * x["one"]
            value_2S = weight * np.repeat([1 / node, -1 / (1 - node)], n_states)
            query = np.concatenate([faster_SxD, slower_SxD, x["one"]])
            heads.append(Head(f"tilt {k}, node {node:.4g}", query, key, value_2S[None] @ cells_2SxD, at))
    return heads


def psi(x: Stream, name: str) -> np.ndarray:
    """psi at each rate, ``[K, D]``: the differences from the slowest rate up."""
    n_rates = x.sizes[name]
    return np.triu(np.ones((n_rates, n_rates))) @ x[name]
