"""Start, stop, escalate.

A stop has a synchronous half, legal in every state (close the mailbox, drop what is queued, cut the
turn), and an asynchronous half that runs as a job on a worker (derisk R4). One job drives the stop
of an actor. Every await in here is followed by a test of state and incarnation (R7): meanwhile the
actor may have been stopped, or may live again.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import trio
from trio.lowlevel import current_task, enable_ki_protection, reschedule

from ..mailbox import CLOSED, DRAINING, FAILED, RUNNING, STARTING, STOPPED, Job
from ..supervision import Exit, ends_parent, unwrap
from ._belongings import end_instance, release, wait_pipes
from ._context import Context

if TYPE_CHECKING:
    from ._local import LocalRef

log = logging.getLogger("trouper.actors")

StopKind: TypeAlias = Literal["stop", "drain", "kill"]

EXITS: Final[dict[StopKind, Exit]] = {
    "stop": Exit("stopped"),
    "drain": Exit("drained"),
    "kill": Exit("killed"),
}


# Levels of the tree that one job stops.
JOB_DEPTH: Final = 32


# --- building -----------------------------------------------------------------------------------


def build(ref: LocalRef, target: Any) -> None:
    """Put a fresh instance behind a ref."""
    behaviour = target.__behaviour__
    ref.target = target
    ref.adopt(behaviour.table)
    if behaviour.wants_context and ref.context is None:
        ref.context = Context(ref)


@enable_ki_protection
async def run_started(ref: LocalRef) -> Exit | None:
    """Await the ``started`` hook, if there is one, in a scope that a stop can cancel.

    Return what it was stopped with meanwhile, or None: it is up.

    Raises:
        BaseException: What the hook raised, what a child's failure was, or what failed this actor
            before it lived, in its back-off.
    """
    is_up, is_cut = True, False
    if ref.target.__behaviour__.has_started:
        is_up = False
        with trio.CancelScope() as scope, _bound(ref):
            ref.scope = scope
            try:
                await ref.target.started(ref.context)
                is_up = True
            finally:
                ref.scope = None
        is_cut = scope.cancel_called
    doomed, ref.doomed = ref.doomed, None
    if not is_cut and doomed is None:
        return None
    life = ref.need_life()
    life.is_up = is_up
    if isinstance(doomed, BaseException):
        raise doomed
    return life.cut or Exit("stopped")


# --- stopping -----------------------------------------------------------------------------------


def request_stop(ref: LocalRef, kind: StopKind, why: Exit | None = None) -> None:
    """Ask for the end of an actor and return; the plain half of ``stop``, ``drain``, ``kill``."""
    state = ref.state
    if state == STOPPED:
        return
    ref.system.dispatcher.require_thread()
    if ref.options.significant:
        _note_own_end(ref)
    if (
        state == RUNNING
        and ref.worker is None
        and (ref.life is None or ref.life.is_alone)
        and not (kind == "drain" and ref.queue)
        and not ref.target.__behaviour__.has_stopping
    ):
        if ref.queue:
            ref.close("stopped")
        ref.queued = True
        ref.accepts = CLOSED
        finish(ref, why or EXITS[kind])  # nothing to wait for: no job
        return
    if state == STARTING:
        _end_start(ref, why or EXITS[kind])
        return
    shut(ref, kind)
    if _claim(ref, why or EXITS[kind]):
        ref.system.dispatcher.run_job(Job((ref, "stop"), _drive, ref, kind))


def shut(ref: LocalRef, kind: StopKind) -> None:
    """Do the synchronous half of a stop: no further message starts, whatever is queued."""
    end_instance(ref)
    if kind == "drain" and ref.state != FAILED:  # a failed one handles nothing more
        ref.refuse_more()
        return
    ref.close("killed" if kind == "kill" else "stopped")
    if kind == "kill":
        ref.doom("killed")
        if ref.life is not None and ref.life.stopping is not None:
            ref.life.stopping = (
                EXITS["kill"] if ref.life.stopping.cause is None else ref.life.stopping
            )


async def stop_one(ref: LocalRef, kind: StopKind, why: Exit, depth: int = 0) -> None:
    """Stop an actor and wait until it has; runs in a job, ``depth`` levels below its top."""
    if ref.state == STOPPED:
        return
    if ref.state == STARTING:
        _end_start(ref, why)
        await ref.wait_stopped()
        return
    shut(ref, kind)
    if not _claim(ref, why):
        await ref.wait_stopped()
    elif depth < JOB_DEPTH:
        await _drive(ref, kind, depth)
    else:  # a stack of its own, or a deep tree would exhaust this one
        ref.system.dispatcher.run_job(Job((ref, "stop"), _drive, ref, kind))
        await ref.wait_stopped()


def _end_start(ref: LocalRef, why: Exit) -> None:
    """End the start of an actor: who spawns it cleans up."""
    if ref.scope is not None:
        life = ref.need_life()
        life.cut = life.cut or why
        ref.scope.cancel()


def _claim(ref: LocalRef, why: Exit) -> bool:
    life = ref.need_life()
    if life.stopping is not None:
        return False
    life.stopping = why
    return True


async def _drive(ref: LocalRef, kind: StopKind, depth: int = 0) -> None:
    """Bring an actor to its end. There is one driver per actor: who claimed it."""
    life = ref.need_life()
    if life.restarting is not None:
        if ref.worker is None and ref.scope is not None:
            ref.scope.cancel()  # a back-off, or the `started` of a restart
        await life.restarting.wait()
    limit = trio.current_time() + ref.options.shutdown  # one deadline for drain and running turn
    if kind == "drain" and (ref.queue or ref.is_busy):
        with trio.move_on_at(limit):
            while ref.state == DRAINING and (ref.queue or ref.is_busy):
                await ref.wait_pass_over()
    ref.close("stopped")
    close_failed_children(ref)
    await end_turn(ref, limit)
    await wait_pipes(ref)
    assert life.stopping is not None
    await stop_children(ref, kind, Exit("shutdown", life.stopping.cause), depth + 1)
    crash, why = life.crash, life.stopping
    escalates = crash is not None and (life.is_beyond_help or ref.options.restart == "never")
    if crash is not None:
        why = Exit("crashed" if escalates else why.kind, crash)
    await run_stopping(ref, why)
    finish(ref, why)
    if crash is not None and ref.parent is not None:
        if escalates:
            escalate(ref.parent, crash)
        else:
            log.error("%s failed and was stopped before its restart", ref.path, exc_info=crash)


async def stop_children(ref: LocalRef, kind: StopKind, why: Exit, depth: int = 0) -> None:
    """Stop the children in reverse start order; ``depth`` is theirs, see `stop_one`."""
    life = ref.life
    while life is not None and life.children:
        # a copy: looking for the last of a dict whose end was deleted passes all the gaps each time
        for child in list(life.children.values())[::-1]:
            await stop_one(child, kind, why, depth)


def close_failed_children(parent: LocalRef) -> None:
    """Let nobody wait for those that do not live again: a turn their end waits for may do so."""
    for child in parent.children:
        if child.state == FAILED:
            child.close("failed while its parent was ending")


async def end_turn(ref: LocalRef, limit: float) -> None:
    """Let the running turn end; cut it at the limit. Only for an actor that is not RUNNING."""
    if ref.is_busy and ref.doomed is None:
        with trio.move_on_at(limit):
            await ref.wait_pass_over()
        if ref.is_busy and ref.doomed is None:
            ref.doom("its shutdown budget is spent")
    while ref.is_busy:
        # unbounded on purpose: trio cannot abandon a task, and nothing outlives the block
        with trio.move_on_after(max(ref.options.shutdown, 1.0)):
            await ref.wait_pass_over()
        if (worker := ref.worker) is not None:
            frames = traceback.StackSummary.extract(worker.task.iter_await_frames())
            log.warning(
                "%s was cut but still runs (a shielded scope, or a thread):\n%s",
                ref.path,
                "".join(frames.format()),
            )


async def run_stopping(ref: LocalRef, why: Exit) -> None:
    """Run the ``stopping`` hook of the present instance, once, shielded and within its budget."""
    target, ref.target = ref.target, None
    if target is None or not target.__behaviour__.has_stopping:
        return
    error: BaseException | None = None
    deadline = trio.current_time() + ref.options.shutdown
    with trio.CancelScope(shield=True, deadline=deadline) as hook, _bound(ref):
        try:
            await target.stopping(ref.context, why)
        except BaseException as exc:
            error = unwrap(exc) if hook.cancel_called else exc
    if error is not None:
        log.error("%s: the stopping hook failed", ref.path, exc_info=error)
        if not isinstance(error, Exception):
            ref.system.fail(error)
    elif hook.cancel_called:
        log.warning(
            "%s: the stopping hook took more than its %s s and was cut",
            ref.path,
            ref.options.shutdown,
        )


def finish(ref: LocalRef, why: Exit) -> None:
    """Take an actor that has ended out of the books and tell who waits."""
    ref.state = STOPPED
    ref.exit = why
    ref.target = ref.context = ref.queue = None
    if ref.dispatcher is not ref.system.dispatcher:
        ref.dispatcher.dismiss()
    parent = ref.parent
    if parent is not None and parent.life is not None:
        parent.life.children.pop(ref.label, None)
        parent.life.significant -= ref.options.significant
    life = ref.life
    if life is not None:
        for task in life.stop_waiters:
            reschedule(task)
        life.stop_waiters.clear()
        release(ref, why)
        if life.is_own_end and parent is not None:
            _heed(parent)


# --- supervision --------------------------------------------------------------------------------


def _note_own_end(ref: LocalRef) -> None:
    """Note that a significant actor ends by itself: nobody stops it yet, and its parent does not.

    What the body of the system stops, the system itself stops.
    """
    by = ref.dispatcher.running_mailbox() or ref.system.root
    life = ref.need_life()
    if life.stopping is None and ref.state != STARTING and by is not ref.parent:
        life.is_own_end = True


def _heed(parent: LocalRef) -> None:
    """End a parent whose significant children have ended, if that is its strategy."""
    left = parent.need_life().significant
    if not ends_parent(parent.options.strategy.auto_shutdown, left):
        return
    if parent.parent is None:
        parent.system.end()
        return
    life = parent.need_life()
    if life.stopping is None:
        life.is_own_end = parent.options.significant  # whoever brought it about
    request_stop(parent, "stop", Exit("shutdown"))


def escalate(parent: LocalRef, error: BaseException) -> None:
    """Fail a parent with what its child could not survive."""
    if parent.parent is None:
        parent.system.fail(error)
    elif parent.worker is not None:
        if parent.doomed is None:
            parent.doom(error)  # its turn fails with the child's exception, not with Cancelled
    elif parent.state == RUNNING:
        parent.turn_failed(None, error)
    elif parent.state in (STARTING, FAILED):
        if parent.doomed is None:
            parent.doomed = error  # its start fails with it, the first one or that of its next life
        if parent.scope is not None:
            parent.scope.cancel()
    else:
        log.error("%s: a child failed meanwhile", parent.path, exc_info=error)


@contextmanager
def _bound(ref: LocalRef) -> Generator[None]:
    """Charge waits in this block to the actor whose hook runs."""
    worker = ref.dispatcher.workers.get(current_task())
    job = worker.running if worker is not None else None
    if not isinstance(job, Job):
        with ref.dispatcher.hosting(ref):
            yield
        return
    before, job.box = job.box, ref
    try:
        yield
    finally:
        job.box = before
