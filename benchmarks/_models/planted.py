"""Small programs with planted bugs, beside their fixed forms.

A planted bug never shows in the ordinary order: something staggers it, as the rest of a program
would. `noise` adds messages that nothing depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from trouper.testing.schedules import Rules

from .toy import (
    Answer,
    Arm,
    Ask,
    Commit,
    Handler,
    Later,
    Letter,
    Mail,
    Read,
    Scene,
    Tell,
    Toy,
    Turn,
)

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
    """The same, with unrelated messages before and after: half as many actors that tell one."""
    pairs = messages // 2

    def actors() -> Actors:
        def handler(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Go":
                yield Tell("noise sink", "Noise")

        noisy = {f"noise{n}": handler for n in range(pairs)}
        return scene.actors() | noisy | {"noise sink": handler}

    more = go(*(f"noise{n}" for n in range(pairs)))
    mail = [*more[: pairs // 2], *scene.mail, *more[pairs // 2 :]]
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


def takeover(rows: int = 1, *, fixed: bool) -> Scene:
    """Bump before fence: the successor of a lease starts before the old owner is fenced off.

    With more rows each owner has a worker per row.
    """
    workers = ["", *(f".{n}" for n in range(1, rows))]

    def actors() -> Actors:
        def owner(epoch: int, row: str) -> Handler:
            def handler(toy: Toy, what: str, payload: Any) -> Turn:
                if (yield Read(row)) is None:
                    yield Commit({row: epoch}, fence=epoch)

            return handler

        def supervisor(toy: Toy, what: str, payload: Any) -> Turn:
            if what == "Go":
                for worker in workers:
                    yield Tell(f"old{worker}", "Work")
                yield Arm(30, "supervisor", "Lease")
                return
            if fixed:
                yield Commit({"fence": 2}, "fence")
            for worker in workers:
                yield Tell(f"new{worker}", "Work")
            if not fixed:
                yield Ask("registry", "Moved")
                yield Commit({"fence": 2}, "fence")

        owners = {
            f"{name}{worker}": owner(epoch, f"row{worker}")
            for name, epoch in (("old", 1), ("new", 2))
            for worker in workers
        }
        return {"supervisor": supervisor, "registry": plain(lambda what, payload: None)} | owners

    def check(toy: Toy) -> None:
        for worker in workers:
            rows = [value for _, key, value in toy.log if key == f"row{worker}"]
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
