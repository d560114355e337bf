"""Backtests of forecasts of a number beside guards asked step by step; frames as Chronos and Nixtla write them."""

import datetime
import json

import numpy as np
import pytest
from scipy import stats

import lowregret as lr

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

ORDERS = [0.0, 10.0, 20.0, 30.0, 40.0]


def earned(order, demand):
    return 5 * np.minimum(order, demand) - 3 * order


SHOP = lr.Payoff(earned, ORDERS, low=-120, high=80, knots=ORDERS, outcomes=(0, np.inf))
LEVELS = np.round(np.arange(0.1, 0.95, 0.1), 1)
LENGTHS = {"a": 50, "b": 50, "c": 31, "d": 1}


def recorded():
    """Quantiles and outcomes by stream; demand falls early in b and c."""
    rng = np.random.default_rng(0)
    values = {name: stats.gamma(6, scale=rng.uniform(4, 6, (T, 1))).ppf(LEVELS) for name, T in LENGTHS.items()}
    came = {name: rng.gamma(6, 5, T) for name, T in LENGTHS.items()}
    for name in "bc":
        came[name][8:] *= 0.2
    return values, came


def by_hand(forecast_at, outcomes, guard):
    """One stream, a step at a time: payoffs added up by player, and the guard."""
    live = guard.fresh()
    totals, actions = dict.fromkeys(("model", "guard", "Hedge", "fallback", "last outcome"), 0.0), np.zeros(len(ORDERS))
    experts = lr.policies.experts.ExpertHedge(len(ORDERS) + 1, SHOP.span)
    memory, T, last = experts.start(), len(outcomes), None
    for t, outcome in enumerate(outcomes):
        paid = np.array([earned(order, outcome) for order in ORDERS])
        live.advise(forecast_at(t))
        law = forecast_at(t).law(SHOP, t)
        worth = (SHOP.utilities(law.points) * law.weights).sum(-1)
        response = np.exp((worth - worth.max()) / (guard.setting.temperature or 1e-12))
        response = response / response.sum()
        hedge = np.exp((actions + 20 * t) / 100 / np.sqrt(T))  # utility is payoff/100 + 0.2
        each = np.append(paid, response @ paid)
        totals["model"] += paid[worth.argmax()]
        totals["last outcome"] += paid.mean() if last is None else paid[last.argmax()]
        last = paid
        totals["guard"] += live.policy() @ paid
        totals["Hedge"] += hedge @ paid / hedge.sum()
        totals["fallback"] += experts.policy(memory) @ each
        memory = experts.update(memory, each / 100 + 0.2)
        actions += paid
        live.observe(outcome)
    return {name: value / T for name, value in totals.items()} | {"best fixed action": actions.max() / T}, live


FORMS = {
    "quantiles": lambda values: lr.Quantiles(LEVELS, values),
    "samples": lambda values: lr.Samples(np.asarray(values)),
}


@pytest.mark.parametrize("response", [lr.BestResponse(), lr.QuantalResponse()])
@pytest.mark.parametrize("form", FORMS)
def test_equals_guards_asked_step_by_step(form, response):
    values, came = recorded()
    make = FORMS[form]
    guard = lr.Guard(SHOP, test=lr.ExactTest(0.2, 60), response=response)
    found = lr.backtest(guard, [make(v) for v in values.values()], list(came.values()), names=list(LENGTHS))
    certificates, switched = [], 0
    for i, (name, result) in enumerate(zip(LENGTHS, found.streams, strict=True)):
        asked, live = by_hand(lambda t, name=name: make(values[name][t]), came[name], guard)
        assert result.earned == pytest.approx(asked, abs=1e-9)
        told = [event for event in found.switches if event.stream == name]
        assert [type(event) for event in told] == [type(event) for event in live.events]
        for mine, theirs in zip(told, live.events, strict=True):
            for one, other in zip(mine[1:], theirs[1:], strict=True):  # the last bit depends on the company
                assert one == (pytest.approx(other, rel=1e-9) if isinstance(other, float) else other)
        assert result.regret == pytest.approx(live.regret, abs=1e-12)
        np.testing.assert_allclose(found.regret()[i][-1], result.regret, atol=1e-12)
        assert result.switched_at == next((e.step for e in live.events if isinstance(e, lr.Alarm)), None)
        switched += result.switched_at is not None
        certificates.append(live.certificate.regret_bound)
        statistic = found.evidence(name)
        assert statistic.shape == (LENGTHS[name], 2)
        assert statistic[-1] == pytest.approx(np.array(live.evidence), rel=1e-9)
    assert switched
    assert found.certificate.regret_bound == pytest.approx(max(certificates))
    assert guard.steps == 0


def test_shapes_of_arrays():
    values, came = recorded()
    both = np.stack([values["a"], values["b"]])
    found = lr.backtest(SHOP, lr.Quantiles(LEVELS, both), np.stack([came["a"], came["b"]]))
    asked = lr.backtest(SHOP, [lr.Quantiles(LEVELS, v) for v in both], [came["a"], came["b"]])
    assert found.streams == asked.streams
    alone = lr.backtest(SHOP, lr.Quantiles(LEVELS, values["b"]), came["b"], fallback=False)
    assert alone.streams[0].earned["guard"] == pytest.approx(asked.streams[1].earned["guard"], abs=1e-12)
    assert "fallback" not in alone.earned


def frame(**more):
    values, came = recorded()
    rows = []
    for name, T in LENGTHS.items():
        for t in range(T):
            day = datetime.datetime(2026, 3, 1) + datetime.timedelta(days=t)
            own = {str(level): values[name][t, k] for k, level in enumerate(LEVELS)}
            rows.append({"item_id": name, "timestamp": day, "target": came[name][t], "predictions": 0.0, **own, **more})
    return pd.DataFrame(rows).sample(frac=1, random_state=2)


def nixtla(model="AutoARIMA", median=True, levels=(20, 40, 60, 80)):
    """The same quantiles as Nixtla calls them."""
    old = frame().rename(columns={"item_id": "unique_id", "timestamp": "ds", "target": "y"})
    names = {f"{0.5 - n / 200:g}": f"{model}-lo-{n}" for n in levels} | {
        f"{0.5 + n / 200:g}": f"{model}-hi-{n}" for n in levels
    }
    return old.rename(columns=names | ({"0.5": f"{model}-median"} if median else {})).drop(columns="predictions")


@pytest.mark.parametrize(
    "kind", [lambda f: f, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "pyarrow"]
)
def test_frames_of_chronos_and_nixtla_are_their_arrays(kind):
    values, came = recorded()
    asked = lr.backtest(
        SHOP, [lr.Quantiles(LEVELS, v) for v in values.values()], list(came.values()), names=list(LENGTHS)
    )
    assert any(result.switched_at for result in asked.streams)
    for given in (frame(), nixtla(), nixtla(levels=(20.0, 40.0, 60.0, 80.0))):
        found = lr.backtest(SHOP, kind(given))
        assert found.streams == asked.streams
        assert found.switches == asked.switches
        assert found.warnings == asked.warnings
    neural = frame().rename(columns={str(level): f"NHITS_ql{level}" for level in LEVELS})
    assert lr.backtest(SHOP, kind(neural)).streams == asked.streams
    told = frame().rename(columns={str(level): f"q{level}" for level in LEVELS} | {"target": "sold"})
    columns = {"quantiles": {level: f"q{level}" for level in LEVELS.tolist()}}
    assert lr.backtest(SHOP, kind(told), "sold", columns=columns).streams == asked.streams


def test_what_comes_back():
    given = frame()
    found = lr.backtest(SHOP, given)
    back = found.to_frame()
    assert list(back.index) == list(given.index)
    assert back["used_fallback"].any()
    for i, result in enumerate(found.streams):
        own = back[back["item_id"] == result.stream].sort_values("timestamp")
        np.testing.assert_array_equal(own["used_fallback"], found.share[i] < 1)
        for player in ("model", "guard", "fallback"):
            assert own[f"payoff_{player}"].mean() == pytest.approx(result.earned[player], abs=1e-9)
    about = json.loads(found.to_json())
    assert about["earned"] == pytest.approx(found.earned)
    assert about["regret_bound"] == found.certificate.regret_bound
    assert "4 streams" in str(found.table())
    figure = found.plot("b")
    lines = {line.get_label(): line.get_ydata()[-1] for line in figure.axes[0].lines if line.get_label()[0] != "_"}
    assert lines["guard"] == pytest.approx(50 * found.streams[1].earned["guard"])
    assert lines["best fixed action"] == pytest.approx(50 * found.streams[1].earned["best fixed action"])


def levels_of(given, **columns):
    return lr.backtest(SHOP, given, columns=columns or None, fallback=False).recording.forecasts[0].levels.tolist()


def test_a_point_forecast_is_a_median_only_where_its_intervals_say_so():
    even = pd.DataFrame(
        {"ds": [1, 2], "y": [3.0, 4.0], "ETS": [5.0, 6.0], "ETS-lo-90": [2.0, 5.0], "ETS-hi-90": [8.0, 7.0]}
    )
    assert levels_of(even) == [0.05, 0.5, 0.95]
    skewed = even.assign(ETS=[5.0, 6.5])
    assert levels_of(skewed) == [0.05, 0.95]
    assert levels_of(skewed, median="ETS") == [0.05, 0.5, 0.95]
    assert levels_of(skewed.assign(**{"NHITS-median": [5.0, 6.0]})) == [0.05, 0.95]  # no model without an interval
    assert levels_of(even.drop(columns="ETS")) == [0.05, 0.95]


def test_one_of_several_models():
    both = nixtla().merge(nixtla("Theta")[["unique_id", "ds", "Theta-lo-80", "Theta-hi-80"]], on=["unique_id", "ds"])
    with pytest.raises(ValueError, match="quantiles of 2 models, AutoARIMA, Theta"):
        lr.backtest(SHOP, both)
    assert levels_of(both, model="Theta") == [0.1, 0.9]
    assert levels_of(both, model="AutoARIMA") == LEVELS.tolist()
    with pytest.raises(ValueError, match="one of those with quantiles, AutoARIMA, Theta, got 'ARIMA'"):
        lr.backtest(SHOP, both, columns={"model": "ARIMA"})


def test_what_was_changed_is_told():
    crossed = frame()
    crossed.iloc[3, crossed.columns.get_loc("0.1")] = crossed.iloc[3]["0.2"] + 1
    crossed.iloc[5, crossed.columns.get_loc("0.1")] = -2.0
    notes = lr.backtest(SHOP, crossed, fallback=False).recording.notes
    assert notes == (
        "1 rows had quantiles that cross, and were sorted",
        "1 rows had quantiles outside the possible outcomes, and were clipped",
    )
    gap = frame()
    gap = gap[~((gap["item_id"] == "a") & (gap["timestamp"] == "2026-03-09"))]
    found = lr.backtest(SHOP, gap, fallback=False)
    assert "1 times in 1 streams are not as far from the one before as is usual" in found.warnings[-1]
    with pytest.raises(lr.audit.Refused, match="2026-03-08 is followed by 2026-03-10, and every step must be 1d"):
        lr.backtest(SHOP, gap, columns={"every": "1d"})


def test_cutoffs():
    one = nixtla()
    one["cutoff"] = one["ds"] - pd.Timedelta(days=1)
    assert not [note for note in lr.backtest(SHOP, one, fallback=False).warnings if "were made before" in note]
    weekly = one.assign(cutoff=one["ds"] - pd.to_timedelta(1 + (one["ds"] - one["ds"].min()).dt.days % 7, unit="D"))
    early = sum(T - 1 - (T - 1) // 7 for T in LENGTHS.values())
    assert f"{early} forecasts were made before" in lr.backtest(SHOP, weekly, fallback=False).warnings[-1]
    twice = pd.concat([one, one.iloc[:1].assign(cutoff=one["cutoff"].min() - pd.Timedelta(days=9))], ignore_index=True)
    with pytest.raises(lr.audit.Refused, match=rf"row {len(twice)}: .* forecast before, in row 1, .*keep='last'"):
        lr.backtest(SHOP, twice)
    kept = twice.sort_values("cutoff").drop_duplicates(["unique_id", "ds"], keep="last")
    assert lr.backtest(SHOP, kept).streams == lr.backtest(SHOP, one).streams


GOOD = {"y": [3.0, 4.0, 5.0], "0.1": [1.0, 1.0, 2.0], "0.9": [7.0, 8.0, 9.0]}
FREE = lr.Payoff(earned, ORDERS, low=-120, high=80, outcomes=(0, np.inf))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": [3.0, -4.0, 5.0]}, r"row 2: the outcome \(y\) must be a number from 0 to inf, got -4"),
        ({"y": [3.0, None, 5.0]}, r"row 2: the outcome \(y\) must be a number from 0 to inf, got nan"),
        ({"y": ["a", "b", "c"]}, r"the outcomes \(y\) must be numbers, got 'a'"),
        ({"0.9": [7.0, None, 9.0]}, r"row 2: a quantile \(0.9\) is missing or not a finite number"),
        ({"0.9": [7.0, float("inf"), 9.0]}, r"row 2: a quantile \(0.9\) is missing or not a finite number"),
        ({".1": [1.0, 2.0, 3.0]}, "'0.1' and '.1' are both the quantile at level 0.1"),
        ({"ETS-lo-90": [1.0, 2.0, 3.0]}, "quantiles of 2 models, the one of 0.1, ..., ETS"),
    ],
)
def test_rows_are_refused(change, says):
    with pytest.raises(ValueError, match=says):
        lr.backtest(SHOP, pa.table(GOOD | change))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lr.backtest(SHOP, pa.table({"0.1": [1.0]})), "there must be a column of outcomes"),
        (lambda: lr.backtest(SHOP, pa.table({"y": [1.0], "1.5": [1.0]})), "there must be columns of quantiles"),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"probs": "0.1"}), "columns must say which is the stream"),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"quantiles": {0.2: "0.2"}}), "the quantile at 0.2 must be"),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"quantiles": {2: "0.1"}}), "strictly between 0 and 1"),
        (lambda: lr.backtest(SHOP, pa.table(GOOD), columns={"every": "1d"}), "every='1d' needs a column of times"),
        (lambda: lr.backtest(FREE, pa.table(GOOD)), "needs a Payoff that says where payoffs bend"),
        (lambda: lr.backtest(SHOP, [[0.5, 0.5]], [3.0]), "forecasts must be of numbers"),
        (
            lambda: lr.backtest(SHOP, lr.Quantiles([0.5], [[3.0]] * 2), [3.0]),
            "forecasts must be one for each outcome of stream 0",
        ),
        (lambda: lr.backtest(SHOP, [lr.Quantiles([0.5], [[3.0]])], [[3.0], [4.0]]), "outcomes must be 1 streams"),
        (
            lambda: lr.backtest(SHOP, lr.Quantiles([0.5], [[3.0]]), [3.0], payoffs=[1]),
            "payoffs of each step are functions",
        ),
    ],
)
def test_what_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_an_outcome_that_is_none_is_told_with_its_stream_and_step():
    values = np.tile([5.0, 10.0, 20.0], (3, 4, 1))
    came = np.full((3, 4), 9.0)
    came[1, 2] = np.nan
    with pytest.raises(ValueError, match="outcomes of stream 'b' at step 3 must be"):
        lr.backtest(SHOP, lr.Quantiles([0.1, 0.5, 0.9], values), came, names=["a", "b", "c"])
