"""Instructions per operation, counted by valgrind: no clock, so a busy machine changes nothing.

Every bench runs twice, each time in a process of its own, with few and with many operations; the
difference belongs to the operations, and starting an interpreter cancels out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from .process import HERE, SystemFailed
from .rounds import OURS
from .rows import Comparison, Row

VALGRIND = [
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=no",
    "--cachegrind-out-file=/dev/null",
]
TOTAL = re.compile(r"I +refs: +([\d,]+)")
PATIENCE = 300.0


def is_there() -> bool:
    """Tell whether this machine has valgrind."""
    return shutil.which("valgrind") is not None


def compare_instructions(
    rows: Sequence[Row], commands: Mapping[str, Sequence[str]], native: frozenset[str]
) -> list[Comparison]:
    """Count every row for every system, but for those that are no Python programs.

    Raises:
        SystemFailed: A system broke down under valgrind.
    """
    found: list[Comparison] = []
    for row in rows:
        peers = [peer for peer in row.peers if peer.system not in native]
        if not peers:
            continue
        ours = count(commands[OURS], row.bench, row.ops, row.actors)
        for peer in peers:
            theirs = count(commands[peer.system], row.bench, peer.ops, row.actors)
            ratio = theirs / ours
            found.append(
                Comparison(
                    row.title,
                    peer.system,
                    "count",
                    ours,
                    theirs,
                    ratio,
                    ratio,
                    ratio,
                    rounds=1,
                    must=None,
                    aim=None,
                    gated=False,
                )
            )
    return found


def count(command: Sequence[str], bench: str, ops: int, actors: int) -> float:
    """Return the instructions of one operation.

    Args:
        command: How the system is started.
        bench: Which bench it runs.
        ops: As many as take it a tenth of a second; a part of that is enough here.
        actors: Passed on. There are at least as many operations.
    """
    few, many = max(ops // 20, actors, 1), max(ops // 4, 3 * actors, 3)
    runs = [_start(command, bench, size, actors) for size in (few, many)]
    (ops_of_few, of_few), (ops_of_many, of_many) = [_total(run, bench) for run in runs]
    return (of_many - of_few) / (ops_of_many - ops_of_few)


def _start(command: Sequence[str], bench: str, ops: int, actors: int) -> subprocess.Popen[str]:
    run = subprocess.Popen(
        [*VALGRIND, *command],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "0"},
    )
    assert run.stdin is not None
    run.stdin.write(json.dumps([bench, ops, actors]) + "\n")
    run.stdin.flush()
    return run


def _total(run: subprocess.Popen[str], bench: str) -> tuple[int, int]:
    """Wait for a run; return how many operations it did and how many instructions it took."""
    try:
        answer, errors = run.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        run.kill()
        answer, errors = run.communicate()
    total = TOTAL.search(errors)
    if not answer or total is None:
        raise SystemFailed(f"{bench} under valgrind gave no count:\n{errors[-2000:]}")
    return int(json.loads(answer)["ops"]), int(total[1].replace(",", ""))
