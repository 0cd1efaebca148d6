"""Instructions per operation, counted by valgrind: no clock, so a busy machine changes nothing.

Every system runs once and forks for each bench, twice: with few and with many operations. A child
inherits what was counted so far, so in the difference of the two the start of an interpreter
cancels out; what is left belongs to the operations.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .process import HERE, SystemFailed
from .rounds import OURS
from .rows import Against, Comparison, Row

VALGRIND = [
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=no",
    "--cachegrind-out-file=/dev/null",
]
TOTAL = re.compile(r"==(\d+)== I +refs: +([\d,]+)")
PATIENCE = 600.0


def is_there() -> bool:
    """Tell whether this machine has valgrind."""
    return shutil.which("valgrind") is not None


def compare_instructions(
    rows: Sequence[Row], commands: Mapping[str, Sequence[str]], unseen: frozenset[str]
) -> list[Comparison]:
    """Count every row for every system but the unseen, whose work is not that of one Python thread.

    Switching threads is the kernel's work, of which valgrind sees nothing.

    Raises:
        SystemFailed: A system broke down under valgrind.
    """
    wanted: dict[str, list[tuple[str, int, int]]] = {}
    pairs: list[tuple[str, Against]] = []
    for row in rows:
        peers = [peer for peer in row.peers if peer.system not in unseen]
        pairs += [(row.title, peer) for peer in peers]
        for name, ops in ((OURS, row.ops), *((peer.system, peer.ops) for peer in peers)):
            wanted.setdefault(name, []).append((row.bench, ops, row.actors))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {name: pool.submit(count, commands[name], of) for name, of in wanted.items()}
    counts = {name: iter(job.result()) for name, job in jobs.items()}
    titles = {title: next(counts[OURS]) for title in dict.fromkeys(title for title, _ in pairs)}
    return [
        _comparison(title, peer.system, titles[title], next(counts[peer.system]))
        for title, peer in pairs
    ]


def _comparison(title: str, peer: str, ours: float, theirs: float) -> Comparison:
    ratio = theirs / ours
    return Comparison(
        title, peer, "count", ours, theirs, ratio, ratio, ratio, 1, None, None, gated=False
    )


def count(command: Sequence[str], benches: Sequence[tuple[str, int, int]]) -> list[float]:
    """Return the instructions of one operation of each bench of one system.

    Args:
        command: How the system is started.
        benches: Bench, operations, actors. So many operations as take a tenth of a second; a part
            of them is enough here, but there are at least as many as actors.
    """
    requests: list[tuple[str, int, int]] = []
    for bench, ops, actors in benches:
        requests += [
            (bench, max(ops // 20, actors, 1), actors),
            (bench, max(ops // 4, 3 * actors, 3), actors),
        ]
    done = subprocess.run(
        [*VALGRIND, *command, "--fork"],
        cwd=HERE,
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        timeout=PATIENCE,
        check=False,
    )
    totals = {int(pid): int(total.replace(",", "")) for pid, total in TOTAL.findall(done.stderr)}
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(requests) or any(answer["pid"] not in totals for answer in answers):
        raise SystemFailed(f"{command[-1]} gave no counts:\n{done.stderr[-2000:]}")
    return [
        (totals[many["pid"]] - totals[few["pid"]]) / (many["ops"] - few["ops"])
        for few, many in zip(answers[::2], answers[1::2], strict=True)
    ]
