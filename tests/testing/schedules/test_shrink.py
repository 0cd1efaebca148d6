"""Delta debugging keeps what fails, in order, and nothing that is not needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trouper.testing.schedules import ddmin


@given(st.data(), st.integers(0, 24))
def test_what_is_left_is_what_is_needed(data: st.DataObject, size: int) -> None:
    items = list(range(size))
    needed = set(data.draw(st.lists(st.sampled_from(items), max_size=5))) if items else set()
    assert ddmin(items, lambda part: needed <= set(part), tries=10_000) == sorted(needed)


@given(st.lists(st.integers(0, 3), max_size=16), st.integers(0, 4))
def test_each_item_that_is_left_is_needed_though_failing_is_not_monotone(
    items: list[int], odd: int
) -> None:
    def fails(part: list[int]) -> bool:
        return part == items or (sum(part) % 5 == odd and len(part) > 1)

    left = ddmin(items, fails, tries=10_000)
    assert fails(left)
    it = iter(items)
    assert all(item in it for item in left)  # in their order
    assert not any(fails(left[:n] + left[n + 1 :]) for n in range(len(left)))


@given(st.integers(0, 30))
def test_it_stops_when_its_tries_are_spent_and_what_is_left_fails(tries: int) -> None:
    calls = 0

    def fails(part: list[int]) -> bool:
        nonlocal calls
        calls += 1
        return {3, 17, 31} <= set(part)

    left = ddmin(list(range(40)), fails, tries=tries)
    assert {3, 17, 31} <= set(left)
    assert calls <= tries
