"""The durable actors of one system: found by key, woken, put to sleep.

Loop-owned state. ``_known`` maps keys to refs as long as anybody holds them; the tree holds those
that are awake. An actor that is asleep costs its ref, and nothing once nobody holds that.
"""

from __future__ import annotations

import logging
import math
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

import trio
from trio.lowlevel import checkpoint

from ...errors import (
    ActorCrashed,
    ActorMismatch,
    ActorStopped,
    ShuttingDown,
    StartFailed,
    TrouperError,
)
from ...mailbox import STARTING, STOPPED, STOPPING, Ask, Job
from ...store import Places, Store, read_head
from ...supervision import Exit, unwrap
from .._key import require_key
from .._life import SpawnOptions
from .._lifecycle import build, finish
from ._actor import DurableActor
from ._courier import Courier
from ._desk import Desk
from ._recovery import check_owner
from ._ref import DurableRef, Waking

if TYPE_CHECKING:
    from .._messages import N
    from .._ref import Ref
    from .._runtime import Runtime

log = logging.getLogger("trouper.actors")


class Home:
    """Finds, wakes and passivates the durable actors of one system."""

    def __init__(self, system: Runtime, store: Store) -> None:
        self.system = system
        self.store = store
        self.places = Places(store.next_owner())
        self.courier = Courier(system.dispatcher, store)
        self._ref_type = system.durable_ref_type
        strategy, shutdown = system.options.strategy, system.options.shutdown
        self.options = SpawnOptions("transient", strategy, shutdown, 0)
        self._known: WeakValueDictionary[str, DurableRef] = WeakValueDictionary()
        self._heap: list[tuple[float, int, Desk]] = []
        self._serial = count()
        self._scope: trio.CancelScope | None = None
        self._nap = trio.CancelScope()

    async def actor(self, cls: type[DurableActor[Any, N]], key: str) -> Ref[N]:
        """Return the actor of that key, recovered. See `ActorSystem.actor`."""
        rules = getattr(cls, "__rules__", None)
        if not isinstance(cast(Any, cls), type):
            kind = type(cls).__qualname__
            raise TypeError(f"system.actor takes the class, actor({kind}, key), not {cls!r}")
        if rules is None:
            raise TypeError(
                f"system.actor takes a DurableActor class with rules, not {cls!r}; other actors "
                "are spawned"
            )
        require_key(key, "a durable actor")
        while True:
            ref = self._known.get(key)
            if ref is not None and ref.is_ending:
                await ref.wait_stopped()
                continue
            if ref is None or ref.state == STOPPED:
                head = read_head(self.store, key)
                if head is not None:
                    check_owner(head, rules)
                ref = self._known[key] = self._ref_type(self, cls, key)
            if ref.home_class is not cls:
                raise ActorMismatch(
                    f"{key!r} is a {ref.home_class.__qualname__} in this system, not a "
                    f"{cls.__qualname__}; use another key",
                    key=key,
                )
            if ref.is_asleep:
                if self._is_closing:
                    raise ShuttingDown(f"{self.system.name} is closing; nothing new starts in it")
                self.wake(ref)
            waking = ref.waking
            if waking is None:
                await checkpoint()
                return ref
            await waking.done.wait()
            error = waking.error
            if error is None:
                return ref
            if not isinstance(error, ActorStopped):  # else somebody stopped it: the key is free
                raise _start_failed(ref, error) from error

    def desk_of(self, key: str) -> Desk:
        """Return a desk for a new life of the actor of that key."""
        ref = self._known[key]
        rules = ref.home_class.__rules__
        assert rules is not None
        return Desk(ref, rules)

    # --- awake ------------------------------------------------------------------------------------

    def wake(self, ref: DurableRef) -> None:
        """Begin to bring an actor that is asleep into memory; its mail waits for that."""
        if self._is_closing:
            ref.end(Exit("shutdown"))
            return
        self.system.root.need_life().children[ref.label] = ref
        self._begin(ref)

    def recover(self, ref: DurableRef, error: BaseException) -> None:
        """Begin a new life of a running actor whose unit was not written; its mail waits."""
        log.warning("%s could not write and recovers: %s", ref.path, error)
        ref.target = None
        ref.need_life().lives += 1
        self._begin(ref)

    def _begin(self, ref: DurableRef) -> None:
        ref.waking = Waking()
        ref.scope = trio.CancelScope()  # here, not in the job: a stop may come before that runs
        ref.state = STARTING
        ref.hold_up()
        self.system.dispatcher.run_job(Job((ref, "wake"), self._wake, ref, ref.waking))

    async def _wake(self, ref: DurableRef, waking: Waking) -> None:
        scope = ref.scope
        assert scope is not None
        try:
            with scope:
                build(ref, ref.make(*ref.args))
                await ref.target.started(None)
            doomed, ref.doomed = ref.doomed, None
            if isinstance(doomed, BaseException):
                raise doomed  # by a link that broke meanwhile
            if scope.cancel_called:
                raise ActorStopped(f"{ref.path} was stopped while it recovered", target=ref.path)
        except BaseException as exc:
            waking.error = unwrap(exc) or exc
            self._not_recovered(ref, waking.error)
            if not isinstance(exc, Exception):
                self.system.fail(exc)
        else:
            ref.resume()
        finally:
            ref.scope = None
            ref.waking = None
            waking.done.set()
        if waking.drains:
            ref.drain()

    def _not_recovered(self, ref: DurableRef, error: BaseException) -> None:
        """End an actor that could not be read; the others go on."""
        why = Exit("stopped")
        if not isinstance(error, ActorStopped):
            why = Exit("crashed", error)
            log.error("%s could not be recovered", ref.path, exc_info=error)
            for entry in list(ref.queue or ()):
                if entry.__class__ is Ask:
                    failure = ActorCrashed(f"{ref.path} did not recover: {error}", target=ref.path)
                    failure.__cause__ = error
                    entry.fail(failure)
        ref.close("did not recover" if why.cause else "stopped")
        ref.target = None
        finish(ref, why)

    # --- asleep -----------------------------------------------------------------------------------

    def idle(self, desk: Desk) -> None:
        """Watch the time since which a desk has nothing to do."""
        after = desk.limits.passivate_after
        if after is None or self._is_closing:
            return
        desk.is_timed = True
        heappush(self._heap, (desk.since + after, next(self._serial), desk))
        if self._scope is None:
            self._scope = trio.CancelScope(shield=True)
            self.system.dispatcher.nursery.start_soon(
                self._watch, self._scope, name="trouper durable actors"
            )
        elif self._heap[0][2] is desk:
            self._nap.deadline = desk.since + after

    async def _watch(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                self._passivate(trio.current_time())
                due = self._heap[0][0] if self._heap else math.inf
                with trio.CancelScope(deadline=due) as self._nap:
                    await trio.sleep_forever()

    def _passivate(self, now: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, desk = heappop(heap)
            after = desk.limits.passivate_after or 0.0
            if desk.ref.target is not desk:
                continue  # another life has begun, or none
            if desk.is_busy:
                desk.is_timed = False  # it says when it is idle again
                continue
            due = desk.since + after
            if due > now:
                heappush(heap, (due, next(self._serial), desk))
                continue
            self._put_to_sleep(desk.ref)

    def _put_to_sleep(self, ref: DurableRef) -> None:
        ref.target = None
        assert ref.parent is not None
        ref.parent.need_life().children.pop(ref.label, None)

    # --- closing ----------------------------------------------------------------------------------

    @property
    def _is_closing(self) -> bool:
        system = self.system
        return system.closing or system.root.state >= STOPPING

    async def see_awake(self) -> None:
        """Wait for those that are waking: their mail came before the end of the block."""
        with trio.move_on_after(self.options.shutdown):
            for ref in list(self._known.values()):
                if ref.waking is not None:
                    await ref.waking.done.wait()

    def close(self) -> None:
        """End those that are asleep: nobody wakes them any more. The others have stopped."""
        for ref in list(self._known.values()):
            if ref.state != STOPPED and ref.is_asleep:
                ref.end(Exit("shutdown"))
        if self._scope is not None:
            self._scope.cancel()


def _start_failed(ref: DurableRef, error: BaseException) -> TrouperError:
    if isinstance(error, ActorMismatch):
        return error.again()
    return StartFailed(f"{ref.path} did not recover: {error}", target=ref.path)
