"""Mistakes in the use of activations: told at once, to whoever made them, and to nobody else."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from trouper import Activation, durable, effect, open_system, race
from trouper.actors import inspect
from trouper.actors.groups import timer
from trouper.errors import (
    ActivationError,
    NoExecutor,
    NondeterministicAwait,
    ShuttingDown,
    TrouperError,
    ValueRefused,
)
from trouper.store import MemoryStore, Store


@effect
async def one() -> int:
    return 1


@durable
async def add(act: Activation, a: int, b: int = 1) -> int:
    return a + b


@durable
async def fine(act: Activation) -> int:
    return await act.call(one)


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [(), (1, 2, 3)])
async def test_a_start_with_arguments_that_do_not_fit_is_refused_at_the_callers_line(
    store: Store, args: tuple[Any, ...]
) -> None:
    start: Callable[..., Awaitable[Any]]
    async with open_system("t", store=store) as system:
        start = system.run
        with pytest.raises(TypeError, match=r"test_misuse\.add: "):
            await start(add, *args, key="k")
        assert system.status("k") == "unknown"  # nothing was journaled
        assert await system.run(add, 1, key="k") == 2


async def test_a_call_with_arguments_that_do_not_fit_opens_no_step(store: Store) -> None:
    @durable(name="calls")
    async def calls(act: Activation) -> list[str]:
        said: list[str] = []
        call: Callable[..., Any] = act.call
        wrong: list[tuple[Any, ...]] = [(add,), (one, 5), (print, "hello"), (fine.fn,)]
        for what, *args in wrong:
            try:
                await call(what, *args)
            except TypeError as error:
                said.append(str(error))
        return said

    async with open_system("t", store=store, activities=[calls]) as system:
        said = await system.run(calls, key="k")
        assert len(said) == 4
        assert "missing a required argument: 'a'" in said[0]
        assert "too many positional arguments" in said[1]
        assert "takes an @effect, a @durable function or a guest" in said[2]
        assert "takes an @effect, a @durable function or a guest" in said[3]
    async with store:
        assert [a.key for a in inspect.activations(store)] == ["k"]
        assert not list(inspect.effects(store))


async def test_an_unknown_word_for_losers_names_the_known_ones() -> None:
    @durable(name="race")
    async def race(act: Activation) -> None:
        await act.race(act.call(one), losers="drop")  # type: ignore[call-overload]

    async with open_system("t", activities=[race]) as system:
        with pytest.raises(TrouperError, match="run_to_completion, cancel, it got 'drop'"):
            await system.run(race)


# -- keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", " \n", 5, "\ud800", b"k"], ids=repr)
async def test_a_key_that_is_no_text_is_refused_before_anything_starts(key: Any) -> None:
    async with open_system("t") as system:
        with pytest.raises(ValueRefused, match="an activation takes a text as its key"):
            system.start(fine, key=key)
        with pytest.raises(ValueRefused, match="an operation takes a text as its key"):
            await system.operation(key, 1)
        assert await system.run(fine, key="k") == 1


@pytest.mark.parametrize("key", [5, None, b"k", ["k"], "\ud800"], ids=repr)
async def test_a_question_about_what_is_no_key_is_refused_as_what_it_is(key: Any) -> None:
    async with open_system("t") as system:
        host = system.host
        for ask in (system.status, system.cancel):
            with pytest.raises(ValueRefused, match="an activation takes a text as its key"):
                ask(key)
        for wait in (
            lambda: system.signal(key, "go"),
            lambda: system.forget(key),
            lambda: host.signal(key, "go"),
            lambda: host.retire(key),
            lambda: host.retire_scope(key),
            lambda: host.drain().run(key),
            lambda: race(host, key, [timer(0)]),
        ):
            with pytest.raises(ValueRefused, match="takes a text as its key"):
                await wait()
        with pytest.raises(ValueRefused, match="the name of a signal is a text"):
            await system.signal("k", key)
        if key is not None:
            with pytest.raises(ValueRefused, match="the id of a signal is a text"):
                await system.signal("k", "go", id=key)
        assert await system.run(fine, key="k") == 1


@pytest.mark.parametrize("seconds", ["1", None, [1], b"1"], ids=repr)
def test_a_time_that_is_no_number_is_refused_as_what_it_is(seconds: Any) -> None:
    with pytest.raises(TypeError, match="a timer takes a number of seconds, it got"):
        timer(seconds)
    if seconds is not None:
        with pytest.raises(ValueError, match="timeout must be more than 0 seconds, it is"):
            effect(timeout=seconds)(add.fn)


def test_a_time_that_no_float_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="a finite number of seconds"):
        timer(10**400)


# -- act outside of its function ---------------------------------------------------------------


@pytest.mark.parametrize("ended", [True, False])
async def test_a_step_of_another_activation_is_refused_and_fails_nobody_else(ended: bool) -> None:
    leaked: list[Activation] = []

    @durable(name="leaks")
    async def leaks(act: Activation) -> None:
        leaked.append(act)
        if not ended:
            await act.sleep(1000)

    @durable(name="takes")
    async def takes(act: Activation) -> int:
        return await leaked[0].call(one)  # here

    async with open_system("t", activities=[leaks, takes]) as system:
        leaking = system.start(leaks)
        if ended:
            await leaking.result()
        with pytest.raises(NondeterministicAwait, match="a step of another activation"):
            await system.run(takes)
        assert await system.run(fine) == 1


async def test_a_step_that_is_awaited_outside_of_activations_is_an_error_there() -> None:
    leaked: list[Activation] = []

    @durable(name="leaks")
    async def leaks(act: Activation) -> None:
        leaked.append(act)

    async with open_system("t", activities=[leaks]) as system:
        await system.run(leaks, key="k")
        with pytest.raises(ActivationError, match="a step of k#0 was awaited outside of it"):
            await leaked[0].call(one)
        assert await system.run(fine) == 1


# -- swallowing --------------------------------------------------------------------------------

LAPS = 10_000


@pytest.mark.parametrize("reuse", [False, True])
async def test_a_function_that_swallows_everything_in_a_loop_cannot_hold_up_the_close(
    store: Store, reuse: bool
) -> None:
    laps = 0

    @durable(name="swallows")
    async def swallows(act: Activation) -> None:
        nonlocal laps
        step = act.sleep(1000)
        while True:
            laps += 1
            if laps > LAPS:
                raise SystemExit("it was never let go of")
            try:
                await step
            except BaseException:
                if not reuse:
                    step = act.sleep(1000)

    async with open_system("t", store=store, activities=[swallows]) as system:
        system.start(swallows, key="k")
        assert await system.run(fine) == 1
    assert 1 < laps < LAPS
    async with store:
        assert [a.state for a in inspect.activations(store) if a.key == "k"] == ["running"]


# -- who waits ---------------------------------------------------------------------------------


async def test_each_waiter_gets_an_error_with_a_traceback_of_its_own() -> None:
    @durable(name="foreign")
    async def foreign(act: Activation) -> None:
        await trio.lowlevel.checkpoint()

    errors: list[TrouperError] = []

    async with open_system("t", activities=[foreign]) as system:

        async def wait() -> None:
            try:
                await handle.result()
            except NondeterministicAwait as error:
                errors.append(error)

        handle = system.start(foreign, key="k")
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(wait)
    assert len({id(error) for error in errors}) == 5
    assert len({(str(error), str(error.facts)) for error in errors}) == 1
    depths = {len(traceback.extract_tb(error.__traceback__)) for error in errors}
    assert len(depths) == 1


async def test_a_closed_system_says_that_it_is_closed() -> None:
    async with open_system("t", store=MemoryStore()) as system:
        handle = system.start(fine, key="k")
        assert await handle.result() == 1
    for ask in (handle.status, handle.cancel, lambda: system.start(fine, key="k")):
        with pytest.raises(ShuttingDown, match="'k' has closed"):
            ask()


async def test_an_effect_for_which_there_is_no_thread_never_settles(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    @effect(name="threaded")
    def threaded() -> int:
        ran.append(1)
        return 1

    @durable(name="calls")
    async def calls(act: Activation) -> int:
        return await act.call(threaded)

    async def no_thread(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("can't start new thread")

    async with open_system("t", store=store, activities=[calls], effects=[threaded]) as system:
        with monkeypatch.context() as patch:
            patch.setattr(trio.to_thread, "run_sync", no_thread)
            with pytest.raises(NoExecutor, match="nothing of it ran - make room for threads"):
                await system.run(calls, key="k")
        assert not ran
    async with open_system("t", store=store, activities=[calls], effects=[threaded]) as system:
        assert await system.run(calls, key="k") == 1
    assert ran == [1]
