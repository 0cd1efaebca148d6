"""The store's own row, in a table of its own beside those of `TABLES`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ._records import record

OWN_TABLE: Final = "store"
OWN_KEY: Final = b"state"


@record("store.state")
@dataclass(frozen=True, slots=True)
class StoreState:
    """What a store knows about itself. Format 2: these fields."""

    format: int
    uuid: str
    created_by: str
    epoch: int  # how often it was opened
    head: int  # the last log sequence, as of the last commit that deleted from the log
