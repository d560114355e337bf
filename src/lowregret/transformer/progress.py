"""How training is going, on the terminal: a bar with loss, tokens a second and time left, or a line now and then."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from .report import Progress

_SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def shown(name: str, console: Console) -> Iterator[Callable[[Progress], None]]:
    """What to give ``train`` as ``on_report``."""
    if not console.is_terminal:
        yield _lines(name, console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def report(p: Progress) -> None:
            words = f"{name}  loss {p.loss:.3g}  {p.tokens_per_second:,.0f} tokens/s"
            bar.update(task, total=p.steps, completed=p.step, description=words)

        yield report


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
