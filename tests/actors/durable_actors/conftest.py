"""A till: a durable actor for tests. Its records are numbers, its state their sum and count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Never, Self, TypeVar

import pytest
from outcome import Error, Outcome

from trouper import (
    Decision,
    DurableActor,
    MemoryStore,
    Reject,
    Request,
    Tell,
    applies,
    decides,
)
from trouper._ids import Incarnation
from trouper.store import Submission, Unit, record
from trouper.store._base import BaseStore

T = TypeVar("T")


@record("test.till", version=1)
@dataclass(frozen=True, slots=True)
class Till:
    total: int
    count: int


@record("test.put", version=1)
@dataclass(frozen=True, slots=True)
class Put:
    n: int
    note: Any = None


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    """Answered with the total after it."""

    n: int
    note: Any = None
    idempotency_id: str | None = None


@dataclass(frozen=True, slots=True)
class Many(Request[int]):
    """So many records of 1 in one decision."""

    n: int


@dataclass(frozen=True, slots=True)
class Read(Request[int]): ...


@dataclass(frozen=True, slots=True)
class Deny(Request[int]):
    idempotency_id: str | None = None


@dataclass(frozen=True, slots=True)
class Fail(Request[int]):
    """A bug in a rule."""


@dataclass(frozen=True, slots=True)
class Forward(Request[int]):
    """Put one, and tell others."""

    tells: list[Tell[Any]] = field(default_factory=list[Tell[Any]])


class Counting(DurableActor[Till], name="till", snapshot_every=None, passivate_after=None):
    initial = Till(0, 0)

    @decides(Add)
    def add(self, state: Till, message: Add) -> Decision[Put, int]:
        return Decision([Put(message.n, message.note)], reply=state.total + message.n)

    @decides(Many)
    def many(self, state: Till, message: Many) -> Decision[Put, int]:
        return Decision([Put(1)] * message.n, reply=state.total + message.n)

    @decides(Read)
    def read(self, state: Till, message: Read) -> Decision[Never, int]:
        return Decision(reply=state.total)

    @decides(Deny)
    def deny(self, state: Till, message: Deny) -> Decision[Never, int] | Reject:
        return Reject(f"not with {state.total}", total=state.total)

    @decides(Fail)
    def fail(self, state: Till, message: Fail) -> Decision[Never, int]:
        raise ValueError("a bug")

    @decides(Forward)
    def forward(self, state: Till, message: Forward) -> Decision[Put, int]:
        return Decision([Put(1)], reply=state.total + 1, tells=message.tells)

    @applies(Put)
    def put(self, state: Till, record: Put) -> Till:
        return Till(state.total + record.n, state.count + 1)


class Disk(BaseStore):
    """A `MemoryStore` whose flushes can be held back, and can fail."""

    def __init__(self) -> None:
        self.rows = MemoryStore()
        self.holds = False
        self.held: list[tuple[Any, Any]] = []
        self.failure: Exception | None = None  # of the next unit
        self.lands = False  # whether the unit that fails is written all the same
        self.submitted = 0

    async def __aenter__(self) -> Self:
        await self.rows.__aenter__()
        self.epoch = self.rows.epoch
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.rows.__aexit__(*error)

    @property
    def name(self) -> str:
        return "disk"

    @property
    def is_open(self) -> bool:
        return self.rows.is_open

    def next_owner(self) -> Incarnation:
        return self.rows.next_owner()

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        return self.rows.get(table, key, kind)

    def scan(self, table: str, prefix: bytes, kind: type[T], **how: Any) -> list[tuple[bytes, T]]:
        return self.rows.scan(table, prefix, kind, **how)

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        self.submitted += 1
        if self.holds:
            self.held.append((unit, done))
            return Submission(unit, done)
        failure, self.failure = self.failure, None
        if failure is None:
            return self.rows.submit(unit, done)

        def fail(_: object) -> None:
            done(Error(failure))

        return self.rows.submit(unit if self.lands else (lambda tx: None), fail)

    def release(self) -> None:
        """Let what was held back be written, and no longer hold anything."""
        self.holds = False
        held, self.held = self.held, []
        for unit, done in held:
            self.submitted -= 1
            self.submit(unit, done)


@pytest.fixture
def disk() -> Disk:
    """A store for one test."""
    return Disk()


@pytest.fixture(scope="session")
def till() -> SimpleNamespace:
    """The names above."""
    return SimpleNamespace(
        Add=Add,
        Counting=Counting,
        Deny=Deny,
        Fail=Fail,
        Forward=Forward,
        Many=Many,
        Put=Put,
        Read=Read,
        Till=Till,
    )
