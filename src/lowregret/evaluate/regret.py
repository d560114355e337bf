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
    is_integral,
    namespace,
    one_hot,
    pick,
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
    xp, shape = namespace(earned_A), earned_A.shape[1:]
    if played_A.ndim == len(shape):
        own = pick(earned_A, played_A)
    else:
        own = total([in_float64(played_A[a]) * earned_A[a] for a in range(problem.n_actions)])
    leads = (running_sum(earned_A[a] - own) for a in range(problem.n_actions))
    return reduce(xp.maximum, leads) / in_float64(count_up(earned_A, 1, shape[-1] + 1))


def internal_regret(problem: DecisionProblem, policy: Policy | Array, tokens: Array) -> Array:
    """The average internal regret of every prefix ``[..., T]``: what the best single change of plan would have gained.

    A change of plan is a pair of actions: b whenever a was played, and all else as it was. With two actions it is the
    external regret. The parameters are those of ``external_regret``.

    >>> from lowregret import rock_paper_scissors
    >>> internal_regret(rock_paper_scissors(), [0, 1, 0, 1], [1, 0, 1, 2]).round(3).tolist()  # paper beats rock
    [2.0, 1.0, 1.333, 1.0]
    """
    played_A, earned_A = _steps(problem, policy, tokens)
    xp, T = namespace(earned_A), earned_A.shape[-1]
    if played_A.ndim < earned_A.ndim:
        played_A = one_hot(played_A, problem.n_actions)
    played_A = in_float64(played_A)
    pairs = list(permutations(range(problem.n_actions), 2)) or [(0, 0)]  # one action can be changed for none
    gains = (running_sum(played_A[a] * (earned_A[b] - earned_A[a])) for a, b in pairs)
    return reduce(xp.maximum, gains) / in_float64(count_up(earned_A, 1, T + 1))


def _steps(problem: DecisionProblem, policy: Any, tokens: Array) -> tuple[Array, Array]:
    """What was played, mixed ``[A, ..., T]`` or pure ``[..., T]``, and what each action earned ``[A, ..., T]``."""
    a_problem(problem)
    same_problem("policy was made for another problem", getattr(policy, "problem", problem), problem)
    tokens = inputs.sequences_of(tokens, problem.n_states)
    if hasattr(policy, "policy_sequence"):
        played = policy.policy_sequence(tokens)
        if not vouched(policy):
            played = said_by(policy, played, problem.n_actions, tuple(tokens.shape))
        played_A = first(played)
    elif hasattr(policy, "advise"):
        raise ValueError(
            "policy is a Guard, which keeps account of its own play: read guard.regret (or realised_regret)"
        )
    elif hasattr(policy, "predict_sequence"):
        ways = "its respond()" if hasattr(policy, "respond") else "Respond(predictor, problem, horizon**-0.5)"
        raise ValueError(f"policy must act and {type(policy).__name__} only predicts: take {ways}")
    else:
        played_A = _played(problem, policy, tokens)
    tokens = beside(tokens, played_A)
    return played_A, action_utilities(problem, tokens, tokens)


def _played(problem: DecisionProblem, policy: Any, tokens: Array) -> Array:
    """Mixed actions ``[A, ..., T]`` or pure ones ``[..., T]``, checked."""
    policy = inputs.array_of(policy, "policy")
    shape = tuple(tokens.shape)
    if tuple(policy.shape) not in (shape, (*shape, problem.n_actions)):
        raise ValueError(
            f"policy must have shape {shape} (actions) or {(*shape, problem.n_actions)} (mixed ones) for tokens of "
            f"shape {shape}, got {tuple(policy.shape)}"
        )
    if policy.ndim == tokens.ndim and (problem.n_actions != 1 or is_integral(policy)):
        return inputs.tokens_of(policy, problem.n_actions, "policy", shape=shape)
    return first(inputs.probs_of(policy, problem.n_actions, "policy", shape=shape))
