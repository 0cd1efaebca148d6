"""What effects, groups and operations refuse or end in."""

from __future__ import annotations

from typing import Any, Self

from ._base import TrouperError


class GroupError(TrouperError):
    """Root of what effect groups raise."""


class EffectGroupsUnsupported(GroupError):
    """This host has no runner resolver: it does not do groups. Call ``host.register`` first."""


class GroupShapeError(GroupError):
    """A group was offered in another shape than the one that is recorded, or in no valid shape."""


class GroupRetired(GroupError):
    """The group was retired; opening it again would run settled work twice."""


class ScopeBusy(GroupError):
    """What should be retired or forgotten is open, unsettled, live, or still being swept.

    Nothing was changed. Close it, wait for it or cancel it; then retire it again.
    """


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


class DrainFirst(GroupError):
    """The store holds unfinished work of code that is not this code any more. Nothing was touched.

    ``rows`` says which, and how each differs. Open the store with the code that began them, let
    them end or cancel them, then open it with the new code.
    """

    rows: list[str]


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


class OperationForgotten(TrouperError):
    """The operation was forgotten while somebody held it; open it again to start anew."""


class OperationMismatch(TrouperError):
    """The key belongs to another request."""


class OperationFailed(TrouperError):
    """The operation's committed outcome is a failure; nothing ran again."""
