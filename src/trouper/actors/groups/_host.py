"""The effect host: opens groups, runs their children in its own nursery, serves ranks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakSet

import trio

from ...errors import (
    GroupShapeError,
    MembershipDropped,
    StoreError,
    TrouperError,
)
from ...mailbox import Dispatcher
from ...store import Store, Tx
from .._key import require_text
from .._writer import SingleWriter
from ._actor import GroupActor, RunningChild
from ._attempts import Again, HostTasks, Over, report_failure
from ._carriers import Tasks
from ._children import Children
from ._claims import ClaimKeeper, Renewal
from ._cursor import Cursors
from ._drain import GroupDrain
from ._envelope import EffectEnvelope
from ._group import EffectGroup
from ._handle import GroupHandle, Settlement
from ._ledger import Opened
from ._ledger import close_group as close_unit
from ._ledger import open_group as open_unit
from ._live import LiveGroups
from ._outcome import Outcome
from ._policy import Disposition
from ._retire import retire_group, retire_scope
from ._retries import Retry
from ._rows import (
    CHILD_TABLE,
    GROUP_TABLE,
    ChildRow,
    GroupRow,
    children_prefix,
    group_key,
)
from ._rules import Lease, is_free
from ._runner import EffectContext, Runner, RunnerResolver, attempt, no_executor
from ._signals import SIGNALS_KEPT, SignalTake, take_oldest
from ._sweep import GROUPS, sweep_key
from ._timer import Clock, due_of
from ._waiting import DurableWaits

LEASE = 30.0


class EffectHost(LiveGroups):
    """One implementation for both embedded tiers; what it keeps is its store's business.

    Owned by whoever gave it the nursery; `close` ends every running child without a terminal
    (shutdown is not cancellation, ruling 14) and only then declares this incarnation dead.
    """

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        nursery: Tasks,
        clock: Clock,
        fail: Callable[[BaseException], None],
        *,
        lease: float = LEASE,
        signal_limit: int = SIGNALS_KEPT,
    ) -> None:
        super().__init__(store, dispatcher, clock, fail, signal_limit=signal_limit)
        self.waits = DurableWaits()
        self._tasks = HostTasks(nursery, fail)
        self._lease = lease
        self._resolver: RunnerResolver | None = None
        self._drain = GroupDrain(self)
        self._cursors = Cursors(self.group, self.forget_settled)
        self._others: WeakSet[SingleWriter[Any]] = WeakSet()  # writer: `close_behind`
        self._claims = ClaimKeeper(store, lease, self._children)
        self._runs = Children(self._tasks, self._claims, clock, self.resolve)
        nursery.start_soon(self._claims.run, name=f"claims of host {tuple(self.owner)}")

    def renews(self, other: Callable[[], Renewal | None]) -> None:
        """Renew claims of another kind beside those of children; see `ClaimKeeper.also`."""
        self._claims.also(other)

    def claim_until(self) -> float:
        """Return the end of a claim that is made now, and see to it that it is renewed."""
        self._claims.needed()
        return trio.current_time() + self._lease

    # -- wiring -------------------------------------------------------------------------------

    def register(self, resolver: RunnerResolver) -> None:
        """Register the one way from an envelope to a runner. A second one is refused."""
        if self._resolver is not None:
            raise TrouperError(
                "a runner resolver is registered on this host; compose your kinds into one before "
                "you register it"
            )
        self._resolver = resolver

    @property
    def supports_groups(self) -> bool:
        """Tell whether a runner resolver is registered; nothing else decides it."""
        return self._resolver is not None

    def resolve(self, envelope: EffectEnvelope) -> Runner | None:
        """Ask the resolver for a fresh, single-use runner; None is a routing fact."""
        return None if self._resolver is None else self._resolver(envelope)

    def lease(self, key: str) -> Lease:
        """Return the terms on which this host claims children of a group at this moment."""
        now = trio.current_time()
        actor = self._groups.get(key)
        given_up = frozenset(actor.given_up.items() if actor is not None else ())
        return Lease(self.owner, now, now + self._lease, self._roster.is_dead, given_up)

    # -- the contract -------------------------------------------------------------------------

    async def execute(self, envelope: EffectEnvelope) -> Outcome:
        """Run one ungrouped envelope here and now, attempt after attempt; nothing is journaled."""
        if envelope.membership is not None:
            raise MembershipDropped(
                f"envelope {envelope.replay_key!r} belongs to group "
                f"{envelope.membership.group!r}; open the group instead of executing its child",
                key=envelope.membership.group,
            )
        failures, due = 0, due_of(envelope, self.now())
        while True:
            runner = self.resolve(envelope)
            if runner is None:
                raise no_executor(envelope)
            context = EffectContext(envelope.replay_key, failures + 1, due, failures)
            outcome: Outcome | SignalTake | Retry | None = await attempt(runner, context)
            if isinstance(outcome, SignalTake):
                outcome = await self.store.commit(partial(take_oldest, take=outcome))
                if outcome is None:
                    continue  # another wait was faster
            if outcome is None:
                raise TrouperError(f"{envelope.replay_key!r} was interrupted")
            if not isinstance(outcome, Retry):
                return outcome
            failures += 1
            report_failure(context, outcome)
            await trio.sleep(outcome.after)

    async def open_group(self, group: EffectGroup, *, consumed: int = 0) -> GroupHandle:
        """Open or reopen a group; returns when it is durable, not when a child settles.

        Raises:
            EffectGroupsUnsupported: no resolver is registered.
            GroupShapeError: another shape than recorded, or a first open with a child that nothing
                here can run (then nothing is journaled, and the second try is the same refusal).
            ReplayMismatch: a child drifted.
            GroupRetired: the key was retired, or its scope was and is not gone yet.
        """
        if not self.supports_groups:
            raise self.unsupported("open")
        GroupHandle(group.key, len(group.children), consumed)
        runners = self.resolve_for_open(group)
        opened = await self.store.commit(self.opening(group, runners))
        self.adopt(opened, runners)
        return GroupHandle(group.key, len(group.children), consumed, opened.row.closes)

    async def next_settlement(self, handle: GroupHandle) -> Settlement:
        """Return the settlement of rank ``handle.consumed + 1``, waiting for it if need be.

        Only the return advances the handle: cancelling the wait leaves cursor and rank untouched.

        Raises:
            HandleClosed: the group was closed after this handle was made.
            GroupRetired: it is gone.
            CursorOutOfRange: every child has been consumed.
            HandleBusy: another task waits on this handle.
        """
        if not self.supports_groups:
            raise self.unsupported("next")
        return await self._cursors.next(handle)

    async def next_settlements(self, handle: GroupHandle) -> list[Settlement]:
        """Return every recorded settlement above the cursor at once, waiting for the first.

        A caller of a wide group then wakes once a flush and not once a child. Raises as
        `next_settlement`; the handle advances by what is returned.
        """
        if not self.supports_groups:
            raise self.unsupported("next")
        return await self._cursors.recorded(handle)

    async def close_group(self, handle: GroupHandle, disposition: Disposition) -> None:
        """End the caller's interest durably; idempotent, may only narrow.

        Returns once one cancel per unsettled child is durably issued, never after their teardown.

        Raises:
            GroupShapeError: the close would widen ``cancel`` to ``run_to_completion``.
        """
        if not self.supports_groups:
            raise self.unsupported("close")
        key, seen = handle.key, handle.closes
        row = await self.store.commit(lambda tx: close_unit(tx, key, seen, disposition))
        if row is not None:
            self.closed(row)

    async def retire(self, key: str) -> None:
        """Retire a group for good: its rows go, and a tombstone stays until its scope is retired.

        One atomic mark, then a bounded sweep beside other work; returns when nothing but the
        tombstone is left, or when the host closes: the next one goes on. Twice is fine.

        Raises:
            GroupShapeError: the journal does not hold the group.
            ScopeBusy: it is open or unsettled, or its activation may still read its ranks.
        """
        if not self.supports_groups:
            raise self.unsupported("retire")
        known = require_text(key, "a group")
        self.retired(await self.store.commit(lambda tx: retire_group(tx, known)))
        await self._sweeper.until_gone(sweep_key(GROUPS, key))

    async def retire_scope(self, scope: str) -> None:
        """Retire a scope: groups, tombstones and finished children, by one mark and one sweep.

        Until the sweep is over, opening any group of the scope is refused; then its keys are new.
        Returns when no row is left, or when the host closes: the next one goes on. The scope of an
        activation goes with `ActorSystem.forget`.

        Raises:
            ScopeBusy: anything in it is open, unsettled or live.
        """
        if not self.supports_groups:
            raise self.unsupported("retire")
        known = require_text(scope, "a scope")
        await self.store.commit(lambda tx: retire_scope(tx, known))
        await self.sweep(scope)

    def drain(self) -> GroupDrain:
        """Return the drain: it exists on an unwired host too, and reports every child there."""
        return self._drain

    # -- parts that compose into other writers' units --------------------------------------------

    def resolve_for_open(self, group: EffectGroup) -> dict[int, Runner]:
        """Find runners for what an open would dispatch.

        Raises:
            GroupShapeError: a first open meets a child that nothing here can run.
        """
        row = self.store.get(GROUP_TABLE, group_key(group.key), GroupRow)
        free = None if row is None else self._free(row)
        runners: dict[int, Runner] = {}
        for position, child in enumerate(group.children):
            if free is not None and position not in free:
                continue
            runner = self.resolve(child)
            if runner is not None:
                runners[position] = runner
            elif row is None:
                raise GroupShapeError(
                    f"child {position} ({child.replay_key!r}) of group {group.key!r}: nothing here "
                    f"runs {child.kind} {child.name!r}; register it, nothing was journaled",
                    key=group.key,
                    position=position,
                    replay_key=child.replay_key,
                    field="runner",
                )
        return runners

    def _free(self, row: GroupRow) -> frozenset[int]:
        if row.closed:
            return frozenset()
        lease = self.lease(row.key)
        children = self.store.scan(CHILD_TABLE, children_prefix(row.key), ChildRow)
        return frozenset(c.position for _, c in children if is_free(c, lease))

    def opening(self, group: EffectGroup, runners: Mapping[int, Runner]) -> Callable[[Tx], Opened]:
        """Return the unit of an open, to run alone or inside another writer's unit."""
        lease, now = self.lease(group.key), self.now()
        dues = [due_of(child, now) for child in group.children]
        positions = frozenset(runners)
        return lambda tx: open_unit(tx, group, lease, dues, now, positions)

    def adopt(self, opened: Opened, runners: Mapping[int, Runner]) -> GroupActor:
        """Take over an open that is durable, and start what it claimed."""
        key = opened.row.key
        actor = self._groups.get(key)
        if actor is None:
            actor = self._groups[key] = GroupActor(self, opened.row, opened.children)
        self.dispatcher.touch(actor)
        if actor.row != self.store.get(GROUP_TABLE, group_key(key), GroupRow):
            self.reread(actor)
        for position in opened.claimed:
            self._runs.run(actor, opened.children[position], runners[position])
        actor.apply_close(actor.row)  # a close may have become durable right behind the open
        if opened.claimed:
            self._roster.tell_peers(self, actor.key)
        return actor

    # -- children -------------------------------------------------------------------------------

    def _children(self) -> Iterator[tuple[str, RunningChild]]:
        for actor in self._groups.values():
            for child in actor.running.values():
                yield actor.key, child

    def attempt(
        self, runner: Runner, context: EffectContext, over: Over, again: Again | None = None
    ) -> None:
        """Run one attempt in this host's nursery; see `HostTasks.attempt`."""
        self._tasks.attempt(runner, context, over, again)

    def start(self, fn: Callable[..., Awaitable[None]], *args: object, name: str) -> None:
        """Start a task of this host; `close` waits for all of them."""
        self._tasks.start(fn, *args, name=name)

    @property
    def running(self) -> int:
        """Return how many tasks of this host run now."""
        return self._tasks.running

    def close_behind(self, writer: SingleWriter[Any]) -> None:
        """Let this host end only when this writer has recorded what attempts gave it."""
        self._others.add(writer)

    def _writers(self) -> Iterable[SingleWriter[Any]]:
        return (*self._groups.values(), *self._others)

    # -- end ------------------------------------------------------------------------------------

    async def close(self, grace: float) -> None:
        """Give running children ``grace`` seconds, then end them without a terminal.

        Returns when the last one has ended; only then are this incarnation's claims free.
        """
        self._drain.stop()
        self._sweeper.stop()
        with trio.CancelScope(shield=True):
            await self._tasks.close(grace)
            with suppress(StoreError):  # a store that is lost was reported to `fail` already
                while (
                    self.running or self._sweeper.pending or any(w.pending for w in self._writers())
                ):
                    await self.store.commit(lambda tx: None)  # each round lets one flush pass
        self._roster.leave(self)
