"""How Section 5.2 is run: as the paper did it, as well as we know how, and a small form of that for two cores."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from lowregret.evaluate.sources import paper_sources
from lowregret.predictors import PolyaUrn, Predictor
from lowregret.problems import matching
from lowregret.robust.robustify import Robust, robustify
from lowregret.rules import RegretRate
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

Results = dict[str, Any]  # what was measured, as plain JSON values

MODELS = ("BERNOULLI_1", "ROBUST", "BERNOULLI_2", "POLYAURN")  # in the order of training


@dataclass(frozen=True)
class Preset:
    """One way to run it.

    Parameters
    ----------
    distilled
        Learn laws, those of what ``robustify`` builds (``ExactTest``, and ``Recovery`` after the alarm), rather than
        tokens (masked, by ``RegretRate``).
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

    def changed(self, **changes: Any) -> "Preset":
        """The same with other numbers where some are given: ``steps`` and ``batch`` of every training."""
        given = {name: value for name, value in changes.items() if value is not None}
        if "steps" in given:
            given |= {"robust_steps": given["steps"], "play_every": min(self.play_every, given["steps"])}
        if "batch" in given:
            given |= {"robust_batch": given["batch"], "play_count": min(self.play_count, 4 * given["batch"])}
        if "size" in given:
            given["size"] = size_of(given["size"])
        return replace(self, **given)

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


PRESETS = {
    "quick": Preset(
        "quick",
        size_of("quick"),
        True,
        DECAYING,
        500,
        16,
        1000,
        32,
        play_every=50,
        play_count=64,
        response_weight=0.03,
        samples=256,
        stream="float32",
    ),
    "paper": Preset("paper", size_of("paper"), False, NANODO, 500, 128, 500, 128),
    # Its teacher takes as long for all sequences as for one: it is asked, and the student played against, less often.
    "recovering": Preset(
        "recovering",
        size_of("paper"),
        True,
        DECAYING,
        2000,
        128,
        8000,
        256,
        play_every=400,
        play_count=512,
        response_weight=0.03,
        stream="float32",
    ),
}

# Tables 1 and 2 of the paper (T = 1024): value and half width of its 95% interval.
PAPER_SEQUENCE_TV = {
    ("BERNOULLI_1", "BERNOULLI_2"): (0.4193, 0.0232),
    ("ROBUST", "BERNOULLI_1"): (0.7602, 0.0267),
    ("ROBUST", "BERNOULLI_2"): (0.6869, 0.0295),
    ("POLYAURN", "BERNOULLI_1"): (1.0, 0.0),
    ("POLYAURN", "BERNOULLI_2"): (1.0, 0.0),
}
PAPER_NEXT_TOKEN_TV = {
    ("BERNOULLI_1", "BERNOULLI_2"): (0.0156, None),
    ("ROBUST", "BERNOULLI_1"): (0.0199, 0.0001),
    ("ROBUST", "BERNOULLI_2"): (0.0299, 0.0001),
    ("POLYAURN", "BERNOULLI_1"): (0.1529, 0.0003),
    ("POLYAURN", "BERNOULLI_2"): (0.1655, 0.0004),
}
PAIRS = tuple(PAPER_SEQUENCE_TV)
