"""A probe records what comes in, answers as told, and says what it missed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, assert_type

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from trouper import (
    Actor,
    ActorStopped,
    ActorSystem,
    Context,
    Ref,
    Reject,
    Request,
    handles,
    open_system,
)
from trouper.actors import Terminated
from trouper.testing import Probe, TestKit


@dataclass(frozen=True, slots=True)
class Changed:
    n: int


@dataclass(frozen=True, slots=True)
class Gone:
    pass


@dataclass(frozen=True, slots=True)
class Price(Request[int]):
    of: str


@dataclass(frozen=True, slots=True)
class Report:
    to: Ref[Changed]
    after: float


class Reporter(Actor[Report]):
    @handles(Report)
    async def report(self, message: Report, ctx: Context) -> None:
        await trio.sleep(message.after)
        message.to.tell(Changed(1))


@pytest.fixture
async def system(autojump_clock: MockClock) -> AsyncGenerator[ActorSystem]:
    async with open_system("s") as system:
        yield system


Both = Changed | Gone


async def test_it_is_a_ref_that_fits_where_its_messages_do(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Both].open(system, name="p")
    narrow: Ref[Changed] = probe
    reporter = await system.spawn(Reporter)
    reporter.tell(Report(narrow, 0))
    assert_type(await probe.expect(Changed), Changed)
    assert (probe.name, probe.path, probe.incarnation) == ("p", "/s/p", 1)
    assert probe.statistics().processed == 1
    await probe.send(Gone())
    assert await probe.expect(Gone()) == Gone()


async def test_the_next_message_must_match_in_type_or_value(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Both].open(system)
    for _ in range(3):
        probe.tell(Changed(1))
    assert await probe.expect(Changed(1)) == Changed(1)
    with pytest.raises(AssertionError, match=r"expected Changed\(n=2\), got Changed\(n=1\)"):
        await probe.expect(Changed(2))
    with pytest.raises(AssertionError, match="of type Gone, got Changed"):
        await probe.expect(Gone)


async def test_an_expectation_waits_and_gives_up_in_virtual_time(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Changed].open(system)
    reporter = await system.spawn(Reporter)
    reporter.tell(Report(probe, 5))
    before = trio.current_time()
    with pytest.raises(AssertionError, match=r"got nothing within 3\.0 s"):
        await probe.expect(Changed)
    assert trio.current_time() - before == 3
    await probe.expect(Changed, within=4)


async def test_expect_none_sees_what_is_under_way_and_what_comes_in_time(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Changed].open(system)
    reporter = await system.spawn(Reporter)
    await probe.expect_none()
    reporter.tell(Report(probe, 5))
    await probe.expect_none(for_=4)
    with pytest.raises(AssertionError, match="expected no message, got Changed"):
        await probe.expect_none(for_=4)
    assert probe.received() == (Changed(1),)
    probe.tell(Changed(2))
    with pytest.raises(AssertionError, match="expected no message"):
        await probe.expect_none()


async def test_fishing_drops_what_comes_before_the_catch(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Both].open(system)
    for message in (Gone(), Changed(1), Changed(2), Gone()):
        probe.tell(message)
    assert await probe.fish(lambda m: m == Changed(2)) == Changed(2)
    assert probe.received() == (Gone(),)
    with pytest.raises(AssertionError, match=r"did not accept \[Gone\(\)\]"):
        await probe.fish(lambda m: False, within=2)


async def test_the_end_of_an_actor_is_expected_or_missed(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Any].open(system)
    reporter = await system.spawn(Reporter)
    with pytest.raises(AssertionError, match="still runs after 1 s"):
        await probe.expect_stopped(reporter, within=1)
    reporter.stop()
    assert (await probe.expect_stopped(reporter)).kind == "stopped"


async def test_a_request_is_answered_as_told_and_refused_otherwise(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Price].open(system)
    with pytest.raises(Reject, match="has no answer to Price"):
        await probe.ask(Price("a"))
    probe.answers(Price, lambda message: len(message.of))
    assert_type(await probe.ask(Price("abc")), int)
    assert await probe.ref.ask(Price("abcd")) == 4
    assert [m.of for m in probe.received()] == ["a", "abc", "abcd"]


async def test_it_stops_like_any_actor(autojump_clock: MockClock, system: ActorSystem) -> None:
    for end in ("stop", "drain", "kill"):
        probe = await Probe[Any].open(system)
        getattr(probe, end)()
        await probe.stopped()
        with pytest.raises(ActorStopped):
            await probe.send(Gone())


class Watcher(Actor[Report | Terminated]):
    """Watches whom it is to report to, and reports an end to nobody."""

    seen: Terminated | None = None

    @handles(Report)
    def report(self, message: Report, ctx: Context) -> None:
        ctx.watch(message.to)
        ctx.watch(message.to)

    @handles(Terminated)
    def gone(self, message: Terminated) -> None:
        assert self.seen is None
        self.seen = message


async def test_it_watches_and_is_watched_like_any_actor(
    autojump_clock: MockClock, system: ActorSystem
) -> None:
    probe = await Probe[Any].open(system)
    reporter = await system.spawn(Reporter)
    await probe.watch(reporter)
    reporter.kill()
    gone = await probe.expect(Terminated)
    assert (gone.ref, gone.why.kind) == (reporter, "killed")

    async with TestKit(Watcher) as kit:
        ours = await Probe[Any].open(kit.system)
        await kit.send(Report(ours, 0))
        await trio.testing.wait_all_tasks_blocked()
        ours.stop()
        await ours.stopped()
        await trio.testing.wait_all_tasks_blocked()
        seen = kit.actor.seen
        assert (seen.ref, seen.why.kind) == (ours, "stopped")
        assert ours == ours.ref
        assert ours != probe
        assert {ours, ours.ref} == {ours.ref}


def test_a_probe_that_was_not_opened_says_how_to_open_it() -> None:
    with pytest.raises(RuntimeError, match=r"await Probe\.open\(system\)"):
        Probe[Any]().tell(Gone())
