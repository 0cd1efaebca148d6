"""What messages and actors cost, against other ways to have them in Python.

    python benchmarks/messaging.py            # about two minutes; exit status 1 if a gate is missed
    python benchmarks/messaging.py --quick    # does everything work; its numbers mean nothing
    python benchmarks/messaging.py --from benchmarks/results/messaging.json    # show it again

Every round starts a fresh process per system and lets them take turns, bench by bench, so that a
busy machine slows all of them. Compared is CPU time, and wall-clock time with the systems that
work outside of one Python thread: pykka and Erlang. Gated are tell, ring and spawn against pykka
and against memory channels.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import sys
from dataclasses import asdict, replace
from typing import Final

from _kit.command import command
from _kit.process import System, python
from _kit.report import Result, now, versions
from _kit.rounds import OURS, Samples, lighter, measure_round, present, results_of
from _kit.rows import Against, Comparison, Growth, Row
from _kit.sample import STATM

PYKKA, CHANNEL, EVENT = "pykka", "memory channel + task", "channel, Event reply"
ASYNCIO, TASK, ERLANG = "asyncio.Queue + task", "task + deque", "Erlang, 1 scheduler"

RING_ERL = (
    '{ok, M, B} = compile:file("_peers/erlang.erl", [binary]), '
    'code:load_binary(M, "erlang.erl", B), M:main().'
)
COMMANDS: Final = {
    OURS: python("trouper_actors"),
    PYKKA: python("pykka_actors"),
    CHANNEL: python("channel"),
    EVENT: python("channel_event"),
    ASYNCIO: python("asyncio_queue"),
    TASK: python("task"),
    ERLANG: ["erl", "+S", "1", "-noshell", "-eval", RING_ERL],
}
# These do their work in several threads, or in another runtime.
ON_THE_WALL: Final = {PYKKA, ERLANG}

# Targets: quality.md of the specification; "always-blocking" has one of the research behind it.
ROWS: Final = (
    Row("tell, async handler", "tell", 250_000, 1, (
        Against(PYKKA, 50_000, 4, 6, gated=True),
        Against(CHANNEL, 20_000, 8, 14, gated=True),
        Against(ASYNCIO, 150_000, 1.3, 2),
    )),
    Row("tell, plain handler", "tell-plain", 300_000, 1, (
        Against(PYKKA, 50_000),
        Against(CHANNEL, 20_000),
        Against(ASYNCIO, 150_000),
    )),
    Row("ring hop, 503 actors", "ring", 130_000, 503, (
        Against(PYKKA, 4_000, 10, 15, gated=True),
        Against(CHANNEL, 12_000, 9, 14, gated=True),
        Against(ASYNCIO, 25_000),
        Against(ERLANG, 200_000, 1 / 3, 1 / 2),
    )),
    Row("ask, plain handler", "ask-plain", 200_000, 1, (
        Against(PYKKA, 2_000, 12, 20),
        Against(CHANNEL, 5_000, 18, 30),
        Against(EVENT, 7_000),
        Against(ASYNCIO, 15_000),
    )),
    Row("ask, async handler", "ask", 7_000, 1, (
        Against(CHANNEL, 5_000, 1.5, 1.8),
        Against(EVENT, 7_000),
        Against(ASYNCIO, 15_000),
        Against(PYKKA, 2_000),
    )),
    Row("spawn + message + stop", "spawn", 30_000, 100, (
        Against(PYKKA, 400, 20, 40, gated=True),
        Against(CHANNEL, 4_000, 5, 10, gated=True),
        Against(ASYNCIO, 10_000),
    )),
    Row("spawn + message + drain", "drain", 4_000, 100, (
        Against(CHANNEL, 4_000),
        Against(ASYNCIO, 10_000),
    )),
    Row("bounded send, capacity 64", "send", 130_000, 1, (
        Against(CHANNEL, 12_000, 7, 12),
        Against(ASYNCIO, 80_000),
    )),
    Row("fan-in, 100 senders", "fan-in", 100_000, 100, (
        Against(PYKKA, 30_000, 4, 6),
        Against(CHANNEL, 20_000),
    )),
    Row("Big: ping and pong, 120 actors", "big", 24_000, 120, (
        Against(PYKKA, 2_400, 6, 10),
        Against(CHANNEL, 6_000),
    )),
    Row("Chameneos: meeting, 100 actors", "chameneos", 12_000, 100, (
        Against(CHANNEL, 4_000, 6, 10),
    )),
    Row("start and stop of a troupe", "troupe", 100_000, 0, (
        Against(CHANNEL, 10_000),
    )),
    Row("always-blocking handlers, 100", "blocking", 25_000, 100, (
        Against(TASK, 40_000, 1 / 1.5, 1 / 1.2),
        Against(CHANNEL, 20_000),
    )),
)  # fmt: skip

# Here `ops` is the messages that each actor was told before it was weighed.
MEMORY: Final = (
    Row("idle actor, never told", "idle", 0, 0, (Against(TASK, 0, 3, 7), Against(CHANNEL, 0))),
    Row("idle actor, after a message", "idle", 1, 0, (Against(TASK, 1), Against(CHANNEL, 1))),
)

# (what, bench, [(operations, actors)], what the size is: 0 operations, 1 actors)
MODEL: Final = (
    ("tell, by messages", "tell", [(10_000, 1), (100_000, 1), (1_000_000, 1)], 0),
    ("tell, by actors", "tell", [(100_000, 1), (100_000, 100), (100_000, 10_000)], 1),
    ("ring hop, by actors", "ring", [(100_000, 50), (100_000, 500), (100_000, 5_000)], 1),
    ("ask, async, by requests", "ask", [(500, 1), (5_000, 1), (50_000, 1)], 0),
    ("spawn, by actors alive", "spawn", [(20_000, 100), (20_000, 1_000), (20_000, 10_000)], 1),
    ("start and stop, by actors", "troupe", [(1_000, 0), (10_000, 0), (100_000, 0)], 0),
)

NOTES: Final = {
    "tell, by actors": "A pass takes up to 32 messages of an actor; among many actors it finds one "
    "each, so that every message pays for a whole pass, as a ring hop does",
}


def absent() -> dict[str, str]:
    """Return the peers that this machine does not have, and how to get them."""
    found: dict[str, str] = {}
    if importlib.util.find_spec("pykka") is None:
        found[PYKKA] = "not installed (make bench installs it)"
    if shutil.which("erl") is None:
        found[ERLANG] = "no `erl` on the path"
    return found


def weigh(rows: list[Row], actors: int, samples: Samples) -> None:
    """Measure memory, each time in a process of its own: none that was used has clean pages."""
    for row in rows:
        for name, told in [(OURS, row.ops), *((p.system, p.ops) for p in row.peers)]:
            with System(name, COMMANDS[name]) as system:
                sample = system.measure(row.bench, told, actors)
            samples.setdefault((f"{row.title}, {actors:,}", name), []).append(sample)


def grow(rounds: int, divide: int) -> list[Growth]:
    """Measure the cost model."""
    costs: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        with System(OURS, COMMANDS[OURS]) as system:
            for what, bench, sizes, _ in MODEL:
                row = [
                    system.measure(bench, max(ops // divide, 50), max(actors // divide, 1))
                    for ops, actors in sizes
                ]
                costs.setdefault(what, []).append([sample.per_op("cpu") for sample in row])
    return [
        Growth(
            what,
            "ns",
            tuple(max(size[which] // divide, 1) for size in sizes),
            tuple(statistics.median(column) for column in zip(*costs[what], strict=True)),
            NOTES.get(what, ""),
        )
        for what, _, sizes, which in MODEL
    ]


def run(quick: bool) -> Result:
    """Measure everything.

    Raises:
        SystemFailed: One of the systems broke down.
    """
    missing = absent()
    divide = 50 if quick else 1
    rows = lighter(present(ROWS, missing), divide, 50)
    samples: Samples = {}
    for _ in range(1 if quick else 9):
        measure_round(rows, COMMANDS, samples)
    comparisons = results_of(rows, samples, dict.fromkeys(ON_THE_WALL, "wall"), "cpu")
    growths = grow(1 if quick else 3, divide)

    if STATM.exists():
        scales = {1_000: 1} if quick else {1_000: 1, 10_000: 3, 100_000: 1}
        comparisons += measure_memory(scales, samples, quick)
        if not quick:
            growths.append(_memory_growth(samples, tuple(scales)))
    else:
        missing["idle memory"] = f"no {STATM}: measured on Linux only"
    gated = {p.system for row in ROWS for p in row.peers if p.gated}
    return Result(
        benchmark="messaging",
        quick=quick,
        versions=versions(["trouper", "trio", "pykka"]),
        when=now(),
        comparisons=comparisons,
        growths=growths,
        left_out=[
            f"{name}{' (gated)' if name in gated else ''}: {why}" for name, why in missing.items()
        ],
        samples={
            f"{title} / {name}": [asdict(s) for s in found]
            for (title, name), found in samples.items()
        },
    )


def measure_memory(scales: dict[int, int], samples: Samples, quick: bool) -> list[Comparison]:
    """Weigh idle actors, so many times at each scale, and compare at all but the smallest."""
    comparisons: list[Comparison] = []
    for actors, rounds in scales.items():
        # 100,000 tasks with channels take half a gigabyte and ten seconds, and say nothing new
        lean = quick or actors == 100_000
        rows = present(MEMORY[:1] if lean else MEMORY, [CHANNEL] if actors == 100_000 else [])
        for _ in range(rounds):
            weigh(rows, actors, samples)
        if quick or actors > 1_000:
            sized = [replace(row, title=f"{row.title}, {actors:,}") for row in rows]
            comparisons += results_of(sized, samples, {}, "bytes")
    return comparisons


def _memory_growth(samples: Samples, sizes: tuple[int, ...]) -> Growth:
    title = MEMORY[0].title
    costs = [
        statistics.median(s.per_op("bytes") for s in samples[f"{title}, {size:,}", OURS])
        for size in sizes
    ]
    return Growth("idle memory, by actors", "B", sizes, tuple(costs))


if __name__ == "__main__":
    sys.exit(command("messaging", __doc__.partition("\n")[0], run))
