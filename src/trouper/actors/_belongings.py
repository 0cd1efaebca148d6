"""What an actor holds beyond its mailbox, and when each of it ends.

Two lifetimes. Timers and pipes belong to the *instance*: a crash, a restart and a stop end them.
Watches, links, names and subscriptions belong to the *ref*: they outlive a restart, which keeps the
ref, and end with the actor. The stash belongs to the mail: it goes back in front of the queue.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, final

import trio
from trio.lowlevel import Task

from ..mailbox import Owed, put_back, wait_in
from ._watches import broken_link, is_abnormal, tell_terminated

if TYPE_CHECKING:
    from ..supervision import Exit
    from ._inbox import Inbox
    from ._local import LocalRef
    from ._pipes import Pipe
    from ._timers import Timer

log = logging.getLogger("trouper.actors")


@final
class Belongings:
    """Made on first use: most actors have none."""

    __slots__ = (
        "inbox",
        "links",
        "names",
        "pipe_waiters",
        "pipes",
        "stash",
        "timers",
        "topics",
        "watchers",
        "watching",
    )

    def __init__(self) -> None:
        self.timers: dict[Hashable, Timer] = {}
        self.pipes: dict[Pipe, None] = {}
        self.pipe_waiters: dict[Task, None] = {}  # wait until `pipes` is empty
        self.stash: list[Any] = []  # entries of the mailbox, oldest first
        self.watching: dict[LocalRef, Owed | None] = {}  # the message, once the watched has ended
        self.watchers: dict[LocalRef, None] = {}
        self.links: dict[LocalRef, None] = {}
        self.names: dict[str, None] = {}
        self.topics: dict[str, None] = {}
        self.inbox: Inbox[Any] | None = None  # a protocol's


def belongings_of(ref: LocalRef) -> Belongings | None:
    """Return what this actor holds, or None if it never held anything."""
    return ref.life.belongings if ref.life is not None else None


def end_instance(ref: LocalRef) -> None:
    """End what belongs to the instance, as far as that needs no waiting. Legal in every state."""
    mine = belongings_of(ref)
    if mine is None:
        return
    for timer in mine.timers.values():
        ref.system.timers.cancel(timer)
    mine.timers.clear()
    for pipe in mine.pipes:
        pipe.cancel()
    if mine.stash:
        stash, mine.stash = mine.stash, []
        put_back(ref, stash)
    if mine.inbox is not None:
        mine.inbox.wake()


async def wait_pipes(ref: LocalRef) -> None:
    """End what belongs to the instance and wait until no pipe of it runs; runs in a job."""
    end_instance(ref)
    mine = belongings_of(ref)
    if mine is None:
        return
    while mine.pipes:
        # unbounded on purpose: trio cannot abandon a task, and nothing outlives the block
        with trio.move_on_after(max(ref.options.shutdown, 1.0)):
            await wait_in(mine.pipe_waiters)
            continue
        for pipe in mine.pipes:
            frames = traceback.StackSummary.extract(pipe.frames())
            log.warning(
                "%s: a pipe was cut but still runs (a shielded scope, or a thread):\n%s",
                ref.path,
                "".join(frames.format()),
            )


def release(ref: LocalRef, why: Exit) -> None:
    """End everything an actor held, and tell who watches it or is linked to it. Never raises."""
    mine = belongings_of(ref)
    if mine is None:
        return
    for timer in mine.timers.values():
        ref.system.timers.cancel(timer)
    for entry in mine.stash:
        ref.drop(entry, "stopped")
    for other, owed in mine.watching.items():
        if owed is None:
            _forget(other, "watchers", ref)
    ref.system.registry.release(mine.names)
    ref.system.topics.release(ref, mine.topics)
    mine.timers, mine.stash, mine.watching, mine.names, mine.topics = {}, [], {}, {}, {}
    watchers, mine.watchers = mine.watchers, {}
    for watcher in watchers:
        tell_terminated(watcher, ref, why)
    links, mine.links = mine.links, {}
    for other in links:
        _forget(other, "links", ref)
    if is_abnormal(why):
        for other in links:
            other.fail(broken_link(ref, why))


def _forget(other: LocalRef, what: str, ref: LocalRef) -> None:
    theirs = belongings_of(other)
    if theirs is not None:
        getattr(theirs, what).pop(ref, None)
