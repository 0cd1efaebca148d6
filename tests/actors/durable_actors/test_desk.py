"""The shell of a durable actor: what is released when, and how a life ends and goes on."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, Never

import pytest
import trio
import trio.testing

from trouper import (
    Actor,
    Context,
    Decision,
    MemoryStore,
    Request,
    Tell,
    handles,
    open_system,
)
from trouper.actors.durable_actors._unit import UNIT_RECORDS
from trouper.errors import (
    ActorCrashed,
    ActorStopped,
    FenceMoved,
    MailboxFull,
    OutcomeUnknown,
    Reject,
    RestartLimitReached,
    StoreFull,
    StoreLost,
    ValueRefused,
)
from trouper.mailbox import Ask
from trouper.supervision import one_for_all


class Heard(Request[list[Any]]):
    pass


class Listener(Actor):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    @handles(str)
    def hear(self, message: str) -> None:
        self.heard.append(message)

    @handles(Heard)
    def tell(self, message: Heard) -> list[Any]:
        return self.heard


class Asker:
    """Asks in a task of its own, and keeps what came."""

    def __init__(self, nursery: trio.Nursery, ref: Any, message: Any) -> None:
        self.answer: Any = None
        self.scope = trio.CancelScope()
        nursery.start_soon(self._ask, ref, message)

    async def _ask(self, ref: Any, message: Any) -> None:
        with self.scope:
            try:
                self.answer = await ref.ask(message)
            except Exception as error:
                self.answer = error


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


# --- released when durable ------------------------------------------------------------------------


@pytest.mark.proves("Durable actors: replies are released when durable")
async def test_a_reply_and_its_tells_wait_for_the_commit(till: SimpleNamespace, disk: Any) -> None:
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        listener = await system.spawn(Listener)
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        asker = Asker(nursery, ref, till.Forward([Tell(listener, "paid")]))
        await settled()
        assert asker.answer is None
        assert await listener.ask(Heard()) == []
        assert [item async for item in system.store.records("a")] == []
        disk.release()
        await settled()
        assert asker.answer == 1
        assert await listener.ask(Heard()) == ["paid"]


@pytest.mark.proves("Durable actors: replies are released when durable")
async def test_no_task_waits_for_a_commit(till: SimpleNamespace, disk: Any) -> None:
    async with open_system("shop", store=disk) as system:
        refs = [await system.actor(till.Counting, f"k{i}") for i in range(100)]
        disk.holds = True
        for ref in refs:
            ref.tell(till.Add(1))
        await settled()
        workers = system.statistics().dispatcher
        assert (disk.submitted, workers.workers - workers.idle) == (100, 0)
        assert workers.workers <= 2
        disk.release()


@pytest.mark.proves("Durable actors: at most one unit in flight")
async def test_what_comes_during_a_flush_shares_the_next_unit(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk) as system:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        for _ in range(500):
            ref.tell(till.Add(1))
            if ref.statistics().depth > 100:
                await settled()
        await settled()
        assert (disk.submitted, ref.statistics().depth) == (1, 0)  # one in flight, the rest open
        disk.release()
        assert await ref.ask(till.Read()) == 500
        assert disk.submitted == 2


@pytest.mark.proves("Durable actors: at most one unit in flight")
async def test_a_full_unit_holds_mail_back_until_the_other_has_landed(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk, mailbox=4000) as system:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        ref.tell(till.Add(1))
        await settled()
        for _ in range(3000):
            ref.tell(till.Add(1))
        await settled()
        assert (disk.submitted, ref.statistics().depth) == (1, 3000 - 1024)
        disk.release()
        assert await ref.ask(till.Read()) == 3001
        assert disk.submitted == 4


async def test_an_asker_that_goes_away_takes_nothing_back(till: SimpleNamespace, disk: Any) -> None:
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        asker = Asker(nursery, ref, till.Add(5))
        await settled()
        asker.scope.cancel()
        await settled()
        disk.release()
        assert await ref.ask(till.Read()) == 5
        assert system.statistics().late_replies == 1


async def test_a_refused_value_belongs_to_its_message(till: SimpleNamespace) -> None:
    async with open_system("shop") as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        notes = [None, (1, 2), None, object(), "fine"]
        askers = [Asker(nursery, ref, till.Add(1, note)) for note in notes]
        await settled()
        kinds = [type(asker.answer) for asker in askers]
        assert kinds == [int, ValueRefused, int, ValueRefused, int]
        assert askers[1].answer.path == "test.put.note"
        assert await ref.ask(till.Read()) == 3
        ref.tell(till.Add(1, (1, 2)))
        await settled()
        assert [letter.message.note for letter in system.dead_letters] == [(1, 2)]


async def test_a_reject_keeps_the_actor(
    till: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trouper.actors")
    async with open_system("shop") as system:
        ref = await system.actor(till.Counting, "a")
        with pytest.raises(Reject, match="not with 0"):
            await ref.ask(till.Deny())
        ref.tell(till.Deny())
        assert await ref.ask(till.Add(1)) == 1
        assert ref.incarnation == 1
        assert "rejected Deny" in caplog.text


async def test_a_tell_that_finds_no_room_is_a_dead_letter(till: SimpleNamespace) -> None:
    async with open_system("shop") as system:
        small = await system.actor(till.Counting, "small")
        ref = await system.actor(till.Counting, "a")
        wrong: Any = "not handled there"
        assert await ref.ask(till.Forward([Tell(small, wrong)])) == 1
        (letter,) = system.dead_letters
        assert (letter.target, letter.sender) == (small.path, ref.path)


# --- a crash in a rule ----------------------------------------------------------------------------


@pytest.mark.proves("Durable actors: decide and apply")
async def test_a_bug_in_a_rule_costs_its_message_and_nothing_else(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        askers: list[Asker] = []
        for message in (till.Add(1), till.Add(2), till.Fail(), till.Add(4), till.Read()):
            askers.append(Asker(nursery, ref, message))
            await settled()  # in this order: trio shuffles the tasks of one tick
        got = [asker.answer for asker in askers]
        assert isinstance(got.pop(2), ActorCrashed)
        assert got == [None] * 4
        disk.release()
        assert await ref.ask(till.Read()) == 7
        await settled()
        assert [asker.answer for asker in askers if asker is not askers[2]] == [1, 3, 7, 7]
        assert ref.incarnation == 2


async def test_a_bug_that_comes_back_escalates(
    till: SimpleNamespace, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(RestartLimitReached) as failed:
        async with open_system("shop") as system:
            ref = await system.actor(till.Counting, "a")
            for _ in range(5):
                ref.tell(till.Fail())
            await ref.stopped()
    assert isinstance(failed.value.__cause__, ValueError)


# --- a write that fails ---------------------------------------------------------------------------


@pytest.mark.proves("Durable actors: a failed write")
async def test_a_write_that_fails_drops_both_units_and_the_actor_recovers(
    till: SimpleNamespace, disk: Any, caplog: pytest.LogCaptureFixture
) -> None:
    error = StoreFull("no room")
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        assert await ref.ask(till.Add(1)) == 1
        disk.holds, disk.failure = True, error
        flying = [Asker(nursery, ref, till.Add(10)) for _ in range(3)]
        await settled()
        opened = [Asker(nursery, ref, message) for message in (till.Add(100), till.Read())]
        await settled()
        disk.release()
        while flying[0].answer is None:
            await trio.lowlevel.checkpoint()
        late = Asker(nursery, ref, till.Add(5))  # it had not begun: its turn is in the next life
        await settled()
        lost = [*flying, *opened]
        for asker in lost:
            assert isinstance(asker.answer, OutcomeUnknown)
            assert asker.answer.__cause__ is error
        assert len({id(asker.answer) for asker in lost}) == 5
        assert late.answer == 6
        assert [item.value.n async for item in system.store.records("a")] == [1, 5]
        assert (ref.incarnation, disk.submitted) == (2, 3)
        assert "could not write and recovers" in caplog.text


async def test_a_disk_that_stays_full_costs_each_message_and_not_the_system(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk) as system:
        ref = await system.actor(till.Counting, "a")
        for _ in range(20):
            disk.failure = StoreFull("no room")
            with pytest.raises(OutcomeUnknown):
                await ref.ask(till.Add(1))
            assert await ref.ask(till.Read()) == 0
        assert await ref.ask(till.Add(1)) == 1


@pytest.mark.proves("Durable actors: a failed write")
@pytest.mark.parametrize("lands", [False, True], ids=["not written", "written"])
async def test_a_store_that_is_lost_ends_the_system_and_the_next_one_recovers(
    till: SimpleNamespace, disk: Any, lands: bool
) -> None:
    error = StoreLost("EIO")
    askers: list[Asker] = []
    with pytest.raises(StoreLost):
        async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
            ref = await system.actor(till.Counting, "a")
            assert await ref.ask(till.Add(1)) == 1
            disk.failure, disk.lands = error, lands
            for message in (till.Add(10), till.Add(20), till.Add(30)):
                askers.append(Asker(nursery, ref, message))
            await settled()
    for asker in askers:
        assert isinstance(asker.answer, OutcomeUnknown)
        assert asker.answer.__cause__ is error
    async with open_system("shop", store=disk) as system:
        ref = await system.actor(till.Counting, "a")
        assert await ref.ask(till.Read()) == (61 if lands else 1)


async def test_a_drain_that_meets_a_full_disk_says_so_and_ends(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        disk.holds, disk.failure = True, StoreFull("no room")
        asker = Asker(nursery, ref, till.Add(1))
        await settled()
        ref.drain()
        await settled()
        disk.release()
        await ref.stopped()
        await settled()
        assert isinstance(asker.answer, OutcomeUnknown)


@pytest.mark.proves("Durable actors: FenceMoved")
async def test_a_second_writer_of_one_key_is_fenced_off(
    till: SimpleNamespace, autojump_clock: object
) -> None:
    store = MemoryStore()
    async with (
        store,
        open_system("one", store=store) as first,
        open_system("two", store=store) as second,
    ):
        one = await first.actor(till.Counting, "a")
        two = await second.actor(till.Counting, "a")
        assert await one.ask(till.Add(1)) == 1
        with pytest.raises(OutcomeUnknown) as refused:
            await two.ask(till.Add(10))
        assert isinstance(refused.value.__cause__, FenceMoved)
        assert [item.value.n async for item in store.records("a")] == [1]
        assert await two.ask(till.Add(10)) == 11  # it has recovered, and owns the key now
        with pytest.raises(OutcomeUnknown):
            await one.ask(till.Add(1))


# --- the ends -------------------------------------------------------------------------------------


async def test_a_kill_awaits_the_unit_in_flight_and_drops_the_open_one(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        flying = Asker(nursery, ref, till.Add(1))
        await settled()
        opened = Asker(nursery, ref, till.Add(2))
        await settled()
        ref.kill()
        queued = Asker(nursery, ref, till.Add(4))
        await settled()
        assert flying.answer is None
        assert isinstance(opened.answer, ActorStopped)
        assert "did not happen" in str(opened.answer)
        assert isinstance(queued.answer, ActorStopped)
        disk.release()
        assert (await ref.stopped()).kind == "killed"
        assert flying.answer == 1
        again = await system.actor(till.Counting, "a")
        assert again is not ref
        assert await again.ask(till.Read()) == 1


@pytest.mark.parametrize("how", ["stop", "drain"])
async def test_a_stop_waits_until_everything_decided_is_durable(
    till: SimpleNamespace, disk: Any, how: str
) -> None:
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        askers = [Asker(nursery, ref, till.Add(1))]
        await settled()
        askers.append(Asker(nursery, ref, till.Add(2)))
        await settled()
        getattr(ref, how)()
        await settled()
        disk.release()
        await ref.stopped()
        await settled()
        assert [asker.answer for asker in askers] == [1, 3]


async def test_a_stop_drops_what_is_queued_and_a_drain_does_not(till: SimpleNamespace) -> None:
    async with open_system("shop", mailbox=4000) as system:
        for how, left in (("stop", 0), ("drain", 3000)):
            ref = await system.actor(till.Counting, how)
            for _ in range(3000):
                ref.tell(till.Add(1))
            getattr(ref, how)()
            await ref.stopped()
            assert len([item async for item in system.store.records(how)]) == left


async def test_a_disk_that_hangs_ends_in_outcome_unknown_within_the_budget(
    till: SimpleNamespace, disk: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_system("shop", store=disk, shutdown=3) as system:
        async with trio.open_nursery() as nursery:
            ref = await system.actor(till.Counting, "a")
            disk.holds = True
            asker = Asker(nursery, ref, till.Add(1))
            await settled()
            before = trio.current_time()
            ref.stop()
            await ref.stopped()
            assert trio.current_time() - before == pytest.approx(3, abs=0.1)
        assert isinstance(asker.answer, OutcomeUnknown)
        disk.release()  # its verdict comes after the end, and concerns nobody
        await settled()


async def test_leaving_the_block_drains_and_keeps_everything(till: SimpleNamespace) -> None:
    store = MemoryStore()
    async with store:
        async with open_system("shop", store=store) as system:
            ref = await system.actor(till.Counting, "a")
            for _ in range(300):
                ref.tell(till.Add(1))
        assert len([item async for item in store.records("a")]) == 300


async def test_a_request_that_was_given_up_before_its_turn_is_not_decided(
    till: SimpleNamespace,
) -> None:
    async with open_system("shop") as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        asker = Asker(nursery, ref, till.Add(1))
        await trio.lowlevel.checkpoint()
        asker.scope.cancel()
        await settled()
        assert await ref.ask(till.Read()) in (0, 1)


# --- odds and ends --------------------------------------------------------------------------------


async def test_reads_during_a_flush_that_hangs_are_bounded(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk, mailbox=10) as system:
        async with trio.open_nursery() as nursery:
            ref = await system.actor(till.Counting, "a")
            disk.holds = True
            ref.tell(till.Add(1))
            await settled()
            asked = 0
            while ref.statistics().depth == 0:  # each is given up, and leaves its answer behind
                asked += 1
                asker = Asker(nursery, ref, till.Read())
                await settled()
                asker.scope.cancel()
            assert 2 * 1024 <= asked <= 2 * 1024 + 1
            disk.release()
        assert await ref.ask(till.Read()) == 1


async def test_a_refusal_that_a_rule_keeps_is_raised_afresh_for_each(
    till: SimpleNamespace,
) -> None:
    kept = Reject("always")

    class Stubborn(till.Counting, name="stubborn"):  # type: ignore[call-arg, misc, name-defined]
        def deny(self, state: till.Till, message: till.Deny) -> Decision[Never, int] | Reject:  # type: ignore[name-defined]
            return kept

    async with open_system("shop") as system:
        ref: Any = await system.actor(Stubborn, "a")
        depths: list[int] = []
        for _ in range(3):
            with pytest.raises(Reject) as refused:
                await ref.ask(till.Deny())
            depths.append(len(refused.traceback))
        assert depths == [depths[0]] * 3


@pytest.mark.parametrize("tells", [["hello"], [Tell]], ids=["no tell", "no instance"])
async def test_what_is_no_tell_is_refused_where_it_is_decided(
    till: SimpleNamespace, tells: Any
) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(till.Counting, "a")
        with pytest.raises(ActorCrashed, match="takes Tell"):
            await ref.ask(till.Forward(tells))
        assert await ref.ask(till.Read()) == 0
    wrong: Any = "nobody"
    with pytest.raises(TypeError, match="takes a ref"):
        Tell(wrong, "hello")


async def test_it_restarts_with_its_siblings_if_that_is_the_strategy(
    till: SimpleNamespace, autojump_clock: object
) -> None:
    class Breaks(Actor):
        @handles(str)
        def hear(self, message: str) -> None:
            raise ValueError(message)

    async with open_system("shop", strategy=one_for_all()) as system:
        ref = await system.actor(till.Counting, "a")
        assert await ref.ask(till.Add(1)) == 1
        other = await system.spawn(Breaks, restart="permanent")
        for life in (2, 3):
            other.tell("boom")
            ref.tell(till.Add(1))
            await trio.sleep(30)
            assert (other.incarnation, ref.incarnation) == (life, life)
            assert await ref.ask(till.Read()) == life


async def test_a_broken_link_fails_it_and_it_comes_back(
    till: SimpleNamespace, autojump_clock: object
) -> None:
    class Linked(Actor):
        def __init__(self, to: Any) -> None:
            self.to = to

        async def started(self, ctx: Context[Any]) -> None:
            ctx.link(self.to)

        @handles(str)
        def hear(self, message: str) -> None: ...

    class Sleeper(till.Counting, name="sleeper", passivate_after=5.0):  # type: ignore[call-arg, misc, name-defined]
        pass

    async with open_system("shop") as system:
        for sleeps in (False, True):
            ref: Any = await system.actor(Sleeper, f"key-{sleeps}")
            assert await ref.ask(till.Add(1)) == 1
            other = await system.spawn(Linked, ref)
            if sleeps:
                await trio.sleep(60)
            other.kill()
            await other.stopped()
            assert await ref.ask(till.Read()) == 1
            assert ref.incarnation == (1 if sleeps else 2)


async def test_who_asks_for_one_that_drains_gets_the_next(till: SimpleNamespace, disk: Any) -> None:
    found: list[Any] = []
    async with open_system("shop", store=disk) as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        disk.holds = True
        ref.tell(till.Add(1))
        await settled()
        ref.drain()

        async def find() -> None:
            found.append(await system.actor(till.Counting, "a"))

        nursery.start_soon(find)
        await settled()
        assert found == []
        disk.release()
        await settled()
        assert found[0] is not ref
        assert await found[0].ask(till.Read()) == 1


# --- decided where it is asked --------------------------------------------------------------------


async def test_a_request_comes_behind_the_mail_that_came_before_it(till: SimpleNamespace) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(till.Counting, "a")
        for n in range(1, 4):
            assert await ref.ask(till.Add(1)) == 11 * (n - 1) + 1  # with no mail before it
            ref.tell(till.Add(10))
        assert await ref.ask(till.Read()) == 33


async def test_a_request_is_decided_at_once_and_answered_when_it_is_durable(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk) as system:
        ref: Any = await system.actor(till.Counting, "a")
        disk.holds = True
        ask = Ask(till.Add(1))
        ref.put_ask(ask)  # and nobody else has run since
        assert (ref.statistics().processed, ref.statistics().depth) == (1, 0)
        await settled()
        assert not ask.done
        disk.release()
        await settled()
        assert (ask.done, ask.value) == (True, 1)


async def test_a_request_of_a_cancelled_task_decides_nothing(till: SimpleNamespace) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(till.Counting, "a")
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.ask(till.Add(1))
        assert scope.cancelled_caught
        assert await ref.ask(till.Read()) == 0


async def test_requests_beyond_a_full_unit_queue_and_their_number_is_bounded(
    till: SimpleNamespace, disk: Any
) -> None:
    async with open_system("shop", store=disk, mailbox=10) as system:
        ref = await system.actor(till.Counting, "a")
        async with trio.open_nursery() as nursery:
            disk.holds = True
            first = Asker(nursery, ref, till.Add(1))
            await settled()
            many = [Asker(nursery, ref, till.Add(1)) for _ in range(UNIT_RECORDS + 30)]
            await settled()
            refused = [asker for asker in many if isinstance(asker.answer, MailboxFull)]
            assert len(refused) == 20
            assert ref.statistics().depth == 10
            disk.release()
        assert first.answer == 1
        assert sorted(asker.answer for asker in many if asker not in refused) == list(
            range(2, UNIT_RECORDS + 12)
        )


async def test_a_bug_in_a_decision_is_the_actors_and_not_the_askers(till: SimpleNamespace) -> None:
    async with open_system("shop") as system:
        ref = await system.actor(till.Counting, "a")
        with pytest.raises(ActorCrashed) as crashed:
            await ref.ask(till.Fail())
        assert isinstance(crashed.value.__cause__, ValueError)
        assert await ref.ask(till.Add(1)) == 1
        assert ref.incarnation == 2


async def test_a_task_that_only_reads_lets_others_run(till: SimpleNamespace) -> None:
    async with open_system("shop") as system, trio.open_nursery() as nursery:
        ref = await system.actor(till.Counting, "a")
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        nursery.start_soon(other)
        for _ in range(50):
            await ref.ask(till.Read())
        assert turns >= 50
        nursery.cancel_scope.cancel()
