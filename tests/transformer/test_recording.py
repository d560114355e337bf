"""A user's own sequences: what a window holds, what is held out, what files say, and what is refused."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from lowregret.transformer import Imitate, Recording, data

RAGGED = [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13], [14, 15]]  # every token says where it was recorded


def every_window(sequences: list[list[int]], horizon: int) -> dict[tuple[int, ...], tuple[int, int]]:
    """All windows by enumeration, as (tokens, how many of them are the sequence's own), with where they come from."""
    found = {}
    for i, row in enumerate(sequences):
        for start in range(max(1, len(row) - horizon + 1)):
            own = row[start : start + horizon]
            filled = tuple(itertools.islice(itertools.cycle(own), horizon))
            found[(*filled, len(own))] = (i, start)
    return found


@pytest.mark.parametrize("horizon", [1, 2, 4, 5, 9])
def test_windows_are_those_of_the_recording_and_no_others(horizon: int) -> None:
    recording, n = Recording.of(RAGGED, held_out=0), 6000
    tokens_NxT, own_NxT = recording.windows(n, horizon, data.generator("cpu", 0))
    lengths = own_NxT.sum(-1).long()
    assert torch.equal(own_NxT, (torch.arange(horizon) < lengths[:, None]).float())
    rows = [(*tokens, length) for tokens, length in zip(tokens_NxT.tolist(), lengths.tolist(), strict=True)]
    expected = every_window(RAGGED, horizon)
    assert set(rows) == set(expected)
    # A sequence as often as it has windows to be covered by, at least one; its windows alike. Error 1e-6 in all.
    covers = [max(1, len(row) / horizon) for row in RAGGED]
    for window, (i, _) in expected.items():
        chance = covers[i] / sum(covers) / max(1, len(RAGGED[i]) - horizon + 1)
        low, high = stats.binom.interval(1 - 1e-6 / len(expected), n, chance)
        assert low <= rows.count(window) <= high, window


@pytest.mark.parametrize(
    ("n", "length", "share", "kept"),
    [
        (20, 5, 0.1, list(range(90, 100))),  # the last two sequences
        (3, 40, 0.1, [*range(36, 40), *range(76, 80), *range(116, 120)]),  # the last tenth of each
        (1, 100, 0.25, list(range(75, 100))),
        (4, 10, 0.0, []),
    ],
)
def test_what_is_held_out_is_never_learnt_from(n: int, length: int, share: float, kept: list[int]) -> None:
    rows = np.arange(n * length).reshape(n, length)
    recording = Recording.of(rows, held_out=share)
    assert [token for row in recording.kept for token in row] == kept
    drawn = recording.windows(2000, 4, data.generator("cpu", 1)).tokens_NxT.unique().tolist()
    assert drawn == sorted(set(range(n * length)) - set(kept))
    if kept:
        assert recording.unseen().tokens.tolist() == kept
        assert recording.unseen().held_out == 0


# Files


def test_the_same_recording_however_it_is_written(tmp_path: Path) -> None:
    rows = [[0, 1, 2, 1], [2, 2, 0, 1]]
    np.save(tmp_path / "two.npy", np.array(rows, dtype=np.uint8))
    (tmp_path / "numbers.csv").write_text("0,1,2,1\n2, 2, 0, 1\n")
    (tmp_path / "numbers.txt").write_text("0 1\t2 1\n\n2 2 0 1")
    (tmp_path / "names.csv").write_text("\ufeffa,b,c,b\r\nc,c,a,b\r\n", encoding="utf-8")
    (tmp_path / "names.txt").write_text("a; b; c; b\nc; c; a; b\n")
    given: list[Any] = [rows, np.array(rows), torch.tensor(rows), [np.array(row) for row in rows]]
    given += [tmp_path / name for name in ("two.npy", "numbers.csv", "numbers.txt", "names.csv", "names.txt")]
    for each in given:
        found = Recording.of(each, held_out=0.5)
        assert found.tokens.tolist() == [0, 1, 2, 1, 2, 2, 0, 1], each
        assert found.lengths.tolist() == [4, 4]
        assert found.n_states == 3
        assert found.states == (("a", "b", "c") if "names" in str(each) else None)


def test_one_token_a_line_is_one_sequence_and_ragged_lines_are_as_long_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "column.csv").write_text("up\ndown\ndown\nup\n" * 5)
    column = Recording.of(tmp_path / "column.csv")
    assert column.lengths.tolist() == [20]
    assert column.states == ("down", "up")
    assert column.tokens.tolist() == [1, 0, 0, 1] * 5
    (tmp_path / "ragged.txt").write_text("0 1 1\n1 0\n0 0 0 1 1\n")
    ragged = Recording.of(tmp_path / "ragged.txt", held_out=0)
    assert ragged.lengths.tolist() == [3, 2, 5]
    assert Recording.of(np.arange(30) % 2).lengths.tolist() == [30]


def test_states_may_be_named_in_an_order_and_be_more_than_came(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("up,down,up\n" * 4)
    recording = Recording.of(tmp_path / "t.csv", states=["up", "flat", "down"], held_out=0)
    assert recording.tokens.tolist() == [0, 2, 0] * 4
    assert recording.n_states == 3
    (tmp_path / "n.csv").write_text("1,0,1\n" * 4)
    assert Recording.of(tmp_path / "n.csv", states=["0", "1"], held_out=0).tokens[0] == 1
    turned = Recording.of(tmp_path / "n.csv", states=["1.0", "0.0"], held_out=0)
    assert (turned.tokens.tolist(), turned.states) == ([0, 1, 0] * 4, ("1.0", "0.0"))
    for numbers in (tmp_path / "n.csv", [[1, 0, 1]] * 4):
        with pytest.raises(ValueError, match=r"states that have names are given by name.* position of '(up|down)'"):
            Recording.of(numbers, states=["up", "down"], held_out=0)
    assert Recording.of(tmp_path / "n.csv", n_states=5, held_out=0).n_states == 5


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("fraction.csv", b"0,1,0\n0,0.5,1\n", r"all whole numbers or all names: .*'0\.5'"),
        ("mixed.csv", b"0,1,a\n", "all whole numbers or all names"),
        ("negative.csv", b"0,-1,1\n", r"tokens must lie in 0\.\.1, got values from -1"),
        ("one.csv", b"a,a,a,a\n", "at least two states"),
        ("short.csv", b"0,1,0\n1\n", r"at least 2, got 1 in the 2\. of 2"),
        ("picture.txt", b"\x89PNG\r\n\x1a\n\xff\xd8", "must be text in UTF-8"),
        ("other.json", b"[0, 1]", r"ends in \.npy, \.csv or \.txt"),
        ("few.txt", b"0 1 0 1 1 " * 3, "held_out must leave 2 tokens of a sequence"),
    ],
)
def test_bad_files_are_refused_by_what_is_wrong(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        Recording.of(tmp_path / name)


@pytest.mark.parametrize(
    ("tokens", "settings", "words"),
    [
        ([[0, 1, 5]], {"n_states": 3}, r"tokens must lie in 0\.\.2, got values from 0 to 5"),
        ([0.5, 1.0], {}, "dtype float64"),
        (np.zeros((2, 2, 2), dtype=int), {}, r"\[sequences, steps\] or \[steps\]"),
        ([], {}, r"\[sequences, steps\] or \[steps\]"),
        ([0, 1] * 10, {"held_out": 0.6}, "held_out must lie between 0 and 0.5"),
        (["a", "b"] * 10, {"states": ["a"]}, "tokens must be one of the states 'a', got 'b'"),
        (["a", "b"] * 10, {"n_states": 3, "states": ["a", "b"]}, "states must name each of the 3"),
    ],
)
def test_bad_tokens_are_refused(tokens: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Recording.of(tokens, **settings)


def test_a_recording_has_no_distributions() -> None:
    with pytest.raises(ValueError, match="soft must be False"):
        Imitate(Recording.of([0, 1] * 10), soft=True)
