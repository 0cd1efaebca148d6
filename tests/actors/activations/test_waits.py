"""Durable work that would wait for itself is told so; what cannot be read harms nothing else."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from trouper import Activation, ActorSystem, AskCycle, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations import ActivationRow
from trouper.errors import CorruptRecord, ValueRefused
from trouper.store import LmdbStore, MemoryStore, Store

SYSTEM: list[ActorSystem] = []


@effect
async def joins(key: str) -> str:
    """Wait, from inside of an effect, for the activation of that key."""
    try:
        return await SYSTEM[0].run(deeper if key == "top" else outer, key, key=key)
    except AskCycle as cycle:
        return " -> ".join(cycle.path)


@durable
async def outer(act: Activation, key: str) -> str:
    return await act.call(joins, key)


@durable
async def deeper(act: Activation, key: str) -> str:
    return await act.call(outer, key)


async def operates(key: str, other: str) -> str:
    """Run another operation from inside of one."""
    operation = await SYSTEM[0].operation(other, None)
    try:
        return await operation.run(operates, key)
    except AskCycle as cycle:
        return " -> ".join(cycle.path)


@pytest.fixture
async def system() -> Any:
    async with open_system("t") as opened:
        SYSTEM[:] = [opened]
        yield opened
    SYSTEM.clear()


async def test_an_effect_that_waits_for_its_own_activation_is_refused(system: ActorSystem) -> None:
    with trio.fail_after(5):
        said = await system.run(outer, "self", key="self")
    assert said == "activation self#0/0 -> activation self -> activation self#0/0"


async def test_an_effect_that_waits_for_an_ancestor_is_refused(system: ActorSystem) -> None:
    with trio.fail_after(5):
        assert "activation top" in await system.run(deeper, "top", key="top")


async def test_two_activations_whose_effects_wait_for_each_other_are_refused(
    system: ActorSystem,
) -> None:
    said: list[str] = []

    @effect(name="meets")
    async def meets(mine: str, other: str) -> str:
        both.add(mine)
        while len(both) < 2:
            await trio.lowlevel.checkpoint()
        try:
            return await SYSTEM[0].run(crossed, other, mine, key=other)
        except AskCycle as cycle:
            said.append(" -> ".join(cycle.path))
            return "refused"

    @durable(name="crossed")
    async def crossed(act: Activation, mine: str, other: str) -> str:
        return await act.call(meets, mine, other)

    both: set[str] = set()
    async with open_system("u", effects=[meets], activities=[crossed]) as opened:
        SYSTEM[:] = [opened]
        with trio.fail_after(5):
            one = opened.start(crossed, "a", "b", key="a")
            two = opened.start(crossed, "b", "a", key="b")
            assert [await one.result(), await two.result()] == ["refused", "refused"]
    (path,) = said  # the second to wait closes the cycle; the first gets its answer
    assert "activation a" in path
    assert "activation b" in path


@pytest.mark.parametrize("other", ["one", "two"])
async def test_an_operation_that_waits_for_itself_is_refused(
    system: ActorSystem, other: str
) -> None:
    operation = await system.operation("one", None)
    with trio.fail_after(5):
        said = await operation.run(operates, other)
    assert "operation one" in said


async def test_an_effect_may_wait_for_work_that_does_not_wait_for_it(system: ActorSystem) -> None:
    @effect(name="starts_another")
    async def starts_another() -> str:
        return await SYSTEM[0].run(plain, key="another")

    @durable(name="plain")
    async def plain(act: Activation) -> str:
        await act.sleep(0)
        return "answer"

    @durable(name="asks")
    async def asks(act: Activation) -> str:
        return await act.call(starts_another)

    async with open_system("u", effects=[starts_another], activities=[plain, asks]) as opened:
        SYSTEM[:] = [opened]
        with trio.fail_after(5):
            assert await opened.run(asks, key="asking") == "answer"


class OneBadRow:
    """A store in which the row of one activation cannot be read."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def __aenter__(self) -> OneBadRow:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._store.__aexit__(*exc)

    def get(self, table: str, key: bytes, kind: Any) -> Any:
        row = self._store.get(table, key, kind)
        if kind is ActivationRow and row is not None and row.key == self._key:
            raise CorruptRecord(f"{self._key} cannot be read", table=table, key=self._key)
        return row


async def test_a_row_that_cannot_be_read_is_reported_and_the_others_resume(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, gate, started = MemoryStore(), trio.Event(), trio.Event()

    @effect(name="waits")
    async def waits() -> str:
        started.set()
        await gate.wait()
        return "done"

    @durable(name="work")
    async def work(act: Activation) -> str:
        return await act.call(waits)

    options: dict[str, Any] = {"effects": [waits], "activities": [work], "shutdown": 0}
    async with open_system("t", store=store, **options) as system:
        system.start(work, key="bad")
        system.start(work, key="good")
        await started.wait()
    gate.set()
    caplog.set_level(logging.ERROR, logger="trouper.journal")
    bad: Any = OneBadRow(store, "bad")
    async with open_system("t", store=bad, **options) as system:
        with trio.fail_after(5):
            assert await system.run(work, key="good") == "done"
    assert [record.message for record in caplog.records] == ["passed over: bad cannot be read"]
    async with store:
        assert {a.key: a.state for a in inspect.activations(store)} == {
            "bad": "running",
            "good": "completed",
        }


async def test_a_key_of_a_caller_is_bounded(system: ActorSystem) -> None:
    with pytest.raises(ValueRefused, match="more than 1024"):
        system.start(outer, "x", key="k" * 1025)


async def test_an_idle_system_does_not_wake_for_its_claims(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Ticks(trio.abc.Instrument):
        count = 0

        def before_io_wait(self, timeout: float) -> None:
            self.count += 1

    ticks = Ticks()
    async with open_system("t"):
        trio.lowlevel.add_instrument(ticks)
        await trio.sleep(30 * 24 * 3600)
        trio.lowlevel.remove_instrument(ticks)
    assert ticks.count < 20


def test_effects_are_listed_by_activation_in_the_order_of_steps(tmp_path: Path) -> None:
    program = tmp_path / "steps.py"
    program.write_text(
        "import sys, trio\n"
        "from trouper import durable, effect, open_system\n"
        "@effect\n"
        "async def one(n: int) -> int: return n\n"
        "@durable\n"
        "async def many(act, n: int) -> None:\n"
        "    for i in range(n): await act.call(one, i)\n"
        "async def main():\n"
        "    async with open_system('t', store=sys.argv[1]) as system:\n"
        "        await system.run(many, 12, key='k')\n"
        "trio.run(main)\n"
    )
    subprocess.run([sys.executable, str(program), str(tmp_path / "s")], check=True, timeout=60)

    async def read() -> list[Any]:
        async with LmdbStore(tmp_path / "s") as store:
            return [view.arguments[0] for view in inspect.effects(store)]

    assert trio.run(read) == list(range(12))
