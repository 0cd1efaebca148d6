"""The laws of retirement can fail: each planted fault is caught by the law of its rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio.testing
from tests.conformance.planting import Catches, Faults, Patch

from trouper.actors.groups import (
    Disposition,
    GroupActor,
    GroupHandle,
    GroupRow,
    _actor,
    _host,
    _ledger,
    _live,
    _retire,
    _sweep,
    _sweeper,
)
from trouper.actors.groups._cursor import Cursors
from trouper.actors.groups._rows import CHILD_TABLE, GROUP_TABLE, children_prefix, group_key
from trouper.errors import GroupShapeError
from trouper.store import Tx

breaks = Faults()


@breaks("a_retired_key_is_never_opened_again")
def a_retirement_leaves_no_tombstone(patch: pytest.MonkeyPatch) -> None:
    sound = _retire.retire_group

    def retire_group(tx: Tx, key: str) -> GroupRow:
        row = sound(tx, key)
        tx.delete(GROUP_TABLE, group_key(key))
        return row

    patch.setattr(_host, "retire_group", retire_group)


@breaks("closing_again_is_fine")
def a_close_deletes(patch: pytest.MonkeyPatch) -> None:
    sound = _ledger.close_group

    def close_group(tx: Tx, key: str, seen: int, asked: Disposition) -> GroupRow | None:
        row = sound(tx, key, seen, asked)
        for place in tx.keys(CHILD_TABLE, children_prefix(key)):
            tx.delete(CHILD_TABLE, place)
        tx.delete(GROUP_TABLE, group_key(key))
        return row

    patch.setattr(_host, "close_unit", close_group)


@breaks("retiring_waits_for_the_close_and_for_every_terminal")
@breaks("a_settled_group_that_is_open_is_in_use")
def a_group_retires_whenever_it_is_told_to(patch: pytest.MonkeyPatch) -> None:
    def retire_group(tx: Tx, key: str) -> GroupRow:
        row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
        assert row is not None
        return _retire._mark(tx, row)

    patch.setattr(_host, "retire_group", retire_group)


@breaks("retiring_waits_for_the_close_and_for_every_terminal")
@breaks("a_settled_group_that_is_open_is_in_use")
def a_scope_retires_whenever_it_is_told_to(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_retire, "require_finished", lambda tx, scope: None)


@breaks("a_retired_scope_leaves_no_row")
@breaks("the_keys_of_a_retired_scope_are_new")
def the_ranks_of_a_group_are_left(patch: pytest.MonkeyPatch) -> None:
    sound = _sweep.group_remains
    for module in (_sweep, _retire):
        patch.setattr(module, "group_remains", lambda key: sound(key)[1:])


@breaks("a_retired_scope_leaves_no_row")
def a_scope_forgets_its_tombstones(patch: pytest.MonkeyPatch) -> None:
    sound = _sweep._EXTENTS["group"]
    patch.setitem(_sweep._EXTENTS, "group", lambda tx, key: sound(tx, key)[1:])


@breaks("a_sweep_cut_off_anywhere_goes_on_in_the_next_life")
def nobody_goes_on_with_a_sweep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_sweeper.Sweeper, "resume", lambda self: None)


@breaks("a_sweep_cut_off_anywhere_goes_on_in_the_next_life")
def a_sweep_is_written_down_as_done_before_it_is(patch: pytest.MonkeyPatch) -> None:
    sound = _sweep._write_down

    def write_down(tx: Tx, where: bytes, name: str, left: Any) -> None:
        sound(tx, where, name, [])

    patch.setattr(_sweep, "_write_down", write_down)


@breaks("a_sweep_cut_off_anywhere_goes_on_in_the_next_life")
@breaks("a_retirement_cut_off_anywhere_is_whole_or_did_not_happen")
def one_unit_takes_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_sweep, "SWEEP_ROWS", 10**9)


@breaks("a_sweep_cut_off_anywhere_goes_on_in_the_next_life")
def a_scope_is_open_while_it_is_swept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_ledger, "being_swept", lambda tx, scope: False)


@breaks("a_retired_group_serves_no_ranks")
def ranks_are_served_from_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_live.LiveGroups, "retired", lambda self, row: None)


@breaks("a_retired_group_serves_no_ranks")
def a_retirement_is_no_news_to_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_live.LiveGroups, "noticed", lambda self, key: None)


@breaks("a_late_result_for_a_retired_group_is_not_counted")
def a_late_result_meets_no_fence(patch: pytest.MonkeyPatch) -> None:
    sound = _ledger.finalise_all

    def finalise_all(tx: Tx, key: str, *arguments: Any) -> Any:
        row = tx.get(GROUP_TABLE, group_key(key), GroupRow)
        if row is None or row.retired:
            raise GroupShapeError(f"group {key!r} is not in the journal", key=key)
        return sound(tx, key, *arguments)

    patch.setattr(_actor, "finalise_all", finalise_all)


@breaks("every_recorded_rank_comes_in_one_read")
def one_rank_comes_at_a_time(patch: pytest.MonkeyPatch) -> None:
    async def recorded(self: Cursors, handle: GroupHandle) -> Any:
        return [await self.next(handle)]

    patch.setattr(Cursors, "recorded", recorded)


@breaks("a_taken_over_child_burns_no_rank")
def news_of_others_are_taken_twice(patch: pytest.MonkeyPatch) -> None:
    sound = GroupActor.catch_up

    def catch_up(self: GroupActor, row: GroupRow, ranks: Any) -> None:
        sound(self, row, [*ranks, *(replace(rank) for rank in ranks)])

    patch.setattr(GroupActor, "catch_up", catch_up)


@pytest.mark.parametrize(("law", "plant"), breaks.cases)
async def test_a_planted_fault_is_caught(
    law: str,
    plant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
    catches: Catches,
) -> None:
    await catches(law, lambda: plant(monkeypatch), mock_clock)
