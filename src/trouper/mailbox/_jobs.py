"""What a worker can run beside mailboxes: jobs (asynchronous, named) and steppers (plain calls)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, final

from ._states import JOB, STEPPER

if TYPE_CHECKING:
    import trio

    from ._dispatcher import Dispatcher
    from ._mailbox import Mailbox


@final
class Job:
    """Asynchronous work of the runtime itself, queued on `ready` under a name (derisk R4).

    Life-cycle work never runs in the host task, where Ctrl-C would cut it half-way, and never in a
    carrier, whose scope may be burnt.

    Args:
        name: Its name, or the mailbox it works for and what it does: put together when it is read.
    """

    __slots__ = ("args", "box", "doomed", "fn", "name", "scope")
    state: ClassVar[int] = JOB

    def __init__(
        self, name: str | tuple[Mailbox, str], fn: Callable[..., Awaitable[None]], *args: Any
    ) -> None:
        self.name = name
        self.fn = fn
        self.args = args
        self.scope: trio.CancelScope | None = None
        self.doomed: Any = None
        self.box: Mailbox | None = None  # whose hook it runs just now: waits in it are that one's

    @property
    def path(self) -> str:
        """What task dumps and traces call it."""
        name = self.name
        return name if isinstance(name, str) else f"{name[0].path}!{name[1]}"

    def hold_up(self) -> None:
        """Hold nobody up: a job has no mail."""


class Named(Protocol):
    """What schedules know by name."""

    @property
    def name(self) -> str:
        """Return that."""
        ...


@final
class Unborn:
    """What is not in memory, and could be: it is known by name all the same."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class News(Protocol):
    """An event of trio, or what wakes its waiters in an order that somebody chooses."""

    def set(self) -> None:
        """Let everybody wake who waits, and who will."""
        ...

    async def wait(self) -> None:
        """Wait until it is set."""
        ...


class Stepper:
    """Base of things that a worker plainly calls: one call of `step` is one pass.

    `step` is synchronous, never blocks and must not raise; an exception is a bug of the runtime and
    fails the system. `listed` belongs to the dispatcher: True while the stepper is on `ready`. A
    stepper is enlisted at most once; enlisting it again before it ran changes nothing.
    """

    __slots__ = ("dispatcher", "listed")
    state: ClassVar[int] = STEPPER

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.listed = False

    @property
    def name(self) -> str:
        """What schedules call it; the same in every run of the same work."""
        return type(self).__name__.lower()

    def step(self) -> int | None:
        """Do one pass of work; return how many handler calls that was worth, None: a whole pass.

        It is what the worker counts before it lets other tasks of trio run.
        """
        raise NotImplementedError
