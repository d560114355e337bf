"""Each gadget alone, on streams filled at random, against NumPy and within the error it claims."""

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import build, gadgets
from lowregret.construct.layers import Head, Perceptron, layer_of
from lowregret.construct.model import Appended
from lowregret.construct.residual import Residual, embed_positions, embed_registers, embed_tokens, sizes_of

S, A, T, CELLS = 3, 4, 300, 6
E = np.exp(-64.0) * (T + CELLS + 2)  # what the gadgets claim to leak at most
ROUNDING = 1e-13  # of float64, for scores of up to a hundred


def stream_of(**more: int) -> tuple[Residual, np.ndarray, np.ndarray]:
    """A stream, its embedding for random tokens ``[N, D]``, and the tokens; "base" and "urn" hold random laws."""
    rng = np.random.default_rng(0)
    x = Residual(**sizes_of(S, T, CELLS), **more)
    tokens = rng.integers(0, S, T - 1)
    rows = np.concatenate([embed_registers(x, S), embed_tokens(x, S)[tokens]])
    rows[CELLS + 1 :] += embed_positions(x, T, {})
    rows[CELLS + 1 :, x.at("base")] = rng.dirichlet(np.ones(S), T)
    return x, rows, tokens


def applied(part: Head | Perceptron, rows: np.ndarray, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """What the part adds to its coordinates, at START and the tokens."""
    nothing = Head("nothing", *(np.zeros((1, rows.shape[1])) for _ in range(3)), slice(0, 1))
    layer = layer_of([part], [], dtype) if isinstance(part, Head) else layer_of([nothing], [part], dtype)
    given = torch.as_tensor(rows, dtype=dtype)[None]
    added = (layer(given) - given)[0].double().numpy()
    return added[CELLS + 1 :, part.into]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("prior", [0.01, 1.0, 7.0])
def test_urn(prior: float) -> None:
    x, rows, tokens = stream_of()
    laws = lr.PolyaUrn(S, prior).predict_sequence(np.append(tokens, 0))
    np.testing.assert_allclose(applied(gadgets.urn(x, prior), rows) + 1 / S, laws, rtol=0, atol=E + 1e-14)
    plain = applied(gadgets.urn(x, prior), rows, torch.float32) + 1 / S
    assert np.abs(plain - laws).max() < 2e-6


def test_law_of_logits() -> None:
    x, rows, _ = stream_of(logits=S)
    logits = np.random.default_rng(1).normal(0, [[1], [10], [300]] * (T // 3), (T, S)) + 1000
    rows[CELLS + 1 :, x.at("logits")] = logits
    assert np.abs(applied(gadgets.law_of_logits(x), rows) - softmax(logits)).max() < E + 1e-12


@pytest.mark.parametrize("temperature", [1.0, 1 / 32, 1e-3])
def test_respond(temperature: float) -> None:
    x, rows, _ = stream_of(answer=A)
    utility = np.random.default_rng(2).uniform(-1, 1, (A, S))
    exact = softmax(rows[CELLS + 1 :, x.at("base")] @ utility.T / temperature)
    got = applied(gadgets.respond(x, "base", utility, temperature, "answer"), rows)
    assert np.abs(got - exact).max() < E + 1e-15 / temperature


def test_fetch() -> None:
    x, rows, _ = stream_of(before=S)
    got = applied(gadgets.fetch(x, x["base"], "before"), rows)
    assert np.abs(got[1:] - rows[CELLS + 1 : -1, x.at("base")]).max() < E + 1e-15


@pytest.mark.parametrize("temperature", [1.0, 1 / 64, 1e-3])
def test_fetch_sigmoid(temperature: float) -> None:
    x, rows, _ = stream_of(answer=1)
    advantage = np.array([1.5, -0.5, -2.0])
    logit = rows[CELLS + 1 : -1, x.at("base")] @ advantage / temperature
    head = gadgets.fetch_sigmoid(x, "base", advantage, temperature, "answer")
    exact = softmax(np.stack([np.zeros_like(logit), logit], axis=-1))[:, 1]
    got = applied(head, rows)
    assert np.abs(got[1:, 0] - exact).max() < E + 1e-15 / temperature
    assert ((got >= 0) & (got <= 1)).all()  # START's too, which no gate lets through


def test_of_token() -> None:
    x, rows, tokens = stream_of(before=S, gain=1)
    values = np.random.default_rng(3).uniform(-2, 2, (len(rows), S))
    rows[:, x.at("before")] = values
    got = applied(gadgets.of_token(x, x["before"], "gain"), rows)[:, 0]
    assert got[0] == 0  # START
    np.testing.assert_array_equal(got[1:], values[CELLS + 2 :][np.arange(T - 1), tokens])


def test_running_mean() -> None:
    x, rows, _ = stream_of(gain=1, mean=1)
    gains, i = np.random.default_rng(4).uniform(-2, 2, T - 1), np.arange(T)
    rows[CELLS + 2 :, x.at("gain")] = gains[:, None]
    sums = np.append(0, gains.cumsum())
    mean = applied(gadgets.running_mean(x, x["gain"], "mean"), rows)[:, 0]
    assert np.abs(mean - sums / (i + 1)).max() < 4 * E + ROUNDING


@pytest.mark.parametrize("distance", [1e-11, 1e-9, 1e-3])
def test_threshold_and_or(distance: float) -> None:
    beta = 2.0**40
    x, rows, _ = stream_of(excess=1)
    rows[: CELLS + 1, x.at("excess")] = -2
    above = np.zeros(T, dtype=bool)
    above[[100, 200]] = True
    rows[CELLS + 2 :, x.at("excess")] = np.where(above, distance, -distance)[1:, None]
    flag, no_flag = applied(gadgets.any_above_zero(x, x["excess"], beta), rows).T
    assert flag[:100].max() <= T * np.exp(-beta * distance) + 1e-300
    assert no_flag[100:].max() <= np.exp(-beta * distance) * (1 + 1e-9)


def test_clamp_then_or() -> None:
    beta = 2.0**40
    x, rows, _ = stream_of(excess=2, step=2)
    rng = np.random.default_rng(5)
    rows[:, x.at("excess")] = -2
    rows[CELLS + 2 :, x.at("excess")] = rng.uniform(-2, 0, (T - 1, 2))
    rows[CELLS + 1 + 150, x.at("excess")] = [2 / beta, -1.5]
    steps = applied(gadgets.clamp(x, x["excess"], beta, "step"), rows)
    np.testing.assert_array_equal(steps, np.arange(T)[:, None] == [150, -1])
    rows[CELLS + 1 :, x.at("step")] = steps
    flag, no_flag = applied(gadgets.any_of(x, x["step"]), rows).T
    assert flag[:150].max() < E
    assert no_flag[150:].max() < E


def test_select() -> None:
    x, rows, _ = stream_of()
    rows[:, x.at("urn")] = np.random.default_rng(6).dirichlet(np.ones(S), len(rows))
    rows[::2, x.at("flag")] = rows[1::2, x.at("no_flag")] = 1
    got = applied(gadgets.select(x), rows)
    flagged = rows[:, x.at("flag")] == 1
    np.testing.assert_array_equal(got, np.where(flagged, rows[:, x.at("urn")], rows[:, x.at("base")])[CELLS + 1 :])


def modules() -> list[Appended]:
    rng = np.random.default_rng(7)
    wide = lr.DecisionProblem(rng.uniform(-1, 1, (4, 3)))
    from lowregret.transformer import Decoder

    decoder = Decoder(3, size=(32, 16, 2, 1, 16))
    return [
        build(base, lr.robust.algorithm_1(problem, test)).module
        for base in (lr.PolyaUrn(3), decoder)
        for problem in (wide, lr.DecisionProblem(wide.utility[:2]))
        for test in (lr.RegretGap(32), lr.RegretRate(32))
    ]


@pytest.mark.parametrize("which", range(8))
def test_registers_speak_through_named_heads_only(which: int) -> None:
    """What a register computes is heard nowhere; only SINK's zeros are, by sigmoids."""
    module, rng = modules()[which], np.random.default_rng(8)
    tokens = torch.as_tensor(rng.integers(0, 3, (2, 32)))
    x, n_hidden = module.stream, len(module.register_RxD) - 1
    fixed = ("one", "is_token", "token", "other", "register", "here", "previous", "bar")
    for layer, before in zip(module.every_layer, module.run(tokens), strict=False):
        after = layer(before)[:, n_hidden:]
        for name in x.sizes:
            if name in fixed:
                continue
            for row in range(n_hidden):
                disturbed = before.clone()
                disturbed[:, row, x.at(name)] += torch.as_tensor(rng.uniform(0.1, 0.5, x.sizes[name]))
                moved = (layer(disturbed)[:, n_hidden:] - after).abs()
                # START fetches from nowhere; gates shut it out.
                for fetched in ("base answer", "urn answer", "before"):
                    if fetched in x.sizes and any("fetch" in head for head in layer.head_names):
                        moved[:, 0, x.at(fetched)] = 0
                moved = moved.amax(dim=(0, 1)).numpy()
                named = [f"{name} answer"] if row == 0 and f"fetch the response to {name}" in layer.head_names else []
                allowed = {*named, *(["gain"] if named else [])}
                for other in x.sizes:
                    if other not in allowed:
                        assert moved[x.at(other)].max(initial=0) < 1e-20, (layer.head_names, row, name, other)
                assert all(moved[x.at(other)].max() > 0 for other in named)
