"""How training is going, on the terminal: a bar with loss, tokens a second and time left, or a line now and then."""

import contextlib
import logging
import re
import time
import warnings
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from .training import Progress

_SECONDS_BETWEEN_LINES = 10.0
_COMPILER = ("torch._inductor", "torch._dynamo")


@contextlib.contextmanager
def shown(name: str, console: Console) -> Iterator[Callable[[Progress], None]]:
    """What to give ``train`` as ``on_report``; meanwhile the compiler keeps its remarks to itself."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    printed = -_SECONDS_BETWEEN_LINES
    with _no_remarks(), Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)

        def report(p: Progress) -> None:
            nonlocal printed
            words = f"loss {p.loss:.3g}  {p.tokens_per_second:,.0f} tokens/s"
            bar.update(task, total=p.steps, completed=p.step, description=f"{name}  {words}")
            now = time.monotonic()
            if bar.disable and (now - printed >= _SECONDS_BETWEEN_LINES or p.step == p.steps):
                printed = now
                line = f"{name}  step {p.step}/{p.steps}  {words}  {p.seconds:.0f} s, {p.seconds_left:.0f} s left"
                console.print(line, highlight=False, markup=False, soft_wrap=True)

        yield report


@contextlib.contextmanager
def _no_remarks() -> Iterator[None]:
    """Without what torch's compiler remarks about itself; its errors are raised all the same."""
    loggers = [logging.getLogger(name) for name in _COMPILER]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for name in _COMPILER:
            warnings.filterwarnings("ignore", module=rf"{re.escape(name)}(\.|$)")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
