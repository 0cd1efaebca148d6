"""Work outside of the loop: threads, which may be controlled, and sockets, which never are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

import trio
from trio.lowlevel import Task

from ..._holds import Holds, hold_run
from ..._trio import io_waits
from ...errors import UncontrolledWait

if TYPE_CHECKING:
    from ._gate import Gate

# The functions of trio in which a task waits for a thread or for a socket.
_WAITS = ("to_thread_run_sync", "wait_readable", "wait_writable")


@final
class Wait:
    """That something outside is waited for."""

    def __init__(self, what: str, *, is_controlled: bool) -> None:
        self.what = what
        self.is_thread = what == "a thread"
        self.is_controlled = is_controlled

    def error(self) -> UncontrolledWait:
        """Return the error that names the task."""
        task, where = next(iter(_waiting()), ("a task", "an unknown place"))
        return UncontrolledWait(
            f"{task} waits for {self.what}, in {where}: no schedule controls that, and none with "
            "it could be played again. Call blocking functions by ctx.to_thread or in an effect, "
            'replace what talks to the network; or give Options(uncontrolled="serialize") to wait '
            'for it, or "allow" to go on meanwhile',
            task=task,
        )


@final
class Outside:
    """Sees what is waited for that is no event."""

    def __init__(self, gate: Gate, clock: trio.testing.MockClock) -> None:
        self._gate = gate
        self._clock = clock
        self._holds: Holds
        self._own = -1  # waits for sockets of trio's own, once they are known
        self._limiter: trio.CapacityLimiter

    def watch(self) -> None:
        """Begin, in the run: what a thread of the runtime brings arrives by an event."""
        clock: Any = self._clock
        self._holds = hold_run(Holds(clock))
        self._holds.landing = self._gate.land
        self._limiter = trio.to_thread.current_default_thread_limiter()

    def look(self) -> Wait | None:
        """Return what is waited for now, when every task waits."""
        if self._holds.count:
            return Wait("a thread", is_controlled=True)
        if not self._gate.is_switched:
            return None  # nothing began to wait since nothing did
        if self._limiter.borrowed_tokens:
            return Wait("a thread", is_controlled=False)
        waits = io_waits()
        if self._own < 0:
            self._own = waits
        if waits > self._own:
            return Wait("a socket", is_controlled=False)
        self._gate.is_switched = False
        return None


def _waiting() -> Iterator[tuple[str, str]]:
    """Yield the tasks that wait outside, each with the line of its own code."""
    found: list[tuple[str, str]] = []
    root = trio.lowlevel.current_root_task()
    pending: list[Task] = [] if root is None else [root]
    while pending:
        task = pending.pop()
        for nursery in task.child_nurseries:
            pending += nursery.child_tasks
        frames = [(frame, line) for frame, line in task.iter_await_frames()]
        names = [frame.f_code.co_name for frame, _ in frames]
        if task.parent_nursery is None or not set(_WAITS) & set(names):
            continue
        own = [(f.f_code.co_filename, n) for f, n in frames if not _is_trio(f.f_globals)]
        if own:
            found.append((task.name, f"{own[-1][0]}:{own[-1][1]}"))
    return iter(sorted(found))


def _is_trio(names: dict[str, Any]) -> bool:
    return str(names.get("__name__", "")).partition(".")[0] in ("trio", "outcome")
