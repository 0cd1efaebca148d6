"""What a caller can get wrong with actors: refused at the earliest point, with a sentence."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from trouper.actors import Actor, handles, open_system
from trouper.errors import ActorStopped, ShuttingDown, StartFailed


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
