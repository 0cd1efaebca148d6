"""Durable functions over the journal: what settled stays settled, and live equals replay."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio

from trouper import Activation, Reject, durable, effect, open_system
from trouper.actors import inspect
from trouper.actors.activations import Durable
from trouper.actors.groups import EffectContext
from trouper.errors import (
    ActivationMismatch,
    EffectFailed,
    ReplayMismatch,
    ShuttingDown,
    StoreClosed,
    UnknownActivity,
    ValueRefused,
)
from trouper.store import MemoryStore, Store


class NoFunds(Reject):
    """A user's own error: a definite answer with a fact."""

    cents: int


LOG: Any = None  # the test's own log; module-level effects write to it


@pytest.fixture(autouse=True)
def own_log(log: Any) -> None:
    global LOG
    LOG = log


@effect
async def add(a: int, b: int) -> int:
    LOG.append(("add", a, b))
    return a + b


@effect
async def subtract(a: int, b: int) -> int:
    return a - b


@effect
def in_thread(n: int) -> int:
    trio.from_thread.run_sync(LOG.append, ("in_thread", n))
    return n * 10


@effect
async def refuse(cents: int) -> None:
    LOG.append(("refuse", cents))
    raise NoFunds(f"short of {cents}", cents=cents)


@effect
async def break_down() -> None:
    LOG.append("break_down")
    raise LookupError("no such card")


@effect
async def hold(ctx: EffectContext, name: str) -> str:
    LOG.append(("hold", name, ctx.attempt))
    await trio.sleep_forever()
    raise AssertionError("unreachable")


@effect
async def odd_value() -> Any:
    return {1, 2}


def seen(error: BaseException) -> list[Any]:
    """Everything of an error that user code can see."""
    facts = getattr(error, "facts", None)
    return [type(error).__name__, str(error), facts]


@durable
async def child(act: Activation, n: int) -> int:
    return await act.call(in_thread, await act.call(add, n, 1))


@durable
async def everything(act: Activation) -> list[Any]:
    out: list[Any] = [await act.call(add, 1, 2)]
    out.append(await act.all_of(*[act.call(child, n) for n in range(3)]))
    won = await act.race(act.call(hold, "loser"), act.call(in_thread, 4), losers="cancel")
    out.append([won.position, won.value, won.rank])
    try:
        await act.call(refuse, 9)
    except NoFunds as error:
        out.append(seen(error))
    out.append(await act.all_of())
    out.append([act.now() > 0, len(act.new_id()), 0 <= act.random() < 1])
    await act.sleep(0)
    out.append(await act.call(child, 7))
    return out


async def test_a_finished_activation_returns_its_stored_result(store: Store) -> None:
    async with open_system("t", store=store) as system:
        first = await system.run(everything, key="k")
    executed = list(LOG)
    async with open_system("t", store=store) as system:
        assert await system.run(everything, key="k") == first
    assert executed == LOG


async def test_values_and_errors_of_a_step_are_equal_on_the_first_run_and_on_replay(
    store: Store,
) -> None:
    told: list[Any] = []

    @durable(name="told")
    async def tell(act: Activation) -> None:
        got: list[Any] = [await act.call(add, 2, 3)]
        for call in (act.call(refuse, 5), act.call(break_down), act.call(odd_value)):
            try:
                await call
            except Exception as error:
                got.append(seen(error))
        for outcome in await act.all_settled(act.call(refuse, 6), act.call(break_down)):
            got.append(seen(outcome.exception()))  # type: ignore[union-attr]
        try:
            await act.all_of(act.call(add, 1, 1), act.call(refuse, 7))
        except NoFunds as error:
            got.append(error.cents)
        told.append([*got, act.now(), act.new_id(), act.random()])
        await act.call(hold, "here")

    for attempt in (1, 2):
        async with open_system("t", store=store, activities=[tell], shutdown=0) as system:
            system.start(tell, key="k")
            await LOG.until(("hold", "here", attempt))
    first, again = told
    assert first == again
    kinds = [entry[0] for entry in first[1:4]]
    assert kinds == ["NoFunds", "EffectFailed", "ValueRefused"]
    assert first[1][2] == {"cents": 5}
    assert {**first[2][2], "where": ""} == {
        "type": "builtins.LookupError",
        "text": "no such card",
        "where": "",
    }
    assert first[2][2]["where"].startswith("test_replay.py:")


async def test_leaving_the_block_journals_no_cancelled(store: Store) -> None:
    async with open_system("t", store=store, shutdown=0) as system:
        handle = system.start(racing, key="k")
        await LOG.until(("hold", "a", 1), ("hold", "b", 1))
    with pytest.raises(ShuttingDown):
        await handle.result()
    async with store:
        assert [a.state for a in inspect.activations(store)] == ["running"]
        assert {e.state for e in inspect.effects(store)} == {"open"}


@durable
async def racing(act: Activation) -> int:
    won = await act.race(act.call(hold, "a"), act.call(hold, "b"), losers="cancel")
    return won.position


async def test_unfinished_activations_resume_when_the_system_opens(store: Store) -> None:
    opened, started = trio.Event(), trio.Event()
    runs: list[int] = []

    @effect(name="gated")
    async def gated(ctx: EffectContext) -> int:
        runs.append(ctx.attempt)
        started.set()
        await opened.wait()
        return ctx.attempt

    @durable(name="resumes")
    async def resumes(act: Activation) -> list[int]:
        return [await act.call(add, 1, 1), await act.call(gated), await act.call(add, 2, 2)]

    local: dict[str, Any] = {"effects": [gated], "activities": [resumes], "shutdown": 0}
    async with open_system("t", store=store, **local) as system:
        system.start(resumes, key="k")
        await started.wait()
    opened.set()
    async with open_system("t", store=store, **local) as system:
        assert await system.run(resumes, key="k") == [2, 2, 4]
    assert runs == [1, 2]
    assert LOG == [("add", 1, 1), ("add", 2, 2)]


async def test_a_key_belongs_to_one_activity_with_one_set_of_arguments(store: Store) -> None:
    async with open_system("t", store=store) as system:
        assert await system.run(child, 1, key="k") == 20
        with pytest.raises(ActivationMismatch, match="arguments"):
            await system.run(child, 2, key="k")
        with pytest.raises(ActivationMismatch, match="activity"):
            await system.run(everything, key="k")


async def test_arguments_outside_the_profile_are_refused_where_they_are_given(
    store: Store,
) -> None:
    async with open_system("t", store=store) as system:
        with pytest.raises(ValueRefused):
            await system.run(child, {1}, key="k")  # type: ignore[arg-type]
        assert system.status("k") == "unknown"


def versions(change: str) -> Durable[[], list[int]]:
    """The same durable function as two deployments know it."""

    @durable(name="versioned")
    async def old(act: Activation) -> list[int]:
        first = await act.call(add, 1, 2)
        await act.call(hold, "old")
        return [first]

    @durable(name="versioned")
    async def new(act: Activation) -> list[int]:
        if change == "argument":
            return [await act.call(add, 1, 3)]
        if change == "effect":
            return [await act.call(subtract, 1, 2)]
        if change == "group":
            return await act.all_of(act.call(add, 1, 2))
        return [await act.call(add, 1, 2), await act.call(add, 5, 5)]

    return old if change == "none" else new


@pytest.mark.parametrize(
    ("change", "field"), [("argument", "arguments"), ("effect", "name"), ("group", "step")]
)
async def test_a_drifted_step_is_a_mismatch_that_names_it_and_fails_nothing(
    store: Store, change: str, field: str
) -> None:
    old, new = versions("none"), versions(change)
    async with open_system("t", store=store, activities=[old], shutdown=0) as system:
        system.start(old, key="k")
        await LOG.until(("hold", "old", 1))
    async with open_system("t", store=store, activities=[new]) as system:
        with pytest.raises(ReplayMismatch, match="step 0") as raised:
            await system.run(new, key="k")
        assert raised.value.field == field
        assert system.status("k") == "stuck"
    async with store:
        assert [a.state for a in inspect.activations(store)] == ["running"]


async def test_an_unknown_activity_stays_parked_and_visible_and_resumes_when_known(
    store: Store,
) -> None:
    old = versions("none")
    async with open_system("t", store=store, activities=[old], shutdown=0) as system:
        system.start(old, key="k")
        await LOG.until(("hold", "old", 1))
    async with open_system("t", store=store) as system:
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert system.status("k") in ("stuck", "unroutable")
    repaired = versions("extended")
    # "hold" was recorded as step 1; the repaired code must offer it there.
    async with open_system("t", store=store, activities=[repaired]) as system:
        with pytest.raises(ReplayMismatch, match="step 1"):
            await system.run(repaired, key="k")


async def test_a_local_activity_must_be_listed(store: Store) -> None:
    async with open_system("t", store=store) as system:
        with pytest.raises(UnknownActivity, match="activities="):
            system.start(versions("none"), key="k")


CrashPoint = Literal["before_commit", "committed"]


class CrashAt:
    """Crashes a store at the k-th passage of a point, and ends the runtime that used it."""

    def __init__(self, store: MemoryStore, point: CrashPoint, k: int) -> None:
        self.scope = trio.CancelScope()
        self._store = store
        self._point = point
        self._left = k
        store.probe = self

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._store.crash()
                self._store.probe = None
                self.scope.cancel()

    @property
    def crashed(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize("keep_groups", [False, True])
@pytest.mark.parametrize("point", ["before_commit", "committed"])
async def test_for_every_prefix_of_the_journal_replay_ends_in_the_same_result(
    point: CrashPoint, keep_groups: bool
) -> None:
    """Crash at the k-th commit, for every k: same result, and nothing settled runs again."""
    options: dict[str, Any] = {"keep_groups": keep_groups}
    async with open_system("t") as system:
        expected = await system.run(everything, key="k")
    prefixes = 0
    for k in range(1, 200):
        store = MemoryStore(max_batch=1)
        crash = CrashAt(store, point, k)
        await run_until(crash, store, **options)
        if not crash.crashed:
            break
        prefixes += 1
        async with store:
            before = {e.key: e for e in inspect.effects(store)}
        async with open_system("t", store=store, **options) as system:
            assert await system.run(everything, key="k") == expected
        async with store:
            after = {e.key: e for e in inspect.effects(store)}
        for key, seen_before in before.items():
            if seen_before.settled and (keep_groups or key in after):
                assert after[key] == seen_before
    assert prefixes > 15


async def run_until(crash: CrashAt, store: MemoryStore, **options: Any) -> None:
    try:
        with crash.scope:
            async with open_system("t", store=store, shutdown=0, **options) as system:
                await system.run(everything, key="k")
    except* (StoreClosed, ShuttingDown):
        assert crash.crashed


async def test_a_history_is_in_the_journal_once_per_step(store: Store) -> None:
    async with open_system("t", store=store) as system:
        await system.run(child, 1, key="k")
    async with store:
        found = inspect.activations(store)
        assert [(row.key, row.units, row.state) for row in found] == [("k", 3, "completed")]


async def test_an_effect_error_that_ends_the_function_is_its_result(store: Store) -> None:
    @durable(name="fails")
    async def fails(act: Activation) -> None:
        await act.call(break_down)

    for _ in range(2):
        async with open_system("t", store=store, activities=[fails]) as system:
            with pytest.raises(EffectFailed, match="no such card") as raised:
                await system.run(fails, key="k")
            assert raised.value.type == "builtins.LookupError"
    assert LOG == ["break_down"]
