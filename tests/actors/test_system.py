"""The block: however it is left, everything ends in order, and the right error comes out."""

from __future__ import annotations

import contextlib
import signal
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import open_system
from trouper.errors import AskCycle, ScopeLeak, WrongTask


@pytest.mark.proves("Shutdown: drain on normal exit")
async def test_a_block_left_normally_drains_the_mailboxes_first(cast: Any) -> None:
    ran: list[int] = []

    async def note(self: Any, ctx: Any) -> None:
        await trio.lowlevel.checkpoint()
        ran.append(1)

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player)
        for _ in range(100):
            ref.tell(cast.Go(note))
    assert len(ran) == 100


async def test_a_failure_while_draining_comes_out_of_the_block(cast: Any) -> None:
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            await system.spawn(cast.Player, "other")
            (await system.spawn(cast.Player)).tell(cast.Go(cast.boom))
    assert cast.labels() == ["player", "other"]


@pytest.mark.proves("Shutdown: reverse start order")
@pytest.mark.proves("Shutdown: shielded from an outer cancel")
async def test_an_outer_cancel_stops_in_reverse_order_shielded_and_bounded(
    cast: Any, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(1) as scope:
        async with open_system("s") as system:
            for label in "abc":
                ref = await system.spawn(cast.Player, label, 0.1)
            ref.tell(cast.Go(cast.forever))
            await trio.sleep_forever()
    assert cast.labels() == ["c", "b", "a"]
    assert scope.cancelled_caught
    assert trio.current_time() < 8  # one budget for the blocked turn, and three hooks


@pytest.mark.proves("Shutdown: shielded from an outer cancel")
async def test_an_outer_cancel_takes_the_whole_tree_down_leaves_first(
    cast: Any, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(1):
        async with open_system("s") as system:
            parent = await system.spawn(cast.Player, "parent")
            for label in ("k1", "k2"):
                await parent.ask(cast.Ask(cast.spawns(cast.Player, label)))
            await system.spawn(cast.Player, "later")
            await trio.sleep_forever()
    assert cast.labels() == ["later", "k2", "k1", "parent"]


@pytest.mark.parametrize("how", ["error", "cancel"])
@pytest.mark.proves("Shutdown: finish the turn on error or cancel")
async def test_an_error_or_a_cancel_finishes_the_turn_in_hand_and_drops_the_rest(
    cast: Any, how: str, autojump_clock: MockClock
) -> None:
    ran: list[str] = []

    def note(what: str) -> Any:
        async def run(self: Any, ctx: Any) -> None:
            await trio.sleep(1)
            ran.append(what)

        return run

    with trio.CancelScope() as scope, contextlib.suppress(KeyError):
        async with open_system("s") as system:
            ref = await system.spawn(cast.Player)
            ref.tell(cast.Go(note("in hand")))
            ref.tell(cast.Go(note("queued")))
            await wait_all_tasks_blocked()
            if how == "error":
                raise KeyError
            scope.cancel()
            await trio.sleep_forever()
    assert ran == ["in hand"]
    [letter] = system.dead_letters
    assert letter.reason == "stopped"


@pytest.mark.proves("Shutdown: body error and actor error")
async def test_a_body_error_comes_out_alone_and_unwrapped(cast: Any) -> None:
    with pytest.raises(KeyError) as raised:
        async with open_system("s") as system:
            await system.spawn(cast.Player)
            raise KeyError("body")
    assert raised.value.__context__ is None
    assert cast.labels() == ["player"]


@pytest.mark.proves("Shutdown: body error and actor error")
async def test_a_body_error_and_an_actor_error_are_one_group(cast: Any) -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        async with open_system("s") as system:
            (await system.spawn(cast.Player)).tell(cast.Go(cast.boom))
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("body")
    assert [type(error) for error in raised.value.exceptions] == [KeyError, ValueError]


async def test_a_body_that_only_repeats_the_failure_adds_nothing_to_it(cast: Any) -> None:
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            await (await system.spawn(cast.Player)).ask(cast.Ask(cast.boom))


@pytest.mark.proves("Shutdown: reverse start order")
async def test_a_tree_of_any_depth_is_drawn_and_stops_in_order(cast: Any) -> None:
    depth = 2000
    async with open_system("s") as system:
        refs = [await system.spawn(cast.Player, 0)]
        for n in range(1, depth):
            refs.append(await refs[-1].ask(cast.Ask(cast.spawns(cast.Player, n))))
        assert refs[-1].path.count("/") == depth + 1
        assert sum(node.kind == "actor" for node in system.tree().walk()) == depth
    assert cast.labels() == [*range(depth)][::-1]


@pytest.mark.proves("Shutdown: entered and left in one task")
async def test_the_block_is_left_by_the_task_that_entered_it(cast: Any) -> None:
    block = open_system("s")
    system = await block.__aenter__()
    ref = await system.spawn(cast.Player)
    with pytest.raises(ExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(block.__aexit__, None, None, None)
    assert isinstance(raised.value.exceptions[0], WrongTask)
    assert await ref.ask(cast.Ask()) == "player"  # untouched
    await block.__aexit__(None, None, None)


# --- Ctrl-C ---------------------------------------------------------------------------------------


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def run(main: Any) -> Any:
    """Run in a trio of its own: pytest's must not see the signals."""
    return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.proves("Supervision: KeyboardInterrupt and SystemExit")
@pytest.mark.proves("Shutdown: KeyboardInterrupt")
def test_an_interrupt_in_a_handler_is_never_restarted_and_ends_the_block(direct: bool) -> None:
    from tests.actors.conftest import Ask, Plain, Player, ended

    ended.clear()
    starts: list[int] = []

    class Counted(Player):
        async def started(self, ctx: Any) -> None:
            starts.append(1)

    async def handler(self: Any, ctx: Any) -> None:
        interrupt()

    async def main() -> None:
        async with open_system("s") as system:
            await system.spawn(Player, "first")
            ref = await system.spawn(Counted, "counted", restart="permanent")
            if direct:
                await ref.ask(Plain(lambda self: interrupt()))
            else:
                await ref.ask(Ask(handler))

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert starts == [1]
    assert [label for label, _ in ended] == ["counted", "first"]


@pytest.mark.proves("Dispatch: runtime frames are protected")
def test_a_busy_plain_handler_can_be_interrupted() -> None:
    from tests.actors.conftest import Plain, Player

    def busy(self: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            pass

    async def main() -> None:
        async with open_system("s") as system:
            (await system.spawn(Player)).tell(Plain(busy))
            await trio.sleep_forever()

    before = signal.signal(signal.SIGALRM, lambda *_: interrupt())
    try:
        with pytest.raises(KeyboardInterrupt):
            run(main)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.proves("Dispatch: runtime frames are protected")
def test_an_interrupt_between_two_runtime_bytecodes_waits_for_the_body() -> None:
    from tests.actors.conftest import Go, Player, boom

    async def main() -> None:
        async with open_system("s") as system:
            system.dead_letters.subscribe(lambda _: interrupt())  # called in a worker's accounting
            ref = await system.spawn(Player, restart="transient")
            ref.tell(Go(boom))
            await wait_all_tasks_blocked()
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        run(main)


@pytest.mark.proves("Shutdown: KeyboardInterrupt")
def test_a_second_interrupt_cuts_the_turns_and_the_hooks_still_run() -> None:
    from tests.actors.conftest import Go, Player, ended, forever

    ended.clear()
    times: list[float] = []

    async def later() -> None:
        await trio.sleep(3)
        interrupt()

    async def main() -> None:
        try:
            async with open_system("s", shutdown=1000) as system:
                ref = await system.spawn(Player)
                ref.tell(Go(forever))
                await wait_all_tasks_blocked()
                trio.lowlevel.spawn_system_task(later)
                raise KeyboardInterrupt
        finally:
            times.append(trio.current_time())

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert times[0] < 100
    assert [label for label, _ in ended] == ["player"]


@pytest.mark.proves("Supervision: KeyboardInterrupt and SystemExit")
async def test_system_exit_in_a_handler_is_never_restarted(cast: Any) -> None:
    async def leave(self: Any, ctx: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with open_system("s") as system:
            ref = await system.spawn(cast.Player, restart="permanent")
            ref.tell(cast.Go(leave))
            await trio.sleep_forever()
    assert cast.labels() == ["player"]


# --- systems in systems, leaks, bugs --------------------------------------------------------------


async def test_a_system_inside_a_handler_ends_in_order_when_the_handler_is_cut(
    cast: Any, autojump_clock: MockClock
) -> None:
    async def handler(self: Any, ctx: Any) -> None:
        async with open_system("inner") as inner:
            for label in ("i1", "i2"):
                await inner.spawn(cast.Player, label)
            await trio.sleep_forever()

    async with open_system("outer") as outer:
        ref = await outer.spawn(cast.Player, "outer")
        ref.tell(cast.Go(handler))
        await wait_all_tasks_blocked()
        ref.kill()
        await ref.stopped()
    assert cast.labels() == ["i2", "i1", "outer"]


async def test_a_failure_of_an_inner_system_crashes_the_outer_actor_unwrapped(cast: Any) -> None:
    async def handler(self: Any, ctx: Any) -> None:
        async with open_system("inner") as inner:
            (await inner.spawn(cast.Player)).tell(cast.Go(cast.boom))
            await trio.sleep_forever()

    with pytest.raises(ValueError, match="boom"):
        async with open_system("outer") as outer:
            (await outer.spawn(cast.Player)).tell(cast.Go(handler))
            await trio.sleep_forever()


async def test_a_cycle_through_an_inner_system_is_refused(cast: Any) -> None:
    paths: list[Any] = []

    async with open_system("outer") as outer:
        ref = await outer.spawn(cast.Player, name="a")

        async def ask_outer(self: Any, ctx: Any) -> None:
            try:
                await ref.ask(cast.Ask())
            except AskCycle as cycle:
                paths.append(cycle.path)

        async def handler(self: Any, ctx: Any) -> None:
            async with open_system("inner") as inner:
                await (await inner.spawn(cast.Player)).ask(cast.Ask(ask_outer))

        await ref.ask(cast.Ask(handler))
    assert paths == [["/outer/a", "/outer/a"]]


@pytest.mark.proves("Dispatch: a cancel scope left open")
async def test_a_leaked_scope_is_a_crash_of_its_actor_only(cast: Any) -> None:
    async def leak(self: Any, ctx: Any) -> None:
        trio.CancelScope().__enter__()

    async with open_system("s") as system:
        a = await system.spawn(cast.Player, "a", restart="transient")
        b = await system.spawn(cast.Player, "b")
        a.tell(cast.Go(leak))
        await wait_all_tasks_blocked()
        assert await a.ask(cast.Ask()) == "a"
        assert await b.ask(cast.Ask()) == "b"
        assert [a.incarnation, b.incarnation] == [2, 1]


@pytest.mark.proves("Dispatch: a nursery left open")
async def test_a_leaked_nursery_fails_the_system_with_a_named_error(cast: Any) -> None:
    async def leak(self: Any, ctx: Any) -> None:
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(trio.lowlevel.checkpoint)

    with pytest.raises(ScopeLeak, match="nursery"):
        async with open_system("s") as system:
            ref = await system.spawn(cast.Player, restart="transient")
            ref.tell(cast.Go(leak))
            await wait_all_tasks_blocked()


@pytest.mark.proves("Dispatch: a worker never raises into the system")
async def test_a_bug_of_the_runtime_fails_the_system_and_everything_still_stops(
    cast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trouper.actors import _local

    def bug(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with open_system("s", shutdown=0.5) as system:
            a, b = [await system.spawn(cast.Player, n) for n in "ab"]
            b.tell(cast.Go(cast.forever))
            await wait_all_tasks_blocked()
            monkeypatch.setattr(_local, "turn_failed", bug)
            a.tell(cast.Go(cast.boom))
            await trio.sleep_forever()
    assert cast.labels() == ["b", "a"]


@pytest.mark.proves("Dispatch: only the runtime cancels a worker")
async def test_cancelling_the_pool_does_not_reach_a_handler(
    cast: Any, autojump_clock: MockClock
) -> None:
    """Workers are shielded: only the runtime cuts a turn (derisk R1)."""
    cut_at: list[float] = []

    async def handler(self: Any, ctx: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cut_at.append(trio.current_time() - start)

    with trio.move_on_after(50) as scope:
        async with open_system("s", shutdown=2) as system:
            ref = await system.spawn(cast.Player)
            ref.tell(cast.Go(handler))
            await wait_all_tasks_blocked()
            start = trio.current_time()
            system.dispatcher.nursery.cancel_scope.cancel()
            await trio.sleep_forever()
    assert not scope.cancelled_caught
    assert cut_at == [2]
    assert cast.labels() == ["player"]
