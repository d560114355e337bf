"""A built model survives its file, and the command line writes one."""

import json
from pathlib import Path

import numpy as np
import pytest

import lowregret as lr
from lowregret import construct
from lowregret.transformer import Decoder, Size
from lowregret.transformer import load as load_decoder
from lowregret.transformer import save as save_decoder

from .test_cli import lowregret

SIZE = Size(context=48, width=16, heads=2, layers=1, inner=32)


@pytest.mark.parametrize(("rule", "n"), [(lr.RegretGap, 2), (lr.RegretRate, 2), (lr.ExactTest, 2), (lr.ExactTest, 3)])
def test_what_is_read_is_what_was_written(rule: type, n: int, tmp_path: Path) -> None:
    model = construct.build(Decoder(n, size=SIZE, seed=1), rule(lr.matching(n), 40))
    construct.save(model, tmp_path / "model.safetensors")
    again = construct.load(tmp_path / "model.safetensors")
    tokens = lr.sample(lr.PolyaUrn(n), 40, 16, seed=0)
    np.testing.assert_array_equal(again.predict_sequence(tokens), model.predict_sequence(tokens))
    about = json.loads((tmp_path / "model.json").read_text())
    assert about["built"]["rule"] == rule.__name__
    assert about["built"]["horizon"] == 40


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    save_decoder(Decoder(2, size=SIZE), tmp_path / "decoder.safetensors")
    with pytest.raises(ValueError, match="is not of a built model"):
        construct.load(tmp_path / "decoder.safetensors")
    construct.save(construct.build(Decoder(2, size=SIZE), lr.RegretGap(lr.matching(), 8)), tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=r"b.safetensors"):
        load_decoder(tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="must be built on a Decoder to be saved, got one on Asked"):
        construct.save(construct.build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 8)), tmp_path / "c.safetensors")


def test_the_command(tmp_path: Path) -> None:
    save_decoder(Decoder(2, size=SIZE, seed=2), tmp_path / "base.safetensors")
    done = lowregret("construct", "base.safetensors", "--rule", "rate", "--out", "built.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 layers more: 5 heads" in done.stdout
    model, base = construct.load(tmp_path / "built.safetensors"), load_decoder(tmp_path / "base.safetensors")
    robust, tokens = lr.Robust(base, lr.RegretRate(lr.matching(), 48)), np.ones((1, 48), dtype=int)
    np.testing.assert_allclose(model.predict_sequence(tokens), robust.predict_sequence(tokens), atol=1e-6)
    save_decoder(Decoder(3, size=SIZE, seed=2), tmp_path / "three.safetensors")
    games = ("--rule", "exact", "--problem", "rock_paper_scissors", "--out", "game.safetensors")
    done = lowregret("construct", "three.safetensors", *games, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 layers more" in done.stdout
    model, base = construct.load(tmp_path / "game.safetensors"), load_decoder(tmp_path / "three.safetensors")
    robust = lr.Robust(base, lr.ExactTest(lr.rock_paper_scissors(), 48, delta=2 / 48))
    tokens = np.repeat(np.arange(3)[:, None], 48, axis=1)
    np.testing.assert_allclose(model.predict_sequence(tokens), robust.predict_sequence(tokens), atol=1e-6)
    refused = lowregret("construct", "base.safetensors", "--horizon", "49", "--out", "b.safetensors", cwd=tmp_path)
    assert refused.returncode == 2
    assert "context of 48" in " ".join(refused.stderr.replace("│", " ").split())
