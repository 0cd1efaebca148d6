"""SIGKILL behind the first rank of a group: `.order` begins with it in every later process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, str(Path(__file__).with_name("order_program.py"))]


def test_order_is_that_of_the_ranks_in_every_process(tmp_path: Path) -> None:
    command = [*PROGRAM, str(tmp_path / "store")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ranked 1\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    for _ in range(2):
        again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        told = [line for line in again.stdout.splitlines() if not line.startswith("ranked")]
        assert told == ["[['call 0', 'call 1', 'call 2'], [2, 1, 0]]"]
