"""How the games before went, from their lines alone."""

import json
from typing import Any

from ...problems import DecisionProblem


def yours_of(problem: DecisionProblem, own: int) -> list[int]:
    """What each of your moves earns you against the machine's: its loss, in points."""
    return [-round(float(utility)) for utility in problem.utility[own]]


def results_in(problem: DecisionProblem, lines: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Of each episode that was played: how many rounds, your score, and what your best fixed move would have had.

    >>> from lowregret import rock_paper_scissors
    >>> seal = {"seal": 1, "text": '{"move":"rock"}'}
    >>> results_in(rock_paper_scissors(), [{"game": "one"}, seal, {"round": 1, "move": "scissors"}])
    [{'rounds': 1, 'score': -1, 'best': 1}]
    """
    found, own = [], 0
    for line in lines:
        if "game" in line or "episode" in line:
            found.append((0, 0, [0] * problem.n_states))
        elif "seal" in line:
            own = problem.actions.index(json.loads(line["text"])["move"])
        elif "round" in line:
            rounds, score, fixed_S = found[-1]
            yours_S = yours_of(problem, own)
            more = yours_S[problem.states.index(line["move"])]
            found[-1] = (rounds + 1, score + more, [a + b for a, b in zip(fixed_S, yours_S, strict=True)])
    return [{"rounds": rounds, "score": score, "best": max(fixed_S)} for rounds, score, fixed_S in found if rounds]
