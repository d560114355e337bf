"""``python -m benchmarks.real``: money on real recordings, where nothing breaks and where something does.

Scenarios, as shares of the recording. "Relabelled": the states come in reversed order (up for down, wet for dry), while
the model goes on as if they did not; "stale": its laws are those it gave so many steps earlier.

    no break        as recorded                         temporary    relabelled from 40% to 60%
    break at x%     relabelled from there on            slow drift   from 30% on each state is relabelled with a chance
    stale at 50%    its laws are those of the first                  that rises to 1 at the end
                    half, in order                      bad start    relabelled for the first 20%

Money is what is earned above doing nothing, and where an action is drawn, what it earns on average. The model is its
best response, and so is what the guards play until an alarm, but for the quantal one. Needs the packages arch,
vega_datasets and statsmodels, for their data.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr
from lowregret.problems import Positions
from lowregret.tables import Table

from .real_streams import Recording, streams

PLAYERS = ("model", "last outcome", "best fixed", "urn", "prod", "quantal, 1/T", "guard", "with a horizon", "no test")


class Scenario(NamedTuple):
    cuts: tuple[float, ...]  # where one of its stretches ends and the next begins
    relabelled: Any  # of the share of the recording that has passed: the chance that a state is relabelled
    stale_from: float = 1.0


SCENARIOS = {
    "no break": Scenario((), lambda x: 0 * x),
    "break at 10%": Scenario((0.1,), lambda x: x >= 0.1),
    "break at 50%": Scenario((0.5,), lambda x: x >= 0.5),
    "break at 80%": Scenario((0.8,), lambda x: x >= 0.8),
    "stale at 50%": Scenario((0.5,), lambda x: 0 * x, stale_from=0.5),
    "temporary": Scenario((0.4, 0.6), lambda x: (x >= 0.4) & (x < 0.6)),
    "slow drift": Scenario((0.3, 0.65), lambda x: np.clip((x - 0.3) / 0.7, 0, 1)),
    "bad start": Scenario((0.2,), lambda x: x < 0.2),
}


class Outcome(NamedTuple):
    """One stream in one scenario."""

    money: dict[str, float]  # by player
    alarms: dict[str, int | None]  # the step of each alarm, by player
    above_worse: dict[str, float]  # what each has above the worse of model and urn in every stretch
    better: float  # what the better of the two in every stretch would have


Outcomes = dict[str, dict[str, Outcome]]  # by stream, by scenario


def staged(stream: Recording) -> tuple[np.ndarray, np.ndarray]:
    """In each of C scenarios what the model says ``[C, T, S]`` and what comes ``[C, T]``."""
    T, S = stream.probs_TxS.shape
    passed, rng, said, came = np.arange(T) / T, np.random.default_rng(0), [], []
    for scenario in SCENARIOS.values():
        turned = rng.random(T) < scenario.relabelled(passed)
        came.append(np.where(turned, S - 1 - stream.states, stream.states))
        back = math.ceil(scenario.stale_from * T)
        said.append(stream.probs_TxS[np.arange(T) - back * (np.arange(T) >= back)])
    return np.stack(said), np.stack(came)


def guards(problem: lr.DecisionProblem, T: int) -> dict[str, lr.Guard]:
    """The default, for no number of steps; for as many as there are; without a test; and as the paper acts."""
    return {
        "guard": lr.Guard(problem),
        "with a horizon": lr.Guard(problem, T),
        "no test": lr.Guard(problem, T, test=False),
        "quantal, 1/T": lr.Guard(problem, T, rule=lr.ExactTest(problem, T)),
    }


def outcomes(stream: Recording, settings: dict[str, lr.Guard], others: bool = True) -> dict[str, Outcome]:
    """Every scenario: the model and what hears none, an urn, these guards, and (A,B)-Prod unless it is left out."""
    problem, (probs, states) = stream.problem, staged(stream)
    T, temperature = states.shape[-1], states.shape[-1] ** -0.5
    earned, alarms = dict[str, np.ndarray](), dict[str, list[int | None]]()
    for name, guard in settings.items():
        found = lr.backtest(problem, probs, Positions(states), guard=guard, fallback=False)
        earned |= {"model": np.stack(found.paid["model"]), "last outcome": np.stack(found.paid["last outcome"])}
        earned[name], alarms[name] = np.stack(found.paid["guard"]), [one.switched_at for one in found.streams]
    each_CxTxA = np.moveaxis(problem.utility[:, states], 0, -1)
    urn = problem.quantal_response(lr.PolyaUrn(problem.n_states).predict_sequence(states), temperature)
    earned["urn"] = (urn * each_CxTxA).sum(-1)
    if others:
        played = [
            lr.policies.Prod(lr.predictors.Scheduled(probs_TxS), problem, T).policy_sequence(row)
            for probs_TxS, row in zip(probs, states, strict=True)
        ]
        earned["prod"] = (np.stack(played) * each_CxTxA).sum(-1)
    best_C = each_CxTxA.sum(axis=1).argmax(axis=-1)
    earned["best fixed"] = np.take_along_axis(each_CxTxA, best_C[:, None, None], axis=-1)[..., 0]
    idle_CxT = each_CxTxA[..., stream.idle]
    above = {name: problem.regret_in_payoffs(paid_CxT - idle_CxT) for name, paid_CxT in earned.items()}
    found_in = {}
    for c, (kind, scenario) in enumerate(SCENARIOS.items()):
        cuts = [0, *(math.ceil(cut * T) for cut in scenario.cuts)]
        parts = {name: np.add.reduceat(money[c], cuts) for name, money in above.items()}
        worse, better = (pick(parts["model"], parts["urn"]).sum() for pick in (np.minimum, np.maximum))
        money = {name: float(part.sum()) for name, part in parts.items()}
        gained = {name: own - float(worse) for name, own in money.items()}
        found_in[kind] = Outcome(money, {name: at[c] for name, at in alarms.items()}, gained, float(better - worse))
    return found_in


def money_table(name: str, stream: Recording, found: dict[str, Outcome]) -> Table:
    rows = [
        (scenario, *(f"{result.money[player]:,.0f}" for player in PLAYERS), _alarms(result.alarms))
        for scenario, result in found.items()
    ]
    mean = {player: np.mean([result.money[player] for result in found.values()]) for player in PLAYERS}
    rows.append(("mean", *(f"{mean[player]:,.0f}" for player in PLAYERS), ""))
    title = f"{name}: money above doing nothing in {len(stream.states)} steps (alarms: guard, with a horizon)"
    return Table(title, ("scenario", *PLAYERS, "alarms"), tuple(rows))


def _alarms(alarms: dict[str, int | None]) -> str:
    return ", ".join("none" if alarms[name] is None else str(alarms[name]) for name in ("guard", "with a horizon"))


def summary(results: Outcomes) -> Table:
    """By stream: the default's money as a share of the model's where nothing breaks; and everyone's score."""
    rows = []
    for name, found in results.items():
        home = found["no break"].money
        scores = (f"{score({name: found}, player):.2f}" for player in PLAYERS)
        rows.append((name, f"{home['guard'] / home['model']:.3f}", *scores))
    rows.append(("all, each stream alike", "", *(f"{score(results, player):.2f}" for player in PLAYERS)))
    title = "Guard / model where nothing breaks; score (0: the worse of model and urn in every stretch, 1: the better)"
    return Table(title, ("stream", "kept", *PLAYERS), tuple(rows))


def score(results: Outcomes, player: str) -> float:
    """The mean over streams of what was gained above the worse, as a share of what the better has."""
    shares = [
        sum(result.above_worse[player] for result in found.values()) / sum(result.better for result in found.values())
        for found in results.values()
    ]
    return float(np.mean(shares))


SETTINGS: dict[str, dict[str, Any]] = {  # of the way back
    "with a horizon: budget .5": {},
    "budget .25": {"budget": 0.25},
    "budget .1": {"budget": 0.1},
    "a third memory, of everything": {"memories": (20, 200, 1e9)},
}


def other_settings(recordings: dict[str, Recording]) -> Table:
    """The guard with a horizon and with another way back."""
    rows = []
    for setting, back in SETTINGS.items():
        results = {}
        for name, stream in recordings.items():
            guard = lr.Guard(stream.problem, len(stream.states), fallback=lr.Recovery(**back))  # type: ignore[arg-type]
            results[name] = outcomes(stream, {"new": guard}, False)
        homes = [found["no break"] for found in results.values()]
        least = min(home.money["new"] / home.money["model"] for home in homes)
        scores = " ".join(f"{score({name: found}, 'new'):.2f}" for name, found in results.items())
        rows.append((setting, f"{score(results, 'new'):.3f}", f"{least:.3f}", scores))
    header = ("setting", "score", "least kept", "score by stream")
    return Table("The guard with a horizon and other settings", header, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="Money on real recordings, where something breaks and where not.")
    parser.add_argument("--json", type=Path, help="write everything there too")
    parser.add_argument("--settings", action="store_true", help="compare other settings of the guard as well")
    asked = parser.parse_args()
    recordings = streams()
    results = {name: outcomes(s, guards(s.problem, len(s.states))) for name, s in recordings.items()}
    for name, found in results.items():
        print(money_table(name, recordings[name], found), end="\n\n")
    print(summary(results))
    if asked.json:
        data = {name: {kind: result._asdict() for kind, result in found.items()} for name, found in results.items()}
        asked.json.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    if asked.settings:
        print("", other_settings(recordings), sep="\n")


if __name__ == "__main__":
    main()
