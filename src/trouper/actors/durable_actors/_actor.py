"""The base class of durable actors."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from .._messages import M
from ._rules import Limits, Rules, rules_of

S = TypeVar("S")


class DurableActor(Generic[S, M]):
    """Single writer of its own history: decides on one message at a time, and keeps what it did.

    ``class Account(DurableActor[AccountState, Withdraw | Balance])`` declares its state and what it
    takes; without the second, anything it decides on. ``await system.actor(Account, "alice")``
    spawns or finds the one under that key, and has recovered it first.

    Class keywords, each with its default:

    * ``name``: under which the store knows the class; where it is defined by default.
    * ``snapshot_every=1000`` records, ``snapshot_bytes=1 MiB`` of them: whichever comes first makes
      a snapshot of the state, in the unit that it is the state after. None turns one off.
    * ``keep_replies=1000``: the recorded replies that messages with an idempotency id find. Of more
      the oldest is forgotten: its message, coming again then, counts as a new one.
    * ``passivate_after=60.0`` seconds without a message it leaves memory. None: never.

    Raises:
        TypeError: At class creation, when rules, records and state do not fit together.
        ValueError: At class creation, when a limit is none.
    """

    initial: S
    """The state before the first record: a plain value, or a frozen dataclass under `record`."""

    key: str
    """Under which key this one was spawned."""

    __rules__: ClassVar[Rules | None] = None

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        snapshot_every: int | None = 1000,
        snapshot_bytes: int | None = 1 << 20,
        keep_replies: int = 1000,
        passivate_after: float | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        limits = Limits(snapshot_every, snapshot_bytes, keep_replies, passivate_after)
        frame = inspect.currentframe()
        around = {} if frame is None or frame.f_back is None else frame.f_back.f_locals
        cls.__rules__ = rules_of(cls, DurableActor, name, limits, around)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, params):
            """Take one parameter as well: it takes any message that it decides on then."""
            if cls is DurableActor and not isinstance(params, tuple):
                params = (params, Any)
            return super().__class_getitem__(params)
