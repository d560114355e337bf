"""What ``advise`` and ``observe`` are given, checked and as arrays with a first axis of streams."""

import math
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..engine import Inputs, Setting
from ..forecasts import Forecast
from ..problems import DecisionProblem, Payoff, Positions, actions_of, by_name


class Reading:
    """How the inputs of one setting are read; ``shape`` is () for a single stream, else (N,)."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.problem = setting, setting.problem

    def inputs(
        self, shape: tuple[int, ...], forecast: Any, references: Any, context: Any, scale: Any, payoffs: Any
    ) -> Inputs:
        """All that ``advise`` is given. ``shape`` may have an axis of time, too."""
        stated = self._payoffs(payoffs, shape)
        return Inputs(
            self._forecast(forecast, shape, "forecast", stated),
            self._references(references, shape, stated),
            self._context(context, shape),
            None if scale is None else self._scale(scale, shape),
            stated,
        )

    def _forecast(self, forecast: Any, shape: tuple[int, ...], what: str, payoffs: Any) -> Any:
        problem = self.problem
        if isinstance(problem, Payoff):
            if not isinstance(forecast, Forecast):
                raise ValueError(
                    f"{what} must be Samples or Quantiles, got {type(forecast).__name__}: with a Payoff, "
                    "advise(Quantiles(levels, values)); probabilities of states go with a DecisionProblem"
                )
            if forecast.batch_shape != shape:
                raise ValueError(f"{what} must be for streams of shape {shape}, got {forecast.batch_shape}")
            forecast.refuse_misfit(problem if payoffs is None else payoffs)
            return forecast.at((None, ...)) if shape == () else forecast
        if type(forecast) is not np.ndarray:
            forecast = by_name(problem.state_names, forecast, what)
        return _probabilities(inputs.probs_of(forecast, problem.n_states, what, shape=shape), shape)

    def _references(self, references: Any, shape: tuple[int, ...], payoffs: Any) -> Any:
        names = self.setting.references
        if not names:
            if references is not None:
                raise ValueError("references were not declared: Guard(problem, against=Actions() + References(*names))")
            return ()
        if references is None:
            raise ValueError(f"references must be given: the forecasts of {', '.join(names)} for this step")
        if isinstance(references, dict) and set(references) == set(names):
            references = [references[name] for name in names]
        if not isinstance(references, (list, tuple)) or len(references) != len(names):
            raise ValueError(f"references must be {{{', '.join(names)}: forecast}}, got {inputs.shown(references)}")
        found = [self._forecast(one, shape, "references", payoffs) for one in references]
        return tuple(found) if isinstance(self.problem, Payoff) else np.stack(found, axis=-2)

    def _context(self, context: Any, shape: tuple[int, ...]) -> np.ndarray | None:
        names = self.setting.against.contexts
        if not names:
            if context is not None:
                raise ValueError("context was not declared: Guard(problem, against=Actions(per=...))")
            return None
        if context is None:
            raise ValueError(f"context must be given, one of {', '.join(names)}")
        listed = np.asarray(context)
        if listed.dtype.kind in "UO":
            if unknown := [one for one in listed.flat if one not in names]:
                raise ValueError(f"context must be one of {', '.join(names)}, got {unknown[0]!r}")
            context = np.array([names.index(one) for one in listed.flat]).reshape(listed.shape)
        found = to_numpy(inputs.tokens_of(context, len(names), "context", shape=shape))
        return np.array(found, dtype=np.int64).reshape(shape or (1,))

    def _scale(self, scale: Any, shape: tuple[int, ...]) -> np.ndarray:
        amount = inputs.numbers_of(scale, "scale", "numbers above 0, at most 1")
        if amount.shape not in ((), shape):
            raise ValueError(f"scale must have shape {shape}, got {amount.shape}")
        bad = ~((amount > 0) & (amount <= 1))
        if bad.any():
            raise inputs.misplaced(f"scale must lie above 0 and be at most 1, got {amount[bad][0]:g}%s", bad)
        if not self.setting.play.takes_scale:
            raise ValueError(f"scale needs fallback=Recovery(): {self.setting.play.name} learns from the states alone")
        return np.array(np.broadcast_to(amount, shape or (1,)))

    def _payoffs(self, payoffs: Any, shape: tuple[int, ...]) -> Any:
        problem = self.problem
        if not problem.is_changing:
            if payoffs is not None:
                raise ValueError("payoffs were not declared to change: Guard(problem.changing(low, high))")
            return None
        if payoffs is None:
            raise ValueError("payoffs must be given: what is at stake in this step (the problem is declared changing)")
        if isinstance(problem, Payoff):
            return problem.restated(payoffs)
        A, S = problem.utility.shape
        payoffs = by_name(problem.state_names, payoffs, "payoffs")
        if hasattr(payoffs, "iloc"):  # its rows may have names too
            payoffs = by_name(problem.action_names, payoffs.T, "payoffs").T
        amounts = inputs.numbers_of(payoffs, "payoffs", "a matrix of numbers, one row per action")
        if amounts.shape not in ((A, S), (*shape, A, S)):
            raise ValueError(f"payoffs must have shape {(*shape, A, S)}, got {amounts.shape}")
        return np.array(np.broadcast_to(problem.utility_of(amounts), (*(shape or (1,)), A, S)))

    # Outcomes

    def outcome(self, shape: tuple[int, ...], outcome: Any, missing: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """The outcomes ``[N]``, and where there is none (None: everywhere is one)."""
        mask, problem = _missing(outcome, shape, missing), self.problem
        if mask is not None:
            outcome = self._filled(outcome, mask)
        if isinstance(problem, Payoff):
            found = problem.outcomes_of(outcome, "outcome", shape=shape)
        else:
            found = to_numpy(problem.state_names.positions(outcome, "state", shape=shape))
        return found.reshape(shape or (1,)), mask

    def action(self, shape: tuple[int, ...], action: Any) -> np.ndarray | None:
        if action is None:
            return None
        found = to_numpy(actions_of(self.problem.action_names, action, "action", shape=shape))
        return found.reshape(shape or (1,))

    def _filled(self, outcome: Any, mask: np.ndarray) -> Any:
        """Outcomes with any possible one in place of each that is missing."""
        if isinstance(outcome, Positions):
            return Positions(self._filled(outcome.at, mask))
        is_list = isinstance(outcome, (list, tuple))
        values = np.array(outcome, dtype=object) if is_list else to_numpy(inputs.array_of(outcome, "outcomes"))
        if values.shape != mask.shape:
            raise ValueError(f"outcomes must have shape {mask.shape}, missing ones among them, got {values.shape}")
        if not mask.all():
            values = np.where(mask, values[~mask][0], values)
            return values.tolist() if values.dtype == object else values
        if isinstance(self.problem, DecisionProblem):
            return Positions(np.zeros(mask.shape, dtype=np.int64))
        return np.full(mask.shape, next((end for end in self.problem.outcomes if math.isfinite(end)), 0.0))


def _probabilities(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A copy in full precision, with an axis of streams: the caller may fill the array anew."""
    probs = np.array(to_numpy(values), dtype=np.float64)
    return probs if shape else probs[None]


def _missing(outcome: Any, shape: tuple[int, ...], missing: Any) -> np.ndarray | None:
    """Where there is no outcome: None among them, or in the mask that was given."""
    if missing is not None:
        mask = to_numpy(inputs.array_of(missing, "missing"))
        if mask.shape != shape or mask.dtype != bool:
            raise ValueError(f"missing must be a mask of shape {shape}, got {inputs.shown(missing)}")
    elif shape and (isinstance(outcome, (list, tuple)) or getattr(getattr(outcome, "dtype", None), "kind", "") == "O"):
        mask = np.array([one is None for one in np.ravel(np.array(outcome, dtype=object))])
    else:
        return None
    return mask if mask.shape == shape and mask.any() else None
