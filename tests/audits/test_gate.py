"""The gate between two candidates: bets by a literal loop, false verdicts by exact worst cases, logs of any shape."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.gate_power import WORLDS, fixed, gains, promoted, promoted_exactly, t_tests
from scipy import optimize, stats

import lowregret as lr
from lowregret.audits.gate_logs import gate_forecasts, gate_scores
from lowregret.audits.gating import Compared, gate, judged, log_evidence, more_steps
from lowregret.audits.reading import Refused
from lowregret.certificates.coupled import late_factor

SHOP = lr.DecisionProblem.from_payoffs(
    [[100, -60, -20], [0, 0, 0], [-30, 40, 10]], ["open", "shut", "sell umbrellas"], ["dry", "wet", "mist"]
)
NEW, TOWN = ("new", "current"), {"stream": "town"}


def evidence(days: list[tuple[float, float]], span: float, lag: int = 1) -> float:
    """E by its definition, from the difference of each day and the least that it could have been."""
    wealth = [[1.0] * 20 for _ in range(lag)]
    for t, (gain, low) in enumerate(days):
        for k in range(20):
            rate = 2.0 ** (8 - k) / span
            wealth[t % lag][k] *= 1 + (min(rate, 0.5 / -low) if low < 0 else rate) * gain
    return sum(map(sum, wealth)) / (20 * lag)


# Scores


@pytest.mark.parametrize("lag", [1, 3])
def test_scores_are_judged_by_the_definition_in_both_directions(lag: int) -> None:
    rng, verdicts = np.random.default_rng(0), set()
    for better in (0.6, 0.0, -0.6):
        current = rng.uniform(2, 5, 300)
        new = np.clip(current + rng.normal(better, 0.5, 300), 2, 5)
        found = gate(new, current, low=2, high=5, lag=lag, names=("b", "a"))
        gains = new - current
        assert found.e_better == pytest.approx(evidence([(gain, -3) for gain in gains], 3, lag), rel=1e-9)
        assert found.e_worse == pytest.approx(evidence([(-gain, -3) for gain in gains], 3, lag), rel=1e-9)
        assert found.needed == pytest.approx(late_factor(lag) / 0.05)
        assert found.totals == pytest.approx({"b": new.sum(), "a": current.sum()})
        assert found.difference_per_step == pytest.approx(gains.mean())
        swapped = gate(list(current), pd.Series(new), low=2, high=5, lag=lag)
        assert (swapped.e_better, swapped.e_worse) == (found.e_worse, found.e_better)
        verdicts.add((found.verdict, swapped.verdict))
    assert verdicts == {("promote", "keep"), ("not enough yet", "not enough yet"), ("keep", "promote")}
    passed = new > current
    assert gate(passed, ~passed, lag=lag) == gate(passed.astype(int), 1.0 - passed, lag=lag)


def test_several_metrics_are_judged_at_their_share_of_alpha() -> None:
    rng = np.random.default_rng(0)
    good, bad, same = rng.random(300) < 0.8, rng.random(300) < 0.5, rng.random(300) < 0.65
    for new, current, verdict in (
        ({"f1": good, "em": good}, {"f1": bad, "em": bad}, "promote"),
        ({"f1": good, "em": same}, {"f1": bad, "em": same}, "not enough yet"),
        ({"f1": good, "em": bad}, {"f1": bad, "em": good}, "keep"),
    ):
        found = gate(new, current)
        assert found.verdict == verdict
        for name, part in found.parts.items():
            assert part == gate(new[name], current[name], alpha=0.025)
        assert json.loads(found.to_json())["parts"]["em"]["e_better"] == found.parts["em"].e_better
    assert "Keep current. Of 2 parts: 1 promote, 1 keep." in str(found)
    assert "Needed: 40." in str(found)


def test_the_verdict_goes_with_the_total() -> None:
    """Better in many small matters, worse in few large ones: both are certain, and the total fell."""
    gains = np.random.default_rng(0).permutation([1.0] * 600 + [-600.0] * 40)
    T, never = np.arange(len(gains)), np.zeros(len(gains), bool)
    both = Compared("payoffs", gains, 0 * gains, -abs(gains), abs(gains), 600.0, T, ~never, never)
    found = judged(both, NEW, alpha=0.05)
    assert min(found.e_better, found.e_worse) > found.needed
    assert (found.verdict, found.difference) == ("keep", -23_400)


# False verdicts


@pytest.mark.parametrize(("steps", "T"), [(((-1.0, 0.5), (1.0, 0.5)), 9), (((-0.5, 0.5), (0.0, 0.25), (1.0, 0.25)), 6)])
def test_in_fair_games_evidence_is_a_martingale(steps: Any, T: int) -> None:
    """Over all sequences: the mean of E after any past is E, and no rule of stopping reaches 1/alpha too often."""
    gains, chances = np.array(steps).T
    paths = np.array(list(itertools.product(range(len(gains)), repeat=T)))
    log_e_NxT = np.array([log_evidence(gains[path], np.full(T, -1.0), 1.0) for path in paths])
    before = np.ones(1)
    for t in range(T):  # the first of the paths that go through each node
        now = np.exp(log_e_NxT[:: len(gains) ** (T - 1 - t), t])
        assert now.reshape(-1, len(gains)) @ chances == pytest.approx(before, rel=1e-12)
        before = now
    for alpha in (0.5, 0.8):
        crossed = (log_e_NxT.max(axis=1) >= -math.log(alpha) - 1e-12) @ chances[paths].prod(axis=1)
        assert 0.1 * alpha < crossed <= alpha


def test_no_world_promotes_what_is_no_better_more_often_than_alpha() -> None:
    """Exactly, over all worlds that choose from the past which two actions differ and how: by backward induction."""
    pairs, T = ((-1.0, 1.0), (-0.25, 0.5)), 6

    def worst(left: int, alpha: float, gains: tuple[float, ...], lows: tuple[float, ...]) -> float:
        if gains and log_evidence(np.array(gains), np.array(lows), 1.0)[-1] >= -math.log(alpha) - 1e-12:
            return 1.0
        found = [0.0]
        for low, high in pairs if left else ():
            down, up = (worst(left - 1, alpha, (*gains, one), (*lows, low)) for one in (low, high))
            found += [down, (high * down - low * up) / (high - low)]  # certainly the worst, or mean 0
        return max(found)

    for alpha, least in ((0.5, 0.2), (0.8, 0.4)):
        assert least < worst(T, alpha, (), ()) <= alpha + 1e-12


def largest_chance(T: int, lag: int, enough: float, classes: int) -> float:
    """The largest chance that E gets there, over all T coins that are fair given those before the lag."""
    paths = np.array(list(itertools.product((-1.0, 1.0), repeat=T)))
    crossed = [log_evidence(path, np.full(T, -1.0), 1.0, classes).max() >= math.log(enough) - 1e-12 for path in paths]
    rows = []
    for t in range(T):
        known = max(t - lag + 1, 0)
        for past in itertools.product((-1.0, 1.0), repeat=known):
            rows.append(paths[:, t] * (paths[:, :known] == past).all(axis=1))
    equal = {"A_eq": np.ones((1, len(paths))), "b_eq": [1.0]}
    found = optimize.linprog(-np.array(crossed, float), A_ub=np.array(rows), b_ub=np.zeros(len(rows)), **equal)
    assert found.status == 0
    return float(-found.fun)


@pytest.mark.parametrize("lag", [2, 3])
def test_late_outcomes_need_classes_and_more_evidence(lag: int) -> None:
    alpha = 0.5
    assert largest_chance(9, lag, late_factor(lag) / alpha, classes=lag) <= alpha
    assert largest_chance(9, lag, 1 / alpha, classes=1) > (1.1 * alpha if lag > 2 else 0.4)  # nothing is promised


def test_false_promotions_of_fair_coins_are_those_over_all_sequences() -> None:
    """The exact row of the page, by a loop over all 2,048 sequences of 11 items."""
    paths = itertools.product((-1.0, 1.0), repeat=11)
    every = promoted(lambda rng, items: np.array(next(paths)), runs=2**11, items=11)
    assert promoted_exactly(11) == pytest.approx(every, abs=1e-12)
    assert 0 < every[0] < 0.05 < every[1]


@pytest.mark.parametrize("world", WORLDS)
def test_candidates_that_are_no_better_are_rarely_promoted_however_often_one_looks(world: str) -> None:
    runs = 100
    gate_each, t_each, t_daily, _ = promoted(WORLDS[world], runs, items=1000)
    most = stats.binom.ppf(0.999, runs, 0.05) / runs
    assert gate_each <= most < min(t_each, t_daily)


def test_the_items_that_a_fixed_test_needs_are_enough() -> None:
    rng, n = np.random.default_rng(0), math.ceil(fixed(0.5, 0.1, 0.9))
    runs = [gains(rng, n, 0.5, 0.1) for _ in range(2000)]
    found = sum(t_tests(apart.sum(), (apart**2).sum(), np.array(n)) for apart in runs)
    assert stats.binom.ppf(0.001, 2000, 0.9) <= found <= stats.binom.ppf(0.999, 2000, 0.9)


# How many more


def test_how_many_more_of_differences_that_do_not_vary() -> None:
    """Exactly as many as the definition needs, to two digits and the points that are tried."""
    for lag in (1, 2):
        gains, lows = np.full(100, 0.05), np.full(100, -1.0)
        each = [math.log1p(0.05 * min(2.0 ** (8 - k), 0.5)) for k in range(20)]
        enough = next(n for n in range(999) if sum(math.exp(n / lag * own) for own in each) >= 20 * 1e4)
        found = more_steps(gains, lows, 1.0, lag, 1e4)
        assert found == (found[0],) * 3
        assert found[0] == pytest.approx(enough - 100, rel=0.06, abs=lag)
    assert more_steps(-gains, lows, 1.0, 1, 1e4) == (None, None, None)
    assert more_steps(gains, lows, 1.0, 1, 1e40) == (None, None, None)  # over ten times the log
    assert more_steps(gains[:9], lows[:9], 1.0, 1, 1e4) == (None, None, None)


@pytest.mark.parametrize(("edge", "T"), [(0.1, 120), (0.2, 40)])
def test_how_many_more_is_about_right(edge: float, T: int) -> None:
    """Of many logs that are undecided: the median is within a factor of 2, the range holds about nine in ten."""
    rng, ratios, inside = np.random.default_rng(0), [], []
    lows = np.full(12 * T, -1.0)
    while len(ratios) < 40:
        gains = rng.choice([-1.0, 0.0, 1.0], p=[(0.5 - edge) / 2, 0.5, (0.5 + edge) / 2], size=12 * T)
        log_e = log_evidence(gains, lows, 1.0)
        median, low, high = more_steps(gains[:T], lows[:T], 1.0, 1, 20.0)
        if log_e[T - 1] >= math.log(20) or median is None:
            continue
        later = np.flatnonzero(log_e[T:] >= math.log(20))
        true = later[0] + 1 if len(later) else np.inf
        ratios.append(median / true)
        inside.append(low <= true <= (high or np.inf))
    assert 0.5 < np.median(ratios) < 2
    assert np.mean(inside) > 0.875


def test_how_many_more_in_words() -> None:
    gains = np.array([1.0, 0.0, 1.0, -1.0, 1.0] * 8)
    found = gate(np.maximum(gains, 0), np.maximum(-gains, 0), alpha=1e-9)
    assert f"about {found.more_steps:,} more items will do (90%: {found.more_range[0]:,} to " in str(found)
    for new, current, words in (
        ([1] * 20, [1] * 20, "The two never differ."),
        ([1, 0] * 20, [0, 1] * 20, "At this rate it takes more than 10 times this log."),
        ([1, 0, 1], [0, 1, 0], "It is too early to say how many more."),
    ):
        assert words in str(gate(new, current, alpha=1e-9))


# Logs of scores


def results(T: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"id": [f"q{i}" for i in range(T)], "day": pd.date_range("2026-01-01", periods=6).repeat(T // 6)}
    )
    return table.assign(lang=rng.choice(["de", "en"], T), a=rng.random(T) < 0.5, b=rng.random(T) < 0.8)


def test_logs_of_scores_are_the_arrays(tmp_path: Path) -> None:
    table = results()
    words = table.assign(b=table["b"].map({True: "pass", False: "Fail"}))
    words.to_csv(tmp_path / "wide.csv", index=False)
    table.to_parquet(tmp_path / "wide.parquet")
    expected, by_day = gate(table["b"], table["a"], names=("b", "a")), table.groupby("day")[["a", "b"]].mean()
    daily, english = gate(by_day["b"], by_day["a"]), table.query("lang == 'en'")
    en = gate(english["b"], english["a"], alpha=0.05)
    for log in (table, tmp_path / "wide.csv", tmp_path / "wide.parquet"):
        for names in ({}, {"item": "id"}):
            found = gate_scores(log, "b", "a", **names)
            assert (found.verdict, found.totals, found.rows, found.unit) == ("promote", expected.totals, 120, "item")
            assert (found.e_better, found.e_worse) == (expected.e_better, expected.e_worse)
            found = gate_scores(log, "b", "a", order="day", **names)
            assert found.e_better == pytest.approx(daily.e_better, rel=1e-12)
            assert (found.steps, found.rows, found.unit) == (6, 120, "day")
            assert (found.first[:10], found.last[:10]) == ("2026-01-01", "2026-01-06")
            assert "judged by their mean" in found.warnings[0]
            slices = gate_scores(log, "b", "a", by="lang", alpha=0.1, **names).parts
            assert {name: part.rows for name, part in slices.items()} == table["lang"].value_counts().to_dict()
            assert (slices["en"].e_better, slices["en"].needed) == (en.e_better, en.needed)


def test_decimal_commas_and_unix_times(tmp_path: Path) -> None:
    seconds = 1_767_225_600 + 86_400 * np.arange(20)  # from 2026 on
    lines = [f"{at};0,{25 + i};0,5" for i, at in enumerate(seconds)]
    (tmp_path / "log.csv").write_text("\n".join(["at;b;a", *lines]))
    found = gate_scores(tmp_path / "log.csv", "b", "a", order="at")
    assert found.e_better == gate(0.25 + np.arange(20) / 100, np.full(20, 0.5)).e_better
    assert (found.unit, found.first, found.last) == ("day", "2026-01-01T00:00:00Z", "2026-01-20T00:00:00Z")


def test_rows_of_one_item_are_judged_by_their_mean() -> None:
    log = pd.DataFrame({"id": [1, 1, 2, 2], "b": [1.0, 1.0, 0.5, 0.5], "a": [1.0, 0.0, 0.25, 0.25]})
    found = gate_scores(log, "b", "a", item="id")
    assert (found.rows, found.e_better) == (2, gate([1.0, 0.5], [0.5, 0.25]).e_better)
    assert found.totals == {"b": 1.5, "a": 0.75}


def test_what_is_said_of_the_log_is_said_of_no_slice() -> None:
    log = pd.DataFrame({"day": [1, 1, 2, 2], "part": list("xyxx"), "b": [1, 1, 1, 1], "a": [0, 0, 0, 0]})
    text = str(gate_scores(log, "b", "a", by="part", order="day"))
    assert text.count("! items of one time are judged by their mean") == 1
    assert text.splitlines()[2].endswith(" -")  # too early to say how many more


def test_blank_lines_of_scores_are_no_items(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("id,b,a\n1,1,0\n\n2,1,1\n\n")
    assert gate_scores(tmp_path / "log.csv", "b", "a", item="id").rows == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"new": [0.5, 2]}, r"new must be scores from low = 0 to high = 1, got 2 at index \(1,\)"),
        ({"new": [0.5, np.nan]}, "got nan at index"),
        ({"new": [0.5]}, "must be of the same items, got 1 and 2"),
        ({"new": [[0.5, 1]]}, "one score per item"),
        ({"new": ["a", "b"]}, "must be scores or bools"),
        ({"new": {"f1": [0.5, 1]}}, "or dicts of them with the same names"),
        ({"new": {"f1": [2, 1]}, "current": {"f1": [0, 1]}}, r"new\['f1'\] must be scores from"),
        ({"new": {}, "current": {}}, "or dicts of them with the same names"),
        ({"new": [1, 1], "current": [1, 1], "low": 1}, "low must be below high"),
        ({"alpha": 0}, "alpha"),
        ({"names": ("a", "a")}, "names must be names, at least one and each once"),
    ],
)
def test_scores_that_cannot_be_judged_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        gate(**{"new": [0.5, 1], "current": [0.5, 1]} | change)


def test_logs_of_scores_that_cannot_be_judged_are_refused(tmp_path: Path) -> None:
    table = results()
    bad = table.assign(b=table["b"].astype(float))
    bad.loc[[7, 9], "b"] = np.nan, 3.0
    missing = table.assign(id=table["id"].where(table.index != 4))
    for log, settings, words in (
        (bad, {}, r"row 8: a score \(b\) must be in the range 0 to 1"),
        (bad.fillna({"b": 1}), {}, r"row 10: .*got 3"),
        (table.assign(b="good"), {}, "got 'good'"),
        (missing, {"item": "id"}, "row 5: id must name the item in every row"),
        (table.assign(day="soon"), {"order": "day"}, "day must name the order in every row, got 'soon'"),
        (table.iloc[:0], {}, "it has no rows"),
    ):
        log.to_parquet(tmp_path / "log.parquet")
        for own in (log, tmp_path / "log.parquet"):
            with pytest.raises(Refused, match=words):
                gate_scores(own, "b", "a", **settings)
    with pytest.raises(ValueError, match="the column of item must be one of id, day, lang, a, b"):
        gate_scores(table, "b", "a", item="none")


# Logs of forecasts


def days_of(seed: int, T: int, streams: tuple[str, ...] = ("a",), knows: tuple[float, float] = (0.4, 0.1)) -> Any:
    """A row for each stream and day, with both models' forecasts; days are missing in all but the first stream."""
    rng, parts = np.random.default_rng(seed), []
    for name in streams:
        state = rng.integers(3, size=T)
        days = {"town": name, "ds": pd.date_range("2025-03-01", periods=T), "y": np.array(SHOP.states)[state]}
        for model, much in zip(NEW, knows, strict=True):
            probs = (1 - much) * rng.dirichlet(np.ones(3), T) + much * np.eye(3)[state]
            days |= {f"{model}_p_{name}": probs[:, s] for s, name in enumerate(SHOP.states)}
        part = pd.DataFrame(days)
        parts.append(part if name == streams[0] else part.iloc[rng.integers(5) :: 1 + len(parts)])
    return pd.concat(parts, ignore_index=True)


def literally(wide: Any, lag: int) -> Any:
    """Totals, days and evidence by loops over rows and days, from the payoffs themselves."""
    payoffs = np.array([[100, -60, -20], [0, 0, 0], [-30, 40, 10]])
    totals, days = np.zeros(2), dict[Any, list[Any]]()
    for _, row in wide.iterrows():
        new, current = (
            payoffs[(payoffs @ [row[f"{model}_p_{state}"] for state in SHOP.states]).argmax()] for model in NEW
        )
        s = SHOP.states.index(row["y"])
        totals += new[s], current[s]
        days.setdefault(row["ds"], []).append(((new - current)[s], (new - current).min(), (new - current).max()))
    means = [np.mean(days[day], axis=0) for day in sorted(days)]
    better, worse = [(gain, low) for gain, low, _ in means], [(-gain, -high) for gain, _, high in means]
    return totals, len(days), evidence(better, 130, lag), evidence(worse, 130, lag)


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("streams", [("a",), ("a", "b", "c")])
def test_forecasts_are_judged_by_the_definition(streams: tuple[str, ...], lag: int, tmp_path: Path) -> None:
    verdicts, wait = set(), lag if len(streams) == 1 else 3 * lag  # the third stream has a step every third day
    for seed, knows in enumerate([(0.6, 0.1), (0.1, 0.6), (0.2, 0.2)]):
        wide = days_of(seed, 90 * wait, streams, knows)
        totals, days, better, worse = literally(wide, wait)
        mixed = wide.sample(frac=1, random_state=1)
        mixed.to_csv(tmp_path / "log.csv", index=False)
        for log in (mixed, tmp_path / "log.csv"):
            found = gate_forecasts(log, SHOP, *NEW, lag=lag, columns=TOWN)
            assert list(found.totals.values()) == pytest.approx(totals)
            assert (found.e_better, found.e_worse) == (pytest.approx(better, rel=1e-9), pytest.approx(worse, rel=1e-9))
            assert found.needed == pytest.approx(late_factor(wait) / 0.05)
            assert (found.steps, found.rows, found.streams, found.unit) == (days, len(wide), len(streams), "day")
            assert (found.first, found.last) == ("2025-03-01", str(wide["ds"].max().date()))
            assert any(f"only {wait} of all their steps later" in words for words in found.warnings) == (wait > lag)
            verdicts.add(found.verdict)
            assert json.loads(found.to_json())["e_better"] == found.e_better
    assert verdicts == {"promote", "keep", "not enough yet"}


def test_columns_by_their_names() -> None:
    wide = days_of(2, 30)
    expected = gate_forecasts(wide, SHOP, *NEW)
    odd = wide.rename(columns=lambda name: name.replace("_p_", "#"))
    for probs in ({s: f"{{}}#{s}" for s in SHOP.states}, [f"{{}}#{s}" for s in SHOP.states]):
        assert gate_forecasts(odd, SHOP, *NEW, columns={"probs": probs}).e_better == expected.e_better
    for log, columns in ((odd, {}), (wide, {"probs": {s: f"new_p_{s}" for s in SHOP.states}})):
        with pytest.raises(ValueError, match="there must be columns of the forecasts of new, new_p_STATE"):
            gate_forecasts(log, SHOP, *NEW, columns=columns)


def test_quantiles_are_acted_on_by_their_best_responses() -> None:
    rng, T = np.random.default_rng(0), 120
    demand, orders = rng.uniform(0, 40, T), (0, 10, 20, 30)
    stall = lr.Payoff(
        lambda q, d: 5 * np.minimum(q, d) - 3 * q, orders, -90, 60, knots=orders[1:], outcomes=(0, np.inf)
    )
    wide, gains, span = pd.DataFrame({"ds": pd.date_range("2026-01-01", periods=T), "y": demand}), [], 60.0
    for model, noise in zip(NEW, (1, 12), strict=True):
        middle = np.clip(demand + rng.normal(0, noise, T), 5, 35)
        width = rng.uniform(0.1, 0.9, T) * middle
        wide = wide.assign(**{f"{model}_q10": middle - width, f"{model}_q50": middle, f"{model}_q80": middle + width})
    for _, row in wide.iterrows():
        best = []
        for model in NEW:  # the outer masses lie on the outer quantiles, the others are spread evenly over four points
            low, middle, high = (row[f"{model}_q{level}"] for level in (10, 50, 80))
            shares = (1 / 8, 3 / 8, 5 / 8, 7 / 8)
            points = [low, *(at + (high - middle) * share for at in (low, middle) for share in shares), high]
            weights = [0.1, *[0.1] * 4, *[0.075] * 4, 0.2]
            means = [sum(w * stall.fn(q, point) for w, point in zip(weights, points, strict=True)) for q in orders]
            best.append(orders[int(np.argmax(means))])
        each = [stall.fn(best[0], d) - stall.fn(best[1], d) for d in (0, *orders[1:], 1e9)]
        gains.append((stall.fn(best[0], row["y"]) - stall.fn(best[1], row["y"]), min(each), max(each)))
    found = gate_forecasts(wide, stall, *NEW)
    span = float(stall.regret_in_payoffs(stall.span))
    assert found.e_better == pytest.approx(evidence([(gain, low) for gain, low, _ in gains], span), rel=1e-9)
    assert found.e_worse == pytest.approx(evidence([(-gain, -high) for gain, _, high in gains], span), rel=1e-9)
    assert found.difference == pytest.approx(sum(gain for gain, *_ in gains))
    names = {"q10": "lo-80", "q50": "median", "q80": "hi-60"}
    nixtla = wide.rename(columns={f"{m}_{old}": f"{m}-{name}" for m in NEW for old, name in names.items()})
    named = {"quantiles": {0.1: "{}_q10", 0.5: "{}_q50", 0.8: "{}_q80"}}
    for log, columns in ((nixtla, None), (wide, named)):
        assert gate_forecasts(log, stall, *NEW, columns=columns).e_better == found.e_better


def test_outcomes_that_are_not_known_yet_wait_and_a_missing_one_counts_as_the_worst() -> None:
    wide = days_of(2, 60)
    hidden = wide.assign(y=wide["y"].where((wide.index < 55) & (wide.index != 20)))
    found = gate_forecasts(hidden, SHOP, *NEW)
    worst, best = ([], [])
    for state in SHOP.states:  # the most against either verdict, over what it may have been
        one = gate_forecasts(wide.iloc[:55].assign(y=wide["y"].where(wide.index != 20, state)), SHOP, *NEW)
        worst.append(one.e_better)
        best.append(one.e_worse)
    assert (found.e_better, found.e_worse) == (pytest.approx(min(worst)), pytest.approx(min(best)))
    assert found.rows == 55
    assert found.difference == pytest.approx(found.totals["new"] - found.totals["current"])
    assert "1 outcomes are missing: each counts as the worst that it could be for either verdict" in found.warnings
    assert not any("skipped" in words for words in found.warnings)


def test_days_count_by_their_scale() -> None:
    wide = days_of(2, 60)
    shared = wide.assign(share=np.where(wide.index < 40, 1.0, 1e-12))
    found = gate_forecasts(shared, SHOP, *NEW, columns={"scale": "share"})
    first = gate_forecasts(wide[:40], SHOP, *NEW)
    assert (found.e_better, found.totals) == (pytest.approx(first.e_better), pytest.approx(first.totals))


def test_known_at_is_a_lag() -> None:
    wide = days_of(2, 60)
    known = wide.assign(known=wide["ds"] + pd.Timedelta(hours=60))
    found = gate_forecasts(known, SHOP, *NEW, columns={"known_at": "known"})
    later = gate_forecasts(wide, SHOP, *NEW, lag=3)
    assert (found.lag, found.needed, found.e_better) == (3, later.needed, later.e_better)


def test_forecasts_that_cannot_be_judged_are_refused(tmp_path: Path) -> None:
    wide = days_of(2, 30, ("a", "b"))
    off = wide.copy()
    off.loc[3, "new_p_dry"] += 0.2
    for log, row, words in (
        (pd.concat([wide, wide.iloc[[3]]]), None, "twice"),
        (off, 4, "sum to"),
        (wide.drop(columns="ds"), None, "a log of several streams must have a column of steps or times"),
    ):
        log.to_csv(tmp_path / "log.csv", index=False)
        for own in (log, tmp_path / "log.csv"):
            with pytest.raises(Refused, match=words) as refused:
                gate_forecasts(own, SHOP, *NEW, columns=TOWN)
            assert row is None or refused.value.row == row
    smooth = lr.Payoff(lambda a, y: a * y, [0, 1], -1, 1, outcomes=(-1, 1))
    for problem, new, columns, words in (
        (SHOP, "new", {"model": "new"}, "must name none of model, context"),
        (SHOP, "newer", TOWN, "there must be columns of the forecasts of newer"),
        (smooth, "new", None, "knots"),
        ([[1, 0]], "new", None, "must be a DecisionProblem"),
    ):
        with pytest.raises(ValueError, match=words):
            gate_forecasts(wide, problem, new, "current", columns=columns)
