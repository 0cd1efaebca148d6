"""Everything this library takes from trio that trio does not promise to keep.

Three needs: to see that a cancel scope or a lock was left behind (a compare, a look-up); to step a
coroutine with trio out of sight, so that a durable function cannot await anything of trio's; and to
wait many times in what trio makes for one wait, which is a fifth of a round trip.
`check` proves all against the installed trio when a system opens: a changed one is refused.

A fourth need has only the explorer of schedules: that tasks which can run at the same time run in
the same order each time (`ordered`), and that deadlines pass when it says so (`HeldDeadlines`).
"""

from __future__ import annotations

import math
import random
import sys
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, MutableSequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final, TypeVar

import outcome
import sniffio
import trio
from trio._core import _run  # pyright: ignore[reportPrivateUsage]
from trio._core._parking_lot import GLOBAL_PARKING_LOT_BREAKER as _BREAKERS
from trio._core._run import GLOBAL_RUN_CONTEXT  # pyright: ignore[reportPrivateImportUsage]

from .errors import InvariantError

T = TypeVar("T")

# The innermost cancel scope of a task, as an opaque object to compare by identity.
cancel_status_of: Callable[[trio.lowlevel.Task], object] = attrgetter("_cancel_status")
is_cancelled = attrgetter("_cancel_status.effectively_cancelled")  # whether one around it is
holds_lock = _BREAKERS.__contains__  # whether the end of this task would break a `trio.Lock`

_RANDOM: Final = random.Random
_checked_version = ""
_ORDER: Final = threading.Lock()  # of what follows
_undo: Final[list[Callable[[], None]]] = []  # for each open block of `ordered`, what ends the last


class _Woken(outcome.Outcome[None]):
    """What a task is woken with that is told nothing: unlike trio's own, one serves for all."""

    __slots__ = ()

    def unwrap(self) -> None:
        return None

    def send(self, gen: Generator[T, None, object]) -> T:
        return gen.send(None)

    async def asend(self, agen: AsyncGenerator[T, None]) -> T:
        return await agen.asend(None)


WOKEN: Final = _Woken()


class Trap:
    """What `trio.lowlevel.wait_task_rescheduled` yields for an abort function, to be used again."""

    __slots__ = ("message",)

    def __init__(self, abort: Callable[[trio.lowlevel.RaiseCancelT], trio.lowlevel.Abort]) -> None:
        waiting = trio.lowlevel.wait_task_rescheduled(abort)  # noqa: ASYNC105 - stepped by hand
        self.message: object = waiting.send(None)
        waiting.close()


@types.coroutine
def wait_in(trap: Trap) -> Generator[Any, Any, None]:
    """Wait until this task is rescheduled with `WOKEN`, or until the abort function allows more."""
    answer = yield trap.message
    if answer is not WOKEN:
        answer.unwrap()


class TrioHidden:
    """A context in which no trio primitive works: each raises RuntimeError at the caller's line.

    Inside the block there is no current task and no runner, sniffio knows no library, and async
    generators that are iterated for the first time are handed to ``firstiter`` instead of trio.
    The code inside must not yield to trio. Reusable one after the other, not nested.
    """

    __slots__ = ("_firstiter", "_hooks", "_name", "_saved")

    def __init__(self, firstiter: Callable[[AsyncGenerator[Any, Any]], None] | None = None) -> None:
        self._firstiter = firstiter

    def __enter__(self) -> None:
        run_context = GLOBAL_RUN_CONTEXT.__dict__
        self._saved = (run_context.pop("task", None), run_context.pop("runner", None))
        self._name = sniffio.thread_local.name
        sniffio.thread_local.name = None
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._firstiter, None)

    def __exit__(self, *exc_info: object) -> None:
        sys.set_asyncgen_hooks(*self._hooks)
        sniffio.thread_local.name = self._name
        task, runner = self._saved
        if runner is not None:
            GLOBAL_RUN_CONTEXT.runner = runner
        if task is not None:
            GLOBAL_RUN_CONTEXT.task = task


def call_hidden(
    fn: Callable[..., T],
    /,
    *args: Any,
    firstiter: Callable[[AsyncGenerator[Any, Any]], None] | None = None,
) -> T:
    """Call ``fn(*args)`` with trio out of sight and return what it returns."""
    with TrioHidden(firstiter):
        return fn(*args)


def is_hidden() -> bool:
    """Tell whether this code is stepped with trio out of sight."""
    return not hasattr(GLOBAL_RUN_CONTEXT, "runner")


def is_hidden_error(error: BaseException) -> bool:
    """Tell whether this is what a trio primitive raises while trio is hidden."""
    if isinstance(error, AttributeError):  # trio's own code, where it does not guard the look-up
        return error.obj is GLOBAL_RUN_CONTEXT
    return isinstance(error, RuntimeError) and error.args == ("must be called from async context",)


# --- one order of tasks ---------------------------------------------------------------------------


class _OrderedSet(dict[Any, None]):
    """As much of a set as trio needs, in the order in which things came in."""

    __slots__ = ()

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]

    def discard(self, item: Any) -> None:
        self.pop(item, None)


class _Unshuffled(random.Random):
    """Leaves the tasks of a batch in the order in which they were made; trio takes the last first.

    Not a seed: what it draws for a batch would depend on how many there were before, and so the
    order within one step of a schedule on all the steps before it.
    """

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Turn the batch around."""
        x.reverse()


@contextmanager
def ordered() -> Generator[None]:
    """Let runs of trio that begin in this block run the tasks of a batch in the order of age.

    Trio shuffles the tasks of a batch, wakes the waiters of an event in the order of a set, and
    cancels tasks in the order of another. Blocks may overlap, in several threads too.
    """
    with _ORDER:
        _undo.append(_undo[0] if _undo else _put_in_order())
    try:
        yield
    finally:
        with _ORDER:
            undo = _undo.pop()
            if not _undo:
                undo()


def _put_in_order() -> Callable[[], None]:
    core: Any = _run
    status = core.CancelStatus
    begin, was_sorted, state = status.__init__, core._ALLOW_DETERMINISTIC_SCHEDULING, core._r
    core._ALLOW_DETERMINISTIC_SCHEDULING = True
    core._r = _Unshuffled(0)

    def begin_ordered(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self._tasks, self._children = _OrderedSet(), _OrderedSet()

    status.__init__ = begin_ordered

    def undo() -> None:
        status.__init__ = begin
        core._ALLOW_DETERMINISTIC_SCHEDULING, core._r = was_sorted, state

    return undo


class HeldDeadlines:
    """The deadlines of a run, in place of trio's own: none passes but by `expire_one`.

    Args:
        changed: Called with each scope that gets a deadline, in the task that sets it.
    """

    def __init__(self, changed: Callable[[trio.CancelScope], None]) -> None:
        self._changed = changed
        self._due: dict[trio.CancelScope, float] = {}

    def __iter__(self) -> Iterator[tuple[trio.CancelScope, float]]:
        return iter(list(self._due.items()))

    def hold(self) -> None:
        """Take over the deadlines of the present run; called in it, before there are any."""
        run: Any = GLOBAL_RUN_CONTEXT.runner
        if run.deadlines.next_deadline() < math.inf:
            raise InvariantError("this run has deadlines already: it is too late to hold them")
        run.deadlines = self

    def due(self, scope: trio.CancelScope) -> float | None:
        """Return when its deadline passes; None when it has none, or is not entered."""
        return self._due.get(scope)

    def expire_one(self, scope: trio.CancelScope) -> None:
        """Let the deadline of a scope pass, whatever the clock says."""
        cast_scope: Any = scope
        cast_scope._cancel(_run.CancelReason(source="deadline"))

    # What trio calls.

    def add(self, deadline: float, scope: trio.CancelScope) -> None:
        """Note a deadline."""
        self._due[scope] = deadline
        self._changed(scope)

    def remove(self, deadline: float, scope: trio.CancelScope) -> None:
        """Forget a deadline."""
        if self._due.get(scope) == deadline:
            del self._due[scope]

    def next_deadline(self) -> float:
        """Let trio sleep over all of them."""
        return math.inf

    def expire(self, now: float) -> bool:
        """Let none pass."""
        return False


def has_callbacks() -> bool:
    """Tell whether ``run_sync_soon`` was called and its callbacks did not run yet."""
    calls = GLOBAL_RUN_CONTEXT.runner.entry_queue  # current_statistics() tells fifty things more
    return bool(calls.queue or calls.idempotent_queue)


def io_waits() -> int:
    """Return how many tasks wait for a socket; trio's own callbacks come by one."""
    waits: Any = GLOBAL_RUN_CONTEXT.runner.io_manager.statistics()
    kinds = ("tasks_waiting_read", "tasks_waiting_write", "tasks_waiting")
    return sum(getattr(waits, kind, 0) for kind in kinds)


def check_order() -> None:
    """Prove that `ordered` and `HeldDeadlines` still find what they replace.

    Raises:
        InvariantError: The installed trio is another one than this module was written for.
    """
    if _undo:
        return  # proved by those that do it now
    core: Any = _run
    problem: str | None = None
    made = core.CancelStatus(scope=trio.CancelScope())
    if not {"_tasks", "_children"} <= set(dir(made)) or not isinstance(made._tasks, set):
        problem = "a cancel status does not keep its tasks and children in sets"
    elif not isinstance(core._r, _RANDOM) or core._ALLOW_DETERMINISTIC_SCHEDULING not in (0, 1):
        problem = "batches of tasks are not shuffled by _run._r"
    elif {"add", "remove", "next_deadline", "expire"} - set(dir(core.Deadlines)):
        problem = "deadlines are kept in another way"
    else:
        problem = _order_is_kept()
    if problem is not None:
        raise _changed(problem, "Schedules cannot be replayed on it. ")


def _changed(problem: str, so: str) -> InvariantError:
    return InvariantError(
        f"trio {trio.__version__} changed inside: {problem}. {so}"
        "Install the trio version this release was tested with, or update trouper."
    )


def _order_is_kept() -> str | None:
    """Run what trio does in no fixed order, and see that it came in that of age."""
    found = _woken_cancelled_and_late()
    woken = [word for n in range(3) for word in (f"w{n} woken", f"w{n} ends")]
    expected = {"not late", *woken, *(f"w{n} ends" for n in range(3, 6))}
    first, rest = ([word for word in found if (word in woken) is it] for it in (True, False))
    if first != woken or rest[1:] != [f"w{n} ends" for n in range(3, 6)]:
        return f"tasks that can run at the same time ran in the order {found}"
    return None if set(found) == expected else f"what is woken and cancelled did {found}"


def _woken_cancelled_and_late() -> list[str]:
    trace: list[str] = []

    async def wait(name: str, event: trio.Event) -> None:
        try:
            await event.wait()
            trace.append(f"{name} woken")
        finally:
            trace.append(f"{name} ends")

    async def main() -> None:
        held = HeldDeadlines(lambda scope: None)
        held.hold()
        event = trio.Event()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(wait, f"w{number}", event if number < 3 else trio.Event())
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
                with trio.CancelScope() as late:
                    late.deadline = trio.current_time() - 1  # would pass by itself
                    await trio.lowlevel.checkpoint()
                    event.set()
                    await trio.lowlevel.checkpoint()
                    trace.append("not late")
                scope.cancel()

    with ordered():
        trio.run(main)
    return trace


def check() -> None:
    """Prove, from inside a trio task, that the private parts still mean what this module assumes.

    Raises:
        InvariantError: The installed trio is another one than this module was written for.
    """
    global _checked_version
    if _checked_version == trio.__version__:
        return
    problem = _what_is_left_is_seen() or _trio_can_be_hidden() or _a_trap_can_be_kept()
    if problem is not None:
        raise _changed(problem, "")
    _checked_version = trio.__version__


def _what_is_left_is_seen() -> str | None:
    task = trio.lowlevel.current_task()
    before = inside = cancel_status_of(task)
    with trio.CancelScope():  # noqa: ASYNC100 - entered only to be seen
        inside = cancel_status_of(task) if is_cancelled(task) is False else before
    if before is None or inside is before or cancel_status_of(task) is not before:
        return "an open cancel scope does not show in Task._cancel_status"
    lock = trio.Lock()
    lock.acquire_nowait()
    is_seen = holds_lock(task)
    lock.release()
    return None if is_seen else "a held lock does not show in GLOBAL_PARKING_LOT_BREAKER"


def _trio_can_be_hidden() -> str | None:
    task = trio.lowlevel.current_task()
    for name, probe in (
        ("current_task", trio.lowlevel.current_task),
        ("current_time", trio.current_time),
        ("CancelScope", trio.CancelScope().__enter__),
    ):
        try:
            call_hidden(probe)
        except RuntimeError as error:
            if not is_hidden_error(error):
                return f"hidden trio answers {name} with {error!r}"
        else:
            return f"{name} works although trio is hidden"
    if call_hidden(lambda: sniffio.thread_local.name) is not None:
        return "sniffio still names a library while trio is hidden"
    if trio.lowlevel.current_task() is not task or sniffio.thread_local.name != "trio":
        return "the run context does not come back after hiding it"
    return None


def _a_trap_can_be_kept() -> str | None:
    def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        return trio.lowlevel.Abort.SUCCEEDED

    message = Trap(abort).message
    if vars(message) != {"abort_func": abort}:
        return f"a wait yields {message!r}, which is more than its abort function"
    return None
