"""A bank of durable accounts, hammered by clients and killed again and again.

    python examples/ledger.py [--kills 5] [--clients 200] [--accounts 20]

One process keeps the accounts and runs the clients, each of which transfers money without a pause.
Another one, which you start, kills it with SIGKILL at random instants, starts it again on the
journal it left behind, and after each kill audits that journal:

* no money was made or lost: what the accounts hold and what is on its way adds up to what was paid
  in;
* every transfer that a client was told of is in the histories of both accounts, once;
* what each account recovers to is what its history says.

A transfer is a saga of three messages. The debit takes the money and notes where it is to go; the
credit brings it there; settling strikes the note. The first two carry idempotency ids, so that who
does not know how far a transfer got sends it again, whole. That is what a client does whose bank
died, and what a bank does with the notes that it finds when it starts.

The verdict comes from two witnesses that know nothing of each other: the histories in the journal,
and the lines that clients wrote when they were answered.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Never

import trio
from rich.console import Console
from rich.table import Table

from trouper import (
    Decision,
    DurableActor,
    LmdbStore,
    Ref,
    Reject,
    Request,
    applies,
    decides,
    open_system,
)
from trouper.store import record

PAID_IN = 1_000_00  # cents in each account when it is opened
LARGEST = 400_00  # of one transfer; large enough that some are refused

# --- the account: state, records, messages, rules -------------------------------------------------


@record("ledger.note")
@dataclass(frozen=True, slots=True)
class Note:
    """Money that has left and may not have arrived."""

    to: str
    cents: int


@record("ledger.account")
@dataclass(frozen=True, slots=True)
class Balance:
    """What an account is."""

    cents: int = 0
    under_way: dict[str, Note] = field(default_factory=dict[str, Note])  # by transfer


@record("ledger.paid_in")
@dataclass(frozen=True, slots=True)
class PaidIn:
    """Money came from outside."""

    cents: int


@record("ledger.debited")
@dataclass(frozen=True, slots=True)
class Debited:
    """Money left for another account."""

    transfer: str
    to: str
    cents: int


@record("ledger.credited")
@dataclass(frozen=True, slots=True)
class Credited:
    """Money arrived."""

    transfer: str
    cents: int


@record("ledger.settled")
@dataclass(frozen=True, slots=True)
class Settled:
    """The other account has it: the note is struck."""

    transfer: str


@dataclass(frozen=True, slots=True)
class PayIn(Request[int]):
    """Put money in from outside; answered with the balance."""

    cents: int
    idempotency_id: str


@dataclass(frozen=True, slots=True)
class Debit(Request[int]):
    """Take money out for a transfer; answered with the balance, or refused."""

    transfer: str
    to: str
    cents: int
    idempotency_id: str


@dataclass(frozen=True, slots=True)
class Credit(Request[int]):
    """Bring a transfer's money; answered with the balance."""

    transfer: str
    cents: int
    idempotency_id: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Strike the note of a transfer."""

    transfer: str


@dataclass(frozen=True, slots=True)
class Look(Request[Balance]):
    """Answered with the whole account."""


class Account(
    DurableActor[Balance, PayIn | Debit | Credit | Settle | Look],
    name="ledger.account",
    snapshot_every=500,
    keep_replies=5000,  # far more than an account answers between a kill and the clients' return
):
    """One account. Everything in it happens in a pure function."""

    initial = Balance()

    @decides(PayIn)
    def pay_in(self, state: Balance, message: PayIn) -> Decision[PaidIn, int]:
        """Take the money."""
        return Decision([PaidIn(message.cents)], reply=state.cents + message.cents)

    @decides(Debit)
    def debit(self, state: Balance, message: Debit) -> Decision[Debited, int] | Reject:
        """Let the money go, if it is there."""
        if message.cents > state.cents:
            return Reject(f"{self.key} holds {state.cents} cents, not {message.cents}")
        left = state.cents - message.cents
        return Decision([Debited(message.transfer, message.to, message.cents)], reply=left)

    @decides(Credit)
    def credit(self, state: Balance, message: Credit) -> Decision[Credited, int]:
        """Take the money."""
        came = Credited(message.transfer, message.cents)
        return Decision([came], reply=state.cents + message.cents)

    @decides(Settle)
    def settle(self, state: Balance, message: Settle) -> Decision[Settled]:
        """Strike the note; a second time there is none."""
        known = message.transfer in state.under_way
        return Decision([Settled(message.transfer)] if known else [])

    @decides(Look)
    def look(self, state: Balance, message: Look) -> Decision[Never, Balance]:
        """Show it."""
        return Decision(reply=state)

    @applies(PaidIn)
    def paid_in(self, state: Balance, record: PaidIn) -> Balance:
        """More money."""
        return replace(state, cents=state.cents + record.cents)

    @applies(Debited)
    def debited(self, state: Balance, record: Debited) -> Balance:
        """Less money, and a note of where it went."""
        notes = {**state.under_way, record.transfer: Note(record.to, record.cents)}
        return Balance(state.cents - record.cents, notes)

    @applies(Credited)
    def credited(self, state: Balance, record: Credited) -> Balance:
        """More money."""
        return replace(state, cents=state.cents + record.cents)

    @applies(Settled)
    def settled(self, state: Balance, record: Settled) -> Balance:
        """One note less."""
        notes = {name: note for name, note in state.under_way.items() if name != record.transfer}
        return replace(state, under_way=notes)


Bank = subprocess.Popen[str]
AccountRef = Ref[PayIn | Debit | Credit | Settle | Look]


# --- the bank: one process, which may die at any instant ------------------------------------------


def account_names(count: int) -> list[str]:
    """Return the keys of the accounts."""
    return [f"account-{number:02}" for number in range(count)]


async def transfer(
    accounts: dict[str, AccountRef], name: str, source: str, target: str, cents: int
) -> str:
    """Bring money from one account to the other; however often, it arrives once."""
    try:
        await accounts[source].ask(Debit(name, target, cents, f"{name}/debit"))
    except Reject:
        return "refused"
    await finish(accounts, name, source, Note(target, cents))
    return "done"


async def finish(accounts: dict[str, AccountRef], name: str, source: str, note: Note) -> None:
    """Bring money that has left to where it is to go."""
    await accounts[note.to].ask(Credit(name, note.cents, f"{name}/credit"))
    await accounts[source].send(Settle(name))


async def client(
    number: int, begun: int, accounts: dict[str, AccountRef], acks: int, until: float
) -> None:
    """Transfer without a pause, and write down what was answered; ``begun`` transfers are over."""
    names = list(accounts)
    while trio.current_time() < until:
        name = f"{number}-{begun}"
        choose = random.Random(name)  # the same transfer again, if it has to be sent again
        source, target = choose.sample(names, 2)
        word = await transfer(accounts, name, source, target, choose.randint(1, LARGEST))
        os.write(acks, f"{name} {word}\n".encode())
        begun += 1


async def serve(home: Path, clients: int, count: int, seconds: float) -> None:
    """Open the bank, finish what was under way, and let the clients in."""
    acks = os.open(home / "acks", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    begun = Counter(int(name.partition("-")[0]) for name, _ in answers(home))
    async with open_system("bank", store=home / "store") as system:
        accounts = {name: await system.actor(Account, name) for name in account_names(count)}
        for ref in accounts.values():
            await ref.ask(PayIn(PAID_IN, "opening"))
        for source, ref in accounts.items():
            for name, note in (await ref.ask(Look())).under_way.items():
                await finish(accounts, name, source, note)
        print("open", flush=True)
        until = trio.current_time() + seconds
        async with trio.open_nursery() as nursery:
            for number in range(clients):
                nursery.start_soon(client, number, begun[number], accounts, acks, until)


def answers(home: Path) -> Iterator[tuple[str, str]]:
    """Yield what clients were told: (transfer, word). A torn last line was told to nobody."""
    path = home / "acks"
    for line in path.read_text().split("\n")[:-1] if path.exists() else []:
        name, _, word = line.partition(" ")
        yield name, word


# --- the audit: what the journal says, read with no help of the accounts --------------------------


@dataclass(slots=True)
class Books:
    """The histories of all accounts, added up. Read on from where the last audit ended."""

    read: Counter[str] = field(default_factory=Counter[str])  # records by account
    held: Counter[str] = field(default_factory=Counter[str])  # cents by account
    paid_in: int = 0
    debited: Counter[str] = field(default_factory=Counter[str])  # how often, by transfer
    credited: Counter[str] = field(default_factory=Counter[str])
    amounts: dict[str, int] = field(default_factory=dict[str, int])
    faults: list[str] = field(default_factory=list[str])

    @property
    def under_way(self) -> int:
        """Cents that have left and not arrived."""
        return sum(self.amounts[name] for name in self.debited if name not in self.credited)

    def enter(self, account: str, what: object) -> None:
        """Add up one record."""
        match what:
            case PaidIn(cents):
                self.paid_in += cents
                self.held[account] += cents
            case Debited(name, _, cents):
                self.debited[name] += 1
                self.amounts[name] = cents
                self.held[account] -= cents
            case Credited(name, cents):
                self.credited[name] += 1
                self.held[account] += cents
                if self.amounts.get(name, cents) != cents:
                    self.faults.append(f"transfer {name} changed on its way")
            case _:
                pass

    def judge(self, told: dict[str, str], recovered: dict[str, Balance]) -> None:
        """Compare with what clients were told, and with what the accounts recover to."""
        for name, word in told.items():
            there = (self.debited[name], self.credited[name])
            if there != ((1, 1) if word == "done" else (0, 0)):
                self.faults.append(f"transfer {name} was {word}; debits, credits: {there}")
        for what, times in (("debited", self.debited), ("credited", self.credited)):
            twice = [name for name, n in times.items() if n > 1]
            if twice:
                self.faults.append(f"{len(twice)} transfers {what} twice, such as {twice[0]}")
        nowhere = set(self.credited) - set(self.debited)
        if nowhere:
            self.faults.append(f"{len(nowhere)} transfers arrived and never left")
        total = sum(self.held.values()) + self.under_way
        if total != self.paid_in:
            self.faults.append(f"{self.paid_in} cents were paid in, {total} are there")
        for account, state in recovered.items():
            if state.cents != self.held[account]:
                self.faults.append(f"{account} recovers to {state.cents}, not {self.held[account]}")
        if min(self.held.values()) < 0:
            self.faults.append("an account holds less than nothing")


async def audit(home: Path, count: int, books: Books) -> int:
    """Read what is new in the journal and judge it; return how many transfers are told of."""
    told = dict(answers(home))
    async with LmdbStore(home / "store") as store, open_system("audit", store=store) as system:
        for account in account_names(count):
            async for number, what in store.records(account, after=books.read[account]):
                books.enter(account, what)
                books.read[account] = number
        recovered = {
            account: await (await system.actor(Account, account)).ask(Look())
            for account in account_names(count)
        }
    books.judge(told, recovered)
    return len(told)


# --- the demonstration ----------------------------------------------------------------------------


def die_with(parent: int) -> None:
    """Make the kernel kill this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def bank(home: Path, options: argparse.Namespace, seconds: float) -> Generator[Bank]:
    """Run the bank in a process of its own; whatever goes wrong here, it does not go on alone."""
    command = [sys.executable, __file__, "--serve", str(home), "--parent", str(os.getpid())]
    command += ["--clients", str(options.clients), "--accounts", str(options.accounts)]
    command += ["--seconds", str(seconds)]
    with (home / "log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    with process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "open\n":
                process.wait()
                raise SystemExit(f"ledger: the bank did not open: {tail_of(home)}")
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def tail_of(home: Path) -> str:
    """Return the end of what the bank said about itself."""
    return (home / "log").read_text()[-2000:]


def demonstrate(console: Console, home: Path, options: argparse.Namespace) -> int:
    """Kill, audit, and again; then let it close in order, and compute the verdict."""
    chance = random.Random(options.seed)
    books = Books()
    table = Table(title="after each kill", title_justify="left")
    for name in ("killed after", "transfers", "records", "cents held", "under way", "faults"):
        table.add_column(name, justify="right")
    began = time.monotonic()
    acks = home / "acks"
    told = answered = 0
    for kill in range(options.kills + 1):
        is_last = kill == options.kills
        seconds = options.seconds if is_last else chance.uniform(0.2, 2 * options.seconds)
        with bank(home, options, seconds if is_last else 60.0) as process:
            if is_last:
                if process.wait() != 0:
                    raise SystemExit(f"ledger: the bank failed: {tail_of(home)}")
            else:
                time.sleep(seconds)
                while process.poll() is None and acks.stat().st_size == answered:
                    time.sleep(0.01)  # a slow machine: let a client be answered first
                process.send_signal(signal.SIGKILL)
                process.wait()
                answered = acks.stat().st_size
        before, told = told, trio.run(audit, home, options.accounts, books)
        table.add_row(
            "closed in order" if is_last else f"{seconds:.2f} s",
            f"+{told - before:,}",
            f"{sum(books.read.values()):,}",
            f"{sum(books.held.values()):,}",
            f"{books.under_way:,}",
            str(len(books.faults)),
        )
        if told == before:
            books.faults.append(f"no transfer was answered in run {kill + 1}: nothing to prove")
        if is_last and books.under_way:
            books.faults.append("the bank closed in order with money under way")
    console.print(table)
    console.print(
        f"{options.clients} clients, {options.accounts} accounts, {options.kills} kills, "
        f"{time.monotonic() - began:.1f} s in all"
    )
    for fault in books.faults[:20]:
        console.print(f"[red]x[/] {fault}")
    if books.faults:
        console.print(f"[red]verdict: {len(books.faults)} faults[/]")
        return 1
    refused = sum(word == "refused" for _, word in answers(home))
    console.print(
        f"[green]verdict: {books.paid_in:,} cents were paid in and are there; {told:,} transfers "
        f"were answered, {told - refused:,} of them made, each once, {refused:,} refused, none of "
        "those made[/]"
    )
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Transfers that survive SIGKILL.")
    parser.add_argument("--kills", type=int, default=5, help="how often the bank is killed")
    parser.add_argument("--clients", type=int, default=200, help="how many transfer at once")
    parser.add_argument("--accounts", type=int, default=20, help="between how many accounts")
    parser.add_argument("--seconds", type=float, default=0.8, help="a bank lives, on average")
    parser.add_argument("--seed", type=int, default=None, help="of the instants of the kills")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)  # be the bank
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.kills < 0 or options.clients < 1 or options.accounts < 2 or options.seconds <= 0:
        parser.error("it takes a client, two accounts, a while, and no less than no kill")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the demonstration, or be the bank in it."""
    options = parse(argv)
    if options.serve is not None:
        die_with(options.parent)
        trio.run(serve, options.serve, options.clients, options.accounts, options.seconds)
        return 0
    home = Path(tempfile.mkdtemp(prefix="trouper-ledger-"))
    try:
        return demonstrate(Console(width=100), home, options)
    except KeyboardInterrupt:
        print("ledger: interrupted; the bank ends with it", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
