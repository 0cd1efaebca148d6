"""The eventsourcing library on SQLite: aggregates kept in its cache, one save per message."""

from __future__ import annotations

from uuid import NAMESPACE_URL, uuid5

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from .disk import WARM, Marked, Sample, place


class Counter(Aggregate):
    @event("Opened")
    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0

    @staticmethod
    def create_id(name: str):  # type: ignore[no-untyped-def]
        return uuid5(NAMESPACE_URL, name)

    @event("Added")
    def add(self, n: int) -> None:
        self.total += n


class Bench(Application):
    def add(self, name: str, n: int) -> int:
        counter: Counter = self.repository.get(Counter.create_id(name))
        counter.add(n)
        self.save(counter)
        return counter.total


def message(ops: int, actors: int) -> Sample:
    with place() as where:
        app = Bench(
            {
                "PERSISTENCE_MODULE": "eventsourcing.sqlite",
                "SQLITE_DBNAME": str(where / "db"),
                "AGGREGATE_CACHE_MAXSIZE": "0",  # no limit
                "DEEPCOPY_FROM_AGGREGATE_CACHE": "n",
            }
        )
        try:
            names = [f"actor {number}" for number in range(actors)]
            app.save(*[Counter(name=name) for name in names])
            for number in range(WARM):
                app.add(names[number % actors], 1)
            with Marked() as watch:
                for number in range(ops):
                    app.add(names[number % actors], 1)
        finally:
            app.close()
    return watch.sample(ops)


BENCHES = {"tell": message, "ask": message, "askers": lambda ops, _: message(ops, 1)}
