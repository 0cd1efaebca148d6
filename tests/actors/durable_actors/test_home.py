"""Finding, recovering, waking and passivating durable actors."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace, new_class
from typing import Any, Never

import pytest
import trio
import trio.testing

from trouper import (
    Actor,
    Context,
    Decision,
    DurableActor,
    LmdbStore,
    MemoryStore,
    Request,
    Tell,
    applies,
    decides,
    handles,
    open_system,
)
from trouper.actors import Terminated, inspect
from trouper.errors import (
    ActorCrashed,
    ActorMismatch,
    ActorStopped,
    CorruptRecord,
    OutcomeUnknown,
    ShuttingDown,
    StartFailed,
    StoreClosed,
    ValueRefused,
)
from trouper.store import HISTORY, Tx, head_key, read_head, record, upcaster


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


def paths(system: Any) -> list[str]:
    return [node.name for node in system.tree().children if node.kind == "actor"]


# --- one actor per key ----------------------------------------------------------------------------


@pytest.mark.proves("Durable actors: one actor per key")
async def test_a_key_has_one_actor_however_many_ask_for_it(till: SimpleNamespace) -> None:
    found: list[Any] = []
    async with open_system("shop") as system:

        async def find() -> None:
            found.append(await system.actor(till.Counting, "a"))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(find)
        assert len({id(ref) for ref in found}) == 1
        assert found[0] is await system.actor(till.Counting, "a")
        assert await system.actor(till.Counting, "b") is not found[0]
        assert (found[0].name, found[0].path) == ("Counting#a", "/shop/Counting#a")


@pytest.mark.proves("Durable actors: one actor per key")
async def test_a_key_belongs_to_one_class_in_memory_and_in_the_journal(
    till: SimpleNamespace,
) -> None:
    class Other(DurableActor[int], name="other"):
        initial = 0

        @decides(till.Read)
        def read(self, state: int, message: till.Read) -> Decision[Never, int]:  # type: ignore[name-defined]
            return Decision(reply=state)

    store = MemoryStore()
    async with store:
        async with open_system("shop", store=store) as system:
            ref = await system.actor(till.Counting, "a")
            with pytest.raises(ActorMismatch, match="is a Counting"):
                await system.actor(Other, "a")
            await ref.ask(till.Add(1))
        async with open_system("shop", store=store) as system:
            with pytest.raises(ActorMismatch, match="that of a till, not of a other"):
                await system.actor(Other, "a")


@pytest.mark.parametrize("key", ["", " ", 3, "x" * 2000, "\ud800"])
async def test_a_key_that_is_none_is_refused(till: SimpleNamespace, key: Any) -> None:
    async with open_system("shop") as system:
        with pytest.raises(ValueRefused):
            await system.actor(till.Counting, key)


async def test_only_durable_classes_have_actors_by_key(till: SimpleNamespace) -> None:
    class Plain(Actor):
        pass

    wrong: Any = Plain
    durable: Any = till.Counting
    async with open_system("shop") as system:
        with pytest.raises(TypeError, match="other actors are spawned"):
            await system.actor(wrong, "a")
        with pytest.raises(StartFailed, match="spawn takes an Actor class"):
            await system.spawn(durable)


@pytest.mark.proves("Durable actors: one actor per key")
async def test_a_history_is_a_stream_from_any_number_on(till: SimpleNamespace) -> None:
    store = MemoryStore()
    async with store:
        async with open_system("shop", store=store) as system:
            ref = await system.actor(till.Counting, "a")
            for n in range(200):
                await ref.send(till.Add(n))
            stream = store.records("a", after=198)
        assert [tuple(item) async for item in stream] == [
            (199, till.Put(198)),
            (200, till.Put(199)),
        ]
        assert [item.value.n async for item in inspect.records(store, "a")] == list(range(200))
        assert [item async for item in store.records("nobody")] == []
        (view,) = inspect.actors(store)
        assert (view.key, view.actor, view.records, view.snapshot) == ("a", "till", 200, 0)
        with pytest.raises(ValueError, match="after"):
            store.records("a", after=-1)


# --- recovery -------------------------------------------------------------------------------------


@pytest.mark.proves("Durable actors: recovery")
@pytest.mark.parametrize("kind", ["memory", "lmdb"])
async def test_an_actor_has_recovered_before_its_first_message(
    till: SimpleNamespace, kind: str, tmp_path: Any
) -> None:
    store: Any = MemoryStore() if kind == "memory" else LmdbStore(tmp_path / "store")

    class Snapping(till.Counting, name="snapping", snapshot_every=7):  # type: ignore[call-arg, misc, name-defined]
        pass

    total = 0
    for life in range(4):
        async with open_system("shop", store=store) as system:
            ref: Any = await system.actor(Snapping, "a")
            assert await ref.ask(till.Read()) == total
            for _ in range(10):
                total += life
                assert await ref.ask(till.Add(life)) == total
            (view,) = inspect.actors(system.store)
            assert view.records == 10 * (life + 1)
            assert view.snapshot == view.records // 7 * 7


@pytest.mark.proves("Durable actors: recovery")
@pytest.mark.parametrize("point", ["before_commit", "committed", "acknowledged"])
@pytest.mark.parametrize("commits", range(5))
async def test_after_a_crash_at_any_commit_what_was_answered_is_there(
    till: SimpleNamespace, point: str, commits: int
) -> None:
    seen = 0

    def probe(where: str) -> None:
        nonlocal seen
        if where == point:
            seen += 1
            if seen == commits + 1:
                store.crash()

    store = MemoryStore(probe=probe)
    answered: list[int] = []
    with suppress(StoreClosed), trio.CancelScope() as gone:
        async with open_system("shop", store=store, shutdown=0) as system:
            ref = await system.actor(till.Counting, "a")

            async def client() -> None:
                with suppress(OutcomeUnknown, ActorStopped):
                    for n in range(4):
                        answered.append(await ref.ask(till.Add(1, None, f"id-{n}")))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(client)
                await settled()
                gone.cancel()
    store.probe = None
    async with open_system("shop", store=store) as system:
        ref = await system.actor(till.Counting, "a")
        total = await ref.ask(till.Read())
        assert answered == list(range(1, len(answered) + 1))
        assert len(answered) <= total <= len(answered) + 1
        for n in range(4):  # every message again: none counts twice, each has its answer
            assert await ref.ask(till.Add(1, None, f"id-{n}")) == n + 1
        assert await ref.ask(till.Read()) == 4


def lose_a_record(tx: Tx) -> None:
    """Damage the history of ``a``."""
    head = read_head(tx, "a")
    assert head is not None
    tx.put(HISTORY, head_key("a"), replace(head, tail=head.tail[1:]))


async def test_one_that_cannot_be_read_fails_alone(till: SimpleNamespace) -> None:
    store = MemoryStore()
    async with store:
        async with open_system("shop", store=store) as system:
            for key in "ab":
                await (await system.actor(till.Counting, key)).ask(till.Add(1))
        await store.commit(lose_a_record)
        async with open_system("shop", store=store) as system:
            with pytest.raises(StartFailed, match="did not recover") as failed:
                await system.actor(till.Counting, "a")
            assert isinstance(failed.value.__cause__, CorruptRecord)
            assert await (await system.actor(till.Counting, "b")).ask(till.Read()) == 1
            assert paths(system) == ["Counting#b"]


async def test_a_record_that_nothing_applies_any_more_is_named(till: SimpleNamespace) -> None:
    store = MemoryStore()
    async with store:
        async with open_system("shop", store=store) as system:
            await (await system.actor(till.Counting, "a")).ask(till.Add(1))

        class Later(DurableActor[till.Till], name="till"):  # type: ignore[name-defined]
            initial = till.Till(0, 0)

        async with open_system("shop", store=store) as system:
            with pytest.raises(StartFailed) as failed:
                await system.actor(Later, "a")
            assert "@applies(Put)" in str(failed.value.__cause__)


@pytest.mark.proves("Durable actors: upcasters and snapshots")
async def test_records_and_snapshots_of_older_versions_are_raised(till: SimpleNamespace) -> None:
    @dataclass(frozen=True, slots=True)
    class Paid:
        cents: int

    @dataclass(frozen=True, slots=True)
    class Purse:
        cents: int

    @dataclass(frozen=True, slots=True)
    class Pay(Request[Any]):
        cents: int

    def purse(paid: Any, purse: Any, empty: Any) -> Any:
        class Wallet(DurableActor[purse], name="wallet", snapshot_every=2):
            initial = empty

            @decides(Pay)
            def pay(self, state: purse, message: Pay) -> Decision[paid, Any]:
                return Decision([paid(message.cents)], reply=state)

            @applies(paid)
            def received(self, state: purse, record: paid) -> purse:
                if hasattr(state, "currency"):
                    return purse(state.cents + record.cents, record.currency)
                return purse(state.cents + record.cents)

        return Wallet

    store = MemoryStore()
    old_paid, old_purse = record("test.paid")(Paid), record("test.purse")(Purse)
    async with open_system("shop", store=store) as system:
        ref = await system.actor(purse(old_paid, old_purse, old_purse(0)), "a")
        for _ in range(3):
            await ref.ask(Pay(5))

    @dataclass(frozen=True, slots=True)
    class PaidIn:
        cents: int
        currency: str = "EUR"

    @dataclass(frozen=True, slots=True)
    class PurseOf:
        cents: int
        currency: str

    PaidIn.__qualname__, PurseOf.__qualname__ = Paid.__qualname__, Purse.__qualname__
    new_paid = record("test.paid", version=2)(PaidIn)
    new_purse = record("test.purse", version=2)(PurseOf)

    @upcaster("test.paid", 1)
    def add_currency(cents: int) -> list[Any]:
        return [cents, "DEM"]

    upcaster("test.purse", 1)(lambda cents: [cents, "ATS"])
    async with open_system("shop", store=store) as system:
        ref = await system.actor(purse(new_paid, new_purse, new_purse(0, "EUR")), "a")
        assert await ref.ask(Pay(0)) == new_purse(15, "DEM")  # snapshot at 2, then record 3
        values = [item.value async for item in store.records("a")]
        assert values == [new_paid(5, "DEM")] * 3 + [new_paid(0)]


# --- idempotency ----------------------------------------------------------------------------------


@pytest.mark.proves("Durable actors: idempotency id")
async def test_a_message_that_comes_again_gets_the_recorded_reply(till: SimpleNamespace) -> None:
    store = MemoryStore()
    for life in range(2):
        async with open_system("shop", store=store) as system:
            ref = await system.actor(till.Counting, "a")
            assert await ref.ask(till.Add(5, None, "one")) == 5
            assert await ref.ask(till.Add(1)) == 6 + life
            assert await ref.ask(till.Add(5, None, "one")) == 5


# --- passivation ----------------------------------------------------------------------------------


@pytest.fixture
def napping(till: SimpleNamespace) -> Any:
    class Napping(till.Counting, name="napping", passivate_after=10.0):  # type: ignore[call-arg, misc, name-defined]
        pass

    return Napping


@pytest.mark.proves("Durable actors: passivation")
async def test_an_idle_one_leaves_memory_and_its_ref_wakes_it(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    async with open_system("shop") as system:
        ref: Any = await system.actor(napping, "a")
        await ref.ask(till.Add(1))
        actor = weakref.ref(ref.target.units.actor)
        await trio.sleep(9)
        assert paths(system) == ["Napping#a"]
        await trio.sleep(2)
        gc.collect()
        assert (actor(), paths(system)) == (None, [])
        assert await system.actor(napping, "a") is ref
        for wake in (ref.tell, ref.send, ref.ask):
            await trio.sleep(20)
            assert paths(system) == []
            outcome: Any = wake(till.Add(1))
            if wake != ref.tell:
                await outcome
            await settled()
            assert paths(system) == ["Napping#a"]
        assert await ref.ask(till.Read()) == 4
        assert ref.incarnation == 1


@pytest.mark.proves("Durable actors: passivation")
async def test_nothing_is_left_of_one_whose_ref_nobody_holds(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(napping, "a")
        await ref.ask(till.Add(1))
        gone = weakref.ref(ref)
        del ref
        await trio.sleep(5)
        gc.collect()
        assert gone() is not None
        await trio.sleep(20)
        gc.collect()
        assert gone() is None
        assert await (await system.actor(napping, "a")).ask(till.Read()) == 1


async def test_a_busy_one_stays(
    till: SimpleNamespace, napping: Any, disk: Any, autojump_clock: object
) -> None:
    async with open_system("shop", store=disk) as system:
        ref = await system.actor(napping, "a")
        for _ in range(3):
            await trio.sleep(6)
            ref.tell(till.Add(1))
        await settled()
        assert paths(system) == ["Napping#a"]
        disk.holds = True
        ref.tell(till.Add(1))
        await trio.sleep(50)
        assert paths(system) == ["Napping#a"]
        disk.release()
        await trio.sleep(21)
        assert paths(system) == []


async def test_one_that_is_asleep_can_be_stopped_and_spawned_again(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    async with open_system("shop") as system:
        for how in ("stop", "drain", "kill"):
            ref = await system.actor(napping, "a")
            await trio.sleep(30)
            getattr(ref, how)()
            assert (await ref.stopped()).kind == {"stop": "stopped"}.get(how, f"{how}ed")
            with pytest.raises(ActorStopped):
                await ref.ask(till.Read())
            assert await system.actor(napping, "a") is not ref


async def test_one_that_is_asleep_ends_with_the_system(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(napping, "a")
        await trio.sleep(30)
    assert (await ref.stopped()).kind == "shutdown"
    with pytest.raises(ActorStopped):
        await ref.ask(till.Read())
    ref.tell(till.Add(1))
    assert system.dead_letters.total == 1


async def test_mail_that_wakes_one_is_handled_though_the_block_is_left_or_it_is_drained(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    store = MemoryStore()
    async with store:
        for drains in (False, True):
            async with open_system("shop", store=store) as system:
                ref = await system.actor(napping, "a")
                await trio.sleep(30)
                assert paths(system) == []
                ref.tell(till.Add(1))
                if drains:
                    ref.drain()
                    assert (await ref.stopped()).kind == "drained"
        assert len([item async for item in store.records("a")]) == 2


async def test_waking_one_that_cannot_be_read_fails_who_asks_and_nobody_else(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(napping, "a")
        await ref.ask(till.Add(1))
        await trio.sleep(30)
        await system.store.commit(lose_a_record)
        with pytest.raises(ActorCrashed) as failed:
            await ref.ask(till.Read())
        assert isinstance(failed.value.__cause__, CorruptRecord)
        assert (await ref.stopped()).kind == "crashed"


async def test_a_stop_while_it_recovers_wins(
    till: SimpleNamespace, napping: Any, autojump_clock: object
) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(napping, "a")
        await trio.sleep(30)
        ref.tell(till.Add(1))
        ref.stop()
        assert (await ref.stopped()).kind == "stopped"
        assert [letter.reason for letter in system.dead_letters] == ["stopped"]
        again = await system.actor(napping, "a")
        await trio.sleep(30)
        again.tell(till.Add(1))
        again.stop()
        other = await system.actor(napping, "a")  # who waits for one that is stopped gets the next
        assert other is not again
        again = other
        assert await again.ask(till.Read()) == 0


async def test_a_caller_that_goes_away_does_not_stop_the_recovery(till: SimpleNamespace) -> None:
    async with open_system("shop") as system:
        with trio.CancelScope() as scope:
            scope.cancel()
            await system.actor(till.Counting, "a")
        await settled()
        assert paths(system) == ["Counting#a"]


async def test_nothing_starts_while_the_system_closes(till: SimpleNamespace) -> None:
    refused: list[BaseException] = []

    class Late(Actor):
        async def stopping(self, ctx: Context[Any], why: object) -> None:
            try:
                await system.actor(till.Counting, "late")
            except ShuttingDown as error:
                refused.append(error)

    async with open_system("shop") as system:
        await system.actor(till.Counting, "a")
        await system.spawn(Late)
    assert len(refused) == 1


async def test_a_durable_actor_is_watched_as_any_other(
    till: SimpleNamespace, autojump_clock: object
) -> None:
    ended: list[Terminated] = []

    class Watcher(Actor):
        def __init__(self, ref: Any) -> None:
            self.ref = ref

        async def started(self, ctx: Context[Any]) -> None:
            ctx.watch(self.ref)

        @handles(Terminated)
        def over(self, message: Terminated) -> None:
            ended.append(message)

    async with open_system("shop") as system:
        ref = await system.actor(till.Counting, "a")
        await system.spawn(Watcher, ref)
        ref.stop()
        await settled()
        assert [(item.ref, item.why.kind) for item in ended] == [(ref, "stopped")]


# --- snapshots of another class -------------------------------------------------------------------


@record("test.home.shape")
@dataclass(frozen=True, slots=True)
class Shape:
    n: int = 0


@record("test.home.closed")
@dataclass(frozen=True, slots=True)
class ClosedShape(Shape):
    pass


@record("test.home.step")
@dataclass(frozen=True, slots=True)
class Step:
    n: int


@dataclass(frozen=True, slots=True)
class Walk(Request[str]):
    n: int


def walker(state: Any, after: Any) -> Any:
    class Walker(DurableActor[Any], name="walker", snapshot_every=1):
        initial = state

        @decides(Walk)
        def walk(self, state: Any, message: Walk) -> Decision[Step, str]:
            return Decision([Step(message.n)] if message.n else [], reply=repr(state))

        @applies(Step)
        def step(self, state: Any, record: Step) -> Any:
            return after(state, record.n)

    return Walker


async def reply(store: MemoryStore, cls: Any, *numbers: int) -> str:
    async with open_system("s", store=store) as system:
        ref = await system.actor(cls, "a")
        return [str(await ref.ask(Walk(n))) for n in numbers][-1]


async def test_a_state_may_be_of_any_class_below_the_declared_one() -> None:
    class Walker(DurableActor[Shape, Walk], name="walker", snapshot_every=1):
        initial = Shape()

        @decides(Walk)
        def walk(self, state: Shape, message: Walk) -> Decision[Step, str]:
            return Decision([Step(message.n)] if message.n else [], reply=repr(state))

        @applies(Step)
        def step(self, state: Shape, record: Step) -> Shape:
            kind = Shape if isinstance(state, ClosedShape) else ClosedShape
            return kind(state.n + record.n)

    store = MemoryStore()
    assert await reply(store, Walker, 1, 0) == "ClosedShape(n=1)"
    assert await reply(store, Walker, 0) == "ClosedShape(n=1)"
    assert await reply(store, Walker, 2, 0) == "Shape(n=3)"
    assert await reply(store, Walker, 0) == "Shape(n=3)"


async def test_a_snapshot_of_another_class_gives_way_to_the_whole_history(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    numbers = walker(0, lambda state, n: state + n)
    assert await reply(store, numbers, 1, 2, 3, 0) == "6"
    shapes = walker(Shape(), lambda state, n: Shape(state.n + n))
    assert await reply(store, shapes, 0) == "Shape(n=6)"
    assert "holds a int, and its state is a Shape now: recovering from all 3 records" in caplog.text
    caplog.clear()
    assert await reply(store, shapes, 4, 0) == "Shape(n=10)"
    caplog.clear()  # from here on there is a snapshot of the new class
    assert await reply(store, shapes, 0) == "Shape(n=10)"
    assert caplog.text == ""


@pytest.mark.parametrize("is_asleep", [False, True])
async def test_a_ref_on_another_thread_is_refused_and_keeps_nothing(
    till: SimpleNamespace, is_asleep: bool, autojump_clock: trio.testing.MockClock
) -> None:
    actor: Any = till.Counting
    sleeper: Any = new_class("Sleeper", (actor,), {"name": "sleeper", "passivate_after": 1.0})
    async with open_system("shop") as system:
        ref: Any = await system.actor(sleeper, "a")
        await ref.ask(till.Add(1))
        if is_asleep:
            await trio.sleep(2)
        assert paths(system) == ([] if is_asleep else ["Sleeper#a"])
        with pytest.raises(RuntimeError, match=r"go through trio\.from_thread\.run_sync"):
            await trio.to_thread.run_sync(ref.tell, till.Add(10))
        with trio.fail_after(5):
            assert await ref.ask(till.Read()) == 1


async def test_one_that_sleeps_at_once_does_not_sleep_over_its_mail(
    till: SimpleNamespace, mock_clock: trio.testing.MockClock
) -> None:
    class Brief(till.Counting, name="brief", passivate_after=0):  # type: ignore[misc, name-defined, call-arg]
        pass

    async with open_system("shop") as system:
        ref: Any = await system.actor(Brief, "a")
        for n in range(60):
            ref.tell(till.Add(1))
            assert await ref.ask(till.Add(1)) == 2 * n + 2
            for _ in range(n % 7):
                await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        assert paths(system) == []  # and asleep it is


async def test_what_is_told_is_not_kept_in_memory(till: SimpleNamespace) -> None:
    async with open_system("shop") as system:
        ref: Any = await system.actor(till.Counting, "a")
        ref.tell(till.Forward([Tell(ref, till.Add(1))]))
        await ref.ask(till.Add(1, ["large"]))
        await trio.testing.wait_all_tasks_blocked()
        unit = ref.target.units._spare
        assert (unit.rows, unit.answers, unit.bodies, unit.state) == ([], [], [], None)
