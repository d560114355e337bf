"""Audits on a local Ray of two workers (`make test-ray`), one of them killed on the way: the same answer."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lowregret.audits import Refused, audit, cluster

from .shops import SHOP, shops
from .test_auditing import WAYS, assert_same, hard

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
        yield
        ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log in three files, each with rows of all streams; some streams have no outcome."""
    (tmp_path / "log").mkdir()
    rows = hard()
    for k in range(3):
        rows[k::3].write_parquet(tmp_path / "log" / f"{k}.parquet")
    return tmp_path / "log"


@pytest.mark.parametrize("way", WAYS)
def test_a_cluster_has_the_same_answer(way: str, folder: Path) -> None:
    problem, columns, settings = WAYS[way]
    given = {"columns": {"order": "ds", **columns}, **settings}
    assert_same(audit(folder, problem, cluster=True, **given), audit(folder, problem, **given))


def test_a_killed_worker_loses_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker, judged_part = tmp_path / "once", cluster.judged_part

    def killed_once(*arguments: Any) -> Any:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return judged_part(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(cluster, "judged_part", killed_once)
    found = audit(folder, SHOP, cluster=True, columns={"order": "ds"})
    assert marker.exists()
    assert_same(found, audit(folder, SHOP, columns={"order": "ds"}))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("p_wet", "1.7", r"a probability \(p_wet\) must lie in \[0, 1\], got 1.7"), ("step", "x", "the step .* got 'x'")],
)
def test_what_is_refused_on_a_worker_is_refused(name: str, value: str, words: str, tmp_path: Path) -> None:
    rows = shops({"a": 800, "b": 800}).with_columns(pl.col(name).cast(pl.String))
    bad = rows.with_columns(pl.when(pl.int_range(pl.len()) == 1500).then(pl.lit(value)).otherwise(name).alias(name))
    bad.write_csv(tmp_path / "bad.csv")
    with pytest.raises(Refused, match=f"bad.csv, row 1501: {words}"):
        audit(tmp_path / "bad.csv", SHOP, cluster=True)


def test_a_log_without_any_outcome_is_refused(tmp_path: Path) -> None:
    shops().with_columns(y=pl.lit(None, pl.String)).write_parquet(tmp_path / "none.parquet")
    with pytest.raises(Refused, match="no outcome is known yet"):
        audit(tmp_path / "none.parquet", SHOP, cluster=True)


@pytest.mark.parametrize("name", ["frame", "one stream"])
def test_a_cluster_needs_files_and_streams(name: str, folder: Path) -> None:
    log: Any = hard() if name == "frame" else folder
    with pytest.raises(ValueError, match="cluster=True needs a log in files that all machines see, with a column of"):
        audit(log, SHOP, cluster=True, columns={"order": "ds", "stream": "unique_id" if name == "frame" else "none"})
