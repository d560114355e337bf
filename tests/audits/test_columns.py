"""Which column is read as what: by usual names and as the caller says, never swapped, and whatever it is called."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import lowregret as lr
from lowregret.audits import audit
from lowregret.audits.columns import Found, chosen, found_columns, quantile_columns
from lowregret.audits.reading import log_of
from lowregret.audits.settings import Columns

STAKES = lr.DecisionProblem.from_payoffs([[-5, 10], [0, 0]], actions=["buy", "wait"], states=["down", "up"])
STALL = lr.problems.newsvendor_of_numbers([0, 10, 20, 30, 40], price=5, cost=3)
T = 80
RNG = np.random.default_rng(0)
UP = RNG.integers(1, 100, T) / 100
MOVE = np.where(RNG.random(T) < UP, "up", "down")
ROWS = pl.DataFrame({"shop": ["a", "b"] * 40, "day": np.arange(T) // 2, "move": MOVE, "d": 1 - UP, "u": UP})
NAMED = {"stream": "shop", "order": "day", "state": "move", "probs": ["d", "u"]}
SALES = pl.DataFrame({"ds": range(T), "y": RNG.gamma(6, 4, T).round(2), "middle": RNG.uniform(10, 30, T).round(2)})
WIDE = SALES.with_columns(bottom=pl.col("middle") - 8, top=pl.col("middle") + 8)


def found(frame: pl.DataFrame, problem: Any = STAKES, **columns: Any) -> Found:
    return found_columns(log_of(frame), problem, Columns(**columns))


def money(frame: Any, problem: Any = STAKES, **columns: Any) -> list[tuple[Any, ...]]:
    """All that each stream's players earn, and the alarm."""
    streams = audit(frame, problem, columns=columns).streams
    return streams.drop("stream", pl.selectors.ends_with("_time"), "lost_to").rows()


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["stream", "step", "state"], ("stream", "step", "state")),
        (["unique_id", "ds", "y"], ("unique_id", "ds", "y")),
        (["id", "series", "t", "Outcome"], ("series", "t", "Outcome")),  # in the order of our list
        (["Date", "date", "ACTUAL"], (None, "date", "ACTUAL")),  # as it is written, before other case
    ],
)
def test_usual_names(names: list[str], roles: tuple[str | None, ...]) -> None:
    own = found(pl.DataFrame({name: [1] for name in [*names, "p_down", "p_up"]}))
    assert (own.stream, own.order, own.state, own.values.names) == (*roles, ("p_down", "p_up"))


def test_a_column_with_another_part_is_not_taken_for_its_usual_one() -> None:
    own = found(pl.DataFrame({"y": [1], "t": [0.5], "date": [0.5]}), state="y", probs={"up": "t"}, scale="date")
    assert (own.order, own.values.names, own.scale) == (None, (None, "t"), "date")


@pytest.mark.parametrize("form", ["p_{}", "prob_{}", "p{}", "{}", "P_{}"])
def test_probabilities_are_found_by_their_states(form: str) -> None:
    frame = pl.DataFrame([["up"], [0.5], [0.5]], schema=["y", form.format("up"), form.format("down")])
    assert found(frame).values.names == (form.format("down"), form.format("up"))


@pytest.mark.parametrize(
    ("states", "cells", "kind"),
    [
        (["0", "1"], [0, 1], pl.Int8),
        (["0", "1"], [0, 1], pl.UInt64),
        (["0.0", "1.0"], [0.0, 1.0], pl.Float32),
        (["0.1", "0.3"], [0.1, 0.3], pl.Float32),
        (["0.0", "1.0"], ["0", "01"], pl.Categorical),
        (["false", "true"], [False, True], pl.Boolean),
        (["false", "true"], ["FALSE", " true "], pl.String),
        (["2026-01-01", "2026-01-02"], [date(2026, 1, 1), date(2026, 1, 2)], pl.Date),
    ],
)
def test_states_are_known_by_every_way_they_are_written(states: list[str], cells: Any, kind: Any) -> None:
    problem = lr.DecisionProblem.from_payoffs([[5, -1], [0, 0]], ["buy", "wait"], states)
    frame = pl.DataFrame({"y": pl.Series(cells, dtype=kind), "p_" + str(cells[0]): 0.5, "p_" + str(cells[1]): 0.5})
    assert [audit(row, problem).totals["model"] for row in (frame[:1], frame[1:])] == [5, -1]


@pytest.mark.parametrize(
    ("states", "columns", "is_right"),
    [
        (("down", "up"), ["forecast_up", "forecast_down"], False),
        (("down", "up"), ["forecast_down", "forecast_up"], True),
        (("left", "right"), ["forecast_up", "forecast_down"], True),
        (("dry", "rain"), ["p_rain", "p_no_rain"], False),
        (("no rain", "rain"), ["p_no_rain", "p_rain"], True),
        (("rain", "no rain"), ["p_no_rain", "p_rain"], False),
        (("Down", "UP"), ["p Up", "p-down"], False),
        (("0", "1"), ["model_1_a", "model_1_b"], True),
        (("a", "b", "c"), ["x_b", "x_c", "x_a"], False),
        (("a", "b", "c"), ["data", "beta", "xa"], True),
    ],
)
def test_columns_in_the_order_of_the_states_are_never_swapped(states: Any, columns: list[str], is_right: bool) -> None:
    problem = lr.DecisionProblem(np.eye(len(states)), states=states)
    frame = pl.DataFrame([states[:1], *[[1 / len(states)]] * len(states)], schema=["y", *columns])
    if is_right:
        assert found(frame, problem, probs=columns).values.names == tuple(columns)
    else:
        with pytest.raises(ValueError, match=r"must be in the order of the states, .*give each with its state"):
            found(frame, problem, probs=columns)


def test_side_information_is_the_same_in_every_form() -> None:
    factor = RNG.integers(20, 101, T) / 100
    pay = pl.DataFrame({f"pay{i}": value * factor for i, value in enumerate((-5, 10, 0, 0))})
    more = {"share": factor, "week": np.arange(T) % 3, "percent": [f"{value:.0%}" for value in factor]}
    rows = pl.concat([ROWS, pay, pl.DataFrame(more)], how="horizontal").with_columns(
        flat=pl.concat_list(pay.columns),
        nested=pl.concat_list(pl.concat_list("pay0", "pay1"), pl.concat_list("pay2", "pay3")),
        name=pl.col("week").cast(pl.String),
    )
    plain = {"payoffs": pay.columns, "scale": "share", "context": "week", "references": {"desk": ["u", "d"]}}
    ways = {"payoffs": "flat", "scale": "percent", "context": "name", "references": {"desk": {"up": "d", "down": "u"}}}
    wanted = [pytest.approx(row) for row in money(rows, **NAMED | plain)]
    for role, own in [*ways.items(), ("payoffs", ["nested"])]:
        assert money(rows, **NAMED | plain | {role: own}) == wanted
        assert money(rows, **NAMED | {name: one for name, one in plain.items() if name != role}) != wanted


PACKAGES = [("q10", "q90"), ("q0.1", " Q_0.9 "), ("0.1", "0.9"), ("ETS-lo-80", "ETS-hi-80"), ("ETS-q-10", "ETS-q-90")]


@pytest.mark.parametrize(("low", "high"), [*PACKAGES, ("A-b_ql0.1", "A-b_ql0.9")])
def test_quantiles_by_the_names_of_packages(low: str, high: str) -> None:
    own = WIDE.select("ds", "y", pl.col("top").alias(high), pl.col("bottom").alias(low))
    assert money(own, STALL) == money(WIDE, STALL, quantiles={0.9: "top", 0.1: "bottom"})


def test_names_that_are_no_quantiles() -> None:
    assert quantile_columns(["0", "1.0", "ETS-lo-100", "q", "hi-90", "ETS-lo"]) == {}
    assert quantile_columns(["NHITS-median"]) == {"NHITS": {0.5: "NHITS-median"}}
    assert quantile_columns(["NHITS-median", "q_05"]) == {"": {0.05: "q_05"}}


def test_a_point_forecast_is_the_median_if_it_is_in_the_middle() -> None:
    nixtla = WIDE.rename({"middle": "ETS", "bottom": "ETS-lo-80", "top": "ETS-hi-80"})
    three = {0.1: "ETS-lo-80", 0.5: "ETS", 0.9: "ETS-hi-80"}
    assert found(nixtla, STALL).values.levels == (0.1, 0.5, 0.9)
    assert money(nixtla, STALL) == money(nixtla, STALL, quantiles=three)
    written = nixtla.cast(dict.fromkeys(three.values(), pl.String))
    assert found(written, STALL).values.names == tuple(three.values())
    assert found(nixtla.with_columns(pl.col("ETS") + 0.1), STALL).values.levels == (0.1, 0.9)
    assert found(nixtla.rename({"ETS": "ETS-median"}), STALL).values.levels == (0.1, 0.5, 0.9)


def test_of_several_models_one_is_chosen_and_others_are_references() -> None:
    both = WIDE.rename({"bottom": "A-lo-80", "top": "A-hi-80"})
    both = both.with_columns((pl.col("A-lo-80") - 5).alias("B-lo-80"), (pl.col("A-hi-80") - 5).alias("B-hi-80"))
    audited = audit(both, STALL, columns={"model": "A", "references": {"desk": {"0.9": "B-hi-80", "0.1": "B-lo-80"}}})
    assert audited.columns["references"] == {"desk": ["B-lo-80", "B-hi-80"]}
    alone = audit(both, STALL, columns={"model": "B"})
    assert audited.totals["reference desk"] == pytest.approx(alone.totals["model"])


INTERNAL = ("stream at state v0 v1", "row r0_1 known_at low offset", "^.*$ * {} $1 %")


@pytest.mark.parametrize("names", [own.split() for own in INTERNAL], ids=str)
def test_columns_may_be_called_anything(names: list[str]) -> None:
    """Those that are read, whatever they hold, and those that are not."""
    plain = money(ROWS, **NAMED)
    junk = pl.DataFrame({name: ["junk"] * T for name in names})
    assert money(pl.concat([ROWS, junk], how="horizontal"), **NAMED) == plain
    own = dict(zip(ROWS.columns, names, strict=True))
    columns = {role: own[str(NAMED[role])] for role in ("stream", "order", "state")}
    assert money(ROWS.rename(own), **columns, probs={"down": own["d"], "up": own["u"]}) == plain


@pytest.mark.parametrize(
    ("cutoff", "is_read"), [([1, 2], True), (["1", " 2"], True), ([0.5, 0.5], False), (["low", "low"], False)]
)
def test_a_cutoff_is_when_a_forecast_was_made_and_else_a_threshold(cutoff: Any, is_read: bool, tmp_path: Path) -> None:
    frame = pl.DataFrame({"step": [1, 2], "y": ["up"] * 2, "p_up": [0.5] * 2, "cutoff": cutoff})
    frame.write_csv(tmp_path / "log.csv")
    for log in (frame, tmp_path / "log.csv"):
        own = found_columns(log_of(log), STAKES, Columns(probs={"up": "p_up"}))
        assert (own.cutoff == "cutoff") == is_read


@pytest.mark.parametrize("form", ["+{} ", "{},0", "{}e0"])
def test_steps_may_be_numbers_written_as_texts(form: str, tmp_path: Path) -> None:
    own = ROWS.with_columns(day=pl.format(form, "day"))[::-1]
    own.write_csv(tmp_path / "log.csv")
    assert money(own, **NAMED) == money(tmp_path / "log.csv", **NAMED) == money(ROWS, **NAMED)


def test_times_are_found_though_one_cell_is_none() -> None:
    own = pl.DataFrame({"y": ["up"] * 3, "p": [0.5] * 3, "delivery": ["2026-01-02", "2026-01-01", "soon"]})
    assert found(own, probs={"up": "p"}).order == "delivery"
    assert found(own.with_columns(delivery=pl.lit(None, pl.Date)), probs={"up": "p"}).order is None


def test_what_was_chosen_in_words() -> None:
    own = found(ROWS, **NAMED | {"stream": "none", "probs": {"up": "u"}, "references": {"desk": ["d", "u"]}})
    assert chosen(own.about) == "read as stream none, order day, state move, probs the rest, u, references desk: d, u"
