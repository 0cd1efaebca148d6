"""A durable class that contradicts itself is refused when it is made, with the way to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never

import pytest
import trio

from trouper import (
    Actor,
    Decision,
    DurableActor,
    MemoryStore,
    Reject,
    Request,
    applies,
    decides,
    handles,
    open_system,
)
from trouper.store import record

if TYPE_CHECKING:
    from decimal import Decimal

# Every class in here is wrong on purpose, which is what the checkers would say as well.
# mypy: ignore-errors


@record("test.rules.done")
@dataclass(frozen=True, slots=True)
class Done:
    n: int


@record("test.rules.more")
@dataclass(frozen=True, slots=True)
class More(Done):
    pass


@dataclass(frozen=True, slots=True)
class Unregistered:
    n: int


@dataclass(frozen=True, slots=True)
class Do(Request[int]):
    n: int = 0


@dataclass(frozen=True, slots=True)
class Other:
    pass


def body(**members: Any) -> dict[str, Any]:
    @decides(Do)
    def do(self, state: int, message: Do) -> Decision[Done, int]:
        return Decision([Done(message.n)], reply=state)

    @applies(Done)
    def done(self, state: int, record: Done) -> int:
        return state + record.n

    return {k: v for k, v in {"initial": 0, "do": do, "done": done, **members}.items() if v != "-"}


def make(base: Any = None, /, **members: Any) -> Any:
    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(body(**members))

    import types

    return types.new_class("Bad", (base or DurableActor[int],), {}, fill)


def test_the_class_that_the_others_differ_from_is_fine() -> None:
    assert make().__rules__.initial == 0


def test_a_state_is_needed() -> None:
    with pytest.raises(TypeError, match=r"no initial state; set it in the class: initial = int"):
        make(initial="-")


def test_the_initial_state_is_of_the_declared_type() -> None:
    with pytest.raises(TypeError, match="initial is 'x', which is no int"):
        make(initial="x")


def test_a_state_is_of_one_class_and_no_union() -> None:
    with pytest.raises(TypeError, match=r"declared as int \| NoneType, and a state is"):
        make(DurableActor[int | None])


def test_a_state_that_may_be_anything_is_of_the_class_of_the_first_one() -> None:
    assert make(DurableActor[Any]).__rules__.state is int


@pytest.mark.parametrize("state", [Unregistered(1), [1], {}, object()], ids=type)
def test_a_state_that_no_snapshot_could_hold_is_refused(state: Any) -> None:
    with pytest.raises(TypeError, match="a frozen dataclass under @record"):

        class Bad(DurableActor):
            initial = state


def test_a_record_that_nothing_applies_is_refused() -> None:
    with pytest.raises(TypeError, match=r"may return Done, and nothing applies it; write a method"):
        make(done="-")


def test_a_record_is_applied_by_the_rule_of_a_class_it_derives_from() -> None:
    @decides(Do)
    def do(self, state: int, message: Do) -> Decision[More, int]:
        return Decision([More(message.n)], reply=state)

    rules = make(do=do).__rules__
    assert rules.apply(None, 1, More(2)) == 3


def test_two_rules_for_one_message_are_refused() -> None:
    @decides(Do)
    def again(self, state: int, message: Do) -> Decision[Done, int]:
        return Decision([Done(1)], reply=1)

    with pytest.raises(TypeError, match=r"do\(\) and again\(\) both decide Do; keep one"):
        make(again=again)


def test_two_rules_for_one_record_are_refused() -> None:
    @applies(Done)
    def again(self, state: int, record: Done) -> int:
        return state

    with pytest.raises(TypeError, match=r"done\(\) and again\(\) both apply Done; keep one"):
        make(again=again)


def test_an_async_rule_is_refused() -> None:
    @decides(Do)
    async def do(self, state: int, message: Do) -> Decision[Done, int]:
        return Decision([Done(1)], reply=1)

    with pytest.raises(TypeError, match=r"Bad.do is async, and a rule is pure: write a plain def"):
        make(do=do)

    @applies(Done)
    async def done(self, state: int, record: Done) -> int:
        return state

    with pytest.raises(TypeError, match="is async"):
        make(done=done)


def test_a_generator_is_refused() -> None:
    @decides(Do)
    def do(self, state: int, message: Do) -> Decision[Done, int]:
        yield Done(1)

    with pytest.raises(TypeError, match="yields; return a Decision"):
        make(do=do)


def test_an_unannotated_rule_is_refused() -> None:
    @decides(Do)
    def do(self, state: int, message: Do):
        return Decision([Done(1)], reply=1)

    with pytest.raises(TypeError, match=r"Bad.do does not say of what type return is; annotate it"):
        make(do=do)

    @applies(Done)
    def done(self, state, record: Done) -> int:
        return state

    with pytest.raises(TypeError, match="does not say of what type state is"):
        make(done=done)


def test_an_annotation_that_is_not_there_at_run_time_is_refused() -> None:
    @decides(Do)
    def do(self, state: int, message: Do) -> Decision[Done, Decimal]:
        return Decision([Done(1)], reply=1)

    with pytest.raises(TypeError, match=r"'Decimal' is not defined.*not under TYPE_CHECKING"):
        make(do=do)


def test_a_wrong_shape_is_refused() -> None:
    @decides(Do)
    def do(self, message: Do) -> Decision[Done, int]:
        return Decision([Done(1)], reply=1)

    with pytest.raises(TypeError, match=r"must take \(self, state, message\)"):
        make(do=do)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (int, "must return Decision"),
        (Decision, "must return Decision"),
        (Decision[Unregistered, int], "decorate its class with @record"),
        (Decision[int, int], "decorate its class with @record"),
        (Reject, "only rejects"),
    ],
    ids=repr,
)
def test_a_result_that_is_no_decision_on_records_is_refused(result: Any, text: str) -> None:
    def do(self, state: int, message: Do) -> Any:
        return Decision([Done(1)], reply=1)

    do.__annotations__["return"] = result
    with pytest.raises(TypeError, match=text):
        make(do=decides(Do)(do))


def test_an_annotation_that_contradicts_the_mark_or_the_state_is_refused() -> None:
    @decides(Do)
    def do(self, state: int, message: Other) -> Decision[Done, int]:
        return Decision([Done(1)], reply=1)

    with pytest.raises(TypeError, match="its message is annotated as Other and is Do; say Do"):
        make(do=do)

    @applies(Done)
    def done(self, state: str, record: Done) -> str:
        return state

    with pytest.raises(TypeError, match="its state is annotated as str and is int; say int"):
        make(done=done)


def test_an_applied_type_is_a_record() -> None:
    @applies(Unregistered)
    def more(self, state: int, record: Unregistered) -> int:
        return state

    with pytest.raises(TypeError, match="Unregistered is no record; decorate it"):
        make(more=more)


def test_a_declared_union_that_disagrees_is_refused() -> None:
    with pytest.raises(TypeError, match="disagree: nothing decides Other"):
        make(DurableActor[int, Do | Other])
    with pytest.raises(TypeError, match="disagree: nothing decides Other; undeclared Do"):
        make(DurableActor[int, Other])


def test_a_handler_is_no_rule() -> None:
    @handles(Do)
    def handle(self, message: Do) -> int:
        return 1

    with pytest.raises(TypeError, match="use @decides, and return a Decision"):
        make(handle=handle)


def test_a_constructor_that_needs_something_is_refused() -> None:
    def __init__(self, rate: float) -> None:
        pass

    with pytest.raises(TypeError, match="cannot be made without arguments"):
        make(__init__=__init__)


def test_marks_take_a_class_and_a_function_once() -> None:
    with pytest.raises(TypeError, match="@decides takes the class of a message"):
        decides("Do")
    with pytest.raises(TypeError, match="@applies takes the class of a record"):
        applies(Done | More)
    with pytest.raises(TypeError, match="marks a method"):
        decides(Do)(3)
    with pytest.raises(TypeError, match="marked already"):
        decides(Do)(body()["do"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("snapshot_every", 0),
        ("snapshot_bytes", -1),
        ("keep_replies", -1),
        ("passivate_after", -0.1),
        ("passivate_after", float("nan")),
    ],
)
def test_a_limit_that_is_none_is_refused(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):

        class Bad(DurableActor[int], **{option: value}):
            initial = 0


def test_an_abstract_base_may_have_neither_rules_nor_a_state() -> None:
    class Base(DurableActor[int]):
        pass

    assert Base.__rules__ is None
    assert make(Base).__rules__ is not None


def test_a_subclass_may_override_a_rule_without_the_mark() -> None:
    class Double(make()):
        def done(self, state: int, record: Done) -> int:
            return state + 2 * record.n

    assert Double.__rules__.apply(Double(), 0, Done(3)) == 6


async def test_a_rule_that_returns_something_else_is_a_crash_that_says_so() -> None:
    def do(self, state: int, message: Do) -> Decision[Never, int]:
        return message.n

    cls = make(do=decides(Do)(do), done="-")
    async with open_system("shop") as system:
        ref = await system.actor(cls, "a")
        with pytest.raises(Exception, match="must return a Decision or a Reject"):
            await ref.ask(Do(3))
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("state", [None, "3", 3.0])
async def test_what_a_rule_returns_instead_of_a_state_keeps_nothing(state: Any) -> None:
    def done(self, state: int, record: Done) -> int:
        return wrong

    wrong, store = state, MemoryStore()
    cls = make(done=applies(Done)(done))
    async with open_system("shop", store=store) as system:
        ref = await system.actor(cls, "a")
        with pytest.raises(Exception, match=r"done returned .*; it must return the state"):
            await ref.ask(Do(3))
        await trio.testing.wait_all_tasks_blocked()
    async with store:
        assert [item async for item in store.records("a")] == []


async def test_decides_on_a_subclass_of_its_message() -> None:
    @dataclass(frozen=True, slots=True)
    class DoMore(Do):
        pass

    async with open_system("shop") as system:
        ref = await system.actor(make(), "a")
        assert await ref.ask(DoMore(3)) == 0
        assert await ref.ask(Do(0)) == 3


@pytest.mark.parametrize("records", [Done(1), 5, None])
def test_a_decision_takes_several_records(records: Any) -> None:
    with pytest.raises(TypeError, match=r"a Decision takes its records in a list, not "):
        Decision(records)


@pytest.mark.parametrize("tells", [5, None])
def test_a_decision_takes_several_tells(tells: Any) -> None:
    with pytest.raises(TypeError, match=r"tells= takes a list of Tell"):
        Decision(tells=tells)


def test_rules_are_plain_functions_for_unit_tests() -> None:
    actor = make()()
    assert actor.do(4, Do(2)) == Decision([Done(2)], reply=4)
    assert actor.done(4, Done(2)) == 6
    assert isinstance(Actor, type)
