"""The transaction of one unit: its own writes over a view of what was there before.

Buffering a unit's writes until it returns isolates the units of a batch from each other's failures
for the price of a dict, and gives both stores the same semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CoroutineType
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast, final

from outcome import Error, Outcome, Value, capture

from ..errors import InvariantError, StoreError
from ._keys import check_key, check_table, log_key
from ._protocol import Unit
from ._records import from_frame, to_frame
from ._sealed import Sealed, SealedRow, SealedUnit

T = TypeVar("T")


class View(Protocol):
    """The committed state and the units before this one, as frames."""

    def read(self, table: str, key: bytes) -> bytes | None:
        """Return the frame under `key`, or None."""
        ...

    def items(
        self, table: str, prefix: bytes, after: bytes, limit: int | None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys and frames under `prefix`, behind `after`, in key order, up to `limit`."""
        ...

    def keys(self, table: str, prefix: bytes, limit: int | None) -> list[bytes]:
        """Return the keys under `prefix`, in order, up to `limit`."""
        ...


class Writes(dict[str, dict[bytes, bytes | None]]):
    """What a unit wrote, by table and key; None deletes."""

    def __missing__(self, table: str) -> dict[bytes, bytes | None]:
        check_table(table)
        rows: dict[bytes, bytes | None] = {}
        self[table] = rows
        return rows


class _Over(Writes):
    """Stands in for the writes of a transaction that is over, so that a leaked one says so."""

    def __missing__(self, table: str) -> NoReturn:
        raise RuntimeError("this transaction is over: a unit may use it only while it runs")


_OVER: Final = _Over()
_NOTHING: Final = Writes()


@final
class OverlayTx:
    """`Tx` over a view; see there."""

    __slots__ = ("_max_bytes", "_view", "_writes", "head", "size")

    def __init__(self, view: View, head: int, max_bytes: int) -> None:
        self._view = view
        self._writes: Writes = Writes()
        self._max_bytes = max_bytes
        self.head = head  # the last log sequence, this unit's appends included
        self.size = 0  # bytes written, for the cap on a batch

    def get(self, table: str, key: bytes, kind: type[T]) -> T | None:
        """See `Tx.get`."""
        own = self._writes[table]
        check_key(key)
        frame = own[key] if key in own else self._view.read(table, key)
        return None if frame is None else from_frame(table, key, frame, kind)

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[T],
        *,
        after: bytes = b"",
        limit: int | None = None,
    ) -> list[tuple[bytes, T]]:
        """See `Tx.scan`."""
        touched = self._touched(table, prefix, after)
        # Each row of ours can hide one below, so that many more are asked for.
        below = None if limit is None else limit + len(touched)
        rows = self._view.items(table, prefix, after, below)
        if touched:
            merged: dict[bytes, bytes | None] = dict(rows)
            merged.update(touched)
            rows = [(key, frame) for key, frame in sorted(merged.items()) if frame is not None]
        return [(key, from_frame(table, key, frame, kind)) for key, frame in rows[:limit]]

    def keys(self, table: str, prefix: bytes, *, limit: int | None = None) -> list[bytes]:
        """See `Tx.keys`."""
        touched = self._touched(table, prefix, b"")
        below = None if limit is None else limit + len(touched)
        found = self._view.keys(table, prefix, below)
        if touched:
            kept = [key for key in found if key not in touched]
            written = [key for key, frame in touched.items() if frame is not None]
            found = sorted([*kept, *written])
        return found[:limit]

    def _touched(self, table: str, prefix: bytes, after: bytes) -> dict[bytes, bytes | None]:
        own = self._writes[table]
        return {k: frame for k, frame in own.items() if k.startswith(prefix) and k > after}

    def put(self, table: str, key: bytes, value: object) -> None:
        """See `Tx.put`."""
        own = self._writes[table]
        check_key(key)
        if table == "log":
            raise ValueError("rows get into table 'log' by append, which gives them their number")
        self._write(own, key, value)

    def delete(self, table: str, key: bytes) -> None:
        """See `Tx.delete`."""
        own = self._writes[table]
        check_key(key)
        own[key] = None

    def append(self, value: object) -> int:
        """See `Tx.append`."""
        own = self._writes["log"]
        sequence = self.head + 1
        self._write(own, log_key(sequence), value)
        self.head = sequence
        return sequence

    def _write(self, own: dict[bytes, bytes | None], key: bytes, value: object) -> None:
        frame = value.under(key) if type(value) is Sealed else to_frame(key, value, self._max_bytes)
        own[key] = frame
        self.size += len(frame)

    def finish(self) -> Writes:
        """End the transaction and return what it wrote; every later use of it is refused."""
        writes, self._writes = self._writes, _OVER
        return writes


def sealed_writes(unit: Unit[Any], view: View) -> tuple[Writes, int] | None:
    """Return what a sealed unit writes, and how many bytes; None if it has to run."""
    if not isinstance(unit, SealedUnit):
        return None
    fence, table = unit.fence, unit.table
    try:
        if fence is None or view.read(table, fence[0]) != fence[1]:
            return None
    except StoreError:  # it belongs to this unit alone: let it meet that while it runs
        return None
    rows: dict[bytes, bytes | None] = dict(unit.rows)
    size = sum([len(frame) for _, frame in unit.rows])
    for key in unit.forgotten or ():
        rows[key] = None
    writes = Writes()
    writes[table] = rows
    return writes, size


def bundled_writes(
    units: Sequence[SealedUnit], holds: Callable[[str, list[SealedRow]], bool]
) -> tuple[Writes, int] | None:
    """Return what sealed units write, all together, and how many bytes; None if they have to run.

    Their order does not matter if every fence stands, is replaced by its own unit (by the last row
    of it), and no key is written twice.

    Args:
        units: The units, of one table or not.
        holds: Tells whether these rows all lie in a table as they are.
    """
    table = units[0].table
    fences: list[SealedRow] = []
    pairs: list[SealedRow] = []
    for unit in units:
        fence, own = unit.fence, unit.rows
        if fence is None or not own or own[-1][0] != fence[0] or unit.table != table:
            return None
        fences.append(fence)
        pairs += own
    rows: dict[bytes, bytes | None] = dict(pairs)
    count = len(pairs)
    size = sum(map(len, cast("Iterable[bytes]", rows.values())))
    for unit in units:
        if unit.forgotten:
            rows.update(dict.fromkeys(unit.forgotten))
            count += len(unit.forgotten)
    try:
        if len(rows) < count or not holds(table, fences):
            return None
    except StoreError:  # it belongs to one of them: let that one meet it
        return None
    writes = Writes()
    writes[table] = rows
    return writes, size


def run_unit(
    unit: Unit[Any], begin: Callable[[], OverlayTx], *, twice: bool
) -> tuple[Outcome[Any], Writes, OverlayTx]:
    """Run a unit and return its outcome, what to write (nothing if it raised) and its transaction.

    Args:
        unit: The unit.
        begin: Makes a transaction on the state before the unit.
        twice: Debug mode: run it a second time, and fail a unit that does something else then.
    """
    tx = begin()
    result = cast(Outcome[Any], capture(unit, tx))
    writes = tx.finish()
    value: Any = result.value if isinstance(result, Value) else None
    if isinstance(value, CoroutineType):
        value.close()
        text = f"unit {getattr(unit, '__qualname__', unit)!r} is async, and nothing of it ran"
        result = Error(TypeError(f"{text}; a unit is a plain function of its transaction"))
    elif twice and not _repeats(unit, begin(), result, writes):
        result = Error(
            InvariantError(
                f"unit {getattr(unit, '__qualname__', unit)!r} is not pure: run twice on the same "
                f"state it wrote or ended differently; move what it draws on out of it"
            )
        )
    if not isinstance(result, Value) or not any(writes.values()):
        return result, _NOTHING, tx
    return result, writes, tx


def _repeats(unit: Unit[Any], tx: OverlayTx, result: Outcome[Any], writes: Writes) -> bool:
    second = cast(Outcome[Any], capture(unit, tx))
    return tx.finish() == writes and type(second) is type(result)
