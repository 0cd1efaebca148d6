"""The stash: putting messages aside, and getting every one of them back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Actor, Context, Request, handles, open_system
from trouper.errors import ActorStopped, StashFull


@dataclass(frozen=True, slots=True)
class Open:
    """Lets the door take what it had put aside."""

    crash: bool = False


@dataclass(frozen=True, slots=True)
class Visit:
    n: int


@dataclass(frozen=True, slots=True)
class Knock(Request[int]):
    n: int


class Door(Actor):
    """Puts visits aside until it is open. ``bad`` visits crash it."""

    def __init__(self, seen: list[int], bad: set[int], is_open: bool = False) -> None:
        self.seen = seen
        self.bad = bad
        self.is_open = is_open

    @handles(Open)
    def open(self, message: Open, ctx: Context[Any]) -> None:
        if message.crash:
            raise ValueError("crash")
        self.is_open = True
        ctx.unstash_all()

    @handles(Visit)
    async def visit(self, message: Visit, ctx: Context[Any]) -> None:
        if not self.is_open:
            ctx.stash()
        if message.n in self.bad:
            self.bad.remove(message.n)
            raise ValueError(message.n)
        self.seen.append(message.n)

    @handles(Knock)
    def knock(self, message: Knock, ctx: Context[Any]) -> int:
        if not self.is_open:
            ctx.stash()
        return message.n


@pytest.mark.proves("Watch: stash")
async def test_what_was_put_aside_comes_back_in_front_in_order() -> None:
    seen: list[int] = []
    async with open_system("s") as system:
        ref = await system.spawn(Door, seen, set())
        for n in (1, 2, 3):
            ref.tell(Visit(n))
        await wait_all_tasks_blocked()
        assert seen == []
        ref.tell(Open())
        ref.tell(Visit(4))
        await wait_all_tasks_blocked()
        assert seen == [1, 2, 3, 4]
        assert system.statistics().dead_letters == 0


async def test_one_who_asked_waits_for_the_turn_to_come() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Door, [], set())
        got: list[int] = []

        async def ask(n: int) -> None:
            got.append(await ref.ask(Knock(n)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)  # a direct ask: the actor is idle
            await wait_all_tasks_blocked()
            ref.tell(Visit(0))
            nursery.start_soon(ask, 2)  # one that queues
            await wait_all_tasks_blocked()
            assert got == []
            ref.tell(Open())
        assert sorted(got) == [1, 2]


async def test_an_asker_that_gave_up_is_skipped() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Door, [], set())
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + 0.01
            await ref.ask(Knock(1))
        ref.tell(Open())
        assert await ref.ask(Knock(2)) == 2
        assert system.statistics().late_replies == 0


@pytest.mark.proves("Restart: puts stashed messages back in front")
async def test_a_restart_puts_stashed_messages_back_in_front() -> None:
    seen: list[int] = []
    states = iter([False, True])
    async with open_system("s") as system:
        ref = await system.spawn(lambda: Door(seen, set(), next(states)), restart="transient")
        ref.tell(Visit(1))
        ref.tell(Visit(2))
        ref.tell(Open(crash=True))
        ref.tell(Visit(3))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2
        assert seen == [1, 2, 3]


@pytest.mark.proves("Restart: a second crash while unstashing")
async def test_a_second_crash_while_unstashing_loses_nothing() -> None:
    seen: list[int] = []
    states = iter([False, True, False])
    bad = {2}
    async with open_system("s") as system:
        ref = await system.spawn(lambda: Door(seen, bad, next(states)), restart="transient")
        for n in (1, 2, 3):
            ref.tell(Visit(n))
        ref.tell(Open(crash=True))
        ref.tell(Visit(4))
        await wait_all_tasks_blocked()
        assert (ref.incarnation, seen) == (3, [1])
        ref.tell(Open())
        await wait_all_tasks_blocked()
        assert seen == [1, 3, 4]  # 2 is the message that failed
        assert [letter.message for letter in system.dead_letters] == [Open(crash=True), Visit(2)]


@pytest.mark.parametrize("how", ["stop", "kill", "drain"])
async def test_a_stop_makes_dead_letters_of_the_stash_and_tells_who_asked(how: str) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Door, [], set())
        ref.tell(Visit(1))

        async def ask() -> None:
            with pytest.raises(ActorStopped):
                await ref.ask(Knock(2))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            getattr(ref, how)()
            await ref.stopped()
        assert [letter.message for letter in system.dead_letters] == [Visit(1)]


async def test_the_stash_is_bounded_by_the_mailbox() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Door, [], set(), mailbox=2, restart="transient")
        for n in (1, 2):
            await ref.send(Visit(n))
        await wait_all_tasks_blocked()
        with pytest.raises(Exception, match="failed mid-turn") as raised:
            await ref.ask(Knock(3))
        assert isinstance(raised.value.__cause__, StashFull)


async def test_only_a_turn_has_a_message_to_stash() -> None:
    class Early(Door):
        async def started(self, ctx: Context[Any]) -> None:
            ctx.stash()

    async with open_system("s") as system:
        with pytest.raises(Exception, match="did not start") as raised:
            await system.spawn(Early, [], set())
        assert "only a handler has a message" in str(raised.value.__cause__)


async def test_a_control_message_may_be_put_aside_too(autojump_clock: Any) -> None:
    seen: list[int] = []

    class Timed(Door):
        async def started(self, ctx: Context[Any]) -> None:
            ctx.after(1, Visit(9))

    async with open_system("s") as system:
        ref = await system.spawn(Timed, seen, set())
        await trio.sleep(2)
        ref.tell(Open())
        await wait_all_tasks_blocked()
        assert seen == [9]


async def test_unstashing_keeps_a_priority(autojump_clock: Any) -> None:
    seen: list[int] = []
    async with open_system("s") as system:

        def urgency(message: Any) -> int:
            return -1 if isinstance(message, Open) else getattr(message, "n", 0)

        ref = await system.spawn(Door, seen, set(), priority=urgency)
        for n in (3, 1):
            ref.tell(Visit(n))
            await wait_all_tasks_blocked()
        ref.tell(Visit(2))
        ref.tell(Open())
        await wait_all_tasks_blocked()
        assert seen == [1, 2, 3]


async def test_a_priority_sees_the_message_whatever_its_fields_are_called() -> None:
    @dataclass(frozen=True, slots=True)
    class Line:
        message: str
        urgency: int

    class Log(Actor[Line | Open]):
        def __init__(self) -> None:
            self.is_open = False
            self.lines: list[str] = []

        @handles(Line)
        def line(self, message: Line, ctx: Context[Any]) -> None:
            if not self.is_open:
                ctx.stash()
            self.lines.append(message.message)

        @handles(Open)
        def open(self, message: Open, ctx: Context[Any]) -> None:
            self.is_open = True
            ctx.unstash_all()

    log = Log()
    async with open_system("s") as system:
        ref = await system.spawn(lambda: log, priority=lambda m: getattr(m, "urgency", 9))
        for line in (Line("second", 2), Line("first", 1), Open()):
            ref.tell(line)
        await wait_all_tasks_blocked()
    assert log.lines == ["first", "second"]


async def test_a_drain_gives_stashed_messages_another_turn() -> None:
    seen: list[int] = []

    class Second(Door):
        """Takes a visit when it comes for the second time."""

        @handles(Visit)
        async def visit(self, message: Visit, ctx: Context[Any]) -> None:
            if message.n not in self.bad:
                self.bad.add(message.n)
                ctx.stash()
            self.seen.append(message.n)

    async with open_system("s") as system:
        ref = await system.spawn(Second, seen, set())
        ref.tell(Visit(1))
        ref.tell(Visit(2))
        await wait_all_tasks_blocked()
        ref.drain()
        await ref.stopped()
        assert seen == [1, 2]


class Slow(Actor):
    """Puts everything aside, after a while."""

    def __init__(self, gate: trio.Event) -> None:
        self.gate = gate

    @handles(Visit)
    async def visit(self, message: Visit, ctx: Context[Any]) -> None:
        await self.gate.wait()
        ctx.stash()

    @handles(Knock)
    async def knock(self, message: Knock, ctx: Context[Any]) -> int:
        await self.gate.wait()
        ctx.stash()


@pytest.mark.parametrize("message", [Visit(1), Knock(1)])
async def test_what_is_put_aside_while_the_actor_stops_is_told(message: Any) -> None:
    gate = trio.Event()
    async with open_system("s") as system:
        ref = await system.spawn(Slow, gate)
        if isinstance(message, Visit):
            ref.tell(message)
        async with trio.open_nursery() as nursery:
            if isinstance(message, Knock):

                async def ask() -> None:
                    with pytest.raises(ActorStopped):
                        await ref.ask(message)

                nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            ref.stop()
            gate.set()
        await ref.stopped()
        letters = [(letter.message, letter.reason) for letter in system.dead_letters]
        assert letters == ([(message, "stopped")] if isinstance(message, Visit) else [])


class Crew(Actor):
    """Handles a visit in several tasks, all of which put it aside or fail."""

    def __init__(self, lives: list[int], fails: bool) -> None:
        self.lives = lives
        self.fails = fails
        lives.append(0)

    @handles(Visit)
    async def visit(self, message: Visit, ctx: Context[Any]) -> None:
        async def aside() -> None:
            ctx.stash()

        async def fail() -> None:
            raise ValueError(message.n)

        self.lives[-1] += 1
        if self.lives[-1] == 1:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(aside)
                nursery.start_soon(fail if self.fails else aside)

    @handles(Open)
    def open(self, message: Open, ctx: Context[Any]) -> None:
        ctx.unstash_all()


@pytest.mark.parametrize("fails", [False, True])
async def test_tasks_of_a_turn_may_put_it_aside_and_what_fails_beside_them_is_a_crash(
    fails: bool,
) -> None:
    lives: list[int] = []
    async with open_system("s") as system:
        ref = await system.spawn(Crew, lives, fails, restart="permanent")
        ref.tell(Visit(1))
        await wait_all_tasks_blocked()
        ref.tell(Open())
        await wait_all_tasks_blocked()
        assert lives == ([1, 0] if fails else [2])
        reasons = [letter.reason for letter in system.dead_letters]
        assert reasons == ["failed mid-turn"] * fails
