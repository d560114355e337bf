"""``python -m benchmarks.regimes``: what guards earn on real recordings, broken in fourteen ways.

A regime changes states or laws of a recording: not at all; states mirrored (s -> S-1-s) from 10%, 50% or 80% of it on,
between 40 and 50%, or in the first 20%; laws one or three steps old from half time on; mirrored with a chance that
grows from 0 at 20% to 1 at the end; laws sharpened (p^2) or flattened (p^.5) all along; half of the states those of
other days from 10% or 50% on; states drawn from the model's own laws.

Score of a run: 1 - (best - earned) / stake. Over the stretches between breaks, ``best`` adds up the larger of what the
model and an urn earned, ``stake`` how far they are apart; the model is played by its best response, the urn by a
quantal one at 1/sqrt(T). Both are added up over a recording's regimes, then scores are averaged over recordings; or
over recordings, in units of their spans, for the score of a regime.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr
from lowregret.problems import Positions, action_utilities, best_of
from lowregret.tables import Table

from .real_streams import Recording, electricity, streams


class Regime(NamedTuple):
    """Laws and states of a recording under it, and where it breaks."""

    laws_TxS: np.ndarray
    states_T: np.ndarray
    breaks: tuple[int, ...]


def regimes(stream: Recording, seed: int = 0) -> dict[str, Regime]:
    """A recording under each of them."""
    laws, came, rng = stream.probs_TxS, stream.states, np.random.default_rng(seed)
    T, S = laws.shape
    at = np.arange(T)

    def mirrored(where: np.ndarray) -> np.ndarray:
        return np.where(where, S - 1 - came, came)

    def older(by: int) -> np.ndarray:
        old = np.concatenate([laws[:1]] * by + [laws[:-by]])
        return np.where((at >= T // 2)[:, None], old, laws)

    def powered(power: float) -> np.ndarray:
        sharp = np.maximum(laws, 1e-12) ** power
        return sharp / sharp.sum(axis=1, keepdims=True)

    def shuffled(begin: float) -> np.ndarray:
        return np.where((at >= begin * T) & (rng.random(T) < 0.5), came[rng.permutation(T)], came)

    found = {"none": Regime(laws, came, ())}
    for share in (0.1, 0.5, 0.8):
        found[f"mirrored from {share:.0%}"] = Regime(laws, mirrored(at >= share * T), (int(share * T),))
    found["mirrored 40 to 50%"] = Regime(laws, mirrored((at >= 0.4 * T) & (at < 0.5 * T)), (int(0.4 * T), T // 2))
    found["mirrored up to 20%"] = Regime(laws, mirrored(at < 0.2 * T), (int(0.2 * T),))
    for by in (1, 3):
        found[f"{by} old"] = Regime(older(by), came, (T // 2,))
    drift = rng.random(T) < np.clip((at / T - 0.2) / 0.8, 0, 1)
    found["drift"] = Regime(laws, mirrored(drift), tuple(int(T * tenth / 10) for tenth in range(1, 10)))
    found["sharpened"] = Regime(powered(2.0), came, ())
    found["flattened"] = Regime(powered(0.5), came, ())
    for share in (0.1, 0.5):
        found[f"half shuffled from {share:.0%}"] = Regime(laws, shuffled(share), (int(share * T),))
    drawn = (laws.cumsum(axis=1) < rng.random((T, 1))).sum(axis=1).clip(0, S - 1)
    found["the model's own"] = Regime(laws, drawn, ())
    return found


def guards(problem: lr.DecisionProblem, T: int) -> dict[str, lr.ExactTest]:
    """The settings compared."""
    acts: dict[str, Any] = {"temperature": 0.0}
    return {
        "quantal, 1/T": lr.ExactTest(problem, T),
        "best response, 1/T": lr.ExactTest(problem, T, **acts),
        "best response, .05": lr.ExactTest(problem, T, 0.05, **acts),
        "two bettors, 1/T": lr.ExactTest(problem, T, likelihood=True, **acts),
        "two bettors, .05": lr.ExactTest(problem, T, 0.05, likelihood=True, **acts),
        "default": lr.Guard(problem).rule,  # type: ignore[dict-item]
        "no test": lr.ExactTest(problem, T, test=False, **acts),
    }


def earned(rule: lr.ExactTest, laws_RxTxS: np.ndarray, states_RxT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a guard earns a step, in utility, ``[R, T]``, and which runs alarm."""
    problem, (R, T) = rule.problem, states_RxT.shape
    guard, paid_RxT = lr.Guard(problem, rule.horizon, rule=rule, batch_shape=(R,)), np.zeros((R, T))
    for t in range(T):
        played_RxA = guard.advise(laws_RxTxS[:, t]).policy
        paid_RxT[:, t] = (played_RxA * problem.utility.T[states_RxT[:, t]]).sum(axis=1)
        guard.observe(Positions(states_RxT[:, t]))
    return paid_RxT, np.asarray(guard.switched)


class Scores(NamedTuple):
    """Of one recording."""

    score: dict[str, float]
    behind: dict[str, float]  # the model's best response less the guard, where nothing breaks, in J sqrt(T)
    alarms: dict[str, float]  # where nothing breaks
    lost: dict[str, np.ndarray]  # to the best, by regime, in spans
    stake: np.ndarray  # likewise
    steps: int


def scored(stream: Recording, most: int | None, chosen: list[str] | None) -> Scores:
    """Every setting, or those chosen, on every regime of a recording."""
    if most is not None:
        stream = stream._replace(probs_TxS=stream.probs_TxS[:most], states=stream.states[:most])
    problem, each = stream.problem, regimes(stream)
    laws = np.stack([one.laws_TxS for one in each.values()])
    states = np.stack([one.states_T for one in each.values()])
    _R, T = states.shape
    utility_AxRxT = action_utilities(problem, states, laws)
    model = (best_of(np.moveaxis(laws @ problem.utility.T, -1, 0)) * utility_AxRxT).sum(axis=0)
    said = np.moveaxis(lr.PolyaUrn(problem.n_states).predict_sequence(states), -1, 0)
    urn = (problem.respond(said, T**-0.5) * utility_AxRxT).sum(axis=0)
    parts = [np.split(np.arange(T), one.breaks) for one in each.values()]
    best_R, stake_R = np.zeros(len(parts)), np.zeros(len(parts))
    for r, stretches in enumerate(parts):
        for part in stretches:
            mine, theirs = model[r, part].sum(), urn[r, part].sum()
            best_R[r], stake_R[r] = best_R[r] + max(mine, theirs), stake_R[r] + abs(mine - theirs)
    found = Scores({}, {}, {}, {"the model": (best_R - model.sum(axis=1)) / problem.span}, stake_R / problem.span, T)
    found.score["the model"] = 1 - (best_R.sum() - model.sum()) / stake_R.sum()
    for name, rule in guards(problem, T).items():
        if chosen and name not in chosen:
            continue
        paid, switched = earned(rule, laws, states)
        found.score[name] = 1 - (best_R.sum() - paid.sum()) / stake_R.sum()
        found.lost[name] = (best_R - paid.sum(axis=1)) / problem.span
        found.behind[name] = float((model[0] - paid[0]).sum()) / (problem.span * T**0.5)
        found.alarms[name] = bool(switched[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=None, help="steps of each recording")
    parser.add_argument("--guards", nargs="*", default=None, help="those to compare, by name; all by default")
    told = parser.parse_args()
    recordings = streams() | {"electricity": electricity()}
    found = {name: scored(stream, told.most, told.guards) for name, stream in recordings.items()}
    names = list(next(iter(found.values())).score)
    rows = [(name, *(f"{one.score[player]:.3f}" for player in names)) for name, one in found.items()]
    rows.append(("all", *(f"{np.mean([one.score[player] for one in found.values()]):.3f}" for player in names)))
    print(Table("Score over fourteen regimes", ("recording", *names), tuple(rows)))
    rows = [
        (name, *(f"{one.behind[p]:+.3f}{' *' if one.alarms[p] else ''}" for p in names[1:]))
        for name, one in found.items()
    ]
    title = "Behind the model's best response where nothing breaks, in J sqrt(T) (*: it alarmed)"
    print(Table(title, ("recording", *names[1:]), tuple(rows)))
    kinds, everyone = list(regimes(next(iter(recordings.values())))), list(found.values())
    stake_R = sum(one.stake for one in everyone)
    scores = {player: 1 - sum(one.lost[player] for one in everyone) / stake_R for player in names}
    rows = [(kind, *(f"{scores[player][r]:.3f}" for player in names)) for r, kind in enumerate(kinds)]
    print(Table("Score by regime, over all recordings", ("regime", *names), tuple(rows)))
    before, after = names[1], "default" if "default" in names else names[-1]
    rows = [
        (kind, *(f"{(one.lost[before][r] - one.lost[after][r]) / one.steps**0.5:+.2f}" for one in everyone))
        for r, kind in enumerate(kinds)
    ]
    print(Table(f"What {after} earns more than {before}, in J sqrt(T)", ("regime", *found), tuple(rows)))


if __name__ == "__main__":
    main()
