"""What every `Store` must do: laws to run one by one, and a state machine against a model.

    @pytest.mark.parametrize("law", journal.LAWS, ids=lambda law: law.__name__)
    async def test_law(law, tmp_path):
        await law(MyStore(tmp_path))

    TestMachine = journal.machine(make_store).TestCase

A law gets a store that was never opened, on empty ground. It must be possible to open it again
after it was closed, with its committed rows and a higher epoch.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Final, cast

import outcome
import trio
from outcome import Error, Outcome, Value

from ...errors import CorruptRecord, StoreClosed, TooLarge, TrouperError, ValueRefused
from ...store import Store, Tx, log_key
from ._journal_machine import machine
from ._journal_rows import Other, Row
from ._journal_scan import SCAN_LAWS
from ._journal_tools import batch, delete_unit, expect, get_unit, log_of, note, put_unit

Law = Callable[[Store], Awaitable[None]]


class Refused(TrouperError):
    """What the suite's units raise."""


async def committed_rows_survive_a_reopen(store: Store) -> None:
    """A committed value comes back equal, in type and content, now and after a reopen."""
    rows = [
        Row("plain", 1, None),
        Row("\u00e9\U0001f40d\0", -(2**63), [True, False, 2**63 - 1, -0.5, 1e300, "", b"\0\xff"]),
        Row("nested", 0, {"z": [{"a": []}], "a": {"": [[[]]]}}),
    ]

    def write(tx: Tx) -> None:
        for index, row in enumerate(rows):
            tx.put("record", b"k%d" % index, row)

    async with store:
        await store.commit(write)
        assert [row for _, row in store.scan("record", b"k", Row)] == rows
    async with store:
        assert [row for _, row in store.scan("record", b"k", Row)] == rows
        first = store.get("record", b"k1", Row)
        assert first is not None
        assert [type(item) for item in first.value] == [bool, bool, int, float, float, str, bytes]
        nested = store.get("record", b"k2", Row)
        assert nested is not None
        assert list(nested.value) == ["z", "a"], "a dict keeps its order"


async def a_unit_that_raises_is_dropped_alone(store: Store) -> None:
    """It writes nothing and burns no number; units before and after it in the batch are kept."""

    def good(name: str) -> Callable[[Tx], int]:
        def unit(tx: Tx) -> int:
            tx.put("group", name.encode(), Row(name))
            return tx.append(Row(name))

        return unit

    def bad(tx: Tx) -> None:
        tx.append(Row("bad"))
        tx.put("group", b"bad", Row("bad"))
        tx.delete("group", b"a")
        raise Refused("no")

    async with store:
        results = await batch(store, [good("a"), bad, good("b")])
        assert [type(result) for result in results] == [Value, Error, Value]
        assert isinstance(results[1], Error)
        assert isinstance(results[1].error, Refused)
        assert [key for key, _ in store.scan("group", b"", Row)] == [b"a", b"b"]
        assert log_of(store) == [(1, "a"), (2, "b")]


async def a_unit_sees_what_came_before_it(store: Store) -> None:
    """Earlier units of the same batch, and its own writes; others see nothing before the commit."""

    def bump(tx: Tx) -> int:
        row = tx.get("group", b"n", Row) or Row("n", 0)
        row = Row("n", row.number + 1)
        tx.put("group", b"n", row)
        assert tx.get("group", b"n", Row) == row
        return row.number

    async with store:
        submitted: list[Outcome[int]] = []
        for _ in range(5):
            store.submit(bump, submitted.append)
        assert submitted == [], "no verdict comes within submit"
        results = await batch(store, [bump])
        assert [result.unwrap() for result in submitted] == [1, 2, 3, 4, 5]
        assert results[0].unwrap() == 6
        row = store.get("group", b"n", Row)
        assert row is not None
        assert row.number == 6


async def verdicts_come_in_submission_order(store: Store) -> None:
    """Refused units among them too, over several batches."""
    order: list[int] = []
    done = trio.Event()
    total = 50

    def told(index: int) -> Callable[[Outcome[None]], None]:
        def tell(_: Outcome[None]) -> None:
            order.append(index)
            if len(order) == total:
                done.set()

        return tell

    def unit(index: int) -> Callable[[Tx], None]:
        def write(tx: Tx) -> None:
            tx.append(Row("x", index))
            if index % 3 == 0:
                raise Refused("third")

        return write

    async with store:
        for index in range(total):
            store.submit(unit(index), told(index))
            if index % 7 == 0:
                await trio.lowlevel.checkpoint()
        await done.wait()
        assert order == list(range(total))
        numbers = [row.number for _, row in store.scan("log", b"", Row)]
        assert numbers == [index for index in range(total) if index % 3]


async def log_numbers_are_never_given_twice(store: Store) -> None:
    """Dense in commit order, going on after a reopen, even when the last rows were deleted."""

    def append(name: str) -> Callable[[Tx], list[int]]:
        return lambda tx: [tx.append(Row(name)), tx.append(Row(name))]

    def drop_tail(tx: Tx) -> None:
        tx.delete("log", log_key(3))
        tx.delete("log", log_key(4))

    async with store:
        assert await store.commit(append("a")) == [1, 2]
        assert await store.commit(append("b")) == [3, 4]
    async with store:
        await store.commit(drop_tail)
    async with store:
        assert await store.commit(append("c")) == [5, 6]
        assert log_of(store) == [(1, "a"), (2, "a"), (5, "c"), (6, "c")]


async def epochs_grow_and_owners_are_unique(store: Store) -> None:
    """Each opening has a higher epoch; owners count from 1 within it."""
    async with store:
        first = store.epoch
        owners = [store.next_owner() for _ in range(3)]
    assert owners == [(first, 1), (first, 2), (first, 3)]
    async with store:
        assert store.epoch == first + 1
        assert store.next_owner() == (first + 1, 1)


async def a_withdrawn_unit_never_ran(store: Store) -> None:
    """Withdrawn: no write and no verdict. Not withdrawn: both."""
    async with store:
        told: list[int] = []
        withdrawn: list[bool] = []
        for index in range(20):
            key = b"%d" % index
            submission = store.submit(
                put_unit("record", key, Row("x")), functools.partial(note, told, index)
            )
            withdrawn.append(submission.withdraw())
            assert not submission.withdraw(), "only the first withdrawal counts"
        await batch(store, [lambda tx: None])
        kept = [index for index, gone in enumerate(withdrawn) if not gone]
        assert told == kept
        assert len(store.scan("record", b"", Row)) == len(kept)


async def a_cancelled_commit_is_written_or_not_at_all(store: Store) -> None:
    """`Cancelled` means withdrawn; a unit that was picked up gives its value despite the cancel."""
    async with store:
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.commit(lambda tx: tx.put("record", b"early", Row("x")))
        assert scope.cancelled_caught
        assert store.get("record", b"early", Row) is None

        finished = False
        async with trio.open_nursery() as nursery:

            async def late() -> None:
                nonlocal finished
                await store.commit(lambda tx: tx.put("record", b"late", Row("x")))
                finished = True

            nursery.start_soon(late)
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await store.commit(lambda tx: None)
        assert (store.get("record", b"late", Row) is not None) is finished


async def closing_serves_what_was_submitted(store: Store) -> None:
    """Leaving waits for the verdicts of what is queued, also when it is left by a cancel."""
    told: list[Outcome[int]] = []
    with trio.CancelScope() as scope:
        async with store:
            for _ in range(10):
                store.submit(lambda tx: tx.append(Row("x")), told.append)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert [result.unwrap() for result in told] == list(range(1, 11))
    async with store:
        assert len(store.scan("log", b"", Row)) == 10


async def a_closed_store_refuses(store: Store) -> None:
    """Before it was opened and after it was closed: `StoreClosed`, for every verb."""

    async def refuses() -> None:
        assert not store.is_open
        for call in (
            lambda: store.get("record", b"k", Row),
            lambda: store.scan("record", b"k", Row),
            lambda: store.submit(lambda tx: None, lambda result: None),
        ):
            expect(StoreClosed, call)
        try:
            await store.commit(lambda tx: None)
        except StoreClosed:
            return
        raise AssertionError("commit did not refuse")

    await refuses()
    async with store:
        assert store.is_open
    await refuses()


async def values_outside_the_profile_are_refused(store: Store) -> None:
    """`ValueRefused` says where; the unit is dropped, the store goes on."""

    class Unregistered:
        pass

    async with store:
        refused: list[tuple[object, str]] = [
            (Row("x", 0, (1, 2)), "conformance.row.value"),
            (Row("x", 0, [0, {"a": [{1}]}]), "conformance.row.value[1]['a'][0]"),
            (Row("x", 0, {"k": {1: 2}}), "conformance.row.value['k']"),
            (Row("x", 2**63), "conformance.row.number"),
            (Row("\ud800"), "conformance.row.name"),
            (Row("x", 0, {"\ud800": 1}), "conformance.row.value"),
            (Unregistered(), "$"),
        ]
        for value, path in refused:
            results = await batch(store, [put_unit("record", b"k", value)])
            assert isinstance(results[0], Error), value
            error = results[0].error
            assert isinstance(error, ValueRefused), error
            assert error.path == path
        huge = await batch(
            store, [lambda tx: tx.put("record", b"k", Row("x", 0, bytes(17 * 1024 * 1024)))]
        )
        assert isinstance(huge[0], Error)
        assert isinstance(huge[0].error, TooLarge)
        assert store.get("record", b"k", Row) is None


async def keys_and_tables_are_checked(store: Store) -> None:
    """A key is 1 to 511 bytes, a table one of ``TABLES``, and the log is append-only."""
    async with store:
        await store.commit(lambda tx: tx.put("record", b"k" * 511, Row("long")))
        for key in (b"", b"k" * 512):
            for act in (
                put_unit("record", key, Row("x")),
                functools.partial(get_unit, "record", key),
                functools.partial(delete_unit, "record", key),
            ):
                (result,) = await batch(store, [act])
                assert isinstance(result, Error)
                assert isinstance(result.error, ValueRefused), result.error
            expect(ValueRefused, functools.partial(store.get, "record", key, Row))
        for act in (
            put_unit("nowhere", b"k", Row("x")),
            functools.partial(get_unit, "nowhere", b"k"),
            put_unit("log", b"k", Row("x")),
        ):
            (result,) = await batch(store, [act])
            assert isinstance(result, Error)
            assert isinstance(result.error, ValueError), result.error
        expect(ValueError, lambda: store.get("nowhere", b"k", Row))
        expect(ValueError, lambda: store.scan("nowhere", b"k", Row))


async def a_row_of_another_kind_is_corrupt(store: Store) -> None:
    """Asking for a kind that the row is not names table and key; a base class takes both."""
    async with store:
        await store.commit(lambda tx: tx.put("record", b"k", Other("o")))
        error = expect(CorruptRecord, lambda: store.get("record", b"k", Row))
        assert (error.table, error.key) == ("record", b"k".hex())
        assert store.get("record", b"k", object) == Other("o")


async def a_transaction_ends_with_its_unit(store: Store) -> None:
    """A leaked one refuses every use: it would read and write outside any commit."""
    leaked: list[Tx] = []
    async with store:
        await store.commit(leaked.append)
        tx = leaked[0]
        for use in (
            lambda: tx.get("record", b"k", Row),
            lambda: tx.scan("record", b"k", Row),
            lambda: tx.put("record", b"k", Row("x")),
            lambda: tx.delete("record", b"k"),
            lambda: tx.append(Row("x")),
        ):
            expect(RuntimeError, use)


async def an_async_unit_is_refused(store: Store) -> None:
    """It would write nothing and say so to nobody: a unit is a plain function."""

    async def unit(tx: Tx) -> None:
        tx.put("record", b"k", Row("x"))

    async with store:
        verdict = await outcome.acapture(store.commit, cast("Callable[[Tx], object]", unit))
        assert isinstance(verdict, Error), "an async unit was committed"
        assert "is async, and nothing of it ran" in str(verdict.error)
        assert store.get("record", b"k", Row) is None


LAWS: Final[tuple[Law, ...]] = (
    committed_rows_survive_a_reopen,
    a_unit_that_raises_is_dropped_alone,
    a_unit_sees_what_came_before_it,
    verdicts_come_in_submission_order,
    *SCAN_LAWS,
    log_numbers_are_never_given_twice,
    epochs_grow_and_owners_are_unique,
    a_withdrawn_unit_never_ran,
    a_cancelled_commit_is_written_or_not_at_all,
    closing_serves_what_was_submitted,
    a_closed_store_refuses,
    values_outside_the_profile_are_refused,
    keys_and_tables_are_checked,
    a_row_of_another_kind_is_corrupt,
    a_transaction_ends_with_its_unit,
    an_async_unit_is_refused,
)

__all__ = ("LAWS", "Law", "batch", "expect", "machine")
