"""Work outside of the loop: threads, which may be controlled, and sockets, which never are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

import trio
from trio.lowlevel import Task
from trio.testing import active_thread_count

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
        return _refused(self.what, *next(iter(_waiting()), ("a task", "an unknown place")))


def _refused(what: str, task: str, where: str) -> UncontrolledWait:
    return UncontrolledWait(
        f"{task} waits for {what}, in {where}: no schedule controls that, and none with "
        "it could be played again. Call blocking functions by ctx.to_thread or in an effect, "
        'replace what talks to the network; or give Options(uncontrolled="serialize") to wait '
        'for it, or "allow" to go on meanwhile',
        task=task,
    )


@final
class Outside:
    """Sees what is waited for that is no event.

    It looks after each step of a task, and so sees each call of a thread, however fast that is:
    whether one is still out when all is at rest depends on the machine.
    """

    def __init__(self, gate: Gate, clock: trio.testing.MockClock) -> None:
        self._gate = gate
        of_tests: Any = clock
        self._holds = Holds(of_tests)
        self._own = -1  # waits for sockets of trio's own, once they are known
        self._limiter: trio.CapacityLimiter
        self._called: UncontrolledWait | None = None  # a thread, and nobody was told so far

    def watch(self) -> None:
        """Begin, in the run: what a thread of the runtime brings arrives by an event."""
        hold_run(self._holds)
        self._holds.landing = self._gate.land
        self._limiter = trio.to_thread.current_default_thread_limiter()

    def stepped(self, task: Task) -> None:
        """Hear that a step of a task has ended."""
        if self._called is None and active_thread_count() > self._holds.calls:
            where = _place(task)
            if where is not None:  # else the call is somebody else's, who was refused
                self._called = _refused("a thread", task.name, where)

    def called(self) -> UncontrolledWait | None:
        """Return what refuses the last call of a thread, once."""
        error, self._called = self._called, None
        return error

    def look(self) -> Wait | None:
        """Return what is waited for now, when every task waits."""
        if self._holds.count:
            return Wait("a thread", is_controlled=True)
        if not self._gate.is_switched:
            return None  # nothing began to wait since nothing did
        if active_thread_count() or self._limiter.borrowed_tokens:  # one may be abandoned
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
        where = None if task.parent_nursery is None else _place(task)
        if where is not None:
            found.append((task.name, where))
    return iter(sorted(found))


def _place(task: Task) -> str | None:
    """Return the line of its own code where a task waits outside; None if it does not."""
    frames = list(task.iter_await_frames())
    if not {frame.f_code.co_name for frame, _ in frames} & set(_WAITS):
        return None
    own = [(f.f_code.co_filename, n) for f, n in frames if not _is_trio(f.f_globals)]
    return f"{own[-1][0]}:{own[-1][1]}" if own else None


def _is_trio(names: dict[str, Any]) -> bool:
    return str(names.get("__name__", "")).partition(".")[0] in ("trio", "outcome")
