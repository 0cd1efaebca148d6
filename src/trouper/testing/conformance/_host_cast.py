"""Children that a law directs: each waits at a gate of its own and tells what happened to it."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar

import trio

from ...actors.groups import (
    Disposition,
    EffectContext,
    EffectEnvelope,
    EffectGroup,
    EffectHost,
    GroupHandle,
    Runner,
    Settlement,
    WakePolicy,
)

E = TypeVar("E", bound=Exception)
RUN_ON, CANCEL = Disposition.RUN_TO_COMPLETION, Disposition.CANCEL


class Part:
    """One child of a group, over all its attempts in one life."""

    releasable = False

    def __init__(self, position: int) -> None:
        self.position = position
        self.result: Any = position * 10  # an exception is raised, anything else returned
        self.deaf = False  # goes on through a cancel until its gate opens
        self.teardown: trio.Event | None = None  # winds down until this opens
        self.last_words: Exception | None = None  # raised on the way out of a cancel
        self.attempts: list[int] = []
        self.keys: list[str] = []
        self.dues: list[float] = []
        self.cancelled = False
        self.gate = trio.Event()
        self.begun = trio.Event()
        self.stopping = trio.Event()
        self.left = trio.Event()

    async def run(self, ctx: EffectContext) -> Any:
        """Wait at the gate."""
        self.attempts.append(ctx.attempt)
        self.keys.append(ctx.key)
        self.dues.append(ctx.due)
        self.begun.set()
        try:
            with trio.CancelScope(shield=self.deaf):
                await self.gate.wait()
        except trio.Cancelled:
            self.cancelled = ctx.cancelled
            self.stopping.set()
            if self.teardown is not None:
                with trio.CancelScope(shield=True):
                    await self.teardown.wait()
            if self.last_words is not None:
                raise self.last_words from None
            raise
        finally:
            self.left.set()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Cast:
    """The children of one group in one life, and the resolver that finds them."""

    def __init__(
        self, key: str, size: int = 3, *, missing: Iterable[int] = (), scope: str = ""
    ) -> None:
        self.key = key
        self.scope = scope or f"scope of {key}"
        self.parts = [Part(position) for position in range(size)]
        self.missing = set(missing)
        self.asked: list[int] = []  # positions the resolver was asked for

    def __getitem__(self, position: int) -> Part:
        return self.parts[position]

    def resolver(self, envelope: EffectEnvelope) -> Runner | None:
        """Find the part of an envelope."""
        position = envelope.membership.position if envelope.membership else 0
        self.asked.append(position)
        return None if position in self.missing else self.parts[position]

    def envelope(
        self, position: int, *, kind: str = "effect", name: str = "part", args: Any = None
    ) -> EffectEnvelope:
        """Describe the child at a position."""
        arguments = [position, 0.5] if args is None else args
        key = f"{self.key}/{position}"
        return EffectEnvelope.make(kind, name, arguments, {}, self.scope, key)

    def group(
        self,
        losers: Disposition = RUN_ON,
        *,
        wake: WakePolicy = WakePolicy.FIRST,
        children: Iterable[EffectEnvelope] | None = None,
    ) -> EffectGroup:
        """Describe the group."""
        if children is None:
            children = [self.envelope(part.position) for part in self.parts]
        return EffectGroup.of(self.key, list(children), wake=wake, disposition=losers)

    @property
    def attempts(self) -> list[list[int]]:
        """Which attempts ran in this life, by position."""
        return [part.attempts for part in self.parts]

    async def begun(self, *positions: int) -> None:
        """Wait until these children, or all, are at their gates."""
        for part in self._chosen(positions):
            await part.begun.wait()

    def finish(self, *positions: int) -> None:
        """Let these children, or all, end in one tick."""
        for part in self._chosen(positions):
            part.gate.set()

    async def finish_in_turn(self, *positions: int) -> None:
        """Let these children end one after the other, each in a tick of its own."""
        for part in self._chosen(positions):
            await part.begun.wait()
            part.gate.set()
            await part.left.wait()

    @contextmanager
    def released(self) -> Generator[None, None, None]:
        """Open every gate on the way out: deaf children must not outlast a law that failed."""
        try:
            yield
        finally:
            for part in self.parts:
                part.gate.set()
                if part.teardown is not None:
                    part.teardown.set()

    def _chosen(self, positions: tuple[int, ...]) -> list[Part]:
        return [self.parts[p] for p in positions] if positions else self.parts


async def rest(host: EffectHost, handle: GroupHandle) -> list[Settlement]:
    """Read what is left of a group."""
    found: list[Settlement] = []
    while not handle.exhausted:
        found.append(await host.next_settlement(handle))
    return found


async def order(host: EffectHost, handle: GroupHandle) -> list[int]:
    """Read what is left of a group, as positions in rank order."""
    return [settlement.position for settlement in await rest(host, handle)]


async def refused(kind: type[E], call: Awaitable[object]) -> E:
    """Assert that a call is refused with an error of that kind, and return it."""
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
