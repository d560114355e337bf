"""Audits of logs beside backtests of the same arrays; divided, shuffled and spilt to the disk they are the same."""

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret import files
from lowregret.audit import YARDSTICKS, audit_log, report, spool, tables
from lowregret.audit.page import page

from ..audit_logs import SHOP, shuffled, table_of, written

LENGTHS = {f"shop {i}": 90 + 10 * (i % 4) for i in range(11)} | {"short": 1}


def numbers(found):
    """All that was found, but for the names, the sizes and the order of the files."""
    about = {name: value for name, value in found.about.items() if name != "log"}
    return json.dumps([about, found.parts, found.earned, found.survivors, [one._asdict() for one in found.streams]])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_log_of_a_robust_stream_is_reproduced(tmp_path, suffix):
    problem, T = lr.matching(), 200
    base = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
    robust = lr.robustify(base, problem, T)
    tokens = np.concatenate([lr.sample(base, 100, 3, seed=0), np.arange(300).reshape(3, 100) % 2], 1)
    probs = base.predict_sequence(tokens)
    columns = {"stream": np.repeat(np.arange(3), T), "step": np.tile(np.arange(T), 3), "state": tokens.ravel()}
    log = pa.table({**columns, "p_0": probs[..., 0].ravel(), "p_1": probs[..., 1].ravel()})
    path = written(shuffled(log), tmp_path / f"log{suffix}")
    found = audit_log(path, problem, delta=1 / T, temperature=T**-0.5)
    trips = robust.alarm_times(tokens)
    assert (trips <= T).any()
    regret = lr.external_regret(problem, robust.respond(), tokens)[:, -1]
    for i, one in enumerate(found.streams):
        assert one.stream == str(i)
        assert (one.switched_at or T + 1) == trips[i]
        assert one.regret == pytest.approx(regret[i], abs=1e-13)
    guard = lr.Guard(problem, test=lr.ExactTest(1 / T, T), response=lr.QuantalResponse())
    assert found.certificate.regret_bound == pytest.approx(guard.certificate.regret_bound)


@pytest.mark.parametrize(("delta", "temperature"), [(0.05, 0.0), (0.01, 0.1)])
def test_every_stream_is_backtested(tmp_path, delta, temperature):
    table = table_of(LENGTHS)
    found = audit_log(written(table, tmp_path / "log.parquet"), SHOP, delta=delta, temperature=temperature)
    response = lr.QuantalResponse(temperature) if temperature else lr.BestResponse()
    asked = lr.backtest(lr.Guard(SHOP, test=lr.ExactTest(delta, max(LENGTHS.values())), response=response), table)
    assert found.alarms
    assert found.earned == pytest.approx(asked.earned)
    assert found.warnings == asked.warnings
    for one, other in zip(found.streams, asked.streams, strict=True):
        assert one[:2] == other[:2]
        assert one.earned == pytest.approx(other.earned)
        assert (one.best_action, one.switched_at) == (other.best_action, other.switched_at)
        assert one.regret == pytest.approx(other.regret)
        log_e = asked.evidence(one.stream)[:, 0]
        level = math.log(max(1 / 0.01, len(LENGTHS) / 0.1))  # where it is stopped, or at the end
        assert one.log_e == pytest.approx(next((value for value in log_e if value >= level), log_e[-1]), abs=1e-9)
    steps, curves = found.curves()
    for name, line in curves.items():
        assert line[-1] == pytest.approx(sum(one.steps * one.earned[name] for one in found.streams))
    assert steps[-1] == max(LENGTHS.values())
    for one in found.details:
        values = asked.evidence(one["stream"])[:, 0]
        np.testing.assert_allclose(one["evidence"], values[np.array(one["steps"]) - 1], rtol=1e-9, atol=1e-12)
    assert {one["stream"] for one in found.details} == {one.stream for one in found.streams}
    alarms = {one["stream"]: [step for what, step, _ in one["marks"] if what == "alarm"] for one in found.details}
    assert alarms == {one.stream: [one.switched_at] if one.switched_at else [] for one in found.streams}


def test_a_column_that_is_added_stands_beside_the_others(tmp_path, monkeypatch):
    monkeypatch.setitem(YARDSTICKS, "always open", lambda guard, block, utility_AxNxT: utility_AxNxT[0])
    table = table_of(LENGTHS)
    wet = np.array(table.column("state")) == "wet"
    found = audit_log(written(table, tmp_path / "log.parquet"), SHOP)
    names = ["model", "guard", "fallback", "Hedge", "last outcome", "always open", report.BEST]
    assert list(found.earned) == names
    assert found.earned["always open"] == pytest.approx(np.where(wet, -20, 100).mean())
    assert '"always open":"#999999"' in page(found)
    probs = np.stack([table.column("p_dry"), table.column("p_wet")], axis=1)
    backtest = lr.backtest(SHOP, probs, np.where(wet, "wet", "dry"))
    assert list(backtest.earned) == names
    assert backtest.earned["always open"] == pytest.approx(found.earned["always open"])


def test_rows_in_any_order_and_place(tmp_path, monkeypatch):
    table = table_of(LENGTHS)
    whole = numbers(audit_log(written(table, tmp_path / "log.parquet"), SHOP))
    assert numbers(audit_log(written(shuffled(table), tmp_path / "other.parquet"), SHOP)) == whole
    folder = tmp_path / "folder"
    folder.mkdir()
    mixed = shuffled(table, 7)
    for i in range(3):
        written(mixed.slice(i * 400, 400), folder / f"{i}.parquet")
    assert numbers(audit_log(folder, SHOP)) == whole
    monkeypatch.setattr(tables, "_PART", 100)
    monkeypatch.setattr(tables, "_BATCH", 64)
    monkeypatch.setattr(spool, "HELD", 1000)
    assert numbers(audit_log(folder, SHOP, jobs=1)) == whole


def test_several_processes_from_the_disk(tmp_path, monkeypatch):
    path = written(table_of(LENGTHS), tmp_path / "log.parquet")
    monkeypatch.setattr(spool, "HELD", 1000)
    heard = []
    found = audit_log(path, SHOP, told=lambda *said: heard.append(said))
    assert numbers(found) == numbers(audit_log(path, SHOP, jobs=1))
    rows = sum(LENGTHS.values())
    assert heard[-1] == ("judging", rows, rows)
    assert max(said for said in heard if said[0] == "reading")[1] == rows


def test_delta_over_all_streams(tmp_path):
    path = written(table_of(LENGTHS), tmp_path / "log.parquet")
    found, family = audit_log(path, SHOP, delta=0.03), audit_log(path, SHOP, delta=0.03, family_delta=True)
    assert found.allowed == pytest.approx(0.03 * 12)
    assert family.about["delta"] == pytest.approx(0.03 / 12)
    assert family.allowed == pytest.approx(0.03)
    assert 0 < family.alarms <= found.alarms
    for one in found.streams:
        other = next(o for o in family.streams if o.stream == one.stream)
        assert other.switched_at is None or one.switched_at <= other.switched_at
    assert audit_log(path, SHOP, horizon=500).certificate.horizon == 500
    with pytest.raises(ValueError, match="horizon must last for the longest stream, 120 steps, got 100"):
        audit_log(path, SHOP, horizon=100)


def test_e_bh_by_its_definition():
    rng = np.random.default_rng(0)
    for streams, level in itertools.product((1, 4, 9), (0.05, 0.3)):
        for _ in range(50):
            e = np.exp(rng.normal(1.5, 2, streams))
            allowed = [k for k in range(1, streams + 1) if sorted(e)[-k] >= streams / (level * k)]
            named = sorted(map(str, np.argsort(-e)[: max(allowed, default=0)]))
            found = report.e_bh([(math.log(v), str(i)) for i, v in enumerate(e)], streams, level)
            assert sorted(found) == named


def test_evidence_of_right_models_is_an_e_value(tmp_path):
    """Mean of E where it is stopped: at most 1, judged by three standard errors."""
    table = table_of({f"{i:04}": 40 for i in range(1500)}, broken=10**9)
    found = audit_log(written(table, tmp_path / "log.parquet"), SHOP, delta=0.05, fallback=False)
    e = np.exp([one.log_e for one in found.streams])
    assert e.mean() <= 1 + 3 * e.std() / math.sqrt(len(e))
    assert e.std() > 0.1
    assert found.alarms <= 0.05 * 1500


def spoilt(change):
    table = table_of({"a": 5, "b": 4}).to_pydict()
    change(table)
    return pa.table(table)


def put(column, row, value):
    return lambda table: table[column].__setitem__(row, value)


REFUSALS = {
    "missing step": (put("step", 4, 9), "row 5: step 7 of stream 'a' is missing: 6 is followed by 9"),
    "twice": (put("step", 4, 6), "row 5: step 6 of stream 'a' is there twice, also in row 4"),
    "NaN": (put("p_wet", 6, float("nan")), "row 7: a probability is missing or not a number"),
    "state": (
        put("state", 2, "snow"),
        r"row 3: the state \(state\) must be one of the states 'dry', 'wet', got 'snow'",
    ),
    "sum": (lambda t: t["p_wet"].__setitem__(1, t["p_wet"][1] + 1e-4), r"row 2: .* sum to 1.0001 \(tolerance 1e-06\)"),
    "null": (put("p_dry", 0, None), "row 1: a probability is missing or not a number"),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_log_is_refused_with_file_row_and_reason(tmp_path, name, suffix):
    change, says = REFUSALS[name]
    path = written(spoilt(change), tmp_path / f"log{suffix}")
    with pytest.raises(lr.audit.Refused, match=rf"log{suffix}, {says}"):
        audit_log(path, SHOP)


def test_rows_within_a_tolerance_are_renormalised_and_counted(tmp_path):
    table = spoilt(REFUSALS["sum"][0])
    found = audit_log(written(table, tmp_path / "log.csv"), SHOP, tolerance=1e-3)
    assert found.about["renormalised"] == 1
    assert "1 rows did not sum to one and were renormalised" in found.warnings
    with pytest.raises(lr.audit.Refused, match="row 2"):
        audit_log(tmp_path / "log.csv", SHOP, tolerance=1e-5)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "", "it is empty"),
        ("a.csv", "stream,step,state,p_dry,p_wet\n", "it has no rows"),
        ("a.csv", "stream,step,state,p_dry,p_wet\na,1,dry,0.5\n", r"row 1: .*Expected 5 columns, got 4"),
        ("a.csv", "stream,step,state,p_dry,p_wet\na,1,dry,.5,.5\na,2,dry,much,.5\n", "row 2: .*invalid value 'much'"),
        ("a.csv", "stream,step,p_dry,p_wet\na,1,.5,.5\n", "there must be a column of states"),
        ("a.csv", b"stream,step\xff\n", "not CSV in UTF-8"),
        ("a.csv", b"stream,step,state,p_dry,p_wet\n\xff,1,dry,.5,.5\n", "not CSV in UTF-8"),
        ("a.parquet", "PAR1 it is not", "it is not a Parquet file"),
    ],
)
def test_files_that_are_no_logs(tmp_path, name, text, says):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(lr.audit.Refused, match=says):
        audit_log(tmp_path / name, SHOP)


def test_times_and_other_columns(tmp_path):
    text = "unique_id,ds,y,dry,wet\n" + "".join(
        f"s,2026-01-{d:02} 07:00:00,{SHOP.states[d % 2]},0.25,0.75\n" for d in (9, 3, 5, 4)
    )
    (tmp_path / "log.csv").write_text(text)
    found = audit_log(tmp_path / "log.csv", SHOP)
    assert [(one.stream, one.steps) for one in found.streams] == [("s", 4)]
    (tmp_path / "log.csv").write_text(text + "s,2026-01-05 07:00:00,dry,0.25,0.75\n")
    with pytest.raises(lr.audit.Refused, match="row 5: a time of stream 's' is there twice, also in row 3"):
        audit_log(tmp_path / "log.csv", SHOP)


def test_a_step_for_all_rows_is_refused_at_once(tmp_path, monkeypatch):
    """A small file may have any number of rows: they are not gathered to see that they are all one step."""
    monkeypatch.setattr(tables, "_BATCH", 64)
    n = 5000
    columns = {"stream": ["a"] * n, "state": ["dry"] * n, "p_dry": [0.5] * n, "p_wet": [0.5] * n}
    for name, steps in (("step", [7] * n), ("ds", [np.datetime64("2026-01-01", "us")] * n), ("t", np.arange(n) // 999)):
        path, heard = written(pa.table({**columns, name: steps}), tmp_path / f"{name}.parquet"), []
        says = "row 2: (step 7|step 0|a time) of stream 'a' is there twice, also in row 1"
        with pytest.raises(lr.audit.Refused, match=says):
            audit_log(path, SHOP, jobs=1, told=lambda what, *rows, heard=heard: heard.append(rows))
        assert not heard


def test_what_cannot_be_held_is_refused_by_the_number_of_rows(tmp_path, monkeypatch):
    table = table_of({"a": 3000, "b": 30})
    many, alone = (
        written(t, tmp_path / f"{i}.parquet")
        for i, t in enumerate((table, table.slice(0, 3000).drop_columns(["stream"])))
    )
    heard = []
    monkeypatch.setattr(files.reading, "memory", lambda: 1e6)
    with pytest.raises(lr.audit.Refused, match=r"1.parquet: a stream of 3,000 steps takes .* more than the memory"):
        audit_log(alone, SHOP, told=lambda *said: heard.append(said))
    assert not heard
    with pytest.raises(lr.audit.Refused, match=r"0.parquet: a stream of 3,000 steps takes .* more than the memory"):
        audit_log(many, SHOP, told=lambda *said: heard.append(said))
    assert {said[0] for said in heard} == {"reading"}
    monkeypatch.setattr(files.reading, "memory", lambda: 1e9)
    assert audit_log(many, SHOP).steps == 3030
    monkeypatch.setattr(spool, "HELD", 1000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=50_000))
    heard.clear()
    with pytest.raises(lr.audit.Refused, match=r"0.parquet: a copy of 3,030 rows takes .* MiB left"):
        audit_log(many, SHOP, told=lambda *said: heard.append(said))
    assert not heard
