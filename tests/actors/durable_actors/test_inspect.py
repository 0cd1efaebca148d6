"""``trouper inspect PATH actors``: who has a history, with no need of the classes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from trouper import open_system

COMMAND = "import sys; from trouper.cli import main; sys.exit(main())"


@pytest.mark.proves("Durable actors: one actor per key")
def test_inspect_lists_durable_actors_by_key(till: SimpleNamespace, tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_system("shop", store=tmp_path / "state") as system:
            for key in ("b", "a"):
                await (await system.actor(till.Counting, key)).ask(till.Many(10))

    trio.run(fill)
    shown = subprocess.run(
        [sys.executable, "-c", COMMAND, "inspect", "state", "actors", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    views = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(view["key"], view["actor"], view["records"]) for view in views] == [
        ("a", "till", 10),
        ("b", "till", 10),
    ]
