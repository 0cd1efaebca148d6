"""Cycles are refused before they close, with the way round; nothing waits for itself."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import open_system
from trouper.errors import ActorCrashed, AskCycle


@pytest.mark.proves("Ask: cycles")
async def test_an_actor_that_asks_itself_is_refused(cast: Any) -> None:
    async def ask_self(self: Any, ctx: Any) -> Any:
        return await ctx.self_ref.ask(cast.Ask())

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, name="a", restart="transient")
        with pytest.raises(ActorCrashed) as raised:
            await ref.ask(cast.Ask(ask_self))
        cycle = raised.value.__cause__
        assert isinstance(cycle, AskCycle)
        assert cycle.path == ["/s/a", "/s/a"]


@pytest.mark.proves("Ask: cycles")
async def test_a_round_of_three_is_refused_and_names_the_way(cast: Any) -> None:
    async with open_system("s") as system:
        a, b, c = [await system.spawn(cast.Player, n, name=n) for n in "abc"]

        def asks(target: Any, then: Any = None) -> Any:
            async def run(self: Any, ctx: Any) -> Any:
                try:
                    return await target.ask(cast.Ask(then))
                except AskCycle as cycle:
                    return cycle.path

            return run

        path = await a.ask(cast.Ask(asks(b, asks(c, asks(a)))))
        assert path == ["/s/c", "/s/a", "/s/b", "/s/c"]
        assert await a.ask(cast.Ask()) == "a"


@pytest.mark.parametrize("through", ["nursery", "thread"])
@pytest.mark.proves("Interop: threads may ask")
@pytest.mark.proves("Dispatch: the asker is found")
async def test_a_cycle_is_found_through_what_a_handler_starts(cast: Any, through: str) -> None:
    found: list[str] = []

    async def ask_self(ref: Any) -> None:
        try:
            await ref.ask(cast.Ask())
        except AskCycle as cycle:
            found.append(str(cycle))

    async def handler(self: Any, ctx: Any) -> None:
        if through == "nursery":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_self, ctx.self_ref)
        else:
            await ctx.to_thread(trio.from_thread.run, ask_self, ctx.self_ref)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, name="a")
        await ref.ask(cast.Ask(handler))
    [text] = found
    assert "/s/a -> /s/a" in text


@pytest.mark.proves("Ask: two full mailboxes sending")
async def test_two_full_mailboxes_that_send_into_each_other_are_refused(cast: Any) -> None:
    refused: list[list[str]] = []

    async def idle(self: Any, ctx: Any) -> None: ...

    async with open_system("s", mailbox=1) as system:
        a, b = [await system.spawn(cast.Player, n, name=n) for n in "ab"]
        start = trio.Event()

        def flood(target: Any) -> Any:
            async def run(self: Any, ctx: Any) -> None:
                await start.wait()
                try:
                    for _ in range(3):
                        await target.send(cast.Go(idle))
                except AskCycle as cycle:
                    refused.append(cycle.path)

            return run

        a.tell(cast.Go(flood(b)))
        b.tell(cast.Go(flood(a)))
        await wait_all_tasks_blocked()
        start.set()
        await wait_all_tasks_blocked()
        [path] = refused  # the other one's message then finds room
        assert path in (["/s/a", "/s/b", "/s/a"], ["/s/b", "/s/a", "/s/b"])
        assert a.statistics().waiting_senders == b.statistics().waiting_senders == 0


@pytest.mark.proves("Ask: two full mailboxes sending")
async def test_a_send_and_an_ask_may_close_one_cycle(cast: Any) -> None:
    refused: list[list[str]] = []

    async def idle(self: Any, ctx: Any) -> None: ...

    async with open_system("s", mailbox=1) as system:
        a, b = [await system.spawn(cast.Player, n, name=n) for n in "ab"]

        async def ask_b(self: Any, ctx: Any) -> Any:
            return await b.ask(cast.Ask(send_to_a))

        async def send_to_a(self: Any, ctx: Any) -> Any:
            a.tell(cast.Go(idle))
            try:
                await a.send(cast.Go(idle))
            except AskCycle as cycle:
                refused.append(cycle.path)

        await a.ask(cast.Ask(ask_b))
    assert refused == [["/s/b", "/s/a", "/s/b"]]


@pytest.mark.proves("Restart: asks from a child to a restarting ancestor")
async def test_a_send_that_waits_for_room_in_a_restarting_ancestor_fails_at_once(
    cast: Any, autojump_clock: MockClock
) -> None:
    outcome: list[str] = []

    async def idle(self: Any, ctx: Any) -> None: ...

    async def send_up(self: Any, ctx: Any) -> None:
        try:
            await ctx.parent.send(cast.Go(idle))
        except ActorCrashed as error:
            outcome.append(str(error))

    async with open_system("s") as system:
        start = trio.current_time()
        parent = await system.spawn(cast.Player, name="p", restart="transient", mailbox=1)
        child = await parent.ask(cast.Ask(cast.spawns(cast.Player, "c", name="c")))

        async def fail_behind(self: Any, ctx: Any) -> None:
            ctx.self_ref.tell(cast.Go(idle))
            child.tell(cast.Go(send_up))
            await trio.sleep(1)
            raise ValueError

        parent.tell(cast.Go(fail_behind))
        await trio.sleep(3)
        assert len(outcome) == 1
        assert "being restarted" in outcome[0]
        assert parent.incarnation == 2
        assert trio.current_time() - start == 3


@pytest.mark.proves("Ask: cycles")
@pytest.mark.proves("Dispatch: stopped() waits are edges")
async def test_an_actor_that_waits_for_its_own_end_is_refused(cast: Any) -> None:
    caught: list[str] = []

    async def wait(self: Any, ctx: Any) -> None:
        ctx.self_ref.stop()
        try:
            await ctx.self_ref.stopped()
        except AskCycle as cycle:
            caught.append(str(cycle))

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, name="a")
        ref.tell(cast.Go(wait))
        await ref.stopped()
    assert "/s/a -> /s/a" in caught[0]


@pytest.mark.proves("Dispatch: stopped() waits are edges")
async def test_a_child_that_asks_the_parent_that_waits_for_its_end_is_refused(
    cast: Any, autojump_clock: MockClock
) -> None:
    outcome: list[Any] = []

    async def ask_up(self: Any, ctx: Any) -> None:
        await trio.sleep(1)
        try:
            await ctx.parent.ask(cast.Ask())
        except AskCycle as cycle:
            outcome.append(cycle.path)

    async def wait_for_child(self: Any, ctx: Any) -> None:
        child = await ctx.spawn(cast.Player, "c", name="c")
        child.tell(cast.Go(ask_up))
        await trio.sleep(0.5)
        child.stop()
        outcome.append((await child.stopped()).kind)

    async with open_system("s") as system:
        start = trio.current_time()
        parent = await system.spawn(cast.Player, name="p")
        await parent.ask(cast.Ask(wait_for_child))
        assert outcome == [["/s/p/c", "/s/p", "/s/p/c"], "stopped"]
        assert trio.current_time() - start < 2  # refused, not cut by a budget


@pytest.mark.proves("Dispatch: hooks are charged")
async def test_a_hook_that_asks_who_waits_for_it_is_refused(
    cast: Any, autojump_clock: MockClock
) -> None:
    outcome: list[Any] = []

    class Child(cast.Player):  # type: ignore[misc]
        async def stopping(self, ctx: Any, why: Any) -> None:
            try:
                await ctx.parent.ask(cast.Ask())
            except AskCycle as cycle:
                outcome.append(cycle.path[0])

    async def wait_for_child(self: Any, ctx: Any) -> None:
        child = await ctx.spawn(Child, name="c")
        child.stop()
        await child.stopped()

    async with open_system("s") as system:
        start = trio.current_time()
        parent = await system.spawn(cast.Player, name="p")
        await parent.ask(cast.Ask(wait_for_child))
        assert outcome == ["/s/p/c"]
        assert trio.current_time() - start < 1


@pytest.mark.proves("Restart: asks from a child to a restarting ancestor")
async def test_an_ask_to_a_restarting_ancestor_fails_at_once(
    cast: Any, autojump_clock: MockClock
) -> None:
    """The parent's restart waits for the child to stop; the child must not wait for the parent."""
    outcome: list[Any] = []

    async def ask_up(self: Any, ctx: Any) -> None:
        try:
            await ctx.parent.ask(cast.Ask())
        except ActorCrashed as error:
            outcome.append(str(error))

    async with open_system("s") as system:
        start = trio.current_time()
        parent = await system.spawn(cast.Player, name="p", restart="transient")
        child = await parent.ask(cast.Ask(cast.spawns(cast.Player, "c", name="c")))

        async def fail_behind(self: Any, ctx: Any) -> None:
            child.tell(cast.Go(ask_up))
            await trio.sleep(1)
            raise ValueError

        parent.tell(cast.Go(fail_behind))
        await trio.sleep(3)
        assert len(outcome) == 1
        assert "being restarted" in outcome[0]
        assert parent.incarnation == 2
        assert trio.current_time() - start == 3


async def test_waits_leave_the_graph_when_they_are_over(cast: Any) -> None:
    async with open_system("s") as system:
        a, b = [await system.spawn(cast.Player, n, name=n) for n in "ab"]

        async def ask_b(self: Any, ctx: Any) -> Any:
            return await b.ask(cast.Ask())

        async def hold(self: Any, ctx: Any) -> Any:
            [node] = [node for node in system.tree().walk() if node.name == "a"]
            return node.details.get("waits_on")

        async def ask_hold(self: Any, ctx: Any) -> Any:
            return await b.ask(cast.Ask(hold))

        assert await a.ask(cast.Ask(ask_hold)) == ["/s/b"]
        assert await a.ask(cast.Ask(ask_b)) == "b"
        assert all("waits_on" not in node.details for node in system.tree().walk())
