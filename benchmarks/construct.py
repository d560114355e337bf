"""``python -m benchmarks.construct``: how exact the built layers are, and what they cost and give.

Errors are printed against Algorithm 1 in float64; ``--base`` and ``--robust`` give a table of regrets on the eight
sources. Figures vary a little with the machine; nothing is asserted.
"""

import argparse

import numpy as np
import torch

import lowregret as lr
from lowregret.construct import agreement, build
from lowregret.evaluate.sources import paper_sources
from lowregret.transformer import Decoder, Transformer, load

from .device import best_of
from .precision import DTYPES, codes, precision


def agreements(n: int, device: str, only: str, whose: str) -> None:
    """On ``n`` sequences of 1024 tokens for each problem: does the built model choose as Algorithm 1 does?"""
    T, sources = 1024, paper_sources(1024)
    cases: dict[str, tuple[lr.DecisionProblem, lr.Predictor, list[lr.Predictor]]] = {
        "matching, the eight sources": (lr.matching(), sources["b"], list(sources.values()))
    }
    for name in ("rock-paper-scissors, Markov", "4 actions, 5 states, Markov"):
        rng = np.random.default_rng(5)
        problem = lr.rock_paper_scissors() if "rock" in name else lr.DecisionProblem(rng.uniform(-1, 1, (4, 5)))
        S = problem.n_states
        base, other = (lr.Markov(rng.dirichlet(np.ones(S), S), 1) for _ in range(2))
        cases[name] = problem, base, [base, base, other, lr.PolyaUrn(S)]
    print("| problem | test | dtype | positions | within the band | choices that differ | laws apart | switched |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (problem, base, truths) in cases.items():
        if only not in name:
            continue
        tokens = np.concatenate([lr.sample(truth, T, n // len(truths), seed=i) for i, truth in enumerate(truths)])
        for test in (lr.RegretGap(T, alpha=0.02, span_aware=True), lr.RegretRate(T)):
            if whose not in type(test).__name__:
                continue
            setting = lr.robust.algorithm_1(problem, test)
            for kind, dtype in DTYPES.items():
                model = build(base, setting, dtype=dtype)
                model.module.to(device)
                found = agreement(model, tokens)
                cells = [name, type(test).__name__, kind, found.positions, found.undecided, found.differ]
                print(f"| {' | '.join(map(str, cells))} | {found.apart:.1e} | {found.switched:.1%} |", flush=True)


def regrets(base_file: str, robust_file: str | None, n: int) -> None:
    """The built model beside the algorithm on the same decoder, and beside a trained robust model."""
    base, coin = load(base_file), lr.matching()
    T = base.context
    models: dict[str, tuple[lr.Predictor, int]] = {"base": (base, 0)}
    for test in (lr.RegretGap(T), lr.RegretRate(T)):
        name, algorithm = type(test).__name__, lr.robustify(base, coin, test=test)
        built = build(base, algorithm.setting)
        models[f"{name}, algorithm"] = algorithm, 0
        models[f"{name}, built"] = built, built.sizes.parameters
    if robust_file is not None:
        robust = load(robust_file)
        models["ROBUST, trained"] = robust, sum(weight.numel() for weight in robust.decoder.parameters())
    sources = paper_sources(T)
    print(f"\nDecoder: {sum(weight.numel() for weight in base.decoder.parameters())} parameters, T = {T}.\n")
    print(f"| model | own parameters | {' | '.join(sources)} |\n|---|---|{'---|' * len(sources)}")
    for name, (model, count) in models.items():
        cells = []
        for source in sources.values():
            tokens = lr.sample(source, T, n, seed=0)
            policy = lr.policies.Respond(model, coin, T**-0.5)
            cells.append(f"{lr.external_regret(coin, policy, tokens)[:, -1].mean():+.4f}")
        print(f"| {name} | {count or ''} | {' | '.join(cells)} |", flush=True)


def costs(device: str) -> None:
    """What the built layers cost, in units of the decoder of the paper's size that they stand on."""
    T, rows, streams, steps = 1024, 8, 16, 128
    decoder = Decoder(2, size="paper").eval().to(device)
    base, coin = Transformer(decoder), lr.matching()
    rng = np.random.default_rng(0)
    tokens, some = (
        torch.as_tensor(rng.integers(2, size=(rows, T)), device=device),
        rng.integers(2, size=(steps, streams)),
    )

    def stream(model: lr.Predictor) -> None:
        memory = model.start((streams,))
        for token in some:
            memory = model.update(memory, token)
        model.predict(memory).sum().item()

    whole = best_of(lambda: base.predict_sequence(tokens).sum().item(), 3, device)
    a_step = best_of(lambda: stream(base), 3, device)
    print("| on the decoder of the paper's size | dtype | whole sequences | streams |\n|---|---|---|---|")
    times = f"1 ({whole / rows * 1e3:.2g} ms each) | 1 ({a_step / steps * 1e3:.1f} ms a step of {streams})"
    print(f"| the decoder alone | float32 | {times} |")
    for test in (lr.RegretGap(T), lr.RegretRate(T)):
        for name, dtype in DTYPES.items():
            model = build(decoder, lr.robust.algorithm_1(coin, test), dtype=dtype)
            model.module.to(device)
            ratios = (
                best_of(lambda model=model: model.predict_sequence(tokens).sum().item(), 3, device) / whole,
                best_of(lambda model=model: stream(model), 3, device) / a_step,
            )
            print(f"| {type(test).__name__} | {name} | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizons", default="64,256,1024,4096")
    parser.add_argument("-n", type=int, default=16, help="sequences of each length")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--base", help="checkpoint of a trained decoder")
    parser.add_argument("--robust", help="checkpoint of a trained robust decoder")
    parser.add_argument("--agree", type=int, help="compare choices on so many sequences of each problem, and stop")
    parser.add_argument("--only", default="", help="of --agree, the problems with this in their names")
    parser.add_argument("--test", default="", help="of --agree, the tests with this in their names")
    parser.add_argument("--costs", action="store_true", help="time the layers against the decoder, and stop")
    given = parser.parse_args()
    horizons = [int(T) for T in given.horizons.split(",")]
    if given.costs:
        costs(given.device)
    elif given.agree is not None:
        agreements(given.agree, given.device, given.only, given.test)
    elif given.base is None:
        precision(horizons, given.n, given.device)
        codes(horizons)
    else:
        regrets(given.base, given.robust, given.n)


if __name__ == "__main__":
    main()
