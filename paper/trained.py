"""Section 5.2 with trained transformers: train them, and measure them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from lowregret import ExactTest, PolyaUrn, Predictor, matching, robustify, sample
from lowregret.evaluate import adversaries, compare
from lowregret.evaluate.distances import Estimate, bounded_mean, log_probs, next_token_tv
from lowregret.evaluate.sources import paper_sources
from lowregret.transformer import Transformer, checkpoints, train

from .presets import MODELS, Preset
from .report import PAIRS, Results

Models = dict[str, Transformer]
_AT_ONCE = 256  # sequences to sample: at the paper's size each has 6 MiB of keys and values
EXACT = "Algorithm 1"  # on BERNOULLI_1 by computation, not by training


def train_models(preset: Preset, out: Path, device: str | None) -> Models:
    """The models, trained or read from ``out/models`` where an earlier run finished them."""
    models: Models = {}
    for name in MODELS:
        base = models.get("BERNOULLI_1")
        models[name] = train(
            preset.task(name, base),
            out / "models" / f"{name}.safetensors",
            preset.settings(name),
            init=base if name == "ROBUST" and preset.distilled else None,
            device=device,
            on_report=partial(print, name, "", flush=True),
        )
    return models


def trainings(out: Path) -> Results:
    """Seconds, speed and losses of each training, from what it left beside the model."""
    found = {}
    for name in MODELS:
        about = checkpoints.read(out / "models" / f"{name}.safetensors").about
        lines = about["metrics"]
        speeds = sorted(line["tokens_per_second"] for line in lines)
        found[name] = {
            "steps": about["settings"]["steps"],
            "batch": about["settings"]["batch"],
            "seconds": round(about["seconds"], 2),
            "median_tokens_per_second": round(speeds[len(speeds) // 2]),
            **about.get("made", {}),
            "loss": [[line["step"], line["loss"]] for line in lines[:: max(1, len(lines) // 100)]],
        }
    return found


def players(models: Models, preset: Preset) -> dict[str, Predictor]:
    """Who is measured: the trained models, and Algorithm 1 itself on the trained base."""
    names = {"BERNOULLI": "BERNOULLI_1", "POLYAURN": "POLYAURN", "ROBUST": "ROBUST"}
    trained = {short: models[name] for short, name in names.items()}
    return {**trained, EXACT: preset.robust(models["BERNOULLI_1"])}


def greedy_regrets(models: Models, preset: Preset) -> Results:
    """The regret that the greedy adversary, which the paper did not try, inflicts on each player."""
    coin, T = matching(), preset.horizon
    everyone = {**players(models, preset), "urn": PolyaUrn(2)}
    if not preset.distilled:
        exact = robustify(models["BERNOULLI_1"], coin, test=ExactTest(2 / T, T), fallback=PolyaUrn(2))
        everyone["Algorithm 1, ExactTest"] = exact
    return {name: float(adversaries.greedy(player, coin, T).regret) for name, player in everyone.items()}


def next_token_table(models: Models, preset: Preset) -> Results:
    """Table 2, on prefixes from the source that BERNOULLI was trained on."""
    tokens = sample(paper_sources(preset.horizon)["b"], preset.horizon, preset.samples, preset.seed + 1)
    return {f"{p} to {q}": next_token_tv(models[p], models[q], tokens)._asdict() for p, q in PAIRS}


def regret_curves(models: Models, preset: Preset) -> Results:
    """Figure 1, everyone on the eight sources."""
    T = preset.horizon
    found = compare(players(models, preset), paper_sources(T), matching(), T, preset.samples, preset.seed)
    return json.loads(found.to_json())


def sequence_table(models: Models, preset: Preset) -> Results:
    """Table 1, both ways round and symmetric, all from the same samples of each model."""
    log_NxM: dict[str, dict[str, np.ndarray]] = {}
    for i, (name, model) in enumerate(models.items()):
        rng, blocks = np.random.default_rng(preset.seed + 2 + i), []
        for begin in range(0, preset.samples, _AT_ONCE):
            tokens = sample(model, preset.horizon, min(_AT_ONCE, preset.samples - begin), rng)
            blocks.append({other: log_probs(models[other], tokens, other) for other in models})
        log_NxM[name] = {other: np.concatenate([block[other] for block in blocks]) for other in models}
    found = {}
    for p, q in PAIRS:
        lead_p, lead_q = log_NxM[p][p] - log_NxM[p][q], log_NxM[q][q] - log_NxM[q][p]
        both = np.abs(np.tanh(np.concatenate([lead_p, lead_q]) / 2))
        found[f"{p} to {q}"] = {
            "from_first": _one_sided(lead_p)._asdict(),
            "from_second": _one_sided(lead_q)._asdict(),
            "symmetric": bounded_mean(both, 0.0, 1.0)._asdict(),
        }
    return found


def _one_sided(lead_N: np.ndarray) -> Estimate:
    return bounded_mean(-np.expm1(np.minimum(-lead_N, 0.0)), 0.0, 1.0)


MEASURED: dict[str, Callable[[Models, Preset], Results]] = {
    "greedy": greedy_regrets,
    "next_token_tv": next_token_table,
    "comparison": regret_curves,
    "sequence_tv": sequence_table,
}


def summary(results: Results) -> Results:
    """The numbers that say whether it worked."""
    final = {(c["source"], c["predictor"]): c["regret"]["value"] for c in results["comparison"]["cells"]}
    away = {source: regret for (source, who), regret in final.items() if who == "ROBUST" and source != "b"}
    worst = max(away, key=lambda source: away[source])
    above = {source: final[source, "ROBUST"] - final[source, EXACT] for source, who in final if who == "ROBUST"}
    furthest = max(above, key=lambda source: above[source])
    next_token = {pair: found["value"] for pair, found in results["next_token_tv"].items()}
    sequence = {pair: found["symmetric"]["value"] for pair, found in results["sequence_tv"].items()}
    return {
        "next-token TV, two seeds of BERNOULLI": next_token["BERNOULLI_1 to BERNOULLI_2"],
        "next-token TV, ROBUST to BERNOULLI_1": next_token["ROBUST to BERNOULLI_1"],
        "next-token TV, POLYAURN to BERNOULLI_1": next_token["POLYAURN to BERNOULLI_1"],
        "sequence TV, two seeds of BERNOULLI": sequence["BERNOULLI_1 to BERNOULLI_2"],
        "sequence TV, ROBUST to BERNOULLI_1": sequence["ROBUST to BERNOULLI_1"],
        "regret of ROBUST on its own source b": final["b", "ROBUST"],
        f"largest regret of ROBUST on the other seven ({worst})": away[worst],
        f"regret of ROBUST above that of {EXACT} at most ({furthest})": above[furthest],
        "regret of ROBUST against the greedy adversary": results["greedy"]["ROBUST"],
    }
