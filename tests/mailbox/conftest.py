"""A mailbox that knows no actors: it records what happens to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from trouper.mailbox import (
    CLOSED,
    REJECT,
    STOPPED,
    Ask,
    Control,
    Dispatcher,
    Intake,
    Mailbox,
    Table,
    run_control,
)
from trouper.supervision import unwrap


class Box(Mailbox):
    """Handles ints (plain), floats (async) and functions (awaited, with the box)."""

    __slots__ = ("failures", "killed", "label", "not_had", "seen")

    def __init__(
        self,
        dispatcher: Dispatcher,
        label: str = "box",
        capacity: int = 1024,
        intake: Intake = REJECT,
    ) -> None:
        table: Table = {
            int: (False, False, Box.plain),
            float: (True, False, Box.awaited),
            type(lambda: None): (True, True, Box.call),
            Control: (True, False, run_control),
        }
        super().__init__(dispatcher, table, capacity, intake)
        self.label = label
        self.seen: list[Any] = []
        self.failures: list[tuple[Any, BaseException]] = []
        self.killed: list[BaseException | None] = []
        self.not_had: list[tuple[Any, str]] = []
        self.target = self.context = self
        self.resume()

    @property
    def path(self) -> str:
        return self.label

    def plain(self, message: int) -> int:
        self.seen.append(message)
        return message

    async def awaited(self, message: float) -> float:
        await trio.lowlevel.checkpoint()
        self.seen.append(message)
        return message

    async def call(self, message: Callable[[Box], Any], box: Box) -> Any:
        return await message(box)

    def turn_failed(self, entry: Any, error: BaseException) -> None:
        if self.doomed is not None:
            self.turn_killed(entry, unwrap(error))
            return
        self.failures.append((entry, error))
        if entry.__class__ is Ask:
            entry.fail(error)

    def turn_killed(self, entry: Any, error: BaseException | None) -> None:
        self.doomed = None
        self.killed.append(error)

    def not_taken(self, message: Any, reason: str) -> None:
        self.not_had.append((message, reason))

    async def ask(self, message: Any) -> Any:
        ask = Ask(message)
        self.put_ask(ask)
        return await ask.wait()

    def finish(self) -> None:
        self.close("stopped")
        self.state = STOPPED
        self.accepts = CLOSED


class Stage:
    """A dispatcher with the bugs it reported."""

    def __init__(self) -> None:
        self.bugs: list[BaseException] = []
        self.boxes: list[Box] = []
        self.dispatcher: Dispatcher

    def box(self, label: str = "box", capacity: int = 1024, intake: Intake = REJECT) -> Box:
        self.boxes.append(Box(self.dispatcher, label, capacity, intake))
        return self.boxes[-1]


@pytest.fixture(scope="session")  # stateless: Hypothesis may use it for many examples
def open_stage() -> Callable[..., Any]:
    @asynccontextmanager
    async def open_(**options: Any) -> AsyncGenerator[Stage]:
        stage = Stage()
        async with trio.open_nursery() as nursery:
            stage.dispatcher = Dispatcher(nursery, stage.bugs.append, **options)
            try:
                yield stage
            finally:
                with trio.CancelScope(shield=True):
                    for box in stage.boxes:
                        box.close("the test is over")
                        box.doom("the test is over")
                    await stage.dispatcher.close()

    return open_


@pytest.fixture
async def stage(open_stage: Any) -> AsyncGenerator[Stage]:
    async with open_stage() as stage:
        yield stage
        assert stage.bugs == []
