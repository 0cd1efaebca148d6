"""All activations of one system: starting, joining, resuming, cancelling."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import trio

from ..._ids import ActivationKey
from ...errors import (
    ActivationMismatch,
    DrainDeferred,
    GroupRetired,
    GroupShapeError,
    InvariantError,
    ScopeBusy,
    ShuttingDown,
    TrouperError,
    UnknownActivity,
)
from ...mailbox import Unborn
from ...store import decode
from ...supervision import TreeNode
from .._key import require_key, require_text
from ..groups import (
    ActivityRegistry,
    Disposition,
    EffectContext,
    EffectEnvelope,
    EffectHost,
    GroupRow,
    Outcome,
    Stuck,
    all_unfinished,
    being_swept,
    close_group,
    decode_outcome,
    group_key,
    report_damage,
    unfinished,
)
from ._actor import ActivationActor
from ._durable import Durable
from ._handle import ActivationHandle
from ._rows import MOST_STEPS, TABLE, ActivationRow, activation_key
from ._scope import forget, read_all, still_going
from ._turn import Begin, Cancel

HISTORY_LIMIT = 20_000
"""Steps that one activation may take, a group of n counted as n; a replay of so many costs about a
fifth of a second. It has room for one group of the largest size and as many steps again."""

log = logging.getLogger("trouper.activations")


class Activations:
    """The live activations of a system, and the way to those that are only in the journal."""

    def __init__(
        self,
        host: EffectHost,
        registry: ActivityRegistry,
        *,
        new_key: Callable[[], str],
        history_limit: int = HISTORY_LIMIT,
        keep_groups: bool = False,
    ) -> None:
        if history_limit > MOST_STEPS:
            raise ValueError(f"history_limit is {MOST_STEPS} at most, it is {history_limit}")
        self.host = host
        self._new_key = new_key
        self.registry = registry
        self.history_limit = history_limit
        self.keep_groups = keep_groups  # settled groups stay until their scope goes
        self.closing = False
        self.finished = 0  # writer: `left`
        self._live: dict[str, ActivationActor] = {}  # writer: `_bring_up`, `left`
        self._parked: dict[str, Exception] = {}  # writer: `parked`
        host.drain().on_cancelled = self._child_cancelled

    # -- for the system -------------------------------------------------------------------------

    def start(
        self, activity: Durable[..., Any], args: tuple[Any, ...], key: str | None
    ) -> ActivationHandle[Any]:
        """Start an activation, or join the one that has this key.

        Raises:
            ActivationMismatch: the key belongs to another activity, or to other arguments.
            ValueRefused: a key that is none, or an argument that the journal cannot carry.
            TypeError: the activity does not take these arguments.
            ShuttingDown: the system has closed.
        """
        key = self._new_key() if key is None else require_key(key, "an activation")
        name = ActivationKey(key)
        activity.require_call(args, {})
        self.require_open(key)
        arguments = activity.encode_call(args, {})
        if self.registry.find("activation", activity.name) is None:
            raise UnknownActivity(
                f"{activity.name!r} is a local durable function; list it in "
                "open_system(activities=[...]) so that a restart can find it",
                activity=activity.name,
            )
        found = self.join_or_create(name, activity.name, arguments, parent="")
        return ActivationHandle(self, name, found, activity.shapes.result)

    def status(self, key: str) -> str:
        """Return its state in one word; ``unknown`` when the journal does not hold it."""
        self.require_open(key)
        actor = self.in_memory(key)
        if actor is not None:
            return actor.phase
        row = self.host.store.get(TABLE, activation_key(key), ActivationRow)
        if row is None:
            return "unknown"
        if row.ended:
            return type(decode_outcome(row.outcome)).__name__.lower()
        return "stuck" if key in self._parked else "parked"

    def cancel(self, key: str) -> None:
        """Ask for the end; its own turn decides (ruling 2). Ended ones ignore it."""
        self.require_open(key)
        actor = self.in_memory(key)
        if actor is None:
            row = self.host.store.get(TABLE, activation_key(key), ActivationRow)
            if row is None or row.ended or self.closing:
                return
            actor = self._bring_up(row, fresh=False)
        actor.post(Cancel())

    async def forget(self, key: str) -> None:
        """Take an ended activation, and all that belongs to it, out of the journal.

        Raises:
            ScopeBusy: it, or something below it, has not ended; or its caller has not.
        """
        self.require_open(key)
        await self.host.sweep(await self.host.store.commit(lambda tx: forget(tx, key)))

    def recover(self) -> None:
        """Resume every unfinished root, then let the drain finish what nobody comes back for.

        Roots first: a resumed opener reopens its groups, so the drain acts only on groups that were
        closed durably (ruling 4). A row that cannot be read is reported and left alone: others are
        no worse for it. It reads what is unfinished: a row or two for each run, child and group,
        and none for what has ended.
        """
        store = self.host.store
        runs = all_unfinished(store, "run")
        rows = read_all(store, [run.key for run in runs], report_damage)
        for row in sorted(rows, key=lambda row: (row.created_at, row.key)):
            if row.ended or row.key in self._live:
                continue
            if not row.parent:
                self._bring_up(row, fresh=False)
            elif self._abandoned(row):
                self.cancel(row.key)
        for key in self.host.drain().keys():  # noqa: SIM118 - no mapping
            self._drain(key)
        for member in all_unfinished(store, "group"):
            owner = store.get(TABLE, activation_key(member.scope.rpartition("#")[0]), ActivationRow)
            if owner is not None and owner.ended and owner.scope == member.scope:
                self._end_orphan(member.key)

    def _abandoned(self, row: ActivationRow) -> bool:
        """Tell whether nobody comes back for an unfinished child.

        Its caller went past it, and only a journaled cancel does that: the crash came between the
        cancel and its delivery.
        """
        caller, _, place = row.key.rpartition("/")
        if caller != row.parent:
            return self.host.is_settled(caller, int(place))
        key = row.parent.rpartition("#")[0]
        parent = self.host.store.get(TABLE, activation_key(key), ActivationRow)
        return parent is None or parent.ended

    def begin_close(self) -> None:
        """Start nothing new, and let go of whoever waits for an end that may not come here."""
        self.closing = True
        for actor in list(self._live.values()):
            actor.dismiss()

    def close(self) -> None:
        """Take every activation out of memory; none is cancelled, all resume at the next open."""
        for actor in list(self._live.values()):
            actor.evict()

    def tree(self) -> TreeNode:
        """Return the live activations, each below the one that waits for it."""
        nodes: dict[str, list[ActivationActor]] = {}
        for actor in self._live.values():
            nodes.setdefault(actor.row.parent, []).append(actor)
        details = {"live": str(len(self._live)), "finished": str(self.finished)}
        return TreeNode(
            "activations", "service", "running", details, tuple(self._branch("", nodes))
        )

    def _branch(self, parent: str, nodes: dict[str, list[ActivationActor]]) -> Iterator[TreeNode]:
        for actor in nodes.get(parent, ()):
            waits = actor.waits_for
            # A child's key begins with its parent's scope; what follows tells it from its siblings.
            details = {"key": actor.key.removeprefix(parent)}
            yield TreeNode(
                actor.row.activity,
                "activation",
                actor.phase,
                details | ({"waits for": waits} if waits else {}),
                tuple(self._branch(actor.row.scope, nodes)),
            )

    def in_memory(self, key: str) -> ActivationActor | None:
        """Return the live activation of a key."""
        actor, host = self._live.get(key), self.host
        host.dispatcher.touch(actor or Unborn(host.called(f"activation {key}")))
        return actor

    def live(self) -> list[ActivationActor]:
        """Return the live activations, in the order in which they came up."""
        return list(self._live.values())

    # -- for activations and their children ------------------------------------------------------

    def join_or_create(
        self, key: str, activity: str, arguments: bytes, *, parent: str
    ) -> ActivationActor | Outcome:
        """Return the live activation of that key, or the outcome of the finished one."""
        actor = self.in_memory(key)
        row = (
            actor.row
            if actor is not None
            else self.host.store.get(TABLE, activation_key(key), ActivationRow)
        )
        if row is not None:
            self._require_same(row, key, activity, arguments)
            if actor is not None:
                return actor
            if row.ended:
                return decode_outcome(row.outcome)
        if self.closing:
            raise ShuttingDown(f"the system is closing; activation {key!r} was not started")
        if row is not None:
            return self._bring_up(row, fresh=False)
        if being_swept(self.host.store, f"{key}#0"):
            raise still_going(key)
        row = ActivationRow(
            key=key,
            run=0,
            parent=parent,
            activity=activity,
            arguments=arguments,
            created_at=self.host.now(),
            cancel_step=-1,
            outcome=b"",
        )
        return self._bring_up(row, fresh=True)

    def _bring_up(self, row: ActivationRow, *, fresh: bool) -> ActivationActor:
        actor = self._live[row.key] = ActivationActor(self, row, fresh=fresh)
        self._parked.pop(row.key, None)
        actor.post(Begin())
        return actor

    def left(self, actor: ActivationActor) -> None:
        """Forget an activation that is not live any more."""
        if self._live.get(actor.key) is actor:
            del self._live[actor.key]
        if actor.outcome is not None:
            self.finished += 1
            for member in unfinished(self.host.store, actor.row.scope):
                if member.kind == "group":
                    self._end_orphan(member.key)

    def parked(self, actor: ActivationActor, error: Exception) -> None:
        """Keep the reason why an activation cannot go on here; its journal is untouched."""
        self._parked[actor.key] = error
        log.warning("activation %s stays parked: %s", actor.key, error)

    def unwatch(self, group: str, watcher: Callable[[], None]) -> None:
        """Stop asking for the news of a group."""
        actor = self.host.in_memory(group)
        if actor is not None and watcher in actor.watchers:
            actor.watchers.remove(watcher)

    def finish_losers(self, group: GroupRow) -> None:
        """Hand a closed group to the drain when it has losers that nobody here runs."""
        actor = self.host.in_memory(group.key)
        if group.counter < group.children and not (actor is not None and actor.running):
            self._drain(group.key)

    def _end_orphan(self, key: str) -> None:
        """Close a group that its scope left open: with the scope ended, nobody comes back."""
        row = self.host.store.get("group", group_key(key), GroupRow)
        if row is not None and not row.closed:
            self.host.start(self._close_orphan, row, name=f"close of {key}")

    async def _close_orphan(self, row: GroupRow) -> None:
        asked = Disposition(row.effective)
        closed = await self.host.store.commit(
            lambda tx: close_group(tx, row.key, row.closes, asked, past=True)
        )
        if closed is not None:
            self.host.closed(closed)
            self.finish_losers(closed)

    def _drain(self, key: str) -> None:
        self.host.start(self._drain_one, key, name=f"drain of {key}")

    async def _drain_one(self, key: str) -> None:
        try:
            report = await self.host.drain().run(key)
        except (DrainDeferred, GroupRetired, GroupShapeError):
            return  # its children run here after all, or it is settled, retired or gone already
        if not report.is_complete:
            log.info("drain of %s left %d children", key, len(report.children))

    def _child_cancelled(self, envelope: EffectEnvelope) -> None:
        if envelope.kind == "activation":
            self.cancel(envelope.replay_key)

    def require_open(self, key: str) -> None:
        """Refuse work on what is no key, or once the store is closed."""
        require_text(key, "an activation")
        if not self.host.store.is_open:
            raise ShuttingDown(
                f"the system of activation {key!r} has closed; open its store again to go on",
                key=key,
            )

    def _require_same(self, row: ActivationRow, key: str, activity: str, arguments: bytes) -> None:
        if row.key != key or row.activity != activity:
            raise ActivationMismatch(
                f"key {key!r} belongs to {row.activity!r}, not to activity {activity!r}; use "
                "another key",
                key=key,
                field="activity",
            )
        if row.arguments != arguments:
            recorded, now = (
                decode(data, is_canonical=True)[0] for data in (row.arguments, arguments)
            )
            raise ActivationMismatch(
                f"key {key!r} belongs to {row.activity!r} with arguments {recorded!r:.80}, not "
                f"{now!r:.80}; use another key, or call it as it was called",
                key=key,
                field="arguments",
            )


class ActivationRunner:
    """Runs a child activation: start or join it by its replay key, and read its terminal."""

    __slots__ = ("_envelope", "_service")
    releasable = True

    def __init__(self, service: Activations, envelope: EffectEnvelope) -> None:
        self._service = service
        self._envelope = envelope

    async def run(self, ctx: EffectContext) -> Outcome:
        """Wait for the child's terminal; a journaled cancel goes to it, and its end decides."""
        envelope = self._envelope
        try:
            found = self._service.join_or_create(
                envelope.replay_key, envelope.name, envelope.arguments, parent=envelope.scope
            )
        except ScopeBusy as busy:
            raise Stuck(busy) from busy
        if not isinstance(found, ActivationActor):
            return found
        try:
            return await _end_of(found)
        except trio.Cancelled:
            if not ctx.cancelled:
                raise
        found.post(Cancel())
        with trio.CancelScope(shield=True):
            return await _end_of(found)
        raise InvariantError("a shielded wait ended without a result")


async def _end_of(found: ActivationActor) -> Outcome:
    try:
        return await found.wait()
    except ShuttingDown:
        raise Stuck(None) from None
    except TrouperError as error:
        # Nothing failed: the child cannot go on in this deployment, and nor can who waits for it.
        raise Stuck(error) from error
