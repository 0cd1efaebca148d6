"""What the end of a turn means: synchronous, called by the worker, never raises (derisk R3)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..errors import ActorCrashed, ActorStopped, Reject
from ..mailbox import DRAINING, FAILED, RUNNING, Ask, Control, Job, bare
from ..supervision import text_of, unwrap
from ._belongings import end_instance
from ._redelivery import as_sent, put_again
from ._restarts import supervise
from ._stash import Stashed, put_aside, without_stashed

if TYPE_CHECKING:
    from ._local import LocalRef

log = logging.getLogger("trouper.actors")


def turn_killed(ref: LocalRef, entry: Any, error: BaseException | None) -> None:
    """Account for a turn that the runtime cut; ``error`` is what its clean-up raised, if anything.

    What cut it wins over what it returned, also when it finished in the same tick.
    """
    doomed, ref.doomed = ref.doomed, None
    if entry.__class__ is Ask:
        entry.fail(ActorStopped(f"{ref.path}: the turn was cut: {doomed}", target=ref.path))
    if isinstance(doomed, BaseException):
        crash(ref, doomed)  # failed from below by a child's escalation, not stopped
    if error is not None:
        log.error("%s failed while its turn was being cut", ref.path, exc_info=error)
        if not isinstance(error, Exception):
            ref.system.fail(error)


def turn_failed(ref: LocalRef, entry: Any, raised: BaseException) -> None:
    """Account for a turn that raised: refuse, or crash and let the parent's lane decide."""
    error = without_stashed(unwrap(raised))
    in_hand, entry = entry, as_sent(ref, entry)
    is_ask = entry.__class__ is Ask
    message = entry.message if is_ask or entry.__class__ is Control else entry
    if ref.doomed is not None:
        if entry is not None and not is_ask:
            ref.not_taken(message, "cut mid-turn")
        turn_killed(ref, entry, None if isinstance(error, Stashed) else error)
        return
    if isinstance(error, Stashed):
        put_aside(ref, entry if is_ask else message)
        return
    if isinstance(error, Reject):
        if is_ask:
            entry.fail(error)
        else:
            log.info("%s rejected %s: %s", ref.path, type(bare(message)).__qualname__, error)
        return
    if error is None:
        error = RuntimeError(f"{ref.path}: a handler that was not cancelled let Cancelled out")
        error.__cause__ = raised
    if isinstance(error, Exception) and put_again(ref, in_hand):
        crash(ref, error)
        return
    if is_ask:
        crashed = ActorCrashed(f"{ref.path} failed mid-turn: {text_of(error)}", target=ref.path)
        crashed.__cause__ = error
        entry.fail(crashed)
    elif entry is not None:
        ref.not_taken(message, "failed mid-turn")
    if isinstance(error, Exception):
        crash(ref, error)
    else:  # KeyboardInterrupt, SystemExit: past every supervisor, never a restart
        if ref.state == RUNNING:
            ref.state = FAILED
            ref.queued = True
        ref.system.fail(error)


def crash(ref: LocalRef, error: BaseException) -> None:
    """Take a failure to the lane of the parent; one that is ending takes it there at its end."""
    end_instance(ref)
    life = ref.need_life()
    if life.crash is None:
        life.crash = error
    if ref.state == RUNNING:
        ref.state = FAILED
        ref.queued = True  # also an idle one, failed from outside: mail waits for the next life
        ref.hold_up()
        ref.system.dispatcher.run_job(Job((ref, "supervise"), supervise, ref, error))
        return
    if ref.state == DRAINING:
        ref.close("failed while draining")
    else:
        log.error("%s failed while it was stopping", ref.path, exc_info=error)
