"""Which column is which state's, as a newcomer says it: never swapped without a word, and refusals that say how."""

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.laws import probs_in, told_in_words

from ..audit_logs import written
from ..cli.test_audit import run

STAKES = lr.DecisionProblem.from_payoffs([[-5, 10], [0, 0]], ["buy", "wait"], ["down", "up"])
THERE = ["y", "forecast_up", "forecast_down", "rest"]


def market(T=300, seed=0):
    """A model of a market that is right, its columns in the order up, down."""
    rng = np.random.default_rng(seed)
    up = rng.beta(2, 2, T)
    came = np.where(rng.random(T) < up, "up", "down")
    return pa.table({"ds": np.arange(T), "y": came, "forecast_up": up, "forecast_down": 1 - up})


@pytest.mark.parametrize(
    ("states", "told", "found"),
    [
        (("down", "up"), ["forecast_up", "forecast_down"], None),
        (("down", "up"), ["forecast_up", "rest"], None),
        (("down", "up"), ["forecast_down", "forecast_up"], ("forecast_down", "forecast_up")),
        (("down", "up"), {"up": "forecast_up", "down": "forecast_down"}, ("forecast_down", "forecast_up")),
        (("down", "up"), {"up": "forecast_down", "down": "forecast_up"}, ("forecast_up", "forecast_down")),
        (("down", "up"), {"up": "rest"}, (None, "rest")),
        (("left", "right"), ["forecast_up", "forecast_down"], ("forecast_up", "forecast_down")),
        (("dry", "rain"), ["p_rain", "p_no_rain"], None),
        (("no rain", "rain"), ["p_no_rain", "p_rain"], ("p_no_rain", "p_rain")),
        (("rain", "no rain"), ["p_no_rain", "p_rain"], None),
        (("Down", "UP"), ["pUp", "pDown"], None),
        (("0", "1"), ["q1", "q0"], None),
        (("0", "1"), ["model_1_a", "model_1_b"], ("model_1_a", "model_1_b")),
        (("0", "1"), ["q10", "q11"], ("q10", "q11")),
        (("a", "b", "c"), ["x_b", "x_c", "x_a"], None),
        (("a", "b", "c"), ["data", "beta", "xa"], ("data", "beta", "xa")),
    ],
)
def test_columns_go_to_the_states_that_they_name(states, told, found):
    there = [*THERE, *(told if isinstance(told, list) else told.values())]
    if found is not None:
        assert probs_in(there, states, told, ["y"]) == found
    else:
        with pytest.raises(ValueError, match=r"in the order of the states, .*each with its state"):
            probs_in(there, states, told, ["y"])


def test_swapped_columns_are_refused_and_named_ones_taken(tmp_path):
    table = market()
    log = written(table, tmp_path / "log.csv")
    (tmp_path / "stakes.csv").write_text("euros,down,up\nbuy,-5,10\nwait,0,0\n")
    settings = [log, "--payoffs", tmp_path / "stakes.csv", "--out", tmp_path / "out"]
    done = run(*settings, "--probs", "forecast_up,forecast_down")
    assert done.exit_code == 4, done.output
    assert "order of the states, down, up, and 'forecast_up', which has the place of down, names up" in done.output
    asked = lr.backtest(STAKES, table, columns={"probs": ["forecast_down", "forecast_up"]})
    for told in ("forecast_down,forecast_up", "up=forecast_up,down=forecast_down", "up=forecast_up"):
        done = run(*settings, "--probs", told)
        assert done.exit_code == 0, done.output
        assert f"you do: {300 * asked.earned['model']:,.0f} euros in 300 steps." in done.output
        columns = {"probs": told_in_words(told, STAKES.states)}
        assert lr.backtest(STAKES, table, columns=columns).earned == asked.earned
        assert audit_log(log, STAKES, columns=columns).earned["model"] == pytest.approx(asked.earned["model"])
    with pytest.raises(ValueError, match="'forecast_up', which has the place of down, names up"):
        lr.backtest(STAKES, table, columns={"probs": ["forecast_up", "forecast_down"]})
    columns = {"probs": {"up": "forecast_up"}, "references": {"today": ["forecast_up", "forecast_down"]}}
    with pytest.raises(ValueError, match="reference 'today' must be in the order of the states"):
        lr.backtest(STAKES, table, columns=columns)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"up": "forecast_up", "flat": "forecast_down"},
        {"up": "nowhere"},
        {"up": "forecast_up", "down": "forecast_up"},
        {"up": 3},
    ],
)
def test_columns_by_state_that_make_no_sense(told):
    with pytest.raises(ValueError, match=r"columns of probabilities by state must name a different column, .*down"):
        lr.backtest(STAKES, market(9), columns={"probs": told})


def test_words_of_the_command():
    assert told_in_words("a,b", ("down", "up")) == ["a", "b"]
    assert told_in_words("x=a,y=b", ("down", "up")) == ["x=a", "y=b"]  # columns may be called anything
    assert told_in_words("up=a=b", ("down", "up")) == {"up": "a=b"}
    for bad, says in (("up=a,b", "or STATE=COLUMN each"), ("up=a,up=b", "has two for up")):
        with pytest.raises(ValueError, match=says):
            told_in_words(bad, ("down", "up"))


def test_one_column_for_two_states(tmp_path):
    table = market().rename_columns(["ds", "y", "prob_up", "other"])
    hint = r"if prob_up is the probability of up .*--probs up=prob_up or columns=\{'probs': \{'up': 'prob_up'\}\}"
    for columns in (None, {"probs": "prob_up"}):
        with pytest.raises(ValueError, match=hint):
            lr.backtest(STAKES, table, columns=columns)
        with pytest.raises(lr.audit.Refused, match=hint):
            audit_log(written(table, tmp_path / "log.csv"), STAKES, columns=columns)
    table = table.set_column(2, "prob_up", pa.array([1.5] + [0.5] * 299))
    with pytest.raises(lr.audit.Refused, match=r"row 1: probabilities must lie in \[0, 1\], got -0.5, 1.5"):
        lr.backtest(STAKES, table, columns={"probs": {"up": "prob_up"}})


def test_refusals_of_columns_say_how_to_name_them():
    table = market(9)
    for columns, says in (
        (
            {"state": "z", "probs": {"up": "forecast_up"}},
            r"state column must be .*--state NAME or columns=\{'state': NAME\}",
        ),
        (
            {"order": "z", "probs": {"up": "forecast_up"}},
            r"order column must be .*--order NAME or columns=\{'order': NAME\}",
        ),
        ({}, r"--probs down=COLUMN,up=COLUMN or columns=\{'probs': \{'down': COLUMN, ...\}\}"),
        ({"probs": ["a", "b"]}, r"--probs down=COLUMN,up=COLUMN or columns="),
    ):
        with pytest.raises(ValueError, match=says):
            lr.backtest(STAKES, table, columns=columns)
    with pytest.raises(ValueError, match=r"column of states, .*--state NAME or columns=\{'state': NAME\}"):
        lr.backtest(STAKES, table.rename_columns(["ds", "came", "p_up", "p_down"]))
