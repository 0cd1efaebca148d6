"""The actor that sweeps: one unit after the other, the next sweep behind each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ...errors import CorruptRecord
from ...mailbox import Dispatcher, News
from ...store import Store
from .._writer import Plan, SingleWriter
from ._rows import GROUP_TABLE, report_damage
from ._sweep import GROUPS, SCOPES, SweepRow, sweep

Fail: TypeAlias = Callable[[BaseException], None]


class Sweeper(SingleWriter[bytes]):
    """Sweeps what the journal of its host says is left to sweep; others may sweep it too."""

    __slots__ = ("_gone", "_name", "_scope_gone", "_stopped")

    def __init__(
        self,
        dispatcher: Dispatcher,
        store: Store,
        fail: Fail,
        scope_gone: Callable[[], None],
        name: str,
    ) -> None:
        super().__init__(dispatcher, store, fail)
        self._name = name
        self._scope_gone = scope_gone
        self._stopped = False
        self._gone: dict[bytes, News] = {}  # sweeps that somebody waits for

    @property
    def name(self) -> str:
        """Return what schedules call it."""
        return self._name

    def resume(self) -> None:
        """Go on with what an earlier life did not finish."""
        for tag in (GROUPS, SCOPES):
            rows = self._store.scan(GROUP_TABLE, tag, SweepRow, damaged=report_damage)
            for where, _ in rows:
                self.post(where)

    def look(self, where: bytes) -> bool:
        """Sweep, if there is a sweep; tell whether there is."""
        if self._store.get(GROUP_TABLE, where, SweepRow) is None:
            return False
        self.post(where)
        return True

    async def until_gone(self, where: bytes) -> None:
        """Wait for the end of a sweep, or of this host; the next one goes on with it."""
        gone = self._gone.setdefault(where, self.dispatcher.news(self))
        if self._stopped or self._store.get(GROUP_TABLE, where, SweepRow) is None:
            self._over(where)
        await gone.wait()

    def stop(self) -> None:
        """Begin no further unit, and let go of whoever waits."""
        self._stopped = True
        for where in list(self._gone):
            self._over(where)

    def plan(self, inbox: deque[bytes]) -> Plan | None:
        """Take the sweep that waited longest, for one unit."""
        if self._stopped:
            inbox.clear()
        if not inbox:
            return None
        where = inbox.popleft()
        return Plan(
            partial(sweep, where=where), partial(self._landed, where), partial(self._refused, where)
        )

    def _landed(self, where: bytes, done: bool) -> None:
        if not done:
            self._inbox.append(where)
            return
        if where.startswith(SCOPES):
            self._scope_gone()
        self._over(where)

    def _refused(self, where: bytes, error: Exception) -> None:
        if not isinstance(error, CorruptRecord):
            self._fail(error)
            return
        report_damage(error)  # it stays, for whoever restores the row; the others go on
        self._over(where)

    def _over(self, where: bytes) -> None:
        gone = self._gone.pop(where, None)
        if gone is not None:
            gone.set()
