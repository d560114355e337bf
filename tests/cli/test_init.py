"""``lowregret init``: what each kind of log proposes, what is left open, and that the filled-in files are an audit."""

import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from lowregret.audits.settings import settings_in
from lowregret.cli.app import _app
from lowregret.cli.example import PAYOFFS, log_in_csv

N = 60
RNG = np.random.default_rng(0)
WET = RNG.integers(1, 100, N) / 100
CAME = np.where(RNG.random(N) < WET, "wet", "dry")
DAYS = [f"2026-0{1 + k // 28}-{1 + k % 28:02d}" for k in range(N)]
SOLD = RNG.gamma(6, 5, N).round(2)


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(_app(), [*map(str, arguments)], env={"COLUMNS": "1000"})


def proposed(folder: Path, name: str = "log.csv", **columns: Any) -> tuple[dict[str, Any], str]:
    """What ``init`` writes for a log with these columns, and what it prints."""
    frame = pl.DataFrame(columns)
    frame.write_csv(folder / name) if name.endswith("csv") else frame.write_parquet(folder / name)
    done = run("init", folder / name)
    assert done.exit_code == 0, done.output
    return tomllib.loads((folder / "audit.toml").read_text()), done.output


def commented(folder: Path, role: str) -> list[Any]:
    """The values of a role, and the alternatives, which stand in comments."""
    lines = [line.removeprefix("# ") for line in (folder / "audit.toml").read_text().splitlines()]
    return [tomllib.loads(line)[role] for line in lines if line.startswith(f"{role} = {{")]


def test_the_example(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(log_in_csv())
    assert run("init", tmp_path / "log.csv").exit_code == 0
    columns = {"stream": "site", "order": "date", "state": "outcome", "probs": {"dry": "p_dry", "wet": "p_wet"}}
    found = tomllib.loads((tmp_path / "audit.toml").read_text())
    assert found == {"log": "log.csv", "payoffs": "payoffs.csv", "columns": columns}
    assert (tmp_path / "payoffs.csv").read_text() == "payoffs,dry,wet\naction 1,?,?\naction 2,?,?\n"


def test_filled_in_it_is_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my logs").mkdir()
    (tmp_path / "my logs" / "log.csv").write_text(log_in_csv())
    monkeypatch.chdir(tmp_path)
    then = shlex.split(run("init", "my logs/log.csv").output.splitlines()[-1].removeprefix("Then: lowregret "))
    assert run(*then).exit_code == 2
    (tmp_path / "my logs" / "payoffs.csv").write_text(PAYOFFS)
    assert run(*then).exit_code == 3


def test_files_that_are_there_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text("# mine\n")
    (tmp_path / "log.csv").write_text(log_in_csv())
    assert "audit.toml is there already, and is left as it is" in run("init", tmp_path / "log.csv").output
    assert (tmp_path / "audit.toml").read_text() == "# mine\n"
    assert (tmp_path / "payoffs.csv").exists()


def test_of_two_models_none_is_chosen(tmp_path: Path) -> None:
    chances = {f"{name}_p_{state}": p for name in "AB" for state, p in (("dry", 1 - WET), ("wet", WET))}
    found, says = proposed(tmp_path, ds=DAYS, y=CAME, **chances)
    assert "2 models found: A, B." in says
    assert found["columns"] == {"stream": "none", "order": "ds", "state": "y"}
    assert commented(tmp_path, "probs") == [{s: f"{m}_p_{s}" for s in ("dry", "wet")} for m in "AB"]
    (tmp_path / "payoffs.csv").write_text(PAYOFFS)
    assert run("audit", "--config", tmp_path / "audit.toml", "--out", tmp_path / "out").exit_code == 2
    text = (tmp_path / "audit.toml").read_text().replace("# probs", "probs", 1)
    (tmp_path / "audit.toml").write_text(text)
    assert run("audit", "--config", tmp_path / "audit.toml", "--out", tmp_path / "out").exit_code in (0, 3)


def test_of_two_models_quantiles_none_is_chosen(tmp_path: Path) -> None:
    quantiles = {f"{m}-{side}-80": SOLD * f for m in ("ETS", "NN") for side, f in (("lo", 0.5), ("hi", 1.5))}
    found, says = proposed(tmp_path, "log.parquet", ds=DAYS, y=SOLD, **quantiles)
    assert "2 models found: ETS, NN." in says
    assert found["payoffs"] == "payoffs.toml"
    assert found["columns"] == {"stream": "none", "order": "ds", "state": "y"}
    assert commented(tmp_path, "quantiles") == [{"0.1": f"{m}-lo-80", "0.9": f"{m}-hi-80"} for m in ("ETS", "NN")]
    stall = tomllib.loads((tmp_path / "payoffs.toml").read_text())
    assert (stall["kind"], stall["price"]) == ("newsvendor", "?")
    assert max(stall["actions"]) >= np.quantile(SOLD, 0.99)


def test_payoffs_of_numbers_that_may_be_negative_are_at_knots(tmp_path: Path) -> None:
    found, _ = proposed(tmp_path, ds=DAYS, y=SOLD - 30, q10=SOLD - 35, q90=SOLD)
    assert found["columns"]["quantiles"] == {"0.1": "q10", "0.9": "q90"}
    at = tomllib.loads((tmp_path / "payoffs.toml").read_text())
    assert at["knots"] == sorted(at["knots"])
    assert at["knots"][0] <= np.quantile(SOLD - 30, 0.01)
    assert [len(row) for row in at["payoffs"]] == [len(at["knots"])] * 2


def test_numbers_with_decimal_commas_are_numbers(tmp_path: Path) -> None:
    rows = pl.DataFrame({"shop": ["a", "b"] * (N // 2), "Datum": sorted(DAYS[: N // 2] * 2), "Verkauf": SOLD})
    rows = rows.with_columns(pl.Series("A-lo-80", SOLD / 2), pl.Series("A-hi-80", SOLD * 2))
    rows.write_csv(tmp_path / "log.csv", separator=";", decimal_comma=True)
    assert run("init", tmp_path / "log.csv").exit_code == 0
    found = tomllib.loads((tmp_path / "audit.toml").read_text())["columns"]
    assert (found["stream"], found["order"], found["state"]) == ("shop", "Datum", "Verkauf")
    assert max(tomllib.loads((tmp_path / "payoffs.toml").read_text())["actions"]) >= np.quantile(SOLD, 0.99)


def test_empty_outcomes_are_no_state(tmp_path: Path) -> None:
    rained = [*(CAME == "wet")[: N - 2].astype(float).tolist(), None, None]  # as pandas writes 0 and 1 beside NaN
    found, _ = proposed(tmp_path, ds=np.arange(N), y=rained, p_1=WET)
    assert (tmp_path / "payoffs.csv").read_text().splitlines()[0] == ",0,1"
    assert found["columns"] == {"stream": "none", "order": "ds", "state": "y", "probs": {"1": "p_1"}}


def test_other_columns_of_times_may_say_when_outcomes_were_known(tmp_path: Path) -> None:
    times = {"delivery": DAYS, "reported": [f"{day} 09:00" for day in DAYS]}
    found, _ = proposed(tmp_path, ds=DAYS, **times, y=CAME, p_dry=1 - WET, p_wet=WET)
    assert (found["columns"]["order"], "known_at" in found["columns"]) == ("ds", False)
    lines = (tmp_path / "audit.toml").read_text().splitlines()
    assert [line.split("  #")[0] for line in lines if "known_at" in line] == [
        f'# known_at = "{name}"' for name in times
    ]
    (tmp_path / "audit.toml").unlink()
    found, _ = proposed(tmp_path, **times, y=CAME, p_dry=1 - WET, p_wet=WET)
    assert found["columns"]["order"] == "?"
    assert 'order = "?"  # "delivery" or "reported"' in (tmp_path / "audit.toml").read_text()


def test_a_column_that_numbers_the_rows_is_no_stream(tmp_path: Path) -> None:
    numbers = {"": np.arange(N) % 30, "id": np.arange(N)}  # the first as pandas writes its index
    found, _ = proposed(tmp_path, **numbers, ds=DAYS, y=CAME, p_dry=1 - WET, p_wet=WET)
    assert found["columns"]["stream"] == "none"


def test_outcomes_are_those_of_the_usual_name_where_others_would_do(tmp_path: Path) -> None:
    lists = np.stack([1 - WET, WET], axis=1).tolist()
    found, _ = proposed(tmp_path, "log.parquet", ds=DAYS, half=["am", "pm"] * (N // 2), outcome=CAME, probs=lists)
    assert (found["columns"]["state"], found["columns"]["probs"]) == ("outcome", "probs")


def test_what_is_named_after_the_states_alone_is_the_model_and_others_stand_in_comments(tmp_path: Path) -> None:
    for own in ({"wet": "p_wet"}, {"dry": "p_dry", "wet": "p_wet"}):
        (tmp_path / "audit.toml").unlink(missing_ok=True)
        chances = {name: WET if state == "wet" else 1 - WET for state, name in own.items()}
        found, says = proposed(tmp_path, ds=DAYS, y=CAME, now_dry=1 - WET, now_wet=WET, **chances)
        assert found["columns"]["probs"] == own
        assert commented(tmp_path, "probs") == [own, {"dry": "now_dry", "wet": "now_wet"}]
        assert "models found" not in says


def test_a_state_whose_name_ends_in_that_of_another_is_no_model(tmp_path: Path) -> None:
    rain = np.where(CAME == "wet", "very_wet", "wet")
    found, _ = proposed(tmp_path, ds=DAYS, y=rain, p_wet=1 - WET, p_very_wet=WET)
    assert found["columns"]["probs"] == {"wet": "p_wet", "very_wet": "p_very_wet"}
    assert len(commented(tmp_path, "probs")) == 1


def test_what_cannot_be_known_is_to_be_filled_in(tmp_path: Path) -> None:
    again = {"a": ["u", "v"] * (N // 2), "b": ["u", "v"] * (N // 2), "notes": [[1]] * N, "raw": [b"x"] * N}
    found, says = proposed(tmp_path, "log.parquet", ds=np.repeat(DAYS[: N // 2], 2), chance=WET, **again)
    assert found["columns"] == {"stream": "?", "order": "ds", "state": "?", "probs": "?"}
    assert 'stream = "?"  # "a" or "b"' in (tmp_path / "audit.toml").read_text()
    assert "say which columns stand for each ?" in says
    (tmp_path / "payoffs.csv").write_text(PAYOFFS)
    assert run("audit", "--config", tmp_path / "audit.toml", "--out", tmp_path / "out").exit_code == 2


def test_a_column_of_outcomes_is_known_by_its_name_where_none_came(tmp_path: Path) -> None:
    found, _ = proposed(tmp_path, "log.parquet", ds=DAYS, y=[None] * N, p_dry=1 - WET, p_wet=WET)
    assert found["columns"] == {"stream": "none", "order": "ds", "state": "y", "probs": "?"}


def test_a_log_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ds,y,p_dry,p_wet\n")
    done = run("init", tmp_path / "log.csv")
    assert (done.exit_code, done.stderr) == (4, f"refused: {tmp_path / 'log.csv'}: it has no rows\n")


def test_hostile_names_are_kept_as_they_are(tmp_path: Path) -> None:
    site, sky = 'the "site"\n# = [x]\\', "sky\x7f\x1b[2J"
    states = np.where(CAME == "wet", 'wet, "rain"', "dry=1")
    probs = {"dry=1": "p_dry=1", 'wet, "rain"': 'p_wet, "rain"'}
    frame = {site: ["a"] * (N // 2) + ["b"] * (N // 2), "ds": DAYS[: N // 2] * 2, sky: states}
    frame |= {"p_dry=1": 1 - WET, 'p_wet, "rain"': WET}
    found, says = proposed(tmp_path, name := 'lo"g, 1.parquet', **frame)
    assert (found["log"], "\x1b" in says) == (name, False)
    text = (tmp_path / "payoffs.csv").read_text().replace("?,?", "100,-60", 1).replace("?,?", "0,0")
    (tmp_path / "payoffs.csv").write_text(text)
    settings = settings_in(tmp_path / "audit.toml").settings
    assert (settings.columns.stream, settings.columns.state, settings.columns.probs) == (site, sky, probs)
    done = run("audit", "--config", tmp_path / "audit.toml", "--out", tmp_path / "out")
    assert (done.exit_code in (0, 3), "\x1b" in done.output) == (True, False), done.output
