"""What the rows of a log mean: their order, their streams, outcomes that are not there, lags, and what is refused."""

import datetime
import json
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from lowregret.audits import Refused, audit, parts

from .shops import SHOP, STALL, gained, one, shops, shuffled

DAY, HOUR = datetime.timedelta(days=1), datetime.timedelta(hours=1)
FIRST = datetime.datetime(2024, 10, 26)


def hours(T: int, zone: str | None = None) -> list[datetime.datetime]:
    """Hours from the day before clocks are set back in Europe."""
    if zone is None:
        return [FIRST + t * HOUR for t in range(T)]
    begin = FIRST.replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.UTC)
    return [(begin + t * HOUR).astimezone(ZoneInfo(zone)) for t in range(T)]


def dated(rows: pl.DataFrame, name: str = "ds") -> pl.DataFrame:
    """Steps as days."""
    return rows.with_columns(pl.lit(FIRST.date()).dt.offset_by(pl.format("{}d", "step")).alias(name)).drop("step")


# The order.


def test_a_single_column_of_times_is_the_order_whatever_its_name(tmp_path: Path) -> None:
    rows = shuffled(dated(shops(), "Datum"))
    rows.write_csv(tmp_path / "log.csv")
    for log in (rows, tmp_path / "log.csv"):
        found = audit(log, SHOP)
        assert gained(found) == gained(audit(shops(), SHOP))
        assert found.columns["order"] == "Datum"
        assert "rows are put in the order of Datum, the only column of times" in found.notes


def test_of_several_columns_of_times_the_caller_says_which() -> None:
    rows = shuffled(dated(dated(shops().with_columns(again="step"), "valid").with_columns(step="again"), "issued"))
    with pytest.raises(ValueError, match="valid, issued hold times: --order NAME says which of them has the steps"):
        audit(rows, SHOP)
    assert gained(audit(rows, SHOP, columns={"order": "valid"})) == gained(audit(shops(), SHOP))


def test_unix_times_are_times() -> None:
    times = hours(150)
    wanted = audit(one(ds=times), SHOP)
    found = audit(one(ds=[int(t.replace(tzinfo=datetime.UTC).timestamp()) * 1000 for t in times]), SHOP)
    assert gained(found) == gained(wanted)
    assert found.unit == "hour"
    (row,) = found.streams.to_dicts()
    assert row["alarm_time"] == f"{times[row['alarm'] - 1].isoformat()}Z"
    assert found.notes == ("the steps (ds) are read as Unix times",)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "UTC"])
def test_times_in_the_answer_are_by_the_clock_of_the_log(zone: str, as_text: bool) -> None:
    times = hours(150, zone)
    column = pl.Series([t.isoformat() for t in times]) if as_text else pl.Series(times, dtype=pl.Datetime("us", zone))
    found = audit(shuffled(one(ds=column)), SHOP)
    (row,) = json.loads(found.to_json())["streams"]
    shown = [time.isoformat().replace("+00:00", "Z") for time in times]
    assert (row["alarm_time"], row["since_time"]) == (shown[row["alarm"] - 1], shown[row["since"] - 1])
    assert (found.first, found.last, found.unit) == (shown[0], shown[-1], "hour")
    assert found.at_P[-1] == np.datetime64(times[-1].replace(tzinfo=None), "ns")


def test_numbers_of_steps_that_skip_are_gaps_and_not_refused() -> None:
    rows = shops({"a": 60, "b": 80}).with_columns(step=pl.int_range(pl.len()))  # numbered over all shops
    found = audit(rows.filter(pl.col("step") % 17 > 0), SHOP)
    assert "8 steps in 2 streams are not as far from the one before as is usual: some may be missing" in found.warnings
    assert found.streams["steps"].to_list() == [56, 75]


def test_a_repeated_local_hour_says_that_clocks_may_have_changed() -> None:
    local = [time.replace(tzinfo=None) for time in hours(150, "Europe/Berlin")]
    with pytest.raises(Refused, match=r"row 28: 2024-10-27T02:00:00 is there twice, also in row 27; if clocks were"):
        audit(one(ds=local), SHOP)


# The streams.


def test_the_only_unread_column_that_tells_equal_times_apart_names_the_streams(tmp_path: Path) -> None:
    rows = dated(shops(), "delivery").with_columns(row=pl.int_range(pl.len()), weather=pl.lit("?"), wind=pl.col("q10"))
    rows = shuffled(rows.rename({"unique_id": "site"}))
    found = audit(rows, SHOP)
    assert gained(found) == gained(audit(shops(), SHOP))
    assert "streams are those of site, the only column that tells equal times apart" in found.notes
    rows.with_columns(degrees=pl.col("site").rank("dense") / 2).write_csv(tmp_path / "log.csv")  # not a name
    assert gained(audit(tmp_path / "log.csv", SHOP)) == gained(found)
    both = rows.with_columns(town=pl.col("site").str.to_uppercase())
    with pytest.raises(Refused, match=r"is there twice.*; site, town tell such rows apart, and --stream NAME says"):
        audit(both, SHOP)
    assert gained(audit(both, SHOP, columns={"stream": "site"})) == gained(found)
    for log, columns in ((rows.drop("site"), {}), (rows, {"stream": "none"})):
        with pytest.raises(Refused, match=r"is there twice, also in row \d+$"):
            audit(log, SHOP, columns=columns)


def test_a_number_of_each_row_is_no_stream() -> None:
    rows = one(id=np.arange(150), ds=hours(150))
    found = audit(rows, SHOP)
    assert found.streams["stream"].to_list() == ["0"]
    assert any("the values of id hardly repeat" in note for note in found.notes)
    assert len(audit(rows, SHOP, columns={"stream": "id"}).streams) == 150


# Outcomes that are not there.


@pytest.mark.parametrize("word", [None, "", "NA", "nan"])
def test_outcomes_that_are_not_known_yet_are_left_out_and_counted(word: str | None, tmp_path: Path) -> None:
    last = pl.int_range(pl.len()).over("unique_id") >= pl.len().cast(pl.Int64).over("unique_id") - 3
    rows = dated(shops()).with_columns(y=pl.when(last).then(pl.lit(word)).otherwise("y"))
    rows = rows.with_columns(sold=pl.when(last).then(float("nan") if word else None).otherwise("sold"))
    rows.write_csv(tmp_path / "log.csv")
    for problem, state in ((SHOP, "y"), (STALL, "sold")):
        columns = {"state": state}
        wanted = audit(dated(shops()).filter(~last), problem, columns=columns)
        for log in (shuffled(rows), tmp_path / "log.csv"):
            found = audit(log, problem, columns=columns)
            assert gained(found) == gained(wanted)
            assert (found.at_P == wanted.at_P).all()
            # of a stream of one step nothing is left
            assert found.notes[-1].startswith("13 rows at the end of their streams have no outcome yet, and are left")


def test_one_missing_inside_is_skipped_counted_and_paid_for_in_the_guarantee() -> None:
    rows = one(100).with_columns(y=pl.when(pl.int_range(100).is_in([20, 60])).then(None).otherwise("y"))
    found = audit(rows, SHOP)
    assert found.streams.select("steps", "missing").row(0) == (98, 2)
    assert [note for note in found.notes if "missing" in note] == [
        "2 outcomes inside their streams are missing: these steps are skipped, and each adds what one step can cost to "
        "what is guaranteed",
        "missing outcomes add up to 2 per step to what is guaranteed of a stream",  # 2% of what one step can cost
    ]


def test_a_stream_without_any_outcome_does_not_stop_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    none = pl.col("unique_id").is_in(["Bee", "Dee"])
    rows = dated(shops()).with_columns(y=pl.when(none).then(None).otherwise("y"))
    wanted = audit(dated(shops()).filter(~none), SHOP)
    found = audit(rows, SHOP)
    assert gained(found) == gained(wanted)
    assert "101 rows at the end of their streams have no outcome yet, and are left out" in found.notes
    monkeypatch.setattr(parts, "_LARGE", 1)
    monkeypatch.setattr(parts, "_PART", 3000)
    dealt = audit(rows, SHOP)
    assert dealt.streams.equals(found.streams)
    assert dealt.notes == found.notes
    for large in (1, 1 << 31):
        monkeypatch.setattr(parts, "_LARGE", large)
        with pytest.raises(Refused, match="no outcome is known yet"):
            audit(rows.with_columns(y=pl.lit(None, pl.String)), SHOP)


# When outcomes were known, and forecasts made.


def test_known_at_says_how_late_outcomes_are() -> None:
    rows = one(ds=hours(150))
    late = rows.with_columns(known=pl.col("ds") + 2 * HOUR + datetime.timedelta(minutes=59))
    found = audit(shuffled(late), SHOP, columns={"known_at": "known"})
    assert gained(found) == gained(audit(rows, SHOP, lag=3))
    assert found.streams["lag"].to_list() == [3]
    assert not audit(rows.with_columns(known="ds"), SHOP, columns={"known_at": "known"}).notes
    gone = late.with_columns(pl.when(pl.int_range(150) != 40).then(pl.col("known", "y")))
    assert audit(gone, SHOP, columns={"known_at": "known"}).streams["missing"].to_list() == [1]
    with pytest.raises(Refused, match=r"row 41: the step \(known\) must be"):
        audit(gone.with_columns(late["y"]), SHOP, columns={"known_at": "known"})
    early = rows.with_columns(known=pl.col("ds") - HOUR)
    assert any(
        note.startswith("150 outcomes were known before their own step, by known")
        for note in audit(early, SHOP, columns={"known_at": "known"}).notes
    )
    with pytest.raises(
        Refused, match=r"known must be given as the steps are, which are times without a zone, got whole"
    ):
        audit(rows.with_columns(known=pl.int_range(150)), SHOP, columns={"known_at": "known"})


def test_forecasts_that_were_made_too_early_are_counted() -> None:
    rows = one(ds=hours(150))
    on_time = rows.with_columns(cutoff=pl.col("ds") - HOUR)
    assert not audit(on_time, SHOP).notes
    late = on_time.with_columns(cutoff=pl.col("ds") - pl.when(pl.int_range(150) < 10).then(2 * HOUR).otherwise(HOUR))
    assert audit(late, SHOP).notes[0].startswith("9 forecasts were made before the outcome before theirs")
    with pytest.raises(Refused, match="keep one forecast per step, that of the latest cutoff"):
        audit(pl.concat([on_time, on_time.with_columns(cutoff=pl.col("ds") - 2 * HOUR)]), SHOP)


# What is mended, and what is refused.


def test_what_was_done_to_quantiles_is_said() -> None:
    rows = shops().with_columns(
        q50=pl.when(pl.int_range(pl.len()) < 3).then(99.0).otherwise("q50"),
        q10=pl.when(pl.int_range(pl.len()).is_between(2, 8)).then(-1.0).otherwise("q10"),
    )
    (note,) = audit(rows, STALL, columns={"state": "sold"}).notes
    assert note == "9 rows had quantiles that cross or lie outside the possible outcomes, and were sorted and clipped"


@pytest.mark.parametrize(
    ("dry", "wet", "advised"),
    [
        (0.51, 0.5, "0.01"),  # off by 0.010000000000000009
        (0.34, 0.67, "0.01"),
        (0.123456, 0.876541, "3e-06"),
        (float(np.float16(0.1)), float(np.float16(0.9)), "0.00013"),
        (0.6, 0.5, "0.1"),
    ],
)
def test_the_tolerance_that_is_advised_is_the_least_that_does(dry: float, wet: float, advised: str) -> None:
    rows = pl.DataFrame({"y": ["dry"], "p_dry": dry, "p_wet": wet})
    with pytest.raises(Refused, match=f"if that is rounding, --tolerance {advised} divides"):
        audit(rows, SHOP)
    assert audit(rows, SHOP, tolerance=float(advised)).notes[0].startswith("1 rows did not sum to one")
    with pytest.raises(Refused):
        audit(rows, SHOP, tolerance=float(advised) * 0.9)


def test_a_refusal_names_one_row_and_counts_the_others() -> None:
    rows, at = shops(), pl.int_range(pl.len())
    with pytest.raises(Refused, match=r"row 3: the state .*; one more row has it$"):
        audit(rows.with_columns(y=pl.when(at.is_in([2, 8])).then(pl.lit("snow")).otherwise("y")), SHOP)
    says = r"row 6: .* got 1.5 among [^;]*; of logits[^;]*; 14 more rows have the same fault"
    with pytest.raises(Refused, match=says):
        audit(rows.with_columns(p_wet=pl.when(at.is_between(5, 19)).then(1.5).otherwise("p_wet")), SHOP)
