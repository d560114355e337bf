"""A step: all that is known before its outcome, and what follows from it. Only here do states and numbers differ."""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import row_sums
from ..forecasts import Forecast
from ..problems import DecisionProblem, Gains, Payoff


class Inputs(NamedTuple):
    """What ``advise`` is given for a step, checked: arrays with a first axis of streams."""

    forecast: Any  # probabilities [N, S], or a Forecast of numbers
    references: Any = ()  # theirs: [N, Q, S], or Forecasts
    context_N: Any = None
    scale_N: Any = None  # in (0, 1]; None: all of it
    payoffs: Any = None  # of this step, in utility: [N, A, S], or a Payoff; None: the problem's own

    def at(self, index: Any) -> "Inputs":
        """The same for some streams ``(at_N,)``, or for one step of recordings ``(slice(None), t)``."""

        def of(part: Any) -> Any:
            if part is None or isinstance(part, Payoff):
                return part
            if isinstance(part, tuple):
                return tuple(map(of, part))
            return part.at(index) if isinstance(part, Forecast) else part[index]

        return Inputs(*map(of, self))


class Step(NamedTuple):
    """A step before its outcome."""

    forecast: Any  # the model's: probabilities [N, S], or of numbers
    model_NxA: Any  # the response to its forecast
    advised_N: Any  # the best action by it
    plays_NxExA: Any  # what each comparator that is awake plays
    at_NxE: Any  # where it stands among all; None: all are awake
    here: Any  # where its context stands in an array [N, C, ...]
    clock_N: Any  # how many steps of its class were observed before
    in_force_N: Any  # whether the fallback is played
    scale_N: Any  # None: all of it
    payoffs: Any  # of this step: [A, S], [N, A, S] or a Payoff
    references_NxQxS: Any  # the references' forecasts of states
    answers_NxQxA: Any  # and the responses to them
    mixture_NxS: Any = None  # what the fallback believes
    parts_NxLxS: Any = None  # the forecasts of which that is a mixture
    mixed_NxA: Any = None  # the response to it
    policy_NxA: Any = None  # what is played


class Outcome(NamedTuple):
    """An outcome, and what follows from it."""

    state_N: Any  # None: it is a number
    paid_NxA: Any  # what each action earned
    model_N: Any  # what the response to the model did
    gained_NxE: Any  # what each comparator that was awake earned more than the model's response
    chance_N: Any  # what the model had given to it


class States:
    """Outcomes are states; a forecast is their distribution."""

    def __init__(self, problem: DecisionProblem, xp: Any) -> None:
        self.n_actions, self.n_states = problem.utility.shape
        self.xp, self.payoffs = xp, xp.asarray(np.array(problem.utility))  # the problem's own
        self.utility_AxS = np.asarray(problem.utility).tolist()  # numbers, for which no device need be asked

    def whole(self, forecast: Any) -> Any:
        """A forecast as it was given, with chances that sum to one exactly."""
        return forecast / row_sums(forecast)

    def worth(self, forecast: Any, payoffs: Any, clock_N: Any) -> Any:
        """What each action is worth by a forecast, ``[N, A]``."""
        if payoffs.ndim == 2:
            return forecast @ payoffs.T
        return (payoffs @ forecast[..., None])[..., 0]

    def cells(self, step: Step, over_NxExA: Any) -> tuple[Any, Any, float]:
        """The M states, or the cells that a forecast of a number makes, in which bets are charged.

        Returns their weights ``[N, M]``, the gain ``[N, E, M]`` of the mixed actions ``over`` in each, and the weight
        of the outcome itself, which is above 0 for samples.
        """
        return step.forecast, over_NxExA @ step.payoffs, 0.0

    def observed(self, step: Step, state_N: Any) -> Outcome:
        streams_N, U = self.xp.arange(state_N.shape[0]), step.payoffs
        paid_NxA = U.T[state_N] if U.ndim == 2 else U[streams_N, :, state_N]
        return outcome_of(step, paid_NxA, state_N, step.forecast[streams_N, state_N])


class Numbers:
    """Outcomes are numbers; a forecast has quantiles or samples of them, and charges a bet at cells of its own."""

    n_states = 0

    def __init__(self, payoff: Payoff) -> None:
        self.n_actions, self.payoffs = payoff.n_actions, payoff

    def whole(self, forecast: Any) -> Any:
        return forecast

    def worth(self, forecast: Forecast, payoffs: Payoff, clock_N: Any) -> Any:
        points_NxM, weights_NxM = forecast.law(payoffs, clock_N)
        return (payoffs.utilities(points_NxM) * weights_NxM).sum(axis=-1).T

    def cells(self, step: Step, over_NxExA: Any) -> tuple[Any, Any, float]:
        found: tuple[Any, Any, float] = step.forecast.cells(Gains(step.payoffs, over_NxExA), step.clock_N)
        return found

    def observed(self, step: Step, outcome_N: Any) -> Outcome:
        return outcome_of(step, step.payoffs.paid(outcome_N).T, None, np.ones(len(outcome_N)))


def outcome_of(step: Step, paid_NxA: Any, state_N: Any, chance_N: Any) -> Outcome:
    """What follows from what each action earned, before the scale of the step."""
    if step.scale_N is not None:
        paid_NxA = paid_NxA * step.scale_N[:, None]
    model_N = (step.model_NxA * paid_NxA).sum(-1)
    gained_NxE = (step.plays_NxExA @ paid_NxA[..., None])[..., 0] - model_N[:, None]
    return Outcome(state_N, paid_NxA, model_N, gained_NxE, chance_N)
