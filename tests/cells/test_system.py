"""Guests as effects of a system: journaled like any other, killed like no other."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from trouper import (
    Activation,
    CellPool,
    EffectFailed,
    GroupShapeError,
    GuestDeadline,
    GuestRefused,
    GuestTrapped,
    LmdbStore,
    MemoryStore,
    NameTaken,
    NoExecutor,
    OutOfFuel,
    Reject,
    TrouperError,
    durable,
    effect,
    open_system,
)
from trouper.actors import inspect
from trouper.actors.groups import _activity, encode_outcome
from trouper.store import Store
from trouper.supervision import TreeNode, render_text

# Asks "p" once and then spins for ever.
ASK_THEN_SPIN = """(data (i32.const 0) "p")
(func (export "run") (param i32 i32) (result i64)
  (drop (call $provider_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)
                             (i32.const 0) (i32.const 0)))
  (loop (br 0)) (i64.const 0))"""
TRAP = '(func (export "run") (param i32 i32) (result i64) unreachable)'
FOREVER = 1 << 40


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")


async def states(store: Store) -> dict[str, tuple[str, int]]:
    """What the journal of a closed system says of each unit of work: its state, its attempts."""
    async with store:
        return {e.name: (e.state, e.attempts) for e in inspect.effects(store)}


# --- outcomes


async def test_a_guest_is_called_like_an_effect_and_its_value_is_kept(
    kit: Any, store: Store
) -> None:
    echo = kit.make(kit.ECHO, name="echo")

    @durable(name="t.echoes")
    async def echoes(act: Activation) -> list[bytes]:
        one = await act.call(echo, b"one")
        return [one, *await act.all_of(act.call(echo, b"two"), act.call(echo, b""))]

    for runs in (3, 0):
        pool = CellPool(2)
        async with open_system(
            "s", store=store, cells=pool, effects=[echo], activities=[echoes]
        ) as system:
            assert await system.run(echoes, key="k") == [b"one", b"two", b""]
        assert pool.statistics().runs == runs


def provider_that_raises(error: Exception) -> Any:
    def p(request: bytes) -> bytes:
        raise error

    return p


BAD: dict[str, tuple[Any, dict[str, Any], dict[str, Any], type[TrouperError]]] = {
    "trap": (TRAP, {}, {}, GuestTrapped),
    "fuel": ("SPIN", {}, {"fuel": 10_000}, OutOfFuel),
    "deadline": ("SPIN", {}, {"fuel": FOREVER, "deadline": 0.01}, GuestDeadline),
    "not admitted": (b"no module", {}, {}, GuestRefused),
    "reject": ("ASK", {"p": provider_that_raises(Reject("no", code=7))}, {}, Reject),
    "foreign": ("ASK", {"p": provider_that_raises(LookupError("x"))}, {}, EffectFailed),
}


@pytest.mark.parametrize("what", BAD)
async def test_what_a_guest_fails_with_has_its_type_and_is_equal_on_replay(
    kit: Any, store: Store, what: str
) -> None:
    body, imports, options, kind = BAD[what]
    bad = kit.make(getattr(kit, str(body), body), imports, name="bad", **options)
    seen: list[TrouperError] = []
    held = [trio.Event(), trio.Event()]

    @effect(name="t.hold")
    async def hold() -> None:
        held[len(seen) - 1].set()
        await trio.sleep_forever()

    @durable(name="t.falls")
    async def falls(act: Activation) -> None:
        try:
            await act.call(bad, b"input")
        except TrouperError as error:
            seen.append(error)
        await act.call(hold)

    for reached in held:
        pool = CellPool(1)
        async with open_system(
            "s", store=store, cells=pool, effects=[bad, hold], activities=[falls], shutdown=0
        ) as system:
            system.start(falls, key="k")
            with trio.fail_after(20):
                await reached.wait()
            assert system.status("k") == "running"
            await kit.assert_whole(pool)
    first, replayed = seen
    assert type(first) is type(replayed) is kind
    assert (str(first), first.facts) == (str(replayed), replayed.facts)
    assert (await states(store))["bad"] == ("failed", 1)


@pytest.mark.parametrize("data", ["text", None, [b"x"]])
async def test_a_guest_that_is_given_no_bytes_is_refused_as_an_outcome(
    kit: Any, data: object
) -> None:
    store = MemoryStore()
    echo = kit.make(kit.ECHO, name="echo")

    @durable(name="t.wrong")
    async def wrong(act: Activation) -> None:
        call: Any = act.call
        await call(echo, data)

    async with open_system(
        "s", store=store, cells=CellPool(1), effects=[echo], activities=[wrong]
    ) as system:
        with pytest.raises(GuestRefused, match="takes one bytes argument") as raised:
            await system.run(wrong, key="k")
        assert raised.value.rule == "arguments"
        assert system.status("k") == "failed"


# --- ends that are no outcomes


@pytest.mark.needs_threads
async def test_the_loser_of_a_race_gives_its_cell_back(kit: Any, store: Store) -> None:
    spins = trio.Event()

    async def p(request: bytes) -> bytes:
        spins.set()
        return b""

    spin = kit.make(ASK_THEN_SPIN, {"p": p}, name="spin", fuel=FOREVER)
    echo = kit.make(kit.ECHO, name="echo")

    @effect(name="t.win")
    async def win() -> str:
        await spins.wait()
        return "won"

    @durable(name="t.contest")
    async def contest(act: Activation) -> list[object]:
        first = await act.race(act.call(spin, b""), act.call(win), losers="cancel")
        # The only cell: this waits for the evidence that it is clean.
        return [first.position, first.value, await act.call(echo, b"next")]

    pool = CellPool(1)
    async with open_system(
        "s",
        store=store,
        cells=pool,
        effects=[spin, echo, win],
        activities=[contest],
        keep_groups=True,
    ) as system:
        with trio.fail_after(20):
            assert await system.run(contest, key="k") == [1, "won", b"next"]
        await kit.assert_whole(pool)
        assert pool.statistics().kills == 1
    assert (await states(store))["spin"] == ("cancelled", 1)


@pytest.mark.parametrize("leave", ["normally", "by an error", "by a cancel"])
@pytest.mark.parametrize("body", ["waits", pytest.param("spins", marks=pytest.mark.needs_threads)])
async def test_closing_kills_a_running_guest_without_a_terminal_and_the_next_open_runs_it_again(
    kit: Any, tmp_path: Path, body: str, leave: str
) -> None:
    store = LmdbStore(tmp_path / "store")
    entered = trio.Event()
    answers = False

    async def p(request: bytes) -> bytes:
        entered.set()
        if body == "waits" and not answers:
            await trio.sleep_forever()
        return b"answer"

    wat = ASK_THEN_SPIN if body == "spins" else kit.ASK
    stay = kit.make(wat, {"p": p}, name="stay", fuel=FOREVER)

    @durable(name="t.stays")
    async def stays(act: Activation) -> bytes:
        return await act.call(stay, b"")

    pool = CellPool(1)
    with trio.CancelScope() as scope:
        try:
            async with open_system(
                "s", store=store, cells=pool, effects=[stay], activities=[stays], shutdown=0
            ) as system:
                system.start(stays, key="k")
                with trio.fail_after(20):
                    await entered.wait()
                if leave == "by an error":
                    raise ZeroDivisionError
                if leave == "by a cancel":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        except ZeroDivisionError:
            pass
    seen = pool.statistics()
    assert (seen.leased, seen.quarantined, seen.operations) == (0, 0, 0)
    assert await states(store) == {"stay": ("open", 1)}

    again = kit.make(kit.ASK, {"p": p}, name="stay")
    answers = True
    async with open_system(
        "s", store=store, cells=CellPool(1), effects=[again], activities=[stays]
    ) as system:
        with trio.fail_after(20):
            assert (await system.run(stays, key="k"))[:6] == b"answer"
    assert await states(store) == {"stay": ("completed", 2)}


async def test_an_outer_cancel_reaches_a_provider_no_earlier_than_the_effect_it_runs_for(
    kit: Any, tmp_path: Path
) -> None:
    store = LmdbStore(tmp_path / "store")
    entered, leaving = trio.Event(), trio.Event()

    async def p(request: bytes) -> bytes:
        entered.set()
        await leaving.wait()
        return b"answer"

    asks = kit.make(kit.ASK, {"p": p}, name="asks")

    @durable(name="t.once")
    async def once(act: Activation) -> bytes:
        return await act.call(asks, b"")

    with trio.CancelScope() as scope:
        async with open_system(
            "s", store=store, cells=CellPool(1), effects=[asks], activities=[once]
        ) as system:
            handle = system.start(once, key="k")
            await entered.wait()
            scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                leaving.set()
                assert (await handle.result())[:6] == b"answer"
    assert await states(store) == {"asks": ("completed", 1)}


@pytest.mark.parametrize("grouped", [False, True])
async def test_without_cells_the_activation_is_parked_and_goes_on_once_there_are_some(
    kit: Any, store: Store, grouped: bool
) -> None:
    echo = kit.make(kit.ECHO, name="echo")

    @durable(name="t.calls")
    async def calls(act: Activation) -> list[bytes]:
        call = act.call(echo, b"x")
        return await act.all_of(call) if grouped else [await call]

    async with open_system("s", store=store, effects=[echo], activities=[calls]) as system:
        with pytest.raises(GroupShapeError if grouped else NoExecutor, match="guest 'echo'"):
            await system.run(calls, key="k")
        assert system.status("k") == "stuck"
    assert await states(store) == {}
    async with open_system(
        "s", store=store, cells=CellPool(1), effects=[echo], activities=[calls]
    ) as system:
        assert await system.run(calls, key="k") == [b"x"]


async def test_the_tree_shows_the_cells_and_what_runs_in_them(kit: Any) -> None:
    entered, opened = trio.Event(), trio.Event()

    async def p(request: bytes) -> bytes:
        entered.set()
        await opened.wait()
        return b""

    ask = kit.make(kit.ASK, {"p": p}, name="asker")

    @durable(name="t.asks")
    async def asks(act: Activation) -> None:
        await act.call(ask, b"")

    async with open_system("s", cells=CellPool(2), effects=[ask], activities=[asks]) as system:
        handle = system.start(asks, key="k")
        await entered.wait()
        (cells,) = [node for node in walk(system.tree()) if node.name == "cells"]
        assert cells.details == {"runs": 1, "free": 1, "waiting": 0}
        one, two = cells.children
        assert one.details == {"guest": "asker"}
        assert two.state == "free"
        assert "guest=asker" in render_text(system.tree())
        opened.set()
        await handle.result()


def walk(node: TreeNode) -> list[TreeNode]:
    return [node, *(below for child in node.children for below in walk(child))]


async def test_one_guest_serves_systems_one_after_the_other_and_side_by_side(kit: Any) -> None:
    echo = kit.make(kit.ECHO, name="echo")

    @durable(name="t.one")
    async def one(act: Activation, data: bytes) -> bytes:
        return await act.call(echo, data)

    def system(name: str) -> Any:
        return open_system(name, cells=CellPool(1), effects=[echo], activities=[one])

    for name in ("first", "second"):
        async with system(name) as alone:
            assert await alone.run(one, name.encode()) == name.encode()
    async with system("left") as left, system("right") as right:
        assert [await side.run(one, b"x") for side in (left, right)] == [b"x", b"x"]


async def test_ctrl_c_may_interrupt_an_effect_and_never_what_takes_its_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, bool] = {}
    take = encode_outcome

    def taken(outcome: Any) -> bytes:
        seen["outcome"] = trio.lowlevel.currently_ki_protected()
        return take(outcome)

    monkeypatch.setattr("trouper.actors.groups._children.encode_outcome", taken)

    @effect(name="t.effect")
    async def touch() -> None:
        seen["effect"] = trio.lowlevel.currently_ki_protected()

    @durable(name="t.touches")
    async def touches(act: Activation) -> None:
        await act.all_of(act.call(touch))

    async with open_system("s", effects=[touch], activities=[touches]) as system:
        await system.run(touches)
    assert seen == {"effect": False, "outcome": True}


# --- names


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, kit: Any) -> Any:
    """Describe guests at the top of a module of its own; they are forgotten with the test."""
    known = {key: list(activities) for key, activities in _activity._IMPORTED.items()}
    monkeypatch.setattr(_activity, "_IMPORTED", known)
    given = {"ECHO": kit.wat(kit.ECHO), "TRAP": kit.wat(TRAP)}

    def run(source: str) -> dict[str, Any]:
        space: dict[str, Any] = {"__name__": "a_module", **given}
        exec(f"from trouper import guest, GuestLimits\n{source}", space)
        return space

    return run


COLLIDING = [
    "guest(TRAP, name='g')",
    "guest('echo.wasm', name='g')",
    "guest(ECHO, name='g', export='other')",
    "guest(ECHO, name='g', limits=GuestLimits(fuel=1))",
    "guest(ECHO, name='g', deadline=1.0)",
    "guest(ECHO, name='g', imports={'p': lambda request: request})",
]


@pytest.mark.parametrize("other", COLLIDING)
async def test_two_imported_guests_of_one_name_are_refused_unless_one_is_listed(
    module: Any, other: str
) -> None:
    space = module(f"one = guest(ECHO, name='g')\ntwo = {other}")
    with pytest.raises(NameTaken, match="2 different guests were imported under the name 'g'"):
        async with open_system("s"):
            pass
    async with open_system("s", effects=[space["two"]]) as system:
        assert system.name == "s"


async def test_a_module_that_is_imported_twice_names_one_guest(module: Any) -> None:
    source = "one = guest(ECHO, name='g', imports={'p': lambda request: request})"
    module(source)
    space = module(source)

    @durable(name="t.g")
    async def calls(act: Activation) -> bytes:
        return await act.call(space["one"], b"x")

    async with open_system("s", cells=CellPool(1), activities=[calls]) as system:
        assert await system.run(calls) == b"x"


@pytest.mark.parametrize("where", ["function", "class in a function"])
async def test_a_guest_described_in_a_function_is_known_only_where_it_is_listed(
    module: Any, where: str
) -> None:
    inner = "return guest(ECHO, name='g')"
    if where != "function":
        inner = "class Holder:\n        g = guest(ECHO, name='g')\n    return Holder.g"
    made = module(f"def make():\n    {inner}")["make"]()
    module("class Holder:\n    g = guest(TRAP, name='in a class')")
    assert ("guest", "g") not in _activity._IMPORTED
    assert ("guest", "in a class") in _activity._IMPORTED

    @durable(name="t.h")
    async def calls(act: Activation) -> bytes:
        return await act.call(made, b"x")

    async with open_system("s", cells=CellPool(1), activities=[calls]) as system:
        with pytest.raises(NoExecutor, match="list it in open_system"):
            await system.run(calls)
    async with open_system("s", cells=CellPool(1), effects=[made], activities=[calls]) as system:
        assert await system.run(calls) == b"x"


def test_guests_that_are_made_as_they_come_are_not_kept(kit: Any) -> None:
    made = [weakref.ref(kit.make(kit.ECHO, name=f"guest {n}")) for n in range(3)]
    gc.collect()
    assert [ref() for ref in made] == [None] * 3
