"""A store and a dict do the same things and must stay equal: the journal's state machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import hypothesis.strategies as st
import trio
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from outcome import Error, Outcome, Value

from ...store import Store, Tx, log_key
from ._journal_rows import Row

KEYS = (b"a", b"a\0", b"a\xff", b"b", b"ba", b"c" * 511)
PREFIXES = (b"", b"a", b"b", b"\xff")
TABLES = ("record", "group")


class Op(NamedTuple):
    """One step of a unit."""

    verb: Literal["put", "delete", "append", "get", "scan", "drop_log", "raise"]
    table: str
    key: bytes
    number: int


class Stop(Exception):
    """What a unit raises to be dropped."""


@dataclass
class Model:
    """What a store should hold."""

    tables: dict[str, dict[bytes, Row]] = field(
        default_factory=lambda: {"record": {}, "group": {}, "log": {}}
    )
    head: int = 0

    def copy(self) -> Model:
        """Return one that can be changed on trial."""
        return Model({name: dict(rows) for name, rows in self.tables.items()}, self.head)

    def get(self, table: str, key: bytes, kind: type[Any]) -> Any:
        """As `Tx.get`."""
        return self.tables[table].get(key)

    def scan(
        self,
        table: str,
        prefix: bytes,
        kind: type[Any],
        *,
        after: bytes = b"",
        limit: int | None = None,
    ) -> list[tuple[bytes, Any]]:
        """As `Tx.scan`."""
        rows = self.tables[table].items()
        return sorted((k, v) for k, v in rows if k.startswith(prefix) and k > after)[:limit]

    def keys(self, table: str, prefix: bytes, *, limit: int | None = None) -> list[bytes]:
        """As `Tx.keys`."""
        return sorted(k for k in self.tables[table] if k.startswith(prefix))[:limit]

    def put(self, table: str, key: bytes, value: Any) -> None:
        """As `Tx.put`."""
        self.tables[table][key] = value

    def delete(self, table: str, key: bytes) -> None:
        """As `Tx.delete`."""
        self.tables[table].pop(key, None)

    def append(self, value: Any) -> int:
        """As `Tx.append`."""
        self.head += 1
        self.tables["log"][log_key(self.head)] = value
        return self.head


def unit_of(ops: list[Op]) -> Callable[[Tx], list[Any]]:
    """Return the unit that does `ops` and returns what it saw."""

    def unit(tx: Tx) -> list[Any]:
        seen: list[Any] = []
        for op in ops:
            if op.verb == "put":
                tx.put(op.table, op.key, Row(op.table, op.number, [op.number]))
            elif op.verb == "delete":
                tx.delete(op.table, op.key)
            elif op.verb == "append":
                seen.append(tx.append(Row("log", op.number)))
            elif op.verb == "get":
                seen.append(tx.get(op.table, op.key, Row))
            elif op.verb == "scan":
                seen.append(tx.scan(op.table, op.key[:1], Row))
                limit = op.number % 4
                seen.append(tx.scan(op.table, op.key[:1], Row, after=op.key, limit=limit))
                seen.append(tx.keys(op.table, op.key[:1], limit=limit))
            elif op.verb == "drop_log":
                tx.delete("log", log_key(1 + op.number % 8))
            else:
                raise Stop
        return seen

    return unit


class Loop:
    """A trio loop on a thread with the store open in it; the machine's rules call into it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def commit(self, units: list[Callable[[Tx], Any]]) -> list[Outcome[Any]]:
        """Submit units in one go and return their verdicts."""
        return trio.from_thread.run(self._commit, units, trio_token=self._token)

    def read(self, call: Callable[[], Any]) -> Any:
        """Read on the loop."""
        return trio.from_thread.run_sync(call, trio_token=self._token)

    def close(self) -> None:
        """Close the store and end the loop."""
        trio.from_thread.run_sync(self._leave.set, trio_token=self._token)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._leave = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        async with self.store:
            self._ready.set()
            await self._leave.wait()

    async def _commit(self, units: list[Callable[[Tx], Any]]) -> list[Outcome[Any]]:
        results: list[Outcome[Any]] = []
        done = trio.Event()

        def tell(result: Outcome[Any]) -> None:
            results.append(result)
            if len(results) == len(units):
                done.set()

        for unit in units:
            self.store.submit(unit, tell)
        await done.wait()
        return results


OPS = st.builds(
    Op,
    st.sampled_from(("put", "put", "put", "delete", "append", "append", "get", "scan", "drop_log"))
    | st.just("raise"),
    st.sampled_from(TABLES),
    st.sampled_from(KEYS),
    st.integers(-5, 5),
)


class JournalMachine(RuleBasedStateMachine):
    """Opens, commits, reads and closes a store, and compares it with a `Model`."""

    loop: Loop | None = None

    def make(self) -> Store:
        """Return the store of this run, never opened; `machine` overrides it."""
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.store: Store = self.make()
        self.model = Model()
        self.epoch: int = 0
        self.open()

    @precondition(lambda self: self.loop is None)
    @rule()
    def open(self) -> None:
        self.loop = Loop(self.store)
        assert self.store.epoch > self.epoch
        self.epoch = self.store.epoch

    @precondition(lambda self: self.loop is not None)
    @rule(batch=st.lists(st.lists(OPS, min_size=1, max_size=6), min_size=1, max_size=6))
    def commit(self, batch: list[list[Op]]) -> None:
        assert self.loop is not None
        results = self.loop.commit([unit_of(ops) for ops in batch])
        for ops, result in zip(batch, results, strict=True):
            trial = self.model.copy()
            try:
                expected = unit_of(ops)(trial)
            except Stop:
                assert isinstance(result, Error)
                assert isinstance(result.error, Stop)
            else:
                assert isinstance(result, Value), result
                assert result.value == expected
                self.model = trial

    @precondition(lambda self: self.loop is not None)
    @rule(table=st.sampled_from((*TABLES, "log")), key=st.sampled_from(KEYS))
    def get(self, table: str, key: bytes) -> None:
        assert self.loop is not None
        found = self.loop.read(lambda: self.store.get(table, key, Row))
        assert found == self.model.get(table, key, Row)

    @precondition(lambda self: self.loop is not None)
    @rule()
    def close(self) -> None:
        assert self.loop is not None
        self.loop.close()
        self.loop = None

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if self.loop is None:
            return
        for table in (*TABLES, "log"):
            for prefix in PREFIXES:
                call = self._scan(table, prefix)
                assert self.loop.read(call) == self.model.scan(table, prefix, Row)

    def _scan(self, table: str, prefix: bytes) -> Callable[[], list[tuple[bytes, Row]]]:
        return lambda: self.store.scan(table, prefix, Row)

    def teardown(self) -> None:
        if self.loop is not None:
            self.loop.close()


def machine(make: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """Return a state machine that compares what `make` makes with a model.

    Args:
        make: Returns a store that was never opened, on empty ground, at each call.
    """

    class Machine(JournalMachine):
        def make(self) -> Store:
            return make()

    return Machine
