"""The laws of reading many rows at once."""

from __future__ import annotations

from typing import Final

from ...store import Store, Tx
from ._journal_rows import Row


async def scan_gives_key_order_under_a_prefix(store: Store) -> None:
    """Committed rows, own writes and own deletes merged; the prefix ends the scan."""
    names = [b"a", b"b", b"b\0", b"b\0\1", b"b\xff", b"b\xff\xff", b"c"]

    def fill(tx: Tx) -> None:
        for index, key in enumerate(reversed(names)):
            tx.put("settle", key, Row(key.hex(), index))

    def change(tx: Tx) -> list[bytes]:
        tx.delete("settle", b"b\0")
        tx.put("settle", b"b\1", Row("new"))
        tx.put("settle", b"b", Row("changed"))
        rows = tx.scan("settle", b"b", Row)
        assert rows[0] == (b"b", Row("changed"))
        assert [key for key, _ in tx.scan("settle", b"\xff", Row)] == []
        return [key for key, _ in rows]

    async with store:
        await store.commit(fill)
        assert [key for key, _ in store.scan("settle", b"", Row)] == names
        assert [key for key, _ in store.scan("settle", b"b\xff", Row)] == [b"b\xff", b"b\xff\xff"]
        seen = await store.commit(change)
        assert seen == [b"b", b"b\0\1", b"b\1", b"b\xff", b"b\xff\xff"]
        assert [key for key, _ in store.scan("settle", b"b", Row)] == seen
        assert store.scan("record", b"b", Row) == [], "tables are apart"


async def scan_stops_at_its_limit_and_goes_on_behind_a_key(store: Store) -> None:
    """The same for committed rows and inside of a unit, whatever the unit wrote and deleted."""
    names = [b"a", b"b", b"b\0", b"b\0\1", b"b\1", b"b\xff", b"c"]

    def fill(tx: Tx) -> None:
        for index, key in enumerate(names):
            tx.put("settle", key, Row(key.hex(), index))

    def change(tx: Tx) -> None:
        for key in (b"b", b"b\0\1"):
            tx.delete("settle", key)
        tx.put("settle", b"b\2", Row("new"))
        left = [b"b\0", b"b\1", b"b\2", b"b\xff"]
        assert tx.keys("settle", b"b") == left
        assert tx.keys("settle", b"b", limit=2) == left[:2]
        assert tx.keys("settle", b"b", limit=0) == [] == tx.keys("settle", b"d")
        for limit in range(5):
            assert [k for k, _ in tx.scan("settle", b"b", Row, limit=limit)] == left[:limit]
        behind = tx.scan("settle", b"b", Row, after=b"b\0", limit=2)
        assert [key for key, _ in behind] == [b"b\1", b"b\2"]
        assert tx.scan("settle", b"b", Row, after=b"c") == []

    async with store:
        await store.commit(fill)
        for after, limit, found in (
            (b"", 2, [b"b", b"b\0"]),
            (b"b", None, names[2:6]),
            (b"b", 1, [b"b\0"]),
            (b"a", 1, [b"b"]),
            (b"b\xff", 3, []),
            (b"c", None, []),
            (b"", 0, []),
        ):
            rows = store.scan("settle", b"b", Row, after=after, limit=limit)
            assert [key for key, _ in rows] == found, (after, limit)
        await store.commit(change)
        assert len(store.scan("settle", b"b", Row)) == 4


SCAN_LAWS: Final = (
    scan_gives_key_order_under_a_prefix,
    scan_stops_at_its_limit_and_goes_on_behind_a_key,
)
