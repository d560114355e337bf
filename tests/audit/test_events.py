"""Since when, returns, episodes and missing times of an audit, beside backtests of the same log."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log, playing
from lowregret.audit.streams import streams_of
from lowregret.audit.times import TIMES, Steps, every_of, irregular, spelt

from ..audit_logs import SHOP, shuffled, written

LENGTHS = {f"s{i}": T for i, T in enumerate((400, 400, 390, 250, 400, 31, 1))}


def log_of():
    """Models that are wrong for a while, so that some return; some are wrong to the end."""
    rng, parts = np.random.default_rng(4), []
    for i, (name, T) in enumerate(LENGTHS.items()):
        wet = rng.beta(0.4, 0.4, T)
        came = rng.random(T) < wet
        begin, end = (30, 110) if i % 2 else (160, T if i == 2 else 160)
        came[begin:end] = rng.random(len(came[begin:end])) >= wet[begin:end]
        states = np.array(SHOP.states)[came.astype(int)]
        parts.append(
            pa.table({"stream": [name] * T, "step": np.arange(T), "state": states, "p_dry": 1 - wet, "p_wet": wet})
        )
    return pa.concat_tables(parts)


@pytest.mark.parametrize("episode", [None, 90, 1000])
def test_since_returns_and_episodes_are_those_of_a_backtest(tmp_path, episode):
    lr.rules.warm_up()  # the last bit depends on what is compiled
    table = log_of()
    path = written(shuffled(table), tmp_path / "log.parquet")
    found = audit_log(path, SHOP, delta=0.05, episode=episode)
    settings = {"temperature": 0, "likelihood": True}
    if episode == 90:
        rule = lr.ExactTest(SHOP, 90, 0.05 / 5, **settings)
        guard = lr.Guard(SHOP, 400, rule=rule, episode=90)
    else:
        guard = lr.Guard(SHOP, 400, rule=lr.ExactTest(SHOP, 400, 0.05, **settings))
    asked = lr.backtest(SHOP, table, guard=guard)
    assert found.alarms
    for one, other in zip(found.streams, asked.streams, strict=True):
        events = [event for event in asked.switches if event.stream == one.stream]
        switches = [event for event in events if isinstance(event, lr.Switch)]
        assert (one.stream, one.steps, one.switched_at) == (other.stream, other.steps, other.switched_at)
        assert (one.best_action, one.returns) == (other.best_action, other.returns)
        assert one.switches == len(switches)
        since = (switches[0].episode - 1) * (episode or 0) + switches[0].since if switches else None
        assert one.since == since
        assert one.episodes == (-(-one.steps // 90) if episode == 90 else 1)
        assert one.earned == pytest.approx(other.earned, abs=1e-11)
        assert (one.regret, one.v_regret) == pytest.approx((other.regret, other.v_regret), abs=1e-12)
        if episode == 90:
            values = asked.evidence(one.stream)[:, 0]
            ends = [values[at : at + 90] for at in range(0, len(values), 90)]
            level = np.log(max(1 / 0.05, len(LENGTHS) / 0.1) * 5)
            stopped = [next((v for v in part if v >= level), part[-1]) for part in ends]
            assert one.log_e == pytest.approx(np.log(np.mean(np.exp(stopped))), abs=1e-9)
    assert found.certificate.regret_bound == asked.certificate.regret_bound
    assert sum(one.switches for one in found.streams) > 1
    if episode is None:
        assert sum(one.returns for one in found.streams)
    quick = audit_log(path, SHOP, delta=0.05, episode=episode, events=False)
    for one, other in zip(quick.streams, found.streams, strict=True):
        assert one.earned == pytest.approx(other.earned, abs=1e-11)
        assert (one.switched_at, one.switches, one.log_e) == (other.switched_at, other.switches, other.log_e)
        assert (one.since, one.returns) == (None, None)
    for suspect in found.details if episode == 90 else ():
        values = asked.evidence(suspect["stream"])[:, 0]
        np.testing.assert_allclose(suspect["evidence"], values[np.array(suspect["steps"]) - 1], rtol=1e-9, atol=1e-9)


def test_the_table_says_so(tmp_path):
    path = written(log_of(), tmp_path / "log.parquet")
    found = audit_log(path, SHOP, delta=0.05, episode=90)
    switched, episodes = (sum(getattr(one, name) for one in found.streams) for name in ("switches", "episodes"))
    assert f"in {switched} of {episodes} episodes" in found.report()
    assert "returns to the model" in found.report()
    assert "returns to the model" not in audit_log(path, SHOP, events=False).report()


DAY = datetime.datetime(2026, 1, 1)  # a Thursday


def dated(days, unit="us", stream="a"):
    times = pa.array([DAY + datetime.timedelta(days=d) for d in days], pa.timestamp(unit))
    n = len(days)
    return pa.table({"stream": [stream] * n, "ds": times, "y": ["dry"] * n, "dry": [0.5] * n, "wet": [0.5] * n})


BUSINESS = [d for d in range(60) if (DAY + datetime.timedelta(days=d)).weekday() < 5]
MONTHLY = [(datetime.datetime(2026 + m // 12, 1 + m % 12, 1) - DAY).days for m in range(20)]


@pytest.mark.parametrize(
    ("days", "gaps", "every", "broken"),
    [
        (range(40), 0, "1d", "1w"),
        ([d for d in range(40) if d != 20], 1, "1d", None),
        (BUSINESS, 0, "1b", "1d"),
        (BUSINESS[:20] + BUSINESS[21:], 1, "1b", None),
        (MONTHLY, 0, "1mo", "30d"),
        (MONTHLY[:7] + MONTHLY[8:], 1, "1mo", None),
        ([d * 7 for d in range(20)], 0, "1w", "1mo"),
        ([d * d / 24 for d in range(20)], 0, "1h", None),  # no rhythm at all
        ([d / 24 for d in range(50)], 0, "1h", "30min"),
    ],
)
def test_times_that_are_missing(tmp_path, days, gaps, every, broken):
    table = pa.concat_tables([dated(list(days)), dated([0, 1, 2], stream="whole")])
    path = written(shuffled(table), tmp_path / "log.parquet")
    found, asked = audit_log(path, SHOP), lr.backtest(SHOP, table)
    assert found.gaps == (gaps, int(gaps > 0))
    assert found.warnings == asked.warnings
    assert any("not as far from the one before" in warning for warning in found.warnings) == (gaps > 0)
    alone = dated(list(days))
    if gaps or broken is None:
        with pytest.raises(lr.audit.Refused, match=rf"row \d+: a time of stream 'a' is missing .* must be {every}"):
            audit_log(written(alone, tmp_path / "alone.parquet"), SHOP, columns={"every": every})
    else:
        assert audit_log(written(alone, tmp_path / "alone.parquet"), SHOP, columns={"every": every}).steps == len(days)
    for wrong in filter(None, (broken,)):
        with pytest.raises(lr.audit.Refused, match=rf"must be {wrong}"):
            lr.backtest(SHOP, alone, columns={"every": wrong})


def test_rhythms_by_a_loop():
    rng = np.random.default_rng(0)
    stream = np.sort(rng.integers(0, 30, 400))
    hours = np.concatenate([np.cumsum(rng.choice([1, 1, 1, 2], (stream == i).sum())) for i in range(30)])
    asked, streams = 0, 0
    for i in range(30):
        apart = np.diff(hours[stream == i])
        if len(apart):
            most = max(np.sum(apart == value) for value in set(apart.tolist()))
            off = len(apart) - most if most >= len(apart) / 2 else 0
            asked, streams = asked + off, streams + (off > 0)
    assert irregular(stream, Steps(hours * 3600 * 10**9, np.zeros(400, dtype=np.int64), TIMES))[:2] == (asked, streams)


def test_units_of_files_may_differ(tmp_path):
    written(dated(range(5), "s"), tmp_path / "0.parquet")
    written(dated(range(5, 10), "ns"), tmp_path / "1.parquet")
    found = audit_log(tmp_path, SHOP, columns={"every": "1d"})
    assert (found.steps, found.gaps) == (10, (0, 0))
    written(dated([9], "ms"), tmp_path / "2.parquet")
    with pytest.raises(lr.audit.Refused, match=r"2.parquet, row 1: a time .* there twice, also in .*1.parquet, row 5"):
        audit_log(tmp_path, SHOP)


def test_files_without_a_column_of_steps_follow_each_other(tmp_path):
    table = dated(range(6)).drop_columns(["ds"])
    written(table, tmp_path / "0.parquet")
    written(table, tmp_path / "1.parquet")
    assert [one.steps for one in audit_log(tmp_path, SHOP).streams] == [12]


def test_what_is_said_of_times():
    assert spelt(0) == "1970-01-01"
    assert spelt(3_600_000_000_000) == "1970-01-01T01:00:00"
    assert spelt(1_500_000_000) == "1970-01-01T00:00:01.5"
    for bad in ("d", "0d", "1.5h", "1y", "-1d", 1, None, "1d ", "\u0661d"):
        with pytest.raises(ValueError, match="every must be a whole number of s, min, h"):
            every_of(bad)
    table = dated(range(3)).set_column(1, "step", pa.array([1, 2, 3]))
    with pytest.raises(lr.audit.Refused, match=r"every 1d needs times, and the steps \(step\) are whole numbers"):
        lr.backtest(SHOP, table, columns={"every": "1d"})


def test_what_follows_an_alarm_is_compiled_and_the_same(monkeypatch):
    """Right, wrong and right again, or against whatever is advised: returns, second farewells and safe play."""
    pytest.importorskip("numba")
    lr.rules.warm_up()
    told, begun, over = set(), 0, 0
    for case, seed in enumerate((0, 1, 4, 6, 8, 10, 11, 1, 6, 11)):
        rng = np.random.default_rng(seed)
        A, S, T = rng.integers(2, 4), rng.integers(2, 4), int(rng.integers(150, 700))
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (A, S)))
        laws = rng.dirichlet(np.full(S, 0.7), (3, T))
        came = (rng.random((3, T, 1)) > np.cumsum(laws, axis=-1)[..., :-1]).sum(axis=-1)
        begin, end = T // 6, T // 3
        came[:, begin:end] = rng.permutation(S)[came[:, begin:end]]
        if seed % 3 == 0:
            came[:, begin:] = (laws[:, begin:].argmax(axis=-1) + rng.integers(1, S, (3, T - begin))) % S
        recording = streams_of(problem, laws, lr.problems.Positions(came))
        fallback = lr.Recovery(budget=0.2 if case % 4 else 0.5)  # a small one is spent soon
        settings = {"delta": 0.2, "temperature": (0.0, 0.05)[case > 6], "fallback": fallback}
        guard = lr.Guard(problem, (None, T)[case == 2], **settings)
        (block,) = recording.blocks()
        with monkeypatch.context() as patch:
            found = playing.play(guard, block)
            quiet = playing.play(guard, block, live=False)
            patch.setattr(playing.Recovering, "played_after", lambda *_: None)
            loop = playing.play(guard, block)
        np.testing.assert_array_equal(found.trips_N, loop.trips_N)
        np.testing.assert_allclose(found.paid["guard"], loop.paid["guard"], atol=1e-12)
        np.testing.assert_allclose(found.paid["fallback"], loop.paid["fallback"], atol=1e-12)
        np.testing.assert_allclose(quiet.paid["guard"], loop.paid["guard"], atol=1e-12)
        np.testing.assert_allclose(found.share_NxT, loop.share_NxT, atol=1e-12)
        for (row, event), (other, same) in zip(_sorted(found.events), _sorted(loop.events), strict=True):
            told.add(type(event).__name__)
            assert (row, str(event), event.step, event.since if hasattr(event, "since") else None) == (
                *(other, str(same), same.step),
                same.since if hasattr(same, "since") else None,
            )
        turns = np.diff((found.share_NxT == 0).astype(int), axis=1)
        begun, over = begun + int((turns == 1).sum()), over + int((turns == -1).sum())
    assert told == {"Switch", "Return", "Left"}
    assert (begun > 5, over > 2) == (True, True)  # stretches of safe play


def _sorted(events):
    return sorted(events, key=lambda pair: (pair[0], pair[1].step))
