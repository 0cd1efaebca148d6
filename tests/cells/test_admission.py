"""Admission against bytes that nobody meant to be a module."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from trouper.cells import AdmissionLimits, CellError, CellPool, GuestLimits, GuestRefused, guest
from trouper.cells._sections import check_sections

RULES = {"magic", "version", "format", *(field.name for field in fields(AdmissionLimits))}


@pytest.fixture(scope="module")
def count_binary() -> bytes:
    return (Path(__file__).parents[2] / "examples" / "guests" / "count.wasm").read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, 10_000),
)
def test_mutants_of_a_guest_are_refused_or_bounded(
    count_binary: bytes, edits: list[tuple[int, int]], cut: int | None
) -> None:
    mutant = bytearray(count_binary)
    for place, byte in edits:
        mutant[place % len(mutant)] = byte
    del mutant[cut % len(mutant) if cut is not None else len(mutant) :]

    async def read(request: bytes) -> bytes:
        return b"some words\n" if request[:8] == bytes(8) else b""

    async def main() -> None:
        async with CellPool(1) as pool:
            limits = GuestLimits(fuel=200_000, calls=20)
            try:
                out = await pool.run(
                    guest(bytes(mutant), name="mutant", imports={"read": read}, limits=limits), b"x"
                )
                assert isinstance(out, bytes)
            except CellError as error:
                told = str(error)
                assert told.isprintable()
            seen = pool.statistics()
            assert (seen.free, seen.quarantined) == (1, 0)

    trio.run(main)


@settings(max_examples=200)
@given(tail=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tail: bytes) -> None:
    for data in (tail, b"\0asm\x01\0\0\0" + tail):
        try:
            check_sections(data, AdmissionLimits())
        except GuestRefused as error:
            rule = error.rule
            assert rule in RULES


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "magic"),
        (b"\0as", "magic"),
        (b"\0asm", "version"),
        (b"\0asm\x0d\0\x01\0", "version"),  # a component
        (b"\0asm\x01\0\0\0" + b"\x01", "format"),
        (b"\0asm\x01\0\0\0" + b"\x01\x05\x00", "format"),
        (b"\0asm\x01\0\0\0" + b"\x01\xff\xff\xff\xff\xff\x01", "format"),
        (b"\0asm\x01\0\0\0" + b"\x01\xff\xff\xff\xff\x7f", "format"),
        (b"\0asm\x01\0\0\0" + b"\x03\x05\xff\xff\xff\xff\x0f", "functions"),
        (b"\0asm\x01\0\0\0" + b"\x0a\x03\x01\x7f\x00", "format"),
        (b"\0asm\x01\0\0\0" + b"\x0a\x09\x01\x07\x01\xff\xff\xff\x0f\x7f\x0b", "locals"),
        (b"\0asm\x01\0\0\0" + bytes(100), "module_bytes"),
    ],
)
def test_a_broken_header_names_its_rule(data: bytes, rule: str) -> None:
    with pytest.raises(GuestRefused) as caught:
        check_sections(data, AdmissionLimits(module_bytes=100))
    assert caught.value.rule == rule


async def test_two_callers_of_a_new_guest_both_run(kit: Any) -> None:
    echo = kit.make(kit.ECHO)
    async with CellPool(2) as pool:
        async with trio.open_nursery() as nursery:
            for data in (b"a", b"b"):
                nursery.start_soon(pool.run, echo, data)
        assert pool.statistics().compiled == 1
        assert pool.statistics().compiled_bytes > 0


def large(body: str = "") -> str:
    """Return a body that is compiled apart: more than 16 KiB, and cheap."""
    return '(data (i32.const 0) "' + "x" * 17_000 + '")' + body


async def test_a_large_module_is_compiled_apart_and_runs(kit: Any) -> None:
    async with CellPool(2) as pool:
        assert await pool.run(kit.make(large(kit.ECHO)), b"large") == b"large"
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(large("(func (result i32))")), b"")
        assert caught.value.rule == "valid"
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(large()), b"")
        assert (caught.value.rule, caught.value.where) == ("export", "run")
        await kit.assert_whole(pool)


async def test_two_callers_of_a_large_module_compile_it_once(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    really = trio.run_process

    async def counted(command: Any, **options: Any) -> Any:
        started.append(command)
        return await really(command, **options)

    monkeypatch.setattr(trio, "run_process", counted)
    async with CellPool(2) as pool, trio.open_nursery() as nursery:
        for data in (b"a", b"b"):
            nursery.start_soon(pool.run, kit.make(large(kit.ECHO)), data)
    assert len(started) == 1


async def test_a_compile_bomb_is_killed_at_the_time_cap(kit: Any) -> None:
    step = "(loop (br_if 0 (local.get 1)) (local.set 1 (i32.add (local.get 1) (local.get 2))))"
    bomb = f"(func {'(local i32)' * 2000} {step * 4000})" + kit.RUN
    async with CellPool(1, admission=AdmissionLimits(compile_seconds=0.5)) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(bomb), b"")
        assert caught.value.rule == "compile_seconds"
        await kit.assert_whole(pool)  # and the next module does not wait for the bomb


async def test_a_module_that_needs_too_much_memory_to_compile_is_refused(kit: Any) -> None:
    async with CellPool(1, admission=AdmissionLimits(compile_memory=1 << 20)) as pool:
        with pytest.raises(GuestRefused) as caught:
            await pool.run(kit.make(large(kit.ECHO)), b"")
        assert caught.value.rule == "compile_memory"
        await kit.assert_whole(pool)
