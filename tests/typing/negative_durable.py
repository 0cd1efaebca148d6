"""What the checkers must refuse. A line marked E<n> is an error in both, every other in neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never

from trouper import ActorSystem, Decision, DurableActor, Ref, Request, Tell, applies, decides
from trouper.store import record


@record("typing.negative.state")
@dataclass(frozen=True, slots=True)
class State:
    balance: int


@record("typing.negative.withdrawn")
@dataclass(frozen=True, slots=True)
class Withdrawn:
    cents: int


@record("typing.negative.other")
@dataclass(frozen=True, slots=True)
class Other:
    cents: int


@dataclass(frozen=True, slots=True)
class Withdraw(Request[int]):
    cents: int


@dataclass(frozen=True, slots=True)
class Note:
    text: str


@dataclass(frozen=True, slots=True)
class Name(Request[str]): ...


class Account(DurableActor[State, Withdraw | Note]):
    initial = State(0)

    @decides(Withdraw)
    def withdraw(self, state: State, message: Withdraw) -> Decision[Withdrawn, int]:
        return Decision([Withdrawn(message.cents)], reply=0)

    @decides(Note)
    def note(self, state: State, message: Note) -> Decision[Never]:
        return Decision()

    @applies(Withdrawn)
    def withdrawn(self, state: State, record: Withdrawn) -> State:
        return state


class Wrong(DurableActor[State, Withdraw]):
    @decides(Withdraw)  # E1
    def reply(self, state: State, message: Withdraw) -> Decision[Withdrawn, str]:
        return Decision([Withdrawn(1)], reply="x")

    @decides(Note)  # E2
    def message(self, state: State, message: Withdraw) -> Decision[Withdrawn]:
        return Decision([Withdrawn(1)])

    @decides(Withdraw)
    def records(self, state: State, message: Withdraw) -> Decision[Withdrawn, int]:
        return Decision([Other(1)], reply=1)  # E3

    @decides(Withdraw)  # E4
    async def waits(self, state: State, message: Withdraw) -> Decision[Withdrawn, int]:
        return Decision([Withdrawn(1)], reply=1)

    @decides(Note)
    def answers(self, state: State, message: Note) -> Decision[Withdrawn]:
        return Decision([Withdrawn(1)], reply=1)  # E5

    @decides(Withdraw)
    def silent(self, state: State, message: Withdraw) -> Decision[Withdrawn, int]:
        return Decision([Withdrawn(1)])  # E6

    @applies(Withdrawn)  # E7
    def record(self, state: State, record: Other) -> State:
        return state

    @applies(Withdrawn)  # E8
    def result(self, state: State, record: Withdrawn) -> int:
        return 1


class Limits(DurableActor[int], snapshot_every="x"):  # E9
    initial = 0


async def use(system: ActorSystem) -> None:
    account = await system.actor(Account, "alice")
    await account.ask(Note("x"))  # E10
    account.tell(Name())  # E11
    await account.ask(Name())  # E12
    text: str = await account.ask(Withdraw(1))  # E13
    Tell(account, Name())  # E14
    wide: Ref[Withdraw | Name] = account  # E15
    await system.actor(Account, 3)  # E16
    await system.actor(int, "alice")  # E17
    await system.spawn(Account)  # E18
    print(text, wide)
