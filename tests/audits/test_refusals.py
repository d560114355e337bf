"""Logs that cannot be audited: each is refused with what is wrong and what to do, and where."""

import datetime
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pytest

import lowregret as lr
from lowregret.audits import Refused, audit

from .shops import SHOP

STALL = lr.problems.newsvendor_of_numbers([0, 10, 20], price=5, cost=3)
GOOD: dict[str, Any] = {"stream": ["a"] * 3, "step": [1, 2, 3], "y": ["dry", "wet", "dry"], "p_dry": [0.4] * 3}
GOOD |= {"p_wet": [0.6] * 3, "odd": [1, 2, 3]}
SALES: dict[str, Any] = {"y": [1.0, 2.0, 3.0], "q10": [0.0] * 3, "q90": [5.0] * 3}
ROME = ZoneInfo("Europe/Rome")
NOON, UTC = datetime.datetime(2026, 1, 1, 12), datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def rows(**changed: Any) -> dict[str, Any]:
    """Three good rows, with some columns changed; None: without it."""
    return {name: own for name, own in (GOOD | changed).items() if own is not None}


def text(*lines: str) -> bytes:
    return "\n".join(["stream,step,y,p_dry,p_wet", *lines]).encode()


def two(one: dict[str, Any], other: dict[str, Any]) -> Callable[[Path], Path]:
    def made(at: Path) -> Path:
        for name, own in (("1.parquet", one), ("2.parquet", other)):
            pl.DataFrame(own).write_parquet(at / name)
        return at

    return made


def file(name: str, content: bytes = b"half") -> Callable[[Path], Path]:
    def made(at: Path) -> Path:
        (at / name).write_bytes(content)
        return at / name

    return made


def linked(at: Path) -> Path:
    os.symlink(at / "nowhere.csv", at / "log.csv")
    return at


# What the log is (rows are a frame, bytes a text), which columns it has, and what the refusal must say.
BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    # What is no log
    "a column": (pd.Series([1]), {}, "the frame must have columns that Polars knows"),
    "a number": (3, {}, "a log must be a path, several paths, or a frame, got 3"),
    "a name twice": (pd.DataFrame([[1, 2]], columns=[1, "1"]), {}, "columns must have different names"),
    "no file": (lambda at: at / "nowhere.csv", {}, "there is no file, folder or glob of a log at .*nowhere.csv"),
    "an empty folder": (lambda at: at, {}, "must be a file that ends in"),
    "several kinds": (lambda at: [file("1.csv")(at), file("2.pq")(at)], {}, "of one kind, got 1.csv, 2.pq"),
    "a link to nothing": (linked, {}, "log.csv: it is not a regular file"),
    "broken Parquet": (file("log.parquet"), {}, "log.parquet: it cannot be read: "),
    "broken JSON": (file("log.ndjson"), {}, "log.ndjson: it cannot be read: "),
    "cut off": (file("log.csv.gz", b"\x1f\x8b\x08\x00"), {}, "log.csv.gz: it is not CSV in UTF-8"),
    "empty": (b"", {}, "log.csv: it is empty"),
    "Latin-1": ("stream,step,y,p_dry,p_wet\nä,1,dry,1,0".encode("latin-1"), {}, "log.csv: it is not CSV in UTF-8"),
    "a header alone": (text(), {}, "log.csv: it has no rows"),
    "a long row": (text("a,1,dry,.5,.5", "a,2,dry,.5,.5,6"), {}, "log.csv, row 2: it has 6 cells, and the header 5"),
    "a quote left open": (text('"a,1,dry,.5,.5'), {}, "log.csv: it cannot be read: could not parse"),
    # Files that do not go together
    "other columns": (two(GOOD, rows(p_wet=None)), {}, "2.parquet: it has no column p_wet, and other files of the log"),
    "with and without zones": (two(rows(step=[NOON] * 3), rows(step=[UTC] * 3)), {}, "step holds Datetime.*UTC.*, and"),
    "other zones": (two(rows(step=[UTC] * 3), rows(step=[UTC.astimezone(ROME)] * 3)), {}, "step holds Datetime.*Rome"),
    "days and numbers": (two(rows(step=[NOON.date()] * 3), GOOD), {}, "2.parquet: .* step holds Int64, and Date in"),
    "a row of the second": (two(GOOD, rows(y=["dry", "wet", "x"], step=[4, 5, 6])), {}, "2.parquet, row 3: .*got 'x'"),
    # Columns
    "no outcomes": (rows(y=None), {}, "there must be a column of outcomes.* say which of stream, .*--state NAME"),
    "no such column": (GOOD, {"order": "day"}, "the column of order must be one of stream, .*, got 'day'"),
    "two parts": (GOOD, {"order": "odd", "stream": "odd"}, "must be different columns, got odd, odd and y"),
    "a header twice": (text("a,1,dry,.5,.5").replace(b"stream", b"y"), {}, "y is there twice or more"),
    "lists as streams": (rows(stream=[["a"]] * 3), {}, r"stream must hold names or numbers, got List\(String\)"),
    "bytes as states": (rows(y=[b"dry"] * 3), {}, "y must hold names or numbers, got Binary"),
    "objects as contexts": (rows(odd=pl.Series([len] * 3)), {"context": "odd"}, "odd must hold names or .*Object"),
    "no probabilities": (rows(p_wet=None, p=[0.6] * 3), {}, "a column of probabilities per state .*--probs dry=.*one"),
    "a list that is none": (rows(p_wet=None), {"probs": "p_dry"}, r"\(p_dry\) must be lists of 2, got Float64"),
    "three for two": (GOOD, {"probs": ["p_dry", "p_wet", "odd"]}, "must be 2, or one that holds lists, got p_dry"),
    "a state that is none": (GOOD, {"probs": {"snow": "odd"}}, "a different one for each of dry, wet, or one for one"),
    "no such probabilities": (GOOD, {"probs": {"wet": "x"}}, "of probs must be among stream, .*, got x"),
    "three payoffs": (GOOD, {"payoffs": ["odd"] * 3}, "must be 2 x 2, action by action, or one that holds lists"),
    "no quantiles": ({"y": [1.0]}, {}, "there must be columns of quantiles: q10, .* say which of"),
    "several models": (SALES | {"A-lo-80": [1.0] * 3, "B-lo-80": [1.0] * 3}, {}, "of 3 models, the one of q10, A, B: "),
    "no such model": (SALES, {"model": "A"}, "those with quantiles, the one of q10, got 'A'"),
    "a model and quantiles": (SALES, {"model": "A", "quantiles": {0.1: "q10"}}, "a model or quantiles, not both"),
    "a level twice": (SALES | {"0.1": [1.0] * 3}, {}, "'q10' and '0.1' are both the quantile at level 0.1"),
    "a level of one digit": (SALES | {"q5": [1.0] * 3}, {}, "q5 may be the quantile at 0.05 or at 0.5"),
    "quantiles of states": (rows(), {"quantiles": {0.5: "p_wet"}}, "where the problem has states: probs"),
    "probabilities of a number": (SALES, {"probs": "q10"}, "name no probs or payoffs where .* are numbers: quantiles"),
    "a reference without levels": (SALES, {"references": {"desk": ["q10"]}}, "must have columns by level, got"),
    # Rows
    "no number": (rows(p_wet=["0.6", "much", "0.6"]), {}, r"row 2: a probability \(p_wet\) is missing .*, got 'much'"),
    "a colour": (text("a,1,dry,\x1b]0;mine\x07,.5"), {}, r"row 1: .*, got '\\x1b\]0;mine\\x07'"),
    "a short list": (rows(odd=[[0.4, 0.6], [0.4], [0.4, 0.6]]), {"probs": "odd"}, r"row 2: .*got \[0.4\]"),
    "another state": (rows(y=["dry", "snow", "snow"]), {}, r"row 2: the state \(y\) .*'snow'; one more row has it"),
    "no stream": (rows(stream=["a", None, "a"]), {}, r"row 2: the stream \(stream\) is missing"),
    "a stream that is none": (rows(stream=[1.0, 1.0, float("nan")]), {}, r"row 3: the stream \(stream\) is missing"),
    "bools as steps": (rows(step=[True, False, True]), {}, r"times \(step\) must be .* texts, got Boolean"),
    "a step between": (rows(step=["1", "2", "2.5"]), {}, r"row 3: the step \(step\) must be .*, got '2.5'"),
    "a day first": (rows(step=None, Datum=["26.10.2024"] * 3), {}, r"row 1: the step \(Datum\) must be .* got '26.10"),
    "a scale beyond": (GOOD, {"scale": "odd"}, r"row 2: the scale \(odd\) must be above 0 and at most 1, got 2"),
    "a step twice": (rows(step=[1, 2, 1]), {}, "row 3: 1 of stream 'a' is there twice, also in row 1"),
    "1.7": (rows(p_wet=[0.6, 1.7, 0.6], p_dry=[0.4, -0.7, 0.4]), {}, r"row 2: .*\(p_dry\) must lie in .*, got -0.7"),
    "1.7 of one column": (rows(p_wet=[1.7] * 3), {"probs": {"wet": "p_wet"}}, r"\(p_wet\) .*, got 1.7 among -0.7, 1.7"),
    "per cent": (rows(p_wet=[70.0] * 3, p_dry=[30.0] * 3), {}, "they look like percentages: divide them by 100"),
    "far from one": (rows(p_wet=[0.6] * 3, p_dry=[0.6] * 3), {}, "sum to 1.2 .*; that is not rounding: of logits"),
    "counts": (rows(p_wet=[3] * 3, p_dry=[5] * 3), {}, "of logits take the softmax, of counts divide by their sum"),
    "no context": (rows(odd=["x", None, "x"]), {"context": "odd"}, r"row 2: the context \(odd\) is missing"),
    "payoffs in lists": (rows(odd=[[[9.0, -1.0, 0.0]] * 2] * 3), {"payoffs": "odd"}, r"row 1: there must be 2 x 2"),
    "payoffs beyond": (rows(odd=[150.0] * 3), {"payoffs": ["odd"] * 4}, r"row 1: there must be 2 x 2 payoffs"),
    "an endless number": (SALES | {"y": [1.0, math.inf, 2.0]}, {}, r"row 2: the outcome \(y\) must be a number .*inf"),
    "a word for a number": (SALES | {"y": ["1", "2", "l0"]}, {}, r"row 3: the outcome \(y\) must be a number .*'l0'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_logs(name: str, tmp_path: Path) -> None:
    log, columns, words = BAD[name]
    log = log(tmp_path) if callable(log) else file("log.csv", log)(tmp_path) if isinstance(log, bytes) else log
    log = pl.DataFrame(log) if isinstance(log, dict) else log
    of_numbers = isinstance(log, pl.DataFrame) and "stream" not in log.columns
    with pytest.raises(ValueError, match=f"(?s){words}") as caught:
        audit(log, STALL if of_numbers else SHOP, columns=columns)
    assert not isinstance(caught.value, Refused) or str(caught.value).isprintable()


def test_a_refusal_may_be_sent_to_another_process() -> None:
    refusal = pickle.loads(pickle.dumps(Refused("log.csv", 3, "it is\x1b[31m red")))
    assert (refusal.where, refusal.row, str(refusal)) == ("log.csv", 3, "log.csv, row 3: it is\\x1b[31m red")
