"""One value, one state, whatever the way in: outcomes are matched by name, or refused everywhere."""

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.adapters.river_models import GuardDriftDetector, GuardedRiverClassifier
from lowregret.problems import Names, Positions, payoffs_in

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

REFUSED = None
DAY = datetime.date(2026, 1, 31)
CASES: dict[str, tuple[tuple[str, str], Any, int | None]] = {
    "truth": (("True", "False"), True, 0),
    "truth, other": (("True", "False"), False, 1),
    "truth, small": (("true", "false"), True, 0),
    "truth, written": (("true", "false"), "True", 0),
    "truth, yes": (("yes", "no"), True, REFUSED),
    "truth, turned": (("1", "0"), True, REFUSED),
    "one, words": (("dry", "wet"), 1, REFUSED),
    "one": (("0", "1"), 1, 1),
    "one, float": (("0", "1"), 1.0, 1),
    "one, written": (("0", "1"), "1", 1),
    "one, turned": (("1", "0"), 1, 0),
    "one float, floats": (("1.0", "0.0"), 1.0, 0),
    "levels": (("10", "20"), 20, 1),
    "fraction": (("0.1", "0.2"), 0.2, 1),
    "beyond": (("0", "1"), 2, REFUSED),
    "between": (("0", "1"), 0.5, REFUSED),
    "word": (("dry", "wet"), "wet", 1),
    "word, other case": (("dry", "wet"), "Wet", REFUSED),
    "accent": (("caf\u00e9", "bar"), "cafe\u0301", 0),
    "date": ((str(DAY), "2026-02-01"), DAY, 0),
    "another time": ((str(DAY), "2026-02-01"), datetime.datetime(2026, 1, 31, 7), REFUSED),
}
PAYOFFS = np.array([[3.0, -2.0], [0.5, 0.75]])
LAW = np.array([0.25, 0.75])
T = 4


def problem_of(states: tuple[str, str]) -> lr.DecisionProblem:
    return lr.DecisionProblem.from_payoffs(PAYOFFS, ["act", "rest"], states)


def frame_of(value: Any) -> Any:
    return pd.DataFrame({"step": range(T), "state": [value] * T, "probs": [LAW.tolist()] * T})


def written_csv(value: Any, path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["step", "state", "a", "b"], *([t, value, *LAW] for t in range(T))])
    return path


def guarded(states: tuple[str, str], value: Any, **settings: Any) -> Any:
    """The regret after a few steps: which state came follows from it."""
    guard = lr.Guard(problem_of(states), **settings)
    for _ in range(T):
        guard.advise(np.broadcast_to(LAW, (*guard.shape, 2)))
        guard.observe(value)
    return guard.regret


def _leading(states: tuple[str, str], guard: lr.Guard) -> int:
    (place,) = [s for s in (0, 1) if guard.regret == guarded(states, Positions(s))]
    return place


def by_guard(states: tuple[str, str], value: Any, wrap: Any = lambda value: value, **settings: Any) -> int:
    regrets = [guarded(states, Positions(wrap(s)), **settings) for s in (0, 1)]
    found = guarded(states, wrap(value), **settings)
    (place,) = [s for s in (0, 1) if np.array_equal(found, regrets[s])]
    return place


def by_backtest(states: tuple[str, str], *recording: Any, **more: Any) -> int:
    found = lr.backtest(problem_of(states), *recording, **more)
    (place,) = set(found.recording.outcomes_R.tolist())
    assert found.earned["best fixed action"] == pytest.approx(PAYOFFS[:, place].max())
    return place


def by_audit(states: tuple[str, str], path: Path, columns: Any) -> int:
    earned = lr.audit(path, problem_of(states), columns=columns).earned["best fixed action"]
    (place,) = [s for s in (0, 1) if PAYOFFS[:, s].max() == pytest.approx(earned)]
    return place


def by_river(states: tuple[str, str], value: Any) -> int:
    model = GuardedRiverClassifier(_Says(states), lr.Guard(problem_of(states)), floor=0)
    for _ in range(T):
        model.policy_one({})
        model.learn_one({}, value)
    return _leading(states, model.guard)


def by_detector(states: tuple[str, str], value: Any) -> int:
    found = GuardDriftDetector(lr.Guard(problem_of(states)), floor=0)
    for _ in range(T):
        found.update((dict(zip(states, LAW, strict=True)), value))
    return _leading(states, found.guard)


class _Says:
    """A River model that says the same of everything."""

    def __init__(self, states: tuple[str, str]) -> None:
        self.law = dict(zip(states, LAW.tolist(), strict=True))

    def predict_proba_one(self, x: Any) -> dict[str, float]:
        return self.law

    def learn_one(self, x: Any, y: Any) -> None:
        pass


LAWS = np.tile(LAW, (T, 1))
WAYS_IN: dict[str, Any] = {
    "Guard": lambda states, value, path: by_guard(states, value),
    "Guard, NumPy": lambda states, value, path: by_guard(states, value, np.asarray),
    "Guard, fleet of lists": lambda states, value, path: by_guard(states, value, lambda v: [v] * 3, streams=3),
    "Guard, fleet": lambda states, value, path: by_guard(states, value, lambda v: np.array([v] * 3), streams=3),
    "backtest, list": lambda states, value, path: by_backtest(states, LAWS, [value] * T),
    "backtest, array": lambda states, value, path: by_backtest(states, LAWS, np.array([value] * T)),
    "backtest, streams": lambda states, value, path: by_backtest(states, [LAWS, LAWS[:2]], [[value] * T, [value] * 2]),
    "backtest, frame": lambda states, value, path: by_backtest(states, frame_of(value)),
    "backtest, categories": lambda states, value, path: by_backtest(
        states, frame_of(value).astype({"state": "category"})
    ),
    "audit, CSV": lambda states, value, path: by_audit(
        states, written_csv(value, path / "log.csv"), {"probs": dict(zip(states, "ab", strict=True))}
    ),
    "River": lambda states, value, path: by_river(states, value),
    "River's detector": lambda states, value, path: by_detector(states, value),
}


@pytest.mark.parametrize("case", CASES)
def test_a_value_means_the_same_state_whatever_the_way_in(case: str, tmp_path: Path) -> None:
    (states, value, place), found = CASES[case], {}
    for way, ask in WAYS_IN.items():
        try:
            found[way] = ask(states, value, tmp_path)
        except ValueError:
            found[way] = REFUSED
    assert found == dict.fromkeys(WAYS_IN, place)


# Classifiers


def fitted(problem: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    X = np.linspace(-1, 1, len(y))[:, None]
    return lr.GuardedClassifier(LogisticRegression(), problem and lr.Guard(problem)).fit(X, y), X


@pytest.mark.parametrize(
    ("states", "labels", "order"),
    [
        (("True", "False"), [False, True], [1, 0]),
        (("1", "0"), [0.0, 1.0], [1, 0]),
        (("wet", "dry"), ["dry", "wet"], [1, 0]),
        (None, [0, 1], [0, 1]),
        (None, ["dry", "wet"], [0, 1]),
        (None, [1, 2], REFUSED),  # 1 is the number of another state than the first
        (("yes", "no"), [False, True], REFUSED),
        (("dry", "wet"), [0, 1], REFUSED),
    ],
)
def test_labels_are_states_by_name(states: Any, labels: list, order: Any) -> None:
    y = np.repeat(np.array(labels), 10)
    if order is REFUSED:
        with pytest.raises(ValueError, match="name the states as the labels are"):
            fitted(lr.DecisionProblem(np.eye(2), states=states), y)
        return
    model, X = fitted(lr.DecisionProblem(np.eye(2), states=states), y)
    assert model.states_.tolist() == order
    forecast = np.zeros(2)
    forecast[order] = model.predict_proba(X[:1])[0]
    model.observe(y[:1])
    guard = lr.Guard(model.guard_.problem)
    guard.advise(forecast)
    guard.observe(Positions(order[0]))
    assert guard.regret == model.guard_.regret


# Names themselves


@pytest.mark.parametrize("pair", [("a", "a"), ("1", "1.0"), ("a", "a "), ("true", "True"), ("caf\u00e9", "cafe\u0301")])
@pytest.mark.parametrize("which", ["actions", "states"])
def test_names_that_are_the_same_are_refused(which: str, pair: tuple[str, str], tmp_path: Path) -> None:
    says = f"{which} must have different names"
    with pytest.raises(ValueError, match=says):
        lr.DecisionProblem(np.eye(2), **{which: pair})
    if which == "actions":
        with pytest.raises(ValueError, match=says):
            lr.Payoff(lambda action, outcome: 0 * outcome, pair, 0, 1)
    file = tmp_path / "p.toml"
    file.write_text(f"payoffs = [[1, 0], [0, 1]]\n{which} = {json.dumps(pair)}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        payoffs_in(file)
    with pytest.raises(ValueError, match=r"must have different names|different labels"):
        GuardedRiverClassifier(_Says(pair), classes=list(pair))


def test_positions_say_what_they_are() -> None:
    rain, came = lr.cost_loss(1, 4), np.array([0, 1, 1, 0])
    named = lr.backtest(rain, LAWS, np.array(rain.states)[came])
    assert lr.backtest(rain, LAWS, Positions(came)).streams == named.streams
    assert lr.backtest(rain, [LAWS], Positions([came.tolist()])).streams == named.streams
    fleet = lr.Guard(rain, streams=2)
    fleet.advise(torch.tensor(LAWS[:2]))
    with pytest.raises(ValueError, match=r"got 1: states that have names are given by name.*position of 'event'"):
        fleet.observe(torch.tensor([1, 0]))
    fleet.observe(Positions(torch.tensor([1, 0])))
    with pytest.raises(ValueError, match=r"outcomes at step 3 must lie in 0\.\.1"):
        lr.backtest(rain, LAWS, Positions([0, 1, 2, 0]))


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT"), pd.NaT, pd.NA], ids=str)
def test_what_is_missing_is_no_state(missing: Any) -> None:
    for states in (["None", "nan"], ["<NA>", "NaT"], None):
        assert Names(["0", "1"] if states is None else states).position(missing) is None
        guard = lr.Guard(lr.DecisionProblem(np.eye(2), states=states))
        guard.advise(LAW)
        with pytest.raises(ValueError, match=r"state must be .*: it is missing"):
            guard.observe(missing)


# Payoffs out of a file


LISTED = ("wait", "protect")
NUMBERED = [[0.0, -40.0], [-10.0, -10.0]]


@pytest.mark.parametrize(
    ("first", "actions", "states"),
    [
        (",1,0", LISTED, ("1", "0")),
        (",10,-2.5", LISTED, ("10", "-2.5")),
        ("0,1", LISTED, ("0", "1")),  # one cell less than the lines below
        ("dollars,1,0", None, None),
        ("dollars,-130,130", None, None),
        ("dollars,5,5", ("dollars", *LISTED), ("0", "1")),  # no names of states: they would be the same
    ],
)
def test_numbered_states_are_no_action(first: str, actions: Any, states: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(f"{first}\nwait,0,-40\nprotect,-10,-10\n")
    if actions is None:
        says = rf"first line of .* is, '{first}': it may be the numbers of the states, or what an action is paid.*empty"
        with pytest.raises(ValueError, match=says):
            payoffs_in(tmp_path / "p.csv")
        return
    problem = payoffs_in(tmp_path / "p.csv")
    assert (problem.actions, problem.states) == (actions, states)
    assert problem.in_payoffs(problem.utility)[-2:].tolist() == NUMBERED


def test_a_frame_of_payoffs_comes_back(tmp_path: Path) -> None:
    payoffs = pd.DataFrame([[5.0, 3.0], [2.0, 8.0], [1.0, 1.0]])
    payoffs.to_csv(tmp_path / "p.csv")  # states 0 and 1, actions 0 to 2
    problem = payoffs_in(tmp_path / "p.csv")
    assert (problem.actions, problem.states) == (("0", "1", "2"), ("0", "1"))
    assert problem.in_payoffs(problem.utility).tolist() == payoffs.to_numpy().tolist()
    payoffs.to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(ValueError, match=r"is, '0,1': it may be the numbers of the states, or what an action"):
        payoffs_in(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("open,1,0\nshut,0,1\n")  # two lines of three: no choice would be left
    assert payoffs_in(tmp_path / "p.csv").actions == ("open", "shut")


def test_names_that_are_made_of_numbers_are_told_apart() -> None:
    close = [0.5, 0.50001, 0.50002]
    found = lr.rules.scoring.problem_of(lr.rules.scoring.brier(), forecasts=close).problem
    assert [float(name) for name in found.actions] == close


# Forecasts and payoffs that carry names


def _weather() -> lr.DecisionProblem:
    return lr.DecisionProblem.from_payoffs([[3.0, -2.0, 1.0], [0.5, 0.75, 0.0]], ["out", "in"], ["sun", "rain", "fog"])


@pytest.mark.parametrize("order", [["sun", "rain", "fog"], ["fog", "sun", "rain"]])
def test_forecasts_with_names_are_gone_by_them(order: list[str]) -> None:
    law = {"sun": 0.7, "rain": 0.2, "fog": 0.1}
    wanted = lr.Guard(_weather())
    wanted.advise(list(law.values()))
    told = {name: law[name] for name in order}
    for given in (told, pd.Series(told)):
        guard = lr.Guard(_weather())
        np.testing.assert_array_equal(guard.advise(given).policy, wanted.policy())
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.dirichlet(np.ones(3), 40), columns=list(law))
    came = np.array(list(law))[rng.integers(3, size=40)]
    plain = lr.backtest(_weather(), frame.to_numpy(), came)
    for given in (frame[order], pl.DataFrame(frame)[order], [frame[order]]):
        states = [came] if isinstance(given, list) else came
        assert lr.backtest(_weather(), given, states).earned == plain.earned


def test_states_that_are_bools_are_gone_by_in_a_series() -> None:
    problem = lr.DecisionProblem([[1, 0], [0, 1]], states=[False, True])
    guard = lr.Guard(problem)
    assert guard.advise(pd.Series([0.3, 0.7], index=[True, False])).forecast.tolist() == [0.7, 0.3]


def test_outcomes_may_be_a_list_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    guard = lr.Guard(lr.matching(), streams=2)
    guard.advise([[0.5, 0.5]] * 2)
    guard.observe([torch.tensor(0), torch.tensor(1)])
    assert guard.steps.tolist() == [1, 1]


def test_forecasts_whose_names_are_not_all_states_are_refused() -> None:
    guard = lr.Guard(_weather())
    for bad in ({"sun": 0.7, "rain": 0.3}, pd.Series({"sun": 1.0, "a": 0, "b": 0})):
        with pytest.raises(ValueError, match="an entry for each of the states: sun, rain, fog, by name"):
            guard.advise(bad)
    guard.advise(pd.Series([0.7, 0.2, 0.1]))  # only counted: by position
    frame = pd.DataFrame([[0.7, 0.2, 0.1]] * 9, columns=["p1", "p2", "p3"])  # names of something else
    assert lr.backtest(_weather(), frame, ["sun"] * 9).earned["model"] > 2


def test_a_frame_of_payoffs_names_actions_and_states() -> None:
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], index=["go", "stay"], columns=["up", "down"])
    problem = lr.DecisionProblem.from_payoffs(frame)
    assert (problem.actions, problem.states) == (("go", "stay"), ("up", "down"))
    for unnamed in (frame.to_numpy(), pd.DataFrame(frame.to_numpy())):
        assert lr.DecisionProblem.from_payoffs(unnamed).states == ("0", "1")
    for states in (["down", "up"], ["rise", "fall"]):
        with pytest.raises(ValueError, match="states must be those of the frame"):
            lr.DecisionProblem.from_payoffs(frame, states=states)


def test_bytes_of_a_guard_with_other_names_are_refused() -> None:
    """The same numbers in another order of names would be played the other way round."""
    payoffs = [[100, -100], [0, 0], [-100, 100]]
    one = lr.DecisionProblem.from_payoffs(payoffs, ["short", "flat", "long"], ["down", "up"])
    other = lr.DecisionProblem.from_payoffs(payoffs, ["long", "flat", "short"], ["up", "down"])
    with pytest.raises(ValueError, match="another problem"):
        lr.Guard(other).loads(lr.Guard(one).dumps())


def test_actions_are_positions_in_any_array_or_names() -> None:
    problem = lr.DecisionProblem.from_payoffs(10 * np.eye(2), actions=["1", "0"], states=["a", "b"])
    regrets = []
    for action in (1, np.int64(1), np.array(1), np.array(1, dtype=object), "0"):
        guard = lr.Guard(problem)
        guard.advise([0.9, 0.1])
        guard.observe("a", action=action)
        regrets.append(guard.realised_regret)
    assert regrets == [2.0] * 5
    for wrong in (True, 0.0, "2"):
        guard = lr.Guard(problem)
        guard.advise([0.9, 0.1])
        with pytest.raises(ValueError, match="action must be"):
            guard.observe("a", action=wrong)
    fleet = lr.Guard(problem, streams=2)
    fleet.advise([[0.9, 0.1]] * 2)
    with pytest.raises(ValueError, match="action must be positions or names of actions: 1, 0, one kind"):
        fleet.observe(["a", "b"], action=[1, "0"])
