"""How a failing schedule is told, and whose frames its traceback shows."""

from __future__ import annotations

import traceback

import pytest
import trio

from trouper.testing.schedules import Constraint, Event, Failure, Footprint, Rules, Trace
from trouper.testing.schedules._frames import own_frames

A = Event("deliver", "store", "d1", "Max")
B = Event("deliver", "store", "d0", "Put")
OTHER = Event("deliver", "other", "d0", "Put")
CRASH = Event("crash", "journal")


def failing(*events: Event, needs_tape: bool = False, constraints: int = 1) -> Failure:
    trace = Trace(Rules())
    trace.born([event for event in events if event.kind != "crash"])
    steps = [trace.append(event, Footprint()) for event in events]
    return Failure(
        ValueError("wrong"),
        (Constraint(A, B),) * constraints,
        tuple(steps),
        "T1.token",
        "pytest x --schedule-replay T1.token",
        "schedule 3 of 9",
        needs_tape,
    )


def test_a_story_gives_reasons_orders_token_command_and_progress_in_this_order() -> None:
    assert failing(A, OTHER, B).story().splitlines() == [
        "at `store`: d1's Max before d0's Put",
        "",
        "  store  d1's Max, d0's Put",
        "",
        "T1.token",
        "pytest x --schedule-replay T1.token",
        "schedule 3 of 9",
    ]


def test_the_text_begins_with_what_was_raised() -> None:
    failure = failing(A, B)
    assert failure.text() == f"ValueError: wrong\n\n{failure.story()}"


def test_a_crash_stands_in_the_order_of_each_contested_actor() -> None:
    assert failing(A, CRASH).order() == {"store": ["d1's Max", "CRASH"]}


def test_a_whole_schedule_tells_only_its_first_races() -> None:
    lines = failing(A, B, needs_tape=True, constraints=20).story().splitlines()
    assert lines[0].startswith("It takes the whole schedule")
    assert lines.count("at `store`: d1's Max before d0's Put") == 12
    assert lines[13] == "and 8 more"


# --- frames ---------------------------------------------------------------------------------------


async def fails() -> None:
    await trio.lowlevel.checkpoint()
    raise LookupError("mine")


async def in_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails)


def raised(fn: object) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it is
        trio.run(fn)  # type: ignore[arg-type]
    return caught.value


def functions(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_frames_of_the_framework_are_left_out() -> None:
    error = raised(fails)
    assert "run" in functions(error)
    assert own_frames(error) is error
    assert functions(error) == ["raised", "fails"]


def test_the_members_of_a_group_are_told_alike() -> None:
    error = own_frames(raised(in_a_nursery))
    assert isinstance(error, BaseExceptionGroup)
    (inner,) = error.exceptions
    assert functions(inner) == ["fails"]


def test_what_the_framework_did_meanwhile_is_no_context() -> None:
    error = LookupError("mine")
    error.__context__ = TypeError("without a frame of ours")
    assert own_frames(error).__context__ is None


def test_a_context_with_a_frame_of_ones_own_stays() -> None:
    def twice() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise LookupError("then")  # noqa: B904 - a context is what is wanted

    with pytest.raises(LookupError) as caught:
        twice()
    assert isinstance(own_frames(caught.value).__context__, KeyError)


def test_an_error_that_is_its_own_context_ends() -> None:
    one, other = KeyError(), KeyError()
    one.__cause__, other.__cause__ = other, one
    assert own_frames(one) is one


def test_a_whole_schedule_without_a_race_tells_what_happened() -> None:
    lines = failing(A, CRASH, needs_tape=True, constraints=0).story().splitlines()
    assert lines[:3] == [
        "It takes the whole schedule, in which nothing raced:",
        "`store` gets d1's Max",
        "the crash",
    ]
