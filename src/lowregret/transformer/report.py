"""What a training run reports now and then: a line of its metrics file."""

from typing import NamedTuple


class Progress(NamedTuple):
    """How a run is going: what its metrics file has a line of, now and then."""

    step: int
    steps: int
    loss: float  # the mean since the last report
    rate: float
    tokens_per_second: float  # since the last report, whatever else was done meanwhile: compiling, an adversary's play
    seconds: float  # of training so far, in all runs
    seconds_a_step: float | None = None  # without the first one of this run, which compiles; None: there is no other

    @property
    def seconds_left(self) -> float | None:
        return None if self.seconds_a_step is None else self.seconds_a_step * (self.steps - self.step)
