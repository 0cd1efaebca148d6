"""The border, against a memory that remembers every access."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trouper.cells import GuestLimits
from trouper.cells._shim import CALL_FUEL, Bridge, Halt, Shim, checked_range, printable

I32 = st.integers(-(1 << 31), (1 << 31) - 1)


class Memory:
    """A guest's memory that fails the test on an access out of bounds."""

    def __init__(self, size: int, fuel: int = 10**9) -> None:
        self.data = bytearray(size)
        self.left = fuel

    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        assert 0 <= start <= start + length <= len(self.data)
        return bytes(self.data[start : start + length])

    def write(self, start: int, data: bytes) -> None:
        assert 0 <= start <= start + len(data) <= len(self.data)
        self.data[start : start + len(data)] = data

    def fuel(self) -> int:
        return self.left

    def set_fuel(self, fuel: int) -> None:
        assert fuel >= 0
        self.left = fuel


def shim(answer: bytes | None = b"answer", fuel: int = 10**9, **limits: int) -> Shim:
    made = Shim(GuestLimits(**limits), frozenset({"p"}), Bridge(), lambda name, request: answer)
    memory = Memory(1000, fuel)
    memory.data[:1] = b"p"
    made.port = memory
    return made


@given(pointer=I32, length=I32, size=st.integers(0, 1 << 32), most=st.integers(0, 1 << 32))
@example(pointer=-10, length=4, size=1000, most=1000)
@example(pointer=-1, length=1, size=1 << 32, most=1)
@example(pointer=996, length=4, size=1000, most=4)
def test_a_range_is_inside_the_memory_or_refused(
    pointer: int, length: int, size: int, most: int
) -> None:
    unsigned = pointer % (1 << 32), length % (1 << 32)
    fits = unsigned[1] <= most and sum(unsigned) <= size
    try:
        assert checked_range(pointer, length, size, most) == unsigned
        assert fits
    except Halt:
        assert not fits


@given(numbers=st.tuples(I32, I32, I32, I32, I32, I32), answer=st.binary(max_size=50))
def test_no_numbers_reach_outside_the_memory(
    numbers: tuple[int, int, int, int, int, int], answer: bytes
) -> None:
    made = shim(answer)
    for call in (
        lambda: made.provider_call(0, 1, *numbers[2:]),
        lambda: made.provider_call(*numbers),
        lambda: made.provider_take(*numbers[:2]),
        lambda: made.log(*numbers[:2]),
    ):
        with contextlib.suppress(Halt):
            call()


@given(answer=st.binary(max_size=100), rooms=st.lists(st.integers(0, 40), max_size=8))
def test_the_parts_of_a_response_are_the_response(answer: bytes, rooms: list[int]) -> None:
    made = shim(answer)
    assert isinstance(made.port, Memory)
    assert made.provider_call(0, 1, 0, 0, 100, 7) == len(answer)
    got = bytes(made.port.data[100 : 100 + min(7, len(answer))])
    for room in rooms:
        count = made.provider_take(200, room)
        got += made.port.data[200 : 200 + count]
    assert got == answer[: 7 + sum(rooms)]


def test_a_call_costs_fuel_and_the_bytes_it_moves() -> None:
    made = shim(b"12345")
    assert made.port is not None
    made.provider_call(0, 1, 0, 10, 100, 3)
    assert made.port.fuel() == 10**9 - CALL_FUEL - 10 - 3
    made.provider_take(100, 100)
    assert made.port.fuel() == 10**9 - 2 * CALL_FUEL - 10 - 5


def test_a_call_that_the_fuel_does_not_carry_asks_nobody() -> None:
    made = shim(fuel=CALL_FUEL + 9)
    with pytest.raises(Halt) as caught:
        made.provider_call(0, 1, 0, 10, 100, 3)
    assert caught.value.kind == "out_of_fuel"


def test_a_dying_run_asks_nobody() -> None:
    made = shim()
    made.bridge.dying = True
    with pytest.raises(Halt) as caught:
        made.provider_call(0, 1, 0, 0, 0, 0)
    assert caught.value.kind == "killed"


def test_the_first_reason_stays() -> None:
    made = shim()
    assert made.port is not None
    made.halt("calls")
    made.halt("bad_pointer")
    assert (made.kind, made.fuel_left, made.port.fuel()) == ("calls", 10**9, 0)
    with pytest.raises(Halt, match="calls"):
        made.log(0, 0)


@given(st.text())
def test_shown_text_is_printable(text: str) -> None:
    shown = printable(text, 50)
    assert shown.isprintable()
    if text.isprintable() and len(text) <= 50:
        assert shown == text
