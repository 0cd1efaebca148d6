"""What an actor costs does not depend on how many others there are: work counted, not time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from trouper.actors import Actor, Context, Ref, handles, open_system
from trouper.actors._asks import LOOKS, AskNet
from trouper.actors._local import LocalRef
from trouper.mailbox import Ask
from trouper.supervision import Intensity, one_for_one


class Counting(dict[Any, Any]):
    """Children that count how often somebody looks through all of them."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()

    def __iter__(self) -> Iterator[Any]:
        self.looks += 1
        return super().__iter__()


class Boom:
    """Makes an actor fail."""


class Quit:
    """Makes an actor end by itself."""


class Frail(Actor):
    @handles(Boom)
    def boom(self, message: Boom) -> None:
        raise ValueError("boom")

    @handles(Quit)
    def quit(self, message: Quit, ctx: Context[Any]) -> None:
        ctx.self_ref.stop()


def children_of(ref: Any) -> Counting:
    life = cast("LocalRef", ref).need_life()
    counting = Counting(life.children)
    life.children = counting
    return counting


@pytest.mark.parametrize("n", [3, 30])
async def test_a_child_that_restarts_alone_looks_at_no_sibling(n: int) -> None:
    strategy = one_for_one(intensity=Intensity(n))
    async with open_system("s", strategy=strategy) as system:
        refs = [await system.spawn(Frail, restart="permanent") for _ in range(n)]
        children = children_of(system._runtime.root)
        for ref in refs:
            ref.tell(Boom())
        await trio.testing.wait_all_tasks_blocked()
        assert [ref.incarnation for ref in refs] == [2] * n
        assert children.looks == 0


@pytest.mark.parametrize("n", [3, 30])
async def test_significant_children_are_counted_not_looked_for(n: int) -> None:
    async with open_system("s", strategy=one_for_one(auto_shutdown="all")) as system:
        refs = [await system.spawn(Frail, significant=True) for _ in range(n)]
        children = children_of(system._runtime.root)
        for ref in refs[:-1]:
            ref.tell(Quit())
        await trio.testing.wait_all_tasks_blocked()
        assert len(children) == 1
        assert children.looks == 0
        refs[-1].tell(Quit())
        with trio.fail_after(1):
            await trio.sleep_forever()  # the block ends with the last of them


class Mute:
    """What the net needs of a target."""

    path = "/mute"

    def forget_ask(self, ask: Ask) -> None:
        pass


async def test_the_net_looks_a_bounded_number_of_times_however_many_asks_hang(
    autojump_clock: MockClock,
) -> None:
    n = 3 * LOOKS
    looks: list[float] = []
    async with trio.open_nursery() as nursery:
        net = AskNet(nursery, 10.0)
        expire = net._expire

        def look(now: float) -> None:
            looks.append(now)
            expire(now)

        net._expire = look  # type: ignore[method-assign]
        asks = [Ask(None) for _ in range(n)]
        start = trio.current_time()
        for place, ask in enumerate(asks):
            ask.target = Mute()
            net.pending[ask] = start + 10 + 10 * place / n
        net.wake()
        await trio.sleep(20.02)
        assert all(ask.done for ask in asks)
        assert len(looks) <= LOOKS + 2
        net.close()


async def test_a_crowd_that_gives_up_waiting_leaves_the_line_one_by_one() -> None:
    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(Frail)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(ref.stopped)
                await trio.testing.wait_all_tasks_blocked()
                assert len(cast("LocalRef", ref).need_life().stop_waiters) == 100
                scope.cancel()
        assert cast("LocalRef", ref).need_life().stop_waiters == {}


class Many(Actor):
    """Asks one actor many times at once."""

    @handles(Boom)
    async def ask_all(self, message: Boom, ctx: Context[Any]) -> None:
        gate = trio.Event()
        other: Ref[Any] = await ctx.spawn(Slow, gate)
        waits = cast("LocalRef", ctx.self_ref).system.waits
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(other.stopped)
            await trio.testing.wait_all_tasks_blocked()
            assert len(waits) == 20
            assert waits.targets(cast("LocalRef", ctx.self_ref)) == (other,)
            other.stop()
        assert len(waits) == 0


class Slow(Actor):
    def __init__(self, gate: trio.Event) -> None:
        self.gate = gate


async def test_several_waits_for_one_actor_are_counted() -> None:
    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(Many)
        ref.tell(Boom())
        ref.drain()
        why = await ref.stopped()
        assert why.cause is None, why  # what its handler asserts would have crashed it
