"""A token means the same everywhere: eight processes, eight hash seeds, eight heaps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trio

from trouper.actors import Actor, handles
from trouper.testing import Simulation, explore, simulate
from trouper.testing._determinism import written
from trouper.testing.schedules import Report

heard: list[str] = []


class Shop(Actor[str]):
    @handles(str)
    def hear(self, word: str) -> None:
        heard.append(word)


class Nest(Actor[str]):
    """Opens a nursery in its handler: equal deadlines, then a cancel that reaches all at once."""

    def __init__(self, shop: Any) -> None:
        self.shop = shop

    @handles(str)
    async def on(self, word: str) -> None:
        with trio.move_on_after(2):
            async with trio.open_nursery() as nursery:
                for n in range(4):
                    nursery.start_soon(self._child, f"{word}{n}")

    async def _child(self, name: str) -> None:
        await trio.sleep(1)
        self.shop.tell(f"{name} woke")
        try:
            await trio.sleep_forever()
        finally:
            self.shop.tell(f"{name} cancelled")


async def nested(sim: Simulation) -> AsyncIterator[None]:
    heard.clear()
    shop = await sim.system.spawn(Shop, name="shop")
    for name in ("a", "b"):
        (await sim.system.spawn(Nest, shop, name=name)).tell(name)
    yield
    assert len(heard) < 16, "all were heard"


def played(token: str) -> str:
    """Play a token; return all that happened in it, step by step."""
    failure = _replay(token).first_failure
    assert failure is not None
    return "\n".join([*written(failure.steps), *heard])


def _replay(token: str) -> Report:
    return explore(nested, token=token)


CODE = """
import random, sys
heap = [bytearray(random.randrange(1, 4000)) for _ in range(random.randrange(20_000))]
del heap[:: random.randrange(2, 9)]
sys.path.insert(0, sys.argv[1])
import test_processes as test
print(test.played(sys.argv[2]))
"""


@pytest.mark.proves("Schedules: the same everywhere")
def test_a_token_plays_the_same_in_eight_processes_under_eight_hash_seeds() -> None:
    try:
        with simulate(nested, seed=3) as sim:
            pass
    except AssertionError:
        token = sim.token

    def elsewhere(seed: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", CODE, os.path.dirname(__file__), token],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    with ThreadPoolExecutor(max_workers=2) as pool:
        traces = set(pool.map(elsewhere, range(8)))
    assert len(traces) == 1
    assert traces == {f"{played(token)}\n"}
    assert len(heard) == 16
