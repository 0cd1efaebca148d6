"""What a caller can get wrong with actors: refused at the earliest point, with a sentence."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import dataclass
from functools import partial
from typing import Any, Never, cast

import pytest
import trio
import trio.testing

from trouper import Decision, DurableActor, decides
from trouper.actors import Actor, Context, OpenTelemetry, Request, handles, open_system
from trouper.errors import ActorCrashed, ActorStopped, NotHandled, ShuttingDown, StartFailed
from trouper.supervision import Supervisor, one_for_one, render_text
from trouper.testing import TestKit


class Named(Actor):
    def __init__(self, label: str, *, loud: bool) -> None: ...

    @handles(str)
    def take(self, message: str) -> None: ...


@pytest.mark.proves("Misuse: constructor arguments that do not fit")
async def test_constructor_arguments_that_do_not_fit_are_named_at_the_spawn() -> None:
    spawn_as: Any = Named
    async with open_system("s") as system:
        for args, missing in (((), "label"), (("a",), "loud")):
            with pytest.raises(StartFailed, match=rf"Named did not start under /s.*{missing}"):
                await system.spawn(spawn_as, *args, name="n")
        await system.spawn(partial(spawn_as, loud=True), "a", name="n")


@pytest.mark.proves("Misuse: a ref used after the system closed")
async def test_a_ref_outlives_its_system_and_says_that_it_is_over() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(partial(Named, "a", loud=True), name="a")
    late: Any = ref
    for send in (late.send, late.ask):
        with pytest.raises(ActorStopped, match="/s/a is stopped"):
            await send("hello")
    late.tell("hello")
    assert [letter.reason for letter in system.dead_letters] == ["stopped"]
    for stop in (late.stop, late.drain, late.kill):
        stop()
    assert (await late.stopped()).kind == "shutdown"
    with pytest.raises(ShuttingDown, match="/s is stopping"):
        await system.spawn(partial(Named, "b", loud=True))


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class Ring(Request[str]): ...


class Counter(Actor[Add]):
    def __init__(self, start: int) -> None:
        self.total = start

    @handles(Add)
    def add(self, message: Add) -> None:
        self.total += message.n


async def listen(ctx: Context[Any]) -> None:
    async for _ in ctx.inbox:
        pass


class Parent(Actor[type | str]):
    """Spawns what it is sent, or does what its constructor was given, as its own turn."""

    def __init__(self, work: Any) -> None:
        self.work = work

    @handles(str)
    async def go(self, message: str, ctx: Context[Any]) -> None:
        await self.work(ctx)

    @handles(type)
    def later(self, message: type) -> None: ...


async def in_an_actor(work: Any) -> None:
    """Run ``work(ctx)`` as a turn and raise what it raised."""
    async with open_system("s") as system:
        ref: Any = await system.spawn(Parent, work, restart="transient")
        try:
            await ref.ask("go")
        except ActorCrashed as crash:
            raise cast("BaseException", crash.__cause__) from None


@pytest.mark.proves("Misuse: an instance instead of a class")
@pytest.mark.parametrize("by", ["system", "context", "kit"])
async def test_an_instance_instead_of_a_class_is_refused_at_the_spawn(by: str) -> None:
    instance: Any = Counter(1)
    with pytest.raises(StartFailed, match=r"spawn\(Counter, \.\.\.\), not an instance of Counter"):
        if by == "system":
            async with open_system("s") as system:
                await system.spawn(instance, name="n")
        elif by == "context":
            await in_an_actor(lambda ctx: ctx.spawn(instance))
        else:
            async with TestKit(instance):
                pass


@pytest.mark.proves("Misuse: an instance instead of a class")
async def test_the_name_is_free_after_a_spawn_of_no_actor() -> None:
    instance: Any = Counter(1)
    async with open_system("s") as system:
        with pytest.raises(StartFailed, match="restart makes a new one"):
            await system.spawn(instance, name="n")
        await system.spawn(Counter, 1, name="n")


@pytest.mark.proves("Misuse: a coroutine instead of its function")
async def test_a_coroutine_that_was_called_is_refused_and_closed() -> None:
    called: Any = listen(None)  # type: ignore[arg-type]
    async with open_system("s") as system:
        with pytest.raises(StartFailed, match=r"spawn\(listen, \.\.\.\), not listen\(\.\.\.\)"):
            await system.spawn(called)
        assert inspect.getcoroutinestate(called) == inspect.CORO_CLOSED


@pytest.mark.proves("Misuse: what is no actor")
@pytest.mark.parametrize("thing", [None, 3, "Counter", [Counter], lambda: Counter, lambda: 3, int])
async def test_what_makes_no_actor_is_refused_with_what_is_wanted(thing: Any) -> None:
    async with open_system("s") as system:
        with pytest.raises(StartFailed, match="spawn takes an Actor class or a function that"):
            await system.spawn(thing)
        ref: Any = await system.spawn(Counter, 1)
        with pytest.raises(StartFailed, match="is the ref of an actor that has been spawned"):
            await system.spawn(ref)


@pytest.mark.proves("Misuse: a handler for two types")
def test_a_handler_for_two_types_is_refused_at_its_line() -> None:
    both: Any = handles(str)
    with pytest.raises(TypeError, match=r"take handles str and cannot handle int too"):

        class Both(Actor):
            @handles(int)
            @both  # type: ignore[untyped-decorator]
            def take(self, message: Any) -> None: ...

    of_two: Any = int | str
    with pytest.raises(TypeError, match="write one method for each"):
        handles(of_two)


@pytest.mark.proves("Misuse: a handler without its type")
def test_a_handler_without_its_type_is_refused_at_its_line() -> None:
    bare: Any = handles
    with pytest.raises(TypeError, match=r"write @handles\(SomeMessage\) above .*Bare\.take"):

        class Bare(Actor):
            @bare  # type: ignore[untyped-decorator]
            async def take(self, message: Any) -> None: ...


@pytest.mark.proves("Misuse: a function of the wrong kind")
def test_a_handler_that_yields_is_refused_at_class_creation() -> None:
    with pytest.raises(TypeError, match=r"Stream\.take yields"):

        class Stream(Actor):
            @handles(str)
            async def take(self, message: str) -> Any:
                yield message

    with pytest.raises(TypeError, match=r"\(self, message, ctx\); nobody gives it 'loud'"):

        class Loud(Actor):
            @handles(str)  # type: ignore[arg-type]
            def take(self, message: str, *, loud: bool) -> None: ...

    mark: Any = handles(str)
    with pytest.raises(TypeError, match=r"@handles\(str\) marks a method, not 3"):
        mark(3)


async def coroutine_function(message: Any) -> Any: ...


@pytest.mark.proves("Misuse: a function of the wrong kind")
@pytest.mark.parametrize("option", ["priority", "to", "failed", "receive", "subscribe"])
async def test_a_coroutine_function_is_refused_where_a_plain_one_is_called(option: str) -> None:
    def plain(message: Any) -> Any: ...

    async def pipe(ctx: Any) -> None:
        functions = {"to": plain, "failed": plain, option: coroutine_function}
        ctx.pipe(trio.lowlevel.checkpoint, **functions)

    async def receiver(ctx: Any) -> None:
        await ctx.inbox.receive(coroutine_function)

    with pytest.raises(TypeError, match="coroutine_function"):
        if option in ("to", "failed"):
            await in_an_actor(pipe)
        async with open_system("s") as system:
            if option == "priority":
                await system.spawn(Counter, 1, priority=coroutine_function)
            elif option == "subscribe":
                system.dead_letters.subscribe(coroutine_function)
            else:
                ref = await system.spawn(receiver)
                await ref.stopped()


@pytest.mark.proves("Misuse: a coroutine instead of its function")
@pytest.mark.parametrize("how", ["pipe", "aio"])
async def test_work_that_was_called_already_is_refused_at_the_call(how: str) -> None:
    async def work(ctx: Any) -> None:
        called: Any = coroutine_function(1)
        if how == "pipe":
            ctx.pipe(called, to=str)
        else:
            await ctx.aio(called)

    with pytest.raises(TypeError, match=rf"ctx\.{how}\(coroutine_function, \.\.\.\), not"):
        await in_an_actor(work)


@pytest.mark.proves("Misuse: a coroutine instead of its function")
async def test_a_supervisor_wants_the_function_of_its_child_too() -> None:
    called: Any = coroutine_function(1)
    async with Supervisor() as supervisor:
        with pytest.raises(TypeError, match=r"start\(fn, \*args\), not <coroutine"):
            supervisor.start(called)
    called.close()


@pytest.mark.proves("Misuse: a message of an unknown type")
async def test_a_message_of_an_unknown_type_is_refused_where_it_is_sent() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Counter, 1, name="n")
        for send in (ref.send, ref.ask):
            with pytest.raises(NotHandled, match="/s/n has no handler for str; it handles Add"):
                await send("hello")
        with pytest.raises(NotHandled, match="send an instance of it"):
            ref.tell(Add)
        assert ref.statistics().depth == 0


async def test_a_block_is_entered_once() -> None:
    block = open_system("s")
    async with block:
        with pytest.raises(RuntimeError, match="call open_system again"):
            await block.__aenter__()


@pytest.mark.proves("Misuse: what is no actor")
async def test_a_durable_actor_is_found_by_its_class_and_key() -> None:
    class Till(DurableActor[str], name="test.misuse.till"):
        initial = "empty"

        @decides(Ring)
        def ring(self, state: str, message: Ring) -> Decision[Never, str]:
            return Decision(reply=state)

    wrong: Any = Till
    async with open_system("s") as system:
        for thing in (wrong, wrong()):
            with pytest.raises(StartFailed, match=r"await system\.actor\(.*Till, key\)"):
                await system.spawn(thing)
        with pytest.raises(TypeError, match=r"takes the class, actor\(.*Till, key\), not <"):
            await system.actor(wrong(), "a")


async def test_a_ref_on_another_thread_is_refused_and_changes_nothing() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(partial(Named, "a", loud=True), name="a")
        for use in (
            lambda: ref.tell("hello"),
            lambda: ref.send("hello").send(None),
            ref.stop,
            ref.drain,
            ref.kill,
        ):
            with pytest.raises(RuntimeError, match=r"trio\.from_thread\.run_sync\(ref\.tell"):
                await trio.to_thread.run_sync(use)
            assert ref.statistics().depth == 0
        await trio.to_thread.run_sync(trio.from_thread.run_sync, ref.tell, "hello")
        await trio.testing.wait_all_tasks_blocked()
        assert ref.statistics().processed == 1


class Slow(Actor):
    @handles(Ring)
    async def ring(self, message: Ring) -> str:
        await trio.lowlevel.checkpoint()
        return "rung"


async def test_an_ask_from_another_loop_is_refused_and_changes_nothing() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Slow)
        with pytest.raises(RuntimeError, match="actors live on trio's thread"):
            await trio.to_thread.run_sync(trio.run, ref.ask, Ring())
        assert ref.statistics().depth == 0
        assert await ref.ask(Ring()) == "rung"


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("mailbox", float("inf"), "a whole number, not inf"),
        ("mailbox", True, "a whole number, not True"),
        ("mailbox", "1", "a whole number, not '1'"),
        ("strategy", one_for_one, r"strategy takes one_for_one\(\)"),
        ("strategy", "one_for_one", r"strategy takes one_for_one\(\)"),
    ],
)
async def test_an_option_of_another_type_is_refused_where_it_is_given(
    option: str, value: Any, wanted: str
) -> None:
    options: Any = {option: value}
    with pytest.raises((TypeError, ValueError), match=wanted):
        async with open_system("s", **options):
            raise AssertionError
    async with open_system("s") as system:
        with pytest.raises((TypeError, ValueError), match=wanted):
            await system.spawn(partial(Named, "a", loud=True), **options)
        assert "Named" not in render_text(system.tree())


async def test_a_name_that_is_no_string_is_refused() -> None:
    async with open_system("s") as system:
        with pytest.raises(TypeError, match="name is a str, not 3"):
            await system.spawn(partial(Named, "a", loud=True), name=cast(Any, 3))


@pytest.mark.parametrize(
    ("name", "kind"), [("", ValueError), ("a/b", ValueError), ("a#1", ValueError), (3, TypeError)]
)
async def test_a_system_has_a_name_that_can_begin_a_path(name: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="a system's name is"):
        async with open_system(name):
            raise AssertionError


def test_a_strategy_takes_records_not_numbers() -> None:
    number: Any = 3
    with pytest.raises(TypeError, match=r"Intensity\(limit, period\), not 3"):
        one_for_one(intensity=number)
    with pytest.raises(TypeError, match=r"backoff takes Backoff\(\.\.\.\), not 3"):
        one_for_one(backoff=number)


async def test_what_is_no_ref_is_refused_where_a_ref_is_wanted() -> None:
    async with open_system("s") as system:
        for use in (system.registry.register, system.topics.subscribe):
            with pytest.raises(TypeError, match=r"takes the ref of an actor.* not 'b'"):
                use("a", cast(Any, "b"))

    class Watcher(Actor):
        @handles(str)
        async def use(self, message: str, ctx: Context) -> None:
            getattr(ctx, message)("b")

    async with TestKit(Watcher) as kit:
        for method in ("watch", "unwatch", "link", "unlink"):
            kit.tell(method)
            assert "takes the ref of an actor" in str(await kit.crashed(TypeError))


async def test_a_message_with_a_ref_can_be_copied_and_not_be_pickled() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(partial(Named, "a", loud=True))
        copies = [copy.copy(ref), copy.deepcopy([ref])[0]]
        assert all(other is ref for other in copies)
        with pytest.raises(TypeError, match=r"registry\.whereis"):
            pickle.dumps(ref)


@pytest.mark.parametrize("hook", ["started", "stopping"])
def test_a_hook_that_cannot_be_awaited_is_refused_at_class_creation(hook: str) -> None:
    def plain(self: object, *args: object) -> None: ...

    with pytest.raises(TypeError, match=rf"Plain\.{hook} is awaited: make it an async def"):
        type("Plain", (Actor,), {hook: plain})


@pytest.mark.parametrize("instrument", [3, OpenTelemetry])
def test_an_instrument_that_is_none_or_a_class_is_refused(instrument: Any) -> None:
    with pytest.raises(TypeError, match=r"instruments takes objects with the method sending\(\)"):
        open_system("s", instruments=[instrument])
