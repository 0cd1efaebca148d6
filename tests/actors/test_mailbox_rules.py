"""Mailbox rules as `spawn` and `open_system` take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper import Decision, DurableActor, applies, decides
from trouper.actors import open_system
from trouper.errors import MailboxFull
from trouper.store import record


async def held(system: Any, cast: Any, **options: Any) -> tuple[Any, trio.Event]:
    """Return an actor in a turn that waits for the gate."""
    gate = trio.Event()

    async def hold(self: Any, ctx: Any) -> None:
        await gate.wait()

    ref = await system.spawn(cast.Player, name="held", **options)
    ref.tell(cast.Go(hold))
    await wait_all_tasks_blocked()
    return ref, gate


@pytest.mark.proves("Mailboxes: what is dropped is a dead letter")
@pytest.mark.parametrize(
    ("rule", "dropped"), [("drop_oldest", ["a", "b"]), ("drop_newest", ["b", "c"])]
)
async def test_what_a_rule_drops_is_a_dead_letter_with_the_rule_as_reason(
    cast: Any, rule: Any, dropped: list[str]
) -> None:
    async with open_system("s") as system:
        ref, gate = await held(system, cast, mailbox=1, overflow=rule)
        for name in "abc":
            ref.tell(cast.Plain(name))
        letters = list(system.dead_letters)
        assert [letter.message.fn for letter in letters] == dropped
        assert {letter.reason for letter in letters} == {f"mailbox full: {rule}"}
        assert ref.statistics().dropped == 2
        ref.kill()
        gate.set()


async def test_a_system_may_have_another_rule_for_all_its_actors(cast: Any) -> None:
    async with open_system("s", mailbox=1, overflow="drop_newest") as system:
        ref, gate = await held(system, cast)
        ref.tell(cast.Plain())
        ref.tell(cast.Plain())
        assert system.statistics().dead_letters == 1
        assert ref.statistics().overflow == "drop_newest"
        gate.set()


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({}, r"or give open_system\(\) a larger mailbox=, or another overflow= rule$"),
        ({"mailbox": 2}, "or give its spawn a larger mailbox=, or another overflow= rule$"),
        ({"overflow": "wait"}, "or give its spawn a larger mailbox="),
    ],
)
async def test_who_finds_no_room_is_told_where_the_limit_was_said(
    cast: Any, own: dict[str, Any], says: str
) -> None:
    async with open_system("s", mailbox=1) as system:
        ref, gate = await held(system, cast, **own)
        with pytest.raises(MailboxFull, match=says):
            for _ in range(3):
                ref.tell(cast.Plain())
        gate.set()


@record("test.full-bumped", version=1)
@dataclass(frozen=True, slots=True)
class Bumped:
    pass


@dataclass(frozen=True)
class Bump:
    pass


class Counter(DurableActor[int], name="test.full-counter"):
    initial = 0

    @decides(Bump)
    def bump(self, state: int, message: Bump) -> Decision[Bumped, None]:
        return Decision([Bumped()])

    @applies(Bumped)
    def bumped(self, state: int, record: Bumped) -> int:
        return state + 1


async def test_a_durable_actor_has_the_limit_of_its_system_and_its_senders_are_told_so() -> None:
    async with open_system("s", mailbox=1) as system:
        ref = await system.actor(Counter, "k")
        with pytest.raises(MailboxFull, match=r"or give open_system\(\) a larger mailbox="):
            for _ in range(3):
                ref.tell(Bump())


@pytest.mark.proves("Mailboxes: reject", "Mailboxes: wait")
async def test_an_ask_to_a_full_mailbox_is_refused_or_waits_as_the_rule_says(cast: Any) -> None:
    async with open_system("s", mailbox=1) as system:
        ref, gate = await held(system, cast)
        ref.tell(cast.Plain())
        with pytest.raises(MailboxFull):
            await ref.ask(cast.Ask())
        assert system.statistics().asks_pending == 0
        gate.set()
    async with open_system("s", mailbox=1, overflow="wait") as system:
        ref, gate = await held(system, cast)
        ref.tell(cast.Plain())
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await ref.ask(cast.Ask()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert ref.statistics().waiting_senders == 1
            gate.set()
        assert answers == ["player"]


@pytest.mark.proves("Mailboxes: optional stable priority")
async def test_an_actor_serves_by_its_priority_inside_the_bound(cast: Any) -> None:
    served: list[int] = []
    async with open_system("s") as system:
        ref, gate = await held(
            system, cast, mailbox=3, priority=lambda m: 0 if m.fn is urgent else 1
        )

        def urgent(self: Any) -> None:
            served.append(0)

        for n in (1, 2):
            ref.tell(cast.Plain(lambda self, n=n: served.append(n)))
        ref.tell(cast.Plain(urgent))
        with pytest.raises(MailboxFull):
            ref.tell(cast.Plain(urgent))
        gate.set()
        await wait_all_tasks_blocked()
    assert served == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [({"overflow": "block"}, "overflow must be one of"), ({"mailbox": 0}, "mailbox must be 1")],
)
async def test_rules_that_are_none_are_refused_at_spawn_and_leave_nothing(
    cast: Any, options: Any, text: str
) -> None:
    async with open_system("s") as system:
        with pytest.raises(ValueError, match=text):
            await system.spawn(cast.Player, name="a", **options)
        assert system.statistics().actors == 0
    with pytest.raises(ValueError, match=text):
        async with open_system("s", **options):
            pass


@pytest.mark.proves("Mailboxes: oldest age")
async def test_mail_of_an_actor_that_still_starts_grows_old(
    cast: Any, mock_clock: trio.testing.MockClock
) -> None:
    gate, refs = trio.Event(), []

    class Slow(cast.Player):  # type: ignore[misc]
        async def started(self, ctx: Any) -> None:
            refs.append(ctx.self_ref)
            await gate.wait()

    async with open_system("s") as system, trio.open_nursery() as nursery:
        nursery.start_soon(system.spawn, Slow)
        await wait_all_tasks_blocked()
        [ref] = refs
        ref.tell(cast.Plain())
        mock_clock.jump(2)
        assert ref.statistics().oldest_age == 2.0
        gate.set()
        await wait_all_tasks_blocked()
        assert ref.statistics().oldest_age == 0.0
