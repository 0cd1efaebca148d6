"""Describing a guest costs nothing and refuses what could never run."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

from trouper.cells import AdmissionLimits, Guest, GuestLimits, guest


async def provider(request: bytes) -> bytes:
    return request


def test_the_durable_name_is_the_stem_of_the_file_unless_given() -> None:
    assert guest("some/where/count.wasm").name == "count"
    assert guest(Path("count.wasm"), name="words").name == "words"


def test_a_module_in_a_bytearray_is_one_in_bytes() -> None:
    module = bytearray(b"\0asm")  # the type that wasmtime.wat2wasm returns
    assert guest(module, name="g").source() == guest(b"\0asm", name="g").source()


@pytest.mark.parametrize("value", [1.5, 65536.0, float("nan"), float("inf"), True, "1", 0])
@pytest.mark.parametrize("limits", [GuestLimits, AdmissionLimits])
def test_a_limit_is_a_whole_number_before_it_reaches_a_cell(limits: Any, value: Any) -> None:
    for field in dataclasses.fields(limits):
        if field.type == "int":
            with pytest.raises(ValueError, match=rf"{field.name} must be a positive whole number"):
                limits(**{field.name: value})


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "1", False])
def test_a_limit_in_seconds_is_a_finite_number(seconds: Any) -> None:
    with pytest.raises(ValueError, match="compile_seconds must be a positive number"):
        AdmissionLimits(compile_seconds=seconds)


def test_a_module_in_bytes_needs_a_name() -> None:
    with pytest.raises(ValueError, match="name="):
        guest(b"\0asm")


def test_a_guest_says_what_it_takes_and_returns() -> None:
    described = guest("count.wasm")
    assert (described.parameters, described.returns) == ((bytes,), bytes)
    assert repr(described) == "<guest count>"


async def test_a_guest_does_not_run_by_being_called() -> None:
    with pytest.raises(TypeError, match=r"pool\.run"):
        await guest("count.wasm")(b"")


@pytest.mark.parametrize("name", ["", "two\nlines"])
def test_a_name_is_printable(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        guest("count.wasm", name=name)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_a_deadline_is_positive(seconds: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        guest("count.wasm", deadline=seconds)


@pytest.mark.parametrize("name", ["", "x" * 65, "a\x1b"])
def test_an_import_s_name_is_short_and_printable(name: str) -> None:
    with pytest.raises(ValueError, match="import name"):
        guest("count.wasm", imports={name: provider})


def test_an_import_is_a_function_of_one_or_two_arguments() -> None:
    bad: list[Any] = [None, lambda: b"", lambda a, b, c: b""]
    for each in bad:
        with pytest.raises(TypeError):
            guest("count.wasm", imports={"p": each})


def test_the_kind_of_a_provider_is_read_through_wrappers() -> None:
    class Async:
        async def __call__(self, request: bytes) -> bytes:
            return request

        async def method(self, request: bytes) -> bytes:
            return request

    wrapped = functools.partial(provider)
    kinds: dict[str, Any] = {
        "f": provider,
        "p": wrapped,
        "o": Async(),
        "m": Async().method,
        "l": lambda r: r,
    }
    described: Guest = guest("count.wasm", imports=kinds)
    assert {name: each.is_async for name, each in described.imports.items()} == {
        "f": True,
        "p": True,
        "o": True,
        "m": True,
        "l": False,
    }


@pytest.mark.parametrize(
    "limits",
    [
        {"fuel": 0},
        {"fuel": 1 << 63},
        {"fuel": True},
        {"fuel": "many"},
        {"memory": 65537},
        {"memory": 2 << 30},
        {"calls": -1},
        {"staged_bytes": 2 << 30},
    ],
)
def test_a_limit_outside_its_range_is_refused_not_clamped(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        GuestLimits(**limits)


def test_admission_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="exports"):
        AdmissionLimits(exports=0)
