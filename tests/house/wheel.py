"""Prove the wheel: build it from the sdist, compare it with the tree, test it apart from src.

A script, not a test: it needs the build tools and makes an environment of its own. Run it as
``make wheel-test``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
# Each package's own tests; the others test the tree (house, docs, typing) or take long (crash).
SMOKE = ("mailbox", "store", "supervision", "actors", "cells", "cli")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, quiet unless it fails."""
    # No bytecode: in the tree it would differ from the wheel, here it would be written twice.
    quiet = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=cwd, env=quiet, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}wheel: {' '.join(map(str, command))} failed")


def build(into: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", into, ROOT)
    (wheel,) = into.glob("*.whl")
    return wheel


def compare_with_tree(wheel: Path) -> int:
    """Refuse a wheel that lacks a file of the package or brings one along."""
    src = ROOT / "src"
    tree = {
        path.relative_to(src).as_posix()
        for path in src.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    if packed != tree:
        sys.exit(f"wheel: missing {sorted(tree - packed)}, extra {sorted(packed - tree)}")
    return len(packed)


def install(python: Path, *what: str) -> None:
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "-qq")
    run(*pip, "-c", str(ROOT / "constraints.txt"), *what)


def refuse_without_the_extra(command: Path) -> None:
    """The bare install has a command, and the command says which extra it wants."""
    done = subprocess.run([command, "--version"], capture_output=True, text=True)
    if done.returncode != 2 or "trouper[cli]" not in done.stderr:
        sys.exit(f"wheel: without its extra, trouper said {done.stderr!r} ({done.returncode})")


def find_the_race(scripts: Path, here: Path) -> str:
    """Explore a user's 30 lines with nothing but the wheel; replay what is found as printed."""
    here.mkdir()
    shutil.copy(ROOT / "tests" / "testing" / "race.py", here / "test_race.py")

    def failing(command: str) -> str:
        name, *rest = shlex.split(command)
        done = subprocess.run([scripts / name, *rest], cwd=here, capture_output=True, text=True)
        reason = 'assert heard == ["order", "close"]'
        if done.returncode != 1 or reason not in done.stdout or "Traceback" in done.stdout:
            sys.exit(f"{done.stdout}{done.stderr}wheel: {command} found no race")
        return done.stdout

    found = failing("pytest -q --schedules 200")
    (line,) = [line for line in found.splitlines() if line.startswith("pytest ")]
    replayed = failing(line)
    why = next(line for line in found.splitlines() if line.startswith("at `"))
    if line not in replayed or why not in replayed:
        sys.exit(f"{found}{replayed}wheel: the printed line replays something else")
    return why


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="trouper-wheel-") as name:
        here = Path(name)
        wheel = build(here / "dist")
        files = compare_with_tree(wheel)

        run(sys.executable, "-m", "venv", "--without-pip", here / "venv")
        scripts = here / "venv" / "bin"
        python = scripts / "python"
        install(python, str(wheel))
        refuse_without_the_extra(scripts / "trouper")
        install(python, f"{wheel}[asyncio,cli,otel,testing]")
        run(scripts / "trouper", "--version")

        apart = here / "apart"
        smoke = [f"tests/{part}" for part in SMOKE if (ROOT / "tests" / part).is_dir()]
        for folder in ("tests", "examples"):  # tests run the examples and their guests
            shutil.copytree(
                ROOT / folder, apart / folder, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", apart)
        where = f"import trouper; assert {str(here / 'venv')!r} in trouper.__file__"
        run(python, "-c", where, cwd=apart)
        run(python, "-m", "pytest", "-q", "-x", "-W", "error", *smoke, cwd=apart)
        print(f"wheel: 30 lines of a user's find a race, {find_the_race(scripts, here / 'user')}")
        print(f"wheel: {wheel.name}, {files} files, as in the tree; passes {', '.join(smoke)}")


if __name__ == "__main__":
    main()
