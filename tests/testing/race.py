"""What a user writes, in 30 lines: closing time has three doors to go through, an order one."""

from collections.abc import AsyncIterator, Callable

from trouper import Actor, handles
from trouper.testing import Simulation, schedule_test


class Door(Actor[str]):
    def __init__(self, onward: Callable[[str], object]) -> None:
        self.onward = onward

    @handles(str)
    def on(self, word: str) -> None:
        self.onward(word)


@schedule_test()
async def test_orders_come_before_closing_time(sim: Simulation) -> AsyncIterator[None]:
    heard: list[str] = []
    shop = far = await sim.system.spawn(Door, heard.append, name="shop")
    for n in (1, 2, 3):
        far = await sim.system.spawn(Door, far.tell, name=f"door{n}")
    near = await sim.system.spawn(Door, shop.tell, name="desk")

    near.tell("order")
    far.tell("close")
    yield
    assert heard == ["order", "close"]
