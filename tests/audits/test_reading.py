"""One log in every file and frame it may come in: the same money and alarms as the plain frame."""

import datetime
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lowregret.audits import Refused, audit
from lowregret.audits.reading import log_of

from .shops import SHOP

N = 60  # days of a stream
RNG = np.random.default_rng(3)
WET = RNG.integers(0, 101, 2 * N)
IS_WET = RNG.random(2 * N) < np.where(np.arange(2 * N) < N + 20, WET, 100 - WET) / 100  # the second model breaks
DAYS = [datetime.date(2026, 1, 1) + datetime.timedelta(days=i) for i in range(N)] * 2
LOG = pl.DataFrame({"stream": ["Aa"] * N + ["B b"] * N, "ds": DAYS, "y": np.where(IS_WET, "wet", "dry")})
LOG = LOG.with_columns(p_dry=(100 - WET) / 100, p_wet=WET / 100, note=pl.format('it "was", {}', pl.Series(WET)))
PANDAS = pd.DataFrame({name: LOG[name].to_list() for name in LOG.columns})


def money(log: Any, **columns: Any) -> dict[str, tuple[float, float, int | None]]:
    """What the model and the guard of each stream earn, and the step of the alarm."""
    rows = audit(log, SHOP, columns=columns).streams.rows(named=True)
    return {row["stream"]: (row["model"], row["guard"], row["alarm"]) for row in rows}


@pytest.fixture(scope="module")
def plain() -> dict[str, tuple[float, float, int | None]]:
    return money(LOG)


def test_the_plain_frame_earns_what_its_rows_say(plain: Any) -> None:
    paid = np.where(120 * WET < 10_000, np.where(IS_WET, -20, 100), 0)  # open where 100 (1 - p) > 20 p
    assert [model for model, *_ in plain.values()] == [paid[:N].sum(), paid[N:].sum()]
    assert [alarm is None for *_, alarm in plain.values()] == [True, False]


def put(path: Path, frame: pl.DataFrame = LOG, **settings: Any) -> Path:
    """A frame in a file, of the kind that its name ends in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"csv": "csv", "tsv": "csv", "parquet": "parquet", "pq": "parquet", "arrow": "ipc", "jsonl": "ndjson"}
    kind = next(kinds[end] for end in path.name.lower().split(".")[::-1] if end in kinds)
    getattr(frame, f"write_{kind}")(path, **settings)
    return path


def text(path: Path, change: Callable[[bytes], bytes], frame: pl.DataFrame = LOG) -> Path:
    """The text of a frame, changed."""
    path.write_bytes(change(frame.write_csv().encode()))
    return path


def percents(form: str) -> pl.DataFrame:
    return LOG.with_columns(p_dry=pl.Series([form.format(100 - p) for p in WET]))


def by_key(folder: Path, ending: str) -> Path:
    for own, name in zip((LOG[:N], LOG[N:]), ("Aa", "B%20b"), strict=True):
        put(folder / f"stream={name}" / f"part-0.{ending}", own.drop("stream"))
    return folder


def left_by_spark(folder: Path) -> Path:
    put(folder / "part-0.snappy.parquet")
    for name in ("_SUCCESS", "_temporary/part-0.parquet", ".part-0.snappy.parquet", "part-0.snappy.parquet.crc"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"half")
    return folder


def both(folder: Path, one: pl.DataFrame, other: pl.DataFrame, ending: str = "parquet") -> Path:
    """Two files of a folder."""
    return put(put(folder / f"1.{ending}", one).with_name(f"2.{ending}"), other).parent


def rounded(frame: pl.DataFrame) -> pl.DataFrame:
    """A file in which probabilities happen to be whole."""
    return frame.with_columns(pl.col("p_dry", "p_wet").round().cast(pl.Int64))


FILES: dict[str, Callable[[Path], Any]] = {
    "a name in capitals": lambda at: put(at / "LOG.CSV"),
    "a name like a glob": lambda at: put(at / "log[1]*.csv"),
    "tsv": lambda at: put(at / "log.tsv", separator="\t"),
    "tabs": lambda at: put(at / "log.csv", separator="\t"),
    "bars": lambda at: put(at / "log.csv", separator="|"),
    "decimal commas": lambda at: put(at / "log.csv", separator=";", decimal_comma=True),
    "quoted decimal commas": lambda at: put(at / "log.csv", decimal_comma=True, quote_style="always"),
    "commas in one column": lambda at: put(at / "log.csv", percents("{},00%"), separator=";"),
    "a byte order mark": lambda at: put(at / "log.csv", include_bom=True),
    "lines as on Windows": lambda at: put(at / "log.csv", line_terminator="\r\n"),
    "quoted lines": lambda at: put(at / "log.csv", LOG.with_columns(note=pl.lit("one\ntwo;"))),
    "blank lines": lambda at: text(at / "log.csv", lambda own: own.replace(b"\n", b"\n\n") + b"\n,,,,,\n"),
    "blanks": lambda at: text(at / "log.csv", lambda own: own.replace(b",", b",  "), LOG.drop("note")),
    "percents in Parquet": lambda at: put(at / "log.pq", percents("{} %").cast({"p_dry": pl.Categorical})),
    "gz": lambda at: put(at / "log.csv.gz", compression="gzip"),
    "zst": lambda at: put(at / "log.csv.zst", compression="zstd"),
    "parquet": lambda at: put(at / "log.pq", LOG.sample(fraction=1, shuffle=True, seed=0), row_group_size=7),
    "packed ndjson": lambda at: text(at / "log.ndjson.gz", lambda _: gzip.compress(LOG.write_ndjson().encode())),
    "a list": lambda at: [put(at / "1.csv", LOG[:50]), str(put(at / "2.tsv", LOG[50:], separator="\t"))],
    "a file twice": lambda at: (put(at / "log.csv"), at),
    "a glob": lambda at: str(both(at / "log", LOG[:9], LOG[9:]).with_name("l*") / "*.parquet"),
    "a glob of all below": lambda at: f"{by_key(at / 'log', 'csv')}/**/*.csv",
    "a folder with hidden files": left_by_spark,
    "a folder with links": lambda at: (os.symlink(at, put(at / "deep" / "log.csv").with_name("round")), at)[1],
    "folders by key": lambda at: by_key(at / "log", "parquet"),
    "a folder by a key in the file": lambda at: put(at / "y=wet" / "log.csv").parent,
    "columns in another order": lambda at: both(at / "log", LOG[:50], LOG[50:].select(LOG.columns[::-1]), "csv"),
    "a column that is not read": lambda at: both(at / "log", LOG[:50], LOG[50:].drop("note")),
    "other separators": lambda at: [put(at / "1.csv", LOG[:50]), put(at / "2.csv", LOG[50:], separator=";")],
    "a file without rows": lambda at: both(at / "log", LOG[:0], LOG, "csv"),
    "an empty file": lambda at: both(at / "log", LOG, LOG[:0], "jsonl"),
    "texts and categories": lambda at: both(at / "log", LOG[:50].cast({"y": pl.Enum(SHOP.states)}), LOG[50:], "arrow"),
    "dates and times": lambda at: both(at / "log", LOG[:9], LOG[9:].cast({"ds": pl.Datetime("ms")})),
}
FRAMES: dict[str, Callable[[], Any]] = {
    "single precision": lambda: LOG.cast({"p_dry": pl.Float32, "p_wet": pl.Float32}),
    "an index": lambda: PANDAS.set_index(["stream", "ds"]),
    "an index of times": lambda: PANDAS.drop(columns="ds").set_index(pd.DatetimeIndex(PANDAS["ds"], name=None)),
    "categories": lambda: PANDAS.astype({"stream": "category", "y": "category", "p_dry": "Float64"}),
    "seconds": lambda: PANDAS.assign(ds=PANDAS["ds"].to_numpy().astype("datetime64[s]")),
    "a zone": lambda: PANDAS.assign(ds=pd.to_datetime(PANDAS["ds"]).dt.tz_localize("America/New_York")),
    "an offset": lambda: PANDAS.assign(ds=pd.to_datetime(PANDAS["ds"]).dt.tz_localize("UTC+01:00")),
    "offsets": lambda: PANDAS.assign(
        ds=[pd.Timestamp(f"{day}T0{i % 2}+0{i % 2}") for i, day in enumerate(PANDAS["ds"])]
    ),
    "objects": lambda: PANDAS.assign(p_dry=[p if i % 2 else str(p) for i, p in enumerate(PANDAS["p_dry"])]),
    "pyarrow": lambda: LOG.to_arrow(),
    "a reader": lambda: LOG.to_arrow().to_reader(7),
}


@pytest.mark.parametrize("way", FILES)
def test_files(way: str, tmp_path: Path, plain: Any) -> None:
    found = money(FILES[way](tmp_path))
    assert found == {name: pytest.approx(own) for name, own in plain.items()}


@pytest.mark.parametrize("way", FRAMES)
def test_frames(way: str, plain: Any) -> None:
    assert money(FRAMES[way]()) == {name: pytest.approx(own) for name, own in plain.items()}


def test_names_of_streams_are_kept_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("y, stream ,p_dry,p_wet\n" + "dry,007,0.5,0.5\n" * 3)
    assert list(money(tmp_path / "log.csv")) == ["007"]


def test_probabilities_that_happen_to_be_whole_in_one_file(tmp_path: Path) -> None:
    wanted = money(pl.concat([rounded(LOG[:50]), LOG[50:]], how="vertical_relaxed"))
    for ending in ("csv", "parquet", "arrow"):
        assert money(both(tmp_path / ending, rounded(LOG[:50]), LOG[50:], ending)) == wanted


def test_cells_beyond_the_first_thousand_rows_may_be_of_another_kind(tmp_path: Path) -> None:
    rows = [f"a,{i},dry,1,0" for i in range(1100)] + ["b b,1100,wet,0.3,70%", "b b,1101,wet,0.3,0.7"]
    (tmp_path / "log.csv").write_text("\n".join(["stream,step,y,p_dry,p_wet", *rows]))
    assert {name: own[0] for name, own in money(tmp_path / "log.csv").items()} == {"a": 110_000, "b b": -40}
    json = [f'{{"y": "dry", "p_dry": {int(i < 1100)}, "p_wet": {0 if i < 1100 else 1.0}}}' for i in range(1101)]
    (tmp_path / "log.ndjson").write_text("\n".join(json))
    assert money(tmp_path / "log.ndjson")["0"][0] == 110_000


@pytest.mark.needs("duckdb")
def test_pandas_and_duckdb_without_pyarrow(tmp_path: Path) -> None:
    code = """if True:
        import sys
        sys.modules["pyarrow"] = None
        import duckdb
        import pandas as pd
        import polars as pl
        from lowregret.audits.reading import log_of
        frame = pd.read_csv(sys.argv[1], parse_dates=["ds"])
        wanted = pl.read_csv(sys.argv[1], try_parse_dates=True).with_columns(pl.col("ds").cast(pl.Datetime("us")))
        for own in (frame, frame.astype({"y": "category", "p_wet": "Float64"}), frame.set_index(["stream", "ds"])):
            assert log_of(own).rows.select(wanted.columns).collect().equals(wanted)
        zoned = frame.assign(ds=frame["ds"].dt.tz_localize("UTC"))
        assert log_of(zoned).schema["ds"].time_zone == "UTC"
        with duckdb.connect() as connection:
            own = log_of(connection.sql(f"SELECT * FROM '{sys.argv[1]}'")).rows.select(wanted.columns).collect()
        assert own.cast(wanted.schema).equals(wanted)
        """
    subprocess.run([sys.executable, "-c", code, put(tmp_path / "log.csv")], check=True, capture_output=True)


def test_decimal_commas_are_noted_and_thousands_are_none(tmp_path: Path) -> None:
    assert audit(FILES["decimal commas"](tmp_path), SHOP).notes == ("numbers are read with decimal commas",)
    whole = rounded(LOG).with_columns(sold=pl.lit("1,234"))
    assert not log_of(put(tmp_path / "whole.csv", whole, separator=";")).has_commas


def test_a_bad_row_is_named_by_its_file_and_place_there(tmp_path: Path) -> None:
    """Blank lines and quoted ones count as Polars counts them: as rows, and as one."""
    head, text = "step,y,p_dry,p_wet,note\n", '1,dry,.5,.5,"one\ntwo"\n\n2,dry,.5,.5,\n'
    (tmp_path / "1.csv").write_text(head + text)
    (tmp_path / "2.csv").write_text(head + '\n3,dry,.5,.5,"a\nb"\n4,snow,.5,.5,\n')
    with pytest.raises(Refused) as caught:
        money(tmp_path)
    assert (caught.value.where, caught.value.row) == (str(tmp_path / "2.csv"), 3)
