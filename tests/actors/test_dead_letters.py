"""Dead letters: bounded, with reasons, logged at a limited rate."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import DeadLetter, DeadLetters, open_system


def letter(n: int) -> DeadLetter:
    return DeadLetter(n, "/s/a", None, "stopped")


@pytest.mark.proves("Dead letters: a bounded ring")
def test_the_ring_keeps_the_last_and_counts_all() -> None:
    letters = DeadLetters(limit=3)
    for n in range(5):
        letters.add(letter(n))
    assert [one.message for one in letters] == [2, 3, 4]
    assert (len(letters), letters.total) == (3, 5)


@pytest.mark.proves("Dead letters: logged at a limited rate")
def test_the_log_has_a_rate_and_says_what_it_held_back(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    letters = DeadLetters(log_rate=2, clock=lambda: now)
    for n in range(10):
        letters.add(letter(n))
    assert len(caplog.records) == 2
    now = 1.0
    letters.add(letter(10))
    assert "8 more not logged" in caplog.records[-1].getMessage()


@pytest.mark.proves("Dead letters: subscribable")
def test_a_subscriber_hears_of_each_until_it_leaves_and_may_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    letters, heard = DeadLetters(), []

    def bad(_: DeadLetter) -> None:
        raise ValueError("subscriber")

    letters.subscribe(bad)
    leave = letters.subscribe(lambda one: heard.append(one.message))
    letters.add(letter(1))
    leave()
    leave()
    letters.add(letter(2))
    assert heard == [1]
    assert [r.levelno for r in caplog.records].count(logging.ERROR) == 2


@pytest.mark.proves("Dead letters: with reasons")
async def test_a_letter_names_target_reason_and_whose_turn_sent_it(cast: Any) -> None:
    async with open_system("s") as system:
        gone = await system.spawn(cast.Extra, name="gone")
        gone.stop()

        async def send(self: Any, ctx: Any) -> None:
            gone.tell(cast.Plain())

        sender = await system.spawn(cast.Player, name="sender")
        await sender.ask(cast.Ask(send))
        [one] = system.dead_letters
        assert (one.target, one.sender, one.reason) == ("/s/gone", "/s/sender", "stopped")
        assert one.message == cast.Plain()


@pytest.mark.proves("Dead letters: subscribable")
async def test_a_stream_gives_every_letter_from_then_on_and_ends_with_the_system(
    cast: Any,
) -> None:
    got: list[Any] = []
    async with trio.open_nursery() as nursery, open_system("s") as system:
        ref = await system.spawn(cast.Extra, name="a")
        ref.stop()
        ref.tell(cast.Plain(1))  # before anybody listens

        async def listen() -> None:
            async for letter in system.dead_letters:
                got.append(letter.message.fn)

        nursery.start_soon(listen)
        await wait_all_tasks_blocked()
        ref.tell(cast.Plain(2))
        await wait_all_tasks_blocked()
        assert got == [2]
        ref.tell(cast.Plain(3))
    assert got == [2, 3]


async def test_a_stream_that_is_behind_drops_the_oldest_and_counts_it() -> None:
    letters = DeadLetters()
    async with letters.stream(limit=2) as stream:
        for n in range(5):
            letters.add(DeadLetter(n, "/s/a", None, "stopped"))
        assert stream.missed == 3
    letters.add(DeadLetter(9, "/s/a", None, "stopped"))
    assert [letter.message async for letter in stream] == [3, 4]
    with pytest.raises(ValueError, match="1 letter or more"):
        letters.stream(limit=0)
