"""What an effect host offers, as the base class of hosts that do no groups."""

from __future__ import annotations

from typing import Any

from ...errors import EffectGroupsUnsupported
from ._group import EffectGroup
from ._handle import GroupHandle, Settlement
from ._policy import Disposition


class EffectHostBase:
    """A host without groups: refuses every group method alike, and journals nothing."""

    @property
    def supports_groups(self) -> bool:
        """Tell whether a runner resolver is registered; nothing else decides it."""
        return False

    async def open_group(self, group: EffectGroup, *, consumed: int = 0) -> GroupHandle:
        """Refuse."""
        raise self.unsupported("open")

    async def next_settlement(self, handle: GroupHandle) -> Settlement:
        """Refuse."""
        raise self.unsupported("next")

    async def next_settlements(self, handle: GroupHandle) -> list[Settlement]:
        """Return what is recorded above the cursor; one at a time, where a host knows no better."""
        return [await self.next_settlement(handle)]

    async def close_group(self, handle: GroupHandle, disposition: Disposition) -> None:
        """Refuse."""
        raise self.unsupported("close")

    async def signal(
        self,
        scope: str,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of whoever sends
    ) -> None:
        """Refuse."""
        raise self.unsupported("signal")

    async def retire(self, key: str) -> None:
        """Refuse."""
        raise self.unsupported("retire")

    async def retire_scope(self, scope: str) -> None:
        """Refuse."""
        raise self.unsupported("retire")

    def unsupported(self, verb: str) -> EffectGroupsUnsupported:
        """Build the one refusal of a host that does not do groups."""
        return EffectGroupsUnsupported(
            f"{verb} refused: no runner resolver is registered on this host; register one first",
            verb=verb,
        )
