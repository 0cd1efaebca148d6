"""Refs and units of durable actors in a system that has instruments; see `.._traced`.

The turn of a message is the decision on it. What the decision tells others is sent when its records
are durable, and still inside that turn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, ClassVar, cast, final

from ...errors import Reject
from ...mailbox import Traced
from .._ref import Ref
from .._traced import Followed, begin_turns, end_turns
from ._decision import Decision, Tell
from ._ref import DurableRef
from ._unit import Answer, Units


@final
class Later:
    """The target of a tell, reached from where the decision was made."""

    __slots__ = ("_here", "_to")

    def __init__(self, to: Ref[Any], here: Context) -> None:
        self._to = to
        self._here = here

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)

    def tell(self, message: Any, /) -> None:
        """Tell it as if the decision did."""
        self._here.run(self._to.tell, message)


@final
class TracedUnits(Units):
    """Units whose decisions are turns that instruments see."""

    __slots__ = ()

    def take(self, asker: Any, message: Any, decide: Callable[..., Any]) -> Answer | None:
        """Decide on a message within its turn; see `Units.take`."""
        if not isinstance(message, Traced):
            return super().take(asker, message, decide)
        box = cast("TracedDurableRef", message.box)
        turns = begin_turns(message)
        known = message.message
        decision = Deciding(box.real_handler(known)[2])
        try:
            answer = super().take(asker, known, decision)
        except BaseException as exc:
            end_turns(box, turns, exc)
            raise
        end_turns(box, turns, decision.refusal if answer is None else answer.error)
        return answer


@final
class Deciding:
    """A rule that decides within the present turn; ``refusal`` is its `Reject`, if it does."""

    def __init__(self, decide: Callable[..., Any]) -> None:
        functools.update_wrapper(self, decide)  # for the error of a rule that decides nothing
        self._decide = decide
        self.refusal: Reject | None = None

    def __call__(self, actor: Any, state: Any, message: Any) -> Any:
        """Decide, and let what is told later be told from here."""
        try:
            decision: Any = self._decide(actor, state, message)
        except Reject as reject:
            self.refusal = reject
            raise
        if isinstance(decision, Reject):
            self.refusal = decision
        elif isinstance(decision, Decision):
            return _told_from_here(decision)
        return cast(Any, decision)


def _told_from_here(decision: Any) -> Any:
    if not decision.tells:
        return decision
    here = copy_context()
    tells = [Tell(cast(Any, Later(tell.to, here)), tell.message) for tell in decision.tells]
    return Decision(decision.records, reply=decision.reply, tells=tells)


class TracedDurableRef(Followed, DurableRef):
    """A ref of a durable actor whose messages are followed."""

    __slots__ = ("behaviour_table",)

    units_type: ClassVar[type[Units]] = TracedUnits

    def may_take_now(self) -> bool:
        """A turn that is followed is a worker's, and begins when that takes the message."""
        return False
