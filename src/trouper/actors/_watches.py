"""Knowing when another actor ends: one-way as a message, or both ways as a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..errors import LinkBroken
from ..mailbox import STOPPED, Owed, order

if TYPE_CHECKING:
    from ..supervision import Exit
    from ._local import LocalRef
    from ._ref import Ref


@dataclass(frozen=True, slots=True)
class Terminated:
    """An actor that was watched has ended, hooks included, and this is why."""

    ref: Ref[Any]
    why: Exit


def watch(ref: LocalRef, other: LocalRef) -> None:
    """Order one `Terminated` about ``other``; watching twice is watching once."""
    if other is ref:
        raise ValueError(f"{ref.path} cannot watch itself; its end is in its `stopping` hook")
    # whatever the exit, the message has one type: refused here, not when it comes
    ref.find(Terminated(other, cast(Any, None)))
    if other.system is not ref.system:
        raise ValueError(f"{other.path} lives in another system; await its stopped() instead")
    watching = ref.need_belongings().watching
    if other in watching or ref.state == STOPPED:
        return
    if other.state == STOPPED:
        assert other.exit is not None
        tell_terminated(ref, other, other.exit)
    else:
        watching[other] = None
        other.need_belongings().watchers[ref] = None


def unwatch(ref: LocalRef, other: LocalRef) -> None:
    """Take the order back; a message that waits already does not come either."""
    watching = ref.need_belongings().watching
    if other in watching:
        owed = watching.pop(other)
        if owed is not None:
            owed.is_off = True
        else:
            other.need_belongings().watchers.pop(ref, None)


def tell_terminated(watcher: LocalRef, ref: LocalRef, why: Exit) -> None:
    """Let a watcher have the one message about the end of ``ref``."""
    watching = watcher.need_belongings().watching
    owed = watching[ref] = Owed(Terminated(ref, why), lambda: watching.pop(ref, None))
    order(watcher, owed)


def link(ref: LocalRef, other: LocalRef) -> None:
    """Tie two actors together: when one ends abnormally the other fails."""
    if other is ref:
        raise ValueError(f"{ref.path} cannot be linked to itself")
    if other.system is not ref.system:
        raise ValueError(f"{other.path} lives in another system")
    if ref.state == STOPPED:
        return  # it is past failing, and would never be untied
    if other.state == STOPPED:
        assert other.exit is not None
        if is_abnormal(other.exit):
            raise broken_link(other, other.exit)
        return
    ref.need_belongings().links[other] = None
    other.need_belongings().links[ref] = None


def unlink(ref: LocalRef, other: LocalRef) -> None:
    """Untie two actors."""
    ref.need_belongings().links.pop(other, None)
    other.need_belongings().links.pop(ref, None)


def is_abnormal(why: Exit) -> bool:
    """Whether an exit breaks links: a crash, or a kill, which leaves work half-done."""
    return why.kind in ("crashed", "killed")


def broken_link(ref: LocalRef, why: Exit) -> LinkBroken:
    """Return what an actor fails with whose partner ended abnormally."""
    error = LinkBroken(f"{ref.path}, linked to this actor, ended: {why}", target=ref.path)
    error.__cause__ = why.cause
    return error
