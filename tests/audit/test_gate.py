"""The gate between two models: its bets by a literal loop, false verdicts by exact worst cases, logs of every shape."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.optimize import linprog

import lowregret as lr
from lowregret.audit import Refused, gate
from lowregret.audit.gating import RATES, _Bettors, log_evidence
from lowregret.certificates.coupled import late_factor

SHOP = lr.DecisionProblem.from_payoffs(
    [[100, -60, -20], [0, 0, 0], [-30, 40, 10]], ["open", "shut", "sell umbrellas"], ["dry", "wet", "mist"]
)


def laws(rng: np.random.Generator, n: int, towards: np.ndarray, knows: float) -> np.ndarray:
    """What a model says that knows so much of what comes."""
    drawn = rng.dirichlet(np.ones(3), n)
    return (1 - knows) * drawn + knows * np.eye(3)[towards]


def days_of(seed: int, T: int, streams: tuple[str, ...] = ("a",), knows: tuple[float, float] = (0.4, 0.1)) -> Any:
    """A row a stream and day, with what both models said; some days are missing in all but the first stream."""
    rng, parts = np.random.default_rng(seed), []
    for name in streams:
        came = rng.integers(3, size=T)
        new, old = (laws(rng, T, came, much) for much in knows)
        part = pd.DataFrame(
            {"town": name, "ds": pd.date_range("2025-03-01", periods=T), "y": np.array(SHOP.states)[came]}
        )
        for who, law in (("new", new), ("current", old)):
            for s, state in enumerate(SHOP.states):
                part[f"{who}_p_{state}"] = law[:, s]
        parts.append(part if name == streams[0] else part.iloc[rng.integers(5) :: 1 + len(parts)])
    return pd.concat(parts, ignore_index=True)


def stacked(wide: Any) -> Any:
    """The same days, a row a model."""
    keys = [name for name in wide if "_p_" not in name]
    each = [
        wide[[*keys, *(f"{who}_p_{state}" for state in SHOP.states)]]
        .rename(columns={f"{who}_p_{state}": f"p_{state}" for state in SHOP.states})
        .assign(model=who)
        for who in ("new", "current")
    ]
    return pd.concat(each, ignore_index=True)


def literally(wide: Any, lag: int = 1) -> dict[str, Any]:
    """Every number by loops over rows and days, from the payoffs themselves."""
    pays = {"open": [100, -60, -20], "shut": [0, 0, 0], "sell umbrellas": [-30, 40, 10]}

    def best(row: Any, who: str) -> str:
        law = [row[f"{who}_p_{state}"] for state in ("dry", "wet", "mist")]
        worth = {name: sum(p * pay for p, pay in zip(law, own, strict=True)) for name, own in pays.items()}
        return max(worth, key=worth.__getitem__)

    earned, apart, days = {"new": 0.0, "current": 0.0}, 0, dict[Any, list[tuple[float, float, float]]]()
    for _, row in wide.iterrows():
        new, old = best(row, "new"), best(row, "current")
        s = ("dry", "wet", "mist").index(row["y"])
        earned["new"] += pays[new][s]
        earned["current"] += pays[old][s]
        apart += new != old
        gains = [a - b for a, b in zip(pays[new], pays[old], strict=True)]
        days.setdefault(row["ds"], []).append((gains[s], min(gains), max(gains)))
    span = max(max(a - b for a in column) for column in zip(*pays.values(), strict=True) for b in column)
    evidence = {}
    for sign in (1, -1):
        wealth = [[1.0] * 20 for _ in range(lag)]
        for t, day in enumerate(sorted(days)):
            own = days[day]
            mean = sign * sum(gain for gain, _, _ in own) / len(own)
            least = sum(low if sign > 0 else -high for _, low, high in own) / len(own)
            for k in range(20):
                rate = 2.0 ** (8 - k) / span
                if least < 0:
                    rate = min(rate, 0.5 / -least)
                wealth[t % lag][k] *= 1 + rate * mean
        evidence[sign] = sum(map(sum, wealth)) / (20 * lag)
    return {"earned": earned, "apart": apart, "e": evidence, "days": len(days)}


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("streams", [("a",), ("a", "b", "c")])
def test_it_is_its_definition(streams: tuple[str, ...], lag: int, tmp_path: Path) -> None:
    verdicts, wait = set(), lag if len(streams) == 1 else 3 * lag  # the third stream has a step every third day
    for seed, knows in enumerate([(0.6, 0.1), (0.1, 0.6), (0.2, 0.2)]):
        wide = days_of(seed, 90 * wait, streams, knows)
        asked = literally(wide, wait)
        mixed = wide.sample(frac=1, random_state=1)
        tall = stacked(wide).sample(frac=1, random_state=2)
        mixed.to_csv(tmp_path / "log.csv", index=False)
        tall.to_parquet(tmp_path / "log.parquet")
        for log in (mixed, tall, tmp_path / "log.csv", tmp_path / "log.parquet"):
            found = gate(log, SHOP, model="new", against="current", lag=lag, columns={"stream": "town"})
            assert found.earned == pytest.approx(asked["earned"])
            assert found.difference == pytest.approx(asked["earned"]["new"] - asked["earned"]["current"])
            assert found.difference_a_step == pytest.approx(found.difference / len(wide))
            assert (found.apart, found.steps, found.rows, found.streams) == (
                *(asked["apart"], asked["days"], len(wide), len(streams)),
            )
            assert found.e_better == pytest.approx(asked["e"][1], rel=1e-9)
            assert found.e_worse == pytest.approx(asked["e"][-1], rel=1e-9)
            assert found.needed == pytest.approx(late_factor(wait) / 0.05)
            assert (found.first, found.last) == ("2025-03-01", str(wide["ds"].max().date()))
            assert found.days
            better, worse = found.e_better >= found.needed, found.e_worse >= found.needed
            asked_verdict = "promote" if better else "keep" if worse else "not enough yet"
            assert found.verdict == asked_verdict
            verdicts.add(found.verdict)
            assert json.loads(found.to_json())["e_better"] == found.e_better
    assert verdicts == {"promote", "keep", "not enough yet"}


# False verdicts


def sup_of_false_verdict(gains: tuple[float, ...], T: int, lag: int, span: float, enough: float, split: bool) -> float:
    """The largest chance, over all joint laws of T outcomes under the null, that E ever reaches ``enough``: by LP.

    The null: given the outcomes up to ``lag`` steps before, the mean gain of a step is at most 0. ``split``: whether E
    is that of the classes of days.
    """
    paths = np.array(list(itertools.product(range(len(gains)), repeat=T)))
    gain_NxT = np.array(gains)[paths]
    low_T = np.full(T, min(gains))
    crossed = [
        (log_evidence(gain_T, low_T, span, lag if split else 1) >= math.log(enough) - 1e-12).any()
        for gain_T in gain_NxT
    ]
    rows = []
    for t in range(T):
        known = max(t - lag + 1, 0)
        for prefix in itertools.product(range(len(gains)), repeat=known):
            rows.append(gain_NxT[:, t] * (paths[:, :known] == prefix).all(axis=1))
    done = linprog(
        -np.array(crossed, dtype=float),
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=np.ones((1, len(paths))),
        b_eq=[1.0],
    )
    assert done.status == 0
    return float(-done.fun)


@pytest.mark.parametrize(
    ("gains", "T"), [((-1.0, 1.0), 9), ((-1.0, 3.0), 9), ((-3.0, 1.0), 9), ((-1.0, 0.2, 2.0), 6), ((0.0, 1.0), 5)]
)
def test_no_world_promotes_a_model_that_is_no_better_more_often_than_alpha(gains: tuple[float, ...], T: int) -> None:
    """The exact supremum over all worlds of the null, adaptive ones too."""
    worst = []
    for alpha in (0.2, 0.5, 0.8):
        worst.append(sup_of_false_verdict(gains, T, 1, max(map(abs, gains)), 1 / alpha, split=True) / alpha)
    assert max(worst) <= 1 + 1e-9
    assert max(worst) > (0.5 if min(gains) < 0 else -1)  # the test can fail: it comes close


def test_neither_do_worlds_that_choose_the_range_as_well() -> None:
    """Two ranges a step (two pairs of actions), chosen by an adversary who sees the past: by backward induction."""
    pairs, T, span = ((-1.0, 1.0), (-0.25, 0.5)), 6, 1.0
    for alpha, least in ((0.5, 0.2), (0.8, 0.4)):
        assert least < _worst_of(pairs, T, span, alpha, (), ()) <= alpha + 1e-12


def _worst_of(
    pairs: tuple[tuple[float, float], ...], left: int, span: float, alpha: float, gains: Any, lows: Any
) -> float:
    """P(E ever reaches 1/alpha) from here on, at most."""
    if gains and log_evidence(np.array(gains), np.array(lows), span)[-1] >= -math.log(alpha) - 1e-12:
        return 1.0
    if not left:
        return 0.0
    found = []
    for low, high in pairs:
        down, up = (_worst_of(pairs, left - 1, span, alpha, (*gains, one), (*lows, low)) for one in (low, high))
        found += [down, (high * down - low * up) / (high - low)]  # for sure the worst, or mean 0
    return max(found)


@pytest.mark.parametrize("lag", [2, 3])
def test_late_outcomes_need_classes_and_more_evidence(lag: int) -> None:
    alpha = 0.5
    enough = late_factor(lag) / alpha
    assert sup_of_false_verdict((-1.0, 1.0), 9, lag, 1.0, enough, split=True) <= alpha
    plain = sup_of_false_verdict((-1.0, 1.0), 9, lag, 1.0, 1 / alpha, split=False)
    assert plain > (1.1 * alpha if lag > 2 else 0.4)  # the product over all days promises nothing


def test_runs_of_two_equal_models_are_rarely_decided() -> None:
    """Ever, and by chance: 400 runs of 300 days of matching, of two models that know as much."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(400):
        gain_T = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=300)
        wrong += (log_evidence(gain_T, np.full(300, -1.0), 1.0) >= math.log(10)).any()
    assert 0 < wrong <= 55  # at most 40 on average; 2.5 standard deviations above


def test_how_many_more_days() -> None:
    """If the same days come again and again, there is enough in the repetition that it says, and not before."""
    wide = days_of(5, 60, knows=(0.3, 0.2))
    asked: dict[str, Any] = {"model": "new", "against": "current", "alpha": 1e-9}
    found = gate(wide, SHOP, **asked)
    assert found.verdict == "not enough yet"
    assert found.more_steps is not None
    times = math.ceil((60 + found.more_steps) / 60)
    assert times > 3
    for often, verdict in ((times, "promote"), (times - 1, "not enough yet")):
        again = pd.concat([wide] * often, ignore_index=True)
        again["ds"] = pd.date_range("2025-01-01", periods=len(again))
        assert gate(again, SHOP, **asked).verdict == verdict


def test_how_many_more_days_with_a_lag() -> None:
    """Each class of days goes on as all of them did on average."""
    rng, lag, enough = np.random.default_rng(0), 3, 1e6
    gain_T, low_T = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.4, 0.4], size=50), np.full(50, -1.0)
    found = _Bettors(gain_T, low_T, 1.0, lag).more_steps(enough)
    assert found is not None

    def later(days: int) -> float:
        whole = 0.0
        for k in range(20):
            rate = min(2.0 ** (8 - k), 0.5)
            grown = [math.log(1 + rate * gain) for gain in gain_T]
            for r in range(lag):
                whole += math.exp(sum(grown[r::lag]) + days / lag * sum(grown) / 50)
        return whole / (20 * lag)

    assert later(found - 1) < enough <= later(found)
    assert _Bettors(-gain_T, low_T, 1.0, lag).more_steps(enough) is None


def test_models_that_act_alike_are_never_told_apart() -> None:
    wide = days_of(1, 30)
    for state in SHOP.states:
        wide[f"current_p_{state}"] = wide[f"new_p_{state}"]
    found = gate(wide, SHOP, model="new", against="current")
    assert (found.verdict, found.apart, found.more_steps) == ("not enough yet", 0, None)
    assert (found.e_better, found.e_worse) == (pytest.approx(1), pytest.approx(1))
    assert "never be enough" in str(found)


def test_the_verdict_goes_with_the_money() -> None:
    """Better in many small matters, worse in few large ones: both are certain, and money was lost."""
    problem = lr.DecisionProblem.from_payoffs([[0, 0, 0, 0], [1, -1, 0, 0], [0, 0, -300, 300]], states=list("abcd"))
    sure = np.eye(4)
    small, large, calm = sure[0], sure[3], np.array([0.4, 0.6, 0, 0])  # play the second, the third, the first action
    rows = [(small, calm, "a")] * 600 + [(large, calm, "c")] * 40
    rng = np.random.default_rng(0)
    rows = [rows[i] for i in rng.permutation(len(rows))]
    frame = pd.DataFrame({
        "y": [state for *_, state in rows],
        "probs_new": [list(map(float, new)) for new, _, _ in rows],
        "probs_old": [list(map(float, old)) for _, old, _ in rows],
    })  # fmt: skip
    found = gate(frame, problem, model="new", against="old")
    assert min(found.e_better, found.e_worse) > found.needed
    assert found.difference < 0
    assert found.verdict == "keep"


# Logs


@pytest.mark.parametrize(
    "spelt",
    ["{m}_p_{s}", "{m}_{s}", "p_{s}_{m}", "{s}_{m}", "p_{m}_{s}", "{m}-{s}", "{m}.prob.{s}", "prob_{s}_{m}", "{s} {m}"],
)
def test_columns_by_their_names(spelt: str) -> None:
    wide = days_of(2, 30)
    asked = gate(wide, SHOP, model="new", against="current")
    names = {f"{m}_p_{s}": spelt.format(m=m, s=s) for m in ("new", "current") for s in SHOP.states}
    found = gate(wide.rename(columns=names), SHOP, model="new", against="current")
    assert (found.e_better, found.earned) == (asked.e_better, asked.earned)
    odd = wide.rename(columns={name: name.replace("_p_", "#") for name in names})
    told = {"probs": {s: f"{{}}#{s}" for s in SHOP.states}}
    assert gate(odd, SHOP, model="new", against="current", columns=told).e_better == asked.e_better


def test_one_column_of_two_states_and_a_column_of_models_by_another_name() -> None:
    coin = lr.DecisionProblem.from_payoffs([[1, 0], [0, 1]], states=["no", "yes"])
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({"y": rng.choice(["no", "yes"], 40), "yes by a": rng.random(40), "yes by b": rng.random(40)})
    found = gate(wide, coin, model="a", against="b", columns={"probs": {"yes": "yes by {}"}})
    for who in "ab":
        assert found.earned[who] == ((wide[f"yes by {who}"] > 0.5) == (wide["y"] == "yes")).sum()
    tall = pd.concat([wide[["y"]].assign(t=range(40), who=who, chance=wide[f"yes by {who}"]) for who in "ab"])
    told = {"probs": {"yes": "chance"}, "model": "who"}
    assert gate(tall, coin, model="a", against="b", columns=told).e_better == found.e_better
    assert gate(tall, coin, model="a", against="b", columns=told).columns["model"] == "who"


def test_steps_of_one_model_alone_are_left_out_and_counted() -> None:
    tall = stacked(days_of(2, 60))
    late = tall[~((tall["model"] == "new") & (tall["ds"] < "2025-03-21"))]
    found = gate(late, SHOP, model="new", against="current")
    asked = gate(days_of(2, 60).iloc[20:], SHOP, model="new", against="current")
    assert (found.steps, found.e_better, found.earned) == (40, asked.e_better, asked.earned)
    assert any("20 rows of one model alone are left out" in words for words in found.warnings)
    third = pd.concat([late, late[late["model"] == "new"].assign(model="other")])
    assert gate(third, SHOP, model="new", against="current").e_better == found.e_better


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("kind", ["names", "categories", "numbers"])
def test_outcomes_that_are_not_known_yet_are_left_out(kind: str, lag: int, tmp_path: Path) -> None:
    problem = SHOP
    wide = days_of(2, 40, ("a", "b"))
    if kind == "numbers":
        problem = lr.DecisionProblem.from_payoffs(SHOP.in_payoffs(SHOP.utility))
        wide["y"] = wide["y"].map({name: float(s) for s, name in enumerate(SHOP.states)})
        wide = wide.rename(
            columns={f"{m}_p_{s}": f"{m}_p_{i}" for m in ("new", "current") for i, s in enumerate(SHOP.states)}
        )
    known = wide.groupby("town").cumcount(ascending=False) >= lag
    asked = gate(wide[known], problem, model="new", against="current", lag=lag, columns={"stream": "town"})
    open_ended = wide.astype({"y": "category"}) if kind == "categories" else wide.copy()
    open_ended.loc[~known, "y"] = None
    early = open_ended.copy()
    early.loc[39 - lag, "y"] = None  # the first that must be known
    for frame in (open_ended, early):
        frame.to_parquet(tmp_path / "log.parquet")
        frame.to_csv(tmp_path / "log.csv", index=False)
        logs = [frame, tmp_path / "log.parquet", tmp_path / "log.csv"]
        if kind == "numbers":  # not a number, and not missing, to Arrow
            table = pa.Table.from_pandas(frame, preserve_index=False)
            logs.append(table.set_column(2, "y", pa.array(frame["y"].to_numpy(), from_pandas=False)))
        for log in logs:
            more: dict[str, Any] = {"model": "new", "against": "current", "lag": lag, "columns": {"stream": "town"}}
            if frame is early:
                with pytest.raises(Refused, match=rf"row {40 - lag}: the outcome \(y\) is missing"):
                    gate(log, problem, **more)
                continue
            found = gate(log, problem, **more)
            assert (found.e_better, found.earned, found.rows) == (asked.e_better, asked.earned, asked.rows)
            assert f"{2 * lag} rows whose outcomes are not known yet are left out" in found.warnings
    with pytest.raises(Refused, match="no outcome is known yet"):
        gate(open_ended[~known], problem, **more)


def test_a_key_makes_no_streams(tmp_path: Path) -> None:
    wide = days_of(2, 30).drop(columns="town")
    tall = stacked(wide.assign(id=range(30)))
    asked = gate(wide, SHOP, model="new", against="current")
    tall.to_csv(tmp_path / "log.csv", index=False)
    for log in (tall, tmp_path / "log.csv"):
        found = gate(log, SHOP, model="new", against="current")
        assert (found.streams, found.e_better) == (1, asked.e_better)
        assert any("hardly repeat" in words for words in found.warnings)


def test_what_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    wide = days_of(2, 30, ("a", "b"))
    tall = stacked(wide)
    twice = pd.concat([tall, tall.iloc[[3]]], ignore_index=True)
    other = tall.copy()
    other.loc[3, "y"] = next(state for state in SHOP.states if state != other.loc[3, "y"])
    off = tall.copy()
    off.loc[3, "p_dry"] += 0.2
    apart = tall[(tall["model"] == "new") == (tall["ds"] < "2025-03-11")]
    town = {"stream": "town"}
    for log, columns, row, words in (
        (twice, town, len(tall) + 1, "is there twice, also in row 4"),
        (other, town, None, "the outcome of a step must be the same for both models"),
        (off, town, 4, "probabilities must sum to one"),
        (apart, town, None, "no step of a stream in common"),
        (tall.drop(columns="ds"), town, None, "a log with a column of models must have one of steps or times"),
        (wide.drop(columns="ds"), town, None, "a log with several streams must have one of steps or times"),
        (tall, {}, None, "is there twice"),
    ):
        log.to_parquet(tmp_path / "log.parquet")
        for own in (log, tmp_path / "log.parquet"):
            with pytest.raises(Refused, match=words) as refused:
                gate(own, SHOP, model="new", against="current", columns=columns)
            assert row is None or refused.value.row == row
    for more, words in (
        ({"model": "newer"}, "the models of this log are current, new, and 'newer' is not one of them"),
        ({"model": "current"}, "must be two models"),
        ({"model": 3}, "must be the name of a model"),
        ({"alpha": 0}, "alpha"),
        ({"lag": 0}, "lag"),
        ({"columns": {"model": "who"}}, "the column of models must be one of"),
        ({"columns": ["town"]}, "columns must be a dict"),
        ({"columns": {"horizon": 3}}, "columns must say"),
    ):
        with pytest.raises(ValueError, match=words):
            gate(tall, SHOP, **({"model": "new", "against": "current", "columns": town} | more))
    with pytest.raises(ValueError, match="one column of probabilities per state for newer"):
        gate(wide, SHOP, model="newer", against="current", columns=town)
    assert len(RATES) == 20


def test_streams_with_steps_at_different_times_wait_for_each_other() -> None:
    """One fair coin a day, told by eight streams an hour apart: eight steps of all of them are one piece of news."""
    days, rng = 60, np.random.default_rng(0)
    coin = rng.integers(0, 2, days)
    begin = pd.date_range("2025-01-01", periods=days)
    parts = [pd.DataFrame({"stream": f"s{k}", "ds": begin + pd.Timedelta(hours=k), "y": coin}) for k in range(8)]
    log = pd.concat(parts).assign(new_0=0.0, new_1=1.0, old_0=1.0, old_1=0.0)
    found = lr.audit.gate(log, lr.matching(), model="new", against="old")
    assert found.needed == pytest.approx(late_factor(8) / 0.05)
    assert any("only 8 of all their steps later" in words for words in found.warnings)
    together = lr.audit.gate(log.assign(ds=log.ds.dt.normalize()), lr.matching(), model="new", against="old")
    assert (together.needed, together.warnings) == (pytest.approx(20), ())


def test_steps_are_called_what_the_log_calls_them() -> None:
    log = pd.DataFrame({"y": [0, 1] * 10, "new_0": [0.9, 0.2] * 10, "old_0": 0.6})
    log = log.assign(new_1=1 - log.new_0, old_1=1 - log.old_0)
    for column, values, ends, unit in (
        ("step", np.arange(5, 25), (5, 24), "step"),
        ("ds", pd.date_range("2025-01-06", periods=20, freq="7D"), ("2025-01-06", "2025-05-19"), "step"),
        ("ds", pd.date_range("2025-01-06", periods=20, freq="B"), ("2025-01-06", "2025-01-31"), "day"),
    ):
        found = lr.audit.gate(log.assign(**{column: values}), lr.matching(), model="new", against="old")
        assert (found.first, found.last) == ends
        assert f"in 20 {unit}s" in str(found)
