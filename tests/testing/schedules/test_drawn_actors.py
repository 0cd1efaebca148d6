"""Programs drawn at random on real actors: no search misses a kind of schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import pytest
import trio
from tests.testing.schedules.scenarios import Scene

from trouper import Actor, Context, Request, handles
from trouper.actors import Terminated
from trouper.errors import TrouperError
from trouper.testing.schedules import Rules, Simulation, scenario_play, search

Op = tuple[str, str, str]  # what to do, with whom, by which message
ASKS = ("ask", "hasty", "both", "kill", "watch")  # never of itself
SENDS = ("ask", "tell", "send", "after", "hasty", "both", "pipe")
ENDS = ["ask", "tell", "send", "both", "stop", "kill", "after", "cancel", "sleep"]
WORK = ["ask", "tell", "hasty", "boom", "watch", "stash", "unstash", "pipe", "reg", "find"]


class Boom(Exception):
    pass


@dataclass(frozen=True)
class Message(Request[Any]):
    name: str


class Program:
    """What two or three actors do at each message, drawn from a seed."""

    def __init__(self, seed: int, known: Sequence[str]) -> None:
        random = Random(seed)
        names = ["a", "b", "c"][: random.choice([2, 2, 3])]
        self.names = names
        self.ops: dict[tuple[str, str], list[Op]] = {
            (name, f"M{depth}"): self._draw(random, name, depth, known)
            for name in names
            for depth in range(3)
        }
        self.rooms = {name: 1 for name in names if random.random() < 0.25}
        rules: list[Literal["reject", "wait", "drop_oldest"]] = ["reject", "wait", "drop_oldest"]
        self.overflow = {name: random.choice(rules) for name in self.rooms}
        lives: list[Literal["never", "permanent"]] = ["never", "permanent"]
        self.restart = {name: random.choice(lives) for name in names}
        self.first = [(random.choice("tu"), random.choice(names)) for _ in range(2)]
        time: list[Literal["idle", "anytime"]] = ["idle", "idle", "anytime"]
        for _ in self.ops:
            random.random()
        self.rules = Rules(time=random.choice(time), fair_after=200, max_steps=400)

    def _draw(self, random: Random, me: str, depth: int, known: Sequence[str]) -> list[Op]:
        ops: list[Op] = []
        for _ in range(random.randint(0, 2 if depth else 3)):
            op = random.choice(known)
            if depth == 2 and op in SENDS:
                continue  # else messages would go on for ever
            others = [n for n in self.names if n != me] if op in ASKS else self.names
            ops.append((op, random.choice(others), f"M{depth + 1}"))
        return ops

    async def scenario(self, sim: Simulation) -> Scene:
        refs: dict[str, Any] = {}
        for name in self.names:
            refs[name] = await sim.system.spawn(
                Drawn,
                self,
                name,
                refs,
                name=name,
                restart=self.restart[name],
                mailbox=self.rooms.get(name),
                overflow=self.overflow.get(name),
            )
        for number, (who, target) in enumerate(self.first):
            sim.start(_quietly, refs[target].send, Message("M0"), name=f"{who}{number}")
        yield


async def _quietly(verb: Any, message: Message) -> None:
    with contextlib.suppress(TrouperError):
        await verb(message)


class Drawn(Actor[Message | Terminated]):
    def __init__(self, program: Program, name: str, refs: dict[str, Any]) -> None:
        self.program, self.name, self.refs, self.turns = program, name, refs, 0

    @handles(Message)
    async def take(self, message: Message, ctx: Context[Any]) -> None:
        self.turns += 1
        for op, other, what in self.program.ops.get((self.name, message.name), []):
            with contextlib.suppress(TrouperError):
                await self.do(op, self.refs[other], Message(what), ctx)

    @handles(Terminated)
    def terminated(self, message: Terminated) -> None:
        pass

    async def do(self, op: str, ref: Any, message: Message, ctx: Context[Any]) -> None:
        match op:
            case "ask" | "send":
                await getattr(ref, op)(message)
            case "hasty":
                with trio.move_on_after(1):
                    await ref.ask(message)
            case "both":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_quietly, ref.ask, message)
                    nursery.start_soon(_quietly, ref.ask, message)
            case "tell":
                ref.tell(message)
            case "stop" | "kill":
                getattr(ref, op)()
            case "sleep":
                await trio.sleep(1)
            case _:
                self.keep(op, ref, message, ctx)

    def keep(self, op: str, ref: Any, message: Message, ctx: Context[Any]) -> None:
        match op:
            case "after":
                ctx.after(1, message, key=message.name)
            case "cancel":
                ctx.cancel_timer(message.name)
            case "watch":
                ctx.watch(ref)
            case "pipe":
                ctx.pipe(_quietly, ref.ask, message, to=lambda _: Message("M2"))
            case "stash" if self.turns == 1:
                ctx.stash()
            case "unstash":
                ctx.unstash_all()
            case "boom" if self.turns == 1 and self.program.restart[self.name] == "permanent":
                raise Boom
            case "reg" if ctx.registry.whereis("n") is None:
                ctx.registry.register("n", ctx.self_ref)
            case "find":
                ctx.registry.whereis("n")
            case _:
                pass


@pytest.mark.parametrize("seed", [8, 22, 51, 61, 62])
def test_no_search_misses_a_kind_of_schedule_of_programs_that_end_actors(seed: int) -> None:
    compare(Program(seed, ENDS))


@pytest.mark.parametrize("seed", [109, 117, 124, 126, 130, 133])
def test_no_search_misses_a_kind_of_schedule_of_programs_that_do_work(seed: int) -> None:
    compare(Program(seed, WORK))


def compare(program: Program) -> None:
    play = scenario_play(program.scenario)
    found = [
        search(play, strategy=strategy, budget=120, rules=program.rules, keep_going=True)
        for strategy in ("naive", "sleep", "dfs")
    ]
    whole = [report.signatures for report in found if report.exhausted]
    assert len(whole) >= 2
    assert len(set(whole)) == 1
