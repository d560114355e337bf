"""Audits on a local Ray of two workers (`make test-ray`), one of them killed on the way: the same to the last bit."""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import cluster, logs

from ..audit_logs import SHOP, broken, shuffled, table_of, written

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    ray = pytest.importorskip("ray")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
        yield
        ray.shutdown()


@pytest.fixture
def folder(tmp_path):
    table = shuffled(table_of({f"shop {i}": 60 + i for i in range(9)}))
    for i in range(3):
        written(table.slice(i * 200, 200), tmp_path / f"{i}.parquet")
    return tmp_path


def numbers(found):
    return json.dumps([found.about, found.parts]), found.to_json()


def killed_once(work, marker):
    """The same work, but the first worker that begins it is killed."""

    def worked(*arguments):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return work(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return worked


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["deal_fragment", "judge_pieces", None])
def test_a_killed_worker_loses_nothing(two_workers, folder, tmp_path_factory, monkeypatch, name):
    whole = lr.audit.audit_log(folder, SHOP)
    assert whole.alarms
    assert len(logs.log_at(folder, SHOP).fragments) == 3
    marker = str(tmp_path_factory.mktemp("killed") / "once")
    if name is not None:
        monkeypatch.setattr(cluster, name, killed_once(getattr(cluster, name), marker))
    found = lr.audit.audit_log(folder, SHOP, engine="ray")
    assert numbers(found) == numbers(whole)
    assert os.path.exists(marker) == (name is not None)


@pytest.mark.filterwarnings("ignore")
def test_a_refusal(two_workers, folder):
    table = table_of({"a": 20})
    written(table.slice(0, 12), folder / "3.parquet")
    written(table.slice(13), folder / "4.parquet")
    for engine in ("local", "ray"):
        with pytest.raises(lr.audit.Refused, match=r"4.parquet, row 1: step 15 of stream 'a' is missing"):
            lr.audit.audit_log(folder, SHOP, engine=engine)


@pytest.mark.filterwarnings("ignore")
def test_a_key_and_zones(two_workers, tmp_path_factory):
    """What columns are taken and what is refused is the same as on one machine."""
    tmp_path = tmp_path_factory.mktemp("more")
    keyed = broken(60).drop_columns(["stream"]).append_column("id", pa.array(np.arange(60)))
    log = written(keyed, tmp_path / "keyed.parquet")
    whole, found = (lr.audit.audit_log(log, SHOP, engine=engine) for engine in ("local", "ray"))
    assert numbers(found) == numbers(whole)
    assert [one.steps for one in found.streams] == [60]
    assert found.about["notes"]
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for i, zone in enumerate((None, "Asia/Tokyo")):
        times = pa.array(np.arange(60) * 86_400, pa.timestamp("s", zone))
        written(broken(60).drop_columns(["step"]).append_column("ds", times), mixed / f"{i}.parquet")
    for engine in ("local", "ray"):
        with pytest.raises(lr.audit.Refused, match=r"1.parquet: the steps are times with a zone, and times without"):
            lr.audit.audit_log(mixed, SHOP, engine=engine)
