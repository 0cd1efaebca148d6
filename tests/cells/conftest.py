"""Guests for tests, written as WebAssembly text and made binary by ``wasmtime.wat2wasm``.

``wat(body)`` wraps a module body with the ABI's imports, a memory of one page and an ``alloc``
that hands out address 1024; a body that brings its own says which of them to leave out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wasmtime import wat2wasm

from trouper.cells import CellPool, Guest, GuestLimits, guest

IMPORTS = """
  (import "trouper" "provider_call" (func $provider_call
     (param i32 i32 i32 i32 i32 i32) (result i64)))
  (import "trouper" "provider_take" (func $provider_take (param i32 i32) (result i64)))
  (import "trouper" "log" (func $log (param i32 i32)))
"""
MEMORY = '(memory (export "memory") 1)'
ALLOC = '(func (export "alloc") (param i32) (result i32) (i32.const 1024))'
RUN = '(func (export "run") (param i32 i32) (result i64) (i64.const 0))'

# Echoes the input: (ptr << 32) | len.
ECHO = """(func (export "run") (param $p i32) (param $n i32) (result i64)
  (i64.or (i64.shl (i64.extend_i32_u (local.get $p)) (i64.const 32))
          (i64.extend_i32_u (local.get $n))))"""

# Asks provider "p" with the input, room for 64 bytes at 4096, and returns those bytes.
ASK = """(data (i32.const 0) "p")
(func (export "run") (param $p i32) (param $n i32) (result i64)
  (i64.or (i64.const 0x100000000000)
    (call $provider_call (i32.const 0) (i32.const 1) (local.get $p) (local.get $n)
                         (i32.const 4096) (i32.const 64))))"""

SPIN = '(func (export "run") (param i32 i32) (result i64) (loop (br 0)) (i64.const 0))'

# Modules that hold for every transport. What a spinning guest may not stop needs a thread.
BOTH = ("test_attacks", "test_clock", "test_count", "test_pool", "test_system")

COUNT = Path(__file__).parents[2] / "examples" / "guests" / "count.wasm"


def wat(body: str, *, imports: str = IMPORTS, memory: str = MEMORY, alloc: str = ALLOC) -> bytes:
    """Return the binary of a module with this body."""
    return bytes(wat2wasm(f"(module {imports} {memory} {alloc} {body})"))


def make(
    body: str | bytes,
    imports: dict[str, Any] | None = None,
    *,
    name: str = "test",
    deadline: float | None = None,
    parts: dict[str, str] | None = None,
    **limits: int,
) -> Guest:
    """Return a guest of that body, with limits small enough for a test."""
    binary = body if isinstance(body, bytes) else wat(body, **(parts or {}))
    return guest(
        binary, name=name, imports=imports, deadline=deadline, limits=GuestLimits(**limits)
    )


class Kit:
    """What a test module needs, since test files import nothing from each other."""

    make = staticmethod(make)
    wat = staticmethod(wat)
    IMPORTS, MEMORY, ALLOC, RUN = IMPORTS, MEMORY, ALLOC, RUN
    ECHO, ASK, SPIN, COUNT = ECHO, ASK, SPIN, COUNT

    @staticmethod
    async def assert_whole(pool: CellPool) -> None:
        """Assert that every cell of the pool is back, and that it works."""
        seen = pool.statistics()
        assert (seen.free, seen.leased, seen.quarantined) == (seen.cells, 0, 0)
        assert (seen.operations, seen.staged_bytes, seen.stale) == (0, 0, 0)
        echo = make(ECHO)
        for number in range(seen.cells):
            data = b"still here %d" % number
            assert await pool.run(echo, data) == data


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of cells on both transports: one suite, and what it says holds for both."""
    if metafunc.module.__name__.rpartition(".")[2] in BOTH:
        metafunc.parametrize("transport", ["thread", "lock-step"], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what there is only with threads, such as ending a guest in the middle of a loop."""
    items[:] = [
        item
        for item in items
        if item.get_closest_marker("needs_threads") is None
        or getattr(item, "callspec").params.get("transport") == "thread"  # noqa: B009
    ]


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make pools with this transport where the test asks for none."""
    kind: str = getattr(request, "param", "thread")
    options: dict[str, Any] = dict(CellPool.__init__.__kwdefaults__ or {})
    monkeypatch.setattr(CellPool.__init__, "__kwdefaults__", options | {"transport": kind})
    return kind


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


MakeGuest = Callable[..., Guest]
