"""The pool: turns, cancellation, evidence, quarantine, and the end of the block."""

from __future__ import annotations

import contextvars
import signal
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trouper.cells import (
    CellPool,
    CellsExhausted,
    CellState,
    GuestDeadline,
    GuestRefused,
    GuestTrapped,
    LeaseError,
    ProviderContext,
    guest,
)
from trouper.errors import ShuttingDown

# Asks "p" once and then spins for ever.
ASK_THEN_SPIN = """(data (i32.const 0) "p")
(func (export "run") (param i32 i32) (result i64)
  (drop (call $provider_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
                             (i32.const 0) (i32.const 0)))
  (loop (br 0)) (i64.const 0))"""


class Gate:
    """A provider that says when it is entered, and waits to be opened."""

    def __init__(self, *, shielded: bool = False) -> None:
        self.entered = trio.Event()
        self.open = trio.Event()
        self.cancelled = False
        self._shielded = shielded

    async def __call__(self, request: bytes) -> bytes:
        self.entered.set()
        with trio.CancelScope(shield=self._shielded):
            try:
                await self.open.wait()
            except trio.Cancelled:
                self.cancelled = True
                raise
        return b"opened"


async def start(nursery: trio.Nursery, pool: CellPool, guest: Any, gate: Gate) -> trio.CancelScope:
    """Start a run that the caller can cancel; return once it waits for its provider."""
    scope = trio.CancelScope()

    async def caller() -> None:
        with scope:
            await pool.run(guest, b"")

    nursery.start_soon(caller)
    await gate.entered.wait()
    return scope


# --- what a run is


async def test_a_run_returns_what_the_guest_returns(kit: Any) -> None:
    async with CellPool(1) as pool:
        assert await pool.run(kit.make(kit.ECHO), b"hello") == b"hello"
        assert await pool.run(kit.make(kit.ECHO), b"") == b""


async def test_no_run_sees_the_memory_of_another(kit: Any) -> None:
    leave_and_look = """(func (export "run") (param i32 i32) (result i64)
      (i32.store (i32.const 0) (i32.add (i32.const 1) (i32.load (i32.const 0))))
      (i64.const 4))"""
    async with CellPool(1) as pool:
        looking = kit.make(leave_and_look)
        assert [await pool.run(looking, b"") for _ in range(3)] == [b"\1\0\0\0"] * 3


@pytest.mark.parametrize("style", ["async", "plain", "callable"])
async def test_a_provider_takes_and_returns_bytes(kit: Any, style: str, transport: str) -> None:
    seen: list[tuple[bytes, ProviderContext, bool]] = []
    loop = threading.get_ident()

    async def p(request: bytes, context: ProviderContext) -> bytes:
        seen.append((request, context, threading.get_ident() == loop))
        return request.upper()

    def plain(request: bytes, context: ProviderContext) -> bytes:
        seen.append((request, context, threading.get_ident() == loop))
        return request.upper()

    class Callable:
        async def __call__(self, request: bytes, context: ProviderContext) -> bytes:
            return await p(request, context)

    provider = {"async": p, "plain": plain, "callable": Callable()}[style]
    async with CellPool(1) as pool:
        out = await pool.run(kit.make(kit.ASK, {"p": provider}, name="g"), b"abc", key="job/1")
        assert out == b"ABC"
        on_loop = style != "plain" or transport == "lock-step"
        assert seen == [(b"abc", ProviderContext("job/1", "g", 0), on_loop)]
        await kit.assert_whole(pool)


async def test_a_provider_sees_the_context_variables_of_the_caller(kit: Any) -> None:
    color: contextvars.ContextVar[bytes] = contextvars.ContextVar("color")

    async def p(request: bytes) -> bytes:
        return color.get()

    def plain(request: bytes) -> bytes:
        return color.get()

    async with CellPool(1) as pool:
        color.set(b"green")
        assert await pool.run(kit.make(kit.ASK, {"p": p}), b"") == b"green"
        assert await pool.run(kit.make(kit.ASK, {"p": plain}), b"") == b"green"


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
async def test_what_a_provider_raises_comes_back_as_itself(
    kit: Any, error: BaseException, plain: bool
) -> None:
    async def p(request: bytes) -> bytes:
        raise error

    def q(request: bytes) -> bytes:
        raise error

    async with CellPool(1) as pool:
        with pytest.raises(type(error)) as caught:
            await pool.run(kit.make(kit.ASK, {"p": q if plain else p}), b"")
        assert caught.value is error
        await kit.assert_whole(pool)


async def test_a_provider_that_returns_no_bytes_is_a_type_error(kit: Any) -> None:
    async def p(request: bytes) -> Any:
        return "text"

    async with CellPool(1) as pool:
        with pytest.raises(TypeError, match="must return bytes, not str"):
            await pool.run(kit.make(kit.ASK, {"p": p}), b"")
        with pytest.raises(TypeError, match="must return bytes, not coroutine"):
            await pool.run(kit.make(kit.ASK, {"p": lambda request: p(request)}), b"")
        await kit.assert_whole(pool)


async def test_a_long_response_is_taken_in_parts(kit: Any) -> None:
    body = """(data (i32.const 0) "p") (global $n (mut i32) (i32.const 0))
      (func (export "run") (param i32 i32) (result i64) (local $got i32)
        (global.set $n (i32.wrap_i64 (call $provider_call
          (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 4096) (i32.const 3))))
        (local.set $got (i32.const 3))
        (block $done (loop $more
          (br_if $done (i32.ge_u (local.get $got) (global.get $n)))
          (local.set $got (i32.add (local.get $got) (i32.wrap_i64 (call $provider_take
            (i32.add (i32.const 4096) (local.get $got)) (i32.const 3)))))
          (br $more)))
        (drop (call $provider_take (i32.const 0) (i32.const 3)))
        (i64.or (i64.const 0x100000000000) (i64.extend_i32_u (local.get $got))))"""

    def p(request: bytes) -> bytes:
        return b"0123456789"

    async with CellPool(1) as pool:
        assert await pool.run(kit.make(body, {"p": p}), b"") == b"0123456789"


# --- turns


async def test_callers_get_cells_in_the_order_of_asking(kit: Any) -> None:
    order: list[str] = []
    gate = Gate()

    async def p(request: bytes, context: ProviderContext) -> bytes:
        order.append(context.key)
        return b""

    async with CellPool(1) as pool, trio.open_nursery() as nursery:
        await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
        for number in range(4):

            async def caller(key: str = str(number)) -> None:
                await pool.run(kit.make(kit.ASK, {"p": p}), b"", key=key)

            nursery.start_soon(caller)
            while pool.statistics().waiting <= number:
                await trio.lowlevel.checkpoint()
        gate.open.set()
    assert order == ["0", "1", "2", "3"]


async def test_a_full_queue_refuses_at_once(kit: Any) -> None:
    gate = Gate()
    async with CellPool(1, queue=1) as pool, trio.open_nursery() as nursery:
        await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
        nursery.start_soon(pool.run, kit.make(kit.ECHO), b"")
        while not pool.statistics().waiting:
            await trio.lowlevel.checkpoint()
        with pytest.raises(CellsExhausted, match="queue="):
            await pool.run(kit.make(kit.ECHO), b"")
        assert pool.statistics().refused == 1
        gate.open.set()


async def test_a_caller_that_may_not_queue_is_refused_at_once(kit: Any) -> None:
    gate = Gate()
    async with CellPool(1) as pool, trio.open_nursery() as nursery:
        await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
        with pytest.raises(CellsExhausted, match="may not wait"):
            await pool.run(kit.make(kit.ECHO), b"", may_queue=False)
        gate.open.set()


async def test_cancelling_a_queued_caller_leaves_the_queue(kit: Any) -> None:
    gate = Gate()
    async with CellPool(1) as pool, trio.open_nursery() as nursery:
        await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_when_waiting, pool, scope)
            await pool.run(kit.make(kit.ECHO), b"")
        assert scope.cancelled_caught
        assert pool.statistics().waiting == 0
        gate.open.set()


async def _cancel_when_waiting(pool: CellPool, scope: trio.CancelScope) -> None:
    while not pool.statistics().waiting:
        await trio.lowlevel.checkpoint()
    scope.cancel()


# --- the end of a run by its caller


@pytest.mark.needs_threads
async def test_cancelling_a_spinning_guest_frees_its_cell_only(kit: Any) -> None:
    gate, other = Gate(), Gate()
    async with CellPool(2) as pool, trio.open_nursery() as nursery:
        survivor = kit.make(kit.ASK, {"p": other})
        await start(nursery, pool, survivor, other)
        gate.open.set()
        spinning = kit.make(ASK_THEN_SPIN, {"p": gate}, fuel=1 << 62)
        scope = await start(nursery, pool, spinning, gate)
        while pool.statistics().operations > 1:
            await trio.lowlevel.checkpoint()
        scope.cancel()
        while pool.statistics().leased > 1:
            await trio.lowlevel.checkpoint()
        assert [view.state for view in pool.cells()] == [
            CellState.WAITING_PROVIDER,
            CellState.FREE,
        ]
        other.open.set()
    assert pool.statistics().kills == 1


async def test_cancelling_during_a_provider_cancels_it(kit: Any) -> None:
    gate = Gate()
    async with CellPool(1) as pool:
        async with trio.open_nursery() as nursery:
            scope = await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
            scope.cancel()
        assert scope.cancelled_caught
        assert gate.cancelled
        await kit.assert_whole(pool)


async def test_a_provider_that_finishes_late_holds_the_cell_until_then(kit: Any) -> None:
    gate = Gate(shielded=True)
    async with CellPool(1) as pool:
        async with trio.open_nursery() as nursery:
            scope = await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
            scope.cancel()
            await wait_all_tasks_blocked()
            assert pool.cells()[0].state is CellState.CLEANING
            assert pool.statistics().leased == 1
            gate.open.set()
        assert scope.cancelled_caught
        await kit.assert_whole(pool)


async def test_a_deadline_counts_from_the_cell_not_from_the_queue(kit: Any) -> None:
    gate = Gate()
    async with CellPool(1) as pool, trio.open_nursery() as nursery:
        await start(nursery, pool, kit.make(kit.ASK, {"p": gate}), gate)
        answers: list[bytes] = []

        async def queued() -> None:
            answers.append(await pool.run(kit.make(kit.ECHO, deadline=1000), b"in time"))

        nursery.start_soon(queued)
        while not pool.statistics().waiting:
            await trio.lowlevel.checkpoint()
        before = trio.lowlevel.current_statistics().seconds_to_next_deadline
        assert before > 1000  # nothing set for it while it waits
        gate.open.set()
        while not answers:
            await trio.lowlevel.checkpoint()


async def test_a_deadline_during_a_provider_is_the_guest_s(
    kit: Any, autojump_clock: MockClock
) -> None:
    gate = Gate()
    async with CellPool(1) as pool:
        with pytest.raises(GuestDeadline):
            await pool.run(kit.make(kit.ASK, {"p": gate}, deadline=0.01), b"")
        assert gate.cancelled
        await kit.assert_whole(pool)


async def test_a_provider_s_own_timeout_is_not_the_run_s(kit: Any) -> None:
    async def p(request: bytes) -> bytes:
        with trio.move_on_after(0):
            await trio.sleep_forever()
        return b"went on"

    async with CellPool(1) as pool:
        assert await pool.run(kit.make(kit.ASK, {"p": p}), b"") == b"went on"


async def test_an_error_after_the_kill_is_logged_and_harms_nobody(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    entered = trio.Event()

    async def p(request: bytes) -> bytes:
        async with trio.open_nursery():  # the error arrives in a group, beside the Cancelled
            entered.set()
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while dying")

    async with CellPool(1) as pool:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pool.run, kit.make(kit.ASK, {"p": p}), b"")
                await entered.wait()
                scope.cancel()
        assert "after its run was killed" in caplog.text
        await kit.assert_whole(pool)


class Tap:
    """Holds a run back, then holds the loop still until the run has sent its frame."""

    def __init__(self, pool: CellPool, monkeypatch: pytest.MonkeyPatch) -> None:
        self._go, self._sent = go, sent = threading.Event(), threading.Event()
        thread: Any = pool._slots[0].transport
        token, on_frame, run = thread._token, thread._returned, thread._runtime.run

        class Token:
            def run_sync_soon(self, call: Any, *args: Any) -> None:
                token.run_sync_soon(call, *args)
                if call == on_frame:
                    sent.set()

        def held(job: Any) -> Any:
            assert go.wait(10)
            return run(job)

        monkeypatch.setattr(thread, "_token", Token())
        monkeypatch.setattr(thread._runtime, "run", held)

    def let_it_finish(self) -> None:
        self._go.set()
        assert self._sent.wait(10)


@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.needs_threads
async def test_a_kill_in_the_tick_of_completion_loses_to_what_was_decided_first(
    kit: Any, monkeypatch: pytest.MonkeyPatch, cancel_first: bool
) -> None:
    got: list[bytes] = []
    scope = trio.CancelScope()

    async def caller() -> None:
        with scope:
            got.append(await pool.run(kit.make(kit.ECHO), b"done"))

    async with CellPool(1) as pool:
        with monkeypatch.context() as patch:
            tap = Tap(pool, patch)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(caller)
                while not pool.statistics().leased:
                    await trio.lowlevel.checkpoint()
                tap.let_it_finish()  # its frame lies in the loop's queue now
                if cancel_first:
                    scope.cancel()
                else:
                    pool.token.run_sync_soon(scope.cancel)
        assert scope.cancelled_caught is cancel_first
        assert got == ([] if cancel_first else [b"done"])
        await kit.assert_whole(pool)


async def test_random_cancels_never_hit_the_next_lease(kit: Any) -> None:
    async def p(request: bytes) -> bytes:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        return request

    asking, echo = kit.make(kit.ASK, {"p": p}), kit.make(kit.ECHO)
    async with CellPool(2) as pool:
        for ticks in range(60):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(pool.run, asking, b"x")
                    for _ in range(ticks):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert await pool.run(echo, b"mine") == b"mine"
        await kit.assert_whole(pool)


# --- evidence


@pytest.mark.needs_threads
async def test_a_plain_provider_that_blocks_for_ever_quarantines_its_cell(kit: Any) -> None:
    entered, release = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def p(request: bytes) -> bytes:
        token.run_sync_soon(entered.set)
        release.wait()
        return b""

    async with CellPool(2, cleanup=0.02) as pool:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pool.run, kit.make(kit.ASK, {"p": p}, name="stuck"), b"abc")
                await entered.wait()
                scope.cancel()
        (found,) = pool.quarantined()
        assert (found.cell, found.guest) == (0, "stuck")
        assert found.reasons == ("provider: 1 open, 3 bytes staged",)
        seen = pool.statistics()
        assert (seen.free, seen.leased, seen.quarantined, seen.staged_bytes) == (1, 0, 1, 3)
        assert await pool.run(kit.make(kit.ECHO), b"other") == b"other"
        assert await pool.reconcile(0) == found.reasons
        release.set()
        while pool.quarantined()[0].missing:
            await trio.lowlevel.checkpoint()
        assert pool.statistics().quarantined == 1  # late evidence alone changes nothing
        assert await pool.reconcile(0) == ()
        await kit.assert_whole(pool)


@pytest.mark.needs_threads
async def test_a_frame_that_does_not_return_quarantines_its_cell_and_the_last_fails_the_queue(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with CellPool(1, cleanup=0.02) as pool:
        thread: Any = pool._slots[0].transport
        runtime = thread._runtime
        release, run = threading.Event(), runtime.run

        def stuck(job: Any) -> Any:
            release.wait()
            return run(job)

        monkeypatch.setattr(runtime, "run", stuck)
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(_waits_in_vain, pool, kit)
                nursery.start_soon(_cancel_when_waiting, pool, scope)
                await pool.run(kit.make(kit.ECHO), b"")
            assert scope.cancelled_caught
        (found,) = pool.quarantined()
        assert [reason.split(":")[0] for reason in found.reasons] == ["frame", "store", "accounts"]
        with pytest.raises(CellsExhausted, match="quarantined"):
            await pool.run(kit.make(kit.ECHO), b"")
        release.set()
        while pool.quarantined()[0].missing:
            await trio.lowlevel.checkpoint()
        assert await pool.reconcile(0) == ()
        await kit.assert_whole(pool)


async def _waits_in_vain(pool: CellPool, kit: Any) -> None:
    while not pool.statistics().leased:
        await trio.lowlevel.checkpoint()
    with pytest.raises(CellsExhausted, match="last cell"):
        await pool.run(kit.make(kit.ECHO), b"")


async def test_a_failure_of_the_shim_itself_quarantines_at_once(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trouper.cells._wasm import Port

    def broken(self: Any) -> int:
        raise ZeroDivisionError

    async with CellPool(1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(Port, "size", broken)
            with pytest.raises(GuestTrapped) as caught:
                await pool.run(kit.make(kit.ECHO), b"x")
            assert caught.value.kind == "host_error"
        assert pool.quarantined()[0].reasons == ("unexpected: ZeroDivisionError",)
        assert await pool.reconcile(0) == ()
        await kit.assert_whole(pool)


async def test_only_a_quarantined_cell_can_be_reconciled(kit: Any) -> None:
    async with CellPool(1) as pool:
        for cell in (0, 1, -1):
            with pytest.raises(LeaseError) as caught:
                await pool.reconcile(cell)
            assert caught.value.kind == "not_quarantined"


# --- the block


async def test_a_pool_runs_only_inside_its_block_and_only_once(kit: Any) -> None:
    pool = CellPool(1)
    with pytest.raises(ShuttingDown, match="async with"):
        await pool.run(kit.make(kit.ECHO), b"")
    async with pool:
        pass
    with pytest.raises(ShuttingDown):
        await pool.run(kit.make(kit.ECHO), b"")
    with pytest.raises(ShuttingDown, match="new CellPool"):
        async with pool:
            pass


async def test_an_error_of_the_block_is_not_wrapped(kit: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        async with CellPool(1):
            raise ZeroDivisionError


async def test_leaving_the_block_ends_what_runs_and_what_waits(kit: Any) -> None:
    gate = Gate()
    ended: list[str] = []

    async def caller(guest: Any) -> None:
        with pytest.raises(ShuttingDown) as caught:
            await pool.run(guest, b"")
        ended.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        async with CellPool(1) as pool:
            nursery.start_soon(caller, kit.make(kit.ASK, {"p": gate}, name="runs"))
            await gate.entered.wait()
            nursery.start_soon(caller, kit.make(kit.ECHO, name="waits"))
            while not pool.statistics().waiting:
                await trio.lowlevel.checkpoint()
        assert gate.cancelled
    assert len(ended) == 2
    seen = pool.statistics()
    assert (seen.leased, seen.quarantined, seen.operations) == (0, 0, 0)


async def test_cancelling_around_the_block_ends_the_run_inside(kit: Any) -> None:
    gate = Gate()
    with trio.CancelScope() as scope:
        async with CellPool(1) as pool, trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, kit.make(kit.ASK, {"p": gate}), b"")
            await gate.entered.wait()
            scope.cancel()
    assert scope.cancelled_caught
    assert gate.cancelled
    assert pool.statistics().quarantined == 0


async def test_cancelling_the_pool_ends_a_run_whose_caller_is_elsewhere(kit: Any) -> None:
    gate = Gate()
    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope:
            async with CellPool(1) as pool:

                async def caller() -> None:
                    with pytest.raises(ShuttingDown):
                        await pool.run(kit.make(kit.ASK, {"p": gate}), b"")

                outside.start_soon(caller)
                await gate.entered.wait()
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
    assert pool.statistics().quarantined == 0


@pytest.mark.parametrize("place", ["provider", "elsewhere"])
def test_an_interrupt_ends_the_run_and_leaves_the_cell_clean(kit: Any, place: str) -> None:
    after: list[tuple[int, int]] = []

    async def interrupts(request: bytes) -> bytes:
        if place == "provider":
            signal.raise_signal(signal.SIGINT)
        else:
            # Protected code: trio delivers it to the main task, which waits in pool.run.
            token = trio.lowlevel.current_trio_token()
            token.run_sync_soon(signal.raise_signal, signal.SIGINT)
            await trio.sleep_forever()
        return b"not reached"

    async def main() -> None:
        async with CellPool(1) as pool:
            try:
                await pool.run(kit.make(kit.ASK, {"p": interrupts}), b"")
            finally:
                seen = pool.statistics()
                after.append((seen.free, seen.quarantined))

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert after == [(1, 0)]


# --- what stays


async def test_a_guest_that_does_not_run_holds_nothing(kit: Any) -> None:
    import wasmtime._func
    import wasmtime._value

    async with CellPool(2) as pool:
        guests = [kit.make(kit.ECHO, name=f"g{number}") for number in range(20)]
        await pool.run(guests[0], b"")
        threads = threading.active_count()
        functions = len(wasmtime._func.FUNCTIONS.handles)
        for each in guests * 3:
            await pool.run(each, b"x")
        assert threading.active_count() == threads
        assert len(wasmtime._func.FUNCTIONS.handles) == functions
        assert pool.statistics().compiled == 1  # one module under twenty names


async def test_leaving_the_block_frees_what_the_engines_held(kit: Any) -> None:
    import wasmtime._func

    async with CellPool(1) as pool:
        await pool.run(kit.make(kit.ECHO), b"")
    before = len(wasmtime._func.FUNCTIONS.handles)
    for _ in range(3):
        async with CellPool(2) as pool:
            await pool.run(kit.make(kit.ECHO), b"")
    assert len(wasmtime._func.FUNCTIONS.handles) == before


async def test_more_modules_than_the_cell_keeps_still_run(kit: Any) -> None:
    async with CellPool(1) as pool:
        modules = [
            kit.make(
                '(func (export "run") (param i32 i32) (result i64)'
                f"(i32.store (i32.const 0) (i32.const {number})) (i64.const 1))"
            )
            for number in range(20)
        ]
        for _ in range(2):
            for number, each in enumerate(modules):
                assert await pool.run(each, b"") == bytes([number])


async def test_compiled_code_is_dropped_beyond_the_cache(kit: Any) -> None:
    from trouper.cells import AdmissionLimits

    async with CellPool(1, admission=AdmissionLimits(cache_bytes=1)) as pool:
        first, second = kit.make(kit.ECHO), kit.make(kit.RUN)
        await pool.run(first, b"")
        await pool.run(second, b"")
        assert pool.statistics().compiled == 1
        assert await pool.run(first, b"again") == b"again"


async def test_a_guest_may_not_ask_for_more_memory_than_the_cells_have(kit: Any) -> None:
    async with CellPool(1, memory=1 << 20) as pool:
        with pytest.raises(GuestRefused, match="CellPool"):
            await pool.run(kit.make(kit.ECHO, memory=2 << 20), b"")


async def test_a_missing_file_is_refused_with_its_path(tmp_path: Any) -> None:
    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused, match=r"gone\.wasm") as caught:
            await pool.run(guest(tmp_path / "gone.wasm"), b"")
        assert caught.value.rule == "readable"


@pytest.mark.needs_threads
async def test_a_compilation_that_takes_too_long_is_refused(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trouper.cells import AdmissionLimits
    from trouper.cells._wasm import Compiler

    release, really = threading.Event(), Compiler.compile

    def slow(self: Any, *args: Any) -> Any:
        release.wait()
        return really(self, *args)

    async with CellPool(1, admission=AdmissionLimits(compile_seconds=0.01)) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(Compiler, "compile", slow)
            with pytest.raises(GuestRefused) as caught:
                await pool.run(kit.make(kit.ECHO), b"")
            assert caught.value.rule == "compile_seconds"
        release.set()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0,), {}),
        ((257,), {}),
        ((1,), {"queue": -1}),
        ((1,), {"cleanup": 0}),
        ((1,), {"memory": 5}),
    ],
)
def test_a_pool_out_of_range_is_refused(arguments: Any, options: Any) -> None:
    with pytest.raises(ValueError, match=r"cells|queue|cleanup|memory"):
        CellPool(*arguments, **options)


def test_an_interrupt_while_the_pool_closes_is_raised_once_it_is_closed(kit: Any) -> None:
    gate = Gate(shielded=True)
    pool = CellPool(1)
    errors: list[type[Exception]] = []

    async def caller() -> None:
        try:
            await pool.run(kit.make(kit.ASK, {"p": gate}), b"")
        except ShuttingDown as error:
            errors.append(type(error))

    async def interrupt_twice() -> None:
        for _ in range(2):
            await wait_all_tasks_blocked()  # the main task waits for the end of the run
            assert pool.statistics().leased == 1
            token = trio.lowlevel.current_trio_token()
            token.run_sync_soon(signal.raise_signal, signal.SIGINT)
        await wait_all_tasks_blocked()
        gate.open.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery, pool:
            nursery.start_soon(caller)
            await gate.entered.wait()
            nursery.start_soon(interrupt_twice)

    with pytest.raises(BaseExceptionGroup) as raised:
        trio.run(main)
    assert [type(error) for error in raised.value.exceptions] == [KeyboardInterrupt]
    assert errors == [ShuttingDown]
    assert (pool.statistics().leased, pool.statistics().quarantined) == (0, 0)


@pytest.mark.parametrize("data", [None, "text", 5, [1]])
async def test_data_that_is_no_bytes_is_refused_before_it_costs_a_cell(data: Any) -> None:
    described = guest(b"\0asm", name="never read")
    async with CellPool(1) as pool:
        with pytest.raises(TypeError, match=f"takes bytes, not {type(data).__name__}"):
            await pool.run(described, data)
        assert pool.tree().details["runs"] == 0


@pytest.mark.parametrize("n", [0, 257, 1.5, True, "2"])
def test_a_pool_has_a_whole_number_of_cells(n: Any) -> None:
    with pytest.raises(ValueError, match="a pool has 1 to 256 cells"):
        CellPool(n)
