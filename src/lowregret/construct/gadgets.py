"""The gadgets of Appendix B.1, each a function that gives its head or its perceptron; its error is proved beside it.

Throughout, e = exp(-FAR) = 1.6e-28 and N is the number of rows. "Hidden" rows are SINK and the cells.
"""

import math

import numpy as np

from .layers import Head, Perceptron
from .residual import FAR, Residual

GATE = 4.0  # as much as any gain, so that a gate that is shut lets nothing through


def law_of_logits(x: Residual) -> Head:
    """The base model's law from its logits: a softmax over as many cells.

    Cell s scores the centred logit s, every other row -FAR. Centred logits have a maximum >= 0, so the cells hold at
    least weight 1 against N e in all, however large the logits are: the error is at most N e.
    """
    n_states = x.sizes["base"]
    cells_SxD = x.cells[:n_states]
    centred_SxD = x["logits"] - x["logits"].mean(axis=0)
    others = x["one"] - cells_SxD.sum(axis=0)
    return Head("law", _rows(centred_SxD, x["one"]), _rows(cells_SxD, -FAR * others), cells_SxD, x.at("base"))


def urn(x: Residual, prior: float) -> Head:
    """Equation (1): the average of the tokens so far and of ``S * prior`` tokens' worth of START.

    START scores ln(S prior) and holds nothing, a token scores 0 and holds its one-hot vector minus 1/S: row i gets
    (count - i/S) / (i + S prior), which is the urn minus the 1/S that is embedded. Hidden rows score FAR less than the
    least of those and hold nothing either: they take a share of at most N e of the denominator.
    """
    n_states = x.sizes["urn"]
    weight = math.log(n_states * prior)
    key = weight * x.start + (min(0.0, weight) - FAR) * x.hidden
    return Head("urn", x["one"], key, x["token"] - x["is_token"] / n_states, x.at("urn"))


def respond(x: Residual, law: str, utility_AxS: np.ndarray, temperature: float, into: str) -> Head:
    """The quantal response to a law, at its own row: losses in the query, and a cell for each action to look at.

    Cell a scores (U(a, p) - mean over actions) / temperature, every other row -FAR. The best action scores at least
    0, as in ``law_of_logits``: the error is at most N e. Nothing has to be fetched first: no lag.
    """
    n_actions = len(utility_AxS)
    cells_AxD = x.cells[:n_actions]
    scores_AxD = (utility_AxS - utility_AxS.mean(axis=0)) @ x[law] / temperature
    others = x["one"] - cells_AxD.sum(axis=0)
    return Head(
        f"respond to {law}", _rows(scores_AxD, x["one"]), _rows(cells_AxD, -FAR * others), cells_AxD, x.at(into)
    )


def fetch(x: Residual, values_VxD: np.ndarray, into: str) -> Head:
    """What the row before holds.

    Positions meet in their bits: row j scores -FAR for every bit in which j and i - 1 differ, exactly 0 for none, and
    nothing cancels. Cells differ in every bit and SINK is put FAR down: the error is at most N e times the largest
    value. START has no row before it and gets a mixture of registers, which no gate lets through.
    """
    query, key = _rows(-FAR * x["previous"], x["one"]), _rows(x["here"], -FAR * x.sink)
    return Head(f"fetch {into}", query, key, values_VxD, x.at(into))


def fetch_sigmoid(x: Residual, law: str, advantage_S: np.ndarray, temperature: float, into: str) -> Head:
    """Two actions: the chance of the second in the response of the row before, in one head.

    Row i looks at row i - 1, which scores its own logit z = (U(1, p) - U(0, p)) / temperature, and at SINK, which
    scores 0: their weights are sigmoid(z) and sigmoid(-z). SINK's law stays as embedded, 0, and with it SINK's logit.
    |z| <= z_max = max |advantage| / temperature, and a bit that differs costs z_max + FAR: the error is at most N e.
    """
    logit = advantage_S[None] @ x[law] / temperature
    margin = float(np.abs(advantage_S).max()) / temperature + FAR
    return Head(
        f"fetch the response to {law}",
        _rows(-margin * x["previous"], x["one"]),
        _rows(x["here"], logit),
        x["one"] - x.sink,
        x.at(into),
    )


def of_token(x: Residual, per_state_SxD: np.ndarray, into: str) -> Perceptron:
    """The entry that belongs to the row's token: per_state[token]; 0 on registers.

    relu(g - 4 o) - relu(-g - 4 o), with o = 0 for the state that came and 1 for the others, is g or, as |g| <= 4,
    exactly 0: no error but the rounding of g.
    """
    shut_SxD = GATE * x["other"]
    inner = np.concatenate([per_state_SxD - shut_SxD, -per_state_SxD - shut_SxD])
    n = len(per_state_SxD)
    return Perceptron("of the token", inner, np.concatenate([np.ones(n), -np.ones(n)])[None], x.at(into))


def running_mean(x: Residual, values_VxD: np.ndarray, into: str) -> Head:
    """The sum over the rows so far over i + 1; START and the hidden rows must hold 0, and so there is no error.

    A sum would grow with i and lose digits; thresholds are divided by i + 1 instead, in the embedding.
    """
    return Head("mean", x["one"], -FAR * x.hidden, values_VxD, x.at(into))


def any_above_zero(x: Residual, excess: np.ndarray, sharpness: float) -> Head:
    """Whether the excess of any row so far is positive: threshold and OR in one head.

    A row scores beta * excess, START 0 (its excess must be 0), hidden rows must be far below 0. If some excess is at
    least d, then no_flag <= exp(-beta d); if all are at most -d, then flag <= N exp(-beta d). Undecided is what lies
    within ln(N / accuracy) / beta of zero.
    """
    values = _rows(x["is_token"], x.start)
    return Head("any", x["one"], sharpness * excess, values, slice(x.at("flag").start, x.at("no_flag").stop))


def clamp(x: Residual, excess_VxD: np.ndarray, sharpness: float, into: str) -> Perceptron:
    """Steps: 0 where the excess is <= 0, 1 where it is >= 1/sharpness, straight between.

    relu(beta e) - relu(beta e - 1). In floating point the two differ by 1 up to the spacing at beta e, so beta times
    the largest excess must stay below 1/16 of the largest exact integer.
    """
    n = len(excess_VxD)
    inner = np.concatenate([sharpness * excess_VxD, sharpness * excess_VxD - x["one"]])
    return Perceptron("clamp", inner, np.concatenate([np.eye(n), -np.eye(n)], axis=1), x.at(into))


def any_of(x: Residual, steps_VxD: np.ndarray) -> Head:
    """Whether in any row so far one of the steps is taken: an OR.

    A token scores 2 FAR (sum - 1/2), START 0 (its sum must be 0), hidden rows at most -FAR (each of their steps must
    be at most 1): whole steps score at least FAR or at most -FAR, and the error is at most N e.
    """
    score = 2 * FAR * (steps_VxD.sum(axis=0, keepdims=True) - 0.5 * x["is_token"])
    score = score - 2 * FAR * (len(steps_VxD) + 1) * x.hidden
    values = _rows(x["is_token"], x.start)
    return Head("any", x["one"], score, values, slice(x.at("flag").start, x.at("no_flag").stop))


def select(x: Residual) -> Perceptron:
    """The base's law without a flag, the urn's with one.

    relu(p - 2 flag) + relu(u - 2 no_flag): of two decided flags one is 1, which shuts its term as laws are at most 1,
    and the other is at most some d, which costs at most 2 d. Nothing cancels.
    """
    n_states = x.sizes["out"]
    inner = np.concatenate([x["base"] - 2 * x["flag"], x["urn"] - 2 * x["no_flag"]])
    return Perceptron("select", inner, np.concatenate([np.eye(n_states)] * 2, axis=1), x.at("out"))


def _rows(*forms: np.ndarray) -> np.ndarray:
    return np.concatenate(forms)
