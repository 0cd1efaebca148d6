"""`redeliver=n`: the message in flight at a crash comes again, n times at most."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.actors import open_system
from trouper.errors import ActorCrashed, ActorStopped, AskCycle, RestartLimitReached
from trouper.supervision import Intensity, one_for_one

LENIENT = one_for_one(intensity=Intensity(100, 5))


def failing(times: int, log: list[int]) -> Any:
    """Return what a handler runs to fail so many times, and to answer then."""

    async def run(self: Any, ctx: Any) -> int:
        log.append(ctx.self_ref.incarnation)
        if len(log) <= times:
            raise ValueError(f"failure {len(log)}")
        return len(log)

    return run


@pytest.mark.proves("Restart: redeliver")
async def test_a_told_message_comes_again_before_what_is_queued(cast: Any) -> None:
    log: list[int] = []
    later: list[int] = []

    async def behind(self: Any, ctx: Any) -> None:
        later.append(len(log))

    async with open_system("s", strategy=LENIENT) as system:
        ref = await system.spawn(cast.Player, restart="permanent", redeliver=2)
        ref.tell(cast.Go(failing(2, log)))
        ref.tell(cast.Go(behind))
        await wait_all_tasks_blocked()
        assert log == [1, 2, 3]
        assert later == [3]
        assert system.statistics().dead_letters == 0


@pytest.mark.proves("Restart: redeliver")
async def test_an_asker_gets_the_answer_of_the_delivery_that_worked(cast: Any) -> None:
    async with open_system("s", strategy=LENIENT) as system:
        ref = await system.spawn(cast.Player, restart="permanent", redeliver=1)
        assert await ref.ask(cast.Ask(failing(1, []))) == 2
        assert system.statistics().asks_pending == 0


@pytest.mark.proves("Restart: redeliver")
async def test_after_n_redeliveries_a_told_message_is_a_dead_letter(cast: Any) -> None:
    log: list[int] = []
    async with open_system("s", strategy=LENIENT) as system:
        ref = await system.spawn(cast.Player, restart="permanent", redeliver=2)
        message = cast.Go(failing(9, log))
        ref.tell(message)
        await wait_all_tasks_blocked()
        assert log == [1, 2, 3]
        [letter] = system.dead_letters
        assert letter.message is message
        assert letter.reason == "failed mid-turn"
        ref.tell(message)  # the same object again is another message, with all its chances
        await wait_all_tasks_blocked()
        assert log == [1, 2, 3, 4, 5, 6]


@pytest.mark.proves("Restart: redeliver")
async def test_after_n_redeliveries_the_asker_is_told_the_last_failure(cast: Any) -> None:
    async with open_system("s", strategy=LENIENT) as system:
        ref = await system.spawn(cast.Player, restart="permanent", redeliver=1)
        with pytest.raises(ActorCrashed, match="failure 2"):
            await ref.ask(cast.Ask(failing(9, [])))
        assert system.statistics().dead_letters == 0


@pytest.mark.parametrize(("times", "answer"), [(1, 2), (9, None)])
async def test_a_plain_handler_that_ran_in_the_askers_task_comes_again_on_a_worker(
    cast: Any, times: int, answer: int | None
) -> None:
    log: list[int] = []

    def run(self: Any) -> int:
        log.append(1)
        if len(log) <= times:
            raise ValueError(f"failure {len(log)}")
        return len(log)

    async with open_system("s", strategy=LENIENT) as system:
        ref = await system.spawn(cast.Player, restart="permanent", redeliver=1)
        if answer is None:
            with pytest.raises(ActorCrashed, match="failure 2"):
                await ref.ask(cast.Plain(run))
        else:
            assert await ref.ask(cast.Plain(run)) == answer
        assert await ref.ask(cast.Plain()) == "player"


async def test_a_supervisor_that_gives_up_turns_it_into_a_dead_letter(
    cast: Any, autojump_clock: MockClock
) -> None:
    letters: list[Any] = []
    with pytest.raises(RestartLimitReached):
        async with open_system("s", strategy=one_for_one(intensity=Intensity(1, 5))) as system:
            system.dead_letters.subscribe(letters.append)
            ref = await system.spawn(cast.Player, restart="permanent", redeliver=9)
            ref.tell(cast.Go(failing(9, [])))
            await ref.stopped()
    assert [letter.reason for letter in letters] == ["failed mid-turn"]
    assert isinstance(letters[0].message, cast.Go)


async def test_a_killed_turn_does_not_come_again(cast: Any) -> None:
    async with open_system("s") as system:
        ref = await system.spawn(cast.Player, restart="permanent", redeliver=3)
        ref.tell(cast.Go(cast.forever))
        await wait_all_tasks_blocked()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
        assert [letter.reason for letter in system.dead_letters] == ["cut mid-turn"]


@pytest.mark.parametrize(
    ("options", "text"),
    [({"redeliver": -1}, "0 or more"), ({"redeliver": 1}, "needs an actor that restarts")],
)
async def test_a_number_that_could_never_happen_is_refused(
    cast: Any, options: Any, text: str
) -> None:
    async with open_system("s") as system:
        with pytest.raises(ValueError, match=text):
            await system.spawn(cast.Player, **options)


@pytest.mark.parametrize("also_stops", [True, False])
async def test_a_wait_that_is_refused_leaves_no_direct_turn_open(
    cast: Any, also_stops: bool
) -> None:
    """The child asks its parent, whose failure or end waits for the child."""

    async with open_system("s", strategy=LENIENT) as system:
        parent = await system.spawn(cast.Player, restart="permanent", redeliver=1)

        def fail(self: Any) -> None:
            if also_stops:
                parent.stop()
            raise ValueError("boom")

        async def ask_parent(self: Any, ctx: Any) -> str:
            with pytest.raises((ActorCrashed, AskCycle, ActorStopped)) as raised:
                await parent.ask(cast.Plain(fail))
            return type(raised.value).__name__

        async def spawn(self: Any, ctx: Any) -> Any:
            return await ctx.spawn(cast.Player)

        child = await parent.ask(cast.Ask(spawn))
        assert await child.ask(cast.Ask(ask_parent)) == "ActorCrashed"
        if not also_stops:
            assert await parent.ask(cast.Plain()) == "player"
            parent.stop()
        await parent.stopped()
