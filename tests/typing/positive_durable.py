"""What the checkers must infer for durable actors, with no plugin. Checked, not run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Never, assert_type

from trouper import (
    ActorSystem,
    Decision,
    DurableActor,
    Ref,
    Reject,
    Request,
    Tell,
    applies,
    decides,
)
from trouper.store import Recorded, record


@record("typing.account")
@dataclass(frozen=True, slots=True)
class AccountState:
    balance: int


@record("typing.withdrawn")
@dataclass(frozen=True, slots=True)
class Withdrawn:
    cents: int


@record("typing.noted")
@dataclass(frozen=True, slots=True)
class Noted:
    text: str


@dataclass(frozen=True, slots=True)
class Withdraw(Request[int]):
    cents: int
    idempotency_id: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    text: str


@dataclass(frozen=True, slots=True)
class Balance(Request[int]): ...


@dataclass(frozen=True, slots=True)
class Name(Request[str]): ...


class Account(DurableActor[AccountState, Withdraw | Note | Balance], snapshot_every=10):
    initial = AccountState(0)

    @decides(Withdraw)
    def withdraw(
        self, state: AccountState, message: Withdraw
    ) -> Decision[Withdrawn | Noted, int] | Reject:
        if state.balance < message.cents:
            return Reject(f"{self.key} has {state.balance}")
        left = state.balance - message.cents
        return Decision([Withdrawn(message.cents), Noted("withdrawn")], reply=left)

    @decides(Note)
    def note(self, state: AccountState, message: Note) -> Decision[Noted]:
        return Decision([Noted(message.text)])

    @decides(Balance)
    def balance(self, state: AccountState, message: Balance) -> Decision[Never, int]:
        return Decision(reply=state.balance)

    @applies(Withdrawn)
    def withdrawn(self, state: AccountState, record: Withdrawn) -> AccountState:
        return replace(state, balance=state.balance - record.cents)

    @applies(Noted)
    def noted(self, state: AccountState, record: Noted) -> AccountState:
        return state


class Loose(DurableActor[int]):
    initial = 0

    @decides(Balance)
    def balance(self, state: int, message: Balance) -> Decision[Withdrawn, int]:
        return Decision([Withdrawn(1)], reply=state)

    @applies(Withdrawn)
    def withdrawn(self, state: int, record: Withdrawn) -> int:
        return state + record.cents


async def use(system: ActorSystem) -> None:
    account = await system.actor(Account, "alice")
    assert_type(account, Ref[Withdraw | Note | Balance])
    assert_type(await account.ask(Withdraw(1)), int)
    account.tell(Note("x"))
    await account.send(Balance())
    narrow: Ref[Note] = account
    narrow.tell(Note("x"))

    loose = await system.actor(Loose, "bob")
    assert_type(loose, Ref[Any])
    assert_type(await loose.ask(Balance()), int)

    assert_type(system.store.records("alice"), AsyncIterator[Recorded])
    async for number, _ in system.store.records("alice"):
        assert_type(number, int)


def unit_tests(account: Account, state: AccountState, other: Ref[Note]) -> None:
    """Rules stay plain functions."""
    assert_type(account.balance(state, Balance()), Decision[Never, int])
    assert_type(account.note(state, Note("x")), Decision[Noted, None])
    assert_type(account.withdraw(state, Withdraw(1)), Decision[Withdrawn | Noted, int] | Reject)
    assert_type(account.withdrawn(state, Withdrawn(1)), AccountState)
    assert_type(account.key, str)
    assert_type(account.balance(state, Balance()).reply, int)
    Decision([Noted("x")], tells=[Tell(other, Note("x"))])
