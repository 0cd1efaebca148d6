"""What the laws of the journal are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio
from outcome import Outcome

from ...store import Store, Tx, log_sequence
from ._journal_rows import Row

E = TypeVar("E", bound=Exception)


async def batch(store: Store, units: list[Callable[[Tx], Any]]) -> list[Outcome[Any]]:
    """Submit units in one go and return their verdicts once all have come."""
    results: list[Outcome[Any]] = []
    done = trio.Event()

    def tell(result: Outcome[Any]) -> None:
        results.append(result)
        if len(results) == len(units):
            done.set()

    for unit in units:
        store.submit(unit, tell)
    await done.wait()
    return results


def expect(kind: type[E], call: Callable[[], object]) -> E:
    """Assert that a call raises an error of that kind, and return it."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def put_unit(table: str, key: bytes, value: object) -> Callable[[Tx], None]:
    """Return a unit that writes one row."""
    return lambda tx: tx.put(table, key, value)


def get_unit(table: str, key: bytes, tx: Tx) -> Row | None:
    """A unit, with its first two arguments bound: read one row."""
    return tx.get(table, key, Row)


def delete_unit(table: str, key: bytes, tx: Tx) -> None:
    """A unit, with its first two arguments bound: delete one row."""
    tx.delete(table, key)


def note(seen: list[int], index: int, _: Outcome[None]) -> None:
    """A `done`, with its first two arguments bound: note the index."""
    seen.append(index)


def log_of(store: Store) -> list[tuple[int, str]]:
    """Return numbers and names of the log."""
    return [(log_sequence(key), row.name) for key, row in store.scan("log", b"", Row)]
