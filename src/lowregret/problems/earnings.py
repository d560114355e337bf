"""What actions earn (Section 2.2): in the state that came, each of them, and each beside a mixed one."""

from ..arrays import Array, constant, namespace, pick, total
from .decision import DecisionProblem


def action_utilities(problem: DecisionProblem, tokens: Array, like: Array) -> Array:
    """What each action earns against each token, ``[A, ...]``, unchecked."""
    xp = namespace(like)
    utility = constant(problem.utility, like)
    if tokens.ndim == 0:
        return utility[:, int(tokens)]
    columns = [xp.reshape(utility[:, s], (-1, *(1,) * tokens.ndim)) for s in range(problem.n_states)]
    earned = pick(columns, tokens)
    return xp.broadcast_to(earned, (problem.n_actions, *tokens.shape)) if problem.n_states == 1 else earned


def leads(problem: DecisionProblem, tokens: Array, chances_A1: Array) -> Array:
    """What each fixed action earns more than the mixed one, ``[A, ...]``, unchecked."""
    earned_A = action_utilities(problem, tokens, chances_A1)
    own = earned_A[0]
    if problem.n_actions > 1:
        own = own + total(chances_A1 * (earned_A[1:] - own))
    return earned_A - own
