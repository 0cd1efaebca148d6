"""What both stores do alike: hand out owner identities, and wait for the verdict on a unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import trio
from outcome import Error, Outcome

from .._ids import Incarnation
from ..errors import StoreClosed
from ._codec import MAX_BYTES
from ._frame import pack
from ._history import Recorded, stream
from ._protocol import Submission, Told, U, Unit
from ._records import encode_record
from ._sealed import SealedRow

T = TypeVar("T")

MAX_BATCH_UNITS = 4096
MAX_BATCH_BYTES = 4 * 1024 * 1024


class BaseStore(ABC):
    """The part of a store that does not depend on where it keeps its rows."""

    epoch: int = 0
    max_value: int = MAX_BYTES
    _loop: trio.lowlevel.TrioToken | None = None  # where it was opened last
    _owners: int = 0  # written by next_owner and by opening, on the loop

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it in error texts."""

    @abstractmethod
    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """See `Store.submit`."""

    def submit_all(self, units: Sequence[U], done: Told[U]) -> None:
        """See `Store.submit_all`."""
        for unit in units:
            self.submit(unit, partial(_tell, unit, done))

    async def commit(self, unit: Unit[T]) -> T:
        """See `Store.commit`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._loop not in (None, trio.lowlevel.current_trio_token()):
            raise RuntimeError(  # its verdict would come to that loop, and wake nobody in this one
                f"store {self.name!r} is open in another trio.run; commit there, from a thread by "
                "trio.from_thread.run(store.commit, unit)"
            )
        task = trio.lowlevel.current_task()

        def wake(result: Outcome[Any]) -> None:
            trio.lowlevel.reschedule(task, result)

        submission = self.submit(unit, wake)

        def abort(_: object) -> trio.lowlevel.Abort:
            # A unit that the writer has will be written whatever its caller does: wait it out.
            return trio.lowlevel.Abort.SUCCEEDED if submission.withdraw() else _STAY

        return cast(T, await trio.lowlevel.wait_task_rescheduled(abort))

    @abstractmethod
    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Store.get`."""

    def seal(self, key: bytes, value: object) -> SealedRow:
        """See `Store.seal`."""
        return key, pack(key, encode_record(value, max_bytes=self.max_value))

    def records(self, key: str, *, after: int = 0) -> AsyncIterator[Recorded]:
        """See `Store.records`."""
        if after < 0:
            raise ValueError(f"after is the number of a record, or 0 for all, not {after}")
        return stream(self, key, after)

    def next_owner(self) -> Incarnation:
        """See `Store.next_owner`."""
        self._owners += 1
        return Incarnation(self.epoch, self._owners)

    def _closed(self) -> StoreClosed:
        return StoreClosed(
            f"store {self.name!r} is not open; use it inside `async with store:`", store=self.name
        )


def _tell(unit: U, done: Told[U], verdict: Outcome[Any]) -> None:
    done([unit], [verdict.error if isinstance(verdict, Error) else None])


_STAY = trio.lowlevel.Abort.FAILED
