"""The residual stream of the built layers (Appendix B.1): named subspaces, and the rows that enter it.

A row of the stream is a register (constant, in front of every sequence) or a token. The registers are SINK, some cells
and START, in that order: SINK comes first, so that causal attention shows it nothing but itself and it stays as it was
embedded; START comes last and is position 0, the moment before the first token. Row i after it holds token i and is
asked for the forecast of token i + 1. The base model never sees a register.
"""

import math

import numpy as np

FAR = 64.0  # how far below the rest a key scores that must not be seen: exp(-64) = 1.6e-28, a float32 all the same


class Residual:
    """Subspaces by name; ``stream[name]`` is the linear map that reads one, ``[size, width]``.

    Linear forms of the stream are rows of that width, so that weights are written as algebra on names.

    >>> x = Residual(one=1, token=2)
    >>> x["token"].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> (2 * x["one"] - x["token"][:1]).tolist()
    [[2.0, -1.0, 0.0]]
    """

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes
        self.width = sum(sizes.values())
        ends = np.cumsum(list(sizes.values())).tolist()
        self._at = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        self._unit_DxD = np.eye(self.width)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._unit_DxD[self._at[name]]

    def at(self, name: str) -> slice:
        """Where the subspace lies in a row."""
        return self._at[name]

    @property
    def sink(self) -> np.ndarray:
        return self["register"][:1]

    @property
    def cells(self) -> np.ndarray:
        return self["register"][1:-1]

    @property
    def start(self) -> np.ndarray:
        return self["register"][-1:]

    @property
    def hidden(self) -> np.ndarray:
        """One on SINK and on every cell: the rows that stand for no moment."""
        return self["register"][:-1].sum(axis=0, keepdims=True)


def sizes_of(n_states: int, horizon: int, n_cells: int) -> dict[str, int]:
    """The subspaces that every construction has."""
    bits = n_bits(horizon)
    return {
        "one": 1,  # 1 in every row: what a bias would be
        "is_token": 1,
        "token": n_states,  # the token, one-hot
        "other": n_states,  # its complement, stored and not computed: gates need it exact
        "register": n_cells + 2,
        "here": 2 * bits,  # the position i: (b, 1 - b) for each of its bits
        "previous": 2 * bits,  # of i - 1: (1 - b, b), so that here * previous counts the bits that differ
        "base": n_states,  # the base model's forecast
        "urn": n_states,  # the fallback's
        "flag": 1,  # whether there was an alarm,
        "no_flag": 1,  # and whether not: found apart, so that neither is one minus the other
        "out": n_states,
    }


def n_bits(horizon: int) -> int:
    return max(1, math.ceil(math.log2(max(horizon, 2))))


def embed_tokens(x: Residual, n_states: int) -> np.ndarray:
    """The rows of the tokens, ``[S, width]``."""
    rows_SxD = np.zeros((n_states, x.width))
    rows_SxD[:, x.at("one")] = rows_SxD[:, x.at("is_token")] = 1
    rows_SxD[:, x.at("token")] = np.eye(n_states)
    rows_SxD[:, x.at("other")] = 1 - np.eye(n_states)
    rows_SxD[:, x.at("urn")] = 1 / n_states  # the urn's head adds the deviation from it
    return rows_SxD


def embed_registers(x: Residual, n_states: int) -> np.ndarray:
    """SINK, the cells and START, ``[R, width]``."""
    count = x.sizes["register"]
    rows_RxD = np.zeros((count, x.width))
    rows_RxD[:, x.at("one")] = 1
    rows_RxD[:, x.at("register")] = np.eye(count)
    rows_RxD[:, x.at("other")] = 1  # no state came here: every gate on the token is shut
    rows_RxD[1:-1, x.at("here")] = 1  # a cell differs in every bit from every position
    rows_RxD[-1, x.at("urn")] = 1 / n_states
    return rows_RxD


def embed_positions(x: Residual, horizon: int, columns: dict[str, np.ndarray]) -> np.ndarray:
    """What START (0) and the tokens after it (1, 2, ...) know of their position, ``[horizon, width]``.

    ``columns`` are further subspaces that depend on the position alone, such as thresholds.
    """
    rows_TxD = np.zeros((horizon, x.width))
    place = np.arange(horizon)
    here, before = _bits(place, n_bits(horizon)), _bits(place - 1, n_bits(horizon))
    rows_TxD[:, x.at("here")] = np.concatenate([here, 1 - here], axis=1)
    rows_TxD[1:, x.at("previous")] = np.concatenate([1 - before, before], axis=1)[1:]  # nothing comes before START
    for name, column_T in columns.items():
        rows_TxD[:, x.at(name)] = column_T[:, None]
    return rows_TxD


def _bits(numbers: np.ndarray, count: int) -> np.ndarray:
    return ((numbers[:, None] >> np.arange(count)) & 1).astype(np.float64)
