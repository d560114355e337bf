"""What is said of a training while it goes on."""

import io
import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import lowregret as lr
from lowregret.transformer import Progress, TrainingSettings, train


def test_time_left_does_not_count_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step takes an hour, the others a second each, by a clock of our own."""
    from lowregret.transformer import training

    clock, advance, heard = [0.0], training.Training.advance, []

    def slow(self: training.Training) -> Any:
        clock[0] += 1.0 if self.step else 3600.0
        return advance(self)

    monkeypatch.setattr(training.Training, "advance", slow)
    monkeypatch.setattr(training.time, "perf_counter", lambda: clock[0])

    def report(progress: Progress) -> None:
        heard.append((progress.step, progress.seconds, progress.seconds_left))

    settings = TrainingSettings(size=(8, 8, 2, 1, 8), steps=5, batch=2)
    train(
        lr.transformer.Imitate(lr.PolyaUrn(2)), tmp_path / "m.safetensors", settings, report_every=1, on_report=report
    )
    assert heard == [(1, 3600, None), (2, 3601, 3), (3, 3602, 2), (4, 3603, 1), (5, 3604, 0)]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_compiler_keeps_its_remarks_to_itself(terminal: bool) -> None:
    """Its warnings and its log, while progress is shown; those of others are heard, and afterwards all are."""
    from lowregret.transformer.progress import shown

    logger, heard = logging.getLogger("torch._inductor.utils"), []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with shown("m", Console(file=io.StringIO(), force_terminal=terminal)):
            warnings.warn_explicit("a remark", UserWarning, "f.py", 1, module="torch._inductor.compile_fx")
            logger.warning("not enough of something")
            with pytest.raises(UserWarning, match="of a user"):
                warnings.warn_explicit("of a user", UserWarning, "f.py", 1, module="torch._inductors")
            assert not heard
        logger.warning("again")
        assert len(heard) == 1
        with pytest.raises(UserWarning, match="a remark"):
            warnings.warn_explicit("a remark", UserWarning, "f.py", 1, module="torch._inductor.compile_fx")
    finally:
        logger.removeHandler(handler)
