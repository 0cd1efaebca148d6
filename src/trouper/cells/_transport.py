"""Between a slot and its guest: how a run starts, goes on, is killed, and how a cell retires.

One seam, two transports. The *threaded* one lets the loop go on while guest code runs. The
*lock-step* one blocks the loop until the guest's next event: no thread ever runs beside the loop,
so that a schedule is a function of its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

import trio

from ._lock_step import LockStepThread
from ._thread import CellThread

if TYPE_CHECKING:
    from ._shim import Asker, Bridge
    from ._wasm import Frame, Job, Runtime

TransportName: TypeAlias = Literal["thread", "lock-step"]
TRANSPORTS: Final[tuple[str, ...]] = get_args(TransportName)


class Listener(Protocol):
    """What a transport tells its slot, on the loop's thread."""

    def on_request(self, generation: int, name: str, request: bytes) -> bool:
        """Learn that the guest asks a provider; return whether one was started for it."""
        ...

    def on_frame(self, generation: int, frame: Frame) -> None:
        """Learn that the frame of a run has returned."""
        ...

    def on_overrun(self, generation: int) -> None:
        """Learn that guest code takes longer than the transport lets it, and kill it.

        The one call that comes from within `Transport.start`, `resume` or `kill`.
        """
        ...


class Transport(Protocol):
    """Carries one run at a time to a guest and back. Called on the loop's thread, but `asker`'s."""

    ended: trio.Event
    """Set once it has retired and everything of the engine is freed."""

    def open(self) -> None:
        """Take up service."""
        ...

    def asker(self, generation: int, bridge: Bridge) -> Asker:
        """Return what brings a request of that run to the loop, for its shim."""
        ...

    def start(self, job: Job) -> None:
        """Give the guest its next run."""
        ...

    def resume(self, bridge: Bridge, response: bytes) -> None:
        """Answer the request of the run."""
        ...

    def kill(self, bridge: Bridge) -> None:
        """End the run; its ``dying`` flag is set already. The frame still comes."""
        ...

    def provide(self, call: Callable[[], object], closed: Callable[[Any], None]) -> None:
        """Run a plain provider; ``closed`` gets its outcome on the loop's thread, later."""
        ...

    def retire(self) -> None:
        """Free the engine once the run has returned that may still be out."""
        ...


def make_transport(
    kind: TransportName,
    name: str,
    runtime: Runtime,
    token: trio.lowlevel.TrioToken,
    listener: Listener,
) -> Transport:
    """Return the transport of that kind for one cell."""
    transport = CellThread if kind == "thread" else LockStepThread
    return transport(name, runtime, token, listener)
