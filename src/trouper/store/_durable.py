"""`LmdbStore`: the loop's side of the durable store. Its writer and its engine do the rest."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, cast, final

import trio
from outcome import Error, Outcome

from .._holds import run_in_thread
from ..errors import CorruptRecord, StoreError
from ._backup import Backup, back_up
from ._base import MAX_BATCH_UNITS, BaseStore
from ._codec import MAX_BYTES
from ._engine import EngineOptions, LmdbEngine
from ._keys import check_key, check_table
from ._lmdb import Env
from ._place import DATA_FILE, place_of, read_identity
from ._protocol import Bundle, Submission, Told, U, Unit
from ._records import from_frame, from_frames, require_upcasters
from ._writer import Writer

T = TypeVar("T")

MAP_SIZE: Final = 64 * 1024**3
MAP_LIMIT: Final = 1024**4


@final
class LmdbStore(BaseStore):
    """A `Store` in an LMDB environment: acknowledged means on disk.

    One process owns it while it is open. It may be opened again after it was closed.

    Args:
        path: Its directory; made on first use.
        level: ``"durable"``, or ``"relaxed"``, which may lose the last commit in a power cut, never
            more, and corrupts nothing. A killed process loses nothing at either level.
        map_size: Address space to reserve, in bytes; costs no memory and no disk. Halved until it
            fits where address space is limited, doubled when the rows fill it.
        map_limit: Where doubling ends and `StoreFull` begins.
        create: Make a store where there is none.
        max_value: Largest size of one row in bytes; beyond it `TooLarge`.
        max_batch: Most units in one commit.
        verify: Check the whole file before mapping it, at every opening or only if it was not
            closed by its last owner, or touched since.
        close_timeout: Seconds of real time that leaving waits for the disk; then `StoreError`.
        debug: Run every unit twice and refuse one that is not pure.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        level: Literal["durable", "relaxed"] = "durable",
        map_size: int = MAP_SIZE,
        map_limit: int = MAP_LIMIT,
        create: bool = True,
        max_value: int = MAX_BYTES,
        max_batch: int = MAX_BATCH_UNITS,
        verify: Literal["unclean", "always"] = "unclean",
        close_timeout: float = 30.0,
        debug: bool = False,
    ) -> None:
        if level not in ("durable", "relaxed"):
            raise ValueError(f"level is 'durable' or 'relaxed', got {level!r}")
        if verify not in ("unclean", "always"):
            raise ValueError(f"verify is 'unclean' or 'always', got {verify!r}")
        counts = {"map_size": map_size, "map_limit": map_limit}
        counts |= {"max_value": max_value, "max_batch": max_batch}
        for name, count in counts.items():
            _require_count(name, count)
        if not 0 <= close_timeout <= threading.TIMEOUT_MAX:
            raise ValueError(f"close_timeout is 0 or more seconds, not {close_timeout!r}")
        if map_limit < map_size:
            raise ValueError(f"map_limit ({map_limit}) is smaller than map_size ({map_size})")
        self._directory: Final = place_of(path)
        self._options: Final = EngineOptions(
            level, map_size, map_limit, create, max_value, verify, debug
        )
        self._max_batch: Final = max_batch
        self.max_value = max_value
        self._close_timeout: Final = close_timeout
        self._env: Env | None = None  # None while closed
        self._closed_verdict = _Verdict()  # new at each opening
        self._writer: Writer | None = None  # None while closed, opening or closing
        self._backups: set[trio.CancelScope] = set()  # that run now

    @property
    def name(self) -> str:
        """See `Store.name`."""
        return str(self._directory)

    @property
    def is_open(self) -> bool:
        """See `Store.is_open`."""
        return self._writer is not None

    async def __aenter__(self) -> Self:
        if self._env is not None:
            raise RuntimeError(f"store {self.name!r} is open already; one store, one owner")
        require_upcasters()
        engine = LmdbEngine(self._directory, self._options)
        opening = _Verdict()
        self._closed_verdict = _Verdict()
        writer = Writer(
            engine,
            trio.lowlevel.current_trio_token(),
            self._max_batch,
            opening.give,
            self._closed_verdict.give,
        )
        try:
            self.epoch = await opening.wait()
        except BaseException:
            # Cancelled while it opens: the thread closes again whatever it will have opened.
            writer.close()
            raise
        self._owners = 0
        self._loop = trio.lowlevel.current_trio_token()
        self._env, self._writer = engine.env, writer
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        env, writer = self._env, self._writer
        assert env is not None
        assert writer is not None
        env.check_process()
        self._writer = None
        for scope in self._backups:
            scope.cancel()
        closed = self._closed_verdict
        # A real clock, not trio's: under virtual time a flush takes for ever.
        watchdog = threading.Timer(
            self._close_timeout, writer.tell, (closed.give, Error(self._hung()))
        )
        watchdog.daemon = True
        with suppress(RuntimeError):  # no thread to be had: close without a watch then
            watchdog.start()
        writer.close()
        try:
            with trio.CancelScope(shield=True):
                await closed.wait()
        finally:
            watchdog.cancel()
            self._env = None

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Store.get`."""
        env = self._env
        if env is None:
            raise self._closed()
        check_table(table)
        check_key(key)
        frame = env.read(table, key)
        return None if frame is None else from_frame(table, key, frame, kind)

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
        env = self._env
        if env is None:
            raise self._closed()
        check_table(table)
        return from_frames(table, env.scan(table, prefix, after, limit), kind, damaged)

    def submit(self, unit: Unit[T], done: Callable[[Outcome[T]], None]) -> Submission:
        """See `Store.submit`."""
        writer, env = self._writer, self._env
        if writer is None or env is None:
            raise self._closed()
        env.check_process()
        submission = Submission(unit, done)
        writer.submit(submission)
        return submission

    def submit_all(self, units: Sequence[U], done: Told[U]) -> None:
        """See `Store.submit_all`."""
        writer, env = self._writer, self._env
        if writer is None or env is None:
            raise self._closed()
        env.check_process()
        rest: Bundle | None = Bundle(units, done)
        while rest is not None:
            bundle, rest = rest, rest.cut(self._max_batch)
            writer.submit(bundle)

    async def backup(
        self,
        target: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Backup:
        """Copy what is committed now to a new directory, which is a store too; see `backup`.

        Reads and commits go on meanwhile; closing the store ends it. Cancelled, nothing is left.

        Args:
            target: Where to; must not exist.
            progress: Called on the loop, with how many bytes are written, of about how many.

        Raises:
            PathRefused: There is something at `target`, or no way to write there.
            StoreFull: No room for the copy.
            StoreDamaged: A row of the store is damaged, and so would be the copy.
            StoreClosed: The store is not open, or was closed meanwhile.
        """
        env = self._env
        if self._writer is None or env is None:
            raise self._closed()
        env.check_process()
        identity = read_identity(self._directory)
        assert identity is not None  # written when the store was opened first

        def advance(done: int, size: int) -> None:
            trio.from_thread.check_cancelled()
            if progress is not None:
                trio.from_thread.run_sync(progress, done, size)

        with trio.CancelScope() as scope:
            self._backups.add(scope)
            try:
                return await run_in_thread(
                    back_up, env.copy, identity, self._directory / DATA_FILE, target, advance
                )
            finally:
                self._backups.discard(scope)
        raise self._closed()

    def _hung(self) -> StoreError:
        return StoreError(
            f"store {self.name!r} did not close within {self._close_timeout} s: its disk hangs. "
            f"What was acknowledged is safe; for anything else reopen and read.",
            store=self.name,
        )


def _require_count(name: str, value: int) -> None:
    if not isinstance(cast(Any, value), int) or value < 1:
        raise ValueError(f"{name} is a whole number, 1 or more, not {value!r}")


@final
class _Verdict:
    """One value or error on its way from the writer thread to one waiting task."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self._result: Outcome[int] | None = None

    def give(self, result: Outcome[int]) -> None:
        """Set it, on the loop; the first one counts."""
        if self._result is None:
            self._result = result
            self._event.set()

    async def wait(self) -> int:
        """Wait for it."""
        await self._event.wait()
        assert self._result is not None
        return self._result.unwrap()
