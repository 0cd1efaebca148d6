"""Small programs to compare searches by: some written for one thing each, others at random."""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from _models.planted import (
    ANYTIME,
    Actors,
    allocators,
    announce,
    finalise,
    go,
    plain,
    pool,
    takeover,
    wake_up,
)
from _models.toy import (
    Arm,
    Ask,
    Both,
    Commit,
    Disarm,
    Handler,
    Read,
    Scene,
    Sleep,
    Tell,
    Touch,
    Toy,
    Turn,
)
from trouper.testing.schedules import Rules


def timers() -> Scene:
    """Two timers, one of which may be cancelled, and a key that both write."""

    def actors() -> Actors:
        def a(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Go":
                yield Arm(2, "b", "Late")
                yield Commit({"k": "a"})
                yield Disarm("Late")

        def b(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Go":
                yield Sleep(1)
            yield Commit({"k": "b"})

        return {"a": a, "b": b}

    return Scene(actors, go("a", "b"))


def keys() -> Scene:
    """Reads and writes of two journal keys by two actors."""

    def actors() -> Actors:
        def a(toy: Toy, what: str, payload: Any) -> Turn:
            yield Read("x")
            yield Commit({"y": 1})

        def b(toy: Toy, what: str, payload: Any) -> Turn:
            yield Read("y")
            yield Commit({"x": 1})

        return {"a": a, "b": b}

    return Scene(actors, go("a", "b"))


def asks() -> Scene:
    """A chain of asks and a rival for its middle."""

    def actors() -> Actors:
        def middle(toy: Toy, what: str, payload: Any) -> Turn:
            yield Ask("end", "Get")

        def asker(toy: Toy, what: str, payload: Any) -> Turn:
            yield Ask("middle", "Get")

        return {"a": asker, "b": asker, "middle": middle, "end": plain(lambda what, payload: 1)}

    return Scene(actors, go("a", "b"))


def both() -> Scene:
    """Two asks at once, whose answers come in any order."""

    def actors() -> Actors:
        def asker(toy: Toy, what: str, payload: Any) -> Turn:
            yield Both(Ask("x", "Get"), Ask("y", "Get"))

        def rival(toy: Toy, what: str, payload: Any) -> Turn:
            yield Tell("x", "Get")

        return {"a": asker, "b": rival} | dict.fromkeys("xy", plain(lambda what, payload: 1))

    return Scene(actors, go("a", "b"))


def hasty() -> Scene:
    """An ask that is given up, before it is taken or after, while another actor is in the way."""

    def actors() -> Actors:
        def asker(toy: Toy, what: str, payload: Any) -> Turn:
            yield Ask("end", "Get", within=1)

        def end(toy: Toy, what: str, payload: Any) -> Turn:
            yield Commit({"k": what})

        return {"a": asker, "end": end}

    return Scene(actors, go("a", "end"))


def circle() -> Scene:
    """Two actors that ask each other: a deadlock, unless one is done before."""

    def actors() -> Actors:
        def asker(other: str) -> Handler:
            def handler(toy: Toy, what: str, payload: Any) -> Turn:
                if what == "Go":
                    yield Ask(other, "Get")

            return handler

        return {"a": asker("b"), "b": asker("a")}

    return Scene(actors, go("a", "b"))


def bounded() -> Scene:
    """Two producers and a mailbox with room for one."""

    def actors() -> Actors:
        def producer(toy: Toy, what: str, payload: Any) -> Turn:
            yield Tell("sink", "Item")
            yield Tell("sink", "Item")

        return {"a": producer, "b": producer, "sink": plain(lambda what, payload: None)}

    return Scene(actors, go("a", "b"), capacity={"sink": 1})


def restarts() -> Scene:
    """A child that fails at its first message; its supervisor gives it a new life."""

    def actors() -> Actors:
        state = {"broken": False, "done": 0}

        def child(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Restarted":
                state["broken"] = False
            elif what == "Boom":
                state["broken"] = True
                yield Tell("supervisor", "Failed")
            elif not state["broken"]:
                yield Commit({"work": state["done"]})

        def supervisor(toy: Toy, what: str, payload: Any) -> Turn:
            yield Tell("child", "Restarted")

        return {"child": child, "supervisor": supervisor}

    return Scene(actors, [("x", "child", "Boom", None), ("y", "child", "Work", None)])


def shared() -> Scene:
    """An object in memory that two actors use, one of them twice."""

    def actors() -> Actors:
        def handler(times: int) -> Handler:
            def run(toy: Toy, what: str, payload: Any) -> Turn:
                for _ in range(times):
                    yield Touch("cache")
                    yield Commit({f"{times}": 1})

            return run

        return {"a": handler(2), "b": handler(1), "c": handler(3)}

    return Scene(actors, go("a", "b"))


COMPARED: dict[str, tuple[Scene, Rules]] = {
    "read-then-max": (allocators(fixed=False, stagger=0), Rules()),
    "read-then-max, staggered": (allocators(fixed=False, stagger=2), Rules()),
    "bump before fence": (takeover(fixed=False), ANYTIME),
    "fence before bump": (takeover(fixed=True), ANYTIME),
    "two-transaction finalise": (finalise(2, fixed=False), Rules()),
    "one-transaction finalise": (finalise(2, fixed=True), Rules()),
    "slots": (pool(fixed=True, stagger=1), Rules()),
    "lost wake-up": (wake_up(fixed=False), Rules()),
    "announce after arm": (announce(fixed=False), ANYTIME),
    "timers when idle": (timers(), Rules()),
    "timers at any time": (timers(), ANYTIME),
    "keys": (keys(), Rules()),
    "asks": (asks(), Rules()),
    "two asks at once": (both(), Rules()),
    "an ask that is given up": (hasty(), ANYTIME),
    "an ask that is given up when idle": (hasty(), Rules()),
    "asks in a circle": (circle(), Rules()),
    "bounded mailbox": (bounded(), Rules()),
    "restarts": (restarts(), Rules()),
    "restarts, pairwise": (restarts(), Rules(delivery="pairwise")),
    "an object in memory": (shared(), Rules()),
}


# --- at random ------------------------------------------------------------------------------------

Op: TypeAlias = tuple[str, str, str, int]
Program: TypeAlias = dict[tuple[str, str], list[Op]]  # by actor and message


def drawn(random: Random) -> tuple[Scene, Rules]:
    """A small program of two or three actors that do anything a toy can."""
    names = ["a", "b", "c"][: random.choice([2, 2, 3])]
    program: Program = {
        (name, f"M{depth}"): _ops(random, names, name, depth)
        for name in names
        for depth in range(3)
    }
    moody = {key for key in program if random.random() < 0.3}  # ends early, as what it reads says
    senders = ["t", "u"]
    mail = [(random.choice(senders), random.choice(names), "M0", None) for _ in range(2)]
    if random.random() < 0.4:
        mail.append(("u", random.choice(names), "M0", None))
    recovery = [("r", random.choice(names), "M1", None) for _ in range(random.randint(0, 2))]

    def actors() -> Actors:
        turns: dict[str, int] = {}

        def handler(name: str) -> Handler:
            def run(toy: Toy, what: str, payload: Any) -> Turn:
                found: Any = None
                for op in program[name, what]:
                    if not (found and (name, what) in moody):
                        found = yield _wish(op, name)
                turns[name] = turns.get(name, 0) + 1
                return turns[name] > 1

            return run

        return {name: handler(name) for name in names}

    scene = Scene(
        actors,
        mail,
        recover=lambda toy: recovery,
        crashes=random.choice([0, 0, 0, 1]),
        capacity={name: 1 for name in names if random.random() < 0.2},
    )
    rules = Rules(
        delivery=random.choice(["causal", "causal", "pairwise"]),
        time=random.choice(["idle", "anytime"]),
    )
    return scene, rules


def _ops(random: Random, names: list[str], me: str, depth: int) -> list[Op]:
    kinds = ["commit", "read", "sleep", "disarm", "touch"]
    if depth < 2:  # else messages would go on for ever
        kinds += ["ask", "tell", "arm", "hasty", "both"]
    ops: list[Op] = []
    for _ in range(random.randint(0, 2 if depth else 3)):
        kind, seconds = random.choice(kinds), random.choice([1, 1, 2])
        others = (
            [name for name in names if name != me] if kind in ("ask", "hasty", "both") else names
        )
        what = f"M{depth + 1}" if kind != "disarm" else random.choice(["M1", "M2"])
        key = random.choice("xy") if kind in ("commit", "read") else random.choice(others)
        ops.append((kind, key, what, seconds))
    return ops


def _wish(op: Op, me: str) -> object:
    kind, key, what, seconds = op
    match kind:
        case "ask":
            return Ask(key, what)
        case "hasty":
            return Ask(key, what, within=seconds)
        case "both":
            return Both(Ask(key, what), Ask(key, what))
        case "tell":
            return Tell(key, what)
        case "arm":
            return Arm(seconds, key, what)
        case "commit":
            return Commit({key: me})
        case "read":
            return Read(key)
        case "sleep":
            return Sleep(seconds)
        case "disarm":
            return Disarm(what)
        case _:
            return Touch("cache")
