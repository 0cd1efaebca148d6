"""The row types that the journal suite writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...store import record


@record("conformance.row")
@dataclass(frozen=True, slots=True)
class Row:
    """A row with a name, a number and any profile value."""

    name: str
    number: int = 0
    value: Any = None


@record("conformance.other")
@dataclass(frozen=True, slots=True)
class Other:
    """A row of another kind."""

    name: str
