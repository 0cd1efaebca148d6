"""Actors written as one coroutine: selective receive, asks, and every way to end."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trouper.actors import (
    Actor,
    Asking,
    Context,
    Ref,
    Request,
    Terminated,
    handles,
    open_system,
)
from trouper.errors import (
    ActorCrashed,
    ActorStopped,
    AskCycle,
    InboxClosed,
    MailboxFull,
    Reject,
    RestartLimitReached,
    StartFailed,
)
from trouper.supervision import one_for_all, one_for_one


@dataclass(frozen=True, slots=True)
class Num:
    n: int


@dataclass(frozen=True, slots=True)
class Word:
    text: str


@dataclass(frozen=True, slots=True)
class Get(Request[int]):
    n: int = 0


async def all_of_it(ctx: Context[Num | Word | Get], seen: list[Any]) -> None:
    """Take whatever comes, in order."""
    async for message in ctx.inbox:
        match message:
            case Asking(message=Get(n)):
                message.reply(n)
            case _:
                seen.append(message)


async def get_only(ctx: Context[Num | Get]) -> None:
    while True:
        asking = await ctx.inbox.receive(Get)
        asking.reply(asking.message.n + 1)


@pytest.mark.proves("Typing: async def protocol")
async def test_a_protocol_takes_what_it_wants_and_the_rest_stays_queued_in_order() -> None:
    seen: list[Any] = []

    async def selective(ctx: Context[Num | Word]) -> None:
        seen.append(await ctx.inbox.receive(Word))
        seen.append(await ctx.inbox.receive(lambda message: message == Num(3)))
        async for message in ctx.inbox:
            seen.append(message)

    async with open_system("s") as system:
        ref = await system.spawn(selective)
        for message in (Num(1), Word("a"), Num(2)):
            ref.tell(message)
        await wait_all_tasks_blocked()
        assert seen == [Word("a")]
        assert ref.statistics().depth == 2
        ref.tell(Num(3))
        await wait_all_tasks_blocked()
        assert seen == [Word("a"), Num(3), Num(1), Num(2)]
        assert ref.statistics().processed == 4


async def test_a_request_is_answered_through_its_asking() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(get_only, name="p")
        assert [await ref.ask(Get(n)) for n in (1, 2)] == [2, 3]
        assert ref.path == "/s/p"
        unnamed = await system.spawn(get_only)
        assert unnamed.name == "get_only#1"


async def test_answers_may_come_in_another_order_than_the_questions() -> None:
    async def reversing(ctx: Context[Get]) -> None:
        first = await ctx.inbox.receive(Get)
        second = await ctx.inbox.receive(Get)
        second.reply(2)
        first.reply(1)
        with pytest.raises(RuntimeError, match="already"):
            first.reply(3)
        assert repr(first) == "Asking(Get(n=1))"
        (await ctx.inbox.receive(Get)).fail(Reject("no more"))
        await ctx.inbox.receive(Get)

    answers: list[int] = []
    async with open_system("s") as system:
        ref = await system.spawn(reversing)

        async def ask(n: int) -> None:
            answers.append(await ref.ask(Get(n)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)
            await wait_all_tasks_blocked()
            nursery.start_soon(ask, 2)
        assert sorted(answers) == [1, 2]
        with pytest.raises(Reject, match="no more"):
            await ref.ask(Get())


async def test_a_told_request_is_an_asking_whose_answer_goes_nowhere() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(get_only)
        ref.tell(Get(1))
        assert await ref.ask(Get(2)) == 3


async def test_a_deadline_is_a_scope_around_a_receive_and_loses_nothing(
    autojump_clock: Any,
) -> None:
    seen: list[Any] = []

    async def patient(ctx: Context[Num | Word]) -> None:
        with trio.move_on_after(1):
            await ctx.inbox.receive(Word)
        seen.append(await ctx.inbox.receive(Num))
        await trio.sleep_forever()

    async with open_system("s") as system:
        ref = await system.spawn(patient)
        ref.tell(Num(1))
        await trio.sleep(2)
        assert seen == [Num(1)]
        ref.kill()


async def test_the_inbox_is_bounded_with_what_is_left_in_it() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(get_only, mailbox=2)
        for n in (1, 2):
            await ref.send(Num(n))
        with pytest.raises(MailboxFull):
            ref.tell(Num(3))


async def test_a_sender_that_waits_for_room_is_let_in_in_order() -> None:
    seen: list[Any] = []

    async def late(ctx: Context[Num]) -> None:
        await trio.lowlevel.checkpoint()
        async for message in ctx.inbox:
            seen.append(message)

    async with open_system("s") as system:
        ref = await system.spawn(late, mailbox=1)
        for n in range(5):
            await ref.send(Num(n))
        await wait_all_tasks_blocked()
        assert seen == [Num(n) for n in range(5)]


async def test_timers_watches_and_pipes_come_through_the_inbox_first(autojump_clock: Any) -> None:
    seen: list[Any] = []

    async def everything(ctx: Context[Any], other: Ref[Any]) -> None:
        ctx.watch(other)
        ctx.after(1, Num(1))
        ctx.pipe(trio.sleep, 2, to=lambda _: Word("slept"))
        await trio.sleep(5)
        async for message in ctx.inbox:
            seen.append(message)

    async with open_system("s") as system:
        other = await system.spawn(get_only)
        ref = await system.spawn(everything, other)
        ref.tell(Num(9))
        other.stop()
        why = await other.stopped()
        await trio.sleep(10)
        assert seen == [Terminated(other, why), Num(1), Word("slept"), Num(9)]


async def test_a_control_message_that_is_left_hides_no_later_one(autojump_clock: Any) -> None:
    seen: list[Any] = []

    async def picky(ctx: Context[Any]) -> None:
        ctx.after(1, Num(1))
        ctx.after(2, Word("x"))
        seen.append(await ctx.inbox.receive(Word))
        seen.append(await ctx.inbox.receive(Num))
        await ctx.inbox.receive()

    async with open_system("s") as system:
        await system.spawn(picky)
        await trio.sleep(5)
        assert seen == [Word("x"), Num(1)]


async def test_two_tasks_of_a_protocol_may_receive_at_once() -> None:
    seen: list[Any] = []

    async def both(ctx: Context[Num | Word]) -> None:
        async def take(kind: type[Any]) -> None:
            while True:
                seen.append(await ctx.inbox.receive(kind))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, Num)
            nursery.start_soon(take, Word)

    async with open_system("s") as system:
        ref = await system.spawn(both)
        for message in (Word("a"), Num(1), Num(2), Word("b")):
            ref.tell(message)
            await wait_all_tasks_blocked()
        assert seen == [Word("a"), Num(1), Num(2), Word("b")]
        ref.stop()
        assert (await ref.stopped()).kind == "stopped"  # two InboxClosed in a group


# --- ends ---------------------------------------------------------------------------------------


async def test_a_protocol_that_returns_has_finished_and_the_rest_are_dead_letters() -> None:
    async def once(ctx: Context[Num | Word]) -> None:
        await ctx.inbox.receive(Word)

    async with open_system("s") as system:
        ref = await system.spawn(once)
        ref.tell(Num(1))
        ref.tell(Word("end"))
        assert (await ref.stopped()).kind == "finished"
        assert [letter.message for letter in system.dead_letters] == [Num(1)]


@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
async def test_each_kind_of_stop_ends_it_with_its_clean_up(how: str) -> None:
    trace: list[str] = []

    async def careful(ctx: Context[Num]) -> None:
        try:
            await ctx.inbox.receive(Word)
        except (InboxClosed, trio.Cancelled) as exc:
            trace.append(type(exc).__name__)
            raise

    async with open_system("s") as system:
        ref = await system.spawn(careful)
        await wait_all_tasks_blocked()
        getattr(ref, how)()
        assert (await ref.stopped()).kind == {"stop": "stopped", "drain": "drained"}.get(
            how, "killed"
        )
    assert trace == ["InboxClosed"]


async def test_a_kill_cancels_what_it_does_outside_of_a_receive() -> None:
    trace: list[str] = []

    async def busy(ctx: Context[Num]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            trace.append("cleaned up")

    async with open_system("s") as system:
        ref = await system.spawn(busy)
        await wait_all_tasks_blocked()
        ref.kill()
        assert (await ref.stopped()).kind == "killed"
        assert trace == ["cleaned up"]


async def test_a_drain_gives_what_is_queued_first() -> None:
    seen: list[Any] = []

    async def slow(ctx: Context[Num]) -> None:
        await trio.lowlevel.checkpoint()
        async for message in ctx.inbox:
            seen.append(message)

    async with open_system("s") as system:
        ref = await system.spawn(slow)
        for n in range(3):
            ref.tell(Num(n))
        ref.drain()
        await ref.stopped()
    assert seen == [Num(0), Num(1), Num(2)]


async def test_one_that_will_not_end_is_cut_when_its_budget_is_spent(autojump_clock: Any) -> None:
    async def stubborn(ctx: Context[Num]) -> None:
        await trio.sleep_forever()

    async with open_system("s") as system:
        ref = await system.spawn(stubborn, shutdown=2.0)
        await wait_all_tasks_blocked()
        start = trio.current_time()
        ref.stop()
        await ref.stopped()
        assert 2 <= trio.current_time() - start < 3


async def test_a_stop_before_the_first_step_leaves_nothing() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(get_only)
        ref.kill()
        assert (await ref.stopped()).kind == "killed"


@pytest.mark.parametrize("ends", ["crash", "return"])
async def test_a_request_in_hand_is_told_when_the_protocol_ends(ends: str) -> None:
    async def forgetful(ctx: Context[Get]) -> None:
        await ctx.inbox.receive(Get)
        if ends == "crash":
            raise ValueError("boom")

    async with open_system("s") as system:
        ref = await system.spawn(forgetful, restart="transient")
        with pytest.raises(ActorCrashed if ends == "crash" else ActorStopped) as raised:
            await ref.ask(Get())
        if ends == "crash":
            assert repr(raised.value.__cause__) == "ValueError('boom')"


async def test_a_crash_restarts_it_with_its_mail_in_order() -> None:
    seen: list[Any] = []

    async def fragile(ctx: Context[Num]) -> None:
        async for message in ctx.inbox:
            if message == Num(1):
                raise ValueError("boom")
            seen.append(message)

    async with open_system("s") as system:
        ref = await system.spawn(fragile, restart="transient")
        for n in range(4):
            ref.tell(Num(n))
        await wait_all_tasks_blocked()
        assert seen == [Num(0), Num(2), Num(3)]
        assert ref.incarnation == 2


async def test_a_crash_without_a_restart_reaches_the_block() -> None:
    async def fragile(ctx: Context[Num]) -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        async with open_system("s") as system:
            await system.spawn(fragile)
            await trio.sleep_forever()


async def test_a_child_of_a_protocol_fails_it() -> None:
    class Fails(Actor):
        @handles(Num)
        def fail(self, message: Num) -> None:
            raise ValueError("child")

    async def parent(ctx: Context[Word]) -> None:
        child = await ctx.spawn(Fails)
        child.tell(Num(1))
        await ctx.inbox.receive()

    with pytest.raises(ValueError, match="child"):
        async with open_system("s") as system:
            await system.spawn(parent)
            await trio.sleep_forever()


async def test_asks_of_a_protocol_are_edges_of_the_wait_graph() -> None:
    caught: list[BaseException] = []

    async def selfish(ctx: Context[Get]) -> None:
        with pytest.raises(AskCycle) as raised:
            await ctx.self_ref.ask(Get())
        caught.append(raised.value)
        await ctx.inbox.receive()

    async with open_system("s") as system:
        await system.spawn(selfish)
        await wait_all_tasks_blocked()
        assert len(caught) == 1


async def test_an_asker_that_gives_up_makes_room_again() -> None:
    async def deaf(ctx: Context[Get | Word]) -> None:
        await ctx.inbox.receive(Word)
        await ctx.inbox.receive()

    async with open_system("s") as system:
        ref = await system.spawn(deaf, mailbox=2)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, Get())
                await wait_all_tasks_blocked()
                scope.cancel()
        assert ref.statistics().depth == 1
        ref.tell(Word("a"))
        await wait_all_tasks_blocked()
        assert ref.statistics().depth == 0


# --- mistakes -----------------------------------------------------------------------------------


async def test_an_inbox_belongs_to_a_protocol_and_a_stash_to_handlers() -> None:
    class Handling(Actor):
        @handles(Num)
        async def num(self, message: Num, ctx: Context[Any]) -> None:
            with pytest.raises(RuntimeError, match="an inbox is a protocol's"):
                await ctx.inbox.receive()

    async def stashing(ctx: Context[Num]) -> None:
        with pytest.raises(RuntimeError, match="leaves in its inbox"):
            ctx.stash()
        wrong: Any = 3
        with pytest.raises(TypeError, match="takes the class of a message"):
            await ctx.inbox.receive(wrong)
        await ctx.inbox.receive()

    async with open_system("s") as system:
        (await system.spawn(Handling)).tell(Num(1))
        await system.spawn(stashing)
        await wait_all_tasks_blocked()


async def test_wrong_arguments_fail_the_start() -> None:
    wrong: Callable[..., Any] = get_only
    async with open_system("s") as system:
        with pytest.raises(StartFailed):
            await system.spawn(wrong, 1, 2)


async def test_keyword_arguments_go_through_partial() -> None:
    async def keyworded(ctx: Context[Get], *, plus: int) -> None:
        async for message in ctx.inbox:
            assert isinstance(message, Asking)
            message.reply(plus)

    async with open_system("s") as system:
        ref = await system.spawn(partial(keyworded, plus=7), name="k")
        assert await ref.ask(Get()) == 7


async def test_all_of_it_reads_asks_and_tells_in_order() -> None:
    seen: list[Any] = []
    async with open_system("s") as system:
        ref = await system.spawn(all_of_it, seen)
        ref.tell(Num(1))
        assert await ref.ask(Get(4)) == 4
        assert seen == [Num(1)]


async def test_a_protocol_restarts_with_its_siblings_and_keeps_its_mail() -> None:
    seen: list[Any] = []

    async def fails(ctx: Context[Word]) -> None:
        await ctx.inbox.receive(Word)
        raise ValueError("boom")

    async def words_only(ctx: Context[Num | Word]) -> None:
        seen.append("begins")
        async for message in ctx.inbox:
            seen.append(message)
            await ctx.inbox.receive(Word)

    async with open_system("s", strategy=one_for_all()) as system:
        bad = await system.spawn(fails, restart="permanent")
        ref = await system.spawn(words_only, restart="permanent")
        ref.tell(Num(1))
        ref.tell(Num(2))
        await wait_all_tasks_blocked()
        bad.tell(Word("now"))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2
        assert seen == ["begins", Num(1), "begins", Num(2)]


async def test_a_scope_left_open_by_a_protocol_is_its_own_failure() -> None:
    kept: list[Any] = []

    async def leaky(ctx: Context[Num]) -> None:
        scope = trio.CancelScope()
        kept.append(scope)
        scope.__enter__()

    with pytest.raises(Exception, match=r"[Cc]ancel scope"):
        async with open_system("s") as system:
            await system.spawn(leaky)
            await trio.sleep_forever()


async def test_ctrl_c_in_a_protocol_ends_the_system_past_every_supervisor() -> None:
    async def interrupted(ctx: Context[Num]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with open_system("s") as system:
            await system.spawn(interrupted, restart="permanent")
            await trio.sleep_forever()


async def test_redelivery_is_refused_for_a_protocol() -> None:
    wrong: Any = {"redeliver": 2}
    async with open_system("s") as system:
        with pytest.raises(StartFailed, match="redeliver= is for handlers"):
            await system.spawn(get_only, restart="transient", **wrong)


async def test_a_significant_protocol_that_finishes_ends_its_parent() -> None:
    async def once(ctx: Context[Num]) -> None:
        await ctx.inbox.receive(Num)

    strategy = one_for_one(auto_shutdown="any")
    with trio.fail_after(10):
        async with open_system("s", strategy=strategy) as system:
            ref = await system.spawn(once, significant=True, restart="transient")
            ref.tell(Num(1))
            await trio.sleep_forever()  # the block ends with it
    assert not ref.statistics().depth


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("tell"), st.integers(0, 3)),
            st.tuples(st.just("want"), st.integers(0, 3)),
            st.tuples(st.just("any"), st.just(0)),
        ),
        max_size=30,
    )
)
def test_an_inbox_behaves_like_a_list_from_which_one_takes_the_first_that_fits(
    steps: list[tuple[str, int]],
) -> None:
    model: list[Num] = []
    expected: list[Num | None] = []
    got: list[Num | None] = []

    async def obedient(ctx: Context[Num]) -> None:
        for what, n in steps:
            if what == "tell":
                ctx.self_ref.tell(Num(n))
                continue
            found: Any = None
            with trio.CancelScope(deadline=trio.current_time()):
                if what == "any":
                    found = await ctx.inbox.receive()
                else:
                    found = await ctx.inbox.receive(partial(operator.eq, Num(n)))
            got.append(found)
        assert ctx.self_ref.statistics().depth == len(model)

    for what, n in steps:
        if what == "tell":
            model.append(Num(n))
            continue
        first = next((m for m in model if what == "any" or m == Num(n)), None)
        if first is not None:
            model.remove(first)
        expected.append(first)

    async def main() -> None:
        async with open_system("s") as system:
            ref = await system.spawn(obedient)
            assert (await ref.stopped()).kind == "finished"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert got == expected


async def test_a_permanent_protocol_that_returns_begins_again_within_its_intensity() -> None:
    lives: list[int] = []

    async def once(ctx: Context[Num]) -> None:
        lives.append(ctx.self_ref.incarnation)
        await ctx.inbox.receive(Num)

    with pytest.raises(RestartLimitReached):
        async with open_system("s") as system:
            ref = await system.spawn(once, restart="permanent")
            for n in range(4):
                ref.tell(Num(n))
            await trio.sleep_forever()
    assert lives == [1, 2, 3, 4]


async def test_the_statistics_of_an_inbox_say_how_deep_it_was_and_how_old_its_mail_is(
    autojump_clock: Any,
) -> None:
    async def words_first(ctx: Context[Num | Word]) -> None:
        while True:
            await ctx.inbox.receive(Word)
            await ctx.inbox.receive(Num)

    async with open_system("s") as system:
        ref = await system.spawn(words_first)
        await wait_all_tasks_blocked()
        ref.tell(Num(1))
        await trio.sleep(5)
        assert ref.statistics().oldest_age == pytest.approx(5)
        ref.tell(Word("a"))
        await trio.sleep(5)
        numbers = ref.statistics()
        assert (numbers.depth, numbers.high_water, numbers.processed) == (0, 2, 2)
        assert numbers.oldest_age == 0
        ref.tell(Num(2))
        await trio.sleep(3)
        assert ref.statistics().oldest_age == pytest.approx(3)


async def test_answers_that_nobody_waits_for_any_more_are_dropped_and_counted() -> None:
    async def late(ctx: Context[Get | Word]) -> None:
        askings = [await ctx.inbox.receive(Get) for _ in range(4)]
        await ctx.inbox.receive(Word)
        for asking in askings:
            asking.reply(1)
        await ctx.inbox.receive()

    async with open_system("s") as system:
        ref = await system.spawn(late, mailbox=2)
        for _ in range(4):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ref.ask, Get())
                    await wait_all_tasks_blocked()
                    scope.cancel()
        ref.tell(Word("now"))
        await wait_all_tasks_blocked()
        assert system.statistics().late_replies == 4
