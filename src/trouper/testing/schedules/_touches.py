"""Who touched what last: what the next one to touch it comes after."""

from __future__ import annotations

from typing import final

from ._event import Accesses, Resource


@final
class LastTouches:
    """By resource, the last step to write it and those that read it since. Steps are numbers."""

    def __init__(self) -> None:
        self._writers: dict[Resource, int] = {}
        self._readers: dict[Resource, list[int]] = {}

    def before(self, touched: Accesses) -> tuple[int, ...]:
        """Return the last steps that one which touches this would depend on."""
        reads, writes = touched
        writers, readers = self._writers, self._readers
        found: set[int] = set()
        for resource in writes:
            if (writer := writers.get(resource)) is not None:
                found.add(writer)
            if readers and (those := readers.get(resource)) is not None:
                found.update(those)
        for resource in reads:
            if (writer := writers.get(resource)) is not None:
                found.add(writer)
        return tuple(sorted(found)) if len(found) > 1 else tuple(found)

    def touch(self, touched: Accesses, node: int) -> tuple[int, ...]:
        """Take in what a step touched; return what it came after because of that."""
        reads, writes = touched
        writers, readers = self._writers, self._readers
        found: set[int] = set()
        for resource in writes:
            if (writer := writers.get(resource)) is not None:
                found.add(writer)
            writers[resource] = node
            if readers and (those := readers.pop(resource, None)) is not None:
                found.update(those)
        for resource in reads:
            if resource not in writes:
                if (writer := writers.get(resource)) is not None:
                    found.add(writer)
                if (those := readers.get(resource)) is None:
                    readers[resource] = [node]
                else:
                    those.append(node)
        return tuple(sorted(found)) if len(found) > 1 else tuple(found)
