"""The twin proof: whatever is done to both stores, nobody can tell which of them it was done to.

A history is drawn from a number: batches of units (good ones, bad ones, refused values), sealed
units handed over at once behind fences that stand or moved, reads, reopenings, crashes at each step
of a commit, power cuts. Both stores live through it, and all that can be seen from outside must be
equal: values, types of errors and what they say, the order of verdicts, every row, epochs and
owners.

The disk of `LmdbStore` is cut in two ways. A crash continues on a copy of the file as it was at
that instant. A power cut at level ``relaxed`` puts back the first two pages, where the last commit
says which pages count: that is what is written without a flush.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import pytest
import trio
import trio.testing
from outcome import Error, Outcome, Value

from trouper.errors import TrouperError
from trouper.store import LmdbStore, MemoryStore, Sealed, SealedUnit, Store, Tx, log_key
from trouper.store._engine import LmdbBatch
from trouper.store._memory import CrashPoint
from trouper.testing.conformance._journal_rows import Other, Row

KEYS = (b"a", b"a\0", b"a\xff", b"b", b"ba", b"c" * 511)
BAD_KEYS = (b"", b"c" * 512)
TABLES = ("meta", "record", "group", "settle")
BATCH = {"durable": 4, "relaxed": 1}
MAX_VALUE = 3000
META_PAGES = 8192

Level = Literal["durable", "relaxed"]
Act = Callable[[Tx], Any]


class Stop(Exception):
    """What a unit raises to be dropped."""


class Side(Protocol):
    """One of the two stores, and how the world ends for it."""

    @property
    def store(self) -> Store: ...
    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def crash(self, point: CrashPoint, unit: Act) -> list[Outcome[Any]]: ...
    async def power_cut(self) -> None: ...


class Memory:
    """The store in memory; it has all this built in."""

    def __init__(self, level: Level) -> None:
        self.store = MemoryStore(level=level, max_value=MAX_VALUE)

    async def open(self) -> None:
        self.store.probe = None
        await self.store.__aenter__()

    async def close(self) -> None:
        await self.store.__aexit__(None, None, None)

    async def crash(self, point: CrashPoint, unit: Act) -> list[Outcome[Any]]:
        told: list[Outcome[Any]] = []
        self.store.probe = lambda at: self.store.crash() if at == point else None
        self.store.submit(unit, told.append)
        while self.store.is_open:
            await trio.lowlevel.checkpoint()
        return told

    async def power_cut(self) -> None:
        self.store.power_cut()


class Disk:
    """The store on disk; a crash goes on with a copy, a power cut takes the last commit back."""

    def __init__(self, ground: Path, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ground = ground
        self._level: Level = level
        self._number = 0
        self._point: CrashPoint | None = None
        self._metas: tuple[bytes, bytes] = (b"", b"")  # before the last commit, and after it
        self._new()
        real = LmdbBatch.commit

        def commit(batch: LmdbBatch) -> None:
            # this copy is of before: pages that are being written do not count yet
            if self._point == "before_commit":
                self._copy()
            real(batch)
            if self._point == "committed":
                self._copy()
            if self._read_metas() != self._metas[1]:
                self._metas = (self._metas[1], self._read_metas())

        monkeypatch.setattr(LmdbBatch, "commit", commit)

    def _new(self) -> None:
        self._path = self._ground / str(self._number)
        self.store = LmdbStore(self._path, level=self._level, max_value=MAX_VALUE)

    def _read_metas(self) -> bytes:
        with (self._path / "data.mdb").open("rb") as file:
            return file.read(META_PAGES)

    def _copy(self) -> None:
        copy = self._ground / str(self._number + 1)
        copy.mkdir()
        for name in ("data.mdb", "store.json"):
            shutil.copy(self._path / name, copy / name)

    async def open(self) -> None:
        await self.store.__aenter__()
        self._metas = (self._read_metas(), self._read_metas())  # opening flushes

    async def close(self) -> None:
        await self.store.__aexit__(None, None, None)

    async def _move(self) -> None:
        self._point = None
        await self.close()
        shutil.rmtree(self._path)
        self._number += 1
        self._new()

    async def crash(self, point: CrashPoint, unit: Act) -> list[Outcome[Any]]:
        self._point = point
        told: list[Outcome[Any]] = []
        done = trio.Event()

        def tell(result: Outcome[Any]) -> None:
            told.append(result)
            done.set()

        self.store.submit(unit, tell)
        await done.wait()
        if point == "acknowledged":
            self._copy()
        await self._move()
        return told if point == "acknowledged" else []

    async def power_cut(self) -> None:
        self._copy()
        if self._level == "relaxed":
            with (self._ground / str(self._number + 1) / "data.mdb").open("r+b") as file:
                file.write(self._metas[0])
        await self._move()


def draw_act(dice: random.Random) -> Act:
    """Draw one step of a unit."""
    table, key, number = dice.choice(TABLES), dice.choice(KEYS), dice.randint(-5, 5)
    limit = dice.choice((None, 0, 1, 3))
    good: list[Act] = [
        lambda tx: tx.put(table, key, Row(table, number, [number, {"k": b"v" * (number + 5)}])),
        lambda tx: tx.put(table, key, Row("long", number, "x" * (number + 5) * 290)),
        lambda tx: tx.delete(table, key),
        lambda tx: tx.append(Row("log", number)),
        lambda tx: tx.append(Row("log", number)),
        lambda tx: tx.get(table, key, Row),
        lambda tx: tx.scan(table, key[:1], Row, after=key, limit=limit),
        lambda tx: tx.scan("log", b"", Row, limit=limit),
        lambda tx: tx.keys(table, key[:1], limit=limit),
        lambda tx: tx.delete("log", log_key(1 + number % 8)),
    ]
    bad: list[Act] = [
        lambda tx: tx.put(table, key, Row("huge", 0, "x" * MAX_VALUE)),
        lambda tx: tx.put(table, key, Row("x", 0, [(1, 2)])),
        lambda tx: tx.put(table, key, object()),
        lambda tx: tx.put(table, dice.choice(BAD_KEYS), Row("x")),
        lambda tx: tx.put("nowhere", key, Row("x")),
        lambda tx: tx.put("log", key, Row("x")),
        lambda tx: tx.get(table, key, Other),
        stop,
    ]
    return dice.choice(good) if dice.random() < 0.9 else dice.choice(bad)


def stop(_: Tx) -> None:
    raise Stop


def draw_unit(dice: random.Random) -> Act:
    """Draw a unit, which returns all that it saw."""
    acts = [draw_act(dice) for _ in range(dice.randint(1, 5))]
    return lambda tx: [act(tx) for act in acts]


def seen(result: Outcome[Any]) -> Any:
    """Return what can be compared of a verdict."""
    if isinstance(result, Value):
        return cast(Any, result.value)
    assert isinstance(result, Error)
    error = result.error
    facts = dict(error.facts) if isinstance(error, TrouperError) else {}
    facts.pop("store", None)
    return type(error), str(error), facts


def rows(store: Store) -> Iterator[Any]:
    """Give out all that a store holds."""
    for table in (*TABLES, "log"):
        for prefix in (b"", b"a", b"\xff"):
            yield table, prefix, store.scan(table, prefix, object)
    for table in TABLES:
        for key in KEYS:
            yield table, key, store.get(table, key, object)


async def batch(store: Store, units: list[Act]) -> list[tuple[int, Any]]:
    """Submit units in one go; return numbers and verdicts in the order in which they came."""
    told: list[tuple[int, Any]] = []
    done = trio.Event()

    def note(number: int) -> Callable[[Outcome[Any]], None]:
        def tell(result: Outcome[Any]) -> None:
            told.append((number, seen(result)))
            if len(told) == len(units):
                done.set()

        return tell

    for number, unit in enumerate(units):
        store.submit(unit, note(number))
    await done.wait()
    return told


class Replaces(SealedUnit):
    """Puts a row where it believes another one to be."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        super().__init__(dice.choice(TABLES))
        key, number = dice.choice(KEYS), dice.randint(-5, 5)
        found = store.get(self.table, key, object)
        self.believed = found if dice.random() < 0.8 else Row("moved", number)
        self.fence = None if self.believed is None else store.seal(key, self.believed)
        self.key = key
        self.rows = [store.seal(key, Row("sealed", number, "x" * dice.randint(0, 300)))]
        if dice.random() < 0.3:
            beside = store.seal(dice.choice(KEYS), Row("beside", number))
            self.rows.insert(dice.randint(0, 1), beside)
        if dice.random() < 0.2:
            self.forgotten = [dice.choice(KEYS)]

    def __call__(self, tx: Tx) -> None:
        found = tx.get(self.table, self.key, object)
        if found != self.believed:
            raise Stop(repr(found))
        for row in self.rows:
            tx.put(self.table, row[0], Sealed(*row))
        for key in self.forgotten or ():
            tx.delete(self.table, key)


async def bundle(store: Store, units: list[Replaces]) -> list[Any]:
    """Hand sealed units over at once; return what they came to, in order."""
    told: list[Any] = []
    done = trio.Event()

    def tell(_: Sequence[Replaces], errors: Sequence[BaseException | None]) -> None:
        told.extend(None if error is None else (type(error), str(error)) for error in errors)
        if len(told) == len(units):
            done.set()

    store.submit_all(units, tell)
    await done.wait()
    return told


async def live(side: Side, number: int, level: Level) -> list[Any]:
    """Live through the history of that number and return all that was seen."""
    dice = random.Random(f"{level} {number}")
    log: list[Any] = []
    await side.open()
    for _ in range(dice.randint(2, 6)):
        store = side.store
        kind = dice.choices(("batch", "bundle", "reopen", "crash", "power"), (6, 3, 1, 2, 1))[0]
        if kind == "batch":
            # The writer thread may take a batch in two, and a power cut tells.
            units = [draw_unit(dice) for _ in range(dice.randint(1, BATCH[level]))]
            log.append(await batch(store, units))
        elif kind == "bundle":
            sealed = [Replaces(store, dice) for _ in range(dice.randint(1, BATCH[level]))]
            log.append(await bundle(store, sealed))
        elif kind == "reopen":
            await side.close()
            log.append([type(error) for error in await refusals(store)])
            await side.open()
        elif kind == "crash":
            point = dice.choice(cast(Any, CrashPoint).__args__)
            told = await side.crash(point, draw_unit(dice))
            log.append((point, [seen(result) for result in told]))
            await side.open()
        else:
            await side.power_cut()
            await side.open()
        log.append((kind, side.store.epoch, side.store.next_owner(), side.store.is_open))
        log.append(list(rows(side.store)))
    await side.close()
    return log


async def refusals(store: Store) -> list[BaseException]:
    """Use a closed store and return what it raises."""
    found: list[BaseException] = []
    for call in (
        lambda: store.get("record", b"a", Row),
        lambda: store.scan("record", b"a", Row),
        lambda: store.submit(stop, lambda result: None),
    ):
        try:
            call()
        except TrouperError as error:
            found.append(error)
    assert len(found) == 3
    return found


@pytest.fixture
def ground() -> Iterator[Path]:
    """A directory in memory where there is one: 10,000 stores flush often, and none is kept."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


async def compare(level: Level, numbers: range, ground: Path) -> int:
    """Let both live through histories; return how much was seen."""
    total = 0
    for number in numbers:
        with pytest.MonkeyPatch.context() as patch:
            place = ground / f"{level}-{number}"
            place.mkdir()
            on_disk = await live(Disk(place, level, patch), number, level)
            shutil.rmtree(place)
        in_memory = await live(Memory(level), number, level)
        for step, (one, other) in enumerate(zip(on_disk, in_memory, strict=True)):
            assert one == other, f"history {level} {number}, step {step}"
        total += len(on_disk)
    return total


@pytest.mark.parametrize("level", ["durable", "relaxed"])
async def test_nobody_can_tell_the_stores_apart(level: Level, ground: Path) -> None:
    assert await compare(level, range(100), ground) > 500


@pytest.mark.soak
@pytest.mark.parametrize("level", ["durable", "relaxed"])
async def test_nobody_can_tell_them_apart_in_ten_thousand_histories(
    level: Level, ground: Path
) -> None:
    assert await compare(level, range(5000), ground) > 25_000
