"""Every error a caller can do something about, in one place.

One root, one class per thing a caller can do. A message says what was wrong, where, and what to do
next; the same facts are attributes, so that a program never parses a message. Errors are data: an
error that a durable step raised is journaled as (name, message, facts) and comes back as itself,
equal in type and content, on the first run and on every replay (spec README, ruling 13).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import trio

_BY_NAME: dict[str, type[TrouperError]] = {}


def durable_name(thing: Any) -> str:
    """Return the name under which code is known across runs: ``module.qualname``.

    ``__main__`` counts as the module it was started as, so a program run as a file and imported
    as a module means the same thing.
    """
    module = thing.__module__
    if module == "__main__":
        import sys

        spec = getattr(sys.modules["__main__"], "__spec__", None)
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        else:
            path = getattr(sys.modules["__main__"], "__file__", None) or "__main__"
            module = path.rsplit("/", 1)[-1].removesuffix(".py")
    return f"{module}.{thing.__qualname__}"


class TrouperError(Exception):
    """Root of everything this library raises on purpose.

    A subclass registers itself by being defined; that is what lets it come back from a journal.
    Keyword arguments are kept as attributes.
    """

    record_name: ClassVar[str] = "trouper.errors.TrouperError"
    facts: dict[str, Any]

    def __init__(self, message: str = "", /, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.record_name = durable_name(cls)
        _BY_NAME[cls.record_name] = cls

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @classmethod
    def revive(cls, message: str, facts: dict[str, Any]) -> Self:
        """Rebuild an error from its journaled message and facts, whatever its constructor takes."""
        error = cls.__new__(cls)
        TrouperError.__init__(error, message, **facts)
        return error

    def again(self) -> Self:
        """Return an equal error for one more waiter.

        One instance raised in two tasks would collect the tracebacks of both.
        """
        error = type(self).revive(str(self), self.facts).with_traceback(self.__traceback__)
        error.__cause__ = self.__cause__
        return error

    @staticmethod
    def named(name: str) -> type[TrouperError] | None:
        """Return the registered error class of that journaled name, or None."""
        return _BY_NAME.get(name)


_BY_NAME[TrouperError.record_name] = TrouperError


class InvariantError(TrouperError):
    """A state that the rules make unreachable was reached: a bug in trouper. Never caught."""


class Reject(TrouperError):
    """The one word for a definite refusal. Raised in handlers, effects and operations."""


# --- actors ---------------------------------------------------------------------------------


class MailboxFull(TrouperError, trio.WouldBlock):
    """A `tell` met a full mailbox. Use ``await ref.send(...)`` to wait for room, or shed load."""


class ActorStopped(TrouperError):
    """The target has stopped, or stopped before it answered."""


class ActorCrashed(TrouperError):
    """The target failed while it handled this request. ``__cause__`` is what it raised."""


class AskCycle(TrouperError):
    """Waiting here would wait for itself: every way out leads back to the waiter."""

    path: list[str]


class AskUnknown(TrouperError):
    """The safety net ended an ask. Outcome unknown: the handler may have run, or may yet run."""


class NotHandled(TrouperError):
    """The target has no handler for a message of this type."""


class NameTaken(TrouperError):
    """Another child of the same parent has this name."""


class LinkBroken(TrouperError):
    """An actor linked to this one crashed or was killed; ``__cause__`` is its failure."""


class TimersFull(TrouperError):
    """An actor has as many timers as its ``mailbox`` has room for messages."""


class PipesFull(TrouperError, trio.WouldBlock):
    """An actor has as many pipes running as its ``mailbox`` has room for messages."""


class StashFull(TrouperError, trio.WouldBlock):
    """An actor has put aside as many messages as its ``mailbox`` has room for."""


class TopicFull(TrouperError):
    """A topic has as many subscribers as ``topics.limit`` allows."""


class InboxClosed(TrouperError, trio.EndOfChannel):
    """A protocol is to stop: no further message is received. Left alone, it ends it in order."""


class StartFailed(TrouperError):
    """An actor did not come up. ``__cause__`` is what its constructor or ``started`` raised."""


class RestartLimitReached(TrouperError):
    """A child failed more often than its supervisor allows. ``__cause__`` is its last failure."""


class ShuttingDown(TrouperError):
    """The system or the parent is stopping; nothing new starts."""


class WrongTask(TrouperError):
    """`open_system` was left in another task than the one that entered it."""


class ScopeLeak(TrouperError):
    """A handler left a cancel scope or a nursery open behind it."""


# --- store ----------------------------------------------------------------------------------


class StoreError(TrouperError):
    """Root of what a store raises."""


class PathRefused(StoreError):
    """No store can be opened at this path. ``reason`` says why; nothing was changed there."""

    path: str
    reason: str


class StoreOwned(StoreError):
    """Another live process owns this store."""

    pid: int


class StoreFull(StoreError):
    """Disk or map is full. Nothing of this unit was written; retry when there is room."""


class StoreLost(StoreError):
    """A commit failed half-way: outcome unknown. Reopen the store; what it holds then decides."""


class StoreDamaged(StoreError):
    """The file does not hold a sound store. It was not touched."""

    where: str


class CorruptRecord(StoreError):
    """One row does not match its checksum or its kind. Other rows are fine."""

    table: str
    key: str


class FormatTooNew(StoreError):
    """The store, or a row in it, was written by a newer version. It was not touched."""


class UpcastFailed(StoreError):
    """An older record cannot be read: its upcaster is missing, or failed. It was not touched."""

    kind: str
    version: int


class WrongEngine(StoreError):
    """The file is an LMDB file of another data format."""


class ForeignFork(StoreError):
    """The store was opened by the parent of this process; a fork must not touch it."""


class StoreClosed(StoreError):
    """The store is not open (any more)."""


class ValueRefused(StoreError):
    """A value lies outside what the journal carries. ``path`` says where inside it."""

    path: str
    reason: str


class TooLarge(StoreError):
    """A value is larger than the store's limit for one value."""


class FenceMoved(StoreError):
    """Somebody else owns this row now. Nothing was written; this owner's work is not counted."""


# --- effects, groups, operations --------------------------------------------------------------


class GroupError(TrouperError):
    """Root of what effect groups raise."""


class EffectGroupsUnsupported(GroupError):
    """This host has no runner resolver: it does not do groups. Call ``host.register`` first."""


class GroupShapeError(GroupError):
    """A group was offered in another shape than the one that is recorded, or in no valid shape."""


class GroupRetired(GroupError):
    """The group was retired; opening it again would run settled work twice."""


class CursorOutOfRange(GroupError):
    """A cursor points past the group's last child, or before its first."""


class HandleClosed(GroupError):
    """The group was closed after this handle was made. Reopen it with the cursor you saved."""


class HandleBusy(GroupError):
    """Another task waits on this handle; one handle serves one task."""


class ReplayMismatch(GroupError):
    """The code offers another step than the one that is recorded at this place."""

    field: str


class CorruptGroup(GroupError):
    """A terminal without a rank, or a rank without a terminal."""


class DrainDeferred(GroupError):
    """This host still works on the group. Retry later."""


class MembershipDropped(GroupError):
    """A grouped envelope met a path that has no place for its membership. Nothing ran."""


class EmptyGroup(GroupError):
    """A race, or a group, without children."""


class NoExecutor(GroupError):
    """No runner is known for this envelope. A routing fact, never an outcome."""


class EffectFailed(TrouperError):
    """Code raised an error of an unregistered type: ``type`` names it, ``where`` its line."""

    type: str
    where: str

    @classmethod
    def revive(cls, message: str, facts: dict[str, Any]) -> Self:
        """Rebuild it, with a note for the traceback: the one of the first run is gone."""
        error = super().revive(message, facts)
        if where := facts.get("where"):
            error.add_note(f"raised at {where}")
        return error


class OutcomeUnknown(TrouperError):
    """It may have happened. Re-read, or retry under the same key; never under a new one."""


class OperationMismatch(TrouperError):
    """The key belongs to another request."""


class OperationFailed(TrouperError):
    """The operation's committed outcome is a failure; nothing ran again."""


# --- activations ------------------------------------------------------------------------------


class ActivationError(TrouperError):
    """Root of what activations raise to their callers."""


class NondeterministicAwait(ActivationError):
    """A durable function awaited something other than ``act.*``."""

    line: int


class UnknownActivity(ActivationError):
    """No durable function of this name is known here. The activation stays parked and visible."""


class ActivationCancelled(ActivationError):
    """The activation was cancelled."""


class ActivationMismatch(ActivationError):
    """The key belongs to another activity, or to other arguments."""


class HistoryLimit(ActivationError):
    """The activation took more steps than its limit."""


# --- cells ------------------------------------------------------------------------------------


class CellError(TrouperError):
    """Root of what cells raise."""


class CellsExhausted(CellError):
    """No cell is free and this call may not wait: back-pressure, no failure of the guest."""


class GuestTrapped(CellError):
    """The guest trapped. ``kind`` says how."""

    kind: str


class OutOfFuel(GuestTrapped):
    """The guest used up its fuel."""


class GuestDeadline(CellError):
    """The guest ran past its deadline and was stopped."""


class GuestRefused(CellError):
    """The module was not admitted. ``rule`` names the rule, ``where`` the place."""

    rule: str
    where: str


class LeaseError(CellError):
    """A cell lease was dropped live, returned twice, forged or returned to a foreign pool."""

    kind: str
