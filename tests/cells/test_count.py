"""The committed guest: what it counts, and that it is what its source says."""

from __future__ import annotations

import importlib.util
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trouper.cells import CellPool, GuestTrapped, guest

GUESTS = Path(__file__).parents[2] / "examples" / "guests"


def reference(data: bytes) -> tuple[int, int, int]:
    words = [word for word in re.split(rb"[\x09-\x0d ]+", data) if word]
    return data.count(b"\n"), len(words), len(data)


def count_of(data: bytes, piece: int) -> tuple[int, ...]:
    async def read(request: bytes) -> bytes:
        (offset,) = struct.unpack("<Q", request[:8])
        assert request[8:] == b"the file"
        return data[offset : offset + piece]

    async def main() -> bytes:
        async with CellPool(1) as pool:
            return await pool.run(guest(GUESTS / "count.wasm", imports={"read": read}), b"the file")

    return struct.unpack("<3Q", trio.run(main))


@settings(max_examples=40, deadline=None)
@example(data=b"", piece=1)
@example(data=b" a\x0b b\xff\n\n", piece=2)
@example(data=b"word " * 20_000, piece=1 << 20)
@given(
    data=st.binary(max_size=300)
    | st.lists(st.sampled_from([b" ", b"\n", b"\t", b"\x0b", b"\x1f", b"a", b"\0"])).map(b"".join),
    piece=st.integers(1, 400),
)
def test_it_counts_what_python_counts(data: bytes, piece: int) -> None:
    assert count_of(data, max(piece, len(data) // 50)) == reference(data)


async def test_an_error_of_the_provider_is_the_error_of_the_run(kit: Any) -> None:
    async def read(request: bytes) -> bytes:
        raise FileNotFoundError(2, "No such file", request[8:].decode())

    async with CellPool(1) as pool:
        with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
            await pool.run(guest(kit.COUNT, imports={"read": read}), b"nowhere.txt")
        await kit.assert_whole(pool)


async def test_an_input_that_it_has_no_room_for_traps(kit: Any) -> None:
    async def read(request: bytes) -> bytes:
        return b""

    async with CellPool(1) as pool:
        with pytest.raises(GuestTrapped, match="unreachable"):
            await pool.run(guest(kit.COUNT, imports={"read": read}), bytes(4097))
        await kit.assert_whole(pool)


def test_the_binary_is_what_its_source_builds(tmp_path: Path) -> None:
    python = sys.executable if importlib.util.find_spec("ziglang") else None
    if python is None:
        pytest.skip("ziglang is not installed: count.wasm is not rebuilt from count.c")
    header = (GUESTS / "trouper_guest.h").read_text()
    command = re.search(r"python (-m ziglang cc .*?) -o guest\.wasm", header, re.DOTALL)
    assert command is not None
    words = command[1].replace("\\\n *", " ").split()
    built = tmp_path / "count.wasm"
    subprocess.run(
        [python, *words, "-o", str(built), str(GUESTS / "count.c")], check=True, timeout=120
    )
    assert built.read_bytes() == (GUESTS / "count.wasm").read_bytes()
