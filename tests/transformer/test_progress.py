"""What is said of a training while it goes on."""

import io
import logging
import warnings

import pytest
from rich.console import Console

from lowregret.transformer import Progress


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


def test_without_a_terminal_there_is_a_line_now_and_then() -> None:
    from lowregret.transformer.progress import shown

    heard = io.StringIO()
    with shown("m", Console(file=heard, width=200)) as report:
        for step in range(1, 5):
            report(Progress(step, 4, 0.5 / step, 1e-3, 1000.0 * step, 2.0 * step, 8.0 - 2.0 * step))
    first, last = heard.getvalue().splitlines()
    assert first == "m  step 1/4  loss 0.5  1,000 tokens/s  2 s, 6 s left"
    assert last == "m  step 4/4  loss 0.125  4,000 tokens/s  8 s, 0 s left"
