"""What a group is, without a store: the pure reference that every host is compared with.

Plain values and no await. It knows what is recorded, what runs in the life that there is, and what
each verb answers; nothing in it is taken from an implementation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Word = Literal["run_to_completion", "cancel"]
Answer = Literal["done", "shape", "closed", "busy", "retired"]


@dataclass(slots=True)
class ModelGroup:
    """One group: what is durable of it, and which of its children run now."""

    size: int
    declared: Word
    effective: Word
    ranks: list[tuple[int, str]]  # position, end; for good
    running: set[int]
    closes: int = 0
    retired: bool = False

    @property
    def unsettled(self) -> list[int]:
        """Return the positions without a rank."""
        settled = {position for position, _ in self.ranks}
        return [position for position in range(self.size) if position not in settled]


class Model:
    """The groups of one journal and one host, by key."""

    def __init__(self) -> None:
        self.groups: dict[str, ModelGroup] = {}

    def open(self, key: str, size: int, declared: Word) -> Answer:
        """Open or reopen: what is open runs; what is closed dispatches nothing."""
        group = self.groups.setdefault(key, ModelGroup(size, declared, declared, [], set()))
        if group.retired:
            return "retired"
        if not group.closes:
            group.running.update(group.unsettled)
        return "done"

    def finish(self, key: str, position: int, end: str) -> None:
        """Let a running child end: its rank is the next one."""
        group = self.groups[key]
        group.running.discard(position)
        group.ranks.append((position, end))

    def close(self, key: str, seen: int, asked: Word) -> Answer:
        """Close with a handle that has seen so many closes; narrows, and cancels what runs."""
        group = self.groups[key]
        if group.retired:
            return "done"
        if group.effective == "cancel" and asked != "cancel":
            return "shape"
        group.effective = asked
        if seen == group.closes:
            group.closes += 1
        if asked == "cancel":
            for position in sorted(group.running):
                self.finish(key, position, "cancelled")
        return "done"

    def read(self, key: str, seen: int) -> Answer:
        """Tell what reading with a handle that has seen so many closes comes to."""
        group = self.groups[key]
        if group.retired:
            return "retired"
        return "closed" if seen < group.closes else "done"

    def drain(self, key: str) -> None:
        """Drain a group of which nothing runs, under ``cancel``: it journals, and runs nothing."""
        for position in self.groups[key].unsettled:
            self.finish(key, position, "cancelled")

    def retire(self, key: str) -> Answer:
        """Retire: only what is closed and settled goes, and then it is gone."""
        group = self.groups[key]
        if not group.retired and (not group.closes or group.unsettled):
            return "busy"
        group.retired = True
        return "done"

    def die(self) -> None:
        """End the life: what ran has no end, and what was recorded is recorded."""
        for group in self.groups.values():
            group.running.clear()
