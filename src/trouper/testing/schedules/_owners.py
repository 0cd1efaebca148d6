"""Whose task is it? By the name that events carry."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from trio.lowlevel import Task, current_task

from ...mailbox import Job
from ...mailbox._worker import IDLE_NAME

if TYPE_CHECKING:
    from ...actors._runtime import Runtime
    from ...mailbox import Mailbox
    from ...mailbox._worker import Worker


@final
class Owners:
    """Knows the names of tasks: actors and their children, jobs, clients, work beside actors."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._prefix = ""
        self._named: dict[Task, str | None] = {}
        self._next: list[str | None] = []
        self._counts: dict[str, int] = {}
        self._shorts: dict[Mailbox | Job, str] = {}

    def attach(self, runtime: Runtime) -> None:
        """Begin with the system of another life."""
        self._runtime = runtime
        self._prefix = f"/{runtime.name}/"
        self._counts.clear()
        self._shorts.clear()

    def short(self, path: str) -> str:
        """Return the path of an actor without the system in front of it."""
        return path.removeprefix(self._prefix)

    def actors(self) -> frozenset[str]:
        """Return the names of the actors that there are."""
        runtime = self._runtime
        found = () if runtime is None else runtime.walk()
        return frozenset(self.short(ref.path) for ref in found)

    def name(self, task: Task, name: str | None) -> None:
        """Name a task, and with it the tasks below it; None: it is nobody's."""
        self._named[task] = name

    @contextmanager
    def naming(self, name: str | None) -> Generator[None]:
        """Name the task that is started in this block."""
        self._next.append(name)
        try:
            yield
        finally:
            self._next.pop()

    def spawned(self, task: Task) -> None:
        """Hear that a task was made."""
        if self._next:
            self._named[task] = self._next[-1]
            return
        runtime = self._runtime
        if runtime is None or task.parent_nursery is not runtime.dispatcher.nursery:
            return
        if task.name == IDLE_NAME:
            self._named[task] = None
        else:
            name = self.short(task.name)
            self._counts[name] = number = self._counts.get(name, 0) + 1
            self._named[task] = name if number == 1 else f"{name}#{number}"

    def exited(self, task: Task) -> None:
        """Hear that a task has ended."""
        self._named.pop(task, None)

    def of_current(self) -> str | None:
        """Return the name of whoever acts now, or None: nobody, or the driver."""
        try:
            return self.of(current_task())
        except RuntimeError:  # a callback of the loop
            return None

    def of(self, task: Task) -> str | None:
        """Return whose task it is, or None."""
        runtime = self._runtime
        if runtime is not None and runtime.dispatcher.hosts:
            # not `mailbox_of`, which keeps what it finds: a worker that begins is none yet
            box = runtime.dispatcher.hosted_mailbox(task)
            if box is not None:
                return self.short(box.path)
        workers: Mapping[Task, Worker] = {} if runtime is None else runtime.dispatcher.workers
        at: Task | None = task
        while at is not None:
            worker = workers.get(at)
            if worker is not None:
                running = worker.running
                if isinstance(running, Job) and running.box is not None:
                    running = running.box
                if running is not None:
                    name = self._shorts.get(running)
                    if name is None:
                        name = self._shorts[running] = self.short(running.path)
                    return name
                return self._named.get(at)
            if at in self._named:
                return self._named[at]
            at = at.parent_nursery.parent_task if at.parent_nursery is not None else None
        return None
