"""Section 5.2 in tables: what trained models measured, beside Tables 1 and 2 of the paper."""

from typing import Any

from lowregret.evaluate import Comparison
from lowregret.evaluate.distances import Estimate
from lowregret.tables import Table

from .eight_sources import TITLES

Results = dict[str, Any]  # what was measured, as plain JSON values

# Tables 1 and 2 of the paper (T = 1024), sequence TV and next-token TV, with the half widths of their 95% intervals.
PAPER_TV = {
    ("BERNOULLI_1", "BERNOULLI_2"): ("0.4193 ±0.0232", "0.0156"),
    ("ROBUST", "BERNOULLI_1"): ("0.7602 ±0.0267", "0.0199 ±0.0001"),
    ("ROBUST", "BERNOULLI_2"): ("0.6869 ±0.0295", "0.0299 ±0.0001"),
    ("POLYAURN", "BERNOULLI_1"): ("1.0000 ±0.0000", "0.1529 ±0.0003"),
    ("POLYAURN", "BERNOULLI_2"): ("1.0000 ±0.0000", "0.1655 ±0.0004"),
}
PAIRS = tuple(PAPER_TV)


def tables(results: Results) -> list[Table]:
    """All that there is to say in numbers."""
    regrets = Comparison.from_json(results["comparison"]).table()
    short = tuple(
        (name, f"{value:+.4f}" if "regret" in name else f"{value:#.3g}") for name, value in results["summary"].items()
    )
    greedy = tuple((name, f"{regret:+.4f}") for name, regret in results["greedy"].items())
    next_token, sequence, trainings = [], [], []
    for (p, q), (printed_sequence, printed_next) in PAPER_TV.items():
        pair = f"{p} to {q}"
        next_token.append((pair, _estimate(results["next_token_tv"][pair]), printed_next))
        ways = [_estimate(results["sequence_tv"][pair][way]) for way in ("from_first", "from_second", "symmetric")]
        sequence.append((pair, *ways, printed_sequence))
    for name, run in results["training"].items():
        speed = f"{run['median_tokens_per_second']:,}"
        loss, seconds = f"{run['loss'][-1][1]:.3g}", f"{run['seconds']:.0f}"
        trainings.append((name, str(run["steps"]), str(run["batch"]), loss, seconds, speed))
    ways_head = ("models", "sampling the first", "sampling the second", "symmetric", "paper, ± 95%")
    training_head = ("model", "steps", "batch", "last loss", "seconds", "median tokens/s")
    return [
        Table("In short", ("what", "measured"), short),
        regrets._replace(rows=tuple((TITLES[row[0]], *row[1:]) for row in regrets.rows)),
        Table("Regret against the greedy adversary (the paper did not try it)", ("player", "regret"), greedy),
        Table("Next-token TV (Table 2)", ("models", "here", "paper, ± as printed"), tuple(next_token)),
        Table("Sequence TV (Table 1)", ways_head, tuple(sequence)),
        Table("Training", training_head, tuple(trainings)),
    ]


def page(results: Results) -> str:
    """The figure, the tables and how they were made, as Markdown."""
    preset = results["preset"]
    aim = "Algorithm 1, in which BERNOULLI can return after an alarm" if preset["distilled"] else "both"
    made = {**results["environment"], **preset, "seconds": results["seconds"]}
    return "\n\n".join(
        [
            f"# Low-regret transformers: preset {preset['name']}",
            "Section 5.2 of *Next-Token Prediction and Regret Minimization*: guess the next bit, "
            f"{preset['size']['context']} steps, quantal responses at temperature 1/sqrt(T), {preset['samples']} "
            f"sequences a source. BERNOULLI was trained on source b, POLYAURN on urns, ROBUST to be {aim}; Algorithm 1 "
            "is computed, with the trained BERNOULLI as its base. Intervals are 95%.",
            "![Regret on the eight sources](regret.png)",
            "Mean regret after t steps with its 95% band, by source; a dot marks the median alarm of Algorithm 1.",
            *(f"```text\n{table}\n```" for table in tables(results)),
            "How it was made:",
            "\n".join(f"- {name}: {value}" for name, value in made.items()) + "\n",
        ]
    )


def _estimate(found: Results) -> str:
    return format(Estimate(**found))
