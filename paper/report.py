"""Section 5.2 in tables: what trained models measured, beside Tables 1 and 2 of the paper."""

from typing import Any

from lowregret.evaluate import Comparison
from lowregret.evaluate.distances import Estimate
from lowregret.tables import Table

from .eight_sources import TITLES

Results = dict[str, Any]  # what was measured, as plain JSON values

# Tables 1 and 2 of the paper (T = 1024), with the half widths of their 95% intervals.
PAPER_SEQUENCE_TV = {
    ("BERNOULLI_1", "BERNOULLI_2"): "0.4193 ±0.0232",
    ("ROBUST", "BERNOULLI_1"): "0.7602 ±0.0267",
    ("ROBUST", "BERNOULLI_2"): "0.6869 ±0.0295",
    ("POLYAURN", "BERNOULLI_1"): "1.0000 ±0.0000",
    ("POLYAURN", "BERNOULLI_2"): "1.0000 ±0.0000",
}
PAPER_NEXT_TOKEN_TV = {
    ("BERNOULLI_1", "BERNOULLI_2"): "0.0156",
    ("ROBUST", "BERNOULLI_1"): "0.0199 ±0.0001",
    ("ROBUST", "BERNOULLI_2"): "0.0299 ±0.0001",
    ("POLYAURN", "BERNOULLI_1"): "0.1529 ±0.0003",
    ("POLYAURN", "BERNOULLI_2"): "0.1655 ±0.0004",
}
PAIRS = tuple(PAPER_SEQUENCE_TV)


def tables(results: Results) -> list[Table]:
    """All that there is to say in numbers."""
    regrets = Comparison.from_json(results["comparison"]).table()
    greedy = tuple((name, f"{regret:+.4f}") for name, regret in results["greedy"].items())
    tv = results["next_token_tv"], results["sequence_tv"]
    ways = ("from_first", "from_second", "symmetric")
    next_token = [
        (f"{p} to {q}", _estimate(tv[0][f"{p} to {q}"]), printed) for (p, q), printed in PAPER_NEXT_TOKEN_TV.items()
    ]
    sequence = [
        (f"{p} to {q}", *(_estimate(tv[1][f"{p} to {q}"][way]) for way in ways), printed)
        for (p, q), printed in PAPER_SEQUENCE_TV.items()
    ]
    trainings = [
        (
            name,
            str(run["steps"]),
            str(run["batch"]),
            f"{run['loss'][-1][1]:.3g}",
            f"{run['seconds']:.0f}",
            f"{run['median_tokens_per_second']:,}",
        )
        for name, run in results["training"].items()
    ]
    ways_head = ("models", "sampling the first", "sampling the second", "symmetric", "paper, ± 95%")
    training_head = ("model", "steps", "batch", "last loss", "seconds", "median tokens/s")
    return [
        Table(
            "In short",
            ("what", "measured"),
            tuple((name, _short(name, value)) for name, value in results["summary"].items()),
        ),
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


def _short(name: str, value: float) -> str:
    return f"{value:+.4f}" if "regret" in name else f"{value:#.3g}"
