"""``make dist``: what is released, built twice and tried as a stranger would have it.

The sdist and, out of it, the wheel are written to ``dist/``; a second build must give the same bytes. The wheel must
hold the package's files and no others. It is then installed into environments of its own, with the newest versions
that are allowed and with the oldest, and used (``smoke.py``); then once more for each extra alone, at the versions of
``constraints.txt``. ``--extras cli data`` tries these two, ``--extras`` none.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
UV = str(Path(sys.executable).with_name("uv"))
SMOKE = Path(__file__).with_name("smoke.py")
LINKS = [part for place in os.environ.get("PIP_FIND_LINKS", "").split() for part in ("--find-links", place)]
# Nothing of the clone, and nothing that another run has left.
CLEAN = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
IMPORT = "import time; t = time.perf_counter(); import lowregret; print(time.perf_counter() - t)"


def ran(*words: object, **more: object) -> str:
    """What a command prints; a command that fails ends this one, with all that it said."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=CLEAN, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> dict[str, str]:
    """The sdist and the wheel out of it, by the time of the last commit: their names and digests."""
    shutil.rmtree(folder, ignore_errors=True)
    CLEAN["SOURCE_DATE_EPOCH"] = os.environ.get("SOURCE_DATE_EPOCH") or ran("git", "log", "-1", "--format=%ct").strip()
    ran(UV, "build", "--quiet", "--build-constraints", "constraints.txt", *LINKS, "--out-dir", folder, ROOT)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("lowregret-*"))}


def contents(wheel: Path) -> None:
    """The wheel holds what git has of the package, and its own description; told by room."""
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = {name.removeprefix("src/") for name in ran("git", "ls-files", "src/lowregret").split()}
    if held != tracked:
        raise SystemExit(f"the wheel and git differ: {', '.join(sorted(held ^ tracked))}")
    rooms = Counter(name.split("/")[1] if name.count("/") > 1 else "(top)" for name in held)
    print(f"{len(held)} files:", ", ".join(f"{room} {n}" for room, n in sorted(rooms.items())))
    print("beside Python:", ", ".join(sorted(name for name in held if not name.endswith(".py"))))


def tried(wheel: Path, extra: str | None, *versions: str) -> str:
    """Install into a fresh environment and use it there; the best of five times that the import took."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ran(UV, "venv", "--quiet", "--python", sys.executable, place / "env")
        inside = place / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        wanted = f"lowregret{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
        ran(UV, "pip", "install", "--quiet", "--compile-bytecode", *versions, *LINKS, "--python", inside, wanted)
        (place / "empty").mkdir()
        ran(inside, "-I", SMOKE, *([extra] if extra else []), cwd=place / "empty")
        if extra == "cli":  # the paper's programs ask for no more
            ran(inside, "-m", "paper", "demo", "--horizon", "8", "-n", "2", "--out", place / "demo", cwd=ROOT)
        packages = len(ran(UV, "pip", "list", "--quiet", "--python", inside).splitlines()) - 2
        best = min(float(ran(inside, "-I", "-c", IMPORT, cwd=place / "empty")) for _ in range(5))
    return f"{packages} packages, import {best:.3f} s"


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    os.chdir(ROOT)
    every = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    told.add_argument("--extras", nargs="*", default=sorted(every), choices=sorted(every), metavar="EXTRA")
    extras = told.parse_args().extras

    first = built(DIST)
    with tempfile.TemporaryDirectory() as folder:
        if built(Path(folder) / "again") != first:
            raise SystemExit("built twice, and not the same bytes")
    for name, digest in first.items():
        print(f"{name}  {(DIST / name).stat().st_size:,} bytes  sha256 {digest}")
    wheel = next(DIST.glob("*.whl"))
    contents(wheel)

    ways: list[tuple[str, str | None, tuple[str, ...]]] = [
        ("alone, newest", None, ()),
        ("alone, oldest", None, ("--resolution", "lowest-direct")),
        *((f"[{extra}]", extra, ("-c", "constraints.txt")) for extra in extras),
    ]
    for words, extra, versions in ways:
        begin = time.perf_counter()
        print(f"{words:16s} {tried(wheel, extra, *versions)}, {time.perf_counter() - begin:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
