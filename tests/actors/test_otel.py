"""OpenTelemetry: spans that follow a message from its sender to its turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Actor, Context, OpenTelemetry, Request, Terminated, handles, open_system
from trouper.errors import ActorCrashed, ActorStopped, MailboxFull, NotHandled, Reject

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

pytestmark = pytest.mark.proves("Interop: OpenTelemetry")


class Spans:
    """What was traced, and a tracer for the test's own spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")
        self.instruments = [OpenTelemetry(self.provider)]

    def __iter__(self) -> Iterator[ReadableSpan]:
        return iter(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of that name."""
        (span,) = self.all(name)
        return span

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self if span.name == name]

    def way(self, span: ReadableSpan) -> list[str]:
        """Return the names from a span up to its root."""
        known = {each.context.span_id: each for each in self if each.context is not None}
        names = [span.name]
        while span.parent is not None:
            span = known[span.parent.span_id]
            names.append(span.name)
        return names


@pytest.fixture
def spans() -> Spans:
    return Spans()


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def exceptions(span: ReadableSpan) -> list[Any]:
    return [(event.attributes or {})["exception.message"] for event in span.events]


@dataclass(frozen=True, slots=True)
class Do:
    """A message; its function gets the context and is awaited."""

    fn: Any


@dataclass(frozen=True, slots=True)
class Get(Request[Any]):
    """A request to an async handler."""

    fn: Any


@dataclass(frozen=True, slots=True)
class Note(Request[Any]):
    """A request to a plain handler; its function gets the context."""

    fn: Any = None


class Clerk(Actor[Do | Get | Note | Terminated]):
    @handles(Do)
    async def do(self, message: Do, ctx: Context[Any]) -> None:
        await message.fn(ctx)

    @handles(Get)
    async def get(self, message: Get, ctx: Context[Any]) -> Any:
        return await message.fn(ctx)

    @handles(Note)
    def note(self, message: Note, ctx: Context[Any]) -> Any:
        return None if message.fn is None else message.fn(ctx)

    @handles(Terminated)
    def ended(self, message: Terminated) -> None: ...


def open_traced(spans: Spans, **options: Any) -> Any:
    return open_system("s", instruments=spans.instruments, **options)


# --- the way of a message -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["tell", "send", "ask"])
async def test_a_turn_is_a_child_of_the_call_that_sent_its_message(spans: Spans, how: str) -> None:
    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk, name="c")
        with spans.tracer.start_as_current_span("caller"):
            result = getattr(ref, how)(Note())
            if how != "tell":
                await result
    sent, turn = spans.named(f"{how} Clerk"), spans.named("process Clerk")
    assert spans.way(turn) == ["process Clerk", f"{how} Clerk", "caller"]
    assert (sent.kind, turn.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [link.context for link in turn.links] == [sent.context]
    assert facts(sent) == {
        "messaging.system": "trouper",
        "messaging.operation.name": how,
        "messaging.operation.type": "send",
        "messaging.destination.name": "/s/c",
        "messaging.destination.template": "Clerk",
        "trouper.message.type": "Note",
        "trouper.outcome": "done",
    }
    assert facts(turn) == {
        "messaging.system": "trouper",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "/s/c",
        "messaging.destination.template": "Clerk",
        "trouper.message.type": "Note",
        "trouper.actor.incarnation": 1,
        "trouper.delivery": 1,
        "trouper.outcome": "done",
    }
    assert turn.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("kind", [Get, Note])
async def test_what_a_handler_does_is_done_inside_its_span(spans: Spans, kind: Any) -> None:
    def work(ctx: Any) -> None:
        with spans.tracer.start_as_current_span("work"):
            pass

    async def slow_work(ctx: Any) -> None:
        await trio.lowlevel.checkpoint()
        work(ctx)

    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk)
        with spans.tracer.start_as_current_span("caller") as caller:
            await ref.ask(kind(slow_work if kind is Get else work))
            assert trace.get_current_span() is caller  # also after a direct ask
    assert spans.way(spans.named("work")) == ["work", "process Clerk", "ask Clerk", "caller"]


async def test_a_chain_of_actors_is_one_trace_and_others_are_apart(spans: Spans) -> None:
    async with open_traced(spans) as system:
        last = await system.spawn(Clerk, name="last")
        for caller in "ab":

            async def pass_on(ctx: Any) -> None:
                await trio.lowlevel.checkpoint()
                last.tell(Note())

            with spans.tracer.start_as_current_span(caller):
                (await system.spawn(Clerk)).tell(Do(pass_on))
        await wait_all_tasks_blocked()
    turns = [s for s in spans.all("process Clerk") if "/s/last" in facts(s).values()]
    chain = ["process Clerk", "tell Clerk"]
    ways = sorted(spans.way(turn) for turn in turns)
    assert ways == [[*chain, *chain, "a"], [*chain, *chain, "b"]]


async def test_children_of_a_handler_and_threads_are_inside_its_span(spans: Spans) -> None:
    async with open_traced(spans) as system:
        other = await system.spawn(Clerk, name="other")

        async def work(ctx: Any) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.send, Note())
            await ctx.to_thread(trio.from_thread.run, other.ask, Note())

        await (await system.spawn(Clerk)).ask(Get(work))
    for how in ("send", "ask"):
        (inner,) = [span for span in spans.all(f"{how} Clerk") if span.parent is not None]
        assert spans.way(inner) == [f"{how} Clerk", "process Clerk", "ask Clerk"]


async def test_baggage_travels_with_the_message(spans: Spans) -> None:
    async def read(ctx: Any) -> Any:
        return baggage.get_baggage("tenant")

    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk)
        token = context.attach(baggage.set_baggage("tenant", "ann"))
        try:
            assert await ref.ask(Get(read)) == "ann"
        finally:
            context.detach(token)
        assert await ref.ask(Get(read)) is None


async def test_a_send_that_waits_for_room_is_as_long_as_its_wait(spans: Spans) -> None:
    gate = trio.Event()
    async with open_traced(spans, mailbox=1) as system:
        ref = await system.spawn(Clerk)
        ref.tell(Do(lambda ctx: gate.wait()))
        await wait_all_tasks_blocked()
        ref.tell(Note())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.send, Note())
            await wait_all_tasks_blocked()
            assert spans.all("send Clerk") == []
            gate.set()
        with pytest.raises(MailboxFull):
            for _ in range(3):
                ref.tell(Note())
    sent = spans.named("send Clerk")
    assert [spans.way(turn)[1] for turn in spans.all("process Clerk")].count("send Clerk") == 1
    assert facts(sent)["trouper.outcome"] == "done"
    (refused,) = [s for s in spans.all("tell Clerk") if s.status.status_code is StatusCode.ERROR]
    assert facts(refused)["error.type"] == "trouper.errors.MailboxFull"


# --- timers, pipes, protocols ---------------------------------------------------------------------


async def test_a_timer_goes_on_with_the_trace_that_set_it(
    spans: Spans, autojump_clock: Any
) -> None:
    async def set_timer(ctx: Any) -> None:
        ctx.after(5, Note())

    async with open_traced(spans) as system:
        (await system.spawn(Clerk)).tell(Do(set_timer))
        await trio.sleep(6)
    (turn,) = [s for s in spans.all("process Clerk") if facts(s)["trouper.message.type"] == "Note"]
    assert spans.way(turn) == ["process Clerk", "after Clerk", "process Clerk", "tell Clerk"]


async def test_each_tick_of_a_repeating_timer_is_a_trace_linked_to_the_one_that_set_it(
    spans: Spans, autojump_clock: Any
) -> None:
    async def set_timer(ctx: Any) -> None:
        ctx.every(1, Note())

    async with open_traced(spans) as system:
        (await system.spawn(Clerk)).tell(Do(set_timer))
        await trio.sleep(3.5)
    setting = spans.named("every Clerk")
    ticks = [s for s in spans.all("process Clerk") if facts(s)["trouper.message.type"] == "Note"]
    assert len({tick.context.trace_id for tick in ticks if tick.context} - {0}) == 3
    for tick in ticks:
        assert tick.parent is None
        assert [link.context for link in tick.links] == [setting.context]


async def test_a_pipe_and_its_result_are_inside_the_turn_that_started_it(spans: Spans) -> None:
    async def work() -> int:
        with spans.tracer.start_as_current_span("work"):
            await trio.lowlevel.checkpoint()
        return 1

    async def fail() -> None:
        raise ValueError("pipe")

    async def start(ctx: Any) -> None:
        ctx.pipe(work, to=lambda n: Note())
        ctx.pipe(fail, to=lambda n: Note(), failed=lambda error: Note())

    async with open_traced(spans) as system:
        (await system.spawn(Clerk)).tell(Do(start))
        await wait_all_tasks_blocked()
    assert spans.way(spans.named("work")) == ["work", "process Clerk", "tell Clerk"]
    ways = [spans.way(span) for span in spans.all("process Clerk")]
    assert ways.count(["process Clerk", "pipe Clerk", "process Clerk", "tell Clerk"]) == 2


async def test_a_protocol_has_each_message_in_hand_until_it_receives_the_next(
    spans: Spans,
) -> None:
    done = trio.Event()

    async def reader(ctx: Context[Any]) -> None:
        other = await ctx.spawn(Clerk)
        for _ in range(2):
            assert isinstance(await ctx.inbox.receive(str), str)
            other.tell(Note())
        done.set()
        await ctx.inbox.receive(int)
        other.tell(Note())
        await ctx.inbox.receive(int)

    async with open_traced(spans) as system:
        ref = await system.spawn(reader, name="r")
        for caller, message in (("one", "first"), ("two", "second")):
            with spans.tracer.start_as_current_span(caller):
                ref.tell(message)
        await done.wait()
        await wait_all_tasks_blocked()
        assert len(spans.all("process reader")) == 2  # ended: it waits for another
        ref.tell(3)
        await wait_all_tasks_blocked()
        ref.tell(4)
        await ref.stopped()
    chain = ["process Clerk", "tell Clerk", "process reader", "tell reader"]
    ways = [spans.way(span) for span in spans.all("process Clerk")]
    assert ways == [[*chain, "one"], [*chain, "two"], chain]
    assert len(spans.all("process reader")) == 4


async def test_a_request_to_a_protocol_is_in_hand_until_it_is_answered(spans: Spans) -> None:
    async def answers(ctx: Context[Any]) -> None:
        first = await ctx.inbox.receive(Note)
        second = await ctx.inbox.receive(Note)
        third = await ctx.inbox.receive(Note)
        assert spans.all("process answers") == []
        second.fail(Reject("no"))
        first.reply(1)
        third.fail(ValueError("boom"))
        await ctx.inbox.receive(Note)
        raise KeyError("gone")

    async def ask() -> None:
        with pytest.raises((Reject, ValueError, ActorCrashed)):
            await ref.ask(Note())

    with pytest.raises(KeyError):
        async with open_traced(spans) as system:
            ref = await system.spawn(answers)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, Note())
                for _ in range(2):
                    await wait_all_tasks_blocked()
                    nursery.start_soon(ask)
            await ask()
    turns = spans.all("process answers")
    assert [facts(span)["trouper.outcome"] for span in turns] == [
        "rejected",
        "done",
        "failed",
        "failed",
    ]
    assert [exceptions(turn) for turn in turns] == [["no"], [], ["boom"], ["'gone'"]]


async def test_tasks_of_a_protocol_have_their_messages_in_hand_apart(spans: Spans) -> None:
    async def reader(ctx: Context[Any]) -> None:
        other = await ctx.spawn(Clerk)

        async def one(what: Any) -> None:
            await ctx.inbox.receive(what)
            await wait_all_tasks_blocked()
            other.tell(Note())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, str)
            nursery.start_soon(one, int)
        await ctx.inbox.receive(float)  # both tasks have ended, and put down what they had
        assert len(spans.all("process reader")) == 2

    async with open_traced(spans) as system:
        ref = await system.spawn(reader)
        for caller, message in (("text", "x"), ("number", 1), ("float", 0.5)):
            with spans.tracer.start_as_current_span(caller):
                ref.tell(message)
        await ref.stopped()
    roots = {spans.way(span)[-1] for span in spans.all("process Clerk")}
    assert roots == {"text", "number"}


# --- how it ended ---------------------------------------------------------------------------------


async def forever(ctx: Any) -> None:
    await trio.sleep_forever()


async def late(seconds: float, ctx: Any) -> None:
    await trio.sleep(seconds)


def boom(ctx: Any) -> None:
    raise ValueError("boom")


def refuse(ctx: Any) -> None:
    raise Reject("not today")


async def test_a_crash_is_an_exception_and_an_error_on_its_turn_and_on_the_ask(
    spans: Spans,
) -> None:
    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk, restart="permanent")
        with pytest.raises(ActorCrashed):
            await ref.ask(Note(boom))
        await ref.ask(Note())
    turn, after = spans.all("process Clerk")
    assert turn.status.status_code is StatusCode.ERROR
    assert turn.status.description == "failed: boom"
    assert exceptions(turn) == ["boom"]
    assert facts(turn)["trouper.outcome"] == "failed"
    assert facts(turn)["error.type"] == "builtins.ValueError"
    asked = spans.all("ask Clerk")[0]
    assert facts(asked)["error.type"] == "trouper.errors.ActorCrashed"
    assert asked.status.status_code is StatusCode.ERROR
    assert facts(after)["trouper.actor.incarnation"] == 2


async def test_a_refusal_is_an_error_too_and_says_that_it_is_a_refusal(spans: Spans) -> None:
    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk)
        with pytest.raises(Reject):
            await ref.ask(Note(refuse))
        ref.tell(Note(refuse))
        await wait_all_tasks_blocked()
    for span in (*spans.all("process Clerk"), *spans.all("ask Clerk")):
        assert span.status.status_code is StatusCode.ERROR
        assert exceptions(span) == ["not today"]
        assert facts(span)["trouper.outcome"] == "rejected"
        assert facts(span)["error.type"] == "trouper.errors.Reject"
    assert facts(spans.named("tell Clerk"))["trouper.outcome"] == "done"  # it was delivered


async def test_a_turn_that_is_cut_says_so_even_if_it_swallowed_that(spans: Spans) -> None:
    async def stubborn(ctx: Any) -> str:
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        return "swallowed"

    async with open_traced(spans) as system:
        for fn in (stubborn, forever):
            ref = await system.spawn(Clerk)
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def ask(ref: Any = ref, fn: Any = fn) -> None:
                    with pytest.raises(ActorStopped):
                        await ref.ask(Get(fn))

                await wait_all_tasks_blocked()
                ref.kill()
    assert [facts(span)["trouper.outcome"] for span in spans.all("process Clerk")] == ["cut"] * 2
    assert {s.status.status_code for s in spans.all("process Clerk")} == {StatusCode.ERROR}


async def test_an_ask_that_its_caller_gave_up_is_cancelled_and_its_turn_ends_later(
    spans: Spans, autojump_clock: Any
) -> None:
    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk)
        with trio.move_on_after(1):
            await ref.ask(Get(partial(late, 5)))
        assert facts(spans.named("ask Clerk"))["trouper.outcome"] == "cancelled"
        assert spans.all("process Clerk") == []
    assert facts(spans.named("process Clerk"))["trouper.outcome"] == "done"


async def test_a_stashed_message_has_a_turn_each_time(spans: Spans) -> None:
    class Door(Actor[Note | str]):
        def __init__(self) -> None:
            self.is_open = False

        @handles(Note)
        def note(self, message: Note, ctx: Context[Any]) -> str:
            if not self.is_open:
                ctx.stash()
            return "in"

        @handles(str)
        def open(self, message: str, ctx: Context[Any]) -> None:
            self.is_open = True
            ctx.unstash_all()

    async with open_traced(spans) as system:
        ref = await system.spawn(Door)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Note())
            await wait_all_tasks_blocked()
            ref.tell("open")
    turns = [s for s in spans.all("process Door") if spans.way(s)[1] == "ask Door"]
    assert [facts(turn)["trouper.outcome"] for turn in turns] == ["stashed", "done"]
    assert [facts(turn)["trouper.delivery"] for turn in turns] == [1, 2]
    assert turns[0].status.status_code is StatusCode.UNSET


async def test_a_redelivered_message_has_a_turn_each_time(spans: Spans) -> None:
    crashes = iter([True, False])

    def once(ctx: Any) -> str:
        if next(crashes):
            raise ValueError("once")
        return "done"

    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk, restart="permanent", redeliver=1)
        assert await ref.ask(Note(once)) == "done"
    turns = spans.all("process Clerk")
    assert [facts(turn)["trouper.outcome"] for turn in turns] == ["failed", "done"]
    assert [facts(turn)["trouper.actor.incarnation"] for turn in turns] == [1, 2]
    assert [facts(turn)["trouper.delivery"] for turn in turns] == [1, 2]


async def test_a_message_that_is_lost_leaves_a_span_that_says_where(spans: Spans) -> None:
    async with open_traced(spans) as system:
        ref = await system.spawn(Clerk)
        ref.tell(Do(forever))
        await wait_all_tasks_blocked()
        ref.tell(Note())
        ref.kill()
        await ref.stopped()
        ref.tell(Note())
        assert [type(letter.message) for letter in system.dead_letters] == [Note, Do, Note]
    drops = spans.all("drop Clerk")
    reasons = [facts(drop)["trouper.reason"] for drop in drops]
    assert reasons == ["killed", "cut mid-turn", "stopped"]
    assert [spans.way(drop) for drop in drops] == [["drop Clerk", "tell Clerk"]] * 3
    assert {drop.status.status_code for drop in drops} == {StatusCode.ERROR}


async def test_a_message_that_is_refused_at_its_line_is_an_error_on_the_senders_span(
    spans: Spans,
) -> None:
    async with open_traced(spans) as system:
        ref: Any = await system.spawn(Clerk)
        with pytest.raises(NotHandled, match=r"it handles Do, Get, Note, Terminated$"):
            ref.tell("what")
        ref.stop()
        await ref.stopped()
        for call in (ref.send, ref.ask):
            with pytest.raises(ActorStopped):
                await call(Note())
    assert facts(spans.named("tell Clerk"))["error.type"] == "trouper.errors.NotHandled"
    for name in ("send Clerk", "ask Clerk"):
        assert facts(spans.named(name))["error.type"] == "trouper.errors.ActorStopped"
    assert spans.all("process Clerk") == []


# --- what stays as it is --------------------------------------------------------------------------


async def test_a_target_is_known_by_its_class_whatever_made_it(spans: Spans) -> None:
    async with open_traced(spans) as system:
        for make in (Clerk, partial(Clerk), lambda: Clerk()):
            (await system.spawn(make)).tell(Note())
    names = [span.name for span in spans if span.kind is SpanKind.PRODUCER]
    assert names == ["tell Clerk", "tell Clerk", "tell actor"]


async def test_what_nobody_sent_has_no_span(spans: Spans) -> None:
    async with open_traced(spans) as system:
        watcher, other = await system.spawn(Clerk), await system.spawn(Clerk)
        await watcher.ask(Note(lambda ctx: ctx.watch(other)))
        other.stop()
        await wait_all_tasks_blocked()
        assert watcher.statistics().processed == 2
    assert len(list(spans)) == 2


async def test_priorities_and_bounds_see_the_message(spans: Spans) -> None:
    seen: list[str] = []
    gate = trio.Event()

    class Desk(Actor[str | Do]):
        @handles(str)
        def take(self, message: str) -> None:
            seen.append(message)

        @handles(Do)
        async def do(self, message: Do, ctx: Context[Any]) -> None:
            await gate.wait()

    async with open_traced(spans) as system:
        ref = await system.spawn(Desk, priority=str, overflow="drop_newest", mailbox=3)
        ref.tell(Do(None))
        await wait_all_tasks_blocked()
        for text in "bdac":
            ref.tell(text)
        gate.set()
        await wait_all_tasks_blocked()
        assert [letter.message for letter in system.dead_letters] == ["d"]
    assert seen == ["a", "b", "c"]


async def test_the_global_provider_is_the_default() -> None:
    # none is set here: its spans record nothing, and nothing fails
    async with open_system("s", instruments=[OpenTelemetry()]) as system:
        assert await (await system.spawn(Clerk)).ask(Note(lambda ctx: 1)) == 1


def test_without_the_extra_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from trouper.actors import OpenTelemetry
from trouper.errors import ExtraMissing
try:
    OpenTelemetry()
except ExtraMissing as missing:
    print(missing.extra, missing)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "otel OpenTelemetry() needs its API: pip install 'trouper[otel]'\n"
