"""The settings of an audit: one value, whether Python, a file or options give it, and checked when it is made."""

import json
from pathlib import Path
from typing import Any

import pytest

from lowregret.audits.settings import AuditFile, AuditSettings, Columns, settings_in

EVERY: dict[str, Any] = {
    "lag": 3,
    "delta": 0.01,
    "fdr": 0.2,
    "tolerance": 1e-3,
    "horizon": 400,
    "currency": "euros",
    "cluster": True,
    "columns": {
        "stream": "shop",
        "order": "day",
        "state": "actual",
        "model": "ETS",
        "probs": {"dry": "p_dry", "wet": "p_wet"},
        "quantiles": {"0.9": "high", "0.1": "low"},
        "context": "weekday",
        "scale": "share",
        "references": {"now": {"wet": "now_wet"}, "desk": ["desk_dry", "desk_wet"], "list": "lists"},
        "payoffs": ["open_dry", "open_wet", "shut_dry", "shut_wet"],
    },
}


def in_toml(settings: dict[str, Any]) -> str:
    """As a file has it; JSON's texts, numbers and lists are TOML's."""

    def value(own: Any) -> str:
        if isinstance(own, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {value(one)}" for key, one in own.items()) + "}"
        return json.dumps(own)

    top = [f"{name} = {value(own)}" for name, own in settings.items() if name != "columns"]
    return "\n".join([*top, "[columns]", *(f"{name} = {value(own)}" for name, own in settings["columns"].items())])


def test_a_file_gives_the_same_settings_as_python(tmp_path: Path) -> None:
    file = tmp_path / "audit.toml"
    file.write_text('log = ["a.csv", "more/b.csv"]\npayoffs = "shop.csv"\nout = "found"\n' + in_toml(EVERY))
    columns = {**EVERY["columns"], "quantiles": {0.1: "low", 0.9: "high"}}
    settings = AuditSettings(**{**EVERY, "columns": Columns(**columns)})
    logs = (tmp_path / "a.csv", tmp_path / "more" / "b.csv")
    assert settings_in(file) == AuditFile(logs, tmp_path / "shop.csv", tmp_path / "found", settings)
    for name, own in EVERY.items():
        assert name == "columns" or getattr(settings, name) == own


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text("# nothing\n")
    assert settings_in(tmp_path / "audit.toml") == AuditFile((), None, None, AuditSettings())


def test_ways_to_name_columns_are_one_value() -> None:
    assert Columns(probs="lists") == Columns(probs=["lists"]) == Columns(probs=("lists",))
    assert Columns(probs={0: "a", 1: "b"}) == Columns(probs={"0": "a", "1": "b"})
    assert list(Columns(quantiles={"0.9": "high", 0.1: "low"}).quantiles or {}) == [0.1, 0.9]
    assert AuditSettings(columns={"references": {"now": {0.1: "low"}}}) == AuditSettings(
        columns=Columns(references={"now": {"0.1": "low"}})
    )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown column": ({"columns": {"streem": "shop"}}, "columns may have stream, order, .* got streem"),
    "no columns": ({"columns": "shop"}, "columns must be Columns, or a dict"),
    "no name": ({"columns": {"state": ""}}, "state must be the name of a column, got ''"),
    "no name of probabilities": ({"columns": {"probs": [3]}}, "probs must be the name of a column, got 3"),
    "references": ({"columns": {"references": ["now"]}}, "references must be columns by the name"),
    "level": (
        {"columns": {"quantiles": {"low": "q10"}}},
        "a level of quantiles must be a number such as 0.1, got 'low'",
    ),
    "level beyond": ({"columns": {"quantiles": {"90": "q90"}}}, "a level of quantiles must be a number"),
    "level twice": ({"columns": {"quantiles": {"0.1": "a", "0.10": "b"}}}, "each level once"),
    "both": ({"lag": 2, "columns": {"known_at": "at"}}, "lag or known_at .* got both: 2 and 'at'"),
    "lag": ({"lag": 0}, "lag must be a whole number >= 1"),
    "delta": ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
    "fdr": ({"fdr": 0}, "fdr must lie strictly between 0 and 1"),
    "tolerance": ({"tolerance": 0.11}, "tolerance is for rounding, and must be at most 0.1"),
    "horizon": ({"horizon": 2.5}, "horizon must be a whole number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_values_are_refused(what: str) -> None:
    settings, words = WRONG[what]
    with pytest.raises(ValueError, match=words):
        AuditSettings(**settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [("deltas = 1", "audit.toml may have log, payoffs, out, columns, lag, .* got deltas"), ("delta =", "must be TOML")],
)
def test_bad_files_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        settings_in(tmp_path / "audit.toml")
