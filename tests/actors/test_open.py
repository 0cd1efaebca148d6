"""What `open_system` takes, and what it leaves."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import trio

from trouper.actors import open_system
from trouper.store import MemoryStore


@pytest.mark.parametrize("store", [5, b"state", object()])
async def test_what_is_neither_a_path_nor_a_store_is_refused(store: Any) -> None:
    with pytest.raises(TypeError, match=r"store= takes the path of a directory as a text, or"):
        async with open_system("s", store=store):
            pass


class Boom(Exception): ...


async def test_a_system_that_failed_and_that_nobody_holds_goes_with_its_store() -> None:
    left: list[weakref.ref[Any]] = []

    async def run() -> None:
        store = MemoryStore()
        try:
            async with open_system("s", store=store) as system:
                left.extend(weakref.ref(each) for each in (store, system))
                system.fail(Boom())  # whose traceback holds every frame of the opening
                await trio.sleep_forever()
        except Boom:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
    await trio.lowlevel.checkpoint()
    gc.collect()
    assert [each() for each in left] == [None] * 2
