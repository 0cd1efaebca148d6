"""The ledger: its verdict finds what is wrong, and the bank conserves money through SIGKILL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trouper import open_system

LEDGER = Path(__file__).parents[2] / "examples" / "ledger.py"


@pytest.fixture
def ledger(example: Callable[[str], ModuleType]) -> ModuleType:
    return example("ledger")


def books(ledger: ModuleType, *entries: tuple[str, Any]) -> Any:
    """Two accounts with 100 each, and what else is entered."""
    made = ledger.Books()
    for account in "ab":
        made.enter(account, ledger.PaidIn(100))
    for account, what in entries:
        made.enter(account, what)
    return made


def faults(ledger: ModuleType, made: Any, told: dict[str, str], **held: int) -> list[str]:
    states = {name: ledger.Balance(cents) for name, cents in held.items()}
    made.judge(told, states)
    found: list[str] = made.faults
    return found


def test_a_transfer_that_arrived_or_is_under_way_is_no_fault(ledger: ModuleType) -> None:
    made = books(
        ledger,
        ("a", ledger.Debited("1", "b", 30)),
        ("b", ledger.Credited("1", 30)),
        ("a", ledger.Debited("2", "b", 5)),
        ("a", ledger.Settled("1")),
    )
    assert faults(ledger, made, {"1": "done", "3": "refused"}, a=65, b=130) == []
    assert made.under_way == 5


@pytest.mark.parametrize(
    ("entries", "told", "text"),
    [
        ([], {"1": "done"}, "1 was done"),
        ([("a", ("Debited", "1", "b", 30))], {"1": "done"}, "1 was done"),
        ([("a", ("Debited", "1", "b", 30))], {"1": "refused"}, "1 was refused"),
        ([("a", ("Debited", "1", "b", 3))] * 2, {}, "1 transfers debited twice"),
        ([("b", ("Credited", "1", 30))], {}, "arrived and never left"),
        ([("a", ("Debited", "1", "b", 101))], {}, "less than nothing"),
        (
            [("a", ("Debited", "1", "b", 3)), ("b", ("Credited", "1", 4))],
            {},
            "changed on its way",
        ),
        ([("a", ("Debited", "1", "b", 3))] + [("b", ("Credited", "1", 3))] * 2, {}, "cents were"),
    ],
)
def test_the_verdict_names_what_is_wrong(
    ledger: ModuleType, entries: list[Any], told: dict[str, str], text: str
) -> None:
    made = books(ledger, *[(name, getattr(ledger, what[0])(*what[1:])) for name, what in entries])
    assert text in " ".join(faults(ledger, made, told))


def test_an_account_that_recovers_to_something_else_is_a_fault(ledger: ModuleType) -> None:
    assert faults(ledger, books(ledger), {}, a=100, b=99) == ["b recovers to 99, not 100"]


async def test_a_transfer_that_is_sent_again_arrives_once(ledger: ModuleType) -> None:
    async with open_system("bank") as system:
        names = ledger.account_names(2)
        accounts = {name: await system.actor(ledger.Account, name) for name in names}
        for ref in accounts.values():
            assert await ref.ask(ledger.PayIn(100, "opening")) == 100
        one, two = names
        for _ in range(3):
            assert await ledger.transfer(accounts, "t1", one, two, 30) == "done"
            assert await ledger.transfer(accounts, "t2", one, two, 90) == "refused"
        assert await accounts[one].ask(ledger.Look()) == ledger.Balance(70, {})
        assert await accounts[two].ask(ledger.Look()) == ledger.Balance(130, {})


def test_the_bank_is_killed_and_nothing_is_lost_or_made() -> None:
    done = subprocess.run(
        [sys.executable, str(LEDGER), "--kills", "2", "--clients", "50", "--seconds", "0.2"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: 2,000,000 cents were paid in and are there" in done.stdout
    assert "closed in order" in done.stdout


@pytest.mark.parametrize("wrong", [("--accounts", "1"), ("--kills", "-1"), ("--clients", "0")])
def test_wrong_use_is_refused(wrong: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, str(LEDGER), *wrong], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "it takes a client" in done.stderr
