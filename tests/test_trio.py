"""The door to trio's private parts: it works on this trio, and says so when it does not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from types import SimpleNamespace
from typing import Any

import pytest
import sniffio
import trio
import trio.testing

from trouper import _trio
from trouper.errors import InvariantError


async def test_the_self_test_passes_on_the_installed_trio() -> None:
    _trio._checked_version = ""
    _trio.check()
    assert _trio._checked_version == trio.__version__


async def test_a_changed_trio_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trio, "_checked_version", "")
    monkeypatch.setattr(_trio, "cancel_status_of", lambda task: None)
    with pytest.raises(InvariantError, match="an open cancel scope does not show"):
        _trio.check()
    monkeypatch.undo()
    monkeypatch.setattr(_trio, "_checked_version", "")
    monkeypatch.setattr(_trio, "holds_lock", lambda task: False)
    with pytest.raises(InvariantError, match="a held lock does not show"):
        _trio.check()
    monkeypatch.undo()
    monkeypatch.setattr(_trio, "_checked_version", "")
    monkeypatch.setattr(_trio, "call_hidden", lambda fn: fn())
    with pytest.raises(InvariantError, match="works although trio is hidden"):
        _trio.check()
    monkeypatch.undo()
    monkeypatch.setattr(_trio, "_checked_version", "")
    monkeypatch.setattr(_trio, "Trap", lambda abort: SimpleNamespace(message=SimpleNamespace()))
    with pytest.raises(InvariantError, match=r"a wait yields .*, which is more than its abort"):
        _trio.check()


async def test_one_trap_serves_for_many_waits_and_their_cancellation() -> None:
    task = trio.lowlevel.current_task()

    def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        return trio.lowlevel.Abort.SUCCEEDED

    async def wake() -> None:
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.reschedule(task, _trio.WOKEN)

    trap = _trio.Trap(abort)
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wake)
            await _trio.wait_in(trap)
        with trio.CancelScope() as scope:
            scope.cancel()
            await _trio.wait_in(trap)
        assert scope.cancelled_caught


async def test_what_wakes_is_an_outcome_that_can_be_used_again() -> None:
    def generator() -> Generator[int, object, None]:
        while True:
            assert (yield 1) is None

    async def asynchronous() -> AsyncGenerator[int, object]:
        while True:
            assert (yield 2) is None

    plain, other = generator(), asynchronous()
    assert next(plain) == 1
    assert await anext(other) == 2
    for _ in range(2):
        assert _trio.WOKEN.unwrap() is None  # type: ignore[func-returns-value]
        assert _trio.WOKEN.send(plain) == 1
        assert await _trio.WOKEN.asend(other) == 2
    await other.aclose()


async def test_an_open_scope_changes_the_cancel_status() -> None:
    task = trio.lowlevel.current_task()
    before = _trio.cancel_status_of(task)
    scope = trio.CancelScope()
    scope.__enter__()
    assert _trio.cancel_status_of(task) is not before
    scope.__exit__(None, None, None)
    assert _trio.cancel_status_of(task) is before


@pytest.mark.parametrize(
    "probe",
    [
        trio.lowlevel.current_task,
        trio.current_time,
        lambda: trio.CancelScope().__enter__(),
        lambda: trio.open_nursery().__aenter__().send(None),
    ],
)
async def test_trio_raises_at_the_line_that_uses_it_while_hidden(probe: Any) -> None:
    with pytest.raises((RuntimeError, AttributeError)) as raised:
        _trio.call_hidden(probe)
    assert _trio.is_hidden_error(raised.value)


def test_other_errors_are_not_taken_for_trio_being_hidden() -> None:
    assert not _trio.is_hidden_error(RuntimeError("something else"))
    assert not _trio.is_hidden_error(AttributeError("x", name="task", obj=object()))


async def test_everything_is_back_after_hiding_also_after_an_error() -> None:
    task = trio.lowlevel.current_task()
    with pytest.raises(KeyError), _trio.TrioHidden():
        raise KeyError
    assert trio.lowlevel.current_task() is task
    assert sniffio.current_async_library() == "trio"
    await trio.lowlevel.checkpoint()


async def test_async_generators_begun_while_hidden_are_handed_over() -> None:
    begun: list[AsyncGenerator[Any, Any]] = []

    async def generator() -> AsyncGenerator[int]:
        yield 1

    def step() -> AsyncGenerator[int]:
        agen = generator()
        with pytest.raises(StopIteration):
            agen.__anext__().send(None)
        return agen

    agen = _trio.call_hidden(step, firstiter=begun.append)
    assert begun == [agen]
    with pytest.raises(StopIteration):
        agen.aclose().send(None)


def test_hiding_works_outside_of_trio_too() -> None:
    assert _trio.call_hidden(lambda: 3) == 3
