"""``python -m benchmarks.real``: money on real recordings, where nothing breaks and where something does.

Scenarios, as shares of the recording. "Relabelled": the states come in reversed order (up for down, wet for dry), while
the model goes on as if they did not; "stale": its laws are those it gave so many steps earlier.

    no break        as recorded                         temporary    relabelled from 40% to 60%
    break at x%     relabelled from there on            slow drift   from 30% on each state is relabelled with a chance
    stale at 50%    its laws are those of the first                  that rises to 1 at the end
                    half, in order                      bad start    relabelled for the first 20%

Every player responds at the temperature 1/sqrt(T), and its money is what the mixed action earns on average above doing
nothing. Needs the packages arch, vega_datasets and statsmodels, for their data.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr
from lowregret.rules import FirstTest, exact
from lowregret.tables import Table

from .real_streams import Recording, streams

PLAYERS = ("model", "urn", "first version", "new default", "one-way urn", "mixture", "prod")


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


def rules_for(problem: lr.DecisionProblem, T: int) -> dict[str, lr.ExactTest]:
    return {
        "first version": FirstTest(problem, T, 1 / T),
        "new default": lr.ExactTest(problem, T),
        "one-way urn": lr.ExactTest(problem, T, fallback=lr.PolyaUrn(problem.n_states)),
    }


def alternatives(problem: lr.DecisionProblem, probs: np.ndarray, states: np.ndarray) -> dict[str, np.ndarray]:
    """The mixed actions ``[C, T, A]`` of the mixture and of (A,B)-Prod."""
    T, urn, played = states.shape[-1], lr.PolyaUrn(problem.n_states), {"mixture": [], "prod": []}
    for probs_TxS, row in zip(probs, states, strict=True):
        model = lr.predictors.Scheduled(probs_TxS)
        mixture = lr.Mixture([model, urn], [1 - 1 / T, 1 / T])
        played["mixture"].append(lr.policies.Respond(mixture, problem, T**-0.5).policy_sequence(row))
        played["prod"].append(lr.policies.Prod(model, problem, T).policy_sequence(row))
    return {name: np.stack(rows) for name, rows in played.items()}


def outcomes(stream: Recording, rules: dict[str, lr.ExactTest], others: bool = True) -> dict[str, Outcome]:
    """Every scenario: the model, the urn, what switches by ``rules``, and the alternatives unless they are left out."""
    problem, (probs, states) = stream.problem, staged(stream)
    T = states.shape[-1]
    laws = {"model": probs, "urn": lr.PolyaUrn(problem.n_states).predict_sequence(states)}
    alarms = {}
    for name, rule in rules.items():
        laws[name], alarms[name] = rule.replaced(probs, states)
    played = {name: problem.quantal_response(law, T**-0.5) for name, law in laws.items()}
    if others:
        played |= alternatives(problem, probs, states)
    payoffs_AxS = problem.in_payoffs(problem.utility)
    above_CxTxA = np.moveaxis((payoffs_AxS - payoffs_AxS[stream.idle])[:, states], 0, -1)
    earned = {name: (mixed * above_CxTxA).sum(-1) for name, mixed in played.items()}
    found = {}
    for c, (kind, scenario) in enumerate(SCENARIOS.items()):
        cuts = [0, *(math.ceil(cut * T) for cut in scenario.cuts)]
        parts = {name: np.add.reduceat(money[c], cuts) for name, money in earned.items()}
        worse, better = (pick(parts["model"], parts["urn"]).sum() for pick in (np.minimum, np.maximum))
        money = {name: float(part.sum()) for name, part in parts.items()}
        trips = {name: int(at[c]) if at[c] <= T else None for name, at in alarms.items()}
        above = {name: own - float(worse) for name, own in money.items()}
        found[kind] = Outcome(money, trips, above, float(better - worse))
    return found


def money_table(name: str, stream: Recording, found: dict[str, Outcome]) -> Table:
    rows = [
        (scenario, *(f"{result.money[player]:,.0f}" for player in PLAYERS), _alarms(result.alarms))
        for scenario, result in found.items()
    ]
    mean = {player: np.mean([result.money[player] for result in found.values()]) for player in PLAYERS}
    rows.append(("mean", *(f"{mean[player]:,.0f}" for player in PLAYERS), ""))
    title = f"{name}: money above doing nothing in {len(stream.states)} steps (alarms: first version, new default)"
    return Table(title, ("scenario", *PLAYERS, "alarms"), tuple(rows))


def _alarms(alarms: dict[str, int | None]) -> str:
    return ", ".join("none" if alarms[name] is None else str(alarms[name]) for name in ("first version", "new default"))


def summary(results: Outcomes) -> Table:
    """By stream: the new default's money as a share of the model's where nothing breaks; and everyone's score."""
    rows = []
    for name, found in results.items():
        home = found["no break"].money
        scores = (f"{score({name: found}, player):.2f}" for player in PLAYERS)
        rows.append((name, f"{home['new default'] / home['model']:.3f}", *scores))
    rows.append(("all, each stream alike", "", *(f"{score(results, player):.2f}" for player in PLAYERS)))
    title = (
        "New default / model where nothing breaks; score (0: the worse of model and urn in every stretch, 1: better)"
    )
    return Table(title, ("stream", "kept", *PLAYERS), tuple(rows))


def score(results: Outcomes, player: str) -> float:
    """The mean over streams of what was gained above the worse, as a share of what the better has."""
    shares = [
        sum(result.above_worse[player] for result in found.values()) / sum(result.better for result in found.values())
        for found in results.values()
    ]
    return float(np.mean(shares))


SETTINGS = {  # top rate, and what Recovery is given
    "the default: top rate 2/J": (2.0, {}),
    "top rate 1/J": (1.0, {}),
    "top rate 4/J": (4.0, {}),
    "budget .25": (2.0, {"budget": 0.25}),
    "budget .1": (2.0, {"budget": 0.1}),
    "a third memory, of everything": (2.0, {"memories": (20, 200, 1e9)}),
}


def other_settings(recordings: dict[str, Recording]) -> Table:
    """The new default at other top rates and with another way back."""
    usual, rows = exact.TOP, []
    for setting, (top, back) in SETTINGS.items():
        exact.TOP = top
        try:
            results = {name: outcomes(stream, _only(stream, back), False) for name, stream in recordings.items()}
        finally:
            exact.TOP = usual
        homes = [found["no break"] for found in results.values()]
        false = sum(home.alarms["new"] is not None for home in homes)
        least = min(home.money["new"] / home.money["model"] for home in homes)
        delays = []
        for name, found in results.items():
            at, alarm = math.ceil(0.5 * len(recordings[name].states)), found["break at 50%"].alarms["new"]
            delays.append("never" if alarm is None else "earlier" if alarm <= at else str(alarm - at))
        scores = " ".join(f"{score({name: found}, 'new'):.2f}" for name, found in results.items())
        rows.append((setting, f"{score(results, 'new'):.3f}", f"{least:.3f}", f"{false}", scores, " ".join(delays)))
    header = ("setting", "score", "least kept", "alarms unbroken", "score by stream", "delay, break at 50%")
    return Table("The new default with other settings", header, tuple(rows))


def _only(stream: Recording, back: dict[str, Any]) -> dict[str, lr.ExactTest]:
    rule = lr.ExactTest(stream.problem, len(stream.states), fallback=lr.Recovery(**back))  # type: ignore[arg-type]
    assert rule.bets  # made now, at the top rate that holds now
    return {"new": rule}


def main() -> None:
    parser = argparse.ArgumentParser(description="Money on real recordings, where something breaks and where not.")
    parser.add_argument("--json", type=Path, help="write everything there too")
    parser.add_argument("--settings", action="store_true", help="compare other settings of the new default as well")
    asked = parser.parse_args()
    recordings = streams()
    results = {name: outcomes(s, rules_for(s.problem, len(s.states))) for name, s in recordings.items()}
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
