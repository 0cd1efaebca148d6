"""The safety net: outcome unknown, one queue for all asks."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from trouper.actors import open_system
from trouper.errors import AskUnknown


@pytest.mark.proves("Ask: safety net")
async def test_the_net_ends_an_ask_and_says_that_the_outcome_is_unknown(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with open_system("s", ask_safety=30) as system:
        ref = await system.spawn(cast.Player, name="slow")
        start = trio.current_time()
        with pytest.raises(AskUnknown, match=r"/s/slow did not answer Ask within 30 s. Outcome un"):
            await ref.ask(cast.Ask(cast.forever))
        assert trio.current_time() - start == 30
        ref.kill()


@pytest.mark.proves("Ask: one timer heap")
async def test_every_ask_has_its_own_time_in_the_net(cast: Any, autojump_clock: MockClock) -> None:
    ends: list[float] = []

    async def asker(ref: Any, delay: float) -> None:
        await trio.sleep(delay)
        with pytest.raises(AskUnknown):
            await ref.ask(cast.Ask(cast.forever))
        ends.append(trio.current_time() - start)

    async with open_system("s", ask_safety=10) as system:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for delay in (0, 3, 7, 40):
                nursery.start_soon(asker, await system.spawn(cast.Player), delay)
        assert ends == [10, 13, 17, 50]
        assert system.statistics().asks_pending == 0
        for ref in list(system._runtime.walk()):
            ref.kill()


async def test_an_ask_that_is_answered_leaves_the_net(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        for _ in range(3):
            await ref.ask(cast.Ask())
        assert system.statistics().asks_pending == 0


@pytest.mark.proves("Ask: deadline")
async def test_the_callers_scope_is_the_deadline(cast: Any, autojump_clock: MockClock) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        with trio.move_on_after(2) as scope:
            await ref.ask(cast.Ask(cast.forever))
        assert scope.cancelled_caught
        assert system.statistics().asks_pending == 0
        ref.kill()


async def test_a_task_whose_ask_was_cancelled_asks_again(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with open_system("s") as system:
        slow, quick = await system.spawn(cast.Player), await system.spawn(cast.Player, "quick")
        for _ in range(3):
            with trio.move_on_after(1) as scope:
                await slow.ask(cast.Ask(cast.forever))
            assert scope.cancelled_caught
            assert await quick.ask(cast.Ask()) == "quick"
            slow.kill()
            await slow.stopped()
            slow = await system.spawn(cast.Player)


async def test_what_is_known_of_askers_keeps_no_request_alive(cast: Any) -> None:
    class Told(cast.Ask):  # type: ignore[misc]
        """A request that can be referred to weakly."""

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        request = Told()
        seen = weakref.ref(request)
        await ref.ask(request)
        assert system._runtime.dispatcher.askers
        del request
        await ref.ask(cast.Ask())  # the worker forgets the last request when it has another one
        assert seen() is None
