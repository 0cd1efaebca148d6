"""What was answered to messages that carry an idempotency id: the last so many of them.

Pure. A message carries an id when it has a field ``idempotency_id`` that is not None. The window is
bounded: of more than ``keep`` replies the oldest is forgotten, and its message would count as new.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

from ...errors import MessageMismatch, ValueRefused, durable_name
from ...store import fingerprint
from .._key import require_name
from ._rows import ReplyRow, named_places

if TYPE_CHECKING:
    from ._unit import Unit


@final
class Known:
    """One recorded reply; ``unit`` is what carries it until that is durable."""

    __slots__ = ("message", "number", "reply", "unit")

    def __init__(self, number: int, message: bytes, reply: bytes, unit: Unit | None) -> None:
        self.number = number
        self.message = message
        self.reply = reply
        self.unit = unit


@final
class Replies:
    """The recorded replies of one actor, oldest first."""

    __slots__ = ("_known", "keep", "last")

    def __init__(self, keep: int, last: int = 0, rows: Iterable[tuple[int, ReplyRow]] = ()) -> None:
        self.keep = keep
        self.last = last  # number of the latest one, ever
        self._known: OrderedDict[str, Known] = OrderedDict()
        for number, row in rows:
            # Under an id that was forgotten once and came again there may be two: the later counts.
            self._known.pop(row.ident, None)
            self._known[row.ident] = Known(number, row.message, row.reply, None)

    def find(self, ident: str, message: bytes) -> Known | None:
        """Return what was recorded under an id.

        Raises:
            MessageMismatch: Under this id came another message.
        """
        known = self._known.get(ident)
        if known is not None and known.message != message:
            raise MessageMismatch(
                f"the idempotency id {ident!r} belongs to another message; a message that comes "
                "again is the same in every field, a new one has a new id",
                ident=ident,
            )
        return known

    def add(self, ident: str, message: bytes, reply: bytes, unit: Unit) -> list[int]:
        """Record a reply; return the numbers of those that are forgotten for it."""
        self.last += 1
        self._known[ident] = known = Known(self.last, message, reply, unit)
        if unit.replies is None:
            unit.replies = []
        unit.replies.append(known)
        gone: list[int] = []
        while len(self._known) > self.keep:
            gone.append(self._known.popitem(last=False)[1].number)
        return gone


def mark_of(ident: object, message: Any) -> bytes:
    """Return the fingerprint of a message that carries an id.

    Raises:
        ValueRefused: The id is none, or the message is not a dataclass of plain values.
    """
    require_name(ident, "an idempotency id")
    kind: type[Any] = message.__class__
    if not dataclasses.is_dataclass(kind):
        raise ValueRefused(
            f"a message with an idempotency id is a dataclass, {kind.__qualname__} is none",
            path="$",
            reason="not a dataclass",
        )
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(kind)}
    with named_places(kind.__qualname__):
        return fingerprint("message/1", [durable_name(kind), fields])
