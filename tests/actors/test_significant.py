"""Significant actors: their end ends the parent, if it says so."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Context, Ref, open_system
from trouper.errors import ActorCrashed, ShuttingDown
from trouper.supervision import AutoShutdown, Restart, one_for_all, one_for_one


async def quit_(self: Any, ctx: Context[Any]) -> None:
    """End by itself."""
    ctx.self_ref.stop()


def spawn(cast: Any, label: str, **options: Any) -> Any:
    return cast.Ask(cast.spawns(cast.Player, label, name=label, **options))


@pytest.mark.parametrize(("how", "ends"), [("any", 1), ("all", 3)])
@pytest.mark.parametrize("policy", ["transient", "never"])
@pytest.mark.proves("Supervision: significant children")
async def test_a_parent_ends_with_its_significant_children(
    cast: Any, how: AutoShutdown, ends: int, policy: Restart
) -> None:
    async with open_system("s") as system:
        strategy = one_for_one(auto_shutdown=how)
        parent: Ref[Any] = await system.spawn(cast.Player, "parent", strategy=strategy)
        await parent.ask(spawn(cast, "other"))
        refs = [await parent.ask(spawn(cast, n, restart=policy, significant=True)) for n in "abc"]
        for n, ref in enumerate(refs, 1):
            ref.tell(cast.Go(quit_))
            await ref.stopped()
            await wait_all_tasks_blocked()
            assert (parent.statistics().state == "stopped") == (n == ends)
            if n == ends:
                break
        assert (await parent.stopped()).kind == "shutdown"
    alive = ["c", "b", "a"][: 3 - ends]
    assert cast.labels() == [*"abc"[:ends], *alive, "other", "parent"]


@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
@pytest.mark.proves("Supervision: significant children")
async def test_an_end_that_somebody_else_asked_for_counts_and_the_parents_own_does_not(
    cast: Any, how: str
) -> None:
    async with open_system("s") as system:
        strategy = one_for_one(auto_shutdown="any")
        parent: Ref[Any] = await system.spawn(cast.Player, "parent", strategy=strategy)
        a, b = [await parent.ask(spawn(cast, n, significant=True)) for n in "ab"]

        async def parent_stops_it(self: Any, ctx: Any) -> None:
            getattr(a, how)()
            await a.stopped()

        await parent.ask(cast.Ask(parent_stops_it))
        assert await parent.ask(cast.Ask()) == "parent"
        getattr(b, how)()  # the body of the system is not the parent of b
        assert (await parent.stopped()).kind == "shutdown"


@pytest.mark.proves("Supervision: significant children")
async def test_a_system_ends_with_its_significant_actors_as_if_its_body_had_returned(
    cast: Any,
) -> None:
    seen: list[int] = []

    async def note(self: Any, ctx: Any) -> None:
        seen.append(1)

    async with open_system("s", strategy=one_for_one(auto_shutdown="all")) as system:
        other = await system.spawn(cast.Player, "other")
        refs = [await system.spawn(cast.Player, n, significant=True) for n in "ab"]
        refs[0].stop()  # the body's doing: the system's own
        await refs[0].stopped()
        refs[1].tell(cast.Go(quit_))
        await refs[1].stopped()
        for _ in range(5):
            other.tell(cast.Go(note))
        with pytest.raises(ShuttingDown):
            await system.spawn(cast.Player)
        await trio.sleep_forever()
    assert seen == [1] * 5  # drained, as after a normal end
    assert cast.labels() == ["a", "b", "other"]


@pytest.mark.proves("Supervision: significant children")
async def test_it_climbs_while_the_parent_is_significant_too(cast: Any) -> None:
    strategy = one_for_one(auto_shutdown="any")
    async with open_system("s", strategy=strategy) as system:
        top = await system.spawn(cast.Player, "top", strategy=strategy, significant=True)
        middle = await top.ask(spawn(cast, "middle", strategy=strategy, significant=True))
        leaf = await middle.ask(spawn(cast, "leaf", significant=True))
        leaf.tell(cast.Go(quit_))
        await trio.sleep_forever()
    assert cast.labels() == ["leaf", "middle", "top"]


@pytest.mark.proves("Supervision: significant children")
async def test_a_restart_and_an_end_with_the_siblings_do_not_count(
    cast: Any, autojump_clock: MockClock
) -> None:
    async with open_system("s", strategy=one_for_all(auto_shutdown="any")) as system:
        a = await system.spawn(cast.Player, "a", restart="transient", significant=True)
        b = await system.spawn(cast.Player, "b", restart="never", significant=True)
        with pytest.raises(ActorCrashed):
            await a.ask(cast.Ask(cast.boom))
        assert (await b.stopped()).kind == "shutdown"
        await trio.sleep(1)
        assert await a.ask(cast.Ask()) == "a"


async def test_a_significant_actor_that_could_never_end_its_parent_is_refused(cast: Any) -> None:
    async with open_system("s", strategy=one_for_one(auto_shutdown="any")) as system:
        with pytest.raises(ValueError, match="permanent"):
            await system.spawn(cast.Player, restart="permanent", significant=True)

        async def refused(self: Any, ctx: Context[Any]) -> str:
            with pytest.raises(ValueError, match="auto_shutdown") as raised:
                await ctx.spawn(cast.Player, significant=True)
            return str(raised.value)

        parent = await system.spawn(cast.Player, strategy=one_for_one())
        assert "needs a parent that heeds it" in await parent.ask(cast.Ask(refused))


@pytest.mark.proves("Supervision: one_for_all")
async def test_actors_take_over_the_systems_intensity_but_not_its_strategy(cast: Any) -> None:
    async with open_system("s", strategy=one_for_all(auto_shutdown="any")) as system:
        parent = await system.spawn(cast.Player)
        a, b = [await parent.ask(spawn(cast, n, restart="transient")) for n in "ab"]
        a.tell(cast.Go(cast.boom))
        assert [await ref.ask(cast.Ask()) for ref in (a, b)] == ["a", "b"]
        assert [a.incarnation, b.incarnation] == [2, 1]
