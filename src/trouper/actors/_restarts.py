"""Restarting actors as the strategy of their parent says.

A failure is a job, out of band of the parent's own turn. It ends old lives and begins new ones in
the order of a pure plan; under a shared strategy (`one_for_all`, `rest_for_one`) one such job at a
time works among the children of a parent, in the parent's lane. Every await in here is followed by
a test of state (derisk R7): a stop or a kill that overtakes a restart wins.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import trio

from ..errors import ActorCrashed, RestartLimitReached
from ..mailbox import FAILED, RUNNING, STARTING, STOPPING, Ask, send_away, suspend
from ..supervision import (
    Escalate,
    Exit,
    Forget,
    History,
    Restart,
    RestartAfter,
    decide,
    plan_restart,
    text_of,
    unwrap,
)
from ._belongings import end_instance, wait_pipes
from ._lifecycle import (
    build,
    close_failed_children,
    end_turn,
    run_started,
    run_stopping,
    shut,
    stop_children,
    stop_one,
)

if TYPE_CHECKING:
    from ._local import LocalRef

log = logging.getLogger("trouper.actors")


async def supervise(ref: LocalRef, error: BaseException) -> None:
    """Restart a failed actor, and whom its failure concerns, or stop it and fail its parent."""
    parent = ref.parent
    assert parent is not None
    if ref.state != FAILED:
        return  # stopped before this job had its turn
    if not parent.options.strategy.is_shared:
        lost = await _mend(parent, ref, error)
    else:
        home, lives = parent.need_life(), ref.incarnation
        if home.lane is None:
            home.lane = trio.Lock()
        _fail_trapped_asks((ref,))  # of a sibling's hook that holds the lane, above all
        async with home.lane:
            if ref.incarnation != lives:
                return  # restarted with a sibling meanwhile: its own failure is not counted
            lost = await _mend(parent, ref, error)
    if lost is None:
        if _is_ending(parent):
            close_failed_children(parent)
        return
    ref, error = lost
    if ref.state == FAILED:
        life = ref.need_life()
        life.crash, life.is_beyond_help = error, True
        await stop_one(ref, "stop", Exit("crashed", error))


async def _mend(
    parent: LocalRef, ref: LocalRef, error: BaseException
) -> tuple[LocalRef, BaseException] | None:
    """Restart until it holds. Return who is lost and the failure left to escalate, or None."""
    while ref.state == FAILED and not _is_ending(parent):
        verdict = _judge(parent, ref)
        if not isinstance(verdict, RestartAfter):
            if isinstance(verdict, Escalate) and verdict.is_limit:
                error = _limit(parent, ref, error)
            return ref, error
        log.warning("%s failed and restarts: %s", ref.path, text_of(error), exc_info=error)
        policies: dict[LocalRef, Restart] = {}
        # whoever restarts alone does not look through all its siblings
        for child in parent.children if parent.options.strategy.is_shared else (ref,):
            policies[child] = child.options.restart
        plan = plan_restart(parent.options.strategy, policies, ref)
        ready: set[LocalRef] = set()
        for child in plan.stop:
            if _is_ending(parent):
                return None  # who ends it stops the others, in the same order
            why = Exit("crashed" if child is ref else "shutdown", error)
            if await _end_life(child, why, plan.stop):
                ready.add(child)
        if verdict.delay:
            await _pause(ref, verdict.delay)
        for child in plan.start:
            if child not in ready or child.state != FAILED or _is_ending(parent):
                continue
            again = await _begin_life(child)
            if again is not None:
                ref, error = _first_failure(parent, child, again)
                break
        else:
            return None
    return None


def _first_failure(
    parent: LocalRef, ref: LocalRef, error: BaseException
) -> tuple[LocalRef, BaseException]:
    """Return which failure to mend next: this start, or one before it that waits for the lane.

    The start may have failed for want of that actor; so would each further one.
    """
    for child in parent.children if parent.options.strategy.is_shared else ():
        if child is ref:
            break
        crash = child.need_life().crash
        if child.state == FAILED and crash is not None:
            return child, crash
    return ref, error


def _is_ending(parent: LocalRef) -> bool:
    """Whether nothing is to live again under this parent: it stops, or the system has failed."""
    return parent.state >= STOPPING or parent.system.failure is not None


def _judge(parent: LocalRef, ref: LocalRef) -> RestartAfter | Escalate | Forget:
    strategy = parent.options.strategy
    home = (parent if strategy.is_shared else ref).need_life()
    verdict = decide(
        strategy,
        ref.options.restart,
        (home.brood or History()) if strategy.is_shared else home.history,
        failed=True,
        now=trio.current_time(),
        chance=ref.system.random.random(),
    )
    if isinstance(verdict, RestartAfter):
        if strategy.is_shared:
            home.brood = verdict.history
        else:
            home.history = verdict.history
    return verdict


def _limit(parent: LocalRef, ref: LocalRef, error: BaseException) -> RestartLimitReached:
    intensity = parent.options.strategy.intensity
    limit = RestartLimitReached(
        f"{ref.path} needed more than {intensity.limit} restarts in {intensity.period} s; "
        f"the last failure was {text_of(error)}",
        target=ref.path,
    )
    limit.__cause__ = error
    return limit


# --- one life ends, another begins ----------------------------------------------------------------


async def _end_life(ref: LocalRef, why: Exit, concerned: Iterable[LocalRef]) -> bool:
    """End this life of an actor and keep its mail. Return whether it is to begin a new one.

    An actor in its first start is left to whoever spawns it: a first start is never retried.
    """
    if ref.state == STARTING:
        return False
    if ref.state not in (RUNNING, FAILED) or ref.options.restart == "never":
        shut(ref, "stop")
        _fail_trapped_asks(concerned)
        await stop_one(ref, "stop", why)
        return False
    with _at_work(ref):
        if ref.state == RUNNING:
            limit = trio.current_time() + ref.options.shutdown
            is_listed = suspend(ref)
            ref.hold_up()
            end_instance(ref)
            _fail_trapped_asks(concerned)
            if is_listed:
                await ref.wait_pass_over()  # or it would stand on `ready` twice
            await end_turn(ref, limit)
        else:
            _fail_trapped_asks((ref,))
        await wait_pipes(ref)
        await stop_children(ref, "stop", Exit("shutdown", why.cause))
        if ref.state == FAILED:
            await run_stopping(ref, why)
    if ref.state != FAILED:
        await ref.wait_stopped()  # a stop overtook: the order is kept all the same
    return ref.state == FAILED


async def _begin_life(ref: LocalRef) -> BaseException | None:
    """Put a fresh instance behind the ref; the mail stays, in order. Return why it failed."""
    with _at_work(ref):
        ref.need_life().lives += 1
        try:
            build(ref, ref.make(*ref.args))
            cut = await run_started(ref)
        except Exception as exc:
            return (unwrap(exc) or exc) if ref.state == FAILED else None
        if ref.state == FAILED and cut is None:
            ref.need_life().crash = None
            ref.resume()
    return None


async def _pause(ref: LocalRef, delay: float) -> None:
    """Wait before a new life. A stop of the actor that failed ends the wait."""
    with _at_work(ref):
        if ref.state != FAILED:
            return
        with trio.CancelScope() as ref.scope:
            await trio.sleep(delay)
        ref.scope = None


@contextmanager
def _at_work(ref: LocalRef) -> Generator[None]:
    """Make a stop of this actor wait until the step in the block is over."""
    life = ref.need_life()
    life.restarting = done = trio.Event()
    try:
        yield
    finally:
        life.restarting = None
        done.set()


def _fail_trapped_asks(failed: Iterable[LocalRef]) -> None:
    """Fail the asks that wait for an actor whose restart waits for the asker's turn to end."""
    for ref in failed:
        if ref.state != FAILED:
            continue
        for entry in list(ref.queue or ()):
            asker = entry.asker if entry.__class__ is Ask else None
            if asker is not None and ref.restart_waits_for(asker):
                entry.fail(ActorCrashed(_trapped(ref, asker), target=ref.path))
        for key in list(ref.senders or ()):  # they wait for room only, and trap it all the same
            waiter: Any = key.asker if isinstance(key, Ask) else ref.dispatcher.mailbox_of(key)
            if waiter is not None and ref.restart_waits_for(waiter):
                send_away(ref, key, ActorCrashed(_trapped(ref, waiter), target=ref.path))


def _trapped(ref: LocalRef, asker: LocalRef) -> str:
    return f"{ref.path} is being restarted, which waits for {asker.path}"
