"""Structured values in durable work: what a step hands out is what its annotation says, on the
first run and after every restart; what no annotation can bring back is refused at the line."""

from __future__ import annotations

import datetime as dt
import enum
import re
from dataclasses import dataclass, field, make_dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
import trio

from trouper import (
    Activation,
    ActivationMismatch,
    DrainFirst,
    EffectContext,
    ValueRefused,
    durable,
    effect,
    open_system,
)
from trouper.actors.groups import Activity, Completed, Failed, Outcome, Won
from trouper.store import Store

from .conftest import Log

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
SEEN = Log()


class Size(enum.Enum):
    SMALL = enum.auto()
    LARGE = enum.auto()


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    size: Size = Size.SMALL


@dataclass
class Order:
    id: UUID
    at: dt.datetime
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Receipt:
    order: UUID
    total: Decimal
    of: tuple[str, ...]


ORDER = Order(ID, NOON, [Line("tea", Decimal("2.50")), Line("cup", Decimal(3), Size.LARGE)])
GATES: dict[str, trio.Event] = {}


@effect
async def charge(
    ctx: EffectContext, order: Order, *rest: Size, note: Line | None = None
) -> Receipt:
    SEEN.append(("charge", order, rest, note))
    order.lines.append(Line("changed here", Decimal(0)))  # nobody else may see it
    return Receipt(order.id, sum((x.price for x in order.lines), Decimal()), ("tea", "cup"))


@effect
def price(line: Line) -> Decimal:
    return line.price


@effect
async def wait(name: str) -> tuple[str, Size]:
    SEEN.append(("wait", name))
    await GATES.setdefault(name, trio.Event()).wait()
    return name, Size.LARGE


@durable
async def ship(act: Activation, line: Line, *, to: UUID = ID) -> tuple[Line, UUID]:
    assert type(line) is Line
    return line, to


@durable
async def checkout(act: Activation, order: Order) -> dict[Size, list[Any]]:
    receipt = await act.call(charge, order, Size.LARGE, note=order.lines[0])
    prices = await act.all_of(*[act.call(price, line) for line in order.lines])
    SEEN.append(("step", receipt, prices, len(order.lines)))
    first = act.call(price, order.lines[0])
    won = await act.race(act.call(wait, "never"), first, losers="cancel")
    settled = await act.all_settled(act.call(ship, order.lines[1], to=receipt.order))
    SEEN.append(("won", won.value, settled))
    return {Size.SMALL: [str(sum(prices))], Size.LARGE: [str(receipt.total)]}


@durable
async def holds(act: Activation, order: Order) -> tuple[Order, str]:
    receipt = await act.call(charge, order)
    name, size = await act.call(wait, "gate")
    SEEN.append(("held", receipt, name, size))
    return order, name


@effect
def sku(line: Line) -> str:
    return line.sku


@durable
async def ends(act: Activation, line: Line) -> tuple[Won[Decimal], list[Outcome]]:
    won = await act.race(act.call(price, line), act.call(price, line))
    return won, await act.all_settled(act.call(sku, line), act.call(says_line))


async def test_what_combinators_give_can_be_a_result(store: Store) -> None:
    for _ in range(2):
        async with open_system("s", store=store) as system:
            won, (first, second) = await system.run(ends, ORDER.lines[0], key="k")
        assert won in [Won(position, Decimal("2.50"), 1) for position in (0, 1)]
        assert first == Completed("tea")
        assert isinstance(second, Failed)
        assert second.error.facts["path"] == "result"


@pytest.fixture(autouse=True)
def fresh() -> None:
    SEEN.clear()
    GATES.clear()


async def test_what_a_step_gives_and_takes_is_what_its_annotations_say(store: Store) -> None:
    async with open_system("s", store=store) as system:
        result = await system.run(checkout, ORDER, key="k")
    assert result == {Size.SMALL: ["5.50"], Size.LARGE: ["5.50"]}
    assert SEEN[0] == (
        "charge",
        replace(ORDER, lines=[*ORDER.lines, SEEN[0][1].lines[-1]]),
        (Size.LARGE,),
        ORDER.lines[0],
    )
    receipt = Receipt(ID, Decimal("5.50"), ("tea", "cup"))
    assert SEEN[1] == ("step", receipt, [Decimal("2.50"), Decimal(3)], 2)
    assert SEEN[-1] == ("won", Decimal("2.50"), [Completed((ORDER.lines[1], ID))])
    assert len(ORDER.lines) == 2, "what an effect does to its argument stays there"
    async with open_system("s", store=store) as system:
        assert await system.run(checkout, ORDER, key="k") == result
        with pytest.raises(ActivationMismatch, match="arguments"):
            await system.run(checkout, replace(ORDER, lines=[]), key="k")
    assert [entry[0] for entry in SEEN].count("won") == 1


async def test_what_replay_hands_out_is_what_the_first_run_handed_out(store: Store) -> None:
    async with open_system("s", store=store, shutdown=0) as system:
        system.start(holds, ORDER, key="k")
        await SEEN.until(("wait", "gate"))
    async with open_system("s", store=store) as system:
        handle = system.start(holds, ORDER, key="k")
        GATES.setdefault("gate", trio.Event()).set()
        first = await handle.result()
        again = await handle.result()
    assert first == (ORDER, "gate")
    assert type(first[0]) is Order
    assert first[0] is not again[0], "every caller gets his own"
    assert ("held", Receipt(ID, Decimal("5.50"), ("tea", "cup")), "gate", Size.LARGE) in SEEN


@pytest.mark.parametrize(
    ("order", "place", "words"),
    [
        (replace(ORDER, at=NOON.replace(tzinfo=None)), r"args\[0\]\.at", "zone"),
        (replace(ORDER, lines=[ORDER.lines[0], ("cup", 3)]), r"args\[0\]\.lines\[1\]", "a tuple"),  # type: ignore[list-item]
        ({"id": ID}, r"args\[0\]", "a dict where an? .*Order"),
    ],
)
async def test_an_argument_that_is_not_what_the_annotation_says_is_refused_at_the_call(
    order: Any, place: str, words: str
) -> None:
    async with open_system("s") as system:
        with pytest.raises(ValueRefused, match=f"{place}: .*{words}"):
            system.start(checkout, order, key="k")
        assert system.status("k") == "unknown"


@effect
async def says_line() -> Line:
    return "tea"  # type: ignore[return-value]


@effect
async def says_nothing():  # type: ignore[no-untyped-def]
    return Line("tea", Decimal(1))


@durable
async def returns_wrong(act: Activation) -> list[Size]:
    return ["SMALL"]  # type: ignore[list-item]


@durable
async def calls(act: Activation, which: str) -> str:
    try:
        await act.call({"typed": says_line, "untyped": says_nothing}[which])
    except ValueRefused as refused:
        return f"{refused.path}: {refused.reason}"
    return "given"


@pytest.mark.parametrize(
    ("which", "says"),
    [("typed", "result: a str where a"), ("untyped", "result: a .*Line would not come back")],
)
async def test_a_result_that_would_not_come_back_settles_as_refused(which: str, says: str) -> None:
    async with open_system("s") as system:
        assert re.match(says, await system.run(calls, which))
        with pytest.raises(ValueRefused, match=r"result\[0\]"):
            await system.run(returns_wrong, key="wrong")
        with pytest.raises(ValueRefused, match=r"result\[0\]"):
            await system.run(returns_wrong, key="wrong")


def deployment(result: Any, argument: Any) -> tuple[Any, list[Activity[..., Any]]]:
    """The same code, but for the annotations."""

    async def make(given: Any) -> Any:
        return Line("tea", Decimal(1))

    async def hold() -> None:
        SEEN.append("held")
        await GATES.setdefault("gate", trio.Event()).wait()

    async def work(act: Activation, given: Any) -> str:
        line = await act.call(made, given)
        await act.call(held)
        return type(line).__name__

    make.__annotations__ = {"given": argument, "return": result}
    work.__annotations__["given"] = argument
    made, held = effect(make, name="make"), effect(hold, name="hold")  # type: ignore[call-overload]
    return durable(work, name="work"), [made, held]  # type: ignore[call-overload]


@pytest.mark.parametrize("which", ["result", "argument"])
async def test_a_class_that_lost_a_field_parks_the_activation_and_repaired_code_goes_on(
    store: Store, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    smaller = make_dataclass("Line", [("sku", str)])
    good = deployment(Line, Line)
    bad = deployment(smaller, Line) if which == "result" else deployment(Line, smaller)
    line = Line("cup", Decimal(2))
    async with open_system(
        "s", store=store, activities=[good[0]], effects=good[1], shutdown=0
    ) as s:
        s.start(good[0], line, key="k")
        await SEEN.until("held")
    with pytest.raises(DrainFirst, match="no field price"):
        async with open_system("s", store=store, activities=[bad[0]], effects=bad[1]):
            pass
    async with open_system(
        "s", store=store, activities=[bad[0]], effects=bad[1], drifted="park"
    ) as system:
        with trio.fail_after(5):
            while system.status("k") == "running":
                await trio.lowlevel.checkpoint()
        assert system.status("k") == "stuck"
        assert re.search(r"no field price", caplog.text)
    GATES.setdefault("gate", trio.Event()).set()
    async with open_system("s", store=store, activities=[good[0]], effects=good[1]) as system:
        assert await system.run(good[0], line, key="k") == "Line"


def test_annotations_may_name_what_only_a_type_checker_imports() -> None:
    @effect(name="checked")
    def checked(lines: Sequence[Line], size: Size) -> Sequence[Line]:
        return lines

    with pytest.raises(ValueRefused, match=r"'Sequence.Line.' cannot be resolved"):
        checked.encode_call([[ORDER.lines[0]], Size.SMALL], {})
    plain = checked.encode_call([["tea"], Size.SMALL], {})
    assert checked.decode_call(plain) == ([["tea"], Size.SMALL], {})


def test_local_types_are_found_where_the_function_uses_them() -> None:
    @dataclass
    class Here:
        x: int

    @effect(name="local")
    def local(here: Here) -> Here:
        return Here(here.x)

    assert local.decode_call(local.encode_call([Here(1)], {})) == ([Here(1)], {})
