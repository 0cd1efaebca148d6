"""Power loss: what a run wrote and flushed is recorded, and every disk that it allows is tried.

Between two flushes a disk may write any sector, or none, in any order, and of a sector that was
written twice either content. A recorded run is cut at a random call, and such a disk is made up:
all that was flushed before the cut, and of the rest a random part, torn at 512 bytes.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trouper.store import LmdbStore, Tx
from trouper.testing.conformance._journal_rows import Row

SECTOR = 512
CALLS = "openat,close,lseek,write,writev,pwrite64,pwritev,fdatasync,fsync,rename,ftruncate"
FILES = ("data.mdb", "store.json", "store.json.new")


class Event(NamedTuple):
    """One step of the recorded run, in the order in which the calls returned."""

    verb: str  # write, flush (all of a file), stable (that range), name (of a file), names, ack
    file: str = ""
    at: int = 0
    data: bytes = b""
    number: int = 0


class Disk:
    """What a disk holds for sure, and what it may hold beside."""

    def __init__(self) -> None:
        self.sectors: dict[str, dict[int, bytes]] = {}
        self.pending: dict[str, dict[int, list[bytes]]] = {}
        self.names: dict[str, str] = {}  # of the directory, by inode's first name
        self.pending_names: list[tuple[str, str]] = []

    def take(self, event: Event) -> None:
        """Do what the run did."""
        match event.verb:
            case "write":
                self.write(event.file, event.at, event.data)
            case "stable":
                self.flush(event.file, event.at, len(event.data))
            case "flush":
                self.flush(event.file)
            case "name":
                self.pending_names.append((event.file, event.data.decode()))
            case "names":
                self.flush_names()
            case _:
                assert event.verb == "ack"

    def write(self, file: str, at: int, data: bytes) -> None:
        """Write to the cache."""
        pending = self.pending.setdefault(file, {})
        for number in range(at // SECTOR, -(-(at + len(data)) // SECTOR)):
            old = pending.get(number, [self.sectors.get(file, {}).get(number, b"")])
            begin, end = max(at, number * SECTOR), min(at + len(data), (number + 1) * SECTOR)
            new = bytearray(old[-1].ljust(end - number * SECTOR, b"\0"))
            new[begin - number * SECTOR : end - number * SECTOR] = data[begin - at : end - at]
            pending[number] = [*old, bytes(new)]

    def flush(self, file: str, at: int = 0, size: int = 1 << 62) -> None:
        """Make the cache of a file, or of a range of it, stable."""
        pending = self.pending.get(file, {})
        for number in [n for n in pending if at // SECTOR <= n < -(-(at + size) // SECTOR)]:
            self.sectors.setdefault(file, {})[number] = pending.pop(number)[-1]

    def flush_names(self) -> None:
        """Make the directory stable."""
        for old, new in self.pending_names:
            self.names[old] = new
        self.pending_names = []

    def image(self, dice: random.Random) -> dict[str, bytes]:
        """Return one content of the directory that a power cut may leave now."""
        names = dict(self.names)
        for old, new in self.pending_names[: dice.randint(0, len(self.pending_names))]:
            names[old] = new
        eager = dice.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        found: dict[str, bytes] = {}
        for file, name in names.items():
            sectors = dict(self.sectors.get(file, {}))
            for number, versions in self.pending.get(file, {}).items():
                kept = versions[-1] if dice.random() < eager else dice.choice(versions)
                if kept:
                    sectors[number] = kept
            size = max(((n + 1) * SECTOR for n in sectors), default=0)
            if sectors:
                size -= SECTOR - len(sectors[size // SECTOR - 1])
            content = bytearray(size)
            for number, sector in sectors.items():
                content[number * SECTOR : number * SECTOR + len(sector)] = sector
            found[name] = bytes(content)
        return found


def whole_lines(log: Path) -> Iterator[str]:
    """Give out the calls of a log, each where it returned."""
    begun: dict[str, str] = {}
    for line in log.read_text().splitlines():
        thread, _, rest = line.partition(" ")
        rest = rest.lstrip()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix("<unfinished ...>")
        elif rest.startswith("<... "):
            yield begun.pop(thread) + rest.partition(" resumed>")[2]
        else:
            yield rest


class Recorder:
    """Makes events of the calls in a log of strace."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._files: dict[int, tuple[str, bool]] = {1: ("stdout", False)}  # file, stable at once
        self._at: dict[int, int] = {}
        self._names: dict[str, str] = {}  # what a file is called now, to its first name
        self._open_names: set[str] = set()
        self.events: list[Event] = []

    def read(self, log: Path) -> list[Event]:
        """Return the events of a whole log."""
        for line in whole_lines(log):
            match = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", line)
            if match is not None and int(match[3]) >= 0:
                strings = [
                    bytes.fromhex(text.replace("\\x", ""))
                    for text in re.findall(r'"([^"]*)"', match[2])
                ]
                getattr(self, "_" + match[1])(match[2], strings, int(match[3]))
        return self.events

    def _openat(self, args: str, strings: list[bytes], result: int) -> None:
        path = strings[0].decode()
        self._files.pop(result, None)
        if path == self._directory:
            self._files[result] = ("", False)
        elif path.rpartition("/")[0] == self._directory and path.rpartition("/")[2] in FILES:
            name = path.rpartition("/")[2]
            if "O_CREAT" in args and name not in self._names:
                self._names[name] = name
                self.events.append(Event("name", name, data=name.encode()))
            self._files[result] = (self._names.get(name, name), "O_DSYNC" in args)
            self._at[result] = 0

    def _close(self, args: str, strings: list[bytes], result: int) -> None:
        self._files.pop(int(args), None)

    def _lseek(self, args: str, strings: list[bytes], result: int) -> None:
        self._at[int(args.partition(",")[0])] = result

    def _write(self, args: str, strings: list[bytes], result: int) -> None:
        fd = int(args.partition(",")[0])
        self._note(fd, self._at.get(fd, 0), b"".join(strings)[:result])
        self._at[fd] = self._at.get(fd, 0) + result

    _writev = _write

    def _pwrite64(self, args: str, strings: list[bytes], result: int) -> None:
        at = int(args.rpartition(", ")[2])
        self._note(int(args.partition(",")[0]), at, b"".join(strings)[:result])

    _pwritev = _pwrite64

    def _note(self, fd: int, at: int, data: bytes) -> None:
        file, stable = self._files.get(fd, (None, False))
        if file == "stdout" and data.startswith(b"ack"):
            self.events.append(Event("ack", number=int(data.split()[1])))
        elif file and file != "stdout":
            self.events.append(Event("write", file, at, data))
            if stable:
                self.events.append(Event("stable", file, at, data))

    def _fdatasync(self, args: str, strings: list[bytes], result: int) -> None:
        file, _ = self._files.get(int(args), (None, False))
        if file is not None:
            self.events.append(Event("flush" if file else "names", file))

    _fsync = _fdatasync

    def _rename(self, args: str, strings: list[bytes], result: int) -> None:
        old, new = (text.decode().rpartition("/") for text in strings)
        if old[0] == self._directory:
            first = self._names.pop(old[2])
            self._names[new[2]] = first
            self.events.append(Event("name", first, data=new[2].encode()))

    def _ftruncate(self, args: str, strings: list[bytes], result: int) -> None:
        assert int(args.partition(",")[0]) not in self._files, "the model has no truncation"


def images(events: list[Event], seed: str, count: int) -> Iterator[tuple[dict[str, bytes], int]]:
    """Give out directories that power cuts may leave, and what was acknowledged before each."""
    dice = random.Random(seed)
    early = next(n for n, event in enumerate(events) if event.verb == "ack")  # it is made by then
    ends = [early if n % 3 == 0 else len(events) for n in range(count)]
    cuts = sorted(dice.randint(0, end) for end in ends)
    disk, acknowledged, done = Disk(), 0, 0
    for cut in cuts:
        for event in events[done:cut]:
            disk.take(event)
            acknowledged = max(acknowledged, event.number)
        done = cut
        yield disk.image(dice), acknowledged


Recorded = Callable[[str], list[Event]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, strace: None, start: Any) -> Recorded:
    """The events of a run at a level."""

    @functools.cache
    def at(level: str) -> list[Event]:
        ground = tmp_path_factory.mktemp(level)
        log = ground / "log"
        watch = ("--seccomp-bpf", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(log))
        run = start(ground / "state", *watch, level=level, count=40)
        assert run.numbers("ack") == list(range(1, 41))
        events = Recorder(ground / "state").read(log)
        assert [event.number for event in events if event.verb == "ack"] == run.numbers("ack")
        disk = Disk()
        for event in events:
            disk.take(event)
        for file in FILES:
            disk.flush(file)
        real = (ground / "state" / "data.mdb").read_bytes()
        assert disk.image(random.Random(0))["data.mdb"] == real, "the model is not this disk"
        return events

    return at


def after(tx: Tx) -> None:
    tx.put("meta", b"after", Row("the power came back"))


async def lose_power(
    events: list[Event], ground: Path, holds: Any, level: str, count: int
) -> dict[str, int]:
    """Make disks, open a store on each, and count what they had beside what they must have."""
    seen = {"none": 0, "whole": 0, "one more": 0, "one less": 0}
    for number, (image, acknowledged) in enumerate(images(events, level, count)):
        path = ground / str(number)
        path.mkdir()
        for name, content in image.items():
            (path / name).write_bytes(content)
        sure = acknowledged - (level == "relaxed")
        held = await holds(path, max(0, sure), unknown=acknowledged - sure + 1)
        async with LmdbStore(path) as store:
            await store.commit(after)
        await holds(path, held)
        kind = {0: "whole", 1: "one more", -1: "one less"}[held - acknowledged]
        seen[kind if held else "none"] += 1
    return seen


@pytest.mark.parametrize("level", ["durable", "relaxed"])
async def test_a_power_cut_corrupts_nothing_and_takes_no_acknowledged_unit(
    recorded: Recorded, tmp_path: Path, holds: Any, level: str
) -> None:
    seen = await lose_power(recorded(level), tmp_path, holds, level, 25)
    assert seen["whole"] > 5
    assert sum(seen.values()) == 25


@pytest.mark.soak
@pytest.mark.parametrize("level", ["durable", "relaxed"])
async def test_hundreds_of_power_cuts_corrupt_nothing(
    recorded: Recorded, tmp_path: Path, holds: Any, level: str
) -> None:
    seen = await lose_power(recorded(level), tmp_path, holds, level, 400)
    assert (seen["one less"] > 0) is (level == "relaxed"), "relaxed may lose the last commit"


async def test_without_flushes_the_model_does_corrupt(
    recorded: Recorded, tmp_path: Path, holds: Any
) -> None:
    lazy = [event for event in recorded("durable") if event.verb not in ("flush", "stable")]
    bad = 0
    for number, (image, _) in enumerate(images(lazy, "lazy", 12)):
        path = tmp_path / str(number)
        path.mkdir()
        for name, content in image.items():
            (path / name).write_bytes(content)
        try:
            await holds(path, 0, unknown=100)
        except Exception:
            bad += 1
    assert bad > 3
