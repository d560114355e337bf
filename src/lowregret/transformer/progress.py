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
    with _no_remarks():
        if not console.is_terminal:
            yield _lines(name, console)
        else:
            with _bar(name, console) as report:
                yield report


@contextlib.contextmanager
def _bar(name: str, console: Console) -> Iterator[Callable[[Progress], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def report(p: Progress) -> None:
            words = f"{name}  loss {p.loss:.3g}  {p.tokens_per_second:,.0f} tokens/s"
            bar.update(task, total=p.steps, completed=p.step, description=words)

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


def _lines(name: str, console: Console) -> Callable[[Progress], None]:
    said = -_SECONDS_BETWEEN_LINES

    def report(p: Progress) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < _SECONDS_BETWEEN_LINES and p.step < p.steps:
            return
        said = now
        left = "" if p.seconds_left is None else f", {p.seconds_left:.0f} s left"
        console.print(
            f"{name}  step {p.step}/{p.steps}  loss {p.loss:.3g}  {p.tokens_per_second:,.0f} tokens/s  "
            f"{p.seconds:.0f} s{left}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    return report
