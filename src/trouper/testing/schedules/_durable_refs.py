"""Refs of durable actors: whoever asks one goes on by an event.

Their messages are none: a desk takes what is there in the order of arrival, and every pass of it
is an event. So a send touches the desk's inbox, and so does whatever looks at the actor's state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, final

from ...actors.durable_actors._traced import TracedDurableRef
from ...mailbox import STOPPED, Ask, Mailbox

if TYPE_CHECKING:
    from ._engine import GatedDispatcher
    from ._gate import Gate

_STATE: Any = Mailbox.__dict__["state"]


@final
class ScheduledDurableRef(TracedDurableRef):
    """The ref of a durable actor in a schedule."""

    __slots__ = ()

    @property
    def _gate(self) -> Gate:
        return cast("GatedDispatcher", self.dispatcher).gate

    @property
    def state(self) -> int:
        """The state: who looks at it depends on what the desk does."""
        self._gate.note(looks=(f"inbox of {self.label}",))
        return cast("int", _STATE.__get__(self))

    @state.setter
    def state(self, state: int) -> None:
        is_known = hasattr(self, "parent")
        _STATE.__set__(self, state)
        if is_known:
            self._gate.note(shares=(f"inbox of {self.label}",))
            if state == STOPPED:
                self._gate.let_go(("end", self))

    async def _ask_in_turn(self, message: Any, put: Callable[[Ask], None] | None = None) -> Any:
        gate, waits = self._gate, self.system.waits
        asker: Any = self.dispatcher.running_mailbox()
        ask = Ask(message, asker)
        if asker is not None:
            self._enter_wait(asker, ask)
        try:
            self.put_ask(ask)
            if not ask.done:
                what = message.journeys[0].what
                await gate.hold(ask, str(self.label), what, give_up=ask.give_up)
        finally:
            if asker is not None:
                waits.leave(asker, self)
            if self.senders is not None:
                self.forget_ask(ask)
        if ask.error is not None:
            raise ask.error
        return ask.value

    async def wait_stopped(self) -> None:
        if self.state != STOPPED:
            await self._gate.hold(("end", self), str(self.label), "its end")
