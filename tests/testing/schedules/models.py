"""Small programs with planted bugs, beside their fixed forms; and small ones to compare searches.

A planted bug never shows in the ordinary order: something staggers it, as the rest of a program
would. ``noise`` adds messages that nothing depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from tests.testing.schedules.conftest import (
    Answer,
    Arm,
    Ask,
    Both,
    Commit,
    Disarm,
    Handler,
    Later,
    Letter,
    Mail,
    Read,
    Scene,
    Sleep,
    Tell,
    Touch,
    Toy,
    Turn,
)

from trouper.testing.schedules import Rules

ANYTIME = Rules(time="anytime")
Actors: TypeAlias = dict[str, Handler]


def go(*targets: str) -> list[Mail]:
    """One message to start each, from a sender of its own."""
    return [(f"main.{n}", target, "Go", None) for n, target in enumerate(targets)]


def plain(take: Callable[[str, Any], Any]) -> Handler:
    """A handler that waits for nothing."""

    def handler(toy: Toy, what: str, payload: Any) -> Turn:
        return take(what, payload)
        yield

    return handler


def hops(first: str, count: int, target: str) -> tuple[Actors, str]:
    """A chain of actors that pass a message on; returns them and whom to send it to."""
    names = [f"{first}.{n}" for n in range(count)]

    def relay(onward: str) -> Handler:
        def handler(toy: Toy, what: str, payload: Any) -> Turn:
            yield Tell(onward, what, payload)

        return handler

    return {n: relay(o) for n, o in zip(names, [*names[1:], target], strict=True)}, names[0]


def noise(scene: Scene, messages: int = 16) -> Scene:
    """The same, with unrelated messages: half as many actors that each tell another one."""
    pairs = messages // 2

    def actors() -> Actors:
        def handler(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Go":
                yield Tell("noise sink", "Noise")

        more = {f"noise{n}": handler for n in range(pairs)}
        return scene.actors() | more | {"noise sink": handler}

    mail = [*go(*(f"noise{n}" for n in range(pairs))), *scene.mail]
    return Scene(actors, mail, scene.check, scene.recover, scene.crashes, scene.capacity)


# --- planted bugs ---------------------------------------------------------------------------------


def allocators(count: int = 2, *, fixed: bool, stagger: int = 3) -> Scene:
    """Read-then-max: a rank is read and one more is written, in two messages."""

    def actors() -> Actors:
        ranks: list[int] = []

        def store(what: str, payload: Any) -> Any:
            if what == "Max":
                return max(ranks, default=0)
            ranks.append(max(ranks, default=0) + 1 if payload is None else payload)
            return None

        def driver(toy: Toy, what: str, payload: Any) -> Turn:
            top = None if fixed else (yield Ask("store", "Max"))
            yield Ask("store", "Put", None if top is None else top + 1)
            toy.journal["ranks"] = list(ranks)

        late = [hops(f"hop{n}", stagger * n, f"d{n}")[0] for n in range(1, count) if stagger]
        chains = {name: handler for chain in late for name, handler in chain.items()}
        return {"store": plain(store)} | {f"d{n}": driver for n in range(count)} | chains

    def check(toy: Toy) -> None:
        ranks = toy.journal["ranks"]
        assert len(set(ranks)) == len(ranks), f"a rank was given twice: {ranks}"

    first = [f"hop{n}.0" if n and stagger else f"d{n}" for n in range(count)]
    return Scene(actors, go(*first), check)


def takeover(*, fixed: bool) -> Scene:
    """Bump before fence: the successor of a lease starts before the old owner is fenced off."""

    def actors() -> Actors:
        def owner(epoch: int) -> Handler:
            def handler(toy: Toy, what: str, payload: Any) -> Turn:
                if (yield Read("row")) is None:
                    yield Commit({"row": epoch}, fence=epoch)

            return handler

        def supervisor(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Go":
                yield Tell("old", "Work")
                yield Arm(30, "supervisor", "Lease")
            elif fixed:
                yield Commit({"fence": 2}, "fence")
                yield Tell("new", "Work")
            else:
                yield Tell("new", "Work")
                yield Ask("registry", "Moved")
                yield Commit({"fence": 2}, "fence")

        registry = plain(lambda what, payload: None)
        owners = {"old": owner(1), "new": owner(2)}
        return {"supervisor": supervisor, "registry": registry} | owners

    def check(toy: Toy) -> None:
        rows = [value for _, key, value in toy.log if key == "row"]
        assert len(rows) == 1, f"the row was written by {rows}"

    return Scene(actors, go("supervisor"), check)


def finalise(children: int = 1, *, fixed: bool) -> Scene:
    """Two-transaction finalise: a crash between a row and its rank leaves a row without a rank."""

    def actors() -> Actors:
        def child(name: str) -> Handler:
            def handler(toy: Toy, what: str, payload: Any) -> Turn:
                if (yield Read(f"{name} row")) is not None:
                    return  # settled already
                row, rank = {f"{name} row": "done"}, {f"{name} rank": 1}
                if fixed:
                    yield Commit(row | rank)
                else:
                    yield Commit(row, "row")
                    yield Commit(rank, "rank")

            return handler

        return {f"c{n}": child(f"c{n}") for n in range(children)}

    def check(toy: Toy) -> None:
        for n in range(children):
            assert f"c{n} rank" in toy.journal, f"c{n} was settled and has no rank"

    start = go(*(f"c{n}" for n in range(children)))
    return Scene(actors, start, check, recover=lambda toy: start, crashes=1)


def pool(*, fixed: bool, stagger: int = 5) -> Scene:
    """Ancestor-pool deadlock: a parent holds a slot while its child waits for one."""

    def actors() -> Actors:
        state = {"free": 2}
        queue: list[Letter] = []

        def slots(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Acquire":
                if state["free"]:
                    state["free"] -= 1
                    return
                queue.append((yield Later()))
            elif queue:
                yield Answer(queue.pop(0))
            else:
                state["free"] += 1

        def parent(child: str) -> Handler:
            def handler(toy: Toy, what: str, payload: Any) -> Turn:
                yield Ask("pool", "Acquire")
                yield Ask(child, "Run")
                yield Tell("pool", "Release")

            return handler

        def child(toy: Toy, what: str, payload: Any) -> Turn:
            if not fixed:  # else it runs in its parent's slot
                yield Ask("pool", "Acquire")
                yield Tell("pool", "Release")

        late, _ = hops("hop", stagger, "p1")
        return {
            "pool": slots,
            "p0": parent("c0"),
            "p1": parent("c1"),
            "c0": child,
            "c1": child,
        } | late

    return Scene(actors, go("p0", "hop.0"))


def wake_up(*, fixed: bool) -> Scene:
    """Lost wake-up: what comes between looking and waiting wakes nobody."""

    def actors() -> Actors:
        items: list[Any] = []
        sleepers: list[Letter] = []

        def box(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Poll":
                return bool(items)
            if what == "Put":
                items.append(payload)
                while sleepers:
                    yield Answer(sleepers.pop())
            elif not fixed or not items:
                sleepers.append((yield Later()))

        def consumer(toy: Toy, what: str, payload: Any) -> Turn:
            if not (yield Ask("box", "Poll")):
                yield Ask("box", "Wait")

        late, _ = hops("producer", 6, "box")
        return {"box": box, "consumer": consumer} | late

    return Scene(actors, [("main.p", "producer.0", "Put", 1), *go("consumer")])


def announce(*, fixed: bool) -> Scene:
    """Announce after arm: the timer may fire before anybody knows what it is for."""

    def actors() -> Actors:
        known: list[str] = []

        def hub(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Announce":
                known.append("due")
            elif known:
                yield Commit({"fired": True})

        def actor(toy: Toy, what: str, payload: Any) -> Turn:
            if fixed:
                yield Ask("hub", "Announce")
                yield Arm(1, "hub", "Due")
            else:
                yield Arm(1, "hub", "Due")
                yield Commit({"armed": True})
                yield Ask("hub", "Announce")

        return {"actor": actor, "hub": hub}

    def check(toy: Toy) -> None:
        assert toy.journal.get("fired"), "it was due and nobody heard of it"

    return Scene(actors, go("actor"), check)


PLANTED: dict[str, tuple[Callable[..., Scene], Rules]] = {
    "read-then-max": (allocators, Rules()),
    "bump before fence": (takeover, ANYTIME),
    "two-transaction finalise": (finalise, Rules()),
    "ancestor pool": (pool, Rules()),
    "lost wake-up": (wake_up, Rules()),
    "announce after arm": (announce, ANYTIME),
}


# --- to compare searches --------------------------------------------------------------------------


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
