"""Everything a guard can, of a log: each setting beside the guard's own loop over the same rows, and as parts."""

import json
from dataclasses import replace

import numpy as np
import pytest

import lowregret as lr
from lowregret.problems import Positions

from ..audit_logs import written

pa = pytest.importorskip("pyarrow")

MATRIX = np.array([[100.0, -20.0], [0.0, 10.0]])
SHOP = lr.DecisionProblem.from_payoffs(MATRIX, ["open", "shut"], ["dry", "wet"], low=-60, high=120)
ORDERS = [0, 10, 20, 30, 40]
STALL = lr.problems.newsvendor_of_numbers(ORDERS, price=5, cost=3)
LENGTHS = {"a": 70, "b": 150, "c": 70, "d": 1}
DAYS = ["Fri", "Mon", "Tue"]  # in the order of their names
LAST = 150


def rows():
    """A log: streams b and d have a model that is turned round."""
    rng, parts = np.random.default_rng(7), []
    for k, (name, T) in enumerate(LENGTHS.items()):
        wet, now = rng.beta(1, 1.2, T), rng.beta(2, 2, T)
        came = rng.random(T) < (1 - wet if k % 2 else wet)
        demand = rng.gamma(6, 5, T) * (0.2 if k % 2 else 1.0)
        level = rng.uniform(4.5, 5.5, T)
        own = {"shop": [name] * T, "step": np.arange(T), "actual": np.array(SHOP.states)[came.astype(int)]}
        own |= {"p_dry": 1 - wet, "p_wet": wet, "now_dry": 1 - now, "now_wet": now}
        own |= {"did": np.array(SHOP.actions)[rng.integers(0, 2, T)], "day": np.array(DAYS)[rng.integers(0, 3, T)]}
        own |= {"share": rng.uniform(0.2, 1, T), "ordered": np.array(ORDERS)[rng.integers(0, 5, T)], "sold": demand}
        factor = rng.uniform(0.2, 1.1, T)
        cells = ((f"{a}_{s}", MATRIX[i, j]) for i, a in enumerate(SHOP.actions) for j, s in enumerate(SHOP.states))
        own |= {name: value * factor for name, value in cells}
        own |= {f"q{q}": level * value for q, value in ((10, 3.2), (50, 5.7), (90, 9.3))}
        parts.append(pa.table(own))
    return pa.concat_tables(parts)


WHERE = {"stream": "shop", "order": "step", "state": "actual"}
CASES = {
    "plain": ({}, {}),
    "context": ({"context": "day"}, {}),
    "references": ({"references": {"now": ["now_dry", "now_wet"]}}, {}),
    "one column": ({"references": {"now": {"wet": "now_wet"}}}, {}),
    "action": ({"references": {"people": {"action": "did"}}}, {}),
    "scale": ({"scale": "share"}, {}),
    "payoffs": ({"payoffs": ["open_dry", "open_wet", "shut_dry", "shut_wet"]}, {}),
    "internal": ({}, {"internal": True}),
    "no test": ({}, {"test": False}),
    "episodes": ({"context": "day", "scale": "share"}, {"episode": 40}),
    "no test in episodes": ({}, {"test": False, "episode": 40}),
    "all": (
        {
            "context": "day",
            "references": {"people": {"action": "did"}},
            "scale": "share",
            "payoffs": ["open_dry", "open_wet", "shut_dry", "shut_wet"],
        },
        {},
    ),
}
NUMBERS = {
    "numbers": ({}, {}),
    "numbers, context": ({"context": "day"}, {}),
    "numbers, action": ({"references": {"people": {"action": "ordered"}}}, {}),
    "numbers, scale": ({"scale": "share"}, {}),
    "numbers, no test": ({}, {"test": False}),
    "numbers, episodes": ({"scale": "share"}, {"episode": 40}),
}
EVERY = CASES | NUMBERS


def problem_of(case):
    return STALL if case in NUMBERS else SHOP


def columns_of(case):
    return {**WHERE, **({"state": "sold"} if case in NUMBERS else {}), **EVERY[case][0]}


def guard_of(case):
    """The guard that a user would make for it."""
    (columns, settings), problem = EVERY[case], problem_of(case)
    told = {"references": tuple(columns.get("references", ()))}
    told["contexts"] = len(DAYS) if "context" in columns else None
    told["payoffs"] = "change" if "payoffs" in columns else "scaled" if "scale" in columns else None
    guard = lr.Guard(problem, LAST, **told, **settings)
    if "did" in str(columns):  # as many actions as states: it must be said which are meant
        rule = replace(guard.rule, references_act=True)
        guard = lr.Guard(problem, LAST, rule=rule, episode=settings.get("episode"))
    return guard


def by_hand(case, own):
    """One stream, row by row: payoffs in all by player, and the guard."""
    columns, guard = EVERY[case][0], guard_of(case)
    totals, alarms = dict.fromkeys(("model", "guard"), 0.0), []
    for row in own:
        scale = row["share"] if "scale" in columns else None
        told = {"scale": scale, "context": DAYS.index(row["day"]) if "context" in columns else None}
        people = None
        if case in NUMBERS:
            forecast = lr.Quantiles([0.1, 0.5, 0.9], [row["q10"], row["q50"], row["q90"]])
            law = forecast.law(STALL, 0)
            paid, came = STALL.payoffs(row["sold"]), row["sold"]
            model = paid[np.argmax((STALL.utilities(law.points) * law.weights).sum(-1))]
        else:
            matrix, forecast = MATRIX, np.array([row["p_dry"], row["p_wet"]])
            if "payoffs" in columns:
                matrix = np.array([[row[f"{a}_{s}"] for s in SHOP.states] for a in SHOP.actions])
                told["payoffs"] = matrix
            came = Positions(SHOP.states.index(row["actual"]))
            paid = matrix[:, came.at]
            model = paid[np.argmax(matrix @ forecast)]
        for name, said in columns.get("references", {}).items():
            if "action" in said:
                actions = ORDERS if case in NUMBERS else list(SHOP.actions)
                people = np.eye(len(actions))[actions.index(row[said["action"]])]
                told["references"] = {name: people}
            else:
                law = np.array([1 - row["now_wet"], row["now_wet"]])
                told["references"], people = {name: law}, np.eye(2)[np.argmax(MATRIX @ law)]
            earned = (people @ paid) * (scale or 1)
            totals[f"reference {name}"] = totals.get(f"reference {name}", 0.0) + earned
        advice = guard.advise(forecast, **{name: value for name, value in told.items() if value is not None})
        totals["model"] += model * (scale or 1)
        totals["guard"] += float(advice.policy @ paid) * (scale or 1)
        guard.observe(came)
    for event in guard.events:
        if isinstance(event, lr.Switch):
            alarms.append((event.episode - 1) * (guard.episode or 0) + event.step)
    return {name: value / len(own) for name, value in totals.items()}, alarms, guard


@pytest.mark.parametrize("case", EVERY)
def test_is_the_guards_own_loop_over_the_same_rows(case, tmp_path):
    table = rows()
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    found = lr.audit.audit_log(
        written(shuffled, tmp_path / "log.parquet"), problem_of(case), columns=columns_of(case), **EVERY[case][1]
    )
    bounds, listed = [], table.to_pylist()
    for one in found.streams:
        earned, alarms, guard = by_hand(case, [row for row in listed if row["shop"] == one.stream])
        for name, value in earned.items():
            assert one.earned[name] == pytest.approx(value, abs=1e-9), name
        assert (one.switched_at, one.switches) == (alarms[0] if alarms else None, len(alarms))
        if guard.episode is None and one.switched_at is None and "no test" not in case:
            assert one.log_e == pytest.approx(float(guard.evidence[0]), rel=1e-9)
        bounds.append(float(guard.certificate.regret_bound))
    if "no test" in case:
        assert found.alarms == found.allowed == 0
    else:
        assert found.alarms
    if case in NUMBERS:
        assert found.certificate.regret_bound == pytest.approx(max(bounds))
    else:
        assert found.certificate.regret_bound == guard_of(case).certificate.regret_bound
    assert getattr(found.certificate, "internal", False) == (case == "internal")


@pytest.mark.parametrize("case", ["all", "context", "numbers, action"])
def test_is_the_backtest_of_the_same_frame(case, tmp_path):
    table, (_, settings) = rows(), EVERY[case]
    frame = lr.backtest(problem_of(case), table, columns=columns_of(case))
    text = written(table, tmp_path / "log.csv")
    found = lr.audit.audit_log(text, problem_of(case), columns=columns_of(case), **settings)
    for one, other in zip(found.streams, frame.streams, strict=True):
        assert one.earned == pytest.approx(other.earned, abs=1e-9)
        assert one.regret == pytest.approx(other.regret, abs=1e-9)
        assert (one.switched_at, one.returns) == (other.switched_at, other.returns)
    parquet = written(table, tmp_path / "log.parquet")
    parts = []
    for i in (1, 2):
        part = lr.audit.audit_log(parquet, problem_of(case), columns=columns_of(case), part=(i, 2), **settings)
        parts.append(tmp_path / f"part-{i}.json")
        parts[-1].write_text(part.to_json())
    whole = lr.audit.audit_log(parquet, problem_of(case), columns=columns_of(case), **settings)
    assert lr.audit.merge(parts).to_json() == whole.to_json()
    assert json.loads(whole.to_json())["about"]["columns"]["context" if "context" in columns_of(case) else "references"]
