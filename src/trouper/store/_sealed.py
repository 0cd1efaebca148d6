"""Rows that are encoded before their unit runs.

A unit runs on the writer's thread, together with others. What is encoded by whom it comes from,
where it comes from, is refused there too: a value outside the profile fails its message and not the
unit of many messages that it would have been part of.
"""

from __future__ import annotations

from typing import final


@final
class Sealed:
    """The frame of one record, ready to be put under one key. Made by `Store.seal`."""

    __slots__ = ("frame", "key")

    def __init__(self, key: bytes, frame: bytes) -> None:
        self.key = key
        self.frame = frame

    def __len__(self) -> int:
        return len(self.frame)

    def under(self, key: bytes) -> bytes:
        """Return the frame. Its checksum covers the key, so it is good under that one only."""
        if key != self.key:
            raise ValueError(f"sealed for key {self.key.hex()}, put under {key.hex()}")
        return self.frame
