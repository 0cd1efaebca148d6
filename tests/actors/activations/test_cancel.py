"""Cancelling: a durable fact at one step; losers: owned by the host, then by the drain."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio

from trouper import Activation, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations import signals
from trouper.actors.groups import EffectContext
from trouper.errors import ActivationCancelled, ShuttingDown, StoreClosed
from trouper.store import MemoryStore, Store

Log = Any


class Scene:
    """Effects and activities of one test, closed over its log and its gates."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.gate = trio.Event()

        @effect(name="note")
        async def note(what: str) -> str:
            log.append(what)
            return what

        @effect(name="held")
        async def held(ctx: EffectContext, what: str) -> str:
            log.append((what, ctx.attempt))
            await self.gate.wait()
            return what

        @durable(name="child")
        async def child(act: Activation) -> str:
            try:
                return await act.call(held, "child")
            except signals.ActivationCancelled:
                await act.call(note, "child cleans up")
                raise

        @durable(name="deadline")
        async def deadline(act: Activation) -> list[Any]:
            won = await act.race(act.call(child), act.call(note, "quick"), losers="cancel")
            return [won.position, won.value]

        @durable(name="patient")
        async def patient(act: Activation) -> list[Any]:
            won = await act.race(act.call(held, "slow"), act.call(note, "quick"))
            return [won.position, won.value]

        @durable(name="parent")
        async def parent(act: Activation) -> str:
            return await act.call(child)

        @durable(name="parents")
        async def parents(act: Activation) -> list[str]:
            return list(await act.all_of(act.call(child), act.call(held, "sibling")))

        @durable(name="compensates")
        async def compensates(act: Activation) -> str:
            try:
                await act.call(held, "work")
            except signals.ActivationCancelled:
                return await act.call(note, "compensated")
            return "not cancelled"

        @durable(name="tidy")
        async def tidy(act: Activation) -> None:
            try:
                await act.sleep(3600)
            except signals.ActivationCancelled:
                await act.call(held, "tidying")
                raise

        @durable(name="untidy")
        async def untidy(act: Activation) -> None:
            await act.call(tidy)

        self.tidy, self.untidy = tidy, untidy
        self.note, self.held, self.child = note, held, child
        self.deadline, self.patient, self.parent = deadline, patient, parent
        self.parents, self.compensates = parents, compensates
        self.options: dict[str, Any] = {
            "effects": [note, held],
            "activities": [child, deadline, patient, parent, parents, compensates, tidy, untidy],
            "shutdown": 0,
            "keep_groups": True,  # what became of losers is read from the journal
        }


@pytest.fixture
def scene(log: Log) -> Scene:
    return Scene(log)


async def states(store: Store) -> dict[str, str]:
    async with store:
        return {
            **{f"{e.name}{list(e.arguments)}": e.state for e in inspect.effects(store)},
            **{a.activity: a.state for a in inspect.activations(store)},
        }


async def until_status(system: Any, key: str, wanted: str) -> None:
    with trio.fail_after(10):
        while system.status(key) != wanted:
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_losing_child_is_cancelled_durably_and_cleans_up(
    store: Store, scene: Scene
) -> None:
    async with open_system("t", store=store, **scene.options) as system:
        assert await system.run(scene.deadline, key="k") == [1, "quick"]
        await scene.log.until("child cleans up")
        await until_status(system, "k#0:group:" + _digest(system) + ":0/0", "cancelled")
    found = await states(store)
    assert found["child"] == "cancelled"
    assert found["held['child']"] == "open"  # the step that the cancel passed by has no terminal
    assert found["note['child cleans up']"] == "completed"


def _digest(system: Any) -> str:
    (group,) = inspect.groups(system.store)
    return group.key.split(":")[2]


async def test_a_loser_runs_on_after_its_activation_finished_and_is_ranked(
    store: Store, scene: Scene
) -> None:
    async with open_system("t", store=store, **scene.options) as system:
        assert await system.run(scene.patient, key="k") == [1, "quick"]
        await scene.log.until(("slow", 1))
        scene.gate.set()
        with trio.fail_after(10):
            while [g.settled for g in inspect.groups(store)] != [2]:
                await trio.testing.wait_all_tasks_blocked(0.001)
    assert (await states(store))["held['slow']"] == "completed"


async def test_a_loser_that_a_shutdown_ended_is_finished_by_the_drain_of_the_next_open(
    store: Store, scene: Scene
) -> None:
    async with open_system("t", store=store, **scene.options) as system:
        await system.run(scene.patient, key="k")
        await scene.log.until(("slow", 1))
    assert (await states(store))["held['slow']"] == "open"
    scene.gate.set()
    async with open_system("t", store=store, **scene.options) as system:
        await scene.log.until(("slow", 2))
        with trio.fail_after(10):
            while [g.settled for g in inspect.groups(store)] != [2]:
                await trio.testing.wait_all_tasks_blocked(0.001)
        assert await system.run(scene.patient, key="k") == [1, "quick"]
    assert (await states(store))["held['slow']"] == "completed"
    assert scene.log.count("quick") == 1


@pytest.mark.parametrize("which", ["parent", "parents"])
async def test_a_cancel_reaches_the_children_and_callers_get_it(
    store: Store, scene: Scene, which: str
) -> None:
    async with open_system("t", store=store, **scene.options) as system:
        handle = system.start(getattr(scene, which), key="k")
        await scene.log.until(("child", 1))
        handle.cancel()
        handle.cancel()
        with pytest.raises(ActivationCancelled, match="'k'"):
            await handle.result()
        await scene.log.until("child cleans up")
        with pytest.raises(ActivationCancelled):
            await system.run(getattr(scene, which), key="k")
    found = await states(store)
    assert found[which] == "cancelled"
    assert scene.log.count("child cleans up") == 1


async def test_a_cancelled_function_may_compensate_and_is_cancelled_all_the_same(
    store: Store, scene: Scene
) -> None:
    async with open_system("t", store=store, **scene.options) as system:
        handle = system.start(scene.compensates, key="k")
        await scene.log.until(("work", 1))
        handle.cancel()
        with pytest.raises(ActivationCancelled):
            await handle.result()
    assert scene.log == [("work", 1), "compensated"]


async def test_leaving_the_block_does_not_wait_for_a_cancelled_child_that_still_cleans_up(
    store: Store, scene: Scene
) -> None:
    with trio.fail_after(10):
        async with open_system("t", store=store, **scene.options) as system:
            handle = system.start(scene.untidy, key="k")
            await until_waiting(system, "timer sleep")
            handle.cancel()
            await scene.log.until(("tidying", 1))
    scene.gate.set()
    async with open_system("t", store=store, **scene.options) as system:
        await until_status(system, "k#0/0", "cancelled")
    assert scene.log == [("tidying", 1), ("tidying", 2)]


async def until_waiting(system: Any, wanted: str) -> None:
    with trio.fail_after(10):
        while not any(n.details.get("waits for") == wanted for n in system.tree().walk()):
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_committed_end_cannot_be_cancelled(store: Store, scene: Scene) -> None:
    scene.gate.set()
    async with open_system("t", store=store, **scene.options) as system:
        handle = system.start(scene.compensates, key="k")
        assert await handle.result() == "not cancelled"
        handle.cancel()
        assert handle.status() == "completed"
        assert await system.run(scene.compensates, key="k") == "not cancelled"


async def test_cancelling_the_wait_changes_nothing_but_the_waiting(
    store: Store, scene: Scene
) -> None:
    async with open_system("t", store=store, **scene.options) as system:
        with trio.move_on_after(0.05) as scope:
            await system.run(scene.compensates, key="k")
        assert scope.cancelled_caught
        assert system.status("k") == "running"
        scene.gate.set()
        assert await system.run(scene.compensates, key="k") == "not cancelled"


@pytest.mark.parametrize("which", ["parent", "parents", "deadline", "compensates"])
async def test_a_cancel_survives_a_crash_at_every_commit(which: str, log: Log) -> None:
    """Whatever prefix of the journal is left, the second run ends in the same way."""
    prefixes = 0
    for k in range(1, 100):
        log.clear()
        scene, store, crashed = Scene(log), MemoryStore(max_batch=1), trio.CancelScope()
        left = k

        def probe(point: str, store: MemoryStore = store, scope: Any = crashed) -> None:
            nonlocal left
            left -= point == "committed"
            if point == "committed" and left == 0:
                store.crash()
                scope.cancel()

        store.probe = probe
        await run_and_cancel(store, scene, which, crashed)
        store.probe = None
        if left > 0:
            break
        prefixes += 1
        await finish(store, scene, which)
    assert prefixes >= 3


async def run_and_cancel(store: MemoryStore, scene: Scene, which: str, scope: Any) -> None:
    try:
        with scope:
            async with open_system("t", store=store, **scene.options) as system:
                handle = system.start(getattr(scene, which), key="k")
                if which != "deadline":
                    await scene.log.until(("work" if which == "compensates" else "child", 1))
                    handle.cancel()
                with trio.fail_after(10), contextlib.suppress(ActivationCancelled):
                    await handle.result()
                await trio.testing.wait_all_tasks_blocked(0.001)
    except* (StoreClosed, ShuttingDown):
        pass


async def finish(store: MemoryStore, scene: Scene, which: str) -> None:
    async with store:
        row = [a for a in inspect.activations(store) if a.key == "k"]
    if not row:
        return  # it had not begun durably: nothing was promised
    async with open_system("t", store=store, **scene.options) as system:
        handle = system.start(getattr(scene, which), key="k")
        await trio.testing.wait_all_tasks_blocked(0.001)
        if which == "deadline":
            assert await handle.result() == [1, "quick"]
        else:
            handle.cancel()
            with pytest.raises(ActivationCancelled):
                await handle.result()
        with trio.fail_after(10):
            while any(a.state == "running" for a in inspect.activations(store)):
                await trio.testing.wait_all_tasks_blocked(0.001)
    async with store:
        ended = {a.activity: a.state for a in inspect.activations(store)}
        assert ended.get("child", "cancelled") == "cancelled"
