"""``lowregret example``: a log in which one model breaks, and what is at stake, to try the other commands on."""

import random
import shlex
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import typer

from .options import refusals

PAYOFFS = "euros,dry,wet\nopen,100,-60\nshut,0,0\n"
SITES, BROKEN = ("Harbour", "Market", "Park", "Station"), "Market"
FIRST, BREAK, DAYS = date(2025, 1, 1), date(2025, 7, 1), 365


def log_in_csv(seed: int = 0) -> str:
    """A year of daily chances of rain at four sites, and the outcomes; from July on one has its columns mixed up."""
    draw = random.Random(seed).random  # the same numbers in every version of Python
    rows = ["date,site,p_dry,p_wet,outcome"]
    for site in SITES:
        for day in (FIRST + timedelta(k) for k in range(DAYS)):
            wet = round(0.02 + 0.96 * draw() ** 1.5, 2)
            stated = 1 - wet if site == BROKEN and day >= BREAK else wet
            rows.append(f"{day},{site},{1 - stated:.2f},{stated:.2f},{'wet' if draw() < wet else 'dry'}")
    return "\n".join(rows) + "\n"


def example(
    folder: Annotated[Path, typer.Argument(help="Where log.csv and payoffs.csv are written.")] = Path("."),
) -> None:
    """Write a log in which one of four models breaks, and its payoffs, to try the other commands on."""
    with refusals():
        contents = {folder / "log.csv": log_in_csv().encode(), folder / "payoffs.csv": PAYOFFS.encode()}
        for path, content in contents.items():
            if path.exists() and not (path.is_file() and path.read_bytes() == content):
                raise ValueError(f"{path} is there already, with other content: give another folder, or move it")
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            path.write_bytes(content)
    log, payoffs = map(str, contents)
    typer.echo(
        f"Written: {log}, forecasts of rain at {len(SITES)} sites with what occurred, and {payoffs}, what opening a "
        f"stall earns.\nNext: {shlex.join(['lowregret', 'audit', log, '--payoffs', payoffs])}"
    )
