"""A caller's hold on one activation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import trio

from ...errors import ActivationCancelled
from ...store import PLAIN, Shape
from ..groups import Cancelled, Completed, Failed, Outcome
from ._actor import ActivationActor
from ._signalling import send_signal

if TYPE_CHECKING:
    from ._service import Activations

R_co = TypeVar("R_co", covariant=True)


class ActivationHandle(Generic[R_co]):
    """One activation, started or joined. Any number of handles may be held on one."""

    def __init__(
        self,
        service: Activations,
        key: str,
        found: ActivationActor | Outcome,
        result: Shape[Any] = PLAIN,
    ) -> None:
        self._service = service
        self._result = result
        self._found = found
        self.key = key

    async def result(self) -> R_co:
        """Wait for the end and return the value. Ending the wait changes nothing but the waiting.

        Raises:
            TrouperError: what the activity raised, rebuilt from the journal.
            ValueRefused: the stored result does not fit the annotation of the code.
            ActivationCancelled: it was cancelled.
            ShuttingDown: the system closed first.
            AskCycle: this work is part of what it would wait for.
        """
        found = self._found
        if isinstance(found, ActivationActor):
            with self._service.host.waits.waiting(f"activation {self.key}"):
                outcome = await found.wait()
        else:
            await trio.lowlevel.checkpoint()
            outcome = found
        match outcome:
            case Completed(value):
                return cast("R_co", self._result.to_value(value, "result"))
            case Failed():
                raise outcome.exception()
            case Cancelled():
                raise ActivationCancelled(
                    f"activation {self.key!r} was cancelled; its journal says so for good",
                    key=self.key,
                )

    async def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of whoever sends
    ) -> None:
        """Send it a signal; see `ActorSystem.signal`."""
        await send_signal(self._service, self.key, name, payload, id)

    def cancel(self) -> None:
        """Ask for the end: a durable fact once its turn has journaled it."""
        self._service.cancel(self.key)

    def status(self) -> str:
        """Return its state in one word."""
        return self._service.status(self.key)
