"""The laws of signals can fail: each planted fault is caught by the law of its rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio.testing
from tests.conformance.planting import Catches, Faults, Patch

from trouper.actors.groups import (
    ChildRow,
    GroupActor,
    GroupRow,
    Signal,
    SignalRow,
    _live,
    _signal_wait,
    _signals,
)
from trouper.store import Tx, row_key

breaks = Faults()


@breaks("a_signal_child_takes_the_oldest_of_its_name")
def whatever_is_oldest_is_taken(patch: pytest.MonkeyPatch) -> None:
    def oldest(source: Any, address: str, name: str) -> SignalRow | None:
        rows = source.scan("record", row_key(b"Q", address), SignalRow)
        return min((row for _, row in rows), key=lambda row: row.at, default=None)

    patch.setattr(_signals, "oldest", oldest)
    patch.setattr(_signal_wait, "oldest", oldest)


@breaks("a_signal_outlives_the_life_it_came_in")
def a_sender_is_told_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    async def send_signal(self: Any, signal: Signal, require: Any) -> None:
        self.store.submit(
            lambda tx: _signals.send(tx, signal, require, 9),
            lambda verdict: self.signalled(signal.address, signal.name),
        )

    patch.setattr(_live.LiveGroups, "send_signal", send_signal)


@breaks("a_wait_ends_with_the_interest_in_its_group")
def a_wait_is_work_like_any_other(patch: pytest.MonkeyPatch) -> None:
    def apply_close(self: GroupActor, row: GroupRow) -> None:
        self._learn(row)
        if self.is_cancelled:
            for child in self.running.values():
                child.context.cancel()

    patch.setattr(GroupActor, "apply_close", apply_close)


@breaks("a_repeat_under_an_id_is_kept_once")
def an_id_is_forgotten_when_its_signal_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_signals, "_is_repeat", lambda tx, signal: False)


@breaks("a_signal_nobody_can_take_is_refused")
def whatever_comes_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_live, "require_open_scope", lambda tx, address, name: None)


@breaks("a_signal_child_takes_the_oldest_of_its_name")
def a_signal_is_left_when_it_is_taken(patch: pytest.MonkeyPatch) -> None:
    sound = _signals.SignalTake.settle

    def settle(
        self: _signals.SignalTake, tx: Tx, row: GroupRow, child: ChildRow
    ) -> ChildRow | None:
        found = _signals.oldest(tx, self.address, self.name)
        taken = sound(self, tx, row, child)
        if found is not None:
            tx.put("record", _signals.queue_key(found), replace(found))
        return taken

    patch.setattr(_signals.SignalTake, "settle", settle)


@pytest.mark.parametrize(("law", "plant"), breaks.cases)
async def test_a_planted_fault_is_caught(
    law: str,
    plant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
    catches: Catches,
) -> None:
    await catches(law, lambda: plant(monkeypatch), mock_clock)
