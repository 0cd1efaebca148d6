"""The group's actor: ranks at settlement, and serves ranks to whoever asks, however late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import CorruptGroup, FenceMoved, HandleClosed
from .._writer import Plan, SingleWriter
from ._handle import GroupHandle, Settlement
from ._ledger import Arrival, End, finalise_all
from ._moves import Lapse, Move, Start, move_all
from ._outcome import decode_outcome
from ._policy import Disposition
from ._retire import retired
from ._rows import ChildRow, GroupRow
from ._rules import Claim, in_rank_order
from ._runner import EffectContext
from ._signals import SignalTake

if TYPE_CHECKING:
    from ._live import LiveGroups


class RunningChild:
    """A child that runs or waits here: its claim, and the context that a cancel goes to.

    The context is that of its attempt, or of the wait before the next one. ``is_wait`` says that it
    waits for a signal: then it ends with the interest in its group.
    """

    __slots__ = ("context", "held", "is_wait", "position")

    def __init__(
        self, position: int, held: Claim, context: EffectContext, *, is_wait: bool = False
    ) -> None:
        self.position = position
        self.held = held
        self.context = context
        self.is_wait = is_wait


class GroupActor(SingleWriter[Arrival | Move]):
    """One group in memory: a view of its rows, its running children, and who waits for ranks.

    The rows are the truth: after any doubt (a moved fence, a peer's news) the view is read again.
    """

    __slots__ = (
        "_damage",
        "_host",
        "_news",
        "_ranks",
        "given_up",
        "row",
        "running",
        "stuck",
        "unsettled",
        "watchers",
    )

    def __init__(self, host: LiveGroups, row: GroupRow, children: Sequence[ChildRow]) -> None:
        super().__init__(host.dispatcher, host.store, host.fail)
        self._host = host
        self._news = self.dispatcher.news(self)  # set and replaced at each change of the view
        self.running: dict[int, RunningChild] = {}  # writer: the host's dispatch and `ended`
        self.given_up: dict[int, int] = {}  # position -> token of an attempt that is over
        self.stuck: Exception | None = None  # why a child cannot come to its end here
        self.watchers: list[Callable[[], None]] = []  # writer: whoever watches, removes itself
        self._damage: CorruptGroup | None
        self._ranks: list[ChildRow]  # writer: `view` and `_ranked`
        self.view(row, children)

    @property
    def key(self) -> str:
        """Return the group's key."""
        return self.row.key

    @property
    def name(self) -> str:
        """Return what schedules call it. Each host has one of its own for a group."""
        return self._host.called(f"group {self.key}")

    def view(self, row: GroupRow, children: Sequence[ChildRow]) -> None:
        """Take over what the journal holds."""
        self.row = row
        self._damage, self._ranks = None, []
        try:
            self._ranks = in_rank_order(row, children)
        except CorruptGroup as damage:
            self._damage = damage  # met by whoever reads ranks; siblings go on
        self.unsettled = {child.position: child for child in children if not child.settled}

    def catch_up(self, row: GroupRow, ranks: Sequence[ChildRow]) -> None:
        """Take over ranks above those that are known; none of those below ever changes."""
        self.row = row
        self._ranks.extend(ranks)
        for child in ranks:
            self.unsettled.pop(child.position, None)

    def damaged(self, damage: CorruptGroup) -> None:
        """Take note that ranks and terminals do not match."""
        self._damage = damage

    def retire(self) -> None:
        """Take note that the group is gone: what still runs here counts no more."""
        self.row = replace(self.row, retired=True)
        for child in self.running.values():
            self.dispatcher.touch(child.context)
            child.context.interrupt()

    @property
    def last_sequence(self) -> int:
        """Return the highest sequence that is known."""
        return self._ranks[-1].sequence if self._ranks else 0

    @property
    def settled(self) -> Sequence[ChildRow]:
        """Return the settled children by rank.

        Raises:
            CorruptGroup: ranks and terminals do not match.
        """
        if self._damage is not None:
            raise self._damage.again()
        return self._ranks

    def settlement(self, rank: int) -> Settlement:
        """Decode the settlement of a rank that is recorded; ranks count from 1."""
        child = self.settled[rank - 1]
        return Settlement(
            rank=rank,
            sequence=child.sequence,
            position=child.position,
            replay_key=child.replay_key,
            outcome=decode_outcome(child.outcome),
            at=child.settled_at,
        )

    def require_open(self, handle: GroupHandle) -> None:
        """Refuse a handle that is older than the last close (ruling 5), or whose group is gone."""
        if self.row.retired:
            raise retired(self.key)
        if handle.closes < self.row.closes:
            raise HandleClosed(
                f"group {handle.key!r} was closed after this handle was made; reopen it with "
                f"open_group(group, consumed={handle.consumed})",
                key=handle.key,
                consumed=handle.consumed,
            )

    async def changed(self) -> None:
        """Wait for the next change of the view."""
        await self._news.wait()

    def announce(self) -> None:
        """Tell whoever waits that the view changed."""
        self._news.set()
        self._news = self.dispatcher.news(self)
        for watcher in list(self.watchers):
            watcher()

    # -- the end of a child -------------------------------------------------------------------

    def arrived(self, child: RunningChild, outcome: bytes) -> None:
        """Take a child's end. It is ranked once every task of this tick has had its turn, so that
        within one tick position decides, and across ticks arrival does (ruling 1)."""
        arrival = Arrival(self.dispatcher.tick, child.position, child.held, outcome)
        self._inbox.append(arrival)
        self.dispatcher.enlist_next_tick(self)

    def signalled(self, child: RunningChild, take: SignalTake, again: Callable[[], None]) -> None:
        """Take the news that a signal is there that a child waits for; it is ranked as any end."""
        arrival = Arrival(self.dispatcher.tick, child.position, child.held, b"", take, again)
        self._inbox.append(arrival)
        self.dispatcher.enlist_next_tick(self)

    def lapsed(self, child: RunningChild, due: float, then: Callable[[ChildRow], None]) -> None:
        """Take an attempt's failure that is not the last; ``then`` follows once it is durable."""
        self._inbox.append(Lapse(self.dispatcher.tick, child, due, then))
        self.dispatcher.enlist_next_tick(self)

    def due(self, child: RunningChild, then: Callable[[ChildRow], None]) -> None:
        """Take the news that a child's next attempt is due; ``then`` runs it, if it is ours yet."""
        self._inbox.append(Start(self.dispatcher.tick, child, then))
        self.dispatcher.enlist_next_tick(self)

    def gave_up(self, child: RunningChild) -> None:
        """Take the news that a child's attempt ended without a terminal."""
        if self.running.get(child.position) is child:
            del self.running[child.position]
        self.given_up[child.position] = child.held.token
        if child.context.stuck is not None:
            self.stuck = child.context.stuck
        self.announce()

    def plan(self, inbox: deque[Arrival | Move]) -> Plan | None:
        """Rank what arrived in the ticks that are over."""
        tick = self.dispatcher.tick
        arrivals: list[Arrival] = []
        moves: list[Move] = []
        while inbox and inbox[0].tick < tick:
            command = inbox.popleft()
            if isinstance(command, Lapse | Start):
                moves.append(command)
            else:
                arrivals.append(command)
        if inbox:
            self.dispatcher.enlist_next_tick(self)
        if not arrivals and not moves:
            return None
        arrivals.sort(key=lambda arrival: (arrival.tick, arrival.position))
        key, now = self.key, self._host.now()
        return Plan(
            lambda tx: (finalise_all(tx, key, arrivals, now), move_all(tx, key, moves)),
            lambda result: self._landed(arrivals, moves, *result),
        )

    def _landed(
        self,
        arrivals: Sequence[Arrival],
        moves: Sequence[Move],
        ranked: tuple[GroupRow | None, Sequence[End]],
        moved: Sequence[ChildRow | FenceMoved],
    ) -> None:
        doubtful = self._ranked(arrivals, *ranked)
        for move, row in zip(moves, moved, strict=True):
            if not isinstance(row, FenceMoved):
                move.then(row)
                continue
            if self.running.get(move.child.position) is move.child:
                del self.running[move.child.position]
            self._host.fences_moved += 1
            doubtful = True
        if doubtful:
            self._host.reread(self)
        self.announce()
        self._host.group_changed(self)

    def _ranked(self, batch: Sequence[Arrival], row: GroupRow | None, ends: Sequence[End]) -> bool:
        doubtful = False
        for arrival, end in zip(batch, ends, strict=True):
            if end is None:
                assert arrival.again is not None
                arrival.again()
                continue
            running = self.running.get(arrival.position)
            if running is not None and running.held == arrival.held:
                del self.running[arrival.position]
            if isinstance(end, FenceMoved):
                self._host.fences_moved += 1
                doubtful = True
            elif self._damage is None and end.sequence == self.last_sequence + 1:
                self._ranks.append(end)
                self._host.settled += 1
                self.unsettled.pop(end.position, None)
            else:
                doubtful = True
        if row is not None:
            self._learn(row)
        return doubtful

    def _learn(self, row: GroupRow) -> None:
        # Verdicts of one batch reach the loop in any order; an older row must not hide a close.
        if row.progress > self.row.progress:
            self.row = row

    # -- cancelling ---------------------------------------------------------------------------

    @property
    def is_cancelled(self) -> bool:
        """Tell whether a cancel of its children was issued durably."""
        return self.row.closed and self.row.effective == Disposition.CANCEL

    def apply_close(self, row: GroupRow) -> None:
        """Act on a close that is durable: one idempotent cancel per child that is to end with it.

        That is each one under ``cancel``, and whoever waits for a signal under any word.
        """
        self._learn(row)
        if self.row.closed:
            for position in sorted(self.running):
                child = self.running[position]
                if child.is_wait or self.is_cancelled:
                    self.dispatcher.touch(child.context)
                    child.context.cancel()
