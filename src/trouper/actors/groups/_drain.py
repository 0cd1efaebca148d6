"""The drain: finishes groups where nobody can come back (ruling 4).

It acts on groups that were closed durably, or that somebody names. It applies the declared or
narrowed disposition and invents nothing: under ``cancel`` it claims each unsettled child and
journals it cancelled without running it, under ``run_to_completion`` it runs it. It claims before
it cancels, so that a late owner meets the fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ...errors import CorruptGroup, CorruptRecord, DrainDeferred, GroupRetired, GroupShapeError
from .._key import require_text
from ._envelope import EffectEnvelope
from ._ledger import cancel_unsettled, claim_unsettled, held
from ._outcome import Cancelled, encode_outcome
from ._policy import Disposition
from ._rows import (
    CHILD_TABLE,
    GROUP_TABLE,
    ChildRow,
    GroupRow,
    children_prefix,
    group_key,
    report_damage,
)
from ._rules import is_free
from ._scopes import all_unfinished

if TYPE_CHECKING:
    from ._host import EffectHost
    from ._runner import Runner


class ChildState(StrEnum):
    """What a drain pass found or made of one child."""

    SETTLED = "settled"
    CONTESTED = "contested"
    LEASE_LIVE = "lease_live"
    CANCELLED = "cancelled"
    NO_EXECUTOR = "no_executor"
    INTERRUPTED = "interrupted"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class ChildReport:
    """One child after a pass. ``expires`` is the end of a live foreign lease (trio time)."""

    position: int
    replay_key: str
    state: ChildState
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What is left of a group after a pass: only children that are not settled are listed."""

    key: str
    children: tuple[ChildReport, ...]
    settled: int

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is left."""
        return not self.children


class GroupDrain:
    """Finishes the groups of one host's store, one pass at a time."""

    def __init__(self, host: EffectHost) -> None:
        self._host = host
        self._stopped = False
        self.on_cancelled: Callable[[EffectEnvelope], None] = lambda envelope: None

    def keys(self) -> list[str]:
        """Return the keys of groups that qualify: closed durably, with unsettled children.

        Costs a row for each unfinished group, and nothing for those that are finished.
        """
        found: list[str] = []
        store = self._host.store
        for member in all_unfinished(store, "group"):
            try:
                row = store.get(GROUP_TABLE, group_key(member.key), GroupRow)
            except CorruptRecord as damage:
                report_damage(damage)
                continue
            if row is not None and row.closed:
                found.append(row.key)
        return sorted(found)

    def stop(self) -> None:
        """Start no further pass."""
        self._stopped = True

    async def run(self, key: str) -> DrainReport:
        """Make one pass over a group.

        Raises:
            GroupShapeError: the journal does not hold the group.
            DrainDeferred: this host still works on it; retry later.
        """
        host = self._host
        row = host.store.get(GROUP_TABLE, group_key(require_text(key, "a group")), GroupRow)
        if row is None:
            raise GroupShapeError(f"group {key!r} is not in the journal", key=key)
        if row.retired:
            return DrainReport(key, (), row.children)
        working = self._working(key)
        if working:
            raise DrainDeferred(
                f"this host still works on children {working} of group {key!r}; retry later",
                key=key,
            )
        if not host.supports_groups:
            return self._report(key, {}, ChildState.NO_EXECUTOR)
        if self._stopped:
            return self._report(key, {}, ChildState.INTERRUPTED)
        try:
            if row.effective == Disposition.CANCEL:
                return await self._cancel(key)
            return await self._run(key)
        except GroupRetired:
            return DrainReport(key, (), row.children)
        except CorruptGroup:
            return self._report(key, {}, ChildState.INTERRUPTED)

    def _working(self, key: str) -> list[int]:
        actor = self._host.in_memory(key)
        lease = self._host.lease(key)
        return [
            child.position
            for child in self._children(key)
            if (actor is not None and child.position in actor.running)
            or (child.owner == lease.owner and not child.settled and not is_free(child, lease))
        ]

    def _children(self, key: str) -> list[ChildRow]:
        return [c for _, c in self._host.store.scan(CHILD_TABLE, children_prefix(key), ChildRow)]

    async def _cancel(self, key: str) -> DrainReport:
        host = self._host
        lease, now, outcome = host.lease(key), host.now(), encode_outcome(Cancelled())
        opened, _ = await host.store.commit(
            lambda tx: cancel_unsettled(tx, key, lease, outcome, now)
        )
        for position in opened.claimed:
            self.on_cancelled(EffectEnvelope.decoded(opened.children[position].envelope))
        host.changed_by_drain(key)
        return self._report(key, {}, ChildState.LEASE_LIVE)

    async def _run(self, key: str) -> DrainReport:
        host = self._host
        runners: dict[int, Runner] = {}
        for child in self._children(key):
            runner = None if child.settled else host.resolve(EffectEnvelope.decoded(child.envelope))
            if runner is not None:
                runners[child.position] = runner
        lease, runnable = host.lease(key), frozenset(runners)
        opened = await host.store.commit(lambda tx: claim_unsettled(tx, key, lease, runnable))
        actor = host.adopt(opened, runners)
        for position in opened.claimed:
            while position in actor.running:
                await actor.changed()
        left: dict[int, ChildState] = {}
        for child in self._children(key):
            if child.position not in runners:
                left[child.position] = ChildState.NO_EXECUTOR
            elif child.position in opened.claimed:
                ours = held(child) == held(opened.children[child.position])
                left[child.position] = ChildState.INTERRUPTED if ours else ChildState.CONTESTED
        return self._report(key, left, ChildState.LEASE_LIVE)

    def _report(
        self, key: str, states: dict[int, ChildState], otherwise: ChildState
    ) -> DrainReport:
        row = self._host.store.get(GROUP_TABLE, group_key(key), GroupRow)
        if row is not None and row.retired:  # with the last terminal of this pass
            return DrainReport(key, (), row.children)
        children = self._children(key)
        left: list[ChildReport] = []
        for child in children:
            state = states.get(child.position, otherwise)
            if child.settled != bool(child.outcome):
                state = ChildState.CORRUPT
            elif child.settled:
                continue
            expires = child.expires if state is ChildState.LEASE_LIVE else None
            left.append(ChildReport(child.position, child.replay_key, state, expires))
        return DrainReport(key, tuple(left), len(children) - len(left))
