"""Restarting: what is kept, what is dropped, and when it is too often."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import Actor, Ref, open_system
from trouper.errors import (
    ActorCrashed,
    RestartLimitReached,
)
from trouper.supervision import Backoff, Intensity, one_for_one


@pytest.mark.proves("Failure: any other exception is a crash")
@pytest.mark.proves("Restart: keeps the ref, the name, the queue")
@pytest.mark.proves("Ask: restart")
@pytest.mark.proves("Restart: drops the message in flight")
@pytest.mark.proves("Restart: re-runs the constructor")
@pytest.mark.proves("Restart: bumps incarnation")
async def test_a_restart_keeps_ref_name_and_queue_and_makes_fresh_state(cast: Any) -> None:
    seen: list[int] = []

    def note(n: int) -> Any:
        async def run(self: Any, ctx: Any) -> None:
            seen.append(n)
            self.label += "!"

        return run

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, "fresh", name="a", restart="transient")
        ref.tell(cast.Go(note(1)))
        ref.tell(cast.Go(cast.boom))
        ref.tell(cast.Go(note(2)))
        ref.tell(cast.Go(note(3)))
        assert await ref.ask(cast.Ask()) == "fresh!!"
        assert seen == [1, 2, 3]
        assert (ref.incarnation, ref.path) == (2, "/s/a")
        [letter] = system.dead_letters
        assert letter.reason == "failed mid-turn"
        assert letter.message == cast.Go(cast.boom)


@pytest.mark.proves("Restart: stops children first")
@pytest.mark.proves("Stop kinds: the stopping hook always runs")
async def test_a_restart_ends_the_old_instance_with_its_hook(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, restart="transient")
        await ref.ask(cast.Ask(cast.spawns(cast.Player, "child")))
        ref.tell(cast.Go(cast.boom))
        await ref.ask(cast.Ask())
        assert cast.labels() == ["child", "player"]
        why = cast.ended[1][1]
        assert (why.kind, repr(why.cause)) == ("crashed", "ValueError('boom')")
        assert [node.name for node in system.tree().walk() if node.kind == "actor"] == ["Player#1"]


@pytest.mark.proves("Supervision: failed restart attempts count")
@pytest.mark.proves("Supervision: over the budget")
async def test_a_failed_restart_counts_and_the_limit_names_the_last_failure(cast: Any) -> None:
    made: list[int] = []

    class Worse(Actor):
        def __init__(self) -> None:
            made.append(1)
            if len(made) > 1:
                raise KeyError("constructor")

    class Fails(Worse, cast.Player):  # type: ignore[misc]
        pass

    with pytest.raises(RestartLimitReached, match=r"/s/f needed more than 3 restarts") as raised:
        async with open_system("s") as system:
            ref: Ref[Any] = await system.spawn(Fails, name="f", restart="permanent")
            ref.tell(cast.Go(cast.boom))
            await trio.sleep_forever()
    assert isinstance(raised.value.__cause__, KeyError)
    assert len(made) == 4  # the start, and the three restarts that the intensity allows


@pytest.mark.proves("Supervision: one_for_one")
async def test_the_intensity_is_the_parents_and_each_childs_own(cast: Any) -> None:
    strategy = one_for_one(intensity=Intensity(1, 5.0))
    async with open_system("s", strategy=strategy) as system:
        a, b = [await system.spawn(cast.Player, n, restart="permanent") for n in "ab"]
        for ref in (a, b):
            with pytest.raises(ActorCrashed):
                await ref.ask(cast.Ask(cast.boom))
            assert await ref.ask(cast.Ask()) in "ab"
        assert [a.incarnation, b.incarnation] == [2, 2]


@pytest.mark.proves("Supervision: exponential back-off")
async def test_back_off_delays_the_restart_and_mail_waits(
    cast: Any, autojump_clock: MockClock
) -> None:
    strategy = one_for_one(intensity=Intensity(9), backoff=Backoff(2, jitter=0))
    async with open_system("s", strategy=strategy) as system:
        ref = await system.spawn(cast.Player, restart="permanent")
        start = trio.current_time()
        ref.tell(cast.Go(cast.boom))
        assert await ref.ask(cast.Ask()) == "player"
        assert trio.current_time() - start == 2


@pytest.mark.proves("Supervision: exponential back-off")
@pytest.mark.proves("Restart: a stop that overtakes it wins")
async def test_a_kill_during_back_off_is_final(cast: Any, autojump_clock: MockClock) -> None:
    strategy = one_for_one(backoff=Backoff(20, jitter=0))
    async with open_system("s", strategy=strategy) as system:
        ref = await system.spawn(cast.Player, restart="permanent")
        start = trio.current_time()
        ref.tell(cast.Go(cast.boom))
        await wait_all_tasks_blocked()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
        assert trio.current_time() - start < 1
        assert ref.incarnation == 1


@pytest.mark.proves("Dispatch: every await in a lifecycle job")
@pytest.mark.proves("Restart: a stop that overtakes it wins")
async def test_a_kill_while_a_restart_is_blocked_in_started_does_not_resurrect(
    cast: Any, autojump_clock: MockClock
) -> None:
    starts: list[int] = []

    class Slow(cast.Player):  # type: ignore[misc]
        async def started(self, ctx: Any) -> None:
            starts.append(1)
            if len(starts) > 1:
                await trio.sleep_forever()

    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(Slow, restart="permanent")
        ref.tell(cast.Go(cast.boom))
        await trio.sleep(1)
        assert ref.statistics().state == "failed"
        start = trio.current_time()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
        assert trio.current_time() - start < 1
        assert len(starts) == 2


@pytest.mark.proves("Supervision: shutdown exits do not")
async def test_a_crash_after_a_stop_was_asked_for_is_no_restart(
    cast: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop_and_fail(self: Any, ctx: Any) -> None:
        ctx.self_ref.stop()
        raise ValueError("last")

    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, restart="permanent")
        ref.tell(cast.Go(stop_and_fail))
        why = await ref.stopped()
        assert (why.kind, repr(why.cause)) == ("stopped", "ValueError('last')")
        assert ref.incarnation == 1
    assert "failed while it was stopping" in caplog.text


async def test_a_failure_is_not_lost_when_a_stop_overtakes_its_supervisor(cast: Any) -> None:
    """The turn fails, and the stop job stands on the queue before the supervising one."""
    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            ref = await system.spawn(cast.Player)
            ref.tell(cast.Go(cast.boom))
            ref.drain()
            await trio.sleep_forever()


async def test_a_restart_is_logged_with_the_failure(
    cast: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, name="a", restart="transient")
        ref.tell(cast.Go(cast.boom))
        await ref.ask(cast.Ask())
    [record] = [r for r in caplog.records if "restarts" in r.getMessage()]
    assert record.getMessage() == "/s/a failed and restarts: ValueError('boom')"
    assert record.exc_info is not None
