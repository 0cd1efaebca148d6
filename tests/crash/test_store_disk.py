"""A disk that fails, fills up or lies: each call of a commit is made to go wrong, by strace."""

from __future__ import annotations

import functools
import random
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trouper.errors import StoreDamaged
from trouper.store import LmdbStore, verify

CALLS = "pwrite64,writev,pwritev,fdatasync,fsync"
QUICK = "--seccomp-bpf"  # keeps strace out of all other calls; it injects no signals then


class Call(NamedTuple):
    """One call on the data file; ``nth`` is its number among those of its name."""

    name: str
    nth: int
    part: str  # data, meta or flush
    result: int


CallsOf = Callable[[str], list[Call]]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory, strace: None, start: Any) -> CallsOf:
    """What the writer does to the data file at a level, in a run without a fault."""

    @functools.cache
    def of(level: str) -> list[Call]:
        ground = tmp_path_factory.mktemp(level)
        log, data = ground / "log", ground / "state" / "data.mdb"
        watch = (QUICK, "-P", str(data), "-e", f"trace={CALLS}", "-s", "0", "-o", str(log))
        assert start(data.parent, *watch, level=level).code == 0
        found: list[Call] = []
        counts: Counter[str] = Counter()
        for line in log.read_text().splitlines():
            match = re.match(r"\d+\s+(\w+)\((.*)\)\s+= (\d+)", line)
            if match is None:
                continue
            name, args, result = match.groups()
            counts[name] += 1
            part = "flush" if "sync" in name else "data"
            if name == "pwrite64" and int(args.rpartition(", ")[2]) < 8192:
                part = "meta"
            found.append(Call(name, counts[name], part, int(result)))
        return found

    return of


FAULTS = [
    ("data", "error=EIO", "lost"),
    ("data", "error=ENOSPC", "full"),
    ("data", "retval=100", "lost"),
    ("flush", "error=EIO", "lost"),
    ("flush", "error=ENOSPC", "full"),
    ("meta", "error=EIO", "lost"),
    ("meta", "error=ENOSPC", "lost"),
    ("meta", "retval=60", "lost"),
]


def inject(ground: Path, what: str, at: Call) -> list[str]:
    return [
        *(() if "signal" in what else (QUICK,)),
        *("-P", str(ground / "state" / "data.mdb"), "-o", str(ground / "log")),
        *("-e", f"trace={CALLS}", "-e", f"inject={at.name}:{what}:when={at.nth}"),
    ]


class Breaking(NamedTuple):
    """All that breaking takes."""

    ground: Path
    start: Any
    calls: CallsOf
    holds: Any

    async def fail(self, fault: tuple[str, str, str], level: str, when: str) -> None:
        """Let a call fail, and see that it ends as it should."""
        part, how, outcome = fault
        candidates = [call for call in self.calls(level) if call.part == part]
        hit = candidates[len(candidates) * 2 // 3]
        traced = inject(self.ground, how, hit)
        traced[-1] += when
        run = self.start(self.ground / "state", *traced, level=level)
        acknowledged = run.numbers("ack")
        assert outcome in run.words, (run, hit)
        assert len(run.words & {"lost", "full"}) == 1, run
        assert acknowledged[:2] == [1, 2], run
        if not when:
            assert run.code == 0, run.errors
            assert acknowledged == list(range(1, len(acknowledged) + 1)), "whole, and none twice"
        # where it is full, reads go on, and show what was acknowledged
        assert all(number in acknowledged for number in run.numbers("full")), run
        await self.holds(self.ground / "state", max(acknowledged), unknown=1)

    async def kill(self, at: Call) -> None:
        """Kill within a call, and see that every unit is there or not."""
        run = self.start(self.ground / "state", *inject(self.ground, "signal=SIGKILL", at))
        assert run.code == -signal.SIGKILL, run
        await self.holds(self.ground / "state", max(run.numbers("ack"), default=0), unknown=1)


@pytest.fixture
def breaking(tmp_path: Path, start: Any, calls: CallsOf, holds: Any) -> Breaking:
    return Breaking(tmp_path, start, calls, holds)


by_fault = pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: f"{fault[0]}-{fault[1].partition('=')[2]}"
)


@by_fault
async def test_a_failing_call_ends_as_full_or_as_lost_and_no_acknowledged_unit_is_gone(
    breaking: Breaking, fault: tuple[str, str, str]
) -> None:
    await breaking.fail(fault, "durable", "")


@pytest.mark.soak
@pytest.mark.parametrize("level", ["durable", "relaxed"])
@pytest.mark.parametrize("when", ["", "+"], ids=["once", "from-then-on"])
@by_fault
async def test_a_call_that_goes_on_failing_ends_so_too_at_both_levels(
    breaking: Breaking, fault: tuple[str, str, str], level: str, when: str
) -> None:
    await breaking.fail(fault, level, when)


@pytest.mark.parametrize("left", [0, 5000, 30_000, 70_000])
async def test_a_disk_that_is_really_full_keeps_every_unit_and_goes_on_when_there_is_room(
    tmp_path: Path, start: Any, holds: Any, left: int
) -> None:
    # A limit on the size of files fills up as a disk does: a part of a write, then none of it.
    run = start(tmp_path / "state", left=left, count=30)
    assert run.code == 0, run.errors
    assert "lost" not in run.words
    acknowledged, refused = run.numbers("ack"), run.numbers("full")
    assert refused
    assert acknowledged == list(range(1, len(acknowledged) + 1))
    assert set(refused) <= set(acknowledged), "full, and it shows more than was acknowledged"
    assert run.lines[-1] == ("ack", len(acknowledged)), "there was room again"
    assert len(acknowledged) + len(refused) == 32
    await holds(tmp_path / "state", len(acknowledged))


@pytest.mark.parametrize("part", ["data", "flush", "meta"])
async def test_killed_at_a_call_of_a_commit_it_holds_the_unit_whole_or_not_at_all(
    breaking: Breaking, part: str
) -> None:
    of_part = [call for call in breaking.calls("durable") if call.part == part]
    await breaking.kill(of_part[len(of_part) // 2])


@pytest.mark.soak
async def test_killed_at_any_call_it_holds_every_unit_whole_or_not_at_all(
    breaking: Breaking, tmp_path: Path
) -> None:
    for number, at in enumerate(breaking.calls("durable")[:35]):  # opening, and some commits
        ground = tmp_path / str(number)
        ground.mkdir()
        await breaking._replace(ground=ground).kill(at)


FILES = ("data.mdb", "owner.lock", "store.json", "store.json.new", "")
OPENING = "openat,pwrite64,writev,pwritev,write,ftruncate,fdatasync,fsync,rename,flock"


class Step(NamedTuple):
    """One call on one file, while a store is made, used once and closed."""

    file: str
    name: str
    nth: int


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory, strace: None, start: Any) -> list[Step]:
    """All calls on the files of a store, and on its own directory too."""
    ground = tmp_path_factory.mktemp("steps")
    path, log = ground / "state", ground / "log"
    watch = [part for file in FILES for part in ("-P", str(path / file))]
    trace = (QUICK, "-y", "-e", f"trace={OPENING}", "-s", "0", "-o", str(log))
    assert start(path, *watch, *trace, count=1).code == 0
    found: list[Step] = []
    counts: Counter[tuple[str, str]] = Counter()
    for line in log.read_text().splitlines():
        if match := re.match(r"\d+\s+(\w+)\(", line):
            for file in FILES:
                if f'{path / file}"' in line or f"{path / file}>" in line:
                    counts[file, match[1]] += 1
                    found.append(Step(file, match[1], counts[file, match[1]]))
    assert {step.file for step in found} == set(FILES)
    return found


async def fail_step(ground: Path, start: Any, holds: Any, step: Step, error: str) -> None:
    """Let one call fail: a typed refusal or none, and the store opens when the disk is well."""
    path = ground / "state"
    watched = ("-P", str(path / step.file), "-o", str(ground / "log"), "-e", f"trace={OPENING}")
    inject = f"inject={step.name}:error={error}:when={step.nth}"
    run = start(path, QUICK, *watched, "-e", inject, count=1)
    assert run.code == 0, (step, error, run.errors)
    assert run.words <= {"open", "ack", "full", "lost", "held", *REFUSALS}, (step, run)
    again = start(path, count=1)
    assert again.words == {"open", "ack"}, (step, again)
    await holds(path, max(again.numbers("ack")))


REFUSALS = {"PathRefused", "StoreFull", "StoreLost", "StoreDamaged"}


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
async def test_a_failing_call_of_opening_and_closing_is_a_typed_refusal_and_does_no_harm(
    tmp_path: Path, steps: list[Step], start: Any, holds: Any, error: str
) -> None:
    others = [step for step in steps if step.file != "data.mdb"]
    for number, step in enumerate(random.Random(error).sample(others, 2)):
        (tmp_path / str(number)).mkdir()
        await fail_step(tmp_path / str(number), start, holds, step, error)


@pytest.mark.soak
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
async def test_each_failing_call_of_opening_and_closing_is_a_typed_refusal(
    tmp_path: Path, steps: list[Step], start: Any, holds: Any, error: str
) -> None:
    for number, step in enumerate(steps):
        if number % 2 == (error == "EIO"):
            continue  # each takes a second: every other one fails so, the rest fails otherwise
        (tmp_path / str(number)).mkdir()
        await fail_step(tmp_path / str(number), start, holds, step, error)


async def test_a_disk_that_only_says_that_it_wrote_is_found_out_by_the_verifier(
    tmp_path: Path, start: Any, calls: CallsOf
) -> None:
    many = [call for call in calls("durable") if call.name in ("writev", "pwritev")]
    at = many[len(many) // 2]
    run = start(tmp_path / "state", *inject(tmp_path, f"retval={at.result}", at))
    # Nobody can tell in that process, which may die of it. Whoever verifies does not.
    assert run.words <= {"open", "ack", "lost", "held"}
    assert not verify(tmp_path / "state").ok
    with pytest.raises(StoreDamaged):
        async with LmdbStore(tmp_path / "state", verify="always"):
            pass
