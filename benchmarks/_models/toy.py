"""Actors in plain Python, as a `World`: handlers are generators that yield what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from trouper.testing.schedules import Event, Footprint, Play, Wait, player


@dataclass(frozen=True)
class Ask:
    """Waits for the answer; with ``within``, not longer than that, and gives up."""

    target: str
    what: str
    payload: Any = None
    within: float | None = None


@dataclass(frozen=True)
class Both:
    """Waits for two answers, which may come in any order."""

    one: Ask
    other: Ask


@dataclass(frozen=True)
class Tell:
    """Waits for room when the target's mailbox is bounded and full."""

    target: str
    what: str
    payload: Any = None


@dataclass(frozen=True)
class Commit:
    """Waits until it has returned; with ``fence``, writes nothing once ``fence`` is higher."""

    writes: dict[str, Any]
    name: str = "rows"
    fence: int | None = None


@dataclass(frozen=True)
class Read:
    key: str


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Arm:
    """Lets a timer send a message later; armed again, the earlier one is gone."""

    seconds: float
    target: str
    what: str


@dataclass(frozen=True)
class Disarm:
    what: str


@dataclass(frozen=True)
class Touch:
    """Uses an object in memory that others use."""

    name: str


@dataclass(frozen=True)
class Later:
    """Leaves the ask in hand open and returns a key for `Answer`."""


@dataclass(frozen=True)
class Answer:
    key: Letter
    value: Any = None


Turn: TypeAlias = Generator[Any, Any, Any]
Handler: TypeAlias = Callable[["Toy", str, Any], Turn]
Mail: TypeAlias = tuple[str, str, str, Any]  # sender, target, what, payload


@dataclass
class Scene:
    """What a toy world is made of. Everything volatile is made anew by ``actors``."""

    actors: Callable[[], dict[str, Handler]]
    mail: list[Mail]
    check: Callable[[Toy], None] = lambda toy: None
    recover: Callable[[Toy], list[Mail]] = lambda toy: []
    crashes: int = 0
    capacity: dict[str, int] = field(default_factory=dict)


@dataclass
class Letter:
    event: Event
    payload: Any
    asker: str | None = None


@dataclass
class Running:
    turn: Turn
    letter: Letter
    wait: Wait | None = None
    is_open: bool = True  # the ask in hand is answered at the end of the turn
    asked: list[Event] = field(default_factory=list)  # what it waits for
    answers: dict[Event, Any] = field(default_factory=dict)
    timeout: Event | None = None


class Toy:
    """A `World` made of a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.journal: dict[str, Any] = {}
        self.log: list[tuple[str, str, Any]] = []  # every write: actor, key, value
        self.now = 0.0
        self.life = 0
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._boot()

    def _boot(self) -> None:
        self.actors = self.scene.actors()
        self._mail: dict[str, list[Letter]] = {name: [] for name in self.actors}
        self._parked: dict[str, list[tuple[str, Letter]]] = {name: [] for name in self.actors}
        self._running: dict[str, Running] = {}
        self._ready: dict[Event, tuple[Event | None, Any]] = {}  # replies: to what, the value
        self._commits: dict[Event, Commit] = {}
        self._timers: dict[Event, tuple[float, Arm | None]] = {}
        self._armed: dict[tuple[str, str], Event] = {}

    def _mint(self, kind: Any, target: str, sender: str, what: str) -> Event:
        key = (kind, target, sender, what, self.life)
        self._counts[key] += 1
        return Event(kind, target, sender, what, self._counts[key], self.life)

    # --- World ------------------------------------------------------------------------------------

    def begin(self) -> Sequence[Event]:
        return [self._post(*mail) for mail in self.scene.mail]

    def _post(self, sender: str, target: str, what: str, payload: Any) -> Event:
        event = self._mint("deliver", target, sender, what)
        self._mail[target].append(Letter(event, payload))
        return event

    def enabled(self) -> Sequence[Event]:
        found = [
            letter.event
            for actor, mail in self._mail.items()
            for letter in mail
            if actor not in self._running
        ]
        found += [*self._ready, *self._commits]
        found += sorted(self._timers, key=lambda event: (self._timers[event][0], event))[:1]
        if self.life < self.scene.crashes:
            found.append(Event("crash", "journal", sequence=self.life + 1, life=self.life))
        return found

    def waits(self) -> Sequence[Wait]:
        return [run.wait for run in self._running.values() if run.wait is not None]

    def finish(self) -> None:
        self.scene.check(self)

    def step(self, event: Event) -> Footprint:
        self._creates: list[Event] = []
        self._reads: set[str] = set()
        self._writes: set[str] = set()
        self._shares: set[str] = set()
        self._withdrawn: list[Event] = []
        self._arms = False
        getattr(self, f"_on_{event.kind}")(event)
        return Footprint(
            tuple(self._creates),
            tuple(self._withdrawn),
            frozenset(self._reads),
            frozenset(self._writes),
            frozenset(self._shares),
            self._arms,
            event.target in self._running and event.kind != "crash",
        )

    # --- events -----------------------------------------------------------------------------------

    def _on_deliver(self, event: Event) -> None:
        mail = self._mail[event.target]
        letter = next(letter for letter in mail if letter.event == event)
        mail.remove(letter)
        if event.target in self.scene.capacity:
            self._shares.add(f"mail of {event.target}")
            if self._parked[event.target]:
                sender, waiting = self._parked[event.target].pop(0)
                mail.append(waiting)
                self._bear(sender, event.target, "room", None, None)
                self._creates.append(waiting.event)
        turn = self.actors[event.target](self, event.what, letter.payload)
        self._running[event.target] = Running(turn, letter)
        self._go_on(event.target, None)

    def _bear(self, asker: str, sender: str, what: str, to: Event | None, value: Any) -> None:
        event = self._mint("reply", asker, sender, what)
        self._ready[event] = to, value
        self._creates.append(event)

    def _answer(self, letter: Letter, value: Any) -> None:
        if letter.asker is not None:
            event = letter.event
            self._bear(letter.asker, event.target, event.what, event, value)

    def _on_reply(self, event: Event) -> None:
        to, value = self._ready.pop(event)
        run = self._running.get(event.target)
        if to is None:
            self._go_on(event.target, value)
        elif run is not None and to in run.asked:  # else it gave up
            run.answers[to] = value
            if len(run.answers) == len(run.asked):
                if run.timeout is not None:
                    self._arms = True
                    del self._timers[run.timeout]
                    self._withdrawn.append(run.timeout)
                answers = [run.answers[ask] for ask in run.asked]
                self._go_on(event.target, answers if len(answers) > 1 else answers[0])

    def _on_commit(self, event: Event) -> None:
        commit = self._commits.pop(event)
        if commit.fence is not None:
            self._reads.add("fence")
            if self.journal.get("fence", 0) > commit.fence:
                self._go_on(event.target, False)
                return
        for key, value in commit.writes.items():
            self._writes.add(key)
            self.journal[key] = value
            self.log.append((event.target, key, value))
        self._go_on(event.target, True)

    def _on_timer(self, event: Event) -> None:
        self.now, arm = self._timers.pop(event)
        if event.what == "timeout":
            self._give_up(event.target)
        elif arm is None:
            self._go_on(event.target, None)
        else:
            if arm.target in self.scene.capacity:
                self._shares.add(f"mail of {arm.target}")
            self._creates.append(self._post(event.target, arm.target, arm.what, None))

    def _give_up(self, actor: str) -> None:
        for ask in self._running[actor].asked:
            self._withdrawn.append(ask)
            mail = self._mail[ask.target]
            mail[:] = [letter for letter in mail if letter.event != ask]
            if ask.target in self.scene.capacity:
                self._shares.add(f"mail of {ask.target}")
        self._go_on(actor, None)

    def _on_crash(self, event: Event) -> None:
        self.life += 1
        self._boot()
        self._creates += [self._post(*mail) for mail in self.scene.recover(self)]

    # --- turns ------------------------------------------------------------------------------------

    def _go_on(self, actor: str, value: Any) -> None:
        run = self._running[actor]
        run.wait, run.timeout = None, None
        run.asked, run.answers = [], {}
        while True:
            try:
                wish = run.turn.send(value)
            except StopIteration as stop:
                del self._running[actor]
                if run.is_open:
                    self._answer(run.letter, stop.value)
                return
            waits, value = self._grant(actor, run, wish)
            if waits:
                return

    def _grant(self, actor: str, run: Running, wish: Any) -> tuple[bool, Any]:
        match wish:
            case Ask(target, what, payload, within):
                run.wait = Wait(actor, target, what)
                if target in self.scene.capacity:
                    self._shares.add(f"mail of {target}")
                event = self._mint("deliver", target, actor, what)
                self._mail[target].append(Letter(event, payload, actor))
                self._creates.append(event)
                run.asked.append(event)
                if within is not None:
                    run.timeout = self._start(actor, actor, "timeout", within, None)
                return True, None
            case Both(one, other):
                self._grant(actor, run, one)
                return self._grant(actor, run, other)
            case Tell(target, what, payload):
                return self._send(actor, run, wish), None
            case Commit(name=name):
                event = self._mint("commit", actor, "journal", name)
                self._commits[event] = wish
                self._creates.append(event)
                return True, None
            case Read(key):
                self._reads.add(key)
                return False, self.journal.get(key)
            case Sleep(seconds):
                self._start(actor, actor, "sleep", seconds, None)
                return True, None
            case Arm(seconds, target, what):
                self._disarm(actor, what)
                self._armed[actor, what] = self._start(
                    actor, f"timer of {target}", what, seconds, wish
                )
                return False, None
            case Disarm(what):
                self._disarm(actor, what)
                return False, None
            case Touch(name):
                self._shares.add(name)
                return False, None
            case Later():
                run.is_open = False
                return False, run.letter
            case Answer(key, answer):
                self._answer(key, answer)
                return False, None
        raise AssertionError(wish)

    def _start(self, actor: str, target: str, what: str, seconds: float, arm: Arm | None) -> Event:
        self._arms = True
        event = self._mint("timer", target, actor, what)
        self._timers[event] = (self.now + seconds, arm)
        self._creates.append(event)
        return event

    def _disarm(self, actor: str, what: str) -> None:
        self._arms = True
        event = self._armed.pop((actor, what), None)
        if event is not None and self._timers.pop(event, None) is not None:
            self._withdrawn.append(event)

    def _send(self, actor: str, run: Running, tell: Tell) -> bool:
        room = self.scene.capacity.get(tell.target)
        event = self._mint("deliver", tell.target, actor, tell.what)
        letter = Letter(event, tell.payload)
        if room is not None:
            self._shares.add(f"mail of {tell.target}")
            if len(self._mail[tell.target]) >= room:
                run.wait = Wait(actor, tell.target, "room")
                self._parked[tell.target].append((actor, letter))
                return True
        self._mail[tell.target].append(letter)
        self._creates.append(event)
        return False


def play_of(scene: Scene) -> Play:
    return player(lambda: Toy(scene))
