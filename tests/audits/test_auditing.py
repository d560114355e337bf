"""Audits beside backtests and literal sums; from memory and from the disk alike; what is promised of many streams."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lowregret as lr
from lowregret.audits import Refused, audit, parts
from lowregret.audits.auditing import Audit, survivors

from ..conftest import sweep
from .shops import LENGTHS, SHOP, STALL, gained, one, shops, shuffled

QUANTILES = {"state": "sold"}


def hard() -> pl.DataFrame:
    """Streams of many lengths, some without an outcome, with gaps, contexts and references, shuffled."""
    rng = np.random.default_rng(2)
    rows = shops({f"s{k}": (100, 100, 70, 1)[k % 4] for k in range(12)})
    gone = pl.col("unique_id").is_in(["s4", "s8"]) | pl.Series(rng.random(len(rows)) < 0.04)
    first = pl.col("unique_id") == "s0"
    return shuffled(
        rows.with_columns(
            y=pl.when(~gone).then("y"),
            sold=pl.when(~gone).then("sold"),
            ds=pl.datetime(2024, 10, 20, time_zone="UTC").dt.offset_by(pl.format("{}h", "step")),
            place=pl.when(first).then(pl.lit("hall")).otherwise(pl.Series(rng.choice(["north", "south"], len(rows)))),
            share=pl.Series(rng.uniform(0.1, 1, len(rows))),
            ref=pl.Series(rng.random(len(rows))),
        )
        .with_columns(pl.col("ds").dt.convert_time_zone("Europe/Berlin"))
        .with_columns(known=pl.col("ds") + pl.duration(minutes=pl.Series(rng.integers(0, 150, len(rows)))))
        .filter(pl.Series(rng.random(len(rows)) > 0.03))
        .drop("step")
    )


WAYS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "states": (SHOP, {}, {}),
    "quantiles": (STALL, QUANTILES, {}),
    "known at, contexts": (SHOP, {"known_at": "known", "context": "place"}, {}),
    "references, scale, late": (SHOP, {"references": {"ref": {"wet": "ref"}}, "scale": "share"}, {"lag": 3}),
    "horizon": (SHOP, {}, {"horizon": 200}),
}


def assert_same(found: Audit, wanted: Audit) -> None:
    """All that an audit found; sums over blocks of other widths are rounded in another order."""
    for own, other in ((found, wanted), (wanted, found)):
        assert own.streams.schema == other.streams.schema
    assert_frame_equal(found.streams, wanted.streams, abs_tol=1e-9)
    for name in ("notes", "unit", "first", "last", "columns", "players", "named", "alarms", "levels"):
        assert getattr(found, name) == getattr(wanted, name), name
    np.testing.assert_allclose(found.reliability, wanted.reliability, atol=1e-9)
    assert (found.at_P == wanted.at_P).all()
    for name, line in wanted.curves.items():
        np.testing.assert_allclose(found.curves[name], line, atol=1e-9)
    assert found.certificate.regret_bound == pytest.approx(wanted.certificate.regret_bound, rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suffix", sweep([".csv", ".parquet", None], usual=1))
def test_a_log_that_is_dealt_out_on_the_disk_has_the_same_answer(
    way: str, suffix: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, columns, settings = WAYS[way]
    rows = hard()
    path = tmp_path / f"log{suffix}"
    if suffix == ".csv":
        rows.with_columns(pl.col("ds", "known").dt.to_string("iso:strict")).write_csv(path)
    elif suffix:
        rows.write_parquet(path)
    log, columns = path if suffix else rows, {"order": "ds", **columns}
    whole = audit(log, problem, columns=columns, **settings)
    assert bool(whole.alarms) == (way in ("states", "quantiles", "horizon"))
    monkeypatch.setattr(parts, "_LARGE", 1)
    monkeypatch.setattr(parts, "_PART", 9000)
    seen = []
    dealt = audit(log, problem, columns=columns, progress=lambda *done: seen.append(done), **settings)
    assert_same(dealt, whole)
    assert len(seen) > 5
    n = int((whole.streams["steps"] + whole.streams["missing"]).sum())
    assert seen[-1] == ("judging", n, n)


def test_a_bad_cell_beyond_the_sample_is_found_when_the_log_is_dealt_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_LARGE", 1)
    monkeypatch.setattr(parts, "_PART", 90_000)
    rows = shops({"a": 900, "b": 900}).with_columns(pl.col("p_wet").cast(pl.String))
    bad = rows.with_columns(p_wet=pl.when(pl.int_range(1800) == 1500).then(pl.lit("much")).otherwise("p_wet"))
    bad.write_csv(tmp_path / "log.csv")
    with pytest.raises(Refused, match=r"log.csv, row 1501: a probability \(p_wet\) .* got 'much'"):
        audit(tmp_path / "log.csv", SHOP)
    late = rows.with_columns(p_wet=pl.when(pl.int_range(1800) == 1500).then(pl.lit("50%")).otherwise("p_wet"))
    late = late.with_columns(p_dry=pl.when(pl.int_range(1800) == 1500).then(0.5).otherwise("p_dry"))
    late.write_csv(tmp_path / "log.csv")
    assert audit(tmp_path / "log.csv", SHOP).steps == 1800  # each row once, though it was dealt out twice


@pytest.mark.parametrize("way", ["states", "quantiles"])
def test_every_stream_is_the_backtest_of_its_rows(way: str) -> None:
    problem, columns, _ = WAYS[way]
    found = audit(shuffled(shops()), problem, columns=columns)
    assert found.alarms
    for row in found.streams.to_dicts():
        rows = shops().filter(unique_id=row["stream"])
        guard = lr.Guard(problem, test=lr.ExactTest(0.05, len(rows)))
        (asked,) = lr.backtest(guard, rows, columns=columns).streams
        for player in found.players:
            assert row[player] == pytest.approx(asked.earned[player] * len(rows), abs=1e-9), player
        assert (row["alarm"], row["returns"], row["dropped"]) == (asked.switched_at, asked.returns, asked.dropped)
        assert (row["best_action"], row["steps"]) == (asked.best_action, asked.steps)


def test_an_alarm_does_not_depend_on_other_streams_unless_a_horizon_is_asked_for() -> None:
    names = ["stream", "model", "guard", "fallback", "alarm", "since", "log_e"]
    both = audit(shops({**LENGTHS, "long": 400}), SHOP, fdr=0.5)
    for name in LENGTHS:
        alone = audit(shops().filter(unique_id=name), SHOP, fdr=0.5)
        assert alone.streams.select(names).rows() == both.streams.filter(stream=name).select(names).rows()
    longer = audit(shops(), SHOP, horizon=500)
    assert longer.streams["log_e"].to_list() != audit(shops(), SHOP).streams["log_e"].to_list()
    assert longer.notes == ("every guard is made for 500 steps, as requested",)
    assert longer.certificate.horizon == 500
    with pytest.raises(ValueError, match="horizon must last for the longest stream, 100 steps, got 99"):
        audit(shops(), SHOP, horizon=99)


@pytest.mark.parametrize("dated", [False, True])
def test_curves_are_the_payoffs_up_to_each_point(dated: bool) -> None:
    rows = shops()
    if dated:
        rows = rows.with_columns(ds=pl.date(2025, 1, 1).dt.offset_by(pl.format("{}d", "step"))).drop("step")
    found, paid = audit(rows, SHOP), np.array([[100, -20], [0, 0]])
    best = np.where(rows["p_dry"] * 100 - rows["p_wet"] * 20 > 0, 0, 1)
    earned = paid[best, (rows["y"] == "wet").to_numpy().astype(int)]
    step = rows.select(pl.int_range(1, pl.len() + 1).over("unique_id")).to_series()
    at = rows["ds"].cast(pl.Datetime("ns")).to_numpy() if dated else step.to_numpy()
    for k in (0, 17, 120, 239):  # what lies between two points counts at the second
        share = (at - at.min()) / (at.max() - at.min()) if dated else (at - 1) / (100 - 1)
        assert found.curves["model"][k] == earned[(np.minimum(share * 240, 239)).astype(int) <= k].sum()
    assert found.at_P[-1] == at.max()
    for name, line in found.curves.items():
        assert line[-1] == pytest.approx(found.totals[name])


def test_reliability_is_counted_before_the_alarm_and_after() -> None:
    found = audit(one(), SHOP)
    (alarm,) = found.streams["alarm"]
    for part, rows in enumerate((one()[:alarm], one()[alarm:])):
        for s, name in enumerate(SHOP.states):
            p, is_it = rows[f"p_{name}"].to_numpy(), (rows["y"] == name).to_numpy()
            for k in range(10):
                inside = (p * 10).astype(int) == k
                wanted = [inside.sum(), p[inside].sum(), is_it[inside].sum()]
                assert found.reliability[part, s, :, k] == pytest.approx(wanted)
    numbers = audit(shops({"a": 80, "b": 90}), STALL, columns=QUANTILES)
    before, after = numbers.reliability
    steps = int((80 + 90) - numbers.streams["steps_after"].sum())
    assert (before[:, 0] == steps).all()
    rows = shops({"a": 80, "b": 90})
    assert (before + after)[:, 1].tolist() == [(rows["sold"] <= rows[f"q{q}"]).sum() for q in (10, 50, 90)]


def test_e_bh_by_its_definition() -> None:
    rng = np.random.default_rng(0)
    for n, fdr in itertools.product((1, 4, 9), (0.05, 0.3)):
        for _ in range(30):
            log_e, alarm = rng.normal(1.5, 2, n), np.where(rng.random(n) < 0.8, 1, None)
            names = [f"{k}" for k in range(n)]
            e = {name: math.exp(v) for name, v, at in zip(names, log_e, alarm, strict=True) if at}
            allowed = [k for k in range(1, len(e) + 1) if sorted(e.values())[-k] >= n / (fdr * k)]
            wanted = sorted(e, key=lambda name: -e[name])[: max(allowed, default=0)]
            streams = pl.DataFrame(
                {"stream": names, "log_e": log_e, "alarm": pl.Series(alarm.tolist(), dtype=pl.Int64)}
            )
            assert streams.filter(survivors(streams, fdr))["stream"].sort().to_list() == sorted(wanted)


def test_the_streams_that_are_named_are_those_with_the_most_evidence() -> None:
    found = audit(shops({f"{k:02}": 60 for k in range(40)}, broken=4), SHOP, fdr=3e-6, delta=0.3)
    assert 0 < len(found.named) < found.alarms
    assert set(found.named) == set(found.streams.filter(survivors(found.streams, 3e-6))["stream"])
    by_name = dict(zip(found.streams["stream"], found.streams["log_e"], strict=True))
    assert list(found.named) == sorted(found.named, key=lambda name: -by_name[name])


def test_evidence_against_right_models_is_an_e_value() -> None:
    """Mean of E where it is stopped: at most 1, judged by three standard errors."""
    found = audit(shops({f"{k:04}": 40 for k in range(1500)}, broken=10**9), SHOP)
    e = np.exp(found.streams["log_e"].to_numpy())
    assert e.mean() <= 1 + 3 * e.std() / math.sqrt(len(e))
    assert e.std() > 0.1
    assert found.alarms <= found.allowed == pytest.approx(75)


def test_the_json_has_everything_but_the_curves() -> None:
    found = audit(shops(), SHOP, currency="euros", lag=2)
    read = json.loads(found.to_json())
    assert read["streams"] == found.streams.to_dicts()
    assert (read["answer"], read["alarms"], read["unit"]) == (found.answer, found.alarms, "step")
    assert read["settings"]["lag"] == 2
    assert read["columns"]["order"] == "step"
    assert read["totals"]["guard"] == pytest.approx(found.streams["guard"].sum())
    assert gained(found) == gained(audit(shuffled(shops()), SHOP, currency="euros", lag=2))
