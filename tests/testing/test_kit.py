"""The kit runs one actor beside the test and keeps its failure for the test to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

import pytest
import trio
from trio.testing import MockClock

from trouper import Actor, ActorStopped, Request, RestartLimitReached, StartFailed, handles
from trouper.testing import TestKit


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Total(Request[int]):
    pass


class Counter(Actor[Add | Total]):
    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise ValueError("start below 0")
        self.total = start

    @handles(Add)
    def add(self, message: Add) -> None:
        if not message.n:
            raise ZeroDivisionError("nothing to add")
        self.total += message.n

    @handles(Total)
    async def read(self, message: Total) -> int:
        return self.total


async def test_one_actor_runs_without_a_system_by_hand() -> None:
    async with TestKit(Counter, 10) as kit:
        kit.tell(Add(1))
        await kit.send(Add(2))
        assert_type(await kit.ask(Total()), int)
        assert kit.actor.total == 13
        assert kit.exit is None
        assert kit.system.statistics().actors == 1
    assert kit.exit is not None
    assert kit.exit.kind == "shutdown"


async def test_a_crash_leaves_the_block_alone_and_is_there_to_look_at() -> None:
    async with TestKit(Counter) as kit:
        kit.tell(Add(0))
        crash = await kit.crashed(ZeroDivisionError)
        assert str(assert_type(crash, ZeroDivisionError)) == "nothing to add"
        assert (await kit.stopped()).kind == "crashed"
        with pytest.raises(ActorStopped):
            await kit.ask(Total())
        with pytest.raises(LookupError, match="no instance any more"):
            _ = kit.actor


async def test_a_crash_that_nobody_looked_at_fails_the_block() -> None:
    with pytest.raises(ZeroDivisionError):
        async with TestKit(Counter) as kit:
            kit.tell(Add(0))
            await kit.stopped()


async def test_an_error_of_the_block_comes_out_as_itself_and_names_the_crash() -> None:
    with pytest.raises(LookupError, match="mine") as caught:
        async with TestKit(Counter) as kit:
            kit.tell(Add(0))
            await kit.stopped()
            raise LookupError("mine")
    assert any("ZeroDivisionError" in note for note in caught.value.__notes__)


async def test_a_restarted_actor_shows_its_new_instance(autojump_clock: MockClock) -> None:
    async with TestKit(Counter, 3, restart="permanent") as kit:
        first = kit.actor
        kit.tell(Add(4))
        kit.tell(Add(0))
        assert await kit.ask(Total()) == 3
        assert kit.actor is not first
        for _ in range(3):
            kit.tell(Add(0))
        limit = await kit.crashed(RestartLimitReached, within=60)
        assert isinstance(limit.__cause__, ZeroDivisionError)


async def test_an_expectation_that_is_not_met_says_so(autojump_clock: MockClock) -> None:
    async with TestKit(Counter) as kit:
        with pytest.raises(AssertionError, match="did not crash within 1 s"):
            await kit.crashed(ValueError, within=1)
        with pytest.raises(AssertionError, match="still runs after 1 s"):
            await kit.stopped(within=1)
        kit.tell(Add(0))
        with pytest.raises(AssertionError, match="crashed otherwise"):
            await kit.crashed(LookupError)
        await kit.crashed(ZeroDivisionError)


async def test_an_actor_that_does_not_start_is_a_start_failure_at_the_block() -> None:
    with pytest.raises(StartFailed, match="start below 0"):
        async with TestKit(Counter, -1):
            raise AssertionError("the block must not run")


async def test_a_cancelled_block_ends_the_actor_too() -> None:
    with trio.CancelScope() as scope:
        async with TestKit(Counter) as kit:
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert kit.exit is not None
