"""``python -m paper demo``, and what is said where a command cannot run."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lowregret as lr

from .conftest import paper

pytestmark = pytest.mark.needs("matplotlib", "typer")


DEMO = ("demo", "--horizon", "64", "-n", "10", "--out", "here")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What a demonstration printed, and the folder that it wrote."""
    folder = tmp_path_factory.mktemp("demo")
    return paper(*DEMO, cwd=folder), folder / "here"


def test_demo_prints_tables_and_writes_files(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, here = demo
    assert done.returncode == 0, done.stderr
    for words in ("drift T/20", "ExactTest", "Mean regret after 64 steps", "beam", "exact", "Written to here"):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert (here / "regret.png").stat().st_size > 20_000
    assert (here / "regret.svg").read_text().rstrip().endswith("</svg>")
    data = json.loads((here / "demo.json").read_text())
    assert len(data["cells"]) == 48
    # The worst sequences are what they are said to be.
    from paper.eight_sources import players

    coin = lr.matching()
    for name, player in players(64).items():
        row = data["adversary"][name]
        tokens = np.array([int(bit) for bit in row["tokens"]])
        regret = lr.external_regret(coin, lr.policies.Respond(player, coin, 64**-0.5), tokens)[-1]
        assert abs(regret - row["regret"]) < 1e-12
        assert row["regret_bound"] is None or regret <= row["regret_bound"] + 1e-12


def test_the_same_seed_writes_the_same_files(
    demo: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    assert paper(*DEMO, cwd=tmp_path).returncode == 0
    for name in ("regret.svg", "regret.png", "demo.json"):
        assert (tmp_path / "here" / name).read_bytes() == (demo[1] / name).read_bytes()


def test_bad_arguments(tmp_path: Path) -> None:
    assert paper("demo", "--horizon", "1", cwd=tmp_path).returncode == 2
    assert paper("demonstrate", cwd=tmp_path).returncode == 2
    (tmp_path / "taken").touch()
    for command in ("demo", "verify"):
        done = paper(command, "--out", "taken", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr == "taken: File exists\n"
        assert not done.stdout  # it says so before the work


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    done = paper("demo", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'lowregret[cli]'" in done.stderr
