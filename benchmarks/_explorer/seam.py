"""What the seam of the explorer costs a program that explores nothing: instructions, then and now.

Instructions of one message are the same on a busy machine, so three per cent can be seen.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from _kit.instructions import compare_instructions, is_there
from _kit.process import HERE, python
from _kit.rounds import OURS
from _kit.rows import Against, Comparison, Row

BEFORE: Final = "before the seam"
COMMIT: Final = "a80dfd3"  # the last one without it
MUST, AIM = 1 / 1.03, 1 / 1.01  # quality.md of the specification

# Operations as in `messaging.py`.
ROWS: Final = tuple(
    Row(f"off: {title}", bench, ops, actors, (Against(BEFORE, ops),))
    for title, bench, ops, actors in (
        ("tell, async handler", "tell", 250_000, 1),
        ("tell, plain handler", "tell-plain", 300_000, 1),
        ("ring hop, 503 actors", "ring", 130_000, 503),
        ("ask, plain handler", "ask-plain", 200_000, 1),
        ("ask, async handler", "ask", 8_000, 1),
        ("bounded send, capacity 64", "send", 130_000, 1),
        ("spawn + message + stop", "spawn", 30_000, 100),
        ("always-blocking handler", "blocking", 20_000, 1),
    )
)


def cost_when_off() -> tuple[list[Comparison], list[str]]:
    """Compare with the commit before the seam; return also what kept it from being measured."""
    if not is_there():
        return [], ["the seam when it is off: no `valgrind` on the path"]
    with tempfile.TemporaryDirectory(prefix="trouper-before-") as name:
        try:
            _unpack(Path(name))
        except (OSError, subprocess.CalledProcessError):
            return [], [f"the seam when it is off: no commit {COMMIT} in this repository"]
        os.environ["TROUPER_BEFORE"] = str(Path(name, "src"))
        commands = {OURS: python("trouper_actors"), BEFORE: python("trouper_before")}
        counted = compare_instructions(ROWS, commands, frozenset())
    return [replace(c, must=MUST, aim=AIM, gated=True) for c in counted], []


def _unpack(folder: Path) -> None:
    git = ["git", "-C", str(HERE.parent), "archive", COMMIT, "src"]
    packed = subprocess.run(git, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
