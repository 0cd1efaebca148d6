"""The reply slot: settled once, by whoever comes first."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.mailbox import Ask


async def test_the_first_answer_counts() -> None:
    ask = Ask("question")
    assert ask.settle(1)
    assert not ask.settle(2)
    assert not ask.fail(KeyError())
    assert await ask.wait() == 1


async def test_an_error_is_raised_to_the_asker() -> None:
    ask = Ask("question")
    error = KeyError("no")
    assert ask.fail(error)
    with pytest.raises(KeyError) as raised:
        await ask.wait()
    assert raised.value is error


async def test_an_answer_wakes_the_one_who_waits() -> None:
    ask, got = Ask("question"), []

    async def asker() -> None:
        got.append(await ask.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(asker)
        await wait_all_tasks_blocked()
        ask.settle("answer")
    assert got == ["answer"]


async def test_an_asker_that_goes_away_ends_the_request() -> None:
    ask = Ask("question")
    with trio.CancelScope() as scope:
        scope.cancel()
        await ask.wait()
    assert ask.done
    assert not ask.settle("late")
