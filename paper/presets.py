"""How Section 5.2 is run: as the paper did it, as well as we know how, and a small form of that for two cores."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from lowregret import PolyaUrn, Predictor, RegretRate, matching
from lowregret.evaluate.sources import paper_sources
from lowregret.robust.robustify import Robust, robustify
from lowregret.transformer import (
    DECAYING,
    NANODO,
    Distil,
    Imitate,
    Masked,
    Optimiser,
    Size,
    TrainingSettings,
    Transformer,
)
from lowregret.transformer.decoder import size_of
from lowregret.transformer.tasks import Task

MODELS = ("BERNOULLI_1", "ROBUST", "BERNOULLI_2", "POLYAURN")  # in the order of training


@dataclass(frozen=True)
class Preset:
    """One way to run it.

    Parameters
    ----------
    distilled
        Learn distributions, those of what ``robustify`` builds (``ExactTest``, and ``Recovery`` after the alarm);
        else tokens (masked, by ``RegretRate``).
    samples
        Sequences from each source, for distances as for regrets.
    """

    name: str
    size: Size
    distilled: bool
    optimiser: Optimiser
    steps: int
    batch: int
    robust_steps: int
    robust_batch: int
    play_every: int = 100
    play_count: int = 256
    response_weight: float = 0.1
    samples: int = 1024
    stream: str | None = None
    seed: int = 0

    @property
    def horizon(self) -> int:
        return self.size.context

    def robust(self, base: Predictor) -> Robust:
        """Algorithm 1 on a base model: what ROBUST learns."""
        if self.distilled:
            return robustify(base, matching(), self.horizon)
        return robustify(base, matching(), test=RegretRate(self.horizon, alpha=1.5))

    def task(self, model: str, base: Transformer | None) -> Task:
        """What a model is trained to do; ROBUST needs BERNOULLI_1 as its ``base``."""
        source = paper_sources(self.horizon)["b"]
        if model == "POLYAURN":
            return Imitate(PolyaUrn(2), soft=self.distilled)
        if model != "ROBUST":
            return Imitate(source, soft=self.distilled)
        assert base is not None
        if not self.distilled:
            return Masked(source, self.robust(base))
        return Distil(
            source,
            self.robust(base),
            response_weight=self.response_weight,
            play_every=self.play_every,
            play_count=self.play_count,
        )

    def settings(self, model: str) -> TrainingSettings:
        robust = model == "ROBUST"
        return TrainingSettings(
            size=self.size,
            steps=self.robust_steps if robust else self.steps,
            batch=self.robust_batch if robust else self.batch,
            seed=self.seed * len(MODELS) + MODELS.index(model),  # two seeds share no model
            optimiser=self.optimiser,
            stream=self.stream,
        )

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "size": self.size._asdict()}


_QUICK = Preset(
    name="quick",
    size=size_of("quick"),
    distilled=True,
    optimiser=DECAYING,
    steps=500,
    batch=16,
    robust_steps=1000,
    robust_batch=32,
    play_every=50,
    play_count=64,
    response_weight=0.03,
    samples=256,
    stream="float32",
)
_PAPER = Preset("paper", size_of("paper"), False, NANODO, steps=500, batch=128, robust_steps=500, robust_batch=128)
# Its teacher takes as long for all sequences as for one: it is asked, and the student played against, less often.
_RECOVERING = replace(
    _QUICK,
    name="recovering",
    size=size_of("paper"),
    steps=2000,
    batch=128,
    robust_steps=8000,
    robust_batch=256,
    play_every=400,
    play_count=512,
    samples=1024,
)
PRESETS = {preset.name: preset for preset in (_QUICK, _PAPER, _RECOVERING)}
