"""How it went (Section 2.2): external and internal regret, average, of every prefix."""

from functools import reduce
from itertools import permutations
from typing import Any

from .. import inputs
from ..arrays import (
    Array,
    beside,
    count_up,
    first,
    in_float64,
    last,
    namespace,
    one_hot,
    running_sum,
    total,
)
from ..policies import Policy
from ..predictors import said_by, vouched
from ..problems import DecisionProblem, a_problem, action_utilities, same_problem


def external_regret(problem: DecisionProblem, policy: Policy | Array, tokens: Array) -> Array:
    """The average regret of every prefix ``[..., T]``: best fixed action in hindsight minus what was earned.

    Parameters
    ----------
    policy
        A policy (it is run on the tokens), the mixed actions ``[..., T, A]`` it played, or pure actions ``[..., T]``
        as integers.
    tokens
        The states observed, ``[..., T]``.

    >>> from lowregret import matching
    >>> external_regret(matching(), [0, 1, 1], [1, 1, 1]).round(3).tolist()
    [1.0, 0.5, 0.333]
    """
    played_A, earned_A = _steps(problem, policy, tokens)
    own = total([played * earned for played, earned in zip(played_A, earned_A, strict=True)])
    return _largest([earned - own for earned in earned_A])


def internal_regret(problem: DecisionProblem, policy: Policy | Array, tokens: Array) -> Array:
    """The average internal regret of every prefix ``[..., T]``: what the best single change of plan would have gained.

    A change of plan is a pair of actions: b whenever a was played, and all else as it was. With two actions it is the
    external regret. The parameters are those of ``external_regret``.

    >>> from lowregret import rock_paper_scissors
    >>> internal_regret(rock_paper_scissors(), [0, 1, 0, 1], [1, 0, 1, 2]).round(3).tolist()  # paper beats rock
    [2.0, 1.0, 1.333, 1.0]
    """
    played_A, earned_A = _steps(problem, policy, tokens)
    pairs = list(permutations(range(problem.n_actions), 2)) or [(0, 0)]  # one action can be changed for none
    return _largest([played_A[a] * (earned_A[b] - earned_A[a]) for a, b in pairs])


def _largest(gains: list[Array]) -> Array:
    """The largest of the sums of gains ``[..., T]`` after each step, on average."""
    largest = reduce(namespace(gains[0]).maximum, map(running_sum, gains))
    return largest / in_float64(count_up(largest, 1, largest.shape[-1] + 1))


def _steps(problem: DecisionProblem, policy: Any, tokens: Array) -> tuple[Array, Array]:
    """The mixed actions that were played, and what each action earned, both ``[A, ..., T]``."""
    a_problem(problem)
    same_problem("policy was made for another problem", getattr(policy, "problem", problem), problem)
    tokens = inputs.sequences_of(tokens, problem.n_states)
    shape = tuple(tokens.shape)
    if hasattr(policy, "policy_sequence"):
        played = policy.policy_sequence(tokens)
        if not vouched(policy):
            played = said_by(policy, played, problem.n_actions, shape)
    elif hasattr(policy, "advise"):
        raise ValueError("policy is a Guard, which keeps account of its own play: read guard.regret")
    elif hasattr(policy, "predict_sequence"):
        ways = "its respond()" if hasattr(policy, "respond") else "Respond(predictor, problem, horizon**-0.5)"
        raise ValueError(f"policy must act and {type(policy).__name__} only predicts: take {ways}")
    else:
        played = inputs.array_of(policy, "policy")
        if played.ndim == tokens.ndim:  # pure actions
            played = inputs.tokens_of(played, problem.n_actions, "policy", shape=shape)
            played = last(one_hot(played, problem.n_actions))
        else:
            played = inputs.probs_of(played, problem.n_actions, "policy", shape=shape)
    tokens = beside(tokens, played)
    return in_float64(first(played)), action_utilities(problem, tokens, tokens)
