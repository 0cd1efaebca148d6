"""Sending: tell, send, ask."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import open_system
from trouper.errors import ActorCrashed, ActorStopped, MailboxFull, NotHandled, Reject


@pytest.mark.proves("Sending: FIFO per sender")
async def test_one_sender_is_served_in_order_whatever_way_it_sends(cast: Any) -> None:
    seen: list[int] = []

    def note(n: int) -> Any:
        async def run(self: Any, ctx: Any) -> None:
            seen.append(n)

        return run

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        for n in range(0, 30, 3):
            ref.tell(cast.Go(note(n)))
            await ref.send(cast.Go(note(n + 1)))
            await ref.ask(cast.Ask(note(n + 2)))
    assert seen == list(range(30))


@pytest.mark.proves("Sending: a message type the target does not handle")
@pytest.mark.proves("Ask: unknown type")
async def test_an_unknown_message_is_refused_where_it_is_sent(cast: Any) -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(cast.Extra, name="extra")
        for send in (ref.tell, ref.send, ref.ask):
            with pytest.raises(NotHandled, match=r"/s/extra has no handler for str.*Go, Plain"):
                result = send("hello")
                await result
        assert system.statistics().dead_letters == 0


@pytest.mark.proves("Sending: to a stopped target tell")
@pytest.mark.proves("Sending: to a stopped target send and ask")
async def test_a_stopped_actor_gets_dead_letters_and_refuses_at_once(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, name="gone")
        ref.stop()
        await ref.stopped()
        ref.tell(cast.Go(cast.boom))
        [letter] = system.dead_letters
        assert (letter.target, letter.reason, letter.sender) == ("/s/gone", "stopped", None)
        with pytest.raises(ActorStopped, match="/s/gone is stopped"):
            await ref.send(cast.Go(cast.boom))
        with pytest.raises(ActorStopped):
            await ref.ask(cast.Ask())


@pytest.mark.proves("Sending: tell raises MailboxFull")
async def test_a_full_mailbox_raises_what_trio_code_knows(cast: Any) -> None:
    async with open_system("s", mailbox=2) as system:
        ref = await system.spawn(cast.Extra)
        wide = await system.spawn(cast.Extra, mailbox=3)
        for target, room in ((ref, 2), (wide, 3)):
            for _ in range(room):
                target.tell(cast.Plain())
            with pytest.raises(trio.WouldBlock) as raised:
                target.tell(cast.Plain())
            assert isinstance(raised.value, MailboxFull)


@pytest.mark.proves("Ask: handler crash")
@pytest.mark.proves("Restart: its asker told")
async def test_a_crash_reaches_its_asker_with_the_cause(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, name="p", restart="transient")
        with pytest.raises(ActorCrashed, match=r"/s/p failed mid-turn: ValueError") as raised:
            await ref.ask(cast.Ask(cast.boom))
        assert isinstance(raised.value.__cause__, ValueError)


@pytest.mark.proves("Mailboxes: bounded by default")
async def test_a_mailbox_holds_1024_messages_by_default(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Extra)
        assert ref.statistics().capacity == 1024
        for _ in range(1024):
            ref.tell(cast.Plain())
        with pytest.raises(MailboxFull):
            ref.tell(cast.Plain())


@pytest.mark.parametrize("kind", ["Ask", "Plain"])
@pytest.mark.proves("Failure: raise Reject")
async def test_reject_answers_with_the_refusal_and_keeps_the_actor(cast: Any, kind: str) -> None:
    async def refuse(self: Any, ctx: Any) -> None:
        raise Reject("no")

    def refuse_plainly(self: Any) -> None:
        raise Reject("no")

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        message = cast.Ask(refuse) if kind == "Ask" else cast.Plain(refuse_plainly)
        with pytest.raises(Reject, match="no"):
            await ref.ask(message)
        ref.tell(message)
        assert await ref.ask(cast.Ask()) == "player"
        assert ref.incarnation == 1
        assert system.statistics().dead_letters == 0


@pytest.mark.proves("Ask: if the asker goes away")
async def test_a_cancelled_ask_that_had_not_begun_is_skipped(cast: Any) -> None:
    gate, ran = trio.Event(), []

    async def hold(self: Any, ctx: Any) -> None:
        await gate.wait()

    async def note(self: Any, ctx: Any) -> None:
        ran.append(1)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        ref.tell(cast.Go(hold))
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, cast.Ask(note))
                await wait_all_tasks_blocked()
                scope.cancel()
        gate.set()
        await ref.ask(cast.Ask())
    assert ran == []


@pytest.mark.proves("Ask: a late reply is dropped")
async def test_a_late_answer_is_dropped_and_counted(cast: Any) -> None:
    gate = trio.Event()

    async def hold(self: Any, ctx: Any) -> str:
        await gate.wait()
        return "late"

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, cast.Ask(hold))
                await wait_all_tasks_blocked()
                scope.cancel()
        gate.set()
        await ref.ask(cast.Ask())
        assert system.statistics().late_replies == 1


@pytest.mark.proves("Dispatch: direct ask")
async def test_a_plain_handler_of_an_idle_actor_answers_without_a_task_switch(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        workers = system.statistics().dispatcher.started
        me = trio.lowlevel.current_task()
        assert await ref.ask(cast.Plain(lambda self: trio.lowlevel.current_task())) is me
        assert system.statistics().dispatcher.started == workers
        assert ref.statistics().processed == 1


@pytest.mark.proves("Turns: one turn at a time")
@pytest.mark.proves("Dispatch: direct ask")
async def test_a_direct_answer_keeps_its_turn_to_itself(cast: Any) -> None:
    seen: list[str] = []

    def first(self: Any) -> str:
        ref.tell(cast.Plain(lambda self: seen.append("told")))
        assert seen == []  # single writer: what it tells itself waits for the end of the turn
        return "answer"

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        assert await ref.ask(cast.Plain(first)) == "answer"
        await wait_all_tasks_blocked()
        assert seen == ["told"]


@pytest.mark.proves("Sending: ask is a checkpoint")
async def test_direct_asks_yield_to_trio_now_and_then(cast: Any) -> None:
    ticks = 0

    async def count() -> None:
        nonlocal ticks
        while True:
            await trio.lowlevel.checkpoint()
            ticks += 1

    async with open_system("s") as system, trio.open_nursery() as nursery:
        ref = await system.spawn(cast.Player)
        nursery.start_soon(count)
        for _ in range(640):
            await ref.ask(cast.Plain())
        nursery.cancel_scope.cancel()
    assert ticks >= 8


@pytest.mark.proves("Failure: any other exception is a crash")
async def test_a_direct_crash_is_supervised_like_any_other(cast: Any) -> None:
    def fail(self: Any) -> None:
        raise ValueError("direct")

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, restart="transient")
        with pytest.raises(ActorCrashed) as raised:
            await ref.ask(cast.Plain(fail))
        assert isinstance(raised.value.__cause__, ValueError)
        assert await ref.ask(cast.Plain()) == "player"
        assert ref.incarnation == 2


async def test_a_direct_turn_may_stop_its_actor_and_still_answers(cast: Any) -> None:
    def last_words(self: Any) -> str:
        ref.stop()
        return "last words"

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        assert await ref.ask(cast.Plain(last_words)) == "last words"
        assert (await ref.stopped()).kind == "stopped"


async def test_a_direct_turn_that_kills_its_actor_gives_no_answer(cast: Any) -> None:
    def kill(self: Any) -> str:
        ref.kill()
        return "never seen"

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        with pytest.raises(ActorStopped):
            await ref.ask(cast.Plain(kill))
        assert (await ref.stopped()).kind == "killed"


@pytest.mark.proves("Interop: contextvars are shared")
async def test_a_direct_turn_shares_its_contextvars_with_the_asker(cast: Any) -> None:
    """Documented, not wished for: isolation costs a task."""
    variable = contextvars.ContextVar("variable", default="unset")

    def swap(self: Any) -> str:
        before = variable.get()
        variable.set("by the actor")
        return before

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        variable.set("by the asker")
        assert await ref.ask(cast.Plain(swap)) == "by the asker"
        assert variable.get() == "by the actor"


async def test_refs_have_stable_names(cast: Any) -> None:
    async with open_system("shop") as system:
        named = await system.spawn(cast.Player, name="named")
        first, second = [await system.spawn(cast.Player) for _ in range(2)]
        child = await named.ask(cast.Ask(cast.spawns(cast.Extra, name="child")))
        assert [named.path, child.path] == ["/shop/named", "/shop/named/child"]
        assert [first.name, second.name] == ["Player#1", "Player#2"]
        assert repr(child) == "<Ref /shop/named/child>"


@pytest.mark.proves("Dispatch: an idle actor costs no task")
async def test_an_idle_actor_is_small(cast: Any) -> None:
    import tracemalloc

    async with open_system("s") as system:
        await system.spawn(cast.Extra)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        refs = [await system.spawn(cast.Extra) for _ in range(2000)]
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (after - before) / len(refs) < 900  # a trio task alone is 2,800 bytes
