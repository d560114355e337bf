"""What is said of a training while it goes on."""

import io
import logging
import warnings

import pytest
from rich.console import Console


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
