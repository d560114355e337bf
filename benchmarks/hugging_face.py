"""A small Llama on a two-state source: as it was trained, guarded, and with Algorithm 1 in its weights.

python -m benchmarks.hugging_face [--horizon 256] [--steps 1000] [--distil-steps 3000] [--out FILE]
"""

import argparse
import copy
import json
import os
import tempfile
import time

import numpy as np
import torch
import transformers

import lowregret as lr
from lowregret.tables import Table

STATES, BOS = [5, 9], 1  # any tokens of the vocabulary


def model_of(horizon: int, width: int, layers: int) -> transformers.LlamaForCausalLM:
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=horizon,
        bos_token_id=BOS,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)


def trained(model, dataset, steps, batch, rate, seed, **recipe):
    with tempfile.TemporaryDirectory() as folder:
        args = transformers.TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=batch,
            learning_rate=rate,
            lr_scheduler_type="cosine",
            warmup_steps=min(50, steps // 10),
            adam_beta2=0.95,
            weight_decay=1e-4,
            seed=seed,
            save_strategy="no",
            report_to=[],
            logging_steps=max(1, steps // 5),
            disable_tqdm=True,
            remove_unused_columns=False,
            use_cpu=not torch.cuda.is_available(),
        )
        transformers.Trainer(model, args, train_dataset=dataset, **recipe).train()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("horizon", 256), ("width", 128), ("layers", 3), ("steps", 1000), ("distil-steps", 3000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--sequences", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    asked = parser.parse_args()
    T, problem, began = asked.horizon, lr.matching(), time.perf_counter()
    sources = lr.evaluate.sources.paper_sources(T)
    recordings_NxT = np.asarray(lr.sample(sources["b"], T, asked.sequences, seed=asked.seed))

    torch.manual_seed(asked.seed)
    model = model_of(T, asked.width, asked.layers)
    ids = np.concatenate([np.full((len(recordings_NxT), 1), BOS), np.array(STATES)[recordings_NxT[:, :-1]]], axis=1)
    after = np.array(STATES)[recordings_NxT]  # entry t predicts token t

    def imitate(rows):
        return {"input_ids": torch.as_tensor(ids[rows]), "labels": torch.as_tensor(after[rows])}

    def next_token(outputs, labels, num_items_in_batch=None):
        return torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())

    everything = list(range(len(recordings_NxT)))
    plain = {"data_collator": imitate, "compute_loss_func": next_token}
    model = trained(model, everything, asked.steps, asked.batch, 1e-3, asked.seed, **plain)
    base = lr.HFPredictor(copy.deepcopy(model), STATES, prompt=[BOS])
    guarded = lr.robustify(base, problem, test=lr.ExactTest(2 / T, T), fallback=lr.PolyaUrn(2))
    recipe = lr.adapters.HFDistil(guarded, seed=asked.seed)
    student = trained(
        model,
        recordings_NxT.tolist(),
        asked.distil_steps,
        asked.batch,
        1e-3,
        asked.seed,
        data_collator=recipe.collate,
        compute_loss_func=recipe.loss,
        callbacks=[recipe.player()],
    )
    players = {
        "base": base,
        "guarded": guarded,
        "distilled": lr.HFPredictor(student, STATES, prompt=[BOS]),
        "urn": lr.PolyaUrn(2),
    }
    rows, warmth = {}, guarded.temperature
    home_NxT = np.asarray(lr.sample(sources["b"], T, 512, seed=asked.seed + 1))
    for name, player in players.items():
        acts = lr.policies.Respond(player, problem, warmth)
        regrets = {}
        for source, world in sources.items():
            tokens_NxT = np.asarray(lr.sample(world, T, 512, seed=asked.seed + 2))
            regrets[source] = float(np.mean(np.asarray(lr.external_regret(problem, acts, tokens_NxT))[:, -1]))
        worst = lr.evaluate.adversaries.greedy(player, problem, T, temperature=warmth)
        rows[name] = {
            "own source": regrets["b"],
            "worst of the other seven": max(value for key, value in regrets.items() if key != "b"),
            "greedy adversary": float(worst.regret),
            "TV a step from base": lr.next_token_tv(player, base, home_NxT).value,
        }
        if name in ("base", "distilled"):
            rows[name]["mass on the states"] = float(np.mean(player.masses(home_NxT[:64])))
    columns = list(rows["base"])
    lines = tuple((n, *(f"{r[c]:.4f}" if c in r else "" for c in columns)) for n, r in rows.items())
    print(Table(f"regret, {T} steps, two states", ("", *columns), lines))
    certificate = guarded.certificate
    print(f"certificate: regret {certificate.regret_bound:.4f}, TV {certificate.tv_bound:.4f}")
    print(f"{time.perf_counter() - began:.0f} s")
    if asked.out:
        about = {"settings": vars(asked) | {"out": None}, "regret bound": certificate.regret_bound, "rows": rows}
        with open(os.path.expandvars(asked.out), "w") as file:
            json.dump(about, file, indent=1)


if __name__ == "__main__":
    main()
