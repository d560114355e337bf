"""Processes of their own find the paper's programs from any folder."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}


def paper(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """``python -m paper`` in a folder, with warnings as errors."""
    command = [sys.executable, "-W", "error", "-m", "paper", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=300)
