"""How exact the built layers are (``python -m benchmarks.construct``): errors against the test in float64."""

import math

import numpy as np
import torch

import lowregret as lr
from lowregret.construct import Appended, build
from lowregret.construct.gadgets import fetch_sigmoid
from lowregret.construct.layers import Head, layer_of
from lowregret.construct.residual import FAR, Residual, embed_positions, embed_registers, sizes_of
from lowregret.engine import Engine
from lowregret.evaluate.sources import paper_sources

DTYPES = {"float64": torch.float64, "float32": torch.float32}


def precision(horizons: list[int], n: int, device: str) -> None:
    """The error of the average gap, how near the threshold flags are wrong by more than 1e-6, and that of the laws."""
    print("| T | dtype | error of the average gap | undecided band | error of the laws outside |")
    print("|---|---|---|---|---|")
    for T in horizons:
        sources = paper_sources(T)
        tokens = np.concatenate([lr.sample(source, T, max(1, n // 8), seed=1) for source in sources.values()])
        base, step = sources["b"], np.arange(1, T)
        robust = lr.robustify(base, lr.matching(), test=lr.RegretGap(T, alpha=0.02, span_aware=True))
        setting, watch = robust.setting, robust.setting.watch
        played = Engine(setting).played_at_once(np.array(base.predict_sequence(tokens)), tokens)
        gap = watch.gains(played).cumsum(axis=-1)[:, :-1] / step
        excess = gap - watch.threshold_at(step.astype(float)) / step
        nearest = np.minimum.accumulate(np.abs(excess), axis=-1)
        want = robust.predict_sequence(tokens)
        for name, dtype in DTYPES.items():
            module = build(base, setting, dtype=dtype).module.to(device)
            x, error, band, laws = module.stream, 0.0, 0.0, 0.0
            for i in range(len(tokens)):
                *_, before, last = module.run(torch.as_tensor(tokens[i : i + 1], device=device))
                rows = last.double().cpu().numpy()[0, len(module.register_RxD) :]
                error = max(error, np.abs(rows[:, x.at("mean")][:, 0] * (step + 1) / step - gap[i]).max())
                band = max(band, undecided(module, before, gap[i], T // 2)) if i < 2 else band
                decided = nearest[i] > (1e-9 if dtype == torch.float64 else 1e-4)
                laws = max(laws, np.abs(rows[:, x.at("out")] - want[i, 1:])[decided].max(initial=0))
            print(f"| {T} | {name} | {error:.1e} | {band:.1e} | {laws:.1e} |", flush=True)


def undecided(module: Appended, before: torch.Tensor, gap_T: np.ndarray, at: int) -> float:
    """The largest distance of the threshold from the gap, at one position alone, for which the flag is not clear."""
    x, start, largest = module.stream, len(module.register_RxD) - 1, 0.0
    for distance in np.logspace(-16, -3, 53):
        for sign in (1, -1):
            rows = before.clone()
            rows[:, start + 1 :, x.at("bar")] = 2.0  # out of reach elsewhere
            rows[:, start + at, x.at("bar")] = float(gap_T[at - 1] - sign * distance) * at / (at + 1)
            flag = float(module.layers[-1](rows)[0, -1, x.at("flag")])
            if abs(flag - (sign > 0)) > 1e-6:
                largest = max(largest, float(distance))
    return largest


def codes(horizons: list[int]) -> None:
    """The sigmoid fetched from the row before, by bits that differ and by a circle; and the paper's Gadget 4."""
    print("\n| T | dtype | mismatch bits | circle | the paper's interval | its dimensions |")
    print("|---|---|---|---|---|---|")
    for T in horizons:
        rng, x = np.random.default_rng(0), Residual(**sizes_of(2, T, 0), answer=1, circle=2, circle_before=2)
        rows = np.concatenate([embed_registers(x, 2), np.zeros((T - 1, x.width))])
        rows[1:] += embed_positions(x, T, {})
        rows[:, x.at("one")] = 1
        rows[1:, x.at("base")] = rng.dirichlet(np.ones(2), T)
        angle = math.pi * np.arange(T) / T
        rows[1:, x.at("circle")] = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        rows[2:, x.at("circle_before")] = rows[1:-1, x.at("circle")]
        advantage, warmth = np.array([-1.0, 1.0]), T**-0.5
        exact = 1 / (1 + np.exp(-rows[1:-1, x.at("base")] @ advantage / warmth))
        bits = fetch_sigmoid(x, "base", advantage, warmth, "answer")
        # On a circle the neighbour is only 1 - cos(pi / T) away: the margin has to be that much larger.
        far = (1 / warmth + FAR) / (1 - math.cos(math.pi / T))
        others = x["one"] - x.sink
        query = np.concatenate([far * x["circle_before"], x["one"]])
        key = np.concatenate([x["circle"], advantage[None] @ x["base"] / warmth - far * others])
        circle = Head("circle", query, key, others, bits.into)
        for name, dtype in DTYPES.items():
            errors = []
            for head in (bits, circle):
                out = layer_of([head], [], dtype)(torch.as_tensor(rows, dtype=dtype)[None])[0, 2:, bits.into]
                errors.append(np.abs(out.double().numpy()[:, 0] - exact).max())
            error, size = interval(T, dtype)
            print(f"| {T} | {name} | {errors[0]:.1e} | {errors[1]:.1e} | {error:.1e} | {size} |", flush=True)


def interval(T: int, dtype: torch.dtype) -> tuple[float, int]:
    """The response to the losses that the two rows before hold, and how many dimensions the positions need.

    As printed: codes u_s, and w_t with w_t . u_s = 1 for the two rows before and at most 1/2 for all others; the query
    is sqrt(T) w_t, the key u_s (loss + c sqrt(T)), and all scores are less cT, so that what remains is sqrt(T) loss.
    The products of code and loss are put in exactly.
    """
    rng, size, largest = np.random.default_rng(0), 0, 1.0
    while largest > 0.5:  # random signs, until they are far enough apart
        size += 32
        code_TxC = rng.choice([-1.0, 1.0], (T, size)) / math.sqrt(size)
        wanted_TxC = np.stack([np.linalg.pinv(code_TxC[t - 2 : t]).sum(axis=1) for t in range(2, T)])
        near_TxT = wanted_TxC @ code_TxC.T
        for t in range(2, T):
            near_TxT[t - 2, t - 2 : t] = 0
        largest = near_TxT.max()
    loss_T, root = rng.uniform(-1, 1, T), math.sqrt(T)
    c = 2 * (FAR + 1.5 * root) / T  # others then score FAR less than the two
    x = Residual(one=1, interval=size, key=size, odd=1, answer=1)
    rows = np.zeros((T, x.width))
    rows[:, x.at("one")] = 1
    rows[2:, x.at("interval")] = wanted_TxC
    rows[:, x.at("key")] = code_TxC * (loss_T + c * root)[:, None]
    rows[1::2, x.at("odd")] = 1
    query, key = np.concatenate([root * x["interval"], x["one"]]), np.concatenate([x["key"], -c * T * x["one"]])
    layer = layer_of([Head("interval", query, key, x["odd"], x.at("answer"))], [], dtype)
    found_T = layer(torch.as_tensor(rows, dtype=dtype)[None])[0, 2:, x.at("answer")].double().numpy()[:, 0]
    odd, even = np.arange(2, T) - 1, np.arange(2, T) - 2
    odd, even = np.where(odd % 2 == 1, odd, even), np.where(odd % 2 == 1, even, odd)
    return float(np.abs(found_T - 1 / (1 + np.exp(-root * (loss_T[odd] - loss_T[even])))).max()), size
