"""Instruments: what they are told, and that nothing of them is there when there are none."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Actor, Context, Request, handles, open_system
from trouper.actors._local import LocalRef
from trouper.actors._traced import TracedPlain, TracedRef
from trouper.errors import Reject
from trouper.mailbox import Mailbox, Traced

HERE = Path(__file__).parent


@dataclass
class Log:
    """An instrument that writes down what it is told."""

    name: str
    lines: list[str] = field(default_factory=list)

    def sending(self, how: str, target: Any, message: object) -> LogJourney:
        self.lines.append(f"{self.name}: {how} {message} to {target.name}")
        return LogJourney(self)


@dataclass
class LogJourney:
    log: Log

    def sent(self, error: BaseException | None) -> None:
        self.log.lines.append(f"{self.log.name}: sent, {error!r}")

    def turn(self, target: Any) -> LogTurn:
        self.log.lines.append(f"{self.log.name}: turn")
        return LogTurn(self.log)

    def lost(self, reason: str) -> None:
        self.log.lines.append(f"{self.log.name}: lost, {reason}")


@dataclass
class LogTurn:
    log: Log

    def leave(self) -> None:
        self.log.lines.append(f"{self.log.name}: left")

    def over(self, outcome: str, error: BaseException | None) -> None:
        self.log.lines.append(f"{self.log.name}: {outcome}, {error!r}")


class Ping(Request[str]):
    def __str__(self) -> str:
        return "ping"


class Echo(Actor[str | Ping]):
    @handles(str)
    def take(self, message: str) -> None:
        if message == "refuse":
            raise Reject("no")

    @handles(Ping)
    def ping(self, message: Ping) -> str:
        return "pong"


async def test_an_instrument_is_told_the_way_of_a_message_step_by_step() -> None:
    log = Log("log")
    async with open_system("s", instruments=[log]) as system:
        ref = await system.spawn(Echo, name="e")
        ref.tell("hello")
        await wait_all_tasks_blocked()
        log.lines.append("--")
        assert await ref.ask(Ping()) == "pong"
        log.lines.append("--")
        ref.tell("refuse")
        ref.stop()
    assert log.lines == [
        "log: tell hello to e",
        "log: sent, None",
        "log: turn",
        "log: left",
        "log: done, None",
        "--",
        "log: ask ping to e",  # a direct ask: its turn is inside the call
        "log: turn",
        "log: left",
        "log: done, None",
        "log: sent, None",
        "--",
        "log: tell refuse to e",
        "log: sent, None",
        "log: lost, stopped",
    ]


async def test_several_instruments_are_nested_in_their_order() -> None:
    lines: list[str] = []
    async with open_system("s", instruments=(Log("a", lines), Log("b", lines))) as system:
        ref = await system.spawn(Echo, name="e")
        ref.tell("refuse")
        await wait_all_tasks_blocked()
    assert lines == [
        "a: tell refuse to e",
        "b: tell refuse to e",
        "b: sent, None",
        "a: sent, None",
        "a: turn",
        "b: turn",
        "b: left",
        "b: rejected, Reject('no')",
        "a: left",
        "a: rejected, Reject('no')",
    ]


async def test_a_plain_handler_that_is_async_in_the_next_life_is_awaited() -> None:
    gate = trio.Event()

    class Slow(Actor[str | Ping]):
        @handles(Ping)
        async def ping(self, message: Ping) -> str:
            await trio.lowlevel.checkpoint()
            return "slow pong"

        @handles(str)
        async def take(self, message: str, ctx: Context[Any]) -> None:
            raise ValueError("again")

    class Quick(Actor[str | Ping]):
        @handles(Ping)
        def ping(self, message: Ping) -> str:
            return "quick pong"

        @handles(str)
        async def take(self, message: str, ctx: Context[Any]) -> None:
            await gate.wait()
            raise ValueError("first life")

    lives: list[Any] = [Quick, Slow, Slow, Quick]
    answers: list[str] = []
    async with open_system("s", instruments=[Log("log")]) as system:
        ref = await system.spawn(lambda: lives.pop(0)(), restart="permanent")

        async def ask() -> None:
            answers.append(await ref.ask(Ping()))

        async with trio.open_nursery() as nursery:
            ref.tell("crash")
            await wait_all_tasks_blocked()
            nursery.start_soon(ask)  # queued for a plain handler, and handled by an async one
            await wait_all_tasks_blocked()
            gate.set()
        for _ in range(2):
            ref.tell("crash")
            await wait_all_tasks_blocked()
            await ask()
    assert answers == ["slow pong", "slow pong", "quick pong"]


# --- off ------------------------------------------------------------------------------------------


@pytest.mark.proves("Interop: OpenTelemetry")
async def test_without_instruments_a_message_takes_the_way_it_took_before_there_were_any() -> None:
    async with open_system("s") as system:
        ref: Any = await system.spawn(Echo)
        kind: Any = type(ref)
        assert kind is LocalRef
        assert (kind.tell, kind.send) == (Mailbox.tell, Mailbox.send)
        assert ref.table is Echo.__behaviour__.table  # shared by the class, as before
        assert not any(issubclass(kind, Traced) for kind in ref.table)
        message = "hello"
        ref.tell(message)
        assert list(ref.queue) == [message]  # bare
        assert ref.queue[0] is message
        assert TracedRef.__slots__ == ("behaviour_table",)  # what a traced one has more
        assert not hasattr(ref, "behaviour_table")


@pytest.mark.proves("Interop: OpenTelemetry")
def test_no_line_of_the_hot_path_knows_of_instruments() -> None:
    from trouper.mailbox import _ask, _dispatcher, _room, _worker

    here = (_ask, _dispatcher, _room, _worker)
    things = [thing for module in here for thing in vars(module).values()]
    homes = {module.__name__ for module in here}
    classes = [thing for thing in things if isinstance(thing, type) and thing.__module__ in homes]
    hot: list[Any] = [thing for cls in classes for thing in vars(cls).values()]
    hot += [thing for thing in things if getattr(thing, "__module__", None) in homes]
    hot += [Mailbox.tell, Mailbox.send, Mailbox.put_ask, LocalRef.ask, LocalRef._ask_in_turn]
    names = {name for fn in hot if isinstance(fn, FunctionType) for name in names_in(fn.__code__)}
    assert {"popleft", "settle", "ready", "accepts"} <= names  # it looked where the path is
    words = ("instruments", "trace", "span", "journey", "parcel", "bare")
    assert [name for name in names if any(word in name.lower() for word in words)] == []


def names_in(code: CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*map(names_in, inner))


async def test_with_an_instrument_it_does_not(cast: Any) -> None:
    async with open_system("s", instruments=[Log("log")]) as system:
        ref: Any = await system.spawn(Echo)
        ref.tell("hello")
        assert type(ref).__name__ == TracedRef.__name__
        assert [type(entry) for entry in ref.queue] == [TracedPlain]


# --- on -------------------------------------------------------------------------------------------

PLUGIN = """
from trouper.actors import _parts

balance = {"sending": 0, "sent": 0, "turn": 0, "leave": 0, "over": 0}

class Counting:
    def sending(self, how, target, message):
        balance["sending"] += 1
        return self
    def sent(self, error):
        balance["sent"] += 1
    def turn(self, target):
        balance["turn"] += 1
        return self
    def leave(self):
        balance["leave"] += 1
    def over(self, outcome, error):
        balance["over"] += 1
    def lost(self, reason):
        pass

make = _parts.Parts.__init__

def make_traced(self, instruments=()):
    make(self, (Counting(),))

_parts.Parts.__init__ = make_traced

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"BALANCE {balance}")
"""
# The tests of what messages do and of what they meet; each of them opens systems of its own.
FOLLOWED = (
    *("dead_letters", "local", "mailbox_rules", "pipes", "protocol"),
    *("redelivery", "stash", "timers", "topics", "waits"),
)


def test_no_rule_of_the_actors_changes_under_an_instrument(tmp_path: Path) -> None:
    (tmp_path / "counting_plugin.py").write_text(PLUGIN)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    options = ["-q", "-W", "error", "-p", "counting_plugin", "-p", "no:cacheprovider"]
    tests = [str(HERE / f"test_{name}.py") for name in FOLLOWED]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=HERE.parents[1],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("BALANCE")]
    counts = eval(line.removeprefix("BALANCE "))
    assert counts["sending"] == counts["sent"] > 1000
    assert counts["turn"] == counts["over"] > 1000
