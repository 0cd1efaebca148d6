"""What a journal refuses, and how it is lost."""

from __future__ import annotations

from ._base import TrouperError


class StoreError(TrouperError):
    """Root of what a store raises."""


class PathRefused(StoreError):
    """No store can be opened at this path. ``reason`` says why; nothing was changed there."""

    path: str
    reason: str


class StoreOwned(StoreError):
    """Another live process owns this store."""

    pid: int


class StoreFull(StoreError):
    """Disk or map is full. Nothing of this unit was written; retry when there is room."""


class StoreLost(StoreError):
    """A commit failed half-way: outcome unknown. Reopen the store; what it holds then decides."""


class StoreDamaged(StoreError):
    """The file does not hold a sound store. It was not touched."""

    where: str


class CorruptRecord(StoreError):
    """One row does not match its checksum or its kind. Other rows are fine."""

    table: str
    key: str


class FormatTooNew(StoreError):
    """The store, or a row in it, was written by a newer version. It was not touched."""


class UpcastFailed(StoreError):
    """An older record cannot be read: its upcaster is missing, or failed. It was not touched."""

    kind: str
    version: int


class WrongEngine(StoreError):
    """The file is an LMDB file of another data format."""


class ForeignFork(StoreError):
    """The store was opened by the parent of this process; a fork must not touch it."""


class StoreClosed(StoreError):
    """The store is not open (any more)."""


class ValueRefused(StoreError):
    """A value lies outside what the journal carries. ``path`` says where inside it."""

    path: str
    reason: str


class TooLarge(StoreError):
    """A value is larger than the store's limit for one value."""


class FenceMoved(StoreError):
    """Somebody else owns this row now. Nothing was written; this owner's work is not counted."""
