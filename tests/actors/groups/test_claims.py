"""Claims of running children: renewed in time and together, and what becomes of a lost one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from trouper.actors.groups import _claims, _ledger, open_host
from trouper.actors.groups._rules import Claim
from trouper.store import MemoryStore, Tx
from trouper.testing.conformance.host import Cast

Held = Sequence[tuple[str, int, Claim]]


async def test_all_children_of_a_host_are_renewed_in_one_unit_at_each_third_of_the_lease(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals: list[tuple[float, list[tuple[str, int]], float]] = []

    def renew_all(tx: Tx, held: Held, expires: float) -> list[tuple[str, int, Claim]]:
        renewals.append((trio.current_time(), [(k, p) for k, p, _ in held], expires))
        return _ledger.renew_all(tx, held, expires)

    monkeypatch.setattr(_claims, "renew_all", renew_all)
    casts = {key: Cast(key) for key in ("a", "b")}
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store)
        host = await stack.enter_async_context(
            open_host(
                store,
                lambda envelope: casts[envelope.replay_key[0]].resolver(envelope),
                lease=30,
                shutdown=0,
            )
        )
        start = trio.current_time()
        for cast in casts.values():
            await host.open_group(cast.group())
            await cast.begun()
        await trio.sleep(35)
        everybody = [(key, position) for key in casts for position in range(3)]
        assert [at - start for at, _, _ in renewals] == pytest.approx([10, 20, 30])
        assert [who for _, who, _ in renewals] == [everybody] * 3
        assert [expires - at for at, _, expires in renewals] == pytest.approx([30] * 3)


async def test_losing_a_claim_cancels_the_runner_and_its_result_meets_the_fence(
    mock_clock: trio.testing.MockClock,
) -> None:
    old, new = Cast("g", 1), Cast("g", 1)
    begun, told = trio.Event(), trio.Event()
    store = MemoryStore()

    class Stubborn:
        """Answers though it was told to end."""

        releasable = False

        async def run(self, ctx: object) -> str:
            begun.set()
            with trio.CancelScope(shield=True):
                await told.wait()
            return "late"

    async with (
        store,
        open_host(store, lambda _: Stubborn(), shutdown=0) as first,
        open_host(store, new.resolver, shutdown=0) as second,
    ):
        await first.open_group(old.group())
        await begun.wait()
        context = first.group("g").running[0].context
        mock_clock.jump(31)
        handle = await second.open_group(new.group())
        while not context.interrupted:
            await trio.lowlevel.checkpoint()
        assert not context.cancelled, "nobody journaled a cancel"
        new.finish()
        settled = await second.next_settlement(handle)
        told.set()
        while first.group("g").running:
            await trio.lowlevel.checkpoint()
        assert first.fences_moved == 1
        assert await second.next_settlement(await second.open_group(new.group())) == settled
