"""Everything a guard can, of a log: each setting beside the guard's own loop over the same rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.audit import proposing
from lowregret.cli.app import _app
from lowregret.problems import Positions

from ..audit_logs import written
from ..conftest import sweep

pa = pytest.importorskip("pyarrow")

MATRIX = np.array([[0.0, 10.0], [100.0, -20.0]])  # the best response to a state has not its number
SHOP = lr.DecisionProblem.from_payoffs(MATRIX, ["shut", "open"], ["dry", "wet"], low=-60, high=120)
ORDERS = [0, 10, 20, 30, 40]
STALL = lr.problems.newsvendor_of_numbers(ORDERS, price=5, cost=3)
LENGTHS = {"a": 70, "b": 150, "c": 70, "d": 1}
DAYS = ["Fri", "Mon", "Tue"]  # in the order of their names
LAST = 150
LEVELS = (0.1, 0.5, 0.9)


def run(*arguments):
    return CliRunner().invoke(_app(), ["audit", *map(str, arguments)], env={"COLUMNS": "1000"})


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
        own |= {"day": np.array(DAYS)[rng.integers(0, 3, T)], "share": rng.uniform(0.2, 1, T), "sold": demand}
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
    "scale": ({"scale": "share"}, {}),
    "payoffs": ({"payoffs": ["shut_dry", "shut_wet", "open_dry", "open_wet"]}, {}),
    "no test": ({}, {"test": False}),
    "late": ({"context": "day", "scale": "share"}, {"lag": 3}),
    "late, references": ({"references": {"now": {"wet": "now_wet"}}}, {"lag": 2}),
    "all": (
        {
            "context": "day",
            "references": {"now": ["now_dry", "now_wet"]},
            "scale": "share",
            "payoffs": ["shut_dry", "shut_wet", "open_dry", "open_wet"],
        },
        {},
    ),
}
NUMBERS = {
    "numbers": ({}, {}),
    "numbers, context": ({"context": "day"}, {}),
    "numbers, scale": ({"scale": "share"}, {}),
    "numbers, no test": ({}, {"test": False}),
    "numbers, late": ({"scale": "share"}, {"lag": 3}),
}
EVERY = CASES | NUMBERS
OFTEN = sweep(sorted(EVERY, key=lambda case: case not in ("all", "late, references", "numbers, late")), 3)


def problem_of(case):
    return STALL if case in NUMBERS else SHOP


def columns_of(case):
    return {**WHERE, **({"state": "sold"} if case in NUMBERS else {}), **EVERY[case][0]}


def guard_of(case):
    """The guard that a user would make for it."""
    (columns, settings), problem = EVERY[case], problem_of(case)
    against = lr.Actions(per=DAYS if "context" in columns else None)
    if "references" in columns:
        against += lr.References(*columns["references"])
    test = lr.ExactTest(horizon=LAST) if settings.get("test", True) else lr.NoTest(LAST)
    problem = problem.changing() if "payoffs" in columns else problem
    return lr.Guard(problem, against=against, test=test, lag=settings.get("lag", 1))


def by_hand(case, own):
    """One stream, row by row: payoffs in all by player, and the guard."""
    columns, guard = EVERY[case][0], guard_of(case)
    totals, alarms, waiting = dict.fromkeys(("model", "guard"), 0.0), [], []
    for row in own:
        scale = row["share"] if "scale" in columns else None
        told = {"scale": scale, "context": row["day"] if "context" in columns else None}
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
        for name in columns.get("references", {}):
            law = np.array([1 - row["now_wet"], row["now_wet"]])
            told["references"] = {name: law}
            earned = paid[np.argmax(matrix @ law)] * (scale or 1)
            totals[f"reference {name}"] = totals.get(f"reference {name}", 0.0) + earned
        advice = guard.advise(forecast, **{name: value for name, value in told.items() if value is not None})
        totals["model"] += model * (scale or 1)
        totals["guard"] += float(advice.policy @ paid) * (scale or 1)
        waiting.append(came)
        if len(waiting) == guard.lag:
            guard.observe(waiting.pop(0))
    for came in waiting:
        guard.observe(came)
    for event in guard.events:
        if isinstance(event, lr.Alarm):
            alarms.append(event.step)
    return {name: value / len(own) for name, value in totals.items()}, alarms, guard


@pytest.mark.parametrize("case", OFTEN)
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
        if guard.lag > 1:
            continue  # told when it was known, and not of which outcome
        assert one.switched_at == (alarms[0] if alarms else None)
        if one.switched_at is None and "no test" not in case:
            assert one.log_e == pytest.approx(float(guard.evidence[0]), rel=1e-9)
        bounds.append(float(guard.certificate.regret_bound))
    if guard.lag > 1:
        assert found.alarms
        return
    if "no test" in case:
        assert found.alarms == found.allowed == 0
    else:
        assert found.alarms
    if case in NUMBERS:
        assert found.certificate.regret_bound == pytest.approx(max(bounds))
    else:
        assert found.certificate.regret_bound == guard_of(case).certificate.regret_bound


@pytest.mark.parametrize("case", sweep(["all", "context", "numbers, context"], 1))
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
    whole = lr.audit.audit_log(parquet, problem_of(case), columns=columns_of(case), **settings)
    assert json.loads(whole.to_json())["about"]["columns"]["context"]


def typed(case):
    """The same as options."""
    columns, settings = columns_of(case), EVERY[case][1]
    found = [f"--{role}={columns[role]}" for role in (*WHERE, "context", "scale") if role in columns]
    for name, said in columns.get("references", {}).items():
        own = ",".join(f"{key}={column}" for key, column in said.items()) if isinstance(said, dict) else ",".join(said)
        found.append(f"--reference={name}={own}")
    if "payoffs" in columns:
        found.append(f"--payoff-columns={','.join(columns['payoffs'])}")
    more = {"test": ["--no-test"]}
    more["lag"] = [f"--lag={settings.get('lag')}"]
    return found + [word for name in settings for word in more[name]]


def in_toml(case):
    """The same as a file says it."""
    columns, settings = columns_of(case), EVERY[case][1]
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()] + ["[columns]"]
    lines += [f"{role} = {json.dumps(own)}" for role, own in columns.items() if role != "references"]
    lines += ["[columns.references]"] if "references" in columns else []
    for name, said in columns.get("references", {}).items():
        own = json.dumps(said)
        if isinstance(said, dict):
            own = "{" + ", ".join(f"{key} = {json.dumps(column)}" for key, column in said.items()) + "}"
        lines.append(f"{name} = {own}")
    return "\n".join(lines) + "\n"


def in_folder(tmp_path, table=None, log="log.parquet"):
    """A log with both files of payoffs beside it."""
    cells = [["euros", *SHOP.states], *([a, *map(str, MATRIX[i])] for i, a in enumerate(SHOP.actions))]
    told = {
        "payoffs": MATRIX.tolist(),
        "actions": list(SHOP.actions),
        "states": list(SHOP.states),
        "low": -60,
        "high": 120,
    }
    (tmp_path / "shop.csv").write_text("".join(",".join(row) + "\n" for row in cells))
    (tmp_path / "shop.toml").write_text("".join(f"{name} = {json.dumps(own)}\n" for name, own in told.items()))
    (tmp_path / "stall.toml").write_text(f'kind = "newsvendor"\nprice = 5\ncost = 3\nactions = {ORDERS}\n')
    return written(rows() if table is None else table, tmp_path / log)


@pytest.mark.parametrize("case", OFTEN)
def test_options_and_a_file_say_the_same_as_python(case, tmp_path):
    log, payoffs = in_folder(tmp_path), "stall.toml" if case in NUMBERS else "shop.toml"
    asked = lr.audit.audit_log(log, problem_of(case), columns=columns_of(case), **EVERY[case][1]).to_json()
    done = run(log, "--payoffs", tmp_path / payoffs, "--out", tmp_path / "typed", *typed(case))
    assert done.exit_code in (0, 3), done.output
    assert (tmp_path / "typed" / "audit.json").read_text() == asked
    text = f'log = "log.parquet"\npayoffs = "{payoffs}"\nout = "told"\n{in_toml(case)}'
    (tmp_path / "audit.toml").write_text(text)
    done = run("--config", tmp_path / "audit.toml")
    assert done.exit_code in (0, 3), done.output
    assert (tmp_path / "told" / "audit.json").read_text() == asked
    told = lr.audit.settings_in(tmp_path / "audit.toml")
    assert lr.audit.audit_log(told.log, told.problem, **told.settings).to_json() == asked


def test_what_is_typed_wins(tmp_path):
    log = in_folder(tmp_path)
    text = 'log = "nowhere.csv"\npayoffs = "shop.toml"\nout = "told"\ndelta = 0.5\n[columns]\n'
    (tmp_path / "audit.toml").write_text(text + 'stream = "shop"\norder = "step"\nstate = "actual"\ncontext = "step"\n')
    done = run(log, "--config", tmp_path / "audit.toml", "--delta", "0.05", "--context", "day", "--out", tmp_path / "o")
    assert done.exit_code in (0, 3), done.output
    asked = lr.audit.audit_log(log, SHOP, columns={**WHERE, "context": "day"})
    assert (tmp_path / "o" / "audit.json").read_text() == asked.to_json()
    assert not (tmp_path / "told").exists()


def filled(path, **cells):
    """A file with what is left open filled in, line by line as it begins."""
    lines = path.read_text().splitlines()
    for begins, line in cells.items():
        at = next(i for i, own in enumerate(lines) if own.startswith(begins.replace("_", " ")))
        lines[at] = line
    path.write_text("\n".join(lines) + "\n")


FRAMES = {
    "states": ({}, {"context": "day", "references": {"now": {"dry": "now_dry", "wet": "now_wet"}}}),
    "numbers": ({}, {"context": "day"}),
    "Chronos": ({"q10": "0.1", "q50": "0.5", "q90": "0.9", "sold": "target"}, {"context": "day"}),
    "Nixtla": ({"q10": "M-lo-80", "q50": "M-median", "q90": "M-hi-80", "sold": "y"}, {"context": "day"}),
    "Nixtla's other": ({"q10": "M-q-10", "q50": "M-q-50", "q90": "M-q-90", "sold": "y"}, {"context": "day"}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_from_a_look_to_the_answer(kind, tmp_path):
    renamed, more = FRAMES[kind]
    names = ["shop", "step", "actual", "p_dry", "p_wet", "now_dry", "now_wet", "day", "share"]
    if kind != "states":
        names = ["shop", "step", "sold", "q10", "q50", "q90", "day", "share"]
    renamed = {"sold": "y", **renamed}
    table = rows().select(names).rename_columns([renamed.get(name, name) for name in names])
    log = in_folder(tmp_path, table, "log.csv")
    done = run("--init", log)
    assert done.exit_code == 0, done.output
    before = (tmp_path / "audit.toml").read_text()
    name = "payoffs.csv" if kind == "states" else "payoffs.toml"
    done = run("--config", tmp_path / "audit.toml", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "?" in done.output
    if kind == "states":
        problem = lr.DecisionProblem.from_payoffs(MATRIX, ["shut", "open"], ["dry", "wet"])
        filled(tmp_path / name, action_1="shut,0,10", action_2="open,100,-20")
    else:
        problem = STALL
        filled(tmp_path / name, price="price = 5", cost="cost = 3", actions=f"actions = {ORDERS}")
    text = before.replace('# context = "day"', 'context = "day"').replace("# [columns.ref", "[columns.ref")
    (tmp_path / "audit.toml").write_text(text.replace("# now = ", "now = "))
    done = run("--config", tmp_path / "audit.toml", "--out", tmp_path / "out")
    assert done.exit_code == 3, done.output
    columns = {"stream": "shop", "order": "step", "state": "actual" if kind == "states" else renamed["sold"], **more}
    if kind == "states":
        columns["probs"] = {"dry": "p_dry", "wet": "p_wet"}
    else:
        columns["quantiles"] = {
            level: renamed.get(f"q{round(100 * level)}", f"q{round(100 * level)}") for level in LEVELS
        }
    assert lr.audit.settings_in(tmp_path / "audit.toml").settings["columns"] == columns
    asked = lr.audit.audit_log(log, problem, columns=columns)
    assert (tmp_path / "out" / "audit.json").read_text() == asked.to_json()
    kept = (tmp_path / name).read_text()
    assert "is left as it is" in run("--init", log).output
    assert (tmp_path / name).read_text() == kept


def looked(**columns):
    return proposing.looked(pa.table(columns), "the log")


def test_what_a_look_finds():
    rng = np.random.default_rng(0)
    chance, days = np.tile(rng.random(20), 2), [f"2026-01-{d:02d}" for d in range(1, 21)]
    came = rng.random(40) < chance
    plain = looked(day=days * 2, town=["a"] * 20 + ["b"] * 20, rain=chance, happened=came)
    assert (plain.stream, plain.order, plain.state, plain.states) == ("town", "day", "happened", ("False", "True"))
    assert plain.probs == {"True": "rain"}  # it is higher where that came
    percent = looked(when=np.arange(20), lluvia=chance[:20], sol=1 - chance[:20], tiempo=["sol", "lluvia"] * 10)
    assert (percent.stream, percent.order, percent.state) == (None, "when", "tiempo")
    assert percent.probs == {"lluvia": "lluvia", "sol": "sol"}
    keyed = looked(
        id=np.arange(40), date=days * 2, unique_id=["x", "y"] * 20, y=came, p=np.stack([chance, chance]).T.tolist()
    )
    assert (keyed.stream, keyed.probs) == ("unique_id", "p")
    lists = looked(a=["u", "v"] * 20, b=["u", "v"] * 20)
    assert (lists.state, lists.probs, lists.order) == (None, None, None)
    several = looked(
        ds=days, y=chance[:20], **{"A-lo-80": chance[:20], "A-hi-80": chance[:20] + 1, "B-lo-80": chance[:20]}
    )
    assert several.quantiles == {0.1: "A-lo-80", 0.9: "A-hi-80"}


def test_how_late_outcomes_were_by_a_look():
    step = np.tile(np.arange(10), 2)
    at = {"step": step, "s": ["a"] * 10 + ["b"] * 10}

    def lag(**column):
        return proposing.lag_in(pa.table(at | column), "s", "step", list(column), "the log")

    assert lag() == lag(cutoff=step - 1) == lag(known_at=step) == 1
    assert lag(cutoff=step - 3) == 3
    assert lag(cutoff=np.append(step[:15] - 1, step[15:] - 5)) == 5
    assert lag(known_at=step + 2) == 3  # of step 1 it is known at that of step 3, so for step 4
    assert lag(reported=[f"{i}" for i in range(20)]) == 1
    assert proposing.lag_in(pa.table({"step": step, "cutoff": step - 4}), None, None, ["cutoff"], "the log") == 1


WRONG = {
    "unknown": ("deltas = 1\n", "settings may have log, payoffs, out"),
    "no TOML": ("delta = \n", "settings must be TOML"),
    "a path": ("log = 3\n", "log must be a path"),
    "a level": ("[columns.quantiles]\nlow = 'q10'\n", "a level of quantiles must be a number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_files_that_say_something_else(what, tmp_path):
    text, says = WRONG[what]
    (tmp_path / "audit.toml").write_text(text)
    with pytest.raises(ValueError, match=says):
        lr.audit.settings_in(tmp_path / "audit.toml")


REFUSED = {
    "payoffs": ({"payoffs": ["open_dry"] * 4, "state": "sold"}, {"problem": STALL}, "functions where outcomes are"),
    "forecasts": (
        {"references": {"a": {"0.1": "q10"}}, "state": "sold"},
        {"problem": STALL},
        "references go with arrays where outcomes are numbers",
    ),
    "scale": ({"scale": "step"}, {}, "row 1: the scale .step. must be above 0"),
    "range": ({"payoffs": ["q10", "q50", "q90", "sold"]}, {}, "must lie in the range"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_a_sentence(what, tmp_path):
    columns, settings, says = REFUSED[what]
    if what == "range":
        settings = {"problem": lr.DecisionProblem.from_payoffs([[0.0, 1], [1, 0]], states=["dry", "wet"])}
    log = written(rows(), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=says):
        lr.audit.audit_log(log, **({"problem": SHOP} | settings), columns={**WHERE, **columns})


def test_a_payoff_of_any_function_is_told_by_its_lines(tmp_path):
    log = written(rows(), tmp_path / "log.parquet")
    own = lr.Payoff(
        lambda order, sold: 5 * np.minimum(order, sold) - 3 * order,
        ORDERS,
        -120,
        80,
        knots=ORDERS,
        outcomes=(0, np.inf),
    )
    columns = {**WHERE, "state": "sold"}
    found, usual = (lr.audit.audit_log(log, problem, columns=columns) for problem in (own, STALL))
    assert [one.earned for one in found.streams] == [pytest.approx(one.earned) for one in usual.streams]
    assert json.loads(found.to_json())["about"]["problem"]["knots"] == ORDERS
    with pytest.raises(ValueError, match="knots"):
        lr.audit.audit_log(log, replace(own, knots=None), columns=columns)


def test_payoffs_of_numbers_in_files(tmp_path):
    file = tmp_path / "stall.toml"
    for text, payoffs in (
        ('kind = "newsvendor"\nprice = 5\ncost = 3\nsalvage = 1\nactions = [10, 20]', [[-20, -8, 20], [-40, -28, 40]]),
        (
            'knots = [0, 20]\npayoffs = [[0, 0], [-4, 6]]\nactions = ["a", "b"]\noutcomes = [0, 30]',
            [[0, 0, 0], [-4, -2.5, 6]],
        ),
    ):
        file.write_text(text)
        found = lr.problems.stakes_in(file)
        assert found.payoffs([0, 3, 25]) == pytest.approx(np.array(payoffs))
        with pytest.raises(ValueError, match="payoffs must be for states here"):
            lr.problems.payoffs_in(file)
    for text, says in (
        ('kind = "newspaper"', "kind must be"),
        ('kind = "newsvendor"\nprice = 5', "must have price, cost and actions"),
        ('kind = "newsvendor"\nprice = "?"\ncost = 3\nactions = [1]', "the price must be a number, and .*: fill it in"),
        ("knots = [1, 0]\npayoffs = [[0, 1]]", "that increase"),
        ("knots = [0, 1, 2]\npayoffs = [[0, 1]]", "rows of 3 finite numbers"),
        ('knots = [0, 1]\npayoffs = [[0, 1]]\nactions = ["a", "b"]', "actions must be 1"),
        ("knots = [0, 1]\npayoffs = [[0, 1]]\noutcomes = [0]", "the least and the most"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=says):
            lr.problems.stakes_in(file)


def in_files(table, cuts, folder):
    folder.mkdir()
    for k, (begin, end) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
        written(table.slice(begin, end - begin), folder / f"{k}.parquet")
    return folder


def test_contexts_are_numbered_alike_in_every_file(tmp_path):
    table = rows().sort_by([("day", "descending")])
    days = table.column("day").to_pylist()
    cuts = [days.index("Mon"), days.index("Fri")]
    columns = {**WHERE, "context": "day"}
    found = lr.audit.audit_log(in_files(table, cuts, tmp_path / "log"), SHOP, columns=columns)
    assert [one.earned for one in found.streams] == [
        pytest.approx(one.earned, abs=1e-9) for one in lr.backtest(SHOP, table, columns=columns).streams
    ]
    assert found.about["tells"]["contexts"] == ("Fri", "Mon", "Tue")
    table = table.set_column(table.column_names.index("day"), "day", pa.array([None, *days[1:]]))
    with pytest.raises(lr.audit.Refused, match=r"0.parquet, row 1: the context .day. is missing"):
        lr.audit.audit_log(in_files(table, cuts, tmp_path / "other"), SHOP, columns=columns)


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_a_forecast_without_a_level_is_a_median_if_it_is_so_in_all_files(tmp_path, off):
    table = (
        rows().select(["shop", "step", "sold", "q10", "q90"]).rename_columns(["id", "ds", "y", "M-lo-80", "M-hi-80"])
    )
    middle = (np.asarray(table["M-lo-80"]) + np.asarray(table["M-hi-80"])) / 2
    middle[-5:] += off
    table = table.append_column("M", pa.array(middle))
    found = lr.audit.audit_log(in_files(table, [200], tmp_path / "log"), STALL)
    frame = lr.backtest(lr.Guard(STALL, test=lr.ExactTest(horizon=LAST)), table)
    assert [one.earned for one in found.streams] == [pytest.approx(one.earned, abs=1e-9) for one in frame.streams]
    assert found.about["columns"]["quantiles"] == {"0.1": "M-lo-80", **({} if off else {"0.5": "M"}), "0.9": "M-hi-80"}


def test_what_was_done_to_quantiles_is_told(tmp_path):
    table = rows()
    crossed = np.asarray(table["q50"]).copy()
    crossed[:3] = 99.0
    below = np.asarray(table["q10"]).copy()
    below[2:9] = -1.0
    table = table.set_column(table.column_names.index("q50"), "q50", pa.array(crossed))
    table = table.set_column(table.column_names.index("q10"), "q10", pa.array(below))
    table = table.append_column("cutoff", pa.array(np.asarray(table["step"]) - 1))
    log, columns = written(table, tmp_path / "log.parquet"), {**WHERE, "state": "sold"}
    guard = lr.Guard(STALL, test=lr.ExactTest(horizon=LAST))
    found, frame = lr.audit.audit_log(log, STALL, columns=columns), lr.backtest(guard, table, columns=columns)
    assert [one.earned for one in found.streams] == [pytest.approx(one.earned, abs=1e-9) for one in frame.streams]
    assert any(warning.startswith("10 rows had quantiles that cross or lie outside") for warning in found.warnings)
    assert any(warning.startswith("when forecasts were made (cutoff) is not used") for warning in found.warnings)
