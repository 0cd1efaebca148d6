"""What a hostile or broken guest tries. The process lives, the error is typed, the cell is back."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest
import trio

from trouper.cells import (
    AdmissionLimits,
    CellPool,
    GuestDeadline,
    GuestRefused,
    GuestTrapped,
    OutOfFuel,
)


async def nothing(request: bytes) -> bytes:
    return b""


async def trap_of(pool: CellPool, guest: Any, data: bytes = b"x") -> str:
    with pytest.raises(GuestTrapped) as caught:
        await pool.run(guest, data)
    return caught.value.kind


def asks(name: str = "(i32.const 0) (i32.const 1)", request: str = "", out: str = "") -> str:
    request = request or "(i32.const 0) (i32.const 0)"
    out = out or "(i32.const 4096) (i32.const 64)"
    return f"""(data (i32.const 0) "p")
      (func (export "run") (param i32 i32) (result i64)
        (call $provider_call {name} {request} {out}))"""


async def test_an_infinite_loop_runs_out_of_fuel(kit: Any) -> None:
    async with CellPool(1) as pool:
        with pytest.raises(OutOfFuel):
            await pool.run(kit.make(kit.SPIN, fuel=1_000_000), b"")
        await kit.assert_whole(pool)


async def test_an_infinite_loop_in_start_runs_out_of_fuel(kit: Any) -> None:
    body = kit.RUN + "(func $s (loop (br 0))) (start $s)"
    async with CellPool(1) as pool:
        with pytest.raises(OutOfFuel):
            await pool.run(kit.make(body, fuel=1_000_000), b"")
        await kit.assert_whole(pool)


@pytest.mark.parametrize("place", ["run", "start"])
async def test_an_infinite_loop_with_fuel_for_ever_is_ended_by_its_deadline(
    kit: Any, place: str
) -> None:
    body = kit.SPIN if place == "run" else kit.RUN + "(func $s (loop (br 0))) (start $s)"
    spins = kit.make(body, fuel=1 << 62, deadline=0.02)
    async with CellPool(1) as pool:
        with pytest.raises(GuestDeadline):
            await pool.run(spins, b"")
        await kit.assert_whole(pool)


async def test_recursion_traps_before_the_thread_s_stack_ends(kit: Any) -> None:
    body = """(func $f (call $f))
      (func (export "run") (param i32 i32) (result i64) (call $f) (i64.const 0))"""
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(body)) == "stack_overflow"
        await kit.assert_whole(pool)


async def test_growing_beyond_the_cap_answers_minus_one(kit: Any) -> None:
    body = """(func (export "run") (param i32 i32) (result i64)
      (loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
      (i64.store (i32.const 0) (i64.extend_i32_u (memory.size)))
      (i64.const 8))"""
    async with CellPool(1) as pool:
        out = await pool.run(kit.make(body, memory=4 * 65536), b"")
        assert struct.unpack("<Q", out) == (4,)
        await kit.assert_whole(pool)


async def test_a_huge_minimum_is_refused_before_it_runs(kit: Any) -> None:
    huge = kit.make(kit.RUN, parts={"memory": '(memory (export "memory") 5)'}, memory=4 * 65536)
    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(huge, b"")
        assert caught.value.rule == "memory"
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    "body",
    [
        "(table 20000 funcref)",
        "(table 1 funcref) (table 1 funcref)",
    ],
)
async def test_tables_beyond_the_limits_are_refused(kit: Any, body: str) -> None:
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(kit.RUN + body)) == "instantiate"
        await kit.assert_whole(pool)


async def test_growing_a_table_beyond_the_limit_answers_minus_one(kit: Any) -> None:
    body = """(table $t 1 funcref)
      (func (export "run") (param i32 i32) (result i64)
        (i32.store (i32.const 0) (table.grow $t (ref.null func) (i32.const 100000000)))
        (i64.const 4))"""
    async with CellPool(1) as pool:
        assert await pool.run(kit.make(body), b"") == b"\xff\xff\xff\xff"
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (asks(name="(i32.const -10) (i32.const 4)"), "bad_pointer"),
        (asks(name="(i32.const 65535) (i32.const 2)"), "bad_pointer"),
        (asks(name="(i32.const 0) (i32.const -1)"), "staged_bytes"),
        (asks(request="(i32.const -1) (i32.const 1)"), "bad_pointer"),
        (asks(request="(i32.const 0) (i32.const 65537)"), "bad_pointer"),
        (asks(request="(i32.const 0) (i32.const -1)"), "out_of_fuel"),
        (asks(request="(i32.const 0) (i32.const 0x7fffffff)"), "out_of_fuel"),
        (asks(out="(i32.const -64) (i32.const 64)"), None),
        (asks(out="(i32.const -64) (i32.const 65)"), "bad_pointer"),
        (asks(out="(i32.const 4096) (i32.const -1)"), "bad_pointer"),
        (asks(name="(i32.const 1) (i32.const 1)"), "unknown_provider"),
    ],
)
async def test_pointers_and_lengths_are_unsigned_and_checked(
    kit: Any, body: str, kind: str | None
) -> None:
    served: list[bytes] = []

    async def p(request: bytes) -> bytes:
        served.append(request)
        return b"answer"

    async with CellPool(1) as pool:
        # -64 is 0xffffffc0: a range at the very top, which no memory of a guest here reaches.
        expected = kind or "bad_pointer"
        assert await trap_of(pool, kit.make(body, {"p": p})) == expected
        assert served == []
        await kit.assert_whole(pool)


async def test_a_huge_request_within_its_fuel_is_refused_by_its_size(kit: Any) -> None:
    body = asks(request="(i32.const 0) (i32.const -1)")
    async with CellPool(1) as pool:
        rich = kit.make(body, {"p": nothing}, fuel=1 << 40)
        assert await trap_of(pool, rich) == "staged_bytes"
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    ("packed", "kind"),
    [
        ("0xffffffff00000001", "bad_pointer"),
        ("0x0000fff000000011", "bad_pointer"),
        ("0x00000000ffffffff", "staged_bytes"),
    ],
)
async def test_the_output_s_range_is_checked(kit: Any, packed: str, kind: str) -> None:
    body = f'(func (export "run") (param i32 i32) (result i64) (i64.const {packed}))'
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(body)) == kind
        await kit.assert_whole(pool)


@pytest.mark.parametrize("pointer", [-1, -10, 65536, 0x7FFFFFFF])
async def test_a_lying_alloc_is_a_bad_pointer(kit: Any, pointer: int) -> None:
    alloc = f'(func (export "alloc") (param i32) (result i32) (i32.const {pointer}))'
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(kit.ECHO, parts={"alloc": alloc})) == "bad_pointer"
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    ("body", "parts", "where"),
    [
        ('(global (export "run") i32 (i32.const 0))', {}, "run"),
        ('(func (export "run"))', {}, "run"),
        ('(func (export "run") (param i64 i64) (result i64) (i64.const 0))', {}, "run"),
        ("", {}, "run"),
        ("RUN", {"alloc": ""}, "alloc"),
        ("RUN", {"alloc": '(func (export "alloc"))'}, "alloc"),
        ("RUN", {"memory": "(memory 1)"}, "memory"),
        ("RUN", {"memory": '(memory 1) (func (export "memory"))'}, "memory"),
    ],
)
async def test_missing_or_wrong_exports_are_refused(
    kit: Any, body: str, parts: dict[str, str], where: str
) -> None:
    bad = kit.make(body.replace("RUN", kit.RUN), parts=parts)
    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(bad, b"")
        assert (caught.value.rule, caught.value.where) == ("export", where)
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    "imports",
    [
        '(import "env" "abort" (func))',
        '(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))',
        '(import "trouper" "fork" (func))',
        '(import "trouper" "log" (func (param i64)))',
        '(import "trouper" "log" (global i32))',
        '(import "trouper" "memory" (memory 1))',
    ],
)
async def test_imports_that_no_guest_is_given_are_refused(kit: Any, imports: str) -> None:
    memory = kit.MEMORY if "memory 1" not in imports else ""
    bad = kit.make(kit.RUN, parts={"imports": imports, "memory": memory})
    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(bad, b"")
        assert caught.value.rule == "import"
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    "module",
    [
        '(module (memory (export "memory") i64 1))',
        "(module (memory 1) (memory 1))",
        "(module (memory 1 2 shared))",
        "(module (type (struct)))",
        "(module (func (param externref)))",
        "(module (func $f (return_call $f)))",
        "(module (tag))",
    ],
)
async def test_features_that_are_off_are_refused(kit: Any, module: str) -> None:
    from wasmtime import wat2wasm

    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(bytes(wat2wasm(module))), b"")
        assert caught.value.rule == "valid"
        await kit.assert_whole(pool)


async def test_endless_provider_calls_end_at_the_count(kit: Any) -> None:
    body = """(data (i32.const 0) "p")
      (func (export "run") (param i32 i32) (result i64)
        (loop (drop (call $provider_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
                                         (i32.const 0) (i32.const 0))) (br 0))
        (i64.const 0))"""
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(body, {"p": nothing}, calls=50)) == "calls"
        assert pool.statistics().calls == 51
        # Fuel bounds it too: a host call costs far more than the instructions around it.
        assert await trap_of(pool, kit.make(body, {"p": nothing}, fuel=50_000)) == "out_of_fuel"
        await kit.assert_whole(pool)


async def test_a_guest_that_goes_on_after_it_was_stopped_is_still_stopped(kit: Any) -> None:
    """No loop and no call follows, so no fuel check either: it returns, and it does not count."""
    body = """(func (export "run") (param i32 i32) (result i64)
        (drop (call $provider_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
                                   (i32.const 0) (i32.const 0)))
        (i64.const 0))"""
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(body)) == "unknown_provider"
        await kit.assert_whole(pool)


async def test_a_response_larger_than_the_staging_cap_ends_the_run(kit: Any) -> None:
    async def p(request: bytes) -> bytes:
        return bytes(2000)

    async with CellPool(1) as pool:
        huge = kit.make(kit.ASK, {"p": p}, staged_bytes=1999)
        assert await trap_of(pool, huge, b"") == "staged_bytes"
        await kit.assert_whole(pool)


async def test_memory_that_grows_while_a_response_is_taken_is_measured_again(kit: Any) -> None:
    body = """(data (i32.const 0) "p")
      (func (export "run") (param i32 i32) (result i64)
        (drop (call $provider_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
                                   (i32.const 0) (i32.const 0)))
        (drop (memory.grow (i32.const 1)))
        (i64.or (i64.const 0x1000000000000)
                (call $provider_take (i32.const 65536) (i32.const 65536))))"""

    async def p(request: bytes) -> bytes:
        return b"landed beyond the first page"

    async with CellPool(1) as pool:
        assert await pool.run(kit.make(body, {"p": p}), b"") == b"landed beyond the first page"
        await kit.assert_whole(pool)


async def test_a_start_function_may_not_call_the_host(kit: Any) -> None:
    body = kit.RUN + "(func $s (call $log (i32.const 0) (i32.const 1))) (start $s)"
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(body)) == "call_in_start"
        await kit.assert_whole(pool)


async def test_an_input_beyond_the_staging_cap_is_refused(kit: Any) -> None:
    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(kit.ECHO, staged_bytes=10), bytes(11))
        assert (caught.value.rule, caught.value.where) == ("staged_bytes", "input")
        await kit.assert_whole(pool)


async def test_escape_codes_of_a_guest_reach_neither_errors_nor_logs(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trouper.cells.guest")
    body = r"""(data (i32.const 0) "\1b[2Jred\0aline")
      (func $"\1b[31mevil\0a" (unreachable))
      (func (export "run") (param i32 i32) (result i64)
        (call $log (i32.const 0) (i32.const 12)) (call $"\1b[31mevil\0a") (i64.const 0))"""
    async with CellPool(1) as pool:
        with pytest.raises(GuestTrapped) as caught:
            await pool.run(kit.make(body, name="loud"), b"")
        assert caught.value.kind == "unreachable"
        assert "evil" in str(caught.value)
        assert str(caught.value).isprintable()
        assert caplog.messages == ["loud: \\u{1b}[2Jred\\u{a}line"]
        await kit.assert_whole(pool)


async def test_log_text_is_capped(kit: Any) -> None:
    body = """(func (export "run") (param i32 i32) (result i64)
      (loop (call $log (i32.const 0) (i32.const 100)) (br 0)) (i64.const 0))"""
    async with CellPool(1) as pool:
        assert await trap_of(pool, kit.make(body, log_bytes=1000)) == "log_bytes"
        await kit.assert_whole(pool)


async def test_webassembly_text_is_refused(kit: Any) -> None:
    async with CellPool(1) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(b"(module)"), b"")
        assert caught.value.rule == "magic"
        await kit.assert_whole(pool)


async def test_two_cells_that_fail_at_full_speed_never_swap_their_errors(kit: Any) -> None:
    """wasmtime-py keeps a host function's exception in a global that any trap picks up."""

    async def fails(request: bytes) -> bytes:
        raise KeyError(request)

    raises, traps = (
        kit.make(kit.ASK, {"p": fails}),
        kit.make(kit.RUN.replace("(i64.const 0)", "unreachable")),
    )
    bad: list[BaseException] = []

    async def provider_errors() -> None:
        for number in range(150):
            try:
                await pool.run(raises, b"%d" % number)
            except KeyError as error:
                if error.args != (b"%d" % number,):
                    bad.append(error)

    async def pure_traps() -> None:
        for _ in range(150):
            try:
                await pool.run(traps, b"")
            except GuestTrapped as error:
                if error.kind != "unreachable":
                    bad.append(error)

    async with CellPool(2) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider_errors)
            nursery.start_soon(pure_traps)
        assert bad == []
        assert pool.statistics().runs == 300
        await kit.assert_whole(pool)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("(func)" * 50, "functions"),
        (f"(func {'(local i32)' * 300})", "locals"),
        (f"(func {'(drop (i32.const 1))' * 200})", "body_bytes"),
        ("".join(f'(export "e{i}" (memory 0))' for i in range(70)), "exports"),
        ("(global i32 (i32.const 0))" * 40, "globals"),
        ('(data "x")' * 40, "segments"),
    ],
)
async def test_a_module_that_declares_too_much_is_refused_unread(
    kit: Any, body: str, rule: str
) -> None:
    tight = AdmissionLimits(functions=20, locals=100, body_bytes=400, globals=10, segments=10)
    async with CellPool(1, admission=tight) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(kit.RUN + body), b"")
        assert caught.value.rule == rule
        await kit.assert_whole(pool)
