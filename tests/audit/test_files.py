"""Logs as they come: every row of the tables in docs/reference/audit-files.md, written to a disk and audited."""

import gzip
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import lowregret as lr
from lowregret.audit import audit_log, spool
from lowregret.audit.tables import asked

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "audit-files.md"
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| file |", "| what stands there |"))
]


def problem_of(*states: str) -> lr.DecisionProblem:
    return lr.DecisionProblem.from_payoffs([[100, -100], [0, 0]], actions=["open", "shut"], states=list(states))


DRY, TRUE, ONE = problem_of("dry", "wet"), problem_of("false", "true"), problem_of("0", "1")
N = 80  # days of a stream
rng = np.random.default_rng(3)
WET = np.append(0.48, rng.beta(1, 1.2, 2 * N - 1).round(2))
CAME = rng.random(2 * N) < WET
CAME[N + 20 :] = WET[N + 20 :] < 0.5  # of the second stream the model is wrong from there on
LOG = pd.DataFrame(
    {
        "stream": np.repeat(["Aa", "Bee"], N),
        "ds": np.tile(pd.date_range("2026-01-01", periods=N), 2),
        "y": np.where(CAME, "wet", "dry"),
        "p_dry": (1 - WET).round(2),
        "p_wet": WET,
    }
)


def found_in(log: Any, problem: lr.DecisionProblem = DRY) -> tuple[list[dict[str, Any]], dict[str, float], list[str]]:
    """Every stream, what each player earned, and the warnings."""
    found = audit_log(log, problem, jobs=1)
    return [one._asdict() for one in found.streams], found.earned, list(found.warnings)


Case = Any  # a log, or a log and its problem
Cases = Iterator[Case]
MADE: dict[str, Callable[[Path], Cases]] = {}


def row(name: str) -> Callable[[Callable[[Path], Cases]], Callable[[Path], Cases]]:
    def kept(make: Callable[[Path], Cases]) -> Callable[[Path], Cases]:
        MADE[name] = make
        return make

    return kept


def as_csv(path: Path, frame: pd.DataFrame = LOG, **settings: Any) -> Path:
    frame.to_csv(path, **{"index": False} | settings)
    return path


def as_parquet(path: Path, frame: pd.DataFrame = LOG) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, index=False)
    return path


def of_bytes(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@row("`log.csv`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv")
    yield as_csv(at / "LOG.CSV")


@row("`log.csv.gz`, `log.csv.bz2`, `log.csv.zst`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv.gz")
    yield as_csv(at / "log.csv.bz2")
    with pa.output_stream(at / "log.csv.zst", compression="zstd") as file:
        file.write(LOG.to_csv(index=False).encode())
    yield at / "log.csv.zst"


@row("`log.tsv`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.tsv", sep="\t")


@row("`log.csv` with semicolons")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", sep=";")
    yield as_csv(at / "quoted.csv", LOG.assign(note="a, b, c, d"), sep=";")


@row("`log.csv` with tabs or bars")
def _(at: Path) -> Cases:
    yield as_csv(at / "tabs.csv", sep="\t")
    yield as_csv(at / "bars.csv", sep="|")


@row("`log.csv` with semicolons and decimal commas")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", sep=";", decimal=",")


@row("`log.csv` with quoted decimal commas")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", decimal=",")


@row("`log.csv` with commas and points in numbers")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", LOG.assign(p_wet=[f"{p:.2f}".replace(".", ",") for p in LOG["p_wet"]]), sep=";")


@row("`log.csv` with a byte order mark, or `\\r\\n`")
def _(at: Path) -> Cases:
    yield as_csv(at / "mark.csv", encoding="utf-8-sig")
    yield as_csv(at / "lines.csv", lineterminator="\r\n")


@row("`log.csv` with an index in front")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", index=True)


@row("`log.csv` in Latin-1 or UTF-16")
def _(at: Path) -> Cases:
    yield as_csv(at / "latin.csv", LOG.assign(place="Straße"), encoding="latin-1")
    yield as_csv(at / "wide.csv", encoding="utf-16")


@row("`log.csv` that is empty")
def _(at: Path) -> Cases:
    yield of_bytes(at / "log.csv", b"")


@row("`log.csv` with a header alone")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", LOG[:0])


@row("`log.csv.gz` that is no gzip")
def _(at: Path) -> Cases:
    yield of_bytes(at / "log.csv.gz", b"stream,ds\n")


@row("`log.parquet`, `log.pq`")
def _(at: Path) -> Cases:
    yield as_parquet(at / "log.parquet")
    yield as_parquet(at / "log.pq")


@row("`log.parquet` that is none")
def _(at: Path) -> Cases:
    yield of_bytes(at / "log.parquet", b"stream,ds\n")


@row("`log.feather`, `log.arrow`")
def _(at: Path) -> Cases:
    for name, chunk in {"log.feather": 1 << 16, "log.arrow": 50}.items():
        pyarrow.feather.write_feather(LOG, at / name, chunksize=chunk)
        yield at / name


@row("`log.feather` that is none")
def _(at: Path) -> Cases:
    yield of_bytes(at / "log.feather", b"stream,ds\n")


def as_workbook(path: Path, **sheets: pd.DataFrame) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, frame in sheets.items():
        sheet = book.create_sheet(name)
        sheet.append(list(frame.columns))
        for line in frame.itertuples(index=False):
            sheet.append([cell.to_pydatetime() if isinstance(cell, pd.Timestamp) else cell for cell in line])
    book.save(path)
    return path


@row("`log.xlsx`")
def _(at: Path) -> Cases:
    yield as_workbook(at / "log.xlsx", log=LOG)


@row("`log.xlsx` with several sheets")
def _(at: Path) -> Cases:
    yield as_workbook(at / "log.xlsx", log=LOG, notes=LOG[:3])


@row("`log.xlsx` that is none")
def _(at: Path) -> Cases:
    pytest.importorskip("openpyxl")
    yield of_bytes(at / "log.xlsx", b"stream,ds\n")


@row("a folder of Parquet")
def _(at: Path) -> Cases:
    mixed = LOG.sample(frac=1, random_state=0)
    as_parquet(at / "log" / "1.parquet", mixed[:50])
    as_parquet(at / "log" / "more" / "2.pq", mixed[50:])
    yield at / "log"


@row("a folder as Spark leaves it")
def _(at: Path) -> Cases:
    as_parquet(at / "log" / "part-0.snappy.parquet")
    of_bytes(at / "log" / "_SUCCESS", b"")
    of_bytes(at / "log" / "_temporary" / "part-0.parquet", b"half")
    of_bytes(at / "log" / ".part-0.snappy.parquet", b"")
    of_bytes(at / "log" / "part-0.snappy.parquet.crc", b"crc")
    yield at / "log"


@row("a folder by key, `stream=Aa/`")
def _(at: Path) -> Cases:
    for name, own in LOG.groupby("stream"):
        as_parquet(at / "log" / f"stream={name}" / "part-0.parquet", own.drop(columns="stream"))
        (at / "texts" / f"stream={name}").mkdir(parents=True)
        as_csv(at / "texts" / f"stream={name}" / "part-0.csv", own.drop(columns="stream"))
    yield at / "log"
    yield at / "texts"


@row("a folder of several kinds")
def _(at: Path) -> Cases:
    as_parquet(at / "log" / "1.parquet")
    as_csv(at / "log" / "2.csv")
    yield at / "log"


@row("a folder whose files have other columns")
def _(at: Path) -> Cases:
    as_parquet(at / "log" / "1.parquet", LOG[:N])
    as_parquet(at / "log" / "2.parquet", LOG[N:].rename(columns={"y": "state"}))
    yield at / "log"


@row("`log.json`")
def _(at: Path) -> Cases:
    yield of_bytes(at / "log.json", b"[]")


@row("`--query` with DuckDB")
def _(at: Path) -> Cases:
    duckdb = pytest.importorskip("duckdb")
    source = as_parquet(at / "log.parquet")
    with duckdb.connect(str(at / "shop.duckdb")) as connection:
        connection.execute(f"CREATE TABLE days AS SELECT * FROM '{source}'")
    yield asked("SELECT * FROM days", at / "shop.duckdb")


@row("`--query` of a file, without a database")
def _(at: Path) -> Cases:
    pytest.importorskip("duckdb")
    yield asked(f"SELECT * FROM '{as_parquet(at / 'log.parquet')}' ORDER BY random()")


@row("`--query` with SQLite")
def _(at: Path) -> Cases:
    with sqlite3.connect(at / "shop.db") as connection:
        LOG.assign(ds=LOG["ds"].dt.strftime("%Y-%m-%d")).to_sql("days", connection, index=False)
    connection.close()
    yield asked("SELECT * FROM days ORDER BY p_wet", at / "shop.db")


@row("`--query` that is no SQL")
def _(at: Path) -> Cases:
    sqlite3.connect(at / "shop.db").execute("CREATE TABLE days (y)").connection.close()
    yield lambda: asked("SELEC * FROM days", at / "shop.db")
    pytest.importorskip("duckdb")
    yield lambda: asked("SELEC 1")


@row("a frame of pandas or polars, a relation of DuckDB")
def _(at: Path) -> Cases:
    yield LOG.sample(frac=1, random_state=1)
    yield pl.from_pandas(LOG)
    yield pa.Table.from_pandas(LOG).to_reader(50)
    duckdb = pytest.importorskip("duckdb")
    path = as_parquet(at / "log.parquet")
    with duckdb.connect() as connection:
        yield connection.sql(f"SELECT * FROM '{path}'")


def percents(spelt: str) -> pd.DataFrame:
    return LOG.assign(**{name: [spelt.format(100 * p) for p in LOG[name]] for name in ("p_dry", "p_wet")})


@row("probabilities with percent signs, `48%`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", percents("{:.0f}%"))
    yield as_csv(at / "one.csv", percents("{:.0f}%").assign(p_dry=LOG["p_dry"]))


@row("percent signs in Parquet, as text")
def _(at: Path) -> Cases:
    yield as_parquet(at / "log.parquet", percents("{:.0f} %"))
    yield as_parquet(at / "categories.parquet", percents("{:.0f} %").astype({"p_dry": "category"}))


@row("percent signs and decimal commas, `48,0 %`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", percents("{:.0f},0 %"), sep=";")


@row("probabilities that sum to 100")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", LOG.assign(p_dry=100 * LOG["p_dry"], p_wet=100 * LOG["p_wet"]))


def with_cell(column: str, value: Any) -> pd.DataFrame:
    frame = LOG.astype({column: object})
    frame.loc[3, column] = value
    return frame


@row("a probability that is no number, `unknown`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", with_cell("p_wet", "unknown"))
    yield as_parquet(at / "log.parquet", with_cell("p_wet", "unknown").astype({"p_wet": str}))


@row("a probability that is missing, or `n/a`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", with_cell("p_wet", None))
    yield as_csv(at / "said.csv", with_cell("p_wet", "n/a"))
    yield as_parquet(at / "log.parquet", with_cell("p_wet", None).astype({"p_wet": float}))
    yield as_csv(at / "percents.csv", percents("{:.0f}%").assign(p_wet=with_cell("p_wet", None)["p_wet"]))


@row("a state that is missing")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", with_cell("y", None))


UNIX = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
NANOSECONDS = LOG["ds"].dt.as_unit("ns").astype("int64")


@row("times as Unix seconds, milliseconds, microseconds, nanoseconds")
def _(at: Path) -> Cases:
    for name, each in UNIX.items():
        yield as_csv(at / f"{name}.csv", LOG.assign(ds=NANOSECONDS // each))
        yield as_parquet(at / f"{name}.parquet", LOG.assign(ds=NANOSECONDS // each))
    yield as_parquet(at / "whole.parquet", LOG.assign(ds=(NANOSECONDS // 10**9).astype(float)))


@row("Unix seconds with fractions")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", LOG.assign(ds=NANOSECONDS / 1e9 + 0.25))


@row("Unix seconds in one file, milliseconds in another")
def _(at: Path) -> Cases:
    as_parquet(at / "log" / "1.parquet", LOG[:N].assign(ds=NANOSECONDS // 10**9))
    as_parquet(at / "log" / "2.parquet", LOG[N:].assign(ds=NANOSECONDS // 10**6))
    yield at / "log"


def zoned(*offsets: str) -> pd.DataFrame:
    return LOG.assign(ds=[f"{time:%Y-%m-%dT%H:%M:%S}{offsets[i % len(offsets)]}" for i, time in enumerate(LOG["ds"])])


@row("times of one zone, also where its clocks change")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", zoned("+01:00"))
    yield as_parquet(at / "log.parquet", LOG.assign(ds=LOG["ds"].dt.tz_localize("America/New_York")))  # on 8 March


@row("times of several zones, `+01:00` and `+09:00`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", zoned("+01:00", "+09:00"))


@row("times of which some have a zone")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", zoned("+01:00", ""))


@row("dates as `20260131`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", LOG.assign(ds=LOG["ds"].dt.strftime("%Y%m%d")))


@row("dates as `31.01.2026` or `01/31/2026`")
def _(at: Path) -> Cases:
    yield as_csv(at / "dots.csv", LOG.assign(ds=LOG["ds"].dt.strftime("%d.%m.%Y")))
    yield as_csv(at / "strokes.csv", LOG.assign(ds=LOG["ds"].dt.strftime("%m/%d/%Y")))


TRUTHS = LOG.assign(y=CAME).rename(columns={"p_dry": "p_false", "p_wet": "p_true"})


@row("booleans, states `false` and `true`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", TRUTHS), TRUE
    yield as_parquet(at / "log.parquet", TRUTHS), TRUE
    yield as_csv(at / "capital.csv", TRUTHS.rename(columns={"p_false": "p_False", "p_true": "p_True"})), TRUE


@row("booleans, states `0` and `1`")
def _(at: Path) -> Cases:
    yield as_csv(at / "log.csv", TRUTHS.rename(columns={"p_false": "p_0", "p_true": "p_1"})), ONE


@row("categoricals, of states, streams and numbers")
def _(at: Path) -> Cases:
    some = LOG.astype({"y": "category", "stream": "category"})
    yield as_parquet(at / "log.parquet", some)
    yield as_parquet(at / "numbers.parquet", some.astype({"p_dry": "category", "p_wet": "category"}))
    pyarrow.feather.write_feather(some.astype({"p_dry": "category"}), at / "log.feather")
    yield at / "log.feather"


@row("states `0.0` and `1.0` for `0` and `1`")
def _(at: Path) -> Cases:
    numbered = LOG.assign(y=CAME.astype(float)).rename(columns={"p_dry": "p_0", "p_wet": "p_1"})
    yield as_csv(at / "log.csv", numbered), ONE
    yield as_parquet(at / "log.parquet", numbered), ONE
    yield as_csv(at / "both.csv", numbered.rename(columns={"p_0": "p_0.0", "p_1": "p_1.0"})), ONE


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    assert [name for name, _ in ROWS] == list(MADE)
    assert all(what.startswith(("read", "refused: ")) for _, what in ROWS)


@pytest.mark.parametrize(("name", "what"), ROWS, ids=[name for name, _ in ROWS])
def test_what_happens_to_a_log(tmp_path: Path, name: str, what: str) -> None:
    streams, earned, warned = found_in(as_parquet(tmp_path / "plain" / "log.parquet"))
    assert [one["switched_at"] is not None for one in streams] == [False, True]  # so that there is a time to tell
    said = re.findall(r'"([^"]*)"', what)
    cases = 0
    for case in MADE[name](tmp_path):
        cases += 1
        log, problem = case if isinstance(case, tuple) else (case, DRY)
        if what.startswith("refused"):
            with pytest.raises(ValueError, match=re.escape(said[0])):
                found_in(log() if callable(log) else log, problem)
            continue
        found, theirs, warnings = found_in(log, problem)
        for one, other in zip(found, streams, strict=True):
            times = [name for name in one if name.endswith("_time")]
            assert {name: own for name, own in one.items() if name not in times} == {
                name: own for name, own in other.items() if name not in times
            }
            for time in times:
                day = None if other[time] is None else other[time][:10]
                assert (None if one[time] is None else one[time][:10]) == day
        assert theirs == earned
        news = [warning for warning in warnings if warning not in warned]
        assert len(news) == len(said), news
        assert all(any(words in warning for warning in news) for words in said), news
    assert cases


def test_numbers_that_count_are_no_times(tmp_path: Path) -> None:
    """Steps from any number on, as long as they are not all of the years in which people have logs."""
    steps = np.tile(np.arange(N), 2)
    for first in (0, 631_152_000 - 2, 20_260_101, 5_000_000_000):
        found = audit_log(as_parquet(tmp_path / "log.parquet", LOG.assign(ds=steps + first)), DRY, jobs=1)
        assert found.about["steps"] == "whole numbers"
    found = audit_log(as_parquet(tmp_path / "log.parquet", LOG.assign(ds=steps + 631_152_000)), DRY, jobs=1)
    assert found.about["steps"] == "Unix seconds"


def test_unix_times_are_told_as_the_moments_they_are(tmp_path: Path) -> None:
    one = audit_log(as_csv(tmp_path / "log.csv", LOG.assign(ds=NANOSECONDS // 10**6)), DRY, jobs=1).suspects[0]
    assert one.switched_time == f"{LOG['ds'][one.switched_at - 1]:%Y-%m-%d}T00:00:00Z"


def test_thousands_are_no_decimals(tmp_path: Path) -> None:
    """A column with 1,234 in it does not make decimal commas of all others."""
    frame = LOG.assign(sold="1,234", p_wet=(LOG["p_wet"] > 0.5).astype(int), p_dry=(LOG["p_wet"] <= 0.5).astype(int))
    found = audit_log(as_csv(tmp_path / "log.csv", frame, sep=";"), DRY, jobs=1)
    assert not [warning for warning in found.warnings if "decimal" in warning]


def test_a_log_that_is_cut_off_is_refused_with_its_file(tmp_path: Path) -> None:
    whole = gzip.compress(LOG.to_csv(index=False).encode())
    with pytest.raises(ValueError, match=r"log\.csv\.gz"):
        audit_log(of_bytes(tmp_path / "log.csv.gz", whole[: len(whole) // 2]), DRY, jobs=1)


def test_rows_in_memory_are_judged_in_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = audit_log(LOG, DRY, jobs=1)
    monkeypatch.setattr(spool, "HELD", 1)
    assert audit_log(LOG, DRY, jobs=2).parts == whole.parts
