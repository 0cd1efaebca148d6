"""What messages and actors cost, against other ways to have them in Python.

    python benchmarks/messaging.py            # some six minutes; exit status 1 if a must is missed
    python benchmarks/messaging.py --quick    # does everything work; its numbers mean nothing
    python benchmarks/messaging.py --from benchmarks/results/messaging.json    # show it again

Every round starts a fresh process per system and lets them take turns, bench by bench, so that a
busy machine slows all of them. Compared is CPU time, and wall-clock time with the systems that
work outside of one Python thread, pykka and Erlang, in rounds that nothing disturbed. Where
valgrind is installed it counts the instructions of an operation as well, which no busy machine
changes. `--publish` renders the page `docs/performance/messaging.md`.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import sys
from dataclasses import asdict, replace
from typing import Final

from _kit.command import command
from _kit.instructions import compare_instructions, is_there
from _kit.process import System, python
from _kit.report import Result, now, versions
from _kit.rounds import OURS, Samples, lighter, measure_round, present, results_of
from _kit.rows import Against, Comparison, Growth, Row, compare, undisturbed
from _kit.sample import STATM, available

PYKKA, CHANNEL, EVENT = "pykka", "memory channel + task", "channel, Event reply"
ASYNCIO, TASK, ERLANG = "asyncio.Queue + task", "task + deque", "Erlang, 1 scheduler"
THESPIAN = "thespian, simple base"

PEER_ERL = (
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
    THESPIAN: python("thespian_actors"),
    ERLANG: [
        "erl",
        "+S",
        "1:1",
        "-env",
        "ERL_CRASH_DUMP",
        "/dev/null",
        "-noshell",
        "-eval",
        PEER_ERL,
    ],
}
# These do their work in several threads, or in another runtime.
ON_THE_WALL: Final = {PYKKA, ERLANG}

# Targets: quality.md of the specification; "always-blocking" has one of the research behind it.
ROWS: Final = (
    Row("tell, async handler", "tell", 250_000, 1, (
        Against(PYKKA, 50_000, 4, 6, gated=True),
        Against(CHANNEL, 20_000, 8, 14, gated=True),
        Against(ASYNCIO, 150_000, 1.3, 2),
        Against(ERLANG, 500_000),
    )),
    Row("tell, plain handler", "tell-plain", 300_000, 1, (
        Against(PYKKA, 50_000),
        Against(CHANNEL, 20_000),
        Against(ASYNCIO, 150_000),
        Against(THESPIAN, 10_000),
    )),
    Row("ring hop, 503 actors", "ring", 130_000, 503, (
        Against(PYKKA, 4_000, 10, 15, gated=True),
        Against(CHANNEL, 12_000, 9, 14, gated=True),
        Against(ASYNCIO, 25_000),
        Against(THESPIAN, 15_000),
        Against(ERLANG, 200_000, 1 / 3, 1 / 2),
    )),
    Row("ask, plain handler", "ask-plain", 200_000, 1, (
        Against(PYKKA, 2_000, 12, 20),
        Against(CHANNEL, 5_000, 18, 30),
        Against(EVENT, 7_000),
        Against(ASYNCIO, 15_000),
        Against(THESPIAN, 8_000),
        Against(ERLANG, 70_000),
    )),
    Row("ask, async handler", "ask", 8_000, 1, (
        Against(CHANNEL, 5_000, 1.5, 1.8),
        Against(EVENT, 7_000),
        Against(ASYNCIO, 15_000),
        Against(PYKKA, 2_000),
    )),
    Row("spawn + message + stop", "spawn", 30_000, 100, (
        Against(PYKKA, 400, 20, 40, gated=True),
        Against(CHANNEL, 4_000, 5, 10, gated=True),
        Against(ASYNCIO, 10_000),
        Against(THESPIAN, 1_500),
        Against(ERLANG, 30_000),
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
        Against(THESPIAN, 15_000),
    )),
    Row("Big: ping and pong, 120 actors", "big", 24_000, 120, (
        Against(PYKKA, 2_400, 6, 10),
        Against(CHANNEL, 6_000),
    )),
    Row("Chameneos: meeting, 100 actors", "chameneos", 12_000, 100, (
        Against(CHANNEL, 4_000, 6, 10),
    )),
    Row("start-up and shutdown of 100,000 actors", "troupe", 100_000, 0, (
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

# actors: how many times they are weighed, and which peers are not: the large ones say nothing new,
# and a million tasks take gigabytes and a minute to end
SCALES: Final = {
    10_000: (3, ()),
    100_000: (1, (CHANNEL,)),
    1_000_000: (1, (CHANNEL, TASK)),
}
HEAVIEST: Final = 6_000  # bytes of an idle actor of the heaviest system, and some to spare

# (what, bench, [(operations, actors)], what the size is: 0 operations, 1 actors)
MODEL: Final = (
    ("tell, by messages", "tell", [(10_000, 1), (100_000, 1), (1_000_000, 1)], 0),
    ("tell, by actors", "tell", [(100_000, 1), (100_000, 100), (100_000, 10_000)], 1),
    ("tell, plain, by messages", "tell-plain", [(10_000, 1), (100_000, 1), (1_000_000, 1)], 0),
    ("ring hop, by actors", "ring", [(100_000, 50), (100_000, 500), (100_000, 5_000)], 1),
    ("ask, plain, by requests", "ask-plain", [(5_000, 1), (50_000, 1), (500_000, 1)], 0),
    ("ask, async, by requests", "ask", [(500, 1), (5_000, 1), (50_000, 1)], 0),
    ("spawn, by actors alive", "spawn", [(20_000, 100), (20_000, 1_000), (20_000, 10_000)], 1),
    ("drain, by actors alive", "drain", [(5_000, 50), (5_000, 500), (5_000, 5_000)], 1),
    ("bounded send, by messages", "send", [(5_000, 1), (50_000, 1), (500_000, 1)], 0),
    ("fan-in, by senders", "fan-in", [(100_000, 10), (100_000, 100), (100_000, 1_000)], 1),
    ("Big, by actors", "big", [(24_000, 12), (24_000, 120), (24_000, 1_200)], 1),
    ("Chameneos, by actors", "chameneos", [(12_000, 10), (12_000, 100), (12_000, 1_000)], 1),
    ("always-blocking, by actors", "blocking", [(25_000, 10), (25_000, 100), (25_000, 1_000)], 1),
    ("start and stop, by actors", "troupe", [(1_000, 0), (10_000, 0), (100_000, 0)], 0),
)

NOTES: Final = {
    "tell, by actors": "A pass takes up to 32 messages of an actor; among many actors it finds one "
    "each, so that every message pays for a whole pass, as a ring hop does",
    "always-blocking, by actors": "A burst is 1,000 messages. With 1,000 actors each of them needs "
    "a worker of its own at once, and only 256 are kept for the next burst",
    "start and stop, by actors": "The operations do not grow; what 100,000 actors take does not "
    "fit into the caches any more, and the garbage collector walks it",
}


def absent() -> dict[str, str]:
    """Return the peers that this machine does not have, and how to get them."""
    found: dict[str, str] = {}
    for name, package in ((PYKKA, "pykka"), (THESPIAN, "thespian")):
        if importlib.util.find_spec(package) is None:
            found[name] = "not installed (make bench installs it)"
    if shutil.which("erl") is None:
        found[ERLANG] = "no `erl` on the path (Debian: apt-get install erlang-base)"
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
                    system.measure(bench, ops, actors) for ops, actors in _lighter(sizes, divide)
                ]
                costs.setdefault(what, []).append([sample.per_op("cpu") for sample in row])
    return [
        Growth(
            what,
            "ns",
            tuple(size[which] for size in _lighter(sizes, divide)),
            tuple(statistics.median(column) for column in zip(*costs[what], strict=True)),
            NOTES.get(what, ""),
        )
        for what, _, sizes, which in MODEL
    ]


def _lighter(sizes: list[tuple[int, int]], divide: int) -> list[tuple[int, int]]:
    """Return the sizes of a run that only tries them out; where there are several actors, two."""
    return [
        (max(ops // divide, 50), max(actors // divide, min(actors, 2))) for ops, actors in sizes
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
    comparisons = judge(rows, samples)
    growths = grow(1 if quick else 3, divide)
    instructions: list[Comparison] = []
    if quick:
        missing["instructions per operation"] = "not in a quick run"
    elif not is_there():
        missing["instructions per operation"] = "no `valgrind` on the path"
    else:
        counted = [row for row in rows if any(peer.must for peer in row.peers)]
        instructions = compare_instructions(counted, COMMANDS, frozenset(ON_THE_WALL))
    if STATM.exists():
        weighed, growth = measure_memory(samples, quick, missing)
        comparisons += weighed
        growths += growth
    else:
        missing["idle memory"] = f"no {STATM}: measured on Linux only"
    gated = {p.system for row in ROWS for p in row.peers if p.gated}
    return Result(
        benchmark="messaging",
        quick=quick,
        versions=versions(["trouper", "trio", "pykka", "thespian"]),
        when=now(),
        comparisons=comparisons,
        growths=growths,
        instructions=instructions,
        left_out=[
            f"{name}{' (gated)' if name in gated else ''}: {why}" for name, why in missing.items()
        ],
        samples={
            f"{title} / {name}": [asdict(s) for s in found]
            for (title, name), found in samples.items()
        },
    )


def judge(rows: list[Row], samples: Samples) -> list[Comparison]:
    """Compare what was sampled: CPU time, and wall-clock time where there are several threads."""
    comparisons: list[Comparison] = []
    for row in rows:
        ours = samples[row.title, OURS]
        for peer in row.peers:
            theirs = samples[row.title, peer.system]
            if peer.system in ON_THE_WALL:
                comparisons.append(compare(row.title, peer, *undisturbed(ours, theirs)))
            else:
                comparisons.append(compare(row.title, peer, "cpu", ours, theirs))
    return comparisons


def measure_memory(
    samples: Samples, quick: bool, missing: dict[str, str]
) -> tuple[list[Comparison], list[Growth]]:
    """Weigh idle actors at each scale that fits, each time in a process of its own."""
    comparisons: list[Comparison] = []
    weighed: list[int] = []
    scales: dict[int, tuple[int, tuple[str, ...]]] = {1_000: (1, ())} if quick else SCALES
    for actors, (rounds, unweighed) in scales.items():
        free, need = available(), actors * HEAVIEST
        if free < need:
            missing[f"idle memory, {actors:,} actors"] = (
                f"{need >> 20:,} MiB of memory wanted, {free >> 20:,} MiB available"
            )
            continue
        rows = present(MEMORY[:1] if quick or unweighed else MEMORY, unweighed)
        for _ in range(rounds):
            weigh(rows, actors, samples)
        sized = [replace(row, title=f"{row.title}, {actors:,}") for row in rows]
        comparisons += results_of(sized, samples, {}, "bytes")
        weighed.append(actors)
    if len(weighed) < 2:
        return comparisons, []
    costs = [
        statistics.median(s.per_op("bytes") for s in samples[f"{MEMORY[0].title}, {size:,}", OURS])
        for size in weighed
    ]
    return comparisons, [Growth("idle memory, by actors", "B", tuple(weighed), tuple(costs))]


if __name__ == "__main__":
    sys.exit(command("messaging", __doc__.partition("\n")[0], run))
