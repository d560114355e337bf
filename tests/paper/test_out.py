"""The commands never write over what they read, try where they will write before the work, and leave no half."""

import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret import construct
from lowregret.transformer import Decoder, Size, load, save
from paper.app import _app

SIZE = Size(context=16, width=8, heads=2, layers=1, inner=8)


def paper(*arguments: str) -> Any:
    return CliRunner().invoke(_app(), arguments)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two decoders and a built model."""
    folder = tmp_path_factory.mktemp("models")
    save(Decoder(2, SIZE, seed=2), folder / "m.safetensors")
    save(Decoder(2, SIZE, seed=3), folder / "n.safetensors")
    rule = lr.robust.algorithm_1(lr.matching(), lr.RegretGap(8))
    construct.save(construct.build(load(folder / "m.safetensors"), rule), folder / "b.safetensors")
    return folder


@pytest.fixture
def folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in models.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def limit() -> Iterator[Any]:
    """A limit on the size of files is a full disk as far as writing goes."""
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda n_bytes: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("construct", "m.safetensors", "--out", "hard.safetensors"), "--out must be another path than the checkpoint"),
        (("evaluate", "m.safetensors", "--out", "link.safetensors"), "--out must be another path than the model"),
        (("evaluate", "m.safetensors", "--out", "m.json"), "what is beside the model, got m.json for both"),
        (("evaluate", "m.safetensors", "--against", "n.safetensors", "--out", "n.safetensors"), "than --against"),
        (("train", "robust", "--base", "m.safetensors", "--out", "m.safetensors"), "another path than --base"),
        (("reproduce", "--out", "r", "--collect", "r/models"), "than the folder of the models"),
    ],
)
def test_no_command_writes_over_its_input_or_twice(arguments: tuple[str, ...], words: str, folder: Path) -> None:
    (folder / "link.safetensors").symlink_to("m.safetensors")
    (folder / "hard.safetensors").hardlink_to("m.safetensors")
    before = everything(folder)
    done = paper(*arguments)
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.output.replace("│", " ").split())
    assert everything(folder) == before


COMMANDS = {
    "d": ("demo", "--horizon", "8", "-n", "2", "--out"),
    "v": ("verify", "--only", "Lemma A.1", "--jobs", "1", "--out"),
    "e.json": ("evaluate", "m.safetensors", "-n", "2", "--out"),
    "c.safetensors": ("construct", "m.safetensors", "--rule", "gap", "--out"),
    "t.safetensors": ("train", "bernoulli", "--size", "8,8,2,1,8", "--steps", "2", "--batch", "2", "--out"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_can_be_written_is_refused_before_the_work(name: str, folder: Path) -> None:
    before = everything(folder)
    for where, code in (("/proc/none/", 1), ("m.safetensors/", 2)):
        done = paper(*COMMANDS[name], where + name)
        assert done.exit_code == code, (done.output, done.exception)
        assert "regret" not in done.stdout
        assert any(words in " ".join(done.stderr.split()) for words in ("cannot be", "is a file"))
        assert everything(folder) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_keeps_what_was_there(name: str, folder: Path, limit: Any) -> None:
    """Also through a link, which stays one, into a folder whose name looks like markup."""
    odd = folder / "far[x]" / "[/bold]"
    odd.mkdir(parents=True)
    if "." in name:
        (folder / name).symlink_to(odd / name)
    command = (*COMMANDS[name], name) if "." in name else (*COMMANDS[name], str(odd / name))
    if name != "t.safetensors":  # what is trained is not trained again
        assert paper(*command).exit_code == 0
        assert not (folder / name).exists() or (folder / name).is_symlink()
    before = everything(folder)
    limit(500)
    done = paper(*command)
    limit(resource.RLIM_INFINITY)
    assert done.exit_code == 1, (done.output, done.exception)
    assert "could not be written: File too large. A file that was there is unchanged" in " ".join(done.stderr.split())
    after = everything(folder)
    assert {path: after[path] for path in before} == before
    assert not [path for path in after if ".part" in path]
