"""A store whose disk fails when a test says so.

What it does to those who wait is what `LmdbStore` does on a full or dying disk, for which there
are tests of their own (docs/faults.md).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Never, Self, TypeVar, final

from outcome import Error, Outcome

from ..errors import CorruptRecord, StoreFull, StoreLost
from ..store import MemoryStore, Submission, Tx, Unit
from ..store._base import BaseStore

T = TypeVar("T")


@final
class FaultyStore(BaseStore):
    """A store that fails on command, around another one: a `MemoryStore` unless given.

    ``async with`` opens and closes the one inside. What is inside keeps its rows, so that leaving
    and entering again is the reopen after a fault.

    Args:
        inside: The store that keeps the rows; not open yet.
    """

    def __init__(self, inside: MemoryStore | None = None) -> None:
        self.inside = MemoryStore() if inside is None else inside
        self.max_value = self.inside.max_value
        self._is_full = False
        self._units_left: int | None = None  # before the disk is lost; None: it is not going to be
        self._keeps_last = False
        self._lost: StoreLost | None = None

    # --- what a test says -----------------------------------------------------------------------

    def fill(self) -> None:
        """Let no unit find room from now on: `StoreFull`, and nothing of it is written."""
        self._is_full = True

    def make_room(self) -> None:
        """End `fill`."""
        self._is_full = False

    def lose(self, *, after: int = 0, written: bool = False) -> None:
        """Let the disk fail in the middle of a unit: `StoreLost`, until the store is opened again.

        Args:
            after: How many units it still takes before.
            written: Whether the unit that failed is there when it opens again. Nobody is told.
        """
        if type(after) is not int or after < 0:
            raise ValueError(f"after is a number of units, 0 or more, not {after!r}")
        self._units_left, self._keeps_last = after, written

    # --- Store ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """See `Store.name`."""
        return f"faulty {self.inside.name}"

    @property
    def is_open(self) -> bool:
        """See `Store.is_open`."""
        return self.inside.is_open

    async def __aenter__(self) -> Self:
        await self.inside.__aenter__()
        self.epoch, self._owners = self.inside.epoch, 0
        self._lost = self._units_left = None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.inside.__aexit__(kind, error, trace)

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Store.get`."""
        self._require_disk()
        return self.inside.get(table, key, kind)

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[T],
        *,
        after: bytes = b"",
        limit: int | None = None,
        damaged: Callable[[CorruptRecord], None] | None = None,
    ) -> list[tuple[bytes, T]]:
        """See `Store.scan`."""
        self._require_disk()
        return self.inside.scan(table, prefix, kind, after=after, limit=limit, damaged=damaged)

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """See `Store.submit`."""
        if self._lost is None and self._units_left is not None:
            if self._units_left == 0:
                return self._submit_lost(unit, done)
            self._units_left -= 1
        failure = self._lost or (self._full() if self._is_full else None)
        # What fails goes through the queue as well: verdicts keep their order.
        return self.inside.submit(unit if failure is None else _raising(failure), done)

    def _submit_lost(self, unit: Unit[Any], done: Callable[[Outcome[Any]], None]) -> Submission:
        lost = self._lost = StoreLost(
            f"store {self.name!r} was lost, as the test asked: whether this unit is in the journal "
            "is known after a reopen",
            store=self.name,
        )
        if not self._keeps_last:
            return self.inside.submit(_raising(lost), done)
        return self.inside.submit(unit, lambda _: done(Error(lost)))

    def _full(self) -> StoreFull:
        return StoreFull(
            f"store {self.name!r} is full, as the test asked; nothing of this unit was written",
            store=self.name,
        )

    def _require_disk(self) -> None:
        if self._lost is not None:
            raise StoreLost(str(self._lost), **self._lost.facts)


def _raising(error: StoreFull | StoreLost) -> Unit[Never]:
    def unit(tx: Tx) -> Never:
        raise type(error)(str(error), **error.facts)

    return unit
