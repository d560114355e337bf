"""The audit as an answer: every number beside a few lines of NumPy and a literal loop, with outcomes that were late."""

import datetime
import json
import math
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import answer, audit_log
from lowregret.audit.judging import seeming_lag
from lowregret.certificates.coupled import late_factor
from lowregret.problems import currency_in, payoffs_in

from ..audit_logs import PAYOFFS, SHOP, broken, table_of, written
from ..cli.test_audit import payoffs, run  # noqa: F401
from ..plain_guard import PlainGuard

MONEY_AxS = np.array([[100.0, -20.0], [0.0, 0.0]])
BEGIN = datetime.date(2026, 1, 1)
DELTA = 0.05


def log_of(T=200, streams=2, seed=0, late=None):
    """Streams by day whose models are turned round half way; ``late(rng, t)``: days after which an outcome is known."""
    rng, parts = np.random.default_rng(seed), []
    for b in range(streams):
        wet = rng.beta(1, 1.2, T)
        came = rng.random(T) < np.where(np.arange(T) < T // 2, wet, 1 - wet)
        days = [BEGIN + datetime.timedelta(days=t) for t in range(T)]
        columns = {"stream": f"town {b}", "ds": days, "y": np.where(came, "wet", "dry"), "p_dry": 1 - wet, "p_wet": wet}
        frame = pd.DataFrame(columns)
        if late is not None:
            frame["known"] = [day + datetime.timedelta(days=int(late(rng, t))) for t, day in enumerate(days)]
        parts.append(frame)
    return pd.concat(parts)


def plain_classes(late, horizon):
    """A plain guard for each class of steps ``late`` apart; where there are several, none has an alarm of its own."""
    classes = [PlainGuard(SHOP.utility.tolist(), DELTA / late_factor(late), -(-horizon // late)) for _ in range(late)]
    for one in classes[: late if late > 1 else 0]:
        one.delta = 1e-300
    return classes


def by_hand(frame, lag=None, horizon=200):
    """What everyone earned by stream, in a few lines; the guard step by step, told what was known."""
    found = {}
    for name, own in frame.groupby("stream"):
        laws, came = own[["p_dry", "p_wet"]].to_numpy(), (own["y"] == "wet").to_numpy().astype(int)
        T, paid_TxA = len(came), MONEY_AxS[:, came].T
        late = lag
        if late is None:  # as the column says: a step hears what was known before its day
            days, known = list(own["ds"]), list(own["known"])
            heard = [[s for s in range(t) if known[s] < days[t]] for t in range(T)]
            late = max(t - s for t in range(T) for s in range(t + 1) if t == s or s not in heard[t]) + 1
        else:
            heard = [list(range(t - late + 1)) for t in range(T)]
        model = paid_TxA[np.arange(T), (laws @ MONEY_AxS.T).argmax(axis=1)]
        last = [paid_TxA[t].mean() if t < late else paid_TxA[t, paid_TxA[t - late].argmax()] for t in range(T)]
        classes, guard, seen, alarm = plain_classes(late, horizon), 0.0, set(), None
        for t in range(T + 1):
            for s in heard[t] if t < T else range(T):
                if s not in seen:
                    classes[s % late].observe(int(came[s]))
                    seen.add(s)
                    capital = np.mean([math.exp(one.evidence) for one in classes])
                    alarm = t if alarm is None and capital >= late_factor(late) / DELTA else alarm
            if t < T:
                classes[t % late].alarmed = alarm is not None
                guard += np.array(classes[t % late].advise(laws[t].tolist())) @ paid_TxA[t]
        earned = {"model": model.sum(), "guard": guard, "last outcome": sum(last)}
        earned["best fixed action"] = paid_TxA.sum(axis=0).max()
        since = next((since for what, _, since in classes[0].events if what == "alarm"), None)
        found[name] = earned, alarm, late, since
    return found


LATE = {
    "at once": (None, {}),
    "as was said": (None, {"lag": 3}),
    "some days later": (lambda rng, t: rng.integers(0, 3), {"columns": {"known_at": "known"}}),
    "now and then": (lambda rng, t: 2 if t % 17 == 5 else 0, {"columns": {"known_at": "known"}}),
}


@pytest.mark.parametrize("which", LATE)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_number_is_that_of_a_few_lines(tmp_path, which, suffix):
    late, settings = LATE[which]
    frame = log_of(late=late)
    path = written(
        pa.Table.from_pandas(frame.sample(frac=1, random_state=0), preserve_index=False), tmp_path / f"log{suffix}"
    )
    found = audit_log(path, SHOP, currency="$", **settings)
    asked = {}
    for name in ("town 0", "town 1"):
        asked |= by_hand(frame[frame["stream"] == name], None if "columns" in settings else settings.get("lag", 1))
    assert found.alarms == sum(at is not None for _, at, _, _ in asked.values()) > 0
    for one in found.streams:
        earned, switched_at, lag, since = asked[one.stream]
        assert (one.switched_at, one.lag) == (switched_at, lag)
        for player, total in earned.items():
            assert one.steps * one.earned[player] == pytest.approx(total, abs=1e-6), player
        if switched_at is not None:
            day = BEGIN + datetime.timedelta(days=switched_at - 1)
            assert one.switched_time == day.isoformat()
            assert one.lost_to in ("open", "shut", "recent frequencies")
            assert one.since == since or lag > 1
    totals = {player: sum(earned[player] for earned, *_ in asked.values()) for player in ("model", "guard")}
    span = "400 days of 2 streams, 1 January 2026 to 19 July 2026"
    gain = dollars(totals["guard"] - totals["model"], "+")
    said = f"Acting on the model as you do: {dollars(totals['model'])} in {span}. Guarded: {dollars(totals['guard'])} "
    said += f"({gain}). It would have left the model in {found.alarms} of 2 streams, most clearly in"
    assert found.answer.startswith(said)
    assert found.answer.endswith("; chance of a false alarm 1 in 20 in each stream.")
    told = json.loads(found.to_json())
    assert told["answer"] == found.answer
    assert told["totals"]["guard"] == pytest.approx(totals["guard"])
    assert (told["first"], told["last"], told["unit"]) == ("2026-01-01", "2026-07-19", "day")


def dollars(value, plus=""):
    return f"{'-' if value < 0 else plus}${abs(value):,.0f}"


def test_one_stream_is_told_in_the_singular(tmp_path, payoffs):  # noqa: F811
    frame = log_of(streams=1).drop(columns="stream")
    frame.to_csv(tmp_path / "log.csv", index=False)
    ((earned, at, _, since),) = by_hand(frame.assign(stream="a"), 1).values()
    done = run(tmp_path / "log.csv", "--payoffs", payoffs, "--out", tmp_path / "out")
    left, began = (BEGIN + datetime.timedelta(days=step - 1) for step in (at, since))
    whom = json.loads((tmp_path / "out" / "audit.json").read_text())["streams"][0]["lost_to"]
    assert done.output.splitlines()[0] == (
        f"Acting on the model as you do: {earned['model']:,.0f} euros in 200 days, 1 January 2026 to 19 July 2026. "
        f"Guarded: {earned['guard']:,.0f} euros ({earned['guard'] - earned['model']:+,.0f} euros). It would have left "
        f"the model on {left.day} {left:%B %Y}, {(left - began).days} days after it began to lose to {whom} "
        f"(on {began.day} {began:%B %Y}); chance of a false alarm 1 in 20. At the end of the log it did not follow the "
        "model."
    )
    assert " streams" not in done.output
    rows = {line.split("  ")[0]: line.split()[-2:] for line in done.output.splitlines()}
    for player, total in earned.items():
        assert rows[player] == [f"{total:,.0f}", f"{total / 200:.2f}"]
    for line in ("      dry  wet", "open  100  -20", "shut    0    0"):
        assert line in done.output.splitlines()
    for words in (
        "lag 1",
        "all rows one stream",
        "in order of ds",
        "temperature 0",
        "delta 0.05",
        "log.csv",
        "shop.csv",
    ):
        assert words in done.output
    frame.head(60).to_csv(tmp_path / "calm.csv", index=False)
    done = run(tmp_path / "calm.csv", "--payoffs", payoffs, "--out", tmp_path / "out", "--currency", "$")
    ((earned, at, _, _),) = by_hand(frame.head(60).assign(stream="a"), 1, 60).values()
    assert at is None
    assert done.output.splitlines()[0] == (
        f"Acting on the model as you do: {dollars(earned['model'])} in 60 days, 1 January 2026 to 1 March 2026. "
        "Guarded: the same. It would not have left the model; chance of a false alarm 1 in 20."
    )


@pytest.mark.parametrize("again", [100, 3])
def test_the_answer_says_whether_the_model_was_followed_at_the_end(again):
    """Right, wrong for 60 days, and right again for a hundred days or three: as a guard that runs has it."""
    random = np.random.default_rng(3)
    right, wrong = random.random(100 + again) < 0.9, random.random(60) < 0.1
    came = np.concatenate([right[:100], wrong, right[100:]]).astype(int)
    frame = pd.DataFrame({"ds": np.arange(1, len(came) + 1), "y": came, "p_0": 0.1, "p_1": 0.9})
    guard = lr.Guard(lr.matching())
    for state in came.tolist():
        guard.advise([0.1, 0.9])
        guard.observe(state)
    ends = {lr.Return: "At the end of the log it followed the model again."}
    found = audit_log(frame, lr.matching())
    assert found.answer.endswith(ends.get(type(guard.events[-1]), "At the end of the log it did not follow the model."))
    assert isinstance(guard.events[-1], lr.Return) == (again == 100)


def test_a_guard_that_plays_at_random_is_not_the_same_without_an_alarm(tmp_path):
    frame = log_of(streams=1).head(60)
    path = written(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "log.parquet")
    found = audit_log(path, SHOP, currency="$", temperature=0.2)
    laws, came = frame[["p_dry", "p_wet"]].to_numpy(), (frame["y"] == "wet").to_numpy().astype(int)
    play_TxA = np.exp(laws @ SHOP.utility.T / 0.2)
    play_TxA /= play_TxA.sum(axis=1, keepdims=True)
    guard = (play_TxA * MONEY_AxS[:, came].T).sum()
    assert found.totals["guard"] == pytest.approx(guard)
    gain = dollars(guard - found.totals["model"], "+")
    assert f"Guarded: {dollars(guard)} ({gain}). It would not have left the model; chance" in found.answer


def test_a_frame_says_when_outcomes_were_known():
    frame = log_of(late=lambda rng, t: rng.integers(0, 3))
    assert lr.backtest(SHOP, frame, columns={"known_at": "known"}, fallback=False).guard.lag == 3
    guard = lr.Guard(SHOP, test=lr.ExactTest(DELTA, 200), lag=3)
    found = lr.backtest(guard, frame, columns={"known_at": "known"}, fallback=False)
    for one, (earned, switched_at, _, _) in zip(found.streams, by_hand(frame).values(), strict=True):
        assert one.switched_at == switched_at
        assert one.steps * one.earned["guard"] == pytest.approx(earned["guard"], abs=1e-6)
    with pytest.raises(ValueError, match="guard must have a lag of 3"):
        lr.backtest(lr.Guard(SHOP, lag=2), frame, columns={"known_at": "known"})


@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_a_lag_goes_with_the_other_settings(tmp_path, temperature):
    table = table_of({"a": 90, "b": 110, "c": 120, "d": 4})
    path = written(table, tmp_path / "log.parquet")
    found = audit_log(path, SHOP, lag=2, temperature=temperature)
    response = lr.QuantalResponse(temperature) if temperature else lr.BestResponse()
    guard = lr.Guard(SHOP, test=lr.ExactTest(DELTA, 120), response=response, lag=2)
    asked = lr.backtest(guard, table)
    assert found.earned == pytest.approx(asked.earned)
    assert [one.switched_at for one in found.streams] == [one.switched_at for one in asked.streams]
    assert found.certificate.regret_bound == guard.certificate.regret_bound


def test_evidence_of_late_outcomes_is_the_average_over_classes(tmp_path):
    table, d = broken(400), 3
    found = audit_log(written(table, tmp_path / "log.parquet"), SHOP, lag=d)
    (one,) = found.details
    asked = lr.backtest(lr.Guard(SHOP, test=lr.ExactTest(DELTA, 400), lag=d), table).evidence("a")
    steps = np.array(one["steps"])
    known = steps > d - 1  # until then nothing was
    np.testing.assert_allclose(np.array(one["evidence"])[known], asked[steps[known] - d, 0], rtol=1e-9, atol=1e-12)
    assert one["threshold"] == pytest.approx(asked[0, 1])
    laws, came = (
        np.stack([table.column("p_dry"), table.column("p_wet")], axis=1),
        np.array(table.column("state")) == "wet",
    )
    each = []
    for k, plain in enumerate(plain_classes(d, 400)):
        each.append([])
        for law, wet in zip(laws[k::d].tolist(), came[k::d], strict=True):
            plain.advise(law)
            plain.observe(int(wet))
            each[-1].append(plain.evidence)
    level = math.log(d / DELTA)  # a class stops by itself, where the average of all of them would reach 1/delta
    stopped = [next((value for value in own if value >= level), own[-1]) for own in each]
    assert found.streams[0].log_e == pytest.approx(np.log(np.mean(np.exp(stopped))), abs=1e-9)


# What is warned of


def wet_days(T, days, seed):
    """Whether it rains in the coming so many days, foretold by the climate."""
    rng = np.random.default_rng(seed)
    rains = rng.random(T + days - 1) < 0.25
    wet = np.convolve(rains, np.ones(days), "valid") > 0
    p_wet = np.clip(1 - 0.75**days + rng.normal(0, 0.1, T), 0.02, 0.98)
    times = pd.date_range("2025-01-01", periods=T)
    return pd.DataFrame({"ds": times, "y": np.where(wet, "wet", "dry"), "p_dry": 1 - p_wet, "p_wet": p_wet})


PROTECT = "$,dry,wet\nprotect,-20,-20\nwait,0,-40\n"


def test_a_lag_that_nobody_said(tmp_path):
    (tmp_path / "stakes.csv").write_text(PROTECT)
    frame = wet_days(600, 3, 5)
    frame["known"] = frame["ds"] + pd.Timedelta(days=2)  # the third of the days
    frame.to_csv(tmp_path / "log.csv", index=False)
    problem = payoffs_in(tmp_path / "stakes.csv")
    found, then = (audit_log(tmp_path / "log.csv", problem, currency="$", lag=lag) for lag in (None, 3))
    (one,) = found.streams
    assert (one.seems, one.then) == (3, pytest.approx(then.earned["guard"]))
    assert found.earned["guard"] != pytest.approx(then.earned["guard"])
    (said,) = [warning for warning in found.warnings if "are alike" in warning]
    assert said.startswith("the model's errors are alike up to 2 days apart, more than chance explains")
    told = [f"-${-each.totals['guard']:,.0f} ({each.earned['guard']:.2f} a day)" for each in (then, found)]
    assert f"with a lag of 3 the guard would have earned {told[0]}, not {told[1]}" in said
    for settings in ({"lag": 1}, {"lag": 3}, {"columns": {"known_at": "known"}}):
        again = audit_log(tmp_path / "log.csv", problem, **settings)
        assert not any("are alike" in warning for warning in again.warnings)
    assert again.earned == then.earned
    quick = audit_log(tmp_path / "log.csv", problem, events=False).warnings
    assert any("with a lag of 3 the result may be another" in warning for warning in quick)


def test_errors_are_not_said_to_be_late_by_chance_or_where_a_model_is_wrong():
    rng, T, often, wrong = np.random.default_rng(0), 300, 0, 0
    for _ in range(400):
        laws = rng.dirichlet([1, 1, 1], T)
        came = (rng.random((T, 1)) > np.cumsum(laws, axis=1)).sum(axis=1)
        often += seeming_lag(laws, came, 3.09) is not None
        biased = np.where((np.arange(T) >= T // 2) & (rng.random(T) < 0.7), 0, came)  # from half way on
        wrong += seeming_lag(laws, biased, 3.09) is not None
    assert often <= 4  # of 400 with a chance of 0.001 each: more than 4 have one of 1e-4
    assert wrong <= 60  # its errors are alike, and as much so further back
    for days in (2, 4):
        seen = [
            seeming_lag(frame[["p_dry", "p_wet"]].to_numpy(), (frame["y"] == "wet").to_numpy().astype(int), 3.09)
            for frame in (wet_days(1500, days, seed) for seed in range(20))
        ]
        assert np.median(np.array(seen, dtype=float)) == days


def test_outcomes_of_probability_0(tmp_path):
    frame = log_of(T=80, streams=1)
    frame["p_dry"], frame["p_wet"] = 0.5, 0.5
    sure = [10, 20, 30]
    frame.loc[sure, ["p_dry", "p_wet"]] = np.where(frame.loc[sure, ["y"]].to_numpy() == "wet", [1.0, 0.0], [0.0, 1.0])
    path = written(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "log.parquet")
    found = audit_log(path, SHOP)
    assert any(
        warning.startswith("the model had given probability 0 to 3 outcomes that came") for warning in found.warnings
    )
    (one,), (detail,) = found.streams, found.details
    assert (one.excluded, one.switched_at, one.since) == (3, 11, None)
    assert "on 11 January 2026, when something came that it had given probability 0; chance" in found.answer
    assert np.isfinite(detail["evidence"]).all()  # the page draws it at the edge: test_page.py
    json.loads(found.to_json(), parse_constant=lambda name: pytest.fail(name))


def test_rows_that_are_counted_are_no_streams(tmp_path):
    table = broken(90)
    keyed = table.append_column("id", pa.array(np.arange(90) // 2))  # two files, each counted from 0
    found = audit_log(written(keyed.drop_columns(["stream"]), tmp_path / "log.parquet"), SHOP)
    assert any(re.search("45 streams of 2 steps each.*--stream none", warning) for warning in found.warnings)
    whole = audit_log(tmp_path / "log.parquet", SHOP, columns={"stream": "none"})
    assert not any("--stream none" in warning for warning in whole.warnings)


def test_a_model_that_is_worse_than_the_last_outcome_again(tmp_path):
    states = np.repeat(["dry", "wet"], 30)
    table = pa.table({"step": np.arange(60), "state": states, "p_dry": [0.1] * 60, "p_wet": [0.9] * 60})
    found = audit_log(written(table, tmp_path / "log.csv"), SHOP)
    again = (50 + 29 * 100 - 20 + 29 * 0) / 60  # the first is any alike
    assert found.earned["last outcome"] == pytest.approx(again)
    says = f"the model earned {again:.4g} a step less than doing what would have been best the last time"
    assert says in found.warnings


# What is refused, and where the currency is from


def test_when_outcomes_were_known_is_said_as_steps_are(tmp_path, payoffs):  # noqa: F811
    frame = log_of(T=40, late=lambda rng, t: -1 if t == 7 else 1)
    path = written(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "log.parquet")
    found = audit_log(path, SHOP, columns={"known_at": "known"})
    assert any(
        w.startswith("by known the outcomes of 2 steps were known before the step itself") for w in found.warnings
    )
    done = run(path, "--payoffs", payoffs, "--known-at", "known", "--out", tmp_path / "out")
    assert "outcomes known when known says, up to 2 steps late" in done.output
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["totals"] == found.totals
    for columns, says in (
        ({"known_at": "p_dry"}, "must be a whole number or a time"),
        ({"known_at": "stream"}, "must be a whole number, or a time"),
        ({"known_at": "nowhere"}, "the known_at column must be one of"),
    ):
        with pytest.raises(ValueError, match=says):
            audit_log(path, SHOP, columns=columns)
    with pytest.raises(ValueError, match="lag or known_at says how late outcomes were, not both"):
        audit_log(path, SHOP, lag=2, columns={"known_at": "known"})
    counted = pa.Table.from_pandas(frame.assign(n=1), preserve_index=False)
    with pytest.raises(
        lr.audit.Refused, match=r"known .n. must be given as steps are, which are times without a zone, got"
    ):
        audit_log(written(counted, tmp_path / "n.parquet"), SHOP, columns={"known_at": "n"})
    unordered = counted.drop_columns(["ds"])
    with pytest.raises(ValueError, match="known_at='n' needs a column of steps or times"):
        audit_log(written(unordered, tmp_path / "u.parquet"), SHOP, columns={"known_at": "n"})
    for bad in (0, "x", 1.5):
        with pytest.raises(ValueError, match="lag must be"):
            audit_log(path, SHOP, lag=bad)


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        (PAYOFFS, "euros"),
        (PROTECT, "$"),
        ("action,dry,wet\nopen,1,2\nshut,0,0\n", None),
        (",dry,wet\nopen,1,2\nshut,0,0\n", None),
        ("dry,wet\n1,2\n0,0\n", None),
        ("1,2\n0,0\n", None),
    ],
)
def test_the_currency_is_the_corner_of_the_table(tmp_path, text, currency):
    (tmp_path / "p.csv").write_text(text)
    assert currency_in(tmp_path / "p.csv") == currency
    (tmp_path / "p.toml").write_text('payoffs = [[1, 2], [0, 0]]\ncurrency = "USD"\n')
    assert currency_in(tmp_path / "p.toml") == "USD"
    assert answer.money(-3.5, "USD", 2) == "-3.50 USD"
    np.save(tmp_path / "p.npy", [[1, 2], [0, 0]])
    assert currency_in(tmp_path / "p.npy") is None


def test_a_currency_is_a_short_text(tmp_path):
    path = written(broken(20), tmp_path / "log.csv")
    for bad in (3, "x" * 21, "a\nb"):
        with pytest.raises(ValueError, match="currency must be a short text"):
            audit_log(path, SHOP, currency=bad)
    assert audit_log(path, SHOP, currency=" ").about["currency"] is None


def _one_surprise(name: str, steps: int, at: int) -> pd.DataFrame:
    """A right forecast at every step but one, where what it had excluded came."""
    log = pd.DataFrame({"stream": name, "ds": pd.date_range("2025-01-01", periods=steps), "y": "dry"})
    log[["p_dry", "p_wet"]] = 0.6, 0.4
    log.loc[at - 1, ["y", "p_dry", "p_wet"]] = ["wet", 1.0, 0.0]
    return log


def test_an_alarm_is_known_at_the_end_of_its_stream_at_the_latest() -> None:
    shop = lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], states=["dry", "wet"])
    for lengths in ((44, 40), (40, 44)):
        log = pd.concat([_one_surprise("a", lengths[0], 30), _one_surprise("b", lengths[1], lengths[1] - 1)])
        found = audit_log(log, shop, lag=5)
        for one, steps in zip(sorted(found.streams, key=lambda own: own.stream), lengths, strict=True):
            assert one.switched_at is not None
            assert one.switched_at <= steps
        marks = {one["stream"]: {what: step for what, step, *_ in one["marks"]} for one in found.details}
        assert marks["b"]["alarm"] <= lengths[1]


def test_the_result_at_a_lag_that_was_not_said_is_that_of_an_audit_with_it() -> None:
    rng, T = np.random.default_rng(3), 400
    sums = np.convolve(rng.normal(size=T + 4), np.ones(4), "valid")[:T]
    wet = 0.5 + rng.uniform(-0.05, 0.05, T)
    log = pd.DataFrame({"step": range(1, T + 1), "y": np.where(sums > 0, "wet", "dry"), "p_dry": 1 - wet, "p_wet": wet})
    log["counts"] = rng.uniform(0.05, 0.3, T).round(2)
    problem = lr.DecisionProblem.from_payoffs([[-100, -220], [-200, -200], [-170, -190]], states=["dry", "wet"])
    (one,) = audit_log(log, problem, columns={"scale": "counts"}).streams
    assert one.seems is not None
    late = audit_log(log, problem, columns={"scale": "counts"}, lag=one.seems)
    assert one.then == pytest.approx(late.earned["guard"])


def test_without_a_test_there_is_no_alarm_to_speak_of() -> None:
    log = _one_surprise("a", 40, 30)
    found = audit_log(log, lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], states=["dry", "wet"]), test=False)
    assert "there is no test, and no alarm" in found.answer
    assert "no test" in found.assumed
    assert "false alarm" not in found.report()
    assert not json.loads(found.to_json())["deltas"]


def test_what_is_promised_is_to_whom_it_is_promised() -> None:
    problem = lr.DecisionProblem.from_payoffs(
        [[100, -20], [0, 0], [30, 10]], actions=["open", "shut", "half"], states=["dry", "wet"]
    )
    T = 200
    where = np.array(["a", "b"])[np.arange(T) % 2]
    wet = np.where(where == "a", True, np.arange(T) % 10 < 3)
    log = pd.DataFrame({"step": range(1, T + 1), "y": np.where(wet, "wet", "dry"), "p_dry": 0.7, "p_wet": 0.3})
    within = audit_log(log.assign(ctx=where), problem, columns={"context": "ctx"}, temperature=0.05)
    assert "in context a" in within.answer
    assert "less than the best comparator" in within.report()
    found = audit_log(log, problem)
    most = found.certificate.regret_bound_in_payoffs
    assert f"at most {most:.2f} a step less than the best fixed action" in found.report()
