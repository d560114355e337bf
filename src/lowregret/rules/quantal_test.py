"""What the paper's tests have in common: they compare quantal responses, in steps observed one after the other."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..certificates.bounds import Terms
from ..certificates.promises import OverFallback
from ..engine.bets import Played, Watch
from ..engine.learners import FollowLearner
from ..predictors import PolyaUrn


class QuantalTest(ABC):
    """A test of the paper, whose own fallback is the Polya urn."""

    horizon: int | None
    delta: float

    @abstractmethod
    def watch(self, setting: Any) -> Watch:
        """The test at work in a setting."""

    def usual_fallback(self, problem: Any) -> PolyaUrn:
        return PolyaUrn(problem.n_states)

    def promise(self, setting: Any, theorem: str, passes: Callable[..., Terms]) -> OverFallback:
        """What a theorem promises in a setting: ``passes`` bounds what the test lets pass before an alarm."""
        return OverFallback(
            problem=setting.problem,
            tv_bound=self.delta,
            temperature=setting.temperature,
            fallback=setting.fallback,
            horizon=self.horizon,
            theorem=theorem,
            passes=passes,
        )


class QuantalWatch(Watch):
    """A test of the paper at work: an alarm where the level that ``update`` returns is at or above ``threshold``."""

    threshold, fresh_level = 0.0, 0.0

    def __init__(self, test: Any, setting: Any) -> None:
        name = type(test).__name__
        if setting.plays_best:
            raise ValueError(f"{name} is proved for quantal responses: take response=QuantalResponse()")
        if not isinstance(setting.play, FollowLearner):
            raise ValueError(
                f"{name} needs a fallback that goes by the states alone, such as PolyaUrn, got "
                f"{type(setting.fallback).__name__}"
            )
        if setting.lag > 1:
            raise ValueError(f"{name} needs lag=1: ExactTest takes outcomes that come late")


def earned(utility_AxS: list[list[float]], mixed_NxTxA: Any, played: Played) -> Any:
    """What mixed actions, or differences of them, earn in the states of recordings, ``[N, T]``."""
    found = played.state_NxT * 0.0
    for s in range(len(utility_AxS[0])):
        in_s = sum(mixed_NxTxA[..., a] * row[s] for a, row in enumerate(utility_AxS))
        found = found + in_s * (played.state_NxT == s)
    return found
