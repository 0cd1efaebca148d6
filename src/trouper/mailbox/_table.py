"""The handler table of a receiver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

# (is it a coroutine function, does it take the context, the function)
Handler: TypeAlias = tuple[bool, bool, Callable[..., Any]]
Table: TypeAlias = dict[type[Any], Handler]

# What a closed mailbox accepts.
CLOSED: Final[Table] = {}
