"""Services of a system: when they open and close; and what the system says of itself."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trouper.actors import Actor, open_system
from trouper.actors._system import Block, run_system
from trouper.supervision import TreeNode


class Service:
    """Says what is done with it."""

    def __init__(self, label: str, log: list[str], fail: str = "") -> None:
        self.label, self.log, self.fail = label, log, fail

    async def open(self, nursery: trio.Nursery, system: Any) -> None:
        self.log.append(f"open {self.label}")
        if self.fail == "open":
            raise KeyError(self.label)

    async def close(self, mode: str) -> None:
        await trio.lowlevel.checkpoint()
        self.log.append(f"close {self.label} {mode}")
        if self.fail == "close":
            raise KeyError(self.label)

    def tree(self) -> TreeNode:
        return TreeNode(self.label, "service", "running")


@pytest.mark.parametrize("mode", ["normal", "error", "cancel"])
async def test_services_open_before_the_body_and_close_before_the_actors(
    cast: Any, mode: str
) -> None:
    log: list[str] = []

    class Last(Actor):
        async def stopping(self, ctx: Any, why: Any) -> None:
            log.append("actor ends")

    services = [Service("one", log), Service("two", log)]
    with trio.CancelScope() as scope:
        try:
            async with Block(run_system("s", services=services)) as system:
                await system.spawn(Last)
                assert [node.name for node in system.tree().children][:2] == ["one", "two"]
                log.append("body")
                if mode == "error":
                    raise ValueError("body")
                if mode == "cancel":
                    scope.cancel()
                    await trio.sleep_forever()
        except ValueError:
            log.append("raised")
    closing = [f"close two {mode}", f"close one {mode}", "actor ends"]
    assert [entry for entry in log if entry != "raised"] == [
        "open one",
        "open two",
        "body",
        *closing,
    ]


async def test_a_service_that_fails_to_open_closes_what_was_opened(cast: Any) -> None:
    log: list[str] = []
    services = [Service("one", log), Service("two", log, fail="open"), Service("three", log)]
    with pytest.raises(KeyError, match="two"):
        async with Block(run_system("s", services=services)):
            log.append("body")
    assert log == ["open one", "open two", "close two error", "close one error"]


async def test_a_service_that_fails_to_close_is_raised_after_everything_has_ended(
    cast: Any,
) -> None:
    log: list[str] = []
    services = [Service("one", log), Service("two", log, fail="close")]
    with pytest.raises(KeyError, match="two"):
        async with Block(run_system("s", services=services)) as system:
            await system.spawn(cast.Player)
    assert log[-2:] == ["close two normal", "close one normal"]
    assert cast.labels() == ["player"]


async def test_fail_ends_the_system_past_every_supervisor(cast: Any) -> None:
    error = RuntimeError("from outside")
    with pytest.raises(RuntimeError) as raised:
        async with open_system("s") as system:
            await system.spawn(cast.Player)
            system.fail(error)
            await trio.sleep_forever()
    assert raised.value is error


@pytest.mark.proves("Supervision: a tree can be snapshotted")
async def test_statistics_and_tree_show_what_lives(cast: Any) -> None:
    async with open_system("shop") as system:
        parent = await system.spawn(cast.Player, name="parent")
        await parent.ask(cast.Ask(cast.spawns(cast.Extra, name="child")))
        numbers = system.statistics()
        assert (numbers.actors, numbers.asks_pending) == (2, 0)
        tree = system.tree()
        assert (tree.name, tree.kind, tree.state) == ("shop", "system", "running")
        [node] = [node for node in tree.children if node.kind == "actor"]
        assert [child.name for child in node.children] == ["child"]
        assert node.details["processed"] == 1


@pytest.mark.parametrize("options", [{"shutdown": -1}, {"ask_safety": -1}, {"mailbox": 0}])
@pytest.mark.proves("Mailboxes: bounded by default")
@pytest.mark.proves("Misuse: senseless options")
async def test_a_senseless_limit_is_refused_at_the_block(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        async with Block(run_system("s", **options)):
            pytest.fail("it opened")
