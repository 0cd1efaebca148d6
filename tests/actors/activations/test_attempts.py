"""Attempts of single steps: budget and back-off are facts of the journal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from trouper import Activation, Backoff, EffectContext, Reject, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations import signals
from trouper.actors.activations._rows import TABLE, StepRow, step_key
from trouper.actors.groups import _timer
from trouper.errors import ActivationCancelled, EffectFailed, OutcomeUnknown, ShuttingDown
from trouper.store import MemoryStore, Store

EVERY_MINUTE = Backoff(60, factor=1, cap=60, jitter=0)


@pytest.fixture(autouse=True)
def utc_runs_with_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let journaled time pass between two systems as the test's clock says."""
    utc = SimpleNamespace(time=lambda: 1.7e9 + trio.current_time())
    monkeypatch.setattr(_timer, "time", utc)


class Scene:
    """A durable function around one effect that follows a script; behind its end it succeeds."""

    def __init__(self, *script: Any, **options: Any) -> None:
        self.script = list(script)
        self.seen: list[tuple[int, int]] = []
        self.begun = trio.Event()
        options = {"attempts": 3, "backoff": EVERY_MINUTE, **options}

        @effect(name="play", **options)
        async def play(ctx: EffectContext) -> str:
            self.seen.append((ctx.attempt, ctx.failures))
            self.begun.set()
            line = self.script.pop(0) if self.script else "done"
            if isinstance(line, trio.Event):
                await line.wait()
            if isinstance(line, BaseException):
                raise line
            return "done"

        @effect(name="note")
        async def note() -> str:
            return "noted"

        @durable(name="one")
        async def one(act: Activation) -> list[str]:
            try:
                return [await act.call(note), await act.call(play), await act.call(note)]
            except signals.ActivationCancelled:
                await act.call(note)
                raise

        self.one = one
        self.options: dict[str, Any] = {
            "effects": [play, note],
            "activities": [one],
            "shutdown": 0,
        }

    def open(self, store: Store) -> Any:
        return open_system("t", store=store, **self.options)

    async def run(self, store: Store) -> list[str]:
        async with self.open(store) as system:
            return list(await system.run(self.one, key="k"))


DONE = ["noted", "done", "noted"]


def step_of(store: Store) -> StepRow | None:
    return store.get(TABLE, step_key("k#0", 1), StepRow)


async def in_backoff(store: Store, failures: int = 1) -> StepRow:
    while True:
        row = step_of(store)
        if row is not None and row.failures >= failures:
            await trio.testing.wait_all_tasks_blocked()
            return row
        await trio.lowlevel.checkpoint()


async def test_a_failed_step_is_tried_again_after_the_back_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    scene, start = Scene(OSError("1"), OSError("2")), trio.current_time()
    assert await scene.run(MemoryStore(debug=True)) == DONE
    assert scene.seen == [(1, 0), (2, 1), (3, 2)]
    assert trio.current_time() - start == pytest.approx(120)


async def test_the_last_failure_is_thrown_into_the_function(
    autojump_clock: trio.testing.MockClock,
) -> None:
    scene = Scene(OSError("1"), OSError("2"), OSError("3"))
    with pytest.raises(EffectFailed, match="OSError: 3"):
        await scene.run(MemoryStore())


async def test_a_refusal_is_thrown_at_once() -> None:
    scene = Scene(Reject("no"))
    with pytest.raises(Reject, match="no"):
        await scene.run(MemoryStore())
    assert scene.seen == [(1, 0)]


async def test_a_timeout_is_retried_and_the_last_one_is_an_unknown_outcome(
    autojump_clock: trio.testing.MockClock,
) -> None:
    assert await Scene(trio.Event(), timeout=5).run(MemoryStore()) == DONE
    scene = Scene(trio.Event(), trio.Event(), timeout=5, attempts=2)
    with pytest.raises(OutcomeUnknown, match="'k#0/1'"):
        await scene.run(MemoryStore())
    assert scene.seen == [(1, 0), (2, 1)]


async def test_leaving_the_block_in_the_back_off_writes_nothing_and_the_due_instant_stands(
    store: Store, mock_clock: trio.testing.MockClock
) -> None:
    first, second = Scene(OSError()), Scene()
    async with first.open(store) as system:
        system.start(first.one, key="k")
        before = await in_backoff(store)
    mock_clock.jump(45)
    async with second.open(store) as system:
        assert step_of(store) == before, "nothing but the wait begins again"
        mock_clock.jump(14)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert second.seen == []
        mock_clock.jump(2)
        assert await system.run(second.one, key="k") == DONE
    assert (first.seen, second.seen) == ([(1, 0)], [(2, 1)])


async def test_a_cancel_in_the_back_off_is_seen_at_once(store: Store) -> None:
    scene = Scene(OSError())
    async with scene.open(store) as system:
        handle = system.start(scene.one, key="k")
        await in_backoff(store)
        system.cancel("k")
        with pytest.raises(ActivationCancelled):
            await handle.result()
        assert system.statistics().running == 0, "the wait is over too"
    assert scene.seen == [(1, 0)]


async def test_a_step_whose_attempts_died_with_their_process_has_its_whole_budget(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore(debug=True)
    for attempt in range(1, 5):
        scene = Scene(trio.Event(), attempts=2)
        async with scene.open(store) as system:
            system.start(scene.one, key="k")
            await scene.begun.wait()
        assert scene.seen == [(attempt, 0)]
    scene = Scene(OSError("1"), OSError("2"), attempts=2)
    with pytest.raises(EffectFailed, match="OSError: 2"):
        await scene.run(store)
    assert scene.seen == [(5, 0), (6, 1)]


class CrashAt:
    """Crashes a store behind its k-th commit, and ends the runtime that used it."""

    def __init__(self, store: MemoryStore, k: int) -> None:
        self.scope, self.left = trio.CancelScope(), k
        self._store = store
        store.probe = self

    def __call__(self, point: str) -> None:
        if point == "committed":
            self.left -= 1
            if self.left == 0:
                self._store.crash()
                self._store.probe = None
                self.scope.cancel()


async def test_a_crash_at_any_commit_resets_neither_budget_nor_back_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for k in range(1, 100):
        store, first, second = MemoryStore(max_batch=1), Scene(OSError(), OSError()), Scene()
        crash = CrashAt(store, k)
        try:
            with crash.scope:
                await first.run(store)
        except* ShuttingDown:
            pass
        if crash.left > 0:
            break
        async with store:
            known = step_of(store)
        failures = known.failures if known else 0
        second.script = [OSError()] * (2 - failures)
        now = trio.current_time()
        assert await second.run(store) == DONE
        if known is None or not known.outcome:
            attempts = known.attempt if known else 0
            more = 3 - failures
            assert second.seen == [(attempts + n + 1, failures + n) for n in range(more)]
            if known and known.due:
                waited = trio.current_time() - now
                left = max(0.0, known.due - (1.7e9 + now))
                assert waited == pytest.approx(left + 60 * (more - 1), abs=1e-3)
        else:
            assert second.seen == []
    assert k > 8


async def test_how_often_a_step_was_tried_can_be_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store, scene = MemoryStore(), Scene(OSError())
    await scene.run(store)
    async with store:
        found = {view.name: view.attempts for view in inspect.effects(store)}
    assert found["play"] == 2


@pytest.mark.parametrize(("answer", "failures"), [("done", 0), (OSError("no route"), 1)], ids=repr)
async def test_what_an_attempt_came_to_in_the_grace_of_a_shutdown_is_recorded(
    answer: Any, failures: int, store: Store, autojump_clock: trio.testing.MockClock
) -> None:
    scene = Scene()

    @effect(name="play", attempts=2, backoff=EVERY_MINUTE)
    async def play() -> str:
        scene.begun.set()
        await trio.sleep(1)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    @durable(name="one")
    async def one(act: Activation) -> str:
        return await act.call(play)

    async with open_system("t", store=store, effects=[play], activities=[one]) as system:
        system.start(one, key="k")
        await scene.begun.wait()
    async with store:
        row = store.get(TABLE, step_key("k#0", 0), StepRow)
    assert row is not None
    assert (row.attempt, row.failures, bool(row.outcome)) == (1, failures, failures == 0)
