"""Handler tables, checked when the class is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest

from trouper.actors import Actor, Context, Request, handles, open_system


@dataclass(frozen=True, slots=True)
class Add:
    n: int


@dataclass(frozen=True, slots=True)
class AddMore(Add): ...


@dataclass(frozen=True, slots=True)
class Total(Request[int]): ...


class Counter(Actor[Add | Total]):
    def __init__(self, start: int = 0) -> None:
        self.total = start

    @handles(Add)
    def add(self, message: Add) -> None:
        self.total += message.n

    @handles(Total)
    async def read(self, message: Total, ctx: Context[Any]) -> int:
        return self.total


@pytest.mark.proves("Typing: a declared union that disagrees")
def test_a_missing_handler_is_named_at_class_creation() -> None:
    with pytest.raises(TypeError, match=r"Half: Actor\[\.\.\.\] and @handles .* for Total"):

        class Half(Actor[Add | Total]):
            @handles(Add)
            def add(self, message: Add) -> None: ...


@pytest.mark.proves("Typing: a declared union that disagrees")
def test_an_undeclared_handler_is_named() -> None:
    with pytest.raises(TypeError, match="undeclared Total"):

        class More(Actor[Add]):
            @handles(Add)
            def add(self, message: Add) -> None: ...

            @handles(Total)
            def total(self, message: Total) -> int:
                return 1


@pytest.mark.proves("Typing: two handlers of one type")
def test_two_handlers_of_one_type_are_named() -> None:
    with pytest.raises(TypeError, match=r"first\(\) and second\(\) both handle Add"):

        class Double(Actor[Add]):
            @handles(Add)
            def first(self, message: Add) -> None: ...

            @handles(Add)
            def second(self, message: Add) -> None: ...


@pytest.mark.proves("Typing: a wrong arity")
def test_a_wrong_arity_is_named() -> None:
    with pytest.raises(TypeError, match=r"Short\.add must take \(self, message\) or"):

        class Short(Actor[Add]):
            @handles(Add)  # type: ignore[arg-type]
            def add(self) -> None: ...


@pytest.mark.proves("Misuse: @handles of something that is no class")
def test_handles_takes_a_class() -> None:
    with pytest.raises(TypeError, match="takes the class of a message"):
        handles(Add(1))  # type: ignore[call-overload]


def test_a_handler_stays_callable() -> None:
    counter = Counter(1)
    counter.add(Add(2))
    assert counter.total == 3


@pytest.mark.proves("Typing: dispatch follows the MRO")
async def test_a_subclass_of_a_message_goes_where_its_base_goes() -> None:
    async with open_system("s") as system:
        ref = await system.spawn(Counter)
        ref.tell(AddMore(5))
        assert await ref.ask(Total()) == 5


async def test_a_subclass_inherits_replaces_and_overrides_handlers() -> None:
    class Twice(Counter):
        def add(self, message: Add) -> None:  # overrides, without saying @handles again
            self.total += 2 * message.n

    async with open_system("s") as system:
        ref = await system.spawn(Twice)
        ref.tell(Add(2))
        assert await ref.ask(Total()) == 4


async def test_a_generic_base_may_be_widened() -> None:
    M = TypeVar("M")

    class Base(Actor[M], Generic[M]):
        @handles(Add)
        def add(self, message: Add) -> None: ...

    class Wide(Base[Add | Total]):
        @handles(Total)
        def total(self, message: Total) -> int:
            return 7

    async with open_system("s") as system:
        assert await (await system.spawn(Wide)).ask(Total()) == 7
    with pytest.raises(TypeError, match="no handler for Total"):

        class Narrow(Base[Add | Total]): ...


async def test_an_actor_may_have_slots_and_then_has_no_dict() -> None:
    class Total(Request[int]):
        pass

    class Slim(Actor[int | Total]):
        __slots__ = ("seen",)

        def __init__(self) -> None:
            self.seen = 0

        @handles(int)
        def count(self, message: int) -> None:
            self.seen += message

        @handles(Total)
        def total(self, message: Total) -> int:
            return self.seen

    assert not hasattr(Slim(), "__dict__")
    async with open_system("s") as system:
        ref = await system.spawn(Slim)
        ref.tell(2)
        assert await ref.ask(Total()) == 2
