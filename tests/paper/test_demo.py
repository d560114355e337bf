"""``python -m paper demo``, and what is said where a command cannot run."""

import json
from pathlib import Path

import numpy as np
import pytest

import lowregret as lr

from .conftest import paper

pytestmark = pytest.mark.needs("matplotlib", "typer")

DEMO = ("demo", "--horizon", "64", "-n", "10", "--out")


def test_demo_prints_tables_and_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from paper.app import app
    from paper.eight_sources import players

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*DEMO, "here"])
    assert done.exit_code == 0, done.output
    for words in ("drift T/20", "ExactTest", "Mean regret after 64 steps", "beam", "exact", "Written to here"):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert Path("here/regret.png").stat().st_size > 20_000
    assert Path("here/regret.svg").read_text().rstrip().endswith("</svg>")
    data = json.loads(Path("here/demo.json").read_text())
    assert len(data["cells"]) == 48
    # The worst sequences are what they are said to be.
    coin = lr.matching()
    for name, player in players(64).items():
        row = data["adversary"][name]
        tokens = np.array([int(bit) for bit in row["tokens"]])
        regret = lr.external_regret(coin, lr.policies.Respond(player, coin, 64**-0.5), tokens)[-1]
        assert abs(regret - row["regret"]) < 1e-12
        assert row["regret_bound"] is None or regret <= row["regret_bound"] + 1e-12


@pytest.mark.long
def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        done = paper(*DEMO, folder, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for name in ("regret.svg", "regret.png", "demo.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.long
def test_bad_arguments(tmp_path: Path) -> None:
    assert paper("demo", "--horizon", "1", cwd=tmp_path).returncode == 2
    assert paper("demonstrate", cwd=tmp_path).returncode == 2
    (tmp_path / "taken").touch()
    for command in ("demo", "verify"):
        done = paper(command, "--out", "taken", cwd=tmp_path)
        assert (done.returncode, done.stderr, done.stdout) == (1, "taken: File exists\n", "")  # before the work


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    done = paper("demo", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'lowregret[cli]'" in done.stderr
