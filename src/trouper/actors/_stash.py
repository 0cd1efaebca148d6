"""Putting a message aside until the actor is ready for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast, final

from ..errors import StashFull
from ..mailbox import STOPPING, put_back
from ..supervision import unwrap

if TYPE_CHECKING:
    from ._local import LocalRef


@final
class Stashed(BaseException):
    """Ends a turn whose message is put aside. Not an `Exception`: no handler means to catch it.

    The entry of a turn is known to nobody while the turn runs, which is what keeps a message from
    costing more than its handler call; it is known to the one who accounts for a turn that raised.
    """


def without_stashed(error: BaseException | None) -> BaseException | None:
    """Take `Stashed` out of a group: what failed beside it, in a handler's nursery, goes before.

    A group of nothing else is one `Stashed`: several tasks put the message aside.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    stashed, rest = group.split(Stashed)
    if stashed is None:
        return group
    return Stashed() if rest is None else unwrap(rest)


def stash(ref: LocalRef) -> NoReturn:
    """End the running turn and put its message aside."""
    worker = ref.worker
    if worker is None:
        raise RuntimeError(f"{ref.path}: only a handler has a message to stash")
    mine = ref.need_belongings()
    if mine.inbox is not None:
        raise RuntimeError(f"{ref.path}: a protocol leaves in its inbox what it does not receive")
    if len(mine.stash) >= ref.capacity:
        raise StashFull(
            f"{ref.path} has put {len(mine.stash)} messages aside; unstash_all() them, refuse this "
            "one with Reject, or give it a larger mailbox=",
            target=ref.path,
            capacity=ref.capacity,
        )
    raise Stashed


def put_aside(ref: LocalRef, entry: Any) -> None:
    """Keep the entry of a turn that ended with `Stashed`; called by the accounting."""
    if ref.state >= STOPPING:
        ref.drop(entry, "stopped")  # the mail was dropped before: it would be forgotten in here
    else:
        ref.need_belongings().stash.append(entry)


def unstash_all(ref: LocalRef) -> int:
    """Put everything that was put aside in front of the queue; return how much it was."""
    mine = ref.need_belongings()
    entries, mine.stash = mine.stash, []
    put_back(ref, entries)
    return len(entries)
