"""One failure out of many exceptions."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trouper.supervision import join_failures, unwrap


async def cancelled() -> trio.Cancelled:
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as exc:
            caught = exc
            raise
    return caught


async def test_cancellation_is_no_failure() -> None:
    one = await cancelled()
    assert unwrap(one) is None
    assert unwrap(BaseExceptionGroup("", [one, BaseExceptionGroup("", [one])])) is None


@pytest.mark.proves("Failure: with the cause attached")
async def test_groups_of_one_are_peeled_also_after_cancellation_is_taken_out() -> None:
    error, one = ValueError("x"), await cancelled()
    nested = BaseExceptionGroup("", [one, BaseExceptionGroup("", [one, error])])
    assert unwrap(nested) is error
    assert unwrap(error) is error


def test_groups_of_several_stay() -> None:
    group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    assert unwrap(group) is not None
    assert isinstance(unwrap(group), ExceptionGroup)


async def test_body_and_child_failure_together_are_one_group() -> None:
    body, failure = KeyError("body"), ValueError("child")
    joined: Any = join_failures("system s", body, failure)
    assert joined.exceptions == (body, failure)
    assert join_failures("s", body, None) is body
    assert join_failures("s", None, failure) is failure
    assert join_failures("s", None, None) is None


async def test_a_body_that_was_only_cancelled_adds_nothing() -> None:
    failure = ValueError("child")
    assert join_failures("s", await cancelled(), failure) is failure


def test_two_keyboard_interrupts_are_one() -> None:
    first = KeyboardInterrupt()
    assert join_failures("s", KeyboardInterrupt(), first) is first
