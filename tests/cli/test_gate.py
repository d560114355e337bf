"""``lowregret gate`` in a pipeline: exit codes that are verdicts, and nothing else; the scripts of its page."""

import io
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.audits.gate_logs import gate_forecasts, gate_scores
from lowregret.cli.app import _app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "gate.md").read_text(encoding="utf-8")
RUN = "from lowregret.cli import main; main()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 days of two models, of which ``sharp`` knows more, and payoffs; what both scored on the same items."""
    rng = np.random.default_rng(0)
    wet = rng.beta(0.5, 0.5, 200)
    days = pd.DataFrame({"ds": pd.date_range("2025-01-01", periods=200)})
    days["y"] = np.where(rng.random(200) < wet, "wet", "dry")
    for name, chance in {"sharp": wet, "blunt": 0.5 + 0.1 * rng.standard_normal(200).clip(-2, 2)}.items():
        days[f"{name}_p_wet"], days[f"{name}_p_dry"] = chance, 1 - chance
    days.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "payoffs.csv").write_text("euros,dry,wet\nopen,100,-100\nshut,0,0\n")
    scores = pd.DataFrame({"id": range(300), "lang": ["de", "en", "fr"] * 100, "blunt": rng.random(300) < 0.4})
    scores["sharp"] = rng.random(300) < np.where(scores["lang"] == "fr", 0.4, 0.8)
    scores.to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path


def run(folder: Path, log: str, new: str, current: str, *options: Any) -> Any:
    both = ["--new", new, "--current", current, "--out", folder / "out"]
    return CliRunner().invoke(_app(), ["gate", *map(str, [folder / log, *both, *options])], env={"COLUMNS": "1000"})


@pytest.mark.parametrize("log", ["log.csv", "scores.csv"])
def test_promote_keep_and_not_enough_yet(folder: Path, log: str) -> None:
    payoffs = ("--payoffs", folder / "payoffs.csv") if log == "log.csv" else ("--range", 0, 1)
    for code, new, current, alpha in (
        (0, "sharp", "blunt", 0.05),
        (1, "blunt", "sharp", 0.05),
        (2, "sharp", "blunt", 1e-200),
    ):
        done = run(folder, log, new, current, "--alpha", alpha, *payoffs)
        assert done.exit_code == code, done.output
        if log == "log.csv":
            problem = lr.problems.payoffs_in(folder / "payoffs.csv")
            found: Any = gate_forecasts(folder / log, problem, new, current, alpha=alpha)
        else:
            found = gate_scores(folder / log, new, current, alpha=alpha)
        assert json.loads((folder / "out" / "gate.json").read_text()) == json.loads(found.to_json())
        assert str(found) in done.output


def test_of_slices_the_worst_counts(folder: Path) -> None:
    scores = pd.read_csv(folder / "scores.csv").query("lang != 'fr'")  # in fr they are alike
    scores.to_csv(folder / "two.csv", index=False)
    for code, log, new, current, words in (
        (2, "scores.csv", "sharp", "blunt", "Not enough yet about sharp. Of 3 parts: 2 promote, 1 not enough yet."),
        (1, "scores.csv", "blunt", "sharp", "Keep sharp. Of 3 parts: 2 keep, 1 not enough yet."),
        (0, "two.csv", "sharp", "blunt", "Promote sharp. Of 2 parts: 2 promote."),
    ):
        done = run(folder, log, new, current, "--by", "lang", "--item", "id")
        assert (done.exit_code, words in done.output) == (code, True), done.output


def test_nothing_else_ends_with_a_verdict(folder: Path) -> None:
    payoffs = ("--payoffs", folder / "payoffs.csv")
    assert run(folder, "log.csv", "sharp", "blunt", *payoffs).exit_code == 0
    written = (folder / "out" / "gate.json").read_bytes()
    (folder / "bad.csv").write_text((folder / "log.csv").read_text().replace("2025-01-03", "2025-01-02"))
    (folder / "high.csv").write_text((folder / "scores.csv").read_text().replace("True", "7", 1))
    for code, log, new, options, words in (
        (4, "bad.csv", "sharp", payoffs, "bad.csv, row 3"),
        (4, "high.csv", "sharp", (), "must be in the range 0 to 1"),
        (3, "log.csv", "other", payoffs, "columns of the forecasts of other"),
        (3, "log.csv", "sharp", (*payoffs, "--alpha", 2), "alpha must lie strictly between 0 and 1"),
        (3, "log.csv", "sharp", (*payoffs, "--lag", 0), "lag"),
        (3, "log.csv", "sharp", (*payoffs, "--by", "ds"), "--by goes without --payoffs"),
        (3, "scores.csv", "sharp", ("--stream", "id"), "--stream goes with --payoffs"),
        (3, "scores.csv", "sharp", ("--nonsense",), "No such option"),
        (3, "scores.csv", "sharp", ("--range", 1), "requires 2 arguments"),
        (3, "nowhere.csv", "sharp", (), "nowhere.csv"),
        (3, "scores.csv", "sharp", ("--out", folder / "scores.csv"), "scores.csv: File exists"),
    ):
        done = run(folder, log, new, "blunt", *options)
        assert done.exit_code == code, done.output
        assert words in re.sub(r"[\s│]+", " ", done.output)
    assert (folder / "out" / "gate.json").read_bytes() == written
    assert CliRunner().invoke(_app(), ["gate", "--help"]).exit_code == 0


def test_a_fault_of_ours_is_no_verdict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (RuntimeError("a fault"), ModuleNotFoundError("no polars", name="polars"), MemoryError()):

        def fails(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr("lowregret.audits.gate_logs.gate_scores", fails)
        assert run(folder, "scores.csv", "sharp", "blunt").exit_code == 3


# The page


def test_the_scripts_of_the_page_run(folder: Path) -> None:
    """That beside a registry, which only prints what it is called with, and that of continuous integration."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "registry").write_text('#!/bin/sh\necho "registry $@"\n')
    (tools / "lowregret").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{RUN}" "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    scores = (folder / "scores.csv").read_text()
    (folder / "results.csv").write_text(scores.replace("blunt", "production"))
    (beside,) = re.findall(r"^```bash\n(#!/bin/sh\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (job,) = re.findall(r"^```yaml\n- run: \|\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for script, new, current, words, code in (
        (beside, "sharp", "production", "registry promote sharp", 0),
        (beside, "sharp", "other", "nothing was decided", 1),
        (job, "sharp", "production", "promote=yes", 0),
        (job, "id", "production", "refused", 1),
    ):
        (folder / "gate.sh").write_text(textwrap.dedent(script))
        done = subprocess.run(
            ["sh", "-e", "gate.sh", new, current], cwd=folder, capture_output=True, text=True, check=False,
            env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PROMPT": new, "GITHUB_OUTPUT": "/dev/stdout"},
        )  # fmt: skip
        assert words in re.sub(r"[\s│]+", " ", done.stdout + done.stderr), done
        assert done.returncode == code


LM_EVAL = """{"doc_id": %d, "doc": {"q": "1+1", "a": "2"}, "target": "2", "arguments": {"gen_args_0": {"arg_0": "1+1 = \
", "arg_1": {"until": ["\\n"]}}}, "resps": [["lol"]], "filtered_resps": ["lol"], "filter": "%s", "metrics": ["%s"], \
"doc_hash": "8e0a", "prompt_hash": "c350", "target_hash": "d473", "%s": %.1f}\n"""  # a line of 0.4.13, hashes cut

INSPECT = """sample_id,eval_id,log,id,epoch,input,target,score_grade,score_match,total_tokens,error,retries,fallbacks
CJgoyxLZ,ThjEepSo,task.eval,q0,1,"user:\n0+1?\n",1,0.25,C,0,,0,0
8DMj5gfN,ThjEepSo,task.eval,q1,1,"user:\n1+1?\n",2,0.25,P,0,,0,0
RDv5R84o,ThjEepSo,task.eval,q0,2,"user:\n0+1?\n",1,0.50,I,0,,0,0
RwusRkv6,ThjEepSo,task.eval,q3,2,"user:\n3+1?\n",4,,,0,RuntimeError('a tool failed'),0,0
"""  # what samples_df of 0.3.285 has, without its empty columns


def test_the_snippets_of_the_page_read_what_evaluations_write(folder: Path) -> None:
    (block,) = (
        block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "lm_eval_scores" in block
    )
    made: dict[str, Any] = {}
    exec(block, made)
    scores = []
    for right in ([1, 1, 0, 1], [0, 1, 0]):
        rows = [
            (i, *own) for own in (("strict-match", right), ("flexible-extract", [1] * 4)) for i in range(len(right))
        ]
        lines = [LM_EVAL % (i, name, "exact_match", "exact_match", own[i]) for i, name, own in rows]
        (folder / "samples.jsonl").write_text("".join(lines))
        scores.append(made["lm_eval_scores"](folder / "samples.jsonl", "exact_match", "strict-match"))
    both = made["on_the_same_items"](*scores)
    assert both.sort_index().to_dict("list") == {"new": [1, 1, 0], "current": [0, 1, 0]}
    (folder / "plain.jsonl").write_text(LM_EVAL % (7, "none", "acc", "acc", 1))
    assert made["lm_eval_scores"](folder / "plain.jsonl", "acc").to_dict() == {7: 1}
    for kind in ({}, {"dtype_backend": "pyarrow"}):  # samples_df has the second
        samples = pd.read_csv(io.StringIO(INSPECT), **kind)
        assert made["inspect_scores"](samples, "match").to_dict() == {"q0": 0.5, "q1": 0.5, "q3": 0.0}
        assert made["inspect_scores"](samples, "grade").to_dict() == {"q0": 0.375, "q1": 0.25, "q3": 0.0}
